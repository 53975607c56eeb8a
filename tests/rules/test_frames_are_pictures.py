"""A clip that its table counts in frames has these pictures, whatever the container of its film.

The films have the number of each picture in its pixels. Frame / rate is another picture where a
container rounds times to milliseconds, and in films whose pictures begin later than the file.
"""

import csv
import random
import shutil
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.counted_films import (
    CLIPS,
    LATE_S,
    N_PICTURES,
    CountedFilm,
    all_films,
    make_film,
    write_clips,
)
from support.printed_lines import run_printed_lines
from support.seeds import amount
from support.videos import read_numbers, write_video

from obygaze_features.core.errors import Mismatch
from obygaze_features.extraction.clips import plan_clips
from obygaze_features.manifest.io import read_manifest
from obygaze_features.store import open_store
from obygaze_features.video import PictureView, decode_clip

# More than the pictures of a clip: all are seen.
ALL_PICTURES = PictureView(40)
# Frame / rate is another picture in each of them.
FEW_FILMS = (
    CountedFilm("23.976", "mkv"),
    CountedFilm("29.97", "webm", is_late=True),
    CountedFilm("24", "mp4", is_late=True),
    CountedFilm("60", "flv", is_late=True),
    CountedFilm("23.976", "ts"),
    CountedFilm("25", "avi"),
)
LATE = CountedFilm("25", "mkv", is_late=True)


def workspace_of(folder: Path, films: Sequence[CountedFilm]) -> Path:
    """A folder with films and the table of their clips."""
    (folder / "films").mkdir(parents=True)
    for film in films:
        make_film(film, folder / "films")
    write_clips(folder / "clips.csv", films)
    return folder


def numbers_of_clips(folder: Path) -> dict[str, list[int]]:
    """The numbers in the pictures of each clip of the manifest."""
    numbers = {}
    for clip in plan_clips(read_manifest(folder / "manifests" / "clips.toml")):
        span = {"start_s": clip.start_s, "end_s": clip.end_s}
        seen = decode_clip(clip.video, ALL_PICTURES, **span)
        numbers[clip.clip_id] = sorted({*read_numbers(seen.pictures)})
    return numbers


def check_pictures(folder: Path, films: Sequence[CountedFilm]) -> None:
    """Import and link the clips of films; each has the pictures that its table counts."""
    workspace_of(folder, films)
    call_obygaze("manifest", "import", "clips.csv", cwd=folder).ok()
    call_obygaze("manifest", "link", "clips", "films", cwd=folder).ok()
    expected = {}
    for film in films:
        for number, (first, last) in enumerate(CLIPS):
            expected[f"{film.name}-{number}"] = [*range(first, last + 1)]
    assert numbers_of_clips(folder) == expected


def test_a_clip_has_the_pictures_that_its_table_counts(tmp_path: Path) -> None:
    check_pictures(tmp_path, amount(FEW_FILMS, [*all_films()]))


def written(path: Path, **columns: object) -> Path:
    """A table of one clip of the late film."""
    cells = {"clip_id": "a-1", "movie_id": LATE.name, **columns}
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([cells.keys(), cells.values()])
    return path


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        ({"framerate": 23.976}, ("got 23.976", "expected 25 frames per second")),
        ({"end_frame": 150}, ("frame 150", "0 to 149")),
        # Stated times that are those of other frames of this film.
        (
            {"start_s": 1.52, "end_s": 2.52},
            ("2.52 s to 3.52 s in the film", "1.52 s to 2.52 s"),
        ),
    ],
)
def test_what_the_film_contradicts_is_refused_with_both_values(
    columns, values, tmp_path
):
    frames = {"start_frame": 25, "end_frame": 49, "framerate": 25} | columns
    path = written(workspace_of(tmp_path, [LATE]) / "t.csv", **frames)
    call_obygaze("manifest", "import", path, cwd=tmp_path).ok()
    before = (tmp_path / "manifests" / "t.csv").read_bytes()
    refused = call_obygaze("manifest", "link", "t", "films", cwd=tmp_path)
    assert refused.code == 1
    for value in ("a-1", f"{LATE.name}.mkv", *values):
        assert value in refused.stderr
    assert (tmp_path / "manifests" / "t.csv").read_bytes() == before


def test_a_late_film_may_have_both_its_frames_and_their_times(tmp_path: Path) -> None:
    """The times count from the first frame, and are rounded."""
    frames = {"start_frame": 25, "end_frame": 49, "framerate": 25}
    folder = workspace_of(tmp_path, [LATE])
    path = written(folder / "t.csv", **frames, start_s=1.003, end_s=2.003)
    call_obygaze("manifest", "import", path, cwd=folder).ok()
    call_obygaze("manifest", "link", "t", "films", cwd=folder).ok()
    (clip,) = read_manifest(folder / "manifests" / "t.toml")
    assert (clip.start_s, clip.end_s) == (2.52, 3.52)
    # Without its link, the clip is still at these times of the film.
    (folder / "more.csv").write_text("clip_id,movie_id\nb-1,b\n", encoding="utf-8")
    call_obygaze("manifest", "import", "more.csv", cwd=folder).ok()
    call_obygaze("manifest", "merge", "t", "more", "-o", "both", cwd=folder).ok()
    merged = read_manifest(folder / "manifests" / "both.toml")["a-1"]
    assert (merged.video, merged.start_s, merged.end_s) == ("", 2.52, 3.52)


def test_a_film_of_which_a_table_states_two_rates_is_refused(tmp_path: Path) -> None:
    lines = ["clip_id,movie_id,start_s,end_s,framerate", "a-1,a,0,1,25"]
    written_lines(tmp_path / "t.csv", *lines, "a-2,a,1,2,23.976")
    refused = call_obygaze("manifest", "import", "t.csv", cwd=tmp_path)
    assert refused.code == 1
    assert "expected 25 as in other rows of the film a, got 23.976" in refused.stderr
    written_lines(tmp_path / "t.csv", *lines, "a-2,a,1,2,25.0")
    call_obygaze("manifest", "import", "t.csv", cwd=tmp_path).ok()


MARKS = "movie_id,start_s,end_s,column,value,annotator,start_frame,end_frame,framerate"


def mark(film: str, first: int, last: int, rate: str) -> str:
    """Return the row of a mark, whose seconds are frame / rate."""
    start_s, end_s = first / float(rate), (last + 1) / float(rate)
    if rate in ("23.976", "29.97"):
        counts = Fraction({"23.976": 24000, "29.97": 30000}[rate], 1001)
        start_s, end_s = float(first / counts), float((last + 1) / counts)
    return f"{film},{start_s!r},{end_s!r},level,S,ada,{first},{last},{rate}"


def written_lines(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return [*csv.DictReader(stream)]


def link_one_clip(folder: Path, film: CountedFilm) -> None:
    """Link a manifest with a clip of a film."""
    header = "clip_id,movie_id,start_frame,end_frame,framerate"
    row = f"one,{film.name},0,9,{film.rate}"
    written_lines(folder / "linked.csv", header, row)
    call_obygaze("manifest", "import", "linked.csv", cwd=folder).ok()
    call_obygaze("manifest", "link", "linked", "films", cwd=folder).ok()


def test_a_mark_is_at_its_frames_once_the_film_is_linked(tmp_path: Path) -> None:
    folder = workspace_of(tmp_path, [LATE])
    written_lines(folder / "m.csv", MARKS, mark(LATE.name, 25, 49, "25"))
    times = [(1.0, 2.0), (2.52, 3.52), (4.0, 5.0)]
    rows = [f"c{n},{LATE.name},{start},{end}" for n, (start, end) in enumerate(times)]
    written_lines(folder / "c.csv", "clip_id,movie_id,start_s,end_s", *rows)
    call_obygaze("manifest", "import", "c.csv", cwd=folder).ok()
    call_obygaze("marks", "import", "m.csv", cwd=folder).ok()
    # What was imported before it was linked is at its frames, too.
    expected = {"before": ["S", "EN", "EN"], "after": ["EN", "S", "EN"]}
    for when, levels in expected.items():
        if when == "after":
            link_one_clip(folder, LATE)
        for marks in ("m.csv", "m"):
            words = ("marks", "clips", marks, "--clips", "c", "-o", when)
            call_obygaze(*words, "--force", cwd=folder).ok()
            labels = rows_of(folder / "manifests" / f"{when}.csv")
            assert [row["level"] for row in labels] == levels
    words = ("marks", "import", "m.csv", "--force")
    call_obygaze(*words, cwd=folder).ok()
    (row,) = rows_of(folder / "segments" / "m.csv")
    assert (row["start_s"], row["end_s"]) == ("2.52", "3.52")
    frames = row["start_frame"], row["end_frame"], row["framerate"]
    assert frames == ("25", "49", "25")


def test_linking_changes_no_label_of_clips_and_marks_in_frames(tmp_path: Path) -> None:
    """Times in milliseconds would change them."""
    film = CountedFilm("29.97", "mkv", is_late=True)
    folder = workspace_of(tmp_path, [film])
    generator = random.Random(7)
    marks = []
    for first in range(0, 140, 10):
        begins = first + generator.randrange(8)
        ends = begins + generator.choice([0, 1, 1, 2, 5])
        marks.append(mark(film.name, begins, ends, "29.97"))
    written_lines(folder / "m.csv", MARKS, *marks)
    rows = [f"c{n},{film.name},{10 * n},{10 * n + 9},29.97" for n in range(15)]
    header = "clip_id,movie_id,start_frame,end_frame,framerate"
    written_lines(folder / "c.csv", header, *rows)
    call_obygaze("manifest", "import", "c.csv", cwd=folder).ok()
    words = ("marks", "clips", "m.csv", "--clips", "c", "-o")
    call_obygaze(*words, "before", cwd=folder).ok()
    call_obygaze("manifest", "link", "c", "films", cwd=folder).ok()
    call_obygaze(*words, "after", cwd=folder).ok()
    before, after = (
        rows_of(folder / "manifests" / f"{when}.csv") for when in ("before", "after")
    )
    assert before[0]["start_s"] != after[0]["start_s"]
    assert {row["level"] for row in before} == {"S", "EN"}
    assert [row["level"] for row in before] == [row["level"] for row in after]


def test_marks_that_the_linked_film_contradicts_are_refused(tmp_path: Path) -> None:
    folder = workspace_of(tmp_path, [LATE])
    link_one_clip(folder, LATE)
    written_lines(folder / "m.csv", MARKS, mark(LATE.name, 25, 49, "23.976"))
    for words in (("import", "m.csv"), ("clips", "m.csv")):
        ways = ("--clips", "linked") if words[0] == "clips" else ()
        ways = (*ways, "-o", "m")
        refused = call_obygaze("marks", *words, *ways, cwd=folder)
        assert refused.code == 1
        assert "expected 25 frames per second, got 23.976" in refused.stderr
    written_lines(folder / "m.csv", MARKS, mark("elsewhere", 25, 49, "23.976"))
    rows = "clip_id,movie_id,start_frame,end_frame,framerate", "e,elsewhere,0,99,25"
    written_lines(folder / "e.csv", *rows)
    words = ("marks", "clips", "m.csv", "--clips", "e.csv", "-o", "labels")
    refused = call_obygaze(*words, cwd=folder)
    assert refused.code == 1
    assert "expected 23.976 frames per second as in the marks, got 25" in refused.stderr


def telecine_ms() -> list[int]:
    """23.976 frames per second, each shown for two or three fields."""
    fields = accumulate(([3, 2] * 80)[: N_PICTURES - 1], initial=0)
    return [round(1000 * n * 1001 / 60000) for n in fields]


def uneven_ms() -> list[int]:
    gaps_ms = random.Random(3).choices([20, 33, 40, 41, 80], k=N_PICTURES - 1)
    return [*accumulate(gaps_ms, initial=0)]


@pytest.mark.parametrize(
    ("times_ms", "rate", "problem"),
    [
        (telecine_ms(), "23.976", ""),
        (telecine_ms(), "24", "frames per second, got 24"),
        (uneven_ms(), "25", "for 25 frames per second"),
        # A picture is lost: a player by its clock counts it.
        ([40 * n for n in range(N_PICTURES + 1) if n != 30], "25", "frame 149 is at"),
    ],
)
def test_frames_of_other_times_than_their_rate_says(times_ms, rate, problem, tmp_path):
    (tmp_path / "films").mkdir()
    facts = {"numbers": range(N_PICTURES), "ticks": times_ms, "size": (80, 60)}
    facts |= {"tick": Fraction(1, 1000), "rate": Fraction(30000, 1001)}
    if rate == "25":
        facts["rate"] = Fraction(25)
    write_video(tmp_path / "films" / "a.mkv", **facts)
    rows = [f"a-{n},a,{first},{last},{rate}" for n, (first, last) in enumerate(CLIPS)]
    header = "clip_id,movie_id,start_frame,end_frame,framerate"
    written_lines(tmp_path / "clips.csv", header, *rows)
    call_obygaze("manifest", "import", "clips.csv", cwd=tmp_path).ok()
    done = call_obygaze("manifest", "link", "clips", "films", cwd=tmp_path)
    assert done.code == (1 if problem else 0)
    assert problem in done.stderr
    if not problem:
        expected = [[*range(first, last + 1)] for first, last in CLIPS]
        assert [*numbers_of_clips(tmp_path).values()] == expected


def test_a_store_of_a_lab_with_films_serves_one_without_and_one_with_other_copies(
    tmp_path,
):
    """The times of the clips are those of the copy from which they were extracted."""
    early = CountedFilm("25", "mp4")
    labs = [tmp_path / name for name in ("films", "none", "copies")]
    for lab in labs:
        workspace_of(lab, [LATE] if lab.name == "films" else [])
        write_clips(lab / "clips.csv", [LATE])
        call_obygaze("manifest", "import", "clips.csv", cwd=lab).ok()
    make_film(early, labs[2] / "films").rename(labs[2] / "films" / f"{LATE.name}.mp4")
    for lab in (labs[0], labs[2]):
        call_obygaze("manifest", "link", "clips", "films", cwd=lab).ok()
    extract = ("extract", "run", "clips", "-b", "descriptors", "--device", "cpu")
    call_obygaze(*extract, cwd=labs[0]).ok()
    stored = labs[0] / "stores" / "clips.descriptors"
    store = open_store(stored)
    assert store.rows[0].start_s == pytest.approx(float(LATE_S), abs=0.001)
    exports = [labs[0] / f"features.{ending}" for ending in ("npz", "h5", "parquet")]
    for path in exports:
        call_obygaze("store", "export", stored, path, cwd=labs[0]).ok()
    for lab in labs:
        clips = read_manifest(lab / "manifests" / "clips.toml")
        assert len(store.matrix("clip", clips=clips)) == len(CLIPS)
        for path in exports:
            name = f"from-{path.suffix[1:]}"
            words = ("store", "import", path, "--manifest", "clips", "-o", name)
            done = call_obygaze(*words, cwd=lab)
            if path.suffix == ".parquet":
                run_printed_lines(done.stderr, lab)
            else:
                done.ok()
            imported = open_store(lab / "stores" / name)
            assert len(imported.matrix("clip", clips=clips)) == len(CLIPS)
            assert imported.rows[3].end_frame == CLIPS[3][1]
    # It grows in a lab without the films as in its own: nothing is to do.
    shutil.copytree(stored, labs[1] / "stores" / stored.name)
    call_obygaze(*extract, cwd=labs[1]).ok()
    assert open_store(labs[1] / "stores" / stored.name).seal == store.seal
    # The films of the other copy are other files.
    shutil.copytree(stored, labs[2] / "stores" / stored.name)
    refused = call_obygaze(*extract, cwd=labs[2])
    assert refused.code == 5
    assert "was from a video of " in refused.stderr
    # Another frame is another clip, wherever it is.
    text = (labs[1] / "clips.csv").read_text(encoding="utf-8")
    moved = text.replace(
        f"{LATE.name}-0,{LATE.name},0,0", f"{LATE.name}-0,{LATE.name},0,1"
    )
    (labs[1] / "clips.csv").write_text(moved, encoding="utf-8")
    call_obygaze("manifest", "import", "clips.csv", "--force", cwd=labs[1]).ok()
    clips = read_manifest(labs[1] / "manifests" / "clips.toml")
    with pytest.raises(Mismatch, match="the frames 0 to 1 at 25 per second, not"):
        store.matrix("clip", clips=clips)
    refused = call_obygaze(*extract, cwd=labs[1])
    assert refused.code == 5
    assert (
        "was the frames 0 to 0 at 25 per second, is now the frames 0 to 1"
        in refused.stderr
    )
