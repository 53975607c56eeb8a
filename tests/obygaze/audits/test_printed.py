"""Values that papers print: the program has the same, and shows them where they belong."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cli import ROOT, call_obygaze
from support.stores import a_recipe, made_store, some_ids, some_rows

from obygaze.audits.printed import (
    printed_shares,
    printed_shares_beside,
)
from obygaze_features.backbones.text import read_prompts
from obygaze_features.store.recipe import space_id_of

PRINTED = ROOT / "tests" / "data" / "papers" / "printed.csv"
CHECKPOINT = "openai/clip-vit-large-patch14"
HASH = "ef" * 32
N = 12
METHODS = {"cooc": "Object Gender Co-Occ", "score": "Gender Score"}


def cells_of(place: str) -> dict[tuple[str, str], str]:
    """Return the cells of a printed table, by row and column."""
    with PRINTED.open(encoding="utf-8", newline="") as stream:
        rows = [one for one in csv.DictReader(stream) if one["place"] == place]
    return {(one["row"], one["column"]): one["value"] for one in rows}


@pytest.mark.parametrize("counted", METHODS)
def test_shares_are_those_of_the_poster(counted: str) -> None:
    of_models = cells_of("gender bias ratio table")
    shares = printed_shares(counted)
    assert len(shares) == 7
    for model, of_model in shares.items():
        name = f"{METHODS[counted]}, {model}"
        printed = (of_models[name, "to-m"], of_models[name, "to-w"])
        assert of_model == tuple(map(float, printed))
    of_things = cells_of("object bias ratio table")
    for thing in ("skateboard", "kitchen", "motorcycle", "baseball"):
        beside = printed_shares_beside(thing, counted)
        assert list(beside) == list(shares)
        for model, of_model in beside.items():
            name = f"{METHODS[counted]}, {model}"
            columns = (f"{thing}, toward men", f"{thing}, toward women")
            printed = [float(of_things[name, column]) for column in columns]
            assert list(of_model) == printed
    assert printed_shares_beside("baseball bat", counted) == {}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a store of CLIP ViT-L14, two groups of clips, and the texts of the paper."""
    random = np.random.default_rng(0)
    backbone = {
        "name": "clip-l14",
        "family": "clip",
        "checkpoint": CHECKPOINT,
        "revision": "main",
        "levels": {
            "clip": "frame-mean",
            "pooled": "token-max",
            "frames": "frame-vector",
        },
    }
    recipe = a_recipe(
        backbone=backbone, weights={"model.safetensors": "cd" * 32, "tensors": HASH}
    )
    clips = random.normal(size=(N, 4)).astype(np.float32)
    frames = np.repeat(clips[:, None], 3, axis=1)
    made_store(
        tmp_path / "stores" / "toy",
        some_rows(N),
        {"clip": clips, "pooled": clips, "frames": frames},
        recipe=recipe,
    )
    ids, _ = some_ids(N)
    for name, of_group in (("x", ids[:6]), ("y", ids[6:])):
        lines = ["clip_id", *of_group, ""]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines), encoding="utf-8")
    write_texts(tmp_path / "texts.npz", "wolfe2023-profession")
    return tmp_path


def write_texts(path: Path, prompts: str, *, without_last: bool = False) -> None:
    """Write made-up vectors of the texts of a set of prompts."""
    of_set = read_prompts(prompts).prompts
    chosen = of_set[:-1] if without_last else of_set
    vectors = np.random.default_rng(1).normal(size=(len(chosen), 4))
    np.savez(
        path,
        embeddings=vectors.astype(np.float32),
        prompt=np.array([prompt.text for prompt in chosen]),
        attribute=np.array([prompt.attribute for prompt in chosen]),
        space_id=np.array(space_id_of(CHECKPOINT, "main", HASH)),
    )


def eat(folder: Path, *attributes: str, **options: Any) -> Any:
    words = ["-C", folder, "audit", "eat", "toy", "--x", folder / "x.csv"]
    words += ["--y", folder / "y.csv", "--text", folder / "texts.npz"]
    words += ["--attributes", *attributes]
    return call_obygaze(*words, **options).ok()
