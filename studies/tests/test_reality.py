"""The study of real pairs: how pairs are planted and read, and what of them is shown."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import TopK, data, linear
from unmask_studies import models
from unmask_studies.reality import drawing, estimates, pairs
from unmask_studies.runs import Row


def test_a_third_of_planted_rows_are_for_testing() -> None:
    made = pairs._planted(31)
    assert [made.split.train_features.shape[0], made.split.test_features.shape[0]] == [21, 10]
    assert (made.true_train.shape[0], made.true_test.shape[0]) == (21, 10)
    observed = made.split.train_labels
    assert (observed.multiply(made.true_train) != observed).nnz == 0  # nothing is invented
    assert 0 < observed.nnz < made.true_train.nnz
    assert ((made.p > 0) & (made.p <= 1)).all()
    other = made.others[0]
    assert other.shape == observed.shape
    assert not np.array_equal(other.toarray(), observed.toarray())


OBSERVED = [[1, 0, 0], [0, 1, 0], [0, 0, 0], [1, 0, 0]]
TRUE = [[1, 1, 0], [0, 1, 0], [0, 1, 1], [1, 0, 0]]
LATER = [[1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]


def written(folder: Path, name: str, labels: list[list[int]]) -> None:
    """Labels without features, packed."""
    rows = [",".join(str(j) for j, is_on in enumerate(row) if is_on) for row in labels]
    text = f"{len(rows)} 0 3\n" + "".join(f"{row}\n" for row in rows)
    (folder / f"{name}.txt.gz").write_bytes(gzip.compress(text.encode()))


def test_a_pair_in_parts_keeps_training_and_test_rows_apart(tmp_path: Path) -> None:
    about = pairs.About("", "", later="later_{part}", others=("other_{part}",), raw="raw_{part}",
                        features=False)  # fmt: skip
    for name, labels in (("{part}", OBSERVED), ("truth_{part}", TRUE), ("later_{part}", LATER),
                         ("other_{part}", TRUE), ("raw_{part}", LATER)):  # fmt: skip
        written(tmp_path, name.format(part="train"), labels[:3])
        written(tmp_path, name.format(part="test"), labels[1:])
    pair = pairs._read(tmp_path, about)
    assert pair.split.train_labels.toarray().tolist() == OBSERVED[:3]
    assert pair.observed.toarray().tolist() == OBSERVED[1:]
    assert pair.true_train.toarray().tolist() == TRUE[:3]
    assert pair.true_test.toarray().tolist() == TRUE[1:]
    assert pair.later is not None
    assert pair.later.toarray().tolist() == LATER[:3]
    assert [other.toarray().tolist() for other in pair.others] == [TRUE[:3]]
    assert pair.raw is not None
    assert pair.raw.toarray().tolist() == LATER[1:]
    kept, present = np.array([2, 2, 0]), np.array([2, 5, 2])  # of both parts
    assert pair.p == pytest.approx((kept + 2 * 4 / 9) / (present + 2))
    (tmp_path / "p_true.txt").write_text("0.5\n0.25\n0\n")
    assert pairs._read(tmp_path, about).p.tolist() == [0.5, 0.25, 1e-3]


def test_a_pair_without_parts_is_trained_and_tested_on_the_same_rows(tmp_path: Path) -> None:
    written(tmp_path, "observed", OBSERVED)
    written(tmp_path, "truth", TRUE)
    about = pairs.About("", "", observed="observed", truth="truth", features=False)
    pair = pairs._read(tmp_path, about)
    for labels, wanted in (
        (pair.split.train_labels, OBSERVED), (pair.observed, OBSERVED),
        (pair.true_train, TRUE), (pair.true_test, TRUE),
    ):  # fmt: skip
        assert labels.toarray().tolist() == wanted
    assert (pair.later, pair.others, pair.raw) == (None, (), None)


@pytest.mark.parametrize("n", [3, 512, 600])
def test_scores_are_kept_of_predicted_and_of_true_labels(n: int) -> None:
    """Of as many rows as are scored at once, of fewer and of more."""
    rows = data.synthetic.planted(n, n_features=12, n_labels=5, labels_per_row=2, seed=0)
    rng = np.random.default_rng(0)
    weights, bias = rng.normal(size=(5, 12)).astype(np.float32), np.zeros(5, np.float32)
    model = linear.LinearModel((linear.Shard(weights, bias),), "logistic")
    top = TopK.from_scores(rng.random((n, 5)), 2)
    split = models.Split(rows.features, rows.labels, rows.features, rows.labels)
    pair = pairs.Pair(pairs.PLANTED, split, rows.labels, rows.labels, np.ones(5))
    chosen = rows.labels.toarray() > 0
    np.put_along_axis(chosen, top.labels, True, axis=1)
    wanted = np.where(chosen, rows.features @ weights.T, 0.0)
    made = estimates.candidate_scores(model, pair, top)
    assert made.shape == (n, 5)
    np.testing.assert_allclose(made.toarray(), wanted, atol=1e-5)


def estimate_row(folder: str, mask: str, audited: int | None) -> Row:
    return {"kind": "estimate", "folder": folder, "mask": mask, "audited": audited}


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        ([("a", drawing.MEASURED, 200), ("b", drawing.MEASURED, 200)], True),
        ([("a", drawing.MEASURED, 200), ("b", drawing.MEASURED, 100)], False),
        ([("a", drawing.MEASURED, 200), ("b", "stated", 200)], False),
        ([("a", drawing.MEASURED, 200), ("a", "stated", None)], True),
        ([], False),
    ],
)
def test_the_page_opens_with_all_pairs_if_each_was_audited(
    monkeypatch: pytest.MonkeyPatch, rows: list[tuple[str, str, int | None]], shown: bool
) -> None:
    monkeypatch.setattr(drawing, "overview", lambda rows: "chart")
    others: list[Row] = [{"kind": "truth", "folder": "c"}]
    made = drawing._overview([*others, *(estimate_row(*row) for row in rows)])
    assert made == (["chart"] if shown else [])


@pytest.mark.parametrize(("wrong", "level"), [(1, "good"), (2, "error"), (0, "good")])
def test_an_audit_may_name_a_wrong_winner_once_in_twenty_comparisons(
    wrong: int, level: str
) -> None:
    cells: list[Row] = [
        {"value": sign, "truth": 1.0, "low": sign - 0.5, "high": sign + 0.5, "audited": 200,
         "mask": drawing.MEASURED, "estimator": "measured", "level": "measured"}
        for sign in [-1.0] * wrong + [1.0] * (20 - wrong)
    ]  # fmt: skip
    (verdict,) = drawing._winner_bars(cells)
    assert verdict.level == level
    assert f"measured, 200 rows {wrong / 20:.1%}" in verdict.evidence


def test_rates_of_rare_labels_are_drawn_towards_that_of_all() -> None:
    """As if two more labels of each had been kept as often as all."""
    observed, true = (sp.csr_array(np.array(rows, float)) for rows in (OBSERVED, TRUE))
    kept, present = np.array([2, 1, 0]), np.array([2, 3, 1])
    np.testing.assert_allclose(pairs._rates([observed], [true]), (kept + 2 * 3 / 6) / (present + 2))
