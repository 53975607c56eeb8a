"""Reading weights: tensors only, never code; whole or not at all; known by their hashes."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from obygaze_features.backbones.hub import WeightFiles
from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.extras import need
from obygaze_features.core.files import sha256_file

if TYPE_CHECKING:
    from torch import Tensor

_SHOWN = 5


@dataclass(frozen=True)
class WeightHashes:
    """What was loaded: the sha256 of each file, and of the tensors whatever file form held them."""

    files: Mapping[str, str]
    tensors: str

    def recipe(self) -> dict[str, str]:
        """The sha256 by file name, and that of the tensors."""
        return {**dict(sorted(self.files.items())), "tensors": self.tensors}


def hash_weights(files: WeightFiles, tensors: Mapping[str, Tensor]) -> WeightHashes:
    """The hashes of files that have been read as `tensors`."""
    return WeightHashes(
        {path.name: sha256_file(path) for path in files.files}, tensors_sha256(tensors)
    )


def tensors_sha256(tensors: Mapping[str, Tensor]) -> str:
    """One hash over names, types, shapes and bytes, in the order of the names."""
    import torch

    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        kind = str(tensor.dtype).removeprefix("torch.")
        digest.update(f"{name}\0{kind}\0{list(tensor.shape)}\0".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_tensors(files: Sequence[Path]) -> dict[str, Tensor]:
    """All tensors of a checkpoint's files."""
    tensors: dict[str, Tensor] = {}
    for path in files:
        safe = path.suffix == ".safetensors"
        tensors.update(_read_safetensors(path) if safe else _read_torch(path))
    return tensors


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    reader = need("safetensors.torch", "extract", "reading weights")
    from safetensors import SafetensorError

    try:
        tensors: dict[str, Tensor] = reader.load_file(path)
    except SafetensorError as error:
        raise _unreadable(path, error) from error
    return tensors


def _read_torch(path: Path) -> dict[str, Tensor]:
    torch = need("torch", "extract", "reading weights")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = torch.load(path, map_location="cpu", weights_only=True)
    except MemoryError:
        raise
    except Exception as error:
        # A file cut short ends the reader in a dozen ways, by the byte at which it was cut.
        raise _unreadable(path, error) from error
    tensors = (
        {k: v for k, v in tree.items() if isinstance(v, torch.Tensor)}
        if isinstance(tree, dict)
        else {}
    )
    if not tensors or not all(isinstance(key, str) for key in tensors):
        raise FixInput(
            "this file holds no named tensors",
            where=str(path),
            hint="the file the model was saved to, not its optimiser's",
        )
    return tensors


def _unreadable(path: Path, error: Exception) -> Corrupt:
    first = (str(error).splitlines() or [type(error).__name__])[0].split(". ")[0]
    return Corrupt(
        f"this file cannot be read as weights (cut short, damaged, or not tensors): {first[:120]}",
        where=str(path),
        hint="compare its size and sha256 with where it came from, and fetch it again",
    )


def refuse(what: str, names: Sequence[str], where: str, hint: str) -> FixInput:
    """The error for keys that are missing or not understood, with the first few of them."""
    listed = [f"  {name}" for name in names[:_SHOWN]]
    if len(names) > _SHOWN:
        listed.append(f"  ... and {len(names) - _SHOWN} more")
    return FixInput(what, where=where, hint=hint, details=listed)
