"""Concept maps: where in a picture and when in a clip a direction is found, from stored tokens.

A direction is the normal of a concept vector or of a linear model, fitted on one vector for each
clip. Its projection on each spatial token of a clip is a map. The direction that is used for a film
was found on other films.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import RowStatus, Store
from obygaze_features.store.maps import (
    MAPS,
    RANDOM,
    Directions,
    grid_of,
    map_names,
    random_directions,
    write_maps,
)
from obygaze_models.protocols.runner.execute import FitContext, try_fit
from obygaze_models.protocols.runner.models import fit_model
from obygaze_models.protocols.runner.run import Inputs, gather
from obygaze_models.protocols.runner.training import for_clips, training_protocol
from obygaze_models.protocols.schedule import schedule

TOKENS = "tokens"
WITH_DIRECTIONS = "cav, linear, ridge, svm, or a bottleneck"


def write_concept_maps(
    path: Path,
    store: Store,
    manifest: Manifest,
    model: str = "cav",
    task: str = "ENHN_S",
    changes: Sequence[str] = (),
    *,
    n_random: int = 20,
    seed: int = 0,
) -> None:
    """Write a store of maps of the clips of a manifest; a clip without maps has the reason.

    A map is the projection on the direction, of length 1, of each token less the mean of the clips.

    Args:
        path: The folder of the new store.
        store: A store with `tokens`, and with a level of the same width to fit on.
        manifest: The clips and their labels.
        model: The model whose directions are projected, as for `og.train`; "cav" finds every
            concept, a bottleneck has the directions of its concepts.
        task: The task that it learns.
        changes: Keys of the protocol `honest` to change.
        n_random: The number of random directions, the null.
        seed: Their seed.
    """
    protocol = for_clips(training_protocol(model, task, changes), manifest)
    if not protocol.splits.are_grouped:
        raise FixUsage("directions must be found on other films: splits.kind must be one by film")
    inputs = gather(protocol, manifest, manifest.name, {"store": store})
    level, X = inputs.features[0].origin["level"], inputs.features[0].X
    if store.plan.array(TOKENS).tail_shape[-1:] != X.shape[1:]:
        what = f"{level} is not as wide as a token"
        raise FixInput(what, where=store.location, hint="--set 'data.level=[\"pooled\"]'")
    found = directions_by_film(inputs)
    names = next((list(one) for one in found.values() if not isinstance(one, str)), None)
    if names is None:
        raise FixInput("no direction could be found", details=list(map(str, found.values())))
    present = store.matrix(level, clips=inputs.table.ids, missing="drop")
    groups = inputs.table.column(protocol.splits.group).tolist()
    film_of = dict(zip(inputs.table.ids, groups, strict=True))
    clips = present.clip_ids[np.argsort(present.rows)].tolist()
    own = {clip: found.get(film_of[clip], "no fold tests this film") for clip in clips}
    random = random_directions(X.shape[1], n_random, seed)
    facts = {"method": "projection", "model": model, "run": inputs.identity, "seed": seed}
    made = _made(store, own, random, X.mean(axis=0, dtype=np.float64))
    write_maps(path, store, clips, [*names, *random], facts, made)


def directions_by_film(inputs: Inputs) -> dict[str, Directions | str]:
    """Return for each film the directions that were found without it, or why there are none."""
    protocol, features = inputs.protocol, inputs.features[0]
    plan = schedule(protocol, inputs.table, inputs.labels, inputs.usable(features))
    context = FitContext(protocol, inputs.table, inputs.labels, plan, features)
    banks, (model,) = context.new_banks(), context.models.values()
    if model.kind == "mlp":
        raise FixUsage("mlp has no direction", hint=WITH_DIRECTIONS)
    found: dict[str, dict[str, Directions | str]] = {}
    for (train, _), _, split in context.folds:
        data = context.fold_data(train, split, seed=protocol.fit.seed, join_validation=True)
        films = np.unique(plan.groups[split.test]).tolist()
        if any(train not in found.get(film, {}) for film in films):
            fit = try_fit(partial(fit_model, model, data, banks), data)
            one = fit if isinstance(fit, str) else directions_of(fit.estimator, train)
            for film in films:
                found.setdefault(film, {}).setdefault(train, one)
    joined: dict[str, Directions | str] = {}
    for film, parts in found.items():
        reasons = [one for one in parts.values() if isinstance(one, str)]
        whole = (one.items() for one in parts.values() if not isinstance(one, str))
        joined[film] = reasons[0] if reasons else dict(pair for one in whole for pair in one)
    return joined


def directions_of(estimator: Any, name: str) -> Directions:
    """Return the directions of a fitted estimator: of a bottleneck, those of its concepts.

    Args:
        estimator: A linear probe, a bank of concept vectors, or a bottleneck.
        name: The name of the direction of a probe.
    """
    source = getattr(estimator, "bank_", estimator)
    if not hasattr(source, "intercept_"):
        raise FixUsage(f"{type(estimator).__name__} has no direction", hint=WITH_DIRECTIONS)
    names = map(str, getattr(source, "concepts_", [name]))
    return dict(zip(names, np.asarray(source.coef_, dtype=np.float64), strict=True))


def project(
    tokens: NDArray[Any], directions: Directions, origin: NDArray[Any], grid: tuple[int, int, int]
) -> NDArray[np.float32]:
    """Return maps [direction, step, row, column] of the tokens [step, token, width] of a clip.

    Tokens before the patches, such as CLS, are left out.
    """
    vectors = np.stack(list(directions.values()))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    patches = tokens[:, tokens.shape[1] - grid[1] * grid[2] :].astype(np.float32)
    margins = (patches - origin.astype(np.float32)) @ vectors.T.astype(np.float32)
    return np.moveaxis(margins, -1, 0).reshape(-1, *grid)


def mean_maps(
    store: Store, groups: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, NDArray[np.float64]]]:
    """Return for each group of clips the mean map [step, row, column] of each direction.

    Random directions are left out, and so are clips without maps.
    """
    names = [name for name in map_names(store) if not name.startswith(RANDOM)]
    means = {}
    for group, clips in groups.items():
        parts = store.stream(MAPS, clips=clips, missing="drop")
        sums = [(part.values.sum(axis=0, dtype=np.float64), len(part)) for part in parts]
        n = sum(size for _, size in sums)
        if not n:
            raise NotFound(f"no clip of the group {group!r} has maps", where=store.location)
        total = sum((one for one, _ in sums), np.zeros(()))
        means[group] = dict(zip(names, total[: len(names)] / n, strict=True))
    return means


def _made(
    store: Store,
    directions: Mapping[str, Directions | str],
    random: Directions,
    origin: NDArray[np.float64],
) -> Iterator[NDArray[Any] | RowStatus]:
    grid = grid_of(store)
    for part in store.stream(TOKENS, clips=directions):
        for clip, tokens in zip(part.clip_ids.tolist(), part.values, strict=True):
            own = directions[clip]
            if isinstance(own, str):
                yield RowStatus.failed("directions", "FixTraining", own)
            else:
                yield project(tokens, {**own, **random}, origin, grid)
