"""Find the weights of a card: in a given file or folder, or in the Hugging Face cache."""

import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from obygaze_features.backbones.base import Card
from obygaze_features.backbones.weight_files import WeightFiles
from obygaze_features.core.errors import (
    Corrupt,
    FixInput,
    NotFound,
    ObygazeError,
    first_line,
)
from obygaze_features.core.lazy import need
from obygaze_features.core.machine import cache_folder, offline
from obygaze_features.core.schema_check import read_json
from obygaze_features.core.workspace import PathLike

FETCH_AGAIN = "fetch the checkpoint again"
_PREFERRED = ("model.safetensors", "pytorch_model.bin")
_CONNECT_S = 5.0
# pytorch_model.bin.3 of an epoch.
_TENSORS = re.compile(r"\.(safetensors|bin|pt|pth)(\.\d+)?$")
SMALL_FILES = (
    "config.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
)


def repository_folder(checkpoint: str) -> Path:
    """Return the folder of a checkpoint in the hub cache, whether it exists or not."""
    return cache_folder() / ("models--" + checkpoint.replace("/", "--"))


def _cached_snapshot(card: Card) -> Path | None:
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


def is_cached(card: Card) -> bool:
    """Return whether all weights of a card are in the cache, by the names of files."""
    snapshot = _cached_snapshot(card)
    try:
        return snapshot is not None and bool(_weight_files(snapshot))
    except ObygazeError:
        return False


def find_weights(
    card: Card, weights: PathLike | None = None, *, download: bool = False
) -> WeightFiles:
    """Return the given weights, or the card's own from the cache.

    They may be given as NAME=PATH, as `extract run` takes those of several backbones. The card's
    own are downloaded first if they are not in the cache, with `download` only.
    """
    if weights is not None:
        path = _path_of_weights(card, Path(weights).expanduser())
        if path.is_file():
            return WeightFiles(path.parent, (path,), str(path))
        if not path.is_dir():
            hint = "--weights FILE or FOLDER"
            raise NotFound(f"no weights for {card.name}", where=str(path), hint=hint)
        return _in_folder(path, str(path))
    if download and card.checkpoint and not is_cached(card):
        _download(card)
    snapshot = _cached_snapshot(card)
    if snapshot is None:
        where = card.origin
        hint = "--weights PATH of your copy of the checkpoint"
        if card.checkpoint:
            where = str(cache_folder())
            hint = _fetching(card)
        raise NotFound(f"no weights for {card.name}", where=where, hint=hint)
    files = _in_folder(snapshot, f"{card.checkpoint}@{card.revision}")
    return replace(files, is_from_hub=True)


def _path_of_weights(card: Card, given: Path) -> Path:
    """Return the path of weights that are given as PATH, NAME=PATH or NAME@PRESET=PATH."""
    name, equals, path = str(given).partition("=")
    is_named = equals and name.partition("@")[0] == card.name
    if not is_named or given.exists():
        return given
    return Path(path).expanduser()


def _fetching(card: Card) -> str:
    return f"--weights FOLDER, or with a network: obygaze backbones fetch {card.name}"


def _download(card: Card) -> None:
    where = str(cache_folder())
    hint = _fetching(card)
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
        stem, _, suffix = name.removesuffix(".index.json").partition(".")
        shards = [] if name in _PREFERRED else [f"{stem}-*.{suffix}"]
        files = [*SMALL_FILES, name, *shards]
        hub.snapshot_download(card.checkpoint, **reference, allow_patterns=files)
    except Exception as error:
        # The hub's library raises many types of error, and each means that there are no weights.
        if card.gated:
            page = f"https://huggingface.co/{card.checkpoint}"
            hint = f"accept the licence on {page}, then: hf auth login"
        reason = first_line(error)
        problem = (
            f"{card.checkpoint} could not be downloaded from {api.endpoint}: {reason}"
        )
        raise NotFound(problem, where=where, hint=hint) from error


def _in_folder(folder: Path, origin: str) -> WeightFiles:
    files = _weight_files(folder)
    if not files:
        hint = "a folder with model.safetensors or pytorch_model.bin"
        raise NotFound("this folder holds no weights", where=str(folder), hint=hint)
    return WeightFiles(folder, tuple(files), origin)


def _preferred(names: Collection[str]) -> str:
    """Return the file that holds the weights or lists their files, or ''."""
    for name in _PREFERRED:
        for form in (name, f"{name}.index.json"):
            if form in names:
                return form
    return ""


def _weight_files(folder: Path) -> list[Path]:
    """Return the weights of a folder: those with a name of the hub, or the only file of tensors."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    name = _preferred([path.name for path in files])
    if name in _PREFERRED:
        return [folder / name]
    if name:
        return _shards(folder, folder / name)
    checkpoints = [path for path in files if _TENSORS.search(path.name)]
    if len(checkpoints) > 1:
        names = ", ".join(path.name for path in checkpoints)
        raise FixInput(
            f"this folder holds several checkpoints: {names}",
            where=str(folder),
            hint=f"--weights {checkpoints[-1]}",
        )
    return checkpoints


def _shards(folder: Path, index: Path) -> list[Path]:
    tree = read_json(index.read_bytes(), str(index), error=Corrupt).tree
    names = tree.get("weight_map")
    if not isinstance(names, dict):
        raise Corrupt(
            "the key weight_map is missing", where=str(index), hint=FETCH_AGAIN
        )
    shards = sorted({str(name) for name in names.values()})
    files = [folder / Path(name).name for name in shards]
    missing = [path.name for path in files if not path.is_file()]
    if missing:
        names = ", ".join(missing[:3])
        problem = f"{len(missing)} of {len(files)} weight files are missing: {names}"
        raise NotFound(problem, where=str(folder), hint=FETCH_AGAIN)
    return files
