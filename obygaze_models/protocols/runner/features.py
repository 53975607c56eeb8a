"""Read the vectors of a store for the clips of a protocol, and list the missing ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from hashlib import sha256
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput, FixUsage, Mismatch, NotFound
from obygaze_features.store import Matrix, RowStatus, Segments, Store
from obygaze_models.models.common import column_scales
from obygaze_models.models.frames import CLIPS_A_BLOCK, RowsOf
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.schema import Data, Feature

IMPORTED = " (imported)"  # after a backbone that nobody but the importer vouches for
NOT_FINITE = "failed: holds NaN or infinity"
ZERO = "failed: a vector of zeros cannot be scaled to length 1"


@dataclass(frozen=True, eq=False)
class Features:
    """The vectors of the clips that have one; of models of frames, all vectors of a clip.

    `row_of` is the row of `X` for each clip of the table, -1 where there is none; `missing` has the
    reason for each of those clips. Missing vectors are never filled in. `origin` is what a run
    records of the store.
    """

    name: str
    X: NDArray[np.float32]
    row_of: NDArray[np.intp]
    missing: Mapping[str, str]
    origin: Mapping[str, Any]

    @property
    def present(self) -> NDArray[np.bool_]:
        """Whether each clip of the table has a vector."""
        return self.row_of >= 0

    def of(self, clips: NDArray[np.intp]) -> Any:
        """Return the vectors of some clips of the table; those of frames are read in blocks."""
        rows = self.row_of[clips]
        return RowsOf(self.X, rows) if self.X.ndim > 2 else self.X[rows]


def join(
    name: str,
    store: Store,
    table: ClipTable,
    data: Data,
    feature: Feature | None = None,
    *,
    frames: bool = False,
) -> Features:
    """Return the vectors of a store for the clips of a table.

    With `frames`, all frames or tokens of a clip, in a temporary file, so that they may be larger
    than memory. It is where TMPDIR says.
    """
    feature = feature or Feature()
    stated = store.recipe.to_json().get("told", {}).get("backbone")
    backbone = f"{stated}{IMPORTED}" if stated else store.recipe.title
    if feature.backbone and not is_backbone(backbone, feature.backbone):
        raise Mismatch(
            f"the protocol needs features of {feature.backbone!r} as {name!r}, "
            f"this store has features of {backbone!r}",
            where=store.location,
            hint=f"--store {name}=ANOTHER",
        )
    level = choose_level(store, (feature.level,) if feature.level else data.level)
    cut = {"rule": data.rule, "reduce": data.reduce} if data.segments else {}
    if frames and (cut or data.scale != "none"):
        raise FixUsage("models of frames read unscaled frames of clips, no segments")
    matrix, names = _matrix(store, table, level, cut, 3 if frames else 2)
    X = matrix.values if frames else np.asarray(matrix.values, dtype=np.float32)
    clips = np.flatnonzero(matrix.present)
    good = np.array([np.isfinite(row).all() for row in X], dtype=np.bool_)
    absent = np.flatnonzero(~matrix.present)
    missing = {table.ids[row]: str(matrix.reasons[names[row]]) for row in absent}
    missing |= {table.ids[row]: NOT_FINITE for row in clips[~good]}
    if data.scale == "unit":
        length = np.linalg.norm(X.astype(np.float64), axis=1)
        missing |= {table.ids[row]: ZERO for row in clips[good & ~(length > 0)]}
        good &= length > 0
        X = np.asarray(X / np.where(good, length, 1.0)[:, None], dtype=np.float32)
    row_of = np.full(len(table), -1, dtype=np.intp)
    row_of[clips[good]] = np.flatnonzero(good) if frames else np.arange(good.sum())
    X, clips = X if frames else np.ascontiguousarray(X[good]), clips[good]
    if data.scale == "standard":
        wide = X.astype(np.float64)
        X = np.asarray((wide - wide.mean(axis=0)) / column_scales(wide), dtype=np.float32)
    digest = sha256()
    for row in X:
        digest.update(row.tobytes())
    digest.update("\n".join(table.ids[row] for row in clips).encode())
    origin = {
        "location": store.location,
        "backbone": backbone,
        "level": level,
        **cut,
        "width": int(X.shape[-1]),
        "fingerprint": store.fingerprint,
        "sealed": store.sealed,
        "manifest": store.plan.manifest_name,
        "sha256": digest.hexdigest(),
    }
    ordered = {clip: missing[clip] for clip in table.ids if clip in missing}
    return Features(name, X, row_of, ordered, origin)


def _matrix(
    store: Store, table: ClipTable, level: str, cut: Mapping[str, Any], ndim: int
) -> tuple[Matrix | Segments, list[str]]:
    """Return the vectors of clips, or of segments from windows, and the names asked for.

    Where a store has no clip of an annotator (`lake-001.ann`), it is asked for the clip itself.
    """
    names = table.ids
    if cut:
        matrix: Matrix | Segments = store.segments(table.clips, level, **cut)
        why = "has a window in this store"
        hint = "obygaze manifest windows: the films must have the same ids as in the segments"
    else:
        given = [clip.extra.get("given_clip_id") or clip.clip_id for clip in table.clips]
        if given != names and not any(clip in store for clip in names):
            names = given
        read = _on_disk if ndim > 2 else partial(Store.matrix, missing="drop")
        matrix = read(store, level, clips=names)
        why = "has features in this store"
        hint = "obygaze store info says why; extract run tries again"
    if not len(matrix.values):
        if not cut and not any(clip in store for clip in names):
            why = "is in this store"
            hint = f"a store of the same data set; its first clip id is {next(iter(store), '')!r}"
        clip, status = next(iter(matrix.reasons.items()))
        raise NotFound(
            f"none of the {len(table)} {'segments' if cut else 'clips'} of the manifest {why} "
            f"({clip}: {status})",
            where=store.location,
            hint=hint,
        )
    if min(matrix.values.ndim, 3) != ndim:
        raise FixInput(
            f"this protocol needs {'frames' if ndim > 2 else 'one vector for each clip'}, {level} "
            f"has {matrix.values.ndim - 1} dimensions",
            where=store.location,
            hint=f"another feature level: {', '.join(store.levels)}",
        )
    return matrix, names


def _on_disk(store: Store, level: str, clips: Sequence[str]) -> Matrix:
    """Return what `Store.matrix` does, with the values in a temporary file."""
    spec, present, reasons, n = store.plan.array(level), list[Any](), dict[str, RowStatus](), 0
    with TemporaryFile() as file:
        values = np.memmap(file, spec.dtype, "w+", shape=(len(clips), *spec.tail_shape))
    for start in range(0, len(clips), CLIPS_A_BLOCK):
        part = store.matrix(level, clips=clips[start : start + CLIPS_A_BLOCK], missing="drop")
        values[n : n + len(part)] = part.values
        n, present, reasons = n + len(part), [*present, part.present], {**reasons, **part.reasons}
    return Matrix(values[:n], np.concatenate(present), store.select(clips=clips), reasons)


def is_backbone(backbone: str, pattern: str) -> bool:
    """Return whether a pattern such as `xclip-*` matches the backbone of a store."""
    return fnmatch(backbone.casefold().removesuffix(IMPORTED), pattern.casefold())


def choose_level(store: Store, wanted: Sequence[str]) -> str:
    """Return the first of the wanted feature levels that the store has."""
    for level in wanted:
        if level in store.levels:
            return level
    raise NotFound(
        f"this store has no feature level {' or '.join(wanted)}",
        where=store.location,
        hint=f"--set 'data.level=[\"{store.levels[0]}\"]' (it has {', '.join(store.levels)})",
    )
