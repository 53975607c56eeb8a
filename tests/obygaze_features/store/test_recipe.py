import json

import numpy as np
import pytest
from support.stores import a_recipe, made_store, some_rows

from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.store import Recipe, records
from obygaze_features.store.recipe import SECTIONS


def test_the_order_of_keys_does_not_matter_and_every_value_does() -> None:
    value = a_recipe().to_json()
    backwards = json.loads(json.dumps(dict(reversed(value.items()))))
    assert Recipe.from_json(backwards) == a_recipe()
    assert Recipe.from_json(backwards).fingerprint == a_recipe().fingerprint
    for section in SECTIONS:
        other = a_recipe(**{section: {"name": "x"}})
        assert other.fingerprint != a_recipe().fingerprint
    # Numbers are written as they were given.
    changed = a_recipe(sampling={"rule": "uniform", "frames": 3.0})
    assert changed.fingerprint != a_recipe().fingerprint


def test_differences_are_dotted_paths() -> None:
    other = a_recipe(
        sampling={"rule": "uniform", "frames": 3.0},
        compute={"dtype": "float32", "tf32": False},
    )
    assert [line for _, line in a_recipe().diff(other)] == [
        "compute.attention: eager here, (absent) there",
        "compute.tf32: (absent) here, false there",
        "sampling.frames: 3 here, 3.0 there",
    ]
    assert a_recipe().diff(a_recipe()) == []
    a_recipe().require(a_recipe(), where="anywhere")
    with pytest.raises(Mismatch, match=r"differ: .*compute\.tf32, sampling\.frames"):
        a_recipe().require(other, where="somewhere")


@pytest.mark.parametrize(
    "value",
    [
        {"backbone": {"name": "x"}},
        {**a_recipe().to_json(), "compute": {"scale": float("nan")}},
        {**a_recipe().to_json(), "compute": {"scale": object()}},
        *({**a_recipe().to_json(), "compute": odd} for odd in (None, "x", 7, [1])),
        {"unknown": True, "source": "npz", "told": "x"},
    ],
)
def test_what_is_not_a_recipe_is_refused(value) -> None:
    with pytest.raises(FixInput):
        Recipe.from_json(value)
    with pytest.raises(FixInput, match="name its backbone"):
        a_recipe(backbone={})


def test_a_recipe_that_no_reader_takes_is_not_written(tmp_path, monkeypatch) -> None:
    """Small lists take five times the bytes with their line feeds and indents."""
    monkeypatch.setattr(records, "MOST_RECIPE_BYTES", 10_000)
    recipe = a_recipe(compute={"lists": [[[1]]] * 300})
    assert len(recipe.canonical) < 5_000
    values = {"clip": np.ones((2, 3), "float32")}
    with pytest.raises(FixInput, match=r"the recipe has .* bytes, expected at most"):
        made_store(tmp_path / "s", some_rows(2), values, recipe=recipe)
    assert not list(tmp_path.iterdir())
