"""Measure the agreement of annotators beyond chance: gamma on labels of clips, under three nulls.

gamma = 1 - observed / expected disorder, both means of a distance between levels. What is
expected depends on the model of chance (the null):

- `uniform`: every level is as likely as any other, whatever the film;
- `own`: each annotator keeps the frequencies of the levels he or she used; gamma is weighted
  Cohen's kappa;
- `pooled`: both use the frequencies of both annotators together. With the correction (2n-1)/2n for
  drawing without replacement it is Krippendorff's alpha, which is given beside it.

The distances of levels are those of points on a line: EN 0, HN .3, NS .7, S 1. Words of a column
with an order have equal steps between them; of any other column, two words are the same or not.

Distances are whole tenths, so that sums are exact.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from obygaze.films.labels import (
    named_films,
    project_tables,
)
from obygaze.films.marks import LEVEL
from obygaze.films.projection import (
    ClipSpan,
    Orders,
    with_nothing,
)
from obygaze_features.core.console import few, table
from obygaze_features.core.errors import FixInput, FixUsage, near
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest import Manifest, read_manifest
from obygaze_features.manifest.annotators import (
    check_orders,
    orders_of,
    sorted_words,
)
from obygaze_features.manifest.expression import CONCEPTS
from obygaze_features.manifest.model import LEVELS, Annotation

Ints = NDArray[np.int64]
Values = dict[str, float | None]

NULLS = ("uniform", "own", "pooled")
# The paper's distances in tenths, rows and columns in the order of LEVELS.
TENTHS: Ints = np.array(
    [[0, 3, 7, 10], [3, 0, 4, 7], [7, 4, 0, 3], [10, 7, 3, 0]], dtype=np.int64
)
WITHOUT_NS = [LEVELS.index(level) for level in LEVELS if level != "NS"]


@dataclass(frozen=True)
class AnnotatorPair:
    """The words of two annotators in one film, as a table of counts of each pair of words."""

    movie_id: str
    annotators: tuple[str, str]
    counts: Ints
    tenths: Ints
    has_levels: bool = False

    @property
    def n(self) -> int:
        """The number of clips with a level from both."""
        return int(self.counts.sum())

    @property
    def observed(self) -> float | None:
        """The mean distance between the two levels of a clip; None without clips."""
        if not self.n:
            return None
        total = int((self.counts * self.tenths).sum())
        return total / (10 * self.n)

    def expected(self, null: str) -> float | None:
        """Return the mean distance if both answered by chance; None without clips."""
        if not self.n:
            return None
        first, second = self._chances(null)
        n_pairs = int(first.sum()) * int(second.sum())
        return int(first @ self.tenths @ second) / (10 * n_pairs)

    def gamma(self, null: str) -> float | None:
        """Return the agreement beyond chance; None where chance always agrees."""
        return _gamma(self.observed, self.expected(null))

    @property
    def alpha(self) -> float | None:
        """Krippendorff's alpha with these distances."""
        expected = self.expected("pooled")
        if expected is None:
            return None
        return _gamma(self.observed, expected * 2 * self.n / (2 * self.n - 1))

    def without_ns(self) -> Self:
        """Return the pair of levels without the clips that an annotator labelled NS."""
        if not self.has_levels:
            return self
        keep = np.ix_(WITHOUT_NS, WITHOUT_NS)
        return replace(self, counts=self.counts[keep], tenths=self.tenths[keep])

    def _chances(self, null: str) -> tuple[Ints, Ints]:
        """Return how often each level is drawn for the first and for the second annotator."""
        first = self.counts.sum(axis=1)
        second = self.counts.sum(axis=0)
        if null == "uniform":
            return np.ones_like(first), np.ones_like(second)
        if null == "own":
            return first, second
        pooled = first + second
        return pooled, pooled


@dataclass(frozen=True)
class Scale:
    """The words of a column, and how far each two are apart, in tenths."""

    column: str
    words: tuple[str, ...]
    tenths: Ints

    @classmethod
    def of(cls, column: str, said: Iterable[str], orders: Orders) -> Self:
        """Return the scale of a column in which people said some words."""
        if column == LEVEL:
            return cls(column, LEVELS, TENTHS)
        if column in orders:
            words = tuple(orders[column])
            places = 10 * np.arange(len(words), dtype=np.int64)
            return cls(column, words, np.abs(places[:, None] - places))
        words = tuple(sorted(set(said)))
        return cls(column, words, 10 - 10 * np.eye(len(words), dtype=np.int64))

    def pair(
        self,
        first: Sequence[str],
        second: Sequence[str],
        *,
        movie_id: str = "",
        annotators: tuple[str, str] = ("", ""),
    ) -> AnnotatorPair:
        """Return the pair of two annotators from their words for the same clips."""
        if len(first) != len(second):
            raise FixInput(
                f"expected levels of the same clips, got {len(first)} and {len(second)} levels"
            )
        counts = np.zeros(self.tenths.shape, dtype=np.int64)
        for one, other in zip(first, second, strict=True):
            counts[self.words.index(one), self.words.index(other)] += 1
        is_level = self.column == LEVEL
        return AnnotatorPair(movie_id, annotators, counts, self.tenths, is_level)


def word_in(annotation: Annotation, column: str) -> str:
    """Return what a person said of a clip in a column, "" for nothing."""
    if column == LEVEL:
        return annotation.level
    return sorted_words(annotation.own.get(column, ""))


def pairs_of(
    manifest: Manifest, column: str = LEVEL, orders: Orders | None = None
) -> list[AnnotatorPair]:
    """Return every pair of annotators of every film, on the clips of which both say something.

    A clip of which somebody says nothing is not counted as one with the word for nothing.
    """
    said = [word_in(one, column) for one in manifest.annotations]
    scale = Scale.of(column, filter(None, said), orders or {})
    words: dict[str, dict[str, dict[str, str]]] = {}
    for one, word in zip(manifest.annotations, said, strict=True):
        if word:
            of_film = words.setdefault(manifest[one.clip_id].movie_id, {})
            of_film.setdefault(one.annotator, {})[one.clip_id] = word
    pairs = []
    for film, of_film in sorted(words.items()):
        for names in combinations(sorted(of_film), 2):
            first, second = (of_film[name] for name in names)
            both = [clip_id for clip_id in first if clip_id in second]
            pair = scale.pair(
                [first[clip_id] for clip_id in both],
                [second[clip_id] for clip_id in both],
                movie_id=film,
                annotators=names,
            )
            pairs.append(pair)
    return pairs


def mean_of_groups(
    groups: Iterable[object], values: Iterable[float | None]
) -> float | None:
    """Return the mean over groups of the mean over a group's values; None is left out."""
    by_group: dict[object, list[float]] = defaultdict(list)
    for group, value in zip(groups, values, strict=True):
        if value is not None:
            by_group[group].append(value)
    if not by_group:
        return None
    means = [sum(of_group) / len(of_group) for of_group in by_group.values()]
    return sum(means) / len(means)


def agreement(pairs: Sequence[AnnotatorPair]) -> dict[str, Any]:
    """Return all measures of agreement of these pairs, as one JSON document.

    `gamma` and `alpha` are means over films (of the means over a film's pairs); `gamma_over_pairs`
    and `alpha_over_pairs` are means over all pairs, as in the paper. A pair has no gamma where
    chance alone always agrees: it is null in `pairs`, and left out of means.
    """
    pairs_without_ns = [pair.without_ns() for pair in pairs]
    measures = _measures(pairs)
    for name, value in _measures(pairs_without_ns).items():
        measures[f"{name}_without_ns"] = value
    records = []
    for pair, without_ns in zip(pairs, pairs_without_ns, strict=True):
        record = {
            "movie_id": pair.movie_id,
            "annotators": list(pair.annotators),
            **_record(pair),
            "without_ns": _record(without_ns),
        }
        records.append(record)
    return {
        **measures,
        "films": len({pair.movie_id for pair in pairs}),
        "pairs": records,
    }


@dataclass(frozen=True)
class Agreement:
    """The agreement of annotators in a column: `measures` is the document of `agreement`."""

    column: str
    measures: Mapping[str, Any]
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the column and all measures."""
        return {"column": self.column, **self.measures}

    @property
    def _has_ns(self) -> bool:
        """Whether an annotator said NS, so that what is without NS is something else."""
        pairs = self.measures["pairs"]
        return any(pair["without_ns"]["n"] < pair["n"] for pair in pairs)

    def __str__(self) -> str:
        means = _mean_rows(self.measures)
        headers = ["film", "pair", "clips", *NULLS, "alpha"]
        n_columns = len(headers)
        headers += ["without NS", *NULLS]
        pairs = [_pair_row(pair) for pair in self.measures["pairs"]]
        alphas = _alpha_rows(self.measures)
        if not self._has_ns:
            means = [row for row in means if "without NS" not in str(row[0])]
            alphas = alphas[:1]
            headers = headers[:n_columns]
            pairs = [row[:n_columns] for row in pairs]
        tables = (
            table(("mean", *NULLS), means),
            table(("mean", "films", "pairs"), alphas),
            table(headers, pairs),
        )
        return "\n\n".join(tables)

    @property
    def notes(self) -> list[str]:
        """What the mean of Krippendorff's alpha means, and of which pairs the means are."""
        meaning = _meaning(self.measures["alpha"], self.column)
        return [meaning, *_pairs_of_means(self.measures, has_ns=self._has_ns)]


def measure_agreement(
    marks: PathLike | Sequence[PathLike],
    *,
    clips: PathLike | None = None,
    every: str | float | None = None,
    column: str = "level",
    orders: Mapping[str, str] | None = None,
    workspace: PathLike | None = None,
) -> Agreement:
    """Measure the agreement of the annotators.

    Gamma is 1 - observed / expected disagreement on clips, for each film and pair and as the mean
    over films. Expected words are uniform, each annotator's own, or pooled. Gamma is '-' where
    agreement by chance is complete. Krippendorff's alpha is beside it.

    Marks are put on clips as by `obygaze manifest project`. Clips that an annotator has not watched
    are not compared. Levels are points on a line: EN 0, HN .3, NS .7, S 1; words with --order have
    equal steps, other words are the same or not.

    Of a manifest whose clips several people annotated, what they say is compared as it is. Of
    ratings, see `obygaze audit reliability --help`.

    Args:
        marks: One or more tables of marks; or a manifest with annotators, without --clips.
        clips: A manifest or table of clips with times in their films.
        every: Cut the films into clips of this length instead.
        column: The column in which the people are compared.
        orders: The words of a column from the lowest: Gewalt=schwach,stark.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze manifest agree coded --clips films
        obygaze manifest agree coded --clips films --column Gewalt
        obygaze manifest agree mobygaze --every 30 --json
        obygaze manifest agree films
    """
    words = orders_of(orders or {})
    if clips is None and every is None:
        manifest = _annotated(marks, workspace)
        _require_column(manifest, column)
        check_orders(words, manifest)
        pairs = pairs_of(manifest, column, words)
        return _agreement(manifest, pairs, column)
    projected = project_tables(marks, clips, every, orders=words, workspace=workspace)
    marked = _one_of_each(projected.marked, projected.spans)
    _require_column(marked, column)
    pairs = pairs_of(marked, column, with_nothing(words))
    agreed = _agreement(marked, pairs, column)
    warnings = (*projected.warnings, *agreed.warnings)
    return replace(agreed, warnings=warnings)


def _annotated(
    names: PathLike | Sequence[PathLike], workspace: PathLike | None
) -> Manifest:
    """Return the manifest with annotations that is named; marks are compared on clips."""
    tables = [names] if isinstance(names, str | os.PathLike) else names
    if len(tables) == 1 and Workspace.of(workspace).manifest(str(tables[0])).is_file():
        manifest = read_manifest(tables[0], workspace=workspace)
        if manifest.annotations:
            return manifest
    raise FixUsage(
        "expected --clips or --every, on which marks are compared, or the manifest of clips that"
        " several people annotated",
        where=", ".join(map(str, tables)),
        hint="--every 30",
    )


def _one_of_each(manifest: Manifest, spans: Iterable[ClipSpan]) -> Manifest:
    """Return one clip of those that have the same span of a film."""
    of_span: dict[tuple[str, float, float], str] = {}
    for span in spans:
        of_span.setdefault((span.movie_id, span.start_s, span.end_s), span.clip_id)
    kept = {*of_span.values()}
    return manifest.with_clips(clip for clip in manifest if clip.clip_id in kept)


def _require_column(manifest: Manifest, column: str) -> None:
    """Raise an error for a column in which nobody says anything."""
    if any(word_in(one, column) for one in manifest.annotations):
        return
    known: dict[str, None] = {}
    for one in manifest.annotations:
        said = {LEVEL: one.level, **one.own}
        known.update(dict.fromkeys(name for name, word in said.items() if word))
    hint = " or ".join(f"--column {shell_word(name)}" for name in known) or None
    if column.partition("=")[0] in CONCEPTS:
        hint = f"obygaze audit reliability MANIFEST --column {shell_word(column)}"
    raise FixInput(
        f"nobody says anything in the column {column!r}{near(column, known)}", hint=hint
    )


def _agreement(
    manifest: Manifest, pairs: Sequence[AnnotatorPair], column: str
) -> Agreement:
    """Return the agreement of pairs of the people of a manifest."""
    _require_pairs(pairs, manifest)
    annotated = {
        manifest[one.clip_id].movie_id
        for one in manifest.annotations
        if word_in(one, column)
    }
    warnings = _films_of_one_annotator(annotated, pairs)
    return Agreement(column, agreement(pairs), tuple(warnings))


def _require_pairs(pairs: Sequence[AnnotatorPair], manifest: Manifest) -> None:
    """Raise an error unless two annotators labelled the same clips."""
    if not any(pair.n for pair in pairs):
        raise FixInput(
            "agreement needs clips that two annotators have labelled, got none; the annotators"
            f" are {few(manifest.annotators, 5)}",
            where=manifest.name,
        )


def _films_of_one_annotator(
    annotated: Collection[str], pairs: Sequence[AnnotatorPair]
) -> list[str]:
    """Return a warning of the films that nobody else annotated; a name may be misspelt."""
    compared = {pair.movie_id for pair in pairs}
    named = named_films(set(annotated) - compared, compared)
    return [f"films of one annotator only, not compared: {named}"] if named else []


def _mean_rows(measures: Mapping[str, Any]) -> list[tuple[object, ...]]:
    """Return a row for each measure, with its value under each null."""
    rows: list[tuple[object, ...]] = []
    for name, means in sorted(measures.items()):
        if isinstance(means, Mapping) and tuple(means) == NULLS:
            title = name.replace("_", " ").replace("ns", "NS")
            rows.append((title, *means.values()))
    return rows


def _meaning(alpha: float | None, column: str) -> str:
    """Return what the mean of Krippendorff's alpha over films means."""
    scale = "1 is complete agreement, 0 agreement by chance"
    if column == LEVEL:
        places = ", ".join(
            f"{level} {tenths / 10:g}"
            for level, tenths in zip(LEVELS, TENTHS[0], strict=True)
        )
        scale = f"levels are points on a line ({places}); {scale}"
    if alpha is None:
        return f"{scale}."
    if alpha >= 0.8:
        answer = "labels that agree so well can be relied on"
    elif alpha >= 0.667:
        answer = "from .667 to .80, only tentative conclusions can be drawn"
    else:
        answer = "below .667, the labels depend on who gave them"
    return f"{scale}. Krippendorff's alpha is {alpha:.3f}: {answer}. Its distances are not squared."


def _pairs_of_means(measures: Mapping[str, Any], *, has_ns: bool) -> list[str]:
    """Return a sentence if the means that stand side by side are not of the same pairs."""
    pairs = measures["pairs"]
    parts = []
    numbers: set[int] = set()
    records_of = {"all levels": pairs}
    if has_ns:
        records_of["without NS"] = [pair["without_ns"] for pair in pairs]
    for title, records in records_of.items():
        gammas = [record["gamma"] for record in records]
        shown = []
        for null in NULLS:
            n_pairs = sum(gamma[null] is not None for gamma in gammas)
            numbers.add(n_pairs)
            shown.append(f"{null} {n_pairs}")
        parts.append(f"{title}: {', '.join(shown)}")
    if len(numbers) == 1:
        return []
    return [
        f"Not all means are of the same pairs. Pairs with a gamma, {'; '.join(parts)}."
    ]


def _alpha_rows(measures: Mapping[str, Any]) -> list[tuple[object, ...]]:
    """Return the rows of alpha, as means over films and over pairs."""
    title = "Krippendorff's alpha"
    rows: list[tuple[object, ...]] = []
    for ending, shown_title in (("", title), ("_without_ns", f"{title} without NS")):
        over_films = measures[f"alpha{ending}"]
        over_pairs = measures[f"alpha_over_pairs{ending}"]
        rows.append((shown_title, over_films, over_pairs))
    return rows


def _pair_row(pair: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the row of two annotators of a film."""
    without_ns = pair["without_ns"]
    return (
        pair["movie_id"],
        " / ".join(pair["annotators"]),
        pair["n"],
        *pair["gamma"].values(),
        pair["alpha"],
        without_ns["n"],
        *without_ns["gamma"].values(),
    )


def _measures(pairs: Sequence[AnnotatorPair]) -> dict[str, Any]:
    """Return gamma and alpha as means over films and over pairs."""
    films = [pair.movie_id for pair in pairs]
    # A group for each pair: the mean over groups is the mean over pairs.
    numbers = range(len(pairs))
    gamma: Values = {}
    gamma_over_pairs: Values = {}
    for null in NULLS:
        gammas = [pair.gamma(null) for pair in pairs]
        gamma[null] = mean_of_groups(films, gammas)
        gamma_over_pairs[null] = mean_of_groups(numbers, gammas)
    alphas = [pair.alpha for pair in pairs]
    return {
        "gamma": gamma,
        "gamma_over_pairs": gamma_over_pairs,
        "alpha": mean_of_groups(films, alphas),
        "alpha_over_pairs": mean_of_groups(numbers, alphas),
    }


def _record(pair: AnnotatorPair) -> dict[str, Any]:
    """Return the measures of one pair."""
    return {
        "n": pair.n,
        "observed": pair.observed,
        "expected": {null: pair.expected(null) for null in NULLS},
        "gamma": {null: pair.gamma(null) for null in NULLS},
        "alpha": pair.alpha,
    }


def _gamma(observed: float | None, expected: float | None) -> float | None:
    if observed is None or not expected:
        return None
    return 1.0 - observed / expected
