"""Perceptrons. Fits that differ in their validation rows only are trained together.

In the film-by-film protocol, this halves the number of trainings. The result of a fit does not
depend on the fits that are trained with it.
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
    balanced_weights,
    check_values,
    encode_classes,
    one_thread,
)
from obygaze_models.models.estimator import Classifier, ClassWeight
from obygaze_models.models.fold_data import FoldData, InnerScores
from obygaze_models.models.mlp_network import (
    Loss,
    Network,
    Singles,
    logits,
    softmax,
    with_ones,
)


@dataclass(eq=False)
class MLPProbe(Classifier):
    """A perceptron that stops early on validation rows.

    The default settings are those of the ObyGaze12 paper. `keep` is "best" (keep the weights with
    the best validation loss) or "last" (keep the last weights, as in the released code of
    ObyGaze12). With `double_softmax`, softmax is applied before a cross-entropy that applies it
    again. The last row of each array in `layers_` is the bias. `train_loss_` and `validation_loss_`
    have one value per epoch.
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
    random_state: int = 0

    layers_: list[NDArray[Any]] = field(init=False, repr=False)
    kept_epoch_: int = field(init=False, repr=False)
    train_loss_: NDArray[Any] = field(init=False, repr=False)
    validation_loss_: NDArray[Any] = field(init=False, repr=False)

    def fit_folds(self, folds: Sequence[FoldData]) -> list[Any]:
        """Return one fit per fold, trained together; training rows must be the same.

        A fit stops early on its validation rows; without validation rows, it runs all epochs.
        """
        data = folds[0]
        X = data.rows.X
        validations = [fold.validation for fold in folds]
        used = np.concatenate([data.train, *validations])
        check_values(float(np.abs(X[used]).max(initial=0.0)))
        classes, _ = encode_classes(data.y[data.train])
        fits = [deepcopy(self) for _ in folds]
        for fit in fits:
            fit.n_features_in_ = X.shape[1]
            fit.classes_ = classes
        seed = self.random_state
        training = _Training(with_ones(X), data.y, data.train, seed)
        training.fit(fits, validations)
        return fits

    def fit_fold(self, data: FoldData) -> Self:
        """Return a fit that stops early on the validation rows."""
        fitted: Self
        (fitted,) = self.fit_folds([data])
        return fitted

    def left_out_scores(self, data: FoldData) -> InnerScores:
        """Return None, because fits without some training rows would need validation rows."""
        return InnerScores()

    @property
    def facts(self) -> Mapping[str, Any]:
        """The number of epochs, and the epoch whose weights are kept."""
        return {"epochs": self.n_epochs, "kept_epoch": self.kept_epoch_}

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class for each row.

        Computed in float64, so that it does not depend on the batch size.
        """
        rows = self._check(X)
        exact = [weights.astype(np.float64) for weights in self.layers_]
        return softmax(logits(exact, rows))

    @property
    def n_epochs(self) -> int:
        """The number of epochs, including epochs after the kept one."""
        return len(self.train_loss_)


class _EarlyStop:
    """Early stopping of one fit: loss curves, stopping rule and kept weights."""

    def __init__(
        self, rows: Singles, codes: Ints, weights: Floats, probe: MLPProbe
    ) -> None:
        self.probe = probe
        self.loss = Loss(probe.double_softmax)
        self.rows = rows
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


@dataclass(frozen=True, eq=False)
class _Training:
    """Rows with a last column of ones, their classes, the training rows and a seed."""

    rows: Singles
    codes: Ints
    train: Ints
    seed: int

    def fit(self, probes: Sequence[MLPProbe], validations: Sequence[Ints]) -> None:
        """Train probes with the same settings together; each has its own validation rows."""
        probe = probes[0]
        codes = self.codes[self.train]
        n_classes = len(probe.classes_)
        weights = np.ones(n_classes)
        if probe.class_weight == "balanced":
            weights = balanced_weights(codes)
        rng = np.random.default_rng(self.seed)
        width = self.rows.shape[1]
        network = Network((width - 1, *probe.hidden, n_classes), rng)
        target = np.eye(n_classes, dtype=np.float32)[codes]
        weight = weights[codes].astype(np.float32)
        stops = []
        for fitted, rows in zip(probes, validations, strict=True):
            stop = _EarlyStop(self.rows[rows], self.codes[rows], weights, fitted)
            stops.append(stop)
        # One buffer for all epochs: allocating it again costs more than the copy.
        ordered_rows = np.empty((len(codes), width), dtype=np.float32)
        with one_thread():
            while any(stop.running for stop in stops):
                order = rng.permutation(len(codes))
                # The default mode "raise" would make a further copy.
                in_order = self.train[order]
                self.rows.take(in_order, axis=0, out=ordered_rows, mode="clip")
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
    """Train one epoch in the order of the rows; return the mean loss.

    The loss of a batch is computed before the step on this batch.
    """
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
