"""Decode the rows of a plan ahead; rows whose pictures are kept in a store are read from it."""

import glob
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.plan import ExtractPlan, PlannedClip, PlannedWindow
from obygaze_features.extraction.recipes import (
    CLEAN,
    decoder_recipe,
    sampling_recipe,
)
from obygaze_features.extraction.sources import check_sources, source_of
from obygaze_features.extraction.windows import Planned, decode_windows
from obygaze_features.manifest.windows import Grid
from obygaze_features.store.format.records import Plan
from obygaze_features.store.format.schema import (
    PICTURES,
    SPAN_ARRAYS,
    TIME_ARRAYS,
    RowSource,
    RowStatus,
)
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.read.verify import changed_error
from obygaze_features.video.container import BadVideo
from obygaze_features.video.decoded_clip import DecodedClip, View
from obygaze_features.video.pool import DecodeJob, DecodePool, in_order

# Threads that read kept pictures.
READERS = 2
NO_VIDEO = RowStatus.no_video("the manifest names no video")

# Row numbers, each with the views that its stores need.
Jobs = Sequence[tuple[int, tuple[View, ...]]]


@dataclass(frozen=True)
class DecodedRow:
    """A decoded clip for each view of a row, or the reason why there is none."""

    row: int
    clips: Mapping[View, DecodedClip | RowStatus]
    seconds: float = 0.0
    source: RowSource | None = None


@dataclass(frozen=True)
class KeptPictures:
    """A store of pictures, and its rows that are those of the films: ok and without damage.

    `row_in_store` has them by the rows of a plan. A store that has grown has the clips in another
    order than the plan, and a part of a store has not all of them.
    """

    store: Store
    row_in_store: Mapping[int, int]

    @classmethod
    def of(cls, store: Store, plan: ExtractPlan) -> Self:
        """Return the pictures of a store for the clips of a plan."""
        ok = np.flatnonzero(store.status().is_ok)
        clean = store.arrays.read(store.plan.array(CLEAN), ok)
        usable = ok[clean]
        ids = store.clip_ids[usable].tolist()
        row_of_clip = dict(zip(ids, usable.tolist(), strict=True))
        row_in_store = {}
        for row, (clip, _) in enumerate(plan.ids()):
            if clip in row_of_clip:
                row_in_store[row] = row_of_clip[clip]
        return cls(store, row_in_store)

    @cached_property
    def rows(self) -> frozenset[int]:
        """The rows of the plan whose pictures it has."""
        return frozenset(self.row_in_store)

    def serves(self, view: View, grid: Grid | None, *, any_edge: bool = False) -> bool:
        """Return whether the pictures of a view are among those of the store.

        With `any_edge`, the shortest edge may differ: only the checkpoint knows that of the view.
        """
        recipe = self.store.recipe.to_json()
        n_frames = recipe["sampling"]["frames"]
        resize = view.resize
        # The pictures for a divisor are among those for a number, but not with one a second.
        is_divisor = view.sampling != "fps" and n_frames % view.count == 0
        if resize is None or not (n_frames == view.count or is_divisor):
            return False
        if any_edge:
            edge = recipe["preprocessing"].get("edge", resize.edge)
            resize = replace(resize, edge=edge)
        view_of_store = replace(view, count=n_frames)
        sampling = sampling_recipe(view_of_store, grid)
        is_sampled_so: bool = recipe["sampling"] == sampling
        is_decoded_so: bool = recipe["decoder"] == decoder_recipe()
        is_resized_so: bool = recipe["preprocessing"] == resize.recipe()
        return is_sampled_so and is_decoded_so and is_resized_so

    def source(self, row: int) -> RowSource:
        """Return what a row of the plan was decoded from."""
        row_in_store = self.row_in_store[row]
        block = row_in_store // self.store.plan.block_rows
        return self.store.commits.sources(block)[row_in_store]

    def differences(self, rows: Iterable[int], plan: ExtractPlan) -> dict[int, str]:
        """Return the rows of a plan whose times or videos changed since, with what changed."""
        planned = {}
        row_of = {}
        for row in rows:
            row_in_store = self.row_in_store[row]
            planned[row_in_store] = plan.rows[row]
            row_of[row_in_store] = row
        changed = check_sources(self.store, planned).changed
        return {row_of[row]: ", ".join(words) for row, words in changed.items()}

    def clip(self, row: int, view: View, planned: PlannedClip) -> DecodedClip:
        """Return the pictures of a view as the decoder returned them; their numbers are unknown."""
        pictures = self._array(PICTURES, row)
        time_s, asked_s = (self._array(name, row) for name in TIME_ARRAYS)
        span_s = None
        if isinstance(planned, PlannedWindow):
            start_s, end_s = (float(self._array(name, row)) for name in SPAN_ARRAYS)
            span_s = (start_s, end_s)
        rows = np.arange(0, len(pictures), len(pictures) // view.count)
        return DecodedClip(
            path=Path(planned.video),
            shared_pictures=pictures,
            rows=rows,
            index=np.full(view.count, -1),
            time_s=time_s[rows],
            asked_s=asked_s[rows],
            substituted=np.zeros(view.count, dtype=np.bool_),
            mask=~np.isnan(time_s[rows]),
            total=self.source(row).n_frames or 0,
            damaged=False,
            missing=0.0,
            span_s=span_s,
        )

    def _array(self, name: str, row: int) -> npt.NDArray[Any]:
        """Return the value of a row of the plan in an array of the store."""
        spec = self.store.plan.array(name)
        rows = np.array([self.row_in_store[row]])
        value: npt.NDArray[Any] = self.store.arrays.read(spec, rows)[0]
        return value


def stores_of_pictures(plan: ExtractPlan) -> list[Store]:
    """Return the stores of pictures of a plan's clips: those called MANIFEST.frames-* beside it."""
    stores_of_plan = {Path(target.store).resolve() for target in plan.targets}
    folder = Workspace(Path(plan.workspace)).folder("stores")
    # A name may hold signs of a pattern, such as films[1].
    pattern = f"{glob.escape(plan.manifest)}.frames-*/{Plan.FILE}"
    stores = []
    for path in sorted(folder.glob(pattern)):
        if path.parent.resolve() in stores_of_plan:
            continue
        store = open_store(path.parent)
        if store.plan.holds_pictures and _is_of_clips(store, plan):
            stores.append(store)
    return stores


def _is_of_clips(store: Store, plan: ExtractPlan) -> bool:
    """Return whether a store is of the clips of a plan, or of more.

    The plan of a version of a sealed store has the new clips of the manifest alone.
    """
    if store.plan.manifest_sha256 == plan.clips_sha256:
        return True
    pairs = zip(store.clip_ids.tolist(), store.movie_ids.tolist(), strict=True)
    return set(pairs).issuperset(plan.ids())


def find_kept_pictures(
    plan: ExtractPlan,
    rows: Iterable[int],
    views: Iterable[View],
    *,
    changed: bool = False,
) -> dict[View, KeptPictures]:
    """Return the kept pictures of each view that some store has.

    Raise an error (exit code 5) if the times or the video of a wanted row changed since; with
    `changed`, leave these rows out instead, so that they are decoded.
    """
    wanted = frozenset(rows)
    pictures_of_view = dict[View, KeptPictures]()
    candidates = [KeptPictures.of(store, plan) for store in stores_of_pictures(plan)]
    for view in dict.fromkeys(views):
        serving = [kept for kept in candidates if kept.serves(view, plan.grid)]
        if serving:
            most_rows = max(serving, key=lambda kept: len(kept.rows & wanted))
            pictures_of_view[view] = most_rows
    for view, kept in pictures_of_view.items():
        differences = kept.differences(sorted(wanted & kept.rows), plan)
        if differences and not changed:
            lines = {plan.rows[row].clip_id: text for row, text in differences.items()}
            raise changed_error(
                lines,
                where=kept.store.location,
                hint="remove this store of pictures, and extract -b frames:NAME again",
            )
        unchanged = {
            row: row_in_store
            for row, row_in_store in kept.row_in_store.items()
            if row not in differences
        }
        pictures_of_view[view] = replace(kept, row_in_store=unchanged)
    return pictures_of_view


def decode_rows(
    plan: ExtractPlan,
    jobs: Jobs,
    pool: DecodePool,
    *,
    ahead: int,
    kept_pictures: Mapping[View, KeptPictures] = MappingProxyType({}),
) -> Iterator[DecodedRow]:
    """Decode rows in order, up to `ahead` rows in advance; a row that fails has the reason.

    Rows whose pictures are in `kept_pictures` for all their views are read from there.
    """
    planned_to_read: list[Planned] = []
    planned_to_decode: list[Planned] = []
    for row, views in jobs:
        planned = (row, plan.rows[row], views)
        if _are_kept(row, views, kept_pictures):
            planned_to_read.append(planned)
        else:
            planned_to_decode.append(planned)
    folder = str(Workspace(Path(plan.workspace)).folder("indexes"))
    if plan.grid is None:
        decode_jobs = _decode_jobs(plan, planned_to_decode, pool, folder)
        results = pool.map(decode_jobs, ahead=ahead)
    else:
        results = decode_windows(plan.grid, planned_to_decode, pool, folder)
    from_store = _read_kept(planned_to_read, kept_pictures, ahead)
    for row, views in jobs:
        if _are_kept(row, views, kept_pictures):
            yield next(from_store)
            continue
        clip = plan.rows[row]
        if not clip.video:
            yield DecodedRow(row, dict.fromkeys(views, NO_VIDEO))
            continue
        result = next(results)
        if result.error is not None:
            status = _failed(result.error)
            # The file is not read again: that may be what failed or blocked.
            source = RowSource(clip.start_s, clip.end_s)
            yield DecodedRow(row, dict.fromkeys(views, status), result.seconds, source)
            continue
        clips = {}
        for view, decoded in (result.clips or {}).items():
            clips[view] = _checked(decoded)
        source = source_of(clip, result.file_facts)
        yield DecodedRow(row, clips, result.seconds, source)


def _are_kept(
    row: int, views: Iterable[View], kept_pictures: Mapping[View, KeptPictures]
) -> bool:
    """Return whether the pictures of a row are kept for all its views."""
    return all(
        view in kept_pictures and row in kept_pictures[view].rows for view in views
    )


def _read_kept(
    planned: Sequence[Planned], kept_pictures: Mapping[View, KeptPictures], ahead: int
) -> Iterator[DecodedRow]:
    """Read rows whose pictures are kept, in threads, up to `ahead` in advance."""

    def read(planned_row: Planned) -> DecodedRow:
        row, clip, views = planned_row
        started = time.monotonic()
        clips = {view: kept_pictures[view].clip(row, view, clip) for view in views}
        seconds = time.monotonic() - started
        return DecodedRow(row, clips, seconds, kept_pictures[views[0]].source(row))

    with ThreadPoolExecutor(READERS) as readers:

        def submit(planned_row: Planned) -> Future[DecodedRow]:
            return readers.submit(read, planned_row)

        yield from in_order(submit, planned, ahead)


def _decode_jobs(
    plan: ExtractPlan, planned: Sequence[Planned], pool: DecodePool, folder: str
) -> Iterator[DecodeJob]:
    """Yield the job of each clip with a video; start the index of the next film beside them."""
    shared = plan.shared_films
    videos = (clip.video for _, clip, _ in planned)
    films = list(dict.fromkeys(video for video in videos if video in shared))
    for _, clip, views in planned:
        if clip.video in films:
            del films[: films.index(clip.video) + 1]
            if films:
                pool.submit(DecodeJob(films[0], (), indexes=folder))
        if clip.video:
            indexes = folder if clip.video in shared else None
            yield DecodeJob(
                clip.video, views, clip.start_s, clip.end_s, indexes=indexes
            )


def _checked(clip: DecodedClip) -> DecodedClip | RowStatus:
    try:
        return clip.check()
    except BadVideo as error:
        return _failed(error)


def _failed(error: BadVideo) -> RowStatus:
    return RowStatus.failed(error.stage, error.reason, error.message)
