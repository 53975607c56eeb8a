"""The loop on made-up films: the same bytes whatever happens, and the numbers of another way."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.extracted_stores import (
    bytes_of,
    films_with_failures,
    run,
)
from support.extraction import keep_manifest

from obygaze_features.core.errors import Mismatch, ObygazeError
from obygaze_features.extraction.compute import ThreadComputer
from obygaze_features.extraction.stored import store_status
from obygaze_features.manifest.model import Manifest
from obygaze_features.store.changing import subset
from obygaze_features.store.filling import Filling
from obygaze_features.store.reading import open_store

STORE = "films.descriptors"
# A block of 16 and one of four.
N_CLIPS = 20


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return films_with_failures(tmp_path_factory.mktemp("films"), N_CLIPS)


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


def test_a_store_that_is_sealed_while_it_is_looked_at(
    films: Manifest,
    world: Path,
    undisturbed: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another process finishes and removes the blocks that are about to be read."""
    run(films, world, watch=at_row(18, lambda: os.kill(os.getpid(), signal.SIGINT)))
    store = world / "stores" / STORE
    read_block = Filling.read_block

    def seal_before(filling: Filling, block: int) -> object:
        monkeypatch.setattr(Filling, "read_block", read_block)
        run(films, world)
        return read_block(filling, block)

    monkeypatch.setattr(Filling, "read_block", seal_before)
    assert store_status(store).seal == open_store(store).seal
    assert bytes_of(store) == bytes_of(undisturbed)


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


def test_a_run_whose_store_is_changed_meanwhile_says_that_it_added_nothing(
    films: Manifest, world: Path
) -> None:
    run(some_clips(films, [0, 1, 10, 11]), world)
    store = world / "stores" / STORE

    def change() -> None:
        shutil.rmtree(store.with_name(f"{STORE}.next"))
        subset(store, world / "rest", without=["tt1"])
        store.rename(world / "before")
        (world / "rest").rename(store)

    with pytest.raises(Mismatch, match="were not added: meanwhile another") as error:
        run(films, world, watch=at_row(3, change))
    assert str(store) in str(error.value)
    assert len(open_store(store)) == 2
    assert run(films, world)[0].clips == len(films)


def test_a_device_that_fails_is_named(
    films: Manifest, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(computer: ThreadComputer, *arguments: Any) -> dict[str, Any]:
        raise RuntimeError("CUDA error: an illegal memory access\nmore lines")

    monkeypatch.setattr(ThreadComputer, "forward", failed)
    with pytest.raises(ObygazeError, match="the GPU failed: CUDA error: an") as error:
        run(films, world)
    assert error.value.where == "cpu"
