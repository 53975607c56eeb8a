"""Check a backbone on this machine: its weights, its outputs and its pixels."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.backbone import (
    Backbone,
    Placement,
    Preprocessor,
    TorchBackbone,
    as_arrays,
    check_device,
    load_from,
)
from obygaze_features.backbones.card import HOW_PIXELS_ARE_MADE, HUB, Card
from obygaze_features.backbones.pretrained import library, silenced
from obygaze_features.backbones.weights import (
    NO_WEIGHTS,
    TENSORS,
    WeightFiles,
    WrongWeights,
    find_weights,
    is_blob,
)
from obygaze_features.core.console import human, table
from obygaze_features.core.errors import (
    Corrupt,
    InstallExtra,
    NotFound,
    ObygazeError,
)
from obygaze_features.core.machine import cache_folder
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.workspace import PathLike

# Largest difference, relative to the largest value, that another batch size may make.
TOLERANCE = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 5e-2}
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


def check_card(
    card: Card, weights: PathLike | None, placement: Placement
) -> CheckReport:
    """Return the report of all checks of a card and its weights; nothing is downloaded."""
    check_device(card, placement.device)
    report = CheckReport(card.label)
    if card.family.needs_weights:
        report.lines.append(CheckLine("cache", SKIPPED, str(cache_folder())))
    try:
        files = find_weights(card, weights)
    except NotFound as error:
        report.no_weights = error
        report.lines.append(CheckLine("weights", FAILED, error.message))
        return report
    report.lines.append(_line_of_files(files))
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
    size = backbone.geometry.input_size
    report.lines.append(CheckLine("complete", OK, f"{source}; {size}"))
    if isinstance(backbone, TorchBackbone):
        report.lines += _lines_of_card(backbone, files)
    report.lines += _lines_of_outputs(backbone, TOLERANCE[placement.dtype])
    if isinstance(backbone, TorchBackbone) and not files.files:
        report.lines.append(_line_of_loading_again(backbone, card, placement))
    report.lines.append(_line_of_pixels(backbone, files))
    return report


def _passed(name: str, passed: bool, detail: str) -> CheckLine:
    return CheckLine(name, OK if passed else FAILED, detail)


def _line_of_files(files: WeightFiles) -> CheckLine:
    names = ", ".join(path.name for path in files.files)
    found = f"{names} ({human(files.n_bytes)}) in {files.folder}"
    return CheckLine("weights", OK, found if names else "none needed")


def _lines_of_card(backbone: TorchBackbone, files: WeightFiles) -> Iterator[CheckLine]:
    """Yield whether the weights are verified to be those of the card."""
    card = backbone.card
    if any(map(is_blob, files.files)):
        yield CheckLine("sha256", OK, "equal to the hub's")
    elif files.files:
        reason = "not in the hub cache, which has the expected sha256"
        yield CheckLine("sha256", SKIPPED, reason)
    depth = ", ".join(f"{key} {value}" for key, value in card.depth.items())
    depth = depth or "the card declares no depth"
    yield CheckLine("card", OK, f"the sizes match; {depth}")
    if card.checkpoint and backbone.verified:
        yield CheckLine("checkpoint", OK, card.checkpoint)
    elif card.checkpoint:
        facts = [files.origin]
        for name, sha256 in backbone.hashes.items():
            if name != TENSORS:
                facts.append(f"{name} sha256 {sha256}")
        reason = f"not verified to be {card.checkpoint}: {', '.join(facts)}"
        yield CheckLine("checkpoint", SKIPPED, reason)


def _line_of_loading_again(
    backbone: TorchBackbone, card: Card, placement: Placement
) -> CheckLine:
    """Return whether own code loads the same weights a second time.

    Features of weights that are drawn anew could not be extracted further, nor used elsewhere.
    """
    again = load_from(card, NO_WEIGHTS, placement)
    are_same = again.hashes == backbone.hashes
    detail = "a second load gives the same weights"
    if not are_same:
        detail = (
            "a second load gives other weights, such as random ones: load them from a file, or "
            "torch.manual_seed(0) before the module is made"
        )
    return _passed("same weights", are_same, detail)


def _lines_of_outputs(backbone: Backbone, tolerance: float) -> Iterator[CheckLine]:
    """Yield whether the arrays of three random clips are sound."""
    shape = (3, backbone.geometry.frames, 90, 120, 3)
    pictures = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    pixels = []
    for pictures_of_clip in pictures:
        values = backbone.preprocess(pictures_of_clip)
        # In their own type, as in an extraction: levels are uint8.
        is_array = isinstance(values, np.ndarray)
        pixels.append(values if is_array else values.cpu().numpy())
    clips = np.stack(pixels)
    # An array of another shape than the card's is an error of `forward`.
    first = as_arrays(backbone.forward(clips[:2]))
    shapes = [f"{name} {list(values.shape[1:])}" for name, values in first.items()]
    yield CheckLine("shapes", OK, ", ".join(shapes))
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
        difference = float(np.abs(values[:1] - alone[name]).max())
        worst = max(worst, difference / largest)
    yield _passed(
        "batch invariance", worst <= tolerance, f"{worst:.1e} of {tolerance:.0e}"
    )


def _line_of_pixels(backbone: Backbone, files: WeightFiles) -> CheckLine:
    """Return how our pixels compare with those of the processor beside the weights."""
    name = "own processor"
    settings = files.json_file("preprocessor_config.json") if files.files else None
    if settings is None or not isinstance(backbone, TorchBackbone):
        reason = "no preprocessor_config.json beside the weights"
        return CheckLine(name, SKIPPED, reason)
    kind = settings.get("image_processor_type") or settings.get(
        "feature_extractor_type"
    )
    # Those that resize with torchvision alone differ by version, which is why pixels are our own.
    plain_kind = re.sub("(ImageProcessor|FeatureExtractor)(Fast)?$", "", str(kind))
    if plain_kind not in _KINDS:
        return CheckLine(name, SKIPPED, f"{kind} has no form without torchvision")
    pictures = _test_pictures()
    auto = library("models.auto.image_processing_auto").AutoImageProcessor
    with silenced():
        processor = auto.from_pretrained(
            files.folder, use_fast=False, local_files_only=True
        )
        returned = processor(list(pictures), return_tensors="np")["pixel_values"]
    theirs = np.asarray(returned)
    theirs = theirs.reshape(-1, *theirs.shape[-3:]).astype(np.float32)
    size = list(backbone.geometry.frame_shape)
    if list(theirs.shape[-2:]) != size:
        got = list(theirs.shape[-2:])
        return CheckLine(name, FAILED, f"expected {size}, its processor gives {got}")
    return _compare_pixels(name, backbone.pixels, pictures, theirs)


def _test_pictures() -> npt.NDArray[np.uint8]:
    """Return two pictures of ramps and squares."""
    t, y, x, c = np.ogrid[0:2, 0:270, 0:480, 0:3]
    value = (x * (2 + c) + y * (4 - c)) // 3 + ((x // 24 + y // 24) % 2) * 80 + t * 30
    return np.asarray(value % 256, dtype=np.uint8)


def _compare_pixels(
    name: str, preprocessor: Preprocessor, pictures: Any, theirs: npt.NDArray[Any]
) -> CheckLine:
    """Return whether our pixels are those of a processor, or differ as the preset declares."""
    ours = preprocessor(pictures).numpy()
    if np.array_equal(ours, theirs):
        return CheckLine(name, OK, "the same bits")
    difference = np.abs(ours - theirs)
    preset = preprocessor.preset
    std = np.array(preset.std)[None, :, None, None]
    scale = 127.5 if preset.rescale == "1/127.5-1" else 255.0
    levels = float((difference * std).max() * scale)
    if levels <= 1.01:
        return CheckLine(name, OK, f"at most {levels:.2f} grey levels")
    detail = f"pixels differ by up to {float(difference.max()):.2f}"
    if preset.reproduces in ("", HUB):
        return CheckLine(name, FAILED, detail)
    how = HOW_PIXELS_ARE_MADE[preset.reproduces]
    return CheckLine(name, DIFFERS, f"{detail}: the card makes them {how}")
