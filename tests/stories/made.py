"""Workspaces that several stories begin with, made once for all workers of one run of the tests."""

from collections.abc import Callable
from pathlib import Path

from support.once import made_once

from stories.films import features_of, import_features, import_films, labelled_clips
from stories.workspace import Workspace


def begin_with_extracted_films(ws: Workspace) -> None:
    """Begin with the four films, 40 clips, and the sealed store `films.descriptors` of them."""
    _begin_with(ws, _extracted_films)
    ws("manifest link films videos")


def begin_with_planted_and_noise(ws: Workspace) -> None:
    """Begin with 12 films of 20 clips, and two stores of them.

    In the store `planted` the level S and each concept stand out by one standard deviation. The
    store `noise` has no effect planted.
    """
    _begin_with(ws, _planted_and_noise)


def _begin_with(ws: Workspace, make: Callable[[Workspace], None]) -> None:
    def fill(folder: Path) -> None:
        make(Workspace(folder))

    ws.copy_of(made_once("stories", fill, make.__name__))


def _extracted_films(ws: Workspace) -> None:
    import_films(ws)
    ws("extract run films -b descriptors --workers 1")


def _planted_and_noise(ws: Workspace) -> None:
    rows = labelled_clips()
    import_features(ws, rows, features_of(rows, level=1.0, concepts=1.0), "planted")
    import_features(ws, rows, features_of(rows), "noise")
