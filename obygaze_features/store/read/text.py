"""The words that go with a store: text embeddings of the same space, with their prompts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.codecs import Crc32cCodec
from zarr.storage import MemoryStore

from obygaze_features.core.errors import AlreadyThere, Corrupt, FixInput, Mismatch
from obygaze_features.core.files import sha256_bytes, sync_dir, write_exclusive
from obygaze_features.store.format.records import TEXT_KEY, TextMarker
from obygaze_features.store.format.schema import FileMark
from obygaze_features.store.remote.files import read_or_none
from obygaze_features.store.write import commit

if TYPE_CHECKING:
    from obygaze_features.store.read.reader import Store
    from obygaze_features.store.write.writer import StoreWriter

WORDS = ("prompt", "template", "attribute")
_FOLDER = "data.zarr/text"


@dataclass(frozen=True)
class TextTable:
    """Texts and their embeddings, one row each, as the model gave them: not normalised.

    `space_id` names the space that the embeddings share with an array of the store.
    """

    embeddings: npt.NDArray[np.float32]
    prompt: Sequence[str]
    template: Sequence[str]
    attribute: Sequence[str]
    space_id: str

    def __post_init__(self) -> None:
        values = np.ascontiguousarray(self.embeddings, dtype=np.float32)
        object.__setattr__(self, "embeddings", values)
        lengths = {len(values), *(len(getattr(self, name)) for name in WORDS)}
        if values.ndim != 2 or not values.size or len(lengths) != 1:
            raise FixInput("a text table is one embedding, prompt, template, attribute a row")
        if not np.isfinite(values).all():
            raise FixInput("a text embedding is not finite")


def add_text(writer: StoreWriter, table: TextTable) -> bool:
    """Put a text table into a store that is not sealed; False where the same was there already."""
    data = _encoded(table)
    marker = TextMarker({name: FileMark(len(d), sha256_bytes(d)) for name, d in data.items()})
    there = _there(writer)
    if there is None:
        if writer.sealed:
            raise AlreadyThere("this store is sealed, without texts", where=str(writer.path))
        _place(writer.path, data)
        write_exclusive(writer.path / TEXT_KEY, marker.to_bytes())
        there = _there(writer)
        if there == marker:
            return True
    if there != marker:
        raise Mismatch("other texts were added to this store before", where=str(writer.path))
    return False


def read_text(store: Store) -> TextTable | None:
    """The text table of a store, or None where it has none."""
    if not store.commits.text_files():
        return None
    words = {name: store.arrays.strings(f"text/{name}") for name in WORDS}
    embeddings = store.arrays.whole("text/embeddings")
    data = read_or_none(store.files, f"{_FOLDER}/zarr.json")
    mark = store.commits.text_files().get(f"{_FOLDER}/zarr.json")
    if data is None or mark is None or sha256_bytes(data) != mark.sha256:
        raise Corrupt(f"{_FOLDER}/zarr.json is missing or damaged", where=store.location)
    space_id = str(json.loads(data)["attributes"]["space_id"])
    return TextTable(embeddings=embeddings, space_id=space_id, **words)


def _encoded(table: TextTable) -> dict[str, bytes]:
    memory: dict[str, Any] = {}
    group = zarr.create_group(
        MemoryStore(memory), zarr_format=3, attributes={"space_id": table.space_id}
    )
    shared: dict[str, Any] = {
        "compressors": [Crc32cCodec()],
        "chunk_key_encoding": {"name": "default", "separator": "."},
    }
    shape = table.embeddings.shape
    embeddings = group.create_array(
        "embeddings",
        shape=shape,
        chunks=shape,
        dtype="float32",
        fill_value=np.nan,
        dimension_names=["text", f"d{shape[1]}"],
        **shared,
    )
    embeddings[:] = table.embeddings
    for name in WORDS:
        words = group.create_array(
            name,
            shape=shape[:1],
            chunks=shape[:1],
            dtype="string",
            fill_value="",
            dimension_names=["text"],
            **shared,
        ).with_config({"write_empty_chunks": True})
        words[:] = np.array([str(word) for word in getattr(table, name)], dtype=object)
    return {f"{_FOLDER}/{key}": memory[key].to_bytes() for key in sorted(memory)}


def _there(writer: StoreWriter) -> TextMarker | None:
    path = writer.path / TEXT_KEY
    if path.exists():
        return TextMarker.from_bytes(path.read_bytes(), str(path))
    if not writer.sealed:
        return None
    files = {name: mark for name, mark in writer.seal().files.items() if name.startswith(_FOLDER)}
    return TextMarker(files) if files else None


def _place(root: Path, data: dict[str, bytes]) -> None:
    """Move the whole folder to its place, where nobody has; what is there is compared later."""
    draft = commit.attempt_folder(root, "text")
    try:
        draft.mkdir()
        for name, content in data.items():
            file = draft / name.removeprefix(f"{_FOLDER}/")
            file.parent.mkdir(exist_ok=True)
            commit.write_synced(file, content)
        for folder in (*(one for one in draft.iterdir() if one.is_dir()), draft):
            sync_dir(folder)
        if not commit.rename_new(draft, root / _FOLDER) and not _same(root, data):
            raise Mismatch("other texts were added to this store before", where=str(root))
        sync_dir(root / "data.zarr")
    except FileNotFoundError as error:
        raise AlreadyThere("this store is being sealed", where=str(root)) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _same(root: Path, data: dict[str, bytes]) -> bool:
    return all(
        (root / name).is_file() and (root / name).read_bytes() == content
        for name, content in data.items()
    )
