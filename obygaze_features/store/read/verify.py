"""Tells whether a store is what it was when it was committed, and names each file that is not."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import Progress, count
from obygaze_features.core.errors import Corrupt, FixInput, Mismatch, NotFound, ObygazeError
from obygaze_features.core.files import sha256_bytes
from obygaze_features.store.format.records import (
    PARTIAL_FILE,
    README_FILE,
    SEAL_FILE,
    STORE_FILE,
    TEXT_KEY,
    Partial,
    Plan,
    Seal,
    marker_key,
)
from obygaze_features.store.format.schema import ID_ARRAYS, FileMark
from obygaze_features.store.read.commits import Commits, held
from obygaze_features.store.read.diff import cosines
from obygaze_features.store.read.reader import Store
from obygaze_features.store.remote import open_files
from obygaze_features.store.remote.files import Files, read_or_none
from obygaze_features.store.remote.object_store import Unreachable

READ_BYTES = 16_000_000
SAME_COSINE = 0.999
SHOWN_CHANGED = 20
_BLOCK_FILE = re.compile(r"c\.(\d{1,9})(\.0)*")

# Given clip ids, extracts them again: for each clip that could be, its levels.
Redecode = Callable[[Sequence[str]], Mapping[str, Mapping[str, npt.NDArray[Any]]]]


@dataclass(frozen=True)
class Problem:
    """A file that is not what was promised."""

    name: str
    what: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.name}: {self.what}"


@dataclass
class Report:
    """What a verification saw."""

    location: str
    how: str
    sealed: bool = False
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    n_files: int = 0
    n_bytes: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    cosines: dict[str, dict[str, float]] = field(default_factory=dict)
    changed: dict[str, list[str]] = field(default_factory=dict)

    def require_whole(self) -> None:
        """An error (exit 4) that names each file with a problem."""
        if self.problems:
            raise Corrupt(
                f"{count(len(self.problems), 'problem')}, the first in {self.problems[0]}",
                where=self.location,
                hint="fetch these files again, or extract their blocks again",
                details=[str(problem) for problem in self.problems],
            )

    def require_unchanged(self) -> None:
        """An error (exit 5) that names each clip whose times or video changed since."""
        if self.changed:
            hint = "obygaze extract run, which says how to extract them again"
            lines = {clip: ", ".join(what) for clip, what in self.changed.items()}
            raise changed_error(lines, where=self.location, hint=hint)


def changed_error(what_changed: Mapping[str, str], *, where: str, hint: str) -> Mismatch:
    """The error for clips whose features are of other times, or of another video."""
    lines = [f"{clip}: {what}" for clip, what in what_changed.items()]
    more = [f"... and {len(lines) - SHOWN_CHANGED} more"] if len(lines) > SHOWN_CHANGED else []
    return Mismatch(
        f"{count(len(lines), 'clip')} changed since their features were extracted, the first is "
        f"{lines[0]}",
        where=where,
        hint=hint,
        details=[*lines[:SHOWN_CHANGED], *more] if len(lines) > 1 else [],
    )


def verify(
    location: Store | Files | str | Path,
    *,
    hashes: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Check markers and lengths; with `hashes`, every byte of every file.

    `progress` counts the bytes of the files that were checked.
    """
    files = _files(location)
    report = Report(files.location, "hashes" if hashes else "markers and lengths")
    seal = _seal(files, report)
    plan = _plan(files, seal, report)
    if plan is None or report.problems:
        return report  # without the file that says what to expect, nothing can be told
    report.sealed = seal is not None
    commits = Commits(files, plan)
    promised = (
        held(seal.files, _partial(files, report))
        if seal
        else _promised_by_markers(plan, commits, report)
    )
    for name in sorted(promised):
        _check(files, name, promised[name], hashes, report)
        if progress is not None:
            progress.advance(promised[name].n_bytes)
    _look_around(files, plan, promised, report)
    if not report.problems:
        _check_plan(Store(files, plan), report)
    return report


def n_bytes_promised(store: Store) -> int:
    """How many bytes a verification looks at."""
    return sum(mark.n_bytes for mark in store.commits.promised_files().values())


def _files(location: Store | Files | str | Path) -> Files:
    if isinstance(location, Store):
        return location.files
    return open_files(location) if isinstance(location, str | Path) else location


def _seal(files: Files, report: Report) -> Seal | None:
    data = read_or_none(files, SEAL_FILE)
    if data is None:
        return None
    try:
        return Seal.from_bytes(data, SEAL_FILE)
    except ObygazeError as error:
        report.problems.append(Problem(SEAL_FILE, error.what))
        return None


def _partial(files: Files, report: Report) -> Partial | None:
    data = read_or_none(files, PARTIAL_FILE)
    try:
        return None if data is None else Partial.from_bytes(data, PARTIAL_FILE)
    except ObygazeError as error:
        report.problems.append(Problem(PARTIAL_FILE, error.what))
        return None


def _plan(files: Files, seal: Seal | None, report: Report) -> Plan | None:
    data = read_or_none(files, STORE_FILE)
    if data is None:
        raise NotFound("no store here: no store.json", where=files.location)
    try:
        plan = Plan.from_bytes(data, STORE_FILE)
    except ObygazeError as error:
        # A flipped bit can look like a later version: the seal knows better.
        damaged = seal is not None and _differs(data, seal.files.get(STORE_FILE))
        if isinstance(error, Mismatch) and not damaged:
            raise
        report.problems.append(Problem(STORE_FILE, error.what))
        return None
    if seal is not None and seal.fingerprint != plan.recipe.fingerprint:
        report.problems.append(Problem(SEAL_FILE, "it is of another recipe than store.json"))
    return plan


def _differs(data: bytes, mark: FileMark | None) -> bool:
    return mark is None or mark.sha256 != sha256_bytes(data)


def _promised_by_markers(plan: Plan, commits: Commits, report: Report) -> dict[str, FileMark]:
    promised = dict(plan.files)
    tellers: dict[str, Callable[[], Mapping[str, FileMark]]] = {
        TEXT_KEY: commits.text_files,
        **{marker_key(block): partial(commits.marks, block) for block in range(plan.n_blocks)},
    }
    for name, files_of in tellers.items():
        try:
            promised.update(files_of())
        except Unreachable:
            raise
        except ObygazeError as error:
            report.problems.append(Problem(name, error.what))
    return promised


def _check_plan(store: Store, report: Report) -> None:
    """Whether all that store.json plans is promised: each array, as planned, in each block."""
    plan, commits = store.plan, store.commits
    try:
        report.counts = store.status().counts
    except Unreachable:
        raise
    except ObygazeError as error:
        report.problems.append(Problem(SEAL_FILE, error.what))
        return
    for spec in plan.arrays:
        try:
            store.arrays.check_layout(spec.name)
        except ObygazeError as error:
            report.problems.append(Problem(f"data.zarr/{spec.name}/zarr.json", error.what))
    for block in range(plan.n_blocks):
        promised = commits.marks(block)
        for spec in plan.arrays if promised else ():
            name = plan.block_key(spec.name, block)
            if name not in promised:
                report.problems.append(Problem(name, "neither the seal nor a marker promises it"))


def _check(files: Files, name: str, mark: FileMark, hashes: bool, report: Report) -> None:
    try:
        what = _found_wrong(files, name, mark, hashes)
    except Unreachable:  # says nothing about the file
        raise
    except (ObygazeError, OSError) as error:
        what = error.what if isinstance(error, ObygazeError) else f"unreadable: {error.strerror}"
    if what:
        report.problems.append(Problem(name, what))
    report.n_files += 1
    report.n_bytes += mark.n_bytes


def _found_wrong(files: Files, name: str, mark: FileMark, hashes: bool) -> str | None:
    piece = files.read(name, 0, READ_BYTES if hashes else 1)
    if piece is None:
        return "it is missing"
    if piece.total != mark.n_bytes:
        return f"it has {piece.total} bytes, {mark.n_bytes} were promised"
    if not hashes:
        return None
    digest = hashlib.sha256(piece.data.data)
    for start in range(READ_BYTES, mark.n_bytes, READ_BYTES):
        more = files.read(name, start, start + READ_BYTES)
        if more is not None:
            digest.update(more.data.data)
    return None if digest.hexdigest() == mark.sha256 else "its sha256 is not the promised one"


def _look_around(
    files: Files, plan: Plan, promised: Mapping[str, FileMark], report: Report
) -> None:
    """Warn of what nobody promised; refuse links."""
    known = {*promised, STORE_FILE, SEAL_FILE, README_FILE}
    arrays = [f"data.zarr/{name}" for name in (*ID_ARRAYS, *(spec.name for spec in plan.arrays))]
    folders = {name.rsplit("/", 1)[0] for name in known if "/" in name} | {*arrays, "data.zarr"}
    for folder in sorted(folders):
        for name in files.names(folder) or ():
            path = f"{folder}/{name}"
            if path in known or path in folders:
                continue
            if folder in arrays and not report.sealed and _is_orphan(files, name):
                what = "no seal and no marker promises it: one is lost"
                report.problems.append(Problem(path, what))
            else:
                report.warnings.append(f"{path} is not part of the store")
    for name in files.names("staging") or ():
        if "." not in name:
            report.warnings.append(
                f"the commit of {name} is not finished: the next run that writes here ends it"
            )


def _is_orphan(files: Files, name: str) -> bool:
    """Whether a block's file is there of which nobody tells, nor is about to.

    Looked for in the order in which a commit and a seal take these away.
    """
    match = _BLOCK_FILE.fullmatch(name)
    if match is None:
        return False
    marker = Path(marker_key(int(match[1])))
    places = (("staging", marker.stem), ("staging.sealing", marker.stem), ("commits", marker.name))
    told = any(entry in (files.names(folder) or ()) for folder, entry in places)
    return not told and read_or_none(files, SEAL_FILE) is None


def compare_decoded(
    store: Store,
    k: int,
    redecode: Redecode,
    *,
    seed: int = 0,
    least_cosine: float = SAME_COSINE,
) -> Report:
    """Extract K clips again and compare: the cosine of each level with what the store holds."""
    if k < 1:
        raise FixInput(f"cannot compare {k} clips")
    report = Report(store.location, f"{k} clips extracted again", sealed=store.sealed)
    there = np.flatnonzero(store.status().is_ok)
    chosen = np.sort(np.random.default_rng(seed).permutation(there)[:k])
    clips = store.clip_ids[chosen].tolist()
    again = redecode(clips)
    report.warnings += [
        f"{clip} could not be extracted again" for clip in clips if clip not in again
    ]
    for level in store.levels:
        asked = [clip for clip in clips if level in again.get(clip, {})]
        if asked:
            stored = store.matrix(level, clips=asked).values
            made = np.stack([np.asarray(again[clip][level]) for clip in asked])
            _compare_level(level, asked, stored, made, least_cosine, report)
    return report


def _compare_level(
    level: str,
    clips: Sequence[str],
    stored: npt.NDArray[Any],
    made: npt.NDArray[Any],
    least_cosine: float,
    report: Report,
) -> None:
    if stored.shape != made.shape:
        what = f"extracted again it has shape {made.shape[1:]}, stored {stored.shape[1:]}"
        report.problems.append(Problem(level, what))
        return
    found = cosines(stored, made)
    report.cosines[level] = {"least": float(found.min()), "median": float(np.median(found))}
    for clip, cosine in zip(clips, found.tolist(), strict=True):
        if not cosine >= least_cosine:
            what = f"the cosine with what was extracted again is {cosine:.6f}"
            report.problems.append(Problem(f"{level} of {clip}", what))
