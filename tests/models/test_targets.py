"""Whatever labels are given as, the model is the same, and predictions come back in that form."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unmask import LinearClassifier, data, linear, weights
from unmask.models.base import _in_order, read_targets, repeated_rows, shown, with_row_weights
from unmask.models.training import row_weights
from unmask.weights import Weights

ROWS = data.synthetic.planted(60, n_features=20, n_labels=4, seed=1)
X = ROWS.features.toarray()
DENSE = ROWS.labels.toarray().astype(int)
NAMES = ("art", "law", "optics", "tax")
LISTS = [[NAMES[j] for j in np.flatnonzero(row)] for row in DENSE]


class Frame:
    """As much of a data frame as is used, by interface alone."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self.data = columns
        self.columns = list(columns)

    def to_numpy(self) -> Any:
        return np.stack(list(self.data.values()), axis=1)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.to_numpy()

    def __getitem__(self, names: list[str]) -> Frame:
        return Frame({name: self.data[name] for name in names})


FRAME = Frame({name: DENSE[:, j] for j, name in enumerate(NAMES)})
FORMS: dict[str, Any] = {
    "dense": DENSE,
    "sparse": sp.csr_array(DENSE),
    "lists": LISTS,
    "sets": [set(row) for row in LISTS],
    "object array": np.array([*LISTS, None], dtype=object)[:-1],
    "frame": FRAME,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_labels_gives_the_same_model(form: str) -> None:
    classifier = LinearClassifier("logistic", C=5).fit(X, FORMS[form])
    plain = LinearClassifier("logistic", C=5).fit(X, DENSE)
    assert np.array_equal(classifier.coef_, plain.coef_)
    named = form not in ("dense", "sparse")
    assert list(classifier.classes_) == (list(NAMES) if named else [0, 1, 2, 3])
    expected, found = plain.predict(X), classifier.predict(X)
    if form in ("lists", "sets", "object array"):
        assert found == [[NAMES[j] for j in np.flatnonzero(row)] for row in expected]
    elif form == "frame":
        assert isinstance(found, Frame)
        assert found.columns == list(NAMES)
        assert np.array_equal(found.to_numpy(), expected)
    else:
        assert sp.issparse(found) == (form == "sparse")
        assert np.array_equal(found.toarray() if form == "sparse" else found, expected)
    top = classifier.predict_top(X, 2)
    assert top.names == (NAMES if named else None)
    assert np.array_equal(top.labels, plain.predict_top(X, 2).labels)


def test_output_can_be_chosen() -> None:
    lists = LinearClassifier("logistic", output="labels").fit(X, DENSE).predict(X[:3])
    assert lists == [np.flatnonzero(row).tolist() for row in
                     LinearClassifier("logistic").fit(X, DENSE).predict(X[:3])]  # fmt: skip
    indicator = LinearClassifier("logistic", output="indicator").fit(X, LISTS).predict(X[:3])
    assert indicator.shape == (3, 4)
    with pytest.raises(ValueError, match="unknown output 'names'"):
        LinearClassifier("logistic", output="names").fit(X, LISTS).predict(X)


def test_strings_are_one_name_per_row() -> None:
    one = read_targets(np.array(["law", "art", "law"]))
    assert (one.names, one.labels.toarray().tolist()) == (("art", "law"), [[0, 1], [1, 0], [0, 1]])
    two = read_targets(np.array([["law", "art"], ["tax", ""]]))
    assert two.labels.toarray().tolist() == [[1, 1, 0], [0, 0, 1]]
    with pytest.raises(ValueError, match="labels must be a matrix"):
        read_targets(np.array([1, 0, 1]))
    with pytest.raises(ValueError, match="columns of labels must be different"):
        read_targets(_same_columns())


def _same_columns() -> Frame:
    frame = Frame({"a": np.ones(2)})
    frame.columns = ["a", "a"]
    return frame


def test_a_data_set_brings_its_names() -> None:
    named = data.Dataset(None, DENSE, label_names=NAMES)
    assert list(LinearClassifier().fit(X, named).classes_) == list(NAMES)


def test_whole_sample_weights_repeat_rows() -> None:
    """Exactly the model of the repeated rows; a weight of 0 leaves a row out."""
    weights = np.random.default_rng(0).integers(0, 4, 60)
    rows = np.repeat(np.arange(60), weights)
    weighted = LinearClassifier("logistic").fit(X, LISTS, sample_weight=weights)
    repeated = LinearClassifier("logistic").fit(X[rows], [LISTS[i] for i in rows])
    assert np.allclose(weighted.coef_, repeated.coef_, atol=1e-6)
    for wrong, message in (
        (weights - 1.0, "0 or more; got -1"),
        (weights[:3], "one number per row"),
        (weights * 0, "all rows are zero"),
    ):
        with pytest.raises(ValueError, match=message):
            LinearClassifier().fit(X, DENSE, sample_weight=wrong)


def test_rows_are_repeated_as_often_as_their_weight_up_to_a_hundred_times_each() -> None:
    """100 times the number of rows in all, of fewer than 1000 rows as of 1000."""
    assert np.array_equal(repeated_rows(np.array([2.0, 0, 3, 1])), [0, 0, 2, 2, 2, 3])
    assert repeated_rows(np.array([1.0, 2.5])) is None
    for rows, most in ((1, 100_000), (1000, 100_000), (1001, 100_100)):
        weights = np.ones(rows)
        weights[-1] = most - rows + 1
        made = repeated_rows(weights)
        assert made is not None
        assert made.size == most
        weights[-1] += 1
        assert repeated_rows(weights) is None


def test_row_weights_are_checked_numbers_or_none() -> None:
    assert row_weights(None, 2) is None
    assert row_weights([1, 1], 2) is None
    made = row_weights([1, 0], 2)
    assert made is not None
    assert (made.dtype, made.tolist()) == (np.float64, [1.0, 0.0])
    assert row_weights([], 0) is None
    for wrong, message in (
        ([[1, 2]], r"one number per row \(2\); got \(1, 2\)"),
        ([1, np.nan], "0 or more; got nan"),
        ([1, np.inf], "0 or more; got inf"),
        ([-0.5, -2], "0 or more; got -0.5"),
        ([0, 0], "all rows are zero"),
    ):
        with pytest.raises(ValueError, match=message):
            row_weights(wrong, 2)


def test_weights_of_rows_become_those_of_every_pair() -> None:
    """Of loss a at +1 and b at −1: r (w a + (1 − c) b) is w' a + (1 − c') b, w' = r w."""
    pos = sp.csr_array(np.array([[2.0, 0, 0], [0, 3, 1.5]]))
    cut = sp.csr_array(np.array([[1.5, 0, 0], [0, 1, 0.25]]))
    rows = np.array([0.5, 4.0])
    made = with_row_weights(Weights(pos, cut), rows, reduction="ova")
    np.testing.assert_allclose(made.pos.toarray(), [[1, 0, 0], [0, 12, 6]])
    left = rows[:, None] * (1 - cut.toarray())
    np.testing.assert_allclose(1 - made.cut.toarray(), left)
    assert made.pos.nnz == made.cut.nnz == 6
    picked = with_row_weights(Weights(pos, cut), rows, reduction="pal")
    np.testing.assert_allclose(picked.pos.toarray(), [[1, 0, 0], [0, 12, 6]])
    np.testing.assert_array_equal(picked.cut.toarray(), cut.toarray())
    assert pos.data.tolist() == [2.0, 3.0, 1.5]


def test_as_many_pairs_are_stored_as_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unmask.models.base.MOST_PAIRS", 6)
    empty = sp.csr_array((2, 3))
    with_row_weights(Weights(empty, empty), np.array([0.5, 1.5]), reduction="ova")
    wider = sp.csr_array((1, 7))
    with pytest.raises(ValueError, match="1 × 7 numbers, more than 6"):
        with_row_weights(Weights(wider, wider), np.array([0.5]), reduction="ova")


@pytest.mark.parametrize(
    "parameters",
    [
        {"loss": "logistic"},
        {"loss": "squared_hinge"},
        {"loss": "logistic", "correction": "bound", "propensity": [0.5] * len(NAMES)},
        {"loss": "softmax", "reduction": "pal"},
        {"loss": "logistic", "l2": 0.1},
    ],
    ids=str,
)
def test_halves_count_half(parameters: dict[str, Any]) -> None:
    """k/2 times as much at C is k times as much at C/2; a mean loss (l2) has no such factor."""
    counts = np.random.default_rng(1).integers(0, 4, 60)
    half = {} if "l2" in parameters else {"C": 0.5}
    whole = LinearClassifier(**parameters, **half, tol=1e-9).fit(X, LISTS, sample_weight=counts)
    halves = LinearClassifier(**parameters, tol=1e-9).fit(X, LISTS, sample_weight=counts / 2)
    assert np.allclose(halves.coef_, whole.coef_, atol=1e-3)
    assert not np.allclose(
        halves.coef_, LinearClassifier(**parameters).fit(X, LISTS).coef_, atol=0.01
    )


def test_fractions_of_too_many_pairs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unmask.models.base.MOST_PAIRS", 100)
    with pytest.raises(ValueError, match=r"store 60 × .* scale and round"):
        LinearClassifier().fit(X, LISTS, sample_weight=np.full(60, 0.5))


def test_columns_in_another_order_are_put_in_order() -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    frame = pandas.DataFrame(X, columns=[f"f{j}" for j in range(20)])
    classifier = LinearClassifier("logistic").fit(frame, LISTS)
    turned = frame[list(frame.columns[::-1])]
    assert np.array_equal(classifier.decision_function(turned), classifier.decision_function(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        classifier.predict(frame.rename(columns={"f0": "other"}))


class Columns:
    """As much of a frame of features as is asked of it: its columns, and some in another order."""

    def __init__(self, columns: list[str], values: np.ndarray) -> None:
        self.columns, self.values = columns, values

    def __getitem__(self, names: list[str]) -> Columns:
        return Columns(names, self.values[:, [self.columns.index(name) for name in names]])


def test_frames_of_features_are_read_in_the_order_of_training_and_others_left() -> None:
    """Whoever checks other features next says what is wrong."""
    names = ["a", "b", "c"]
    frame = Columns(names, np.arange(6.0).reshape(2, 3))
    trained: Any = SimpleNamespace(feature_names_in_=np.array(names))
    for order in (["a", "b", "c"], ["c", "a", "b"], ["b", "a", "c"]):
        read = _in_order(trained, frame[order])
        assert (list(read.columns), read.values.tolist()) == (names, frame.values.tolist())
    turned = frame[["c", "b", "a"]]
    for others in (None, ["a", "b"], ["a", "b", "d"], ["a", "b", "c", "d"]):
        stated = {} if others is None else {"feature_names_in_": np.array(others)}
        assert _in_order(SimpleNamespace(**stated), turned) is turned  # type: ignore[arg-type]
        assert _in_order(SimpleNamespace(**stated), frame.values) is frame.values  # type: ignore[arg-type]


def test_pipelines_predict_top_from_texts() -> None:
    texts = [" ".join(f"w{j}" for j in np.flatnonzero(row)) for row in X]
    pipeline = make_pipeline(TfidfVectorizer(), LinearClassifier("logistic", C=5))
    pipeline.fit(texts, LISTS)
    top = linear.predict_top(pipeline, texts, 2)
    rows = pipeline[:-1].transform(texts)
    assert np.array_equal(top.labels, pipeline[-1].predict_top(rows, 2).labels)
    assert top.names == NAMES
    assert pipeline.predict(texts[:2]) == pipeline[-1].predict(rows[:2])
    with pytest.raises(ValueError, match="a StandardScaler has no `predict_top`"):
        linear.predict_top(make_pipeline(StandardScaler()).fit(X), X, 2)


def test_propensities_are_routed() -> None:
    """Through a pipeline, by scikit-learn's own metadata routing."""
    p = np.array([0.5, 0.9, 0.7, 1.0])
    with sklearn.config_context(enable_metadata_routing=True):
        last = LinearClassifier("logistic", correction="bound").set_fit_request(propensity=True)
        pipeline = make_pipeline(StandardScaler(with_mean=False), last)
        routed = pipeline.fit(X, DENSE, propensity=p)
    scaled = pipeline[:-1].transform(X)
    plain = LinearClassifier("logistic", correction="bound", propensity=p).fit(scaled, DENSE)
    assert np.array_equal(routed[-1].coef_, plain.coef_)


def test_set_output_of_a_pipeline_reaches_the_classifier() -> None:
    pytest.importorskip("pandas", reason="needs pandas")
    pipeline = make_pipeline(StandardScaler(), LinearClassifier("logistic"))
    pipeline.set_output(transform="pandas")
    plain = make_pipeline(StandardScaler(), LinearClassifier("logistic")).fit(X, DENSE)
    assert np.allclose(pipeline.fit(X, DENSE)[-1].coef_, plain[-1].coef_, atol=1e-6)


def test_folds_of_named_labels() -> None:
    found = cross_val_predict(
        LinearClassifier("logistic", output="indicator"), X, np.array(DENSE), cv=KFold(2)
    )
    assert found.shape == DENSE.shape


def test_frames_come_back_as_frames_and_without_one_as_numbers() -> None:
    chosen = np.array([[True, False], [True, True]])
    made: list[dict[str, list[int]]] = []

    def frame(columns: dict[str, np.ndarray]) -> str:
        made.append({name: column.tolist() for name, column in columns.items()})
        return "frame"

    targets: Any = SimpleNamespace(kind="frame", frame=frame, names=("a", "b"), classes=["a", "b"])
    assert shown(chosen, targets, None) == "frame"
    assert made == [{"a": [1, 1], "b": [0, 1]}]
    targets.frame = None
    np.testing.assert_array_equal(shown(chosen, targets, None), [[1, 0], [1, 1]])
    assert shown(chosen, targets, "labels") == [["a"], ["a", "b"]]


JUDGED = np.random.default_rng(3).choice([0, 0, 0, 1, -1, 2], DENSE.shape).astype(np.float32)
OBSERVED = data.Dataset(None, DENSE, label_names=NAMES, judgements=JUDGED)
P = np.array([0.4, 0.5, 0.6, 0.9])


@pytest.mark.parametrize("correction", ["vanilla", "unbiased"])
def test_judgements_reach_the_loss(correction: str) -> None:
    """Label by label, the model of the rows that count, with what was verified for the truth.

    A row that is ignored for a label is left out, a verified label has propensity 1, and a
    verified negative is no label.
    """
    form = {"correction": correction, "C": 2.0, "tol": 1e-9}
    p = None if correction == "vanilla" else P
    whole = LinearClassifier("logistic", **form).fit(X, OBSERVED, propensity=p)
    assert whole.classes_.tolist() == list(NAMES)
    truth = np.where(JUDGED == 0, DENSE, JUDGED == 1)
    entry_p = np.where(JUDGED == 1, 1.0, P)
    for label in range(4):
        used = JUDGED[:, label] != 2
        own = truth[used][:, [label]]
        known = None if p is None else sp.csr_array(own * entry_p[used][:, [label]])
        alone = LinearClassifier("logistic", **form).fit(X[used], own, propensity=known)
        np.testing.assert_allclose(whole.coef_[label], alone.coef_[0], atol=1e-4)
    plain = LinearClassifier("logistic", **form).fit(X, DENSE, propensity=p)
    assert np.abs(plain.coef_ - whole.coef_).max() > 0.05


def test_judgements_come_with_a_data_set_or_beside_the_labels() -> None:
    whole = LinearClassifier("logistic").fit(X, OBSERVED)
    for labels in (LISTS, DENSE, data.Dataset(None, DENSE, judgements=-JUDGED * (JUDGED != 2))):
        beside = LinearClassifier("logistic").fit(X, labels, judgements=JUDGED)
        assert np.array_equal(whole.coef_, beside.coef_)
    with pytest.raises(ValueError, match="judgements"):
        LinearClassifier("logistic").fit(X, DENSE, judgements=JUDGED[:-1])
    made = weights.vanilla(OBSERVED)
    with pytest.raises(ValueError, match="already say what every pair counts"):
        LinearClassifier("logistic", correction=made).fit(X, DENSE, judgements=JUDGED)


@pytest.mark.parametrize("unit", [1.0, 0.5])
def test_judged_rows_are_weighted(unit: float) -> None:
    """Weights 2 and 0 are two rows and none; halves of them the same at half the cost."""
    counts = np.r_[np.full(20, 2.0), np.zeros(10), np.ones(30)]
    rows = np.repeat(np.arange(60), counts.astype(int))
    repeated = LinearClassifier("logistic", tol=1e-9).fit(X[rows], OBSERVED.take(rows))
    weighted = LinearClassifier("logistic", C=1 / unit, tol=1e-9)
    weighted.fit(X, OBSERVED, sample_weight=unit * counts)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-4)
