"""Make a store of features that another program wrote."""

import hashlib
import math
import os
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import Progress, Quiet, count, few
from obygaze_features.core.errors import EXIT_SOME_FAILED, Corrupt, FixInput, FixUsage
from obygaze_features.core.file_names import composed
from obygaze_features.core.outside import safe_text
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest import model
from obygaze_features.manifest.io import ID, as_id, ids_of_names, read_manifest
from obygaze_features.manifest.own_labels import first_command
from obygaze_features.manifest.same_clip import (
    UNKNOWN,
    Identity,
    clips_of_rows,
    compare_clips,
    noun_of_rows,
    words_and_numbers,
)
from obygaze_features.store.card import Terms
from obygaze_features.store.functions import ImportFormat, Pool
from obygaze_features.store.identity import another_clip, identity_of
from obygaze_features.store.importing.npz import open_npz
from obygaze_features.store.importing.parquet import open_parquet
from obygaze_features.store.importing.reader import (
    MOST_BYTES,
    BadRow,
    ClipArrays,
    Reader,
    Shape,
    Values,
    checked_shape,
    with_rows_of_clips,
)
from obygaze_features.store.importing.tables import open_table
from obygaze_features.store.importing.trees import open_npy, open_pth
from obygaze_features.store.joining import JOINED
from obygaze_features.store.layout import (
    DTYPES,
    MASK,
    TIMES,
    VECTORS,
    Array,
    belongs_to,
    with_companions,
)
from obygaze_features.store.making import new_store, rows_not_finite, write_store
from obygaze_features.store.reading import Store, open_store
from obygaze_features.store.recipe import ORIGIN, STATED, Recipe
from obygaze_features.store.records import (
    UNKNOWN_FILM,
    WITHOUT_MANIFEST,
    ManifestMark,
    Origin,
    film_of_id,
)
from obygaze_features.store.rows import FAILED, OK, WITHDRAWN, Row, RowColumns
from obygaze_features.store.text_columns import TextColumn
from obygaze_features.store.withdrawals import (
    Withdrawals,
    changes_that_withdrew,
    rows_withdrawn_elsewhere,
    stores_with_withdrawals,
)


def _open_hdf5(path: Path, arrays: Mapping[str, str], **options: str) -> Reader:
    # The other formats do without h5py, whose import takes as long as that of many features.
    from obygaze_features.store.importing.hdf5 import open_hdf5

    return open_hdf5(path, arrays, **options)


class Format(NamedTuple):
    """How a format is opened; whether arrays in it have names, and ids an array of their own."""

    open: Callable[..., Reader]
    has_names: bool


FORMATS: Mapping[ImportFormat, Format] = {
    "npz": Format(open_npz, has_names=True),
    "hdf5": Format(_open_hdf5, has_names=True),
    "npy": Format(open_npy, has_names=False),
    "pth": Format(open_pth, has_names=False),
    "parquet": Format(open_parquet, has_names=True),
    "csv": Format(open_table, has_names=True),
    "xlsx": Format(open_table, has_names=True),
}
POOLED = "pooled"
NOT_IN_FILES = "not in the files"
# What an import writes into the recipe beside the facts that it is given.
OWN_FACTS = frozenset((ORIGIN, "backbone", "pooling"))
ONLY_THESE_FILES = (
    "a model of this store can score no other store: for that, import it with --backbone NAME, and"
    " all others that were made in the same way with the same NAME"
)
SHOWN_REASONS = 5
# The ids of a manifest with which an id is compared: each takes some microseconds.
MOST_COMPARED = 10_000
# Shorter rows, such as the length of a clip, may well be equal.
VECTOR_VALUES = 4
# Rows are hashed in parts that fit in the cache of a processor.
HASHED_BYTES = 2**18


@dataclass(frozen=True)
class Imported:
    """The result of an import: the new store, and what did not come into it.

    `made_of` says of which columns of a table, or of how many vectors, an array was made.
    """

    path: Path
    seal: str
    n_clips: int
    arrays: Mapping[str, tuple[int, ...]]
    failed: Mapping[str, str]
    not_in_manifest: Sequence[str]
    remarks: Sequence[str]
    next_command: str
    warnings: Sequence[str] = ()
    withdrawn: Sequence[str] = ()
    unit: str = "clip"
    made_of: Mapping[str, str] = field(default_factory=dict)

    @property
    def n_ok(self) -> int:
        """How many clips have features."""
        return self.n_clips - len(self.failed) - len(self.withdrawn)

    def to_json(self) -> dict[str, Any]:
        """Return all that is known of the import."""
        return {**vars(self), "path": str(self.path), "n_ok": self.n_ok}

    def __str__(self) -> str:
        shapes = []
        for name, shape in self.arrays.items():
            shown = f"{name} {list(shape)}"
            if name in self.made_of:
                shown += f" ({self.made_of[name]})"
            shapes.append(shown)
        return f"{self.path}: {self.n_ok} of {self.n_clips} {self.unit}s, {', '.join(shapes)}"

    @property
    def exit_code(self) -> int:
        """The exit code of the command, which says whether clips have no features."""
        return EXIT_SOME_FAILED if self.failed else 0

    @property
    def notes(self) -> list[str]:
        """What was left out of the files, why clips have no features, and the next command."""
        notes = list(self.remarks)
        if self.withdrawn:
            n_clips = count(len(self.withdrawn), self.unit)
            shown = few(self.withdrawn, 3)
            notes.append(
                f"{n_clips} withdrawn, as in the store of these files: {shown}"
            )
        if self.failed:
            notes.append(f"{count(len(self.failed), self.unit)} without features")
        clips_of_reason: dict[str, list[str]] = {}
        for clip, reason in self.failed.items():
            clips_of_reason.setdefault(reason, []).append(clip)
        by_number = sorted(clips_of_reason.items(), key=lambda item: -len(item[1]))
        for reason, clips in by_number[:SHOWN_REASONS]:
            notes.append(f"  {count(len(clips), self.unit)}, {reason}: {few(clips, 3)}")
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
    format: ImportFormat,
    source: str | Path,
    path: str | os.PathLike[str],
    *,
    arrays: Mapping[str, str] | None = None,
    id_key: str | None = None,
    manifest: str | os.PathLike[str] | model.Manifest | None = None,
    pool: Pool | None = None,
    backbone: str = "",
    facts: Mapping[str, str] | None = None,
    licence: str = "",
    citation: str | None = None,
    progress: Progress | None = None,
    workspace: str | os.PathLike[str] | None = None,
) -> Imported:
    """Make a store from features in another format."""
    here = Workspace.of(workspace)
    target = new_store(here, path)
    if pool not in (None, *get_args(Pool)):
        raise FixUsage(
            f"unknown pool {pool!r}", hint=f"one of {', '.join(get_args(Pool))}"
        )
    if manifest is not None:
        manifest = read_manifest(manifest, workspace=workspace).without_watched()
    backbone = backbone.strip()
    reader = open_features(format, source, arrays, id_key=id_key)
    try:
        _check_facts(facts or {}, backbone, reader)
        _refuse_joined(reader)
        if pool not in (None, "none") and reader.export is None:
            reader = with_rows_of_clips(reader)
        if pool is None:
            is_of_tokens = _features_of(reader) == ["tokens"] and reader.export is None
            pool = "also" if is_of_tokens else "none"
        terms = _terms_of(reader, licence, citation, manifest)
        clips = _matched(reader, manifest)
        _check_some_known(reader, clips, manifest)
        sources = _sources_of(reader, here)
        withdrawals = Withdrawals.of(sources)
        stored = _stored_arrays(reader, clips, pool, arrays or ())
        imported = ImportedRows(reader, clips, stored, progress or Quiet(), withdrawals)
        written = write_store(
            target,
            imported,
            arrays=imported.arrays,
            recipe=_recipe_of(reader, backbone, facts or {}, pool, stored),
            manifest=clips.manifest,
            replaces=changes_that_withdrew(sources),
            origins=[Origin(Path(reader.where).name, str(reader.origin["sha256"]))],
            terms=terms,
        )
    finally:
        reader.close()
    remarks = [*reader.notes, *_left_out(reader, stored), *clips.notes]
    if not backbone:
        remarks.append(ONLY_THESE_FILES)
    rows = imported.columns()
    made_of = {}
    for array in stored:
        words = _made_of(array, reader)
        if words:
            made_of[array.name] = words
    failed = {rows.clip_ids[n]: rows.reasons[n] for n in sorted(imported.problems)}
    warnings = [
        *clips.warnings,
        *imported.warnings,
        *rows_withdrawn_elsewhere(open_store(written.path), here, "in this new store"),
    ]
    return Imported(
        path=written.path,
        seal=written.seal,
        n_clips=len(rows),
        arrays={array.name: array.shape for array in imported.arrays},
        failed=failed,
        not_in_manifest=clips.not_in_manifest,
        remarks=remarks,
        next_command=_next_command(os.fspath(path), imported.arrays, manifest),
        warnings=warnings,
        withdrawn=[rows.clip_ids[n] for n in sorted(imported.withdrawn)],
        unit=clips.unit,
        made_of=made_of,
    )


def _made_of(stored: "StoredArray", reader: Reader) -> str:
    """Return of what an array was made, for the line on an import; "" if it is as in the files."""
    n_vectors = math.prod(stored.file_shape.sizes[:-1])
    if stored.pooling and n_vectors > 1:
        return f"{stored.pooling} of up to {count(n_vectors, 'vector')}"
    if reader.feature_columns:
        return f"of the columns {few(reader.feature_columns, 5)}"
    return ""


def _refuse_joined(reader: Reader) -> None:
    """Raise an error for an export of a joined store, of which an import would lose the parts."""
    if reader.export is not None and JOINED in reader.export.recipe:
        raise FixUsage(
            "this is an export of a joined store, and an import does not know its parts",
            where=reader.where,
            hint="for the stores of its parts: obygaze store join --help",
        )


def _sources_of(reader: Reader, workspace: Workspace) -> list[Store]:
    """Return the stores of a workspace that files were exported from, or that were made of them.

    What was withdrawn from these does not come back.
    """
    seals = {str(reader.origin["sha256"])}
    if reader.export is not None:
        seals.add(reader.export.seal)
    sources = []
    for store in stores_with_withdrawals(workspace).values():
        known = {entry.seal for entry in store.record.replaces}
        known.update(origin.seal for origin in store.record.origins)
        if not seals.isdisjoint({store.seal, *known}):
            sources.append(store)
    return sources


def _next_command(
    store: str, arrays: Sequence[Array], manifest: model.Manifest | None
) -> str:
    """Return the command that comes next: an experiment where arrays and labels allow one."""
    has_vectors = any(array.name in VECTORS for array in arrays)
    if manifest is None or not has_vectors:
        return f"obygaze store info {shlex.quote(store)}"
    return first_command(manifest, manifest.name, [store])


def open_features(
    format: ImportFormat,
    source: str | Path,
    arrays: Mapping[str, str] | None = None,
    *,
    id_key: str | None = None,
) -> Reader:
    """Open features that another program wrote; close them afterwards.

    The parameters are those of `import_features`.
    """
    if format not in FORMATS:
        raise FixUsage(
            f"unknown format {format!r}", hint=f"one of {', '.join(FORMATS)}"
        )
    kind = FORMATS[format]
    if kind.has_names:
        options = {} if id_key is None else {"id_key": id_key}
        return kind.open(Path(source), dict(arrays or {}), **options)
    if arrays or id_key is not None:
        raise FixUsage(f"--array and --id-key do not apply to {format}")
    return kind.open(Path(source))


def _features_of(reader: Reader) -> list[str]:
    """Return the columns that hold features, and not a mask or times."""
    return [name for name in reader.columns if name not in (MASK, *TIMES)]


def _terms_of(
    reader: Reader,
    licence: str,
    citation: str | None,
    manifest: model.Manifest | None,
) -> Terms:
    """Return the terms of the new store: those that are given, else those of an export."""
    given = Terms(licence, citation or "")
    stated = Terms()
    if reader.export is not None:
        stated = Terms(reader.export.licence, reader.export.citation)
    given.require_same(stated, reader.where)
    terms = given.or_else(stated)
    if citation is None and manifest is not None:
        terms = terms.or_else(Terms(citation=manifest.header.citation))
    return terms


def _check_facts(facts: Mapping[str, str], backbone: str, reader: Reader) -> None:
    """Raise an error for a fact that the import records itself, and for a name that joins."""
    if backbone.startswith(f"{JOINED}: "):
        # A model without a store has no more than the name of its features.
        raise FixUsage(
            f"{backbone!r} would be taken for the features of joined stores",
            hint="--backbone NAME with a name of its own",
        )
    for name in facts.keys() & {*OWN_FACTS, *reader.facts}:
        hint = "--backbone NAME" if name == "backbone" else "another name for this fact"
        raise FixUsage(f"the fact {name!r} is recorded by the import itself", hint=hint)


# Which clip of the files is which row of the store.


@dataclass(frozen=True)
class Clips:
    """The rows of the new store; `places` has the clip of each row in the files, -1 for none."""

    manifest: ManifestMark
    rows: RowColumns
    places: npt.NDArray[np.int64]
    not_in_manifest: Sequence[str] = ()
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    unit: str = "clip"


def _matched(reader: Reader, manifest: model.Manifest | None) -> Clips:
    """Return the rows of the new store with their places in the files."""
    if manifest is None:
        # The ids that a manifest of the same table has, so that the store matches it.
        ids_of = _as_ids if reader.export is None else TextColumn.of
        clip_ids = ids_of(reader.clip_ids)
        if clip_ids.have_one_hash():
            _check_unique(clip_ids, reader)
        films = ids_of(_films_of(reader, clip_ids))
        rows = RowColumns.of_clips(clip_ids, films)
        if reader.times:
            start_s, end_s = zip(*reader.times, strict=True)
            rows = replace(rows, start_s=start_s, end_s=end_s)
        record = ManifestMark(WITHOUT_MANIFEST, rows.clips_sha256)
        if reader.export is not None and reader.export.manifest.sha256:
            # As in the store, its films are known, or guesses.
            record = reader.export.manifest
        elif reader.export is None and any(reader.movie_ids):
            record = ManifestMark(model.FILMS_OF_FILES, rows.clips_sha256)
        notes = _changes(reader, clip_ids)
        return Clips(record, rows, np.arange(len(rows)), notes=notes)
    names = _Names(manifest, reader.clip_ids)
    ids_of_place = list(map(names.rows_of, reader.clip_ids, reader.movie_ids))
    ids_in_files: list[str] = []
    for ids in ids_of_place:
        ids_in_files += ids
    _check_unique(ids_in_files, reader)
    # Rows of several annotators about one clip have the features of one place.
    place_of_clip = {}
    for place, ids in enumerate(ids_of_place):
        place_of_clip.update(dict.fromkeys(ids, place))
    rows = RowColumns.of(
        [
            Row(clip.clip_id, clip.movie_id, clip.start_s, clip.end_s)
            for clip in manifest
        ]
    )
    places = []
    n_by_ids = 0
    n_in_films = 0
    contradictions = {}
    for clip in manifest:
        place = place_of_clip.pop(clip.clip_id, -1)
        places.append(place)
        if place < 0:
            continue
        here = Identity.of_clip(clip)
        in_files = _identity_in(reader, place, here.clip_id)
        compared = compare_clips(here, in_files)
        if compared.contradiction:
            contradictions[clip.clip_id] = compared.contradiction
        n_by_ids += compared.sameness is UNKNOWN
        n_in_films += compared.is_by_id and compared.sameness is not UNKNOWN
    if contradictions:
        raise another_clip(contradictions, "files", reader.where)
    notes = []
    if names.respelled:
        notes.append(
            "the ids of the files have other capitals, signs or zeros than those of the manifest:"
            f" {few(names.respelled, 3)}"
        )
    unit = noun_of_rows(manifest)
    if unit == "row":
        n_rows = count(len(manifest), "row")
        n_clips = count(len(clips_of_rows(manifest.clips)), "clip")
        notes.append(f"the manifest has {n_rows} of {n_clips}")
    if n_by_ids:
        words = (
            "matched by the ids alone: the files have no movie_id, which says the film"
        )
        notes.append(f"{count(n_by_ids, unit)} {words}")
    if n_in_films:
        words = "matched by film and id alone: no times were compared"
        notes.append(f"{count(n_in_films, unit)} {words}")
    warnings = []
    if n_by_ids or n_in_films:
        warnings = _may_be_shifted(reader, rows, places, place_of_clip)
    return Clips(
        manifest=ManifestMark(manifest.name, rows.clips_sha256),
        rows=rows,
        places=np.array(places, dtype=np.int64),
        not_in_manifest=list(place_of_clip),
        notes=notes,
        warnings=warnings,
        unit=unit,
    )


def _may_be_shifted(
    reader: Reader,
    rows: RowColumns,
    places: Sequence[int],
    place_of_other: Mapping[str, int],
) -> list[str]:
    """Return a warning where the manifest and the files both have clips of a film left over.

    Ids that count from 0 and from 1 are nearly the same ids, each of another clip.
    """
    without: dict[str, str] = {}
    for clip_id, film, place in zip(rows.clip_ids, rows.movie_ids, places, strict=True):
        if place < 0:
            without.setdefault(film, clip_id)
    for other, place in place_of_other.items():
        film = as_id(reader.movie_ids[place] or "")
        left_over = without.get(film, "")
        if not film and without:
            left_over = next(iter(without.values()))
        if left_over:
            return [
                f"{left_over} of the manifest is not in the files, and {other} of the files not in"
                " the manifest: if one counts the clips of a film from another number (0 or 1),"
                " all clips that the ids matched have the features of their neighbours"
            ]
    return []


def _identity_in(reader: Reader, place: int, clip_id: str) -> Identity:
    """Return what files say of a clip: its times, and its film unless a store only guessed it."""
    film = as_id(reader.movie_ids[place] or "")
    times = reader.times[place] if reader.times else ()
    row = Row(reader.clip_ids[place], film, *times)
    return identity_of(row, reader.export)._replace(clip_id=clip_id)


def _as_ids(texts: Sequence[str]) -> TextColumn:
    """Return texts as ids, each as `as_id` does."""
    column = TextColumn.of(texts)
    if column.table is not None:
        firsts = map(chr, set(column.table[:, 0].tobytes()))
        with_all = "_" + "".join(sorted(column.characters))
        as_long = "_" * column.table.shape[1]
        if all(map(ID.fullmatch, (*firsts, with_all, as_long))):
            # All are valid ids. A million are not looked at one by one.
            return column
    return TextColumn(list(map(as_id, column)))


def _changes(reader: Reader, clip_ids: Sequence[str]) -> list[str]:
    """Return a sentence on clips whose ids are not as in the files."""
    changes = []
    if clip_ids is reader.clip_ids:
        return []
    for name, clip_id in zip(reader.clip_ids, clip_ids, strict=True):
        if name != clip_id:
            changes.append(f"{name!r} is now {clip_id!r}")
    return [f"clips have ids as in a manifest: {few(changes, 3)}"] if changes else []


# A name of a clip, or its words and numbers.
_Name = str | tuple[str, ...]


class _Names:
    """The names by which a clip of a manifest is known.

    These are its id, the id without the annotator, the name of its video if it is all of that, and
    what becomes its id by the rule of manifests, also after its film, as in a path: `FILM/ID`. A
    name of two clips is none. A row whose id the files have takes no other name. Where the files
    have no id of the manifest, the words and numbers of an id are such a name.
    """

    def __init__(self, manifest: model.Manifest, in_files: Sequence[str]) -> None:
        self.ids = manifest.by_id
        self.named = self.ids.keys() & set(in_files)
        self.respelled: list[str] = []
        rows_of_clip: dict[str, list[str]] = {}
        clips_of_name: dict[_Name, set[str]] = {}
        for clip in manifest:
            about = model.unannotated_id(clip)
            rows_of_clip.setdefault(about, []).append(clip.clip_id)
            # The features of a file are not those of a part of it.
            is_whole = (clip.start_s, clip.end_s) == (None, None)
            video = Path(clip.video).stem if is_whole else ""
            for name in (about, video):
                if name:
                    clips_of_name.setdefault(composed(name), set()).add(about)
            if not self.named:
                clips_of_name.setdefault(words_and_numbers(about), set()).add(about)
        self.rows_of_name: dict[_Name, list[str]] = {}
        for known_name, clips in clips_of_name.items():
            if len(clips) == 1:
                (about,) = clips
                self.rows_of_name[known_name] = rows_of_clip[about]

    def rows_of(self, name: str, film: str | None) -> list[str]:
        """Return the ids of the rows about the clip of a name, or the name where there is none."""
        # Where two films have one name, the files' reader has put the film before it.
        in_film = f"{film}/{name.removeprefix(f'{film}-')}" if film else name
        by_rule = model.ascii_id(name)
        known_names: list[_Name] = [name, composed(name), by_rule]
        known_names += [model.ascii_id(in_film), words_and_numbers(name)]
        for known_name in known_names:
            found = []
            for row in self.rows_of_name.get(known_name, ()):
                if row == name or row not in self.named:
                    found.append(row)
            is_id = isinstance(known_name, str) and known_name in self.ids
            if is_id and known_name not in found:
                found.append(str(known_name))
            if found:
                if not isinstance(known_name, str):
                    self.respelled.append(f"{name!r} is {found[0]!r}")
                return found
        return [name]


def _films_of(reader: Reader, clip_ids: Sequence[str]) -> Sequence[str]:
    """Return the film of each clip: what the files say, or by the ids if they say it of no clip.

    If they say it of some clips only, the others might get another name for the same film. A film
    that is guessed must be the one by which `is_guessed_film` knows a guess: of an id that has
    changed too much, none is.
    """
    named: Sequence[str]
    if isinstance(reader.movie_ids, TextColumn):
        named = reader.movie_ids
    else:
        named = [film for film in reader.movie_ids if film is not None]
    if not named:
        films = list(map(film_of_id, reader.clip_ids))
        film_of = {film: as_id(film) for film in set(films)}
        for place, clip_id in enumerate(clip_ids):
            if film_of[films[place]] != film_of_id(clip_id):
                films[place] = UNKNOWN_FILM
        return films
    if len(named) == len(reader.clip_ids):
        if reader.export is None and _as_ids(named) is not named:
            ids_of_names(dict.fromkeys(named), "film", reader.where)
        return named
    pairs = zip(reader.clip_ids, reader.movie_ids, strict=True)
    without = [clip for clip, film in pairs if film is None]
    n_clips = count(len(reader.clip_ids), "clip")
    verb = "has" if len(without) == 1 else "have"
    raise FixInput(
        f"{len(without)} of {n_clips} {verb} no film: {few(without, 3)}",
        where=reader.where,
        hint="give each clip its movie_id (or a folder of its film), or add --manifest",
        details=without[:20],
    )


def _check_unique(ids: Sequence[str], reader: Reader) -> None:
    """Raise an error for clips that are in the files more than once."""
    if len(set(ids)) == len(ids):
        return
    repeated = [clip for clip, n in Counter(ids).items() if n > 1]
    hint = f"keep one row for each id{_other_ids(reader)}"
    # Two names of one clip are no frames.
    if reader.export is None and len(set(reader.clip_ids)) < len(reader.clip_ids):
        hint = (
            "if the rows of an id are the frames of a clip, --pool only keeps their maximum and"
            f" --pool only-mean their mean; else {hint}"
        )
    raise FixInput(
        f"{count(len(repeated), 'clip id')} in several rows of the files: {few(repeated, 3)}",
        where=reader.where,
        hint=hint,
        details=repeated[:20],
    )


def _other_ids(reader: Reader) -> str:
    """Return the part of a hint that names the option for other ids, if the format has one."""
    if FORMATS[reader.origin["format"]].has_names:
        return ", or name another array of ids with --id-key"
    return ""


def _check_some_known(
    reader: Reader, clips: Clips, manifest: model.Manifest | None
) -> None:
    """Raise an error if the files have clips, and none of those of the manifest."""
    if manifest is None or not reader.clip_ids or (clips.places >= 0).any():
        return
    first = reader.clip_ids[0]
    ids = {name.casefold(): name for name in manifest.clip_ids[:MOST_COMPARED]}
    # The most similar one shows the difference; with the first one, all may differ.
    (similar,) = get_close_matches(first.casefold(), ids, n=1, cutoff=0) or [""]
    hint = (
        "use the same ids in both: --id FORM of manifest import makes those of a manifest, or give"
        " your table a column with the ids of the files, and map clip_id to it"
    )
    hint += _other_ids(reader)
    if reader.origin["format"] == "hdf5":
        hint += (
            "; text before or after an id stands in --array: clip='{film}/clip_{id}'"
        )
    raise FixInput(
        f"the files have none of the clips of the manifest: their first clip id is {first!r},"
        f" the most similar one of the manifest {ids.get(similar, '')!r}",
        where=manifest.name,
        hint=hint,
    )


def _recipe_of(
    reader: Reader,
    backbone: str,
    given_facts: Mapping[str, str],
    pool: Pool,
    stored_arrays: Sequence["StoredArray"],
) -> Recipe:
    """Return the recipe of imported features: the facts that are given.

    Without a backbone, nobody says how they were made: the files are a part of the recipe, so that
    no other file has it.
    """
    facts: dict[str, Any] = {**given_facts, **reader.facts}
    source = STATED
    if backbone:
        facts["backbone"] = backbone
    else:
        facts[ORIGIN] = dict(reader.origin)
        source = str(reader.origin["format"])
    if pool != "none":
        has_mask = any(stored.mask for stored in stored_arrays if stored.pooling)
        vectors = "the real frames" if has_mask else "all tokens"
        facts["pooling"] = f"{_pooling_of(pool)} over {vectors}, by the importer"
    return Recipe.unknown(source, facts)


# How the numbers of the files become those of the store.


class StoredArray(NamedTuple):
    """An array of the store: of which array of the files it is, and its shape and type.

    `file_shape` is the largest shape of a clip in the files. An array with a `pooling` is the
    maximum or the mean over all vectors of a clip, of which clips may have different numbers; over
    those of its real frames, if `mask` names the column of a mask.
    """

    name: str
    source: str
    shape: Shape
    file_shape: Shape
    dims: tuple[str, ...] = ()
    pooling: str = ""
    mask: str = ""

    @property
    def array(self) -> Array:
        """The array of the store."""
        return Array.of(self.name, self.shape.dtype, self.shape.sizes, self.dims)


def _stored_arrays(
    reader: Reader, clips: Clips, pool: Pool, named: Collection[str]
) -> list[StoredArray]:
    """Return the arrays of the store: those that were asked for, and what belongs to them."""
    features = _features_of(reader)
    is_alone = pool.startswith("only")
    arrays = []
    for name in reader.columns:
        pooling = _pooling_of(pool) if is_alone and name in features else ""
        # Masks and times of frames are not stored where one vector is left of the frames.
        is_stored = name in features or not is_alone
        stored = _stored_array(reader, clips, name, pooling, is_stored=is_stored)
        arrays.append(stored)
    if is_alone:
        arrays = _with_usual_name(arrays, {*VECTORS, *named})
    elif pool != "none":
        arrays += _pooled_too(reader, arrays, _pooling_of(pool))
    arrays = [_with_mask(stored, arrays, reader) for stored in arrays]
    companions = set(reader.companions)
    if is_alone:
        # Of the arrays of frames there is one vector left.
        companions.update(reader.columns.keys() - set(features))
    asked = [stored.array for stored in arrays if stored.name not in companions]
    together = with_companions(asked, [stored.array for stored in arrays])
    return [stored for stored in arrays if stored.array in together]


def _pooling_of(pool: Pool) -> str:
    """Return how the vectors of a clip become one: "maximum" or "mean"."""
    return "mean" if pool.endswith("mean") else "maximum"


def _with_usual_name(
    arrays: Sequence[StoredArray], kept: Collection[str]
) -> list[StoredArray]:
    """Return arrays of which the only one that several vectors become is called 'pooled'.

    Experiments look for it. A name that they look for, too, or that somebody gave, is kept.
    """
    several = [one for one in arrays if one.pooling and len(one.file_shape.sizes) > 1]
    names = {stored.name for stored in arrays}
    if len(several) != 1 or several[0].name in kept or POOLED in names:
        return list(arrays)
    return [one._replace(name=POOLED) if one is several[0] else one for one in arrays]


def _pooled_too(
    reader: Reader, arrays: Sequence[StoredArray], pooling: str
) -> list[StoredArray]:
    """Return the array 'pooled', if an array has several vectors a clip."""
    several = []
    for stored in arrays:
        if stored.name in _features_of(reader) and len(stored.shape.sizes) > 1:
            several.append(stored)
    if not several:
        return []
    if POOLED in reader.columns:
        raise FixInput(
            f"an array {POOLED!r} exists already",
            where=reader.where,
            hint="--pool none",
        )
    if len(several) > 1:
        names = few([stored.name for stored in several])
        raise FixInput(
            f"several arrays have several vectors a clip, and only one can become"
            f" {POOLED!r}: {names}",
            where=reader.where,
            hint="--array NAME=KEY for one of them, or --pool only",
        )
    shape = Shape(several[0].shape.sizes[-1:], "float32")
    return [several[0]._replace(name=POOLED, shape=shape, dims=(), pooling=pooling)]


def _with_mask(
    stored: StoredArray, arrays: Sequence[StoredArray], reader: Reader
) -> StoredArray:
    """Return an array with the mask that belongs to the frames of which it is made.

    What comes back from a store is left as it was there.
    """
    if not stored.pooling and (reader.export is not None or stored.name in TIMES):
        return stored
    for other in arrays:
        if other.name == MASK and _is_mask_of(other, stored, reader):
            return stored._replace(mask=MASK)
    return stored


def _is_mask_of(mask: StoredArray, stored: StoredArray, reader: Reader) -> bool:
    """Return whether a mask says which frames of an array are real: by its name, or by sizes."""
    sizes = stored.file_shape.sizes
    dims = reader.dims.get(stored.source)
    if dims is not None:
        frames = Array.of(stored.source, stored.file_shape.dtype, sizes, dims)
        return belongs_to(mask.array, frames)
    of_mask = mask.file_shape.sizes
    # Where a clip has several rows of the files, each of them may have several frames.
    is_shorter = 0 < len(of_mask) < len(sizes)
    return is_shorter and sizes[: len(of_mask)] == of_mask


def _left_out(reader: Reader, stored_arrays: Sequence[StoredArray]) -> list[str]:
    """Return sentences on what is not in the new store, and on what is not in an export."""
    notes = []
    stored_names = {stored.source for stored in stored_arrays}
    for name in reader.columns:
        if name not in stored_names:
            notes.append(f"{name} was left out: it belongs to no array that is stored")
    if reader.export is not None and reader.export.left_out:
        left_out = ", ".join(reader.export.left_out)
        notes.append(f"the store has more than this export of it: {left_out}")
    return notes


def _stored_array(
    reader: Reader, clips: Clips, name: str, pooling: str, *, is_stored: bool
) -> StoredArray:
    """Return how an array is stored: with the one shape that its clips have.

    What is not stored may have several; then it is the largest.
    """
    here = clips.places[clips.places >= 0].tolist()
    places_of_shape, problem = reader.columns[name].shapes(here)
    if not places_of_shape:
        first = f"; the first: {problem}" if problem else ""
        raise FixInput(
            f"no clip has a usable {name}{first}",
            where=reader.where,
            hint="--array NAME=KEY of another array",
        )
    places_of_sizes: dict[tuple[int, ...], list[int]] = {}
    for shape, places in places_of_shape.items():
        sizes = shape.sizes[-1:] if pooling else shape.sizes
        places_of_sizes.setdefault(sizes, []).extend(places)
    if len(places_of_sizes) > 1 and is_stored:
        raise _several_shapes(reader, name, places_of_sizes, clips.unit)
    sizes = max(places_of_sizes, key=math.prod)
    types = {shape.dtype for shape in places_of_shape}
    dtype, dims = _type_and_dims(reader, name, sizes, types)
    # Not by bytes: the largest shape of a mask is that of the frames that it is of.
    largest = max(places_of_shape, key=lambda shape: math.prod(shape.sizes))
    return StoredArray(name, name, Shape(sizes, dtype), largest, dims, pooling)


def _several_shapes(
    reader: Reader,
    name: str,
    places_of_sizes: Mapping[tuple[int, ...], Sequence[int]],
    unit: str,
) -> FixInput:
    """Return the error that the arrays of clips cannot be one array of a store."""
    details = []
    for sizes, places in places_of_sizes.items():
        example = reader.clip_ids[places[0]]
        details.append(f"{count(len(places), unit)} of {sizes}, such as {example}")
    hint = "--manifest NAME takes only its clips"
    if len({sizes[-1:] for sizes in places_of_sizes}) == 1:
        hint = (
            "--pool only keeps the maximum over all vectors of a clip, --pool only-mean"
            f" their mean; {hint}"
        )
    return FixInput(
        f"{name} has {len(places_of_sizes)} shapes, and a store needs one for all {unit}s:"
        f" {'; '.join(details[:2])}",
        where=reader.where,
        hint=hint,
        details=details[:20],
    )


def _type_and_dims(
    reader: Reader,
    name: str,
    sizes: tuple[int, ...],
    types: set[str],
) -> tuple[str, tuple[str, ...]]:
    """Return the type of the numbers of an array, and the names of its dimensions."""
    dims = reader.dims.get(name)
    if dims is not None and len(dims) == len(sizes) and len(types) == 1:
        (dtype,) = types
        if dtype in DTYPES:
            return dtype, dims
    of_frames = tuple(f"t{size}" for size in sizes)
    if name == MASK and len(sizes) == 1:
        return "bool", of_frames
    if name in TIMES and len(sizes) < 2:
        return "float64", of_frames
    # One vector a clip is kept in float32 whatever it came in, as all stores have it.
    is_half = types == {"float16"} and len(sizes) > 1
    return "float16" if is_half else "float32", ()


def converted(
    values: Values, stored: StoredArray, is_real: Values | None = None
) -> tuple[Values, dict[int, str]]:
    """Return rows as the store holds them, and what is wrong with some, by their places.

    Args:
        values: Rows of the files, all with the shape of a row of the store unless it is pooled.
        stored: The array of the store.
        is_real: Which frames of each row are real, if the files say it.
    """
    problems = {} if is_real is None else _problems_of_mask(is_real)
    if stored.pooling and values.ndim > 2:
        values = _pooled(values, is_real, stored.pooling)
    dtype = np.dtype(stored.shape.dtype)
    with np.errstate(over="ignore"):  # what is too large is found below
        rows = values.astype(dtype, copy=False)
    if stored.name in TIMES:
        # A frame that does not exist has no time.
        return rows, problems
    if dtype == np.bool_:
        problems.update(_others_than_0_and_1(values, stored.name))
    for place in rows_not_finite(rows):
        problems.setdefault(place, _not_finite(values[place], stored))
    if dtype.itemsize < values.dtype.itemsize:
        had_values = values.reshape(len(rows), -1).any(axis=1)
        has_values = rows.reshape(len(rows), -1).any(axis=1)
        for place in np.flatnonzero(had_values & ~has_values).tolist():
            problems[place] = f"{stored.name} has numbers too small for {dtype.name}"
    return rows, problems


def _problems_of_mask(is_real: Values) -> dict[int, str]:
    """Return which rows of a mask do not say which frames are real, or that none is."""
    problems = _others_than_0_and_1(is_real, MASK)
    has_real = is_real.reshape(len(is_real), -1).any(axis=1)
    for place in np.flatnonzero(~has_real).tolist():
        problems[place] = f"{MASK} says that no frame is real"
    return problems


def _others_than_0_and_1(values: Values, name: str) -> dict[int, str]:
    """Return which rows hold other numbers than 0 and 1."""
    is_wrong = (values != values.astype(bool)).reshape(len(values), -1).any(axis=1)
    problem = f"{name} holds other numbers than 0 and 1"
    return dict.fromkeys(np.flatnonzero(is_wrong).tolist(), problem)


def _pooled(values: Values, is_real: Values | None, pooling: str) -> Values:
    """Return the maximum or the mean over the vectors of each row; of the real ones only."""
    n_vectors: Values | int = math.prod(values.shape[1:-1])
    if is_real is not None:
        is_real = is_real.astype(bool)
        further = values.shape[is_real.ndim : -1]
        of_rows = is_real.reshape(len(is_real), -1)
        n_real = of_rows.sum(axis=1, keepdims=True) * math.prod(further)
        n_vectors = np.maximum(n_real, 1)
        filler = -np.inf if pooling == "maximum" else 0
        shape = is_real.shape + (1,) * (values.ndim - is_real.ndim)
        values = np.where(is_real.reshape(shape), values, filler)
    vectors = values.reshape(len(values), -1, values.shape[-1])
    if pooling == "maximum":
        pooled: Values = vectors.max(axis=1)
    else:
        pooled = vectors.sum(axis=1, dtype=np.float64) / n_vectors
    return pooled


def _not_finite(row: Values, stored: StoredArray) -> str:
    if np.isfinite(row).all():
        return f"{stored.name} has numbers too large for {stored.shape.dtype}"
    return f"{stored.name} holds NaN or infinity"


@dataclass
class Repeats:
    """Counts rows of zeros or of one other value, and rows that are equal to an earlier row."""

    n_rows: int = 0
    # Of the rows that have several values.
    hashes: list[npt.NDArray[np.uint64]] = field(default_factory=list)

    def add(self, rows: Values) -> None:
        """Count some more rows."""
        self.n_rows += len(rows)
        table = rows.reshape(len(rows), math.prod(rows.shape[1:]))
        is_constant = table[:, 0] == table[:, -1]
        is_constant[is_constant] = (table[is_constant] == table[is_constant, :1]).all(1)
        self.hashes.append(_hashes_of_rows(table)[~is_constant])

    def warnings(self, name: str) -> list[str]:
        """Return a sentence if this is so for most rows."""
        n_repeats = self.n_rows
        if self.hashes:
            hashes = np.sort(np.concatenate(self.hashes))
            n_repeats -= int(np.count_nonzero(hashes[1:] != hashes[:-1]))
            n_repeats -= bool(len(hashes))
        if self.n_rows < 2 or 2 * n_repeats <= self.n_rows:
            return []
        return [
            f"{name}: {n_repeats} of {self.n_rows} rows are zeros, repeat one value, or"
            " equal an earlier row"
        ]


def _hashes_of_rows(table: Values) -> npt.NDArray[np.uint64]:
    """Return a number for each row, by which equal rows are found: a sum of random multiples."""
    n_bytes = table.shape[1] * table.itemsize
    words = np.ascontiguousarray(table).view(f"u{math.gcd(n_bytes, 8)}")
    digest = hashlib.shake_128(b"factors").digest(8 * words.shape[1])
    factors = np.frombuffer(digest, np.uint64) | np.uint64(1)
    hashes = np.empty(len(table), np.uint64)
    n_rows = max(1, HASHED_BYTES // n_bytes)
    for first in range(0, len(table), n_rows):
        some = words[first : first + n_rows].astype(np.uint64, copy=False)
        # Numbers that differ in high bits only then differ in low ones too, as the sums need it.
        mixed = some ^ (some >> np.uint64(32))
        hashes[first : first + n_rows] = mixed @ factors
    return hashes


@dataclass
class ImportedRows:
    """The rows of the new store, read from the files.

    Each row is read twice: when its status is found out, and when it is written. What was withdrawn
    is not read.
    """

    reader: Reader
    clips: Clips
    stored: Sequence[StoredArray]
    progress: Progress
    withdrawals: Withdrawals
    problems: dict[int, str] = field(default_factory=dict)
    withdrawn: dict[int, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Read all rows once, and keep what is wrong with some."""
        self.places = self.clips.places.copy()
        n_rows = len(self.places)
        # A pooled array has the problems of the vectors that it is made of, unless there is a mask.
        names = {stored.name for stored in self.stored}
        checked = []
        for stored in self.stored:
            is_beside = stored.name != stored.source and stored.source in names
            if stored.mask or not is_beside:
                checked.append(stored)
        self.progress.expect((len(checked) + len(self.stored)) * n_rows)
        self._stored_of_name = {stored.name: stored for stored in self.stored}
        rows_to_ask = range(n_rows) if self.withdrawals else range(0)
        for number in rows_to_ask:
            reason = self.withdrawals.reason(self.clips.rows[number], self.clips)
            place = int(self.places[number])
            if place >= 0 and not reason:
                # It may have been withdrawn under the id that it has in the files.
                name = self.reader.clip_ids[place]
                stored_id = as_id(name) if self.reader.export is None else name
                in_files = _identity_in(self.reader, place, stored_id)
                reason = self.withdrawals.find(in_files).reason
            if reason:
                self.withdrawn[number] = reason
        self.places[list(self.withdrawn)] = -1
        for number in np.flatnonzero(self.places < 0).tolist():
            if number not in self.withdrawn:
                self.problems[number] = NOT_IN_FILES
        first_problem = ""
        for stored in checked:
            repeats = Repeats()
            may_repeat = stored.name in (MASK, *TIMES)
            for rows, values, problems in self._values(stored, 0, n_rows):
                if math.prod(stored.shape.sizes) >= VECTOR_VALUES and not may_repeat:
                    # Rows of several annotators have one place, and repeat nothing.
                    places = self.places[rows]
                    same_place = np.flatnonzero(places[1:] == places[:-1]) + 1
                    left_out = [*problems, *same_place.tolist()]
                    usable = values
                    if left_out:
                        usable = np.delete(values, left_out, axis=0)
                    repeats.add(usable)
                for position, problem in problems.items():
                    first_problem = first_problem or problem
                    self.problems.setdefault(int(rows[position]), problem)
            self.warnings += repeats.warnings(stored.name)
        if len(self.problems) + len(self.withdrawn) == n_rows:
            raise FixInput(
                f"no clip has usable features; the first: {first_problem}",
                where=self.reader.where,
            )
        # These rows are not read again.
        self.places[list(self.problems)] = -1
        statuses = [OK] * n_rows
        reasons = [""] * n_rows
        for number, reason in self.withdrawn.items():
            statuses[number] = WITHDRAWN
            reasons[number] = reason
        for number, problem in self.problems.items():
            statuses[number] = FAILED
            reasons[number] = safe_text(problem, "terminal")
        self._rows = replace(self.clips.rows, statuses=statuses, reasons=reasons)

    def columns(self) -> RowColumns:
        """Return all rows of the new store."""
        return self._rows

    @property
    def arrays(self) -> list[Array]:
        """The arrays of the new store."""
        return [stored.array for stored in self.stored]

    def read(self, array: Array, first: int, after: int) -> npt.NDArray[np.generic]:
        """Return the rows from `first` to before `after` of an array."""
        whole = np.zeros((after - first, *array.shape), dtype=array.dtype)
        stored = self._stored_of_name[array.name]
        for rows, values, problems in self._values(stored, first, after):
            for position, problem in problems.items():
                clip_id = self._rows.clip_ids[rows[position]]
                raise Corrupt(
                    f"the files changed while they were imported: {clip_id}: {problem}",
                    where=self.reader.where,
                    hint="run the same command again",
                )
            if np.array_equal(rows, np.arange(first, after)):
                return values
            whole[rows - first] = values
        return whole

    def _values(
        self, stored: StoredArray, first: int, after: int
    ) -> Iterator[tuple[npt.NDArray[np.int64], Values, dict[int, str]]]:
        """Yield numbers of rows, with these as the store holds them, and what is wrong with some.

        Rows that are not in the files are in no piece.
        """
        columns = self.reader.columns
        n_rows_of_piece = max(1, MOST_BYTES // stored.file_shape.n_bytes)
        for start in range(first, after, n_rows_of_piece):
            end = min(start + n_rows_of_piece, after)
            rows = start + np.flatnonzero(self.places[start:end] >= 0)
            rows = rows[np.argsort(self.places[rows], kind="stable")]
            self.progress.advance(end - start)
            if len(rows):
                places = self.places[rows]
                found = columns[stored.source].read(places)
                is_real = columns[stored.mask].read(places) if stored.mask else None
                yield rows, *_stored_rows(found, stored, is_real)


def _stored_rows(
    found: ClipArrays, stored: StoredArray, is_real: ClipArrays | None
) -> tuple[Values, dict[int, str]]:
    """Return rows of the files as the store holds them, and what is wrong with some."""
    if isinstance(found, np.ndarray) and not isinstance(is_real, list):
        return converted(found, stored, is_real)
    values = np.zeros((len(found), *stored.shape.sizes), stored.shape.dtype)
    problems = {}
    for position, row in enumerate(found):
        try:
            mask = None if is_real is None else is_real[position]
            values[position] = _one_row(row, stored, mask)
        except BadRow as error:
            problems[position] = str(error)
    return values, problems


def _one_row(
    value: Values | BadRow, stored: StoredArray, is_real: Values | BadRow | None
) -> Values:
    """Return one clip's row as the store holds it; raise BadRow where it cannot."""
    if isinstance(value, BadRow):
        raise value
    if isinstance(is_real, BadRow):
        raise is_real
    if is_real is not None and is_real.shape != value.shape[: is_real.ndim]:
        raise BadRow(
            f"{MASK} has the shape {is_real.shape}, {stored.source} {value.shape}"
        )
    shape = checked_shape(Shape.of(value), stored.source)
    sizes = shape.sizes[-1:] if stored.pooling else shape.sizes
    if sizes != stored.shape.sizes:
        raise BadRow(
            f"{stored.source} has the shape {shape.sizes}, expected"
            f" {stored.file_shape.sizes}"
        )
    masks = None if is_real is None else is_real[None]
    rows, problems = converted(value[None], stored, masks)
    for problem in problems.values():
        raise BadRow(problem)
    row: Values = rows[0]
    return row
