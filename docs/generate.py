"""What the documents take from the code: tables of the registries, and pictures.

    python docs/generate.py             write the tables into the pages that ask for them
    python docs/generate.py --pictures  and draw docs/pictures/ anew (a minute)

A page asks with `<!-- table: name -->`; what stands between that line and `<!-- end -->` is ours.
The tests hold the tables to the registries, and what is said of speed to benchmarks/results.csv.
Pictures are drawn from the demo, seed 0.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from unmask import losses, report
from unmask.losses import describe
from unmask.metrics import ESTIMATORS, METRICS
from unmask.propensity import MODELS, PRESETS
from unmask.weights import CORRECTIONS

if TYPE_CHECKING:
    from unmask.pages.demo import Demo

DOCS = Path(__file__).resolve().parent
RESULTS = DOCS.parent / "benchmarks" / "results.csv"
SLOT = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str) -> str:
    """A page with its tables as the code has them now."""
    return SLOT.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n\n{found[3]}", text)


def estimator_table() -> str:
    """What each estimator does, and its caution."""
    return _table(
        ["estimator", "what it does", "caution"],
        [[f"`{name}`", e.meaning, e.caution or "–"] for name, e in ESTIMATORS.items()],
    )


def support_table() -> str:
    """Which estimator estimates which metric."""
    heads = [f"`{name}`" for name in ESTIMATORS]
    return _table(
        ["metric", "meaning", *heads],
        [
            [f"`{name}`", m.meaning, *("✓" if e in m.estimators else "" for e in ESTIMATORS)]
            for name, m in METRICS.items()
        ],
    )


def loss_table() -> str:
    """Convexity, lower bound and consistency of every loss under every correction."""
    rows = []
    for name, loss in losses.LOSSES.items():
        for normalized in (False, True):
            if not (normalized and loss.reduction == "pairwise"):
                kind = "normalised" if normalized else "plain"
                cells = [_promise(loss, each, normalized) for each in CORRECTIONS]
                rows.append([f"`{name}`", loss.reduction, kind, *cells, _target(loss, normalized)])
    heads = [f"`{each}`" for each in CORRECTIONS]
    return _table(["loss", "reduction", "weights", *heads, "consistent for"], rows)


def _promise(loss: losses.Loss, correction: str, normalized: bool) -> str:
    try:
        answer = describe(loss, correction, normalized=normalized)
    except ValueError:  # empirical Bayes is for normalised weights only
        return "–"
    shape = "convex" if answer.convex else "not convex"
    return f"{shape}, {'bounded' if answer.bounded_below else '**unbounded**'}"


def _target(loss: losses.Loss, normalized: bool) -> str:
    return describe(loss, "unbiased", normalized=normalized).consistent_for or "–"


def propensity_table() -> str:
    """Models by name, as every command takes them."""
    return _table(
        ["`--propensity`", "meaning"],
        [[f"`{name}`", MEANINGS[name]] for name in MODELS],
    )


MEANINGS = {
    "jain": "Jain model; `jain:a,b` with own constants, `jain:DATASET` with those of a preset",
    "constant": "`constant:0.3`: the same for every label",
    "inverse_linear": "`inverse_linear:2,20`: 1/p linear in the rank of the label, head to tail",
}


def preset_table() -> str:
    """Constants of public data sets."""
    return _table(["data set", "a", "b"], [[p.name, f"{p.a:g}", f"{p.b:g}"] for p in PRESETS])


class Claim(NamedTuple):
    """A row of the README: what, its sentence, and the script and names of its numbers."""

    what: str
    sentence: str
    script: str
    names: tuple[str, ...]
    arguments: str = ""


CLAIMS = (
    Claim(
        "exact unbiased recall for rows of any length",
        "{} × faster than the sum over subsets at 15 labels, {} × at 20",
        "normalized_weights",
        tuple(f"{m} labels, sum over subsets / ours" for m in (15, 20)),
    ),
    Claim(
        "corrected linear training",
        "{} × faster than napkinXC on one thread, same P@k",
        "linear",
        ("debtags training, one thread, napkinXC / ours",),
    ),
    Claim(
        "evaluation",
        "{} × faster than pyxclib, metric for metric",
        "metrics",
        ("four metrics, pyxclib / ours",),
    ),
    Claim(
        "a corrected loss in torch",
        "{} of the time of `BCEWithLogitsLoss` for 512 rows of 13,330 labels",
        "torch_losses",
        ("13,330 labels, dearest correction / BCE",),
        " 1",
    ),
    Claim(
        "strict, fast files",
        "{} × faster than scikit-learn's reader on one thread, {} × on two",
        "read",
        tuple(f"load_svmlight_file / ours, {threads}" for threads in ("one thread", "two threads")),
    ),
)


def benchmark_table() -> str:
    """What was measured beside other software, when and where."""
    with RESULTS.open(encoding="utf-8", newline="") as lines:
        measured = {(row["script"], row["name"]): row for row in csv.DictReader(lines)}
    rows, places = [], {}
    for claim in CLAIMS:
        results = [measured[claim.script, name] for name in claim.names]
        sentence = claim.sentence.format(*(_two_digits(float(r["value"])) for r in results))
        command = f"`python benchmarks/{claim.script}.py{claim.arguments}`"
        rows.append([claim.what, sentence, command])
        for each in results:
            scripts = places.setdefault((each["date"], each["machine"]), [])
            scripts += [claim.script] if claim.script not in scripts else []
    lines = [
        f"- {day}, {machine}: {', '.join(f'`{name}`' for name in scripts)}"
        for (day, machine), scripts in places.items()
    ]
    table = _table(["what", "measured", "by"], rows)
    return f"{table}\n\nMeasured on:\n\n" + "\n".join(lines)


def _two_digits(value: float) -> str:
    """A number to two significant digits.

    >>> [_two_digits(value) for value in (0.553, 6.04, 6.94, 14.2, 8812.0, 1_912_345.0)]
    ['0.55', '6', '6.9', '14', '8,800', '1,900,000']
    """
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


def room_table() -> str:
    """Every room with its own sentence and the dependencies that it alone imports."""
    sys.path.insert(0, str(DOCS.parent / "tools"))  # no part of the package
    import rooms

    owned = {room: [name for name, owners in rooms.OWNERS.items() if room in owners]
             for floor in rooms.FLOORS for room in floor}  # fmt: skip
    return _table(
        ["floor", "room", "what it says of itself", "imports alone"],
        [
            [str(number), f"`{room}`", rooms.sentence(room), ", ".join(owned[room])]
            for number, floor in enumerate(rooms.FLOORS)
            for room in sorted(floor)
        ],
    )


def _table(heads: list[str], rows: Iterable[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in r) + " |" for r in lines
    )


TABLES: dict[str, Callable[[], str]] = {
    "estimators": estimator_table,
    "support": support_table,
    "losses": loss_table,
    "propensities": propensity_table,
    "presets": preset_table,
    "rooms": room_table,
    "benchmarks": benchmark_table,
}


def draw() -> None:
    """The pictures of the README and of the pages, from one run of the demo."""
    from unmask.metrics import charts
    from unmask.pages import label_figures
    from unmask_studies import demo

    found = demo.run()
    rows = found.histogram.sum()
    shares = (found.histogram / rows, found.true_histogram / rows, found.fitted)
    pictures = {
        "overview": _overview(found),
        "curves": label_figures.curves(
            range(1, len(found.curve) + 1), *found.curve.T, of="true entries"
        ),
        "counts": label_figures.counts(
            **dict(zip(("observed", "truth", "deconvolved"), shares, strict=True))
        ),
        "sensitivity": charts.along(
            found.sensitivity.to_dicts(),
            rules={m: found.scores["unbiased"][m, "vanilla"].value for m in ("P@1", "R@5")},
        ),
    }
    (DOCS / "pictures").mkdir(exist_ok=True)
    for name, picture in pictures.items():
        report.save(picture, DOCS / "pictures" / f"{name}.svg")


def _overview(found: Demo) -> report.Panels:
    """Recall of four models on true labels; estimates of one of them from hidden labels."""
    share = f"{1 - found.total.lost:.0%}".replace("%", " %")
    seen = f"{share} of them"
    recall = {name: table["R@5", "vanilla"].value for name, table in found.scores.items()}
    words = {
        "complete": "all labels",
        "vanilla": f"{seen}, as is",
        "vanilla, tuned": "the same, C tuned",
        "unbiased": f"{seen}, weighted",
    }
    trained = [report.Series(name, [words[name]], [value]) for name, value in recall.items()]
    shown = [found.estimates["R@5", name] for name in ("vanilla", "bound", "deconvolved")]
    estimates = [
        report.Series(e.estimator, [e.estimator], [e.value], [e.interval[0]], [e.interval[1]])
        for e in shown
    ]
    return report.Panels(
        [
            report.Chart("dots", trained, title="Trained on …: true recall@5",
                         y=report.Axis("", low=0.5, high=1)),
            report.Chart("dots", estimates, title=f"Recall@5, estimated from {share} of the labels",
                         y=report.Axis("", low=0, high=1.8),
                         rules=[report.Rule("truth", recall["unbiased"])]),
        ]
    )  # fmt: skip


def main() -> None:
    """Write what differs."""
    for page in sorted([DOCS.parent / "README.md", *DOCS.rglob("*.md")]):
        text = page.read_text(encoding="utf-8")
        if (new := filled(text)) != text:
            page.write_text(new, encoding="utf-8")
            print(f"{page.relative_to(DOCS.parent)}: tables written")
    if "--pictures" in sys.argv:
        draw()


if __name__ == "__main__":
    main()
