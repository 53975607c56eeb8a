"""The share of saliency in boxes: by hand; and what boxes are read and refused."""

from pathlib import Path

import numpy as np
import pytest
from support.experiments import VISUAL, films
from support.maps import GRID, token_store

from obygaze.audits.maps.boxes import clip_shares, read_boxes
from obygaze.audits.maps.stores import write_maps
from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.store import Store, open_store


def test_shares_by_hand() -> None:
    maps = np.zeros((2, 2, 2, 2))
    # The mean of the clip is 1: 3 above it, and 3 in frame 1.
    maps[0, 0] = [[4, 0], [0, 0]]
    maps[0, 1] = [[0, 4], [0, 0]]
    inside = np.zeros((2, 2, 2), dtype=bool)
    inside[0, 0, 0] = inside[1, 1, 0] = True
    share = clip_shares(maps, inside)
    assert share.tolist() == [0.5, 0.25]  # a flat map has the share of the area
    share = clip_shares(maps, inside & (np.arange(2) == 0)[:, None, None])
    assert share[0] == 1.0  # only frames with a box count


def maps_of(folder: Path, joined: int = 1) -> Store:
    """Three clips without anything to see; a step of their maps covers some frames."""
    manifest = films(1, 3)
    n_frames = GRID[0] * joined
    store = token_store(folder / "tokens", manifest, VISUAL[:1], n_frames=n_frames)
    ids = [clip.clip_id for clip in manifest]
    maps = [np.zeros((1, *GRID), dtype=np.float16)] * 3
    return open_store(write_maps(folder / "maps", store, ids, ["a"], {}, maps).path)


def test_boxes_of_another_film_are_refused(tmp_path: Path) -> None:
    store = maps_of(tmp_path)
    path = tmp_path / "b.csv"
    path.write_text(
        f"clip_id,movie_id,x0,y0,x1,y1\n{store.clip_ids[0]},brug,0.2,0,1,0.35\n"
    )
    with pytest.raises(Mismatch, match="is of the film 'brug', not"):
        read_boxes(path, store)


@pytest.mark.parametrize("joined", [1, 2])
def test_a_box_is_on_the_step_that_its_frame_is_part_of(tmp_path, joined) -> None:
    """As the sheets have the frames of a clip, so that a person counts them."""
    store = maps_of(tmp_path, joined)
    path = tmp_path / "b.csv"
    for frame in range(GRID[0] * joined):
        path.write_text(
            f"clip_id,x0,y0,x1,y1,frame\n{store.clip_ids[0]},0,0,1,1,{frame}\n"
        )
        (cover,) = read_boxes(path, store).values()
        assert cover.any(axis=(1, 2)).nonzero()[0].tolist() == [frame // joined]


def test_a_box_that_is_none_is_named_with_its_line(tmp_path: Path) -> None:
    store = maps_of(tmp_path)
    path = tmp_path / "b.csv"
    for cells, reason in (
        ("0,0,1,1,9", "frame must be from 0 to 3, got 9"),
        ("0,0,112,80,0", "x1 must be a share of the picture from 0 to 1, got 112"),
        ("0,nan,1,1,0", "y0 must be a share of the picture from 0 to 1, got nan"),
        ("0.8,0,0.2,1,0", "x0 must be less than x1, got 0.8 and 0.2"),
    ):
        path.write_text(f"clip_id,x0,y0,x1,y1,frame\n{store.clip_ids[0]},{cells}\n")
        with pytest.raises(FixInput, match=rf"^line 2: {reason}"):
            read_boxes(path, store)
