"""Propensities by name, from files and to files."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from unmask import _io, _validation
from unmask._typing import LabelsLike, PathLike, PropensityLike
from unmask.propensity.estimate import PropensityEstimate
from unmask.propensity.models import constant, inverse_linear, jain
from unmask.propensity.presets import preset
from unmask.propensity.serialization import from_record, to_record
from unmask.propensity.source import Propensity, Source, SourceKind, with_source


def from_spec(spec: str, labels: LabelsLike) -> Propensity | PropensityEstimate:
    """Propensities from a short specification, as the command line takes it.

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
    matrix = _validation.labels(labels)
    if _is_preset(model, constants):
        published = preset(constants)
        p = jain(matrix, a=published.a, b=published.b)
        return with_source(p, replace(p.source, kind=SourceKind.PRESET, name=published.name))
    if model in MODELS:
        return MODELS[model](matrix, **_constants(model, constants))
    if os.path.exists(spec):
        propensity = read(spec)
        _validation.propensity(propensity, matrix.shape[1])
        return propensity
    raise ValueError(
        f"{spec!r} is neither a file nor a propensity model; give a path or one of: "
        f"{', '.join(MODELS)} (for example jain:0.55,1.5 or constant:0.3)."
    )


def _is_preset(model: str, constants: str) -> bool:
    """Whether the name of a data set stands in place of Jain's constants."""
    return model == "jain" and constants[:1].isalpha()


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


def read(path: PathLike, *, inverse: bool | None = None) -> Propensity | PropensityEstimate:
    """Propensities from a text file (plain, gzip or zstd), one number per line, in label order.

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
        propensity = 1 / values if inverted else values
    try:
        checked = _validation.propensity(propensity)
        return with_source(checked, Source(SourceKind.FILE, name=os.fspath(path)))
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None


def _estimate(path: PathLike, content: bytes) -> PropensityEstimate:
    record = _io.read_json(path, content)
    try:
        return from_record(record)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None


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
"""Models that `from_spec` knows: functions of the training labels and their constants."""
