"""`obygaze manifest windows`: it reads films, so that it is among the commands of extraction."""

from __future__ import annotations

import click

from obygaze_features.core.commands import Session, command, force_option, option_group
from obygaze_features.core.console import count
from obygaze_features.core.machine import usable_cores
from obygaze_features.manifest.io import manifest_sha256, write_manifest
from obygaze_features.manifest.windows import Grid


@command()
@click.argument("films")
@click.option("-o", "name", required=True, help="Name of the manifest.")
@option_group(
    "Grid",
    click.option("--window", type=click.IntRange(1), help="Pictures in a window."),
    click.option("--stride", type=click.IntRange(1), help="Pictures from window to window."),
    click.option("--fps", type=float, help="Take pictures at this rate. [default: all]"),
    click.option("--seconds", type=float, help="Seconds of a window."),
    click.option("--every", type=float, help="Seconds from window to window."),
)
@click.option("--workers", type=click.IntRange(1), help="Processes that read. [default: cores]")
@force_option
def windows(
    session: Session,
    /,
    films: str,
    name: str,
    workers: int | None,
    force: bool,
    **options: float | None,
) -> None:
    """Cut whole films into windows.

    FILMS is a folder of films, a CSV table with the columns movie_id and video, or a manifest whose
    clips are linked to films. Each film is read once. Give --window and --stride, with --fps or
    without, or --seconds and --every.

    Examples:
        obygaze manifest windows films/ -o films --window 16 --stride 16
        obygaze manifest windows films.csv -o every-second --seconds 2 --every 1
        obygaze manifest windows mobygaze -o slow --fps 2 --window 16 --stride 8
    """
    from obygaze_features.extraction.windows import make_windows

    path = session.workspace.manifest(name)
    grid = Grid(**{key: value or 0 for key, value in options.items()}).check()  # type: ignore[arg-type]
    cores = workers or usable_cores()
    made = make_windows(films, grid, workspace=session.workspace, name=path.stem, workers=cores)
    write_manifest(made, path, force=force)
    facts = {"name": made.name, "path": str(path), "sha256": manifest_sha256(made)}
    counts = {"windows": len(made), "movies": len(made.movies), "grid": grid.to_json()}
    size = f"{count(len(made), 'window')} of {count(len(made.movies), 'film')}"
    session.console.show({**facts, **counts}, f"{path}: {size} ({grid})")
