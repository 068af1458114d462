"""How messages name a setting: an argument of a function, or an option of a command.

A message that says "pass format='features'" helps who wrote Python, not who typed a command. So a
message asks for the words here: `setting("format", "features")` is the value, and its words are
those of whoever runs. Python's are the default; the command line puts its own in their place
(`worded`), for the whole process, because work may be spread over threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol


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
