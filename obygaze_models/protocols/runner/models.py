"""Fit one model or baseline on one fold of a cell.

Perceptrons are fitted many in one call: `perceptron_jobs` lists the fits of a fold, and
`best_perceptron` chooses among them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_models.models import registry
from obygaze_models.models.baselines import BASELINES, oracle, places
from obygaze_models.models.common import FixTraining
from obygaze_models.models.mlp import Job, MLPProbe, fit_many
from obygaze_models.protocols.kinds import candidates, for_task
from obygaze_models.protocols.runner.banks import Banks
from obygaze_models.protocols.runner.features import Features
from obygaze_models.protocols.runner.fold_data import FoldData
from obygaze_models.protocols.schema import Model

Floats = NDArray[np.float64]
INNER_FOLDS = 3
NO_ROWS = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class FoldFit:
    """A fitted estimator, and the function from clips to scores that is evaluated.

    A score above `threshold` is positive. `found_on` are the clips that concept vectors were found
    on, in the fit itself and in those that chose its settings. `inner` are the classes and the
    scores of training rows by fits without them: on those, another threshold is chosen.
    """

    estimator: Any
    score: Callable[[NDArray[np.intp]], Floats]
    threshold: float = 0.5
    chosen: Mapping[str, Any] = field(default_factory=dict)
    found_on: NDArray[np.intp] = field(default_factory=NO_ROWS.copy)
    inner: tuple[NDArray[np.int64], Floats] | None = None


def fit_model(model: Model, data: FoldData, banks: Banks) -> FoldFit:
    """Fit a model on a fold; choose its settings and a threshold on rows that are not test rows."""
    settings, fit = _choose(model, data, banks)
    if fit.inner is None and data.join_validation:
        fit = replace(fit, inner=_inner_scores(model.kind, settings, data, banks))
    return fit


def _choose(model: Model, data: FoldData, banks: Banks) -> tuple[Mapping[str, Any], FoldFit]:
    """Return the settings that are best on inner folds, and the fit with them."""
    options = [for_task(model.kind, s, data.task) for s in candidates(model.settings)]
    if len(options) == 1:
        return options[0], _fit(model.kind, options[0], data, banks)
    tried = [_inner_score(model.kind, option, data, banks) for option in options]
    scored = [(value, -i) for i, (value, _) in enumerate(tried)]
    best = options[-max(scored)[1]]
    offered = {k: best[k] for k, v in model.settings.items() if best.get(k) != v}
    done = _fit(model.kind, best, data, banks)
    found_on = reduce(np.union1d, [own for _, own in tried], done.found_on)
    return best, replace(done, chosen={**done.chosen, **offered}, found_on=found_on)


def fit_baseline(name: str, data: FoldData) -> FoldFit:
    """Fit a baseline, which reads film and scene, or the true concepts, but no features."""
    table = data.table
    if name == "oracle":
        X = table.has_concept.astype(np.float64)
        if not X.shape[1]:
            raise FixTraining("an oracle needs visual concepts, and this manifest has none")
        baseline: Any = oracle()
    else:
        X = places(table.movies, np.zeros(len(table)) if table.scenes is None else table.scenes)
        kind: Any = BASELINES[name]
        baseline = kind(random_state=data.seed) if name == "random" else kind()
    baseline.fit(X[data.fit_rows], data.y)
    return FoldFit(baseline, lambda clips: baseline.predict_proba(X[clips])[:, 1])


def perceptron_jobs(model: Model, data: FoldData, features: Features) -> list[tuple[MLPProbe, Job]]:
    """Return the fits of a fold, one for each candidate of the settings."""
    labels = data.labels.astype(np.int64)[features.present]
    train, validation = (features.row_of[r] for r in (data.split.train, data.split.validation))
    job = Job(train, labels, validation, data.seed)
    return [(registry.build("mlp", own), job) for own in candidates(model.settings)]


def fit_perceptrons(features: Features, work: Sequence[tuple[MLPProbe, Job]]) -> list[MLPProbe]:
    """Return the fitted perceptrons in the order of `work`."""
    settings = [str(probe.get_params()) for probe, _ in work]
    fits: dict[int, MLPProbe] = {}
    for wanted in dict.fromkeys(settings):
        own = [i for i, one in enumerate(settings) if one == wanted]
        jobs = [work[i][1] for i in own]
        fits.update(zip(own, fit_many(features.X, jobs, work[own[0]][0]), strict=True))
    return [fits[i] for i in range(len(work))]


def best_perceptron(model: Model, fits: Sequence[MLPProbe], features: Features) -> FoldFit:
    """Return the candidate with the lowest validation loss, or without validation training loss."""
    fit = min(fits, key=_loss)
    facts = {"epochs": fit.n_epochs, "kept_epoch": fit.kept_epoch_}
    return FoldFit(fit, lambda clips: fit.predict_proba(features.of(clips))[:, 1], 0.5, facts)


def _loss(fit: MLPProbe) -> float:
    curve = fit.validation_loss_
    return float(curve[fit.kept_epoch_ - 1]) if len(curve) else float(fit.train_loss_[-1])


def _inner_scores(
    kind: str, settings: Mapping[str, Any], data: FoldData, banks: Banks
) -> tuple[NDArray[np.int64], Floats] | None:
    """Return the classes of training rows, and their scores by fits of the other inner folds."""
    truth, scores = [], []
    for train, rows in _inner_splits(data):
        split = replace(data.split, train=train, validation=rows)
        try:
            fit = _fit(kind, settings, replace(data, split=split, join_validation=False), banks)
        except FixTraining:  # such as a concept that too few clips of the other folds have
            return None
        truth.append(data.labels[rows].astype(np.int64))
        scores.append(fit.score(rows))
    return (np.concatenate(truth), np.concatenate(scores)) if truth else None


def _fit(kind: str, settings: Mapping[str, Any], data: FoldData, banks: Banks) -> FoldFit:
    if registry.find_kind(kind).head:
        return _fit_bottleneck(kind, settings, data, banks)
    if kind == "svm":
        return _fit_svm(settings, data, banks)
    features = banks.features
    probe = registry.build(kind, settings)
    probe.fit(features.of(data.fit_rows), data.y, data.films)
    if kind == "ridge":
        chosen = {"alpha": probe.alpha_}
        inner = data.y, probe.left_out_scores_[:, 0]
        return FoldFit(
            probe, lambda c: probe.decision_function(features.of(c)), 0.0, chosen, inner=inner
        )
    return FoldFit(probe, lambda clips: probe.predict_proba(features.of(clips))[:, 1])


def _fit_svm(settings: Mapping[str, Any], data: FoldData, banks: Banks) -> FoldFit:
    """Fit a support vector machine on the Gram matrix that all fits of a store share."""
    from obygaze_models.models.common import balanced_weights
    from obygaze_models.models.linear_solvers import central_bias

    features, positive = banks.features, data.y == 1
    weights = balanced_weights(data.y, 2)[data.y]
    weight = weights if settings["class_weight"] == "balanced" else None
    rows = features.row_of[data.fit_rows]
    normal, bias = banks.gram.svm(rows, positive, settings["C"], weight)
    along = features.of(data.fit_rows).astype(np.float64) @ normal
    facts = {
        "length": float(np.linalg.norm(normal)),
        "bias_shift": central_bias(along, positive, weight, bias) - bias,
    }
    probe = registry.build("svm", settings)
    probe.classes_, probe.n_features_in_ = np.array([0, 1]), len(normal)
    probe.coef_, probe.intercept_ = normal[None, :], np.array([bias])
    return FoldFit(
        probe, lambda clips: features.of(clips).astype(np.float64) @ normal + bias, 0.0, facts
    )


def _fit_bottleneck(
    kind: str, settings: Mapping[str, Any], data: FoldData, banks: Banks
) -> FoldFit:
    """Fit the head on margins of shared concept vectors, and put both in one estimator."""
    from sklearn.base import clone

    margins = banks.margins(settings, data)
    if settings["tolerance"] == "folds":
        bank = margins.bank
        found = zip(bank.concepts_.tolist(), bank.C_.tolist(), strict=True)
        settings = {**settings, "tolerance": dict(found)}
    model = registry.build(kind, settings, concepts=margins.bank.concepts, seed=banks.seed)
    model.bank_, model.n_features_in_ = margins.bank, margins.bank.n_features_in_
    # An ordinal head learns the levels, whatever the task.
    targets = np.array(data.table.levels)[data.fit_rows] if kind == "ordinal" else data.y
    groups = data.groups[data.fit_rows]
    model.head_ = clone(model.head).fit(margins.cross_fitted, targets, groups=groups)
    positive = np.isin(model.head_.classes_, targets[data.y == 1])
    model.classes_, facts = model.head_.classes_, {}
    if model.residual is not None:
        offset = model.head_.decision_function(margins.cross_fitted)
        rows = banks.rows(data.fit_rows)
        model.residual_ = clone(model.residual).fit(rows, data.y, offset=offset)
        facts = {"residual_share": model.residual_.share_}

    def score(clips: NDArray[np.intp]) -> Floats:
        found = model.predict_proba(banks.features.of(clips))[:, positive]
        return np.asarray(np.clip(found.sum(axis=1), 0.0, 1.0))

    inner = None
    if model.residual is None and data.join_validation:
        inner = _head_scores(model.head, margins.cross_fitted, targets, data)
    return FoldFit(model, score, 0.5, facts, margins.found_on, inner)


def _head_scores(
    head: Any, margins: Floats, targets: NDArray[Any], data: FoldData
) -> tuple[NDArray[np.int64], Floats] | None:
    """Return what `_inner_scores` does, by heads of the other inner folds on the same margins."""
    from sklearn.base import clone

    from obygaze_models.models.concepts import inner_folds

    truth, scores, groups = [], [], data.groups[data.fit_rows]
    for fold in inner_folds(data.y == 1, data.films, INNER_FOLDS):
        try:
            own = clone(head).fit(margins[~fold], targets[~fold], groups=groups[~fold])
        except FixTraining:
            return None
        positive = np.isin(own.classes_, targets[data.y == 1])
        truth.append(data.y[fold])
        scores.append(own.predict_proba(margins[fold])[:, positive].sum(axis=1))
    return (np.concatenate(truth), np.concatenate(scores)) if truth else None


def _inner_score(
    kind: str, settings: Mapping[str, Any], data: FoldData, banks: Banks
) -> tuple[float, NDArray[np.intp]]:
    """Return the mean average precision over inner folds, and where concept vectors were found.

    Inner folds are whole films, or the validation rows. The test rows are held out here too.
    """
    from sklearn.metrics import average_precision_score

    found, found_on = [], NO_ROWS
    for train, validation in _inner_splits(data):
        split = replace(data.split, train=train, validation=validation)
        fit = _fit(kind, settings, replace(data, split=split, join_validation=False), banks)
        truth = data.labels[validation] == 1
        found.append(float(average_precision_score(truth, fit.score(validation))))
        found_on = np.union1d(found_on, fit.found_on)
    return (float(np.mean(found)) if found else 0.0), found_on


def _inner_splits(data: FoldData) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    from obygaze_models.models.concepts import inner_folds

    if not data.join_validation and len(np.unique(data.labels[data.split.validation])) == 2:
        return [(data.split.train, data.split.validation)]
    folds = inner_folds(data.y == 1, data.films, INNER_FOLDS)
    return [(data.fit_rows[~fold], data.fit_rows[fold]) for fold in folds]
