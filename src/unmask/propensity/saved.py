"""Estimates as plain records and back, with all that `draw` needs: the same seed, the same draws.

A record holds numbers, text, lists and dicts only, so that JSON can carry it: every dataclass
becomes a dict with its name under "kind", every array a list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from unmask import _checks
from unmask.propensity.audit import Posterior
from unmask.propensity.curve import CurveFit
from unmask.propensity.estimate import PropensityEstimate
from unmask.propensity.marginals import Ratio
from unmask.propensity.recapture import Either


def to_record(estimate: PropensityEstimate) -> dict[str, Any]:
    """What `from_record` needs.

    >>> from unmask import propensity
    >>> p = propensity.from_marginals([[1, 0]] * 30 + [[0, 1]] * 10, [0.9, 0.5])
    >>> record = to_record(p)
    >>> record["kind"], record["uncertainty"]["n"]
    ('PropensityEstimate', 40)
    >>> bool((from_record(record).draw(seed=0, size=3) == p.draw(seed=0, size=3)).all())
    True
    """
    if type(estimate.uncertainty).__name__ not in KINDS:
        raise ValueError(
            f"an uncertainty of type {type(estimate.uncertainty).__name__} cannot be saved; use "
            f"one of: {', '.join(KINDS)}."
        )
    record: dict[str, Any] = _plain(estimate)
    return record


def from_record(record: Any) -> PropensityEstimate:
    """The estimate that `to_record` was given."""
    if not isinstance(record, Mapping) or record.get("kind") != PropensityEstimate.__name__:
        raise ValueError(
            "this record is no propensity estimate: it has no kind 'PropensityEstimate'; make "
            "one with `propensity.write` or `unmask propensity --audit … -o FILE.json`."
        )
    try:
        estimate = _whole(record)
        _checks.propensity(estimate.value)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the record of a propensity estimate is incomplete: {error}.") from None
    return estimate  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        parts = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {"kind": type(value).__name__, **parts}
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _whole(value: Any) -> Any:
    if isinstance(value, Mapping):
        parts = {name: _whole(each) for name, each in value.items() if name != "kind"}
        return KINDS[value["kind"]](**parts) if "kind" in value else parts
    if not isinstance(value, list):
        return value
    return tuple(value) if not value or isinstance(value[0], str) else np.array(value, float)


def _curve(intervals: Mapping[str, Any], **parts: Any) -> CurveFit:
    pairs = {name: (float(low), float(high)) for name, (low, high) in intervals.items()}
    return CurveFit(intervals=pairs, **parts)


KINDS: dict[str, Callable[..., Any]] = {
    "PropensityEstimate": PropensityEstimate,
    "Posterior": Posterior,
    "Either": Either,
    "Ratio": Ratio,
    "CurveFit": _curve,
}
