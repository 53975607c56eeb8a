"""X-CLIP of Ma et al. as its authors describe it, in plain torch, from its file as released."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Tensors = dict[str, Any]

VISUAL = "clip.visual"


def features(
    file: Path, pixels: npt.NDArray[Any], mask: npt.NDArray[Any]
) -> dict[str, npt.NDArray[np.float32]]:
    """Return the vectors of frames [B, T, D] and of videos [B, D].

    Args:
        file: The checkpoint as it was released.
        pixels: Normalised pixels [B, T, 3, S, S].
        mask: 1 for frames and 0 for padding [B, T].
    """
    import torch

    weights = torch.load(file, map_location="cpu", weights_only=True)
    tensors = {key: value.float() for key, value in weights.items()}
    with torch.no_grad():
        vectors = _vectors_of_frames(tensors, torch.as_tensor(pixels))
        mixed = _mixed_over_time(tensors, vectors, torch.as_tensor(mask).float())
        unit = torch.nn.functional.normalize(mixed, dim=-1)
        videos = []
        for frames, is_real in zip(unit, torch.as_tensor(mask).bool(), strict=True):
            mean = frames[is_real].mean(dim=0)
            videos.append(torch.nn.functional.normalize(mean, dim=-1))
    return {"frames": vectors.numpy(), "video": torch.stack(videos).numpy()}


def _vectors_of_frames(tensors: Tensors, pixels: Any) -> Any:
    import torch

    n_clips, n_frames = pixels.shape[:2]
    kernel = tensors[f"{VISUAL}.conv1.weight"]
    frames = pixels.float().flatten(0, 1)
    convolved = torch.nn.functional.conv2d(frames, kernel, stride=kernel.shape[-1])
    patches = convolved.flatten(2).transpose(1, 2)
    first = tensors[f"{VISUAL}.class_embedding"].expand(len(patches), 1, -1)
    hidden = torch.cat([first, patches], dim=1)
    hidden = hidden + tensors[f"{VISUAL}.positional_embedding"]
    hidden = _norm(tensors, f"{VISUAL}.ln_pre", hidden, 1e-5)
    for stem in _blocks(tensors, f"{VISUAL}.transformer"):
        hidden = _block(tensors, stem, hidden, 1e-5)
    first_token = _norm(tensors, f"{VISUAL}.ln_post", hidden[:, 0], 1e-5)
    vectors = first_token @ tensors[f"{VISUAL}.proj"]
    return vectors.reshape(n_clips, n_frames, -1)


def _mixed_over_time(tensors: Tensors, vectors: Any, mask: Any) -> Any:
    key = "frame_position_embeddings.weight"
    if key not in tensors:
        # A checkpoint that was trained without a transformer over time.
        return vectors
    n_frames = vectors.shape[1]
    positions = tensors[key][:n_frames]
    mixed = vectors + positions
    # Padding is not attended to.
    bias = ((1.0 - mask) * -1e6)[:, None, :].expand(-1, n_frames, -1)
    for stem in _blocks(tensors, "transformerClip"):
        mixed = _block(tensors, stem, mixed, 1e-12, bias)
    return mixed + vectors


def _blocks(tensors: Tensors, transformer: str) -> list[str]:
    prefix = f"{transformer}.resblocks."
    numbers = {
        int(key.removeprefix(prefix).partition(".")[0])
        for key in tensors
        if key.startswith(prefix)
    }
    return [f"{prefix}{number}" for number in sorted(numbers)]


def _block(tensors, stem: str, hidden: Any, epsilon: float, bias: Any = None) -> Any:
    import torch

    width = hidden.shape[-1]
    n_heads = width // 64
    attention = torch.nn.MultiheadAttention(width, n_heads, batch_first=True)
    own = attention.state_dict()
    attention.load_state_dict({key: tensors[f"{stem}.attn.{key}"] for key in own})
    if bias is not None:
        bias = bias.repeat_interleave(n_heads, dim=0)
    normed = _norm(tensors, f"{stem}.ln_1", hidden, epsilon)
    attended, _ = attention(normed, normed, normed, attn_mask=bias)
    hidden = hidden + attended
    normed = _norm(tensors, f"{stem}.ln_2", hidden, epsilon)
    wide = _linear(tensors, f"{stem}.mlp.c_fc", normed)
    activated = wide * torch.sigmoid(1.702 * wide)
    return hidden + _linear(tensors, f"{stem}.mlp.c_proj", activated)


def _norm(tensors: Tensors, stem: str, hidden: Any, epsilon: float) -> Any:
    import torch

    weight = tensors[f"{stem}.weight"]
    bias = tensors[f"{stem}.bias"]
    return torch.nn.functional.layer_norm(
        hidden, weight.shape, weight, bias, eps=epsilon
    )


def _linear(tensors: Tensors, stem: str, hidden: Any) -> Any:
    return hidden @ tensors[f"{stem}.weight"].T + tensors[f"{stem}.bias"]
