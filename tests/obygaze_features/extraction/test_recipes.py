"""The target of a store is restored from its recipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from obygaze_features.backbones.base import Placement
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.plan import Target
from obygaze_features.extraction.recipes import (
    SAMPLING_RULES,
    complete_target,
    target_of,
)
from obygaze_features.manifest.model import Clip, Header, Manifest


@pytest.mark.parametrize(
    ("placement", "sampling"),
    [
        (Placement(), "card"),
        (Placement(dtype="bfloat16", attention="eager", tf32=True), "keyframes"),
        (Placement(dtype="float16", compiled=True), "card"),
    ],
)
def test_a_target_is_read_back_from_its_recipe(
    placement: Placement, sampling: str
) -> None:
    recipe = {
        "backbone": {"name": "clip-b16", "preset": "default"},
        "compute": placement.recipe(),
        "sampling": {
            "rule": SAMPLING_RULES["even" if sampling == "card" else sampling],
            "frames": 16,
        },
    }
    assert target_of(recipe, "folder") == Target(
        store="",
        backbone="clip-b16@default",
        weights="folder",
        sampling=sampling,
        dtype=placement.dtype,
        attention=placement.attention,
        tf32=placement.tf32,
        compiled=placement.compiled,
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
