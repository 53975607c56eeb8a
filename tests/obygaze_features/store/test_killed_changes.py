import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.killed_commands import COMMANDS, Scene
from support.kills import kill_everywhere, meet_everywhere
from support.seeds import SEED, amount
from support.zygote import Zygote, disturb, failures

# Of the changes and uses of the disk; `make torture` tries all of them. Exports have few.
EVERY = amount(60, 5)
# Commands that several processes run at once: one of each kind that writes in its own way.
SOME = ["merge", "pull", "export-npz"]
TOGETHER = amount(SOME, list(COMMANDS))


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    made = Zygote()
    yield made
    made.close()


def scene_of(tmp_path: Path, name: str) -> Scene:
    if name == "export-parquet":
        pytest.importorskip("pyarrow")
    return Scene(tmp_path, name)


@pytest.mark.check("kills before many changes of the disk")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_killed_between_any_two_system_calls(tmp_path, name, capsys):
    scene = scene_of(tmp_path, name)

    def look() -> None:
        # What has the name of a store is one, whole.
        scene.look()
        scene.work()
        scene.check()
        shutil.rmtree(scene.home)
        scene.reset()

    every = 1 if scene.is_export else EVERY
    n_kills = kill_everywhere(scene.work, look, every)
    with capsys.disabled():
        print(f"\n{name}: {n_kills} kills between two system calls")
    # What HDF5 writes is not seen here.
    assert n_kills >= (2 if scene.is_export else 30 / EVERY)


@pytest.mark.check("meets at many looks")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", TOGETHER)
def test_another_process_runs_the_command_meanwhile(tmp_path: Path, name: str) -> None:
    scene = scene_of(tmp_path, name)
    last: list[Path] = []

    def prepare() -> None:
        if last:
            scene.check()
            shutil.rmtree(last.pop())
            scene.reset()
        last.append(scene.home)

    n_met = meet_everywhere(prepare, scene.work, scene.work, EVERY)
    scene.check()
    assert n_met > (5 if scene.is_export else 50) / EVERY


@pytest.mark.check("kills processes of each command")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", TOGETHER)
def test_several_processes_are_killed_and_suspended(tmp_path, zygote, name, capsys):
    scene = scene_of(tmp_path, name)
    random = np.random.default_rng(20240817 + SEED)
    n_kills = 0
    while n_kills < amount(2, 10):
        n_kills += disturb(
            zygote,
            random,
            name,
            [scene.target],
            int(random.integers(3, 9)),
            scene.is_finished,
            scene.look,
        )
        scene.check()
        shutil.rmtree(scene.home)
        scene.reset()
    assert failures(tmp_path) == []
    with capsys.disabled():
        print(f"\n{name}: {n_kills} kills in {scene.number - 2} rounds")
