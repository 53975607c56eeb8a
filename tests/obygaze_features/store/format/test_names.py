"""The names that a store may list, against the table of docs/format.md, by hand."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from support.store_damage import changed
from support.stores import copy_of_sealed, plan_store, tree

from obygaze_features.core.errors import Corrupt
from obygaze_features.store import open_store, pack, pull, push
from obygaze_features.store.format.names import StoreNames
from obygaze_features.store.format.records import with_checksum
from obygaze_features.store.format.schema import FileMark
from obygaze_features.store.read.verify import verify
from obygaze_features.store.write.edit import merge, subset

# 23 clips in blocks of 4: blocks 0 to 5.
NAMES = StoreNames({"clip": 1, "frames": 2, "score": 0}, 23, 6)
ALLOWED = (
    "store.json",
    "clips.csv",
    "README.md",
    "sources.json",
    "index/movies.json",
    "index/0.json",
    "gathered/clip",
    "data.zarr/zarr.json",
    "data.zarr/clip/zarr.json",
    "data.zarr/clip/c.5.0",
    "data.zarr/frames/c.0.0.0",
    "data.zarr/score/c.3",
    "data.zarr/clip_id/zarr.json",
    "data.zarr/clip_id/c.0",
    "data.zarr/movie_id/c.22",
    "data.zarr/text/zarr.json",
    "data.zarr/text/embeddings/zarr.json",
    "data.zarr/text/embeddings/c.0.0",
    "data.zarr/text/prompt/c.0",
    "data.zarr/text/attribute/zarr.json",
)
REFUSED = (
    "",
    ".git/config",
    ".gitattributes",
    ".envrc",
    "zarr.py",
    "data.zarr/clip/__init__.py",
    "Makefile",
    "index.html",
    "STORE.JSON",
    "store.json/",
    "seal.json",
    "partial.json",
    "commits/block-00000.json",
    "staging/block-00000/marker.x",
    "data.zarr/.zattrs",
    "data.zarr/clip/c.6.0",
    "data.zarr/clip/c.0",
    "data.zarr/clip/c.0.0.0",
    "data.zarr/clip/c.00.0",
    "data.zarr/clip/c.\u0661.0",
    "data.zarr/clip/c.0.0\x00",
    "data.zarr/clip/c.0.0\n",
    "data.zarr/other/c.0.0",
    "data.zarr/clip_id/c.23",
    "data.zarr/text/c.0",
    "data.zarr/text/embeddings/c.0",
    "data.zarr/text/prompt/c.007",
    "index/6.json",
    "gathered/other",
    "gathered/clip_id",
    "gathered/clip/c.0",
    "other/gathered/clip",
    "index/00.json",
    "x" * 300,
)


@pytest.mark.parametrize("name", ALLOWED)
def test_a_name_of_the_format_is_allowed(name: str) -> None:
    assert name in NAMES


@pytest.mark.parametrize("name", REFUSED)
def test_any_other_name_is_refused(name: str) -> None:
    assert name not in NAMES
    with pytest.raises(Corrupt, match="no store has such a file") as caught:
        NAMES.require([*ALLOWED, name], "here")
    assert len(str(caught.value)) < 300


def test_a_seal_of_many_files_is_checked_quickly() -> None:
    names = StoreNames({"clip": 1}, 10_000_000, 200_000)
    listed = [names.block_key("clip", block) for block in range(200_000)]
    started = time.process_time()
    names.require(listed, "here")
    assert time.process_time() - started < 2


def with_listed(path: Path, name: str, data: bytes) -> Path:
    """A copy of a sealed store whose seal lists one more file, with the right checksum."""
    copy_of_sealed(path)
    (path / name).parent.mkdir(parents=True, exist_ok=True)
    (path / name).write_bytes(data)
    files = json.loads((path / "seal.json").read_bytes())["files"]
    changed(path / "seal.json", files={**files, name: list(FileMark.of(data))})
    return path


@pytest.mark.parametrize("name", [".git/config", "zarr.py"])
def test_no_way_out_of_a_store_takes_a_file_that_its_seal_should_not_list(
    tmp_path: Path, name: str
) -> None:
    path = with_listed(tmp_path / "s", name, b"[core]\nfsmonitor = touch pwned\n")
    report = verify(path, hashes=True)
    assert [problem.name for problem in report.problems] == ["seal.json"]
    assert repr(name) in report.problems[0].message
    ways = {
        "read": lambda target: open_store(path).matrix("clip"),
        "pull": lambda target: pull(path, target),
        "push": lambda target: push(open_store(path), target),
        "pack": lambda target: pack(open_store(path), target),
        "subset": lambda target: subset(open_store(path), target, films=["tt0000100"]),
        "merge": lambda target: merge([open_store(path)], target),
    }
    for way, call in ways.items():
        with pytest.raises(Corrupt, match=re.escape(repr(name))):
            call(tmp_path / way)
    written = set(tree(tmp_path)) - {f"s/{file}" for file in tree(path)}
    assert written == set()


def test_a_plan_and_a_marker_of_texts_are_held_to_the_same_names(
    tmp_path: Path,
) -> None:
    plan_store(tmp_path / "s", 5)
    document = json.loads((tmp_path / "s/store.json").read_bytes())
    files = document["files"]
    changed(tmp_path / "s/store.json", files={**files, ".envrc": files["clips.csv"]})
    with pytest.raises(Corrupt, match=r"'\.envrc' is listed"):
        open_store(tmp_path / "s")
    changed(tmp_path / "s/store.json", files=files)
    marks = {"data.zarr/text/run.py": [1, "0" * 64]}
    marker = with_checksum({"format": "obygaze-store", "version": 1, "files": marks})
    (tmp_path / "s/commits/text.json").write_bytes(marker)
    with pytest.raises(Corrupt, match=r"text/run\.py' is listed"):
        open_store(tmp_path / "s").text()
