"""An independent writer of the format of docs/store.md: zarr-python, NumPy, and nothing of obygaze.

It writes a whole store at once, from values in memory. Sizes that the page prescribes can be made
smaller, so that small stores have several chunks and files.
"""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.codecs import Crc32cCodec

TEXTS = ("clip_id", "movie_id", "reason", "video_hash")
WHOLE = ("start_frame", "end_frame", "video_bytes", "n_pictures")
COLUMNS = ("clip_id", "movie_id", "start_s", "end_s", "status", "reason")
COLUMNS += ("start_frame", "end_frame", "framerate")
COLUMNS += ("video_bytes", "video_hash", "n_pictures")
LABELS = COLUMNS[:6]
PAGE = Path(__file__).parents[2] / "docs" / "store.md"
# The table of the page: a status, and its code.
STATUSES = re.findall(
    r"^\| `([a-z-]+)` \| \d \|", PAGE.read_text("utf-8"), re.MULTILINE
)
COUNTED = tuple(status.replace("-", "_") for status in STATUSES)
KEY = {"name": "default", "separator": "."}
RECIPE = {"unknown": True, "source": "made up", "told": {"backbone": "toy"}}


def array_of(
    name: str,
    values: npt.NDArray[Any],
    *,
    chunk_rows: int | None = None,
    file_rows: int | None = None,
) -> dict[str, Any]:
    """An entry of `arrays`, with the sizes of the page unless others are asked for."""
    shape = list(values.shape[1:])
    row_bytes = max(1, math.prod(shape) * values.dtype.itemsize)
    if chunk_rows is None:
        chunk_rows = _power(131_072 // row_bytes, 4096)
    if file_rows is None:
        file_rows = max(chunk_rows, _power(67_108_864 // row_bytes, 1_048_576))
    dims = [f"{name}_{place}" for place in range(len(shape))]
    return _entry(name, values.dtype.name, shape, dims, chunk_rows, file_rows)


def _entry(name: str, dtype: str, shape, dims, chunk_rows, file_rows) -> dict[str, Any]:
    facts = {"name": name, "dtype": dtype, "shape": shape, "dims": dims}
    sizes = {"chunk_rows": chunk_rows, "file_rows": file_rows}
    return {**facts, **sizes, "compressor": ""}


def _power(limit: int, most: int) -> int:
    return 1 << (min(limit, most).bit_length() - 1) if limit else 1


def rows_of(
    clip_ids: Sequence[str],
    movie_ids: Sequence[str],
    status_of_row: Mapping[int, tuple[str, str]] | None = None,
) -> list[dict[str, Any]]:
    """Rows with a status and a reason; those that are not listed are ok."""
    rows = []
    for row, (clip, film) in enumerate(zip(clip_ids, movie_ids, strict=True)):
        status, reason = (status_of_row or {}).get(row, ("ok", ""))
        facts = {"clip_id": clip, "movie_id": film, "start_s": None, "end_s": None}
        rows.append(facts | {"status": status, "reason": reason})
    return rows


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, npt.NDArray[Any]]:
    """The values of each column: of those that only some stores have, if a row knows one."""
    columns: dict[str, npt.NDArray[Any]] = {}
    for name in COLUMNS:
        cells = [row.get(name) for row in rows]
        if name not in LABELS and not any(cell not in (None, "") for cell in cells):
            continue
        if name == "status":
            columns[name] = np.array(list(map(STATUSES.index, cells)), np.uint8)
        elif name in TEXTS:
            columns[name] = np.array([cell or "" for cell in cells])
        elif name in WHOLE:
            numbers = [-1 if cell is None else cell for cell in cells]
            columns[name] = np.array(numbers, np.int64)
        else:
            columns[name] = np.array(cells, np.float64)
    return columns


def column_entry(name: str, n_rows: int) -> dict[str, Any]:
    file_rows = min(1_048_576, 1 << (n_rows - 1).bit_length())
    chunk_rows = min(65_536, file_rows)
    dtype = "int64" if name in WHOLE else "uint8" if name == "status" else "float64"
    if name in TEXTS:
        dtype, file_rows = "string", chunk_rows
    return _entry(name, dtype, [], [], chunk_rows, file_rows)


def write_plain_store(
    path: Path,
    values: Mapping[str, npt.NDArray[Any]],
    rows: Sequence[Mapping[str, Any]],
    *,
    arrays: Sequence[Mapping[str, Any]] | None = None,
    **sealed: Any,
) -> str:
    """Write a store and return its seal. Rows that are not ok get the fill value."""
    entries = [dict(entry) for entry in arrays or ()]
    if not entries:
        entries = [array_of(name, array) for name, array in values.items()]
        file_rows = min(entry["file_rows"] for entry in entries)
        for entry in entries:
            chunk_rows = min(entry["chunk_rows"], file_rows)
            entry |= {"file_rows": file_rows, "chunk_rows": chunk_rows}
    path.mkdir(parents=True)
    (path / "chunks.crc32c").write_bytes(_write_zarr(path, values, rows, entries))
    return seal_plain(path, rows, entries, **sealed)


def _write_zarr(path: Path, values, rows, entries) -> bytes:
    is_ok = np.array([row["status"] == "ok" for row in rows])
    attributes = {"coordinates": " ".join(LABELS)}
    group = zarr.open_group(path, mode="w", zarr_format=3, attributes=attributes)
    checks = b""
    for name, column in columns_of(rows).items():
        entry = column_entry(name, len(rows))
        checks += _write_array(path, group, entry, column, "" if name in TEXTS else 0)
    for entry in entries:
        numbers = values[entry["name"]].copy()
        numbers[~is_ok] = np.nan if numbers.dtype.kind == "f" else 0
        checks += _write_array(path, group, entry, numbers, 0)
    consolidate(path)
    return checks


def _write_array(path: Path, group: Any, entry, values, fill: Any) -> bytes:
    shape = tuple(entry["shape"])
    is_text = entry["dtype"] == "string"
    attributes: dict[str, Any] = {}
    if entry["name"] == "status":
        numbers = list(range(len(STATUSES)))
        attributes = {"flag_values": numbers, "flag_meanings": " ".join(STATUSES)}
    # Chunks that have only fill values exist too.
    with zarr.config.set({"array.write_empty_chunks": True}):
        array = group.create_array(
            entry["name"],
            shape=values.shape,
            dtype=str if is_text else values.dtype,
            chunks=(entry["chunk_rows"], *shape),
            shards=None if is_text else (entry["file_rows"], *shape),
            compressors=[Crc32cCodec()],
            chunk_key_encoding=KEY,
            dimension_names=["row", *entry["dims"]],
            fill_value=np.nan if values.dtype.kind == "f" else fill,
            attributes=attributes,
        )
        array[:] = values
    checks = b""
    for number in range(-(-len(values) // entry["file_rows"])):
        data = (path / file_name(entry, number)).read_bytes()
        n_chunks = entry["file_rows"] // entry["chunk_rows"]
        checks += data[-4:] if is_text else checks_of(data, n_chunks)
    return checks


def consolidate(path: Path) -> None:
    """Write the documents of all arrays into that of the group."""
    file = path / "zarr.json"
    group = json.loads(file.read_bytes())
    files = sorted((path).glob("*/zarr.json"))
    metadata = {one.parent.name: json.loads(one.read_bytes()) for one in files}
    inline = {"kind": "inline", "must_understand": False, "metadata": metadata}
    file.write_text(json.dumps(group | {"consolidated_metadata": inline}), "utf-8")


def checks_of(data: bytes, n_chunks: int) -> bytes:
    """The last 4 bytes of each chunk of a file that exists."""
    index = np.frombuffer(data[-16 * n_chunks - 4 : -4], "<u8").reshape(-1, 2)
    found = b""
    for offset, length in index.tolist():
        if offset != 2**64 - 1:
            found += data[offset + length - 4 : offset + length]
    return found


def file_name(entry: Mapping[str, Any], number: int) -> str:
    return f"{entry['name']}/c.{number}" + ".0" * len(entry["shape"])


def seal_plain(
    path: Path,
    rows: Sequence[Mapping[str, Any]],
    entries: Sequence[Mapping[str, Any]],
    recipe: Mapping[str, Any] = RECIPE,
    replaces: Sequence[str] = (),
    manifest_name: str = "made-up",
) -> str:
    pairs = [[row["clip_id"], row["movie_id"]] for row in rows]
    counts = Counter(row["status"] for row in rows)
    of_statuses = zip(COUNTED, map(counts.get, STATUSES), strict=True)
    files = {}
    for file in sorted(path.rglob("*")):
        name = file.relative_to(path).as_posix()
        if file.is_file() and name not in ("store.json", "README.md"):
            files[name] = mark_of(file)
    document = {
        "format": "obygaze-store",
        "version": 1,
        "created": "2026-11-25T00:00:00Z",
        "program": "plain_store 1",
        "manifest": {"name": manifest_name, "sha256": _canonical_sha256(pairs)},
        "recipe": recipe,
        "fingerprint": _canonical_sha256(recipe),
        "columns": [column_entry(name, len(rows)) for name in columns_of(rows)],
        "arrays": list(entries),
        "rows": {"total": len(rows), **{key: n for key, n in of_statuses if n}},
        "makers": [{"program": "plain_store 1"}],
        "replaces": list(replaces),
        "origins": [],
        "files": files,
    }
    return write_document(path, json.dumps(document, ensure_ascii=False, indent=1))


def mark_of(file: Path) -> list[Any]:
    data = file.read_bytes()
    return [len(data), hashlib.sha256(data).hexdigest()]


def with_sha256(text: str) -> bytes:
    """The bytes of store.json for a document without `sha256`, which becomes its first key."""
    start = b'{\n "sha256": "'
    end = b'",' + text.strip().removeprefix("{").encode("utf-8") + b"\n"
    digits = hashlib.sha256(start + b"0" * 64 + end).hexdigest()
    return start + digits.encode() + end


def write_document(path: Path, text: str) -> str:
    data = with_sha256(text)
    (path / "store.json").write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def _canonical_sha256(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def reseal(path: Path, change: Callable[[dict[str, Any]], object] | None = None) -> str:
    """Write store.json anew for files that were changed, and return the seal.

    Lengths and hashes of the listed files that are there are made right. Then `change` gets the
    document.
    """
    document = json.loads((path / "store.json").read_bytes())
    del document["sha256"]
    for name in document["files"]:
        if (path / name).is_file():
            document["files"][name] = mark_of(path / name)
    if change is not None:
        change(document)
    return write_document(path, json.dumps(document, ensure_ascii=False, indent=1))
