"""Whether weights are those of a card: their sizes, their depth, their checksums."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from obygaze_features.backbones.cards import Card
from obygaze_features.backbones.geometry import Geometry
from obygaze_features.backbones.hub import WeightFiles, repository_folder
from obygaze_features.backbones.weights import WeightHashes
from obygaze_features.core.errors import Corrupt, FixInput

_SHA256 = re.compile(r"[0-9a-f]{64}")


class WrongWeights(FixInput):
    """Weights are of another model than the card: name another card, or other weights."""


def check_sizes(card: Card, geometry: Geometry, files: WeightFiles) -> None:
    """Refuse weights whose sizes or depth are not what the card says."""
    expected, got = _sizes(card.geometry, card.depth), _sizes(geometry, _depth_of(geometry))
    details = [
        f"{key}: expected {expected[key]}, got {got.get(key)}"
        for key in expected
        if expected[key] != got.get(key)
    ]
    if details:
        raise WrongWeights(
            f"these weights are not what the card {card.name} says",
            where=files.origin,
            hint=f'another card, or one of your own for these weights: like = "{card.name}"',
            details=details,
        )


def check_hashes(card: Card, files: WeightFiles, hashes: WeightHashes) -> None:
    """Refuse weights whose checksums are not those the card knows, or not the hub's."""
    damaged = [
        path.name
        for path in files.files
        if is_blob(path) and path.resolve().name != hashes.files[path.name]
    ]
    if damaged:
        raise Corrupt(
            f"the checksum of {', '.join(damaged)} is not the hub's: the file is damaged",
            where=files.origin,
            hint="fetch the checkpoint again",
        )
    if card.weights_sha256 and not _is_known(card, hashes):
        raise WrongWeights(
            f"these weights have another sha256 than the card {card.name} says",
            where=files.origin,
            hint=f'another card, or one of your own for these weights: like = "{card.name}"',
            details=[f"expected {' or '.join(card.weights_sha256)}, got {hashes.tensors}"],
        )


def is_verified(card: Card, files: WeightFiles, hashes: WeightHashes) -> bool:
    """Whether weights are known to be the card's checkpoint, or the card names none.

    Known are those from the hub's cache of that checkpoint, a copy of them (the cache names its
    files by their sha256), and those whose sha256 the card knows.
    """
    if not card.checkpoint or files.is_from_hub or _is_known(card, hashes):
        return True
    return all(_in_cache_of(card, path, hashes.files[path.name]) for path in files.files)


def is_blob(path: Path) -> bool:
    """Whether a file is one that the hub's cache names by its sha256."""
    return _SHA256.fullmatch(path.resolve().name) is not None


def _is_known(card: Card, hashes: WeightHashes) -> bool:
    known = set(card.weights_sha256)
    return bool(known) and (hashes.tensors in known or set(hashes.files.values()) <= known)


def _in_cache_of(card: Card, path: Path, sha256: str) -> bool:
    blob, repository = path.resolve(), repository_folder(card.checkpoint)
    named_in_place = blob.name == sha256 and blob.parent.parent.name == repository.name
    return named_in_place or (repository / "blobs" / sha256).is_file()


def _sizes(geometry: Geometry, depth: Mapping[str, int]) -> dict[str, Any]:
    """What can be compared: the sizes, the patch they imply, and what is known of the depth."""
    steps, side, _ = geometry.grid
    patch = {"patch": geometry.size // side} if side else {}
    tubelet = {"tubelet": geometry.frames // steps} if steps else {}
    return {**geometry.declared(), **patch, **tubelet, **depth}


def _depth_of(geometry: Geometry) -> dict[str, int]:
    depth = geometry.depth
    if depth is None:
        return {}
    return {"layers": depth.layers, "hidden": depth.hidden, "heads": depth.heads}
