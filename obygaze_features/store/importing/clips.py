"""Which clip of imported files is which row of the new store."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput
from obygaze_features.core.file_names import composed
from obygaze_features.manifest import model
from obygaze_features.manifest.io import ID, as_id, ids_of_names
from obygaze_features.manifest.same_clip import (
    UNKNOWN,
    Identity,
    Times,
    compare_clips,
    words_and_numbers,
)
from obygaze_features.store.identity import another_clip, identity_of
from obygaze_features.store.importing.formats import FORMATS
from obygaze_features.store.importing.reader import BadRow, Reader
from obygaze_features.store.layout import TIMES_OF_WINDOWS
from obygaze_features.store.records import (
    UNKNOWN_FILM,
    WITHOUT_MANIFEST,
    ManifestMark,
    film_of_id,
)
from obygaze_features.store.rows import Row, RowColumns
from obygaze_features.store.text_columns import TextColumn

# The ids of a manifest with which an id is compared: each takes some microseconds.
MOST_COMPARED = 10_000


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
    reader = replace(reader, times=_times_of_windows(reader) or reader.times)
    names = _Names(manifest, reader.clip_ids)
    ids_in_files = list(map(names.id_of, reader.clip_ids, reader.movie_ids))
    _check_unique(ids_in_files, reader)
    place_of_clip = {clip_id: place for place, clip_id in enumerate(ids_in_files)}
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
        in_files = identity_in(reader, place, here.clip_id)
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
    if n_by_ids:
        words = (
            "matched by the ids alone: the files have no movie_id, which says the film"
        )
        notes.append(f"{count(n_by_ids, 'clip')} {words}")
    if n_in_films:
        words = "matched by film and id alone: no times were compared"
        notes.append(f"{count(n_in_films, 'clip')} {words}")
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
    )


def _times_of_windows(reader: Reader) -> list[Times]:
    """Return start and end of each window in an export of a store of windows, else nothing.

    Windows of all grids have the same ids.
    """
    if any(reader.dims.get(name) != () for name in TIMES_OF_WINDOWS):
        return []
    places = np.arange(len(reader.clip_ids))
    columns = []
    for name in TIMES_OF_WINDOWS:
        found = reader.columns[name].read(places)
        columns.append(
            [None if isinstance(one, BadRow) else float(one) for one in found]
        )
    return list(zip(*columns, strict=True))


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


def identity_in(reader: Reader, place: int, clip_id: str) -> Identity:
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

    These are its id, the name of its video if it is all of that, and what becomes its id by the
    rule of manifests, also after its film, as in a path: `FILM/ID`. A name of two clips is none. A
    clip whose id the files have takes no other name. Where the files have no id of the manifest,
    the words and numbers of an id are such a name.
    """

    def __init__(self, manifest: model.Manifest, in_files: Sequence[str]) -> None:
        self.ids = manifest.by_id
        self.named = self.ids.keys() & set(in_files)
        self.respelled: list[str] = []
        clips_of_name: dict[_Name, set[str]] = {}
        for clip in manifest:
            # The features of a file are not those of a part of it.
            is_whole = (clip.start_s, clip.end_s) == (None, None)
            video = Path(clip.video).stem if is_whole else ""
            names: list[_Name] = [composed(clip.clip_id)]
            if video:
                names.append(composed(video))
            if not self.named:
                names.append(words_and_numbers(clip.clip_id))
            for known_name in names:
                clips_of_name.setdefault(known_name, set()).add(clip.clip_id)
        self.clip_of_name: dict[_Name, str] = {}
        for known_name, clips in clips_of_name.items():
            if len(clips) == 1:
                (self.clip_of_name[known_name],) = clips

    def id_of(self, name: str, film: str | None) -> str:
        """Return the id of the clip of a name, or the name where there is none."""
        # Where two films have one name, the files' reader has put the film before it.
        in_film = f"{film}/{name.removeprefix(f'{film}-')}" if film else name
        by_rule = model.ascii_id(name)
        known_names: list[_Name] = [name, composed(name), by_rule]
        known_names += [model.ascii_id(in_film), words_and_numbers(name)]
        for known_name in known_names:
            clip_id = self.clip_of_name.get(known_name, "")
            if clip_id and (clip_id == name or clip_id not in self.named):
                if not isinstance(known_name, str):
                    self.respelled.append(f"{name!r} is {clip_id!r}")
                return clip_id
            if isinstance(known_name, str) and known_name in self.ids:
                return known_name
        return name


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


def check_some_known(
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
