"""Few bytes that ask for gigabytes: refused before a decoder, or the memory, sees them."""

from __future__ import annotations

import hashlib
import http.server
import json
import struct
import threading
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
from support.store_damage import restamped
from support.stores import fill_store, plan_store, sealed_store, some_values, tree

from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.store import (
    ArraySpec,
    RowSource,
    RowStatus,
    StoreWriter,
    TextTable,
    open_store,
)
from obygaze_features.store.format import records
from obygaze_features.store.format.records import (
    Partial,
    Record,
    Seal,
    Sources,
    with_checksum,
)
from obygaze_features.store.format.schema import FileMark
from obygaze_features.store.read.index import FilmIndex, IndexPage
from obygaze_features.store.read.verify import verify
from obygaze_features.store.remote.fetch import unpack

PEAK_BYTES = 100_000_000
CLIP = (ArraySpec("clip", (4,)),)
SHARDS = (ArraySpec("clip", (520, 1024)),)


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < PEAK_BYTES
    finally:
        tracemalloc.stop()


def a_store(path: Path, n_clips: int = 23, **changes: Any) -> None:
    sealed_store(path, n_clips, **{"arrays": CLIP, **changes})


def forge(path: Path, name: str, data: bytes, *, add_crc: bool = True) -> None:
    """Put bytes in place of a file, with the checksums that zarr, store.json and the seal want."""
    crc = struct.pack("<I", google_crc32c.value(data))
    data = data + crc if add_crc else data
    (path / name).write_bytes(data)
    mark = [len(data), hashlib.sha256(data).hexdigest()]
    store = json.loads((path / "store.json").read_bytes())
    if name in store["files"]:
        store["files"][name] = mark
        if name.endswith("zarr.json"):
            store["zarr"][name.removeprefix("data.zarr/")] = json.loads(data)
        restamped(path, files=store["files"], zarr=store["zarr"])
    seal = json.loads((path / "seal.json").read_bytes())
    del seal["sha256"]
    seal.pop("crc32c", None)
    seal["files"][name] = mark
    (path / "seal.json").write_bytes(with_checksum(seal))


def with_document(
    path: Path, name: str, change: Callable[[dict[str, Any]], object]
) -> None:
    file = f"data.zarr/{name}/zarr.json"
    document = json.loads((path / file).read_bytes())
    change(document)
    forge(path, file, json.dumps(document).encode(), add_crc=False)


ZSTD = (
    b"\x28\xb5\x2f\xfd" + bytes([0b11100000]) + struct.pack("<Q", 2**42) + b"\x01\0\0"
)
ZSTD_UNSIZED = b"\x28\xb5\x2f\xfd\0\x58\x03\0\0\0"
BLOSC = (
    struct.pack("<BBBBIII", 2, 1, 0x91, 4, 2**32 - 100, 2**31 - 1, 250_000)
    + b"\0" * 249_984
)


@pytest.mark.parametrize(
    ("compressor", "data"), [("zstd", ZSTD), ("zstd", ZSTD_UNSIZED), ("blosc", BLOSC)]
)
def test_a_chunk_that_decodes_to_more_than_its_rows(
    tmp_path: Path, compressor, data
) -> None:
    a_store(tmp_path / "s", compressor=compressor)
    forge(tmp_path / "s", "data.zarr/clip/c.1.0", data)
    with (
        little_memory(),
        pytest.raises(Corrupt, match="does not decode to the bytes of its rows"),
    ):
        open_store(tmp_path / "s").matrix("clip")


@pytest.mark.parametrize("one", [False, True])
def test_a_chunk_of_a_shard_that_decodes_to_more(tmp_path: Path, one: bool) -> None:
    a_store(tmp_path / "s", 4, arrays=SHARDS, compressor="zstd")
    index = struct.pack("<8Q", 0, 20, 20, 20, 40, 20, 60, 20)
    index += struct.pack("<I", google_crc32c.value(index))
    chunk = ZSTD + struct.pack("<I", google_crc32c.value(ZSTD))
    forge(tmp_path / "s", "data.zarr/clip/c.0.0.0", chunk * 4 + index, add_crc=False)
    clips = ["tt0000100-002"] if one else None
    with (
        little_memory(),
        pytest.raises(Corrupt, match="does not decode to the bytes of its rows"),
    ):
        open_store(tmp_path / "s").matrix("clip", clips=clips)


def test_real_chunks_of_every_compressor_decode_to_the_bytes_of_their_rows(
    tmp_path: Path,
) -> None:
    for compressor in (None, "zstd", "blosc"):
        for arrays, n_clips in (
            (CLIP, 23),
            ((ArraySpec("clip", (300,)),), 23),
            (SHARDS, 5),
        ):
            path = tmp_path / f"{compressor}{arrays[0].row_bytes}"
            a_store(path, n_clips, arrays=arrays, compressor=compressor)
            found = open_store(path).matrix("clip").values
            np.testing.assert_array_equal(found, some_values(n_clips, arrays)["clip"])


def codec(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda document: document.update(codecs=[{"name": name}, {"name": "crc32c"}])


@pytest.mark.parametrize(
    ("array", "change"),
    [
        ("clip", codec("vlen-bytes")),
        ("clip", codec("gzip")),
        ("clip_id", codec("vlen-bytes")),
        ("clip_id", lambda document: document.update(shape=[10**11])),
        ("clip", lambda document: document.update(shape=[10**11, 4])),
        ("clip", lambda document: document.update(codecs=[{"name": "zstd"}] * 3)),
        ("clip", lambda document: document.update(codecs="bytes")),
        ("clip", lambda document: document["chunk_grid"].update(configuration=None)),
    ],
)
def test_only_the_codecs_and_shapes_of_the_format(
    tmp_path: Path, array, change
) -> None:
    a_store(tmp_path / "s")
    with_document(tmp_path / "s", array, change)
    with (
        little_memory(),
        pytest.raises(Corrupt, match="layout and codecs of the format"),
    ):
        open_store(tmp_path / "s").matrix("clip", clips=["tt0000100-001"])


def test_ids_that_say_they_are_more_than_their_bytes(tmp_path: Path) -> None:
    a_store(tmp_path / "s")
    forge(
        tmp_path / "s",
        "data.zarr/clip_id/c.0",
        struct.pack("<I", 2**32 - 1) + b"\0" * 128,
    )
    with little_memory(), pytest.raises(Corrupt, match="does not decode"):
        _ = open_store(tmp_path / "s").clip_ids


def test_texts_of_a_shape_that_their_files_do_not_have(tmp_path: Path) -> None:
    path = tmp_path / "s"
    plan_store(path, 5, arrays=CLIP)
    fill_store(path, some_values(5, CLIP))
    StoreWriter(path).add_text(
        TextTable(np.ones((2, 3), np.float32), *[["a", "b"]] * 3, "x")
    )
    StoreWriter(path).seal()
    huge = [10**6, 10**6]

    def enlarge(document: dict[str, Any]) -> None:
        document.update(shape=huge)
        document["chunk_grid"]["configuration"]["chunk_shape"] = huge

    with_document(path, "text/embeddings", enlarge)
    with (
        little_memory(),
        pytest.raises(Corrupt, match=r"damaged bytes in .*embeddings"),
    ):
        open_store(path).text()


@pytest.mark.parametrize("listed", [False, True])
def test_a_hundred_million_clips_of_23(tmp_path: Path, listed: bool) -> None:
    a_store(tmp_path / "s")
    store = json.loads((tmp_path / "s/store.json").read_bytes())
    for name, mark in store["files"].items():
        if listed and "_id/c." in name:
            mark[0] = 10**9
    restamped(tmp_path / "s", n_clips=10**8, files=store["files"])
    for ask in (lambda s: s.status(), lambda s: s.matrix("clip"), lambda s: s["clip"]):
        with little_memory(), pytest.raises(Corrupt, match=r"ids|clip_id"):
            ask(open_store(tmp_path / "s"))
    assert verify(tmp_path / "s").problems


@pytest.mark.parametrize("name", ["store.json", "seal.json"])
def test_a_document_of_gigabytes_is_not_read(tmp_path: Path, name: str) -> None:
    a_store(tmp_path / "s")
    with (tmp_path / "s" / name).open("r+b") as stream:
        stream.truncate(4_000_000_000)
    with little_memory(), pytest.raises(Corrupt, match=rf"{name} has 4\.0 GB"):
        open_store(tmp_path / "s").status()
    with little_memory():
        assert name in {problem.name for problem in verify(tmp_path / "s").problems}


def test_a_document_of_gigabytes_is_not_fetched() -> None:
    pytest.importorskip("obstore")

    class Endless(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "4000000000")
            self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endless)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with little_memory(), pytest.raises(Corrupt, match=r"store\.json has 4\.0 GB"):
            open_store(f"http://127.0.0.1:{server.server_port}/s")
    finally:
        server.shutdown()


def test_deflated_json_of_hundreds_of_megabytes_is_not_unpacked(tmp_path: Path) -> None:
    a_store(tmp_path / "s")
    with zipfile.ZipFile(tmp_path / "s.zip", "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in tree(tmp_path / "s").items():
            if name != "seal.json":
                out.writestr(name, data)
        with out.open("seal.json", "w") as stream:
            for _ in range(120):
                stream.write(b"[[],[]]," * 125_000)
    with little_memory(), pytest.raises(FixInput, match="is compressed"):
        unpack(tmp_path / "s.zip", tmp_path / "copy")


def test_json_of_many_small_values_is_not_parsed(tmp_path: Path) -> None:
    a_store(tmp_path / "s")
    (tmp_path / "s/store.json").write_bytes(b"[" + b"[]," * 600_000 + b"[]]")
    with little_memory(), pytest.raises(Corrupt, match="more values than"):
        open_store(tmp_path / "s")


def test_the_forged_stores_of_these_tests_are_otherwise_right(tmp_path: Path) -> None:
    a_store(tmp_path / "s")
    whole = (tmp_path / "s/data.zarr/clip/c.1.0").read_bytes()
    forge(tmp_path / "s", "data.zarr/clip/c.1.0", whole[:-4])
    with_document(tmp_path / "s", "clip", lambda document: document)
    assert not verify(tmp_path / "s", hashes=True).problems
    found = open_store(tmp_path / "s").matrix("clip").values
    np.testing.assert_array_equal(found, some_values(23, CLIP)["clip"])


MANY = 30_000
OWN_FILES = [
    FilmIndex(
        plan="0" * 64,
        page_blocks=1,
        films={str(i): ((i, i + 1),) for i in range(MANY)},
        files={},
    ),
    FilmIndex(
        plan="0" * 64,
        page_blocks=1,
        films={
            "a": tuple((2 * i, 2 * i + 1) for i in range(MANY)),
            "b": tuple((2 * i + 1, 2 * i + 2) for i in range(MANY)),
        },
        files={},
    ),
    IndexPage(clip_id=[str(i) for i in range(MANY)], status_of_row={}, files={}),
    Partial({"clip": frozenset(range(MANY))}),
    Sources({i: RowSource() for i in range(MANY)}),
    Seal(
        fingerprint="0" * 64,
        counts={},
        status_of_row={i: RowStatus.no_video() for i in range(MANY)},
        files={f"data.zarr/clip/c.{i}.0": FileMark(1, "0" * 64) for i in range(MANY)},
    ),
]


@pytest.mark.parametrize("record", OWN_FILES, ids=lambda record: type(record).__name__)
def test_no_own_file_has_too_many_values_however_many_films_or_blocks(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    # For a million values, a second each.
    monkeypatch.setattr(records, "MANY_VALUES", 1000)
    assert type(record).from_bytes(record.to_bytes(), "own file") == record
