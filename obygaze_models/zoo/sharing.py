"""Show, push and pull the models of a workspace."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze_features.core.console import Quiet
from obygaze_features.core.errors import Corrupt, NotFound, ObygazeError
from obygaze_features.core.files import parse_json, sha256_bytes, write_then_rename
from obygaze_features.core.overwrite import MODEL, check_folder
from obygaze_features.core.workspace import PathLike, Workspace, is_url, last_part
from obygaze_features.store.copying import Copied, Parcel, fetch, send
from obygaze_features.store.files import (
    Files,
    FolderFiles,
    ListedFiles,
    check_length,
)
from obygaze_features.store.network import open_remote
from obygaze_features.store.reading import seal_mismatch, split_expected
from obygaze_features.store.records import FileMark
from obygaze_features.store.targets import open_target
from obygaze_models.zoo.info import (
    ModelInfo,
    TrainingClips,
    model_card_text,
    parse_document,
)
from obygaze_models.zoo.saving import (
    ARRAYS_FILE,
    CARD_FILE,
    MAX_BYTES,
    MODEL_FILE,
    HasModel,
    SavedModel,
    load_folder,
    read_checked,
    read_document,
    training_clips_in,
)


@dataclass(frozen=True)
class ModelCard:
    """The facts of a saved model, printed as its card; the estimator is not loaded."""

    folder: Path
    info: ModelInfo
    clips: TrainingClips | None

    def to_json(self) -> dict[str, Any]:
        """Return the content of model.json."""
        document: dict[str, Any] = parse_json((self.folder / MODEL_FILE).read_bytes())
        return document

    def __str__(self) -> str:
        text = model_card_text(self.info, self.clips, medium="terminal")
        return text.split("---\n", 2)[-1].strip()


def show_model(
    model: PathLike | HasModel,
    *,
    workspace: PathLike | None = None,
) -> ModelCard:
    """Show the card of a model: its facts and its metrics.

    The command fails if the sizes or checksums of the files differ from model.json.

    Args:
        model: The name of a model of the workspace, or its folder.
        workspace: The workspace, if it is not the current one.
    """
    place = model if isinstance(model, str | os.PathLike) else model.saved.folder
    folder = Workspace.of(workspace).existing("models", place)
    document = read_document(folder)
    for name in (ARRAYS_FILE, CARD_FILE):
        read_checked(folder, name, document)
    return ModelCard(folder, document.info, training_clips_in(folder, document))


def push_model(
    model: PathLike,
    target: PathLike,
    *,
    workspace: PathLike | None = None,
) -> Copied:
    """Copy a model to a folder, a bucket or the hub.

    The model is checked first. A target that contains a different model is refused.

    The card names the licences of the annotations and of the features, as stated by the manifest
    and the store of the training. On the hub, the licence of the model is `other`.

    Args:
        model: The name of a model of the workspace, or its folder.
        target: A folder, or an s3:// or hf:// URL.
        workspace: The workspace, if it is not the current one.
    """
    folder = Workspace.of(workspace).existing("models", model)
    # A model that cannot be loaded could not be pulled.
    info = load_folder(folder).info
    model_json = (folder / MODEL_FILE).read_bytes()
    mark = FileMark(len(model_json), sha256_bytes(model_json))
    marks = _listed(model_json, str(folder)) | {MODEL_FILE: mark}
    place = open_target(target)
    parcel = Parcel("model", folder, marks)
    n_sent = send(parcel, place, Quiet())
    licences = (
        f"licence of the annotations: {info.training.licence or 'not stated'}; of the features:"
        f" {info.features.licence or 'not stated'}"
    )
    return Copied(place.location, parcel.seal, n_sent, [licences])


def pull_model(
    location: PathLike,
    output: PathLike | None = None,
    *,
    force: bool = False,
    workspace: PathLike | None = None,
) -> SavedModel:
    """Copy a model into the workspace and check it.

    The copy is kept only if the sizes and checksums of all files are correct. People who can change
    the files at an address can replace the model. To accept only one model, add its seal (the
    SHA-256 of model.json) to the address as #sha256=SEAL.

    Args:
        location: A folder, or an https://, s3:// or hf:// URL.
        output: Name of the copy.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.
    """
    address, expected = split_expected(os.fspath(location))
    name = last_part(address) if output is None else os.fspath(output)
    folder = Workspace.of(workspace).target("models", name)

    def check() -> None:
        check_folder(folder, MODEL, force=force)

    files: Files = (
        open_remote(address) if is_url(address) else FolderFiles(Path(address))
    )
    with write_then_rename(folder, check) as draft:
        draft.mkdir()
        try:
            model_json = files.read(MODEL_FILE, MAX_BYTES[MODEL_FILE]).tobytes()
        except FileNotFoundError as error:
            raise NotFound(
                f"expected a saved model, but {MODEL_FILE} is missing",
                where=files.location,
            ) from error
        seal = sha256_bytes(model_json)
        if expected and seal != expected:
            raise seal_mismatch(seal, expected, files.location, "model")
        listed = ListedFiles(files, _listed(model_json, files.location))
        fetch(listed, {MODEL_FILE: model_json}, draft, draft / MODEL_FILE, Quiet())
        try:
            load_folder(draft)
        except ObygazeError as error:
            # The draft is removed; the damaged file is the source.
            error.where = files.location
            raise
    return load_folder(folder)


def _listed(model_json: bytes, where: str) -> dict[str, FileMark]:
    """Return the files of a model that model.json lists, after their sizes are checked."""
    listed = parse_document(model_json, where).files
    if CARD_FILE not in listed:
        raise Corrupt(f"{MODEL_FILE} does not list {CARD_FILE}", where=where)
    marks = {}
    for name, most_bytes in MAX_BYTES.items():
        if name in listed:
            check_length(name, listed[name].n_bytes, most_bytes, where)
            marks[name] = listed[name]
    return marks
