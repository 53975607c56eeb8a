"""Runs of MediaEval that are written: of affect, classes at the bounds of the task; of violence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.cli import call_obygaze

from obygaze.audits import audit_mediaeval
from obygaze.audits.mediaeval_runs import read_affect_run, read_trec_run
from obygaze_features.core.errors import FixInput, FixUsage

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
    ("kind", "text", "message"),
    [
        ("affect", "clip_id,valence\na,0\n", "arousal"),
        ("affect", "clip_id,valence,arousal\n", "the table has no scores of affect"),
        ("affect", "clip_id,valence,arousal\na,0,4899\n", "from -1 to 1, got '4899'"),
        ("affect", "clip_id,valence,arousal\na b,0,0\n", "must not have blanks"),
        ("affect", f"{SCORES}ACCEDE00001.mp4,0.5,0.5\n", "mp4' under two ids"),
        ("predictions", "clip_id,score:1\n", "the table has no predictions"),
        ("predictions", "clip_id,score:1\na,nan\n", "expected a number, got 'nan'"),
        ("predictions", "clip_id,score:1\na,0.5\na,0.5\n", "'a' is already on line 2"),
        # Of three classes, none is what was asked for.
        ("predictions", "clip_id,p:A,p:B,p:C\na,0,0,1\n", "the scores of one question"),
    ],
)
def test_tables_of_which_no_run_is_written(
    tmp_path: Path, kind: str, text: str, message: str
) -> None:
    given: dict[str, Any] = {kind: write(tmp_path / "s.csv", text)}
    run = tmp_path / "run.txt"
    with pytest.raises(FixInput) as caught:
        audit_mediaeval(write=run, **given)
    assert message in " ".join([caught.value.message, *caught.value.details])
    assert not run.exists()


def test_a_run_of_affect(tmp_path: Path) -> None:
    table = write(tmp_path / "s.csv", SCORES)
    run = tmp_path / "affect.txt"
    words = ("audit", "mediaeval", "--write", run, "--affect", table)
    assert f"{run}: 3 clips." in call_obygaze(*words).ok().stdout
    assert run.read_text() == (
        "ACCEDE00001.mp4 -1 0\nACCEDE00002.mp4 0 1\nACCEDE00003.mp4 1 -1\n"
    )
    write(table, SCORES.replace("-0.151", "0.9"))
    assert call_obygaze(*words).code == 1
    call_obygaze(*words, "--force").ok()
    assert read_affect_run(run)[0]["ACCEDE00001.mp4"] == 1


def test_a_run_of_violence_is_read_as_it_was_written_and_scored_at_once(
    tmp_path: Path,
) -> None:
    rows = f"clip_id,p:0,p:1\nb,0.9,0.1\na,0.9,0.1\nc,0,{1 / 3!r}\n"
    table = write(tmp_path / "kept.csv", rows)
    qrels = write(tmp_path / "q", "violence 0 a 1\nviolence 0 b 0\nviolence 0 c 0\n")
    run = tmp_path / "violence.txt"
    audit = audit_mediaeval(write=run, predictions=table, qrels=qrels)
    lines = run.read_text("utf-8").splitlines()
    assert lines[0] == f"violence Q0 c 1 {1 / 3!r} kept"
    assert [line.split()[2] for line in lines] == ["c", "b", "a"]
    assert read_trec_run(run)[0] == {"violence": {"b": 0.1, "a": 0.1, "c": 1 / 3}}
    # The only violent clip is the third.
    assert audit["violence"]["ap_trec"] == pytest.approx(1 / 3)


def test_one_table_is_written(tmp_path: Path) -> None:
    table = write(tmp_path / "s.csv", SCORES)
    for given in (
        {"write": tmp_path / "r.txt"},
        {"affect": table},
        {"write": tmp_path / "r.txt", "affect": table, "predictions": table},
    ):
        with pytest.raises(FixUsage, match="with one table of scores"):
            audit_mediaeval(**given)
