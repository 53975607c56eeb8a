"""The commands of `obygaze backbones`."""

from collections.abc import Sequence

import click

from obygaze.commands.shared import NAME, Group, Result, Session


@click.group(cls=Group)
def backbones() -> None:
    """List and download the models that make features."""


@backbones.command("ls")
@click.pass_obj
def ls(session: Session) -> Result:
    """List the backbones of obygaze and of the workspace.

    T is the number of frames, or of parts of the sound, of a clip. GFLOP is the cost of a clip in
    billions of operations.

    Examples:
        obygaze backbones ls
        obygaze backbones ls --json
    """
    from obygaze_features.backbones.actions import list_backbones

    return list_backbones(workspace=session.root)


@backbones.command("show")
@click.argument(
    "name",
    help="Name that obygaze backbones ls lists, path of a card, or FILE.py:NAME.",
)
@click.pass_obj
def show(session: Session, name: str) -> Result:
    """Show all settings of a backbone, as its card states them.

    NAME@PRESET shows a preset of the card.

    Examples:
        obygaze backbones show vivit-b16x2-k400
        obygaze backbones show xclip-b16-k600-zs@paper-2024 --json
    """
    from obygaze_features.backbones.actions import show_backbone

    return show_backbone(name, workspace=session.root)


@backbones.command("fetch")
@click.argument("names", nargs=-1, required=True, help="Names of backbones.")
@click.option(
    "--to",
    type=NAME,
    help="Also copy the weights into this folder, to set as HF_HOME on another machine.",
)
@click.pass_obj
def fetch(session: Session, names: Sequence[str], to: str | None) -> Result:
    """Download the weights of backbones, for machines without a network.

    The weights are stored in the cache of the Hugging Face hub (the folder HF_HOME), which the
    other machines must be able to read. Only missing files that obygaze needs are downloaded: the
    weights, the configuration, and the tokenizer of a text model.

    Examples:
        obygaze backbones fetch xclip-b16-k600-zs clip-b16
        obygaze backbones fetch xclip-b16-k600-zs --to weights
    """
    from obygaze_features.backbones.actions import fetch_weights

    return fetch_weights(names, to=to, workspace=session.root)


@backbones.command("check", headings={"Computation": "weights"})
@click.argument(
    "name",
    help="Name of a backbone, path of a card, FILE.py:NAME, or a folder of weights.",
)
@click.option(
    "--weights",
    metavar="PATH",
    type=NAME,
    help="File or folder of weights. The default is the checkpoint of the card.",
)
@click.pass_obj
def check(session: Session, name: str, weights: str | None) -> Result:
    """Check the weights and the outputs of a backbone.

    The checks: all tensors are from the files; the shapes are as in the card; the features of a
    clip do not depend on other clips of the batch. Nothing is downloaded. The exit code is 1 if
    the weights are missing, and 4 if a check fails.

    For a folder of weights, the card with their sizes is found. If there is none, a new card is
    printed, to save in backbones/.

    Examples:
        obygaze backbones check descriptors
        obygaze backbones check xclip-lsmdc-b32 --weights pytorch_model.bin.4
        obygaze backbones check vivit-b16x2-k400 --json
        obygaze backbones check downloads/clip-b32
    """
    from obygaze_features.backbones.actions import check_backbone

    return check_backbone(name, weights=weights, workspace=session.root)
