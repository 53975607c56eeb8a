from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import nan
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from support.cli import Result, call_obygaze
from support.video_kinds import KINDS, Made
from support.videos import read_numbers, write_video

import obygaze as og
from obygaze_features.core.errors import FixInput, FixUsage, NotFound, ObygazeError
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction import cut_films
from obygaze_features.extraction.clips import Failure, RowJob, ViewedClip, plan_clips
from obygaze_features.extraction.cut_films import make_windows, write_windows
from obygaze_features.extraction.decoding import RowDecoder
from obygaze_features.manifest.io import read_manifest, write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.manifest.windows import CutFilm, Grid, check_windows
from obygaze_features.store import open_store
from obygaze_features.video import DecodePool, PictureView, decode_clip
from obygaze_features.video.container import BadVideo

APART = Grid(16, 16)
OVERLAPPING = Grid(16, 4)
OF_SECONDS = Grid(seconds=1, every=0.4)
CUT = (
    ("mp4_h264_open_groups", OVERLAPPING),
    ("mkv_variable_rate", OF_SECONDS),
    ("mp4_edit_list", OF_SECONDS),
    ("avi_packed_b", APART),
    ("mkv_h264_short_groups", OF_SECONDS),
    # Its last packet says that it lasts a millisecond.
    ("mkv_mpeg4_without_times", Grid(10, 10)),
)


def sampled(numbers: list[int], count: int) -> list[int]:
    return [numbers[i * len(numbers) // count] for i in range(count)]


def pictures_of(
    grid: Grid, window: int, numbers: list[int], times: list[float]
) -> list[int]:
    """The numbers that a window should have, by plain loops over the times of the pictures."""
    if grid.seconds:
        start = window * grid.every - 1e-6
        end = start + grid.seconds
        return [n for n, t in zip(numbers, times, strict=True) if start <= t < end]
    return numbers[window * grid.stride :][: grid.window]


def film_of(kind: str, folder: Path) -> Made:
    """A film of a kind, alone in the folder of films; some kinds write other files beside it."""
    (folder / "made").mkdir()
    (folder / "films").mkdir()
    made = KINDS[kind](folder / "made")
    return replace(made, path=made.path.rename(folder / "films" / made.path.name))


@pytest.fixture(scope="module")
def pool() -> Iterator[DecodePool]:
    """Two processes that decode for many tests: starting them takes longer than their work."""
    with DecodePool(2) as running:
        yield running


def decoded(
    films: Path, grid: Grid, view: PictureView, pool: DecodePool, folder: Path
) -> tuple[Manifest, list[ViewedClip | Failure]]:
    """The windows of films, and what is decoded of each."""
    workspace = Workspace(folder)
    manifest, _ = make_windows(films, grid, workspace=workspace, name="w")
    indexes = str(workspace.folder("indexes"))
    decoder = RowDecoder(plan_clips(manifest), pool, 8, 10**9, indexes)
    jobs = [RowJob(row, (view,)) for row in range(len(manifest))]
    return manifest, [one.views[view] for one in decoder.rows(jobs)]


@pytest.mark.parametrize(("kind", "grid"), CUT, ids=str)
def test_a_window_holds_exactly_its_pictures(kind, grid, tmp_path, pool):
    made = film_of(kind, tmp_path)
    times = made.times_s or [n / 25 for n in range(len(made.numbers))]
    view = PictureView(4)
    manifest, clips = decoded(tmp_path / "films", grid, view, pool, tmp_path)
    assert len(clips) == len(manifest) > 3
    for window, clip in enumerate(clips):
        expected = pictures_of(grid, window, made.numbers, times)
        assert isinstance(clip, ViewedClip)
        assert read_numbers(clip.pictures[clip.rows]) == sampled(expected, 4), window


@pytest.mark.parametrize("tick", [Fraction(1, 1000), Fraction(1, 24000)])
def test_windows_of_pictures_have_the_times_of_the_file(tick, tmp_path, pool) -> None:
    """A container may round the times of 23.976 pictures a second to milliseconds."""
    rate = Fraction(24000, 1001)
    late_s = 1.5
    exact = [late_s + float(n / rate) for n in range(96)]
    ticks = [round(time_s / float(tick)) for time_s in exact]
    (tmp_path / "films").mkdir()
    made = {"tick": tick, "rate": rate, "ticks": ticks, "size": (64, 48)}
    write_video(tmp_path / "films" / "a.mkv", numbers=range(96), audio=True, **made)
    view = PictureView(16)
    manifest, clips = decoded(tmp_path / "films", APART, view, pool, tmp_path)
    assert len(clips) == 6
    for n, (window, clip) in enumerate(zip(manifest, clips, strict=True)):
        assert isinstance(clip, ViewedClip)
        numbers = read_numbers(clip.pictures[clip.rows])
        assert numbers == [*range(16 * n, 16 * n + 16)]
        # Matroska has milliseconds.
        assert window.start_s == pytest.approx(exact[16 * n], abs=0.00051)
        assert window.clip_id == f"a_{window.start_s:.3f}-{window.end_s:.3f}"
        assert window.extra == {"framerate": "23.976"}


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("films")
    for number, name in enumerate(("tt1.mkv", "tt2.mp4")):
        numbers = range(100 * number, 100 * number + 90 + number)
        write_video(folder / name, numbers=numbers, size=(64, 48), options={"g": "50"})
    return folder


def windows(workspace: Path, films: Path, *grid: str) -> None:
    made = call_obygaze("-C", workspace, "manifest", "windows", films, "-o", "w", *grid)
    assert made.code == 0, made.stderr


def test_windows_of_a_part_of_a_film_are_refused(films: Path, tmp_path: Path) -> None:
    times = {"film_start_s": "3", "film_end_s": "5"}
    clips = (Clip("x-1", "x", None, "tt1.mkv", 0.0, 2.0, extra=times),)
    header = Header("Films", video_root=str(films))
    other = Manifest("other", header, clips, tuple(times))
    write_manifest(other, tmp_path / "manifests" / "other.toml")
    grid = Grid(seconds=2, every=1)
    here = Workspace(tmp_path)
    with pytest.raises(FixInput, match="x-1 begins at 0 s of this file and 3 s of the"):
        make_windows("other", grid, workspace=here, name="w")


def test_invalid_films_and_grids(films: Path, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    both = Grid(16, 8, seconds=2, every=1)
    for grid in (Grid(), Grid(16), both, Grid(16, -4), Grid(seconds=nan, every=1)):
        with pytest.raises(FixUsage):
            grid.check()
    with pytest.raises(FixUsage, match="got none"):
        Grid().check()
    with pytest.raises(FixUsage, match=r"got window 8, seconds 3$"):
        write_windows(films, "w", window=8, seconds=3, workspace=tmp_path)
    (tmp_path / "films").mkdir()
    (tmp_path / "films" / "bad.mp4").write_bytes(b"not a video")
    with pytest.raises(FixInput, match="1 film"):
        make_windows(tmp_path / "films", Grid(16, 16), workspace=workspace, name="w")
    with pytest.raises(FixInput, match="expected a folder of films, got a video"):
        make_windows(
            tmp_path / "films/bad.mp4", Grid(16, 16), workspace=workspace, name="w"
        )
    with pytest.raises(NotFound) as error:
        workspace.existing_manifest(str(tmp_path / "films/bad.mp4"))
    assert error.value.hint == f"obygaze manifest import {tmp_path / 'films'}"
    (tmp_path / "films" / "bad.mp4").rename(tmp_path / "bad.mp4")
    write_video(tmp_path / "films" / "a.mkv", numbers=range(15), size=(64, 48))
    with pytest.raises(FixInput, match="every film is shorter than one window"):
        make_windows(tmp_path / "films", Grid(16, 16), workspace=workspace, name="w")
    # Of 64 pictures in 2.56 s, each is shown for .04 s, in the mean where the rate varies.
    for fps in (25.0, 0.0):
        film = CutFilm("a", "a.mkv", 64, fps, 2.56)
        with pytest.raises(FixUsage, match="a window has at least one picture"):
            cut_films.refuse_short(Grid(seconds=0.03, every=1), film)
        cut_films.refuse_short(Grid(seconds=0.04, every=0.04), film)
    with pytest.raises(ObygazeError, match="windows of 16 pictures have no times"):
        check_windows(Grid(16, 16), [film])
    film = CutFilm("a", "a.mkv", 64, 25.0, 2.56)
    told = "more than a millisecond between the starts"
    with pytest.raises(ObygazeError, match=told):
        check_windows(Grid(seconds=1, every=0.001), [film])


def test_a_manifest_of_another_unit_is_refused(films: Path, tmp_path: Path) -> None:
    windows(tmp_path, films, "--window", "16")
    file = tmp_path / "manifests" / "w.toml"
    text = file.read_text()
    file.write_text(text.replace('unit = "clip"', 'unit = "window"'))
    with pytest.raises(FixInput) as error:
        read_manifest(file)
    assert "unit: must be one of clip, got 'window'" in error.value.details[0]
    assert "make the manifest again" in error.value.hint


def test_windows_of_a_damaged_film_fail_as_its_clips(tmp_path, pool) -> None:
    """The end of a window may be where pictures are missing."""
    rng = np.random.default_rng(0)
    made = film_of("mkv_variable_rate", tmp_path)
    data = bytearray(made.path.read_bytes())
    for _ in range(3):
        at = int(rng.integers(len(data) // 10, len(data) - 200))
        data[at : at + 150] = rng.bytes(150)
    made.path.write_bytes(data)
    view = PictureView(6)
    grid = Grid(seconds=round(float(rng.uniform(0.1, 0.4)), 3), every=0.3)
    manifest, clips = decoded(tmp_path / "films", grid, view, pool, tmp_path)
    reasons = []
    for window, clip in zip(manifest, clips, strict=True):
        times = {"start_s": window.start_s, "end_s": window.end_s}
        try:
            single = decode_clip(made.path, view, **times)
        except BadVideo as error:
            assert clip == Failure.of(error)
            reasons.append(error.reason)
        else:
            assert isinstance(clip, ViewedClip)
            pictures = clip.pictures[clip.rows]
            assert pictures.tobytes() == single.pictures.tobytes()
    assert {"damaged", "truncated"} & {*reasons}


def test_a_film_without_its_end_is_named(tmp_path: Path) -> None:
    """It has fewer windows than the film, and nothing of the missing part can fail."""
    folder = tmp_path / "films"
    folder.mkdir()
    whole = write_video(folder / "whole.avi", "mpeg4", options={"g": "12"})
    words = ("manifest", "windows", folder, "-o", "w", "--seconds", "0.2", "--force")
    done = call_obygaze(*words, cwd=tmp_path).ok()
    assert not done.stderr
    data = whole.read_bytes()
    (folder / "cut.avi").write_bytes(data[: int(len(data) * 0.4)])
    done = call_obygaze(*words, cwd=tmp_path).ok()
    assert "1 incomplete film: pictures are missing from the file" in done.stderr
    assert done.stderr.splitlines()[0].endswith(" has no windows: cut")
    manifest = read_manifest(tmp_path / "manifests" / "w.toml")
    n_windows = Counter(clip.movie_id for clip in manifest)
    assert n_windows["cut"] < n_windows["whole"] == 20


def run(workspace: Path, *words: str) -> Result:
    extract = ("extract", "run", "w", "-b", "descriptors")
    return call_obygaze("-C", workspace, *extract, *words)


def test_a_window_has_the_vector_of_the_clip_cut_by_hand(films, tmp_path) -> None:
    windows(tmp_path, films, "--window", "16", "--stride", "16")
    run(tmp_path).ok()
    cut = [
        Clip(f"tt1-{n:03d}", "tt1", n, "tt1.mkv", n * 16 / 25, (n + 1) * 16 / 25)
        for n in range(5)
    ]
    clips = Manifest("cut", Header("x", video_root=str(films)), tuple(cut))
    write_manifest(clips, tmp_path / "manifests" / "cut.toml")
    words = ("extract", "run", "cut", "-b", "descriptors")
    call_obygaze("-C", tmp_path, *words).ok()
    of_clips = open_store(tmp_path / "stores" / "cut.descriptors")
    of_windows = open_store(tmp_path / "stores" / "w.descriptors")
    for array in of_clips.feature_arrays:
        by_hand = of_clips.matrix(array).values
        slices = of_windows.matrix(array, films="tt1").values
        assert slices.tobytes() == by_hand.tobytes()
    # So a model of clips reads windows.
    assert of_windows.fingerprint == of_clips.fingerprint


def test_windows_of_an_unknown_folder_are_not_read_from_this_one(films, tmp_path):
    manifest, _ = make_windows(films, APART, workspace=Workspace(tmp_path), name="w")
    header = structs.replace(manifest.header, video_root="")
    without_folder = replace(manifest, header=header)
    assert {clip.video for clip in plan_clips(without_folder)} == {""}
    with pytest.raises(NotFound, match="no clip of w has a video file") as error:
        og.extract(without_folder, "descriptors", workspace=tmp_path)
    assert "obygaze manifest link w FOLDER" in str(error.value.hint)


def test_films_without_a_window_are_said(films: Path, tmp_path: Path) -> None:
    """The films have 90 and 91 pictures."""
    words = ("manifest", "windows", films, "-o", "w", "--window", "91")
    done = call_obygaze(*words, cwd=tmp_path).ok()
    assert "1 film too short for a window: tt1" in done.stderr
    assert read_manifest(tmp_path / "manifests" / "w.toml").films == ("tt2",)
    assert "in no window" not in done.stdout
    words = ("manifest", "windows", films, "-o", "rest", "--window", "50")
    done = call_obygaze(*words, cwd=tmp_path).ok()
    rest = "up to 1.6 s at the end of a film are in no window"
    assert rest in done.stdout
    clips = [
        Clip("x-1", "x", None, "tt1.mkv", 0.0, 2.0),
        Clip("y-1", "y", start_s=0.0, end_s=2.0),
    ]
    header = Header("Films", video_root=str(films))
    write_manifest(Manifest("m", header, clips), tmp_path / "manifests" / "m.toml")
    words = ("manifest", "windows", "m", "-o", "of-clips", "--seconds", "1")
    done = call_obygaze(*words, cwd=tmp_path).ok()
    assert "1 film without a video, and so without windows: y" in done.stderr
