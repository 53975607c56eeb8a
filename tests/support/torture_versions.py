"""Damage stores of several versions, with gathered arrays: each version is right, or an error."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from obygaze_features.core.errors import ObygazeError
from obygaze_features.store import derive, open_store, withdraw
from obygaze_features.store.format.records import Plan, Seal
from obygaze_features.store.read.verify import verify
from obygaze_features.store.remote.files import FolderFiles
from obygaze_features.store.remote.versions import earlier_versions
from obygaze_features.store.write.growth import add_rows
from support.cuts import DONE, cut_at_sync
from support.store_damage import files_of, flip
from support.stores import (
    fill_store,
    gather_all,
    plan_store,
    sealed_store,
    some_ids,
    some_values,
    tree,
)

N_CLIPS = 7
CLIPS, FILMS = some_ids(N_CLIPS + 1)
WITHDRAWN = 2
REPLACED = 5
# By array, the rows that are there, and their numbers.
Truth = dict[str, tuple[list[int], np.ndarray]]


def change(path: Path, number: int) -> None:
    """Make a version of a store from the one before."""
    if number == 2:
        derive(path, array="frames", by="max", author="a")
    elif number == 3:
        withdraw(path, clips=[CLIPS[WITHDRAWN]], reason="asked for", author="a")
    else:
        source = path.parent / f"{path.name}-rows"
        shutil.rmtree(source, ignore_errors=True)
        rows = [REPLACED, N_CLIPS]
        plan_store(
            source,
            clip_ids=[CLIPS[row] for row in rows],
            movie_ids=[FILMS[row] for row in rows],
        )
        fill_store(source, some_values(2, seed=9))
        add_rows(path, source, reason="a row was wrong, and one is new", author="a")


def truths() -> dict[int, Truth]:
    """What each version of the store holds."""
    values = some_values(N_CLIPS)
    del values["time_s"]
    every = list(range(N_CLIPS))
    first: Truth = {name: (every, array) for name, array in values.items()}
    second = {**first, "frames_max": (every, values["frames"].max(axis=1))}
    present = [row for row in every if row != WITHDRAWN]
    third = {name: (present, array[present]) for name, (_, array) in second.items()}
    new = some_values(2, seed=9)
    fourth: Truth = {}
    for name, (_, array) in second.items():
        added = new["frames"].max(axis=1) if name == "frames_max" else new[name]
        whole = np.concatenate([array, added[1:]])
        whole[REPLACED] = added[0]
        rows = [*present, N_CLIPS]
        fourth[name] = (rows, whole[rows])
    return {1: first, 2: second, 3: third, 4: fourth}


TRUTHS = truths()


def versioned_store(path: Path) -> list[dict[str, bytes]]:
    """Make a store of four versions; return its files after each of them."""
    sealed_store(path, N_CLIPS)
    trees = [tree(path)]
    for number in (2, 3, 4):
        change(path, number)
        trees.append(tree(path))
    return trees


def reads(path: Path, number: int | None = None) -> tuple[int, str]:
    """Return which version was opened, and "right", "WRONG" or the error of reading it."""
    version = number or 0
    try:
        store = open_store(path, version=number)
        version = store.version
        truth = TRUTHS[version]
        if set(store.feature_arrays) != set(truth):
            return version, "WRONG arrays"
        for name, (rows, values) in truth.items():
            matrix = store.matrix(name, missing="drop")
            if matrix.rows.tolist() != rows or not np.array_equal(
                matrix.values, values
            ):
                return version, f"WRONG {name}"
    except ObygazeError as error:
        return version, type(error).__name__
    except Exception as error:  # noqa: BLE001 - that is what is counted
        return version, f"BUG {type(error).__name__}"
    return version, "right"


def needed_files(path: Path) -> dict[int, set[str]]:
    """Return, by version, the files of the folder that it cannot be read without."""
    files = FolderFiles(path)
    newest = Seal.load(path)
    chain = {"seal.json", Plan.FILE}
    needed = {newest.version_number: {*chain, *newest.files}}
    after = newest.store_version
    for entry in earlier_versions(files, newest):
        assert after is not None and after.previous is not None
        chain = {*chain, after.previous.kept_name}
        data = files.read(entry.seal.kept_name)
        assert data is not None
        seal = Seal.from_bytes(data.data.tobytes(), str(path))
        places = {
            name if newest.files.get(name) == mark else mark.kept_name
            for name, mark in seal.files.items()
        }
        number = entry.store_version.number
        needed[number] = {*chain, *places, entry.seal.kept_name}
        after = entry.store_version
    return needed


def names_of(path: Path, *damaged: Path) -> set[str]:
    """Return all names of some files: a seal has several, which are links to one file."""
    inodes = {file.stat().st_ino for file in damaged}
    names = set()
    for file in files_of(path):
        if file.stat().st_ino in inodes:
            names.add(file.relative_to(path).as_posix())
    return names


def look_at_all(
    path: Path, damaged: set[str], needed: dict[int, set[str]], found: Counter[str]
) -> None:
    """Count how each version of a damaged store reads; one that lost nothing must be right."""
    found["cases"] += 1
    for number in TRUTHS:
        _, result = reads(path, number)
        found[result] += 1
        if result != "right" and not damaged & needed[number]:
            found["LOST"] += 1
    with suppress(ObygazeError):
        found["UNNOTICED"] += not verify(path, hashes=True).problems


def flips(folder: Path, rounds: int) -> Counter[str]:
    """Flip bits in every file of a store of four versions."""
    path = folder / "s"
    versioned_store(path)
    needed = needed_files(path)
    found: Counter[str] = Counter()
    draw = random.Random(17)
    for file in files_of(path):
        data = file.read_bytes()
        for bit in draw.sample(range(8 * len(data)), min(rounds, 8 * len(data))):
            flip(file, bit)
            look_at_all(path, names_of(path, file), needed, found)
            file.write_bytes(data)
    return found


def swaps(folder: Path, rounds: int) -> Counter[str]:
    """Exchange two files of a store of four versions, each pair of them or some of the pairs."""
    path = folder / "s"
    versioned_store(path)
    needed = needed_files(path)
    found: Counter[str] = Counter()
    pairs = list(combinations(files_of(path), 2))
    chosen = random.Random(18).sample(pairs, min(len(pairs), 100 * rounds))
    for first, second in chosen:
        data, other = first.read_bytes(), second.read_bytes()
        if data == other:
            continue
        first.write_bytes(other)
        second.write_bytes(data)
        names = names_of(path, first, second)
        look_at_all(path, names, needed, found)
        first.write_bytes(data)
        second.write_bytes(other)
    return found


def power_cuts(folder: Path) -> Counter[str]:
    """Cut the power at each sync while a version is made: it is there, or the one before is."""
    found: Counter[str] = Counter()
    for number in (2, 3, 4):
        before = folder / f"before{number}"
        sealed_store(before, N_CLIPS)
        for earlier in range(2, number):
            change(before, earlier)
        for at in range(200):
            path = folder / "s"
            shutil.copytree(before, path)
            there = {file.stat().st_ino for file in files_of(path)}
            code, synced = cut_at_sync(
                lambda path=path, number=number: change(path, number),
                at,
                folder / "log",
            )
            for file in files_of(path):
                if file.stat().st_ino not in synced | there:
                    file.write_bytes(b"")
            found["cases"] += 1
            newest, result = reads(path)
            found[result] += 1
            found["LOST"] += result != "right" or newest not in (number - 1, number)
            for earlier in range(1, newest):
                _, result = reads(path, earlier)
                found["LOST"] += result != "right"
            if newest < number:
                change(path, number)
            newest, result = reads(path)
            found[f"after the next run: {result}"] += 1
            found["LOST"] += newest != number
            with suppress(ObygazeError):
                found["LOST"] += bool(verify(path, hashes=True).problems)
            shutil.rmtree(path)
            if code == DONE:
                break
    return found


def stale_caches(folder: Path, rounds: int) -> Counter[str]:
    """Read a store of which a cache has some files as they were one or two versions ago."""
    trees = versioned_store(folder / "s")
    found: Counter[str] = Counter()
    draw = random.Random(19)
    for _ in range(100 * rounds):
        newest = draw.randrange(1, len(trees))
        share = draw.choice([0.1, 0.5, 0.9])
        seen: dict[str, bytes] = {}
        for name in {name for one in trees[: newest + 1] for name in one}:
            age = draw.choice([1, 2]) if draw.random() < share else 0
            data = trees[max(0, newest - age)].get(name)
            if data is not None:
                seen[name] = data
        path = folder / "seen"
        for name, data in seen.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)
        found["cases"] += 1
        _, result = reads(path)
        found[result] += 1
        shutil.rmtree(path)
    return found


def gathered(work: Any, *arguments: Any) -> Counter[str]:
    """Do a campaign with stores whose arrays are gathered."""
    with pytest.MonkeyPatch.context() as patch:
        gather_all(patch)
        counts: Counter[str] = work(*arguments)
    return counts
