"""The Gender Score against the worked example of its authors, limits, and their scripts' output."""

import csv
import json
from pathlib import Path

import pytest

from obygaze.audits.gender import audit_gender_score, cut_shares, gender_score
from obygaze_features.core.errors import FixInput

COLUMNS = "caption,lm_man,sim_man,lm_woman,sim_woman,prob\n"


@pytest.mark.parametrize(
    ("lm", "sim", "prob", "expected"),
    [
        (0.1, 0.0, 0.2, 0.1),  # no similarity, no revision
        (0.1, 1.0, 0.2, 1.0),  # perfect fit: exponent 0
        (0.3, -0.9, 1.0, 0.3),  # certain visual word
        (0.1, -1.0, 0.2, 0.0),  # the limit
        (1.0, -1.0, 0.2, 1.0),
        (0.1, -1.0, 1.0, 0.1),
        (0.25, -0.6, 0.5, 0.0625),  # (1.6 / 0.4) ** 0.5 = 2
    ],
)
def test_values_by_hand(lm: float, sim: float, prob: float, expected: float) -> None:
    assert gender_score(lm, sim, prob) == pytest.approx(expected, abs=1e-12)


def test_published_cases(tmp_path: Path) -> None:
    from support.data import golden

    cases = json.loads(golden("audits", "gender_score.json").read_text("utf-8"))
    for case in cases["formula_cases"]:
        score = gender_score(case["lm"], case["sim"], case["prob"])
        assert score == pytest.approx(case["score"], abs=1e-12)
    for table in cases["poster_tables"]:
        assert list(cut_shares(table["man"], table["woman"])) == table["printed"]
    run = next(run for run in cases["script_runs"] if run["name"] == "random_GE")
    path = tmp_path / "captions.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS.strip().split(","))
        for word, prob, caption in run["rows"]:
            cells = [caption]
            for gender in ("man", "woman"):
                worded = caption.replace("[MASK]", gender)
                cells += [run["lm"][worded], run["sim"][f"{worded}||{word}"]]
            writer.writerow([*cells, prob])
    printed = next(iter(run["output"].values())).splitlines()
    rows = audit_gender_score(path)["rows"]
    for row, line in zip(rows, printed, strict=True):
        caption, score, to_man, _ = line.rsplit(",", 3)
        # The original drops the blank after a comma inside a caption when it writes.
        assert row["caption"].replace(", ", ",") == caption
        assert row["score"] == pytest.approx(float(score), abs=1e-12)
        assert row["ratio_to_man"] == pytest.approx(
            float(to_man.split(": ")[1]), abs=1e-10
        )


def test_both_wordings_have_ratios_and_a_winner_and_ties_are_counted(tmp_path) -> None:
    rows = (
        "a [MASK] runs,0.3,0,0.1,0,0.5\n"
        "a [MASK] sits,0.1,0,0.1,0,0.5\n"
        "the [MASK],0.1,0,0.4,0,0.5\n"
        "a [MASK],0.1,-1,0.1,-1,0.5\n"
        "two [MASK],0.3,0,0.1,0,0.5\n"
        "the tall [MASK],0.1,0,0.4,0,0.5\n"
    )
    table = tmp_path / "t.csv"
    table.write_text(COLUMNS + rows, "utf-8")
    found = audit_gender_score(table)
    document = found.to_json()
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
    assert "2 captions with the same score for both" in str(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a [MASK],0.1,0.5,0.1,0.5,21.83\n", "is it in percent?"),
        ("a [MASK],0.1,0.5,nan,0.5,0.5\n", "must be a number, got 'nan'"),
        ("a [MASK],0.1,0.5,0.1,1.01,0.5\n", "must be a cosine"),
        ("a [MASK],0.1,0.5,-0.1,0.5,0.5\n", "must be a probability, got -0.1"),
        ("a [MASK],0.1,0.5,0.1,0.5\n", "expected 6 cells as in the header, got 5"),
        ("", "no captions"),
    ],
)
def test_tables_that_cannot_be_scored(tmp_path: Path, text: str, message: str) -> None:
    table = tmp_path / "t.csv"
    table.write_text(COLUMNS + text, "utf-8")
    with pytest.raises(FixInput) as caught:
        audit_gender_score(table)
    told = " ".join([caught.value.message, *caught.value.details])
    assert message in told and (not text or f"{table}:2:" in told)
