"""Tasks in this process: one after the other, or at the same time where there are threads."""

from __future__ import annotations

import threading

import joblib
import pytest

from unmask import _kernels
from unmask.parallel.runner import LocalRunner


@pytest.mark.parametrize("configured", [True, False])
def test_two_tasks_run_at_the_same_time(monkeypatch: pytest.MonkeyPatch, configured: bool) -> None:
    """Each waits for the other."""
    monkeypatch.setattr(_kernels, "threads", lambda: 1 if configured else 2)
    meeting = threading.Barrier(2, timeout=20)

    def work(shared: int, task: int) -> int:
        meeting.wait()
        return shared + task

    with joblib.parallel_config("threading", n_jobs=2 if configured else None):
        assert sorted(LocalRunner().run(work, [1, 2], 10)) == [(0, 11), (1, 12)]


@pytest.mark.parametrize(("threads", "tasks"), [(1, [1, 2, 3]), (4, [1])])
def test_one_thread_or_one_task_needs_no_other(
    monkeypatch: pytest.MonkeyPatch, threads: int, tasks: list[int]
) -> None:
    monkeypatch.setattr(_kernels, "threads", lambda: threads)
    used = {name for _, name in LocalRunner().run(lambda *_: threading.get_ident(), tasks)}
    assert used == {threading.get_ident()}
