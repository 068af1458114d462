"""Reports: a page of sentences, facts, tables, charts and verdicts, as one self-contained file.

This room says how things look and knows nothing of labels: others say what stands on a page.
Parts are frozen records (`page`, `charts`); functions draw (`drawing`), arrange (`html`,
`markdown`) and write (`files`) them; a `questionnaire` is a page on which a person answers. Every
chart and table is data first and can be saved as such.

>>> import tempfile
>>> recall = Series("unbiased", [0.1, 1.0], [0.6, 0.5], low=[0.0, 0.4], high=[2.0, 0.6])
>>> chart = Chart("lines", [recall], title="Recall", x="propensity", y=Axis("R@5", low=0))
>>> page = Page("A study", summary=["It holds."], sections=[Section("Estimates", [chart])])
>>> write(page, tempfile.mkdtemp() + "/report.html").name
'report.html'
"""

from unmask.report.charts import (
    KINDS,
    PALETTE,
    Axis,
    Chart,
    Drawing,
    Note,
    Panels,
    Rule,
    Series,
    Style,
    Styles,
    assign_styles,
)
from unmask.report.files import figure, save, write
from unmask.report.format import format_value, printable
from unmask.report.html import render
from unmask.report.markdown import write_markdown
from unmask.report.page import (
    LEVELS,
    Cell,
    Column,
    Commands,
    Estimate,
    Facts,
    Page,
    Part,
    Section,
    Table,
    Text,
    Verdict,
    Verdicts,
)
from unmask.report.questionnaire import (
    ANSWERS,
    Passage,
    Question,
    Questionnaire,
    render_questionnaire,
    write_questionnaire,
)
from unmask.report.tables import csv_of, harmless, json_of, latex_of, markdown_of, rows, text_of

__all__ = [
    "ANSWERS",
    "KINDS",
    "LEVELS",
    "PALETTE",
    "Axis",
    "Cell",
    "Chart",
    "Column",
    "Commands",
    "Drawing",
    "Estimate",
    "Facts",
    "Note",
    "Page",
    "Panels",
    "Part",
    "Passage",
    "Question",
    "Questionnaire",
    "Rule",
    "Section",
    "Series",
    "Style",
    "Styles",
    "Table",
    "Text",
    "Verdict",
    "Verdicts",
    "assign_styles",
    "csv_of",
    "figure",
    "format_value",
    "harmless",
    "json_of",
    "latex_of",
    "markdown_of",
    "printable",
    "render",
    "render_questionnaire",
    "rows",
    "save",
    "text_of",
    "write",
    "write_markdown",
    "write_questionnaire",
]
