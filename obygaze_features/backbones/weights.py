"""Read files of weights, only tensors and never code, and compare them with their card."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from obygaze_features.backbones.base import Card
from obygaze_features.backbones.geometry import Geometry
from obygaze_features.backbones.hub import FETCH_AGAIN, repository_folder
from obygaze_features.backbones.weight_files import WeightFiles
from obygaze_features.core.console import count
from obygaze_features.core.errors import Corrupt, FixInput, first_line
from obygaze_features.core.files import sha256_file
from obygaze_features.core.lazy import need
from obygaze_features.store.files import check_memory

if TYPE_CHECKING:
    from torch import Tensor

ANOTHER_CHECKPOINT = f"{FETCH_AGAIN}, or another card: obygaze backbones ls"
TENSORS = "tensors"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SHOWN = 5

Hashes = Mapping[str, str]
"""The sha256 of each file by its name, and of the tensors, which is the same in every form."""


class WrongWeights(FixInput):
    """Raised for weights of another model than the card's."""

    def __init__(
        self, card: Card, files: WeightFiles, how: str, details: list[str]
    ) -> None:
        super().__init__(
            f"these weights do not have the {how} of the card {card.name}",
            where=files.origin,
            hint=f'another card, or one of your own for these weights: like = "{card.name}"',
            details=details,
        )


def read_weights(card: Card, files: WeightFiles) -> tuple[dict[str, Tensor], Hashes]:
    """Return the tensors of a checkpoint and its hashes, which must be the card's and the hub's."""
    tensors = read_tensors(files.files)
    hashes = {path.name: sha256_file(path) for path in sorted(files.files)}
    # The hub's cache names each large file by its sha256.
    damaged = [
        p.name for p in files.files if is_blob(p) and p.resolve().name != hashes[p.name]
    ]
    if damaged:
        problem = f"the checksum of {', '.join(damaged)} is not the hub's: the file is damaged"
        raise Corrupt(problem, where=files.origin, hint=FETCH_AGAIN)
    hashes[TENSORS] = tensors_sha256(tensors)
    if card.weights_sha256 and not _is_listed(card, hashes):
        details = [
            f"expected {' or '.join(card.weights_sha256)}, got {hashes[TENSORS]}"
        ]
        raise WrongWeights(card, files, "sha256", details)
    return tensors, hashes


def is_blob(path: Path) -> bool:
    """Return whether a file is one that the hub's cache names by its sha256."""
    return _SHA256.fullmatch(path.resolve().name) is not None


def is_verified(card: Card, files: WeightFiles, hashes: Hashes) -> bool:
    """Return whether weights are known to be the card's checkpoint, or the card names none.

    Known are files in the hub's cache of that checkpoint, copies of them (the cache names its
    files by their sha256), and files or tensors whose sha256 the card lists.
    """
    if not card.checkpoint or files.is_from_hub or _is_listed(card, hashes):
        return True
    repository = repository_folder(card.checkpoint)

    def is_in_cache(path: Path) -> bool:
        blob = path.resolve()
        sha256 = hashes[path.name]
        is_named = blob.name == sha256 and blob.parent.parent.name == repository.name
        return is_named or (repository / "blobs" / sha256).is_file()

    return all(map(is_in_cache, files.files))


def _is_listed(card: Card, hashes: Hashes) -> bool:
    listed = set(card.weights_sha256)
    of_files = {**hashes}
    return of_files.pop(TENSORS) in listed or (
        bool(listed) and set(of_files.values()) <= listed
    )


def check_sizes(card: Card, geometry: Geometry, files: WeightFiles) -> None:
    """Raise an error for weights whose sizes or depth are not those of the card."""
    expected = _sizes(card.geometry, card.depth)
    got = _sizes(geometry, vars(geometry.depth) if geometry.depth else {})
    details = [
        f"{key}: expected {expected[key]}, got {got.get(key)}"
        for key in expected
        if expected[key] != got.get(key)
    ]
    if details:
        raise WrongWeights(card, files, "sizes", details)


def _sizes(geometry: Geometry, depth: Mapping[str, int]) -> dict[str, Any]:
    """Return the sizes, the patch and tubelet that follow from them, and the known depth."""
    steps, side, _ = geometry.grid
    patch = {"patch": geometry.size // side} if side else {}
    tubelet = {"tubelet": geometry.frames // steps} if steps else {}
    known = {key: depth[key] for key in ("layers", "hidden", "heads") if key in depth}
    return {**geometry.declared(), **patch, **tubelet, **known}


def tensors_sha256(tensors: Mapping[str, Tensor]) -> str:
    """Return one hash over names, types, shapes and bytes, in the order of the names."""
    import torch

    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        kind = str(tensor.dtype).removeprefix("torch.")
        digest.update(f"{name}\0{kind}\0{list(tensor.shape)}\0".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_tensors(files: Sequence[Path]) -> dict[str, Tensor]:
    """Return all tensors of a checkpoint's files."""
    torch = need("torch", "extract", "reading weights")
    safetensors = need("safetensors.torch", "extract", "reading weights")
    tensors: dict[str, Tensor] = {}
    for path in files:
        check_memory(
            path.stat().st_size, "weights", str(path), "a machine with more memory"
        )
        try:
            if path.suffix == ".safetensors":
                tree = safetensors.load_file(path)
            else:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    tree = torch.load(path, map_location="cpu", weights_only=True)
        except MemoryError:
            raise
        except Exception as error:
            # The readers raise many types of exception for a truncated file.
            raise Corrupt(
                "this file cannot be read as weights (truncated, damaged, or not tensors):"
                f" {first_line(error).split('. ')[0][:120]}",
                where=str(path),
                hint="compare its size and sha256 with those of its source, and fetch it again",
            ) from error
        items = tree.items() if isinstance(tree, dict) else ()
        named = {key: value for key, value in items if isinstance(value, torch.Tensor)}
        if not named or not all(isinstance(key, str) for key in named):
            hint = "use the file of the model, not of its optimiser"
            raise FixInput(
                "this file holds no named tensors", where=str(path), hint=hint
            )
        tensors |= named
    return tensors


def check_tensors(
    missing: Collection[str],
    unused: Collection[str],
    wrong: Collection[str],
    where: str,
) -> None:
    """Raise an error for tensors that are missing, of another shape, or not used."""
    wrong_tensors = (
        (f"{count(len(missing), 'tensor')} missing", missing),
        ("tensors of the wrong shape", wrong),
        (f"{count(len(unused), 'tensor')} that this model does not use", unused),
    )
    for problem, names in wrong_tensors:
        listed = [f"  {name}" for name in sorted(map(str, names))]
        if len(listed) > _SHOWN:
            listed[_SHOWN:] = [f"  ... and {len(listed) - _SHOWN} more"]
        if listed:
            raise FixInput(
                problem, where=where, hint=ANOTHER_CHECKPOINT, details=listed
            )
