"""Runs of induced affect: classes of scores at the bounds of the task, written as they are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import call_obygaze

from obygaze.extensions.audits.mediaeval import audit_mediaeval
from obygaze.extensions.audits.mediaeval_affect import affect_class, write_affect_run
from obygaze.extensions.audits.mediaeval_runs import read_affect_run
from obygaze_features.core.errors import AlreadyThere, FixInput, FixUsage, NotFound
from obygaze_features.manifest.adapters import liris_accede

SCORES = """\
name,valence,arousal
ACCEDE00001.mp4,-0.151,0.15
ACCEDE00002.mp4,-0.15,0.151
ACCEDE00003.mp4,1,-1
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("score", "expected"),
    [(-1, -1), (-0.1501, -1), (-0.15, 0), (0, 0), (0.15, 0), (0.1501, 1), (1, 1)],
)
def test_the_bounds_themselves_are_neutral(score: float, expected: int) -> None:
    assert affect_class(score) == expected


def test_scores_of_one_table(tmp_path: Path) -> None:
    table = write(tmp_path / "s.csv", SCORES)
    run = tmp_path / "affect.txt"
    done = call_obygaze("audit", "affect-run", table, "-o", run).ok()
    assert run.read_text() == (
        "ACCEDE00001.mp4 -1 0\nACCEDE00002.mp4 0 1\nACCEDE00003.mp4 1 -1\n"
    )
    assert "valence: -1 1, 0 1, 1 1" in done.stdout
    facts = json.loads((tmp_path / "affect.json").read_text())
    assert facts == {"subtask": "affect", "external_data": True, "tag": "obygaze"}
    valence, _ = read_affect_run(run)
    assert valence == {
        "ACCEDE00001.mp4": -1,
        "ACCEDE00002.mp4": 0,
        "ACCEDE00003.mp4": 1,
    }
    with pytest.raises(AlreadyThere):
        write_affect_run(table, output=run, no_external_data=True)


def test_the_run_is_scored_by_the_audit(tmp_path: Path) -> None:
    annotations = tmp_path / "annotations"
    annotations.mkdir()
    write(
        annotations / "ACCEDEaffect.txt",
        "id\tname\tvalenceClass\tarousalClass\n"
        "1\tACCEDE00001.mp4\t-1\t1\n2\tACCEDE00002.mp4\t0\t1\n3\tACCEDE00003.mp4\t1\t1\n",
    )
    table = write(tmp_path / "s.csv", SCORES)
    run = tmp_path / "affect.txt"
    write_affect_run(table, output=run, no_external_data=True)
    manifest = liris_accede.read(annotations).manifest
    (score,) = audit_mediaeval([run], manifest=manifest).runs
    assert score.valence is not None
    assert score.arousal is not None
    assert (score.valence.accuracy, score.arousal.accuracy) == (1.0, 1 / 3)
    assert score.external_data is False


def test_decisions_of_two_tables_of_models_predict(tmp_path: Path) -> None:
    header = "clip_id,movie_id,basis,-1,0,1,decision\n"
    valence = write(
        tmp_path / "v.csv",
        header + "ACCEDE00002,a,unseen,.1,.8,.1,0\nACCEDE00001,a,unseen,.8,.1,.1,-1\n",
    )
    arousal = write(
        tmp_path / "a.csv",
        header + "ACCEDE00001,a,unseen,.1,.1,.8,1\nACCEDE00002,a,unseen,.8,.1,.1,-1\n",
    )
    run = tmp_path / "affect.txt"
    written = write_affect_run(valence, arousal, output=run)
    assert run.read_text() == "ACCEDE00001.mp4 -1 1\nACCEDE00002.mp4 0 -1\n"
    assert (written.n_clips, written.valence) == (2, {-1: 1, 0: 1, 1: 0})
    with pytest.raises(FixUsage, match="same column 'decision' of one table"):
        write_affect_run(valence, output=tmp_path / "other.txt")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("name,valence\na,0\n", NotFound, "no column with the arousal"),
        ("clip,valence,arousal\na,0,0\n", NotFound, "no column with the names"),
        ("name,valence,arousal\n", FixInput, "at least one clip, got none"),
        ("name,valence,arousal\na,0,4899\n", FixInput, "from -1 to 1, got '4899'"),
        ("name,valence,arousal\na,nan,0\n", FixInput, "from -1 to 1, got 'nan'"),
        ("name,valence,arousal\na,0,0\na,1,0\n", FixInput, "more than one row"),
        ("name,valence,arousal\na b,0,0\n", FixInput, "must not have blanks"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, text: str, error: type[Exception], message: str
) -> None:
    table = write(tmp_path / "s.csv", text)
    run = tmp_path / "affect.txt"
    with pytest.raises(error, match=message):
        write_affect_run(table, output=run)
    assert not run.exists()


def test_a_clip_of_one_table_alone_is_an_error(tmp_path: Path) -> None:
    valence = write(tmp_path / "v.csv", "name,valence\na,0\nb,0\n")
    arousal = write(tmp_path / "a.csv", "name,arousal\na,0\n")
    with pytest.raises(FixInput, match="1 clips have valence or arousal, but not both"):
        write_affect_run(valence, arousal, output=tmp_path / "affect.txt")
