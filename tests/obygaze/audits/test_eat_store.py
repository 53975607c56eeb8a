"""Association audits of a store: groups by words or lists, texts of the same space only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cli import Result, call_obygaze
from support.stores import a_recipe, made_store, some_ids, some_rows

from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store.recipe import space_id_of

HASH = "ef" * 32
SPACE = space_id_of("toy/clip", "main", HASH)
N = 20


def recipe(**backbone: Any) -> Any:
    document = {
        "name": "toy",
        "family": "clip",
        "checkpoint": "toy/clip",
        "revision": "main",
        "levels": {
            "clip": "frame-mean",
            "pooled": "token-max",
            "frames": "frame-vector",
        },
        **backbone,
    }
    return a_recipe(
        backbone=document, weights={"model.safetensors": "cd" * 32, "tensors": HASH}
    )


def texts(path: Path, space_id: str | None = SPACE, width: int = 2) -> str:
    """Write a file of three texts; None as the space: the file does not name it."""
    vectors = np.eye(width, dtype=np.float32)[[0, 1, 0]]
    vectors[2] += np.float32(0.1)
    return text_file(path, vectors, ["up", "down", "up"], space_id)


def text_file(
    path: Path, vectors: Any, attributes: list[str], space_id: str | None = SPACE
) -> str:
    arrays: dict[str, Any] = {"embeddings": vectors, "attribute": np.array(attributes)}
    if space_id is not None:
        arrays["space_id"] = np.array(space_id)
    np.savez(path, **arrays)
    return str(path)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A store of three arrays, a file of texts, and the manifest: S leans to "up", EN to "down"."""
    clips, films = some_ids(N)
    levels = ["S" if i % 2 else "EN" for i in range(N)]
    header = Header("toy", {"Body": "visual"})
    rows = [
        Clip(clip, film, level=level, concepts=("Body",) if level == "S" else ())
        for clip, film, level in zip(clips, films, levels, strict=True)
    ]
    write_manifest(
        Manifest("toy", header, tuple(rows)), tmp_path / "manifests" / "toy.toml"
    )
    random = np.random.default_rng(0)
    lean = np.array([[1.0, 0.2] if level == "S" else [0.2, 1.0] for level in levels])
    values = (lean + 0.05 * random.normal(size=lean.shape)).astype(np.float32)
    frames = np.repeat(values[:, None], 3, axis=1)
    made_store(
        tmp_path / "stores" / "toy",
        some_rows(N),
        {"clip": values, "pooled": values, "frames": frames},
        recipe=recipe(),
    )
    texts(tmp_path / "texts.npz")
    return tmp_path


def eat(
    place: Path, *words: str, x: str = "level == S", y: str = "level == EN"
) -> Result:
    if "--text" not in words:
        words = (*words, "--text", str(place / "texts.npz"))
    return call_obygaze(
        "-C", place, "audit", "eat", "toy", *words, "--x", x, "--y", y, "--json"
    )


def test_groups_by_expression_are_tested_within_films(place: Path) -> None:
    document = eat(place, "toy", "--attributes", "up", "down").ok().json()
    assert (document["n_x"], document["n_y"], document["a"], document["b"]) == (
        10,
        10,
        "up",
        "down",
    )
    assert document["effect_size"] > 1.5
    assert (document["manifest"], document["view"]) == ("toy", "visual")
    # Four films of five clips, 2 or 3 of them S: 10 ** 4 splits within films, one as far up.
    assert document["p_blocked"]["greater"] == 1 / 10**4
    assert document["blocks"]["n_shared"] == 4
    # The texts have two attributes: they need not be named.
    assert eat(place, "toy").ok().json()["effect_size"] == document["effect_size"]


def test_groups_by_lists_of_clips(place: Path) -> None:
    clips, _ = some_ids(N)
    for name, ids in (("x", clips[1::2]), ("y", clips[0::2])):
        (place / f"{name}.csv").write_text(
            "clip_id\n" + "\n".join(ids) + "\n", encoding="utf-8"
        )
    document = eat(place, x=str(place / "x.csv"), y=str(place / "y.csv")).ok().json()
    assert document["p_blocked"]["greater"] == 1 / 10**4
    assert (document["x"], document["y"]) == ("x", "y")
    done = eat(place, x=str(place / "x.csv"), y=str(place / "x.csv"))
    assert (done.code, "10 clips are in both groups" in done.stderr) == (1, True)
    done = eat(place, y=str(place / "x.csv"))
    assert (done.code, "needs a manifest to select clips" in done.stderr) == (2, True)


def test_texts_of_another_space_are_refused(place: Path) -> None:
    other = texts(place / "o.npz", space_id_of("toy/clip", "main", "00" * 32))
    done = eat(place, "toy", "--text", other)
    assert (done.code, "different embedding spaces" in done.stderr) == (5, True)
    pinned = texts(place / "p.npz", space_id_of("toy/clip", "0123abc", HASH))
    assert eat(place, "toy", "--text", pinned).code == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--attributes", "up", "sideways"), 1, "no attribute 'sideways'"),
        (("--text", "none.npz"), 1, "no such file"),
        (("--vectors", "v.npz"), 2, "got both"),
    ],
)
def test_what_cannot_be_compared(
    place: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    done = eat(place, "toy", *words)
    assert (done.code, message in done.stderr) == (code, True), done.stderr


def test_texts_without_a_space_and_of_another_width_are_refused(place: Path) -> None:
    silent = texts(place / "s.npz", None)
    done = eat(place, "toy", "--text", silent)
    assert (done.code, "does not name the embedding space" in done.stderr) == (5, True)
    wide = texts(place / "w.npz", width=3)
    done = eat(place, "toy", "--text", wide)
    assert (done.code, "3 dimensions, the clips 2" in done.stderr) == (5, True)
    words = ("audit", "eat", "toy", "toy", "--x", "level == S", "--y", "level == EN")
    done = call_obygaze("-C", place, *words)
    assert (done.code, "expected --x, --y and --text" in done.stderr) == (2, True)
