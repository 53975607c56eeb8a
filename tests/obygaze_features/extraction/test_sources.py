"""Clips that changed after their features were extracted: refused, extracted again, reported."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.cli import Result, call_obygaze
from support.extraction import (
    a_plan,
    array_bytes,
    film_folder,
    keep_manifest,
    plan_file,
)
from support.videos import write_video

from obygaze_features.core.errors import Mismatch
from obygaze_features.core.files import quick_sha256
from obygaze_features.extraction.devices import extract_on_devices
from obygaze_features.extraction.plan import PlannedClip
from obygaze_features.extraction.run import Resources, RowProgress
from obygaze_features.extraction.shared_machine import StopFlag
from obygaze_features.extraction.sources import _differences
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store import open_store, pack, unpack
from obygaze_features.store.format.records import Marker, marker_key
from obygaze_features.store.format.schema import RowSource

DATA = Path(__file__).resolve().parents[2] / "data"


def test_changed_times_are_shown_with_all_their_digits() -> None:
    source, clip = (
        RowSource(3661.234, 3700.0),
        PlannedClip("a", "a", "a.mkv", 3661.235, None),
    )
    assert _differences(source, clip, None) == [
        "start_s was 3661.234, is 3661.235",
        "end_s was 3700, is not given",
    ]


class World:
    """Two films of ten seconds at 25 pictures a second, and four clips cut from them by time."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.videos = folder, folder / "videos"
        self.store = folder / "stores" / "films.descriptors"
        self.videos.mkdir(parents=True)
        for name in ("tt0", "tt1"):
            write_video(self.videos / f"{name}.mp4", numbers=range(250), size=(64, 48))
        times = [("tt0", 0, 2), ("tt0", 2, 4), ("tt1", 1, 3), ("tt1", None, None)]
        clips = [
            Clip(f"{film}-{n:03d}", film, n, f"{film}.mp4", start, end, level="EN")
            for n, (film, start, end) in enumerate(times)
        ]
        self.manifest = Manifest(
            "films",
            Header("Films", {}, video_root=str(self.videos), licence="CC0-1.0"),
            tuple(clips),
        )
        keep_manifest(self.manifest, folder)

    def call(self, *words: str | Path) -> Result:
        return call_obygaze("-C", self.folder, *words)

    def run(self, *words: str | Path) -> Result:
        return self.call(
            *("extract", "run", "films", "-b", "descriptors", "--workers", "1", *words)
        )

    def retry(self, *words: str | Path) -> Result:
        return self.call(
            "extract", "run", "films", "-b", "descriptors", "--retry-failed", *words
        )

    def move(self, clip_id: str, start_s: float, end_s: float) -> None:
        clips = [
            replace(clip, start_s=start_s, end_s=end_s)
            if clip.clip_id == clip_id
            else clip
            for clip in self.manifest
        ]
        self.manifest = self.manifest.with_clips(clips)
        keep_manifest(self.manifest, self.folder)

    def swap(self, film: str) -> None:
        write_video(self.videos / f"{film}.mp4", numbers=range(500, 800), size=(64, 48))

    def fresh(self, name: str = "fresh") -> dict[str, bytes]:
        """The arrays that an extraction from nothing makes now."""
        self.run("--store", f"descriptors={name}").ok()
        return array_bytes(self.folder / "stores" / name)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def extracted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows that are extracted from now on."""
    rows: list[int] = []
    monkeypatch.setattr(
        RowProgress, "__call__", lambda progress, row, failed: rows.append(row)
    )
    return rows


def rows_of(store: Path) -> list[list[float]]:
    values: list[list[float]] = open_store(store).matrix("clip").values.tolist()
    return values


def test_what_a_row_was_made_from_is_recorded(world: World) -> None:
    world.run("--no-seal").ok()
    growing = open_store(world.store).commits.sources(0)
    hashes = {
        film: quick_sha256(world.videos / f"{film}.mp4")[1] for film in ("tt0", "tt1")
    }
    size = (world.videos / "tt1.mp4").stat().st_size
    assert [(s.start_s, s.end_s, s.n_frames) for s in growing.values()] == [
        *((0, 2, 50), (2, 4, 50), (1, 3, 50)),
        (None, None, 250),
    ]
    assert [s.quick_sha256 for s in growing.values()] == [
        hashes[film] for film in ("tt0", "tt0", "tt1", "tt1")
    ]
    assert growing[2].n_bytes == growing[3].n_bytes == size
    world.run("--seal").ok()
    sealed = open_store(world.store)
    assert sealed.sealed and sealed.commits.sources(0) == growing
    pack(sealed, world.folder / "packed.zip")
    unpack(world.folder / "packed.zip", world.folder / "unpacked")
    assert open_store(world.folder / "unpacked").commits.sources(0) == growing
    world.call("store", "merge", world.store, "-o", "merged").ok()
    world.call("store", "subset", world.store, "--film", "tt1", "-o", "subset").ok()
    stores = world.folder / "stores"
    assert open_store(stores / "merged").commits.sources(0) == growing
    assert open_store(stores / "subset").commits.sources(0) == {
        0: growing[2],
        1: growing[3],
    }
    world.call("store", "verify", "subset", "--hash").ok()


def test_the_quick_hash(tmp_path: Path) -> None:
    """Computed from the definition; bytes between the three pieces do not count."""
    kib = 1024
    small, large = bytes(range(256)) * 100, os.urandom(1000 * kib + 1)
    for data, pieces in (
        (b"", b""),
        (small, small),
        (large[: 192 * kib], large[: 192 * kib]),
        (large, large[: 64 * kib] + large[468 * kib : 532 * kib] + large[-64 * kib :]),
    ):
        path = tmp_path / "file"
        path.write_bytes(data)
        expected = hashlib.sha256(str(len(data)).encode() + b"\n" + pieces).hexdigest()
        assert quick_sha256(path) == (len(data), expected)


def test_moved_times_are_refused_and_extracted_again_on_request(
    world: World, extracted: list[int]
) -> None:
    world.run("--no-seal").ok()
    before = array_bytes(world.store)
    world.move("tt0-001", 5, 9)
    done = world.run("--no-seal")
    assert done.code == 5
    for words in ("1 clip changed", "tt0-001: start_s was 2, is 5, end_s was 4, is 9"):
        assert words in done.stderr
    assert "obygaze extract run films -b descriptors --changed" in done.stderr
    assert world.retry("--no-seal").code == 5, (
        "what would be sealed must not be of other times"
    )
    assert array_bytes(world.store) == before
    extracted.clear()
    world.retry("--changed", "--no-seal").ok()
    assert extracted == [1]
    assert array_bytes(world.store) == world.fresh() != before
    assert world.run("--json").ok().json()["sealed"] is True


def test_times_outside_of_a_film_are_mended_in_the_table_as_the_hint_says(
    world: World,
) -> None:
    """The hint was to correct the files, and the table is wrong."""
    world.move("tt0-001", 2, 60)
    failed = world.run()
    assert failed.code == 3
    assert "some have times outside of their films; correct the table" in failed.stderr
    assert "correct their files" not in failed.stderr
    world.move("tt0-001", 2, 4)
    assert world.run("--changed", "--json").ok().json()["ok"] == 4


@pytest.mark.parametrize("same_size", [False, True])
def test_a_swapped_video_is_refused_and_extracted_again_on_request(
    world: World, same_size: bool
) -> None:
    path = world.videos / "tt1.mp4"
    # What follows the last box is no part of the film: two films of one size.
    write_video(world.folder / "other.mp4", numbers=range(500, 800), size=(64, 48))
    other = (world.folder / "other.mp4").read_bytes()
    size = max(len(other), path.stat().st_size) + 100
    path.write_bytes(path.read_bytes() + _free_box(size - path.stat().st_size))
    world.run("--no-seal").ok()
    before = rows_of(world.store)
    path.write_bytes(other + (_free_box(size - len(other)) if same_size else b""))
    done = world.run("--no-seal")
    assert (done.code, "2 clips changed" in done.stderr) == (5, True), done.stderr
    words = "other bytes" if same_size else f"had {size} bytes, has {len(other)}"
    assert (
        f"tt1-002: the video {'has ' if same_size else ''}{words} ({path})"
        in done.stderr
    )
    assert "tt1-003: " in done.stderr and "tt0" not in done.stderr
    world.retry("--no-seal", "--changed").ok()
    after = rows_of(world.store)
    assert [one == two for one, two in zip(before, after, strict=True)] == [
        *(True, True),
        *(False, False),
    ]
    assert array_bytes(world.store) == world.fresh()


def _free_box(n_bytes: int) -> bytes:
    return n_bytes.to_bytes(4, "big") + b"free" + bytes(n_bytes - 8)


@pytest.mark.check("several extractions")
def test_a_changed_clip_of_a_sealed_store_makes_a_version(world: World) -> None:
    """The command of the message is run as it is."""
    world.run().ok()
    before = open_store(world.store).matrix("clip").values
    world.move("tt1-002", 5, 7)
    done = world.run()
    assert done.code == 5
    assert "with --changed, which makes a new version of the store" in done.stderr
    made = world.retry("--changed", "--json")
    (version,) = made.ok().json()["versions"]
    assert (version["number"], version["numbers"]) == (2, {"rows": 1})
    assert version["reason"] == "clips extracted again whose times or videos changed"
    assert array_bytes(world.store) == world.fresh()
    assert np.array_equal(
        open_store(world.store, version=1).matrix("clip").values, before
    )
    world.run().ok()


@pytest.mark.check("several extractions")
def test_a_run_goes_on_in_a_merge_for_a_larger_manifest(
    tmp_path: Path, extracted: list[int]
) -> None:
    """Blocks whose clips are in the smaller store are taken over, the others are extracted."""
    manifest = film_folder(tmp_path, 6)
    keep_manifest(manifest, tmp_path)
    (tmp_path / "smaller").mkdir()
    smaller = a_plan(
        manifest.with_clips(manifest.clips[:4]), tmp_path / "smaller", "descriptors"
    )
    call_obygaze("extract", "run", plan_file(smaller, tmp_path / "smaller.json")).ok()
    extracted.clear()
    plan = a_plan(manifest, tmp_path, "descriptors")
    merge = (
        "merge",
        smaller.targets[0].store,
        "--manifest",
        "films",
        "-o",
        "descriptors",
    )
    call_obygaze("-C", tmp_path, "store", *merge).ok()
    path = plan_file(plan, tmp_path / "plan.json")
    done = call_obygaze("extract", "run", path, "--json").ok().json()
    assert extracted == [4, 5] and done["sealed"] is True


def test_the_same_file_elsewhere_has_not_changed(world: World) -> None:
    world.run("--no-seal").ok()
    elsewhere = world.folder / "elsewhere"
    shutil.copytree(world.videos, elsewhere)
    for path in elsewhere.iterdir():
        os.utime(path, (1e9, 1e9))
    shutil.rmtree(world.videos)
    world.call("manifest", "link", "films", elsewhere).ok()
    world.run("--no-seal").ok()
    world.call("store", "verify", "films.descriptors", "--videos").ok()


def test_without_its_video_a_clip_is_compared_by_its_times(world: World) -> None:
    world.run("--no-seal").ok()
    (world.videos / "tt1.mp4").unlink()
    world.run("--no-seal").ok()
    done = world.call("store", "verify", "films.descriptors", "--videos").ok()
    assert "2 clips without a video here: only the times were compared" in done.stderr
    world.move("tt1-002", 5, 7)
    assert world.run("--no-seal").code == 5


def test_verify_names_clips_that_changed(world: World) -> None:
    world.run().ok()
    verify = ("store", "verify", "films.descriptors", "--videos", "--json")
    assert world.call(*verify).ok().json()["changed"] == {}
    world.move("tt0-000", 0, 3)
    world.swap("tt1")
    done = world.call(*verify)
    assert done.code == 5
    assert done.json()["changed"].keys() == {"tt0-000", "tt1-002", "tt1-003"}
    assert done.json()["changed"]["tt0-000"] == ["end_s was 2, is 3"]
    assert "3 clips changed" in done.stderr
    world.call("store", "verify", "films.descriptors").ok()


@pytest.mark.parametrize("sealed", [False, True])
def test_stores_without_sources_are_resumed_and_verified(
    world: World, sealed: bool
) -> None:
    """Stores of versions that did not record sources."""
    world.run("--no-seal").ok()
    path = world.store / marker_key(0)
    marker = Marker.from_bytes(path.read_bytes(), str(path))
    path.write_bytes(replace(marker, sources={}).to_bytes())
    assert b"sources" not in path.read_bytes()
    if sealed:
        world.run("--seal").ok()
        assert not (world.store / "sources.json").exists()
    world.move("tt0-001", 5, 9)
    world.run("--no-seal").ok()
    done = world.call("store", "verify", "films.descriptors", "--videos", "--hash").ok()
    assert "4 clips extracted before videos and times were recorded" in done.stderr


@pytest.mark.parametrize("state", ["growing", "sealed"])
def test_the_first_stores_of_format_1_have_no_sources(state: str) -> None:
    commits = open_store(DATA / "store-v1" / state).commits
    assert all(commits.sources(block) == {} for block in range(commits.plan.n_blocks))


def test_a_worker_checks_its_own_clips(tmp_path: Path) -> None:
    manifest = film_folder(tmp_path, 8)
    plan = a_plan(manifest, tmp_path, "descriptors")
    path = plan_file(plan, tmp_path / "plan.json")
    call_obygaze("extract", "run", path, "--no-seal").ok()
    # Of the second unit of four clips.
    write_video(Path(plan.rows[5].video), numbers=range(900, 918), size=(64, 48))
    codes = [
        call_obygaze("extract", "run", path, "--worker", f"{i}/2").code
        for i in range(2)
    ]
    assert codes == [0, 5]

    with pytest.raises(Mismatch, match="1 clip changed"):
        extract_on_devices(plan, [Resources(), Resources()], StopFlag())


@pytest.mark.check("several extractions")
def test_a_changed_clip_that_cannot_be_read_any_more_fails(world: World) -> None:
    world.run("--no-seal").ok()
    before = rows_of(world.store)
    (world.videos / "tt1.mp4").write_bytes(b"not a video")
    done = world.retry("--changed", "--json")
    assert (done.code, set(done.json()["failures"])) == (3, {"tt1-002", "tt1-003"})
    found = open_store(world.store).matrix("clip", missing="drop")
    assert found.rows.tolist() == [0, 1]
    np.testing.assert_array_equal(found.values, np.array(before, np.float32)[:2])
    world.swap("tt1")
    assert world.run().code == 3, "clips that failed are for retry alone"
    world.retry("--no-seal").ok()
    assert array_bytes(world.store) == world.fresh()


def test_a_worker_retries_its_own_clips(tmp_path: Path) -> None:
    """Of two units of four clips, each has a clip that cannot be read; both are whole later."""
    bad = {1: b"not a video", 6: b"not a video"}
    plan = a_plan(film_folder(tmp_path, 8, bad=bad), tmp_path, "descriptors")
    path = plan_file(plan, tmp_path / "plan.json")
    assert call_obygaze("extract", "run", path).code == 3
    for row in (1, 6):
        shutil.copyfile(plan.rows[0].video, plan.rows[row].video)
    second = ("extract", "run", path, "--worker", "1/2", "--json")
    state = call_obygaze(*second, "--retry-failed").ok().json()
    assert (state["clips"], state["ok"], state["failed"]) == (4, 4, 0)
    # The number of the clip is in its pixels: this one changed.
    shutil.copyfile(plan.rows[7].video, plan.rows[5].video)
    assert call_obygaze(*second, "--changed").ok().json()["ok"] == 4
    call_obygaze("extract", "run", path, "--worker", "0/2", "--retry-failed").ok()
    assert open_store(plan.targets[0].store).status().counts == {"ok": 8}
