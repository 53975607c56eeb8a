"""Take over the units of a plan that other workers leave, are slow with, or died with.

A worker extracts its own units first. What it works on is said in `staging/` of a store: a folder
that it holds as long as it runs (`core/holds`), with a file that lists the units. A worker that has
finished takes units that no running worker lists, then those that their worker would finish much
later. A claim only saves work. The first commit of a block decides, and the other one is dropped.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from obygaze_features.core.files import write_atomic
from obygaze_features.core.holds import TAG, HeldFolder, hold_new, take_over
from obygaze_features.extraction.plan import ExtractPlan
from obygaze_features.store.write.commit import STAGING, discard
from obygaze_features.store.write.finished_rows import finished_files, finished_numbers
from obygaze_features.store.write.writer import StoreWriter

CLAIM = "claim.json"
# A unit is taken over from a worker that would need more than so many times as long as this one.
LATER_THAN = 2.0
# How often a worker looks again when others took the same units at the same moment.
ATTEMPTS = 5

_NAME = re.compile(rf"worker\.{TAG}")


@dataclass(frozen=True)
class Claim:
    """The units that another worker is at.

    Args:
        name: The name of its folder.
        units: The units, in the order in which it extracts them.
        n_rows: How many rows were left in them when it began.
        clip_s: Seconds that it needed for a clip before. None: these are its first.
        begun_s: When it began, by the clock of the file system.
    """

    name: str
    units: Sequence[int]
    n_rows: int
    clip_s: float | None
    begun_s: float

    def seconds_to_go(
        self, rows_left: Mapping[int, int], now_s: float
    ) -> dict[int, float]:
        """Return for each unit with rows left when its worker will have finished it."""
        n_left = sum(rows_left.get(unit, 0) for unit in self.units)
        n_done = self.n_rows - n_left
        age_s = max(0.0, now_s - self.begun_s)
        # One clip may have taken all the time: then this is the least that it can be.
        clip_s = max(self.clip_s or 0.0, age_s) if n_done <= 0 else age_s / n_done
        seconds: dict[int, float] = {}
        n_before = 0
        for unit in self.units:
            if unit in rows_left:
                n_before += rows_left[unit]
                seconds[unit] = n_before * clip_s
        return seconds


class SharedUnits:
    """The units of a plan that several workers share.

    Args:
        plan: The plan.
        worker: The worker, such as 0/8.
    """

    def __init__(self, plan: ExtractPlan, worker: str) -> None:
        self.plan = plan
        self.worker = worker
        self.clip_s: float | None = None
        first, _, n_workers = worker.partition("/")
        self.first = int(first)
        self.n_workers = int(n_workers)
        self._held: HeldFolder | None = None

    @contextmanager
    def at_work(self, units: Sequence[int]) -> Iterator[None]:
        """List units as those of this worker as long as the block runs."""
        self._claim(units)
        try:
            yield
        finally:
            self._let_go()

    def measure(self, n_clips: int, seconds: float) -> None:
        """Take the time that clips took as that of the next ones."""
        if n_clips:
            self.clip_s = seconds / n_clips

    def take(self) -> list[int]:
        """Return units to take over, and list them; none if others will soon have finished all."""
        for _ in range(ATTEMPTS):
            rows_left = self.rows_left()
            others = self._others()
            units = self._chosen(rows_left, others)
            if not units:
                return []
            self._claim(units)
            units = self._not_taken_meanwhile(units, others)
            if units:
                self._claim(units)
                return units
        return []

    def rows_left(self) -> dict[int, int]:
        """Return for each unit that is not finished how many rows are left of it.

        Of several stores, it is the number of the one with the most.
        """
        rows_left: dict[int, int] = {}
        for target in self.plan.targets:
            writer = StoreWriter(target.store)
            n_kept = _n_kept(writer)
            of_store: dict[int, int] = {}
            for block in writer.pending_blocks():
                first, after = writer.plan.block_range(block)
                unit = first // self.plan.unit_rows
                n_left = max(0, after - first - n_kept.get(block, 0))
                of_store[unit] = of_store.get(unit, 0) + n_left
            for unit, n_left in of_store.items():
                rows_left[unit] = max(rows_left.get(unit, 0), n_left)
        return dict(sorted(rows_left.items()))

    def _chosen(
        self, rows_left: Mapping[int, int], others: Collection[Claim]
    ) -> list[int]:
        """Return units of nobody, or else those that others would finish much later."""
        claimed = set[int]().union(*(claim.units for claim in others))
        free = [unit for unit in rows_left if unit not in claimed]
        if free:
            # Workers that look at the same moment should not see the same units first.
            start = self.first * len(free) // self.n_workers
            turned = [*free[start:], *free[:start]]
            return turned[: max(1, len(free) // (2 * self.n_workers))]
        if self.clip_s is None:
            return []
        now_s = self._now_s()
        soonest: dict[int, float] = {}
        for claim in others:
            for unit, seconds in claim.seconds_to_go(rows_left, now_s).items():
                soonest[unit] = min(seconds, soonest.get(unit, inf))
        chosen = []
        mine_s = 0.0
        for unit in sorted(soonest, key=lambda unit: soonest[unit], reverse=True):
            mine_s += rows_left[unit] * self.clip_s
            if soonest[unit] <= LATER_THAN * mine_s:
                break
            chosen.append(unit)
        return chosen

    def _not_taken_meanwhile(
        self, units: Sequence[int], before: Collection[Claim]
    ) -> list[int]:
        """Return the units that no other worker took at the same moment; one of two gives way."""
        if self._held is None:
            return list(units)
        units_before = {claim.name: claim.units for claim in before}
        taken: set[int] = set()
        for claim in self._others():
            if claim.name < self._held.path.name:
                taken.update(set(claim.units) - set(units_before.get(claim.name, ())))
        return [unit for unit in units if unit not in taken]

    def _claim(self, units: Sequence[int]) -> None:
        """List units as those of this worker; nothing is listed where all stores are sealed."""
        rows_left = self.rows_left()
        document = {
            "worker": self.worker,
            "units": list(units),
            "n_rows": sum(rows_left.get(unit, 0) for unit in units),
            "clip_s": self.clip_s,
        }
        data = json.dumps(document).encode("ascii")
        # A store that is sealed, at any time, takes the folder away.
        if self._held is not None and not self._held.path.is_dir():
            self._let_go()
        for staging in self._staging_folders():
            try:
                if self._held is None:
                    self._held = hold_new(staging, "worker.")
                write_atomic(self._held.path / CLAIM, data)
                return
            except FileNotFoundError:
                self._let_go()

    def _let_go(self) -> None:
        """Remove the folder of this worker."""
        if self._held is not None:
            discard(self._held.path)
            self._held.release()
            self._held = None

    def _others(self) -> list[Claim]:
        """Return the claims of workers that run; remove those of others."""
        claims = []
        for staging in self._staging_folders():
            for folder in _listed(staging):
                match = _NAME.fullmatch(folder.name)
                is_mine = self._held is not None and folder == self._held.path
                if match is None or is_mine:
                    continue
                if _is_abandoned(folder, match):
                    discard(folder)
                    continue
                claim = _read_claim(folder)
                if claim is not None:
                    claims.append(claim)
        return claims

    def _now_s(self) -> float:
        """Return the time by the clock of the file system."""
        if self._held is None:
            return 0.0
        probe = self._held.path / "now"
        with suppress(FileNotFoundError):
            probe.touch()
            return probe.stat().st_mtime
        return 0.0

    def _staging_folders(self) -> list[Path]:
        """Return the folders of claims: those of stores that are not sealed."""
        folders = (Path(target.store) / STAGING for target in self.plan.targets)
        return [folder for folder in folders if folder.is_dir()]


def _n_kept(writer: StoreWriter) -> dict[int, int]:
    """Return how many finished rows are kept of each block."""
    n_kept: dict[int, int] = {}
    for (block, revision), paths in finished_files(writer.path).items():
        if revision == 0:
            rows: set[int] = set()
            for path in paths:
                rows.update(finished_numbers(path))
            n_kept[block] = len(rows)
    return n_kept


def _is_abandoned(folder: Path, match: re.Match[str]) -> bool:
    """Return whether the worker of a folder has ended."""
    try:
        opened = take_over(folder, match)
    except OSError:
        return False  # it runs, or has just removed its folder
    if opened is None:
        return False
    opened.close()
    return True


def _read_claim(folder: Path) -> Claim | None:
    """Return the claim in the folder of a worker; None if it is not there yet, or not any more."""
    path = folder / CLAIM
    try:
        document: dict[str, Any] = json.loads(path.read_bytes())
        begun_s = path.stat().st_mtime
        return Claim(
            folder.name,
            [int(unit) for unit in document["units"]],
            int(document["n_rows"]),
            document["clip_s"],
            begun_s,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
