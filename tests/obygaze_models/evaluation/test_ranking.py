"""AUC within the folds of a cross-validation, whose models have scales of their own."""

from pathlib import Path

import pytest
from support.tables import RunRow, cell_of


def test_the_example_of_the_page_on_reports() -> None:
    """Folds count by their pairs over their clips in AUC, and once in AP."""
    folds = {
        "first": {0.25: 1, 0.75: 0},
        "second": {0.875: 1, 0.75: 1, 0.5: 0, 0.375: 0, 0.25: 0, 0.125: 0},
    }
    rows: list[RunRow] = []
    for fold, clips in folds.items():
        for score, y in clips.items():
            clip = {"clip_id": f"{fold} {score}", "movie_id": fold}
            rows.append({**clip, "fold": fold, "y": y, "score": score})
    cell = cell_of(rows)
    averaged = cell_of(rows, is_averaged=True)
    assert cell.value("ap") == averaged.value("ap") == 0.75
    auc = cell.value("auc")
    assert auc == pytest.approx((2 * 4 / 6) / (1 * 1 / 2 + 2 * 4 / 6))
    assert averaged.value("auc") == 0.5
    page = (Path(__file__).parents[3] / "docs" / "reports.md").read_text("utf-8")
    assert "| AP | 0.50 | 1.00 | 1 and 1 | 0.75 |" in page
    weights = "1 × 1 / 2 = 0.50 and 2 × 4 / 6 = 1.33"
    assert f"| AUC | 0.00 | 1.00 | {weights} | {auc:.2f} |" in page
