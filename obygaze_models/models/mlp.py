"""Perceptrons. Fits that differ in their validation rows only are trained together.

In the film-by-film protocol, this halves the number of trainings. The result of a fit does not
depend on the fits that are trained with it.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, Any, Literal, Self

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from obygaze_models.models.common import (
    FixTraining,
    Floats,
    Ints,
    check_values,
    one_thread,
)
from obygaze_models.models.estimator import Classifier, check_features
from obygaze_models.models.mlp_network import (
    Loss,
    Network,
    Singles,
    logits,
    softmax,
    with_ones,
)
from obygaze_models.models.parameters import (
    ClassWeight,
    InFile,
    Positive,
    Seed,
    Whole,
    Whole1,
)

Widths = Annotated[
    tuple[Whole1, ...], Meta(description="a list of whole numbers, at least 1")
]


@dataclass(eq=False)
class MLPProbe(Classifier):
    """A perceptron that stops early on validation rows.

    The default settings are those of the ObyGaze12 paper. `keep` is "best" (keep the weights with
    the best validation loss) or "last" (keep the last weights, as in the released code of
    ObyGaze12). With `double_softmax`, softmax is applied before a cross-entropy that applies it
    again. The last row of each array in `layers_` is the bias. `train_loss_` and `validation_loss_`
    have one value per epoch.
    """

    hidden: Annotated[Widths, InFile(Annotated[Widths, Meta(min_length=1)])] = (128,)
    _: KW_ONLY
    min_epochs: Whole = 5
    max_epochs: Whole1 = 100
    patience: Whole1 = 5
    batch_size: Whole1 = 16
    learning_rate: Positive = 1e-3
    dropout: Annotated[float, Meta(ge=0, le=0.99)] = 0.0
    class_weight: ClassWeight = None
    keep: Literal["best", "last"] = "best"
    double_softmax: bool = False
    random_state: Seed = 0

    layers_: list[NDArray[Any]] = field(init=False, repr=False)
    kept_epoch_: int = field(init=False, repr=False)
    train_loss_: NDArray[Any] = field(init=False, repr=False)
    validation_loss_: NDArray[Any] = field(init=False, repr=False)

    def fit(self, X: Any, y: Any, validation: tuple[Any, Any] | None = None) -> Self:
        """Fit, stop early on validation rows, and return the estimator.

        Args:
            X: One row of numbers for each clip.
            y: The class of each row.
            validation: Rows and classes to stop on. None: all epochs are run.
        """
        (fitted,) = self.fit_validations(X, y, [validation])
        vars(self).update(vars(fitted))
        return self

    def fit_validations(
        self, X: Any, y: Any, validations: Sequence[tuple[Any, Any] | None]
    ) -> list[Self]:
        """Return one fit for each set of validation rows, trained together on the same rows.

        Each fit equals that of `fit` with its validation rows.
        """
        rows, codes = self._check_training(X, y, (np.float32, np.float64))
        fits = [copy(self) for _ in validations]
        largest = float(np.abs(rows).max(initial=0.0))
        held_out = []
        for validation in validations:
            validating, labels = self._check_validation(validation)
            largest = max(largest, float(np.abs(validating).max(initial=0.0)))
            held_out.append((with_ones(validating), labels))
        check_values(largest)
        _train(fits, with_ones(rows), codes, held_out)
        return fits

    def _check_validation(
        self, validation: tuple[Any, Any] | None
    ) -> tuple[Floats, Ints]:
        """Return checked validation rows and their class numbers; none without validation rows."""
        if validation is None or not len(validation[0]):
            return np.empty((0, self.n_features_in_)), np.empty(0, dtype=np.int64)
        rows = check_features(self, validation[0])
        labels = np.asarray(validation[1])
        if len(labels) != len(rows) or not np.isin(labels, self.classes_).all():
            raise FixTraining(
                "expected a class of the training rows for each validation row"
            )
        return rows, np.searchsorted(self.classes_, labels)

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


def _train(
    probes: Sequence[MLPProbe],
    rows: Singles,
    codes: Ints,
    validations: Sequence[tuple[Singles, Ints]],
) -> None:
    """Train probes with the same settings together; each has its own validation rows.

    The last column of all rows is 1.
    """
    probe = probes[0]
    n_classes = len(probe.classes_)
    weights = probe._weights_of_classes(codes, probe.class_weight)
    if weights is None:
        weights = np.ones(n_classes)
    rng = np.random.default_rng(probe.random_state)
    width = rows.shape[1]
    network = Network((width - 1, *probe.hidden, n_classes), rng)
    target = np.eye(n_classes, dtype=np.float32)[codes]
    weight = weights[codes].astype(np.float32)
    stops = [
        _EarlyStop(held, labels, weights, fitted)
        for fitted, (held, labels) in zip(probes, validations, strict=True)
    ]
    # One buffer for all epochs: allocating it again costs more than the copy.
    ordered_rows = np.empty_like(rows)
    with one_thread():
        while any(stop.running for stop in stops):
            order = rng.permutation(len(codes))
            # The default mode "raise" would make a further copy.
            rows.take(order, axis=0, out=ordered_rows, mode="clip")
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
