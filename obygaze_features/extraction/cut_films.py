"""Write the manifest of the windows of whole films."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from obygaze_features.core.console import count
from obygaze_features.core.machine import usable_cores
from obygaze_features.core.options import Option
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.extraction.planning import Workers
from obygaze_features.manifest.io import manifest_sha256, write_manifest
from obygaze_features.manifest.model import Manifest
from obygaze_features.manifest.windows import Grid

GRID = "Grid"
Frames: TypeAlias = Annotated[int | None, Option(least=1, group=GRID)]
Amount: TypeAlias = Annotated[float | None, Option(above=0, group=GRID)]


@dataclass(frozen=True)
class WrittenWindows:
    """A manifest of windows and its file."""

    manifest: Manifest
    grid: Grid
    path: Path

    def to_json(self) -> dict[str, Any]:
        """Return the facts of the manifest."""
        return {
            "name": self.manifest.name,
            "path": str(self.path),
            "sha256": manifest_sha256(self.manifest),
            "windows": len(self.manifest),
            "films": len(self.manifest.films),
            "grid": self.grid.to_json(),
        }

    def __str__(self) -> str:
        films = count(len(self.manifest.films), "film")
        windows = count(len(self.manifest), "window")
        return f"{self.path}: {windows} of {films} ({self.grid})"


def write_windows(
    films: PathLike,
    name: Annotated[str, Option("-o --output", metavar="NAME")],
    *,
    window: Frames = None,
    stride: Frames = None,
    fps: Amount = None,
    seconds: Amount = None,
    every: Amount = None,
    workers: Workers = None,
    force: bool = False,
    workspace: PathLike | None = None,
) -> WrittenWindows:
    """Cut whole films into windows.

    FILMS is a folder of films, a CSV table with the columns movie_id and video, or a manifest whose
    clips are linked to films. Each film is read once. Give --window and --stride, with --fps or
    without, or --seconds and --every.

    Args:
        films: The films.
        name: Name of the manifest.
        window: Pictures in a window.
        stride: Pictures from window to window.
        fps: Take pictures at this rate. [default: all]
        seconds: Seconds of a window.
        every: Seconds from window to window.
        workers: Processes that decode or read.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze manifest windows films/ -o films --window 16 --stride 16
        obygaze manifest windows films.csv -o every-second --seconds 2 --every 1
        obygaze manifest windows mobygaze -o slow --fps 2 --window 16 --stride 8
    """
    from obygaze_features.extraction.windows import make_windows

    chosen_workspace = Workspace.of(workspace)
    path = chosen_workspace.new_manifest(name)
    grid = Grid(
        window=window or 0,
        stride=stride or 0,
        fps=fps or 0,
        seconds=seconds or 0,
        every=every or 0,
    ).check()
    manifest = make_windows(
        str(films),
        grid,
        workspace=chosen_workspace,
        name=path.stem,
        workers=workers or usable_cores(),
    )
    write_manifest(manifest, path, force=force)
    return WrittenWindows(manifest, grid, path)
