"""How messages name a setting: an argument of a function, or an option of a command.

A message that says "pass format='features'" helps who wrote Python, not who typed a command. So a
message asks for the words here: `setting("format", "features")` is the value, and its words are
those of whoever runs. Python's are the default; the command line puts its own in their place
(`worded`), for the whole process, because work may be spread over threads. A misspelt argument is
refused with the nearest name by `named_options`.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import NamedTuple, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Setting(NamedTuple):
    """An argument, the value it should get (None: any), and the function that takes it."""

    name: str
    value: object = None
    of: str = "data.read"


class Words(Protocol):
    """The language of a caller."""

    def setting(self, setting: Setting) -> str:
        """How the caller gives a setting its value."""
        ...

    def function(self, name: str) -> str:
        """How the caller does what a function of the library does."""
        ...


class Python:
    """The words of Python."""

    def setting(self, setting: Setting) -> str:
        """`name=value`; without a value the name, and of which function if not of `data.read`."""
        if setting.value is not None:
            return f"{setting.name}={setting.value!r}"
        return (
            f"`{setting.name}`"
            if setting.of == "data.read"
            else f"`{setting.of}({setting.name}=…)`"
        )

    def function(self, name: str) -> str:
        """Its name."""
        return f"`{name}`"


_words: list[Words] = [Python()]


def setting(name: str, value: object = None, *, of: str = "data.read") -> str:
    """A setting in the words of the caller.

    Parameters
    ----------
    name : str
        Of the argument.
    value : object, optional
        What it should be.
    of : str, default "data.read"
        The function that takes it.

    Returns
    -------
    str

    Examples
    --------
    >>> setting("format", "features"), setting("labels")
    ("format='features'", '`labels`')
    """
    return _words[-1].setting(Setting(name, value, of))


def function(name: str) -> str:
    """A function of the library in the words of the caller.

    >>> function("propensity.clip")
    '`propensity.clip`'
    """
    return _words[-1].function(name)


@contextmanager
def worded(words: Words) -> Iterator[None]:
    """Messages in other words inside the block."""
    _words.append(words)
    try:
        yield
    finally:
        _words.remove(words)


def warn(message: str, category: type[Warning]) -> None:
    """Warn of the line outside this package that led here."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("unmask."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


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
