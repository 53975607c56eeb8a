"""Checkpoints of the transformers library: loaded strictly, whatever form they lie in."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from obygaze_features.backbones.base import Placement, TorchBackbone
from obygaze_features.backbones.cards import Card
from obygaze_features.backbones.families import FAMILIES, Family
from obygaze_features.backbones.geometry import Geometry
from obygaze_features.backbones.hub import WeightFiles
from obygaze_features.backbones.identity import check_hashes, check_sizes, is_verified
from obygaze_features.backbones.library import library, silenced
from obygaze_features.backbones.pixels import Pixels
from obygaze_features.backbones.weights import hash_weights, read_tensors, refuse
from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput, NotFound

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class TransformerBackbone(TorchBackbone):
    """A model of the transformers library, asked for its tensors by its family."""

    def taps(self, pixels: Tensor, mask: Tensor) -> dict[str, Tensor]:
        """What the family makes of the model's own outputs."""
        return FAMILIES[self.card.family].taps(self.module, pixels, self.geometry)


def load_transformer(card: Card, files: WeightFiles, placement: Placement) -> TransformerBackbone:
    """A card's model with every weight it needs, and of the sizes it says, or an error."""
    family = FAMILIES[card.family]
    _check_family(card, family, files)
    hashes = hash_weights(files, read_tensors(files.files))
    kind = getattr(library(family.module), family.model)
    if not getattr(kind, "_supports_sdpa", False):
        placement = replace(placement, attention="eager")
    model, info = load_pretrained(kind, family, files, placement)
    _check_loaded(family, info, files)
    geometry = family.geometry(model.config, card)
    _check_geometry(card, geometry, files)
    check_hashes(card, files, hashes)
    edge = files.shortest_edge
    pixels = Pixels.of(card.input, geometry.size, edge)
    kept = family.keep(model)
    verified = is_verified(card, files, hashes)
    return TransformerBackbone(card, geometry, kept, hashes, placement, pixels, edge, verified)


def configured(card: Card, files: WeightFiles) -> Geometry:
    """The geometry of a checkpoint by its configuration alone, which must be the card's."""
    family = FAMILIES[card.family]
    _check_family(card, family, files)
    kind = getattr(library(family.module), family.model)
    with silenced():
        config = kind.config_class.from_pretrained(files.folder, local_files_only=True)
    geometry = family.geometry(config, card)
    _check_geometry(card, geometry, files)
    return geometry


def _check_family(card: Card, family: Family, files: WeightFiles) -> None:
    config = files.small_file("config.json")
    if config is None:
        raise NotFound(
            "there is no config.json beside the weights",
            where=str(files.folder),
            hint="a folder as the hub has it: config.json and the weights",
        )
    kind = config.get("model_type")
    if kind not in family.model_types:
        expected = " or ".join(family.model_types)
        raise FixInput(
            f"a checkpoint of another family: {kind!r}, where {card.name} needs {expected}",
            where=str(files.folder / "config.json"),
            hint="another card: obygaze backbones ls",
        )


@contextmanager
def _staged(files: WeightFiles) -> Iterator[Path]:
    """A folder with the chosen files alone, under the names the library looks for."""
    with tempfile.TemporaryDirectory(prefix="obygaze-") as name:
        folder = Path(name)
        (folder / "config.json").symlink_to((files.folder / "config.json").resolve())
        if len(files.files) == 1:
            safe = files.files[0].suffix == ".safetensors"
            known = "model.safetensors" if safe else "pytorch_model.bin"
            (folder / known).symlink_to(files.files[0].resolve())
        else:
            for path in (*files.files, *files.folder.glob("*.index.json")):
                (folder / path.name).symlink_to(path.resolve())
        yield folder


def load_pretrained(
    kind: Any, family: Family, files: WeightFiles, placement: Placement
) -> tuple[torch.nn.Module, dict[str, Any]]:
    """A model class with what the library says of the loading; its errors in a person's words."""
    import torch

    with _staged(files) as folder, silenced():
        try:
            model, info = kind.from_pretrained(
                folder,
                dtype=getattr(torch, placement.dtype),
                attn_implementation=placement.attention,
                output_loading_info=True,
                local_files_only=True,
                use_safetensors=files.files[0].suffix == ".safetensors",
                **family.options,
            )
        except Exception as error:
            # Whatever the library refuses is something about the files.
            told = (str(error).splitlines() or [type(error).__name__])[0]
            raise FixInput(
                f"{family.model} cannot take this checkpoint: {told[:160]}",
                where=files.origin,
                hint="fetch the checkpoint again, or another card: obygaze backbones ls",
            ) from error
    return model, info


def _check_loaded(family: Family, info: dict[str, Any], files: WeightFiles) -> None:
    """A missing tensor is random numbers, an unknown one another model: both are fatal."""
    again = "fetch the checkpoint again, or another card: obygaze backbones ls"
    missing = sorted(map(str, info["missing_keys"]))
    if missing:
        raise refuse(f"{count(len(missing), 'tensor')} missing", missing, files.origin, again)
    wrong = sorted(map(str, info["mismatched_keys"])) + list(map(str, info["error_msgs"]))
    if wrong:
        raise refuse("tensors of the wrong shape", wrong, files.origin, again)
    ignored = re.compile(family.ignored)
    extra = sorted(key for key in info["unexpected_keys"] if not ignored.search(key))
    if extra:
        told = f"{count(len(extra), 'tensor')} that nothing here uses"
        raise refuse(told, extra, files.origin, again)


def _check_geometry(card: Card, g: Geometry, files: WeightFiles) -> None:
    if g.depth is None or g.size % g.depth.patch or g.frames % g.depth.tubelet:
        raise FixInput(
            f"{g.frames} frames of {g.size} x {g.size} cannot be cut into this model's patches",
            where=files.origin,
            hint="frames and size of the card",
        )
    check_sizes(card, g, files)
