"""The contract of scikit-learn: its own checks, and its tools on every estimator."""

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    LeaveOneGroupOut,
    cross_val_predict,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from obygaze_models import CAV, PCBM, LogisticProbe, MLPProbe, RidgeProbe, SVMProbe
from obygaze_models.models import estimator as base
from obygaze_models.models.estimator import WithoutGroups
from obygaze_models.models.frames import FrameProbe
from obygaze_models.models.heads import LogisticHead, TreeHead
from obygaze_models.models.scaling import PartScaling, Scaling


def concepts_of(X: Any) -> Any:
    """A concept for each feature, present above its median; the checks have no concepts."""
    try:
        rows = np.asarray(X, dtype=np.float64)
        return (rows > np.median(rows, axis=0)).astype(np.int64)
    except (TypeError, ValueError):  # rows that the fit is to refuse
        return None


class Vectors(CAV):
    def fit(self, X: Any, y: Any, groups: Any = None) -> Any:
        return super().fit(X, concepts_of(X), groups)


class Bottleneck(PCBM):
    def fit(self, X: Any, y: Any, groups: Any = None) -> Any:
        return super().fit(X, y, concepts=concepts_of(X), groups=groups)


# Checks that fail, each with its reason.
EXCEPTIONS = {
    "MLPProbe": {
        "check_class_weight_classifiers": "30 rows with a weight of 1e-7 of their class need more"
        " epochs at the default rate than 100",
    },
}
ESTIMATORS = (
    *(RidgeProbe(), LogisticProbe(), SVMProbe(), MLPProbe(), FrameProbe()),
    *(Vectors(C=0.1), Bottleneck(CAV(C=0.1)), Bottleneck(CAV(C=0.1), TreeHead())),
    *(LogisticHead(), TreeHead(), Scaling(), PartScaling()),
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_the_checks_of_scikit_learn_pass(estimator: Any) -> None:
    expected = EXCEPTIONS.get(type(estimator).__name__, {})
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    passed = [one for one in results if one["status"] == "passed"]
    failed = {one["check_name"] for one in results if one["status"] == "failed"}
    skipped = {one["check_name"] for one in results if one["status"] == "skipped"}
    assert failed == expected.keys()
    # It runs with SCIPY_ARRAY_API=1 alone, which must be set before SciPy is imported.
    assert skipped == {"check_array_api_input"}
    assert len(passed) >= 44


# ---- the tools of scikit-learn ----

FILMS = np.repeat(["alba", "brug", "cirk", "dune", "echo"], 16)


def clips() -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Rows with two concepts, the first of which decides most classes."""
    random = np.random.default_rng(0)
    X = random.normal(size=(80, 6))
    C = (X[:, :2] > 0).astype(np.int64)
    y = np.where(X[:, 0] + 0.3 * random.normal(size=80) > 0, "S", "EN")
    return X, y, C


PROBES = (
    RidgeProbe(class_weight="balanced"),
    LogisticProbe(C=0.5),
    SVMProbe(C=0.1),
    MLPProbe((4,), max_epochs=20, learning_rate=0.02),
    PCBM(CAV(["Look", "Body"], C=0.1), TreeHead(max_depth=2)),
)


@pytest.mark.parametrize("probe", PROBES, ids=lambda one: type(one).__name__)
def test_a_clone_has_the_parameters_and_not_the_fit(probe: Any) -> None:
    X, y, C = clips()
    others = {"concepts": C} if isinstance(probe, PCBM) else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WithoutGroups)
        fitted = clone(probe).fit(X, y, **others)
    again = clone(fitted)
    assert repr(again) == repr(probe)
    assert not hasattr(again, "classes_")
    assert fitted.classes_.tolist() == ["EN", "S"]
    assert fitted.score(X, y) == np.mean(fitted.predict(X) == y) > 0.8
    scores = fitted.predict_proba(X) if hasattr(fitted, "predict_proba") else None
    if scores is not None:
        np.testing.assert_allclose(scores.sum(axis=1), 1)


# A parameter of each, with two values to choose from.
GRIDS: tuple[tuple[Any, dict[str, list[Any]]], ...] = (
    (RidgeProbe(), {"class_weight": [None, "balanced"]}),
    (LogisticProbe(), {"C": [1e-6, 0.1]}),
    (SVMProbe(class_weight=None), {"C": [1e-6, 0.1]}),
    (MLPProbe((4,), max_epochs=20), {"learning_rate": [1e-6, 0.02]}),
    (FrameProbe(), {"pooling": ["mean", "last"]}),
    (PCBM(CAV(C=0.1)), {"bank__C": [1e-6, 0.1]}),
)


@pytest.mark.filterwarnings("ignore::obygaze_models.models.estimator.WithoutGroups")
@pytest.mark.parametrize("probe, grid", GRIDS, ids=lambda one: type(one).__name__)
def test_a_grid_chooses_as_a_loop_by_hand(
    probe: Any, grid: dict[str, list[Any]]
) -> None:
    X, y, C = clips()
    if isinstance(probe, FrameProbe):
        X = np.stack([X, X + 0.1], axis=1)
    others = {"concepts": C} if isinstance(probe, PCBM) else {}
    folds = GroupKFold(5)
    search = GridSearchCV(probe, grid, cv=folds)
    search.fit(X, y, groups=FILMS, **others)
    ((name, values),) = grid.items()
    for value, found in zip(values, search.cv_results_["mean_test_score"], strict=True):
        scores = []
        for train, test in folds.split(X, y, FILMS):
            of_train = {key: rows[train] for key, rows in others.items()}
            one = clone(probe).set_params(**{name: value})
            fitted = one.fit(X[train], y[train], **of_train)
            scores.append(np.mean(fitted.predict(X[test]) == y[test]))
        assert found == pytest.approx(np.mean(scores), abs=1e-12)


@pytest.mark.filterwarnings("ignore::obygaze_models.models.estimator.WithoutGroups")
@pytest.mark.parametrize("probe", PROBES, ids=lambda one: type(one).__name__)
def test_a_pipeline_may_hand_on_tables_of_pandas(probe: Any) -> None:
    pytest.importorskip("pandas")
    X, y, C = clips()
    others = {"concepts": C} if isinstance(probe, PCBM) else {}
    pipeline = make_pipeline(StandardScaler(), clone(probe))
    pipeline.set_output(transform="pandas")
    step = type(probe).__name__.lower()
    pipeline.fit(X, y, **{f"{step}__{key}": rows for key, rows in others.items()})
    scaled = StandardScaler().fit_transform(X)
    alone = clone(probe).fit(scaled, y, **others)
    assert np.array_equal(pipeline.predict(X), alone.predict(scaled))


def test_groups_are_routed_to_ridge_and_without_them_it_says_so(monkeypatch) -> None:
    X, y, _ = clips()
    by_film = RidgeProbe().set_fit_request(groups=True)
    with config_context(enable_metadata_routing=True):
        scores = cross_val_predict(
            by_film,
            X,
            y,
            cv=LeaveOneGroupOut(),
            method="decision_function",
            params={"groups": FILMS},
        )
    expected = np.empty(len(y))
    for film in np.unique(FILMS):
        train = film != FILMS
        fitted = RidgeProbe().fit(X[train], y[train], FILMS[train])
        expected[~train] = fitted.decision_function(X[~train])
    assert np.array_equal(scores, expected)
    monkeypatch.setattr(base, "_WARNED", set())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cross_val_predict(RidgeProbe(), X, y, groups=FILMS, cv=GroupKFold(5))
    said = [str(one.message) for one in caught if one.category is WithoutGroups]
    assert len(said) == 1 and "penalty strength by leaving out clips" in said[0]
    with pytest.raises(TypeError, match="no argument 'films'; expected one of groups"):
        RidgeProbe().set_fit_request(films=True)


def test_a_grid_is_searched_in_a_pipeline() -> None:
    X, y, _ = clips()
    grid = {"svmprobe__C": [1e-6, 0.1]}
    pipeline = make_pipeline(StandardScaler(), SVMProbe(class_weight=None))
    search = GridSearchCV(pipeline, grid, cv=GroupKFold(5)).fit(X, y, groups=FILMS)
    best = search.best_estimator_
    assert search.best_params_ == {"svmprobe__C": 0.1}
    scaled = StandardScaler().fit(X).transform(X)
    alone = SVMProbe(0.1, class_weight=None).fit(scaled, y)
    assert np.array_equal(best.decision_function(X), alone.decision_function(scaled))


def test_a_pipeline_is_scored_while_metadata_is_routed() -> None:
    X, y, _ = clips()
    pipeline = make_pipeline(
        StandardScaler(), RidgeProbe().set_fit_request(groups=True)
    )
    grid = {"ridgeprobe__class_weight": [None, "balanced"]}
    with config_context(enable_metadata_routing=True):
        search = GridSearchCV(pipeline, grid, cv=GroupKFold(5), error_score="raise")
        search.fit(X, y, groups=FILMS)
    scores = []
    for train, test in GroupKFold(5).split(X, y, FILMS):
        scaler = StandardScaler().fit(X[train])
        probe = RidgeProbe().fit(scaler.transform(X[train]), y[train], FILMS[train])
        scores.append(np.mean(probe.predict(scaler.transform(X[test])) == y[test]))
    (found, _) = search.cv_results_["mean_test_score"]
    assert found == pytest.approx(np.mean(scores), abs=1e-12)
    of_second = y == "S"
    weighted = probe.score(scaler.transform(X), y, sample_weight=of_second)
    predicted = probe.predict(scaler.transform(X[of_second]))
    assert weighted == pytest.approx(np.mean(predicted == "S"), abs=1e-12)


def test_weights_are_routed_to_the_score_where_they_are_requested() -> None:
    X, y, _ = clips()
    weights = np.arange(80.0) + 1
    folds = list(GroupKFold(5).split(X, y, FILMS))
    probe = SVMProbe(C=0.1).set_score_request(sample_weight=True)
    with config_context(enable_metadata_routing=True):
        tested = cross_validate(
            probe, X, y, cv=folds, params={"sample_weight": weights}
        )
    found = tested["test_score"]
    for score, (train, test) in zip(found, folds, strict=True):
        is_right = SVMProbe(C=0.1).fit(X[train], y[train]).predict(X[test]) == y[test]
        assert score == pytest.approx(np.average(is_right, weights=weights[test]))
    with pytest.raises(TypeError, match="score of RidgeProbe has no argument 'groups'"):
        RidgeProbe().set_score_request(groups=True)
    assert not hasattr(CAV(), "set_score_request")


def test_vectors_transform_in_a_pipeline_and_name_their_columns() -> None:
    pandas = pytest.importorskip("pandas")
    X, y, C = clips()
    table = pandas.DataFrame(X, index=[f"clip-{number}" for number in range(80)])
    table.columns = [f"f{number}" for number in range(6)]
    vectors = CAV(["Look", "Body"], C=0.1).set_output(transform="pandas")
    margins = vectors.fit(table, C).transform(table)
    assert margins.columns.tolist() == ["Look", "Body"]
    assert margins.index.equals(table.index)
    plain = CAV(["Look", "Body"], C=0.1).fit(X, C)
    np.testing.assert_array_equal(margins, plain.transform(X))
    np.testing.assert_array_equal(
        plain.transform(X), X @ plain.coef_.T + plain.intercept_
    )
    assert clone(vectors).fit(X, C).transform(X).columns.tolist() == ["Look", "Body"]
    # The margin of the concept that decides is enough for the classes.
    head = LogisticProbe().fit(margins.to_numpy(), y)
    assert head.score(margins.to_numpy(), y) > 0.85


def test_a_row_of_nan_is_no_example_of_a_concept() -> None:
    X, y, C = clips()
    known = C.astype(np.float64)
    known[:16] = np.nan
    probe = PCBM(CAV(C=0.1, unit_norm=False), cross_fit=0)
    found = probe.fit(X, y, concepts=known, groups=FILMS)
    alone = CAV(C=0.1, unit_norm=False).fit(X[16:], C[16:])
    np.testing.assert_array_equal(found.bank_.coef_, alone.coef_)


def test_a_perceptron_stops_on_validation_rows_of_known_classes() -> None:
    X, y, _ = clips()
    probe = MLPProbe((4,), max_epochs=50, patience=1, min_epochs=1, learning_rate=0.1)
    stopped = clone(probe).fit(X[:60], y[:60], validation=(X[60:], y[60:]))
    assert len(stopped.validation_loss_) == stopped.n_epochs < 50
    assert clone(probe).fit(X, y).n_epochs == 50
    with pytest.raises(ValueError, match="a class of the training rows for each"):
        clone(probe).fit(X[:60], y[:60], validation=(X[60:], y[:20] == "S"))


def test_a_parameter_that_is_unknown_is_refused() -> None:
    with pytest.raises(ValueError, match="RidgeProbe has no parameter 'alpha'"):
        RidgeProbe().set_params(alpha=1.0)
    nested = PCBM(CAV(), LogisticHead()).set_params(bank__C=0.5, head__C=2.0)
    assert (nested.bank.C, nested.head.C) == (0.5, 2.0)


@pytest.mark.parametrize("head", [LogisticHead(), None])
def test_parameters_are_set_before_those_of_their_parts(head: Any) -> None:
    new = LogisticHead()
    probe = PCBM(CAV(), head).set_params(head__C=5.0, head=new)
    assert probe.head is new
    assert new.C == 5.0
    inner = PCBM(CAV(), LogisticHead())
    outer = make_pipeline(inner).set_params(pcbm__bank__C=0.5, pcbm__bank=CAV())
    assert outer[0].bank.C == 0.5
    # An empty name of a parameter once replaced the head.
    with pytest.raises(ValueError, match="LogisticHead has no parameter ''"):
        probe.set_params(head__="l1")
    assert probe.head is new


def test_a_clone_keeps_what_a_clone_of_each_part_keeps() -> None:
    pytest.importorskip("pandas")
    X, y, _ = clips()
    bank = CAV().set_output(transform="pandas").set_fit_request(groups=True)
    frozen = FrozenEstimator(LogisticHead().fit(X[:, :2], y))
    again = clone(PCBM(bank, frozen))
    assert again.bank is not bank
    assert again.bank.get_metadata_routing().fit.requests["groups"] is True
    margins = again.bank.set_params(C=0.1).fit(X, concepts_of(X)).transform(X)
    assert margins.columns.tolist() == again.bank.get_feature_names_out().tolist()
    expected = frozen.predict(X[:, :2]).tolist()
    assert again.head.predict(X[:, :2]).tolist() == expected


def test_plain_arrays_are_fitted_and_scored_without_scikit_learn() -> None:
    code = """
import sys
import numpy as np
from obygaze_models import RidgeProbe
X = np.random.default_rng(0).normal(size=(40, 3))
y = (X[:, 0] > 0).astype(int)
probe = RidgeProbe().fit(X, y, np.arange(40) // 8)
print(probe.predict(X).sum(), "sklearn" in sys.modules)

from obygaze_models.models.state import load_state

bottleneck = {
    "kind": "PCBM",
    "params": {
        "bank": {"kind": "CAV", "params": {}},
        "head": {"kind": "LogisticHead", "params": {}},
    },
}
one = np.ones((1, 3))
arrays = {"n_features_in_": np.array(3), "classes_": np.array([0, 1])}
arrays |= {f"bank_/{name}": one[0, :1] for name in ("intercept_", "C_", "length_")}
arrays |= {"bank_/coef_": one, "bank_/n_features_in_": np.array(3)}
arrays |= {"head_/coef_": one[0, :1], "head_/intercept_": np.array(0.0)}
arrays |= {"head_/mean_": np.zeros(1), "head_/n_features_in_": np.array(1)}
loaded = load_state(bottleneck, arrays)
print(loaded.predict_proba(X).shape, "sklearn" in sys.modules)
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    lines = ran.stdout.splitlines()
    assert [line.endswith(" False") for line in lines] == [True, True], ran.stdout


@pytest.mark.parametrize("n_wrong", [150, 199, 250])
def test_what_has_another_number_of_rows_is_refused(n_wrong: int) -> None:
    """One row too few once chose the settings by other films, without a word."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 8))
    y = rng.integers(0, 2, 200)
    films = np.repeat(np.arange(25), 10)
    concepts = rng.integers(0, 2, (400, 2))
    said = f"must have one row for each of 200 rows, got {n_wrong} rows"
    for probe in (RidgeProbe(), LogisticProbe(), SVMProbe()):
        with pytest.raises(ValueError, match=f"groups {said}"):
            probe.fit(X, y, groups=films[:n_wrong])
    for name in ("groups", "folds"):
        others = {name: films[:n_wrong]}
        with pytest.raises(ValueError, match=f"{name} {said}"):
            CAV(C=0.1).fit(X, concepts[:200], **others)
        with pytest.raises(ValueError, match=f"{name} {said}"):
            PCBM(CAV(C=0.1)).fit(X, y, concepts=concepts[:200], **others)
    with pytest.raises(ValueError, match=f"concepts {said}"):
        PCBM(CAV(C=0.1)).fit(X, y, concepts=concepts[:n_wrong])
    with pytest.raises(ValueError, match="concepts must have one row for each of 200"):
        PCBM(CAV(C=0.1)).fit(X, y, concepts=concepts)


@pytest.mark.parametrize("weight", ["balance", [1, 3]])
def test_weights_that_mean_nothing_are_refused(weight: Any) -> None:
    X, y, _ = clips()
    for probe in (RidgeProbe(), LogisticProbe(), SVMProbe(), MLPProbe()):
        with pytest.raises(ValueError, match="class_weight must be 'balanced', None"):
            probe.set_params(class_weight=weight).fit(X, y)


# A parameter that no fit can use, and the words that refuse it.
UNUSABLE: tuple[tuple[Any, str], ...] = (
    (SVMProbe(solver="liblinear"), "solver must be one of auto, libsvm, primal"),
    (SVMProbe(C=-1), "C must be a number, above 0, got -1"),
    (SVMProbe(memory=3), "memory must have a method cache"),
    (LogisticProbe(C=float("nan")), "C must be a number, above 0, got nan"),
    (RidgeProbe(class_weight={"S": -1.0}), "class_weight must be 'balanced', None"),
    (RidgeProbe(class_weight={5: 2.0}), "class_weight names 5, expected .*'EN', 'S'"),
    (MLPProbe(keep="first"), "keep must be one of best, last"),
    (MLPProbe(dropout=2), "dropout must be float <= 0.99, got 2"),
    (PCBM(RidgeProbe()), r"bank must be concept vectors such as CAV\(\)"),
    (PCBM(CAV(C=0.1), SVMProbe()), "head must be an estimator with predict_proba"),
    (PCBM(CAV(C=0.1), residual=True), "residual must be a ResidualHead"),
    (PCBM(CAV(C=0.1), cross_fit=-1), "cross_fit must be a whole number, at least 0"),
    (PCBM(CAV(["Look"], C=0.1)), "concepts must name each of 2 columns once, got Look"),
    (PCBM(CAV(["a", "a"], C=0.1)), "concepts must name each of 2 columns once"),
    (PCBM(CAV("ab", C=0.1)), "concepts must be a list of names, or None"),
    (PCBM(CAV(balance="equal")), "balance must be weights, subsample or None"),
    (PCBM(CAV(against="HN")), "against must be one of EN, absent"),
    (PCBM(CAV(C=0.1, best_of_folds=True)), "best_of_folds needs the folds"),
)


@pytest.mark.parametrize("estimator, said", UNUSABLE)
def test_parameters_that_mean_nothing_are_refused(estimator: Any, said: str) -> None:
    X, y, C = clips()
    if isinstance(estimator, PCBM):
        with pytest.raises(ValueError, match=said):
            estimator.fit(X, y, concepts=C, groups=FILMS)
    else:
        with pytest.raises(ValueError, match=said):
            estimator.fit(X, y)


def test_concepts_of_no_column_are_refused() -> None:
    X, y, C = clips()
    for none in (C[:, :0], C[:0]):
        with pytest.raises(ValueError, match=r"column for each concept|one row for"):
            PCBM(CAV(C=0.1)).fit(X, y, concepts=none, groups=FILMS)
    with pytest.raises(ValueError, match="expected a column for each concept"):
        CAV(C=0.1).fit(X, C[:, :0])


def test_numbers_of_numpy_are_parameters() -> None:
    X, y, C = clips()
    weights = {"S": np.float64(2)}
    probe = LogisticProbe(C=np.logspace(-1, 0, 2)[1], class_weight=weights).fit(X, y)
    plain = LogisticProbe(C=1.0, class_weight={"S": 2.0}).fit(X, y)
    np.testing.assert_array_equal(probe.coef_, plain.coef_)
    names = np.array(["Look", "Body"])
    vectors = CAV(names, C=np.int64(1), random_state=np.int64(3)).fit(X, C)
    assert vectors.get_feature_names_out().tolist() == ["Look", "Body"]


def test_rows_without_a_group_are_refused() -> None:
    X, y, C = clips()
    films = FILMS.astype(object)
    films[3] = None
    for missing in (films, np.where(FILMS == "alba", np.nan, 1.0)):
        with pytest.raises(ValueError, match=r"groups has no value for row [03]"):
            RidgeProbe().fit(X, y, groups=missing)
        with pytest.raises(ValueError, match=r"groups has no value for row [03]"):
            PCBM(CAV(C=0.1)).fit(X, y, concepts=C, groups=missing)
    with pytest.raises(ValueError, match="groups must have one value for each row"):
        RidgeProbe().fit(X, y, groups=FILMS[:, None])
