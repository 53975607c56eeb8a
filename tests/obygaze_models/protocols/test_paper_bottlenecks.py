"""The bottlenecks of the paper, as released, against plain scikit-learn."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from support.data import real_data
from support.experiments import quick, run_on, store_of
from support.published import VISUAL, split_file
from support.tables import rows_of, the_cell

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.adapters.obygaze12 import read
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.runner.files import Run

WIDTH = 20
LINEAR: dict[str, Any] = {"kernel": "linear", "class_weight": "balanced"}
ORDER = (
    "Body",
    "Type of plan",
    "Clothes",
    "Posture",
    "Look",
    "Activities",
    "Exp of  emotion",
)
ORDER = (*ORDER, "Appearance")
TREE = {"EN_S": (8, 6), "HN_S": (10, 10)}
LEVELS = {"EN_S": ("EN", "S"), "HN_S": ("HN", "S"), "ENHN_S": ("EN", "HN", "S")}


class Published:
    """The file with all levels, restricted to clips with a video, and planted features."""

    def __init__(self) -> None:
        table = split_file("02_EN_HN_S.csv")
        rows = np.flatnonzero(table.has_video)
        self.ids = [table.ids[row] for row in rows]
        self.folds, self.concepts = table.folds[rows], table.concepts[rows] == 1
        rated = self.concepts.any(axis=1)
        self.levels = np.where(table.y[rows], "S", np.where(rated, "HN", "EN"))
        rng = np.random.default_rng(3)
        X = rng.normal(size=(len(rows), WIDTH))
        X[:, :8] += self.concepts * rng.uniform(0.3, 1.2, 8)
        X[:, 8] += self.levels == "S"
        self.X = X.astype(np.float32)

    def has(self, concept: str) -> NDArray[np.bool_]:
        return self.concepts[:, VISUAL.index(concept)] & (self.levels != "EN")

    def of(self, task: str) -> NDArray[np.bool_]:
        return np.isin(self.levels, LEVELS[task])


@pytest.fixture(scope="module")
def data() -> Published:
    return Published()


@pytest.fixture(scope="module")
def run(data: Published, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder, released = tmp_path_factory.mktemp("pcbm"), real_data("obygaze12")
    manifest = read(released / "ObyGaze12_thresh_02.csv", splits=released).manifest
    place = {clip: row for row, clip in enumerate(data.ids)}
    X = np.stack([data.X[place.get(c.clip_id, 0)] for c in manifest])
    without = [c.clip_id for c in manifest if c.clip_id not in place]
    store = store_of(folder / "store", manifest, X, without=without)
    changes = ("report.concepts=false", 'grid.baselines=["all_positive"]')
    return run_on(folder, quick("paper-pcbm", *changes), manifest, {"x": store})


def released_margins(data: Published) -> NDArray[np.float64]:
    """Nine machines a concept, the one with the best F1 on its fold, its decision function."""
    columns = []
    for concept in ORDER:
        C = 0.05 if concept in ("Body", "Look", "Activities") else 0.01
        y, best = data.has(concept), (-1.0, None)
        for fold in range(9):
            train = (data.folds != 9) & (data.folds != fold)
            svm: Any = SVC(C=C, **LINEAR)
            svm.fit(data.X[train], y[train])
            chosen = data.folds == fold
            score = f1_score(y[chosen], svm.predict(data.X[chosen]), zero_division=0)
            if score > best[0]:
                best = (score, svm)
        columns.append(best[1].decision_function(data.X))
    return np.stack(columns, axis=1)


def head_of(model: str, task: str) -> Any:
    if model == "pcbm-lr":
        return LogisticRegression(C=0.1, solver="liblinear", random_state=42)
    depth, leaf = TREE[task]
    return DecisionTreeClassifier(
        max_depth=depth, min_samples_leaf=leaf, random_state=42
    )


@pytest.mark.check("many fits")
def test_every_decision_is_that_of_scikit_learn(data: Published, run: Run) -> None:
    margins = released_margins(data)
    for model in ("pcbm-dt", "pcbm-lr"):
        for train in ("EN_S", "HN_S"):
            rows = data.of(train) & (data.folds < 9)
            head = head_of(model, train).fit(margins[rows], data.levels[rows] == "S")
            for test in ("EN_S", "ENHN_S"):
                tested = data.of(test) & (data.folds == 9)
                said = head.predict(margins[tested])
                theirs = dict(
                    zip(np.array(data.ids)[tested].tolist(), said.tolist(), strict=True)
                )
                key = {"model": model, "train": train, "test": test}
                ours = {
                    row["clip_id"]: row["decision"]
                    for row in rows_of(run.predictions)
                    if all(row[name] == value for name, value in key.items())
                }
                differ = [clip for clip in theirs if theirs[clip] != ours[clip]]
                assert ours.keys() == theirs.keys()
                assert not differ, (model, train, test, len(differ))
                cell = the_cell(run, **key)
                truth = data.levels[tested] == "S"
                assert cell.value("f1_binary") == pytest.approx(f1_score(truth, said))


@pytest.mark.parametrize("change", ["best_of_folds=true", "tolerance=folds"])
def test_only_a_published_file_has_folds_to_choose_over(change: str) -> None:
    with pytest.raises(FixInput) as caught:
        load_protocol("honest", [f"models.pcbm-lr.{change}"])
    assert "needs published splits and a scheme" in caught.value.details[0]
