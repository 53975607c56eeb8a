"""Estimators of Python in a run: their names and descriptions, and the protocol that tests them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from obygaze_features.core.errors import FixUsage
from obygaze_models.models.concepts import CAV
from obygaze_models.models.fitting import reads_concepts
from obygaze_models.models.preprocessing import last_step
from obygaze_models.models.registry import BASELINES, ESTIMATOR, SCORES
from obygaze_models.protocols.schema import Model, Protocol

# For each name of a model: the description in the protocol, and the estimator.
Described = Mapping[str, tuple[str, Any]]
CLASSIFIER = "use a classifier with scores"


def describe_estimators(estimators: Any) -> Described:
    """Return unfitted estimators by name, each with its description.

    Args:
        estimators: An estimator, a list of estimators, or a mapping of names to estimators. Without
            names, an estimator has the name of its class; of equal names, later ones have a number.
    """
    from sklearn.base import clone, is_outlier_detector

    if isinstance(estimators, Mapping):
        named = dict(estimators)
    else:
        named = {}
        listed = estimators if isinstance(estimators, list | tuple) else [estimators]
        for estimator in listed:
            name = type(last_step(estimator)).__name__.lower()
            same = [known for known in named if known.partition("-")[0] == name]
            named[f"{name}-{len(same) + 1}" if same else name] = estimator
    if not named:
        raise FixUsage("expected at least one estimator, got none")
    described = {}
    texts: set[str] = set()
    for name, estimator in named.items():
        if not isinstance(name, str) or name in BASELINES:
            taken = ", which is a baseline" if name in BASELINES else ""
            raise FixUsage(
                f"expected the name of an estimator, got {name!r}{taken}",
                hint="use a mapping of other names to the estimators",
            )
        is_estimator = hasattr(estimator, "fit") and hasattr(estimator, "get_params")
        if not is_estimator or isinstance(estimator, type):
            raise FixUsage(
                f"expected an estimator of scikit-learn, got {estimator!r}",
                hint="use an object such as og.RidgeProbe() or LinearSVC(), not a class or a name",
            )
        last = last_step(estimator)
        if is_outlier_detector(estimator):
            raise FixUsage(
                f"{name} finds outliers, and is no classifier", hint=CLASSIFIER
            )
        if not any(hasattr(estimator, one) for one in SCORES):
            hint = CLASSIFIER
            if isinstance(last, CAV):
                hint = 'og.train("cav", ...) keeps the vectors of all concepts, and og.PCBM is a'
                hint += " classifier that has them"
            raise FixUsage(
                f"{name} has neither predict_proba nor decision_function", hint=hint
            )
        _check_concepts_reach(estimator, last)
        text = " ".join(repr(estimator).split())
        # A run finds its estimators by their descriptions.
        if text in texts:
            raise FixUsage(
                f"{name} is printed as another estimator is: {text[:200]}",
                hint="evaluate each alone, or give them other parameters or names of classes",
            )
        texts.add(text)
        described[name] = (text, clone(estimator))
    return described


def _check_concepts_reach(estimator: Any, last: Any) -> None:
    """Raise an error for a part that is fitted on concepts, and to which a run cannot give them."""
    # `get_params` has a part before the estimator that holds it.
    parts = reversed(estimator.get_params().values())
    given = [last]
    if reads_concepts(last):
        given += last.get_params().values()
    for part in parts:
        is_given = any(part is one for one in given)
        if hasattr(part, "fit") and not is_given and reads_concepts(part):
            raise FixUsage(
                f"{type(part).__name__} gets no concepts inside {type(estimator).__name__}",
                hint="use it alone, or as the last step of a pipeline",
            )


def with_estimators(honest: Protocol, described: Described) -> Protocol:
    """Return the protocol with the estimators in place of its models.

    The run is about all of them: is each better than a baseline?
    """
    models = {}
    for name, (text, _) in described.items():
        models[name] = Model(ESTIMATOR, {ESTIMATOR: text})
    names = (*models,)
    report = replace(honest.report, lead=names[0], against="", concepts=False)
    grid = replace(honest.grid, models=names)
    return replace(honest, models=models, grid=grid, report=report)
