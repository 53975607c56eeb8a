import json
import re
import shutil
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
from support import plain_store
from support.plain_store import array_of, reseal, rows_of, write_plain_store
from support.written_stores import files_of

from obygaze_features.core.errors import Corrupt, Stopped
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


def test_a_report_says_whether_bytes_and_publisher_were_checked(tmp_path: Path) -> None:
    seal = write(tmp_path / "s")
    report = verify(tmp_path / "s")
    assert report.counts == {"ok": 8, "no-video": 1} and not report.is_expected
    files = files_of(tmp_path / "s")
    assert report.n_bytes == sum(map(len, files.values())) - len(files["store.json"])
    words = r"the bytes were not compared \(--hash compares them, in about \d+ s\); every file"
    assert re.match(words, str(report))
    report = verify(f"{tmp_path}/s#sha256={seal}", hashes=True)
    assert report.is_expected and str(report).endswith(f"\nthe expected seal: {seal}")


def problems_of(path: Path) -> list[str]:
    reseal(path)
    report = verify(path, hashes=True)
    if report.problems:
        with pytest.raises(Corrupt) as caught:
            report.require_ok()
        assert caught.value.exit_code == 4
        first, *others = report.problems
        assert caught.value.message.startswith(first)
        assert list(caught.value.details) == others
        assert str(report).startswith("not whole: ")
        assert report.to_json()["whole"] is False
    return [problem.partition(": ")[0] for problem in report.problems]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("clip/zarr.json", {"shape": [9, 5]}),
        ("real/zarr.json", {"codecs": [{"name": "pickle"}]}),
        ("status/zarr.json", {"chunk_key_encoding": {"name": "v2"}}),
        ("zarr.json", {"must_understand": True}),
    ],
)
def test_documents_of_zarr_are_those_of_store_json(tmp_path, name, change) -> None:
    write(tmp_path / "s")
    file = tmp_path / "s" / name
    document = json.loads(file.read_bytes())
    file.write_text(json.dumps(document | change) + "\n", encoding="utf-8")
    assert problems_of(tmp_path / "s") == [name]


def test_other_readers_find_the_chunks_of_a_file(tmp_path: Path) -> None:
    """This program needs no index; one that names other chunks gives zarr other numbers."""
    write(tmp_path / "s")
    name = "clip/c.0.0"
    data = bytearray((tmp_path / "s" / name).read_bytes())
    # Two chunks, with their offsets and lengths in 16 bytes each, and the CRC of the index.
    index = data[-20:-4] + data[-36:-20]
    data[-36:] = index + google_crc32c.value(bytes(index)).to_bytes(4, "little")
    (tmp_path / "s" / name).write_bytes(data)
    assert problems_of(tmp_path / "s") == [name]


def test_other_readers_learn_what_a_status_means(tmp_path: Path) -> None:
    write(tmp_path / "s")
    file = tmp_path / "s/status/zarr.json"
    document = json.loads(file.read_bytes())
    document["attributes"]["flag_meanings"] = "ok fine"
    file.write_text(json.dumps(document), encoding="utf-8")
    assert problems_of(tmp_path / "s") == ["status/zarr.json"]


def test_a_store_of_a_version_with_more_statuses_is_whole(tmp_path, monkeypatch):
    for name, more in (("STATUSES", "too-dark"), ("COUNTED", "too_dark")):
        words = (*getattr(plain_store, name), more)
        monkeypatch.setattr(plain_store, name, words)
    write(tmp_path / "s")
    text = (tmp_path / "s/status/zarr.json").read_text("utf-8")
    assert "too-dark" in text
    assert problems_of(tmp_path / "s") == []


def test_a_store_that_is_replaced_meanwhile_is_not_called_damaged(tmp_path) -> None:
    write(tmp_path / "s")
    write(tmp_path / "later", manifest_name="later")
    checks = tmp_path / "later/chunks.crc32c"
    checks.write_bytes(checks.read_bytes() + b"\n")
    opened = open_store(tmp_path / "s")
    shutil.rmtree(tmp_path / "s")
    (tmp_path / "later").rename(tmp_path / "s")
    with pytest.raises(Stopped, match="the store was replaced while it was read"):
        verify(opened, hashes=True)
