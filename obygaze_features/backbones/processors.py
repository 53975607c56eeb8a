"""A checkpoint's own image processor, in its form without torchvision, for comparison only."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

_MODULES = {
    "VideoMAEImageProcessor": "videomae",
    "VivitImageProcessor": "vivit",
    "CLIPImageProcessor": "clip",
    "SiglipImageProcessor": "siglip",
    "BitImageProcessor": "bit",
}
_NOT_SETTINGS = ("image_processor_type", "feature_extractor_type", "processor_class", "_auto_class")


def own_processor(
    settings: Mapping[str, Any],
) -> Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.float32]] | None:
    """Frames [T, H, W, 3] to pixels [T, 3, S, S] as the checkpoint's processor makes them.

    None where there is no such form: those that resize with torchvision alone differ by
    version, which is why pixels are our own in the first place.
    """
    kind = str(settings.get("image_processor_type") or settings.get("feature_extractor_type") or "")
    kind = kind.removesuffix("Fast").replace("FeatureExtractor", "ImageProcessor")
    if kind not in _MODULES:
        return None
    found = _class(_MODULES[kind], kind)
    if found is None:
        return None
    processor = found(**{k: v for k, v in settings.items() if k not in _NOT_SETTINGS})

    def run(frames: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        pixels = np.asarray(processor(list(frames), return_tensors="np")["pixel_values"])
        return pixels.reshape(-1, *pixels.shape[-3:]).astype(np.float32)

    return run


def _class(module: str, kind: str) -> Any:
    """The Pillow form: a class of its own in newer releases, the only one in older ones."""
    names = ((f"image_processing_pil_{module}", f"{kind}Pil"), (f"image_processing_{module}", kind))
    for name, attribute in names:
        try:
            found = importlib.import_module(f"transformers.models.{module}.{name}")
        except ImportError:
            continue
        if hasattr(found, attribute):
            return getattr(found, attribute)
    return None
