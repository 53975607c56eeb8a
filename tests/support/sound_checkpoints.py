"""Tiny random checkpoints of the families of sound, with their processors and their cards."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from support.checkpoints import LAYERS, save_model, write_card

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


class Tiny(NamedTuple):
    """The class and the configuration of a tiny model, and the width of its vectors."""

    model: str
    config: Mapping[str, Any]
    width: int = 32
    out: int = 32


_WAVES = {**LAYERS, "intermediate_size": 48, "vocab_size": 8}
_WAVES |= {"num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
_WAVES |= {"codevector_dim": 16, "proj_codevector_dim": 16}
_WAVES |= {"num_codevectors_per_group": 8}
_WHISPER = {
    "d_model": 32,
    **{"encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 48},
    **{"decoder_layers": 1, "decoder_attention_heads": 2, "decoder_ffn_dim": 48},
    **{"vocab_size": 60, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
    **{"decoder_start_token_id": 1, "max_target_positions": 8, "num_mel_bins": 80},
    **{"suppress_tokens": None, "begin_suppress_tokens": None},
}
_AUDIO = {
    **{"patch_embeds_hidden_size": 8, "hidden_size": 64, "projection_dim": 24},
    **{"depths": [1, 1, 1, 1], "num_attention_heads": [1, 1, 2, 2]},
    **{"mlp_ratio": 1.0, "drop_path_rate": 0.0},
}
_TEXT = {
    **{**LAYERS, "intermediate_size": 48, "vocab_size": 40, "pad_token_id": 0},
    **{"max_position_embeddings": 20, "projection_dim": 24},
}
_CLAP = {"audio_config": _AUDIO, "text_config": _TEXT, "projection_dim": 24}
TINY = {
    "wav2vec2": Tiny("Wav2Vec2ForPreTraining", _WAVES),
    "wavlm": Tiny("WavLMModel", _WAVES),
    "hubert": Tiny("HubertModel", _WAVES),
    "whisper": Tiny("WhisperForConditionalGeneration", _WHISPER),
    "clap": Tiny("ClapModel", _CLAP, width=64, out=24),
}


def processor(family: str) -> Any:
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
    config = dict(tiny.config)
    if tiny.config is _WAVES:
        config["conv_dim"] = (channels,) * 7
    save_model(family, tiny.model, config, folder, seed)
    processor(family).save_pretrained(folder)
    return folder


def write_tiny_sound_card(family: str, folder: Path, seconds: float = 2.0) -> Path:
    tiny = TINY[family]
    return write_card(
        folder,
        f"tiny-{family}",
        like=CARD_OF[family],
        checkpoint="",
        tokens={"width": tiny.width, "out": tiny.out},
        sound={"seconds": seconds},
    )


def tiny_sound_card(family: str, folder: Path, seconds: float = 2.0) -> Card:
    from obygaze_features.backbones.cards import find_card

    return find_card(str(write_tiny_sound_card(family, folder, seconds)))
