"""Propensities by name, from files and to files."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unmask import _io, _validation
from unmask.propensity.estimate import PropensityEstimate
from unmask.propensity.models import Propensity, constant, inverse_linear, jain
from unmask.propensity.presets import preset
from unmask.propensity.serialization import from_record, to_record


def named(name: str, labels: Any) -> Propensity | PropensityEstimate:
    """Propensities from a short description, as the command line takes it.

    | description | meaning |
    |---|---|
    | `jain`, `jain:0.5,0.4`, `jain:Amazon-670K` | Jain model; default constants, own, of a preset |
    | `constant:0.3` | the same for every label |
    | `inverse_linear`, `inverse_linear:2,20` | 1/p linear in label rank, from head to tail |
    | a path | a file for `read` |

    >>> named("constant:0.3", [[1, 0]])
    array([0.3, 0.3])
    """
    model, _, argument = name.partition(":")
    matrix = _validation.labels(labels)
    if model in MODELS:
        return MODELS[model](matrix, **_arguments(model, argument))
    if os.path.exists(name):
        found = read(name)
        _validation.propensity(found, matrix.shape[1])
        return found
    raise ValueError(
        f"{name!r} is neither a file nor a propensity model; give a path or one of: "
        f"{', '.join(MODELS)} (for example jain:0.55,1.5 or constant:0.3)."
    )


def _arguments(model: str, text: str) -> dict[str, float]:
    if model == "jain" and text[:1].isalpha():
        known = preset(text)
        return {"a": known.a, "b": known.b}
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


def read(
    path: str | os.PathLike[str], *, inverse: bool | None = None
) -> Propensity | PropensityEstimate:
    """Propensities from a text file (plain, gzip or zstd), one number per line, in label order.

    Files of the field hold either p (all ≤ 1) or 1/p (all ≥ 1); which one is seen from the values
    unless `inverse` says it. A file that `write` made of an estimate gives back the estimate.
    """
    content = _io.contents(path)
    if content.lstrip()[:1] == b"{":
        return _estimate(path, content)
    values = _io.numbers(path, content)
    inverted = bool((values > 1).any()) if inverse is None else inverse
    if inverse is None and inverted and (values < 1).any():
        raise ValueError(
            f"{os.fspath(path)}: numbers from {values.min():g} to {values.max():g} are neither "
            "propensities (all ≤ 1) nor inverse propensities (all ≥ 1)."
        )
    with np.errstate(divide="ignore", over="ignore"):
        found = 1 / values if inverted else values
    try:
        return _validation.propensity(found)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None


def _estimate(path: str | os.PathLike[str], content: bytes) -> PropensityEstimate:
    record = _io.read_json(path, content)
    try:
        return from_record(record)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None


def write(path: str | os.PathLike[str], propensity: ArrayLike | PropensityEstimate) -> None:
    """Write one propensity per line, or an estimate with its uncertainty as JSON.

    `read` gives back the same bits; for the bare numbers of an estimate write its `value`.
    """
    with _io.atomic_write(path) as file:
        if isinstance(propensity, PropensityEstimate):
            file.write(json.dumps(to_record(propensity)).encode())
            return
        file.writelines(b"%r\n" % value for value in _validation.propensity(propensity).tolist())


MODELS: dict[str, Callable[..., Propensity]] = {
    "jain": jain,
    "constant": lambda labels, *, value: constant(labels.shape[1], value),
    "inverse_linear": inverse_linear,
}
