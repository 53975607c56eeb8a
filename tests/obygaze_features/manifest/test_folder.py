import re
from functools import partial
from pathlib import Path

import pytest
from support.generated_videos import CONTAINERS

from obygaze_features.core.errors import FixInput, ObygazeWarning
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.cut_films import make_windows
from obygaze_features.manifest.adapters.folder import read
from obygaze_features.manifest.link import link
from obygaze_features.manifest.times import film_times
from obygaze_features.manifest.windows import Grid


def videos(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def test_each_video_is_a_clip(tmp_path: Path) -> None:
    names = ("lake-001.mp4", "lake_scene_002.avi", "Amélie 1.mkv", "Lola_2001.mp4")
    folder = videos(tmp_path / "films", *names, "a/x.mp4", "b/x.mp4", "notes.txt")
    made = read(folder).manifest
    assert made.name == "films"
    assert made.header.video_root == str(folder)
    assert {(c.clip_id, c.movie_id, c.scene, c.video) for c in made} == {
        ("Amelie_1", "Amelie_1", None, "Amélie 1.mkv"),
        ("Lola_2001", "Lola_2001", None, "Lola_2001.mp4"),
        ("a-x", "a", None, "a/x.mp4"),
        ("b-x", "b", None, "b/x.mp4"),
        ("lake-001", "lake", 1, "lake-001.mp4"),
        ("lake_scene_002", "lake", 2, "lake_scene_002.avi"),
    }
    linked = link(made, folder).manifest
    assert [clip.video for clip in linked] == [clip.video for clip in made]


def test_folders_that_cannot_be_imported(tmp_path: Path) -> None:
    with pytest.raises(FixInput, match="no video in this folder"):
        read(videos(tmp_path / "empty", "a.txt"))
    both = "two videos for the clip 'a-x': a/x.mkv and a/x.mp4"
    with pytest.raises(FixInput, match=re.escape(both)):
        read(videos(tmp_path / "twice", "a/x.mkv", "a/x.mp4"))
    with pytest.raises(FixInput) as caught:
        read(videos(tmp_path / "signs", "...mp4"))
    assert "is not an id" in caught.value.details[0]


def test_two_films_do_not_become_one(tmp_path: Path) -> None:
    for number, (one, other, names) in enumerate(
        (
            ("x/y/1.mp4", "x_y/2.mp4", "'x/y' and 'x_y'"),
            ("Alba.mp4", "alba.mkv", "'Alba' and 'alba'"),
        )
    ):
        with pytest.raises(FixInput, match=f"{names} both become"):
            read(videos(tmp_path / f"films{number}", one, other))


def test_a_film_named_in_japanese_is_a_clip(tmp_path: Path) -> None:
    (clip,) = read(videos(tmp_path / "signs", "映画.mp4")).manifest
    # sha256 of the name in UTF-8, by another program: printf 映画 | sha256sum
    assert (clip.clip_id, clip.video) == ("id-d626ec", "映画.mp4")


def test_parts_of_a_film_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = [f"lake/part{n}.mp4" for n in (1, 2, 9, 10, 11)]
    made = read(videos(tmp_path, *reversed(names), "alba/cd1.avi", "alba/CD2.avi"))
    of_lake = [clip for clip in made.manifest if clip.movie_id == "lake"]
    assert [clip.video for clip in of_lake] == names
    times = film_times(of_lake, length_of=lambda _: 10.0)
    assert times.spans["part10"] == (30.0, 40.0)


def test_files_of_a_folder_are_read_or_named(tmp_path: Path) -> None:
    endings = {ending for kinds in CONTAINERS.values() for ending in kinds}
    names = [f"{ending}.{ending}" for ending in endings | {"mts", "gif", "wmv"}]
    folder = videos(tmp_path / "films", *names, "a.xyz", "b.XYZ", "c", "d.png", "e.srt")
    (folder / "away.mp4").symlink_to(tmp_path / "none.mp4")
    (folder / ".hidden").touch()
    said = (
        r"ignored files that are not videos: 2 \.xyz, 1 broken link, 1 without an extension, 1"
        r" \.png$"
    )
    with pytest.warns(ObygazeWarning, match=said):
        manifest = read(folder).manifest
    assert sorted(clip.video for clip in manifest) == sorted(names)
    with pytest.warns(ObygazeWarning, match=said):
        link(manifest, folder)
    others = videos(tmp_path / "others", "a.xyz")
    workspace = Workspace(tmp_path / "w")
    for reading in (
        partial(read, others),
        partial(link, manifest, others),
        partial(make_windows, others, Grid(window=1), workspace=workspace, name="w"),
    ):
        with (
            pytest.warns(ObygazeWarning, match=r"files that are not videos: 1 \.xyz$"),
            pytest.raises(FixInput, match="no video in this folder"),
        ):
            reading()
