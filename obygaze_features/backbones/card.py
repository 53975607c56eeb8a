"""Cards: a checkpoint as data, its input presets, and the family of its architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, structs, to_builtins

from obygaze_features.backbones.geometry import FeatureArray, Geometry
from obygaze_features.backbones.placement import Attention, Placement
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.files import canonical_json, sha256_bytes
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.schema_check import Count, Record
from obygaze_features.core.shell import shell_word
from obygaze_features.store.recipe import UNVERIFIED

if TYPE_CHECKING:
    from obygaze_features.backbones.weight_files import (
        WeightFiles,
    )
    from obygaze_features.video.resize import Resize
    from obygaze_features.video.sound import SoundView

DEFAULT_PRESET = "default"
ClipMedium = Literal["pictures", "sound", "words"]
# In a store of sound, a clip has this many equal parts with one vector each.
PARTS = 16
_Number = Annotated[float, Meta(ge=-1e30, le=1e30)]
_Above0 = Annotated[float, Meta(gt=0, le=1e30)]
_Size = Annotated[int, Meta(ge=1, le=100_000)]
_Window = Annotated[int, Meta(ge=16, le=100_000, multiple_of=2)]


class Preset(Record, frozen=True):
    """The choice of frames, and their preprocessing to the pixels of a model.

    `squash_first` is the edge of a square to which OpenCV's filter first resizes every frame; 0
    means that no frame is squashed. The code that was released with the paper of ObyGaze12 does
    this. `edge` is the shortest edge before the crop; 0 is the input size of the model. With
    `edge_from_checkpoint`, preprocessor_config.json in the folder of the weights states the edge.
    The rescaling "1/127.5-1" of ViViT gives values in -1..1; after any rescaling, `mean` is
    subtracted, and the result is divided by `std`. Sampling "even" takes the frames
    int(i * total / T), for i from 0 to T - 1. "fps" takes one frame a second, at most T frames, and
    masks the missing frames.
    """

    mean: tuple[_Number, _Number, _Number] = (0.5, 0.5, 0.5)
    std: tuple[_Above0, _Above0, _Above0] = (0.5, 0.5, 0.5)
    resize: Literal["shortest-edge", "squash"] = "shortest-edge"
    filter: Literal["bilinear", "bicubic"] = "bilinear"
    edge: Count = 0
    edge_from_checkpoint: bool = False
    crop_offset: Literal["floor", "round"] = "floor"
    rescale: Literal["1/255", "1/127.5-1"] = "1/255"
    squash_first: Count = 0
    sampling: Literal["even", "fps"] = "even"
    attention: Attention = "sdpa"

    def resize_to(
        self, geometry: Geometry, checkpoint_edge: int | None = None
    ) -> Resize:
        """Return the resizing of pictures for a model.

        `checkpoint_edge` is the shortest edge that the checkpoint states. Only presets with
        `edge_from_checkpoint` use it.
        """
        # Imported late: the help of commands imports this module, and resizing needs NumPy.
        from obygaze_features.video.resize import Resize

        size = geometry.size
        if any(geometry.shape):
            if self.edge or self.squash_first:
                raise FixInput(
                    "edge and squash_first are allowed for square frames only"
                )
            return Resize(
                0,
                fit=self.resize,
                filter=self.filter,
                crop_offset=self.crop_offset,
                target=geometry.shape,
            )
        edge = self.edge or size
        if self.edge_from_checkpoint and checkpoint_edge is not None:
            edge = checkpoint_edge
        if self.resize == "squash":
            edge = size
        if edge < size:
            raise FixInput(
                f"frames of shortest edge {edge} cannot be cropped to {size} x {size}"
            )
        return Resize(
            edge,
            size,
            self.resize,
            self.filter,
            self.crop_offset,
            self.squash_first,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain values, for recipes."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in structs.asdict(self).items()
        }


class Mel(Record, frozen=True):
    """The mel spectrogram of a model: the table `[sound.mel]` of a card.

    It has `bands` bands from `low_hz` to `high_hz`. A window has `window` samples, and windows
    start `hop` samples apart.
    """

    bands: _Size
    window: _Window
    hop: _Size
    low_hz: Annotated[float, Meta(ge=0, le=1e6)]
    high_hz: Annotated[float, Meta(gt=0, le=1e6)]


class Sound(Record, frozen=True):
    """The sound input of a model: the table `[sound]` of a card.

    The model takes `rate` samples a second. A clip longer than `seconds` is split into equal
    pieces; 0 means never. `normalise` gives each piece mean 0 and variance 1. The input also
    contains the `before` seconds before the clip. Without `mel`, the input is the samples.
    """

    rate: Annotated[int, Meta(ge=1000, le=1_000_000)]
    seconds: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    normalise: bool = False
    before: Annotated[float, Meta(ge=0, le=60)] = 0.0
    mel: Mel | None = None

    def view(self) -> SoundView:
        """Return the part of the sound of a clip that is the input of the model."""
        # Imported late, as in `Preset.resize_to`.
        from obygaze_features.video.sound import SoundView

        return SoundView(self.rate, self.before)


class Words(Record, frozen=True):
    """The text input of a model of words: the table `[words]` of a card.

    A text with more than `tokens` tokens is split into pieces. `normalise` gives the vector of each
    piece length 1.
    """

    tokens: Annotated[int, Meta(ge=8, le=100_000)]
    normalise: bool = False


@dataclass(frozen=True, repr=False)
class Family:
    """An architecture: the loading of its checkpoints, and the tensors that they return.

    Args:
        name: Name of the family in cards.
        class_name: Name of the class that is loaded.
        outputs: Tensors that an array can be, with their dimensions: words of
            `Geometry.dimensions`, as in {"tokens": "step token width", "cls": "width"}.
        needs_weights: Whether the family has weights.
        needs_torch: Whether the family computes with torch, which can use a GPU.
        takes_mask: Whether a mask can mark the padding of short clips. Without a mask, every clip
            needs all its frames.
        live: Memory of one clip during the computation, as a number of tensors. Each has the size
            of all tokens of the clip.
        medium: The part of a clip that is the input.
        rate: Sampling rate of the sound input, in samples a second; 0 for any.
        most_s: Longest sound input, in seconds; 0 for any.
        sound_keys: Keys of the table `[sound]` of a card that change the features of the family.
        stacks: Returns whether sound inputs of a shape may be computed in one batch, which is so if
            the batch changes no bit of the features. None: the model computes one input at a time.
    """

    name: str
    class_name: str
    _: KW_ONLY
    outputs: Mapping[str, str]
    needs_weights: bool = True
    needs_torch: bool = True
    takes_mask: bool = False
    live: float = 15.0
    medium: ClipMedium = "pictures"
    rate: int = 0
    most_s: float = 0.0
    sound_keys: tuple[str, ...] = ()
    stacks: Callable[[Any, tuple[int, ...]], bool] | None = None

    def load(self, card: Card, files: WeightFiles, placement: Placement) -> Any:
        """Return the `Backbone` of a card; raise an error unless the weights match the card."""
        raise NotImplementedError

    def arrays(self, card: Card) -> dict[str, FeatureArray]:
        """Return the arrays of a card, with the lengths of their dimensions."""
        length_of_dimension = card.geometry.dimensions
        arrays = {}
        for name, source in card.sources.items():
            dimensions = [
                length_of_dimension[word] for word in self.outputs[source].split()
            ]
            names, lengths = zip(*dimensions, strict=True)
            arrays[name] = FeatureArray(name, source, names, lengths)
        return arrays

    def resize(self, card: Card) -> Resize:
        """Return how the pictures of a card are resized, without loading the model."""
        return card.input.resize_to(card.geometry)

    def activation_bytes(self, g: Geometry, dtype: str, attention: str) -> int:
        """Return the device memory of one clip without the weights, within about 20 %."""
        itemsize = 4 if dtype == "float32" else 2
        tokens = g.steps * g.patches + g.prefix * (g.frames if g.unit == "frame" else 1)
        scores = 0
        if attention == "eager" and g.depth is not None:
            # Scores of a whole clip: an upper bound for divided space-time attention.
            in_frames = g.unit == "frame"
            pairs = g.frames * (g.patches + g.prefix) ** 2 if in_frames else tokens**2
            scores = 2 * g.depth.heads * pairs * max(itemsize, 4)
        pixels = g.frames * 3 * prod(g.frame_shape) * itemsize
        return int(tokens * g.width * itemsize * self.live + scores + pixels)


@dataclass(frozen=True, repr=False)
class ComputedFamily(Family):
    """A family implemented in obygaze: its backbone needs neither files of weights nor torch.

    Args:
        make: Returns the backbone of a card, which computes on the CPU.
        frame_bytes: Memory for a frame, or for a part of a sound, while a clip is computed.
        resized: Resizing of pictures, if the input is pictures.
    """

    _: KW_ONLY
    make: Callable[[Card], Any]
    frame_bytes: int
    resized: Resize | None = None
    needs_weights: bool = False
    needs_torch: bool = False

    def load(self, card: Card, files: WeightFiles, placement: Placement) -> Any:
        """Return the backbone of a card."""
        return self.make(card)

    def resize(self, card: Card) -> Resize:
        """Return how the pictures of a card are resized."""
        return self.resized or super().resize(card)

    def activation_bytes(self, g: Geometry, dtype: str, attention: str) -> int:
        """Return the memory for one clip while it is computed."""
        return g.frames * self.frame_bytes


@dataclass(frozen=True, repr=False)
class Card:
    """A checkpoint as data: its name and source, its input, and the output of each array.

    Weights must match `depth` (layers, hidden, heads) and `weights_sha256` (of files, or of
    tensors) if the card states them. `download_mb` is the size of the weights on the hub. The hub
    requires an account for weights that are `gated`. `language` is the language of the texts, if
    the model knows only one. These five fields change no feature, and the hash of the card does not
    contain them. `package` is a folder of an installed Python package with the same weights. `code`
    is for user code, and contains the sha256 of its files and the versions of its packages.
    """

    name: str
    family: Family
    title: str
    licence: str
    geometry: Geometry
    sources: Mapping[str, str]
    presets: Mapping[str, Preset]
    sound: Sound | None = None
    words: Words | None = None
    checkpoint: str = ""
    revision: str = "main"
    citation: str = ""
    gflop: float = 0.0
    download_mb: int = 0
    gated: bool = False
    language: str = ""
    code: Mapping[str, Any] = field(default_factory=dict)
    preset: str = DEFAULT_PRESET
    origin: str = ""
    depth: Mapping[str, int] = field(default_factory=dict)
    package: str = ""
    weights_sha256: tuple[str, ...] = ()

    def __repr__(self) -> str:
        arrays = f"arrays {', '.join(self.sources)}"
        return short_repr("Card", repr(self.label), self.title, arrays)

    @property
    def label(self) -> str:
        """The name for commands: NAME, or NAME@PRESET if the preset is not the default."""
        if self.preset == DEFAULT_PRESET:
            return self.name
        return f"{self.name}@{self.preset}"

    @property
    def input(self) -> Preset:
        """The chosen preset."""
        return self.presets[self.preset]

    def input_size(self, geometry: Geometry) -> str:
        """Return a description of the input that a model of this geometry takes of a clip."""
        if self.words is not None:
            return f"words, {self.words.tokens} tokens at once"
        if self.sound is None:
            return geometry.input_size
        pieces = f", {self.sound.seconds:g} s at once" if self.sound.seconds else ""
        alone = ", one by one" if self.family.stacks is None else ""
        return f"sound of {self.sound.rate} Hz{pieces}{alone}"

    @property
    def arrays(self) -> dict[str, FeatureArray]:
        """The arrays of a clip."""
        return self.family.arrays(self)

    @cached_property
    def sha256(self) -> str:
        """The hash of the content of the card, which does not depend on the format of its file."""
        return sha256_bytes(canonical_json(self.to_json()))

    def with_preset(self, preset: str) -> Card:
        """Return the card with a different preset."""
        if preset not in self.presets:
            raise FixUsage(
                f"the card {self.name} has no preset {preset!r}",
                where=self.origin,
                hint=f"use one of {', '.join(sorted(self.presets))}",
            )
        return replace(self, preset=preset)

    def to_json(self) -> dict[str, Any]:
        """Return the content of the card as plain values, without the chosen preset."""
        presets = {name: preset.to_json() for name, preset in self.presets.items()}
        inputs: dict[str, Any] = {"presets": presets}
        if self.family.medium != "pictures":
            table = self.words or self.sound
            inputs = {self.family.medium: to_builtins(table)} if table else {}
        return {
            "name": self.name,
            "family": self.family.name,
            "title": self.title,
            "checkpoint": self.checkpoint,
            "revision": self.revision,
            "licence": self.licence,
            "citation": self.citation,
            "gflop": self.gflop,
            "geometry": self.geometry.declared(),
            "levels": dict(self.sources),
            **inputs,
        }


def require_pictures(card: Card, purpose: str) -> None:
    """Raise an error for a model whose input is not pictures."""
    if card.family.medium != "pictures":
        raise FixUsage(
            f"{purpose} for pictures only, and {card.label} is a model of"
            f" {card.family.medium}",
            hint="use a backbone of pictures; to list the backbones: obygaze backbones ls",
        )


def reads_words(card: Card) -> FixUsage:
    """Return the error for a model of words that is applied to videos."""
    return FixUsage(
        f"{card.label} is a model of words, not of videos",
        hint=f"obygaze extract words MANIFEST -b {shell_word(card.label)} --subtitles FOLDER",
    )


def card_recipe(
    card: Card,
    geometry: Geometry,
    arrays: Mapping[str, FeatureArray],
    verified: bool = True,
) -> dict[str, Any]:
    """Return the section of a recipe with the backbone and its arrays.

    Weights that cannot be verified as the card's checkpoint are recorded as unverified.
    """
    claim = {"checkpoint": card.checkpoint, "revision": card.revision}
    if not verified:
        claim = {"checkpoint": "", "revision": "", UNVERIFIED: card.checkpoint}
    backbone = {
        "name": card.name,
        "card_sha256": card.sha256,
        "preset": card.preset,
        "family": card.family.name,
        **claim,
        "geometry": geometry.declared(),
        "levels": {name: array.source for name, array in arrays.items()},
    }
    if card.code:
        backbone["code"] = dict(card.code)
    return {"backbone": backbone}
