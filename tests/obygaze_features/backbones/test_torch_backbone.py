from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.checkpoints import TINY, hub_cache, save_tiny, tiny_card, write_tiny_card
from support.cli import call_obygaze

from obygaze_features.backbones.actions import load_backbone
from obygaze_features.backbones.card import Card
from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import sha256_file

NAME = "example/tiny-clip"


@pytest.fixture(autouse=True)
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("torch", reason="backbones need the extract extra")
    pytest.importorskip("transformers", reason="backbones need the extract extra")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def backbone_of(card: Card, weights: Path | None = None) -> dict[str, Any]:
    section: dict[str, Any] = load_backbone(card, weights).recipe()["backbone"]
    return section


@pytest.mark.parametrize("family", ["clip", "vjepa2"])
def test_a_toy_is_refused_by_the_card_of_the_real_checkpoint(family, tmp_path) -> None:
    folder = save_tiny(family, tmp_path / "toy")
    assert load_backbone(tiny_card(family), folder)
    sizes = f"the sizes of the card {TINY[family].card}"
    with pytest.raises(FixInput, match=sizes) as caught:
        load_backbone(TINY[family].card, folder)
    width, layers = (1024, 24) if family == "vjepa2" else (768, 12)
    assert f"width: expected {width}, got 32" in caught.value.details
    assert f"layers: expected {layers}, got 2" in caught.value.details


def test_what_the_hubs_cache_holds_is_the_checkpoint(tmp_path: Path, hub: Path) -> None:
    card, folder = tiny_card("clip", NAME), save_tiny("clip", tmp_path / "copy")
    snapshot = hub_cache(card, hub, folder)
    cached = load_backbone(card).recipe()
    assert cached["backbone"]["checkpoint"] == NAME
    assert "unverified_checkpoint" not in cached["backbone"]
    command = ("backbones", "check", write_tiny_card("clip", tmp_path / "cards", NAME))
    checks = call_obygaze(*command, "--json").ok().json()["checks"]
    assert {"name": "checkpoint", "state": "ok", "detail": NAME} in checks
    # The bytes are the same, and so is what decides the numbers.
    assert load_backbone(card, folder).recipe()["weights"] == cached["weights"]
    # Of another checkpoint the cache says nothing, and nothing of what a path names.
    other = replace(card, checkpoint="a/b")
    for given, path in ((card, folder), (card, snapshot), (other, snapshot)):
        section = backbone_of(given, path)
        assert section["unverified_checkpoint"] == given.checkpoint


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_cache_that_was_copied_without_its_links_is_not_verified(tmp_path, hub, name):
    card = tiny_card("clip", NAME)
    snapshot = hub_cache(card, hub, save_tiny("clip", tmp_path / "copy"))
    content = (snapshot / name).read_bytes()
    (snapshot / name).unlink()
    (snapshot / name).write_bytes(content)
    section = load_backbone(card).recipe()["backbone"]
    assert (section["checkpoint"], section["unverified_checkpoint"]) == ("", NAME)


def test_a_hash_that_the_card_knows_decides(tmp_path: Path) -> None:
    card, folder = tiny_card("clip", NAME), save_tiny("clip", tmp_path / "w")
    weights = load_backbone(card, folder).recipe()["weights"]
    tensors = weights["tensors"]
    configuration = weights["configuration"]
    in_bin = save_tiny("clip", tmp_path / "bin", form="bin")
    for known in (tensors, sha256_file(folder / "model.safetensors")):
        knowing = replace(card, weights_sha256=("0" * 64, known))
        # Those weights, with a configuration that nobody knows.
        assert backbone_of(knowing, folder)["unverified_checkpoint"] == NAME
        knowing = replace(card, weights_sha256=("0" * 64, known, configuration))
        assert knowing.sha256 == card.sha256
        assert backbone_of(knowing, folder)["checkpoint"] == NAME
        differ = "do not match the sha256 of the card"
        with pytest.raises(FixInput, match=differ) as caught:
            load_backbone(knowing, save_tiny("clip", tmp_path / "other", seed=1))
        assert known in caught.value.details[0]
        # A card may list either: what was got is said of both.
        of_file = sha256_file(tmp_path / "other" / "model.safetensors")
        assert f"{of_file} (model.safetensors)" in caught.value.details[0]
        assert "(tensors)" in caught.value.details[0]
    # The tensors' hash is the same in each form of file.
    knowing = replace(card, weights_sha256=(tensors, configuration))
    assert backbone_of(knowing, in_bin)["checkpoint"] == NAME
