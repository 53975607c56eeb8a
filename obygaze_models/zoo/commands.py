"""`obygaze models`: list, show, verify, predict with, and share saved models."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from obygaze_features.core.commands import (
    LazyGroup,
    Session,
    force_option,
    spreadsheet_option,
)
from obygaze_features.core.console import Console, human, table
from obygaze_features.core.errors import FixUsage, ObygazeError
from obygaze_features.core.files import write_new
from obygaze_features.core.workspace import last_part

if TYPE_CHECKING:
    from obygaze_features.manifest.model import Clip
    from obygaze_models.zoo.predicting import Predicted
    from obygaze_models.zoo.saving import SavedModel


@click.group(cls=LazyGroup)
def models() -> None:
    """Inspect, verify, use and share saved models."""


@models.command()
def ls(session: Session) -> None:
    """List the models of the workspace.

    Examples:
        obygaze models ls
        obygaze models ls --json
    """
    from obygaze_models.zoo.saving import MODEL_FILE, read_document

    rows = []
    broken = []
    for path in sorted(session.workspace.folder("models").glob(f"*/{MODEL_FILE}")):
        name = path.parent.name
        try:
            info = read_document(path.parent).info
        except ObygazeError as error:
            broken.append(name)
            session.console.warn(f"{name}: {error.what}")
            continue
        row = {"name": name, "kind": info.kind, "task": info.task}
        row |= {"backbone": info.features.backbone, "level": info.features.level}
        ap = info.metrics.get("ap", {}).get("value")
        rows.append({**row, "clips": info.training.n_clips, "ap": ap})
    if session.console.as_json:
        session.console.json({"models": rows, "broken": broken})
    elif rows:
        session.console.result(
            table(list(rows[0]), [list(row.values()) for row in rows])
        )
    else:
        session.console.note("the workspace has no models; obygaze train --help")


@models.command()
@click.argument("name")
def show(session: Session, name: str) -> None:
    """Show the card of a model: its facts and its metrics.

    Examples:
        obygaze models show films-pcbm
        obygaze models show models/films-pcbm --json
    """
    from obygaze_models.zoo.info import card_text
    from obygaze_models.zoo.saving import MODEL_FILE, load_model

    model = load_model(session.workspace.existing("models", name))
    document = json.loads((model.folder / MODEL_FILE).read_bytes())
    text = card_text(model.info, model.clips).split("---\n", 2)[-1].strip()
    session.console.show(document, text)


@models.command()
@click.argument("names", nargs=-1, required=True)
def verify(session: Session, names: tuple[str, ...]) -> None:
    """Check the files of a model.

    Sizes, checksums, and whether the arrays fit the estimator. No code of the model is run.

    Examples:
        obygaze models verify films-pcbm
        obygaze models verify films-pcbm films-mlp --json
    """
    from obygaze_models.zoo.saving import verify_model

    found = [verify_model(session.workspace.existing("models", name)) for name in names]
    unprotected = [model.info.name for model in found if not model.sha256]
    if session.console.as_json:
        whole = [model.info.name for model in found]
        session.console.json({"whole": whole, "without_checksum": unprotected})
        return
    for info in (model.info for model in found):
        session.console.result(f"{info.name}: valid, a {info.kind} for {info.task}")
    for name in unprotected:
        session.console.warn(
            f"{name}: model.json has no checksum, so changes of it are not found"
        )


@models.command("predict")
@click.argument("name")
@click.argument("store")
@click.option(
    "--clips", help="Clip ids to predict, separated by commas. [default: all]"
)
@click.option("--manifest", help="Predict the clips or segments of this manifest.")
@click.option(
    "--in-sample",
    is_flag=True,
    help="Score training clips with the model itself; such scores are not predictions.",
)
@click.option(
    "-o", "out", type=click.Path(path_type=Path), help="Write the CSV to this file."
)
@click.option(
    "--mediaeval",
    type=click.Path(path_type=Path),
    help="Write the scores as a run of MediaEval 2015, violence.",
)
@click.option(
    "--no-external-data",
    is_flag=True,
    help="--mediaeval: neither model nor backbone saw data from outside the task.",
)
@spreadsheet_option
@force_option
def predict_(
    session: Session,
    /,
    name: str,
    store: str,
    clips: str | None,
    manifest: str | None,
    in_sample: bool,
    out: Path | None,
    mediaeval: Path | None,
    no_external_data: bool,
    for_spreadsheets: bool,
    force: bool,
) -> None:
    """Predict the clips of a store with a model.

    One row per clip: the decision, the probability of each class and, for a bottleneck, the margin
    of each concept and its contribution. A store of other features is an error (exit code 5). A
    model of segments, trained on a store of windows, needs the manifest of the segments.

    The column `basis` is the kind of the score. unseen: the model was trained on no clip of the
    film. film-seen: it was trained on other clips of the film. out-of-fold: it was trained on the
    clip, and the score is from fits of its evaluation that were not; for a bottleneck, these have
    no margins. in-sample: it was trained on the clip, and the score is its own (only with
    --in-sample).

    Examples:
        obygaze models predict films-pcbm films.descriptors > predictions.csv
        obygaze models predict films-pcbm films.descriptors --clips tt1-001,tt1-002 --json
        obygaze models predict films-pcbm films.descriptors --in-sample -o explained.csv
        obygaze models predict violence liris-accede.xclip --mediaeval run1.txt
        obygaze models predict films-ridge whole.descriptors --manifest films
    """
    from obygaze_features.manifest import read_manifest
    from obygaze_features.store import open_store
    from obygaze_models.zoo.predicting import predict
    from obygaze_models.zoo.saving import load_model

    model = load_model(session.workspace.existing("models", name))
    opened = open_store(session.workspace.existing_store(store))
    if no_external_data and mediaeval is None:
        raise FixUsage("--no-external-data needs --mediaeval PATH")
    ids = None if clips is None else _listed_ids(clips)
    chosen: Iterable[str | Clip] | None = ids
    if manifest:
        listed = read_manifest(session.workspace.existing_manifest(manifest))
        chosen = listed if ids is None else [listed[clip] for clip in ids]
    found = predict(model, opened, chosen, in_sample=in_sample)
    _explain(session.console, found)
    predictions = found.to_csv(for_spreadsheets=for_spreadsheets)
    if out is not None:
        write_new(out, predictions.encode("utf-8"), force=force)
        session.console.note(f"wrote {out}")
    if mediaeval is not None:
        written = _write_run(
            model, found, mediaeval, external_data=not no_external_data, force=force
        )
        session.console.note(f"wrote {' and '.join(map(str, written))}")
    if session.console.as_json:
        session.console.json(found.to_json())
    elif out is None and mediaeval is None:
        session.console.result(predictions.rstrip("\n"))


def _listed_ids(text: str) -> list[str]:
    """Return the clip ids of --clips, without the blanks around them."""
    ids = [part.strip() for part in text.split(",")]
    ids = [clip for clip in ids if clip]
    if not ids:
        raise FixUsage(
            "--clips lists no clip", hint="ids with commas between, or omit --clips"
        )
    return ids


def _write_run(
    model: SavedModel, found: Predicted, path: Path, *, external_data: bool, force: bool
) -> tuple[Path, Path]:
    """Write the scores of the positive class as a run of MediaEval, as `audit mediaeval` reads."""
    from obygaze_models.zoo.mediaeval_file import official_name, write_run_file

    if len(model.info.classes) != 2:
        raise FixUsage(
            f"--mediaeval needs a model of two classes, {model.info.name} has"
            f" {len(model.info.classes)}",
            hint="a model of the task violence; docs/guide.md has the command that trains it",
        )
    names = map(official_name, found.clip_ids)
    return write_run_file(
        path,
        dict(zip(names, found.scores[:, -1].tolist(), strict=True)),
        external_data=external_data,
        tag=model.info.name,
        about={"model": model.info.kind, "backbone": model.info.features.backbone},
        force=force,
    )


def _explain(console: Console, found: Predicted) -> None:
    """Report on stderr which clips have no row, and how many rows have which basis."""
    for clip, reason in found.absent.items():
        console.note(f"{clip}: {reason}")
    if found.refused:
        first, reason = next(iter(found.refused.items()))
        n = len(found.refused)
        clips = first if n == 1 else f"{n} clips, the first is {first}"
        console.warn(f"no row for {clips}: {reason}", hint="--in-sample")
    counts = Counter(found.basis)
    console.note(
        f"rows by basis: {', '.join(f'{n} {basis}' for basis, n in counts.items())}"
    )
    n_in_sample = counts["in-sample"]
    if n_in_sample:
        console.warn(
            f"the model was trained on {n_in_sample} of these clips: their in-sample scores are not"
            " predictions and cannot be used to evaluate the model"
        )


@models.command()
@click.argument("name")
@click.argument("target")
@force_option
def push(session: Session, name: str, target: str, force: bool) -> None:
    """Copy a model to a folder, a bucket or the hub.

    Another model that is there is replaced only with --force.

    Examples:
        obygaze models push films-pcbm /shared/models/films-pcbm
        obygaze models push films-pcbm hf://lab/films-pcbm
    """
    from obygaze_models.zoo.saving import push_model

    n_bytes = push_model(
        session.workspace.existing("models", name), target, force=force
    )
    session.console.show(
        {"model": name, "target": target, "bytes": n_bytes},
        f"{name} is at {target} ({human(n_bytes)})",
    )


@models.command()
@click.argument("location")
@click.option(
    "-o", "name", help="Name of the copy. [default: the last part of LOCATION]"
)
@force_option
def pull(session: Session, location: str, name: str | None, force: bool) -> None:
    """Copy a model into the workspace and check it.

    The model appears only if the sizes and checksums of all its files are correct.

    Examples:
        obygaze models pull /shared/models/films-pcbm
        obygaze models pull https://example.org/films-pcbm -o theirs
    """
    from obygaze_models.zoo.saving import pull_model

    new_name = last_part(location) if name is None else name
    folder = session.workspace.target("models", new_name)
    model = pull_model(location, folder, force=force)
    session.console.show(
        {"model": folder.name, "path": str(folder), "kind": model.info.kind},
        f"{folder}: valid, a {model.info.kind} for {model.info.task}",
    )
