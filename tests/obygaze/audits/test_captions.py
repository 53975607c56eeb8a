"""Word rates and co-occurrence, counted by hand and against the original script's output."""

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from obygaze.audits.captions import audit_captions, word_rates
from obygaze.audits.cooccurrence import compute as count_pairs
from obygaze.audits.texts import LabelledText, read_words
from obygaze_features.core.errors import FixInput, FixUsage, NotFound, ObygazeWarning
from obygaze_models.evaluation.permutation import holm, permutation_p


def in_group(text: str, group: str, cluster: str) -> LabelledText:
    """A caption of one group."""
    return LabelledText(text, frozenset({group}), cluster)


LISTS = {"sad": frozenset({"sad", "crying"}), "glad": frozenset({"happy"})}


def test_words_are_found_beside_marks_and_the_authors_counter_is_a_choice() -> None:
    words = {"sad": frozenset({"sad"})}
    for caption, n_words, n_tokens in (
        ('"sad"; a (sad) man', 2, 0),
        ("so: sad's end, sad.", 2, 1),
        ("sadness is no sad-looking word: Sad", 1, 1),
    ):
        rows = [{"caption": caption, "group": "o"}]
        (rate,) = audit_captions(rows, words=words)["rates"]
        assert rate["count"] == n_words
        (rate,) = audit_captions(rows, words=words, tokens="authors")["rates"]
        assert rate["count"] == n_tokens


def test_the_interval_is_over_clusters_not_captions() -> None:
    texts = ["sad"] * 400 + ["fine"] * 400
    many = [in_group(text, "g", str(i % 8)) for i, text in enumerate(texts)]
    # Every cluster has the same rate: a width of zero is no interval.
    assert word_rates(many, LISTS)[0]["ci"] == [None, None]
    lumped = [
        in_group("sad" if i % 8 < 4 else "fine", "g", str(i % 8)) for i in range(800)
    ]
    low, high = word_rates(lumped, LISTS)[0]["ci"]
    assert low is not None and high is not None
    assert low < 250 and high > 750


def test_rates_need_at_least_one_caption() -> None:
    with pytest.raises(FixInput, match="no texts"):
        audit_captions([])
    rows = [{"caption": "sad", "group": "a"}, {"caption": "sad", "group": ""}]
    with pytest.warns(
        ObygazeWarning, match="excluded, because 'group' is empty: 1 row"
    ):
        audit_captions(rows)
    del rows[1]
    rows.append({"caption": "glad", "group": "b"})
    three = audit_captions([*rows, {"caption": "sad", "group": "c"}])
    assert three["contrasts"] == [] and "two groups in one column" in str(three)
    alike = [{"caption": "sad", "who": "x y", "how": "z"}]
    alike.append({"caption": "sad", "who": "x", "how": "y z"})
    with pytest.raises(FixInput, match="two groups have the name 'x y z'"):
        audit_captions(alike, group="who,how")
    for options in ({"group": "film"}, {"tokens": "blanks"}):
        with pytest.raises((FixUsage, NotFound), match=r"'film'|'blanks'"):
            audit_captions(rows, **options)  # type: ignore[arg-type]


def test_file_names_in_a_folder_give_columns(tmp_path: Path) -> None:
    (tmp_path / "1_SA1_NO_1.txt").write_text("a sad face\na face\n", "utf-8")
    (tmp_path / "1_SA1_O_1.txt").write_text("a face", "utf-8")
    options = {"group": "group,face", "cluster": "image,face"}
    rates = audit_captions(tmp_path, **options)["rates"]
    sad = [rate for rate in rates if rate["words"] == "SA"]
    shares = {rate["group"]: rate["occurrences_per_1000"] for rate in sad}
    assert shares == {"NO SA1": 500.0, "O SA1": 0.0}
    (tmp_path / "odd.txt").write_text("a face", "utf-8")
    with pytest.raises(FixInput, match=r"odd.txt does not match the pattern"):
        audit_captions(tmp_path, **options)


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
    assert (dog["counts"], dog["share"]) == ({"man": 3, "woman": 1}, 0.75)
    low, high = dog["ci"]
    assert low <= 0.75 <= high
    assert dog["printed"] == (0.75, 0.25)
    assert (tree["counts"], tree["share"]) == ({"man": 1, "woman": 1}, 0.5)
    assert (umbrella["share"], umbrella["printed"]) == (None, None)


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
    rates = {
        (rate["words"], rate["group"]): rate for rate in word_rates(captions, lists)
    }
    for expected in cases["synthetic"]["expected"]:
        emotion = expected["emotion"]
        rate = rates[emotion[:2], f"{expected['condition']} {emotion}"]
        counts = ("count", "n_captions")
        per_1000 = ("occurrences_per_1000", "captions_with_hit_per_1000")
        for name in (*counts, *per_1000):
            assert rate[name] == pytest.approx(expected[name])
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


def enumerated(rows, column, first) -> tuple[float, float]:
    """One-sided p of more and of fewer words, over all exchanges within the other columns."""
    others = [name for name in ("race", "gender", "class") if name != column]
    n_all = len(rows)
    total = sum(row["caption"].count("sad") for row in rows)
    cells: dict[tuple[str, ...], list[tuple[int, bool]]] = {}
    for image in {row["image"] for row in rows}:
        captions = [row for row in rows if row["image"] == image]
        value = n_all * sum(row["caption"].count("sad") for row in captions)
        value -= total * len(captions)
        key = tuple(captions[0][name] for name in others)
        cells.setdefault(key, []).append((value, captions[0][column] == first))
    sums = [0]
    observed = 0
    for items in cells.values():
        n_first = sum(is_first for _, is_first in items)
        observed += sum(value for value, is_first in items if is_first)
        chosen = combinations([value for value, _ in items], n_first)
        of_cell = [sum(one) for one in chosen]
        sums = [before + more for before in sums for more in of_cell]
    greater = np.mean([one >= observed for one in sums])
    less = np.mean([one <= observed for one in sums])
    return float(greater), float(less)


@pytest.mark.parametrize("seed", range(2))
def test_crossed_groups_against_all_exchanges(seed: int) -> None:
    rows = crossed_captions(seed)
    audit = audit_captions(
        rows,
        group="race,gender,class",
        cluster="image",
        words={"sad": frozenset({"Sad"})},
    )
    tested = {(test["column"], test["first"]): test for test in audit["contrasts"]}
    classes = {("class", name) for name in ("poor", "rich", "unknown")}
    assert {*tested} == {("race", "black"), ("gender", "man"), *classes}
    for (column, first), test in tested.items():
        greater, less = enumerated(rows, column, first)
        assert test["p"]["method"] == "exact"
        assert test["p"]["greater"] == pytest.approx(greater, abs=1e-12)
        assert test["p"]["less"] == pytest.approx(less, abs=1e-12)
    raw = [test["p"]["two_sided"] for test in audit["contrasts"]]
    assert [test["p_holm"] for test in audit["contrasts"]] == pytest.approx(holm(raw))
    assert "sad, gender man against woman: two-sided p" in str(audit)
    assert "clusters were exchanged within race and class." in str(audit)
