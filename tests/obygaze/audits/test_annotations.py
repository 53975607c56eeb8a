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
from obygaze_models.evaluation.permutation import occurrence_p, permutation_p

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
