"""Commands that make stores of stores, killed before each change of the disk, go on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.kills import kill_everywhere
from support.withdrawn_stores import FILM, holds_planted, write
from support.written_stores import lasting_bytes

from obygaze_features.core.errors import AlreadyThere
from obygaze_features.core.workspace import Workspace
from obygaze_features.store_next.changing import merge, subset
from obygaze_features.store_next.copying import pull, push
from obygaze_features.store_next.layout import STORE_JSON
from obygaze_features.store_next.placing import finish_waiting
from obygaze_features.store_next.reading import open_store
from obygaze_features.store_next.verifying import verify


class Scene:
    """A store before and after a withdrawal, and a folder in which a command is killed."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.kept = root / "kept"
        self.kept.mkdir()
        self.old = write(self.kept / "old")
        self.new = self.kept / "new"
        shutil.copytree(self.old, self.new)
        subset(
            self.new,
            without=[FILM],
            reason="asked",
            remove_old=True,
            workspace=Workspace(self.kept),
        )
        self.half = self.kept / "half"
        subset(self.old, self.half, films=[FILM, "film-4"])
        self.target = self.home / "s"

    def reset(self, *, with_old: bool) -> None:
        """Begin again, with a copy of the old store or with nothing."""
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir()
        if with_old:
            shutil.copytree(self.old, self.target, copy_function=os.link)

    def withdraw(self) -> None:
        subset(
            self.target,
            without=[FILM],
            reason="asked",
            remove_old=True,
            workspace=Workspace(self.home),
        )

    def merge(self) -> None:
        merge([self.half, self.new], self.target)

    def subset(self) -> None:
        subset(self.new, self.target, films=[FILM, "film-4", "film-5"])

    def pull(self) -> None:
        pull(self.new, self.target, workspace=Workspace(self.home))

    def push(self) -> None:
        push(self.new, self.target)


@pytest.mark.check("a kill before each change of the disk")
@pytest.mark.parametrize(
    ("name", "with_old"),
    [
        ("withdraw", True),
        ("merge", False),
        ("subset", False),
        ("pull", False),
        ("pull", True),
        ("push", False),
        ("push", True),
    ],
)
def test_a_command_is_killed_anywhere(
    tmp_path: Path, name: str, with_old: bool
) -> None:
    scene = Scene(tmp_path)
    work: Callable[[], None] = getattr(scene, name)
    scene.reset(with_old=with_old)
    work()
    undisturbed = lasting_bytes(scene.target)
    scene.reset(with_old=with_old)

    def look() -> None:
        # What has the name of a store is one, whole.
        finish_waiting(scene.target)
        if (scene.target / STORE_JSON).exists():
            assert verify(scene.target, hashes=True).problems == []
        try:
            work()
        except AlreadyThere:
            # A new store under a new name: the killed command had finished it.
            assert name in ("merge", "subset")
        assert lasting_bytes(scene.target) == undisturbed
        assert verify(scene.target, hashes=True, decode=True).problems == []
        assert not holds_planted(scene.target)
        if name in ("pull", "push"):
            assert open_store(scene.target).seal == open_store(scene.new).seal
        if name in ("withdraw", "pull", "push"):
            names = {path.name for path in scene.home.iterdir()}
            before = {each for each in names if each.startswith("s.before-")}
            hidden = {each for each in names if each.startswith(".")}
            assert names - before - hidden == {"s"}
            if name != "withdraw":
                assert not hidden
        scene.reset(with_old=with_old)

    n_kills = kill_everywhere(work, look)
    assert n_kills >= 30
