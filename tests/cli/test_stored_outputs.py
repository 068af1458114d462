"""What the commands print about a small data set, to the letter, as stored beside this test.

Every command runs in a folder of its own with files that are made by the library, so that a
changed command fails alone.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.helpers import golden
from tests.helpers.command import of_width, run
from unmask import TopK, data, linear, predictions, propensity

N, L = 80, 8
DEMO = {"seed": 5, "n_features": 40, "n_labels": L}

COMMANDS = {
    "info": "info rows.txt",
    "info, JSON": "info rows.txt --json",
    "info, names": "info table.jsonl",
    "propensity": "propensity rows.txt -o p.txt",
    "propensity, JSON": "propensity rows.txt --propensity jain:0.5,0.4 --lowest 0.4 --json",
    "propensity, audit": "propensity seen.txt --audit seen.txt rows.txt",
    "hide": "hide rows.txt -o hidden.txt --propensity constant:0.5 --seed 3",
    "hide, JSON": "hide rows.txt -o hidden.txt --propensity inverse_linear --json",
    "convert": "convert rows.txt rows.svm",
    "convert, names": "convert table.jsonl -o rows.csv --to csv",
    "train": "train rows.txt -o model --loss logistic --C 0.05 --block 3 --threads 1",
    "train, JSON": "train rows.txt -o model --threads 1 --json",
    "predict": "predict trained rows.txt -o out.txt --k 3",
    "predict, JSON": "predict trained rows.txt -o out.txt --k 2 --json",
    "evaluate": "evaluate --labels seen.txt --predictions top.txt --propensity p-in.txt",
    "evaluate, CSV": "evaluate --labels seen.txt --predictions top.txt --propensity p-in.txt"
    " --metrics P@1,R@3,PSP@3 --confidence 0.9 --csv",
    "evaluate, two": "evaluate --labels seen.txt --predictions top.txt --compare other.txt"
    " --propensity p-in.txt --metrics P@3",
    "evaluate, sensitivity": "evaluate --labels seen.txt --predictions top.txt --train rows.txt"
    " --sensitivity jain --metrics P@3",
    "diagnose": "diagnose seen.txt --propensity p-in.txt",
    "diagnose, audit": "diagnose seen.txt --propensity p-in.txt --audit seen.txt rows.txt",
    "audit plan": "audit plan --labels seen.txt --predictions top.txt --budget 12 -o judged",
    "no such file": "info absent.txt",
    "rows that do not fit": "evaluate --labels short.txt --predictions top.txt --train rows.txt",
}


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


@pytest.mark.parametrize("name", COMMANDS)
def test_outputs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path)
    monkeypatch.chdir(tmp_path)
    of_width(monkeypatch, 100)
    result = run(*COMMANDS[name].split())
    text = f"{result.stdout}\n-- {result.returncode} --\n{result.stderr}"
    text = text.replace(str(tmp_path), "FOLDER").replace("\r", "\n")
    lines = (re.sub(r"\d+(\.\d+)? m?s\b|\d+(\.\d+)? [kMG]i?B", "#", line).rstrip()
             for line in text.splitlines() if "━" not in line and "bytes" not in line)  # fmt: skip
    golden.check(golden.file_name("outputs", "cli"), "\n".join(lines), name)
