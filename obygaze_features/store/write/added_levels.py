"""Add arrays that were extracted later to a sealed store, as a new version of it.

They come from another store of the same backbone, settings and videos, filled by any extraction. It
differs from the sealed one in its levels alone, so that both together have the recipe that one
extraction of all levels would have.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import Progress, Quiet, count
from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.store.format.schema import OK, ArraySpec, RowSource
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.write.levels import add_arrays
from obygaze_features.store.write.version import (
    NewVersion,
    new_version,
    stated_author,
    stated_reason,
    store_to_change,
)

MAX_NAMED_CLIPS = 5


def add_levels(
    root: Path | str,
    source: Path | str | Store,
    *,
    reason: str,
    author: str = "",
    progress: Progress | None = None,
) -> NewVersion:
    """Add the arrays of another store that a sealed one does not have.

    Each clip with features must have the new arrays too, of the same frames of the same video.

    Args:
        root: The folder of the store.
        source: The other store; it need not be sealed.
        reason: Why the version is made.
        author: Who makes it.
        progress: Counts blocks.
    """
    folder = Path(root)
    stated = stated_reason(reason)
    by = stated_author(author)
    opened = store_to_change(folder)
    other = open_store(source)
    opened.recipe.with_levels_of(other.recipe).require(
        other.recipe,
        where=opened.location,
        message="levels of another recipe are not added",
        sides=("in the store", "in the new levels"),
    )
    present = {spec.name: spec for spec in opened.plan.arrays}
    specs = [spec for spec in other.plan.arrays if spec.name not in present]
    if not specs:
        text = "it has these arrays"
        return NewVersion.of(
            folder, opened, "levels", {"levels": 0}, stated, text, is_new=False
        )
    row_of = _rows_with_levels(opened, other)
    _require_same_frames(opened, other, row_of)

    def values_of(rows: npt.NDArray[np.int64]) -> Mapping[str, npt.NDArray[Any]]:
        has_levels = [row in row_of for row in rows.tolist()]
        other_rows = [row_of[row] for row in rows.tolist() if row in row_of]
        values = {}
        for spec in specs:
            values[spec.name] = np.zeros((len(rows), *spec.tail_shape), spec.dtype)
            read = other.arrays.read(spec, np.array(other_rows, dtype=np.int64))
            values[spec.name][has_levels] = read
        return values

    numbers = {"levels": len(specs)}
    kinds = map(str, other.commits.made_by().kinds)
    with new_version(folder, opened) as draft:
        add_arrays(
            draft,
            specs,
            values_of,
            progress or Quiet(),
            recipe=opened.recipe.and_levels_of(other.recipe),
        )
        draft.add_work_of(other)
        made = draft.publish(
            change="levels",
            reason=stated,
            author=by,
            numbers=numbers,
            made_by="; ".join(kinds),
        )
    noun = "array" if len(specs) == 1 else "arrays"
    names = ", ".join(spec.name for spec in specs)
    text = f"the {noun} {names} added for {count(len(row_of), 'clip')}"
    return NewVersion.of(folder, made, "levels", numbers, stated, text)


def _rows_with_levels(store: Store, other: Store) -> dict[int, int]:
    """Return the row in the other store of each row with features.

    Raise an error where the other store has no features of one of these.
    """
    statuses = store.status().status_of_row
    other_statuses = other.status().status_of_row
    other_row_of = {
        clip_and_film: row for row, clip_and_film in enumerate(_clips_of(other))
    }
    row_of: dict[int, int] = {}
    without: list[str] = []
    for row, clip_and_film in enumerate(_clips_of(store)):
        if not statuses.get(row, OK).is_ok:
            continue
        other_row = other_row_of.get(clip_and_film)
        if other_row is None or not other_statuses.get(other_row, OK).is_ok:
            without.append(clip_and_film[0])
        else:
            row_of[row] = other_row
    if without:
        raise FixInput(
            f"{count(len(without), 'clip')} with features have none of the new levels: "
            f"{_some_of(without)}",
            where=other.location,
            hint="extract them too; a version has each of its arrays for the same clips",
        )
    return row_of


def _require_same_frames(store: Store, other: Store, row_of: Mapping[int, int]) -> None:
    """Raise an error unless both stores were made from the same frames of the same videos."""
    changed: list[str] = []
    shared = [spec for spec in store.plan.arrays if _is_shared(spec, other)]
    clips = store.clip_ids
    rows_of_block = store.plan.block_rows
    rows = sorted(row_of)
    for first in range(0, len(rows), rows_of_block):
        ours = np.array(rows[first : first + rows_of_block], dtype=np.int64)
        theirs = np.array([row_of[row] for row in ours.tolist()], dtype=np.int64)
        is_same = np.ones(len(ours), dtype=bool)
        for spec in shared:
            values = store.arrays.read(spec, ours).reshape(len(ours), -1)
            other_values = other.arrays.read(spec, theirs).reshape(len(ours), -1)
            is_equal = (values == other_values) | (
                np.isnan(values) & np.isnan(other_values)
            )
            is_same &= is_equal.all(axis=1)
        for row, other_row, same in zip(
            ours.tolist(), theirs.tolist(), is_same.tolist(), strict=True
        ):
            source = store.commits.source(row)
            other_source = other.commits.source(other_row)
            if not same or not _is_same_video(source, other_source):
                changed.append(str(clips[row]))
    if changed:
        raise Mismatch(
            f"{count(len(changed), 'clip')} of the new levels have other frames or another video: "
            f"{_some_of(changed)}",
            where=store.location,
            hint="obygaze extract run --changed brings the store up to date first",
        )


def _is_shared(spec: ArraySpec, other: Store) -> bool:
    """Whether an array says which frames a row was made from, and the other store has it too."""
    return not spec.is_feature_array and spec in other.plan.arrays


def _is_same_video(source: RowSource | None, other: RowSource | None) -> bool:
    """Return whether two rows are of one video, as far as it was recorded."""
    if source is None or other is None:
        return True
    if None in (source.quick_sha256, other.quick_sha256):
        return True
    ours = (source.n_bytes, source.quick_sha256, source.start_s, source.end_s)
    return ours == (other.n_bytes, other.quick_sha256, other.start_s, other.end_s)


def _clips_of(store: Store) -> list[tuple[str, str]]:
    """Return the clips of a store, each with its film."""
    return list(zip(store.clip_ids.tolist(), store.movie_ids.tolist(), strict=True))


def _some_of(clips: Sequence[str]) -> str:
    shown = ", ".join(clips[:MAX_NAMED_CLIPS])
    n_more = len(clips) - MAX_NAMED_CLIPS
    return f"{shown} and {n_more} more" if n_more > 0 else shown
