"""Models of sound: samples in pieces, steps of the model, and the arrays of a clip.

A model returns a vector for each step of a piece. The arrays of a clip are the mean and the maximum
over all steps of the clip, and a vector for each of 16 equal parts of the clip.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from msgspec import to_builtins

from obygaze_features.backbones.backbone import (
    Backbone,
    TorchModel,
    on_device,
)
from obygaze_features.backbones.card import PARTS, Card, ClipMedium, Sound
from obygaze_features.backbones.geometry import Geometry
from obygaze_features.backbones.placement import ON_CPU, Placement
from obygaze_features.backbones.pretrained import PretrainedFamily
from obygaze_features.backbones.processors import check_sound_file
from obygaze_features.backbones.steps import Floats, Listen, Prepare, Steps
from obygaze_features.backbones.weight_files import (
    FileHashes,
    WeightFiles,
)
from obygaze_features.video.resample import Samples
from obygaze_features.video.sound import SoundView

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# This version increases with each change that could change the numbers of the same samples.
_VERSION = 1
# The constant that `Wav2Vec2FeatureExtractor` adds to the variance.
_EPSILON = 1e-7


class ClipSound(NamedTuple):
    """The sound of a clip: samples, and the number of samples before the clip."""

    samples: Samples
    n_before: int = 0

    @property
    def of_clip(self) -> Samples:
        """The samples of the clip, without the samples before the clip."""
        return self.samples[self.n_before :]


class SoundBackbone(Backbone):
    """A model whose input is the sound of a clip."""

    view: SoundView

    def __init__(
        self,
        card: Card,
        card_of_weights: Card | None = None,
        placement: Placement = ON_CPU,
    ) -> None:
        super().__init__(card, card_of_weights, placement)
        # Cards of families of sound have this table.
        self.sound = cast(Sound, card.sound)
        self.view = self.sound.view()

    @abstractmethod
    def outputs(self, clips: Sequence[ClipSound]) -> Iterable[Mapping[str, Any]]:
        """Return the outputs of the family for each clip, each [1, ...]."""

    def forward(
        self, clips: Sequence[ClipSound], only: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Return the arrays of clips, each [B, ...]; `only` selects arrays.

        The features of a clip do not depend on the other clips.
        """
        arrays: dict[str, list[Any]] = {}
        for outputs in self.outputs(clips):
            for name, values in self.named_arrays(outputs, 1, only).items():
                arrays.setdefault(name, []).append(values)
        return {name: _join_arrays(values) for name, values in arrays.items()}

    def preprocessing(self) -> dict[str, Any]:
        """Return the settings that change the input of the model, as plain values."""
        return {**to_builtins(self.sound), "version": _VERSION}


def _join_arrays(arrays: Sequence[Any]) -> Any:
    if isinstance(arrays[0], np.ndarray):
        return np.concatenate(arrays)
    import torch

    return torch.cat(list(arrays))


# --- The parts of a clip


def part_weights(moments: Floats, n_samples: int) -> Floats:
    """Return the weight of each step in each part of a clip, [parts, steps]; rows sum to 1.

    `moments` are the centres of the steps, as samples. Each sample of a clip has the vector of the
    step with the nearest centre. The vector of a part is the mean over the samples of the part.
    Because of this, a part that is shorter than a step has a vector.

    >>> part_weights(np.array([200.0]), 400).tolist() == [[1.0]] * 16
    True
    """
    middles = (moments[1:] + moments[:-1]) / 2
    bounds = np.concatenate([[0.0], middles, [n_samples]])
    edges = np.linspace(0, n_samples, PARTS + 1)
    begins = np.maximum(bounds[:-1], edges[:-1, None])
    ends = np.minimum(bounds[1:], edges[1:, None])
    shared = np.maximum(ends - begins, 0.0)
    weights: Floats = shared / shared.sum(axis=1, keepdims=True)
    return weights


def sound_pieces(n_samples: int, most: int) -> list[slice]:
    """Return the fewest equal pieces of at most `most` samples; one piece if `most` is 0.

    >>> sound_pieces(25, 10)
    [slice(0, 8, None), slice(8, 16, None), slice(16, 25, None)]
    """
    n_pieces = -(-n_samples // most) if most else 1
    cuts = [n_samples * number // n_pieces for number in range(n_pieces + 1)]
    return [slice(start, stop) for start, stop in pairwise(cuts)]


# --- Models of torch


class TorchSound(SoundBackbone, TorchModel):
    """A model of sound: a torch module, and functions for its input and its steps.

    Args:
        card: The card with the sizes of the weights.
        card_of_weights: The card with the geometry and the arrays of the weights.
        module: The module with its weights.
        run: Returns the input of the module for a piece, and its steps for stacked inputs.
        files: The files of the weights.
        hashes: The hashes of the weights, from `read_weights`.
        placement: The device, the precision, and the implementation of attention.
    """

    def __init__(
        self,
        card: Card,
        card_of_weights: Card,
        module: torch.nn.Module,
        run: tuple[Prepare, Listen],
        *,
        files: WeightFiles,
        hashes: FileHashes,
        placement: Placement,
    ) -> None:
        super().__init__(card, card_of_weights, placement)
        check_sound_file(card, self.sound, files)
        self.prepare, self.listen = run
        self.set_module(module, files, hashes)

    def outputs(self, clips: Sequence[ClipSound]) -> list[dict[str, Tensor]]:
        """Return the output tensors of the family for each clip."""
        import torch

        most = round(self.sound.seconds * self.sound.rate)
        places = [sound_pieces(len(heard.of_clip), most) for heard in clips]
        pieces = []
        for heard, places_of_clip in zip(clips, places, strict=True):
            pieces += [heard.of_clip[place] for place in places_of_clip]
        outputs = []
        with torch.inference_mode():
            # At most one piece per clip at once: memory is planned for one piece per clip.
            steps = self.steps(pieces, len(clips))
            for heard, places_of_clip in zip(clips, places, strict=True):
                steps_of_clip = steps[: len(places_of_clip)]
                del steps[: len(places_of_clip)]
                n_samples = len(heard.of_clip)
                outputs.append(self._outputs(n_samples, places_of_clip, steps_of_clip))
        return outputs

    def steps(self, pieces: Sequence[Samples], at_once: int) -> list[Steps]:
        """Return the steps of each piece.

        If `stacks` of the family allows it, inputs of equal shape are computed in batches of up to
        `at_once` inputs.
        """
        places_of_shape: dict[Any, list[int]] = {}
        inputs = []
        stacks = self.card.family.stacks
        for place, samples in enumerate(pieces):
            of_piece = self.prepare(self._normalised(samples), self.sound)
            inputs.append(of_piece)
            is_stacked = stacks is not None and stacks(self.module, of_piece.shape)
            key = of_piece.shape if is_stacked else place
            places_of_shape.setdefault(key, []).append(place)
        steps: dict[int, Steps] = {}
        for places in places_of_shape.values():
            for start in range(0, len(places), at_once):
                stacked = places[start : start + at_once]
                values = np.stack([inputs[place] for place in stacked])
                tensor = on_device(values, self.placement.device).to(self.dtype)
                found = self.listen(self.module, tensor, self.sound)
                for number, place in enumerate(stacked):
                    steps[place] = _within(found, number, len(pieces[place]))
        return [steps[place] for place in range(len(pieces))]

    def _normalised(self, samples: Samples) -> Samples:
        """Return a piece with mean 0 and variance 1 if the card requires it."""
        if not self.sound.normalise:
            return samples
        centred = samples - samples.mean()
        normalised: Samples = centred / np.sqrt(samples.var() + _EPSILON)
        return normalised

    def _outputs(
        self, n_samples: int, places: Sequence[slice], pieces: Sequence[Steps]
    ) -> dict[str, Tensor]:
        """Return the tensors of one clip from the steps of its pieces."""
        import torch

        starts = [place.start for place in places]
        moments = np.concatenate(
            [steps.moments + start for start, steps in zip(starts, pieces, strict=True)]
        )
        vectors = torch.cat([steps.vectors.double() for steps in pieces])
        weights = on_device(part_weights(moments, n_samples), self.placement.device)
        outputs = {
            "steps-mean": vectors.mean(dim=0),
            "steps-max": vectors.amax(dim=0),
            "parts": weights @ vectors,
        }
        if pieces[0].whole is not None:
            wholes = torch.stack([steps.whole.double() for steps in pieces])
            lengths = np.array([place.stop - place.start for place in places])
            shares = on_device(lengths / n_samples, self.placement.device)
            outputs["vector-mean"] = shares @ wholes
        return {name: values.float()[None] for name, values in outputs.items()}


def _within(found: Steps, number: int, n_samples: int) -> Steps:
    """Return the steps of the piece `number` of a batch, without the steps of padding."""
    n_within = max(1, int(np.searchsorted(found.moments, n_samples)))
    whole = None if found.whole is None else found.whole[number]
    return Steps(found.vectors[number, :n_within], found.moments[:n_within], whole)


@dataclass(frozen=True, repr=False)
class SoundFamily(PretrainedFamily):
    """A family of models of sound of the transformers library.

    Args:
        steps: Number of steps of a piece of the usual length.
    """

    _: KW_ONLY
    medium: ClipMedium = "sound"
    backbone: type[TorchSound] = TorchSound
    steps: int

    def activation_bytes(self, g: Geometry, dtype: str, attention: str) -> int:
        """Return a rough estimate of the memory of one piece.

        If it is too low, a batch does not fit in memory and is halved.
        """
        itemsize = 4 if dtype == "float32" else 2
        return int(self.steps * g.width * itemsize * self.live)
