"""Label trees on disk: a model folder (`linear.folders`) whose weights lie in parts of trees.

    shape-<tree>-<sha256>.safetensors          the order of labels, and where leaf nodes begin
    part-<tree>-<part>-<sha256>.safetensors    the nodes of a part, level by level

The manifest says the binary levels of every tree. An entry of a part has a mark of all that the
part was trained on: a part with the same mark is the same part.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np

from unmask._messages import named_options
from unmask._typing import Array, PathLike
from unmask.arrays import checks
from unmask.files import exclusive, read_json, refuse_columns
from unmask.linear import folders
from unmask.linear.folders import MANIFEST, UNFINISHED, FileEntry, Format, Piece
from unmask.tree.checking import (
    TYPES,
    refuse_bad_model,
    refuse_bad_nodes,
    refuse_bad_shape,
    remember_checked,
)
from unmask.tree.model import LINKS, Tree, TreeModel
from unmask.tree.nodes import Nodes, Part
from unmask.tree.shape import Shape

FORMAT = Format(
    "unmask label tree", 1, "tree.train",
    {
        "shapes": Piece("a shape", {"bits": list}),
        "parts": Piece("a part", {"tree": int, "part": int, "mark": str}, ("tree", "part")),
    },
)  # fmt: skip


class ShapeEntry(FileEntry):
    """What the manifest says of the shape of a tree."""

    bits: list[int]


class PartEntry(FileEntry):
    """What the manifest says of a part."""

    tree: int
    part: int
    mark: str


class Head(folders.Head):
    """A manifest."""

    shapes: list[ShapeEntry]
    parts: list[PartEntry]


def save(path: PathLike, model: TreeModel) -> None:
    """Write a model to a folder; an existing model there stays until the new one is complete.

    Parameters
    ----------
    path : path
        The folder; made if it is not there.
    model : TreeModel

    Raises
    ------
    ValueError
        If the folder is in use by another process, or the model is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from unmask import tree
    >>> model = tree.train(np.eye(4), np.eye(4, dtype=int))
    >>> tree.save(folder := tempfile.mkdtemp() + "/model", model)
    >>> tree.load(folder).n_labels
    4
    """
    refuse_bad_model(model)
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    beside = folders.Beside(model.idf, model.label_names, model.vocabulary)
    with exclusive(folder):
        shapes = [write_shape(folder, i, tree.shape) for i, tree in enumerate(model.trees)]
        head = FORMAT.header(model.loss, model.n_labels, model.n_features, model.parameters)
        folders.begin(folder, {**head, "shapes": shapes}, beside)
        for i, tree in enumerate(model.trees):
            for number, part in enumerate(tree.parts):
                FORMAT.add(folder, "parts", write_part(folder, i, number, part, ""))
        FORMAT.finish(folder)


def prune(model: TreeModel, below: float) -> TreeModel:
    """The model without weights smaller than `below`.

    Parameters
    ----------
    model : TreeModel
    below : float
        Weights of this size are kept, smaller ones are not.

    Returns
    -------
    TreeModel

    Raises
    ------
    ValueError
        If `below` is negative, or the model is damaged.

    Examples
    --------
    >>> from unmask import tree
    >>> model = tree.train(np.eye(4), np.eye(4, dtype=int))
    >>> [len(level.values) for level in tree.prune(model, 1e9).trees[0].parts[0]]
    [0]
    """
    checks.in_range(below, "below", 0, np.inf)
    refuse_bad_model(model)

    def pruned(nodes: Nodes) -> Nodes:
        kept = np.abs(nodes.values) >= below
        ends = np.r_[0, np.cumsum(kept)][nodes.entry_starts]
        used = np.diff(ends) > 0
        starts = np.r_[0, np.cumsum(used)][nodes.feature_starts]
        return nodes._replace(
            feature_starts=starts,
            features=nodes.features[used],
            entry_starts=np.r_[0, ends[1:][used]],
            children=nodes.children[kept],
            values=nodes.values[kept],
        )

    trees = tuple(
        replace(tree, parts=tuple(tuple(pruned(nodes) for nodes in part) for part in tree.parts))
        for tree in model.trees
    )
    return replace(model, trees=trees)


def write_shape(folder: Path, tree: int, shape: Shape) -> ShapeEntry:
    """Write the shape of a tree, and return what the manifest is to say of it."""
    contents = folders.tensors({"order": shape.order, "bounds": shape.bounds})
    entry = folders.write_file(folder, f"shape-{tree:04d}-{{}}.safetensors", contents)
    return {**entry, "bits": list(shape.bits)}


def write_part(folder: Path, tree: int, number: int, part: Part, mark: str) -> PartEntry:
    """Write the file of a part, and return what the manifest is to say of it."""
    arrays = {
        f"{level}.{name}": np.ascontiguousarray(array, dtype=TYPES[name])
        for level, nodes in enumerate(part)
        for name, array in nodes._asdict().items()
    }
    pattern = f"part-{tree:04d}-{number:06d}-{{}}.safetensors"
    entry = folders.write_file(folder, pattern, folders.tensors(arrays))
    return {**entry, "tree": tree, "part": number, "mark": mark}


def is_tree(path: PathLike) -> bool:
    """Whether a folder holds a label tree, finished or not; False if it holds anything else."""
    for name in (MANIFEST, UNFINISHED):
        if os.path.lexists(Path(path) / name):
            try:
                head = read_json(Path(path) / name, follow=False)
            except (OSError, ValueError):
                return False
            return isinstance(head, dict) and head.get("format") == FORMAT.name
    return False


@named_options
def load(path: PathLike, *, verify: bool = True) -> TreeModel:
    """The model in a folder, its weights mapped from the files.

    Parameters
    ----------
    path : path
        A folder that `save` or `train_to` made.
    verify : bool, default True
        Whether to compare every file with its checksum, which reads them once.

    Returns
    -------
    TreeModel

    Raises
    ------
    ValueError
        If something is missing, altered, cut short or not a label tree of this package.

    Examples
    --------
    >>> import tempfile
    >>> from unmask import tree
    >>> folder = tempfile.mkdtemp() + "/model"
    >>> model = tree.train_to(folder, np.eye(4), np.eye(4, dtype=int))
    >>> tree.load(folder).n_features
    4
    """
    folder = Path(path)
    present = os.path.lexists(folder / MANIFEST) or not os.path.lexists(folder / UNFINISHED)
    head = cast("Head", FORMAT.read(folder, MANIFEST if present else UNFINISHED))
    refuse_columns(folder / MANIFEST, head["features"], "features")
    refuse_columns(folder / MANIFEST, head["labels"], "labels")
    if head["loss"] not in LINKS:
        raise ValueError(
            f"{folder / MANIFEST} has the unknown loss {head['loss']!r:.60}; known are: "
            f"{', '.join(LINKS)}."
        )
    shapes = [read_shape(folder, entry, head["labels"], verify) for entry in head["shapes"]]
    wanted = [(t, number) for t, shape in enumerate(shapes) for number in range(shape.n_parts)]
    if not present or [(e["tree"], e["part"]) for e in head["parts"]] != wanted or not shapes:
        raise ValueError(
            f"{folder} holds {len(head['parts'])} of {len(wanted)} parts: training has not "
            "finished; resume it, or train again."
        )
    parts: list[list[Part]] = [[] for _ in shapes]
    for entry in head["parts"]:
        shape = shapes[entry["tree"]]
        parts[entry["tree"]].append(read_part(folder, entry, shape, head["features"], verify))
    trees = tuple(Tree(shape, tuple(own)) for shape, own in zip(shapes, parts, strict=True))
    for tree in trees:
        remember_checked(tree, head["labels"], head["features"])
    beside = folders.read_beside(folder, head, verify)
    return TreeModel(trees, head["loss"], head["features"], head["parameters"], *beside)


def _arrays(folder: Path, entry: FileEntry, verify: bool) -> dict[str, Array]:
    with folders.opened(folder, entry) as file:
        if verify:
            folders.refuse_other(file, entry)
        return folders.mapped(folder / entry["file"], file, entry["bytes"])


def read_shape(folder: Path, entry: ShapeEntry, n_labels: int, verify: bool) -> Shape:
    """The shape of a tree; ValueError unless its ranges hold every label once."""
    path, bits = folder / entry["file"], entry["bits"]
    arrays = _arrays(folder, entry, verify)
    try:
        shape = Shape(np.asarray(arrays["order"]), np.asarray(arrays["bounds"]), tuple(bits))
        refuse_bad_shape(shape, n_labels)
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path} holds no shape of a tree: {error}.") from None
    return shape


def read_part(folder: Path, entry: PartEntry, shape: Shape, n_features: int, verify: bool) -> Part:
    """The nodes of a part, checked: kernels trust their indices."""
    path = folder / entry["file"]
    arrays = _arrays(folder, entry, verify)
    levels = []
    try:
        for level, span in enumerate(shape.part(entry["part"])):
            nodes = Nodes(*(np.asarray(arrays[f"{level}.{name}"]) for name in Nodes._fields))
            starts = shape.child_starts(span.level)[span.start : span.stop + 1]
            refuse_bad_nodes(nodes, np.diff(starts), n_features)
            levels.append(nodes)
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path} does not hold part {entry['part']}: {error}.") from None
    return tuple(levels)
