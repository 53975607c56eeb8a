"""The ids of clips in files: what other programs wrote, and files without any."""

import re
from pathlib import Path

import pytest

from obygaze_features.core.clip_ids import clip_ids
from obygaze_features.core.errors import FixInput

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
