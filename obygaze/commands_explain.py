"""`obygaze explain`: where and when a model looks, as stores of maps and as sheets of pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from obygaze.features import open_store, read_manifest
from obygaze_features.core.commands import LazyGroup, Session, force_option, option_group
from obygaze_features.core.files import canonical_json, sha256_bytes
from obygaze_features.store import Store

made_options = option_group(
    "Maps",
    click.option("-o", "output", required=True, metavar="NAME", help="The store of maps."),
    click.option("--random", "n_random", default=20, help="Random directions, as a null."),
    click.option("--seed", default=0, help="Seed of random directions."),
)


@click.group(cls=LazyGroup)
def explain() -> None:
    """Show where in the picture and when in the clip a model finds a concept or a text."""


@explain.command("concepts")
@click.argument("store")
@click.argument("manifest")
@click.argument("model", default="cav")
@click.option("--task", default="ENHN_S", help="What a model other than cav learns.")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="As for `train`.")
@made_options
def concepts_(session: Session, store: str, manifest: str, output: str, **options: Any) -> None:
    """Project concept vectors, or a model's direction, on the stored tokens of each clip.

    The direction that is used for a film was found on other films. MODEL is cav (every concept),
    linear, ridge, svm, or a bottleneck, whose concepts are shown. Needs no film and no weights.

    Examples:
        obygaze explain concepts films.xclip-b16-k400 films -o concept-maps
        obygaze explain concepts films.clip-b16 films ridge --task EN_S -o ridge-maps
    """
    from obygaze_models.maps import write_concept_maps

    place = session.workspace.root
    opened, clips = open_store(store, workspace=place), read_manifest(manifest, workspace=place)
    path = session.workspace.target("stores", output)
    write_concept_maps(path, opened, clips, **options)
    _show(session, path)


@explain.command("text")
@click.argument("store")
@click.argument("texts", nargs=-1)
@click.option("--clips", multiple=True, metavar="ID", help="A clip; repeatable. [default: all]")
@click.option("--model", metavar="NAME", help="A saved model, whose directions are explained too.")
@click.option("--level", default="clip", help="The level that is compared with the directions.")
@click.option("--weights", help="The file or folder of the weights.")
@click.option("--tokenizer", help="The folder of the tokenizer.")
@made_options
def text_(
    session: Session,
    store: str,
    texts: tuple[str, ...],
    clips: tuple[str, ...],
    output: str,
    model: str | None,
    n_random: int,
    seed: int,
    tokenizer: str | None,
    **options: Any,
) -> None:
    """Compute where CLIP or X-CLIP looks: Grad-CAM for texts, or attention rollout without any.

    The frames are decoded again, by exactly the recipe of the store.

    Examples:
        obygaze explain text films.clip-b16 'a photo of a sad person' --clips tt1-001 -o sad
        obygaze explain text films.xclip-b16-k400 --clips tt1-001 -o rollout
        obygaze explain text films.clip-b16 --model my-cav --level pooled -o concepts-cam
    """
    from obygaze.models import load_model
    from obygaze_features.extraction.explaining import text_directions, write_saliency
    from obygaze_features.store.maps import Directions, random_directions
    from obygaze_models.maps import directions_of

    opened, found = open_store(store, workspace=session.workspace.root), dict[str, Any]()
    if texts:
        own = (options["level"], options["weights"], tokenizer)
        found |= text_directions(session.workspace, opened, texts, *own)
    if model:
        saved = load_model(model, workspace=session.workspace.root)
        found |= directions_of(saved.estimator, saved.info.name)
    facts = {"seed": seed, "texts_sha256": sha256_bytes(canonical_json(list(texts)))}
    facts |= {"model": model or ""}
    if found:
        (width,) = next(iter(found.values())).shape
        found |= random_directions(width, n_random, seed)
    path = session.workspace.target("stores", output)
    ids = clips or opened[options["level"]].clip_ids.tolist()
    write_saliency(path, session.workspace, opened, ids, found, facts=facts, **options)
    _show(session, path)


@explain.command()
@click.argument("maps")
@click.argument("clips", nargs=-1, required=True)
@click.option("-o", "folder", type=click.Path(path_type=Path), required=True, help="A folder.")
@force_option
def draw(session: Session, maps: str, clips: tuple[str, ...], folder: Path, force: bool) -> None:
    """Draw the maps of clips over their exact pictures: a sheet for each clip and direction.

    Examples:
        obygaze explain draw sad tt1-001 tt1-002 -o sheets
    """
    from obygaze_features.extraction.explaining import draw_maps

    store = open_store(maps, workspace=session.workspace.root)
    drawn = [
        path
        for clip in clips
        for path in draw_maps(session.workspace, store, clip, folder, force=force)
    ]
    session.console.show({"files": list(map(str, drawn))}, "\n".join(map(str, drawn)))


def _show(session: Session, path: Path) -> None:
    from obygaze_features.store.maps import map_names

    store: Store = open_store(path)
    counts, names = store.status().counts, map_names(store)
    text = f"{path}: maps of {counts['ok']} of {len(store)} clips, {len(names)} directions"
    session.console.show({"store": str(path), "clips": counts, "directions": names}, text)
