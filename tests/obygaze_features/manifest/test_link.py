import shlex
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from support.cli import call_obygaze
from support.stores import ARRAYS, made_store
from support.videos import write_video

from obygaze_features.core.errors import FixInput, FixUsage, Mismatch
from obygaze_features.extraction.linking import compare_with_videos
from obygaze_features.manifest.io import check_manifest, read_manifest, write_manifest
from obygaze_features.manifest.link import LinkReport, find_videos, link
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.manifest.spans import FILM_TIMES, span_in_film
from obygaze_features.store import Row, open_store


def test_the_only_clip_of_a_film_may_have_its_id(tmp_path: Path) -> None:
    ada = Clip("dune.ada", "dune", start_s=1.0, end_s=2.0, extra={"annotator": "ada"})
    # Nobody says where alba is in its film: the file is its own.
    clips = (Clip("lake", "lake", start_s=10.0, end_s=20.0), ada, Clip("alba", "alba"))
    manifest = manifest_of(*clips, columns=("annotator",))
    folder = touch(tmp_path, "lake.mp4", "dune.mp4", "alba.mp4")
    report = link(manifest, folder)
    assert report.by_time == ("lake", "dune.ada") and report.by_name == ("alba",)
    linked = report.manifest
    assert (linked["lake"].start_s, linked["lake"].end_s) == (10.0, 20.0)
    assert link(linked, folder).manifest == linked


def touch(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder


def manifest_of(*clips: Clip, columns: tuple[str, ...] = ()) -> Manifest:
    return Manifest("m", Header("d", {}), clips, columns)


def linked(folder: Path, files: tuple[str, ...], *clips: Clip) -> LinkReport:
    return link(manifest_of(*clips), touch(folder, *files))


def part(clip_id: str, film: str, start_s: float = 0.0, end_s: float = 4.0) -> Clip:
    return Clip(clip_id, film, start_s=start_s, end_s=end_s)


def named(clip_id: str, video: str, film: str = "tt01", **options: Any) -> Clip:
    return Clip(clip_id, film, video=video, **options)


def videos(report: LinkReport) -> list[str]:
    return [clip.video for clip in report.manifest]


def test_linked_folders_are_followed_once(tmp_path: Path) -> None:
    touch(tmp_path / "elsewhere", "x.mp4")
    root = touch(tmp_path / "root", "a/y.mp4")
    (root / "z_more").symlink_to(tmp_path / "elsewhere")
    (root / "z_again").symlink_to(tmp_path / "elsewhere")
    (root / "a" / "loop").symlink_to(root)
    (root / "broken.mp4").symlink_to(tmp_path / "none.mp4")
    assert find_videos(root) == ("a/y.mp4", "z_again/x.mp4")


def test_names_that_a_manifest_cannot_hold_are_listed(tmp_path: Path) -> None:
    touch(tmp_path, "a.mp4", "C:x.mp4", "new\nline.mp4")
    Path(str(tmp_path) + "/\udcff.mp4").touch()
    with pytest.raises(FixInput) as caught:
        find_videos(tmp_path)
    wrong = "names of videos are not valid in a manifest"
    shown = r"C:x.mp4, new\nline.mp4, \udcff.mp4"
    assert caught.value.message == f"{wrong}: {shown}"


@pytest.mark.parametrize(
    "file", ["clips/all/tt01_scene_1.MP4", "tt01_scene_001.mkv", "tt01/tt01-001.mp4"]
)
def test_a_clips_own_file_by_any_of_its_names(tmp_path: Path, file: str) -> None:
    clip = named("tt01-001", "tt01/tt01_scene_1.avi", scene=1)
    files = (file, "tt01_scene_11.avi", "tt02_scene_1.avi")
    report = linked(tmp_path, files, clip)
    assert (videos(report), report.by_name) == ([file], ("tt01-001",))
    assert report.manifest.header.video_root == str(tmp_path.resolve())
    assert report.manifest.clips[0].extra["video_name"] == "tt01/tt01_scene_1.avi"


@given(st.data())
def test_a_clip_gets_the_file_that_its_table_names(data: st.DataObject) -> None:
    sign = data.draw(st.sampled_from([".", "-", "_", " "]), "before the number")
    numbers = st.sets(st.integers(1, 30), min_size=1, max_size=3)
    files = ["lake.mp4", "dune.mp4"]
    clips = []
    for film in ("lake", "dune"):
        # Clips of both may have the same number.
        for number in data.draw(numbers, film):
            name = data.draw(st.sampled_from([f"{film}{sign}{number}", f"{number}"]))
            path = f"discs/{film[:2]}/{name}"
            files.append(f"{path}.mp4")
            # Of a number alone, the path says whose file it is.
            ways = [f"{path}.mp4"]
            if name != f"{number}":
                ways += [f"{path}.avi", f"{name}.mp4", name]
            extra = {}
            times = (None, None)
            if data.draw(st.booleans(), "has times"):
                times = (1.0, 2.0)
                extra = dict(zip(FILM_TIMES, ("11.0", "12.0"), strict=True))
            written = data.draw(st.sampled_from(ways), "video")
            clip_id = f"{film}x{number}"
            clips.append(Clip(clip_id, film, None, written, *times, extra=extra))
    with TemporaryDirectory() as folder:
        touch(Path(folder), *files)
        manifest = manifest_of(*clips, columns=FILM_TIMES)
        linked = link(manifest, Path(folder)).manifest
        assert link(linked, Path(folder)).manifest == linked
    of_clips = [name for name in files if "/" in name]
    for clip, before, file in zip(linked, clips, of_clips, strict=True):
        assert clip.video == file
        assert (clip.start_s, clip.end_s) == (before.start_s, before.end_s)


def test_a_part_of_the_films_file_by_its_times(tmp_path: Path) -> None:
    first = Clip("tt01-001", "tt01", 1, start_s=0.0, end_s=12.5)
    others = (Clip("tt01-002", "tt01", 2), part("tt02-001", "tt02"))
    # Clips of scenes that the manifest does not have are no film, and tt01 3 is another one.
    files = ("films/tt01.mp4", "tt01_scene_9.avi", "tt01-010.mp4", "tt011.mkv")
    report = linked(tmp_path, (*files, "tt01 3.mkv"), first, *others)
    assert (report.by_time, report.without) == (("tt01-001",), ("tt01-002", "tt02-001"))
    clip = report.manifest.clips[0]
    assert (clip.video, clip.start_s, clip.end_s) == (files[0], 0.0, 12.5)


def test_a_film_with_the_id_of_another_films_clip_is_asked_about(tmp_path) -> None:
    parts = (part("rocky-1", "rocky", 2.0), part("rocky-2", "rocky", 4.0, 6.0))
    report = linked(tmp_path, ("rocky.mp4", "rocky-2.mp4"), *parts)
    assert report.by_time == ("rocky-1",)
    assert report.ambiguous == {"rocky-2": ("rocky-2.mp4", "rocky.mp4")}


def test_an_invalid_time_in_the_film_names_clip_and_column(tmp_path: Path) -> None:
    for end, what in (
        ("nan", "expected seconds in film_end_s, got 'nan'"),
        ("12", "film_end_s 12 is before film_start_s 62"),
    ):
        cells = {"film_start_s": "62", "film_end_s": end}
        manifest = manifest_of(named("a-1", "", extra=cells), columns=tuple(cells))
        with pytest.raises(FixInput) as caught:
            link(manifest, touch(tmp_path, "tt01.mp4"))
        assert caught.value.message == f"the clip a-1: {what}"


def test_a_blank_in_the_name_of_a_file_is_an_underscore_in_an_id(tmp_path) -> None:
    names = ("Les Yeux.mov", "L'Été.mkv", "Les Yeux-007.mp4")
    clips = (part("Les_Yeux-001", "Les_Yeux"), part("L_Ete-001", "L_Ete"))
    clips = (*clips, Clip("Les_Yeux-007", "Les_Yeux"))
    report = linked(tmp_path, names, *clips)
    assert videos(report) == [*names]
    assert report.unmatched == ()
    # The file with the id itself goes before.
    report = linked(tmp_path, ("Les_Yeux.mov", "Les_Yeux-007.mp4"), *clips)
    assert videos(report) == ["Les_Yeux.mov", names[1], "Les_Yeux-007.mp4"]
    assert report.unmatched == ("Les Yeux-007.mp4", "Les Yeux.mov")


def test_capitals_do_not_count_where_one_film_may_be_meant(tmp_path: Path) -> None:
    films = ("Gilda", "Les_Yeux", "alba", "ALBA", "Brug")
    clips = [part(f"{film}-1", film) for film in films]
    files = ("GILDA.mkv", "LES YEUX.mov", "Alba.mp4", "BRUG.mp4", "brug.mov")
    report = linked(tmp_path, files, *clips)
    assert videos(report) == ["GILDA.mkv", "LES YEUX.mov", "", "", ""]
    assert report.ambiguous == {"Brug-1": ("BRUG.mp4", "brug.mov")}
    assert report.unmatched == ("Alba.mp4",)
    assert report.in_other_spelling == ["GILDA (Gilda)", "LES YEUX (Les_Yeux)"]
    told = "2 video files with the film's name in another spelling: GILDA (Gilda)"
    assert f"{told}, LES YEUX (Les_Yeux)" in report.notes
    # A file of exactly that name goes before.
    report = linked(tmp_path, ("better/Gilda.mkv",), *clips)
    assert videos(report)[0] == "better/Gilda.mkv"
    assert report.in_other_spelling == ["LES YEUX (Les_Yeux)"]


def test_blanks_dots_and_a_year_do_not_count_where_one_film_may_be_meant(tmp_path):
    films = ("NightTrain", "Juno", "Carrie_1976_", "Part_1.1", "a.b", "ab", "L_Ete")
    clips = [part(f"{film}-1", film) for film in films]
    files = (
        "night.train (1954).mkv",
        "Juno_.mp4",
        "juno (2007).mp4",
        "L'E\u0301te\u0301.mp4",
    )
    files = (*files, "Carrie (2013).mp4", "Part 11.mp4", "A B.mp4")
    report = linked(tmp_path, files, *clips)
    assert videos(report) == [files[0], "", "", "", "", "", files[3]]
    assert report.ambiguous == {"Juno-1": ("Juno_.mp4", "juno (2007).mp4")}
    assert report.in_other_spelling == ["night.train (1954) (NightTrain)"]


def test_the_file_of_a_film_with_another_name_is_typed(tmp_path: Path) -> None:
    clips = (part("a", "Night_Train"), part("b", "Juno"), part("c", "Kes"))
    files = ("x/night_train_1954.mkv", "Juno.2007.1080p.mp4", "Kes.mp4", "Kes 2.mp4")
    report = linked(tmp_path, files, *clips)
    assert videos(report) == ["", "", "Kes.mp4"]
    options = "--film Juno=Juno.2007.1080p --film Night_Train=night_train_1954"
    assert (
        f"if these films have another name, link again with {options}" in report.notes
    )
    manifest = manifest_of(*clips)
    names = {"Night Train": "night_train_1954", "Juno": "Juno.2007.1080p.mp4"}
    # What is typed goes before the file of exactly that name.
    report = link(manifest, tmp_path, {**names, "Kes": "Kes 2"})
    assert videos(report) == [*files[:2], "Kes 2.mp4"]
    assert (report.in_other_spelling, report.likely) == ([], {})
    for wrong, problem in (
        ({"Night": "Kes"}, r"no film 'Night' \(did you mean 'Night_Train'\?\)"),
        ({"Juno": "Kess"}, r"no video file 'Kess' \(did you mean 'Kes'\?\)"),
    ):
        with pytest.raises(FixUsage, match=problem):
            link(manifest, tmp_path, wrong)
    write_manifest(manifest_of(*clips[:1]), tmp_path / "manifests" / "m.toml")
    alone = touch(tmp_path / "alone", "night_train_1954.mkv")
    refused = call_obygaze("manifest", "link", "m", "alone", cwd=tmp_path)
    line = f"obygaze manifest link m {alone.name} --film Night_Train=night_train_1954"
    assert f"  Try: {line}" in refused.stderr.splitlines()
    call_obygaze(*line.split()[1:], cwd=tmp_path).ok()
    assert read_manifest("m", workspace=tmp_path).header.commands[-1] == line


FRAMES_IN_FILES = """Film,No,File,First frame,Last frame,mood
Night Train,a,nt_1954.mp4,0,24,calm
Night Train,b,nt_1954.mp4,25,74,wild
Juno,c,JUNO final.mp4,0,49,calm
"""


@pytest.mark.parametrize("rate", ["", ",FPS"])
def test_frames_in_the_files_of_films_get_their_times_there(tmp_path, rate) -> None:
    """One file has 25 frames a second, the other 10."""
    lines = FRAMES_IN_FILES.splitlines()
    rates = [rate, *([",25"] * 2 if rate else [""] * 2), ",10" if rate else ""]
    text = "\n".join(line + cell for line, cell in zip(lines, rates, strict=True))
    (tmp_path / "t.csv").write_text(text, "utf-8")
    refused = call_obygaze("manifest", "import", "t.csv", cwd=tmp_path)
    line = refused.stderr.splitlines()[-1].removeprefix("  Try: obygaze ")
    typed = shlex.split(line)
    if rate:
        typed += ["--map", "video=File"]
    else:
        assert "video=File" in typed
    said = call_obygaze(*typed, cwd=tmp_path).ok().stderr
    assert "3 clips with frames in the files of films: manifest link finds" in said
    folder = tmp_path / "videos"
    folder.mkdir()
    write_video(folder / "nt_1954.mp4")
    write_video(folder / "JUNO final.mp4", rate=10, tick=Fraction(1, 10))
    call_obygaze("manifest", "link", "t", "videos", cwd=tmp_path).ok()
    files = ["nt_1954.mp4", "nt_1954.mp4", "JUNO final.mp4"]
    expected = [(0.0, 1.0), (1.0, 3.0), (0.0, 5.0)]
    for _ in range(2):
        linked = read_manifest("t", workspace=tmp_path)
        assert [clip.video for clip in linked] == files
        assert [(clip.start_s, clip.end_s) for clip in linked] == expected
        assert linked.columns.count("film_file") == 1
        # Linked again, the same frames have the same times.
        call_obygaze("manifest", "link", "t", "videos", cwd=tmp_path).ok()
    write_video(folder / "nt_1954.mp4", numbers=range(50))
    refused = call_obygaze("manifest", "link", "t", "videos", cwd=tmp_path)
    assert "expected frames 0 to 49, got frame 74\n" in refused.stderr
    # The last frame of a table that counts from 1 is the number of frames.
    write_video(folder / "nt_1954.mp4", numbers=range(74))
    refused = call_obygaze("manifest", "link", "t", "videos", cwd=tmp_path)
    said = (
        "expected frames 0 to 73, got frame 74; if the table counts from 1, subtract 1"
    )
    assert said in refused.stderr


def test_two_films_in_one_video_file_are_refused(tmp_path: Path) -> None:
    times = {"start_s": 0.0, "end_s": 4.0}
    clips = [named(film, "v.mp4", film, **times) for film in ("alba", "brug")]
    with pytest.raises(FixInput) as caught:
        link(manifest_of(*clips), touch(tmp_path, "v.mp4"))
    assert caught.value.message == (
        "expected one film per video file, got several: 'v.mp4 (alba, brug)'"
    )
    # An import of a table whose videos are there says the same.
    table = tmp_path / "t.csv"
    table.write_text("clip_id,movie_id,video\np,alba,v.mp4\nq,brug,v.mp4\n")
    refused = call_obygaze("manifest", "import", "t.csv", cwd=tmp_path)
    assert refused.code == 1 and "v.mp4 (alba, brug)" in refused.stderr


FILES = (
    *("a.mp4", "b.mkv", "a-1.mp4", "a-2.avi", "b-1.mp4", "a_scene_3.mp4"),
    *("x1.avi", "a/x2.mp4", "b/x2.mp4", "x3.mp4"),
)


@st.composite
def placed_clips(draw: st.DrawFn) -> Manifest:
    """Clips of two films, of which a file, times in it and times in the film may be known."""
    clips = []
    for film in "ab":
        for number in (1, 2, 3):
            in_film = (10.0 * number, 10.0 * number + 5.0)
            names = ("", "", f"{film}.mp4", f"{film}-{number}.mp4", f"x{number}.avi")
            video = draw(st.sampled_from(names))
            in_file = (0.0, 5.0) if video and draw(st.booleans()) else in_film
            start_s, end_s = in_file if draw(st.booleans()) else (None, None)
            cells = map(repr, in_film) if draw(st.booleans()) else ("", "")
            scene = draw(st.sampled_from((None, number)))
            extra = dict(zip(FILM_TIMES, cells, strict=True))
            placed = (scene, video, start_s, end_s)
            clips.append(Clip(f"{film}-{number}", film, *placed, extra=extra))
    return Manifest("films", Header("films"), tuple(clips), FILM_TIMES)


FOLDERS = st.lists(st.sampled_from(FILES), min_size=1, max_size=7, unique=True)


@given(placed_clips(), FOLDERS, FOLDERS)
def test_a_link_to_another_folder_and_back_changes_nothing(manifest, here, there):
    with TemporaryDirectory() as place:
        folders = (Path(place, "here"), Path(place, "there"))
        for folder, names in zip(folders, (here, there), strict=True):
            touch(folder, *names)
        try:
            linked = link(manifest, folders[0]).manifest
            elsewhere = link(linked, folders[1]).manifest
        except FixInput as error:
            # One file of two films is refused, which another test is about.
            assert "expected one film per video file" in error.message
            reject()
        assert link(elsewhere, folders[0]).manifest == linked
        assert elsewhere == link(manifest, folders[1]).manifest
    for clip in manifest:
        assert span_in_film(linked[clip.clip_id]) == span_in_film(clip)
    check_manifest(linked)


def test_a_clip_that_ends_after_its_video_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "videos"
    folder.mkdir()
    for film in ("lake", "pier"):
        write_video(folder / f"{film}.mp4")
    (folder / "dune.mp4").write_bytes(b"no video")
    ends = {"lake-1": 4.0, "lake-2": 4.08, "lake-3": 5.0, "dune-1": 9.0, "alba-1": 9.0}
    clips = [Clip(name, name[:4], start_s=0.0, end_s=end) for name, end in ends.items()]
    clips.append(named("pier-1", "pier.mp4", "pier", start_s=1.0, end_s=44.5))
    path = tmp_path / "manifests" / "m.toml"
    write_manifest(manifest_of(*clips), path)
    done = call_obygaze("manifest", "link", "m", folder, cwd=tmp_path).ok()
    both = "lake-3 (5.0 s, video 4.0 s), pier-1 (44.5 s, video 4.0 s)"
    assert f"2 clips ending after the video: {both}\n" in done.stderr
    done = call_obygaze("manifest", "link", "m", folder, "--json", cwd=tmp_path).ok()
    assert done.json()["past_end"] == {"lake-3": [5.0, 4.0], "pier-1": [44.5, 4.0]}


def test_videos_that_cannot_be_opened_are_named(tmp_path: Path) -> None:
    """A file without pictures may be heard, and a whole file is not opened."""
    folder = tmp_path / "videos"
    folder.mkdir()
    whole = write_video(folder / "lake.mp4").read_bytes()
    cut = {"dune": whole[: len(whole) // 2], "alba": b"", "pier": b"no video"}
    for film, content in cut.items():
        (folder / f"{film}.mp4").write_bytes(content)
    with av.open(str(folder / "wave.mp4"), "w") as container:
        stream = container.add_stream("aac", rate=16_000)
        container.mux(stream.encode(None))
    clips = [part(f"{film}-1", film) for film in ("alba", "dune", "lake", "wave")]
    clips.append(Clip("pier", "pier"))
    write_manifest(manifest_of(*clips), tmp_path / "manifests" / "m.toml")
    done = call_obygaze("manifest", "link", "m", "videos", "--json", cwd=tmp_path).ok()
    assert done.json()["unreadable"] == {
        "alba.mp4": "the file is empty",
        "dune.mp4": "the file ends before its table of contents (incomplete download)",
    }
    named_files = (
        "alba.mp4: the file is empty, dune.mp4: the file ends before its table"
    )
    assert f"Warning: 2 linked video files cannot be read: {named_files}" in done.stderr


def test_a_clip_after_the_end_of_a_video_that_was_cut_short_is_named(tmp_path):
    whole = write_video(
        tmp_path / "whole.mp4",
        options={"bf": "0"},
        container_options={"movflags": "faststart"},
    )
    with av.open(str(whole)) as container:
        positions = [packet.pos for packet in container.demux(video=0)]
    # Of 100 pictures, 25 a second, the first 50 are left.
    (tmp_path / "lake.mp4").write_bytes(whole.read_bytes()[: positions[50]])
    clips = [Clip("lake-1", "lake", 1, "lake.mp4", 0.0, 2.0)]
    clips.append(Clip("lake-2", "lake", 2, "lake.mp4", 2.0, 4.0))
    header = Header("films", {}, video_root=str(tmp_path))
    past_end, unreadable = compare_with_videos(Manifest("films", header, tuple(clips)))
    assert past_end == {"lake-2": (4.0, pytest.approx(2.0))}
    assert not unreadable


def test_the_file_of_a_scene_is_of_no_clip_where_the_scene_has_several(tmp_path):
    first = Clip("tt01-a", "tt01", 1, start_s=0.0, end_s=5.0)
    second = Clip("tt01-b", "tt01", 1, start_s=5.0, end_s=9.0)
    file = ("tt01_scene_1.mp4",)
    assert videos(linked(tmp_path, file, first, second)) == ["", ""]
    assert videos(linked(tmp_path, file, first)) == [*file]


def test_a_name_that_films_share_needs_the_film(tmp_path: Path) -> None:
    clips = [named("a-1", "scene_1.mp4", "tt01")]
    clips += [named(f"b-{n}", f"scene_{n}.mp4", "tt02") for n in (1, 2, 3)]
    of_film = "tt02 - Film/scene_1.mkv"
    files = ("scene_1.mp4", of_film, "scene_2.mp4", "tt01/scene_3.mp4")
    report = linked(tmp_path, files, *clips)
    # scene_1.mp4 could be of either film, and a scene 3 of another film is not this one's.
    assert videos(report) == ["", of_film, "scene_2.mp4", ""]
    assert report.without == ("a-1", "b-3")


def test_times_in_the_film_are_compared_after_a_link_to_own_files(tmp_path) -> None:
    frames = {"start_frame": "200", "end_frame": "299", "framerate": "25"}
    of_times = part("lake-1", "lake", 8.0, 12.0)
    of_frames = replace(of_times, clip_id="lake-2", extra=frames)
    # This table names the file, so that times in the film are not times in the file.
    of_file = named(
        "lake-3",
        "lake-3.mp4",
        "lake",
        extra={"film_start_s": "8.0", "film_end_s": "12.0"},
    )
    clips = (of_times, of_frames, of_file)
    files = ("lake-1.mp4", "lake-2.mp4", "lake-3.mp4")
    own = linked(tmp_path, files, *clips).manifest.clips

    def match(name: str, rows: Iterable[Row]) -> list[int]:
        values = {"clip": np.zeros((3, 4), np.float32)}
        store = made_store(tmp_path / name, [*rows], values, arrays=ARRAYS[:1])
        return store.match(own).tolist()

    # Stores of own files state no times, and a table of the same clips has the same times.
    assert match("own", map(Row.of_clip, own)) == [0, 1, 2]
    assert match("parts", map(Row.of_clip, clips)) == [0, 1, 2]
    # In another copy of the film, the frames are the same.
    copy = replace(of_frames, start_s=8.5, end_s=12.5)
    in_file = replace(of_file, start_s=0.0, end_s=4.0)
    assert match("copy", map(Row.of_clip, (of_times, copy, in_file))) == [0, 1, 2]
    later = replace(of_times, start_s=12.0, end_s=16.0)
    with pytest.raises(Mismatch, match="'lake-1' is 8 s to 12 s, not 12 s to 16 s"):
        match("later", map(Row.of_clip, (later, of_frames, of_file)))


def test_a_store_of_own_files_grows_and_is_read_with_times_in_the_film(tmp_path):
    folder = tmp_path / "videos"
    folder.mkdir()
    path = tmp_path / "manifests" / "m.toml"
    clips = [part("lake-1", "lake", 0.0, 4.0), part("lake-2", "lake", 4.0, 8.0)]
    for n_clips in (1, 2):
        write_video(folder / f"lake-{n_clips}.mp4")
        write_manifest(manifest_of(*clips[:n_clips]), path, force=True)
        call_obygaze("manifest", "link", "m", folder, cwd=tmp_path).ok()
        made = call_obygaze("extract", "run", "m", "-b", "descriptors", cwd=tmp_path)
        assert f"{n_clips} ok" in made.ok().stdout
    store = open_store(tmp_path / "stores" / "m.descriptors")
    own = read_manifest(path)
    assert own["lake-2"].start_s is None and span_in_film(own["lake-2"]) == (4.0, 8.0)
    assert store.match([*own]).tolist() == [0, 1]
