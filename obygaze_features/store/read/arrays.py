"""The arrays of a store through zarr: few large selections, and errors that name the block."""

from __future__ import annotations

import json
import threading
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.core.buffer import cpu

from obygaze_features.core.errors import Corrupt, ObygazeError
from obygaze_features.core.files import sha256_bytes
from obygaze_features.store.format.limits import check_memory
from obygaze_features.store.format.records import Plan
from obygaze_features.store.format.schema import ArraySpec
from obygaze_features.store.format.text import TEXT_FOLDER, WORDS, TextTable
from obygaze_features.store.read.bridge import Bridge
from obygaze_features.store.read.commits import Commits
from obygaze_features.store.remote.files import Files, read_or_none

Rows = npt.NDArray[np.int64]
BATCH_BYTES = 2_000_000
# Zarr's settings are the whole process's: one thread at a time may hold another one.
_SETTING = threading.Lock()
# What zarr and its codecs raise over bytes that are not what they should be.
DAMAGE = (ValueError, RuntimeError, TypeError, LookupError, ArithmeticError)


class Arrays:
    """Rows in any order from a store's arrays. Callers ask only for rows that are there."""

    def __init__(self, files: Files, plan: Plan, commits: Commits) -> None:
        self.files, self.plan, self.commits = files, plan, commits
        self._bridge = Bridge(files, plan.zarr, commits.promised)
        self._open: dict[str, zarr.Array[Any]] = {}
        self._lock = threading.Lock()

    def ids(self, name: str) -> npt.NDArray[np.str_]:
        """All ids of one kind."""
        # By way of a list: StringDType cannot be cast to a width NumPy has yet to find.
        return np.array(self.strings(name), dtype=np.str_)

    def strings(self, name: str) -> list[str]:
        """A whole array of words, as a list."""
        return [str(word) for word in self.whole(name).tolist()]

    def whole(self, name: str) -> npt.NDArray[Any]:
        """A whole small array: ids, or one that goes with the texts."""
        try:
            return np.asarray(self._array(name)[:])
        except DAMAGE as error:
            raise self._damaged(f"data.zarr/{name}", error) from error

    def text(self) -> TextTable | None:
        """Return the texts that go with the store, if there are any."""
        marks = self.commits.text_files()
        if not marks:
            return None
        words = {name: self.strings(f"text/{name}") for name in WORDS}
        key = f"{TEXT_FOLDER}/zarr.json"
        data = read_or_none(self.files, key)
        if data is None or key not in marks or sha256_bytes(data) != marks[key].sha256:
            raise Corrupt(f"{key} is missing or damaged", where=self.files.location)
        space_id = str(json.loads(data)["attributes"]["space_id"])
        embeddings = self.whole("text/embeddings")
        return TextTable(embeddings=embeddings, space_id=space_id, **words)

    def check_layout(self, name: str) -> None:
        """An error where an array is not there as it was planned."""
        self._array(name)

    def read(self, spec: ArraySpec, rows: Rows) -> npt.NDArray[Any]:
        """The values of some rows, in the order of the rows."""
        if not len(rows):
            return self.reserve(spec, 0)
        steps = np.diff(rows)
        if (steps == 1).all():
            out = self.reserve(spec, len(rows))
            return self._range(spec, int(rows[0]), int(rows[-1]) + 1, out)
        if (steps > 0).all():
            return self._ascending(spec, rows, np.flatnonzero(steps > 1) + 1)
        unique, places = np.unique(rows, return_inverse=True)
        return self.read(spec, unique)[places]

    def reserve(self, spec: ArraySpec, n_rows: int) -> npt.NDArray[Any]:
        """Room for some rows, or an error where they can never fit into memory."""
        self._check_room(spec, n_rows)
        return np.empty((n_rows, *spec.tail_shape), dtype=spec.dtype)

    def _check_room(self, spec: ArraySpec, n_rows: int) -> None:
        check_memory(
            n_rows * spec.row_bytes,
            f"{n_rows} clips of {spec.name}",
            self.files.location,
            "store.stream(...), which reads block by block, or fewer clips",
        )

    def _ascending(self, spec: ArraySpec, rows: Rows, cuts: Rows) -> npt.NDArray[Any]:
        # A few holes: straight into place, run by run, even if a block is read twice. Over a
        # network one selection is better, since its requests run side by side.
        if self.files.is_remote or len(cuts) > len(np.unique(rows // self.plan.block_rows)):
            return self._scattered(spec, rows)
        out = self.reserve(spec, len(rows))
        for start, stop in pairwise([0, *cuts.tolist(), len(rows)]):
            self._range(spec, int(rows[start]), int(rows[stop - 1]) + 1, out[start:stop])
        return out

    def _range(
        self, spec: ArraySpec, first: int, after: int, out: npt.NDArray[Any]
    ) -> npt.NDArray[Any]:
        array = self._array(spec.name)
        try:
            array.get_basic_selection(slice(first, after), out=cpu.NDBuffer.from_numpy_array(out))
        except DAMAGE as error:
            raise self._damaged(self._culprit(spec, first, after), error) from error
        return out

    def _scattered(self, spec: ArraySpec, rows: Rows) -> npt.NDArray[Any]:
        self._check_room(spec, len(rows))
        array = self._array(spec.name)
        try:
            return np.asarray(array.get_orthogonal_selection((rows,)))
        except DAMAGE as error:
            culprit = self._culprit(spec, int(rows[0]), int(rows[-1]) + 1)
            raise self._damaged(culprit, error) from error

    def _culprit(self, spec: ArraySpec, first: int, after: int) -> str:
        # A checksum that fails does not say whose it was: ask each block alone.
        array = self._array(spec.name)
        step = self.plan.block_rows
        for block in range(first // step, -(-after // step)):
            try:
                array[slice(*self.plan.block_range(block))]
            except (ObygazeError, *DAMAGE):
                return self.plan.block_key(spec.name, block)
        return f"data.zarr/{spec.name}"

    def _damaged(self, name: str, error: Exception) -> Corrupt:
        return Corrupt(
            f"damaged bytes in {name}: {str(error).splitlines()[0][:120]}",
            where=self.files.location,
            hint="obygaze store verify --hash, then fetch or extract that block again",
        )

    def _array(self, name: str) -> zarr.Array[Any]:
        with self._lock:
            if name not in self._open:
                self._open[name] = self._opened(name)
            return self._open[name]

    def _opened(self, name: str) -> zarr.Array[Any]:
        key = f"data.zarr/{name}/zarr.json"
        # Over a network the copy in store.json, which carries a checksum, saves the request.
        if not self.files.is_remote and not name.startswith("text/"):
            data = read_or_none(self.files, key)
            if data is None:
                raise Corrupt(f"the array {name!r} is missing: no {key}", where=self.files.location)
            if _json_or_none(data) != self.plan.zarr.get(f"{name}/zarr.json"):
                raise Corrupt(f"{key} is not what was planned", where=self.files.location)
        try:
            with _SETTING, zarr.config.set({"codec_pipeline.batch_size": self._batch(name)}):
                array = zarr.open_array(self._bridge, path=name, mode="r", zarr_format=3)
        except (FileNotFoundError, *DAMAGE) as error:
            raise self._damaged(key, error) from error
        self._check_layout(name, array)
        return array

    def _batch(self, name: str) -> int:
        """How many blocks zarr takes at once: several small ones cost it little more than one."""
        row_bytes = next((spec.row_bytes for spec in self.plan.arrays if spec.name == name), 1)
        return int(np.clip(BATCH_BYTES // (self.plan.block_rows * row_bytes), 1, 16))

    def _check_layout(self, name: str, array: zarr.Array[Any]) -> None:
        for spec in self.plan.arrays:
            if spec.name != name:
                continue
            block = (array.shards or array.chunks)[0]
            found = (array.shape, str(array.dtype), block)
            if found != ((self.plan.n_clips, *spec.tail_shape), spec.dtype, self.plan.block_rows):
                raise Corrupt(
                    f"the array {name!r} does not have the layout store.json promises",
                    where=self.files.location,
                )


def _json_or_none(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None
