"""Two machines write one store over a network file system that caches absent names."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.servers import wait_until
from support.stores import block_of, fill_store, plan_store, some_values

from obygaze_features.core.errors import Mismatch
from obygaze_features.store import StoreWriter, open_store
from obygaze_features.store.read.verify import verify

TESTS = Path(__file__).parents[3]
N_BLOCKS = 40
# Look for every marker, as a run does; then commit all blocks in an order of one's own.
WRITE = """
import random, sys
sys.path.insert(0, sys.argv[3])
from support.stores import block_of, some_values
from obygaze_features.core.errors import Mismatch
from obygaze_features.store import StoreWriter
seed = int(sys.argv[2])
writer = StoreWriter(sys.argv[1])
values = some_values(writer.plan.n_clips, seed=seed)
blocks = random.Random(seed).sample(range(writer.plan.n_blocks), writer.plan.n_blocks)
print(sum(writer.marker(block) is None for block in blocks), flush=True)
sys.stdin.readline()
for block in blocks:
    try:
        print(writer.commit_block(block, block_of(values, writer.plan.block_range(block))))
    except Mismatch:
        print("other content")
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Iterator[tuple[Path, list[Path]]]:
    """A folder and two mounts of it, each with a cache of absent names for 30 s."""
    python, program = Path("/usr/bin/python3"), TESTS / "support/caching_mount.py"
    backing, places = tmp_path / "backing", [tmp_path / "m0", tmp_path / "m1"]
    running = []
    for place in (backing, *places):
        place.mkdir()
    try:
        for place in places:
            arguments = [python, program, backing, place, "30"]
            running.append(
                subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
            )
            one = running[-1]
            wait_until(
                lambda p=place, o=one: p.is_mount() or o.poll() is not None, "a mount"
            )
            if one.poll() is not None:
                pytest.skip(
                    f"no FUSE here: {(one.stderr.read().splitlines() or [''])[-1]}"
                )
        yield backing, places
    finally:
        for place in places:
            subprocess.run(["umount", place], check=False, capture_output=True)
        for one in running:
            one.terminate()
            one.wait()


def test_two_mounts_never_mix_two_contents(mounts) -> None:
    backing, places = mounts
    plan_store(backing / "s", 4 * N_BLOCKS)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITE, place / "s", str(seed), TESTS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed, place in enumerate(places)
    ]
    assert [int(writer.stdout.readline()) for writer in writers] == [N_BLOCKS] * 2
    told = [Counter(writer.communicate("go\n")[0].split("\n")) for writer in writers]
    assert all(writer.returncode == 0 for writer in writers)
    # Each block was committed by one of the two, and the other was told so.
    assert told[0]["True"] + told[1]["True"] == N_BLOCKS
    assert told[0]["True"] == told[1]["other content"]
    assert not verify(backing / "s", hashes=True).problems
    StoreWriter(backing / "s").seal()
    found = open_store(backing / "s").matrix("clip").values
    theirs = [some_values(4 * N_BLOCKS, seed=seed)["clip"] for seed in (0, 1)]
    of_first = sum(
        (found[i : i + 4] == theirs[0][i : i + 4]).all() for i in range(0, 160, 4)
    )
    assert of_first == told[0]["True"]


@pytest.fixture
def stale(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """End of names that this machine has cached as absent, if it opens or looks for them."""
    endings: list[str] = []
    read, exists = Path.read_bytes, Path.exists

    def read_bytes(self: Path) -> bytes:
        if self.name.endswith(tuple(endings)):
            raise FileNotFoundError(2, "cached as absent", str(self))
        return read(self)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    monkeypatch.setattr(
        Path, "exists", lambda p: not p.name.endswith(tuple(endings)) and exists(p)
    )
    yield endings
    endings.clear()


def test_a_marker_that_a_cache_hides_is_not_replaced(
    tmp_path: Path, stale: list[str]
) -> None:
    plan_store(tmp_path / "s")
    values, other = some_values(23), some_values(23, seed=1)
    fill_store(tmp_path / "s", values)
    writer = StoreWriter(tmp_path / "s")
    stale += [".json"]
    with pytest.raises(
        Mismatch, match="block 2 was committed before, with other content"
    ):
        writer.commit_block(2, block_of(other, (8, 12)))
    same = writer.commit_block(2, block_of(values, (8, 12)))
    stale.clear()
    assert same is False and not verify(tmp_path / "s", hashes=True).problems
    assert not list((tmp_path / "s/staging").iterdir())
    np.testing.assert_array_equal(
        open_store(tmp_path / "s").matrix("clip").values, values["clip"]
    )


def test_a_seal_that_a_cache_hides_is_not_undone(
    tmp_path: Path, stale: list[str]
) -> None:
    plan_store(tmp_path / "s")
    writer = fill_store(tmp_path / "s", some_values(23))
    writer.seal()
    stale += ["seal.json"]
    assert writer.clean_litter() == 0 and writer.pending_blocks() == []
    assert not (tmp_path / "s/staging").exists()


def test_a_decision_whose_claim_was_lost_does_not_block_the_next_run(
    tmp_path: Path,
) -> None:
    plan_store(tmp_path / "s")
    values = some_values(23)
    fill_store(tmp_path / "s", some_values(23, seed=1), blocks=[2])
    # As after a power cut: the name is there, the claim and the marker are not.
    (tmp_path / "s/commits/block-00002.json").unlink()
    assert StoreWriter(tmp_path / "s").pending_blocks() == [0, 1, 2, 3, 4, 5]
    fill_store(tmp_path / "s", values).seal()
    assert not verify(tmp_path / "s", hashes=True).problems
    np.testing.assert_array_equal(
        open_store(tmp_path / "s").matrix("clip").values, values["clip"]
    )
