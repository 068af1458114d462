"""Folders of documents with their subjects, and vocabularies that name URIs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.command import run
from unmask import data

URI = "http://example.org/s/"


def corpus(folder: Path, ending: str) -> Path:
    """Three indexed documents, one of them without subjects, and one that was not indexed."""
    folder.mkdir(exist_ok=True)
    for name, text in {"b": "zwei\nlines", "a": "ün", "c": "", "d": "not indexed"}.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    lines = {"a": [1, 2], "b": [2, 2], "c": []}
    for name, subjects in lines.items():
        rows = [f"<{URI}{s}>\tname {s}" if ending == ".tsv" else f"name {s}" for s in subjects]
        (folder / f"{name}{ending}").write_text("".join(f"{row}\n" for row in rows))
    return folder


@pytest.mark.parametrize(("ending", "start"), [(".tsv", URI), (".key", "name ")])
def test_folders_of_documents(tmp_path: Path, ending: str, start: str) -> None:
    rows = data.read(corpus(tmp_path / "docs", ending))
    assert list(rows.ids or ()) == ["a", "b", "c"]
    assert list(rows.texts or ()) == ["ün", "zwei\nlines", ""]
    assert rows.label_names == (f"{start}1", f"{start}2")
    assert rows.labels is not None
    assert rows.labels.toarray().tolist() == [[1, 1], [0, 1], [0, 0]]
    assert rows.source.details == {"tool": "annif", "not annotated": "1"}
    part = data.read(tmp_path, part="docs")
    assert part.label_names == rows.label_names
    like = data.read([["x"], [f"{start}2"]])
    assert data.read(tmp_path / "docs", like=like).label_names == (f"{start}2", "x", f"{start}1")


def test_what_is_wrong_in_a_folder_is_named(tmp_path: Path) -> None:
    folder = corpus(tmp_path / "docs", ".tsv")
    with pytest.raises(ValueError, match=r"docs is no table, so that id mean nothing"):
        data.read(folder, id="id")
    (folder / "c.tsv").write_text(f"<{URI}1>\tx\nlaw\n")
    with pytest.raises(ValueError, match=r"c.tsv, line 2: expected <URI>, tab, label; got 'law'"):
        data.read(folder)
    (folder / "c.tsv").unlink()
    (folder / "c.key").write_text("law\n")
    with pytest.raises(ValueError, match=r"URIs beside some texts .* labels beside others"):
        data.read(folder)
    (folder / "a.txt").write_bytes(b"ok\n\xff")
    with pytest.raises(ValueError, match=r"a.txt, line 2: not UTF-8 text"):
        data.read(folder)


TURTLE = f"""@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix s: <{URI}> . # a comment with "quotes" and .
s:1 a skos:Concept ; skos:broader s:9 , <{URI}8> ;
    skos:prefLabel "law"@en , "laki"@fi ; skos:altLabel "justice"@en .
<{URI}2> skos:prefLabel '''tax'''@fi , "t\\u0061x \\"b\\""@en ;
    skos:note [ skos:prefLabel "no"@en ] .
s:3 skos:prefLabel "vain suomeksi"@fi ; skos:notation "3.1"^^s:type .
"""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("v.ttl", TURTLE.replace("'''tax'''", '"""tax"""')),
        (
            "v.csv",
            f'uri,notation,label_en,label_fi\n{URI}1,1,law,laki\n<{URI}2>,2,"tax ""b""",tax\n'
            f"{URI}3,3,,vain suomeksi\n",
        ),
    ],
)
def test_vocabularies(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    assert data.subject_labels(path) == {f"{URI}1": "law", f"{URI}2": 'tax "b"'}
    finnish = data.subject_labels(path, "fi")
    assert finnish == {f"{URI}1": "laki", f"{URI}2": "tax", f"{URI}3": "vain suomeksi"}
    with pytest.raises(ValueError, match="has no labels in 'sv'; it has 'en', 'fi'"):
        data.subject_labels(path, "sv")


def test_lines_of_uris_and_labels_have_one_language(tmp_path: Path) -> None:
    path = tmp_path / "v.tsv"
    path.write_text(f"<{URI}1>\tlaw\n<{URI}2>\ttax\n")
    assert data.subject_labels(path, "sv") == {f"{URI}1": "law", f"{URI}2": "tax"}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.csv", "id,name\n1,a\n", r"columns uri and label_en .* has 'id', 'name'"),
        ("v.ttl", '@prefix s: <x> .\ns:1 s:2 "open .\n', r"v.ttl, line 2: not Turtle, at"),
        ("v.ttl", "", "none at all"),
    ],
)
def test_what_is_no_vocabulary_is_refused(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        data.subject_labels(tmp_path / name)


def test_uris_become_names_from_a_folder_to_a_table(tmp_path: Path) -> None:
    folder = corpus(tmp_path / "docs", ".tsv")
    (tmp_path / "v.csv").write_text(f"uri,label_en\n{URI}1,law\n{URI}2,law\n")
    result = run("convert", folder, tmp_path / "t.csv", "--vocabulary", tmp_path / "v.csv")
    assert result.returncode == 0, result.stderr
    names = data.read(tmp_path / "t.csv", text="text").label_names
    assert names == (f"law ({URI}1)", f"law ({URI}2)")
    assert run("train", folder, "-o", tmp_path / "model").returncode == 0
    predicted = tmp_path / "p.csv"
    assert run("predict", tmp_path / "model", folder, "-o", predicted, "--k", 2).returncode == 0
    assert f"a,{URI}" in predicted.read_text()
