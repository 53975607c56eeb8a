"""An independent writer of the format of docs/store.md: zarr-python, NumPy, and nothing of obygaze.

It writes a whole store at once, from values in memory. Sizes that the page prescribes can be made
smaller, so that small stores have several chunks and files.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt
import zarr
from zarr.codecs import Crc32cCodec

ROW_COLUMNS = ("row", "clip_id", "movie_id", "start_s", "end_s", "status", "reason")
ROW_COLUMNS += ("video_bytes", "video_hash", "pictures", "maker")
STATUSES = ("ok", "failed", "no-video", "silent", "no-words")
STATUSES += ("not-extracted",)
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
    return {
        "name": name,
        "dtype": values.dtype.name,
        "shape": shape,
        "dims": dims,
        "chunk_rows": chunk_rows,
        "file_rows": file_rows,
        "compressor": "",
    }


def _power(limit: int, most: int) -> int:
    power = 1
    while power * 2 <= min(limit, most):
        power *= 2
    return power


def rows_of(
    clip_ids: Sequence[str],
    movie_ids: Sequence[str],
    status_of_row: Mapping[int, tuple[str, str]] | None = None,
) -> list[dict[str, Any]]:
    """Rows with a status and a reason; those that are not listed are ok."""
    rows = []
    for row, (clip, film) in enumerate(zip(clip_ids, movie_ids, strict=True)):
        status, reason = (status_of_row or {}).get(row, ("ok", ""))
        cells = dict.fromkeys(ROW_COLUMNS, "")
        cells |= {"row": str(row), "clip_id": clip, "movie_id": film}
        cells |= {"status": status, "reason": reason, "maker": "0"}
        rows.append(cells)
    return rows


def write_plain_store(
    path: Path,
    values: Mapping[str, npt.NDArray[Any]],
    rows: Sequence[Mapping[str, Any]],
    *,
    arrays: Sequence[Mapping[str, Any]] | None = None,
    recipe: Mapping[str, Any] = RECIPE,
    replaces: Sequence[str] = (),
    manifest_name: str = "made-up",
) -> str:
    """Write a store and return its seal. Rows that are not ok get the fill value.

    Args:
        path: The folder of the store.
        values: For each array, the numbers of all rows.
        rows: The cells of rows.csv.
        arrays: Entries of `arrays` in store.json, by default as the page prescribes.
        recipe: The recipe.
        replaces: The seals of the stores that it replaced.
        manifest_name: The name of the manifest.
    """
    entries = [dict(entry) for entry in arrays or ()]
    if not entries:
        entries = [array_of(name, array) for name, array in values.items()]
    path.mkdir(parents=True)
    (path / "checks").write_bytes(_write_zarr(path, values, rows, entries))
    _write_rows(path, rows)
    _write_ids(path, [str(row["clip_id"]) for row in rows])
    return seal_plain(path, rows, entries, recipe, replaces, manifest_name)


def _write_zarr(
    path: Path,
    values: Mapping[str, npt.NDArray[Any]],
    rows: Sequence[Mapping[str, Any]],
    entries: Sequence[Mapping[str, Any]],
) -> bytes:
    """Write data.zarr, and return the bytes of `checks`."""
    is_ok = np.array([row["status"] == "ok" for row in rows])
    group = zarr.open_group(
        path / "data.zarr",
        mode="w",
        zarr_format=3,
        attributes={"coordinates": "clip_id movie_id"},
    )
    checks = b""
    for entry in entries:
        shape = tuple(entry["shape"])
        numbers = values[entry["name"]].copy()
        fill = np.nan if numbers.dtype.kind == "f" else 0
        numbers[~is_ok] = fill
        # Chunks that have only fill values exist too.
        with zarr.config.set({"array.write_empty_chunks": True}):
            array = group.create_array(
                entry["name"],
                shape=numbers.shape,
                dtype=numbers.dtype,
                chunks=(entry["chunk_rows"], *shape),
                shards=(entry["file_rows"], *shape),
                compressors=[Crc32cCodec()],
                chunk_key_encoding=KEY,
                dimension_names=["row", *entry["dims"]],
                fill_value=fill,
            )
            array[:] = numbers
        for number in range(_ceil(len(rows), entry["file_rows"])):
            data = (path / file_name(entry, number)).read_bytes()
            checks += checks_of(data, entry["file_rows"] // entry["chunk_rows"])
    for name in ("clip_id", "movie_id"):
        column = _column(group, name, len(rows), str)
        column[:] = np.array([row[name] for row in rows])
    codes = [STATUSES.index(str(row["status"])) for row in rows]
    with zarr.config.set({"array.write_empty_chunks": True}):
        _column(group, "status", len(rows), "uint8")[:] = np.array(codes, np.uint8)
    return checks


def _column(group: Any, name: str, n_rows: int, dtype: Any) -> Any:
    return group.create_array(
        name,
        shape=(n_rows,),
        dtype=dtype,
        chunks=(n_rows,),
        compressors=[Crc32cCodec()],
        chunk_key_encoding=KEY,
        dimension_names=["row"],
    )


def checks_of(data: bytes, n_chunks: int) -> bytes:
    """The last 4 bytes of each chunk of a file that exists."""
    index = np.frombuffer(data[-16 * n_chunks - 4 : -4], "<u8").reshape(-1, 2)
    found = b""
    for offset, length in index.tolist():
        if offset != 2**64 - 1:
            found += data[offset + length - 4 : offset + length]
    return found


def file_name(entry: Mapping[str, Any], number: int) -> str:
    """The name of a file of an array."""
    return f"data.zarr/{entry['name']}/c.{number}" + ".0" * len(entry["shape"])


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _lines(rows: Sequence[Sequence[Any]]) -> list[bytes]:
    lines = []
    for row in rows:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(row)
        lines.append(text.getvalue().encode("utf-8"))
    return lines


def _write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows.csv and films.csv."""
    header, *lines = _lines(
        [ROW_COLUMNS, *([row[name] for name in ROW_COLUMNS] for row in rows)]
    )
    (path / "rows.csv").write_bytes(header + b"".join(lines))
    films: list[list[Any]] = []
    parts: list[bytes] = []
    byte = len(header)
    for number, (row, line) in enumerate(zip(rows, lines, strict=True)):
        is_same = bool(films) and films[-1][0] == row["movie_id"]
        if not is_same or films[-1][2] == 256:
            films.append([row["movie_id"], number, 0, byte])
            parts.append(b"")
        films[-1][2] += 1
        parts[-1] += line
        byte += len(line)
    table: list[list[Any]] = [["movie_id", "first_row", "rows", "byte", "crc32c"]]
    for film, part in zip(films, parts, strict=True):
        table.append([*film, f"{google_crc32c.value(part):08x}"])
    (path / "films.csv").write_bytes(b"".join(_lines(table)))


def _write_ids(path: Path, clip_ids: Sequence[str]) -> None:
    hashed = []
    for row, clip in enumerate(clip_ids):
        digest = hashlib.sha256(clip.encode("utf-8")).digest()
        hashed.append((int.from_bytes(digest[:8], "little"), row))
    hashed.sort()
    hashes = np.array([pair[0] for pair in hashed], "<u8").tobytes()
    numbers = np.array([pair[1] for pair in hashed], "<u4").tobytes()
    (path / "ids").write_bytes(hashes + numbers)


def seal_plain(
    path: Path,
    rows: Sequence[Mapping[str, Any]],
    entries: Sequence[Mapping[str, Any]],
    recipe: Mapping[str, Any] = RECIPE,
    replaces: Sequence[str] = (),
    manifest_name: str = "made-up",
) -> str:
    """Write store.json for the files that are there, and return the seal."""
    pairs = [[row["clip_id"], row["movie_id"]] for row in rows]
    counts = {"total": len(rows)}
    for status, key in zip(STATUSES, COUNTED, strict=True):
        counts[key] = sum(row["status"] == status for row in rows)
    files = {}
    for file in sorted(path.rglob("*")):
        name = file.relative_to(path).as_posix()
        if file.is_file() and name not in ("store.json", "README.md"):
            data = file.read_bytes()
            files[name] = [len(data), hashlib.sha256(data).hexdigest()]
    document = {
        "format": "obygaze-store",
        "version": 1,
        "created": "2026-11-25T00:00:00Z",
        "program": "plain_store 1",
        "manifest": {"name": manifest_name, "sha256": _canonical_sha256(pairs)},
        "recipe": recipe,
        "fingerprint": _canonical_sha256(recipe),
        "arrays": list(entries),
        "rows": counts,
        "makers": [{"program": "plain_store 1"}],
        "replaces": list(replaces),
        "origins": [],
        "files": files,
    }
    return write_document(path, json.dumps(document, ensure_ascii=False, indent=1))


def with_sha256(text: str) -> bytes:
    """The bytes of store.json for a document without `sha256`, which becomes its first key."""
    start = b'{\n "sha256": "'
    end = b'",' + text.strip().removeprefix("{").encode("utf-8") + b"\n"
    digits = hashlib.sha256(start + b"0" * 64 + end).hexdigest()
    return start + digits.encode() + end


def write_document(path: Path, text: str) -> str:
    """Write store.json, with `sha256` as its first key, and return the seal."""
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
            data = (path / name).read_bytes()
            document["files"][name] = [len(data), hashlib.sha256(data).hexdigest()]
    if change is not None:
        change(document)
    return write_document(path, json.dumps(document, ensure_ascii=False, indent=1))
