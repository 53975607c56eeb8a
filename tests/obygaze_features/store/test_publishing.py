"""What is published of a store: the code in its card runs, and its table."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.stores import made_store, sealed_store, some_rows, some_values, tree

from obygaze_features.core.errors import AlreadyThere
from obygaze_features.store import Array, Store, open_store
from obygaze_features.store.copying import push

CREATORS = ["Doe, Jane"]
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


def publish(store: Store, folder: Path) -> Any:
    return push(store, folder, publish=True, creators=CREATORS)


def test_every_column_that_croissant_declares_is_in_the_table(
    tmp_path: Path, store: Store
) -> None:
    """Without the package of Croissant's authors: names, types, shapes and files."""
    parquet = pytest.importorskip("pyarrow.parquet")
    publish(store, tmp_path / "out")
    document = json.loads((tmp_path / "out" / "croissant.json").read_bytes())
    (table,) = [one for one in document["recordSet"] if one["name"] == "features"]
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
        "clip": ("cr:Float32", "4"),
        "half": ("cr:Float16", "3"),
    }
    rows = parquet.read_table(file).to_pylist()
    assert rows[0]["end_s"] == 2.5
    ids = [row["clip_id"] for row in rows]
    half = np.array([row["half"] for row in rows])
    np.testing.assert_array_equal(half, store.matrix("half", clips=ids).values)


def test_the_authors_are_shown_as_the_citation_file_has_them(
    tmp_path: Path, store: Store
) -> None:
    names = ["Équipe Regards, Lyon", "The Film Lab"]
    sent = push(store, tmp_path / "out", publish=True, creators=names)
    (said,) = [note for note in sent.notes if note.startswith("authors: ")]
    assert "person with family name 'Équipe Regards', given name 'Lyon' and" in said
    assert "the institution 'The Film Lab'; a comma separates" in said
    citation = (tmp_path / "out" / "CITATION.cff").read_text("utf-8")
    assert 'family-names: "Équipe Regards"' in citation
    assert '- name: "The Film Lab"' in citation


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


@pytest.mark.check("imports zarr and xarray")
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
