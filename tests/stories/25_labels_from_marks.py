"""Story 25: I want labels of clips from the marks of annotators, and to know how far they agree.

The marks go to ELAN and come back picture for picture, at each frame rate. The reader of these
files here is pympi, which knows nothing of this program.
"""

import math
from fractions import Fraction
from random import Random

import pytest
from support.videos import write_video

from stories.workspace import Workspace

RATES = {
    "harbour": Fraction(24000, 1001),
    "lake": Fraction(25),
    "night": Fraction(30000, 1001),
}
ANNOTATORS = ("ada", "ben")
LEVELS = ("EN", "HN", "NS", "S")
N_PICTURES = 150
# Film, annotator, first and last picture, level and comment of a mark.
Mark = tuple[str, str, int, int, str, str]


def begin_with_marks(ws: Workspace) -> list[Mark]:
    """Begin with three linked films, and their table of marks; those of a person do not overlap."""
    ws.path("videos").mkdir()
    draw = Random(25)
    marks: list[Mark] = []
    rows = []
    for film, rate in RATES.items():
        path = ws.path(f"videos/{film}.mp4")
        write_video(path, numbers=range(N_PICTURES), rate=rate, tick=1 / rate)
        for annotator in ANNOTATORS:
            first = draw.choice((0, 1))
            while first < N_PICTURES - 20:
                last = first + draw.choice((0, 1, 4, 20))
                comment = f'{first}: "où" <b> & -- {film}' if first % 3 else ""
                level = draw.choice(LEVELS)
                marks.append((film, annotator, first, last, level, comment))
                start_s, end_s = first / rate, (last + 1) / rate
                row = {"movie_id": film, "start_s": f"{float(start_s):.9f}"}
                row |= {"end_s": f"{float(end_s):.9f}", "column": "level"}
                rows.append({**row, "value": level, "annotator": annotator})
                if comment:
                    words = {"column": "comment", "value": comment}
                    rows.append({**row, **words, "annotator": annotator})
                first = last + draw.choice((1, 1, 2, 5))
    ws.write_table("segments/marks.csv", rows)
    ws("manifest import videos -o films")
    return sorted(marks)


def marks_of_table(ws: Workspace, name: str) -> list[Mark]:
    said: dict[tuple[str, str, int, int], dict[str, str]] = {}
    for row in ws.read_table(f"segments/{name}.csv"):
        rate = RATES[row["movie_id"]]
        first, after = (float(row[end]) * rate for end in ("start_s", "end_s"))
        # Times of pictures, as the film has them.
        assert first == pytest.approx(round(first), abs=1e-3)
        key = (row["movie_id"], row["annotator"], round(first), round(after) - 1)
        said.setdefault(key, {})[row["column"]] = row["value"]
    return sorted(
        (*key, words["level"], words.get("comment", "")) for key, words in said.items()
    )


def pictures_shown(start_ms: int, end_ms: int, rate: Fraction) -> tuple[int, int]:
    """Return the pictures that are on the screen at two times: the last one is before the end."""
    first = math.floor(start_ms * rate / 1000)
    after = math.floor(end_ms * rate / 1000)
    return first, after - 1


# ---- other programs ------------------------------------------------------------------------------


def test_elan_reads_the_marks_and_they_come_back_picture_for_picture(ws) -> None:
    pympi = pytest.importorskip("pympi")
    marks = begin_with_marks(ws)
    assert marks_of_table(ws, "marks") == marks
    ws("marks export marks elan")
    found = []
    for film, rate in RATES.items():
        document = pympi.Eaf(str(ws.path(f"elan/{film}.eaf")))
        for annotator in ANNOTATORS:
            tier = f"level@{annotator}"
            for start, end, level, *_ in document.get_annotation_data_for_tier(tier):
                pictures = pictures_shown(start, end, rate)
                found.append((film, annotator, *pictures, level))
    assert sorted(found) == [mark[:-1] for mark in marks]
    ws("marks import elan -o back")
    assert marks_of_table(ws, "back") == marks


# ---- labels of clips -----------------------------------------------------------------------------


def import_segments(ws: Workspace, lines: str, name: str = "segments") -> None:
    """Import a table with a row for each segment, whose manifest is taken as marks."""
    columns = (
        "clip_id,movie_id,annotator,start_frame,end_frame,level,concepts,framerate"
    )
    rows = [f"{name}-{n},{line},25" for n, line in enumerate(lines.splitlines())]
    ws.write(f"{name}.csv", "\n".join([columns, *rows]) + "\n")
    ws(f"manifest import {name}.csv")


def write_clips(ws: Workspace, *spans: tuple[int, int]) -> None:
    lines = ["clip_id,movie_id,start_frame,end_frame,framerate"]
    for number, (first, last) in enumerate(spans, start=1):
        lines.append(f"lake-{number},lake,{first},{last},25")
    ws.write("clips.csv", "\n".join(lines) + "\n")


def projected(ws: Workspace, options: str = "") -> list[tuple[str, str | None]]:
    words = "marks clips segments --clips clips.csv -o projected --force"
    ws(f"{words} {options}")
    rows = ws.read_table("manifests/projected.csv")
    return [(row["clip_id"], row["level"] or None) for row in rows]


def test_a_fifth_of_a_clip_is_enough_at_every_length(ws: Workspace) -> None:
    """Shares of times in seconds would miss many of these exact cases, at 23.976 pictures."""
    columns = (
        "clip_id,movie_id,annotator,start_frame,end_frame,level,concepts,framerate"
    )
    segments = [f"{columns}\n"]
    clips = ["clip_id,movie_id,start_s,end_s\n"]
    first = 0
    lengths = range(5, 305, 5)
    for length in lengths:
        last = first + length // 5 - 1
        if length % 2:
            last -= 1
        if last >= first:
            segments.append(f"s-{first},lake,ada,{first},{last},S,Look,24000/1001\n")
        start_s = float(first * Fraction(1001, 24000))
        end_s = float((first + length) * Fraction(1001, 24000))
        clips.append(f"lake-{length},lake,{start_s:.9f},{end_s:.9f}\n")
        first += length
    ws.write("segments.csv", "".join(segments))
    ws("manifest import segments.csv")
    ws.write("clips.csv", "".join(clips))
    # A fifth of each clip of an even length is marked, and one picture less of the others.
    expected = []
    for length in lengths:
        expected.append((f"lake-{length}", "EN" if length % 2 else "S"))
    assert projected(ws) == expected


def test_what_was_not_watched_has_no_label_and_is_not_compared(ws: Workspace) -> None:
    write_clips(ws, (0, 99), (100, 199), (200, 299))
    columns = "movie_id,start_s,end_s,column,value,annotator\n"
    of_ada = "lake,0,4,level,S,ada\nlake,0,4,concepts,Look,ada\n"
    ws.write("ada.csv", f"{columns}{of_ada}lake,0,8,watched,watched,ada\n")
    of_ben = "lake,4,8,level,HN,ben\nlake,4,8,concepts,Look,ben\n"
    ws.write("ben.csv", f"{columns}{of_ben}lake,0,12,watched,watched,ben\n")
    ws("marks clips ada.csv ben.csv --clips clips.csv -o seen")
    said: dict[str, dict[str, str]] = {"ada": {}, "ben": {}}
    for row in ws.read_table("manifests/seen.annotators.csv"):
        said[row["annotator"]][row["clip_id"]] = row["level"]
    assert said["ada"] == {"lake-1": "S", "lake-2": "EN"}
    assert said["ben"] == {"lake-1": "EN", "lake-2": "HN", "lake-3": "EN"}
    found = ws("agree seen --json").json()["rows"][0]
    # S against EN, and EN against HN: the third clip was not watched by ada.
    assert found["items"] == 2
    observed = (1.0 + 0.3) / 2
    assert found["gamma_uniform"] == pytest.approx(1 - observed / 0.425)


def test_clips_are_projected_at_their_times_in_the_film(ws: Workspace) -> None:
    import_segments(ws, "lake,ada,2500,2549,EN,\nlake,ada,2550,2599,S,\n")
    # Each clip is from second 0 to 2 of its file; in the film they begin at second 100.
    rows = []
    for number in (1, 2):
        row = {"clip_id": f"lake-{number}", "movie_id": "lake"}
        row |= {"video": f"videos/lake-{number}.mp4"}
        ws.write(row["video"], "")
        row |= {"start_s": 0, "end_s": 2, "film_start_s": 98 + 2 * number}
        rows.append({**row, "film_end_s": 100 + 2 * number})
    ws.import_table(rows, "films", "clips")
    ws("marks clips segments --clips films -o labels")
    levels = [row["level"] for row in ws.read_table("manifests/labels.csv")]
    # The mark of level S is all of the second clip.
    assert levels == ["EN", "S"]
