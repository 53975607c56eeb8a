"""The recipe, the arrays and the maker of the features of a backbone."""

from collections.abc import Sequence
from typing import Any

import obygaze_features
from obygaze_features.backbones.backbone import Backbone
from obygaze_features.backbones.card import PARTS
from obygaze_features.backbones.devices import may_use_gpu
from obygaze_features.core.errors import FixUsage, near
from obygaze_features.core.machine import cpu_name, package_versions
from obygaze_features.core.shell import shell_word
from obygaze_features.store.layout import CLEAN, MASK, PICTURES, Array
from obygaze_features.store.recipe import Recipe
from obygaze_features.store.records import Maker
from obygaze_features.video.decoded_clip import PictureView
from obygaze_features.video.picture import conversion_sha256
from obygaze_features.video.resample import resampling_sha256
from obygaze_features.video.sound import SoundView
from obygaze_features.video.worker import ClipView

# The version of the rule that finds frames; raise it with any change that could give other frames.
DECODER_RULE = 1
# The same for the samples of sound, and the rule for the vectors of the parts of a clip.
SOUND_RULE = 1
PARTS_RULE = "mean over each of the equal parts; a moment has the nearest step"
SAMPLING_RULES = {
    "even": "int(i * total / T)",
    "fps": "each int(rate)-th frame, at most T by linspace, the rest masked",
}
# Arrays of features that are stored only on request.
HEAVY = ("tokens",)
# The packages whose versions each block records.
PACKAGES = ("av", "numpy", "torch", "transformers")


def make_arrays(backbone: Backbone, names: Sequence[str] = ()) -> list[Array]:
    """Return the arrays of a store: arrays of features and times, and the mask of real frames.

    `names` are the arrays of features; without `names`, they are all arrays except `HEAVY`. The
    times are those of the frames of a clip, or of the parts of its sound.
    """
    available = backbone.arrays
    unknown = [name for name in names if name not in available]
    if unknown:
        raise FixUsage(
            f"{backbone.card.label} has no array {', '.join(unknown)}{near(unknown[0], available)}",
            hint=f"use --arrays {shell_word(','.join(available))}",
        )
    chosen = []
    for name, array in available.items():
        if name in names or (not names and name not in HEAVY):
            chosen.append(Array.of(name, array.dtype, array.shape, array.dims))
    times = ["time_s"]
    if isinstance(backbone.view, PictureView):
        times.append("asked_s")
    n_frames = (backbone.geometry.frames,)
    for name in times:
        chosen.append(Array.of(name, "float64", n_frames, ("frame",)))
    if backbone.takes_mask:
        chosen.append(Array.of(MASK, "bool", n_frames, ("frame",)))
    if PICTURES in available:
        chosen.append(Array.of(CLEAN, "bool", ()))
    return chosen


def make_recipe(backbone: Backbone) -> Recipe:
    """Return the recipe, which has everything that determines the features of a store."""
    return Recipe.of(
        sampling=sampling_recipe(backbone.view),
        decoder=decoder_recipe(backbone.view),
        **backbone.recipe(),
    )


def sampling_recipe(view: ClipView) -> dict[str, Any]:
    """Return the section of a recipe on the frames, or the parts of sound, of a clip."""
    if isinstance(view, SoundView):
        return {"medium": "sound", "rule": PARTS_RULE, "parts": PARTS}
    return {"rule": SAMPLING_RULES[view.sampling], "frames": view.count}


def decoder_recipe(view: ClipView) -> dict[str, Any]:
    """Return the section of a recipe on the decoder."""
    if isinstance(view, SoundView):
        hashed = resampling_sha256()
        return {"name": "pyav", "rule": SOUND_RULE, "resampling_sha256": hashed}
    return {
        "name": "pyav",
        "rule": DECODER_RULE,
        "conversion_sha256": conversion_sha256(),
    }


def make_maker(backbone: Backbone, recipe: Recipe) -> Maker:
    """Return the maker of the features of a backbone: this program, its device and precision."""
    placement = backbone.placement
    is_on_gpu = may_use_gpu(backbone.card) and placement.device.startswith("cuda")
    device = "cpu"
    device_name = cpu_name()
    if is_on_gpu:
        import torch

        device = "cuda"
        device_name = str(torch.cuda.get_device_name(placement.device))
    precision = str(recipe.to_json()["compute"].get("dtype", placement.dtype))
    return made_here(device, device_name, precision, PACKAGES)


def made_here(
    device: str, device_name: str, precision: str, packages: Sequence[str]
) -> Maker:
    """Return this program as a maker, with its device and packages."""
    return Maker(
        program=f"obygaze {obygaze_features.__version__}",
        device=device,
        device_name=device_name,
        precision=precision,
        versions=package_versions(packages),
    )
