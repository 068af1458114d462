"""Sets, scores, groups, hierarchies and thresholds by command, as the library has them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import unmask
from tests.helpers.command import run
from unmask import LabelSets, data, thresholds
from unmask.metrics import curve

N, L = 60, 4


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Labels by number and by name, probabilities of all labels, groups and a hierarchy."""
    folder = tmp_path_factory.mktemp("sets")
    labels, scores = arrays()
    names = ["art", "law", "optics", "physics"]
    made = {
        name: folder / name
        for name in (
            "labels.txt", "scores.npy", "scores.txt", "groups", "by-id.tsv", "tags.csv",
            "scores.csv", "other.csv", "tree.tsv", "some.txt", "negative.txt",
        )
    }  # fmt: skip
    made["labels.txt"].write_text(
        f"{N} 0 {L}\n" + "".join(",".join(map(str, np.flatnonzero(r))) + " \n" for r in labels)
    )
    np.save(made["scores.npy"], scores)
    pairs = [" ".join(f"{j}:{row[j]!r}" for j in range(L)) for row in scores.tolist()]
    made["scores.txt"].write_text(f"{N} {L}\n" + "\n".join(pairs) + "\n")
    made["some.txt"].write_text(f"{N} {L}\n" + "".join(f"0:{row[0]!r} 2:{row[2]!r}\n"
                                for row in scores.tolist()))  # fmt: skip
    made["negative.txt"].write_text(f"{N} {L}\n" + "0:-0.5\n" * N)
    made["groups"].write_text("".join(f"{'old' if i < 20 else 'new'}\n" for i in range(N)))
    made["by-id.tsv"].write_text("".join(f"r{i}\t{i % 2}\n" for i in reversed(range(N))))
    tags = [";".join(names[j] for j in np.flatnonzero(row)) for row in labels]
    made["tags.csv"].write_text("id,labels\n" + "".join(f"r{i},{t}\n" for i, t in enumerate(tags)))
    made["scores.csv"].write_text("id,label,score\n" + "".join(
        f"r{i},{names[j]},{scores[i, j]}\n" for i, j in np.ndindex(N, L)))  # fmt: skip
    made["other.csv"].write_text("id,label,score\n" + "".join(
        f"r{i},{names[j]},{1 - scores[i, j]}\n" for i, j in np.ndindex(N, L)))  # fmt: skip
    made["tree.tsv"].write_text("optics\tphysics\nphysics\tscience\n")
    return made


def arrays() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = (rng.random((N, L)) < 0.4).astype(int)
    return labels, np.round(0.3 * labels + 0.65 * rng.random((N, L)), 3) + 0.0004


def evaluated(files: dict[str, Path], *more: object, scores: str = "scores.npy") -> dict:
    result = run("evaluate", "--labels", files["labels.txt"], "--predictions", files[scores],
                 "--propensity", "constant:0.6", "--estimators", "vanilla,unbiased", "--json",
                 *more)  # fmt: skip
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def values(rows: list[dict]) -> dict[tuple[str, str], float]:
    return {(row["metric"], row["estimator"]): row["value"] for row in rows}


@pytest.mark.parametrize("scores", ["scores.npy", "scores.txt"])
def test_sets_above_a_threshold(files: dict[str, Path], scores: str) -> None:
    names = ["micro-F1", "macro-F1", "sample-F1", "Hamming"]
    record = evaluated(files, "--metrics", ",".join(names), "--threshold", 0.5, scores=scores)
    observed, matrix = arrays()
    table = unmask.evaluate(
        LabelSets.from_scores(matrix, 0.5), observed, np.full(L, 0.6), metrics=names
    )
    assert values(record["estimates"]) == pytest.approx(values(table.to_dicts()), abs=1e-6)


def test_metrics_of_scores_come_with_curves(files: dict[str, Path], tmp_path: Path) -> None:
    names = ["mAP", "macro-AUC", "Fmax", "Brier"]
    page = tmp_path / "page.html"
    record = evaluated(files, "--metrics", ",".join(names), "--html", page)
    observed, matrix = arrays()
    table = unmask.evaluate(matrix, observed, np.full(L, 0.6), metrics=names)
    assert values(record["estimates"]) == pytest.approx(values(table.to_dicts()), abs=1e-6)
    made = curve(matrix, observed, np.full(L, 0.6))
    stored = record["curves"]["unbiased"]
    assert [row["f1"] for row in stored] == pytest.approx(made.f1.tolist(), abs=1e-6)
    text = page.read_text()
    assert "Over thresholds" in text
    assert f"F1 is best at {made.best.threshold:.3g}: {made.best.f1:.3f}" in text


def test_scores_that_are_not_listed_are_zero_or_refused(files: dict[str, Path]) -> None:
    record = evaluated(files, "--metrics", "mAP", scores="some.txt")
    observed, matrix = arrays()
    matrix[:, [1, 3]] = 0
    table = unmask.evaluate(matrix, observed, np.full(L, 0.6), metrics=["mAP"])
    assert values(record["estimates"]) == pytest.approx(values(table.to_dicts()), abs=1e-6)
    command = ["evaluate", "--labels", files["labels.txt"], "--propensity", "constant:0.6"]
    for more, message in (
        (["--predictions", files["negative.txt"], "--metrics", "mAP"], "a score for every label"),
        (["--predictions", files["scores.npy"], "--metrics", "mAP", "--threshold", "0.5"],
         "--threshold makes sets"),
        (["--predictions", files["scores.npy"], "--metrics", "micro-F1", "--threshold",
          files["groups"]], "groups"),
        (["--predictions", files["scores.npy"], "--groups", files["tree.tsv"], "--metrics", "mAP"],
         "2 lines for 60 rows"),
        (["--predictions", files["scores.npy"], "--hierarchy", files["tree.tsv"], "--metrics",
          "mAP"], "these have numbers only"),
    ):  # fmt: skip
        refused = run(*command, *more)
        assert refused.returncode == 2
        assert message in refused.stderr.replace("\n", " ")


def test_groups_of_rows(files: dict[str, Path], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    record = evaluated(files, "--metrics", "micro-F1", "--threshold", 0.5, "--groups",
                       files["groups"], "--html", page)  # fmt: skip
    observed, matrix = arrays()
    tables = unmask.evaluate(
        LabelSets.from_scores(matrix, 0.5), observed, np.full(L, 0.6), metrics=["micro-F1"],
        groups=["old"] * 20 + ["new"] * 40,
    )  # fmt: skip
    stored = {row["group"]: row["value"] for row in record["groups"]
              if row["estimator"] == "unbiased"}  # fmt: skip
    for name in ("old", "new"):
        assert stored[name] == pytest.approx(tables[name]["micro-F1", "unbiased"].value, abs=1e-6)
    assert record["groups"][0]["details"]["rows"] == 20
    text = page.read_text()
    assert "By group" in text
    assert "Too few rows to say much: old." in text
    shown = run("evaluate", "--labels", files["tags.csv"], "--predictions", files["scores.csv"],
                "--propensity", "constant:0.6", "--metrics", "micro-F1", "--groups",
                files["by-id.tsv"], "--threshold", "0.5")  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    below = shown.stdout.partition("by group")[2]
    assert [line.split()[:3] for line in below.splitlines() if "micro-F1" in line] == [
        ["0", "30", "micro-F1"], ["1", "30", "micro-F1"],
    ]  # fmt: skip
    assert "*" not in below


def test_a_group_that_differs_is_marked(files: dict[str, Path], tmp_path: Path) -> None:
    """Half of the rows have the scores of other rows."""
    _, scores = arrays()
    np.save(tmp_path / "scores.npy", np.r_[scores[:30], 0.999 - scores[30:]])
    (tmp_path / "groups").write_text("right\n" * 30 + "wrong\n" * 30)
    shown = run("evaluate", "--labels", files["labels.txt"], "--predictions",
                tmp_path / "scores.npy", "--propensity", "constant:0.6", "--metrics", "micro-F1",
                "--groups", tmp_path / "groups", "--threshold", "0.5")  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    below = shown.stdout.partition("by group")[2]
    lines = [line for line in below.splitlines() if "micro-F1" in line]
    assert [line.split()[0] for line in lines if "*" in line] == ["right", "wrong"]
    assert "* differs from all other rows" in below


def test_thresholds_are_chosen_stored_and_applied(files: dict[str, Path], tmp_path: Path) -> None:
    cut = tmp_path / "cut.json"
    for more, options in (
        ([], {}),
        (["--metric", "macro-F1"], {"metric": "macro-F1"}),
        (["--metric", "cost", "--wrong", "2", "--per", "all"],
         {"metric": "cost", "cost": (2.0, 1.0), "per": "all"}),
    ):  # fmt: skip
        result = run("threshold", "--labels", files["labels.txt"], "--predictions",
                     files["scores.npy"], "--propensity", "constant:0.6", "-o", cut, "--json",
                     *more)  # fmt: skip
        assert result.returncode == 0, result.stderr
        observed, matrix = arrays()
        expected = thresholds.fit(matrix.astype(np.float32), observed, np.full(L, 0.6), **options)
        assert thresholds.read(cut).values == pytest.approx(expected.values)
        assert json.loads(result.stdout)["value"] == pytest.approx(expected.value)
    record = evaluated(files, "--metrics", "micro-F1", "--threshold", cut)
    table = unmask.evaluate(expected.apply(matrix.astype(np.float32)), observed, np.full(L, 0.6),
                            metrics=["micro-F1"])  # fmt: skip
    assert values(record["estimates"]) == pytest.approx(values(table.to_dicts()), abs=1e-6)
    bands = run("threshold", "--labels", files["labels.txt"], "--predictions",
                files["scores.npy"], "--propensity", "constant:0.6", "-o", cut, "--per", "band",
                "--bands", "2")  # fmt: skip
    assert bands.returncode == 0, bands.stderr
    assert len(set(thresholds.read(cut).values.tolist())) == 2
    assert "4 of 4" in bands.stdout
    assert f"applythemby`unmaskevaluate--threshold{cut}`" in "".join(bands.stdout.split())


def test_labels_with_their_ancestors(files: dict[str, Path]) -> None:
    result = run("evaluate", "--labels", files["tags.csv"], "--predictions", files["scores.csv"],
                 "--propensity", "constant:0.9", "--metrics", "micro-P,micro-R", "--threshold",
                 "0.5", "--hierarchy", files["tree.tsv"], "--estimators", "vanilla,unbiased",
                 "--json")  # fmt: skip
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)["estimates"]
    labels, matrix = arrays()
    tree = data.read_hierarchy(files["tree.tsv"]).aligned(["art", "law", "optics", "physics"])
    wide = [np.c_[each, np.zeros(N)] for each in (labels, matrix >= 0.5)]
    table = unmask.evaluate(
        LabelSets(wide[1]), wide[0], np.full(5, 0.9), metrics=["micro-P", "micro-R"], hierarchy=tree
    )
    assert values(rows) == pytest.approx(values(table.to_dicts()), abs=1e-6)
    assert rows[1]["verdict"]["reason"] == "closed"
    command = ["evaluate", "--labels", files["tags.csv"], "--predictions", files["scores.csv"],
               "--propensity", "constant:0.9", "--hierarchy", files["tree.tsv"]]  # fmt: skip
    paired = run(*command, "--metrics", "mAP,Fmax", "--estimators", "vanilla,unbiased", "--compare",
                 files["other.csv"], "--json")  # fmt: skip
    assert paired.returncode == 0, paired.stderr
    both = {"first": np.c_[matrix, np.zeros(N)], "other": np.c_[1 - matrix, np.zeros(N)]}
    expected = unmask.compare(
        both, wide[0], np.full(5, 0.9), metrics=["mAP", "Fmax"], hierarchy=tree
    )["other"]
    rows = json.loads(paired.stdout)["differences"]
    assert values(rows) == pytest.approx(values(expected.to_dicts()), abs=1e-6)
    assert rows[1]["verdict"]["reason"] == "closed"
    refused = run(*command, "--sensitivity", "powers")
    assert refused.returncode == 2
    assert "leave out --sensitivity" in refused.stderr


def test_thresholds_need_propensities_or_the_training_rows(
    files: dict[str, Path], tmp_path: Path
) -> None:
    result = run("threshold", "--labels", files["labels.txt"], "--predictions",
                 files["scores.npy"], "-o", tmp_path / "cut.json")  # fmt: skip
    assert result.returncode != 0
    assert "nothing says how likely labels were recorded: give --train FILE" in result.stderr


@pytest.mark.parametrize("bands", [0, -1])
def test_there_is_one_band_at_least(bands: int, files: dict[str, Path], tmp_path: Path) -> None:
    refused = run("threshold", "--labels", files["labels.txt"], "--predictions",
                  files["scores.npy"], "--propensity", "constant:0.6", "-o", tmp_path / "cut.json",
                  "--per", "band", "--bands", bands)  # fmt: skip
    assert refused.returncode == 2
    assert "bands must be" in refused.stderr
    assert not (tmp_path / "cut.json").exists()
