"""`obygaze models`: saved models, looked at, checked, asked and shared."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from obygaze_features.core.commands import (
    ExampleCommand,
    LazyGroup,
    Session,
    force_option,
    json_option,
    pass_session,
)
from obygaze_features.core.console import human, table
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.files import write_new

if TYPE_CHECKING:
    from obygaze_models.zoo.predicting import Predicted

_HERE = "obygaze_models.zoo.commands"
COMMANDS = {
    "ls": (f"{_HERE}:ls", "List the models of the workspace."),
    "show": (f"{_HERE}:show", "Show what a model is and how well it does."),
    "verify": (f"{_HERE}:verify", "Check that a model is whole."),
    "predict": (f"{_HERE}:predict_", "Ask a model about the clips of a store."),
    "push": (f"{_HERE}:push", "Send a model to a folder, a bucket or the hub."),
    "pull": (f"{_HERE}:pull", "Fetch a model and check it."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def models() -> None:
    """Inspect, verify, use and share saved models."""


def model_folder(session: Session, name: str) -> Path:
    """The folder of a model, by its name in the workspace or by its path."""
    return Path(name) if "/" in name else session.workspace.folder("models") / name


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze models ls
    obygaze models ls --json
    """,
)
@json_option
@pass_session
def ls(session: Session, as_json: bool) -> None:
    """List the models of the workspace."""
    from obygaze_models.zoo.saving import MODEL_FILE, read_document

    rows, broken = [], []
    for path in sorted(session.workspace.folder("models").glob(f"*/{MODEL_FILE}")):
        try:
            rows.append(_summary(path.parent.name, read_document(path.parent)))
        except ObygazeError as error:
            broken.append(path.parent.name)
            session.console.warn(f"{path.parent.name}: {error.what}")
    if as_json:
        session.console.json({"models": rows, "broken": broken})
    elif rows:
        session.console.result(table(list(rows[0]), [list(row.values()) for row in rows]))
    else:
        session.console.note("no models here yet; obygaze train --help")


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze models show films-pcbm
    obygaze models show models/films-pcbm --json
    """,
)
@click.argument("name")
@json_option
@pass_session
def show(session: Session, name: str, as_json: bool) -> None:
    """Show what a model is and how well it does."""
    from obygaze_models.zoo.card import card_text
    from obygaze_models.zoo.saving import load_model, read_document

    folder = model_folder(session, name)
    model = load_model(folder)
    if as_json:
        session.console.json(read_document(folder))
    else:
        body = card_text(model.info, model.clips).split("---\n", 2)[-1].strip()
        session.console.result(body)


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze models verify films-pcbm
    obygaze models verify films-pcbm films-mlp --json
    """,
)
@click.argument("names", nargs=-1, required=True)
@json_option
@pass_session
def verify(session: Session, names: tuple[str, ...], as_json: bool) -> None:
    """Check that a model is whole.

    Hashes, sizes, and whether the arrays make the estimator that is described. Nothing that was
    saved is ever run.
    """
    from obygaze_models.zoo.saving import load_model

    found = [load_model(model_folder(session, name)).info for name in names]
    if as_json:
        session.console.json({"whole": [info.name for info in found]})
    for info in found:
        if not as_json:
            session.console.result(f"{info.name}: whole, a {info.kind} for {info.task}")


@click.command(
    "predict",
    cls=ExampleCommand,
    examples="""
    obygaze models predict films-pcbm films.descriptors > predictions.csv
    obygaze models predict films-pcbm films.descriptors --clips tt1-001,tt1-002 --json
    obygaze models predict films-pcbm films.descriptors --in-sample -o explained.csv
    """,
)
@click.argument("name")
@click.argument("store")
@click.option("--clips", help="Only these clips, joined by commas.")
@click.option(
    "--in-sample",
    is_flag=True,
    help="Score training clips with the model itself; such scores are not predictions.",
)
@click.option("-o", "out", type=click.Path(path_type=Path), help="Write the CSV here.")
@force_option
@json_option
@pass_session
def predict_(
    session: Session,
    /,
    name: str,
    store: str,
    clips: str | None,
    in_sample: bool,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Ask a model about the clips of a store.

    One row a clip: the decision, the probability of each class and, of a bottleneck, the margin
    of each concept and what it adds. A store of other features is refused (exit code 5).

    The column `basis` says what a score is. unseen: no clip of the film was trained on. film-seen:
    other clips of the film were. out-of-fold: the clip was trained on, and the score is from the
    model's evaluation, by fits that were not trained on it; margins are not known then.
    in-sample: the clip was trained on, and the model itself scores it, with --in-sample only.
    """
    from obygaze_features.store import open_store
    from obygaze_models.zoo.predicting import predict
    from obygaze_models.zoo.saving import load_model

    model = load_model(model_folder(session, name))
    wanted = clips.split(",") if clips else None
    opened = open_store(session.workspace.store(store))
    found = predict(model, opened, wanted, in_sample=in_sample)
    _tell(session, found)
    if out is not None:
        write_new(out, found.to_csv().encode("utf-8"), force=force)
        session.console.note(f"wrote {out}")
    if as_json:
        session.console.json(_as_json(found))
    elif out is None:
        session.console.result(found.to_csv().rstrip("\n"))


def _tell(session: Session, found: Predicted) -> None:
    """Say on stderr which clips have no row, and how many rows have which basis."""
    for clip, why in found.absent.items():
        session.console.note(f"{clip}: {why}")
    if found.refused:
        first, why = next(iter(found.refused.items()))
        n = len(found.refused)
        clips = first if n == 1 else f"{n} clips, the first is {first}"
        session.console.warn(f"no row for {clips}: {why}\n  Try: --in-sample")
    counts = Counter(found.basis)
    counted = ", ".join(f"{n} {basis}" for basis, n in counts.items())
    session.console.note(f"rows by basis: {counted}")
    if n := counts["in-sample"]:
        session.console.warn(
            f"the model was trained on {n} of these clips: their in-sample scores are not"
            " predictions, and no measure of how well it does"
        )


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze models push films-pcbm /shared/models/films-pcbm
    obygaze models push films-pcbm hf://lab/films-pcbm
    """,
)
@click.argument("name")
@click.argument("target")
@json_option
@pass_session
def push(session: Session, name: str, target: str, as_json: bool) -> None:
    """Send a model to a folder, a bucket or the hub."""
    from obygaze_models.zoo.sharing import push_model

    n_bytes = push_model(model_folder(session, name), target)
    if as_json:
        session.console.json({"model": name, "target": target, "bytes": n_bytes})
    else:
        session.console.result(f"{name} is at {target} ({human(n_bytes)})")


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze models pull /shared/models/films-pcbm
    obygaze models pull https://example.org/films-pcbm -o theirs
    """,
)
@click.argument("location")
@click.option("-o", "name", help="Its name here. [default: the last part of the location]")
@force_option
@json_option
@pass_session
def pull(session: Session, location: str, name: str | None, force: bool, as_json: bool) -> None:
    """Fetch a model and check it.

    It gets its name here only when every byte is the promised one.
    """
    from obygaze_models.zoo.sharing import pull_model

    folder = session.workspace.target("models", name or location.rstrip("/").rsplit("/", 1)[-1])
    model = pull_model(location, folder, force=force)
    if as_json:
        session.console.json({"model": folder.name, "path": str(folder), "kind": model.info.kind})
    else:
        session.console.result(f"{folder}: whole, a {model.info.kind} for {model.info.task}")


def _summary(name: str, document: dict[str, Any]) -> dict[str, Any]:
    features = document.get("features", {})
    ap = document.get("metrics", {}).get("ap", {}).get("value")
    return {
        "name": name,
        "kind": document.get("kind"),
        "task": document.get("task"),
        "backbone": features.get("backbone"),
        "level": features.get("level"),
        "clips": document.get("training", {}).get("n_clips"),
        "ap": ap,
    }


def _as_json(found: Predicted) -> dict[str, Any]:
    columns = found.columns()
    rows = [dict(zip(columns, row, strict=True)) for row in found.rows()]
    return {
        "classes": list(found.classes),
        "rows": rows,
        "absent": dict(found.absent),
        "refused": dict(found.refused),
    }
