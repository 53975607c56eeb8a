"""Folders of tensor files as the released code keeps them: FEATURES/<movie>/<video>.pth.

Only plain tensors are loaded (PyTorch's restricted unpickler); a file that would run code stops
the import.
"""

from __future__ import annotations

import io
import pickle
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from obygaze_features.core.errors import FixInput
from obygaze_features.core.extras import need
from obygaze_features.store.format.limits import check_memory
from obygaze_features.store.interchange.source import (
    DAMAGE,
    Array,
    BadRow,
    FeatureSource,
    by_clip,
    clip_source,
    folder_origin,
    movie_of,
    name_of,
    plain_files,
)

SUFFIXES = (".pth", ".pt")
PURPOSE = "reading .pth files"


def open_one(path: Path, levels: Mapping[str, str], *, level: str | None = None) -> FeatureSource:
    """Open a folder with one tensor file a clip, stored as `level`.

    `levels` name keys, where the files hold dictionaries of tensors.
    """
    need("torch", "mlp", PURPOSE)
    root, files = path, plain_files(path, SUFFIXES)
    ids = [file.stem for file in files]
    if len(set(ids)) < len(ids):  # two movies have videos of one name
        ids = [f"{file.parent.name}-{file.stem}" for file in files]
    clips = by_clip(files, ids)
    keys = {
        name: {clip: (file, key) for clip, file in clips.items()}
        for name, key in (levels or {level or "": ""}).items()
    }
    movies = [movie_of(file.stem) if file.parent == root else file.parent.name for file in files]
    origin = folder_origin("pth", root, files)
    if levels:
        origin["levels"] = dict(levels)
    source = clip_source(origin, keys, _tensor, movie_ids=movies)
    n_others = sum(one.is_file() for one in root.rglob("*")) - len(files)
    if n_others > 0:
        source.warnings.append(f"{n_others} files were left out: not .pth")
    if not levels and level is None:
        source.arrays = {_level_of(source): source.arrays[""]}
    return source


def _level_of(source: FeatureSource) -> str:
    """Return `tokens` if most clips have several vectors, else `clip`."""
    several = []
    for index in range(len(source.clip_ids)):
        with suppress(BadRow):
            several.append(len(source.shape("", index).sizes) > 1)
    if not several:
        raise FixInput("no file has a usable tensor", where=name_of(source))
    return "tokens" if 2 * sum(several) > len(several) else "clip"


def _tensor(key: tuple[Path, str]) -> Array:
    """Return the tensor of a file, of one of its keys if not "", without the leading 1."""
    (file, name), torch = key, need("torch", "mlp", PURPOSE)
    check_memory(file.stat().st_size, "one file", str(file))
    try:
        with warnings.catch_warnings():  # what is wrong with a file is reported below, once
            warnings.simplefilter("ignore")
            data = io.BytesIO(file.read_bytes())
            value = torch.load(data, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise FixInput(
            "this file has more than plain tensors: loading it could run code",
            where=str(file),
            hint="torch.save(features.detach().cpu(), file) where it was made",
        ) from error
    except DAMAGE as error:
        raise BadRow(f"{file.name} cannot be read: {str(error)[:120]}") from error
    if name and not isinstance(value, dict):
        raise BadRow(f"{file.name} is not a dictionary of tensors")
    value = value.get(name) if name else value
    if not isinstance(value, torch.Tensor):
        raise BadRow(f"{file.name} holds {type(value).__name__}, not {name or 'a tensor'}")
    if value.layout != torch.strided or value.is_quantized or value.is_complex():
        raise BadRow(f"{file.name} holds an unsupported kind of tensor")
    # A few bytes can be seen as a huge tensor, by strides of zero.
    if value.numel() * value.element_size() > value.untyped_storage().nbytes():
        raise BadRow(f"{file.name} holds less than its shape {tuple(value.shape)}")
    if value.ndim not in (2, 3) or value.shape[0] != 1:
        shape = tuple(value.shape)
        raise BadRow(f"{file.name} has the shape {shape}, expected [1, D] or [1, tokens, D]")
    tensor = value.detach()
    if tensor.dtype == torch.bfloat16:  # NumPy has no such type; this is exact
        tensor = tensor.float()
    array: Array = tensor.numpy()[0]
    return array
