"""The share of saliency in boxes: by hand, and on made-up films in which a patch moves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.experiments import VISUAL, films
from support.maps import GRID, places, token_store

from obygaze.audits.maps.boxes import clip_shares, read_boxes, shares_in_boxes
from obygaze.audits.maps.concept_maps import write_concept_maps
from obygaze.audits.maps.stores import N_RANDOM, map_names, write_maps
from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.store import open_store


def test_shares_by_hand() -> None:
    maps = np.zeros((2, 2, 2, 2))
    # The mean of the clip is 1: 3 above it, and 3 in frame 1.
    maps[0, 0] = [
        [4, 0],
        [0, 0],
    ]
    maps[0, 1] = [[0, 4], [0, 0]]
    inside = np.zeros((2, 2, 2), dtype=bool)
    inside[0, 0, 0] = inside[1, 1, 0] = True
    share = clip_shares(maps, inside)
    assert share.tolist() == [0.5, 0.25]  # a flat map has the share of the area
    share = clip_shares(maps, inside & (np.arange(2) == 0)[:, None, None])
    assert share[0] == 1.0  # only frames with a box count


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder, manifest = tmp_path_factory.mktemp("boxes"), films(4, 40)
    store = token_store(folder / "tokens", manifest, VISUAL[:10])
    write_concept_maps(folder / "maps", store, manifest)
    lines, at = ["clip_id,frame,x0,y0,x1,y1"], places(len(manifest))
    for clip, own in zip(manifest, at, strict=True):
        if VISUAL[0] in clip.concepts:
            for frame, (row, column) in enumerate(own / 5):
                box = (column, row, column + 0.2, row + 0.2)
                lines.append(",".join(map(str, (clip.clip_id, frame, *box))))
    (folder / "boxes.csv").write_text("\n".join(lines), encoding="utf-8")
    return folder / "maps", folder / "boxes.csv"


def test_a_concept_lies_in_the_boxes_of_its_patch(made: tuple[Path, Path]) -> None:
    maps, boxes = made
    store = open_store(maps)
    names = map_names(store)
    shares = shares_in_boxes(store, boxes).shares.mean(axis=1)
    own, other = shares[names.index(VISUAL[0])], shares[names.index(VISUAL[1])]
    assert own > 1.5 * shares[-N_RANDOM:].mean()
    assert own > 3 * other


def test_boxes_of_another_film_are_refused(
    made: tuple[Path, Path], tmp_path: Path
) -> None:
    store = open_store(made[0])
    path = tmp_path / "b.csv"
    path.write_text(
        f"clip_id,movie_id,x0,y0,x1,y1\n{store.clip_ids[0]},brug,0.2,0,1,0.35\n"
    )
    with pytest.raises(Mismatch, match="is of the film 'brug' and of"):
        read_boxes(path, store)


@pytest.mark.parametrize("joined", [1, 2, 4])
def test_a_box_is_on_the_step_that_its_frame_is_part_of(
    tmp_path: Path, joined: int
) -> None:
    """As the sheets have the frames of a clip, so that a person counts them."""
    manifest = films(1, 3)
    store = token_store(
        tmp_path / "tokens", manifest, VISUAL[:1], n_frames=GRID[0] * joined
    )
    ids = [clip.clip_id for clip in manifest]
    maps = [np.zeros((1, *GRID), dtype=np.float16)] * 3
    written = write_maps(tmp_path / "maps", store, ids, ["a"], {}, maps)
    path = tmp_path / "b.csv"
    for frame in range(GRID[0] * joined):
        path.write_text(f"clip_id,x0,y0,x1,y1,frame\n{ids[0]},0,0,1,1,{frame}\n")
        (cover,) = read_boxes(path, open_store(written.path)).values()
        at_step = cover.any(axis=(1, 2))
        assert np.repeat(at_step, joined).nonzero()[0].min() <= frame
        assert frame <= np.repeat(at_step, joined).nonzero()[0].max()
        assert at_step.sum() == 1


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ("0,0,1,1,9", "frame must be from 0 to 3, got 9"),
        ("0,0,1,1,-1", "frame must be from 0 to 3, got -1"),
        ("0,0,112,80,0", "x1 must be a share of the picture from 0 to 1, got 112"),
        ("0,-0.1,1,1,0", "y0 must be a share of the picture from 0 to 1, got -0.1"),
        ("0,nan,1,1,0", "y0 must be a share of the picture from 0 to 1, got nan"),
        ("0.8,0,0.2,1,0", "x0 must be below x1, got 0.8 and 0.2"),
        ("0,0.5,1,0.5,0", "y0 must be below y1, got 0.5 and 0.5"),
        ("0,0,,1,0", "could not convert string to float: ''"),
    ],
)
def test_a_box_that_is_none_is_named_with_its_line(
    made: tuple[Path, Path], tmp_path: Path, cells: str, reason: str
) -> None:
    store = open_store(made[0])
    path = tmp_path / "b.csv"
    path.write_text(f"clip_id,x0,y0,x1,y1,frame\n{store.clip_ids[0]},{cells}\n")
    with pytest.raises(FixInput) as error:
        read_boxes(path, store)
    assert error.value.message == f"line 2: {reason}"
