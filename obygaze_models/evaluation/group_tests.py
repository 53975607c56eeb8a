"""Permutation tests of two groups of items from films: compute, correct and explain them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze_features.manifest.times import Span
from obygaze_models.evaluation.permutation import (
    PValue,
    holm,
    moved_p,
    occurrence_p,
    p_equals,
    p_text,
    permutation_p,
)

Tail = Literal["greater", "less", "two_sided"]
TAILS: tuple[Tail, ...] = ("two_sided", "greater", "less")
ALPHA = 0.05
# A summary lists up to this many tests. Of more tests, it lists up to this many significant tests.
MANY = 12


@dataclass(frozen=True)
class SharedFilms:
    """The numbers of all films, of films with items of both groups, and of items in the latter."""

    n_blocks: int
    n_shared: int
    n_items_shared: int


@dataclass(frozen=True, eq=False)
class GroupTest:
    """The result of a permutation test of two groups of items, `x` and `y`.

    `a` and `b` are the one or two names of what the values measure; `b` can be "". `verdict` has
    the p-values to report, which are those of `within` if there is one. `across` is the test that
    also exchanges items of different films. `within` is the test that exchanges only items of the
    same film, or None if no film has items of both groups. If `are_neighbours`, `within` moves the
    groups along the items of each film instead; `across` exchanges whole films, and is None if
    there is `within`. `effect_size` is the difference of the group means, divided by the standard
    deviation of all values. It is None if all values are equal.
    """

    x: str
    y: str
    a: str
    b: str
    s_x: NDArray[Any]
    s_y: NDArray[Any]
    blocks: NDArray[Any] | None
    effect_size: float | None
    verdict: PValue
    across: PValue | None
    within: PValue | None
    films: SharedFilms | None
    tail: Tail
    are_neighbours: bool = False
    p_holm: float = 1.0

    @property
    def p(self) -> float:
        """The p-value to report."""
        return float(getattr(self.verdict, self.tail))

    @property
    def p_across(self) -> float | None:
        """The p-value of the test that also exchanges items of different films, if there is one."""
        return None if self.across is None else float(getattr(self.across, self.tail))

    @property
    def method(self) -> str:
        """The method of the reported p-value: "exact" or "sampled"."""
        return self.verdict.method.partition(",")[0]

    def to_json(self) -> dict[str, Any]:
        """Return the result, the names of groups and values, and the explanation of p."""
        p_blocked = asdict(self.within) if self.within else None
        document: dict[str, Any] = {
            "effect_size": self.effect_size,
            "n_x": len(self.s_x),
            "n_y": len(self.s_y),
            "p": asdict(self.across) if self.across else None,
            "p_blocked": p_blocked,
        }
        for name in ("x", "y", "a", "b", "tail"):
            document[name] = getattr(self, name)
        document["verdict"] = "blocked" if self.within else "unblocked"
        if self.are_neighbours:
            document["verdict"] = "moved" if self.within else "whole films"
        document["p_holm"] = self.p_holm
        document["blocks"] = asdict(self.films) if self.films else None
        document["why"] = self.explain()
        return document

    def p_cells(self) -> tuple[object, ...]:
        """Return the cells of a table: p, method, p across films, p after Holm's correction."""
        way = ", within films" if self.within else ""
        if self.are_neighbours:
            way = ", moved within films" if self.within else ", whole films"
        across = None
        if self.within and self.p_across is not None:
            across = p_text(self.p_across)
        return p_text(self.p), self.method + way, across, p_text(self.p_holm)

    def explain(self) -> str:
        """Return why the p-values within and across films differ, or why there is only one."""
        films = self.films
        if films is None:
            return "Items are treated as independent: no films were given."
        shared = (
            f"{films.n_shared} of {films.n_blocks} films have items of both groups"
            f" ({films.n_items_shared} items)."
        )
        if self.within is None:
            return (
                "No film has items of both groups, so this p-value cannot separate a difference "
                f"between films from a difference between {self.x} and {self.y}."
            )
        if self.p_across is None:
            return (
                "The groups are moved along each film, because its clips depend on each other."
                f" {shared}"
            )
        finding = "Both ways of exchanging items agree"
        if self.p_across < ALPHA <= self.p:
            finding = "The difference is between films"
        elif self.p < ALPHA <= self.p_across:
            finding = "The difference is within films and is hidden across films"
        return (
            f"{finding}: {p_equals(self.p)} within films, {p_equals(self.p_across)} across films."
            f" {shared}"
        )


def compare_groups(
    names: tuple[str, str, str, str],
    s_x: NDArray[Any],
    s_y: NDArray[Any],
    blocks: NDArray[Any] | None = None,
    *,
    tail: Tail = "two_sided",
    permutations: int = 1_000_000,
) -> GroupTest:
    """Compare the values of two groups of independent items with permutation tests.

    Boolean values are tested with `occurrence_p`, all other values with `permutation_p`.

    Args:
        names: The names of both groups, and the one or two names of what the values measure; the
            last name may be "".
        s_x: The values of the first group.
        s_y: The values of the second group.
        blocks: The film of each value, first for `s_x` and then for `s_y`. If a film has values of
            both groups, a second test exchanges values within films only. None: no second test.
        tail: Which of the three p-values to report: "greater", "less" or "two_sided".
        permutations: The number of random permutations if there are too many to enumerate.
    """
    s = np.concatenate([s_x, s_y])
    is_x = np.arange(len(s_x) + len(s_y)) < len(s_x)

    def p_value(inside: NDArray[Any] | None) -> PValue:
        if s.dtype == bool:
            return occurrence_p(s, is_x, inside)
        return permutation_p(s, is_x, inside, permutations=permutations)

    across = p_value(None)
    within = None
    films = None
    if blocks is not None:
        films = shared_films(is_x, blocks)
        within = p_value(blocks) if films.n_shared else None
    effect = effect_size(s_x, s_y)
    verdict = within or across
    return GroupTest(
        *names, s_x, s_y, blocks, effect, verdict, across, within, films, tail
    )


def compare_neighbours(
    names: tuple[str, str, str, str],
    s_x: NDArray[Any],
    s_y: NDArray[Any],
    blocks: NDArray[Any],
    places: NDArray[np.float64],
    *,
    tail: Tail = "two_sided",
    permutations: int = 1_000_000,
) -> GroupTest:
    """Compare the values of two groups of neighbouring items, such as windows.

    The groups are moved along the items of each film (`moved_p`). If no film has items of both
    groups, whole films are exchanged, each with the sum of its values beyond their mean.

    Args:
        names: As in `compare_groups`.
        s_x: The values of the first group.
        s_y: The values of the second group.
        blocks: The film of each value, first for `s_x` and then for `s_y`.
        places: The place of each value in its film (`places_of_neighbours`).
        tail: As in `compare_groups`.
        permutations: As in `compare_groups`.
    """
    s = np.concatenate([s_x, s_y])
    is_x = np.arange(len(s)) < len(s_x)
    films = shared_films(is_x, blocks)
    draws = {"permutations": permutations}
    across = None
    within = None
    if films.n_shared:
        within = verdict = moved_p(s, is_x, blocks, places, **draws)
    else:
        _, codes = np.unique(blocks, return_inverse=True)
        beyond_mean = np.bincount(codes, weights=s - s.mean())
        is_film_x = np.bincount(codes, weights=is_x) > 0
        across = verdict = permutation_p(beyond_mean, is_film_x, **draws)
    effect = effect_size(s_x, s_y)
    return GroupTest(
        *(*names, s_x, s_y, blocks, effect, verdict, across, within, films),
        tail=tail,
        are_neighbours=True,
    )


def places_of_neighbours(
    films: Sequence[str], spans: Sequence[Span | None]
) -> NDArray[np.float64] | None:
    """Return the start of each clip in its film if clips are neighbours; else None.

    Clips are neighbours if any two of a film overlap, or lie less than the length of the longer
    one apart. A clip whose time is unknown comes after the other clips of its film.

    >>> places_of_neighbours(["a", "a"], [(0.0, 2.0), (3.0, 5.0)])
    array([0., 3.])
    >>> places_of_neighbours(["a", "a"], [(0.0, 2.0), (9.0, 11.0)])
    """
    spans_of: dict[str, list[Span]] = {}
    for film, span in zip(films, spans, strict=True):
        if span is not None:
            spans_of.setdefault(film, []).append(span)
    for of_film in spans_of.values():
        for before, after in pairwise(sorted(of_film)):
            longest_s = max(before[1] - before[0], after[1] - after[0])
            if after[0] - before[1] < longest_s:
                return np.array([math.inf if s is None else s[0] for s in spans])
    return None


def describe_exchange(are_neighbours: bool, spans: Sequence[Span | None]) -> str:
    """Return a sentence that states how p exchanges clips whose spans in films are `spans`."""
    if are_neighbours:
        return (
            "Clips of a film overlap or lie less than their own length apart, and so depend on each"
            " other. For p, the groups are moved along the clips of each film; what leaves the film"
            " at its end enters it at its start."
        )
    because = "no two of a film lie close to each other"
    if None in spans:
        because = "the times of some clips in their films are not known"
    return f"For p, clips are exchanged as independent of each other: {because}."


def with_holm(tests: Sequence[GroupTest]) -> tuple[GroupTest, ...]:
    """Return the tests with p-values corrected for all of these tests."""
    corrected = holm([test.p for test in tests])
    return tuple(
        replace(test, p_holm=float(p)) for test, p in zip(tests, corrected, strict=True)
    )


def summary(
    tests: Sequence[GroupTest], sentence: Callable[[GroupTest], str]
) -> list[str]:
    """Return the results of tests as sentences.

    If there are at most 12 tests, each test has a sentence. If there are more, only significant
    tests have a sentence: at most the 12 tests with the smallest p.
    """
    sentences = [sentence(test) for test in tests]
    n_tests = len(tests)
    if n_tests > MANY:
        held = sorted(
            (test for test in tests if test.p_holm < ALPHA), key=lambda test: test.p
        )
        first = (
            f"{len(held)} of {n_tests} tests have p < {ALPHA} after Holm's correction"
        )
        sentences = [f"{first}{':' if held else '.'}", *map(sentence, held[:MANY])]
    if n_tests > 1:
        sentences.append(f"Holm's correction is over these {n_tests} tests.")
    sampled = [test.verdict.method for test in tests if test.method != "exact"]
    if sampled:
        sentences.append(f"The permutations are too many to enumerate: {sampled[0]}.")
    return sentences


def effect_size(s_x: ArrayLike, s_y: ArrayLike) -> float | None:
    """Return the difference of the group means, divided by the standard deviation of all values.

    Return None if all values are equal. This is the effect size of Caliskan et al.; the standard
    deviation is that of a sample (n - 1), over both groups.
    """
    x = np.asarray(s_x, dtype=np.float64)
    y = np.asarray(s_y, dtype=np.float64)
    pooled = np.concatenate([x, y])
    spread = float(np.std(pooled, ddof=1))
    if spread <= 1e-12 * max(1.0, float(np.abs(pooled).max())):
        return None
    return float(x.mean() - y.mean()) / spread


def shared_films(is_x: NDArray[np.bool_], blocks: NDArray[Any]) -> SharedFilms:
    """Return the counts of a `SharedFilms` for items of two groups in films."""
    _, codes = np.unique(blocks, return_inverse=True)
    sizes = np.bincount(codes)
    in_x = np.bincount(codes, weights=is_x)
    shared = (in_x > 0) & (in_x < sizes)
    return SharedFilms(len(sizes), int(shared.sum()), int(sizes[shared].sum()))
