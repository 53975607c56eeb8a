"""Tiny random checkpoints of the families of sound, with their processors and their cards."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from support.checkpoints import stir

if TYPE_CHECKING:
    from obygaze_features.backbones.card import Card

CARD_OF = {
    "wav2vec2": "wav2vec2-base",
    "wavlm": "wavlm-base-plus",
    "hubert": "hubert-base-ls960",
    "whisper": "whisper-small",
    "clap": "clap-htsat-unfused",
}
RATE = {"clap": 48000}
CARD_TEXT = """
schema = "obygaze-backbone/1"
like = "{like}"
name = "tiny-{family}"
title = "A tiny checkpoint with random weights"
checkpoint = ""

[tokens]
width = {width}
out = {out}

[sound]
seconds = {seconds:g}
"""


class Tiny(NamedTuple):
    """The class and the configuration of a tiny model, and the width of its vectors."""

    model: str
    config: Callable[[Any], Any]
    width: int = 32
    out: int = 32


def _waves(name: str) -> Callable[[Any], Any]:
    def config(module: Any) -> Any:
        return getattr(module, name)(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=48,
            conv_dim=(16,) * 7,
            num_conv_pos_embeddings=16,
            num_conv_pos_embedding_groups=4,
            codevector_dim=16,
            proj_codevector_dim=16,
            num_codevectors_per_group=8,
            vocab_size=8,
        )

    return config


def _whisper(module: Any) -> Any:
    return module.WhisperConfig(
        d_model=32,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        vocab_size=60,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        max_target_positions=8,
        num_mel_bins=80,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )


def _clap(module: Any) -> Any:
    audio = {
        "patch_embeds_hidden_size": 8,
        "depths": [1, 1, 1, 1],
        "num_attention_heads": [1, 1, 2, 2],
        "hidden_size": 64,
        "projection_dim": 24,
        "mlp_ratio": 1.0,
        "drop_path_rate": 0.0,
    }
    text = {
        "vocab_size": 40,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 48,
        "max_position_embeddings": 20,
        "pad_token_id": 0,
        "projection_dim": 24,
    }
    return module.ClapConfig(audio_config=audio, text_config=text, projection_dim=24)


TINY = {
    "wav2vec2": Tiny("Wav2Vec2ForPreTraining", _waves("Wav2Vec2Config")),
    "wavlm": Tiny("WavLMModel", _waves("WavLMConfig")),
    "hubert": Tiny("HubertModel", _waves("HubertConfig")),
    "whisper": Tiny("WhisperForConditionalGeneration", _whisper),
    "clap": Tiny("ClapModel", _clap, width=64, out=24),
}


def processor(family: str) -> Any:
    """The library's own processor of the sound of a family, as its checkpoint has it."""
    import transformers

    if family == "whisper":
        return transformers.WhisperFeatureExtractor()
    if family == "clap":
        # As laion/clap-htsat-unfused has it; the class begins at 0 Hz.
        return transformers.ClapFeatureExtractor(
            truncation="rand_trunc", padding="repeatpad", frequency_min=50
        )
    return transformers.Wav2Vec2FeatureExtractor(do_normalize=family != "wavlm")


def save_tiny_sound(
    family: str, folder: Path, seed: int = 0, channels: int = 16
) -> Path:
    """A tiny checkpoint of a family, with its processor; waves have convolutions of channels."""
    tiny = TINY[family]
    root = f"transformers.models.{family}"
    configuration = importlib.import_module(f"{root}.configuration_{family}")
    modeling = importlib.import_module(f"{root}.modeling_{family}")
    config = tiny.config(configuration)
    if hasattr(config, "conv_dim"):
        config.conv_dim = (channels,) * 7
    model = getattr(modeling, tiny.model)(config)
    stir(model, seed)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    processor(family).save_pretrained(folder)
    return folder


def write_tiny_sound_card(family: str, folder: Path, seconds: float = 2.0) -> Path:
    """The file of the card of a tiny checkpoint: tiny-FAMILY.toml."""
    tiny = TINY[family]
    path = folder / f"tiny-{family}.toml"
    folder.mkdir(parents=True, exist_ok=True)
    text = CARD_TEXT.format(
        like=CARD_OF[family],
        family=family,
        width=tiny.width,
        out=tiny.out,
        seconds=seconds,
    )
    path.write_text(text, encoding="utf-8")
    return path


def tiny_sound_card(family: str, folder: Path, seconds: float = 2.0) -> Card:
    """The card of a tiny checkpoint."""
    from obygaze_features.backbones.cards import find_card

    return find_card(str(write_tiny_sound_card(family, folder, seconds)))
