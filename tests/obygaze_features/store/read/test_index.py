"""The index by film: the same rows as by the seal, with little read, and no way to lie."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.store_servers import web_server
from support.stores import (
    RemoteFiles,
    block_of,
    fill_store,
    partial_copy,
    plan_store,
    some_ids,
    some_values,
)

from obygaze_features.core.errors import (
    AlreadyThere,
    Corrupt,
    Mismatch,
    NotFound,
    ObygazeError,
)
from obygaze_features.store import (
    RowSource,
    RowStatus,
    StoreWriter,
    derive,
    open_store,
    pull,
    subset,
    upgrade,
    withdraw,
)
from obygaze_features.store.format.records import with_checksum
from obygaze_features.store.read import commits
from obygaze_features.store.read import index_pages as pages_module
from obygaze_features.store.read.index import FilmIndex
from obygaze_features.store.read.verify import verify
from obygaze_features.store.write import publication
from obygaze_features.store.write import seal as seal_module
from obygaze_features.store.write import upgrade as upgrade_module
from obygaze_features.store.write import version as version_module

N = 53
FILM = "tt0000104"  # rows 20 to 24: blocks 5 and 6, both on page 2 of two blocks


@pytest.fixture(autouse=True)
def small_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores of 20 rows have an index, with pages of 8 rows."""
    monkeypatch.setattr(pages_module, "PAGE_ROWS", 8)
    for module in (commits, seal_module):
        monkeypatch.setattr(module, "INDEX_ROWS", 20)


def a_store(path: Path, seed: int = 0) -> dict[str, np.ndarray]:
    """Rows 21 and 30 failed; row 24 has a source."""
    plan = plan_store(path, N)
    values = some_values(N, plan.arrays, seed)
    writer = StoreWriter(path)
    bad = RowStatus.failed("decode", "InvalidDataError", "no moov atom")
    for block in range(plan.n_blocks):
        rows = range(*plan.block_range(block))
        writer.commit_block(
            block,
            block_of(values, (rows.start, rows.stop)),
            [bad if row in (21, 30) else RowStatus() for row in rows],
            sources=[RowSource(n_bytes=7) if row == 24 else None for row in rows],
        )
    writer.seal()
    return values


def restamp(
    root: Path, name: str, change: dict[str, Any], *, and_seal: bool = True
) -> None:
    """Change a document, with checksums that fit, also where others list it."""
    value = json.loads((root / name).read_bytes())
    value.pop("sha256")
    data = with_checksum({**value, **change})
    (root / name).write_bytes(data)
    mark = [len(data), hashlib.sha256(data).hexdigest()]
    for other in ("index/movies.json", "seal.json") if and_seal else ():
        listed = json.loads((root / other).read_bytes())["files"]
        if name in listed:
            restamp(
                root,
                other,
                {"files": {**listed, name: mark}},
                and_seal=other != "seal.json",
            )


def test_a_part_of_a_version_is_not_that_of_another_one(tmp_path, monkeypatch) -> None:
    """Both versions have the same store.json, and the seal is not read."""
    monkeypatch.setattr(version_module, "INDEX_ROWS", 20)
    a_store(tmp_path / "s")
    pull(RemoteFiles(tmp_path / "s"), tmp_path / "first", films=[FILM])
    withdraw(tmp_path / "s", films=[FILM], reason="asked for")
    assert verify(tmp_path / "s", hashes=True).problems == []
    with pytest.raises(AlreadyThere, match="another part of this one"):
        pull(RemoteFiles(tmp_path / "s"), tmp_path / "first", films=[FILM])
    pull(RemoteFiles(tmp_path / "s"), tmp_path / "second", films=[FILM])
    assert open_store(tmp_path / "second").status().counts["withdrawn"] == 5
    pull(tmp_path / "s", tmp_path / "by-seal", films=[FILM])
    ids = [open_store(tmp_path / name).plan.plan_id for name in ("second", "by-seal")]
    assert ids[0] == ids[1]


def test_a_version_of_a_store_with_an_index_has_its_own(tmp_path: Path) -> None:
    """Also where a store of its size would get none today."""
    a_store(tmp_path / "s")
    withdraw(tmp_path / "s", films=[FILM], reason="asked for")
    assert verify(tmp_path / "s", hashes=True).problems == []
    store = open_store(RemoteFiles(tmp_path / "s"))
    rows = store.matrix("clip", films=[FILM], missing="drop").values
    assert store.commits.index is not None and len(rows) == 0


def in_format_1(root: Path) -> None:
    """Make an index what an earlier program wrote: every film has its runs."""
    value = json.loads((root / "index/movies.json").read_bytes())
    runs = {}
    end = 0
    for film, n_rows in value["movies"].items():
        runs[film] = [[end, end + n_rows]]
        end += n_rows
    restamp(root, "index/movies.json", {"version": 1, "movies": runs})


@pytest.mark.parametrize("before", ["no index", "an index of format 1"])
def test_a_store_is_upgraded_to_the_index_of_today(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    path = tmp_path / "s"
    if before == "no index":
        monkeypatch.setattr(seal_module, "INDEX_ROWS", 1_000)
    values = a_store(path)
    if before == "an index of format 1":
        in_format_1(path)
    for module in (version_module, upgrade_module):
        monkeypatch.setattr(module, "INDEX_ROWS", 20)
    assert verify(path, hashes=True).problems == []
    made = upgrade(path)
    assert made.numbers == {"films": 11}
    assert made.text == "upgraded to format 2: the index of 11 films written"
    index = json.loads((path / "index/movies.json").read_bytes())
    assert index["version"] == 2
    assert list(index["movies"].values()) == [5] * 10 + [3]
    again = upgrade(path)
    assert not again.is_new and "of format 2" in again.text
    store = open_store(RemoteFiles(path))
    rows = store.matrix("clip", films=["tt0000107"]).values
    assert store.commits.index is not None and store.commits.version_number == 2
    np.testing.assert_array_equal(rows, values["clip"][35:40])
    for number in (1, 2):
        assert verify(f"{path}@{number}", hashes=True).problems == []


@pytest.mark.parametrize("change", ["withdraw", "derive"])
def test_a_film_is_read_wherever_the_publication_of_a_version_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """The second of the two has another store.json."""
    monkeypatch.setattr(version_module, "INDEX_ROWS", 20)
    film = "tt0000107"  # rows 35 to 39
    values = a_store(tmp_path / "s")
    work = {
        "withdraw": lambda path: withdraw(path, films=[film], reason="asked for"),
        "derive": lambda path: derive(path, array="frames"),
    }[change]
    move = publication._move
    places: list[str] = []

    def stop(source: Path, root: Path, name: str) -> None:
        places.append(name)
        if len(places) == n_moves:
            raise KeyboardInterrupt
        move(source, root, name)

    n_moves = 0
    is_stopped = True
    versions = set()
    while is_stopped:
        n_moves += 1
        path = tmp_path / str(n_moves)
        shutil.copytree(tmp_path / "s", path)
        places.clear()
        with monkeypatch.context() as stopped:
            stopped.setattr(publication, "_move", stop)
            try:
                work(path)
                is_stopped = False
            except KeyboardInterrupt:
                pass
        for files in (path, RemoteFiles(path)):
            store = open_store(files)
            rows = store.matrix("clip", films=[film], missing="drop").values
            # By the index, whose version is placed before its seal.
            version = store.commits.version_number
            versions.add(version)
            if version == 2 and change == "withdraw":
                assert len(rows) == 0
            else:
                np.testing.assert_array_equal(rows, values["clip"][35:40])
    assert n_moves > 8 and versions == {1, 2}
    assert places[-1] == "seal.json" and "index/movies.json" in places


def test_rows_of_a_film_come_by_the_index_and_nothing_else_is_read(
    tmp_path: Path,
) -> None:
    values = a_store(tmp_path / "s")
    assert verify(tmp_path / "s", hashes=True).problems == []
    files = RemoteFiles(tmp_path / "s")
    store = open_store(files)
    found = store.matrix("clip", films=[FILM], missing="nan")
    assert found.present.tolist() == [True, False, True, True, True]
    np.testing.assert_array_equal(
        found.values[[0, 2, 3, 4]], values["clip"][[20, 22, 23, 24]]
    )
    assert found.clip_ids.tolist() == some_ids(N)[0][20:25]
    assert store.movie_ids_of(found.rows).tolist() == [FILM] * 5
    assert (
        str(found.reasons[f"{FILM}-002"])
        == "failed: decode InvalidDataError: no moov atom"
    )
    assert store.sealed
    assert store.commits.sources(6)[24] == RowSource(n_bytes=7)
    blocks = ["data.zarr/clip/c.5.0", "data.zarr/clip/c.6.0"]
    documents = ["store.json", "seal.json", "partial.json"]
    pages = ["index/movies.json", "index/2.json", "index/3.json"]
    assert sorted(set(files.reads)) == sorted([*documents, *pages, *blocks])
    with pytest.raises(NotFound, match="no film 'tt9'"):
        store.matrix("clip", films=["tt9"])


def test_an_array_that_is_named_twice_is_fetched_once(tmp_path: Path) -> None:
    a_store(tmp_path / "s")
    once = pull(
        RemoteFiles(tmp_path / "s"), tmp_path / "one", arrays=["clip"], films=[FILM]
    )
    twice = pull(
        RemoteFiles(tmp_path / "s"),
        tmp_path / "two",
        arrays=["clip", "clip"],
        films=[FILM],
    )
    assert twice.n_bytes_rows == once.n_bytes_rows
    assert open_store(tmp_path / "two").feature_arrays == ("clip",)
    # All clips, from a store on this machine.
    parts = [
        pull(tmp_path / "s", tmp_path / name, arrays=arrays)
        for name, arrays in (("three", ["clip"]), ("four", ["clip", "clip"]))
    ]
    assert parts[0].n_bytes_rows == parts[1].n_bytes_rows


def test_every_film_and_array_is_the_same_by_index_and_by_seal(tmp_path: Path) -> None:
    a_store(tmp_path / "s")
    local = open_store(tmp_path / "s")
    remote = open_store(RemoteFiles(tmp_path / "s"))
    for film in dict.fromkeys(local.movie_ids.tolist()):
        for array in ("clip", "frames", "time_s"):
            ours = remote.matrix(array, films=[film], missing="drop")
            theirs = local.matrix(array, films=[film], missing="drop")
            np.testing.assert_array_equal(ours.values, theirs.values)
            assert ours.clip_ids.tolist() == theirs.clip_ids.tolist()
            assert ours.reasons == theirs.reasons
    assert remote.commits.index is not None
    # What needs all rows reads the seal.
    assert remote.status().counts == local.status().counts == {"failed": 2, "ok": N - 2}


def test_films_in_several_runs_of_rows_are_found(tmp_path: Path) -> None:
    clips, _ = some_ids(40)
    films = ["b", "a"] * 20
    plan = plan_store(tmp_path / "s", 40, clip_ids=clips, movie_ids=films)
    values = some_values(40, plan.arrays)
    fill_store(tmp_path / "s", values).seal()
    store = open_store(RemoteFiles(tmp_path / "s"))
    np.testing.assert_array_equal(
        store.matrix("clip", films=["a"]).values, values["clip"][np.arange(1, 40, 2)]
    )
    assert store.commits.index is not None


def swapped_films(root: Path) -> None:
    rows_of = json.loads((root / "index/movies.json").read_bytes())["movies"]
    other = {FILM: "tt0000105", "tt0000105": FILM}
    swapped = {other.get(film, film): rows for film, rows in rows_of.items()}
    restamp(root, "index/movies.json", {"movies": swapped})


def test_the_films_of_an_index_by_hand(tmp_path: Path) -> None:
    """A number of rows follows those of the film before; runs are as in version 1."""
    mark = {"index/0.json": [5, "0" * 64]}
    document = {"format": "obygaze-store", "version": 2, "plan": "ab", "page_blocks": 1}
    short = {"a": 3, "b": [[3, 5], [9, 10]], "c": [[5, 9]], "d": [[10, 12]], "e": 1}
    data = with_checksum({**document, "movies": short, "files": mark})
    index = FilmIndex.from_bytes(data, "here")
    expected = {
        "a": ((0, 3),),
        "b": ((3, 5), (9, 10)),
        "c": ((5, 9),),
        "d": ((10, 12),),
        "e": ((12, 13),),
    }
    assert index.films == expected
    written = index.to_bytes()
    assert FilmIndex.from_bytes(written, "here") == index
    compact = b'"movies":{"a":3,"b":[[3,5],[9,10]],"c":[[5,9]],"d":[[10,12]],"e":1}'
    assert compact in written


def swapped_ids(root: Path) -> None:
    ids = json.loads((root / "index/2.json").read_bytes())["clip_id"]
    restamp(root, "index/2.json", {"clip_id": ids[::-1]})


def row_that_did_not_fail(root: Path) -> None:
    restamp(root, "index/2.json", {"noted": {}})


@pytest.mark.parametrize("lie", [swapped_films, swapped_ids, row_that_did_not_fail])
def test_an_index_that_differs_from_the_seal_is_found_by_verify(
    tmp_path: Path, lie: Any
) -> None:
    a_store(tmp_path / "s")
    lie(tmp_path / "s")
    (problem,) = verify(tmp_path / "s", hashes=True).problems
    assert "does not say what the seal and the ids say" in problem.message


@pytest.mark.parametrize(
    ("name", "change", "error"),
    [
        ("index/movies.json", {"plan": "0" * 64}, Mismatch),
        ("index/movies.json", {"page_blocks": 0}, Corrupt),
        ("index/movies.json", {"page_blocks": 4}, Corrupt),
        ("index/movies.json", {"movies": {FILM: [[0, 10**9]]}}, Corrupt),
        ("index/movies.json", {"movies": {FILM: [[20, 25]]}}, Corrupt),
        ("index/movies.json", {"movies": {FILM: 7}}, Corrupt),
        ("index/movies.json", {"movies": {"a": 60, FILM: -7}}, Corrupt),
        ("index/movies.json", {"movies": {}}, Corrupt),
        # A film without rows would stand for the one that begins at its row.
        ("index/movies.json", {"movies": {FILM: 25, "z": 0, "b": 28}}, Corrupt),
        (
            "index/movies.json",
            {"movies": {FILM: [[0, 25]], "z": [[25, 25]], "b": [[25, 53]]}},
            Corrupt,
        ),
        ("index/movies.json", {"files": {}}, Corrupt),
        ("index/2.json", {"clip_id": ["x"]}, Corrupt),
        ("index/2.json", {"clip_id": "abcdefgh"}, Corrupt),
        ("index/2.json", {"noted": {"0": {"state": "failed"}}}, Corrupt),
        ("index/2.json", {"files": {"data.zarr/clip/c.0.0": [64, "0" * 64]}}, Corrupt),
        ("index/2.json", {"files": {}}, Corrupt),
    ],
)
def test_an_index_that_cannot_be_of_the_store_is_refused(
    tmp_path: Path, name: str, change: dict[str, Any], error: type[ObygazeError]
) -> None:
    a_store(tmp_path / "s")
    if change == {"clip_id": "abcdefgh"}:
        change = {"clip_id": [1] * 8}
    restamp(tmp_path / "s", name, change)
    with pytest.raises(error):
        open_store(RemoteFiles(tmp_path / "s")).matrix(
            "clip", films=[FILM], missing="drop"
        )


def test_a_page_of_another_store_of_the_same_plan_gives_no_wrong_numbers(
    tmp_path: Path,
) -> None:
    a_store(tmp_path / "s")
    a_store(tmp_path / "other", seed=1)
    (tmp_path / "s/index/2.json").write_bytes(
        (tmp_path / "other/index/2.json").read_bytes()
    )
    with pytest.raises(Corrupt, match=r"index/2\.json does not have the checksum"):
        open_store(RemoteFiles(tmp_path / "s")).matrix(
            "clip", films=[FILM], missing="drop"
        )
    for name in ("movies", "2", "3"):
        data = (tmp_path / f"other/index/{name}.json").read_bytes()
        (tmp_path / f"s/index/{name}.json").write_bytes(data)
    with pytest.raises(ObygazeError):
        open_store(RemoteFiles(tmp_path / "s")).matrix(
            "clip", films=[FILM], missing="drop"
        )


def test_an_index_without_a_seal_or_of_a_partial_copy_is_not_used(
    tmp_path: Path,
) -> None:
    a_store(tmp_path / "s")
    partial_copy(tmp_path / "s", tmp_path / "part", arrays=["clip"], films=[FILM])
    store = open_store(RemoteFiles(tmp_path / "part"))
    assert len(store.matrix("clip", films=[FILM], missing="drop")) == 4
    assert store.commits.index is None
    (tmp_path / "s/seal.json").unlink()
    store = open_store(RemoteFiles(tmp_path / "s"))
    assert store.matrix("clip", films=[FILM], missing="drop").values.shape == (0, 4)
    assert not store.sealed


def test_pull_of_a_film_makes_a_store_of_its_clips(tmp_path: Path) -> None:
    a_store(tmp_path / "s")
    expected = subset(open_store(tmp_path / "s"), tmp_path / "subset", films=[FILM])
    with web_server(tmp_path / "s") as server:
        n_requests = []
        for _ in range(2):  # the second time everything is there
            done = pull(server.url, tmp_path / "got", films=[FILM])
            n_requests.append(done.n_requests)
        assert n_requests[0] <= 15 and n_requests[1] <= 7
        assert done.part
        one = pull(server.url, tmp_path / "one", films=[FILM], arrays=["clip"])
        # store.json, licence.json, seal.json (a byte), partial.json, movies.json, two pages and
        # two blocks of `clip` and of `time_s`
        assert one.n_requests == 11
        with pytest.raises(AlreadyThere, match="another part"):
            pull(server.url, tmp_path / "got", films=["tt0000103"])
    assert expected.n_clips == 5
    assert verify(tmp_path / "got", hashes=True).problems == []
    for name in ("clip", "pooled", "frames", "time_s"):
        ours, theirs = (
            open_store(tmp_path / folder).matrix(name, missing="drop")
            for folder in ("got", "subset")
        )
        np.testing.assert_array_equal(ours.values, theirs.values)
        assert ours.clip_ids.tolist() == theirs.clip_ids.tolist()
        assert ours.reasons == theirs.reasons
    assert open_store(tmp_path / "one").feature_arrays == ("clip",)
    assert open_store(tmp_path / "got").commits.sources(1)[4] == RowSource(n_bytes=7)


def test_small_stores_have_no_index(tmp_path: Path) -> None:
    plan = plan_store(tmp_path / "s", 19)
    fill_store(tmp_path / "s", some_values(19, plan.arrays)).seal()
    assert not (tmp_path / "s/index").exists()


def test_blocks_are_compared_with_the_seal_after_a_read_by_the_index(
    tmp_path: Path,
) -> None:
    values = a_store(tmp_path / "s")
    folder = tmp_path / "s/data.zarr/clip"
    store = open_store(RemoteFiles(tmp_path / "s"))
    store.matrix("clip", films=["tt0000100"])  # rows 0 to 4, by page 0 of the index
    store.status()  # by the seal
    first, second = (folder / f"c.{block}.0" for block in (2, 3))
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)
    with pytest.raises(Corrupt, match="checksum of the one that was committed"):
        store.matrix("clip", clips=["tt0000101-004"])  # row 8, in block 2
    np.testing.assert_array_equal(
        store.matrix("clip", clips=["tt0000100-001"]).values[0], values["clip"][0]
    )
