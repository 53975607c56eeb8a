"""Values of a column in two groups of clips: against enumeration, scipy, and the whole command."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from obygaze.audits import audit_annotations
from obygaze_features.core.errors import ObygazeError
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_models.evaluation.bootstrap import ratio_interval
from obygaze_models.evaluation.permutation import (
    moved_p,
    occurrence_p,
    permutation_p,
)

# Film, level and emotions of each clip: 3 of S and 4 of EN, one without emotions.
CLIPS = [
    ("a", "S", "anger|fear"),
    ("a", "S", "anger"),
    ("a", "EN", "joy"),
    ("a", "EN", " joy | anger "),
    ("b", "S", "fear"),
    ("b", "EN", "joy"),
    ("b", "EN", ""),
]


def manifest(rows: list[tuple[str, str, str]]) -> Manifest:
    clips = tuple(
        Clip(f"{film}-{i}", film, level=level, extra={"emotions": cell})
        for i, (film, level, cell) in enumerate(rows)
    )
    return Manifest("toy", Header("toy", {}), clips, ("emotions",))


def enumerated(name: str) -> tuple[float, float]:
    """The p-values within films and across films: all ways to choose which clips are S."""
    has = [name in cell for _, _, cell in CLIPS]
    observed = sum(has[i] for i, (_, level, _) in enumerate(CLIPS) if level == "S")

    def two_sided(sums: list[int]) -> float:
        mean = sum(sums) / len(sums)
        return float(
            np.mean([abs(s - mean) >= abs(observed - mean) - 1e-9 for s in sums])
        )

    within = [
        sum(has[i] for i in (*in_a, in_b))
        for in_a, in_b in product(combinations(range(4), 2), range(4, 7))
    ]
    across = [sum(has[i] for i in chosen) for chosen in combinations(range(7), 3)]
    assert (len(within), len(across)) == (18, 35)
    return two_sided(within), two_sided(across)


def test_each_value_is_tested_by_all_exchanges_within_films() -> None:
    audit = audit_annotations(
        manifest(CLIPS), column="emotions", x="level == S", y="level == EN"
    )
    document = audit.to_json()
    assert (document["n_x"], document["n_y"], document["n_empty"]) == (3, 4, 1)
    found = {value["value"]: value for value in document["values"]}
    counts = {name: (of["count_x"], of["count_y"]) for name, of in found.items()}
    assert counts == {"anger": (2, 1), "fear": (2, 0), "joy": (0, 3)}
    assert (found["anger"]["share_x"], found["anger"]["share_y"]) == (2 / 3, 1 / 4)
    for name, value in found.items():
        p = (value["p_blocked"]["two_sided"], value["p"]["two_sided"])
        assert p == pytest.approx(enumerated(name))
        assert (value["p"]["method"], value["p"]["n"]) == ("exact", None)
    # Holm multiplies the smallest of three p-values by three.
    smallest = min(found.values(), key=lambda value: value["p_blocked"]["two_sided"])
    assert smallest["p_holm"] == pytest.approx(3 * smallest["p_blocked"]["two_sided"])
    assert "1 of these clips have no value in this column." in str(audit)


@given(
    st.lists(
        st.tuples(st.booleans(), st.booleans(), st.integers(0, 2)),
        min_size=2,
        max_size=12,
    ).filter(lambda rows: 0 < sum(first for _, first, _ in rows) < len(rows))
)
def test_distribution_is_that_of_counted_permutations(rows) -> None:
    occurs, first, block = map(np.array, zip(*rows, strict=True))
    p, counted = occurrence_p(occurs, first, block), permutation_p(occurs, first, block)
    for tail in ("greater", "less", "two_sided"):
        assert getattr(p, tail) == pytest.approx(getattr(counted, tail), abs=1e-12)


# ---- clips that are neighbours -------------------------------------------------------------------

neighbours = st.lists(
    st.tuples(st.sampled_from("abc"), st.booleans(), st.booleans()),
    min_size=2,
    max_size=12,
)


@pytest.mark.parametrize("kind", [bool, float])
@given(rows=neighbours, draw=st.randoms(use_true_random=False))
def test_moved_groups_are_all_rotations_of_each_film(rows, draw, kind) -> None:
    film, values, is_x = map(np.array, zip(*rows, strict=True))
    if kind is float:
        values = np.array([draw.randint(-3, 3) / 7 for _ in rows])
    places = np.array(draw.sample(range(100), len(rows)))
    found = moved_p(values, is_x, film, places)
    rotations = []
    for name in np.unique(film):
        in_order = sorted(np.flatnonzero(film == name), key=lambda row: places[row])
        x = is_x[in_order]
        moves = [np.roll(x, number) for number in range(len(x))]
        rotations.append([values[in_order][moved].sum() for moved in moves])
    sums = np.array([sum(counts) for counts in product(*rotations)])
    observed = values[is_x].sum()
    far = np.abs(sums - sums.mean()) >= abs(observed - sums.mean()) - 1e-9
    assert found.greater == pytest.approx((sums >= observed - 1e-9).mean())
    assert found.less == pytest.approx((sums <= observed + 1e-9).mean())
    assert found.two_sided == pytest.approx(far.mean())


def test_many_moves_of_numbers_are_sampled() -> None:
    """With rounded numbers, booleans have the exact p of the same sums."""
    draws = np.random.default_rng(3)
    has, is_x = draws.random((2, 100)) < 0.5
    film = np.repeat(np.arange(5), 20)
    exact = moved_p(has, is_x, film, np.arange(100))
    sampled = moved_p(has.astype(float), is_x, film, np.arange(100))
    assert sampled.method.startswith("sampled, 1000000 permutations")
    for side in ("greater", "less", "two_sided"):
        assert getattr(sampled, side) == pytest.approx(getattr(exact, side), abs=0.003)


def test_values_that_last_over_windows_do_not_seem_to_go_with_a_group() -> None:
    """Group and value are drawn apart from each other, and each lasts for about ten windows."""
    draws = np.random.default_rng(5)
    n_small = {"moved": 0, "exchanged": 0}
    for _ in range(200):
        is_x, has = np.repeat(draws.random((2, 12)) < 0.5, 10, axis=1)
        has = np.roll(has, draws.integers(10))
        if not 0 < is_x.sum() < len(is_x):
            continue
        film = np.zeros(len(is_x))
        moved = moved_p(has, is_x, film, np.arange(len(is_x)))
        n_small["moved"] += moved.two_sided < 0.05
        n_small["exchanged"] += occurrence_p(has, is_x, film).two_sided < 0.05
    # Of 200, 10 are expected.
    assert n_small["moved"] <= 20
    assert n_small["exchanged"] >= 60


def spaced(gap_s: float, films: str = "ab", *, have_times: bool = True) -> Manifest:
    """Films of 12 clips of 2 s, not in their order, with S and fear in some of the same clips."""
    clips = []
    for film in films:
        for number in (*range(6, 12), *range(6)):
            start_s = number * (2 + gap_s)
            times = {"start_s": start_s, "end_s": start_s + 2} if have_times else {}
            level = "S" if number in (2, 3, 4, 9) else "EN"
            cell = "fear" if number in (3, 4, 5, 9) else "joy"
            extra = {"emotions": cell}
            name = f"{film}-{number}"
            clips.append(Clip(name, film, level=level, extra=extra, **times))
    return Manifest("toy", Header("toy", {}), tuple(clips), ("emotions",))


@pytest.mark.parametrize(
    ("gap_s", "are_neighbours"),
    [(-1, True), (0, True), (1.99, True), (2, False), (60, False)],
)
def test_clips_are_neighbours_by_their_distance(gap_s, are_neighbours) -> None:
    groups = {"x": "level == S", "y": "level == EN"}
    audit = audit_annotations(spaced(gap_s), column="emotions", **groups)
    found = {value["value"]: value for value in audit.to_json()["values"]}["fear"]
    x = np.isin(np.arange(12), (2, 3, 4, 9))
    has = np.isin(np.arange(12), (3, 4, 5, 9))
    moves = [int((np.roll(x, number) & has).sum()) for number in range(12)]
    sums = np.add.outer(moves, moves).ravel()
    far = (np.abs(sums - sums.mean()) >= 6 - sums.mean() - 1e-9).mean()
    free = occurrence_p(np.tile(has, 2), np.tile(x, 2), np.repeat([0, 1], 12))
    expected = far if are_neighbours else free.two_sided
    assert found["p_blocked"]["two_sided"] == pytest.approx(expected)
    assert far > 2 * free.two_sided
    assert (found["p"] is None) == are_neighbours
    way = (
        "the groups are moved along" if are_neighbours else "no two of a film lie close"
    )
    assert way in " ".join(audit.limits)
    methods = {row[audit.headers.index("method")] for row in audit.rows}
    assert methods == {
        "exact, moved within films" if are_neighbours else "exact, within films"
    }


def test_clips_without_times_are_exchanged_and_this_is_said() -> None:
    groups = {"x": "level == S", "y": "level == EN"}
    clips = spaced(0, have_times=False)
    audit = audit_annotations(clips, column="emotions", **groups)
    assert audit.to_json()["values"][0]["verdict"] == "blocked"
    assert "the times of some clips in their films are not known" in " ".join(
        audit.limits
    )


def test_films_of_one_group_are_exchanged_whole() -> None:
    clips = spaced(0, "abcde")
    groups = {"x": "movie_id in {a, b}", "y": "movie_id in {c, d, e}"}
    n_fear = {"a": 8, "b": 5, "c": 4, "d": 1, "e": 0}
    changed = {}
    for clip in clips:
        number = int(clip.clip_id[2:])
        is_fear = number < n_fear[clip.movie_id]
        changed[clip.clip_id] = "fear" if is_fear else "joy"
    clips = clips.with_column("emotions", changed)
    audit = audit_annotations(clips, column="emotions", **groups)
    fear = audit.to_json()["values"][0]
    # Of the 10 ways to choose two films, one has as many clips with fear, and none has more.
    assert fear["p"]["greater"] == pytest.approx(1 / 10)
    assert (fear["p_blocked"], fear["verdict"]) == (None, "whole films")
    assert "No film has items of both groups" in audit.answers[0]


def test_a_share_has_its_interval_over_films() -> None:
    random = np.random.default_rng(2)
    rows = []
    for film in random.integers(11, size=150):
        level = "S" if random.random() < 0.6 else "EN"
        rows.append((f"f{film}", level, "joy" if random.random() < 0.4 else ""))
    audit = audit_annotations(
        manifest(rows), column="emotions", x="level == S", y="level == EN"
    )
    has = np.array(["joy" in cell for _, level, cell in rows if level == "S"])
    films = [film for film, level, _ in rows if level == "S"]
    drawn = ratio_interval(has, np.ones(len(films)), films, most=1)
    assert audit["values"][0]["interval_x"] == drawn


def test_what_cannot_be_compared_is_refused() -> None:
    for y, column, message in (
        ("level == EN", "relationships", "no column 'relationships'"),
        ("level == EN", "concepts", "has a value in column 'concepts'"),
        ("level != EN", "emotions", "clips are in both groups"),
    ):
        with pytest.raises(ObygazeError, match=message):
            audit_annotations(manifest(CLIPS), "level == S", y, column=column)
