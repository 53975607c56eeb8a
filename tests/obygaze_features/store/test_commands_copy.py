from __future__ import annotations

import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze
from support.store_servers import web_server
from support.stores import (
    copy_of_sealed,
    partial_copy,
)

from obygaze_features.store import open_store


@pytest.fixture
def home(workspace: Path) -> Path:
    copy_of_sealed(workspace / "stores" / "toy")
    return workspace


def test_pack_and_unpack(home: Path, tmp_path: Path) -> None:
    said = call_obygaze("-C", home, "store", "pack", "toy", cwd=tmp_path).ok()
    assert "toy.zip: 37 files" in said.stdout
    packed = call_obygaze(
        *("-C", home, "store", "pack", "toy", "-o", "again.zip", "--json"), cwd=tmp_path
    ).ok()
    assert packed.json()["sha256"] in said.stdout
    unpacked = call_obygaze(
        "-C", home, "store", "unpack", "again.zip", cwd=tmp_path
    ).ok()
    assert "transferred" in unpacked.stdout and "asked for" not in unpacked.stdout
    assert open_store(home / "stores" / "again").n_clips == 23
    refused = call_obygaze("-C", home, "store", "pack", "toy", cwd=tmp_path)
    assert refused.code == 1
    assert "--force" in refused.stderr
    call_obygaze("-C", home, "store", "pack", "toy", "--force", cwd=tmp_path).ok()


def test_a_packed_store_in_the_workspace_does_not_take_the_name_of_a_new_one(
    home: Path, tmp_path: Path
) -> None:
    """`unpack` and `pull` name the new store after the zip, which may be in the same folder."""
    packed = home / "stores" / "films.zip"
    np.savez(tmp_path / "f.npz", clip_id=["a-1", "b-1"], X=np.zeros((2, 3), np.float32))
    call_obygaze("-C", home, "store", "pack", "toy", "-o", packed).ok()
    for words in (
        ("unpack", packed),
        ("pull", packed),
        ("subset", "toy", "--array", "clip", "-o", "films"),
        ("merge", "toy", "-o", "films"),
        ("import", "npz", tmp_path / "f.npz", "--array", "clip=X", "-o", "films"),
    ):
        call_obygaze("-C", home, "store", *words).ok()
        assert open_store(home / "stores" / "films").sealed, words
        shutil.rmtree(home / "stores" / "films")


def test_a_store_that_grows_is_packed_with_a_warning(
    home: Path, tmp_path: Path
) -> None:
    from support.stores import fill_store, plan_store, some_values

    plan_store(home / "stores" / "new")
    fill_store(home / "stores" / "new", some_values(23), blocks=[0])
    said = call_obygaze("-C", home, "store", "pack", "new", cwd=tmp_path).ok()
    assert "not sealed" in said.stderr


@pytest.mark.parametrize(
    ("name", "in_its_place"),
    [("night.tar.gz", "night.zip"), ("night.7z", "night.zip"), ("a.b", "a.b.zip")],
)
def test_a_zip_with_the_ending_of_another_archive_is_refused(
    home: Path, tmp_path: Path, name: str, in_its_place: str
) -> None:
    done = call_obygaze("-C", home, "store", "pack", "toy", "-o", name, cwd=tmp_path)
    assert done.code == 2
    assert f"a packed store is a zip file, got the ending .{name.split('.')[-1]}" in (
        done.stderr
    )
    assert f"Try: -o {in_its_place}" in done.stderr
    assert not list(tmp_path.glob("*.*"))
    call_obygaze(
        "-C", home, "store", "pack", "toy", "-o", "night.ZIP", cwd=tmp_path
    ).ok()


@pytest.mark.parametrize("name", ["./", "../toy"])
def test_a_store_is_never_packed_into_itself(home: Path, name: str) -> None:
    """`store pack ./` wrote a file `.zip` into the store."""
    store = home / "stores" / "toy"
    before = sorted(path.name for path in store.iterdir())
    done = call_obygaze("store", "pack", name, cwd=store)
    assert (done.code, "would be in the store itself" in done.stderr) == (2, True)
    assert "-o ../toy.zip" in done.stderr
    assert sorted(path.name for path in store.iterdir()) == before
    call_obygaze("store", "pack", name, "-o", "../toy.zip", cwd=store).ok()
    assert open_store(home / "stores" / "toy.zip").n_clips == 23


def test_a_packed_store_has_the_name_of_its_folder(home: Path) -> None:
    call_obygaze("store", "pack", "toy/../toy/", cwd=home / "stores").ok()
    assert (home / "stores" / "toy.zip").is_file()


def test_the_ids_of_a_file_may_begin_with_a_byte_order_mark(home: Path) -> None:
    ids = open_store(home / "stores" / "toy").clip_ids.tolist()[:2]
    (home / "chosen.txt").write_bytes("\n".join(ids).encode("utf-8-sig"))
    words = ("store", "subset", "toy", "--clips", "chosen.txt", "-o", "two")
    call_obygaze(*words, cwd=home).ok()
    assert open_store(home / "stores" / "two").clip_ids.tolist() == ids


def test_the_store_of_a_user_is_pulled_under_its_own_name(home: Path) -> None:
    (home / "me@lab").mkdir()
    copy_of_sealed(home / "me@lab" / "films")
    call_obygaze("store", "pull", "me@lab/films", cwd=home).ok()
    assert open_store(home / "stores" / "films").n_clips == 23
    assert not (home / "stores" / "me").exists()


def test_push_to_another_folder_suggests_no_option_that_push_lacks(home: Path) -> None:
    result = call_obygaze("-C", home, "store", "push", "toy", home)
    assert result.code == 1
    assert result.stderr.splitlines()[0] == "Error: this exists and is not a store"
    assert result.stderr.splitlines()[2] == "  Try: choose another name"


def test_pull_says_what_it_needed_and_transferred(home: Path) -> None:
    with web_server(home / "stores") as server:
        done = call_obygaze(
            "-C", home, "store", "pull", f"{server.url}/toy", "-o", "copy"
        ).ok()
        assert "37 files" in done.stdout
        assert "transferred in 39 requests" in done.stdout
        part = call_obygaze(
            *("-C", home, "store", "pull", f"{server.url}/toy", "-o", "part", "--json"),
            *("--array", "pooled", "--film", "tt0000101"),
        ).ok()
    told = part.json()
    assert told["part"]
    assert told["n_bytes_rows"] == 5 * (6 * 4 + 3 * 8)
    assert told["n_bytes_needed"] < told["n_bytes_transferred"]
    verified = call_obygaze("-C", home, "store", "verify", "part", "--hash").ok()
    assert verified.stdout.startswith("whole: ")
    toy, copy = home / "stores/toy", home / "stores/partial"
    partial_copy(toy, copy, arrays=["pooled"], films=["tt0000101"])
    verified = call_obygaze("-C", home, "store", "verify", "partial", "--hash").ok()
    assert verified.stdout.startswith("partial copy, whole in what it holds: ")
    shown = call_obygaze("-C", home, "store", "info", "partial").ok().stdout
    rows = [line.split() for line in shown.splitlines()]
    absent = [
        name
        for name in open_store(home / "stores" / "toy").feature_arrays
        if name != "pooled"
    ]
    assert [row[0] for row in rows if row and row[0] in ("pooled", *absent)] == [
        "pooled"
    ]
    assert f"not in this copy: {', '.join(absent)}" in shown
    listed = call_obygaze("-C", home, "store", "ls", "--json").ok().json()["stores"]
    assert {one["name"]: one["feature_arrays"] for one in listed}["partial"] == [
        "pooled"
    ]


def test_the_name_of_a_pulled_store_is_the_last_word_of_its_address(
    home: Path, tmp_path: Path
) -> None:
    (tmp_path / "other" / "stores").mkdir(parents=True)
    with web_server(home / "stores") as server:
        call_obygaze(
            "-C", tmp_path / "other", "store", "pull", f"{server.url}/toy/"
        ).ok()
    assert open_store(tmp_path / "other" / "stores" / "toy").n_clips == 23


def test_push_to_a_folder(home: Path, tmp_path: Path) -> None:
    done = call_obygaze(
        "-C", home, "store", "push", "toy", tmp_path / "lab" / "toy"
    ).ok()
    assert "37 files" in done.stdout
    assert open_store(tmp_path / "lab" / "toy").sealed


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["pull", "nothing-here"], 1, "no store"),
        (["pull", "toy", "-o", "s3://films/x"], 2, "to a folder"),
        (["pull", "toy", "-o", "copy", "--array", "none"], 1, "no array 'none'"),
        (["pull", "toy", "-o", "copy", "--film", "none"], 1, "no film 'none'"),
        (["push", "toy", "https://example.org/x"], 2, "cannot push to"),
        (["push", "toy", "hf://onlyone"], 2, "hf://OWNER/NAME"),
        (["unpack", "stores/toy/README.md"], 4, "not a complete zip"),
    ],
)
def test_what_cannot_be_done_is_said(
    home: Path, words: list[str], code: int, told: str
) -> None:
    done = call_obygaze("store", *words, cwd=home)
    assert done.code == code
    assert told in done.stderr


def test_without_the_extra_it_says_what_to_install(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    for name in ("obstore", "obstore.store", "obstore.exceptions", "huggingface_hub"):
        monkeypatch.setitem(sys.modules, name, None)
    for place in ("s3://films/x", "hf://lab/films", "http://127.0.0.1:1/x"):
        done = call_obygaze("-C", home, "store", "pull", place, "-o", "x")
        assert done.code == 2
        assert 'pip install "obygaze[remote]"' in done.stderr


@pytest.mark.parametrize(
    ("command", "name"),
    [
        *product(["pull", "unpack", "import", "subset", "push"], ["./", "../", "."]),
        *product(["pull", "unpack", "import", "subset"], ["runs/", "stores/"]),
    ],
)
def test_no_store_is_written_to_a_folder_of_the_workspace(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, name: str
) -> None:
    here = tmp_path / "here" / "empty"
    here.mkdir(parents=True)
    source = home / "stores" / "toy"
    monkeypatch.chdir(tmp_path)
    call_obygaze("store", "pack", source, "-o", "toy.zip").ok()
    call_obygaze("store", "export", "npz", source, "toy.npz").ok()
    words = {
        "pull": ("pull", source, "-o", name),
        "unpack": ("unpack", tmp_path / "toy.zip", "-o", name),
        "import": ("import", "npz", tmp_path / "toy.npz", "-o", name),
        "subset": ("subset", source, "--film", "tt0000100", "-o", name),
        "push": ("push", source, name),
    }
    monkeypatch.chdir(here)
    done = call_obygaze("store", *words[command])
    assert done.code in (1, 2)
    assert "a bug" not in done.stderr
    assert list(here.iterdir()) == []
    assert [path.name for path in here.parent.iterdir()] == ["empty"]
