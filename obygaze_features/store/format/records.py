"""A store's own files (store.json, markers, the seal), typed, and checked when they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from obygaze_features.core.errors import Corrupt, FixInput, Mismatch
from obygaze_features.store.format.checksummed_json import stamp, unstamp
from obygaze_features.store.format.recipe import Recipe
from obygaze_features.store.format.schema import (
    FORMAT,
    ID_ARRAYS,
    VERSION,
    ArraySpec,
    FileMark,
    RowSource,
    RowStatus,
    files_from_json,
    files_to_json,
    rows_from_json,
    rows_to_json,
    sources_from_json,
    sources_to_json,
)

# Far beyond all films there are; what is said to have more wants memory, not readers.
MOST_CLIPS = 100_000_000
STORE_FILE = "store.json"
SEAL_FILE = "seal.json"
README_FILE = "README.md"
CLIPS_FILE = "clips.csv"
PARTIAL_FILE = "partial.json"
SOURCES_FILE = "sources.json"
TEXT_KEY = "commits/text.json"


def marker_key(block: int) -> str:
    """The file name of a block's marker, relative to the store."""
    return f"commits/block-{block:05d}.json"


@dataclass(frozen=True)
class Plan:
    """store.json: what was fixed when the store was planned, and never changes."""

    n_clips: int
    block_rows: int
    recipe: Recipe
    manifest_name: str
    manifest_sha256: str
    arrays: tuple[ArraySpec, ...]
    licence: str
    citation: str
    compressor: str | None
    created: str
    created_by: str
    zarr: Mapping[str, Any]
    files: Mapping[str, FileMark]

    @property
    def n_blocks(self) -> int:
        """Into how many blocks the rows are cut."""
        return -(-self.n_clips // self.block_rows)

    def block_range(self, block: int) -> tuple[int, int]:
        """The first row of a block, and the row after its last."""
        if not 0 <= block < self.n_blocks:
            raise FixInput(f"there is no block {block}: blocks are 0 to {self.n_blocks - 1}")
        first = block * self.block_rows
        return first, min(first + self.block_rows, self.n_clips)

    def array(self, name: str) -> ArraySpec:
        """The array of that name, or an error that lists those there are."""
        for spec in self.arrays:
            if spec.name == name:
                return spec
        raise FixInput(
            f"this store has no array {name!r}",
            hint="one of " + ", ".join(spec.name for spec in self.arrays),
        )

    def block_key(self, name: str, block: int) -> str:
        """The one file that holds a block of an array, relative to the store."""
        return f"data.zarr/{name}/c.{block}" + ".0" * len(self.array(name).tail_shape)

    def to_bytes(self) -> bytes:
        """The bytes of store.json."""
        return _stamped(
            {
                "created": self.created,
                "created_by": self.created_by,
                "manifest": {"name": self.manifest_name, "sha256": self.manifest_sha256},
                "licence": self.licence,
                "citation": self.citation,
                "n_clips": self.n_clips,
                "block_rows": self.block_rows,
                "compressor": self.compressor,
                "arrays": [spec.to_dict() for spec in self.arrays],
                "fingerprint": self.recipe.fingerprint,
                "recipe": self.recipe.to_dict(),
                "files": files_to_json(self.files),
                "zarr": dict(self.zarr),
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Plan:
        """store.json as read: refused when it is of a later version, damaged or makes no sense."""
        with _read(data, where) as value:
            recipe = Recipe.from_dict(value["recipe"])
            if recipe.fingerprint != value["fingerprint"]:
                raise Mismatch("the fingerprint is not that of the recipe beside it", where=where)
            return cls(
                n_clips=_count(value["n_clips"]),
                block_rows=_count(value["block_rows"]),
                recipe=recipe,
                manifest_name=str(value["manifest"]["name"]),
                manifest_sha256=str(value["manifest"]["sha256"]),
                arrays=_arrays(value["arrays"]),
                licence=str(value["licence"]),
                citation=str(value["citation"]),
                compressor=value["compressor"],
                created=str(value["created"]),
                created_by=str(value["created_by"]),
                zarr=dict(value["zarr"]),
                files=files_from_json(value["files"]),
            )


@dataclass(frozen=True)
class Marker:
    """commits/block-XXXXX.json: that a block is whole, what is in it, and how it came about."""

    block: int
    rows: tuple[int, int]
    recipe: Recipe
    noted: Mapping[int, RowStatus]
    files: Mapping[str, FileMark]
    versions: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    host: str = ""
    revision: int = 0
    replaces: str = ""
    sources: Mapping[int, RowSource] = field(default_factory=dict)

    def as_revision(self, revision: int, replaces: str) -> Marker:
        """The same marker, as the successor of the one whose stamp is `replaces`."""
        return replace(self, revision=revision, replaces=replaces)

    def same_content(self, other: Marker) -> bool:
        """Whether two commits put the same in the block, whoever made them and how long it took."""
        return self.files == other.files and self.noted == other.noted

    def to_bytes(self) -> bytes:
        """The bytes of the marker."""
        return _stamped(
            {
                "block": self.block,
                "rows": list(self.rows),
                "revision": self.revision,
                "replaces": self.replaces,
                "noted": rows_to_json(self.noted),
                **({"sources": sources_to_json(self.sources)} if self.sources else {}),
                "files": files_to_json(self.files),
                "versions": dict(self.versions),
                "seconds": dict(self.seconds),
                "host": self.host,
                "fingerprint": self.recipe.fingerprint,
                "recipe": self.recipe.to_dict(),
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Marker:
        """A marker as read."""
        with _read(data, where) as value:
            first, after = value["rows"]
            return cls(
                block=int(value["block"]),
                rows=(int(first), int(after)),
                recipe=Recipe.from_dict(value["recipe"]),
                noted=rows_from_json(value["noted"]),
                files=files_from_json(value["files"]),
                versions=dict(value["versions"]),
                seconds=dict(value["seconds"]),
                host=str(value["host"]),
                revision=int(value["revision"]),
                replaces=str(value["replaces"]),
                sources=sources_from_json(value.get("sources", {})),
            )


@dataclass(frozen=True)
class TextMarker:
    """commits/text.json: that the texts of a store are whole, and what their files must be."""

    files: Mapping[str, FileMark]

    def to_bytes(self) -> bytes:
        """The bytes of the marker."""
        return _stamped({"files": files_to_json(self.files)})

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> TextMarker:
        """The marker as read."""
        with _read(data, where) as value:
            return cls(files_from_json(value["files"]))


@dataclass(frozen=True)
class Sources:
    """sources.json: what the rows of a sealed store were made from, as far as it was recorded.

    A file of its own: whoever reads features has no need of it.
    """

    of_rows: Mapping[int, RowSource]

    def to_bytes(self) -> bytes:
        """The bytes of sources.json."""
        return _stamped({"sources": sources_to_json(self.of_rows)})

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Sources:
        """sources.json as read."""
        with _read(data, where) as value:
            return cls(sources_from_json(value["sources"]))


@dataclass(frozen=True)
class Seal:
    """seal.json: the status of every row and the mark of every file of a complete store."""

    fingerprint: str
    counts: Mapping[str, int]
    noted: Mapping[int, RowStatus]
    files: Mapping[str, FileMark]
    versions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The bytes of seal.json."""
        return _stamped(
            {
                "fingerprint": self.fingerprint,
                "counts": dict(self.counts),
                "noted": rows_to_json(self.noted),
                "versions": {key: list(value) for key, value in self.versions.items()},
                "seconds": dict(self.seconds),
                "files": files_to_json(self.files),
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Seal:
        """seal.json as read."""
        with _read(data, where) as value:
            return cls(
                fingerprint=str(value["fingerprint"]),
                counts=dict(value["counts"]),
                noted=rows_from_json(value["noted"]),
                files=files_from_json(value["files"]),
                versions=dict(value["versions"]),
                seconds=dict(value["seconds"]),
            )


@dataclass(frozen=True)
class Partial:
    """partial.json: which blocks of which arrays a copy of a sealed store holds so far.

    A copy that has this file keeps store.json and seal.json of the whole; the rest of what the
    seal promises was never fetched, and is missing rather than lost.
    """

    blocks: Mapping[str, frozenset[int]]

    def holds(self, array: str, block: int) -> bool:
        """Whether a block of an array was fetched."""
        return block in self.blocks.get(array, ())

    def holds_file(self, name: str) -> bool:
        """Whether a file of the store, by its name, was fetched."""
        words = name.split("/")
        if len(words) != 3 or words[0] != "data.zarr" or not words[2].startswith("c."):
            return True
        return words[1] in ID_ARRAYS or self.holds(words[1], int(words[2].split(".")[1]))

    def to_bytes(self) -> bytes:
        """The bytes of partial.json."""
        arrays = {name: sorted(self.blocks[name]) for name in sorted(self.blocks)}
        return _stamped({"arrays": arrays})

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Partial:
        """partial.json as read."""
        with _read(data, where) as value:
            arrays = dict(value["arrays"])
            return cls({str(name): frozenset(map(int, arrays[name])) for name in arrays})


def check_version(value: Mapping[str, Any], where: str) -> None:
    """An error (exit 5) for a file that is not ours, or that a later version wrote."""
    if value.get("format") != FORMAT:
        raise Mismatch("not a file of an obygaze store", where=where)
    version = value.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise Mismatch(
            f"format version {version!r}; this obygaze reads up to {VERSION}",
            where=where,
            hint="pip install --upgrade obygaze",
        )


def _stamped(value: Mapping[str, Any]) -> bytes:
    return stamp({"format": FORMAT, "version": VERSION, **value})


@contextmanager
def _read(data: bytes, where: str) -> Iterator[dict[str, Any]]:
    """The value of a file of ours; what odd JSON does to code that takes it apart is one error."""
    value = unstamp(data, where, check=check_version)
    try:
        yield value
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
        raise Corrupt(
            f"it is not what format {VERSION} promises ({kind}{error})", where=where
        ) from error


def _arrays(value: Sequence[Any]) -> tuple[ArraySpec, ...]:
    arrays = tuple(ArraySpec.from_dict(item) for item in value)
    if not arrays or len({spec.name for spec in arrays}) < len(arrays):
        raise ValueError("no arrays, or two of one name")
    return arrays


def _count(value: Any) -> int:
    if not isinstance(value, int) or not 1 <= value <= MOST_CLIPS:
        raise ValueError(f"{value!r} is not a number of clips")
    return value
