"""What commands say about a small data set: sentences and figures for people, keys for programs.

Every command runs in a folder with files that are made by the library.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.command import of_width, run
from unmask import TopK, data, linear, predictions, propensity

N, L = 80, 8
DEMO = {"seed": 5, "n_features": 40, "n_labels": L}
EVALUATE = "evaluate --labels seen.txt --predictions top.txt"
CONDITION = "by the propensities in p-in.txt"

SAID: dict[str, tuple[str, ...]] = {
    "info rows.txt": (
        "rows.txt (xc)", "rows 80", "labels per row 2.663", "largest row (labels) 7",
        "rows by number of labels", "2 25 ██████████████████████████████",
    ),
    "info table.jsonl": (
        "table.jsonl (jsonl)", "features –", "their share of all labels 0.8", "column of ids id",
        "layout wide", "most frequent labels", "x 9 l0 3 l1 2",
    ),
    "propensity rows.txt -o p.txt": ("jain: propensities of 8 labels", "1 58 0.6283 1.592"),
    "propensity seen.txt --audit seen.txt rows.txt": (
        "audit: propensities of 8 labels, 95% intervals", "1 33 0.8784 0.7586 0.9607 36",
        "a = 1.02, from 0.456 to 10", "concentration = 8.95", "b is hardly determined",
    ),
    "hide rows.txt -o hidden.txt --propensity constant:0.5 --seed 3": (
        "true labels 213 kept 100 hidden 113 rows left without label 20 written to hidden.txt",
    ),
    "convert rows.txt rows.svm": ("read rows.txt (xc) written rows.svm",),
    "convert table.jsonl -o rows.csv --to csv": ("written rows.csv",),
    "train rows.txt -o model --loss logistic --C 0.05 --block 3 --threads 1": (
        "model of one-vs-all, the best there is below 20,000 labels", "correction vanilla",
        "because no propensities were stated or audited", "weights kept dense", "model model",
    ),
    "predict trained rows.txt -o out.txt --k 3": ("rows 80 labels per row 3 written to out.txt",),
    f"{EVALUATE} --propensity p-in.txt": (
        f"If labels go missing independently, {CONDITION}, which nothing in this run contradicts, "
        "R@5 is 0.989 (0.904 to 1.000, deconvolved); audit some hundred rows to measure it.",
        "metric vanilla unbiased deconvolved normalized",
        "R@5 0.8465 ± 0.0773 1.0098 ± 0.0640 0.9885 ± 0.0482",
        "vanilla: treats the observed labels as all the true ones",
        "doubtful: measures the observed labels only",
        "unusable: 1.0098 is more than the metric can be",
        "how far conditional numbers move", "p off by ≤ 1.5 × p off by ≤ 2 × lost together",
        "R@5 deconvolved 0.989 0.828 to 0.998 0.814 to 1.000 0.989 to 1.000",
    ),
    f"{EVALUATE} --compare other.txt --propensity p-in.txt --metrics P@3": (
        "top.txt is better than other.txt in P@3: 0.147 (0.068 to 0.225, unbiased)",
        "too wide to use", "how far the difference of other.txt moves",
        "P@3 unbiased −0.147 −0.221 to −0.107 −0.294 to −0.096 > 10",
        "difference to top.txt, paired over rows", "P@3 vanilla −0.0917 [−0.1388, −0.0445]",
        "other.txt scores lower than top.txt (p = 0.0015)",
    ),
    f"{EVALUATE} --train rows.txt --sensitivity jain --metrics P@3": (
        "by Jain's formula with a = 0.55, b = 1.5", "the same under other propensities",
        "metric a = 0.5, b = 0.4 a = 0.55, b = 1.5 a = 0.6, b = 2.6",
        "P@3 unbiased 0.740 0.790 0.818",
    ),
    "diagnose seen.txt --propensity p-in.txt": (
        "seen.txt, 80 rows, 8 labels, propensities p-in.txt",
        "verdict: Nothing in this run contradicts the propensities in p-in.txt",
        "warning: How exact unbiased metrics",
        "130 labels are worth 120 of equal weight",
        "info: No test contradicts the propensities 7 tests, none rejected",
        "→ An audit of some hundred rows tells",
    ),
    "diagnose seen.txt --propensity p-in.txt --audit seen.txt rows.txt": (
        "16 tests, none rejected", "Not tested with this audit",
    ),
    "audit plan --labels seen.txt --predictions top.txt --budget 12 -o judged": (
        "to judge 12 rows of 80 rows × 8 labels design simple made for P@5, R@5",
        "expected half-width of the 95 % interval", "P@5 0.4353 0.2656 0.1375",
        "Judges see row names only", "Labels are shown by their numbers",
        "next: unmask audit page judged -o judge.html",
    ),
}  # fmt: skip
"""Words that the output of a command has, in this order, whatever the width of the terminal."""

KEYS: dict[str, set[str]] = {
    "info rows.txt": {
        "n", "d", "L", "labels_per_row", "rows_per_label", "features_per_row", "empty_rows",
        "unused_labels", "tail_labels", "largest_row", "most_frequent", "label_count_histogram",
        "source", "frequent_labels",
    },
    "propensity rows.txt --propensity jain:0.5,0.4 --lowest 0.4": {"model", "propensity"},
    "propensity seen.txt --audit seen.txt rows.txt": {
        "method", "confidence", "value", "low", "high", "evidence", "notes", "curve",
    },
    "hide rows.txt -o hidden.txt --propensity inverse_linear": {
        "true labels", "kept", "hidden", "rows left without label", "written to",
    },
    "convert rows.txt rows.svm": {"read", "written", "bytes"},
    "train rows.txt -o model --threads 1": {
        "model of", "labels", "features", "correction", "because", "weights kept", "bytes", "model",
    },
    "train rows.txt --plan": {
        "rows", "features", "labels", "block", "tasks", "workers", "threads", "memory", "available",
        "features_bytes", "task_bytes", "seconds_per_label", "seconds", "model_bytes", "sampled",
    },
    "predict trained rows.txt -o out.txt --k 2": {"rows", "labels per row", "written to"},
    f"{EVALUATE} --propensity p-in.txt": {
        "kind", "source", "command", "headline", "run", "estimates", "moves", "comparison",
        "sensitivity", "differences", "rankings", "labels",
    },
    "diagnose seen.txt --propensity p-in.txt": {
        "kind", "source", "command", "severity", "verdict", "findings", "tests", "labels",
    },
    "audit plan --labels seen.txt --predictions top.txt --budget 12 -o judged": {
        "to judge", "of", "design", "made for", "vocabulary", "seeds", "folder", "expected",
    },
}  # fmt: skip
"""Keys that programs may rely on, by command, which is called with --json."""


def fill(folder: Path) -> None:
    rows = data.synthetic.planted(N, **DEMO)
    seen = data.hide(rows.labels, np.linspace(0.4, 0.9, L), seed=1)
    data.write(folder / "rows.txt", rows)
    data.write(folder / "seen.txt", data.Dataset(rows.features, seen))
    data.write(folder / "short.txt", data.Dataset(rows.features[:7], seen[:7]))
    lines = [f'{{"id": "d{i}", "text": "word {i % 3} and more", "labels": ["l{i % 4}", "x"]}}\n'
             for i in range(9)]  # fmt: skip
    (folder / "table.jsonl").write_text("".join(lines), encoding="utf-8")
    rng = np.random.default_rng(2)
    for name, noise in (("top", 0.5), ("other", 0.9)):
        scores = rows.labels.toarray() + rng.normal(0, noise, (N, L))
        predictions.write(folder / f"{name}.txt", TopK.from_scores(scores, 5))
    propensity.write(folder / "p-in.txt", np.linspace(0.4, 0.9, L))
    model, _ = linear.train(rows.features, rows.labels, linear.Recipe(loss="logistic"))
    linear.save(folder / "trained", model)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    fill(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_must_be_said_is_said_in_this_order(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_width(monkeypatch, 100)
    for command, sentences in SAID.items():
        result = run(*command.split(), "-q")
        assert (result.returncode, result.stderr) == (0, ""), command
        assert all(len(line) <= 100 for line in result.stdout.splitlines()), command
        text, place = " ".join(result.stdout.replace("─", "").split()), 0
        for sentence in sentences:
            assert sentence in text[place:], (command, sentence, text[place:])
            place = text.index(sentence, place)


def test_programs_find_the_keys_that_they_rely_on(folder: Path) -> None:
    for command, keys in KEYS.items():
        name = command.split()[1] if command.startswith("audit") else command.split()[0]
        for old in ("model", "judged"):
            if (folder / old).exists():
                (folder / old).rename(folder / f"{old} before {name} {len(command)}")
        result = run(*command.split(), "--json", "-q")
        assert result.returncode == 0, result.stderr
        record: dict[str, Any] = json.loads(result.stdout)
        assert keys <= record.keys(), (command, keys - record.keys())
        extra = record.keys() - keys
        assert name == "diagnose" or not extra, (command, extra)


def test_csv_has_a_line_per_estimate(folder: Path) -> None:
    asked = "--propensity p-in.txt --metrics P@1,R@3,PSP@3 --confidence 0.9 --csv"
    lines = list(csv.DictReader(io.StringIO(run(*EVALUATE.split(), *asked.split()).stdout)))
    assert [(line["metric"], line["estimator"]) for line in lines] == [
        *((metric, name) for metric in ("P@1", "R@3")
          for name in ("vanilla", "unbiased", "deconvolved")),
        ("PSP@3", "normalized"),
    ]  # fmt: skip
    first, second = lines[:2]
    assert float(first["value"]) == pytest.approx(0.525, abs=1e-12)
    assert float(first["low"]) == pytest.approx(0.4322356610239304, abs=1e-12)
    assert (first["level"], first["reason"]) == ("doubtful", "biased-by-design")
    assert (second["level"], second["advice"]) == ("wide", "more-rows")
    assert second["condition"] == f"if labels go missing independently, {CONDITION}"
    assert float(second["standard_error"]) == pytest.approx(0.10150477017415574, abs=1e-12)


def test_files_that_are_missing_or_do_not_fit_are_named(folder: Path) -> None:
    for command, message in (
        ("info absent.txt", "there is no file or folder absent.txt, nor files named absent.txt_X"),
        (
            "evaluate --labels short.txt --predictions top.txt --train rows.txt",
            "predictions and labels must have the same rows; got 80 and 7.",
        ),
    ):
        result = run(*command.split(), "-q")
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.startswith(f"unmask: {message}")
