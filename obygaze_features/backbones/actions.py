"""Functions for users of backbones: list, show, check, fetch and load them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from obygaze_features.backbones.card import Card, reads_words
from obygaze_features.backbones.cards import find_card, find_cards
from obygaze_features.backbones.devices import check_device
from obygaze_features.backbones.weight_files import TOKENIZERS
from obygaze_features.backbones.weights import (
    cached_snapshot,
    download_files,
    find_weights,
    is_cached,
    repository_folder,
)
from obygaze_features.core.console import human, table
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.machine import offline
from obygaze_features.core.rendering import render
from obygaze_features.core.workspace import PathLike, Workspace

if TYPE_CHECKING:
    from obygaze_features.backbones.backbone import Backbone
    from obygaze_features.backbones.check import CheckReport

_HEADERS = ("name", "T", "size", "GFLOP", "licence", "download", "weights")


@dataclass(frozen=True)
class BackboneList:
    """The cards, and the errors of card files that cannot be read."""

    cards: list[Card]
    problems: list[ObygazeError]

    @property
    def warnings(self) -> list[str]:
        """One sentence for each card file that cannot be read."""
        return [f"{problem.where}: {problem.message}" for problem in self.problems]

    def to_json(self) -> dict[str, Any]:
        """Return all settings of each card."""
        return {"backbones": [_card_settings(card) for card in self.cards]}

    def __str__(self) -> str:
        return table(_HEADERS, [_list_row(card) for card in self.cards])


@dataclass(frozen=True)
class CardDescription:
    """A card with its chosen preset."""

    card: Card

    def to_json(self) -> dict[str, Any]:
        """Return all settings of the card."""
        return {**_card_settings(self.card), "preset": self.card.preset}

    def __str__(self) -> str:
        rows = []
        for array in self.card.arrays.values():
            shape = " x ".join(map(str, array.shape))
            rows.append([array.name, shape, array.dtype, array.n_bytes, array.source])
        presets = {}
        declared = self.card.presets
        if self.card.family.medium != "pictures":
            # Models of sound and words have one preset, which has no effect.
            declared = {}
        for name, preset in declared.items():
            settings = preset.to_json().items()
            given = ", ".join(f"{key} {value}" for key, value in settings if value)
            presets[name] = given
        facts: dict[str, Any] = {
            "weights": _weights_state(self.card),
            "download": _download(self.card),
            "table": table(
                ["array", "shape", "stored as", "bytes per clip", "from"], rows
            ),
            "presets": presets,
        }
        return render("backbone-card.txt", card=self.card, **facts).rstrip("\n")


@dataclass(frozen=True)
class FetchedWeights:
    """The name, bytes and folder of the weights of each backbone.

    The folder is None for a backbone that needs no weights.
    """

    backbones: list[dict[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """Return the bytes and the folder of each backbone."""
        return {"backbones": self.backbones}

    def __str__(self) -> str:
        lines = []
        for weights in self.backbones:
            found = "no weights needed"
            if weights["folder"] is not None:
                found = f"{human(weights['bytes'])} in {weights['folder']}"
            lines.append(f"{weights['name']}: {found}")
        return "\n".join(lines)


def list_backbones(
    *,
    workspace: PathLike | None = None,
) -> BackboneList:
    """List the backbones of obygaze and of the workspace.

    T is the number of frames, or of parts of the sound, of a clip. GFLOP is the cost of a clip in
    billions of operations.

    Args:
        workspace: The workspace, if it is not the current one.
    """
    return BackboneList(*find_cards(Workspace.of(workspace)))


def show_backbone(
    name: str,
    *,
    workspace: PathLike | None = None,
) -> CardDescription:
    """Show all settings of a backbone, as its card states them.

    NAME@PRESET shows a preset of the card.

    Args:
        name: Name that `og.backbones.ls` lists, path of a card, or FILE.py:NAME.
        workspace: The workspace, if it is not the current one.
    """
    return CardDescription(find_card(name, Workspace.of(workspace)))


def check_backbone(
    name: str | Card,
    weights: PathLike | None = None,
    *,
    workspace: PathLike | None = None,
) -> CheckReport:
    """Check the weights and the outputs of a backbone.

    The checks: all tensors are from the files; the shapes are as in the card; the features of a
    clip do not depend on other clips of the batch. Nothing is downloaded. The exit code is 1 if
    the weights are missing, and 4 if a check fails.

    For a folder of weights, the card with their sizes is found. If there is none, the report has a
    new card for them.

    Args:
        name: Name of a backbone, path of a card, FILE.py:NAME, or a folder of weights.
        weights: File or folder of weights. The default is the checkpoint of the card.
        workspace: The workspace, if it is not the current one.
    """
    from obygaze_features.backbones.check import check_card, check_weights_folder

    if not isinstance(name, Card) and weights is None and Path(name).is_dir():
        return check_weights_folder(Path(name), Workspace.of(workspace))
    return check_card(_find_or_keep_card(name, workspace), weights)


def fetch_weights(
    names: Sequence[str],
    *,
    to: str | Path | None = None,
    workspace: PathLike | None = None,
) -> FetchedWeights:
    """Download the weights of backbones, for machines without a network.

    The weights are stored in the cache of the Hugging Face hub (the folder HF_HOME), which the
    other machines must be able to read. Only missing files that obygaze needs are downloaded: the
    weights, the configuration, and the tokenizer of a text model.

    Args:
        names: Names of backbones.
        to: Also copy the weights into this folder, to set as HF_HOME on another machine.
        workspace: The workspace, if it is not the current one.
    """
    cards = [find_card(name, Workspace.of(workspace)) for name in names]
    return FetchedWeights([_fetch(card, to) for card in cards])


def load_backbone(
    name: Card | str,
    weights: PathLike | None = None,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    download: bool = True,
    workspace: PathLike | None = None,
) -> Backbone:
    """Load a backbone: a model that turns pictures of a clip, or its sound, into features.

    The weights must match the card. Weights that cannot be verified as the checkpoint of the card
    are recorded as unverified in the recipe.

    Args:
        name: A card, its name, or your own function that returns a card (FILE.py:NAME);
            `og.backbones.ls` lists the names.
        weights: A file or folder of weights. The default is the checkpoint of the card in the cache
            of the hub.
        device: cpu, cuda or cuda:N.
        dtype: float32, bfloat16 or float16.
        download: Download the checkpoint of the card if it is not in the cache.
        workspace: The workspace, if it is not the current one. `name` may be a card of it.

    Example:
        >>> sorted(og.load_backbone("descriptors").arrays)
        ['clip', 'frames', 'pooled']
    """
    from obygaze_features.backbones.backbone import load_from
    from obygaze_features.backbones.placement import (
        Placement,
    )

    card = _find_or_keep_card(name, workspace)
    placement = Placement(device, dtype, card.input.attention)
    check_device(card, device)
    if card.family.medium == "words":
        # This error must come before an error about missing weights.
        raise reads_words(card)
    files = find_weights(card, weights, download=download)
    return load_from(card, files, placement)


def _find_or_keep_card(name: str | Card, workspace: PathLike | None) -> Card:
    return name if isinstance(name, Card) else find_card(name, Workspace.of(workspace))


def _fetch(card: Card, to: str | Path | None) -> dict[str, Any]:
    """Download the weights of a card, and copy them."""
    if not card.family.needs_weights:
        return {"name": card.name, "bytes": 0, "folder": None}
    if card.checkpoint and not (is_cached(card) and (offline() or _has_texts(card))):
        download_files(card)
    files = find_weights(card)
    weights = {"name": card.name, "bytes": files.n_bytes}
    if to is None:
        return {**weights, "folder": str(files.folder)}
    # The copy has the layout of the hub's cache, which states the checkpoint and its revision.
    repository = repository_folder(card.checkpoint)
    copy = Path(to) / "hub" / repository.name
    if copy.resolve() == repository.resolve():
        return {**weights, "folder": str(files.folder)}
    _copy_snapshot(files.folder, copy)
    reference = copy / "refs" / card.revision
    reference.parent.mkdir(parents=True, exist_ok=True)
    reference.write_text(files.folder.name, encoding="ascii")
    return {**weights, "folder": str(copy)}


def _copy_snapshot(snapshot: Path, copy: Path) -> None:
    """Copy the files of a snapshot, with the names that they have in the cache of the hub.

    Most of these names are hashes of the files.
    """
    links = copy / "snapshots" / snapshot.name
    links.mkdir(parents=True, exist_ok=True)
    blobs = copy / "blobs"
    blobs.mkdir(exist_ok=True)
    for file in snapshot.iterdir():
        stored = file.resolve()
        link = links / file.name
        link.unlink(missing_ok=True)
        if file.is_symlink():
            shutil.copyfile(stored, blobs / stored.name)
            link.symlink_to(Path("..", "..", "blobs", stored.name))
        elif file.is_file():
            # On a system without links, the cache has files here, and their sha256 is not known.
            shutil.copyfile(file, link)


def _has_texts(card: Card) -> bool:
    """Return whether the cache has the tokenizer of a card's text tower.

    Another program may have stored the weights without the tokenizer. Return True if the card has
    no text tower, or if its weights are not in the cache.
    """
    from obygaze_features.backbones.pretrained import PretrainedFamily

    family = card.family
    snapshot = cached_snapshot(card)
    if not isinstance(family, PretrainedFamily) or family.text is None or not snapshot:
        return True
    return any((snapshot / name).is_file() for name in TOKENIZERS)


def _list_row(card: Card) -> list[Any]:
    """Return the cells of a card in the list of backbones."""
    height, width = card.geometry.frame_shape
    size = "any"
    if card.words is not None:
        size = f"{card.words.tokens} tokens"
    elif card.sound is not None:
        size = f"{card.sound.rate / 1000:g} kHz"
    elif height:
        size = str(height) if height == width else f"{height}x{width}"
    gflop = f"{card.gflop:.0f}" if card.gflop else "-"
    return [
        card.name,
        card.geometry.frames,
        size,
        gflop,
        card.licence.split(" (")[0],
        _download(card),
        _weights_state(card),
    ]


def _card_settings(card: Card) -> dict[str, Any]:
    """Return the settings of a card, and the state of its weights."""
    declared = card.to_json()
    # The hash of a card, which is part of recipes, contains the sources under this name.
    sources = declared.pop("levels")
    arrays = {}
    for name, array in card.arrays.items():
        dims = list(array.dims)
        shape = list(array.shape)
        arrays[name] = {"dims": dims, "shape": shape, "dtype": array.dtype}
    vectors = [name for name, array in card.arrays.items() if len(array.shape) == 1]
    return {
        **declared,
        "default_array": next(iter([*vectors, *arrays])),
        "arrays": arrays,
        "sources": sources,
        "class": card.family.class_name,
        "card_sha256": card.sha256,
        "card_file": card.origin,
        "weights": _weights_state(card),
        "download_mb": card.download_mb,
        "gated": card.gated,
    }


def _weights_state(card: Card) -> str:
    if not card.family.needs_weights:
        return "user code" if card.code else "none needed"
    if not card.checkpoint:
        return "needs a file"
    return "cached" if is_cached(card) else "not cached"


def _download(card: Card) -> str:
    """Return the size of the download of a card's weights, or '-' without a download."""
    size = f"{card.download_mb / 1000:.1f} GB" if card.download_mb else "-"
    return f"{size}, gated" if card.gated else size
