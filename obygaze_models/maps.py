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
    Grid,
    grid_of,
    map_names,
    write_maps,
)
from obygaze_models.protocols.runner.execute import FitContext, try_fit
from obygaze_models.protocols.runner.models import fit_model
from obygaze_models.protocols.runner.run import Inputs, gather
from obygaze_models.protocols.runner.training import for_clips, training_protocol
from obygaze_models.protocols.schedule import schedule

TOKENS = "tokens"
WITH_DIRECTIONS = "cav, linear, ridge, svm, or a bottleneck"
Maps = NDArray[np.float64]


def write_concept_maps(
    path: Path,
    store: Store,
    manifest: Manifest,
    model: str,
    task: str,
    changes: Sequence[str] = (),
    *,
    n_random: int = 20,
    seed: int = 0,
) -> None:
    """Write a store of maps of the clips of a manifest; a clip without maps has the reason.

    Args:
        path: The folder of the new store.
        store: A store with `tokens`, and with a level of the same width to fit on.
        manifest: The clips and their labels.
        model: The model whose directions are projected, as for `og.train`.
        task: The task that it learns; "cav" learns every concept.
        changes: Keys of the protocol `honest` to change.
        n_random: The number of random directions, the null.
        seed: Their seed.
    """
    protocol = for_clips(training_protocol(model, task, changes), manifest)
    if not protocol.splits.are_grouped:
        raise FixUsage("directions must be found on other films: splits.kind must be one by film")
    inputs = gather(protocol, manifest, manifest.name, {"store": store})
    _check_width(store, inputs)
    origin = inputs.features[0].X.mean(axis=0, dtype=np.float64)
    found = {
        film: one if isinstance(one, str) else one.with_random(n_random, origin, seed)
        for film, one in directions_by_film(inputs).items()
    }
    known = [one for one in found.values() if isinstance(one, Directions)]
    if not known:
        raise FixInput("no direction could be found", details=sorted(map(str, found.values())))
    selection = store.select(clips=[clip for clip in inputs.table.ids if clip in store])
    bad = store.status_of(selection.rows.tolist())
    rows = sorted(row for row in selection.rows.tolist() if row not in bad or bad[row].is_ok)
    clips = store.clip_ids_of(np.array(rows)).tolist()
    films = dict(
        zip(inputs.table.ids, inputs.table.column(protocol.splits.group).tolist(), strict=True)
    )
    own = {clip: found.get(films[clip], "no fold tests this film") for clip in clips}
    facts = {"method": "projection", "model": model, "run": inputs.identity, "seed": seed}
    write_maps(path, store, clips, known[0].names, facts, _made(store, own))


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
        films = [f for f in np.unique(plan.groups[split.test]) if train not in found.get(f, {})]
        if films:
            fit = try_fit(partial(fit_model, model, data, banks), data)
            one = fit if isinstance(fit, str) else directions_of(fit.estimator, train)
            for film in films:
                found.setdefault(str(film), {})[train] = one
    return {film: _joined(list(own.values())) for film, own in found.items()}


def _joined(parts: Sequence[Directions | str]) -> Directions | str:
    """Return all directions of a film as one, or the first reason why one is missing."""
    whole = [one for one in parts if isinstance(one, Directions)]
    if len(whole) < len(parts):
        return next(one for one in parts if isinstance(one, str))
    return Directions(
        tuple(name for one in whole for name in one.names),
        np.concatenate([one.vectors for one in whole]),
        np.concatenate([one.bias for one in whole]),
    )


def directions_of(estimator: Any, name: str) -> Directions:
    """Return the directions of a fitted estimator, of length 1: of a bottleneck, its concepts.

    Args:
        estimator: A linear probe, a bank of concept vectors, or a bottleneck.
        name: The name of the direction of a probe.
    """
    source = getattr(estimator, "bank_", estimator)
    if not hasattr(source, "coef_") or not hasattr(source, "intercept_"):
        raise FixUsage(f"{type(estimator).__name__} has no direction", hint=WITH_DIRECTIONS)
    vectors = np.asarray(source.coef_, dtype=np.float64)
    names = tuple(map(str, getattr(source, "concepts_", [name])))
    length = np.linalg.norm(vectors, axis=1)
    length = np.where(length > 0, length, 1)
    return Directions(names, vectors / length[:, None], source.intercept_ / length)


def project(tokens: NDArray[Any], directions: Directions, grid: Grid) -> NDArray[np.float32]:
    """Return maps [direction, step, row, column] of the tokens [step, token, width] of a clip.

    Tokens before the patches, such as CLS, are left out.
    """
    patches = tokens[:, tokens.shape[1] - grid[1] * grid[2] :].astype(np.float32)
    margins = patches @ directions.vectors.T.astype(np.float32) + directions.bias
    found = np.moveaxis(margins, -1, 0).reshape(-1, *grid)
    return np.asarray(found, dtype=np.float32)


def mean_maps(store: Store, groups: Mapping[str, Sequence[str]]) -> dict[str, Maps]:
    """Return the mean maps [direction, step, row, column] of groups of clips of a store of maps.

    Random directions are left out, and so are clips without maps.
    """
    n_named = sum(not name.startswith(RANDOM) for name in map_names(store))
    means = {}
    for name, clips in groups.items():
        total, n = 0.0, 0
        for part in store.stream(MAPS, clips=[c for c in clips if c in store], missing="drop"):
            total, n = total + part.values[:, :n_named].sum(axis=0, dtype=np.float64), n + len(part)
        if not n:
            raise NotFound(f"no clip of the group {name!r} has maps", where=store.location)
        means[name] = np.asarray(total / n)
    return means


def _made(
    store: Store, directions: Mapping[str, Directions | str]
) -> Iterator[NDArray[Any] | RowStatus]:
    grid = grid_of(store)
    for part in store.stream(TOKENS, clips=directions):
        for clip, tokens in zip(part.clip_ids.tolist(), part.values, strict=True):
            own = directions[clip]
            if isinstance(own, str):
                yield RowStatus.failed("directions", "FixTraining", own)
            else:
                yield project(tokens, own, grid)


def _check_width(store: Store, inputs: Inputs) -> None:
    """Raise an error unless the fitted level is as wide as a token."""
    level, width = inputs.features[0].origin["level"], store.plan.array(TOKENS).tail_shape[-1]
    if inputs.features[0].X.shape[1] != width:
        fitting = [
            spec.name for spec in store.plan.arrays if spec.is_level and spec.tail_shape == (width,)
        ]
        raise FixInput(
            f"{level} has {inputs.features[0].X.shape[1]} dimensions, a token has {width}",
            where=store.location,
            hint=f"--set 'data.level={fitting}'" if fitting else "extract the level pooled too",
        )
