"""Compare the card with the processor files of the checkpoint.

The card decides. If a file next to the weights states a different input, the file is from a
different checkpoint or the card is wrong: the model was trained on a different input.
"""

from collections.abc import Iterator, Mapping
from math import isclose
from pathlib import Path
from typing import Any

from obygaze_features.backbones.card import Card, Preset, Sound
from obygaze_features.backbones.geometry import Geometry
from obygaze_features.backbones.weight_files import (
    WeightFiles,
)
from obygaze_features.core.errors import FixInput

# The numbers of the filters in Pillow.
_FILTERS = {"bilinear": 2, "bicubic": 3}
Settings = Mapping[str, Any]


def shortest_edge(files: WeightFiles) -> int | None:
    """Return the shortest edge in the processor files of a checkpoint, or None."""
    for _, settings in files.processors:
        size = settings.get("size")
        edge = size.get("shortest_edge") if isinstance(size, dict) else size
        if isinstance(edge, int) and not isinstance(edge, bool):
            return edge
    return None


def check_pixel_file(card: Card, geometry: Geometry, files: WeightFiles) -> None:
    """Raise an error unless one preset of a card gives the pixels of the checkpoint's processor.

    The other presets may give different pixels, for example the pixels of a paper.
    """
    others = [name for name in card.presets if card.presets[name] != card.input]
    for path, settings in files.processors:
        differences = []
        for name in (card.preset, *others):
            expected = _of_pixels(card.presets[name], geometry, files)
            differences.append(list(_differences(expected, settings)))
        of_nearest = min(differences, key=len)
        if of_nearest:
            _refuse(card, path, *of_nearest[0])


def differences_of_input(
    card: Card, geometry: Geometry, files: WeightFiles
) -> list[str]:
    """Return how the chosen preset differs from the checkpoint's processor, with both values.

    If another preset of the card equals the processor, the difference is not an error.
    """
    found = []
    expected = _of_pixels(card.input, geometry, files)
    for path, settings in files.processors:
        for key, value, got in _differences(expected, settings):
            found.append(f"{key} is {value} here and {got} in {path.name}")
        if card.input.squash_first:
            found.append(
                f"squash_first is {card.input.squash_first} here, and {path.name} has no such step"
            )
    return found


def check_sound_file(card: Card, sound: Sound, files: WeightFiles) -> None:
    """Raise an error unless a card gives the sound input of the checkpoint's processor."""
    expected = _of_sound(card, sound)
    for path, settings in files.processors:
        for difference in _differences(expected, settings):
            _refuse(card, path, *difference)


def _of_pixels(
    preset: Preset, geometry: Geometry, files: WeightFiles
) -> dict[str, Any]:
    """Return the preprocessing of frames in the keys of a processor file."""
    resize = preset.resize_to(geometry, shortest_edge(files))
    height, width = resize.target or (resize.crop, resize.crop)
    crop = {"height": height, "width": width}
    is_offset = preset.rescale == "1/127.5-1"
    settings = {
        "image_mean": list(preset.mean),
        "image_std": list(preset.std),
        "resample": _FILTERS[preset.filter],
        "rescale_factor": 1 / 127.5 if is_offset else 1 / 255,
        "offset": is_offset,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "do_flip_channel_order": False,
        "do_pad": False,
    }
    if preset.resize == "squash":
        return {**settings, "size": crop}
    edge = {"shortest_edge": resize.edge}
    return {**settings, "size": edge, "do_center_crop": True, "crop_size": crop}


def _of_sound(card: Card, sound: Sound) -> dict[str, Any]:
    """Return the preprocessing of sound in the keys of processor files."""
    mel = sound.mel
    if mel is None:
        return {"sampling_rate": sound.rate, "do_normalize": sound.normalise}
    # The processors of spectrograms ignore `do_normalize`.
    return {
        "sampling_rate": sound.rate,
        "feature_size": mel.bands,
        "n_fft": mel.window,
        "fft_window_size": mel.window,
        "hop_length": mel.hop,
        "frequency_min": mel.low_hz,
        "frequency_max": mel.high_hz,
        "chunk_length": card.family.most_s,
        "max_length_s": card.family.most_s,
        "padding": "repeatpad",
        "padding_side": "right",
        "padding_value": 0.0,
        "truncation": "rand_trunc",
        "dither": 0.0,
    }


def _differences(
    expected: Settings, settings: Settings
) -> Iterator[tuple[str, Any, Any]]:
    """Yield each key with a different value in the file, with both values."""
    for key, value in expected.items():
        # A missing key has the default of the processor class, which is not known here.
        got = settings.get(key)
        if got is not None and not _is_same(value, got):
            yield key, value, got


def _is_same(value: Any, got: Any) -> bool:
    """Return whether a value of a file equals that of the card; sizes may be one number or two."""
    if isinstance(value, dict):
        if not isinstance(got, dict):
            return _is_same(list(value.values()), got)
        return value == {key: got[key] for key in got if got[key] is not None}
    if isinstance(value, list):
        values = got if isinstance(got, list) else [got] * len(value)
        return len(values) == len(value) and all(map(_is_same, value, values))
    if isinstance(value, float) and isinstance(got, int | float):
        # Files may contain numbers in single precision.
        return isclose(value, got, rel_tol=1e-6)
    return bool(value == got)


def _refuse(card: Card, path: Path, key: str, value: Any, got: Any) -> None:
    raise FixInput(
        f"{key}: expected {value} as in the card {card.label}, got {got} in this processor file",
        where=str(path),
        hint=f"use the checkpoint of the card, or write a card with this value: like ="
        f' "{card.name}"',
    )
