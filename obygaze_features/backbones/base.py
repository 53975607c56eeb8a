"""The types that this package shares: presets, families, cards and backbones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from msgspec import Meta, structs

from obygaze_features.backbones.geometry import FeatureArray, Geometry
from obygaze_features.backbones.weight_files import WeightFiles
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.files import canonical_json, sha256_bytes
from obygaze_features.core.notebook import html_summary, short_repr
from obygaze_features.core.typed_files import Count, Record
from obygaze_features.store.recipe import UNVERIFIED

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from obygaze_features.video.resize import Resize

DEFAULT_PRESET = "default"
DTYPES = ("float32", "bfloat16", "float16")
Attention = Literal["sdpa", "eager"]
ATTENTION: tuple[str, ...] = get_args(Attention)
_Number = Annotated[float, Meta(ge=-1e30, le=1e30)]
_Above0 = Annotated[float, Meta(gt=0, le=1e30)]


class Preset(Record, frozen=True):
    """How frames are chosen, and how they become a model's pixels.

    `squash_first` first resizes every frame to that square as OpenCV does, like the released
    extractor. `edge` is the shortest edge before the crop, 0 for the model's own
    size; with `edge_from_checkpoint` a preprocessor_config.json beside the weights decides. The
    rescaling "1/127.5-1" is ViViT's own: values in -1..1 before mean and deviation. Sampling "even"
    takes frame int(i * total / T), "fps" one a second, at most T of them, the rest masked.
    `reproduces` names the processor that gives the same pixels. It changes no number, so no hash
    includes it.
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
    reproduces: Literal["", "hub", "paper", "training", "own"] = ""

    def resize_to(
        self,
        size: int,
        checkpoint_edge: int | None = None,
        shape: tuple[int, int] = (0, 0),
    ) -> Resize:
        """Return how pictures are resized for a model of a size, or of a shape that is no square.

        Some presets use the edge of the checkpoint.
        """
        # Imported late: `extract run` imports this module before it catches signals.
        from obygaze_features.video.resize import Resize

        edge = self.edge or size
        if self.edge_from_checkpoint and checkpoint_edge is not None:
            edge = checkpoint_edge
        if self.resize == "squash":
            edge = size
        if any(shape):
            if self.edge or self.squash_first:
                raise FixInput("edge and squash_first are for square frames")
            return Resize(
                0,
                fit=self.resize,
                filter=self.filter,
                crop_offset=self.crop_offset,
                target=shape,
            )
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
        """Return the settings that change pixels and frames, as plain values, for recipes."""
        values = structs.asdict(self)
        del values["reproduces"]
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in values.items()
        }


@dataclass(frozen=True)
class Placement:
    """The device, the precision and the attention of a computation."""

    device: str = "cpu"
    dtype: str = "float32"
    attention: str = "sdpa"

    def __post_init__(self) -> None:
        for name, known in (("dtype", DTYPES), ("attention", ATTENTION)):
            if (value := getattr(self, name)) not in known:
                hint = f"one of {', '.join(known)}"
                raise FixUsage(f"unknown {name} {value!r}", hint=hint)

    def recipe(self) -> dict[str, Any]:
        """Return the settings that change the numbers; the device does not."""
        return {"dtype": self.dtype, "attention": self.attention, "tf32": False}


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
        takes_mask: Whether a mask can mark the padding of short clips.
        attention: What tokens attend to: "joint" (all of a frame or clip), "divided" (time, then
            space), "factorised" (space in the first layers, then time; all are counted as space) or
            "messages" (all of a frame, and one message of every other frame).
        live: How many tensors of the size of all tokens exist at once while it computes.
    """

    name: str
    class_name: str
    _: KW_ONLY
    outputs: Mapping[str, str]
    needs_weights: bool = True
    needs_torch: bool = True
    takes_mask: bool = False
    attention: str = "joint"
    live: float = 15.0

    def __repr__(self) -> str:
        return short_repr(type(self).__name__, repr(self.name), self.class_name)

    def load(self, card: Card, files: WeightFiles, placement: Placement) -> Backbone:
        """Return the backbone of a card; raise an error unless the weights match the card."""
        raise NotImplementedError

    def inspect(self, card: Card, files: WeightFiles) -> Card:
        """Return a card with the depth and arrays of its weights, without loading the model."""
        raise NotImplementedError

    def arrays(self, card: Card) -> dict[str, FeatureArray]:
        """Return the arrays of a card, with the lengths of their dimensions."""
        length_of_dimension = card.geometry.dimensions
        arrays = {}
        for name, source in card.sources.items():
            names, lengths = zip(
                *(length_of_dimension[word] for word in self.outputs[source].split()),
                strict=True,
            )
            arrays[name] = FeatureArray(name, source, names, lengths)
        return arrays

    def resize(self, card: Card) -> Resize | None:
        """Return how the pictures of a card are resized, without loading the model."""
        return card.input.resize_to(card.geometry.size, shape=card.geometry.shape)

    def activation_bytes(self, g: Geometry, dtype: str, attention: str) -> int:
        """Return the device memory of one clip without the weights, exact to about 20 %."""
        itemsize = 4 if dtype == "float32" else 2
        tokens = g.steps * g.patches + g.prefix * (g.frames if g.unit == "frame" else 1)
        scores = 0
        if attention == "eager" and g.depth is not None:
            in_frames = g.unit == "frame" or self.attention in ("divided", "factorised")
            pairs = g.frames * (g.patches + g.prefix) ** 2 if in_frames else tokens**2
            scores = 2 * g.depth.heads * pairs * max(itemsize, 4)
        pixels = g.frames * 3 * prod(g.frame_shape) * itemsize
        return int(tokens * g.width * itemsize * self.live + scores + pixels)


@dataclass(frozen=True, repr=False)
class Card:
    """One checkpoint as data: its name and source, its input, and the output behind each array.

    Weights must have its `depth` (layers, hidden, heads) and its `weights_sha256` (of the files, or
    of the tensors), if it gives them. `download_mb` is the size of the weights on the hub, which
    asks for an account if they are `gated`. None of these changes a number, so no hash has them.
    `code` has the sha256 of the files and the versions of the packages of a user's own backbone.
    """

    name: str
    family: Family
    title: str
    licence: str
    geometry: Geometry
    sources: Mapping[str, str]
    presets: Mapping[str, Preset]
    checkpoint: str = ""
    revision: str = "main"
    citation: str = ""
    gflop: float = 0.0
    download_mb: int = 0
    gated: bool = False
    code: Mapping[str, Any] = field(default_factory=dict)
    preset: str = DEFAULT_PRESET
    origin: str = ""
    depth: Mapping[str, int] = field(default_factory=dict)
    weights_sha256: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return short_repr(
            "Card", repr(self.label), self.title, f"arrays {', '.join(self.sources)}"
        )

    def _repr_html_(self) -> str:
        arrays = {
            name: " x ".join(map(str, lv.shape)) for name, lv in self.arrays.items()
        }
        return html_summary(f"Card {self.label}: {self.title}", arrays)

    @property
    def label(self) -> str:
        """The name for commands: that of the card, with the preset unless it is the default."""
        return (
            self.name if self.preset == DEFAULT_PRESET else f"{self.name}@{self.preset}"
        )

    @property
    def input(self) -> Preset:
        """The chosen preset."""
        return self.presets[self.preset]

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
            where = self.origin
            hint = f"one of {', '.join(sorted(self.presets))}"
            raise FixUsage(
                f"the card {self.name} has no preset {preset!r}", where=where, hint=hint
            )
        return replace(self, preset=preset)

    def to_json(self) -> dict[str, Any]:
        """Return everything the card declares as plain values, without the chosen preset."""
        return {
            "name": self.name,
            "family": self.family.name,
            **{key: getattr(self, key) for key in ("title", "checkpoint", "revision")},
            **{key: getattr(self, key) for key in ("licence", "citation", "gflop")},
            "geometry": self.geometry.declared(),
            "levels": dict(self.sources),
            "presets": {
                name: preset.to_json() for name, preset in self.presets.items()
            },
        }


class Backbone(ABC):
    """A model that computes features: frames to pixels, pixels to arrays, and a recipe.

    Args:
        card: The card of the backbone.
        card_of_weights: The card with the geometry and the arrays of its weights. The default is
            the card.
        placement: The device, the precision and the attention.
        resize: How pictures are resized when they are decoded. The default is the family's.
    """

    # Whether the weights are known to be the card's checkpoint, and the sha256 of each file.
    verified = True
    hashes: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        card: Card,
        card_of_weights: Card | None = None,
        placement: Placement = Placement(),
        resize: Resize | None = None,
    ) -> None:
        card_of_weights = card_of_weights or card
        self.card = card
        self.placement = placement
        self.resize = resize or card.family.resize(card)
        self.geometry = card_of_weights.geometry
        self.arrays = card_of_weights.arrays
        family = card.family
        self.takes_mask = family.takes_mask
        memory = family.activation_bytes(
            self.geometry, placement.dtype, placement.attention
        )
        self.activation_bytes = memory

    def __repr__(self) -> str:
        where = f"{self.placement.dtype} on {self.placement.device}"
        facts = (
            repr(self.card.label),
            self.geometry.input_size,
            where,
            ", ".join(self.arrays),
        )
        return short_repr(type(self).__name__, *facts)

    @abstractmethod
    def normalise(self, pictures: Any) -> Any:
        """Return pictures [t, h, w, 3] uint8, resized as `resize` says, as pixels [t, 3, S, S]."""

    def preprocess(self, pictures: Any) -> Any:
        """Return pictures of any size, [t, H, W, 3] uint8, as pixels [t, 3, S, S]."""
        pictures = check_pictures(pictures)
        return self.normalise(
            pictures if self.resize is None else self.resize(pictures)
        )

    def forward(
        self, pixels: Any, mask: Any = None, only: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Return the arrays of pixels [B, T, 3, S, S], each [B, ...]; `only` some of them.

        A mask [B, T] is 1 for real frames and 0 for padding, if the family takes one.
        """
        check_pixels(pixels, self.geometry, self.card.label)
        wanted = self.arrays.keys() if only is None else self._known_arrays(only)
        arrays = {n: array for n, array in self.arrays.items() if n in wanted}
        outputs = self.outputs(pixels, self._checked_mask(mask, len(pixels)))
        for name, array in arrays.items():
            expected = [len(pixels), *array.shape]
            got = list(outputs[array.source].shape)
            if got != expected:
                problem = f"{name}: expected shape {expected}, the model returned {got}"
                hint = "compare [tokens] of the card with the checkpoint"
                if self.card.code:
                    hint = f"arrays= of the card: {name} is the shape of one clip, {got[1:]}?"
                raise FixInput(problem, hint=hint)
        return {name: outputs[array.source] for name, array in arrays.items()}

    def _known_arrays(self, only: Collection[str]) -> set[str]:
        """Return names of arrays; raise an error for one that this backbone has not."""
        names = {only} if isinstance(only, str) else set(only)
        unknown = sorted(names - self.arrays.keys())
        if unknown:
            raise FixUsage(
                f"{self.card.label} has no array {unknown[0]!r}",
                hint=f"one of {', '.join(self.arrays)}",
            )
        return names

    def _checked_mask(self, mask: Any, n_clips: int) -> npt.NDArray[np.float32]:
        # Imported late: the help of commands imports this module.
        import numpy as np

        shape = (n_clips, self.geometry.frames)
        if mask is None:
            return np.ones(shape, np.float32)
        values = np.asarray(mask).astype(np.float32)
        if not self.takes_mask and not (values == 1).all():
            raise FixInput(
                f"{self.card.label} takes no mask: every clip needs all its frames"
            )
        if (
            values.shape != shape
            or not np.isin(values, (0, 1)).all()
            or not values.any(axis=1).all()
        ):
            raise FixInput(
                f"the mask must be {list(shape)}, 1 for real frames and 0 for padding, with some 1"
                f" in each clip; got {list(values.shape)}"
            )
        return values

    @abstractmethod
    def outputs(self, pixels: Any, mask: npt.NDArray[np.float32]) -> Mapping[str, Any]:
        """Return the outputs that the family names, for checked pixels and a checked mask."""

    def recipe(self) -> dict[str, Any]:
        """Return the settings that change the numbers, as plain values."""
        return {
            **card_recipe(self.card, self.geometry, self.arrays, self.verified),
            "weights": dict(self.hashes),
            "preprocessing": self.preprocessing(),
            "compute": self.placement.recipe(),
        }

    @abstractmethod
    def preprocessing(self) -> dict[str, Any]:
        """Return the settings that change the pixels, as plain values."""


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


def check_pixels(pixels: Any, geometry: Geometry, label: str) -> None:
    """Raise an error for pixels of another shape: some models would return wrong values."""
    shape = tuple(getattr(pixels, "shape", ()))
    g = geometry
    height, width = g.frame_shape if g.size else (shape[-1:] or (0,)) * 2
    expected = (g.frames, 3, height, width)
    if len(shape) != 5 or shape[1:] != expected or not shape[0]:
        problem = f"{label} takes pixels [B, {', '.join(map(str, expected))}], got {list(shape)}"
        raise FixInput(
            problem,
            hint=f"{g.frames} frames a clip, in 3 channels of {height} x {width}",
        )


def check_pictures(pictures: Any) -> Any:
    """Return pictures, or raise an error unless they are an array or tensor uint8 [T, H, W, 3]."""
    dtype = str(getattr(pictures, "dtype", type(pictures).__name__)).removeprefix(
        "torch."
    )
    shape = list(getattr(pictures, "shape", ()))
    if dtype != "uint8" or len(shape) != 4 or shape[-1] != 3 or 0 in shape:
        raise FixInput(f"frames must be uint8 [T, H, W, 3], got {dtype} {shape}")
    return pictures
