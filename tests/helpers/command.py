"""The command line in this process."""

from __future__ import annotations

import io
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple
from unittest import mock

import pytest

from unmask.cli import main, output

PYTHON = re.compile(
    r"(?<![\w-])(?!NAME=)[a-z_]+=(?!=)"  # an argument, such as part='train'
    r"|`(?!unmask )[a-z_]+\.[a-z_]+`"  # a function without its package, such as `data.read`
)
"""What no message of a command should name: arguments and functions of Python."""


def of_width(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Let commands write lines of so many characters, whatever was imported before."""
    for console in (output.results, output.messages, output.progress_console):
        monkeypatch.setattr(console, "_width", width)


class Result(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def run(*arguments: object) -> Result:
    """The command in this process: what it returns, and what it writes where.

    Fails where a message speaks of Python to somebody who typed a command.
    """
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["unmask", *map(str, arguments)]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
    said = re.sub(r"--table '?[a-z]+=", "--table ", err.getvalue())
    quoted = [str(argument) for argument in arguments if PYTHON.search(str(argument))]
    assert quoted or not PYTHON.search(said), f"a message names Python's arguments: {said}"
    return Result(code, out.getvalue(), err.getvalue())
