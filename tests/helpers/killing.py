"""Work that is killed on its way."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


def killed(step: int, work: Callable[[], object]) -> bool:
    """Run `work` in a forked process that dies just before its n-th rename or removal of a file."""
    child = os.fork()
    if child == 0:
        try:
            _die_before(step)
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9)
    return code == 9


def _die_before(step: int) -> None:
    left = [step]

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            left[0] -= os.path.lexists(arguments[0])
            if left[0] <= 0:
                os._exit(9)
            return call(*arguments, **options)

        return wrapped

    os.replace, os.unlink = counted(os.replace), counted(os.unlink)
