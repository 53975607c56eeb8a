"""Read the features of a store for the clips of a run, with reasons for missing clips."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import is_url
from obygaze_features.manifest.folds import IntArray
from obygaze_features.store import Matrix, Store
from obygaze_features.store.joining import JoinedStore
from obygaze_features.store.recipe import ORIGIN
from obygaze_models.evaluation.leakage import number_names
from obygaze_models.evaluation.predictions import BoolArray, FloatArray
from obygaze_models.models.common import (
    NOT_FINITE,
    as_float32,
    iterate_blocks,
    row_hashes,
    with_padding,
)
from obygaze_models.models.scaling import FeaturePart
from obygaze_models.protocols.clips import TaskClips
from obygaze_models.protocols.schema import Data, Protocol

ALL_PADDING = "failed: all frames are padding"
ZERO = "failed: a vector of zeros cannot be scaled to length 1"
SHOWN_MISSING = 3  # ids of clips without features in one line
# Frames and tokens of more bytes stay in the store, and are read again in each pass.
LARGE_BYTES = 2_000_000_000


@dataclass(frozen=True, eq=False)
class Features:
    """The features of one store.

    Attributes:
        name: The name of the store in results.
        X: The features of clips with features: one vector per clip, or frames or tokens with NaN
            as padding. Large frames stay in the store (`StoreRows`).
        row_of: For each clip of the table, its row of X, or -1 without features. If the run
            reads joined features, clips that lack features in any store also have -1.
        missing: The reason for each clip without features, by id. Missing features are never
            imputed.
        origin: The facts of the store for run.json.
        copies: For each clip of the table, the number of its group of clips with equal features,
            or -1 if no other clip has the same features. None if this was not computed.
        equal: A number for each clip of the table, -1 without features. Equal numbers mean equal
            features. None if this was not computed.
        hashes: The hash of the features of each clip, by row of the table. Clips without words are
            excluded, because they all have the same vector.
        parts: The parts of joined features; empty for other stores.
    """

    name: str
    X: Any
    row_of: IntArray
    missing: Mapping[str, str]
    origin: Mapping[str, Any] = field(default_factory=dict)
    copies: IntArray | None = None
    equal: IntArray | None = None
    hashes: Mapping[int, str] = field(default_factory=dict)
    parts: Sequence[FeaturePart] = ()

    @property
    def present(self) -> BoolArray:
        """Whether each clip of the table has features."""
        return self.row_of >= 0

    def of(self, clips: IntArray) -> Any:
        """Return the features of clips, which are given as rows of the table."""
        return self.X[self.row_of[clips]]

    def only(self, stays: BoolArray) -> "Features":
        """Return the features of the clips that stay. Raise an error if no such clip has features.

        Args:
            stays: Whether each clip of the table stays.
        """
        clips = np.flatnonzero(self.present & stays)
        if not len(clips):
            raise FixInput(
                f"none of the {int(np.sum(stays))} usable clips has features",
                where=self.origin["location"],
            )
        row_of = np.full(len(stays), -1, dtype=np.intp)
        row_of[clips] = np.arange(len(clips))
        return replace(self, X=self.of(clips), row_of=row_of)


def read_stores(
    stores: Mapping[str, Store],
    table: TaskClips,
    protocol: Protocol,
    *,
    of_frames: bool | None,
) -> list[Features]:
    """Return the features of each store.

    Args:
        stores: The stores, by their names in results.
        table: The clips.
        protocol: The protocol, with the arrays to read and their scaling.
        of_frames: Whether models read frames of clips. None: the run has no models.
    """
    for name in protocol.features.keys() - stores.keys():
        raise FixUsage(
            f"features.{name}: no store of this run has the name {name!r}",
        )
    features = []
    for name, store in stores.items():
        data = replace(protocol.data, array=preferred_arrays(name, protocol))
        if isinstance(store, JoinedStore):
            named = {one: of.array for one, of in protocol.features.items()}
            store = store.with_arrays(named)
        features.append(read_store(name, store, table, data, of_frames))
    names = [store.name for store in features]
    is_joined = any(store.parts for store in features)
    if not is_joined:
        return features
    # Stores are compared on the clips that have features in all stores.
    is_common = np.all([store.present for store in features], axis=0)
    if not is_common.any():
        raise FixInput(
            f"no clip has features in all stores ({', '.join(names)})",
            where=table.name,
        )
    return [store.only(is_common) for store in features]


def read_store(
    name: str,
    store: Store,
    table: TaskClips,
    data: Data,
    of_frames: bool | None,
) -> Features:
    """Return the features of a store for the clips of a table."""
    if isinstance(store, JoinedStore):
        if not all(part.named_array for part in store.parts):
            array = choose_array(store, data.array)
            store = store.with_arrays({part.name: array for part in store.parts})
        data = replace(data, array=())
    array = choose_array(store, data.array)
    _check_shape(store, array, data, of_frames)
    matrix = _read(store, table, array)
    X, is_real = _values(store, array, matrix)
    clips = np.flatnonzero(matrix.present)
    reasons = {clip: str(reason) for clip, reason in matrix.reasons.items()}
    is_usable = np.ones(len(clips), dtype=np.bool_)
    for reason, is_unusable in _unusable_rows(X, is_real, data.scale):
        for row in np.flatnonzero(is_unusable).tolist():
            reasons[table.ids[clips[row]]] = reason
        is_usable &= ~is_unusable
    missing = {clip: reasons[clip] for clip in table.ids if clip in reasons}
    if not is_usable.any():
        reason, n_clips = Counter(missing.values()).most_common(1)[0]
        raise FixInput(
            f"no clip of the manifest has usable features in this store ({n_clips} {reason})",
            where=store.location,
        )
    if not is_usable.all():
        X = X[is_usable]
    if data.scale == "unit":
        X = np.asarray(X / _lengths(X)[:, None], dtype=np.float32)
    clips = clips[is_usable]
    hashes = np.array(row_hashes(X))
    row_of = np.full(len(table), -1, dtype=np.intp)
    row_of[clips] = np.arange(len(clips))
    equal = np.full(len(table), -1, dtype=np.intp)
    equal[clips] = number_names(hashes.tolist())
    has_words = np.ones(len(clips), dtype=np.bool_)
    if isinstance(matrix, Matrix):
        has_words = store.has_words(array, matrix.rows[is_usable])
    # Clips without words all have the same vector, but are not copies of each other.
    said = clips[has_words]
    is_copy = np.bincount(equal[said])[equal[said]] > 1
    copies = np.full(len(table), -1, dtype=np.intp)
    copies[said[is_copy]] = equal[said[is_copy]]
    origin = {
        **_origin(store, array, int(X.shape[-1])),
        "arrays": list(store.feature_arrays),
        "manifest": store.record.manifest.name,
        "sha256": _sha256(X, [table.ids[row] for row in clips]),
    }
    parts: list[FeaturePart] = []
    if isinstance(store, JoinedStore):
        parts = [FeaturePart(part.name, part.width) for part in store.parts]
        origin["parts"] = {
            part.name: _origin(part.store, part.array.name, part.width)
            for part in store.parts
        }
    if not has_words.all():
        origin["without_words"] = int((~has_words).sum())
    return Features(
        name,
        X,
        row_of,
        missing,
        origin,
        copies,
        equal,
        dict(zip(said.tolist(), hashes[has_words].tolist(), strict=True)),
        parts,
    )


def _origin(store: Store, array: str, width: int) -> dict[str, Any]:
    """Return the facts of an array of a store, for run.json and saved models."""
    facts = store.recipe.facts.items()
    told = {fact: str(value) for fact, value in facts if fact != ORIGIN}
    known = {**store.terms._asdict(), "told": told}
    known["has_local_weights"] = store.recipe.has_local_weights
    return {
        "location": store.location,
        "backbone": store.recipe.title,
        "array": array,
        "dtype": store.array(array).dtype,
        "width": width,
        "fingerprint": store.fingerprint,
        "seal": store.seal,
        **{key: value for key, value in known.items() if value},
    }


def preferred_arrays(name: str, protocol: Protocol) -> tuple[str, ...]:
    """Return the names of arrays that a run may read from a store, in order of preference."""
    if name in protocol.features:
        return (protocol.features[name].array,)
    return protocol.data.array


def choose_array(store: Store, wanted: Sequence[str]) -> str:
    """Return the first wanted array of the store, or the default array if none is named."""
    names = wanted or (store.default_array,)
    for array in names:
        if array in store.feature_arrays:
            return array
    known = ", ".join(store.feature_arrays) or "none"
    raise NotFound(
        f"this store has no array {' or '.join(filter(None, names)) or 'of features'}",
        where=store.location,
        hint=f"use --set data.array=[...] with one of its arrays: {known}",
    )


def _check_shape(store: Store, array: str, data: Data, of_frames: bool | None) -> None:
    """Raise an error if models read one vector and an array has frames, or the reverse."""
    n_dimensions = len(store.array(array).shape)
    has_frames = n_dimensions > 1
    # Scaling needs one vector per clip.
    is_changed = data.scale != "none"
    if of_frames in (None, has_frames) and not (has_frames and is_changed):
        return
    wanted = "unscaled frames" if of_frames else "one vector"
    raise FixInput(
        f"expected {wanted} for each clip, got the {n_dimensions}-dimensional array {array}",
        where=store.location,
        hint=f"use --set data.array=[...] with one of {', '.join(store.feature_arrays)}; store"
        " import --pool mean makes one vector of frames, and the protocol honest-frames reads"
        " frames",
    )


def _read(store: Store, table: TaskClips, array: str) -> Matrix:
    """Return the features of clips."""
    # A clip of the manifest must be the clip with the same id in the store.
    store.match(table.clips)
    matrix = _matrix(store, array, table.ids)
    if len(matrix.values):
        return matrix
    clip, status = next(iter(matrix.reasons.items()))
    raise NotFound(
        f"none of the {len(table)} clips of the manifest has features in this store ({clip}:"
        f" {status})",
        where=store.location,
        hint=f"the first clip id is {next(iter(store), '')!r} in the store and {table.ids[0]!r} in"
        f" the manifest; obygaze store import FILE --manifest {shell_word(table.name)} makes a"
        " store of these clips",
    )


def _matrix(store: Store, array: str, ids: Sequence[str]) -> Matrix:
    """Return the values of clips in an array. Frames of a large array stay in the store."""
    stored = store.array(array)
    is_large = len(stored.shape) > 1 and len(ids) * stored.row_bytes > LARGE_BYTES
    if not is_large or is_url(store.location):
        return store.matrix(array, clips=ids, missing="drop")
    from obygaze_models.models.frames import StoreRows

    present, reasons = store.presence(ids)
    rows: Any = StoreRows(store, array, np.array(ids)[present])
    return Matrix(rows, present, store.select(ids)[present], reasons)


def _values(store: Store, array: str, matrix: Matrix) -> tuple[Any, BoolArray | None]:
    """Return the features of clips, and for each frame whether it is real (not padding).

    The second value is None for one vector per clip, and if no frames are marked as padding.
    """
    if np.ndim(matrix.values) == 2:
        return as_float32(matrix.values), None
    is_real = store.real_frames(array, matrix.rows)
    if is_real is None or not isinstance(matrix.values, np.ndarray):
        return matrix.values, is_real
    return with_padding(matrix.values, is_real), is_real


def _unusable_rows(
    X: Any, is_real: BoolArray | None, scale: str
) -> Iterator[tuple[str, BoolArray]]:
    """Yield each reason why rows cannot be used, and whether each row is affected."""
    is_finite: BoolArray = np.ones(len(X), dtype=np.bool_)
    first = 0
    for block in iterate_blocks(X):
        rows = slice(first, first + len(block))
        known = np.isfinite(as_float32(block))
        if is_real is not None:
            known[~is_real[rows]] = True
        is_finite[rows] = known.all(axis=tuple(range(1, block.ndim)))
        first += len(block)
    yield NOT_FINITE, ~is_finite
    if is_real is not None:
        yield ALL_PADDING, ~np.asarray(is_real.any(axis=1))
    if scale == "unit":
        is_zero: BoolArray = is_finite & (_lengths(X) == 0)
        yield ZERO, is_zero


def _lengths(X: Any) -> FloatArray:
    lengths: FloatArray = np.linalg.norm(X.astype(np.float64), axis=1)
    return lengths


def _sha256(X: Any, ids: Sequence[str]) -> str:
    """Return the hash of all rows with their ids."""
    digest = hashlib.sha256()
    for block in iterate_blocks(X):
        digest.update(np.ascontiguousarray(block).data)
    digest.update("\n".join(ids).encode())
    return digest.hexdigest()
