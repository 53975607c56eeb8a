from __future__ import annotations

import shutil
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.stores import (
    copy_of_sealed,
    fill_store,
    plan_store,
    sealed_store,
    some_values,
)

from obygaze_features.core.errors import (
    AlreadyThere,
    Corrupt,
    FixInput,
    Mismatch,
    NotFound,
)
from obygaze_features.store import open_store
from obygaze_features.store.read.verify import verify
from obygaze_features.store.remote.fetch import pull, unpack
from obygaze_features.store.remote.selection import select_files
from obygaze_features.store.remote.send import pack


def tree(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    return copy_of_sealed(tmp_path / "s")


def test_the_same_store_gives_the_same_bytes_wherever_it_lies(
    tmp_path: Path, sealed: Path
) -> None:
    first = pack(open_store(sealed), tmp_path / "a.zip")
    elsewhere = tmp_path / "elsewhere"
    # Other dates, other rights, another order of names on the disk.
    for name in sorted(tree(sealed), reverse=True):
        (elsewhere / name).parent.mkdir(parents=True, exist_ok=True)
        (elsewhere / name).write_bytes((sealed / name).read_bytes())
        (elsewhere / name).chmod(0o600)
    second = pack(open_store(elsewhere), tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    assert first.sha256 == second.sha256
    assert first.n_files == len(tree(sealed))


def test_a_packed_store_is_packed_the_same_again(tmp_path: Path, sealed: Path) -> None:
    pack(open_store(sealed), tmp_path / "a.zip")
    pack(open_store(tmp_path / "a.zip"), tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_it_is_read_in_place_and_whole(tmp_path: Path) -> None:
    values = sealed_store(tmp_path / "s")
    pack(open_store(tmp_path / "s"), tmp_path / "s.zip")
    store = open_store(tmp_path / "s.zip")
    for name, expected in values.items():
        np.testing.assert_array_equal(store.matrix(name).values, expected)
    verify(store, hashes=True).require_whole()


def test_entries_are_stored_in_order_with_one_date(
    tmp_path: Path, sealed: Path
) -> None:
    pack(open_store(sealed), tmp_path / "s.zip")
    with zipfile.ZipFile(tmp_path / "s.zip") as packed:
        entries = packed.infolist()
    names = [entry.filename for entry in entries]
    assert names[:2] == ["store.json", "seal.json"]
    assert names[2:] == sorted(names[2:])
    assert {entry.compress_type for entry in entries} == {zipfile.ZIP_STORED}
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
    # What another program unpacks is the store, file by file.
    with zipfile.ZipFile(tmp_path / "s.zip") as packed:
        packed.extractall(tmp_path / "by-hand")
    assert tree(tmp_path / "by-hand") == tree(sealed)


def test_unpacking_gives_back_every_byte(tmp_path: Path, sealed: Path) -> None:
    pack(open_store(sealed), tmp_path / "s.zip")
    unpack(tmp_path / "s.zip", tmp_path / "again")
    assert tree(tmp_path / "again") == tree(sealed)
    assert not list(tmp_path.glob(".*"))


def test_a_store_that_grows_is_packed_as_far_as_it_is(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    values = some_values(23)
    fill_store(tmp_path / "s", values, blocks=[0, 2])
    assert not pack(open_store(tmp_path / "s"), tmp_path / "s.zip").sealed
    unpack(tmp_path / "s.zip", tmp_path / "again")
    assert open_store(tmp_path / "again").status().counts == {"ok": 8, "missing": 15}
    fill_store(tmp_path / "again", values).seal()
    np.testing.assert_array_equal(
        open_store(tmp_path / "again").matrix("frames").values, values["frames"]
    )


def test_a_part_is_packed_as_any_store(tmp_path: Path, sealed: Path) -> None:
    pull(sealed, tmp_path / "part", arrays=["pooled"], films=["tt0000102"])
    pack(open_store(tmp_path / "part"), tmp_path / "p.zip")
    unpack(tmp_path / "p.zip", tmp_path / "unpacked")
    assert tree(tmp_path / "unpacked") == tree(tmp_path / "part")
    store = open_store(tmp_path / "p.zip")
    assert store.matrix("pooled").values.shape == (5, 6)
    assert store.plan.origins == open_store(tmp_path / "part").plan.origins != ()


def test_no_file_is_replaced_unless_forced(tmp_path: Path, sealed: Path) -> None:
    (tmp_path / "s.zip").write_bytes(b"something else")
    with pytest.raises(AlreadyThere):
        pack(open_store(sealed), tmp_path / "s.zip")
    assert (tmp_path / "s.zip").read_bytes() == b"something else"
    with pytest.raises(AlreadyThere, match="not an obygaze packed store"):
        pack(open_store(sealed), tmp_path / "s.zip", force=True)
    assert (tmp_path / "s.zip").read_bytes() == b"something else"
    pack(open_store(sealed), tmp_path / "t.zip")
    whole = (tmp_path / "t.zip").read_bytes()
    for damaged in (whole, whole[:1000]):  # also one that was not copied to its end
        (tmp_path / "t.zip").write_bytes(damaged)
        pack(open_store(sealed), tmp_path / "t.zip", force=True)
        assert (tmp_path / "t.zip").read_bytes() == whole


def test_a_failed_unpack_leaves_what_a_pull_has_fetched(
    tmp_path: Path, sealed: Path
) -> None:
    pack(open_store(sealed), tmp_path / "s.zip")
    content = tree(sealed)
    content["data.zarr/frames/c.1.0.0"] = bytes(
        len(content["data.zarr/frames/c.1.0.0"])
    )
    rezip(tmp_path / "z.zip", content)
    fetched = tmp_path / f".again~-.0.{'0' * 12}.pull" / "parts" / "of-another-pull"
    fetched.parent.mkdir(parents=True)
    fetched.write_bytes(b"hours")
    with pytest.raises(Corrupt):
        unpack(tmp_path / "z.zip", tmp_path / "again")
    assert fetched.read_bytes() == b"hours"


def test_a_damaged_store_is_not_packed(tmp_path: Path, sealed: Path) -> None:
    victim = sealed / "data.zarr" / "pooled" / "c.3.0"
    flip(victim, 10)
    with pytest.raises(Corrupt, match=r"data\.zarr/pooled/c\.3\.0"):
        pack(open_store(sealed), tmp_path / "s.zip")
    assert not list(tmp_path.glob("*.zip")) + list(tmp_path.glob(".*"))


def test_the_size_is_known_before(tmp_path: Path, sealed: Path) -> None:
    assert select_files(sealed).n_bytes == sum(map(len, tree(sealed).values()))


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


def rezip(
    path: Path,
    content: Mapping[str, bytes],
    method: int = zipfile.ZIP_STORED,
    **attributes: Any,
) -> Path:
    with zipfile.ZipFile(path, "w", method) as out:
        for name, data in content.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = method
            for key, value in attributes.items():
                setattr(entry, key, value)
            out.writestr(entry, data)
    return path


def test_compressed_entries_are_refused(tmp_path: Path, sealed: Path) -> None:
    bomb = {**tree(sealed), "data.zarr/pooled/c.0.0": bytes(50_000_000)}
    rezip(tmp_path / "z.zip", bomb, zipfile.ZIP_DEFLATED)
    with pytest.raises(FixInput, match="is compressed") as error:
        unpack(tmp_path / "z.zip", tmp_path / "again")
    assert "obygaze store pack" in str(error.value.hint)
    assert not list(tmp_path.glob(".again*"))


@pytest.mark.parametrize(
    "name", ["../evil", "a/../../evil", "/etc/evil", "C:\\evil", "..\\evil", "a\0b"]
)
def test_names_that_lead_out_are_refused(
    tmp_path: Path, sealed: Path, name: str
) -> None:
    rezip(tmp_path / "z.zip", {**tree(sealed), name: b"x"})
    # Zipfile itself cuts such a name when it writes; put it there by hand.
    if "\0" in name:
        data = (tmp_path / "z.zip").read_bytes().replace(b"clips.csv", b"clips\0csv")
        (tmp_path / "z.zip").write_bytes(data)
    with pytest.raises(FixInput, match="entry"):
        unpack(tmp_path / "z.zip", tmp_path / "deep" / "again")
    assert not (tmp_path / "deep").exists()
    assert not list(tmp_path.rglob("*evil*"))


def test_links_are_refused(tmp_path: Path, sealed: Path) -> None:
    content = tree(sealed)
    content["data.zarr/pooled/c.0.0"] = b"/etc/passwd"
    rezip(tmp_path / "z.zip", content, external_attr=(stat.S_IFLNK | 0o777) << 16)
    with pytest.raises(FixInput, match="not a file"):
        unpack(tmp_path / "z.zip", tmp_path / "again")


def test_two_entries_of_one_name_are_refused(tmp_path: Path, sealed: Path) -> None:
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as out:
        for name, data in tree(sealed).items():
            out.writestr(name, data)
        with pytest.warns(UserWarning, match="Duplicate"):
            out.writestr("store.json", b"{}")
    with pytest.raises(FixInput, match="same name"):
        unpack(tmp_path / "z.zip", tmp_path / "again")


def test_a_file_that_is_longer_than_listed_is_refused(
    tmp_path: Path, sealed: Path
) -> None:
    rezip(tmp_path / "z.zip", {**tree(sealed), "data.zarr/pooled/c.0.0": bytes(50_000)})
    with pytest.raises(Corrupt, match="expected 100 bytes, got 50000"):
        unpack(tmp_path / "z.zip", tmp_path / "again")
    assert not list(tmp_path.glob("*again*")) and not list(tmp_path.glob(".*"))


def test_entries_nobody_promised_stay_behind(tmp_path: Path, sealed: Path) -> None:
    rezip(
        tmp_path / "z.zip", {**tree(sealed), "run-me.sh": b"x", "data.zarr/evil": b"y"}
    )
    unpack(tmp_path / "z.zip", tmp_path / "again")
    assert tree(tmp_path / "again") == tree(sealed)


@pytest.mark.parametrize("kind", ["data.zarr/frames/c.1.0.0", "clips.csv", "README.md"])
def test_one_wrong_byte_is_named(tmp_path: Path, sealed: Path, kind: str) -> None:
    content = tree(sealed)
    content[kind] = content[kind][:-1] + bytes([content[kind][-1] ^ 1])
    rezip(tmp_path / "z.zip", content)
    with pytest.raises(Corrupt, match=kind):
        unpack(tmp_path / "z.zip", tmp_path / "again")
    assert {path.name for path in tmp_path.iterdir()} == {"s", "z.zip"}


@pytest.mark.parametrize("kind", ["store.json", "seal.json"])
def test_a_wrong_byte_in_a_document_is_found(
    tmp_path: Path, sealed: Path, kind: str
) -> None:
    content = tree(sealed)
    content[kind] = content[kind].replace(b"0", b"1", 1)
    rezip(tmp_path / "z.zip", content)
    with pytest.raises((Corrupt, Mismatch)):
        unpack(tmp_path / "z.zip", tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("keep", [0, 30, 0.5, 0.999])
def test_a_zip_that_was_cut_off_is_refused(
    tmp_path: Path, sealed: Path, keep: float
) -> None:
    pack(open_store(sealed), tmp_path / "s.zip")
    data = (tmp_path / "s.zip").read_bytes()
    (tmp_path / "cut.zip").write_bytes(
        data[: int(keep if keep > 1 else keep * len(data))]
    )
    with pytest.raises(Corrupt, match="zip"):
        unpack(tmp_path / "cut.zip", tmp_path / "again")


def test_a_zip_of_something_else_is_refused(tmp_path: Path) -> None:
    rezip(tmp_path / "z.zip", {"hello.txt": b"hi"})
    with pytest.raises(NotFound, match=r"no store here: no store\.json"):
        unpack(tmp_path / "z.zip", tmp_path / "again")


def test_an_existing_folder_is_never_written_into(tmp_path: Path, sealed: Path) -> None:
    pack(open_store(sealed), tmp_path / "s.zip")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years", encoding="utf-8")
    with pytest.raises(AlreadyThere):
        unpack(tmp_path / "s.zip", tmp_path / "mine")
    assert tree(tmp_path / "mine") == {"thesis.txt": b"years"}
    shutil.rmtree(tmp_path / "mine")
    (tmp_path / "mine").mkdir()
    unpack(tmp_path / "s.zip", tmp_path / "mine")
    assert tree(tmp_path / "mine") == tree(sealed)
