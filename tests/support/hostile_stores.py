"""Stores that a stranger could send: right hashes everywhere, and one thing wrong."""

import json
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from support.damage import flip_bit
from support.plain_store import (
    array_of,
    reseal,
    rows_of,
    write_document,
    write_plain_store,
)

N_ROWS = 12
IDS = "clip_id/c.0"
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
    assert name not in CASES
    CASES[name] = spoil, words


# store.json.


def updated(changes: Mapping[str, Any], *place: Any) -> Spoil:
    """Change keys of store.json, or of what is at a place in it."""

    def change(store: Any) -> None:
        for key in place:
            store = store[key]
        store.update(changes)

    return document(change)


def document(change: Callable[[dict[str, Any]], object]) -> Spoil:
    return lambda path: reseal(path, change)


def raw(name: str, data: bytes) -> Spoil:
    def spoil(path: Path) -> None:
        (path / name).write_bytes(data)
        if name != "store.json":
            reseal(path)

    return spoil


CONTENTS = {"no JSON": b"PK\3\4", "empty": b"", "a list": b"[]"}
CONTENTS |= {"nested deeply": b'{"a":' * 100_000, "not UTF-8": b'{"format": "\xff"}'}
CONTENTS |= {"an array of arrays": b"[" * 3_000_000}
for what, data in CONTENTS.items():
    case(f"store.json is {what}", "not a document|no store", raw("store.json", data))

NAMES = (
    *(".git/config", ".git/hooks/post-checkout", "zarr.py", "STORE.JSON", "store.json"),
    *("README.md", "plain/c.9.0", "data.zarr", "../outside", "/etc/cron.d/x"),
    *("../../outside", "C:autoexec.bat", "a name\nof two lines"),
)
for name in NAMES:

    def add_name(store: dict[str, Any], name: str = name) -> None:
        store["files"][name] = [1, "0" * 64]

    def in_place_of(store: dict[str, Any], name: str = name) -> None:
        store["files"][name] = store["files"].pop("chunks.crc32c")

    case(f"{name!r} is listed", "`files` must list", document(add_name))
    case(f"{name!r} in place of checks", "`files` must list", document(in_place_of))

for name in (IDS, "chunks.crc32c", "zarr.json", "plain/c.1.0"):
    without = document(lambda store, name=name: store["files"].pop(name))
    case(f"{name} is not listed", "`files` must list", without)
for what, mark in {
    "no list": "x",
    "three values": [1, "0" * 64, 2],
    "a length below zero": [-1, "0" * 64],
    "a short hash": [1, "0"],
    "a length of text": ["1", "0" * 64],
}.items():
    spoil = updated({"chunks.crc32c": mark}, "files")
    case(f"a mark is {what}", "Expected|not a length", spoil)
terabyte = updated({IDS: [2**40, "0" * 64]}, "files")
case("a length of a terabyte", "bytes|shorter|damaged", terabyte)

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
    words = "document|field scripts|version|array|recipe|fingerprint"
    case(f"store.json has {what}", words, updated(changes))


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
    words = "document|array|dtype|compressor|chunk|shape|dimension|rows|bytes|damaged"
    case(f"an array has {what}", f"{words}|Array", updated(changes, "arrays", 0))


for what, change in {
    "no column of ids": lambda columns: columns.pop(0),
    "columns in another order": lambda columns: columns.insert(0, columns.pop()),
    "an unknown column": lambda columns: columns[5].update(name="script"),
    "a column twice": lambda columns: columns.append(columns[5]),
    "numbers for ids": lambda columns: columns[0].update(dtype="int64"),
    "texts for statuses": lambda columns: columns[4].update(dtype="string"),
    "ids of a shape": lambda columns: columns[0].update(shape=[2], dims=["two"]),
    "short chunks of ids": lambda columns: columns[0].update(chunk_rows=1),
    "long files of times": lambda columns: columns[2].update(file_rows=2**20),
}.items():
    spoil = document(lambda store, change=change: change(store["columns"]))
    case(f"store.json has {what}", "`columns`|`files` must list", spoil)


def as_many_rows(store: dict[str, Any], n_rows: int = 2**26) -> None:
    """Say that there are so many rows, and that the files have the lengths for that."""
    store["rows"] = {"total": n_rows, "ok": n_rows}
    n_checks = 0
    for name in ("columns", "arrays"):
        for array in store[name]:
            is_text = array["dtype"] == "string"
            if name == "columns":
                array["chunk_rows"] = 2**16
            array["file_rows"] = 2**16 if is_text else 2**20
            end = ".0" * len(array["shape"])
            for number in range(1, n_rows // array["file_rows"]):
                file = f"{array['name']}/c.{number}{end}"
                first = f"{array['name']}/c.0{end}"
                store["files"][file] = store["files"][first]
            n_checks += n_rows // array["chunk_rows"]
    store["files"]["chunks.crc32c"][0] = 4 * n_checks


words = "chunks.crc32c is damaged|longer|of memory|GB"
case("store.json lies about 2**26 rows", words, document(as_many_rows))


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


for name in (IDS, "reason/c.0", "zarr.json"):
    vast = with_sparse(name, 4_000_000_000)
    case(f"{name} has 4 GB and is listed with them", "expected at most 1060864", vast)
words = "the recipe has 4000076 bytes, expected at most"
of_lists = updated({"told": {"x": [[]] * 500_000}}, "recipe")
case("a recipe of half a million lists", words, of_lists)


# The table of rows.


def put_column(name: str, change: Callable[[bytes], bytes]) -> Spoil:
    def spoil(path: Path) -> None:
        document = json.loads((path / "store.json").read_bytes())
        names = [column["name"] for column in document["columns"]]
        is_text = document["columns"][names.index(name)]["dtype"] == "string"
        file = path / name / "c.0"
        data = file.read_bytes()
        n_index = 0 if is_text else 20
        before = data[: len(data) - n_index - 4]
        content = change(before)
        assert content != before
        chunk = content + struct.pack("<I", google_crc32c.value(content))
        file.write_bytes(chunk + data[len(data) - n_index :])
        checks = bytearray((path / "chunks.crc32c").read_bytes())
        place = 4 * names.index(name)
        checks[place : place + 4] = chunk[-4:]
        (path / "chunks.crc32c").write_bytes(checks)
        reseal(path)

    return spoil


def in_column(name: str, old: bytes, new: bytes) -> Spoil:
    return put_column(name, lambda data: data.replace(old, new, 1))


for what, name, old, new in (
    ("an id with an escape", "clip_id", b"clip-4", b"clip\x1b4"),
    ("an id that is not UTF-8", "clip_id", b"clip-4", b"clip\xff4"),
    ("an empty id", "clip_id", b"clip-4", b"      "),
    ("a clip twice", "clip_id", b"clip-4", b"clip-5"),
    ("a text of 4 GB", "clip_id", b"\6\0\0\0clip-4", b"\xff\xff\xff\xffclip-4"),
    ("a text that is too long", "clip_id", b"\6\0\0\0clip-4", b"\xff\0\0\0clip-4"),
    ("fewer texts than rows", "clip_id", b"\x10\0\0\0", b"\4\0\0\0"),
    ("a film with an escape", "movie_id", b"film-1", b"film\x1b1"),
    ("a row without a film", "movie_id", b"film-1", b"      "),
    ("a reason of two lines", "reason", b"broken", b"bro\nen"),
    ("an unknown status", "status", b"\1", b"\x09"),
    ("a status that was not counted", "status", b"\1", b"\2"),
    ("another number of failed rows", "status", b"\0", b"\1"),
    ("a time without end", "start_s", *map(struct.Struct("<d").pack, (np.nan, np.inf))),
):
    words = f"{name}/c.0 is damaged|{name}/c.0: "
    case(f"the table has {what}", words, in_column(name, old, new))
cut = put_column("clip_id", lambda data: data[:40])
case("the table has fewer bytes than texts", "clip_id/c.0", cut)
case("the table has no bytes", "clip_id/c.0", raw(IDS, b""))
case("the table has three bytes", "clip_id/c.0", raw(IDS, b"\0\0\0"))


# Chunks and their index.


def put_chunk(array: str, content: bytes) -> Spoil:
    def spoil(path: Path) -> None:
        chunk = content + struct.pack("<I", google_crc32c.value(content))
        index = struct.pack("<4Q", 0, len(chunk), ABSENT, ABSENT)
        index += struct.pack("<I", google_crc32c.value(index))
        (path / array / "c.1.0").write_bytes(chunk + index)
        # Those of six columns of one chunk come first.
        place = 4 * (6 + 3 * ("plain", "other").index(array) + 2)
        checks = bytearray((path / "chunks.crc32c").read_bytes())
        checks[place : place + 4] = chunk[-4:]
        (path / "chunks.crc32c").write_bytes(checks)
        reseal(path)

    return spoil


case("a plain chunk that is short", "plain/c.1.0", put_chunk("plain", b"\0" * 255))
case("a plain chunk that is long", "plain/c.1.0", put_chunk("plain", b"\0" * 257))


def with_other_checksum(path: Path) -> None:
    """Change the 4 bytes behind a chunk, but not those in `chunks.crc32c`."""
    flip_bit(path / "plain/c.0.0", 256)
    reseal(path)


case("a chunk before another checksum", "plain/c.0.0 is damaged", with_other_checksum)


def index(change: Callable[[list[tuple[int, int]]], list[tuple[int, int]]]) -> Spoil:
    """Change the index of the first file of `plain`; its checksum is right."""

    def spoil(path: Path) -> None:
        file = path / "plain/c.0.0"
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
    words = r"plain/c\.0\.0: "
    case(f"an index with {what}", words, index(change))


def as_one_file(store: dict[str, Any], file_rows: int = 2**20) -> None:
    for array in store["arrays"]:
        array["file_rows"] = file_rows
        del store["files"][f"{array['name']}/c.1.0"]


def as_one_file_of_two(store: dict[str, Any]) -> None:
    store["arrays"][1]["file_rows"] = 2**20
    del store["files"]["other/c.1.0"]


case("a file shorter than its index", "bytes for the rows", document(as_one_file))
words = "files of (plain|other) have 4 and 1099511627776 rows"
vast = document(lambda store: as_one_file(store, 2**40))
case("a file of 2**40 rows", words, vast)
of_two = document(as_one_file_of_two)
case("arrays with files of several lengths", "`file_rows` must be equal", of_two)
name = "plain/zarr.json"
of_lists = raw(name, b'{"codecs":[{"name":"bytes","configuration":[]}]}\n')
case("a document of Zarr with a list of settings", name, of_lists)


# What lies in the folder.


def in_place(name: str, make: Callable[[Path], object]) -> Spoil:
    def spoil(path: Path) -> None:
        (path / name).unlink()
        make(path / name)

    return spoil


def sparse(file: Path) -> None:
    with file.open("wb") as stream:
        stream.truncate(4_000_000_000)


for name in ("store.json", IDS, "chunks.crc32c", "plain/c.0.0"):
    link = in_place(name, lambda file: file.symlink_to("/etc/passwd"))
    case(f"{name} is a link", "symbolic links", link)
    case(f"{name} is a pipe", "regular file", in_place(name, os.mkfifo))
    case(f"{name} is a folder", "regular file", in_place(name, Path.mkdir))


def link_folder(path: Path) -> None:
    folder = path / "plain"
    folder.rename(path / "elsewhere")
    folder.symlink_to(path / "elsewhere")


case("a folder is a link", "symbolic links", link_folder)
for name, words in (("store.json", "GB"), (IDS, "is damaged"), ("chunks.crc32c", "GB")):
    case(f"{name} has 4 GB", words, in_place(name, sparse))
