from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from obygaze_features.core.errors import FixInput, FixUsage, NotFound, ObygazeError
from obygaze_features.core.made_ids import ascii_id
from obygaze_features.manifest import read_manifest, write_manifest
from obygaze_features.manifest.adapters.folder import read
from obygaze_features.manifest.clip_table import ClipTable
from obygaze_features.manifest.io import check_manifest
from obygaze_features.manifest.listing import (
    film_columns,
    film_title,
    film_titles,
    manifest_columns,
)
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.manifest.overview import show_manifest
from obygaze_features.manifest.stats import compute_stats

HEADER = Header(
    "films", {"Look": "visual", "Speech": "speech"}, citation="A & B <2024>"
)
TIMES = {"video": "a.mp4", "start_s": 0.0, "end_s": 2.5}
BOTH = {"level": "S", "concepts": ("Look", "Speech")}
SPEECH = {"level": "HN", "concepts": ("Speech",)}
CLIPS = (
    Clip("tt1-001", "tt1", 1, **TIMES, **BOTH, extra={"fold:k": "0", "n": "x"}),
    Clip("tt1-002", "tt1", None, **SPEECH, extra={"fold:k": "", "n": ""}),
    Clip("tt2-001", "tt2", 7, extra={"fold:k": "1", "n": ""}),
)
MANIFEST = Manifest("films", HEADER, CLIPS, ("fold:k", "n"))


def test_an_unknown_id_is_a_key_error_that_suggests_a_near_one() -> None:
    with pytest.raises(KeyError) as caught:
        MANIFEST["tt1-01"]
    assert isinstance(caught.value, NotFound) and isinstance(caught.value, ObygazeError)
    assert str(caught.value) == (
        "no clip 'tt1-01' (did you mean 'tt1-001'?)\n  in: films\n"
        "  Try: use one of tt1-001, tt1-002, tt2-001"
    )
    with pytest.raises(NotFound, match="no clip 0"):
        MANIFEST[0]  # type: ignore[index]
    with pytest.raises(NotFound, match="it has no clip"):
        MANIFEST.with_clips(())["a"]


def test_a_new_column_is_of_known_clips_has_a_name_of_its_own_and_texts() -> None:
    """`level` is a field of a clip, and the NaN of pandas would be the word `nan`."""
    for column, clip_id in (("level", "tt1-001"), ("mood", "tt9-001")):
        with pytest.raises((FixUsage, NotFound)):
            MANIFEST.with_column(column, {clip_id: "S"})
    nan: Any = float("nan")
    with_nan = [replace(CLIPS[0], extra={"mood": nan})]
    for make in (
        lambda: MANIFEST.with_column("mood", {"tt1-001": nan}),
        lambda: check_manifest(Manifest("m", HEADER, with_nan, ("mood",))),
    ):
        with pytest.raises(FixInput, match="expected text in the column 'mood'"):
            make()


def test_a_data_frame_has_typed_columns() -> None:
    frame = MANIFEST.to_frame()
    assert list(frame.index) == ["tt1-001", "tt1-002", "tt2-001"]
    facts = ["movie_id", "scene", "video", "start_s", "end_s", "level", "concepts"]
    assert list(frame.columns) == [*facts, "fold:k", "n"]
    assert frame["concepts"].tolist() == ["Look|Speech", "Speech", ""]
    assert frame["scene"].isna().tolist() == [False, True, False]
    assert frame["fold:k"].dropna().tolist() == [0, 1]
    assert str(frame["scene"].dtype) == str(frame["fold:k"].dtype) == "Int64"
    assert frame["end_s"].dtype == float and frame["end_s"].iloc[0] == 2.5
    assert len(MANIFEST.with_clips(()).to_frame()) == 0


def test_columns_of_numbers_are_floats_in_a_data_frame_and_names_are_text() -> None:
    cells = {
        "film_start_s": ("0.0", "2.7083333333333335"),
        **{"framerate": ("24", "24"), "start_frame": ("", ""), "rating": ("2.5", "")},
        **{"draw_probability": ("0.25", "0.5"), "annotator": ("1", "2")},
        **{"code": ("007", "8"), "key": ("90071992547409931", "1")},
        **{"mixed": ("1", "x"), "none": ("", ""), "film_file": ("1", "2")},
    }
    clips = []
    for number in range(2):
        extra = {column: both[number] for column, both in cells.items()}
        clips.append(Clip(f"{number}", "12", extra=extra))
    frame = Manifest("films", HEADER, clips, tuple(cells)).to_frame()
    assert frame.index.tolist() == ["0", "1"]
    assert frame["movie_id"].tolist() == ["12", "12"]
    floats = [name for name in cells if frame[name].dtype == float]
    assert floats == [*cells][:5]
    assert frame["film_start_s"].tolist() == [0.0, 2.7083333333333335]
    assert frame["rating"].mean() == 2.5 and frame["rating"].isna().tolist() == [0, 1]
    assert frame["start_frame"].isna().all()
    texts = [name for name in cells if name not in floats]
    assert all(frame[name].tolist() == [*cells[name]] for name in texts)


def test_an_expression_shows_the_films_and_the_columns_that_it_names() -> None:
    clips = []
    for number, rating in enumerate(("2", "3.5", "4")):
        extra = {"rating": rating, "other": "x"}
        video = {"video": "a.mp4", "start_s": 0.0, "end_s": 2.0}
        clips.append(Clip(f"a-{number}", "alba", level="S", **video, extra=extra))
    manifest = Manifest("films", HEADER, clips, ("rating", "other"))
    page = show_manifest(manifest, where="rating > 2.5 and start_s < 1")
    header, *rows = [line.split() for line in str(page).splitlines()[-3:]]
    shown = ["clip_id", "movie_id", "start", "end", "level", "rating", "start_s"]
    assert header == shown
    times = ["0:00:00.000", "0:00:02.000"]
    assert rows == [
        ["a-1", "alba", *times, "S", "3.5", "0.000"],
        ["a-2", "alba", *times, "S", "4", "0.000"],
    ]
    assert "movie_id" not in str(show_manifest(manifest))


def test_films_of_obygaze12_have_titles_anywhere() -> None:
    assert film_titles(["tt0467406", "lake"]) == {"tt0467406": "Juno"}


def test_the_title_of_a_scene_is_not_that_of_its_film() -> None:
    scenes = ("The dinner", "The street")
    clips = tuple(Clip(f"a-{i}", "a", i, extra={"title": scenes[i]}) for i in (0, 1))
    manifest = Manifest("films", Header("Films"), clips, ("title",))
    assert film_titles(["a"], manifest) == compute_stats(manifest).films == {}
    columns = manifest_columns(manifest)
    assert columns["title"] == list(scenes) and "movie_title" not in columns


NAMES = ("Le Nouveau Film (à voir)", "Été 36", "Große Liebe", "lake", "7 Samurai")


def test_a_film_that_is_called_as_its_file_has_this_title(tmp_path: Path) -> None:
    (tmp_path / "films").mkdir()
    for name in NAMES:
        (tmp_path / "films" / f"{name}.mp4").touch()
    manifest = read(tmp_path / "films").manifest
    file = tmp_path / "manifests" / "films.toml"
    write_manifest(manifest, file)
    again = read_manifest(file)
    assert film_titles(again.films, again) == {
        ascii_id(name): name for name in NAMES if ascii_id(name) != name
    }
    assert {film_title(clip) or clip.movie_id for clip in again} == set(NAMES)
    # Cells of tables have single blanks, and names in other files may have two.
    assert ascii_id("Зеркало  1975") == ascii_id("Зеркало 1975")


def test_scenes_of_a_folder_have_the_title_of_their_film(tmp_path: Path) -> None:
    for name in ("Été 36/x-001.mp4", "Le grand-002.mp4", "lake-001.mp4"):
        (tmp_path / "films" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "films" / name).touch()
    manifest = read(tmp_path / "films").manifest
    assert film_titles(manifest.films, manifest) == {
        "Ete_36": "Été 36",
        "Le_grand": "Le grand",
    }


COUNTED = ("start_frame", "end_frame", "framerate")


def test_columns_of_a_manifest_named_as_times_are_its_own() -> None:
    extra = {"start": "frame 7", "movie_title": ""}
    clip = Clip("a-1", "tt0467406", start_s=1.0, end_s=2.0, extra=extra)
    manifest = Manifest("m", Header("m", {}), (clip,), ("start", "movie_title"))
    columns = manifest_columns(manifest)
    assert columns["start"] == ["frame 7"]
    assert columns["end"] == ["0:00:02.000"]
    assert columns["movie_title"] == ["Juno"]


def test_times_that_only_the_manifest_states_are_its_own() -> None:
    titled = {"movie_title": "The Lake"}
    clip = Clip("a-1", "lake", start_s=1.0, end_s=2.0, extra=titled)
    manifest = Manifest("m", Header("m", {}), (clip,), ("movie_title",))
    other = Clip("a-2", "brook", start_s=1.0, end_s=2.0)
    manifest = replace(manifest, clips=(clip, other))
    facts = ClipTable.of(["a-1", "a-2"], ["lake", "sea"], None, [None, 6.0])
    assert film_columns(facts, manifest) == {
        "movie_id": ["lake", "sea"],
        "movie_title": ["The Lake", None],
        "start_s": [1.0, None],
        "end_s": [2.0, 6.0],
        "start": ["0:00:01.000", None],
        "end": ["0:00:02.000", "0:00:06.000"],
    }


def test_frames_are_listed_as_a_table_states_them() -> None:
    extra = {"start_frame": "25", "end_frame": "49.0", "framerate": "24000/1001"}
    clip = Clip("a-1", "lake", start_s=1.0, end_s=2.0, extra=extra)
    facts = ClipTable.of_clips([clip, Clip("a-2", "sea")])
    columns = film_columns(facts, None)
    assert columns["start_frame"] == ["25", ""]
    assert columns["end_frame"] == ["49", ""]
    assert columns["framerate"] == ["23.976", ""]
    counted = [[columns[name][n] for name in COUNTED] for n in (0, 1)]
    rows = [
        {"clip_id": one, **dict(zip(COUNTED, cells, strict=True))}
        for one, cells in zip(("a-1", "a-2"), counted, strict=True)
    ]
    again = ClipTable.of_cells(rows)
    for name in COUNTED:
        np.testing.assert_array_equal(again.column(name), facts.column(name))
