"""`obygaze search` and `obygaze extract text`, on tiny checkpoints with real tokenizers."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.checkpoints import tiny_card, write_tiny_card
from support.cli import call_obygaze
from support.stores import a_recipe, fill_store, plan_store, some_ids, some_values

pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.words import save_text_model

from obygaze_features.backbones.load import load_backbone
from obygaze_features.backbones.text import load_text_tower
from obygaze_features.core.errors import AlreadyThere, Mismatch
from obygaze_features.extraction.text.texts import add_texts
from obygaze_features.store import ArraySpec, Recipe, StoreWriter, TextTable
from obygaze_features.store.format.recipe import space_id_of

PROMPTS = """
schema = "obygaze-prompts/1"
name = "tiny"
templates = ["a {} man", "the {} dog"]
[attributes]
joy = ["happy"]
grief = ["sad", "angry"]
"""
HASH = "ef" * 32


def recipe_of_clip() -> Recipe:
    """The recipe of a CLIP of which nothing but its name is there."""
    backbone = {
        "name": "toy",
        "family": "clip",
        "checkpoint": "toy/clip",
        "revision": "main",
        "levels": {"clip": "frame-mean"},
    }
    return a_recipe(backbone=backbone, weights={"tensors": HASH}, levels=["clip"])


def texts(space_id: str = space_id_of("toy/clip", "main", HASH)) -> TextTable:
    """Three texts of two numbers."""
    vectors = np.array([[1, 0], [0, 1], [1, 1]], dtype=np.float32)
    words = (["joy", "grief", "glee"], ["{}"] * 3, ["up", "down", "up"])
    return TextTable(vectors, *words, space_id)


def test_the_command_writes_a_file_and_says_what_is_in_it(
    tmp_path: Path,
) -> None:
    prompts = tmp_path / "p.toml"
    prompts.write_text(PROMPTS, encoding="utf-8")
    weights = save_text_model("xclip", tmp_path / "weights")
    words = (
        "-C",
        tmp_path,
        "extract",
        "text",
        "-b",
        "tiny-xclip",
        "--prompts",
        prompts,
    )
    words = (*words, "--weights", weights)
    write_tiny_card("xclip", tmp_path / "backbones")
    told = call_obygaze(*words, "--json").ok().json()
    assert (told["texts"], told["width"], told["attributes"]) == (
        6,
        24,
        ["joy", "grief"],
    )
    path = tmp_path / "texts" / "tiny-xclip.tiny.npz"
    assert told["written"] == [str(path)]
    with np.load(path) as kept:
        assert kept["embeddings"].shape == (6, 24)
        assert str(kept["space_id"]) == told["space_id"]
    assert (
        call_obygaze(*words).ok().stdout.startswith("6 texts of 24 numbers: joy, grief")
    )
    # The name of a prompt set, which may come from somebody else, stays in the folder.
    prompts.write_text(PROMPTS.replace('"tiny"', '"/../../pwned"'), encoding="utf-8")
    (other,) = call_obygaze(*words, "--json").ok().json()["written"]
    assert Path(other).parent == tmp_path / "texts"
    assert Path(other).name.startswith("tiny-xclip.pwned-")
    done = call_obygaze(*words, "--store", "none")
    assert (done.code, "no store called 'none'" in done.stderr) == (1, True)


def test_texts_go_into_an_open_store_of_their_space_only(tmp_path: Path) -> None:
    plan_store(
        tmp_path / "s", 4, recipe=recipe_of_clip(), arrays=(ArraySpec("clip", (2,)),)
    )
    with pytest.raises(Mismatch):
        add_texts(tmp_path / "s", texts("another#00"))
    add_texts(tmp_path / "s", texts())
    found = StoreWriter(tmp_path / "s")
    assert found.path.joinpath("data.zarr", "text").is_dir()
    plan_store(
        tmp_path / "t", 4, recipe=recipe_of_clip(), arrays=(ArraySpec("clip", (2,)),)
    )
    fill_store(tmp_path / "t", {"clip": np.ones((4, 2), dtype=np.float32)}).seal()
    with pytest.raises(AlreadyThere, match="sealed") as caught:
        add_texts(tmp_path / "t", texts())
    assert "--text" in (caught.value.hint or "")


def test_the_tower_of_the_store_embeds_any_text(tmp_path: Path) -> None:
    weights = save_text_model("clip", tmp_path / "weights")
    write_tiny_card("clip", tmp_path / "backbones")
    backbone = load_backbone(tiny_card("clip"), weights)
    made: dict[str, Any] = {"sampling": {}, "decoder": {}, "storage": {}}
    arrays = (ArraySpec("clip", backbone.arrays["clip"].shape),)
    recipe = Recipe.of(**backbone.recipe(), **made)
    path = tmp_path / "stores" / "s"
    plan_store(path, 9, 4, recipe=recipe, arrays=arrays)
    values = some_values(9, arrays)
    fill_store(path, values)
    (query,) = (
        load_text_tower(tiny_card("clip"), weights).embed(["a happy man"]).astype(float)
    )
    vectors = values["clip"].astype(float)
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
    expected = vectors @ query / lengths
    done = call_obygaze(
        *("-C", tmp_path, "search", "s", "--text", "a happy man", "--weights", weights),
        *("--top", "3", "-o", tmp_path / "found.csv", "--json"),
    ).ok()
    clips = json.loads(done.stdout)["clips"]
    ids, _ = some_ids(9)
    assert [clip["clip_id"] for clip in clips] == [
        ids[row] for row in np.argsort(-expected)[:3]
    ]
    assert [clip["cosine"] for clip in clips] == pytest.approx(
        sorted(expected)[::-1][:3]
    )
    with (tmp_path / "found.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["cosine"]) for row in rows] == [clip["cosine"] for clip in clips]
    shown = call_obygaze(
        "-C", tmp_path, "search", "s", "--like", ids[0], "--top", "1"
    ).ok()
    assert shown.stdout.splitlines()[0].split() == ["clip_id", "movie_id", "cosine"]
