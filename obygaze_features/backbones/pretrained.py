"""Checkpoints of the transformers library.

The library is imported only when it is needed. A missing tensor of a checkpoint is an error, and so
is an unused tensor, unless the family ignores it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from obygaze_features.backbones.backbone import (
    Backbone,
    Outputs,
    TorchBackbone,
)
from obygaze_features.backbones.card import Card, Family
from obygaze_features.backbones.geometry import Geometry
from obygaze_features.backbones.placement import (
    Placement,
)
from obygaze_features.backbones.weight_files import (
    CONFIG,
    WeightFiles,
)
from obygaze_features.backbones.weights import (
    check_sizes,
    check_tensors,
    read_weights,
)
from obygaze_features.core.errors import (
    FixInput,
    InstallExtra,
    ObygazeError,
    first_line,
)
from obygaze_features.core.lazy import import_optional
from obygaze_features.store.recipe import CONFIGURATION

if TYPE_CHECKING:
    from torch import Tensor

    from obygaze_features.backbones.steps import Listen, Prepare


def library(module: str) -> Any:
    """Return a module of transformers, or raise an error that names what to install."""
    try:
        return import_optional(
            f"transformers.{module}", "extract", "running this backbone"
        )
    except ObygazeError:
        raise
    except Exception as error:
        # A torchvision built for another torch breaks every import of the library.
        raise InstallExtra(
            f"transformers is installed but cannot be imported: {first_line(error)}",
            hint="pip uninstall torchvision",
        ) from error


@contextmanager
def silence_library() -> Iterator[None]:
    """Turn off the messages and the progress bars of transformers.

    The errors of obygaze contain the reasons that the messages give.
    """
    logging = library("utils.logging")
    level = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def from_pretrained(
    kind: Any, source: str | Path | None, error: ObygazeError, **options: Any
) -> Any:
    """Return `kind.from_pretrained(source)`; for any exception raise `error` with its reason."""
    with silence_library():
        try:
            return kind.from_pretrained(source, **options)
        except Exception as reason:
            # Every exception here means that the files are wrong or cannot be reached.
            raise add_reason(error, reason) from reason


def add_reason(error: ObygazeError, reason: Exception) -> ObygazeError:
    """Return an error whose message ends with the reason that a library gave."""
    problem = f"{error.message}: {first_line(reason)}"
    return type(error)(problem, where=error.where, hint=error.hint)


@dataclass(frozen=True)
class Text:
    """The text model of a family: its class, and the function that gives the vector of a text."""

    model: str
    embed: Callable[[Any, Any], Tensor]
    # SigLIP was trained on lower-case texts, padded to the full length, without a mask.
    padded: bool = False
    lower: bool = False
    # The positions of RoBERTa begin after that of the padding.
    unused_positions: int = 0


@dataclass(frozen=True, repr=False)
class PretrainedFamily(Family):
    """A family of models of the transformers library.

    Args:
        package: Package of the class in the library. Empty: the name of the family.
        backbone: The class that runs the module.
        model_types: The `model_type` that its configurations may have. Empty: the name of the
            family.
        geometry: Returns the geometry of a configuration and a card; the card states the size if
            the model takes any size.
        run: Returns the outputs of the module for pixels. For sound, there are two functions: the
            first returns the input for a piece, the second the steps of the module for such inputs.
        ignored: Regular expression of tensors that a checkpoint may have and the class does not use
            (text models, heads); any other unused tensor is an error.
        keep: Returns the part of the model that is kept.
        options: Arguments for the class.
        text: The text model. None: no text model.
    """

    _: KW_ONLY
    geometry: Callable[[Any, Geometry], Geometry]
    run: Outputs | tuple[Prepare, Listen]
    backbone: Callable[..., Backbone] = TorchBackbone
    package: str = ""
    model_types: tuple[str, ...] = ()
    ignored: str = r"position_ids$"
    keep: Callable[[Any], Any] = lambda model: model
    options: Mapping[str, Any] = field(default_factory=dict)
    text: Text | None = None

    def model(self, class_name: str = "") -> Any:
        """Return the model class of the family, or another class of the same module."""
        package = self.package or self.name
        module = library(f"models.{package}.modeling_{package}")
        return getattr(module, class_name or self.class_name)

    def load(self, card: Card, files: WeightFiles, placement: Placement) -> Backbone:
        """Return the model of a card.

        Raise an error if a weight is missing, or if the sizes of the model differ from the card.
        """
        card_of_weights = self.card_of_weights(card, files)
        kind = self.model()
        placement = supported_placement(kind, placement)
        model, hashes = load_strictly(
            kind, card, files, placement, self.ignored, **self.options
        )
        return self.backbone(
            card,
            card_of_weights,
            self.keep(model),
            self.run,
            files=files,
            hashes=hashes,
            placement=placement,
        )

    @property
    def known_types(self) -> tuple[str, ...]:
        """The `model_type` that configurations of the family may have."""
        return self.model_types or (self.name,)

    def card_of_weights(self, card: Card, files: WeightFiles) -> Card:
        """Return a card with the geometry of its weights; raise an error if the sizes differ."""
        config = files.configuration
        kind = config.get("model_type")
        if kind not in self.known_types:
            expected = " or ".join(self.known_types)
            raise FixInput(
                f"expected a checkpoint of the model type {expected} for {card.name}, got {kind!r}",
                where=str(files.folder / CONFIG),
                hint="use --weights with a checkpoint of this type, or a different backbone",
            )
        g = self.geometry_of_weights(card, files)
        check_sizes(card, g, files)
        return replace(card, geometry=g)

    def geometry_of_weights(self, card: Card, files: WeightFiles) -> Geometry:
        """Return the geometry of weights; a card states the size if the model takes any size."""
        g = self.geometry(_config(self.model(), files), card.geometry)
        if g.depth is None or g.size % g.depth.patch or g.frames % g.depth.tubelet:
            raise FixInput(
                f"{g.frames} frames of {g.size} x {g.size} cannot be cut into this model's patches",
                where=files.origin,
            )
        return g


def supported_placement(kind: Any, placement: Placement) -> Placement:
    """Return a placement with an implementation of attention that a class of models supports."""
    if getattr(kind, "_supports_sdpa", False):
        return placement
    return replace(placement, attention="eager")


def load_strictly(
    kind: Any,
    card: Card,
    files: WeightFiles,
    placement: Placement,
    ignored: str = "",
    **options: Any,
) -> tuple[Any, dict[str, str]]:
    """Return a model with all its tensors from the files, and the hashes of the files.

    Raise an error if a tensor is missing or unused. Tensors of the files may be unused if their
    names match the regular expression `ignored`; the default matches all names.
    """
    import torch

    config = _config(kind, files)
    tensors, hashes = read_weights(card, files)
    hashes[CONFIGURATION] = files.configuration_sha256
    model, info = from_pretrained(
        kind,
        None,
        _loading_error(kind, files),
        config=config,
        state_dict=tensors,
        dtype=getattr(torch, placement.dtype),
        attn_implementation=placement.attention,
        output_loading_info=True,
        **options,
    )
    unused = [key for key in info["unexpected_keys"] if not re.search(ignored, key)]
    wrong = [*info["mismatched_keys"], *info["error_msgs"]]
    check_tensors(info["missing_keys"], unused, wrong, files.origin)
    return model, hashes


def _config(kind: Any, files: WeightFiles) -> Any:
    error = _loading_error(kind, files)
    # The path of the file is passed, because its folder may contain configurations for other
    # versions of the library.
    path = files.folder / CONFIG
    return from_pretrained(kind.config_class, path, error, local_files_only=True)


def _loading_error(kind: Any, files: WeightFiles) -> FixInput:
    return FixInput(f"{kind.__name__} cannot load this checkpoint", where=files.origin)


def save_random(
    family: PretrainedFamily, sizes: Mapping[str, Any], folder: Path
) -> Path:
    """Write a checkpoint with random weights; `sizes` are its configuration."""
    torch = import_optional("torch", "extract", "making random weights")
    kind = family.model()
    folder.mkdir(parents=True, exist_ok=True)
    with silence_library(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        kind(kind.config_class(**sizes), **family.options).save_pretrained(folder)
    return folder
