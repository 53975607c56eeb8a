"""The differences that a protocol asks for before the run, and all others."""

from itertools import product

import numpy as np
import pytest
from scipy import stats
from support.tables import a_table

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation import results
from obygaze_models.evaluation.cells import Cell, cells_from_tests
from obygaze_models.evaluation.results import (
    RunSettings,
    add_p,
    asked_cells,
    comparable,
    difference,
    film_differences,
)
from obygaze_models.evaluation.tables import RunRow
from obygaze_models.protocols.reading import (
    load_protocol,
    parse_protocol,
    protocol_names,
)

FILMS = [f"f{number}" for number in range(7)]
MODELS = {"ridge": 0.9, "mlp": 0.7, "trees": 0.5}


def cells_of_three_models() -> list[Cell]:
    """Three models on two stores, and two guesses."""
    rng = np.random.default_rng(4)
    y = rng.random((len(FILMS), 12)) < 0.4
    rows = []
    names = [(store, model) for store in ("a", "b") for model in MODELS]
    for store, model in [*names, ("", "random"), ("", "neighbour")]:
        for film, of_film in zip(FILMS, y, strict=True):
            scores = rng.normal(size=12) + MODELS.get(model, 0.0) * of_film
            for number, is_positive in enumerate(of_film):
                row = {"store": store, "model": model, "fold": film, "movie_id": film}
                row |= {"clip_id": f"{film}-{number:02d}", "y": int(is_positive)}
                row |= {"is_model": model in MODELS, "is_trained": model != "random"}
                score = float(scores[number]) if model in MODELS else 0.5
                rows.append({**row, "score": score, "is_probability": False})
    return cells_from_tests(a_table(rows))


def rows_with_p(settings: RunSettings) -> dict[tuple[str, ...], RunRow]:
    """The rows of differences that have a p, by both models and stores."""
    cells = cells_of_three_models()
    items = [difference(*both, settings) for both in comparable(cells)]
    add_p(items, [cell.name for cell in asked_cells(cells, settings)], settings)
    found = {}
    for row in [item.row for item in items]:
        if np.isfinite(row["p"]):
            names = (row["model"], row["store"])
            found[(*names, row["against_model"], row["against_store"])] = row
    return found


def test_what_a_run_asks_for_has_one_p_and_all_else_none() -> None:
    found = rows_with_p(RunSettings(lead="ridge", against="mlp"))
    guesses = {("ridge", s, g, "") for s in "ab" for g in ("random", "neighbour")}
    models = {("ridge", s, "mlp", s) for s in "ab"} | {("ridge", "a", "ridge", "b")}
    assert found.keys() == guesses | models
    # Both guesses give all clips of a film one score: they are one comparison for each store.
    assert {found[names]["comparisons"] for names in guesses} == {2}
    assert {found[names]["comparisons"] for names in models} == {3}
    # The lead against its model comes first.
    places = {names: found[names]["asked"] for names in models}
    assert places["ridge", "a", "ridge", "b"] == 3
    assert sorted(places.values()) == [1, 2, 3]
    for store in "ab":
        first = found["ridge", store, "random", ""]
        assert first["p"] == found["ridge", store, "neighbour", ""]["p"]


def test_a_p_is_that_of_its_family_one_sided_beside_guesses() -> None:
    cells = {cell.name[2:]: cell for cell in cells_of_three_models()}
    ours, guess = cells["a", "ridge"], cells["", "random"]
    item = difference(ours, guess, RunSettings())
    add_p([item], [ours.name], RunSettings(lead="ridge"))
    by_film = [*film_differences(ours, guess, "ap").values()]
    t = np.mean(by_film) / np.std(by_film, ddof=1) * np.sqrt(7 / 2.4)
    assert item.row["p"] == pytest.approx(stats.t.sf(t, 6))
    # Another store makes the family larger.
    of_two = rows_with_p(RunSettings(lead="ridge"))
    assert of_two["ridge", "a", "random", ""]["p"] > item.row["p"]


def test_a_joined_store_is_compared_with_its_parts_in_one_family() -> None:
    settings = RunSettings(lead="ridge", parts={"b": ["a"]})
    cells = [cell for cell in cells_of_three_models() if cell.model == "ridge"]
    (item,) = results._compute_differences(cells, settings)
    assert (item.row["store"], item.row["against_store"]) == ("b", "a")
    assert item.row["value"] == pytest.approx(item.row["first"] - item.row["second"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('report.lead="rigde"', "did you mean 'ridge'?"),
        ('report.against="rigde"', "ridge"),
        ('paper=[{model = "rigde", mean = 0.5}]', "paper[0]"),
        ('paper=[{test = "EN_X", mean = 0.5}]', "paper[0]"),
    ],
)
def test_a_lead_or_a_printed_value_of_what_is_not_there_is_an_error(change, said):
    with pytest.raises(FixInput) as refused:
        load_protocol("honest-negatives", [change])
    (violation,) = refused.value.details
    assert said in str(violation)


LOGISTIC = "models.log.kind=logistic"


@pytest.mark.parametrize(
    ("changes", "asked", "said"),
    [
        (['grid.models=["ridge"]', 'report.lead="mlp"'], [], "unknown model 'mlp'"),
        (['report.lead=""', 'report.against="mlp"'], [], "needs report.lead"),
        (['grid.models=["svm"]'], [], "--set models.svm.kind=svm defines it"),
        (["models.svm.C=1"], [], "needs a kind: --set models.svm.kind=svm gives"),
        (
            ['grid.models=["ridge"]', "fit.seeds=2"],
            [],
            "without a model of the kind mlp",
        ),
        (
            [LOGISTIC, "models.log.C={by_task={EN_s=0.1, other=1.0}}"],
            [],
            "unknown task 'EN_s' (did you mean 'EN_S'?)",
        ),
        (
            [LOGISTIC, "models.log.C={by_task={mod=0.1, other=1.0}}"],
            ["mood"],
            "unknown task 'mod'",
        ),
    ],
)
def test_what_is_typed_and_cannot_be_done_is_an_error(changes, asked, said) -> None:
    with pytest.raises(FixInput) as refused:
        load_protocol("honest-negatives", changes, asked)
    (violation,) = refused.value.details
    assert said in str(violation)


def test_a_protocol_keeps_what_its_run_can_do() -> None:
    for name in protocol_names():
        load_protocol(name)
    # A lead of the protocol that --set excludes is no error.
    load_protocol("honest-negatives", ['grid.models=["mlp"]', "fit.seeds=2"])
    of_file = b"""schema = "obygaze-protocol/1"
        fit.seeds = 2
        splits.kind = "nested"
        tasks.EN_S.classes = { EN = 0, S = 1 }
        models.mlp.kind = "mlp"
        models.ridge.kind = "ridge"
    """
    parse_protocol(of_file, "mine.toml", ['grid.models=["ridge"]'])
    by_task = 'models.log.C={by_task={"mood=sad"=0.1, EN_S=0.1, other=1.0}}'
    load_protocol("honest-negatives", [LOGISTIC, by_task], ["mood"])


def test_models_that_a_run_leaves_out_do_not_change_what_it_asks_about() -> None:
    kept = ["ridge", "mlp"]
    # A run asks about all models of a list, so no list is made where nobody typed one.
    protocol = load_protocol("honest-negatives").with_models(kept)
    assert (protocol.grid.models, protocol.model_names) == ((), kept)
    protocol = load_protocol(
        "honest-negatives", ['grid.models=["ridge", "pcbm-lr", "mlp"]']
    )
    assert [*protocol.with_models(kept).grid.models] == kept


@pytest.mark.parametrize(
    ("lead", "listed", "expected"),
    [
        ("mlp", [], ["mlp"]),
        # Models that a person lists are in this order, whatever the lead is.
        ("ridge", ["trees", "mlp", "ridge"], ["trees", "mlp", "ridge"]),
        ("", [], [*MODELS]),
    ],
)
def test_models_are_asked_about_in_the_order_typed(lead, listed, expected) -> None:
    settings = RunSettings(lead=lead, models=listed)
    asked = asked_cells(cells_of_three_models(), settings)
    pairs = [(cell.model, cell.store) for cell in asked]
    assert [*dict.fromkeys(model for model, _ in pairs)] == expected
    assert sorted(pairs) == sorted(product(expected, "ab"))


def test_a_lead_that_does_not_test_the_asked_tasks_leaves_all_models() -> None:
    settings = RunSettings(lead="ridge", asked_pair=("HN_S", "HN_S"))
    asked = asked_cells(cells_of_three_models(), settings)
    assert {cell.model for cell in asked} == {*MODELS}
