"""Read and hash files of weights: only tensors, never code."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from obygaze_features.core.console import count
from obygaze_features.core.errors import Corrupt, FixInput, ObygazeError, first_line
from obygaze_features.core.extras import need
from obygaze_features.core.files import sha256_file
from obygaze_features.core.schema_check import read_json
from obygaze_features.store.format.limits import check_memory

if TYPE_CHECKING:
    from torch import Tensor

FETCH_AGAIN = "fetch the checkpoint again"
ANOTHER_CHECKPOINT = f"{FETCH_AGAIN}, or another card: obygaze backbones ls"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SHOWN = 5


@dataclass(frozen=True)
class WeightFiles:
    """The files of one checkpoint, and the folder its configuration is in.

    `is_from_hub` where they are in the hub's cache, under the name of the card's own checkpoint.
    """

    folder: Path
    files: tuple[Path, ...]
    origin: str
    is_from_hub: bool = False

    @property
    def n_bytes(self) -> int:
        """Bytes of weights."""
        return sum(path.stat().st_size for path in self.files)

    def json_file(self, name: str) -> dict[str, Any] | None:
        """Return a JSON file beside the weights, or None where there is none."""
        path = self.folder / name
        return (
            read_json(path.read_bytes(), str(path), error=Corrupt).tree if path.is_file() else None
        )

    @property
    def shortest_edge(self) -> int | None:
        """The shortest edge the checkpoint's own processor resizes to, if its file has one."""
        tree = self.json_file("preprocessor_config.json") or {}
        size = tree.get("size")
        edge = size.get("shortest_edge") if isinstance(size, dict) else size
        return edge if isinstance(edge, int) and not isinstance(edge, bool) else None


NO_WEIGHTS = WeightFiles(Path(), (), "no weights needed")


def is_blob(path: Path) -> bool:
    """Return whether a file is one that the hub's cache names by its sha256."""
    return _SHA256.fullmatch(path.resolve().name) is not None


@dataclass(frozen=True)
class WeightHashes:
    """The sha256 of each file, and of the tensors, which does not depend on the file format."""

    files: Mapping[str, str]
    tensors: str

    def recipe(self) -> dict[str, str]:
        """Return the sha256 by file name, and that of the tensors."""
        return {**dict(sorted(self.files.items())), "tensors": self.tensors}


def hash_weights(files: WeightFiles, tensors: Mapping[str, Tensor] | None = None) -> WeightHashes:
    """Return the hashes of weight files; `tensors` are theirs, if they have been read before."""
    found = read_tensors(files.files) if tensors is None else tensors
    return WeightHashes({p.name: sha256_file(p) for p in files.files}, tensors_sha256(found))


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
    tensors: dict[str, Tensor] = {}
    for path in files:
        check_memory(path.stat().st_size, "weights", str(path), "a machine with more memory")
        try:
            if path.suffix == ".safetensors":
                safetensors = need("safetensors.torch", "extract", "reading weights")
                tensors.update(safetensors.load_file(path))
            else:
                tensors.update(_read_torch(path))
        except (MemoryError, ImportError, ObygazeError):
            raise
        except Exception as error:
            # The readers raise many types of exception for a truncated file.
            raise Corrupt(
                "this file cannot be read as weights (truncated, damaged, or not tensors):"
                f" {first_line(error).split('. ')[0][:120]}",
                where=str(path),
                hint="compare its size and sha256 with those of its source, and fetch it again",
            ) from error
    return tensors


def _read_torch(path: Path) -> dict[str, Tensor]:
    torch = need("torch", "extract", "reading weights")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = torch.load(path, map_location="cpu", weights_only=True)
    found = tree.items() if isinstance(tree, dict) else ()
    tensors = {key: value for key, value in found if isinstance(value, torch.Tensor)}
    if not tensors or not all(isinstance(key, str) for key in tensors):
        raise FixInput(
            "this file holds no named tensors",
            where=str(path),
            hint="use the file of the model, not of its optimiser",
        )
    return tensors


def check_tensors(
    missing: Collection[str], unused: Collection[str], wrong: Collection[str], where: str
) -> None:
    """Raise an error for tensors that are missing, not used, or of another shape."""
    found = (
        (f"{count(len(missing), 'tensor')} missing", missing),
        ("tensors of the wrong shape", wrong),
        (f"{count(len(unused), 'tensor')} that this model does not use", unused),
    )
    for what, names in found:
        if names:
            raise tensor_error(what, sorted(map(str, names)), where, ANOTHER_CHECKPOINT)


def tensor_error(what: str, names: Sequence[str], where: str, hint: str = FETCH_AGAIN) -> FixInput:
    """Return the error for tensors that are missing or unknown, with the first few names."""
    listed = [f"  {name}" for name in names[:_SHOWN]]
    if len(names) > _SHOWN:
        listed.append(f"  ... and {len(names) - _SHOWN} more")
    return FixInput(what, where=where, hint=hint, details=listed)
