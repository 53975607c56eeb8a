"""The files of one checkpoint: where they are, what is beside them, and their hashes."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import Corrupt, NotFound
from obygaze_features.core.files import canonical_json, sha256_bytes
from obygaze_features.core.schema_check import read_json

# A text tower has a tokenizer, in one of these.
TOKENIZERS = (
    "tokenizer.json",
    "vocab.json",
    "tokenizer.model",
    "spiece.model",
    "vocab.txt",
)
CONFIG = "config.json"
# Since version 5, transformers writes only the last one, with a processor in each of its parts.
PROCESSORS = (
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "processor_config.json",
)
_PARTS_OF_PROCESSORS = ("image_processor", "video_processor", "feature_extractor")
_TOKENIZER_CONFIG = "tokenizer_config.json"
TOKENIZER_FILES = (
    *TOKENIZERS,
    # For other versions of the library.
    "tokenizer.*.json",
    _TOKENIZER_CONFIG,
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
)
# Keys of configurations that name something, and decide no number. The type of the numbers is that
# of the computation, which a recipe has, too.
_NAMES = frozenset(
    {
        "_commit_hash",
        "_name_or_path",
        "architectures",
        "dtype",
        "name_or_path",
        "special_tokens_map_file",
        "tokenizer_file",
        "torch_dtype",
        "transformers_version",
    }
)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_GIT_SHA1 = re.compile(r"[0-9a-f]{40}")

FileHashes = Mapping[str, str]
"""The sha256 of each file of weights by its name, and of the tensors, which is the same in every
form; of the configuration and of the tokenizer, where a model has them."""


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
        if not path.is_file():
            return None
        return read_json(_bytes_of(path), str(path)).tree

    @property
    def configuration(self) -> dict[str, Any]:
        """The configuration beside the weights."""
        tree = self.json_file(CONFIG)
        if tree is None:
            raise NotFound(
                f"there is no {CONFIG} beside the weights", where=str(self.folder)
            )
        return tree

    @property
    def configuration_sha256(self) -> str:
        """The hash of the configuration, without what only names something."""
        return sha256_bytes(canonical_json(without_names(self.configuration)))

    @property
    def tokenizer_sha256(self) -> str:
        """The hash of all files of the tokenizer, without what only names something."""
        hashes = {}
        for pattern in TOKENIZER_FILES:
            for path in self.folder.glob(pattern):
                data = _bytes_of(path)
                if path.name == _TOKENIZER_CONFIG:
                    # The keys of the other files are words.
                    tree = read_json(data, str(path)).tree
                    data = canonical_json(without_names(tree))
                hashes[path.name] = sha256_bytes(data)
        return sha256_bytes(canonical_json(hashes))

    @property
    def processors(self) -> list[tuple[Path, dict[str, Any]]]:
        """The settings of the checkpoint's own processors, each with its file."""
        processors: list[tuple[Path, dict[str, Any]]] = []
        if not self.files:
            return processors
        for name in PROCESSORS:
            tree = self.json_file(name) or {}
            parts = [tree[part] for part in _PARTS_OF_PROCESSORS if part in tree]
            for settings in parts or [tree]:
                if isinstance(settings, dict):
                    processors.append((self.folder / name, settings))
        return processors


NO_WEIGHTS = WeightFiles(Path(), (), "no weights needed")


def is_blob(path: Path) -> bool:
    """Return whether a file is one that the hub's cache names by its sha256."""
    return _SHA256.fullmatch(path.resolve().name) is not None


def is_small_blob(path: Path) -> bool:
    """Return whether a file is one that the hub's cache names by the hash that git gives to it."""
    return _GIT_SHA1.fullmatch(path.resolve().name) is not None


def without_names(value: Any) -> Any:
    """Return a value of a JSON file without the keys that only name something."""
    if isinstance(value, dict):
        return {
            key: without_names(inner)
            for key, inner in value.items()
            if key not in _NAMES
        }
    if isinstance(value, list):
        return [without_names(item) for item in value]
    return value


def _bytes_of(path: Path) -> bytes:
    """Return the bytes of a file; in the hub's cache they must have the hash that is its name."""
    data = path.read_bytes()
    of_git = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False)
    hashes = (sha256_bytes(data), of_git.hexdigest())
    is_named_by_hash = is_blob(path) or is_small_blob(path)
    if is_named_by_hash and path.resolve().name not in hashes:
        raise Corrupt(
            f"the checksum of {path.name} is not the hub's: the file was changed",
            where=str(path),
            hint="remove it from the cache, then: obygaze backbones fetch NAME",
        )
    return data
