"""Import features from a source into a new, sealed store."""

import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from obygaze_features.core.console import Progress, Quiet, count, few
from obygaze_features.core.errors import (
    EXIT_SOME_FAILED,
    AlreadyThere,
    FixInput,
    FixUsage,
)
from obygaze_features.core.files import csv_bytes, write_atomic
from obygaze_features.core.options import Bar, Option
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Manifest, ascii_id, clips_sha256
from obygaze_features.store.format.limits import check_disk, check_memory
from obygaze_features.store.format.recipe import ORIGIN, Recipe
from obygaze_features.store.format.records import Terms
from obygaze_features.store.format.schema import OK, ArraySpec, RowStatus
from obygaze_features.store.interchange import WITH_ID_KEY, Format, open_features
from obygaze_features.store.interchange.source import (
    Array,
    BadRow,
    FeatureSource,
    Shape,
    checked_shape,
    film_of,
    name_of,
)
from obygaze_features.store.write.create import create_store
from obygaze_features.store.write.edit import ManifestClips, natural_order
from obygaze_features.store.write.licence import require_terms, warn_of_unknown_licence
from obygaze_features.store.write.writer import StoreWriter

Pool = Literal["none", "also", "only"]
Dtype = Literal["float16", "float32", "float64"]
POOLED = "pooled"
SHOWN_REASONS = 5
MISSING = ".missing.csv"  # after the name of the store
MISSING_COLUMNS = ("clip_id", "reason")
CONTENT = "What is in the files"
STORAGE = "How they are stored"
FACTS = "Facts to keep"
# What an import writes into the recipe beside the facts that are given.
OWN_FACTS = frozenset((ORIGIN, "backbone", "pooling"))
NO_FEATURES = RowStatus.failed(
    "import", "NotFound", "missing in the files that were imported"
)


@dataclass(frozen=True)
class ImportSettings:
    """The facts to keep with imported features, and how the features are stored.

    `backbone` and `facts` are kept in the recipe. `pool` keeps the maximum over all vectors of a
    clip: "also" as a further array, "only" in place of them.
    """

    backbone: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    licence: str = ""
    citation: str = ""
    pool: Pool = "none"
    dtype: str | None = None


@dataclass(frozen=True)
class ImportedStore:
    """The result of an import; `missing_file` lists the clips without features, if any."""

    path: Path
    n_clips: int
    n_ok: int
    arrays: Mapping[str, tuple[int, ...]]
    failed: Mapping[str, str]
    not_in_manifest: Sequence[str]
    warnings: Sequence[str]
    missing_file: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """Return all that is known of the import."""
        file = None if self.missing_file is None else str(self.missing_file)
        return {**asdict(self), "path": str(self.path), "missing_file": file}

    def __str__(self) -> str:
        shapes = [f"{name} {list(shape)}" for name, shape in self.arrays.items()]
        n_clips = f"{self.n_ok} of {self.n_clips} clips"
        return f"{self.path}: {n_clips}, {', '.join(shapes)}, sealed"

    @property
    def notes(self) -> list[str]:
        """How many clips have no features and why, and how many are not in the manifest."""
        notes = []
        if self.failed:
            file = (
                f"; all are listed in {self.missing_file}" if self.missing_file else ""
            )
            notes.append(f"{count(len(self.failed), 'clip')} without features{file}")
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
            n_clips = len(self.not_in_manifest)
            notes.append(f"{n_clips} clips of the files are not in the manifest")
        return notes

    @property
    def exit_code(self) -> int:
        """The exit code of the command, which says whether clips have no features."""
        return EXIT_SOME_FAILED if self.failed else 0


def import_features(
    format: Format,
    sources: Annotated[
        str | Path | Sequence[str | Path], Option(exists="path", is_repeated=True)
    ],
    path: Annotated[str | os.PathLike[str], Option("-o --output", metavar="NAME")],
    *,
    arrays: Annotated[
        Mapping[str, str] | None, Option("--array", metavar="NAME=KEY", group=CONTENT)
    ] = None,
    id_key: Annotated[str | None, Option(group=CONTENT)] = None,
    manifest: Annotated[
        str | os.PathLike[str] | Manifest | None, Option(group=CONTENT)
    ] = None,
    pool: Annotated[Pool | None, Option(group=STORAGE)] = None,
    dtype: Annotated[Dtype | None, Option(group=STORAGE)] = None,
    backbone: Annotated[str, Option(group=FACTS)] = "",
    facts: Annotated[
        Mapping[str, str] | None,
        Option("--fact", metavar="KEY=VALUE", group=FACTS),
    ] = None,
    licence: Annotated[str, Option(group=FACTS)] = "",
    citation: Annotated[str, Option(group=FACTS)] = "",
    progress: Annotated[Progress | None, Bar("import")] = None,
    workspace: str | os.PathLike[str] | None = None,
) -> ImportedStore:
    """Make a store from features in another format.

    The recipe of the new store is marked unknown and has only the facts that you give. Several
    files or folders of one format become one store.

    pth: a folder FEATURES/<film>/<video>.pth, as the released code has it. A tensor is [1, D], or
    [1, tokens, D]. With --array NAME=KEY the files are dictionaries of tensors. Files that could
    run code are rejected.

    hdf5: a file with a dataset a clip, or with one array and ids; or a folder with a file a clip.
    The path in --array NAME=PATH gives the layout: '{id}' (found without it) or '{id}/features'
    for a dataset a clip, 'features' with --id-key for one array of all.

    npz: a file with ids, and arrays with a row for each. The only array with one vector a clip is
    the array clip if its name says nothing, such as x or features.

    npy: a folder. Each file is a clip, in one folder, in one for each film, or in one for each
    --array NAME=FOLDER.

    parquet: a file with a row a clip, or a folder of such files: ids, and columns of lists of
    numbers that have one size.

    Args:
        format: The format of the files.
        sources: The files or folders.
        path: The new store: a name or a folder.
        arrays: Store the array, dataset path or folder KEY under NAME.
        id_key: npz, hdf5, parquet: the array or column of clip ids. [default: clip_id; in npz and
            hdf5 also clip_ids, ids, id, names, video_names or keys]
        manifest: A row for each clip of this manifest.
        pool: Keep the maximum over all vectors of a clip: as a further array 'pooled', or in place
            of them. [default: also, for tokens; else none]
        dtype: The type of numbers. [default: float32; several float16 vectors stay float16]
        backbone: The model that made them.
        facts: A fact to keep with the features.
        licence: The licence of the features. That of the manifest is of its labels, and not taken.
        citation: What to cite for them. [default: the manifest's]
        progress: Counts clips.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store import npz train.npz val.npz test.npz -o imported
        obygaze store import npz xclip.npz --id-key names --array clip=X --backbone x-clip -o xclip
        obygaze store import pth FEATURES --manifest obygaze12 --pool also -o xclip
        obygaze store import hdf5 CLIP_L14_frames_features_5fps.h5 --pool only -o mad
        obygaze store import hdf5 sub_activitynet.hdf5 --array c3d='v_{id}/c3d_features' -o c3d
        obygaze store import hdf5 all.h5 --id-key names --array clip=features -o all
        obygaze store import parquet xclip --manifest obygaze12 -o xclip
        obygaze store import npy features/ --array clip=xclip --array frames=xclip_frames -o mine
    """
    target = Workspace.of(workspace).new_store(path)
    warn_of_unknown_licence(licence)
    source = open_features(format, sources, arrays, id_key=id_key)
    try:
        if pool is None:
            pool = "also" if list(source.names) == ["tokens"] else "none"
        clips = None
        aliases: Mapping[str, str] = {}
        if manifest is not None:
            read = read_manifest(manifest, workspace=workspace)
            clips = _clips_of_manifest(read)
            aliases = _aliases(read)
            # A store that is there keeps what it was given.
            if not citation and not target.exists():
                citation = read.header.citation
        else:
            source, aliases = _with_ids(source)
        settings = ImportSettings(
            backbone=backbone,
            facts=facts or {},
            licence=licence,
            citation=citation,
            pool=pool,
            dtype=dtype,
        )
        return import_store(
            source,
            target,
            manifest=clips,
            aliases=aliases,
            settings=settings,
            progress=progress,
        )
    finally:
        source.close()


def _with_ids(source: FeatureSource) -> tuple[FeatureSource, dict[str, str]]:
    """Return a source whose films have ids, and the ids of its clips by their names.

    Ids are those that a manifest of the same table has, so that the store matches it.
    """
    id_of_clip = {clip: ascii_id(clip) for clip in source.clip_ids}
    films = [film if film is None else ascii_id(film) for film in source.movie_ids]
    changes = [
        f"{clip!r} is now {new_id!r}"
        for clip, new_id in id_of_clip.items()
        if clip != new_id
    ]
    if changes:
        source.warnings.append(f"clips have ids as in a manifest: {few(changes, 3)}")
    return replace(source, movie_ids=films), id_of_clip


def _clips_of_manifest(manifest: Manifest) -> ManifestClips:
    """Return the clips of a manifest in its order."""
    clip_ids = list(manifest.clip_ids)
    movie_ids = [clip.movie_id for clip in manifest]
    sha256 = clips_sha256(zip(clip_ids, movie_ids, strict=True))
    return ManifestClips(manifest.name, sha256, clip_ids, movie_ids)


def _aliases(manifest: Manifest) -> dict[str, str]:
    """Return clip ids by other names of one clip only.

    These are the name of its video, and the id that it had before the manifest was made of it.
    """
    clips_of: dict[str, set[str]] = {}
    for clip in manifest:
        for name in (Path(clip.video).stem, clip.extra.get("given_clip_id", "")):
            if name and name not in manifest.by_id:
                clips_of.setdefault(name, set()).add(clip.clip_id)
    return {
        name: next(iter(clips)) for name, clips in clips_of.items() if len(clips) == 1
    }


def import_store(
    source: FeatureSource,
    path: Path | str,
    *,
    manifest: ManifestClips | None = None,
    aliases: Mapping[str, str] | None = None,
    settings: ImportSettings | None = None,
    progress: Progress | None = None,
) -> ImportedStore:
    """Write a source into a new store and seal it; the same call again resumes.

    Args:
        source: what `open_features` returns.
        path: the new store.
        manifest: the clips of a manifest; the store has a row for each, and clips that are not in
            the source are failed rows. Without it the store has the clips of the source, in the
            order of films and scenes; a film is the part of the id before the last hyphen.
        aliases: for other names in the source, the ids of their clips.
        settings: facts to keep, licence, citation, pooling and data type.
        progress: counts clips.
    """
    settings = settings or ImportSettings()
    progress = progress or Quiet()
    _check_facts(settings.facts)
    ids = [(aliases or {}).get(clip, clip) for clip in source.clip_ids]
    _check_unique(ids, source)
    rows = manifest or clips_of(replace(source, clip_ids=ids))
    progress.expect(len(rows.clip_ids))
    index_of = {clip: index for index, clip in enumerate(ids)}
    indices = [index_of.get(clip) for clip in rows.clip_ids]
    _check_some_known(source, ids, indices, rows)
    path_of_missing = _missing_file(Path(path), are_missing=None in indices)
    job = _Job(source, settings, indices)
    check_disk(job.row_bytes * len(indices), Path(path))
    is_new = not Path(path).exists()
    create_store(
        path,
        recipe=_recipe_of(source, settings),
        manifest_name=rows.name,
        manifest_sha256=rows.sha256,
        clip_ids=rows.clip_ids,
        movie_ids=rows.movie_ids,
        arrays=job.specs,
        licence=settings.licence,
        citation=settings.citation,
    )
    # A store that was there before may have others.
    require_terms(path, Terms(settings.licence, settings.citation))
    try:
        failed = job.fill(StoreWriter(path), progress)
    except NoUsableRow as error:
        # Only a store of this call: one that was begun before may have clips.
        if is_new:
            shutil.rmtree(path)
        raise FixInput(error.message, where=name_of(source), hint=error.hint) from error
    in_store = set(rows.clip_ids)
    reasons = {rows.clip_ids[row]: str(status) for row, status in failed.items()}
    missing_file = _write_missing(path_of_missing, reasons)
    return ImportedStore(
        path=Path(path),
        n_clips=len(indices),
        n_ok=len(indices) - len(failed),
        arrays={spec.name: spec.tail_shape for spec in job.specs},
        failed=reasons,
        not_in_manifest=[clip for clip in ids if clip not in in_store],
        warnings=source.warnings,
        missing_file=missing_file,
    )


def _missing_file(store: Path, *, are_missing: bool) -> Path:
    """Return the file for the clips without features.

    A file of somebody else is an error where clips are missing, which would be listed there.
    """
    path = store.with_name(store.name + MISSING)
    if are_missing and path.exists() and not _is_list_of_missing(path):
        raise AlreadyThere(
            "this file is not a list of clips without features, which is written there",
            where=str(path),
            hint="another name for the file, or for the store: -o NAME",
        )
    return path


def _is_list_of_missing(path: Path) -> bool:
    return path.is_file() and path.read_bytes().startswith(
        csv_bytes(MISSING_COLUMNS, ())
    )


def _write_missing(path: Path, reasons: Mapping[str, str]) -> Path | None:
    """Write the list of clips without features; if there are none, remove that of an old store.

    A file of somebody else stays as it is.
    """
    is_free = not path.exists() or _is_list_of_missing(path)
    if reasons and is_free:
        write_atomic(path, csv_bytes(MISSING_COLUMNS, reasons.items()))
        return path
    if not reasons and _is_list_of_missing(path):
        path.unlink()
    return None


def _check_facts(facts: Mapping[str, str]) -> None:
    """Raise an error for a fact that the import records itself."""
    for name in facts.keys() & OWN_FACTS:
        hint = "another name for this fact"
        if name == "backbone":
            hint = "--backbone NAME"
        raise FixUsage(f"the fact {name!r} is recorded by the import itself", hint=hint)


def _check_unique(ids: Sequence[str], source: FeatureSource) -> None:
    """Raise an error for clips that are in the files more than once."""
    repeated = [clip for clip, n in Counter(ids).items() if n > 1]
    if repeated:
        raise FixInput(
            f"{count(len(repeated), 'clip id')} more than once in the files: {few(repeated, 3)}",
            where=name_of(source),
            hint=f"keep one row for each id{_other_ids(source)}",
            details=repeated[:20],
        )


def _other_ids(source: FeatureSource) -> str:
    """Return the part of a hint that names the option for other ids, if the format has one."""
    if source.origin["format"] in WITH_ID_KEY:
        return ", or name another array of ids with --id-key"
    return ""


def _check_some_known(
    source: FeatureSource,
    ids: Sequence[str],
    indices: Sequence[int | None],
    rows: ManifestClips,
) -> None:
    """Raise an error if the files have clips, and none of those of the new store."""
    if ids and all(index is None for index in indices):
        raise FixInput(
            f"the files have none of the clips of the manifest: their first clip id is {ids[0]!r}, "
            f"the manifest's is {next(iter(rows.clip_ids), '')!r}",
            where=rows.name,
            hint=f"use the same ids in both{_other_ids(source)}",
        )


def _recipe_of(source: FeatureSource, settings: ImportSettings) -> Recipe:
    """Return the recipe of imported features: what is not known, and the facts that are given."""
    facts: dict[str, Any] = {ORIGIN: dict(source.origin), **settings.facts}
    if settings.backbone:
        facts["backbone"] = settings.backbone
    if settings.pool != "none":
        facts["pooling"] = "maximum over all tokens, by the importer"
    return Recipe.unknown(str(source.origin["format"]), facts)


def clips_of(source: FeatureSource) -> ManifestClips:
    """Return the clips of a source in the order of rows, by film and then by scene."""
    pairs = sorted(
        zip(_films_of(source), source.clip_ids, strict=True),
        key=lambda pair: [*map(natural_order, pair), pair],
    )
    clips = [clip for _, clip in pairs]
    films = [film for film, _ in pairs]
    return ManifestClips(
        "imported", clips_sha256(zip(clips, films, strict=True)), clips, films
    )


def _films_of(source: FeatureSource) -> list[str]:
    """Return the film of each clip: what the files say, or by the ids if they say it of no clip.

    If they say it of some clips only, the others might get another name for the same film.
    """
    named = [film for film in source.movie_ids if film is not None]
    if not named:
        return [film_of(clip) for clip in source.clip_ids]
    if len(named) == len(source.clip_ids):
        return named
    pairs = zip(source.clip_ids, source.movie_ids, strict=True)
    without = [clip for clip, film in pairs if film is None]
    n_clips = count(len(source.clip_ids), "clip")
    verb = "has" if len(without) == 1 else "have"
    raise FixInput(
        f"{len(without)} of {n_clips} {verb} no film: {few(without, 3)}",
        where=name_of(source),
        hint="give each clip its movie_id (or a folder of its film), or add --manifest",
        details=without[:20],
    )


class NoUsableRow(FixInput):
    """Not one clip of the files can be stored, so that nothing is sealed."""


class _Job:
    """The arrays of the new store, and how each row is read from the source."""

    def __init__(
        self,
        source: FeatureSource,
        settings: ImportSettings,
        indices: Sequence[int | None],
    ) -> None:
        self.source = source
        self.settings = settings
        self.indices = indices
        self.first_problem = ""  # of the first clip that cannot be used
        self.shapes = {array: self._usual_shape(array) for array in source.names}
        self.specs = [
            ArraySpec(array, shape.sizes, dtype=shape.dtype)
            for array, shape in self.shapes.items()
        ]
        several = [
            array for array, shape in self.shapes.items() if len(shape.sizes) > 1
        ]
        self.pooled_from = several[0] if settings.pool == "also" and several else None
        if self.pooled_from is not None:
            if POOLED in self.shapes:
                raise FixInput(
                    f"an array {POOLED!r} exists already", hint="--pool none"
                )
            width = self.shapes[self.pooled_from].sizes[-1]
            self.specs.append(ArraySpec(POOLED, (width,)))
        self.row_bytes = sum(spec.row_bytes for spec in self.specs)
        check_memory(
            32 * self.row_bytes, "one block of clips", str(source.origin), "--pool only"
        )

    def _usual_shape(self, array: str) -> Shape:
        """Return the shape and type that most clips have in the new store."""
        n_of_shape: Counter[Shape] = Counter()
        first_problem = ""
        for index in self.indices:
            if index is None:
                continue
            try:
                shape = checked_shape(self.source.shape(array, index), array)
            except BadRow as error:  # reported again when the row is read
                first_problem = first_problem or f"; the first: {error}"
                continue
            n_of_shape[self._stored_shape(shape)] += 1
        if not n_of_shape:
            raise FixInput(
                f"no clip has a usable {array}{first_problem}",
                where=name_of(self.source),
                hint="--array NAME=KEY of another array",
            )
        usual, n_usual = n_of_shape.most_common(1)[0]
        if 2 * n_usual <= n_of_shape.total():
            raise FixInput(
                f"{array} has {len(n_of_shape)} shapes, and a store needs one for all clips",
                hint="--pool only keeps the maximum over all vectors of a clip",
                details=[
                    f"{n} clips of {shape.sizes} {shape.dtype}"
                    for shape, n in n_of_shape.most_common(20)
                ],
            )
        return usual

    def _stored_shape(self, shape: Shape) -> Shape:
        """Return the shape and type in which the store holds an array of the files."""
        sizes = shape.sizes
        if self.settings.pool == "only":
            sizes = sizes[-1:]
        if self.settings.dtype is not None:
            return Shape(sizes, self.settings.dtype)
        # One vector a clip is kept in float32 whatever it came in, as all stores have it.
        is_small = shape.dtype == "float16" and len(sizes) > 1
        return Shape(sizes, "float16" if is_small else "float32")

    def fill(self, writer: StoreWriter, progress: Progress) -> dict[int, RowStatus]:
        """Commit all blocks that are pending, and seal; return the rows that failed."""
        writer.clean_litter()
        pending = set(writer.pending_blocks())
        n_ok = 0
        for block in range(writer.plan.n_blocks):
            rows = range(*writer.plan.block_range(block))
            if block in pending:
                arrays, statuses = self._block(rows)
                writer.commit_block(block, arrays, statuses)
                n_ok += sum(status.is_ok for status in statuses)
            progress.advance(len(rows))
        if n_ok == 0 and len(pending) == writer.plan.n_blocks:
            raise NoUsableRow(
                f"no clip has usable features; the first: {self.first_problem}"
            )
        status_of_row = writer.seal().status_of_row
        return {
            row: status for row, status in status_of_row.items() if not status.is_ok
        }

    def _block(self, rows: range) -> tuple[dict[str, Array], list[RowStatus]]:
        """Return the arrays of a block, and the status of each of its rows."""
        arrays = {
            spec.name: np.zeros((len(rows), *spec.tail_shape), dtype=spec.dtype)
            for spec in self.specs
        }
        statuses = []
        for row_in_block, row in enumerate(rows):
            index = self.indices[row]
            if index is None:
                statuses.append(NO_FEATURES)
                continue
            try:
                values_of_clip = self._clip(index)
            except BadRow as error:
                self.first_problem = self.first_problem or str(error)
                kind = type(error.__cause__ or error).__name__
                statuses.append(RowStatus.failed("import", kind, str(error)))
                continue
            statuses.append(OK)
            for name, values in values_of_clip.items():
                arrays[name][row_in_block] = values
        return arrays, statuses

    def _clip(self, index: int) -> dict[str, Array]:
        """Return the values of a clip, by the array of the store."""
        values = {array: self._values(array, index) for array in self.shapes}
        if self.pooled_from is not None:
            vectors = values[self.pooled_from]
            vectors = vectors.reshape(-1, vectors.shape[-1])
            values[POOLED] = vectors.max(axis=0).astype(np.float32)
        return values

    def _values(self, array: str, index: int) -> Array:
        values = self.source.row(array, index)
        shape = self.shapes[array]
        checked_shape(Shape(values.shape, str(values.dtype)), array)
        if self.settings.pool == "only":
            values = values.reshape(-1, values.shape[-1]).max(axis=0)
        if values.shape != shape.sizes:
            raise BadRow(
                f"{array} has the shape {values.shape}, most clips have {shape.sizes}"
            )
        with np.errstate(over="ignore"):  # overflow is found in the next line
            stored = values.astype(shape.dtype)
        if not np.isfinite(stored).all():
            problem = f"{array} holds NaN or infinity as {shape.dtype}"
            if np.isfinite(values).all():
                problem = (
                    f"{array} has numbers too large for {shape.dtype} (--dtype float64 holds "
                    "larger ones)"
                )
            raise BadRow(problem)
        if values.any() and not stored.any():
            raise BadRow(
                f"{array} has numbers too small for {shape.dtype}: all become 0 (a larger --dtype "
                "holds smaller ones)"
            )
        return stored
