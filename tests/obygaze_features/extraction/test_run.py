"""`obygaze extract plan`, `run` and `status`: what they say, and how they end."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from support.cli import Result, call_obygaze
from support.extracted_stores import films_with_failures
from support.extraction import keep_manifest

import obygaze as og
from obygaze_features.manifest.model import Manifest

N_CLIPS = 20


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return films_with_failures(tmp_path_factory.mktemp("films"), N_CLIPS)


@pytest.fixture
def world(films: Manifest, tmp_path: Path) -> Path:
    keep_manifest(films, tmp_path)
    return tmp_path


def extract(folder: Path, verb: str, *words: str) -> Result:
    return call_obygaze("-C", folder, "extract", verb, *words)


def run(folder: Path, *words: str) -> Result:
    return extract(folder, "run", "films", "-b", "descriptors", *words)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("-b", "descriptors", "--arrays", "clip,none"), 2, "no array none"),
        (("-b", "descriptors", "-b", "descriptors"), 2, "a store of its own"),
        (("-b", "descriptors", "--seal-now"), 1, "blocks are missing"),
    ],
)
def test_invalid_options_leave_no_store(
    world: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    done = extract(world, "run", "films", *words)
    assert (done.code, message in done.stderr) == (code, True), done.stderr
    assert not list(world.glob("stores/*"))


def test_the_status_counts_blocks_while_a_store_is_filled(
    world: Path, films: Manifest
) -> None:
    """Also of a store that is changed: its rows count, and those that are still to compute."""
    keep_manifest(films.with_clips(films.clips[:4]), world)
    run(world)
    keep_manifest(films, world)

    def stop(row: int, failed: bool) -> None:
        signal.raise_signal(signal.SIGTERM)

    done = og.extract("films", "descriptors", workspace=world, watch=stop, workers=1)
    assert done.stop.signal_name == "SIGTERM"
    (state,) = extract(world, "status", "films", "--json").ok().json()["stores"]
    assert (state["clips"], state["sealed"], state["blocks"]) == (N_CLIPS, False, 2)
    assert state["blocks_done"] == 0
    assert (state["ok"], state["not_extracted"]) == (4, N_CLIPS - 4)
    text = extract(world, "status", "films.descriptors").ok().stdout
    assert "being filled, 0 of 2 blocks; 20 clips: 4 ok, 16 not-extracted" in text
    run(world)
    text = extract(world, "status", "films.descriptors").ok().stdout
    assert "sealed; 20 clips: 17 ok, 2 failed, 1 no-video" in text
