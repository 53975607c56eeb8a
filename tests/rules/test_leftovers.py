"""Rule (e): what a killed command left is removed by the next one, or named with size and line.

Commands are killed before a change of the disk, or at a moment, that is drawn. Beside what they
leave there is what a living process writes, and what was left on another machine: both stay.
"""

import random
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.experiments import ONE_PAIR, films, planted, quick, store_of
from support.extraction import film_folder
from support.extraction import run as extract
from support.killed_commands import COMMANDS, Scene
from support.kills import kill_after, kill_at
from support.leftovers import name_of_another_machine, name_of_ended
from support.seeds import SEED, amount

from obygaze_features.core import system
from obygaze_features.core.files import write_atomic, write_then_rename
from obygaze_features.core.temporary_names import (
    find_leftovers,
    hidden_name,
    pulled_name,
    read_hidden,
    remove_leftovers,
)
from obygaze_features.manifest.io import write_manifest
from obygaze_models.runner.experiments import train
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.run import run_protocol

# Of the changes of the disk; the longest commands have some hundred.
MOST_CHANGES = 150
NEVER = 10**9


class Plain:
    """A command that writes into a folder; what it makes has the names of an undisturbed one."""

    def __init__(self, root, work, target, prepare=lambda home: None) -> None:
        self.root = root
        self._work = work
        self._target = target
        self._prepare = prepare
        self.number = 0
        self.reset()
        assert not kill_at(NEVER, self.work)
        self.undisturbed = names_in(self.home)
        self.reset()

    def reset(self) -> None:
        self.number += 1
        self.home = self.root / f"home-{self.number}"
        self.home.mkdir(parents=True)
        self.target = self.home / self._target
        self._prepare(self.home)

    def work(self) -> None:
        self._work(self.home)

    def check(self) -> None:
        assert names_in(self.home) == self.undisturbed


def names_in(home: Path) -> set[str]:
    """The names of all files and folders that are not hidden."""
    names = set()
    for path in home.rglob("*"):
        relative = path.relative_to(home)
        if not any(part.startswith(".") for part in relative.parts):
            names.add(str(relative))
    return names


def hidden_in(home: Path) -> dict[Path, int]:
    """All that is hidden, but not what is inside of it: its size."""
    hidden = {}
    for path in sorted(home.rglob(".*")):
        if any(part.startswith(".") for part in path.relative_to(home).parent.parts):
            continue
        paths = [path, *path.rglob("*")]
        hidden[path] = sum(one.lstat().st_size for one in paths if not one.is_dir())
    return hidden


def run_scene(root: Path, force: bool) -> Plain:
    manifest = films(3, 8)
    stores = {"sig": store_of(root / "sig", manifest, planted(manifest))}

    def inputs(seed: int) -> Any:
        changes = (*ONE_PAIR, 'grid.models=["ridge"]', f"splits.seed={seed}")
        protocol = quick("honest-negatives", *changes, replicates=2)
        return gather(protocol, manifest, "made-up", stores)

    first, second = inputs(1), inputs(2)

    def work(home: Path, wanted: Any = second) -> None:
        run_protocol(wanted, home / "runs" / "first", n_jobs=1, force=force)

    def prepare(home: Path) -> None:
        if force:
            assert not kill_at(NEVER, lambda: work(home, first))

    return Plain(root / "run", work, "runs/first", prepare)


def train_scene(root: Path) -> Plain:
    manifest = films(3, 8)
    store_of(root / "sig", manifest, planted(manifest))
    write_manifest(manifest, root / "made-up.toml")

    def work(home: Path) -> None:
        where = str(root / "sig"), root / "made-up.toml"
        options = {"changes": ["report.replicates=2"], "n_jobs": 1, "force": True}
        train("ridge", *where, output="kept", workspace=home, **options)

    return Plain(root / "train", work, "models/kept")


def extract_scene(root: Path) -> Plain:
    manifest = film_folder(root / "films", 4)
    target = "stores/films.descriptors"
    return Plain(
        root / "extract", lambda home: extract(manifest, home, workers=1), target
    )


# Of those that make a store or a file in one way, one.
OF_EACH_WAY = ("merge", "import", "pull", "push", "export-npz")
SCENES: dict[str, Callable[[Path], Any]] = {
    **{
        name: lambda root, name=name: Scene(root, name)
        for name in amount(OF_EACH_WAY, tuple(COMMANDS))
    },
    "run": lambda root: run_scene(root, force=False),
    "run --force": lambda root: run_scene(root, force=True),
    "train": train_scene,
    "extract": extract_scene,
}


def leave(path: Path) -> Path:
    """Write a folder with a hidden name."""
    path.mkdir(parents=True)
    (path / "half").write_bytes(b"half")
    return path


def check_after_a_kill(scene: Any, kill: Callable[[], bool]) -> bool:
    """Kill the command of a scene once, look at what is there, and run the command again."""
    was_killed = kill()
    living = leave(hidden_name(scene.target))
    away = leave(name_of_another_machine(scene.target))

    # What is named is what is there, each with its size, and its line removes it.
    sizes = hidden_in(scene.home)
    del sizes[living]
    found = {one.path: one.n_bytes for one in find_leftovers(scene.home)}
    assert found == sizes
    copy = scene.home.with_name("a copy")
    shutil.copytree(scene.home, copy, symlinks=True)
    for leftover in find_leftovers(copy):
        subprocess.run(leftover.command, shell=True, check=True)
    assert set(hidden_in(copy)) == {copy / living.relative_to(scene.home)}
    assert names_in(copy) == names_in(scene.home)
    shutil.rmtree(copy)

    # The same command removes what the killed one left, and nothing else.
    assert not kill_at(NEVER, scene.work)
    assert set(hidden_in(scene.home)) == {living, away}
    assert (living / "half").read_bytes() == b"half"
    shutil.rmtree(living)
    shutil.rmtree(away)
    scene.check()
    shutil.rmtree(scene.home)
    scene.reset()
    return was_killed


@pytest.mark.check("kills each command again and again")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SCENES)
def test_every_command_removes_its_own(tmp_path, name, capsys) -> None:
    if name == "export-parquet":
        pytest.importorskip("pyarrow")
    scene = SCENES[name](tmp_path)
    drawn = random.Random(f"{name} {SEED}")
    n_killed = 0
    # Some commands change the disk a few times only.
    first = amount([2], [1, 2, 3, 4])
    for n in first + [drawn.randint(1, MOST_CHANGES) for _ in range(amount(0, 4))]:
        n_killed += check_after_a_kill(scene, partial(kill_at, n, scene.work))
    for seconds in [drawn.expovariate(5) for _ in range(amount(0, 6))]:
        kill = partial(kill_after, seconds, scene.work)
        n_killed += check_after_a_kill(scene, kill)
    with capsys.disabled():
        print(f"\n{name}: {n_killed} kills")
    assert n_killed >= amount(1, 3)


# --- Whose a hidden name is ---


OTHER_NAMES = (".bashrc", ".films.csv", ".git", ".films.xclip.tmp")
OTHER_NAMES += ("films.pull-0123456789abcdef",)


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_other_names_are_no_leftovers(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    assert list(find_leftovers(tmp_path)) == []
    remove_leftovers(tmp_path / name.removeprefix(".").partition(".")[0])
    assert (tmp_path / name).read_text() == "mine"


def test_a_name_of_which_another_begins_keeps_its_own(tmp_path: Path) -> None:
    """`films` and `films.xclip`; two long names with one beginning, in copies too."""
    other = name_of_ended(tmp_path / "films.xclip")
    other.write_text("half")
    own = name_of_ended(tmp_path / "films")
    own.write_text("half")
    write_atomic(tmp_path / "films", b"whole")
    assert (own.exists(), other.exists()) == (False, True)
    long = tmp_path / ("é" * 127)
    name_of_ended(long).write_text("half")
    twin = long.with_name(f"{long.name[:-1]}x")
    of_twin = name_of_ended(twin)
    of_twin.write_text("half")
    with write_then_rename(long) as new:
        new.write_text("whole")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"films", other.name, long.name, of_twin.name}
    assert pulled_name(long, "1" * 64) != pulled_name(twin, "1" * 64)


@pytest.mark.parametrize(
    ("start", "state"), [("", "ended"), ("0", "unknown"), ("12", "ended")]
)
def test_of_a_process_that_cannot_be_looked_at_nothing_is_known(
    tmp_path, monkeypatch, start, state
):
    """Where the numbers of processes of others are not shown, as in /proc with hidepid."""
    path = hidden_name(tmp_path / "x")
    monkeypatch.setattr(system, "process_start", lambda process: start)
    hidden = read_hidden(path)
    assert hidden is not None
    assert hidden.state == state
