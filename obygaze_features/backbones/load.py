"""From a card to a backbone that runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from obygaze_features.backbones.base import Backbone, Placement
from obygaze_features.backbones.cards import Card
from obygaze_features.backbones.hub import WeightFiles, fetch_weights, find_weights
from obygaze_features.backbones.registry import find_card
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.extras import need
from obygaze_features.core.workspace import Workspace

DTYPES = ("float32", "bfloat16", "float16")


def load_backbone(
    card: Card | str,
    weights: str | Path | None = None,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    attn_implementation: str | None = None,
    tf32: bool = False,
    compiled: bool = False,
    workspace: Workspace | None = None,
) -> Backbone:
    """A card's model with its weights: those that are named, or its own from the hub's cache.

    `weights` is a file or a folder. Without it the card's own checkpoint is taken, downloaded where
    the environment allows. Either must be what the card says: its sizes, its depth, and the sha256
    where the card knows one. Weights that are not known to be the card's checkpoint are named as
    such in the recipe.
    """
    if isinstance(card, str):
        card = find_card(card, workspace)
    if card.family == "descriptors":
        return load_from(card, None)
    _check_words(card, device, dtype, attn_implementation)
    files = find_weights(card, weights) if weights is not None else fetch_weights(card)
    attention = attn_implementation or card.input.attention
    placement = Placement(device, dtype, attention, tf32, compiled)
    return load_from(card, files, placement)


def load_from(
    card: Card,
    files: WeightFiles | None,
    placement: Placement = Placement(),  # noqa: B008 - frozen
) -> Backbone:
    """A backbone from files that were found, which must be what the card says."""
    if card.family == "descriptors" or files is None:
        from obygaze_features.backbones.descriptors import Descriptors

        return Descriptors(card)
    _settle(placement)
    if card.family == "lsmdc":
        from obygaze_features.backbones.lsmdc import LsmdcBackbone

        return LsmdcBackbone.load(card, files, placement)
    from obygaze_features.backbones.transformer import load_transformer

    return load_transformer(card, files, placement)


def as_loaded(card: Card, files: WeightFiles) -> Card:
    """The card with the depth and levels of weights, which must be of its sizes; loads no model."""
    if card.family == "lsmdc":
        from obygaze_features.backbones.lsmdc import card_of

        return card_of(card, files)
    from obygaze_features.backbones.transformer import configured

    return replace(card, geometry=configured(card, files))


def _check_words(card: Card, device: str, dtype: str, attention: str | None) -> None:
    if dtype not in DTYPES:
        raise FixUsage(f"dtype {dtype!r} is not known", hint=f"one of {', '.join(DTYPES)}")
    if attention not in (None, "sdpa", "eager"):
        raise FixUsage(f"attention {attention!r} is not known", hint="sdpa or eager")
    torch = need("torch", "extract", f"running {card.name}")
    try:
        kind = torch.device(device).type
    except RuntimeError:
        raise FixUsage(f"device {device!r} is not known", hint="cpu, cuda, or cuda:1") from None
    if kind == "cuda" and not torch.cuda.is_available():
        raise FixUsage("there is no CUDA device here", hint="--device cpu")


def _settle(placement: Placement) -> None:
    torch = need("torch", "extract", "running a backbone")
    if torch.device(placement.device).type == "cuda":
        # Convolutions use TF32 by default, which would change numbers by the device.
        torch.backends.cuda.matmul.allow_tf32 = placement.tf32
        torch.backends.cudnn.allow_tf32 = placement.tf32
