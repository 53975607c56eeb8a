"""The array that is read where none is named: the card says it, and the store keeps it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.stores import made_store, some_rows

from obygaze_features.backbones.cards import SHIPPED, find_card
from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.store import export_features, merge, open_store, subset
from obygaze_features.store.importing.features import import_features

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


def test_it_is_the_first_with_one_vector_a_clip(tmp_path: Path) -> None:
    store = made_store(tmp_path / "all", some_rows(10), vectors())
    assert store.default_array == "zoom"
    frames = {name: vectors()[name] for name in ("time_s", "frames")}
    store = made_store(tmp_path / "frames", some_rows(10), frames)
    assert store.default_array == "frames"


@pytest.mark.parametrize(("format", "name"), [("hdf5", "sent.h5"), ("parquet", "sent")])
def test_what_is_made_of_a_store_keeps_it(
    tmp_path: Path, format: Any, name: str
) -> None:
    made_store(tmp_path / "all", some_rows(10), vectors())
    subset(tmp_path / "all", tmp_path / "part", clips=["tt0000100-001"])
    assert open_store(tmp_path / "part").default_array == "zoom"
    export_features(tmp_path / "all", tmp_path / name, format=format)
    import_features(tmp_path / name, tmp_path / "back")
    assert open_store(tmp_path / "back").default_array == "zoom"


def test_the_order_of_merged_stores_does_not_decide_it(tmp_path: Path) -> None:
    """Two imports of one backbone had the default array of the store that was named first."""
    rows = some_rows(30)
    for number, order in enumerate((["zoom", "clip"], ["clip", "zoom"])):
        values = {name: vectors()[name] for name in order}
        some = rows[10 * number : 10 * number + 10]
        made_store(tmp_path / str(number), some, values)
    for pair in (("0", "1"), ("1", "0")):
        with pytest.raises(Mismatch, match="and in the same order"):
            merge([tmp_path / name for name in pair], tmp_path / "both")
    # What the hint says is enough.
    subset(tmp_path / "1", tmp_path / "ordered", arrays=["zoom", "clip"])
    merge([tmp_path / "0", tmp_path / "ordered"], tmp_path / "both")
    assert open_store(tmp_path / "both").default_array == "zoom"
