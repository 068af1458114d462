"""Audits of pairs and of few rows near 0 and 1, in small."""

from __future__ import annotations

from unmask_studies import pair_coverage


def test_few_judged_pairs_and_rows_near_0_and_1_are_covered() -> None:
    """Cells in which all answers are usually alike: coverage, width, what is called measured."""
    cells = [
        ("P@1", "high", 60, "one"), ("P@1", "high", 60, "several"), ("P@5", "low", 30, "one"),
        ("micro-R@5", "high", 100, "several"), ("nDCG@5", "middle", 60, "one"),
        ("P@1", "0.03", 16, "rows"),
    ]  # fmt: skip
    rows = []
    for metric, level, judged, strata in cells:
        rows += pair_coverage.measure_unit(metric, level, judged, strata, seed=0, audits=60)
    for row in rows:
        assert row["coverage"] >= 0.9, row  # of 60: 92 % in truth
        assert (row["no_width"], row["outside"]) == (0, 0), row
        assert row["missed"] <= 0.06 * 60, row
    assert 0 < max(row["measured"] for row in rows) <= 1
    assert len(pair_coverage.claims(rows)) == 3
    figures, statements, tables = pair_coverage.picture(rows)
    assert (len(figures), len(statements), len(tables)) == (1, 3, 1)
    assert f"in each of {len(rows)} cells" in pair_coverage.answer(rows)
