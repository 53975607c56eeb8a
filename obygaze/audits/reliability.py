"""The audit of reliability: do several raters, or several prompts, measure one thing?

Cronbach's alpha compares the variance of the sum of the raters with the sum of their variances. It
ignores that one rater gives higher numbers than another; Krippendorff's alpha for intervals, which
is beside it, counts this as disagreement. Words have Krippendorff's alpha for nominal values alone:
two answers are equal or not.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze.audits.result import Audit, IntervalEnds, Plot, Point
from obygaze.audits.texts import (
    CaptionRow,
    TextSource,
    column_names,
    read_records,
    source_name,
)
from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.files import TABLE_ENDINGS
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import number_of_cell
from obygaze_features.manifest import read_manifest
from obygaze_features.manifest.expression import CONCEPTS, is_labelled
from obygaze_features.manifest.model import (
    CLIP_COLUMNS,
    Clip,
    Manifest,
    view_words,
)
from obygaze_features.manifest.spelling import Spelling

Floats = NDArray[np.float64]
OF_FEW = (
    "by Hesterberg's expanded percentiles, of fewer than 6 by Student's t, of 2 none"
)
# What an annotator said of a clip that has a level, and no concept.
NO_CONCEPT = "no concept"
# The columns whose cells depend on the view.
SEEN_IN_VIEW = ("level", *CONCEPTS)
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
IN_COLUMNS = (
    "If each annotator has a column, --raters without --column compares these; for one word against"
    " all else, give each a column of yes and no"
)


def audit_reliability(
    source: str | Path | Sequence[Mapping[str, str]] | Manifest,
    *,
    raters: str | Sequence[str] | None = None,
    column: str | None = None,
    cluster: str | Sequence[str] | None = None,
    workspace: str | Path | None = None,
) -> Audit:
    """Measure the agreement of annotators, or of prompts: Krippendorff's and Cronbach's alpha.

    The table has a row for each item and a column for each rater; of a manifest, the answers are
    those of its annotators. Items that not all raters have rated are left out. Numbers have both
    alphas, which say whether the raters measure one thing. Words have Krippendorff's alpha for
    nominal values alone, and are counted.

    Args:
        source: A table, or a manifest.
        raters: Names of the columns of the raters, or of the prompts; with `column`, the names of
            the annotators who are compared.
        column: Of a manifest with annotators, what they are compared by. COLUMN=VALUE and
            "COLUMN>=2" make yes and no of it. Where each rater has a column, name these columns as
            the raters.
        cluster: The columns of the film or image; by default each item is its own cluster.
        workspace: The workspace, if it is not the current one.

    Example:
        audit = audit_reliability("ratings.csv", raters="ada,ben,cleo", cluster="film")

    Commands:
        obygaze audit reliability ratings.csv --raters ada,ben,cleo --cluster film
        obygaze audit reliability films --column Rating --cluster movie_id
        obygaze audit reliability films --column mood=sad --cluster movie_id
        obygaze audit reliability prompts.csv --raters 'a photo,an image,a picture' --json
    """
    names = column_names(raters)
    if column is None and not names:
        raise FixUsage(
            "expected the columns of the raters, or the column that annotators filled in",
            hint="--raters ada,ben of a table, or --column Rating of a manifest with annotators",
        )
    records, title, annotators = _records_of(source, column, workspace)
    # A rater who is named twice would agree with himself.
    names = tuple(dict.fromkeys(names or annotators))
    if len(names) < 2:
        raise FixInput(
            f"expected at least two raters, got {len(names)}", hint="--raters ada,ben"
        )
    rows: list[list[str]] = []
    clusters: list[str] = []
    cluster_columns = column_names(cluster)
    needed = (*names, *cluster_columns)
    all_records = list(read_records(records, needed, hint="--raters, --cluster"))
    are_numbers = _are_numbers(all_records, names, title, column)
    spelling = Spelling()
    for record in all_records:
        # A word is one in the columns of all raters.
        answers = [
            spelling.word(_answer(record.cells[name]), "answer") for name in names
        ]
        if all(answers):
            rows.append(answers)
            clusters.append(record.cluster(cluster_columns))
    if len(rows) < 2:
        raise FixInput(
            f"expected at least two items that all raters have rated, got {len(rows)}",
            where=title,
            hint=f"--raters with two who have rated the same items, of {', '.join(names)}"
            if len(names) > 2
            else None,
        )
    return reliability_of(
        np.array(rows, dtype=np.float64 if are_numbers else np.str_),
        names,
        clusters,
        source=title,
        n_incomplete=len(all_records) - len(rows),
    )


class _Records(NamedTuple):
    """A table with a column for each rater; `annotators` are those of a manifest."""

    table: TextSource
    title: str
    annotators: tuple[str, ...] = ()


def _records_of(
    source: TextSource | Manifest, column: str | None, workspace: str | Path | None
) -> _Records:
    """Return the answers of a table or a manifest."""
    if isinstance(source, Manifest):
        manifest = source
    elif not isinstance(source, str | Path):
        return _Records(source, source_name(source))
    else:
        if column is None and Path(source).suffix in TABLE_ENDINGS:
            return _Records(source, source_name(source))
        manifest = read_manifest(source, workspace=workspace)
    if column is None:
        return _Records([_cells(clip) for clip in manifest], manifest.name)
    return _rated_clips(manifest, column)


def _cells(clip: Clip) -> dict[str, str]:
    return {"clip_id": clip.clip_id, "movie_id": clip.movie_id, **clip.extra}


def _rated_clips(manifest: Manifest, column: str) -> _Records:
    """Return a row for each clip with a column for each annotator."""
    if not manifest.annotations:
        name = shell_word(manifest.name)
        raise FixInput(
            "--column is for clips that several people annotated, and here nobody or one did",
            where=manifest.name,
            hint="import a table with the labels of each annotator, with --rule. Of marks in films,"
            f" obygaze manifest agree {name} --every 10 compares the levels. {IN_COLUMNS}",
        )
    answers, columns = _answers(manifest, column)
    own = manifest.annotations[0].own
    if set(columns).isdisjoint({*SEEN_IN_VIEW, *own}):
        raise FixInput(
            f"the column {column!r} says something of clips, and not of annotators",
            where=manifest.name,
            hint=f"a column of annotators: {few(['level', 'concepts', *own])}",
        )
    no_answers = dict.fromkeys(manifest.annotators, "")
    rows = []
    for clip in manifest:
        cells = _cells(clip)
        also_columns = cells.keys() & no_answers
        if also_columns:
            raise FixInput(
                f"{also_columns.pop()!r} is an annotator, and a column too",
                where=manifest.name,
                hint="rename the column",
            )
        answers_of_clip = answers.get(clip.clip_id, {})
        if any(answers_of_clip.values()):
            rows.append({**cells, **no_answers, **answers_of_clip})
    title = f"{manifest.name}, {column}"
    if manifest.header.view != "raw" and not set(columns).isdisjoint(SEEN_IN_VIEW):
        title += f", {view_words(manifest.header.view)}"
    return _Records(rows, title, manifest.annotators)


def _answers(
    manifest: Manifest, column: str
) -> tuple[dict[str, dict[str, str]], Collection[str]]:
    """Return the answers to each clip by annotator, and the columns that they are made of."""
    of_all: list[tuple[str, str]] = []
    clips: list[Clip] = []
    columns: tuple[str, ...] = ()
    for annotator in manifest.annotators:
        of_annotator = manifest.of_annotator(annotator)
        columns = of_annotator.columns
        for clip in of_annotator:
            of_all.append((clip.clip_id, annotator))
            clips.append(replace(clip, clip_id=f"answer-{len(of_all)}"))
    answered = replace(manifest, clips=tuple(clips), columns=columns, annotations=())
    words, compared = _words(answered, column)
    answers: dict[str, dict[str, str]] = {}
    for (clip_id, annotator), word in zip(of_all, words, strict=True):
        answers.setdefault(clip_id, {})[annotator] = word
    return answers, compared


def _words(answered: Manifest, column: str) -> tuple[list[str], Collection[str]]:
    """Return each answer: its cell, or yes and no of what `--task` takes; and its columns."""
    if column in (*CLIP_COLUMNS, *CONCEPTS, *answered.columns):
        words = []
        for clip in answered:
            # Several values are one answer, in whatever order they were written.
            word = "|".join(sorted(set(clip.values(column))))
            if is_labelled(column, clip.values):
                word = word or NO_CONCEPT
            words.append(word)
        return words, [column]
    # Late: it loads what experiments need.
    from obygaze_models.protocols.clips import (
        clip_table,
        columns_of_task,
        task_labels,
    )
    from obygaze_models.protocols.reading import load_protocol
    from obygaze_models.protocols.tasks import one_task

    honest = load_protocol("honest")
    # Annotators are compared by what they said, whatever a picture shows.
    data = replace(honest.data, view=answered.header.view)
    protocol = replace(honest, data=data)
    name, asked = one_task(column, protocol, answered, option="--column")
    table = clip_table(answered, data)
    word_of_class = {1: "yes", 0: "no"}
    labels = task_labels(name, asked.task, table).tolist()
    word_of = {
        clip_id: word_of_class.get(label, "")
        for clip_id, label in zip(table.ids, labels, strict=True)
    }
    words = [word_of.get(clip.clip_id, "") for clip in answered]
    return words, columns_of_task(name, asked.task, table)


def _are_numbers(
    records: Sequence[CaptionRow], names: Sequence[str], title: str, column: str | None
) -> bool:
    """Return whether all answers are numbers, and not words; an error where some are."""
    n_numbers = 0
    n_words = 0
    place_of_word: dict[str, str] = {}
    for record in records:
        for name in names:
            answer = _answer(record.cells[name])
            if number_of_cell(answer) is not None:
                n_numbers += 1
            elif answer:
                n_words += 1
                place = record.cells.get("clip_id", record.where)
                place_of_word.setdefault(answer, f"{name}, {place}")
    if n_numbers and n_words:
        words = [f"{word!r} ({place})" for word, place in place_of_word.items()]
        hint = "correct these cells, or leave them empty"
        if column is not None:
            asked = shell_word(f"{column}={next(iter(place_of_word))}")
            hint = f"--column {asked}, this word against all else; or {hint}"
        raise FixInput(
            f"expected only numbers or only words, got {count(n_numbers, 'number')} and"
            f" {count(n_words, 'word')}: {few(words)}",
            where=title,
            hint=hint,
        )
    if n_words and all(map(_DECIMAL_COMMA.fullmatch, place_of_word)):
        answer, place = next(iter(place_of_word.items()))
        raise FixInput(
            f"expected numbers with a point, got {answer!r} ({place})",
            where=title,
            hint=f"write {answer.replace(',', '.')}",
        )
    return not n_words


def _answer(cell: object) -> str:
    """Return an answer as text, "" where there is none: tables of pandas have NaN there."""
    return "" if cell is None or cell != cell else str(cell).strip()


def reliability_of(
    ratings: ArrayLike,
    names: Sequence[str],
    clusters: Sequence[str],
    *,
    source: str = "rows",
    n_incomplete: int = 0,
) -> Audit:
    """Return the alphas of a table of numbers or words, a row for each item, a column a rater."""
    from obygaze_models.evaluation.bootstrap import resample

    table = np.asarray(ratings)
    means: list[Any] = [None] * len(names)
    deviations: list[Any] = [None] * len(names)
    words: dict[str, tuple[int, ...]] = {}
    numbers: Floats | None = None
    if table.dtype.kind == "U":
        distinct, places = np.unique(table, return_inverse=True)
        # Two words have the same distance from each other, whichever they are.
        vectors = np.eye(len(distinct))[places.reshape(table.shape)]
        counts = vectors.sum(axis=0).T.astype(int).tolist()
        words = dict(zip(distinct.tolist(), map(tuple, counts), strict=True))
        headers = ("word", *names)
        rows = [(word, *of_word) for word, of_word in words.items()]
    else:
        means = table.mean(axis=0).tolist()
        deviations = table.std(axis=0, ddof=1).tolist()
        # No alpha changes; sums of squares keep their digits.
        numbers = table - table.mean()
        vectors = numbers[:, :, None]
        headers = ("rater", "mean", "sd")
        rows = [*zip(names, means, deviations, strict=True)]
    # By their answers: the draws depend neither on the names of films nor on the order of rows.
    answers_of: dict[str, list[list[object]]] = {}
    for cluster, answers in zip(clusters, table.tolist(), strict=True):
        answers_of.setdefault(cluster, []).append(answers)
    in_order = sorted(answers_of, key=lambda cluster: sorted(answers_of[cluster]))
    places_of_clusters = {cluster: place for place, cluster in enumerate(in_order)}
    codes = np.array([places_of_clusters[cluster] for cluster in clusters])

    def alphas(weights: Floats) -> dict[str, Floats]:
        values = {}
        if numbers is not None:
            values["cronbach"] = _cronbach(numbers, weights)
        return {**values, "krippendorff": _krippendorff(vectors, weights)}

    def alphas_of_clusters(weights: Floats) -> dict[str, Floats]:
        return alphas(weights[:, codes])

    intervals = resample(alphas_of_clusters, np.arange(len(in_order)))
    of_raters = f"of {len(names)} raters"
    named = {
        "cronbach": f"Cronbach's alpha {of_raters}",
        "krippendorff": "Krippendorff's alpha (interval, squared differences)",
    }
    if numbers is None:
        named["krippendorff"] = f"Krippendorff's alpha (nominal) {of_raters}"
    values: dict[str, Any] = {"cronbach": None, "cronbach_interval": [None, None]}
    sentences = []
    points = []
    for name, value in alphas(np.ones((1, len(table)))).items():
        alpha = _finite(value[0])
        interval = intervals[name]
        # Alpha is at most 1.
        ends = [_finite(interval.low), _finite(min(interval.high, 1))]
        values |= {name: alpha, f"{name}_interval": ends}
        sentences.append(f"{named[name]}: {_alpha_text(alpha, ends)}.")
        points.append(Point(named[name], alpha, ends))
    limits = [_about_intervals(len(table), len(in_order))]
    if n_incomplete:
        limits.append(
            f"{n_incomplete} items that not all raters have rated are left out."
        )
    title = f"Reliability: {source}"
    about_raters = zip(names, means, deviations, strict=True)
    return Audit(
        title=title,
        headers=headers,
        rows=rows,
        answers=sentences,
        limits=limits,
        values={
            **values,
            "source": source,
            "n_items": len(table),
            "n_incomplete": n_incomplete,
            "n_clusters": len(in_order),
            "raters": [
                {"name": n, "mean": mean, "sd": sd} for n, mean, sd in about_raters
            ],
            "words": words,
        },
        figure=Plot(title, points, "alpha, with 95 % over clusters"),
    )


def _about_intervals(n_items: int, n_clusters: int) -> str:
    if n_clusters < n_items:
        return (
            f"{n_items} items in {count(n_clusters, 'cluster')}; intervals (95 %) are"
            f" bootstrapped over clusters, and wider where these are few ({OF_FEW})."
        )
    return (
        f"{n_items} items; intervals (95 %) are bootstrapped over items, each a cluster of its own,"
        f" which count as independent, and wider where these are few ({OF_FEW}); --cluster COLUMN"
        " draws whole films."
    )


def cronbach_alpha(ratings: ArrayLike) -> float | None:
    """Return Cronbach's alpha of a table, a row for each item, a column for each rater.

    It is None where the sums of all items are equal.

    >>> cronbach_alpha([[1, 2], [2, 3], [3, 4]])
    1.0
    """
    table = np.asarray(ratings, dtype=np.float64)
    centred = table - table.mean()
    return _finite(_cronbach(centred, np.ones((1, len(table))))[0])


def _cronbach(table: Floats, weights: Floats) -> Floats:
    """Return Cronbach's alpha for each row of item weights; NaN where it is not defined."""
    n_raters = table.shape[1]
    n_items = weights.sum(axis=1)
    sums = table.sum(axis=1)
    of_raters = _squares(table, weights, n_items).sum(axis=1)
    of_sums = _squares(sums[:, None], weights, n_items)[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        alpha = n_raters / (n_raters - 1) * (1 - of_raters / of_sums)
    return np.where(of_sums > _smallest(table), alpha, np.nan)


def _krippendorff(vectors: Floats, weights: Floats) -> Floats:
    """Return Krippendorff's alpha for each row of item weights; NaN where it is not defined.

    Answers (item, rater) are vectors, whose disagreement is their squared distance.
    """
    n_items = weights.sum(axis=1)
    n_values = n_items * vectors.shape[1]
    within_items = weights @ vectors.var(axis=1, ddof=1).sum(axis=1)
    means = weights @ vectors.sum(axis=1) / n_values[:, None]
    squares = weights @ (vectors**2).sum(axis=(1, 2))
    of_values = squares - n_values * (means**2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = of_values / (n_values - 1)
        alpha = 1 - within_items / n_items / expected
    return np.where(of_values > _smallest(vectors), alpha, np.nan)


def _smallest(values: Floats) -> float:
    """Return what rounding may leave of a sum of squares where all values are equal."""
    return 1e-12 * max(float((values**2).sum()), 1e-300)


def _squares(columns: Floats, weights: Floats, n_items: Floats) -> Floats:
    """Return the weighted sum of squares of each column around its mean, a row a weighting."""
    means = weights @ columns / n_items[:, None]
    return np.asarray(weights @ columns**2 - n_items[:, None] * means**2)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _alpha_text(alpha: float | None, interval: IntervalEnds) -> str:
    """Return an alpha with its interval as text."""
    if alpha is None:
        return "not defined, because no item differs from another"
    low, high = interval
    if low is None or high is None:
        return f"{alpha:.3f}"
    return f"{alpha:.3f} ({low:.3f} to {high:.3f})"
