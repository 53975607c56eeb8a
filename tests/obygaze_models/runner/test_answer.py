"""The sentences on a run: its answer, what limits it, and the text of both for a terminal."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.run_tables import MANIFEST, STORE, completed, table_of

from obygaze_models.evaluation.results import judgement, verdict
from obygaze_models.evaluation.tables import RunRow
from obygaze_models.models.registry import UNTRAINED
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.runner import text
from obygaze_models.runner.answer import answers, held_out_text, short_p
from obygaze_models.runner.files import RUN_FORMAT, Run, write_run
from obygaze_models.runner.limits import find_limits

TASKS = {"task": "EN_S", "train": "EN_S", "test": "EN_S"}
MODELS = ("ridge", "mlp")
# The classes of a film from its highest score to its lowest, and their average precision.
PERFECT = "1100"  # 1
SOME = "1001"  # (1/1 + 2/4) / 2 = .75
REVERSED = "0011"  # (1/3 + 2/4) / 2 = .42
GUESSING = "the classes of the nearest clips in the same film"
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
    row |= {"low": low, "high": high, "basis": "unseen", "tested": 0.1}
    row |= {"p": p, "comparisons": 1, "against_train": "EN_S"}
    return {**row, "against_model": "neighbour", **names}


FIT = {"fold": "a", "seed": 0, "n_train": 9, "n_validation": 0, "chosen": {}}


def run_of(folder, tests, results=(), *changes, manifest=None, **about) -> Run:
    """A run that was written with these rows."""
    asked = ('report.lead=""', 'report.against=""', "report.contrast=[]", *changes)
    n_clips = len({row["clip_id"] for row in tests})
    n_films = len({row["movie_id"] for row in tests})
    counts = {"n_clips": n_clips, "n_films": n_films}
    whole = {
        "format": RUN_FORMAT,
        "identity": "x",
        "protocol": load_protocol("honest-negatives", asked).to_json(),
        "stores": {"s": STORE},
        "sizes": {},
        "remarks": {},
        "fits": [],
        "seconds": 1.0,
        "manifest": {**MANIFEST, **counts, **(manifest or {})},
        **about,
    }
    tables = {
        "predictions.csv": table_of("predictions.csv", tests),
        "results.csv": completed(tests, results, whole),
    }
    return write_run(folder / "run", whole, tables)


def limits(run: Run) -> dict[str, str]:
    return {limit.name: limit.text for limit in find_limits(run)}


# ---- the answer ----


def test_the_p_is_the_largest_of_those_against_baselines() -> None:
    rows = [difference(0.05, 0.2, 0.01)]
    rows.append(difference(0.05, 0.2, 0.3, against_model="film_prior"))
    rows = [{**row, "against_store": ""} for row in rows]
    found = judgement("neighbour", rows)
    assert (found["p"], found["verdict"]) == (0.3, "not shown")
    assert judgement("random", rows) == {"verdict": "–"}


@pytest.mark.parametrize(
    ("facts", "basis", "tested", "said", "why"),
    [
        (
            {"seen": "clip", "leaked": True},
            "leaked",
            "test clips were also used in training or selection",
            "ridge was tested on clips of its training, so its value is too high.",
            "Such results have no interval and no p",
        ),
        (
            {"group": "", "movie_id": ""},
            "film-unknown",
            "the films of clips are unknown",
            f"ridge is not tested against {GUESSING}: films are unknown.",
            "films are unknown, so clips of one film may be both in training and in test",
        ),
    ],
)
def test_what_has_no_interval_says_why_and_is_not_better(
    tmp_path, facts, basis, tested, said, why
):
    tests = [*cell("ridge", GOOD, **facts), *cell("neighbour", GUESS, **facts)]
    row = difference(math.nan, math.nan, math.nan, basis=basis)
    n_films = 12 if basis == "leaked" else 0
    run = run_of(tmp_path, tests, [row], manifest={"n_films": n_films})
    assert answers(run) == [said]
    assert held_out_text(run) == tested
    name = "leaks" if basis == "leaked" else "no interval"
    assert why in limits(run)[name]
    assert verdict(row) == ("leaked" if basis == "leaked" else "–")


def lead(first: str, second: str = "") -> tuple[str, str]:
    """Changes of the protocol: the run is about `first`, which is compared with `second`."""
    return f'report.lead="{first}"', f'report.against="{second}"'


def test_the_answer_is_about_the_lead(tmp_path) -> None:
    tests = [*cell("ridge", GOOD), *cell("mlp", GUESS), *cell("neighbour", GUESS)]
    rows = [difference(0.1, 0.3, 0.01), difference(0, 0.1, 0.2, model="mlp")]
    for name, other in (("mlp", "ridge"), ("ridge", "mlp")):
        run = run_of(tmp_path / name, tests, rows, *lead(name))
        assert answers(run)[0].removeprefix("Yes. ").startswith(name)
        assert not any(other in sentence for sentence in answers(run))


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
    assert verdict({"tested": value, "p": p, "basis": "unseen"}) == expected


@pytest.mark.parametrize(
    ("row", "changes", "expected"),
    [
        (
            difference(0.1, 0.3, 0.025),
            [],
            f"ridge ranks clips better than {GUESSING} (p = .025).",
        ),
        (
            difference(0.1, 0.3, 0.0001),
            ['report.ask="Does it?"'],
            f"Yes. ridge ranks clips better than {GUESSING} (p <.001).",
        ),
        (
            difference(-0.1, 0.3, 0.4, comparisons=4),
            ['report.ask="Does it?"'],
            f"ridge is not shown to rank clips better than {GUESSING} (p = .400).",
        ),
    ],
)
def test_the_sentence_of_a_model_says_first_what_is_shown(
    tmp_path, row, changes, expected
):
    tests = [*cell("ridge", GOOD), *cell("neighbour", GUESS)]
    changes = changes or ['report.ask=""']
    assert answers(run_of(tmp_path, tests, [*ENDS, row], *changes)) == [expected]


def test_the_text_of_p_is_on_its_side_of_the_limit() -> None:
    shown = [short_p(p) for p in (0.0496, 0.0504, 0.0521, 0.2, 0.0004, math.nan)]
    assert shown == [".0496", ".0504", ".052", ".200", "<.001", "–"]


@pytest.mark.parametrize(
    ("films", "guess", "why"),
    [
        (
            GOOD[:4],
            GUESS[:4],
            "a test needs 5 films with clips of both classes, and 4 have them",
        ),
        (
            [PERFECT] * 8,
            [PERFECT] * 8,
            "the order is as good as its reverse in each film",
        ),
    ],
)
def test_a_missing_p_has_a_reason(tmp_path: Path, films, guess, why) -> None:
    tests = [*cell("ridge", films), *cell("neighbour", guess)]
    run = run_of(tmp_path, tests, [difference(math.nan, math.nan, math.nan)])
    assert answers(run) == [f"ridge is not tested against {GUESSING}: {why}."]


def on_stores(*stores: str) -> list[RunRow]:
    """The tests of ridge on some stores; on the store b, it is not better than the baseline."""
    tests = cell("neighbour", GUESS)
    for store in stores:
        films = REVERSED_FILMS if store == "b" else GOOD
        tests += cell("ridge", films, store=store)
    return tests


REVERSED_FILMS = (REVERSED,) * 12


def of_stores(first: str, second: str, p: float, value: float = 0.1) -> RunRow:
    """The difference of ridge on two stores."""
    row = difference(0.1, 0.3, p, store=first, against_model="ridge")
    return {**row, "against_store": second, "value": value}


@pytest.mark.parametrize("stores", [("a", "b"), ("b", "a")])
def test_each_store_has_a_sentence_in_the_order_typed(tmp_path, stores) -> None:
    rows = [
        difference(0.1, 0.3, 0.01, store="a"),
        difference(-0.1, 0.3, 0.9, store="b"),
        of_stores("a", "b", 0.002),
    ]
    about = dict.fromkeys(stores, STORE)
    run = run_of(tmp_path, on_stores(*stores), rows, stores=about)
    sentences = {
        "a": f"a ranks clips better than {GUESSING} (p = .010).",
        "b": f"b is not shown to rank clips better than {GUESSING} (p = .900).",
    }
    expected = [*(sentences[name] for name in stores), "a is better than b (p = .002)."]
    assert answers(run) == expected


JOINED = {**STORE, "parts": {"a": STORE, "b": STORE}}


@pytest.mark.parametrize(
    ("p_of_parts", "p_of_two", "first", "second"),
    [
        (
            (0.02, 0.002),
            0.3,
            "Yes. a and b together are better than a (p = .020) and than b (p = .002).",
            "they are not shown to differ (p = .300).",
        ),
        (
            (0.2, 0.002),
            0.01,
            "a and b together are better than b (p = .002); they are not shown to be better than a"
            " (p = .200).",
            "a is better than b (p = .010).",
        ),
    ],
)
def test_joined_features_have_a_sentence_against_their_parts(
    tmp_path, p_of_parts, p_of_two, first, second
):
    tests = cell("neighbour", GUESS)
    for store in ("a", "b", "both"):
        tests += cell("ridge", GOOD, store=store)
    rows = [difference(0.1, 0.3, 0.01, store=store) for store in ("a", "b", "both")]
    rows.append(of_stores("a", "b", p_of_two))
    for part, p in zip("ab", p_of_parts, strict=True):
        rows.append(of_stores("both", part, p))
    stores = {"a": STORE, "b": STORE, "both": JOINED}
    run = run_of(tmp_path, tests, rows, 'report.ask="Together?"', stores=stores)
    alone = f"Each alone ranks clips better than {GUESSING}"
    assert answers(run) == [first, f"{alone}; {second}"]


def test_of_many_results_the_first_and_the_highest_have_a_sentence(tmp_path) -> None:
    stores = dict.fromkeys("bcd", STORE)
    rows = [
        difference(0.1, 0.3, p, store=s)
        for s, p in zip("bcd", (0.9, 0.01, 0.02), strict=True)
    ]
    tests = [*on_stores("b", "c"), *cell("ridge", GUESS, store="d")]
    run = run_of(tmp_path, tests, rows, stores=stores)
    assert answers(run) == [
        f"b is not shown to rank clips better than {GUESSING} (p = .900).",
        "c has the highest AP of 3 results.",
        f"c ranks clips better than {GUESSING} (p = .010).",
    ]
    # Results that print the same value are not told apart.
    equal = run_of(
        tmp_path / "equal", on_stores("c", "d", "e"), stores=dict.fromkeys("cde", STORE)
    )
    assert answers(equal)[1] == "c, d and e have the highest AP of 3 results."


def test_the_lead_and_the_model_it_is_compared_with_have_a_sentence(tmp_path) -> None:
    tests = [*cell("ridge", GOOD), *cell("mlp", GUESS), *cell("neighbour", GUESS)]
    row = difference(0.1, 0.2, 0.01, against_model="mlp", against_store="s")
    run = run_of(tmp_path, tests, [*ENDS, row], *lead("ridge", "mlp"))
    assert answers(run)[1] == "ridge is better than mlp (p = .010)."
    worse = {**row, "tested": -0.1, "value": -0.1}
    run = run_of(tmp_path / "worse", tests, [worse], *lead("ridge", "mlp"))
    assert answers(run)[1] == "mlp is better than ridge (p = .010)."


def test_a_run_without_a_film_of_both_classes_ranks_no_clips(tmp_path) -> None:
    tests = cell("ridge", ["1111", "0000"] * 2)
    said = "ridge ranks no clips: no fold tests clips of both classes."
    assert answers(run_of(tmp_path / "a", tests)) == [said]


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


def test_films_of_training_are_said_beside_the_clips(tmp_path):
    tests = cell("ridge", GOOD)
    for number, row in enumerate(tests):
        row["seen"] = "film" if number < 9 else "unseen"
    run = run_of(tmp_path, tests)
    assert held_out_text(run) == "models were trained on other clips of the same films"
    assert (
        "up to 9 of the 48 test clips" in limits(run)["films on both sides"].casefold()
    )


@pytest.mark.parametrize(("primary", "is_warned"), [("ap", False), ("auc", True)])
def test_few_films_are_those_of_the_metric_that_is_compared(
    tmp_path, primary, is_warned
):
    """All clips of nine films are positive: these have an AP, and no AUC."""
    tests = cell("ridge", [*["1111"] * 9, *[SOME] * 3])
    run = run_of(tmp_path, tests, ENDS, f"report.primary={primary}")
    said = limits(run).get("few films", "")
    named = "There is a value for 3 of 12 films:"
    assert (named in said) == is_warned
    assert bool(said) == is_warned


@pytest.mark.parametrize(
    ("low", "p", "is_said"), [(0.3, 0.04, True), (0.85, 0.04, False), (0.3, 0.3, False)]
)
def test_an_interval_with_chance_beside_a_small_p_is_explained(
    tmp_path, low, p, is_said
) -> None:
    rows = [{**ENDS[0], "low": low}, difference(0.1, 0.4, p)]
    rows[1]["against_store"] = ""
    tests = [*cell("ridge", GOOD), *cell("neighbour", GUESS)]
    run = run_of(tmp_path, tests, rows)
    # Only a saved model ranks the clips of all films together.
    assert "one ranking" not in limits(run)
    run.protocol["models"]["ridge"]["settings"]["sha256"] = "x"
    assert ("one ranking" in limits(run)) == is_said


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


def test_a_choice_of_the_highest_is_warned_of(tmp_path: Path) -> None:
    run = run_of(tmp_path, on_stores("b", "a"), stores=dict.fromkeys("ab", STORE))
    assert limits(run)["picked"] == (
        "If you choose one of the 2 results in EN_S because it is the highest, expect a lower value"
        " on new films."
    )
    one = run_of(tmp_path / "one", cell("ridge", GOOD))
    leaked = [*cell("ridge", GOOD), *cell("mlp", GOOD, seen="clip", leaked=True)]
    for run in (one, run_of(tmp_path / "leaked", leaked)):
        assert "picked" not in limits(run)
    # A model that nobody asked about counts too.
    tests = [*cell("ridge", GUESS), *cell("mlp", GOOD)]
    run = run_of(tmp_path / "mlp", tests, [], *lead("ridge"))
    assert "2 results" in limits(run)["picked"]


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
    assert (row[0], row[-1]) == ("ridge", ".83")


def test_each_metric_stands_beside_its_own_baseline(tmp_path: Path) -> None:
    # Half of the clips are positive, and all decisions say so.
    tests = cell("ridge", GOOD, decision=1.0)
    tests += cell("prevalence", (REVERSED,) * 12, decision=1.0)
    # This baseline has the best order of clips, and each decision is wrong.
    for row in cell("neighbour", GUESS):
        tests.append({**row, "decision": 0.5 - row["y"]})
    run = run_of(tmp_path, tests, [], "report.primary=accuracy")
    lines = text.result_text(run).splitlines()
    (place,) = [n for n, line in enumerate(lines) if line.startswith("model ")]
    headers, row = (re.split(r"  +", line) for line in lines[place : place + 2])
    assert headers == [
        *("model", "AP", "best baseline", "better in films", "p"),
        *("accuracy", "best baseline of accuracy"),
    ]
    assert row[2] == ".75 (neighbour)"
    assert row[5:] == [".50", ".50 (prevalence)"]


def test_the_screen_says_which_results_have_a_p(tmp_path: Path) -> None:
    tests = [*cell("ridge", GOOD), *cell("mlp", GOOD), *cell("neighbour", GUESS)]
    sentence = "p is only for what the run asks about: ridge."
    rows = [difference(0.1, 0.3, 0.01), difference(0, 0.1, 0.2, model="mlp")]
    led = run_of(tmp_path / "led", tests, rows, *lead("ridge"))
    led_lines = text.result_text(led).splitlines()
    assert sentence in led_lines
    of_all = text.result_text(run_of(tmp_path / "all", tests, rows))
    assert "p is only for" not in of_all


def test_the_sides_of_a_difference_are_beside_it(tmp_path) -> None:
    tests = on_stores("a", "c")
    run = run_of(
        tmp_path, tests, [of_stores("a", "c", 0.01)], stores=dict.fromkeys("ac", STORE)
    )
    (line,) = [line for line in text.result_text(run).splitlines() if "a - c" in line]
    assert line.split()[3:5] == [".90", ".90"]


def test_three_limits_are_shown_the_most_serious_first(tmp_path) -> None:
    remarks = {"left out": "Clips were left out.", "heard": "Voice can only be heard."}
    run = run_of(tmp_path, cell("ridge", GOOD[:4], seen="film"), remarks=remarks)
    found = limits(run)
    names = ("films on both sides", "few films", "no interval")
    lines = text.result_text(run).splitlines()
    shown = [line[2:] for line in lines if line.startswith("! ")]
    assert shown == [found[name] for name in names]
    assert "further limits in the report: 2" in lines
