"""From a table of texts and tags to an evaluation, by the commands, with names in every output."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.helpers import tagged
from tests.helpers.command import run
from unmask import data, predictions
from unmask._text import harmless, visible
from unmask.files import contents

TRAIN, TEST = tagged.rows(240, seed=1), tagged.rows(80, first=1000, seed=2)


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the four commands have run; the test file is in another order."""
    folder = tmp_path_factory.mktemp("walk")
    tagged.write_csv(folder / "tags.csv", TRAIN)
    tagged.write_csv(folder / "new.csv", TEST, "id", "text")
    tagged.write_csv(folder / "test.csv", tagged.shuffled(TEST))
    columns = ("--text", "text", "--id", "id")
    for arguments in (
        ("train", "tags.csv", "--labels", "tags", *columns, "-o", "model", "-q"),
        ("predict", "model", "new.csv", *columns, "-o", "predictions.csv", "-q"),
    ):
        command, *rest = arguments
        placed = [folder / a if a in FILES else a for a in rest]
        result = run(command, *placed)
        assert result.returncode == 0, result.stderr
    return folder


FILES = ("tags.csv", "new.csv", "test.csv", "model", "predictions.csv")


def test_info_says_how_the_table_was_read(walk: Path) -> None:
    result = run("info", walk / "tags.csv", "--text", "text", "--labels", "tags", "--id", "id")
    assert result.returncode == 0
    for shown in ("column of labels", "tags", "between labels", "art, modern", "生物学"):
        assert shown in result.stdout
    assert "\x1b" not in result.stdout  # a name is shown, not acted on
    assert r"\x1b[31m" in result.stdout


def test_training_on_a_table_asks_for_the_column_of_texts(walk: Path, tmp_path: Path) -> None:
    result = run("train", walk / "tags.csv", "-o", tmp_path / "model")
    assert result.returncode == 2
    assert "say which column holds the texts with --text COLUMN" in result.stderr


def test_predictions_have_ids_and_names(walk: Path) -> None:
    with open(walk / "predictions.csv", newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == ["id", "label", "score"]
    assert {line["id"] for line in lines} == {row.id for row in TEST}
    assert {line["label"] for line in lines} == set(tagged.WORDS)  # to the letter
    top = predictions.read(walk / "predictions.csv")
    true = {row.id: row.tags for row in TEST}
    assert top.ids is not None
    hits = [top.of_row(i)[0][0] in true[key] for i, key in enumerate(top.ids) if true[key]]
    assert sum(hits) > 0.7 * len(hits)  # ids stand at their own rows


def evaluation(walk: Path, *more: object) -> dict:
    result = run(
        "evaluate", "--labels", walk / "test.csv", "--predictions", walk / "predictions.csv",
        "--train", walk / "tags.csv", "--json", "-q", *more,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_rows_are_matched_by_id_not_by_place(walk: Path, tmp_path: Path) -> None:
    """Any order of labels and predictions gives the same numbers."""
    ordered = tagged.write_csv(tmp_path / "test.csv", TEST)
    result = run(
        "evaluate", "--labels", ordered, "--predictions", walk / "predictions.csv",
        "--train", walk / "tags.csv", "--json", "-q",
    )  # fmt: skip
    values = [each["value"] for each in json.loads(result.stdout)["estimates"]]
    assert values == [each["value"] for each in evaluation(walk)["estimates"]]


def test_a_line_per_label(walk: Path) -> None:
    path = walk / "per-label.csv"
    evaluation(walk, "--per-label", path)
    with open(path, newline="", encoding="utf-8") as file:
        lines = {line["label"]: line for line in csv.DictReader(file)}
    assert set(lines) == {harmless(visible(name)) for name in tagged.WORDS}
    for name in tagged.WORDS:
        line = lines[harmless(visible(name))]
        assert int(line["rows"]) == sum(name in row.tags for row in TEST)
        assert int(line["train_rows"]) == sum(name in row.tags for row in TRAIN)
    assert run("evaluate", "--labels", walk / "test.csv", "--predictions",
               walk / "predictions.csv", "--train", walk / "tags.csv",
               "--per-label", walk / "x.txt").returncode == 2  # fmt: skip


def test_unmatched_ids_are_named(walk: Path, tmp_path: Path) -> None:
    fewer = tagged.write_csv(tmp_path / "test.csv", TEST[1:])
    result = run("evaluate", "--labels", fewer, "--predictions", walk / "predictions.csv",
                 "--train", walk / "tags.csv")  # fmt: skip
    assert result.returncode == 2
    assert "1 id of the predictions has no labels ('doc-1000')" in result.stderr


def test_labels_that_training_lacks_are_counted(walk: Path, tmp_path: Path) -> None:
    new = [*TEST[1:], TEST[0]._replace(tags=("new one",))]
    path = tagged.write_csv(tmp_path / "test.csv", new)
    result = run("evaluate", "--labels", path, "--predictions", walk / "predictions.csv",
                 "--train", walk / "tags.csv", "--per-label", tmp_path / "p.csv")  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "1 labels (1 times) have no row in" in result.stderr.replace("\n", " ")
    assert "'new one'" in result.stderr.replace("\n", " ")
    assert "new one" in (tmp_path / "p.csv").read_text(encoding="utf-8")


def test_predicted_names_that_no_row_has_count_as_wrong(walk: Path, tmp_path: Path) -> None:
    top = tmp_path / "top.csv"
    text = (walk / "predictions.csv").read_text(encoding="utf-8")
    first = text.splitlines()[1]
    lines = [f"{first.split(',')[0]},no such label,99", *text.splitlines()[1:]]
    top.write_text("\n".join(["id,label,score", *lines]), encoding="utf-8")
    files = ("--labels", walk / "test.csv", "--train", walk / "tags.csv")
    what = ("--metrics", "P@1", "--estimators", "vanilla", "--json", "--predictions")
    arguments = ("evaluate", *files, *what)
    result = run(*arguments, top)
    assert "1 predicted labels occur in no row: 'no such label'" in result.stderr.replace("\n", " ")
    before, after = (
        json.loads(each.stdout)["estimates"][0]["value"]
        for each in (run(*arguments, walk / "predictions.csv"), result)
    )
    assert 0 <= before - after <= 1 / len(TEST) + 1e-12  # one row may have lost its hit


def test_numbers_without_train_are_refused(walk: Path, tmp_path: Path) -> None:
    predictions.write(tmp_path / "p.txt", predictions.read(walk / "predictions.csv"))
    result = run("evaluate", "--labels", walk / "test.csv", "--predictions", tmp_path / "p.txt",
                 "--propensity", "constant:0.5")  # fmt: skip
    assert result.returncode == 2
    assert "nothing says whose numbers" in result.stderr


@pytest.mark.parametrize("ending", ["jsonl", "tsv"])
def test_other_tables_do_as_well(walk: Path, tmp_path: Path, ending: str) -> None:
    files = {}
    for name in ("tags", "test"):
        files[name] = tmp_path / f"{name}.{ending}"
        result = run("convert", walk / f"{name}.csv", files[name], "--text", "text")
        assert result.returncode == 0, result.stderr
    top = tmp_path / f"top.{ending}"
    predictions.write(top, predictions.read(walk / "predictions.csv"))
    result = run("evaluate", "--labels", files["test"], "--predictions", top,
                 "--train", files["tags"], "--json")  # fmt: skip
    values = [each["value"] for each in json.loads(result.stdout)["estimates"]]
    assert values == [each["value"] for each in evaluation(walk)["estimates"]]


def test_convert_says_what_numbers_cannot_hold(walk: Path, tmp_path: Path) -> None:
    facts = json.loads(run("convert", walk / "tags.csv", tmp_path / "y.txt", "--json").stdout)
    assert facts["left out"] == "ids, label names"
    for kept in ("y.npz", "y.jsonl"):
        assert "left out" not in run("convert", walk / "tags.csv", tmp_path / kept).stdout


@pytest.mark.parametrize(
    ("name", "options", "first"),
    [
        ("y.csv", (), "id,text,labels\nr1,"),
        ("y.tsv.gz", (), "id\ttext\tlabels\nr1\t"),
        ("y.jsonl", (), '{"id": "r1", "text": '),
        ("y.txt", ("--to", "labels"), "3 3\n"),
        ("y.tsv", ("--to", "annif"), "light bends\t<urn:optics> <urn:physics>\n"),
        ("y.tsv", ("--to", "cafa"), "r1\turn:optics\nr1\turn:physics\n"),
        ("y.txt", ("--to", "qrels"), "r1 0 urn:optics 1\n"),
    ],
)
def test_convert_honours_the_ending(
    tmp_path: Path, name: str, options: tuple[str, ...], first: str
) -> None:
    source, target = tmp_path / "tags.csv", tmp_path / name
    source.write_text(
        "id,text,tags\nr1,light  bends,urn:optics;urn:physics\nr2,courts,urn:law\nr3,x,urn:law\n"
    )
    result = run("convert", source, target, "--text", "text", *options)
    assert result.returncode == 0, result.stderr
    assert contents(target).decode().startswith(first)
    before = data.read(source, text="text")
    after = data.read(target, **({"format": options[1]} if options else {}))
    if after.label_names is None:
        assert (before.labels != after.labels).nnz == 0
    else:
        rows = range(3)
        assert [set(after.labels_of(i)) for i in rows] == [set(before.labels_of(i)) for i in rows]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("y.xlsx", (), "the ending .xlsx stands for no format that can be written; use .txt"),
        ("y.npy", (), "with --to"),
        (
            "y.csv",
            ("--to", "xc"),
            "should be csv, not xc; choose another ending, or leave out --to",
        ),
        ("y.npz", ("--to", "csv"), "should be npz, not csv"),
        ("y.txt", ("--to", "annif"), "the label 'two words' is empty or holds a character"),
        ("y.csv", ("--format", "xc"), "tags.csv"),
    ],
)
def test_convert_refuses_what_the_name_contradicts(
    tmp_path: Path, name: str, options: tuple[str, ...], message: str
) -> None:
    source = tmp_path / "tags.csv"
    source.write_text("id,text,tags\na,x,two words;b\nb,y,b\n")
    result = run("convert", source, tmp_path / name, "--text", "text", *options)
    assert result.returncode == 2
    assert message in result.stderr
    assert not (tmp_path / name).exists()


def test_features_are_not_lost_in_a_table(tmp_path: Path) -> None:
    rows = data.synthetic.planted(5, n_features=3, n_labels=2, seed=0)
    data.write(tmp_path / "x.txt", rows)
    refused = run("convert", tmp_path / "x.txt", tmp_path / "x.csv")
    assert (refused.returncode, "a table holds texts and labels" in refused.stderr) == (2, True)
    assert run("convert", tmp_path / "x.txt", tmp_path / "x.svm").returncode == 0
    again = data.read(tmp_path / "x.svm")
    assert again.source.format == "libsvm"
    assert (again.features != rows.features).nnz == (again.labels != rows.labels).nnz == 0


def test_a_model_of_texts_needs_texts(walk: Path) -> None:
    result = run("predict", walk / "model", walk / "test.csv", "-o", walk / "x.csv")
    assert result.returncode == 2
    assert "name the column of texts" in result.stderr


def test_table_settings_on_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("key;kinds\n1;a/b\n2;a\n")
    result = run("info", path, "--json", "--labels", "kinds", "--id", "key",
                 "--table", "delimiter=/")  # fmt: skip
    assert json.loads(result.stdout)["L"] == 2
    for wrong, message in (("delimiter", "--table takes NAME=VALUE"), ("x=1", "unknown name for")):
        refused = run("info", path, "--table", wrong)
        assert refused.returncode == 2
        assert message in refused.stderr


def test_hidden_labels_keep_ids_and_names(walk: Path, tmp_path: Path) -> None:
    result = run("hide", walk / "test.csv", "-o", tmp_path / "hidden.csv",
                 "--propensity", "constant:0.5")  # fmt: skip
    assert result.returncode == 0, result.stderr
    found = data.read(tmp_path / "hidden.csv")
    whole = data.read(walk / "test.csv")
    assert found.ids == whole.ids
    assert set(found.label_names or ()) <= set(whole.label_names or ())


def test_every_command_that_writes_a_file_takes_o(walk: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one.jsonl", "two.jsonl", "page.html", "page.json")]
    assert run("convert", walk / "tags.csv", files[0]).returncode == 0
    assert run("convert", walk / "tags.csv", "-o", files[1]).returncode == 0
    assert files[0].read_bytes() == files[1].read_bytes()
    for wrong in ([], [files[0], "-o", files[1]]):
        refused = run("convert", walk / "tags.csv", *wrong)
        assert refused.returncode == 2
        assert "name one file to write" in refused.stderr
    assert run("diagnose", walk / "tags.csv", "-o", files[2]).returncode == 0
    assert files[2].read_text(encoding="utf-8").startswith("<!doctype html>")
    refused = run("diagnose", walk / "tags.csv", "-o", files[3])
    assert refused.returncode == 2
    assert "a page is HTML" in refused.stderr
    assert not files[3].exists()
