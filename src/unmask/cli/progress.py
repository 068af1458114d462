"""A bar on standard error for work that takes a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from unmask._text import visible
from unmask.cli.output import progress_console


class _Rate(ProgressColumn):
    """How many are done per second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f}/s" if task.speed else "")


@contextmanager
def bar(description: str) -> Iterator[Callable[[int, int], None]]:
    """A bar that the yielded function moves: call it with how many are done, of how many."""
    columns = (BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn())
    label = TextColumn("{task.description}", markup=False)
    with Progress(label, *columns, console=progress_console) as progress:
        task = progress.add_task(visible(description))
        yield lambda completed, total: progress.update(task, completed=completed, total=total)
