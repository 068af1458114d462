"""Vocabularies of labels: their hierarchies, and the names of their URIs.

A label implies its parents: a row about *optics* is about *physics*. *Closing* labels adds all
ancestors, closing scores gives an ancestor at least the score of every descendant. The information
content of a label (Clark & Radivojac 2013) is what it says beyond its parents,
−log2 of its rows among the rows that have all its parents.

A file of a hierarchy is OBO (`id:`, `is_a:`, `relationship: part_of`; obsolete terms are left out),
Turtle with `skos:broader` or `skos:narrower`, or lines `child tab parent`. A file of names is CSV
with the columns `uri` and `label_en`, `label_fi` …, lines `<URI> tab label`, or the SKOS preferred
labels (`skos:prefLabel`) of a Turtle file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from unmask._messages import named_options
from unmask._names import Strings, some, unique_index
from unmask._typing import Array, Floats, Ints, LabelsLike, PathLike, ScoresLike
from unmask.arrays import checks, entry_rows, stored_in
from unmask.files.streams import plain_name, text_of
from unmask.files.tables import open_table

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
RELATIONS = ("is_a", "part_of")
"""The relations of OBO that make a term a parent."""
BROADER, NARROWER = SKOS + "broader", SKOS + "narrower"
_LEAST, _MOST = 1e-100, 1e200
"""Smaller propensities and larger products are taken as these, whose products are numbers."""


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """Labels and their parents.

    Parameters
    ----------
    names : tuple of L str
        In the order of the columns of labels and scores.
    parents : matrix of shape (L, L) of 0 and 1
        1 where the label of a column is a parent of the label of a row; kept as a csr_array.

    Raises
    ------
    ValueError
        If a label is its own ancestor, parents are no matrix of 0 and 1, or names are not as many
        as labels.

    Examples
    --------
    >>> tree = hierarchy({"optics": ["physics"], "physics": ["science"], "law": []})
    >>> tree.names
    ('law', 'optics', 'physics', 'science')
    >>> tree.close_labels([[0, 1, 0, 0]]).toarray()
    array([[0., 1., 1., 1.]], dtype=float32)
    >>> tree.levels
    array([0, 2, 1, 0])
    """

    names: tuple[str, ...]
    parents: sp.csr_array

    def __post_init__(self) -> None:
        """Refuse what is no hierarchy; parents are a copy that cannot be changed."""
        parents = checks.labels(self.parents, name="parents").copy()
        if parents.shape != (len(self.names), len(self.names)):
            raise ValueError(f"{len(self.names)} names for parents of shape {parents.shape}.")
        for array in (parents.data, parents.indices, parents.indptr):
            array.flags.writeable = False
        object.__setattr__(self, "parents", parents)
        _ = self._order

    @cached_property
    def _order(self) -> list[int]:
        """The labels, children before their parents."""
        order: TopologicalSorter[int] = TopologicalSorter()
        for label in range(len(self.names)):
            order.add(label)
        children, parents = entry_rows(self.parents).tolist(), self.parents.indices.tolist()
        for child, parent in zip(children, parents, strict=True):
            order.add(parent, child)
        try:
            return list(order.static_order())
        except CycleError as error:
            cycle = error.args[1][:-1]
            first = cycle.index(min(cycle))
            around = [*cycle[first:], *cycle[: first + 1]]
            shown = " → ".join(self.names[j] for j in around[:6])
            shown = shown if len(around) <= 6 else f"{shown} → …"
            raise ValueError(f"labels are their own ancestors: {shown}.") from None

    @cached_property
    def ancestors(self) -> sp.csr_array:
        """(L, L): 1 where the label of a column is that of the row, or one of its ancestors."""
        size, rows = len(self.names), [np.zeros(0, np.int64)] * len(self.names)
        for label in reversed(self._order):
            above = [rows[parent] for parent in stored_in(self.parents, label).tolist()]
            rows[label] = np.unique(np.concatenate([np.array([label]), *above]))
        indptr = np.r_[0, np.cumsum([row.size for row in rows])]
        indices = np.concatenate([np.zeros(0, np.int64), *rows])
        ones = np.ones(indices.size, dtype=np.float32)
        return sp.csr_array((ones, indices, indptr), shape=(size, size))

    @property
    def levels(self) -> Ints:
        """The levels of labels below the tops, by the longest way up; (L,) integers."""
        levels = np.zeros(len(self.names), dtype=np.int64)
        for label in reversed(self._order):
            parents = stored_in(self.parents, label)
            levels[label] = 1 + levels[parents].max() if parents.size else 0
        return levels

    def close_labels(self, labels: LabelsLike) -> sp.csr_array:
        """Return labels with all their ancestors.

        Parameters
        ----------
        labels : (n, L) matrix of 0 and 1

        Returns
        -------
        csr_array of shape (n, L)
        """
        observed = checks.labels(labels)
        self._refuse_other_width(observed.shape[1], "labels")
        closed = sp.csr_array(observed @ self.ancestors)
        closed.data = np.ones_like(closed.data, dtype=np.float32)
        closed.sort_indices()
        return closed

    def close_scores(self, scores: ScoresLike) -> Array:
        """Return every label with the largest score of itself and its descendants.

        Parameters
        ----------
        scores : (n, L) matrix
            Dense.

        Returns
        -------
        (n, L) floats
        """
        closed = np.array(checks.dense(scores, "scores", "label"))
        self._refuse_other_width(closed.shape[1], "scores")
        if np.isnan(closed).any():
            raise ValueError("scores must be numbers; got NaN.")
        for label in self._order:
            for parent in stored_in(self.parents, label).tolist():
                np.maximum(closed[:, parent], closed[:, label], out=closed[:, parent])
        return closed

    def information_content(self, labels: LabelsLike) -> Floats:
        """Return −log2 of the share of rows with a label among those with all its parents.

        Parameters
        ----------
        labels : (n, L) matrix of 0 and 1
            Of a reference corpus; they are closed first.

        Returns
        -------
        (L,) floats
            One row is added to both counts of a label that no row has.
        """
        closed = self.close_labels(labels)
        n, of_label = closed.shape[0], sp.csr_array(closed.T)
        content = np.zeros(len(self.names))
        for label in range(len(self.names)):
            parents = stored_in(self.parents, label).tolist()
            having = np.zeros(n, dtype=np.int64)
            for parent in parents:
                having[stored_in(of_label, parent)] += 1
            base = int((having == len(parents)).sum())
            own = stored_in(of_label, label).size
            share = own / base if own else 1 / (base + 1)
            content[label] = -np.log2(share) + 0.0
        return content

    def propensity(self, labels: LabelsLike, propensity: Floats) -> Floats:
        """Return propensities of closed labels, where labels go missing before they are closed.

        Parameters
        ----------
        labels : (n, L) matrix of 0 and 1
            As observed, not closed.
        propensity : (L,) floats in (0, 1]
            Of labels as annotated.

        Returns
        -------
        (L,) floats in (0, 1]
            Rows in which the closed label is observed, over an unbiased number of those in which it
            is true: Σ 1 − Π (1 − 1/p) over the observed labels that imply it. 1 where that is none,
            or fewer than are observed.
        """
        observed = checks.labels(labels)
        self._refuse_other_width(observed.shape[1], "labels")
        q = 1 / np.maximum(checks.propensity(propensity, len(self.names)), _LEAST)
        recorded = np.bincount(self.close_labels(observed).indices, minlength=q.size)
        true = np.zeros(q.size)
        for row in np.flatnonzero(np.diff(observed.indptr)).tolist():
            product: dict[int, float] = {}
            for label in stored_in(observed, row).tolist():
                for ancestor in stored_in(self.ancestors, label).tolist():
                    left = product.get(ancestor, 1.0) * (1 - q[label])
                    product[ancestor] = min(max(left, -_MOST), _MOST)
            for ancestor, left in product.items():
                true[ancestor] = min(max(true[ancestor] + 1 - left, -_MOST), _MOST)
        return np.where(true > recorded, recorded / np.where(true > recorded, true, 1.0), 1.0)

    def aligned(self, names: Sequence[str]) -> Hierarchy:
        """Return the hierarchy over the labels of a data set, in their order.

        Parameters
        ----------
        names : sequence of str
            Of the labels of the data set. Labels that the hierarchy does not have stand alone.

        Returns
        -------
        Hierarchy
            Over these names, and after them the ancestors that the data set does not name.
        """
        index = unique_index(Strings.of(names), "label names")
        own = {name: j for j, name in enumerate(self.names)}
        shared = [own[name] for name in names if name in own]
        reached = {j for label in shared for j in stored_in(self.ancestors, label).tolist()}
        new = [self.names[j] for j in sorted(reached)]
        fresh = np.flatnonzero(index.find(Strings.of(new)) < 0)
        every = (*names, *(new[j] for j in fresh.tolist()))
        parents: dict[str, list[str]] = {name: [] for name in every}
        for name in every:
            if name in own:
                above = stored_in(self.parents, own[name]).tolist()
                parents[name] = [self.names[j] for j in above]
        return hierarchy(parents, names=every)

    def _refuse_other_width(self, width: int, what: str) -> None:
        if width != len(self.names):
            raise ValueError(
                f"{what} have {width} columns, the hierarchy {len(self.names)} labels; align it "
                "with the names of the labels (`hierarchy.aligned(names)`)."
            )


@named_options
def hierarchy(
    parents: Mapping[str, Iterable[str]], *, names: Sequence[str] | None = None
) -> Hierarchy:
    """Make a hierarchy of the parents of every label.

    Parameters
    ----------
    parents : mapping of str to strings
        By label; labels that occur only as parents have none.
    names : sequence of str, optional
        The order of labels; by default that of their characters.

    Returns
    -------
    Hierarchy

    Raises
    ------
    ValueError
        If a label is its own ancestor, a parent is not among `names`, or a name is no text.

    Examples
    --------
    >>> hierarchy({"a": ["b"], "b": ["a"]})
    Traceback (most recent call last):
    ValueError: labels are their own ancestors: a → b → a.
    """
    if any(isinstance(above, str) for above in parents.values()):
        raise ValueError("give the parents of a label as a list of names, not as one text.")
    listed = {child: list(dict.fromkeys(above)) for child, above in parents.items()}
    every = {*listed, *(parent for above in listed.values() for parent in above)}
    wrong = [name for name in every if not isinstance(name, str)]
    if wrong:
        raise ValueError(f"the names of labels are texts; got {wrong[0]!r:.60}.")
    ordered = tuple(sorted(every)) if names is None else tuple(names)
    number = {name: j for j, name in enumerate(ordered)}
    if len(number) < len(ordered):
        raise ValueError("the names of a hierarchy must all be different.")
    unknown = sorted(every - number.keys())
    if unknown:
        raise ValueError(f"labels are not among the names: {some(unknown, len(unknown))}.")
    pairs = [(number[child], number[parent]) for child, above in listed.items() for parent in above]
    rows, columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    ones = np.ones(rows.size, dtype=np.float32)
    shape = (len(ordered), len(ordered))
    return Hierarchy(ordered, sp.csr_array((ones, (rows, columns)), shape=shape))


def read_hierarchy(path: PathLike) -> Hierarchy:
    """Read a hierarchy of labels from a file.

    Parameters
    ----------
    path : str or path
        OBO (`.obo`), Turtle with SKOS (`.ttl`, `.nt`), or lines `child tab parent`; plain or
        compressed.

    Returns
    -------
    Hierarchy
        Align it with the labels of a data set by `aligned`.

    Raises
    ------
    ValueError
        If a line is none of a hierarchy, a parent is not defined in the file (OBO), or a label is
        its own ancestor.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "parents.tsv"
    >>> _ = file.write_text("optics\\tphysics\\nphysics\\tscience\\n")
    >>> read_hierarchy(file).levels
    array([2, 1, 0])
    """
    file = Path(os.fspath(path))
    plain = plain_name(file)
    if plain.endswith(".obo"):
        parents = _obo(file)
    elif plain.endswith((".ttl", ".nt")):
        parents = _skos(file)
    else:
        parents = _pairs(file)
    if not any(parents.values()):
        raise ValueError(f"{file}: no label has a parent; expected OBO, SKOS or child tab parent.")
    try:
        return hierarchy(parents)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def _pairs(path: Path) -> dict[str, list[str]]:
    parents: dict[str, list[str]] = {}
    for number, line in enumerate(text_of(path).splitlines(), start=1):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) != 2 or not all(cells):
            raise ValueError(
                f"{path}, line {number}: expected child, tab, parent; got {line!r:.60}."
            )
        parents.setdefault(cells[0], []).append(cells[1])
    return parents


def _skos(path: Path) -> dict[str, list[str]]:
    parents: dict[str, list[str]] = {}
    for subject, predicate, target, language in _statements(path):
        if language is not None or predicate not in (BROADER, NARROWER):
            continue
        child, parent = (subject, target) if predicate == BROADER else (target, subject)
        parents.setdefault(child, []).append(parent)
    return parents


def _obo(path: Path) -> dict[str, list[str]]:
    """Read `[Term]` stanzas; refuse parents that are no term of the file."""
    parents: dict[str, list[str]] = {}
    obsolete: set[str] = set()
    lines_of: dict[tuple[str, str], int] = {}
    term, in_term = "", False
    for number, raw in enumerate(text_of(path).splitlines(), start=1):
        line = raw.split(" ! ")[0].strip()
        if line.startswith("["):
            in_term, term = line == "[Term]", ""
            continue
        key, colon, value = line.partition(":")
        value = value.partition("{")[0].strip()
        if not in_term or not colon:
            continue
        if key == "id":
            term = value
            parents.setdefault(term, [])
        elif not term:
            raise ValueError(f"{path}, line {number}: a term begins with its id; got {line!r:.60}.")
        elif key == "is_obsolete" and value == "true":
            obsolete.add(term)
        elif key in ("is_a", "relationship"):
            relation, _, target = ("is_a", "", value) if key == "is_a" else value.partition(" ")
            if relation in RELATIONS:
                parents[term].append(target.strip())
                lines_of[term, target.strip()] = number
    kept = {term: above for term, above in parents.items() if term not in obsolete}
    for term, above in kept.items():
        for parent in above:
            if parent not in kept:
                raise ValueError(
                    f"{path}, line {lines_of[term, parent]}: {term} has the parent {parent!r:.60}, "
                    "which is no term of this file (or obsolete)."
                )
    return kept


@named_options
def subject_labels(path: PathLike, language: str = "en") -> dict[str, str]:
    """Read the labels of a vocabulary by URI, for `Dataset.renamed`.

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
    plain = plain_name(path)
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
    table = open_table(path)
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
    """Return preferred labels by language and subject."""
    labels: dict[str, dict[str, str]] = {}
    for subject, predicate, value, language in _statements(path):
        if predicate == PREFERRED and language is not None:
            labels.setdefault(language, {})[subject] = value
    return labels


def _statements(path: Path) -> Iterator[tuple[str, str, str, str | None]]:
    """Yield subject, predicate, object and its language; None of an object that is no text."""
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
            prefix, colon, rest = value.partition(":")
            name = value
            if kind != "iri" and colon:
                name = prefixes.get(prefix, prefix + colon) + rest
            if place == 2:
                yield subject, predicate, name, None
            else:
                subject, predicate = (name, predicate) if place == 0 else (subject, name)
                place += 1


def _tokens(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield kind (iri, text, mark or name), value and language of every token of Turtle."""
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
