"""What rows are made from, and which clips changed since their features were extracted."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from obygaze_features.core.console import count
from obygaze_features.core.errors import Mismatch
from obygaze_features.core.files import quick_sha256
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.plan import ExtractPlan, Row, Target, make_plan
from obygaze_features.manifest.io import read_manifest
from obygaze_features.store.format.records import STORE_FILE
from obygaze_features.store.format.schema import OK, RowSource
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.read.verify import Report, changed_error

# Files are read side by side: on a network drive each of them is a wait.
AT_ONCE = 8


@dataclass(frozen=True)
class SourceCheck:
    """The rows of a store beside the clips and videos of now.

    `changed` says for each row that changed what did. `unrecorded` rows were extracted before
    sources were recorded; the videos of `without_file` are not here, only times were compared.
    """

    changed: Mapping[int, Sequence[str]]
    unrecorded: Sequence[int]
    without_file: Sequence[int]


def source_of(row: Row) -> RowSource | None:
    """What a row would be made from now; None where it has no video."""
    if not row.video:
        return None
    facts = _file_facts(row.video)
    n_bytes, quick = facts if facts else (None, None)
    return RowSource(row.start_s, row.end_s, n_bytes, quick)


def check_sources(store: Store, rows: Mapping[int, Row]) -> SourceCheck:
    """Compare rows that are ok with what they would be made from now; others are for `retry`."""
    recorded: dict[int, RowSource] = {}
    unrecorded: list[int] = []
    for block in sorted({row // store.plan.block_rows for row in rows}):
        noted, sources = store.commits.noted(block), store.commits.sources(block)
        for row in range(*store.plan.block_range(block)):
            if row not in rows or not rows[row].video or not noted.get(row, OK).is_ok:
                continue
            if row in sources:
                recorded[row] = sources[row]
            else:
                unrecorded.append(row)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        paths = sorted({rows[row].video for row in recorded})
        facts = dict(zip(paths, pool.map(_file_facts, paths), strict=True))
    found = {
        row: _differences(source, rows[row], facts[rows[row].video])
        for row, source in recorded.items()
    }
    return SourceCheck(
        changed={row: what for row, what in found.items() if what},
        unrecorded=unrecorded,
        without_file=[row for row in recorded if facts[rows[row].video] is None],
    )


def refuse_changed(
    plan: ExtractPlan, rows: Iterable[int] | None = None, *, only_sealed: bool = False
) -> None:
    """An error (exit 5) that names the clips whose features are of other times or another file.

    With `only_sealed`, those of open stores are let through: they are about to be extracted again.
    """
    wanted = range(len(plan.rows)) if rows is None else rows
    chosen = {row: plan.rows[row] for row in wanted}
    found: list[tuple[Target, Store]] = []
    lines: dict[str, str] = {}
    for target in plan.targets:
        if not (Path(target.store) / STORE_FILE).exists():
            continue
        store = open_store(target.store)
        # A store of other clips is refused where it is opened for writing.
        is_of_plan = store.plan.manifest_sha256 == plan.clips_sha256
        if is_of_plan and (store.sealed or not only_sealed):
            changed = check_sources(store, chosen).changed
            lines |= {plan.rows[row].clip_id: ", ".join(what) for row, what in changed.items()}
            found += [(target, store)] if changed else []
    if found:
        stores = ", ".join(target.store for target, _ in found)
        raise changed_error(lines, where=stores, hint=_how_to_redo(plan, found))


def changed_rows(store: Store, plan: ExtractPlan) -> list[int]:
    """The rows whose features are of other times or another file than those of the plan."""
    return sorted(check_sources(store, dict(enumerate(plan.rows))).changed)


def compare_sources(workspace: Workspace, store: Store, report: Report) -> None:
    """Add to a verification which clips are not as the manifest and the videos here have them."""
    rows = rows_by_clip(workspace, store)
    ids: list[str] = store.clip_ids.tolist()
    found = check_sources(store, {row: rows[clip] for row, clip in enumerate(ids)})
    report.changed = {ids[row]: list(what) for row, what in sorted(found.changed.items())}
    for those, why in (
        (found.unrecorded, "extracted before videos and times were recorded: not compared"),
        (found.without_file, "whose video is not here: only the times were compared"),
    ):
        if those:
            report.warnings.append(f"{count(len(those), 'clip')} {why}")


def rows_by_clip(workspace: Workspace, store: Store) -> dict[str, Row]:
    """The clips of the manifest that a store was made of, as an extraction would take them now."""
    path = workspace.existing_manifest(store.plan.manifest_name)
    plan = make_plan(read_manifest(path), [Target("", "any")], workspace=workspace.root)
    rows = {row.clip_id: row for row in plan.rows}
    unknown = [clip for clip in store.clip_ids.tolist() if clip not in rows]
    if unknown:
        raise Mismatch(f"the manifest has no clip {unknown[0]!r}", where=str(path))
    return rows


def _how_to_redo(plan: ExtractPlan, found: Sequence[tuple[Target, Store]]) -> str:
    sealed = [target for target, store in found if store.sealed]
    words = " ".join(f"-b {target.backbone}" for target, _ in found)
    again = f"obygaze extract retry {plan.manifest} {words} --changed"
    if not sealed:
        return f"{again}, with the other options of this run, to extract them again"
    first = sealed[0]
    each = f"; the same for each of the {len(sealed)} sealed stores" if len(sealed) > 1 else ""
    return (
        f"obygaze store merge {first.store} --manifest {plan.manifest} --no-seal -o NEW, then "
        f"{again} --store {first.backbone}=NEW (a sealed store is never changed{each})"
    )


def _differences(source: RowSource, row: Row, facts: tuple[int, str] | None) -> list[str]:
    pairs = {"start_s": (source.start_s, row.start_s), "end_s": (source.end_s, row.end_s)}
    found = [
        f"{name} was {_seconds(then)}, is {_seconds(now)}"
        for name, (then, now) in pairs.items()
        if then != now
    ]
    if facts is None or source.n_bytes is None:
        return found
    n_bytes, quick = facts
    if n_bytes != source.n_bytes:
        found.append(f"the video had {source.n_bytes} bytes, has {n_bytes} ({row.video})")
    elif quick != source.quick_sha256:
        found.append(f"the video has other bytes ({row.video})")
    return found


def _seconds(value: float | None) -> str:
    return "not given" if value is None else f"{value:g}"


def _file_facts(path: str) -> tuple[int, str] | None:
    """The size and the quick hash of a video; None where it cannot be read."""
    try:
        facts = Path(path).stat()
        if not stat.S_ISREG(facts.st_mode):
            return None
        return _quick(path, facts.st_size, facts.st_mtime_ns)
    except OSError:
        return None


@lru_cache(maxsize=4096)
def _quick(path: str, n_bytes: int, mtime_ns: int) -> tuple[int, str]:
    # Once for each file, however many clips are cut from it, as long as it is not written to.
    return quick_sha256(Path(path))
