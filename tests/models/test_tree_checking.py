"""Trees that were changed in place or built by hand: refused before a kernel follows an index."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unmask import tree
from unmask.models import tree_model as checking
from unmask.tree import TreeModel, TreeRecipe

RECIPE = TreeRecipe(n_trees=2, arity=2, leaf=2)


@pytest.fixture
def model() -> TreeModel:
    """Four levels, in memory that can be changed: tests damage it."""
    return copy.deepcopy(tree.train(np.eye(40), np.eye(40, dtype=int), RECIPE))


def _set(values: Any, value: Any) -> None:
    values[:] = value


def _deepest(model: TreeModel) -> Any:
    return model.trees[1].parts[-1][-1]


DAMAGE: dict[str, tuple[Callable[[TreeModel], object], str]] = {
    "feature beyond the last": (
        lambda m: _set(_deepest(m).features, 40), r"tree 1 .* a feature lies outside 0 … 39"
    ),
    "feature far away": (lambda m: _set(_deepest(m).features, 1 << 30), "a feature lies outside"),
    "feature −1": (lambda m: _set(_deepest(m).features, -1), "a feature lies outside"),
    "child": (lambda m: _set(_deepest(m).children, 60000), "belongs to no child"),
    "child beyond the last": (
        lambda m: _set(_deepest(m).children, np.diff(_deepest(m).child_starts).max()),
        "belongs to no child",
    ),
    "NaN weight": (lambda m: _set(_deepest(m).values, np.nan), "weights must be finite"),
    "infinite bias": (lambda m: _set(_deepest(m).bias, np.inf), "biases must be finite"),
    "last start": (lambda m: _set(_deepest(m).entry_starts[-1:], 1 << 40), "starts do not fit"),
    "start between": (lambda m: _set(_deepest(m).entry_starts[1:2], 1 << 40), "starts do not fit"),
    "first start": (lambda m: _set(_deepest(m).feature_starts[:1], -1), "starts do not fit"),
    "children's starts": (
        lambda m: _set(m.trees[1].parts[0][-1].child_starts[1:-1], 0), "other children"
    ),
    "order": (lambda m: _set(m.trees[0].shape.order, 1 << 30), "tree 0 .* order is none of 40"),
    "order twice": (lambda m: _set(m.trees[0].shape.order[:2], 3), "order is none of 40"),
    "bounds": (lambda m: _set(m.trees[0].shape.bounds[1:-1], 7), "no ranges of the order"),
    "last bound": (lambda m: _set(m.trees[0].shape.bounds[-1:], 41), "no ranges of the order"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_trees_changed_in_place_are_refused(model: TreeModel, name: str, tmp_path: Path) -> None:
    assert tree.predict_top(model, np.eye(40), 1).labels[:, 0].tolist() == list(range(40))
    damage, message = DAMAGE[name]
    damage(model)
    for use in (
        lambda: tree.predict_top(model, np.eye(40), 2),
        lambda: tree.save(tmp_path / "model", model),
    ):
        with pytest.raises(ValueError, match=message):
            use()
    assert not (tmp_path / "model").exists()


def test_mapped_trees_cannot_be_changed_and_are_looked_at_once(
    model: TreeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.save(tmp_path, model)
    loaded = tree.load(tmp_path)
    for values in (_deepest(loaded).values, loaded.trees[0].shape.order):
        with pytest.raises(ValueError, match="read-only"):
            _set(values, 0)
        with pytest.raises(ValueError, match="WRITEABLE"):
            values.flags.writeable = True
    looked_at: list[int] = []
    fault = checking.kernels.fault
    monkeypatch.setattr(
        checking.kernels, "fault", lambda *nodes: looked_at.append(1) or fault(*nodes)
    )
    tree.predict_top(loaded, np.eye(40), 1)
    named = replace(loaded, label_names=tuple(map(str, range(40))))
    tree.predict_top(named, np.eye(40), 1)
    assert not looked_at
    tree.predict_top(model, np.eye(40), 1)
    assert looked_at


def test_trained_trees_cannot_be_changed_and_are_looked_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trained = tree.train(np.eye(40), np.eye(40, dtype=int), RECIPE)
    shape = trained.trees[0].shape
    for values in (*_deepest(trained), shape.order, shape.bounds):
        with pytest.raises(ValueError, match="WRITEABLE"):
            values.flags.writeable = True
    first = tree.predict_top(trained, np.eye(40), 2)
    monkeypatch.setattr(checking.kernels, "fault", lambda *nodes: pytest.fail("looked at again"))
    assert (tree.predict_top(trained, np.eye(40), 2).labels == first.labels).all()


def _pickled(model: TreeModel) -> TreeModel:
    return pickle.loads(pickle.dumps(model))  # noqa: S301 - our own


@pytest.mark.parametrize("copied", [copy.deepcopy, _pickled])
def test_copies_of_mapped_trees_are_looked_at_again(
    model: TreeModel, tmp_path: Path, copied: Callable[[TreeModel], TreeModel]
) -> None:
    tree.save(tmp_path, model)
    other = copied(tree.load(tmp_path))
    _set(_deepest(other).features, 1 << 30)
    with pytest.raises(ValueError, match="a feature lies outside"):
        tree.predict_top(other, np.eye(40), 1)


def test_views_of_memory_that_can_be_changed_are_looked_at_again(model: TreeModel) -> None:
    """A view that cannot be written to does not protect what it shows."""
    frozen = tuple(tuple(nodes.read_only for nodes in part) for part in model.trees[1].parts)
    other = replace(model, trees=(model.trees[0], replace(model.trees[1], parts=frozen)))
    tree.predict_top(other, np.eye(40), 1)
    _set(_deepest(model).features, 1 << 30)
    with pytest.raises(ValueError, match="a feature lies outside"):
        tree.predict_top(other, np.eye(40), 1)


def test_a_mapped_tree_in_another_model_is_looked_at_again(
    model: TreeModel, tmp_path: Path
) -> None:
    tree.save(tmp_path, model)
    fewer = replace(tree.load(tmp_path), n_features=39)
    with pytest.raises(ValueError, match="outside 0 … 38"):
        tree.predict_top(fewer, np.eye(39), 1)


def _with_first(model: TreeModel, **changes: Any) -> TreeModel:
    first = replace(model.trees[0], **changes)
    return replace(model, trees=(first, *model.trees[1:]))


def _retyped(model: TreeModel) -> TreeModel:
    root, *others = model.trees[0].parts
    wide = root[0]._replace(features=root[0].features.astype(np.int64))
    return _with_first(model, parts=((wide, *root[1:]), *others))


OTHERS: dict[str, tuple[Callable[[TreeModel], TreeModel], str]] = {
    "no trees": (lambda m: replace(m, trees=()), "no trees"),
    "loss": (lambda m: replace(m, loss="hinge"), "unknown loss"),
    "names": (lambda m: replace(m, label_names=("a",)), "1 label names for a model of 40"),
    "fewer features": (lambda m: replace(m, n_features=39), "outside 0 … 38"),
    "a part too few": (lambda m: _with_first(m, parts=m.trees[0].parts[:-1]), "parts, its shape"),
    "a level too few": (
        lambda m: _with_first(m, parts=(m.trees[0].parts[0][:-1], *m.trees[0].parts[1:])),
        "part 0 has .* levels, its shape",
    ),
    "another tree": (
        lambda m: replace(
            m, trees=(*m.trees, *tree.train(np.eye(9), np.eye(9, dtype=int), RECIPE).trees)
        ),
        "tree 2 of the model is damaged: its order is none of 40 labels",
    ),
    "types": (_retyped, "features are int64"),
    "children": (
        lambda m: _with_first(
            m,
            parts=(
                (m.trees[0].parts[0][0]._replace(children=np.zeros(0, np.uint16)),
                 *m.trees[0].parts[0][1:]),
                *m.trees[0].parts[1:],
            ),
        ),
        "belongs to no child",
    ),
    "levels": (
        lambda m: _with_first(m, shape=replace(m.trees[0].shape, bits=(31,))), "its levels are"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_trees_that_do_not_fit_together_are_refused(model: TreeModel, name: str) -> None:
    change, message = OTHERS[name]
    other = change(model)
    with pytest.raises(ValueError, match=message):
        tree.predict_top(other, np.eye(39 if name == "fewer features" else 40), 2)
