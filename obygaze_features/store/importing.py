"""Make a store of features that another program wrote: npz, HDF5, Parquet, or a file for each clip.

A reader opens files of one format and returns `FeatureFiles`: the clips, what the files state of
them, and batches of their arrays, in the order of the files. All else stands here once: which clip
is which row, which arrays are stored, pooling, masks, and numbers that a store cannot have.
"""

from __future__ import annotations

import hashlib
import io
import math
import mmap
import os
import pickle
import re
import string
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import Progress, Quiet, count, few, human
from obygaze_features.core.errors import Corrupt, FixInput, FixUsage, near
from obygaze_features.core.files import (
    TABLE_ENDINGS,
    is_workbook,
    name_in_errors,
    require_file,
    sha256_file,
)
from obygaze_features.core.foreign import FOREIGN_DAMAGE
from obygaze_features.core.lazy import need
from obygaze_features.core.made_ids import ascii_id
from obygaze_features.core.outside import safe_text
from obygaze_features.core.refusal import refuse_if
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import encoding_of, head_of, number_of_cell
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.clip_facts import ClipFacts, places_of, require_same
from obygaze_features.manifest.io import as_id, ids_of_names, read_manifest
from obygaze_features.manifest.model import Clip, Manifest, own_columns
from obygaze_features.manifest.own_labels import first_command
from obygaze_features.manifest.spans import FRAMES, RATE_COLUMN, FrameSpan, frames_of
from obygaze_features.store.card import Terms
from obygaze_features.store.files import check_memory
from obygaze_features.store.layout import (
    COMPANIONS,
    MASK,
    MOST_DIMENSIONS,
    N_WORDS,
    OF_FRAMES,
    TIMES,
    Array,
    has_vector,
    with_companions,
)
from obygaze_features.store.making import new_store, rows_not_finite, write_store
from obygaze_features.store.recipe import ORIGIN, STATED, Recipe
from obygaze_features.store.records import WITHOUT_MANIFEST, ManifestMark, Origin
from obygaze_features.store.rows import FAILED, OK, Row, RowColumns

# The formats of one file with all clips, and of a folder of files, by their endings.
FORMATS_OF_FILES = {
    ".npz": "npz",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".parquet": "parquet",
}
FORMATS_OF_FOLDERS = {
    ".parquet": "parquet",
    ".npy": "npy",
    ".pth": "pth",
    ".pt": "pth",
}
# Where files have ids, films and times of clips, and their frames, if a table counts them. What an
# export says of itself is at the last one.
ID_KEY = "clip_id"
FILM_KEY = "movie_id"
TIME_KEYS = ("start_s", "end_s")
FRAME_KEYS = (*FRAMES, RATE_COLUMN)
SPAN_KEYS = (*TIME_KEYS, *FRAME_KEYS)
EXPORT_KEY = "obygaze_origin"
# Rows are read in batches of about so many bytes, which fit in the cache of a processor.
BATCH_BYTES = 2**20
# Zeros become smaller by at most so much (deflate); an array of a larger factor was never written.
MOST_COMPRESSED = 1100
# Equal numbers take no place in Parquet. As many bytes of them are read all the same.
MOST_REPEATED = 100_000_000
# Long ids that are equal take no place in a compressed file, and much in memory.
MOST_ID_BYTES = 4000
MOST_LETTERS = 2**28
# Of an id as text of Python, about.
ID_BYTES = 100
IDS_AT_ONCE = 2**12
# Ids of these letters that begin with a letter or a digit are ids of manifests, too.
ID_LETTERS = f"{string.ascii_letters}{string.digits}._+-".encode()
ID_LENGTH = 200
# The arrays that experiments look for.
USUAL_NAMES = ("clip", "pooled", "frames", "tokens")
POOLED = "pooled"
# How several vectors of a clip become one, and the words for it in recipes.
POOLINGS = {"mean": "mean", "max": "maximum", "last": "last"}
NOT_IN_FILES = "not in the files"
ONLY_THESE_FILES = (
    "a model of this store can score no other store: for that, import it with --backbone NAME, and"
    " all others that were made in the same way with the same NAME"
)
SHOWN_REASONS = 5
# Shorter rows, such as the length of a clip, may well be equal.
VECTOR_VALUES = 4

Values: TypeAlias = npt.NDArray[Any]
Places: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]


class BadRow(Exception):
    """The array of a clip cannot be used; the clip becomes a failed row."""


# Clips by their places in the files, which rise, and for each array the rows of these clips, which
# have one shape, or why there are none.
Batch: TypeAlias = tuple[Places, Mapping[str, Values | BadRow]]


@dataclass
class FeatureFiles:
    """The features of clips in files.

    Args:
        where: The file or folder.
        names: The name of each clip.
        arrays: The names that the arrays get in the store.
        batches: Yields the arrays of those clips that are asked for.
        films: The film of each clip; "" where the files do not state it.
        spans: The times of clips in their videos in seconds, and their frames, by `SPAN_KEYS`; NaN
            where unknown.
        unasked: Arrays that nobody named. They are stored with the arrays to which they belong.
        keys: The keys of the arrays in the files, for the recipe.
        parts: Of a folder, the files that are read.
        notes: What was left out, in sentences.
        is_export: Whether a store was exported to the files.
        handle: What is closed at the end.
    """

    where: str
    names: Sequence[str]
    arrays: Sequence[str]
    batches: Callable[[Flags], Iterator[Batch]]
    films: Sequence[str]
    spans: Mapping[str, Values] = field(default_factory=dict)
    unasked: Collection[str] = ()
    keys: Mapping[str, str] | None = None
    parts: Sequence[Path] | None = None
    notes: Sequence[str] = ()
    is_export: bool = False
    handle: Any = None

    @property
    def features(self) -> list[str]:
        """The arrays of features, and not a mask, times or numbers of words."""
        return [name for name in self.arrays if name not in COMPANIONS]

    @property
    def frames(self) -> list[FrameSpan | None] | None:
        """The frames of each clip in its film; None where the files state none."""
        if not {*FRAMES} <= self.spans.keys():
            return None
        columns = {
            key: self.spans[key].tolist() for key in FRAME_KEYS & self.spans.keys()
        }
        spans = []
        for place in range(len(self.names)):
            cells = {key: str(column[place]) for key, column in columns.items()}
            spans.append(frames_of(cells))
        return spans


@dataclass(frozen=True)
class Imported:
    """The result of an import: the new store, and what did not come into it."""

    path: Path
    seal: str
    n_clips: int
    arrays: Mapping[str, tuple[int, ...]]
    failed: Mapping[str, str]
    not_in_manifest: Sequence[str]
    remarks: Sequence[str]
    next_command: str
    warnings: Sequence[str] = ()

    @property
    def n_ok(self) -> int:
        """How many clips have features."""
        return self.n_clips - len(self.failed)

    def to_json(self) -> dict[str, Any]:
        """Return all that is known of the import."""
        return {**vars(self), "path": str(self.path), "n_ok": self.n_ok}

    def __str__(self) -> str:
        shapes = [f"{name} {list(shape)}" for name, shape in self.arrays.items()]
        return f"{self.path}: {self.n_ok} of {self.n_clips} clips, {', '.join(shapes)}"

    @property
    def exit_code(self) -> int:
        """The exit code of the command, which says whether clips have no features."""
        return FAILED.exit_code if self.failed else 0

    @property
    def notes(self) -> list[str]:
        """What was left out of the files, why clips have no features, and the next command."""
        notes = list(self.remarks)
        if self.failed:
            notes.append(f"{count(len(self.failed), 'clip')} without features")
        for reason, n_clips in Counter(self.failed.values()).most_common(SHOWN_REASONS):
            clips = [clip for clip in self.failed if self.failed[clip] == reason]
            notes.append(f"  {count(n_clips, 'clip')}, {reason}: {few(clips, 3)}")
        if self.not_in_manifest:
            n_others = count(len(self.not_in_manifest), "clip")
            shown = few(self.not_in_manifest, 3)
            notes.append(f"{n_others} of the files not in the manifest: {shown}")
        notes.append(f"next: {self.next_command}")
        return notes


def import_features(
    source: str | Path,
    path: PathLike,
    *,
    arrays: Mapping[str, str] | None = None,
    id_key: str | None = None,
    manifest: PathLike | Manifest | None = None,
    pool: Literal["mean", "max", "last"] | None = None,
    keep_frames: bool = False,
    backbone: str = "",
    licence: str = "",
    citation: str | None = None,
    progress: Progress | None = None,
    workspace: PathLike | None = None,
) -> Imported:
    """Make a store from features in another format.

    SOURCE is a file (.npz, .h5, .hdf5, .parquet), or a folder of .npy, .pth or .parquet files;
    docs/guide/stores.md describes each. Imports with the same --backbone and --pool have the same
    recipe: they can be merged, and a model of one reads the other. With --manifest, clips are
    found by their ids, and films or times that differ from those of SOURCE are refused. Clips
    without usable features are failed rows.

    Args:
        source: The file or folder.
        path: The new store: a name or a folder.
        arrays: Store the array, column or dataset path KEY under NAME.
        id_key: The array or column of clip ids. [default: clip_id]
        manifest: A row for each clip of this manifest.
        pool: Keep one vector of each clip: mean, maximum or last one of all that it has. [default:
            max for tokens]
        keep_frames: Keep the frames or tokens beside what --pool makes of them.
        backbone: The model that made the features.
        licence: The licence of the features; that of the manifest is of its labels.
        citation: What to cite for them. [default: the manifest's]
        progress: Counts clips, twice: when they are checked and when they are written.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store import xclip.npz --id-key names --array clip=X --backbone x-clip -o xclip
        obygaze store import FEATURES --manifest obygaze12 --pool max --keep-frames -o xclip
        obygaze store import all.h5 --id-key names --array clip=features -o all
        obygaze store import charades.h5 --array clip='{id}/features' -o charades
        obygaze store import xclip.parquet --manifest obygaze12 -o xclip
    """
    target = new_store(Workspace.of(workspace), path)
    if pool not in (None, *POOLINGS):
        raise FixUsage(f"unknown pool {pool!r}", hint=f"one of {', '.join(POOLINGS)}")
    if manifest is not None:
        manifest = read_manifest(manifest, workspace=workspace)
    if citation is None:
        citation = "" if manifest is None else manifest.header.citation
    backbone = backbone.strip()
    source = Path(source)
    files = open_features(source, arrays, id_key=id_key)
    try:
        origin = origin_of(format_of(source), source, files.parts, files.keys)
        if pool is None and files.features == ["tokens"] and not keep_frames:
            # The released tokens have what experiments read beside them.
            pool = "max"
            keep_frames = True
        clips = match_clips(files, manifest)
        target.parent.mkdir(parents=True, exist_ok=True)
        with name_in_errors(target):
            imported = ImportedRows(
                files,
                clips,
                target.parent,
                pool=pool,
                keep_frames=keep_frames,
                kept_names={"clip", *(arrays or ())},
                progress=progress or Quiet(),
            )
    finally:
        if files.handle is not None:
            files.handle.close()
    written = write_store(
        target,
        imported,
        arrays=imported.arrays,
        recipe=_recipe_of(origin, backbone, imported.pooling),
        manifest=clips.manifest,
        origins=[Origin(source.name, str(origin["sha256"]))],
        terms=Terms(licence, citation),
    )
    remarks = [*files.notes, *imported.left_out, *clips.notes]
    if not backbone:
        remarks.append(ONLY_THESE_FILES)
    ids = clips.rows.clip_ids
    next_command = f"obygaze store info {shell_word(os.fspath(path))}"
    if manifest is not None and has_vector(imported.arrays):
        next_command = first_command(manifest, manifest.name, [os.fspath(path)])
    return Imported(
        path=written.path,
        seal=written.seal,
        n_clips=len(ids),
        arrays={array.name: array.shape for array in imported.arrays},
        failed={ids[n]: text for n, text in sorted(imported.problems.items())},
        not_in_manifest=clips.not_in_manifest,
        remarks=remarks,
        next_command=next_command,
        warnings=[*clips.warnings, *imported.warnings],
    )


def _recipe_of(origin: Mapping[str, Any], backbone: str, pooling: str) -> Recipe:
    """Return the recipe of imported features.

    Without a backbone, nobody says how they were made: the files are a part of the recipe, so that
    no other file has it.
    """
    facts: dict[str, Any] = {"backbone": backbone} if backbone else {ORIGIN: origin}
    if pooling:
        facts["pooling"] = pooling
    return Recipe.unknown(STATED if backbone else str(origin["format"]), facts)


def origin_of(
    kind: str,
    path: Path,
    files: Sequence[Path] | None = None,
    keys: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return what is recorded of a file, or of a folder: one hash of names and contents."""
    origin: dict[str, Any] = {"format": kind}
    if files is None:
        origin |= {"file": path.name, "sha256": sha256_file(path)}
    else:
        digest = hashlib.sha256()
        for file in sorted(files):
            name = file.relative_to(path).as_posix()
            digest.update(f"{name}\0{sha256_file(file)}\n".encode())
        origin |= {"folder": path.name, "files": len(files)}
        origin["sha256"] = digest.hexdigest()
    if keys is not None:
        origin["arrays"] = dict(keys)
    return origin


# --- Which clip is which row ---


class Clips(NamedTuple):
    """The rows of the new store; `places` has the clip of each row in the files, -1 for none."""

    manifest: ManifestMark
    rows: RowColumns
    places: Places
    not_in_manifest: Sequence[str] = ()
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()


def match_clips(files: FeatureFiles, manifest: Manifest | None) -> Clips:
    """Return the rows of the new store with their places in the files."""
    if manifest is None:
        return _clips_of_files(files)
    ids = _ids_in_manifest(files, manifest)
    _check_unique(ids, files.where)
    clips = list(manifest)
    places = places_of(manifest.clip_ids, ids)
    known = np.flatnonzero(places >= 0)
    if len(ids) and not len(known):
        raise FixInput(
            f"the files have none of the clips of the manifest: here is {files.names[0]!r}, there"
            f" {next(iter(manifest.clip_ids), '')!r}",
            where=manifest.name,
            hint="use the same ids in both: --id FORM of manifest import makes those of a manifest,"
            " and --id-key those of the files; in HDF5, text before or after an id stands in"
            " --array: clip='clip_{id}'",
        )
    id_of_film = {film: as_id(film) for film in set(files.films)}
    films = [id_of_film[film] for film in files.films]
    start_s, end_s = map(files.spans.get, TIME_KEYS)
    facts = ClipFacts.of(ids, films, start_s, end_s, files.frames)
    n_by_ids = require_same(
        facts.some(places[known]),
        ClipFacts.of_clips(clips).some(known),
        ("the files", "the manifest"),
        where=files.where,
        hint="the manifest of the clips in these files",
    )
    notes = []
    if n_by_ids:
        notes.append(
            f"{count(n_by_ids, 'clip')} matched by the ids alone: the files have no movie_id,"
            " start_s or end_s that the manifest has too"
        )
    rows = RowColumns.of([Row.of_clip(clip) for clip in clips])
    others = np.setdiff1d(np.arange(len(ids)), places).tolist()
    left_over = [(films[place], files.names[place]) for place in others]
    return Clips(
        manifest=ManifestMark(manifest.name, rows.clips_sha256),
        rows=rows,
        places=places,
        not_in_manifest=[ids[place] for place in others],
        notes=notes,
        warnings=_may_be_other_numbers(left_over, clips, places),
    )


def _clips_of_files(files: FeatureFiles) -> Clips:
    """Return the rows of a store without a manifest: the clips of the files.

    They have the ids that a manifest of the same table has, so that the store matches it.
    """
    ids = _as_ids(files.names)
    films = _as_ids(files.films)
    if films is not files.films:
        ids_of_names(dict.fromkeys(filter(None, files.films)), "film", files.where)
    rows = RowColumns.of_clips(ids, films)
    for key in TIME_KEYS:
        if key in files.spans:
            known = files.spans[key].astype(object)
            known[np.isnan(files.spans[key])] = None
            rows = replace(rows, **{key: known.tolist()})
    frames = files.frames
    if frames is not None:
        rows = RowColumns.of(
            [rows[place].with_frames(span) for place, span in enumerate(frames)]
        )
    changes = []
    if ids is not files.names:
        for name, clip_id in zip(files.names, ids, strict=True):
            if name != clip_id:
                changes.append(f"{name!r} is now {clip_id!r}")
    notes = [f"clips have ids as in a manifest: {few(changes, 3)}"] if changes else []
    mark = ManifestMark(WITHOUT_MANIFEST, rows.clips_sha256)
    return Clips(mark, rows, np.arange(len(ids)), notes=notes)


def _as_ids(texts: Sequence[str]) -> Sequence[str]:
    """Return texts as ids; the same texts where all are ids, or where none is stated."""
    letters = "".join(texts)
    # Texts of these letters alone that begin so are ids. A million are not looked at one by one.
    are_ids = letters.isascii() and not letters.encode().translate(None, ID_LETTERS)
    are_ids = are_ids and max(map(len, texts), default=0) <= ID_LENGTH
    firsts = {text[:1] for text in texts}
    if not letters or (are_ids and firsts.isdisjoint({"", *"._+-"})):
        return texts
    id_of_text = {text: text and as_id(text) for text in dict.fromkeys(texts)}
    return [id_of_text[text] for text in texts]


def _check_unique(ids: Sequence[str], where: str) -> None:
    """Raise an error for clips that are in the files more than once."""
    if len(set(ids)) == len(ids):
        return
    repeated = [clip for clip, n in Counter(ids).items() if n > 1]
    refuse_if(
        repeated,
        FixInput,
        f"{count(len(repeated), 'clip id')} in several rows of the files",
        where=where,
        hint="keep one row for each id, or name another array of ids with --id-key",
    )


def _ids_in_manifest(files: FeatureFiles, manifest: Manifest) -> list[str]:
    """Return the id of the clip of each name in the files; the name where the manifest has none.

    It is the name itself, or what becomes of it by the rule of manifests, also after its film, as
    in a path: `FILM/ID`. Files of the released features have the path of the clip's video:
    `FILM/VIDEO`, where all of the video is one clip.
    """
    clips_of_path: dict[str, list[Clip]] = {}
    for clip in manifest:
        if "/" in clip.video:
            path = PurePosixPath(clip.video).with_suffix("").as_posix()
            clips_of_path.setdefault(path, []).append(clip)
    ids = []
    for name, film in zip(files.names, files.films, strict=True):
        # Where two films have one name, the reader has put the film before it.
        in_film = f"{film}/{name.removeprefix(f'{film}-')}" if film else name
        known = (name, as_id(name), ascii_id(in_film))
        clip_id = next((one for one in known if one in manifest), "")
        match clips_of_path.get(in_film):
            case [clip] if not clip_id and (clip.start_s, clip.end_s) == (None, None):
                clip_id = clip.clip_id
        ids.append(clip_id or name)
    return ids


def _may_be_other_numbers(
    left_over: Sequence[tuple[str, str]], clips: Sequence[Clip], places: Places
) -> list[str]:
    """Return a warning where the manifest and the files both have clips of a film left over.

    Ids that count from 0 and from 1 are nearly the same ids, each of another clip.

    Args:
        left_over: Film and name of the clips of the files that the manifest does not have.
        clips: The clips of the manifest.
        places: The place of each of them in the files; -1 for none.
    """
    without: dict[str, str] = {}
    for row in np.flatnonzero(places < 0)[::-1].tolist():
        without[clips[row].movie_id] = clips[row].clip_id
        without[""] = clips[row].clip_id
    for film, name in left_over:
        if film in without:
            return [
                f"{without[film]} of the manifest is not in the files, and {name} of the files not"
                " in the manifest: if one counts the clips of a film from another number (0 or 1),"
                " or writes numbers in another way (1 or 01), the ids that match may be those of"
                " other clips"
            ]
    return []


# --- Which numbers are stored ---


@dataclass(eq=False)
class Staged:
    """An array of the new store: its rows, in the order of the files, in a file without a name.

    Args:
        name: Its name in the store.
        source: The array of the files.
        pool: How several vectors become one, if they do.
        file: The numbers of the usable rows, as `dtype`.
        places: The places of these clips in the files.
        clips_of_shape: How many clips have each shape, and the place of one of them.
        types: The types of the numbers in the files.
        problems: Why clips have no usable array, by their places.
        wrong_masks: Why the mask of a clip does not say which of its vectors are real.
        has_mask: Whether the mask of a clip does.
        has_several: Whether a clip has several vectors in the files.
        hashes: A number for each row, by which equal rows are found; 0 for rows of one value.
    """

    name: str
    source: str
    pool: str | None
    file: Any
    places: list[Places] = field(default_factory=list)
    clips_of_shape: dict[tuple[int, ...], tuple[int, int]] = field(default_factory=dict)
    types: set[np.dtype[Any]] = field(default_factory=set)
    problems: dict[int, str] = field(default_factory=dict)
    wrong_masks: dict[int, str] = field(default_factory=dict)
    has_mask: bool = False
    has_several: bool = False
    hashes: list[npt.NDArray[np.uint64]] = field(default_factory=list)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type that has all numbers of the array in the store, as they are."""
        return np.dtype(np.float64 if self.name in (*TIMES, N_WORDS) else np.float32)

    def add(self, places: Places, values: Values | BadRow, mask: Any) -> None:
        """Add rows, with the mask of the files if they have one."""
        is_real = None
        sizes = () if isinstance(values, BadRow) else values.shape
        if len(sizes) > 2 and mask is not None and self.source != MASK:
            problem = str(mask)
            if isinstance(mask, np.ndarray):
                problem = (
                    f"{MASK} has the shape {mask.shape[1:]}, {self.source} {sizes[1:]}"
                )
            if isinstance(mask, np.ndarray) and mask.shape == sizes[:2]:
                is_real = mask
                self.has_mask = True
            else:
                self.wrong_masks |= dict.fromkeys(places.tolist(), problem)
        rows, problems = stored_rows(len(places), values, self, is_real)
        self.problems |= {int(places[row]): text for row, text in problems.items()}
        if isinstance(values, BadRow) or not rows.size:
            return
        shape = rows.shape[1:]
        n_clips, example = self.clips_of_shape.get(shape, (0, int(places[0])))
        self.clips_of_shape[shape] = (n_clips + len(places), example)
        self.types.add(values.dtype)
        self.has_several |= len(sizes) > 2
        if problems:
            rows = np.delete(rows, [*problems], axis=0)
            places = np.delete(places, [*problems])
        if len(self.clips_of_shape) == 1:  # more are refused in the end
            write_rows(np.ascontiguousarray(rows, self.dtype), self.file)
            self.places.append(places)
        if math.prod(shape) >= VECTOR_VALUES and self.name not in (MASK, *TIMES):
            self.hashes.append(_hashes_of_rows(rows))

    def array(self, files: FeatureFiles) -> Array:
        """Return the array of the store; an error if clips have none, or of several shapes."""
        if not self.clips_of_shape:
            first = next(iter(self.problems.values()), "no clip is there")
            raise FixInput(
                f"no clip has a usable {self.source}; the first: {first}",
                where=files.where,
                hint="--array NAME=KEY of another array",
            )
        details = []
        for sizes, (n_clips, place) in self.clips_of_shape.items():
            example = files.names[place]
            details.append(f"{count(n_clips, 'clip')} of {sizes}, such as {example}")
        if len(details) > 1:
            raise FixInput(
                f"{self.source} has {len(details)} shapes, and a store needs one for all clips:"
                f" {'; '.join(details[:2])}",
                where=files.where,
                hint="--pool max keeps the maximum over all vectors of one width, --pool mean their"
                " mean; --manifest NAME takes only its clips",
                details=details[:20],
            )
        (shape,) = self.clips_of_shape
        of_frames = tuple(f"t{size}" for size in shape)
        if self.name == MASK and len(shape) == 1:
            return Array.of(MASK, "bool", shape, of_frames)
        if self.name in TIMES and len(shape) < 2:
            return Array.of(self.name, "float64", shape, of_frames)
        kinds = {one.kind for one in self.types}
        if self.name == N_WORDS and not shape and kinds <= {*"iu"}:
            return Array.of(N_WORDS, "int32", ())
        # One vector a clip is kept in float32 whatever it came in, as all stores have it.
        is_half = self.types == {np.dtype(np.float16)} and len(shape) > 1
        return Array.of(self.name, "float16" if is_half else "float32", shape)

    def repeats(self) -> list[str]:
        """Return a sentence if most rows say nothing new."""
        # Rows of one value have the hash 0, as the one that is added here.
        hashes = np.sort(np.concatenate([np.zeros(1, np.uint64), *self.hashes]))
        n_rows = len(hashes) - 1
        n_repeats = int((hashes[1:] == hashes[:-1]).sum())
        if n_rows < 2 or 2 * n_repeats <= n_rows:
            return []
        return [
            f"{self.name}: {n_repeats} of {n_rows} rows are zeros, repeat one value, or equal an"
            " earlier row"
        ]


class ImportedRows:
    """The rows of the new store. The files are read once, so that they may change meanwhile.

    Attributes:
        arrays: The arrays of the new store.
        problems: Why rows have no features.
        pooling: How several vectors became one, in words; "" if they did not.
        left_out: Sentences on arrays that are not stored.
        warnings: Sentences on arrays of which most rows are equal.
    """

    def __init__(
        self,
        files: FeatureFiles,
        clips: Clips,
        folder: Path,
        *,
        pool: str | None,
        keep_frames: bool,
        kept_names: Collection[str],
        progress: Progress,
    ) -> None:
        """Read the files.

        Args:
            files: The files.
            clips: Which clip is which row.
            folder: Where there is room for the numbers until the store is written.
            pool: How several vectors become one.
            keep_frames: Whether they are stored too.
            kept_names: Names that an array keeps of which one vector is left.
            progress: Counts clips, when they are read and when they are written.
        """
        self.progress = progress
        known = np.flatnonzero(clips.places >= 0)
        is_used = np.zeros(len(files.names), bool)
        is_used[clips.places[known]] = True

        def staged_as(name: str, source: str, how: str | None = None) -> Staged:
            return Staged(name, source, how, tempfile.TemporaryFile(dir=folder))

        staged = []
        for name in files.arrays:
            if pool is None or keep_frames:
                staged.append(staged_as(name, name))
            elif name in files.features:
                staged.append(staged_as(name, name, pool))
            elif name not in OF_FRAMES:  # of the frames there is one vector left
                staged.append(staged_as(name, name))
        if pool is not None and keep_frames:
            # Before the others, since experiments read the first.
            pooled = [staged_as(POOLED, name, pool) for name in files.features]
            staged = [*pooled, *staged]
        progress.expect(len(known) * (1 + len(staged)))
        for places, arrays in files.batches(is_used):
            progress.advance(len(places))
            for one in staged:
                one.add(places, arrays[one.source], arrays.get(MASK))
        staged = _with_one_pooled(staged, files, kept_names)
        self.pooling = _pooling_of(staged, files)
        self._staged_of = _arrays_of(staged, files)
        self.arrays = list(self._staged_of)
        stored_arrays = self._staged_of.values()
        self.warnings = [*chain(*(one.repeats() for one in stored_arrays))]
        stored = {one.source for one in stored_arrays}
        stored |= {MASK for one in staged if one.has_mask}
        self.left_out = [
            f"{name} was left out: it belongs to no array that is stored"
            for name in files.arrays
            if name not in stored
        ]
        self.problems: dict[int, str] = {}
        self._find_failed_rows(clips, files)

    def _find_failed_rows(self, clips: Clips, files: FeatureFiles) -> None:
        """Give rows without features their status and reason; an error if all are without."""
        row_of_place = np.full(len(files.names), -1)
        known = np.flatnonzero(clips.places >= 0)
        row_of_place[clips.places[known]] = known
        for row in np.flatnonzero(clips.places < 0).tolist():
            self.problems[row] = NOT_IN_FILES
        for one in self._staged_of.values():
            problems = dict(one.problems)
            if one.has_mask:
                # Otherwise it is the mask of another array.
                problems |= one.wrong_masks
            for place, problem in problems.items():
                text = safe_text(problem, "terminal")
                self.problems.setdefault(int(row_of_place[place]), text)
        n_rows = len(clips.places)
        if len(self.problems) == n_rows:
            of_files = [text for text in self.problems.values() if text != NOT_IN_FILES]
            raise FixInput(
                f"no clip has usable features; the first: {[*of_files, NOT_IN_FILES][0]}",
                where=files.where,
            )
        statuses = [OK] * n_rows
        reasons = [""] * n_rows
        for row, problem in self.problems.items():
            statuses[row] = FAILED
            reasons[row] = problem
        self._rows = replace(clips.rows, statuses=statuses, reasons=reasons)
        # Where the numbers of each row are in the file of each array.
        self._numbers_of: dict[str, Places] = {}
        self._values_of: dict[str, Values] = {}
        for array, one in self._staged_of.items():
            places = np.concatenate(one.places)
            numbers = np.full(n_rows, -1)
            numbers[row_of_place[places]] = np.arange(len(places))
            self._numbers_of[array.name] = numbers
            shape = (len(places), *array.shape)
            one.file.flush()
            self._values_of[array.name] = np.memmap(one.file, one.dtype, "r", 0, shape)
            one.file.close()

    def columns(self) -> RowColumns:
        """Return all rows of the new store."""
        return self._rows

    def read(self, array: Array, first: int, after: int) -> npt.NDArray[np.generic]:
        """Return the rows from `first` to before `after` of an array."""
        self.progress.advance(after - first)
        values = self._values_of[array.name]
        numbers = self._numbers_of[array.name][first:after]
        start = int(numbers[0])
        if start >= 0 and np.array_equal(numbers, start + np.arange(len(numbers))):
            values = values[start : start + len(numbers)]
        else:
            # What is there for rows without features does not matter.
            values = values[np.maximum(numbers, 0)]
        return np.asarray(values).astype(array.dtype, copy=False)


def write_rows(rows: Values, file: BinaryIO) -> None:
    """Add rows to a file."""
    file.write(rows.data)


def _with_one_pooled(
    staged: Sequence[Staged], files: FeatureFiles, kept_names: Collection[str]
) -> list[Staged]:
    """Return the arrays with the right one called 'pooled'.

    It is the only one that several vectors become, unless somebody named it; where the vectors are
    kept too, it is the array beside them.
    """
    beside = [one for one in staged if one.name != one.source]
    several = [one for one in staged if one.pool and one.has_several]
    if not beside:
        is_taken = POOLED in files.arrays
        if len(several) == 1 and several[0].name not in kept_names and not is_taken:
            several[0].name = POOLED
        return list(staged)
    if several and POOLED in files.arrays:
        raise FixInput(
            f"an array {POOLED!r} exists already",
            where=files.where,
            hint="--keep-frames without --pool",
        )
    if len(several) > 1:
        names = few([one.source for one in several])
        raise FixInput(
            f"several arrays have several vectors a clip, and only one can become {POOLED!r}:"
            f" {names}",
            where=files.where,
            hint="--array NAME=KEY for one of them, or leave --keep-frames out",
        )
    return [one for one in staged if one in several or one not in beside]


def _pooling_of(staged: Sequence[Staged], files: FeatureFiles) -> str:
    """Return how several vectors became one; raise an error for a mask of no frames."""
    frames = [one for one in staged if one.has_several]
    has_mask = any(one.has_mask for one in frames)
    if frames and MASK in files.arrays and not has_mask and not files.is_export:
        wrong = [*chain(*(one.wrong_masks.values() for one in frames))]
        raise FixInput(
            f"{wrong[0]}: expected one value for each frame",
            where=files.where,
            hint=f"another shape, or another name than {MASK} in the file",
        )
    for one in frames:
        if one.pool:
            vectors = "the real frames" if has_mask else "all tokens"
            return f"{POOLINGS[one.pool]} over {vectors}, by the importer"
    return ""


def _arrays_of(staged: Sequence[Staged], files: FeatureFiles) -> dict[Array, Staged]:
    """Return the arrays of the store: those that were asked for, and what belongs to them."""
    array_of = {one.array(files): one for one in staged}
    asked = [array for array in array_of if array.name not in files.unasked]
    together = with_companions(asked, list(array_of))
    return {array: one for array, one in array_of.items() if array in together}


def stored_rows(
    n_rows: int, values: Values | BadRow, array: Staged, is_real: Values | None
) -> tuple[Values, dict[int, str]]:
    """Return rows as the store holds them, and what is wrong with some, by their positions.

    Args:
        n_rows: How many rows there are.
        values: The rows of the files, which have one shape, or why there are none.
        array: The array of the store.
        is_real: Which frames of each row are real, if the files say it.
    """
    problem = ""
    if isinstance(values, BadRow):
        problem = str(values)
    elif values.dtype.kind not in "fiub":
        problem = f"{array.source} holds {values.dtype}, which are not real numbers"
    elif not values.size or values.ndim > 1 + MOST_DIMENSIONS:
        problem = f"{array.source} has the shape {values.shape[1:]}"
    if problem or isinstance(values, BadRow):
        return np.zeros((n_rows, 0)), dict.fromkeys(range(n_rows), problem)
    problems: dict[int, str] = {}
    if is_real is not None:
        problems = _other_than_0_and_1(is_real)
        for row in np.flatnonzero(~is_real.any(axis=1)).tolist():
            problems[row] = f"{MASK} says that no frame is real"
    if array.pool and values.ndim > 2:
        values = _pooled(values, is_real, array.pool)
    elif array.name in TIMES:
        # A frame that does not exist has no time.
        return values, problems
    elif array.name == MASK and values.ndim == 2:
        return values, _other_than_0_and_1(values)
    dtype = np.dtype(np.float16 if values.dtype == np.float16 else np.float32)
    if array.name == N_WORDS and values.ndim == 1 and values.dtype.kind in "iu":
        dtype = np.dtype(np.int32)
    with np.errstate(over="ignore"):  # what is too large is found below
        rows = values.astype(dtype, copy=False)
    if dtype.kind == "i":
        for row in np.flatnonzero(rows != values).tolist():
            problems[row] = f"{array.name} has numbers too large for int32"
    for row in rows_not_finite(rows):
        text = "holds NaN or infinity"
        if np.isfinite(values[row]).all():
            text = f"has numbers too large for {dtype.name}"
        problems.setdefault(row, f"{array.name} {text}")
    if dtype.itemsize < values.dtype.itemsize:
        had_values = values.reshape(len(rows), -1).any(axis=1)
        has_values = rows.reshape(len(rows), -1).any(axis=1)
        for row in np.flatnonzero(had_values & ~has_values).tolist():
            problems[row] = f"{array.name} has numbers too small for {dtype.name}"
    return rows, problems


def _other_than_0_and_1(mask: Values) -> dict[int, str]:
    """Return which rows of a mask hold other numbers than 0 and 1."""
    is_wrong = (mask != mask.astype(bool)).any(axis=1)
    problem = f"{MASK} holds other numbers than 0 and 1"
    return dict.fromkeys(np.flatnonzero(is_wrong).tolist(), problem)


def _pooled(values: Values, is_real: Values | None, pool: str) -> Values:
    """Return one vector of those of each row; of the real frames only."""
    vectors = values.reshape(len(values), -1, values.shape[-1])
    may_count = np.ones(vectors.shape[:2], dtype=bool)
    if is_real is not None:
        # Each frame may have several vectors.
        n_each = vectors.shape[1] // is_real.shape[1]
        may_count = np.repeat(is_real.astype(bool), n_each, axis=1)
    if pool == "last":
        last = vectors.shape[1] - 1 - may_count[:, ::-1].argmax(axis=1)
        of_last: Values = vectors[np.arange(len(vectors)), last]
        return of_last
    if is_real is not None:
        filler = -np.inf if pool == "max" else 0
        vectors = np.where(may_count[:, :, None], vectors, filler)
    if pool == "max":
        largest: Values = vectors.max(axis=1)
        return largest
    n_vectors = np.maximum(may_count.sum(axis=1, keepdims=True), 1)
    mean: Values = vectors.sum(axis=1, dtype=np.float64) / n_vectors
    return mean


def _hashes_of_rows(rows: Values) -> npt.NDArray[np.uint64]:
    """Return a number for each row, a sum of random multiples; 0 for rows of one value."""
    table = np.ascontiguousarray(rows).reshape(len(rows), math.prod(rows.shape[1:]))
    n_bytes = table.shape[1] * table.itemsize
    words = table.view(f"u{math.gcd(n_bytes, 8)}").astype(np.uint64, copy=False)
    digest = hashlib.shake_128(b"factors").digest(8 * words.shape[1])
    factors = np.frombuffer(digest, np.uint64) | np.uint64(1)
    # Numbers that differ in high bits only then differ in low ones too, as the sums need it.
    hashes: npt.NDArray[np.uint64] = (words ^ (words >> np.uint64(32))) @ factors
    is_constant = table[:, 0] == table[:, -1]
    is_constant[is_constant] = (table[is_constant] == table[is_constant, :1]).all(1)
    hashes[is_constant] = 0
    return hashes


# --- Formats ---


def open_features(
    source: Path, arrays: Mapping[str, str] | None = None, *, id_key: str | None = None
) -> FeatureFiles:
    """Open features that another program wrote; close them afterwards.

    The parameters are those of `import_features`.
    """
    refuse_table(source)
    kind = format_of(source)
    if kind in ("npy", "pth"):
        if arrays or id_key is not None:
            raise FixUsage(f"--array and --id-key do not apply to {kind}")
        return open_tree(source, kind)
    openers = {"npz": open_npz, "hdf5": open_hdf5, "parquet": open_parquet}
    return openers[kind](source, dict(arrays or {}), id_key)


def format_of(source: Path) -> str:
    """Return the format of a file or a folder of features, as its ending or its files say it."""
    if source.is_dir():
        formats = set()
        for path in plain_files(source, FORMATS_OF_FOLDERS):
            formats.add(FORMATS_OF_FOLDERS[path.suffix.lower()])
        if len(formats) == 1:
            return formats.pop()
        if formats:
            raise FixInput(
                f"files of several formats: {', '.join(sorted(formats))}",
                where=str(source),
                hint="a folder with the files of one",
            )
        raise FixInput(
            f"no file in this folder ends with {', '.join(FORMATS_OF_FOLDERS)}",
            where=str(source),
            hint="another folder, or a file: obygaze store import --help lists the formats",
        )
    require_file(source)
    ending = source.suffix.lower()
    if ending in FORMATS_OF_FOLDERS and ending not in FORMATS_OF_FILES:
        raise FixInput(
            "expected a folder with one file a clip, got a file",
            where=str(source),
            hint="an npz in Python: np.savez('x.npz', clip_id=ids, clip=array)",
        )
    if ending not in FORMATS_OF_FILES:
        raise FixUsage(
            "the ending of this name is that of no format",
            where=str(source),
            hint=f"a name that ends with {', '.join(FORMATS_OF_FILES)}",
        )
    return FORMATS_OF_FILES[ending]


def plain_files(root: Path, endings: Collection[str]) -> list[Path]:
    """Return the files of some endings below a folder, sorted; links out of it are refused.

    Hidden files are no features: macOS puts `._M-1.npy` beside `M-1.npy` on other disks.
    """
    base = root.resolve()
    files = []
    for path in sorted(root.rglob("*")):
        names = path.relative_to(root).parts
        is_hidden = any(name.startswith(".") for name in names)
        if is_hidden or path.suffix.lower() not in endings:
            continue
        if not path.resolve().is_relative_to(base):
            raise Corrupt("a link to another folder", where=str(path))
        if path.is_file():
            files.append(path)
    return files


def refuse_table(path: Path) -> None:
    """Raise an error for a table of numbers, with the line of NumPy that makes an npz of it."""
    problem = "features are not read from a table"
    if is_workbook(path):
        hint = "save the sheet as CSV: the same command then shows how an npz is made of it"
        raise FixUsage(problem, where=str(path), hint=hint)
    if path.suffix.lower() not in TABLE_ENDINGS:
        return
    table = head_of(path)
    place_of = {name: place for place, name in enumerate(table.columns)}
    id_place = place_of.get(ID_KEY, 0)

    def has_numbers(name: str) -> bool:
        return any(number_of_cell(row[name]) is not None for row in table.rows)

    places = []
    for name in own_columns(table.columns):
        if has_numbers(name) and place_of[name] != id_place:
            places.append(place_of[name])
    if not places:
        hint = (
            f"obygaze manifest import {shell_word(path)} -o NAME, if these are labels"
        )
        raise FixUsage(problem, where=str(path), hint=hint)
    names = few([table.columns[place] for place in places], 5)
    columns = str(places)
    if places == list(range(places[0], places[-1] + 1)):
        columns = f"range({places[0]}, {places[-1] + 1})"
    read = (
        f"read = lambda columns, **how: np.loadtxt({str(path)!r}, usecols=columns,"
        f" delimiter={table.delimiter!r}, skiprows={table.rows[0].line - 1}, comments=None,"
        f" quotechar='\"', encoding={encoding_of(path)!r}, **how)"
    )
    cell = "cell" if table.delimiter == "," else "cell.replace(',', '.')"
    # A clip without one of the numbers has no features, and the import says so.
    numbers = f"converters=lambda cell: float({cell} or 'nan')"
    arrays = [f"clip_id=read({id_place}, dtype=str)"]
    if FILM_KEY in place_of:
        arrays.append(f"{FILM_KEY}=read({place_of[FILM_KEY]}, dtype=str)")
    for key in SPAN_KEYS:
        if key in place_of and has_numbers(key):
            arrays.append(f"{key}=read({place_of[key]}, {numbers})")
    arrays.append(f"clip=read({columns}, ndmin=2, {numbers})")
    made = f"np.savez({f'{path}.npz'!r}, {', '.join(arrays)})"
    raise FixUsage(
        f"{problem}; an npz may have its columns {names}: leave out labels, of which a model would"
        " learn the answer",
        where=str(path),
        hint=f"python -c {shell_word(f'import numpy as np; {read}; {made}')}",
    )


# --- Arrays that have a row for each clip ---


def open_rows(
    where: str,
    keys: Sequence[str],
    array_of: Callable[[str], Any],
    batches: Callable[[Mapping[str, str], Flags], Iterator[Batch]],
    asked: Mapping[str, str],
    *,
    id_key: str | None,
    is_export: bool,
) -> FeatureFiles:
    """Return the features in arrays that have a row for each id.

    Without `asked`, all arrays of floats are stored. An experiment reads the first with one vector
    a clip, so that it must be clear which one this is: a file may have labels, too. The only array
    is called `clip` or `frames`; of several, the first must have a usual name.

    Args:
        where: The file or folder.
        keys: The names of all arrays of the file.
        array_of: Returns the array of a name, which need not be read yet.
        batches: Yields rows of arrays, whose keys it gets by their names in the store.
        asked: The key of each array that somebody named, by its name in the store.
        id_key: The array of clip ids.
        is_export: Whether a store was exported to the file: its arrays keep their names and order.
    """
    id_key = id_key or ID_KEY
    for key in (id_key, *asked.values()):
        try:
            array_of(key)
        except KeyError:
            raise FixInput(
                f"no array {key!r}{near(key, keys)}; the file has {few(keys) or 'none'}",
                where=where,
                hint="an array with a row for each clip, and one of their ids:"
                " --array NAME=KEY --id-key KEY",
            ) from None
    names = texts_of(array_of(id_key), id_key, where)
    films = [""] * len(names)
    if FILM_KEY in keys:
        films = texts_of(array_of(FILM_KEY), FILM_KEY, where)
    span_keys = []
    for key in SPAN_KEYS:
        if key in keys and key not in asked.values():
            column = array_of(key)
            # A stranger's arrays of these names may be anything.
            is_number = column.shape == (len(names),) and column.dtype.kind in "fiu"
            if key in TIME_KEYS or is_number:
                span_keys.append(key)
    others = {
        key: array_of(key)
        for key in keys
        if key not in (id_key, FILM_KEY, *span_keys, *asked.values())
    }
    unasked = []
    for key in COMPANIONS:
        kinds = {MASK: "biuf", N_WORDS: "iu"}.get(key, "f")
        is_free = key in others and key not in asked
        if is_free and others[key].dtype.kind in kinds:
            unasked.append(key)
    companions = {key: key for key in unasked}
    notes = []
    if not asked:
        usable = []
        for key, values in others.items():
            problem = _why_left_out(values, len(names), is_export=is_export)
            if not problem and key not in unasked:
                usable.append(key)
            elif key not in unasked and values.shape:
                # A single value is no array of clips: it is about the file.
                notes.append(f"{key} was left out: {problem}")
        asked = {key: key for key in usable}
        if not is_export:
            asked = _with_features_first(asked, others, where)
    if not asked:
        shapes = []
        for key, values in others.items():
            shapes.append(f"{key} is {values.dtype} {list(values.shape)}")
        there = f": {few(shapes)}" if shapes else "; the file has no other array"
        raise FixInput(
            f"no array of floats has a row for each of the {len(names)} ids{there}",
            where=where,
            hint="save one row for each id, or name the array: --array NAME=KEY",
        )
    arrays = {**asked, **companions}
    if len(films) != len(names):
        raise FixInput(
            f"expected {len(names)} film ids, one for each clip, got {len(films)}",
            where=where,
        )
    for name, key in arrays.items():
        shape = tuple(array_of(key).shape)
        if shape[:1] != (len(names),):
            raise FixInput(
                f"{name}: expected {len(names)} rows, one for each id, got the shape {shape}",
                where=where,
            )
    return FeatureFiles(
        where,
        names,
        list(arrays),
        partial(batches, arrays),
        films,
        {key: _numbers(array_of(key), key, len(names), where) for key in span_keys},
        unasked,
        asked,
        notes=notes,
        is_export=is_export,
    )


def _why_left_out(values: Any, n_clips: int, *, is_export: bool) -> str:
    """Return why an array that nobody named is not taken for features; "" if it is."""
    shape = tuple(values.shape)
    takes_it = "--array NAME=KEY takes it"
    if shape[:1] != (n_clips,):
        return (
            f"its shape is {list(shape)}, without a row for each of the {n_clips} ids"
        )
    if values.dtype.kind not in "fiub":
        return f"it holds {values.dtype}, not real numbers"
    if values.dtype.kind != "f":
        return f"it holds {values.dtype}; {takes_it}"
    if len(shape) == 1 and not is_export:
        return f"it has one number a clip; {takes_it}"
    return ""


def _with_features_first(
    keys: Mapping[str, str], values: Mapping[str, Any], where: str
) -> dict[str, str]:
    """Return arrays in an order in which features come first; raise an error if it is unclear."""
    if len(keys) == 1:
        (key,) = keys
        usual = "clip" if len(values[key].shape) == 2 else "frames"
        return {key if key in USUAL_NAMES else usual: key}
    ordered = sorted(keys, key=lambda key: key not in USUAL_NAMES)
    vectors = [key for key in ordered if len(values[key].shape) == 2]
    if ordered and (vectors or ordered)[0] not in USUAL_NAMES:
        raise FixInput(
            f"which of these arrays are features: {few(ordered)}?",
            where=where,
            hint="--array NAME=KEY for each of them, first the one that experiments read:"
            f" --array {shell_word(f'clip={ordered[0]}')}",
        )
    return {key: key for key in ordered}


def texts_of(values: Any, key: str, where: str) -> list[str]:
    """Return ids as texts, from the types of NumPy and HDF5."""
    if len(values.shape) != 1:
        raise FixInput(
            f"{key!r}: expected a list of ids, got the shape {tuple(values.shape)}",
            where=where,
            hint="name another array of ids: --id-key KEY",
        )
    if values.dtype.kind in "US":
        refuse_long_ids(values.dtype.itemsize, key, where)
    ids: list[Any] = []
    n_letters = 0
    # Texts of nothing, and equal ones, take no place in a compressed file.
    for first in range(0, values.shape[0], IDS_AT_ONCE):
        some = np.asarray(values[first : first + IDS_AT_ONCE]).tolist()
        kinds = set(map(type, some))
        if not kinds <= {str, bytes, int}:
            raise FixInput(f"{key!r} holds {values.dtype}, not ids", where=where)
        if int not in kinds:
            n_letters += sum(map(len, some))
        refuse_long_ids(0, key, where, n_letters)
        ids += some
    try:
        return [name.decode() if type(name) is bytes else str(name) for name in ids]
    except UnicodeDecodeError as error:
        raise FixInput(f"{key!r} is not UTF-8: {error}", where=where) from error


def refuse_long_ids(n_bytes: int, key: str, where: str, n_letters: int = 0) -> None:
    """Raise an error if the longest id takes too many bytes, or all have too many letters."""
    if n_letters > MOST_LETTERS:
        problem = f"{key!r} has more than {MOST_LETTERS} letters"
        raise Corrupt(problem, where=where)
    if n_bytes > MOST_ID_BYTES:
        raise Corrupt(
            f"{key!r} has ids of {n_bytes} bytes, expected at most {MOST_ID_BYTES}",
            where=where,
        )


def _numbers(column: Any, key: str, n_clips: int, where: str) -> Values:
    """Return the times or frames of clips; NaN where one is not known."""
    shape = tuple(column.shape)
    if shape != (n_clips,) or column.dtype.kind not in "fiu":
        raise FixInput(
            f"expected {n_clips} numbers {key}, one for each clip, got {column.dtype}"
            f" {list(shape)}",
            where=where,
        )
    seconds = np.asarray(column[:], dtype=np.float64)
    return np.where(np.isfinite(seconds), seconds, np.nan)


def batches_of_rows(
    arrays: Mapping[str, Any], is_used: Flags, where: str
) -> Iterator[Batch]:
    """Yield rows of arrays that have `shape`, `dtype` and `values[first:after]`."""
    row_bytes = 1
    for name, values in arrays.items():
        of_array = math.prod(values.shape[1:]) * values.dtype.itemsize
        check_memory(of_array, f"one row of {name}", where)
        row_bytes = max(row_bytes, of_array)
    n_rows = max(1, BATCH_BYTES // row_bytes)
    for first in range(0, len(is_used), n_rows):
        chosen = np.flatnonzero(is_used[first : first + n_rows])
        if not len(chosen):
            continue
        rows = {}
        for name, values in arrays.items():
            try:
                of_all = np.asarray(values[first : first + n_rows])
            except FOREIGN_DAMAGE as error:
                raise Corrupt(
                    f"{name} cannot be read: {error}",
                    where=where,
                    hint="copy or download the file again",
                ) from error
            rows[name] = of_all if len(of_all) == len(chosen) else of_all[chosen]
        yield first + chosen, rows


# --- npz ---


def open_npz(path: Path, arrays: Mapping[str, str], id_key: str | None) -> FeatureFiles:
    """Open an npz file, whose arrays have a row for each id."""
    archive, members = _members(path)

    def batches(keys: Mapping[str, str], is_used: Flags) -> Iterator[Batch]:
        streams = {name: members[key] for name, key in keys.items()}
        yield from batches_of_rows(streams, is_used, str(path))
        for member in streams.values():
            member.finish()

    files = open_rows(
        str(path),
        list(members),
        members.__getitem__,
        batches,
        arrays,
        id_key=id_key,
        is_export=EXPORT_KEY in members,
    )
    files.handle = archive
    return files


def read_arrays(path: Path) -> dict[str, Values]:
    """Return every array of an npz file by its name, whole."""
    archive, members = _members(path)
    with archive:
        return {key: members[key].whole for key in members}


def _members(path: Path) -> tuple[zipfile.ZipFile, dict[str, Member]]:
    """Return an npz file, and its arrays by their names."""
    require_file(path)
    if not zipfile.is_zipfile(path):
        hint = "copy or download it again, or make it with numpy.savez"
        raise Corrupt("not a complete npz file", where=str(path), hint=hint)
    try:
        archive = zipfile.ZipFile(path)
    except FOREIGN_DAMAGE as error:
        raise Corrupt(f"not a complete npz file: {error}", where=str(path)) from error
    members = {}
    for name in archive.namelist():
        members[name.removesuffix(".npy")] = Member(path, archive, name)
    return archive, members


class Member:
    """One array of an npz file, of which ranges of rows are read that rise.

    zipfile compares the checksum when the last byte is read.
    """

    def __init__(self, path: Path, archive: zipfile.ZipFile, name: str) -> None:
        self.archive = archive
        self.name = name
        self.where = str(path)
        self.n_read = 0

    @cached_property
    def _stream(self) -> Any:
        with self._damage():
            return self.archive.open(self.name)

    @cached_property
    def _header(self) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
        """Shape, whether columns come first, and type; then the stream is at the first number."""
        formats = np.lib.format
        with self._damage():
            read = formats.read_array_header_2_0
            if formats.read_magic(self._stream) == (1, 0):
                read = formats.read_array_header_1_0
            shape, is_fortran, dtype = read(self._stream)
        n_bytes = self._stream.tell() + math.prod(shape) * dtype.itemsize
        if dtype.hasobject:
            raise Corrupt(
                f"{self.name.removesuffix('.npy')!r} has Python objects, which are never unpickled",
                where=self.where,
                hint="np.array(values, dtype=...) when the file is made",
            )
        if n_bytes > self.archive.getinfo(self.name).file_size:
            problem = f"{self.name!r} is shorter than its shape {shape}"
            raise Corrupt(problem, where=self.where)
        return shape, is_fortran, dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self._header[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its numbers."""
        return self._header[2]

    @cached_property
    def whole(self) -> Values:
        """All of the array, in memory."""
        shape, is_fortran, dtype = self._header
        n_bytes = math.prod(shape) * dtype.itemsize
        check_memory(n_bytes, self.name, self.where)
        with self._damage():
            data = self._stream.read(n_bytes)
            order: Any = "F" if is_fortran else "C"
            values = np.ndarray(shape, dtype, data, order=order)
            _require_unicode(values)
        self.finish()
        return values

    def __getitem__(self, rows: slice) -> Values:
        """Return rows that come after those that were read before."""
        shape, is_fortran, dtype = self._header
        first, after, _ = rows.indices(shape[0])
        if is_fortran or not math.prod(shape):
            return self.whole[rows]
        n_bytes = math.prod(shape[1:]) * dtype.itemsize
        with self._damage():
            n_skipped = (first - self.n_read) * n_bytes
            while n_skipped > 0:
                skipped = self._stream.read(min(n_skipped, BATCH_BYTES))
                if not skipped:
                    raise EOFError("it is shorter than its shape")
                n_skipped -= len(skipped)
            self.n_read = after
            data = self._stream.read((after - first) * n_bytes)
            values: Values = np.ndarray((after - first, *shape[1:]), dtype, data)
            _require_unicode(values)
        if after == shape[0]:
            self.finish()
        return values

    def finish(self) -> None:
        """Read what is left."""
        with self._damage():
            while self._stream.read(BATCH_BYTES):
                pass

    @contextmanager
    def _damage(self) -> Iterator[None]:
        """Raise an error for an array that is not complete."""
        try:
            yield
        except FOREIGN_DAMAGE as error:
            problem = f"{self.name!r} cannot be read: {error}"
            raise Corrupt(problem, where=self.where) from error


def _require_unicode(values: Values) -> None:
    """Raise ValueError for texts with numbers that are no characters of Unicode.

    Python makes broken texts of them, which fail somewhere else.
    """
    if values.dtype.kind == "U" and values.size and values.dtype.itemsize:
        number = np.dtype(np.uint32).newbyteorder(values.dtype.byteorder)
        codes = np.ascontiguousarray(values).view(number)
        is_surrogate = (codes >= 0xD800) & (codes <= 0xDFFF)
        if codes.max() > sys.maxunicode or is_surrogate.any():
            raise ValueError("a text has a character that Unicode does not have")


# --- Parquet: a row for each clip, and columns of lists of numbers ---

PARQUET_EXTRA = "parquet"


class _Kind(NamedTuple):
    """What the type of a column says of its numbers; a size that each row may have is 0."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def open_parquet(
    path: Path, arrays: Mapping[str, str], id_key: str | None
) -> FeatureFiles:
    """Open a file with a row for each clip, or a folder of such files.

    Without `arrays`, each column of lists of numbers is an array.
    """
    parts = plain_files(path, [".parquet"]) if path.is_dir() else None
    table = _Table(path, parts or [path])
    id_key = id_key or ID_KEY
    wanted = (id_key, FILM_KEY, *SPAN_KEYS, MASK, N_WORDS, *arrays.values())
    keys: list[str] = []
    others: list[str] = []
    for name in table.schema.names:
        kind = table.kind(name)
        has_numbers = kind.dtype.kind in "fiub" and len(kind.shape) > 1
        is_of_export = table.is_export and kind.dtype.kind == "f"
        is_read = has_numbers or is_of_export or name in wanted
        (keys if is_read else others).append(name)

    def array_of(name: str) -> Any:
        if name not in table.schema.names:
            raise KeyError(name)
        is_fact = name in (id_key, FILM_KEY, *SPAN_KEYS)
        return table.column(name) if is_fact else table.kind(name)

    files = open_rows(
        str(path),
        keys if id_key in keys else table.schema.names,
        cache(array_of),
        table.batches,
        arrays,
        id_key=id_key,
        is_export=table.is_export,
    )
    files.parts = parts
    if others and not arrays:
        left_out = f"columns without lists of numbers were left out: {few(others, 5)}"
        files.notes = [*files.notes, left_out]
    return files


def _arrow(module: str) -> Any:
    """Return a module of pyarrow."""
    return need(f"pyarrow.{module}", PARQUET_EXTRA, "reading Parquet")


class _Table:
    """The files of a folder as one table."""

    def __init__(self, path: Path, files: Sequence[Path]) -> None:
        self.path = path
        self.files = files
        self.n_rows = 0
        schemas: list[Any] = []
        for file in files:
            with self._opened(file) as opened:
                schemas.append(opened.schema_arrow)
                self.n_rows += opened.metadata.num_rows
            if not schemas[-1].equals(schemas[0]):
                raise FixInput(
                    f"{file.name} has other columns than {files[0].name}, or of other types",
                    where=str(file),
                )
        self.schema = schemas[0]
        origins = {(one.metadata or {}).get(EXPORT_KEY.encode()) for one in schemas}
        self.is_export = origins != {None}
        if len(origins) > 1:
            raise FixInput(
                "the files are not exports of one store",
                where=str(path),
                hint=f"import each of them alone: {few([str(file) for file in files], 3)}",
            )
        if not self.n_rows:
            raise FixInput("the table has no rows", where=str(path))
        names = self.schema.names
        refuse_if(
            sorted({name for name in names if names.count(name) > 1}),
            FixInput,
            "several columns have one name",
            where=str(path),
        )

    @contextmanager
    def _opened(self, file: Path, texts: Sequence[str] = ()) -> Iterator[Any]:
        """Yield an open file, whose checksums are compared where it has some.

        Equal texts in the columns `texts` are in memory once.
        """
        try:
            with _arrow("parquet").ParquetFile(
                file, page_checksum_verification=True, read_dictionary=list(texts)
            ) as opened:
                yield opened
        except (*FOREIGN_DAMAGE, _arrow("lib").ArrowException) as error:
            raise Corrupt(
                f"not a complete Parquet file: {error}", where=str(file)
            ) from error

    def kind(self, name: str) -> _Kind:
        """Return what is known of the numbers of a column before it is read."""
        types = _arrow("types")
        column_type = self.schema.field(name).type
        shape = [self.n_rows]
        while _is_list(column_type):
            is_fixed = types.is_fixed_size_list(column_type)
            shape.append(column_type.list_size if is_fixed else 0)
            column_type = column_type.value_type
        dtype = np.dtype(object)
        with suppress(NotImplementedError, TypeError):
            dtype = np.dtype(column_type.to_pandas_dtype())
        return _Kind(tuple(shape), dtype)

    def column(self, name: str) -> Values:
        """Return a column of ids or times, whole; an id that is missing is an error."""
        n_bytes = ID_BYTES * self.n_rows
        check_memory(n_bytes, f"the column {name!r}", str(self.path))
        cells: list[Any] = []
        for _, rows in self._rows([name], [name]):
            column = rows.column(name)
            if _arrow("types").is_dictionary(column.type):
                lengths = _arrow("compute").binary_length(column.dictionary)
                longest = _arrow("compute").max(lengths).as_py() or 0
                n_letters = longest * self.n_rows
                refuse_long_ids(longest, name, str(self.path), n_letters)
            cells += column.to_pylist()
        if name in SPAN_KEYS:
            return np.array([np.nan if cell is None else cell for cell in cells])
        if None in cells:
            where = f"{self.path}, row {cells.index(None)}"
            raise FixInput(f"the column {name!r} has no value", where=where)
        is_text = any(isinstance(value, str) for value in cells)
        return np.array(cells, dtype=object if is_text else None)

    def batches(self, keys: Mapping[str, str], is_used: Flags) -> Iterator[Batch]:
        """Yield rows of columns; one by one where they have several shapes."""
        for first, rows in self._rows(list(keys.values())):
            places = first + np.flatnonzero(is_used[first : first + len(rows)])
            if not len(places):
                continue
            chosen = rows
            if len(places) < len(rows):
                chosen = rows.take(_arrow("lib").array(places - first))
            columns = {name: chosen.column(key) for name, key in keys.items()}
            arrays: dict[str, Values | BadRow] = {}
            for name, column in columns.items():
                values = _as_array(column)
                if values is not None:
                    arrays[name] = values
            if len(arrays) == len(columns):
                yield places, arrays
                continue
            for row in range(len(places)):
                for name, column in columns.items():
                    kind = self.kind(keys[name])
                    arrays[name] = _array_of_cell(column[row], name, kind)
                yield places[row : row + 1], dict(arrays)

    def _rows(
        self, columns: Sequence[str], texts: Sequence[str] = ()
    ) -> Iterator[tuple[int, Any]]:
        """Yield some rows at a time, each time with the number of the first."""
        n_rows = 0
        for file in self.files:
            with self._opened(file, texts) as opened:
                for number in range(opened.metadata.num_row_groups):
                    # Where what is said of a column is damaged, only reading it is an error: what
                    # asks for its facts would end the process.
                    next(opened.iter_batches(1, [number], columns), None)
                    group = opened.metadata.row_group(number)
                    n_bytes = _unpacked_bytes(group, opened.schema, columns)
                    self._check_bytes(n_bytes, file, columns)
                    rows_at_once = BATCH_BYTES * group.num_rows // max(n_bytes, 1)
                    for rows in opened.iter_batches(
                        max(1, rows_at_once), [number], columns
                    ):
                        rows.validate(full=True)
                        yield n_rows, rows
                        n_rows += len(rows)
        if n_rows != self.n_rows:
            raise Corrupt(
                f"not a complete Parquet file: {n_rows} rows, expected {self.n_rows}",
                where=str(self.path),
            )

    def _check_bytes(self, n_bytes: int, file: Path, columns: Sequence[str]) -> None:
        """Raise an error for columns that a small file cannot have, or that memory cannot hold."""
        n_file = file.stat().st_size
        if n_bytes > max(MOST_REPEATED, MOST_COMPRESSED * n_file):
            raise Corrupt(
                f"{few(columns)} has {human(n_bytes)} in a file of {human(n_file)}, which repeats"
                " a few numbers and is not read",
                where=str(file),
            )
        check_memory(n_bytes, f"a group of rows of {few(columns)}", str(file))


def _unpacked_bytes(group: Any, schema: Any, names: Sequence[str]) -> int:
    """Return the most that the numbers of columns take in memory.

    Equal numbers are written once with how often they come, so that the bytes in the file say
    nothing of it.
    """
    n_values = 0
    for index in range(len(schema)):
        if schema.column(index).path.partition(".")[0] in names:
            n_values += group.column(index).num_values
    return max(int(group.total_byte_size), 8 * n_values)


def _is_list(column_type: Any) -> bool:
    types = _arrow("types")
    return bool(
        types.is_fixed_size_list(column_type)
        or types.is_list(column_type)
        or types.is_large_list(column_type)
    )


def _as_array(column: Any) -> Values | None:
    """Return some rows as one array; None if they have several shapes, or a value is missing."""
    sizes = []
    values = column
    while _is_list(values.type):
        lengths = _arrow("compute").list_value_length(values).unique().to_pylist()
        if len(lengths) != 1 or values.null_count:
            return None
        sizes += lengths
        values = values.flatten()
    if values.null_count:
        return None
    numbers: Values = values.to_numpy(zero_copy_only=False)
    return numbers.reshape(len(column), *sizes)


def _array_of_cell(cell: Any, name: str, kind: _Kind) -> Values | BadRow:
    """Return the array of one row, or why it has none."""
    value = cell.as_py()
    if value is None:
        return BadRow(f"{name} has no value")
    try:
        return np.array(value, dtype=kind.dtype)[None]
    except (TypeError, ValueError):
        return BadRow(f"{name} has lists of several sizes")


# --- npy and pth: a file for each clip ---


def batches_of_clips(
    open_of: Mapping[str, Callable[[int], Any]], is_used: Flags
) -> Iterator[Batch]:
    """Yield the arrays of one clip after the other.

    `open_of` opens the array of a clip at a place, for each array: anything with `shape`, `dtype`
    and `array[()]`.
    """
    for place in np.flatnonzero(is_used).tolist():
        arrays = {}
        for name, open_array in open_of.items():
            arrays[name] = _array_of_clip(name, open_array, place)
        yield np.array([place]), arrays


def _array_of_clip(
    name: str, open_array: Callable[[int], Any], place: int
) -> Values | BadRow:
    """Return the array of a clip, or why it has none."""
    try:
        opened = open_array(place)
        n_bytes = math.prod(opened.shape) * opened.dtype.itemsize
        check_memory(n_bytes, "the array of one clip", name, error=Corrupt)
        return np.asarray(opened[()])[None]
    except BadRow as error:
        # Another one, since the traceback keeps the array in memory.
        return BadRow(*error.args)
    except FOREIGN_DAMAGE as error:
        return BadRow(f"{name} cannot be read: {error}")


def has_frames(open_array: Callable[[int], Any], n_clips: int) -> bool:
    """Return whether the first clip that can be opened has several vectors."""
    for place in range(n_clips):
        with suppress(BadRow, *FOREIGN_DAMAGE):
            return len(open_array(place).shape) > 1
    return False


def open_tree(root: Path, kind: str) -> FeatureFiles:
    """Open a folder with a file for each clip, and the folders of films below it.

    The folders are those of the released code, FEATURES/<film>/<video>.pth, or all files lie in one
    folder. A tensor is [1, D] or [1, tokens, D].
    """
    read: Callable[[Path], Values] = _mapped
    if kind == "pth":
        read = partial(_tensor, need("torch", "mlp", "reading .pth files"))
    files = plain_files(root, FORMATS_OF_FOLDERS)
    file_of_clip: dict[tuple[str, str], Path] = {}
    for file in files:
        clip = (file.parent.name, file.stem)
        first = file_of_clip.setdefault(clip, file)
        if first != file:
            raise FixInput(
                f"two files for the clip {file.stem!r}", where=f"{first}, {file}"
            )
    names = [name for _, name in file_of_clip]
    if len(set(names)) < len(names):
        names = [f"{film}-{name}" for film, name in file_of_clip]
    if len(set(names)) < len(names):
        raise FixInput("two clips have one id, made of film and clip", where=str(root))
    file_at = list(file_of_clip.values())

    def open_array(place: int) -> Values:
        return read(file_at[place])

    several = "frames" if kind == "npy" else "tokens"
    name = several if has_frames(open_array, len(file_at)) else "clip"
    # Of two folders with one name nobody knows whether they are of one film.
    folders = {file.parent for file in files}
    n_of_name = Counter(folder.name for folder in folders)
    films = {folder.name for folder in folders - {root} if n_of_name[folder.name] == 1}
    return FeatureFiles(
        str(root),
        names,
        [name],
        partial(batches_of_clips, {name: open_array}),
        [film if film in films else "" for film, _ in file_of_clip],
        parts=files,
    )


def _mapped(path: Path) -> Values:
    """Return an array that stays in its file; a file shorter than its array is refused."""
    try:
        # `np.load` would take other files for a zip or a pickle.
        array: Values = np.lib.format.open_memmap(path, mode="r")
    except FOREIGN_DAMAGE as error:
        if "Python objects" in str(error):
            raise Corrupt(
                "this file has Python objects, which are never unpickled",
                where=str(path),
                hint="np.array(values, dtype=...) when the file is made",
            ) from error
        raise BadRow(f"not a complete npy file: {error}") from error
    return array


def _tensor(torch: Any, file: Path) -> Values:
    """Return the tensor of a file, without the leading 1; only plain tensors are loaded."""
    value = _loaded(torch, file)
    if not isinstance(value, torch.Tensor):
        raise BadRow(f"{file.name} holds {type(value).__name__}, not a tensor")
    is_plain = value.layout == torch.strided and not value.is_quantized
    if not is_plain or value.is_complex():
        raise BadRow(f"{file.name} holds an unsupported kind of tensor")
    shape = tuple(value.shape)
    # A few bytes can be seen as a huge tensor, by strides of zero.
    if value.numel() * value.element_size() > value.untyped_storage().nbytes():
        raise BadRow(f"{file.name} holds less than its shape {shape}")
    if len(shape) not in (2, 3) or shape[0] != 1:
        raise BadRow(
            f"{file.name} has the shape {shape}, expected [1, D] or [1, tokens, D]"
        )
    tensor = value.detach()
    if tensor.dtype == torch.bfloat16:  # NumPy has no such type; this is exact
        tensor = tensor.float()
    array: Values = tensor.numpy()[0]
    return array


def _loaded(torch: Any, file: Path) -> Any:
    """Return what a file holds, by PyTorch's restricted unpickler."""
    check_memory(file.stat().st_size, "one file", str(file))
    try:
        # What is wrong with a file is reported below, once.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = io.BytesIO(file.read_bytes())
            _refuse_compressed(data, file)
            return torch.load(data, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise Corrupt(
            "this file has more than plain tensors: loading it could run code",
            where=str(file),
            hint="torch.save(features.detach().cpu(), file) where it was made",
        ) from error
    except FOREIGN_DAMAGE as error:
        raise BadRow(f"{file.name} cannot be read: {str(error)[:120]}") from error


def _refuse_compressed(data: io.BytesIO, file: Path) -> None:
    """Raise BadRow for an archive that is larger unpacked; `torch.save` writes none."""
    if zipfile.is_zipfile(data):
        with zipfile.ZipFile(data) as archive:
            n_bytes = sum(member.file_size for member in archive.infolist())
        if n_bytes > len(data.getbuffer()):
            raise BadRow(f"{file.name} has {human(n_bytes)} unpacked")
    data.seek(0)


# --- HDF5: arrays with a row for each clip, or a data set for each clip under some path ---

CLIP_MARK = "{id}"
LAYOUTS = (
    "--array clip='{id}/features' for a data set a clip, --array clip=PATH --id-key PATH for one"
    " array of all"
)
# A compressed chunk that is larger than the cache would be unpacked for each row.
CACHE_BYTES = 2**26
# What must be read with the features beside which it is, and what it says.
BESIDE = {
    MASK: "a mask, which says which frames are real",
    N_WORDS: "n_words, which says which clips have words",
}
# The start of a block of texts.
TEXTS = b"GCOL\x01\0\0\0"


def open_hdf5(
    path: Path, arrays: Mapping[str, str], id_key: str | None
) -> FeatureFiles:
    """Open an HDF5 file.

    An array is given by a path. With `{id}` in it there is one data set for each clip: `{id}` (MAD,
    Charades), `v_{id}/c3d_features` (ActivityNet), `{id}/features` (SumMe, TVSum),
    `features.s3d/{id}` (MMT). Without, it is one array of all clips, whose ids lie under the id
    key.
    """
    try:
        opened = _Hdf5(path)
        # Other programs show paths from the root of the file: /features.
        paths = {name: key.lstrip("/") for name, key in arrays.items()}
        has_rows = not any("{" in key for key in paths.values())
        if not arrays:
            has_rows = opened.has_texts()
        if id_key is not None or has_rows:
            files = opened.one_array(paths, (id_key or ID_KEY).lstrip("/"))
        else:
            files = opened.a_data_set_a_clip(paths)
        files.handle = opened.handle
        groups = opened.names("", is_group=True)
        if groups and not arrays and id_key is None:
            note = f"groups were left out: {few(groups, 3)}; --array clip='GROUP/{{id}}' takes one"
            files.notes = [*files.notes, note]
        return files
    except FOREIGN_DAMAGE as error:
        raise Corrupt(
            f"not a complete HDF5 file: {error}",
            where=str(path),
            hint="copy or download it again",
        ) from error


class _Hdf5:
    """An open HDF5 file, of which nothing is read that leads out of it or takes all memory."""

    def __init__(self, path: Path) -> None:
        import h5py

        self.h5py: Any = h5py
        self.where = str(path)
        self.handle: Any = h5py.File(path, "r", rdcc_nbytes=CACHE_BYTES)

    def node(self, path: str) -> Any:
        """Return what is at a path; raise an error for links and for data in other files."""
        node = self.handle
        for word in filter(None, path.split("/")):
            if not isinstance(node, self.h5py.Group) or word not in node:
                raise KeyError(path)
            if not isinstance(node.get(word, getlink=True), self.h5py.HardLink):
                raise Corrupt(
                    f"{path!r} is a link, which is not followed", where=self.where
                )
            node = node[word]
        if isinstance(node, self.h5py.Dataset) and (node.external or node.is_virtual):
            problem = f"{path!r} has its data in other files, which are not read"
            raise Corrupt(problem, where=self.where)
        return node

    def names(self, path: str, *, is_group: bool) -> list[str]:
        """Return the names of the groups, or of the data sets, in a group; with all links."""
        parent = self.node(path)
        if not isinstance(parent, self.h5py.Group):
            raise FixInput(f"{path!r} is not a group", where=self.where, hint=LAYOUTS)
        wanted = self.h5py.Group if is_group else self.h5py.Dataset
        names = []
        for name in parent:
            link = parent.get(name, getlink=True)
            # What is at the end of a link is not looked at: it is refused where it is read.
            is_link = not isinstance(link, self.h5py.HardLink)
            if is_link or parent.get(name, getclass=True) is wanted:
                names.append(name)
        return names

    def has_texts(self) -> bool:
        """Return whether the file has texts that may be ids, or an array that is called so."""
        names = self.names("", is_group=False)
        for name in names:
            # A damaged one is a failed row where it is read.
            with suppress(Corrupt, *FOREIGN_DAMAGE):
                if self.node(name).ndim and self.node(name).dtype.kind in "SO":
                    return True
        return ID_KEY in names

    def data_set(self, path: str) -> Any:
        """Return the data set at a path; raise BadRow where there is none that can be read."""
        try:
            node = self.node(path)
        except KeyError as error:
            raise BadRow(f"nothing under {path!r}") from error
        if not isinstance(node, self.h5py.Dataset):
            raise BadRow(f"{path!r} is a group, not an array")
        # Each look at it takes time.
        dtype = node.dtype
        if dtype.hasobject and self.h5py.check_string_dtype(dtype) is None:
            # The HDF5 library may crash over such a type, which damage makes.
            raise BadRow(f"{path!r} holds neither numbers nor texts")
        n_bytes = node.size * dtype.itemsize
        if n_bytes > MOST_COMPRESSED * self.handle.id.get_filesize():
            # HDF5 returns fill values for what a file does not hold, which takes hours.
            raise Corrupt(
                f"{path!r} has {human(n_bytes)}, more than the file can hold",
                where=self.where,
            )
        if not _is_written(node):
            raise BadRow(f"{path!r} has values that were never written")
        if dtype.hasobject:
            _check_texts(self.handle, node)
        return node

    def one_array(self, paths: Mapping[str, str], id_key: str) -> FeatureFiles:
        """Return the features in arrays that have a row for each id."""
        for array, key in paths.items():
            if "/" in key:  # a mask at the root is found and read
                self._refuse_what_is_beside(array, paths, [key])

        @cache
        def array_of(key: str) -> Any:
            try:
                return self.data_set(key)
            except BadRow as error:
                if isinstance(error.__cause__, KeyError):
                    raise KeyError(key) from error
                raise FixInput(str(error), where=self.where, hint=LAYOUTS) from error

        def batches(keys: Mapping[str, str], is_used: Flags) -> Iterator[Batch]:
            arrays = {name: array_of(key) for name, key in keys.items()}
            return batches_of_rows(arrays, is_used, self.where)

        return open_rows(
            self.where,
            self.names("", is_group=False),
            array_of,
            batches,
            paths,
            id_key=id_key,
            is_export=EXPORT_KEY in self.handle.attrs,
        )

    def a_data_set_a_clip(self, patterns: Mapping[str, str]) -> FeatureFiles:
        """Return features of which each clip has its own data set."""
        is_unnamed = not patterns
        patterns = patterns or {"clip": CLIP_MARK}
        names = [*dict.fromkeys(chain(*map(self._clips_at, patterns.values())))]
        if not names:
            problem = f"no data set at {few(list(patterns.values()))}"
            raise FixInput(problem, where=self.where, hint=LAYOUTS)
        open_of: dict[str, Callable[[int], Any]] = {}
        for array, pattern in patterns.items():
            paths = [pattern.replace(CLIP_MARK, name) for name in names]
            self._refuse_what_is_beside(array, patterns, paths)
            open_of[array] = partial(self._array_at, paths, int(is_unnamed))
        if is_unnamed and has_frames(open_of["clip"], len(names)):
            if len(names) == 1:
                raise FixInput(
                    f"one array {names[0]!r}, and no ids of clips",
                    where=self.where,
                    hint="add the ids of its rows: --array NAME=KEY --id-key KEY",
                )
            open_of = {"frames": open_of["clip"]}
        return FeatureFiles(
            self.where,
            names,
            list(open_of),
            partial(batches_of_clips, open_of),
            [""] * len(names),
            keys=patterns,
        )

    def _array_at(self, paths: Sequence[str], least: int, place: int) -> Any:
        """Return the data set of a clip, of a least number of dimensions."""
        node = self.data_set(paths[place])
        if node.ndim < least:
            raise BadRow(f"{paths[place]!r} has the shape {node.shape}")
        return node

    def _clips_at(self, pattern: str) -> Iterator[str]:
        """Yield the names of clips for which the pattern may lead to a data set."""
        if pattern.count(CLIP_MARK) != 1:
            raise FixInput(
                f"{pattern!r} must contain {CLIP_MARK} once",
                where=self.where,
                hint=f"--id-key KEY for one array of all clips, or {LAYOUTS}",
            )
        above, below = pattern.split(CLIP_MARK)
        groups, _, before = above.rpartition("/")
        after, _, inside = below.partition("/")
        try:
            names = self.names(groups, is_group=bool(inside))
        except KeyError as error:
            problem = f"no group for the path {pattern!r}"
            raise FixInput(problem, where=self.where, hint=LAYOUTS) from error
        form = re.compile(f"{re.escape(before)}(.+){re.escape(after)}", re.DOTALL)
        for match in filter(None, map(form.fullmatch, names)):
            yield match[1]

    def _refuse_what_is_beside(
        self, array: str, patterns: Mapping[str, str], paths: Collection[str]
    ) -> None:
        """Raise an error for a mask beside an array that is read: without it, padding would count.

        The same holds for numbers of words: without them, silent clips would count as others.
        """
        words = patterns[array].split("/")
        depths = [depth for depth, word in enumerate(words) if not {*"{}"} & {*word}]
        for name, meaning in BESIDE.items():
            if not depths or name in (*patterns, words[depths[-1]]):
                continue
            for path in paths:
                beside = path.split("/")
                beside[depths[-1]] = name
                # A link is refused, by name, when the array is read.
                with suppress(KeyError, Corrupt):
                    self.node("/".join(beside))
                    raise FixInput(
                        f"beside {path} is {meaning}",
                        where=self.where,
                        hint=f"--array {shell_word(name)}=PATH reads it too",
                    )


def _is_written(node: Any) -> bool:
    """Return whether a file holds all values of a data set.

    HDF5 returns zeros for those that a program was killed before it wrote.
    """
    if node.chunks is None:
        return not node.size or node.id.get_storage_size() > 0
    n_chunks = 1
    for size, chunk_size in zip(node.shape, node.chunks, strict=True):
        n_chunks *= math.ceil(size / chunk_size)
    return bool(node.id.get_num_chunks() >= n_chunks)


def _check_texts(handle: Any, node: Any) -> None:
    """Raise ValueError for texts longer than the file, and for one of no bytes in a block of texts.

    The HDF5 library (2.0 too) takes the memory for the first, and reads the second for ever; it has
    no function that checks them. So the bytes are looked at before it reads a text.
    """
    n_size = handle.id.get_create_plist().get_sizes()[1]
    with Path(handle.filename).open("rb") as stream:
        data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    start = data.find(TEXTS)
    while start >= 0:
        _check_block_of_texts(data, start, n_size)
        start = data.find(TEXTS, start + 1)
    offset = node.id.get_offset()
    if offset is None:  # in chunks
        return
    item_bytes = node.id.get_storage_size() // max(node.size, 1)
    lengths = np.ndarray((node.size,), "<u4", data, offset, (item_bytes,))
    if (lengths > len(data)).any():
        raise ValueError("a text that is longer than the file")


def _check_block_of_texts(data: mmap.mmap, start: int, n_size: int) -> None:
    """Raise ValueError unless the entries of a block of texts end where the block does.

    An entry has its number in 2 bytes, 0 for the free space after the last, and its size, which
    has `n_size` bytes, after 8 bytes.
    """

    def number(offset: int, n_bytes: int) -> int:
        return int.from_bytes(data[offset : offset + n_bytes], "little")

    offset = start + 16
    end = start + number(start + 8, n_size)
    while offset + 16 <= end <= len(data):
        n_bytes = number(offset + 8, n_size)
        is_text = number(offset, 2) > 0
        if is_text:
            offset += 16 + -(-n_bytes // 8) * 8
        else:
            offset += n_bytes or end
    if not offset <= end <= len(data):
        raise ValueError("an entry among its texts does not have the right size")
