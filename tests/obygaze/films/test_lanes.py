"""Lanes of numbers from tables, of subtitles and of the sound."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cli import call_obygaze
from support.film_pages import ask, film_clips, served, site
from support.videos import write_video

from obygaze.films.lanes import read_lanes
from obygaze_features.core.errors import FixInput, ObygazeError

RATES = {"lake": 25.0, "pond": 24.0, "dark": 0.0}
CLIPS = {"lake-000": ("lake", (0.0, 2.0)), "pond-000": ("pond", (3.0, 4.0))}


def lanes_of(folder: Path, text: str) -> dict[str, Any]:
    path = folder / "numbers.csv"
    path.write_text(text, "utf-8")
    return {lane.name: lane for lane in read_lanes(path, RATES, CLIPS)}


def test_each_column_of_numbers_is_a_lane_with_its_interval(tmp_path: Path) -> None:
    lanes = lanes_of(
        tmp_path,
        "movie_id,start_s,end_s,length,length_low,length_high,note,year\n"
        "lake,2,4,0.5,0.25,0.75,dark,1999\n"
        "lake,0,2,1.5,,2,2,1999\n"
        "pond,0,1,-3,-4,-2,x,\n"
        "sea,0,1,9,9,9,,\n",
    )
    assert list(lanes) == ["length", "year"]
    length = lanes["length"]
    assert length.bars == {
        "lake": [(0.0, 2.0, 1.5, None, 2.0), (2.0, 4.0, 0.5, 0.25, 0.75)],
        "pond": [(0.0, 1.0, -3.0, -4.0, -2.0)],
    }
    # The scale is that of all films that are shown.
    assert (length.low, length.high) == (-4.0, 2.0)
    assert lanes["year"].bars == {
        "lake": [(0.0, 2.0, 1999.0, None, None), (2.0, 4.0, 1999.0, None, None)]
    }


def test_a_table_of_a_french_or_german_program_is_read(tmp_path: Path) -> None:
    text = (
        "movie_id;time_s;luminosité;note\nlake;0,5;10,5;clair, net\nlake;2;-3;1,2,3\n"
    )
    lanes = lanes_of(tmp_path, text)
    assert list(lanes) == ["luminosité"]
    assert lanes["luminosité"].bars == {
        "lake": [(0.5, 2.0, 10.5, None, None), (2.0, 3.5, -3.0, None, None)]
    }
    with pytest.raises(ObygazeError) as caught:
        lanes_of(tmp_path, "movie_id;time_s;x\nLe lac;1;2\n")
    assert "The films are lake, pond" in (caught.value.hint or "")


def test_places_are_frames_moments_or_clips(tmp_path: Path) -> None:
    frames = lanes_of(
        tmp_path, "movie_id,start_frame,end_frame,x\npond,24,47,1\ndark,0,1,2\n"
    )
    assert frames["x"].bars == {"pond": [(1.0, 2.0, 1.0, None, None)]}
    moments = lanes_of(
        tmp_path, "movie_id;time_s;x\nlake;1;1\nlake;0;2\nlake;4;3\npond;7;4\n"
    )
    # The last one holds for the median of 1 and 3 seconds.
    spans = [bar[:3] for bar in moments["x"].bars["lake"]]
    assert spans == [(0.0, 1.0, 2.0), (1.0, 4.0, 1.0), (4.0, 6.0, 3.0)]
    assert moments["x"].bars["pond"] == [(7.0, 8.0, 4.0, None, None)]
    clips = lanes_of(tmp_path, "clip_id,x\npond-000,5\nsea-000,6\nlake-000,\n")
    assert clips["x"].bars == {"pond": [(3.0, 4.0, 5.0, None, None)]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("movie_id,x\nlake,1\n", "does not say where its numbers are"),
        ("movie_id,start_s,end_s,x\nlake,2,1,5\n", "is not after start_s"),
        ("movie_id,time_s,x\nlake,-1,5\n", "not a time in seconds"),
        ("movie_id,start_frame,end_frame,x\nlake,1.5,2,5\n", "frame number"),
        ("movie_id,time_s,x\nlake,1,dark\n", "no column of this table has numbers"),
        ("movie_id,time_s,x\nsea,1,2\n", "no column of this table has numbers"),
        ("movie_id,time_s,x\nlake,1,inf\n", "no column of this table has numbers"),
    ],
)
def test_a_table_that_is_no_lane_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ObygazeError) as caught:
        lanes_of(tmp_path, text)
    assert message in "; ".join([str(caught.value), *caught.value.details])


def test_the_page_sends_lanes_and_subtitles_on_the_axis_of_the_film(
    tmp_path: Path,
) -> None:
    clips = [
        replace(clip, extra={"framerate": "25"}) for clip in film_clips("lake", "a.mp4")
    ]
    (tmp_path / "numbers.csv").write_text("clip_id,x\nlake-001,7\n", "utf-8")
    (tmp_path / "a.srt").write_bytes(
        b"1\r\n00:00:01,000 --> 00:00:02,500\r\n<i>Two &amp; three</i>\r\nlines\r\n\r\n"
        b"2\r\n00:00:08,000 --> 00:00:99,000\r\nlast\r\n\r\n3\r\nno cue\r\n\r\n"
        b"4\r\n00:00:05,000 --> 00:00:05,000\r\nno length\r\n"
    )
    page = site(tmp_path, clips).with_lanes([tmp_path / "numbers.csv"])
    with served(page) as server:
        film = ask(server, "/api/film?film=lake").json()
    bars = [[1.0, 2.0, 7.0, None, None]]
    assert film["numbers"] == [{"name": "x", "low": 7.0, "high": 7.0, "bars": bars}]
    assert film["subtitles"] == [
        {"start": 1.0, "end": 2.5, "text": "Two & three lines"},
        {"start": 8.0, "end": 10.0, "text": "last"},
    ]


def write_sound(path: Path, samples: Any, rate: int) -> None:
    """Write a film of grey pictures, 25 a second, with a sound."""
    import av

    with av.open(str(path), "w") as out:
        pictures = out.add_stream("mpeg4", rate=25)
        pictures.width, pictures.height, pictures.pix_fmt = 64, 48, "yuv420p"
        sound = out.add_stream("pcm_s16le", rate=rate, layout="mono")
        grey = np.full((48, 64, 3), 128, np.uint8)
        for number in range(25 * len(samples) // rate):
            picture = av.VideoFrame.from_ndarray(grey)
            picture.pts, picture.time_base = number, Fraction(1, 25)
            out.mux(pictures.encode(picture))
        out.mux(pictures.encode())
        for start in range(0, len(samples), 400):
            part = av.AudioFrame.from_ndarray(
                samples[None, start : start + 400], format="s16", layout="mono"
            )
            part.sample_rate, part.pts, part.time_base = rate, start, Fraction(1, rate)
            out.mux(sound.encode(part))
        out.mux(sound.encode())


def test_the_loudness_is_that_of_the_samples(tmp_path: Path) -> None:
    rate = 8000
    samples = np.zeros(4 * rate, np.int16)
    samples[rate : rate + 400] = -16384  # half of full scale, from 1 s for 50 ms
    samples[3 * rate + 4000] = 32767  # a click at 3.5 s
    write_sound(tmp_path / "a.mkv", samples, rate)
    page = site(tmp_path, film_clips("lake", "a.mkv", 4))
    with served(page) as server:
        (piece,) = ask(server, "/api/film?film=lake").json()["pieces"]
        loudness = np.frombuffer(ask(server, f"/sound/{piece['key']}").body, np.uint8)
    assert piece["has_sound"]
    assert len(loudness) == 80
    # A part of 50 ms may begin a sample earlier than its step.
    assert loudness[20] == 128 and loudness[70] == 255
    assert set(np.flatnonzero(loudness)) <= {19, 20, 21, 69, 70, 71}


def test_a_film_without_sound_has_no_lane_of_it(tmp_path: Path) -> None:
    write_video(tmp_path / "a.mp4", numbers=range(25))
    page = site(tmp_path, film_clips("lake", "a.mp4", 1))
    with served(page) as server:
        (piece,) = ask(server, "/api/film?film=lake").json()["pieces"]
        assert not piece["has_sound"]
        assert ask(server, f"/sound/{piece['key']}").body == b""


def test_the_command_takes_tables_of_lanes(tmp_path: Path) -> None:
    from obygaze_features.manifest.io import write_manifest

    page = site(tmp_path, film_clips("lake", "", 4))
    write_manifest(page.manifest, tmp_path / "manifests" / "films.toml")
    (tmp_path / "x.csv").write_text("clip_id,x\nlake-001,7\n", "utf-8")
    (tmp_path / "bad.csv").write_text("x\n7\n", "utf-8")
    words = ("view", "films", "--lane", "x.csv", "--export", "page")
    call_obygaze(*words, cwd=tmp_path).ok()
    assert '"name": "x"' in (tmp_path / "page" / "data.js").read_text("utf-8")
    done = call_obygaze(
        "view", "films", "--lane", "bad.csv", "--no-browser", cwd=tmp_path
    )
    assert done.code == FixInput("").exit_code
    assert "does not say where its numbers are" in done.stderr
