"""Segments and clips read strictly: everything wrong with both files is told at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.film import (
    read_inputs,
    read_segments,
    read_spans,
)

from obygaze.films.mark_tables import Segment
from obygaze.films.projection import ClipSpan
from obygaze_features.core.errors import FixInput, NotFound

SEGMENTS = "movie_id,annotator,start_frame,end_frame,level,concepts"
CLIPS = "clip_id,movie_id,start_frame,end_frame"


def segments_file(folder: Path, *rows: str, header: str = SEGMENTS) -> Path:
    path = folder / "segments.csv"
    path.write_text("\n".join((header, *rows)) + "\n", encoding="utf-8")
    return path


def clips_file(folder: Path, *rows: str, header: str = CLIPS) -> Path:
    path = folder / "clips.csv"
    path.write_text("\n".join((header, *rows)) + "\n", encoding="utf-8")
    return path


def told_of_segments(path: Path) -> list[str]:
    with pytest.raises(FixInput) as caught:
        read_segments(path)
    return [line.removeprefix(f"{path}:") for line in caught.value.details]


def told_of_clips(path: Path) -> list[str]:
    with pytest.raises(FixInput) as caught:
        read_spans(path)
    return [line.removeprefix(f"{path}:") for line in caught.value.details]


def test_rows_in_the_order_of_the_file(
    tmp_path: Path,
) -> None:
    path = segments_file(
        tmp_path,
        'tt1,Anna,5,9,S,Body| Exp of  emotion,"a, comment"',
        "tt1,Anna,0,0,EN,,",
        "",
        header=SEGMENTS + ",comment",
    )
    assert read_segments(path) == (
        Segment("tt1", "Anna", 5, 9, "S", ("Body", "Exp of emotion"), "a, comment"),
        Segment("tt1", "Anna", 0, 0, "EN"),
    )


def test_every_violation_of_the_segments_at_once(tmp_path: Path) -> None:
    path = segments_file(
        tmp_path,
        "m,A,0,9,Sx,",
        "m,A,9,8,S,",
        ",A,-1,8,S,",
        "m, A,1.5,8.0,XX,Body||Look",
        "m,A,0,9,S,\"['Body', 'Look']\"",
        "m,A,0,9",
    )
    assert told_of_segments(path) == [
        "7: expected 6 cells as in the header, got 4",
        "2: column 'level': 'Sx' is not one of EN, HN, NS, S",
        "5: column 'level': 'XX' is not one of EN, HN, NS, S",
        "3: column 'end_frame': the end 8 is before the start 9",
        "5: column 'end_frame': '8.0' is not a frame number (whole, from 0)",
        "4: column 'movie_id': '' is not a name without blanks around it",
        "4: column 'start_frame': '-1' is not a frame number (whole, from 0)",
        "5: column 'start_frame': '1.5' is not a frame number (whole, from 0)",
        "6: column 'concepts': \"['Body', 'Look']\" is a list; join concepts with '|'",
    ]


def test_every_violation_of_the_clips_at_once(tmp_path: Path) -> None:
    path = clips_file(
        tmp_path, "c1,m,0,9", "c2,m,10,9", "c1,m,10,19", ",m,0,x", "c1,m,1,2"
    )
    assert told_of_clips(path) == [
        "3: column 'end_frame': the end 9 is before the start 10",
        "5: column 'end_frame': 'x' is not a frame number (whole, from 0)",
        "4: column 'clip_id': 'c1' is already on line 2 (2 times)",
        "5: column 'clip_id': '' is not a name without blanks around it",
    ]


def test_clips_of_one_frame_and_clips_that_share_frames_are_fine(
    tmp_path: Path,
) -> None:
    path = clips_file(tmp_path, "c1,m,0,9", "c2,m,9,9")
    spans = read_spans(path)
    assert spans == (ClipSpan("c1", "m", 0, 9), ClipSpan("c2", "m", 9, 9))
    assert [span.n_frames for span in spans] == [10, 1]


def test_a_table_that_excel_wrote(tmp_path: Path) -> None:
    path = tmp_path / "segments.csv"
    path.write_text(
        f"{SEGMENTS}\r\nm,A,0,9,S,\r\n".replace(",", ";"), encoding="utf-8-sig"
    )
    assert read_segments(path) == (Segment("m", "A", 0, 9, "S"),)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "1: the file is empty"),
        (SEGMENTS.encode() + b"\n", " the table has no segments"),
        (
            SEGMENTS.encode() + b"\nm,Andr\x8e,0,9,S,\n",
            "2: byte 0x8E at position 7 is not UTF-8",
        ),
        (
            b"film,annotator,start_frame,end_frame,level,concepts\n",
            "1: column 'movie_id': required",
        ),
    ],
)
def test_files_that_are_not_such_tables(tmp_path: Path, data: bytes, told: str) -> None:
    path = tmp_path / "segments.csv"
    path.write_bytes(data)
    assert told_of_segments(path)[0].startswith(told)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read_inputs(tmp_path / "no.csv", tmp_path / "no.csv")


@pytest.mark.parametrize("command", ["project", "agree"])
def test_the_commands_list_violations_and_print_no_result(
    tmp_path: Path, command: str
) -> None:
    segments = segments_file(tmp_path, "m,A,0,9,XX,", "m,A,9,0,S,")
    spans = clips_file(tmp_path, "c1,m,0,9")
    result = call_obygaze("manifest", command, segments, "--clips", spans, "--json")
    assert (result.code, result.stdout) == (1, "")
    lines = json.loads(result.stderr)["error"]["details"]
    assert lines[0] == f"{segments}:2: column 'level': 'XX' is not one of EN, HN, NS, S"
    assert lines[1].startswith(f"{segments}:3: column 'end_frame'")
    assert len(lines) == 2


def test_view_asks_for_the_frame_rate_where_it_can_be_written(tmp_path: Path) -> None:
    """It named --fps, an option that `view` does not have."""
    folder = tmp_path / "manifests"
    folder.mkdir()
    manifest = 'schema = "obygaze-manifest/1"\ndataset = "films"\n[concepts]\n'
    (folder / "films.toml").write_text(manifest, "utf-8")
    columns = "clip_id,movie_id,scene,video,start_s,end_s,level,concepts"
    (folder / "films.csv").write_text(f"{columns}\na,lake,1,,0,10,S,\n", "utf-8")
    header = "movie_id,annotator,start_s,end_s,level,concepts"
    segments_file(tmp_path, "lake,ada,0,5,S,Look", header=header)
    words = ("view", "films", "--segments", "segments.csv", "--export", "page")
    refused = call_obygaze(*words, cwd=tmp_path)
    assert (refused.code, refused.stderr) == (
        2,
        "Error: the frame rate of the film lake is not known\n"
        "  Try: write it in a column framerate of the table\n",
    )
    row = "lake,ada,0,5,S,Look,25"
    segments_file(tmp_path, row, header=f"{header},framerate")
    call_obygaze(*words, cwd=tmp_path).ok()
    # As `project` and `agree` do, it takes the name of a manifest, too.
    imported = ("manifest", "import", "segments.csv", "--as", "marks", "-o", "marks")
    call_obygaze(*imported, cwd=tmp_path).ok()
    of_manifest = ("view", "marks", "--segments", "marks", "--export", "other")
    call_obygaze(*of_manifest, cwd=tmp_path).ok()
    shown = (tmp_path / "other/data.js").read_text("utf-8")
    assert '"segments": [{"movie_id": "lake", "annotator": "ada"' in shown


@pytest.mark.parametrize("content", ['<?xml version="1.0"?><A/>', "WEBVTT\n\n"])
def test_a_file_of_marks_that_is_no_table_is_told_its_import(
    tmp_path: Path, content: str
) -> None:
    name = "my film.eaf" if content.startswith("<") else "my film.vtt"
    (tmp_path / name).write_text(content, "utf-8")
    words = ("manifest", "project", name, "--every", "2")
    told = call_obygaze(*words, cwd=tmp_path).stderr
    assert f"{name}:1: this is no table: the file is " in told
    assert f"Try: obygaze manifest import '{name}' -o NAME" in told


def test_concepts_without_a_level_are_not_time_that_was_watched(tmp_path: Path) -> None:
    header = f"{SEGMENTS},comment"
    path = segments_file(tmp_path, "m,A,0,9,,,watched", header=header)
    (segment,) = read_segments(path)
    assert segment.is_watched
    path = segments_file(tmp_path, "m,A,0,9,,Look,watched", header=header)
    assert "'' is not one of EN, HN, NS, S" in told_of_segments(path)[0]
