"""Stores and archives that somebody could send: right checksums everywhere, and one thing wrong."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from obygaze_features.store import ArraySpec, StoreWriter, TextTable, create_store
from obygaze_features.store.format.records import with_checksum
from obygaze_features.store.write import create
from support.stores import a_recipe, some_ids, some_values, tree

N_CLIPS, BLOCK_ROWS = 12, 4
# In blocks of 4 rows: one chunk of plain numbers, and shards of 2 chunks.
ARRAYS = (ArraySpec("clip", (4,)), ArraySpec("frames", (8, 16)))
SHARD, CHUNK = "data.zarr/frames/c.0.0.0", "data.zarr/clip/c.0.0"
ABSENT = 2**64 - 1


def make_base(path: Path, compressor: str | None = None) -> None:
    """A sealed store of three blocks, with texts; `frames` is in small shards."""
    names = ("ONE_CHUNK_BYTES", "INNER_CHUNK_BYTES", "SMALL_CHUNK_BYTES")
    limits = {name: getattr(create, name) for name in names}
    for name, n_bytes in zip(names, (1000, 1024, 1), strict=True):
        setattr(create, name, n_bytes)
    clips, films = some_ids(N_CLIPS)
    try:
        plan = create_store(
            path,
            recipe=a_recipe(),
            manifest_name="made-up",
            manifest_sha256="12" * 32,
            clip_ids=clips,
            movie_ids=films,
            arrays=ARRAYS,
            licence="CC0-1.0",
            citation="",
            block_rows=BLOCK_ROWS,
            compressor=compressor,
        )
    finally:
        for name, n_bytes in limits.items():
            setattr(create, name, n_bytes)
    values = some_values(N_CLIPS, ARRAYS)
    values["frames"][:] = np.round(values["frames"])  # so that it can be compressed
    writer = StoreWriter(path)
    for block in range(plan.n_blocks):
        rows = slice(*plan.block_range(block))
        writer.commit_block(
            block, {name: array[rows] for name, array in values.items()}
        )
    writer.add_text(TextTable(np.ones((2, 3), np.float32), *[["a", "b"]] * 3, "x"))
    writer.seal()


@dataclass
class Forged:
    """The files of a store, to be changed; `write` makes all checksums right again."""

    files: dict[str, bytes]
    store: dict[str, Any]
    seal: dict[str, Any]
    # Written as they are, after all else.
    raw: dict[str, bytes] = field(default_factory=dict)
    after: Callable[[Path], None] | None = None

    @classmethod
    def of(cls, path: Path) -> Forged:
        """The forged copy of a store, not changed yet."""
        files = tree(path)
        documents = [
            json.loads(files.pop(name)) for name in ("store.json", "seal.json")
        ]
        for document in documents:
            del document["sha256"]
        return cls(files, *documents)

    def copy(self) -> Forged:
        """A copy that can be changed."""
        return copy.deepcopy(self)

    def put(self, name: str, data: bytes) -> None:
        """Give the store a file, listed everywhere with its length and sha256."""
        self.files[name] = data
        mark = [len(data), hashlib.sha256(data).hexdigest()]
        self.seal["files"][name] = mark
        if name in self.store["files"]:
            self.store["files"][name] = mark
        if (
            name.endswith("zarr.json")
            and name.removeprefix("data.zarr/") in self.store["zarr"]
        ):
            self.store["zarr"][name.removeprefix("data.zarr/")] = json.loads(data)

    def put_chunk(self, name: str, content: bytes) -> None:
        """Give a block without shards other bytes, with its checksum."""
        data = with_crc(content)
        self.put(name, data)
        array, block = name.split("/")[1], int(name.split("/c.")[1].split(".")[0])
        words = self.seal["crc32c"][array].split()
        words[block] = data[-4:].hex()
        self.seal["crc32c"][array] = " ".join(words)

    def put_index(self, entries: list[tuple[int, int]]) -> None:
        """Give the first shard another index."""
        n_index = 16 * 2 + 4
        index = b"".join(struct.pack("<2Q", *entry) for entry in entries)
        self.put(SHARD, self.files[SHARD][:-n_index] + with_crc(index))

    def entries(self) -> list[tuple[int, int]]:
        """The index of the first shard: offsets and lengths."""
        return list(struct.iter_unpack("<2Q", self.files[SHARD][-36:-4]))

    def write(self, path: Path) -> None:
        """Write the store."""
        data = with_checksum(self.store)
        if "store.json" in self.seal["files"]:
            self.seal["files"]["store.json"] = [
                len(data),
                hashlib.sha256(data).hexdigest(),
            ]
        files = {
            **self.files,
            "store.json": data,
            "seal.json": with_checksum(self.seal),
            **self.raw,
        }
        for name, content in files.items():
            if writable(name) and not (path / name).is_dir():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                (path / name).write_bytes(content)
        if self.after is not None:
            self.after(path)


def writable(name: str) -> bool:
    """Whether a test may write this name below a folder, and a file system can."""
    parts = name.split("/")
    return (
        "\0" not in name and ".." not in parts and "" not in parts and len(name) < 250
    )


def with_crc(content: bytes) -> bytes:
    """The content of a chunk with the checksum that follows it."""
    return content + struct.pack("<I", google_crc32c.value(content))


@dataclass(frozen=True)
class Case:
    """One thing that is wrong, and the answer it must get.

    `words` is a regular expression for the message of the error of each way in `refused`; the
    other ways must take no harm. `base` is the store that is changed.
    """

    name: str
    spoil: Callable[[Forged], None]
    words: str
    refused: str = "verify read pull http zip"
    base: str = "plain"


@dataclass(frozen=True)
class ZipCase:
    """A packed store that is wrong as an archive."""

    name: str
    make: Callable[[dict[str, bytes], Path], None]
    words: str


CASES: list[Case | ZipCase] = []


def case(words: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """Add a function to the corpus, under its name."""

    def add(spoil: Callable[[Forged], None]) -> Callable[[Forged], None]:
        name = spoil.__name__.replace("_", " ")
        CASES.append(Case(name, spoil, words, *args, **kwargs))
        return spoil

    return add


def add(
    name: str, words: str, spoil: Callable[[Forged], object], **kwargs: Any
) -> None:
    """Add a change to the corpus."""
    CASES.append(Case(name, lambda forged: (spoil(forged), None)[1], words, **kwargs))


# Names in the list of the seal: none of them may be written.
NOT_LISTED = "is listed as a file, and no store has such a file"
INVALID = "invalid file name"
for listed, words in {
    ".git/config": NOT_LISTED,
    ".git/hooks/post-checkout": NOT_LISTED,
    ".gitattributes": NOT_LISTED,
    ".envrc": NOT_LISTED,
    ".vscode/tasks.json": NOT_LISTED,
    "Makefile": NOT_LISTED,
    "zarr.py": NOT_LISTED,
    "numpy/__init__.py": NOT_LISTED,
    "data.zarr/clip/__init__.py": NOT_LISTED,
    "index.html": NOT_LISTED,
    "STORE.JSON": NOT_LISTED,
    "seal.json": NOT_LISTED,
    "partial.json": f"{NOT_LISTED}|invalid JSON",
    "licence.json": NOT_LISTED,
    "commits/block-00000.json": NOT_LISTED,
    "staging/block-00000/marker.x": NOT_LISTED,
    "data.zarr/clip/c.3.0": NOT_LISTED,
    "data.zarr/clip/c.00.0": NOT_LISTED,
    "data.zarr/clip/c.\u0660.0": NOT_LISTED,
    "data.zarr/text/prompt/run.py": NOT_LISTED,
    "data.zarr": NOT_LISTED,
    "index/99.json": NOT_LISTED,
    "a name\nof two lines": NOT_LISTED,
    "\x1b[2Jcleared": NOT_LISTED,
    "x" * 300: NOT_LISTED,
    "data.zarr/clip/c.0.0\0": NOT_LISTED,
    "C:autoexec.bat": f"{NOT_LISTED}|leads out",
    "../outside": INVALID,
    "/etc/cron.d/x": INVALID,
    "data.zarr/../../outside": INVALID,
    "data.zarr//x": INVALID,
    "..\\outside": f"{INVALID}|leads out",
    "": INVALID,
}.items():
    add(
        f"the seal lists {listed[:40]!r}",
        words,
        lambda f, n=listed: f.put(n, b"[core]\n"),
    )


@case(NOT_LISTED)
def store_json_lists_a_program(forged: Forged) -> None:
    forged.store["files"]["sitecustomize.py"] = [1, "0" * 64]


@case(NOT_LISTED, refused="read pull http verify zip")
def the_marker_of_texts_lists_a_program(forged: Forged) -> None:
    files = {"data.zarr/text/x.py": [1, "0" * 64]}
    unsealed(forged)
    forged.raw["commits/text.json"] = with_checksum(
        {"format": "obygaze-store", "version": 1, "files": files}
    )


def unsealed(forged: Forged) -> None:
    """Take the seal away: what is committed is then what markers say."""

    def remove(path: Path) -> None:
        (path / "seal.json").unlink()

    forged.after = remove


# Lengths and checksums.
for what, mark in {
    "a length below zero": [-1, "0" * 64],
    "a length of 2**70": [2**70, "0" * 64],
    "a length that is text": ["12", "0" * 64],
    "an infinite length": [float("1e999"), "0" * 64],
    "a sha256 that is none": [1, "../../x"],
    "a mark that is a number": 7,
    "a mark of three": [1, "0" * 64, 3],
}.items():

    def with_mark(forged: Forged, mark: Any = mark) -> None:
        if mark[:1] == [float("inf")] if isinstance(mark, list) else False:
            forged.seal["files"]["clips.csv"] = [10**400, "0" * 64]
        else:
            forged.seal["files"]["clips.csv"] = mark

    add(f"the seal gives {what}", "invalid", with_mark)


@case("clips.csv", refused="verify-hash pull http zip")
def a_file_of_another_sha256(forged: Forged) -> None:
    forged.seal["files"]["clips.csv"][1] = "0" * 64


# store.json.
def spec(**changes: Any) -> dict[str, Any]:
    return {
        "name": "a",
        "tail_shape": [1],
        "dims": ["d1"],
        "dtype": "float32",
        **changes,
    }


for what, words, arrays in (
    (
        "100,000 arrays",
        "expected at most 4.0 MB",
        [spec()] * 100_000,
    ),
    ("20,000 arrays", "20000 arrays", [spec()] * 20_000),
    ("no array", "no arrays", []),
    ("two arrays of one name", "two of one name", [spec(), spec()]),
    ("an array named ../x", "cannot be the name", [spec(name="../x")]),
    ("an array named clip_id", "cannot be the name", [spec(name="clip_id")]),
    ("an array named with NUL", "cannot be the name", [spec(name="a\0")]),
    ("an array with a name of 300 bytes", "cannot be the name", [spec(name="a" * 300)]),
    ("numbers that are objects", "dtype must be", [spec(dtype="O")]),
    ("numbers of many fields", "dtype must be", [spec(dtype="f4,f4")]),
    ("a row of 2**100 numbers", "than 1e\\+30 bytes", [spec(tail_shape=[2**100])]),
    ("a row of -1 numbers", "does not match", [spec(tail_shape=[-1])]),
    ("arrays that are text", "invalid", "clip"),
):
    add(f"store.json has {what}", words, lambda f, a=arrays: f.store.update(arrays=a))

for key, words, value in (
    ("n_clips", "clip|seal", 10**8),
    ("n_clips", "must be a whole number, at least 1", 0),
    ("n_clips", "must be a whole number, at least 1", "many"),
    ("n_clips", "must be a whole number, at least 1", 10**30),
    ("block_rows", "must be a whole number, at least 1", 0),
    ("version", "update|upgrade|version", 99),
    ("version", "version", "1"),
    ("format", "format must be", "x"),
    ("recipe", "invalid|fingerprint|recipe", []),
    ("recipe", "fingerprint", {"unknown": True, "source": "x"}),
):
    shown = str(value)[:20]
    add(
        f"{key} in store.json is {shown}",
        words,
        lambda f, k=key, v=value: f.store.update({k: v}),
    )

# A copy of these has the bytes that are listed, and is refused by those who check it.
for key, refused, words, value in (
    ("block_rows", "verify read", "layout|neither the seal nor a marker", 1),
    ("zarr", "verify read", "missing|as in store.json", {}),
    ("zarr", "verify read", "missing|as in store.json", []),
    ("files", "verify", "no marker and no seal lists", {}),
):
    add(
        f"{key} in store.json is {value}",
        words,
        lambda f, k=key, v=value: f.store.update({k: v}),
        refused=refused,
    )

for what, words, data in (
    ("empty", "invalid JSON", b""),
    ("not JSON", "invalid JSON", b"<html>"),
    ("not UTF-8", "invalid JSON", b"\xff\xfe"),
    ("nested 100,000 deep", "invalid JSON|more values", b"[" * 100_000),
    ("a list", "not a JSON object", b"[]"),
    ("a number of a million digits", "invalid JSON", b"1" * 1_000_000),
    (
        "a million lists",
        "more values|not a JSON object|its bytes|format",
        b"[" + b"[]," * 999_000 + b"1]",
    ),
    (
        "a million keys",
        "more than|has .* MB|format must be|more values",
        b"{" + b",".join(b'"%07d":1' % i for i in range(900_000)) + b"}",
    ),
    (
        "without its checksum",
        "sha256|format",
        b'{"format": "obygaze-store", "version": 1}',
    ),
):
    add(
        f"store.json is {what}",
        words,
        lambda f, d=data: f.raw.update({"store.json": d}),
    )
    if len(data) < 1000:
        add(
            f"seal.json is {what}",
            words,
            lambda f, d=data: f.raw.update({"seal.json": d}),
        )


# The layout of arrays.
def with_document(
    name: str, change: Callable[[dict[str, Any]], object]
) -> Callable[[Forged], None]:
    def spoil(forged: Forged) -> None:
        file = f"data.zarr/{name}/zarr.json"
        document = json.loads(forged.files[file])
        change(document)
        forged.put(file, json.dumps(document).encode())

    return spoil


for what, array, change in (
    ("an unknown codec", "clip", lambda d: d.update(codecs=[{"name": "pickle"}])),
    ("codecs that are text", "clip", lambda d: d.update(codecs="bytes")),
    (
        "ids in vlen-bytes",
        "clip_id",
        lambda d: d.update(codecs=[{"name": "vlen-bytes"}]),
    ),
    ("10**11 rows", "clip", lambda d: d.update(shape=[10**11, 4])),
    ("10**11 ids", "clip_id", lambda d: d.update(shape=[10**11])),
    (
        "chunks of no rows",
        "clip",
        lambda d: d["chunk_grid"]["configuration"].update(chunk_shape=[0, 4]),
    ),
    (
        "inner chunks of no rows",
        "frames",
        lambda d: d["codecs"][0]["configuration"].update(chunk_shape=[0, 8, 16]),
    ),
    ("no grid", "clip", lambda d: d.update(chunk_grid=None)),
):
    add(
        f"zarr.json has {what}",
        "layout and codecs",
        with_document(array, change),
        refused="verify read",
    )


# The seal.
for what, words, change in (
    (
        "a row that the store does not have",
        "row 99",
        {"noted": {"99": {"state": "failed"}}},
    ),
    ("a row below zero", "row -1", {"noted": {"-1": {"state": "failed"}}}),
    ("an unknown state", "unknown state", {"noted": {"1": {"state": "fine"}}}),
    (
        "a status of lists",
        "text",
        {"noted": {"1": {"state": "failed", "message": ["x"]}}},
    ),
    ("rows that are a list", "invalid", {"noted": []}),
    ("another fingerprint", "another recipe", {"fingerprint": "0" * 64}),
    ("no files", "same store|no store|invalid", {"files": {}}),
    ("files that are a list", "invalid", {"files": []}),
):
    add(f"the seal has {what}", words, lambda f, c=change: f.seal.update(c))

for what, crc32c in (
    ("no hex", "zz zz zz"),
    ("too few", "00000000"),
    ("a megabyte of them", "0" * 10**6),
):
    add(
        f"the seal has checksums of chunks that are {what}",
        "checksum|damaged|chunks",
        lambda f, c=crc32c: f.seal.update(crc32c={"clip": c, "frames": c}),
        refused="verify read",
    )


@case("invalid", refused="verify read pull http zip")
def partial_json_with_blocks_that_are_text(forged: Forged) -> None:
    document = {"format": "obygaze-store", "version": 1, "arrays": {"clip": "all"}}
    forged.raw["partial.json"] = with_checksum(document)


@case("licence.json is of another store", refused="verify pull http zip")
def licence_json_of_another_store(forged: Forged) -> None:
    statement = {"licence": "MIT", "citation": "", "stated": "x", "stated_by": "x"}
    document = {
        "format": "obygaze-store",
        "version": 1,
        "plan": "0" * 64,
        "statements": [statement],
    }
    forged.raw["licence.json"] = with_checksum(document)


# Chunks.
@case("strings of its rows|damaged", refused="read")
def ids_that_are_four_billion(forged: Forged) -> None:
    forged.put(
        "data.zarr/clip_id/c.0", with_crc(struct.pack("<I", 2**32 - 1) + b"\0" * 200)
    )


@case("damaged", refused="read")
def ids_that_are_longer_than_their_file(forged: Forged) -> None:
    data = struct.pack("<I", N_CLIPS) + struct.pack("<I", 2**31 - 1) * N_CLIPS
    forged.put("data.zarr/clip_id/c.0", with_crc(data))


@case("damaged", refused="read")
def ids_that_are_not_utf_8(forged: Forged) -> None:
    data = struct.pack("<I", N_CLIPS) + (struct.pack("<I", 2) + b"\xff\xfe") * N_CLIPS
    forged.put("data.zarr/clip_id/c.0", with_crc(data))


ZSTD = (
    b"\x28\xb5\x2f\xfd" + bytes([0b11100000]) + struct.pack("<Q", 2**42) + b"\x01\0\0"
)
for what, content in (
    ("of four terabytes", ZSTD),
    ("without a size", b"\x28\xb5\x2f\xfd\0\x58\x03\0\0\0"),
    ("of no bytes", b""),
    ("of zeros", b"\0" * 100),
):
    add(
        f"a zstd frame {what}",
        "bytes of its rows",
        lambda f, c=content: f.put_chunk(CHUNK, c),
        refused="read verify-hash",
        base="zstd",
    )


def blosc(place: int, value: int) -> Callable[[Forged], None]:
    """Change a field of the header of a chunk of 64 bytes, which Blosc copies."""

    def spoil(forged: Forged) -> None:
        content = forged.files[CHUNK][:-4]
        fields = list(struct.unpack("<BBBBIII", content[:16]))
        fields[place] = value
        forged.put_chunk(CHUNK, struct.pack("<BBBBIII", *fields) + content[16:])

    return spoil


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
    add(
        f"a Blosc header with {what}",
        "Blosc|bytes of its rows",
        blosc(place, value),
        refused="read verify-hash",
        base="blosc",
    )


@case("Blosc|bytes of its rows", refused="read verify-hash", base="blosc")
def a_blosc_chunk_that_reads_far_beyond_its_end(forged: Forged) -> None:
    header = struct.pack("<BBBBIII", 2, 1, 0x91, 4, 64, 64, 2**30)
    forged.put_chunk(CHUNK, header + struct.pack("<i", 2**29) + b"\0" * 80)


for what, words, change in (
    ("two entries exchanged", "order of their rows", lambda e: [e[1], e[0]]),
    ("one chunk for two", "order of their rows", lambda e: [e[0], e[0]]),
    ("a chunk absent", "absent before|chunks", lambda e: [(ABSENT, ABSENT), e[0]]),
    ("no chunk", "end at its index|chunks", lambda e: [(ABSENT, ABSENT)] * 2),
    ("a chunk beyond the file", "order of their rows", lambda e: [e[0], (2**40, 100)]),
    (
        "a chunk of 2**63 bytes",
        "end at its index|order",
        lambda e: [e[0], (e[1][0], 2**63)],
    ),
):
    add(
        f"the index of a shard with {what}",
        words + "|checksum",
        lambda f, c=change: f.put_index(c(f.entries())),
        refused="verify read",
    )


# What lies in the folder.
def replaced(name: str, make: Callable[[Path], object]) -> Callable[[Forged], None]:
    def spoil(forged: Forged) -> None:
        def after(path: Path) -> None:
            file = path / name
            if file.is_dir():
                for inner in sorted(file.rglob("*"), reverse=True):
                    inner.rmdir() if inner.is_dir() else inner.unlink()
                file.rmdir()
            elif file.exists():
                file.unlink()
            make(file)

        forged.after = after

    return spoil


# A web server and a zip have no links and pipes.
HERE = "verify read pull http"
for name in ("store.json", "seal.json", CHUNK, "data.zarr/clip"):
    link = replaced(name, lambda file: file.symlink_to("/etc/passwd"))
    add(
        f"{name} is a link",
        "symbolic links|missing|invalid JSON|bytes",
        link,
        refused=HERE,
    )
for name in ("store.json", "seal.json", CHUNK):
    add(
        f"{name} is a pipe",
        "regular file|missing",
        replaced(name, os.mkfifo),
        refused=HERE,
    )
    make_folder = replaced(name, Path.mkdir)
    # A server answers that there is no such file, as for a store that is not sealed yet.
    refused = "verify read pull" if name == "seal.json" else f"{HERE} zip"
    add(
        f"{name} is a folder",
        "regular file|missing|no store here",
        make_folder,
        refused=refused,
    )
for name in ("data.zarr", "data.zarr/clip"):
    a_file = replaced(name, lambda file: file.write_bytes(b"x"))
    add(f"{name} is a file", "missing", a_file, refused="verify read pull http zip")


def sparse(file: Path) -> None:
    with file.open("wb") as stream:
        stream.truncate(4_000_000_000)


for name in ("store.json", "seal.json", "data.zarr/clip/zarr.json"):
    add(
        f"{name} has 4 GB",
        "GB|bytes",
        replaced(name, sparse),
        refused="verify read pull"
        if name != "data.zarr/clip/zarr.json"
        else "verify pull",
    )


@case("", refused="")
def files_that_nobody_lists(forged: Forged) -> None:
    """They may lie there; no copy takes them."""
    forged.raw[".git/config"] = b"[core]\n\tfsmonitor = touch /tmp/pwned\n"
    forged.raw["zarr.py"] = b"raise SystemExit\n"


# Archives.
def packed(files: dict[str, bytes], path: Path, **more: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as out:
        for name, data in {**files, **more}.items():
            out.writestr(name, data)


def zip_case(words: str) -> Callable[..., Any]:
    def add(make: Callable[[dict[str, bytes], Path], None]) -> Any:
        CASES.append(ZipCase(make.__name__.replace("_", " "), make, words))
        return make

    return add


for entry in (
    "../outside",
    "/etc/cron.d/x",
    "..\\outside",
    "C:\\x",
    "data.zarr/../../x",
):
    CASES.append(
        ZipCase(
            f"a zip with the entry {entry!r}",
            lambda files, path, entry=entry: packed(files, path, **{entry: b"x"}),
            "leads out",
        )
    )


@zip_case("is not a file")
def a_zip_with_a_link(files: dict[str, bytes], path: Path) -> None:
    packed(files, path)
    with zipfile.ZipFile(path, "a") as out:
        entry = zipfile.ZipInfo("data.zarr/clip/link")
        entry.external_attr = 0o120777 << 16
        out.writestr(entry, "/etc/passwd")


@zip_case("compressed")
def a_zip_of_compressed_entries(files: dict[str, bytes], path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in files.items():
            out.writestr(name, data)


@zip_case("compressed or encrypted")
def a_zip_of_encrypted_entries(files: dict[str, bytes], path: Path) -> None:
    packed(files, path)
    data = bytearray(path.read_bytes())
    start = data.index(b"PK\x01\x02")
    data[start + 8] |= 1
    path.write_bytes(data)


@zip_case("same name")
def a_zip_with_two_entries_of_one_name(files: dict[str, bytes], path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as out:
        for name, data in files.items():
            out.writestr(name, data)
        out.fp.flush() if out.fp else None
        info = zipfile.ZipInfo("store.json")
        out.NameToInfo.pop("store.json")
        out.writestr(info, b"{}")


@zip_case("invalid name")
def a_zip_with_a_nul_in_a_name(files: dict[str, bytes], path: Path) -> None:
    packed(files, path, **{"zarr.pyX": b"x"})
    path.write_bytes(path.read_bytes().replace(b"zarr.pyX", b"zarr.py\0"))


@zip_case("longer than the zip|not a complete zip")
def a_zip_with_an_entry_longer_than_itself(files: dict[str, bytes], path: Path) -> None:
    packed(files, path)
    data = bytearray(path.read_bytes())
    start = data.index(b"PK\x01\x02")
    data[start + 20 : start + 28] = struct.pack("<II", 2**31, 2**31)
    path.write_bytes(data)


@zip_case("not a complete zip|not at the listed position|changed")
def a_zip_whose_entries_begin_elsewhere(files: dict[str, bytes], path: Path) -> None:
    packed(files, path)
    data = bytearray(path.read_bytes())
    start = -1
    while (start := data.find(b"PK\x01\x02", start + 1)) >= 0:
        data[start + 42 : start + 46] = struct.pack("<I", 11)
    path.write_bytes(data)


@zip_case("checksum|sha256|position|bytes|missing")
def a_zip_whose_entries_overlap(files: dict[str, bytes], path: Path) -> None:
    packed(files, path)
    data = bytearray(path.read_bytes())
    places = []
    start = -1
    while (start := data.find(b"PK\x01\x02", start + 1)) >= 0:
        places.append(start)
    for place in places[1:]:
        data[place + 42 : place + 46] = data[places[0] + 42 : places[0] + 46]
    path.write_bytes(data)


@zip_case("not a complete zip")
def half_a_zip(files: dict[str, bytes], path: Path) -> None:
    packed(files, path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


@zip_case("not a complete zip")
def a_zip_of_zeros(files: dict[str, bytes], path: Path) -> None:
    path.write_bytes(b"PK\x03\x04" + b"\0" * 10_000)


@zip_case("no store here")
def a_zip_without_a_store(files: dict[str, bytes], path: Path) -> None:
    packed({"zarr.py": b"x", ".git/config": b"x"}, path)


@zip_case("")
def a_zip_with_files_that_nobody_lists(files: dict[str, bytes], path: Path) -> None:
    packed(
        {**files, ".git/config": b"x", "zarr.py": b"x", "data.zarr/clip/x.py": b"x"},
        path,
    )


@zip_case("")
def a_zip_with_5_000_files_that_nobody_lists(
    files: dict[str, bytes], path: Path
) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as out:
        for name, data in files.items():
            out.writestr(name, data)
        for number in range(5_000):
            out.writestr(f"x/{number}", b"")
    path.write_bytes(buffer.getvalue())
