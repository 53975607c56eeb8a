"""How far annotators agree beyond chance: gamma on clip levels under three ideas of chance.

gamma = 1 - observed / expected disorder, both means of a distance between levels. What is
expected depends on who is thought to answer by chance:

- `uniform`: every level is as likely as any other; what the film is like plays no part;
- `own`: each annotator keeps the levels he or she used; gamma is weighted Cohen's kappa;
- `pooled`: both draw from the levels the two used together. With the correction (2n-1)/2n for
  drawing without replacement it is Krippendorff's alpha, which is given beside it.

Distances are whole tenths, so that sums and ties are exact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.chance import NULLS, Ints, drawn_tables, shuffled_tables
from obygaze_features.manifest.model import LEVELS
from obygaze_features.manifest.projection import Projection
from obygaze_features.manifest.segments import ClipSpan

# The paper's distances in tenths, rows and columns in the order of LEVELS.
TENTHS: Ints = np.array([[0, 3, 7, 10], [3, 0, 4, 7], [7, 4, 0, 3], [10, 7, 3, 0]], dtype=np.int64)
WITHOUT_NS = [LEVELS.index(level) for level in LEVELS if level != "NS"]
PAPER_SAMPLES = 62


@dataclass(frozen=True)
class Chance:
    """How chance is simulated.

    `permutations` draws for each p-value (0: none); `n_random` draws for an expected disorder
    that is sampled, as the paper's was, beside the closed form (0: none).
    """

    permutations: int = 9999
    n_random: int = 0
    seed: int = 0


DEFAULT_CHANCE = Chance()


@dataclass(frozen=True)
class Pair:
    """What two annotators said of the same clips of one film: how often each two levels met."""

    movie_id: str
    annotators: tuple[str, str]
    counts: Ints
    tenths: Ints

    @property
    def n(self) -> int:
        """How many clips both gave a level."""
        return int(self.counts.sum())

    @property
    def observed(self) -> float | None:
        """The mean distance between what the two said; None without clips."""
        return int((self.counts * self.tenths).sum()) / (10 * self.n) if self.n else None

    def expected(self, null: str) -> float | None:
        """The mean distance if both had answered by chance; None without clips."""
        first, second = self._chances(null)
        total = 10 * int(first.sum()) * int(second.sum())
        return int(first @ self.tenths @ second) / total if self.n else None

    def gamma(self, null: str) -> float | None:
        """Agreement beyond chance; None where chance alone would agree on everything."""
        return _beyond(self.observed, self.expected(null))

    @property
    def alpha(self) -> float | None:
        """Krippendorff's alpha with these distances."""
        expected = self.expected("pooled")
        if expected is None:
            return None
        return _beyond(self.observed, expected * 2 * self.n / (2 * self.n - 1))

    def without_ns(self) -> Pair:
        """The same two on the clips where neither said NS."""
        keep = np.ix_(WITHOUT_NS, WITHOUT_NS)
        return Pair(self.movie_id, self.annotators, self.counts[keep], self.tenths[keep])

    def simulated(self, null: str, times: int, seed: int) -> Ints:
        """The sum of distances, in tenths, of each of `times` shufflings or draws by the null."""
        generator = self._generator(null, seed)
        return self._sums(shuffled_tables(self.counts, null, times, generator))

    def sampled_gamma(self, null: str, chance: Chance) -> float | None:
        """Gamma with an expected disorder that is the mean of `n_random` drawn labelings."""
        if not self.n or not chance.n_random:
            return None
        generator = self._generator(f"{null} drawn", chance.seed)
        drawn = drawn_tables(*self._chances(null), self.n, chance.n_random, generator)
        return _beyond(self.observed, int(self._sums(drawn).sum()) / (10 * self.n * len(drawn)))

    def _generator(self, purpose: str, seed: int) -> np.random.Generator:
        # A stream of its own for each film, pair, purpose and set of levels.
        name = "\n".join((self.movie_id, *self.annotators, purpose, str(len(self.counts))))
        return np.random.default_rng([seed, *name.encode()])

    def _sums(self, tables: Ints) -> Ints:
        sums: Ints = np.einsum("tij,ij->t", tables, self.tenths)
        return sums

    def _chances(self, null: str) -> tuple[Ints, Ints]:
        first, second = self.counts.sum(axis=1), self.counts.sum(axis=0)
        if null == "uniform":
            return np.ones_like(first), np.ones_like(second)
        return (first, second) if null == "own" else (first + second, first + second)


def pair_of(
    first: Sequence[str],
    second: Sequence[str],
    *,
    movie_id: str = "",
    annotators: tuple[str, str] = ("", ""),
) -> Pair:
    """Two annotators' levels of the same clips, in the same order."""
    if len(first) != len(second):
        raise FixInput(f"{len(first)} levels against {len(second)}: these are not the same clips")
    counts = np.zeros(TENTHS.shape, dtype=np.int64)
    for one, other in zip(first, second, strict=True):
        counts[LEVELS.index(one), LEVELS.index(other)] += 1
    return Pair(movie_id, annotators, counts, TENTHS)


def pairs_of(projection: Projection, spans: Iterable[ClipSpan]) -> list[Pair]:
    """Every two annotators of every film."""
    movie_of = {span.clip_id: span.movie_id for span in spans}
    films: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for annotator, rows in projection.by_annotator.items():
        for row in rows:
            films[movie_of[row.clip_id]][annotator].append(row.level)
    # An annotator has a row for each clip of a film or for none, so that lists go together.
    return [
        pair_of(films[movie][one], films[movie][other], movie_id=movie, annotators=(one, other))
        for movie in sorted(films)
        for one, other in combinations(sorted(films[movie]), 2)
    ]


def mean_over_films(pairs: Sequence[Pair], values: Sequence[float | None]) -> float | None:
    """The mean over films of the mean over a film's pairs; pairs without a value are left out."""
    films: dict[str, list[float]] = defaultdict(list)
    for pair, value in zip(pairs, values, strict=True):
        if value is not None:
            films[pair.movie_id].append(value)
    means = [sum(film) / len(film) for film in films.values()]
    return sum(means) / len(means) if means else None


def mean_gamma(pairs: Sequence[Pair]) -> dict[str, float | None]:
    """The mean over films of gamma, under each null."""
    return {null: mean_over_films(pairs, [pair.gamma(null) for pair in pairs]) for null in NULLS}


def p_value(pairs: Sequence[Pair], null: str, chance: Chance = DEFAULT_CHANCE) -> float | None:
    """How often chance agrees at least as well as these annotators: (b + 1) / (m + 1)."""
    usable = [pair for pair in pairs if pair.gamma(null) is not None]
    real = mean_gamma(usable)[null]
    if real is None or not chance.permutations:
        return None
    in_film = [sum(other.movie_id == pair.movie_id for other in usable) for pair in usable]
    n_films = len({pair.movie_id for pair in usable})
    gammas = np.zeros(chance.permutations)
    for pair, n_pairs in zip(usable, in_film, strict=True):
        sums = pair.simulated(null, chance.permutations, chance.seed)
        disorder = sums / (10 * pair.n * (pair.expected(null) or 1.0))
        gammas += (1.0 - disorder) / (n_pairs * n_films)
    # Means that are equal as fractions may differ in their last bits.
    as_good = int((gammas >= real - 1e-12).sum())
    return (as_good + 1) / (chance.permutations + 1)


def agreement(pairs: Sequence[Pair], chance: Chance = DEFAULT_CHANCE) -> dict[str, Any]:
    """All that is known of the agreement of these pairs, as JSON has it.

    Pairs for which chance alone would agree on everything have no gamma: they are null in
    `pairs`, take no part in means and p-values, and are named in `degenerate`.
    """
    reduced = [pair.without_ns() for pair in pairs]
    return {
        "gamma": mean_gamma(pairs),
        "gamma_without_ns": mean_gamma(reduced),
        "alpha": mean_over_films(pairs, [pair.alpha for pair in pairs]),
        "alpha_without_ns": mean_over_films(reduced, [pair.alpha for pair in reduced]),
        "p_value": {null: p_value(pairs, null, chance) for null in NULLS},
        "p_value_without_ns": {null: p_value(reduced, null, chance) for null in NULLS},
        "permutations": chance.permutations,
        "seed": chance.seed,
        **_sampled(pairs, reduced, chance),
        "films": len({pair.movie_id for pair in pairs}),
        "degenerate": _degenerate(pairs, without_ns=False) + _degenerate(reduced, without_ns=True),
        "pairs": [
            {
                "movie_id": pair.movie_id,
                "annotators": list(pair.annotators),
                **_record(pair, chance),
                "without_ns": _record(less, chance),
            }
            for pair, less in zip(pairs, reduced, strict=True)
        ],
    }


def _beyond(observed: float | None, expected: float | None) -> float | None:
    return None if observed is None or not expected else 1.0 - observed / expected


def _record(pair: Pair, chance: Chance) -> dict[str, Any]:
    record: dict[str, Any] = {
        "n": pair.n,
        "observed": pair.observed,
        "expected": {null: pair.expected(null) for null in NULLS},
        "gamma": {null: pair.gamma(null) for null in NULLS},
        "alpha": pair.alpha,
        "p_value": {null: p_value([pair], null, chance) for null in NULLS},
    }
    if chance.n_random:
        record["sampled_gamma"] = {null: pair.sampled_gamma(null, chance) for null in NULLS}
    return record


def _sampled(pairs: Sequence[Pair], reduced: Sequence[Pair], chance: Chance) -> dict[str, Any]:
    if not chance.n_random:
        return {}
    return {
        "sampled": {
            "n_random": chance.n_random,
            "gamma": _mean_sampled(pairs, chance),
            "gamma_without_ns": _mean_sampled(reduced, chance),
        }
    }


def _mean_sampled(pairs: Sequence[Pair], chance: Chance) -> dict[str, float | None]:
    return {
        null: mean_over_films(pairs, [pair.sampled_gamma(null, chance) for pair in pairs])
        for null in NULLS
    }


def _degenerate(pairs: Sequence[Pair], *, without_ns: bool) -> list[dict[str, Any]]:
    found = ((pair, [null for null in NULLS if pair.gamma(null) is None]) for pair in pairs)
    return [
        {
            "movie_id": pair.movie_id,
            "annotators": list(pair.annotators),
            "nulls": nulls,
            "without_ns": without_ns,
        }
        for pair, nulls in found
        if nulls
    ]
