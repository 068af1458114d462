"""Strings behave as a tuple of str; an index as a dict; ids match whatever their order."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask._names import Index, Strings, joined, matched_rows, sorted_names, unique_index

TEXTS = st.lists(st.text(st.characters(blacklist_categories=("Cs",)), max_size=6), max_size=20)


@given(TEXTS, st.data())
def test_strings_are_a_tuple(texts: list[str], drawn: st.DataObject) -> None:
    strings = Strings.of(texts)
    assert list(strings) == texts
    assert strings == tuple(texts)
    assert len(strings) == len(texts)
    cut = drawn.draw(st.slices(len(texts)))
    assert list(strings[cut]) == texts[cut]
    assert pickle.loads(pickle.dumps(strings)) == strings  # noqa: S301 (our own)
    if texts:
        rows = drawn.draw(st.lists(st.integers(0, len(texts) - 1)))
        assert list(strings.take(rows)) == [texts[i] for i in rows]
        assert strings[-1] == texts[-1]
    parts = [strings, strings[:1], Strings.of([])]
    assert list(joined(parts)) == [*texts, *texts[:1]]
    assert not parts  # memory is needed once


@given(TEXTS, TEXTS)
def test_an_index_is_a_dict(texts: list[str], others: list[str]) -> None:
    index, codes = Index(), {}
    for text in texts:
        codes.setdefault(text, len(codes))
    assert index.add(Strings.of(texts)).tolist() == [codes[text] for text in texts]
    assert list(index.names()) == list(codes)
    assert index.find(Strings.of(others)).tolist() == [codes.get(text, -1) for text in others]
    names, rank = sorted_names(index)
    assert list(names) == sorted(codes)
    assert [names[rank[codes[text]]] for text in codes] == list(codes)
    again = [i for i, text in enumerate(texts) if text in texts[:i]]
    assert Strings.of(texts).repeated().tolist() == again


def test_an_index_grows() -> None:
    """Over many doublings, with names longer than the room that is left."""
    texts = [str(i) * (1 + i % 7) for i in range(30_000)] + ["long" * 40_000]
    index = Index()
    assert index.add(Strings.of(texts)).tolist() == list(range(len(texts)))
    assert list(index.names()) == texts


@given(st.permutations(list("abcdef")), st.permutations(list("abcdef")))
def test_ids_match_in_any_order(one: list[str], other: list[str]) -> None:
    rows = matched_rows(Strings.of(one), Strings.of(other), "labels", "predictions")
    assert [other[i] for i in rows] == one


def test_ids_that_do_not_match_are_named() -> None:
    with pytest.raises(ValueError, match=r"2 ids of the labels have no predictions \('a', 'b'\)"):
        matched_rows(Strings.of("abc"), Strings.of("c"), "labels", "predictions")
    with pytest.raises(ValueError, match=r"ids of the predictions must be different.*'c'"):
        matched_rows(Strings.of("c"), Strings.of("cc"), "labels", "predictions")
    many = Strings.of(map(str, range(9)))
    with pytest.raises(ValueError, match=r"'0', '1', '2' and 6 more"):
        matched_rows(many, Strings.of(["x"] * 1), "labels", "predictions")


def test_arrays_from_files_are_checked() -> None:
    for data, offsets in [
        (b"ab", [0, 3]),
        (b"ab", [0, 2, 1, 2]),
        (b"ab", [1, 2]),
        (b"\xff", [0, 1]),
    ]:
        with pytest.raises(ValueError, match="names"):
            Strings.checked(np.frombuffer(data, np.uint8), np.array(offsets), "names")
    with pytest.raises(ValueError, match="names must be text; got 3"):
        Strings.of(["a", 3])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"must be text; got '.udcff'"):
        Strings.of(["\udcff"])
    with pytest.raises(ValueError, match="must be different"):
        unique_index(Strings.of("aa"), "names")


@pytest.mark.parametrize(
    ("texts", "others"),
    [
        (["ab", "c"], ["ab", "d"]),  # other letters of the same lengths
        (["ab", "c"], ["a", "bc"]),  # the same letters, cut elsewhere
        (["ab"], ["ab", ""]),
        (["ab"], []),
        (["é"], ["è"]),
    ],
)
def test_strings_are_equal_only_to_the_same_texts(texts: list[str], others: list[str]) -> None:
    strings = Strings.of(texts)
    assert strings == Strings.of(texts)
    for form in (Strings.of(others), tuple(others), others):
        assert strings != form
        assert not strings == form  # noqa: SIM201 (both ways to ask)
    assert strings != "".join(texts)
    assert joined([strings, Strings.of(others)])[: len(texts)] == strings  # a part of a whole
