"""Check a backbone on this machine: its weights, its outputs and its pixels."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from obygaze_features.backbones.base import (
    DEFAULT_PRESET,
    Backbone,
    Card,
    Placement,
    Preset,
)
from obygaze_features.backbones.hub import find_weights
from obygaze_features.backbones.load import as_arrays, check_device, load_from
from obygaze_features.backbones.pretrained import library, silenced
from obygaze_features.backbones.torch_backbone import Preprocessor, TorchBackbone
from obygaze_features.backbones.weight_files import NO_WEIGHTS, WeightFiles
from obygaze_features.backbones.weights import TENSORS, WrongWeights, is_blob
from obygaze_features.core.console import human, table
from obygaze_features.core.errors import (
    Corrupt,
    InstallExtra,
    NotFound,
    ObygazeError,
)
from obygaze_features.core.machine import cache_folder
from obygaze_features.core.notebook import short_repr

# Largest difference, relative to the largest value, that another batch size may make.
TOLERANCE = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 5e-2}
HUB = "hub"
PAPER = "paper"
_NAMES = {HUB: "the hub's processor", PAPER: "the paper's extraction"}
_HOW = {
    PAPER: "as the paper's extraction does",
    "training": "as in the network's training",
}
_RANGE = ("rescale", "mean", "std")
_PIXELS = (
    *_RANGE,
    "resize",
    "filter",
    "edge",
    "crop_offset",
    "squash_first",
)
# The kinds that have a form without torchvision and give one picture of pixels for each frame.
_KINDS = ("VideoMAE", "Vivit", "CLIP", "Siglip", "Bit")
OK = "ok"
FAILED = "failed"
SKIPPED = "skipped"
DIFFERS = "differs"


@dataclass(frozen=True)
class CheckLine:
    """One check: its name, its state (ok, failed, skipped or differs), and its details."""

    name: str
    state: str
    detail: str


@dataclass(repr=False)
class CheckReport:
    """The checks of one backbone, in order."""

    label: str
    lines: list[CheckLine] = field(default_factory=list)
    no_weights: NotFound | None = None

    def __repr__(self) -> str:
        failed = ", ".join(line.name for line in self.failed)
        return short_repr(
            "CheckReport", repr(self.label), f"failed: {failed or 'none'}"
        )

    @property
    def failed(self) -> list[CheckLine]:
        """The checks that failed."""
        return [line for line in self.lines if line.state == FAILED]

    def __str__(self) -> str:
        shown = {FAILED: "FAILED", SKIPPED: "-"}
        rows = []
        for line in self.lines:
            rows.append([shown.get(line.state, line.state), line.name, line.detail])
        return table(["", "check", "found"], rows)

    def require_ok(self) -> None:
        """Raise an error if there are no weights, or if a check failed."""
        if self.no_weights is not None:
            raise self.no_weights
        if self.failed:
            names = ", ".join(line.name for line in self.failed)
            raise Corrupt(f"{self.label} failed: {names}", hint="see the lines above")

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {
            "backbone": self.label,
            "ok": not self.failed and self.no_weights is None,
            "weights": self.no_weights is None,
            "checks": [vars(line) for line in self.lines],
        }


def check_card(card: Card, weights: Path | None, placement: Placement) -> CheckReport:
    """Return the report of all checks of a card and its weights; nothing is downloaded."""
    check_device(card, placement.device)
    report = CheckReport(card.label)
    if card.family.needs_weights:
        report.lines.append(CheckLine("cache", SKIPPED, str(cache_folder())))
    try:
        files = find_weights(card, weights) if card.family.needs_weights else NO_WEIGHTS
    except NotFound as error:
        report.no_weights = error
        report.lines.append(CheckLine("weights", FAILED, error.message))
        return report
    names = ", ".join(path.name for path in files.files)
    weights_found = "none needed"
    if names:
        weights_found = f"{names} ({human(files.n_bytes)}) in {files.folder}"
    report.lines.append(CheckLine("weights", OK, weights_found))
    try:
        backbone = load_from(card, files, placement)
    except InstallExtra:
        raise
    except ObygazeError as error:
        name = "card" if isinstance(error, WrongWeights) else "complete"
        reasons = "; ".join([error.message, *map(str.strip, error.details)])
        report.lines.append(CheckLine(name, FAILED, reasons))
        return report
    source = "every tensor is from the files" if files.files else "loaded without files"
    report.lines.append(
        CheckLine("complete", OK, f"{source}; {backbone.geometry.input_size}")
    )
    if isinstance(backbone, TorchBackbone):
        report.lines += _of_card(backbone, files)
    report.lines += _of_outputs(backbone, TOLERANCE[placement.dtype])
    if isinstance(backbone, TorchBackbone) and not files.files:
        report.lines.append(_of_loading_again(backbone, card, placement))
    note = preset_note(card)
    if note:
        report.lines.append(CheckLine("preset", DIFFERS, note))
    report.lines += _of_pixels(backbone, files)
    return report


def _passed(name: str, passed: bool, detail: str) -> CheckLine:
    return CheckLine(name, OK if passed else FAILED, detail)


def _of_card(backbone: TorchBackbone, files: WeightFiles) -> Iterator[CheckLine]:
    """Yield whether the weights are verified to be those of the card."""
    card = backbone.card
    if any(map(is_blob, files.files)):
        yield CheckLine("sha256", OK, "equal to the hub's")
    elif files.files:
        yield CheckLine(
            "sha256", SKIPPED, "not in the hub cache, which has the expected sha256"
        )
    depth = ", ".join(f"{key} {value}" for key, value in card.depth.items())
    yield CheckLine(
        "card", OK, f"the sizes match; {depth or 'the card declares no depth'}"
    )
    if card.checkpoint and backbone.verified:
        yield CheckLine("checkpoint", OK, card.checkpoint)
    elif card.checkpoint:
        hashes = [
            f"{name} sha256 {sha256}"
            for name, sha256 in backbone.hashes.items()
            if name != TENSORS
        ]
        yield CheckLine(
            "checkpoint",
            SKIPPED,
            f"not verified to be {card.checkpoint}: {files.origin}, {', '.join(hashes)}",
        )


def _of_loading_again(
    backbone: TorchBackbone, card: Card, placement: Placement
) -> CheckLine:
    """Return whether own code loads the same weights a second time.

    Features of weights that are drawn anew could not be extracted further, nor used elsewhere.
    """
    again = load_from(card, NO_WEIGHTS, placement)
    are_same = isinstance(again, TorchBackbone) and again.hashes == backbone.hashes
    detail = "a second load gives the same weights"
    if not are_same:
        detail = (
            "a second load gives other weights, such as random ones: load them from a file, or "
            "torch.manual_seed(0) before the module is made"
        )
    return _passed("same weights", are_same, detail)


def _of_outputs(backbone: Backbone, tolerance: float) -> Iterator[CheckLine]:
    shape = (3, backbone.geometry.frames, 90, 120, 3)
    pictures = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    pixels = []
    for pictures_of_clip in pictures:
        arrays = as_arrays({"pixels": backbone.preprocess(pictures_of_clip)})
        pixels.append(arrays["pixels"])
    clips = np.stack(pixels)
    # An array of another shape than the card's is an error of `forward`.
    first = as_arrays(backbone.forward(clips[:2]))
    shapes = ", ".join(
        f"{name} {list(values.shape[1:])}" for name, values in first.items()
    )
    yield CheckLine("shapes", OK, shapes)
    broken = [name for name, values in first.items() if not np.isfinite(values).all()]
    yield _passed("finite", not broken, ", ".join(broken) or "every number")

    other_batch = as_arrays(backbone.forward(clips[[0, 2]]))
    mixed = []
    for name, values in first.items():
        if not np.array_equal(values[0], other_batch[name][0], equal_nan=True):
            mixed.append(name)
    isolation = "clips do not mix"
    if mixed:
        isolation = f"another clip in the batch changes {', '.join(mixed)}"
    yield _passed("clip isolation", not mixed, isolation)

    alone = as_arrays(backbone.forward(clips[:1]))
    worst = 0.0
    for name, values in first.items():
        largest = float(np.abs(values[:1]).max()) or 1.0
        worst = max(worst, float(np.abs(values[:1] - alone[name]).max()) / largest)
    yield _passed(
        "batch invariance", worst <= tolerance, f"{worst:.1e} of {tolerance:.0e}"
    )


def _of_pixels(backbone: Backbone, files: WeightFiles) -> Iterator[CheckLine]:
    """Yield how our pixels compare with those of the processor beside the weights."""
    name = "own processor"
    card = backbone.card
    size = backbone.geometry.size
    settings = files.json_file("preprocessor_config.json") if files.files else None
    if settings is None or not isinstance(backbone, TorchBackbone):
        yield CheckLine(name, SKIPPED, "no preprocessor_config.json beside the weights")
        return
    kind = str(
        settings.get("image_processor_type") or settings.get("feature_extractor_type")
    )
    # Those that resize with torchvision alone differ by version, which is why pixels are our own.
    if re.sub("(ImageProcessor|FeatureExtractor)(Fast)?$", "", kind) not in _KINDS:
        yield CheckLine(name, SKIPPED, f"{kind} has no form without torchvision")
        return
    auto = library("models.auto.image_processing_auto").AutoImageProcessor
    t, y, x, c = np.ogrid[0:2, 0:270, 0:480, 0:3]
    value = (x * (2 + c) + y * (4 - c)) // 3 + ((x // 24 + y // 24) % 2) * 80 + t * 30
    pictures = np.asarray(value % 256, dtype=np.uint8)
    with silenced():
        processor = auto.from_pretrained(
            files.folder, use_fast=False, local_files_only=True
        )
        processor_pixels = np.asarray(
            processor(list(pictures), return_tensors="np")["pixel_values"]
        )
    processor_pixels = processor_pixels.reshape(
        -1, *processor_pixels.shape[-3:]
    ).astype(np.float32)
    if processor_pixels.shape[-2:] != (size, size):
        shape = list(processor_pixels.shape[-2:])
        yield CheckLine(
            name, FAILED, f"expected {[size, size]}, its processor gives {shape}"
        )
        return

    def compare(preset: Preset) -> tuple[bool, str]:
        ours = Preprocessor(preset, size, backbone.checkpoint_edge)(pictures).numpy()
        if np.array_equal(ours, processor_pixels):
            return True, "the same bits"
        difference = np.abs(ours - processor_pixels)
        std = np.array(preset.std)[None, :, None, None]
        scale = 127.5 if preset.rescale == "1/127.5-1" else 255.0
        levels = float((difference * std).max() * scale)
        if levels <= 1.01:
            return True, f"at most {levels:.2f} grey levels"
        return False, f"pixels differ by up to {float(difference.max()):.2f}"

    same, difference = compare(card.input)
    if not same and card.input.reproduces and preset_note(card):
        yield CheckLine(
            name, DIFFERS, f"{difference}, as the card declares: see preset"
        )
    else:
        yield _passed(name, same, difference)
    hub = card.with_preset(hub_preset(card))
    if hub.preset != card.preset:
        yield _passed(f"{name}, {hub.label}", *compare(hub.input))


def hub_preset(card: Card) -> str:
    """Return the preset that reproduces the hub's processor, else the default."""
    return _that_reproduces(card, HUB) or DEFAULT_PRESET


def _that_reproduces(card: Card, original: str) -> str:
    """Return the first preset that reproduces the pixels of HUB or PAPER, or ''."""
    for name, preset in card.presets.items():
        if preset.reproduces == original:
            return name
    return ""


def preset_note(card: Card) -> str:
    """Return one sentence on how the chosen preset differs from the hub's processor, or ''."""
    presets = {HUB: hub_preset(card), PAPER: _that_reproduces(card, PAPER)}
    hub = card.presets[presets[HUB]]
    card_values = structs.asdict(card.input)
    hub_values = structs.asdict(hub)
    keys = [key for key in _PIXELS if card_values[key] != hub_values[key]]
    if not keys:
        return ""
    differences = [
        f"{key} {card_values[key] or 'none'}, not {hub_values[key] or 'none'}"
        for key in keys
    ]
    if set(keys) & set(_RANGE):
        differences.append(f"values in {_range(card.input)}, not {_range(hub)}")
    how = _HOW.get(card.input.reproduces, "in its own way")
    others = [
        f"{card.with_preset(name).label} reproduces {_NAMES[original]}"
        for original, name in presets.items()
        if name not in ("", card.preset)
    ]
    return (
        f"{card.label} prepares pixels {how}, not as the hub's processor does"
        f" ({'; '.join(differences)}); {' and '.join(others)}."
    )


def _range(preset: Preset) -> str:
    """Return the smallest and the largest value of a pixel."""
    table = Preprocessor(preset, 1).table
    return f"{round(float(table.min()), 2):g}..{round(float(table.max()), 2):g}"
