"""What is said of presets whose pixels are not those of the processor on the hub."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from support.cli import ROOT, call_obygaze

from obygaze_features.backbones.cards import find_card, find_cards
from obygaze_features.backbones.check import hub_preset, preset_note
from obygaze_features.core.errors import FixInput
from obygaze_features.core.workspace import Workspace

VIVIT, TINY = "vivit-b16x2-k400", "tiny-vivit"
# Cards whose hash is in the recipes of stores: what a preset reproduces must not change them.
HASHES = {
    VIVIT: "c4eda496f9128037adec1e1deb292296be8bd128e8ff2a58ca294f0a38471adc",
    "xclip-b16-k600-zs": "4c8d07b111436a440db102bd6654d407500b9637d46f6c8b1b37d4883828b05b",
    "xclip-lsmdc-b32": "4795d9a28b367333d40b705383720a2b2d7060898fe725a2db3227c0f92116db",
}


def test_the_note_names_the_difference_and_both_other_presets() -> None:
    note = preset_note(find_card(VIVIT))
    # (x / 255 - .5) / .5 of 0 and 255, and (x / 127.5 - 1 - .5) / .5 of the same.
    assert "values in -1..1, not -3..1" in note
    assert f"{VIVIT}@hub reproduces the hub's processor" in note
    assert f"{VIVIT}@paper-2024 reproduces the paper's extraction" in note
    assert preset_note(find_card(f"{VIVIT}@hub")) == ""
    squashed = preset_note(find_card(f"{VIVIT}@paper-2024"))
    assert "squash_first 224, not none" in squashed
    assert f"{VIVIT}@hub reproduces the hub's processor" in squashed


def test_only_presets_with_other_pixels_have_a_note() -> None:
    noted = {
        card.with_preset(preset).label
        for card in find_cards().cards
        for preset in card.presets
        if preset_note(card.with_preset(preset))
    }
    squashing = {
        f"xclip-{name}@paper-2024" for name in ("b16-k400", "b16-k600-zs", "b32-k400")
    }
    # The paper's preset of LSMDC changes attention alone.
    assert noted == {
        *squashing,
        "xclip-l14-k400@paper-2024",
        VIVIT,
        f"{VIVIT}@paper-2024",
    }


def test_a_page_names_each_default_that_differs() -> None:
    page = (ROOT / "docs" / "guide" / "extraction.md").read_text("utf-8")
    for card in find_cards().cards:
        if preset_note(card):
            named = [
                f"{card.name}@{name}" for name in card.presets if name != card.preset
            ]
            assert all(f"`{label}`" in page for label in (card.name, *named)), card.name


def test_show_says_it() -> None:
    note = preset_note(find_card(VIVIT))
    assert note in call_obygaze("backbones", "show", VIVIT).ok().stdout
    assert (
        call_obygaze("backbones", "show", VIVIT, "--json").ok().json()["note"] == note
    )
    assert (
        call_obygaze("backbones", "show", f"{VIVIT}@hub", "--json").ok().json()["note"]
        == ""
    )


def test_a_preset_of_ones_own_says_what_it_is(tmp_path: Path) -> None:
    text = (
        'schema = "obygaze-backbone/1"\nlike = "clip-b16"\nname = "mine"\ntitle = "x"\n'
        '[preset.flat]\nresize = "squash"\nreproduces = "own"\n'
    )
    (tmp_path / "mine.toml").write_text(text)
    card = find_card(f"{tmp_path / 'mine.toml'}@flat")
    assert (hub_preset(card), card.presets["default"].reproduces) == ("default", "")
    note = preset_note(card)
    assert note.startswith(
        "mine@flat prepares pixels in its own way, not as the hub's processor"
    )
    assert "resize squash, not shortest-edge" in note
    assert note.endswith("mine reproduces the hub's processor.")
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


def lines_of(name: str, folder: Path, **processor: Any) -> dict[str, tuple[str, str]]:
    settings = {**VIVIT_PROCESSOR, **processor}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    words = ("-C", folder, "backbones", "check", name, "--weights", folder, "--json")
    report = call_obygaze(*words).json()
    failed = any(line["state"] == "failed" for line in report["checks"])
    assert report["ok"] is not failed
    return {line["name"]: (line["state"], line["detail"]) for line in report["checks"]}


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch", reason="backbones need the extract extra")
    pytest.importorskip("transformers", reason="backbones need the extract extra")
    from support.checkpoints import save_tiny, write_tiny_card

    folder = save_tiny("vivit", tmp_path_factory.mktemp("vivit"))
    write_tiny_card("vivit", folder / "backbones")
    return folder


def test_check_compares_the_preset_it_was_asked_for(weights: Path) -> None:
    beside = f"own processor, {TINY}@hub"
    lines = lines_of(TINY, weights)
    assert lines["preset"] == (
        "differs",
        preset_note(find_card(TINY, Workspace(weights))),
    )
    # Black is -1 here and -3 there, white 1 in both: the picture's darkest value is 5 of 255.
    assert lines["own processor"][0] == "differs"
    assert "differ by up to 1.9" in lines["own processor"][1]
    assert lines[beside] == ("ok", "the same bits")

    lines = lines_of(f"{TINY}@hub", weights)
    assert lines["own processor"] == ("ok", "the same bits")
    assert {"preset", beside}.isdisjoint(lines)

    lines = lines_of(f"{TINY}@paper-2024", weights)
    assert lines["own processor"][0] == "differs"
    assert lines[beside] == ("ok", "the same bits")


def test_a_difference_that_the_card_does_not_say_is_a_failure(weights: Path) -> None:
    other = {"image_mean": [0.4] * 3}
    assert lines_of(f"{TINY}@hub", weights, **other)["own processor"][0] == "failed"
    lines = lines_of(TINY, weights, **other)
    assert lines[f"own processor, {TINY}@hub"][0] == "failed"
    larger = {"size": {"shortest_edge": 40}, "crop_size": {"height": 36, "width": 36}}
    state, told = lines_of(TINY, weights, **larger)["own processor"]
    assert (state, told) == (
        "failed",
        "expected [32, 32], its processor gives [36, 36]",
    )
