"""The target of a store is restored from its recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.extraction import film_folder

from obygaze_features.backbones.base import Placement
from obygaze_features.core.errors import FixUsage, Mismatch
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.extracting import extract
from obygaze_features.extraction.plan import ExtractPlan, Target
from obygaze_features.extraction.planning import chosen_plan
from obygaze_features.extraction.recipes import (
    SAMPLING_RULES,
    complete_target,
    target_of,
)
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store import open_store


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_target_is_read_back_from_its_recipe(dtype: str) -> None:
    recipe = {
        "backbone": {"name": "clip-b16", "preset": "default"},
        "compute": Placement(dtype=dtype).recipe(),
        "decoder": {"name": "pyav"},
        "sampling": {
            "rule": SAMPLING_RULES["even"],
            "frames": 16,
        },
    }
    assert target_of(recipe, "folder") == Target(
        store="",
        backbone="clip-b16@default",
        weights="folder",
        dtype=dtype,
    )


@pytest.mark.parametrize("end", ["", "@wide"])
def test_the_card_of_a_path_names_the_store_and_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    text = (
        'schema = "obygaze-backbone/1"\nlike = "clip-b16"\nname = "mine"\ntitle = "t"\n'
    )
    (tmp_path / "mine.toml").write_text(f"{text}[preset.wide]\nresize = 'squash'\n")
    manifest = Manifest("films", Header("Films"), (Clip("a-1", "a"),))
    monkeypatch.chdir(tmp_path)
    target = complete_target(
        Target("", f"mine.toml{end}"), manifest, Workspace(tmp_path)
    )
    assert target.backbone == f"{tmp_path}/mine.toml{end}"
    assert Path(target.store).name == f"films.mine{end.replace('@', '-')}"


def test_the_blocks_of_a_plan(tmp_path: Path) -> None:
    manifest = film_folder(tmp_path, 24)

    def plan(**settings: Any) -> ExtractPlan:
        return chosen_plan(manifest, "descriptors", workspace=tmp_path, **settings)

    assert (plan().unit_rows, plan().n_units) == (64, 1)
    assert plan(block_clips=8).n_units == 3
    with pytest.raises(FixUsage, match="must be a power of two, got 24") as caught:
        plan(block_clips=24)
    assert caught.value.hint == "--block-clips 16"
    # A store that exists keeps its blocks, so that the same command goes on with it.
    extract(plan(block_clips=8), workers=1)
    assert plan().unit_rows == plan(tasks=24).unit_rows == 8
    with pytest.raises(Mismatch, match="planned differently: block_rows"):
        extract(manifest, "descriptors", block_clips=4, workspace=tmp_path)
    # The size of blocks is not in the recipe, and does not change a number.
    small = {"descriptors": tmp_path / "stores" / "small"}
    extract(manifest, "descriptors", block_clips=1, stores=small, workspace=tmp_path)
    stores = [
        open_store(tmp_path / "stores" / name)
        for name in ("films.descriptors", "small")
    ]
    assert len({store.fingerprint for store in stores}) == 1
    first, second = (store.matrix("clip").values for store in stores)
    np.testing.assert_array_equal(first, second)
