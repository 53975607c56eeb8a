"""The Gender Score against the worked example of its authors, limits, and their scripts' output."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest

from obygaze.audits.gender import (
    GenderScore,
    audit_gender_score,
    cut_shares,
    gender_estimate,
    gender_score,
)
from obygaze_features.core.errors import FixInput


def test_the_worked_example() -> None:
    man = gender_score(0.12759140133857727, 0.5452305674552917, 0.2183)
    woman = gender_score(0.11249390989542007, 0.5037289261817932, 0.2183)
    assert man.score == pytest.approx(0.45320714150193153, abs=1e-12)
    assert woman.score == pytest.approx(0.39912252800731546, abs=1e-12)
    estimate = gender_estimate("a [MASK] riding a motorcycle", man, woman)
    assert estimate.caption == "a man riding a motorcycle"
    assert estimate.ratio_to_man == pytest.approx(53.17275201306536, abs=1e-10)
    assert estimate.ratio_to_woman == pytest.approx(46.82724798693463, abs=1e-10)


@pytest.mark.parametrize(
    ("lm", "sim", "prob", "expected"),
    [
        (0.1, 0.0, 0.2, 0.1),  # no similarity, no revision
        (0.1, 1.0, 0.2, 1.0),  # perfect fit: exponent 0
        (0.1, 1.0, 1.0, 0.1),  # certain visual word: 0 ** 0 is 1
        (0.3, -0.9, 1.0, 0.3),
        (0.1, -1.0, 0.2, 0.0),  # the limit
        (1.0, -1.0, 0.2, 1.0),
        (0.1, -1.0, 1.0, 0.1),
        (0.25, -0.6, 0.5, 0.0625),  # (1.6 / 0.4) ** 0.5 = 2
        (0.0, 0.5, 0.5, 0.0),
    ],
)
def test_values_by_hand(lm: float, sim: float, prob: float, expected: float) -> None:
    assert gender_score(lm, sim, prob).score == pytest.approx(expected, abs=1e-12)


def test_limit_and_rounding_are_noted() -> None:
    assert "limit" in gender_score(0.1, -1.0, 0.2).note
    noisy = gender_score(0.1, 1.0000001192092896, 0.2)
    assert noisy == GenderScore(1.0, "similarity clipped to 1: rounding error")
    assert gender_score(0.1, 0.9, 0.2).note == ""
    assert "0 ** 0, taken as 1" in gender_score(0.0, 1.0, 0.5).note
    assert gender_score(0.0, 1.0, 1.0).note == ""


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((0.1, 0.5, 21.83), "percent"),
        ((12.0, 0.5, 0.2), "percent"),
        ((0.1, 1.001, 0.2), "must be a cosine"),
        ((0.1, math.nan, 0.2), "must be a cosine"),
        ((0.1, 0.5, math.nan), "must be a probability"),
        ((-0.1, 0.5, 0.2), "must be a probability"),
        ((0.1, 0.5, 1000.0), "must be a probability"),
    ],
)
def test_what_cannot_be_scored(values: tuple[float, float, float], words: str) -> None:
    with pytest.raises(FixInput, match=words):
        gender_score(*values)


def test_cut_shares_are_cut_not_rounded() -> None:
    assert cut_shares(770, 368) == (0.67, 0.32)
    assert cut_shares(792, 408) == (0.66, 0.34)
    assert cut_shares(29, 71) == (0.29, 0.71)
    with pytest.raises(FixInput):
        cut_shares(0, 0)


def test_tie_counts_for_man_and_zero_scores_have_no_ratio() -> None:
    tie, nothing = GenderScore(0.2), GenderScore(0.0)
    assert gender_estimate("x", tie, tie).gender == "man"
    assert gender_estimate("x", nothing, nothing).ratio_to_man is None


def test_a_table_of_scores(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(
        "lm,sim,prob,what\n0.25,-0.6,0.5,a\n0.1,0,0.2,b\n", encoding="utf-8"
    )
    assert [
        row["score"] for row in audit_gender_score(path).to_json()["rows"]
    ] == pytest.approx([0.0625, 0.1])


def test_every_bad_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(
        "lm,sim,prob\n0.1,0,21\n0.1,x,0.2\n0.1,nan,0.2\n0.1,0,0.2\n", encoding="utf-8"
    )
    with pytest.raises(FixInput) as caught:
        audit_gender_score(path)
    lines = [line.removeprefix(f"{path}:") for line in caught.value.details]
    assert [line[0] for line in lines] == ["2", "3", "4"]
    assert "percent" in lines[0]
    path.write_text("lm,similarity,prob\n0.1,0,0.2\n", encoding="utf-8")
    with pytest.raises(FixInput) as caught:
        audit_gender_score(path)
    assert "missing column sim" in caught.value.details[0]


def test_published_cases(tmp_path: Path) -> None:
    from support.data import golden

    cases = json.loads(golden("audits", "gender_score.json").read_text("utf-8"))
    for case in cases["formula_cases"]:
        score = gender_score(case["lm"], case["sim"], case["prob"]).score
        assert score == pytest.approx(case["score"], abs=1e-12)
    for table in cases["poster_tables"]:
        assert list(cut_shares(table["man"], table["woman"])) == table["printed"]
    run = next(run for run in cases["script_runs"] if run["name"] == "random_GE")
    path = tmp_path / "captions.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(
            ["caption", "lm_man", "sim_man", "lm_woman", "sim_woman", "prob"]
        )
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
