"""Train many perceptrons on one feature matrix: every fold, task and seed of a protocol.

Jobs with the same training rows, labels and seed differ only in their validation rows, so they are
trained together (in the film-by-film protocol, half of all fits). The result of a job does not
depend on the other jobs of a call.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from obygaze_models.models.common import (
    FixTraining,
    Floats,
    Ints,
    check_values,
    draw_seed,
    one_thread,
)
from obygaze_models.models.estimator import Classifier, ClassWeight
from obygaze_models.models.lessons import InnerScores, Lessons
from obygaze_models.models.mlp_network import (
    Loss,
    Network,
    Singles,
    logits,
    softmax,
    with_ones,
)
from obygaze_models.models.registry import KINDS

VALIDATION_SHARE = 0.1


@dataclass(frozen=True)
class PerceptronJob:
    """One fit: numbers of training and validation rows, a class number for each row, a seed.

    Labels of rows that are in neither list are never read. Without validation rows the fit runs
    through all epochs and keeps the last.
    """

    train: Ints
    labels: Ints
    validation: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    seed: int = 0


@dataclass(eq=False, repr=False)
class MLPProbe(Classifier):
    """A perceptron that stops early on validation rows, which `fit` holds out.

    The default settings are the paper's. `keep` selects the weights that are kept: those of the
    best validation loss, or the last, as in the released code. `double_softmax` applies softmax
    before a cross-entropy that applies it again. `layers_` have their bias as last row; losses are
    of each epoch. Where many fits share features, `fit_many` trains them in one call, to the same
    bits.
    """

    hidden: Sequence[int] = (128,)
    _: KW_ONLY
    min_epochs: int = 5
    max_epochs: int = 100
    patience: int = 5
    batch_size: int = 16
    learning_rate: float = 1e-3
    dropout: float = 0.0
    class_weight: ClassWeight = None
    keep: Literal["best", "last"] = "best"
    double_softmax: bool = False
    random_state: Any = 0

    layers_: list[NDArray[Any]] = field(init=False)
    kept_epoch_: int = field(init=False)
    train_loss_: NDArray[Any] = field(init=False)
    validation_loss_: NDArray[Any] = field(init=False)

    def _fit(self, X: Floats, codes: Ints, groups: NDArray[Any] | None) -> None:
        _check_settings(self)
        check_values(float(np.abs(X).max()))
        seed = draw_seed(self.random_state)
        held = hold_out(codes, seed)
        job = PerceptronJob(np.flatnonzero(~held), codes, np.flatnonzero(held), seed)
        _train_together(with_ones(X), [job], [self])

    def learn_each(self, folds: Sequence[Lessons]) -> list[Any]:
        """Return a fit of each of some lessons, which are trained together.

        It stops early on the validation rows; without any it runs through all epochs.
        """
        seed = draw_seed(self.random_state)
        rows = folds[0].rows
        jobs = [
            PerceptronJob(lessons.train, lessons.y, lessons.validation, seed)
            for lessons in folds
        ]
        return [*fit_many(rows.X, jobs, self)]

    def learn(self, lessons: Lessons) -> Self:
        """Return a fit that stops early on the validation rows."""
        fitted: Self
        (fitted,) = self.learn_each([lessons])
        return fitted

    def left_out_scores(self, lessons: Lessons) -> InnerScores:
        """Return no scores: a fit that needs validation rows has no other ones."""
        return InnerScores()

    @property
    def facts(self) -> Mapping[str, Any]:
        """The number of epochs, and the one that is kept."""
        return {"epochs": self.n_epochs, "kept_epoch": self.kept_epoch_}

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class for each row, in float64.

        In float64 it does not depend on the size of a batch.
        """
        rows = self._check(X)
        exact = [weights.astype(np.float64) for weights in self.layers_]
        return softmax(logits(exact, rows))

    @property
    def n_epochs(self) -> int:
        """The number of epochs, including those after the one that is kept."""
        return len(self.train_loss_)


def fit_many(
    X: NDArray[Any], jobs: Sequence[PerceptronJob], probe: MLPProbe | None = None
) -> list[MLPProbe]:
    """Return a fitted probe for each job, in the order given; its classes are class numbers.

    Args:
        X: The features; rows that no job uses may be missing (NaN).
        jobs: The fits; the classes of training rows are 0, 1 and so on.
        probe: An unfitted probe with the settings of all fits; the seeds are those of the jobs.
    """
    probe = probe or MLPProbe()
    _check_settings(probe)
    _check_jobs(X, jobs)
    together: dict[tuple[int, bytes, bytes], list[int]] = {}
    for i, job in enumerate(jobs):
        key = (job.seed, job.train.tobytes(), job.labels[job.train].tobytes())
        together.setdefault(key, []).append(i)
    rows = with_ones(X)
    fits = [deepcopy(probe) for _ in jobs]
    for job, fit in zip(jobs, fits, strict=True):
        fit.n_features_in_ = X.shape[1]
        fit.classes_ = np.unique(job.labels[job.train])
    for group in together.values():
        _train_together(rows, [jobs[i] for i in group], [fits[i] for i in group])
    return fits


def _check_settings(probe: MLPProbe) -> None:
    """Raise an error for a setting that a protocol refuses, too."""
    for name, setting in KINDS["mlp"].class_settings.items():
        value = getattr(probe, name)
        # Protocols have neither weights by class nor a perceptron without a hidden layer.
        if name == "class_weight" or value == ():
            continue
        reason = setting.problem(list(value) if isinstance(value, tuple) else value)
        if reason:
            raise FixTraining(f"{name} {reason}, got {value!r}")
    if probe.min_epochs > probe.max_epochs:
        raise FixTraining(
            f"max_epochs must be at least min_epochs, got {probe.max_epochs}"
        )


def _check_jobs(X: NDArray[Any], jobs: Sequence[PerceptronJob]) -> None:
    """Raise an error for jobs that do not match the rows of X."""
    used = np.zeros(len(X), dtype=bool)
    for number, job in enumerate(jobs):
        _check_job(job, f"job {number}", len(X))
        used[job.train] = used[job.validation] = True
    check_values(float(np.abs(X[used]).max(initial=0.0)))
    broken = np.flatnonzero(used & ~np.isfinite(X).all(axis=1))
    if len(broken):
        raise FixTraining(
            f"{len(broken)} rows in use have values that are not finite",
            where=f"row {broken[0]}",
        )


def _check_job(job: PerceptronJob, where: str, n_rows: int) -> None:
    if any(
        numbers.dtype.kind not in "iu"
        for numbers in (job.train, job.validation, job.labels)
    ):
        raise FixTraining("rows and labels must be integers, not a mask", where=where)
    rows = np.concatenate([job.train, job.validation])
    if len(job.labels) != n_rows or (
        len(rows) and not 0 <= rows.min() <= rows.max() < n_rows
    ):
        raise FixTraining(
            f"labels or row numbers do not match the {n_rows} rows of X", where=where
        )
    seen = np.unique(job.labels[job.train])
    if len(seen) < 2 or not np.array_equal(seen, np.arange(len(seen))):
        raise FixTraining(
            f"the training rows must hold classes 0, 1, ...; got {seen.tolist()}",
            where=where,
        )
    if not np.isin(job.labels[job.validation], seen).all():
        raise FixTraining(
            "validation rows have a class that no training row has", where=where
        )


def hold_out(codes: Ints, seed: int) -> NDArray[np.bool_]:
    """Return a mask of validation rows: a tenth of each class, never all of its rows."""
    rng = np.random.default_rng([seed, 1])
    held = np.zeros(len(codes), dtype=bool)
    for code in np.unique(codes):
        rows = rng.permutation(np.flatnonzero(codes == code))
        n_held = min(round(VALIDATION_SHARE * len(rows)), len(rows) - 1)
        held[rows[:n_held]] = True
    return held


class _EarlyStop:
    """The early stopping of one job: its loss curves, when it stops, which weights it keeps."""

    def __init__(
        self, job: PerceptronJob, rows: Singles, weights: Floats, probe: MLPProbe
    ) -> None:
        self.probe = probe
        self.loss = Loss(probe.double_softmax)
        codes = job.labels[job.validation]
        self.rows = rows[job.validation]
        self.target = np.eye(len(weights), dtype=np.float32)[codes]
        self.weights = weights[codes].astype(np.float32)
        self.curve: list[float] = []
        self.train_curve: list[float] = []
        self.best = np.inf
        self.waited = self.kept_epoch = 0
        self.layers: list[Singles] = []
        self.running = True

    def update(self, network: Network, train_loss: float) -> None:
        """Evaluate the network after an epoch."""
        self.train_curve.append(train_loss)
        epoch = len(self.train_curve)
        probe = self.probe
        if len(self.rows):
            self.curve.append(
                self.loss.mean(
                    network.forward(self.rows)[-1], self.target, self.weights
                )
            )
            better = self.curve[-1] < self.best
            self.best = min(self.curve[-1], self.best)
            self.waited = 0 if better else self.waited + 1
        else:
            better = True
        stop = self.waited >= probe.patience and epoch >= probe.min_epochs
        self.running = not stop and epoch < probe.max_epochs
        if better if probe.keep == "best" else not self.running:
            self.layers = [layer.copy() for layer in network.layers]
            self.kept_epoch = epoch

    def finish(self) -> None:
        """Set the fitted attributes of the probe."""
        if not self.layers or not all(
            np.isfinite(layer).all() for layer in self.layers
        ):
            raise FixTraining(
                "training diverged: the weights are not finite",
            )
        probe = self.probe
        probe.layers_ = self.layers
        probe.kept_epoch_ = self.kept_epoch
        probe.train_loss_, probe.validation_loss_ = map(
            np.array, (self.train_curve, self.curve)
        )


def _train_together(
    rows: Singles, jobs: Sequence[PerceptronJob], probes: Sequence[MLPProbe]
) -> None:
    """Train the probes of jobs with the same training rows, labels and seed, and finish them."""
    job = jobs[0]
    probe = probes[0]
    codes = job.labels[job.train]
    n_classes = len(probe.classes_)
    weights = probe._weights(codes, probe.class_weight)
    weights = np.ones(n_classes) if weights is None else weights
    rng = np.random.default_rng(job.seed)
    network = Network((rows.shape[1] - 1, *probe.hidden, n_classes), rng)
    target = np.eye(n_classes, dtype=np.float32)[codes]
    weight = weights[codes].astype(np.float32)
    stops = [
        _EarlyStop(stopped_job, rows, weights, fit)
        for stopped_job, fit in zip(jobs, probes, strict=True)
    ]
    # Kept from epoch to epoch: megabytes of new memory cost more than the copy.
    ordered_rows = np.empty((len(codes), rows.shape[1]), dtype=np.float32)
    with one_thread():
        while any(stop.running for stop in stops):
            order = rng.permutation(len(codes))
            # The row numbers were checked; with "raise", NumPy would copy once more.
            rows.take(job.train[order], axis=0, out=ordered_rows, mode="clip")
            data = ordered_rows, target[order], weight[order]
            train_loss = _epoch(network, data, probe, rng)
            for stop in stops:
                if stop.running:
                    stop.update(network, train_loss)
    for stop in stops:
        stop.finish()


def _epoch(
    network: Network,
    data: tuple[Singles, Singles, Singles],
    probe: MLPProbe,
    rng: np.random.Generator,
) -> float:
    """Train one epoch in the order of the rows; return the mean loss before each step."""
    rows, target, weight = data
    loss = Loss(probe.double_softmax)
    hits = np.empty(len(rows), dtype=np.float32)
    for start in range(0, len(rows), probe.batch_size):
        batch = slice(start, start + probe.batch_size)
        inputs = network.forward(rows[batch], probe.dropout, rng)
        hits[batch], slope = loss.slope(inputs[-1], target[batch], weight[batch])
        network.backward(inputs, slope, probe.dropout)
        network.adam(probe.learning_rate)
    return float(weight @ -np.log(np.maximum(hits, 1e-45)) / weight.sum())
