"""`PYTHONPATH=tests python -m support.torture [ROUNDS]`: damage stores in every way, and count.

Kills before every change of the disk by each command that writes, power cuts at each of these
places, every bit of a store flipped, every two files swapped, and servers that answer wrongly.
Flips, swaps, power cuts and stale caches also on a store of four versions, with gathered arrays. A
line for each campaign: how often, and how often something was lost, wrong or not explained.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import combinations
from pathlib import Path

import numpy as np

from obygaze_features.core.errors import ObygazeError
from obygaze_features.store import (
    export_store,
    merge,
    open_store,
    pack,
    pull,
    push,
    subset,
    unpack,
)
from obygaze_features.store.read.verify import verify
from obygaze_features.store.remote import fetch
from support import torture_versions as versions
from support.cuts import DONE, cut_at_sync
from support.kills import kill_everywhere
from support.store_damage import files_of, flip
from support.store_servers import web_server
from support.stores import (
    copy_of_sealed,
    fill_store,
    plan_store,
    sealed_store,
    some_values,
)
from support.torture_versions import gathered

N_CLIPS = 7
Work = Callable[[Path, Path], object]


def small_store(path: Path) -> dict[str, np.ndarray]:
    """A sealed store of seven clips, and its numbers."""
    return dict(sealed_store(path, N_CLIPS))


def reads(path: Path, values: dict[str, np.ndarray]) -> str:
    """Return "right", "wrong" or the kind of the error that reading a store ends in."""
    try:
        store = open_store(path)
        for name in store.feature_arrays:
            found = store.matrix(name, missing="drop")
            if not np.array_equal(found.values, values[name][found.rows]):
                return "WRONG"
    except ObygazeError as error:
        return type(error).__name__
    except Exception as error:  # noqa: BLE001 - that is what is counted
        return f"BUG {type(error).__name__}"
    return "right"


def fill(source: Path, target: Path) -> None:
    """Plan, fill and seal a store, or go on with one."""
    plan = plan_store(target, N_CLIPS)
    fill_store(target, some_values(N_CLIPS, plan.arrays)).seal()


# What each command does, from a sealed store to a target; a store, a zip or a folder of files.
WORK: dict[str, Work] = {
    "commit and seal": fill,
    "pull": lambda source, target: pull(source, target),
    "pull of an array": lambda source, target: pull(source, target, arrays=["clip"]),
    "pull of a film": lambda source, target: pull(source, target, films=["tt0000100"]),
    "push to a folder": lambda source, target: push(open_store(source), target),
    "subset": lambda source, target: subset(
        open_store(source), target, arrays=["clip"]
    ),
    "merge": lambda source, target: merge([open_store(source)], target),
    "pack": lambda source, target: pack(open_store(source), target, force=True),
    "unpack": lambda source, target: unpack(source.with_suffix(".zip"), target),
    **{
        f"export {kind}": lambda source, target, kind=kind: export_store(
            open_store(source), target, kind, arrays=["clip"], force=True
        )
        for kind in ("npz", "npy", "hdf5")
    },
}


def kills(folder: Path, name: str) -> Counter[str]:
    """Kill a command before each change; what is there is right, and the next run completes it."""
    source, target = folder / "source", folder / "target"
    found: Counter[str] = Counter()
    is_store = name not in ("pack",) and not name.startswith("export")
    values = small_store(source)
    pack(open_store(source), source.with_suffix(".zip"))

    def look() -> None:
        found["cases"] += 1
        if is_store and (target / "store.json").exists():
            found[reads(target, values)] += 1

    def complete() -> None:
        WORK[name](source, target)
        again = reads(target, values) if is_store else "right"
        found[f"after the next run: {again}"] += 1
        found["LEFT"] += sum(one.name.startswith(".target") for one in folder.iterdir())
        shutil.rmtree(target) if target.is_dir() else target.unlink()

    # Each kill is of a new run; then each is of a run that goes on with what the last one left.
    kill_everywhere(lambda: WORK[name](source, target), lambda: (look(), complete()))
    kill_everywhere(lambda: WORK[name](source, target), look)
    complete()
    return found


def power_cuts(folder: Path) -> Counter[str]:
    """Empty the files of a commit that were not yet synced when the power was cut."""
    found: Counter[str] = Counter()
    for number in range(60):
        target = folder / f"cut{number}"
        plan = plan_store(target, N_CLIPS)
        values = some_values(N_CLIPS, plan.arrays)
        before = {path.stat().st_ino for path in files_of(target)}
        code, synced = cut_at_sync(
            lambda target=target: fill(target, target), number, folder / "synced"
        )
        for path in files_of(target):
            if path.stat().st_ino not in synced | before:
                path.write_bytes(b"")
        found["cases"] += 1
        found[reads(target, values)] += 1
        fill(target, target)
        found[f"after the next run: {reads(target, values)}"] += 1
        shutil.rmtree(target)
        if code == DONE:
            break
    return found


def flips(folder: Path, rounds: int) -> Counter[str]:
    """Flip bits of a store, drawn by seed, in every file; hashes must find each."""
    values, found = small_store(folder / "s"), Counter[str]()
    draw = random.Random(13)
    for file in files_of(folder / "s"):
        data, n_bits = file.read_bytes(), 8 * file.stat().st_size
        for bit in draw.sample(range(n_bits), min(40 * rounds, n_bits)):
            flip(file, bit)
            found["cases"] += 1
            found[reads(folder / "s", values)] += 1
            with suppress(ObygazeError):
                found["UNNOTICED"] += not verify(folder / "s", hashes=True).problems
            file.write_bytes(data)
    return found


def swaps(folder: Path) -> Counter[str]:
    """Exchange every two files of a store, and take every file of another one."""
    values, found = small_store(folder / "s"), Counter[str]()
    plan = plan_store(folder / "other", N_CLIPS)
    fill_store(folder / "other", some_values(N_CLIPS, plan.arrays, seed=1)).seal()
    files = files_of(folder / "s")
    whole = {file: file.read_bytes() for file in files}
    others = {file: folder / "other" / file.relative_to(folder / "s") for file in files}
    changes = [{a: whole[b], b: whole[a]} for a, b in combinations(files, 2)]
    changes += [{file: other.read_bytes()} for file, other in others.items()]
    for change in changes:
        if all(whole[file] == data for file, data in change.items()):
            continue
        for file, data in change.items():
            file.write_bytes(data)
        found["cases"] += 1
        found[reads(folder / "s", values)] += 1
        with suppress(ObygazeError):
            found["UNNOTICED"] += not verify(folder / "s", hashes=True).problems
        for file in change:
            file.write_bytes(whole[file])
    return found


FAULTS: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda body: body[: len(body) // 2],
    "empty": lambda body: b"",
    "HTML": lambda body: b"<html>sign in</html>",
    "another range": lambda body: body[1:] + body[:1],
    "longer": lambda body: body + b"x",
}


def wrong_answers(folder: Path, rounds: int) -> Counter[str]:
    """Pull from a server that answers some requests wrongly; then from one that does not."""
    source, found = copy_of_sealed(folder / "s"), Counter[str]()
    values = {
        name: open_store(source).matrix(name).values
        for name in open_store(source).feature_arrays
    }
    fetch.PAUSE_S = 0.0
    for number in range(20 * rounds):
        draw = random.Random(number)
        kind = draw.choice(sorted(FAULTS))

        def fault(
            path: str, body: bytes, kind: str = kind, draw: random.Random = draw
        ) -> bytes:
            return FAULTS[kind](body) if draw.random() < 0.2 else body

        with web_server(source) as server:
            server.fault = fault
            try:
                pull(server.url, folder / "got")
                found[f"{kind}: pulled, {reads(folder / 'got', values)}"] += 1
            except ObygazeError as error:
                found[f"{kind}: {type(error).__name__}"] += 1
            server.fault = lambda path, body: body
            pull(server.url, folder / "got")
        found["cases"] += 1
        found[f"after the next pull: {reads(folder / 'got', values)}"] += 1
        shutil.rmtree(folder / "got")
    return found


def campaigns(rounds: int) -> dict[str, Callable[[Path], Counter[str]]]:
    """The campaigns by name."""
    named = {f"kills: {name}": lambda f, name=name: kills(f, name) for name in WORK}
    return {
        **named,
        "power cuts": power_cuts,
        "flips": lambda folder: flips(folder, rounds),
        "swaps": swaps,
        "wrong answers": lambda folder: wrong_answers(folder, rounds),
        "versions: flips": lambda folder: gathered(
            versions.flips, folder, max(rounds // 2, 1)
        ),
        "versions: swaps": lambda folder: gathered(versions.swaps, folder, rounds),
        "versions: power cuts": lambda folder: gathered(versions.power_cuts, folder),
        "versions: stale caches": lambda folder: gathered(
            versions.stale_caches, folder, rounds
        ),
    }


def is_bad(counts: Counter[str]) -> bool:
    """Return whether something was lost, wrong or not explained."""
    words = ("WRONG", "BUG", "LEFT", "LOST", "UNNOTICED")
    return any(
        n
        and (
            any(word in what for word in words)
            or (what[:5] == "after" and "right" not in what)
        )
        for what, n in counts.items()
    )


def main() -> None:
    """Run all campaigns; exit 1 if one of them found something."""
    rounds, bad = int(sys.argv[1]) if len(sys.argv) > 1 else 10, 0
    for name, work in campaigns(rounds).items():
        with tempfile.TemporaryDirectory() as folder:
            counts = work(Path(folder))
        bad += is_bad(counts)
        print(
            f"{name}: {counts.pop('cases')} cases; {dict(sorted(counts.items()))}",
            flush=True,
        )
    print(f"{bad} campaigns found something")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
