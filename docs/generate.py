"""What the documents take from the code: tables of the registries, and pictures.

    python docs/generate.py             write the tables into the pages that ask for them
    python docs/generate.py --pictures  and draw docs/pictures/ anew (a minute)
    python docs/generate.py --tutorials [NAME …]  run docs/tutorials/*.py and write their pages

A page asks with `<!-- table: name -->`; what stands between that line and `<!-- end -->` is ours.
The tests hold the tables to the registries, and what is said of speed to benchmarks/results.csv.
Pictures are drawn from the demo, seed 0.
"""

from __future__ import annotations

import csv
import hashlib
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unmask import losses, pages
from unmask.losses import describe
from unmask.metrics import ESTIMATORS, METRICS
from unmask.propensity import MODELS
from unmask.propensity.models import PRESETS
from unmask.weights import CORRECTIONS

if TYPE_CHECKING:
    from unmask.pages.demo import Demo
    from unmask_studies.study import Row

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent / "studies"))  # a package of its own, perhaps not installed
RESULTS = DOCS.parent / "benchmarks" / "results.csv"
ROWS = DOCS / "results" / "rows"
DATES = ROWS / "dates.csv"
"""When each file of rows was stored; a file that changed gets a new date by `make tables`."""
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
        "label trees",
        "{} × less processor time than omikuji for three trees of 24,626 labels, P@k not lower",
        "tree",
        ("finna, three trees, omikuji / ours, processor time",),
        " finna",
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


class MeasuredClaim(NamedTuple):
    """A claim with its numbers, and where and when they were measured."""

    what: str
    said: str
    command: str
    script: str
    date: str
    machine: str


def _measured_claims() -> list[MeasuredClaim]:
    with RESULTS.open(encoding="utf-8", newline="") as lines:
        measured = {(row["script"], row["name"]): row for row in csv.DictReader(lines)}
    claims = []
    for claim in CLAIMS:
        results = [measured[claim.script, name] for name in claim.names]
        sentence = claim.sentence.format(*(_two_digits(float(r["value"])) for r in results))
        command = f"python benchmarks/{claim.script}.py{claim.arguments}"
        day, machine = results[0]["date"], results[0]["machine"]
        claims.append(MeasuredClaim(claim.what, sentence, command, claim.script, day, machine))
    return claims


def benchmark_table() -> str:
    """What was measured beside other software, when and where."""
    claims, places = _measured_claims(), {}
    for claim in claims:
        places.setdefault((claim.date, claim.machine), []).append(claim.script)
    lines = [
        f"- {day}, {machine}: {', '.join(f'`{name}`' for name in dict.fromkeys(scripts))}"
        for (day, machine), scripts in places.items()
    ]
    rows = [[claim.what, claim.said, f"`{claim.command}`"] for claim in claims]
    return f"{_table(['what', 'measured', 'by'], rows)}\n\nMeasured on:\n\n" + "\n".join(lines)


def _two_digits(value: float) -> str:
    """A number to two significant digits.

    >>> [_two_digits(value) for value in (0.553, 6.04, 6.94, 14.2, 8812.0, 1_912_345.0)]
    ['0.55', '6', '6.9', '14', '8,800', '1,900,000']
    """
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


class Answer(NamedTuple):
    """What a study whose rows are stored comes to."""

    title: str
    sentence: str
    command: str
    date: str


@cache
def _answers() -> dict[str, Answer]:
    """Title, answer, command and date of every study whose rows are stored."""
    from unmask_studies import STUDIES, study

    stored, days = {}, _dates()
    for name, asked in STUDIES.items():
        for size in reversed(study.SIZES):
            path = study.rows_file(ROWS, name, size)
            if path.exists():
                answer = asked.answer(study.read_rows(path)) or "see the page"
                command = f"unmask reproduce {name} --size {size}"
                stored[name] = Answer(
                    asked.title, answer, command, days.get((path.name, _hash(path)), "undated")
                )
                break
    return stored


def _dates() -> dict[tuple[str, str], str]:
    """The day on which a file of rows was stored as it is, by its name and hash."""
    with DATES.open(encoding="utf-8", newline="") as lines:
        return {(row["file"], row["sha256"]): row["date"] for row in csv.DictReader(lines)}


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def note_dates() -> None:
    """Give rows that are new or changed the date of today."""
    days, today = _dates() if DATES.exists() else {}, date.today().isoformat()
    files = {(path.name, _hash(path)) for path in ROWS.glob("*.zst")}
    lines = [",".join([*each, days.get(each, today)]) for each in sorted(files)]
    DATES.write_text("\n".join(["file,sha256,date", *lines, ""]), encoding="utf-8")


def study_table() -> str:
    """Every study with its answer, as its page opens, in the order of the menu."""
    menu = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    order = re.findall(r"results/([\w-]+)[.]md", menu)
    answers = _answers()
    named = [name for name in order if name in answers]
    return _table(
        ["question", "answer", "stored"],
        [
            [f"[{answers[name].title}]({name}.md)", answers[name].sentence, answers[name].date]
            for name in [*named, *(name for name in answers if name not in named)]
        ],
    )


class Figure(NamedTuple):
    """A number that stands for a study, and what it is."""

    number: str
    meaning: str


def _reality_figure(rows: list[Row]) -> Figure:
    from unmask_studies.reality import held_by_audits

    held = held_by_audits(rows)
    return Figure(
        f"{np.mean(held):.0%}",
        f"of {len(held):,} intervals from audits of at least 100 rows hold the truth, on labels "
        "that people really left out; 95% is what they promise.",
    )


def _audit_figure(rows: list[Row]) -> Figure:
    from unmask_studies.audit import of_200_rows

    width, _ = of_200_rows(rows)
    return Figure(
        f"± {width:.3f}", "is how exactly 200 judged rows give R@5, whatever hid the labels."
    )


def _simulation_figure(rows: list[Row]) -> Figure:
    own = [r for r in rows if r["scenario"] == "independent"]
    lowest = min(r["severity"] for r in own)
    errors = {r["estimator"]: r["rmse"] for r in own if r["severity"] == lowest}
    ratio = errors["vanilla"] / errors["deconvolved"]
    return Figure(
        f"{ratio:.1f} ×",
        f"smaller error of recall when {1 - lowest:.0%} of the labels are missing, without an "
        f"audit: {errors['deconvolved']:.3f} corrected, {errors['vanilla']:.3f} as they are.",
    )


STRONGEST: dict[str, Callable[[list[Row]], Figure]] = {
    "reality": _reality_figure,
    "audit": _audit_figure,
    "recall-simulation": _simulation_figure,
}
"""The figures of the start page, by study."""


def strongest_figures() -> str:
    """The strongest evidence: a number each, what it is, and where it was measured."""
    from unmask_studies import study

    cards = []
    for name, figure_of in STRONGEST.items():
        number, meaning = figure_of(study.read_rows(study.rows_file(ROWS, name, "paper")))
        link = f"[{_answers()[name].title}](results/{name}.md)"
        cards += ['<div markdown="1">', f"**{number}**", meaning, link, "</div>"]
    return "\n\n".join(['<div class="figures" markdown="1">', *cards, "</div>"])


PROMISES = (
    ("a number that is right whatever hid the labels", "audit"),
    ("put to labels that people really left out", "reality"),
    ("recall when most labels are missing", "recall-simulation"),
    ("training that gets back what missing labels cost", "training"),
    ("F1, average precision and AUC, corrected", "sets"),
    ("wrong numbers that are not believed", "false-trust"),
)
"""What the README promises, and the study behind each."""


def promise_table() -> str:
    """Promises with the answers of their studies."""
    answers = _answers()
    return _table(
        ["what", "measured", "by"],
        [
            [what, answers[name].sentence, f"`{answers[name].command}`"]
            for what, name in PROMISES
            if name in answers
        ],
    )


def evidence_table() -> str:
    """One row per promise of the README: what was measured, by which command, when."""
    answers = _answers()
    studies = [
        [f"[{what}](results/{name}.md)", answers[name].sentence, f"`{answers[name].command}`",
         answers[name].date]
        for what, name in PROMISES if name in answers
    ]  # fmt: skip
    speed = [
        [claim.what, claim.said, f"`{claim.command}`", claim.date] for claim in _measured_claims()
    ]
    return _table(["promise", "measured", "by", "date"], [*studies, *speed])


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


def command_reference() -> str:
    """Every command with its options."""
    sys.path.insert(0, str(DOCS))  # no package
    import command_pages

    return command_pages.reference()


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
    "studies": study_table,
    "answers": strongest_figures,
    "promises": promise_table,
    "evidence": evidence_table,
    "commands": command_reference,
}


def draw() -> None:
    """The pictures of the README and of the pages, from one run of the demo."""
    from unmask import demo
    from unmask.pages import demo as demo_page
    from unmask.pages import estimates
    from unmask_studies import reality, study

    found = demo.run()
    pictures = {
        "overview": _overview(found),
        "curves": demo_page.curves(found),
        "counts": demo_page.counts(found),
        "sensitivity": estimates.along(
            found.sensitivity.to_dicts(),
            rules={metric: found.truth[metric] for metric in ("P@1", "R@5")},
        ),
    }
    rows = study.read_rows(study.rows_file(ROWS, "reality", "paper"))
    pictures["reality"] = reality.overview(rows)
    narrow = _for_phones(reality.overview(rows))
    (DOCS / "pictures").mkdir(exist_ok=True)
    (DOCS / "pictures" / "masks.svg").write_text(_masks(), encoding="utf-8")
    for name, picture in pictures.items():
        pages.save(picture, DOCS / "pictures" / f"{name}.svg")
    pages.save(narrow, DOCS / "pictures" / "reality-narrow.svg", width=PHONE)
    pages.save(pictures["reality"], DOCS / "pictures" / "card.png")  # what messengers show


PHONE = 3.4
"""Inches of a picture whose letters can be read on a phone."""
SHORT = {
    "objects in photographs": "photographs",
    "relations in texts": "texts",
    "functions of human genes": "human genes",
    "icon categories": "icons",
    "recorded labels": "recorded",
    "audit of 200 rows": "audit",
}
"""What the picture of the start page says where there is little room."""


def _for_phones(chart: pages.Chart) -> pages.Chart:
    """The picture of the start page with short names."""
    series = [
        replace(each, name=SHORT.get(each.name, each.name), x=[SHORT.get(x, x) for x in each.x])
        for each in chart.series
    ]
    return replace(chart, series=series, title="Recall at 3")


def _overview(found: Demo) -> pages.Panels:
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
    trained = [pages.Series(name, [words[name]], [value]) for name, value in recall.items()]
    shown = [found.estimates["R@5", name] for name in ("vanilla", "bound", "deconvolved")]
    estimates = [
        pages.Series(e.estimator, [e.estimator], [e.value], [e.interval[0]], [e.interval[1]])
        for e in shown
    ]
    return pages.Panels(
        [
            pages.Chart("dots", trained, title="Trained on …: true recall@5",
                         y=pages.Axis("", low=0.5, high=1)),
            pages.Chart("dots", estimates, title=f"Recall@5, estimated from {share} of the labels",
                         y=pages.Axis("", low=0, high=1.8),
                         rules=[pages.Rule("truth", recall["unbiased"])]),
        ]
    )  # fmt: skip


CELL, GAP = 11, 46
SHADES = {"recorded": "#0072b2", "missing": "#9ecae8", "wrong": "#d55e00", "none": "#8884"}


def _masks() -> str:
    """Five ways in which labels go missing: rows × labels, a square each, as SVG."""
    rng = np.random.default_rng(3)
    rows, labels = 14, 9
    truth = rng.random((rows, labels)) < 0.55
    draw = rng.random((rows, labels))
    effort = np.where(np.arange(rows) % 3 == 0, 0.1, 0.75)[:, None]
    salience = np.linspace(0.95, 0.1, labels)[None, :]
    nobody = (np.arange(rows) % 5 == 2)[:, None]
    panels = {
        "independent": draw < 0.5,
        "row effort": draw < effort,
        "unannotated": (draw < 0.65) & ~nobody,
        "salience": draw < salience,
        "wrong labels": draw < 0.5,
    }
    drawn = []
    for number, (title, kept) in enumerate(panels.items()):
        left = number * (labels * CELL + GAP)
        drawn.append(f'<text x="{left}" y="12">{title}</text>')
        for i, j in np.ndindex(rows, labels):
            shade = ("recorded" if kept[i, j] else "missing") if truth[i, j] else "none"
            if title == "wrong labels" and not truth[i, j] and draw[i, j] < 0.12:
                shade = "wrong"
            drawn.append(
                f'<rect x="{left + j * CELL}" y="{22 + i * CELL}" width="{CELL - 2}" '
                f'height="{CELL - 2}" fill="{SHADES[shade]}"/>'
            )
    key = 22 + rows * CELL + 14
    for number, (name, words) in enumerate(
        {"recorded": "true, recorded", "missing": "true, missing", "wrong": "recorded, not true",
         "none": "not true"}.items()
    ):  # fmt: skip
        x = number * 150
        drawn.append(
            f'<rect x="{x}" y="{key}" width="9" height="9" fill="{SHADES[name]}"/>'
            f'<text x="{x + 15}" y="{key + 9}">{words}</text>'
        )
    width = len(panels) * (labels * CELL + GAP) - GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {key + 14}" '
        'font-family="system-ui, sans-serif" font-size="12" fill="#808080">'
        + "".join(drawn) + "</svg>\n"
    )  # fmt: skip


def main() -> None:
    """Write what differs."""
    note_dates()
    for page in sorted([DOCS.parent / "README.md", *DOCS.rglob("*.md")]):
        text = page.read_text(encoding="utf-8")
        if (new := filled(text)) != text:
            page.write_text(new, encoding="utf-8")
            print(f"{page.relative_to(DOCS.parent)}: tables written")
    if "--pictures" in sys.argv:
        draw()
    if "--tutorials" in sys.argv:
        import tutorial_pages

        tutorial_pages.main()


if __name__ == "__main__":
    main()
