"""Plan an extraction: what each store is to have, what is there, what is missing, what it costs."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from obygaze_features.backbones.base import Backbone
from obygaze_features.backbones.cards import find_card, split_preset
from obygaze_features.backbones.load import load_backbone
from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction_next.cases import Stored, Wanted, Work, compare
from obygaze_features.extraction_next.clips import (
    PlannedClip,
    clips_of,
    facts_of,
)
from obygaze_features.extraction_next.compute import (
    black_clip,
    clip_threads,
    computer_for,
)
from obygaze_features.extraction_next.decoded import RowJob
from obygaze_features.extraction_next.decoding import decode_ahead
from obygaze_features.extraction_next.kept import KeptFrames, find_kept
from obygaze_features.extraction_next.recipes import (
    arrays_of,
    chosen_arrays,
    maker_of,
    recipe_of,
    view_of,
)
from obygaze_features.manifest.model import Manifest, Windows, clips_sha256
from obygaze_features.manifest.windows import Grid
from obygaze_features.store_next.filling import Filling, plan_filling, remove_leftover
from obygaze_features.store_next.layout import Array, check_store_name
from obygaze_features.store_next.placing import finish_waiting, seal_at
from obygaze_features.store_next.reading import open_store
from obygaze_features.store_next.recipe import Recipe
from obygaze_features.store_next.records import Maker, withdrawn_by
from obygaze_features.store_next.records import Manifest as ManifestRecord
from obygaze_features.store_next.rows import FAILED, Row
from obygaze_features.store_next.sealing import NOT_EXTRACTED
from obygaze_features.video.decoded_clip import View
from obygaze_features.video.pool import DecodePool


@dataclass(frozen=True)
class Target:
    """A backbone with its settings, and the store of its features (MANIFEST.NAME by default)."""

    backbone: str
    store: str = ""
    weights: str | None = None
    arrays: tuple[str, ...] = ()
    dtype: str = "float32"
    compressor: str = ""


@dataclass(frozen=True)
class StorePlan:
    """What one store is to have, what is there, and what a run computes.

    Args:
        path: The folder of the store.
        backbone: The loaded backbone.
        view: What it sees of a clip.
        arrays: All arrays that the store will have.
        recipe: How the numbers are made.
        maker: What computes.
        work: The comparison of the manifest with the store.
        filling: The filling of the store, if it is being filled.
        seal: The seal of the finished store, if there is one.
    """

    path: Path
    backbone: Backbone
    view: View
    arrays: tuple[Array, ...]
    recipe: Recipe
    maker: Maker
    work: Work
    filling: Filling | None = None
    seal: str = ""

    @property
    def row_bytes(self) -> int:
        """The bytes of one computed row."""
        names = set(self.work.computes)
        return sum(array.row_bytes for array in self.arrays if array.name in names)

    @property
    def n_computed(self) -> int:
        """How many rows are computed."""
        return sum(self.work.computed)


@dataclass(frozen=True)
class ExtractionPlan:
    """The stores of a run, and the clips of the manifest."""

    manifest: str
    clips: Sequence[PlannedClip]
    grid: Grid | None
    stores: Sequence[StorePlan]
    kept: Mapping[View, KeptFrames] = field(default_factory=dict)

    def refuse(self) -> None:
        """Raise an error if a store is refused, or if there is nothing that could be decoded."""
        for store in self.stores:
            store.work.refuse(str(store.path))
        is_needed = any(store.work.is_needed for store in self.stores)
        if is_needed and not self.kept:
            _refuse_without_videos(self.manifest, self.clips)


def plan_stores(
    manifest: Manifest,
    targets: Sequence[Target],
    workspace: Workspace,
    *,
    device: str = "cpu",
    retry_failed: bool = False,
    mixed: bool = False,
    as_planned: bool = False,
) -> ExtractionPlan:
    """Load the backbones and compare the manifest with their stores; nothing is written."""
    if not len(manifest):
        raise FixInput("the manifest has no clips", where=manifest.name)
    if not targets:
        raise FixUsage("no backbone given", hint="use -b NAME; obygaze backbones ls")
    paths = [store_path(target, manifest, workspace) for target in targets]
    if len(set(paths)) < len(paths):
        raise FixUsage(
            "each backbone needs a store of its own", where=", ".join(map(str, paths))
        )
    clips = clips_of(manifest)
    is_there = [_is_there(path) for path in paths]
    facts = facts_of(clip.video for clip in clips) if any(is_there) else {}
    options: dict[str, Any] = {
        "facts": facts,
        "retry_failed": retry_failed,
        "mixed": mixed,
        "as_planned": as_planned,
    }
    grid = manifest.clips.grid if isinstance(manifest.clips, Windows) else None
    stores = [
        _plan_store(path, target, clips, grid, workspace, device, options)
        for path, target in zip(paths, targets, strict=True)
    ]
    views = [store.view for store in stores if store.work.is_needed]
    kept = find_kept(manifest.name, clips, views, grid, workspace)
    return ExtractionPlan(manifest.name, clips, grid, stores, kept)


def _plan_store(
    path: Path,
    target: Target,
    clips: Sequence[PlannedClip],
    grid: Grid | None,
    workspace: Workspace,
    device: str,
    options: Mapping[str, Any],
) -> StorePlan:
    backbone = load_backbone(
        target.backbone,
        target.weights,
        device=device,
        dtype=target.dtype,
        workspace=workspace,
    )
    view = view_of(backbone)
    recipe = recipe_of(backbone, view, grid)
    maker = maker_of(backbone, recipe)
    filling, stored, known_arrays, seal = read_stored(path)
    names = target.arrays
    if stored is not None and not names:
        # Without --arrays, a store keeps those that it has.
        names = tuple(name for name in stored.arrays if name in backbone.arrays)
    wanted_arrays = arrays_of(
        backbone, chosen_arrays(backbone, names), grid, target.compressor
    )
    wanted = Wanted(
        clips, recipe, [array.name for array in wanted_arrays], maker.kind, **options
    )
    work = compare(wanted, stored)
    known = {array.name for array in known_arrays}
    further = [array for array in wanted_arrays if array.name not in known]
    if filling is not None:
        further = []
    return StorePlan(
        path=path,
        backbone=backbone,
        view=view,
        arrays=(*known_arrays, *further),
        recipe=recipe if stored is None else stored.recipe,
        maker=maker,
        work=work,
        filling=filling,
        seal=seal,
    )


def store_path(target: Target, manifest: Manifest, workspace: Workspace) -> Path:
    """Return the folder of a target's store: MANIFEST.NAME by default."""
    name = target.store
    if not name:
        card = find_card(target.backbone, workspace)
        is_name = ":" not in target.backbone and not target.backbone.endswith(".toml")
        label = target.backbone if is_name else card.name
        name = f"{manifest.name}.{label.replace('@', '-')}"
        path, preset = split_preset(target.backbone)
        if path.endswith(".toml") and preset:
            name = f"{manifest.name}.{card.label.replace('@', '-')}"
    folder = Path(workspace.store(name)).resolve()
    check_store_name(folder.name, str(folder))
    return folder


# --- What is there ---


def _is_there(path: Path) -> bool:
    finish_waiting(path)
    try:
        Filling.open(path)
    except NotFound:
        return bool(seal_at(path))
    return True


def read_stored(
    path: Path,
) -> tuple[Filling | None, Stored | None, tuple[Array, ...], str]:
    """Return the filling of a store, what is there, its arrays, and its seal if it is finished."""
    finish_waiting(path)
    remove_leftover(path)
    try:
        filling = Filling.open(path)
    except NotFound:
        filling = None
    seal = seal_at(path)
    if filling is not None:
        return filling, _stored_of_filling(filling), filling.plan.arrays, seal
    if not seal:
        return None, None, (), ""
    store = open_store(path)
    record = store.record
    withdrawn = withdrawn_by(record.replaces)
    stored = Stored(
        recipe=store.recipe,
        arrays=[array.name for array in record.arrays],
        rows=store.rows,
        kinds=[maker.kind for maker in record.makers],
        withdrawn_clips=withdrawn.clips,
        withdrawn_films=withdrawn.films,
    )
    return None, stored, record.arrays, store.seal


def _stored_of_filling(filling: Filling) -> Stored:
    """Return the rows of a store that is being filled, as far as they are known."""
    rows: list[Row] = []
    for row, is_computed in zip(filling.rows, filling.computed.tolist(), strict=True):
        missing = row._replace(status=FAILED, reason=NOT_EXTRACTED)
        rows.append(missing if is_computed else row)
    for block in sorted(filling.done() & set(filling.needed)):
        record = filling.read_block(block)
        if record is None:
            continue
        for done in record.rows:
            rows[done.row] = filling.rows[done.row]._replace(
                status=done.status,
                reason=done.reason,
                video_bytes=done.video_bytes,
                video_hash=done.video_hash,
                pictures=done.pictures,
            )
    return Stored(
        recipe=Recipe.from_json(filling.plan.recipe),
        arrays=[array.name for array in filling.plan.arrays],
        rows=rows,
        kinds=[filling.plan.kind],
        computed=filling.computed.tolist(),
    )


def open_filling(store: StorePlan, manifest: str, grid: Grid | None) -> Filling:
    """Return the filling of a store; plan it if it is not there."""
    if store.filling is not None:
        return store.filling
    rows = store.work.rows
    ids = [(row.clip_id, row.movie_id) for row in rows]
    return plan_filling(
        store.path,
        rows,
        arrays=store.arrays,
        recipe=store.recipe,
        manifest=ManifestRecord(manifest, clips_sha256(ids)),
        kind=store.maker.kind,
        windows=grid is not None,
        computed=store.work.computed,
        computes=tuple(store.work.computes),
        replaces=store.seal,
    )


def _refuse_without_videos(manifest: str, clips: Sequence[PlannedClip]) -> None:
    """Raise an error if no clip has a video file: all rows would fail."""
    videos = dict.fromkeys(clip.video for clip in clips if clip.video)
    if any(Path(video).is_file() for video in videos):
        return
    link = f"obygaze manifest link {manifest} FOLDER"
    if not videos:
        raise NotFound(
            f"no clip of {manifest} is linked to a video; nothing to extract",
            hint=f"{link}, then the same command",
        )
    raise NotFound(
        f"none of the {len(videos)} video files of {manifest} exists; nothing to extract",
        where=f"{next(iter(videos))}, ...",
        hint=f"mount their folder, or {link}, then the same command",
    )


# --- What it costs ---


@dataclass(frozen=True)
class StoreCost:
    """What is to compute for one store, its bytes, and the seconds of one clip as measured."""

    store: str
    rows: int
    computed: int
    n_bytes: int
    forward_s: float
    sentences: Sequence[str]


@dataclass(frozen=True)
class Cost:
    """The counts and bytes of a plan, and the seconds to decode one clip; None if none could be."""

    clips: int
    decode_s: float | None
    stores: Sequence[StoreCost]

    def __str__(self) -> str:
        decoding = "not decoded" if self.decode_s is None else f"{self.decode_s:.2f} s"
        lines = [f"{self.clips} clips; one clip to decode: {decoding}"]
        for store in self.stores:
            lines.append(
                f"{store.store}: {store.computed} of {store.rows} rows to compute,"
                f" {store.n_bytes / 1e6:.1f} MB, {store.forward_s:.2f} s a clip"
            )
            lines += [f"  {sentence}" for sentence in store.sentences]
        return "\n".join(lines)


def cost_of(plan: ExtractionPlan, workspace: Workspace) -> Cost:
    """Decode one clip, compute it with each backbone, and count."""
    stores = [
        StoreCost(
            store=store.path.name,
            rows=len(store.work.rows),
            computed=store.n_computed,
            n_bytes=store.n_computed * store.row_bytes,
            forward_s=seconds_of_a_clip(store),
            sentences=store.work.sentences,
        )
        for store in plan.stores
    ]
    return Cost(len(plan.clips), _decode_seconds(plan, workspace), stores)


def seconds_of_a_clip(store: StorePlan) -> float:
    """Return the seconds that a backbone needs for one clip of made-up pictures."""
    computes = [
        array
        for array in store.arrays
        if array.name in store.work.computes and array.name in store.backbone.arrays
    ]
    clip = black_clip(store.backbone)
    with clip_threads(1) as threads:
        computer = computer_for(store.backbone, computes, threads)
        # What is loaded or compiled once does not count.
        computer.compute_all([clip])
        started = time.monotonic()
        computer.compute_all([clip])
    return time.monotonic() - started


def _decode_seconds(plan: ExtractionPlan, workspace: Workspace) -> float | None:
    """Return the seconds to decode the first clip whose video is there, for all backbones."""
    views = tuple(dict.fromkeys(store.view for store in plan.stores))
    rows = [row for row, clip in enumerate(plan.clips) if Path(clip.video).is_file()]
    if not rows or plan.grid is not None:
        return None
    with DecodePool(1) as pool:
        decoded = decode_ahead(
            [RowJob(rows[0], views)],
            plan.clips,
            pool,
            most_clips=1,
            most_bytes=0,
            indexes=str(workspace.folder("indexes")),
        )
        return next(decoded).seconds
