"""The families: the class, the geometry and the output tensors of each."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones import descriptors, sound_descriptors
from obygaze_features.backbones.card import (
    PARTS,
    Card,
    ComputedFamily,
    Family,
    Mel,
    Sound,
    reads_words,
)
from obygaze_features.backbones.geometry import Depth, Geometry, Order
from obygaze_features.backbones.pretrained import PretrainedFamily, Text, library
from obygaze_features.backbones.sound import (
    SoundFamily,
)
from obygaze_features.backbones.speech import Speech
from obygaze_features.backbones.steps import (
    Steps,
)
from obygaze_features.core.errors import FixInput
from obygaze_features.store.recipe import TEXT
from obygaze_features.video.resample import Samples

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from obygaze_features.backbones.backbone import (
        Backbone,
    )
    from obygaze_features.backbones.placement import (
        Placement,
    )
    from obygaze_features.backbones.weight_files import (
        WeightFiles,
    )

# For models of frames, `tokens` contains all tokens of a frame with the prefix; for models of
# clips, the patches only.
_OF_FRAMES = {
    "tokens": "step token width",
    "token-max": "width",
    "frame-cls": "step width",
}
_DIVIDED = "divided_space_time"
_VECTORS = {"frame-vector": "step out"}
_IMAGE = {**_OF_FRAMES, **_VECTORS, "frame-mean": "out"}
_VIDEO = {
    "tokens": "step token width",
    "token-max": "width",
    "token-mean": "width",
    "space-mean": "step width",
    "cls": "width",
    "prefix": "prefix width",
}


def _one(value: Any) -> int:
    """Return a size of a configuration: one number, or equal height and width."""
    if isinstance(value, int):
        return value
    if len(set(value)) != 1:
        raise FixInput(
            f"only square frames and patches are supported, got {list(value)}"
        )
    return int(value[0])


def _depth(config: Any, patch: int, tubelet: int = 1) -> Depth:
    hidden = getattr(config, "intermediate_size", None)
    hidden = hidden or int(config.hidden_size * config.mlp_ratio)
    return Depth(
        config.num_hidden_layers, hidden, config.num_attention_heads, patch, tubelet
    )


def _image_geometry(
    config: Any,
    card: Geometry,
    *,
    prefix: int = 1,
    out: str = "hidden_size",
    any_size: bool = False,
) -> Geometry:
    if not getattr(config, "vision_use_head", True):
        problem = "this SigLIP checkpoint has no pooling head for the vectors of frames"
        raise FixInput(problem)
    size = _one(config.image_size)
    patch = _one(config.patch_size)
    if any_size:
        # Positions are interpolated to any size up to the checkpoint's; the card states the size.
        size = min(card.size, size)
    prefix += getattr(config, "num_register_tokens", 0)
    grid = (card.frames, size // patch, size // patch)
    width = config.hidden_size
    depth = _depth(config, patch)
    vector = getattr(config, out)
    return Geometry(
        card.frames, size, "frame", prefix, "hw", grid, width, vector, depth
    )


# --- X-CLIP: an image tower with attention between the frames of a clip


def _xclip_geometry(config: Any, card: Geometry) -> Geometry:
    vision = config.vision_config
    geometry = _image_geometry(vision, replace(card, frames=vision.num_frames))
    return replace(geometry, out=config.projection_dim)


def _xclip_keep(model: Any) -> torch.nn.Module:
    """Return the model without the text model, to save memory of the device."""
    import torch

    parts = {
        "vision": model.vision_model,
        "projection": model.visual_projection,
        "mit": model.mit,
    }
    return torch.nn.ModuleDict(parts)


def _xclip_run(
    module: Any, pixels: Tensor, mask: Tensor, g: Geometry
) -> dict[str, Tensor]:
    b, t = pixels.shape[:2]
    # Outputs are taken by index, because they have names in some releases only.
    seen = module["vision"](pixel_values=pixels.flatten(0, 1))
    tokens = seen[0].unflatten(0, (b, t))
    vectors = module["projection"](seen[1]).unflatten(0, (b, t))
    mixed = module["mit"](vectors)
    return {
        "tokens": tokens,
        "token-max": tokens.amax(dim=(1, 2)),
        "frame-cls": tokens[:, :, 0],
        "frame-vector": vectors,
        "mit-output": mixed[0],
        "mit-mean": mixed[1],
    }


# --- Image models: each frame on its own


def _image_run(
    module: Any, pixels: Tensor, mask: Tensor, g: Geometry
) -> dict[str, Tensor]:
    b, t = pixels.shape[:2]
    seen = module(pixel_values=pixels.flatten(0, 1))
    tokens = seen.last_hidden_state.unflatten(0, (b, t))
    flat = seen.image_embeds if hasattr(seen, "image_embeds") else seen.pooler_output
    vectors = flat.unflatten(0, (b, t))
    return {
        "tokens": tokens,
        "token-max": tokens.amax(dim=(1, 2)),
        "frame-vector": vectors,
        "frame-mean": vectors.float().mean(dim=1),
        "frame-cls": tokens[:, :, 0],
    }


# --- Video models: the whole clip at once


def _video_geometry(
    config: Any, card: Geometry, *, prefix: int = 0, order: Order = "thw"
) -> Geometry:
    if getattr(config, "attention_type", _DIVIDED) != _DIVIDED:
        problem = f"expected attention_type {_DIVIDED}, got {config.attention_type}"
        raise FixInput(problem, hint="use a TimeSformer checkpoint with this attention")
    tubelet: Any = getattr(config, "tubelet_size", 1)
    patch = getattr(config, "patch_size", None)
    if patch is None:
        tubelet, *patch = tubelet
    size = _one(getattr(config, "crop_size", None) or config.image_size)
    patch = _one(patch)
    frames = getattr(config, "num_frames", None)
    # V-JEPA 2 takes any even number of frames up to its maximum; the card states the number.
    frames = frames or min(card.frames, config.frames_per_clip)
    grid = (frames // tubelet, size // patch, size // patch)
    width = config.hidden_size
    depth = _depth(config, patch, tubelet)
    return Geometry(frames, size, "clip", prefix, order, grid, width, width, depth)


def _vjepa2_keep(model: Any) -> torch.nn.Module:
    model.predictor = None
    whole: torch.nn.Module = model
    return whole


def _video_run(
    module: Any, pixels: Tensor, mask: Tensor, g: Geometry, **options: bool
) -> dict[str, Tensor]:
    sequence = module(**{module.main_input_name: pixels}, **options).last_hidden_state
    n = len(sequence)
    prefix = sequence[:, : g.prefix]
    patches = sequence[:, g.prefix :]
    # In patch-major order, token p * T + t is patch p at time t.
    if g.order == "hwt":
        tokens = patches.reshape(n, g.patches, g.steps, -1).transpose(1, 2)
    else:
        tokens = patches.reshape(n, g.steps, g.patches, -1)
    outputs = {
        "tokens": tokens,
        "token-max": sequence.amax(dim=1),
        "token-mean": patches.float().mean(dim=1),
        "space-mean": tokens.float().mean(dim=2),
        "prefix": prefix,
    }
    return {**outputs, "cls": prefix[:, 0]} if g.prefix else outputs


# --- X-CLIP of Ma et al. (LSMDC)


class LsmdcFamily(Family):
    """The family of checkpoints in the format of the training code.

    These checkpoints have no configuration: the sizes of the model are those of its tensors.
    """

    def load(self, card: Card, files: WeightFiles, placement: Placement) -> Backbone:
        """Return the model of a card, with all tensors of the files and no others."""
        # Imported late: the module defines classes of torch.
        from obygaze_features.backbones.lsmdc import load_lsmdc

        return load_lsmdc(card, files, placement)


# --- Models of sound


def _sound_geometry(config: Any, card: Geometry, *, out: str = "") -> Geometry:
    if getattr(config, "add_adapter", False):
        raise FixInput("a checkpoint with an adapter is not supported")
    if getattr(config, "enable_fusion", False):
        raise FixInput(
            "fused CLAP is not supported: it crops long sounds at random",
            hint="use laion/clap-htsat-unfused",
        )
    width = config.hidden_size
    depth = Depth(*_sound_depth(config), patch=1)
    vector = getattr(config, out) if out else width
    return replace(card, width=width, out=vector, depth=depth)


def _sound_depth(config: Any) -> tuple[int, int, int]:
    """Return the layers, the hidden size and the heads of a model of sound."""
    if hasattr(config, "encoder_layers"):
        heads = config.encoder_attention_heads
        return config.encoder_layers, config.encoder_ffn_dim, heads
    if hasattr(config, "depths"):
        hidden = int(config.hidden_size * config.mlp_ratio)
        return sum(config.depths), hidden, max(config.num_attention_heads)
    heads = config.num_attention_heads
    return config.num_hidden_layers, config.intermediate_size, heads


_SMALL_CONVOLUTION = 20_480


def _as_they_are(samples: Samples, sound: Sound) -> Samples:
    return samples


def _waves_stack(module: Any, shape: tuple[int, ...]) -> bool:
    """Return whether pieces of sound of this shape may be computed in one batch.

    They may if the input of the last convolution is large. For a small input, the bits of torch's
    convolution of one clip differ from those of the same clip in a batch.
    """
    length = shape[0]
    config = module.config
    for kernel, stride in zip(
        config.conv_kernel[:-1], config.conv_stride[:-1], strict=True
    ):
        length = (length - kernel) // stride + 1
    is_large: bool = length * config.conv_dim[-2] > _SMALL_CONVOLUTION
    return is_large


def _mels_stack(module: Any, shape: tuple[int, ...]) -> bool:
    return True


def _wave_steps(module: Any, inputs: Tensor, sound: Sound) -> Steps:
    """Return the steps of wav2vec 2.0 and similar models: step k is at sample 320 k + 200."""
    vectors = module(inputs).last_hidden_state
    apart = int(np.prod(module.config.conv_stride))
    seen = 1
    for kernel, stride in zip(
        reversed(module.config.conv_kernel),
        reversed(module.config.conv_stride),
        strict=True,
    ):
        seen = (seen - 1) * stride + kernel
    return Steps(vectors, np.arange(vectors.shape[1]) * apart + seen / 2)


_MEL_SAMPLES = 480_000
"""Sound samples of a mel spectrogram: 30 s at the rate of Whisper, 10 s at that of CLAP."""
_LEAST_POWER = 1e-10


def _log_mel(samples: Samples, mel: Mel, rate: int) -> Any:
    """Return the log10 spectrogram [bands, frames] of samples, padded with zeros at the end.

    The function of transformers is not used, because it computes one frame at a time, while the GPU
    waits. The matrix of the bands is sparse: a product with a dense matrix would use a BLAS, which
    takes processor cores from the decoders.
    """
    from scipy.sparse import csr_array

    length = mel.window
    bands = library("audio_utils").mel_filter_bank(
        length // 2 + 1,
        *(mel.bands, mel.low_hz, mel.high_hz, rate),
        norm="slaney",
        mel_scale="slaney",
    )
    padded = np.pad(samples, (0, _MEL_SAMPLES - len(samples)))
    padded = np.pad(padded, length // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, length)[:: mel.hop]
    heard = frames.any(axis=1)
    window = np.hanning(length + 1)[:-1]
    spectra = np.fft.rfft(frames[heard] * window).astype(np.complex64)
    power = np.abs(spectra, dtype=np.float64) ** 2
    # Each band covers few frequencies.
    of_bands = csr_array(bands.T) @ power.T
    powers = np.full((mel.bands, len(frames)), _LEAST_POWER)
    powers[:, heard] = np.maximum(_LEAST_POWER, of_bands)
    return np.log10(powers)


def _whisper_input(samples: Samples, sound: Sound) -> npt.NDArray[np.float32]:
    """Return the input of Whisper's encoder: 3,000 mel frames of 30 s."""
    mel = cast(Mel, sound.mel)
    levels = _log_mel(samples, mel, sound.rate).astype(np.float32)[:, :-1]
    scaled: npt.NDArray[np.float32] = np.maximum(levels, levels.max() - 8.0) + 4.0
    return scaled / 4.0


def _whisper_steps(module: Any, inputs: Tensor, sound: Sound) -> Steps:
    """Return the steps of Whisper's encoder."""
    mel = cast(Mel, sound.mel)
    vectors = module(inputs).last_hidden_state
    # A mel frame is centred at its start, and a step covers two frames.
    return Steps(vectors, np.arange(vectors.shape[1]) * 2.0 * mel.hop)


def _clap_input(samples: Samples, sound: Sound) -> npt.NDArray[np.float32]:
    """Return the input of CLAP: mel frames of 10 s, in which shorter sound is repeated."""
    repeated = np.tile(samples, _MEL_SAMPLES // len(samples))
    mel = cast(Mel, sound.mel)
    decibels = 10 * _log_mel(repeated, mel, sound.rate)
    levels: npt.NDArray[np.float32] = decibels.astype(np.float32).T[None]
    return levels


def _clap_steps(module: Any, inputs: Tensor, sound: Sound) -> Steps:
    """Return the steps and the vectors of CLAP."""
    import torch

    mel = cast(Mel, sound.mel)
    seen = module.audio_model(inputs)
    # Row by row: the bits of a product of few rows depend on the number of rows.
    rows = seen.pooler_output.split(1)
    vectors_of_pieces = torch.cat([module.audio_projection(row) for row in rows])
    # [pieces, width, bands of frequency, steps]
    vectors = seen.last_hidden_state.float().mean(dim=2).transpose(1, 2)
    # The model interpolates the frames to this number of columns; first and last frame stay.
    config = module.config
    n_columns = config.spec_size * (config.spec_size // config.num_mel_bins)
    n_steps = vectors.shape[1]
    columns = (np.arange(n_steps) + 0.5) * n_columns / n_steps - 0.5
    frames = columns * (inputs.shape[2] - 1) / (n_columns - 1)
    return Steps(vectors, frames * mel.hop, vectors_of_pieces)


# --- Models of words: sentence encoders, whose vector of a text is the mean over its tokens


class WordsFamily(PretrainedFamily):
    """A family of encoders of text of the transformers library."""

    def __init__(self, name: str, class_name: str, unused_positions: int = 0) -> None:
        super().__init__(
            name,
            class_name,
            outputs={TEXT: "out"},
            medium="words",
            geometry=_words_geometry,
            run=_words_run,
            options={"add_pooling_layer": False},
            text=Text(class_name, _mean_of_tokens, unused_positions=unused_positions),
        )

    def load(self, card: Card, files: WeightFiles, placement: Placement) -> Backbone:
        """Raise an error: `backbones.text` loads these models, whose input is text."""
        raise reads_words(card)


def _words_geometry(config: Any, card: Geometry) -> Geometry:
    heads = config.num_attention_heads
    depth = Depth(config.num_hidden_layers, config.intermediate_size, heads, patch=1)
    width = config.hidden_size
    return Geometry(0, 0, width=width, out=width, depth=depth)


def _words_run(*_: Any) -> dict[str, Tensor]:
    return {}


def _mean_of_tokens(model: Any, tokens: Any) -> Tensor:
    """Return the mean over the tokens of each text, without padding."""
    mask = tokens["attention_mask"][:, :, None]
    vectors: Tensor = model(**tokens).last_hidden_state * mask
    mean: Tensor = vectors.sum(dim=1) / mask.sum(dim=1)
    return mean


# --- The table

_HEADS = r"position_ids$|^(classifier|fc_norm|pooler|vivit\.pooler)\."
_image_family = partial(
    PretrainedFamily, outputs=_IMAGE, run=_image_run, ignored=_HEADS
)
_video_family = partial(
    PretrainedFamily,
    outputs=_VIDEO,
    geometry=_video_geometry,
    run=_video_run,
    ignored=_HEADS,
)
_SOUND = {"steps-mean": "width", "steps-max": "width", "parts": "step width"}
_SOUND_KEYS = ("rate", "seconds", "normalise")
_sound_family = partial(
    SoundFamily, outputs=_SOUND, geometry=_sound_geometry, sound_keys=_SOUND_KEYS
)
# The convolutions have 64 times as many positions as there are steps.
_wave_family = partial(
    _sound_family,
    run=(_as_they_are, _wave_steps),
    stacks=_waves_stack,
    steps=750,
    live=140.0,
    ignored=r"^(quantizer|project_q|project_hid|lm_head|masked_spec_embed)",
)
_PRETRAINED: tuple[PretrainedFamily, ...] = (
    PretrainedFamily(
        "xclip",
        "XCLIPModel",
        package="x_clip",
        outputs={**_OF_FRAMES, **_VECTORS, "mit-output": "step out", "mit-mean": "out"},
        geometry=_xclip_geometry,
        run=_xclip_run,
        keep=_xclip_keep,
        # This vector is from before the video prompts change it; the logits of the model use the
        # changed vector.
        text=Text(
            "XCLIPModel", lambda m, tokens: m.text_projection(m.text_model(**tokens)[1])
        ),
    ),
    _image_family(
        "clip",
        "CLIPVisionModelWithProjection",
        model_types=("clip", "clip_vision_model"),
        geometry=partial(_image_geometry, out="projection_dim"),
        ignored=r"position_ids$|^(text_model|text_projection)\.|^logit_scale$",
        text=Text(
            "CLIPTextModelWithProjection", lambda m, tokens: m(**tokens).text_embeds
        ),
    ),
    _image_family(
        "siglip",
        "SiglipVisionModel",
        model_types=("siglip", "siglip_vision_model"),
        geometry=partial(_image_geometry, prefix=0),
        ignored=r"position_ids$|^text_model\.|^logit_(scale|bias)$",
        text=Text(
            "SiglipTextModel",
            lambda m, tokens: m(input_ids=tokens["input_ids"]).pooler_output,
            padded=True,
            lower=True,
        ),
    ),
    _image_family(
        "dinov2", "Dinov2Model", geometry=partial(_image_geometry, any_size=True)
    ),
    _image_family(
        "dinov3",
        "DINOv3ViTModel",
        package="dinov3_vit",
        model_types=("dinov3_vit",),
        geometry=partial(_image_geometry, any_size=True),
    ),
    _video_family(
        "vivit",
        "VivitModel",
        # Its GELU keeps several temporaries of four times the width.
        live=22.0,
        geometry=partial(_video_geometry, prefix=1),
        options={"add_pooling_layer": False},
    ),
    _video_family(
        "videomae",
        "VideoMAEModel",
        ignored=rf"{_HEADS}|^(decoder|encoder_to_decoder)\.|^mask_token$|position_embeddings$",
    ),
    _video_family(
        "timesformer",
        "TimesformerModel",
        geometry=partial(_video_geometry, prefix=1, order="hwt"),
    ),
    _video_family(
        "vjepa2",
        "VJEPA2Model",
        run=partial(_video_run, skip_predictor=True),
        keep=_vjepa2_keep,
    ),
    WordsFamily("bert", "BertModel"),
    WordsFamily("roberta", "RobertaModel", unused_positions=2),
    _wave_family("wav2vec2", "Wav2Vec2Model"),
    # For many lengths, a batch has different bits (docs/design/0004-recipes.md).
    _wave_family("wavlm", "WavLMModel", stacks=None),
    _wave_family("hubert", "HubertModel"),
    _sound_family(
        "whisper",
        "WhisperModel",
        keep=lambda model: model.encoder,
        ignored=r"^proj_out\.",
        run=(_whisper_input, _whisper_steps),
        stacks=_mels_stack,
        sound_keys=(*_SOUND_KEYS, "mel"),
        rate=16000,
        most_s=30.0,
        steps=1500,
    ),
    _sound_family(
        "clap",
        "ClapAudioModelWithProjection",
        model_types=("clap", "clap_audio_model"),
        outputs={**_SOUND, "vector-mean": "out"},
        geometry=partial(_sound_geometry, out="projection_dim"),
        ignored=r"position_ids$|^(text_model|text_projection)\.|^logit_scale_[at]$",
        run=(_clap_input, _clap_steps),
        stacks=_mels_stack,
        sound_keys=(*_SOUND_KEYS, "mel"),
        rate=48000,
        most_s=10.0,
        steps=512,
        text=Text(
            "ClapTextModelWithProjection",
            lambda m, tokens: m(**tokens).text_embeds,
            unused_positions=2,
        ),
    ),
)
_DESCRIPTORS = {
    "descriptors": "step out",
    "descriptors-mean-sd": "twice-out",
    "descriptors-max": "out",
}
_OTHERS: tuple[Family, ...] = (
    LsmdcFamily(
        "lsmdc",
        "CLIPVisionModelWithProjection",
        outputs={
            **_OF_FRAMES,
            **_VECTORS,
            "masked-token-max": "width",
            "frame-cls-ln": "step width",
            "frame-temporal": "step out",
            "frame-norm": "step out",
            "video": "out",
        },
        takes_mask=True,
    ),
    ComputedFamily(
        "descriptors",
        "NumPy",
        outputs=_DESCRIPTORS,
        make=descriptors.Descriptors,
        frame_bytes=descriptors.FRAME_BYTES,
        resized=descriptors.SEEN,
    ),
    ComputedFamily(
        "sound-descriptors",
        "NumPy",
        outputs=_DESCRIPTORS,
        make=sound_descriptors.SoundDescriptors,
        frame_bytes=sound_descriptors.BLOCK_BYTES // PARTS,
        medium="sound",
        sound_keys=("rate",),
    ),
    ComputedFamily(
        "speech",
        "SileroVAD",
        outputs={
            "speech": "out",
            "speech-max": "width",
            "speech-parts": "step width",
        },
        make=Speech,
        frame_bytes=2_000_000,
        medium="sound",
        rate=16000,
        sound_keys=("rate", "before"),
    ),
)
PRETRAINED = {family.name: family for family in _PRETRAINED}
FAMILIES: dict[str, Family] = {
    **PRETRAINED,
    **{family.name: family for family in _OTHERS},
}
