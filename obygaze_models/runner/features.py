"""The rows of features of a store, for the clips of a run; why a clip has none; equal clips."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import is_url
from obygaze_features.manifest.folds import IntArray
from obygaze_features.store import Matrix, Segments, Store
from obygaze_features.store.joining import JoinedStore
from obygaze_features.store.recipe import ORIGIN, Recipe
from obygaze_models.evaluation.leakage import numbers_of
from obygaze_models.evaluation.predictions import BoolArray
from obygaze_models.models.common import (
    NOT_FINITE,
    as_float32,
    blocks_of,
    row_hashes,
    with_padding,
)
from obygaze_models.models.joined import FeaturePart
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.schema import Data, Protocol

ALL_PADDING = "failed: all frames are padding"
ZERO = "failed: a vector of zeros cannot be scaled to length 1"
SHOWN_MISSING = 3  # of the clips without features, in one line
# Frames and tokens above it are read from the store in each pass.
LARGE_BYTES = 2_000_000_000


@dataclass(frozen=True, eq=False)
class Features:
    """The features of one store.

    Attributes:
        name: The name that results give the store.
        X: The features of the clips that have some: one vector for each clip, or frames or tokens,
            of which padding is NaN. Large frames stay in the store (`StoreRows`).
        row_of: The row of X of each clip of the table; -1 for a clip without features. Where
            training films choose a store, also -1 for a clip that another store lacks.
        missing: Why each clip without features in this store has none, by its id. Nothing is ever
            filled in.
        origin: What run.json says about the store.
        copies: The number of its group for each clip of the table whose features another clip has
            too; -1 for others. None if nobody looked.
        equal: A number for each clip of the table; clips of one number have the same features.
        hashes: The hash of the features of each clip, by its row of the table; clips without words,
            which all have the same vector, have none.
        parts: The parts of joined features; none of others.
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
        """Return the features of some clips of the table."""
        return self.X[self.row_of[clips]]

    def only(self, stays: BoolArray) -> "Features":
        """Return the features of those clips of the table that other stores have too."""
        clips = np.flatnonzero(self.present & stays)
        row_of = np.full(len(stays), -1, dtype=np.intp)
        row_of[clips] = np.arange(len(clips))
        return replace(self, X=self.of(clips), row_of=row_of)


def read_stores(
    stores: Mapping[str, Store],
    table: ClipTable,
    protocol: Protocol,
    *,
    of_frames: bool | None,
) -> list[Features]:
    """Return the features of each store.

    Args:
        stores: The stores by the names that results give them.
        table: The clips.
        protocol: What to read, and how to scale it.
        of_frames: Whether models read the frames of clips; None if there is no model.
    """
    for name in protocol.features.keys() - stores.keys():
        raise FixUsage(f"features.{name}: no store has the name {name!r} in this run")
    features = []
    for name, store in stores.items():
        data = protocol.data
        if isinstance(store, JoinedStore):
            named = {one: of.array for one, of in protocol.features.items()}
            store = store.with_arrays(named)
        elif name in protocol.features:
            data = replace(data, array=(protocol.features[name].array,))
        features.append(read_store(name, store, table, data, of_frames))
    if protocol.fit.choose_store:
        return _with_common_clips(features, table)
    return features


def read_store(
    name: str,
    store: Store,
    table: ClipTable,
    data: Data,
    of_frames: bool | None,
) -> Features:
    """Return the features of a store for the clips of a table."""
    if isinstance(store, JoinedStore):
        arrays = {}
        for part in store.parts:
            if not part.named_array:
                arrays[part.name] = choose_array(part.store, data.array)
        store = store.with_arrays(arrays)
        data = replace(data, array=())
    array = choose_array(store, data.array)
    _check_shape(store, array, data, of_frames)
    matrix = _read(store, table, array, data)
    X, is_real = _values(store, array, matrix)
    clips = np.flatnonzero(matrix.present)
    missing = {}
    for row in np.flatnonzero(~matrix.present).tolist():
        missing[table.ids[row]] = str(matrix.reasons[table.ids[row]])
    is_usable = np.ones(len(clips), dtype=np.bool_)
    for row, reason in _unusable_rows(X, is_real, data.scale).items():
        missing[table.ids[clips[row]]] = reason
        is_usable[row] = False
    if data.scale == "unit":
        length = np.linalg.norm(X.astype(np.float64), axis=1)
        lengths = np.where(is_usable, length, 1.0)
        X = np.asarray(X / lengths[:, None], dtype=np.float32)
    if not is_usable.all():
        X = X[is_usable]
    clips = clips[is_usable]
    if not len(clips):
        reason, n_clips = Counter(missing.values()).most_common(1)[0]
        raise FixInput(
            f"no clip of the manifest has a vector in this store ({n_clips} {reason})",
            where=store.location,
            hint=look_at(store),
        )
    ids = [table.ids[row] for row in clips]
    missing = {clip: missing[clip] for clip in table.ids if clip in missing}
    hashes = np.array(row_hashes(X))
    row_of = np.full(len(table), -1, dtype=np.intp)
    row_of[clips] = np.arange(len(clips))
    equal = np.full(len(table), -1, dtype=np.intp)
    equal[clips] = numbers_of(hashes.tolist())
    has_words = np.ones(len(clips), dtype=np.bool_)
    if isinstance(matrix, Matrix):
        has_words = store.has_words(array, matrix.rows[is_usable])
    origin: dict[str, Any] = {
        "location": store.location,
        "backbone": store.recipe.title,
        "array": array,
        "arrays": list(store.feature_arrays),
        "dtype": store.array(array).dtype,
        "width": int(X.shape[-1]),
        "fingerprint": store.fingerprint,
        "seal": store.seal,
        "manifest": store.record.manifest.name,
        "sha256": _sha256(X, ids),
    }
    told = _told_of(store.recipe)
    if told:
        origin["told"] = told
    parts: list[FeaturePart] = []
    if isinstance(store, JoinedStore):
        parts = [FeaturePart(part.name, part.width) for part in store.parts]
        origin["parts"] = _origins_of_parts(store)
    if data.segments:
        origin |= {"rule": data.rule, "reduce": data.reduce}
    if not has_words.all():
        origin["without_words"] = int((~has_words).sum())
    terms = store.terms._asdict()
    origin |= {key: value for key, value in terms.items() if value}
    return Features(
        name,
        X,
        row_of,
        missing,
        origin,
        _copies(equal, clips[has_words]),
        equal,
        dict(zip(clips[has_words].tolist(), hashes[has_words].tolist(), strict=True)),
        parts,
    )


def look_at(store: Store, option: str = "") -> str:
    """Return what to type to look at a store, or at each store of a join."""
    commands = []
    for one in store.stores:
        commands.append(f"obygaze store info {shell_word(one.location)}{option}")
    return "; ".join(commands)


def _told_of(recipe: Recipe) -> dict[str, str]:
    """Return what the importer of features stated of how they were made."""
    told = {}
    for fact, value in recipe.facts.items():
        if fact != ORIGIN:
            told[fact] = str(value)
    return told


def _origins_of_parts(store: JoinedStore) -> dict[str, dict[str, Any]]:
    """Return what run.json says of each store of a join, by its name."""
    origins = {}
    for part in store.parts:
        origin: dict[str, Any] = {
            "location": part.store.location,
            "backbone": part.store.recipe.title,
            "array": part.array.name,
            "dtype": part.array.dtype,
            "width": part.width,
            "fingerprint": part.store.fingerprint,
            "seal": part.store.seal,
        }
        told = _told_of(part.store.recipe)
        if told:
            origin["told"] = told
        origins[part.name] = origin
    return origins


def array_of(name: str, store: Store, protocol: Protocol) -> str:
    """Return the array that a run reads of a store."""
    if name in protocol.features:
        return choose_array(store, (protocol.features[name].array,))
    return choose_array(store, protocol.data.array)


def choose_array(store: Store, wanted: Sequence[str]) -> str:
    """Return the first wanted array that the store has; its default array if none is named."""
    names = wanted or (store.default_array,)
    for array in names:
        if array in store.feature_arrays:
            return array
    hint = f"obygaze store info {shell_word(store.location)}"
    if store.feature_arrays:
        # The wanted arrays stay, for other stores of the same run.
        listed = json.dumps([*wanted, store.feature_arrays[0]], ensure_ascii=False)
        known = ", ".join(store.feature_arrays)
        hint = f"--set {shell_word(f'data.array={listed}')} (it has {known})"
    raise NotFound(
        f"this store has no array {' or '.join(filter(None, names)) or 'of features'}",
        where=store.location,
        hint=hint,
    )


def _check_shape(store: Store, array: str, data: Data, of_frames: bool | None) -> None:
    """Raise an error if an array has frames and models read one vector, or the reverse."""
    n_dimensions = len(store.array(array).shape)
    has_frames = n_dimensions > 1
    # Windows of a segment are reduced to one vector, which frames are not.
    is_changed = data.scale != "none" or bool(data.segments)
    if of_frames in (None, has_frames) and not (has_frames and is_changed):
        return
    wanted = "unscaled frames" if of_frames else "one vector"
    names = []
    for name in store.feature_arrays:
        if (len(store.array(name).shape) > 1) == bool(of_frames):
            names.append(name)
    if names:
        hint = f"another array: {', '.join(names)}"
    elif of_frames:
        hint = "a store with such an array"
    else:
        hint = "import the features again with --pool mean, or run honest-frames"
    raise FixInput(
        f"this protocol reads {wanted} of each clip, {array} has {n_dimensions} dimensions",
        where=store.location,
        hint=hint,
    )


def _read(store: Store, table: ClipTable, array: str, data: Data) -> Matrix | Segments:
    """Return the features of clips, or of segments from windows."""
    if data.segments:
        rule: Any = data.rule
        reduce: Any = data.reduce
        matrix: Matrix | Segments = store.segments(
            table.clips,
            array,
            rule=rule,
            reduce=reduce,
            of_films=table.of_manifest,
        )
        problem = "has a window in this store"
        hint = ""
    else:
        matched = store.match(table.clips)
        matrix = _matrix(store, array, table.ids)
        problem = "has features in this store"
        hint = look_at(store, " --clips")
        if (matched.rows < 0).all():
            problem = "is in this store"
            first = next(iter(store), "")
            command = f"obygaze store import FILE --manifest {shell_word(table.name)}"
            hint = (
                f"its first clip id is {first!r}, the manifest's is {table.ids[0]!r}; if they may"
                f" be the same clips, import the features again: {command}; else take a store of"
                " these clips"
            )
    if len(matrix.values):
        return matrix
    clip, status = next(iter(matrix.reasons.items()))
    noun = "segments" if data.segments else "clips"
    raise NotFound(
        f"none of the {len(table)} {noun} of the manifest {problem} ({clip}: {status})",
        where=store.location,
        hint=hint,
    )


def _matrix(store: Store, array: str, ids: Sequence[str]) -> Matrix:
    """Return the clips of an array; the frames of a large one stay in the store."""
    stored = store.array(array)
    is_large = len(stored.shape) > 1 and len(ids) * stored.row_bytes > LARGE_BYTES
    if not is_large or is_url(store.location):
        return store.matrix(array, clips=ids, missing="drop")
    from obygaze_models.models.frames import StoreRows

    present, reasons = store.presence(ids)
    rows: Any = StoreRows(store, array, np.array(ids)[present])
    return Matrix(rows, present, store.select(ids)[present], reasons)


def _values(
    store: Store, array: str, matrix: Matrix | Segments
) -> tuple[Any, BoolArray | None]:
    """Return the features of clips, and which of their frames are real, where that is known."""
    if np.ndim(matrix.values) == 2:
        return as_float32(matrix.values), None
    if not isinstance(matrix, Matrix):
        return matrix.values, None
    is_real = store.real_frames(array, matrix.rows)
    if is_real is None or not isinstance(matrix.values, np.ndarray):
        return matrix.values, is_real
    return with_padding(matrix.values, is_real), is_real


def _unusable_rows(X: Any, is_real: BoolArray | None, scale: str) -> dict[int, str]:
    """Return the rows that no model can read, each with its reason."""
    reasons: dict[int, str] = {}
    first = 0
    for block in blocks_of(X):
        is_finite = np.isfinite(as_float32(block))
        if is_real is not None:
            is_finite[~is_real[first : first + len(block)]] = True
        is_usable = is_finite.all(axis=tuple(range(1, block.ndim)))
        for row in np.flatnonzero(~is_usable).tolist():
            reasons[first + row] = NOT_FINITE
        first += len(block)
    if is_real is not None:
        for row in np.flatnonzero(~is_real.any(axis=1)).tolist():
            reasons[row] = ALL_PADDING
    if scale == "unit":
        length = np.linalg.norm(X.astype(np.float64), axis=1)
        for row in np.flatnonzero(~(length > 0)).tolist():
            reasons.setdefault(row, ZERO)
    return reasons


def _sha256(X: Any, ids: Sequence[str]) -> str:
    """Return the hash of all rows with their ids."""
    digest = hashlib.sha256()
    for block in blocks_of(X):
        digest.update(np.ascontiguousarray(block).data)
    digest.update("\n".join(ids).encode())
    return digest.hexdigest()


def _copies(equal: IntArray, rows: IntArray) -> IntArray:
    """Return the number of its features for each clip that shares them with another clip, else -1.

    Args:
        equal: The number of the features of each clip.
        rows: The rows to look at: clips without words all have the same vector.
    """
    copies = np.full(len(equal), -1, dtype=np.intp)
    n_clips_of = np.bincount(equal[rows])
    is_copy = n_clips_of[equal[rows]] > 1
    copies[rows[is_copy]] = equal[rows[is_copy]]
    return copies


def _with_common_clips(
    features: Sequence[Features], table: ClipTable
) -> list[Features]:
    """Return the features of all stores, of the clips that all of them have."""
    names = [store.name for store in features]
    if len(names) < 2:
        raise FixUsage(
            f"fit.choose_store needs two stores or more, got {len(names)}",
            hint="--store NAME=STORE for each",
        )
    is_common = np.all([store.present for store in features], axis=0)
    if not is_common.any():
        raise FixInput(
            f"no clip has features in all stores ({', '.join(names)})",
            where=table.name,
            hint="--set fit.choose_store=false",
        )
    return [store.only(is_common) for store in features]
