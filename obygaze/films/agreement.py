"""Measure the agreement of annotators beyond chance: gamma on clip levels, under three nulls.

gamma = 1 - observed / expected disorder, both means of a distance between levels. What is
expected depends on the model of chance (the null):

- `uniform`: every level is as likely as any other, whatever the film;
- `own`: each annotator keeps the frequencies of the levels he or she used; gamma is weighted
  Cohen's kappa;
- `pooled`: both use the frequencies of both annotators together. With the correction (2n-1)/2n for
  drawing without replacement it is Krippendorff's alpha, which is given beside it.

The distances are those of points on a line: EN 0, HN .3, NS .7, S 1.

Distances are whole tenths, so that sums and ties are exact. Disorder depends only on how often
each pair of levels occurs. So chance is simulated by random tables of these counts, not of labels:
the distribution is the same, and the cost does not grow with the number of clips.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from obygaze.films.film_rates import Fps
from obygaze.films.labels import (
    Seconds,
    Tables,
    is_table,
    named_films,
    project_tables,
    table_names,
    table_path,
)
from obygaze.films.projection import (
    ClipSpan,
    Projection,
    as_threshold,
    one_of_each,
    threshold_text,
)
from obygaze_features.core.console import few, table
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike
from obygaze_features.manifest import Manifest, read_manifest
from obygaze_features.manifest.expression import quoted_word
from obygaze_features.manifest.model import LEVELS, own_columns

Ints = NDArray[np.int64]
# The level of each clip, by film and annotator.
Levels = Mapping[str, Mapping[str, Mapping[str, str]]]
Values = dict[str, float | None]

NULLS = ("uniform", "own", "pooled")
# The paper's distances in tenths, rows and columns in the order of LEVELS.
TENTHS: Ints = np.array(
    [[0, 3, 7, 10], [3, 0, 4, 7], [7, 4, 0, 3], [10, 7, 3, 0]], dtype=np.int64
)
SEED = 0  # of the draws
WITHOUT_NS = [LEVELS.index(level) for level in LEVELS if level != "NS"]


@dataclass(frozen=True)
class AnnotatorPair:
    """The levels of two annotators in one film, as a table of counts of each pair of levels."""

    movie_id: str
    annotators: tuple[str, str]
    counts: Ints
    tenths: Ints

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
        """Return the pair without the clips that an annotator labelled NS."""
        keep = np.ix_(WITHOUT_NS, WITHOUT_NS)
        return replace(self, counts=self.counts[keep], tenths=self.tenths[keep])

    def simulated(self, null: str, times: int) -> Ints:
        """Return the sum of distances, in tenths, of each of `times` draws under the null."""
        # A stream of its own for each film, pair, null and set of levels.
        n_levels = len(self.counts)
        name = "\n".join((self.movie_id, *self.annotators, null, str(n_levels)))
        generator = np.random.default_rng([SEED, *name.encode()])
        tables = shuffled_tables(self.counts, null, times, generator)
        return np.asarray(np.einsum("tij,ij->t", tables, self.tenths))

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


def annotator_pair(
    first: Sequence[str],
    second: Sequence[str],
    *,
    movie_id: str = "",
    annotators: tuple[str, str] = ("", ""),
) -> AnnotatorPair:
    """Return the pair of two annotators from their levels of the same clips, in the same order."""
    if len(first) != len(second):
        raise FixInput(
            f"expected levels of the same clips, got {len(first)} and {len(second)} levels"
        )
    counts = np.zeros(TENTHS.shape, dtype=np.int64)
    for one, other in zip(first, second, strict=True):
        counts[LEVELS.index(one), LEVELS.index(other)] += 1
    return AnnotatorPair(movie_id, annotators, counts, TENTHS)


def pairs_of(projection: Projection, spans: Iterable[ClipSpan]) -> list[AnnotatorPair]:
    """Return every pair of annotators of every film, on the clips that both gave a label.

    A clip without a label of an annotator (neither a segment nor the unmarked rest reaches the
    threshold) says nothing of agreement, and is not counted as an easy negative. The same pictures
    of a film are one clip.
    """
    film_of = {span.clip_id: span.movie_id for span in one_of_each(spans)}
    levels: dict[str, dict[str, dict[str, str]]] = {}
    for annotator, rows in projection.by_annotator.items():
        for row in rows:
            if row.clip_id in film_of:
                of_film = levels.setdefault(film_of[row.clip_id], {})
                of_annotator = of_film.setdefault(annotator, {})
                if row.labelled:
                    of_annotator[row.clip_id] = row.level
    return _pairs(levels)


def pairs_of_annotations(manifest: Manifest) -> list[AnnotatorPair]:
    """Return every pair of annotators of every film, on the clips that both gave a level."""
    levels: dict[str, dict[str, dict[str, str]]] = {}
    for one in manifest.annotations:
        if one.level:
            of_film = levels.setdefault(manifest[one.clip_id].movie_id, {})
            of_film.setdefault(one.annotator, {})[one.clip_id] = one.level
    return _pairs(levels)


def _pairs(levels: Levels) -> list[AnnotatorPair]:
    pairs = []
    for film, level_of in sorted(levels.items()):
        for names in combinations(sorted(level_of), 2):
            one, other = (level_of[name] for name in names)
            both = [clip_id for clip_id in one if clip_id in other]
            first = [one[clip_id] for clip_id in both]
            second = [other[clip_id] for clip_id in both]
            pair = annotator_pair(first, second, movie_id=film, annotators=names)
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


def p_value(
    pairs: Sequence[AnnotatorPair], null: str, permutations: int = 9999
) -> float | None:
    """Return the p-value (b + 1) / (m + 1); b of m draws agree at least as well by chance.

    It is None without draws, and where no pair has a gamma.
    """
    usable: list[tuple[AnnotatorPair, float]] = []
    for pair in pairs:
        expected = pair.expected(null)
        if expected:
            usable.append((pair, expected))
    films = [pair.movie_id for pair, _ in usable]
    real = mean_of_groups(films, [pair.gamma(null) for pair, _ in usable])
    if real is None or not permutations:
        return None
    in_film = Counter(films)
    gammas = np.zeros(permutations)
    for pair, expected in usable:
        sums = pair.simulated(null, permutations)
        disorder = sums / (10 * pair.n * expected)
        gammas += (1.0 - disorder) / (in_film[pair.movie_id] * len(in_film))
    # Means that are equal as fractions may differ in their last bits.
    as_good = int((gammas >= real - 1e-12).sum())
    return (as_good + 1) / (permutations + 1)


def agreement(
    pairs: Sequence[AnnotatorPair], permutations: int = 9999
) -> dict[str, Any]:
    """Return all measures of agreement of these pairs, as one JSON document.

    `gamma` and `alpha` are means over films (of the means over a film's pairs), which the p-values
    belong to; `gamma_over_pairs` and `alpha_over_pairs` are means over all pairs, as in the paper.
    A pair has no gamma where chance alone always agrees: it is null in `pairs`, and left out of
    means and p-values.
    """
    pairs_without_ns = [pair.without_ns() for pair in pairs]
    measures = _measures(pairs, permutations)
    for name, value in _measures(pairs_without_ns, permutations).items():
        measures[f"{name}_without_ns"] = value
    records = []
    for pair, without_ns in zip(pairs, pairs_without_ns, strict=True):
        record = {
            "movie_id": pair.movie_id,
            "annotators": list(pair.annotators),
            **_record(pair, permutations),
            "without_ns": _record(without_ns, permutations),
        }
        records.append(record)
    return {
        **measures,
        "permutations": permutations,
        "seed": SEED,
        "films": len({pair.movie_id for pair in pairs}),
        "pairs": records,
    }


@dataclass(frozen=True)
class Agreement:
    """The agreement of annotators: `measures` is the document of `agreement`.

    `threshold` is that of marks; None of annotations of clips. `assumed` are the films with
    annotators that count as watched as a whole, since nothing says what was watched.
    """

    threshold: Fraction | None
    measures: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    assumed: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the threshold, all measures, and of whom it is not known what they watched."""
        threshold = self.threshold
        return {
            "threshold": None if threshold is None else threshold_text(threshold),
            **self.measures,
            "assumed_watched": [list(pair) for pair in self.assumed],
        }

    @property
    def _has_ns(self) -> bool:
        """Whether an annotator said NS, so that what is without NS is something else."""
        pairs = self.measures["pairs"]
        return any(pair["without_ns"]["n"] < pair["n"] for pair in pairs)

    def __str__(self) -> str:
        means = _mean_rows(self.measures)
        headers = ["film", "pair", "watched", "clips", *NULLS, "alpha"]
        n_columns = len(headers)
        headers += ["without NS", *NULLS]
        pairs = [_pair_row(pair, self.assumed) for pair in self.measures["pairs"]]
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
        meaning = _meaning(self.measures["alpha"])
        return [meaning, *_pairs_of_means(self.measures, has_ns=self._has_ns)]


def measure_agreement(
    segments: Tables,
    *,
    clips: PathLike | None = None,
    every: Seconds = None,
    fps: Fps = None,
    threshold: str | float | Fraction = "0.2",
    permutations: int = 9999,
    workspace: PathLike | None = None,
) -> Agreement:
    """Measure the agreement of the annotators."""
    share = as_threshold(threshold)
    names = table_names(segments)
    manifests = _manifests(names, workspace)
    for manifest in manifests:
        _refuse_ratings(manifest)
        if manifest.annotations:
            if len(names) > 1 or clips or every is not None or fps is not None:
                raise FixUsage(
                    "the clips of this manifest have annotations, which are compared as they are,"
                    " without other tables, --clips, --every or --fps",
                    where=manifest.name,
                    hint=f"obygaze manifest agree {shell_word(manifest.name)}",
                )
            return _agreement_of_annotations(manifest, permutations)
    projected = project_tables(segments, clips, every, fps, share, workspace)
    together = [name for name in projected.projection.by_annotator if "|" in name]
    if together:
        tests = " and ".join(
            f"annotator == {quoted_word(name)}" for name in together[0].split("|")
        )
        where = shell_word(f"not ({tests})")
        raise FixInput(
            "a label that several annotators gave together says nothing of their agreement:"
            f" {few(together, 3)}",
            where=", ".join(map(str, names)),
            hint=f"leave such rows out: obygaze manifest show NAME --where {where} -o rows.csv,"
            " then obygaze manifest agree rows.csv --clips rows.csv",
        )
    pairs = pairs_of(projected.projection, projected.spans)
    _require_pairs(pairs, ", ".join(map(str, names)))
    measures = agreement(pairs, permutations)
    projection = projected.projection
    marked = {clip.movie_id for clip in projection.labels}
    warnings = (*projected.warnings, *_films_of_one_annotator(marked, pairs))
    return Agreement(share, measures, warnings, projection.assumed)


def _agreement_of_annotations(manifest: Manifest, permutations: int) -> Agreement:
    """Return the agreement of the levels that several people gave to clips."""
    pairs = pairs_of_annotations(manifest)
    _require_pairs(pairs, manifest.name)
    levels = [one for one in manifest.annotations if one.level]
    annotated = {manifest[one.clip_id].movie_id for one in levels}
    warnings = _films_of_one_annotator(annotated, pairs)
    return Agreement(None, agreement(pairs, permutations), tuple(warnings))


def _require_pairs(pairs: Sequence[AnnotatorPair], where: str) -> None:
    """Raise an error unless two annotators labelled the same clips."""
    if any(pair.n for pair in pairs):
        return
    if pairs:
        raise FixInput(
            "agreement needs clips that two annotators have labelled, got none",
            where=where,
        )
    raise FixInput(
        "agreement needs two annotators of the same film, got one of each",
        where=where,
        hint="name the tables of both: agree ada.csv ben.csv --clips clips.csv",
    )


def _manifests(names: Iterable[PathLike], workspace: PathLike | None) -> list[Manifest]:
    """Return the manifests among some names; a table may have any file beside it."""
    paths = [table_path(name, workspace) for name in names if not is_table(name)]
    return [read_manifest(path.with_suffix(".toml")) for path in paths]


def _refuse_ratings(manifest: Manifest) -> None:
    """Raise an error for a manifest without levels, which may have ratings, or without times."""
    annotations = manifest.annotations
    has_levels = any(one.level for one in annotations or manifest.clips)
    has_times = any(clip.start_s is not None for clip in manifest)
    if has_levels and not annotations and not has_times:
        raise FixInput(
            "agreement is measured on what several annotators said of clips, or on times of films:"
            " nobody else annotated these clips, and none has times (start_s, end_s)",
            where=manifest.name,
            hint="import a table with the labels of each annotator: obygaze manifest import"
            " --help",
        )
    own = own_columns(manifest.columns)
    options = f"--raters COLUMN,COLUMN, of the columns {few(own)}"
    if annotations:
        own = own_columns(annotations[0].own)
        first = " ".join(map(shell_word, own[:1]))
        options = f"--column {first} --cluster movie_id"
    if own and not has_levels:
        raise FixInput(
            "agree measures levels, and no clip has a level; of words or ratings of your own, audit"
            " reliability measures the agreement",
            where=manifest.name,
            hint=f"obygaze audit reliability {shell_word(manifest.name)} {options}",
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
            values = means.values()
            # A p-value is never 0, and must not be shown as 0.
            cells = [
                f"{value:.6g}" if value and "p_value" in name else value
                for value in values
            ]
            rows.append((name.replace("_", " ").replace("ns", "NS"), *cells))
    return rows


def _meaning(alpha: float | None) -> str:
    """Return what the mean of Krippendorff's alpha over films means."""
    places = ", ".join(
        f"{level} {tenths / 10:g}"
        for level, tenths in zip(LEVELS, TENTHS[0], strict=True)
    )
    scale = (
        f"levels are points on a line ({places}), gamma and alpha have their distances; 1 is"
        " complete agreement, 0 agreement by chance"
    )
    if alpha is None:
        return f"{scale}."
    if alpha >= 0.8:
        answer = "labels that agree so well can be relied on"
    elif alpha >= 0.667:
        answer = "from .667 to .80, only tentative conclusions can be drawn"
    else:
        answer = "below .667, the labels depend on who gave them"
    return f"{scale}. Krippendorff's alpha (absolute differences) is {alpha:.3f}: {answer}."


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


def _pair_row(
    pair: Mapping[str, Any], assumed: Sequence[tuple[str, str]]
) -> tuple[object, ...]:
    """Return the row of two annotators of a film."""
    without_ns = pair["without_ns"]
    films_of_pair = [(pair["movie_id"], name) for name in pair["annotators"]]
    is_assumed = any(film in assumed for film in films_of_pair)
    return (
        pair["movie_id"],
        " / ".join(pair["annotators"]),
        "assumed" if is_assumed else "not assumed",
        pair["n"],
        *pair["gamma"].values(),
        pair["alpha"],
        without_ns["n"],
        *without_ns["gamma"].values(),
    )


def _measures(pairs: Sequence[AnnotatorPair], permutations: int) -> dict[str, Any]:
    """Return gamma and alpha as means over films and over pairs, and the p-values."""
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
        "p_value": {null: p_value(pairs, null, permutations) for null in NULLS},
    }


def _record(pair: AnnotatorPair, permutations: int) -> dict[str, Any]:
    """Return the measures of one pair, of which there are no means."""
    measures = _measures([pair], permutations)
    for name in ("gamma_over_pairs", "alpha_over_pairs"):
        del measures[name]
    expected = {null: pair.expected(null) for null in NULLS}
    return {"n": pair.n, "observed": pair.observed, "expected": expected, **measures}


def _gamma(observed: float | None, expected: float | None) -> float | None:
    if observed is None or not expected:
        return None
    return 1.0 - observed / expected


def shuffled_tables(
    counts: Ints, null: str, times: int, generator: np.random.Generator
) -> Ints:
    """Return random tables with as many clips as `counts`, for a permutation test of a null.

    `uniform` draws levels at random, `own` shuffles one annotator's labels over the clips,
    `pooled` shuffles all labels of both between the two.
    """
    n_clips = int(counts.sum())
    if null == "uniform":
        chances = np.full(counts.size, 1 / counts.size)
        tables = generator.multinomial(n_clips, chances, times)
        return tables.reshape(times, *counts.shape)
    first = counts.sum(axis=1)
    second = counts.sum(axis=0)
    if null == "own":
        shape = (times, len(counts))
        rows = np.broadcast_to(first, shape)
        columns = np.broadcast_to(second, shape)
        return _with_margins(rows, columns, generator)
    pooled = first + second
    rows = generator.multivariate_hypergeometric(pooled, n_clips, times)
    return _with_margins(rows, pooled - rows, generator)


def _with_margins(rows: Ints, columns: Ints, generator: np.random.Generator) -> Ints:
    """Return a table for each pair of margins, as shuffling one of the labelings makes it."""
    times, n_levels = rows.shape
    tables = np.zeros((times, n_levels, n_levels), dtype=np.int64)
    left = columns.copy()
    for i in range(n_levels - 1):
        unassigned = rows[:, i].copy()
        others = left.sum(axis=1)
        for j in range(n_levels - 1):
            others -= left[:, j]
            tables[:, i, j] = generator.hypergeometric(left[:, j], others, unassigned)
            unassigned -= tables[:, i, j]
        tables[:, i, -1] = unassigned
        left -= tables[:, i]
    tables[:, -1] = left
    return tables
