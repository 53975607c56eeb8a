"""A clip that its table counts in frames has these pictures, whatever the container of its film.

The films have the number of each picture in its pixels. Frame / rate is another picture where a
container rounds times to milliseconds, and in films whose pictures begin later than the file.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.counted_films import (
    CLIPS,
    LATE_S,
    CountedFilm,
    all_films,
    make_film,
    write_clips,
)
from support.videos import read_numbers

from obygaze_features.extraction.clips import planned_clips
from obygaze_features.manifest.io import read_manifest
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
    for clip in planned_clips(read_manifest(folder / "manifests" / "clips.toml")):
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
    check_pictures(tmp_path, FEW_FILMS)


@pytest.mark.check("88 films of 8 rates in 6 containers, 1,056 clips")
def test_every_rate_in_every_container(tmp_path: Path) -> None:
    films = [*all_films()]
    assert len(films) == 88
    check_pictures(tmp_path, films)


def written(path: Path, **columns: object) -> Path:
    """A table of one clip of the late film."""
    cells = {"clip_id": "a-1", "movie_id": LATE.name, **columns}
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([cells.keys(), cells.values()])
    return path


def test_before_link_frames_are_at_their_rate_and_no_film_is_read(
    tmp_path: Path,
) -> None:
    path = written(tmp_path / "t.csv", start_frame=25, end_frame=49, framerate=25)
    call_obygaze("manifest", "import", path, cwd=tmp_path).ok()
    (clip,) = read_manifest(tmp_path / "manifests" / "t.toml")
    assert (clip.start_s, clip.end_s) == (1.0, 2.0)
    assert not (tmp_path / "indexes").exists()


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        ({"framerate": 23.976}, ("23.976 frames per second", "the film has 25")),
        ({"end_frame": 150}, ("frame 150", "0 to 149")),
        # Stated times that are those of other frames of this film.
        (
            {"start_s": 1.52, "end_s": 2.52},
            ("2.52 s to 3.52 s in the film", "1.52 s to 2.52 s"),
        ),
    ],
)
def test_what_the_film_contradicts_is_refused_with_both_values(
    columns: dict[str, object], values: tuple[str, str], tmp_path: Path
) -> None:
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
    frames = {"start_frame": 25, "end_frame": 49, "framerate": 25}
    folder = workspace_of(tmp_path, [LATE])
    path = written(folder / "t.csv", **frames, start_s=2.52, end_s=3.52)
    call_obygaze("manifest", "import", path, cwd=folder).ok()
    call_obygaze("manifest", "link", "t", "films", cwd=folder).ok()
    (clip,) = read_manifest(folder / "manifests" / "t.toml")
    assert (clip.start_s, clip.end_s) == (2.52, 3.52)


def test_another_copy_of_the_film_has_the_same_frames_at_its_own_times(
    tmp_path: Path,
) -> None:
    early = CountedFilm("25", "mkv")
    folder = workspace_of(tmp_path, [LATE])
    copies = folder / "copies"
    copies.mkdir()
    make_film(early, copies).rename(copies / f"{LATE.name}.mkv")
    call_obygaze("manifest", "import", "clips.csv", cwd=folder).ok()
    expected = [[*range(first, last + 1)] for first, last in CLIPS]
    for films, begins_s in (("films", float(LATE_S)), ("copies", 0.0)):
        call_obygaze("manifest", "link", "clips", films, cwd=folder).ok()
        first = read_manifest(folder / "manifests" / "clips.toml").clips[0]
        assert first.start_s == pytest.approx(begins_s, abs=0.001)
        assert [*numbers_of_clips(folder).values()] == expected


def test_a_film_of_which_a_table_states_two_rates_is_refused(tmp_path: Path) -> None:
    lines = [
        "clip_id,movie_id,start_s,end_s,framerate",
        "a-1,a,0,1,25",
        "a-2,a,1,2,23.976",
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    refused = call_obygaze("manifest", "import", "t.csv", cwd=tmp_path)
    assert refused.code == 1
    assert "23.976, and other rows of this film state 25" in refused.stderr
    text = (tmp_path / "t.csv").read_text(encoding="utf-8")
    (tmp_path / "t.csv").write_text(text.replace("23.976", "25.0"), encoding="utf-8")
    call_obygaze("manifest", "import", "t.csv", cwd=tmp_path).ok()
