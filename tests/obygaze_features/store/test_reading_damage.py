import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.plain_store import array_of, rows_of, write_plain_store
from support.seeds import SEED, amount

from obygaze_features.core.errors import Corrupt, ObygazeError
from obygaze_features.store.reading import Matrix, Store, open_store
from obygaze_features.store.verifying import verify

N_ROWS = 40
CLIPS = [f"clip-{n:02d}" for n in range(N_ROWS)]
FILMS = [f"tt{n // 6}" for n in range(N_ROWS)]
NOT_OK = {7: ("failed", "no such codec")}


def some_values(seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    shapes = {"plain": (5,), "packed": (3, 2), "wide": (8,)}
    return {
        name: random.integers(0, 40, (N_ROWS, *shape)).astype("float32")
        for name, shape in shapes.items()
    }


def write(path: Path, seed: int) -> dict[str, np.ndarray]:
    values = some_values(seed)
    arrays = [
        array_of("plain", values["plain"], chunk_rows=4, file_rows=16),
        array_of("packed", values["packed"], chunk_rows=8, file_rows=16),
        array_of("wide", values["wide"], chunk_rows=2, file_rows=16),
    ]
    write_plain_store(path, values, rows_of(CLIPS, FILMS, NOT_OK), arrays=arrays)
    return values


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two stores of the same clips and shapes, with other numbers."""
    root = tmp_path_factory.mktemp("stores")
    for seed in (1, 2):
        write(root / f"s{seed}", seed)
    return root


def files_of(path: Path) -> list[str]:
    files = [file for file in path.rglob("*") if file.is_file()]
    return sorted(file.relative_to(path).as_posix() for file in files)


def chunk_by_chunk(store: Store, name: str) -> Matrix:
    """All rows, where each whole chunk is read to its place in the result."""
    store.files.piece_bytes = 1
    return store.matrix(name, missing="drop")


def read_in_ways(path: Path, values: dict[str, np.ndarray]) -> bool:
    """Whether all ways to read refuse, or give the right numbers; which of both is returned."""
    ways = {
        "all": lambda store, name: store.matrix(name, missing="drop"),
        "chunks": chunk_by_chunk,
        "clips": lambda store, name: store.matrix(
            name, clips=["clip-31", "clip-02", "clip-07"], missing="drop"
        ),
        "films": lambda store, name: store.matrix(name, films=["tt3"]),
    }
    was_refused = False
    for read in ways.values():
        for name in values:
            try:
                matrix = read(open_store(path), name)
                clip_ids = matrix.clip_ids.tolist()
            except Corrupt:
                was_refused = True
                continue
            rows = [CLIPS.index(clip) for clip in clip_ids]
            assert rows == matrix.rows.tolist()
            np.testing.assert_array_equal(matrix.values, values[name][rows])
    return was_refused


def flips(path: Path, random: np.random.Generator, count: int) -> Iterator[str]:
    """Flip one bit at a time, anywhere in the files, and put it back."""
    names = files_of(path)
    for _ in range(count):
        name = names[int(random.integers(len(names)))]
        data = bytearray((path / name).read_bytes())
        place, bit = int(random.integers(len(data))), int(random.integers(8))
        data[place] ^= 1 << bit
        (path / name).write_bytes(data)
        yield name
        data[place] ^= 1 << bit
        (path / name).write_bytes(data)


def test_a_flipped_bit_is_refused_or_not_read(stores, tmp_path) -> None:
    count = amount(20, 600)
    shutil.copytree(stores / "s1", tmp_path / "s")
    path, values = tmp_path / "s", some_values(1)
    n_refused = 0
    for name in flips(path, np.random.default_rng(3 + SEED), count):
        if name == "store.json":
            with pytest.raises(ObygazeError):
                open_store(path)
            continue
        n_refused += read_in_ways(path, values)
        report = verify(path, hashes=True)
        assert [problem.partition(":")[0] for problem in report.problems] == [name]
    assert n_refused > count / 10


def test_each_flipped_bit_of_the_document_is_found(stores, tmp_path: Path) -> None:
    """Without a seal from elsewhere: a changed word in its history was another store."""
    shutil.copytree(stores / "s1", tmp_path / "s")
    file = tmp_path / "s" / "store.json"
    data = file.read_bytes()
    # `make torture` tries every byte.
    for place in range(SEED % 29, len(data), amount(29, 1)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        file.write_bytes(changed)
        with pytest.raises(ObygazeError):
            open_store(tmp_path / "s")
    file.write_bytes(data)
    open_store(tmp_path / "s")


def test_exchanged_chunks_are_refused(stores, tmp_path: Path) -> None:
    """Two chunks of a file change places: each has its own checksum in it."""
    shutil.copytree(stores / "s1", tmp_path / "s")
    file = tmp_path / "s" / "plain" / "c.0.0"
    data = file.read_bytes()
    size = 4 * 5 * 4 + 4
    file.write_bytes(data[size : 2 * size] + data[:size] + data[2 * size :])
    for clips in (["clip-00"], CLIPS[4:7]):
        other = r"plain/c\.0\.0 is damaged, or belongs to another"
        with pytest.raises(Corrupt, match=other):
            open_store(tmp_path / "s").matrix("plain", clips=clips)
    with pytest.raises(Corrupt, match=r"plain/c\.0\.0"):
        open_store(tmp_path / "s").matrix("plain", missing="drop")
    values = some_values(1)["plain"][8:12]
    matrix = open_store(tmp_path / "s").matrix("plain", clips=CLIPS[8:12])
    np.testing.assert_array_equal(matrix.values, values)


@pytest.mark.parametrize("seed", range(amount(3, 8)))
def test_half_a_copy_over_another_store(stores, tmp_path, seed) -> None:
    """Some files are of another store of the same clips; store.json says of which one is read."""
    shutil.copytree(stores / "s1", tmp_path / "s")
    path = tmp_path / "s"
    random = np.random.default_rng(seed + SEED * 8)
    mixed = [name for name in files_of(path) if random.random() < 0.4]
    for name in mixed:
        shutil.copyfile(stores / "s2" / name, path / name)
    whose = 2 if "store.json" in mixed else 1
    was_refused = read_in_ways(path, some_values(whose))
    own = stores / f"s{whose}"
    expected = {
        name
        for name in set(files_of(path)) - {"store.json"}
        if (path / name).read_bytes() != (own / name).read_bytes()
    }
    report = verify(path, hashes=True)
    found = {problem.partition(":")[0] for problem in report.problems}
    assert found == expected
    assert bool(found) == was_refused


def test_each_cut_file_is_refused(stores, tmp_path) -> None:
    shutil.copytree(stores / "s1", tmp_path / "s")
    path, values = tmp_path / "s", some_values(1)
    # `make torture` cuts every file.
    every = amount(3, 1)
    for name in files_of(path)[SEED % every :: every]:
        data = (path / name).read_bytes()
        for length in (0, len(data) - 1):
            (path / name).write_bytes(data[:length])
            if name == "store.json":
                with pytest.raises(ObygazeError):
                    open_store(path)
                continue
            read_in_ways(path, values)
            problems = verify(path).problems
            assert [problem.partition(":")[0] for problem in problems] == [name]
        (path / name).write_bytes(data)


def test_each_absent_file_is_refused(stores, tmp_path) -> None:
    shutil.copytree(stores / "s1", tmp_path / "s")
    path, values = tmp_path / "s", some_values(1)
    every = amount(3, 1)
    for name in files_of(path)[SEED % every :: every]:
        (path / name).rename(tmp_path / "away")
        if name != "store.json":
            read_in_ways(path, values)
            problems = verify(path).problems
            assert problems == [f"{name}: is missing"]
        (tmp_path / "away").rename(path / name)


def test_files_that_the_store_does_not_list_are_named(tmp_path: Path) -> None:
    path = tmp_path / "s"
    values = {"x": np.ones((2, 3), np.float32)}
    write_plain_store(path, values, rows_of(["a", "b"], ["f", "f"]))
    assert verify(path).warnings == []
    for name in ("added.bin", "x/c.9.0"):
        (path / name).write_bytes(b"?")
    report = verify(path, hashes=True)
    assert report.problems == []
    assert report.warnings == ["not part of the store: added.bin, x/c.9.0"]
