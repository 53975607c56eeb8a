"""Features in npz, npy and .pth files; what would run code is refused.

Of .pth files only plain tensors are loaded (PyTorch's restricted unpickler), in the folders of the
released code: FEATURES/<film>/<video>.pth.
"""

import io
import math
import pickle
import warnings
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.console import count
from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.files import require_file
from obygaze_features.core.lazy import need
from obygaze_features.core.schema_rules import near
from obygaze_features.store.format.limits import check_memory
from obygaze_features.store.interchange.source import (
    DAMAGE,
    ID_KEY,
    ID_KEYS,
    NPY_NAMES,
    PROVENANCE,
    Array,
    BadRow,
    FeatureSource,
    by_clip,
    clip_source,
    column_source,
    has_several,
    name_of,
    origin_of,
    plain_files,
    visible_paths,
)

SUFFIXES = (".npy",)
PTH_SUFFIXES = (".pth", ".pt")
PTH_PURPOSE = "reading .pth files"


def open_npz(
    path: Path, arrays: Mapping[str, str], *, id_key: str | None = None
) -> FeatureSource:
    """Open the arrays of an npz file; without `arrays`, each array that has a row for each id."""
    with _opened(path) as packed:
        names = [name for name in packed.files if name != PROVENANCE]
        if id_key is None:
            id_key = next((key for key in ID_KEYS if key in names), ID_KEY)
        return column_source(
            path,
            names,
            partial(_member, path, packed),
            arrays,
            origin=origin_of("npz", path),
            id_key=id_key,
            keep_names=PROVENANCE in packed.files,
        )


def read_arrays(path: Path) -> dict[str, Array]:
    """Read every array of an npz file by its name, as safely as `open_npz` reads them."""
    with _opened(path) as packed:
        return {
            name: _member(path, packed, name)
            for name in packed.files
            if name != PROVENANCE
        }


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    require_file(path)
    if not zipfile.is_zipfile(path):
        hint = "copy or download it again, or make it with numpy.savez"
        raise Corrupt("not a complete npz file", where=str(path), hint=hint)
    try:
        with np.load(path, allow_pickle=False) as packed:
            yield packed
    except DAMAGE as error:
        raise Corrupt(f"not a complete npz file: {error}", where=str(path)) from error


def _member(path: Path, packed: Any, key: str) -> Array:
    """Return an array of an npz file; its size is checked before it is read."""
    where = str(path)
    names = [name for name in packed.files if name != PROVENANCE]
    if key not in names:
        raise FixInput(
            f"no array {key!r}{near(key, names)}; the file has {', '.join(names) or 'nothing'}",
            where=where,
            hint="--array NAME=KEY for features, --id-key KEY for ids, KEY being one of these",
        )
    member = key if key in packed.zip.namelist() else f"{key}.npy"
    formats = np.lib.format
    try:
        with packed.zip.open(member) as stream:
            old = formats.read_magic(stream) == (1, 0)
            read = (
                formats.read_array_header_1_0 if old else formats.read_array_header_2_0
            )
            shape, _, dtype = read(stream)
    except DAMAGE as error:
        raise Corrupt(f"{member!r} is not an array: {error}", where=where) from error
    n_bytes = math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and n_bytes > packed.zip.getinfo(member).file_size:
        raise Corrupt(f"{member!r} is shorter than its shape {shape}", where=where)
    check_memory(n_bytes, member, where)
    try:
        return np.asarray(packed[key])
    except ValueError as error:
        _refuse_objects(error, repr(key), path)
        raise Corrupt(f"{key!r} cannot be read: {error}", where=where) from error


def _refuse_objects(error: Exception, array_name: str, path: Path) -> None:
    if "allow_pickle" in str(error) or "Python objects" in str(error):
        raise FixInput(
            f"{array_name} has Python objects, which are never unpickled",
            where=str(path),
            hint="np.array(values, dtype=...) when the file is made",
        ) from error


def open_npy(root: Path, arrays: Mapping[str, str]) -> FeatureSource:
    """Open a folder with a file for each clip; `arrays` name the sub-folders of their files."""
    if root.is_file():
        raise FixInput(
            "expected a folder with one .npy file a clip, got a file",
            where=str(root),
            hint="if its rows are clips, make an npz in Python: np.savez('x.npz', clip_id=ids, "
            "clip=np.load('x.npy'))",
        )
    folders = dict(arrays) or _folders_of_arrays(root)
    files = {}
    for array, name in folders.items():
        folder = root / name
        if not folder.resolve().is_relative_to(root.resolve()) or not folder.is_dir():
            raise FixInput(f"no folder for the array {array!r}", where=str(folder))
        files[array] = by_clip(plain_files(folder, SUFFIXES))
    every: list[Path] = []
    for files_of_clips in files.values():
        every += files_of_clips.values()
    recorded = {array: folder or "." for array, folder in folders.items()}
    tops = {root, *(root / folder for folder in folders.values())}
    films = _films_of_folders(files, tops, root)
    origin = origin_of("npy", root, every)
    return clip_source(origin, files, _mapped, recorded, film_of_clip=films)


def _folders_of_arrays(root: Path) -> dict[str, str]:
    """Return the folder of each array: those that `export` wrote, else one array in all of it."""
    if (root / NPY_NAMES).is_file():
        names = (root / NPY_NAMES).read_text(encoding="utf-8").split()
        return {name: name for name in names}
    n_dimensions = []
    for file in plain_files(root, SUFFIXES):
        with suppress(Corrupt):  # it becomes a failed row
            n_dimensions.append(_mapped(file).ndim)
    return {"frames" if has_several(n_dimensions) else "clip": ""}


def _films_of_folders(
    files: Mapping[str, Mapping[str, Path]], tops: Collection[Path], root: Path
) -> dict[str, str]:
    """Return the film of each clip that has its files in a folder of that name, not in `tops`."""
    films: dict[str, str] = {}
    for of_array in files.values():
        for clip, file in of_array.items():
            if file.parent in tops:
                continue
            film = films.setdefault(clip, file.parent.name)
            if film != file.parent.name:
                raise FixInput(
                    f"{clip!r} is in the folders {film!r} and {file.parent.name!r}",
                    where=str(root),
                    hint="files of one clip belong to one film, in each array",
                )
    return films


def _mapped(path: Path) -> Array:
    """Return an array that stays in its file; a file shorter than its array is refused."""
    try:
        # `np.load` would take other files for a zip or a pickle.
        array: Array = np.lib.format.open_memmap(path, mode="r")
    except DAMAGE as error:
        _refuse_objects(error, "this file", path)
        raise Corrupt(f"not a complete npy file: {error}", where=str(path)) from error
    return array


def open_pth(path: Path, arrays: Mapping[str, str]) -> FeatureSource:
    """Open a folder with one tensor file a clip.

    `arrays` name keys, where the files hold dictionaries of tensors.
    """
    need("torch", "mlp", PTH_PURPOSE)
    if path.is_file():
        raise FixInput(
            "expected a folder with one .pth file a clip, got a file",
            where=str(path),
            hint="of a dictionary {id: tensor} make an npz in Python: np.savez('x.npz', "
            "clip_id=list(d), clip=np.stack([t.numpy() for t in d.values()]))",
        )
    files = plain_files(path, PTH_SUFFIXES)
    clips = by_clip(files, _ids_of_files(files))
    keys = {}
    for name, key in (arrays or {"": ""}).items():
        keys[name] = {clip: (file, key) for clip, file in clips.items()}
    films = {
        clip: file.parent.name for clip, file in clips.items() if file.parent != path
    }
    origin = origin_of("pth", path, files)
    source = clip_source(origin, keys, _tensor, arrays, film_of_clip=films)
    n_others = sum(other.is_file() for other in visible_paths(path)) - len(files)
    if n_others > 0:
        verb = "was" if n_others == 1 else "were"
        source.warnings.append(f"{count(n_others, 'file')} {verb} left out: not .pth")
    if not arrays:
        source.arrays = {_array_of(source): source.arrays[""]}
    return source


def _ids_of_files(files: Sequence[Path]) -> list[str]:
    """Return the clip of each file: its name, with that of its film where two have one name."""
    ids = [file.stem for file in files]
    if len(set(ids)) < len(ids):
        return [f"{file.parent.name}-{file.stem}" for file in files]
    return ids


def _array_of(source: FeatureSource) -> str:
    """Return `tokens` if most clips have several vectors, else `clip`."""
    n_dimensions = []
    first_problem = ""
    for index in range(len(source.clip_ids)):
        try:
            n_dimensions.append(len(source.shape("", index).sizes))
        except BadRow as error:
            first_problem = first_problem or str(error)
    if not n_dimensions:
        raise FixInput(
            f"no file has a usable tensor; the first: {first_problem}",
            where=name_of(source),
            hint="torch.save(tensor[None], file), for a tensor without the leading 1; --array "
            "NAME=KEY, for dictionaries of tensors",
        )
    return "tokens" if has_several(n_dimensions) else "clip"


def _tensor(key: tuple[Path, str]) -> Array:
    """Return the tensor of a file, of one of its keys if not "", without the leading 1."""
    file, name = key
    torch = need("torch", "mlp", PTH_PURPOSE)
    value = _loaded(torch, file)
    if name:
        if not isinstance(value, dict):
            raise BadRow(f"{file.name} is not a dictionary of tensors")
        value = value.get(name)
    if not isinstance(value, torch.Tensor):
        raise BadRow(
            f"{file.name} holds {type(value).__name__}, not {name or 'a tensor'}"
        )
    _check_tensor(torch, value, file.name)
    tensor = value.detach()
    if tensor.dtype == torch.bfloat16:  # NumPy has no such type; this is exact
        tensor = tensor.float()
    array: Array = tensor.numpy()[0]
    return array


def _loaded(torch: Any, file: Path) -> Any:
    """Return what a file holds; raise an error for one that could run code."""
    check_memory(file.stat().st_size, "one file", str(file))
    try:
        # What is wrong with a file is reported below, once.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = io.BytesIO(file.read_bytes())
            return torch.load(data, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise FixInput(
            "this file has more than plain tensors: loading it could run code",
            where=str(file),
            hint="torch.save(features.detach().cpu(), file) where it was made",
        ) from error
    except DAMAGE as error:
        raise BadRow(f"{file.name} cannot be read: {str(error)[:120]}") from error


def _check_tensor(torch: Any, value: Any, name: str) -> None:
    """Raise BadRow unless a tensor is the plain one of a clip, and all of it is in the file."""
    is_plain = value.layout == torch.strided and not value.is_quantized
    if not is_plain or value.is_complex():
        raise BadRow(f"{name} holds an unsupported kind of tensor")
    # A few bytes can be seen as a huge tensor, by strides of zero.
    if value.numel() * value.element_size() > value.untyped_storage().nbytes():
        raise BadRow(f"{name} holds less than its shape {tuple(value.shape)}")
    if value.ndim not in (2, 3) or value.shape[0] != 1:
        shape = tuple(value.shape)
        raise BadRow(f"{name} has the shape {shape}, expected [1, D] or [1, tokens, D]")
