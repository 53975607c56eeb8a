"""Convert between a target of a plan and the recipe of its store; extract by a store's recipe."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from obygaze_features.backbones.base import DEFAULT_PRESET, Backbone, Card
from obygaze_features.backbones.cards import (
    FRAMES,
    find_card,
    refuse_code_of_store,
    split_preset,
)
from obygaze_features.backbones.geometry import FeatureArray
from obygaze_features.backbones.load import load_backbone
from obygaze_features.core.errors import FixInput, FixUsage, Mismatch, NotFound
from obygaze_features.core.file_names import check_new_name
from obygaze_features.core.parts import find_part, is_own_code, trust
from obygaze_features.core.schema_rules import near
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.compute import clip_threads, computer_for
from obygaze_features.extraction.plan import PlannedClip, PlannedWindow, Target
from obygaze_features.extraction.sources import check_sources, clips_of_store
from obygaze_features.manifest.model import Manifest
from obygaze_features.manifest.windows import Grid
from obygaze_features.store.format.recipe import Recipe
from obygaze_features.store.format.records import Plan
from obygaze_features.store.format.schema import (
    MASK,
    PICTURES,
    SPAN_ARRAYS,
    TIME_ARRAYS,
    ArraySpec,
)
from obygaze_features.store.read.reader import Store
from obygaze_features.store.write.create import (
    BLOCK_ROWS,
    BLOCK_ROWS_LARGE,
    LARGE_ROW_BYTES,
    read_plan,
    with_fewer_blocks,
)
from obygaze_features.video.container import BadVideo
from obygaze_features.video.decode import decode_clip
from obygaze_features.video.decoded_clip import DecodedClip, View
from obygaze_features.video.film import film_index
from obygaze_features.video.index import Sampling
from obygaze_features.video.picture import conversion_sha256

# The rule by which frames are found; raise it with any change that could give other frames.
DECODER_RULE = 1
SAMPLING_RULES = {
    "even": "int(i * total / T)",
    "fps": "each int(rate)-th frame, at most T by linspace, the rest masked",
}
# Blocks of windows are longer than those of clips: a block is one sweep.
BLOCK_WINDOWS = 256
# In stores of pictures: whether a clip has no damage, so that its pictures are those of the film.
CLEAN = "clean"
# Arrays of features that are stored only on request.
HEAVY = ("tokens",)

Features = dict[str, npt.NDArray[Any]]


def load_target(target: Target, workspace: Workspace, device: str = "cpu") -> Backbone:
    """Load the backbone of a target."""
    return load_backbone(
        target.backbone,
        target.weights,
        device=device,
        dtype=target.dtype,
        workspace=workspace,
    )


def targets_for(
    manifest: Manifest,
    backbones: Sequence[str],
    workspace: Workspace,
    *,
    stores: Mapping[str, str],
    weights: Mapping[str, str],
    **settings: Any,
) -> list[Target]:
    """Return the targets of backbones; `stores` and `weights` are by their names."""
    for option, value_of_backbone in (("--store", stores), ("--weights", weights)):
        for name in sorted(value_of_backbone.keys() - set(backbones)):
            raise FixUsage(
                f"{option} names the backbone {name!r}, which -b does not",
                hint=f"add -b {name}, or correct the name{near(name, backbones)}",
            )
    targets = []
    for name in backbones:
        target = Target(stores.get(name, ""), name, weights.get(name), **settings)
        targets.append(complete_target(target, manifest, workspace))
    return targets


def complete_target(target: Target, manifest: Manifest, workspace: Workspace) -> Target:
    """Return a target with its store, MANIFEST.NAME by default, absolute paths, and block size."""
    card = find_card(target.backbone, workspace)
    backbone, name = _absolute_backbone(target.backbone, card)
    store = target.store or f"{manifest.name}.{name}"
    weights = target.weights
    if weights is not None:
        # Links stay: the name tells the form of weights, and their settings are beside that name.
        weights = Path(weights).expanduser().absolute().as_posix()
    path = Path(workspace.store(store)).resolve()
    check_new_name(path)
    if target.block_rows is not None:
        _check_block_rows(target.block_rows)
        block_rows = target.block_rows
    elif (path / Plan.FILE).is_file():
        block_rows = read_plan(path).block_rows
    else:
        largest = _largest_block_rows(target, card, manifest)
        arrays = chosen_arrays(card, target.arrays).values()
        row_bytes = sum(array.n_bytes for array in arrays)
        block_rows = with_fewer_blocks(largest, len(manifest), row_bytes)
    return replace(
        target,
        backbone=backbone,
        store=path.as_posix(),
        weights=weights,
        block_rows=block_rows,
        code=version_of_code(backbone),
    )


def version_of_code(backbone: str) -> str:
    """Return the version of the code of a backbone of one's own, "" for any other."""
    name = backbone.removeprefix(FRAMES)
    if not is_own_code(name):
        return ""
    trust([name])
    return find_part(name).package


def _check_block_rows(block_rows: int) -> None:
    """Raise an error unless a number of rows is a power of two, as those of batches are."""
    if block_rows.bit_count() != 1:
        raise FixUsage(
            f"--block-clips must be a power of two, got {block_rows}",
            hint=f"--block-clips {1 << (block_rows.bit_length() - 1)}",
        )


def _absolute_backbone(backbone: str, card: Card) -> tuple[str, str]:
    """Return the backbone with an absolute path, and its name in the name of a store."""
    prefix = FRAMES if backbone.startswith(FRAMES) else ""
    unprefixed = backbone.removeprefix(prefix)
    source, _, function = unprefixed.rpartition(":")
    if source.endswith(".py"):
        return f"{prefix}{Path(source).resolve().as_posix()}:{function}", card.name
    path, preset = split_preset(unprefixed)
    if path.endswith(".toml"):
        end = f"@{preset}" if preset else ""
        return f"{prefix}{Path(path).resolve().as_posix()}{end}", card.label.replace(
            "@", "-"
        )
    if source or prefix:
        return backbone, card.name
    return backbone, backbone.replace("@", "-")


def _largest_block_rows(target: Target, card: Card, manifest: Manifest) -> int:
    """Return the number of rows of a block by the kind of its rows."""
    arrays = chosen_arrays(card, target.arrays).values()
    if any(array.n_bytes > LARGE_ROW_BYTES for array in arrays):
        return BLOCK_ROWS_LARGE
    if manifest.header.unit == "window":
        return BLOCK_WINDOWS
    return BLOCK_ROWS


def chosen_arrays(
    source: Backbone | Card, names: Sequence[str]
) -> dict[str, FeatureArray]:
    """Return the arrays of features of these names, or all but the heaviest."""
    card = source if isinstance(source, Card) else source.card
    available = source.arrays
    unknown = [name for name in names if name not in available]
    if unknown:
        raise FixUsage(
            f"{card.label} has no array {', '.join(unknown)}{near(unknown[0], available)}",
            hint=f"use --arrays {','.join(available)}",
        )
    names = names or [name for name in available if name not in HEAVY]
    return {name: available[name] for name in available if name in names}


def view_of(source: Backbone | Card, target: Target) -> View:
    """Return what the backbone of a target sees of a clip; a card tells it without the weights."""
    card = source if isinstance(source, Card) else source.card
    rule: Sampling = "fps" if card.input.sampling == "fps" else "even"
    resize = card.family.resize(card) if isinstance(source, Card) else source.resize
    return View(source.geometry.frames, rule, resize)


def arrays_of(
    backbone: Backbone, arrays: Mapping[str, FeatureArray], grid: Grid | None = None
) -> list[ArraySpec]:
    """Return the arrays of a store: of features, times of the frames, and the mask of real frames.

    A store of windows also has the start and the end of each.
    """
    specs = [
        ArraySpec(name, array.shape, array.dims, array.dtype)
        for name, array in arrays.items()
    ]
    n_frames = backbone.geometry.frames
    specs += [
        ArraySpec(name, (n_frames,), ("frame",), "float64") for name in TIME_ARRAYS
    ]
    if grid is not None:
        specs += [ArraySpec(name, (), (), "float64") for name in SPAN_ARRAYS]
    if backbone.takes_mask:
        specs.append(ArraySpec(MASK, (n_frames,), ("frame",), "bool"))
    if PICTURES in arrays:
        specs.append(ArraySpec(CLEAN, (), (), "bool"))
    return specs


def recipe_of(
    backbone: Backbone,
    view: View,
    arrays: Mapping[str, FeatureArray],
    grid: Grid | None = None,
) -> Recipe:
    """Return the recipe: everything that determines the numbers of a store."""
    return Recipe.of(
        sampling=sampling_recipe(view, grid),
        decoder=decoder_recipe(),
        storage={name: array.dtype for name, array in sorted(arrays.items())},
        **{**backbone.recipe(), "levels": sorted(arrays)},
    )


def sampling_recipe(view: View, grid: Grid | None) -> dict[str, Any]:
    """Return the section of a recipe on which pictures of a clip or of a window are chosen."""
    cut = {} if grid is None else {"unit": "window", "grid": grid.to_json()}
    return {"rule": SAMPLING_RULES[view.sampling], "frames": view.count, **cut}


def decoder_recipe() -> dict[str, Any]:
    """Return the section of a recipe on the decoder."""
    return {
        "name": "pyav",
        "rule": DECODER_RULE,
        "conversion_sha256": conversion_sha256(),
    }


def redecoder(
    workspace: Workspace, store: Store, weights: str | None = None
) -> Callable[[Sequence[str]], Mapping[str, Features]]:
    """Return a function that extracts clips again, by exactly the store's recipe.

    Args:
        workspace: Where the store's manifest is.
        store: The store to compare with.
        weights: The file or folder of the weights.
    """
    if store.plan.holds_pictures or store.recipe.is_unknown:
        problem = (
            "the recipe of these features is unknown; they cannot be extracted again"
        )
        if store.plan.holds_pictures:
            problem = "pictures are not decoded again to verify them"
        raise FixInput(
            problem,
            where=store.location,
            hint="obygaze store verify --hash compares its bytes with their checksums",
        )
    recipe = store.recipe.to_json()
    target = target_of(recipe, weights)
    _refuse_missing_code(workspace, store, target)
    backbone = load_target(target, workspace)
    view = view_of(backbone, target)
    arrays = chosen_arrays(backbone, recipe["levels"])
    cut = recipe["sampling"].get("grid")
    grid = Grid(**cut) if cut else None
    here = recipe_of(backbone, view, arrays, grid).as_claimed_by(store.recipe)
    if here.fingerprint != store.fingerprint:
        raise Mismatch(
            "the software installed here would extract different features",
            where=store.location,
            hint="use the same weights (--weights PATH) and versions",
            details=list(map(str, here.diff(store.recipe, ("here", "in the store")))),
        )
    clips = clips_of_store(workspace, store)
    specs = [spec for spec in arrays_of(backbone, arrays) if spec.is_feature_array]

    def extract_again(clip_ids: Sequence[str]) -> Mapping[str, Features]:
        arrays_of_clip: dict[str, Features] = {}
        for clip in (clips[clip_id] for clip_id in clip_ids):
            if not clip.video or not Path(clip.video).is_file():
                continue
            try:
                decoded = _decode(clip, view, grid, workspace.folder("indexes"))
            except BadVideo:
                continue
            with clip_threads(1) as pool:
                computer = computer_for(backbone, specs, pool)
                (computed,) = computer.compute_all([decoded])
            arrays_of_clip[clip.clip_id] = {
                name: array[0] for name, array in computed.arrays.items()
            }
        return arrays_of_clip

    return extract_again


def exact_pictures(workspace: Workspace, store: Store, clip_id: str) -> DecodedClip:
    """Decode the pictures that the features of a clip are of; no weights are needed.

    Raise an error (exit code 5) if the card, the sampling, the decoder or the video has changed.
    """
    recipe = store.recipe.to_json()
    if store.recipe.is_unknown:
        raise FixInput("the recipe of this store is unknown", where=store.location)
    target = target_of(recipe, None)
    cut = recipe["sampling"].get("grid")
    card = find_card(target.backbone, workspace)
    grid = Grid(**cut) if cut else None
    view = view_of(card, target)
    if view.resize is not None:  # only a checkpoint knows the edge of some presets
        resize = replace(view.resize, edge=recipe["preprocessing"]["edge"])
        view = replace(view, resize=resize)
    clip = clips_of_store(workspace, store)[clip_id]
    (row,) = store.select(clips=[clip_id]).rows
    changed = check_sources(store, {int(row): clip}).changed
    here = [card.sha256, sampling_recipe(view, grid), decoder_recipe()]
    there = [recipe["backbone"]["card_sha256"], recipe["sampling"], recipe["decoder"]]
    if changed or here != there:
        raise Mismatch(
            f"the pictures of {clip_id} would not be those of the features",
            where=store.location,
            hint="the same card, versions and video",
        )
    return _decode(clip, view, grid, workspace.folder("indexes"))


def _refuse_missing_code(workspace: Workspace, store: Store, target: Target) -> None:
    """Raise an error that names the code of a store's backbone where no card has its name."""
    backbone = store.recipe.to_json()["backbone"]
    files = ", ".join(backbone.get("code", {}).get("files", {}))
    if not files:
        return
    try:
        find_card(target.backbone, workspace)
    except NotFound as error:
        name = backbone["name"]
        raise FixInput(
            f"the backbone {name!r} is own code ({files}), which a store cannot run",
            where=store.location,
            hint=f"obygaze extract run {store.plan.manifest_name} -b FILE.py:NAME --store "
            "FILE.py:NAME=NEW, then obygaze store diff",
        ) from error


def target_of(recipe: Mapping[str, Any], weights: str | None) -> Target:
    """Return the target that a recipe is of."""
    backbone = recipe["backbone"]
    compute = recipe["compute"]
    refuse_code_of_store(backbone["name"])
    # Only the recipe of a backbone of torch has these settings.
    dtype = "float32"
    if "attention" in compute:
        dtype = compute.get("dtype", "float32")
    return Target(
        store="",
        backbone=f"{backbone['name']}@{backbone.get('preset', DEFAULT_PRESET)}",
        weights=weights,
        dtype=dtype,
    )


def _decode(
    clip: PlannedClip, view: View, grid: Grid | None, indexes: Path
) -> DecodedClip:
    if grid is None or not isinstance(clip, PlannedWindow):
        return decode_clip(clip.video, view, start_s=clip.start_s, end_s=clip.end_s)
    index, _ = film_index(Path(clip.video), indexes)
    ranks = grid.ranks(index.times_s - index.times_s[0], clip.window).tolist()
    return decode_clip(clip.video, view, ranks=ranks, indexes=indexes)
