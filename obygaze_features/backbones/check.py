"""Check a backbone on this machine: its weights and its outputs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from obygaze_features.backbones.backbone import (
    Backbone,
    TorchModel,
    as_arrays,
    load_from,
    of_pictures,
)
from obygaze_features.backbones.card import Card
from obygaze_features.backbones.cards import SCHEMA, find_card, find_cards
from obygaze_features.backbones.devices import check_device
from obygaze_features.backbones.geometry import Geometry
from obygaze_features.backbones.placement import (
    Placement,
)
from obygaze_features.backbones.pretrained import PretrainedFamily
from obygaze_features.backbones.processors import differences_of_input
from obygaze_features.backbones.sound import ClipSound, SoundBackbone
from obygaze_features.backbones.weight_files import (
    CONFIG,
    WeightFiles,
    is_blob,
    is_small_blob,
)
from obygaze_features.backbones.weights import (
    WrongWeights,
    find_weights,
)
from obygaze_features.core.console import human, table
from obygaze_features.core.errors import (
    Corrupt,
    FixInput,
    FixUsage,
    InstallExtra,
    NotFound,
    ObygazeError,
)
from obygaze_features.core.machine import cache_folder
from obygaze_features.core.made_ids import ascii_id
from obygaze_features.core.shell import shell_line
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.store.recipe import CONFIGURATION, TENSORS

# Largest difference, relative to the largest value, that another batch size may make.
TOLERANCE = 1e-5
OK = "ok"
FAILED = "failed"
SKIPPED = "skipped"


@dataclass(frozen=True)
class CheckLine:
    """One check: its name, its state (ok, failed or skipped), and its details."""

    name: str
    state: str
    detail: str


@dataclass
class CheckReport:
    """The checks of one backbone, in order.

    `new_card` is the text of a card for weights of other sizes than those of all cards, and `next`
    the command after it is saved.
    """

    label: str
    lines: list[CheckLine] = field(default_factory=list)
    no_weights: NotFound | None = None
    new_card: str = ""
    next: str = ""

    @property
    def failed(self) -> list[CheckLine]:
        """The checks that failed."""
        return [line for line in self.lines if line.state == FAILED]

    def __str__(self) -> str:
        shown = {FAILED: "FAILED", SKIPPED: "-"}
        rows = []
        for line in self.lines:
            rows.append([shown.get(line.state, line.state), line.name, line.detail])
        checks = table(["", "check", "found"], rows)
        if not self.new_card:
            return checks
        return f"{checks}\n\n{self.new_card}"

    @property
    def notes(self) -> list[str]:
        """Where the new card is to be saved, and the next command."""
        if not self.new_card:
            return []
        return [
            f"save the card above as backbones/{self.label}.toml, with title and licence, then:"
            f" {self.next}"
        ]

    def require_ok(self) -> None:
        """Raise an error if there are no weights, or if a check failed."""
        if self.no_weights is not None:
            raise self.no_weights
        if self.failed:
            names = ", ".join(line.name for line in self.failed)
            raise Corrupt(f"{self.label}: these checks failed: {names}")

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {
            "backbone": self.label,
            "ok": not self.failed and self.no_weights is None,
            "weights": self.no_weights is None,
            "checks": [vars(line) for line in self.lines],
            "card": self.new_card,
        }


def check_weights_folder(folder: Path, workspace: Workspace) -> CheckReport:
    """Return the report of all checks of a folder of weights, with the card that fits.

    If no card has the sizes of the weights, the report has a new card for them, like the card that
    differs least, and the checks are those of the new card.
    """
    cards, _ = find_cards(workspace)
    files: WeightFiles | None = None
    differences: dict[str, Sequence[str]] = {}
    likely: dict[str, tuple[Card, PretrainedFamily]] = {}
    types: set[str] = set()
    for card in cards:
        family = card.family
        if not isinstance(family, PretrainedFamily):
            continue
        types.update(family.known_types)
        files = files or find_weights(card, folder)
        if files.configuration.get("model_type") not in family.known_types:
            continue
        try:
            family.card_of_weights(card, files)
        except WrongWeights as error:
            differences[card.name] = error.details
            likely[card.name] = card, family
        else:
            return check_card(card, folder)
    if files is None or not likely:
        kind = files.configuration.get("model_type") if files else None
        raise FixInput(
            f"no backbone has checkpoints of the model type {kind!r}",
            where=str(folder),
            hint=f"use one of these types: {', '.join(sorted(types))}",
        )
    closest = min(likely, key=lambda name: len(differences[name]))
    card, family = likely[closest]
    name = ascii_id(folder.resolve().name)
    geometry = family.geometry_of_weights(card, files)
    text = _text_of_card(name, card, geometry)
    with TemporaryDirectory() as place:
        path = Path(place, f"{name}.toml")
        path.write_text(text, "utf-8")
        report = check_card(find_card(str(path), workspace), folder)
    reasons = "; ".join(map(str.strip, differences[closest]))
    found = f"no card has these sizes; the closest is {closest}: {reasons}"
    report.lines.insert(0, CheckLine("cards", SKIPPED, found))
    line = ["obygaze", "backbones", "check", name, "--weights", str(folder)]
    return replace(report, new_card=text, next=shell_line(line))


def _text_of_card(name: str, like: Card, geometry: Geometry) -> str:
    """Return the text of a card for weights of a geometry, like another card."""
    lines = [f'schema = "{SCHEMA}"', f'name = "{name}"', f'title = "{name}"']
    lines += [f'like = "{like.name}"', 'licence = "unknown"', 'citation = ""']
    tokens = [f"width = {geometry.width}", f"out = {geometry.out}"]
    if like.family.medium == "pictures":
        lines += [f"frames = {geometry.frames}", f"size = {geometry.size}"]
        tokens += [f"prefix = {geometry.prefix}", f"grid = {[*geometry.grid]}"]
    lines += ["", "[tokens]", *tokens]
    if geometry.depth is not None:
        depth = vars(geometry.depth)
        lines += ["", "[depth]"]
        lines += [f"{key} = {depth[key]}" for key in ("layers", "hidden", "heads")]
    return "\n".join(lines) + "\n"


def check_card(card: Card, weights: PathLike | None) -> CheckReport:
    """Return the report of all checks of a card and its weights; nothing is downloaded."""
    placement = Placement(attention=card.input.attention)
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
    names = ", ".join(path.name for path in files.files)
    found = f"{names} ({human(files.n_bytes)}) in {files.folder}"
    report.lines.append(CheckLine("weights", OK, found if names else "none needed"))
    try:
        backbone = load_from(card, files, placement)
    except (InstallExtra, FixUsage):
        raise
    except ObygazeError as error:
        name = "card" if isinstance(error, WrongWeights) else "complete"
        reasons = "; ".join([error.message, *map(str.strip, error.details)])
        report.lines.append(CheckLine(name, FAILED, reasons))
        return report
    source = "all tensors are from the files" if files.files else "loaded without files"
    size = card.input_size(backbone.geometry)
    report.lines.append(CheckLine("complete", OK, f"{source}; {size}"))
    if isinstance(backbone, TorchModel):
        report.lines += _lines_of_card(backbone, files)
    report.lines += _lines_of_outputs(backbone)
    return report


def _passed_line(name: str, passed: bool, detail: str) -> CheckLine:
    return CheckLine(name, OK if passed else FAILED, detail)


def _lines_of_card(backbone: TorchModel, files: WeightFiles) -> Iterator[CheckLine]:
    """Yield the checks of the weights: whether they are verified as the weights of the card."""
    card = backbone.card
    if any(map(is_blob, files.files)):
        yield CheckLine("sha256", OK, "equal to the hash on the hub")
    elif files.files:
        reason = "not compared: only files in the hub cache have an expected sha256"
        yield CheckLine("sha256", SKIPPED, reason)
    configuration = backbone.hashes.get(CONFIGURATION, "")
    if configuration in card.weights_sha256:
        yield CheckLine("configuration", OK, "listed by the card")
    elif configuration and is_small_blob(files.folder / CONFIG):
        yield CheckLine("configuration", OK, "equal to the hash on the hub")
    elif configuration:
        reason = (
            f"neither in the hub cache nor listed by the card: sha256 {configuration}"
        )
        yield CheckLine("configuration", SKIPPED, reason)
    depth = ", ".join(f"{key} {value}" for key, value in card.depth.items())
    depth = depth or "the card states no depth"
    yield CheckLine("card", OK, f"the sizes match; {depth}")
    if files.files:
        yield _line_of_input(card, backbone.geometry, files)
    if card.checkpoint and backbone.verified:
        yield CheckLine("checkpoint", OK, card.checkpoint)
    elif card.checkpoint:
        facts = [files.origin]
        for name, sha256 in backbone.hashes.items():
            if name not in (TENSORS, CONFIGURATION):
                facts.append(f"{name} sha256 {sha256}")
        reason = f"not verified as {card.checkpoint}: {', '.join(facts)}"
        yield CheckLine("checkpoint", SKIPPED, reason)


def _line_of_input(card: Card, geometry: Geometry, files: WeightFiles) -> CheckLine:
    """Return the check of the input: whether it is that of the checkpoint's processor.

    If no preset of the card has the input of the processor, `load_from` raises an error.
    """
    if not files.processors:
        reason = "not compared: no file of a processor is in the folder of the weights"
        return CheckLine("input", SKIPPED, reason)
    differences = [] if card.sound else differences_of_input(card, geometry, files)
    if differences:
        reason = (
            f"the preset {card.preset} makes other pixels than the checkpoint's processor:"
            f" {'; '.join(differences)}"
        )
        return CheckLine("input", SKIPPED, reason)
    names = ", ".join(dict.fromkeys(path.name for path, _ in files.processors))
    return CheckLine("input", OK, f"as in {names}")


def _lines_of_outputs(backbone: Backbone) -> Iterator[CheckLine]:
    """Yield the checks of the arrays that the backbone computes for three random clips."""
    forward, clips = _random_clips(backbone)
    # An array of another shape than the card's is an error of `forward`.
    first = as_arrays(forward([clips[0], clips[1]]))
    shapes = [f"{name} {list(values.shape[1:])}" for name, values in first.items()]
    yield CheckLine("shapes", OK, ", ".join(shapes))
    broken = [name for name, values in first.items() if not np.isfinite(values).all()]
    yield _passed_line(
        "finite", not broken, ", ".join(broken) or "all numbers are finite"
    )

    other_batch = as_arrays(forward([clips[0], clips[2]]))
    mixed = []
    for name, values in first.items():
        if not np.array_equal(values[0], other_batch[name][0], equal_nan=True):
            mixed.append(name)
    isolation = "other clips of the batch change no number"
    if mixed:
        isolation = f"other clips of the batch change {', '.join(mixed)}"
    yield _passed_line("clip isolation", not mixed, isolation)

    alone = as_arrays(forward([clips[0]]))
    differences = []
    for name, values in first.items():
        largest = np.abs(values[:1]).max() or 1.0
        differences.append(np.abs(values[:1] - alone[name]).max() / largest)
    # The maximum is NaN if one difference is NaN.
    worst = np.max(differences)
    yield _passed_line(
        "batch invariance",
        bool(worst <= TOLERANCE),
        f"largest difference {worst:.1e}, at most {TOLERANCE:.0e} allowed",
    )


def _random_clips(
    backbone: Backbone,
) -> tuple[Callable[[Sequence[Any]], dict[str, Any]], Sequence[Any]]:
    """Return the function that computes clips, and three random clips for it."""
    random = np.random.default_rng(0)
    if isinstance(backbone, SoundBackbone):
        n_before = backbone.view.n_before
        n_samples = n_before + round(1.5 * backbone.view.rate)
        noise = random.uniform(-0.5, 0.5, (3, n_samples)).astype(np.float32)
        return backbone.forward, [ClipSound(samples, n_before) for samples in noise]
    seeing = of_pictures(backbone, "this check is")
    shape = (3, backbone.geometry.frames, 90, 120, 3)
    pixels = []
    for pictures in random.integers(0, 256, shape, dtype=np.uint8):
        values = seeing.preprocess(pictures)
        # The pixels keep their type, as in an extraction: levels are uint8.
        is_array = isinstance(values, np.ndarray)
        pixels.append(values if is_array else values.cpu().numpy())
    return (lambda clips: seeing.forward(np.stack(clips))), pixels
