"""Plan an extraction: what each store is to have, what is there, what is missing, what it costs."""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from obygaze_features.backbones.actions import load_backbone
from obygaze_features.backbones.backbone import Backbone
from obygaze_features.backbones.cards import find_card
from obygaze_features.core.commands import named_values
from obygaze_features.core.console import human, table
from obygaze_features.core.errors import FixInput, FixUsage, NotFound, ObygazeError
from obygaze_features.core.options import Option
from obygaze_features.core.schema_rules import near
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.extraction.cases import Stored, Wanted, Work, compare
from obygaze_features.extraction.clips import (
    PlannedClip,
    clips_of,
    facts_of,
)
from obygaze_features.extraction.compute import (
    black_clip,
    clip_threads,
    computer_for,
)
from obygaze_features.extraction.decoded import Failure, RowJob
from obygaze_features.extraction.decoding import decode_ahead
from obygaze_features.extraction.kept import KeptFrames, find_kept, is_kept
from obygaze_features.extraction.recipes import (
    arrays_of,
    chosen_arrays,
    maker_of,
    recipe_of,
    view_of,
)
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Manifest, Windows, clips_sha256
from obygaze_features.manifest.windows import Grid
from obygaze_features.store.filling import (
    Filling,
    plan_filling,
    remove_leftover,
    store_before,
)
from obygaze_features.store.layout import Array, check_store_name
from obygaze_features.store.placing import finish_waiting, seal_at
from obygaze_features.store.reading import Store, open_store
from obygaze_features.store.recipe import Recipe
from obygaze_features.store.records import Maker, withdrawn_by
from obygaze_features.store.records import Manifest as ManifestRecord
from obygaze_features.store.rows import FAILED
from obygaze_features.store.sealing import NOT_EXTRACTED
from obygaze_features.video.decoded_clip import View
from obygaze_features.video.pool import DecodePool

FEATURES = "Features"
MACHINE = "Machine"
# One clip is decoded for `plan`; so many are tried, in case some cannot be read.
_MOST_TRIED = 5
_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Target:
    """A backbone with its settings, and the store of its features (MANIFEST.NAME by default)."""

    backbone: str
    store: str = ""
    weights: str | None = None
    arrays: tuple[str, ...] = ()
    dtype: str = "float32"


# The parameters that `plan` and `run` share.
Backbones: TypeAlias = Annotated[
    str | Sequence[str | Target],
    Option("-b --backbone", metavar="NAME", group=FEATURES, is_repeated=True),
]
Arrays: TypeAlias = Annotated[
    Sequence[str], Option(metavar="A,B", separator=",", group=FEATURES)
]
Weights: TypeAlias = Annotated[
    Sequence[str] | Mapping[str, PathLike],
    Option(metavar="[NAME=]PATH", group=FEATURES, is_repeated=True),
]
Stores: TypeAlias = Annotated[
    Mapping[str, PathLike] | None,
    Option("--store", metavar="NAME=STORE", group=FEATURES),
]
Precision: TypeAlias = Annotated[
    Literal["float32", "bfloat16", "float16"], Option(group=FEATURES)
]
Device: TypeAlias = Annotated[str, Option(group=MACHINE)]


def chosen_targets(
    backbones: str | Sequence[str | Target],
    *,
    arrays: Sequence[str],
    weights: Sequence[str] | Mapping[str, PathLike],
    stores: Mapping[str, PathLike] | None,
    dtype: str,
) -> list[Target]:
    """Return the targets of backbones; `weights` and `stores` are by their names."""
    named = [backbones] if isinstance(backbones, str) else list(backbones)
    names = [name for name in named if isinstance(name, str)]
    weights_of = _weights_by_name(weights, names)
    stores_of = stores or {}
    for option, values in (("--store", stores_of), ("--weights", weights_of)):
        for name in sorted(values.keys() - set(names)):
            raise FixUsage(
                f"{option} names the backbone {name!r}, which -b does not",
                hint=f"add -b {name}, or correct the name{near(name, names)}",
            )
    targets: list[Target] = []
    for backbone in named:
        if isinstance(backbone, Target):
            targets.append(backbone)
            continue
        target = Target(
            backbone,
            store=os.fspath(stores_of.get(backbone, "")),
            weights=weights_of.get(backbone),
            arrays=tuple(arrays),
            dtype=dtype,
        )
        targets.append(target)
    return targets


def _weights_by_name(
    weights: Sequence[str] | Mapping[str, PathLike], names: Sequence[str]
) -> Mapping[str, str]:
    """Return the weights by the names of backbones; of a single one, PATH alone is enough."""
    if isinstance(weights, Mapping):
        return {name: os.fspath(path) for name, path in weights.items()}
    words = [weights] if isinstance(weights, str) else list(weights)
    if len(names) == len(words) == 1:
        is_path = "=" not in words[0] or Path(words[0]).exists()
        if is_path and not words[0].startswith(f"{names[0]}="):
            return {names[0]: words[0]}
    return named_values(words, "--weights")


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
    there = [read_stored(path) for path in paths]
    facts = facts_of(clip.video for clip in clips) if any(there) else {}
    options: dict[str, Any] = {
        "facts": facts,
        "retry_failed": retry_failed,
        "mixed": mixed,
        "as_planned": as_planned,
    }
    grid = manifest.clips.grid if isinstance(manifest.clips, Windows) else None
    stores = [
        _plan_store(path, is_there, target, clips, grid, workspace, device, options)
        for path, is_there, target in zip(paths, there, targets, strict=True)
    ]
    views = [store.view for store in stores if store.work.is_needed]
    kept = find_kept(manifest.name, clips, views, grid, workspace)
    return ExtractionPlan(manifest.name, clips, grid, stores, kept)


def _plan_store(
    path: Path,
    there: "There | None",
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
    names = target.arrays
    if there and not names:
        # Without --arrays, a store keeps those that it has.
        known = there.stored.arrays
        names = tuple(name for name in known if name in backbone.arrays)
    arrays = arrays_of(backbone, chosen_arrays(backbone, names), grid)
    array_names = [array.name for array in arrays]
    wanted = Wanted(clips, recipe, array_names, maker.kind, **options)
    work = compare(wanted, there.stored if there else None)
    if there:
        recipe = there.stored.recipe
        further = [array for array in arrays if array.name not in there.stored.arrays]
        arrays = [*there.arrays, *([] if there.filling else further)]
    return StorePlan(
        path=path,
        backbone=backbone,
        view=view,
        arrays=tuple(arrays),
        recipe=recipe,
        maker=maker,
        work=work,
        filling=there.filling if there else None,
        seal=there.seal if there else "",
    )


def store_path(target: Target, manifest: Manifest, workspace: Workspace) -> Path:
    """Return the folder of a target's store: MANIFEST.NAME by default."""
    name = target.store
    if not name:
        label = find_card(target.backbone, workspace).label
        name = f"{manifest.name}.{label.replace('@', '-')}"
    folder = Path(workspace.store(name)).resolve()
    check_store_name(folder.name, str(folder))
    return folder


# --- What is there ---


@dataclass(frozen=True)
class There:
    """What is there of a store.

    Args:
        stored: Its recipe and its rows.
        arrays: Its arrays.
        manifest: The manifest whose clips its rows are.
        seal: The seal of the finished store; "" if there is none.
        filling: Its filling, if it is being filled.
    """

    stored: Stored
    arrays: tuple[Array, ...]
    manifest: str
    seal: str
    filling: Filling | None = None


def read_stored(path: Path) -> There | None:
    """Return what is there of a store: its filling, else the finished store; None if nothing is."""
    while True:
        finish_waiting(path)
        remove_leftover(path)
        filling = None
        with suppress(NotFound):
            filling = Filling.open(path)
        seal = seal_at(path)
        try:
            if filling is not None:
                plan = filling.plan
                stored = _stored_of_filling(filling)
                if filling.is_current():
                    return There(stored, plan.arrays, plan.manifest.name, seal, filling)
            elif seal:
                return _finished(open_store(path))
            else:
                return None
        except (OSError, ObygazeError):
            # Another process may have sealed the store, and moved or removed what was read here.
            is_as_before = seal_at(path) == seal
            if is_as_before and (filling is None or filling.is_current()):
                raise


def _finished(store: Store) -> There:
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
    return There(stored, record.arrays, record.manifest.name, store.seal)


def _stored_of_filling(filling: Filling) -> Stored:
    """Return the rows of a store that is being filled, as far as they are known."""
    plan = filling.plan
    rows = [row._replace(status=FAILED, reason=NOT_EXTRACTED) for row in filling.rows]
    withdrawn = withdrawn_by(())
    if plan.replaces:
        before = store_before(filling.target, plan.replaces)
        withdrawn = withdrawn_by(before.record.replaces)
        for number, row in enumerate(before.rows):
            if not filling.computed[number]:
                rows[number] = row
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
        recipe=Recipe.from_json(plan.recipe),
        arrays=[array.name for array in plan.arrays],
        rows=rows,
        kinds=[plan.kind],
        withdrawn_clips=withdrawn.clips,
        withdrawn_films=withdrawn.films,
        computed=filling.computed.tolist(),
    )


def open_filling(store: StorePlan, manifest: str, grid: Grid | None) -> Filling:
    """Return the filling of a store; plan it if it is not there."""
    if store.filling is not None:
        return store.filling
    rows = store.work.rows
    ids = [(row.clip_id, row.movie_id) for row in rows]
    store.path.parent.mkdir(parents=True, exist_ok=True)
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
    clips: int
    to_extract: int
    n_bytes: int
    forward_s: float
    sentences: Sequence[str]


@dataclass(frozen=True)
class Cost:
    """The counts and bytes of a plan, and the seconds to decode one clip; None if none could be."""

    clips: int
    with_video: int
    decode_s: float | None
    stores: Sequence[StoreCost]

    def to_json(self) -> dict[str, Any]:
        """Return the counts, bytes and seconds."""
        return asdict(self)

    def __str__(self) -> str:
        decoding = "no clip could be decoded"
        if self.decode_s is not None:
            decoding = f"decoding takes about {self.decode_s:.3f} s a clip"
        lines = [f"{self.clips} clips, {self.with_video} with video; {decoding}"]
        rows = []
        for store in self.stores:
            counts = (store.store, store.clips, store.to_extract)
            rows.append((*counts, human(store.n_bytes), f"{store.forward_s:.3f}"))
        headers = ("store", "clips", "to extract", "size", "s a clip")
        lines.append(table(headers, rows))
        for store in self.stores:
            lines += [f"{store.store}: {sentence}" for sentence in store.sentences]
        return "\n".join(lines)


def plan_extraction(
    manifest: PathLike | Manifest,
    backbones: Backbones = (),
    *,
    arrays: Arrays = (),
    weights: Weights = (),
    stores: Stores = None,
    dtype: Precision = "float32",
    device: Device = "cpu",
    workspace: PathLike | None = None,
) -> Cost:
    """Count what is missing, and measure one clip.

    One clip is decoded, and one is computed with each backbone. No store is changed or made. The
    exit code is 5 where `extract run` would refuse to add to a store.

    Args:
        manifest: The clips, linked to their videos (`obygaze manifest link`).
        backbones: A backbone, or your own code (FILE.py:NAME).
        arrays: The arrays to store. [default: all but tokens, or those of the store]
        weights: File or folder of weights.
        stores: Store of a backbone. [default: MANIFEST.NAME]
        dtype: Compute in this precision.
        device: The device that computes: cpu, cuda or cuda:1.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze extract plan obygaze12 -b xclip-b16-k600-zs -b vivit-b16x2-k400
        obygaze extract plan obygaze12 -b clip-b16 --arrays clip,pooled,tokens --json
    """
    here = Workspace.of(workspace)
    clips = read_manifest(manifest, workspace=here)
    targets = chosen_targets(
        backbones, arrays=arrays, weights=weights, stores=stores, dtype=dtype
    )
    plan = plan_stores(clips, targets, here, device=device)
    for store in plan.stores:
        store.work.refuse(str(store.path))
    return cost_of(plan, here)


def cost_of(plan: ExtractionPlan, workspace: Workspace) -> Cost:
    """Decode one clip, compute it with each backbone, and count."""
    stores = [
        StoreCost(
            store=store.path.name,
            clips=len(store.work.rows),
            to_extract=store.n_computed,
            n_bytes=store.n_computed * store.row_bytes,
            forward_s=seconds_of_a_clip(store),
            sentences=store.work.sentences,
        )
        for store in plan.stores
    ]
    is_file = _are_files(clip.video for clip in plan.clips)
    return Cost(
        clips=len(plan.clips),
        with_video=sum(is_file[clip.video] for clip in plan.clips),
        decode_s=_decode_seconds(plan, is_file, workspace),
        stores=stores,
    )


def _are_files(videos: Iterable[str]) -> dict[str, bool]:
    """Return which of these videos are there."""
    return {video: bool(video) and Path(video).is_file() for video in set(videos)}


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


def _decode_seconds(
    plan: ExtractionPlan, is_file: Mapping[str, bool], workspace: Workspace
) -> float | None:
    """Return the seconds to decode one clip for all backbones: the first that can be decoded."""
    views = tuple(dict.fromkeys(store.view for store in plan.stores))
    first_of_video: dict[str, int] = {}
    for row, clip in enumerate(plan.clips):
        if is_file[clip.video] or is_kept(RowJob(row, views), clip, plan.kept):
            first_of_video.setdefault(clip.video, row)
    jobs = [RowJob(row, views) for row in first_of_video.values()][:_MOST_TRIED]
    with DecodePool(1, timeout_s=_TIMEOUT_S) as pool:
        decoded_rows = decode_ahead(
            jobs,
            plan.clips,
            pool,
            most_clips=1,
            most_bytes=0,
            indexes=str(workspace.folder("indexes")),
            grid=plan.grid,
            kept=plan.kept,
        )
        for decoded in decoded_rows:
            if not any(isinstance(one, Failure) for one in decoded.views.values()):
                return decoded.seconds
    return None
