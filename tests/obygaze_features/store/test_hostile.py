"""A corpus of stores of strangers, read in this process; story 20 reads some by commands.

Each gets an error of a few lines, or does no harm; none takes much memory or writes a file of
another name.
"""

import json
import re
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from support.cli import environment
from support.hostile_stores import CASES, as_many_rows, write_whole
from support.plain_store import reseal, with_sha256, write_document

from obygaze_features.core import system
from obygaze_features.core.errors import FixInput, ObygazeError
from obygaze_features.store.files import MOST_DOCUMENT_BYTES
from obygaze_features.store.reading import Store, open_store
from obygaze_features.store.verifying import verify

MOST_BYTES = 50_000_000


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "s"
    write_whole(path)
    return path


def read_all(path: Path) -> list[ObygazeError]:
    """The errors of each way to read a store, and of its verification."""
    errors = []
    try:
        store = open_store(path)
    except ObygazeError as error:
        return [error]
    clips = ["clip-4", "clip-11", "absent"]
    films = ["film-0", "film-2"]
    ways: list[Callable[[], object]] = [
        lambda: store.recipe,
        lambda: store.rows,
        lambda: store.clip_ids,
        lambda: store.status(),
        lambda: store.matrix("plain", missing="drop"),
        lambda: store.matrix("other", clips=clips, missing="drop"),
        lambda: store.matrix("other", films=films, missing="drop"),
        lambda: verify(store, hashes=True).require_ok(),
    ]
    for way in ways:
        try:
            way()
        except ObygazeError as error:
            errors.append(error)
    return errors


@pytest.mark.parametrize("name", CASES, ids=ascii)
def test_a_hostile_store_is_refused(name: str, whole: Path, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("name", [name for name in CASES if "the table" in name])
def test_a_store_whose_table_is_refused_is_not_whole(name, whole, tmp_path) -> None:
    spoil, words = CASES[name]
    shutil.copytree(whole, tmp_path / "s")
    spoil(tmp_path / "s")
    with pytest.raises(ObygazeError, match=words):
        verify(tmp_path / "s", hashes=True).require_ok()


def test_two_rows_of_one_clip_are_not_read(whole: Path, tmp_path: Path) -> None:
    spoil, _ = CASES["the table has a clip twice"]
    shutil.copytree(whole, tmp_path / "s")
    spoil(tmp_path / "s")
    store = open_store(tmp_path / "s")
    for read in (store.status, store.torch, lambda: store["plain"]):
        with pytest.raises(ObygazeError, match="a clip occurs twice"):
            read()


def test_rows_that_need_more_memory_than_there_is(whole, tmp_path, monkeypatch) -> None:
    """The checksums are as long as they should be, and take no place on the disk."""
    n_rows = 2**26
    shutil.copytree(whole, tmp_path / "s")
    reseal(tmp_path / "s", lambda store: as_many_rows(store, n_rows))
    monkeypatch.setattr(system, "memory_bytes", lambda: 2**30)
    ways: list[Callable[[Store], object]] = [
        lambda store: store.status(),
        lambda store: store.matrix("plain", missing="drop"),
        lambda store: store.matrix("other", clips=["clip-4"]),
        lambda store: store.presence(["clip-4"]),
    ]
    for way in ways:
        with pytest.raises(FixInput, match=r"rows needs 4.* GB of memory"):
            way(open_store(tmp_path / "s"))
    assert verify(tmp_path / "s").problems


def test_the_store_of_these_tests_is_otherwise_right(whole: Path) -> None:
    assert read_all(whole) == []
    assert len(CASES) > 120


@pytest.mark.check("a long document, in a process of its own")
def test_a_quarter_of_the_longest_document_takes_less_than_125_mb(tmp_path, whole):
    """store.json has many bytes, in as many records as possible."""
    entry = '{"program":""}'
    shutil.copytree(whole, tmp_path / "s")
    document = json.loads((whole / "store.json").read_bytes())
    del document["sha256"]
    document["makers"] = ["HERE"]
    text = json.dumps(document)
    n_free = MOST_DOCUMENT_BYTES // 4 - len(with_sha256(text.replace('"HERE"', "")))
    entries = ",".join([entry] * (n_free // (len(entry) + 1)))
    write_document(tmp_path / "s", text.replace('"HERE"', entries))
    program = (
        "import resource, sys\n"
        "from obygaze_features.core.errors import ObygazeError\n"
        "from obygaze_features.store.reading import open_store\n"
        "limit = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + 125_000_000\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))\n"
        "try:\n    print('opened', len(open_store(sys.argv[1])))\n"
        "except ObygazeError as error:\n    print('refused', error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "s"],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == "opened"
