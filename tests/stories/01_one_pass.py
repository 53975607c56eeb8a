"""Story 1: films and a table of clips become a store for each of several backbones in one pass.

The plan says before what that costs; a clip that cannot be read is a row with its reason.
"""

import contextlib
import ctypes
import os
import re
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.checkpoints import save_tiny, write_tiny_card
from support.once import made_once

import obygaze as og
from stories.films import FILMS, import_films, rows_of_clips
from stories.workspace import Workspace

FILMS_HERE = FILMS[:2]
CLIP = "-b tiny-clip --weights tiny-clip=weights"
BOTH = f"-b descriptors {CLIP}"
STORES = ("films.descriptors", "films.tiny-clip")
SIZES = {"kB": 10**3, "MB": 10**6}


def begin_with_both_stores(ws: Workspace) -> None:
    """Begin after one pass over two films, of which `lake` is broken, with both backbones."""

    def fill(folder: Path) -> None:
        other = Workspace(folder)
        import_films(other, *FILMS_HERE)
        other.path("videos/lake.mp4").write_bytes(b"this was a film" * 1000)
        write_tiny_card("clip", other.path("backbones"))
        save_tiny("clip", other.path("weights"))
        other(f"extract run films {BOTH} --workers 1", code=3)

    ws.copy_of(made_once("stories", fill, "one pass of two backbones"))
    ws("manifest link films videos")


def arrays_of(ws: Workspace, store: str) -> Any:
    """Open the arrays of a store with zarr, as a reader without this program does."""
    import zarr

    return zarr.open_group(ws.path(f"stores/{store}"), mode="r")


def clip_ids() -> list[str]:
    return [row["clip_id"] for row in rows_of_clips(*FILMS_HERE)]


def test_the_plan_says_what_a_pass_costs(ws: Workspace) -> None:
    begin_with_both_stores(ws)
    names = "--store descriptors=one --store tiny-clip=two"
    planned = ws(f"extract plan films {BOTH} {names}").text
    assert "20 clips, 20 with video" in planned
    assert re.search(r"decoding takes about [0-9.]+ s per clip", planned)
    for name, store in zip(("one", "two"), STORES, strict=True):
        assert not ws.path(f"stores/{name}").exists()
        size = re.search(rf"{name} .*? ([0-9.]+) (kB|MB) ", planned)
        assert size is not None
        n_planned = float(size[1]) * SIZES[size[2]]
        arrays = [array for _, array in arrays_of(ws, store).arrays()]
        # Those of a row's own times are few.
        features = [array for array in arrays if array.ndim > 1]
        n_bytes = sum(array.nbytes for array in features if array.dtype.kind == "f")
        assert n_planned == pytest.approx(n_bytes, rel=0.01)


def test_a_clip_that_cannot_be_read_is_a_row_with_its_reason(ws: Workspace) -> None:
    begin_with_both_stores(ws)
    for store in STORES:
        ws(f"store info {store} --clips -o {store}.csv")
        rows = ws.read_table(f"{store}.csv")
        assert [row["clip_id"] for row in rows] == clip_ids()
        verified = ws(f"store verify {store} --hash").text
        assert "whole: " in verified
        assert "10 ok, 10 failed" in verified
        assert "seal: " in verified
        for row in rows:
            if row["movie_id"] == "lake":
                assert row["status"] == "failed"
                assert "the file is not a video" in row["reason"]
            else:
                assert row["status"] == "ok"
                assert row["reason"] == ""
        opened = og.open_store(ws.path(f"stores/{store}"))
        kept = opened.matrix("clip", missing="drop")
        assert len(kept.values) == 10
        with pytest.raises(og.ObygazeError, match="10 of the requested clips"):
            opened.matrix("clip")


def test_one_pass_decodes_once_and_gives_what_each_backbone_gives_alone(ws) -> None:
    import_films(ws, FILMS_HERE[0])
    write_tiny_card("clip", ws.path("backbones"))
    save_tiny("clip", ws.path("weights"))
    film = ws.path(f"videos/{FILMS_HERE[0]}.mp4")
    with opens_of(film) as opens_for_one:
        ws("extract run films -b descriptors --store descriptors=alone --workers 1")
    with opens_of(film) as opens_for_two:
        ws(f"extract run films {BOTH} --workers 1")
    # A process that begins in the middle of a film opens it once more.
    assert 1 <= len(opens_for_two) <= len(opens_for_one) + 1
    both, alone = map(ws.features_of, (STORES[0], "alone"))
    assert both == alone


@contextmanager
def opens_of(film: Path) -> Iterator[list[int]]:
    """Note each time that any process opens a film; the list is filled at the end."""
    if not sys.platform.startswith("linux"):
        pytest.skip("inotify is Linux")
    system = ctypes.CDLL(None, use_errno=True)
    watch = system.inotify_init1(os.O_NONBLOCK)
    is_open = 0x20
    system.inotify_add_watch(watch, os.fsencode(film), is_open)
    opens: list[int] = []
    yield opens
    with contextlib.suppress(BlockingIOError):
        events = os.read(watch, 1_000_000)
        opens += [event[0] for event in struct.iter_unpack("iIII", events)]
    os.close(watch)
