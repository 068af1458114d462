"""A trained label tree as a value.

The score of label j for row x is the logarithm of the mean over trees of exp(path score), where
the path score is Σ ln P(child | node) over the nodes from the root to j: ln σ(z) for logistic, and
−max(0, 1 − z)² for squared hinge, which stands for such a logarithm. Where probabilities themselves
are needed (ranking by P/p, trees of counts), squared hinge has ln of (1 + z)/2, at least 0.001.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from unmask._kernels import tree_predict as kernels
from unmask._typing import Floats
from unmask.data.texts import Vocabulary
from unmask.linear.model import Parameter
from unmask.tree.nodes import Part
from unmask.tree.shape import Shape

LINKS = {"squared_hinge": kernels.HINGE, "logistic": kernels.LOGISTIC}


@dataclass(frozen=True)
class Tree:
    """The shape of one tree, and the weights of its parts.

    Attributes
    ----------
    shape : Shape
        The order of labels, and which of them make a node.
    parts : tuple of tuple of Nodes
        The nodes of every part, level by level.

    Examples
    --------
    >>> import numpy as np
    >>> from unmask import tree
    >>> model = tree.train(np.eye(4), np.eye(4, dtype=int), tree.TreeRecipe(n_trees=1))
    >>> sorted(model.trees[0].shape.order.tolist())
    [0, 1, 2, 3]
    """

    shape: Shape
    parts: tuple[Part, ...]
    checked_for: tuple[int, int] | None = field(default=None, init=False, repr=False, compare=False)
    """Labels and features for which its arrays were looked at (`checking`); None: not yet."""


@dataclass(frozen=True)
class TreeModel:
    """Label trees that are averaged, the loss they were trained with, and how.

    Parameters
    ----------
    trees : tuple of Tree
    loss : {"squared_hinge", "logistic"}
        Says what a margin adds to the score of a path.
    n_features : int
        Features, the bias not counted.
    parameters : mapping, optional
        The recipe of the training.
    idf : (d,) floats, optional
        The word weights of a model that was trained on tf-idf.
    label_names : tuple of str, optional
        The name of every label; predictions carry them.
    vocabulary : Vocabulary, optional
        The words of a model that was trained on texts.

    Examples
    --------
    >>> import numpy as np
    >>> from unmask import tree
    >>> model = tree.train(np.eye(4), np.eye(4, dtype=int))
    >>> model.n_labels, model.n_features, len(model.trees)
    (4, 4, 3)
    """

    trees: tuple[Tree, ...]
    loss: str
    n_features: int
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    idf: Floats | None = None
    label_names: tuple[str, ...] | None = None
    vocabulary: Vocabulary | None = None

    @property
    def n_labels(self) -> int:
        """Labels."""
        return self.trees[0].shape.n_labels
