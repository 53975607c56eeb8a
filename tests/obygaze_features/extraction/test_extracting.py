"""The loop on made-up films: the same bytes whatever happens, and the numbers of another way."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from msgspec import structs
from stories.films import import_films
from stories.workspace import Workspace as StoryWorkspace
from support.extracted_stores import (
    BROKEN,
    EMPTY,
    N_CLIPS,
    WITHOUT,
    CountedBar,
    bytes_of,
    films_with_failures,
    no_work_is_left,
    own_model,
    run,
)
from support.extraction import keep_manifest
from support.seeds import amount

from obygaze_features import backbones
from obygaze_features.backbones.actions import load_backbone
from obygaze_features.backbones.backbone import Backbone, as_arrays
from obygaze_features.backbones.cards import find_card
from obygaze_features.backbones.sound import ClipSound
from obygaze_features.core.errors import FixInput, FixUsage, Mismatch, ObygazeError
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction import extracting
from obygaze_features.extraction.clips import HeardClip
from obygaze_features.extraction.compute import ThreadComputer
from obygaze_features.extraction.costs import (
    KNOWN_DEVICES,
    Cost,
    KnownDevice,
    StoreCost,
    gflop_of_clip,
    plan_extraction,
)
from obygaze_features.extraction.stored import store_status
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import layout
from obygaze_features.store.changing import subset
from obygaze_features.store.filling import Filling
from obygaze_features.store.reading import Store, open_store
from obygaze_features.store.verifying import verify
from obygaze_features.video import DecodeJob, DecodePool, decode_clip

STORE = "films.descriptors"
# The same backbone, by another name.
CARD = str(Path(backbones.__file__).with_name("cards") / "descriptors.toml")
# Runs an extraction in a process of its own; at a row it may send itself a signal.
WORKER = """
import os, signal, sys
from obygaze_features.extraction.extracting import extract

workspace, name, at = sys.argv[1], sys.argv[2], int(sys.argv[3])
n_rows = 0

def watch(row, failed):
    global n_rows
    n_rows += 1
    if n_rows == at:
        os.kill(os.getpid(), getattr(signal, name))

done = extract("films", "descriptors", workspace=workspace, watch=watch)
sys.exit(75 if done.stop else 0)
"""


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return films_with_failures(tmp_path_factory.mktemp("films"))


@pytest.fixture(scope="module")
def undisturbed(films: Manifest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that one process made, with two decoders."""
    folder = tmp_path_factory.mktemp("undisturbed")
    run(films, folder, workers=2)
    return folder / "stores" / STORE


@pytest.fixture
def world(films: Manifest, tmp_path: Path) -> Path:
    """A workspace with the manifest and without stores."""
    keep_manifest(films, tmp_path)
    (tmp_path / "stores").mkdir()
    return tmp_path


def start_worker(
    world: Path, name: str = "SIGKILL", at: int = 0
) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", WORKER, str(world), name, str(at)]
    return subprocess.Popen(
        command,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def finished(process: subprocess.Popen[str]) -> int:
    output, _ = process.communicate(timeout=600)
    assert process.returncode in (0, 75, -signal.SIGKILL), output
    return process.returncode


def at_row(number: int, what: Callable[[], object]) -> Callable[[int, bool], None]:
    """A `watch` that does something at the n-th decoded row."""
    seen: list[int] = []

    def watch(row: int, failed: bool) -> None:
        seen.append(row)
        if len(seen) == number:
            what()

    return watch


def some_clips(manifest: Manifest, numbers: Sequence[int]) -> Manifest:
    clips = list(manifest.clips)
    return manifest.with_clips([clips[number] for number in numbers])


def computed_alone(
    backbone: Backbone,
    video: Path | str,
    start_s: float | None = None,
    end_s: float | None = None,
) -> dict[str, np.ndarray]:
    """The features of one clip by the decoder and the backbone, without any loop."""
    clip = decode_clip(video, backbone.view, start_s=start_s, end_s=end_s)
    pixels = backbone.normalise(clip.pictures)[None]
    mask = clip.mask[None] if backbone.takes_mask else None
    return {name: x[0] for name, x in as_arrays(backbone.forward(pixels, mask)).items()}


def assert_computed(store: Store, row: int, backbone: Backbone, *clip: Any) -> None:
    """A row of a store has the features of a clip: a video, and times in it."""
    for name, values in computed_alone(backbone, *clip).items():
        array = store.record.array(name)
        if array is not None:
            stored = store.read(name, [row])[0]
            assert stored.tobytes() == values.astype(array.dtype).tobytes(), name


# --- What a run makes ---


def test_clips_that_fail_are_rows_with_their_reason(undisturbed: Path) -> None:
    store = open_store(undisturbed)
    status = store.status()
    assert status.counts == {"ok": N_CLIPS - 3, "failed": 2, "no-video": 1}
    assert "not a video" in status.reasons[BROKEN].sentence
    assert "empty" in status.reasons[EMPTY].sentence
    assert status.reasons[WITHOUT].sentence == "the manifest names no video"
    assert verify(store).problems == []
    assert no_work_is_left(undisturbed)
    row = store.rows[0]
    assert row.pictures == 18
    assert (row.video_bytes, len(row.video_hash)) != (None, 0)


def test_the_numbers_are_those_of_the_backbone(
    films: Manifest, undisturbed: Path
) -> None:
    store = open_store(undisturbed)
    backbone = load_backbone("descriptors")
    folder = Path(films.header.video_root)
    rows = np.flatnonzero(store.status().is_ok).tolist()
    assert store.clip_ids.tolist() == [clip.clip_id for clip in films.clips]
    for row in rows:
        assert_computed(store, row, backbone, folder / films.clips[row].video)
        # Of 18 pictures, picture int(i * 18 / 16) is asked for.
        shown = np.array([int(i * 18 / 16) for i in range(16)]) / 25
        np.testing.assert_allclose(store.read("time_s", [row])[0], shown, atol=1e-9)
        np.testing.assert_array_equal(
            store.read("time_s", [row]), store.read("asked_s", [row])
        )


def test_parts_of_films_are_computed_at_their_times(tmp_path: Path) -> None:
    """The index of the next film is made ahead."""
    ws = StoryWorkspace(tmp_path)
    import_films(ws, per_film=5)
    manifest = read_manifest(tmp_path / "manifests" / "films.toml")
    run(manifest, tmp_path, workers=2)
    store = open_store(tmp_path / "stores" / STORE)
    backbone = load_backbone("descriptors")
    assert store.clip_ids.tolist() == [clip.clip_id for clip in manifest.clips]
    for row, clip in enumerate(manifest.clips):
        video = Path(manifest.header.video_root, clip.video)
        assert_computed(store, row, backbone, video, clip.start_s, clip.end_s)
        # Of the 50 pictures of a clip, picture int(i * 50 / 16) is shown at 25 a second.
        shown = clip.start_s + np.array([int(i * 50 / 16) for i in range(16)]) / 25
        np.testing.assert_allclose(store.read("time_s", [row])[0], shown, atol=1e-9)
    assert store.rows[1].start_s == 2.0


# --- The same bytes, whatever happens ---


def test_stores_with_blocks_of_two_sizes_are_filled_together(
    films: Manifest, world: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = at_row(10, lambda: os.kill(os.getpid(), signal.SIGINT))
    with monkeypatch.context() as small:
        small.setattr(layout, "CLIPS_OF_A_BLOCK", 4)
        run(films, world, watch=stop)
    store = world / "stores" / STORE
    assert Filling.open(store).plan.block_rows == 4
    run(films, world, ["descriptors", CARD], stores={CARD: "other"})
    assert bytes_of(store) == bytes_of(undisturbed)
    assert bytes_of(world / "stores" / "other") == bytes_of(undisturbed)


@pytest.mark.check("kills three processes again and again")
def test_many_kills(films: Manifest, undisturbed: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    for number in range(amount(1, 2)):
        world = tmp_path / str(number)
        keep_manifest(films, world)
        (world / "stores").mkdir()
        for at in random.integers(1, N_CLIPS + 2, (3, 3)):
            workers = [start_worker(world, at=int(n)) for n in at]
            for worker in workers:
                finished(worker)
        run("films", world)
        assert bytes_of(world / "stores" / STORE) == bytes_of(undisturbed)
        assert no_work_is_left(world / "stores" / STORE)


def test_a_block_that_another_process_finishes_is_let_go(
    films: Manifest, world: Path, undisturbed: Path
) -> None:
    """In the middle of its first block, another extraction makes the whole store."""
    seen: list[int] = []
    meeting = at_row(3, lambda: run(films, world))

    def watch(row: int, failed: bool) -> None:
        seen.append(row)
        meeting(row, failed)

    done = run(films, world, watch=watch)
    store = world / "stores" / STORE
    assert done[0].seal == open_store(store).seal
    assert bytes_of(store) == bytes_of(undisturbed)
    assert no_work_is_left(store)
    # What was decoded ahead, and no more.
    assert len(seen) < N_CLIPS


@pytest.mark.parametrize("look", [run, store_status])
def test_a_store_that_is_sealed_while_it_is_looked_at(
    films: Manifest,
    world: Path,
    undisturbed: Path,
    monkeypatch: pytest.MonkeyPatch,
    look: Callable[..., Any],
) -> None:
    """Another process finishes and removes the blocks that are about to be read."""
    run(films, world, watch=at_row(30, lambda: os.kill(os.getpid(), signal.SIGINT)))
    store = world / "stores" / STORE
    read_block = Filling.read_block

    def seal_before(filling: Filling, block: int) -> object:
        monkeypatch.setattr(Filling, "read_block", read_block)
        run(films, world)
        return read_block(filling, block)

    monkeypatch.setattr(Filling, "read_block", seal_before)
    done = look(films, world)[0] if look is run else look(store)
    assert done.seal == open_store(store).seal
    assert bytes_of(store) == bytes_of(undisturbed)
    assert no_work_is_left(store)


def test_a_broken_device_ends_the_run_after_a_few_clips(
    films: Manifest, world: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = ThreadComputer.forward

    def broken(computer: ThreadComputer, *arguments: Any) -> dict[str, Any]:
        arrays = forward(computer, *arguments)
        return {name: np.full_like(array, np.nan) for name, array in arrays.items()}

    monkeypatch.setattr(ThreadComputer, "forward", broken)
    # Begin at the last block: it has fewer clips than must fail before the device counts as broken.
    monkeypatch.setattr("secrets.randbelow", lambda most: most - 1)
    with pytest.raises(ObygazeError, match="8 clips in a row failed") as error:
        run(films, world)
    # It computes in float32 already.
    assert error.value.hint == "use another --device, if this one is broken"
    store = world / "stores" / STORE
    assert list((world / "stores").iterdir()) == []
    monkeypatch.setattr(ThreadComputer, "forward", forward)
    run(films, world)
    assert bytes_of(store) == bytes_of(undisturbed)


def test_of_several_devices_the_one_that_failed_is_named(
    films: Manifest, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(computer: ThreadComputer, *arguments: Any) -> dict[str, Any]:
        raise RuntimeError("CUDA error: an illegal memory access\nmore lines")

    forward = ThreadComputer.forward
    monkeypatch.setattr(ThreadComputer, "forward", failed)
    with pytest.raises(ObygazeError, match="the GPU failed: CUDA error: an") as error:
        run(films, world)
    assert error.value.where == "cpu"
    monkeypatch.setattr(ThreadComputer, "forward", forward)
    (done,) = [run(films, world)]
    both = ([done], [error.value])
    monkeypatch.setattr(extracting, "work_on_devices", lambda *_: both)
    warnings = run(films, world, device="cpu,cpu").warnings
    assert warnings == ("cpu: the GPU failed: CUDA error: an illegal memory access",)


def test_an_array_that_only_one_backbone_has_is_asked_of_this_one(
    films: Manifest, world: Path
) -> None:
    own = own_model(world)
    options: dict[str, Any] = {"arrays": ["frames"], "stores": {own: "own"}}
    run(films, world, ["descriptors", own], **options)
    names = {}
    for name in (STORE, "own"):
        arrays = open_store(world / "stores" / name).record.arrays
        names[name] = [
            array.name for array in arrays if array.name in ("clip", "frames")
        ]
    assert names == {STORE: ["frames"], "own": ["clip"]}
    with pytest.raises(FixUsage, match="descriptors has no array tokens"):
        run(films, world, ["descriptors", own], arrays=["tokens"], stores={own: "x"})


def test_clips_after_those_of_a_store_are_decoded_once_for_all(
    films: Manifest, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(films.with_clips(films.clips[:16]), world)
    own = own_model(world)
    decoded: list[DecodeJob] = []
    submit = DecodePool.submit

    def counted(pool: DecodePool, job: DecodeJob) -> Any:
        decoded.append(job)
        return submit(pool, job)

    monkeypatch.setattr(DecodePool, "submit", counted)
    run(films, world, ["descriptors", own], stores={own: "own"})
    # One of the clips names no video.
    assert len(decoded) == len(films.clips) - 1


# --- Only what is missing ---


@pytest.mark.parametrize("array", ["clip", "frames"])
def test_a_part_of_a_store_gets_more_clips_and_further_arrays(
    array: str, films: Manifest, tmp_path: Path
) -> None:
    """A part has the arrays that somebody chose, and not the times of others."""
    run(some_clips(films, range(20)), tmp_path)
    here = Workspace(tmp_path)
    subset(tmp_path / "stores" / STORE, "part", arrays=[array], workspace=here)
    part = tmp_path / "stores" / "part"
    of_part = [one.name for one in open_store(part).record.arrays]
    stores = {"descriptors": "part"}
    run(some_clips(films, range(24)), tmp_path, stores=stores)
    assert [one.name for one in open_store(part).record.arrays] == of_part
    backbone = load_backbone("descriptors")
    for row in (0, 22):
        video = Path(films.header.video_root, films.clips[row].video)
        assert_computed(open_store(part), row, backbone, video)
    arrays = [array, "pooled"]
    run(some_clips(films, range(24)), tmp_path, stores=stores, arrays=arrays)
    with_pooled = [one.name for one in open_store(part).record.arrays]
    assert with_pooled == [*of_part, "pooled"]
    assert_computed(open_store(part), 22, backbone, video)


def test_a_video_that_goes_while_a_further_array_is_computed_ends_the_run(
    films: Manifest, tmp_path: Path
) -> None:
    shutil.copytree(films.header.video_root, tmp_path / "videos")
    header = structs.replace(films.header, video_root=str(tmp_path / "videos"))
    manifest = replace(films, header=header)
    run(manifest, tmp_path, arrays=["clip"])
    store = tmp_path / "stores" / STORE
    before = everything_in(store)
    clip = films.clips[20]
    video = tmp_path / "videos" / str(clip.video)
    unmount = at_row(1, lambda: video.rename(tmp_path / "elsewhere.mp4"))
    with pytest.raises(
        FixInput, match="cannot get the further arrays: no-video: no such file"
    ) as error:
        run(manifest, tmp_path, arrays=["clip", "frames"], workers=1, watch=unmount)
    assert repr(clip.clip_id) in str(error.value)
    assert everything_in(store) == before
    (tmp_path / "elsewhere.mp4").rename(video)
    run(manifest, tmp_path, arrays=["clip", "frames"])
    assert open_store(store).feature_arrays == ("clip", "frames")
    assert open_store(store).status().counts["ok"] == N_CLIPS - 3


def test_a_run_whose_store_is_changed_meanwhile_says_that_it_added_nothing(
    films: Manifest, world: Path
) -> None:
    run(some_clips(films, range(20)), world)
    store = world / "stores" / STORE

    def change() -> None:
        shutil.rmtree(store.with_name(f"{STORE}.next"))
        subset(store, without=["tt1"], reason="by request", workspace=Workspace(world))

    with pytest.raises(Mismatch, match="was not added: meanwhile another") as error:
        run(films, world, watch=at_row(3, change))
    assert str(store) in str(error.value)
    assert len(open_store(store)) == 20
    assert run(films, world)[0].clips == 36


def test_a_run_whose_rows_failed_again_elsewhere_leaves_the_store(
    films: Manifest, world: Path
) -> None:
    (first,) = run(films, world)
    meeting = at_row(1, lambda: run(films, world, retry_failed=True))
    done = run(films, world, retry_failed=True, watch=meeting)
    assert done[0].seal == first.seal
    (warning,) = done.warnings
    assert "nothing was added" in warning
    assert no_work_is_left(world / "stores" / STORE)


def test_the_plan_of_a_further_array_counts_only_that_array(
    films: Manifest, tmp_path: Path
) -> None:
    """Also once it is being filled: a run that was stopped goes on with the same bytes a clip."""
    arrays = ["clip", "frames"]
    run(films, tmp_path, arrays=["clip"])

    def bytes_of_a_clip() -> float:
        costs = plan_extraction(films, "descriptors", arrays=arrays, workspace=tmp_path)
        (cost,) = costs.stores
        assert cost.to_extract > 0
        return cost.n_bytes / cost.to_extract

    before = bytes_of_a_clip()
    end = at_row(1, lambda: os.kill(os.getpid(), signal.SIGTERM))
    run(films, tmp_path, arrays=arrays, workers=1, watch=end)
    assert not no_work_is_left(tmp_path / "stores" / STORE)
    assert bytes_of_a_clip() == before


def test_half_of_a_change_is_sealed(films: Manifest, world: Path) -> None:
    run(some_clips(films, range(20)), world)
    before = open_store(world / "stores" / STORE).status().reasons
    stop = at_row(17, lambda: os.kill(os.getpid(), signal.SIGINT))
    run(films, world, retry_failed=True, watch=stop)
    filling = Filling.open(world / "stores" / STORE)
    missing = [row for block in filling.missing() for row in filling.rows_of(block)]
    assert missing
    run(films, world, retry_failed=True, seal_now=True)
    after = open_store(world / "stores" / STORE).status().reasons
    # What failed before, and was not tried again, has its earlier reason.
    unchanged = [row for row in missing if row < 20]
    assert [after[row] for row in unchanged] == [before[row] for row in unchanged]
    new = [after[row].status for row in missing if row >= 20]
    assert new == ["not-extracted"] * len(new)


def test_a_change_goes_on_beside_rows_that_stay_as_they_are(
    films: Manifest, world: Path
) -> None:
    """A clip of a withdrawn film, and other times of a clip that failed, change no plan."""
    run(some_clips(films, range(20)), world)
    store = world / "stores" / STORE
    subset(store, without=["tt1"], reason="by request", workspace=Workspace(world))
    clips = list(films.clips)
    clips.append(replace(clips[10], clip_id="tt1-999"))
    failed = [row.clip_id for row in open_store(store).rows if row.status == "failed"]
    number = [clip.clip_id for clip in clips].index(failed[-1])
    clips[number] = replace(clips[number], start_s=0.1)
    manifest = films.with_clips(clips)
    stop = at_row(3, lambda: os.kill(os.getpid(), signal.SIGINT))
    run(manifest, world, watch=stop)
    assert Filling.open(store).missing()
    (state,) = run(manifest, world)
    assert state.seal
    assert (state.clips, state.withdrawn) == (36, 10)


def test_a_worker_that_fails_at_once_leaves_the_others_their_plan(
    films: Manifest,
    world: Path,
    undisturbed: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill = extracting.fill

    def fails(*arguments: object) -> Iterator[tuple[int, bool]]:
        raise RuntimeError("a device that is broken")
        yield 0, True

    def another_one_fails_first(*arguments: Any) -> Iterator[tuple[int, bool]]:
        monkeypatch.setattr(extracting, "fill", fails)
        with pytest.raises(RuntimeError, match="broken"):
            run(films, world)
        yield from fill(*arguments)

    monkeypatch.setattr(extracting, "fill", another_one_fails_first)
    run(films, world)
    assert bytes_of(world / "stores" / STORE) == bytes_of(undisturbed)


# --- The wrong thing is refused ---


def everything_in(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in files}


def moved(manifest: Manifest, number: int, video: str | None = None) -> Manifest:
    """The manifest with another start of one clip."""
    clips = list(manifest.clips)
    clip = replace(clips[number], start_s=0.2)
    clips[number] = clip if video is None else replace(clip, video=video)
    return manifest.with_clips(clips)


def test_a_manifest_that_changed_while_the_store_is_filled(
    films: Manifest, world: Path, undisturbed: Path
) -> None:
    run(films, world, watch=at_row(20, lambda: os.kill(os.getpid(), signal.SIGINT)))
    before = everything_in(world / "stores")
    with pytest.raises(Mismatch, match="changed since this store was planned"):
        run(moved(films, 3), world)
    assert everything_in(world / "stores") == before
    run(films, world)
    assert bytes_of(world / "stores" / STORE) == bytes_of(undisturbed)


def test_stores_of_other_rows_are_filled_one_after_another(
    films: Manifest, world: Path
) -> None:
    """They are one progress bar, in which each clip counts once."""
    stores = {"descriptors": "first", CARD: "second"}
    # Its other clips come behind these.
    run(some_clips(films, range(10, N_CLIPS)), world, stores={"descriptors": "first"})
    bar = CountedBar()
    run(films, world, list(stores), stores=stores, progress=bar.of)
    backbone = load_backbone("descriptors")
    video = Path(films.header.video_root, str(films.clips[3].video))
    assert_computed(
        open_store(world / "stores" / "first"), N_CLIPS - 7, backbone, video
    )
    assert_computed(open_store(world / "stores" / "second"), 3, backbone, video)
    assert bar.labels == ["extract"]
    assert bar.total == bar.done == N_CLIPS
    assert bar.remarks[-1] == "3 failed"


# --- What it costs ---


def test_a_plan_says_that_a_disk_without_links_needs_twice_the_space(
    films: Manifest, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cost = plan_extraction(films, "descriptors", workspace=world)
    assert cost.stores[0].disk_bytes == cost.stores[0].n_bytes
    assert "hard links" not in str(cost)

    def no_links(*paths: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    cost = plan_extraction(films, "descriptors", workspace=world)
    assert cost.stores[0].disk_bytes == 2 * cost.stores[0].n_bytes
    assert "twice the size: this disk has no hard links" in str(cost)
    assert list((world / "stores").iterdir()) == []


def test_a_plan_counts_and_measures_and_writes_nothing(
    films: Manifest, world: Path
) -> None:
    cost = plan_extraction(films, "descriptors", workspace=world)
    (store,) = cost.stores
    assert (cost.clips, cost.with_video) == (N_CLIPS, N_CLIPS - 1)
    assert (store.clips, store.to_extract) == (N_CLIPS, N_CLIPS)
    # clip, pooled, 16 frames in float16, and two times of each.
    row_bytes = 128 * 4 + 64 * 4 + 16 * 64 * 2 + 2 * 16 * 8
    assert store.n_bytes == N_CLIPS * row_bytes
    assert cost.decode_s is not None
    assert cost.decode_s > 0 < store.forward_s
    assert list((world / "stores").iterdir()) == []
    run(some_clips(films, range(30)), world)
    (store,) = plan_extraction(films, "descriptors", workspace=world).stores
    assert (store.clips, store.to_extract) == (N_CLIPS, 6)
    assert store.n_bytes == 6 * row_bytes
    with pytest.raises(Mismatch, match="changed since the extraction"):
        plan_extraction(moved(films, 3), "descriptors", workspace=world)


def cost_of(decode_s: float, *forward_s: float, is_on_gpu: bool = True) -> Cost:
    """The cost of 2,000 clips on 16 cores and a GPU."""
    stores = []
    for number, seconds in enumerate(forward_s):
        name = f"s{number}"
        stores.append(StoreCost(name, 2000, 2000, 10**6, 10**6, seconds, is_on_gpu, ()))
    return Cost(
        "night",
        *(2000, 2000, decode_s, stores, "h100", 16),
        host_bytes=4 * 10**9,
        frames_of=["clip-b16"],
        frames_bytes=5 * 10**9,
    )


def test_a_plan_says_how_long_a_gpu_waits_for_the_cores() -> None:
    cost = cost_of(0.64, 0.004, 0.0052)
    # 16 cores give a clip in .04 s, of which the GPU computes .0092 s.
    assert cost.waits == pytest.approx(0.77)
    facts = cost.to_json()
    assert (facts["seconds"], facts["cores_needed"]) == (pytest.approx(80), 70)
    assert str(cost).splitlines()[-3:] == [
        "16 cores: about 0:01:20; h100 is at work for 23% of it, and waits for the cores for 77%;"
        " 70 cores would feed it",
        "or decode first, without h100: obygaze extract run night -b frames:clip-b16"
        " (about 0:01:20, 5.0 GB); then 0:00:18 on h100",
        "main memory: about 4.0 GB; batches take at most half of what is free on h100",
    ]
    # The GPU decides.
    slow = cost_of(0.64, 0.05)
    assert (slow.waits, slow.clip_s) == (0.0, 0.05)
    assert "decode first" not in str(slow)
    on_cores = cost_of(0.64, 0.16, is_on_gpu=False)
    assert (on_cores.waits, on_cores.clip_s) == (None, 0.05)
    assert "16 cores: about 0:01:40\nmain memory: about 4.0 GB" in str(on_cores)


def test_the_operations_of_a_sound_are_those_of_its_pieces() -> None:
    for name, seconds, expected in (
        # A part of 15 s, and whole spectrograms of 30 s.
        ("wav2vec2-base", 5.0, 229 / 3),
        ("whisper-small", 5.0, 344),
        ("whisper-small", 31.0, 688),
    ):
        backbone: Any = SimpleNamespace(card=find_card(name))
        samples = np.zeros(round(16000 * seconds), np.float32)
        clip = HeardClip(ClipSound(samples), {})
        assert gflop_of_clip(backbone, clip) == pytest.approx(expected)


def test_a_device_that_is_not_there_takes_the_time_of_the_card(
    films: Manifest, world: Path
) -> None:
    own = own_model(world)
    speed = KnownDevice(float32=100.0, half=400.0)
    with (
        mock.patch.dict(KNOWN_DEVICES, h100=speed),
        mock.patch("obygaze_features.extraction.costs.gflop_of_clip", return_value=2.0),
    ):
        for dtype, seconds in (("float32", 0.02), ("bfloat16", 0.005)):
            cost = plan_extraction(
                films,
                ["descriptors", own],
                stores={own: "own"},
                dtype=dtype,
                device="h100",
                workers=3,
                workspace=world,
            )
            on_cores, on_gpu = cost.stores
            assert (on_cores.is_on_gpu, on_gpu.is_on_gpu) == (False, True)
            assert on_gpu.forward_s == seconds == cost.gpu_s
            assert (cost.workers, cost.frames_of) == (3, ["descriptors", own])
    assert list((world / "stores").iterdir()) == []
