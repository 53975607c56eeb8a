"""`obygaze bench`: measure this machine with the user's own films, backbones and stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from obygaze_features.core.commands import (
    LazyGroup,
    Session,
    attention_option,
    dtype_option,
)

rounds_option = click.option(
    "--rounds", type=click.IntRange(1), default=3, help="Runs of each row."
)


@click.group(cls=LazyGroup)
def bench() -> None:
    """Measure this machine on your own films, backbones and stores."""


@bench.command()
@click.argument("videos", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--count", type=click.IntRange(1), default=32, help="Frames of a clip.")
@rounds_option
def decode(session: Session, videos: tuple[Path, ...], count: int, rounds: int) -> None:
    """Measure how fast your videos are decoded.

    Each video is one clip. Its frames are decoded twice: spread evenly, and from key frames only.

    Examples:
        obygaze bench decode film.mkv
        obygaze bench decode films/*.mp4 --count 16 --json
    """
    from obygaze_features.extraction.bench import measure_decoding

    result = measure_decoding(videos, count=count, rounds=rounds)
    session.console.show(result.to_json(), result.to_text())


@bench.command()
@click.argument("name")
@click.option(
    "--weights",
    type=click.Path(path_type=Path),
    help="A file or folder of weights, instead of the card's own checkpoint.",
)
@click.option("--device", default="cpu", help="cpu, cuda, or cuda:1.")
@dtype_option
@attention_option
@click.option(
    *("--batch", "batches"),
    type=click.IntRange(1),
    multiple=True,
    default=(1, 4, 16),
    help="Clips computed at once; can be repeated.",
)
@rounds_option
def forward(session: Session, name: str, **options: Any) -> None:
    """Measure how many clips a second a backbone handles.

    The frames are random numbers. Decoding is not included; see `obygaze bench decode`.

    Examples:
        obygaze bench forward descriptors
        obygaze bench forward xclip-b16-k400 --device cuda --dtype bfloat16 --batch 8 --batch 32
        obygaze bench forward vivit-b16x2-k400 --weights vivit --json
    """
    from obygaze_features.extraction.bench import measure_forward

    result = measure_forward(name, **options, workspace=session.workspace)
    session.console.show(result.to_json(), result.to_text())


@bench.command()
@click.argument("store")
@click.option("--level", help="The level to read. [default: the first]")
@rounds_option
def read(session: Session, store: str, level: str | None, rounds: int) -> None:
    """Measure how fast a store is read.

    STORE is a name, a path or a URL. It reads all clips, one movie, a random tenth, and one clip.

    Examples:
        obygaze bench read films.vivit
        obygaze bench read https://example.org/stores/films.vivit --level pooled --json
    """
    from obygaze_features.extraction.bench import measure_reading

    result = measure_reading(session.workspace.existing_store(store), level, rounds=rounds)
    session.console.show(result.to_json(), result.to_text())
