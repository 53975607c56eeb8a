"""The functions of `obygaze models` and `og.models`; other modules do the work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from obygaze_features.core.function_commands import command_of
from obygaze_features.core.lazy import done_in
from obygaze_features.core.options import CLIPS, Option
from obygaze_features.core.workspace import PathLike
from obygaze_features.core.written_tables import check_output

if TYPE_CHECKING:
    from obygaze_features.manifest.model import Clip, Manifest
    from obygaze_features.store.reading import Store
    from obygaze_models.zoo.predicting import Predicted, PredictedFiles
    from obygaze_models.zoo.saving import SavedModel
    from obygaze_models.zoo.sharing import ModelCard, PushedModel


@done_in("obygaze_models.zoo.sharing")
def show_model(
    model: PathLike | SavedModel, *, workspace: PathLike | None = None
) -> ModelCard:
    """Show the card of a model: its facts and its metrics.

    No code of the model is run. Arrays and training clips that are not what model.json says are an
    error.

    Args:
        model: The name of a model of the workspace, or its folder.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze models show films-pcbm
        obygaze models show models/films-pcbm --json
    """


@done_in("obygaze_models.zoo.predicting")
def predict(
    model: PathLike | SavedModel,
    store: PathLike | Store,
    clips: Annotated[
        PathLike | Iterable[str | Clip] | None,
        replace(CLIPS, shown_default="all"),
    ] = None,
    *,
    manifest: PathLike | Manifest | None = None,
    in_sample: bool = False,
    workspace: PathLike | None = None,
) -> Predicted:
    """Predict the clips of a store with a model.

    One row per clip: the decision, the probability of each class (of a model without probabilities,
    such as ridge: one score, positive for the second class) and, for a bottleneck, the margin of
    each concept and its contribution. A store of other features is an error (exit code 5). A
    model of segments, trained on a store of windows, needs the manifest of the segments.

    For new films, extract the features first: without a store, the error names the command.

    The column `basis` is the kind of the score. unseen: the model was trained on no clip of the
    film. film-seen: it was trained on other clips of the film, which may show the same seconds.
    film-unknown: the films that it was trained on are not known. out-of-fold: it was trained on the
    clip, and the score is from fits of its evaluation that were not; for a bottleneck, these have
    no margins. in-sample: it was trained on the clip, and the score is its own (only with
    --in-sample). Features without films, imported without a manifest, need --manifest.

    Args:
        model: A saved model: its name in the workspace, or its folder.
        store: Features of the recipe that the model was trained on.
        clips: Clip ids to predict, separated by commas, or a file: one id a line, or a column
            clip_id. In Python also a list of ids, or a manifest.
        manifest: Predict the clips or segments of this manifest.
        in_sample: Score all training clips with the model itself, also those that have an
            out-of-fold score; such scores are not predictions.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> predicted = og.predict("kept", "mine", clips=["alba-001", "alba-002"])
        >>> predicted.clip_ids, predicted.basis
        (['alba-001', 'alba-002'], ['out-of-fold', 'film-seen'])

    Commands:
        obygaze models predict films-pcbm films.descriptors > predictions.csv
        obygaze models predict films-pcbm new-films.descriptors -o scores.csv
        obygaze models predict films-pcbm films.descriptors --clips tt1-001,tt1-002 --json
        obygaze models predict films-pcbm films.descriptors --in-sample -o explained.csv
        obygaze models predict films-ridge whole.descriptors --manifest films
    """


def write_predicted(
    predicted: Predicted,
    output: Annotated[PathLike | None, Option("-o --output", metavar="PATH")] = None,
    *,
    force: bool = False,
) -> PredictedFiles:
    """Write the scores to a file.

    Args:
        predicted: The scores.
        output: Write the table to this file, with films and times: .csv or .xlsx.
        force: Replace the output if it exists.
    """
    return predicted.write(output, force=force)


predict_command = command_of(
    predict, "predict", then=write_predicted, check=check_output
)


@done_in("obygaze_models.zoo.sharing")
def pull_model(
    location: PathLike,
    output: Annotated[
        PathLike | None,
        Option(
            "-o --output", metavar="NAME", shown_default="the last part of LOCATION"
        ),
    ] = None,
    *,
    force: bool = False,
    workspace: PathLike | None = None,
) -> SavedModel:
    """Copy a model into the workspace and check it.

    The model appears only if the sizes and checksums of all its files are correct. Whoever can
    change the files at an address can make another model of them: #sha256=... at its end refuses
    any but the model of which model.json has this SHA-256, the seal of the model.

    Args:
        location: A folder, or an https://, s3:// or hf:// URL.
        output: Name of the copy.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze models pull /shared/models/films-pcbm
        obygaze models pull https://example.org/films-pcbm -o theirs
        obygaze models pull https://example.org/films-pcbm#sha256=5f0c...
    """


@done_in("obygaze_models.zoo.sharing")
def push_model(
    model: PathLike,
    target: PathLike,
    *,
    force: bool = False,
    workspace: PathLike | None = None,
) -> PushedModel:
    """Copy a model to a folder, a bucket or the hub.

    It is checked first. Another model that is there is replaced only with --force.

    Its card names the licences of the annotations and of the features, as the manifest and the
    store of its training stated them; for the hub, the licence of the model itself is `other`.

    Args:
        model: The name of a model of the workspace, or its folder.
        target: A folder, or an s3:// or hf:// URL.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze models push films-pcbm /shared/models/films-pcbm
        obygaze models push films-pcbm hf://lab/films-pcbm
    """
