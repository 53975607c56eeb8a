"""The audit of annotations: which values of a column are more frequent in one group of clips.

The values of a clip (emotions, relationships, concepts) are joined with | in its cell. Clips of one
film are similar. So if a film has clips of both groups, the permutation test exchanges clips only
within films. Clips that overlap or lie close to each other, such as windows, depend on each other:
their groups are moved along the clips of each film, so that neighbours stay neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from obygaze.audits.result import Audit, IntervalEnds, Plot, Point
from obygaze_features.core.errors import FixInput
from obygaze_features.core.notebook import unknown_name
from obygaze_features.manifest import Manifest
from obygaze_features.manifest.expression import CONCEPTS
from obygaze_features.manifest.model import (
    CLIP_COLUMNS,
    Clip,
    own_columns,
    require_films,
    view_words,
)
from obygaze_features.manifest.times import Span, spans_in_films
from obygaze_models.evaluation.bootstrap import ratio_interval
from obygaze_models.evaluation.group_tests import (
    ALPHA,
    GroupTest,
    compare_groups,
    compare_neighbours,
    describe_exchange,
    places_of_neighbours,
    summary,
    with_holm,
)
from obygaze_models.evaluation.permutation import p_equals
from obygaze_models.text_vectors import GroupSelection, in_view, select_groups


@dataclass(frozen=True)
class GroupOfClips:
    """The clips of a group, without clips on which annotators differ.

    `spans` has the start and the end of each clip in its film, or None if they are unknown.
    """

    name: str
    clips: Sequence[Clip]
    spans: Sequence[Span | None]

    @property
    def films(self) -> list[str]:
        """The film of each clip."""
        return [clip.movie_id for clip in self.clips]

    def values(self, column: str) -> list[set[str]]:
        """The values of each clip in a column."""
        return [{*clip.values(column)} for clip in self.clips]


@dataclass(frozen=True)
class ValueShares:
    """The test of one value between two groups, and the interval of its share in each group."""

    test: GroupTest
    interval_x: IntervalEnds
    interval_y: IntervalEnds


def audit_annotations(
    manifest: Manifest | str | Path,
    x: str | Path | Sequence[str],
    y: str | Path | Sequence[str],
    *,
    column: str = "concepts",
    workspace: str | Path | None = None,
) -> Audit:
    """Test which values of a column go with a level, such as emotions or concepts.

    For each value, the share of the clips that have it is compared between two groups, X and Y. All
    p-values are exact. If a film has clips of both groups, the reported p-value exchanges clips
    only within films. If clips of a film overlap, or lie less than their own length apart, the
    groups are moved along the clips of each film instead. Holm's correction covers all values.
    Levels and concepts are in the default view of protocols; the title names this view.

    Args:
        manifest: The manifest, or its name or path.
        x: The first group: an expression such as "level == S", a CSV file of clip_id, or ids.
        y: The second group, likewise.
        column: The column, with values joined by `|`.
        workspace: The workspace, if it is not the current one.

    Example:
        audit = audit_annotations("obygaze12", "level == S", "level == EN")
    """
    manifest = in_view(manifest, workspace=workspace)
    require_column(manifest, column)
    group_x, group_y = _decided_groups(manifest, column, (x, y))
    values = compute(group_x, group_y, column)
    return present(values, group_x, group_y, column, manifest)


def require_column(manifest: Manifest, column: str) -> None:
    """Raise an error unless a manifest has a column."""
    known = (*own_columns(manifest.columns), *CLIP_COLUMNS, *CONCEPTS)
    if column not in (*known, *manifest.columns):
        raise unknown_name("column", column, known, where=manifest.name)


def _decided_groups(
    manifest: Manifest,
    column: str,
    asked: tuple[GroupSelection, GroupSelection],
) -> tuple[GroupOfClips, GroupOfClips]:
    """Return both groups, without clips on which annotators differ."""
    named = select_groups(asked, manifest)
    names = manifest.header.concepts if column in CONCEPTS else (column,)
    in_groups = [manifest[clip] for group in named for clip in group.clips]
    decided = manifest.with_clips(in_groups).undisputed(names)
    spans = spans_in_films(manifest)
    groups = []
    for group in named:
        clips = [decided[clip] for clip in group.clips if clip in decided]
        if not clips:
            raise FixInput(
                f"annotators differ on {column} in all clips of the group {group.name}",
                where=manifest.name,
            )
        of_group = [spans.get(clip.clip_id) for clip in clips]
        groups.append(GroupOfClips(group.name, clips, of_group))
    clips_of_groups = chain.from_iterable(group.clips for group in groups)
    if not any(clip.values(column) for clip in clips_of_groups):
        raise FixInput(
            f"no clip of the groups has a value in column {column!r}",
            where=manifest.name,
            hint="pass another column with --column",
        )
    films = [film for group in groups for film in group.films]
    require_films(films, manifest.name)
    return groups[0], groups[1]


def compute(x: GroupOfClips, y: GroupOfClips, column: str) -> list[ValueShares]:
    """Return the share of each value in two groups of clips, with a test of each value.

    Holm's correction covers the tests of all values.
    """
    cells_x = x.values(column)
    cells_y = y.values(column)
    films = np.array([*x.films, *y.films])
    places = places_of_neighbours(films.tolist(), [*x.spans, *y.spans])
    tests = []
    for value in sorted(set().union(*cells_x, *cells_y)):
        has_x = np.array([value in cell for cell in cells_x])
        has_y = np.array([value in cell for cell in cells_y])
        labels = (x.name, y.name, value, "")
        if places is None:
            tests.append(compare_groups(labels, has_x, has_y, films))
        else:
            tests.append(compare_neighbours(labels, has_x, has_y, films, places))
    shares = []
    for test in with_holm(tests):
        interval_x = ratio_interval(test.s_x, np.ones(len(test.s_x)), x.films, most=1)
        interval_y = ratio_interval(test.s_y, np.ones(len(test.s_y)), y.films, most=1)
        shares.append(ValueShares(test, interval_x, interval_y))
    return shares


def present(
    values: Sequence[ValueShares],
    x: GroupOfClips,
    y: GroupOfClips,
    column: str,
    manifest: Manifest,
) -> Audit:
    """Return the audit of the values in two groups: its table, sentences and figure."""
    headers = ["value"]
    for group in "XY":
        headers += [f"n {group}", f"share {group}", f"low {group}", f"high {group}"]
    headers += ["p", "method", "p across films", "Holm"]
    rows = []
    points = []
    documents = []
    for value in values:
        test = value.test
        row: list[object] = [test.a]
        document: dict[str, Any] = {"value": test.a, **test.to_json()}
        for group, has, interval in (
            ("x", test.s_x, value.interval_x),
            ("y", test.s_y, value.interval_y),
        ):
            n_clips = int(has.sum())
            share = float(has.mean())
            row += [n_clips, share, *interval]
            points.append(Point(f"{test.a}, {group.upper()}", share, interval))
            document[f"count_{group}"] = n_clips
            document[f"share_{group}"] = share
            document[f"interval_{group}"] = interval
        rows.append((*row, *test.p_cells()))
        documents.append(document)
    n_empty = sum(not cell for cell in [*x.values(column), *y.values(column)])
    title = (
        f"Annotations: {column} of {manifest.name}, {view_words(manifest.header.view)}"
    )
    return Audit(
        title=title,
        headers=headers,
        rows=rows,
        answers=summary([value.test for value in values], _sentence),
        limits=list(_limits(x, y, n_empty)),
        values={
            "source": manifest.name,
            "view": manifest.header.view,
            "column": column,
            "x": x.name,
            "y": y.name,
            "n_x": len(x.clips),
            "n_y": len(y.clips),
            "n_empty": n_empty,
            "values": documents,
        },
        figure=Plot(title, points, "share of the clips, with 95 % interval over films"),
    )


def _limits(x: GroupOfClips, y: GroupOfClips, n_empty: int) -> Iterator[str]:
    """Yield the definition of the groups, and the number of clips without values."""
    yield (
        f"X is {x.name}, {len(x.clips)} clips; Y is {y.name}, {len(y.clips)} clips. Shares are of"
        " all clips of a group, with 95 % intervals over films."
    )
    spans = [*x.spans, *y.spans]
    places = places_of_neighbours([*x.films, *y.films], spans)
    yield describe_exchange(places is not None, spans)
    if n_empty:
        yield f"{n_empty} of these clips have no value in this column."


def _sentence(test: GroupTest) -> str:
    shares = f"{100 * test.s_x.mean():.1f} % of X, {100 * test.s_y.mean():.1f} % of Y"
    agree = test.within is not None
    if agree and test.p_across is not None:
        agree = (test.p < ALPHA) == (test.p_across < ALPHA)
    why = "" if agree else f" {test.explain()}"
    return f"{test.a}: {shares}, two-sided {p_equals(test.p)}.{why}"
