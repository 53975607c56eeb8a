"""Forward pass, backward pass and Adam of one multilayer perceptron, in place in float32.

All weights of a fit are in one flat array that fits into the cache of the processor, and Adam
updates it in place. Therefore fits are trained one after another and not stacked: stacked weights
do not fit into the cache, and stacking was measured to be no faster.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Singles = NDArray[np.float32]


def with_ones(X: NDArray[Any]) -> Singles:
    """Return the rows as float32 with a last column of ones, which multiplies a layer's bias."""
    rows: Singles = np.ones((X.shape[0], X.shape[1] + 1), dtype=np.float32)
    rows[:, :-1] = X
    return rows


def softmax(z: NDArray[Any]) -> NDArray[Any]:
    """Return probabilities of each row of logits."""
    # Ufunc methods: for 16 rows, the NumPy wrappers cost more than the computation.
    p: NDArray[Any] = z - np.maximum.reduce(z, axis=1, keepdims=True)
    np.exp(p, out=p)
    p /= np.add.reduce(p, axis=1, keepdims=True)
    return p


def logits(layers: Sequence[NDArray[Any]], rows: NDArray[Any]) -> NDArray[Any]:
    """Return the output of a perceptron; the last row of each layer is the bias."""
    for weights in layers[:-1]:
        rows = np.maximum(rows @ weights[:-1] + weights[-1], 0)
    return np.asarray(rows @ layers[-1][:-1] + layers[-1][-1])


class Loss:
    """Weighted cross-entropy of a batch, and its gradient with respect to the logits.

    With `twice`, softmax is applied before a cross-entropy that applies it again, as in the
    released code of ObyGaze12. The loss is then at least log(1 + exp(-1)).
    """

    def __init__(self, twice: bool) -> None:
        self.twice = twice

    def slope(
        self, z: Singles, target: Singles, weight: Singles
    ) -> tuple[Singles, Singles]:
        """Return the probability of each row's true class, and the gradient of the mean loss.

        The gradient is with respect to the logits.
        """
        p = softmax(z)
        q = softmax(p) if self.twice else p
        hit = np.add.reduce(q * target, axis=1)
        d = q - target
        if self.twice:
            d -= np.add.reduce(d * p, axis=1, keepdims=True)
            d *= p
        d *= (weight / np.add.reduce(weight))[:, None]
        return hit, d

    def mean(self, z: NDArray[Any], target: Singles, weight: Singles) -> float:
        """Return the weighted mean loss of many rows."""
        p = softmax(softmax(z) if self.twice else z)
        hit = np.add.reduce(p * target, axis=1, dtype=np.float64)
        return float(weight @ -np.log(np.maximum(hit, 1e-45)) / weight.sum())


class Network:
    """One perceptron with its gradient and its Adam state."""

    def __init__(self, sizes: Sequence[int], rng: np.random.Generator) -> None:
        self.shapes = [(a + 1, b) for a, b in pairwise(sizes)]
        n_weights = sum(rows * columns for rows, columns in self.shapes)
        self.flat, self.grad, self.first, self.second = np.zeros(
            (4, n_weights), dtype=np.float32
        )
        self.layers = self._carve(self.flat)
        self.slopes = self._carve(self.grad)
        self.n_steps = 0
        for weights in self.layers:
            # The initialization of PyTorch, for weights and biases.
            bound = 1 / np.sqrt(len(weights) - 1)
            weights[:] = rng.uniform(-bound, bound, weights.shape)

    def _carve(self, flat: Singles) -> list[Singles]:
        ends = np.cumsum([rows * columns for rows, columns in self.shapes])
        parts = np.split(flat, ends[:-1])
        return [
            part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)
        ]

    def forward(
        self,
        rows: Singles,
        dropout: float = 0.0,
        rng: np.random.Generator | None = None,
    ) -> list[Singles]:
        """Return the input of each layer, with its last column of ones, and then the logits."""
        inputs = [rows]
        for weights in self.layers[:-1]:
            hidden = np.empty((len(rows), weights.shape[1] + 1), dtype=np.float32)
            hidden[:, -1] = 1
            np.matmul(inputs[-1], weights, out=hidden[:, :-1])
            np.maximum(hidden, 0, out=hidden)
            if dropout and rng is not None:
                passed = rng.random(hidden[:, :-1].shape, dtype=np.float32) >= dropout
                hidden[:, :-1] *= passed / np.float32(1 - dropout)
            inputs.append(hidden)
        inputs.append(inputs[-1] @ self.layers[-1])
        return inputs

    def backward(
        self, inputs: Sequence[Singles], slope: Singles, dropout: float = 0.0
    ) -> None:
        """Compute the gradient with respect to all weights.

        `slope` is the gradient with respect to the logits.
        """
        for i in range(len(self.layers) - 1, -1, -1):
            np.matmul(inputs[i].T, slope, out=self.slopes[i])
            if i:
                # An inactive unit, by ReLU or dropout, is exactly 0.
                slope = slope @ self.layers[i][:-1].T
                slope *= inputs[i][:, :-1] > 0
                if dropout:
                    slope *= np.float32(1 / (1 - dropout))

    def adam(self, rate: float) -> None:
        """Take one step of Adam; the bias corrections are part of the rate and the epsilon."""
        beta = 0.9
        beta2 = 0.999
        # Imported here, because predicting does not need SciPy, which doubles the start time.
        from scipy.linalg.blas import saxpy

        self.n_steps += 1
        flat = self.flat
        grad = self.grad
        first = self.first
        second = self.second
        first *= np.float32(beta)
        saxpy(grad, first, a=1 - beta)
        grad *= grad
        second *= np.float32(beta2)
        saxpy(grad, second, a=1 - beta2)
        correction = float(np.sqrt(1 - beta2**self.n_steps))
        np.sqrt(second, out=grad)
        grad += np.float32(1e-8 * correction)
        np.divide(first, grad, out=grad)
        saxpy(grad, flat, a=-rate * correction / (1 - beta**self.n_steps))
