"""Make a store of features of another program: npz, HDF5, Zarr, a file for each clip, or arrays.

`open_features` opens files of one format, `write_features` takes arrays from memory. The other
steps are the same for both: the rows of clips, the stored arrays, pooling, masks, and the check for
invalid numbers.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from obygaze_features.core.console import Progress, Quiet, count, few
from obygaze_features.core.errors import Corrupt, FixInput, FixUsage
from obygaze_features.core.files import (
    FORMATS_OF_FEATURES,
    find_files,
    name_in_errors,
    require_file,
    sha256_file,
)
from obygaze_features.core.refusal import refuse_if
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Manifest
from obygaze_features.manifest.own_labels import first_command
from obygaze_features.store.atomic_files import make_hidden, remove_tree
from obygaze_features.store.card import Terms
from obygaze_features.store.importing.arrays import open_npz, open_tree
from obygaze_features.store.importing.clips import match_clips
from obygaze_features.store.importing.files import (
    FILM_KEY,
    ID_KEY,
    SPAN_KEYS,
    FeatureFiles,
    Values,
    features_of_rows,
)
from obygaze_features.store.importing.hdf5 import open_hdf5
from obygaze_features.store.importing.staging import POOLINGS, ImportedRows
from obygaze_features.store.importing.zarr import files_of_group, is_zarr, open_zarr
from obygaze_features.store.layout import has_vector
from obygaze_features.store.making import new_store, write_store
from obygaze_features.store.recipe import ORIGIN, STATED, Recipe
from obygaze_features.store.records import Origin
from obygaze_features.store.rows import FAILED

# The formats of a folder of files, by their endings.
FORMATS_OF_FOLDERS = {
    ".npy": "npy",
    ".pth": "pth",
    ".pt": "pth",
}
ONLY_THESE_FILES = (
    "a model of this store cannot score other stores; to allow this, import all features that were"
    " made in the same way with the same --backbone NAME"
)
SHOWN_CLIPS = 5
PARQUET = ".parquet"
# The name of the origin of features that were no file.
MEMORY = "memory"


@dataclass(frozen=True)
class Imported:
    """The result of an import: the new store, and what was not imported."""

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
        """The number of clips with features."""
        return self.n_clips - len(self.failed)

    def to_json(self) -> dict[str, Any]:
        """Return the facts as JSON."""
        return {**vars(self), "path": str(self.path), "n_ok": self.n_ok}

    def __str__(self) -> str:
        shapes = []
        for name, shape in self.arrays.items():
            # One number for each clip, such as n_words, has no shape.
            shapes.append(f"{name} {list(shape)}" if shape else name)
        return f"{self.path}: {self.n_ok} of {self.n_clips} clips, {', '.join(shapes)}"

    @property
    def exit_code(self) -> int:
        """The exit code of the command; 0 only if all clips have features."""
        return FAILED.exit_code if self.failed else 0

    @property
    def notes(self) -> list[str]:
        """What was not imported, why clips have no features, and the next command."""
        notes = list(self.remarks)
        if self.failed:
            notes.append(f"{count(len(self.failed), 'clip')} without features")
            shown = list(self.failed.items())[:SHOWN_CLIPS]
            notes += [f"  {clip}: {reason}" for clip, reason in shown]
        if self.not_in_manifest:
            shown_ids = few(self.not_in_manifest, 3)
            n_others = count(len(self.not_in_manifest), "clip")
            notes.append(
                f"{n_others} of the files missing in the manifest: {shown_ids}"
            )
        return [*notes, f"next: {self.next_command}"]


def import_features(
    source: str | Path,
    path: PathLike,
    *,
    arrays: Mapping[str, str] | None = None,
    id_key: str | None = None,
    fill_missing: bool = False,
    manifest: PathLike | Manifest | None = None,
    pool: Literal["mean", "max", "last"] | None = None,
    keep_frames: bool = False,
    backbone: str = "",
    layer: str = "",
    licence: str = "",
    citation: str | None = None,
    progress: Progress | None = None,
    workspace: PathLike | None = None,
) -> Imported:
    """Make a store from features in another format.

    The source is a file (.npz, .h5, .hdf5), a group of Zarr, or a folder of .npy or .pth files;
    docs/guide/stores.md describes each. Imports with the same `backbone`, `layer` and `pool` have
    the same recipe: they can be merged, and a model of one reads the other. With a manifest, clips
    are found by their ids, and films or times that differ from those of the source are refused.
    Clips without usable features are failed rows.

    Args:
        source: The file or folder.
        path: The new store: a name or a folder.
        arrays: The array, column or dataset path of each array of the store, by its name.
        id_key: The array or column of clip ids; by default clip_id.
        fill_missing: Read chunks of Zarr that are not there as the fill value of their array.
        manifest: A row for each clip of this manifest.
        pool: Keep one vector of each clip: mean, maximum or last one of all that it has. [default:
            max for tokens]
        keep_frames: Keep the frames or tokens beside what `pool` makes of them.
        backbone: The model that made the features.
        layer: The layer or output of this model that the features are. [default: the keys of the
            arrays in the file]
        licence: The licence of the features; that of the manifest is of its labels.
        citation: What to cite for them; by default the manifest's.
        progress: Counts clips, twice: when they are checked and when they are written.
        workspace: The workspace, if it is not the current one.
    """
    source = Path(source)
    if isinstance(manifest, Manifest):
        name_of_manifest = manifest.name
    else:
        name_of_manifest = os.fspath(manifest or "")
    options = {
        "manifest": name_of_manifest,
        "pool": pool,
        "keep_frames": keep_frames,
        "backbone": backbone,
        "licence": licence,
        "citation": citation,
    }
    _refuse_parquet(source, path, arrays, id_key, options)
    target = _new_folder(path, workspace)
    if manifest is not None:
        manifest = read_manifest(manifest, workspace=workspace)
    with name_in_errors(target):
        kind, parts = feature_paths(source)
        files = open_features(
            source,
            arrays,
            id_key=id_key,
            folder=target.parent,
            clip_ids=None if manifest is None else manifest.clip_ids,
            fill_missing=fill_missing,
        )
        parts_of_folder = parts if source.is_dir() else None
        origin = describe_origin(kind, source, parts_of_folder, files.keys)
    return _make_store(
        path,
        target,
        files,
        origin,
        source.name,
        are_named=bool(arrays),
        manifest=manifest,
        pool=pool,
        keep_frames=keep_frames,
        backbone=backbone,
        layer=layer,
        licence=licence,
        citation=citation,
        progress=progress,
        workspace=workspace,
    )


def write_features(
    path: PathLike,
    ids: Sequence[Any] | Values,
    arrays: Mapping[str, Any],
    *,
    manifest: PathLike | Manifest | None = None,
    pool: Literal["mean", "max", "last"] | None = None,
    keep_frames: bool = False,
    backbone: str = "",
    licence: str = "",
    citation: str | None = None,
    progress: Progress | None = None,
    workspace: PathLike | None = None,
) -> Imported:
    """Make a store from features in memory.

    What is refused, and which clips become failed rows, is the same as for a file that
    `og.store.import_` reads.

    Args:
        path: The new store: a name or a folder.
        ids: The id of each clip.
        arrays: The arrays of the store by their names, each with a row for each id. Facts of the
            clips may be among them: `movie_id`, `start_s`, `end_s`, `start_frame`, `end_frame` and
            `framerate`.
        manifest: A row for each clip of this manifest. Films or times that differ from those of
            `arrays` are refused.
        pool: Keep one vector of each clip: mean, maximum or last one of all that it has. [default:
            max for tokens]
        keep_frames: Keep the frames or tokens beside what `pool` makes of them.
        backbone: The model that made the features.
        licence: The licence of the features; that of the manifest is of its labels.
        citation: What to cite for them; by default the manifest's.
        progress: Counts clips, twice: when they are checked and when they are written.
        workspace: The workspace, if it is not the current one.

    >>> import tempfile
    >>> import numpy as np
    >>> here = tempfile.mkdtemp()
    >>> X = np.random.default_rng(0).normal(size=(2, 3))
    >>> made = write_features("mine", ["alba-00", "alba-01"], {"clip": X}, workspace=here)
    >>> made.n_ok, made.arrays
    (2, {'clip': (3,)})
    """
    target = _new_folder(path, workspace)
    files = _features_in_memory(ids, arrays)
    return _make_store(
        path,
        target,
        files,
        _describe_memory(files),
        MEMORY,
        are_named=True,
        manifest=manifest,
        pool=pool,
        keep_frames=keep_frames,
        backbone=backbone,
        layer="",
        licence=licence,
        citation=citation,
        progress=progress,
        workspace=workspace,
    )


def _new_folder(path: PathLike, workspace: PathLike | None) -> Path:
    """Return the folder of the new store, and make the folder above it."""
    target = new_store(Workspace.of(workspace), path)
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def _make_store(
    path: PathLike,
    target: Path,
    files: FeatureFiles,
    origin: Mapping[str, Any],
    place: str,
    *,
    are_named: bool,
    manifest: PathLike | Manifest | None,
    pool: Literal["mean", "max", "last"] | None,
    keep_frames: bool,
    backbone: str,
    layer: str,
    licence: str,
    citation: str | None,
    progress: Progress | None,
    workspace: PathLike | None,
) -> Imported:
    """Write a store of the features of clips.

    Args:
        path: The new store, as the user named it.
        target: Its folder.
        files: The features.
        origin: The record of their files or arrays.
        place: The name of the origin.
        are_named: Whether the user named the arrays.
        manifest: As of `import_features`, and all others.
    """
    if pool not in (None, *POOLINGS):
        raise FixUsage(
            f"unknown pool {pool!r}", hint=f"use one of {', '.join(POOLINGS)}"
        )
    if manifest is not None:
        manifest = read_manifest(manifest, workspace=workspace)
    if citation is None:
        citation = "" if manifest is None else manifest.header.citation
    if pool is None and list(files.arrays) == ["tokens"] and not keep_frames:
        # Experiments read one vector per clip: the maximum of the tokens is stored with them.
        pool = "max"
        keep_frames = True
    staged = make_hidden(target)
    try:
        with name_in_errors(target):
            clips = match_clips(files, manifest)
            rows = ImportedRows(
                files,
                clips,
                staged,
                progress or Quiet(),
                pool=pool,
                keep_frames=keep_frames,
                are_named=are_named,
            )
        # Without a backbone, it is unknown how the features were made. The files become part of the
        # recipe, so that only an import of the same files has the same recipe.
        backbone = backbone.strip()
        facts: dict[str, Any] = {"backbone": backbone} if backbone else {ORIGIN: origin}
        keys = files.keys or {}
        renamed = {name: key for name, key in keys.items() if name != key}
        if layer:
            facts["layer"] = layer.strip()
        elif backbone and renamed:
            facts["arrays"] = renamed
        if rows.pooling:
            facts["pooling"] = rows.pooling
        source = STATED if backbone else str(origin["format"])
        written = write_store(
            target,
            rows,
            arrays=rows.arrays,
            recipe=Recipe.unknown(source, facts),
            manifest=clips.manifest,
            origins=[Origin(place, str(origin["sha256"]))],
            terms=Terms(licence, citation),
        )
    finally:
        remove_tree(staged)
    remarks = [*files.notes, *clips.notes]
    for array in rows.arrays:
        if array.name in rows.narrowed:
            remarks.append(f"{array.name}: {rows.narrowed[array.name]}")
    if rows.left_out:
        remarks.append(
            f"not imported, because no array needs them: {', '.join(rows.left_out)}"
        )
    if not backbone:
        remarks.append(ONLY_THESE_FILES)
    ids = clips.rows.clip_ids
    next_command = f"obygaze store info {shell_word(os.fspath(path))}"
    if manifest is not None and has_vector(rows.arrays):
        next_command = first_command(manifest, manifest.name, [os.fspath(path)])
    return Imported(
        path=written.path,
        seal=written.seal,
        n_clips=len(ids),
        arrays={array.name: array.shape for array in rows.arrays},
        failed={ids[n]: text for n, text in sorted(rows.problems.items())},
        not_in_manifest=clips.not_in_manifest,
        remarks=remarks,
        next_command=next_command,
    )


def _refuse_parquet(
    source: Path,
    path: PathLike,
    arrays: Mapping[str, str] | None,
    id_key: str | None,
    options: Mapping[str, Any],
) -> None:
    """Raise an error for Parquet, with the lines of Python that write the store."""
    files = [source]
    if source.is_dir():
        files = find_files(source, (PARQUET,))
    if not any(file.suffix.lower() == PARQUET for file in files):
        return
    columns = []
    for name, key in (arrays or {"clip": "clip"}).items():
        columns.append(f"{name!r}: np.stack(table[{key!r}])")
    given = ""
    for name, value in options.items():
        if value:
            given += f", {name}={value!r}"
    facts = (FILM_KEY, *SPAN_KEYS)
    ids = f"table[{id_key or ID_KEY!r}]"
    raise FixInput(
        "Parquet is not read as features",
        where=str(source),
        hint="run these lines in Python, with the names of your columns",
        details=[
            "import numpy as np",
            "import pandas",
            "import obygaze as og",
            f"table = pandas.read_parquet({str(source)!r})",
            f"arrays = {{{', '.join(columns)}}}",
            f"arrays |= {{name: table[name] for name in {facts} if name in table}}",
            f"og.store.write({os.fspath(path)!r}, {ids}, arrays{given})",
        ],
    )


def _features_in_memory(
    ids: Sequence[Any] | Values, arrays: Mapping[str, Any]
) -> FeatureFiles:
    """Return arrays in memory as the features of clips, with the facts that are among them."""
    if ID_KEY in arrays:
        raise FixUsage(f"expected the ids as `ids`, got an array {ID_KEY!r}")
    columns = {ID_KEY: _as_array(ids, ID_KEY)}
    asked = {}
    for name, values in arrays.items():
        columns[name] = _as_array(values, name)
        if name in (FILM_KEY, *SPAN_KEYS):
            continue
        asked[name] = name
        if columns[name].dtype.kind not in "fiub":
            raise FixInput(
                f"{name}: expected an array of numbers, got {columns[name].dtype}",
                hint="make one array of equal rows with np.stack",
            )
    return features_of_rows("the arrays", columns, asked, None, is_export=False)


def _as_array(values: Any, name: str) -> Values:
    """Return values as an array of NumPy."""
    if np.ma.is_masked(values):
        raise FixInput(
            f"{name}: expected values without a mask", hint="use values.filled(np.nan)"
        )
    try:
        return np.asarray(values)
    except (RuntimeError, TypeError, ValueError) as error:
        raise FixInput(f"{name}: expected an array, got {error}") from error


def _describe_memory(files: FeatureFiles) -> dict[str, Any]:
    """Return the record of features in memory, with the SHA-256 of everything that was given."""
    digest = hashlib.sha256(json.dumps([files.names, files.films]).encode())
    for key, values in sorted({**files.spans, **files.arrays}.items()):
        digest.update(f"{key}\0{values.dtype.str}\0{values.shape}\n".encode())
        digest.update(np.ascontiguousarray(values).tobytes())
    keys = dict(files.keys or {})
    return {"format": MEMORY, "sha256": digest.hexdigest(), "arrays": keys}


def open_features(
    source: Path,
    arrays: Mapping[str, str] | None = None,
    *,
    id_key: str | None = None,
    folder: Path | None = None,
    clip_ids: Sequence[str] | None = None,
    fill_missing: bool = False,
) -> FeatureFiles:
    """Open features that another program wrote.

    The parameters are those of `import_features`; temporary files are made in `folder`, and
    `clip_ids` are the clips of its manifest.
    """
    kind, files = feature_paths(source)
    arrays = arrays or {}
    if fill_missing and kind != "zarr":
        raise FixUsage(f"--fill-missing does not apply to {kind}")
    if kind == "npz":
        return open_npz(source, arrays, id_key, folder)
    if kind == "hdf5":
        return open_hdf5(source, arrays, id_key)
    if kind == "zarr":
        return open_zarr(
            source,
            files,
            arrays,
            id_key,
            clip_ids=clip_ids,
            fill_missing=fill_missing,
        )
    if arrays or id_key is not None:
        raise FixUsage(f"--array and --id-key do not apply to {kind}")
    return open_tree(source, files, kind)


def feature_paths(source: Path) -> tuple[str, list[Path]]:
    """Return the format of features, and the list of their files.

    The only file is `source`; if `source` is a folder, the files are all files below it that
    are not hidden, and of a group of Zarr also those that are.
    """
    if is_zarr(source):
        return "zarr", files_of_group(source)
    formats = {**FORMATS_OF_FEATURES}
    del formats[PARQUET]
    files = [source]
    if source.is_dir():
        formats = FORMATS_OF_FOLDERS
        # A file of another format must not be left out without a word.
        files = find_files(source, FORMATS_OF_FEATURES | FORMATS_OF_FOLDERS)
    else:
        require_file(source)
    links = [path for path in files if path.is_symlink() and path != source]
    refuse_if(
        links,
        Corrupt,
        "expected a folder without symbolic links, got",
        where=str(source),
    )
    kinds = {formats.get(path.suffix.lower()) for path in files}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is None:
        raise FixUsage(
            f"expected files with one of the endings {', '.join(formats)}",
            where=str(source),
            hint="write x.npz with np.savez('x.npz', clip_id=ids, clip=array) in Python; for"
            f" labels, run obygaze manifest import {shell_word(source)} -o NAME",
        )
    return kind, files


def describe_origin(
    kind: str,
    path: Path,
    files: Sequence[Path] | None = None,
    keys: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the record of an imported file or folder, with its SHA-256.

    The SHA-256 of a folder is computed from the names and the contents of its files.
    """
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
