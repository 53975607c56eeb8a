"""`python -m support.meetings [KILLS] [ROUNDS]` (from tests/): processes that meet, counted.

Commands that are killed as process 1 of a container and started again in the next one; one process
before every step of another; many that seal, copy and push at the same time. A line for each, and
exit code 1 if something was lost, wrong, not resumed or not explained.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from obygaze_features.core.errors import AlreadyThere, ObygazeError
from obygaze_features.core.files import sha256_bytes
from obygaze_features.store import (
    RowStatus,
    StoreWriter,
    open_store,
    pack,
    pull,
    push,
    unpack,
)
from obygaze_features.store.read.verify import verify
from obygaze_features.store.remote.object_store import S3Target
from obygaze_features.store.remote.selection import Transferred
from obygaze_features.store.write.commit import SEALING, STAGING
from support import containers
from support.kills import Work, meet_everywhere
from support.store_servers import s3_server
from support.stores import (
    ARRAYS,
    block_of,
    fill_store,
    plan_store,
    sealed_store,
    some_values,
    tree,
)

N_CLIPS = 4
FAILED = RowStatus.failed("decode", "E", "m")
VALUES = some_values(N_CLIPS, ARRAYS[:1])
SEALED_NAMES = {"README.md", "clips.csv", "data.zarr", "seal.json", "store.json"}


class Meeting:
    """A store that is made anew for each meeting; what the last one left is checked before."""

    def __init__(self, folder: Path) -> None:
        self.pristine, self.path, self.copy = (
            folder / "pristine",
            folder / "s",
            folder / "copy",
        )
        plan_store(self.pristine, N_CLIPS, 2, arrays=ARRAYS[:1])
        fill_store(self.pristine, VALUES, {3: FAILED})

    def prepare(self) -> None:
        if self.path.exists():
            self.check()
            shutil.rmtree(self.path)
        if self.copy.exists():
            self.check_copy()
            shutil.rmtree(self.copy)
        shutil.copytree(self.pristine, self.path)

    def check(self) -> None:
        StoreWriter(self.path).seal()
        assert {path.name for path in self.path.iterdir()} == SEALED_NAMES
        report = verify(self.path, hashes=True)
        assert not report.problems and not report.warnings
        found = open_store(self.path).matrix("clip", missing="drop")
        assert len(found.rows) >= N_CLIPS - 1
        np.testing.assert_array_equal(found.values, VALUES["clip"][found.rows])

    def check_copy(self) -> None:
        """Check that a copy has blocks as they were at one time."""
        report = verify(self.copy, hashes=True)
        assert not report.problems and not report.warnings
        found = open_store(self.copy).matrix("clip", missing="drop")
        np.testing.assert_array_equal(found.values, VALUES["clip"][found.rows])

    def forget_first_block(self) -> None:
        """Let the first block be one that was not committed."""
        for pattern in ("commits/block-00000*", "data.zarr/clip/c.0*"):
            for path in self.pristine.glob(pattern):
                path.unlink()

    def seal(self) -> None:
        StoreWriter(self.path).seal()

    def close(self) -> None:
        """The first step of a seal."""
        if (self.path / STAGING).is_dir():
            (self.path / STAGING).rename(self.path / SEALING)

    def commit(self) -> None:
        StoreWriter(self.path).commit_block(0, block_of(VALUES, (0, 2)))

    def commit_and_seal(self) -> None:
        self.commit()
        self.seal()

    def pull(self) -> None:
        pull(self.path, self.copy)

    def retry(self) -> None:
        try:
            part = {name: array[3:] for name, array in VALUES.items()}
            StoreWriter(self.path).replace_rows(1, [3], part, [RowStatus()])
        except AlreadyThere:
            pass

    def look(self) -> None:
        writer = StoreWriter(self.path)
        assert writer.pending_blocks() == []
        writer.clean_litter()

    def verify(self) -> None:
        report = verify(self.path, hashes=True)
        assert not report.problems and not report.warnings


# What one process does, and what another does before a step of it.
PAIRS = {
    f"{work}, and {other}": (work, other)
    for works, other in (
        (("seal", "retry", "look", "verify"), "seal"),
        (("seal", "retry", "look", "verify"), "close"),
        (("seal", "verify", "pull"), "retry"),
        (("commit", "verify", "pull"), "commit"),
        (("commit", "verify", "pull"), "commit_and_seal"),
    )
    for work in works
}


def meet(folder: Path, name: str, every: int = 1) -> int:
    """Have two processes meet before every step of the first; return how often they did."""
    work, other = PAIRS[name]
    meeting = Meeting(folder)
    if "commit" in other:
        meeting.forget_first_block()
    first: Callable[[], None] = getattr(meeting, work)
    n_meetings = meet_everywhere(meeting.prepare, first, getattr(meeting, other), every)
    if meeting.copy.exists():
        meeting.check_copy()
    if "commit" in other:
        meeting.commit()
    meeting.check()
    return n_meetings


# ---- containers --------------------------------------------------------------------------------


class Copying:
    """A command that makes a copy of a store, run in containers under one name of a host."""

    def __init__(self, folder: Path, url: str = "") -> None:
        self.folder, self.source = folder, folder / "source"
        self.target, self.url = folder / "target", url
        sealed_store(self.source, 7)
        pack(open_store(self.source), self.source.with_suffix(".zip"))

    def pull(self) -> str:
        return self._answer(lambda: pull(self.source, self.target))

    def push(self) -> str:
        return self._answer(lambda: push(open_store(self.source), self.target))

    def push_to_a_bucket(self) -> str:
        """Each request that changes the bucket is a step; this runs in a process of its own."""
        for name in ("put", "create", "remove"):
            setattr(S3Target, name, containers.with_step(getattr(S3Target, name)))
        return self._answer(lambda: push(open_store(self.source), self.url))

    def unpack(self) -> str:
        return self._answer(
            lambda: unpack(self.source.with_suffix(".zip"), self.target)
        )

    def _answer(self, work: Callable[[], Transferred]) -> str:
        """The number of files that an earlier process had copied; or the error."""
        try:
            return str(work().n_files_kept)
        except ObygazeError as error:
            return error.message

    def clear(self) -> None:
        """Remove the copy, and what is beside it."""
        for path in self.folder.iterdir():
            if path.name.startswith(("target", ".")):
                shutil.rmtree(path)

    def is_whole(self) -> bool:
        """Whether the copy is there, and nothing else is."""
        names = {path.name for path in self.folder.iterdir()}
        return tree(self.target) == tree(self.source) and names == {
            "source",
            "source.zip",
            "target",
        }


def kill_in_containers(
    command: Callable[[], str],
    is_whole: Callable[[], bool],
    clear: Work,
    kills: int,
    seed: int,
) -> Counter[str]:
    """Kill a command in its container at random steps, once or twice, then let it complete.

    Returns how often it was killed, and how often the next container did not complete it.
    """
    draw, found = random.Random(seed), Counter[str]()
    n_steps = 200
    while found["kills"] < kills:
        for _ in range(draw.choice((1, 2))):
            step = draw.randrange(1, n_steps)
            container = containers.start(command, step)
            if container.waits():
                container.kill()
                found["kills"] += 1
            else:  # it has fewer steps
                n_steps = max(2, min(n_steps, step))
                container.result()
        answer = containers.start(command, None).result()
        found["completed"] += 1
        if answer is None or not answer.isdigit() or not is_whole():
            found[f"NOT COMPLETED: {answer}"] += 1
        else:
            found["files kept"] += int(answer)
        clear()
    return found


def live_in_containers(copying: Copying, rounds: int, seed: int) -> Counter[str]:
    """Start a second container while the first one works: its draft is not taken for an old one."""
    draw, found = random.Random(seed), Counter[str]()
    for _ in range(rounds):
        # A process 2 does not exist in the second container.
        number = draw.choice((1, 2))
        first = containers.start(copying.pull, draw.randrange(4, 60), number)
        if first.waits():
            found[str(containers.start(copying.pull, None).result())] += 1
        answer = first.result()
        found["rounds"] += 1
        if answer != "0" or not copying.is_whole():
            found[f"NOT COMPLETED: {answer}"] += 1
        copying.clear()
    return found


# ---- many at once ------------------------------------------------------------------------------


def together(works: Sequence[Callable[[], str]]) -> list[str]:
    """Run work in forks that begin at the same time; return what each returned, or its error."""
    start_read, start_write = os.pipe()
    children = []
    for work in works:
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if not pid:
            os.close(start_write)
            try:
                os.read(start_read, 1)
                text = work()
            except BaseException as error:  # noqa: BLE001 - that is what is counted
                text = f"TRACEBACK {type(error).__name__}: {error}"
            os.write(write, text.encode())
            os._exit(0)
        os.close(write)
        children.append((pid, read))
    os.close(start_write)
    os.close(start_read)
    answers = []
    for pid, read in children:
        with os.fdopen(read, "rb") as stream:
            answers.append(stream.read().decode())
        os.waitpid(pid, 0)
    return answers


def seal_at_once(folder: Path, rounds: int, writers: int = 8) -> Counter[str]:
    """Several writers commit the last block and seal, while one verifies and one cleans."""
    found = Counter[str]()
    values = some_values(23)
    for number in range(rounds):
        path = folder / f"{number}"
        plan_store(path)
        fill_store(path, values, blocks=range(5))

        def commit_and_seal(path: Path = path) -> str:
            StoreWriter(path).commit_block(5, block_of(values, (20, 23)))
            return sha256_bytes(StoreWriter(path).seal().to_bytes())

        def check(path: Path = path) -> str:
            problems: list[object] = []
            while not problems and not (path / "seal.json").exists():
                problems += verify(path, hashes=True).problems
            return "".join(map(str, problems[:1])) or "checked"

        def clean(path: Path = path) -> str:
            while not (path / "seal.json").exists():
                StoreWriter(path).clean_litter()
                StoreWriter(path).pending_blocks()
            return "cleaned"

        answers = together([*[commit_and_seal] * writers, check, clean])
        found["rounds"] += 1
        found["writers"] += writers
        if {*answers} != {
            sha256_bytes((path / "seal.json").read_bytes()),
            "checked",
            "cleaned",
        }:
            found[f"WRONG {sorted(set(answers))}"] += 1
        if {name.name for name in path.iterdir()} != SEALED_NAMES:
            found["WRONG names"] += 1
        found["WRONG bytes"] += bool(verify(path, hashes=True).problems)
        shutil.rmtree(path)
    return found


def pull_while_it_grows(folder: Path, n_clips: int = 400) -> Counter[str]:
    """Pull again and again while a writer fills the store; each copy is whole as far as it is."""
    source, found = folder / "s", Counter[str]()
    plan_store(source, n_clips)
    values = some_values(n_clips)

    def grow() -> str:
        fill_store(source, values).seal()
        return "grown"

    def copy() -> str:
        counts, number = Counter[str](), 0
        while not (source / "seal.json").exists():
            target = folder / f"copy{number}"
            pull(source, target)
            counts["copies"] += 1
            report = verify(target, hashes=True)
            counts["WRONG"] += bool(report.problems or report.warnings)
            shutil.rmtree(target)
            number += 1
        return json.dumps(counts)

    answers = together([grow, copy])
    found.update(
        json.loads(answers[1]) if answers[1].startswith("{") else {answers[1]: 1}
    )
    shutil.rmtree(source)
    return found


class Bucket:
    """A bucket of a server on this machine, looked at without obygaze."""

    url = "s3://meetings/toy"

    def __init__(self, environment: Mapping[str, str]) -> None:
        os.environ.update(environment)
        boto3 = importlib.import_module("boto3")
        endpoint = environment["AWS_ENDPOINT_URL"]
        self.bucket = boto3.resource("s3", endpoint_url=endpoint).Bucket("meetings")
        self.bucket.create()

    def content(self) -> dict[str, bytes]:
        """The files of the store that is there, and any others."""
        objects = {
            one.key: one.get()["Body"].read() for one in self.bucket.objects.all()
        }
        return {key.removeprefix("toy/"): data for key, data in objects.items()}

    def clear(self) -> None:
        """Remove all."""
        self.bucket.objects.all().delete()


def push_at_once(folder: Path, bucket: Bucket, rounds: int) -> Counter[str]:
    """Two processes push different stores to one address: one is there whole, the other refused."""
    found, stores = Counter[str](), [folder / "a", folder / "b"]
    for number, path in enumerate(stores):
        plan_store(path, citation=f"{number}")
        fill_store(path, some_values(23, seed=number)).seal()

    def send(path: Path) -> Callable[[], str]:
        def work() -> str:
            try:
                push(open_store(path), bucket.url)
            except ObygazeError as error:
                return error.message
            return "sent"

        return work

    for _ in range(rounds):
        answers = together([send(path) for path in stores])
        found["rounds"] += 1
        winners = [
            path
            for path, answer in zip(stores, answers, strict=True)
            if answer == "sent"
        ]
        is_right = len(winners) == 1 and bucket.content() == tree(winners[0])
        found["one whole, the other refused" if is_right else f"WRONG {answers}"] += 1
        bucket.clear()
    return found


def main() -> None:
    """Run all; exit 1 if one of them found something."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    with tempfile.TemporaryDirectory() as name, s3_server(Path(name)) as environment:
        bucket = Bucket(environment)
        bad = sum(
            _report(kind, counts) for kind, counts in _campaigns(bucket, kills, rounds)
        )
    print(f"{bad} campaigns found something")
    sys.exit(bool(bad))


def _campaigns(
    bucket: Bucket, kills: int, rounds: int
) -> Iterator[tuple[str, Counter[str]]]:
    for name in ("pull", "push", "unpack", "push_to_a_bucket"):
        with _folder() as folder:
            copying = Copying(folder, bucket.url)
            to_bucket = name == "push_to_a_bucket"
            yield (
                f"killed in containers: {name}",
                kill_in_containers(
                    getattr(copying, name),
                    partial(_is_sent, copying, bucket)
                    if to_bucket
                    else copying.is_whole,
                    bucket.clear if to_bucket else copying.clear,
                    kills,
                    seed=7,
                ),
            )
    with _folder() as folder:
        yield "two live containers", live_in_containers(Copying(folder), rounds, seed=7)
    with _folder() as folder:
        yield "8 writers seal", seal_at_once(folder, rounds)
    with _folder() as folder:
        yield "pulls of a store that grows", pull_while_it_grows(folder)
    with _folder() as folder:
        yield "two stores pushed to one address", push_at_once(folder, bucket, rounds)
    for name in PAIRS:
        with _folder() as folder:
            yield f"before every step: {name}", Counter(meetings=meet(folder, name))


def _is_sent(copying: Copying, bucket: Bucket) -> bool:
    return bucket.content() == tree(copying.source)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def is_bad(counts: Mapping[str, int]) -> bool:
    """Return whether something was wrong, or not completed."""
    words = ("WRONG", "NOT", "TRACEBACK")
    return any(n and any(word in what for word in words) for what, n in counts.items())


def _report(name: str, counts: Counter[str]) -> bool:
    print(f"{name}: {dict(counts)}", flush=True)
    return is_bad(counts)


if __name__ == "__main__":
    main()
