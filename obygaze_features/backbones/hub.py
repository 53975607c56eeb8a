"""Where weights are: a file or folder that was named, or the Hugging Face cache."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from obygaze_features.backbones.cards import Card
from obygaze_features.core.errors import Corrupt, FixInput, NotFound, ObygazeError
from obygaze_features.core.extras import need

_PREFERRED = ("model.safetensors", "pytorch_model.bin")
_TENSORS = (".bin", ".pt", ".pth")
_KNOCK_S = 5.0
_EPOCH = re.compile(r"pytorch_model\.bin(\.\d+)?$")
_SMALL_FILES = ("config.json", "preprocessor_config.json", "video_preprocessor_config.json")


@dataclass(frozen=True)
class WeightFiles:
    """The files of one checkpoint that will be read, and the folder its configuration is in.

    `is_from_hub` where they lie in the hub's cache, under the name of the card's own checkpoint.
    """

    folder: Path
    files: tuple[Path, ...]
    origin: str
    is_from_hub: bool = False

    @property
    def n_bytes(self) -> int:
        """Bytes of weights."""
        return sum(path.stat().st_size for path in self.files)

    def small_file(self, name: str) -> dict[str, Any] | None:
        """A JSON file beside the weights, where there is one."""
        path = self.folder / name
        if not path.is_file():
            return None
        try:
            tree = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise Corrupt(f"not valid JSON: {error}", where=str(path)) from None
        if not isinstance(tree, dict):
            raise Corrupt("a JSON object was expected", where=str(path))
        return tree

    @property
    def shortest_edge(self) -> int | None:
        """The shortest edge the checkpoint's own processor resizes to, where it says."""
        tree = self.small_file("preprocessor_config.json") or {}
        size = tree.get("size")
        edge = size.get("shortest_edge") if isinstance(size, dict) else size
        return edge if isinstance(edge, int) and not isinstance(edge, bool) else None


def offline() -> bool:
    """Whether the environment forbids the network."""
    words = {"1", "true", "yes", "on"}
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    return any(os.environ.get(name, "").lower() in words for name in names)


def cache_folder() -> Path:
    """The hub cache, found as its own library finds it."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(name):
            return Path(os.environ[name]).expanduser()
    home = os.environ.get("HF_HOME")
    if home:
        return Path(home).expanduser() / "hub"
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "huggingface" / "hub"


def repository_folder(checkpoint: str) -> Path:
    """The folder of a checkpoint in the hub cache, whether it is there or not."""
    return cache_folder() / ("models--" + checkpoint.replace("/", "--"))


def cached_snapshot(checkpoint: str, revision: str) -> Path | None:
    """The folder of a checkpoint in the hub cache, or nothing."""
    if not checkpoint:
        return None
    repository = repository_folder(checkpoint)
    reference = repository / "refs" / revision
    commit = reference.read_text(encoding="ascii").strip() if reference.is_file() else revision
    snapshot = repository / "snapshots" / commit
    return snapshot if snapshot.is_dir() else None


def is_cached(card: Card) -> bool:
    """Whether the weights of a card are here, judged by names alone."""
    snapshot = cached_snapshot(card.checkpoint, card.revision)
    return snapshot is not None and bool(_choose(snapshot))


def find_weights(card: Card, weights: str | Path | None = None) -> WeightFiles:
    """The weights that were named, or the card's own from the cache; never the network."""
    if weights is not None:
        return _named(card, Path(weights).expanduser())
    snapshot = cached_snapshot(card.checkpoint, card.revision)
    if snapshot is None:
        raise NotFound(f"no weights for {card.name}", where=_missing_at(card), hint=_hint(card))
    found = _in_folder(snapshot, f"{card.checkpoint}@{card.revision}")
    return replace(found, is_from_hub=True)


def fetch_weights(card: Card) -> WeightFiles:
    """The card's own weights from the cache, downloaded first where they are not and it may be."""
    if not card.checkpoint or _is_whole(card):
        return find_weights(card)
    if offline():
        raise NotFound(
            f"no weights for {card.name}, and the environment says to stay offline",
            where=_missing_at(card),
            hint=f"--weights FOLDER, or download {card.checkpoint} where there is a network",
        )
    _download(card)
    return find_weights(card)


def _is_whole(card: Card) -> bool:
    """Whether the cache holds all of it: other tools leave a configuration there alone."""
    try:
        return is_cached(card)
    except ObygazeError:
        return False


def _download(card: Card) -> None:
    purpose = f"downloading {card.checkpoint}"
    hub = need("huggingface_hub", "extract", purpose)
    _reach(card, need("huggingface_hub.constants", "extract", purpose).ENDPOINT)
    api = hub.HfApi()
    try:
        names = api.list_repo_files(card.checkpoint, revision=card.revision)
        tensors = _wanted(names)
        hub.snapshot_download(
            card.checkpoint, revision=card.revision, allow_patterns=[*_SMALL_FILES, *tensors]
        )
    except Exception as error:
        # The errors of the hub are many, and each means that there are no weights.
        told = (str(error).splitlines() or [type(error).__name__])[0]
        raise _not_fetched(card, told) from error


def _reach(card: Card, endpoint: str) -> None:
    """Knock at the hub's door first: its library knocks six times, for half a minute."""
    address = urlsplit(endpoint)
    if getproxies().keys() & {address.scheme, "all"}:
        return  # only the library knows the way through a proxy
    port = address.port or (80 if address.scheme == "http" else 443)
    try:
        socket.create_connection((address.hostname or "", port), timeout=_KNOCK_S).close()
    except OSError as error:
        raise _not_fetched(card, f"{address.netloc} cannot be reached ({error})") from error


def _not_fetched(card: Card, told: str) -> NotFound:
    return NotFound(
        f"{card.checkpoint} could not be downloaded: {told}",
        where=_missing_at(card),
        hint="--weights FOLDER, or try again where there is a network",
    )


def _wanted(names: Sequence[str]) -> list[str]:
    """One form of the weights, not all that a repository keeps."""
    for stem, suffix in (("model", "safetensors"), ("pytorch_model", "bin")):
        if f"{stem}.{suffix}" in names:
            return [f"{stem}.{suffix}"]
        if f"{stem}.{suffix}.index.json" in names:
            return [f"{stem}.{suffix}.index.json", f"{stem}-*.{suffix}"]
    raise NotFound("the repository holds no weights in a form that is read here")


def _missing_at(card: Card) -> str:
    return str(cache_folder()) if card.checkpoint else card.origin


def _hint(card: Card) -> str:
    if card.checkpoint:
        return f"--weights FOLDER, or: hf download {card.checkpoint}"
    return "--weights PATH of your copy of the checkpoint"


def _named(card: Card, path: Path) -> WeightFiles:
    if path.is_dir():
        return _in_folder(path, str(path))
    if path.is_file():
        return WeightFiles(path.parent, (path,), str(path))
    raise NotFound(f"no weights for {card.name}", where=str(path), hint="--weights FILE or FOLDER")


def _in_folder(folder: Path, origin: str) -> WeightFiles:
    files = _choose(folder)
    if not files:
        raise NotFound(
            "this folder holds no weights",
            where=str(folder),
            hint="a folder with model.safetensors or pytorch_model.bin",
        )
    return WeightFiles(folder, tuple(files), origin)


def _choose(folder: Path) -> list[Path]:
    for name in _PREFERRED:
        if (folder / name).is_file():
            return [folder / name]
        if (folder / f"{name}.index.json").is_file():
            return _shards(folder, folder / f"{name}.index.json")
    candidates = sorted(path for path in folder.iterdir() if _EPOCH.fullmatch(path.name))
    candidates = candidates or sorted(folder.glob("*.safetensors"))
    candidates = candidates or [p for p in sorted(folder.iterdir()) if p.suffix in _TENSORS]
    if len(candidates) > 1:
        names = ", ".join(path.name for path in candidates)
        raise FixInput(
            f"this folder holds several checkpoints: {names}",
            where=str(folder),
            hint=f"--weights {candidates[-1]}",
        )
    return candidates


def _shards(folder: Path, index: Path) -> list[Path]:
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError):
        raise Corrupt("not an index of weight files", where=str(index)) from None
    files = [folder / Path(str(name)).name for name in names]
    missing = [path.name for path in files if not path.is_file()]
    if missing:
        raise NotFound(
            f"{len(missing)} of {len(files)} weight files are missing: {', '.join(missing[:3])}",
            where=str(folder),
            hint="fetch the checkpoint again",
        )
    return files
