"""Tiny random checkpoints of every family, saved to disk by the real classes, in both file forms.

Weights are drawn larger than the classes' own initialisation, so that a layer that was left out
or taken twice changes the numbers by far more than any tolerance.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

if TYPE_CHECKING:
    from obygaze_features.backbones.card import Card

FORMS = ("safetensors", "bin")


@dataclass(frozen=True)
class Tiny:
    """A tiny model of a family: its class and configuration, and what its card says of it.

    `card` is a shipped card of the family, and `needed` a tensor that its arrays need.
    """

    family: str
    card: str
    needed: str
    module: str
    model: str
    config: Mapping[str, Any]
    frames: int = 3
    grid: tuple[int, int, int] = (3, 2, 2)
    size: int = 32
    hidden: int = 48
    out: int = 32


LAYERS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
_TUBES = {**LAYERS, "intermediate_size": 48, "image_size": 32}
_IMAGE = {**_TUBES, "patch_size": 16}
_TEXT = {**LAYERS, "intermediate_size": 32, "vocab_size": 40}
_TEXT |= {"max_position_embeddings": 8}
_JOINED = {"projection_dim": 24}
_OVER_TIME = {"num_frames": 4, "mit_hidden_size": 24, "mit_intermediate_size": 40}
_OVER_TIME |= {"mit_num_attention_heads": 2}
_XCLIP = {"text_config": _TEXT, "vision_config": _IMAGE | _OVER_TIME, **_JOINED}
_CLIP = {"text_config": _TEXT | _JOINED, "vision_config": _IMAGE | _JOINED, **_JOINED}
_DECODER = {"decoder_hidden_size": 24, "decoder_num_hidden_layers": 1}
_DECODER |= {"decoder_num_attention_heads": 2, "decoder_intermediate_size": 24}
_PREDICTOR = {"pred_hidden_size": 24, "pred_num_attention_heads": 2}
_PREDICTOR |= {"pred_num_hidden_layers": 1, "pred_num_mask_tokens": 2}
TINY: dict[str, Tiny] = {
    tiny.family: tiny
    for tiny in (
        Tiny(
            *("xclip", "xclip-b32-k400", "mit.position_embedding"),
            *("x_clip", "XCLIPModel", _XCLIP | {"prompt_num_attention_heads": 2}),
            *(4, (4, 2, 2)),
            out=24,
        ),
        Tiny(
            *("clip", "clip-b16", "vision_model.post_layernorm.weight"),
            *("clip", "CLIPModel", _CLIP),
            out=24,
        ),
        Tiny(
            *("siglip", "siglip2-b16", "vision_model.head.probe"),
            *("siglip", "SiglipModel"),
            {"text_config": _TEXT, "vision_config": _IMAGE},
        ),
        Tiny(
            *("dinov2", "dinov2-b", "encoder.layer.1.layer_scale1.lambda1"),
            *("dinov2", "Dinov2Model"),
            # Positions for 42 x 42, used at 28 x 28: they are interpolated, as the real ones are.
            {**LAYERS, "mlp_ratio": 2, "image_size": 42, "patch_size": 14},
            size=28,
            hidden=64,
        ),
        Tiny(
            *("dinov3", "dinov3-b16", "embeddings.register_tokens"),
            *("dinov3_vit", "DINOv3ViTModel", _IMAGE | {"num_register_tokens": 4}),
        ),
        Tiny(
            *("vivit", "vivit-b16x2-k400", "vivit.embeddings.position_embeddings"),
            *("vivit", "VivitForVideoClassification"),
            {**_TUBES, "num_frames": 6, "tubelet_size": [2, 16, 16]},
            frames=6,
        ),
        Tiny(
            *("videomae", "videomae-b", "videomae.layernorm.weight"),
            *("videomae", "VideoMAEForPreTraining"),
            {**_IMAGE, "num_frames": 6, "use_mean_pooling": False, **_DECODER},
            frames=6,
        ),
        Tiny(
            *("timesformer", "timesformer-b-k400"),
            "timesformer.embeddings.time_embeddings",
            *("timesformer", "TimesformerForVideoClassification"),
            {**_IMAGE, "num_frames": 3, "num_labels": 3},
        ),
        Tiny(
            *("vjepa2", "vjepa2-l", "encoder.layernorm.bias"),
            *("vjepa2", "VJEPA2Model"),
            {
                **(LAYERS | {"mlp_ratio": 2.0, "patch_size": 16}),
                **({"crop_size": 32, "frames_per_clip": 8} | _PREDICTOR),
            },
            *(4, (2, 2, 2)),
            hidden=64,
        ),
    )
}


def save_model(module: str, model, config: Mapping[str, Any], folder, seed) -> None:
    modeling = f"transformers.models.{module}.modeling_{module}"
    kind = getattr(importlib.import_module(modeling), model)
    made = kind(kind.config_class(**config))
    stir(made, seed)
    folder.mkdir(parents=True, exist_ok=True)
    made.save_pretrained(folder)


def save_tiny(
    family: str, folder: Path, form: str = "safetensors", seed: int = 0
) -> Path:
    """A tiny checkpoint of `family`; one seed gives the same numbers in each form."""
    tiny = TINY[family]
    save_model(tiny.module, tiny.model, tiny.config, folder, seed)
    if form == "bin":
        import torch
        from safetensors.torch import load_file

        torch.save(
            load_file(folder / "model.safetensors"), folder / "pytorch_model.bin"
        )
        (folder / "model.safetensors").unlink()
    return folder


def stir(model: Any, seed: int) -> None:
    """Draw every weight anew, biases and norms too."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            spread = 0.3 if parameter.ndim > 1 else 0.2
            drawn = torch.randn(parameter.shape, generator=generator) * spread
            norm = parameter.ndim == 1 and "norm" in name and name.endswith("weight")
            parameter.copy_(drawn + 1.0 if norm else drawn)


def hub_cache(card: Card, home: Path, folder: Path, commit: str = "c0ffee") -> Path:
    repository = home / ("models--" + card.checkpoint.replace("/", "--"))
    snapshot = repository / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    reference = repository / "refs" / card.revision
    reference.parent.mkdir(parents=True)
    reference.write_text(commit)
    for path in folder.iterdir():
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        blob = repository / "blobs" / sha256
        shutil.copy(path, blob)
        (snapshot / path.name).symlink_to(Path("..", "..", "blobs", blob.name))
    return snapshot


LSMDC = {"width": 128, "out": 64, "layers": 2, "temporal_layers": 2, "patch": 8}
LSMDC |= {"grid": 3, "frames": 5, "positions": 9}


def lsmdc_tensors(seed: int = 0, **sizes: int) -> dict[str, Any]:
    """The tensors of an LSMDC X-CLIP checkpoint of any size, half precision mixed, as trained."""
    import torch

    sizes = LSMDC | sizes
    width, out, grid, frames = (sizes[x] for x in ("width", "out", "grid", "frames"))
    patch = sizes["patch"]
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int, half: bool = False, at: float = 0.0) -> Any:
        drawn = torch.randn(shape, generator=generator) * 0.15 + at
        return drawn.half() if half else drawn

    def blocks(prefix: str, width: int, n: int, half: bool) -> dict[str, Any]:
        made = {}
        for i in range(n):
            stem = f"{prefix}.resblocks.{i}"
            # Rows and columns of each weight, in widths.
            linear = {"attn.in_proj_": (3, 1), "attn.out_proj.": (1, 1)}
            linear |= {"mlp.c_fc.": (4, 1), "mlp.c_proj.": (1, 4)}
            for name, (rows, columns) in linear.items():
                weight = draw(rows * width, columns * width, half=half)
                made[f"{stem}.{name}weight"] = weight
                made[f"{stem}.{name}bias"] = draw(rows * width, half=half)
            made |= norm(f"{stem}.ln_1", width) | norm(f"{stem}.ln_2", width)
        return made

    def norm(stem: str, width: int) -> dict[str, Any]:
        return {f"{stem}.weight": draw(width, at=1.0), f"{stem}.bias": draw(width)}

    visual = "clip.visual"
    tensors = {
        f"{visual}.class_embedding": draw(width),
        f"{visual}.positional_embedding": draw(grid * grid + 1, width),
        f"{visual}.proj": draw(width, out, half=True),
        f"{visual}.conv1.weight": draw(width, 3, patch, patch, half=True),
        **(norm(f"{visual}.ln_pre", width) | norm(f"{visual}.ln_post", width)),
        "frame_logit_weight": draw(frames, frames),
        "frame_mat_weight": draw(frames, frames),
        "clip.logit_scale": draw(),
        "clip.token_embedding.weight": draw(20, out),
        **blocks(f"{visual}.transformer", width, sizes["layers"], half=True),
        **blocks("clip.transformer", out, 1, half=True),
    }
    if sizes["temporal_layers"]:
        tensors |= blocks("transformerClip", out, sizes["temporal_layers"], half=False)
        tensors["frame_position_embeddings.weight"] = draw(sizes["positions"], out)
    return tensors


def save_lsmdc(folder: Path, name: str = "pytorch_model.bin", **sizes: Any) -> Path:
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    torch.save(lsmdc_tensors(**sizes), folder / name)
    return folder / name


def write_card(folder: Path, name: str, **facts: Any) -> Path:
    """Write the file NAME.toml of a card; facts that are mappings are its sections."""
    title = "A tiny checkpoint with random weights"
    facts = {"schema": "obygaze-backbone/1", "name": name, "title": title, **facts}
    lines = []
    sections = []
    for key, value in facts.items():
        if isinstance(value, Mapping):
            cells = [f"{one} = {json.dumps(value[one])}" for one in value]
            sections += [f"[{key}]", *cells]
        else:
            lines.append(f"{key} = {json.dumps(value)}")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text("\n".join([*lines, *sections, ""]), encoding="utf-8")
    return path


def write_tiny_card(family: str, folder: Path, checkpoint: str = "") -> Path:
    tiny = TINY[family]
    facts = {"like": tiny.card, "checkpoint": checkpoint}
    return write_card(
        folder,
        f"tiny-{family}",
        **(facts | {"frames": tiny.frames, "size": tiny.size}),
        tokens={"grid": list(tiny.grid), "width": 32, "out": tiny.out},
        depth={"layers": 2, "hidden": tiny.hidden, "heads": 2},
    )


def write_lsmdc_card(folder: Path, **sizes: int) -> Path:
    sizes = LSMDC | sizes
    frames, grid, width = (sizes[name] for name in ("frames", "grid", "width"))
    facts = {"like": "xclip-lsmdc-b32", "checkpoint": "", "frames": frames}
    return write_card(
        folder,
        "tiny-lsmdc",
        **(facts | {"size": sizes["patch"] * grid}),
        tokens={"grid": [frames, grid, grid], "width": width, "out": sizes["out"]},
        depth={"layers": sizes["layers"], "hidden": 4 * width, "heads": width // 64},
    )


def lsmdc_card(**sizes: int) -> Card:
    from obygaze_features.backbones.cards import find_card

    with tempfile.TemporaryDirectory() as folder:
        return find_card(str(write_lsmdc_card(Path(folder), **sizes)))


def tiny_card(family: str, checkpoint: str = "") -> Card:
    """The card of a tiny checkpoint, for frames whose shortest edge is the model's own size."""
    from obygaze_features.backbones.cards import find_card

    with tempfile.TemporaryDirectory() as folder:
        card = find_card(str(write_tiny_card(family, Path(folder), checkpoint)))
    presets = {
        name: structs.replace(p, edge=0, edge_from_checkpoint=False)
        for name, p in card.presets.items()
    }
    return replace(card, presets=presets)
