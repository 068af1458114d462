"""Propensities by name, from files and to files.

Estimates are stored as plain records with all that `draw` needs: the same seed, the same draws. A
record holds numbers, text, lists and dicts only, so that JSON can carry it: every dataclass becomes
a dict with its name under "kind", every array a list.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

import numpy as np

from unmask._messages import function, named_options
from unmask._typing import Floats, LabelsLike, PathLike, PropensityLike
from unmask.arrays import checks
from unmask.files import atomic_write, contents, numbers, read_json
from unmask.propensity.estimate import CurveFit, Either, Posterior, PropensityEstimate, Ratio
from unmask.propensity.models import (
    Propensity,
    Source,
    SourceKind,
    constant,
    inverse_linear,
    jain,
    preset,
    with_source,
)


def from_spec(spec: str, labels: LabelsLike) -> Propensity | PropensityEstimate:
    """Return propensities from a short specification, as the command line takes it.

    | specification | meaning |
    |---|---|
    | `jain`, `jain:0.5,0.4`, `jain:Amazon-670K` | Jain model; default constants, own, of a preset |
    | `constant:0.3` | the same for every label |
    | `inverse_linear`, `inverse_linear:2,20` | 1/p linear in label rank, from head to tail |
    | a path | a file for `read` |

    Parameters
    ----------
    spec : str
        The name of a model in `MODELS`, with its constants or a preset after a colon, or a path.
    labels : matrix of shape (n, L)
        Training labels, dense or sparse: the models count them.

    Returns
    -------
    Propensity, or PropensityEstimate
        An array of shape (L,) that carries its `source`; an estimate if the file holds one.

    Raises
    ------
    ValueError
        If there is neither such a model nor such a file, if its constants are not understood, or
        if the file holds another number of labels.

    Examples
    --------
    >>> from_spec("constant:0.3", [[1, 0]])
    array([0.3, 0.3])
    """
    model, _, constants = spec.partition(":")
    matrix = checks.labels(labels)
    if model == "jain" and constants[:1].isalpha():  # the name of a data set
        published = preset(constants)
        p = jain(matrix, a=published.a, b=published.b)
        return with_source(p, replace(p.source, kind=SourceKind.PRESET, name=published.name))
    if model in MODELS:
        return MODELS[model](matrix, **_constants(model, constants))
    if os.path.exists(spec):
        propensity = read(spec)
        checks.propensity(propensity, matrix.shape[1])
        return propensity
    raise ValueError(
        f"{spec!r} is neither a file nor a propensity model; give a path or one of: "
        f"{', '.join(MODELS)} (for example jain:0.55,1.5 or constant:0.3)."
    )


def _constants(model: str, text: str) -> dict[str, float]:
    signature = inspect.signature(MODELS[model])
    names = list(signature.parameters)[1:]
    try:
        numbers = [float(part) for part in text.split(",")] if text else []
        arguments = dict(zip(names[: len(numbers)], numbers, strict=True))
        signature.bind(None, **arguments)
    except (ValueError, TypeError):
        raise ValueError(
            f"{model}:{text} is not understood; write {model}:{','.join(names)} with numbers."
        ) from None
    return arguments


@named_options
def read(path: PathLike, *, inverse: bool | None = None) -> Propensity | PropensityEstimate:
    """Read propensities from a text file (plain, gzip or zstd): one number per line and label.

    Parameters
    ----------
    path : str or path
        A file of numbers, or one that `write` made of an estimate.
    inverse : bool, optional
        Whether the file holds 1/p (all ≥ 1) and not p (all ≤ 1); by default the values decide.

    Returns
    -------
    Propensity, or PropensityEstimate
        An array of shape (L,) that carries its `source`; an estimate if `write` made the file of
        one.

    Raises
    ------
    ValueError
        If the file holds anything but propensities, all of them p or all of them 1/p.

    Examples
    --------
    >>> import tempfile
    >>> file = tempfile.mkdtemp() + "/p.txt"
    >>> write(file, [0.5, 0.25])
    >>> read(file)
    array([0.5 , 0.25])
    """
    content, name = contents(path), os.fspath(path)
    is_record = content.lstrip()[:1] == b"{"
    stored = read_json(path, content) if is_record else numbers(path, content)
    try:
        if is_record:
            return from_record(stored)
        return with_source(_numbers(stored, inverse), Source(SourceKind.FILE, name=name))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _numbers(values: Floats, inverse: bool | None) -> Floats:
    """Return checked propensities from numbers that are p or 1/p."""
    inverted = bool((values > 1).any()) if inverse is None else inverse
    if inverse is None and inverted and (values < 1).any():
        raise ValueError(
            f"numbers from {values.min():g} to {values.max():g} are neither propensities "
            "(all ≤ 1) nor inverse propensities (all ≥ 1)."
        )
    with np.errstate(divide="ignore", over="ignore"):
        return checks.propensity(1 / values if inverted else values)


def write(path: PathLike, propensity: PropensityLike) -> None:
    """Write one propensity per line, or an estimate with its uncertainty as JSON.

    `read` gives back the same bits.

    Parameters
    ----------
    path : str or path
        The file; `.gz` and `.zst` at the end compress.
    propensity : array of shape (L,), or PropensityEstimate
        For the bare numbers of an estimate give its `value`.

    Raises
    ------
    ValueError
        If a propensity lies outside (0, 1].

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> file = Path(tempfile.mkdtemp()) / "p.txt"
    >>> write(file, [0.5, 0.25])
    >>> print(file.read_text())
    0.5
    0.25
    """
    with atomic_write(path) as file:
        if isinstance(propensity, PropensityEstimate):
            file.write(json.dumps(to_record(propensity)).encode())
            return
        file.writelines(b"%r\n" % value for value in checks.propensity(propensity).tolist())


MODELS: dict[str, Callable[..., Propensity]] = {
    "jain": jain,
    "constant": lambda labels, *, value: constant(labels.shape[1], value),
    "inverse_linear": inverse_linear,
}
"""Models that `from_spec` knows: functions of the training labels and their constants."""


def to_record(estimate: PropensityEstimate) -> dict[str, object]:
    """Return the numbers, text, lists and dicts that `from_record` needs.

    ValueError if the uncertainty is none of the package's own, and so cannot be restored.

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
    """Return the estimate that `to_record` was given; ValueError for anything else."""
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
    n_labels = checks.propensity(estimate.value).size
    for name in ("low", "high", "evidence"):
        checks.per_label(getattr(estimate, name), n_labels, name)
    checks.in_range(estimate.confidence, "confidence", 0, 1)
    checks.in_range(estimate.effect, "effect", 0, float(np.finfo(float).max))
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
    checks.finite(drawn, "draws")


def _refuse_unsound_curve(curve: CurveFit) -> None:
    if curve.draws.ndim != 2 or curve.draws.shape[1] != 4 or not len(curve.draws):
        raise ValueError(f"the draws of a curve have shape {curve.draws.shape}")
    parameters = np.array([curve.a, curve.b, curve.concentration, curve.scale], dtype=float)
    if not ((curve.draws > 0).all() and (parameters > 0).all()):
        raise ValueError("parameters of a curve must be positive")
    checks.finite(curve.draws, "draws of a curve")


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


def _estimate_from(notes: tuple[str, ...] | Floats = (), **parts: Any) -> PropensityEstimate:
    """Return the estimate, where an empty list of notes has become an array."""
    return PropensityEstimate(notes=cast("tuple[str, ...]", notes) if len(notes) else (), **parts)


def _curve(intervals: Mapping[str, Floats], **parts: Any) -> CurveFit:
    """Return the curve, with intervals as pairs of numbers."""
    pairs = {name: (float(low), float(high)) for name, (low, high) in intervals.items()}
    return CurveFit(intervals=pairs, **parts)


KINDS: dict[str, Callable[..., object]] = {
    "PropensityEstimate": _estimate_from,
    "Posterior": Posterior,
    "Either": Either,
    "Ratio": Ratio,
    "CurveFit": _curve,
}
