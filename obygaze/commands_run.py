"""`obygaze run` and `obygaze train`: from stores and a manifest to a table, and to a model."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from obygaze import api
from obygaze_features.core.commands import (
    ExampleCommand,
    Session,
    force_option,
    json_option,
    pass_session,
)
from obygaze_features.core.completion import completing
from obygaze_features.core.errors import FixUsage
from obygaze_features.store import Store, open_store
from obygaze_models.protocols.kinds import trainable
from obygaze_models.protocols.reading import load_protocol, shipped
from obygaze_models.protocols.schema import Protocol


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze run --list
    obygaze run honest --manifest obygaze12 --store xclip=obygaze12-xclip
    obygaze run paper-table2 --manifest obygaze12 --store vivit=A --store xclip=B
    obygaze run paper-table2 --store xclip=B --set splits.quirk=text --set fit.seeds=5
    obygaze run my-protocol.toml --manifest films --store clip=S --json
    """,
)
@click.argument("protocol", default="honest", shell_complete=completing(lambda _: shipped()))
@click.option("--list", "listing", is_flag=True, help="List the protocols that come with obygaze.")
@click.option(
    "--store",
    "stores",
    multiple=True,
    metavar="NAME=STORE",
    help="Features, under the name that tables give them; repeatable.",
)
@click.option("--manifest", help="The clips. [default: the protocol's, or the only one there is]")
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a key of the protocol, as in splits.quirk=text; repeatable.",
)
@click.option("-o", "output", metavar="NAME", help="The name of the run. [default: made of both]")
@click.option(
    "--jobs", type=click.IntRange(0), default=0, help="Processes that train. [default: one a core]"
)
@force_option
@json_option
@pass_session
def run(
    session: Session,
    protocol: str,
    listing: bool,
    stores: tuple[str, ...],
    manifest: str | None,
    changes: tuple[str, ...],
    output: str | None,
    jobs: int,
    force: bool,
    as_json: bool,
) -> None:
    """Run an experiment: train and test every cell of a protocol.

    PROTOCOL is the name of one that comes with obygaze, or a TOML file.
    """
    if listing:
        _list(session, as_json)
        return
    from obygaze_models.protocols.runner.table import result_text

    done = api.run(
        protocol,
        open_stores(session, stores),
        manifest,
        changes=changes,
        output=output,
        force=force,
        n_jobs=jobs,
        progress=partial(session.console.progress, unit="fits"),
        workspace=session.workspace.root,
    )
    if as_json:
        session.console.json(done.as_json())
    else:
        session.console.result(result_text(done))


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze train ridge obygaze12-xclip obygaze12
    obygaze train pcbm-lr obygaze12-xclip obygaze12 --task HN_S -o my-bottleneck
    obygaze train mlp obygaze12-xclip obygaze12 --set model.hidden=[64] --set fit.seed=1
    obygaze train cav obygaze12-xclip obygaze12 --json
    """,
)
@click.argument("model", shell_complete=completing(lambda _: trainable()))
@click.argument("store")
@click.argument("manifest")
@click.option("--task", default="ENHN_S", show_default=True, help="The classes to distinguish.")
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a key of the honest protocol, or model.KEY of the model; repeatable.",
)
@click.option("-o", "output", metavar="NAME", help="The name of the run. [default: made of all]")
@click.option(
    "--jobs", type=click.IntRange(0), default=0, help="Processes that train. [default: one a core]"
)
@force_option
@json_option
@pass_session
def train(
    session: Session,
    model: str,
    store: str,
    manifest: str,
    task: str,
    changes: tuple[str, ...],
    output: str | None,
    jobs: int,
    force: bool,
    as_json: bool,
) -> None:
    """Train one model, evaluate it on unseen films, and save it.

    The metrics are those of the same recipe on films it did not see; the model that is kept then
    learns from all clips. MODEL is mlp, linear, ridge, svm, cav, pcbm-dt, pcbm-lr, pcbm-sparse,
    pcbm-h, scorecard or ordinal.
    """
    from obygaze_models.protocols.runner.table import result_text

    trained = api.train(
        model,
        open_stores(session, (store,)),
        manifest,
        task=task,
        changes=changes,
        output=output,
        force=force,
        n_jobs=jobs,
        progress=partial(session.console.progress, unit="fits"),
        workspace=session.workspace.root,
    )
    kept = trained.model.folder
    if as_json:
        session.console.json({**trained.run.as_json(), "model": str(kept)})
        return
    session.console.result(result_text(trained.run))
    session.console.result(f"model: {kept}")


def open_stores(session: Session, words: tuple[str, ...]) -> dict[str, Store]:
    """The stores of NAME=STORE words; a bare STORE is its own name."""
    found: dict[str, Store] = {}
    for word in words:
        name, equals, place = word.partition("=")
        name, place = (name, place) if equals else (Path(word).name.removesuffix(".zip"), word)
        if not name or not place:
            raise FixUsage(f"--store {word!r} is not of the form NAME=STORE")
        if name in found:
            raise FixUsage(f"two stores are called {name!r}", hint="--store NAME=STORE")
        found[name] = open_store(session.workspace.store(place))
    return found


def _list(session: Session, as_json: bool) -> None:
    protocols = {name: load_protocol(name) for name in shipped()}
    if as_json:
        session.console.json({name: found.as_json() for name, found in protocols.items()})
        return
    from obygaze_features.core.console import table

    rows = [
        (name, found.splits.kind, _models(found), found.report.title)
        for name, found in protocols.items()
    ]
    session.console.result(table(("protocol", "splits", "models", "what it is"), rows))


def _models(protocol: Protocol) -> str:
    return " ".join(protocol.model_names)
