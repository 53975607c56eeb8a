"""`obygaze run`, `train` and `report`: from stores to models and pages."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from obygaze import models
from obygaze_features.core.commands import (
    F,
    Session,
    command,
    force_option,
    named_values,
    option_group,
)
from obygaze_features.core.console import table
from obygaze_features.core.workspace import is_url, last_part

FORMATS = ("html", "md", "latex", "csv")


def run_options(changes: str) -> Callable[[F], F]:
    """Add the options that `run` and `train` share; `changes` is the help of --set."""
    name = "The name of the run. [default: from the inputs]"
    jobs: Any = {
        "show_default": False,
        "help": "Processes that train. [default: one a core]",
    }
    return option_group(
        "Options",
        click.option(
            "--set", "changes", multiple=True, metavar="KEY=VALUE", help=changes
        ),
        click.option("-o", "output", metavar="NAME", help=name),
        click.option("--jobs", "n_jobs", type=click.IntRange(0), default=0, **jobs),
        force_option,
    )


@command()
@click.argument("protocol", default="honest")
@click.option(
    "--list", "listing", is_flag=True, help="List the protocols that come with obygaze."
)
@click.option(
    "--store",
    "stores",
    multiple=True,
    metavar="NAME=STORE",
    help="A store, and its name in tables; repeatable.",
)
@click.option(
    "--manifest", help="The clips. [default: the protocol's, or the only one there is]"
)
@run_options("Change a key of the protocol, as in splits.scheme=none; repeatable.")
def run(
    session: Session,
    protocol: str,
    listing: bool,
    stores: tuple[str, ...],
    manifest: str | None,
    **options: Any,
) -> None:
    """Run an experiment: train and test every cell of a protocol.

    PROTOCOL is the name of one that comes with obygaze, or a TOML file.

    Examples:
        obygaze run --list
        obygaze run honest --manifest obygaze12 --store xclip=obygaze12-xclip
        obygaze run paper-table2 --manifest obygaze12 --store vivit=A --store xclip=B
        obygaze run paper-table2 --store xclip=B --set splits.scheme=none --set fit.seeds=5
        obygaze run my-protocol.toml --manifest films --store clip=S --json
    """
    if listing:
        _list(session)
        return
    from obygaze_models.protocols.runner.table import result_text

    done = models.run(
        protocol, store_names(stores), manifest, **options, **_place(session)
    )
    session.console.show(done.to_json(), result_text(done))


@command()
@click.argument("model")
@click.argument("store")
@click.argument("manifest")
@click.option("--task", default="ENHN_S", help="The classes to distinguish.")
@run_options(
    "Change a key of the honest protocol, or model.KEY of the model; repeatable."
)
def train(
    session: Session, model: str, store: str, manifest: str, **options: Any
) -> None:
    """Train one model, evaluate it on unseen films, and save it.

    The metrics are those of the same settings on unseen films; the saved model is then trained on
    all clips. MODEL is mlp, linear, ridge, svm, cav, pcbm-dt, pcbm-lr, pcbm-sparse,
    pcbm-h or ordinal.

    Examples:
        obygaze train ridge obygaze12-xclip obygaze12
        obygaze train pcbm-lr obygaze12-xclip obygaze12 --task HN_S -o my-bottleneck
        obygaze train mlp obygaze12-xclip obygaze12 --set model.hidden=[64] --set fit.seed=1
        obygaze train cav obygaze12-xclip obygaze12 --json
    """
    from obygaze_models.protocols.runner.table import result_text

    done, saved = models.train(
        model, store_names((store,)), manifest, **options, **_place(session)
    )
    document = {**done.to_json(), "model": str(saved.folder)}
    session.console.show(document, f"{result_text(done)}\nmodel: {saved.folder}")


@command()
@click.argument("runs", nargs=-1, required=True)
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice(FORMATS),
    help="Write only this format; repeatable. [default: all]",
)
@click.option(
    "-o",
    "output",
    type=click.Path(path_type=Path),
    help="File of the page. [default: report.html in the first run]",
)
@click.option("--maps", metavar="STORE", help="Draw the maps of the surest errors.")
def report(
    session: Session, runs: tuple[str, ...], formats: tuple[str, ...], **options: Any
) -> None:
    """Write the report of runs: a page, tables, figures.

    The page contains all its figures and loads nothing from the network. Tables are written as CSV,
    LaTeX and Markdown, figures as SVG and PNG, into the folder of each run.

    Examples:
        obygaze report honest-desc
        obygaze report runs/paper-table2 runs/paper-table4 -o paper.html
        obygaze report honest-desc --maps concept-maps
        obygaze report honest-desc --format latex --format csv
    """
    place = _place(session, "figures")
    written = models.report(*runs, formats=formats or FORMATS, **options, **place)
    session.console.show({"files": [str(path) for path in written]}, str(written[0]))
    if not session.console.as_json:
        session.console.note(f"and {len(written) - 1} tables and figures")


def _place(session: Session, unit: str = "steps") -> dict[str, Any]:
    """Return the progress bar and the workspace of a session, as the API takes them."""
    bar = partial(session.console.progress, unit=unit)
    return {"progress": bar, "workspace": session.workspace.root}


def store_names(words: Sequence[str]) -> dict[str, str]:
    """Return the stores of NAME=STORE words; a store without a name is named after its folder."""
    return named_values(map(_with_store_name, words), "--store")


def _with_store_name(word: str) -> str:
    """Return NAME=STORE for a word that may be the store alone; its place may have a `=` in it."""
    name, equals, _ = word.partition("=")
    if equals and not re.search(r"[/\\:?]", name):
        return word
    place = last_part(word if is_url(word) else str(Path(word).resolve()))
    return f"{place.removesuffix('.zip').replace('=', '-')}={word}"


def _list(session: Session) -> None:
    from obygaze_models.protocols.reading import load_protocol, protocol_names

    protocols = {name: load_protocol(name) for name in protocol_names()}
    rows = [
        (name, found.splits.kind, " ".join(found.model_names), found.report.title)
        for name, found in protocols.items()
    ]
    document = {name: found.to_json() for name, found in protocols.items()}
    session.console.show(
        document, table(("protocol", "splits", "models", "what it is"), rows)
    )
