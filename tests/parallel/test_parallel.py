"""Work on many workers: the same bits as in one process, and never a wrong model when they fail."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import distributed
import joblib
import numpy as np
import pytest
import scipy.sparse as sp

import unmask_studies
from tests.helpers.cluster import CONFIG, RNG, L, N, X, Y, contents
from tests.helpers.command import run
from unmask import LinearClassifier, TopK, _kernels, data, evaluate, parallel, predictions
from unmask._kernels import using_threads
from unmask.linear import Recipe, load, plan, predict_top, train, train_to
from unmask.metrics import Evaluator, evaluate_shards
from unmask.models import linear as planning
from unmask.models import store, training
from unmask.models.problem import prepare
from unmask.parallel import LocalRunner
from unmask.propensity import from_marginals, jain

pytestmark = pytest.mark.xdist_group("cluster")  # one pair of workers serves all


@pytest.fixture(scope="module")
def client() -> Iterator[distributed.Client]:
    """Two worker processes of one thread and 1 GB each."""
    with (
        dask.config.set(CONFIG),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit="1GB"
        ) as dask_runner,
        distributed.Client(dask_runner, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model as one process makes it."""
    folder = tmp_path_factory.mktemp("model") / "whole"
    train_to(folder, X, Y, Recipe(prune_below=0.01), shard_labels=16)
    return folder


def pids(client: distributed.Client) -> list[int]:
    return list(client.run(os.getpid).values())


# The same answers


def test_processes_of_this_machine_keep_their_memory_for_the_next_array() -> None:
    with parallel.connect("local:1") as runner:
        limit = list(runner.run(lambda _, name: os.environ[name], ["MALLOC_MMAP_THRESHOLD_"]))
        assert runner.resources().workers == 1
    assert limit == [(0, str(32 * 2**20))]


def test_workers_make_the_same_files(client: Any, whole: Path, tmp_path: Path) -> None:
    """Written by the dask_runner, who see the folder; nothing else is left in it."""
    train_to(tmp_path / "m", X, Y, Recipe(prune_below=0.01), shard_labels=16, backend=client)
    assert contents(tmp_path / "m") == contents(whole)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "softmax"])
def test_the_classifier_does_not_depend_on_its_backend(client: Any, loss: str) -> None:
    choices = {"loss": loss, "reduction": "pal" if loss == "softmax" else "ova"}
    here = LinearClassifier(**choices).fit(X, Y)
    there = LinearClassifier(**choices, backend=client).fit(X, Y)
    assert np.array_equal(here.coef_, there.coef_)
    assert np.array_equal(here.intercept_, there.intercept_)
    assert np.array_equal(here.objective_, there.objective_)
    assert np.array_equal(here.predict_top(X, 5).labels, there.predict_top(X, 5).labels)


@pytest.mark.parametrize(
    "backend", ["threading", "dask", pytest.param("loky", marks=pytest.mark.slow)]
)
def test_joblib_runs_the_same_blocks(backend: str, client: Any, whole: Path) -> None:
    more = {"client": client} if backend == "dask" else {}
    with joblib.parallel_config(backend=backend, n_jobs=2, **more):
        model, _ = train(X, Y, Recipe(prune_below=0.01))
    assert (model.weights != load(whole).weights).nnz == 0


@pytest.mark.filterwarnings("ignore::unmask.linear.NonConvexWarning")
def test_warnings_and_refusals_come_home(client: Any, tmp_path: Path) -> None:
    """A worker's verdict on a label names the label as the caller knows it, and nothing is kept."""
    p = np.ones(L)
    p[140] = 0.01
    recipe = Recipe("squared_hinge", correction="unbiased", C=100.0)
    with pytest.raises(ValueError, match="no minimum for label 140:"):
        train_to(tmp_path, X, Y, recipe, propensity=p, shard_labels=64, backend=client)
    with pytest.raises(ValueError, match="training has not finished"):
        load(tmp_path)


def test_only_the_given_labels_travel() -> None:
    """A task's size does not depend on the features; the features are in what is shared."""
    wide = sp.hstack([X] * 50).tocsr()
    small, large = (prepare(x, Y, Recipe(), None, None) for x in (X, wide))
    sizes = [
        sum(a.nbytes for a in task.part.entries)
        for given in (small, large)
        for task in planning.blocks(given, 64)
    ]
    assert sizes[: len(sizes) // 2] == sizes[len(sizes) // 2 :]
    assert planning.features_bytes(large) > 30 * planning.features_bytes(small)
    assert large.common.entries.rows.size == 0


def test_features_reach_a_worker_once(client: Any) -> None:
    """Of ten tasks per worker, each finds the very array that the first one found."""
    shared = {"x": np.arange(200_000.0)}
    with parallel.connect(client) as runner:
        found = [where for _, where in runner.run(_where, range(20), shared)]
    assert len(set(found)) <= 2


def _where(shared: dict[str, Any], task: int) -> tuple[int, int]:
    return os.getpid(), shared["x"].__array_interface__["data"][0]


def test_sharded_evaluation_is_exact(client: Any, tmp_path: Path) -> None:
    found = TopK.from_scores(RNG.random((N, L)), 5)
    p = jain(Y)
    settings: dict[str, Any] = {
        "metrics": ["P@1", "R@5", "nDCG@5", "PSP@3", "macro-R@5"],
        "estimators": ["vanilla", "unbiased", "deconvolved", "normalized", "subsampled"],
        "interval": "bca",
        "replicates": 50,
    }
    cuts = [0, 10, 170, N]
    shards: list[Any] = []
    for number, (a, b) in enumerate(pairwise(cuts)):
        part = TopK(found.labels[a:b], found.scores[a:b])
        predictions.write(tmp_path / f"{number}.top", part)
        data.write(tmp_path / f"{number}.txt", data.Dataset(features=X[a:b], labels=Y[a:b]))
        shards.append((part, Y[a:b]))
    files = [(tmp_path / f"{i}.top", tmp_path / f"{i}.txt") for i in range(3)]
    at_once = Evaluator(p, **settings).update(found, Y).compute().to_dicts()
    for given, backend in ((shards, client), (files, client), (shards, None)):
        table = evaluate_shards(given, p, backend=backend, **settings)
        assert repr(table.to_dicts()) == repr(at_once)
    seen: list[int] = []
    evaluate_shards(shards, metrics=["P@1"], progress=lambda done, _: seen.append(done))
    assert seen == [1, 2, 3]


def test_sharded_evaluation_with_estimated_propensities() -> None:
    found = TopK.from_scores(RNG.random((N, L)), 3)
    estimate = from_marginals(Y, np.full(L, 0.2))
    asked: dict[str, Any] = {"metrics": ["P@1"], "estimators": ["unbiased"], "draws": 5}
    shards = [
        (TopK(found.labels[a : a + 100], found.scores[a : a + 100]), Y[a : a + 100])
        for a in range(0, N, 100)
    ]
    expected = evaluate(found, Y, estimate, **asked).to_dicts()
    assert repr(evaluate_shards(shards, estimate, **asked).to_dicts()) == repr(expected)


@pytest.mark.parametrize("rank_by", ["score", "probability/propensity"])
@pytest.mark.parametrize("by", ["rows", "labels"])
def test_spread_prediction_is_that_of_one_process(
    by: str, rank_by: str, client: Any, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "PIECE", 40)
    model, p = load(whole), jain(Y)
    expected = predict_top(model, X, 7, rank_by=rank_by, propensity=p)
    for given, backend in ((model, client), (whole, client), (model, None)):
        found = predict_top(given, X, 7, rank_by=rank_by, propensity=p, by=by, backend=backend)
        assert np.array_equal(found.labels, expected.labels)
        assert np.array_equal(found.scores, expected.scores)


def test_a_model_too_large_for_a_worker_is_spread_by_labels(whole: Path) -> None:
    model = load(whole)
    enough = 2 * planning.size(model)
    for memory, by in (
        (20_000, "labels"),
        (enough - 1, "labels"),
        (enough, "rows"),
        (None, "rows"),
    ):
        assert planning.split_by(model, memory) == by


def test_studies_run_as_tasks(client: Any, tmp_path: Path) -> None:
    study = unmask_studies.STUDIES["recall-simulation"]
    here = unmask_studies.run(study, tmp_path / "here", size="tiny")
    there = unmask_studies.run(study, tmp_path / "there", size="tiny", backend=client)
    assert here == there
    again = unmask_studies.run(study, tmp_path / "there", size="tiny", backend="nowhere")
    assert again == there  # nothing is left to do, so nobody is asked


def test_the_commands_take_a_scheduler(client: Any, tmp_path: Path) -> None:
    source, address = tmp_path / "rows.txt", client.scheduler.address
    data.write(source, data.Dataset(features=X, labels=Y))
    for name, more in (("here", []), ("there", ["--scheduler", address])):
        trained = run("train", source, "-o", tmp_path / name, "--block", 40, *more)
        assert trained.returncode == 0, trained.stderr
        predicted = run("predict", tmp_path / name, source, "-o", tmp_path / f"{name}.txt", *more)
        assert predicted.returncode == 0, predicted.stderr
    assert contents(tmp_path / "here") == contents(tmp_path / "there")
    assert (tmp_path / "here.txt").read_bytes() == (tmp_path / "there.txt").read_bytes()
    made = json.loads(
        run("train", source, "--plan", "--block", 40, "--scheduler", address, "--json").stdout
    )
    assert (made["tasks"], made["workers"], made["available"]) == (4, 2, 700_000_000)
    assert "extrapolated from" in run("train", source, "--plan").stdout
    homeless = run("train", source)
    assert homeless.returncode == 2
    assert "name a folder for the model with --output" in homeless.stderr


def test_joblib_says_how_many_jobs_there_are() -> None:
    """Two tasks that wait for each other, where the library itself would use one thread."""
    together = threading.Barrier(2)

    def meet(shared: int, task: int) -> int:
        together.wait(timeout=20)
        return shared + task

    with using_threads(1), joblib.parallel_config("threading", n_jobs=2):
        done = parallel.LocalRunner().run(meet, [1, 2], 10)
        assert sorted(done) == [(0, 11), (1, 12)]


# Plans


SMALL_OBJECTS = 1 << 15
"""Bytes that Python and numpy hold beside the arrays; numpy 1.26 some thousand more than 2.x."""


def test_a_plan_counts_tasks_threads_and_seconds() -> None:
    made = plan(X, Y, Recipe(prune_below=0.01), shard_labels=32, sample=40)
    assert (made.tasks, made.block, made.labels, made.sampled) == (5, 32, L, 40)
    assert made.memory == training.PROCESS + made.features_bytes + made.threads * made.task_bytes
    assert made.seconds_per_label > 0
    for threads, labels in ((1, 150), (2, 3 * 32), (4, 2 * 32), (8, 32)):  # rounds of blocks
        with using_threads(threads):
            made = plan(X, Y, Recipe(prune_below=0.01), shard_labels=32, sample=10)
        assert (made.workers, made.threads) == (1, threads)
        assert made.seconds == pytest.approx(labels * made.seconds_per_label)


MEMORY_OF_A_BLOCK = """
import gc, json, sys, tracemalloc
import numpy as np, scipy.sparse as sp
from unmask.linear import Recipe
from unmask.models import linear as planning
from unmask.models import training
from unmask.models.problem import prepare

rng = np.random.default_rng(0)
x = sp.csr_array(rng.random((4000, 300)) * (rng.random((4000, 300)) < 0.05))
y = sp.csr_array((rng.random((4000, 64)) < 0.02).astype(np.float32))
given = prepare(x, y, Recipe(sys.argv[1]), None, None)
(block,) = planning.blocks(given, 64)
planning.solve_block(given.common, block)  # compiles
gc.collect()
tracemalloc.start()
planning.solve_block(given.common, block)
print(json.dumps([planning.task_bytes(given, 64), tracemalloc.get_traced_memory()[1]]))
"""


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "squared_error"])
def test_a_task_stays_within_the_memory_of_its_plan(loss: str) -> None:
    """Peak memory of a block is below what the plan says and not far.

    In a process of its own: threads of a cluster, and other tests, would be counted too.
    """
    done = subprocess.run(
        [sys.executable, "-c", MEMORY_OF_A_BLOCK, loss], capture_output=True, text=True, check=True
    )
    planned, peak = json.loads(done.stdout)
    assert 0.4 * planned < peak < planned + SMALL_OBJECTS


@pytest.mark.parametrize(
    ("room", "advice"),
    [
        (parallel.Resources(2, 4, 1_000_000_000), "at most 3 threads each"),
        (parallel.Resources(2, 1, 700_000_000), "one thread each and blocks of 256 labels"),
        (parallel.Resources(2, 1, 300_000_000), "workers with at least 0.62"),
    ],
)
def test_a_plan_that_cannot_fit_says_what_would(room: parallel.Resources, advice: str) -> None:
    wide = sp.csr_array((np.ones(N, np.float32), np.arange(N), np.arange(N + 1)), (N, 10_000))
    given = prepare(wide, Y, Recipe(), None, None)
    with pytest.raises(ValueError, match=f"a worker needs .* and the smallest has .*{advice}"):
        planning.refuse_small(given, 512, room)


def test_a_worker_without_enough_memory_is_not_tried(client: Any, tmp_path: Path) -> None:
    n = 2_000_000
    tall = sp.csr_array((np.ones(n, np.float32), np.zeros(n, int), np.arange(n + 1)), (n, 1))
    y = sp.csr_array(([1.0], [0], np.r_[0, np.ones(n, int)]), (n, 1))
    with pytest.raises(ValueError, match=r"a worker needs 1\.\d GB .*the smallest has 1 GB"):
        train_to(tmp_path, tall, y, backend=client)


# Faults


def test_a_worker_killed_mid_task_costs_only_its_task(
    client: Any, whole: Path, tmp_path: Path
) -> None:
    killed: list[int] = []

    def kill(done: int, total: int) -> None:
        if not killed:
            killed.append(pids(client)[0])
            os.kill(killed[0], signal.SIGKILL)

    recipe = Recipe(prune_below=0.01)
    train_to(tmp_path / "m", X, Y, recipe, shard_labels=16, backend=client, progress=kill)
    assert killed
    assert contents(tmp_path / "m") == contents(whole)


def test_what_was_placed_is_placed_again(client: Any) -> None:
    """All workers die while they work, and with them all copies of the data."""
    with parallel.connect(client) as runner:
        found = {}
        for at, result in runner.run(_slowly, range(6), np.arange(5)):
            if not found:
                for pid in pids(client):
                    os.kill(pid, signal.SIGKILL)
            found[at] = result
    assert found == {at: 10 + at for at in range(6)}


def _slowly(shared: Any, task: int) -> int:
    time.sleep(0.2)
    return int(shared.sum()) + task


def test_a_task_that_fails_twice_is_tried_a_third_time(client: Any, tmp_path: Path) -> None:
    with parallel.connect(client) as runner:
        assert dict(runner.run(_failing, [(str(tmp_path / "two"), 2)])) == {0: 3}
        with pytest.raises(RuntimeError, match="attempt 3"):
            list(runner.run(_failing, [(str(tmp_path / "three"), 3)]))


def _failing(shared: None, task: tuple[str, int]) -> int:
    path, failures = task
    with open(path, "a") as file:
        file.write("x")
    attempt = os.path.getsize(path)
    if attempt <= failures:
        raise RuntimeError(f"attempt {attempt}")
    return attempt


@pytest.mark.parametrize(("finished_before_third", "rounds"), [(False, 4), (True, 6)])
def test_everything_may_be_lost_three_times_in_a_row(
    finished_before_third: bool, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round that finished something before it was lost starts the count again."""
    tried: list[int] = []

    def lose(self: Any, work: Any, waiting: dict[int, Any], *_: Any) -> Iterator[Any]:
        tried.append(len(waiting))
        if finished_before_third and len(tried) == 3:
            yield 0, waiting.pop(0)
        raise CancelledError

    monkeypatch.setattr(parallel.DaskRunner, "_round", lose)
    monkeypatch.setattr(parallel.DaskRunner, "_check_workers", lambda self: None)
    runner = parallel.DaskRunner(SimpleNamespace(status="running"), patience=1)
    with pytest.raises(OSError, match=r"lost 4 times in a row with \d tasks unfinished"):
        list(runner.run(_slowly, range(2)))
    assert len(tried) == rounds


def test_a_worker_holds_what_it_was_brought_last_and_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Clients that died did not say that their values can go."""
    monkeypatch.setattr(parallel, "_HELD", {})
    brought = SimpleNamespace(data={name: parallel.Box(name.upper()) for name in "abc"})
    for name in "abc":
        parallel.adopt(name, name, brought)
    assert [parallel.holds(name) for name in "abc"] == [False, True, True]
    assert parallel.Held("c").value == "C"
    parallel.forget("c")
    with pytest.raises(parallel.NotHeldError):
        _ = parallel.Held("c").value


@pytest.mark.slow
def test_a_task_that_eats_all_memory_is_given_up(client: Any) -> None:
    with (
        parallel.connect(client) as runner,
        pytest.raises(OSError, match="took its worker down 4 times"),
    ):
        list(runner.run(_greedy, [0]))
    with parallel.connect(client) as runner:
        assert dict(runner.run(_slowly, range(2), np.arange(3))) == {0: 3, 1: 4}


def _greedy(shared: None, task: int) -> int:
    hoard = []
    for _ in range(60):
        hoard.append(np.ones(1 << 22))
        time.sleep(0.02)
    return len(hoard)


@contextmanager
def processes(tmp_path: Path, *workers: list[str]) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A scheduler and workers as a person starts them, each in a working directory of its own."""
    running = []

    def start(name: str, prefix: list[str], *command: str) -> subprocess.Popen[bytes]:
        home = tmp_path / name
        home.mkdir()
        module = f"distributed.cli.dask_{'scheduler' if name == 'scheduler' else 'worker'}"
        process = subprocess.Popen(
            [*prefix, sys.executable, "-m", module, *command, "--no-dashboard"],
            cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        running.append(process)
        return process

    about = tmp_path / "scheduler.json"
    scheduler = start(
        "scheduler", [], "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(about)
    )
    try:
        deadline = time.monotonic() + 60
        while not (about.exists() and about.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.1)
        address = json.loads(about.read_text())["address"]
        for number, prefix in enumerate(workers):
            start(f"worker{number}", prefix, address, "--nthreads", "1", "--no-nanny",
                  "--memory-limit", "2GB")  # fmt: skip
        yield address, scheduler
    finally:
        for process in running:
            process.kill()
            process.wait()


def hidden(folder: Path) -> list[str]:
    """What to put before a command so that it sees an empty folder in place of this one."""
    script = f'mount -t tmpfs none "{folder}" && exec "$@"'
    prefix = ["unshare", "--mount", "--map-root-user", "sh", "-c", script, "sh"]
    able = subprocess.run([*prefix, "true"], capture_output=True).returncode == 0
    return prefix if able else []


@pytest.mark.slow
def test_workers_that_share_nothing_and_a_scheduler_that_goes_away(
    whole: Path, tmp_path: Path
) -> None:
    """Two processes with their own directories, blind for the model's folder; then the drop."""
    home = tmp_path / "client"
    home.mkdir()
    blind, recipe = hidden(home), Recipe(prune_below=0.01)
    with (
        processes(tmp_path, blind, blind) as (address, scheduler),
        parallel.connect(address, patience=60) as runner,
    ):
        runner.patience = 4  # type: ignore[attr-defined]
        runner.client._timeout = 2  # type: ignore[attr-defined]
        if blind:
            assert not runner.shares_folder(home)
        train_to(home / "m", X, Y, recipe, shard_labels=16, backend=runner)
        assert contents(home / "m") == contents(whole)
        found = predict_top(load(whole), X, 5)
        table = evaluate_shards([(found, Y)], metrics=["P@5"], backend=runner)
        assert table == evaluate(found, Y, metrics=["P@5"])

        def drop(done: int, total: int) -> None:
            scheduler.send_signal(signal.SIGKILL)
            scheduler.wait()

        with pytest.raises(OSError, match=r"connection to the scheduler was lost with . tasks"):
            train_to(home / "n", X, Y, recipe, shard_labels=16, backend=runner, progress=drop)
    with pytest.raises(ValueError, match="training has not finished"):
        load(home / "n")
    kept = json.loads((home / "n" / "unfinished.json").read_text())["shards"]
    assert 0 < len(kept) < 10
    seen: list[int] = []
    train_to(home / "n", X, Y, recipe, shard_labels=16, progress=lambda done, _: seen.append(done))
    assert seen[0] == sum(entry["stop"] - entry["start"] for entry in kept)
    assert contents(home / "n") == contents(whole)


def test_damaged_shards_are_trained_again(client: Any, whole: Path, tmp_path: Path) -> None:
    folder, recipe = tmp_path / "m", Recipe(prune_below=0.01)
    train_to(folder, X, Y, recipe, shard_labels=16)
    cut, flipped = (next(folder.glob(f"shard-{start:08d}-*")) for start in (32, 64))
    os.truncate(cut, cut.stat().st_size // 2)
    altered = bytearray(flipped.read_bytes())
    altered[-5] ^= 1
    flipped.write_bytes(altered)
    with pytest.raises(ValueError, match=r"incomplete|checksum"):
        load(folder)
    seen: list[int] = []
    train_to(
        folder, X, Y, recipe, shard_labels=16, backend=client,
        progress=lambda done, _: seen.append(done),
    )  # fmt: skip
    assert seen[0] == L - 32
    assert contents(folder) == contents(whole)


def test_a_shard_that_arrives_damaged_is_not_listed(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SETTLING", 0.3)
    monkeypatch.setattr(store, "_digest", lambda path: "0" * 64)
    with pytest.raises(ValueError, match="is not what a worker wrote"):
        train_to(tmp_path, X, Y, shard_labels=64, backend=client)
    assert planning.FORMAT.read(tmp_path, store.UNFINISHED)["shards"] == []


def _limit_files(size: int) -> None:
    """Refuse files over `size` bytes in this process, as a full disk or a quota would."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


@pytest.mark.parametrize("who", ["client", "worker"])
def test_no_room_for_a_file(who: str, client: Any, whole: Path, tmp_path: Path) -> None:
    """Small shards are kept, a large one is refused, and all follow when there is room."""
    few = sp.csr_array((N, 32))
    y = sp.hstack([few, Y]).tocsr()
    backend, limit = (None, 2500) if who == "client" else (client, 2500)
    free = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    everywhere = client.run if who == "worker" else lambda work, size: work(size)
    everywhere(_limit_files, limit)
    try:
        with using_threads(1), pytest.raises(OSError, match="labels are kept in") as caught:
            train_to(
                tmp_path / "m", X, y, Recipe(prune_below=0.01), shard_labels=16, backend=backend
            )
    finally:
        everywhere(_limit_files, free)
    assert caught.value.errno == errno.EFBIG
    with pytest.raises(ValueError, match="training has not finished"):
        load(tmp_path / "m")
    train_to(tmp_path / "m", X, y, Recipe(prune_below=0.01), shard_labels=16, backend=backend)
    train_to(tmp_path / "whole", X, y, Recipe(prune_below=0.01), shard_labels=16)
    assert contents(tmp_path / "m") == contents(tmp_path / "whole")


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 32 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=32k", "none", disk], capture_output=True
    )
    if made.returncode:
        pytest.skip("file systems cannot be mounted here")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.mark.parametrize("shared", [True, False])
def test_a_full_disk(shared: bool, client: Any, tiny_disk: Path, tmp_path: Path) -> None:
    backend = client if shared else None
    with pytest.raises(OSError, match=r"No space left on device.*labels are kept") as caught:
        train_to(tiny_disk / "m", X, Y, shard_labels=16, backend=backend)
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(ValueError, match=r"training has not finished|is no model folder"):
        load(tiny_disk / "m")


# Whom to ask


def test_nobody_there() -> None:
    for wrong, words in (
        ("node1", "'node1' is no scheduler; give tcp://HOST:PORT"),
        ("tpc://node1:8786", "Did you mean tcp://node1:8786"),
        ("tl://node1:8786", "Did you mean tls://node1:8786"),
        ("tcp://node1", "give tcp://HOST:PORT"),
        ("local:-1", "'local:-1' names no number of processes"),
        ("local:0", "'local:0' names no number of processes"),
        ("local:", "'local:' names no number of processes"),
        ("local:99999999", "'local:99999999' is more processes than this machine runs well"),
        ("local:" + "9" * 5000, "more processes than this machine"),
        ("tcp://node1:65536", "'tcp://node1:65536' is no scheduler"),
        ("tcp://node1:0", "'tcp://node1:0' is no scheduler"),
    ):
        with pytest.raises(ValueError, match=words):
            train(X, Y, backend=wrong)
    with (
        pytest.raises(OSError, match=r"no Dask scheduler answers at tcp://127.0.0.1:9"),
        parallel.connect("tcp://127.0.0.1:9", patience=0.5),
    ):
        pass


def test_a_scheduler_without_workers() -> None:
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0") as empty,
        distributed.Client(empty, set_as_default=False) as client,
        pytest.raises(OSError, match=r"no worker came to the scheduler .* within 0.3 s"),
        parallel.connect(client, patience=0.3),
    ):
        pass


def test_workers_of_another_version(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "__version__", "0.0.1")
    with pytest.raises(ValueError, match=r"has unmask .* and this process 0.0.1"):
        train(X, Y, backend=client)


@pytest.mark.slow
def test_stopping_early_cancels_what_waits(client: Any) -> None:
    with parallel.connect(client) as runner:
        running = runner.run(_slowly, range(100), np.arange(3))
        next(running)
        start = time.monotonic()
        running.close()
        assert dict(runner.run(_slowly, [1], np.arange(3))) == {0: 4}
    assert time.monotonic() - start < 10


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
