"""The clips themselves: their levels and concepts, and each film in its order with predictions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.figures import LEVEL_COLORS, LEVEL_NAMES, MUTED, canvas, save
from obygaze_features.manifest.io import manifest_sha256, read_manifest
from obygaze_features.manifest.model import Clip, Manifest, view
from obygaze_features.manifest.stats import compute_stats, draw_stats
from obygaze_models.protocols.runner.records import PREDICTIONS_FILE, Record, Run
from obygaze_models.report.figure import MODEL, PALE, WRONG, Figure, bare
from obygaze_models.report.words import pair_name, pairs_of, primary, stores_of, value_of

FILMS_A_FIGURE = 12
UNKNOWN = "#f6f5f1"
STATS = "How clips share out over levels, and the share of a level's clips that carry a concept."


def manifest_of(run: Run) -> Manifest | None:
    """The manifest that a run was made of, in its view; None where it has moved or changed."""
    about = run.about["manifest"]
    try:
        found = read_manifest(Path(about["path"]))
        if manifest_sha256(found) != about["sha256"]:
            return None
        return view(found, about["view"])
    except (ObygazeError, OSError):
        return None


def draw_clips(run: Run, folder: Path) -> Iterable[Figure]:
    """Levels, and concepts over levels (Figure 2), where the manifest is still there."""
    manifest = manifest_of(run)
    if manifest is None or not any(clip.level for clip in manifest):
        return
    svg, png = draw_stats(compute_stats(manifest), folder / "clips", "")
    yield Figure("clips", "Levels and concepts", STATS, svg, png, "clips")


@dataclass(frozen=True)
class Said:
    """What one model says of a clip, and whether that is right."""

    score: float
    right: bool


@dataclass(frozen=True)
class Strip:
    """One film: a level for each clip in order, and for each model what it says."""

    film: str
    levels: Sequence[str]
    models: Mapping[str, Sequence[Said | None]]


def draw_timelines(run: Run, folder: Path) -> Iterable[Figure]:
    """Films in the order of their clips: annotated levels above, predictions below."""
    if not run.cells or not (run.folder / PREDICTIONS_FILE).is_file() or not run.predictions:
        return
    pair = _pair(run)
    strips = _strips(run, pair)
    for start in range(0, len(strips), FILMS_A_FIGURE):
        part = strips[start : start + FILMS_A_FIGURE]
        number = start // FILMS_A_FIGURE + 1
        name = "timelines" if len(strips) <= FILMS_A_FIGURE else f"timelines-{number}"
        svg, png = _draw(part, folder / name)
        models = ", ".join(dict.fromkeys(name for strip in part for name in strip.models))
        caption = (
            f"Each film from its first clip to its last. Upper strip: annotated level. Below: the "
            f"score of {models}, {pair_name(*pair)}; dashed: one half, or the middle of its "
            "margins. Blue: decided rightly; orange: wrongly. "
            "Gaps: clips that the task leaves out."
        )
        yield Figure(name, "Films in their order", caption, svg, png, "films")


def _draw(strips: Sequence[Strip], stem: Path) -> tuple[Path, Path]:
    rows = max(len(strip.models) for strip in strips)
    height = 0.55 + len(strips) * (0.3 + 0.3 * rows)
    longest = max(len(strip.levels) for strip in strips)
    with canvas(7.6, height, nrows=len(strips), squeeze=False) as (figure, grid):
        for axes, strip in zip(grid[:, 0], strips, strict=True):
            _film(axes, strip, longest)
        grid[0, 0].legend(
            handles=_legend(grid[0, 0], strips),
            loc="lower left",
            bbox_to_anchor=(0, 1.0),
            ncols=6,
            fontsize=7,
            handlelength=1,
            columnspacing=1.2,
            borderpad=0,
        )
        return save(figure, stem)


def _film(axes: Any, strip: Strip, longest: int) -> None:
    for place, level in enumerate(strip.levels):
        axes.bar(place, 0.5, bottom=-0.5, width=1.0, color=LEVEL_COLORS.get(level, UNKNOWN), lw=0)
    for row, said in enumerate(strip.models.values()):
        bottom = -1.7 - 1.2 * row
        axes.axhline(bottom + 0.5, color=MUTED, lw=0.4, ls=(0, (2, 3)), zorder=0)
        for place, one in enumerate(said):
            if one is not None:
                axes.bar(place, 1.0, bottom=bottom, width=1.0, color=PALE, lw=0, zorder=-1)
                color = MODEL if one.right else WRONG
                height = max(one.score, 0.04)
                axes.bar(place, height, bottom=bottom, width=0.9, color=color, lw=0)
    places = [-0.25, *(-1.2 - 1.2 * row for row in range(len(strip.models)))]
    axes.set_yticks(places, [strip.film, *strip.models], fontsize=6.5)
    axes.get_yticklabels()[0].set(fontweight="bold", fontsize=7.5)
    axes.set_ylim(-0.55 - 1.2 * max(len(strip.models), 1), 0.05)
    axes.set_xlim(-0.6, longest - 0.4)
    axes.set_xticks([])
    bare(axes)


def _legend(axes: Any, strips: Sequence[Strip]) -> list[Any]:
    from matplotlib.patches import Patch

    used = {level for strip in strips for level in strip.levels}
    shown = [
        Patch(color=color, label=f"{level} {LEVEL_NAMES[level]}")
        for level, color in LEVEL_COLORS.items()
        if level in used
    ]
    return [*shown, Patch(color=MODEL, label="right"), Patch(color=WRONG, label="wrong")]


def _pair(run: Run) -> tuple[str, str]:
    """The pair of tasks that tells of most clips; of those, what was trained on the same task."""
    sizes = {(c["train"], c["test"]): c["n_test"] for c in run.cells}
    return max(pairs_of(run), key=lambda pair: (sizes[pair], pair[0] == pair[1]))


def _strips(run: Run, pair: tuple[str, str]) -> list[Strip]:
    rows = [row for row in run.predictions if (row["train"], row["test"]) == pair]
    models = {(c["model"], c["feature"]): c for c in _best(run, pair)}
    said = {key: _said(rows, key) for key in models}
    films: dict[str, dict[str, str]] = {}
    for clip in _in_order(run, rows):
        films.setdefault(clip.movie_id, {})[clip.clip_id] = clip.level
    return [
        Strip(
            film,
            list(levels.values()),
            {
                f"{model} ({feature})": [found.get(clip) for clip in levels]
                for (model, feature), found in said.items()
            },
        )
        for film, levels in sorted(films.items())
        if any(clip in found for found in said.values() for clip in levels)
    ]


def _in_order(run: Run, rows: Sequence[Record]) -> list[Clip]:
    """The clips of the manifest as films run; without it, those tested, by id, as S or not."""
    manifest = manifest_of(run)
    if manifest is not None:
        clips = list(manifest)
        if all(clip.start_s is not None for clip in clips):
            return sorted(clips, key=lambda clip: (clip.movie_id, clip.start_s or 0.0))
        return sorted(clips, key=lambda clip: (clip.movie_id, clip.scene or 0))
    seen = {row["clip_id"]: row for row in rows}
    return [
        Clip(clip_id=name, movie_id=row["movie_id"], level="S" if row["y"] == 1 else "EN")
        for name, row in sorted(seen.items())
    ]


def _best(run: Run, pair: tuple[str, str]) -> list[Record]:
    """The model with the best primary metric on each store."""
    metric = primary(run)
    cells = [cell for cell in run.cells if (cell["train"], cell["test"]) == pair]
    own = [[c for c in cells if c["feature"] == store] for store in stores_of(run)]
    return [max(some, key=lambda c: value_of(c, metric) or -1.0) for some in own if some]


def _said(rows: Sequence[Record], key: tuple[str, str]) -> dict[str, Said]:
    """The mean score of each clip over the fits that tested it, and what most decided."""
    found: dict[str, list[Record]] = {}
    for row in rows:
        if (row["model"], row["feature"]) == key:
            found.setdefault(row["clip_id"], []).append(row)
    means = {clip: sum(r["score"] for r in own) / len(own) for clip, own in found.items()}
    scale = _scale(list(means.values()))
    return {
        clip: Said(scale(means[clip]), 2 * sum(r["decision"] == r["y"] for r in own) >= len(own))
        for clip, own in found.items()
    }


def _scale(scores: Sequence[float]) -> Any:
    """Margins are drawn so that 0 is in the middle, as .5 is among probabilities."""
    if all(0 <= score <= 1 for score in scores):
        return lambda score: score
    widest = max(abs(score) for score in scores)
    return lambda score: 0.5 + score / (2 * widest)
