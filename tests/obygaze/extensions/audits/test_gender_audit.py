"""The gender-score command: both forms of table, what is a clear error, models that fill it in."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze
from support.stores import a_recipe, fill_store, plan_store, some_ids

from obygaze_features.store import ArraySpec
from obygaze_features.store.format.recipe import space_id_of
from obygaze_models.text_vectors import word_probabilities

ESTIMATION = "caption,lm_man,sim_man,lm_woman,sim_woman,prob\n"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_scores_of_one_wording_have_no_ratios(tmp_path: Path) -> None:
    # sim 0: the exponent is one. sim 1: it is zero. sim -1: the limit.
    table = write(
        tmp_path / "t.csv", "lm,sim,prob\n0.25,0,0.5\n0.25,1,0.5\n0.25,-1,0.5\n"
    )
    document = call_obygaze("audit", "gender-score", table, "--json").ok().json()
    assert [row["score"] for row in document["rows"]] == [0.25, 1.0, 0.0]
    assert [row["ratio_to_man"] for row in document["rows"]] == [None] * 3
    assert document["mean"] == pytest.approx(1.25 / 3)
    assert document["rows"][2]["note"] == "similarity -1: the limit"
    assert (document["counts"], document["mean_ratio_to_man"]) == (None, None)


def test_both_wordings_have_ratios_and_a_winner(tmp_path: Path) -> None:
    rows = (
        "a [MASK] runs,0.3,0,0.1,0,0.5\n"
        "a [MASK] sits,0.1,0,0.1,0,0.5\n"
        "the [MASK],0.1,0,0.4,0,0.5\n"
    )
    table = write(tmp_path / "t.csv", ESTIMATION + rows)
    document = call_obygaze("audit", "gender-score", table, "--json").ok().json()
    assert [row["caption"] for row in document["rows"]] == [
        "a man runs",
        "a man sits",
        "the woman",
    ]
    ratios = [row["ratio_to_man"] for row in document["rows"]]
    assert ratios == pytest.approx([75.0, 50.0, 20.0])
    assert [row["ratio_to_woman"] for row in document["rows"]] == pytest.approx(
        [25.0, 50.0, 80.0]
    )
    assert document["mean"] == pytest.approx(0.8 / 3)
    assert (document["counts"], document["printed"]) == (
        {"man": 2, "woman": 1},
        [0.66, 0.33],
    )
    assert document["mean_ratio_to_man"] == pytest.approx(145 / 3)
    stdout = (
        call_obygaze("audit", "gender-score", table, "--figure", tmp_path / "f")
        .ok()
        .stdout
    )
    assert "cut after two decimals" in stdout
    assert (tmp_path / "f.png").stat().st_size > 1000


def test_two_zero_scores_have_no_ratio(tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", ESTIMATION + "a [MASK],0.1,-1,0.1,-1,0.5\n")
    document = call_obygaze("audit", "gender-score", table, "--json").ok().json()
    assert (document["rows"][0]["ratio_to_man"], document["mean_ratio_to_man"]) == (
        None,
        None,
    )
    call_obygaze("audit", "gender-score", table, "--figure", tmp_path / "f").ok()


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("0.1,0.5,21.83", "is it in percent?"),
        ("0.1,0.5,nan", "must be a probability, got nan"),
        ("nan,0.5,0.5", "must be a probability, got nan"),
        ("0.1,nan,0.5", "must be a cosine between -1 and 1, got nan"),
        ("0.1,1.01,0.5", "must be a cosine"),
        ("0.1,,0.5", "sim must be a number, got ''"),
        ("-0.1,0.5,0.5", "must be a probability, got -0.1"),
        ("0.1,0.5", "expected 3 cells as in the header, got 2"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, cells: str, message: str) -> None:
    table = write(tmp_path / "t.csv", f"lm,sim,prob\n0.1,0.5,0.5\n{cells}\n")
    done = call_obygaze("audit", "gender-score", table)
    assert done.code == 1
    assert done.stderr.splitlines()[0].startswith(f"{table}:3: ")
    assert message in done.stderr


def test_tables_with_missing_columns_or_rows(tmp_path: Path) -> None:
    for text, document in (
        ("lm,sim,prob\n", "no captions"),
        ("lm,prob\n1,1\n", "missing column sim"),
        ("caption,lm_man,prob\n", "missing column sim_man, lm_woman, sim_woman"),
        ("lm;sim;prob\n", "semicolons"),
    ):
        done = call_obygaze("audit", "gender-score", write(tmp_path / "t.csv", text))
        assert (done.code, document in done.stderr) == (1, True), done.stderr


def test_many_captions_are_drawn_in_part(tmp_path: Path) -> None:
    rows = "".join(f"a [MASK] {i},0.{i % 9 + 1},0,0.5,0,0.5\n" for i in range(60))
    table = write(tmp_path / "t.csv", ESTIMATION + rows)
    call_obygaze("audit", "gender-score", table, "--figure", tmp_path / "f").ok()
    assert "Share of 'man'" in (tmp_path / "f.svg").read_text("utf-8")


def test_a_table_that_extract_captions_filled_is_scored(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from support.words import save_encoder, save_language_model

    lm, sim = save_language_model(tmp_path / "lm"), save_encoder(tmp_path / "bert")
    rows = "caption,visual,prob\na [MASK] riding a dog,dog,0.5\nthe dog on a bed,bed,0.25\n"
    table, filled = write(tmp_path / "t.csv", rows), tmp_path / "filled.csv"
    call_obygaze(
        "extract", "captions", table, "--lm", lm, "--sim", sim, "-o", filled
    ).ok()
    document = call_obygaze("audit", "gender-score", filled, "--json").ok().json()
    with filled.open(encoding="utf-8", newline="") as stream:
        read = list(csv.DictReader(stream))
    assert read[1]["lm_man"] == read[1]["lm_woman"]
    assert read[0]["lm_man"] != read[0]["lm_woman"]
    assert document["rows"][1]["ratio_to_man"] == 50.0


def test_published_rows_by_the_command(tmp_path: Path) -> None:
    from support.data import golden

    cases = json.loads(golden("audits", "gender_score.json").read_text("utf-8"))[
        "formula_cases"
    ]
    rows = "".join(
        f"{case['lm']!r},{case['sim']!r},{case['prob']!r}\n" for case in cases
    )
    table = write(tmp_path / "t.csv", "lm,sim,prob\n" + rows)
    document = call_obygaze("audit", "gender-score", table, "--json").ok().json()
    assert [row["score"] for row in document["rows"]] == pytest.approx(
        [case["score"] for case in cases], abs=1e-12
    )


def test_means_of_both_wordings_are_over_all_captions_and_by_object(
    tmp_path: Path,
) -> None:
    # With prob = 1 the score is lm: man .5 .25 | .125, woman .25 .375 | .375.
    table = write(
        tmp_path / "t.csv",
        "caption,visual,lm_man,sim_man,lm_woman,sim_woman,prob\n"
        "a [MASK],dog,0.5,0,0.25,0,1\na [MASK],dog,0.25,0,0.375,0,1\n"
        "a [MASK],cat,0.125,0,0.375,0,1\n",
    )
    words = ("audit", "gender-score", table, "--by", "visual")
    document = call_obygaze(*words, "--json").ok().json()
    assert document["by_object"] == {
        "cat": {
            "n": 1,
            "mean_man": 0.125,
            "mean_woman": 0.375,
            "ratio_of_means_to_man": 25.0,
        },
        "dog": {
            **{"n": 2, "mean_man": 0.375, "mean_woman": 0.3125},
            "ratio_of_means_to_man": pytest.approx(100 * 0.375 / 0.6875),
        },
    }
    assert document["mean_man"] == pytest.approx(0.875 / 3)
    assert document["mean_woman"] == pytest.approx(1.0 / 3)
    shown = call_obygaze(*words, "--figure", tmp_path / "f").ok().stdout
    assert "Mean score of 'man' 0.292, of 'woman' 0.333" in shown and "\ncat" in shown
    assert ">dog<" in (tmp_path / "f.svg").read_text("utf-8")
    lost = call_obygaze("audit", "gender-score", table, "--by", "thing")
    assert lost.code == 1 and "missing column thing" in lost.stderr


# ---- the visual context ------------------------------------------------------------------------


def test_probability_of_a_word_is_a_softmax_by_hand() -> None:
    # Cosines of (3, 4) with dog and cat are .6 and .8; dog's two texts have their mean at (1, 0).
    dog, cat = [[2.0, 2.0], [5.0, -5.0]], [[0.0, 7.0]]
    (chances,) = word_probabilities([[3.0, 4.0]], [dog, cat], 10.0)
    assert chances == pytest.approx([1 / (1 + np.exp(2)), 1 / (1 + np.exp(-2))])
    # A scale of ln 3 / .2 makes the odds 3 to 1.
    (chances,) = word_probabilities([[3.0, 4.0]], [dog, cat], np.log(3) / 0.2)
    assert chances == pytest.approx([0.25, 0.75])


def store_with_texts(place: Path, family: str = "clip") -> None:
    """A store of four clips at 0, 30, 60 and 90 degrees; dog is at 0, cat at 90 degrees."""
    backbone = {
        "name": "toy",
        "family": family,
        "checkpoint": "toy/clip",
        "revision": "main",
    }
    backbone["levels"] = {"clip": "frame-mean"}  # type: ignore[assignment]
    recipe = a_recipe(backbone=backbone, weights={"tensors": "ef" * 32})
    arrays = (ArraySpec("clip", (2,)),)
    plan_store(place / "stores" / "toy", 4, recipe=recipe, arrays=arrays)
    angles = np.radians([0, 30, 60, 90])
    values = 3 * np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    fill_store(place / "stores" / "toy", {"clip": values}).seal()
    np.savez(
        place / "words.npz",
        embeddings=np.array([[1, 0], [0, 2]], dtype=np.float32),
        attribute=np.array(["dog", "cat"]),
        space_id=np.array(space_id_of("toy/clip", "main", "ef" * 32)),
    )


def test_visual_probabilities_come_from_stored_vectors(tmp_path: Path) -> None:
    store_with_texts(tmp_path)
    clips, _ = some_ids(4)
    rows = "".join(
        f"{clips[i]},{word},0.25,0.5\n"
        for i, word in ((1, "dog"), (3, "dog"), (1, "cat"))
    )
    table = write(tmp_path / "t.csv", "clip_id,visual,lm,sim\n" + rows)
    words = ("-C", tmp_path, "audit", "gender-score", table, "--store", "toy")
    words += ("--text", tmp_path / "words.npz")
    document = call_obygaze(*words, "--logit-scale", "2", "--json").ok().json()
    # Cosines (dog, cat) of the clip at 30 degrees are (cos 30, sin 30), of that at 90: (0, 1).
    near = 1 / (1 + np.exp(2 * (0.5 - np.sqrt(3) / 2)))
    expected = [near, 1 / (1 + np.exp(2)), 1 - near]
    assert document["context"]["prob"] == pytest.approx(expected)
    assert document["context"]["words"] == ["dog", "cat"]
    scores = [0.25 ** ((0.5 / 1.5) ** (1 - p)) for p in expected]
    assert [row["score"] for row in document["rows"]] == pytest.approx(scores)
    shown = call_obygaze(*words).ok().stdout
    assert "P(c) is the softmax over 2 words of 100 times the cosine" in shown


def test_visual_words_that_cannot_be_found_are_named(tmp_path: Path) -> None:
    store_with_texts(tmp_path)
    clips, _ = some_ids(4)
    words = (
        "-C",
        tmp_path,
        "audit",
        "gender-score",
        tmp_path / "t.csv",
        "--store",
        "toy",
    )
    words += ("--text", tmp_path / "words.npz")
    for rows, message in (
        (f"{clips[0]},horse,0.25,0.5\n", "the texts have no attribute 'horse'"),
        ("tt9,dog,0.25,0.5\n", "tt9"),
    ):
        write(tmp_path / "t.csv", "clip_id,visual,lm,sim\n" + rows)
        done = call_obygaze(*words)
        assert (done.code, message in done.stderr) == (1, True), done.stderr
    write(tmp_path / "t.csv", "visual,lm,sim\ndog,0.25,0.5\n")
    done = call_obygaze(*words)
    assert (done.code, "required column is missing" in done.stderr) == (1, True), (
        done.stderr
    )


def test_logit_scale_of_other_models_must_be_given(tmp_path: Path) -> None:
    store_with_texts(tmp_path, "siglip")
    clips, _ = some_ids(4)
    table = write(
        tmp_path / "t.csv", f"clip_id,visual,lm,sim\n{clips[0]},dog,0.25,0.5\n"
    )
    words = ("-C", tmp_path, "audit", "gender-score", table, "--store", "toy")
    words += ("--text", tmp_path / "words.npz")
    done = call_obygaze(*words)
    assert (done.code, "--logit-scale" in done.stderr) == (2, True), done.stderr
    call_obygaze(*words, "--logit-scale", "5").ok()
