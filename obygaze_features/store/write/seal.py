"""Closes a complete store: one file that says what each row and each file is, for ever."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.files import sha256_file, sync_dir, write_atomic, write_exclusive
from obygaze_features.store.format.card import card_text
from obygaze_features.store.format.records import (
    README_FILE,
    SEAL_FILE,
    SOURCES_FILE,
    STORE_FILE,
    TEXT_KEY,
    Marker,
    Seal,
    Sources,
    TextMarker,
)
from obygaze_features.store.format.schema import FileMark
from obygaze_features.store.write import commit

if TYPE_CHECKING:
    from obygaze_features.store.write.writer import StoreWriter


def seal_store(writer: StoreWriter) -> Seal:
    """Write seal.json; then the markers and what was left of the work may go."""
    path = writer.path / SEAL_FILE
    if not path.exists():
        pending = writer.pending_blocks()
        if pending:
            raise FixInput(
                f"{len(pending)} of {writer.plan.n_blocks} blocks are not committed",
                where=str(writer.path),
                hint="the run that writes them again; it goes on where it stopped",
            )
        try:
            _close(writer.path)
            _publish(writer, path)
        except FileNotFoundError:
            if not path.exists():  # else another process has sealed it, and tidied up
                raise
    seal = Seal.from_bytes(path.read_bytes(), str(path))
    _tidy(writer.path)
    return seal


def _publish(writer: StoreWriter, path: Path) -> None:
    seal = _seal(writer)
    if seal is not None:
        write_exclusive(path, seal.to_bytes())


def _close(root: Path) -> None:
    for block in commit.claims(root):
        commit.finish_claim(root, block)
    if (root / commit.STAGING).exists():
        shutil.rmtree(root / commit.SEALING, ignore_errors=True)
        (root / commit.STAGING).rename(root / commit.SEALING)
    for block in commit.claims(root, commit.SEALING):
        commit.finish_claim(root, block, commit.SEALING)


def _seal(writer: StoreWriter) -> Seal | None:
    plan, root = writer.plan, writer.path
    markers = [writer.marker(block) for block in range(plan.n_blocks)]
    there = [marker for marker in markers if marker is not None]
    if len(there) < plan.n_blocks:
        return None  # another process has sealed it meanwhile, and the markers are gone
    noted = {row: status for marker in there for row, status in marker.noted.items()}
    counts: Counter[str] = Counter(status.state for status in noted.values() if not status.is_ok)
    counts["ok"] = plan.n_clips - counts.total()
    write_atomic(root / README_FILE, card_text(plan, dict(counts)).encode("utf-8"))
    files = {name: mark for marker in there for name, mark in marker.files.items()}
    if (root / TEXT_KEY).exists():
        files.update(TextMarker.from_bytes((root / TEXT_KEY).read_bytes(), TEXT_KEY).files)
    _check_lengths(root, files)
    sources = {row: source for marker in there for row, source in marker.sources.items()}
    if sources:
        write_atomic(root / SOURCES_FILE, Sources(sources).to_bytes())
    recorded = [SOURCES_FILE] if sources else []
    for name in (STORE_FILE, README_FILE, *recorded, *plan.files):
        files[name] = FileMark((root / name).stat().st_size, sha256_file(root / name))
    return Seal(
        fingerprint=plan.recipe.fingerprint,
        counts={state: counts[state] for state in sorted(counts)},
        noted=noted,
        files=files,
        versions=_versions(there),
        seconds=_seconds(there),
    )


def _check_lengths(root: Path, files: dict[str, FileMark]) -> None:
    for name, mark in files.items():
        if not (root / name).is_file() or (root / name).stat().st_size != mark.n_bytes:
            raise Corrupt(
                f"{name} is not what its marker promises",
                where=str(root),
                hint="obygaze store verify",
            )


def _versions(markers: Sequence[Marker]) -> dict[str, list[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for marker in markers:
        for name, version in marker.versions.items():
            found[name].add(version)
    return {name: sorted(found[name]) for name in sorted(found)}


def _seconds(markers: Sequence[Marker]) -> dict[str, float]:
    total: Counter[str] = Counter()
    for marker in markers:
        total.update(dict(marker.seconds))
    return {stage: round(total[stage], 3) for stage in sorted(total)}


def _tidy(root: Path) -> None:
    for name in (commit.STAGING, commit.SEALING, "commits"):
        # Two that seal at once remove the same files: what one misses, the other takes.
        shutil.rmtree(root / name, ignore_errors=True)
    for name in (SEAL_FILE, README_FILE, SOURCES_FILE):
        for left in root.glob(f".{name}.*.tmp"):
            left.unlink(missing_ok=True)
    sync_dir(root)
