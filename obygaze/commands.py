"""`obygaze run`, `train`, `report` and `explain`: from stores to models, pages and maps."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from obygaze import models
from obygaze_features.core.commands import (
    F,
    LazyGroup,
    Session,
    command,
    force_option,
    named_values,
    option_group,
)
from obygaze_features.core.console import table
from obygaze_features.core.files import canonical_json, sha256_bytes
from obygaze_features.core.workspace import is_url, last_part
from obygaze_features.manifest import read_manifest
from obygaze_features.store import open_store

FORMATS = ("html", "md", "latex", "csv")
output_option = click.option(
    "-o", "output", required=True, metavar="NAME", help="The new store."
)


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
@run_options("Change a key of the protocol, as in splits.quirk=text; repeatable.")
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
        obygaze run paper-table2 --store xclip=B --set splits.quirk=text --set fit.seeds=5
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
    from obygaze_models.protocols.reading import load_protocol, shipped

    protocols = {name: load_protocol(name) for name in shipped()}
    rows = [
        (name, found.splits.kind, " ".join(found.model_names), found.report.title)
        for name, found in protocols.items()
    ]
    document = {name: found.to_json() for name, found in protocols.items()}
    session.console.show(
        document, table(("protocol", "splits", "models", "what it is"), rows)
    )


@click.group(cls=LazyGroup)
def explain() -> None:
    """Show where in the picture and when in the clip a model finds a concept or a text."""


@explain.command("concepts")
@click.argument("store")
@click.argument("manifest")
@click.argument("model", default="cav")
@click.option("--task", default="ENHN_S", help="What a model other than cav learns.")
@click.option(
    "--set", "changes", multiple=True, metavar="KEY=VALUE", help="As for `train`."
)
@output_option
def concepts_(
    session: Session, store: str, manifest: str, output: str, **options: Any
) -> None:
    """Project concept vectors, or the direction of a model, on the stored tokens of each clip.

    The directions that are used for a film were found on other films. MODEL is cav (every concept),
    linear, ridge, svm, a bottleneck, whose concepts are shown, or attention: the weights that an
    attentive probe gives each token. Needs no film and no weights.

    Examples:
        obygaze explain concepts films.xclip-b16-k400 films -o concept-maps
        obygaze explain concepts films.clip-b16 films ridge --task EN_S -o ridge-maps
        obygaze explain concepts films.clip-b16 films attention -o attention-maps
    """
    from obygaze_models.maps import write_concept_maps

    place, path = session.workspace.root, session.workspace.target("stores", output)
    clips = read_manifest(manifest, workspace=place)
    write_concept_maps(path, open_store(store, workspace=place), clips, **options)
    _show_maps(session, path)


@explain.command("model")
@click.argument("store")
@click.argument("clips", nargs=-1)
@click.option("--text", metavar="FILE", help="Texts of `extract text`, by attribute.")
@click.option("--level", default="clip", help="The level that they are compared with.")
@click.option(
    "--method",
    type=click.Choice(["grad-cam", "score-cam"]),
    default="grad-cam",
    help="The method for texts; without texts, attention rollout.",
)
@click.option("--weights", help="The file or folder of the weights.")
@output_option
def model_(
    session: Session,
    store: str,
    clips: tuple[str, ...],
    output: str,
    text: str | None,
    **options: Any,
) -> None:
    """Compute where CLIP or X-CLIP looks: Grad-CAM for texts, attention rollout without any.

    ScoreCAM needs no gradient, but takes some hundred times as long. The frames of CLIPS, by
    default all, are decoded again by exactly the recipe of the store.

    Examples:
        obygaze explain model films.clip-b16 tt1-001 --text emotion.npz -o emotion-maps
        obygaze explain model films.clip-b16 tt1-001 --text emotion.npz --method score-cam -o check
        obygaze explain model films.xclip-b16-k400 -o rollout
    """
    import numpy as np

    from obygaze_features.extraction.explaining import write_saliency
    from obygaze_features.store.maps import random_directions
    from obygaze_models.text_vectors import (
        attribute_vectors,
        check_spaces,
        read_text_table,
    )

    place, found = session.workspace.root, dict[str, Any]()
    opened = open_store(store, workspace=place)
    if text:
        texts = read_text_table(opened, text)
        check_spaces(opened, options["level"], texts)
        words = attribute_vectors(texts)
        found |= {
            name: np.asarray(word.vectors).mean(axis=0) for name, word in words.items()
        }
        found |= random_directions(texts.embeddings.shape[1])
    vectors = {name: one.tolist() for name, one in found.items()}
    facts = {"directions_sha256": sha256_bytes(canonical_json(vectors))}
    path = session.workspace.target("stores", output)
    ids = clips or opened[options["level"]].clip_ids.tolist()
    write_saliency(path, session.workspace, opened, ids, found, facts=facts, **options)
    _show_maps(session, path)


@explain.command()
@click.argument("maps")
@click.argument("clips", nargs=-1, required=True)
@click.option(
    "-o", "folder", type=click.Path(path_type=Path), required=True, help="A folder."
)
@force_option
def draw(
    session: Session, maps: str, clips: tuple[str, ...], folder: Path, force: bool
) -> None:
    """Draw the maps of clips over their exact pictures: a sheet for each clip and direction.

    Examples:
        obygaze explain draw concept-maps tt1-001 tt1-002 -o sheets
    """
    from obygaze_features.extraction.explaining import draw_maps

    store, place = open_store(maps, workspace=session.workspace.root), session.workspace
    drawn = [
        str(p)
        for clip in clips
        for p in draw_maps(place, store, clip, folder, force=force)
    ]
    session.console.show({"files": drawn}, "\n".join(drawn))


@explain.command()
@click.argument("maps")
@click.argument("boxes", type=click.Path(path_type=Path))
def boxes(session: Session, maps: str, boxes: Path) -> None:
    """Measure how much of what a model looks at lies in boxes.

    BOXES is a CSV file with clip_id, x0, y0, x1, y1 (shares of the picture that the model sees) and
    perhaps frame. Shares are tested against those of random directions, within films.

    Examples:
        obygaze explain boxes concept-maps faces.csv
    """
    from obygaze_models.maps import audit_boxes

    found = audit_boxes(open_store(maps, workspace=session.workspace.root), boxes)
    names = ("x", "n_x", "share", "peaks", "area", "y", "share_of_y", "p_holm")
    rows = [[one[name] for name in names] for one in found]
    text = "\n".join(
        [table(names, rows), "", *(f"{one['x']}: {one['why']}" for one in found)]
    )
    session.console.show({"directions": found}, text)


def _show_maps(session: Session, path: Path) -> None:
    store = open_store(path)
    counts = store.status().counts
    text = f"{path}: maps of {counts['ok']} of {len(store)} clips"
    session.console.show({"store": str(path), "clips": counts}, text)
