"""Make a store of features that another program wrote."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from obygaze_features.core.console import Progress, Quiet, count, few
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest import model
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Manifest
from obygaze_features.manifest.own_labels import first_command
from obygaze_features.store.card import Terms
from obygaze_features.store.formats import Pool
from obygaze_features.store.importing.arrays import (
    POOLINGS,
    StoredArray,
    features_of,
    stored_arrays_of,
)
from obygaze_features.store.importing.clips import check_some_known, matched_clips
from obygaze_features.store.importing.reader import Reader, open_features
from obygaze_features.store.importing.rows import ImportedRows
from obygaze_features.store.layout import Array, has_vector
from obygaze_features.store.making import new_store, write_store
from obygaze_features.store.recipe import ORIGIN, STATED, Recipe
from obygaze_features.store.records import Origin
from obygaze_features.store.rows import FAILED

ONLY_THESE_FILES = (
    "a model of this store can score no other store: for that, import it with --backbone NAME, and"
    " all others that were made in the same way with the same NAME"
)
SHOWN_REASONS = 5


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
        clips_of_reason: dict[str, list[str]] = {}
        for clip, reason in self.failed.items():
            clips_of_reason.setdefault(reason, []).append(clip)
        by_number = sorted(clips_of_reason.items(), key=lambda item: -len(item[1]))
        for reason, clips in by_number[:SHOWN_REASONS]:
            notes.append(f"  {count(len(clips), 'clip')}, {reason}: {few(clips, 3)}")
        n_more = len(by_number) - SHOWN_REASONS
        if n_more > 0:
            notes.append(f"  {count(n_more, 'further reason')}")
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
        obygaze store import films.h5 --array clip='{film}/{id}' -o by-film
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
    reader = open_features(Path(source), arrays, id_key=id_key)
    try:
        is_of_tokens = features_of(reader) == ["tokens"]
        if pool is None and is_of_tokens and not keep_frames:
            # The released tokens have what experiments read beside them.
            pool = "max"
            keep_frames = True
        clips = matched_clips(reader, manifest)
        check_some_known(reader, clips, manifest)
        stored = stored_arrays_of(
            reader, clips, arrays or (), pool=pool, keep_frames=keep_frames
        )
        imported = ImportedRows(reader, clips, stored, progress or Quiet())
        written = write_store(
            target,
            imported,
            arrays=imported.arrays,
            recipe=_recipe_of(reader, backbone, pool, stored),
            manifest=clips.manifest,
            origins=[Origin(Path(source).name, str(reader.origin["sha256"]))],
            terms=Terms(licence, citation),
        )
    finally:
        reader.close()
    remarks = [*reader.notes, *_left_out(reader, stored), *clips.notes]
    if not backbone:
        remarks.append(ONLY_THESE_FILES)
    rows = imported.columns()
    failed = {rows.clip_ids[n]: rows.reasons[n] for n in sorted(imported.problems)}
    return Imported(
        path=written.path,
        seal=written.seal,
        n_clips=len(rows),
        arrays={array.name: array.shape for array in imported.arrays},
        failed=failed,
        not_in_manifest=clips.not_in_manifest,
        remarks=remarks,
        next_command=_next_command(os.fspath(path), imported.arrays, manifest),
        warnings=[*clips.warnings, *imported.warnings],
    )


def _next_command(
    store: str, arrays: Sequence[Array], manifest: model.Manifest | None
) -> str:
    """Return the command that comes next: an experiment where arrays and labels allow one."""
    if manifest is None or not has_vector(arrays):
        return f"obygaze store info {shell_word(store)}"
    return first_command(manifest, manifest.name, [store])


def _recipe_of(
    reader: Reader,
    backbone: str,
    pool: Pool | None,
    stored_arrays: Sequence[StoredArray],
) -> Recipe:
    """Return the recipe of imported features.

    Without a backbone, nobody says how they were made: the files are a part of the recipe, so that
    no other file has it.
    """
    facts: dict[str, Any] = {}
    source = STATED
    if backbone:
        facts["backbone"] = backbone
    else:
        facts[ORIGIN] = dict(reader.origin)
        source = str(reader.origin["format"])
    # Of one vector a clip, nothing else was made.
    pooled = [
        stored
        for stored in stored_arrays
        if stored.pooling and len(stored.file_shape.sizes) > 1
    ]
    if pool is not None and pooled:
        has_mask = any(stored.mask for stored in pooled)
        vectors = "the real frames" if has_mask else "all tokens"
        facts["pooling"] = f"{POOLINGS[pool]} over {vectors}, by the importer"
    return Recipe.unknown(source, facts)


def _left_out(reader: Reader, stored_arrays: Sequence[StoredArray]) -> list[str]:
    """Return sentences on what is not in the new store."""
    notes = []
    stored_names = {stored.source for stored in stored_arrays}
    stored_names |= {stored.mask for stored in stored_arrays}
    for name in reader.columns:
        if name not in stored_names:
            notes.append(f"{name} was left out: it belongs to no array that is stored")
    return notes
