"""The sentences on a run: its answer, what limits it, and the text of both for a terminal."""

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import stdev
from typing import Any

import pytest
from support.run_tables import MANIFEST, STORE, table_of

from obygaze_models.evaluation.tables import CHOSEN, RunRow
from obygaze_models.models.registry import UNTRAINED
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.runner import text
from obygaze_models.runner.answer import (
    answers,
    difference_from_baseline,
    short_p,
    verdict,
)
from obygaze_models.runner.files import RUN_FORMAT, Run, write_run
from obygaze_models.runner.limits import find_limits

TASKS = {"task": "EN_S", "train": "EN_S", "test": "EN_S"}
MODELS = ("ridge", "mlp")
# The classes of a film from its highest score to its lowest, and their average precision.
PERFECT = "1100"  # 1
SOME = "1001"  # (1/1 + 2/4) / 2 = .75
REVERSED = "0011"  # (1/3 + 2/4) / 2 = .42
BETTER_THAN_BASELINE = (
    "On unseen films, ridge ranks clips (EN_S) better than the best baseline"
)
GUESSING = (
    "the best baseline without video has .75 (neighbour: the classes of the nearest training clips"
    " in the same film)"
)
VALUES = f"AP .90 [.63, .98]; {GUESSING}; ridge is higher in 10 of 12 films"
# 10 films that are perfect, and two reversed: .90.
GOOD = (*[PERFECT] * 10, REVERSED, REVERSED)
GUESS = (SOME,) * 12


def cell(model: str, films: Sequence[str], **columns: Any) -> list[RunRow]:
    """The tests of a model or baseline: a fold for each film, with its classes in order.

    Each film has its positive clips first, whatever the order of the scores.
    """
    store = "s" if model in MODELS else ""
    of_cell = {**TASKS, "store": store, "model": model, "seed": 0, "n_seen": 100}
    of_cell |= {"is_model": model in MODELS, "is_trained": model not in UNTRAINED}
    of_cell |= {"seen": "unseen", "leaked": False, "is_probability": False}
    rows = []
    for number, classes in enumerate(films):
        film = f"film-{number:02d}"
        clips = {"1": 0, "0": classes.count("1")}
        for rank, of_clip in enumerate(classes):
            row = {**of_cell, "fold": film, "movie_id": film, "group": film}
            row |= {"clip_id": f"{film}-{clips[of_clip]}", "y": int(of_clip)}
            clips[of_clip] += 1
            rows.append({**row, "score": -float(rank), "decision": 0.0, **columns})
    return rows


# The rows of results.csv with the intervals of ridge.
ENDS = [
    {**TASKS, "store": "s", "model": "ridge", "value": 0.7, "metric": metric, **both}
    for metric, both in (
        ("ap", {"low": 0.63, "high": 0.98}),
        ("auc", {"low": 0.7, "high": 0.9}),
    )
]


def difference(low: float, high: float, p: float, **names: Any) -> RunRow:
    """The difference of ridge and the baseline neighbour."""
    row = {**TASKS, "store": "s", "model": "ridge", "metric": "ap", "value": 0.1}
    row |= {"low": low, "high": high, "basis": "unseen", "over_films": 0.1}
    row |= {"p": p, "comparisons": 1, "against_train": "EN_S"}
    return {**row, "against_model": "neighbour", **names}


FIT = {"fold": "a", "seed": 0, "n_train": 9, "n_validation": 0, "chosen": {}}


def run_of(folder, tests, results=(), *changes, manifest=None, **about) -> Run:
    """A run that was written with these rows."""
    asked = ("report.questions=[]", "report.contrast=[]", *changes)
    n_clips = len({row["clip_id"] for row in tests})
    n_films = len({row["movie_id"] for row in tests})
    counts = {"n_clips": n_clips, "n_films": n_films}
    whole = {
        "format": RUN_FORMAT,
        "identity": "x",
        "protocol": load_protocol("honest", asked).to_json(),
        "stores": {"s": STORE},
        "sizes": {},
        "remarks": {},
        "fits": [],
        "seconds": 1.0,
        "manifest": {**MANIFEST, **counts, **(manifest or {})},
        **about,
    }
    tables = {"predictions.csv": tests, "results.csv": results}
    return write_run(
        folder / "run", whole, {name: table_of(name, tables[name]) for name in tables}
    )


def answer(run: Run) -> str:
    """The first sentence."""
    return answers(run)[0]


def limits(run: Run) -> dict[str, str]:
    return {limit.name: limit.text for limit in find_limits(run)}


# ---- the answer ----


def test_the_p_is_the_largest_of_those_against_baselines(tmp_path: Path) -> None:
    tests = [*cell("ridge", ["10"] * 6), *cell("neighbour", ["01"] * 6)]
    other = difference(0.05, 0.2, 0.3, against_model="film_prior")
    run = run_of(tmp_path, tests, [*ENDS, difference(0.05, 0.2, 0.01), other])
    sides = [
        one for name in ("ridge", "neighbour") for one in run.cells if one.model == name
    ]
    row = difference_from_baseline(run, *sides)
    assert row is not None
    assert (row["against_model"], row["p"]) == ("neighbour", 0.3)


@pytest.mark.parametrize(
    ("facts", "basis", "where", "why"),
    [
        (
            {"seen": "clip", "leaked": True},
            "leaked",
            "On leaked test clips (some were used in training or selection), ridge ranks",
            "some test clips were used in training or selection (leaked)",
        ),
        (
            {"group": "", "movie_id": ""},
            "film-unknown",
            "On unseen clips, ridge ranks clips",
            "films are unknown, so clips of one film may be both in training and in test",
        ),
    ],
)
def test_what_has_no_interval_says_why_and_is_not_better(
    tmp_path, facts, basis, where, why
):
    tests = [*cell("ridge", GOOD, **facts), *cell("neighbour", GUESS, **facts)]
    row = difference(math.nan, math.nan, math.nan, basis=basis)
    n_films = 12 if basis == "leaked" else 0
    run = run_of(tmp_path, tests, [row], manifest={"n_films": n_films})
    assert answer(run).startswith(where)
    assert why in limits(run)["no interval"]
    assert verdict(row) == ("leaked" if basis == "leaked" else "–")
    assert answer(run).endswith(f"{GUESSING}.")


def test_a_guess_that_leaked_is_no_measure_of_a_model(tmp_path: Path) -> None:
    """What learns from no clip cannot leak, while the baseline beside it has seen the answers."""
    for seen, is_measure in (("unseen", True), ("clip", False)):
        guess = cell("neighbour", GUESS, seen=seen, leaked=not is_measure)
        row = difference(math.nan, math.nan, math.nan)
        row["basis"] = "unseen" if is_measure else "leaked"
        tests = [*cell("ridge", (REVERSED,) * 12), *guess]
        run = run_of(tmp_path / seen, tests, [row])
        assert ("higher in" in answer(run)) == is_measure
        assert GUESSING in answer(run)


def question(first: str, second: str, **names: str) -> str:
    """A change of the protocol that asks this."""
    sides = {"first": first, "second": second, **names}
    fields = ", ".join(f'{key}="{name}"' for key, name in sides.items())
    return f"report.questions=[{{{fields}}}]"


@pytest.mark.parametrize("sides", [("mlp", "ridge"), ("neighbour", "mlp")])
def test_the_answer_is_about_the_models_of_a_question(tmp_path, sides) -> None:
    tests = [*cell("ridge", GOOD), *cell("mlp", GUESS)]
    run = run_of(tmp_path, tests, [], question(*sides))
    assert any("mlp ranks clips (EN_S) with AP .75" in text for text in answers(run))
    has_ridge = any("ridge ranks clips" in text for text in answers(run))
    assert has_ridge == ("ridge" in sides)


@pytest.mark.parametrize(
    ("value", "p", "expected"),
    [
        (0.1, 0.01, "yes"),
        (0.1, 0.05, "yes"),
        (0.1, 0.2, "not shown"),
        (0.1, math.nan, "–"),
        (-0.1, 0.01, "no, worse"),
        (-0.1, 0.2, "not shown"),
    ],
)
def test_a_verdict_is_that_of_p(value: float, p: float, expected: str) -> None:
    assert verdict({"over_films": value, "p": p}) == expected


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (difference(0.1, 0.3, 0.025), f"{BETTER_THAN_BASELINE}, p = .025: {VALUES}."),
        (
            difference(-0.1, 0.3, 0.4, comparisons=4),
            "On unseen films, ridge is not shown to rank clips (EN_S) better than"
            f" the best baseline, p = .400 (corrected for 4 comparisons): {VALUES}.",
        ),
        (difference(0.1, 0.3, 0.0001), f"{BETTER_THAN_BASELINE}, p <.001: {VALUES}."),
    ],
)
def test_the_sentence_of_a_model_says_first_what_is_shown(tmp_path, row, expected):
    tests = [*cell("ridge", GOOD), *cell("neighbour", GUESS)]
    assert answer(run_of(tmp_path, tests, [*ENDS, row])) == expected


def test_the_text_of_p_is_on_its_side_of_the_limit() -> None:
    shown = [short_p(p) for p in (0.0496, 0.0504, 0.0521, 0.2, 0.0004, math.nan)]
    assert shown == [".0496", ".0504", ".052", ".200", "<.001", "–"]


def test_where_nothing_is_shown_it_is_said_how_large_a_difference_must_be(tmp_path):
    """Of 12 films that trained each other's models: t * s * sqrt(22 / 10 / 12).

    The guess orders clips, so that the difference is that of AP: .25 in 10 films, and -1/3 in two.
    """
    tests = [*cell("ridge", GOOD), *cell("neighbour", GUESS)]
    run = run_of(tmp_path, tests, [difference(-0.1, 0.3, 0.4)])
    spread = stdev([0.25] * 10 + [-1 / 3] * 2)
    needed = f"{1.7959 * spread * math.sqrt(22 / 10 / 12):.3f}".removeprefix("0")
    assert limits(run)["power"] == (
        "With 12 films that vary as much as these, p shows a mean difference from the best baseline"
        f" only if it is at least about {needed} for ridge in EN_S (observed: .100); a smaller"
        " difference may be chance."
    )
    shown = run_of(tmp_path / "shown", tests, [difference(0.1, 0.3, 0.01)])
    assert "power" not in limits(shown)


def test_fewer_than_five_films_cannot_tell(tmp_path: Path) -> None:
    tests = [*cell("ridge", GOOD[:4]), *cell("neighbour", GUESS[:4])]
    run = run_of(tmp_path, tests, [difference(math.nan, math.nan, math.nan)])
    assert answers(run) == [
        f"On unseen films, ridge ranks clips (EN_S) with AP 1.00; {GUESSING}; ridge is higher in"
        " 4 of 4 films; there is no p, because a test needs 5 films."
    ]


def on_stores(*stores: str) -> list[RunRow]:
    """The tests of ridge on some stores; on the second, it is not better than the baseline."""
    tests = cell("neighbour", GUESS)
    for store in stores:
        films = REVERSED_FILMS if store == "b" else GOOD
        tests += cell("ridge", films, store=store)
    return tests


REVERSED_FILMS = (REVERSED,) * 12


@pytest.mark.parametrize("stores", [("a", "b"), ("b", "a")])
def test_each_store_has_a_sentence_in_the_order_typed(tmp_path, stores) -> None:
    rows = [
        difference(0.1, 0.3, 0.01, store="a"),
        difference(-0.1, 0.3, 0.9, store="b"),
        difference(
            0.2, 0.6, 0.002, store="a", against_model="ridge", against_store="b"
        ),
    ]
    about = dict.fromkeys(stores, STORE)
    run = run_of(tmp_path, on_stores(*stores), rows, stores=about)
    first, second, of_two, *_ = answers(run)
    sentences = {
        "a": "On unseen films, ridge (a) ranks clips (EN_S) better than the best baseline, p =",
        "b": "On unseen films, ridge (b) is not shown to rank clips (EN_S) better than",
    }
    assert first.startswith(sentences[stores[0]])
    assert second.startswith(sentences[stores[1]])
    assert of_two.startswith(
        "ridge (a) is better than ridge (b), p = .002: ridge (a) minus ridge (b) (EN_S) is AP .10"
    )
    assert of_two.endswith("; ridge (a) is higher in 10 of 12 films (equal in 2).")
    # A baseline is explained where it is named first.
    assert "(neighbour: the classes" in first
    assert "(neighbour)" in second


@pytest.mark.parametrize(
    ("low", "n_films", "words"),
    [
        (0.1, 12, "ranks clips (EN_S) better than the best baseline, by the interval"),
        (
            -0.1,
            12,
            "is not shown to rank clips (EN_S) better than the best baseline, by the",
        ),
        (0.1, 4, "ranks clips (EN_S) with AP 1.00"),
    ],
)
def test_the_store_that_training_films_choose_is_better_by_its_interval(
    tmp_path, low, n_films, words
):
    tests = cell("neighbour", GUESS[:n_films])
    for store in ("s", CHOSEN):
        tests += cell("ridge", GOOD[:n_films], store=store)
    row = difference(low, 0.3, math.nan, store=CHOSEN)
    _, of_chosen, *_ = answers(run_of(tmp_path, tests, [row]))
    assert f"ridge (store chosen on training films) {words}" in of_chosen
    assert (
        f"the mean difference within films is .10 [{low:.2f}, .30]".replace("0.", ".")
        in of_chosen
    )


def test_results_that_a_run_does_not_ask_about_are_named(tmp_path: Path) -> None:
    tests = [*cell("ridge", GOOD), *cell("mlp", GUESS)]
    run = run_of(tmp_path, tests, [], question("ridge", "neighbour"))
    assert answers(run)[1] == (
        "No p against a baseline, because report.questions does not request it: mlp in EN_S."
    )


def test_at_most_six_models_have_a_sentence(tmp_path: Path) -> None:
    run = run_of(
        tmp_path, on_stores(*"abcdefgh"), stores=dict.fromkeys("abcdefgh", STORE)
    )
    found = answers(run)
    assert sum("ranks clips" in text for text in found) == 6
    others = "ridge (g) in EN_S, ridge (h) in EN_S"
    assert found[6:] == [f"Also in the tables of the report: {others}."]


def test_a_question_about_two_models_has_a_sentence(tmp_path: Path) -> None:
    tests = [*cell("ridge", GOOD), *cell("mlp", GUESS)]
    row = difference(0.1, 0.2, 0.01, against_model="mlp", against_store="s")
    run = run_of(tmp_path, tests, [*ENDS, row], question("ridge", "mlp"))
    assert answers(run)[0] == (
        "ridge is better than mlp, p = .010: ridge minus mlp (EN_S) is AP .10 [.10, .20]; ridge is"
        " higher in 10 of 12 films."
    )
    # In the order of the question, and the better one first.
    run = run_of(tmp_path / "x", tests, [*ENDS, row], question("mlp", "ridge"))
    assert answers(run)[0].startswith(
        "ridge is better than mlp, p = .010: ridge minus mlp (EN_S)"
    )


def test_where_no_film_has_both_classes_folds_of_several_films_are_offered(tmp_path):
    tests = cell("ridge", ["1111", "0000"] * 2)
    said = "no fold tests clips of both classes."
    more = " Each fold tests one film; --set splits.folds=3 tests films in three folds."
    assert answer(run_of(tmp_path / "a", tests)).endswith(said + more)
    of_several = run_of(tmp_path / "b", tests, (), "splits.folds=4")
    assert answer(of_several).endswith(said)


# ---- limits ----


@pytest.mark.parametrize(
    ("films", "reason"),
    [
        (
            ["1" * 9 + "0" * 9],
            "EN_S tests 9 positive clips of 1 film and 9 negative clips",
        ),
        (
            ["1000"] * 4,
            "EN_S tests 4 positive clips of 4 films and 12 negative clips, but an interval",
        ),
        ([PERFECT] * 9, "the values do not differ from film to film"),
    ],
)
def test_a_missing_interval_has_a_reason(tmp_path, films, reason) -> None:
    assert reason in limits(run_of(tmp_path, cell("ridge", films)))["no interval"]


def test_leaks_and_copies_are_told_apart(tmp_path: Path) -> None:
    tests = cell("ridge", GOOD)
    for number, row in enumerate(tests[:10]):
        row |= {"seen": "clip", "leaked": number < 7}
    found = limits(run_of(tmp_path, tests, ENDS))
    assert "7 of the 48 test clips of EN_S (s)" in found["leaks"]
    assert "3 of the 48 test clips of EN_S (s)" in found["copies"]


def test_clips_of_training_films_and_copies_are_counted_in_the_sentence(tmp_path):
    tests = cell("ridge", GOOD)
    for number, row in enumerate(tests):
        row["seen"] = "film" if number < 9 else "unseen"
    told = "On 48 clips, 9 of them from training films"
    assert answer(run_of(tmp_path / "a", tests)).startswith(f"{told}, ridge")
    for row in tests[9:12]:
        row["seen"] = "clip"
    told += " and 3 of them copies of training clips, ridge"
    assert answer(run_of(tmp_path / "b", tests)).startswith(told)


@pytest.mark.parametrize(("primary", "is_warned"), [("ap", False), ("auc", True)])
def test_few_films_are_those_of_the_metric_that_is_compared(
    tmp_path, primary, is_warned
):
    """All clips of nine films are positive: these have an AP, and no AUC."""
    tests = cell("ridge", [*["1111"] * 9, *[SOME] * 3])
    run = run_of(tmp_path, tests, ENDS, f"report.primary={primary}")
    said = limits(run).get("few films", "")
    named = "In 1 of 1 result, there is a value for 3 of 12 films;"
    assert (named in said) == is_warned
    assert bool(said) == is_warned


def test_other_limits_are_said(tmp_path: Path) -> None:
    missing = {"a-1": "decode_error", "a-2": "decode_error"}
    names = {"train": "EN_S", "test": "EN_S", "store": "s", "model": "ridge"}
    skipped = {"fold 3": "no clip is left to train on"}
    without: dict[str, Any] = {"skipped": {}, "skipped_films": {}}
    run = run_of(
        tmp_path,
        cell("ridge", GOOD, seen="film"),
        ENDS,
        *("splits.kind=fixed", "splits.column=part", 'splits.test=["x"]'),
        stores={"s": {**STORE, "missing": missing}},
        remarks={"annotators differ": "3 of {48} clips have no class in T."},
        fits=[
            {**names, "skipped": skipped, "skipped_films": {}, "folds": [FIT]},
            {**names, **without, "model": "mlp", "folds": [FIT, {**FIT, "seed": 1}]},
            {**names, **without, "model": "mlp", "test": "HN_S", "folds": [FIT]},
        ],
    )
    found = limits(run)
    never = [one.text for one in find_limits(run) if one.name == "never validated"]
    assert never == [
        "mlp (EN_S): 2 fits without validation clips, so that training did not stop early."
    ]
    assert (
        "All 48 test clips of EN_S (s) are from films that were also used in training"
        in found["films on both sides"]
    )
    assert "the column part divides films" in found["films on both sides"]
    assert found["skipped folds"] == (
        "1 fold skipped: no clip is left to train on (fold 3)."
    )
    assert found["missing features"] == (
        "2 of 48 clips have no features in s and are excluded (2 decode_error): a-1, a-2."
    )
    assert found["annotators differ"] == "3 of {48} clips have no class in T."


@pytest.mark.parametrize(
    ("kind", "seen", "is_said"),
    [
        ("published", "unseen", True),
        ("nested", "unseen", False),
        # Folds that divide films are said in another limit.
        ("published", "film", False),
    ],
)
def test_folds_of_several_films_are_said_where_a_person_made_them(
    tmp_path, kind, seen, is_said
):
    tests = cell("ridge", [PERFECT] * 4, seen=seen)
    for row in tests:
        row["fold"] = f"fold {(0, 1, 1, 1)[int(row['group'][-2:])]}"
    run = run_of(tmp_path, tests, ENDS)
    protocol = {**run.protocol, "splits": {**run.protocol["splits"], "kind": kind}}
    run = Run(run.folder, {**run.about, "protocol": protocol}, run.known)
    found = limits(run).get("folds of several films", "")
    assert found.startswith("Folds contain up to 3 films, but intervals") == is_said


def test_the_best_of_several_stores_is_said_to_be_picked(tmp_path: Path) -> None:
    about = dict.fromkeys("ab", STORE)
    run = run_of(tmp_path, on_stores("b", "a"), stores=about)
    assert limits(run)["picked"] == (
        "ridge (a) has the highest AP of 2 results in EN_S (.90); if you choose it for this reason,"
        " expect a lower value on new films; --set fit.choose_store=true adds results whose store"
        " is chosen on training films."
    )
    one = run_of(tmp_path / "one", cell("ridge", GOOD))
    leaked = [*cell("ridge", GOOD), *cell("mlp", GOOD, seen="clip", leaked=True)]
    for run in (one, run_of(tmp_path / "leaked", leaked)):
        assert "picked" not in limits(run)
    # A model that nobody asked about, and that is better than the one of the question.
    tests = [*cell("ridge", GUESS), *cell("mlp", GOOD)]
    run = run_of(tmp_path / "mlp", tests, [], question("ridge", "neighbour"))
    assert limits(run)["picked"].startswith(
        "mlp has the highest AP of 2 results in EN_S (.90)"
    )


# ---- the text for a terminal ----


def test_a_metric_that_was_asked_for_has_a_column(tmp_path: Path) -> None:
    tests = cell("ridge", GOOD)
    lines = text.result_text(run_of(tmp_path, tests)).splitlines()
    assert not any("AUC" in line.split() for line in lines)
    asked = run_of(tmp_path / "asked", tests, [], 'report.metrics=["auc"]')
    lines = text.result_text(asked).splitlines()
    (place,) = [n for n, line in enumerate(lines) if "AUC" in line.split()]
    # Ten perfect films and two reversed ones, of one size: (10 * 1 + 2 * 0) / 12.
    row = lines[place + 1].split()
    assert row[:2] == ["EN_S", "ridge"]
    assert row[-4:] == [".83", "–", "48", "24"]
    # The metric of the sentences stands before the primary one.
    of_decisions = run_of(tmp_path / "f1", tests, [], "report.primary=f1_weighted")
    lines = text.result_text(of_decisions).splitlines()
    assert any(line.split()[2:5] == ["AP", "F1", "weighted"] for line in lines)


def test_all_that_protects_a_number_is_shown_and_three_other_lines(tmp_path) -> None:
    remarks = {f"r{number}": f"Remark {number}." for number in range(5)}
    run = run_of(tmp_path, cell("ridge", GOOD[:4], seen="film"), remarks=remarks)
    found = limits(run)
    names = ("films on both sides", "few films", "no interval")
    expected = [*(found[name] for name in names), *[*remarks.values()][:3]]
    lines = text.result_text(run).splitlines()
    assert [line[2:] for line in lines if line.startswith("! ")] == expected
    assert "further limits in the report: 2" in lines
