"""Processes that fill and seal, killed or suspended anywhere: same bytes, nothing lost."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.killed_fillers import (
    change_life,
    check_changed,
    check_first,
    check_names,
    first_life,
)
from support.kills import kill_everywhere, meet_everywhere
from support.seeds import SEED, amount
from support.written_stores import lasting_bytes
from support.zygote import Zygote, disturb, failures, mounted

CHECKS = {"first": check_first, "change": check_changed}
LIVES = {"first": first_life, "change": change_life}
# Of the changes and uses of the disk; `make torture` tries all of them.
EVERY = amount(60, 5)


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    made = Zygote()
    yield made
    made.close()


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A first store, undisturbed."""
    target = tmp_path_factory.mktemp("sealed") / "s"
    first_life(target)
    check_first(target)
    return target


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, sealed) -> dict[str, dict[str, object]]:
    """The bytes after each life that nobody has disturbed."""
    target = tmp_path_factory.mktemp("changed") / "s"
    shutil.copytree(sealed, target)
    change_life(target)
    check_changed(target)
    return {"first": lasting_bytes(sealed), "change": lasting_bytes(target)}


class Rounds:
    """Stores that are begun anew, one after another, in folders of their own."""

    def __init__(self, folder: Path, life: str, sealed: Path) -> None:
        self.folder = folder
        self.life = life
        self.sealed = sealed
        self.number = 0

    def new(self) -> Path:
        """The place of a store; for a change, with the first store."""
        self.number += 1
        self.target = self.folder / f"{self.life}-{self.number}" / "s"
        self.target.parent.mkdir()
        if self.life == "change":
            # Not copytree: the copies share the bytes, as a copy made by `cp -al`.
            shutil.copytree(self.sealed, self.target, copy_function=os.link)
        return self.target

    def work(self) -> None:
        LIVES[self.life](self.target, 0)

    def check(self, undisturbed: dict[str, dict[str, object]]) -> None:
        """It is finished, right, and the same as an undisturbed one."""
        CHECKS[self.life](self.target)
        assert lasting_bytes(self.target) == undisturbed[self.life]
        check_names(self.target)
        assert not self.target.with_name("s.next").exists()

    def is_finished(self) -> bool:
        """Whether the store is there, and the change too."""
        is_changed = bool(list(self.target.parent.glob("s.before-*")))
        return (self.target / "store.json").exists() and (
            self.life == "first" or is_changed
        )

    def disturb(
        self,
        zygote: Zygote,
        random: np.random.Generator,
        n_workers: int,
        places: list[Path],
        undisturbed: dict[str, dict[str, object]],
    ) -> int:
        """Kill and suspend workers that make a new store; return the number of kills.

        Args:
            zygote: What starts workers.
            random: When, and whom.
            n_workers: How many work at a time.
            places: The folders through which workers see the folder of all rounds.
            undisturbed: The bytes that must be there in the end.
        """
        self.new()
        inside = self.target.relative_to(self.folder)
        n_killed = disturb(
            zygote,
            random,
            self.life,
            [place / inside for place in places],
            n_workers,
            self.is_finished,
            lambda: check_names(self.target),
        )
        self.check(undisturbed)
        return n_killed


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("life", ["first", "change"])
def test_many_kills(tmp_path, zygote, sealed, undisturbed, life, capsys) -> None:
    rounds = Rounds(tmp_path, life, sealed)
    random = np.random.default_rng(20240817 + SEED)
    n_killed = 0
    while n_killed < amount(1, 30):
        n_workers = int(random.integers(3, amount(4, 9)))
        n_killed += rounds.disturb(zygote, random, n_workers, [tmp_path], undisturbed)
    assert failures(tmp_path) == []
    with capsys.disabled():
        print(f"\n{life}: {n_killed} kills of {rounds.number} stores")


@pytest.mark.check("kills many workers, half of them on network disks")
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("life", ["first", "change"])
def test_kills_on_disks_that_remember_names_and_repeat_requests(
    tmp_path, zygote, sealed, undisturbed, life, capsys
) -> None:
    backing = tmp_path / "backing"
    backing.mkdir()
    rounds = Rounds(backing, life, sealed)
    random = np.random.default_rng(20240817 + SEED)
    n_killed = 0
    with (
        mounted(backing, tmp_path / "m0", "1") as no_first,
        mounted(backing, tmp_path / "m1", "1", "repeats") as no_second,
    ):
        if no_first or no_second:
            pytest.skip(f"no FUSE here: {no_first or no_second}")
        places = [backing, tmp_path / "m0", tmp_path / "m1", tmp_path / "m1"]
        while n_killed < amount(2, 30):
            n_workers = int(random.integers(3, 6))
            n_killed += rounds.disturb(zygote, random, n_workers, places, undisturbed)
    assert failures(tmp_path) == []
    with capsys.disabled():
        print(f"\n{life}: {n_killed} kills of {rounds.number} stores")


@pytest.mark.check("kills before many changes of the disk")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("life", ["first", "change"])
def test_a_kill_between_any_two_system_calls(
    tmp_path, sealed, undisturbed, life, capsys
) -> None:
    rounds = Rounds(tmp_path, life, sealed)
    rounds.new()

    def look() -> None:
        check_names(rounds.target)
        rounds.work()
        rounds.check(undisturbed)
        shutil.rmtree(rounds.target.parent)
        rounds.new()

    n_killed = kill_everywhere(rounds.work, look, EVERY)
    with capsys.disabled():
        print(f"\n{life}: {n_killed} kills")
    assert n_killed > 100 / EVERY


@pytest.mark.check("another process lives at many uses of the disk")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("life", amount(["change"], ["first", "change"]))
def test_another_process_does_it_all_meanwhile(tmp_path, sealed, undisturbed, life):
    rounds = Rounds(tmp_path, life, sealed)
    last: list[Path] = []

    def prepare() -> None:
        if last:
            rounds.check(undisturbed)
            shutil.rmtree(last.pop().parent)
        last.append(rounds.new())

    n_met = meet_everywhere(prepare, rounds.work, rounds.work, EVERY)
    rounds.check(undisturbed)
    assert n_met > 100 / EVERY
