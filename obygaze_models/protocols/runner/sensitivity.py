"""How the score of a probe changes along concept vectors, beside random directions.

The share of clips whose score rises along a vector is the TCAV score of Kim et al. (2018). It is 0
or 1 for a linear probe, whose slope is the same everywhere, so the mean slope is given as well: by
how many standard deviations the score rises for one standard deviation of the margins.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from obygaze_models.evaluation.compare import holm
from obygaze_models.evaluation.predictions import FloatArray
from obygaze_models.models.common import FixTraining
from obygaze_models.models.registry import find_kind
from obygaze_models.protocols.runner.execute import FitContext, fit_every_clip
from obygaze_models.protocols.runner.records import Record
from obygaze_models.protocols.runner.vectors import FoundVectors

N_DIRECTIONS = 200


def sensitivity_records(context: FitContext, vectors: FoundVectors) -> Iterator[Record]:
    """Yield a record for each probe and training task, both fitted on every clip."""
    rng = np.random.default_rng((context.protocol.fit.seed, 3))
    random = rng.standard_normal((N_DIRECTIONS, vectors.bank.coef_.shape[1]))
    directions = np.concatenate([vectors.bank.coef_, random])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    probes = [n for n, model in context.models.items() if not find_kind(model.kind).head]
    for task in dict.fromkeys(train for train, _ in context.protocol.pairs):
        for name in probes:
            try:
                clips, fit = fit_every_clip(context, context.models[name], task)
            except FixTraining:
                continue
            X = context.store.of(clips).astype(np.float64)
            positive = context.labels[task][clips] == 1
            yield {
                **{"kind": "anatomy", "part": "sensitivity", "feature": context.feature},
                **{"model": name, "task": task, "n": int(positive.sum())},
                "concepts": along(fit.estimator, X, positive, directions, vectors.examples.names),
            }


def along(
    probe: Any, X: FloatArray, positive: FloatArray, directions: FloatArray, names: Sequence[str]
) -> list[Record]:
    """Return shares and slopes of the positive clips along each concept vector."""
    scores, slopes = scores_and_slopes(probe, X)
    rising = slopes[positive if len(slopes) > 1 else slice(None)] @ directions.T
    shares = (rising > 0).mean(axis=0)
    relative = rising.mean(axis=0) * (X @ directions.T).std(axis=0) / (scores.std() or 1.0)
    n = len(names)
    chance = np.abs(relative[n:])
    p = [(1 + int((chance >= abs(own)).sum())) / (1 + len(chance)) for own in relative[:n]]
    random = {
        "n": len(chance),
        "share": np.quantile(shares[n:], (0.025, 0.975)).tolist(),
        "slope": float(np.quantile(chance, 0.95)),
    }
    values = zip(names, shares.tolist(), relative.tolist(), p, holm(p).tolist(), strict=False)
    keys = ("name", "share", "slope", "p", "p_holm")
    return [{**dict(zip(keys, own, strict=True)), "random": random} for own in values]


def scores_and_slopes(probe: Any, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the score of each row, and its slope in each feature; of linear probes one for all.

    The score of a perceptron is the log odds of the second class.
    """
    if hasattr(probe, "coef_"):
        return X @ probe.coef_[0] + probe.intercept_[0], probe.coef_[:1]
    rows, actives = X, []
    weights = [layer.astype(np.float64) for layer in probe.layers_]
    for layer in weights[:-1]:
        rows = np.maximum(rows @ layer[:-1] + layer[-1], 0)
        actives.append(rows > 0)
    last = weights[-1][:, 1] - weights[-1][:, 0]
    slopes = np.broadcast_to(last[:-1], (len(X), len(last) - 1))
    for layer, active in zip(weights[-2::-1], actives[::-1], strict=True):
        slopes = (slopes * active) @ layer[:-1].T
    return rows @ last[:-1] + last[-1], slopes
