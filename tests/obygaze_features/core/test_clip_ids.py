"""The ids of clips in files: what other programs wrote, and files without any."""

import re
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze

from obygaze_features.core.clip_ids import clip_ids
from obygaze_features.core.errors import FixInput
from obygaze_features.store import import_features, open_store

IDS = ["-a-1", "b-2"]


def test_a_cell_may_have_several_lines_and_signs_that_end_lines(tmp_path: Path) -> None:
    path = tmp_path / "clips.csv"
    rows = 'note,clip_id\n"one\n\ntwo",-a-1\nthree\u2028four,b-2\n'
    path.write_text(rows, encoding="utf-8", newline="")
    assert clip_ids(path) == IDS


def test_a_list_may_have_one_line_of_any_length(tmp_path: Path) -> None:
    path = tmp_path / "clips.txt"
    path.write_text("x" * 200_000, encoding="utf-8")
    assert clip_ids(path) == ["x" * 200_000]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("clips.csv", "note,clip_id\nn,a\nn\n", "clips.csv:3: expected 2 cells"),
        ("clips.csv", "clip_id;note\n ;n\n", "clips.csv:2: column 'clip_id': is empty"),
        ("clips.csv", f"clip_id\n{'x' * 200_000}\n", r"not valid CSV \(field larger"),
        (
            "clips.csv",
            "film,clip,score\nm,a,1\n",
            "'clip_id': required column is missing",
        ),
        ("clips.txt", "", "this file has no clip ids"),
        ("clips.csv", "clip_id\n\n", "this file has no clip ids"),
    ],
)
def test_files_without_ids_are_refused(tmp_path, name, text, problem) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    for named in (path, str(path)):
        with pytest.raises(FixInput) as caught:
            clip_ids(named)
        told = "\n".join([*caught.value.details, caught.value.message])
        assert re.search(problem, told)


def test_an_empty_list_of_clips_is_not_all_clips(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", clip_id=["a-1", "a-2"], clip=np.ones((2, 3), np.float32))
    import_features("x.npz", "films")
    Path("none.txt").touch()
    words = ("store", "subset", "films", "--clips", "none.txt", "-o", "part")
    failed = call_obygaze(*words)
    assert failed.code == 1 and "this file has no clip ids" in failed.stderr
    assert not Path("stores/part").exists()
    assert len(open_store("films").clip_ids) == 2
