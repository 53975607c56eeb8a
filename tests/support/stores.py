"""Made-up stores for tests: small, deterministic, and described by plain NumPy arrays."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from obygaze_features.store import (
    ArraySpec,
    Recipe,
    RowStatus,
    StoreWriter,
    create_store,
    open_store,
)
from obygaze_features.store.format.records import Partial, Plan
from obygaze_features.store.format.schema import FileMark
from obygaze_features.store.read import arrays as read_arrays
from obygaze_features.store.remote.files import FolderFiles, Piece
from obygaze_features.store.write import gathering

ARRAYS = (
    ArraySpec("clip", (4,)),
    ArraySpec("pooled", (6,)),
    ArraySpec("frames", (3, 4), dtype="float16"),
    ArraySpec("time_s", (3,), dtype="float64"),
)


def gather_all(patch: pytest.MonkeyPatch) -> None:
    """Gather the blocks of all arrays that have two, and read them so."""
    patch.setattr(gathering, "MIN_BLOCKS", 2)
    patch.setattr(read_arrays, "GATHERED_FROM_BLOCKS", 1)


def a_recipe(**changes: Any) -> Recipe:
    """A known recipe; keyword arguments replace whole sections."""
    sections: dict[str, Any] = {
        "backbone": {"name": "toy", "card_sha256": "ab" * 32},
        "weights": {"model.safetensors": "cd" * 32},
        "sampling": {"rule": "uniform", "frames": 3},
        "decoder": {"name": "pyav", "version_class": "18"},
        "preprocessing": {"size": 8, "filter": "bicubic"},
        "levels": ["clip", "pooled", "frames"],
        "compute": {"dtype": "float32", "attention": "eager"},
        "storage": {"clip": "float32", "frames": "float16"},
    }
    return Recipe.of(**{**sections, **changes})


def some_ids(n_clips: int, per_film: int = 5) -> tuple[list[str], list[str]]:
    """Clip and film ids as MovieGraphs spells them."""
    films = [f"tt{100 + i // per_film:07d}" for i in range(n_clips)]
    return [f"{film}-{i % per_film + 1:03d}" for i, film in enumerate(films)], films


def some_values(
    n_clips: int, arrays: Sequence[ArraySpec] = ARRAYS, seed: int = 0
) -> dict[str, npt.NDArray[Any]]:
    """Values for every row of every array."""
    random = np.random.default_rng(seed)
    return {
        spec.name: random.standard_normal((n_clips, *spec.tail_shape)).astype(
            spec.dtype
        )
        for spec in arrays
    }


def plan_store(
    path: Path, n_clips: int = 23, block_rows: int = 4, **changes: Any
) -> Any:
    """An empty store; keyword arguments replace what `create_store` is given."""
    clips, films = some_ids(n_clips)
    given: dict[str, Any] = {
        "recipe": a_recipe(),
        "manifest_name": "made-up",
        "manifest_sha256": "12" * 32,
        "clip_ids": clips,
        "movie_ids": films,
        "arrays": ARRAYS,
        "block_rows": block_rows,
        "licence": "CC0-1.0",
        "citation": "Nobody (2026).",
    }
    return create_store(path, **{**given, **changes})


def block_of(
    values: Mapping[str, npt.NDArray[Any]], rows: tuple[int, int]
) -> dict[str, npt.NDArray[Any]]:
    """The part of all arrays that belongs to a block."""
    return {name: array[slice(*rows)] for name, array in values.items()}


def fill_store(
    path: Path,
    values: Mapping[str, npt.NDArray[Any]],
    status_of_row: Mapping[int, RowStatus] | None = None,
    blocks: Sequence[int] | None = None,
) -> StoreWriter:
    """Commit blocks (all, unless told which) from arrays that hold every row."""
    writer = StoreWriter(path)
    for block in range(writer.plan.n_blocks) if blocks is None else blocks:
        first, after = writer.plan.block_range(block)
        statuses = [
            (status_of_row or {}).get(row, RowStatus()) for row in range(first, after)
        ]
        writer.commit_block(
            block,
            block_of(values, (first, after)),
            statuses,
            seconds={"decode": 0.5},
            versions={"toy": "1"},
        )
    return writer


def sealed_store(
    path: Path, n_clips: int = 23, block_rows: int = 4, **changes: Any
) -> Any:
    """A whole, sealed store and the values it was made from."""
    plan = plan_store(path, n_clips, block_rows, **changes)
    values = some_values(n_clips, plan.arrays)
    fill_store(path, values).seal()
    return values


def partial_copy(
    source: Path,
    target: Path,
    arrays: Sequence[str] | None = None,
    films: Sequence[str] | None = None,
) -> Path:
    """A partial copy, or an addition to one, as earlier versions made it when they pulled a part.

    It has the store.json and the seal of the whole store, and whole blocks of some arrays.
    """
    store = open_store(source)
    names = [spec.name for spec in store.plan.arrays] if arrays is None else arrays
    rows = store.select(films=films).rows
    blocks = frozenset((rows // store.plan.block_rows).tolist())
    held: dict[str, frozenset[int]] = {}
    if (target / Partial.FILE).exists():
        held.update(Partial.load(target).blocks)
    for name in store.plan.with_masks(names):
        held[name] = held.get(name, frozenset()) | blocks
    partial = Partial(held)
    for path in source.rglob("*"):
        name = path.relative_to(source).as_posix()
        if path.is_file() and partial.holds_file(name):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / name)
    (target / Partial.FILE).write_bytes(partial.to_bytes())
    return target


class CountedFiles(FolderFiles):
    """A folder that writes down what is asked of it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.reads: list[str] = []
        self.listings: list[str] = []

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Piece | None:
        self.reads.append(name)
        return super().read(name, start, stop)

    def names(self, folder: str) -> list[str] | None:
        self.listings.append(folder)
        return super().names(folder)


class RemoteFiles(CountedFiles):
    """A folder that counts as remote and cannot be listed."""

    is_remote = True

    def names(self, folder: str) -> None:
        return None


def a_million_planned() -> Plan:
    """The plan of a store of a million clips, without its files."""
    return Plan(
        n_clips=1_000_000,
        block_rows=64,
        recipe=a_recipe(),
        manifest_name="all of cinema",
        manifest_sha256="34" * 32,
        arrays=ARRAYS,
        licence="",
        citation="",
        compressor=None,
        created="2026-01-01T00:00:00Z",
        created_by="a test",
        zarr={},
        files={
            f"data.zarr/{name}/c.{i}": FileMark(1_000_000, "ab" * 32)
            for name in ("clip_id", "movie_id")
            for i in range(16)
        },
    )


@functools.cache
def _sealed_once() -> tempfile.TemporaryDirectory[str]:
    # Every commit is synced to the disk: a copy is had sooner than a second store.
    folder = tempfile.TemporaryDirectory(prefix="obygaze-store-")
    sealed_store(Path(folder.name) / "s")
    return folder


def copy_of_sealed(path: Path) -> Path:
    """A copy of the one sealed store of 23 clips, made once for all tests."""
    shutil.copytree(Path(_sealed_once().name) / "s", path)
    return path


def tree(root: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }
