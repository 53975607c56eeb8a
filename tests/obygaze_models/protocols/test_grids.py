"""A choice of values is said to be one, and is made by what can be compared."""

from pathlib import Path
from typing import Any

import pytest
from support.experiments import films, planted, quick, run_on, store_of
from support.tables import models

from obygaze_features.core.errors import FixInput
from obygaze_features.core.user_code import trust
from obygaze_features.store import Store
from obygaze_models.models.registry import KINDS
from obygaze_models.protocols.kinds import candidates, most_chosen
from obygaze_models.protocols.schema import Model, Protocol

OWN_CLASS = """
from sklearn.base import BaseEstimator, ClassifierMixin

class Base: pass

class Layers(ClassifierMixin, BaseEstimator):
    def __init__(self, layers=(64, 32), names=[], empty=(), missing=float("nan"), base=Base,
                 kind="rbf", package="x", shrink=0.0, none=None, options={"a": 1}):
        self.layers, self.names, self.empty, self.missing = layers, names, empty, missing
        self.base, self.kind, self.package, self.shrink = base, kind, package, shrink
        self.none, self.options = none, options
    def fit(self, X, y):
        return self
    def decision_function(self, X):
        return X[:, 0]
    def predict(self, X):
        return X[:, 0] > 0
"""


@pytest.fixture
def layers(tmp_path: Path) -> str:
    """The name of an own class with a parameter of every form."""
    (tmp_path / "layers.py").write_text(OWN_CLASS)
    trust([f"{tmp_path / 'layers.py'}:Layers"])
    return "layers.py:Layers"


def test_a_list_is_a_value_where_the_default_is_one_and_else_refused(layers) -> None:
    def read(*changes: str) -> Any:
        own = quick(
            "honest-negatives", f"models.l.kind={layers}", 'grid.models=["l"]', *changes
        )
        return candidates(own.models["l"])

    assert [c["layers"] for c in read("models.l.layers=[8, 4]")] == [(8, 4)]
    grid = read("models.l.layers={ grid = [[8, 4], [2]] }")
    assert [list(c["layers"]) for c in grid] == [[8, 4], [2]]
    assert [c["shrink"] for c in read("models.l.shrink.grid=[0.1, 0.9]")] == [0.1, 0.9]
    assert [list(c["none"]) for c in read("models.l.none={ grid = [[1, 2]] }")] == [
        [1, 2]
    ]
    assert [c["options"] for c in read("models.l.options={ grid = [{ b = 2 }] }")] == [
        {"b": 2}
    ]
    for ambiguous in ("shrink=[0.1, 0.9]", "none=[1, 2]"):
        with pytest.raises(FixInput) as error:
            read(f"models.l.{ambiguous}")
        assert "{ grid = [...] } with several values" in error.value.details[0]
    for not_plain in (
        "missing=nan",
        "shrink=inf",
        "layers={ grid = [nan] }",
        "shrink.grid=[]",
    ):
        with pytest.raises(FixInput):
            read(f"models.l.{not_plain}")


def test_a_grid_is_a_choice_and_a_list_alone_is_none() -> None:
    model = quick("honest-negatives", "models.pcbm-lr.C.grid=[0.1, 1.0]").models[
        "pcbm-lr"
    ]
    assert len(candidates(model)) == 2
    for change, said in (
        ("models.pcbm-lr.C=[0.1, 1.0]", "{ grid = [...] } with several values"),
        ("models.ridge.class_weight.grid=['none', 'all']", "must be one of"),
        ("leakage.grid=['error']", "must be"),  # no setting of a model
    ):
        with pytest.raises(FixInput) as error:
            quick("honest-negatives", change)
        assert said in error.value.details[0]


MANIFEST = films(4, 40, seed=3)
ONE_PAIR = (
    *('grid.train=["EN_S"]', 'grid.test=["EN_S"]', "report.contrast=[]"),
    *("report.concepts=false", "report.compare=false", "grid.baselines=[]"),
)


def choosing(kind: str, *settings: str) -> Protocol:
    """The honest protocol with one model `x`, and few fits."""
    changes = [f"models.x.kind={kind}", 'grid.models=["x"]', *ONE_PAIR]
    name = "honest-negatives"
    if KINDS[kind].reads == "frames":
        name = "honest-frames"
        changes.append('report.lead=""')
    if kind == "mlp":
        changes += ["models.x.max_epochs=3", "models.x.min_epochs=1"]
    if KINDS[kind].head:
        changes += ["models.x.tolerance=0.1", "models.x.cross_fit=2"]
    chosen = [f"models.x.{setting}" for setting in settings]
    return quick(name, *changes, *chosen, replicates=2)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("choices")
    return store_of(folder / "s", MANIFEST, planted(MANIFEST, width=14))


def test_a_combination_that_diverges_is_not_chosen(store, tmp_path) -> None:
    run = run_on(
        tmp_path,
        choosing("mlp", "learning_rate.grid=[1e38, 0.001]"),
        MANIFEST,
        {"x": store},
    )
    folds = run.folds_of(models(run)[0])
    assert [fold["chosen"]["learning_rate"] for fold in folds] == [0.001] * 4
    alone = run_on(
        tmp_path, choosing("mlp", "learning_rate=0.001"), MANIFEST, {"x": store}
    )
    predictions = [
        (own.folder / "predictions.csv").read_bytes() for own in (run, alone)
    ]
    assert predictions[0] == predictions[1]
    protocol = choosing("mlp", "learning_rate.grid=[1e38, 1e37]")
    with pytest.raises(FixInput, match="training diverged"):
        run_on(tmp_path, protocol, MANIFEST, {"x": store})


def test_epochs_that_do_not_fit_are_an_error_before_the_run() -> None:
    with pytest.raises(FixInput) as error:
        quick("honest-negatives", "models.mlp.max_epochs.grid=[3, 8]")
    assert list(error.value.details) == [
        "--set models.mlp.max_epochs.grid: must be at least min_epochs"
    ]
    by_task = "{ by_task = { HN_S = 2, other = 9 } }"
    with pytest.raises(FixInput, match="not valid"):
        quick("honest-negatives", f"models.mlp.max_epochs={by_task}")
    quick("honest-negatives", f"models.mlp.max_epochs={by_task}", 'grid.train=["EN_S"]')


def test_the_most_chosen_settings_were_chosen_together() -> None:
    """Most folds chose 1.0, and most chose balanced, but no fold chose both."""
    model = Model(
        "logistic",
        {
            "C": {"grid": [0.1, 1.0, 10.0]},
            "class_weight": {"grid": ["none", "balanced"]},
        },
    )
    pairs = [(0.1, "balanced"), (10.0, "balanced"), (1.0, "none")]
    chosen = [{"C": C, "class_weight": weight} for C, weight in 2 * pairs + pairs[2:]]
    both = {"C": 1.0, "class_weight": "none"}
    assert most_chosen(model, "EN_S", chosen) == both
    assert most_chosen(model, "EN_S", []) == {"C": 0.1, "class_weight": "none"}
