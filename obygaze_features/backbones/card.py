"""Cards: a checkpoint as data, the presets of its pixels, and the family of its architecture."""

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
# The equal parts of a clip that have a vector each in a store of sound.
PARTS = 16
_Number = Annotated[float, Meta(ge=-1e30, le=1e30)]
_Above0 = Annotated[float, Meta(gt=0, le=1e30)]
_Size = Annotated[int, Meta(ge=1, le=100_000)]
_Window = Annotated[int, Meta(ge=16, le=100_000, multiple_of=2)]


class Preset(Record, frozen=True):
    """How frames are chosen, and how they become a model's pixels.

    `squash_first` first resizes every frame to that square as OpenCV does, like the released
    extractor. `edge` is the shortest edge before the crop, 0 for the model's own
    size; with `edge_from_checkpoint` a preprocessor_config.json beside the weights decides. The
    rescaling "1/127.5-1" is ViViT's own: values in -1..1 before mean and deviation. Sampling "even"
    takes frame int(i * total / T), "fps" one a second, at most T of them, the rest masked.
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
        """Return how pictures are resized for a model; some presets use the checkpoint's edge."""
        # Imported late: the help of commands imports this module, and resizing needs NumPy.
        from obygaze_features.video.resize import Resize

        size = geometry.size
        if any(geometry.shape):
            if self.edge or self.squash_first:
                raise FixInput("edge and squash_first are for square frames")
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
    """The mel spectrogram that a model takes: the table `[sound.mel]` of a card.

    It has `bands` from `low_hz` to `high_hz`, of windows of `window` samples that begin `hop`
    samples apart.
    """

    bands: _Size
    window: _Window
    hop: _Size
    low_hz: Annotated[float, Meta(ge=0, le=1e6)]
    high_hz: Annotated[float, Meta(gt=0, le=1e6)]


class Sound(Record, frozen=True):
    """How the sound of a clip becomes the input of a model: the table `[sound]` of a card.

    The model takes `rate` samples a second. A clip of more than `seconds` goes through it in equal
    pieces, with 0 as a whole. `normalise` gives each piece the mean 0 and the variance 1. The model
    hears the `before` seconds before a clip, too. A model without `mel` takes the samples.
    """

    rate: Annotated[int, Meta(ge=1000, le=1_000_000)]
    seconds: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    normalise: bool = False
    before: Annotated[float, Meta(ge=0, le=60)] = 0.0
    mel: Mel | None = None

    def view(self) -> SoundView:
        """Return what a model hears of a clip."""
        # Imported late, as in `Preset.resize_to`.
        from obygaze_features.video.sound import SoundView

        return SoundView(self.rate, self.before)


class Words(Record, frozen=True):
    """What a model of words takes at once: the table `[words]` of a card.

    A text of more than `tokens` goes through the model in pieces. `normalise` gives the vector of
    each piece the length 1.
    """

    tokens: Annotated[int, Meta(ge=8, le=100_000)]
    normalise: bool = False


@dataclass(frozen=True, repr=False)
class Family:
    """An architecture: how its checkpoints are loaded, and which tensors they return.

    Args:
        name: The name that cards use.
        class_name: The name of the class that is loaded.
        outputs: The tensors that an array can be, each with its dimensions: words of
            `Geometry.dimensions`, as in {"tokens": "step token width", "cls": "width"}.
        needs_weights: Whether there are weights at all.
        needs_torch: Whether it computes with torch, so that a GPU can be used.
        takes_mask: Whether a mask can mark the padding of short clips. Without one, every clip
            needs all its frames.
        live: How many tensors of the size of all tokens exist at once while it computes.
        medium: What of a clip its models take.
        rate: How many samples of sound a second its models take; 0 for any.
        most_s: How many seconds of sound they take at once; 0 for any.
        sound_keys: The keys of the table `[sound]` of a card that change their numbers.
        stacks: Whether inputs of sound of a shape may go through a module at once, since that
            changes no bit; None for models that hear one by one.
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
        """Return the device memory of one clip without the weights, exact to about 20 %."""
        itemsize = 4 if dtype == "float32" else 2
        tokens = g.steps * g.patches + g.prefix * (g.frames if g.unit == "frame" else 1)
        scores = 0
        if attention == "eager" and g.depth is not None:
            # Of a clip at once: too much for networks that divide time and space.
            in_frames = g.unit == "frame"
            pairs = g.frames * (g.patches + g.prefix) ** 2 if in_frames else tokens**2
            scores = 2 * g.depth.heads * pairs * max(itemsize, 4)
        pixels = g.frames * 3 * prod(g.frame_shape) * itemsize
        return int(tokens * g.width * itemsize * self.live + scores + pixels)


@dataclass(frozen=True, repr=False)
class ComputedFamily(Family):
    """A family that is code of obygaze: its backbone needs no files of weights, and no torch.

    Args:
        make: Returns the backbone of a card, which computes on the CPU.
        frame_bytes: The memory for a frame, or for a part of a sound, while a clip is computed.
        resized: How pictures are resized, if it sees pictures.
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
    """One checkpoint as data: its name and source, its input, and the output behind each array.

    Weights must have its `depth` (layers, hidden, heads) and its `weights_sha256` (of the files, or
    of the tensors), if it gives them. `download_mb` is the size of the weights on the hub, which
    asks for an account if they are `gated`. `language` is the only one whose texts it reads, if it
    was made for one. None of these changes a number, so no hash has them.
    `package` is the folder of an installed Python package that has the weights, too.
    `code` has the sha256 of the files and the versions of the packages of a user's own backbone.
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
        """The name for commands: that of the card, with the preset unless it is the default."""
        if self.preset == DEFAULT_PRESET:
            return self.name
        return f"{self.name}@{self.preset}"

    @property
    def input(self) -> Preset:
        """The chosen preset."""
        return self.presets[self.preset]

    def input_size(self, geometry: Geometry) -> str:
        """Return what a model of this card and this geometry takes of a clip, in words."""
        if self.words is not None:
            return f"words, {self.words.tokens} tokens at once"
        if self.sound is None:
            return geometry.input_size
        pieces = f", {self.sound.seconds:g} s at once" if self.sound.seconds else ""
        alone = ", one by one" if self.family.stacks is None else ""
        return f"sound of {self.sound.rate} Hz{pieces}{alone}"

    @property
    def arrays(self) -> dict[str, FeatureArray]:
        """The arrays of a clip as this card declares them."""
        return self.family.arrays(self)

    @cached_property
    def sha256(self) -> str:
        """The hash of what the card declares; it does not depend on the file."""
        return sha256_bytes(canonical_json(self.to_json()))

    def with_preset(self, preset: str) -> Card:
        """Return the same card with another preset."""
        if preset not in self.presets:
            raise FixUsage(
                f"the card {self.name} has no preset {preset!r}",
                where=self.origin,
                hint=f"one of {', '.join(sorted(self.presets))}",
            )
        return replace(self, preset=preset)

    def to_json(self) -> dict[str, Any]:
        """Return everything the card declares as plain values, without the chosen preset."""
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
    """Raise an error for a model that does not see pictures."""
    if card.family.medium != "pictures":
        raise FixUsage(
            f"{purpose} for pictures alone, and {card.label} is a model of"
            f" {card.family.medium}",
            hint="use a backbone of pictures; obygaze backbones ls",
        )


def reads_words(card: Card) -> FixUsage:
    """Return the error for a model of words that is asked for the video of a clip."""
    return FixUsage(
        f"{card.label} reads words, not videos",
        hint=f"obygaze extract words MANIFEST -b {shell_word(card.label)} --subtitles FOLDER",
    )


def card_recipe(
    card: Card,
    geometry: Geometry,
    arrays: Mapping[str, FeatureArray],
    verified: bool = True,
) -> dict[str, Any]:
    """Return the section of a recipe that names the backbone and its arrays.

    Weights that are not known to be the card's checkpoint are recorded as unverified.
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
