"""`obygaze backbones`: list, show, check and run the video and image models."""

import io
import os
from pathlib import Path
from typing import Any

import click

from obygaze_features.backbones.base import Card
from obygaze_features.backbones.cards import find_card, find_cards
from obygaze_features.backbones.hub import NO_WEIGHTS, find_weights, is_cached
from obygaze_features.core.commands import (
    LazyGroup,
    Session,
    attention_option,
    dtype_option,
    force_option,
    option_group,
)
from obygaze_features.core.console import human, table
from obygaze_features.core.errors import Corrupt, FixInput, NotFound
from obygaze_features.core.files import require_file, write_new
from obygaze_features.core.metadata import render

_NPY = "write it with numpy.save(PATH, array)"

name_argument = click.argument("name")
path_type = click.Path(path_type=Path)
placement_options = option_group(
    "Computation",
    click.option(
        "--weights",
        type=path_type,
        help="A file or folder of weights, instead of the card's own checkpoint.",
    ),
    click.option("--device", default="cpu", help="cpu, cuda, or cuda:1."),
    dtype_option,
    attention_option,
)


@click.group(cls=LazyGroup)
def backbones() -> None:
    """List and check the video and image models."""


@backbones.command()
@click.argument("pattern", default="*")
def ls(session: Session, pattern: str) -> None:
    """List the backbones, their frames, levels and cost.

    Those whose names match PATTERN, in the package and in the workspace.

    Examples:
        obygaze backbones ls
        obygaze backbones ls 'xclip-*'
        obygaze backbones ls --json
    """
    found = find_cards(pattern, session.workspace)
    for problem in found.problems:
        session.console.warn(f"{problem.where}: {problem.what}")
    if not found.cards and not found.problems:
        raise NotFound(f"no backbone matches {pattern!r}", hint="obygaze backbones ls")
    headers = ["name", "class", "T", "size", "GFLOP", "licence", "download", "weights"]
    rows = [_row(card) for card in found.cards]
    document = {"backbones": [_summary(card) for card in found.cards]}
    session.console.show(document, table([*headers, "levels of a clip"], rows))


def _weights_state(card: Card) -> str:
    if not card.family.needs_weights:
        return "own code" if card.code else "none needed"
    if not card.checkpoint:
        return "needs a file"
    return "cached" if is_cached(card) else "not cached"


def _row(card: Card) -> list[Any]:
    g = card.geometry
    return [
        card.name,
        card.family.class_name,
        g.frames,
        g.size or "any",
        f"{card.gflop:.0f}" if card.gflop else "-",
        card.licence.split(" (")[0],
        _download(card),
        _weights_state(card),
        " ".join(
            f"{n}[{'x'.join(map(str, lv.shape))}]" for n, lv in card.levels.items()
        ),
    ]


def _download(card: Card) -> str:
    """Return the size of the download of a card's weights, '-' where there is none."""
    size = f"{card.download_mb / 1000:.1f} GB" if card.download_mb else "-"
    return f"{size}, gated" if card.gated else size


def _summary(card: Card) -> dict[str, Any]:
    return {
        **card.to_json(),
        "levels": {
            name: {
                "dims": list(level.dims),
                "shape": list(level.shape),
                "dtype": level.dtype,
            }
            for name, level in card.levels.items()
        },
        "sources": dict(card.sources),
        "class": card.family.class_name,
        "card_sha256": card.sha256,
        "card_file": card.origin,
        "weights": _weights_state(card),
        "download_mb": card.download_mb,
        "gated": card.gated,
    }


@backbones.command()
@name_argument
def show(session: Session, name: str) -> None:
    """Show all settings of a card.

    NAME@PRESET selects one of its presets.

    Examples:
        obygaze backbones show vivit-b16x2-k400
        obygaze backbones show xclip-b16-k600-zs@paper-2024 --json
    """
    from obygaze_features.backbones.check import preset_note

    card = find_card(name, session.workspace)
    note = preset_note(card)
    document = {**_summary(card), "preset": card.preset, "note": note}
    session.console.show(document, f"{_card_text(card)}\n{note}".rstrip())


def _card_text(card: Card) -> str:
    rows = [
        [
            level.name,
            " x ".join(map(str, level.shape)),
            level.dtype,
            level.n_bytes,
            level.source,
        ]
        for level in card.levels.values()
    ]
    presets = {}
    for name, preset in card.presets.items():
        settings = preset.to_json().items()
        presets[name] = ", ".join(f"{key} {value}" for key, value in settings if value)
    facts: dict[str, Any] = {
        "weights": _weights_state(card),
        "download": _download(card),
        "table": table(["level", "shape", "kept as", "bytes a clip", "from"], rows),
        "presets": presets,
    }
    return render("backbone-card.txt", card=card, **facts).rstrip("\n")


@backbones.command()
@name_argument
@placement_options
def check(
    session: Session,
    name: str,
    weights: Path | None,
    attention: str | None,
    **placement: str,
) -> None:
    """Check the weights, the outputs and the pixels of a backbone.

    The checks: every tensor is from the files; the shapes are those of the card; numbers do not
    depend on other clips of the batch; pixels are those of the checkpoint's own processor, or
    differ only as the card declares. The network is never used. The exit code is 1 without
    weights, and 4 if a check fails.

    Examples:
        obygaze backbones check descriptors
        obygaze backbones check xclip-lsmdc-b32 --weights pytorch_model.bin.4
        obygaze backbones check vivit-b16x2-k400 --json
    """
    # The hub's library reads this once, when it is imported.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from obygaze_features.backbones.check import check_backbone

    card = find_card(name, session.workspace)
    report = check_backbone(
        card, _own(weights, name), attn_implementation=attention, **placement
    )
    shown = {"failed": "FAILED", "skipped": "-"}
    rows = [[shown.get(x.state, x.state), x.name, x.found] for x in report.lines]
    session.console.show(report.to_json(), table(["", "check", "found"], rows))
    if report.no_weights is not None:
        raise report.no_weights
    if report.failed:
        names = ", ".join(line.name for line in report.failed)
        raise Corrupt(f"{card.label} failed: {names}", hint="see the lines above")


@backbones.command()
@click.argument("names", nargs=-1, required=True)
def fetch(session: Session, names: tuple[str, ...]) -> None:
    """Download the weights of backbones, for nodes without a network.

    They are stored in the cache of the Hugging Face hub (HF_HOME), which the nodes must see too.
    Only the files that are needed are downloaded, and none that are there.

    Examples:
        obygaze backbones fetch xclip-b16-k600-zs clip-b16
    """
    fetched = []
    lines = []
    for card in [find_card(name, session.workspace) for name in names]:
        files = (
            find_weights(card, download=True)
            if card.family.needs_weights
            else NO_WEIGHTS
        )
        folder = str(files.folder) if files.files else None
        found = f"{human(files.n_bytes)} in {folder}" if folder else "no weights needed"
        lines.append(f"{card.name}: {found}")
        fetched.append({"name": card.name, "bytes": files.n_bytes, "folder": folder})
    session.console.show({"backbones": fetched}, "\n".join(lines))


@backbones.command()
@name_argument
@click.option(
    "--pixels",
    type=path_type,
    required=True,
    help="A .npy of normalised pixels [B, T, 3, S, S].",
)
@click.option(
    "--mask", type=path_type, help="A .npy [B, T]: 1 for frames, 0 for padding."
)
@click.option("-o", "out", type=path_type, required=True, help="The .npz to write.")
@placement_options
@force_option
def forward(
    session: Session,
    /,
    name: str,
    weights: Path | None,
    pixels: Path,
    mask: Path | None,
    out: Path,
    force: bool,
    attention: str | None,
    **placement: Any,
) -> None:
    """Run prepared pixels through a backbone.

    Every level of the backbone NAME is written, as float32.

    Examples:
        obygaze backbones forward xclip-lsmdc-b32 --weights pytorch_model.bin.4 \\
            --pixels pixels.npy --mask mask.npy -o levels.npz
    """
    import numpy as np

    from obygaze_features.backbones.base import check_pixels
    from obygaze_features.backbones.load import as_arrays, load_backbone

    clips = _array(pixels, "f")
    real = _array(mask, "fiub") if mask else None
    card = find_card(name, session.workspace)
    backbone = load_backbone(
        card, _own(weights, name), attn_implementation=attention, **placement
    )
    check_pixels(clips, backbone.geometry, backbone.card.label)
    computed = []
    for row in range(len(clips)):
        clip = np.array(clips[row : row + 1], dtype=np.float32)
        real_frames = None if real is None else real[row : row + 1]
        computed.append(as_arrays(backbone.forward(clip, real_frames)))
    levels = {}
    for level in computed[0]:
        levels[level] = np.concatenate([arrays[level] for arrays in computed])
    buffer = io.BytesIO()
    np.savez(buffer, **levels)  # type: ignore[arg-type]
    write_new(out, buffer.getvalue(), force=force)
    shapes = {level: list(values.shape) for level, values in levels.items()}
    broken = [
        level for level, values in levels.items() if not np.isfinite(values).all()
    ]
    if broken:
        session.console.warn(f"not every number is finite: {', '.join(broken)}")
    document = {"file": str(out), "levels": shapes, "recipe": backbone.recipe()}
    session.console.show(
        document, f"{table(['level', 'shape'], shapes.items())}\n{out}"
    )


def _own(weights: Path | None, name: str) -> Path | None:
    """Return the path of weights, which may be given as NAME=PATH, as `extract run` takes it."""
    return weights and Path(str(weights).removeprefix(f"{name}="))


def _array(path: Path, kinds: str) -> Any:
    """Return the array of a .npy file; `kinds` are the allowed kinds of its dtype."""
    import numpy as np

    require_file(path)
    try:
        found = np.load(path, allow_pickle=False, mmap_mode="r")
    except (ValueError, EOFError, OSError):
        raise FixInput(
            "not a .npy file of numbers", where=str(path), hint=_NPY
        ) from None
    if not isinstance(found, np.ndarray) or found.dtype.kind not in kinds:
        kind = getattr(found, "dtype", type(found).__name__)
        expected = (
            "floating point numbers, already normalised" if kinds == "f" else "numbers"
        )
        raise FixInput(
            f"expected a .npy of {expected}, got {kind}", where=str(path), hint=_NPY
        )
    return found
