"""Kept frames: other backbones read the pictures of a store instead of the films."""

import glob
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np

from obygaze_features.core.console import count
from obygaze_features.core.errors import (
    Corrupt,
    Mismatch,
    ObygazeError,
    first_line,
)
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.clips import (
    Decoded,
    DecodedView,
    Facts,
    Failure,
    PlannedClip,
    RowJob,
    Source,
    ViewedClip,
    plan_table,
    repetition_remark,
)
from obygaze_features.extraction.recipes import (
    decoder_recipe,
    sampling_recipe,
)
from obygaze_features.manifest.same_clips import SAME_PICTURES, same_clips
from obygaze_features.store.layout import (
    BEFORE,
    CLEAN,
    MASK,
    NEXT,
    PICTURES,
    STORE_JSON,
)
from obygaze_features.store.reading import Store, open_store
from obygaze_features.store.rows import FAILED, table_of_rows
from obygaze_features.video.decoded_clip import PictureView
from obygaze_features.video.worker import ClipView


@dataclass(frozen=True)
class StoredFrames:
    """A store of kept frames, and the row of each clip whose frames may be used.

    `changed` has a line for each clip that changed after its frames were kept.
    """

    store: Store
    row_of_clip: Mapping[str, int]
    changed: Sequence[str] = ()

    def serves(self, view: ClipView) -> bool:
        """Return whether the store has all pictures of a view; a view of sound is never kept."""
        if not isinstance(view, PictureView):
            return False
        recipe = self.store.recipe.to_json()
        n_frames = recipe["sampling"]["frames"]
        # The pictures for a divisor of a number are among the pictures for the number, except if
        # one picture a second is sampled.
        is_divisor = view.sampling != "fps" and n_frames % view.count == 0
        if view.resize is None or not (n_frames == view.count or is_divisor):
            return False
        is_sampled_so: bool = recipe["sampling"] == sampling_recipe(
            replace(view, count=n_frames)
        )
        is_decoded_so: bool = recipe["decoder"] == decoder_recipe(view)
        is_resized_so: bool = recipe["preprocessing"] == view.resize.recipe()
        return is_sampled_so and is_decoded_so and is_resized_so

    def clip(self, clip_id: str, view: PictureView) -> ViewedClip:
        """Return a clip in a view, as if the decoder had decoded it."""
        row = self.row_of_clip[clip_id]
        values = {}
        for array in self.store.record.arrays:
            values[array.name] = self.store.read(array, [row])[0]
        pictures = values.pop(PICTURES)
        n_kept = len(pictures)
        places = np.arange(0, n_kept, n_kept // view.count)
        for name in ("time_s", "asked_s"):
            values[name] = values[name][places]
        mask = ~np.isnan(values["time_s"])
        values[MASK] = mask
        kept = self.store.rows[row]
        n_pictures = kept.pictures or 0
        remark_of_kept = repetition_remark(n_pictures, n_kept)
        remarks = kept.reason.split("; ") if kept.reason else []
        # A still picture is repeated without a remark.
        if remark_of_kept in remarks:
            remarks.remove(remark_of_kept)
            if n_pictures < view.count:
                remarks.append(repetition_remark(n_pictures, view.count))
        remark = "; ".join(remarks)
        return ViewedClip(pictures, places, mask, values, n_pictures, remark)


# Stores of frames may have been made before and after a film was replaced.
OF_TWO_FILES = Failure(
    FAILED,
    "replaced: the stores of kept frames have pictures of two versions of the video",
)

# For each view whose frames were kept: the store that has them.
KeptViews = Mapping[ClipView, StoredFrames]


def stores_of_frames(
    manifest: str, workspace: Workspace
) -> tuple[list[Store], list[str]]:
    """Return the stores of kept frames of a manifest: MANIFEST.frames-* in a workspace.

    Also return a sentence on each store that cannot be read. Its frames are not used: the films are
    decoded.
    """
    # A name may contain characters of a pattern, such as films[1].
    pattern = f"{glob.escape(manifest)}.frames-*/{STORE_JSON}"
    stores = []
    unreadable = []
    for path in sorted(Path(workspace.folder("stores")).glob(pattern)):
        name = path.parent.name
        if name.endswith(NEXT) or BEFORE in name:
            continue
        try:
            store = open_store(path.parent)
            if store.record.array(PICTURES) is not None:
                store.read(CLEAN, np.arange(len(store.rows)))
                stores.append(store)
        except (ObygazeError, OSError) as error:
            unreadable.append(
                f"{name}: the kept frames are not used: {first_line(error)}"
            )
    return stores, unreadable


def find_kept(
    stores: Iterable[Store],
    clips: Sequence[PlannedClip],
    facts: Facts,
    views: Iterable[ClipView],
) -> dict[ClipView, StoredFrames]:
    """Return for each view the store that has its frames of the most clips.

    A view is missing in the result if no store has its frames.

    Args:
        stores: The stores of kept frames.
        clips: The clips of the manifest.
        facts: The length and the hash that each video has now.
        views: The views of the backbones.
    """
    kept = []
    for store in stores:
        of_store = usable_frames(store, clips, facts)
        if of_store.row_of_clip or of_store.changed:
            kept.append(of_store)
    kept_views: dict[ClipView, StoredFrames] = {}
    for view in dict.fromkeys(views):
        serving = [one for one in kept if one.serves(view)]
        if serving:
            kept_views[view] = max(serving, key=lambda one: len(one.row_of_clip))
    return kept_views


def usable_frames(
    store: Store, clips: Sequence[PlannedClip], facts: Facts
) -> StoredFrames:
    """Return the frames of a store that may be used for these clips, and the changed clips."""
    is_clean = store.read(CLEAN, np.arange(len(store)))
    row_of_clip: dict[str, int] = {}
    changed: list[str] = []
    same = same_clips(table_of_rows(store.rows), plan_table(clips, facts))
    differs = same.refused(SAME_PICTURES).tolist()
    for number, row in enumerate(store.rows):
        if same.places[number] < 0 or not row.is_ok or not is_clean[number]:
            continue
        if differs[number]:
            changed.append(f"{row.clip_id}: {same.change(number, differs[number])}")
        else:
            row_of_clip[row.clip_id] = number
    return StoredFrames(store, row_of_clip, changed)


def refuse_changed_clips(kept: StoredFrames) -> None:
    """Raise an error (exit code 5) if a clip or its video changed after its frames were kept."""
    if kept.changed:
        raise Mismatch(
            f"{count(len(kept.changed), 'clip')} changed since the frames were kept",
            where=kept.store.location,
            hint="remove this store of frames, then keep the frames again: obygaze extract run"
            " MANIFEST -b frames:NAME",
            details=kept.changed,
        )


def is_kept(clip: PlannedClip, view: ClipView, kept: KeptViews) -> bool:
    """Return whether the frames of a clip are kept for a view."""
    return view in kept and clip.clip_id in kept[view].row_of_clip


def read_kept(job: RowJob, clip: PlannedClip, kept: KeptViews) -> Decoded:
    """Return a row from kept frames, as if the processes that decode had decoded it."""
    views: dict[ClipView, DecodedView | Failure] = {}
    for view in job.views:
        try:
            # Sound is never kept.
            views[view] = kept[view].clip(clip.clip_id, cast(PictureView, view))
        except Corrupt as error:
            place = shell_word(kept[view].store.location)
            error.hint = f"to decode the films instead, remove this store of frames: rm -r {place}"
            raise
    sources = set()
    for view in job.views:
        row = kept[view].store.rows[kept[view].row_of_clip[clip.clip_id]]
        sources.add(Source(row.video_bytes, row.video_hash))
    source = sources.pop()
    if sources:
        views = dict.fromkeys(job.views, OF_TWO_FILES)
    return Decoded(job.row, source, views)
