"""Pages with one of everything."""

from __future__ import annotations

import numpy as np

from unmask import pages
from unmask.pages import (
    Axis,
    Chart,
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
from unmask.pages.parts import Column, Facts, Note, Style, Verdicts

INK = Style("ink")
EVIL = "<script>alert('x')</script><img src=//x onerror=alert(1)> & \"quoted\" $5_6$ `"
"""Text that would be markup if it were not escaped."""


def rich_page() -> pages.Page:
    """One of everything, as a study would compose it."""
    p = np.linspace(0.1, 1, 19)
    names = ["vanilla", "unbiased", "bound", "deconvolved", "tempered", "clipped"]
    curves = [Series("truth", p, np.full(19, 0.5), style=INK)]
    for at, name in enumerate(names):
        mean = 0.5 * p ** [0.9, 0, -0.3, 0.05, 0.3, 0.2][at] + 0.01 * at
        sd = [0.01, 0.06, 0.03, 0.02, 0.02, 0.03][at] / p
        curves.append(Series(name, p, mean, low=mean - sd, high=mean + sd))
    over_p = Chart(
        "lines",
        curves[:5],
        title="Estimated recall over the propensity",
        x="propensity",
        y=Axis("R@1", low=0, high=1.25),
        caption="Bands are one standard deviation over 100 repetitions.",
    )
    grid = np.logspace(-7, 0, 11)
    gaps = Chart(
        "lines",
        [
            Series("noisy train", grid, 0.02 + 0.05 * grid**0.3),
            Series("clean train", grid, 0.06 + 0.04 * grid**0.25),
            Series("clean test", grid, 0.11 + 0.01 * (np.log10(grid) + 4) ** 2 / 5),
        ],
        title="Loss over regularisation",
        x=Axis("L2 penalty", log=True),
        y=Axis("loss", log=True),
        notes=[Note(1e-5, 0.023, to=0.062)],
    )
    dots = Panels(
        [
            Chart(
                "dots",
                [
                    Series(n, [n], [0.5 + 0.04 * i * k], low=[0.4 - 0.03 * i], high=[0.6 + 0.2 * i])
                    for i, n in enumerate(names)
                ],
                title=f"R@{k}",
                y=Axis("estimate", low=0.2, high=1.2),
                rules=[Rule("truth", 0.55, style=INK)],
            )
            for k in (1, 3, 5)
        ],
        title="Estimators against the truth",
        columns=3,
        share_x=True,
        caption="Intervals are 95 % bootstrap intervals; an arrow says that one goes on.",
    )
    edges = np.linspace(0, 4, 17)
    tail = np.exp(-edges[:-1])
    histogram = Panels(
        [
            Chart(
                "steps",
                [
                    Series("unbiased", edges, tail, low=tail * 0.8, high=tail * 1.2),
                    Series("vanilla", edges[:6], tail[:5] * 1.4, low=tail[:5], high=tail[:5] * 2),
                ],
                title=f"top {k}",
                x="recall of a row",
                y=Axis("share of rows", log=k == 5),
                rules=[Rule("unbiased", 0.9, "x"), Rule("vanilla", 0.5, "x")],
            )
            for k in (1, 5)
        ],
        title="Recall per row",
        share_y=False,
    )
    level = ["good", "error", "warning", "good", "info", "good"]
    words = ["usable", "do not use", "wide", "usable", "not tested", "usable"]
    table = pages.Table(
        [
            "estimator",
            Column("R@1", ".3f", help="recall at 1"),
            Column("R@5", ".1%"),
            "ESS",
            "verdict",
        ],
        [
            [
                name,
                Estimate(0.42 - 0.13 * i % 0.31, 0.40 - 0.1 * i, 0.44 + i) if i != 2 else None,
                Estimate(0.6 + 0.01 * i, error=0.01),
                12345 // (i + 1) ** 3,
                Verdict(level[i], words[i]),
            ]
            for i, name in enumerate(names)
        ],
        title="Recall, by estimator",
        caption="Intervals hold with 95 % probability.",
    )
    return pages.Page(
        "What missing labels do to these numbers",
        summary=[
            "Vanilla recall at 5 is 62.0 %; correcting for missing labels gives 78.3 % ± 0.9.",
            "The unbiased estimate cannot be used below a propensity of 0.4; use `deconvolved`.",
            "The ranking of both systems survives every propensity curve that the data admit.",
        ],
        sections=[
            pages.Section(
                "Data",
                [
                    Facts(
                        {
                            "rows": 2515,
                            "labels": 159,
                            "labels per row": 2.4,
                            "mean propensity": Estimate(0.41, error=0.02),
                            "masks": Verdict("warning", "dependent"),
                        }
                    ),
                    pages.Text("Labels were read from `test.txt`.\n\nPropensities are Jain's."),
                ],
            ),
            pages.Section("Estimates", [table, over_p, dots]),
            pages.Section("Training", [gaps, histogram]),
            pages.Section(
                "Verdicts",
                [
                    Verdicts(
                        [
                            Verdict(
                                "good",
                                "The propensities can be true",
                                "Likelihood ratio 1.2, p = 0.41.",
                            ),
                            Verdict(
                                "warning",
                                "The unbiased estimate is too uncertain here",
                                "Its effective sample size is 41 of 2,515 rows.",
                                "Use `deconvolved`, or label 300 more rows.",
                            ),
                            Verdict(
                                "error",
                                "Too few rows are empty",
                                "Under independent masks 12 % would be empty.",
                                "Ask how rows were selected.",
                            ),
                            Verdict("info", "31 labels have fewer than 5 positives"),
                        ]
                    )
                ],
            ),
            pages.Section(
                "Reproduce",
                [
                    pages.Commands(
                        [
                            "unmask evaluate pred.txt test.txt --html report.html",
                            "unmask diagnose test.txt --seed 0",
                        ]
                    )
                ],
            ),
        ],
        footer="Made by unmask 0.1.0, seed 0.",
    )


def everything_named(text: str) -> Page:
    chart = Chart(
        "lines",
        [Series(text, [1, 2], [3, 4]), Series("b", [1, 2], [1, 1])],
        title=text,
        x=text,
        y=text,
        caption=text,
        rules=[Rule(text, 3)],
        notes=[Note(1, 3, to=4)],
    )
    parts = [
        chart,
        Panels([chart], title=text, caption=text),
        Chart("dots", [Series(text, [text], [1.0])]),
        Table([Column(text, help=text)], [[text], [Verdict("info", text)]], text, text),
        Text(text),
        Facts({text: text}),
        Verdicts([Verdict("good", text, text, text)]),
        pages.Commands([text]),
    ]
    more = Section(text, [Text(text)])
    return Page(text, summary=[text], sections=[Section(text, parts), more, more], footer=text)


ONE_OF_EACH = {
    "lines": Chart("lines", [Series("a", [1, 2, 3], [1, None, 3], [0, 1, 2], [2, 3, 4])], x="n"),
    "dots": Chart("dots", [Series("a", ["p", "q"], [1.5, -2]), Series("b", ["q"], [1], [0], [2])]),
    "steps": Chart("steps", [Series("a", [0, 0.1, 1], [5, 7])], rules=[Rule("a", 0.3, "x")]),
}
"""One chart of every kind."""
