"""Subject indexing as Annif keeps it: folders of documents, and the labels of a vocabulary.

A folder has `NAME.txt` with a text and beside it `NAME.tsv` (`<URI> tab label`, a line per subject)
or `NAME.key` (a label per line); a text with neither was not indexed and is no row. A vocabulary
names its URIs: CSV with the columns `uri` and `label_en`, `label_fi` …, lines `<URI> tab label`, or
the SKOS preferred labels (`skos:prefLabel`) of a Turtle file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from unmask import _io, _tables
from unmask._names import Strings, some
from unmask._settings import named_options
from unmask._typing import PathLike
from unmask.data.dataset import Dataset, Source
from unmask.data.tables import label_matrix

SKOS = "http://www.w3.org/2004/02/skos/core#"
PREFERRED = SKOS + "prefLabel"
_TOKEN = re.compile(
    r"""(?P<skip>\s+|\#[^\n]*)
    | <(?P<iri>[^<>"{}|^`\\\x00-\x20]*)>
    | (?:\"{3}(?P<long>(?:[^"\\]|\\.|\"{1,2}(?!\"))*)\"{3} | "(?P<text>(?:[^"\\\n\r]|\\.)*)"
      | '(?P<single>(?:[^'\\\n\r]|\\.)*)')(?:@(?P<language>[a-zA-Z]+(?:-[a-zA-Z0-9]+)*))?
    | (?P<mark>\^\^|@prefix|@base|[;,.\[\]()](?!\w))
    | (?P<name>[^\s<>"'\[\](){},;]*[^\s<>"'\[\](){},;.])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[tbnrf\"'\\])")
_PLAIN = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


def is_corpus(folder: Path) -> bool:
    """Whether a folder holds texts with their subjects beside them."""
    return folder.is_dir() and any(
        text.with_suffix(ending).is_file()
        for text in folder.glob("*.txt")
        for ending in (".tsv", ".key")
    )


def read_corpus(folder: Path, like: Dataset | None) -> Dataset:
    """The documents of a folder, in the order of their names, which are the ids."""
    ids, texts, subjects, endings, bare = [], [], [], set(), 0
    for path in sorted(folder.glob("*.txt")):
        beside = next((p for e in (".tsv", ".key") if (p := path.with_suffix(e)).is_file()), None)
        if beside is None:
            bare += 1
            continue
        ids.append(path.stem)
        texts.append(text_of(path))
        subjects.append(list(_subjects(beside)))
        endings.add(beside.suffix)
    if len(endings) > 1:
        raise ValueError(
            f"{folder} has URIs beside some texts (.tsv) and labels beside others (.key); they "
            "cannot be told to be the same: make all of one kind."
        )
    labels, names = label_matrix(subjects, None if like is None else like.label_names)
    details = {"tool": "annif", **({"not annotated": str(bare)} if bare else {})}
    source = Source((str(folder),), "annif-folder", ("none",), details=details)
    return Dataset(
        None, labels, label_names=names, ids=Strings.of(ids), texts=Strings.of(texts), source=source
    )  # fmt: skip


def _subjects(path: Path) -> Iterator[str]:
    """The subjects of a document, each once: URIs of lines `<URI> tab label`, or whole lines."""
    names: set[str] = set()
    for number, line in enumerate(text_of(path).splitlines(), start=1):
        if not line.strip():
            continue
        name = line.partition("\t")[0].strip() if path.suffix == ".tsv" else line.strip()
        if path.suffix == ".tsv" and not (name.startswith("<") and name.endswith(">")):
            raise ValueError(
                f"{path}, line {number}: expected <URI>, tab, label; got {line!r:.60}."
            )
        name = name.strip("<>") if path.suffix == ".tsv" else name
        if not name:
            raise ValueError(f"{path}, line {number}: an empty URI; got {line!r:.60}.")
        if name not in names:
            names.add(name)
            yield name


def text_of(path: Path) -> str:
    """The content of a file as UTF-8 text, plain or compressed."""
    content = _io.contents(path)
    try:
        return content.removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        token = _io.quoted(content[error.start : error.start + 8])
        raise ValueError(f"{path}, line {line}: not UTF-8 text, at {token}.") from None


@named_options
def subject_labels(path: PathLike, language: str = "en") -> dict[str, str]:
    """The labels of a vocabulary by URI, for `Dataset.renamed`.

    Parameters
    ----------
    path : str or path
        CSV with the columns `uri` and `label_en` (or another language; `label` without one), TSV
        with lines `<URI> tab label`, or Turtle with SKOS preferred labels; plain or compressed.
    language : str, default "en"
        Which labels to take. Where a vocabulary has one language only, that is taken.

    Returns
    -------
    dict of str to str
        A label by URI; URIs without a label in the language are not in it.

    Raises
    ------
    ValueError
        If the file is no vocabulary, or has several languages but not this one.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "vocabulary.csv"
    >>> _ = file.write_text("uri,label_en,label_fi\\nhttp://e.org/1,law,laki\\n")
    >>> subject_labels(file), subject_labels(file, "fi")
    ({'http://e.org/1': 'law'}, {'http://e.org/1': 'laki'})
    """
    path = Path(os.fspath(path))
    plain = path.name.removesuffix(".gz").removesuffix(".zst")
    if plain.endswith((".ttl", ".nt")):
        by_language = _turtle(path)
    elif text_of(path).lstrip()[:1] == "<":
        lines = (line.partition("\t") for line in text_of(path).splitlines() if line.strip())
        by_language = {"": {uri.strip(" <>"): label.strip() for uri, _, label in lines}}
    else:
        by_language = _columns(path)
    if language not in by_language and len(by_language) != 1:
        raise ValueError(
            f"{path} has no labels in {language!r}; it has "
            f"{some(sorted(by_language), len(by_language)) or 'none at all'}."
        )
    chosen = by_language.get(language) or next(iter(by_language.values()))
    return {uri: label for uri, label in chosen.items() if uri and label}


def _columns(path: Path) -> dict[str, dict[str, str]]:
    table = _tables.open_table(path)
    languages = {
        name: name.removeprefix("label").removeprefix("_")
        for name in table.names
        if name == "label" or name.startswith("label_")
    }
    if "uri" not in table.names or not languages:
        raise ValueError(
            f"{path}: a vocabulary has the columns uri and label_en (or another language); this "
            f"one has {some(table.names, len(table.names))}."
        )
    columns = {name: list(cells) for name, cells in table.read(["uri", *languages]).items()}
    uris = [str(uri).strip("<>") for uri in columns["uri"]]
    return {
        language: dict(zip(uris, map(str, columns[name]), strict=True))
        for name, language in languages.items()
    }


def _turtle(path: Path) -> dict[str, dict[str, str]]:
    """Preferred labels by language and subject."""
    labels: dict[str, dict[str, str]] = {}
    for subject, predicate, value, language in _statements(path):
        if predicate == PREFERRED and language is not None:
            labels.setdefault(language, {})[subject] = value
    return labels


def statements(path: Path) -> Iterator[tuple[str, str, str, bool]]:
    """Subject, predicate and object of every statement of Turtle, and whether that is a text."""
    for subject, predicate, value, language in _statements(path):
        yield subject, predicate, value, language is not None


def _statements(path: Path) -> Iterator[tuple[str, str, str, str | None]]:
    """Subject, predicate, object and its language; None of an object that is no text."""
    prefixes: dict[str, str] = {}
    place, depth, subject, predicate = 0, 0, "", ""
    for kind, value, language in _tokens(path):
        if kind == "mark":
            depth += (value in "[(") - (value in "])")
            if depth == 0 and value in (".", ";", "@prefix", "@base"):
                place = 1 if value == ";" else 0
                subject = "" if value == "@prefix" else subject
                if value in ("@prefix", "@base"):
                    place = -2
            continue
        if depth:
            continue
        if place == -2:
            predicate, place = value, -1
        elif place == -1:
            prefixes[predicate.removesuffix(":")] = value
            place = 0
        elif kind == "text":
            if place == 2:
                yield subject, predicate, value, language
        else:
            name = value if kind == "iri" else _expanded(value, prefixes)
            if place == 2:
                yield subject, predicate, name, None
            else:
                subject, predicate = (name, predicate) if place == 0 else (subject, name)
                place += 1


def _expanded(name: str, prefixes: dict[str, str]) -> str:
    prefix, colon, rest = name.partition(":")
    return prefixes.get(prefix, prefix + colon) + rest if colon else name


def _tokens(path: Path) -> Iterator[tuple[str, str, str]]:
    """Kind (iri, text, mark or name), value and language of every token of Turtle."""
    text, end = text_of(path), 0
    while end < len(text):
        match = _TOKEN.match(text, end)
        if match is None or match.end() == end:
            line = text.count("\n", 0, end) + 1
            raise ValueError(f"{path}, line {line}: not Turtle, at {text[end : end + 20]!r}.")
        end = match.end()
        kind = next((k for k, v in match.groupdict().items() if v is not None), "skip")
        if kind in ("long", "text", "single"):
            yield "text", _ESCAPE.sub(_unescaped, match[kind]), match["language"] or ""
        elif kind != "skip":
            yield kind, match[kind], ""


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return _PLAIN[code] if code in _PLAIN else chr(min(int(code[1:], 16), 0x10FFFF))
