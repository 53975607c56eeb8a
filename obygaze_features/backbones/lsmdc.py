"""The X-CLIP of Ma et al. (LSMDC): checkpoints of any size, as training wrote them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from obygaze_features.backbones.base import Card, Family, Placement
from obygaze_features.backbones.geometry import Depth, Geometry
from obygaze_features.backbones.torch_backbone import TorchBackbone
from obygaze_features.backbones.weight_files import WeightFiles
from obygaze_features.backbones.weights import (
    check_sizes,
    check_tensors,
    read_tensors,
    read_weights,
)
from obygaze_features.core.errors import FixInput

if TYPE_CHECKING:
    from torch import Tensor

_VISUAL = "clip.visual."
_OVER_FRAMES = "transformerClip."
_POSITIONS = "frame_position_embeddings.weight"
_HEAD_WIDTH = 64
_OTHER_KINDS = {
    "lstm_visual.": "frames joined by an LSTM",
    "clip.visual.conv2.weight": "three-dimensional patches",
    "clip.visual.layer1.": "a ResNet instead of a transformer",
}
# Each has a row for each frame.
_OF_FRAMES = ("frame_logit_weight", "frame_mat_weight", "frame_mat_weight2")


class LsmdcFamily(Family):
    """Checkpoints of any size, as training wrote them; their tensors give the sizes."""

    def load(
        self, card: Card, files: WeightFiles, placement: Placement
    ) -> TorchBackbone:
        """Return a card's model; every tensor of its towers is from the files, and all are used."""
        from obygaze_features.backbones.lsmdc_model import lsmdc_model, outputs

        raw, hashes = read_weights(card, files)
        # Data-parallel training adds a prefix.
        tensors = {key.removeprefix("module."): tensor for key, tensor in raw.items()}
        card_of_weights = _found(card, files, tensors)
        positions = max(
            len(tensors.get(_POSITIONS, ())), card_of_weights.geometry.frames
        )
        over_frames = _depth(tensors, _OVER_FRAMES)
        model = lsmdc_model(
            card_of_weights.geometry, over_frames, positions, placement.attention
        )
        expected = model.state_dict()
        parts = (_VISUAL, _OVER_FRAMES, _POSITIONS)
        used_tensors = {
            key: tensor for key, tensor in tensors.items() if key.startswith(parts)
        }
        wrong = [
            f"{key}: expected {list(expected[key].shape)}, got {list(tensor.shape)}"
            for key, tensor in used_tensors.items()
            if key in expected and tensor.shape != expected[key].shape
        ]
        missing = expected.keys() - used_tensors.keys()
        unused = used_tensors.keys() - expected.keys()
        check_tensors(missing, unused, wrong, str(files.files[0]))
        model.load_state_dict(
            {key: tensor.float() for key, tensor in used_tensors.items()}
        )
        return TorchBackbone(
            card,
            card_of_weights,
            model,
            outputs,
            files=files,
            hashes=hashes,
            placement=placement,
        )

    def inspect(self, card: Card, files: WeightFiles) -> Card:
        """Return a card with the geometry and arrays of its checkpoint."""
        raw = read_tensors(files.files)
        return _found(
            card, files, {key.removeprefix("module."): raw[key] for key in raw}
        )


def _found(card: Card, files: WeightFiles, tensors: Mapping[str, Tensor]) -> Card:
    """Return a card with the geometry and arrays of the tensors; their sizes must be the card's."""
    where = str(files.files[0])
    _refuse_other_kinds(tensors, where)
    needed = {
        f"{_VISUAL}conv1.weight": 4,
        f"{_VISUAL}positional_embedding": 2,
        f"{_VISUAL}proj": 2,
    }
    missing = [
        key for key, n in needed.items() if key not in tensors or tensors[key].ndim != n
    ]
    depth = _depth(tensors, f"{_VISUAL}transformer.")
    if missing or depth is None:
        raise FixInput(
            "not an LSMDC X-CLIP checkpoint: its visual tower is missing",
            where=where,
            hint="use the pytorch_model.bin.N that training wrote",
            details=missing,
        )
    conv, positions, proj = (tensors[key] for key in needed)
    patch = int(conv.shape[-1])
    side = math.isqrt(max(len(positions) - 1, 0))
    n_frames = [
        len(tensors[key]) for key in _OF_FRAMES if key in tensors and tensors[key].ndim
    ]
    frames = n_frames[0] if n_frames else card.geometry.frames
    geometry = Geometry(
        frames,
        size=patch * side,
        unit="frame",
        prefix=1,
        order="hw",
        grid=(frames, side, side),
        width=int(conv.shape[0]),
        out=int(proj.shape[1]),
        depth=replace(depth, patch=patch),
    )
    check_sizes(card, geometry, files)
    over_frames = (
        {"frames_temporal": "frame-temporal"} if _depth(tensors, _OVER_FRAMES) else {}
    )
    return replace(card, geometry=geometry, sources={**card.sources, **over_frames})


def _refuse_other_kinds(tensors: Mapping[str, Tensor], where: str) -> None:
    """Raise an error if a checkpoint has tensors of another architecture."""
    for key, kind in _OTHER_KINDS.items():
        if any(
            name == key or (key.endswith(".") and name.startswith(key))
            for name in tensors
        ):
            raise FixInput(
                f"another architecture: this checkpoint has {kind} ({key.rstrip('.')})",
                where=where,
                hint="use a checkpoint trained with the mean or a transformer over frames",
            )


def _depth(tensors: Mapping[str, Tensor], transformer: str) -> Depth | None:
    """Return the number and sizes of a transformer's layers, or None if there are none."""
    prefix = f"{transformer}resblocks."
    numbers = {
        key[len(prefix) :].split(".")[0] for key in tensors if key.startswith(prefix)
    }
    dense = [
        tensors.get(f"{prefix}{number}.mlp.c_fc.weight") for number in sorted(numbers)
    ]
    sizes = [
        tensor.shape for tensor in dense if tensor is not None and tensor.ndim == 2
    ]
    if not sizes:
        return None
    hidden, width = map(int, sizes[0])
    return Depth(len(numbers), hidden, max(1, width // _HEAD_WIDTH), patch=1)
