"""A feature of a frame that does not exist is never computed: of no family, and of no window."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.checkpoints import (
    TINY,
    save_lsmdc,
    save_tiny,
    write_lsmdc_card,
    write_tiny_card,
)
from support.extracted_stores import own_model, run
from support.extraction import film_folder
from support.videos import write_video

from obygaze_features.store import open_store

pytest.importorskip("transformers")
LONG = 1


def at_a_rate(card: Path) -> str:
    """Let a card take one frame a second."""
    text = card.read_text("utf-8")
    card.write_text(f'{text}\n[preset.default]\nsampling = "fps"\n', "utf-8")
    return str(card)


def test_every_family_at_a_rate(tmp_path: Path) -> None:
    """Those that take no mask fail with a reason; the others do not see what does not exist."""
    films = film_folder(tmp_path, 3)
    long_film = Path(films.header.video_root, films.clips[LONG].video)
    write_video(long_film, numbers=range(500), size=(64, 48), options={"g": "25"})
    stores = {}
    weights = {}
    for family in TINY:
        card = at_a_rate(write_tiny_card(family, tmp_path / "cards"))
        weights[card] = str(save_tiny(family, tmp_path / f"weights-{family}"))
        stores[card] = family
    plain = tmp_path / "cards" / "plain.toml"
    plain.write_text(
        'schema = "obygaze-backbone/1"\nlike = "descriptors"\nname = "plain"\ntitle = "x"\n'
        "frames = 3\n[tokens]\ngrid = [3, 1, 1]\n",
        "utf-8",
    )
    stores[at_a_rate(plain)] = "plain"
    card = str(write_lsmdc_card(tmp_path / "cards"))
    weights[card] = str(save_lsmdc(tmp_path / "weights-lsmdc"))
    stores[card] = "lsmdc"
    done = run(films, tmp_path, list(stores), stores=stores, weights=weights)
    for name_of_store, state in zip(stores.values(), done, strict=True):
        store = open_store(state.store)
        if name_of_store == "lsmdc":
            assert state.ok == 3
            assert store.read("mask", [0, LONG]).sum(axis=1).tolist() == [1, 5]
            is_shown = np.isfinite(store.read("time_s", [0])[0]).tolist()
            assert is_shown == [True, False, False, False, False]
            continue
        assert store.status().is_ok.tolist() == [False, True, False], name_of_store
        reason = store.status().reasons[0].sentence
        name = f"tiny-{name_of_store}" if name_of_store in TINY else name_of_store
        n_frames = TINY[name_of_store].frames if name_of_store in TINY else 3
        expected = f"too-short: 1 of {n_frames} frames exist, and {name} needs all"
        assert reason.startswith(expected)
        assert np.isfinite(store.read("time_s", [LONG])).all()


def test_a_clip_with_fewer_pictures_than_frames_says_so(tmp_path: Path) -> None:
    """Evenly sampled, each frame is a picture of the clip; the reader learns that some repeat."""
    films = film_folder(tmp_path, 1)
    video = Path(films.header.video_root, films.clips[0].video)
    write_video(video, numbers=range(3), size=(64, 48))
    run(films, tmp_path, own_model(tmp_path))
    store = open_store(tmp_path / "stores" / "films.own")
    assert store.rows[0].reason == "3 frames repeated to 4"
    # Picture int(i * 3 / 4) at 25 a second.
    np.testing.assert_allclose(store.read("time_s", [0])[0] * 25, [0, 0, 1, 2])
