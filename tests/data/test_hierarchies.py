"""Hierarchies: files, closure against a walk up the parents, cycles and unknown parents refused."""

from __future__ import annotations

import gzip
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import data

PARENTS = {"lens": ["optics", "tool"], "optics": ["physics"], "tool": [], "laser": ["optics"]}
NAMES = ("laser", "lens", "optics", "physics", "tool")
ABOVE = {  # by hand
    "laser": {"laser", "optics", "physics"}, "lens": {"lens", "optics", "physics", "tool"},
    "optics": {"optics", "physics"}, "physics": {"physics"}, "tool": {"tool"},
}  # fmt: skip

OBO = """format-version: 1.2

[Term]
id: lens ! a comment
is_a: optics ! Optics
relationship: part_of tool
relationship: regulates laser

[Term]
id: optics
is_a: physics {source="x"}

[Term]
id: physics

[Term]
id: tool

[Term]
id: laser
is_a: optics

[Term]
id: old
is_a: nowhere
is_obsolete: true

[Typedef]
id: part_of
is_a: nothing
"""
TURTLE = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
<lens> a skos:Concept ; skos:prefLabel "lens"@en ; skos:broader <optics>, <tool> .
<physics> skos:narrower <optics> . <laser> skos:broader <optics> .
"""


def written(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return file


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("terms.obo", OBO),
        ("terms.obo.gz", OBO),
        ("concepts.ttl", TURTLE),
        ("parents.tsv", "lens\toptics\nlens\ttool\n\noptics\tphysics\nlaser\toptics\n"),
    ],
)
def test_files_of_all_kinds_say_the_same(tmp_path: Path, name: str, text: str) -> None:
    tree = data.read_hierarchy(written(tmp_path, name, text))
    assert tree.names == NAMES
    for j, label in enumerate(NAMES):
        row = tree.ancestors.toarray()[j]
        assert {NAMES[i] for i in np.flatnonzero(row)} == ABOVE[label]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "x\ty\ny\tz\nz\tx\n", "their own ancestors: x → y → z → x"),
        ("a.tsv", "x\ty\nz\tz\n", "their own ancestors: z → z"),
        ("a.tsv", "x\ty\nz\n", r"line 2: expected child, tab, parent; got 'z'"),
        ("a.tsv", "", "no label has a parent"),
        ("a.obo", "[Term]\nid: x\nis_a: y\n", r"line 3: x has the parent 'y', which is no term"),
        ("a.obo", "[Term]\nis_a: y\n", r"line 2: a term begins with its id"),
        ("a.obo", OBO.replace("is_a: optics\n\n[Term]\nid: old", "is_a: old\n\n[Term]\nid: old"),
         "laser has the parent 'old'"),
        ("a.ttl", TURTLE + "<physics> skos:broader <lens> .", "lens → optics → physics → lens"),
    ],
)  # fmt: skip
def test_what_is_no_hierarchy_is_refused(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        data.read_hierarchy(written(tmp_path, name, text))


def test_a_cycle_is_named_without_what_stands_above_it() -> None:
    with pytest.raises(ValueError, match="their own ancestors: b → c → b") as refused:
        data.hierarchy({"b": ["c", "top"], "c": ["b"], "a": ["b"], "top": ["summit"]})
    assert "top" not in str(refused.value)


def closed_by_hand(labels: np.ndarray) -> np.ndarray:
    closed = np.zeros_like(labels)
    for i, j in np.argwhere(labels):
        for name in ABOVE[NAMES[j]]:
            closed[i, NAMES.index(name)] = 1
    return closed


def test_labels_get_their_ancestors_and_scores_the_largest_below() -> None:
    tree = data.hierarchy(PARENTS)
    rng = np.random.default_rng(0)
    labels = (rng.random((20, 5)) < 0.3).astype(int)
    closed = tree.close_labels(labels)
    assert (closed.toarray() == closed_by_hand(labels)).all()
    assert closed.has_sorted_indices
    scores = rng.random((20, 5))
    before = scores.copy()
    made = tree.close_scores(scores)
    for j, label in enumerate(NAMES):
        below = [i for i, other in enumerate(NAMES) if label in ABOVE[other]]
        assert (made[:, j] == before[:, below].max(axis=1)).all()
    assert (scores == before).all()
    for cut in (0.3, 0.8):  # closing commutes with cutting
        assert ((made >= cut) == (tree.close_labels(before >= cut).toarray() > 0)).all()


def test_levels_are_the_longest_ways_up() -> None:
    tree = data.hierarchy({**PARENTS, "lens": ["optics", "tool", "physics"]})
    assert dict(zip(tree.names, tree.levels.tolist(), strict=True)) == {
        "laser": 2, "lens": 2, "optics": 1, "physics": 0, "tool": 0,
    }  # fmt: skip


def test_information_is_what_a_label_says_beyond_its_parents() -> None:
    """8 rows: physics in 6, optics in 4, laser in 2, lens in 1 of the 1 with optics and tool."""
    rows = [["laser"], ["laser"], ["lens"], ["optics"], ["physics"], ["physics"], ["tool"], []]
    labels = np.array([[name in row for name in NAMES] for row in rows]).astype(int)
    content = data.hierarchy(PARENTS).information_content(labels)
    by_hand = {"laser": 2 / 4, "lens": 1 / 1, "optics": 4 / 6, "physics": 6 / 8, "tool": 2 / 8}
    for name, share in by_hand.items():
        assert content[NAMES.index(name)] == pytest.approx(-math.log2(share))
    none = data.hierarchy(PARENTS).information_content(labels[4:6])  # physics only
    assert none[NAMES.index("optics")] == pytest.approx(math.log2(3))
    assert none[NAMES.index("laser")] == pytest.approx(0.0)


def test_the_number_of_rows_behind_closed_propensities_is_right_on_average() -> None:
    """Σ observed / p over all masks is the number of rows that truly have the closed label."""
    tree = data.hierarchy(PARENTS)
    p = np.array([0.3, 0.5, 0.8, 0.6, 0.9])
    true = np.array([[1, 1, 0, 0, 0], [0, 1, 0, 0, 1]])
    pairs, total = np.argwhere(true), np.zeros(5)
    for kept in itertools.product([0, 1], repeat=len(pairs)):
        observed = np.zeros_like(true)
        observed[pairs[:, 0], pairs[:, 1]] = kept
        chance = math.prod(p[j] if k else 1 - p[j] for (_, j), k in zip(pairs, kept, strict=True))
        q = 1 / p
        for row in observed:  # 1 − Π (1 − 1/p) over the labels that imply it
            for a, label in enumerate(NAMES):
                own = [q[j] for j in np.flatnonzero(row) if label in ABOVE[NAMES[j]]]
                total[a] += chance * (1 - math.prod(1 - x for x in own))
        seen = closed_by_hand(observed).sum(axis=0)
        made = tree.propensity(observed, p)
        assert ((made > 0) & (made <= 1)).all()
        if kept == (1, 0, 0, 0):
            assert made == pytest.approx([0.3, 1, 0.3, 0.3, 1])
        if kept == (0, 0, 1, 1):
            both = 1 - (1 - 2.0) * (1 - 1 / 0.9)
            assert made == pytest.approx([1, 0.5, 0.5, 0.5, min(1.0, 1 / both)])
        assert (made[seen == 0] == 1).all()
    assert total == pytest.approx(closed_by_hand(true).sum(axis=0), abs=1e-10)


def test_a_hierarchy_is_aligned_with_the_labels_of_a_data_set() -> None:
    tree = data.hierarchy(PARENTS).aligned(["tool", "unknown", "laser"])
    assert tree.names == ("tool", "unknown", "laser", "optics", "physics")
    assert tree.close_labels([[0, 1, 1, 0, 0]]).toarray().tolist() == [[0, 1, 1, 1, 1]]
    with pytest.raises(ValueError, match=r"labels have 3 columns, the hierarchy 5 labels; align"):
        tree.close_labels([[0, 1, 1]])
    with pytest.raises(ValueError, match="not among the names: 'physics'"):
        data.hierarchy({"optics": ["physics"]}, names=["optics"])
    with pytest.raises(ValueError, match="must all be different"):
        data.hierarchy({}, names=["a", "a"])


def test_parents_are_a_matrix_of_any_form() -> None:
    """Columns are parents in every form: a matrix stored by columns is not turned round."""
    chain = np.eye(3, k=1)
    with_zero = sp.csr_array(chain)
    with_zero.data[0] = 0
    for form in (chain, sp.csr_array(chain), sp.csc_array(chain), sp.coo_array(chain)):
        assert data.Hierarchy(("a", "b", "c"), form).levels.tolist() == [2, 1, 0]  # type: ignore[arg-type]
    assert data.Hierarchy(("a", "b", "c"), with_zero).levels.tolist() == [0, 1, 0]


@pytest.mark.parametrize("index", [3, 99, -1, 2**31 - 1])
def test_parents_that_are_no_labels_are_refused(index: int) -> None:
    wild = sp.csr_array(np.eye(3, k=1))
    wild.indices[0] = index
    with pytest.raises(ValueError, match="parents"):
        data.Hierarchy(("a", "b", "c"), wild)
    with pytest.raises(ValueError, match="parents"):
        data.Hierarchy(("a", "b", "c"), sp.csr_array(np.eye(3, k=1) * 0.5))


def test_hierarchies_cannot_be_changed_afterwards() -> None:
    matrix = sp.csr_array(np.eye(3, k=1))
    tree = data.Hierarchy(("a", "b", "c"), matrix)
    matrix.indices[:] = 99
    assert tree.levels.tolist() == [2, 1, 0]
    for array in (tree.parents.data, tree.parents.indices, tree.parents.indptr):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0


@pytest.mark.parametrize(
    ("parents", "message"),
    [({"a": "bc"}, "a list of names"), ({1: [2]}, "texts; got"), ({"a": [None]}, "texts; got")],
)
def test_names_are_texts(parents: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        data.hierarchy(parents)


def test_scores_and_propensities_at_the_edge() -> None:
    tree = data.hierarchy({"a": ["b"], "c": ["b"]})
    with pytest.raises(ValueError, match="got NaN"):
        tree.close_scores([[np.nan, 1.0, 0.0]])
    assert tree.close_scores([[np.inf, 1.0, -np.inf]]).tolist() == [[np.inf, np.inf, -np.inf]]
    for tiny in (1e-90, 1e-160, 1e-320):
        alone = tree.propensity([[1, 0, 0]], np.array([tiny, 1, 1]))
        assert alone == pytest.approx([max(tiny, 1e-100), max(tiny, 1e-100), 1], rel=1e-6)
        both = tree.propensity([[1, 0, 1]] * 3, np.array([tiny, 1, tiny]))
        assert ((both > 0) & (both <= 1)).all()
