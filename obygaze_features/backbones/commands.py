"""`obygaze backbones`: what there is, whether it is whole, and what it answers to given pixels."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import click
import numpy as np

from obygaze_features.backbones.cards import Card
from obygaze_features.backbones.families import FAMILIES
from obygaze_features.backbones.hub import is_cached
from obygaze_features.backbones.presets import preset_note
from obygaze_features.backbones.registry import card_names, find_card, find_cards
from obygaze_features.core.commands import (
    ExampleCommand,
    LazyGroup,
    Session,
    force_option,
    json_option,
    pass_session,
)
from obygaze_features.core.completion import completing
from obygaze_features.core.console import table
from obygaze_features.core.errors import Corrupt, FixInput, NotFound, ObygazeError
from obygaze_features.core.files import write_new

_MAPPED_FROM = 1 << 26
_HERE = "obygaze_features.backbones.commands"
COMMANDS = {
    "ls": (f"{_HERE}:ls", "List the backbones, their frames, levels and cost."),
    "show": (f"{_HERE}:show", "Show everything a card says."),
    "check": (f"{_HERE}:check", "Check what can be checked: weights, shapes, isolation."),
    "forward": (f"{_HERE}:forward", "Run prepared pixels through a backbone."),
}

device_option = click.option(
    "--device", default="cpu", show_default=True, help="cpu, cuda, or cuda:1."
)
dtype_option = click.option(
    "--dtype",
    type=click.Choice(["float32", "bfloat16", "float16"]),
    default="float32",
    show_default=True,
    help="Compute in this precision.",
)
attention_option = click.option(
    "--attention", type=click.Choice(["sdpa", "eager"]), help="Instead of the preset's own."
)
weights_option = click.option(
    "--weights",
    type=click.Path(path_type=Path),
    help="A file or folder of weights, instead of the card's own checkpoint.",
)


@click.group(cls=LazyGroup, table=COMMANDS)
def backbones() -> None:
    """List and check the video and image models."""


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze backbones ls
    obygaze backbones ls 'xclip-*'
    obygaze backbones ls --json
    """,
)
@click.argument("pattern", default="*")
@json_option
@pass_session
def ls(session: Session, pattern: str, as_json: bool) -> None:
    """List the backbones, their frames, levels and cost.

    Those whose names match PATTERN, in the package and in the workspace.
    """
    found = find_cards(pattern, session.workspace)
    for problem in found.problems:
        session.console.warn(f"{problem.where}: {problem.what}")
    if not found.cards and not found.problems:
        raise NotFound(f"no backbone matches {pattern!r}", hint="obygaze backbones ls")
    if as_json:
        session.console.json([_summary(card) for card in found.cards])
        return
    headers = ["name", "class", "T", "size", "GFLOP", "licence", "weights", "levels of a clip"]
    session.console.result(table(headers, [_row(card) for card in found.cards]))


def _weights_state(card: Card) -> str:
    if card.family == "descriptors":
        return "none needed"
    if not card.checkpoint:
        return "local file"
    try:
        return "cached" if is_cached(card) else "not cached"
    except ObygazeError:
        return "incomplete"


def _class(card: Card) -> str:
    """The class that is loaded; LSMDC's checkpoints are mapped onto one of CLIP's."""
    own = {"lsmdc": "CLIPVisionModelWithProjection", "descriptors": "NumPy"}
    return own.get(card.family) or FAMILIES[card.family].model


def _row(card: Card) -> list[Any]:
    g, shapes = card.geometry, card.levels
    levels = " ".join(f"{n}[{'x'.join(map(str, lv.shape))}]" for n, lv in shapes.items())
    cost = f"{card.gflop:.0f}" if card.gflop else "-"
    licence = card.licence.split(" (")[0]
    size, weights = g.size or "any", _weights_state(card)
    return [card.name, _class(card), g.frames, size, cost, licence, weights, levels]


def _summary(card: Card) -> dict[str, Any]:
    levels = {
        name: {"dims": list(level.dims), "shape": list(level.shape), "dtype": level.dtype}
        for name, level in card.levels.items()
    }
    return {
        **card.as_dict(),
        "levels": levels,
        "sources": dict(card.sources),
        "class": _class(card),
        "card_sha256": card.sha256,
        "card_file": card.origin,
        "weights": _weights_state(card),
    }


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze backbones show vivit-b16x2-k400
    obygaze backbones show xclip-b16-k600-zs@paper-2024 --json
    """,
)
@click.argument("name", shell_complete=completing(card_names))
@json_option
@pass_session
def show(session: Session, name: str, as_json: bool) -> None:
    """Show everything a card says.

    NAME@PRESET shows how that preset feeds the backbone.
    """
    card = find_card(name, session.workspace)
    if as_json:
        shown = {**_summary(card), "preset": card.preset, "note": preset_note(card)}
        session.console.json(shown)
        return
    g, console = card.geometry, session.console
    console.result(f"{card.label}: {card.title}")
    facts = {
        "family": card.family,
        "class": _class(card),
        "checkpoint": f"{card.checkpoint}@{card.revision}" if card.checkpoint else "a local file",
        "weights": _weights_state(card),
        "licence": card.licence,
        "citation": card.citation,
        "input": f"{g.frames} frames of {f'{g.size} x {g.size}' if g.size else 'any size'}",
        "cost": f"{card.gflop:.0f} GFLOP a clip" if card.gflop else "not measured",
        "card": card.origin,
    }
    console.result("\n".join(f"  {key:<11}{value}" for key, value in facts.items()))
    rows = [
        [level.name, " x ".join(map(str, level.shape)), level.dtype, level.n_bytes, level.source]
        for level in card.levels.values()
    ]
    console.result(table(["level", "shape", "kept as", "bytes a clip", "from"], rows))
    for preset_name, preset in card.presets.items():
        told = ", ".join(f"{key} {value}" for key, value in preset.as_dict().items() if value)
        mark = "*" if preset_name == card.preset else " "
        console.result(f"{mark} preset {preset_name}: {told}")
    if preset_note(card):
        console.result(preset_note(card))


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze backbones check descriptors
    obygaze backbones check xclip-lsmdc-b32 --weights pytorch_model.bin.4
    obygaze backbones check vivit-b16x2-k400 --json
    """,
)
@click.argument("name", shell_complete=completing(card_names))
@weights_option
@device_option
@dtype_option
@attention_option
@json_option
@pass_session
def check(
    session: Session,
    name: str,
    weights: Path | None,
    device: str,
    dtype: str,
    attention: str | None,
    as_json: bool,
) -> None:
    """Check what can be checked: weights, shapes, isolation.

    Also that numbers do not depend on the batch, and that pixels are prepared as the checkpoint's
    own processor does, or differ only where the card says so. Never uses the network. Ends with 1
    where there are no weights, with 4 where a check failed.
    """
    # Before anything imports the hub's library, which reads this once.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from obygaze_features.backbones.check import check_backbone

    card = find_card(name, session.workspace)
    report = check_backbone(
        card, weights, device=device, dtype=dtype, attn_implementation=attention
    )
    if as_json:
        session.console.json(report.as_dict())
    else:
        rows = [[line.state, line.name, line.told] for line in report.lines]
        session.console.result(table(["", "check", "found"], rows))
    if report.no_weights is not None:
        raise report.no_weights
    if report.failed:
        names = ", ".join(line.name for line in report.failed)
        raise Corrupt(f"{card.label} failed: {names}", hint="see the lines above")


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze backbones forward xclip-lsmdc-b32 --weights pytorch_model.bin.4 \\
        --pixels pixels.npy --mask mask.npy -o levels.npz
    """,
)
@click.argument("name", shell_complete=completing(card_names))
@weights_option
@click.option(
    "--pixels",
    "pixels_file",
    type=click.Path(path_type=Path),
    required=True,
    help="A .npy of normalised pixels [B, T, 3, S, S].",
)
@click.option(
    "--mask", "mask_file", type=click.Path(path_type=Path), help="A .npy [B, T]: 1 real, 0 padding."
)
@click.option(
    "-o", "out", type=click.Path(path_type=Path), required=True, help="The .npz to write."
)
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="Clips computed at once.",
)
@device_option
@dtype_option
@attention_option
@force_option
@json_option
@pass_session
def forward(
    session: Session,
    name: str,
    weights: Path | None,
    pixels_file: Path,
    mask_file: Path | None,
    out: Path,
    batch: int,
    device: str,
    dtype: str,
    attention: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Run prepared pixels through a backbone.

    Every level of the backbone NAME is written, as float32.
    """
    from obygaze_features.backbones.load import load_backbone
    from obygaze_features.backbones.run import forward_in_batches

    pixels = _array(pixels_file, "f")
    mask = _array(mask_file, "fiub") if mask_file else None
    card = find_card(name, session.workspace)
    backbone = load_backbone(
        card, weights, device=device, dtype=dtype, attn_implementation=attention
    )
    levels = forward_in_batches(backbone, pixels, mask, batch)
    buffer = io.BytesIO()
    np.savez(buffer, **levels)  # type: ignore[arg-type]
    # A file that holds nothing is a name that was kept free, not something to lose.
    empty = out.is_file() and not out.stat().st_size
    write_new(out, buffer.getvalue(), force=force or empty)
    shapes = {level: list(values.shape) for level, values in levels.items()}
    broken = [level for level, values in levels.items() if not np.isfinite(values).all()]
    if broken:
        session.console.warn(f"not every number is finite: {', '.join(broken)}")
    if as_json:
        session.console.json({"file": str(out), "levels": shapes, "recipe": backbone.recipe()})
        return
    session.console.result(table(["level", "shape"], shapes.items()))
    session.console.note(f"written to {out}")


def _array(path: Path, kinds: str) -> Any:
    if not path.is_file():
        raise NotFound("no such file", where=str(path), hint="a .npy written by numpy.save")
    try:
        large = path.stat().st_size > _MAPPED_FROM
        found = np.load(path, allow_pickle=False, mmap_mode="r" if large else None)
    except (ValueError, EOFError, OSError) as error:
        raise FixInput(f"not a .npy of numbers: {error}", where=str(path)) from None
    if not isinstance(found, np.ndarray) or found.dtype.kind not in kinds:
        kind = getattr(found, "dtype", type(found).__name__)
        wanted = "floating point numbers, already normalised" if kinds == "f" else "numbers"
        raise FixInput(f"not a .npy of {wanted}, but of {kind}", where=str(path))
    return found
