"""Stores that a stranger could send: right hashes everywhere, and one thing wrong.

Each gets an error of a few lines, or does no harm; none takes much memory.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
from support.plain_store import array_of, reseal, rows_of, write_plain_store

from obygaze_features.core.errors import ObygazeError
from obygaze_features.store_next import table
from obygaze_features.store_next.reading import Store, open_store
from obygaze_features.store_next.verifying import verify

N_ROWS = 12
ABSENT = 2**64 - 1
MOST_BYTES = 50_000_000
Spoil = Callable[[Path], object]
# What is wrong, with a part of the message of the error.
CASES: dict[str, tuple[Spoil, str]] = {}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of plain, zstd and Blosc chunks of 4 rows, in files of 8."""
    path = tmp_path_factory.mktemp("whole") / "s"
    numbers = np.arange(N_ROWS * 16, dtype="float32").reshape(N_ROWS, 16)
    values = {"plain": numbers, "zstd": numbers, "blosc": numbers}
    arrays = [
        array_of(
            name,
            numbers,
            compressor="" if name == "plain" else name,
            chunk_rows=4,
            file_rows=8,
        )
        for name in values
    ]
    for array in arrays:
        array["dims"] = ["wide"]
    clips = [f"clip-{n}" for n in range(N_ROWS)]
    films = [f"film-{n // 5}" for n in range(N_ROWS)]
    rows = rows_of(clips, films, {3: ("failed", "broken")})
    write_plain_store(path, values, rows, arrays=arrays)
    return path


@pytest.fixture(params=[2**16, 0], ids=["whole", "parts"])
def tables(request, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tables are read whole, large ones in parts."""
    monkeypatch.setattr(table, "SMALL_ROWS", request.param)


def case(name: str, words: str, spoil: Spoil) -> None:
    assert name not in CASES
    CASES[name] = spoil, words


# store.json.


def document(change: Callable[[dict[str, Any]], object]) -> Spoil:
    return lambda path: reseal(path, change)


def raw(name: str, data: bytes) -> Spoil:
    def spoil(path: Path) -> None:
        (path / name).write_bytes(data)
        if name != "store.json":
            reseal(path)

    return spoil


for what, data in {
    "no JSON": b"PK\3\4",
    "empty": b"",
    "a list": b"[]",
    "nested deeply": b'{"a":' * 100_000,
    "not UTF-8": b'{"format": "\xff"}',
    "an array of arrays": b"[" * 3_000_000,
}.items():
    case(f"store.json is {what}", "not a document|no store", raw("store.json", data))

NAMES = (
    *(".git/config", ".git/hooks/post-checkout", ".envrc", "Makefile", "zarr.py"),
    *("data.zarr/plain/__init__.py", "STORE.JSON", "store.json", "README.md"),
    *("data.zarr/plain/c.9.0", "data.zarr/plain/c.00.0", "data.zarr", "index.html"),
    *("../outside", "/etc/cron.d/x", "data.zarr/../../outside", "..\\outside"),
    *("C:autoexec.bat", "x" * 300, "a name\nof two lines", "\x1b[2Jcleared"),
)
for name in NAMES:

    def add_name(store: dict[str, Any], name: str = name) -> None:
        store["files"][name] = [1, "0" * 64]

    def in_place_of(store: dict[str, Any], name: str = name) -> None:
        store["files"][name] = store["files"].pop("ids")

    case(f"{name!r} is listed", "`files` has", document(add_name))
    case(f"{name!r} in place of ids", "`files` has", document(in_place_of))

for name in ("rows.csv", "checks", "data.zarr/zarr.json", "data.zarr/plain/c.1.0"):
    case(
        f"{name} is not listed",
        "`files` has",
        document(lambda store, name=name: store["files"].pop(name)),
    )
for what, mark in {
    "no list": "x",
    "three values": [1, "0" * 64, 2],
    "a length below zero": [-1, "0" * 64],
    "a short hash": [1, "0"],
    "a length of text": ["1", "0" * 64],
}.items():
    case(
        f"a mark is {what}",
        "Expected|not a length",
        document(lambda store, mark=mark: store["files"].update({"ids": mark})),
    )
case(
    "a length of a terabyte",
    "bytes|shorter|damaged",
    document(lambda store: store["files"].update({"rows.csv": [2**40, "0" * 64]})),
)

for what, changes in {
    "another version": {"version": 2},
    "a version of text": {"version": "1"},
    "another format": {"format": "zip"},
    "an unknown key": {"scripts": ["x"]},
    "no arrays": {"arrays": []},
    "arrays of text": {"arrays": ["clip"]},
    "10**11 rows": {"rows": {"total": 10**11, "ok": 10**11}},
    "4 * 10**9 rows": {"rows": {"total": 4 * 10**9, "ok": 4 * 10**9}},
    "no rows": {"rows": {"total": 0, "ok": 0}},
    "rows below zero": {"rows": {"total": 12, "ok": 13, "failed": -1}},
    "counts that do not add up": {"rows": {"total": 12, "ok": 2}},
    "half a row": {"rows": {"total": 12.5, "ok": 12.5}},
    "another fingerprint": {"fingerprint": "0" * 64},
    "a recipe of text": {"recipe": "clip"},
    "a recipe without sections": {"recipe": {}},
    "makers of text": {"makers": ["x"]},
    "no history": {"replaces": None},
}.items():
    case(
        f"store.json has {what}",
        "document|version|array|recipe|fingerprint",
        document(lambda store, changes=changes: store.update(changes)),
    )

for what, changes in {
    "a name that is a path": {"name": "../x"},
    "the name of a column": {"name": "clip_id"},
    "a name of 100 letters": {"name": "x" * 100},
    "a name twice": {"name": "zstd"},
    "an unknown dtype": {"dtype": "object"},
    "an unknown compressor": {"compressor": "pickle"},
    "no chunk rows": {"chunk_rows": 0},
    "three chunk rows": {"chunk_rows": 3},
    "chunks below zero": {"chunk_rows": -4},
    "chunks longer than files": {"chunk_rows": 16},
    "chunks of a million rows": {"chunk_rows": 2**20, "file_rows": 2**20},
    "files of 2**70 rows": {"file_rows": 2**70},
    "rows of a petabyte": {"shape": [2**48]},
    "a shape below zero": {"shape": [-16]},
    "a shape of floats": {"shape": [16.5]},
    "a shape without dims": {"shape": [4, 4]},
    "a dimension that is a row": {"dims": ["row"]},
    "a dimension of two sizes": {"shape": [8]},
    "another shape": {"shape": [17], "dims": ["other"]},
    "another dtype": {"dtype": "float64"},
    "another compressor": {"compressor": "zstd"},
    "an unknown key": {"script": "x"},
}.items():
    case(
        f"an array has {what}",
        "document|array|dtype|compressor|chunk|shape|dimension|rows|bytes|damaged|Array",
        document(lambda store, changes=changes: store["arrays"][0].update(changes)),
    )


def as_many_rows(store: dict[str, Any]) -> None:
    """Say that there are 2**32 rows, and that the files have the lengths for that."""
    n_rows = 2**32
    store["rows"] = {"total": n_rows, "ok": n_rows}
    for array in store["arrays"]:
        array["file_rows"] = n_rows
        del store["files"][f"data.zarr/{array['name']}/c.1.0"]
    n_bytes_of = {"ids": 12 * n_rows, "checks": 4 * 3 * n_rows // 4}
    for name, n_bytes in n_bytes_of.items():
        store["files"][name][0] = n_bytes


case("store.json lies about 2**32 rows", "ids is damaged", document(as_many_rows))


# The tables.


def replaced(name: str, old: bytes, new: bytes, with_crc: bool = True) -> Spoil:
    """Change a table; films.csv gets the right checksums of its runs."""

    def spoil(path: Path) -> None:
        data = (path / name).read_bytes()
        assert old in data
        (path / name).write_bytes(data.replace(old, new, 1))
        if name == "rows.csv" and with_crc:
            right_films(path)
        reseal(path)

    return spoil


def right_films(path: Path) -> None:
    lines = (path / "rows.csv").read_bytes().splitlines(keepends=True)
    header, *runs = (path / "films.csv").read_text(encoding="utf-8").splitlines()
    byte = len(lines[0])
    written = [header]
    for run in runs:
        film, first, rows, _, _ = run.split(",")
        part = b"".join(lines[int(first) + 1 : int(first) + 1 + int(rows)])
        crc = google_crc32c.value(part)
        written.append(f"{film},{first},{rows},{byte},{crc:08x}")
        byte += len(part)
    text = "\n".join([*written, ""])
    (path / "films.csv").write_text(text, encoding="utf-8")


TABLES = "rows.csv is damaged|films.csv is damaged|ids is damaged"
for what, old, new in (
    ("a row of twelve cells", b"4,clip-4,", b"4,clip-4,,"),
    ("a row of two cells", b"4,clip-4,film-0,,,ok,,,,,0", b"4,clip-4"),
    ("an unknown status", b"film-0,,,ok", b"film-0,,,fine"),
    ("an id with an escape", b"clip-4", b"clip\x1b4"),
    ("an id that is not UTF-8", b"clip-4", b"clip\xff4"),
    ("an empty id", b"4,clip-4,", b"4, ,"),
    ("an open quote", b"4,clip-4,", b'4,"clip-4,'),
    ("a quote inside", b"4,clip-4,", b'4,"clip"-4,'),
    ("no last line feed", b"film-2,,,ok,,,,,0\n", b"film-2,,,ok,,,,,0"),
    ("another first line", b"row,clip_id", b"row,clap_id"),
):
    if what != "no last line feed":
        case(f"rows.csv has {what}", TABLES, replaced("rows.csv", old, new))
for what, old, new in (
    ("a run of 10**12 rows", b"film-1,5,5", b"film-1,5,1000000000000"),
    ("runs that overlap", b"film-1,5,5", b"film-1,4,6"),
    ("a run below zero", b"film-1,5,5", b"film-1,-5,5"),
    ("a row of text", b"film-1,5,5", b"film-1,five,5"),
    ("a row of 4,000 digits", b"film-1,5,5", b"film-1," + b"9" * 4000 + b",5"),
    ("no cell of bytes", b"film-1,5,5,", b"film-1,5,5"),
    ("a byte beyond the table", b"film-1,5,5,", b"film-1,5,5,99999"),
    ("a byte below zero", b"film-1,5,5,", b"film-1,5,5,-"),
    ("an id with an escape", b"film-1", b"film\x1b1"),
    ("no rows", b"film-2,10,2", b"film-2,12,0"),
):
    case(f"films.csv has {what}", TABLES, replaced("films.csv", old, new))
case(
    "ids has a row that is not there",
    TABLES,
    lambda path: raw("ids", (path / "ids").read_bytes()[:96] + b"\xff" * 48)(path),
)


# Chunks and their index.


def put_chunk(array: str, content: bytes) -> Spoil:
    """Give the last file of an array another chunk, with right checksums and index."""

    def spoil(path: Path) -> None:
        chunk = content + struct.pack("<I", google_crc32c.value(content))
        index = struct.pack("<4Q", 0, len(chunk), ABSENT, ABSENT)
        index += struct.pack("<I", google_crc32c.value(index))
        (path / "data.zarr" / array / "c.1.0").write_bytes(chunk + index)
        place = 4 * (3 * ("plain", "zstd", "blosc").index(array) + 2)
        checks = bytearray((path / "checks").read_bytes())
        checks[place : place + 4] = chunk[-4:]
        (path / "checks").write_bytes(checks)
        reseal(path)

    return spoil


MAGIC = b"\x28\xb5\x2f\xfd"
for what, content in {
    "of four terabytes": MAGIC + b"\xe0" + struct.pack("<Q", 2**42) + b"\x01\0\0",
    "without a size": MAGIC + b"\0\x58\x03\0\0\0",
    "of no bytes": b"",
    "of zeros": b"\0" * 100,
    "that ends": MAGIC + b"\x60\x00\x00\x01\x00",
}.items():
    case(f"a zstd frame {what}", "zstd/c.1.0 is damaged", put_chunk("zstd", content))
case("a plain chunk that is short", "plain/c.1.0", put_chunk("plain", b"\0" * 255))
case("a plain chunk that is long", "plain/c.1.0", put_chunk("plain", b"\0" * 257))


def blosc(place: int, value: int) -> Spoil:
    """Change a field of the header of a chunk of 256 copied bytes."""
    fields = [2, 1, 0x02 | 4 << 5, 4, 256, 256, 272]
    fields[place] = value
    return put_chunk("blosc", struct.pack("<BBBBIII", *fields) + b"\0" * 256)


for what, place, value in (
    ("another version", 0, 9),
    ("an unknown codec", 2, 0xF0),
    ("blocks that are compressed", 2, 0x91),
    ("an item of no bytes", 3, 0),
    ("four gigabytes", 4, 2**32 - 100),
    ("blocks of two gigabytes", 5, 2**31 - 1),
    ("blocks of no bytes", 5, 0),
    ("a gigabyte of compressed bytes", 6, 2**30),
    ("a length below zero", 6, 2**32 - 1),
):
    case(f"a Blosc header with {what}", "blosc/c.1.0 is damaged", blosc(place, value))
case("half a Blosc header", "blosc/c.1.0", put_chunk("blosc", b"\2\1"))
case(
    "a Blosc block far beyond its end",
    "blosc/c.1.0 is damaged",
    put_chunk(
        "blosc",
        struct.pack("<BBBBIIIi", 2, 1, 0x91, 4, 256, 256, 100, 2**29) + b"\0" * 80,
    ),
)


def index(change: Callable[[list[tuple[int, int]]], list[tuple[int, int]]]) -> Spoil:
    """Change the index of the first file of compressed chunks; its checksum is right."""

    def spoil(path: Path) -> None:
        file = path / "data.zarr" / "zstd" / "c.0.0"
        data = file.read_bytes()
        entries = list(struct.iter_unpack("<2Q", data[-36:-4]))
        words = b"".join(struct.pack("<2Q", *entry) for entry in change(entries))
        crc = struct.pack("<I", google_crc32c.value(words))
        file.write_bytes(data[:-36] + words + crc)
        reseal(path)

    return spoil


for what, change in {
    "two entries exchanged": lambda e: [e[1], e[0]],
    "one chunk for two": lambda e: [e[0], e[0]],
    "a chunk absent": lambda e: [(ABSENT, ABSENT), e[0]],
    "no chunk": lambda e: [(ABSENT, ABSENT)] * 2,
    "a chunk beyond the file": lambda e: [e[0], (2**40, 100)],
    "a chunk of 2**63 bytes": lambda e: [e[0], (e[1][0], 2**63)],
    "a gap": lambda e: [e[0], (e[1][0] + 1, e[1][1] - 1)],
    "a chunk of four bytes": lambda e: [(0, 4), (4, e[1][0] + e[1][1] - 4)],
}.items():
    case(f"an index with {what}", r"zstd/c\.0\.0 is damaged", index(change))


# What lies in the folder.


def in_place(name: str, make: Callable[[Path], object]) -> Spoil:
    def spoil(path: Path) -> None:
        (path / name).unlink()
        make(path / name)

    return spoil


def sparse(file: Path) -> None:
    with file.open("wb") as stream:
        stream.truncate(4_000_000_000)


for name in ("store.json", "rows.csv", "checks", "data.zarr/plain/c.0.0"):
    link = in_place(name, lambda file: file.symlink_to("/etc/passwd"))
    case(f"{name} is a link", "symbolic links", link)
    case(f"{name} is a pipe", "regular file", in_place(name, os.mkfifo))
    case(f"{name} is a folder", "regular file", in_place(name, Path.mkdir))
for name in ("store.json", "rows.csv", "checks"):
    case(f"{name} has 4 GB", "4(.0)? GB|GB", in_place(name, sparse))


def read_all(path: Path) -> list[ObygazeError]:
    """The errors of each way to read a store, and of its verification."""
    errors = []
    clips = ["clip-4", "clip-11", "absent"]
    films = ["film-0", "film-2"]
    ways: list[Callable[[Store], object]] = [
        lambda store: store.recipe,
        lambda store: store.rows,
        lambda store: store.clip_ids,
        lambda store: store.status(),
        lambda store: store.matrix("plain", missing="drop"),
        lambda store: store.matrix("zstd", clips=clips, missing="drop"),
        lambda store: store.matrix("zstd", films=films, missing="drop"),
        lambda store: store.matrix("blosc", films=films, missing="drop"),
        lambda store: verify(store, hashes=True, decode=True).require_whole(),
    ]
    for way in ways:
        try:
            way(open_store(path))
        except ObygazeError as error:
            errors.append(error)
    return errors


@pytest.mark.parametrize("name", CASES, ids=ascii)
def test_a_hostile_store_is_refused(name, whole, tmp_path, tables) -> None:
    spoil, words = CASES[name]
    shutil.copytree(whole, tmp_path / "s")
    spoil(tmp_path / "s")
    tracemalloc.start()
    try:
        errors = read_all(tmp_path / "s")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert errors, "nothing was refused"
    assert peak < MOST_BYTES
    messages = [str(error) for error in errors]
    assert any(re.search(words, message) for message in messages), messages
    for message in messages:
        assert len(message.splitlines()) <= 3 and len(message) < 700
        assert "\x1b" not in message
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["s"]


def test_the_store_of_these_tests_is_otherwise_right(whole: Path, tables) -> None:
    assert read_all(whole) == []
    assert len(CASES) > 130
