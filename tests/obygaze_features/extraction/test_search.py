from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.stores import (
    a_recipe,
    made_store,
    sealed_store,
    some_ids,
    some_rows,
    some_values,
)

import obygaze as og
from obygaze_features.backbones import text as texts
from obygaze_features.core.errors import FixInput, FixUsage, Mismatch, NotFound
from obygaze_features.core.workspace import Workspace
from obygaze_features.store import Array, Recipe

CLIP = (Array.of("clip", "float32", (4,)),)


def cosines(values: Any, query: Any) -> Any:
    """The cosine of each row, one at a time, by the definition."""
    best = []
    for row in values:
        vectors = row.reshape(-1, query.size).astype(float)
        lengths = np.sqrt((vectors * vectors).sum(axis=1) * np.dot(query, query))
        best.append((vectors @ query / lengths).max())
    return np.array(best)


def test_the_clips_most_like_a_clip_are_those_of_the_whole_matrix(tmp_path) -> None:
    values = sealed_store(tmp_path / "s", 23)["frames"]
    ids, films = some_ids(23)
    query = values[5].reshape(-1, 4).astype(float).mean(axis=0)
    expected = cosines(values, query)
    order = [row for row in np.argsort(-expected) if row != 5]
    like = {"like": ids[5], "array": "frames"}
    hits = og.search(tmp_path / "s", top=7, **like)
    assert [hit.clip_id for hit in hits] == [ids[row] for row in order[:7]]
    assert [hit.movie_id for hit in hits] == [films[row] for row in order[:7]]
    found = [hit.cosine for hit in hits]
    np.testing.assert_allclose(found, expected[order[:7]], rtol=1e-12)
    assert len(og.search(og.open_store(tmp_path / "s"), top=99, **like)) == 22


def test_frames_that_pad_a_short_clip_do_not_count(tmp_path: Path) -> None:
    arrays = (
        Array.of("frames", "float32", (3, 2), ("frame", "feature")),
        Array.of("mask", "bool", (3,), ("frame",)),
    )
    query, padding = [1.0, 0.0], [1.0, 0.1]
    # By hand: real frames at 60, 90 and 45 degrees from the query, and a clip without padding.
    frames = np.array(
        [
            [query, query, [-5.0, 0.0]],
            [[0.5, np.sqrt(0.75)], padding, padding],
            [[0.0, 2.0], [-1.0, 0.0], padding],
            [[0.0, 1.0], [0.0, 1.0], [3.0, 3.0]],
        ],
        dtype=np.float32,
    )
    mask = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]], dtype=np.bool_)
    values = {"frames": frames, "mask": mask}
    made_store(tmp_path / "s", some_rows(4), values, arrays=arrays)
    ids, _ = some_ids(4)
    hits = og.search(tmp_path / "s", like=ids[0], array="frames")
    assert [hit.clip_id for hit in hits] == [ids[3], ids[1], ids[2]]
    found = [hit.cosine for hit in hits]
    assert found == pytest.approx([np.sqrt(0.5), 0.5, 0.0], abs=1e-7)


def test_vectors_of_zeros_have_no_cosine(tmp_path: Path) -> None:
    arrays = [Array.of("clip", "float32", (2,))]
    values = np.array([[1, 0], [0, 0], [3, 4], [0, 0], [-1, 0]], np.float32)
    made_store(tmp_path / "s", some_rows(5), {"clip": values}, arrays=arrays)
    ids, _ = some_ids(5)
    hits = og.search(tmp_path / "s", like=ids[0])
    assert [(hit.clip_id, hit.cosine) for hit in hits] == [
        (ids[2], pytest.approx(0.6)),
        (ids[4], -1.0),
    ]
    with pytest.raises(FixInput, match=f"the features of the clip '{ids[1]}' are zero"):
        og.search(tmp_path / "s", like=ids[1])


SPACE = "ef" * 32


def clip_recipe(name: str = "gone") -> Recipe:
    """The recipe of a CLIP of which nothing but its name is there."""
    backbone = {"name": name, "family": "clip", "levels": {"clip": "frame-mean"}}
    return a_recipe(backbone=backbone, weights={"tensors": SPACE})


def tower_in(space_id: str) -> Callable[[str], Any]:
    """Load a text model whose vector of any text is the first axis."""

    class Tower:
        def __init__(self, name: str, weights: None, workspace: Workspace) -> None:
            assert (name, weights) == ("gone", None)
            self.space_id = space_id

        def embed(self, texts: list[str]) -> Any:
            return np.array([[1, 0, 0, 0]] * len(texts), np.float32)

    return Tower


def test_only_vectors_of_features_are_compared(tmp_path: Path) -> None:
    others = [
        Array.of("time_s", "float64", (4,), ("frame",)),
        Array.of("level", "float32", ()),
        Array.of("pictures", "uint8", (4, 8, 8, 3)),
    ]
    sealed_store(tmp_path / "s", 5, arrays=[*others, *CLIP])
    clip_id = some_ids(5)[0][0]
    for array in others:
        with pytest.raises(FixInput, match="has no vectors of features") as error:
            og.search(tmp_path / "s", like=clip_id, array=array.name)
        assert error.value.hint == "use --array clip"
    sealed_store(tmp_path / "t", 5, arrays=others)
    with pytest.raises(FixInput, match="has no vectors of features") as error:
        og.search(tmp_path / "t", like=clip_id)
    assert str(error.value.hint).startswith("search a different store")
    with pytest.raises(FixUsage, match="top must be at least 1, got 0"):
        og.search(tmp_path / "s", like=clip_id, top=0)


def test_an_unknown_clip_is_named_and_a_similar_id_is_suggested(tmp_path: Path) -> None:
    sealed_store(tmp_path / "s", 5, arrays=CLIP)
    clip_id = some_ids(5)[0][0]
    for typed, meant in (("x", ""), (f"{clip_id}x", f" (did you mean {clip_id!r}?)")):
        with pytest.raises(NotFound) as error:
            og.search(tmp_path / "s", like=typed)
        assert error.value.message == f"no clip {typed!r} in the store{meant}"
        assert error.value.hint == "obygaze store info STORE --clips lists the clips"


def test_texts_are_compared_in_their_own_space_only(tmp_path, monkeypatch) -> None:
    values = some_values(9, CLIP)
    made_store(tmp_path / "s", some_rows(9), values, recipe=clip_recipe())
    here = tower_in(f"local@main#{SPACE}")
    monkeypatch.setattr(texts, "load_text_tower", here)
    hits = og.search(tmp_path / "s", text="a dog", top=3)
    lengths = np.linalg.norm(values["clip"].astype(float), axis=1)
    order = np.argsort(-values["clip"][:, 0] / lengths)
    ids, _ = some_ids(9)
    assert [hit.clip_id for hit in hits] == [ids[row] for row in order[:3]]
    monkeypatch.setattr(texts, "load_text_tower", tower_in("other@main#00"))
    with pytest.raises(Mismatch, match="a different embedding space"):
        og.search(tmp_path / "s", text="a dog")
    # Nothing says in which space the vectors of this one are.
    recipe = Recipe.unknown("npz", {"backbone": "gone"})
    made_store(tmp_path / "t", some_rows(9), values, recipe=recipe)
    with pytest.raises(FixInput, match="cannot be compared with texts"):
        og.search(tmp_path / "t", text="a dog")


def test_code_named_by_a_store_is_never_run(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trap.py").write_text("open('sprung', 'w')\n", "utf-8")
    for name in ("trap.py:net", "frames:trap:net"):
        folder = tmp_path / name.replace(":", "-")
        made_store(folder, some_rows(3), some_values(3, CLIP), recipe=clip_recipe(name))
        with pytest.raises(FixInput, match="never run"):
            og.search(folder, text="a dog")
    assert not (tmp_path / "sprung").exists()
