"""Batches end with their block and are halved if memory runs out; a failed clip is a failed row."""

from __future__ import annotations

import signal
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.extraction import CountingBackbone, array_bytes
from support.simulated_gpu import SimulatedGpu

from obygaze_features.backbones.load import load_backbone
from obygaze_features.core.console import Quiet
from obygaze_features.core.errors import ObygazeError
from obygaze_features.extraction import blocks
from obygaze_features.extraction.blocks import BlockMaker, run_rows
from obygaze_features.extraction.compute import BatchComputer, Clock, Computed
from obygaze_features.extraction.decoding import DecodedRow
from obygaze_features.extraction.plan import Target
from obygaze_features.extraction.recipes import (
    arrays_of,
    chosen_arrays,
    recipe_of,
    view_of,
)
from obygaze_features.extraction.run import RowProgress
from obygaze_features.extraction.shared_machine import StopFlag
from obygaze_features.store import RowStatus, StoreWriter, create_store, open_store
from obygaze_features.store.write import writer as writer_module
from obygaze_features.video.decoded_clip import DecodedClip, View

N = 11
BLOCK = 4
# Of three clips: a batch ends with its block.
FULL_BATCHES = [3, 1, 3, 1, 3]


@pytest.fixture(autouse=True)
def gpu() -> Iterator[SimulatedGpu]:
    """Batches are those of a GPU."""
    with SimulatedGpu() as simulated:
        yield simulated


def a_clip(row: int) -> DecodedClip:
    random = np.random.default_rng(row)
    frames = random.integers(0, 256, (16, 256, 256, 3), dtype=np.uint8)
    index = np.arange(16)
    no = np.zeros(16, dtype=bool)
    times = index / 25
    return DecodedClip(
        Path("x"), frames, index, index, times, times, no, ~no, 16, False, 0.0
    )


class World:
    """A store of eleven clips in blocks of four, and a decoder that returns random clips."""

    def __init__(self, folder: Path, *, exists: bool = False, **backbone: Any) -> None:
        inner = load_backbone("descriptors")
        self.backbone = CountingBackbone(inner, **backbone)
        self.view = view_of(inner, Target("s", "descriptors"))
        arrays = chosen_arrays(inner, ())
        self.path = folder / "store"
        if not exists:
            create_store(
                self.path,
                recipe=recipe_of(inner, self.view, arrays),
                manifest_name="m",
                manifest_sha256="0" * 64,
                clip_ids=[f"c-{i:02d}" for i in range(N)],
                movie_ids=["c"] * N,
                arrays=arrays_of(inner, arrays),
                licence="",
                citation="",
                block_rows=BLOCK,
            )
        self.writer = StoreWriter(self.path)
        self.failing: dict[int, RowStatus] = {}
        self.decoded: list[int] = []
        self.stop = StopFlag()
        self.stop_after: int | None = None
        self.stop_after_rows = 10 * N
        self.interrupt_after: int | None = None

    def maker(self, batch: int = 3, **more: Any) -> BlockMaker:
        plan = self.writer.plan
        wanted = {
            b: list(range(*plan.block_range(b))) for b in self.writer.pending_blocks()
        }
        arrays = [spec for spec in plan.arrays if spec.is_feature_array]
        computer = BatchComputer(self.backbone, arrays)  # type: ignore[arg-type]
        wanted = more.pop("wanted", wanted)
        return BlockMaker(computer, self.writer, self.view, wanted, batch=batch, **more)

    def decode(self, jobs: Sequence[tuple[int, tuple[View, ...]]]) -> Any:
        for row, views in jobs:
            self.decoded.append(row)
            clip = self.failing.get(row) or a_clip(row)
            yield DecodedRow(row, dict.fromkeys(views, clip), 0.5)

    def run(self, *makers: BlockMaker) -> None:
        def tell(row: int, failed: bool) -> None:
            if self.stop_after is not None and row >= self.stop_after:
                self.stop.signal_name = "SIGTERM"
            if len(self.decoded) >= self.stop_after_rows:
                self.stop.signal_name = "SIGTERM"
            if row == self.interrupt_after:
                raise KeyboardInterrupt

        run_rows(makers, self.decode, self.stop, tell)


def test_a_batch_ends_with_its_block(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.run(world.maker(batch=3))
    assert world.backbone.batches == FULL_BATCHES
    assert open_store(world.path).status().counts == {"ok": N}


def test_features_are_those_of_the_clip_of_the_row(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.run(world.maker())
    inner = world.backbone.inner
    matrix = open_store(world.path).matrix("clip")
    for row in (0, 3, 4, 10):
        expected = inner.forward(inner.normalise(a_clip(row).pictures)[None])["clip"][0]
        np.testing.assert_array_equal(matrix.values[row], expected)
    times = open_store(world.path).matrix("time_s").values
    np.testing.assert_array_equal(times[7], np.arange(16) / 25)


def test_a_failed_clip_does_not_change_other_rows(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.failing = {
        5: RowStatus.failed("open", "unreadable", "x"),
        6: RowStatus.no_video(),
    }
    world.run(world.maker(batch=2))
    assert world.backbone.batches == [2, 2, 2, 2, 1]
    store = open_store(world.path)
    assert store.status().counts == {"ok": 9, "failed": 1, "no-video": 1}
    assert str(store.status().status_of_row[5]) == "failed: open unreadable: x"
    assert np.isnan(store.matrix("clip", missing="nan").values[5:7]).all()


def test_numbers_that_are_not_finite_make_a_failed_row(tmp_path: Path) -> None:
    world = World(tmp_path, odd_rows=[2])
    world.run(world.maker())
    status_of_row = open_store(world.path).status().status_of_row
    assert {row: (s.stage, s.error) for row, s in status_of_row.items()} == {
        2: ("forward", "NotFinite")
    }


def test_rows_that_failed_in_the_model_are_reported_like_decode_failures(
    tmp_path: Path,
) -> None:
    world, result = World(tmp_path, odd_rows=[2, 9]), list[tuple[int, bool]]()
    run_rows(
        [world.maker()], world.decode, world.stop, lambda *seen: result.append(seen)
    )
    assert sorted(result) == sorted(
        [*((row, False) for row in range(N)), (2, True), (9, True)]
    )


def test_each_row_is_shown_once(tmp_path: Path) -> None:
    world, shown = World(tmp_path, most=1, odd_rows=[6]), list[str]()

    class Counting(Quiet):
        def advance(self, amount: int = 1) -> None:
            shown.append("row")

        def remark(self, text: str) -> None:
            shown.append(text)

    progress = RowProgress(lambda n_rows: Counting())
    progress.begin(N)
    run_rows([world.maker(batch=4)], world.decode, StopFlag(), progress)
    assert shown.count("row") == N and progress.failed == {6}
    assert shown.count("1 failed") == 1 and len(shown) == N + 1


def test_out_of_memory_halves_all_later_batches(tmp_path: Path) -> None:
    world = World(tmp_path, most=1)
    world.run(world.maker(batch=4))
    assert set(world.backbone.batches) == {1}
    # The first block was computed three times: with batches of 4, of 2, and of 1.
    assert [world.decoded.count(row) for row in range(N)] == [3, 3, 1 + 1, 1 + 1] + [
        1
    ] * 7
    assert open_store(world.path).status().counts == {"ok": N}


def test_out_of_memory_in_preprocessing_halves_the_batch(tmp_path: Path) -> None:
    world = World(tmp_path, most_waiting=2)
    world.run(world.maker(batch=4))
    # With a batch of 4, the third clip of the first block does not fit.
    assert world.backbone.batches == [2, 2, 2, 2, 2, 1]
    assert [world.decoded.count(row) for row in range(N)] == [2, 2, 2, 2] + [1] * 7
    assert open_store(world.path).status().counts == {"ok": N}


@pytest.mark.parametrize(
    "error",
    [
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "[enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate memory: "
        "you tried to allocate 8 bytes. Error code 12 (Cannot allocate memory)",
    ],
)
def test_each_error_for_too_little_memory_halves_the_batch(
    tmp_path: Path, error: str
) -> None:
    world = World(tmp_path, most=2, error=error)
    world.run(world.maker(batch=4))
    assert set(world.backbone.batches) == {2, 1}
    assert open_store(world.path).status().counts == {"ok": N}


def test_all_batches_are_halved_if_one_does_not_fit(tmp_path: Path) -> None:
    """They share the memory: the one that fails may already be as small as possible."""
    one, two = World(tmp_path / "one"), World(tmp_path / "two")
    large, small = one.maker(batch=4), two.maker(batch=1)
    forward = two.backbone.forward

    def forward_if_there_is_room(*args: Any, **options: Any) -> Any:
        if large.batch > 1:
            raise RuntimeError("CUDA out of memory")
        return forward(*args, **options)

    two.backbone.forward = forward_if_there_is_room  # type: ignore[method-assign]
    one.run(large, small)
    assert (large.batch, small.batch) == (1, 1)
    for world in (one, two):
        assert open_store(world.path).status().counts == {"ok": N}


@pytest.mark.parametrize("limit", ["most", "most_waiting"])
def test_a_clip_that_does_not_fit_into_memory_is_an_error(
    tmp_path: Path, limit: str
) -> None:
    world = World(tmp_path, **{limit: 0})
    with pytest.raises(ObygazeError, match="does not fit into memory"):
        world.run(world.maker(batch=2))
    assert world.writer.pending_blocks() == [0, 1, 2]


def test_the_memory_of_what_did_not_fit_is_free_before_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a traceback held the tensors, giving back the memory of the GPU gave back nothing."""
    world = World(tmp_path)
    forward = world.backbone.forward
    held: list[weakref.ref[Any]] = []
    freed: list[bool] = []

    def forward_of_two(pixels: Any, *args: Any, **options: Any) -> Any:
        if len(pixels) > 2:
            activations = np.zeros(10)
            held.append(weakref.ref(activations))
            raise RuntimeError("CUDA out of memory")
        return forward(pixels, *args, **options)

    def note() -> None:
        freed.append(held[-1]() is None)

    world.backbone.forward = forward_of_two  # type: ignore[method-assign]
    monkeypatch.setattr(torch.cuda, "empty_cache", note)
    world.run(world.maker(batch=4))
    assert freed == [True]
    assert open_store(world.path).status().counts == {"ok": N}


def test_a_gpu_that_fails_ends_the_run_with_a_reason(tmp_path: Path) -> None:
    world = World(tmp_path)
    forward = world.backbone.forward
    failing = [False, True]

    def broken(*args: Any, **options: Any) -> Any:
        if failing.pop(0):
            raise RuntimeError(
                "CUDA error: an illegal memory access\nCUDA kernel errors"
            )
        return forward(*args, **options)

    world.backbone.forward = broken  # type: ignore[method-assign]
    with pytest.raises(
        ObygazeError, match="the GPU failed: CUDA error: an illegal"
    ) as caught:
        world.run(world.maker(batch=4))
    assert "goes on from the finished clips" in (caught.value.hint or "")
    world.backbone.forward = forward  # type: ignore[method-assign]
    again = World(tmp_path, exists=True)
    again.run(again.maker(batch=4))
    assert open_store(world.path).status().counts == {"ok": N}


def test_the_thread_that_feeds_a_gpu_copies_no_features(tmp_path: Path) -> None:
    world = World(tmp_path)
    maker = world.maker()
    threads = set()
    start = maker.computer.start

    class Watched(dict[str, Any]):
        def items(self) -> Any:
            threads.add(threading.current_thread().name.partition("_")[0])
            return super().items()

    def started(clips: Any) -> Any:
        result = start(clips)

        def watched() -> Computed:
            computed = result()
            return replace(computed, arrays=Watched(computed.arrays))

        return watched

    maker.computer.start = started  # type: ignore[method-assign]
    world.run(maker)
    assert threads == {"copy"}
    assert open_store(world.path).status().counts == {"ok": N}


def test_other_errors_of_the_model_are_raised(tmp_path: Path) -> None:
    world = World(tmp_path)

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("shape mismatch")

    world.backbone.forward = broken  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="shape mismatch"):
        world.run(world.maker())


def kill(maker: BlockMaker) -> None:
    """Leave what a killed process leaves: files, and no thread that goes on."""
    maker.close = lambda: maker._pool.shutdown()  # type: ignore[method-assign]


@pytest.mark.parametrize("end", ["stop", "interrupt", "kill"])
@pytest.mark.parametrize("row", range(N))
def test_finished_batches_survive_an_end_at_each_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, row: int
) -> None:
    """Batches of three in blocks of four, of which two are computed at once."""
    monkeypatch.setattr(blocks, "KEEP_EVERY_S", 0.0)
    undisturbed = World(tmp_path / "undisturbed")
    undisturbed.run(undisturbed.maker())
    world = World(tmp_path / "world")
    maker = world.maker()
    if end == "stop":
        world.stop_after = row
    else:
        world.interrupt_after = row
    if end == "kill":
        kill(maker)
    with suppress(KeyboardInterrupt):
        world.run(maker)
    first = list(world.backbone.batches)
    again = World(tmp_path / "world", exists=True)
    again.run(again.maker())
    assert array_bytes(again.path) == array_bytes(undisturbed.path)
    assert list((again.path / "staging").iterdir()) == []
    # With a stop, no batch that was begun is computed again; else those under way are: two.
    n_twice = len(first) + len(again.backbone.batches) - len(FULL_BATCHES)
    assert 0 <= n_twice <= (0 if end == "stop" else 2)
    assert again.backbone.batches == FULL_BATCHES[len(first) - n_twice :]


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("failing", [1, 2, 3])
def test_rows_that_were_not_copied_to_their_block_are_not_kept(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    failing: int,
) -> None:
    """Of two backbones, the copies of one fail: what the other one has finished is kept."""
    monkeypatch.setattr(blocks, "KEEP_EVERY_S", 0.0)
    undisturbed = World(tmp_path / "undisturbed")
    undisturbed.run(undisturbed.maker(batch=1))
    world = World(tmp_path / "world")
    other = World(tmp_path / "other")
    copy = blocks._copy
    blocks_of_world = set()

    def fail(block: Any, slots: Sequence[int], arrays: Any) -> None:
        if block.arrays["clip"].ctypes.data in blocks_of_world and slots[0] == failing:
            raise error
        copy(block, slots, arrays)

    def remember(maker: BlockMaker, number: int) -> Any:
        block = block_of(maker, number)
        if maker.writer is world.writer:
            blocks_of_world.add(block.arrays["clip"].ctypes.data)
        return block

    block_of = BlockMaker._block
    with monkeypatch.context() as patch, pytest.raises(error):
        patch.setattr(blocks, "_copy", fail)
        patch.setattr(BlockMaker, "_block", remember)
        world.run(world.maker(batch=1), other.maker(batch=1))
    for folder in ("world", "other"):
        again = World(tmp_path / folder, exists=True)
        maker = again.maker(batch=1)
        assert folder == "world" or 0 not in maker.rows
        again.run(maker)
        assert array_bytes(again.path) == array_bytes(undisturbed.path)


def test_ctrl_c_while_finished_rows_are_written_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Impatient people press it three times; a process of several gets it from its parent too."""
    world = World(tmp_path)
    world.interrupt_after = 2
    keep_rows = StoreWriter.keep_rows

    def keep(writer: StoreWriter, *rows: Any) -> None:
        world.stop.handle(signal.SIGINT)
        world.stop.handle(signal.SIGINT)
        keep_rows(writer, *rows)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(StoreWriter, "keep_rows", keep)
        patch.setattr(blocks, "KEEP_EVERY_S", 1e9)
        world.run(world.maker(batch=1))
    again = World(tmp_path, exists=True)
    # Two rows were under way.
    assert again.maker(batch=1).rows == set(range(1, N))
    with pytest.raises(KeyboardInterrupt):
        world.stop.handle(signal.SIGINT)


def test_a_time_limit_shorter_than_a_block_makes_progress(tmp_path: Path) -> None:
    """Each start is stopped after three more clips were decoded."""
    undisturbed = World(tmp_path / "undisturbed")
    undisturbed.run(undisturbed.maker(batch=1))
    decoded = []
    for start in range(4):
        world = World(tmp_path / "world", exists=start > 0)
        world.stop_after_rows = 3
        world.run(world.maker(batch=1))
        decoded.append(world.decoded)
    assert decoded == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10]]
    assert array_bytes(world.path) == array_bytes(undisturbed.path)


def test_a_block_of_which_all_rows_were_finished_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C comes between the last row of a block and its commit."""
    undisturbed = World(tmp_path / "undisturbed")
    undisturbed.run(undisturbed.maker(batch=1))
    world = World(tmp_path / "world")

    def interrupt(maker: BlockMaker, block: Any) -> None:
        if block.has_all_rows and not block.n_awaited:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(BlockMaker, "_commit_if_complete", interrupt)
        world.run(world.maker(batch=1))
    assert world.writer.pending_blocks() == [0, 1, 2]
    again = World(tmp_path / "world", exists=True)
    again.run(again.maker(batch=1))
    assert again.decoded == list(range(4, N))
    assert array_bytes(again.path) == array_bytes(undisturbed.path)


def stopped_world(folder: Path, **settings: Any) -> World:
    """A store that was stopped after its rows 0 and 1 were finished."""
    world = World(folder)
    world.stop_after = 1
    world.run(world.maker(batch=1, **settings))
    assert world.decoded == [0, 1]
    return World(folder, exists=True)


def test_rows_of_another_video_batch_or_kind_are_made_again(tmp_path: Path) -> None:
    changed = stopped_world(tmp_path / "changed")
    changed.run(changed.maker(batch=1, is_current=lambda row, source: row != 0))
    assert changed.decoded == [0, *range(2, N)]
    batch = stopped_world(tmp_path / "batch")
    batch.run(batch.maker(batch=2))
    assert batch.decoded == list(range(N))
    kind = stopped_world(tmp_path / "kind")
    maker = kind.maker(batch=1)
    maker.maker = replace(maker.maker, program="obygaze 0.0.0")
    maker._take_finished_rows()
    kind.run(maker)
    assert kind.decoded == list(range(N))


def test_a_file_that_is_not_whole_is_not_taken(tmp_path: Path) -> None:
    stopped_world(tmp_path)
    paths = sorted((tmp_path / "store" / "staging").iterdir())
    (path,) = paths
    whole = path.read_bytes()
    for length in (0, 1, 64, 65, 200, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert World(tmp_path, exists=True).maker(batch=1).rows == set(range(N))
    for position in (0, 70, len(whole) - 1):
        changed = bytearray(whole)
        changed[position] ^= 1
        path.write_bytes(bytes(changed))
        assert World(tmp_path, exists=True).maker(batch=1).rows == set(range(N))
    path.write_bytes(whole)
    assert World(tmp_path, exists=True).maker(batch=1).rows == set(range(2, N))


def test_a_row_that_is_not_finite_is_not_computed_again(tmp_path: Path) -> None:
    """Else the batches after it would be others than without the stop."""
    undisturbed = World(tmp_path / "undisturbed", odd_rows=[1])
    undisturbed.run(undisturbed.maker(batch=2))
    world = World(tmp_path / "world", odd_rows=[1])
    world.stop_after = 1
    world.run(world.maker(batch=2))
    again = World(tmp_path / "world", exists=True)
    again.run(again.maker(batch=2))
    assert again.decoded == list(range(2, N))
    assert array_bytes(again.path) == array_bytes(undisturbed.path)
    status = open_store(again.path).status().status_of_row
    assert {row: str(one.error) for row, one in status.items()} == {1: "NotFinite"}


def test_a_retry_that_is_stopped_keeps_its_rows(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.failing = dict.fromkeys((4, 5, 6), RowStatus.failed("open", "unreadable", ""))
    world.run(world.maker(batch=1))
    world.failing = {}
    for row in (4, 5, 6):
        world.decoded = []
        world.stop_after = row
        wanted = world.writer.rows_to_retry()
        world.run(world.maker(batch=1, wanted=wanted, retry=True))
        assert world.decoded == [row]
        world.stop = StopFlag()
    assert open_store(world.path).status().counts == {"ok": N}
    assert list((world.path / "staging").iterdir()) == []


def test_rows_that_are_left_after_a_commit_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process is killed after it has committed a block, before it removes its rows."""
    world = stopped_world(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(writer_module, "remove_finished_rows", lambda *words: 0)
        # On a slow machine more rows would be kept meanwhile.
        patch.setattr(blocks, "KEEP_EVERY_S", 3600.0)
        world.run(world.maker(batch=1))
    assert len(list((world.path / "staging").iterdir())) == 1
    assert world.writer.clean_litter() == 1
    assert list((world.path / "staging").iterdir()) == []


def test_two_stores_share_each_decode(tmp_path: Path) -> None:
    one, two = World(tmp_path / "one"), World(tmp_path / "two")
    two.run(two.maker(wanted={1: [4, 5, 6, 7]}))
    one.run(one.maker(), two.maker())
    assert one.decoded == list(range(N))
    # The second store had its middle block already, so it took eight rows of these.
    assert sum(two.backbone.batches) == 4 + 7


def test_retried_rows_replace_failed_rows_only(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.failing = {5: RowStatus.failed("open", "unreadable", "x")}
    world.run(world.maker())
    before = open_store(world.path).matrix("clip", missing="nan").values
    world.failing, world.decoded = {}, []
    world.run(world.maker(wanted=world.writer.rows_to_retry(), retry=True))
    assert world.decoded == [5]
    marker = world.writer.marker(1)
    # Four rows of half a second, one of which was decoded twice.
    assert marker is not None and marker.seconds["decode"] == 2.5
    after = open_store(world.path).matrix("clip").values
    np.testing.assert_array_equal(np.delete(after, 5, 0), np.delete(before, 5, 0))
    assert np.isfinite(after[5]).all()


def test_seconds_are_kept_in_the_markers(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.run(world.maker())
    marker = world.writer.marker(0)
    assert marker is not None
    # Four rows, each recorded with half a second of decoding.
    assert marker.seconds["decode"] == 2.0
    assert {"wait", "preprocess", "forward"} <= marker.seconds.keys()


def test_a_clock_adds_seconds_by_stage() -> None:
    clock = Clock()
    clock.add({"wait": 1.5, "decode": 1.0})
    clock.add({"wait": 0.5})
    assert clock == {"wait": 2.0, "decode": 1.0}
