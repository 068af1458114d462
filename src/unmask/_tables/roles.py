"""Which column is which: found by the names that people use, unless it is said.

A wide table has a row per document and all its labels in one cell; a long one has a row per label
of a document: `id, label`, with `score` (predictions) or `value` (judgements).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from unmask._messages import setting
from unmask._names import some
from unmask._tables.columns import Source
from unmask.arrays import checks

Layout = Literal["wide", "long"]

IDS = (
    "id", "_id", "ids", "doc_id", "docid", "document_id", "document", "doc", "uid", "uuid",
    "row_id", "item_id", "record_id", "target", "query_id", "qid", "example_id", "key",
)  # fmt: skip
LABEL_LISTS = (
    "labels", "tags", "subjects", "categories", "topics", "keywords", "terms", "codes", "classes",
    "genres", "subject_uris", "annotations", "concepts",
)  # fmt: skip
LABELS = (
    "label", "tag", "subject", "category", "topic", "keyword", "term", "code", "class", "genre",
    "subject_uri", "label_id", "concept", "uri",
)  # fmt: skip
SCORES = ("score", "scores", "probability", "confidence")
VALUES = ("value", "relevance", "judgement", "judgment")
_OTHERS = ("rank", "label_name", "notation", "iteration", "run")
"""Columns that a long table may have beside; they are not read."""


class Roles(NamedTuple):
    """The columns of a table by what they hold; None: there is none."""

    layout: Layout
    id: str | None
    labels: str | None
    texts: tuple[str, ...]
    score: str | None
    value: str | None
    judged: tuple[tuple[str, str], ...] = ()
    """("negative" or "ignored", the column that lists such labels)."""


def roles(
    source: Source,
    *,
    id: str | None = None,
    labels: str | None = None,
    text: str | Sequence[str] | None = None,
    layout: str | None = None,
    negative: str | None = None,
    ignored: str | None = None,
) -> Roles:
    """The roles of a table's columns; ValueError where a name is missing or could be two."""
    texts = _texts(text)
    named = [("id", id), ("labels", labels), ("negative", negative), ("ignored", ignored)]
    for argument, name in [*named, *(("text", name) for name in texts)]:
        if name is not None and name not in source.names:
            raise ValueError(
                f"{source.name} has no column {name!r} (asked for by {argument}); its columns are "
                f"{some(source.names, 8)}."
            )
    taken = {name for name in (*dict(named).values(), *texts) if name is not None}
    if len(taken) < sum(name is not None for _, name in named) + len(texts):
        raise ValueError(f"{source.name}: one column cannot be id, text and labels at once.")
    judged = tuple((argument, name) for argument, name in named[2:] if name is not None)
    key = id or _only(source, IDS, "ids", "id", taken)
    score, value = (_only(source, names, "", "", taken) for names in (SCORES, VALUES))
    chosen = "wide" if judged and layout is None else _layout(source, layout, key, labels, texts)
    if judged and chosen == "long":
        raise ValueError(
            f"{source.name}: a long table has no columns of {' and '.join(dict(judged))} labels; "
            "a pair that does not count is a line with the value ignore."
        )
    wanted = LABELS if chosen == "long" else (*LABEL_LISTS, *LABELS)
    column = labels or _only(source, wanted, "labels", "labels", taken | {key or ""})
    return Roles(chosen, key, column, texts, score, value, judged)


def _texts(text: str | Sequence[str] | None) -> tuple[str, ...]:
    if text is None:
        return ()
    return tuple(text.split(",")) if isinstance(text, str) else tuple(text)


def _only(
    source: Source, usual: Sequence[str], what: str, argument: str, taken: set[str]
) -> str | None:
    """The one column with a usual name; of scores and values the first, else two are an error."""
    lower = {name: name.lower().replace(" ", "_") for name in source.names if name not in taken}
    likely = [name for name in lower if lower[name] in usual]
    if len(likely) > 1 and argument == "id":  # the plainest of them
        likely = sorted(likely, key=lambda name: usual.index(lower[name]))[:1]
    if len(likely) > 1 and argument:
        raise ValueError(
            f"{source.name}: which column holds the {what}: {' or '.join(map(repr, likely))}? Say "
            f"it with {setting(argument)}."
        )
    return likely[0] if likely else None


def _layout(
    source: Source, layout: str | None, id: str | None, labels: str | None, texts: Sequence[str]
) -> Layout:
    if layout is not None:
        checks.one_of(layout, ("wide", "long"), "layout")
        if layout == "long" and id is None:
            raise ValueError(
                f"{source.name}: a long table needs a column of ids; name it with {setting('id')}."
            )
        return "long" if layout == "long" else "wide"
    if id is None or texts:
        return "wide"
    others = {name.lower() for name in source.names if name not in (id, labels)}
    expected = {*SCORES, *VALUES, *_OTHERS, *(() if labels else LABELS)}
    of_one_label = labels.lower() in LABELS if labels else bool(others & set(LABELS))
    return "long" if of_one_label and others <= expected else "wide"
