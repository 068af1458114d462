"""Seven shapes of data, ids shuffled: train, predict, evaluate, report, with names everywhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers import tagged
from tests.helpers.command import run
from tests.helpers.tagged import Row
from unmask import data, predictions

TRAIN, TEST = tagged.rows(160, seed=3), tagged.rows(60, first=500, seed=4)


def wide_csv(folder: Path, name: str, table: list[Row]) -> Path:
    return tagged.write_csv(folder / f"{name}.csv", table)


def semicolons(folder: Path, name: str, table: list[Row]) -> Path:
    """As a spreadsheet in Europe saves it: `;` between fields, Windows lines, a byte-order mark."""
    lines = ["doc_id;text;subjects"]
    lines += [f'{r.id};{r.text};"{"|".join(r.tags)}"' for r in table]
    path = folder / f"{name}.csv"
    path.write_bytes("\ufeff".encode() + "\r\n".join(lines).encode())
    return path


def tabs(folder: Path, name: str, table: list[Row]) -> Path:
    path = folder / f"{name}.tsv"
    lines = ["id\ttext\ttags", *(f"{r.id}\t{r.text}\t{json.dumps(r.tags)}" for r in table)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def json_lines(folder: Path, name: str, table: list[Row]) -> Path:
    path = folder / f"{name}.jsonl"
    path.write_text("\n".join(json.dumps(row._asdict()) for row in table))
    return path


def json_list(folder: Path, name: str, table: list[Row]) -> Path:
    path = folder / f"{name}.json"
    path.write_text(json.dumps([row._asdict() for row in table]), encoding="utf-8")
    return path


def packed(folder: Path, name: str, table: list[Row]) -> Path:
    path = folder / f"{name}.csv.gz"
    whole = data.read([list(row.tags) for row in table])
    ids, texts = [r.id for r in table], [r.text for r in table]
    data.write(
        path, data.Dataset(None, whole.labels, label_names=whole.label_names, ids=ids, texts=texts)
    )
    return path


def archive(folder: Path, name: str, table: list[Row]) -> Path:
    path = packed(folder, name, table)
    data.write(folder / f"{name}.npz", data.read(path, text="text"))
    return folder / f"{name}.npz"


SHAPES: dict[str, Callable[[Path, str, list[Row]], Path]] = {
    "CSV": wide_csv,
    "spreadsheet": semicolons,
    "TSV with lists": tabs,
    "JSON lines": json_lines,
    "JSON": json_list,
    "packed CSV": packed,
    "archive": archive,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_names_survive_the_whole_way(tmp_path: Path, shape: str) -> None:
    make = SHAPES[shape]
    train, test = make(tmp_path, "train", TRAIN), make(tmp_path, "test", tagged.shuffled(TEST))
    new = make(tmp_path, "new", TEST)
    text = () if shape == "archive" else ("--text", "text")
    model, top, record, page = (
        tmp_path / name for name in ("model", "top.csv", "evaluation.json", "page.html")
    )
    for arguments in (
        ("train", train, *text, "-o", model, "-q"),
        ("predict", model, new, *text, "-o", top, "-q"),
    ):
        result = run(*arguments)
        assert result.returncode == 0, result.stderr
    result = run("evaluate", "--labels", test, "--predictions", top, "--train", train,
                 "--metrics", "P@1,R@3", "--json", "-q")  # fmt: skip
    assert result.returncode == 0, result.stderr
    record.write_text(result.stdout)
    assert {row["label"] for row in json.loads(result.stdout)["per_label"]} == set(tagged.WORDS)
    precision = next(e["value"] for e in json.loads(result.stdout)["estimates"])
    assert precision > 0.5  # rows met their own predictions
    assert run("report", record, "-o", page).returncode == 0
    for name in ("physics", "生物学", "tax &amp; revenue", r"\x1b[31m"):
        assert name in page.read_text(encoding="utf-8")
    assert set(predictions.read(top).names or ()) == set(tagged.WORDS)
