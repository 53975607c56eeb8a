"""Presets whose pixels are not those of the processor on the hub say so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from support.cli import ROOT, call_obygaze

from obygaze_features.backbones.cards import find_card, find_cards
from obygaze_features.core.errors import FixInput

VIVIT, TINY = "vivit-b16x2-k400", "tiny-vivit"
# Cards whose hash is in the recipes of stores: what a preset reproduces must not change them.
HASHES = {
    VIVIT: "c4eda496f9128037adec1e1deb292296be8bd128e8ff2a58ca294f0a38471adc",
    "xclip-b16-k600-zs": "4c8d07b111436a440db102bd6654d407500b9637d46f6c8b1b37d4883828b05b",
    "xclip-lsmdc-b32": "4795d9a28b367333d40b705383720a2b2d7060898fe725a2db3227c0f92116db",
}
# What decides the value of a pixel, and its place.
OF_PIXELS = ("mean", "std", "rescale", "resize", "filter", "edge", "squash_first")


def test_a_page_names_each_default_that_differs() -> None:
    page = (ROOT / "docs" / "guide" / "extraction.md").read_text("utf-8")
    named = 0
    for card in find_cards().cards:
        if card.input.reproduces not in ("", "hub"):
            named += 1
            for preset in card.presets:
                assert f"`{card.with_preset(preset).label}`" in page
    assert named == 1


def test_presets_that_differ_in_a_pixel_say_what_they_reproduce() -> None:
    differing = set()
    for card in find_cards().cards:
        (hub,) = [
            preset
            for name, preset in card.presets.items()
            if preset.reproduces == "hub"
            or (name == "default" and preset.reproduces == "")
        ]
        for name, preset in card.presets.items():
            if any(getattr(preset, key) != getattr(hub, key) for key in OF_PIXELS):
                differing.add(card.with_preset(name).label)
                assert preset.reproduces in ("paper", "training")
    names = ("b16-k400", "b16-k600-zs", "b32-k400", "l14-k400")
    of_xclip = {f"xclip-{name}@paper-2024" for name in names}
    assert differing == {*of_xclip, VIVIT, f"{VIVIT}@paper-2024"}


def test_show_says_it() -> None:
    shown = call_obygaze("backbones", "show", VIVIT).ok().stdout
    lines = [line for line in shown.splitlines() if "preset" in line]
    assert "* preset default: pixels as the network's training made them;" in lines[0]
    assert "preset hub: pixels as the hub's processor makes them;" in lines[1]
    assert "preset paper-2024: pixels as the paper's extraction made them;" in lines[2]
    other = call_obygaze("backbones", "show", "clip-b16").ok().stdout
    assert "pixels as" not in other


def test_a_preset_of_ones_own_says_what_it_is(tmp_path: Path) -> None:
    text = (
        'schema = "obygaze-backbone/1"\nlike = "clip-b16"\nname = "mine"\ntitle = "x"\n'
        '[preset.flat]\nresize = "squash"\nreproduces = "own"\n'
    )
    (tmp_path / "mine.toml").write_text(text)
    card = find_card(f"{tmp_path / 'mine.toml'}@flat")
    assert card.input.reproduces == "own"
    assert card.presets["default"].reproduces == ""
    (tmp_path / "mine.toml").write_text(text.replace('"own"', '"huub"'))
    with pytest.raises(FixInput) as caught:
        find_card(str(tmp_path / "mine.toml"))
    (line,) = caught.value.details
    assert (
        "preset.flat.reproduces: must be one of hub, paper, training, own "
        "(did you mean 'hub'?), got 'huub'" in line
    )


def test_what_a_preset_reproduces_changes_no_hash() -> None:
    for name, expected in HASHES.items():
        card = find_card(name)
        assert card.sha256 == expected
        presets = {
            key: structs.replace(p, reproduces="own") for key, p in card.presets.items()
        }
        assert replace(card, presets=presets).sha256 == expected


VIVIT_PROCESSOR = {
    "image_processor_type": "VivitImageProcessor",
    "size": {"shortest_edge": 40},
    "crop_size": {"height": 32, "width": 32},
    "image_mean": [0.5] * 3,
    "image_std": [0.5] * 3,
}


def pixels_by_check(name: str, folder: Path, **processor: Any) -> tuple[str, str]:
    """Return what `backbones check` says of the pixels."""
    settings = {**VIVIT_PROCESSOR, **processor}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    words = ("-C", folder, "backbones", "check", name, "--weights", folder, "--json")
    report = call_obygaze(*words).json()
    failed = any(line["state"] == "failed" for line in report["checks"])
    assert report["ok"] is not failed
    (line,) = [line for line in report["checks"] if line["name"] == "own processor"]
    return line["state"], line["detail"]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch", reason="backbones need the extract extra")
    pytest.importorskip("transformers", reason="backbones need the extract extra")
    from support.checkpoints import save_tiny, write_tiny_card

    folder = save_tiny("vivit", tmp_path_factory.mktemp("vivit"))
    write_tiny_card("vivit", folder / "backbones")
    return folder


def test_check_compares_the_preset_it_was_asked_for(weights: Path) -> None:
    # Black is -1 here and -3 there, white 1 in both: the picture's darkest value is 5 of 255.
    state, detail = pixels_by_check(TINY, weights)
    assert state == "differs"
    assert detail.startswith("pixels differ by up to 1.9")
    assert detail.endswith("the card makes them as the network's training made them")
    assert pixels_by_check(f"{TINY}@hub", weights) == ("ok", "the same bits")
    assert pixels_by_check(f"{TINY}@paper-2024", weights)[0] == "differs"


def test_a_difference_that_the_card_does_not_say_is_a_failure(weights: Path) -> None:
    other = {"image_mean": [0.4] * 3}
    assert pixels_by_check(f"{TINY}@hub", weights, **other)[0] == "failed"
    larger = {"size": {"shortest_edge": 40}, "crop_size": {"height": 36, "width": 36}}
    assert pixels_by_check(TINY, weights, **larger) == (
        "failed",
        "expected [32, 32], its processor gives [36, 36]",
    )
