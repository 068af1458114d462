"""Texts to features: a vocabulary, word counts, and counts weighted by tf-idf.

A token is a run of letters, digits and the marks that belong to them, in small letters. Scripts
that put no blanks between words (Chinese, Japanese, Thai and the like) give a token per character,
and pairs of neighbouring tokens stand for words there. No stop words, no stemming: nothing is known
of the language. scikit-learn counts; a vocabulary is made of the training texts, then applied, and
can be written as JSON; nothing is pickled.

Features are made of counts as DiSMEC makes them: tf = 1 + ln(count), idf = ln(N / df), unit rows.
Fit `idf` on the training rows; apply it to any rows.
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
from numpy.typing import ArrayLike

from unmask._messages import named_options
from unmask._typing import FeaturesLike, Floats, Json
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
        """Count how often each word stands in each text.

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
            analyzer=lambda text: terms(text, self.pairs),
            vocabulary={word: j for j, word in enumerate(self.words)},
        )
        return sp.csr_array(counter.transform(texts), dtype=np.float32)

    def to_dict(self) -> dict[str, Json]:
        """Return the vocabulary as JSON; `from_dict` is the inverse."""
        return {"kind": "vocabulary", "version": 1, **asdict(self), "words": list(self.words)}

    @classmethod
    def from_dict(cls, stored: object) -> Vocabulary:
        """Make a vocabulary of what `to_dict` gave; refuse anything else."""
        if not isinstance(stored, dict) or stored.get("kind") != "vocabulary":
            raise ValueError("not a vocabulary.")
        words, pairs = stored.get("words"), stored.get("pairs")
        sound = isinstance(words, list) and all(isinstance(word, str) for word in words)
        if stored.get("version") != 1 or not sound or not isinstance(pairs, bool):
            raise ValueError("a vocabulary of another version, or a damaged one.")
        return cls(tuple(words), pairs)  # type: ignore[arg-type]


@named_options
def vocabulary(
    texts: Iterable[str], *, min_rows: int = 2, max_words: int = 1_000_000, pairs: bool = True
) -> Vocabulary:
    """Collect the words of training texts.

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
    """Return the tokens of a text, and with `pairs` all neighbours with a blank between.

    >>> terms("Größe 2, कानून 法律", pairs=False)
    ['größe', '2', 'कानून', '法', '律']
    """
    folded = unicodedata.normalize("NFC", text).lower()
    tokens: list[str] = [t[:_LONGEST] for t in _token().findall(folded)]
    if not pairs:
        return tokens
    return tokens + [f"{a} {b}" for a, b in pairwise(tokens)]


@cache
def _token() -> re.Pattern[str]:
    """Match a character of an unspaced script with its marks, or a run of word characters."""
    marks = _class(c for c in range(0x300, 0x1F000) if unicodedata.category(chr(c))[0] == "M")
    single = "".join(f"{chr(low)}-{chr(high)}" for low, high in _UNSPACED)
    return re.compile(f"[{single}][{marks}]*|(?:[^\\W{single}]|[{marks}])+")


def _class(codes: Iterable[int]) -> str:
    """Return the inside of a character class, neighbours as ranges."""
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{re.escape(chr(low))}-{re.escape(chr(high))}" for low, high in ranges)


def idf(counts: FeaturesLike) -> Floats:
    """Return ln(N / df) per feature, df being the rows that contain it; 0 where none does.

    A feature without a training row has no weight a model could have learnt, hence 0 and not ∞.

    Parameters
    ----------
    counts : matrix of shape (n, d)
        Word counts of the training rows, dense or sparse.

    Returns
    -------
    array of shape (d,)

    Raises
    ------
    ValueError
        If a count is not finite.

    Examples
    --------
    >>> idf(sp.csr_array([[1, 2, 0], [3, 0, 0]])).round(3)
    array([0.   , 0.693, 0.   ])
    """
    matrix = checks.columns(counts, name="word counts")
    df = np.bincount(matrix.indices[matrix.data != 0], minlength=matrix.shape[1])
    return np.where(df > 0, np.log(matrix.shape[0] / np.maximum(df, 1)), 0.0)


def tfidf(counts: FeaturesLike, weights: ArrayLike) -> sp.csr_array:
    """Return (1 + ln count) · weight, rows scaled to length 1.

    Parameters
    ----------
    counts : matrix of shape (n, d)
        Word counts, dense or sparse.
    weights : array of shape (d,)
        One per feature, from `idf`.

    Returns
    -------
    csr_array of shape (n, d), float32

    Raises
    ------
    ValueError
        If a stored count is negative or there is not one weight per feature.

    Examples
    --------
    >>> tfidf(sp.csr_array([[1.0, 1.0, 2.0]]), np.array([0.0, 1.0, 1.0])).toarray().round(3)
    array([[0.   , 0.509, 0.861]], dtype=float32)
    """
    from sklearn.feature_extraction.text import TfidfTransformer

    matrix = checks.columns(counts, name="word counts").astype(np.float64)
    matrix.eliminate_zeros()  # of our own copy: a word that occurs 0 times does not occur
    if matrix.data.size and not matrix.data.min() > 0:
        raise ValueError(f"word counts must be positive; got {matrix.data.min():g}.")
    numbers = checks.numbers(weights, "idf weights")
    if numbers.shape != (matrix.shape[1],):
        raise ValueError(
            f"{len(numbers) if numbers.ndim else 1} idf weights for {matrix.shape[1]} features; "
            "give one per feature."
        )
    transformer = TfidfTransformer(sublinear_tf=True)
    transformer.idf_ = checks.finite(numbers.astype(np.float64), "idf weights")
    features = sp.csr_array(transformer.transform(matrix), dtype=np.float32)
    features.eliminate_zeros()
    return features
