"""The array that is read where none is named: the card says it, and the store keeps it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.stores import made_store, some_rows

from obygaze_features.backbones.cards import SHIPPED, find_card
from obygaze_features.core.errors import FixInput
from obygaze_features.store import export_features, open_store, subset
from obygaze_features.store.importing import import_features

# Statistics of frames and parts of sound: mean and deviation. Networks: the maximum, as the paper.
OF_CLIP = ("descriptors", "sound-descriptors", "speech")


def vectors(n_clips: int = 10) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {
        "frames": random.standard_normal((n_clips, 3, 4)).astype(np.float32),
        "time_s": random.random((n_clips, 3)),
        "zoom": random.standard_normal((n_clips, 5)).astype(np.float32),
        "clip": random.standard_normal((n_clips, 4)).astype(np.float32),
        "pooled": random.standard_normal((n_clips, 6)).astype(np.float32),
    }


def test_each_card_names_its_default_array() -> None:
    for path in SHIPPED.glob("*.toml"):
        card = find_card(str(path))
        of_vectors = [name for name, a in card.arrays.items() if len(a.shape) == 1]
        is_of_clip = card.name in OF_CLIP or card.family.medium == "words"
        assert of_vectors[0] == ("clip" if is_of_clip else "pooled"), path.stem


@pytest.mark.parametrize(
    ("format", "name"), [("npz", "sent.npz"), ("hdf5", "sent.h5"), ("parquet", "sent")]
)
def test_what_is_made_of_a_store_keeps_it(
    tmp_path: Path, format: Any, name: str
) -> None:
    made_store(tmp_path / "all", some_rows(10), vectors())
    subset(tmp_path / "all", tmp_path / "part", clips=["tt0000100-001"])
    assert open_store(tmp_path / "part").default_array == "zoom"
    of_folder = format if format == "parquet" else None
    export_features(tmp_path / "all", tmp_path / name, format=of_folder)
    import_features(tmp_path / name, tmp_path / "back")
    assert open_store(tmp_path / "back").default_array == "zoom"


def test_a_default_array_changes_no_hash_and_must_be_there(tmp_path: Path) -> None:
    text = (SHIPPED / "descriptors.toml").read_text()
    own = tmp_path / "descriptors.toml"
    own.write_text(text.replace('default_array = "clip"', 'default_array = "pooled"'))
    card = find_card(str(own))
    assert next(iter(card.arrays)) == "pooled"
    assert card.sha256 == find_card("descriptors").sha256
    wrong = {
        "poled": "unknown array 'poled' (did you mean 'pooled'?)",
        # The first vector would be read in its place.
        "frames": "must have one vector a clip, frames has several",
    }
    for name, said in wrong.items():
        array = f'default_array = "{name}"'
        own.write_text(text.replace('default_array = "clip"', array))
        with pytest.raises(FixInput) as refusal:
            find_card(str(own))
        assert said in "".join(refusal.value.details)


def test_the_card_reads_the_default_array(tmp_path: Path) -> None:
    store = made_store(tmp_path / "all", some_rows(10), vectors())
    assert store.record.arrays[0].name == "frames"
    assert 'store.matrix("zoom"' in (tmp_path / "all/README.md").read_text("utf-8")
