"""Processes that meet: a store that one process works on, and what another does meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from obygaze_features.core.errors import AlreadyThere
from obygaze_features.store import RowStatus, StoreWriter, open_store, pull
from obygaze_features.store.read.verify import verify
from obygaze_features.store.write.commit import SEALING, STAGING
from support.kills import meet_everywhere
from support.stores import ARRAYS, block_of, fill_store, plan_store, some_values

N_CLIPS = 4
FAILED = RowStatus.failed("decode", "E", "m")
VALUES = some_values(N_CLIPS, ARRAYS[:1])
SEALED_NAMES = {"README.md", "clips.csv", "data.zarr", "seal.json", "store.json"}


class Meeting:
    """A store that is made anew for each meeting; what the last one left is checked before."""

    def __init__(self, folder: Path) -> None:
        self.pristine, self.path, self.copy = folder / "pristine", folder / "s", folder / "copy"
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
