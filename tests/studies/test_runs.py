"""Running a study: what is measured, and what is told of how far it is."""

from __future__ import annotations

from pathlib import Path

from unmask_studies import runs

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
