"""The Gender Score against the worked example of its authors, limits, and their scripts' output."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from obygaze.audits.gender import (
    audit_gender_score,
    cut_shares,
    gender_score,
)


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
