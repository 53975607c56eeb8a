from dataclasses import replace
from pathlib import Path

import pytest

from obygaze_features.backbones.card import Mel, Sound, Words
from obygaze_features.backbones.cards import SHIPPED, find_card, find_cards
from obygaze_features.backbones.geometry import Depth
from obygaze_features.core.errors import FixInput, NotFound
from obygaze_features.core.workspace import Workspace

NAMES = sorted(path.stem for path in SHIPPED.glob("*.toml"))
B16 = Depth(layers=12, hidden=3072, heads=12, patch=16)
B32, B14 = replace(B16, patch=32), replace(B16, patch=14)
B16X2 = replace(B16, tubelet=2)
L14 = Depth(layers=24, hidden=4096, heads=16, patch=14)
L16X2 = replace(L14, patch=16, tubelet=2)

# name: frames, size, tokens of a clip with prefix, width, clip, vectors of frames, depth
PUBLISHED = {
    "xclip-b16-k600-zs": (32, 224, 32 * 197, 768, 512, (32, 512), B16),
    "xclip-b32-k400": (8, 224, 8 * 50, 768, 512, (8, 512), B32),
    "xclip-b16-k400": (8, 224, 8 * 197, 768, 512, (8, 512), B16),
    "xclip-l14-k400": (8, 224, 8 * 257, 1024, 768, (8, 768), L14),
    "xclip-lsmdc-b32": (12, 224, 12 * 50, 768, 512, (12, 512), B32),
    "xclip-lsmdc-b16": (12, 224, 12 * 197, 768, 512, (12, 512), B16),
    "vivit-b16x2-k400": (32, 224, 1 + 16 * 196, 768, 768, (16, 768), B16X2),
    "clip-b16": (16, 224, 16 * 197, 768, 512, (16, 512), B16),
    "clip-l14": (16, 224, 16 * 257, 1024, 768, (16, 768), L14),
    "siglip2-b16": (16, 224, 16 * 196, 768, 768, (16, 768), B16),
    "dinov2-b": (16, 224, 16 * 257, 768, 768, (16, 768), B14),
    "dinov3-b16": (16, 224, 16 * 201, 768, 768, (16, 768), B16),
    "videomae-b": (16, 224, 8 * 196, 768, 768, (8, 768), B16X2),
    "timesformer-b-k400": (8, 224, 1 + 8 * 196, 768, 768, (8, 768), B16),
    "vjepa2-l": (16, 256, 8 * 256, 1024, 1024, (8, 1024), L16X2),
}
# name: rate, seconds, width, clip
PUBLISHED_SOUND = {
    "wav2vec2-base": (16000, 15, 768, 768),
    "wavlm-base-plus": (16000, 15, 768, 768),
    "hubert-base-ls960": (16000, 15, 768, 768),
    "whisper-small": (16000, 30, 768, 768),
    "clap-htsat-unfused": (48000, 10, 768, 512),
}
# The spectrograms of preprocessor_config.json on the hub.
PUBLISHED_MEL = {
    "whisper-small": Mel(80, 400, 160, 0, 8000),
    "clap-htsat-unfused": Mel(64, 1024, 480, 50, 14000),
}
# name: tokens, whether vectors have the length 1, width, layers
PUBLISHED_WORDS = {
    "minilm": (256, True, 384, 6),
    "distilroberta": (512, True, 768, 6),
    "minilm-multilingual": (128, False, 384, 12),
}
WITHOUT_CHECKPOINT = ("descriptors", "sound-descriptors", "speech")


def test_the_table_and_the_folder_are_the_same() -> None:
    of_pictures = {*PUBLISHED, *WITHOUT_CHECKPOINT}
    assert set(NAMES) == {*of_pictures, *PUBLISHED_SOUND, *PUBLISHED_WORDS}


@pytest.mark.parametrize("name", sorted(PUBLISHED_WORDS))
def test_a_card_of_words_is_as_published(name: str) -> None:
    tokens, is_normalised, width, layers = PUBLISHED_WORDS[name]
    card = find_card(name)
    assert card.family.medium == "words"
    assert card.words == Words(tokens, is_normalised)
    assert (card.geometry.out, card.depth["layers"]) == (width, layers)
    assert {array.shape for array in card.arrays.values()} == {(width,)}
    # The weights of one come with a package, whose hash decides.
    assert bool(card.package) == bool(card.weights_sha256) == (name == "minilm")


@pytest.mark.parametrize("name", sorted(PUBLISHED_SOUND))
def test_a_card_of_sound_is_as_published(name: str) -> None:
    rate, seconds, width, vector = PUBLISHED_SOUND[name]
    card = find_card(name)
    assert card.family.medium == "sound"
    # Only WavLM Base+ takes samples as they are, of the models of waves.
    is_normalised = card.family.name in ("wav2vec2", "hubert")
    mel = PUBLISHED_MEL.get(name)
    assert card.sound == Sound(rate, seconds, is_normalised, mel=mel)
    shapes = {name: array.shape for name, array in card.arrays.items()}
    assert shapes == {"clip": (vector,), "pooled": (width,), "frames": (16, width)}
    assert card.depth["layers"] == 12


@pytest.mark.parametrize(
    ("like", "setting", "message"),
    [
        ("clap-htsat-unfused", "seconds = 20", "above 0 and at most 10, got 20"),
        ("whisper-small", "rate = 48000", "16000 for models of whisper, got 48000"),
        ("speech", "normalise = true", "models of speech do not use this key"),
        (
            "sound-descriptors",
            "rate = 8000\n[tokens]\nprefix = 1",
            "tokens.prefix: only for models of pictures, not sound-descriptors",
        ),
    ],
)
def test_sound_that_a_model_cannot_take_is_refused(like, setting, message, tmp_path):
    """CLAP would hear silence in place of a sound that is too long for it."""
    path = tmp_path / "own.toml"
    head = f'schema = "obygaze-backbone/1"\nlike = "{like}"\nname = "own"\n'
    path.write_text(f'{head}title = "t"\n[sound]\n{setting}\n', encoding="utf-8")
    with pytest.raises(FixInput, match="not valid") as caught:
        find_card(str(path))
    (line,) = caught.value.details
    assert "sound" in line and message in line


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_cards_are_what_is_published(name: str) -> None:
    frames, size, tokens, width, clip, vectors, depth = PUBLISHED[name]
    card = find_card(name)
    g = replace(card.geometry, depth=depth)
    per_sequence = g.prefix * (g.frames if g.unit == "frame" else 1)
    assert (g.frames, g.size) == (frames, size)
    expected = {"layers": depth.layers, "hidden": depth.hidden, "heads": depth.heads}
    assert card.depth == expected
    assert g.steps * g.patches + per_sequence == tokens
    assert g.grid[1] == size // depth.patch
    shapes = {array: found.shape for array, found in card.arrays.items()}
    assert shapes["clip"] == (clip,)
    assert shapes["frames"] == vectors
    assert shapes["pooled"] == (width,)
    assert shapes["tokens"][-1] == width


def test_one_dimension_name_means_one_length() -> None:
    for card in find_cards()[0]:
        lengths: dict[str, int] = {}
        for array in card.arrays.values():
            for dim, length in zip(array.dims, array.shape, strict=True):
                assert lengths.setdefault(dim, length) == length, (card.name, dim)


def test_presets_of_the_paper() -> None:
    for name in NAMES:
        card = find_card(name)
        expected = card.family.name in ("xclip", "vivit", "lsmdc")
        assert ("paper-2024" in card.presets) is expected
    zero_shot = find_card("xclip-b16-k600-zs@paper-2024").input
    assert (zero_shot.squash_first, zero_shot.attention) == (224, "eager")
    # ImageNet's mean, not CLIP's, and taken over from the card it is like.
    assert zero_shot.mean == (0.485, 0.456, 0.406)
    assert find_card("vivit-b16x2-k400@hub").input.rescale == "1/127.5-1"
    assert find_card("vivit-b16x2-k400").input.rescale == "1/255"
    lsmdc = find_card("xclip-lsmdc-b16").input
    read = (lsmdc.filter, lsmdc.crop_offset, lsmdc.sampling)
    assert read == ("bicubic", "round", "fps")


TEN_LINES = """
schema = "obygaze-backbone/1"
like = "clip-b16"
name = "clip-b32"
title = "CLIP ViT-B/32, OpenAI"
checkpoint = "openai/clip-vit-base-patch32"
gflop = 141
[tokens]
grid = [16, 7, 7]
"""


@pytest.fixture
def own(tmp_path: Path) -> Workspace:
    (tmp_path / "backbones").mkdir()
    (tmp_path / "backbones" / "clip-b32.toml").write_text(TEN_LINES)
    return Workspace(tmp_path)


def test_a_new_checkpoint_is_ten_lines(own: Workspace) -> None:
    card = find_card("clip-b32", own)
    assert card.arrays["tokens"].shape == (16, 50, 768)
    assert card.arrays["clip"].shape == (512,)
    assert card.input == find_card("clip-b16").input
    assert card.revision == "main"
    assert find_card(str(own.root / "backbones" / "clip-b32.toml")) == card
    assert "clip-b32" in [card.name for card in find_cards(own)[0]]
    with pytest.raises(NotFound):
        find_card("clip-b32")


def test_the_hash_of_a_card_is_that_of_the_stores_which_have_it_in_their_recipe():
    hashes = {
        "vivit-b16x2-k400": "c4eda496f9128037adec1e1deb292296be8bd128e8ff2a58ca294f0a38471adc",
        "xclip-b16-k600-zs": "4c8d07b111436a440db102bd6654d407500b9637d46f6c8b1b37d4883828b05b",
        "xclip-lsmdc-b32": "4795d9a28b367333d40b705383720a2b2d7060898fe725a2db3227c0f92116db",
    }
    for name, expected in hashes.items():
        assert find_card(name).sha256 == expected


@pytest.mark.parametrize(
    ("name", "measured_mb"),
    [("xclip-b16-k600-zs", 165), ("vivit-b16x2-k400", 125), ("xclip-lsmdc-b32", 18)],
)
def test_activations_are_near_what_was_measured(name: str, measured_mb: float) -> None:
    card, depth = find_card(name), PUBLISHED[name][-1]
    g = replace(card.geometry, depth=depth)
    n_bytes = card.family.activation_bytes(g, "bfloat16", "sdpa")
    assert n_bytes / 1e6 == pytest.approx(measured_mb, rel=0.2)
    assert card.family.activation_bytes(g, "bfloat16", "eager") > n_bytes


def test_a_default_array_changes_no_hash_and_must_be_there(tmp_path: Path) -> None:
    text = (SHIPPED / "descriptors.toml").read_text()
    own = tmp_path / "descriptors.toml"
    own.write_text(text.replace('default_array = "clip"', 'default_array = "pooled"'))
    card = find_card(str(own))
    assert next(iter(card.arrays)) == "pooled"
    assert card.sha256 == find_card("descriptors").sha256
    wrong = {
        "poled": "unknown array 'poled' (did you mean 'pooled'?)",
        # The first vector would be read in its place.
        "frames": "must have one vector per clip, but frames has several",
    }
    for name, said in wrong.items():
        array = f'default_array = "{name}"'
        own.write_text(text.replace('default_array = "clip"', array))
        with pytest.raises(FixInput) as refusal:
            find_card(str(own))
        assert said in "".join(refusal.value.details)
