"""The code in the card of a store runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.stores import made_store, some_rows, some_values

from obygaze_features.store import Array, Store

ARRAYS = (
    Array.of("clip", "float32", (4,)),
    Array.of("half", "float16", (3,)),
    Array.of("frames", "float16", (3, 4)),
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Its licence is CC0-1.0."""
    rows = [row._replace(start_s=1.0, end_s=2.5) for row in some_rows(12)]
    return made_store(tmp_path / "toy", rows, some_values(12, ARRAYS), arrays=ARRAYS)


@pytest.mark.check("imports zarr and xarray")
def test_the_code_in_the_card_reads_the_store(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = (tmp_path / "toy" / "README.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", card, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path / "toy")
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
