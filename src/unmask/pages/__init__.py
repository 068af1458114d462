"""Pages: a page is sections of text, tables and charts; commands store records, and those are read.

A page is data first (`parts`): sections of sentences, facts, tables, verdicts, commands and three
kinds of charts (`lines`, `dots` with intervals, `steps`). Whoever wants a page of their own, as
studies do, puts one together and writes it:

    Page(title, summary, [Section(title, [Text(…), Table(columns, rows), Chart(kind, series)])])
    write(page, "page.html")            one file that loads nothing
    write_markdown(page, "page.md")     with its drawings as SVG in a folder beside it
    save(chart, "chart.svg")            a drawing or table as .svg, .png, .csv or .json
    figure(chart)                       a matplotlib figure, for a notebook

What commands print with `--json` are `to_dict()` of the library's results, and pages are made of
exactly that: `read` the records of a file, put them on one `page`, `write_records` them as HTML.
`KINDS` says what is shown of every kind of record (`evaluation`, `records`, `audit`, `labels`,
`estimates`), and a `PageKind` of one's own adds another. Nothing is computed again. `judging` is a
page on which a person answers, `demo` that of `unmask demo`.

>>> import tempfile
>>> recall = Series("unbiased", [0.1, 1.0], [0.6, 0.5], low=[0.0, 0.4], high=[2.0, 0.6])
>>> chart = Chart("lines", [recall], title="Recall", x="propensity", y=Axis("R@5", low=0))
>>> made = Page("A study", summary=["It holds."], sections=[Section("Estimates", [chart])])
>>> write(made, tempfile.mkdtemp() + "/report.html").name
'report.html'
"""

from unmask.pages.files import figure, render, save, write, write_markdown
from unmask.pages.judging import write_judging
from unmask.pages.parts import (
    Axis,
    Chart,
    Commands,
    Estimate,
    Page,
    Panels,
    Rule,
    Section,
    Series,
    Table,
    Text,
    Verdict,
)
from unmask.pages.records import KINDS, PageKind, heading, page, read, write_records

__all__ = [
    "KINDS",
    "Axis",
    "Chart",
    "Commands",
    "Estimate",
    "Page",
    "PageKind",
    "Panels",
    "Rule",
    "Section",
    "Series",
    "Table",
    "Text",
    "Verdict",
    "figure",
    "heading",
    "page",
    "read",
    "render",
    "save",
    "write",
    "write_judging",
    "write_markdown",
    "write_records",
]
