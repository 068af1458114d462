"""Reports: a page of sentences, facts, tables, charts and verdicts, as one self-contained file.

This room knows nothing of labels: others say what stands on a page, it says how that looks.
Parts are frozen records (`parts`, `charts`); functions draw (`drawing`), place (`html`) and write
(`files`) them. Every chart and table is data first and can be saved as such.

>>> import tempfile
>>> recall = Series("unbiased", [0.1, 1.0], [0.6, 0.5], low=[0.0, 0.4], high=[2.0, 0.6])
>>> chart = Chart("lines", [recall], title="Recall", x="propensity", y=Axis("R@5", low=0))
>>> page = Page("A study", summary=["It holds."], sections=[Section("Estimates", [chart])])
>>> write(page, tempfile.mkdtemp() + "/report.html").name
'report.html'
"""

from unmask.report.charts import KINDS, Axis, Chart, Note, Panels, Rule, Series
from unmask.report.files import save, write
from unmask.report.html import render
from unmask.report.markdown import write_markdown
from unmask.report.page import (
    LEVELS,
    Column,
    Commands,
    Estimate,
    Facts,
    Page,
    Section,
    Table,
    Text,
    Verdict,
    Verdicts,
)
from unmask.report.styles import PALETTE, STYLES, Style, styles
from unmask.report.tables import harmless, rows

__all__ = [
    "KINDS",
    "LEVELS",
    "PALETTE",
    "STYLES",
    "Axis",
    "Chart",
    "Column",
    "Commands",
    "Estimate",
    "Facts",
    "Note",
    "Page",
    "Panels",
    "Rule",
    "Section",
    "Series",
    "Style",
    "Table",
    "Text",
    "Verdict",
    "Verdicts",
    "harmless",
    "render",
    "rows",
    "save",
    "styles",
    "write",
    "write_markdown",
]
