"""What the commands say first: that a path does not exist, and options that exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import tagged
from tests.helpers.command import run

MISSING = (
    ("train", "none", "-o", "model", "--table", "bad"),
    ("train", "none", "--model", "bogus"),
    ("info", "none", "--table", "bad"),
    ("propensity", "none", "--lowest", "7"),
    ("hide", "none"),
    ("convert", "none", "out.bogus", "--table", "bad"),
    ("predict", "none"),
    ("predict", "here", "none"),
    ("evaluate", "--labels", "none", "--confidence", "7"),
    ("evaluate", "--predictions", "none"),
    ("evaluate", "--train", "none"),
    ("threshold", "--labels", "none"),
    ("threshold", "--predictions", "none"),
    ("diagnose", "none", "--table", "bad"),
    ("diagnose", "here", "--predictions", "none", "--table", "bad"),
    ("missing", "none"),
    ("complete", "none"),
    ("audit", "plan", "--labels", "none"),
    ("audit", "plan", "--predictions", "none"),
)


def test_a_path_that_does_not_exist_is_said_first(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    for arguments in MISSING:
        placed = [tmp_path / a if a in ("none", "here") else a for a in arguments]
        result = run(*map(str, placed))
        assert result.returncode == 2, arguments
        assert "there is no file or folder" in " ".join(result.stderr.split()), (arguments, result)


@pytest.mark.filterwarnings("always::unmask.linear.UnconvergedWarning")
def test_the_advice_of_training_is_an_option_of_it(tmp_path: Path) -> None:
    table = tmp_path / "tags.csv"
    tagged.write_csv(table, tagged.rows(60, seed=1))
    columns = (table, "--text", "text", "--id", "id", "--labels", "tags", "-q")
    for kind, loss in (("linear", "logistic"), ("tree", "logistic")):
        folder = ("-o", tmp_path / kind, "--model", kind, "--loss", loss, "--tol", "1e-12")
        few = run("train", *columns, *folder, "--max-iter", "1")
        assert few.returncode == 0, few.stderr
        said = " ".join(few.stderr.split())
        assert "did not converge in 1 iterations; raise --max-iter or --tol" in said


def test_columns_of_0_and_1_on_the_command_line(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("id,game,art,text\na,1,0,ball goal\nb,0,1,paint brush\nc,1,1,ball paint\n")
    train = ("--text", "text", "--labels", "game,art", "--id", "id", "-q")
    made = run("train", table, *train, "-o", tmp_path / "model")
    assert made.returncode == 0, made.stderr
    predicted = run(
        "predict", tmp_path / "model", table, "--text", "text", "-o", tmp_path / "p.csv"
    )
    assert predicted.returncode == 0, predicted.stderr
    labels = {line.split(",")[1] for line in (tmp_path / "p.csv").read_text().split()[1:]}
    assert labels == {"game", "art"}
