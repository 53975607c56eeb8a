"""Frame rates that are read from a film, where nobody names them."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.videos import write_video

from obygaze.films.film_segments import video_rate
from obygaze_features.manifest import read_manifest

NTSC = Fraction(1001, 24000)


@pytest.fixture
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "films").mkdir()
    write_video(tmp_path / "films/lake.mp4", numbers=range(48), tick=NTSC)
    return tmp_path


@pytest.fixture
def linked(inside):
    """A manifest of two clips of a film of 23.976 pictures a second, with a video."""
    rows = "a-1,lake,0.0,1.0,EN\na-2,lake,1.0,2.0,S\n"
    Path("clips.csv").write_text(
        f"clip_id,movie_id,start_s,end_s,level\n{rows}", encoding="utf-8"
    )
    call_obygaze("manifest", "import", "csv", "clips.csv", "-o", "marks").ok()
    call_obygaze("manifest", "link", "marks", "films").ok()
    return inside


def test_the_rate_is_that_of_the_video(inside):
    assert video_rate(inside / "films/lake.mp4") == 1 / NTSC
    uneven = [*range(20), *range(40, 60)]
    write_video(inside / "uneven.mp4", numbers=range(40), ticks=uneven)
    assert video_rate(inside / "uneven.mp4") is None
    assert video_rate(inside / "none.mp4") is None


def test_an_export_takes_the_rate_of_the_linked_video(linked):
    # https://www.w3.org/TR/webvtt1/: clips begin and end where frames of the film do.
    call_obygaze("manifest", "export", "vtt", "marks", "-o", "own").ok()
    call_obygaze(
        "manifest", "export", "vtt", "marks", "-o", "named", "--fps", "23.976"
    ).ok()
    own = Path("own/lake.vtt").read_text(encoding="utf-8")
    assert own == Path("named/lake.vtt").read_text(encoding="utf-8")
    Path("films/lake.mp4").unlink()
    refused = call_obygaze("manifest", "export", "vtt", "marks", "-o", "other")
    assert refused.code == 2
    assert "the frame rate of the film lake is not known" in refused.stderr
    assert "Try: --fps 24, or that of the film" in refused.stderr


def test_a_video_that_was_replaced_has_its_own_rate(inside):
    """The rate was that of the file before, as long as the program ran."""
    for rate in (24, 30):
        tick = Fraction(1, rate)
        write_video(Path("lake.mp4"), numbers=range(rate), tick=tick, rate=rate)
        assert video_rate(Path("lake.mp4")) == rate


def test_an_import_takes_the_rate_of_the_video_beside_the_elan_file(linked):
    call_obygaze("manifest", "export", "elan", "marks", "-o", "films").ok()
    words = ("manifest", "import", "segments", "films/lake.eaf", "-o", "read")
    done = call_obygaze(*words).ok()
    assert "lake: 23.976 frames per second, as its video" in done.stderr
    rates = {clip.extra["framerate"] for clip in read_manifest("read")}
    assert rates == {"23.976"}
    Path("alone").mkdir()
    Path("films/lake.eaf").rename("alone/lake.eaf")
    refused = call_obygaze(
        "manifest", "import", "segments", "alone/lake.eaf", "-o", "again"
    )
    assert refused.code == 2
    assert "lake.mp4 is not beside it, or cannot be read" in refused.stderr
    assert "--fps 25, or that of the film" in refused.stderr


def test_other_files_of_segments_need_the_rate(inside):
    Path("lake.vtt").write_text("WEBVTT\n\n00:01.000 --> 00:02.000\nS\n", "utf-8")
    refused = call_obygaze("manifest", "import", "segments", "lake.vtt", "-o", "x")
    assert (refused.code, "the frame rate is not known" in refused.stderr) == (2, True)


def test_marks_behind_the_end_of_the_video_are_refused(linked):
    """A film of 48 pictures, 2 seconds, got a mark up to picture 99999."""
    marks = "movie_id,annotator,start_frame,end_frame,level,framerate\n"
    Path("own.csv").write_text(f"{marks}lake,ada,0,99999,S,23.976\n", "utf-8")
    # Without a video nobody knows the end of the film.
    call_obygaze("manifest", "import", "segments", "own.csv", "-o", "own").ok()
    words = ("manifest", "export", "elan", "own.csv", "-o", "films")
    call_obygaze(*words).ok()
    problem = "the last picture of lake is 47, not 99999"
    text = Path("films/lake.eaf").read_text("utf-8")
    media = '<MEDIA_DESCRIPTOR MEDIA_URL="lake.mp4" MIME_TYPE="video/mp4"/></HEADER>'
    changed, n_changed = re.subn("(<HEADER[^>]*)/>", rf"\1>{media}", text)
    assert n_changed == 1
    Path("films/lake.eaf").write_text(changed, "utf-8")
    refused = call_obygaze(
        "manifest", "import", "segments", "films/lake.eaf", "-o", "x"
    )
    assert refused.code == 1
    assert problem in refused.stderr
    call_obygaze("manifest", "link", "own", "films").ok()
    for words in (
        ("export", "vtt", "own", "-o", "out"),
        ("project", "own", "--every", "1"),
        ("project", "own.csv", "--clips", "marks"),
        ("agree", "own.csv", "--clips", "marks"),
    ):
        refused = call_obygaze("manifest", *words)
        assert refused.code == 1
        assert problem in refused.stderr


def test_marks_counted_at_another_rate_than_the_linked_video_are_refused(linked):
    """Marks of a copy of 24 pictures a second were put on clips of one of 23.976."""
    marks = "movie_id,annotator,start_frame,end_frame,level,framerate\n"
    Path("own.csv").write_text(f"{marks}lake,ada,0,9,S,24\n", "utf-8")
    problem = "the pictures of lake are counted at 24 per second, its video has 23.976"
    refused = call_obygaze("manifest", "project", "own.csv", "--clips", "marks")
    assert refused.code == 1
    assert problem in refused.stderr
    call_obygaze("manifest", "import", "segments", "own.csv", "-o", "own").ok()
    call_obygaze("manifest", "link", "own", "films").ok()
    refused = call_obygaze("manifest", "export", "vtt", "own", "-o", "out")
    assert refused.code == 1
    assert "24 per" in refused.stderr or "24 pictures per" in refused.stderr
    assert "23.976" in refused.stderr
