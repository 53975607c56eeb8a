"""What a verification compares, and what it says of a store."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
from support.plain_store import (
    TEXTS,
    array_of,
    reseal,
    rows_of,
    write_plain_store,
)

from obygaze_features.core.errors import Corrupt, Mismatch, Stopped
from obygaze_features.store.reading import open_store
from obygaze_features.store.verifying import verify

CLIPS = [f"c{n}" for n in range(9)]
FILMS = ["f", *"gggg", *"hhhh"]


def write(path: Path, **more) -> str:
    values = {"clip": np.arange(36, dtype="float32").reshape(9, 4)}
    values["count"] = np.arange(9, dtype="int32")
    values["real"] = np.ones((9, 2), dtype="bool")
    arrays = [
        array_of(name, array, chunk_rows=2, file_rows=4)
        for name, array in values.items()
    ]
    rows = rows_of(CLIPS, FILMS, {5: ("no-video", "no, none")})
    return write_plain_store(path, values, rows, arrays=arrays, **more)


def test_a_whole_store_says_what_was_compared(tmp_path: Path) -> None:
    seal = write(tmp_path / "s")
    report = verify(tmp_path / "s")
    n_bytes = sum(
        file.stat().st_size
        for file in (tmp_path / "s").rglob("*")
        if file.is_file() and file.name != "store.json"
    )
    assert report.n_bytes == n_bytes
    assert report.counts == {"ok": 8, "no-video": 1}
    assert str(report).splitlines()[1].endswith("not compared (--hash)")
    report = verify(tmp_path / "s", hashes=True, expect=seal)
    assert not report.problems and not report.warnings
    report.require_ok()
    text = str(report)
    assert text.startswith("whole: ")
    assert "8 with features, 1 without a video" in text
    assert text.endswith(f"the expected store: its seal is {seal}")
    assert report.to_json()["whole"] is True
    assert verify(f"{tmp_path}/s#sha256={seal}").is_expected
    with pytest.raises(Mismatch):
        verify(tmp_path / "s", expect="0" * 64)


@pytest.mark.parametrize("change", ["numbers", "checks"])
def test_what_no_reader_takes_is_no_whole_store(tmp_path: Path, change: str) -> None:
    """A row without features that has numbers, and checksums that no chunk has; hashes agree."""
    seal = write(tmp_path / "s")
    assert verify(tmp_path / "s", hashes=True, expect=seal).problems == []
    checks = bytearray((tmp_path / "s/checks").read_bytes())
    if change == "checks":
        # Those of six columns of one chunk come first.
        checks[27] ^= 1
        expected = "data.zarr/clip/c.0.0"
    else:
        # Row 5 is the second row of the third chunk of two rows, the first one of the second file.
        name = tmp_path / "s/data.zarr/clip/c.1.0"
        data = bytearray(name.read_bytes())
        data[16:32] = np.ones(4, "float32").tobytes()
        data[32:36] = google_crc32c.value(bytes(data[:32])).to_bytes(4, "little")
        name.write_bytes(data)
        checks[32:36] = data[32:36]
        expected = "data.zarr/clip/c.1.0"
    (tmp_path / "s/checks").write_bytes(checks)
    assert problems_of(tmp_path / "s") == [expected]


def problems_of(path: Path) -> list[str]:
    reseal(path)
    report = verify(path, hashes=True)
    if report.problems:
        with pytest.raises(Corrupt) as caught:
            report.require_ok()
        assert caught.value.exit_code == 4
        first, *others = map(str, report.problems)
        assert caught.value.message.startswith(first)
        assert list(caught.value.details) == others
        assert str(report) == "" and report.to_json()["whole"] is False
    return [problem.name for problem in report.problems]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("data.zarr/clip/zarr.json", {"shape": [9, 5]}),
        ("data.zarr/real/zarr.json", {"codecs": [{"name": "pickle"}]}),
        ("data.zarr/status/zarr.json", {"chunk_key_encoding": {"name": "v2"}}),
        ("data.zarr/zarr.json", {"must_understand": True}),
    ],
)
def test_documents_of_zarr_are_those_of_store_json(tmp_path, name, change) -> None:
    write(tmp_path / "s")
    file = tmp_path / "s" / name
    document = json.loads(file.read_bytes())
    file.write_text(json.dumps(document | change) + "\n", encoding="utf-8")
    assert problems_of(tmp_path / "s") == [name]


def test_what_no_reader_takes_as_a_column_is_no_whole_store(tmp_path: Path) -> None:
    """Hashes and checksums agree, and the texts or numbers cannot be those of a column."""
    path = tmp_path / "s"
    write(path)
    text = "data.zarr/clip_id/c.0"
    assert spoil_column(path, text, b"c0", b"c8") == [text]  # twice
    assert spoil_column(path, text, b"c0", b"  ") == [text]
    assert spoil_column(path, text, b"c0", b"\x1b0") == [text]
    assert spoil_column(path, text, b"c0", b"\xff0") == [text]
    assert spoil_column(path, text, b"\2\0\0\0c8", b"\x99\0\0\0c8") == [text]
    assert spoil_column(path, text, b"\x10\0\0\0", b"\x08\0\0\0") == [text]
    name = "data.zarr/movie_id/c.0"
    assert spoil_column(path, name, b"g", b"\0") == [name]
    name = "data.zarr/status/c.0"
    assert spoil_column(path, name, b"\2", b"\1") == [name]
    assert spoil_column(path, name, b"\2", b"\x63") == [name]
    name = "data.zarr/start_s/c.0"
    nan, infinite = np.array([np.nan, np.inf]).astype("<f8")
    assert spoil_column(path, name, nan.tobytes(), infinite.tobytes()) == [name]
    assert problems_of(path) == []


def spoil_column(path: Path, name: str, old: bytes, new: bytes) -> list[str]:
    """Change the chunk of a column, with its checksum here and in `checks`."""
    file, checks_file = path / name, path / "checks"
    before, checks = file.read_bytes(), checks_file.read_bytes()
    document = json.loads((path / "store.json").read_bytes())
    columns = [column["name"] for column in document["columns"]]
    place = columns.index(name.split("/")[1])
    end = (
        len(before) - 4
        if columns[place] in TEXTS
        else before.index(checks[4 * place : 4 * place + 4])
    )
    content = before[:end].replace(old, new, 1)
    assert content != before[:end]
    crc = google_crc32c.value(content).to_bytes(4, "little")
    file.write_bytes(content + crc + before[end + 4 :])
    checks_file.write_bytes(checks[: 4 * place] + crc + checks[4 * place + 4 :])
    found = problems_of(path)
    file.write_bytes(before)
    checks_file.write_bytes(checks)
    return found


def test_other_readers_learn_what_a_status_means(tmp_path: Path) -> None:
    write(tmp_path / "s")
    file = tmp_path / "s/data.zarr/status/zarr.json"
    document = json.loads(file.read_bytes())
    document["attributes"]["flag_meanings"] = "ok fine"
    file.write_text(json.dumps(document), encoding="utf-8")
    assert problems_of(tmp_path / "s") == ["data.zarr/status/zarr.json"]


def test_a_store_that_is_replaced_meanwhile_is_not_called_damaged(
    tmp_path: Path,
) -> None:
    write(tmp_path / "s")
    write(tmp_path / "later", manifest_name="later")
    checks = tmp_path / "later/checks"
    checks.write_bytes(checks.read_bytes() + b"\n")
    opened = open_store(tmp_path / "s")
    shutil.rmtree(tmp_path / "s")
    (tmp_path / "later").rename(tmp_path / "s")
    with pytest.raises(Stopped, match="the store was replaced while it was read"):
        verify(opened, hashes=True)
