"""Check a backbone on this machine: its weights, its outputs and its pixels."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.base import Backbone, Card, Placement, Preset
from obygaze_features.backbones.hub import cache_folder, find_weights
from obygaze_features.backbones.hub_processor import (
    compare_pixels,
    hub_preset,
    own_processor,
    preset_note,
)
from obygaze_features.backbones.load import as_arrays, load_from
from obygaze_features.backbones.pixels import Preprocessor, as_frames
from obygaze_features.backbones.torch_backbone import TorchBackbone, WrongWeights
from obygaze_features.backbones.weights import NO_WEIGHTS, WeightFiles, is_blob
from obygaze_features.core.console import human
from obygaze_features.core.errors import FixInput, InstallExtra, NotFound, ObygazeError
from obygaze_features.core.files import sha256_file
from obygaze_features.core.notebook import short_repr

# Largest difference, relative to the largest value, that another batch size may make.
TOLERANCE = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 5e-2}
_SIZE_OF_ANY = 64
OK, FAILED, SKIPPED, DIFFERS = "ok", "failed", "skipped", "differs"


@dataclass(frozen=True)
class CheckLine:
    """One check: its name, its state (ok, failed, skipped or differs), and what was found."""

    name: str
    state: str
    found: str


@dataclass(repr=False)
class CheckReport:
    """The checks of one backbone, in order."""

    label: str
    lines: list[CheckLine] = field(default_factory=list)
    no_weights: NotFound | None = None

    def __repr__(self) -> str:
        failed = ", ".join(line.name for line in self.failed)
        return short_repr("CheckReport", repr(self.label), f"failed: {failed or 'none'}")

    @property
    def failed(self) -> list[CheckLine]:
        """The checks that failed."""
        return [line for line in self.lines if line.state == FAILED]

    def add(self, name: str, state: str, found: str) -> None:
        """Add one check."""
        self.lines.append(CheckLine(name, state, found))

    def require(self, name: str, passed: bool, found: str) -> None:
        """Add a check that passed or failed."""
        self.add(name, OK if passed else FAILED, found)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {
            "backbone": self.label,
            "ok": not self.failed and self.no_weights is None,
            "weights": self.no_weights is None,
            "checks": [vars(line) for line in self.lines],
        }


def check_backbone(
    card: Card,
    weights: str | Path | None = None,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    attn_implementation: str | None = None,
) -> CheckReport:
    """Return the report of all checks of a card and its weights; nothing is downloaded.

    Args:
        card: What `find_card` returned.
        weights: A file or folder of weights. The default is the card's own in the hub's cache.
        device: cpu, cuda or cuda:N.
        dtype: float32, bfloat16 or float16.
        attn_implementation: sdpa or eager. The default is the preset's.
    """
    report = CheckReport(card.label)
    try:
        files = _find(card, weights, report)
    except NotFound as error:
        report.no_weights = error
        report.add("weights", FAILED, error.what)
        return report
    placement = Placement(device, dtype, attn_implementation or card.input.attention)
    try:
        backbone = load_from(card, files, placement)
    except InstallExtra:
        raise
    except ObygazeError as error:
        name = "card" if isinstance(error, WrongWeights) else "complete"
        report.add(name, FAILED, "; ".join([error.what, *map(str.strip, error.details)]))
        return report
    facts = f"{backbone.geometry.input_size}, {backbone.flops / 1e9:.0f} GFLOP a clip"
    source = "every tensor is from the files" if files.files else "loaded without files"
    report.add("complete", OK, f"{source}; {facts}")
    if isinstance(backbone, TorchBackbone):
        _check_identity(backbone, files, report)
    _check_outputs(backbone, TOLERANCE[dtype], report)
    _check_refusal(backbone, report)
    note = preset_note(card)
    if note:
        report.add("preset", DIFFERS, note)
    _check_processor(backbone, files, report)
    return report


def _find(card: Card, weights: str | Path | None, report: CheckReport) -> WeightFiles:
    if not card.family.needs_weights:
        report.add("weights", OK, "none needed")
        return NO_WEIGHTS
    report.add("cache", SKIPPED, str(cache_folder()))
    files = find_weights(card, weights)
    names = ", ".join(path.name for path in files.files)
    report.add("weights", OK, f"{names} ({human(files.n_bytes)}) in {files.folder}")
    # The hub cache names each large file by its sha256.
    blobs = [path for path in files.files if is_blob(path)]
    if not blobs:
        report.add("sha256", SKIPPED, "not in the hub cache, which has the expected sha256")
        return files
    wrong = [path.name for path in blobs if sha256_file(path) != path.resolve().name]
    found = f"differs from the hub's: {', '.join(wrong)}" if wrong else "equal to the hub's"
    report.require("sha256", not wrong, found)
    return files


def _check_identity(backbone: TorchBackbone, files: WeightFiles, report: CheckReport) -> None:
    """Add whether the weights are verified to be those of the card."""
    card = backbone.card
    depth = ", ".join(f"{key} {value}" for key, value in card.depth.items())
    report.add("card", OK, f"the sizes match; {depth or 'the card declares no depth'}")
    if card.checkpoint and backbone.verified:
        report.add("checkpoint", OK, card.checkpoint)
    elif card.checkpoint:
        found = ", ".join(f"{name} sha256 {sha}" for name, sha in backbone.hashes.files.items())
        found = f"not verified to be {card.checkpoint}: {files.origin}, {found}"
        report.add("checkpoint", SKIPPED, found)


def _random_clips(backbone: Backbone, n: int) -> npt.NDArray[np.float32]:
    g, rng = backbone.geometry, np.random.default_rng(0)
    size = g.size or _SIZE_OF_ANY
    low, high = backbone.card.family.pixel_range
    clips = rng.random((n, g.frames, 3, size, size), dtype=np.float32)
    return np.asarray(clips * np.float32(high - low) + np.float32(low))


def _check_outputs(backbone: Backbone, tolerance: float, report: CheckReport) -> None:
    clips = _random_clips(backbone, 3)
    first = as_arrays(backbone.forward(clips[:2]))
    expected = {name: (2, *level.shape) for name, level in backbone.levels.items()}
    got = {name: values.shape for name, values in first.items()}
    shapes = ", ".join(f"{name} {list(shape[1:])}" for name, shape in got.items())
    report.require("shapes", got == expected, shapes)
    broken = [name for name, values in first.items() if not np.isfinite(values).all()]
    report.require("finite", not broken, ", ".join(broken) or "every number")

    other = as_arrays(backbone.forward(clips[[0, 2]]))
    mixed = [n for n in first if not np.array_equal(first[n][0], other[n][0], equal_nan=True)]
    found = f"another clip in the batch changes {', '.join(mixed)}" if mixed else "clips do not mix"
    report.require("clip isolation", not mixed, found)

    alone = as_arrays(backbone.forward(clips[:1]))
    worst = max(_relative(first[name][:1], alone[name]) for name in first)
    report.require("batch invariance", worst <= tolerance, f"{worst:.1e} of {tolerance:.0e}")


def _relative(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> float:
    scale = float(np.abs(a).max()) or 1.0
    return float(np.abs(a - b).max()) / scale


def _check_refusal(backbone: Backbone, report: CheckReport) -> None:
    clips = _random_clips(backbone, 1)
    longer = np.concatenate([clips, clips[:, :1]], axis=1)
    try:
        backbone.forward(longer)
    except FixInput:
        report.add("wrong number of frames", OK, "refused")
    else:
        report.add("wrong number of frames", FAILED, f"{longer.shape[1]} frames were accepted")


def _check_processor(backbone: Backbone, files: WeightFiles, report: CheckReport) -> None:
    name = "own processor"
    settings = files.json_file("preprocessor_config.json") if files.files else None
    if settings is None or not isinstance(backbone, TorchBackbone):
        report.add(name, SKIPPED, "no preprocessor_config.json beside the weights")
        return
    kind = settings.get("image_processor_type") or settings.get("feature_extractor_type")
    processor = own_processor(files, str(kind))
    if processor is None:
        report.add(name, SKIPPED, f"{kind} has no form without torchvision")
        return
    frames, size, card = _picture(), backbone.geometry.size, backbone.card
    theirs = processor(frames)
    if theirs.shape[-2:] != (size, size):
        found = f"expected {[size, size]}, its processor gives {list(theirs.shape[-2:])}"
        report.add(name, FAILED, found)
        return

    def compare(preset: Preset) -> tuple[bool, str]:
        pixels = Preprocessor.of(preset, size, backbone.checkpoint_edge)
        return compare_pixels(pixels(as_frames(frames, "cpu")).numpy(), theirs, preset)

    same, found = compare(card.input)
    if not same and card.input.reproduces and preset_note(card):
        report.add(name, DIFFERS, f"{found}, as the card declares: see preset")
    else:
        report.require(name, same, found)
    hub = card.with_preset(hub_preset(card))
    if hub.preset != card.preset:
        report.require(f"{name}, {hub.label}", *compare(hub.input))


def _picture() -> npt.NDArray[np.uint8]:
    t, y, x, c = np.ogrid[0:2, 0:270, 0:480, 0:3]
    value = (x * (2 + c) + y * (4 - c)) // 3 + ((x // 24 + y // 24) % 2) * 80 + t * 30
    return np.asarray(value % 256, dtype=np.uint8)
