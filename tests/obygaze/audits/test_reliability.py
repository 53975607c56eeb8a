"""Cronbach's alpha by hand, against its definition, and beside the package krippendorff."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import krippendorff
import numpy as np
import pytest
from support.annotated import annotated
from support.seeds import amount

from obygaze.audits import audit_reliability
from obygaze.audits.reliability import reliability_of
from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_features.manifest.model import Clip, Header, Manifest

# Five items, three raters: variances 2.5, 2.5, 1.3; of the sums 4, 6, 8, 13, 14 it is 19.
RATINGS = [[1, 2, 1], [2, 1, 3], [3, 3, 2], [4, 5, 4], [5, 4, 5]]


def rows(ratings: list[list[float]], names: str = "abc") -> list[dict[str, str]]:
    return [dict(zip(names, map(str, row), strict=True)) for row in ratings]


def by_definition(table: np.ndarray) -> float:
    """The mean covariance of two raters over the mean of all cells of the covariance matrix."""
    covariance = np.cov(table, rowvar=False)
    k = len(covariance)
    between = (covariance.sum() - np.trace(covariance)) / (k * (k - 1))
    return float(between / covariance.mean())


@pytest.mark.parametrize("seed", range(5))
def test_both_alphas_against_other_implementations(seed: int) -> None:
    random = np.random.default_rng(seed)
    table = random.normal(size=(30, 1)) + random.normal(size=(30, 4)) + 1000 * seed
    audit = reliability_of(table, list("abcd"), [str(i) for i in range(30)])
    assert audit["cronbach"] == pytest.approx(by_definition(table), abs=1e-9)
    expected = krippendorff.alpha(
        reliability_data=table.T, level_of_measurement="interval"
    )
    assert audit["krippendorff"] == pytest.approx(expected, abs=1e-9)
    for i, rater in enumerate(audit["raters"]):
        assert rater["mean"] == pytest.approx(table[:, i].mean())
        assert rater["sd"] == pytest.approx(np.std(table[:, i], ddof=1))
    low, high = audit["cronbach_interval"]
    assert low is not None
    assert high is not None
    assert audit["cronbach"] is not None
    assert low < audit["cronbach"] < high


def test_what_is_refused() -> None:
    with pytest.raises(FixInput, match="at least two raters, got 1"):
        audit_reliability(rows(RATINGS), raters="a")
    with pytest.raises(NotFound, match="no column 'd'; found a, b, c"):
        audit_reliability(rows(RATINGS), raters="a,d")
    some_words = r"only words, got 1 number and 1 word: 'much' \(b, row 1\)"
    with pytest.raises(FixInput, match=some_words):
        audit_reliability([{"a": "1", "b": "much"}], raters="a,b")
    with pytest.raises(
        FixInput, match="at least two items that all raters have rated, got 1"
    ):
        audit_reliability([{"a": "1", "b": "2"}, {"a": "1", "b": ""}], raters="a,b")
    # Each film has two raters of several.
    of_others = [{"a": "1", "b": "2", "c": ""}, {"a": "", "b": "2", "c": "1"}]
    with pytest.raises(FixInput, match="all raters have rated, got 0") as caught:
        audit_reliability(of_others, raters="a,b,c")
    assert caught.value.hint is not None
    assert caught.value.hint.endswith("rated the same items, of a, b, c")
    clips = [Clip(f"c{n}", "f", extra={"one": "look", "two": "look"}) for n in (0, 1)]
    manifest = Manifest("films", Header("films"), tuple(clips), ("one", "two"))
    with pytest.raises(FixInput, match="nobody or one did"):
        audit_reliability(manifest, raters="one,two", column="one=look")


def test_words_of_annotators_in_a_manifest() -> None:
    said = {"ada": ["yes", "no", "no", "yes"], "ben": ["yes", "no", "yes"]}
    manifest = answered({name: [{"seen": w} for w in said[name]] for name in said})
    audit = audit_reliability(manifest, column="seen")
    numbers = [[1, 0, 0], [1, 0, 1]]
    expected = krippendorff.alpha(numbers, level_of_measurement="nominal")
    assert audit["krippendorff"] == pytest.approx(expected, abs=1e-9)
    assert (audit["n_items"], audit["n_incomplete"]) == (3, 1)
    assert audit["cronbach"] is None
    assert audit["words"] == {"no": (2, 1), "yes": (1, 2)}
    with pytest.raises(FixUsage, match="the column that annotators filled in"):
        audit_reliability(manifest)


def answered(cells_of: dict[str, list[dict[str, Any]]], **more: Any) -> Manifest:
    """What each person said of the clips lake-0, lake-1 and so on."""
    said = {}
    for name, cells in cells_of.items():
        said[name] = {f"lake-{number}": cell for number, cell in enumerate(cells)}
    return annotated(said, **more)


@pytest.mark.parametrize("seed", range(amount(8, 100)))
def test_alpha_of_drawn_annotations_is_that_of_the_package(seed: int) -> None:
    """Of 2 to 4 people, some of whom did not see some clips: those that all saw are compared."""
    random = np.random.default_rng(seed)
    names = ["ada", "ben", "cleo", "dora"][: random.integers(2, 5)]
    shape = (len(names), random.integers(8, 40))
    answers = {
        "rating": random.integers(1, 5, shape).astype(str),
        "mood": random.choice(["joy", "fear", "calm"], shape),
        "level": random.choice(["EN", "HN", "NS", "S"], shape),
    }
    is_seen = random.random(shape) < 0.9
    said: dict[str, dict[str, dict[str, str]]] = {name: {} for name in names}
    for person, clip in np.argwhere(is_seen).tolist():
        cells = {column: str(cell[person, clip]) for column, cell in answers.items()}
        said[names[person]][f"film{clip % 3}-{clip:02d}"] = cells
    manifest = annotated(said)
    seen_by_all = is_seen.all(axis=0)
    for column, kind in (
        ("rating", "interval"),
        ("mood", "nominal"),
        ("level", "nominal"),
    ):
        audit = audit_reliability(manifest, column=column, cluster="movie_id")
        values = answers[column][:, seen_by_all]
        if kind == "interval":
            values = values.astype(float)
        expected = krippendorff.alpha(values, level_of_measurement=kind)
        assert audit["krippendorff"] == pytest.approx(expected, abs=1e-9)
        assert audit["n_items"] == seen_by_all.sum()
        assert audit["n_incomplete"] == (is_seen.any(axis=0) & ~seen_by_all).sum()
    two = audit_reliability(manifest, column="rating", raters=names[:2])
    of_two = is_seen[:2].all(axis=0)
    values = answers["rating"][:2, of_two].astype(float)
    expected = krippendorff.alpha(values, level_of_measurement="interval")
    assert two["krippendorff"] == pytest.approx(expected, abs=1e-9)


def test_levels_and_concepts_are_compared_in_the_view_of_the_manifest() -> None:
    """Of two who heard something, nobody saw anything."""
    heard = {"level": "S", "concepts": ("Voice",)}
    seen = {"level": "S", "concepts": ("Look", "Voice")}
    manifest = answered({"ada": [heard, seen, heard], "ben": [seen, seen, heard]})
    header = Header("made up", {"Voice": "speech", "Look": "visual"})
    manifest = replace(manifest, header=header)
    raw = audit_reliability(manifest, column="level")
    assert raw["words"] == {"S": (3, 3)}
    visual = audit_reliability(manifest.view("visual"), column="level")
    assert visual["words"] == {"EN": (2, 1), "S": (1, 2)}
    assert visual["source"] == "films, level, visual view"
    concepts = audit_reliability(manifest.view("visual"), column="concepts")
    assert concepts["words"] == {"Look": (1, 2), "no concept": (2, 1)}


def test_what_is_said_of_clips_says_nothing_of_annotators() -> None:
    """Each annotator would have the one cell of the clip: complete agreement."""
    manifest = answered({name: [{"mood": "joy"}] * 3 for name in ("ada", "ben")})
    manifest = manifest.with_column("genre", dict.fromkeys(manifest.clip_ids, "drama"))
    for column in ("genre", "movie_id"):
        with pytest.raises(FixInput, match="not of annotators") as error:
            audit_reliability(manifest, column=column)
        assert str(error.value.hint).endswith("level, concepts, mood")
    named = manifest.with_column("ada", {})
    with pytest.raises(FixInput, match="'ada' is an annotator, and a column too"):
        audit_reliability(named, column="mood")


def test_several_values_are_one_answer_in_any_order() -> None:
    said = {
        "ada": [("Body", "Look"), ("Look",), ()],
        "ben": [("Look", "Body"), (), ()],
    }
    cells_of: dict[str, list[dict[str, Any]]] = {}
    for name, answers in said.items():
        cells_of[name] = []
        for concepts in answers:
            level = "S" if concepts else "EN"
            cells = {"level": level, "concepts": concepts, "mood": "|".join(concepts)}
            cells_of[name].append(cells)
    manifest = answered(cells_of, concepts=("Body", "Look"))
    # A clip with a level and no concept was rated: two of three answers are the same.
    audit = audit_reliability(manifest, column="concepts")
    numbers = [[0, 1, 2], [0, 2, 2]]
    expected = krippendorff.alpha(numbers, level_of_measurement="nominal")
    assert audit["krippendorff"] == pytest.approx(expected, abs=1e-9)
    assert audit["words"] == {"Body|Look": (1, 1), "Look": (1, 0), "no concept": (1, 2)}
    twice = answered({name: 2 * cells[:1] for name, cells in cells_of.items()})
    assert audit_reliability(twice, column="mood")["words"] == {"Body|Look": (2, 2)}


def test_numbers_with_a_comma_are_no_words() -> None:
    table = rows([["1,5", "1,5"], ["2,5", "2,0"]], "ab")  # type: ignore[list-item]
    with pytest.raises(FixInput, match="expected numbers with a point, got '1,5'"):
        audit_reliability(table, raters="a,b")


def test_what_pandas_has_for_an_empty_cell_is_no_answer() -> None:
    cells = [["yes", "yes"], ["no", "no"], ["yes", float("nan")], [None, "no"]]
    table = [dict(zip("ab", row, strict=True)) for row in cells]
    audit = audit_reliability(table, raters="a,b")
    assert audit["krippendorff"] == pytest.approx(1)
