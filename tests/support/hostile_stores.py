"""Stores that a stranger could send: right hashes everywhere, and one thing wrong."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from support.plain_store import (
    array_of,
    reseal,
    rows_of,
    write_document,
    write_plain_store,
)

N_ROWS = 12
ABSENT = 2**64 - 1
Spoil = Callable[[Path], object]
# What is wrong, with a part of the message of the error.
CASES: dict[str, tuple[Spoil, str]] = {}


def write_whole(path: Path) -> None:
    """A store of two arrays in chunks of 4 rows, in files of 8."""
    numbers = np.arange(N_ROWS * 16, dtype="float32").reshape(N_ROWS, 16)
    values = {"plain": numbers, "other": numbers}
    arrays = [array_of(name, numbers, chunk_rows=4, file_rows=8) for name in values]
    for array in arrays:
        array["dims"] = ["wide"]
    clips = [f"clip-{n}" for n in range(N_ROWS)]
    films = [f"film-{n // 5}" for n in range(N_ROWS)]
    rows = rows_of(clips, films, {3: ("failed", "broken")})
    write_plain_store(path, values, rows, arrays=arrays)


def case(name: str, words: str, spoil: Spoil) -> None:
    """Add a store that is wrong."""
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
        "document|field scripts|version|array|recipe|fingerprint",
        document(lambda store, changes=changes: store.update(changes)),
    )


def with_key_twice(path: Path) -> None:
    text = (path / "store.json").read_text(encoding="utf-8")
    assert '"told": {' in text
    text = text.replace('"told": {', '"told": {"backbone": "other", ', 1)
    write_document(path, "{" + text.partition(",")[2])


case("store.json has a key twice", "a key twice", with_key_twice)

for what, changes in {
    "a name that is a path": {"name": "../x"},
    "the name of a column": {"name": "clip_id"},
    "a name of 100 letters": {"name": "x" * 100},
    "a name twice": {"name": "other"},
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
    "a dimension twice": {"shape": [16, 16], "dims": ["wide", "wide"]},
    "17 dimensions": {"shape": [1] * 17, "dims": [f"x{n}" for n in range(17)]},
    "another shape": {"shape": [17], "dims": ["other"]},
    "another dtype": {"dtype": "float64"},
    "a compressor": {"compressor": "zstd"},
    "an unknown key": {"script": "x"},
}.items():
    case(
        f"an array has {what}",
        "document|array|dtype|compressor|chunk|shape|dimension|rows|bytes|damaged|Array",
        document(lambda store, changes=changes: store["arrays"][0].update(changes)),
    )


def as_many_rows(store: dict[str, Any], n_rows: int = 2**32) -> None:
    """Say that there are so many rows, and that the files have the lengths for that."""
    store["rows"] = {"total": n_rows, "ok": n_rows}
    for array in store["arrays"]:
        array["file_rows"] = 2**20
        for number in range(1, n_rows // 2**20):
            name = f"data.zarr/{array['name']}/c.{number}.0"
            store["files"][name] = store["files"][f"data.zarr/{array['name']}/c.0.0"]
    n_bytes_of = {"ids": 12 * n_rows, "checks": 4 * 2 * n_rows // 4}
    for name, n_bytes in n_bytes_of.items():
        store["files"][name][0] = n_bytes


case("store.json lies about 2**32 rows", "ids is damaged", document(as_many_rows))


def with_sparse(name: str, n_bytes: int) -> Spoil:
    """Make a file very long, which takes no place on the disk, and say so in store.json."""

    def spoil(path: Path) -> None:
        with (path / name).open("r+b") as stream:
            stream.truncate(n_bytes)
        document = json.loads((path / "store.json").read_bytes())
        del document["sha256"]
        document["files"][name][0] = n_bytes
        write_document(path, json.dumps(document))

    return spoil


for name in ("rows.csv", "films.csv", "data.zarr/clip_id/c.0", "data.zarr/zarr.json"):
    case(
        f"{name} has 4 GB and is listed with them",
        "expected at most 1060864 for 12 rows",
        with_sparse(name, 4_000_000_000),
    )
case(
    "a recipe of half a million lists",
    "`recipe` has 4000076 bytes, expected at most",
    document(lambda store: store["recipe"].update(told={"x": [[]] * 500_000})),
)


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
    ("a row of another number", b"4,clip-4,", b"5,clip-4,"),
    ("a row of another film", b"clip-4,film-0", b"clip-4,film-1"),
    ("a time that is no number", b"clip-4,film-0,,", b"clip-4,film-0,nan,"),
    ("a time without end", b"clip-4,film-0,,", b"clip-4,film-0,,1e999"),
    ("a maker below zero", b"clip-4,film-0,,,ok,,,,,0", b"clip-4,film-0,,,ok,,,,,-1"),
):
    if what != "no last line feed":
        words = f"{TABLES}|films of rows.csv"
        case(f"rows.csv has {what}", words, replaced("rows.csv", old, new))
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
    f"{TABLES}|ids: ",
    lambda path: raw("ids", (path / "ids").read_bytes()[:96] + b"\xff" * 48)(path),
)


def with_ids(
    change: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]],
) -> Spoil:
    """Change the hashes and the rows in `ids`."""

    def spoil(path: Path) -> None:
        data = (path / "ids").read_bytes()
        end = 8 * N_ROWS
        parts = change(
            np.frombuffer(data[:end], "<u8"), np.frombuffer(data[end:], "<u4")
        )
        raw("ids", b"".join(part.tobytes() for part in parts))(path)

    return spoil


for what, change_ids in {
    "the rows of other clips": lambda hashes, rows: (hashes, rows[::-1]),
    "hashes that descend": lambda hashes, rows: (hashes[::-1], rows[::-1]),
}.items():
    case(f"ids has {what}", "ids is damaged|ids: ", with_ids(change_ids))


# Chunks and their index.


def put_chunk(array: str, content: bytes) -> Spoil:
    """Give the last file of an array another chunk, with right checksums and index."""

    def spoil(path: Path) -> None:
        chunk = content + struct.pack("<I", google_crc32c.value(content))
        index = struct.pack("<4Q", 0, len(chunk), ABSENT, ABSENT)
        index += struct.pack("<I", google_crc32c.value(index))
        (path / "data.zarr" / array / "c.1.0").write_bytes(chunk + index)
        place = 4 * (3 * ("plain", "other").index(array) + 2)
        checks = bytearray((path / "checks").read_bytes())
        checks[place : place + 4] = chunk[-4:]
        (path / "checks").write_bytes(checks)
        reseal(path)

    return spoil


case("a plain chunk that is short", "plain/c.1.0", put_chunk("plain", b"\0" * 255))
case("a plain chunk that is long", "plain/c.1.0", put_chunk("plain", b"\0" * 257))


def with_other_checksum(path: Path) -> None:
    """Change the 4 bytes behind a chunk, but not those in `checks`."""
    file = path / "data.zarr/plain/c.0.0"
    data = bytearray(file.read_bytes())
    data[256] ^= 1
    file.write_bytes(data)
    reseal(path)


case("a chunk before another checksum", "plain/c.0.0 is damaged", with_other_checksum)


def index(
    change: Callable[[list[tuple[int, int]]], list[tuple[int, int]]],
) -> Spoil:
    """Change the index of the first file of `plain`; its checksum is right."""

    def spoil(path: Path) -> None:
        file = path / "data.zarr/plain/c.0.0"
        data = file.read_bytes()
        entries = list(struct.iter_unpack("<2Q", data[-36:-4]))
        words = b"".join(struct.pack("<2Q", *entry) for entry in change(entries))
        crc = struct.pack("<I", google_crc32c.value(words))
        file.write_bytes(data[:-36] + words + crc)
        reseal(path)

    return spoil


# This program does not need the index; others do.
for what, change in {
    "two entries exchanged": lambda e: [e[1], e[0]],
    "one chunk for two": lambda e: [e[0], e[0]],
    "a chunk of another length": lambda e: [(0, 200), (200, 320)],
    "a chunk absent": lambda e: [e[0], (ABSENT, ABSENT)],
    "no chunk": lambda e: [(ABSENT, ABSENT)] * 2,
    "a chunk beyond the file": lambda e: [e[0], (2**40, 260)],
    "a gap": lambda e: [e[0], (e[1][0] + 1, e[1][1])],
}.items():
    words = r"data.zarr/plain/c\.0\.0: "
    case(f"an index with {what}", words, index(change))


def as_one_file(store: dict[str, Any], file_rows: int = 2**20) -> None:
    store["arrays"][1]["file_rows"] = file_rows
    del store["files"]["data.zarr/other/c.1.0"]


case("a file shorter than its index", "bytes for its rows", document(as_one_file))
case(
    "a file of 2**40 rows",
    "files of other have 4 and 1099511627776 rows",
    document(lambda store: as_one_file(store, 2**40)),
)


case(
    "a document of Zarr with a list of settings",
    "data.zarr/plain/zarr.json",
    raw(
        "data.zarr/plain/zarr.json",
        b'{"codecs":[{"name":"bytes","configuration":[]}]}\n',
    ),
)


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
