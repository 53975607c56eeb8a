"""Plan an extraction: load the backbones, and compare the manifest with their stores."""

import os
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from obygaze_features.backbones.actions import load_backbone
from obygaze_features.backbones.backbone import Backbone
from obygaze_features.backbones.cards import find_card
from obygaze_features.backbones.devices import choose_device
from obygaze_features.core import system
from obygaze_features.core.clip_ids import each_name
from obygaze_features.core.errors import FixInput, FixUsage, NotFound, near
from obygaze_features.core.shell import named_values, shell_word
from obygaze_features.core.workspace import PathLike, Workspace, is_url
from obygaze_features.extraction.cases import (
    ExtractionRequest,
    Work,
    compare_with_store,
)
from obygaze_features.extraction.clips import PlannedClip, plan_clips, read_video_facts
from obygaze_features.extraction.kept import (
    KeptViews,
    find_kept,
    refuse_changed_clips,
    stores_of_frames,
)
from obygaze_features.extraction.recipes import (
    make_arrays,
    make_maker,
    make_recipe,
)
from obygaze_features.extraction.stored import read_stored
from obygaze_features.manifest.model import Manifest
from obygaze_features.store.filling import Filling, plan_filling
from obygaze_features.store.layout import Array, check_store_name
from obygaze_features.store.making import check_not_inside_store
from obygaze_features.store.recipe import Recipe
from obygaze_features.store.records import Maker, ManifestMark
from obygaze_features.store.rows import RowColumns
from obygaze_features.video.worker import ClipView

# --- What the user names ---


@dataclass(frozen=True)
class ChosenBackbone:
    """A backbone with its settings, and the store of its features (MANIFEST.NAME by default)."""

    backbone: str
    store: str = ""
    weights: str | None = None
    arrays: tuple[str, ...] = ()
    dtype: str = "float32"


def choose_backbones(
    backbones: str | Sequence[str],
    *,
    arrays: Sequence[str],
    weights: Sequence[str] | Mapping[str, PathLike],
    stores: Mapping[str, PathLike] | None,
    dtype: str,
) -> list[ChosenBackbone]:
    """Return each backbone with its store, weights and settings.

    `weights` and `stores` state by name to which backbone a value belongs.
    """
    names = each_name(backbones)
    weights_of = _weights_by_name(weights, names)
    stores_of = stores or {}
    for option, values in (("--store", stores_of), ("--weights", weights_of)):
        for name in sorted(values.keys() - set(names)):
            raise FixUsage(
                f"{option} names the backbone {name!r}, which -b does not name",
                hint=f"add -b {shell_word(name)}, or correct the name{near(name, names)}",
            )
    targets = []
    for name in names:
        target = ChosenBackbone(
            name,
            store=os.fspath(stores_of.get(name, "")),
            weights=weights_of.get(name),
            arrays=tuple(arrays),
            dtype=dtype,
        )
        targets.append(target)
    return targets


def _weights_by_name(
    weights: Sequence[str] | Mapping[str, PathLike], names: Sequence[str]
) -> Mapping[str, str]:
    """Return the weights by the names of backbones, from words NAME=PATH.

    If there is a single backbone, one word PATH is enough.
    """
    if isinstance(weights, Mapping):
        return {name: os.fspath(path) for name, path in weights.items()}
    words = each_name(weights)
    if not words:
        return {}
    if len(names) == len(words) == 1:
        is_path = "=" not in words[0] or Path(words[0]).exists()
        if is_path and not words[0].startswith(f"{names[0]}="):
            return {names[0]: words[0]}
    return named_values(words, "--weights")


def choose_device_of_targets(
    device: str, targets: Sequence[ChosenBackbone], workspace: Workspace
) -> str:
    """Return the device that computes targets; for `auto`, one that their backbones can use."""
    cards = (find_card(target.backbone, workspace) for target in targets)
    return choose_device(device, cards)


def store_path(
    target: ChosenBackbone, manifest: Manifest, workspace: Workspace
) -> Path:
    """Return the folder of the store of a target; this store is MANIFEST.NAME by default."""
    name = target.store
    if not name:
        label = find_card(target.backbone, workspace).label
        name = f"{manifest.name}.{label.replace('@', '-')}"
    folder = Path(workspace.store(name))
    if is_url(name) or not folder.exists():
        # This raises an error for a URL, and for names that no store can have.
        workspace.new_store(name)
        check_not_inside_store(folder)
    folder = folder.resolve()
    check_store_name(folder.name, str(folder))
    return folder


# --- The plan ---


@dataclass(frozen=True)
class StorePlan:
    """The plan of one store: its arrays, its present state, and the rows that a run computes.

    Args:
        target: The requested backbone and store.
        path: The folder of the store.
        backbone: The loaded backbone.
        arrays: All arrays that the store will have.
        recipe: The recipe of the features.
        maker: The program and device that compute.
        work: The comparison of the manifest with the store.
        filling: The filling of the store, if it is being filled.
        seal: The seal of the finished store; "" if there is none.
        kept: The clips whose frames are kept.
    """

    target: ChosenBackbone
    path: Path
    backbone: Backbone
    arrays: tuple[Array, ...]
    recipe: Recipe
    maker: Maker
    work: Work
    filling: Filling | None = None
    seal: str = ""
    kept: Container[str] = ()

    @property
    def view(self) -> ClipView:
        """The view in which the backbone takes a clip."""
        return self.backbone.view

    @property
    def row_bytes(self) -> int:
        """The bytes of one row in all arrays."""
        return sum(array.row_bytes for array in self.arrays)

    @property
    def n_computed(self) -> int:
        """How many rows are computed."""
        return sum(self.work.computed)


@dataclass(frozen=True)
class ExtractionPlan:
    """The stores of a run, the clips of the manifest, and their kept frames.

    `notes` name kept frames that are not used.
    """

    manifest: str
    clips: Sequence[PlannedClip]
    stores: Sequence[StorePlan]
    kept: KeptViews = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def how_to_find_videos(self) -> str:
        """The hint for clips without a video."""
        return f"obygaze manifest link {shell_word(self.manifest)} FOLDER"

    def refuse_changes(self) -> None:
        """Raise an error if a store must not get rows, or if kept frames for it are outdated."""
        for store in self.stores:
            store.work.refuse(str(store.path), store.target.backbone)
        for store in self.stores:
            if store.work.is_needed and store.view in self.kept:
                refuse_changed_clips(self.kept[store.view])

    def refuse(self) -> None:
        """Raise the errors of `refuse_changes`, and an error if no clip can be read.

        No clip can be read if no video exists, and no frames that a store needs are kept.
        """
        self.refuse_changes()
        needed = [store.view for store in self.stores if store.work.is_needed]
        if not needed or not self.kept.keys().isdisjoint(needed):
            return
        videos = dict.fromkeys(clip.video for clip in self.clips if clip.video)
        if not any(Path(video).is_file() for video in videos):
            raise NotFound(
                f"no clip of {self.manifest} has a video file; nothing to extract",
                where=next(iter(videos), ""),
                hint=f"{self.how_to_find_videos}, or mount the folder of the videos; then run the"
                " same command again",
                details=self.notes,
            )


def plan_stores(
    manifest: Manifest,
    targets: Sequence[ChosenBackbone],
    workspace: Workspace,
    *,
    device: str = "cpu",
    retry_failed: bool = False,
    is_elsewhere: bool = False,
    download: bool = False,
) -> ExtractionPlan:
    """Load the backbones and compare the manifest with their stores; no store is written.

    If weights are missing, download them with `download`, and raise an error without it. With
    `is_elsewhere`, a different machine computes. Then the device, precision and version are not
    compared with the store: only that machine can tell whether it may add rows.
    """
    if not system.HAS_DECODE_WORKERS:
        raise FixUsage(
            "features are extracted on Linux and macOS, not on Windows itself",
            hint="run the same command in WSL, the Windows Subsystem for Linux",
        )
    if not len(manifest):
        raise FixInput("the manifest has no clips", where=manifest.name)
    if not targets:
        raise FixUsage(
            "no backbone given",
            hint="use -b NAME; to list the names: obygaze backbones ls",
        )
    paths = [store_path(target, manifest, workspace) for target in targets]
    if len(set(paths)) < len(paths):
        raise FixUsage(
            "expected a separate store for each backbone, got the same store twice",
            where=", ".join(map(str, paths)),
        )
    clips = plan_clips(manifest)
    stored_at = [read_stored(path) for path in paths]
    frames, notes = stores_of_frames(manifest.name, workspace)
    is_compared = any(stored_at) or bool(frames)
    facts = read_video_facts(clip.video for clip in clips) if is_compared else {}
    backbones = []
    for target in targets:
        backbone = load_backbone(
            target.backbone,
            target.weights,
            device=device,
            dtype=target.dtype,
            download=download,
            workspace=workspace,
        )
        backbones.append(backbone)
    views = [backbone.view for backbone in backbones]
    kept = find_kept(frames, clips, facts, views)
    known_arrays: set[str] = set()
    for backbone in backbones:
        known_arrays |= backbone.arrays.keys()
    stores = []
    for path, stored, target, backbone in zip(
        paths, stored_at, targets, backbones, strict=True
    ):
        recipe = make_recipe(backbone)
        maker = make_maker(backbone, recipe)
        # Each backbone gets the names of its own arrays, and unknown names to raise an error.
        others = known_arrays - backbone.arrays.keys()
        names = tuple(name for name in target.arrays if name not in others)
        if stored and not names:
            # Without --arrays, a store keeps its arrays.
            names = tuple(n for n in stored.array_names if n in backbone.arrays)
        arrays = make_arrays(backbone, names)
        if stored:
            # A part of a store may have its arrays without their times.
            expected = (*stored.array_names, *backbone.arrays)
            arrays = [array for array in arrays if array.name in expected]
        view = backbone.view
        kept_clips = kept[view].row_of_clip if view in kept else ()
        request = ExtractionRequest(
            clips,
            recipe,
            [array.name for array in arrays],
            None if is_elsewhere else maker.kind,
            facts=facts,
            kept=kept_clips,
            retry_failed=retry_failed,
        )
        work = compare_with_store(request, stored)
        filling = None
        seal = ""
        if stored:
            # The recorded facts of the weights stay.
            recipe = stored.recipe
            filling = stored.filling
            seal = stored.seal
            arrays = list(stored.arrays)
        store = StorePlan(
            target=target,
            path=path,
            backbone=backbone,
            arrays=tuple(arrays),
            recipe=recipe,
            maker=maker,
            work=work,
            filling=filling,
            seal=seal,
            kept=kept_clips,
        )
        stores.append(store)
    return ExtractionPlan(manifest.name, clips, stores, kept, notes)


def open_filling(store: StorePlan, plan: ExtractionPlan, licence: str) -> Filling:
    """Return the filling of a store; if the store is not being filled, plan its filling."""
    if store.filling is not None:
        return store.filling
    rows = store.work.rows
    clips_sha256 = RowColumns.of(rows).clips_sha256
    store.path.parent.mkdir(parents=True, exist_ok=True)
    return plan_filling(
        store.path,
        rows,
        arrays=store.arrays,
        recipe=store.recipe,
        manifest=ManifestMark(plan.manifest, clips_sha256),
        kind=store.maker.kind,
        computed=store.work.computed,
        replaces=store.seal,
        licence=licence,
    )
