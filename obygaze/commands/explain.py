"""The commands of `obygaze explain`."""

from collections.abc import Sequence

import click

from obygaze.commands.shared import NAME, Group, Result, Session


@click.group(cls=Group)
def explain() -> None:
    """Draw where and when a model sees a concept."""


@explain.command("concepts")
@click.option(
    "-o",
    "--output",
    "path",
    required=True,
    metavar="NAME",
    type=NAME,
    help="The new store.",
)
@click.argument(
    "store",
    type=NAME,
    help="A store with tokens, and with vectors of the same width for the fit.",
)
@click.argument("manifest", type=NAME, help="The clips and their labels.")
@click.pass_obj
def concepts(session: Session, path: str, store: str, manifest: str) -> Result:
    """Project concept vectors on the stored tokens of each clip.

    The directions for a film are fitted without this film. The command needs neither the films nor
    the weights of a model.

    For a map, the mean of the clips is subtracted from each token, and the result is projected on
    the direction of length 1. The store has the reason for each clip without maps.

    Examples:
        obygaze explain concepts films.xclip-b16-k400 films -o concept-maps
    """
    from obygaze.audits.maps.concept_maps import write_concept_maps

    return write_concept_maps(path, store, manifest, workspace=session.root)


@explain.command("model")
@click.option(
    "-o",
    "--output",
    "path",
    required=True,
    metavar="NAME",
    type=NAME,
    help="The new store.",
)
@click.argument(
    "store",
    type=NAME,
    help="The store of the clips; its recipe names the model and the frames.",
)
@click.argument("text", type=NAME, help="Texts of extract text, by attribute.")
@click.argument("clips", nargs=-1, help="The clips.")
@click.option("--weights", metavar="PATH", help="The file or folder of the weights.")
@click.pass_obj
def model(
    session: Session,
    path: str,
    store: str,
    text: str,
    clips: Sequence[str],
    weights: str | None,
) -> Result:
    """Compute where CLIP or X-CLIP looks for a text: Grad-CAM.

    The frames of CLIPS (default: all clips) are decoded again, exactly by the recipe of the store.

    Examples:
        obygaze explain model films.clip-b16 emotion.npz tt1-001 -o emotion-maps
    """
    from obygaze.audits.maps.saliency import write_saliency

    return write_saliency(
        path, store, text, clips=clips, weights=weights, workspace=session.root
    )
