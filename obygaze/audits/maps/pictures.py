"""The model of a store, and the pictures of a clip by the recipe of the store."""

from dataclasses import replace
from typing import Any

from obygaze_features.backbones.actions import load_backbone
from obygaze_features.backbones.backbone import PictureBackbone, of_pictures
from obygaze_features.backbones.card import DEFAULT_PRESET, require_pictures
from obygaze_features.backbones.cards import find_card, refuse_code_of_store
from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.clips import (
    PlannedClip,
    plan_clips,
    plan_table,
    read_video_facts,
)
from obygaze_features.extraction.recipes import (
    decoder_recipe,
    sampling_recipe,
)
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.same_clips import SAME_PICTURES, same_clips
from obygaze_features.store import Store
from obygaze_features.store.rows import table_of_rows
from obygaze_features.video.decode import decode_clip
from obygaze_features.video.decoded_clip import DecodedClip, PictureView


def load_model_of(
    store: Store, weights: str | None, workspace: Workspace
) -> PictureBackbone:
    """Load the model that made the features of a store; raise an error for different weights."""
    recipe = _known_recipe(store)
    compute = recipe["compute"]
    # Only the recipe of a backbone of torch has these settings.
    dtype = compute.get("dtype", "float32") if "attention" in compute else "float32"
    backbone = load_backbone(
        _backbone_name(recipe), weights, dtype=dtype, workspace=workspace
    )
    here = backbone.recipe()
    if any(here[key] != recipe[key] for key in ("weights", "preprocessing")):
        raise Mismatch(
            "these weights, or the files next to them, differ from those of the store",
            where=store.location,
            hint="pass the weights of the store: --weights PATH",
        )
    return of_pictures(backbone, "a map is")


def exact_pictures(workspace: Workspace, store: Store, clip_id: str) -> DecodedClip:
    """Decode the pictures from which the features of a clip were computed, without weights.

    Raise an error (exit code 5) if the card, the sampling, the decoder or the video has changed.
    """
    recipe = _known_recipe(store)
    card = find_card(_backbone_name(recipe), workspace)
    require_pictures(card, "a map is")
    # Only a checkpoint knows the edge of some presets.
    edge = recipe["preprocessing"]["edge"]
    resize = replace(card.family.resize(card), edge=edge)
    view = PictureView(card.geometry.frames, card.input.sampling, resize)
    clip = _find_clip(workspace, store, clip_id)
    (row,) = store.table.some(store.select(clips=[clip_id]).rows)
    here = [card.sha256, sampling_recipe(view), decoder_recipe(view)]
    there = [recipe["backbone"]["card_sha256"], recipe["sampling"], recipe["decoder"]]
    now = plan_table([clip], read_video_facts([clip.video]))
    is_changed = same_clips(table_of_rows([row]), now).refused(SAME_PICTURES).any()
    if is_changed or here != there:
        raise Mismatch(
            f"the recipe, the times or the video of {clip_id} has changed since its features"
            " were computed",
            where=store.location,
        )
    return decode_clip(clip.video, view, start_s=clip.start_s, end_s=clip.end_s)


def _known_recipe(store: Store) -> dict[str, Any]:
    """Return the recipe of a store; raise an error if it is unknown."""
    if store.recipe.is_unknown:
        raise FixInput("the recipe of this store is unknown", where=store.location)
    return store.recipe.to_json()


def _backbone_name(recipe: dict[str, Any]) -> str:
    """Return the name and the preset of the backbone of a recipe, to find its card."""
    backbone = recipe["backbone"]
    refuse_code_of_store(backbone["name"])
    return f"{backbone['name']}@{backbone.get('preset', DEFAULT_PRESET)}"


def _find_clip(workspace: Workspace, store: Store, clip_id: str) -> PlannedClip:
    """Return a clip from the manifest of a store, as this manifest is now."""
    path = workspace.existing_manifest(store.record.manifest.name)
    for clip in plan_clips(read_manifest(path)):
        if clip.clip_id == clip_id:
            return clip
    raise Mismatch(f"the manifest has no clip {clip_id!r}", where=str(path))
