"""The differences that a protocol asks for before the run, and all others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.experiments import films, planted, quick, store_of

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_models.evaluation.results import (
    Difference,
    add_p_of_all,
)
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.runner.inputs import gather


def question(**names: str) -> dict[str, str]:
    """A question of a protocol as run.json has it: a name that is not there is any."""
    keys = ("first", "second", "first_store", "second_store", "train", "test")
    return {**dict.fromkeys(keys, ""), **names}


def test_what_was_asked_for_has_two_p_and_a_guess_is_judged_by_the_second() -> None:
    """Two differences by hand: beside another guess, one has a larger p than asked for alone."""
    first = np.array([4.0, 3.0, 5.0, 2.0, 3.0, 4.0])
    other = np.array([4.0, 3.0, 5.0, 2.0, 3.0, -2.0])
    differences_by_hand = []
    for guess, by_film_of_guess in (("random", first), ("neighbour", other)):
        row = {"train": "EN_S", "test": "EN_S", "store": "x", "metric": "ap"}
        row |= {"model": "ridge", "against_model": guess, "against_store": ""}
        differences_by_hand.append(Difference(row, by_film_of_guess, 4.0, 6))
    of_ridge = question(first="ridge", second="random")
    asked, unasked = add_p_of_all(differences_by_hand, [of_ridge])
    signs = 1 - 2 * (np.arange(64)[:, None] >> np.arange(6) & 1)
    t = []
    for values in (first, other):
        flipped = signs * values
        t.append(np.abs(flipped.mean(axis=1)) / (flipped.std(axis=1, ddof=1) / 6**0.5))
    of_first, of_other = t
    # The factor of the variance divides what was observed, and no pattern of signs.
    alone = np.mean(of_first >= of_first[0] / 2 - 1e-9)
    among_both = np.mean(np.maximum(of_first, of_other) >= of_first[0] / 2 - 1e-9)
    assert alone < among_both
    assert asked["p_all"] == pytest.approx(alone)
    assert asked["p_guesses"] == pytest.approx(among_both)
    of_second = max(np.mean(of_other >= of_other[0] / 2 - 1e-9), among_both)
    assert unasked["p_all"] == unasked["p_guesses"] == pytest.approx(of_second)


@pytest.mark.parametrize(
    "question, said",
    [
        ('{first = "rigde"}', "ridge"),
        ('{test = "EN_X"}', "EN_X"),
        ('{firts = "ridge"}', "firts"),
    ],
)
def test_a_question_about_what_is_not_there_is_an_error(
    question: str, said: str
) -> None:
    with pytest.raises(FixInput) as refused:
        load_protocol("honest", [f"report.questions=[{question}]"])
    (violation,) = refused.value.details
    assert said in str(violation)


@pytest.mark.parametrize("about", ['model = "rigde"', 'test = "EN_X"'])
def test_a_printed_value_of_what_is_not_there_is_an_error(about: str) -> None:
    """It stood beside no row, and nothing said so."""
    with pytest.raises(FixInput) as refused:
        load_protocol("honest", [f"paper=[{{{about}, mean = 0.5}}]"])
    (violation,) = refused.value.details
    assert "paper[0]" in str(violation)


def test_a_question_about_a_store_that_is_not_there_is_an_error(
    tmp_path: Path,
) -> None:
    """The page said only that no difference of the run answers it."""
    manifest = films(4, 20)
    stores = {"clip": store_of(tmp_path / "s", manifest, planted(manifest))}
    asked = 'report.questions=[{first = "ridge", first_store = "clp"}]'
    with pytest.raises(FixUsage, match="names the unknown store 'clp'") as refused:
        gather(quick("honest", asked), manifest, "", stores)
    assert refused.value.hint == "one of clip"
