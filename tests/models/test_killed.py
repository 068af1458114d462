"""Training and saving that are killed before every single step."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.command import run
from tests.helpers.killing import killed
from tests.helpers.model_folders import files_of, small_model
from tests.helpers.trained import PLAIN, SMALL, TFIDF, predicted, train
from unmask import linear

pytestmark = pytest.mark.usefixtures("patience")


def test_a_killed_training_never_leaves_a_model_that_predicts_otherwise(
    source: Path, tmp_path: Path
) -> None:
    train(source, tmp_path / "whole" / "m", *TFIDF)
    right = predicted(source, tmp_path / "whole" / "m")
    train(source, tmp_path / "plain" / "m", *PLAIN)
    assert right != predicted(source, tmp_path / "plain" / "m")
    outcomes = []
    for step in range(1, 100):
        folder = tmp_path / f"killed-{step}" / "m"
        if not killed(step, lambda folder=folder: train(source, folder, *TFIDF)):
            break
        outcomes.append(predicted(source, folder))
        assert outcomes[-1] in (None, right), f"killed before step {step}"
        train(source, folder, *TFIDF)
        assert files_of(folder) == files_of(tmp_path / "whole" / "m")
    assert outcomes[0] is None
    assert len(outcomes) >= 6


@pytest.mark.parametrize(
    "kinds",
    [
        (TFIDF, (*TFIDF, "--C", 9)),
        *(
            pytest.param(kinds, marks=pytest.mark.slow)
            for kinds in ((PLAIN, TFIDF), (TFIDF, PLAIN))
        ),
    ],
)
def test_starting_anew_keeps_the_old_model_until_the_new_one_is_whole(
    source: Path, tmp_path: Path, kinds: tuple[Any, Any]
) -> None:
    for name, options in zip(("old", "new"), kinds, strict=True):
        train(source, tmp_path / name / "m", *options)
    old, new = (predicted(source, tmp_path / name / "m") for name in ("old", "new"))
    assert old != new
    outcomes = []
    for step in range(1, 100):
        folder = tmp_path / f"killed-{step}" / "m"
        shutil.copytree(tmp_path / "old" / "m", folder)
        if not killed(step, lambda folder=folder: train(source, folder, *kinds[1], "--no-resume")):
            break
        outcomes.append(predicted(source, folder))
        assert outcomes[-1] in (old, new), f"killed before step {step}"
        resumed = run("train", source, "-o", folder, *kinds[1])
        if resumed.returncode == 2:  # it had not even begun
            assert not (folder / "unfinished.json").exists()
            train(source, folder, *kinds[1], "--no-resume")
        assert predicted(source, folder) == new
        assert files_of(folder) == files_of(tmp_path / "new" / "m")
    assert outcomes[0] == old
    assert outcomes[-1] == new
    assert predicted(source, folder) == new
    assert files_of(folder) == files_of(tmp_path / "new" / "m")


def test_an_interrupted_new_start_goes_on_without_the_option(source: Path, tmp_path: Path) -> None:
    x, y = SMALL.features, SMALL.labels
    linear.train_to(tmp_path, x, y, shard_labels=8)
    before = linear.load(tmp_path).bias.copy()
    recipe = linear.Recipe(C=7.0)

    class Stopped(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done == 16:
            raise Stopped

    with pytest.raises(Stopped):
        linear.train_to(
            tmp_path, x, y, recipe, shard_labels=8, resume=False, progress=stop, backend=None
        )
    assert np.array_equal(linear.load(tmp_path).bias, before)
    linear.train_to(tmp_path, x, y, shard_labels=8)  # the old model is there, and whole
    done: list[int] = []
    linear.train_to(
        tmp_path, x, y, recipe, shard_labels=8, progress=lambda count, _: done.append(count)
    )
    assert done[0] >= 16
    assert linear.load(tmp_path).parameters["C"] == 7.0
    expected = linear.train_to(tmp_path.parent / "other", x, y, recipe, shard_labels=8)
    assert np.array_equal(linear.load(tmp_path).weights, expected.weights)


def test_a_killed_save_leaves_the_old_model_or_the_new_one(tmp_path: Path) -> None:
    old, new = (small_model(scale, idf) for scale, idf in ((1, None), (2, np.ones(3))))
    outcomes = []
    for step in range(1, 100):
        folder = tmp_path / f"m-{step}"
        linear.save(folder, old, shard_labels=2)
        if not killed(step, lambda folder=folder: linear.save(folder, new, shard_labels=2)):
            break
        found = linear.load(folder)
        scale = int(found.weights[0, 1])
        assert np.array_equal(found.weights, scale * old.weights)
        assert (found.idf is None) == (scale == 1)
        outcomes.append(scale)
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {1, 2}
