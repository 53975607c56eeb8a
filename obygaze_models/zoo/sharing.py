"""The models of a workspace: listed, shown, pushed and pulled."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze_features.core.console import Quiet, human
from obygaze_features.core.errors import Corrupt, NotFound, ObygazeError
from obygaze_features.core.files import (
    parse_json,
    sha256_file,
    write_atomic,
    write_then_rename,
)
from obygaze_features.core.own_results import MODEL, check_folder
from obygaze_features.core.workspace import PathLike, Workspace, is_url, last_part
from obygaze_features.store.copying import Parcel, send
from obygaze_features.store.files import Files, FolderFiles
from obygaze_features.store.network import open_remote
from obygaze_features.store.reading import another_seal, split_expected
from obygaze_features.store.targets import (
    open_target,
)
from obygaze_models.zoo.info import (
    ModelInfo,
    TrainingClips,
    model_card_text,
)
from obygaze_models.zoo.saving import (
    ARRAYS_FILE,
    CARD_FILE,
    MAX_BYTES,
    MODEL_FILE,
    SavedModel,
    files_of,
    load_folder,
    read_checked,
    read_document,
    training_clips_in,
)


@dataclass(frozen=True)
class ModelCard:
    """The facts of a saved model, shown as its card; its estimator is not loaded."""

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
    model: PathLike | SavedModel,
    *,
    workspace: PathLike | None = None,
) -> ModelCard:
    """Show the card of a model: its facts and its metrics.

    Arrays and training clips that are not what model.json says are an error.

    Args:
        model: The name of a model of the workspace, or its folder.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze models show films-pcbm
        obygaze models show models/films-pcbm --json
    """
    if isinstance(model, SavedModel):
        model = model.folder
    folder = Workspace.of(workspace).existing("models", model)
    document = read_document(folder)
    read_checked(folder, ARRAYS_FILE, document)
    return ModelCard(folder, document.info, training_clips_in(folder, document))


@dataclass(frozen=True)
class PushedModel:
    """A model that was copied to a target."""

    model: str
    target: str
    n_bytes: int
    info: ModelInfo

    def __str__(self) -> str:
        return f"{self.model} is at {self.target} ({human(self.n_bytes)})"

    @property
    def notes(self) -> list[str]:
        """The licences of what trained it."""
        of_labels = self.info.training.licence or "not stated"
        of_features = self.info.features.licence or "not stated"
        return [
            f"licence of the annotations: {of_labels}; of the features: {of_features}"
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the model, the target, and the size in bytes."""
        return {"model": self.model, "target": self.target, "bytes": self.n_bytes}


def push_model(
    model: PathLike,
    target: PathLike,
    *,
    workspace: PathLike | None = None,
) -> PushedModel:
    """Copy a model to a folder, a bucket or the hub.

    It is checked first. Where another model is, nothing is sent.

    Its card names the licences of the annotations and of the features, as the manifest and the
    store of its training stated them; for the hub, the licence of the model itself is `other`.

    Args:
        model: The name of a model of the workspace, or its folder.
        target: A folder, or an s3:// or hf:// URL.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze models push films-pcbm /shared/models/films-pcbm
        obygaze models push films-pcbm hf://lab/films-pcbm
    """
    folder = Workspace.of(workspace).existing("models", model)
    try:
        loaded = _checked(folder)
    except Corrupt as error:
        error.hint = error.hint or "a model is sent as it was saved: restore this file"
        raise
    document = {MODEL_FILE: (folder / MODEL_FILE).read_bytes()}
    parcel = Parcel("model", folder, read_document(folder).files, document)
    send(parcel, open_target(target), Quiet())
    n_bytes = sum(mark.n_bytes for mark in parcel.marks.values())
    n_bytes += len(document[MODEL_FILE])
    return PushedModel(os.fspath(model), str(target), n_bytes, loaded.info)


def pull_model(
    location: PathLike,
    output: PathLike | None = None,
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
    address, expected = split_expected(os.fspath(location))
    name = last_part(address) if output is None else os.fspath(output)
    folder = Workspace.of(workspace).target("models", name)

    def check() -> None:
        check_folder(folder, MODEL, force=force)

    with write_then_rename(folder, check) as draft:
        draft.mkdir()
        files: Files = FolderFiles(Path(address))
        if is_url(address):
            files = open_remote(address)
        try:
            _fetch(files, MODEL_FILE, draft)  # it lists the other files
            seal = sha256_file(draft / MODEL_FILE)
            if expected and seal != expected:
                raise another_seal(seal, expected, files.location, "model")
            for file in files_of(draft)[:-1]:
                _fetch(files, file, draft)
            _checked(draft)
        except ObygazeError as error:
            # The draft is removed: the file of the sender is the damaged one.
            if error.where:
                error.where = error.where.replace(str(draft), files.location)
            raise
    return load_folder(folder)


def _checked(folder: Path) -> SavedModel:
    """Return a model; raise an error unless it loads, and all its files are unchanged."""
    document = read_document(folder)
    for name in {ARRAYS_FILE, CARD_FILE, *files_of(folder)} - {MODEL_FILE}:
        read_checked(folder, name, document)
    return load_folder(folder)


def _fetch(files: Files, name: str, draft: Path) -> None:
    try:
        data = files.read(name, MAX_BYTES[name])
    except FileNotFoundError as error:
        raise NotFound(f"no model here: no {name}", where=files.location) from error
    write_atomic(draft / name, data.data)
