"""The records of the bottlenecks of a run: concept vectors, their heads, what leaks through them.

Everything evaluated here is evaluated on films that the vectors were not found on: each film in
turn is left out (from thirteen films on, several together), and heads are evaluated on films that
they were not fitted on. The vectors and heads in the records are those of all clips; how well such
a model does is in the cells of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.console import Quiet
from obygaze_features.core.files import canonical_json
from obygaze_models.evaluation.predictions import FloatArray
from obygaze_models.models.common import FixTraining
from obygaze_models.models.registry import BANK
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.kinds import candidates
from obygaze_models.protocols.runner.banks import targets_of
from obygaze_models.protocols.runner.features import Features
from obygaze_models.protocols.runner.head_records import head_record
from obygaze_models.protocols.runner.processes import map_jobs
from obygaze_models.protocols.runner.records import Record
from obygaze_models.protocols.runner.vectors import FoundVectors, find_vectors
from obygaze_models.protocols.schedule import Labels
from obygaze_models.protocols.schema import Protocol

N_DIRECTIONS = 200


def concept_records(
    protocol: Protocol,
    stores: Sequence[Features],
    table: ClipTable,
    labels: Labels,
    n_jobs: int = 0,
) -> list[Record]:
    """Return the records on concepts and heads, if the protocol has `concepts = true`.

    Args:
        protocol: The protocol.
        stores: The features.
        table: The clips.
        labels: The class of each clip in each task.
        n_jobs: The number of processes, as in `processes.workers_for`.
    """
    if not protocol.report.concepts or not table.concept_names:
        return []
    asked = [(features, *bank) for features in stores for bank in _banks(protocol)]
    jobs: list[Callable[[], Any]] = []
    for features, settings, models in asked:
        jobs.append(partial(_bank_records, protocol, features, table, labels, settings, models))
        jobs.append(partial(_on_noise, features, table, settings, protocol.fit.seed))
    done = map_jobs(jobs, n_jobs, Quiet())
    records = []
    for found, noise in zip(done[::2], done[1::2], strict=True):
        for concept in found[0]["concepts"]:
            concept["noise"] = noise.get(concept["name"])
        records += found
    return records


def _banks(protocol: Protocol) -> list[tuple[dict[str, Any], list[str]]]:
    """Return each kind of concept vectors that models of a protocol use, and those models."""
    found: dict[bytes, tuple[dict[str, Any], list[str]]] = {}
    for name in protocol.model_names:
        settings = protocol.models[name].settings
        if "tolerance" in settings:
            own = {key: candidates(settings)[0][key] for key in BANK}
            # Here films are left out, not folds of a published file.
            own["tolerance"] = "inner" if own["tolerance"] == "folds" else own["tolerance"]
            found.setdefault(canonical_json(own), (own, []))[1].append(name)
    return list(found.values())


def _bank_records(
    protocol: Protocol,
    features: Features,
    table: ClipTable,
    labels: Labels,
    settings: Mapping[str, Any],
    models: Sequence[str],
) -> list[Record]:
    """Return the record of a kind of concept vectors, and those of the heads on their margins."""
    from obygaze_models.models.concept_report import co_occurrence, concept_matrix, cosines

    base = {"kind": "anatomy", "feature": features.name, "models": models}
    try:
        vectors = find_vectors(features, table, settings, protocol.fit.seed)
    except FixTraining as error:
        return [{**base, "part": "concepts", "concepts": [], "note": error.what}]
    targets = vectors.examples.targets
    records: list[Record] = [
        {
            **base,
            "part": "concepts",
            "settings": dict(settings),
            "n_parts": len(vectors.part_names),
            "concepts": list(_qualities(vectors, protocol.report.replicates)),
            "left_out": dict(vectors.left_out),
            "cosines": cosines(vectors.bank.coef_).tolist(),
            "purity": concept_matrix(vectors.margins, targets).tolist(),
            "co_occurrence": co_occurrence(targets).tolist(),
            "film_leak": _film_leak(vectors),
            "note": "",
        }
    ]
    for name in models:
        for task in dict.fromkeys(pair[0] for pair in protocol.pairs):
            record = head_record(protocol.models[name], vectors, task, labels[task])
            if record:
                head = {"kind": "anatomy", "part": "head", "feature": features.name, "model": name}
                records.append({**head, **record})
    return records


def _qualities(vectors: FoundVectors, n_replicates: int) -> Iterator[Record]:
    """Yield the record of each concept."""
    from obygaze_models.models.concept_report import concept_quality

    targets, seed = vectors.examples.targets, vectors.examples.seed
    scenes = vectors.table.scenes
    places = np.arange(len(vectors.table)) if scenes is None else scenes
    order = np.lexsort((places[vectors.clips], vectors.films))  # clips of a film in its order
    found = concept_quality(
        vectors.margins[order],
        targets[order],
        vectors.films[order],
        vectors.examples.names,
        n_replicates=n_replicates,
        seed=seed,
        n_folds=len(vectors.part_names),
    )
    # The mean quality of random directions, and the 95th percentile.
    X = vectors.examples.gram.X
    random = np.random.default_rng((seed, 2)).standard_normal((X.shape[1], N_DIRECTIONS))
    scores = X @ random
    for column, one in enumerate(found):
        cosine = vectors.part_cosines[:, column]
        metrics = {
            name: {"value": e.value, "ci": [e.by_movie.low, e.by_movie.high]}
            for name, e in one.metrics.items()
        }
        directions: Record = {"n": N_DIRECTIONS}
        for name, values in ranking_quality(scores, targets[:, column]).items():
            directions[name] = {"mean": np.mean(values), "high": np.quantile(values, 0.95)}
        yield {
            "name": one.concept,
            "n": one.n,
            "n_positive": one.n_positive,
            "prevalence": one.prevalence,
            **metrics,
            "auc_against_EN": _auc(vectors, column, "EN"),
            "auc_against_without": _auc(vectors, column, "HN+S"),
            "p": one.p,
            "p_holm": one.p_holm,
            "tolerance": vectors.bank.C_[column],
            "stability": {
                "mean": cosine.mean(),
                "least": cosine.min(),
                "without": vectors.part_names[int(cosine.argmin())],
            },
            "noise": None,  # of another process
            "random_directions": directions,
        }


def _on_noise(
    features: Features, table: ClipTable, settings: Mapping[str, Any], seed: int
) -> dict[str, Record]:
    """Return quality and stability of vectors found in the same way on random features."""
    noise = np.random.default_rng((seed, 1)).standard_normal(features.X.shape)
    try:
        found = find_vectors(replace(features, X=noise.astype(np.float32)), table, settings, seed)
    except FixTraining:
        return {}
    records = {}
    for column, name in enumerate(found.examples.names):
        cosine = found.part_cosines[:, column]
        quality = ranking_quality(found.margins[:, [column]], found.examples.targets[:, column])
        records[name] = {
            **{metric: float(values[0]) for metric, values in quality.items()},
            "stability": {"mean": cosine.mean(), "least": cosine.min()},
        }
    return records


def ranking_quality(scores: FloatArray, target: NDArray[np.int64]) -> dict[str, FloatArray]:
    """Return AP and AUC of each column of scores without ties; targets below 0 are not used."""
    known = target >= 0
    order = np.argsort(-scores[known], axis=0)
    hits = (target[known] == 1)[order]
    n, n_positive = len(hits), int(hits[:, 0].sum())
    places = np.arange(1, n + 1)[:, None]
    ap = (hits * hits.cumsum(axis=0) / places).sum(axis=0) / n_positive
    ranks = (hits * (n + 1 - places)).sum(axis=0)
    auc = (ranks - n_positive * (n_positive + 1) / 2) / (n_positive * (n - n_positive))
    return {"ap": ap, "auc": auc}


def _auc(vectors: FoundVectors, column: int, against: str) -> float | None:
    """Return the AUC of the margins against clips without any concept, or without this one."""
    from sklearn.metrics import roc_auc_score

    y = targets_of(vectors.features, vectors.table, against)[:, vectors.known[column]]
    rows = y >= 0
    if len(np.unique(y[rows])) < 2:
        return None
    return float(roc_auc_score(y[rows], vectors.margins[rows, column]))


def _film_leak(vectors: FoundVectors) -> Record | None:
    from obygaze_models.models.concept_report import film_leak

    try:
        # One set of vectors for all films: those found without a film would identify that film.
        margins = vectors.bank.transform(vectors.features.X)
        return film_leak(margins, vectors.films, seed=vectors.examples.seed)
    except FixTraining:
        return None
