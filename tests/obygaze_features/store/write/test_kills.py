"""Writers killed at any instant: nothing committed is ever wrong, and a restart ends the work."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.killed_writers import (
    ARRAYS,
    BLOCK_ROWS,
    N_BLOCKS,
    N_CLIPS,
    WHOLE_LIFE,
    Zygote,
    is_running,
    values_of,
)
from support.stores import plan_store

from obygaze_features.store import StoreWriter, open_store
from obygaze_features.store.format.records import marker_key
from obygaze_features.store.read.verify import verify
from obygaze_features.store.write.commit import claims

pytestmark = pytest.mark.check("kills a hundred writers")

KILLS = 100
SEED = 20240817


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    made = Zygote()
    yield made
    made.close()


def plan(path: Path) -> None:
    plan_store(path, N_CLIPS, BLOCK_ROWS, arrays=ARRAYS)


def wait(*pids: int) -> None:
    for pid in pids:
        while is_running(pid):
            time.sleep(0.002)


def array_bytes(path: Path) -> dict[str, bytes]:
    files = sorted(file for file in (path / "data.zarr").rglob("*") if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


@pytest.fixture(scope="module")
def whole(
    tmp_path_factory: pytest.TempPathFactory, zygote: Zygote
) -> tuple[Path, float]:
    """An undisturbed run, and the seconds it took: kills are drawn over a part of them."""
    path = tmp_path_factory.mktemp("undisturbed") / "s"
    plan(path)
    started = time.monotonic()
    wait(zygote.start(path))
    assert not StoreWriter(path).pending_blocks()
    return path, min(time.monotonic() - started, 0.4)


@pytest.fixture
def undisturbed(whole: tuple[Path, float]) -> dict[str, bytes]:
    return array_bytes(whole[0])


@pytest.fixture
def took(whole: tuple[Path, float]) -> float:
    return whole[1]


def check_what_is_committed(path: Path, values: dict[str, np.ndarray]) -> None:
    store = open_store(path)
    for name, array in values.items():
        found = store.matrix(name, missing="drop")
        np.testing.assert_array_equal(found.values, array[found.rows])
    assert not verify(store, hashes=True).problems


def where_it_hit(path: Path) -> str:
    """What a killed writer left behind."""
    staging = path / "staging"
    if claims(path):
        folder = staging / f"block-{claims(path)[0]:05d}"
        left = sum(
            1 for file in folder.iterdir() if not file.name.startswith("marker.")
        )
        return f"claimed, {len(ARRAYS) - left} of {len(ARRAYS)} files in place"
    attempts = list(staging.iterdir())
    if attempts:
        names = [file.name for file in attempts[0].iterdir()]
        whole = any(name.startswith("marker.") for name in names)
        return (
            "prepared, not claimed" if whole else f"while preparing, {len(names)} files"
        )
    return "between blocks"


@pytest.mark.parametrize("n_writers", [1, 2])
def test_kills_at_random_instants(
    tmp_path, zygote, undisturbed, took, n_writers, capsys
) -> None:
    random = np.random.default_rng(SEED + n_writers)
    values, hit, kills, stores = values_of(0), Counter(), 0, 0
    while kills < KILLS // 2:
        path = tmp_path / f"s{stores}"
        plan(path)
        stores += 1
        for order in range(1000):
            killed = 0
            pids = [zygote.start(path, 0, 2 * order + i) for i in range(n_writers)]
            for pid in pids:
                # Short, so that most kills come in the middle of the work.
                time.sleep(random.uniform(0.0, took / 3))
                if is_running(pid):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
            wait(*pids)
            if killed:
                hit[where_it_hit(path)] += 1
                kills += killed
            check_what_is_committed(path, values)
            if kills >= KILLS // 2 or not StoreWriter(path).pending_blocks():
                break
        wait(zygote.start(path))
        assert array_bytes(path) == undisturbed
        assert not list((path / "staging").iterdir())
        StoreWriter(path).seal()
        check_what_is_committed(path, values)
    with capsys.disabled():
        print(f"\n{kills} kills of {n_writers} writer(s) over {stores} stores hit:")
        for place, count in sorted(hit.items()):
            print(f"  {count:3d} {place}")


def test_kills_from_planning_to_sealing(tmp_path, zygote, undisturbed, took) -> None:
    """Two processes that each plan, fill and seal one store, killed over and over."""
    random = np.random.default_rng(SEED)
    kills, stores = 0, 0
    while kills < 8:  # a quick machine ends a store within few
        path = tmp_path / f"whole{stores}" / "s"
        path.parent.mkdir()
        stores += 1
        kills += kill_until_sealed(path, zygote, random, took / 3)
        wait(zygote.start(path, WHOLE_LIFE))
        assert array_bytes(path) == undisturbed
        assert [one.name for one in path.parent.iterdir()] == ["s"]
        left = {one.name for one in path.iterdir()}
        assert left == {
            "README.md",
            "clips.csv",
            "data.zarr",
            "gathered",
            "seal.json",
            "store.json",
        }
        check_what_is_committed(path, values_of(0))


def kill_until_sealed(
    path: Path, zygote: Zygote, random: np.random.Generator, longest: float
) -> int:
    """The kills that a store survived; a life is longer each time, so that one gets through."""
    kills = 0
    while not (path / "seal.json").exists():
        pids = [zygote.start(path, WHOLE_LIFE) for _ in range(2)]
        longest *= 1.1
        for pid in pids:
            time.sleep(random.uniform(0.0, longest))
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)
                kills += 1
        wait(*pids)
    return kills


def test_two_writers_that_disagree_never_mix(tmp_path: Path, zygote: Zygote) -> None:
    """Each block is wholly one writer's, and the marker is that writer's."""
    values = [values_of(0), values_of(1)]
    winners = Counter()
    for trial in range(4):
        path = tmp_path / f"s{trial}"
        plan(path)
        wait(zygote.start(path, 0, trial), zygote.start(path, 1, trial))
        store = open_store(path)
        assert not verify(store, hashes=True).problems
        for block in range(store.plan.n_blocks):
            rows = slice(*store.plan.block_range(block))
            mask = np.zeros(N_CLIPS, dtype=bool)
            mask[rows] = True
            same = [
                all((store.matrix(n, mask=mask).values == v[n][rows]).all() for n in v)
                for v in values
            ]
            assert sum(same) == 1, f"block {block} is a mixture"
            winners[same.index(True)] += 1
    assert sum(winners.values()) == 4 * N_BLOCKS


def test_a_slow_writer_changes_nothing_after_a_quick_one(
    tmp_path, zygote, took
) -> None:
    """Stopped at any instant and woken after another has finished, it must not overwrite."""
    random = np.random.default_rng(SEED)
    for trial in range(5):
        path = tmp_path / f"s{trial}"
        plan(path)
        slow = zygote.start(path, 1, trial)
        time.sleep(random.uniform(0.0, took / 2))
        if is_running(slow):
            os.kill(slow, signal.SIGSTOP)
        wait(zygote.start(path, 0, trial))
        before = {
            key: (path / key).read_bytes() for key in map(marker_key, range(N_BLOCKS))
        }
        data = array_bytes(path)
        if is_running(slow):
            os.kill(slow, signal.SIGCONT)
        wait(slow)
        assert array_bytes(path) == data
        assert {key: (path / key).read_bytes() for key in before} == before
        assert not verify(open_store(path), hashes=True).problems
