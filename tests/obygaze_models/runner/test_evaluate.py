"""`og.evaluate`: estimators of scikit-learn go the road of the models of a run."""

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import (
    BaggingClassifier,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.feature_selection import RFECV
from sklearn.linear_model import LogisticRegression, RidgeClassifierCV
from sklearn.model_selection import GridSearchCV, GroupKFold, LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from support.experiments import films, planted, write_workspace
from support.tables import models, rows_of

import obygaze as og
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_models.models import estimator as base
from obygaze_models.models.estimator import WithoutGroups
from obygaze_models.models.heads import LogisticHead
from obygaze_models.runner.files import Run

FILMS = replace(films(8, 20), name="films")
QUICK = ["report.replicates=20"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_workspace(tmp_path, FILMS, planted(FILMS), "sig")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def evaluated(estimators: Any, output: str, *changes: str) -> Run:
    changed = [*QUICK, *changes]
    return og.evaluate(
        estimators, "sig", "films", changes=changed, output=output, n_jobs=1
    )


def scores_of(run: Run, model: str) -> list[tuple[str, float]]:
    rows = rows_of(run.predictions, model=model)
    return [(row["clip_id"], row["score"]) for row in rows]


def test_an_estimator_has_the_scores_of_its_kind() -> None:
    kinds = 'grid.models=["ridge", "pcbm-lr"]'
    changes = [*QUICK, kinds, "models.pcbm-lr.C=0.1", "report.concepts=false"]
    run = og.run(
        *("honest", "sig", "films"),
        tasks=["EN_S"],
        changes=changes,
        output="kinds",
        n_jobs=1,
    )
    ours = {"ridge": og.RidgeProbe(), "pcbm-lr": og.PCBM(og.CAV(), LogisticHead())}
    found = evaluated(ours, "classes")
    for name in ours:
        assert scores_of(found, name) == scores_of(run, name)
    # The p of each of the two is corrected for both.
    of_baselines = found.results[found.results["against_model"] == "random"]
    assert set(of_baselines["comparisons"].dropna()) == {2.0}


def test_a_perceptron_in_a_pipeline_stops_on_validation_clips() -> None:
    probe = og.MLPProbe(
        (4,), min_epochs=1, max_epochs=40, patience=1, learning_rate=0.1
    )
    run = evaluated(make_pipeline(StandardScaler(), probe), "mlp")
    (cell,) = models(run)
    epochs = [fold["chosen"]["epochs"] for fold in run.folds_of(cell)]
    assert max(epochs) < 40


class Reversed(ClassifierMixin, BaseEstimator):
    """The mean of each class; its classes are in the other order."""

    def fit(self, X: Any, y: Any) -> Any:
        self.classes_ = np.unique(y)[::-1]
        self.means_ = [X[y == name].mean(axis=0) for name in self.classes_]
        return self

    def predict_proba(self, X: Any) -> Any:
        far = np.stack([((X - mean) ** 2).sum(axis=1) for mean in self.means_], axis=1)
        near = np.exp(-far / 10)
        return near / near.sum(axis=1, keepdims=True)


def test_classes_in_the_other_order_are_scored_with_the_right_sign() -> None:
    run = evaluated(Reversed(), "reversed")
    (cell,) = models(run)
    assert cell.value("auc") > 0.6
    # The class in a file, as a run takes it.
    code = inspect.getsource(Reversed)
    head = (
        "import numpy as np\n"
        "from sklearn.base import BaseEstimator, ClassifierMixin\n\nAny = object\n"
    )
    Path("own.py").write_text(f"{head}\n{code}", encoding="utf-8")
    changes = [*QUICK, 'models.mine.kind="own.py:Reversed"', 'grid.models=["mine"]']
    by_run = og.run(
        *("honest", "sig", "films"),
        tasks=["EN_S"],
        changes=changes,
        output="mine",
        n_jobs=1,
    )
    assert scores_of(by_run, "mine") == scores_of(run, "reversed")


def test_what_is_no_estimator_is_refused_and_names_are_told_apart() -> None:
    for wrong in (og.RidgeProbe, "ridge", StandardScaler()):
        with pytest.raises(FixUsage, match=r"expected an estimator|neither predict"):
            evaluated(wrong, "wrong")
    with pytest.raises(FixUsage, match="expected at least one estimator"):
        evaluated([], "none")
    # scikit-learn prints 30 steps of a pipeline; these two are printed alike.
    alike = [
        make_pipeline(*(StandardScaler() for _ in range(30)), og.LogisticProbe(C=C))
        for C in (0.1, 1.0)
    ]
    with pytest.raises(FixUsage, match="logisticprobe-2 is printed as another"):
        evaluated(alike, "alike")
    run = evaluated([og.LogisticProbe(), og.LogisticProbe(C=0.1)], "two")
    assert {cell.model for cell in models(run)} == {"logisticprobe", "logisticprobe-2"}


def test_an_estimator_without_a_seed_has_that_of_the_run() -> None:
    forest = make_pipeline(StandardScaler(), RandomForestClassifier(n_estimators=5))
    first = scores_of(evaluated({"f": forest}, "one", "fit.seed=3"), "f")
    again = scores_of(evaluated({"f": forest}, "two", "fit.seed=3"), "f")
    other = scores_of(evaluated({"f": forest}, "three", "fit.seed=4"), "f")
    assert first == again != other
    forest.set_params(randomforestclassifier__random_state=3)
    assert scores_of(evaluated({"f": forest}, "four"), "f") == first


class Scaled(ClassifierMixin, BaseEstimator):
    """The score of a clip is its first feature; `scaled` has a meaning of its own."""

    def __init__(self, scaled: bool = False) -> None:
        self.scaled = scaled

    def fit(self, X: Any, y: Any) -> Any:
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X: Any) -> Any:
        return X[:, 0] + 100 * self.scaled


def test_rows_are_standardized_also_for_a_class_with_a_parameter_scaled() -> None:
    run = evaluated(Scaled(), "scaled", "data.scale=standard")
    data = og.dataset("sig", "films")
    film = data.groups[0]
    train = data.groups != film
    column = data.X[:, 0].astype(np.float64)
    expected = (column[~train] - column[train].mean()) / column[train].std()
    found = [score for clip, score in scores_of(run, "scaled") if clip.startswith(film)]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_names_changes_and_labels_of_another_form_are_refused() -> None:
    for name in ("random", 1):
        with pytest.raises(FixUsage, match="expected the name of an estimator, got"):
            evaluated({name: og.RidgeProbe()}, "name")
    words: Any = "report.replicates=50"
    labels: Any = ["EN_S"]
    for function in (og.evaluate, og.train):
        with pytest.raises(FixUsage, match="expected a list of changes, got 'report"):
            function(og.RidgeProbe(), "sig", "films", changes=words)
        with pytest.raises(FixUsage, match="expected one label to predict, got"):
            function(og.RidgeProbe(), "sig", "films", task=labels)
    with pytest.raises(FixUsage, match="expected a list of changes, got 'report"):
        og.run("honest", "sig", "films", changes=words)


# ---- concepts ----


def test_a_bottleneck_has_the_concepts_that_its_vectors_name() -> None:
    names = {}
    for kind, vectors in {"all": None, "one": og.CAV(["Look"], C=0.1)}.items():
        bottleneck = make_pipeline(StandardScaler(), og.PCBM(vectors))
        _, model = og.train(bottleneck, "sig", "films", changes=QUICK, output=kind)
        names[kind] = set(model.info.concepts)
    assert names == {
        "all": set(og.dataset("sig", "films").concept_names),
        "one": {"Look"},
    }
    assert len(names["all"]) > 1
    # What one vector learns is what it learns of the arrays, by hand.
    run = evaluated({"mine": og.PCBM(og.CAV(["Look"], C=0.1))}, "look")
    data = og.dataset("sig", "films", task="ENHN_S")
    is_task = np.isin(data.ids, og.dataset("sig", "films").ids)
    film = data.groups[is_task][0]
    look = data.concepts[:, data.concept_names.index("Look")]
    train = data.groups != film
    one = og.PCBM(og.CAV(["Look"], C=0.1)).fit(
        *(data.X[train], data.y[train], data.groups[train], look[train]),
        labelled=is_task[train],
    )
    scores = one.predict_proba(data.X[~train & is_task])[:, 1]
    found = [score for clip, score in scores_of(run, "mine") if clip.startswith(film)]
    np.testing.assert_allclose(found, scores, atol=1e-9)
    with pytest.raises(FixInput, match=r"no concept 'Lok' \(did you mean 'Look'\?\)"):
        evaluated(og.PCBM(og.CAV(["Lok"], C=0.1)), "unknown")


def test_concepts_reach_the_last_step_alone() -> None:
    inside = make_pipeline(og.CAV(C=0.1), LogisticRegression())
    with pytest.raises(FixUsage, match="CAV gets no concepts inside Pipeline"):
        evaluated(inside, "inside")
    search = GridSearchCV(og.PCBM(og.CAV(C=0.1)), {"cross_fit": [0, 5]})
    with pytest.raises(FixUsage, match="PCBM gets no concepts inside GridSearchCV"):
        evaluated(search, "search")
    with pytest.raises(FixUsage, match="neither predict_proba nor") as refused:
        og.train(og.CAV(["Look"]), "sig", "films")
    assert str(refused.value.hint).startswith('og.train("cav", ...)')


def test_what_finds_outliers_is_no_classifier() -> None:
    with pytest.raises(FixUsage, match="finds outliers, and is no classifier"):
        evaluated(make_pipeline(StandardScaler(), IsolationForest()), "outliers")


def test_arrays_without_concepts_say_why() -> None:
    clips = tuple(replace(clip, level="") for clip in FILMS.clips)
    halves = {"positive": "scene > 10", "negative": "scene <= 10"}
    data = og.dataset("sig", replace(FILMS, clips=clips), task=halves)
    assert len(data.X) == len(clips)
    for name in ("concepts", "concept_names"):
        with pytest.raises(
            ValueError, match="no clip has a level, and only clips with"
        ):
            getattr(data, name)
    bare = [replace(clip, concepts=()) for clip in FILMS.clips]
    data = og.dataset("sig", replace(FILMS, clips=tuple(bare)), task="EN_S")
    with pytest.raises(ValueError, match="no concept has 3 training clips with it"):
        print(data.concepts)


# ---- searches inside an estimator ----

WEIGHTS = {"class_weight": [None, "balanced"]}
BY_FILM = {
    "search": GridSearchCV(og.RidgeProbe(), WEIGHTS, cv=GroupKFold(3)),
    "in a pipeline": make_pipeline(
        StandardScaler(),
        GridSearchCV(LinearSVC(), {"C": [1e-4, 1.0]}, cv=GroupKFold(4)),
    ),
    "of a pipeline": GridSearchCV(
        make_pipeline(StandardScaler(), og.RidgeProbe()),
        {"ridgeprobe__class_weight": [None, "balanced"]},
        cv=LeaveOneGroupOut(),
    ),
    "ridge": RidgeClassifierCV(alphas=(1e-3, 10.0, 1e3), cv=LeaveOneGroupOut()),
    "step": make_pipeline(RFECV(LinearSVC(), cv=GroupKFold(3)), LinearSVC(C=0.1)),
}


@pytest.mark.parametrize("kind", BY_FILM)
def test_a_splitter_of_groups_gets_the_films(kind: str) -> None:
    run = evaluated({"mine": BY_FILM[kind]}, "films")
    data = og.dataset("sig", "films")
    expected = {}
    for film in np.unique(data.groups):
        train = data.groups != film
        one = clone(BY_FILM[kind])
        with config_context(enable_metadata_routing=True):
            for part in one.get_params().values():
                if isinstance(part, og.RidgeProbe):
                    part.set_fit_request(groups=True)
            X = data.X.astype(np.float64)
            one.fit(X[train], data.y[train], groups=data.groups[train])
        scores = one.decision_function(X[~train])
        expected |= dict(zip(data.ids[~train].tolist(), scores, strict=True))
    found = dict(scores_of(run, "mine"))
    assert found.keys() == expected.keys()
    for clip, score in expected.items():
        assert found[clip] == pytest.approx(score, abs=1e-9)


def test_a_search_that_holds_out_clips_says_so_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(base, "_WARNED", set())
    search = GridSearchCV(LinearSVC(), {"C": [0.1, 1.0]}, cv=3)
    with pytest.warns(WithoutGroups) as caught:
        evaluated({"a": search, "b": make_pipeline(StandardScaler(), search)}, "clips")
    (said,) = caught
    assert str(said.message).startswith("GridSearchCV holds out clips of its training")
    assert said.filename == __file__.replace(".pyc", ".py")
    # So does ridge inside an estimator that hands on no groups.
    with pytest.warns(WithoutGroups, match="RidgeProbe chooses its penalty strength"):
        evaluated(BaggingClassifier(og.RidgeProbe(), n_estimators=2), "bag")


def test_a_search_is_refused_before_it_is_fitted_if_it_is_to_be_kept() -> None:
    with pytest.raises(FixInput, match="GridSearchCV cannot be kept"):
        og.train(BY_FILM["search"], "sig", "films", changes=QUICK, output="kept")
