"""The audit of annotations: which values of a column are more frequent in one group of clips.

The values of a clip (emotions, relationships, concepts) are joined with | in its cell. Clips of one
film are alike, so they are exchanged only within films.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from obygaze.audits.figure import Plot, Point
from obygaze.audits.result import (
    Audit,
    Finding,
    Interval,
    audit_command,
    ratio_interval,
)
from obygaze.audits.texts import CONCEPTS, column_names
from obygaze_features.core.errors import FixInput, NotFound
from obygaze_features.core.options import Option
from obygaze_features.manifest import Clip, Manifest
from obygaze_models.evaluation.group_tests import (
    ALPHA,
    GroupTest,
    compare_groups,
    summary,
    with_holm,
)
from obygaze_models.evaluation.permutation import p_equals, p_text
from obygaze_models.text_vectors import Selection, View, in_view, select_groups


@dataclass(frozen=True, eq=False, repr=False)
class AnnotationAudit(Audit):
    """The test of each value of a column between two groups of clips, corrected together.

    `intervals` has, for each test, the 95 % intervals of the shares of both groups over films.
    """

    source: str
    view: str
    column: str
    min_count: int
    n_empty: int
    n_left_out: int
    tests: tuple[GroupTest, ...]
    intervals: tuple[tuple[Interval, Interval], ...]

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
        counts = {"n_empty": self.n_empty, "n_left_out": self.n_left_out}
        about = {
            "source": self.source,
            "view": self.view,
            "column": self.column,
            "min_count": self.min_count,
        }
        return {**about, **groups, **counts, "values": values}

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
        view = self.view.replace("_", " ")
        title = f"Annotations: {self.column} of {self.source}, {view} view"
        sentences += summary(self.tests, _sentence)
        return Finding(title, tuple(headers), tuple(rows), sentences=tuple(sentences))

    def plot(self) -> Plot:
        """Return the share of the clips of both groups with each value, the smallest p first."""
        points = []
        pairs = sorted(
            zip(self.tests, self.intervals, strict=True), key=lambda pair: pair[0].p
        )
        for test, (in_x, in_y) in pairs:
            note = f"{p_equals(test.p)}, Holm {p_text(test.p_holm)}"
            points.append(
                Point(f"{test.a}: {test.x}", float(test.s_x.mean()), in_x, note)
            )
            points.append(Point(f"{test.a}: {test.y}", float(test.s_y.mean()), in_y))
        label = "share of the clips of a group, with 95 % over films"
        return Plot(f"Clips with each value of {self.column}", points, label)


def audit_annotations(
    manifest: Manifest | str | Path,
    *,
    column: str = CONCEPTS,
    x: Annotated[Selection, Option(metavar="CLIPS")],
    y: Annotated[Selection, Option(metavar="CLIPS")],
    view: View | None = None,
    min_count: Annotated[int, Option(least=0)] = 0,
    workspace: str | Path | None = None,
) -> AnnotationAudit:
    """Test which values of a column go with a level, such as emotions or concepts.

    For each value, the share of the clips that have it is compared between two groups, X and Y. All
    p-values are exact. If a film has clips of both groups, the reported p-value exchanges clips
    only within films. Holm's correction is over the values.

    Args:
        manifest: The manifest, or its name or path.
        column: The column, with values joined by `|`, or several, separated by commas; their values
            are corrected together.
        x: The first group: an expression such as "level == S", a CSV file of clip_id, or ids.
        y: The second group, likewise.
        view: The view of the manifest, by default that of protocols.
        min_count: Leave out values that fewer clips of both groups have.
        workspace: The workspace, if it is not the current one.

    Example:
        audit = audit_annotations("obygaze12", x="level == S", y="level == EN")

    Commands:
        obygaze audit annotations obygaze12 --x 'level == S' --y 'level == HN'
        obygaze audit annotations obygaze12 --column emotions,relationships --min-count 5 \\
            --x 'level == S' --y 'level == EN' --figure figures/emotions
        obygaze audit annotations moviegraphs --column relationships --x men.csv --y women.csv
    """
    manifest = in_view(manifest, view, workspace)
    columns = column_names(column)
    if not columns:
        raise FixInput("expected a column, got none", hint="--column emotions")
    for name in columns:
        _check_column(manifest, name)
    (name_x, ids_x), (name_y, ids_y) = select_groups((x, y), manifest)
    cells_x = [_values_of(manifest[clip], columns) for clip in ids_x]
    cells_y = [_values_of(manifest[clip], columns) for clip in ids_y]
    films_x = [manifest[clip].movie_id for clip in ids_x]
    films_y = [manifest[clip].movie_id for clip in ids_y]
    counts = Counter(chain.from_iterable([*cells_x, *cells_y]))
    values = sorted(value for value, n in counts.items() if n >= min_count)
    if not values:
        message = f"no clip of the groups has a value in column {column!r}"
        hint = "--min-count" if counts else "--column"
        raise FixInput(message, where=manifest.name, hint=hint)
    films = np.array([*films_x, *films_y])
    tests = []
    intervals = []
    for value in values:
        has_x = np.array([value in cell for cell in cells_x])
        has_y = np.array([value in cell for cell in cells_y])
        labels = (name_x, name_y, value, "")
        tests.append(compare_groups(labels, has_x, has_y, films))
        in_x = ratio_interval(has_x, np.ones(len(has_x)), films_x)
        in_y = ratio_interval(has_y, np.ones(len(has_y)), films_y)
        intervals.append((in_x, in_y))
    n_empty = sum(not cell for cell in [*cells_x, *cells_y])
    return AnnotationAudit(
        source=manifest.name,
        view=manifest.header.view,
        column=column,
        min_count=min_count,
        n_empty=n_empty,
        n_left_out=len(counts) - len(values),
        tests=with_holm(tests),
        intervals=tuple(intervals),
    )


def _values_of(clip: Clip, columns: Sequence[str]) -> frozenset[str]:
    """Return the values of a clip; of several columns with the name of each before its values."""
    if len(columns) == 1:
        return frozenset(clip.values(columns[0]))
    values: set[str] = set()
    for column in columns:
        values |= {f"{column}: {value}" for value in clip.values(column)}
    return frozenset(values)


def _check_column(manifest: Manifest, column: str) -> None:
    if column == CONCEPTS or column in manifest.columns:
        return
    names = ", ".join((CONCEPTS, *manifest.columns))
    hint = "name one of these, or add columns with obygaze manifest join"
    raise NotFound(
        f"no column {column!r}; found {names}", where=manifest.name, hint=hint
    )


def _sentence(test: GroupTest) -> str:
    shares = f"{100 * test.s_x.mean():.1f} % of X, {100 * test.s_y.mean():.1f} % of Y"
    agree = test.within and (test.p < ALPHA) == (test.p_across < ALPHA)
    why = "" if agree else f" {test.explain()}"
    return f"{test.a}: {shares}, two-sided {p_equals(test.p)}.{why}"


command = audit_command(audit_annotations, "annotations")
