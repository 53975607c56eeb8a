"""Finish a store: add its texts, then write the one file that lists every row and every file."""

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec
from zarr.storage import MemoryStore

from obygaze_features.core.errors import AlreadyThere, Corrupt, FixInput, Mismatch
from obygaze_features.core.files import (
    is_listed,
    sha256_file,
    sync_dir,
    write_atomic,
    write_exclusive,
    write_synced,
)
from obygaze_features.store.format.makers import Makers
from obygaze_features.store.format.names import GATHERED_FOLDER
from obygaze_features.store.format.records import (
    README_FILE,
    Marker,
    Plan,
    Seal,
    Sources,
    TextMarker,
)
from obygaze_features.store.format.schema import (
    TEXT_FOLDER,
    WORDS,
    FileMark,
    RowSource,
    TextTable,
)
from obygaze_features.store.read.describe import card_text
from obygaze_features.store.read.index import INDEX_ROWS
from obygaze_features.store.read.index_pages import index_records
from obygaze_features.store.read.reader import open_store
from obygaze_features.store.remote.files import read_listed
from obygaze_features.store.write import commit
from obygaze_features.store.write.create import CHUNK_KEYS, add_strings
from obygaze_features.store.write.gathering import gathered_files

TRIES = 5


def add_text(root: Path, table: TextTable) -> bool:
    """Add a text table to a store that is not sealed; return False where the same was there."""
    data = _encoded(table)
    marks = {name: FileMark.of(content) for name, content in data.items()}
    store = open_store(root)
    existing_marks = store.commits.text_files()
    if not existing_marks:
        if store.sealed:
            raise AlreadyThere("this store is sealed, without texts", where=str(root))
        _place_text(root, data)
        write_exclusive(root / TextMarker.FILE, TextMarker(marks).to_bytes())
        existing_marks = open_store(root).commits.text_files()
        if existing_marks == marks:
            return True
    if existing_marks != marks:
        raise Mismatch("other texts were added to this store before", where=str(root))
    return False


def _encoded(table: TextTable) -> dict[str, bytes]:
    """Return the files of a text table by their names in the store."""
    memory: dict[str, Any] = {}
    group = zarr.create_group(
        MemoryStore(memory), zarr_format=3, attributes={"space_id": table.space_id}
    )
    shape = table.embeddings.shape
    embeddings = group.create_array(
        "embeddings",
        shape=shape,
        chunks=shape,
        dtype="float32",
        fill_value=np.nan,
        dimension_names=["text", f"d{shape[1]}"],
        compressors=[Crc32cCodec()],
        chunk_key_encoding=CHUNK_KEYS,
    )
    embeddings[:] = table.embeddings
    for name in WORDS:
        words = [str(word) for word in getattr(table, name)]
        add_strings(group, name, words, "text", shape[0])
    return {f"{TEXT_FOLDER}/{key}": memory[key].to_bytes() for key in sorted(memory)}


def _place_text(root: Path, data: dict[str, bytes]) -> None:
    """Move the whole folder to its place if that is free; what is there is compared later."""
    try:
        with commit.attempt_folder(root, "text") as draft:
            _move_text(root, draft, data)
    except (FileNotFoundError, commit.AttemptGone) as error:
        raise AlreadyThere(
            "this store is being sealed",
            where=str(root),
            hint="add texts before the store is sealed",
        ) from error


def _move_text(root: Path, draft: Path, data: dict[str, bytes]) -> None:
    for name, content in data.items():
        file = draft / name.removeprefix(f"{TEXT_FOLDER}/")
        file.parent.mkdir(exist_ok=True)
        write_synced(file, content)
    folders = [path for path in draft.iterdir() if path.is_dir()]
    for folder in (*folders, draft):
        sync_dir(folder)
    if not commit.rename_new(draft, root / TEXT_FOLDER):
        for name, content in data.items():
            file = root / name
            if not file.is_file() or file.read_bytes() != content:
                raise Mismatch(
                    "other texts were added to this store before", where=str(root)
                )
    sync_dir(root / "data.zarr")


def seal_store(root: Path, plan: Plan) -> Seal:
    """Write seal.json, then remove the markers and what is left of the work."""
    path = root / Seal.FILE
    if not is_listed(path):
        pending = commit.pending_blocks(root, plan)
        if pending:
            raise FixInput(
                f"{len(pending)} of {plan.n_blocks} blocks are not committed",
                where=str(root),
                hint="run the extraction again; it continues where it stopped",
            )
        try:
            _end_claims(root)
            seal = _seal(root)
            if seal is not None:
                write_exclusive(path, seal.to_bytes())
        except FileNotFoundError:
            # Else another process has sealed it, and removed all others.
            if not is_listed(path):
                raise
    seal = Seal.load(root)
    _tidy(root)
    return seal


def _end_claims(root: Path) -> None:
    """Move staging/ away, so that no block can be claimed, and finish all claims.

    Several processes may do so at once.
    """
    # Without a staging/ to move, as in an unpacked archive, others could still claim blocks.
    commit.make_room(root)
    commit.finish_claims(root, commit.STAGING)
    for _ in range(TRIES):
        try:
            if commit.rename_new(root / commit.STAGING, root / commit.SEALING):
                break
        except FileNotFoundError:
            break  # another process has moved it
        # Something is left of an earlier seal, which was killed.
        commit.finish_claims(root, commit.SEALING)
        commit.discard_attempts(root, commit.SEALING)
    else:
        raise AlreadyThere(
            f"{commit.SEALING} is not empty, and what is in it cannot be removed",
            where=str(root),
            hint="look at what is in it, then seal again",
        )
    commit.finish_claims(root, commit.SEALING)


def _seal(root: Path) -> Seal | None:
    """Return the seal of a complete store; write the files that go with it."""
    store = open_store(root)
    plan = store.plan
    commits = store.commits
    markers = [commits.marker(block) for block in range(plan.n_blocks)]
    block_markers = [marker for marker in markers if marker is not None]
    if len(block_markers) < plan.n_blocks:
        return None  # another process has sealed it meanwhile, and the markers are gone
    status_of_row = store.status().status_of_row
    files = commits.listed_files()
    counts: Counter[str] = Counter(
        status.state for status in status_of_row.values() if not status.is_ok
    )
    counts["ok"] = plan.n_clips - counts.total()
    card = card_text(plan, dict(counts), terms=store.terms, made_by=commits.made_by())
    write_atomic(root / README_FILE, card.encode("utf-8"))
    _check_lengths(root, files)
    makers = Makers.of_parts(
        marker.makers for marker in block_markers
    ).with_numbered_hosts()
    documents = [Plan.FILE, README_FILE]
    sources: dict[int, RowSource] = {}
    for marker in block_markers:
        sources.update(marker.sources)
    if sources:
        write_atomic(root / Sources.FILE, Sources(sources).to_bytes())
        documents.append(Sources.FILE)
    for name in (*documents, *plan.files):
        files[name] = FileMark((root / name).stat().st_size, sha256_file(root / name))
    seal = Seal(
        fingerprint=plan.recipe.fingerprint,
        counts=dict(sorted(counts.items())),
        status_of_row=status_of_row,
        makers=makers,
        files=files,
        **_collected(plan, block_markers),
    )
    gathered = gathered_files(
        plan, store.arrays.layout, seal, partial(read_listed, store.files), {}
    )
    for name, data in gathered:
        write_atomic(root / name, data)
        files[name] = FileMark.of(data)
    seal = replace(seal, files=files)
    if plan.n_clips < INDEX_ROWS:
        return seal
    for name, record in index_records(store, seal, plan).items():
        data = record.to_bytes()
        write_atomic(root / name, data)
        files[name] = FileMark.of(data)
    return replace(seal, files=files)


def _check_lengths(root: Path, marks: Mapping[str, FileMark]) -> None:
    """Raise an error for a file that is missing, or does not have the length of its mark."""
    for name, mark in marks.items():
        file = root / name
        if not file.is_file() or file.stat().st_size != mark.n_bytes:
            raise Corrupt(
                f"{name} is missing, or its length is not the one in its marker",
                where=str(root),
                hint="obygaze store verify",
            )


def _collected(plan: Plan, markers: Sequence[Marker]) -> dict[str, Any]:
    """Return the checksums of the blocks, by array, and versions and seconds of all markers."""
    crc32c = {}
    for spec in plan.arrays:
        words = [marker.crc32c.get(spec.name, "") for marker in markers]
        # None for an array if a marker does not have them.
        if all(words):
            crc32c[spec.name] = " ".join(words)
    pairs: set[tuple[str, str]] = set()
    seconds: Counter[str] = Counter()
    for marker in markers:
        pairs.update(marker.versions.items())
        seconds.update(dict(marker.seconds))
    versions: dict[str, list[str]] = {}
    for name, version in sorted(pairs):
        versions.setdefault(name, []).append(version)
    return {
        "crc32c": crc32c,
        "versions": versions,
        "seconds": {stage: round(seconds[stage], 3) for stage in sorted(seconds)},
    }


def _tidy(root: Path) -> None:
    for name in (commit.STAGING, commit.SEALING, "commits"):
        # Two that seal at once remove the same files: what one misses, the other takes.
        shutil.rmtree(root / name, ignore_errors=True)
    documents = (Seal.FILE, README_FILE, Sources.FILE)
    names = [f".{name}" for name in documents]
    names += ["index/.", f"{GATHERED_FOLDER}/."]
    for name in names:
        for left in root.glob(f"{name}*.tmp"):
            left.unlink(missing_ok=True)
    sync_dir(root)
