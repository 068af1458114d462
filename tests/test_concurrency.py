"""Several at once: processes on one folder, threads in one function, a fork after threads.

The calls are those of `test_adversarial`, which names every public function that takes arrays.
"""

from __future__ import annotations

import fcntl
import os
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import unmask
import unmask_studies
from tests.helpers.paths import files_in
from tests.helpers.public_calls import CALLS, GIVEN, inputs_of
from unmask import _kernels, data, linear, predictions, tree
from unmask._kernels import even_bounds, row_bounds
from unmask.files import exclusive
from unmask.files import text as text_rows
from unmask.predictions import TopK

REFUSED, BROKEN = 3, 4


def together(*jobs: Callable[[], Any]) -> list[int]:
    """Run every job in a forked process, all from the same moment; 0, REFUSED or BROKEN."""
    ready, go = os.pipe(), os.pipe()
    children = [_forked(job, ready[1], go) for job in jobs]
    os.close(go[0])
    for _ in jobs:
        os.read(ready[0], 1)
    os.close(go[1])  # which all are waiting for
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    for end in ready:
        os.close(end)
    return codes


def _forked(job: Callable[[], Any], ready: int, go: tuple[int, int]) -> int:
    child = os.fork()
    if child:
        return child
    code = BROKEN
    try:
        os.close(go[1])
        os.write(ready, b".")
        os.read(go[0], 1)
        job()
        code = 0
    except ValueError as error:
        code = REFUSED if "another process is writing to" in str(error) else BROKEN
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _problem() -> tuple[sp.csr_array, sp.csr_array]:
    given = data.synthetic.planted(300, n_features=60, n_labels=40, seed=5)
    return given.features, given.labels


def test_two_trainings_into_one_folder_end_in_one_model(tmp_path: Path) -> None:
    x, y = _problem()
    whole = linear.train_to(tmp_path / "alone", x, y, shard_labels=2)

    def training() -> None:
        linear.train_to(tmp_path / "both", x, y, shard_labels=2)

    codes = together(training, training, training)
    assert set(codes) <= {0, REFUSED}
    assert 0 in codes
    assert np.array_equal(linear.load(tmp_path / "both").weights, whole.weights)
    assert files_in(tmp_path / "both") == files_in(tmp_path / "alone")


def test_a_folder_in_use_is_refused_and_is_free_again_afterwards(tmp_path: Path) -> None:
    x, y = _problem()

    def within(done: int, total: int) -> None:
        with pytest.raises(ValueError, match=f"another process is writing to {tmp_path}"):
            linear.save(tmp_path, model)

    model = linear.train(x, y)[0]
    linear.train_to(tmp_path, x, y, progress=within)
    linear.save(tmp_path, model)


@pytest.mark.parametrize("train_to", [linear.train_to, tree.train_to])
def test_a_training_that_is_refused_leaves_the_folder_of_the_other(
    train_to: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that looked for it before the other made it, and has written nothing yet."""
    x, y = _problem()
    folder = tmp_path / "both"
    folder.mkdir()
    with exclusive(folder):
        monkeypatch.setattr(type(folder), "exists", lambda path: False)
        with pytest.raises(ValueError, match="another process is writing to"):
            train_to(folder, x, y)
    monkeypatch.undo()
    assert folder.exists()


@pytest.mark.parametrize("made_anew", [False, True])
def test_a_folder_that_is_removed_while_it_is_locked_is_not_written_to(
    made_anew: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, beside = tmp_path / "both", tmp_path / "beside"
    folder.mkdir()
    lock = fcntl.flock

    def locked_late(descriptor: int, operation: int) -> None:
        folder.rename(beside)
        if made_anew:
            folder.mkdir()
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", locked_late)
    with pytest.raises(ValueError, match="another process is writing to"), exclusive(folder):
        pass
    assert not list(beside.iterdir())


def test_two_models_saved_into_one_folder_do_not_mix(tmp_path: Path) -> None:
    x, y = _problem()
    models = [linear.train(x, y, linear.Recipe(C=c))[0] for c in (0.01, 1.0)]

    def saving(model: linear.LinearModel) -> Callable[[], None]:
        return lambda: linear.save(tmp_path / "m", model, shard_labels=1)

    codes = together(*(saving(model) for model in models))
    assert set(codes) <= {0, REFUSED}
    found = linear.load(tmp_path / "m")
    assert any(
        np.array_equal(found.weights, model.weights) and found.parameters == model.parameters
        for model in models
    )


def test_two_reproductions_into_one_folder_agree(tmp_path: Path) -> None:
    def study(folder: str) -> Callable[[], Any]:
        chosen = unmask_studies.STUDIES["variance"]
        return lambda: unmask_studies.run(chosen, tmp_path / folder, size="tiny")

    study("alone")()
    assert together(study("both"), study("both")) == [0, 0]
    assert files_in(tmp_path / "both") == files_in(tmp_path / "alone")


def test_a_file_written_twice_at_once_is_one_of_both(tmp_path: Path) -> None:
    tops = [TopK.from_scores(sign * GIVEN["scores"], 3) for sign in (1, -1)]

    def writing(top: TopK) -> Callable[[], None]:
        return lambda: [predictions.write(tmp_path / "p.txt", top) for _ in range(20)] and None

    assert together(*(writing(top) for top in tops)) == [0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["p.txt"]
    found = predictions.read(tmp_path / "p.txt")
    assert any(np.array_equal(found.labels, top.labels) for top in tops)


# Threads.


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Cut work so finely that the few rows here are spread over threads; counts the spreads."""
    spreads: list[int] = []

    class Counted(ThreadPoolExecutor):
        def __init__(self, count: int) -> None:
            spreads.append(count)
            super().__init__(count)

    monkeypatch.setattr(_kernels, "ThreadPoolExecutor", Counted)
    monkeypatch.setattr(row_bounds, "__defaults__", (64,))
    monkeypatch.setattr(even_bounds, "__defaults__", (64,))
    monkeypatch.setattr(text_rows, "_CHUNK", 64)
    return spreads


def _same_bits(one: Any, other: Any, name: str) -> None:
    if isinstance(one, tuple | list):
        assert len(one) == len(other), name
        for a, b in zip(one, other, strict=True):
            _same_bits(a, b, name)
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype, name
        assert one.tobytes() == other.tobytes(), name
    else:
        assert one == other or (one != one and other != other), name


def _all(threads: int) -> dict[str, Any]:
    unmask.set_threads(threads)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {name: call(inputs_of()) for name, call in CALLS.items()}
    finally:
        unmask.set_threads(None)


SPREAD = {"weights.unbiased", "linear.predict_top", "data.hide"}
"""Some of which it is certain that they use threads here."""


def test_no_result_depends_on_the_number_of_threads(small_chunks: list[int]) -> None:
    one = _all(1)
    assert not small_chunks
    two = _all(2)
    assert len(small_chunks) > 10
    assert set(small_chunks) == {2}
    for name in CALLS:
        _same_bits(one[name], two[name], name)


def test_reading_does_not_depend_on_the_number_of_threads(
    small_chunks: list[int], tmp_path: Path
) -> None:
    data.write(tmp_path / "a.txt", data.synthetic.planted(200, n_labels=30, seed=1))
    found = []
    for threads in (1, 2, 3):
        unmask.set_threads(threads)
        read = data.read(tmp_path / "a.txt")
        found.append([m.data.tobytes() + m.indices.tobytes() + m.indptr.tobytes()
                      for m in (read.features, read.labels)])  # fmt: skip
    unmask.set_threads(None)
    assert small_chunks
    assert found[0] == found[1] == found[2]


@pytest.mark.filterwarnings("ignore")
def test_threads_in_one_function_do_not_disturb_each_other(small_chunks: list[int]) -> None:
    expected = _all(1)
    start = Barrier(4)

    def caller(offset: int) -> list[str]:
        names = list(CALLS)
        start.wait()
        for name in names[offset:] + names[:offset]:
            _same_bits(CALLS[name](inputs_of()), expected[name], name)
        return names

    with ThreadPoolExecutor(4) as pool:  # two with the same order, two elsewhere
        done = [each.result() for each in [pool.submit(caller, at) for at in (0, 0, 7, 20)]]
    assert all(len(names) == len(CALLS) for names in done)
    assert _kernels.threads() == len(os.sched_getaffinity(0)) or "UNMASK_THREADS" in os.environ


def test_the_choice_of_one_thread_is_its_own() -> None:
    """Two that choose and finish in turn must leave the setting as it was."""
    usual = _kernels.threads()
    inside, leave = Barrier(3), Barrier(3)

    def choose(count: int) -> int:
        with _kernels.using_threads(count):
            inside.wait()
            found = _kernels.threads()
            leave.wait()
        return found

    with ThreadPoolExecutor(2) as pool:
        chosen = [pool.submit(choose, count) for count in (5, 7)]
        inside.wait()
        assert _kernels.threads() == usual
        leave.wait()
        assert [each.result() for each in chosen] == [5, 7]
    assert _kernels.threads() == usual


@pytest.mark.filterwarnings("ignore")
def test_a_fork_after_threads_works_as_before(small_chunks: list[int]) -> None:
    names = ("metrics.evaluate", "weights.unbiased", "linear.train", "linear.predict_top")
    unmask.set_threads(2)
    try:
        expected = {name: CALLS[name](inputs_of()) for name in names}
        assert small_chunks

        def again() -> None:
            for name in names:
                _same_bits(CALLS[name](inputs_of()), expected[name], name)

        assert together(again, again) == [0, 0]
    finally:
        unmask.set_threads(None)
