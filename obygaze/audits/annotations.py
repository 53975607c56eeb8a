"""The audit of annotations: which values of a column are more frequent in one group of clips.

The values of a clip (emotions, relationships, concepts) are joined with | in its cell. Clips of one
film are alike, so they are exchanged only within films.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from obygaze.audits.result import Audit, Plot, Point
from obygaze.films.sampling import require_column
from obygaze_features.core.errors import FixInput
from obygaze_features.manifest import Manifest
from obygaze_features.manifest.expression import CONCEPTS
from obygaze_features.manifest.model import require_films, view_words
from obygaze_models.evaluation.bootstrap import ratio_interval
from obygaze_models.evaluation.group_tests import (
    ALPHA,
    GroupTest,
    compare_groups,
    summary,
    with_holm,
)
from obygaze_models.evaluation.permutation import p_equals
from obygaze_models.text_vectors import (
    in_view,
    select_groups,
)


def audit_annotations(
    manifest: Manifest | str | Path,
    *,
    column: str = "concepts",
    x: str | Path | Sequence[str],
    y: str | Path | Sequence[str],
    workspace: str | Path | None = None,
) -> Audit:
    """Test which values of a column go with a level, such as emotions or concepts.

    For each value, the share of the clips that have it is compared between two groups, X and Y. All
    p-values are exact. If a film has clips of both groups, the reported p-value exchanges clips
    only within films. Holm's correction is over the values. Levels and concepts are those of the
    view of protocols, which the title names.

    Args:
        manifest: The manifest, or its name or path.
        column: The column, with values joined by `|`.
        x: The first group: an expression such as "level == S", a CSV file of clip_id, or ids.
        y: The second group, likewise.
        workspace: The workspace, if it is not the current one.

    Example:
        audit = audit_annotations("obygaze12", x="level == S", y="level == EN")

    Commands:
        obygaze audit annotations obygaze12 --x 'level == S' --y 'level == HN'
        obygaze audit annotations obygaze12 --column emotions --x 'level == S' --y 'level == EN'
        obygaze audit annotations moviegraphs --column relationships --x men.csv --y women.csv
    """
    manifest = in_view(manifest, workspace=workspace)
    require_column(manifest, column)
    group_x, group_y = select_groups((x, y), manifest)
    asked = manifest.header.concepts if column in CONCEPTS else (column,)
    in_groups = [manifest[clip] for clip in (*group_x.clips, *group_y.clips)]
    decided = manifest.with_clips(in_groups).undisputed(asked)
    clips_x = [decided[clip] for clip in group_x.clips if clip in decided]
    clips_y = [decided[clip] for clip in group_y.clips if clip in decided]
    if not clips_x or not clips_y:
        raise FixInput(
            f"annotators differ on {column} in all clips of a group",
            where=manifest.name,
        )
    cells_x = [{*clip.values(column)} for clip in clips_x]
    cells_y = [{*clip.values(column)} for clip in clips_y]
    films_x = [clip.movie_id for clip in clips_x]
    films_y = [clip.movie_id for clip in clips_y]
    values = sorted(set().union(*cells_x, *cells_y))
    if not values:
        message = f"no clip of the groups has a value in column {column!r}"
        raise FixInput(message, where=manifest.name, hint="--column")
    require_films([*films_x, *films_y], manifest.name)
    films = np.array([*films_x, *films_y])
    tests = []
    for value in values:
        has_x = np.array([value in cell for cell in cells_x])
        has_y = np.array([value in cell for cell in cells_y])
        labels = (group_x.name, group_y.name, value, "")
        tests.append(compare_groups(labels, has_x, has_y, films))
    corrected = with_holm(tests)
    rows: list[tuple[object, ...]] = []
    documents = []
    points = []
    for test in corrected:
        document = {"value": test.a, **test.to_json()}
        row: list[object] = [test.a]
        for group, has, of_films in (
            ("x", test.s_x, films_x),
            ("y", test.s_y, films_y),
        ):
            n_clips = int(has.sum())
            share = float(has.mean())
            interval = ratio_interval(has, np.ones(len(has)), of_films, most=1)
            document[f"count_{group}"] = n_clips
            document[f"share_{group}"] = share
            document[f"interval_{group}"] = interval
            row += [n_clips, share, *interval]
            points.append(Point(f"{test.a}, {group.upper()}", share, interval))
        documents.append(document)
        rows.append((*row, *test.p_cells()))
    headers = ["value"]
    for group in "XY":
        headers += [f"n {group}", f"share {group}", f"low {group}", f"high {group}"]
    headers += ["p", "method", "p across films", "Holm"]
    limits = [
        f"X is {group_x.name}, {len(clips_x)} clips; Y is {group_y.name}, {len(clips_y)} clips. "
        "Shares are of all clips of a group, with 95 % intervals over films."
    ]
    n_empty = sum(not cell for cell in [*cells_x, *cells_y])
    if n_empty:
        limits.append(f"{n_empty} of these clips have no value in this column.")
    title = (
        f"Annotations: {column} of {manifest.name}, {view_words(manifest.header.view)}"
    )
    return Audit(
        title=title,
        headers=headers,
        rows=rows,
        answers=summary(corrected, _sentence),
        limits=limits,
        values={
            "source": manifest.name,
            "view": manifest.header.view,
            "column": column,
            "x": group_x.name,
            "y": group_y.name,
            "n_x": len(clips_x),
            "n_y": len(clips_y),
            "n_empty": n_empty,
            "values": documents,
        },
        figure=Plot(title, points, "share of the clips, with 95 % over films"),
    )


def _sentence(test: GroupTest) -> str:
    shares = f"{100 * test.s_x.mean():.1f} % of X, {100 * test.s_y.mean():.1f} % of Y"
    agree = test.within and (test.p < ALPHA) == (test.p_across < ALPHA)
    why = "" if agree else f" {test.explain()}"
    return f"{test.a}: {shares}, two-sided {p_equals(test.p)}.{why}"
