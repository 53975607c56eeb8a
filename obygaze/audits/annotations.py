"""The audit of annotations: which values of a column are more frequent in one group of clips.

The values of a clip (emotions, relationships, concepts) are joined with | in its cell. Clips of one
film are alike, so they are exchanged only within films.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from obygaze.audits.functions import CONCEPTS_COLUMN
from obygaze.audits.result import (
    Audit,
    Finding,
    IntervalEnds,
)
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
    GroupSelection,
    in_view,
    select_groups,
)


@dataclass(frozen=True, eq=False, repr=False)
class AnnotationAudit(Audit):
    """The test of each value of a column between two groups of clips, corrected together.

    `intervals` has, for each test, the 95 % intervals of the shares of both groups over films.
    """

    source: str
    view: str
    column: str
    n_empty: int
    tests: tuple[GroupTest, ...]
    intervals: tuple[tuple[IntervalEnds, IntervalEnds], ...]

    def to_json(self) -> dict[str, Any]:
        """Return the counts, shares and p-values of each value."""
        values = []
        for test, (in_x, in_y) in zip(self.tests, self.intervals, strict=True):
            tested = test.to_json()
            values.append(
                {
                    "value": test.a,
                    "count_x": int(test.s_x.sum()),
                    "count_y": int(test.s_y.sum()),
                    "share_x": float(test.s_x.mean()),
                    "share_y": float(test.s_y.mean()),
                    "interval_x": in_x,
                    "interval_y": in_y,
                    "p": tested["p"],
                    "p_blocked": tested["p_blocked"],
                    "verdict": tested["verdict"],
                    "p_holm": tested["p_holm"],
                    "blocks": tested["blocks"],
                    "why": tested["why"],
                }
            )
        first = self.tests[0]
        groups = {
            "x": first.x,
            "y": first.y,
            "n_x": len(first.s_x),
            "n_y": len(first.s_y),
        }
        about = {"source": self.source, "view": self.view, "column": self.column}
        return {**about, **groups, "n_empty": self.n_empty, "values": values}

    def finding(self) -> Finding:
        """Return one row per value, and sentences with the results."""
        first = self.tests[0]
        rows = list[tuple[object, ...]]()
        for test, (in_x, in_y) in zip(self.tests, self.intervals, strict=True):
            x = (int(test.s_x.sum()), float(test.s_x.mean()))
            y = (int(test.s_y.sum()), float(test.s_y.mean()))
            rows.append((test.a, *x, *in_x, *y, *in_y, *test.p_cells()))
        sentences = [
            f"X is {first.x}, {len(first.s_x)} clips; Y is {first.y}, {len(first.s_y)} clips. "
            "Shares are of all clips of a group, with 95 % intervals over films."
        ]
        if self.n_empty:
            sentences.append(
                f"{self.n_empty} of these clips have no value in this column."
            )
        headers = ["value"]
        for group in "XY":
            headers += [f"n {group}", f"share {group}", f"low {group}", f"high {group}"]
        headers += ["p", "method", "p across films", "Holm"]
        title = f"Annotations: {self.column} of {self.source}, {view_words(self.view)}"
        sentences += summary(self.tests, _sentence)
        return Finding(title, tuple(headers), tuple(rows), sentences=tuple(sentences))


def audit_annotations(
    manifest: Manifest | str | Path,
    *,
    column: str = CONCEPTS_COLUMN,
    x: GroupSelection,
    y: GroupSelection,
    workspace: str | Path | None = None,
) -> AnnotationAudit:
    """Test which values of a column go with a level, such as emotions or concepts."""
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
    intervals = []
    for value in values:
        has_x = np.array([value in cell for cell in cells_x])
        has_y = np.array([value in cell for cell in cells_y])
        labels = (group_x.name, group_y.name, value, "")
        tests.append(compare_groups(labels, has_x, has_y, films))
        in_x = ratio_interval(has_x, np.ones(len(has_x)), films_x, most=1)
        in_y = ratio_interval(has_y, np.ones(len(has_y)), films_y, most=1)
        intervals.append((in_x, in_y))
    n_empty = sum(not cell for cell in [*cells_x, *cells_y])
    return AnnotationAudit(
        source=manifest.name,
        view=manifest.header.view,
        column=column,
        n_empty=n_empty,
        tests=with_holm(tests),
        intervals=tuple(intervals),
    )


def _sentence(test: GroupTest) -> str:
    shares = f"{100 * test.s_x.mean():.1f} % of X, {100 * test.s_y.mean():.1f} % of Y"
    agree = test.within and (test.p < ALPHA) == (test.p_across < ALPHA)
    why = "" if agree else f" {test.explain()}"
    return f"{test.a}: {shares}, two-sided {p_equals(test.p)}.{why}"
