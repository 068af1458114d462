"""Features by name: a data frame is read in the order of training, whatever its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from unmask.models import base as multilabel

NAMES = ["a", "b", "c"]


class Frame:
    """What is asked of a data frame: its columns, and some of them in another order."""

    def __init__(self, columns: list[str], values: np.ndarray) -> None:
        self.columns, self.values = columns, values

    def __getitem__(self, names: list[str]) -> Frame:
        return Frame(names, self.values[:, [self.columns.index(name) for name in names]])


FRAME = Frame(NAMES, np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("order", [["a", "b", "c"], ["c", "a", "b"], ["b", "a", "c"]])
def test_columns_are_put_in_the_order_of_training(order: list[str]) -> None:
    trained: Any = SimpleNamespace(feature_names_in_=np.array(NAMES))
    read = multilabel._in_order(trained, FRAME[order])
    assert list(read.columns) == NAMES
    assert read.values.tolist() == FRAME.values.tolist()


@pytest.mark.parametrize("names", [None, ["a", "b"], ["a", "b", "d"], ["a", "b", "c", "d"]])
def test_other_features_are_left_as_they_are(names: list[str] | None) -> None:
    """Whoever checks them next says what is wrong."""
    stated = {} if names is None else {"feature_names_in_": np.array(names)}
    trained: Any = SimpleNamespace(**stated)
    frame = FRAME[["c", "b", "a"]]
    assert multilabel._in_order(trained, frame) is frame
    matrix = FRAME.values
    assert multilabel._in_order(trained, matrix) is matrix
