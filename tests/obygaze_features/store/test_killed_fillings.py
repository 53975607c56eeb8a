import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.killed_fillers import (
    CHECKS,
    LIVES,
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

# Of the changes and uses of the disk; `make torture` tries all of them.
EVERY = amount(60, 5)


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    made = Zygote()
    yield made
    made.close()


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
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

    def __init__(
        self, folder: Path, life: str, sealed: Path, undisturbed: dict[str, Any]
    ) -> None:
        self.folder = folder
        self.life = life
        self.sealed = sealed
        self.undisturbed = undisturbed[life]
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

    def check(self) -> None:
        """It is finished, right, and the same as an undisturbed one."""
        CHECKS[self.life](self.target)
        assert lasting_bytes(self.target) == self.undisturbed
        check_names(self.target)
        assert not self.target.with_name("s.next").exists()

    def is_finished(self) -> bool:
        """Whether the store is there, and the change too."""
        is_changed = bool(list(self.target.parent.glob("s.before-*")))
        is_whole = (self.target / "store.json").exists()
        return is_whole and (self.life == "first" or is_changed)

    def disturb(
        self, zygote: Zygote, places: list[Path], n_kills: int, most_workers: int
    ) -> None:
        """Kill and suspend workers, at least so often, that see the folder through places."""
        random = np.random.default_rng(20240817 + SEED)
        n_killed = 0
        while n_killed < n_kills:
            self.new()
            inside = self.target.relative_to(self.folder)
            n_killed += disturb(
                zygote,
                random,
                self.life,
                [place / inside for place in places],
                int(random.integers(3, most_workers)),
                self.is_finished,
                lambda: check_names(self.target),
            )
            self.check()
        print(f"{self.life}: {n_killed} kills of {self.number} stores")


@pytest.fixture
def rounds(tmp_path: Path, life: str, sealed: Path, undisturbed: Any) -> Rounds:
    (tmp_path / "rounds").mkdir()
    return Rounds(tmp_path / "rounds", life, sealed, undisturbed)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("life", LIVES)
def test_many_kills(rounds: Rounds, zygote: Zygote, tmp_path: Path) -> None:
    rounds.disturb(zygote, [rounds.folder], amount(1, 30), amount(4, 9))
    assert failures(tmp_path) == []


@pytest.mark.check("kills many workers, half of them on network disks")
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("life", LIVES)
def test_kills_on_disks_that_remember_names_or_repeat_calls(rounds, zygote, tmp_path):
    backing = rounds.folder
    with (
        mounted(backing, tmp_path / "m0", "1") as no_first,
        mounted(backing, tmp_path / "m1", "1", "repeats") as no_second,
    ):
        if no_first or no_second:
            pytest.skip(f"no FUSE here: {no_first or no_second}")
        places = [backing, tmp_path / "m0", tmp_path / "m1", tmp_path / "m1"]
        rounds.disturb(zygote, places, amount(2, 30), 6)
    assert failures(tmp_path) == []


@pytest.mark.check("kills before many changes of the disk")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("life", LIVES)
def test_a_kill_between_any_two_system_calls(rounds: Rounds) -> None:
    rounds.new()

    def look() -> None:
        check_names(rounds.target)
        rounds.work()
        rounds.check()
        shutil.rmtree(rounds.target.parent)
        rounds.new()

    n_killed = kill_everywhere(rounds.work, look, EVERY)
    assert n_killed > 100 / EVERY


@pytest.mark.check("another process lives at many uses of the disk")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("life", amount(["change"], ["first", "change"]))
def test_another_process_does_it_all_meanwhile(rounds: Rounds) -> None:
    last: list[Path] = []

    def prepare() -> None:
        if last:
            rounds.check()
            shutil.rmtree(last.pop().parent)
        last.append(rounds.new())

    n_met = meet_everywhere(prepare, rounds.work, rounds.work, EVERY)
    rounds.check()
    assert n_met > 100 / EVERY
