"""Story 7: more films, another array and failed rows are the same command once more; only what is
missing is computed, and the store before is kept. Story 8 goes on with a later version."""

from __future__ import annotations

import shutil

import numpy as np
import numpy.typing as npt
import pytest

import obygaze as og
from stories.films import FILMS, import_films, rows_of_clips, write_films
from stories.workspace import Workspace

FIRST, SECOND = FILMS[1:3]
CLIPS_A_FILM = 4
RUN = "extract run films -b descriptors --workers 1"
FRESH = f"{RUN} --store descriptors=fresh"


def begin(ws: Workspace) -> None:
    """Begin with a film of four clips and their store."""
    import_films(ws, FIRST, per_film=CLIPS_A_FILM)
    ws(RUN)


def add_a_film(ws: Workspace) -> None:
    """Add a film to the manifest; the first film is there no more."""
    shutil.rmtree(ws.path("videos"))
    write_films(ws.path("videos"), SECOND)
    import_both(ws)


def import_both(ws: Workspace) -> None:
    """Import the clips of both films and link them to their videos."""
    ws.write_table("clips.csv", rows_of_clips(FIRST, SECOND, per_film=CLIPS_A_FILM))
    ws("manifest import clips.csv -o films --force")
    ws("manifest link films videos")


def values(
    ws: Workspace, store: str = "films.descriptors", array: str = "clip"
) -> npt.NDArray[np.generic]:
    """Return an array of a store."""
    return og.open_store(store, workspace=ws.folder).matrix(array).values


def assert_same_as_fresh(ws: Workspace, *arrays: str) -> None:
    """Demand that the store has the numbers of one that is made from nothing now."""
    write_films(ws.path("videos"), FIRST, SECOND)
    ws("manifest link films videos")
    ws(FRESH)
    for array in arrays:
        made = values(ws, array=array)
        fresh = values(ws, "fresh", array)
        assert made.tobytes() == fresh.tobytes(), array


def test_only_the_clips_of_a_new_film_are_computed(ws: Workspace) -> None:
    """The film of the clips that are there already is gone, so that they cannot be."""
    begin(ws)
    before = values(ws)
    add_a_film(ws)
    text = ws(RUN).text
    after = values(ws)
    assert after.shape[0] == 2 * CLIPS_A_FILM
    assert after[:CLIPS_A_FILM].tobytes() == before.tobytes()
    ws("store verify films.descriptors")
    # The store before is kept, and named.
    (kept,) = ws.path("stores").glob("films.descriptors.before-*")
    assert kept.name in text
    assert og.open_store(kept).matrix("clip").values.tobytes() == before.tobytes()
    shutil.rmtree(kept)
    again = ws.bytes_of("stores/films.descriptors")
    ws(RUN)
    assert ws.bytes_of("stores/films.descriptors") == again
    assert_same_as_fresh(ws, "clip", "frames", "time_s")


def test_another_array_is_another_store(ws: Workspace) -> None:
    import_films(ws, FIRST, per_film=CLIPS_A_FILM)
    ws(f"{RUN} --arrays clip")
    before = ws.bytes_of("stores/films.descriptors")
    refused = ws(f"{RUN} --arrays frames", code=5)
    assert "it does not have the array frames" in refused.text
    assert "--store descriptors=NAME" in refused.text
    assert ws.bytes_of("stores/films.descriptors") == before
    assert [path.name for path in ws.path("stores").iterdir()] == ["films.descriptors"]
    # What the sentence says to type.
    ws(f"{RUN} --arrays frames --store descriptors=frames")
    ws(f"{FRESH} --arrays clip,frames")
    for store, array in (("films.descriptors", "clip"), ("frames", "frames")):
        expected = values(ws, "fresh", array)
        assert values(ws, store, array).tobytes() == expected.tobytes()


def test_failed_rows_are_tried_again_on_request(ws: Workspace) -> None:
    import_films(ws, FIRST, per_film=CLIPS_A_FILM)
    ws.write(f"videos/{SECOND}.mp4", "a download that broke off")
    import_both(ws)
    failed = ws(RUN, code=3).text
    assert f"{SECOND}-001, {SECOND}-002, {SECOND}-003 and 1 more: failed" in failed
    store = og.open_store("films.descriptors", workspace=ws.folder)
    with pytest.raises(og.ObygazeError, match=SECOND):
        store.matrix("clip")
    before = store.matrix("clip", missing="drop").values
    assert len(before) == CLIPS_A_FILM
    ws.path(f"videos/{FIRST}.mp4").rename(ws.path("first.mp4"))
    write_films(ws.path("videos"), SECOND)
    ws(f"{RUN} --retry-failed")
    assert values(ws)[:CLIPS_A_FILM].tobytes() == before.tobytes()
    assert_same_as_fresh(ws, "clip", "frames", "time_s")
