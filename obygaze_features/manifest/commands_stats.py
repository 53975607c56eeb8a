"""`obygaze manifest stats`: the numbers of a manifest, and their picture."""

from __future__ import annotations

from pathlib import Path

import click

from obygaze_features.core.commands import (
    ExampleCommand,
    Session,
    force_option,
    json_option,
    pass_session,
)
from obygaze_features.core.console import count, table
from obygaze_features.core.figures import figure_stem
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import LEVELS, VIEWS
from obygaze_features.manifest.model import view as view_of
from obygaze_features.manifest.stats import Stats, compute_stats
from obygaze_features.manifest.stats_figure import draw_stats


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze manifest stats obygaze12 --view visual
    obygaze manifest stats obygaze12 --view as_published --json
    obygaze manifest stats obygaze12 --view visual --figure figures/concepts
    """,
)
@click.argument("name")
@click.option("--view", type=click.Choice(VIEWS), help="Count this view. [default: as stored]")
@click.option("--figure", type=click.Path(path_type=Path), help="Draw it: PATH.svg and PATH.png.")
@force_option
@json_option
@pass_session
def stats(
    session: Session,
    name: str,
    view: str | None,
    figure: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Count levels, concepts, films and folds."""
    found = read_manifest(session.workspace.existing_manifest(name))
    seen = view_of(found, view or found.header.view)
    counted = compute_stats(seen)
    if figure is not None:
        title = f"{found.header.dataset}, {seen.header.view.replace('_', ' ')} view"
        for path in draw_stats(counted, figure_stem(figure), title, force=force):
            session.console.note(f"wrote {path}")
    if as_json:
        session.console.json(counted.to_json())
    else:
        session.console.result(_text(counted))


def _text(counted: Stats) -> str:
    unit = counted.unit
    levels = [
        (level, counted.levels[level], _percent(counted.share[level]), _mean(counted, level))
        for level in LEVELS
    ]
    names = sorted({name for counts in counted.concepts.values() for name in counts})
    concepts = [
        [name, *(counted.concepts[level].get(name, 0) for level in LEVELS)] for name in names
    ]
    movies = [[m, sum(n.values()), *n.values()] for m, n in counted.by_movie.items()]
    parts = [
        f"{count(counted.clips, unit)} of {count(counted.movies, 'film')},"
        f" {counted.without_video} without video",
        table(("level", "clips", "share", f"concepts a {unit}"), levels),
        table(("concept", *LEVELS), concepts) if concepts else "",
        table(("film", f"{unit}s", *LEVELS), movies),
        _folds(counted),
    ]
    return "\n\n".join(part for part in parts if part)


def _folds(counted: Stats) -> str:
    rows = [
        (
            name,
            len(folds),
            sum(fold.clips for fold in folds.values()),
            f"{min(_prevalences(counted, name)):.3f} to {max(_prevalences(counted, name)):.3f}",
        )
        for name, folds in counted.folds.items()
        if folds
    ]
    return table(("split", "folds", "clips", "share of S by fold"), rows) if rows else ""


def _prevalences(counted: Stats, name: str) -> list[float]:
    return [fold.positive / fold.clips for fold in counted.folds[name].values()]


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.1f} %"


def _mean(counted: Stats, level: str) -> float | None:
    return counted.concepts_per_clip.get(level)
