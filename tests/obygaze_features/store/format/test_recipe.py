"""Recipes: one spelling, one fingerprint, differences by key, and prose."""

from __future__ import annotations

import hashlib
import json

import pytest
from support.stores import a_recipe

from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.store import Recipe
from obygaze_features.store.read.describe import explain_recipe


def test_the_fingerprint_is_the_sha256_of_the_canonical_json() -> None:
    recipe = Recipe.unknown("pth", {"b": 1.5, "a": ["é", None, True]})
    spelled = '{"source":"pth","told":{"a":["é",null,true],"b":1.5},"unknown":true}'
    assert recipe.canonical == spelled
    assert recipe.fingerprint == hashlib.sha256(spelled.encode("utf-8")).hexdigest()


def test_the_order_of_keys_does_not_matter_and_every_value_does() -> None:
    value = a_recipe().to_json()
    backwards = json.loads(json.dumps(dict(reversed(value.items()))))
    assert Recipe.from_json(backwards).fingerprint == a_recipe().fingerprint
    assert Recipe.from_json(backwards) == a_recipe()
    for section in value:
        other = a_recipe(**{section: ["x"] if section == "levels" else {"name": "x"}})
        assert other.fingerprint != a_recipe().fingerprint


def test_a_recipe_is_not_changed_through_what_it_hands_out() -> None:
    recipe = a_recipe()
    recipe.to_json()["sampling"]["frames"] = 99
    assert recipe.to_json()["sampling"]["frames"] == 3


def test_differences_are_dotted_paths() -> None:
    other = a_recipe(
        sampling={"rule": "uniform", "frames": 3.0},
        compute={"dtype": "float32", "tf32": False},
        levels=["clip"],
    )
    found = [str(difference) for difference in a_recipe().diff(other)]
    assert found == [
        "compute.attention: eager here, (absent) there",
        "compute.tf32: (absent) here, false there",
        'levels: ["clip","pooled","frames"] here, ["clip"] there',
        "sampling.frames: 3 here, 3.0 there",
    ]
    assert a_recipe().diff(a_recipe()) == []
    a_recipe().require(a_recipe(), where="anywhere")
    with pytest.raises(Mismatch, match=r"levels, sampling\.frames differ"):
        a_recipe().require(other, where="somewhere")


def test_a_known_and_an_unknown_recipe_differ_in_every_section() -> None:
    unknown = Recipe.unknown("npz", {})
    keys = {difference.key for difference in a_recipe().diff(unknown)}
    assert {"backbone", "sampling", "unknown", "source"} <= keys
    assert unknown.is_unknown and not a_recipe().is_unknown
    assert (unknown.title, a_recipe().title) == ("unknown (npz)", "toy")


@pytest.mark.parametrize(
    "value",
    [
        {"backbone": {"name": "x"}},
        {**a_recipe().to_json(), "compute": {"scale": float("nan")}},
        {**a_recipe().to_json(), "compute": {"scale": object()}},
    ],
)
def test_what_is_not_a_recipe_is_refused(value) -> None:
    with pytest.raises(FixInput):
        Recipe.from_json(value)
    with pytest.raises(FixInput, match="name its backbone"):
        a_recipe(backbone={})


def test_keys_of_a_later_release_are_kept_and_count() -> None:
    later = Recipe.from_json({**a_recipe().to_json(), "audio": {"rate": 16000}})
    assert later.fingerprint != a_recipe().fingerprint
    assert later.to_json()["audio"] == {"rate": 16000}
    assert "Also recorded: audio (rate 16000)." in explain_recipe(later)


def test_prose_tells_every_value() -> None:
    text = explain_recipe(a_recipe())
    for words in (
        "backbone toy",
        "model.safetensors (sha256 cdcdcdcdcdcd...)",
        "backbone toy (card sha256 abababababab...)",
        "3 frames of each clip were taken by the rule uniform.",
        "decoded by pyav (version class 18).",
        "filter bicubic, size 8",
        "arrays clip, pooled and frames, computed with",
        "attention eager, dtype float32",
        "stored as clip float32, frames float16.",
    ):
        assert words in text
    told = explain_recipe(
        Recipe.unknown("an HDF5 file", {"backbone": "I3D", "layer": None})
    )
    assert "not known" in told and "was told: backbone I3D." in told
    told = explain_recipe(
        a_recipe(
            backbone={"name": "x", "grid": [16, 14], "tap": {"a": True, "b": ""}},
            weights={},
        )
    )
    assert "the backbone x (grid 16 x 14, tap (a yes)).\nIt has no weights." in told


@pytest.mark.parametrize("odd", [None, "x", 7, True, [["a"]], {"name": None}])
@pytest.mark.parametrize("section", [*a_recipe().to_json(), "told"])
def test_a_section_of_another_type_is_refused(section: str, odd: object) -> None:
    """With a fingerprint that fits, these were read, and ended as bugs when they were described."""
    value = (
        a_recipe().to_json()
        if section != "told"
        else Recipe.unknown("npz", {}).to_json()
    )
    if isinstance(odd, list if section == "levels" else dict):
        explain_recipe(Recipe.from_json({**value, section: odd}))
        return
    with pytest.raises(FixInput, match=f"{section} has an invalid value in the recipe"):
        Recipe.from_json({**value, section: odd})


def test_a_recipe_gives_an_array_of_recipes_with_fewer_levels() -> None:
    dtypes = {"clip": "float32", "pooled": "float32", "frames": "float16"}

    def of_levels(*levels: str, **changes: object) -> Recipe:
        storage = {name: dtypes[name] for name in levels}
        return a_recipe(levels=sorted(levels), storage=storage, **changes)

    whole = of_levels("clip", "pooled", "frames")
    for levels in (("pooled",), ("clip", "pooled"), ("frames", "pooled")):
        fewer = of_levels(*levels)
        assert whole.gives(fewer.fingerprint, "pooled")
        assert whole.gives(fewer.fingerprint, "clip") is ("clip" in levels)
        assert not fewer.gives(whole.fingerprint, "pooled")
    other = of_levels("pooled", sampling={"rule": "uniform", "frames": 4})
    assert not whole.gives(other.fingerprint, "pooled")
    dtypes["pooled"] = "float16"
    assert not whole.gives(of_levels("pooled").fingerprint, "pooled")
    imported = Recipe.unknown("npz", {})
    assert imported.gives(imported.fingerprint, "clip")
    assert not imported.gives(whole.fingerprint, "clip")
