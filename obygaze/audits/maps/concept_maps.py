"""Concept maps: where in a picture and when in a clip a direction is found, from stored tokens.

A direction is the normal of a concept vector or of a linear model, fitted on one vector for each
clip. Its projection on each spatial token of a clip is a map. Directions for a film were fitted
without this film.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from obygaze.audits.maps.written import WrittenMaps, new_folder_of
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.options import Option
from obygaze_features.core.schema_rules import near
from obygaze_features.core.workspace import PathLike
from obygaze_features.manifest import Manifest, read_manifest
from obygaze_features.store import RowStatus, Store, open_store
from obygaze_features.store.maps import (
    Directions,
    grid_of,
    random_directions,
    write_maps,
)
from obygaze_models.protocols.kinds import DEFAULT_TASK, trainable

if TYPE_CHECKING:
    from obygaze_models.protocols import Inputs

TOKENS = "tokens"
NOT_LINEAR = ("mlp",)


def write_concept_maps(
    path: Annotated[PathLike, Option("-o --output", metavar="NAME")],
    store: PathLike | Store,
    manifest: PathLike | Manifest,
    model: Annotated[str, Option("--model", metavar="MODEL")] = "cav",
    *,
    workspace: PathLike | None = None,
) -> WrittenMaps:
    """Project concept vectors, or the direction of a model, on the stored tokens of each clip.

    For each film, the directions are those that were fitted without this film. MODEL is cav (every
    concept), linear, ridge, svm, or a bottleneck, whose concepts are shown; a model other than cav
    learns EN_S. Needs no film and no weights.

    A map is the projection on the direction, of length 1, of each token less the mean of the clips.
    A clip without maps has the reason.

    Args:
        path: The new store.
        store: A store with tokens, and with an array of the same width to fit on.
        manifest: The clips and their labels.
        model: The model whose directions are projected.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze explain concepts films.xclip-b16-k400 films -o concept-maps
        obygaze explain concepts films.clip-b16 films --model ridge -o ridge-maps
    """
    folder = new_folder_of(path, workspace)
    clips = read_manifest(manifest, workspace=workspace)
    _write(
        folder,
        open_store(store, workspace=workspace),
        clips,
        model,
    )
    return WrittenMaps.at(folder)


def _write(
    path: Path,
    store: Store,
    manifest: Manifest,
    model: str,
) -> None:
    """Fit the directions of each film on the others, and write the store of their maps."""
    from obygaze_models.models.common import with_padding
    from obygaze_models.protocols import gather, training_protocol

    models_with_direction = [name for name in trainable() if name not in NOT_LINEAR]
    if model not in models_with_direction:
        problem = f"{model!r} is no model with a direction{near(model, models_with_direction)}"
        raise FixUsage(problem, hint=f"one of {', '.join(models_with_direction)}")
    protocol = training_protocol(model, DEFAULT_TASK, manifest)
    inputs = gather(protocol, manifest, manifest.name, {"store": store})
    (features,) = inputs.features
    array = features.origin["array"]
    X = features.vectors
    if store.plan.array(TOKENS).tail_shape[-1:] != X.shape[1:]:
        raise FixInput(
            f"{array} is not as wide as a token", hint="a store with the array pooled"
        )
    directions_of_film = directions_by_film(inputs)
    groups = inputs.table.column(protocol.splits.group).tolist()
    film_of = dict(zip(inputs.table.ids, groups, strict=True))
    present = np.array(inputs.table.ids)[features.present]
    n_clips = Counter(film_of[clip] for clip in present.tolist())
    names = common_names(directions_of_film, n_clips)
    if not names:
        raise FixInput("no direction could be found", where=store.location)
    random = random_directions(X.shape[1])
    clips = present[np.argsort(store.select(clips=present).rows)].tolist()
    origin = X.mean(axis=0, dtype=np.float64)
    grid = grid_of(store)

    def results_of_clips() -> Iterator[NDArray[Any] | RowStatus]:
        for part in store.stream(TOKENS, clips=clips):
            values = with_padding(part.values, store.real_frames(TOKENS, part.rows))
            for clip, tokens in zip(part.clip_ids.tolist(), values, strict=True):
                of_film = directions_of_film.get(film_of[clip], {})
                if not of_film.keys() >= set(names):
                    yield RowStatus.failed(
                        "directions", "few-films", "none without this film"
                    )
                    continue
                named = {name: of_film[name] for name in names}
                is_padding = np.isnan(tokens).all(axis=(1, 2))
                maps = project(tokens, {**named, **random}, origin, grid)
                maps[:, is_padding] = 0
                yield maps

    facts = {"method": "projection", "model": model, "run": inputs.identity}
    write_maps(path, store, clips, [*names, *random], facts, results_of_clips())


def common_names(
    directions_of_film: Mapping[str, Directions], n_clips: Mapping[str, int]
) -> list[str]:
    """Return the names of directions that give the most maps.

    Films may lack different directions: a concept that clips of one film alone have cannot be found
    without that film. A clip has maps only if its film has all of the names, so they are those of
    one film or those that all films have.
    """
    names_by_film = [
        list(of_film) for of_film in directions_of_film.values() if of_film
    ]
    if not names_by_film:
        return []
    in_all_films = set(names_by_film[0]).intersection(*names_by_film)
    shared = [name for name in names_by_film[0] if name in in_all_films]

    def n_maps(names: Sequence[str]) -> int:
        films = [
            film
            for film, of_film in directions_of_film.items()
            if of_film.keys() >= set(names)
        ]
        return len(names) * sum(n_clips.get(film, 0) for film in films)

    return max([shared, *names_by_film], key=n_maps)


def directions_by_film(inputs: Inputs) -> dict[str, Directions]:
    """Return for each film the directions that were found without it."""
    from obygaze_models.protocols.runner.execute import try_fit
    from obygaze_models.protocols.runner.models import fit_model

    context = inputs.context(inputs.features[0])
    seed = inputs.protocol.fit.seed
    banks = context.new_banks()
    (model,) = context.models.values()
    directions: dict[str, Directions] = {}
    for (train, _), _, split in context.folds:
        data = context.fold_data(train, split, seed=seed, join_validation=True)
        fit = try_fit(partial(fit_model, model, data, banks), data)
        if isinstance(fit, str):
            continue
        of_fold = directions_of(fit.estimator, train)
        for film in np.unique(context.schedule.groups[split.test]).tolist():
            directions[film] = {**directions.get(film, {}), **of_fold}
    return directions


def directions_of(estimator: Any, name: str) -> Directions:
    """Return the directions of a linear probe, by its name, or of concepts."""
    source = getattr(estimator, "bank_", estimator)
    names = map(str, getattr(source, "concepts_", [name]))
    return dict(zip(names, np.asarray(source.coef_, dtype=np.float64), strict=True))


def project(
    tokens: NDArray[Any],
    directions: Directions,
    origin: NDArray[Any],
    grid: tuple[int, int, int],
) -> NDArray[np.float32]:
    """Return maps [direction, step, row, column] of the tokens [step, token, width] of a clip."""
    vectors = np.stack(list(directions.values()))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    margins = (
        tokens.astype(np.float32) - origin.astype(np.float32)
    ) @ vectors.T.astype(np.float32)
    # Tokens before the patches are left out.
    patches = margins[:, margins.shape[1] - grid[1] * grid[2] :]
    return np.moveaxis(patches, -1, 0).reshape(-1, *grid)
