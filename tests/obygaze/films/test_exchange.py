"""Segments in the files of other programs, read back by those programs' own libraries."""

from __future__ import annotations

import html
import http.server
import itertools
import json
import re
import shlex
import subprocess
import threading
import warnings
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from support.cli import call_obygaze
from support.run_tables import (
    MANIFEST,
    MadeCell,
    clips_of,
    labels_of,
    made_run,
    scores_for,
)
from support.servers import need_program

from obygaze.films.exchange import (
    exported_files,
    films_of,
    import_segments,
)
from obygaze.films.formats import export_manifest
from obygaze.films.mark_tables import FilmSegments, Segment, concept_of, read_marks
from obygaze_features.core.errors import (
    FixInput,
    FixUsage,
    Mismatch,
    ObygazeWarning,
)
from obygaze_features.manifest.adapters.csv_table import read as read_table
from obygaze_features.manifest.frame_rate import frame_rate
from obygaze_features.manifest.io import read_manifest, write_manifest
from obygaze_features.manifest.listing import titles_of
from obygaze_features.manifest.model import Clip, Header, Manifest, Windows
from obygaze_features.manifest.times import film_rate, frames_between
from obygaze_features.manifest.windows import CutFilm, Grid

# The rates as players show them, and what they stand for.
RATES = {
    "23.976": Fraction(24000, 1001),
    "24": Fraction(24),
    "25": Fraction(25),
    "29.97": Fraction(30000, 1001),
    "59.94": Fraction(60000, 1001),
}
# ELAN names its schema in each file.
XSI = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
DOCUMENT = f'<ANNOTATION_DOCUMENT {XSI} xsi:noNamespaceSchemaLocation="x">'
COMMENT = 'a < b & "c" --> d'
SEGMENTS = f"""movie_id,annotator,start_frame,end_frame,level,concepts,comment
lake,ada,0,99,EN,,
lake,ada,100,149,S,Look|Body,"{COMMENT.replace('"', '""')}"
lake,ada,140,299,HN,Clothing,
lake,ben,0,119,EN,,
lake,ben,120,299,NS,Look|our own & odd,only
"""
Row = tuple[str, int, int, str, tuple[str, ...], str]


def rows_of(path: Path) -> list[Row]:
    """The segments in a manifest, without their ids."""
    return sorted(
        (
            clip.extra["annotator"],
            int(clip.extra["start_frame"]),
            int(clip.extra["end_frame"]),
            clip.level,
            clip.concepts,
            clip.extra["comment"],
        )
        for clip in read_manifest(path)
    )


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "lake.csv").write_text(SEGMENTS, encoding="utf-8")
    made = call_obygaze(
        *(
            "manifest",
            "import",
            "lake.csv",
            "--as",
            "marks",
            "--fps",
            "23.976",
            "-o",
            "marks",
        ),
        cwd=tmp_path,
    )
    assert made.code == 0, made.stderr
    return tmp_path


def exported(workspace: Path, kind: str, name: str = "marks", *more: str) -> Path:
    done = call_obygaze(
        "manifest", "export", name, "out", "--as", kind, *more, "--json", cwd=workspace
    )
    assert done.code == 0, done.stderr
    (path,) = json.loads(done.stdout)["written"]
    return workspace / path


@pytest.mark.parametrize("shown", RATES)
def test_every_frame_has_a_millisecond_that_shows_it_and_is_found_again(
    shown: str,
) -> None:
    fps = frame_rate(shown)
    assert fps == RATES[shown]
    film = FilmSegments("film", fps, None)
    # Every frame of the first minutes, then some of each minute of three hours.
    for frame in chain(range(4000), range(4000, round(10800 * fps), 211)):
        ms = film.ms(frame)
        assert ms * fps // 1000 == frame
        assert (ms - 1) * fps / 1000 < frame
        assert frames_between(
            Fraction(ms, 1000), Fraction(film.ms(frame + 1), 1000), fps
        ) == (
            frame,
            frame,
        )


@pytest.mark.parametrize("shown", RATES)
@pytest.mark.parametrize("kind", ["elan", "vtt"])
def test_files_keep_frames_at_every_rate(kind: str, shown: str, tmp_path: Path) -> None:
    starts = [*range(0, 60), *range(171_000, 171_060), *range(640_000, 640_020)]
    segments = [
        Segment("film", "ada", first, first, "S", ("Body",)) for first in starts
    ]
    (path, data), *_ = exported_files(
        [FilmSegments("film", RATES[shown], None, segments)], kind, tmp_path
    ).items()
    path.write_bytes(data)
    clips = import_segments([path], "again", float(shown)).manifest
    found = [(int(c.extra["start_frame"]), int(c.extra["end_frame"])) for c in clips]
    assert found == [(first, first) for first in starts]
    rates = {frame_rate(clip.extra["framerate"]) for clip in clips}
    assert rates == {RATES[shown]}
    assert clips.clips[50].start_s == float(50 / RATES[shown])


def test_elan_is_read_by_pympi(workspace: Path) -> None:
    pympi = pytest.importorskip("pympi")
    document = pympi.Eaf(str(exported(workspace, "elan")))
    # 100 frames at 24000/1001 end at 4170.83 ms, 150 at 6256.25 ms.
    assert document.get_annotation_data_for_tier("ada") == [
        (0, 4171, "EN"),
        (4171, 6257, "S"),
    ]
    assert document.get_annotation_data_for_tier("ada #2") == [(5840, 12513, "HN")]
    assert [
        one[2] for one in document.get_annotation_data_for_tier("ada concepts")
    ] == [
        "Look",
        "Body",
    ]
    assert document.get_annotation_data_for_tier("ada comments")[0][2] == COMMENT
    assert document.get_parameters_for_tier("ada #2")["ANNOTATOR"] == "ada"
    entries = document.get_cv_entries("concept").values()
    values = [value for ((value, _, _),), _ in entries]
    assert values[0] == "Type of shot"
    assert values[-1] == "our own & odd"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            '<!DOCTYPE a [<!ENTITY x "y">]><ANNOTATION_DOCUMENT>&x;</ANNOTATION_DOCUMENT>',
            "type",
        ),
        ("<ANNOTATION_DOCUMENT>", "not a file of ELAN"),
        ("<ANNOTATION_DOCUMENT/>", "noNamespaceSchemaLocation is missing"),
        (f"{DOCUMENT}</ANNOTATION_DOCUMENT>", "no annotation has times"),
    ],
)
def test_elan_that_is_refused(text: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "lake.eaf"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FixInput, match=what):
        import_segments([path], "lake", 25)


def test_subtitles_become_comments(tmp_path: Path) -> None:
    path = tmp_path / "lake.vtt"
    lines = [
        "WEBVTT",
        "",
        "NOTE x",
        "",
        "00:01.000 --> 00:02.000 line:0",
        "<i>Hello</i>",
        "you",
        "",
        "00:02.000 --> 00:03.000",
        "Sure",
    ]
    lines += ["", "two", "01:00:00.000 --> 01:00:00.040", "<v.loud Ann>A&amp;B</v>", ""]
    path.write_bytes("\r\n".join(lines).encode())
    first, third, second = import_segments([path], "lake", 25).manifest.clips
    # What is said in a film is no level, though it be the word of one.
    assert (third.level, third.extra["comment"]) == ("", "Sure")
    assert (first.extra["annotator"], first.extra["comment"]) == ("cue", "Hello you")
    assert (first.extra["start_frame"], first.extra["end_frame"]) == ("25", "49")
    assert (second.extra["annotator"], second.extra["comment"]) == ("Ann", "A&B")
    assert (second.extra["start_frame"], second.extra["end_frame"]) == (
        "90000",
        "90000",
    )


def test_a_cue_of_several_voices_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lake.vtt"
    cue = "-- <v Ann>Hi <v Bob>Oh <v Ann>there"
    path.write_text(f"WEBVTT\n\n00:01.000 --> 00:02.000\n{cue}\n")
    with pytest.raises(FixInput, match="has several voices, expected one"):
        import_segments([path], "lake", 25)


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.check("opens a browser")
@pytest.mark.timeout(180)
def test_chromium_reads_the_cues_of_its_own_track(workspace: Path) -> None:
    program = need_program("chromium")
    exported(workspace, "vtt")
    page = """<video><track default src="out/lake.vtt"></video><pre></pre><script>
    const track = document.querySelector("track")
    track.onload = () => document.querySelector("pre").textContent = JSON.stringify(
      [...track.track.cues].map(cue => [cue.startTime, cue.endTime,
        cue.getCueAsHTML().textContent, cue.getCueAsHTML().querySelector("span").title]))
    </script>"""
    (workspace / "page.html").write_text(page, encoding="utf-8")
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Silent, directory=str(workspace))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        done = subprocess.run(
            [
                *(program, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"),
                *(
                    "--virtual-time-budget=4000",
                    f"--user-data-dir={workspace / 'profile'}",
                ),
                f"http://127.0.0.1:{server.server_port}/page.html",
            ],
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=True,
        )
    finally:
        server.shutdown()
        server.server_close()
    # A browser has the longer of two cues first.
    shown = html.unescape(done.stdout.partition("<pre>")[2].partition("</pre>")[0])
    cues = sorted(json.loads(shown))
    assert [cue[:3] for cue in cues[:3]] == [
        [0, 4.171, "EN"],
        [0, 5.005, "EN"],
        [4.171, 6.257, f"S Look Body {COMMENT}"],
    ]
    assert [cue[3] for cue in cues] == ["ada", "ben", "ada", "ben", "ada"]


def test_labels_and_predictions_of_clips_are_exported_with_the_times_in_the_film(
    tmp_path: Path,
) -> None:
    (tmp_path / "clips.csv").write_text(
        "clip_id,movie_id,start_s,end_s,level,concepts\n"
        "lake-1,lake,0,2,EN,\nlake-2,lake,2,4,S,Body\nlake-3,lake,,,S,\n",
        encoding="utf-8",
    )
    (tmp_path / "like.csv").write_text(
        "clip_id,movie_id,cosine\nlake-2,lake,0.5\n", encoding="utf-8"
    )
    (tmp_path / "predicted.csv").write_text(
        "clip_id,basis,decision,p:S\nlake-1,unseen,S,0.75\n", encoding="utf-8"
    )
    assert call_obygaze("manifest", "import", "clips.csv", cwd=tmp_path).code == 0
    done = call_obygaze(
        *("manifest", "export", "clips", ".", "--as", "vtt", "--fps", "25"),
        cwd=tmp_path,
    )
    assert done.code == 0, done.stderr
    assert "1 clip without times: lake-3" in done.stderr
    text = (tmp_path / "lake.vtt").read_text("utf-8")
    assert "00:00:00.000 --> 00:00:02.000\n<v clips><c.level>EN</c></v>" in text
    second = "<v clips><c.level>S</c> <c.concept>Body</c></v>"
    assert f"00:00:02.000 --> 00:00:04.000\n{second}" in text
    for table, cue in {
        "like.csv": "02.000 --> 00:00:04.000\n<v like><c.comment>cosine 0.5</c></v>",
        "predicted.csv": "00.000 --> 00:00:02.000\n<v predicted><c.level>S</c>"
        " <c.comment>unseen, p:S 0.75</c></v>",
    }.items():
        more = ("--predictions", table, "--fps", "25")
        assert cue in exported(tmp_path, "vtt", "clips", *more).read_text("utf-8")
        (tmp_path / "out" / "lake.vtt").unlink()
    unknown = call_obygaze(
        "manifest", "export", "clips", ".", "--as", "vtt", cwd=tmp_path
    )
    assert unknown.code == 2
    assert "--fps lake=25" in unknown.stderr


def test_elan_links_the_video_of_the_film(workspace: Path) -> None:
    (workspace / "videos").mkdir()
    (workspace / "videos/lake.mp4").touch()
    assert call_obygaze("manifest", "link", "marks", "videos", cwd=workspace).code == 0
    root = ElementTree.parse(exported(workspace, "elan")).getroot()
    media = root.find("HEADER/MEDIA_DESCRIPTOR")
    assert media is not None
    assert media.get("MEDIA_URL") == (workspace / "videos/lake.mp4").resolve().as_uri()
    # The file is in the folder `out`, from where the program looks for the video.
    assert media.get("RELATIVE_MEDIA_URL") == "../videos/lake.mp4"
    words = ("manifest", "export", "marks", "videos", "--as", "elan")
    call_obygaze(*words, cwd=workspace).ok()
    root = ElementTree.parse(workspace / "videos" / "lake.eaf").getroot()
    media = root.find("HEADER/MEDIA_DESCRIPTOR")
    assert media is not None
    assert media.get("RELATIVE_MEDIA_URL") == "./lake.mp4"


def test_concepts_have_the_names_of_the_papers() -> None:
    assert concept_of("type of plan") == "Type of shot"
    assert concept_of(" a|b ") == "a/b"


def test_annotators_without_a_letter_of_ascii_still_have_ids(tmp_path: Path) -> None:
    path = tmp_path / "lake.vtt"
    cue = "<v 山田><c.level>S</c></v>"
    path.write_text(f"WEBVTT\n\n00:00.000 --> 00:01.000\n{cue}\n", encoding="utf-8")
    made = import_segments([path], "lake", 25).manifest
    write_manifest(made, tmp_path / "lake.toml")
    films, _ = films_of(read_manifest(tmp_path / "lake.toml"))
    assert films[0].segments[0].annotator == "山田"


SHOTS = """Scene Number,Start Frame,End Frame
1,1,24
2,25,48
"""


def test_subtitles_in_latin_1_are_refused_with_their_line(tmp_path: Path) -> None:
    cues = "WEBVTT\n\n00:01.000 --> 00:02.000\nAndré\n"
    path = tmp_path / "lake.vtt"
    path.write_bytes(cues.encode("latin-1"))
    with pytest.raises(FixInput, match="byte 0xE9 is not UTF-8") as caught:
        import_segments([path], "cues", 24)
    assert caught.value.where == f"{path}:4"
    path.write_bytes(cues.encode())
    (clip,) = import_segments([path], "cues", 24).manifest
    assert clip.extra["comment"] == "André"


@pytest.mark.parametrize(
    "time", ["00:01:99.000", "00:75:00.000", "0:01:02.000", "00:01:02"]
)
def test_a_cue_whose_times_are_wrong_is_not_left_out(tmp_path: Path, time: str) -> None:
    path = tmp_path / "lake.vtt"
    path.write_text(
        f"WEBVTT\n\n{time} --> 00:59:59.000\nS\n\n00:01.000 --> 00:02.000\nS\n"
    )
    with pytest.raises(FixInput, match=f"got '{time} --> 00:59:59.000'"):
        import_segments([path], "cues", 24)


def test_a_cue_that_ends_before_it_begins_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lake.vtt"
    path.write_text("WEBVTT\n\n00:05.000 --> 00:02.000\nS\n")
    with pytest.raises(FixInput, match="ends before it begins"):
        import_segments([path], "cues", 24)


def test_lines_of_vtt_may_end_with_a_carriage_return(tmp_path: Path) -> None:
    path = tmp_path / "lake.vtt"
    cue = b"<c.level>S</c>"
    path.write_bytes(b"WEBVTT\r\r00:01.000 --> 00:02.000\r" + cue + b"\r")
    (clip,) = import_segments([path], "cues", 24).manifest
    assert (clip.start_s, clip.end_s, clip.level) == (1.0, 2.0, "S")


def test_a_table_is_not_imported_at_another_rate_than_its_own(tmp_path: Path) -> None:
    path = tmp_path / "lake.csv"
    path.write_text(
        "movie_id,annotator,start_frame,end_frame,level,framerate\n"
        "lake,ada,0,239,S,24\nlake,ada,240,479,S,\n"
    )
    clips = import_segments([path], "marks", "24").manifest
    assert [clip.end_s for clip in clips] == [10.0, 20.0]
    with pytest.raises(FixInput, match="1 problem") as caught:
        import_segments([path], "marks", "25")
    expected = "24 is not the rate given by --fps; leave out --fps"
    assert expected in caught.value.details[0]


def test_a_table_of_what_was_watched_may_have_lost_all_its_rows(tmp_path: Path) -> None:
    """All that was watched was taken back: the marks beside it could not be imported any more."""
    header = "movie_id,annotator,start_frame,end_frame,level,concepts,framerate\n"
    marks = tmp_path / "films.ada.csv"
    marks.write_text(f"{header}lake,ada,100,199,S,Look,25\n")
    (tmp_path / "films.ada.watched.csv").write_text(header)
    clip, seen = import_segments([marks], "ada").manifest
    assert (clip.start_s, clip.end_s) == (seen.start_s, seen.end_s) == (4.0, 8.0)
    assert (clip.level, seen.level, seen.extra["comment"]) == ("S", "", "watched")
    marks.write_text(header)
    with pytest.raises(FixInput) as caught:
        import_segments([marks], "ada")
    assert list(caught.value.details) == [f"{marks}: the table has no segments"]


def test_scores_in_subtitles_have_four_digits(tmp_path: Path) -> None:
    clip = Clip("a", "lake", None, "", 0.0, 1.0, extra={"framerate": "25"})
    films = Manifest("films", Header("a test", {}), (clip,), ("framerate",))
    path = tmp_path / "similar.csv"
    path.write_text("clip_id,cosine\na,0.9997898209325871\n")
    ((film,), _) = films_of(films, path)
    assert film.segments[0].comment == "cosine 0.9998"


def test_a_table_without_rates_asks_for_them(tmp_path: Path) -> None:
    path = tmp_path / "lake.csv"
    path.write_text("movie_id,annotator,start_frame,end_frame,level\nlake,ada,0,9,S\n")
    with pytest.raises(FixUsage, match="the frame rate of the film lake is not known"):
        import_segments([path], "marks")


def test_time_that_was_watched_alone_is_nothing_to_export(tmp_path: Path) -> None:
    path = tmp_path / "lake.csv"
    header = "movie_id,annotator,start_frame,end_frame,level\n"
    path.write_text(f"{header}lake,ada,0,239,watched\n")
    words = ("manifest", "import", path, "--as", "marks", "--fps", "24", "-o", "seen")
    call_obygaze(*words, cwd=tmp_path).ok()
    refused = call_obygaze(
        "manifest", "export", "seen", ".", "--as", "vtt", cwd=tmp_path
    )
    assert refused.code == 1
    assert "only time that was watched" in refused.stderr


def test_a_cue_may_be_empty(tmp_path: Path) -> None:
    path = tmp_path / "lake.vtt"
    path.write_text(
        "WEBVTT\n\nintro\n00:01.000 --> 00:02.000\n\n"
        "00:03.000 --> 00:04.000\n<c.level>S</c>\n"
    )
    clips = import_segments([path], "cues", 24).manifest
    assert [(clip.start_s, clip.level) for clip in clips] == [(1.0, ""), (3.0, "S")]


CLIPS_WITH_FILES = """clip_id,movie_id,level,start_s,end_s,framerate
lake-001,lake,S,0,10,24
lake-002,lake,HN,10,20,24
"""


def test_files_of_single_clips_are_not_named_as_the_film(tmp_path: Path) -> None:
    (tmp_path / "clips.csv").write_text(CLIPS_WITH_FILES)
    call_obygaze("manifest", "import", "clips.csv", "-o", "films", cwd=tmp_path).ok()
    (tmp_path / "cut").mkdir()
    for clip in ("lake-001", "lake-002"):
        (tmp_path / f"cut/{clip}.mp4").touch()
    call_obygaze("manifest", "link", "films", "cut", cwd=tmp_path).ok()
    (linked,) = {
        clip.video for clip in read_manifest(tmp_path / "manifests/films.toml")
    } - {"lake-002.mp4"}
    assert linked == "lake-001.mp4"
    call_obygaze(
        "manifest", "export", "films", "out", "--as", "elan", cwd=tmp_path
    ).ok()
    (path,) = (tmp_path / "out").iterdir()
    assert "lake-001.mp4" not in path.read_text()


def test_clips_of_a_film_with_two_rates_are_refused(tmp_path: Path) -> None:
    (tmp_path / "clips.csv").write_text(CLIPS_WITH_FILES.replace("20,24", "20,25"))
    call_obygaze("manifest", "import", "clips.csv", "-o", "films", cwd=tmp_path).ok()
    done = call_obygaze("manifest", "export", "films", ".", "--as", "vtt", cwd=tmp_path)
    assert done.code == 1
    assert "clips of the film lake have several frame rates: 24 and 25" in done.stderr


def test_a_rate_that_contradicts_the_manifest_is_refused(tmp_path: Path) -> None:
    rows = "clip_id,movie_id,start_s,end_s,level,framerate\n"
    rows += "a-1,a,0,2,S,23.976\nb-1,b,0,2,S,\n"
    (tmp_path / "clips.csv").write_text(rows)
    words = ("manifest", "import", "clips.csv", "-o", "films")
    call_obygaze(*words, cwd=tmp_path).ok()
    words = ("manifest", "export", "films", "out", "--as", "vtt", "--fps")
    refused = call_obygaze(*words, "25", cwd=tmp_path)
    assert refused.code == 2
    assert (
        "--fps 25 is not the rate of the film a: its manifest has 23.976"
        in refused.stderr
    )
    call_obygaze(*words, "23.98", cwd=tmp_path).ok()
    refused = call_obygaze(*words, "fast", "--force", cwd=tmp_path)
    assert "expected frames per second, got 'fast'" in refused.stderr


@pytest.mark.parametrize(
    ("extra", "hint"),
    [({"framerate": "25 fps"}, "correct the column framerate"), ({}, "--fps a=25")],
)
def test_a_frame_rate_that_is_not_known_is_corrected_where_it_was_given(
    extra: dict[str, str], hint: str
) -> None:
    clips = (Clip("a-1", "a", level="S", start_s=0.0, end_s=1.0, extra=extra),)
    with pytest.raises((FixInput, FixUsage)) as caught:
        films_of(Manifest("m", Header("made up"), clips), fps=None)
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize("kind", ["elan", "vtt"])
def test_clips_with_concepts_and_without_a_level_are_exported(
    tmp_path: Path, kind: str
) -> None:
    """They were left out without a word; of a table without levels it said that none had any."""
    rows = [("a-1", "", ("Look", "Body")), ("a-2", "S", ()), ("a-3", "", ())]
    clips = []
    for number, (name, level, concepts) in enumerate(rows):
        clip = Clip(name, "a", number, "", 10.0 * number, 10.0 * number + 10, level)
        clips.append(replace(clip, concepts=concepts))
    header = Header("films", dict.fromkeys(("Look", "Body"), "visual"))
    manifest = Manifest("films", header, clips)
    (path,) = export_manifest(manifest, tmp_path, format=kind, fps=25).files
    again = import_segments([path], "again", 25).manifest
    assert [(clip.start_s, clip.level, clip.concepts) for clip in again] == [
        (0.0, "", ("Look", "Body")),
        (10.0, "S", ()),
    ]


def films_for_predictions() -> Manifest:
    more = {"framerate": "25"}
    clips = [
        Clip(f"a-{n}", "a", None, "", 10.0 * n, 10.0 * n + 10, extra=more)
        for n in range(3)
    ]
    return Manifest("films", Header("a test", {}), clips, ("framerate",))


@pytest.mark.parametrize("kind", ["elan", "vtt", "csv"])
def test_a_film_keeps_its_name_as_title_and_is_named_once(
    kind: str, tmp_path: Path
) -> None:
    """Of files of two annotators with the names of films, each film was named twice."""
    id_of_film = {"Été 1974": "Ete_1974", "Lake": "Lake", "Żona #2": "Zona_2"}
    paths = []
    for annotator in ("ada", "ben"):
        folder = tmp_path / annotator
        folder.mkdir()
        for name in id_of_film:
            segment = Segment(name, annotator, 0, 9, "S", ("Look",))
            film = FilmSegments(name, Fraction(25), None, [segment])
            files = {}
            if kind == "csv":
                header = "movie_id,annotator,start_frame,end_frame,level,concepts"
                row = f"{name},{annotator},0,9,S,Look"
                files[folder / f"{name}.csv"] = f"{header}\n{row}\n".encode()
            else:
                files = exported_files([film], kind, folder)
            for path, data in files.items():
                path.write_bytes(data)
                paths.append(path)
    imported = import_segments(paths, "marks", 25)
    clips = imported.manifest.clips
    assert {(clip.movie_id, clip.extra.get("movie_title")) for clip in clips} == {
        ("Ete_1974", "Été 1974"),
        ("Lake", None),
        ("Zona_2", "Żona #2"),
    }
    for name, film in id_of_film.items():
        of_film = [one for one in imported.warnings if one.endswith(f" is {film}")]
        assert len(of_film) == (name != film)
    path = tmp_path / "marks.toml"
    write_manifest(imported.manifest, path)
    assert titles_of(id_of_film.values(), read_manifest(path)) == {
        film: name for name, film in id_of_film.items() if film != name
    }


CLIPS = ("a-0", "a-1", "a-2")


def test_predictions_of_two_training_sets_have_two_voices(tmp_path: Path) -> None:
    """Both were `EN_S ridge`, and a clip had two cues of one voice."""
    path = tmp_path / "predictions.csv"
    path.write_text(
        "task,train,test,store,model,seed,clip_id,movie_id,score\n"
        "EN_S,EN_S,EN_S,x,ridge,0,a-0,a,0.25\n"
        "EN_S,HN_S,EN_S,x,ridge,0,a-0,a,0.75\n"
    )
    ((film,), _) = films_of(films_for_predictions(), path)
    assert [(one.annotator, one.comment) for one in film.segments] == [
        ("EN_S ridge x 0", "score 0.25"),
        ("HN_S -> EN_S ridge x 0", "score 0.75"),
    ]


def test_points_of_learning_curves_are_no_voices(tmp_path: Path) -> None:
    """The model of a point trained on few films, and is another one than that of the run."""
    path = tmp_path / "predictions.csv"
    path.write_text(
        "task,model,seed,clip_id,movie_id,score,is_model,train_films\n"
        "EN_S,ridge,0,a-0,a,0.25,1,\n"
        "EN_S,ridge,0,a-0,a,0.75,1,2\n"
        "EN_S,ridge,0,a-0,a,0.5,1,4\n"
    )
    ((film,), _) = films_of(films_for_predictions(), path)
    assert [one.comment for one in film.segments] == ["score 0.25"]


@pytest.mark.parametrize("models", [(), ("ridge",), ("mine", "ridge"), ("Oracle",)])
@pytest.mark.parametrize(
    "guesses",
    [
        (),
        ("oracle",),
        ("all_positive", "film_prior", "neighbour", "oracle", "prevalence"),
    ],
)
def test_guesses_of_a_run_are_no_voices_beside_its_models(
    tmp_path: Path, models: tuple[str, ...], guesses: tuple[str, ...]
) -> None:
    if not models and not guesses:
        pytest.skip("a run without predictions")
    path = tmp_path / "predictions.csv"
    rows = ["task,model,clip_id,movie_id,score,is_model"]
    for clip in CLIPS:
        rows += [f"EN_S,{model},{clip},a,0.5,1" for model in models]
        rows += [f"EN_S,{model},{clip},a,0.5,0" for model in guesses]
    path.write_text("\n".join(rows), "utf-8")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ((film,), _) = films_of(films_for_predictions(), path)
    voices = {segment.annotator for segment in film.segments}
    assert voices == {f"EN_S {model}" for model in models or guesses}
    assert len(film.segments) == len(CLIPS) * len(voices)
    left_out = [str(one.message).partition("no models: ")[2] for one in caught]
    assert left_out == ([", ".join(guesses)] if models and guesses else [])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("films", "were changed after the run run"),
        ("others", "others is not the manifest of the run run, which is films"),
    ],
)
def test_predictions_of_a_run_with_other_labels_are_said(
    tmp_path: Path, name: str, words: str
) -> None:
    """The page and the report said it, the export of the same scores did not.

    Nor did the export say it where a manifest of another name gave the scores other times.
    """
    clips = clips_of()
    ridge = MadeCell("ridge", clips, scores_for(clips, 0.5, seed=1))
    run = made_run(tmp_path / "run", [ridge], manifest={**MANIFEST, "name": "films"})
    rows = {row["clip_id"]: row["movie_id"] for row in ridge.predictions()}
    changed = [
        Clip(clip, film, None, "", float(place), place + 1.0)
        for place, (clip, film) in enumerate(rows.items())
    ]
    manifest = Manifest(name, Header("a test", {}), changed)
    table = run.folder / "predictions.csv"
    output = tmp_path / "out"
    done = export_manifest(manifest, output, format="vtt", predictions=table, fps=25)
    assert sum(words in one for one in done.warnings) == 1
    same = {**run.about["manifest"], "labels": labels_of(manifest)}
    run = made_run(tmp_path / "run", [ridge], manifest=same)
    output = tmp_path / "again"
    done = export_manifest(manifest, output, format="vtt", predictions=table, fps=25)
    assert not any("of the run" in one or "the run run" in one for one in done.warnings)


def test_margins_are_the_scores_of_concept_vectors(tmp_path: Path) -> None:
    """Subtitles of them had the basis alone; a bottleneck has a score beside its margins."""
    path = tmp_path / "scores.csv"
    of_vectors = "clip_id,basis,margin:Look\na-0,unseen,0.5\na-1,unseen,\n"
    of_bottleneck = "clip_id,p:S,margin:Look\na-0,0.5,0.25\na-1,0.75,0.25\n"
    for table, comments in (
        (of_vectors, ["unseen, margin:Look 0.5", "unseen"]),
        (of_bottleneck, ["p:S 0.5", "p:S 0.75"]),
    ):
        path.write_text(table, "utf-8")
        ((film,), _) = films_of(films_for_predictions(), path)
        assert [one.comment for one in film.segments] == comments


def test_an_expression_is_cut_in_a_subtitle(tmp_path: Path) -> None:
    """Each cue had the expression of the task three times."""
    asked = "mood == tense and shots >= 3"
    path = tmp_path / "scores.csv"
    path.write_text(
        f"clip_id,movie_id,decision,p:not ({asked}),p:{asked}\n"
        f"a-0,a,not ({asked}),0.75,0.25\n",
        "utf-8",
    )
    ((film,), _) = films_of(films_for_predictions(), path)
    (segment,) = film.segments
    assert segment.comment == (
        "decision not (mood == tense and shots..., p:not (mood == tense and sho... 0.75,"
        " p:mood == tense and shots >=... 0.25"
    )


@pytest.mark.parametrize("word", ["violent", "sure", "not sure", "s"])
def test_a_decision_that_is_no_level_is_kept(tmp_path: Path, word: str) -> None:
    """Other classes were lost, and those of `certainty=sure` became the levels S and NS."""
    path = tmp_path / "scores.csv"
    path.write_text(f"clip_id,decision,score\na-0,S,0.5\na-1,{word},0.25\n", "utf-8")
    ((film,), _) = films_of(films_for_predictions(), path)
    assert [(one.level, one.comment) for one in film.segments] == [
        ("S", "score 0.5"),
        ("", f"decision {word}, score 0.25"),
    ]


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ("a-0,b,,,0.5", "'a-0' is of the film 'b' and of 'a'"),
        # A table that does not state the film of a clip is asked about the others.
        ("a-0,,,,0.5\na-1,b,,,0.5", "'a-1' is of the film 'b' and of 'a'"),
        ("a-1,a,10.01,20,0.5", "'a-1' is 10.01 s to 20 s and 10 s to 20 s"),
    ],
)
def test_predictions_of_other_clips_are_refused(
    tmp_path: Path, rows: str, problem: str
) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(f"clip_id,movie_id,start_s,end_s,score\n{rows}\n")
    with pytest.raises(Mismatch) as caught:
        films_of(films_for_predictions(), path)
    assert caught.value.message.endswith(f": {problem}")
    assert caught.value.where == str(path)


def test_two_predictions_of_one_clip_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    rows = "a-0,a,0,10,0.5\na-1,a,10,20,0.5\na-0,a,0,10,0.7\n"
    path.write_text(f"clip_id,movie_id,start_s,end_s,score\n{rows}")
    with pytest.raises(FixInput, match="1 problem") as caught:
        films_of(films_for_predictions(), path)
    problem = ":4: column 'clip_id': scores has this clip in line 2, too"
    assert list(caught.value.details) == [f"{path}{problem}"]


@pytest.mark.parametrize("columns", [*itertools.product((True, False), repeat=2)])
def test_predictions_that_only_ids_give_to_clips_say_so(
    tmp_path: Path, columns: tuple[bool, bool]
) -> None:
    """A manifest may have been made anew, with other clips of the same ids."""
    cells = {"clip_id": "a-1", "score": "0.5"}
    has_films, has_times = columns
    if has_films:
        cells["movie_id"] = "a"
    if has_times:
        cells |= {"start_s": "10", "end_s": "20"}
    path = tmp_path / "scores.csv"
    path.write_text(f"{','.join(cells)}\n{','.join(cells.values())}\n")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        films_of(films_for_predictions(), path)
    said = [str(one.message) for one in caught]
    assert len(said) == (not has_films and not has_times)
    assert all("matched by the ids alone" in one for one in said)


@pytest.mark.parametrize("kind", ["elan", "vtt", "csv"])
def test_what_files_do_not_say_of_a_manifest_is_said(tmp_path: Path, kind: str) -> None:
    """Levels of the visual view came back from ELAN as those that people gave."""
    clips = films_for_predictions()
    marked = [replace(clip, level="S", concepts=("mine",)) for clip in clips]
    header = Header(
        "a test", {"mine": "audio", "other": "unknown"}, view="visual", licence="CC0"
    )
    seen = replace(clips, header=header).with_clips(marked)
    output = tmp_path / ("out.csv" if kind == "csv" else "out")
    told, *of_mapping = export_manifest(
        seen, output, format=None if kind == "csv" else kind
    ).warnings
    assert ["--mapping" in sentence for sentence in of_mapping] == [True] * (
        kind == "csv"
    )
    if kind == "csv":
        # The receiver writes what the sender was told to send.
        _, _, lines = of_mapping[0].partition("[concepts]: ")
        mapping = tmp_path / "sent.toml"
        mapping.write_text(f'licence = "CC0"\n[concepts]\n{lines}\n')
        again = read_table(output, mapping=mapping).manifest
        assert again.header.licence == "CC0"
        assert again.header.concepts["mine"] == "audio"
        assert {clip.concepts for clip in again} == {("mine",)}
    of_rate = ", the columns framerate" if kind == "vtt" else ""
    assert told == (
        "the files do not say: licence, that the levels are those of the visual view,"
        f" the modality of mine{of_rate}"
    )


def test_a_table_of_windows_has_the_rates_of_their_films(tmp_path: Path) -> None:
    """Of clips that were made of it, nobody knew the pictures."""
    films = (
        CutFilm("a", "a.mp4", 240, 24000 / 1001, 10.01),
        CutFilm("b", "b.mp4", 250, 25.0, 10.0),
    )
    grid = Grid(seconds=2, every=2)
    header = Header("cut", unit="window", grid=grid)
    cut = Manifest("cut", header, Windows(films, grid))
    (path,) = export_manifest(cut, tmp_path / "cut.csv").files
    clips = read_table(path).manifest
    assert film_rate([clips["a_0.000-2.000"]]) == RATES["23.976"]
    assert film_rate([clips["b_8.000-10.000"]]) == RATES["25"]


@pytest.mark.parametrize("kind", ["elan", "vtt"])
@pytest.mark.parametrize(
    ("video", "called"),
    [
        ("Le Nouveau Film (à voir).mp4", "Le Nouveau Film (à voir)"),
        ("a/Le_Nouveau_Film_a_voir_.mp4", "Le_Nouveau_Film_a_voir_"),
        ("another.mp4", "Le_Nouveau_Film_a_voir_"),
        ("", "Le_Nouveau_Film_a_voir_"),
    ],
)
def test_a_file_is_called_as_the_video_that_it_is_played_with(
    tmp_path: Path, kind: str, video: str, called: str
) -> None:
    """A player that looks for subtitles of the video's name did not find them."""
    film = "Le_Nouveau_Film_a_voir_"
    marks = [Segment(film, "ada", 0, 24, "S")]
    path = tmp_path / video if video else None
    segments = FilmSegments(film, Fraction(25), path, marks)
    ((file, content),) = exported_files([segments], kind, tmp_path / "out").items()
    assert file.stem == called
    file.parent.mkdir()
    file.write_bytes(content)
    read = import_segments([file], "read", fps=25, workspace=tmp_path).manifest
    assert [clip.movie_id for clip in read] == [film]


@pytest.mark.parametrize("kind", ["elan", "vtt"])
def test_clips_without_a_label_and_further_columns_are_said(
    tmp_path: Path, kind: str
) -> None:
    """Read again, the clip would be an easy negative of a film that was watched as a whole."""
    first, *others = films_for_predictions()
    marked = [replace(clip, level="S", extra={"mood": "joy"}) for clip in others]
    manifest = replace(
        films_for_predictions(),
        clips=(replace(first, level="", concepts=()), *marked),
        columns=("mood", "film_start_s"),
    )
    (told,) = export_manifest(manifest, tmp_path / "out", format=kind).warnings
    assert told == "the files do not say: 1 clip without a label, the columns mood"
    table = tmp_path / "marks.csv"
    columns = "movie_id,annotator,start_frame,end_frame,level,concepts,framerate,mood"
    table.write_text(f"{columns}\nlake,ada,0,9,S,,25,joy\n")
    (told,) = export_manifest(table, tmp_path / "other", format=kind).warnings
    of_rate = ", framerate" if kind == "vtt" else ""
    assert told == f"the files do not say: the columns mood{of_rate}"
    (told,) = import_segments([table], "read").warnings
    assert told.endswith(
        ": left out, since marks have no place for them: the columns mood"
    )


@pytest.mark.parametrize("kind", ["elan", "vtt", "csv"])
def test_an_annotator_of_a_film_in_two_files_is_refused(
    tmp_path: Path, kind: str
) -> None:
    """The tiers of two people were both called A, and became one annotator."""
    marked = [Segment("lake", "A", 0, 24, "S"), Segment("lake", "A", 50, 74, "HN")]
    paths = []
    for number, segment in enumerate(marked):
        folder = tmp_path / str(number)
        folder.mkdir()
        table = folder / "lake.csv"
        table.write_text(
            "movie_id,annotator,start_frame,end_frame,level,framerate\n"
            f"lake,A,{segment.start_frame},{segment.end_frame},{segment.level},25\n"
        )
        paths.append(table)
        if kind != "csv":
            paths[-1] = export_manifest(table, folder, format=kind).files[0]
    problem = "two files have marks of 'A' in the film lake"
    with pytest.raises(FixInput, match=problem) as caught:
        import_segments(paths, "marks", 25)
    assert caught.value.where == ", ".join(map(str, paths))
    if kind == "csv":
        with pytest.raises(FixInput, match=problem):
            read_marks(paths)


def test_marks_of_two_people_that_overlap_are_compared(tmp_path: Path) -> None:
    rows = ["movie_id,annotator,start_frame,end_frame,level,framerate"]
    for number in range(12):
        level = ("S", "HN")[number % 2]
        first = 100 * number
        rows.append(f"lake,Jana B,{first},{first + 79},{level},25")
        if number < 8:
            rows.append(f"lake,Mia,{first + 5},{first + 84},{level},25")
    rows.append("pier,Jana B,0,79,S,25")
    (tmp_path / "two.csv").write_text("\n".join(rows), "utf-8")
    watched = f"{rows[0]}\nlake,Jana B,0,1200,watched,25\nlake,Mia,0,1200,watched,25\n"
    watched += "pier,Jana B,0,900,watched,25\n"
    (tmp_path / "two.watched.csv").write_text(watched, "utf-8")
    words = ("manifest", "import", "two.csv", "--as", "marks", "-o", "two")
    done = call_obygaze(*words, cwd=tmp_path).ok()
    assert "manifest project two --every SECONDS " in done.stderr
    stats = call_obygaze("manifest", "stats", "two", cwd=tmp_path).ok()
    assert "21 segments of 2 films" in stats.stdout
    assert "not counted: 3 rows of what was watched" in stats.stderr
    # A film more or less leaves the ids of the others.
    assert read_manifest(tmp_path / "manifests/two.toml")["pier-Jana_B-0001"]
    words = ("audit", "reliability", "two", "--column", "level")
    told = call_obygaze(*words, cwd=tmp_path).stderr
    commands = re.findall(
        r"obygaze (manifest (?:agree|project) two [^ ]+ 10(?: -o [^ ]+)?)", told
    )
    agreed, _ = [
        call_obygaze(*shlex.split(line), cwd=tmp_path).ok() for line in commands
    ]
    assert "lake" in agreed.stdout
    assert (tmp_path / "labels.annotators.csv").is_file()


def test_ids_are_of_one_mark_and_change_with_those_of_one_annotator(
    tmp_path: Path,
) -> None:
    """Marks of two films had one id, and were refused as rows that contradict each other."""
    table = tmp_path / "marks.csv"
    header = "movie_id,annotator,start_frame,end_frame,level,framerate\n"
    rows = ["lake,b-ada,0,9,S,25", "lake-b,ada,0,9,S,25", "lake,mia,0,9,S,25"]
    ids = []
    for added in ([], ["lake,eva,0,9,S,25"]):
        table.write_text(header + "\n".join([*added, *rows]))
        clips = import_segments([table], "marks").manifest.clips
        ids.append([clip.clip_id for clip in clips][-3:])
    assert ids[0] == ["lake-b-ada-0001", "lake-b-ada-0002", "lake-mia-0001"]
    assert ids[1] == ids[0]


@pytest.mark.parametrize("film", ["../../evil", "a/b", "a\\b"])
def test_no_file_is_written_outside_the_folder(tmp_path: Path, film: str) -> None:
    table = tmp_path / "in" / "marks.csv"
    table.parent.mkdir()
    header = "movie_id,annotator,start_frame,end_frame,level,concepts,framerate\n"
    table.write_text(f"{header}{film},ada,0,15,S,Look,8\n", "utf-8")
    with pytest.raises(FixInput, match="cannot be the name of a file"):
        export_manifest(table, tmp_path / "in" / "out", format="vtt")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [table]


def test_of_clips_in_a_row_an_export_says_so() -> None:
    """Their times in the film are not known: only the order of their files is."""
    clips = [Clip(f"lake-{n}", "lake", n, f"{n}.mp4", 0.0, 5.0, "S") for n in (1, 2)]
    manifest = Manifest("m", Header("m", {}), clips)
    with pytest.warns(ObygazeWarning, match="count as following each other: lake"):
        (film,), _ = films_of(manifest, fps=25)
    spans = [(one.start_frame, one.end_frame) for one in film.segments]
    assert spans == [(0, 124), (125, 249)]
