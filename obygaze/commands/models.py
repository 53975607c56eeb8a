"""The commands of `obygaze models`."""

from collections.abc import Sequence

import click

from obygaze.commands.shared import (
    NAME,
    Group,
    Result,
    Session,
    clips_option,
    force_option,
)


@click.group(
    cls=Group,
    headings={"Look": "ls kinds show", "Use": "predict test", "Share": "pull push"},
)
def models() -> None:
    """Use and share saved models."""


@models.command("ls")
@click.pass_obj
def ls(session: Session) -> Result:
    """List the saved models of the workspace.

    Examples:
        obygaze models ls
        obygaze -C /data/films models ls --json
    """
    from obygaze.contents import list_models

    return list_models(workspace=session.root)


@models.command("kinds")
def kinds() -> Result:
    """List the model types, with the default of each setting.

    `obygaze train MODEL --set model.KEY=VALUE` changes a setting.

    Examples:
        obygaze models kinds
        obygaze train mlp --store films.xclip --set model.hidden=[64]
    """
    from obygaze_models.models.kinds import list_kinds

    return list_kinds()


@models.command("show")
@click.argument(
    "model", type=NAME, help="The name of a model of the workspace, or its folder."
)
@click.pass_obj
def show(session: Session, model: str) -> Result:
    """Show the card of a model: its facts and its metrics.

    The command fails if the sizes or checksums of the files differ from model.json.

    Examples:
        obygaze models show films-pcbm
        obygaze models show models/films-pcbm --json
    """
    from obygaze_models.zoo.sharing import show_model

    return show_model(model, workspace=session.root)


@models.command("predict")
@click.argument(
    "model", type=NAME, help="A saved model: its name in the workspace, or its folder."
)
@click.argument(
    "store", type=NAME, help="A store with the same recipe as the training features."
)
@clips_option(
    "Clip ids to predict, separated by commas, or a file with one id per line or a "
    "column clip_id."
)
@click.option("--manifest", type=NAME, help="Predict the clips of this manifest.")
@click.option(
    "--in-sample",
    is_flag=True,
    help="Score all training clips with the saved model itself, even if they have an "
    "out-of-fold score. In-sample scores are not predictions.",
)
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    type=NAME,
    help="Write the table to this file, with films and times: .csv or .xlsx.",
)
@force_option
@click.pass_obj
def predict(
    session: Session,
    model: str,
    store: str,
    clips: Sequence[str],
    manifest: str | None,
    in_sample: bool,
    output: str | None,
    force: bool,
) -> Result:
    """Predict the clips of a store with a model.

    One row per clip: the decision, the probability of each class and, for a bottleneck, the margin
    and the contribution of each concept. A model without probabilities, such as ridge, has one
    score, positive for the second class. A store of different features is refused (exit code 5).

    For new films, extract the features first: the error for a missing store names the command.

    The column `basis` shows how the score relates to the training; docs/guide/experiments.md lists
    its values. Features without films, imported without a manifest, need --manifest.

    Examples:
        obygaze models predict films-pcbm films.descriptors > predictions.csv
        obygaze models predict films-pcbm new-films.descriptors -o scores.csv
        obygaze models predict films-pcbm films.clip --clips tt1-001,tt1-002 --json
        obygaze models predict films-pcbm films.clip --in-sample -o explained.csv
        obygaze models predict films-ridge whole.descriptors --manifest films
    """
    from obygaze_features.core.written_tables import check_output
    from obygaze_models.zoo.predicting import predict

    check_output(output)
    predicted = predict(
        model,
        store,
        clips=clips or None,
        manifest=manifest,
        in_sample=in_sample,
        workspace=session.root,
    )
    return predicted.write(output, force=force)


@models.command("test")
@click.argument(
    "model",
    type=NAME,
    help="A saved model of two classes: its name in the workspace, or its folder.",
)
@click.option(
    "--store",
    required=True,
    metavar="NAME=STORE",
    type=NAME,
    help="A store with the same recipe as the training features, or NAME=STORE with its "
    "name in tables.",
)
@click.option(
    "--manifest",
    type=NAME,
    help="The manifest of the clips and labels. The default is the only manifest of the "
    "workspace.",
)
@click.option(
    "--task",
    default="",
    show_default="the task of the model",
    metavar="TASK",
    help="The label to test, as in run.",
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="A changed key of the protocol honest-negatives: data.where, data.view, report.primary, "
    "report.metrics or report.replicates. The default of data.view is the view of "
    "the training labels. Repeatable.",
)
@click.option(
    "-o",
    "--output",
    show_default="made from the inputs",
    metavar="NAME",
    type=NAME,
    help="The name of the run in the workspace, or a folder.",
)
@force_option
@click.pass_obj
def test(
    session: Session,
    model: str,
    store: str,
    manifest: str | None,
    task: str,
    changes: Sequence[str],
    output: str | None,
    force: bool,
) -> Result:
    """Test a saved model on your own clips and labels.

    Nothing is fitted: scores, decisions and refused clips are the same as in `models predict`. The
    result is a run: `report` shows it, and `compare` compares it with a run of your own model on
    these clips. Training clips of the model are excluded and counted. Other clips of its training
    films are tested, and the run names these films.

    Examples:
        obygaze models test received --store films.xclip --manifest films
        obygaze models test received --store films.xclip --task violent -o theirs
    """
    from obygaze_models.runner.experiments import test_model

    return test_model(
        model,
        store,
        manifest=manifest,
        task=task,
        changes=changes,
        output=output,
        force=force,
        workspace=session.root,
    )


@models.command("pull")
@click.argument(
    "location", type=NAME, help="A folder, or an https://, s3:// or hf:// URL."
)
@click.option(
    "-o",
    "--output",
    show_default="the last part of LOCATION",
    metavar="NAME",
    type=NAME,
    help="Name of the copy.",
)
@force_option
@click.pass_obj
def pull(session: Session, location: str, output: str | None, force: bool) -> Result:
    """Copy a model into the workspace and check it.

    The copy is kept only if the sizes and checksums of all files are correct. People who can change
    the files at an address can replace the model. To accept only one model, add its seal (the
    SHA-256 of model.json) to the address as #sha256=SEAL.

    Examples:
        obygaze models pull /shared/models/films-pcbm
        obygaze models pull https://example.org/films-pcbm -o theirs
        obygaze models pull https://example.org/films-pcbm#sha256=5f0c...
    """
    from obygaze_models.zoo.sharing import pull_model

    return pull_model(location, output=output, force=force, workspace=session.root)


@models.command("push")
@click.argument(
    "model", type=NAME, help="The name of a model of the workspace, or its folder."
)
@click.argument("target", type=NAME, help="A folder, or an s3:// or hf:// URL.")
@click.pass_obj
def push(session: Session, model: str, target: str) -> Result:
    """Copy a model to a folder, a bucket or the hub.

    The model is checked first. A target that contains a different model is refused.

    The card names the licences of the annotations and of the features, as stated by the manifest
    and the store of the training. On the hub, the licence of the model is `other`.

    Examples:
        obygaze models push films-pcbm /shared/models/films-pcbm
        obygaze models push films-pcbm hf://lab/films-pcbm
    """
    from obygaze_models.zoo.sharing import push_model

    return push_model(model, target, workspace=session.root)
