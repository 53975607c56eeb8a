"""Maps of the surest errors of a run, from a store of maps; neither film nor model is needed."""

import textwrap

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import NotFound
from obygaze_features.store import Store
from obygaze_features.store.maps import MAPS, RANDOM, map_names
from obygaze_models.report.figure import WIDTH_INCHES, WRONG, FigureSet, hide_ticks
from obygaze_models.report.films import Bar, surest_errors, timelines
from obygaze_models.report.lookup import ReportRun
from obygaze_models.report.tables import slug

MAX_CLIPS = 6
MAX_DIRECTIONS = 12
MAX_STEPS = 8
PAPER = "#f6f5f1"


def draw_maps(store: Store, run: ReportRun, figures: FigureSet) -> None:
    """Draw the maps of the surest errors: a row for each direction, the first random one last."""
    errors = _first_errors(run)
    in_store = [clip_id for clip_id in errors if clip_id in store]
    known = store.matrix(MAPS, clips=in_store, missing="drop")
    if errors and not len(known):
        hint = f"obygaze explain, with clips such as {' '.join(list(errors)[:3])}"
        raise NotFound(
            "none of the surest errors has maps in this store",
            where=store.location,
            hint=hint,
        )
    names = map_names(store)
    planned = [i for i, name in enumerate(names) if not name.startswith(RANDOM)]
    rows = planned[:MAX_DIRECTIONS]
    if len(names) > len(planned):
        rows.append(len(planned))
    labels = [_label(names[row]) for row in rows]
    clip_ids = known.clip_ids.tolist()[:MAX_CLIPS]
    for clip_id, maps in zip(clip_ids, known.values[:MAX_CLIPS], strict=True):
        model, bar = errors[clip_id]
        about = {
            "model": model,
            "score": f"{bar.scores[model].score:.2f}",
            "clip": clip_id,
            "film": run.film_name(bar.clip.movie_id),
            "level": bar.clip.level or "no level",
        }
        _draw(figures, f"maps-{slug(clip_id)}", maps[rows], labels, about)


def _first_errors(run: ReportRun) -> dict[str, tuple[str, Bar]]:
    """Return the clips of the surest errors, each with the first model that is wrong about it."""
    errors: dict[str, tuple[str, Bar]] = {}
    lines = timelines(run)
    if lines is None:
        return errors
    for model, bars in surest_errors(lines).items():
        for bar in bars:
            errors.setdefault(bar.clip.clip_id, (model, bar))
    return errors


def _label(direction: str) -> str:
    """Return the name of a direction of maps for the side of a figure."""
    name = "at random" if direction.startswith(RANDOM) else direction
    return textwrap.fill(name, 14)


def _draw(
    figures: FigureSet,
    key: str,
    maps: NDArray[np.float16],
    labels: list[str],
    about: dict[str, str],
) -> None:
    """Draw what is above the mean of each map [direction, step, row, column], on one scale."""
    from matplotlib.colors import LinearSegmentedColormap

    n_steps = maps.shape[1]
    evenly_spaced = np.linspace(0, n_steps - 1, min(n_steps, MAX_STEPS))
    steps = evenly_spaced.round().astype(int)
    wide = maps.astype(np.float32)
    seen = np.maximum(wide - wide.mean(axis=(1, 2, 3), keepdims=True), 0)
    n, _, height, width = maps.shape
    picture = seen[:, steps].transpose(0, 2, 1, 3).reshape(n * height, -1)
    inches = 0.6 + n * 0.7 * WIDTH_INCHES / max(len(steps), 6) * height / width
    with figures.draw("maps", key, inches, None, **about) as (_, axes):
        colors = LinearSegmentedColormap.from_list("maps", [PAPER, WRONG])
        axes.imshow(picture, cmap=colors, vmin=0, vmax=max(float(seen.max()), 1e-12))
        for row in range(1, n):
            axes.axhline(row * height - 0.5, color="white", lw=1.5)
        for column in range(1, len(steps)):
            axes.axvline(column * width - 0.5, color="white", lw=1.5)
        axes.set_yticks((np.arange(n) + 0.5) * height - 0.5, labels, fontsize=8)
        middles = (np.arange(len(steps)) + 0.5) * width - 0.5
        axes.set_xticks(middles, steps + 1, fontsize=8)
        axes.set_xlabel("frame", fontsize=8)
        hide_ticks(axes)
