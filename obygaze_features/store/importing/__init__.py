"""Make a store of features that another program wrote: npz, HDF5, Parquet, or a file for each clip.

`open_features` opens files of one format. The other steps are the same for all formats: the rows of
clips, the stored arrays, pooling, masks, and the check for invalid numbers.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from obygaze_features.core.console import Progress, Quiet, count, few
from obygaze_features.core.errors import Corrupt, FixUsage
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
from obygaze_features.store.card import Terms
from obygaze_features.store.importing.arrays import open_npz, open_tree
from obygaze_features.store.importing.clips import match_clips
from obygaze_features.store.importing.files import FeatureFiles
from obygaze_features.store.importing.hdf5 import open_hdf5
from obygaze_features.store.importing.parquet import open_parquet
from obygaze_features.store.importing.staging import POOLINGS, ImportedRows
from obygaze_features.store.layout import has_vector
from obygaze_features.store.making import new_store, write_store
from obygaze_features.store.recipe import ORIGIN, STATED, Recipe
from obygaze_features.store.records import Origin
from obygaze_features.store.rows import FAILED

# The formats of a folder of files, by their endings.
FORMATS_OF_FOLDERS = {
    ".parquet": "parquet",
    ".npy": "npy",
    ".pth": "pth",
    ".pt": "pth",
}
ONLY_THESE_FILES = (
    "a model of this store cannot score other stores; to allow this, import all features that were"
    " made in the same way with the same --backbone NAME"
)
SHOWN_CLIPS = 5


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
        raise FixUsage(
            f"unknown pool {pool!r}", hint=f"use one of {', '.join(POOLINGS)}"
        )
    if manifest is not None:
        manifest = read_manifest(manifest, workspace=workspace)
    if citation is None:
        citation = "" if manifest is None else manifest.header.citation
    source = Path(source)
    target.parent.mkdir(parents=True, exist_ok=True)
    with name_in_errors(target):
        kind, parts = feature_paths(source)
        files = open_features(source, arrays, id_key=id_key, folder=target.parent)
        if pool is None and list(files.arrays) == ["tokens"] and not keep_frames:
            # Experiments read one vector per clip: the maximum of the tokens is stored with them.
            pool = "max"
            keep_frames = True
        parts_of_folder = parts if source.is_dir() else None
        origin = describe_origin(kind, source, parts_of_folder, files.keys)
        clips = match_clips(files, manifest)
        rows = ImportedRows(
            files,
            clips,
            target.parent,
            progress or Quiet(),
            pool=pool,
            keep_frames=keep_frames,
            are_named=bool(arrays),
        )
    # Without a backbone, it is unknown how the features were made. The files become part of the
    # recipe, so that only an import of the same files has the same recipe.
    backbone = backbone.strip()
    facts: dict[str, Any] = {"backbone": backbone} if backbone else {ORIGIN: origin}
    if rows.pooling:
        facts["pooling"] = rows.pooling
    written = write_store(
        target,
        rows,
        arrays=rows.arrays,
        recipe=Recipe.unknown(STATED if backbone else str(origin["format"]), facts),
        manifest=clips.manifest,
        origins=[Origin(source.name, str(origin["sha256"]))],
        terms=Terms(licence, citation),
    )
    remarks = [*files.notes, *clips.notes]
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


def open_features(
    source: Path,
    arrays: Mapping[str, str] | None = None,
    *,
    id_key: str | None = None,
    folder: Path | None = None,
) -> FeatureFiles:
    """Open features that another program wrote.

    The parameters are those of `import_features`; temporary files are made in `folder`.
    """
    kind, files = feature_paths(source)
    arrays = arrays or {}
    if kind == "npz":
        return open_npz(source, arrays, id_key, folder)
    if kind == "hdf5":
        return open_hdf5(source, arrays, id_key)
    if kind == "parquet":
        return open_parquet(source, files, arrays, id_key)
    if arrays or id_key is not None:
        raise FixUsage(f"--array and --id-key do not apply to {kind}")
    return open_tree(source, files, kind)


def feature_paths(source: Path) -> tuple[str, list[Path]]:
    """Return the format of features, and the list of their files.

    The only file is `source`; if `source` is a folder, the files are all files below it that
    are not hidden.
    """
    formats = FORMATS_OF_FEATURES
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
