"""Fit one model or baseline on one fold of a cell.

Perceptrons are fitted many in one call.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.foreign import short_value
from obygaze_features.core.parts import find_part
from obygaze_models.evaluation.metrics import evaluate
from obygaze_models.evaluation.predictions import FloatArray, IntArray, Predictions
from obygaze_models.models import registry
from obygaze_models.models.baselines import BASELINES, oracle
from obygaze_models.models.common import FixTraining, Scaling
from obygaze_models.models.mlp import Job, MLPProbe, fit_many
from obygaze_models.protocols.kinds import candidates, for_task
from obygaze_models.protocols.runner.banks import Banks, tolerances_of
from obygaze_models.protocols.runner.features import Features
from obygaze_models.protocols.schedule import FoldData
from obygaze_models.protocols.schema import Model
from obygaze_models.protocols.splits import NO_ROWS

INNER_FOLDS = 3


@dataclass(frozen=True, eq=False)
class InnerScores:
    """The classes and the scores of training rows by fits without them, and the fold of each row.

    Scores of different fits have different scales: an order means something within a fold only.
    """

    y: NDArray[np.int64]
    scores: FloatArray
    folds: NDArray[np.intp]

    @property
    def precision(self) -> float | None:
        """The mean average precision of the folds with rows of both classes; None without any."""
        precisions = []
        for fold in np.unique(self.folds):
            is_inside = self.folds == fold
            predictions = Predictions.of(self.y[is_inside], self.scores[is_inside])
            if 0 < predictions.y.mean() < 1:
                precisions.append(evaluate(predictions, ["ap"])["ap"])
        return float(np.mean(precisions)) if precisions else None


@dataclass(frozen=True, eq=False)
class FoldFit:
    """A fitted estimator, and the function from clips to scores that is evaluated.

    A score above `threshold` is positive. `found_on` are the clips that concept vectors were found
    on, in the fit itself and in those that chose its settings. `inner` are scores of training rows
    by fits without them: on those, another threshold is chosen, and the store. `scaling` is that of
    the features that the estimator reads; None where they are as in the store.
    """

    estimator: Any
    score: Callable[[IntArray], FloatArray]
    threshold: float = 0.5
    chosen: Mapping[str, Any] = field(default_factory=dict)
    found_on: IntArray = field(default_factory=NO_ROWS.copy)
    inner: InnerScores | None = None
    scaling: Scaling | None = None


def fit_model(model: Model, data: FoldData, banks: Banks) -> FoldFit:
    """Fit a model on a fold; choose its settings and a threshold on rows that are not test rows."""
    options = []
    for settings in candidates(model):
        options.append(Model(model.kind, for_task(model.kind, settings, data.task)))
    if len(options) == 1:
        best = options[0]
        fit = _fit(best, data, banks)
    else:
        chosen_number, tried_on = _choose(options, data, banks)
        best = options[chosen_number]
        fit = _fit(best, data, banks)
        chosen = {**fit.chosen, **_offered(model, best.settings)}
        fit = replace(fit, chosen=chosen, found_on=np.union1d(fit.found_on, tried_on))

    def score(train: IntArray, rows: IntArray) -> FloatArray:
        return _inner_fit(best, data, banks, train, rows).score(rows)

    if fit.inner is None and data.join_validation:
        fit = replace(fit, inner=_over_inner_splits(data, score))
    return fit


def _offered(model: Model, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chosen value of each setting that the model does not state itself."""
    stated = model.settings
    return {name: chosen[name] for name in stated if chosen.get(name) != stated[name]}


def fit_baseline(name: str, data: FoldData) -> FoldFit:
    """Fit a baseline, which reads film and scene, or the true concepts, but no features."""
    if name not in registry.BASELINES:
        return _fit_own_baseline(name, data)
    table = data.table
    if name == "oracle":
        X = table.has_concept.astype(np.float64)
        baseline = oracle()
    else:
        X = table.film_and_scene
        kind: Any = BASELINES[name]
        baseline = kind(random_state=data.seed) if name == "random" else kind()
    baseline.fit(X[data.fit_rows], data.y)
    return FoldFit(baseline, lambda clips: baseline.predict_proba(X[clips])[:, 1])


BASELINE_HINT = (
    "a baseline is a function of the training clips, their classes and the tested clips, and "
    "returns a number from 0 to 1 for each tested clip: docs/own-parts.md"
)


def _fit_own_baseline(name: str, data: FoldData) -> FoldFit:
    """Return the scores of an own function, which sees no annotation but the classes."""
    part = find_part(name)
    function = part.load_function()
    blind = [replace(clip, level="", concepts=()) for clip in data.table.clips]
    trained = [blind[row] for row in data.fit_rows.tolist()]

    def score(rows: IntArray) -> FloatArray:
        tested = [blind[row] for row in rows.tolist()]
        scores = part.call(
            lambda: np.asarray(function(trained, data.y, tested), dtype=np.float64),
            "failed",
            BASELINE_HINT,
        )
        is_probability = (scores >= 0) & (scores <= 1)
        if scores.shape != (len(tested),) or not is_probability.all():
            raise part.refuse(
                f"must return a number from 0 to 1 for each of {len(tested)} clips,"
                f" got {short_value(scores)}"
            )
        return scores

    return FoldFit(None, score)


def fit_perceptrons(
    model: Model, folds: Sequence[FoldData], features: Features
) -> list[FoldFit]:
    """Fit a perceptron on each fold, all in one call, and take the best candidate of each."""
    if features.depend_on_fold:
        fits = []
        for fold in folds:
            scaling, changed = features.fitted_to(fold.split.train)
            (fit,) = fit_perceptrons(model, [fold], changed)
            fits.append(replace(fit, scaling=scaling))
        return fits
    labels = folds[0].labels.astype(np.int64)[features.present]
    jobs = [
        Job(
            features.row_of[d.split.train],
            labels,
            features.row_of[d.split.validation],
            d.seed,
        )
        for d in folds
    ]
    task = folds[0].task
    options = [for_task("mlp", settings, task) for settings in candidates(model)]
    probes = [registry.build("mlp", settings) for settings in options]
    if len(options) == 1:
        fitted = fit_many(features.X, jobs, probes[0])
        offered = _offered(model, options[0])
        return [_perceptron(probe, features, offered) for probe in fitted]
    by_option = [_fit_or_none(features.X, jobs, probe) for probe in probes]
    fits = []
    for number, fold in enumerate(folds):
        of_fold = [fitted[number] for fitted in by_option]
        if all(fit is None for fit in of_fold):
            fit_many(features.X, [jobs[number]], probes[0])  # raises the reason again
        best, fit = _best_perceptron(of_fold, fold, features)
        fits.append(_perceptron(fit, features, _offered(model, options[best])))
    return fits


def _fit_or_none(X: Any, jobs: Sequence[Job], probe: MLPProbe) -> list[MLPProbe | None]:
    """Fit a perceptron on each job; None where it diverges, whatever the other jobs do."""
    try:
        return [*fit_many(X, jobs, probe)]
    except FixTraining:
        if len(jobs) == 1:
            return [None]
    fits = []
    for job in jobs:
        fits += _fit_or_none(X, [job], probe)
    return fits


def _best_perceptron(
    fits: Sequence[MLPProbe | None], data: FoldData, features: Features
) -> tuple[int, MLPProbe]:
    """Return the number of the best fit of a fold, and that fit; some may have diverged.

    It has the lowest validation loss, or without validation rows the lowest training loss. Losses
    with other weights of the classes, or after another softmax, are other numbers: there it has the
    highest average precision on the validation rows.
    """
    known = {number: fit for number, fit in enumerate(fits) if fit is not None}
    losses = {(fit.class_weight, fit.double_softmax) for fit in known.values()}
    rows = data.split.validation
    if len(losses) == 1 or not len(rows):
        best = min(known, key=lambda number: _loss(known[number]))
        return best, known[best]
    y = data.y_of(rows)
    one_fold = np.zeros(len(rows), dtype=np.intp)

    def precision(number: int) -> float:
        scores = known[number].predict_proba(features.of(rows))[:, 1]
        return InnerScores(y, scores, one_fold).precision or 0.0

    best = max(known, key=precision)
    return best, known[best]


def _loss(fit: MLPProbe) -> float:
    curve = fit.validation_loss_
    loss = (
        float(curve[fit.kept_epoch_ - 1]) if len(curve) else float(fit.train_loss_[-1])
    )
    return loss if np.isfinite(loss) else np.inf


def _perceptron(
    fit: MLPProbe, features: Features, offered: Mapping[str, Any]
) -> FoldFit:
    chosen = {"epochs": fit.n_epochs, "kept_epoch": fit.kept_epoch_, **offered}
    return FoldFit(
        fit, lambda clips: fit.predict_proba(features.of(clips))[:, 1], 0.5, chosen
    )


def _fit(model: Model, data: FoldData, banks: Banks) -> FoldFit:
    features = banks.features
    has_head = bool(registry.find_kind(model.kind).head)
    # Concept vectors of heads are found on more rows, and scaled as those.
    if features.erasing is not None or (features.scales_by_fold and not has_head):
        scaling, changed = features.fitted_to(data.fit_rows)
        fit = _fit(model, data, replace(banks, features=changed, banks_by_key={}))
        return replace(fit, scaling=scaling)
    if has_head:
        return _fit_bottleneck(model, data, banks)
    if model.kind == "svm":
        return _fit_svm(model.settings, data, banks)
    probe = registry.build(model.kind, model.settings, seed=banks.seed)
    probe.fit(features.of(data.fit_rows), data.y, data.films)
    if hasattr(probe, "predict_proba"):
        return FoldFit(
            probe, lambda clips: probe.predict_proba(features.of(clips))[:, 1]
        )
    fit = FoldFit(probe, lambda clips: probe.decision_function(features.of(clips)), 0.0)
    if model.kind == "ridge":
        inner = InnerScores(data.y, probe.left_out_scores_[:, 0], _film_numbers(data))
        fit = replace(fit, chosen={"alpha": probe.alpha_}, inner=inner)
    return fit


def _film_numbers(data: FoldData) -> IntArray:
    """Return the number of the film of each row to fit on; 0 if there is only one film."""
    if data.films is None:
        return np.zeros(len(data.fit_rows), dtype=np.intp)
    return np.unique(data.films, return_inverse=True)[1].astype(np.intp)


def _fit_svm(settings: Mapping[str, Any], data: FoldData, banks: Banks) -> FoldFit:
    """Fit a support vector machine on the Gram matrix that all fits of a store share."""
    from obygaze_models.models.common import balanced_weights
    from obygaze_models.models.linear_solvers import central_bias

    features = banks.features
    positive = data.y == 1
    weights = balanced_weights(data.y, 2)[data.y]
    weight = weights if settings["class_weight"] == "balanced" else None
    rows = features.row_of[data.fit_rows]
    normal, bias = banks.gram.svm(rows, positive, settings["C"], weight)
    along = features.of(data.fit_rows).astype(np.float64) @ normal
    chosen = {
        "length": float(np.linalg.norm(normal)),
        "bias_shift": central_bias(along, positive, weight, bias) - bias,
    }
    probe = registry.build("svm", settings)
    probe.classes_ = np.array([0, 1])
    probe.n_features_in_ = len(normal)
    probe.coef_ = normal[None, :]
    probe.intercept_ = np.array([bias])
    return FoldFit(
        probe,
        lambda clips: features.of(clips).astype(np.float64) @ normal + bias,
        0.0,
        chosen,
    )


def _fit_bottleneck(model: Model, data: FoldData, banks: Banks) -> FoldFit:
    """Fit the head on margins of shared concept vectors, and put both in one estimator."""
    from sklearn.base import clone

    settings = model.settings
    bank, margins, found_on = banks.margins(settings, data)
    if settings["tolerance"] == "folds":
        settings = {**settings, "tolerance": tolerances_of(bank)}
    bottleneck = registry.build(
        model.kind, settings, concepts=bank.concepts, seed=banks.seed
    )
    bottleneck.bank_ = bank
    bottleneck.n_features_in_ = bank.n_features_in_
    y = data.y
    groups = data.groups[data.fit_rows]
    bottleneck.head_ = clone(bottleneck.head).fit(margins, y, groups=groups)
    bottleneck.classes_ = bottleneck.head_.classes_
    chosen = {}
    if bottleneck.residual is not None:
        offset = bottleneck.head_.decision_function(margins)
        rows = banks.gram.X[banks.features.row_of[data.fit_rows]]
        bottleneck.residual_ = _fit_residual(
            bottleneck.residual,
            rows,
            y,
            offset,
            scales=banks.features.scales_by_fold,
        )
        chosen = {"residual_share": bottleneck.residual_.share_}

    def score(clips: IntArray) -> FloatArray:
        return np.asarray(bottleneck.predict_proba(banks.features.of(clips))[:, 1])

    def score_inside(train: IntArray, rows: IntArray) -> FloatArray:
        """Return scores of rows by a head of others, on the margins of all."""
        fitted_on = np.searchsorted(data.fit_rows, train)
        scored = np.searchsorted(data.fit_rows, rows)
        head = clone(bottleneck.head)
        head.fit(margins[fitted_on], y[fitted_on], groups=groups[fitted_on])
        return np.asarray(head.predict_proba(margins[scored])[:, 1])

    inner = None
    if bottleneck.residual is None and data.join_validation:
        inner = _over_inner_splits(data, score_inside)
    return FoldFit(bottleneck, score, 0.5, chosen, found_on, inner)


def _fit_residual(
    residual: Any, X: FloatArray, y: Any, offset: Any, *, scales: bool
) -> Any:
    """Return a residual that is fitted on rows, or on scaled ones and reads rows as they are."""
    from sklearn.base import clone

    if not scales:
        return clone(residual).fit(X, y, offset=offset)
    scaling = Scaling.of(X)
    fitted = clone(residual).fit(scaling.scaled(X), y, offset=offset)
    plane = scaling.unscaled_plane(fitted.coef_, fitted.intercept_)
    fitted.coef_, fitted.intercept_ = plane
    return fitted


def _inner_splits(data: FoldData) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield training and other rows: inner folds of whole films, or the validation rows."""
    from obygaze_models.models.concepts import inner_folds

    if (
        not data.join_validation
        and len(np.unique(data.labels[data.split.validation])) == 2
    ):
        yield data.split.train, data.split.validation
        return
    for fold in inner_folds(data.y == 1, data.films, INNER_FOLDS):
        yield data.fit_rows[~fold], data.fit_rows[fold]


def _inner_fit(
    model: Model, data: FoldData, banks: Banks, train: IntArray, rows: IntArray
) -> FoldFit:
    """Return a fit without some of the training rows; the test rows are held out here too."""
    split = replace(data.split, train=train, validation=rows)
    return _fit(model, replace(data, split=split, join_validation=False), banks)


def _choose(
    options: Sequence[Model], data: FoldData, banks: Banks
) -> tuple[int, IntArray]:
    """Return the number of the best option, and the clips that concept vectors were found on.

    The best one has the largest mean average precision over inner splits. A split on which some
    option cannot be fitted, such as one without enough clips of a concept, counts for none.
    """
    from sklearn.metrics import average_precision_score

    found_on = NO_ROWS
    precisions = []
    for train, rows in _inner_splits(data):
        of_options = []
        for option in options:
            try:
                fit = _inner_fit(option, data, banks, train, rows)
            except FixTraining:
                break
            found_on = np.union1d(found_on, fit.found_on)
            truth = data.labels[rows] == 1
            of_options.append(float(average_precision_score(truth, fit.score(rows))))
        if len(of_options) == len(options):
            precisions.append(of_options)
    if not precisions:
        return 0, found_on
    return int(np.argmax(np.mean(precisions, axis=0))), found_on


def _over_inner_splits(
    data: FoldData, score: Callable[[IntArray, IntArray], FloatArray]
) -> InnerScores | None:
    """Return the classes and the scores of all inner folds; None where one cannot be fitted."""
    truth = []
    scores = []
    folds = []
    for fold, (train, rows) in enumerate(_inner_splits(data)):
        try:
            scores.append(score(train, rows))
        except (
            FixTraining
        ):  # such as a concept that too few clips of the other folds have
            return None
        truth.append(data.y_of(rows))
        folds.append(np.full(len(rows), fold, dtype=np.intp))
    if not truth:
        return None
    return InnerScores(
        np.concatenate(truth), np.concatenate(scores), np.concatenate(folds)
    )
