"""`obygaze explain`: maps of where and when a model finds something, their sheets, and boxes."""

from pathlib import Path
from typing import Any

import click

from obygaze_features.core.commands import LazyGroup, Session, force_option
from obygaze_features.core.console import table
from obygaze_features.core.files import canonical_json, sha256_bytes
from obygaze_features.manifest import read_manifest
from obygaze_features.store import open_store

output_option = click.option(
    "-o", "output", required=True, metavar="NAME", help="The new store."
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
    from obygaze.extensions.maps.concept_maps import write_concept_maps

    place = session.workspace.root
    path = session.workspace.target("stores", output)
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

    from obygaze.extensions.maps.saliency import write_saliency
    from obygaze_features.store.maps import random_directions
    from obygaze_models.text_vectors import (
        attribute_vectors,
        check_spaces,
        read_text_table,
    )

    place = session.workspace.root
    found = dict[str, Any]()
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
    from obygaze_features.extraction.map_drawing import draw_maps

    store = open_store(maps, workspace=session.workspace.root)
    drawn: list[str] = []
    for clip in clips:
        sheets = draw_maps(session.workspace, store, clip, folder, force=force)
        drawn += map(str, sheets)
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
    from obygaze.extensions.maps.boxes import audit_boxes

    directions = audit_boxes(open_store(maps, workspace=session.workspace.root), boxes)
    names = ("x", "n_x", "share", "peaks", "area", "y", "share_of_y", "p_holm")
    rows = []
    reasons = []
    for direction in directions:
        rows.append([direction[name] for name in names])
        reasons.append(f"{direction['x']}: {direction['why']}")
    text = "\n".join([table(names, rows), "", *reasons])
    session.console.show({"directions": directions}, text)


def _show_maps(session: Session, path: Path) -> None:
    store = open_store(path)
    counts = store.status().counts
    text = f"{path}: maps of {counts['ok']} of {len(store)} clips"
    session.console.show({"store": str(path), "clips": counts}, text)
