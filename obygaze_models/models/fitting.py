"""Fit estimators, choose settings and compute inner scores, in the same way for all model types.

An estimator follows scikit-learn: ours, one of scikit-learn, or a class of a user. Its `fit` gets
what its signature names (`_given`).
"""

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, TypeVar

import numpy as np

from obygaze_features.core.errors import FixInput
from obygaze_features.core.external_calls import OURS, call_user_code, short_value
from obygaze_models.evaluation.metrics import average_precision
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.models.common import FixTraining, Floats, Ints
from obygaze_models.models.concepts import released_rank
from obygaze_models.models.estimator import WithoutGroups, warn_once
from obygaze_models.models.examples import check_concepts, findable_columns
from obygaze_models.models.fold_data import FoldData, check_classes
from obygaze_models.models.preprocessing import apply_steps, last_step, steps_of
from obygaze_models.models.registry import SCORES, WITHOUT_SCORES, public_path

T = TypeVar("T")
NO_SETTING = "too few training films, clips or concepts to choose a setting of a grid"


def fit(estimator: Any, data: FoldData) -> Any:
    """Return a fitted copy of an estimator; raise `FixTraining` if it cannot be fitted.

    Args:
        estimator: An estimator or a pipeline of scikit-learn; it is not changed.
        data: The data of the fold.
    """
    (fitted,) = fit_each(estimator, [data])
    return fitted


def fit_each(estimator: Any, folds: Sequence[FoldData]) -> list[Any]:
    """Return one fit per fold; the folds differ in their validation rows only."""
    data = folds[0]
    steps, last = steps_of(deepcopy(estimator))
    if _has_classes(last):
        check_classes(data.y[data.train])
    rows = data.train
    if reads_concepts(last):
        # Rows without a class of the task are examples of concepts.
        rows = data.concept_rows
        if _has_classes(last):
            rows = np.union1d(data.train, rows)
    given = _given(last, data, rows)
    steps = _fit_steps(steps, last, data)
    X = _before(steps, last, data.rows.X[rows])
    y = data.y[rows]
    if stops_early(last):
        validations = []
        for fold in folds:
            held_out = _before(steps, last, data.rows.X[fold.validation])
            validations.append((held_out, data.y[fold.validation]))
        fits = _fit_validations(last, X, y, given, validations)
    else:
        with warnings.catch_warnings():
            if not _is_of_others(last):
                # Without several films, nothing but clips can be left out.
                warnings.simplefilter("ignore", WithoutGroups)
            fits = [_fit_last(last, X, y, given)] * len(folds)
    if not steps:
        return fits
    from sklearn.pipeline import Pipeline

    name = estimator.steps[-1][0]
    return [Pipeline([*steps, (name, fitted)]) for fitted in fits]


def _asked(estimator: Any) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of `fit`."""
    return inspect.signature(estimator.fit).parameters


def _has_classes(estimator: Any) -> bool:
    """Return whether `fit` gets classes; concept vectors get concepts in their place."""
    asked = _asked(estimator)
    return "concepts" not in asked or "y" in asked


def reads_concepts(estimator: Any) -> bool:
    """Return whether a fit uses all examples of concepts, and not only training rows."""
    last = last_step(estimator)
    return "concepts" in _asked(last) and not getattr(last, "texts", "")


def stops_early(estimator: Any) -> bool:
    """Return whether a fit stops on validation rows."""
    last = last_step(estimator)
    return hasattr(last, "fit_validations") or "validation" in _asked(last)


def _given(estimator: Any, data: FoldData, rows: Ints) -> dict[str, Any]:
    """Return the arguments of `fit` for some rows, of those that its signature names."""
    groups = data.training_films
    of_rows: dict[str, Any] = {"sentences": data.sentences}
    if reads_concepts(estimator):
        groups = None if data.concept_groups is None else data.concept_groups[rows]
        folds = data.file_folds
        of_rows["concepts"] = _concepts(estimator, data)[rows]
        of_rows["folds"] = None if folds is None else folds[rows]
        of_rows["labelled"] = np.isin(rows, data.train)
    of_rows["groups"] = groups
    asked = _asked(estimator)
    given = {name: value for name, value in of_rows.items() if name in asked}
    return {**_routed(estimator, data.films[rows]), **given}


def _cv_in(estimator: Any) -> list[tuple[Any, Any]]:
    """Return what splits rows inside an estimator of scikit-learn, each with its splitter.

    These are searches and others with the parameter `cv`.
    """
    if not _is_of_others(estimator) or not hasattr(estimator, "get_params"):
        return []
    found = []
    for part in (estimator, *estimator.get_params().values()):
        if hasattr(part, "get_params") and not isinstance(part, type):
            own = part.get_params(deep=False)
            if "cv" in own:
                found.append((part, own["cv"]))
    return found


def _routed(estimator: Any, films: Any) -> dict[str, Any]:
    """Return the films of rows as groups, if a splitter inside the estimator takes groups."""
    takes_groups = any(_splits_groups(cv) for _, cv in _cv_in(estimator))
    return {"groups": films} if takes_groups else {}


def _splits_groups(cv: Any) -> bool:
    """Return whether scikit-learn gives groups to a splitter."""
    from sklearn import config_context
    from sklearn.utils.metadata_routing import get_routing_for_object

    with config_context(enable_metadata_routing=True):
        return bool(get_routing_for_object(cv).consumes("split", ["groups"]))


def warn_of_split_films(fitted: Any) -> None:
    """Warn once of each class that splits the films of its training clips."""
    steps, last = steps_of(fitted)
    for step in (*(step for _, step in steps), last):
        for part, cv in _cv_in(step):
            # A list has splits of its own, and "prefit" has none.
            is_list = isinstance(cv, str) or hasattr(cv, "__iter__")
            if not is_list and not _splits_groups(cv):
                warn_once(
                    type(part).__name__,
                    "holds out clips of its training films, and the clips of one film"
                    " are similar: cv=GroupKFold() holds out whole films",
                    depth=7,
                )


def _concepts(estimator: Any, data: FoldData) -> Floats:
    """Return the targets of all rows, NaN for rows that are no examples; name the concepts.

    Only concepts with enough examples have a column, and of these the ones that the vectors name.
    """
    vectors = estimator
    if _has_classes(estimator):
        vectors = estimator.part("bank")
        estimator.set_params(bank=vectors)  # which may be the default
    targets = data.concepts.targets[vectors.against]
    names = data.concepts.names
    asked = names if vectors.concepts is None else vectors.concepts
    check_concepts(data.concepts, asked)
    of_asked = [column for column, name in enumerate(names) if name in asked]
    findable = findable_columns(targets[data.concept_rows][:, of_asked])
    columns = [of_asked[number] for number in findable]
    if data.file_folds is not None:
        columns.sort(key=lambda column: released_rank(names[column]))
    vectors.set_params(concepts=[names[column] for column in columns])
    known = targets[:, columns].astype(np.float64)
    known[~np.isin(np.arange(len(known)), data.concept_rows)] = np.nan
    return known


def _fit_steps(
    steps: Sequence[tuple[str, Any]], last: Any, data: FoldData
) -> list[tuple[str, Any]]:
    """Return the fitted steps before the last one.

    Before concept vectors, steps are fitted on the rows of all concepts, which have no class.
    """
    if not steps:
        return []
    from sklearn.pipeline import Pipeline

    rows = data.train
    y: Any = data.y[rows]
    if reads_concepts(last):
        rows = data.concept_rows
        y = None
    front = Pipeline(list(steps))
    X = data.rows.X[rows]
    if any(_is_of_others(step) for _, step in steps):
        X = np.asarray(X, dtype=np.float64)
    _call_fit(front, X, y, **_routed(front, data.films[rows]))
    fitted: list[tuple[str, Any]] = front.steps
    return fitted


def _before(steps: Sequence[tuple[str, Any]], last: Any, X: Any) -> Any:
    """Return the rows that the last step reads; code of others reads float64."""
    if any(_is_of_others(step) for _, step in steps):
        X = np.asarray(X, dtype=np.float64)
    if steps and len(X):
        X = apply_steps(steps, X)
    return np.asarray(X, dtype=np.float64) if _is_of_others(last) else X


def _fit_last(estimator: Any, X: Any, y: Ints, given: Mapping[str, Any]) -> Any:
    """Fit an estimator and return it; raise an error unless it gives scores."""
    has_classes = _has_classes(estimator)
    of_rows = (X, y) if has_classes else (X,)
    fitted = _call_fit(estimator, *of_rows, **given)
    own = public_path(type(estimator))
    if fitted is not estimator:
        raise FixInput(
            f"{own} must return itself from fit(), got {short_value(fitted)}"
        )
    if has_classes and not any(hasattr(fitted, name) for name in SCORES):
        raise FixInput(f"{own} {WITHOUT_SCORES}")
    return fitted


def _call_fit(estimator: Any, *of_rows: Any, **given: Any) -> Any:
    """Return the result of `fit`.

    If it is given groups that it does not name, scikit-learn hands them on inside the estimator:
    what has `groups` in its own `fit` gets them, unless it states otherwise.
    """
    call = partial(estimator.fit, *of_rows, **given)
    if not given.keys() - _asked(estimator):
        return _called(estimator, call, "failed in fit()")
    from sklearn import config_context

    with config_context(enable_metadata_routing=True):
        for part in estimator.get_params().values():
            if not hasattr(part, "set_fit_request") or "groups" not in _asked(part):
                continue
            if part.get_metadata_routing().fit.requests.get("groups") is None:
                part.set_fit_request(groups=True)
        return _called(estimator, call, "failed in fit()")


def _fit_validations(
    estimator: Any,
    X: Any,
    y: Ints,
    given: Mapping[str, Any],
    validations: Sequence[tuple[Any, Any]],
) -> list[Any]:
    """Return one fit for each set of validation rows."""
    if hasattr(estimator, "fit_validations"):
        together: list[Any] = estimator.fit_validations(X, y, validations)
        return together
    fits = []
    for validation in validations:
        arguments = {**given, "validation": validation}
        fits.append(_fit_last(deepcopy(estimator), X, y, arguments))
    return fits


def _called(estimator: Any, function: Callable[[], T], failure: str) -> T:
    """Return the result of a call; an error of the code of others names its class."""
    if not _is_of_others(estimator):
        return function()
    from sklearn import config_context

    # A run skips scikit-learn's checks of settings, because it has checked its own settings.
    with config_context(skip_parameter_validation=False):
        return call_user_code(function, f"{public_path(type(estimator))} {failure}")


def _is_of_others(estimator: Any) -> bool:
    return type(estimator).__module__.partition(".")[0] not in OURS


def facts_of(fitted: Any) -> dict[str, Any]:
    """Return results of a fit that a run records, such as a chosen penalty strength."""
    steps, last = steps_of(fitted)
    facts = dict(getattr(last, "facts", {}))
    for _, step in steps:
        if hasattr(step, "factors_"):
            facts["part_factors"] = step.factors_.tolist()
    return facts


def fit_best(
    options: Sequence[Any], folds: Sequence[FoldData]
) -> list[tuple[int, Any]]:
    """Return for each fold the index of the best option, and its fit.

    The best option has the largest mean average precision over inner splits.
    """
    if len(options) == 1:
        return [(0, fitted) for fitted in fit_each(options[0], folds)]
    return [_best(options, data) for data in folds]


def _best(options: Sequence[Any], data: FoldData) -> tuple[int, Any]:
    if data.can_validate:
        return _best_on_validation(options, data)
    precisions = []
    for train, rows in data.inner_splits():
        inside = data.inside(train, rows)
        of_options = []
        for option in options:
            try:
                of_options.append(_precision(fit(option, inside), data, rows))
            except FixTraining:
                of_options.append(-np.inf)
        # Skip a split in which no option can be fitted, for example without examples of a concept.
        if max(of_options) >= 0:
            precisions.append(of_options)
    if not precisions:
        raise FixTraining(NO_SETTING)
    best = int(np.argmax(np.mean(precisions, axis=0)))
    return best, fit(options[best], data)


def _best_on_validation(options: Sequence[Any], data: FoldData) -> tuple[int, Any]:
    """Return the index and the fit of the best option; skip options that cannot be fitted."""
    fits: dict[int, Any] = {}
    for number, option in enumerate(options):
        try:
            fits[number] = fit(option, data)
        except FixTraining:
            if number == len(options) - 1 and not fits:
                raise
    rows = data.validation
    best = max(fits, key=lambda number: _precision(fits[number], data, rows))
    return best, fits[best]


def _precision(fitted: Any, data: FoldData, rows: Ints) -> float:
    scores = score_rows(fitted, data, rows)
    return average_precision(Predictions.of(data.y[rows] == 1, scores))


def gives_probabilities(fitted: Any) -> bool:
    """Return whether the scores of an estimator are probabilities."""
    return hasattr(fitted, "predict_proba")


def decision_threshold(fitted: Any) -> float:
    """Return the score above which a row is classified as positive."""
    return 0.5 if gives_probabilities(fitted) else 0.0


def score_features(fitted: Any, X: Any) -> Floats:
    """Return the score of each row of features for the second class, in sorted order.

    Raise an error unless the estimator gives a finite number for each row and each class.
    """
    steps, last = steps_of(fitted)
    is_probability = gives_probabilities(last)
    name = "predict_proba" if is_probability else "decision_function"
    rows = _before(steps, last, X)
    called = getattr(last, name)
    scores = _called(last, lambda: np.asarray(called(rows)), f"failed in {name}()")
    shape = (len(X), 2) if is_probability else (len(X),)
    is_numbers = scores.dtype.kind in "biuf" and np.isfinite(scores).all()
    own = public_path(type(last))
    if not is_numbers or scores.shape != shape:
        raise FixInput(
            f"{own} must return finite numbers of the shape {shape} from {name}(), got the shape"
            f" {scores.shape}: {short_value(scores)}"
        )
    classes = np.asarray(getattr(last, "classes_", (0, 1))).tolist()
    if len(classes) != 2 or classes[0] == classes[1]:
        raise FixInput(
            f"{own} must have each class once in classes_, got {short_value(classes)}"
        )
    second = int(classes[1] > classes[0])
    if is_probability:
        return np.asarray(scores[:, second], dtype=np.float64)
    return np.asarray(scores if second else -scores, dtype=np.float64)


def score_rows(fitted: Any, data: FoldData, rows: Ints) -> Floats:
    """Return the scores of some rows; equal rows have equal scores."""
    return data.rows.equalize(rows, score_features(fitted, data.rows.X[rows]))
