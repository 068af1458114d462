"""Estimates as plain records and back, with all that `draw` needs: the same seed, the same draws.

A record holds numbers, text, lists and dicts only, so that JSON can carry it: every dataclass
becomes a dict with its name under "kind", every array a list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

import numpy as np

from unmask import _validation
from unmask._settings import function
from unmask._typing import Floats
from unmask.propensity.audit import Posterior
from unmask.propensity.estimate import PropensityEstimate
from unmask.propensity.frequency_curve import CurveFit
from unmask.propensity.marginals import Ratio
from unmask.propensity.recapture import Either


def to_record(estimate: PropensityEstimate) -> dict[str, object]:
    """What `from_record` needs, as numbers, text, lists and dicts.

    Parameters
    ----------
    estimate : PropensityEstimate

    Returns
    -------
    dict

    Raises
    ------
    ValueError
        If its uncertainty is none of the package's own, and so cannot be restored.

    Examples
    --------
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
    return cast("dict[str, object]", _plain(estimate))


def from_record(record: object) -> PropensityEstimate:
    """The estimate that `to_record` was given.

    Parameters
    ----------
    record : dict
        As `to_record` made it.

    Returns
    -------
    PropensityEstimate

    Raises
    ------
    ValueError
        If it is no such record, or a damaged one.
    """
    if not isinstance(record, Mapping) or record.get("kind") != PropensityEstimate.__name__:
        raise ValueError(
            "this record is no propensity estimate: it has no kind 'PropensityEstimate'; make "
            f"one with {function('propensity.write')}."
        )
    try:
        estimate = cast(PropensityEstimate, _restored(record))
        _refuse_unsound(estimate)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, ArithmeticError) as error:
        raise ValueError(f"the record of a propensity estimate is damaged: {error}.") from None
    return estimate


def _refuse_unsound(estimate: PropensityEstimate) -> None:
    """Raise unless every number is one, and `draw` draws."""
    n_labels = _validation.propensity(estimate.value).size
    for name in ("low", "high", "evidence"):
        _validation.per_label(getattr(estimate, name), n_labels, name)
    _validation.in_range(estimate.confidence, "confidence", 0, 1)
    _validation.in_range(estimate.effect, "effect", 0, float(np.finfo(float).max))
    texts = (estimate.method, *estimate.notes)
    if not isinstance(estimate.notes, tuple) or not all(isinstance(each, str) for each in texts):
        raise ValueError(f"method and notes must be text; got {texts!r:.200}")
    both = estimate.uncertainty
    for part in (both.first, both.second) if isinstance(both, Either) else (both,):
        if isinstance(part, Posterior):
            _refuse_unsound_curve(part.curve)
    if estimate.curve is not None:
        _refuse_unsound_curve(estimate.curve)
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        drawn = estimate.draw(seed=0, size=2)
    if drawn.shape != (2, n_labels):
        raise ValueError(f"draws have shape {drawn.shape} for {n_labels} labels")
    _validation.finite(drawn, "draws")


def _refuse_unsound_curve(curve: CurveFit) -> None:
    if curve.draws.ndim != 2 or curve.draws.shape[1] != 4 or not len(curve.draws):
        raise ValueError(f"the draws of a curve have shape {curve.draws.shape}")
    parameters = np.array([curve.a, curve.b, curve.concentration, curve.scale], dtype=float)
    if not ((curve.draws > 0).all() and (parameters > 0).all()):
        raise ValueError("parameters of a curve must be positive")
    _validation.finite(curve.draws, "draws of a curve")


def _plain(value: object) -> object:
    if is_dataclass(value):
        parts = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {"kind": type(value).__name__, **parts}
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _restored(value: object) -> object:
    if isinstance(value, Mapping):
        parts = {name: _restored(each) for name, each in value.items() if name != "kind"}
        return KINDS[value["kind"]](**parts) if "kind" in value else parts
    if not isinstance(value, list):
        return value
    return tuple(value) if value and isinstance(value[0], str) else np.array(value, float)


def _estimate(notes: tuple[str, ...] | Floats = (), **parts: Any) -> PropensityEstimate:
    """An empty list of notes has become an array."""
    return PropensityEstimate(notes=cast("tuple[str, ...]", notes) if len(notes) else (), **parts)


def _curve(intervals: Mapping[str, Floats], **parts: Any) -> CurveFit:
    """Intervals are pairs of numbers."""
    pairs = {name: (float(low), float(high)) for name, (low, high) in intervals.items()}
    return CurveFit(intervals=pairs, **parts)


KINDS: dict[str, Callable[..., object]] = {
    "PropensityEstimate": _estimate,
    "Posterior": Posterior,
    "Either": Either,
    "Ratio": Ratio,
    "CurveFit": _curve,
}
