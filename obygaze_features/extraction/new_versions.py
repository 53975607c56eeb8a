"""Extract into sealed stores: clips that are new in the manifest, rows that are made again, levels.

They are extracted into a store of their own below the folder of the sealed one, as any store: a run
may be stopped and resumed, and several workers may share it. When it is complete, its rows become
a new version of the sealed store.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from obygaze_features.core.console import count
from obygaze_features.core.errors import (
    AlreadyThere,
    FixInput,
    FixUsage,
    Mismatch,
    ObygazeError,
)
from obygaze_features.extraction.plan import (
    ExtractPlan,
    PlannedClip,
    PlannedWindows,
    Target,
)
from obygaze_features.extraction.sources import check_sources
from obygaze_features.extraction.status import (
    StoreStatus,
    levels_to_extract,
    store_status,
)
from obygaze_features.store.format.limits import disk_errors
from obygaze_features.store.format.records import Plan
from obygaze_features.store.format.schema import RowStatus
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.read.verify import changed_error
from obygaze_features.store.write import commit
from obygaze_features.store.write.added_levels import add_levels
from obygaze_features.store.write.growth import (
    DRAFT_OF_CLIPS,
    DRAFT_OF_LEVELS,
    DRAFT_OF_ROWS,
    add_rows,
)
from obygaze_features.store.write.publication import clean_versions
from obygaze_features.store.write.version import NewVersion
from obygaze_features.store.write.writer import StoreWriter

ADDED = "clips added to the manifest"
RETRIED = "failed clips extracted again"
CHANGED = "clips extracted again whose times or videos changed"

# What a version adds or replaces, and where its rows are extracted.
Change = Literal["clips", "rows", "levels"]
_DRAFT_OF: Mapping[Change, str] = {
    "clips": DRAFT_OF_CLIPS,
    "rows": DRAFT_OF_ROWS,
    "levels": DRAFT_OF_LEVELS,
}


@dataclass(frozen=True)
class VersionWork:
    """Rows to extract for a new version of a sealed store.

    Args:
        target: The sealed store, with its backbone.
        plan: The rows, and the store that they are extracted into.
        reason: Why the version is made.
        change: What the version gets: new clips, rows that are made again, or further levels.
        manifest: The name of the manifest, and the hash of all its clips.
        seal_sha256: The sha256 of the seal of the version before.
    """

    target: Target
    plan: ExtractPlan
    reason: str
    change: Change
    manifest: tuple[str, str]
    seal_sha256: str

    @property
    def draft(self) -> Path:
        """The store that the rows are extracted into."""
        return Path(self.plan.targets[0].store)

    def waits_for_failed(self, seal: bool | None) -> bool:
        """Return whether no version is made while rows failed.

        Args:
            seal: Whether new clips that failed are added with their reasons. The default waits.
        """
        if self.change == "levels":
            # Of windows, those are extracted too that have no features in the store.
            return not isinstance(self.plan.rows, PlannedWindows)
        return self.change == "clips" and seal is None

    def has_begun(self) -> bool:
        """Whether the store that the rows are extracted into is there."""
        return (self.draft / Plan.FILE).is_file()

    @property
    def is_done(self) -> bool:
        """Whether another process has made the version: the store has another seal than before."""
        return open_store(self.target.store).seal_sha256 != self.seal_sha256


@dataclass(frozen=True)
class SplitPlan:
    """A plan without the sealed stores of which a version is made, and the work for these.

    `grown` are sealed stores that have all clips already, in another order than the manifest.
    """

    others: ExtractPlan
    works: tuple[VersionWork, ...]
    grown: tuple[Target, ...]


def split_plan(
    plan: ExtractPlan,
    *,
    retry_failed: bool = False,
    changed: bool = False,
) -> SplitPlan:
    """Return what of a plan makes new versions of sealed stores.

    Args:
        plan: The clips, backbones and stores.
        retry_failed: Whether clips that failed or had no video are extracted again.
        changed: Whether clips are extracted again whose times or video changed.
    """
    others: list[Target] = []
    works: list[VersionWork] = []
    grown: list[Target] = []
    clips: dict[str, int] = {}
    film_of: dict[str, str] = {}
    for target in plan.targets:
        path = Path(target.store)
        if not (path / Plan.FILE).is_file() or not StoreWriter(path).sealed:
            others.append(target)
            continue
        clean_versions(path)
        store = open_store(path)
        if not clips:
            film_of = dict(plan.ids())
            clips = {clip: row for row, clip in enumerate(film_of)}
        comparison = _Comparison.of(store, film_of)
        if comparison.lacking:
            others.append(target)  # the error is that for a store of other clips
            continue
        retried = _rows_again(store, plan, clips, retry_failed, changed)
        _refuse_derived(target, store)
        new_levels = levels_to_extract(target, store)
        if new_levels:
            if changed and retried:
                raise FixUsage(
                    "new levels must be of the videos that the store was made from, and --changed "
                    "makes rows of others",
                    where=store.location,
                    hint="--changed without --arrays first, then --arrays without --changed",
                )
            level_rows = _rows_with_features(plan, store, clips)
            if level_rows is None:
                others.append(target)
                continue
            if not level_rows:
                raise FixInput(
                    f"no clip has features, so none gets {', '.join(new_levels)}",
                    where=store.location,
                    hint="without --arrays, with --retry-failed",
                )
            names = ", ".join(new_levels)
            words = f"levels extracted later: {names}"
            asked = replace(target, arrays=new_levels)
            works.append(_work(plan, asked, store, level_rows, words, "levels"))
        else:
            _discard_levels_of(store, path / DRAFT_OF_LEVELS)
        target = _with_arrays_of(target, store, new_levels)
        if comparison.new:
            new_rows = _rows_of(plan, comparison.new, store)
            if new_rows is None:
                others.append(target)
                continue
            words = f"{ADDED} {plan.manifest}"
            works.append(_work(plan, target, store, new_rows, words, "clips"))
        else:
            _discard_draft(path / DRAFT_OF_CLIPS)
        if retried:
            words = CHANGED if changed else RETRIED
            rows = [plan.rows[row] for row in retried]
            works.append(_work(plan, target, store, rows, words, "rows"))
        if not comparison.new and not retried and not new_levels:
            # Versions may have other clips or arrays than a plan has, or in another order.
            is_as_planned = comparison.is_same_order and store.version == 1
            if is_as_planned:
                others.append(target)
            else:
                grown.append(replace(target, arrays=_extracted_arrays(target, store)))
    return SplitPlan(replace(plan, targets=tuple(others)), tuple(works), tuple(grown))


@dataclass(frozen=True)
class _Comparison:
    """The clips of a sealed store beside those of a plan.

    Args:
        new: The rows of the plan that the store does not have.
        lacking: The clips of the store that the plan does not have, or has as clips of another
            film; withdrawn ones do not count.
        is_same_order: Whether both have the same clips in the same order.
    """

    new: Sequence[int]
    lacking: Sequence[str]
    is_same_order: bool

    @classmethod
    def of(cls, store: Store, film_of: Mapping[str, str]) -> "_Comparison":
        """Compare a store with a plan, given the film of each clip of the plan."""
        stored = store.clip_ids.tolist()
        is_stored = set(stored)
        statuses = store.status().status_of_row
        lacking = []
        pairs = zip(stored, store.movie_ids.tolist(), strict=True)
        for row, (clip, film) in enumerate(pairs):
            is_withdrawn = statuses.get(row, RowStatus()).is_withdrawn
            if film_of.get(clip) != film and not is_withdrawn:
                lacking.append(clip)
        planned = list(film_of)
        new = [row for row, clip in enumerate(planned) if clip not in is_stored]
        return cls(new, lacking, stored == planned)


def _rows_of(
    plan: ExtractPlan, new: Sequence[int], store: Store
) -> Sequence[PlannedClip] | None:
    """Return the new rows of a plan; None for windows of films that the store has in part."""
    if not isinstance(plan.rows, PlannedWindows):
        return tuple(plan.rows[row] for row in new)
    films = set(store.movie_ids.tolist())
    new_films = tuple(film for film in plan.rows.films if film.movie_id not in films)
    rows = PlannedWindows(new_films, plan.rows.grid)
    return rows if len(rows) == len(new) else None


def _rows_again(
    store: Store,
    plan: ExtractPlan,
    clips: Mapping[str, int],
    retry_failed: bool,
    changed: bool,
) -> list[int]:
    """Return the rows of a plan that are extracted again into a sealed store.

    Raise an error (exit code 5) for clips that changed, without `changed`.
    """
    ids = store.clip_ids.tolist()
    statuses = store.status().status_of_row
    again: set[int] = set()
    if retry_failed or changed:
        for row, status in statuses.items():
            if status.state in ("failed", "no-video"):
                again.add(clips[ids[row]])
    is_windows = isinstance(plan.rows, PlannedWindows)
    if again and is_windows:
        raise AlreadyThere(
            f"the store is sealed; {count(len(again), 'window')} stay without features",
            where=store.location,
            hint="extract into another store: obygaze extract run --store NAME=STORE",
        )
    of_row = {
        row: plan.rows[clips[clip]] for row, clip in enumerate(ids) if clip in clips
    }
    differences = {} if is_windows else check_sources(store, of_row).changed
    if differences and not changed:
        lines = {ids[row]: ", ".join(words) for row, words in differences.items()}
        raise changed_error(
            lines,
            where=store.location,
            hint="the same command with --changed, which makes a new version of the store",
        )
    again.update(clips[ids[row]] for row in differences)
    return sorted(again)


def _work(
    plan: ExtractPlan,
    target: Target,
    store: Store,
    rows: Sequence[PlannedClip],
    reason: str,
    change: Change,
) -> VersionWork:
    """Return the work of a version; what is left of another one is removed."""
    draft = Path(target.store) / _DRAFT_OF[change]
    arrays = _extracted_arrays(target, store)
    _check_draft(draft, [row.clip_id for row in rows], arrays)
    of_draft = replace(
        target,
        store=draft.as_posix(),
        arrays=arrays,
        block_rows=store.plan.block_rows,
    )
    return VersionWork(
        target=target,
        plan=replace(plan, rows=rows, targets=(of_draft,)),
        reason=reason,
        change=change,
        manifest=(plan.manifest, plan.clips_sha256),
        seal_sha256=store.seal_sha256,
    )


def _extracted_arrays(target: Target, store: Store) -> tuple[str, ...]:
    """Return the arrays to extract: those that were asked for, else those of the store."""
    return target.arrays or _extracted_arrays_of(store)


def _extracted_arrays_of(store: Store) -> tuple[str, ...]:
    """Return the arrays of features of a store that were extracted, not made of others."""
    return tuple(
        spec.name
        for spec in store.plan.arrays
        if spec.is_feature_array and not spec.derived_from
    )


def _with_arrays_of(target: Target, store: Store, new_levels: Sequence[str]) -> Target:
    """Return a target with all arrays that a sealed store has, or has soon.

    Clips that are added have the arrays of the others, whatever was asked for.
    """
    if not target.arrays or store.plan.holds_pictures or store.recipe.is_unknown:
        return target
    return replace(target, arrays=(*_extracted_arrays_of(store), *new_levels))


def _rows_with_features(
    plan: ExtractPlan, store: Store, clips: Mapping[str, int]
) -> Sequence[PlannedClip] | None:
    """Return the rows of a plan whose clips have features in a store; of windows, all of its films.

    None for windows of films that the store has in part.
    """
    if isinstance(plan.rows, PlannedWindows):
        stored = set(store.clip_ids.tolist())
        films = set(store.movie_ids.tolist())
        kept_films = tuple(film for film in plan.rows.films if film.movie_id in films)
        rows = PlannedWindows(kept_films, plan.rows.grid)
        return rows if len(rows) == len(stored.intersection(clips)) else None
    statuses = store.status().status_of_row
    wanted = [
        clips[clip]
        for row, clip in enumerate(store.clip_ids.tolist())
        if statuses.get(row, RowStatus()).is_ok
    ]
    return tuple(plan.rows[row] for row in sorted(wanted))


def _check_draft(draft: Path, clips: Sequence[str], arrays: Sequence[str]) -> None:
    """Remove rows of which none is wanted any more; an error where some are."""
    with disk_errors(draft.parent):
        draft.parent.mkdir(exist_ok=True)
    if not (draft / Plan.FILE).is_file():
        return
    begun = open_store(draft)
    drafted_arrays = _extracted_arrays_of(begun)
    if set(drafted_arrays) != set(arrays):
        names = ",".join(drafted_arrays)
        raise Mismatch(
            f"other arrays are being extracted for this store: {names}",
            where=str(draft),
            hint=f"run with --arrays {names} to its end, or remove this folder",
        )
    drafted = begun.clip_ids.tolist()
    if drafted == list(clips):
        return
    if set(drafted).isdisjoint(clips):
        _discard_draft(draft)
        return
    raise Mismatch(
        f"{count(len(drafted), 'clip')} of another state of the manifest are being extracted",
        where=str(draft),
        hint="run with that manifest to its end, or remove this folder",
    )


def _refuse_derived(target: Target, store: Store) -> None:
    """Raise an error for an array that was asked for and has the name of a derived one."""
    for spec in store.plan.arrays:
        if spec.derived_from and spec.name in target.arrays:
            raise Mismatch(
                f"the array {spec.name} of this store is the {spec.derived_by} of "
                f"{spec.derived_from}, not what the backbone gives",
                where=store.location,
                hint=store.recipe.another_store,
            )


def _discard_levels_of(store: Store, draft: Path) -> None:
    """Remove levels that were being extracted and that a store has by now."""
    if not (draft / Plan.FILE).is_file():
        return
    present = {spec.name for spec in store.plan.arrays}
    if present.issuperset(_extracted_arrays_of(open_store(draft))):
        _discard_draft(draft)


def _discard_draft(draft: Path) -> None:
    if draft.is_dir():
        commit.discard(draft)


def finish_work(
    work: VersionWork, seal: bool | None = None
) -> tuple[StoreStatus, NewVersion | None]:
    """Make the version of rows that were extracted, if all of them are there.

    Return the status of the store, or of the rows where no version was made.

    Args:
        work: The rows, as they were extracted.
        seal: False makes no version. The default makes none of new clips of which some failed. None
            is made of levels that a clip with features does not have.
    """
    try:
        made = _made_of_draft(work, seal)
    except (OSError, ObygazeError):
        # Another worker has made the version meanwhile, and removed these rows.
        if work.has_begun() or not work.is_done:
            raise
        made = None
    if made is None:
        return status_of_work(work), None
    _discard_draft(work.draft)
    return replace(store_status(work.target.store), new_version=str(made)), made


def status_of_work(work: VersionWork, rows: Sequence[int] | None = None) -> StoreStatus:
    """Return the status of rows that were extracted; of the store, if they are part of it now.

    Args:
        work: The rows.
        rows: Those of them to count. The default is all.
    """
    if not work.has_begun():
        return store_status(work.target.store)
    try:
        return store_status(work.draft, rows)
    except (OSError, ObygazeError):
        if work.has_begun() or not work.is_done:
            raise
        return store_status(work.target.store)


def _made_of_draft(work: VersionWork, seal: bool | None) -> NewVersion | None:
    """Return the version of rows that were extracted; None if they are not all there."""
    if seal is False or not work.has_begun():
        return None
    writer = StoreWriter(work.draft)
    if writer.pending_blocks():
        return None
    if work.waits_for_failed(seal) and writer.rows_to_retry():
        return None
    add: Callable[[], NewVersion]
    if work.change == "levels":
        add = partial(add_levels, work.target.store, work.draft, reason=work.reason)
    else:
        add = partial(
            add_rows,
            work.target.store,
            work.draft,
            reason=work.reason,
            manifest=work.manifest,
        )
    try:
        return add()
    except AlreadyThere:
        # Another version was made meanwhile: what it lacks of these rows is added to it.
        return add()
