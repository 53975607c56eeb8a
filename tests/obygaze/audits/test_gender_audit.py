"""The gender-score command: both forms of table, what is a clear error, models that fill it in."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import call_obygaze

ESTIMATION = "caption,lm_man,sim_man,lm_woman,sim_woman,prob\n"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_both_wordings_have_ratios_and_a_winner_and_ties_are_counted(
    tmp_path: Path,
) -> None:
    """A tie was called a higher score, and an average had other captions than its neighbour."""
    rows = (
        "a [MASK] runs,0.3,0,0.1,0,0.5\n"
        "a [MASK] sits,0.1,0,0.1,0,0.5\n"
        "the [MASK],0.1,0,0.4,0,0.5\n"
        "a [MASK],0.1,-1,0.1,-1,0.5\n"
        "two [MASK],0.3,0,0.1,0,0.5\n"
        "the tall [MASK],0.1,0,0.4,0,0.5\n"
    )
    table = write(tmp_path / "t.csv", ESTIMATION + rows)
    document = call_obygaze("audit", "gender-score", table, "--json").ok().json()
    captions = [row["caption"] for row in document["rows"]]
    assert captions[:4] == ["a man runs", "a man sits", "the woman", "a man"]
    ratios = [row["ratio_to_man"] for row in document["rows"]]
    assert ratios[:3] == pytest.approx([75.0, 50.0, 20.0])
    of_women = [row["ratio_to_woman"] for row in document["rows"]]
    assert of_women[:3] == pytest.approx([25.0, 50.0, 80.0])
    assert document["mean"] == pytest.approx(1.5 / 6)
    assert document["counts"] == {"man": 4, "woman": 2}
    assert document["printed"] == [0.66, 0.33]
    assert (document["n_ties"], document["n_without_ratio"]) == (2, 1)
    # (75 + 50 + 20 + 75 + 20) / 5 over five captions, and 0.9 / 2 of the sums over six.
    assert document["mean_ratio_to_man"] == pytest.approx(48)
    assert document["ratio_of_means_to_man"] == pytest.approx(45)
    shown = call_obygaze("audit", "gender-score", table).ok().stdout
    assert "cut after two decimals" in shown
    assert (
        "2 captions with the same score for both are counted for 'man', as published."
        in shown
    )
    assert "1 caption with two scores of 0 have no share" in shown


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("0.1,0.5,21.83", "is it in percent?"),
        ("0.1,0.5,nan", "must be a number, got 'nan'"),
        ("nan,0.5,0.5", "must be a number, got 'nan'"),
        ("0.1,nan,0.5", "sim_woman must be a number, got 'nan'"),
        ("0.1,1.01,0.5", "must be a cosine"),
        ("0.1,,0.5", "sim_woman must be a number, got ''"),
        ("-0.1,0.5,0.5", "must be a probability, got -0.1"),
        ("0.1,0.5", "expected 6 cells as in the header, got 5"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, cells: str, message: str) -> None:
    rows = f"a [MASK],0.1,0.5,0.1,0.5,0.5\na [MASK],0.1,0.5,{cells}\n"
    table = write(tmp_path / "t.csv", ESTIMATION + rows)
    done = call_obygaze("audit", "gender-score", table)
    assert done.code == 1
    assert done.stderr.splitlines()[0].startswith(f"{table}:3: ")
    assert message in done.stderr


def test_tables_with_missing_columns_or_rows(tmp_path: Path) -> None:
    for text, document in (
        (ESTIMATION, "no captions"),
        ("caption,lm_man,prob\n", "column 'sim_man': required column is missing"),
        (ESTIMATION.replace(",", ";"), "no captions"),
    ):
        done = call_obygaze("audit", "gender-score", write(tmp_path / "t.csv", text))
        assert (done.code, document in done.stderr) == (1, True), done.stderr
