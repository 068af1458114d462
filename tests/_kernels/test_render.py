"""Rows as text: every byte, and every number with the fewest places that give it back."""

from __future__ import annotations

import numpy as np
import pytest

from unmask._kernels import render

VALUES = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.1, 0.25, 10.0, 99.0, 100.0, 0.001, 1.1e-5, 123456.7, 0.333333343,
     999999936.0, 7.0, 16777216.0, 0.30000001, 5e8, 1.5, 2.0000002],
    dtype=np.float32,
)  # fmt: skip


def written(value: np.float32) -> str:
    """The fewest decimal places, by trying them in turn."""
    places = next(n for n in range(20) if np.float32(f"{abs(value):.{n}f}") == abs(value))
    return ("-" if np.signbit(value) else "") + f"{abs(value):.{places}f}"


def rendered(
    label_indptr: list[int], labels: list[int], indptr: list[int], values: np.ndarray,
    bounds: tuple[int, int], by_python: np.ndarray | None = None,
) -> bytes:  # fmt: skip
    columns = (np.arange(len(values)) ** 3).astype(np.int32)  # numbers of one digit and of many
    out = np.full(2000, ord("?"), np.uint8)
    none = np.zeros((0, 24), np.uint8)
    count = render.render(
        np.array(label_indptr, np.int64), np.array(labels, np.int32), np.array(indptr, np.int64),
        columns, values, *bounds, none if by_python is None else by_python, out,
    )  # fmt: skip
    assert (out[count:] == ord("?")).all()
    return out[:count].tobytes()


def test_values_have_the_fewest_places() -> None:
    made = rendered([], [], [0, VALUES.size], VALUES, (0, 1)).decode()
    assert made == " ".join(f"{i**3}:{written(v)}" for i, v in enumerate(VALUES)) + "\n"


@pytest.mark.parametrize("seed", range(3))
def test_any_value_is_read_back_as_it_was(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = (rng.choice([-1, 1], 40) * 10 ** rng.uniform(-5, 8.9, 40)).astype(np.float32)
    made = rendered([], [], [0, 40], values, (0, 1)).decode().split()
    assert [each.partition(":")[2] for each in made] == [written(v) for v in values]


def test_rows_with_and_without_labels_and_entries() -> None:
    """`l,l i:v i:v`; a row without labels begins with a blank, one without anything is a blank."""
    values = np.array([1.0, 0.5, 3.0], dtype=np.float32)
    label_indptr, labels, indptr = [0, 2, 2, 3, 3], [0, 1234], [0, 1, 3, 3, 3]
    made = rendered(label_indptr, [*labels, 10], indptr, values, (0, 4))
    assert made == b"0,1234 0:1\n 1:0.5 8:3\n10\n \n"
    assert rendered(label_indptr, [*labels, 10], indptr, values, (1, 3)) == b" 1:0.5 8:3\n10\n"
    assert rendered([], [], indptr, values, (0, 4)) == b"0:1\n1:0.5 8:3\n\n\n"


def test_values_beyond_the_bounds_are_those_of_python() -> None:
    values = np.array([1e9, 0.5, 9e-6, -1e20, 1.1e-5, 0.0], dtype=np.float32)
    texts = np.array(["1e9!", "9e-6!", "-1e20!"], dtype="S24").view(np.uint8).reshape(-1, 24)
    made = rendered([], [], [0, 2, 6], values, (0, 2), texts)
    assert made == b"0:1e9! 1:0.5\n8:9e-6! 27:-1e20! 64:0.000011 125:0\n"
