"""Texts in many languages become counts, the same counts after a trip through JSON."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask.data import Vocabulary, vocabulary
from unmask.data.texts import terms

TEXT = st.text(st.characters(blacklist_categories=("Cs",)), max_size=40)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("C and C++, e-mail_2", ["c", "and", "c", "e", "mail_2"]),
        ("Straße über", ["straße", "über"]),
        ("u\u0308ber", ["über"]),  # composed and decomposed are one word
        ("हिन्दी कानून", ["हिन्दी", "कानून"]),
        ("القانون الدولي", ["القانون", "الدولي"]),
        ("量子力学 law", ["量", "子", "力", "学", "law"]),
        ("กฎ", ["ก", "ฎ"]),
        ("\x00\x1b[31m", ["31m"]),
        ("", []),
    ],
)
def test_tokens(text: str, tokens: list[str]) -> None:
    assert terms(text, pairs=False) == tokens


@given(TEXT)
def test_letters_and_digits_are_never_lost(text: str) -> None:
    """Every letter and digit of a text is in a token, in order; blanks and signs are in none."""
    letters = [c for c in unicodedata.normalize("NFC", text).lower() if c.isalnum()]
    if max((len(run) for run in re.findall(r"\w+", text)), default=0) < 50:
        assert [c for token in terms(text, pairs=False) for c in token if c.isalnum()] == letters
    assert not any(c.isspace() for token in terms(text, pairs=False) for c in token)


@given(st.lists(TEXT, min_size=1, max_size=6))
def test_counts_are_those_of_a_counter(texts: list[str]) -> None:
    words = sorted({term for text in texts for term in terms(text, pairs=True)})
    if not words:
        with pytest.raises(ValueError, match="give no words"):
            vocabulary(texts)
        return
    made = vocabulary(texts)
    assert list(made.words) == words
    again = Vocabulary.from_dict(json.loads(json.dumps(made.to_dict())))
    assert again == made
    counts = again.counts([*texts, "unheard-of"]).toarray()
    for text, row in zip(texts, counts, strict=False):
        expected = Counter(terms(text, pairs=True))
        assert dict(zip(words, row, strict=True)) == {word: expected[word] for word in words}
    assert counts.dtype == np.float32


def test_rare_words_are_left_out_of_long_lists() -> None:
    texts = [f"common word{i}" for i in range(30)]
    assert vocabulary(texts, pairs=False).words == ("common",)
    assert len(vocabulary(texts, min_rows=1, max_words=5, pairs=False).words) == 5


@pytest.mark.parametrize(
    "stored", [[], {}, {"kind": "vocabulary"}, {"kind": "vocabulary", "version": 1, "words": [1]}]
)
def test_other_json_is_no_vocabulary(stored: object) -> None:
    with pytest.raises(ValueError, match="vocabulary"):
        Vocabulary.from_dict(stored)
    with pytest.raises(ValueError, match="stands twice"):
        Vocabulary(("a", "a"))


@pytest.mark.parametrize(("count", "words"), [(19, 20), (20, 1)])
def test_rare_words_of_fewer_than_twenty_texts_stay(count: int, words: int) -> None:
    texts = [f"common word{i}" for i in range(count)]
    assert len(vocabulary(texts, pairs=False).words) == words
