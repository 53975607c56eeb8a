"""Load the backbone of a card; arrays of what it returns."""

from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.base import Backbone, Card, Placement
from obygaze_features.backbones.cards import find_card
from obygaze_features.backbones.hub import find_weights
from obygaze_features.backbones.torch_backbone import on_device
from obygaze_features.backbones.weight_files import NO_WEIGHTS, WeightFiles
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.lazy import need
from obygaze_features.core.machine import count_gpus_as_nvidia_smi
from obygaze_features.core.workspace import PathLike, Workspace


def load_backbone(
    name: Card | str,
    weights: PathLike | None = None,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    workspace: PathLike | None = None,
) -> Backbone:
    """Load a backbone: a model that turns pictures of a clip into features.

    Its weights must be those that the card declares. Weights that are not known to be the card's
    checkpoint are recorded as such in the recipe.

    Args:
        name: A card, its name, or a function of yours that returns one (FILE.py:NAME);
            `obygaze backbones ls` lists the names.
        weights: A file or folder of weights. The default is the card's own checkpoint, which is
            downloaded if it is not in the hub's cache.
        device: cpu, cuda or cuda:N.
        dtype: float32, bfloat16 or float16.
        workspace: The workspace whose own cards are found too, if it is not the current one.

    Example:
        >>> sorted(og.load_backbone("descriptors").arrays)
        ['clip', 'frames', 'pooled']
    """
    card = name
    if isinstance(card, str):
        card = find_card(card, Workspace.of(workspace))
    placement = Placement(device, dtype, card.input.attention)
    check_device(card, device)
    if not card.family.needs_weights:
        return load_from(card, NO_WEIGHTS, placement)
    return load_from(card, find_weights(card, weights, download=True), placement)


def load_from(card: Card, files: WeightFiles, placement: Placement) -> Backbone:
    """Return the model of a card from its files."""
    if card.family.needs_torch and placement.device.startswith("cuda"):
        import torch

        # Convolutions use TF32 by default, whose numbers depend on the device.
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
    return card.family.load(card, files, placement)


def check_device(card: Card, device: str) -> None:
    """Raise an error unless this machine has torch and the device, where a card needs them."""
    if device == "cpu" and not card.family.needs_torch:
        return
    count_gpus_as_nvidia_smi()
    torch = need("torch", "extract", f"running a backbone on {device}")
    try:
        kind = torch.device(device).type
    except RuntimeError:
        kind = ""
    if kind not in ("cpu", "cuda"):
        raise FixUsage(f"unknown device {device!r}", hint="cpu, cuda, or cuda:1")
    if kind == "cuda" and not torch.cuda.is_available():
        raise FixUsage("this machine has no CUDA device", hint="--device cpu")


def as_arrays(arrays: dict[str, Any]) -> dict[str, npt.NDArray[np.float32]]:
    """Return arrays of any kind and place as float32 arrays of NumPy in main memory."""
    return {
        name: value if isinstance(value, np.ndarray) else value.float().cpu().numpy()
        for name, value in arrays.items()
    }


def blank_padding(pixels: Any, mask: Any) -> Any:
    """Return pixels [..., T, 3, S, S] with zeros where the mask [..., T] is 0.

    Checkpoints that take a mask were trained with zeros for the missing frames of a short clip.
    """
    is_real = np.asarray(mask, dtype=np.float32)[..., None, None, None]
    if isinstance(pixels, np.ndarray):
        return pixels * is_real.astype(pixels.dtype)
    return pixels * on_device(is_real, str(pixels.device)).to(pixels.dtype)
