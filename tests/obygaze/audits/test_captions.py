"""Word rates and co-occurrence, counted by hand and against the original script's output."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from obygaze.audits.captions import Record, audit_captions, word_rates
from obygaze.audits.cooccurrence import (
    audit_cooc,
)
from obygaze.audits.cooccurrence import (
    compute as count_pairs,
)
from obygaze.audits.texts import (
    LabelledText,
    read_words,
)
from obygaze_features.core.errors import FixInput, FixUsage, ObygazeWarning
from obygaze_models.evaluation.permutation import holm, permutation_p


def in_group(text: str, group: str, cluster: str) -> LabelledText:
    """A caption of one group."""
    return LabelledText(text, frozenset({group}), cluster)


LISTS = {"sad": frozenset({"sad", "crying"}), "glad": frozenset({"happy"})}


def rates_by_group(rates: list[Record]) -> dict[str, dict[str, Record]]:
    """The rates by list, then by group."""
    nested: dict[str, dict[str, Record]] = {}
    for rate in rates:
        nested.setdefault(rate["words"], {})[rate["group"]] = rate
    return nested


@pytest.mark.parametrize(
    ("caption", "n_words", "n_tokens"),
    [
        # Each has two words of the list, or one: `audit cooc` found them already.
        ("sad! a (sad) man", 2, 0),
        ('"sad"; sad?', 2, 0),
        ("so: sad's end, sad.", 2, 1),
        ("sadness is no sad-looking word: Sad", 1, 1),
    ],
)
def test_words_are_found_beside_marks_and_the_authors_counter_is_a_choice(
    caption: str, n_words: int, n_tokens: int
) -> None:
    rows = [{"caption": caption, "group": "o"}]
    words = {"sad": frozenset({"sad"})}
    (rate,) = audit_captions(rows, words=words)["rates"]
    assert rate["count"] == n_words
    (rate,) = audit_captions(rows, words=words, tokens="authors")["rates"]
    assert rate["count"] == n_tokens
    with pytest.raises(FixUsage, match="unknown tokens 'blanks'"):
        audit_captions(rows, words=words, tokens="blanks")  # type: ignore[arg-type]


def test_the_interval_is_over_clusters_not_captions() -> None:
    many = [in_group("sad", "g", str(i % 8)) for i in range(400)]
    many += [in_group("fine", "g", str(i % 8)) for i in range(400)]
    # Every cluster has the same rate: a width of zero is no interval.
    assert word_rates(many, LISTS)[0]["ci"] == [None, None]
    lumped = [
        in_group("sad" if i % 8 < 4 else "fine", "g", str(i % 8)) for i in range(800)
    ]
    low, high = word_rates(lumped, LISTS)[0]["ci"]
    assert low is not None
    assert high is not None
    assert low < 250
    assert high > 750


def test_a_page_says_how_intervals_of_few_clusters_are_made() -> None:
    """A page of four clusters said "bootstrapped", and had Student's t."""
    rows = []
    for number in range(40):
        caption = "a sad man" if number % 5 else "a woman"
        rows.append({"caption": caption, "group": "g", "image": f"{number % 4}"})
    for page in (
        audit_captions(rows, cluster="image", words=LISTS),
        audit_cooc(rows, cluster="image", things="group"),
    ):
        (said,) = [text for text in page.limits if text.startswith("Intervals (95 %)")]
        how = "bootstrapped over clusters, of fewer than 6 clusters by Student's t"
        assert how in said and how in str(page)


def contrasts(captions: list[LabelledText], lists: dict[str, frozenset[str]]) -> Any:
    """The tests of captions of two groups."""
    rows = []
    for caption in captions:
        (group,) = caption.labels
        row = {"caption": caption.text, "group": group, "image": caption.cluster}
        rows.append(row)
    return audit_captions(rows, cluster="image", words=lists)["contrasts"]


def test_groups_are_compared_by_exchanging_whole_clusters() -> None:
    captions = [
        in_group("sad" if i < 3 else "fine", "ab"[i >= 3], str(i)) for i in range(6)
    ]
    (sad, glad) = contrasts(captions, LISTS)
    assert (sad["first"], sad["second"]) == ("a", "b")
    assert sad["p"]["greater"] == 1 / 20
    assert glad["p"]["greater"] == 1.0
    mixed = [in_group("sad", "a", "1"), in_group("sad", "b", "1")]
    assert contrasts(mixed, LISTS) == []


def test_rates_need_at_least_one_caption() -> None:
    with pytest.raises(FixInput, match="no texts"):
        audit_captions([])
    rows = [{"caption": "sad", "group": "a"}, {"caption": "sad", "group": ""}]
    with pytest.warns(ObygazeWarning, match="without a group in 'group': 1 row"):
        audit_captions(rows)


GENDERS = {"man": frozenset({"man", "he"}), "woman": frozenset({"woman"})}


def test_co_occurrence_by_hand() -> None:
    texts = [
        LabelledText("a man with a dog", frozenset({"dog"}), "1"),
        LabelledText("he walks a dog", frozenset({"dog"}), "2"),
        LabelledText("a woman, a dog and a man", frozenset({"dog", "tree"}), "3"),
        LabelledText("a dog alone", frozenset({"dog"}), "4"),
        LabelledText("an umbrella", frozenset({"umbrella"}), "4"),
    ]
    dog, tree, umbrella = count_pairs(texts, GENDERS)
    assert (dog["thing"], dog["counts"], dog["share"]) == (
        "dog",
        {"man": 3, "woman": 1},
        0.75,
    )
    assert dog["ci"] is not None
    low, high = dog["ci"]
    assert low is not None
    assert high is not None
    assert low <= 0.75 <= high
    assert (tree["counts"], tree["share"]) == ({"man": 1, "woman": 1}, 0.5)
    assert (umbrella["share"], umbrella["printed"]) == (None, None)
    assert dog["printed"] == (0.75, 0.25)


def test_published_cases() -> None:
    from support.data import golden

    cases = json.loads(golden("audits", "captions.json").read_text("utf-8"))
    lists = {name: frozenset(words) for name, words in cases["word_lists"].items()}
    assert lists == read_words("emotions")
    captions = []
    for name, text in cases["synthetic"]["files"].items():
        image, emotion, condition, _ = name.split("_", 3)
        group = {"NO": "Nonobjectified", "O": "Objectified"}[condition] + " " + emotion
        captions += [
            in_group(line, group, f"{image}{emotion}") for line in text.splitlines()
        ]
    rates = rates_by_group(word_rates(captions, lists))
    for expected in cases["synthetic"]["expected"]:
        emotion = expected["emotion"]
        rate = rates[emotion[:2]][f"{expected['condition']} {emotion}"]
        assert (rate["count"], rate["n_captions"]) == (
            expected["count"],
            expected["n_captions"],
        )
        assert rate["occurrences_per_1000"] == pytest.approx(
            expected["occurrences_per_1000"]
        )
        hit_rate = expected["captions_with_hit_per_1000"]
        assert rate["captions_with_hit_per_1000"] == pytest.approx(hit_rate)
    for image in cases["per_image_permutation"]:
        values = [*image["per_image_NO"], *image["per_image_O"]]
        p = permutation_p(values, np.arange(40) < 20)
        assert (p.n_greater, p.n) == (image["ge"], image["n"])


def crossed_captions(seed: int) -> list[dict[str, str]]:
    """Sixteen images of three crossed columns, each with one to three captions."""
    random = np.random.default_rng(seed)
    rows = []
    for image in range(16):
        cells = {
            "race": str(random.choice(["black", "white"])),
            "gender": str(random.choice(["man", "woman"])),
            "class": str(random.choice(["poor", "rich", "unknown"])),
        }
        for _ in range(random.integers(1, 4)):
            words = ["sad"] * int(random.integers(0, 3))
            rows.append(
                {"caption": " ".join(["a", *words]), "image": str(image), **cells}
            )
    return rows


def enumerated(
    rows: list[dict[str, str]], column: str, first: str
) -> tuple[Fraction, Fraction]:
    """One-sided p of more and of fewer words, over all exchanges within the other columns."""
    others = [name for name in ("race", "gender", "class") if name != column]
    n_all = len(rows)
    total = sum(row["caption"].count("sad") for row in rows)
    images: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        images.setdefault(row["image"], []).append(row)
    cells: dict[tuple[str, ...], list[tuple[int, bool]]] = {}
    for captions in images.values():
        value = n_all * sum(row["caption"].count("sad") for row in captions)
        value -= total * len(captions)
        key = tuple(captions[0][name] for name in others)
        cells.setdefault(key, []).append((value, captions[0][column] == first))
    sums = [0]
    observed = 0
    for items in cells.values():
        taken = sum(is_first for _, is_first in items)
        observed += sum(value for value, is_first in items if is_first)
        of_cell = [
            sum(chosen) for chosen in combinations([value for value, _ in items], taken)
        ]
        sums = [before + more for before in sums for more in of_cell]
    greater = Fraction(sum(one >= observed for one in sums), len(sums))
    less = Fraction(sum(one <= observed for one in sums), len(sums))
    return greater, less


@pytest.mark.parametrize("seed", range(4))
def test_crossed_groups_against_all_exchanges(seed: int) -> None:
    rows = crossed_captions(seed)
    audit = audit_captions(
        rows,
        group="race,gender,class",
        cluster="image",
        words={"sad": frozenset({"sad"})},
    )
    tested = {(test["column"], test["first"]): test for test in audit["contrasts"]}
    assert set(tested) == {
        ("race", "black"),
        ("gender", "man"),
        ("class", "poor"),
        ("class", "rich"),
        ("class", "unknown"),
    }
    for (column, first), test in tested.items():
        greater, less = enumerated(rows, column, first)
        assert test["p"]["method"] == "exact"
        assert test["p"]["greater"] == pytest.approx(float(greater), abs=1e-12)
        assert test["p"]["less"] == pytest.approx(float(less), abs=1e-12)
    raw = [test["p"]["two_sided"] for test in audit["contrasts"]]
    assert [test["p_holm"] for test in audit["contrasts"]] == pytest.approx(holm(raw))
    assert "sad, gender man against woman: two-sided p" in str(audit)
    assert "clusters were exchanged within race and class." in str(audit)
