"""Read the vectors of a store for the clips of a protocol, and list the missing ones."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput, Mismatch, NotFound
from obygaze_features.core.workspace import is_url
from obygaze_features.manifest.model import unannotated_id
from obygaze_features.store import Matrix, Segments, Store
from obygaze_features.store.recipe import IMPORTED
from obygaze_models.models.common import (
    Scaling,
    blocks_of,
    with_padding,
)
from obygaze_models.models.erasure import fit_eraser
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.results.whole_run import Coverage, MissingClip
from obygaze_models.protocols.runner.copies import (
    NO_COPIES,
    Copies,
    find_copies,
    hashes_of,
)
from obygaze_models.protocols.schema import Data, Feature

NOT_FINITE = "failed: holds NaN or infinity as float32"
ALL_PADDING = "failed: all frames are padding"
COPY = "left out: the features of another clip"
NOT_COMMON = "left out: another store has no features of it"
ZERO = "failed: a vector of zeros cannot be scaled to length 1"
LARGE_BYTES = (
    2_000_000_000  # frames and tokens above it are read from the store in each pass
)


@dataclass(frozen=True, eq=False)
class Erasing:
    """The concepts that each fit removes from features.

    `targets` has a row for each row of the features and a column for each concept: 1 with it, 0
    without, -1 no example.
    """

    names: Sequence[str]
    targets: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Features:
    """The vectors of the clips that have one.

    `row_of` is the row of `X` for each clip of the table, -1 where there is none; `missing` has the
    reason for each of those clips. Missing vectors are never filled in. `origin` is what a run
    records of the store. X is an array, or `StoreRows` where frames or tokens are large; in both,
    frames that pad a short clip are NaN. `names` are the ids that the store has for the clips:
    several rows of a manifest may be about one clip of the store.
    `copies` are clips whose features another clip has too. With `scales_by_fold` each fit scales X
    by the mean and the standard deviation of its training clips, and removes what `erasing` names.
    """

    name: str
    X: Any
    row_of: NDArray[np.intp]
    missing: Mapping[str, str]
    origin: Mapping[str, Any]
    names: Sequence[str] = ()
    copies: Copies = NO_COPIES
    scales_by_fold: bool = False
    erasing: Erasing | None = None

    @property
    def depend_on_fold(self) -> bool:
        """Whether each fit changes the features by its training clips."""
        return self.scales_by_fold or self.erasing is not None

    @property
    def present(self) -> NDArray[np.bool_]:
        """Whether each clip of the table has a vector."""
        return self.row_of >= 0

    def only(self, stays: NDArray[np.bool_], clip_ids: Sequence[str]) -> Features:
        """Return the features of those clips of the table that another store has too."""
        clips = np.flatnonzero(self.present & stays)
        row_of = np.full(len(stays), -1, dtype=np.intp)
        row_of[clips] = np.arange(len(clips))
        left_out = np.flatnonzero(self.present & ~stays).tolist()
        reasons = {**self.missing, **{clip_ids[row]: NOT_COMMON for row in left_out}}
        missing = {clip: reasons[clip] for clip in clip_ids if clip in reasons}
        X = self.X
        if len(left_out):
            X = X[self.row_of[clips]]
        return replace(self, X=X, row_of=row_of, missing=missing)

    def of(self, clips: NDArray[np.intp]) -> Any:
        """Return the vectors of some clips of the table, as X holds them."""
        return self.X[self.row_of[clips]]

    def fitted_to(self, clips: NDArray[np.intp]) -> tuple[Scaling | None, Features]:
        """Return the scaling of some clips of the table, and the features scaled and erased so."""
        X = self.X
        scaling = None
        if self.scales_by_fold:
            scaling = Scaling.of(self.of(clips))
            X = scaling.scaled(X)
        if self.erasing is not None:
            rows = self.row_of[clips]
            eraser = fit_eraser(
                X[rows],
                self.erasing.targets[rows],
                self.erasing.names,
            )
            X = eraser.transform(X)
        X = np.asarray(X, dtype=np.float32)
        return scaling, replace(self, X=X, scales_by_fold=False, erasing=None)


def _arrays_to_choose(store: Store, *, has_frames: bool) -> str:
    """Return the hint that names the arrays with frames, or those with one vector a clip."""
    names = []
    for name in store.feature_arrays:
        is_of_frames = len(store.array(name).shape) > 1
        if is_of_frames == has_frames:
            names.append(name)
    if not names:
        return "a store with such an array"
    return f"another array: {', '.join(names)}"


def join(
    name: str,
    store: Store,
    table: ClipTable,
    data: Data,
    feature: Feature | None = None,
    *,
    frames: bool | None = False,
) -> Features:
    """Return the vectors of a store for the clips of a table, with `frames` all those of a clip.

    None takes both, for baselines, which need to know only which clips have one.
    """
    feature = feature or Feature()
    backbone = _backbone(name, store, feature)
    wanted_arrays = (feature.array,) if feature.array else data.array
    array = choose_array(store, wanted_arrays)
    cut = {"rule": data.rule, "reduce": data.reduce} if data.segments else {}
    matrix, names = _matrix(store, table, array, cut)
    is_of_frames = matrix.values.ndim > 2
    is_changed = data.scale != "none" or bool(data.erase)
    if frames not in (None, is_of_frames) or (is_of_frames and is_changed):
        wanted = "unscaled frames" if frames else "one vector"
        raise FixInput(
            f"this protocol reads {wanted} of each clip, "
            f"{array} has {matrix.values.ndim - 1} dimensions",
            where=store.location,
            hint=_arrays_to_choose(store, has_frames=bool(frames)),
        )
    X, real = _values_of(store, array, matrix)
    clips = np.flatnonzero(matrix.present)
    absent = np.flatnonzero(~matrix.present)
    missing = {table.ids[row]: str(matrix.reasons[names[row]]) for row in absent}
    good = np.ones(len(clips), dtype=np.bool_)
    for row, reason in _unusable_rows(X, real, data.scale).items():
        missing[table.ids[clips[row]]] = reason
        good[row] = False
    if data.scale == "unit":
        length = np.linalg.norm(X.astype(np.float64), axis=1)
        X = np.asarray(X / np.where(good, length, 1.0)[:, None], dtype=np.float32)
    if not good.all():
        X = X[good]
    clips = clips[good]
    if not len(clips):
        raise _without_vectors(store, missing)
    if data.scale == "standard-all":
        X = np.asarray(Scaling.of(X).scaled(X), dtype=np.float32)
    ids = [table.ids[row] for row in clips]
    digest, row_hashes = _hashes(X, ids)
    copies = find_copies(X, row_hashes, ids, table.films[clips].tolist(), table.clip_of)
    if copies.group and data.copies == "leave_out":
        is_first = _are_first(ids, copies, table.clip_of)
        left_out = [
            clip for clip, first in zip(ids, is_first, strict=True) if not first
        ]
        missing |= dict.fromkeys(left_out, COPY)
        copies = replace(copies, left_out=left_out)
        X = X[is_first]
        clips = clips[is_first]
        digest, _ = _hashes(X, [table.ids[row] for row in clips])
    row_of = np.full(len(table), -1, dtype=np.intp)
    row_of[clips] = np.arange(len(clips))
    origin = {
        "location": store.location,
        "backbone": backbone,
        "array": array,
        "dtype": store.array(array).dtype,
        **cut,
        "width": int(X.shape[-1]),
        "fingerprint": store.fingerprint,
        "seal": store.seal,
        "manifest": store.record.manifest.name,
        "sha256": digest,
    }
    stated = {"facts": store.recipe.stated_facts, **store.terms._asdict()}
    origin |= {key: value for key, value in stated.items() if value}
    ordered = {clip: missing[clip] for clip in table.ids if clip in missing}
    return Features(
        name,
        X,
        row_of,
        ordered,
        origin,
        names=names,
        copies=copies,
        scales_by_fold=data.scale == "standard",
    )


def _without_vectors(store: Store, missing: Mapping[str, str]) -> FixInput:
    """Return the error for a store of which no clip can be read, with the most frequent reason."""
    reason, n_clips = Counter(missing.values()).most_common(1)[0]
    return FixInput(
        f"no clip of the manifest has a vector in this store ({n_clips} {reason})",
        where=store.location,
        hint="another store, or another array of it; obygaze store info shows what it has",
    )


def _backbone(name: str, store: Store, feature: Feature) -> str:
    """Return the backbone of a store; an error where the protocol needs another one."""
    backbone = store.recipe.title
    if feature.backbone and not is_backbone(backbone, feature.backbone):
        raise Mismatch(
            f"the protocol needs features of {feature.backbone!r} as {name!r}, "
            f"this store has features of {backbone!r}",
            where=store.location,
            hint=f"--store {name}=ANOTHER",
        )
    return backbone


def _values_of(
    store: Store, array: str, matrix: Matrix | Segments
) -> tuple[Any, NDArray[np.bool_] | None]:
    """Return the vectors of clips, and of frames which ones are real, where that is known.

    In an array, frames that are padding become NaN.
    """
    if matrix.values.ndim <= 2:
        return _as_float32(matrix.values), None
    if not isinstance(matrix, Matrix):
        return matrix.values, None
    real = store.real_frames(array, matrix.rows)
    if real is None or not isinstance(matrix.values, np.ndarray):
        return matrix.values, real
    return with_padding(matrix.values, real), real


def _as_float32(values: Any) -> NDArray[np.float32]:
    """Return numbers as models read them; those that float32 cannot hold become infinite."""
    with np.errstate(over="ignore"):
        return np.asarray(values, dtype=np.float32)


def _unusable_rows(
    X: Any, real: NDArray[np.bool_] | None, scale: str
) -> dict[int, str]:
    """Return the rows that no model can read, each with its reason."""
    is_finite = _are_finite(X, real)
    reasons = dict.fromkeys(np.flatnonzero(~is_finite).tolist(), NOT_FINITE)
    if real is not None:
        is_padding = ~real.any(axis=1)
        reasons |= dict.fromkeys(np.flatnonzero(is_padding).tolist(), ALL_PADDING)
    if scale == "unit":
        length = np.linalg.norm(X.astype(np.float64), axis=1)
        for row in np.flatnonzero(~(length > 0)).tolist():
            reasons.setdefault(row, ZERO)
    return reasons


def _are_finite(X: Any, real: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    """Return whether all numbers of each clip are finite; those of padding frames do not count."""
    parts = []
    first = 0
    for block in blocks_of(X):
        is_finite = np.isfinite(_as_float32(block))
        if real is not None:
            is_finite[~real[first : first + len(block)]] = True
        parts.append(is_finite.all(axis=tuple(range(1, block.ndim))))
        first += len(block)
    return np.concatenate(parts)


def _hashes(X: Any, ids: Sequence[str]) -> tuple[str, list[bytes]]:
    """Return the hash of all rows with their ids, and that of each row."""
    digest = hashlib.sha256()
    row_hashes: list[bytes] = []
    for block in blocks_of(X):
        digest.update(np.ascontiguousarray(block).data)
        row_hashes += hashes_of(block)
    digest.update("\n".join(ids).encode())
    return digest.hexdigest(), row_hashes


def _are_first(
    ids: Sequence[str], copies: Copies, clip_of: Mapping[str, str]
) -> NDArray[np.bool_]:
    """Return whether each clip is the first one of its copies, or no copy."""
    first_of: dict[int, str] = {}
    is_first = []
    for clip in ids:
        group = copies.group.get(clip)
        if group is None:
            is_first.append(True)
        else:
            is_first.append(first_of.setdefault(group, clip_of[clip]) == clip_of[clip])
    return np.array(is_first, dtype=np.bool_)


def _matrix(
    store: Store, table: ClipTable, array: str, cut: Mapping[str, Any]
) -> tuple[Matrix | Segments, list[str]]:
    """Return the vectors of clips, or of segments from windows, and the names asked for.

    Where a store has no clip of an annotator (`lake-001.ann`), it is asked for the clip itself.
    """
    names = table.ids
    if cut:
        matrix: Matrix | Segments = store.segments(table.clips, array, **cut)
        why = "has a window in this store"
        hint = "obygaze manifest windows: the films must have the same ids as in the segments"
    else:
        given = [unannotated_id(clip) for clip in table.clips]
        if given != names and not any(clip in store for clip in names):
            names = given
        matrix = _read(store, array, names)
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
    return matrix, names


def _read(store: Store, array: str, names: Sequence[str]) -> Matrix:
    """Return the clips of an array; the values of a large one stay in the store."""
    stored = store.array(array)
    is_large = len(stored.shape) > 1 and len(names) * stored.row_bytes > LARGE_BYTES
    if not is_large or is_url(store.location):
        return store.matrix(array, clips=names, missing="drop")
    from obygaze_models.models.frames import StoreRows

    present, reasons = store.presence(names)
    there: Any = StoreRows(store, array, np.array(names)[present])
    return Matrix(there, present, store.select(names)[present], reasons)


def is_backbone(backbone: str, pattern: str) -> bool:
    """Return whether a pattern such as `xclip-*` matches the backbone of a store."""
    return fnmatch(backbone.casefold().removesuffix(IMPORTED), pattern.casefold())


def choose_array(store: Store, wanted: Sequence[str]) -> str:
    """Return the first of the wanted arrays that the store has."""
    for array in wanted:
        if array in store.feature_arrays:
            return array
    hint = "obygaze store info lists what it holds"
    if store.feature_arrays:
        names = ", ".join(store.feature_arrays)
        hint = f"--set 'data.array=[\"{store.feature_arrays[0]}\"]' (it has {names})"
    raise NotFound(
        f"this store has no array {' or '.join(wanted)}",
        where=store.location,
        hint=hint,
    )


def coverage(
    features: Features,
    table: ClipTable,
    labels: Mapping[str, NDArray[np.int8]],
    usable: NDArray[np.bool_],
) -> Coverage:
    """Return the record of the clips without a vector in a store, with their tasks."""
    row_of = {clip: row for row, clip in enumerate(table.ids)}
    missing = []
    for clip, reason in features.missing.items():
        row = row_of[clip]
        tasks = [name for name, of_task in labels.items() if of_task[row] >= 0]
        missing.append(MissingClip(clip_id=clip, reason=reason, tasks=tasks))
    return Coverage(
        feature=features.name,
        n_clips=len(table),
        n_present=int(features.present.sum()),
        n_missing=len(missing),
        n_missing_in_tasks=sum(bool(clip.tasks) for clip in missing),
        n_unused=int((features.present & ~usable).sum()),
        reasons=dict(Counter(features.missing.values()).most_common()),
        missing=missing,
    )
