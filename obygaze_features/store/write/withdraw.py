"""Withdraw clips from a store: a new version has the reason in place of their features."""

import os
from collections.abc import Iterable, Sequence
from typing import Annotated

import numpy as np

from obygaze_features.core.clip_ids import ClipIds, clip_ids
from obygaze_features.core.console import Progress, Quiet, count
from obygaze_features.core.errors import FixUsage, NotFound
from obygaze_features.core.options import CLIPS, Bar, Option
from obygaze_features.store.format.schema import OK, RowStatus
from obygaze_features.store.read.reader import Store
from obygaze_features.store.write.version import (
    NewVersion,
    VersionDraft,
    folder_to_change,
    new_version,
    now,
    stated_author,
    stated_reason,
    store_to_change,
)


def withdraw(
    store: str | os.PathLike[str],
    *,
    reason: str,
    films: Annotated[Iterable[str] | None, Option("--film")] = None,
    clips: Annotated[ClipIds | None, CLIPS] = None,
    author: str = "",
    progress: Annotated[Progress | None, Bar("withdraw")] = None,
    workspace: str | os.PathLike[str] | None = None,
) -> NewVersion:
    """Withdraw clips or films from a store, as a new version of it.

    The clips stay listed, with the reason and the date in place of their features, in this and
    every later version. They are never extracted again into this store. The earlier versions still
    have the features; `obygaze store purge` makes a store without them.

    Args:
        store: The store: a name or a folder.
        reason: Why they are withdrawn.
        films: All clips of this film, an id.
        clips: These clips, separated by commas, or those in a file: one id a line, or a column
            clip_id.
        author: Who withdraws them. [default: the variable OBYGAZE_AUTHOR]
        progress: Counts blocks.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store withdraw obygaze12-xclip --film tt0108160 --reason "asked for by the owner"
        obygaze store withdraw obygaze12-xclip --clips clips.txt --reason "faces of bystanders"
        obygaze store withdraw obygaze12-xclip --clips tt0108160-012 --reason "a wrong cut"
    """
    root = folder_to_change(store, workspace)
    stated = stated_reason(reason)
    by = stated_author(author)
    if films is None and clips is None:
        raise FixUsage(
            "no clip is named", hint="--film FILM, or --clips ID, or --clips FILE"
        )
    ids = None if clips is None else clip_ids(clips)
    opened = store_to_change(root)
    rows = _rows_to_withdraw(opened, films, ids)
    status_of_row = opened.status().status_of_row
    new_rows = [row for row in rows if not status_of_row.get(row, OK).is_withdrawn]
    movie_ids = opened.movie_ids
    n_films = len({str(movie_ids[row]) for row in new_rows})
    numbers = {"clips": len(new_rows), "films": n_films}
    if not new_rows:
        text = f"{count(len(rows), 'clip')} withdrawn before"
        return NewVersion.of(
            root,
            opened,
            "withdrawn",
            numbers,
            stated,
            text,
            is_new=False,
        )
    with new_version(root, opened) as draft:
        _withdraw_rows(draft, new_rows, stated, progress or Quiet())
        made = draft.publish(
            change="withdrawn", reason=stated, author=by, numbers=numbers
        )
    text = f"{count(len(new_rows), 'clip')} of {count(n_films, 'film')} withdrawn"
    return NewVersion.of(root, made, "withdrawn", numbers, stated, text)


def _rows_to_withdraw(
    store: Store, films: Iterable[str] | None, clips: Iterable[str] | None
) -> list[int]:
    """Return the rows of films and of clips, in order; a clip that is not there is an error."""
    rows: set[int] = set()
    if films is not None:
        rows.update(store.select(films=films).rows.tolist())
    if clips is not None:
        selection = store.select(clips=clips)
        unknown = selection.clip_ids[selection.rows < 0].tolist()
        if unknown:
            raise NotFound(
                f"{count(len(unknown), 'clip')} not in the store, the first is {unknown[0]!r}",
                where=store.location,
                hint="obygaze store info --clips lists its clips",
                details=unknown[:20],
            )
        rows.update(selection.rows.tolist())
    return sorted(rows)


def _withdraw_rows(
    draft: VersionDraft, rows: Sequence[int], reason: str, progress: Progress
) -> None:
    """Write the blocks of some rows again, with fill values in these rows."""
    plan = draft.plan
    withdrawn = RowStatus.withdrawn(reason, now()[:10])
    of_block: dict[int, list[int]] = {}
    for row in rows:
        of_block.setdefault(row // plan.block_rows, []).append(row)
    progress.expect(len(of_block))
    for block, rows_of_block in of_block.items():
        all_rows = range(*plan.block_range(block))
        statuses = [draft.status_of_row.get(row, OK) for row in all_rows]
        for row in rows_of_block:
            statuses[row - all_rows.start] = withdrawn
            draft.sources.pop(row, None)
            draft.makers[row] = None
        arrays = {
            spec.name: draft.base.arrays.read(spec, np.array(all_rows))
            for spec in plan.arrays
        }
        draft.put_block(block, arrays, statuses)
        progress.advance()
    draft.rows.update(rows)
