"""Everything about a backbone that can be checked here and now, line by line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.base import Backbone, Placement, TorchBackbone
from obygaze_features.backbones.cards import Card, Preset
from obygaze_features.backbones.hub import WeightFiles, cache_folder, find_weights
from obygaze_features.backbones.identity import WrongWeights, is_blob
from obygaze_features.backbones.load import load_from
from obygaze_features.backbones.pixels import Pixels, as_frames
from obygaze_features.backbones.presets import hub_preset, preset_note
from obygaze_features.backbones.run import as_arrays
from obygaze_features.core.console import human
from obygaze_features.core.errors import FixInput, InstallExtra, NotFound, ObygazeError
from obygaze_features.core.files import sha256_file

# Largest difference, relative to the largest value, that another batch size may make.
TOLERANCE = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 5e-2}
_SIZE_OF_ANY = 64

OK, FAILED, SKIPPED, DIFFERS = "ok", "FAILED", "-", "differs"


@dataclass(frozen=True)
class Line:
    """One check: its name, how it went, and what was found."""

    name: str
    state: str
    told: str


@dataclass
class Report:
    """The checks of one backbone, in order."""

    label: str
    lines: list[Line] = field(default_factory=list)
    no_weights: NotFound | None = None

    @property
    def failed(self) -> list[Line]:
        """The checks that did not pass."""
        return [line for line in self.lines if line.state == FAILED]

    def add(self, name: str, state: str, told: str) -> None:
        """Note one check."""
        self.lines.append(Line(name, state, told))

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        return {
            "backbone": self.label,
            "ok": not self.failed and self.no_weights is None,
            "weights": self.no_weights is None,
            "checks": [
                {"name": line.name, "state": _PLAIN[line.state], "found": line.told}
                for line in self.lines
            ],
        }


_PLAIN = {OK: "ok", FAILED: "failed", SKIPPED: "skipped", DIFFERS: "differs"}


def check_backbone(
    card: Card,
    weights: str | Path | None = None,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    attn_implementation: str | None = None,
) -> Report:
    """All checks of a card and its weights; nothing is downloaded."""
    report = Report(card.label)
    files = _find(card, weights, report)
    if report.no_weights is not None:
        return report
    if files is not None:
        _check_blobs(files, report)
    placement = Placement(device, dtype, attn_implementation or card.input.attention)
    try:
        backbone = load_from(card, files, placement)
    except InstallExtra:
        raise
    except ObygazeError as error:
        name = "card" if isinstance(error, WrongWeights) else "complete"
        report.add(name, FAILED, "; ".join([error.what, *map(str.strip, error.details)]))
        return report
    report.add("complete", OK, f"every tensor loaded, none made up; {_told_size(backbone)}")
    _check_identity(backbone, files, report)
    _check_outputs(backbone, dtype, report)
    _check_refusal(backbone, report)
    _check_preset(card, report)
    _check_processor(backbone, files, report)
    return report


def _find(card: Card, weights: str | Path | None, report: Report) -> WeightFiles | None:
    if card.family == "descriptors":
        report.add("weights", OK, "none needed")
        return None
    report.add("cache", SKIPPED, str(cache_folder()))
    try:
        files = find_weights(card, weights)
    except NotFound as error:
        report.no_weights = error
        report.add("weights", FAILED, error.what)
        return None
    names = ", ".join(path.name for path in files.files)
    report.add("weights", OK, f"{names} ({human(files.n_bytes)}) in {files.folder}")
    return files


def _check_blobs(files: WeightFiles, report: Report) -> None:
    """The hub cache names each large file by its sha256."""
    blobs = [path for path in files.files if is_blob(path)]
    if not blobs:
        report.add("sha256", SKIPPED, "not in the hub cache: nothing to compare with")
        return
    wrong = [path.name for path in blobs if sha256_file(path) != path.resolve().name]
    state = FAILED if wrong else OK
    told = f"differs from the hub's: {', '.join(wrong)}" if wrong else "as the hub has it"
    report.add("sha256", state, told)


def _told_size(backbone: Backbone) -> str:
    g = backbone.geometry
    size = f"{g.size} x {g.size}" if g.size else "any size"
    return f"{g.frames} frames of {size}, {backbone.flops / 1e9:.0f} GFLOP a clip"


def _check_identity(backbone: Backbone, files: WeightFiles | None, report: Report) -> None:
    """Which model the weights are, as far as that can be known."""
    if files is None or not isinstance(backbone, TorchBackbone):
        return
    card = backbone.card
    depth = ", ".join(f"{key} {value}" for key, value in card.depth.items())
    report.add("card", OK, f"its sizes{f'; {depth}' if depth else ' (it gives no depth)'}")
    if not card.checkpoint:
        return
    if backbone.verified:
        report.add("checkpoint", OK, card.checkpoint)
        return
    told = ", ".join(f"{name} sha256 {sha}" for name, sha in backbone.hashes.files.items())
    told = f"not verified to be {card.checkpoint}: {files.origin}, {told}"
    report.add("checkpoint", SKIPPED, told)


def _random_clips(backbone: Backbone, n: int) -> npt.NDArray[np.float32]:
    g, rng = backbone.geometry, np.random.default_rng(0)
    size = g.size or _SIZE_OF_ANY
    clips = rng.random((n, g.frames, 3, size, size), dtype=np.float32)
    return clips if backbone.card.family == "descriptors" else clips * 4 - 2


def _check_outputs(backbone: Backbone, dtype: str, report: Report) -> None:
    clips = _random_clips(backbone, 3)
    first = as_arrays(backbone.forward(clips[:2]))
    wanted = {name: (2, *level.shape) for name, level in backbone.levels.items()}
    got = {name: values.shape for name, values in first.items()}
    shapes = ", ".join(f"{name} {list(shape[1:])}" for name, shape in got.items())
    report.add("shapes", OK if got == wanted else FAILED, shapes)
    broken = [name for name, values in first.items() if not np.isfinite(values).all()]
    report.add("finite", FAILED if broken else OK, ", ".join(broken) or "every number")

    other = as_arrays(backbone.forward(clips[[0, 2]]))
    mixed = [n for n in first if not np.array_equal(first[n][0], other[n][0], equal_nan=True)]
    told = f"another clip in the batch changes {', '.join(mixed)}" if mixed else "clips do not mix"
    report.add("clip isolation", FAILED if mixed else OK, told)

    alone = as_arrays(backbone.forward(clips[:1]))
    worst = max(_relative(first[name][:1], alone[name]) for name in first)
    limit = TOLERANCE[dtype]
    report.add("batch invariance", OK if worst <= limit else FAILED, f"{worst:.1e} of {limit:.0e}")


def _relative(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> float:
    scale = float(np.abs(a).max()) or 1.0
    return float(np.abs(a - b).max()) / scale


def _check_refusal(backbone: Backbone, report: Report) -> None:
    clips = _random_clips(backbone, 1)
    longer = np.concatenate([clips, clips[:, :1]], axis=1)
    try:
        backbone.forward(longer)
    except FixInput:
        report.add("wrong number of frames", OK, "refused")
    else:
        report.add("wrong number of frames", FAILED, f"{longer.shape[1]} frames were taken")


def _check_processor(backbone: Backbone, files: WeightFiles | None, report: Report) -> None:
    name = "own processor"
    settings = files.small_file("preprocessor_config.json") if files is not None else None
    if settings is None:
        report.add(name, SKIPPED, "no preprocessor_config.json beside the weights")
        return
    from obygaze_features.backbones.processors import own_processor

    processor: Callable[[Any], Any] | None = own_processor(settings)
    if processor is None:
        kind = settings.get("image_processor_type") or settings.get("feature_extractor_type")
        report.add(name, SKIPPED, f"{kind} has no form without torchvision")
        return
    if not isinstance(backbone, TorchBackbone):
        report.add(name, SKIPPED, "no pixels to compare")
        return
    frames, size = _picture(), backbone.geometry.size
    theirs, card = processor(frames), backbone.card
    if theirs.shape[-2:] != (size, size):
        report.add(name, FAILED, f"it gives {list(theirs.shape[-2:])}, we give {[size, size]}")
        return
    state, told = _compare(backbone, card.input, frames, theirs)
    if state == FAILED and card.input.reproduces and preset_note(card):
        state, told = DIFFERS, f"{told}, as the card says: see preset"
    report.add(name, state, told)
    hub = card.with_preset(hub_preset(card))
    if hub.preset != card.preset:
        report.add(f"{name}, {hub.label}", *_compare(backbone, hub.input, frames, theirs))


def _check_preset(card: Card, report: Report) -> None:
    note = preset_note(card)
    if note:
        report.add("preset", DIFFERS, note)


def _compare(
    backbone: TorchBackbone, preset: Preset, frames: Any, theirs: npt.NDArray[np.float32]
) -> tuple[str, str]:
    """How far the pixels of one preset are from those of the checkpoint's own processor."""
    pixels = Pixels.of(preset, backbone.geometry.size, backbone.checkpoint_edge)
    ours = pixels(as_frames(frames, "cpu")).numpy()
    if np.array_equal(ours, theirs):
        return OK, "the same bits"
    apart = np.abs(ours - theirs)
    std = np.array(preset.std, dtype=np.float64)[None, :, None, None]
    levels = float((apart * std).max() * (127.5 if preset.rescale == "1/127.5-1" else 255.0))
    if levels <= 1.01:
        return OK, f"at most {levels:.2f} grey levels"
    return FAILED, f"pixels differ by up to {float(apart.max()):.2f}"


def _picture() -> npt.NDArray[np.uint8]:
    t, y, x, c = np.ogrid[0:2, 0:270, 0:480, 0:3]
    value = (x * (2 + c) + y * (4 - c)) // 3 + ((x // 24 + y // 24) % 2) * 80 + t * 30
    return np.asarray(value % 256, dtype=np.uint8)
