"""Compare the recorded sources of a store's rows with the current clips and videos."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from obygaze_features.core.console import count
from obygaze_features.core.errors import Mismatch, NotFound
from obygaze_features.core.files import file_facts
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.plan import (
    ExtractPlan,
    PlannedClip,
    Target,
    planned_clips,
)
from obygaze_features.extraction.status import missing_units
from obygaze_features.manifest.io import read_manifest
from obygaze_features.store.format.records import Plan
from obygaze_features.store.format.schema import OK, RowSource
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.read.verify import VerifyReport, changed_error
from obygaze_features.store.write.writer import StoreWriter

# Files are read in parallel, since each may wait for a network drive.
AT_ONCE = 8


@dataclass(frozen=True)
class SourceCheck:
    """The result of `check_sources`.

    `changed` maps each changed row to its differences. `unrecorded` rows were extracted before
    sources were recorded. For rows `without_file`, the video is missing; only times were compared.
    """

    changed: Mapping[int, Sequence[str]]
    unrecorded: Sequence[int]
    without_file: Sequence[int]


def source_of(clip: PlannedClip, facts: tuple[int, str] | None) -> RowSource:
    """Return the source of a clip, given the facts of its video file before it was decoded."""
    n_bytes, quick = facts if facts else (None, None)
    return RowSource(clip.start_s, clip.end_s, n_bytes, quick)


def is_current(source: RowSource | None, clip: PlannedClip) -> bool:
    """Return whether a row was made from the current times and video of a clip.

    If the video is missing now, only the times are compared.
    """
    if source is None:
        return False
    return not _differences(source, clip, file_facts(clip.video))


def check_sources(store: Store, rows: Mapping[int, PlannedClip]) -> SourceCheck:
    """Compare the recorded sources of rows that are "ok" with the current clips and videos."""
    recorded: dict[int, RowSource] = {}
    unrecorded: list[int] = []
    for block in sorted({row // store.plan.block_rows for row in rows}):
        not_ok = store.commits.block_statuses(block)
        sources = store.commits.sources(block)
        for row in range(*store.plan.block_range(block)):
            if row not in rows or not rows[row].video or not not_ok.get(row, OK).is_ok:
                continue
            if row in sources:
                recorded[row] = sources[row]
            else:
                unrecorded.append(row)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        paths = sorted({rows[row].video for row in recorded})
        facts = dict(zip(paths, pool.map(file_facts, paths), strict=True))
    changed: dict[int, Sequence[str]] = {}
    without_file: list[int] = []
    for row, source in recorded.items():
        facts_now = facts[rows[row].video]
        differences = _differences(source, rows[row], facts_now)
        if differences:
            changed[row] = differences
        if facts_now is None:
            without_file.append(row)
    return SourceCheck(changed, unrecorded, without_file)


def rows_again(
    location: str,
    plan: ExtractPlan,
    *,
    changed: bool = False,
    rows: Iterable[int] | None = None,
) -> set[int]:
    """Return the rows of a store that failed or had no video; with `changed`, also changed ones.

    Of a sealed store there are none, since it cannot change.

    Args:
        location: The folder of the store.
        plan: The plan, with the current clips and videos.
        changed: Whether rows count whose times or video changed.
        rows: Consider only these rows.
    """
    writer = StoreWriter(location)
    if writer.sealed:
        return set()
    chosen = range(len(plan.rows)) if rows is None else frozenset(rows)
    again: set[int] = set()
    for rows_of_block in writer.rows_to_retry().values():
        again.update(rows_of_block)
    if changed:
        clips = {row: plan.rows[row] for row in chosen}
        again.update(check_sources(open_store(location), clips).changed)
    return again.intersection(chosen)


def units_again(plan: ExtractPlan, *, changed: bool = False) -> list[int]:
    """Return the units with a row to extract again in a store that exists; see `rows_again`."""
    units: set[int] = set()
    for target in plan.targets:
        if (Path(target.store) / Plan.FILE).exists():
            rows = rows_again(target.store, plan, changed=changed)
            units.update(row // plan.unit_rows for row in rows)
    return sorted(units)


def refuse_without_videos(plan: ExtractPlan) -> None:
    """Raise an error if rows are left to extract, and no clip of the plan has a video file."""
    videos = dict.fromkeys(clip.video for clip in plan.rows if clip.video)
    if any(Path(video).is_file() for video in videos) or not missing_units(plan):
        return
    link = f"obygaze manifest link {plan.manifest} FOLDER"
    if not videos:
        raise NotFound(
            f"no clip of {plan.manifest} is linked to a video; nothing to extract",
            hint=f"{link}, then the same command (a plan file must be written again)",
        )
    raise NotFound(
        f"none of the {len(videos)} video files of {plan.manifest} exists; nothing to extract",
        where=f"{next(iter(videos))}, ...",
        hint=f"mount their folder, or {link}, then the same command",
    )


def refuse_changed(
    plan: ExtractPlan, rows: Iterable[int] | None = None, *, only_sealed: bool = False
) -> None:
    """Raise an error (exit code 5) if clips changed since their features were extracted.

    With `only_sealed`, open stores are not checked: their changed clips are extracted again.
    """
    changed_stores: dict[Target, Store] = {}
    lines: dict[str, str] = {}
    chosen: dict[int, PlannedClip] = {}
    for target in plan.targets:
        if not (Path(target.store) / Plan.FILE).exists():
            continue
        store = open_store(target.store)
        # A store of other clips is refused when it is opened for writing.
        is_of_plan = store.plan.manifest_sha256 == plan.clips_sha256
        if not is_of_plan or (only_sealed and not store.sealed):
            continue
        if not chosen:
            numbers = range(len(plan.rows)) if rows is None else rows
            chosen = {row: plan.rows[row] for row in numbers}
        changed = check_sources(store, chosen).changed
        for row, differences in changed.items():
            lines[plan.rows[row].clip_id] = ", ".join(differences)
        if changed:
            changed_stores[target] = store
    if not changed_stores:
        return
    where = ", ".join(target.store for target in changed_stores)
    raise changed_error(lines, where=where, hint=_hint(plan, changed_stores))


def _hint(plan: ExtractPlan, changed_stores: Mapping[Target, Store]) -> str:
    """Return how to extract changed clips again."""
    backbones = " ".join(f"-b {target.backbone}" for target in changed_stores)
    run = f"obygaze extract run {plan.manifest} {backbones} --changed"
    version = ""
    if any(store.sealed for store in changed_stores.values()):
        version = "; a sealed store gets a new version"
    return f"{run}, with the other options of this run, to extract them again{version}"


def compare_sources(workspace: Workspace, store: Store, report: VerifyReport) -> None:
    """Add the clips whose times or video changed to the report of a verification."""
    clips = clips_of_store(workspace, store)
    ids: list[str] = store.clip_ids.tolist()
    clip_of_row = {row: clips[clip_id] for row, clip_id in enumerate(ids)}
    check = check_sources(store, clip_of_row)
    report.changed = {
        ids[row]: list(differences)
        for row, differences in sorted(check.changed.items())
    }
    if check.unrecorded:
        n_clips = count(len(check.unrecorded), "clip")
        report.warnings.append(
            f"{n_clips} extracted before videos and times were recorded: not compared"
        )
    if check.without_file:
        n_clips = count(len(check.without_file), "clip")
        report.warnings.append(
            f"{n_clips} without a video here: only the times were compared"
        )


def clips_of_store(workspace: Workspace, store: Store) -> dict[str, PlannedClip]:
    """Return the clips of a store by id, from the current manifest."""
    path = workspace.existing_manifest(store.plan.manifest_name)
    clips = {clip.clip_id: clip for clip in planned_clips(read_manifest(path))}
    unknown = [clip_id for clip_id in store.clip_ids.tolist() if clip_id not in clips]
    if unknown:
        raise Mismatch(f"the manifest has no clip {unknown[0]!r}", where=str(path))
    return clips


def _differences(
    source: RowSource, clip: PlannedClip, facts: tuple[int, str] | None
) -> list[str]:
    differences = []
    for name in ("start_s", "end_s"):
        then = getattr(source, name)
        now = getattr(clip, name)
        if then != now:
            differences.append(f"{name} was {_shown(then)}, is {_shown(now)}")
    if facts is None or source.n_bytes is None:
        return differences
    n_bytes, quick = facts
    if n_bytes != source.n_bytes:
        differences.append(
            f"the video had {source.n_bytes} bytes, has {n_bytes} ({clip.video})"
        )
    elif quick != source.quick_sha256:
        differences.append(f"the video has other bytes ({clip.video})")
    return differences


def _shown(time_s: float | None) -> str:
    """Return a time with all its digits: those of a long film differ in the last ones."""
    if time_s is None:
        return "not given"
    return repr(time_s).removesuffix(".0")
