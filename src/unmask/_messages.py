"""Words of messages: settings in the language of the caller.

A message that says "pass format='features'" helps who wrote Python, not who typed a command. So a
message asks for the words here: `setting("format", "features")` is worded as Python, unless the
command line has put its own words in place (`worded`), for the whole process, because work may be
spread over threads. `named_options` refuses a misspelt argument with the nearest name, and `warn`
warns of the line of the caller.
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
        """Word the way in which the caller gives a setting its value."""
        ...

    def function(self, name: str) -> str:
        """Word the way in which the caller gets at a function of the library."""
        ...


class Python:
    """The words of Python."""

    def setting(self, setting: Setting) -> str:
        """Return `name=value`, or the name alone, with its function if not `data.read`."""
        if setting.value is not None:
            return f"{setting.name}={setting.value!r}"
        short = setting.of == "data.read"
        return f"`{setting.name}`" if short else f"`{setting.of}({setting.name}=…)`"

    def function(self, name: str) -> str:
        """Return its name."""
        return f"`{name}`"


_words: list[Words] = [Python()]


def setting(name: str, value: object = None, *, of: str = "data.read") -> str:
    """Return a setting in the words of the caller: `name` of the function `of`, worth `value`.

    >>> setting("format", "features"), setting("labels")
    ("format='features'", '`labels`')
    """
    return _words[-1].setting(Setting(name, value, of))


def function(name: str) -> str:
    """Return a function of the library in the words of the caller.

    >>> function("propensity.clip")
    '`propensity.clip`'
    """
    return _words[-1].function(name)


@contextmanager
def worded(words: Words) -> Iterator[None]:
    """Word messages differently inside the block."""
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
    """Refuse options that are not in the signature of a function, and propose one that is.

    >>> @named_options
    ... def study(rows, *, confidence=0.95):
    ...     return confidence
    >>> study([], confidnce=0.5)
    Traceback (most recent call last):
    TypeError: study() has no option 'confidnce'; did you mean 'confidence'?
    """
    options = frozenset(inspect.signature(function).parameters)

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        if not options.issuperset(kwargs):
            from difflib import get_close_matches

            unknown = sorted(kwargs.keys() - options)[0]
            names = [name for name in inspect.signature(function).parameters if name != "self"]
            near = get_close_matches(unknown, names, n=1)
            advice = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names)}."
            name = function.__qualname__.removesuffix(".__init__")
            raise TypeError(f"{name}() has no option {unknown!r}; {advice}")
        return function(*args, **kwargs)

    return called
