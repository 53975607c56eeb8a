"""Story 8: what would make features of two kinds in one store is refused, names what differs, and
changes nothing."""

import shutil

import pytest
from support.checkpoints import save_tiny, write_tiny_card
from support.cli import begins_with
from support.damage import flip_bits_visibly
from support.videos import write_video

import obygaze as og
from stories.counting_model import (
    EXTRACT,
    assert_whole_and_as_undisturbed,
    begin_after_a_kill,
)
from stories.counting_model import STORE as COUNTED
from stories.films import (
    FILMS,
    PICTURES,
    Row,
    first_number,
    import_films,
    rows_of_clips,
)
from stories.workspace import Workspace

FIRST, SECOND = FILMS[1:3]
CLIPS_A_FILM = 5
RUN = "extract run films -b descriptors --workers 1"
STORE = "stores/films.descriptors"
MOVED = f"{FIRST}-002"
VERSION = "9.9.9"
# Another version, which computes other numbers.
NEWER = f"""\
import obygaze_features
from obygaze_features.store import records

obygaze_features.__version__ = "{VERSION}"
records.NUMBERS += 1
"""


def begin(ws: Workspace) -> None:
    import_films(ws, FIRST, SECOND, per_film=CLIPS_A_FILM)


def moved_rows() -> list[Row]:
    """Return the table of the clips, in which one begins half a second later."""
    rows = rows_of_clips(FIRST, SECOND, per_film=CLIPS_A_FILM)
    for row in rows:
        if row["clip_id"] == MOVED:
            row["start_s"] += 0.5
    return rows


def import_again(ws: Workspace, rows: list[Row]) -> None:
    """Import another table, and link its clips to the films."""
    shutil.rmtree(ws.path("manifests"))
    ws.import_table(rows, "films", "clips")
    ws("manifest link films videos")


def replace_film(ws: Workspace) -> None:
    """Put a film of other pictures in the place of the first one."""
    first = first_number("station")
    write_video(ws.path(f"videos/{FIRST}.mp4"), numbers=range(first, first + PICTURES))


@pytest.mark.check("two processes with torch")
def test_another_version_does_not_fill_a_store(ws: Workspace) -> None:
    begin_after_a_kill(ws)
    before = ws.bytes_of(f"stores/{COUNTED}.next")
    newer = begins_with(ws.path("newer"), NEWER)
    refused = ws.process(EXTRACT, code=5, env=newer).text
    assert "it is computed by a different version of obygaze" in refused
    assert "choose another store name: --store" in refused
    assert ws.bytes_of(f"stores/{COUNTED}.next") == before
    ws(EXTRACT)
    assert_whole_and_as_undisturbed(ws)
    assert VERSION not in ws(f"store info {COUNTED}").text


def test_other_clips_are_named_and_change_nothing(ws: Workspace) -> None:
    begin(ws)
    ws(RUN)
    before = ws.bytes_of(STORE)
    # Films that were moved are the same.
    ws.path("videos").rename(ws.path("elsewhere"))
    ws("manifest link films elsewhere")
    ws(RUN)
    assert ws.bytes_of(STORE) == before

    ws.path("elsewhere").rename(ws.path("videos"))
    import_again(ws, moved_rows())
    assert f"{MOVED}: was 2 s to " in ws(RUN, code=5).text
    import_again(ws, rows_of_clips(FIRST, SECOND, per_film=CLIPS_A_FILM))
    replace_film(ws)
    refused = ws(RUN, code=5).text
    assert "5 clips changed" in refused
    for number in range(1, CLIPS_A_FILM + 1):
        assert f"{FIRST}-00{number}: was from a video of " in refused
    assert SECOND not in refused
    assert ws.bytes_of(STORE) == before


def test_a_frame_that_does_not_exist_is_not_computed(ws: Workspace) -> None:
    """One picture a second: of a clip of two seconds there are two of three frames."""
    import_films(ws, FIRST, per_film=CLIPS_A_FILM)
    card = write_tiny_card("clip", ws.path("backbones"))
    save_tiny("clip", ws.path("weights"))
    text = card.read_text(encoding="utf-8")
    card.write_text(f'{text}\n[preset.default]\nsampling = "fps"\n', encoding="utf-8")
    run = "extract run films -b tiny-clip --weights weights --workers 1"
    assert "too-short: 2 of 3 frames exist" in ws(run, code=1).text
    store = og.open_store("films.tiny-clip", workspace=ws.folder)
    assert store.status().counts == {"ok": 0, "failed": CLIPS_A_FILM}


def test_a_clip_of_a_damaged_film_is_refused_unless_damage_is_accepted(ws) -> None:
    """The second clip is from 2 s to 3 s, at 25 pictures a second."""
    import_films(ws, FIRST, per_film=CLIPS_A_FILM)
    film = ws.path(f"videos/{FIRST}.mp4")
    whole = film.rename(ws.path("whole.mp4"))
    flip_bits_visibly(whole, film, {55, 60, 65})
    ran = ws(RUN, code=3).text
    assert f"{FIRST}-002: failed: damaged: " in ran
    store = og.open_store("films.descriptors", workspace=ws.folder)
    assert store.status().is_ok.tolist() == [True, False, True, True, True]
    assert store.status().reasons[1].sentence.startswith("damaged: ")
    ws(f"{RUN} --accept-damaged --store descriptors=taken")
    taken = og.open_store("taken", workspace=ws.folder)
    assert taken.status().is_ok.all()
    assert "frames damaged" in taken.rows[1].reason
    remarks = [row.reason for row in taken.rows]
    assert [bool(remark) for remark in remarks] == [False, True, False, False, False]
