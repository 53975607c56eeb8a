"""Add clips to a sealed store, or replace rows of it, as a new version, from another store.

The other store is filled by any extraction, which may be stopped and resumed. It has the same
recipe and arrays, and only the clips that are new or made again.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from obygaze_features.core.console import Progress, Quiet, count
from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.store.format.records import CLIPS_FILE
from obygaze_features.store.format.schema import (
    ID_ARRAYS,
    OK,
    VERSIONS_FOLDER,
    FileMark,
    RowStatus,
)
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.write.create import clips_csv, id_files
from obygaze_features.store.write.levels import values_of_rows
from obygaze_features.store.write.version import (
    NewVersion,
    VersionDraft,
    new_version,
    stated_author,
    stated_reason,
    store_to_change,
)

# Where the rows of a version are extracted before they are part of it.
DRAFT_OF_CLIPS = f"{VERSIONS_FOLDER}/draft-clips"
DRAFT_OF_ROWS = f"{VERSIONS_FOLDER}/draft-rows"
DRAFT_OF_LEVELS = f"{VERSIONS_FOLDER}/draft-levels"
DRAFTS = (DRAFT_OF_CLIPS, DRAFT_OF_ROWS, DRAFT_OF_LEVELS)


def store_of_draft(path: Path | str) -> Path | None:
    """Return the store of whose next version a draft has the rows; None for other stores."""
    for name in DRAFTS:
        text = Path(path).as_posix()
        if text.endswith(f"/{name}"):
            return Path(text.removesuffix(f"/{name}"))
    return None


def is_draft_of_levels(path: Path | str) -> bool:
    """Return whether a store has further levels for the next version of another one."""
    return Path(path).as_posix().endswith(f"/{DRAFT_OF_LEVELS}")


@dataclass(frozen=True)
class _Addition:
    """Where the rows of another store will be in the new version.

    Args:
        source: The other store.
        row_of: Its rows, by the row in the new version.
        new_clips: The clips that are appended, with their films.
    """

    source: Store
    row_of: Mapping[int, int]
    new_clips: Sequence[tuple[str, str]]


def add_rows(
    root: Path | str,
    source: Path | str | Store,
    *,
    reason: str,
    author: str = "",
    manifest: tuple[str, str] | None = None,
    progress: Progress | None = None,
) -> NewVersion:
    """Add the clips of another store to a sealed one, and replace those that it has.

    The other store has the same recipe and arrays; it need not be sealed. Clips that are withdrawn
    stay so, and a row that failed again in the same way is not changed.

    Args:
        root: The folder of the store.
        source: The other store.
        reason: Why the version is made.
        author: Who makes it.
        manifest: The name of the manifest and the hash of its clips, where they are others now.
        progress: Counts blocks.
    """
    folder = Path(root)
    stated = stated_reason(reason)
    by = stated_author(author)
    opened = store_to_change(folder)
    other = open_store(source)
    _require_same_kind_of_rows(opened, other)
    addition = _addition_of(opened, other)
    if not addition.row_of:
        text = "no row is new or other than before"
        return NewVersion.of(
            folder, opened, "rows", {"rows": 0}, stated, text, is_new=False
        )
    n_new = len(addition.new_clips)
    n_replaced = len(addition.row_of) - n_new
    change = "rows"
    numbers = {"rows": n_replaced}
    if n_new:
        change = "clips"
        n_films = len({film for _, film in addition.new_clips})
        numbers = {"clips": n_new, "films": n_films}
        if n_replaced:
            numbers["rows"] = n_replaced
    with new_version(folder, opened) as draft:
        _append_clips(draft, addition.new_clips, manifest)
        _write_rows(draft, addition, progress or Quiet())
        made = draft.publish(change=change, reason=stated, author=by, numbers=numbers)
    texts = []
    if n_new:
        films = count(numbers["films"], "film")
        texts.append(f"{count(n_new, 'clip')} of {films} added")
    if n_replaced:
        texts.append(f"{count(n_replaced, 'row')} replaced")
    return NewVersion.of(folder, made, change, numbers, stated, ", ".join(texts))


def _require_same_kind_of_rows(store: Store, other: Store) -> None:
    """Raise an error unless another store has the recipe and the arrays of a store."""
    store.recipe.require(
        other.recipe,
        where=store.location,
        message="rows of another recipe are not added",
        sides=("in the store", "in the new rows"),
    )
    needed = [spec for spec in store.plan.arrays if not spec.derived_from]
    given = [spec for spec in other.plan.arrays if not spec.derived_from]
    if {spec.name: spec for spec in given} != {spec.name: spec for spec in needed}:
        ours = ", ".join(spec.name for spec in store.plan.arrays)
        theirs = ", ".join(spec.name for spec in other.plan.arrays)
        raise Mismatch(
            f"the arrays are not the same: {ours} in the store, {theirs} in the new rows",
            where=store.location,
            hint="the same --arrays as in the store",
        )


def _addition_of(store: Store, other: Store) -> _Addition:
    """Return the rows of another store that are new, or other than in a store."""
    row_of_clip = {clip: row for row, clip in enumerate(store.clip_ids.tolist())}
    film_of_clip = dict(
        zip(store.clip_ids.tolist(), store.movie_ids.tolist(), strict=True)
    )
    statuses = store.status().status_of_row
    other_statuses = other.status().status_of_row
    row_of: dict[int, int] = {}
    new_clips: list[tuple[str, str]] = []
    pairs = zip(other.clip_ids.tolist(), other.movie_ids.tolist(), strict=True)
    for other_row, (clip, film) in enumerate(pairs):
        new_status = other_statuses.get(other_row, OK)
        if new_status.state == "missing":
            raise FixInput(
                f"the new rows are not complete: {clip} is missing",
                where=other.location,
                hint="the same command again; it continues",
            )
        row = row_of_clip.get(clip)
        if row is None:
            row_of[store.n_clips + len(new_clips)] = other_row
            new_clips.append((clip, film))
            continue
        if film_of_clip[clip] != film:
            raise Mismatch(
                f"clip {clip!r} is of the film {film_of_clip[clip]!r}, not {film!r}",
                where=store.location,
            )
        old_status = statuses.get(row, OK)
        is_same = old_status == new_status and (
            not old_status.is_ok or _is_same_row(store, row, other, other_row)
        )
        if not (old_status.is_withdrawn or is_same):
            row_of[row] = other_row
    return _Addition(other, row_of, new_clips)


def _is_same_row(store: Store, row: int, other: Store, other_row: int) -> bool:
    """Return whether a row has the same source and the same numbers in another store."""
    if store.commits.source(row) != other.commits.source(other_row):
        return False
    for spec in store.plan.arrays:
        if spec.derived_from:
            continue
        values = store.arrays.read(spec, np.array([row]))
        other_values = other.arrays.read(spec, np.array([other_row]))
        if values.tobytes() != other_values.tobytes():
            return False
    return True


def _append_clips(
    draft: VersionDraft,
    new_clips: Sequence[tuple[str, str]],
    manifest: tuple[str, str] | None,
) -> None:
    """Write store.json, the ids and the metadata of arrays with more rows."""
    plan = draft.plan
    if not new_clips:
        return
    clip_ids = [*draft.base.clip_ids.tolist(), *(clip for clip, _ in new_clips)]
    movie_ids = [*draft.base.movie_ids.tolist(), *(film for _, film in new_clips)]
    files: dict[str, bytes] = {CLIPS_FILE: clips_csv(clip_ids, movie_ids)}
    documents = dict(plan.zarr)
    for key, data in id_files(clip_ids, movie_ids).items():
        files[f"data.zarr/{key}"] = data
        if key.endswith("zarr.json"):
            documents[key] = json.loads(data)
    for spec in plan.arrays:
        # The chunks stay as they are, whichever version of this program made them.
        key = f"{spec.name}/zarr.json"
        documents[key] = {**plan.zarr[key], "shape": [len(clip_ids), *spec.tail_shape]}
        files[f"data.zarr/{key}"] = json.dumps(documents[key], indent=2).encode("utf-8")
    is_id_file = tuple(f"data.zarr/{name}/" for name in ID_ARRAYS)
    marks = {
        name: mark
        for name, mark in plan.files.items()
        if not name.startswith(is_id_file)
    }
    for name, data in files.items():
        marks[name] = FileMark.of(data)
        draft.put(name, [data])
    name, sha256 = manifest or (plan.manifest_name, plan.manifest_sha256)
    draft.replace_plan(
        replace(
            plan,
            n_clips=len(clip_ids),
            manifest_name=name,
            manifest_sha256=sha256,
            files=marks,
            zarr=documents,
        )
    )


def _write_rows(draft: VersionDraft, addition: _Addition, progress: Progress) -> None:
    """Write the blocks that have a row of the other store."""
    plan = draft.plan
    source = addition.source
    n_before = draft.base.n_clips
    blocks = sorted({row // plan.block_rows for row in addition.row_of})
    progress.expect(len(blocks))
    other_statuses = source.status().status_of_row
    for block in blocks:
        rows = range(*plan.block_range(block))
        taken = [row for row in rows if row in addition.row_of]
        old = [row for row in rows if row < n_before]
        other_rows = np.array([addition.row_of[row] for row in taken], dtype=np.int64)
        arrays = {}
        for spec in plan.arrays:
            values = np.empty((len(rows), *spec.tail_shape), dtype=spec.dtype)
            values[: len(old)] = draft.base.arrays.read(spec, np.array(old, np.int64))
            indices = np.array(taken, dtype=np.int64) - rows.start
            values[indices] = values_of_rows(source, spec, other_rows)
            arrays[spec.name] = values
        statuses = [draft.status_of_row.get(row, OK) for row in rows]
        for row in taken:
            other_row = addition.row_of[row]
            status = other_statuses.get(other_row, RowStatus())
            statuses[row - rows.start] = status
            _note_row(draft, source, row, other_row)
        draft.put_block(block, arrays, statuses)
        draft.rows.update(taken)
        progress.advance()
    draft.add_work_of(source)


def _note_row(draft: VersionDraft, source: Store, row: int, other_row: int) -> None:
    """Take over what a row was made from, and by what, without the name of its machine."""
    recorded = source.commits.source(other_row)
    draft.sources.pop(row, None)
    if recorded is not None:
        draft.sources[row] = recorded
    maker = source.commits.maker(other_row)
    draft.makers[row] = None if maker is None else replace(maker, host="")
