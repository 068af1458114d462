"""Texts to word counts, in any language: a vocabulary is made of the training texts, then applied.

A token is a run of letters, digits and the marks that belong to them, in small letters. Scripts
that put no blanks between words (Chinese, Japanese, Thai and the like) give a token per character,
and pairs of neighbouring tokens stand for words there. No stop words, no stemming: nothing is known
of the language. scikit-learn counts; what a vocabulary is can be written as JSON, and nothing is
pickled.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from unmask._typing import Json
from unmask.arrays import checks

_UNSPACED = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3040, 0x30FF), (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF),
)  # fmt: skip
"""Characters of scripts without blanks between words: Thai, Lao, Burmese, Khmer, kana, Han."""
_LONGEST = 100


@dataclass(frozen=True)
class Vocabulary:
    """The words that become features, by column, and how texts are cut into them.

    Parameters
    ----------
    words : tuple of str
        The word (or two words with a blank between) of every feature.
    pairs : bool, default True
        Whether two neighbouring tokens are a word as well.

    Raises
    ------
    ValueError
        If a word stands twice.

    Examples
    --------
    >>> Vocabulary(("law", "tax", "tax law"), pairs=True).counts(["Tax law and law"]).toarray()
    array([[2., 1., 1.]], dtype=float32)
    """

    words: tuple[str, ...]
    pairs: bool = True

    def __post_init__(self) -> None:
        """Check that words are different."""
        if len(set(self.words)) < len(self.words):
            raise ValueError("a word of the vocabulary stands twice.")

    def counts(self, texts: Iterable[str]) -> sp.csr_array:
        """How often each word stands in each text.

        Parameters
        ----------
        texts : n strings

        Returns
        -------
        csr_array of shape (n, d), float32
        """
        from sklearn.feature_extraction.text import CountVectorizer

        if not self.words:
            raise ValueError("the vocabulary has no words.")
        counter = CountVectorizer(
            analyzer=self._analyzer, vocabulary={word: j for j, word in enumerate(self.words)}
        )
        return sp.csr_array(counter.transform(texts), dtype=np.float32)

    def _analyzer(self, text: str) -> list[str]:
        return terms(text, self.pairs)

    def to_dict(self) -> dict[str, Json]:
        """As JSON."""
        return {"kind": "vocabulary", "version": 1, **asdict(self), "words": list(self.words)}

    @classmethod
    def from_dict(cls, stored: object) -> Vocabulary:
        """From what `to_dict` gave; ValueError if it is anything else."""
        if not isinstance(stored, dict) or stored.get("kind") != "vocabulary":
            raise ValueError("not a vocabulary.")
        words, pairs = stored.get("words"), stored.get("pairs")
        sound = isinstance(words, list) and all(isinstance(word, str) for word in words)
        if stored.get("version") != 1 or not sound or not isinstance(pairs, bool):
            raise ValueError("a vocabulary of another version, or a damaged one.")
        return cls(tuple(words), pairs)  # type: ignore[arg-type]


def vocabulary(
    texts: Iterable[str], *, min_rows: int = 2, max_words: int = 1_000_000, pairs: bool = True
) -> Vocabulary:
    """The words of training texts.

    Parameters
    ----------
    texts : n strings
    min_rows : int, default 2
        Words in fewer texts are left out; with fewer than 20 texts, none are.
    max_words : int, default 1 million
        The most words; of more, those that occur most often.
    pairs : bool, default True
        Whether two neighbouring tokens are a word as well.

    Returns
    -------
    Vocabulary
        Its words stand in the order of their characters.

    Raises
    ------
    ValueError
        If no text has a word.

    Examples
    --------
    >>> vocabulary(["Tax law", "law; art"], pairs=False).words
    ('art', 'law', 'tax')
    """
    from sklearn.feature_extraction.text import CountVectorizer

    documents = list(texts)
    least = checks.positive_int(min_rows, "min_rows") if len(documents) >= 20 else 1
    counter = CountVectorizer(
        analyzer=lambda text: terms(text, pairs), min_df=least,
        max_features=checks.positive_int(max_words, "max_words"),
    )  # fmt: skip
    try:
        counter.fit(documents)
    except ValueError as error:
        raise ValueError(f"the {len(documents)} texts give no words ({error}).") from None
    return Vocabulary(tuple(counter.get_feature_names_out().tolist()), pairs)


def terms(text: str, pairs: bool) -> list[str]:
    """The tokens of a text, and with `pairs` all neighbours with a blank between.

    >>> terms("Größe 2, कानून 法律", pairs=False)
    ['größe', '2', 'कानून', '法', '律']
    """
    tokens: list[str] = [t[:_LONGEST] for t in _token().findall(_folded(text))]
    if not pairs:
        return tokens
    return tokens + [f"{a} {b}" for a, b in pairwise(tokens)]


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).lower()


@cache
def _token() -> re.Pattern[str]:
    """One character of an unspaced script with its marks, or a run of word characters and marks."""
    marks = _class(c for c in range(0x300, 0x1F000) if unicodedata.category(chr(c))[0] == "M")
    single = "".join(f"{chr(low)}-{chr(high)}" for low, high in _UNSPACED)
    return re.compile(f"[{single}][{marks}]*|(?:[^\\W{single}]|[{marks}])+")


def _class(codes: Iterable[int]) -> str:
    """The inside of a character class, neighbours as ranges."""
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{re.escape(chr(low))}-{re.escape(chr(high))}" for low, high in ranges)
