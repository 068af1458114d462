"""Running a study: what is measured, and what is told of how far it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from unmask_studies import pages, runs

SQUARES = runs.Study(
    "squares", "numbers", lambda size, seed, data: [{"x": x} for x in (2, 3, 5)],
    lambda x: [{"square": x * x}, {"square": -x}], lambda rows: [],
)  # fmt: skip


def test_progress_begins_with_what_is_stored(tmp_path: Path) -> None:
    """Nothing at first, then all but one, then all."""
    told: list[list[tuple[int, int]]] = []

    def run(study: runs.Study) -> list[runs.Row]:
        told.append([])
        return runs.run(study, tmp_path, size="tiny", progress=lambda *step: told[-1].append(step))

    rows = run(SQUARES)
    assert [row["square"] for row in rows] == [4, -2, 9, -3, 25, -5]
    more = runs.Study(
        "squares", "numbers", lambda size, seed, data: [{"x": x} for x in (2, 3, 5, 7)],
        SQUARES.measure, SQUARES.draw,
    )  # fmt: skip
    assert [row["square"] for row in run(more)] == [4, -2, 9, -3, 25, -5, 49, -7]
    run(more)
    assert told == [[(0, 3), (1, 3), (2, 3), (3, 3)], [(3, 4), (4, 4)], [(4, 4)]]


def test_the_commit_of_a_source_tree(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of a branch, loose or packed, of a commit by itself, and of no repository."""
    monkeypatch.setattr(runs, "__file__", str(tmp_path / "src" / "unmask_studies" / "runs.py"))
    assert runs.commit() is None
    git = tmp_path / ".git"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    packed = git / "packed-refs"
    packed.write_text("# pack-refs with: peeled\n01ab refs/heads/other\n23cd refs/heads/main\n")
    assert runs.commit() == "23cd"
    packed.write_text("01ab refs/heads/other\n")
    assert runs.commit() is None
    (git / "refs" / "heads" / "main").write_text("45ef\n")
    assert runs.commit() == "45ef"
    (git / "HEAD").write_text("67ab\n")
    assert runs.commit() == "67ab"


def test_rows_are_recognised_by_the_first_one(tmp_path: Path) -> None:
    row: runs.Row = {"study": "variance", "size": "tiny", "seed": 0}
    path = tmp_path / "rows.json"
    (record,) = pages.recognise(path, [row])
    assert (record["source"], record["rows"]) == ("variance", [row])
    (record,) = pages.recognise(path, {"variance": [row, row]})
    assert record["rows"] == [row, row]
    for other in ([{"x": 1}], [], [1], {}, {"no study": [row]}, "text"):
        assert pages.recognise(path, other) == []
