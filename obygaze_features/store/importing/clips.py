"""Match clips of files with rows of the new store, and compare their films and times."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput
from obygaze_features.core.made_ids import ascii_id
from obygaze_features.core.refusal import refuse_if
from obygaze_features.manifest.clip_table import FRAME_COLUMNS, ClipTable, find_rows
from obygaze_features.manifest.frame_rate import parse_frame_rate
from obygaze_features.manifest.io import as_id, ids_of_names
from obygaze_features.manifest.model import Manifest
from obygaze_features.manifest.same_clips import same_clips
from obygaze_features.manifest.spans import FILM_TIMES, FRAMES
from obygaze_features.store.importing.files import (
    FRAME_KEYS,
    TIME_KEYS,
    FeatureFiles,
)
from obygaze_features.store.records import WITHOUT_MANIFEST, ManifestMark
from obygaze_features.store.rows import Row, RowColumns

ID_LETTERS = f"{string.ascii_letters}{string.digits}._+-".encode()
ID_LENGTH = 200


class Clips(NamedTuple):
    """The rows of the new store, and the places of their clips in the files.

    `places` has for each row the number of its clip in the files; -1 if the files do not have it.
    """

    manifest: ManifestMark
    rows: RowColumns
    places: npt.NDArray[np.int64]
    not_in_manifest: Sequence[str] = ()
    notes: Sequence[str] = ()


def match_clips(files: FeatureFiles, manifest: Manifest | None) -> Clips:
    """Return the rows of the new store: the clips of the manifest, or else the clips of the files.

    Without a manifest, the clips get the ids that `manifest import` gives to the same names. If a
    table with these names is imported as a manifest, its clips are therefore found in the store.
    """
    films = _as_ids(files.films)
    unknown = np.full(len(files.names), np.nan)
    for first, last in (TIME_KEYS, FILM_TIMES, FRAMES):
        is_reversed = files.spans.get(last, unknown) < files.spans.get(first, unknown)
        refuse_if(
            [files.names[place] for place in np.flatnonzero(is_reversed).tolist()],
            FixInput,
            f"{last} is before {first}",
            where=files.where,
            hint="correct the file",
        )
    if manifest is None:
        ids_of_names(dict.fromkeys(filter(None, files.films)), "film", files.where)
        ids = _as_ids(files.names)
        _refuse_case(ids, files.where)
        rows = _make_rows(files, ids, films)
        places = np.arange(len(ids))
        notes = (
            []
            if ids == files.names
            else ["changed the ids of clips as `manifest import` changes them"]
        )
        mark = ManifestMark(WITHOUT_MANIFEST, rows.clips_sha256)
        return Clips(mark, rows, places, notes=notes)
    ids = _ids_in_manifest(files, manifest)
    refuse_if(
        [clip for clip, n in Counter(ids).items() if n > 1],
        FixInput,
        "several rows of the files have the same clip id",
        where=files.where,
        hint="keep one row for each id, or name another array of ids with --id-key",
    )
    places = find_rows(manifest.clip_ids, ids)
    known = np.flatnonzero(places >= 0)
    if not len(known):
        raise FixInput(
            f"no clip of the manifest is in the files: the files have {few(files.names, 1)},"
            f" the manifest has {few(manifest.clip_ids, 1)}",
            where=manifest.name,
            hint="use the same ids in both: pass --id FORM to manifest import, or --id-key here;"
            " for text around an id in HDF5, pass --array clip='clip_{id}'",
        )
    times = {key: files.spans.get(key) for key in (*TIME_KEYS, *FILM_TIMES)}
    frames = dict(zip(FRAME_COLUMNS, _frame_numbers(files).T, strict=True))
    stated = ClipTable.of(ids, films, **times, **frames)
    clips = ClipTable.of_clips(list(manifest))
    found = same_clips(stated.some(places[known]), clips, known)
    found.require(
        ("the files", "the manifest"),
        where=files.where,
        hint="use the manifest of the clips in these files",
        tell=False,
    )
    notes = []
    if found.n_by_ids:
        notes.append(
            f"{count(found.n_by_ids, 'clip')} matched by id only: files and manifest share no"
            " movie_id, start_s or end_s"
        )
    others = [ids[place] for place in np.setdiff1d(np.arange(len(ids)), places)]
    if others and len(known) < len(places):
        notes.append(
            "files and manifest each have clips that are missing in the other; check whether both"
            " number clips from 0 or both from 1"
        )
    rows = RowColumns.of([Row.of_clip(clip) for clip in manifest])
    mark = ManifestMark(manifest.name, rows.clips_sha256)
    return Clips(mark, rows, places, others, notes)


def _refuse_case(ids: Sequence[str], where: str) -> None:
    """Raise an error for clip ids that differ only in case, which no manifest can have."""
    letters = "".join(ids)
    if letters == letters.casefold() or len({*map(str.casefold, ids)}) == len({*ids}):
        return
    spelling: dict[str, str] = {}
    both = []
    for one in ids:
        first = spelling.setdefault(one.casefold(), one)
        if first != one:
            both.append(f"{first} and {one}")
    refuse_if(
        both,
        FixInput,
        "clip ids that differ only in case",
        where=where,
        hint="use one spelling of each clip, and other ids for other clips",
    )


def _as_ids(texts: Sequence[str]) -> Sequence[str]:
    """Return texts in the spelling of ids; if all texts are valid ids, return them unchanged."""
    letters = "".join(texts)
    # Fast path for a million ids: texts of only these letters, with a letter or digit first.
    are_ids = letters.isascii() and not letters.encode().translate(None, ID_LETTERS)
    are_ids = are_ids and max(map(len, texts), default=0) <= ID_LENGTH
    firsts = {text[:1] for text in texts}
    if are_ids and firsts.isdisjoint({"", *"._+-"}):
        return texts
    id_of_text = {text: text and as_id(text) for text in dict.fromkeys(texts)}
    return [id_of_text[text] for text in texts]


def _frame_numbers(files: FeatureFiles) -> npt.NDArray[np.float64]:
    """Return the first frame, last frame and frame rate of each clip; NaN if not stated."""
    unknown = np.full(len(files.names), np.nan)
    if files.spans.keys().isdisjoint(FRAME_KEYS):
        return np.stack([unknown] * len(FRAME_KEYS), axis=1)
    columns = [files.spans.get(key, unknown) for key in FRAME_KEYS]
    first, last, _ = columns
    is_counted = (first >= 0) & (first <= last) & (first % 1 == 0) & (last % 1 == 0)
    frames = np.where(is_counted[:, None], np.stack(columns, axis=1), np.nan)
    for rate in np.unique(frames[:, 2]).tolist():
        frames[frames[:, 2] == rate, 2] = parse_frame_rate(rate) or np.nan
    return frames


def _make_rows(
    files: FeatureFiles, ids: Sequence[str], films: Sequence[str]
) -> RowColumns:
    """Return the rows of the clips in the files, with the facts that the files state."""
    first, last, rate = _frame_numbers(files).T
    columns = {
        **{
            key: files.spans[key]
            for key in (*TIME_KEYS, *FILM_TIMES)
            if key in files.spans
        },
        "start_frames": first,
        "end_frames": last,
        "framerates": rate,
    }
    stated = {}
    for name, column in columns.items():
        is_unknown = np.isnan(column)
        if not is_unknown.all():
            cells = column.astype(object)
            cells[is_unknown] = None
            stated[name] = cells.tolist()
    return replace(RowColumns.of_clips(ids, films), **stated)


def _ids_in_manifest(files: FeatureFiles, manifest: Manifest) -> list[str]:
    """Return the clip id of each name in the files, or the name if the manifest has no such clip.

    A name is searched as it is, in the spelling that manifests use for ids, and as `FILM/NAME` in
    that spelling. The name of a file of the released features is the path of a video, `FILM/VIDEO`.
    If the whole video is one clip of the manifest, the name gets the id of this clip.
    """
    clips_of_path: dict[str, list[str]] = {}
    for clip in manifest:
        if "/" in clip.video:
            path = PurePosixPath(clip.video).with_suffix("").as_posix()
            is_part = (clip.start_s, clip.end_s) != (None, None)
            clips_of_path.setdefault(path, []).extend([clip.clip_id] * (1 + is_part))
    ids = []
    for name, film in zip(files.names, files.films, strict=True):
        # If a name occurs in two films, the reader has put the film before the names.
        in_film = f"{film}/{name.removeprefix(f'{film}-')}" if film else name
        of_path = clips_of_path.get(in_film, [])
        known = (name, as_id(name), ascii_id(in_film), *of_path * (len(of_path) == 1))
        ids.append(next((one for one in known if one in manifest), name))
    return ids
