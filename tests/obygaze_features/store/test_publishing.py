"""What is published of a store: the code in its card runs, its table, the terms of labels."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.stores import made_store, sealed_store, some_rows, some_values, tree

from obygaze_features.core.errors import AlreadyThere, FixInput
from obygaze_features.manifest import Clip, Header, Manifest, manifest_sha256
from obygaze_features.store import Array, Store, open_store
from obygaze_features.store.copying import push

CREATORS = ["Doe, Jane"]
CITATION = "Roe, Labels of the lake, 2026."
ARRAYS = (
    Array.of("clip", "float32", (4,)),
    Array.of("half", "float16", (3,)),
    Array.of("frames", "float16", (3, 4)),
)

pytest.importorskip("pyarrow")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Its licence is CC0-1.0."""
    rows = [row._replace(start_s=1.0, end_s=2.5) for row in some_rows(12)]
    return made_store(tmp_path / "toy", rows, some_values(12, ARRAYS), arrays=ARRAYS)


def labels_of(clip_ids: list[str], licence: str) -> Manifest:
    """A manifest that has these clips."""
    header = Header("m", {"Look": "visual"}, licence=licence, citation=CITATION)
    clips = [
        Clip(clip, clip.rpartition("-")[0], level="S", concepts=("Look",))
        for clip in clip_ids
    ]
    return Manifest("m", header, tuple(clips))


def texts_of(folder: Path) -> dict[str, str]:
    """Every text file of a publication."""
    names = ("README.md", "croissant.json", "CITATION.cff")
    return {name: (folder / name).read_text("utf-8") for name in names}


def publish(store: Store, folder: Path, **more: Any) -> Any:
    return push(store, folder, publish=True, creators=CREATORS, **more)


def test_every_text_names_licence_and_citation_of_the_labels(
    tmp_path: Path, store: Store
) -> None:
    labels = labels_of(store.clip_ids.tolist(), "ODbL-1.0")
    publish(store, tmp_path / "out", labels=labels)
    texts = texts_of(tmp_path / "out")
    for name, text in texts.items():
        assert CITATION in text, name
    for name in ("README.md", "croissant.json"):
        assert "Their licence: ODbL-1.0" in texts[name], name
    # No licence holds for the whole.
    assert json.loads(texts["croissant.json"])["license"] == ["CC0-1.0", "ODbL-1.0"]
    assert "\nlicense: " not in texts["CITATION.cff"]
    assert 'license_name: "features: CC0-1.0, labels: ODbL-1.0"' in texts["README.md"]


def test_one_licence_of_features_and_labels_holds_for_the_whole(
    tmp_path: Path, store: Store
) -> None:
    labels = labels_of(store.clip_ids.tolist(), "CC0-1.0")
    publish(store, tmp_path / "out", labels=labels)
    texts = texts_of(tmp_path / "out")
    assert json.loads(texts["croissant.json"])["license"] == "CC0-1.0"
    assert "\nlicense: CC0-1.0\n" in texts["CITATION.cff"]
    assert "\nlicense: cc0-1.0\n" in texts["README.md"]


def test_labels_of_other_clips_are_refused_and_missing_ones_are_counted(
    tmp_path: Path, store: Store
) -> None:
    folder = tmp_path / "out"
    with pytest.raises(FixInput, match="has none of the clips of this store"):
        publish(store, folder, labels=labels_of(["x-1", "x-2"], "CC0-1.0"))
    assert not folder.exists()
    labels = labels_of(store.clip_ids.tolist()[:-2], "CC0-1.0")
    done = publish(store, folder, labels=labels)
    assert any("2 clips of 12 without labels" in line for line in done.notes)


def test_every_column_that_croissant_declares_is_in_the_table(
    tmp_path: Path, store: Store
) -> None:
    """Without the package of Croissant's authors: names, types, shapes and files."""
    parquet = pytest.importorskip("pyarrow.parquet")
    labels = labels_of(store.clip_ids.tolist(), "ODbL-1.0")
    publish(store, tmp_path / "out", labels=labels)
    document = json.loads((tmp_path / "out" / "croissant.json").read_bytes())
    (table,) = [one for one in document["recordSet"] if one["name"] == "features"]
    assert manifest_sha256(labels) in table["description"]
    file = tmp_path / "out" / "features.parquet"
    names = parquet.read_schema(file).names
    assert [field["name"] for field in table["field"]] == names
    facts = {
        field["name"]: (field["dataType"], field.get("arrayShape"))
        for field in table["field"]
    }
    assert facts == {
        "clip_id": ("sc:Text", None),
        "movie_id": ("sc:Text", None),
        "start_s": ("sc:Float", None),
        "end_s": ("sc:Float", None),
        "level": ("sc:Text", None),
        "concepts": ("sc:Text", "-1"),
        "clip": ("cr:Float32", "4"),
        "half": ("cr:Float16", "3"),
    }
    rows = parquet.read_table(file).to_pylist()
    assert (rows[0]["end_s"], rows[0]["concepts"]) == (2.5, ["Look"])
    ids = [row["clip_id"] for row in rows]
    half = np.array([row["half"] for row in rows])
    np.testing.assert_array_equal(half, store.matrix("half", clips=ids).values)


def test_the_same_publication_again_changes_nothing_and_another_store_is_refused(
    tmp_path: Path, store: Store
) -> None:
    publish(store, tmp_path / "out")
    before = tree(tmp_path / "out")
    publish(store, tmp_path / "out")
    assert tree(tmp_path / "out") == before
    sealed_store(tmp_path / "other", 7, arrays=ARRAYS)
    with pytest.raises(AlreadyThere, match="another store is there"):
        publish(open_store(tmp_path / "other"), tmp_path / "out")
    assert tree(tmp_path / "out") == before


def test_the_code_in_the_card_reads_the_store(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(store, tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", card, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path / "out")
    found: dict[str, Any] = {}
    *without_obygaze, of_obygaze = blocks
    for block in without_obygaze:
        assert "obygaze" not in block
        exec(block, found)
    wanted = store.matrix("clip").values
    np.testing.assert_array_equal(found["features"], wanted)
    np.testing.assert_array_equal(found["data"]["clip"].values, wanted)
    assert found["clips"].tolist() == store.clip_ids.tolist()
    exec(of_obygaze.replace("path/of/this/folder", str(Path.cwd())), found)
    np.testing.assert_array_equal(found["features"].values, wanted)
