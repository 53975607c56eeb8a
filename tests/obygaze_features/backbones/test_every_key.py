"""Each key beside the weights and in a card: the recipe changes, or the numbers do not.

One key after the other is changed, for each family. A changed key is refused, or it makes another
fingerprint, or it decides nothing; the last is shown by the numbers. A key of a processor's file
that is not refused decides nothing in the library's own processor, too.
"""

import copy
import importlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="backbones need the extract extra")
transformers = pytest.importorskip("transformers")

from support.checkpoints import (  # noqa: E402
    TINY,
    save_lsmdc,
    save_tiny,
    tiny_card,
    write_lsmdc_card,
    write_tiny_card,
)
from support.sound_checkpoints import (  # noqa: E402
    CARD_OF,
    RATE,
    processor,
    save_tiny_sound,
    tiny_sound_card,
    write_tiny_sound_card,
)

from obygaze_features.backbones import cards  # noqa: E402
from obygaze_features.backbones.actions import load_backbone  # noqa: E402
from obygaze_features.backbones.backbone import Backbone, PictureBackbone  # noqa: E402
from obygaze_features.backbones.card import Card  # noqa: E402
from obygaze_features.backbones.cards import find_card, parse_card  # noqa: E402
from obygaze_features.backbones.processors import check_pixel_file, check_sound_file  # noqa: E402
from obygaze_features.backbones.sound import ClipSound, SoundBackbone  # noqa: E402
from obygaze_features.backbones.weight_files import WeightFiles  # noqa: E402
from obygaze_features.backbones.weights import find_weights  # noqa: E402
from obygaze_features.core.errors import ObygazeError  # noqa: E402
from obygaze_features.core.schema_check import Document  # noqa: E402
from obygaze_features.extraction.recipes import make_recipe  # noqa: E402

torch.set_num_threads(1)
# Families that read their configuration and their card in ways of their own.
SOME = ("clip", "vivit", "hubert", "clap")
FORMS = ("preprocessor_config.json", "processor_config.json")
# Another valid word for each of these.
OTHER_WORDS = {
    "1/255": "1/127.5-1",
    "bicubic": "bilinear",
    "bilinear": "bicubic",
    "default": "other",
    "even": "fps",
    "float32": "float16",
    "floor": "round",
    "fps": "even",
    "gelu": "relu",
    "quick_gelu": "gelu",
    "right": "left",
    "sdpa": "eager",
    "shortest-edge": "squash",
    "squash": "shortest-edge",
}
KeyPath = tuple[str, ...]


def with_marks(families: Any, *quick: str) -> list[Any]:
    """The families, of which the quick ones are tested always."""
    slow = pytest.mark.check("many keys")
    return [
        family if family in quick else pytest.param(family, marks=slow)
        for family in sorted(families)
    ]


def leaves(tree: dict[str, Any], path: KeyPath = ()) -> Iterator[KeyPath]:
    """The path of each value that is no table."""
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key)


def other_value(value: Any) -> Any:
    """Another value of the same type, as small a change as can be."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.5 + 0.01
    if isinstance(value, str):
        return OTHER_WORDS.get(value, f"{value}x")
    if isinstance(value, list) and value:
        return [other_value(value[0]), *value[1:]]
    return 1


def changed(tree: dict[str, Any], path: KeyPath) -> dict[str, Any]:
    """The tree with another value at one place."""
    tree = copy.deepcopy(tree)
    table = tree
    for key in path[:-1]:
        table = table[key]
    table[path[-1]] = other_value(table[path[-1]])
    return tree


def numbers_of(model: Backbone) -> dict[str, Any]:
    """What a model makes of the same pictures or the same sound."""
    random = np.random.default_rng(0)
    if isinstance(model, SoundBackbone):
        n_samples = round(0.7 * model.view.rate)
        samples = 0.2 * random.standard_normal(n_samples) + 0.1
        return model.forward([ClipSound(samples.astype(np.float32))])
    assert isinstance(model, PictureBackbone)
    shape = (model.geometry.frames, 40, 60, 3)
    pictures = random.integers(0, 256, shape, dtype=np.uint8)
    return model.forward(np.asarray(model.preprocess(pictures))[None])


def outcome(load: Callable[[], Backbone], before: Backbone) -> str:
    """What a change does: it is refused, seen in the recipe, or decides nothing."""
    try:
        after = load()
        recipe = make_recipe(after).canonical
    except (ObygazeError, IndexError, RuntimeError):
        # The last two are of torch: the sizes do not fit.
        return "refused"
    if recipe != make_recipe(before).canonical:
        return "another recipe"
    expected = numbers_of(before)
    for name, values in numbers_of(after).items():
        np.testing.assert_array_equal(values, expected[name])
    return "same numbers"


def change_files(folder: Path, load: Callable[[], Backbone]) -> Counter[str]:
    """Change each key of each JSON file beside the weights, but those of processors.

    Those that no hash has are changed once more, all together: the numbers are the same.
    """
    before = load()
    recipe = make_recipe(before).canonical
    files = WeightFiles(folder, (), "")

    def is_same_recipe() -> bool:
        return files.configuration_sha256 in recipe

    outcomes: Counter[str] = Counter()
    for path in sorted(folder.glob("*.json")):
        if path.name in FORMS:
            continue
        original = path.read_text("utf-8")
        tree = json.loads(original)
        with_others = tree
        assert is_same_recipe()
        for key_path in leaves(tree):
            path.write_text(json.dumps(changed(tree, key_path)), "utf-8")
            if is_same_recipe():
                with_others = changed(with_others, key_path)
                outcomes[f"{path.name} {'.'.join(key_path)}"] += 1
            else:
                outcomes["another recipe"] += 1
        if with_others != tree:
            path.write_text(json.dumps(with_others), "utf-8")
            assert outcome(load, before) == "same numbers"
        path.write_text(original, "utf-8")
    return outcomes


def model_of(family: str, folder: Path) -> tuple[Card, Path]:
    """The card and the folder of a tiny checkpoint of pictures or of sound."""
    if family in TINY:
        return tiny_card(family), save_tiny(family, folder / "weights")
    weights = save_tiny_sound(family, folder / "weights")
    return tiny_sound_card(family, folder), weights


@pytest.mark.parametrize("family", with_marks(SOME, "hubert"))
def test_configurations(family: str, tmp_path: Path) -> None:
    card, folder = model_of(family, tmp_path)
    outcomes = change_files(folder, lambda: load_backbone(card, folder))
    assert outcomes["another recipe"] > 4


def own_class(module: str, name: str) -> Any:
    """A processor of pictures of the library in its Pillow form."""
    root = f"transformers.models.{module}.image_processing"
    if module == "vivit":
        return getattr(importlib.import_module(f"{root}_vivit"), name)
    return getattr(importlib.import_module(f"{root}_pil_{module}"), f"{name}Pil")


# One of each class; that of X-CLIP and of the Vision Transformers over time is VideoMAE's.
CLASSES = {
    "vjepa2": ("videomae", "VideoMAEImageProcessor"),
    "clip": ("clip", "CLIPImageProcessor"),
    "siglip": ("siglip", "SiglipImageProcessor"),
    "dinov2": ("bit", "BitImageProcessor"),
    "vivit": ("vivit", "VivitImageProcessor"),
}


def settings_of(family: str, card: Card) -> tuple[Any, dict[str, Any]]:
    """The class of a processor, and what its file says for a tiny checkpoint."""
    if family in CARD_OF:
        own = processor(family)
        return type(own), json.loads(own.to_json_string())
    kind = own_class(*CLASSES[family])
    square = {"height": card.geometry.size, "width": card.geometry.size}
    is_squashed = card.input.resize == "squash"
    settings = {
        "image_mean": list(card.input.mean),
        "image_std": list(card.input.std),
        "resample": {"bilinear": 2, "bicubic": 3}[card.input.filter],
        "size": square if is_squashed else {"shortest_edge": card.geometry.size},
    }
    if not is_squashed:
        settings["crop_size"] = square
    return kind, json.loads(kind(**settings).to_json_string())


def processed(family: str, kind: Any, settings: dict[str, Any]) -> Any:
    """What the library's own processor makes of a clip; None where it fails."""
    random = np.random.default_rng(0)
    try:
        own = kind.from_dict(copy.deepcopy(settings))
        if family in CARD_OF:
            n_samples = RATE.get(family, 16000) // 2
            sound = (0.2 * random.standard_normal(n_samples) + 0.1).astype(np.float32)
            return np.asarray(next(iter(own(sound, return_tensors="np").values())))
        pictures = list(random.integers(0, 256, (2, 40, 60, 3), dtype=np.uint8))
        return np.asarray(own(pictures, return_tensors="np")["pixel_values"])
    except (ValueError, TypeError, KeyError, RuntimeError, NotImplementedError):
        # These settings make no input.
        return None


@pytest.mark.parametrize("family", with_marks([*CLASSES, *CARD_OF], "hubert"))
def test_processors(family: str, tmp_path: Path) -> None:
    is_new_form = family in ("clip", "hubert", "vjepa2")
    name = FORMS[1] if is_new_form else FORMS[0]
    card, folder = model_of(family, tmp_path)
    kind, settings = settings_of(family, card)
    for form in FORMS:
        (folder / form).unlink(missing_ok=True)
    part = "feature_extractor" if family in CARD_OF else "image_processor"
    if family == "vjepa2":
        part = "video_processor"

    def write(settings: dict[str, Any]) -> None:
        tree = settings if name == FORMS[0] else {part: settings}
        (folder / name).write_text(json.dumps(tree), "utf-8")

    def check() -> None:
        files = find_weights(card, folder)
        if card.sound is None:
            check_pixel_file(card, card.geometry, files)
        else:
            check_sound_file(card, card.sound, files)

    write(settings)
    load_backbone(card, folder)
    expected = processed(family, kind, settings)
    outcomes: Counter[str] = Counter()
    for key_path in leaves(settings):
        other = changed(settings, key_path)
        write(other)
        try:
            check()
        except ObygazeError as error:
            # Of ViViT's two presets, the one differs in this key, the other in another.
            assert key_path[0] in error.message or key_path == ("offset",)
            assert "in this processor file" in error.message
            outcomes["refused"] += 1
            continue
        got = processed(family, kind, other)
        assert got is not None, key_path
        np.testing.assert_array_equal(got, expected, err_msg=str(key_path))
        outcomes["same numbers"] += 1
        outcomes[".".join(key_path)] += 1
    assert outcomes["refused"] >= 2
    key = "feature_size" if family in ("whisper", "clap") else "do_normalize"
    write(changed(settings, (key,)))
    told = f"^{key}: expected .* in this processor file"
    with pytest.raises(ObygazeError, match=told):
        load_backbone(card, folder)


def change_card(
    card_file: Path, load: Callable[[Card], Backbone], more: dict[str, Any]
) -> Counter[str]:
    """Change each key of a card, with those that it takes from the card that it is like."""
    tree = cards._document(card_file, cards._sources(None), ()).tree
    tree = {**tree, "download_mb": 1, "gated": False, "gflop": 1.0, **more}

    def card_of(tree: dict[str, Any]) -> Card:
        return parse_card(Document(copy.deepcopy(tree), "card.toml"))

    before = load(card_of(tree))
    outcomes: Counter[str] = Counter()
    for key_path in leaves(tree):
        other = changed(tree, key_path)
        found = outcome(lambda other=other: load(card_of(other)), before)
        outcomes[found] += 1
        if found == "same numbers":
            outcomes[".".join(key_path)] += 1
    return outcomes


@pytest.mark.parametrize("family", with_marks([*SOME, "lsmdc"], "hubert"))
def test_cards(family: str, tmp_path: Path) -> None:
    if family == "lsmdc":
        folder = save_lsmdc(tmp_path / "weights").parent
        card_file = write_lsmdc_card(tmp_path)
    elif family in TINY:
        folder = save_tiny(family, tmp_path / "weights")
        card_file = write_tiny_card(family, tmp_path)
    else:
        folder = save_tiny_sound(family, tmp_path / "weights")
        card_file = write_tiny_sound_card(family, tmp_path)
    # The card alone says what the input is.
    (folder / FORMS[0]).unlink(missing_ok=True)
    hashes = load_backbone(find_card(str(card_file)), folder).hashes
    more = {"package": "none", "weights_sha256": [hashes["tensors"]]}
    outcomes = change_card(card_file, lambda card: load_backbone(card, folder), more)
    assert outcomes["another recipe"] > 4


@pytest.mark.parametrize("name", ["descriptors", "sound-descriptors"])
def test_cards_without_weights(name: str) -> None:
    card_file = cards.SHIPPED / f"{name}.toml"
    outcomes = change_card(card_file, load_backbone, {})
    assert outcomes["another recipe"] > 4
