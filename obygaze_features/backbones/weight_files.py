"""The files of a checkpoint: weights, configuration, tokenizer and processors, and their hashes."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import Corrupt, NotFound
from obygaze_features.core.files import canonical_json, sha256_bytes
from obygaze_features.core.schema_check import read_json

# File names of tokenizers; a text tower has at least one of them.
TOKENIZERS = (
    "tokenizer.json",
    "vocab.json",
    "tokenizer.model",
    "spiece.model",
    "vocab.txt",
)
CONFIG = "config.json"
# Since version 5, transformers writes the last file only, with one processor in each part.
PROCESSORS = (
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "processor_config.json",
)
_PARTS_OF_PROCESSORS = ("image_processor", "video_processor", "feature_extractor")
_TOKENIZER_CONFIG = "tokenizer_config.json"
TOKENIZER_FILES = (
    *TOKENIZERS,
    # For specific versions of the library.
    "tokenizer.*.json",
    _TOKENIZER_CONFIG,
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
)
# Keys of configurations that change no number: names, and the number type, because the recipe
# contains the type of the computation.
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
"""The sha256 of each file of weights by name, of the tensors, which is equal in every file format,
and of the configuration and the tokenizer, if a model has them."""


@dataclass(frozen=True)
class WeightFiles:
    """The files of a checkpoint, and the folder of its configuration.

    `is_from_hub` is true if the files are in the hub cache of the card's checkpoint, and if the
    cache names the files by their hashes. These hashes are compared when the files are read.
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
        """Return a JSON file in the folder of the weights, or None."""
        path = self.folder / name
        if not path.is_file():
            return None
        return read_json(_read_bytes(path), str(path)).tree

    @property
    def configuration(self) -> dict[str, Any]:
        """The configuration in the folder of the weights."""
        tree = self.json_file(CONFIG)
        if tree is None:
            raise NotFound(f"no {CONFIG} next to the weights", where=str(self.folder))
        return tree

    @property
    def configuration_sha256(self) -> str:
        """The hash of the configuration, without the keys that change no feature."""
        return sha256_bytes(canonical_json(remove_names(self.configuration)))

    @property
    def tokenizer_sha256(self) -> str:
        """The hash of all files of the tokenizer, without the keys that change no feature."""
        hashes = {}
        for path in self.tokenizer_files:
            data = _read_bytes(path)
            if path.name == _TOKENIZER_CONFIG:
                # In other files, keys are tokens.
                tree = read_json(data, str(path)).tree
                data = canonical_json(remove_names(tree))
            hashes[path.name] = sha256_bytes(data)
        return sha256_bytes(canonical_json(hashes))

    @property
    def tokenizer_files(self) -> list[Path]:
        """The files of the tokenizer."""
        return [
            path for pattern in TOKENIZER_FILES for path in self.folder.glob(pattern)
        ]

    @property
    def have_hashes(self) -> bool:
        """Whether the hub cache names the files that change features by their hashes.

        A copy of the cache without links has plain files, which may have been changed.
        """
        paths = [*self.files, self.folder / CONFIG, *self.tokenizer_files]
        return all(is_blob(path) or is_small_blob(path) for path in paths)

    @property
    def processors(self) -> list[tuple[Path, dict[str, Any]]]:
        """The settings of the processors of the checkpoint, each with its file."""
        processors: list[tuple[Path, dict[str, Any]]] = []
        if not self.files:
            return processors
        for name in PROCESSORS:
            tree = self.json_file(name)
            if tree is None:
                continue
            parts = [tree[part] for part in _PARTS_OF_PROCESSORS if part in tree]
            for settings in parts or [tree]:
                if isinstance(settings, dict):
                    processors.append((self.folder / name, settings))
        return processors


NO_WEIGHTS = WeightFiles(Path(), (), "no weights needed")


def is_blob(path: Path) -> bool:
    """Return whether the hub cache names a file by its sha256."""
    return _SHA256.fullmatch(path.resolve().name) is not None


def is_small_blob(path: Path) -> bool:
    """Return whether the hub cache names a file by its git hash."""
    return _GIT_SHA1.fullmatch(path.resolve().name) is not None


def remove_names(value: Any) -> Any:
    """Return a value of a JSON file without the keys that change no feature."""
    if isinstance(value, dict):
        return {
            key: remove_names(inner)
            for key, inner in value.items()
            if key not in _NAMES
        }
    if isinstance(value, list):
        return [remove_names(item) for item in value]
    return value


def _read_bytes(path: Path) -> bytes:
    """Return the bytes of a file.

    Raise an error if the hub cache names the file by a hash that is not the hash of its bytes.
    """
    data = path.read_bytes()
    of_git = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False)
    hashes = (sha256_bytes(data), of_git.hexdigest())
    is_named_by_hash = is_blob(path) or is_small_blob(path)
    if is_named_by_hash and path.resolve().name not in hashes:
        raise Corrupt(
            f"checksum mismatch with the hub: {path.name} was changed",
            where=str(path),
            hint="remove the file from the cache, then run obygaze backbones fetch NAME",
        )
    return data
