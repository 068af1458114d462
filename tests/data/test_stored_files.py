"""Small files in every text format, sound and damaged: what is read, and what is said, as stored.

The files are a few bytes, so that the loops over bytes can also be run without the compiler.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers import golden
from unmask import TopK, data, predictions

XC = "3 4 5\n0,2 0:1 3:0.5\n\t1:2\n4 2:-1.5e-3 3:7\n"
FILES: dict[str, tuple[str, str]] = {
    "xc": ("a.txt", XC),
    "xc, line ends of Windows": ("a.txt", XC.replace("\n", "\r\n")),
    "xc, no last line end": ("a.txt", XC.rstrip("\n")),
    "xc, blanks": ("a.txt", "2 3 2\n0,1  0:1\t2:3 \n 1:4\n"),
    "xc, numbers": ("a.txt", "1 9 1\n0 0:+1 1:-.5 2:2. 3:1e3 4:1E-3 5:12345678901234567890 6:0.1"
                             " 7:1e-45 8:3.4028235e38\n"),
    "xc, long fraction": ("a.txt", "1 3 1\n0 0:0.30000001192092895507812499 1:1e22"
                                   " 2:9007199254740993\n"),
    "xc, label too high": ("a.txt", "1 2 2\n2 0:1\n"),
    "xc, feature too high": ("a.txt", "1 2 2\n1 2:1\n"),
    "xc, label twice": ("a.txt", "1 2 2\n1,1 0:1\n"),
    "xc, feature twice": ("a.txt", "1 2 2\n1 0:1 0:2\n"),
    "xc, unsorted": ("a.txt", "1 4 4\n3,1 2:1 0:2\n"),
    "xc, no value": ("a.txt", "1 2 2\n1 0:\n"),
    "xc, bad value": ("a.txt", "1 2 2\n1 0:1x\n"),
    "xc, infinite": ("a.txt", "1 2 2\n1 0:inf\n"),
    "xc, overflow": ("a.txt", "1 2 2\n1 0:1e39\n"),
    "xc, bad label": ("a.txt", "1 2 2\nx 0:1\n"),
    "xc, bad feature": ("a.txt", "1 2 2\n1 x:1\n"),
    "xc, too few lines": ("a.txt", "3 2 2\n1 0:1\n"),
    "xc, too many lines": ("a.txt", "1 2 2\n1 0:1\n0 1:1\n"),
    "xc, bad header": ("a.txt", "1 2 x\n1 0:1\n"),
    "empty": ("a.txt", ""),
    "libsvm": ("a.svm", "0,2 1:1 3:0.5 # words\n1 2:3\n"),
    "libsvm, from 0": ("a.svm", "0 0:1 3:0.5\n1 2\n"),
    "csv": ("a.csv", "id,text,labels\na,one,x;y\nb,\"two, three\",\nc,\"say \"\"no\"\"\",z\n"),
    "tsv": ("a.tsv", "id\ttext\tlabels\na\tone\tx;y\nb\ttwo\tz\n"),
    "csv, broken quote": ("a.csv", "id,labels\na,\"x\" y\nb,z\n"),
    "csv, stray quote": ("a.csv", "id,labels\na,x\"y\nb,z\n"),
    "csv, too many fields": ("a.csv", "id,labels\na,x,y\n"),
    "csv, too few fields": ("a.csv", "id,text,labels\na,x\n"),
    "csv, id twice": ("a.csv", "id,labels\na,x\na,y\n"),
    "csv, empty name": ("a.csv", "id,labels\na,x;;y\n"),
    "csv, no labels": ("a.csv", "id,words\na,x\n"),
    "csv, wide": ("a.csv", "id,x,y,z\na,1,0,1\nb,0,0,1\n"),
    "csv, long form": ("a.csv", "id,label\na,x\na,y\nb,x\n"),
    "jsonl": ("a.jsonl", '{"id": "a", "text": "one", "labels": ["x", "y"]}\n'
                         '{"id": "b", "text": "two", "labels": []}\n'),
    "jsonl, broken": ("a.jsonl", '{"id": "a", "labels": ["x"]}\n{"id": "b", "labels"\n'),
    "csv, doubled quotes in names": ("a.csv", 'id,labels\na,"x ""1"";y"\nb,"x ""1"""\n'),
    "csv, empty lines and blanks": ("a.csv", "id,labels\n\na, x ; y ;\n\r\nb,\" z\"\r\n"),
    "csv, one column": ("a.csv", "labels\nx;y\n\nz\n"),
    "csv, unfinished quote": ("a.csv", 'id,labels\na,"x\n'),
    "csv, quote at the end": ("a.csv", 'id,labels\na,"x"'),
    "csv, only a delimiter": ("a.csv", "id,labels\na,;\n"),
    "csv, label twice": ("a.csv", "id,labels\na,x;x\n"),
    "csv, many names": ("a.csv", "id,labels\n" + "".join(
        f"row{i},{';'.join(f'label number {(7 * i + j) % 83}' for j in range(40))}\n"
        for i in range(4))),
    "labels, with ones": ("a.txt", "2 3\n0:1 2:1\n1:1\n"),
    "labels, separated": ("trn_X_Y.txt", "2 4\n0 2\n3,1\n"),
    "labels, not one": ("trn_X_Y.txt", "1 3\n0:2\n"),
    "labels, twice": ("trn_X_Y.txt", "1 3\n2,0,2\n"),
    "libsvm, long row": ("a.svm", "0 " + " ".join(
        f"{(37 * j) % 101}:{j}" for j in range(1, 90)) + "\n"),
    "libsvm, long row with one twice": ("a.svm", "0 " + " ".join(
        f"{(37 * j) % 50}:{j}" for j in range(1, 90)) + "\n"),
    "libsvm, empty line": ("a.svm", "0 1:1\n\n1 2:3\n"),
    "json": ("a.json", '[{"id": "a", "labels": ["x"]}, {"id": "b", "labels": "y"}]'),
}  # fmt: skip


def stored(text: str, name: str) -> None:
    """Numbers in files are exact."""
    golden.check(golden.file_name("files", "data"), text, name, rel=0, abs=0)


def of_matrix(matrix: sp.csr_array | None) -> str:
    if matrix is None:
        return "none"
    values = " ".join(f"{value:.9g}" for value in matrix.data)
    return f"{matrix.shape} {matrix.indptr.tolist()} {matrix.indices.tolist()} {values}"


def text_of(dataset: data.Dataset) -> str:
    lines = [f"features {of_matrix(dataset.features)}", f"labels {of_matrix(dataset.labels)}"]
    for name in ("ids", "label_names", "feature_names", "texts"):
        value = getattr(dataset, name, None)
        if value is not None:
            lines.append(f"{name} {list(value)}")
    return "\n".join(lines)


@pytest.mark.parametrize("name", FILES)
def test_reading(name: str, tmp_path: Path) -> None:
    file, contents = FILES[name]
    path = tmp_path / file
    path.write_bytes(contents.encode())
    options: dict[str, Any] = {"format": "labels"} if name.startswith("labels") else {}
    try:
        text = text_of(data.read(path, **options))
    except ValueError as error:
        text = str(error).replace(str(tmp_path), "FOLDER")
    stored(text, name)


@pytest.mark.parametrize("file", ["a.txt", "a.svm", "a.csv", "a.tsv", "a.jsonl"])
def test_writing(file: str, tmp_path: Path) -> None:
    values = np.array([[1, 0, 0.1], [0, -2.5e-7, 0], [0, 0, 3e20]], dtype=np.float32)
    features = sp.csr_array(values)
    labels = sp.csr_array(np.array([[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 1, 1]]))
    names = ["a", "b,c", 'd "e"', "ä"]
    try:
        if file.endswith((".txt", ".svm")):
            data.write(tmp_path / file, data.Dataset(features, labels))
        else:
            data.write(tmp_path / file, data.Dataset(None, labels, ids=["1", "2", "3"],
                                                     label_names=names))  # fmt: skip
        text = (tmp_path / file).read_text(encoding="utf-8")
    except ValueError as error:
        text = str(error).replace(str(tmp_path), "FOLDER")
    stored(text, f"written {file}")


PREDICTED = {
    "pairs": "2 4\n0:0.5 3:0.25\n1:1e-3\n",
    "unsorted": "1 4\n0:0.25 3:0.5\n",
    "label too high": "1 4\n4:0.5\n",
    "twice": "1 4\n3:0.5 3:0.5\n",
    "no number": "1 4\n3:x\n",
}


@pytest.mark.parametrize("name", PREDICTED)
def test_reading_predictions(name: str, tmp_path: Path) -> None:
    path = tmp_path / "top.txt"
    path.write_text(PREDICTED[name], encoding="utf-8")
    try:
        top = predictions.read(path)
        assert isinstance(top, TopK)
        text = f"{top.labels.tolist()} {top.scores.tolist()}"
        predictions.write(tmp_path / "again.txt", top)
        text += "\n" + (tmp_path / "again.txt").read_text(encoding="utf-8")
    except ValueError as error:
        text = str(error).replace(str(tmp_path), "FOLDER")
    stored(text, f"predictions, {name}")
