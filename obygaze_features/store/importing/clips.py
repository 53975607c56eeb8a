"""Which clip of imported files is which row of the new store."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput
from obygaze_features.core.made_ids import ascii_id
from obygaze_features.core.refusal import refuse_if
from obygaze_features.manifest import model
from obygaze_features.manifest.clip_facts import ClipFacts, places_of, require_same
from obygaze_features.manifest.io import ID, as_id, ids_of_names
from obygaze_features.store.importing.reader import Reader
from obygaze_features.store.records import WITHOUT_MANIFEST, ManifestMark
from obygaze_features.store.rows import Row, RowColumns
from obygaze_features.store.text_columns import TextColumn


@dataclass(frozen=True)
class Clips:
    """The rows of the new store; `places` has the clip of each row in the files, -1 for none."""

    manifest: ManifestMark
    rows: RowColumns
    places: npt.NDArray[np.int64]
    not_in_manifest: Sequence[str] = ()
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()


def matched_clips(reader: Reader, manifest: model.Manifest | None) -> Clips:
    """Return the rows of the new store with their places in the files."""
    if manifest is None:
        return _clips_of_files(reader)
    ids_in_files = _ids_in_manifest(reader, manifest)
    _check_unique(ids_in_files, reader)
    clips = list(manifest)
    places = places_of(manifest.clip_ids, ids_in_files)
    known = np.flatnonzero(places >= 0)
    n_by_ids = require_same(
        _facts_of_files(reader, ids_in_files).some(places[known]),
        ClipFacts.of_clips(clips).some(known),
        ("the files", "the manifest"),
        where=reader.where,
        hint="the manifest of the clips in these files",
    )
    notes = []
    if n_by_ids:
        notes.append(
            f"{count(n_by_ids, 'clip')} matched by the ids alone: the files have no movie_id,"
            " start_s or end_s that the manifest has too"
        )
    rows = RowColumns.of([Row.of_clip(clip) for clip in clips])
    others = np.setdiff1d(np.arange(len(ids_in_files)), places)
    return Clips(
        manifest=ManifestMark(manifest.name, rows.clips_sha256),
        rows=rows,
        places=places,
        not_in_manifest=[ids_in_files[place] for place in others.tolist()],
        notes=notes,
        warnings=_may_be_other_numbers(reader, rows, places, others),
    )


def _clips_of_files(reader: Reader) -> Clips:
    """Return the rows of a store without a manifest: the clips of the files."""
    # The ids that a manifest of the same table has, so that the store matches it.
    clip_ids = _as_ids(reader.clip_ids)
    _check_unique(clip_ids, reader)
    rows = RowColumns.of_clips(clip_ids, _films_of(reader))
    if reader.times:
        start_s, end_s = zip(*reader.times, strict=True)
        rows = replace(rows, start_s=start_s, end_s=end_s)
    record = ManifestMark(WITHOUT_MANIFEST, rows.clips_sha256)
    notes = _changes(reader, clip_ids)
    return Clips(record, rows, np.arange(len(rows)), notes=notes)


def _ids_in_manifest(reader: Reader, manifest: model.Manifest) -> list[str]:
    """Return the id of the clip of each name in the files; the name where the manifest has none.

    It is the name itself, or what becomes of it by the rule of manifests, also after its film, as
    in a path: `FILM/ID`. A file may have the path of the clip's video: `FILM/VIDEO`.
    """
    id_of_path = _ids_of_paths(manifest)
    ids = []
    for name, film in zip(reader.clip_ids, reader.movie_ids, strict=True):
        # Where two films have one name, the files' reader has put the film before it.
        in_film = f"{film}/{name.removeprefix(f'{film}-')}" if film else name
        known_names = (name, as_id(name), ascii_id(in_film))
        known = [one for one in known_names if one in manifest]
        ids.append(known[0] if known else id_of_path.get(in_film, name))
    return ids


def _ids_of_paths(manifest: model.Manifest) -> dict[str, str]:
    """Return the id of each clip that is all of a video in a folder, by its path without ending.

    Files of the released features are called as the videos of ObyGaze12, and not as its clips.
    """
    id_of_path: dict[str, str] = {}
    several = set()
    for clip in manifest:
        if "/" not in clip.video:
            continue
        path = PurePosixPath(clip.video).with_suffix("").as_posix()
        is_whole = (clip.start_s, clip.end_s) == (None, None)
        if not is_whole or path in id_of_path:
            several.add(path)
        id_of_path[path] = clip.clip_id
    return {path: id_of_path[path] for path in id_of_path if path not in several}


def _facts_of_files(reader: Reader, ids: Sequence[str]) -> ClipFacts:
    """Return what files state of their clips, under the ids that these have in a manifest."""
    id_of_film = {film: as_id(film) for film in set(reader.movie_ids)}
    films = [id_of_film[film] for film in reader.movie_ids]
    if not reader.times:
        return ClipFacts.of(ids, films)
    start_s, end_s = zip(*reader.times, strict=True)
    return ClipFacts.of(ids, films, start_s, end_s)


def _may_be_other_numbers(
    reader: Reader,
    rows: RowColumns,
    places: npt.NDArray[np.int64],
    others: npt.NDArray[np.int64],
) -> list[str]:
    """Return a warning where the manifest and the files both have clips of a film left over.

    Ids that count from 0 and from 1 are nearly the same ids, each of another clip.

    Args:
        reader: The files.
        rows: The clips of the manifest.
        places: The place of each clip in the files; -1 for none.
        others: The places of clips that the manifest does not have.
    """
    without: dict[str, str] = {}
    for row in np.flatnonzero(places < 0).tolist():
        without.setdefault(rows.movie_ids[row], rows.clip_ids[row])
    for place in others.tolist():
        film = as_id(reader.movie_ids[place])
        left_over = without.get(film, without.get("", ""))
        if not film and without:
            left_over = next(iter(without.values()))
        if left_over:
            return [
                f"{left_over} of the manifest is not in the files, and {reader.clip_ids[place]} of"
                " the files not in the manifest: if one counts the clips of a film from another"
                " number (0 or 1), or writes numbers in another way (1 or 01), the ids that match"
                " may be those of other clips"
            ]
    return []


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


def _films_of(reader: Reader) -> TextColumn:
    """Return the film of each clip; "" for all of them if the files state it of no clip.

    If they state it of some clips only, the others might get another name for the same film.
    """
    films = reader.movie_ids
    without = []
    # A table of texts has no empty ones.
    if not isinstance(films, TextColumn):
        pairs = zip(reader.clip_ids, films, strict=True)
        without = [clip for clip, film in pairs if not film]
    if len(without) == len(films):
        return TextColumn.of(films)
    if not without:
        ids = _as_ids(films)
        if ids is not films:
            ids_of_names(dict.fromkeys(films), "film", reader.where)
        return ids
    n_clips = count(len(reader.clip_ids), "clip")
    raise FixInput(
        f"{len(without)} of {n_clips} without a film: {few(without, 3)}",
        where=reader.where,
        hint="give each clip its movie_id (or a folder of its film), or add --manifest",
    )


def _check_unique(ids: Sequence[str], reader: Reader) -> None:
    """Raise an error for clips that are in the files more than once."""
    if len(set(ids)) == len(ids):
        return
    repeated = [clip for clip, n in Counter(ids).items() if n > 1]
    refuse_if(
        repeated,
        FixInput,
        f"{count(len(repeated), 'clip id')} in several rows of the files",
        where=reader.where,
        hint="keep one row for each id, or name another array of ids with --id-key",
    )


def check_some_known(
    reader: Reader, clips: Clips, manifest: model.Manifest | None
) -> None:
    """Raise an error if the files have clips, and none of those of the manifest."""
    if manifest is None or not reader.clip_ids or (clips.places >= 0).any():
        return
    raise FixInput(
        f"the files have none of the clips of the manifest: here is {reader.clip_ids[0]!r}, there"
        f" {next(iter(manifest.clip_ids), '')!r}",
        where=manifest.name,
        hint="use the same ids in both: --id FORM of manifest import makes those of a manifest, and"
        " --id-key those of the files; in HDF5, text before or after an id stands in --array:"
        " clip='{film}/clip_{id}'",
    )
