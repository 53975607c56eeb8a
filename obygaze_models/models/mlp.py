"""Train many perceptrons on one feature matrix: every fold, task and seed of a protocol.

Jobs with the same training rows, labels and seed differ only in their validation rows, so they are
trained together (in the film-by-film protocol, half of all fits). The result of a job does not
depend on the other jobs of a call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from obygaze_features.core.console import Progress, Quiet
from obygaze_models.models.common import (
    FixTraining,
    Floats,
    Ints,
    balanced_weights,
    draw_seed,
    encode_classes,
    one_thread,
)
from obygaze_models.models.estimator import Classifier
from obygaze_models.models.mlp_network import Loss, Matrix, Network, logits, softmax, with_ones


@dataclass(frozen=True)
class MLPSettings:
    """The settings of the training of a perceptron; the defaults are the paper's.

    `keep` selects the weights that are returned: those of the best validation loss, or the last,
    as in the released code. `double_softmax` applies softmax before a cross-entropy that applies
    it again.
    """

    hidden: tuple[int, ...] = (128,)
    min_epochs: int = 5
    max_epochs: int = 100
    patience: int = 5
    batch_size: int = 16
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    dropout: float = 0.0
    class_weight: Literal["balanced"] | tuple[float, ...] | None = None
    keep: Literal["best", "last"] = "best"
    double_softmax: bool = False

    def __post_init__(self) -> None:
        """Check every setting."""
        counts = (*self.hidden, self.max_epochs, self.patience, self.batch_size)
        checks = {
            "hidden, max_epochs, patience and batch_size must be at least 1": min(counts) >= 1,
            "min_epochs must be at most max_epochs": self.min_epochs <= self.max_epochs,
            "learning_rate must be above 0": self.learning_rate > 0,
            "weight_decay must be at least 0": self.weight_decay >= 0,
            "dropout must be in [0, 1)": 0 <= self.dropout < 1,
            "class_weight must be None, 'balanced' or a weight above 0 for each class": (
                self.class_weight in (None, "balanced")
                or (isinstance(self.class_weight, tuple) and min(self.class_weight) > 0)
            ),
            "keep must be 'best' or 'last'": self.keep in ("best", "last"),
        }
        wrong = [rule for rule, holds in checks.items() if not holds]
        if wrong:
            raise FixTraining(f"invalid settings of a perceptron: {'; '.join(wrong)}")


@dataclass(frozen=True)
class Job:
    """One fit: numbers of training and validation rows, a class number for each row, a seed.

    Labels of rows that are in neither list are never read. Without validation rows the fit runs
    through all epochs and keeps the last.
    """

    train: Ints
    labels: Ints
    validation: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    seed: int = 0


@dataclass(frozen=True)
class MLPFit:
    """A trained perceptron: layers with their bias as last row, and the losses of each epoch."""

    layers: tuple[Matrix, ...]
    train_loss: Floats
    validation_loss: Floats
    kept_epoch: int

    @property
    def n_epochs(self) -> int:
        """The number of epochs, including those after the one that is kept."""
        return len(self.train_loss)

    def probabilities(self, X: NDArray[Any]) -> Floats:
        """Return the probability of each class for each row, in float64."""
        return _probabilities(self.layers, X)


def fit_many(
    X: NDArray[Any],
    jobs: Sequence[Job],
    settings: MLPSettings | None = None,
    *,
    progress: Progress | None = None,
) -> list[MLPFit]:
    """Return the fit of each job, in the order given.

    Args:
        X: The features; rows that no job uses may be missing (NaN).
        jobs: The fits.
        settings: The settings of all fits.
        progress: Is advanced by each finished fit.
    """
    settings, progress = settings or MLPSettings(), progress or Quiet()
    for number, job in enumerate(jobs):
        _check(job, number, len(X))
    _check_numbers(X, jobs)
    rows = with_ones(X)
    fits: dict[int, MLPFit] = {}
    for group in _groups(jobs):
        done = train_together(rows, [jobs[i] for i in group], settings)
        fits.update(zip(group, done, strict=True))
        progress.advance(len(group))
    return [fits[i] for i in range(len(jobs))]


class MLPProbe(Classifier):
    """A perceptron that stops early on validation rows: those given to `fit`, or some held out.

    Where many fits share features, `fit_many` trains them in one call, to the same bits.
    """

    fitted: ClassVar[tuple[str, ...]] = (
        *("classes_", "layers_", "train_loss_", "validation_loss_", "kept_epoch_"),
    )

    def __init__(
        self,
        hidden: Sequence[int] = (128,),
        *,
        min_epochs: int = 5,
        max_epochs: int = 100,
        patience: int = 5,
        batch_size: int = 16,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        dropout: float = 0.0,
        class_weight: Literal["balanced"] | Mapping[Any, float] | None = None,
        keep: Literal["best", "last"] = "best",
        double_softmax: bool = False,
        validation_fraction: float = 0.1,
        random_state: Any = 0,
    ) -> None:
        self.hidden = hidden
        self.min_epochs = min_epochs
        self.max_epochs = max_epochs
        self.patience = patience
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.class_weight = class_weight
        self.keep = keep
        self.double_softmax = double_softmax
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def settings(self) -> MLPSettings:
        """Return the settings of the training, checked."""
        own = {
            name: getattr(self, name)
            for name in MLPSettings.__dataclass_fields__
            if name not in ("hidden", "class_weight")
        }
        weight: Any = self.class_weight
        if isinstance(weight, Mapping):
            weight = tuple(float(weight.get(name, 1)) for name in self.classes_)
        return MLPSettings(hidden=tuple(self.hidden), class_weight=weight, **own)

    def fit(self, X: Any, y: Any, validation: tuple[Any, Any] | None = None) -> MLPProbe:
        """Learn from the rows of X; `validation` is a pair (X, y) to stop on."""
        X, y = validate_data(self, X, y, ensure_min_samples=2)
        seed = draw_seed(self.random_state)
        check_classification_targets(y)
        self.classes_, codes = encode_classes(y)
        if validation is None:
            held = hold_out(codes, self.validation_fraction, seed)
            job = Job(np.flatnonzero(~held), codes, np.flatnonzero(held), seed)
        else:
            X, codes = self._append(X, codes, *validation)
            job = Job(np.arange(len(y)), codes, np.arange(len(y), len(X)), seed)
        (fit,) = fit_many(X, [job], self.settings())
        return self.adopt(fit, self.classes_)

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class for each row."""
        rows = self._check(X)
        return _probabilities(self.layers_, rows)

    def adopt(self, fit: MLPFit, classes: ArrayLike) -> MLPProbe:
        """Set the fitted attributes from a fit of `fit_many` and the names of its classes."""
        self.n_features_in_ = len(fit.layers[0]) - 1
        self.classes_ = np.asarray(classes)
        self.layers_ = list(fit.layers)
        self.train_loss_, self.validation_loss_ = fit.train_loss, fit.validation_loss
        self.kept_epoch_ = fit.kept_epoch
        return self

    def _append(
        self, X: NDArray[Any], codes: Ints, X_other: Any, y_other: Any
    ) -> tuple[NDArray[Any], Ints]:
        X_other, y_other = validate_data(self, X_other, y_other, reset=False)
        unknown = ~np.isin(y_other, self.classes_)
        if unknown.any():
            raise FixTraining(f"validation rows have unknown class '{y_other[unknown][0]}'")
        more = np.searchsorted(self.classes_, y_other)
        return np.concatenate([X, X_other]), np.concatenate([codes, more])


def hold_out(codes: Ints, fraction: float, seed: int) -> NDArray[np.bool_]:
    """Return a mask of validation rows: the same share of each class, never all of its rows."""
    rng = np.random.default_rng([seed, 1])
    held = np.zeros(len(codes), dtype=bool)
    for code in np.unique(codes):
        rows = rng.permutation(np.flatnonzero(codes == code))
        held[rows[: min(round(fraction * len(rows)), len(rows) - 1)]] = True
    return held


def _probabilities(layers: Sequence[Matrix], X: NDArray[Any]) -> Floats:
    """Return probabilities in float64, so that they do not depend on the size of a batch."""
    exact = [weights.astype(np.float64) for weights in layers]
    return softmax(logits(exact, np.asarray(X, dtype=np.float64)))


def _groups(jobs: Sequence[Job]) -> list[list[int]]:
    groups: dict[tuple[int, bytes, bytes], list[int]] = {}
    for i, job in enumerate(jobs):
        key = (job.seed, job.train.tobytes(), job.labels[job.train].tobytes())
        groups.setdefault(key, []).append(i)
    return list(groups.values())


def _check(job: Job, number: int, n_rows: int) -> None:
    where = f"job {number}"
    if any(numbers.dtype.kind not in "iu" for numbers in (job.train, job.validation, job.labels)):
        raise FixTraining("rows and labels must be integers, not a mask", where=where)
    rows = np.concatenate([job.train, job.validation])
    if len(job.labels) != n_rows or (len(rows) and not 0 <= rows.min() <= rows.max() < n_rows):
        raise FixTraining(f"labels or row numbers do not match the {n_rows} rows of X", where=where)
    seen = np.unique(job.labels[job.train])
    if len(seen) < 2 or not np.array_equal(seen, np.arange(len(seen))):
        raise FixTraining(
            f"the training rows must hold classes 0, 1, ...; got {seen.tolist()}",
            where=where,
            hint="a split that gives each class some training rows",
        )
    if len(rows) and not np.isin(job.labels[job.validation], seen).all():
        raise FixTraining("validation rows have a class that no training row has", where=where)


def _check_numbers(X: NDArray[Any], jobs: Sequence[Job]) -> None:
    """Raise an error if a job uses a row whose features are missing."""
    broken = ~np.isfinite(X).all(axis=1)
    used = np.zeros(len(X), dtype=bool)
    for job in jobs:
        used[job.train] = used[job.validation] = True
    rows = np.flatnonzero(broken & used)
    if len(rows):
        raise FixTraining(
            f"{len(rows)} rows in use have values that are not finite",
            where=f"row {rows[0]}" if len(rows) == 1 else f"rows {rows[0]}, {rows[1]}, ...",
            hint="train without the clips that have no features",
        )


class _EarlyStop:
    """The early stopping of one job: its loss curves, when it stops, which weights it keeps."""

    def __init__(self, job: Job, rows: Matrix, weights: Floats, settings: MLPSettings) -> None:
        self.settings = settings
        self.loss = Loss(settings.double_softmax)
        codes = job.labels[job.validation]
        self.rows, self.target = rows[job.validation], _one_hot(codes, len(weights))
        self.weights = weights[codes].astype(np.float32)
        self.curve: list[float] = []
        self.train_curve: list[float] = []
        self.best = np.inf
        self.waited = self.kept_epoch = 0
        self.layers: list[Matrix] = []
        self.running = True

    def update(self, network: Network, train_loss: float) -> None:
        """Evaluate the network after an epoch."""
        self.train_curve.append(train_loss)
        epoch, settings = len(self.train_curve), self.settings
        if len(self.rows):
            self.curve.append(
                self.loss.mean(network.forward(self.rows)[-1], self.target, self.weights)
            )
            better = self.curve[-1] < self.best
            self.best = min(self.curve[-1], self.best)
            self.waited = 0 if better else self.waited + 1
        else:
            better = True
        stop = self.waited >= settings.patience and epoch >= settings.min_epochs
        self.running = not stop and epoch < settings.max_epochs
        if better if settings.keep == "best" else not self.running:
            self.layers, self.kept_epoch = network.copy_of_layers(), epoch

    def result(self) -> MLPFit:
        """Return the fit, once it no longer runs."""
        if not self.layers or not all(np.isfinite(layer).all() for layer in self.layers):
            raise FixTraining(
                "training diverged: the weights are not finite",
                hint="features of a smaller scale (a StandardScaler) or a smaller learning_rate",
            )
        curves = np.asarray(self.train_curve), np.asarray(self.curve)
        return MLPFit(tuple(self.layers), *curves, self.kept_epoch)


def train_together(rows: Matrix, jobs: Sequence[Job], settings: MLPSettings) -> list[MLPFit]:
    """Train jobs with the same training rows, labels and seed; return the fit of each."""
    first = jobs[0]
    codes = first.labels[first.train]
    weights = _class_weights(settings, codes)
    n_classes = len(weights)
    rng = np.random.default_rng(first.seed)
    network = Network((rows.shape[1] - 1, *settings.hidden, n_classes), rng)
    target, weight = _one_hot(codes, n_classes), weights[codes].astype(np.float32)
    stops = [_EarlyStop(job, rows, weights, settings) for job in jobs]
    with one_thread():
        while any(stop.running for stop in stops):
            order = rng.permutation(len(codes))
            data = rows[first.train[order]], target[order], weight[order]
            train_loss = _epoch(network, data, settings, rng)
            for stop in stops:
                if stop.running:
                    stop.update(network, train_loss)
    return [stop.result() for stop in stops]


def _epoch(
    network: Network,
    data: tuple[Matrix, Matrix, Matrix],
    settings: MLPSettings,
    rng: np.random.Generator,
) -> float:
    """Train one epoch in the order of the rows; return the mean loss before each step."""
    rows, target, weight = data
    loss, hits = Loss(settings.double_softmax), np.empty(len(rows), dtype=np.float32)
    for start in range(0, len(rows), settings.batch_size):
        batch = slice(start, start + settings.batch_size)
        inputs = network.forward(rows[batch], settings.dropout, rng)
        hits[batch], slope = loss.slope(inputs[-1], target[batch], weight[batch])
        network.backward(inputs, slope, settings.dropout)
        network.adam(settings.learning_rate, settings.weight_decay)
    return float(weight @ -np.log(np.maximum(hits, 1e-45)) / weight.sum())


def _class_weights(settings: MLPSettings, codes: Ints) -> Floats:
    n_classes = int(codes.max()) + 1
    if isinstance(settings.class_weight, tuple):
        if len(settings.class_weight) != n_classes:
            raise FixTraining(
                f"class_weight must have {n_classes} weights, got {len(settings.class_weight)}"
            )
        return np.asarray(settings.class_weight, dtype=np.float64)
    if settings.class_weight == "balanced":
        return balanced_weights(codes, n_classes)
    return np.ones(n_classes)


def _one_hot(codes: Ints, n_classes: int) -> Matrix:
    return np.eye(n_classes, dtype=np.float32)[codes]
