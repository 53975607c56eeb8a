"""Search: exact cosines, against NumPy over whole arrays; texts of a tiny CLIP and of the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.stores import (
    a_recipe,
    fill_store,
    plan_store,
    sealed_store,
    some_ids,
    some_values,
)

import obygaze as og
from obygaze_features.core.errors import FixInput, FixUsage, Mismatch, NotFound
from obygaze_features.store import ArraySpec, Recipe, RowStatus, StoreWriter, TextTable
from obygaze_features.store.read.arrays import Arrays


def cosines(values: Any, query: Any) -> Any:
    """The cosine of each row, one at a time, by the definition."""
    return np.array(
        [
            max(
                float(np.dot(v, query) / np.sqrt(np.dot(v, v) * np.dot(query, query)))
                for v in row.reshape(-1, query.size).astype(float)
            )
            for row in values
        ]
    )


@pytest.mark.parametrize("array", ["clip", "frames"])
def test_the_clips_most_like_a_clip_are_those_of_the_whole_matrix(
    array: str, tmp_path: Path
) -> None:
    values = sealed_store(tmp_path / "s", 23)
    ids, films = some_ids(23)
    query = values[array][5].reshape(-1, 4).astype(float).mean(axis=0)
    expected = cosines(values[array], query)
    order = [row for row in np.argsort(-expected) if row != 5][:7]
    hits = og.search(tmp_path / "s", like=ids[5], array=array, top=7)
    assert [hit.clip_id for hit in hits] == [ids[row] for row in order]
    assert [hit.movie_id for hit in hits] == [films[row] for row in order]
    np.testing.assert_allclose(
        [hit.cosine for hit in hits], expected[order], rtol=1e-12
    )
    everything = og.search(
        og.open_store(tmp_path / "s"), like=ids[5], array=array, top=99
    )
    assert len(everything) == 22


def test_equal_cosines_are_in_the_order_of_the_store_and_zeros_are_last(
    tmp_path: Path,
) -> None:
    plan = plan_store(tmp_path / "s", 9, 2, arrays=(ArraySpec("clip", (4,)),))
    values = {"clip": np.ones((9, 4), dtype=np.float32)}
    values["clip"][3] = 0
    fill_store(tmp_path / "s", values)
    ids, _ = some_ids(plan.n_clips)
    hits = og.search(tmp_path / "s", like=ids[0])
    assert [hit.clip_id for hit in hits] == [*ids[1:3], *ids[4:], ids[3]]
    assert [hit.cosine for hit in hits] == pytest.approx([1.0] * 7 + [-1.0])


def test_a_search_reads_block_by_block_and_leaves_out_failed_clips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_store(tmp_path / "s", 23, 4)
    values = some_values(23)
    failed = {7: RowStatus("failed", "DecodeError", "broken")}
    for name in values:
        values[name][7] = np.nan
    fill_store(tmp_path / "s", values, failed, blocks=[0, 1, 3])
    sizes: list[int] = []
    read = Arrays.read

    def counted(self: Arrays, spec: ArraySpec, rows: Any) -> Any:
        sizes.append(len(rows))
        return read(self, spec, rows)

    monkeypatch.setattr(Arrays, "read", counted)
    ids, _ = some_ids(23)
    hits = og.search(tmp_path / "s", like=ids[0], top=99)
    assert {hit.clip_id for hit in hits} == {
        ids[row] for row in (1, 2, 3, 4, 5, 6, 12, 13, 14, 15)
    }
    assert max(sizes) <= 4


def test_frames_that_pad_a_short_clip_do_not_count(tmp_path: Path) -> None:
    arrays = (
        ArraySpec("frames", (3, 2), ("frame", "feature")),
        ArraySpec("mask", (3,), ("frame",), "bool"),
    )
    plan_store(tmp_path / "s", 4, arrays=arrays)
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
    fill_store(tmp_path / "s", {"frames": frames, "mask": mask})
    ids, _ = some_ids(4)
    hits = og.search(tmp_path / "s", like=ids[0], array="frames")
    assert [hit.clip_id for hit in hits] == [ids[3], ids[1], ids[2]]
    assert [hit.cosine for hit in hits] == pytest.approx(
        [np.sqrt(0.5), 0.5, 0.0], abs=1e-7
    )


def test_what_cannot_be_searched(tmp_path: Path) -> None:
    sealed_store(tmp_path / "s", 5)
    with pytest.raises(FixUsage, match="a text or a clip"):
        og.search(tmp_path / "s")
    with pytest.raises(FixUsage, match="a text or a clip"):
        og.search(tmp_path / "s", like="x", text="x")
    with pytest.raises(NotFound, match="missing"):
        og.search(tmp_path / "s", like="x")
    for top in (0, -1):
        with pytest.raises(FixUsage, match=f"top must be at least 1, got {top}"):
            og.search(tmp_path / "s", like=some_ids(5)[0][0], top=top)


SPACE = "ef" * 32


def clip_recipe() -> Recipe:
    """The recipe of a CLIP of which nothing but its name is there."""
    backbone = {"name": "gone", "family": "clip", "levels": {"clip": "frame-mean"}}
    return a_recipe(backbone=backbone, weights={"tensors": SPACE}, levels=["clip"])


def test_a_prompt_of_the_store_needs_no_tower(tmp_path: Path) -> None:
    plan_store(
        tmp_path / "s", 9, 4, recipe=clip_recipe(), arrays=(ArraySpec("clip", (4,)),)
    )
    values = some_values(9, (ArraySpec("clip", (4,)),))
    writer = StoreWriter(tmp_path / "s")
    text = np.array([[0, 0, 0, 1], [1, 0, 0, 0]], dtype=np.float32)
    words = (["a cat", "a dog"], ["a {}"] * 2, ["cat", "dog"])
    writer.add_text(TextTable(text, *words, f"local@main#{SPACE}"))
    fill_store(tmp_path / "s", values)
    hits = og.search(tmp_path / "s", text="a dog", top=3)
    lengths = np.linalg.norm(values["clip"].astype(float), axis=1)
    expected = values["clip"][:, 0] / lengths
    ids, _ = some_ids(9)
    assert [hit.clip_id for hit in hits] == [
        ids[row] for row in np.argsort(-expected)[:3]
    ]


def test_texts_of_another_space_are_refused(tmp_path: Path) -> None:
    plan_store(
        tmp_path / "s", 3, recipe=clip_recipe(), arrays=(ArraySpec("clip", (4,)),)
    )
    table = TextTable(
        np.ones((1, 4), np.float32), ["a dog"], ["a {}"], ["dog"], "other@main#00"
    )
    StoreWriter(tmp_path / "s").add_text(table)
    with pytest.raises(Mismatch, match="another embedding space"):
        og.search(tmp_path / "s", text="a dog")


def test_code_named_by_a_store_is_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trap.py").write_text("open('sprung', 'w')\n", "utf-8")
    for name in ("trap.py:net", "trap:net", "frames:trap:net"):
        recipe = a_recipe(
            backbone={"name": name, "family": "clip", "levels": {"clip": "frame-mean"}},
            weights={"tensors": SPACE},
            levels=["clip"],
        )
        folder = tmp_path / name.replace(":", "-")
        plan_store(folder, 3, recipe=recipe, arrays=(ArraySpec("clip", (4,)),))
        with pytest.raises(FixInput, match="never run"):
            og.search(folder, text="a dog")
    assert not (tmp_path / "sprung").exists()
