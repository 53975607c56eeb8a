"""What commands do that make stores and files of stores, for tests that kill them.

Each works on a folder `HOME/s`; what it reads is in the folder `kept` beside all the homes.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.errors import AlreadyThere
from obygaze_features.core.workspace import Workspace
from obygaze_features.store import export_features, import_features
from obygaze_features.store.atomic_files import read_seal
from obygaze_features.store.changing import merge, subset
from obygaze_features.store.copying import pull, push
from obygaze_features.store.layout import STORE_JSON
from obygaze_features.store.reading import open_store
from obygaze_features.store.verifying import verify
from support.planted_stores import FILM, holds_planted, values_of, write
from support.written_stores import a_recipe, check_all, files_of, lasting_bytes


def make_kept(root: Path) -> Path:
    kept = root / "kept"
    kept.mkdir()
    old = write(kept / "old")
    subset(old, kept / "new", without=[FILM])
    subset(old, kept / "part", films=["film-4", "film-5"])
    subset(kept / "new", kept / "rest", without=["film-4", "film-5"])
    write(kept / "other", recipe=a_recipe("wav2vec2"))
    ids = [f"film-{n // 3}-{n}" for n in range(94)]
    arrays = {name: array[:94] for name, array in values_of().items()}
    np.savez(kept / "f.npz", clip_id=ids, **arrays)
    return kept


def _kept(target: Path) -> Path:
    return target.parent.parent / "kept"


def pull_new(target: Path, start: int = 0) -> None:
    pull(_kept(target) / "new", target, workspace=Workspace(target.parent))


def push_new(target: Path, start: int = 0) -> None:
    push(_kept(target) / "new", target, no_licence=True)


Make = Callable[[Path, Path], object]


def making(make: Make) -> Callable[..., None]:
    """A command that makes something for a target of what is kept, if it is not there."""

    def live(target: Path, start: int = 0) -> None:
        with suppress(AlreadyThere):
            make(target, _kept(target))

    return live


def exporting(name: str, **options: Any) -> Callable[..., None]:
    return making(lambda to, kept: export_features(kept / "new", to / name, **options))


SOME_FILMS = ["film-4", "film-5", "film-6"]
EXPORTS = {
    "export-npz": exporting("s.npz"),
    "export-hdf5": exporting("s.h5"),
    "export-parquet": exporting("s", format="parquet"),
}
COMMANDS = {
    "merge": making(lambda to, kept: merge([kept / "part", kept / "rest"], to)),
    "subset": making(lambda to, kept: subset(kept / "new", to, films=SOME_FILMS)),
    "import": making(
        lambda to, kept: import_features(kept / "f.npz", to, keep_frames=True)
    ),
    "pull": pull_new,
    "push": push_new,
    **EXPORTS,
}


class Scene:
    """A command and its places: `kept` is made once, each home anew."""

    def __init__(self, root: Path, name: str) -> None:
        self.root = root
        self.name = name
        self.live = COMMANDS[name]
        self.is_export = name in EXPORTS
        self.kept = root / "kept"
        if not self.kept.exists():
            make_kept(root)
        self.number = 0
        self.reset()
        self.work()
        self.undisturbed = self.bytes()
        self.reset()

    def reset(self) -> None:
        self.number += 1
        self.home = self.root / f"{self.name}-{self.number}"
        self.home.mkdir()
        self.target = self.home / "s"
        if self.is_export:
            self.target.mkdir()

    def work(self) -> None:
        self.live(self.target)

    def bytes(self) -> dict[str, object]:
        if self.is_export:
            # A kill leaves a hidden file or folder.
            files = files_of(self.target).items()
            return {name: data for name, data in files if not name.startswith(".")}
        return lasting_bytes(self.target)

    def is_finished(self) -> bool:
        """Whether something has the final name."""
        if self.is_export:
            return any(not path.name.startswith(".") for path in self.target.iterdir())
        return bool(read_seal(self.target))

    def look(self) -> None:
        """Check that what has the name of a store is one, whole."""
        if not self.is_export and (self.target / STORE_JSON).exists():
            with suppress(FileNotFoundError):
                assert verify(self.target, hashes=True).problems == []

    def check(self) -> None:
        assert self.bytes() == self.undisturbed
        if self.is_export:
            return
        check_all(self.target)
        assert holds_planted(self.target) == (self.name == "import")
        if self.live in (pull_new, push_new):
            assert open_store(self.target).seal == open_store(self.kept / "new").seal
        names = {path.name for path in self.home.iterdir()}
        hidden = {name for name in names if name.startswith(".")}
        assert names - hidden == {"s"}
        if self.live in (pull_new, push_new):
            assert hidden == set()
