"""Perceptrons trained together, against plain PyTorch step by step."""

import copy
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from obygaze_models.models.mlp import MLPProbe
from obygaze_models.models.mlp_network import Network, with_ones

torch = pytest.importorskip("torch")


def planted(n=150, width=24, seed=0, strength=0.9):
    """Rows whose first features lean with the class, all classes present early on."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(2), rng.integers(0, 2, n - 2)])
    X = rng.normal(size=(n, width)).astype(np.float32)
    X[np.arange(n), labels] += strength
    return X, labels


@dataclass(frozen=True)
class Job:
    """One fit: numbers of training and validation rows, a class of each row, a seed."""

    train: NDArray[np.int64]
    labels: NDArray[np.int64]
    validation: NDArray[np.int64] = field(
        default_factory=lambda: np.empty(0, dtype=np.int64)
    )
    seed: int = 0


def plain_loop(X, job, settings, weight=None) -> dict[str, Any]:
    """The protocol in plain PyTorch: same first weights, same order of batches, nothing shared."""
    rng = np.random.default_rng(job.seed)
    sizes = [X.shape[1], *settings.hidden, 2]
    modules: list[Any] = []
    for a, b in pairwise(sizes):
        layer = torch.nn.Linear(a, b)
        start = rng.uniform(-1 / np.sqrt(a), 1 / np.sqrt(a), (a + 1, b)).astype(
            np.float32
        )
        layer.weight.data = torch.tensor(start[:-1].T.copy())
        layer.bias.data = torch.tensor(start[-1])
        modules += [layer, torch.nn.ReLU()]
    model = torch.nn.Sequential(*modules[:-1])
    optimiser = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    criterion = torch.nn.CrossEntropyLoss(weight=weight)

    def loss_of(rows: Any) -> Any:
        out = model(torch.tensor(X[rows]))
        out = torch.softmax(out, dim=1) if settings.double_softmax else out
        return criterion(out, torch.tensor(job.labels[rows]))

    curve: list[float] = []
    best, waited, kept, kept_epoch = float("inf"), 0, None, 0
    for epoch in range(1, settings.max_epochs + 1):
        order = rng.permutation(len(job.train))
        for i in range(0, len(order), settings.batch_size):
            optimiser.zero_grad()
            loss_of(job.train[order[i : i + settings.batch_size]]).backward()
            optimiser.step()
        with torch.no_grad():
            curve.append(float(loss_of(job.validation)))
        improved = curve[-1] < best
        best, waited = (curve[-1], 0) if improved else (best, waited + 1)
        if improved or settings.keep == "last":
            kept, kept_epoch = copy.deepcopy(model), epoch
        if waited >= settings.patience and epoch >= settings.min_epochs:
            break
    with torch.no_grad():
        p = torch.softmax(kept(torch.tensor(X)), dim=1).numpy()  # type: ignore[misc]
    return {"curve": np.array(curve), "kept_epoch": kept_epoch, "p": p}


def one(X: Any, job: Job, settings: MLPProbe) -> MLPProbe:
    own = replace(settings, random_state=job.seed)
    held = (X[job.validation], job.labels[job.validation])
    return own.fit(X[job.train], job.labels[job.train], validation=held)


VARIANTS = {
    "as in the paper": {},
    "as released": {"double_softmax": True, "keep": "last"},
    "two hidden layers": {"hidden": (16, 8)},
    "no hidden layer": {"hidden": ()},
    "batches that leave a rest": {"batch_size": 17},
    "fast": {"learning_rate": 0.01, "patience": 2, "min_epochs": 12},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_learning_curve_is_that_of_plain_pytorch(variant: str) -> None:
    X, labels = planted()
    settings = MLPProbe(**{"hidden": (32,), "max_epochs": 30, **VARIANTS[variant]})  # type: ignore[arg-type]
    job = Job(np.arange(100), labels, np.arange(100, 150), seed=3)
    theirs, ours = plain_loop(X, job, settings), one(X, job, settings)
    assert ours.n_epochs == len(theirs["curve"])
    assert ours.kept_epoch_ == theirs["kept_epoch"]
    np.testing.assert_allclose(ours.validation_loss_, theirs["curve"], atol=2e-5)
    np.testing.assert_allclose(ours.predict_proba(X), theirs["p"], atol=2e-4)


def test_balanced_class_weights_are_those_of_pytorch() -> None:
    X, _ = planted()
    # 20 of 100 training rows: weights .625, 2.5.
    labels = np.where(np.arange(150) % 5 == 0, 1, 0)
    settings = MLPProbe(hidden=(16,), max_epochs=8, class_weight="balanced")
    job = Job(np.arange(100), labels, np.arange(100, 150))
    theirs = plain_loop(X, job, settings, weight=torch.tensor([0.625, 2.5]))
    found = one(X, job, settings).validation_loss_
    np.testing.assert_allclose(found, theirs["curve"], atol=2e-5)


def test_dropout_slope_is_that_of_autograd_with_the_same_mask() -> None:
    X, labels = planted(n=16, width=5)
    network = Network((5, 7, 2), np.random.default_rng(0))
    inputs = network.forward(with_ones(X), 0.5, np.random.default_rng(1))
    mask = np.random.default_rng(1).random((16, 7), dtype=np.float32) >= 0.5
    first, second = (torch.tensor(w, requires_grad=True) for w in network.layers)
    hidden = torch.relu(torch.tensor(with_ones(X)) @ first) * torch.tensor(mask) / 0.5
    out = torch.cat([hidden, torch.ones(16, 1)], dim=1) @ second
    np.testing.assert_allclose(inputs[-1], out.detach().numpy(), atol=1e-6)
    torch.nn.functional.cross_entropy(out, torch.tensor(labels)).backward()
    p = np.exp(inputs[-1]) / np.exp(inputs[-1]).sum(axis=1, keepdims=True)
    slope = (p - np.eye(2)[labels]) / 16
    network.backward(inputs, slope.astype(np.float32), 0.5)
    for ours, theirs in zip(network.slopes, (first, second), strict=True):
        np.testing.assert_allclose(ours, theirs.grad.numpy(), atol=1e-6)


def test_fits_that_share_their_training_rows_are_those_of_each_alone() -> None:
    X, labels = planted(n=200)
    # Nothing to learn for the second film: it stops at once.
    labels[150:] = 1 - labels[150:]
    train, films = np.arange(100), (np.arange(100, 150), np.arange(150, 200))
    pair = [Job(train, labels, film) for film in films]
    settings = MLPProbe(hidden=(8,), max_epochs=60, learning_rate=0.01, patience=2)
    alone = [one(X, job, settings) for job in pair]
    assert alone[0].n_epochs != alone[1].n_epochs  # they stop at different times
    held_out = [(X[film], labels[film]) for film in films]
    both = settings.fit_validations(X[train], labels[train], held_out)
    for ours, single in zip(both, alone, strict=True):
        np.testing.assert_array_equal(ours.validation_loss_, single.validation_loss_)
        np.testing.assert_array_equal(ours.layers_[0], single.layers_[0])
