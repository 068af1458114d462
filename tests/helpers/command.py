"""The command line in this process."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple
from unittest import mock

from unmask.cli import main


class Result(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def run(*arguments: object) -> Result:
    """The command in this process: what it returns, and what it writes where."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["unmask", *map(str, arguments)]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            return Result(int(end.code or 0), out.getvalue(), err.getvalue())
    return Result(0, out.getvalue(), err.getvalue())
