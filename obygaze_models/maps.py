"""Concept maps: where in a picture and when in a clip a direction is found, from stored tokens.

A direction is the normal of a concept vector or of a linear model, fitted on one vector for each
clip. Its projection on each spatial token of a clip is a map; so is the attention of each query of
an attentive probe. The direction that is used for a film was found on other films.

How much of a map lies in boxes that people drew is tested too: the part of it above the mean of its
clip, so that maps of any method and unit can be compared.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.schema_rules import near
from obygaze_features.manifest.model import Manifest
from obygaze_features.manifest.tables import TableRow, read_table
from obygaze_features.store import RowStatus, Store
from obygaze_features.store.format.schema import MASK
from obygaze_features.store.maps import (
    MAPS,
    RANDOM,
    Directions,
    grid_of,
    map_names,
    random_directions,
    write_maps,
)
from obygaze_models.evaluation.group_tests import compare_groups, with_holm
from obygaze_models.models.common import with_padding
from obygaze_models.models.frames import FrameProbe, attend
from obygaze_models.protocols.kinds import trainable
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.protocols.runner.execute import try_fit
from obygaze_models.protocols.runner.models import fit_model
from obygaze_models.protocols.runner.run import Inputs, gather
from obygaze_models.protocols.runner.training import training_protocol

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
TOKENS, ATTENTION = "tokens", "attention"
PERMUTATIONS = 100_000  # for each direction; a p-value near .05 is then exact to .001


def write_concept_maps(
    path: Path,
    store: Store,
    manifest: Manifest,
    model: str = "cav",
    task: str = "ENHN_S",
    changes: Sequence[str] = (),
    *,
    n_random: int = 20,
) -> None:
    """Write a store of maps of the clips of a manifest; a clip without maps has the reason.

    A map is the projection on the direction, of length 1, of each token less the mean of the clips.
    Of `attention` it is the weight of each token for a query, times the number of tokens.

    Args:
        path: The folder of the new store.
        store: A store with `tokens`, and with a level of the same width to fit on.
        manifest: The clips and their labels.
        model: The model whose directions are projected: those of concepts, or of a linear probe.
            Or `attention`: the attentive probe of `honest-frames`, fitted on the tokens.
        task: The task that it learns.
        changes: Keys of the protocol `honest` (of `attention`: `honest-frames`) to change.
        n_random: The number of random directions, the null.
    """
    known = [name for name in (*trainable(), ATTENTION) if name != "mlp"]
    if model not in known:
        what = f"{model!r} is no model with a direction{near(model, known)}"
        raise FixUsage(what, hint=f"one of {', '.join(known)}")
    if model == ATTENTION:
        only = [f'grid.{key}=["{task}"]' for key in ("train", "test")]
        only += [f'grid.models=["{ATTENTION}"]', f'data.level=["{TOKENS}"]']
        protocol = load_protocol("honest-frames", [*only, *changes])
    else:
        protocol = training_protocol(model, task, manifest, changes)
    if not protocol.splits.are_grouped:
        raise FixUsage(
            "directions must be found on other films: splits.kind must be one by film"
        )
    inputs = gather(protocol, manifest, manifest.name, {"store": store})
    (features,) = inputs.features
    level, X = features.origin["level"], features.vectors
    if store.plan.array(TOKENS).tail_shape[-1:] != X.shape[1:]:
        raise FixInput(
            f"{level} is not as wide as a token", hint="data.level=['pooled']"
        )
    directions_of_film = directions_by_film(inputs)
    groups = inputs.table.column(protocol.splits.group).tolist()
    film_of = dict(zip(inputs.table.ids, groups, strict=True))
    present = np.array(inputs.table.ids)[features.present]
    n_clips = Counter(film_of[clip] for clip in present.tolist())
    names = common_names(directions_of_film, n_clips)
    if not names:
        raise FixInput("no direction could be found", where=store.location)
    random = random_directions(X.shape[1], n_random)
    clips = present[np.argsort(store.select(clips=present).rows)].tolist()
    origin, grid = X.mean(axis=0, dtype=np.float64), grid_of(store)
    show, method = partial(project, origin=origin, grid=grid), "projection"
    if model == ATTENTION:
        show, method = partial(attention_maps, grid=grid), ATTENTION

    def made() -> Iterator[NDArray[Any] | RowStatus]:
        for part in store.stream(TOKENS, clips=clips):
            values = with_padding(part.values, store.real_frames(TOKENS, part.rows))
            for clip, tokens in zip(part.clip_ids.tolist(), values, strict=True):
                of_film = directions_of_film.get(film_of[clip], {})
                if of_film.keys() >= set(names):
                    own = {name: of_film[name] for name in names}
                    is_padding = np.isnan(tokens).all(axis=(1, 2))
                    maps = show(tokens, {**own, **random})
                    maps[:, is_padding] = 0
                    yield maps
                else:
                    yield RowStatus.failed(
                        "directions", "few-films", "none without this film"
                    )

    facts = {"method": method, "model": model, "run": inputs.identity}
    write_maps(path, store, clips, [*names, *random], facts, made())


def common_names(
    directions_of_film: Mapping[str, Directions], n_clips: Mapping[str, int]
) -> list[str]:
    """Return the names of directions that give the most maps.

    Films may lack different directions: a concept that clips of one film alone have cannot be found
    without that film. A clip has maps only if its film has all of the names, so they are those of
    one film or those that all films have.
    """
    known = [list(own) for own in directions_of_film.values() if own]
    if not known:
        return []
    shared = [name for name in known[0] if all(name in names for names in known)]

    def n_maps(names: Sequence[str]) -> int:
        films = [
            film for film, own in directions_of_film.items() if own.keys() >= set(names)
        ]
        return len(names) * sum(n_clips.get(film, 0) for film in films)

    return max([shared, *known], key=n_maps)


def directions_by_film(inputs: Inputs) -> dict[str, Directions]:
    """Return for each film the directions that were found without it."""
    context, seed = inputs.context(inputs.features[0]), inputs.protocol.fit.seed
    banks, (model,) = context.new_banks(), context.models.values()
    found: dict[str, Directions] = {}
    for (train, _), _, split in context.folds:
        data = context.fold_data(train, split, seed=seed, join_validation=True)
        fit = try_fit(partial(fit_model, model, data, banks), data)
        if not isinstance(fit, str):
            own = directions_of(fit.estimator, train)
            for film in np.unique(context.schedule.groups[split.test]).tolist():
                found[film] = {**found.get(film, {}), **own}
    return found


def directions_of(estimator: Any, name: str) -> Directions:
    """Return the directions of a linear probe, by its name, of concepts, or of queries."""
    if isinstance(estimator, FrameProbe):
        queries = estimator.query_ / estimator.scale_
        return {f"query {i}": one for i, one in enumerate(queries, start=1)}
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
    return _on_patches(margins, grid)


def attention_maps(
    tokens: NDArray[Any], directions: Directions, grid: tuple[int, int, int]
) -> NDArray[np.float32]:
    """Return how much each query attends to each place of a clip; 1 is what equal weights would be.

    Random directions are made as long as the queries are on average.
    """
    vectors = np.stack(list(directions.values()))
    lengths = np.linalg.norm(vectors, axis=1)
    is_random = np.char.startswith(list(directions), RANDOM)
    vectors[is_random] *= (lengths[~is_random].mean() / lengths[is_random])[:, None]
    flat = tokens.reshape(1, -1, tokens.shape[-1]).astype(np.float32)
    weights = attend(flat, vectors)[0].reshape(*tokens.shape[:2], -1)
    n_tokens = int((~np.isnan(flat[0, :, 0])).sum())
    return _on_patches(weights * n_tokens, grid)


def _on_patches(values: NDArray[Any], grid: tuple[int, int, int]) -> NDArray[Any]:
    """Return values [step, token, direction] as maps; tokens before the patches are left out."""
    patches = values[:, values.shape[1] - grid[1] * grid[2] :]
    return np.moveaxis(patches, -1, 0).reshape(-1, *grid)


def audit_boxes(store: Store, boxes: Path) -> list[dict[str, Any]]:
    """Return for each direction its mean share in the boxes, and its test.

    The shares of clips are tested against those of the random directions of the store, or where it
    has none against the area of the boxes; they are exchanged only within films.

    Args:
        store: A store of maps.
        boxes: A CSV file with clip_id, x0, y0, x1, y1, in shares of the picture that the model
            sees, and perhaps frame: the number of the frame, from 0. A box without one is on all.
    """
    names, inside = np.array(map_names(store)), read_boxes(boxes, store)
    found = store.matrix(MAPS, clips=list(inside), missing="drop")
    if not len(found):
        hint = "clip ids as the store of maps has them: obygaze store info"
        raise FixInput("no clip with a box has maps", where=str(boxes), hint=hint)
    real = real_steps(store, found.rows)
    masks = [
        inside[clip][own]
        for clip, own in zip(found.clip_ids.tolist(), real, strict=True)
    ]
    values = [
        clip_shares(maps[:, own], mask)
        for maps, own, mask in zip(found.values, real, masks, strict=True)
    ]
    shares, peaks = (np.stack(part, axis=1) for part in zip(*values, strict=True))
    area = np.array([mask[mask.any(axis=(1, 2))].mean() for mask in masks])
    is_random = np.char.startswith(names, RANDOM)
    label, null = "area of the boxes", area
    if is_random.any():
        label, null = "random directions", shares[is_random].mean(axis=0)
    films = np.tile(store.movie_ids_of(found.rows), 2)
    what = ("the boxes", "the rest of the frame")
    tests = [
        compare_groups(
            (str(name), label, *what), own, null, films, permutations=PERMUTATIONS
        )
        for name, own in zip(names[~is_random], shares[~is_random], strict=True)
    ]
    means = {"share_of_y": float(null.mean()), "area": float(area.mean())}
    return [
        {
            **test.to_json(),
            **means,
            "share": float(test.s_x.mean()),
            "peaks": float(hits.mean()),
        }
        for test, hits in zip(with_holm(tests), peaks[~is_random], strict=True)
    ]


def clip_shares(maps: NDArray[Any], inside: Bools) -> tuple[Floats, Floats]:
    """Return for each direction the share of its map in the boxes, and the share of its peaks.

    Only frames with a box count. A map that is nowhere above its mean has the share of the area, as
    has the peak of a frame on which all places are equal.

    Args:
        maps: The maps [direction, step, row, column] of a clip.
        inside: Whether the middle of each place [step, row, column] is in a box.
    """
    steps = inside.any(axis=(1, 2))
    wide, mask = maps.astype(np.float64), inside[steps]
    seen = np.maximum(wide - wide.mean(axis=(1, 2, 3), keepdims=True), 0)[:, steps]
    total, within = seen.sum(axis=(1, 2, 3)), (seen * mask).sum(axis=(1, 2, 3))
    share = np.where(total > 0, within / np.where(total > 0, total, 1), mask.mean())
    frames = wide[:, steps].reshape(len(wide), len(mask), -1)
    is_peak = frames == frames.max(axis=2, keepdims=True)
    hits = (is_peak & mask.reshape(len(mask), -1)).sum(axis=2) / is_peak.sum(axis=2)
    return share, np.asarray(hits.mean(axis=1))


def read_boxes(path: Path, store: Store) -> dict[str, Bools]:
    """Return for each clip of a store whether the middle of each place of its maps is in a box."""
    table = read_table(path, required=("clip_id", "x0", "y0", "x1", "y1"))
    shape = store.plan.array(MAPS).tail_shape[1:]
    down, across = ((np.arange(n) + 0.5) / n for n in shape[1:])
    masks: dict[str, Bools] = defaultdict(lambda: np.zeros(shape, dtype=np.bool_))
    for row in table.rows:
        try:
            clip = row["clip_id"]
            if clip not in store:
                raise ValueError(f"the store of maps has no clip {clip!r}")
            x0, x1 = _ends(row, "x0", "x1")
            y0, y1 = _ends(row, "y0", "y1")
            steps = _steps(row.cells.get("frame", ""), shape[0])
        except ValueError as error:
            hint = (
                "shares of the picture from 0 to 1, "
                f"frames from 0 to {shape[0] - 1}, its clip ids"
            )
            raise FixInput(
                f"line {row.line}: {error}", where=str(path), hint=hint
            ) from error
        box = ((down >= y0) & (down <= y1))[:, None] & ((across >= x0) & (across <= x1))
        masks[clip][steps] |= box
    clips = list(masks)
    real = dict(zip(clips, real_steps(store, store.select(clips).rows), strict=True))
    return {clip: mask for clip, mask in masks.items() if mask[real[clip]].any()}


def _ends(row: TableRow, first: str, last: str) -> tuple[float, float]:
    """Return both ends of a box along one side of the picture."""
    low, high = float(row[first]), float(row[last])
    for name, value in ((first, low), (last, high)):
        if not 0 <= value <= 1:
            raise ValueError(
                f"{name} must be a share of the picture from 0 to 1, got {value:g}"
            )
    if low >= high:
        raise ValueError(f"{first} must be below {last}, got {low:g} and {high:g}")
    return low, high


def _steps(frame: str, n_frames: int) -> int | slice:
    """Return the frame of a box, or all of them where none is named."""
    if not frame:
        return slice(None)
    number = int(frame)
    if not 0 <= number < n_frames:
        raise ValueError(f"frame must be from 0 to {n_frames - 1}, got {number}")
    return number


def real_steps(store: Store, rows: NDArray[np.int64]) -> Bools:
    """Return which steps [clip, step] of maps are real, not the padding of a short clip."""
    n_steps = store.plan.array(MAPS).tail_shape[1]
    masks = [
        one
        for one in store.plan.arrays
        if (one.name, one.tail_shape) == (MASK, (n_steps,))
    ]
    if not masks:
        return np.ones((len(rows), n_steps), dtype=np.bool_)
    return store.arrays.read(masks[0], rows).astype(np.bool_)
