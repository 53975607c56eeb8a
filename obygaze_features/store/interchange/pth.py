"""The layout the released code reads: FEATURES/<movie>/<video>.pth, one tensor a clip.

A tensor is [1, D], one vector, or [1, tokens, D]. Files are loaded as data only: a pickle that
would run code stops the import.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.errors import FixInput
from obygaze_features.core.extras import need
from obygaze_features.store.format.limits import check_memory
from obygaze_features.store.interchange.source import (
    DAMAGE,
    Array,
    BadRow,
    Shape,
    Source,
    one_folder,
    opened,
    plain_files,
)

PURPOSE = "reading and writing .pth files"
SUFFIXES = (".pth", ".pt")
CLIP, TOKENS = "clip", "tokens"


def open_pth(
    paths: Sequence[Path], levels: Mapping[str, str] | None = None, *, level: str | None = None
) -> Source:
    """Folders of tensor files, as one source."""
    return opened(paths, lambda path: PthFolder(path, levels, level=level))


class PthFolder:
    """One tensor file a clip, stored as `level`.

    `levels` name keys, where the files hold dictionaries of tensors.
    """

    movie_ids: Sequence[str] | None

    def __init__(
        self,
        path: Path,
        levels: Mapping[str, str] | None = None,
        *,
        level: str | None = None,
    ) -> None:
        self.torch = need("torch", "mlp", PURPOSE)
        self.root = one_folder(path)
        self.warnings: list[str] = []
        self.files = self._files()
        self.clip_ids: Sequence[str] = self._ids()
        self.movie_ids = [self._movie(file) for file in self.files]
        self.keys = dict(levels or {})
        self._shapes, digest = self._scan()
        self.levels: Sequence[str] = list(self.keys) or [level or self._only_level()]
        self.origin: Mapping[str, Any] = {
            "format": "pth",
            "folder": self.root.name,
            "files": len(self.files),
            "sha256": digest,
            **({"levels": self.keys} if self.keys else {}),
        }

    def _files(self) -> list[Path]:
        every = [path for path in self.root.rglob("*") if path.is_file()]
        files = plain_files(self.root, SUFFIXES)
        if not files:
            raise FixInput("no .pth file in this folder", where=str(self.root))
        if len(every) > len(files):
            self.warnings.append(f"{len(every) - len(files)} files that are no .pth were left out")
        return files

    def _ids(self) -> list[str]:
        """The names of the files, with the movie before them where two movies share one."""
        ids = [file.stem for file in self.files]
        if len(set(ids)) < len(ids):
            ids = [f"{file.parent.name}-{file.stem}" for file in self.files]
        seen: dict[str, Path] = {}
        for clip, file in zip(ids, self.files, strict=True):
            if seen.setdefault(clip, file) != file:
                raise FixInput(
                    f"two files are of the clip {clip!r}", where=f"{seen[clip]} and {file}"
                )
        return ids

    def _movie(self, file: Path) -> str:
        from obygaze_features.store.interchange.importing import movie_of

        return movie_of(file.stem) if file.parent == self.root else file.parent.name

    def _scan(self) -> tuple[list[dict[str, Shape] | BadRow], str]:
        """Every file once: its shapes, and one digest over names and contents."""
        digest, found = hashlib.sha256(), list[dict[str, Shape] | BadRow]()
        for file in self.files:
            check_memory(file.stat().st_size, "one file", str(file))
            data = file.read_bytes()
            name = file.relative_to(self.root).as_posix()
            digest.update(f"{name}\0{hashlib.sha256(data).hexdigest()}\n".encode())
            try:
                tensors = self._load(file, data)
                found.append({key: self._shape(tensor, file) for key, tensor in tensors.items()})
            except BadRow as error:
                found.append(error)
        return found, digest.hexdigest()

    def _only_level(self) -> str:
        usable = [shapes[""] for shapes in self._shapes if isinstance(shapes, dict)]
        if not usable:
            raise FixInput("no file holds a usable tensor", where=str(self.root))
        several = sum(len(shape.sizes) > 1 for shape in usable)
        return TOKENS if 2 * several > len(usable) else CLIP

    def _load(self, file: Path, data: bytes) -> dict[str, Any]:
        """The tensors of a file by key; "" where it is one tensor."""
        try:
            with warnings.catch_warnings():  # what is odd about a file is told below, once
                warnings.simplefilter("ignore")
                value = self.torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            raise FixInput(
                "this file is not plain tensors: loading it could run code",
                where=str(file),
                hint="torch.save(features.detach().cpu(), file) where it was made",
            ) from error
        except DAMAGE as error:
            raise BadRow(f"{file.name} cannot be read: {str(error)[:120]}") from error
        if not self.keys:
            return {"": self._tensor(value, file, "a tensor")}
        if not isinstance(value, dict):
            raise BadRow(f"{file.name} is no dictionary of tensors")
        return {key: self._tensor(value.get(key), file, key) for key in self.keys.values()}

    def _tensor(self, value: Any, file: Path, what: str) -> Any:
        if not isinstance(value, self.torch.Tensor):
            raise BadRow(f"{file.name} holds {type(value).__name__}, not {what}")
        if value.layout != self.torch.strided or value.is_quantized or value.is_complex():
            raise BadRow(f"{file.name} holds an odd kind of tensor")
        # A few bytes can be seen as a huge tensor, by strides of zero.
        if value.numel() * value.element_size() > value.untyped_storage().nbytes():
            raise BadRow(f"{file.name} holds less than its shape {tuple(value.shape)}")
        return value

    def _shape(self, tensor: Any, file: Path) -> Shape:
        sizes = tuple(tensor.shape)
        if len(sizes) not in (2, 3) or sizes[0] != 1:
            raise BadRow(f"{file.name} has the shape {sizes}; [1, D] or [1, tokens, D] is wanted")
        dtype = str(tensor.dtype).removeprefix("torch.")
        return Shape(sizes[1:], "float32" if dtype == "bfloat16" else dtype)

    def shape(self, level: str, index: int) -> Shape:
        """The shape without the leading 1."""
        shapes = self._shapes[index]
        if isinstance(shapes, BadRow):
            raise shapes
        return shapes[self.keys.get(level, "")]

    def row(self, level: str, index: int) -> Array:
        """One clip's tensor as an array."""
        self.shape(level, index)  # what was found bad is not looked at again
        file = self.files[index]
        tensor = self._load(file, file.read_bytes())[self.keys.get(level, "")].detach()
        if tensor.dtype == self.torch.bfloat16:  # NumPy has no such type; this is exact
            tensor = tensor.float()
        return np.asarray(tensor.numpy()[0])

    def close(self) -> None:
        """No file stays open."""
