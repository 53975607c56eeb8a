"""Agreement: by hand, against statsmodels, krippendorff and pygamma-agreement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.annotated import annotated
from support.cli import call_obygaze
from support.film import clips, marks, write_marks, write_spans
from support.seeds import amount

from obygaze.films.agreement import (
    TENTHS,
    AnnotatorPair,
    Scale,
    agreement,
    mean_of_groups,
    measure_agreement,
    pairs_of,
)
from obygaze.films.marks import LEVEL, Mark
from obygaze.films.projection import ClipSpan
from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import (
    LEVELS,
    Annotation,
    Clip,
    Header,
    Manifest,
)

DISTANCES = {
    ("EN", "HN"): 0.3,
    ("EN", "NS"): 0.7,
    ("EN", "S"): 1.0,
    ("HN", "NS"): 0.4,
    ("HN", "S"): 0.7,
    ("NS", "S"): 0.3,
}


def annotator_pair(
    first: Sequence[str], second: Sequence[str], **named: Any
) -> AnnotatorPair:
    """Return the pair of two people from their levels of the same clips, in the same order."""
    return Scale.of(LEVEL, (), {}).pair(first, second, **named)


labelings = st.lists(
    st.tuples(st.sampled_from(LEVELS), st.sampled_from(LEVELS)), min_size=1, max_size=60
)


def close(value: float | None) -> Any:
    return pytest.approx(value, abs=1e-12)


@settings(max_examples=50)
@given(labelings)
def test_expected_disorder_is_the_mean_over_every_way_to_answer(
    labels: list[tuple[str, str]],
) -> None:
    first, second = zip(*labels, strict=True)
    pair = annotator_pair(first, second)

    def mean(ones: Any, others: Any) -> float:
        apart = [
            DISTANCES.get((one, other), DISTANCES.get((other, one), 0.0))
            for one, other in product(ones, others)
        ]
        return math.fsum(apart) / len(apart)

    assert pair.expected("uniform") == close(mean(LEVELS, LEVELS))
    assert pair.expected("own") == close(mean(first, second))
    assert pair.expected("pooled") == close(mean(first + second, first + second))


def test_the_mean_is_over_films_and_a_film_counts_once() -> None:
    good, bad = ["EN", "S", "HN"], ["S", "EN", "HN"]
    pairs = [
        annotator_pair(good, good, movie_id="a"),
        annotator_pair(good, bad, movie_id="b", annotators=("x", "y")),
        annotator_pair(good, good, movie_id="b", annotators=("x", "z")),
        annotator_pair(good, bad, movie_id="b", annotators=("y", "z")),
    ]
    low = 1 - (2 / 3) / 0.425
    expected = (1 + (low + 1 + low) / 3) / 2
    assert mean_of_groups(
        [pair.movie_id for pair in pairs], [pair.gamma("uniform") for pair in pairs]
    ) == close(expected)
    # As in the paper, every pair of annotators counts once: two that agree, two that do not.
    document = agreement(pairs)
    assert document["gamma"]["uniform"] == close(expected)
    assert document["gamma_over_pairs"]["uniform"] == close((2 + 2 * low) / 4)


class Replayed:
    """A sampler for pygamma-agreement that replays given labelings on the clips' grid."""

    def __init__(self, continua: list[Any]) -> None:
        self.continua = iter(continua)

    def init_sampling(self, *_: Any) -> None:
        """Nothing is learnt from the reference."""

    @property
    def sample_from_continuum(self) -> Any:
        """The next labeling."""
        return next(self.continua)


@pytest.mark.check("takes seconds to be compiled")
@pytest.mark.filterwarnings("ignore")
def test_pygamma_agreement_with_a_large_alpha_on_the_same_grid() -> None:
    """Where moving in time is ruled out, its alignment is clip by clip and gamma is ours."""
    pygamma = pytest.importorskip("pygamma_agreement")
    grid = pytest.importorskip("pyannote.core").Segment
    labels = (["EN", "HN", "S"], ["EN", "S", "NS"])

    def continuum(both: tuple[Any, Any]) -> Any:
        made = pygamma.Continuum()
        for name, track in zip("AB", both, strict=True):
            for clip, label in enumerate(track):
                made.add(name, grid(10 * clip, 10 * clip + 10), label)
        return made

    levels = pytest.importorskip("sortedcontainers").SortedSet(LEVELS)
    matrix = pygamma.PrecomputedCategoricalDissimilarity(levels, TENTHS / 10)
    samples = [
        continuum(both)
        for both in ((labels[0], order) for order in permutations(labels[1]))
    ]
    result = continuum(labels).compute_gamma(
        pygamma.CombinedCategoricalDissimilarity(alpha=1000, cat_dissim=matrix),
        n_samples=len(samples),
        sampler=Replayed(samples),
    )
    pair = annotator_pair(*labels)
    # It computes in single precision.
    assert result.observed_disorder == pytest.approx(pair.observed, abs=1e-6)
    assert result.expected_disorder == pytest.approx(pair.expected("own"), abs=1e-6)
    assert result.gamma == pytest.approx(pair.gamma("own"), abs=1e-5)


def run(
    folder: Path, segments: list[Mark], spans: list[ClipSpan], *options: str
) -> Any:
    marked = write_marks(folder / "s.csv", segments)
    cut = write_spans(folder / "c.csv", spans)
    return call_obygaze("manifest", "agree", marked, "--clips", cut, *options).ok()


def test_agreement_without_two_annotators_of_a_film_is_an_error(tmp_path: Path) -> None:
    cut = write_spans(tmp_path / "c.csv", clips("0-9"))
    marked = write_marks(tmp_path / "s.csv", marks("0-9 S"))
    result = call_obygaze("manifest", "agree", marked, "--clips", cut)
    assert (result.code, result.stdout) == (1, "")
    assert "agreement needs clips that two annotators have labelled, got none" in (
        result.stderr
    )


@pytest.mark.parametrize("is_ordered", [False, True])
def test_agreement_on_a_column_of_ones_own(is_ordered: bool, tmp_path: Path) -> None:
    """Words with an order have equal steps, others are the same or not."""
    package = pytest.importorskip("krippendorff")
    draws = np.random.default_rng(5)
    words = ("none", "schwach", "stark")
    said = draws.integers(0, 3, (2, 40))
    marked = []
    for name, numbers in zip("AB", said, strict=True):
        parts = [
            f"{10 * n}-{10 * n + 9} Gewalt={words[k]}" for n, k in enumerate(numbers)
        ]
        marked += marks(", ".join(parts), annotator=name)
    spans = clips(" ".join(f"{10 * n}-{10 * n + 9}" for n in range(40)))
    options = ["--column", "Gewalt", "--json"]
    if is_ordered:
        options += ["--order", "Gewalt=schwach,stark"]
    document = run(tmp_path, marked, spans, *options).json()
    level = "interval" if is_ordered else "nominal"
    if is_ordered:
        expected = package.alpha(
            said.astype(float),
            value_domain=[0.0, 1.0, 2.0],
            level_of_measurement=lambda a, b, **_: np.abs(a - b),
        )
    else:
        expected = package.alpha(said, level_of_measurement=level)
    assert document["column"] == "Gewalt"
    assert document["alpha"] == close(float(expected))
    refused = call_obygaze(
        "manifest", "agree", "s.csv", "--clips", "c.csv", "--column", "Gewalr",
        cwd=tmp_path,
    )  # fmt: skip
    assert refused.code == 1 and "did you mean 'Gewalt'?" in refused.stderr


@pytest.mark.parametrize("seed", range(amount(8, 100)))
def test_agreement_of_drawn_annotations_is_that_of_the_package(
    tmp_path: Path, seed: int
) -> None:
    """Two or three people gave levels to clips of two films; each saw most of them."""
    random = np.random.default_rng(seed)
    names = ["ada", "ben", "cleo"][: random.integers(2, 4)]
    shape = (len(names), 2, random.integers(6, 25))
    levels = random.choice(LEVELS, shape, p=[0.4, 0.2, 0.2, 0.2])
    is_seen = random.random(shape) < 0.9
    said: dict[str, dict[str, dict[str, str]]] = {name: {} for name in names}
    for person, film, clip in np.argwhere(is_seen).tolist():
        label = {"level": str(levels[person, film, clip])}
        said[names[person]][f"film{film}-{clip:02d}"] = label
    write_manifest(annotated(said), tmp_path / "manifests/films.toml")
    found = measure_agreement("films", workspace=tmp_path).measures
    pairs = {(pair["movie_id"], *pair["annotators"]): pair for pair in found["pairs"]}
    assert len(pairs) == 2 * len(names) * (len(names) - 1) / 2
    alphas: dict[str, list[float]] = {"film0": [], "film1": []}
    for (film, *both), pair in pairs.items():
        persons = [names.index(name) for name in both]
        number = int(film[-1])
        seen_by_both = is_seen[persons, number].all(axis=0)
        of_both = levels[persons, number][:, seen_by_both]
        places = np.vectorize(PLACES.get)(of_both)
        expected = krippendorff_alpha(places)
        assert pair["n"] == seen_by_both.sum()
        assert pair["alpha"] == pytest.approx(expected, abs=1e-9)
        # Kappa with these distances: both keep how often they gave each level.
        observed = np.abs(places[0] - places[1]).mean()
        by_chance = np.abs(places[0][:, None] - places[1]).mean()
        assert pair["gamma"]["own"] == pytest.approx(1 - observed / by_chance)
        alphas[film].append(expected)
    means = [np.mean(of_film) for of_film in alphas.values()]
    assert found["alpha"] == pytest.approx(np.mean(means), abs=1e-9)
    over_pairs = np.mean([*alphas["film0"], *alphas["film1"]])
    assert found["alpha_over_pairs"] == pytest.approx(over_pairs, abs=1e-9)


# The places of the levels on their line.
PLACES = {"EN": 0.0, "HN": 0.3, "NS": 0.7, "S": 1.0}


def krippendorff_alpha(places: NDArray[np.float64]) -> float:
    """Krippendorff's alpha of the package, with the distances of places on a line."""
    krippendorff = pytest.importorskip("krippendorff")

    def distance(one: Any, other: Any, **_: Any) -> Any:
        return np.abs(one - other)

    found = krippendorff.alpha(
        reliability_data=places,
        value_domain=sorted(PLACES.values()),
        level_of_measurement=distance,
    )
    return float(found)


def said_of_clips(ada: str, ben: str) -> Manifest:
    """Return clips of one film whose mood two people said, a word or several for each clip."""
    clips = []
    annotations = []
    for number, words in enumerate(zip(ada.split(), ben.split(), strict=True)):
        clips.append(Clip(f"lake-{number}", "lake"))
        for name, word in zip(("ada", "ben"), words, strict=True):
            own = {"mood": word}
            annotations.append(Annotation(f"lake-{number}", name, "", (), own))
    header = Header("films")
    return Manifest("films", header, tuple(clips), ("mood",), tuple(annotations))


def test_four_words_of_an_own_column_are_no_levels() -> None:
    pairs = pairs_of(said_of_clips("a b c d a c", "a c c d b c"), "mood")
    assert all(pair.without_ns() is pair for pair in pairs)


def test_several_words_of_a_cell_have_no_order() -> None:
    (pair,) = pairs_of(said_of_clips("sad|calm odd tense", "calm|sad odd odd"), "mood")
    (plain,) = pairs_of(said_of_clips("both odd tense", "both odd odd"), "mood")
    assert pair.alpha == plain.alpha


def test_chance_draws_no_word_that_nobody_can_say() -> None:
    """With low, mid and high, two draws are 8 / 9 apart on average."""
    orders = {"mood": ["low", "mid", "high"]}
    said = said_of_clips("low high mid", "high low mid")
    (pair,) = pairs_of(said, "mood", orders)
    assert pair.gamma("uniform") == pytest.approx(1 - (4 / 3) / (8 / 9))


def test_an_order_lacks_no_word_that_somebody_said(tmp_path: Path) -> None:
    manifest = said_of_clips("low high", "mid high")
    write_manifest(manifest, tmp_path / "manifests" / "films.toml")
    with pytest.raises(FixInput, match="the order of mood does not have these words"):
        measure_agreement(
            "films", column="mood", orders={"mood": "low,high"}, workspace=tmp_path
        )
