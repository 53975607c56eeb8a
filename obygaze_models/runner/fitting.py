"""Fit one model in one fold; choose its settings and a threshold inside the training clips.

Every row that is read here for learning comes from the `HeldOut` of the fold.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from obygaze_features.core.errors import FixInput
from obygaze_features.core.foreign import short_value
from obygaze_features.core.parts import find_part
from obygaze_features.manifest.model import DIFFERS, own_columns
from obygaze_models.evaluation.logistic import fit_logistic
from obygaze_models.evaluation.metrics import average_precision
from obygaze_models.evaluation.predictions import FloatArray, IntArray, Predictions
from obygaze_models.models import registry
from obygaze_models.models.common import FixTraining, Scaling, as_float32
from obygaze_models.models.erasure import Leace, fit_eraser
from obygaze_models.models.joined import PartScaling
from obygaze_models.models.linear import DIGITS
from obygaze_models.models.mlp import MLPProbe, PerceptronJob, fit_many
from obygaze_models.models.sentences import ZeroShot
from obygaze_models.protocols.clips import ClipTable, LabelArray
from obygaze_models.protocols.kinds import candidates, for_task
from obygaze_models.protocols.schedule import NOT_TRAINED, ONE_CLASS
from obygaze_models.protocols.schema import Model
from obygaze_models.protocols.splits import NO_ROWS
from obygaze_models.runner.concept_vectors import ConceptVectors
from obygaze_models.runner.features import Features
from obygaze_models.runner.heldout import HeldOut

INNER_FOLDS = 3
# A perceptron's seed is that of the protocol times this number, and the number of its training set.
SEEDS_APART = 10_000
NEXT_TO_ZERO = 1e-6
BASELINE_HINT = (
    "a baseline is a function of the training clips, their classes and the tested clips, and "
    "returns a number from 0 to 1 for each tested clip: docs/own-parts.md"
)


@dataclass(frozen=True, eq=False)
class InnerScores:
    """The classes and the scores of training rows by fits without them, and the fold of each row.

    Scores of different fits have different scales: an order means something within a fold only.
    """

    y: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    scores: FloatArray = field(default_factory=lambda: np.zeros(0))
    folds: IntArray = field(default_factory=NO_ROWS.copy)

    @property
    def precision(self) -> float | None:
        """The mean average precision of the folds with rows of both classes; None without any."""
        precisions = []
        for fold in np.unique(self.folds):
            is_inside = self.folds == fold
            predictions = Predictions.of(self.y[is_inside], self.scores[is_inside])
            if 0 < predictions.y.mean() < 1:
                precisions.append(average_precision(predictions))
        return float(np.mean(precisions)) if precisions else None


@dataclass(frozen=True, eq=False)
class FitContext:
    """What all fits of one training task on one store read.

    Attributes:
        task: The training task.
        labels: The class of each clip of the table; -1 for a clip of no class.
        features: The features of the store.
        vectors: Its concept vectors.
        scale: Whether features are scaled by the training clips of each fold.
        erase: The concepts that are erased from the features, by the training clips of each fold.
        steps: What changed these features, fitted on training rows.
        part_scaling: The step that scaled the parts of joined features.
    """

    task: str
    labels: LabelArray
    features: Features
    vectors: ConceptVectors
    scale: bool = False
    erase: Sequence[str] = ()
    steps: Sequence[Callable[[Any], Any]] = ()
    part_scaling: PartScaling | None = None

    @property
    def table(self) -> ClipTable:
        """The clips."""
        return self.vectors.table

    @property
    def seed(self) -> int:
        """The seed of what is drawn at random."""
        return self.vectors.seed

    def y_of(self, rows: IntArray) -> NDArray[np.int64]:
        """Return the class of some clips."""
        return self.labels[rows].astype(np.int64)

    def changes_features(self, *, has_head: bool = False) -> bool:
        """Whether steps change the features of a fit; `has_head` is a bottleneck.

        Concept vectors of heads are found on more rows, and scaled as those.
        """
        is_scaled = self.scale and not has_head
        return bool(self.features.parts or self.erase) or is_scaled

    def fitted_to(self, held: HeldOut, *, has_head: bool = False) -> "FitContext":
        """Return the context of the features that steps make, which training rows fitted."""
        clips = self.vectors.clips_to_find_on(held) if has_head else held.train
        part_scaling, vectors = self.vectors.with_scaled_parts(clips)
        if part_scaling is not None:
            return replace(
                self,
                features=vectors.features,
                vectors=vectors,
                steps=[part_scaling.scaled],
                part_scaling=part_scaling,
            )
        steps: list[Any] = []
        X = self.features.X
        rows = self.features.row_of[held.train]
        if self.scale:
            scaling = Scaling.of(X[rows])
            steps.append(scaling.scaled)
            X = scaling.scaled(X)
        if self.erase:
            eraser = self._eraser(X, held.train)
            steps.append(eraser.transform)
            X = eraser.transform(X)
        steps.append(as_float32)
        features = replace(self.features, X=as_float32(X))
        return replace(
            self,
            features=features,
            vectors=self.vectors.reading(features),
            scale=False,
            erase=(),
            steps=steps,
        )

    def _eraser(self, X: Any, clips: IntArray) -> Leace:
        rows = self.features.row_of[clips]
        names = self.table.concept_names
        columns = [names.index(name) for name in self.erase]
        targets = self.vectors.targets("absent")[:, columns]
        return fit_eraser(X[rows], targets[rows], self.erase)


def refuse_one_class(labels: LabelArray, held: HeldOut) -> None:
    """Raise an error if no model can be fitted on the training rows."""
    classes = np.unique(labels[held.train]).tolist()
    if not classes:
        raise FixTraining(NOT_TRAINED)
    if len(classes) == 1:
        raise FixTraining(f"{ONE_CLASS}: {classes[0]}")


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted estimator, as it is asked for scores.

    Attributes:
        estimator: What was fitted.
        threshold: A score above it is positive; one half for probabilities.
        chosen: Settings that were chosen, and facts of the fit.
        found_on: The clips that concept vectors were found on, also in fits that chose settings.
        inner: Scores of training rows by fits without them.
        steps: What changes the features of the store before the estimator reads them.
        part_scaling: The step among them that scales the parts of joined features.
        settled: The model with every choice made; None for a perceptron.
    """

    estimator: Any
    threshold: float = 0.5
    chosen: Mapping[str, Any] = field(default_factory=dict)
    found_on: IntArray = field(default_factory=NO_ROWS.copy)
    inner: InnerScores = field(default_factory=InnerScores)
    steps: Sequence[Callable[[Any], Any]] = ()
    part_scaling: PartScaling | None = None
    settled: Model | None = None

    @property
    def gives_probabilities(self) -> bool:
        """Whether scores are probabilities."""
        return self.threshold == 0.5

    def after(self, changed: FitContext) -> "Fitted":
        """Return the fit of changed features as one that reads those of the store."""
        chosen = dict(self.chosen)
        if changed.part_scaling is not None:
            chosen["part_factors"] = changed.part_scaling.factors.tolist()
        return replace(
            self,
            chosen=chosen,
            steps=changed.steps,
            part_scaling=changed.part_scaling,
        )

    def score(self, X: Any) -> FloatArray:
        """Return the score of each row of features, as a store holds them."""
        for step in self.steps:
            X = step(X)
        if self.gives_probabilities:
            return np.asarray(self.estimator.predict_proba(X)[:, 1], dtype=np.float64)
        return np.asarray(self.estimator.decision_function(X), dtype=np.float64)

    def score_clips(self, features: Features, clips: IntArray) -> FloatArray:
        """Return the scores of clips; those with the same features have the same one."""
        return features.tied(clips, self.score(features.of(clips)))

    def recalibrated(self, scores: FloatArray) -> FloatArray | None:
        """Return probabilities by Platt's method, fitted on the inner scores; None without those.

        Where the regression does not exist (a perfect order), there are none.
        """
        y = self.inner.y == 1
        if not self.gives_probabilities or y.all() or not y.any():
            return None
        try:
            fit = fit_logistic(_log_odds(self.inner.scores)[:, None], y, method="ml")
        except FixInput:
            return None
        odds = fit.beta[0] + fit.beta[1] * _log_odds(scores)
        return np.asarray(special.expit(odds), dtype=np.float64)


def _log_odds(scores: FloatArray) -> FloatArray:
    inside = np.clip(scores, NEXT_TO_ZERO, 1 - NEXT_TO_ZERO)
    return np.asarray(special.logit(inside), dtype=np.float64)


def fit_model(model: Model, held: HeldOut, context: FitContext) -> Fitted:
    """Fit a model on the training rows of a fold; a `FixTraining` says why that is not possible.

    Of several settings it takes those that are best inside the training rows. Perceptrons are
    fitted by `fit_perceptrons`.
    """
    refuse_one_class(context.labels, held)
    options = [
        Model(model.kind, for_task(model.kind, settings, context.task))
        for settings in candidates(model)
    ]
    if len(options) > 1:
        return _fit_best(model, options, held, context)
    (settled,) = options
    if model.kind == registry.ZERO_SHOT:
        return _zero_shot(settled, held, context)
    has_head = bool(registry.find_kind(model.kind).head)
    if context.changes_features(has_head=has_head):
        changed = context.fitted_to(held, has_head=has_head)
        return fit_model(settled, held, changed).after(changed)
    if has_head:
        return _fit_bottleneck(settled, held, context)
    if model.kind == "svm":
        return _fit_svm(settled, held, context)
    estimator = registry.build(model.kind, settled.settings, seed=context.seed)
    X = context.features.of(held.train)
    y = context.y_of(held.train)
    estimator.fit(X, y, held.training_films)
    if hasattr(estimator, "predict_proba"):
        return Fitted(estimator, settled=settled)
    if model.kind != "ridge":
        return Fitted(estimator, 0.0, settled=settled)
    film_numbers = np.zeros(len(y), dtype=np.intp)
    if held.training_films is not None:
        film_numbers = np.unique(held.training_films, return_inverse=True)[1]
    scores = np.round(estimator.left_out_scores_[:, 0], DIGITS)
    inner = InnerScores(y, scores, film_numbers)
    chosen = {"alpha": estimator.alpha_}
    return Fitted(estimator, 0.0, chosen, inner=inner, settled=settled)


def with_inner_scores(fitted: Fitted, held: HeldOut, context: FitContext) -> Fitted:
    """Return a fit with scores of rows that did not train, which choose a threshold and a store.

    They are the validation rows, or the training rows by fits without them.
    """
    settled = fitted.settled
    if settled is None:
        return fitted
    if len(held.validation):
        return replace(fitted, inner=_validation_scores(fitted, held, context))
    # A scheme chooses what its publication chose, and nothing else.
    if len(fitted.inner.y) or held.file_folds is not None:
        return fitted

    def score_inside(train: IntArray, rows: IntArray) -> FloatArray:
        inside = fit_model(settled, held.inner(train, rows), context)
        return inside.score(context.features.of(rows))

    return replace(fitted, inner=_over_inner_splits(held, context, score_inside))


def _validation_scores(
    fitted: Fitted, held: HeldOut, context: FitContext
) -> InnerScores:
    """Return the scores of the validation clips, which did not train."""
    rows = held.validation
    one_fold = np.zeros(len(rows), dtype=np.intp)
    scores = fitted.score_clips(context.features, rows)
    return InnerScores(context.y_of(rows), scores, one_fold)


def _offered(model: Model, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chosen value of each setting that the model does not state itself."""
    stated = model.settings
    return {name: chosen[name] for name in stated if chosen.get(name) != stated[name]}


def _inner_splits(
    held: HeldOut, context: FitContext
) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield training and other rows: the validation rows, or inner folds of films or clips."""
    from obygaze_models.models.concepts import inner_folds

    if len(np.unique(context.labels[held.validation])) == 2:
        yield held.train, held.validation
        return
    is_positive = context.y_of(held.train) == 1
    for fold in inner_folds(is_positive, held.training_films, INNER_FOLDS):
        yield held.train[~fold], held.train[fold]


def _fit_best(
    model: Model, options: Sequence[Model], held: HeldOut, context: FitContext
) -> Fitted:
    """Fit the best of several settings; what chose it is known to have seen its clips."""
    number, tried_on = _choose(options, held, context)
    fitted = fit_model(options[number], held, context)
    return replace(
        fitted,
        chosen={**fitted.chosen, **_offered(model, options[number].settings)},
        found_on=np.union1d(fitted.found_on, tried_on),
    )


def _choose(
    options: Sequence[Model], held: HeldOut, context: FitContext
) -> tuple[int, IntArray]:
    """Return the number of the best option, and the clips that concept vectors were found on.

    The best one has the largest mean average precision over inner splits. A split on which some
    option cannot be fitted, such as one without enough clips of a concept, counts for none.
    """
    found_on = NO_ROWS
    precisions = []
    for train, rows in _inner_splits(held, context):
        inside = held.inner(train, rows)
        of_options = []
        for option in options:
            try:
                fitted = fit_model(option, inside, context)
            except FixTraining:
                break
            found_on = np.union1d(found_on, fitted.found_on)
            scores = fitted.score_clips(context.features, rows)
            predictions = Predictions.of(context.labels[rows] == 1, scores)
            of_options.append(average_precision(predictions))
        if len(of_options) == len(options):
            precisions.append(of_options)
    if not precisions:
        return 0, found_on
    return int(np.argmax(np.mean(precisions, axis=0))), found_on


def _over_inner_splits(
    held: HeldOut,
    context: FitContext,
    score: Callable[[IntArray, IntArray], FloatArray],
) -> InnerScores:
    """Return the classes and the scores of all inner folds; none if one cannot be fitted."""
    truth = []
    scores = []
    folds = []
    for fold, (train, rows) in enumerate(_inner_splits(held, context)):
        try:
            scores.append(context.features.tied(rows, score(train, rows)))
        except FixTraining:  # such as a concept that too few clips of the others have
            return InnerScores()
        truth.append(context.y_of(rows))
        folds.append(np.full(len(rows), fold, dtype=np.intp))
    if not truth:
        return InnerScores()
    return InnerScores(
        np.concatenate(truth), np.concatenate(scores), np.concatenate(folds)
    )


def _zero_shot(model: Model, held: HeldOut, context: FitContext) -> Fitted:
    """Return the model of two attributes of texts; training rows choose a threshold alone."""
    settings = model.settings
    directions = context.vectors.sentences[settings[registry.TEXTS]].directions
    estimator = ZeroShot(
        directions[settings["positive"]], directions[settings["negative"]]
    )
    fitted = Fitted(estimator, 0.0, settled=model)
    if held.file_folds is not None:
        return fitted
    y = context.y_of(held.train)
    scores = fitted.score_clips(context.features, held.train)
    return replace(fitted, inner=InnerScores(y, scores, np.zeros(len(y), np.intp)))


def _fit_svm(model: Model, held: HeldOut, context: FitContext) -> Fitted:
    """Fit a support vector machine on the products of rows that all fits of a store share."""
    from obygaze_models.models.common import balanced_weights
    from obygaze_models.models.linear_solvers import central_bias

    settings = model.settings
    features = context.features
    y = context.y_of(held.train)
    positive = y == 1
    weights = balanced_weights(y, 2)[y]
    weight = weights if settings["class_weight"] == "balanced" else None
    rows = features.row_of[held.train]
    normal, bias = context.vectors.machines.svm(rows, positive, settings["C"], weight)
    along = features.of(held.train).astype(np.float64) @ normal
    chosen = {
        "length": float(np.linalg.norm(normal)),
        "bias_shift": central_bias(along, positive, weight, bias) - bias,
    }
    probe = registry.build("svm", settings)
    probe.classes_ = np.array([0, 1])
    probe.n_features_in_ = len(normal)
    probe.coef_ = normal[None, :]
    probe.intercept_ = np.array([bias])
    return Fitted(probe, 0.0, chosen, settled=model)


def _fit_bottleneck(model: Model, held: HeldOut, context: FitContext) -> Fitted:
    """Fit the head on margins of shared concept vectors, and put both in one estimator."""
    from sklearn.base import clone

    from obygaze_models.models.concepts import tolerances_of

    settings = model.settings
    vectors = context.vectors
    rows = context.features.row_of[held.train]
    margins_of_store = vectors.margins(settings, held)
    bank = margins_of_store.bank
    margins = margins_of_store.of_rows[rows]
    if settings["tolerance"] == "folds":
        settings = {**settings, "tolerance": tolerances_of(bank)}
    bottleneck = registry.build(
        model.kind, settings, concepts=bank.concepts, seed=context.seed
    )
    y = context.y_of(held.train)
    films = held.films[held.train]
    X = vectors.machines.X[rows]
    bottleneck.fit_on_margins(bank, margins, X, y, films, scale=context.scale)
    if bottleneck.residual is not None:
        chosen = {"residual_share": bottleneck.residual_.share_}
        return Fitted(
            bottleneck,
            chosen=chosen,
            found_on=margins_of_store.found_on,
            settled=model,
        )

    def score_inside(train: IntArray, others: IntArray) -> FloatArray:
        """Return scores by a head of other rows, on the margins of all."""
        fitted_on = np.searchsorted(held.train, train)
        head = clone(bottleneck.head)
        head.fit(margins[fitted_on], y[fitted_on], groups=films[fitted_on])
        scored = margins[np.searchsorted(held.train, others)]
        return np.asarray(head.predict_proba(scored)[:, 1])

    inner = InnerScores()
    # Without cross-fitting, margins are those of clips that the vectors were found on.
    if settings["cross_fit"] > 1 and not len(held.validation):
        inner = _over_inner_splits(held, context, score_inside)
    return Fitted(
        bottleneck, found_on=margins_of_store.found_on, inner=inner, settled=model
    )


def fit_perceptrons(
    model: Model, folds: Sequence[HeldOut], context: FitContext, seed: int
) -> list[Fitted]:
    """Fit a perceptron in each of some folds with the same training rows, in one call.

    Each takes the best of the settings that the model offers.
    """
    refuse_one_class(context.labels, folds[0])
    if context.changes_features():
        changed = context.fitted_to(folds[0])
        fits = fit_perceptrons(model, folds, changed, seed)
        return [fitted.after(changed) for fitted in fits]
    features = context.features
    labels = context.labels.astype(np.int64)[features.present]
    jobs = [
        PerceptronJob(
            features.row_of[held.train], labels, features.row_of[held.validation], seed
        )
        for held in folds
    ]
    options = [
        for_task(model.kind, settings, context.task) for settings in candidates(model)
    ]
    probes = [registry.build(model.kind, settings) for settings in options]
    by_option = [_fit_or_none(features.X, jobs, probe) for probe in probes]
    fits = []
    for number, held in enumerate(folds):
        of_fold = [fitted[number] for fitted in by_option]
        if all(fitted is None for fitted in of_fold):
            fit_many(features.X, [jobs[number]], probes[0])  # raises the reason again
        best, probe = _best_perceptron(of_fold, held, context)
        chosen = {
            "epochs": probe.n_epochs,
            "kept_epoch": probe.kept_epoch_,
            **_offered(model, options[best]),
        }
        fitted = Fitted(probe, chosen=chosen)
        if len(held.validation):
            inner = _validation_scores(fitted, held, context)
            fitted = replace(fitted, inner=inner)
        fits.append(fitted)
    return fits


def _fit_or_none(
    X: Any, jobs: Sequence[PerceptronJob], probe: MLPProbe
) -> list[MLPProbe | None]:
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
    fits: Sequence[MLPProbe | None], held: HeldOut, context: FitContext
) -> tuple[int, MLPProbe]:
    """Return the number of the best fit of a fold, and that fit; some may have diverged.

    It has the lowest validation loss, or without validation rows the lowest training loss. Losses
    with other weights of the classes, or after another softmax, are other numbers: there it has the
    highest average precision on the validation rows.
    """
    known = {number: fit for number, fit in enumerate(fits) if fit is not None}
    losses = {(fit.class_weight, fit.double_softmax) for fit in known.values()}
    if len(losses) == 1 or not len(held.validation):
        best = min(known, key=lambda number: _loss(known[number]))
        return best, known[best]

    def precision(number: int) -> float:
        scores = _validation_scores(Fitted(known[number]), held, context)
        return scores.precision or 0.0

    best = max(known, key=precision)
    return best, known[best]


def _loss(fit: MLPProbe) -> float:
    """Return the validation loss of the kept epoch, or the last training loss."""
    curve = fit.validation_loss_
    loss = float(fit.train_loss_[-1])
    if len(curve):
        loss = float(curve[fit.kept_epoch_ - 1])
    return loss if np.isfinite(loss) else np.inf


def fit_baseline(
    name: str, held: HeldOut, labels: LabelArray, table: ClipTable, seed: int
) -> Callable[[IntArray], FloatArray]:
    """Fit a baseline on film and scene, or on true concepts; return its scores of clips."""
    from obygaze_models.models.baselines import BY_NAME

    refuse_one_class(labels, held)
    y = labels[held.train].astype(np.int64)
    if name not in registry.BASELINES:
        return _own_baseline(name, held, y, table)
    X = table.film_and_scene
    if name == "oracle":
        # A clip whose annotators differ on a concept is neither with it nor without it.
        X = np.where(table.is_open_concept, 0.5, table.has_concept)
    score = BY_NAME[name](X[held.train], y == 1, seed)
    return lambda clips: score(X[clips])


def _own_baseline(
    name: str, held: HeldOut, y: NDArray[np.int64], table: ClipTable
) -> Callable[[IntArray], FloatArray]:
    """Return the scores of an own function, which sees no annotation but the classes."""
    part = find_part(name)
    function = part.load_function()
    # Any column of a person's own may be the label.
    columns = table.clips[0].extra
    hidden = dict.fromkeys(own_columns(columns), "")
    if DIFFERS in columns:
        hidden[DIFFERS] = ""
    blind = []
    for clip in table.clips:
        extra = {**clip.extra, **hidden}
        blind.append(replace(clip, level="", concepts=(), extra=extra))
    trained = [blind[row] for row in held.train.tolist()]

    def score(rows: IntArray) -> FloatArray:
        tested = [blind[row] for row in rows.tolist()]
        scores = part.call(
            lambda: np.asarray(function(trained, y, tested), dtype=np.float64),
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

    return score
