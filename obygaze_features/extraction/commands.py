"""`obygaze extract` with its small commands, and `obygaze manifest windows`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from obygaze_features.core.commands import (
    POSITIVE,
    LazyGroup,
    Session,
    command,
    force_option,
    option_group,
)
from obygaze_features.core.console import Console, count, table
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.machine import MAX_WORKERS, usable_cores

if TYPE_CHECKING:
    from obygaze_features.extraction.status import StoreStatus

_FILE = click.Path(dir_okay=False, path_type=Path)
# The failed clips that are listed without -v.
SHOWN = 20

_HERE = "obygaze_features.extraction"
COMMANDS = {
    "plan": (
        f"{_HERE}.commands_plan:plan",
        "Estimate the cost of a run, and what is missing.",
    ),
    "run": (
        f"{_HERE}.commands_run:run",
        "Extract what is missing; the same command resumes.",
    ),
    "text": (
        f"{_HERE}.commands:text",
        "Embed prompts in the space of a backbone's clips.",
    ),
    "captions": (f"{_HERE}.commands:captions", "Score captions with language models."),
    "status": (f"{_HERE}.commands:status", "Show the progress of stores."),
}

_cores: Any = {
    "type": click.IntRange(1, MAX_WORKERS),
    "default": usable_cores,
    "show_default": "cores",
}
workers_option = click.option(
    "--workers", **_cores, help="Processes that decode or read."
)


class ExtractGroup(LazyGroup):
    """The group of commands, with `retry` as the old name of `run --retry-failed`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that was asked for."""
        if args[:1] == ["retry"]:
            args = ["run", "--retry-failed", *args[1:]]
        return super().resolve_command(ctx, args)


@click.group(cls=ExtractGroup, table=COMMANDS)
def extract() -> None:
    """Extract features from videos, with several backbones in one pass."""


@command()
@click.argument("stores", nargs=-1, required=True)
def status(session: Session, stores: tuple[str, ...]) -> None:
    """Show the progress of stores.

    It also shows the seconds by stage and the reasons of failures. The status can be read during a
    run.

    Examples:
        obygaze extract status obygaze12.xclip-b16-k600-zs
        obygaze extract status stores/* --json
    """
    from obygaze_features.extraction.status import store_status

    states = [store_status(session.workspace.existing_store(name)) for name in stores]
    if session.console.as_json:
        session.console.json({"stores": [state.to_json() for state in states]})
    else:
        show_states(session.console, states)


def show_states(console: Console, states: Iterable[StoreStatus]) -> None:
    """Print the status of stores; of many failed clips, the first, or all with -v."""
    for state in states:
        to_go = state.seconds_to_go
        left = (
            ""
            if state.done or to_go is None
            else f", about {to_go:.0f} s to go for one worker"
        )
        console.result(
            f"{Path(state.store).name} ({state.backbone}): {state.blocks_done} of {state.blocks}"
            f" blocks{left}{', sealed' if state.sealed else ''}"
        )
        counts = [
            ("ok", state.ok),
            ("failed", state.failed),
            ("missing", state.missing),
        ]
        console.result(table(("clips", str(state.clips)), counts))
        if state.seconds:
            console.result(table(("stage", "seconds"), list(state.seconds.items())))
            console.result(state.bottleneck)
        if state.reasons:
            console.result(table(("failed at", "clips"), list(state.reasons.items())))
        n_shown = SHOWN if console.verbosity < 1 else state.failed
        for clip_id, why in list(state.failures.items())[:n_shown]:
            console.note(f"  {clip_id}: {why}")
        if state.failed > n_shown:
            more = state.failed - n_shown
            console.note(f"  and {more} more: obygaze -v extract status {state.store}")


@command()
@click.option(
    *("-b", "backbone"),
    required=True,
    metavar="NAME",
    help="A backbone with a text model.",
)
@click.option(
    "--prompts",
    required=True,
    metavar="SET",
    help="emotion, emotion-contrast, person, profession, or TOML.",
)
@click.option(
    "--store", metavar="STORE", help="Add them to a store that is not sealed."
)
@click.option(
    "-o", "out", type=_FILE, help="An npz file. [default: texts/BACKBONE.SET.npz]"
)
@click.option(
    "--weights", metavar="PATH", help="Weights and tokenizer. [default: the hub's]"
)
@force_option
def text(
    session: Session, /, backbone: str, prompts: str, store: str | None, **options: Any
) -> None:
    """Embed prompts in the space of a backbone's clips.

    The vectors are the output of the backbone's text model, not normalised, with the name of the
    embedding space. Those of X-CLIP are taken before its video prompts, so they are the same for
    every clip. Texts can be added to a store until it is sealed.

    Examples:
        obygaze extract text -b clip-b16 --prompts emotion --store obygaze12.clip-b16
        obygaze extract text -b xclip-b16-k600-zs --prompts my-prompts.toml -o texts.npz
        obygaze extract text -b clip-b16 --prompts person --weights folder --json
    """
    from obygaze_features.extraction.texts import embed_texts

    place = None if store is None else Path(session.workspace.existing_store(store))
    table, places = embed_texts(session.workspace, backbone, prompts, place, **options)
    n_texts, width = table.embeddings.shape
    names = list(dict.fromkeys(table.attribute))
    facts = {
        "texts": n_texts,
        "width": width,
        "attributes": names,
        "space_id": table.space_id,
    }
    text = f"{n_texts} texts of {width} numbers: {', '.join(names)}\nin {' and '.join(places)}"
    session.console.show({**facts, "written": places}, text)


@command()
@click.argument("table", type=_FILE)
@click.option(
    "--lm",
    required=True,
    metavar="MODEL",
    help="Causal language model: folder or name.",
)
@click.option(
    "--sim", required=True, metavar="MODEL", help="Sentence encoder: folder or name."
)
@click.option("-o", "out", type=_FILE, required=True, help="The table to write.")
@force_option
def captions(
    session: Session, /, table: Path, lm: str, sim: str, out: Path, force: bool
) -> None:
    """Score captions with language models.

    Adds the prior of each caption and its similarity to the visual word, which `obygaze audit
    gender-score` needs. TABLE has the columns caption and visual (the word for what is seen).
    Captions with [MASK] are scored with "man" and with "woman" in its place.

    Examples:
        obygaze extract captions captions.csv --sim sentence-transformers/all-mpnet-base-v2 \\
            --lm gpt2 -o filled.csv
        obygaze extract captions captions.csv --lm models/gpt2 --sim models/sbert -o filled.csv
    """
    from obygaze_features.backbones.text import LanguageModel, SentenceEncoder
    from obygaze_features.extraction.texts import score_captions

    if out.resolve() == table.resolve():
        raise FixUsage("-o must not be the input table")
    n_rows = score_captions(
        table, out, LanguageModel(lm), SentenceEncoder(sim), force=force
    )
    session.console.note(f"wrote {n_rows} captions to {out}")
    if session.console.as_json:
        session.console.json({"captions": n_rows, "written": str(out)})


@command()
@click.argument("films")
@click.option("-o", "name", required=True, help="Name of the manifest.")
@option_group(
    "Grid",
    click.option("--window", type=click.IntRange(1), help="Pictures in a window."),
    click.option(
        "--stride", type=click.IntRange(1), help="Pictures from window to window."
    ),
    click.option(
        "--fps", type=POSITIVE, help="Take pictures at this rate. [default: all]"
    ),
    click.option("--seconds", type=POSITIVE, help="Seconds of a window."),
    click.option("--every", type=POSITIVE, help="Seconds from window to window."),
)
@workers_option
@force_option
def windows(
    session: Session,
    /,
    films: str,
    name: str,
    workers: int,
    force: bool,
    **options: float | None,
) -> None:
    """Cut whole films into windows.

    FILMS is a folder of films, a CSV table with the columns movie_id and video, or a manifest whose
    clips are linked to films. Each film is read once. Give --window and --stride, with --fps or
    without, or --seconds and --every.

    Examples:
        obygaze manifest windows films/ -o films --window 16 --stride 16
        obygaze manifest windows films.csv -o every-second --seconds 2 --every 1
        obygaze manifest windows mobygaze -o slow --fps 2 --window 16 --stride 8
    """
    from obygaze_features.extraction.windows import make_windows
    from obygaze_features.manifest.io import manifest_sha256, write_manifest
    from obygaze_features.manifest.windows import Grid

    path = session.workspace.manifest(name)
    grid = Grid(**{key: value or 0 for key, value in options.items()}).check()  # type: ignore[arg-type]
    made = make_windows(
        films, grid, workspace=session.workspace, name=path.stem, workers=workers
    )
    write_manifest(made, path, force=force)
    facts = {"name": made.name, "path": str(path), "sha256": manifest_sha256(made)}
    counts = {"windows": len(made), "movies": len(made.movies), "grid": grid.to_json()}
    size = f"{count(len(made), 'window')} of {count(len(made.movies), 'film')}"
    session.console.show({**facts, **counts}, f"{path}: {size} ({grid})")
