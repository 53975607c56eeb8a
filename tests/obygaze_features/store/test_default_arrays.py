"""The array that is read where none is named: the card says it, and the store keeps it."""

from pathlib import Path

import pytest

from obygaze_features.backbones.cards import SHIPPED, find_card
from obygaze_features.core.errors import FixInput


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
