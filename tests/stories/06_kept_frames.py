"""Story 6: pictures that were kept once serve the backbone of next year without the films, also
where clips have been added since."""

import shutil

import numpy as np
import numpy.typing as npt

import obygaze as og
from stories.films import FILMS, import_films, rows_of_clips, write_films
from stories.own_models import numbers_in, numbers_of_films, write_model
from stories.workspace import Workspace

FILMS_HERE = FILMS[1:3]
CLIPS_A_FILM = 4
KEPT = "films.frames-16x120x160-bilinear-squash"
NEXT_YEAR = "extract run films -b blocks.py:blocks --workers 1"


def keep_pictures(ws: Workspace, of: str = "blocks.py:many_blocks") -> None:
    """Begin with 16 pictures of each clip of two films, and without the films."""
    import_films(ws, *FILMS_HERE, per_film=CLIPS_A_FILM)
    write_model(ws)
    ws(f"extract run films -b frames:{of} --licence CC-BY-4.0 --workers 1")
    shutil.rmtree(ws.path("videos"))


def features(ws: Workspace, store: str, array: str) -> npt.NDArray[np.generic]:
    return og.open_store(store, workspace=ws.folder).matrix(array).values


def test_the_backbone_of_next_year_sees_the_pictures_of_the_films(ws) -> None:
    keep_pictures(ws)
    ws(f"store verify {KEPT}")
    ws(NEXT_YEAR)
    expected = numbers_of_films(FILMS_HERE, CLIPS_A_FILM)
    assert numbers_in(features(ws, "films.blocks", "frames")) == expected


def test_features_of_pictures_are_those_of_films_to_the_last_bit(ws: Workspace) -> None:
    keep_pictures(ws, of="descriptors")
    ws("extract run films -b descriptors --store descriptors=of-pictures --workers 1")
    ws.path("stores/films.frames-16x256-nearest-squash").rename(ws.path("elsewhere"))
    write_films(ws.path("videos"), *FILMS_HERE)
    ws("extract run films -b descriptors --store descriptors=of-films --workers 1")
    for array in ("clip", "pooled", "frames", "time_s"):
        of_pictures = features(ws, "of-pictures", array)
        of_films = features(ws, "of-films", array)
        assert of_pictures.tobytes() == of_films.tobytes(), array


def test_kept_pictures_leave_the_workspace_by_no_command(ws: Workspace) -> None:
    keep_pictures(ws)
    for line in (f"store push {KEPT} given", f"store export {KEPT} given.npz"):
        assert "pictures of films" in ws(line, code=2).text
        assert not ws.path("given").exists()


def add_clips(ws: Workspace) -> None:
    """Add to the manifest a film whose video is there, and one whose video cannot be read."""
    films = (*FILMS_HERE, "station", "harbour")
    ws.write_table("clips.csv", rows_of_clips(*films, per_film=CLIPS_A_FILM))
    ws("manifest import clips.csv -o films --force")
    write_films(ws.path("videos"), "station")
    ws.write("videos/harbour.mp4", "no film at all")
    ws("manifest link films videos")


def test_kept_pictures_serve_where_clips_have_been_added_since(ws: Workspace) -> None:
    keep_pictures(ws)
    add_clips(ws)
    ws(NEXT_YEAR, code=3)
    (status,) = ws("extract status films.blocks --json").json()["stores"]
    n_clips = 3 * CLIPS_A_FILM
    assert status["ok"] == n_clips
