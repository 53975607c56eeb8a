"""Write the same made-up features in each file format that people use, and read them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import InstallExtra
from obygaze_features.core.lazy import need
from obygaze_features.store.format.recipe import Recipe
from obygaze_features.store.format.schema import ArraySpec
from obygaze_features.store.read.reader import open_store
from obygaze_features.store.write.create import create_store
from obygaze_features.store.write.writer import StoreWriter

Array = npt.NDArray[Any]
Read = Callable[[str, Sequence[int] | None], Array]
PER_FILM = 160
OBYGAZE = "obygaze"
NPY = "np.load of one file"
PTH = "one .pth a clip"
HDF5 = "HDF5, one key a clip"
ZARR = "zarr, one clip a chunk"


@dataclass(frozen=True)
class Activations:
    """Made-up features: a vector for each clip and one for each frame."""

    clip_ids: Sequence[str]
    movie_ids: Sequence[str]
    arrays: Mapping[str, Array]

    @property
    def specs(self) -> list[ArraySpec]:
        """The arrays as a store declares them."""
        return [
            ArraySpec(name, values.shape[1:], dtype=str(values.dtype))
            for name, values in self.arrays.items()
        ]


def make_up(
    n_clips: int, n_frames: int = 32, width: int = 512, seed: int = 0
) -> Activations:
    """Return normally distributed numbers, which compress as little as real features do."""
    random = np.random.default_rng(seed)
    clips, films = ids(n_clips)
    pooled = random.standard_normal((n_clips, width), dtype=np.float32)
    frames = np.empty((n_clips, n_frames, width), np.float16)
    for start in range(0, n_clips, 256):
        part = frames[start : start + 256]
        part[:] = random.standard_normal(part.shape, dtype=np.float32)
    return Activations(clips, films, {"pooled": pooled, "frames": frames})


def ids(n_clips: int) -> tuple[list[str], list[str]]:
    """Return the ids of clips and of their films, in the form of MovieGraphs."""
    films = [f"tt{row // PER_FILM:07d}" for row in range(n_clips)]
    return [f"{film}-{row % PER_FILM + 1:03d}" for row, film in enumerate(films)], films


def plan(path: Path, activations: Activations, specs: Sequence[ArraySpec] = ()) -> None:
    """Create an empty store for them."""
    create_store(
        path,
        recipe=Recipe.unknown("made up", {"purpose": "a benchmark"}),
        manifest_name="made-up",
        manifest_sha256="0" * 64,
        clip_ids=activations.clip_ids,
        movie_ids=activations.movie_ids,
        arrays=specs or activations.specs,
        licence="CC0-1.0",
        citation="",
    )


def write_all(root: Path, activations: Activations) -> dict[str, Read]:
    """Write each layout below `root` and return its reader; skip those whose package is absent."""
    _write_store(root / "store", activations)
    readers = {OBYGAZE: _store_reader(root / "store", activations)}
    for name, write in ((NPY, _npy), (PTH, _pth), (HDF5, _hdf5), (ZARR, _zarr)):
        try:
            readers[name] = write(
                root / name.split()[0].strip(",.").lower(), activations
            )
        except InstallExtra:
            continue
    os.sync()
    return readers


def files_of(root: Path) -> Iterator[Path]:
    """Yield every file below a folder."""
    return (path for path in root.rglob("*") if path.is_file())


def forget(root: Path) -> None:
    """Drop these files from the cache of the system."""
    for path in files_of(root):
        with path.open("rb") as stream:
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _write_store(path: Path, activations: Activations) -> None:
    plan(path, activations)
    writer = StoreWriter(path)
    for block in range(writer.plan.n_blocks):
        rows = slice(*writer.plan.block_range(block))
        writer.commit_block(
            block, {name: values[rows] for name, values in activations.arrays.items()}
        )
    writer.seal()


def _store_reader(path: Path, activations: Activations) -> Read:
    def read(array: str, rows: Sequence[int] | None) -> Array:
        clips = None if rows is None else [activations.clip_ids[row] for row in rows]
        return open_store(path).matrix(array, clips=clips).values

    return read


def _npy(root: Path, activations: Activations) -> Read:
    root.mkdir()
    for name, values in activations.arrays.items():
        np.save(root / f"{name}.npy", values)

    def read(array: str, rows: Sequence[int] | None) -> Array:
        if rows is None:
            return np.asarray(np.load(root / f"{array}.npy"))
        return np.asarray(
            np.load(root / f"{array}.npy", mmap_mode="r")[np.asarray(rows)]
        )

    return read


def _pth(root: Path, activations: Activations) -> Read:
    torch = need("torch", "mlp", "writing .pth files")
    for name, values in activations.arrays.items():
        for clip, film, row in zip(
            activations.clip_ids, activations.movie_ids, values, strict=True
        ):
            folder = root / name / film
            folder.mkdir(parents=True, exist_ok=True)
            torch.save(torch.from_numpy(row[None].copy()), folder / f"{clip}.pth")

    def read(array: str, rows: Sequence[int] | None) -> Array:
        wanted = range(len(activations.clip_ids)) if rows is None else rows
        folder = root / array
        tensors = [
            torch.load(
                folder
                / activations.movie_ids[row]
                / f"{activations.clip_ids[row]}.pth",
                weights_only=True,
            )
            for row in wanted
        ]
        return np.asarray(torch.cat(tensors).numpy())

    return read


def _hdf5(root: Path, activations: Activations) -> Read:
    import h5py

    root.mkdir()
    for name, values in activations.arrays.items():
        with h5py.File(root / f"{name}.h5", "w") as file:
            for clip, row in zip(activations.clip_ids, values, strict=True):
                file[clip] = row

    def read(array: str, rows: Sequence[int] | None) -> Array:
        wanted = range(len(activations.clip_ids)) if rows is None else rows
        with h5py.File(root / f"{array}.h5", "r") as file:
            return np.stack([file[activations.clip_ids[row]][()] for row in wanted])

    return read


def _zarr(root: Path, activations: Activations) -> Read:
    import zarr

    for name, values in activations.arrays.items():
        array = zarr.create_array(
            root / name,
            shape=values.shape,
            chunks=(1, *values.shape[1:]),
            dtype=values.dtype,
            compressors=None,
        )
        array[:] = values

    def read(array: str, rows: Sequence[int] | None) -> Array:
        opened: Any = zarr.open_array(root / array, mode="r")
        return np.asarray(
            opened[:] if rows is None else opened.oindex[np.asarray(rows)]
        )

    return read
