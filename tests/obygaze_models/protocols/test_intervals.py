"""Intervals from scores of windows, and their precision, by plain loops."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from obygaze_models.protocols.runner.localise import (
    TIOUS,
    Rule,
    ScoredFilm,
    _over_films,
    blind_intervals,
    choose_rule,
    find_intervals,
    precisions,
    smooth,
)

SECONDS = np.column_stack([np.arange(10.0), np.arange(10.0) + 1])


def brute_force(found: list, marked: list, least: float) -> float:
    """Average precision as ActivityNet defines it, one interval and one segment at a time."""

    def overlap(one: tuple, other: tuple) -> float:
        shared = max(0.0, min(one[1], other[1]) - max(one[0], other[0]))
        return shared / (one[1] - one[0] + other[1] - other[0] - shared)

    taken: set[int] = set()
    correct = []
    for one in sorted(found, key=lambda row: -row[2]):
        ranked = sorted(range(len(marked)), key=lambda n: -overlap(one, marked[n]))
        free = [
            n for n in ranked if overlap(one, marked[n]) >= least and n not in taken
        ]
        taken |= set(free[:1])
        correct.append(bool(free))
    precision = [sum(correct[: n + 1]) / (n + 1) for n in range(len(correct))]
    recall = [sum(correct[: n + 1]) / len(marked) for n in range(len(correct))]
    area, before = 0.0, 0.0
    for n in range(len(correct)):
        area += (recall[n] - before) * max(precision[n:])
        before = recall[n]
    return area


def test_precision_is_that_of_a_brute_force_on_random_intervals() -> None:
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(300):
        n, k = int(rng.integers(0, 40)), int(rng.integers(1, 15))
        start = rng.uniform(0, 200, n)
        found = np.column_stack(
            [start, start + rng.uniform(1, 40, n), rng.permutation(n)]
        )
        start = rng.uniform(0, 200, k)
        marked = np.column_stack([start, start + rng.uniform(1, 40, k)])
        expected = [
            brute_force(found.tolist(), marked.tolist(), least) for least in TIOUS
        ]
        assert precisions(found, [marked]).tolist() == pytest.approx(expected)
        seen.add(round(expected[0], 1))
    assert len(seen) > 4
    twice = precisions(found, [marked, found[:5, :2]])
    assert twice == pytest.approx((expected + precisions(found, [found[:5, :2]])) / 2)


def test_the_same_segments_are_perfect_and_none_are_nothing() -> None:
    marked = np.array([[0.0, 4.0], [6.0, 9.0]])
    assert precisions(np.column_stack([marked, [1, 2]]), [marked]).tolist() == [1.0] * 5
    assert precisions(np.empty((0, 3)), [marked]).tolist() == [0.0] * 5


def test_windows_above_the_threshold_are_intervals_and_short_gaps_are_bridged() -> None:
    scores = np.array([0, 2, 3, 0, 4, 0, 0, 0, 1, 5.0])
    found = find_intervals(SECONDS, scores, Rule(1, 0.5, 0))
    assert found.tolist() == [[1, 3, 2.5], [4, 5, 4], [8, 10, 3]]
    found = find_intervals(SECONDS, scores, Rule(1, 0.5, 1))
    assert found.tolist() == [[1, 5, 3], [8, 10, 3]]
    assert find_intervals(SECONDS, scores, Rule(1, 9, 0)).shape == (0, 3)
    # Windows of 4 s at each second stand for a second around their centre.
    wide = np.add(SECONDS, [0, 3])
    assert find_intervals(wide, scores, Rule(1, 0.5, 0))[0].tolist() == [2.5, 4.5, 2.5]


def test_a_mean_has_fewer_windows_at_the_ends() -> None:
    assert smooth(np.array([3.0, 0, 0, 6]), 3).tolist() == [1.5, 1, 2, 3]
    assert smooth(np.array([3.0, 1]), 5).tolist() == [2, 2]


def test_the_rule_that_is_chosen_finds_the_segments_again() -> None:
    rng = np.random.default_rng(1)
    times = np.column_stack([np.arange(400.0), np.arange(400.0) + 1])
    films = []
    for offset in (10, 40):
        marked = np.array(
            [[start, start + 30] for start in range(offset, 340, 80)], dtype=float
        )
        inside = ((times[:, :1] >= marked[:, 0]) & (times[:, 1:] <= marked[:, 1])).any(
            axis=1
        )
        films.append(ScoredFilm(times, inside + rng.normal(size=400), [marked]))
    rule = choose_rule(films)
    assert rule.width > 1  # single windows are noise
    found = [
        precisions(find_intervals(f.times, f.scores, rule), f.marked) for f in films
    ]
    assert np.mean(found) > 0.6


def test_blind_intervals_have_the_mean_length_and_share() -> None:
    times = np.column_stack([np.arange(100.0), np.arange(100.0) + 1])
    marked = [np.array([[0.0, 5.0], [50.0, 65.0]]), np.array([[0.0, 10.0]])]
    # Ada marks 20 s of 100 in two segments, Ben 10 s in one: 10 s, 15 %; 30 s of 200 s are three.
    found = blind_intervals([ScoredFilm(times, times[:, 0], marked)], times * 2)
    lengths = found[:, 1] - found[:, 0]
    assert lengths.tolist() == pytest.approx([10, 10, 10])
    assert found.mean(axis=0)[:2].mean() == pytest.approx(100)
    assert np.diff(found[:, 0]) == pytest.approx([200 / 3] * 2)


def test_means_over_films_beside_blind_intervals() -> None:
    """Film 1 is found at two of five overlaps, half of film 2 at each."""
    protocol: Any = SimpleNamespace(
        report=SimpleNamespace(replicates=200, confidence=0.95),
        fit=SimpleNamespace(seed=0),
    )
    of_films: Any = [
        [[1.0, 1.0, 0.0, 0.0, 0.0], [0.0] * 5],
        [[0.5] * 5, [0.2] * 5],
    ]
    record = _over_films(protocol, of_films, 1)
    values = {name: entry["value"] for name, entry in record.items()}
    assert values == pytest.approx(
        {
            "map": (0.4 + 0.5) / 2,
            "blind": 0.1,
            "0.3": 0.75,
            "0.4": 0.75,
            "0.5": 0.25,
            "0.6": 0.25,
            "0.7": 0.25,
        }
    )
    # Where the films of one set train the models of the other, intervals are wider.
    random = np.random.default_rng(0)
    many: Any = random.uniform(0.3, 0.7, size=(30, 2, 5)).tolist()
    alone = _over_films(protocol, many, 1)
    reused = _over_films(protocol, many, 2)
    for name, entry in alone.items():
        assert np.ptp(reused[name]["ci"]) > 1.3 * np.ptp(entry["ci"]) > 0
        low, high = entry["ci"]
        assert 0.4 < low < entry["value"] < high < 0.6
