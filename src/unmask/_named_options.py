"""`named_options`: a function that proposes the nearest name where an option is misspelt."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def named_options(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse options that are not in the signature, and propose one that is.

    Parameters
    ----------
    function : callable
        With all its options in its signature, which stays as it is.

    Returns
    -------
    callable

    Examples
    --------
    >>> @named_options
    ... def study(rows, *, confidence=0.95):
    ...     return confidence
    >>> study([], confidnce=0.5)
    Traceback (most recent call last):
    TypeError: study() has no option 'confidnce'; did you mean 'confidence'?
    """
    options = frozenset(inspect.signature(function).parameters)

    @wraps(function)
    def called(*args: P.args, **given: P.kwargs) -> R:
        if not options.issuperset(given):
            raise TypeError(_refusal(function, sorted(given.keys() - options)[0]))
        return function(*args, **given)

    return called


def _refusal(function: Callable[..., object], unknown: str) -> str:
    from difflib import get_close_matches

    names = [name for name in inspect.signature(function).parameters if name != "self"]
    near = get_close_matches(unknown, names, n=1)
    advice = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names)}."
    name = function.__qualname__.removesuffix(".__init__")
    return f"{name}() has no option {unknown!r}; {advice}"
