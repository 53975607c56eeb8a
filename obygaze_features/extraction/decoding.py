"""Decode the rows of a plan ahead; rows whose pictures are kept in a store are read from it."""

import glob
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Self

import numpy as np

from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.plan import ExtractPlan, PlannedClip, PlannedWindow
from obygaze_features.extraction.recipes import CLEAN, decoder_recipe, sampling_recipe
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
class KeptFrames:
    """A store of pictures, and its rows that are those of the films: ok and without damage."""

    store: Store
    rows: frozenset[int]

    @classmethod
    def of(cls, store: Store) -> Self:
        """Return the pictures of a store."""
        ok = np.flatnonzero(store.status().is_ok)
        clean = store.arrays.read(store.plan.array(CLEAN), ok)
        return cls(store, frozenset(ok[clean].tolist()))

    def serves(self, view: View, grid: Grid | None, *, any_edge: bool = False) -> bool:
        """Return whether the pictures of a view are among those of the store.

        With `any_edge`, the shortest edge may differ: only the checkpoint knows that of the view.
        """
        recipe = self.store.recipe.to_json()
        n_frames = recipe["sampling"]["frames"]
        resize = view.resize
        # The pictures for a divisor are among those for a number, but not with one a second.
        fits = n_frames == view.count or (
            view.sampling != "fps" and n_frames % view.count == 0
        )
        if not fits or resize is None:
            return False
        if any_edge:
            resize = replace(
                resize, edge=recipe["preprocessing"].get("edge", resize.edge)
            )
        is_sampled_so: bool = recipe["sampling"] == sampling_recipe(
            replace(view, count=n_frames), grid
        )
        is_decoded_so: bool = recipe["decoder"] == decoder_recipe()
        is_resized_so: bool = recipe["preprocessing"] == resize.recipe()
        return is_sampled_so and is_decoded_so and is_resized_so

    def source(self, row: int) -> RowSource:
        """Return what a row was decoded from."""
        return self.store.commits.sources(row // self.store.plan.block_rows)[row]

    def clip(self, row: int, view: View, planned: PlannedClip) -> DecodedClip:
        """Return the pictures of a view as the decoder returned them; their numbers are unknown."""
        of_window = isinstance(planned, PlannedWindow)
        names = (PICTURES, *TIME_ARRAYS, *(SPAN_ARRAYS if of_window else ()))
        plan = self.store.plan
        at = np.array([row])
        pictures, time_s, asked_s, *span = (
            self.store.arrays.read(plan.array(name), at)[0] for name in names
        )
        rows = np.arange(0, len(pictures), len(pictures) // view.count)
        return DecodedClip(
            path=Path(planned.video),
            pictures=pictures,
            rows=rows,
            index=np.full(view.count, -1),
            time_s=time_s[rows],
            asked_s=asked_s[rows],
            substituted=np.zeros(view.count, dtype=np.bool_),
            mask=~np.isnan(time_s[rows]),
            total=self.source(row).pictures or 0,
            damaged=False,
            missing=0.0,
            span_s=(float(span[0]), float(span[1])) if of_window else None,
        )


def stores_of_frames(plan: ExtractPlan) -> list[Store]:
    """Return the stores of pictures of a plan's clips: those called MANIFEST.frames-* beside it."""
    own = {Path(target.store).resolve() for target in plan.targets}
    folder = Workspace(Path(plan.workspace)).folder("stores")
    # A name may hold signs of a pattern, such as films[1].
    found = sorted(folder.glob(f"{glob.escape(plan.manifest)}.frames-*/{Plan.FILE}"))
    stores = [
        open_store(path.parent) for path in found if path.parent.resolve() not in own
    ]
    return [
        store
        for store in stores
        if store.plan.holds_pictures and store.plan.manifest_sha256 == plan.clips_sha256
    ]


def find_kept_frames(
    plan: ExtractPlan,
    rows: Iterable[int],
    views: Iterable[View],
    *,
    changed: bool = False,
) -> dict[View, KeptFrames]:
    """Return the kept pictures of each view that some store has.

    Raise an error (exit code 5) if the times or the video of a wanted row changed since; with
    `changed`, leave these rows out instead, so that they are decoded.
    """
    wanted = frozenset(rows)
    found = dict[View, KeptFrames]()
    every = [KeptFrames.of(store) for store in stores_of_frames(plan)]
    for view in dict.fromkeys(views):
        serving = [kept for kept in every if kept.serves(view, plan.grid)]
        if serving:
            found[view] = max(serving, key=lambda kept: len(kept.rows & wanted))
    for view, kept in found.items():
        planned = {row: plan.rows[row] for row in sorted(wanted & kept.rows)}
        differs = check_sources(kept.store, planned).changed
        if differs and not changed:
            lines = {
                plan.rows[row].clip_id: ", ".join(what) for row, what in differs.items()
            }
            hint = "remove this store of pictures, and extract -b frames:NAME again"
            raise changed_error(lines, where=kept.store.location, hint=hint)
        found[view] = replace(kept, rows=kept.rows.difference(differs))
    return found


def decode_rows(
    plan: ExtractPlan,
    jobs: Jobs,
    pool: DecodePool,
    *,
    ahead: int,
    kept: Mapping[View, KeptFrames] = MappingProxyType({}),
) -> Iterator[DecodedRow]:
    """Decode rows in order, up to `ahead` rows in advance; a row that fails has the reason.

    Rows whose pictures are `kept` for all their views are read from there.
    """
    read = {
        row
        for row, views in jobs
        if all(v in kept and row in kept[v].rows for v in views)
    }
    planned = [(row, plan.rows[row], views) for row, views in jobs]
    to_decode = [one for one in planned if one[0] not in read]
    folder = str(Workspace(Path(plan.workspace)).folder("indexes"))
    if plan.grid is None:
        results = pool.map(_decode_jobs(plan, to_decode, pool, folder), ahead=ahead)
    else:
        results = decode_windows(plan.grid, to_decode, pool, folder)
    from_store = _read_kept([one for one in planned if one[0] in read], kept, ahead)
    for row, clip, views in planned:
        if row in read:
            yield next(from_store)
            continue
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
        limit = plan.max_substituted
        clips = {
            view: _checked(decoded, limit)
            for view, decoded in (result.clips or {}).items()
        }
        yield DecodedRow(row, clips, result.seconds, source_of(clip))


def _read_kept(
    planned: Sequence[Planned], kept: Mapping[View, KeptFrames], ahead: int
) -> Iterator[DecodedRow]:
    """Read rows whose pictures are kept, in threads, up to `ahead` in advance."""

    def read(one: Planned) -> DecodedRow:
        row, clip, views = one
        started = time.monotonic()
        clips = {view: kept[view].clip(row, view, clip) for view in views}
        seconds = time.monotonic() - started
        return DecodedRow(row, clips, seconds, kept[views[0]].source(row))

    with ThreadPoolExecutor(READERS) as readers:
        yield from in_order(lambda one: readers.submit(read, one), planned, ahead)


def _decode_jobs(
    plan: ExtractPlan, planned: Sequence[Planned], pool: DecodePool, folder: str
) -> Iterator[DecodeJob]:
    """Yield the job of each clip with a video; start the index of the next film beside them."""
    shared = plan.shared_films
    films = list(dict.fromkeys(c.video for _, c, _ in planned if c.video in shared))
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


def _checked(clip: DecodedClip, max_substituted: float) -> DecodedClip | RowStatus:
    try:
        return clip.check(max_substituted)
    except BadVideo as error:
        return _failed(error)


def _failed(error: BadVideo) -> RowStatus:
    return RowStatus.failed(error.stage, error.reason, error.what)
