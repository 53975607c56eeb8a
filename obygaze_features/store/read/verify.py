"""Verify that a store has the bytes that were committed, and name each file that has not."""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import Progress, Quiet, count, human
from obygaze_features.core.errors import (
    Corrupt,
    FixInput,
    FixUsage,
    Mismatch,
    NotFound,
    ObygazeError,
)
from obygaze_features.core.files import sha256_bytes
from obygaze_features.core.options import Bar, Option
from obygaze_features.core.workspace import Workspace
from obygaze_features.store.format.chunks import CRC_BYTES, ChunkLayout, crc32c_of
from obygaze_features.store.format.names import block_of
from obygaze_features.store.format.records import (
    README_FILE,
    LicenceHistory,
    Marker,
    Partial,
    Plan,
    Seal,
    marker_key,
)
from obygaze_features.store.format.schema import (
    ID_ARRAYS,
    KEPT_FOLDER,
    OK,
    VERSIONS_FOLDER,
    FileMark,
)
from obygaze_features.store.read.commits import Expected
from obygaze_features.store.read.diff import cosines
from obygaze_features.store.read.index import FilmIndex
from obygaze_features.store.read.index_pages import index_records
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.remote import open_files, split_expected
from obygaze_features.store.remote.files import Files, Piece, read_or_none, read_record
from obygaze_features.store.remote.object_store import Unreachable
from obygaze_features.store.remote.versions import (
    NEXT_VERSION,
    SEALS_FOLDER,
    FilesOfVersion,
    earlier_versions,
    kept_marks,
    seals_before,
)
from obygaze_features.store.write.writer import unfinished_extraction

# These packages import this one, so they are imported by name, when they are needed.
REEXTRACTOR = "obygaze_features.extraction.recipes:redecoder"
COMPARE_SOURCES = "obygaze_features.extraction.sources:compare_sources"
READ_BYTES = 16_000_000
SAME_COSINE = 0.999
SHOWN_CHANGED = 20
HASHES = "hashes"  # how a verification compares every byte
# What is there besides the listed files, and only in a copy, or until the store is sealed.
_WORK = re.compile(
    r"partial\.json|versions|commits|staging(\.sealing)?|commits/(block-\d+(\.json|\.\d+\.taken)|text\.json|kind\.json)"
)

# Given clip ids, extracts them again: for each clip that could be, its arrays.
Reextract = Callable[[Sequence[str]], Mapping[str, Mapping[str, npt.NDArray[Any]]]]


# What is said of the clips of each state.
STATES = {
    "ok": "with features",
    "failed": "could not be extracted",
    "no-video": "without a video",
    "withdrawn": "withdrawn",
    "missing": "not extracted yet",
}


@dataclass(frozen=True)
class Problem:
    """A file that is not as it was committed."""

    name: str
    message: str

    def __str__(self) -> str:
        """Return one line."""
        return f"{self.name}: {self.message}"


@dataclass
class VerifyReport:
    """What a verification found."""

    location: str
    how: str
    sealed: bool = False
    # Whether this is a copy of some arrays or films only; then `n_files` are those that it holds.
    partial: bool = False
    # The sha256 of seal.json, and whether it is the one that was expected; None if none was.
    seal_sha256: str = ""
    expected: bool | None = None
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    n_files: int = 0
    n_bytes: int = 0
    # Which version this is, and the files that are kept for earlier ones.
    store_version: int = 1
    n_files_kept: int = 0
    n_bytes_kept: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    # What an extraction has still to do, and the command that continues it.
    unfinished: str = ""
    # What made the clips, one line for each group.
    made_by: list[str] = field(default_factory=list)
    # How many versions its source is ahead, and the clips that were withdrawn since, with reasons.
    versions_behind: int | None = None
    withdrawn_since: dict[str, str] = field(default_factory=dict)
    cosines: dict[str, dict[str, float]] = field(default_factory=dict)
    changed: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, problem: str) -> None:
        """Add a problem."""
        self.problems.append(Problem(name, problem))

    @contextmanager
    def collecting(self, name: str) -> Iterator[None]:
        """Turn errors about a file into problems, but raise those of a broken connection.

        A server that does not answer proves nothing about the file.
        """
        try:
            yield
        except Unreachable:
            raise
        except ObygazeError as error:
            self.add(name, error.message)
        except OSError as error:
            self.add(name, f"unreadable: {error.strerror}")

    def to_json(self) -> dict[str, Any]:
        """Return all that was found, and whether the store is whole."""
        return {**asdict(self), "whole": not self.problems}

    def __str__(self) -> str:
        lines = [
            f"{array}: least cosine {cosines['least']:.6f}, median {cosines['median']:.6f}"
            for array, cosines in self.cosines.items()
        ]
        if not self.problems and not self.changed:
            counts = ", ".join(
                f"{n} {STATES[state]}" for state, n in self.counts.items()
            )
            extent = "whole" if self.has_compared_bytes else "complete"
            if self.partial:
                extent = f"partial copy, {extent} in what it holds"
            size = f"{self.n_files} files, {human(self.n_bytes)}"
            lines.append(f"{extent}: {size} ({self.how}); clips: {counts}")
            lines += [f"what made {line}" for line in self.made_by]
            if self.store_version > 1:
                kept = f"{count(self.n_files_kept, 'file')}, {human(self.n_bytes_kept)}"
                lines.append(
                    f"version {self.store_version}; kept for earlier versions: {kept}"
                )
            lines.append(self._consistency())
            if self.versions_behind == 0:
                lines.append("the same version as its source")
            if self.unfinished:
                lines.append(self.unfinished)
        return "\n".join(lines)

    @property
    def has_compared_bytes(self) -> bool:
        """Whether every byte was compared, and not only the length of each file."""
        return self.how == HASHES

    def _consistency(self) -> str:
        """Return, in words, what a verification without problems has shown."""
        if not self.has_compared_bytes:
            return self._consistent_lengths()
        if not self.sealed:
            return "consistent with what was committed so far; not sealed, so more can be added"
        if self.expected:
            return f"the expected store: its seal has the sha256 {self.seal_sha256}"
        return (
            "consistent with what its publisher wrote; who that is was not checked (--expect)\n"
            f"seal_sha256: {self.seal_sha256}"
        )

    def _consistent_lengths(self) -> str:
        """Return, in words, what the lengths of the files have shown."""
        lines = [
            "every file is there and has the length that was recorded; its bytes were not compared "
            "(--hash)"
        ]
        if not self.sealed:
            lines.append("not sealed, so more can be added")
        elif self.expected:
            lines.append(f"the expected seal, with the sha256 {self.seal_sha256}")
        else:
            lines.append(f"seal_sha256: {self.seal_sha256}")
        return "\n".join(lines)

    def require_ok(self) -> None:
        """Raise an error for files with a problem, else for clips that changed."""
        self.require_whole()
        self.require_unchanged()

    def require_whole(self) -> None:
        """Raise an error (exit 4) that names each file with a problem."""
        if self.problems:
            raise Corrupt(
                f"{count(len(self.problems), 'problem')}, the first in {self.problems[0]}",
                where=self.location,
                hint="fetch these files again, or extract their blocks again",
                details=[str(problem) for problem in self.problems],
            )

    def require_unchanged(self) -> None:
        """Raise an error (exit 5) that names each clip whose times or video changed since."""
        if self.changed:
            hint = "obygaze extract run lists how to extract them again"
            words = {clip: ", ".join(parts) for clip, parts in self.changed.items()}
            raise changed_error(words, where=self.location, hint=hint)


def changed_error(
    what_changed: Mapping[str, str], *, where: str, hint: str
) -> Mismatch:
    """Return the error for clips whose features are of other times, or of another video."""
    lines = [f"{clip}: {words}" for clip, words in what_changed.items()]
    details = []
    if len(lines) > 1:
        details = lines[:SHOWN_CHANGED]
    if len(lines) > SHOWN_CHANGED:
        details.append(f"... and {len(lines) - SHOWN_CHANGED} more")
    return Mismatch(
        f"{count(len(lines), 'clip')} changed since their features were extracted, the first is "
        f"{lines[0]}",
        where=where,
        hint=hint,
        details=details,
    )


def verify(
    store: str | os.PathLike[str] | Files | Store,
    *,
    hashes: Annotated[bool, Option("--hash")] = False,
    decode: Annotated[int | None, Option(least=1)] = None,
    weights: str | None = None,
    videos: bool = False,
    source: str | os.PathLike[str] | Store | None = None,
    expect: Annotated[str | None, Option(metavar="SHA256")] = None,
    progress: Annotated[Progress | None, Bar("verify")] = None,
    workspace: str | os.PathLike[str] | None = None,
) -> VerifyReport:
    """Check that a store is whole and undamaged.

    Without options, check that every file exists and has its length; a changed byte is found with
    --hash. If a file is not as it was
    committed, the exit code is 4 and each such file is named. With --videos, the exit code is 5
    and each clip is named whose times in the manifest or whose video file changed.

    With --source, a copy that is behind the store that it was copied from is named in a warning,
    with the clips that were withdrawn since. Another store is an error (exit code 5).

    With --hash, a whole store is consistent with what its publisher wrote. Who that is, it cannot
    say: with --expect and the sha256 that `obygaze store info` shows to the publisher, another
    store ends with the exit code 5. An address may end with #sha256=... in place of --expect.

    Args:
        store: The store.
        hashes: Read every byte and compare its sha256.
        decode: Extract this many clips again and compare.
        weights: --decode: where the backbone's weights are.
        videos: Compare times and videos with those of the clips.
        source: The store that this one was copied from: is there a later version?
        expect: The sha256 of its seal, from its publisher.
        progress: Counts the bytes of the files that were checked.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store verify obygaze12-xclip
        obygaze store verify obygaze12-xclip --hash
        obygaze store verify obygaze12-xclip --videos
        obygaze store verify obygaze12-xclip --source https://example.org/stores/obygaze12-xclip
        obygaze store verify obygaze12-xclip --hash --expect 5f0c...
        obygaze store verify obygaze12-xclip --decode 5 --json
    """
    opened_workspace = Workspace.of(workspace)
    if isinstance(store, str):
        store = opened_workspace.existing_store(store)
    elif isinstance(store, os.PathLike):
        store = Path(store)
    report = _verify_files(store, hashes, expect, progress or Quiet())
    if source is not None and not report.problems:
        copy = open_store(store, workspace=workspace)
        _compare_versions(report, copy, open_store(source, workspace=workspace))
    if decode is not None and not report.problems:
        opened = open_store(store, workspace=workspace)
        again = compare_decoded(
            opened, decode, _reextract(opened_workspace, opened, weights)
        )
        report.problems += again.problems
        report.warnings += again.warnings
        report.cosines = again.cosines
    if videos and not report.problems:
        opened = open_store(store, workspace=workspace)
        resolve_name(COMPARE_SOURCES)(opened_workspace, opened, report)
    return report


def _compare_versions(report: VerifyReport, copy: Store, source: Store) -> None:
    """Warn of a copy that is behind its source; raise an error for another store."""
    ours = copy.commits.seal
    theirs = source.commits.seal
    if ours is None or theirs is None:
        raise FixInput(
            "only sealed stores have versions to compare",
            where=copy.location if ours is None else source.location,
            hint="without --source",
        )
    is_same = copy.seal_sha256 == source.seal_sha256
    is_behind = copy.seal_sha256 in seals_before(source.files, theirs)
    is_ahead = source.seal_sha256 in seals_before(copy.files, ours)
    part_of = _version_of_part(copy, source, theirs)
    origins = {origin.seal_sha256 for origin in copy.plan.origins}
    replaced = {copy.seal_sha256, *seals_before(copy.files, ours), *origins}
    is_replaced = any(
        version.seal_sha256 in replaced for version in source.plan.replaced_versions
    )
    is_part = part_of is not None
    if not (is_same or is_behind or is_ahead or is_replaced or is_part):
        raise Mismatch(
            "this is not a copy of that store, or of a version of it that is known there",
            where=copy.location,
            hint=f"compare them: obygaze store diff {copy.location} {source.location}",
        )
    if is_ahead:
        report.warnings.append(
            f"ahead of its source: this is version {ours.version_number}, the source has "
            f"version {theirs.version_number}"
        )
        return
    our_number = ours.version_number if part_of is None else part_of
    report.versions_behind = theirs.version_number - our_number
    report.withdrawn_since = _withdrawn_since(copy, source)
    if is_behind:
        report.warnings.append(
            f"behind its source: this is version {ours.version_number}, the source has version "
            f"{theirs.version_number} (obygaze store pull)"
        )
    if part_of is not None and report.versions_behind:
        report.warnings.append(
            f"a part of version {part_of} of its source, which has version "
            f"{theirs.version_number} (obygaze store pull)"
        )
    if is_replaced:
        report.versions_behind = None
        report.warnings.append(
            "the source is a store without withdrawn features, in its place"
        )
    lines = [f"{clip}: {reason}" for clip, reason in report.withdrawn_since.items()]
    if lines:
        clips = count(len(lines), "clip")
        report.warnings.append(f"{clips} withdrawn since, the first is {lines[0]}")


def _version_of_part(copy: Store, source: Store, newest: Seal) -> int | None:
    """Return the version of a store that a copy is a part of, None if it is no part of it."""
    origins = {origin.seal_sha256 for origin in copy.plan.origins}
    if source.seal_sha256 in origins:
        return newest.version_number
    for entry in earlier_versions(source.files, newest):
        if entry.seal.sha256 in origins:
            return entry.store_version.number
    return None


def _withdrawn_since(copy: Store, source: Store) -> dict[str, str]:
    """Return the clips with features in a copy that are withdrawn in its source, with reasons."""
    ours = copy.status().status_of_row
    theirs = source.status().status_of_row
    rows = [row for row, status in sorted(theirs.items()) if status.is_withdrawn]
    ids = source.clip_ids[rows].tolist() if rows else []
    row_of = {clip: row for row, clip in enumerate(copy.clip_ids.tolist())}
    reasons = {}
    for row, clip in zip(rows, ids, strict=True):
        own_row = row_of.get(clip)
        if own_row is not None and not ours.get(own_row, OK).is_withdrawn:
            reasons[clip] = theirs[row].message
    return reasons


def _reextract(workspace: Workspace, store: Store, weights: str | None) -> Reextract:
    """Return the function that extracts clips of a store again."""
    try:
        make = resolve_name(REEXTRACTOR)
    except ModuleNotFoundError as error:
        raise FixUsage(
            "--decode extracts clips again, which needs the extra 'extract'",
            hint='pip install "obygaze[extract]", on a machine that has the videos',
        ) from error
    reextract: Reextract = make(workspace, store, weights)
    return reextract


def _verify_files(
    store: str | Path | Files | Store,
    hashes: bool,
    expect: str | None,
    progress: Progress,
) -> VerifyReport:
    """Check the files of a store, also of one that is being sealed."""
    files = store.files if isinstance(store, Store) else open_files(store)
    named = str(store) if isinstance(store, str | Path) else ""
    _, sha256 = split_expected(named, expect)
    report = _report(files, hashes, sha256, progress)
    if report.sealed or not (report.problems or report.warnings):
        return report
    is_seal_damaged = any(problem.name == Seal.FILE for problem in report.problems)
    if is_seal_damaged or read_or_none(files, Seal.FILE) is None:
        return report
    # Sealed meanwhile: what was missing may be what a seal removes.
    return _report(files, hashes, sha256, progress)


def _report(
    files: Files, hashes: bool, expect: str, progress: Progress
) -> VerifyReport:
    how = HASHES if hashes else "markers and lengths"
    report = VerifyReport(files.location, how)
    store = _opened(files, report, expect)
    if store is None:
        return report
    report.seal_sha256 = store.seal_sha256
    report.expected = True if expect else None
    marks = store.commits.listed_files(report.collecting)
    progress.expect(sum(mark.n_bytes for mark in marks.values()), "B")
    for name in sorted(marks):
        with report.collecting(name):
            report.warnings += _check_file(store, name, marks[name], hashes)
        report.n_files += 1
        report.n_bytes += marks[name].n_bytes
        progress.advance(marks[name].n_bytes)
    with report.collecting(LicenceHistory.FILE):
        _ = store.licence_history
    _check_folders(files, store.plan, marks, report)
    if report.sealed and not isinstance(files, FilesOfVersion):
        _check_versions(store, report, hashes)
    if not report.problems:
        _check_arrays(store, report)
    if not report.problems:
        report.unfinished = unfinished_extraction(store)
    return report


def _opened(files: Files, report: VerifyReport, expect: str) -> Store | None:
    """Return the store; None where store.json or the seal is damaged, and all else is unknown.

    Raise an error if the seal does not have the sha256 `expect`.
    """
    data = seal = None
    with report.collecting(Plan.FILE):
        data = read_or_none(files, Plan.FILE)
    if report.problems:
        return None
    with report.collecting(Seal.FILE):
        seal = read_record(files, Seal)
    if seal is not None:
        with report.collecting(Partial.FILE):
            read_record(files, Partial)
    if data is None:
        hint = "obygaze store ls lists the stores of the workspace"
        raise NotFound("no store here: no store.json", where=files.location, hint=hint)
    try:
        store = Store(files, Plan.from_bytes(data, Plan.FILE), expect)
    except ObygazeError as error:
        # A flipped bit can look like a later version; the seal has the right sha256.
        mark = None if seal is None else seal.files.get(Plan.FILE, FileMark(0, ""))
        damaged = mark is not None and mark.sha256 != sha256_bytes(data)
        if isinstance(error, Mismatch) and not damaged:
            raise
        report.add(Plan.FILE, error.message)
        return None
    if not report.problems:
        store.commits.require_expected()
        with report.collecting(Seal.FILE):
            report.sealed = store.sealed
            report.partial = store.commits.partial is not None
    return None if report.problems else store


def _check_arrays(store: Store, report: VerifyReport) -> None:
    """Check the layout and the files of each array, and that the index says what the seal says."""
    plan = store.plan
    commits = store.commits
    report.counts = store.status().counts
    with report.collecting(Plan.FILE):
        made_by = commits.made_by()
        report.made_by = made_by.lines() if made_by.clips else []
        report.warnings += made_by.warnings()
    for name in _array_names(plan):
        with report.collecting(f"data.zarr/{name}/zarr.json"):
            store.arrays.check_layout(name)
    for block in range(plan.n_blocks):
        listing = commits.listing(block)
        if listing is None:
            continue
        for spec in plan.arrays:
            name = plan.block_key(spec.name, block)
            if name not in listing.files:
                report.add(name, "neither the seal nor a marker lists it")
    if commits.seal is not None and FilmIndex.FILE in commits.seal.files:
        with report.collecting(FilmIndex.FILE):
            _check_index(store, commits.seal)


def _check_versions(store: Store, report: VerifyReport, hashes: bool) -> None:
    """Check the files that are kept for earlier versions, as the other files."""
    seal = store.commits.seal
    if seal is None:
        return
    files = store.files
    report.store_version = seal.version_number
    marks: dict[str, FileMark] = {}
    with report.collecting(VERSIONS_FOLDER):
        marks = kept_marks(files, seal)
    for name, mark in sorted(marks.items()):
        with report.collecting(name):
            problem = _problem(files, name, Expected(mark), None, hashes)
            if problem:
                raise Corrupt(problem)
        report.n_files_kept += 1
        report.n_bytes_kept += mark.n_bytes
    # A later version may have the file of an earlier one again, which is kept too then.
    again = {mark.kept_name for mark in seal.files.values()}
    for name in files.names(KEPT_FOLDER) or ():
        path = f"{KEPT_FOLDER}/{name}"
        if path not in marks and path not in again:
            report.warnings.append(f"{path} is not part of the store")
    # They are needed only while a version is published, and stay.
    for name in files.names(SEALS_FOLDER) or ():
        path = f"{SEALS_FOLDER}/{name}"
        with report.collecting(path):
            read_record(files, Seal, path)
    if NEXT_VERSION in (files.names(VERSIONS_FOLDER) or ()):
        report.warnings.append(
            "the publication of a version is not finished: the next command that changes this "
            "store finishes it"
        )


def _array_names(plan: Plan) -> list[str]:
    """Return the names of all arrays: the ids, then those of the plan."""
    return [*ID_ARRAYS, *(spec.name for spec in plan.arrays)]


def _check_index(store: Store, seal: Seal) -> None:
    """Raise an error if a file of the index does not say what the seal and the ids say."""
    for name, record in index_records(store, seal, store.plan).items():
        if read_record(store.files, type(record), name) != record:
            raise Corrupt(f"{name} does not say what the seal and the ids say")


def _check_file(store: Store, name: str, mark: FileMark, hashes: bool) -> list[str]:
    """Raise an error if a file is none of what it may be, which changes with rows replaced.

    Return a warning where it is that of a version whose publication was stopped.
    """
    first_problem = ""
    array_and_block = block_of(name)
    expectations: Iterable[Expected] = [Expected(mark)]
    if array_and_block is not None:
        expectations = store.commits.possible(name)
    for expected in expectations:
        layout = None
        if array_and_block is not None and expected.crc32c is not None:
            array, _ = array_and_block
            try:
                layout = store.arrays.layout(array)
            except Corrupt:
                # `_check_arrays` reports it, with the name of its zarr.json.
                expected = Expected(expected.mark)
        problem = _problem(store.files, name, expected, layout, hashes)
        if not problem:
            return []
        first_problem = first_problem or problem
    if store.sealed:
        problem = _problem(store.files, mark.kept_name, Expected(mark), None, True)
        if not problem:
            return [
                f"{name} is not the file of this version, which is read from {mark.kept_name}"
            ]
    raise Corrupt(first_problem)


def _problem(
    files: Files,
    name: str,
    expected: Expected,
    layout: ChunkLayout | None,
    hashes: bool,
) -> str:
    """Return how a file differs from what is expected; "" if it does not.

    `layout` is how the chunks of a block's file are stored; None for other files.
    """
    mark, crc32c = expected
    start, stop = _bytes_to_check(layout, expected, hashes)
    piece = files.read(name, start, stop)
    if piece is None:
        return "it is missing"
    if piece.total != mark.n_bytes:
        return f"it has {piece.total} bytes, expected {mark.n_bytes}"
    if hashes:
        if _sha256_of(files, name, piece, mark.n_bytes) != mark.sha256:
            return "its sha256 is not the one that was committed"
        if layout is None:
            return ""
        return _problem_of_chunks(files, name, expected, layout)
    if layout is not None and layout.is_shard:
        return _problem_of_index(layout, piece, crc32c)
    if crc32c and crc32c_of(piece.data) != crc32c:
        return "its checksum is not the one that was committed"
    return ""


def _sha256_of(files: Files, name: str, start: Piece, n_bytes: int) -> str:
    """Return the sha256 of a file of which the first bytes were read already."""
    digest = hashlib.sha256(start.data.data)
    for begin in range(READ_BYTES, n_bytes, READ_BYTES):
        piece = files.read(name, begin, begin + READ_BYTES)
        if piece is not None:
            digest.update(piece.data.data)
    return digest.hexdigest()


def _bytes_to_check(
    layout: ChunkLayout | None, expected: Expected, hashes: bool
) -> tuple[int, int | None]:
    """Return the first byte of a file to read, and the one after the last."""
    if hashes:
        return 0, READ_BYTES
    if layout is not None and layout.is_shard:
        return -layout.index_bytes, None
    if expected.crc32c:
        return -CRC_BYTES, None
    return 0, 1


def _problem_of_index(layout: ChunkLayout, index: Piece, crc32c: str | None) -> str:
    """Return what is wrong with the index of a shard; "" if nothing is."""
    try:
        if not crc32c:
            layout.spans(index.data, index.total)
        elif 8 * layout.n_present(index.data, index.total) != len(crc32c):
            return "it does not have the chunks that were committed"
    except ValueError as error:
        return str(error)
    return ""


def _problem_of_chunks(
    files: Files, name: str, expected: Expected, layout: ChunkLayout
) -> str:
    """Return why a file with the right sha256 cannot be decoded; "" if its headers are right."""
    spans: list[tuple[int, int] | None] = [(0, expected.mark.n_bytes)]
    if layout.is_shard:
        index = files.read(name, -layout.index_bytes)
        if index is None:
            return "it is missing"
        problem = _problem_of_index(layout, index, expected.crc32c)
        if problem:
            return problem
        spans = layout.spans(index.data, index.total)
    if layout.codec is None:
        return ""
    for bounds in spans:
        if bounds is None:
            continue
        start, stop = bounds
        chunk = files.read(name, start, stop)
        if chunk is None:
            continue
        try:
            layout.check_header(chunk.data)
        except ValueError as error:
            return str(error)
    return ""


def _check_folders(
    files: Files, plan: Plan, marks: Mapping[str, FileMark], report: VerifyReport
) -> None:
    """Warn of files that are not listed; refuse links."""
    listed_names = {*marks, Plan.FILE, Seal.FILE, README_FILE, LicenceHistory.FILE}
    array_folders = {f"data.zarr/{name}" for name in _array_names(plan)}
    folders = {name.rsplit("/", 1)[0] for name in listed_names if "/" in name}
    folders |= array_folders
    folders.add("data.zarr")
    for folder in ("", "commits", *sorted(folders)):
        is_array = folder in array_folders
        for name in files.names(folder) or ():
            path = f"{folder}/{name}" if folder else name
            if path in listed_names or path in folders or _WORK.fullmatch(path):
                continue
            _check_unlisted(files, path, is_array, report)
    _check_claims(files, report)


def _check_claims(files: Files, report: VerifyReport) -> None:
    """Warn of commits that are not finished."""
    for name in files.names("staging") or ():
        if "." not in name:
            report.warnings.append(
                f"the commit of {name} is not finished: the next run that writes here finishes it"
            )


def _check_unlisted(
    files: Files, path: str, is_in_array: bool, report: VerifyReport
) -> None:
    """Warn of a file that is not listed; a problem where its block has lost its marker."""
    if is_in_array and not report.sealed:
        if _is_new(files, path):
            return
        if _is_orphan(files, path):
            report.add(path, "no seal and no marker lists it: one is lost")
            return
    report.warnings.append(f"{path} is not part of the store")


def _is_new(files: Files, path: str) -> bool:
    """Return whether a file is of a block that was committed after the markers were read."""
    array_and_block = block_of(path)
    if array_and_block is None:
        return False
    _, block = array_and_block
    try:
        marker = read_record(files, Marker, marker_key(block))
    except (Corrupt, Mismatch, FixInput):
        return False
    return marker is not None and path in marker.files


def _is_orphan(files: Files, name: str) -> bool:
    """Return whether a block's file has no claim, marker or seal.

    They are looked for in the order in which a commit and a seal remove them.
    """
    array_and_block = block_of(name)
    if array_and_block is None:
        return False
    _, block = array_and_block
    marker = Path(marker_key(block))
    entries = (
        ("staging", marker.stem),
        ("staging.sealing", marker.stem),
        ("commits", marker.name),
    )
    for folder, entry in entries:
        if entry in (files.names(folder) or ()):
            return False
    return read_or_none(files, Seal.FILE) is None


def compare_decoded(store: Store, k: int, reextract: Reextract) -> VerifyReport:
    """Extract some clips again and compare each array with the stored one, by its cosine."""
    if k < 1:
        raise FixInput(f"the number of clips must be at least 1, got {k}")
    report = VerifyReport(
        store.location, f"{k} clips extracted again", sealed=store.sealed
    )
    there = np.flatnonzero(store.status().is_ok)
    chosen = np.sort(np.random.default_rng(0).permutation(there)[:k])
    clips = store.clip_ids[chosen].tolist()
    again = reextract(clips)
    if clips and not again:
        raise FixInput(
            "no clip was extracted again", where=store.location, hint="--weights PATH"
        )
    report.warnings += [
        f"{clip} could not be extracted again" for clip in clips if clip not in again
    ]
    for array in store.feature_arrays:
        compared = [clip for clip in clips if array in again.get(clip, {})]
        if compared:
            made = np.stack([np.asarray(again[clip][array]) for clip in compared])
            _compare_array(store, array, compared, made, report)
    return report


def _compare_array(
    store: Store,
    array: str,
    clips: Sequence[str],
    vectors: npt.NDArray[Any],
    report: VerifyReport,
) -> None:
    """Compare the stored vectors of some clips with those that were made again."""
    stored = store.matrix(array, clips=clips).values
    if stored.shape != vectors.shape:
        problem = (
            f"extracted again with shape {vectors.shape[1:]}, stored {stored.shape[1:]}"
        )
        report.add(array, problem)
        return
    of_clips = cosines(stored, vectors)
    report.cosines[array] = {
        "least": float(of_clips.min()),
        "median": float(np.median(of_clips)),
    }
    for clip, cosine in zip(clips, of_clips.tolist(), strict=True):
        # A cosine that is NaN is a problem too.
        if not cosine >= SAME_COSINE:
            problem = f"the cosine with the features extracted again is {cosine:.6f}"
            report.add(f"{array} of {clip}", problem)
