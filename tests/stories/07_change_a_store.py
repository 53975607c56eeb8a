"""Story 7: more films, another array and failed rows are the same command once more; only what is
missing is computed, and the store before is kept. Story 8 goes on with a later version."""

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


def import_both(ws: Workspace) -> None:
    """Import the clips of both films and link them to their videos."""
    ws.write_table("clips.csv", rows_of_clips(FIRST, SECOND, per_film=CLIPS_A_FILM))
    ws("manifest import clips.csv -o films --force")
    ws("manifest link films videos")


def values(
    ws: Workspace, store: str = "films.descriptors", array: str = "clip"
) -> npt.NDArray[np.generic]:
    return og.open_store(store, workspace=ws.folder).matrix(array).values


def test_only_what_is_new_or_failed_is_computed(ws: Workspace) -> None:
    """The film of the clips that are there already is gone, so that they cannot be."""
    import_films(ws, FIRST, per_film=CLIPS_A_FILM)
    ws(RUN)
    first = values(ws)
    # A film more, which cannot be read.
    ws.write(f"videos/{SECOND}.mp4", "a download that broke off")
    import_both(ws)
    ws.path(f"videos/{FIRST}.mp4").rename(ws.path("first.mp4"))
    failed = ws(RUN, code=3).text
    assert f"{SECOND}-001, {SECOND}-002, {SECOND}-003 and 1 more: failed" in failed
    store = og.open_store("films.descriptors", workspace=ws.folder)
    with pytest.raises(og.ObygazeError, match=SECOND):
        store.matrix("clip")
    assert store.matrix("clip", missing="drop").values.tobytes() == first.tobytes()
    # The store before is kept, and named.
    (kept,) = ws.path("stores").glob("films.descriptors.before-*")
    assert kept.name in failed
    assert og.open_store(kept).matrix("clip").values.tobytes() == first.tobytes()
    shutil.rmtree(kept)
    write_films(ws.path("videos"), SECOND)
    ws(f"{RUN} --retry-failed")
    after = values(ws)
    assert after.shape[0] == 2 * CLIPS_A_FILM
    assert after[:CLIPS_A_FILM].tobytes() == first.tobytes()
    ws("store verify films.descriptors --hash")
    again = ws.bytes_of("stores/films.descriptors")
    ws(RUN)
    assert ws.bytes_of("stores/films.descriptors") == again
    # All numbers are those of a store that is made from nothing.
    ws.path("first.mp4").rename(ws.path(f"videos/{FIRST}.mp4"))
    ws("manifest link films videos")
    ws(f"{RUN} --store descriptors=fresh")
    for array in ("clip", "frames", "time_s"):
        made = values(ws, array=array)
        assert made.tobytes() == values(ws, "fresh", array).tobytes(), array
    # Another array is another store.
    ws(f"{RUN} --store descriptors=one --arrays clip")
    before = ws.bytes_of("stores/one")
    refused = ws(f"{RUN} --store descriptors=one --arrays frames", code=5)
    assert "it has no array frames" in refused.text
    assert ws.bytes_of("stores/one") == before
