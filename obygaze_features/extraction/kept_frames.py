"""Read the pictures of clips from a store of them, in place of the films."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from obygaze_features.core.errors import Mismatch
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.plan import ExtractPlan, PlannedClip
from obygaze_features.extraction.recipes import CLEAN, SAMPLING_RULES, decoder_recipe
from obygaze_features.extraction.sources import check_sources
from obygaze_features.store.format.records import STORE_FILE
from obygaze_features.store.format.schema import PICTURES, TIME_ARRAYS, RowSource
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.read.verify import changed_error
from obygaze_features.video.decoded_clip import DecodedClip, View


@dataclass(frozen=True)
class KeptFrames:
    """A store of pictures, and its rows that are those of the films: ok and without damage."""

    store: Store
    rows: frozenset[int]

    @classmethod
    def of(cls, store: Store) -> KeptFrames:
        """Return the pictures of a store."""
        ok = np.flatnonzero(store.status().is_ok)
        clean = store.arrays.read(store.plan.array(CLEAN), ok)
        return cls(store, frozenset(ok[clean].tolist()))

    def serves(self, view: View) -> bool:
        """Return whether the pictures of a view are among those of the store."""
        recipe = self.store.recipe.to_json()
        n_frames = recipe["sampling"]["frames"]
        of_clips = {"rule": SAMPLING_RULES[view.sampling], "frames": n_frames}
        # The pictures for a divisor are among those for a number, but not with one a second.
        fits = n_frames == view.count or (view.sampling != "fps" and n_frames % view.count == 0)
        return (
            fits
            and view.resize is not None
            and recipe["sampling"] == of_clips
            and recipe["decoder"] == decoder_recipe()
            and recipe["preprocessing"] == view.resize.recipe()
        )

    def source(self, row: int) -> RowSource:
        """Return what a row was decoded from."""
        return self.store.commits.sources(row // self.store.plan.block_rows)[row]

    def clip(self, row: int, view: View, planned: PlannedClip) -> DecodedClip:
        """Return the pictures of a view as the decoder returned them; their numbers are unknown."""
        plan, at = self.store.plan, np.array([row])
        pictures, time_s, asked_s = (
            self.store.arrays.read(plan.array(name), at)[0] for name in (PICTURES, *TIME_ARRAYS)
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
        )


def stores_of_frames(plan: ExtractPlan) -> list[Store]:
    """Return the stores of pictures of a plan's clips: those called MANIFEST.frames-* beside it.

    Pictures of windows are not kept.
    """
    if plan.grid is not None:
        return []
    own = {Path(target.store).resolve() for target in plan.targets}
    folder = Workspace(Path(plan.workspace)).folder("stores")
    found = sorted(folder.glob(f"{plan.manifest}.frames-*/{STORE_FILE}"))
    stores = [open_store(path.parent) for path in found if path.parent.resolve() not in own]
    return [
        store
        for store in stores
        if store.plan.holds_pictures and store.plan.manifest_sha256 == plan.clips_sha256
    ]


def find_kept_frames(
    plan: ExtractPlan, rows: Iterable[int], views: Iterable[View]
) -> Mapping[View, KeptFrames]:
    """Return the kept pictures of each view that some store has.

    Raise an error (exit code 5) if the times or the video of a wanted row changed since.
    """
    wanted, found = frozenset(rows), dict[View, KeptFrames]()
    every = [KeptFrames.of(store) for store in stores_of_frames(plan)]
    for view in dict.fromkeys(views):
        serving = [kept for kept in every if kept.serves(view)]
        if serving:
            found[view] = max(serving, key=lambda kept: len(kept.rows & wanted))
    for kept in dict.fromkeys(found.values()):
        _refuse_changed(plan, kept, wanted)
    return found


def _refuse_changed(plan: ExtractPlan, kept: KeptFrames, wanted: frozenset[int]) -> None:
    changed = check_sources(
        kept.store, {row: plan.rows[row] for row in sorted(wanted & kept.rows)}
    ).changed
    if changed:
        lines = {plan.rows[row].clip_id: ", ".join(what) for row, what in changed.items()}
        hint = "remove this store of pictures, or extract -b frames:NAME again with --changed"
        error: Mismatch = changed_error(lines, where=kept.store.location, hint=hint)
        raise error
