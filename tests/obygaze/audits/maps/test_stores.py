"""A store of maps has the rows, the times and the recipe of its clips, as zarr reads it."""

from pathlib import Path

import numpy as np
import pytest
import zarr
from support.experiments import VISUAL, films
from support.maps import GRID, token_store

from obygaze.audits.maps.stores import MAPS, map_names, write_maps
from obygaze_features.core.errors import FixInput
from obygaze_features.store import Reason, open_store, verify
from obygaze_features.store.records import Origin

NAMES = ("Look", "random 1")


def test_clips_without_maps_are_failed_rows_with_the_reason(tmp_path: Path) -> None:
    source = token_store(tmp_path / "tokens", films(2, 3), VISUAL[:1])
    rows = [4, 0, 2]
    clip_ids = source.clip_ids[rows].tolist()
    made = np.random.default_rng(0).normal(size=(2, len(NAMES), *GRID))
    broken = Reason("failed", "decode: the file is broken")
    results = [made[0], broken, made[1]]
    write_maps(tmp_path / "maps", source, clip_ids, NAMES, {"method": "none"}, results)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["maps", "tokens"]

    group = zarr.open_group(tmp_path / "maps", mode="r", zarr_format=3)
    assert group["clip_id"][:].tolist() == clip_ids
    assert group["status"][:].tolist() == [0, 1, 0]
    stored = group[MAPS][:]
    np.testing.assert_array_equal(stored[[0, 2]], made.astype(np.float16))
    assert np.isnan(stored[1]).all()
    times = np.asarray(source.read("time_s", rows))
    times[1] = np.nan
    np.testing.assert_array_equal(group["time_s"][:], times)

    store = open_store(tmp_path / "maps")
    verify(store, hashes=True).require_ok()
    assert store.status().reasons == {1: broken}
    with pytest.raises(FixInput, match="not a store of maps"):
        map_names(source)
    assert store.record.origins == (Origin("tokens", source.seal),)
    # It is given to others: nothing in it says where it was made.
    assert str(tmp_path).encode() not in store.store_json()
    sections = store.recipe.to_json()
    assert sections.pop(MAPS) == {
        "method": "none",
        "directions": list(NAMES),
        "of": source.fingerprint,
    }
    assert sections == source.recipe.to_json()
    assert store.terms == source.terms
