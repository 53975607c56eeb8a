"""Runs of induced affect: classes of scores at the bounds of the task, written as they are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import call_obygaze

from obygaze.audits.mediaeval_runs import read_affect_run
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_models.zoo import predict

SCORES = """\
clip_id,valence,arousal
ACCEDE00003.mp4,1,-1
ACCEDE00001,-0.151,0.15
ACCEDE00002.mp4,-0.15,0.151
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("clip_id,valence\na,0\n", "arousal"),
        ("clip,valence,arousal\na,0,0\n", "clip_id"),
        ("clip_id,valence,arousal\n", "at least one clip, got none"),
        ("clip_id,valence,arousal\na,0,4899\n", "from -1 to 1, got '4899'"),
        ("clip_id,valence,arousal\na,nan,0\n", "from -1 to 1, got 'nan'"),
        ("clip_id,valence,arousal\na,0,0\na,1,0\n", "more than one row"),
        ("clip_id,valence,arousal\na b,0,0\n", "must not have blanks"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, message: str) -> None:
    table = write(tmp_path / "s.csv", text)
    run = tmp_path / "affect.txt"
    with pytest.raises(FixInput) as caught:
        predict(affect=table).write(mediaeval=run)
    assert message in str([caught.value, caught.value.details])
    assert not run.exists()


def test_a_table_of_scores_takes_no_model(tmp_path: Path) -> None:
    table = write(tmp_path / "s.csv", SCORES)
    with pytest.raises(FixUsage, match="without a model"):
        predict("violence", "features", affect=table)
    assert call_obygaze("models", "predict").code == 2
    with pytest.raises(FixUsage, match="expected a model and a store"):
        predict()


def test_a_clip_under_two_names_is_refused_as_the_audit_refuses_it(
    tmp_path: Path,
) -> None:
    table = write(tmp_path / "s.csv", f"{SCORES}ACCEDE00001.mp4,0.5,0.5\n")
    with pytest.raises(FixInput, match=r"'ACCEDE00001\.mp4' under two ids"):
        predict(affect=table).write(mediaeval=tmp_path / "affect.txt")
    assert not (tmp_path / "affect.txt").exists()


def test_scores_of_a_table(tmp_path: Path) -> None:
    table = write(tmp_path / "s.csv", SCORES)
    run = tmp_path / "affect.txt"
    words = ("models", "predict", "--affect", table, "--mediaeval", run)
    call_obygaze(*words).ok()
    assert run.read_text() == (
        "ACCEDE00001.mp4 -1 0\nACCEDE00002.mp4 0 1\nACCEDE00003.mp4 1 -1\n"
    )
    facts = json.loads((tmp_path / "affect.json").read_text())
    assert facts == {"subtask": "affect", "external_data": True, "tag": "obygaze"}
    valence, _ = read_affect_run(run)
    assert valence == {
        "ACCEDE00001.mp4": -1,
        "ACCEDE00002.mp4": 0,
        "ACCEDE00003.mp4": 1,
    }
    # The file of facts would change.
    assert call_obygaze(*words, "--no-external-data").code == 1
    shown = call_obygaze("models", "predict", "--affect", table).ok().stdout
    assert shown.splitlines()[:2] == [
        "clip_id,basis,score:valence,score:arousal",
        "ACCEDE00003.mp4,given,1.0,-1.0",
    ]
