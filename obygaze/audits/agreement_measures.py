"""Measures of agreement of people who answered the same items.

Each word is a point. Krippendorff's alpha compares words by the squared distance of their points.
So one formula holds for all his distances: for `interval`, the points are those of the scale; for
`ordinal`, a point is the number of answers below a word and half of those with it; for `nominal`,
all points are equally distant. Gamma compares words by the distance of the points of the scale
itself, as the paper on ObyGaze12 does.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze_features.core.tables import number_of_cell
from obygaze_models.evaluation.bootstrap import resample

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
# A measure with the ends of its 95 % interval over films; None if undefined.
Measured = tuple[float | None, float | None, float | None]

# The places of the levels on a line, as in the paper.
PLACES = {"EN": 0.0, "HN": 0.3, "NS": 0.7, "S": 1.0}
LEVELS_ON_LINE = "levels"
IN_ORDER = "words in order"
NUMBERS = "numbers"
PLAIN_WORDS = "words"
# The distances of Krippendorff's alpha.
INTERVAL = "interval"
ORDINAL = "ordinal"
NOMINAL = "nominal"
DISTANCES = (INTERVAL, ORDINAL, NOMINAL)
# Sums below this share of the summed squares are rounding errors and count as 0.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Answers:
    """The answers of people to the same items: a row for each item, a column for each person.

    A word is "" if a person has no answer. `films` has the film of each item; without `has_films`,
    each item is its own film.
    """

    people: tuple[str, ...]
    items: NDArray[np.str_]
    films: NDArray[np.str_]
    words: NDArray[np.str_]
    has_films: bool

    def __len__(self) -> int:
        return len(self.words)

    def where(self, kept: NDArray[np.bool_]) -> Self:
        """Return the answers to the items for which `kept` is true."""
        arrays = (self.items[kept], self.films[kept], self.words[kept])
        items, films, words = arrays
        return replace(self, items=items, films=films, words=words)

    def answered_by(self, n_people: int) -> Self:
        """Return the items that at least `n_people` people have answered."""
        return self.where((self.words != "").sum(axis=1) >= n_people)

    def of_people(self, places: Sequence[int]) -> Self:
        """Return the answers of the people at these places of `people`."""
        people = tuple(self.people[place] for place in places)
        return replace(self, people=people, words=self.words[:, places])

    def pairs(self) -> Iterator[Self]:
        """Yield the answers of each pair of people to the items that both have answered."""
        for both in combinations(range(len(self.people)), 2):
            pair = self.of_people(both).answered_by(2)
            if len(pair):
                yield pair


@dataclass(frozen=True)
class Scale:
    """The possible words, each as a point, and the distance of alpha."""

    name: str
    words: Sequence[str]
    points: Floats
    distance: str = INTERVAL

    @classmethod
    def of(cls, said: Iterable[str], order: Sequence[str]) -> Self:
        """Return the scale of the words `said`.

        If `order` is not empty, the words have this order. If `order` is empty and all words are
        numbers, the points are these numbers. In all other cases, all words are equally distant.
        """
        if order:
            return cls(IN_ORDER, order, _on_line(range(len(order))))
        words = sorted({*said} - {""})
        numbers = [number_of_cell(word) for word in words]
        if None in numbers:
            return cls(PLAIN_WORDS, words, _equally_distant(len(words)), NOMINAL)
        values = np.array(numbers, dtype=np.float64)
        # No measure depends on the mean; subtracting it keeps the digits of sums of squares.
        ascending = np.argsort(values)
        points = values[ascending, None] - values.mean()
        return cls(NUMBERS, [words[place] for place in ascending], points)

    @classmethod
    def of_levels(cls, without: str = "") -> Self:
        """Return the scale of all levels, except `without` if it is given."""
        places = {level: at for level, at in PLACES.items() if level != without}
        return cls(LEVELS_ON_LINE, [*places], _on_line(places.values()))

    @property
    def distances(self) -> Floats:
        """The distance of each word from each word in gamma, as a matrix."""
        if self.name == PLAIN_WORDS:
            return 1 - np.eye(len(self.words))
        apart: Floats = np.abs(self.points - self.points.T)
        return apart

    def alpha_points(self, places: Ints) -> Floats:
        """Return the point of each word in alpha of some answers, which have these places."""
        if self.distance == NOMINAL:
            return _equally_distant(len(self.words))
        if self.distance == INTERVAL:
            return self.points
        n_of_word = np.bincount(places[places >= 0], minlength=len(self.words))
        ranks: Floats = np.cumsum(n_of_word) - n_of_word / 2
        # No measure depends on the mean; subtracting it keeps the digits of sums of squares.
        return _on_line((ranks - ranks.mean()).tolist())

    def places(self, answers: Answers) -> Ints:
        """Return for each answer its index in the words of this scale.

        The index is -1 for a missing answer, and for a word that the scale does not have.
        """
        place_of = {word: place for place, word in enumerate(self.words)}
        places = [place_of.get(word, -1) for word in answers.words.ravel().tolist()]
        return np.array(places, dtype=np.intp).reshape(answers.words.shape)


def _equally_distant(n_words: int) -> Floats:
    """Return points whose squared distance is 1."""
    return np.eye(n_words) / 2**0.5


def _on_line(places: Iterable[float]) -> Floats:
    return np.array([*places], dtype=np.float64)[:, None]


def equal_share(answers: Answers) -> float:
    """Return the share of equal answers among all pairs of answers to the same item."""
    equal = [pair.words[:, 0] == pair.words[:, 1] for pair in answers.pairs()]
    return float(np.concatenate(equal).mean())


def cohen_kappa(pair: Answers) -> float | None:
    """Return Cohen's kappa of two people, or None if all answers of both people are one word."""
    words, places = np.unique(pair.words, return_inverse=True)
    # Kappa knows no order of words: the distance of different answers is always 1.
    apart = 1 - np.eye(len(words))
    return _beyond_chance(places.reshape(pair.words.shape), apart)["own"]


def gammas(pair: Answers, scale: Scale) -> dict[str, float | None]:
    """Return 1 - observed / expected distance of two people, for each definition of chance.

    There are three definitions of answers by chance: all words of the scale are equally likely
    (`uniform`); the words of each person are as frequent as in the answers of this person (`own`);
    or the words of each person are as frequent as in the answers of both people together
    (`pooled`). Gamma is None if the expected distance is 0.
    """
    return _beyond_chance(scale.places(pair), scale.distances)


def _beyond_chance(places: Ints, distances: Floats) -> dict[str, float | None]:
    observed = float(distances[places[:, 0], places[:, 1]].mean())
    n_words = len(distances)
    first, second = (np.bincount(column, minlength=n_words) for column in places.T)
    any_word = np.ones(n_words, dtype=np.intp)
    chances = {
        "uniform": (any_word, any_word),
        "own": (first, second),
        "pooled": (first + second, first + second),
    }
    found: dict[str, float | None] = {}
    for null, (one, other) in chances.items():
        expected = float(one @ distances @ other) / int(one.sum() * other.sum())
        found[null] = 1 - observed / expected if expected > ROUNDING else None
    return found


def krippendorff_alpha(answers: Answers, scale: Scale) -> Measured:
    """Return Krippendorff's alpha, and the lower and upper end of its interval over films.

    Alpha is 1 - variance within items / variance of all answers. Each item must have at least two
    answers. The interval of the ordinal alpha keeps the ranks of all answers.
    """
    places = scale.places(answers)
    is_given = (places >= 0)[:, :, None]
    points = np.where(is_given, scale.alpha_points(places)[places], 0.0)
    n_answers = is_given.sum(axis=1).astype(np.float64)
    total = points.sum(axis=1)
    squares = (points**2).sum(axis=(1, 2))[:, None]
    around_item = squares - (total**2).sum(axis=1, keepdims=True) / n_answers
    within = around_item * n_answers / (n_answers - 1)
    sums = np.hstack([n_answers, within, squares, total])
    return _over_films(answers, places, sums, _krippendorff)


def _krippendorff(sums: Floats) -> Floats:
    """Return Krippendorff's alpha from each row of `sums`, or NaN if all answers are equal.

    A row has the sums of the numbers of some items.
    """
    n_answers, within, squares = sums[:, :3].T
    around_mean = squares - (sums[:, 3:] ** 2).sum(axis=1) / n_answers
    with np.errstate(divide="ignore", invalid="ignore"):
        alpha = 1 - within / n_answers / (around_mean / (n_answers - 1))
    return np.where(around_mean > ROUNDING * squares, alpha, np.nan)


def cronbach_over_films(answers: Answers, scale: Scale) -> Measured:
    """Return Cronbach's alpha of the items that all people have rated, with its interval.

    The result is alpha, and the lower and upper end of its interval over films. All three numbers
    are None if all people have rated fewer than two of the items.
    """
    complete = answers.answered_by(len(answers.people))
    if len(complete) < 2:
        return None, None, None
    places = scale.places(complete)
    sums = _rater_sums(scale.points[places, 0])
    return _over_films(complete, places, sums, _cronbach)


def cronbach_alpha(ratings: ArrayLike) -> float | None:
    """Return Cronbach's alpha of a table with a row for each item and a column for each rater.

    Alpha is None if the sum of the ratings is the same for all items.

    >>> cronbach_alpha([[1, 2], [2, 3], [3, 4]])
    1.0
    """
    table = np.asarray(ratings, dtype=np.float64)
    sums = _rater_sums(table - table.mean()).sum(axis=0, keepdims=True)
    return _known(_cronbach(sums)[0])


def _rater_sums(ratings: Floats) -> Floats:
    """Return a row for each item: 1, the sum of its ratings, its square, and further numbers.

    The further numbers are the ratings of the item and the squares of these ratings.
    """
    total = ratings.sum(axis=1, keepdims=True)
    return np.hstack([np.ones_like(total), total, total**2, ratings, ratings**2])


def _cronbach(sums: Floats) -> Floats:
    """Return Cronbach's alpha from each row of `sums`, which `_rater_sums` made of some items.

    It is NaN if the sum of the ratings is the same for all of these items.
    """
    n_items, total, total_squares = sums[:, :3].T
    ratings, squares = np.hsplit(sums[:, 3:], 2)
    n_raters = ratings.shape[1]
    of_totals = total_squares - total**2 / n_items
    of_raters = (squares - ratings**2 / n_items[:, None]).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        alpha = n_raters / (n_raters - 1) * (1 - of_raters / of_totals)
    return np.where(of_totals > ROUNDING * squares.sum(axis=1), alpha, np.nan)


def _over_films(
    answers: Answers,
    places: Ints,
    sums_of_items: Floats,
    alpha_of: Callable[[Floats], Floats],
) -> Measured:
    """Return an alpha, computed from sums over items, with its bootstrap interval over films.

    Films are sorted by their answers, so that the bootstrap samples depend neither on the names of
    films nor on the order of items.
    """
    items_of: dict[str, list[int]] = {}
    for item, film in enumerate(answers.films.tolist()):
        items_of.setdefault(film, []).append(item)
    by_answers = sorted(items_of.values(), key=lambda of: sorted(places[of].tolist()))
    sums = np.array([sums_of_items[items].sum(axis=0) for items in by_answers])
    value = _known(alpha_of(sums.sum(axis=0, keepdims=True))[0])
    if value is None or len(sums) < 2:
        return value, None, None
    drawn = resample(lambda weights: {"alpha": alpha_of(weights @ sums)}, len(sums))
    low, high = drawn["alpha"].ends
    # An end of a bootstrap interval can exceed 1, but alpha cannot.
    return value, low, None if high is None else min(high, 1.0)


def _known(value: float) -> float | None:
    """Return a value without rounding errors, which would print 0 as -0.000; None for NaN."""
    return round(float(value), 14) + 0.0 if np.isfinite(value) else None
