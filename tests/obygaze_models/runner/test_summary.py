"""The sentences on a run: its answer, and the warnings that apply."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from obygaze_features.core.console import MISSING
from obygaze_models.models.registry import UNTRAINED
from obygaze_models.runner import text
from obygaze_models.runner.limits import (
    many_fits,
    missing_features,
    rare_concepts_text,
    skipped_folds,
    stores_lacking_clips,
    warnings_of,
)
from obygaze_models.runner.summary import (
    CellRows,
    answer,
    cannot_guess,
    cells_of,
    films_above,
    short,
    verdict,
    why_this_model,
)
from obygaze_models.runner.tables import RUN_FORMAT, Run, write_run

TASKS = {"task": "EN_S", "train": "EN_S", "test": "EN_S"}


def fit(model: str, **facts: Any) -> dict[str, Any]:
    """What run.json says about the fits of a model or baseline."""
    return {
        "train": "EN_S",
        "test": "EN_S",
        "store": "s" if model == "ridge" else "",
        "model": model,
        "is_model": model == "ridge",
        "is_trained": model not in UNTRAINED,
        "is_averaged": False,
        "basis": "unseen",
        "tested": "a hash of all clips",
        "positive": 80,
        "films_with_value": {},
        "copies": 0,
        "same_film": 0,
        "skipped": {},
        "skipped_films": {},
        "folds": [],
        **facts,
    }


def rows(
    model: str,
    values: Mapping[str, tuple[float, float, float] | float],
    by_film: Sequence[float] = (),
    *,
    leaked: int = 0,
    n_films: int = 12,
) -> list[dict[str, Any]]:
    """The rows of a cell with 200 clips: metrics with their intervals, and AP of each film."""
    store = "s" if model == "ridge" else ""
    cell = {**TASKS, "store": store, "model": model, "fits": n_films}
    whole = {**cell, "clips": 200, "films": n_films, "leaked": leaked}
    made = []
    for metric, value in values.items():
        row = {**whole, "metric": metric}
        if isinstance(value, tuple):
            row["value"], row["low"], row["high"] = value
        else:
            row["value"] = value
        made.append(row)
    positives = [0] * len(by_film)
    for number in range(round(200 * values["prevalence"]) if by_film else 0):
        positives[number % len(by_film)] += 1
    for number, value in enumerate(by_film):
        n_clips = 200 // len(by_film)
        of_film = {**cell, "film": f"film-{number:02d}", "clips": n_clips, "films": 1}
        made.append({**of_film, "metric": "ap", "value": value})
        share = positives[number] / n_clips
        made.append({**of_film, "metric": "prevalence", "value": share})
    return made


def run_of(
    folder: Path,
    fits: Sequence[Mapping[str, Any]],
    results: Sequence[Mapping[str, Any]],
    *,
    primary: str = "ap",
    splits: Mapping[str, Any] | None = None,
    **about: Any,
) -> Run:
    """A run that was written with these rows."""
    splits = {"kind": "nested", "folds": 0, "column": "", **(splits or {})}
    whole = {
        "format": RUN_FORMAT,
        "identity": "x",
        "protocol": {
            "report": {"primary": primary, "questions": []},
            "splits": splits,
            "fit": {"choose_store": False},
        },
        "stores": {"s": {"missing": {}}},
        "group_of_clip": {},
        "remarks": {},
        "rare_concepts": {},
        "fits": list(fits),
        **about,
    }
    manifest = {"n_clips": 200, "n_films": 12, "has_levels": True}
    manifest |= {"positive_films": {"EN_S": 12}, **whole.pop("manifest", {})}
    tables = {"predictions.csv": [], "results.csv": results}
    return write_run(folder / "run", {**whole, "manifest": manifest}, tables)


GOOD = {"ap": (0.71, 0.63, 0.78), "auc": (0.8, 0.7, 0.9), "prevalence": 0.4}
GUESS = {"ap": (0.54, 0.5, 0.6), "auc": (0.6, 0.5, 0.7), "prevalence": 0.4}


def about_of(run: Run) -> dict[str, str]:
    return {warning.about: warning.text for warning in warnings_of(run)}


def test_the_answer_is_one_sentence_with_the_best_guess(tmp_path: Path) -> None:
    ours = [0.7] * 10 + [0.3, 0.3]
    worse = {**GUESS, "ap": (0.4, 0.3, 0.5)}
    run = run_of(
        tmp_path,
        [fit("ridge"), fit("random"), fit("neighbour")],
        [
            *rows("ridge", GOOD, ours),
            *rows("random", worse, [0.4] * 12),
            *rows("neighbour", GUESS, [0.5] * 12),
        ],
    )
    assert answer(run) == (
        "On films it has not seen, ridge ranks clips (EN_S) with AP .71 [.63, .78]; "
        "guessing without video has .54 (neighbour); better in 10 of 12 films."
    )
    assert warnings_of(run) == []


def test_guesses_from_clips_of_the_film_say_where_they_have_none(
    tmp_path: Path,
) -> None:
    """In `honest` their values are those of the share of positives, and nothing said so."""
    names = ("ridge", "film_prior", "neighbour", "random")
    of_names = [row for name in names for row in rows(name, GUESS)]
    run = run_of(tmp_path / "new", [fit(name) for name in names], of_names)
    assert cannot_guess(run, cells_of(run)).startswith(
        "film_prior and neighbour cannot guess here: no clip of a tested film trained"
    )
    known = [fit(name, basis="film-seen") for name in names]
    run = run_of(tmp_path / "seen", known, of_names)
    assert cannot_guess(run, cells_of(run)) == ""
    run = run_of(tmp_path / "ridge", [fit("ridge")], rows("ridge", GUESS))
    assert cannot_guess(run, cells_of(run)) == ""


def test_folds_of_clips_answer_for_films_that_trained(tmp_path: Path) -> None:
    splits = {"kind": "kfold", "folds": 5, "column": ""}
    facts = [fit("ridge", basis="film-seen", same_film=180)]
    run = run_of(tmp_path, facts, rows("ridge", GOOD, [0.7] * 12), splits=splits)
    assert answer(run) == (
        "On further clips of films that trained, ridge ranks clips (EN_S) with AP .71"
        " [.63, .78]."
    )
    assert about_of(run) == {
        "films on both sides": "Up to 180 of the 200 test clips of EN_S are of films that train"
        " or validate too: values and intervals are of the same experiment with other films on"
        " both sides, in training and in testing; nothing is said of films that did not train."
    }


@pytest.mark.parametrize(
    ("basis", "where", "why"),
    [
        (
            "leaked",
            "On clips of which some trained or chose (leaked), ridge ranks clips",
            "test clips trained or chose (leaked)",
        ),
        (
            "film-unknown",
            "On films it has not seen, ridge ranks clips",
            "films are not known, so that clips of one film may be on both sides of a split",
        ),
    ],
)
def test_what_has_no_interval_says_why_and_is_not_better(
    tmp_path: Path, basis: str, where: str, why: str
) -> None:
    values = {"ap": 0.7, "auc": 0.8, "prevalence": 0.4}
    row = difference(math.nan, math.nan, math.nan) | {"basis": basis}
    run = run_of(
        tmp_path,
        [fit("ridge", basis=basis), fit("neighbour", basis=basis)],
        [
            *rows("ridge", values, [0.7] * 12),
            *rows("neighbour", GUESS, [0.5] * 12),
            row,
        ],
    )
    assert answer(run).startswith(where)
    assert why in about_of(run)["no interval"]
    assert verdict(row) == ("leaked" if basis == "leaked" else "–")
    # Films are counted, but a leaked cell is not said to be better in any.
    assert ("better in" in answer(run)) == (basis != "leaked")


def test_a_guess_that_leaked_is_no_measure_of_a_model(tmp_path: Path) -> None:
    """What learns from no clip cannot leak, while the baseline beside it has seen the answers."""
    values = {"ap": 0.5, "auc": 0.5, "prevalence": 0.4}
    row = difference(math.nan, math.nan, math.nan) | {"basis": "leaked"}
    results = [
        *rows("ridge", values, [0.5] * 12),
        *rows("neighbour", GUESS, [0.6] * 12),
    ]
    for basis, is_warned in (("unseen", True), ("leaked", False)):
        fits = [fit("ridge"), fit("neighbour", basis=basis)]
        run = run_of(tmp_path / basis, fits, [*results, row | {"basis": basis}])
        assert ("guessing" in about_of(run)) == is_warned
        assert ("better in" in answer(run)) == is_warned
        assert "guessing without video has .54 (neighbour)" in answer(run)


@pytest.mark.parametrize(
    ("n_films", "n_in_all", "said"),
    [
        (0, 1, "1 film of EN_S has"),
        (1, 2, "2 films of EN_S have"),
        (0, 3, "no tested film of EN_S has"),
        (1, 3, "1 tested film of EN_S has"),
        (2, 3, "2 tested films of EN_S have"),
    ],
)
def test_films_with_positive_clips_are_counted_before_folds_are_left_out(
    tmp_path: Path, n_films: int, n_in_all: int, said: str
) -> None:
    """The film of the only positive clip is of the fold that could not be trained."""
    values = {"ap": math.nan, "auc": math.nan, "prevalence": 0.0}
    made = rows("ridge", values, [math.nan] * 5, n_films=5)
    skipped = {"fold-2": "the training clips hold one class only: 0"}
    manifest: dict[str, Any] = {"n_clips": 200, "n_films": 12}
    manifest["positive_films"] = {"EN_S": n_in_all}
    behind = {"ap": n_films, "auc": n_films}
    skips = [fit("ridge", skipped=skipped, films_with_value=behind)]
    run = run_of(tmp_path, skips, made, manifest=manifest)
    assert about_of(run)["no interval"] == (
        f"1 of 1 cells have no interval: {said} positive clips, and 3 are needed."
    )


def test_a_question_says_which_model_is_asked_for(tmp_path: Path) -> None:
    second = [{**row, "model": "mlp"} for row in rows("ridge", GUESS)]
    protocol = {
        "report": {"primary": "ap", "questions": [{"first": "mlp", "second": "ridge"}]},
        "splits": {"kind": "nested", "folds": 0, "column": ""},
        "fit": {"choose_store": False},
    }
    run = run_of(
        tmp_path,
        [fit("ridge"), {**fit("ridge"), "model": "mlp"}],
        [*rows("ridge", GOOD), *second],
        protocol=protocol,
    )
    assert "mlp ranks clips (EN_S) with AP .54" in answer(run)


def test_rows_of_differences_and_curves_are_in_no_cell(tmp_path: Path) -> None:
    (value, *_) = rows("ridge", {"ap": 0.71})
    difference = {**value, "value": 0.17, "against_model": "neighbour"}
    curve = {**value, "value": 0.5, "train_films": 3}
    run = run_of(tmp_path, [fit("ridge")], [value, difference, curve])
    (cell,) = cells_of(run)
    assert cell.value("ap") == 0.71


def test_leaks_and_copies_are_told_apart(tmp_path: Path) -> None:
    run = run_of(
        tmp_path, [fit("ridge", copies=3)], rows("ridge", GOOD, leaked=10, n_films=12)
    )
    found = about_of(run)
    assert "7 of the 200 test clips of EN_S" in found["leaks"]
    assert "3 of the 200 test clips of EN_S (s)" in found["copies"]


def test_a_model_that_guesses_may_rank_by_chance(tmp_path: Path) -> None:
    values = {"ap": (0.55, 0.4, 0.7), "auc": (0.52, 0.42, 0.6), "prevalence": 0.4}
    run = run_of(
        tmp_path,
        [fit("ridge"), fit("neighbour")],
        [*rows("ridge", values, n_films=5), *rows("neighbour", GUESS)],
    )
    found = about_of(run)
    assert set(found) == {"guessing", "chance", "few films"}
    assert "neighbour has AP .54, ridge .55" in found["guessing"]
    assert found["chance"] == (
        "In 1 of 1 cells the interval of AUC does not lie above one half: by AUC, these may be no"
        " better than chance: ridge (EN_S)."
    )
    assert found["few films"] == (
        "In 1 of 1 cells tested films are few (5); these may be alike or differ by chance, and say"
        " little about other films."
    )


@pytest.mark.parametrize("p_all", [0.01, 0.2])
def test_a_metric_that_says_more_than_auc_is_named_where_it_does(
    tmp_path: Path, p_all: float
) -> None:
    values = {"ap": (0.71, 0.63, 0.78), "auc": (0.52, 0.42, 0.6), "prevalence": 0.4}
    made = [*rows("ridge", values), *rows("neighbour", GUESS)]
    made.append(difference(0.1, 0.2, p_all))
    text = about_of(run_of(tmp_path, [fit("ridge"), fit("neighbour")], made))["chance"]
    more = " By AP, these of them are shown to be better than guessing: ridge (EN_S)."
    assert text.endswith(more) == (p_all < 0.05)


def test_intervals_over_different_numbers_of_films_are_not_over_the_least(
    tmp_path: Path,
) -> None:
    other = [{**row, "store": "t"} for row in rows("ridge", GOOD, n_films=5)]
    fits = [fit("ridge"), fit("ridge", store="t")]
    run = run_of(tmp_path, fits, [*rows("ridge", GOOD, n_films=3), *other])
    text = about_of(run)["few films"]
    assert text.startswith("In 2 of 2 cells tested films are few (3 to 5);")


def test_few_films_are_said_without_an_interval_too(tmp_path: Path) -> None:
    values = {"ap": 0.6, "auc": 0.7, "prevalence": 0.4}
    made = rows("ridge", values, [0.5, 0.7], n_films=2)
    text = about_of(run_of(tmp_path, [fit("ridge")], made))["few films"]
    assert text.startswith("In 1 of 1 cells tested films are few (2);")


@pytest.mark.parametrize(("primary", "is_warned"), [("ap", False), ("auc", True)])
def test_few_films_are_those_of_the_metric_that_is_compared(
    tmp_path: Path, primary: str, is_warned: bool
) -> None:
    """All clips of nine films are positive: these have an AP, and no AUC."""
    facts = fit("ridge", films_with_value={"ap": 12, "auc": 3})
    run = run_of(tmp_path, [facts], rows("ridge", GOOD, [0.7] * 12), primary=primary)
    text = about_of(run).get("few films", "")
    assert ("In 1 of 1 cells 3 of 12 films have a value;" in text) == is_warned
    assert bool(text) == is_warned


def test_a_model_that_ranks_the_wrong_way_is_below_one_half(tmp_path: Path) -> None:
    values = {**GOOD, "auc": (0.3, 0.2, 0.4)}
    run = run_of(tmp_path, [fit("ridge")], rows("ridge", values))
    text = about_of(run)["chance"]
    assert text.startswith("In 1 of 1 cells the interval of AUC does not lie above one")


def test_a_better_model_than_that_of_the_answer_is_named_with_the_reason(
    tmp_path: Path,
) -> None:
    other = [{**row, "model": "mlp"} for row in rows("ridge", GOOD)]
    fits = [fit("ridge"), fit("mlp", is_model=True, store="s")]
    run = run_of(tmp_path / "a", fits, [*rows("ridge", GUESS), *other])
    assert why_this_model(run, cells_of(run)) == [
        "The answer is about ridge, which the protocol names first, whatever the results are. "
        "mlp has AP .71; the highest of several values is partly luck."
    ]
    run = run_of(tmp_path / "b", fits[::-1], [*rows("ridge", GUESS), *other])
    assert why_this_model(run, cells_of(run)) == []
    # A value that is too high by its leaks is no better one.
    fits[1]["basis"] = "leaked"
    run = run_of(tmp_path / "c", fits, [*rows("ridge", GUESS), *other])
    assert why_this_model(run, cells_of(run)) == []


def test_the_answer_is_about_the_model_of_either_side_of_a_question(
    tmp_path: Path,
) -> None:
    other = [{**row, "model": "mlp"} for row in rows("ridge", GOOD)]
    fits = [fit("ridge"), fit("mlp", is_model=True, store="s")]
    run = run_of(tmp_path, fits, [*rows("ridge", GOOD), *other])
    question = {"first": "neighbour", "second": "mlp"}
    report = {**run.protocol["report"], "questions": [question]}
    about = {**run.about, "protocol": {**run.protocol, "report": report}}
    assert "mlp ranks clips" in answer(Run(run.folder, about))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.714, ".71"),
        (-0.05, "-.05"),
        (0.999, "1.00"),
        (10.0, "10.00"),
        (-20.5, "-20.50"),
        (-0.001, "-.00"),
        (-0.0, ".00"),
    ],
)
def test_only_a_leading_zero_is_left_out(value: float, text: str) -> None:
    assert short(value) == text


@pytest.mark.parametrize(
    ("prevalence", "n_films", "reason"),
    [
        (0.4, 1, "all test clips of EN_S are of one film"),
        (0.01, 12, "EN_S tests 2 positive clips and 198 negative clips"),
    ],
)
def test_a_missing_interval_has_a_reason(
    tmp_path: Path, prevalence: float, n_films: int, reason: str
) -> None:
    values = {"ap": 0.6, "auc": 0.7, "prevalence": prevalence}
    by_film = [0.6] * n_films
    of_fit = fit("ridge", positive=round(200 * prevalence))
    run = run_of(tmp_path, [of_fit], rows("ridge", values, by_film, n_films=n_films))
    assert reason in about_of(run)["no interval"]


def test_other_limits_are_said(tmp_path: Path) -> None:
    rare = {"s": {"Look": {"folds": 2, "of": 12, "least": 1}}}
    run = run_of(
        tmp_path,
        [
            fit(
                "ridge",
                basis="film-seen",
                same_film=40,
                skipped={"film-03": "no clip is left to train on"},
            )
        ],
        rows("ridge", GOOD),
        splits={"kind": "fixed", "column": "part"},
        rare_concepts=rare,
        stores={"s": {"missing": {"a-1": "decode_error", "a-2": "decode_error"}}},
        remarks={"annotators differ": "3 of 200 clips have no class in T."},
    )
    found = about_of(run)
    assert "40 of the 200 test clips" in found["films on both sides"]
    assert "the column part divides films" in found["films on both sides"]
    assert "Look (down to 1 clip, in 2 of 12 folds)" in found["rare concepts"]
    assert found["skipped folds"] == (
        "1 fold left out: no clip is left to train on (film-03)."
    )
    assert found["missing features of s"] == (
        "2 of 200 clips have no features in s and are left out (2 decode_error): a-1, a-2."
    )
    assert found["annotators differ"] == "3 of 200 clips have no class in T."


def test_folds_that_are_left_out_are_named_with_their_films_and_stores(
    tmp_path: Path,
) -> None:
    """The sentence was "1 fold left out: no clip of this task is tested in it"."""
    of_sound = {"fold 2": "no clip is tested", "fold 4": "no clip is tested"}
    facts = [
        fit("ridge", store="image", skipped={"fold 4": "no clip is tested"}),
        fit("ridge", store="sound", skipped={**of_sound, "fold 5": "one label"}),
        fit("random"),
    ]
    run = run_of(tmp_path, facts, [])
    # On images, the second fold is tested.
    tested = {**TASKS, "store": "image", "model": "ridge", "fold": "fold 2", "seed": 0}
    tested |= {"clip_id": "c", "movie_id": "alba", "y": 1, "score": 1, "decision": 1}
    tables = {"predictions.csv": [tested], "results.csv": []}
    run = write_run(tmp_path / "two", run.about, tables)
    cells = [CellRows(of_cell) for of_cell in facts]
    assert skipped_folds(run, cells) == (
        "3 folds left out: no clip is tested (fold 4, fold 2 with alba on sound);"
        " one label (fold 5 on sound)."
    )
    assert skipped_folds(run, cells[2:]) == ""


def test_many_fits_are_warned_of_where_each_film_is_left_out() -> None:
    nested = {"kind": "nested", "folds": 0, "column": ""}
    assert "one director at a time" in many_fits({**nested, "column": "director"}, 301)
    assert "fitted 301 times" in many_fits(nested, 301)
    assert many_fits(nested, 300) == ""
    assert many_fits({**nested, "folds": 400}, 400) == ""
    assert many_fits({**nested, "kind": "fixed"}, 400) == ""


@pytest.mark.parametrize(
    ("low", "high", "p_all", "expected"),
    [
        (0.1, 0.3, 0.01, "yes"),
        (0.1, 0.3, 0.2, "not certain"),
        (0.1, 0.3, math.nan, "not certain"),
        (-0.1, 0.3, 0.01, "not shown"),
        (-0.3, -0.1, 0.01, "no, worse"),
        (-0.3, -0.1, 0.2, "no, perhaps worse"),
        (math.nan, math.nan, 0.01, "–"),
    ],
)
def test_a_verdict_needs_an_interval_and_a_p_among_all(
    low: float, high: float, p_all: float, expected: str
) -> None:
    assert verdict({"low": low, "high": high, "p_all": p_all}) == expected


def difference(low: float, high: float, p_all: float) -> dict[str, Any]:
    """The difference of ridge and the baseline neighbour."""
    row = {**TASKS, "store": "s", "model": "ridge", "metric": "ap", "value": 0.1}
    row |= {"low": low, "high": high, "fits": 12}
    # Its p among what the protocol asks for is another one.
    row |= {"p_guesses": p_all, "p_all": 0.03}
    return {**row, "against_train": "EN_S", "against_model": "neighbour"}


@pytest.mark.parametrize(
    ("row", "beginning"),
    [
        (difference(0.1, 0.3, 0.01), "On films it has not seen, ridge ranks"),
        (
            difference(-0.1, 0.3, 0.4),
            "This run does not show that ridge is better than guessing: on films it has not seen",
        ),
        (difference(0.1, 0.3, 0.4), "ridge may be better than guessing, or better by"),
        (difference(-0.3, -0.1, 0.01), "ridge is worse than guessing: on films"),
    ],
)
def test_the_answer_says_first_what_is_not_shown(
    tmp_path: Path, row: dict[str, Any], beginning: str
) -> None:
    run = run_of(
        tmp_path,
        [fit("ridge"), fit("neighbour")],
        [
            *rows("ridge", GOOD, [0.7] * 12),
            *rows("neighbour", GUESS, [0.5] * 12),
            row,
        ],
    )
    assert answer(run).startswith(beginning)
    assert answer(run).count(". ") == 0
    # What does not show that the model is better ends with the interval of the difference.
    ends = {
        -0.1: "over films, [-.10, .30], holds 0.",
        # Without this reason, the sentence contradicts itself.
        0.1: "[.10, .30], is above 0, but its p among the differences of a model and a guess is"
        " .400.",
        -0.3: "over films, [-.30, -.10], is below 0.",
    }
    is_shown = row["low"] > 0 and row["p_guesses"] < 0.05
    end = "better in 12 of 12 films." if is_shown else ends[row["low"]]
    assert answer(run).endswith(end)


def test_a_difference_that_is_not_certain_has_no_p_where_films_are_few(
    tmp_path: Path,
) -> None:
    made = [*rows("ridge", GOOD), *rows("neighbour", GUESS)]
    made.append(difference(0.1, 0.3, math.nan))
    said = answer(run_of(tmp_path, [fit("ridge"), fit("neighbour")], made))
    assert said.endswith(
        "is above 0, but it has no p among the differences of a model and a guess."
    )


FILM_VALUES = st.sampled_from((0.25, 0.5, 1.0, math.nan))


@given(st.lists(st.tuples(FILM_VALUES, FILM_VALUES), min_size=1, max_size=9))
def test_a_count_of_films_says_how_many_are_equal(
    pairs: list[tuple[float, float]],
) -> None:
    """ "Higher in 1 of 9 films" was said of 1 higher, 3 equal and 5 lower."""
    sides = []
    for side in range(2):
        of_film = {f"film{n}": {"value": pair[side]} for n, pair in enumerate(pairs)}
        sides.append(CellRows(fit("ridge"), by_film={"ap": of_film}))
    found = films_above(*sides, "ap")
    other_way = films_above(*reversed(sides), "ap")
    n_films = sum(not math.isnan(ours + theirs) for ours, theirs in pairs)
    n_equal = sum(ours == theirs for ours, theirs in pairs)
    assert found.n_above + other_way.n_above + n_equal == found.n_films == n_films
    equal = f" (equal in {n_equal})" if n_equal else ""
    shown = f"{found.n_above} of {n_films}{equal}" if n_films else MISSING
    assert found.text() == shown


@settings(max_examples=40, deadline=None)
@given(
    folds=st.lists(st.integers(0, 4), min_size=2, max_size=6),
    kind=st.sampled_from(("nested", "kfold", "fixed", "published", "own.py:folds")),
    is_divided=st.booleans(),
)
def test_folds_of_several_films_are_said_where_a_person_made_them(
    tmp_path_factory: pytest.TempPathFactory,
    folds: list[int],
    kind: str,
    is_divided: bool,
) -> None:
    """Folds were of directors, and intervals and p were over films without a word."""
    folder = tmp_path_factory.mktemp("folds")
    facts = [fit("ridge", basis="film-seen" if is_divided else "unseen")]
    run = run_of(folder, facts, rows("ridge", GOOD), splits={"kind": kind})
    predictions = []
    for number, fold in enumerate(folds):
        row = {**TASKS, "store": "s", "model": "ridge", "fold": f"fold {fold}"}
        row |= {"seed": 0, "clip_id": f"c{number}", "movie_id": f"film{number}"}
        predictions.append({**row, "y": 1, "score": 1, "decision": 1})
    tables = {"predictions.csv": predictions, "results.csv": rows("ridge", GOOD)}
    run = write_run(folder / "two", run.about, tables)
    found = about_of(run).get("folds of several films", "")
    is_of_person = kind in ("published", "own.py:folds") and not is_divided
    most = max(map(folds.count, folds))
    assert bool(found) == (is_of_person and most > 1)
    if found:
        assert found.startswith(f"Folds hold up to {most} films, and intervals and p")
        assert "--set splits.column=director" in found


def test_brackets_are_explained_where_a_shown_number_has_some(tmp_path: Path) -> None:
    """A baseline with an interval is not in the table of the models."""
    ours = {"ap": 0.71, "auc": 0.8, "prevalence": 0.4}
    fits = [fit("ridge"), fit("random")]
    values = [0.7] * 12
    without = [*rows("ridge", ours, values), *rows("random", GUESS, values)]
    assert "in brackets" not in _about_values_of(tmp_path / "without", fits, without)
    with_some = [*rows("ridge", GOOD, values), *rows("random", GUESS, values)]
    assert "in brackets" in _about_values_of(tmp_path / "with", fits, with_some)


def test_the_films_of_brackets_are_those_of_all_tasks(tmp_path: Path) -> None:
    """Of one task, each film has positive clips, of the other one, five of eight have some."""
    other = {"train": "HN_S", "test": "HN_S", "task": "HN_S"}
    behind = {"ap": 5, "auc": 4}
    fits = [fit("ridge"), {**fit("ridge", films_with_value=behind), **other}]
    first = rows("ridge", GOOD, [0.7] * 12)
    some = [0.7] * 5 + [math.nan] * 3
    second = [{**row, **other} for row in rows("ridge", GOOD, some, n_films=8)]
    about = _about_values_of(tmp_path / "both", fits, [*first, *second])
    assert about.endswith(
        "intervals over 8 to 12 films, of other films of the same kind, each tested unseen; 5 to 12"
        " of 8 to 12 films have a value."
    )
    about = _about_values_of(tmp_path / "first", fits[:1], first)
    assert about.endswith(
        "intervals over 12 films, of other films of the same kind, each tested unseen."
    )


def test_brackets_are_over_the_films_of_each_number(tmp_path: Path) -> None:
    """The line said 8 films, of which one store had 4."""
    films_of = {"s": 8, "t": 4}
    fits = [fit("ridge", store=store) for store in films_of]
    results = []
    for store, n_films in films_of.items():
        of_store = rows("ridge", GOOD, [0.7] * n_films, n_films=n_films)
        results += [{**row, "store": store} for row in of_store]
    said = _about_values_of(tmp_path / "both", fits, results)
    assert "in brackets: 95 % intervals over 4 to 8 films, of other films" in said
    of_one = [row for row in results if row["store"] == "s"]
    said = _about_values_of(tmp_path / "one", fits[:1], of_one)
    assert "in brackets: 95 % intervals over 8 films, of other films" in said


def test_tables_without_rows_are_not_listed(tmp_path: Path) -> None:
    tables = {
        "predictions.csv": [],
        "results.csv": rows("ridge", GOOD),
        "trees.csv": [],
    }
    about = {"format": RUN_FORMAT, "identity": "x"}
    assert write_run(tmp_path / "run", about, tables).tables_with_rows == [
        "results.csv"
    ]


def _about_values_of(folder: Path, fits: list[Any], results: list[Any]) -> str:
    run = run_of(folder, fits, results)
    return text._about_values(run, cells_of(run))


def test_a_model_without_a_value_has_a_sentence_without_a_number(
    tmp_path: Path,
) -> None:
    nothing = {"ap": math.nan, "auc": math.nan, "prevalence": 0.0}
    run = run_of(
        tmp_path,
        [fit("ridge"), fit("random")],
        [*rows("ridge", nothing, []), *rows("random", GUESS, [0.5] * 12)],
    )
    assert answer(run) == (
        "ridge ranks no clips (EN_S): no fold tests clips of both classes."
    )


def test_a_model_whose_folds_have_one_class_each_ranks_nothing(tmp_path: Path) -> None:
    """The AP of a fold of positive clips is 1 in each order."""
    one_class = {"ap": 1.0, "auc": math.nan, "prevalence": 0.5}
    found = rows("ridge", one_class, [])
    run = run_of(tmp_path, [fit("ridge")], found)
    assert answer(run) == (
        "ridge ranks no clips (EN_S): no fold tests clips of both classes."
    )


def test_a_rare_concept_has_the_numbers_of_each_store() -> None:
    look = {"folds": 1, "of": 4, "least": 2}
    body = {"folds": 4, "of": 4, "least": 0}
    text = rare_concepts_text(
        {
            "a": {"Look": look, "Body": body},
            "b": {"Look": {**look, "least": 1}, "Body": body},
        }
    )
    assert text.endswith(
        ": Look on a (down to 2 clips, in 1 of 4 folds), Body (down to 0 clips, in 4 of 4 folds),"
        " Look on b (down to 1 clip, in 1 of 4 folds)."
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sets(st.sampled_from("abcdef")), min_size=1, max_size=4))
def test_what_a_store_lacks_is_its_own_number_whatever_others_lack(
    lacking: list[set[str]],
) -> None:
    """It said 7 of max, which lacked 8, and nothing of a third store."""
    of_all = set().union(*lacking)
    stores = {}
    for number, own in enumerate(lacking):
        stores[f"s{number}"] = {"missing": dict.fromkeys(sorted(own), "failed")}
    stores["joined"] = {"missing": dict.fromkeys(of_all, "failed"), "parts": [*stores]}
    protocol = {"fit": {"choose_store": True}}
    run = Run(Path(), {"stores": stores, "protocol": protocol})
    found = {}
    for name, facts in stores_lacking_clips(run).items():
        found[name] = set(facts["missing"])
    assert found == {f"s{n}": own for n, own in enumerate(lacking) if own}


@given(st.dictionaries(st.integers(0, 60), st.sampled_from("abcdef"), min_size=1))
def test_the_reasons_in_a_line_add_up_to_the_clips_without_features(
    reason_of_clip: dict[int, str],
) -> None:
    with TemporaryDirectory() as folder:
        run = run_of(Path(folder), [fit("ridge")], rows("ridge", GOOD))
        missing = {f"c{clip}": reason for clip, reason in reason_of_clip.items()}
        said = missing_features(run, "s", {"missing": missing})
    in_brackets = said.partition("(")[2].partition(")")[0]
    counts = [int(part.split()[0]) for part in in_brackets.split(", ")]
    assert said.startswith(f"{sum(counts)} of ")
    assert sum(counts) == len(missing)
