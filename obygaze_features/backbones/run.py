"""Many clips through a backbone, a few at a time, back as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.base import Backbone, check_pixels
from obygaze_features.backbones.pixels import as_tensor


def forward_in_batches(
    backbone: Backbone,
    pixels: npt.NDArray[Any],
    mask: npt.NDArray[Any] | None = None,
    batch: int = 4,
) -> dict[str, npt.NDArray[np.float32]]:
    """Every level of `pixels` [B, T, 3, S, S] as float32 arrays, whatever it was computed in."""
    check_pixels(pixels, backbone.geometry, backbone.card.label)
    parts: list[dict[str, npt.NDArray[np.float32]]] = []
    for start in range(0, len(pixels), batch):
        some = slice(start, start + batch)
        x = np.ascontiguousarray(pixels[some], dtype=np.float32)
        parts.append(as_arrays(backbone.forward(x, None if mask is None else mask[some])))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def as_arrays(levels: dict[str, Any]) -> dict[str, npt.NDArray[np.float32]]:
    """Levels as float32 arrays on this machine's memory."""
    return {
        name: value if isinstance(value, np.ndarray) else value.float().cpu().numpy()
        for name, value in levels.items()
    }


def blank_padding(pixels: Any, mask: Any) -> Any:
    """Pixels [..., T, 3, S, S] with zeros where the mask [..., T] is 0: what padding looked like.

    Checkpoints that know a mask were trained with zeros for the frames a short clip lacks.
    """
    kept = np.asarray(mask, dtype=np.float32)[..., None, None, None]
    if isinstance(pixels, np.ndarray):
        return pixels * kept
    return pixels * as_tensor(kept).to(device=pixels.device, dtype=pixels.dtype)
