"""One fold of a cell: what is chosen, drawn, scored and skipped, and under which name."""

import json
from pathlib import Path

import pytest
from support.experiments import films, planted, quick, run_on, store_of
from support.tables import rows_of

from obygaze_features.core.errors import FixInput
from obygaze_features.core.user_code import trust
from obygaze_features.manifest.model import Manifest
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.store_run import StoreRun, fit_model, fit_seed, store_runs

FILMS = films(4, 20)
ONE_CELL = (
    *('grid.train=["ENHN_S"]', 'grid.test=["ENHN_S"]', "report.contrast=[]"),
    *(
        "report.concepts=false",
        "report.compare=false",
        'grid.baselines=["all_positive"]',
    ),
)


def store_run(tmp_path: Path, *changes: str, manifest: Manifest = FILMS) -> StoreRun:
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    inputs = gather(
        quick("honest-negatives", *ONE_CELL, *changes), manifest, "", {"s": store}
    )
    (run,) = store_runs(inputs)
    return run


def test_a_model_with_the_name_of_a_baseline_is_refused() -> None:
    with pytest.raises(FixInput) as error:
        quick("honest-negatives", "models.random.kind=ridge")
    assert "is the name of a baseline" in error.value.details[0]


DRAWN = """
from pathlib import Path
from sklearn.linear_model import LogisticRegression

class Drawn(LogisticRegression):
    def __init__(self, random_state=None):
        super().__init__(random_state=random_state)
    def fit(self, X, y):
        with Path(__file__).with_name("seen.txt").open("a") as seen:
            print(self.random_state, file=seen)
        return super().fit(X, y)
"""


def test_an_own_class_is_drawn_with_the_seed_of_the_protocol(tmp_path: Path) -> None:
    (tmp_path / "drawn.py").write_text(DRAWN)
    kind = f"{tmp_path / 'drawn.py'}:Drawn"
    trust([kind])
    run = store_run(
        tmp_path, f"models.d.kind={kind}", 'grid.models=["d"]', "fit.seed=7"
    )
    pair, _, held = next(iter(run.every_fold))
    seed = fit_seed(kind, run.protocol.fit.seed)
    fit_model(run, run.models["d"], pair[0], [held.merge_validation()], seed)
    assert set((tmp_path / "seen.txt").read_text().split()) == {"7"}


def test_a_model_has_the_same_tests_alone_and_beside_others(tmp_path: Path) -> None:
    """Its seeds are of its own training sets, whatever else is in the grid."""
    store = store_of(tmp_path / "s", FILMS, planted(FILMS))
    changes = ["models.mlp.max_epochs=3", "models.mlp.min_epochs=1", "fit.seeds=2"]
    changes += ["report.compare=false", "report.contrast=[]", "report.concepts=false"]
    found = []
    for models, train in ((["ridge", "mlp"], ["EN_S", "HN_S"]), (["mlp"], ["HN_S"])):
        grid = [f"grid.models={json.dumps(models)}", f"grid.train={json.dumps(train)}"]
        protocol = quick("honest-negatives", *changes, *grid, replicates=2)
        run = run_on(tmp_path, protocol, FILMS, {"x": store})
        rows = rows_of(run.predictions, model="mlp", train="HN_S")
        found.append([(row["clip_id"], row["seed"], row["score"]) for row in rows])
    assert found[0] == found[1] != []
