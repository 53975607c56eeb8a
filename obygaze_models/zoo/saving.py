"""Save and load models: folders with arrays (safetensors), facts (JSON) and a card.

Loading checks sizes and checksums first, and runs no code from the folder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from os import PathLike as AnyPath
from pathlib import Path
from typing import Any, Protocol

from msgspec import structs

from obygaze_features import __version__
from obygaze_features.core.errors import (
    Corrupt,
    FixInput,
    FixUsage,
    NotFound,
)
from obygaze_features.core.files import (
    document_sha256,
    pretty_json,
    sha256_bytes,
    write_atomic,
    write_then_rename,
)
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.overwrite import MODEL, check_folder
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_models.zoo.info import (
    CLIPS_FILE,
    MODEL_SCHEMA,
    ModelDocument,
    ModelInfo,
    TrainingClips,
    model_card_text,
    parse_document,
    read_training_clips,
)

MODEL_FILE = "model.json"
ARRAYS_FILE = "model.safetensors"
CARD_FILE = "README.md"
# Files of a model, in the order in which they are written, with their largest size in bytes.
MAX_BYTES = {
    ARRAYS_FILE: 2_000_000_000,
    CLIPS_FILE: 500_000_000,
    CARD_FILE: 10_000_000,
    MODEL_FILE: 10_000_000,
}
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A loaded model: its facts and the fitted estimator.

    `clips` are its training clips with their out-of-fold scores, or None if the model does not
    list them.
    """

    info: ModelInfo
    estimator: Any
    folder: Path
    clips: TrainingClips | None = None

    @property
    def saved(self) -> SavedModel:
        """This model."""
        return self

    def __repr__(self) -> str:
        info = self.info
        features = f"{info.features.backbone} {info.features.array}"
        facts = info.kind, info.task, features
        return short_repr("SavedModel", repr(info.name), *facts)

    def __str__(self) -> str:
        return f"{self.folder}: valid, {self.info.summary}"

    def to_json(self) -> dict[str, Any]:
        """Return the name and the path of the folder, and the model type."""
        return {
            "model": self.folder.name,
            "path": str(self.folder),
            "kind": self.info.kind,
        }


class HasModel(Protocol):
    """A saved model, or what has one as `saved`, such as the result of `og.load_model`."""

    @property
    def saved(self) -> Any:
        """The saved model."""


def save_model(
    estimator: Any,
    info: ModelInfo,
    folder: Path,
    X: Any,
    *,
    clips: TrainingClips | None = None,
    force: bool = False,
) -> Path:
    """Save a fitted estimator as a folder and return the folder.

    The written files are loaded again. The folder gets its name only if the loaded estimator gives
    the rows of X the same outputs.

    Args:
        estimator: A fitted estimator of `obygaze_models.models`, or a pipeline of such estimators.
        info: The facts of the model.
        folder: The new folder; its name is the name of the model.
        X: The features of the training clips.
        clips: The training clips. Without them, `predict` treats every clip of the films in
            `info.training` as a training clip without an out-of-fold score.
        force: Replace an existing model of this name.
    """
    import numpy as np
    from safetensors.numpy import save

    from obygaze_models.models.preprocessing import last_step
    from obygaze_models.models.state import save_state

    check_target(folder, info.name, force=True)
    difference = _difference(info, estimator, clips)
    if difference:
        raise FixInput(difference, where=str(folder))
    description, arrays = save_state(estimator)
    contiguous = {}
    for name, array in arrays.items():
        contiguous[name] = np.asarray(array, order="C")
    data = save(contiguous)
    document = {
        "schema": MODEL_SCHEMA,
        "created_by": f"obygaze {__version__}",
        **info.to_json(),
        "estimator": description,
    }
    contents = {
        ARRAYS_FILE: data,
        CARD_FILE: model_card_text(info, clips).encode("utf-8"),
    }
    if clips is not None:
        contents[CLIPS_FILE] = clips.to_csv()
    marks = {}
    for name, content in contents.items():
        marks[name] = (len(content), sha256_bytes(content))
    document["files"] = marks
    document["sha256"] = document_sha256(document)
    contents[MODEL_FILE] = pretty_json(document)
    for name, content in contents.items():
        most = MAX_BYTES[name]
        if len(content) > most:
            raise FixInput(
                f"{name} must have at most {most:,} bytes, got {len(content):,}",
                where=str(folder),
            )

    def check_place() -> None:
        path = folder / MODEL_FILE
        is_same = path.is_file() and path.read_bytes() == contents[MODEL_FILE]
        check_folder(folder, MODEL, force=force or is_same)

    with write_then_rename(folder, check_place) as draft:
        draft.mkdir()
        for name, content in contents.items():
            write_atomic(draft / name, content)
        try:
            loaded = load_folder(draft).estimator
        except Corrupt as error:
            name = type(last_step(estimator)).__name__
            raise FixInput(f"{name} cannot be saved: {error.message}") from error
        _require_equal(estimator, loaded, X)
    return folder


def read_model(
    model: PathLike | HasModel, *, workspace: PathLike | None = None
) -> SavedModel:
    """Return a saved model without scikit-learn.

    A model that was read or loaded before is not read again.
    """
    if isinstance(model, str | AnyPath):
        return load_folder(Workspace.of(workspace).existing("models", model))
    saved: SavedModel = model.saved
    return saved


def load_folder(folder: Path) -> SavedModel:
    """Load the model in a folder."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    from obygaze_models.models.state import load_state

    document = read_document(folder)
    info = document.info
    data = read_checked(folder, ARRAYS_FILE, document)
    try:
        arrays = load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise Corrupt(
            f"not safetensors: {error}", where=str(folder / ARRAYS_FILE)
        ) from error
    estimator = load_state(document.estimator, arrays)
    clips = training_clips_in(folder, document)
    difference = _difference(info, estimator, clips)
    if difference:
        raise Corrupt(difference, where=str(folder / MODEL_FILE))
    return SavedModel(info, estimator, folder, clips)


def _difference(info: ModelInfo, estimator: Any, clips: TrainingClips | None) -> str:
    """Return where the facts and the estimator differ, or "" if they agree.

    If the classes of the estimator are words, they must be the classes of the facts, in the same
    order. If they are numbers, they get the names that the facts have at the same places. If the
    names in the facts are the same numbers in a different order, they differ.
    """
    import numpy as np

    from obygaze_models.models.preprocessing import last_step

    classes = np.asarray(getattr(estimator, "classes_", ()))
    # The class 1.0 is written as 1.
    words = tuple(str(value).removesuffix(".0") for value in classes.tolist())
    is_in_other_order = sorted(words) == sorted(info.classes)
    is_number = classes.dtype.kind in "biuf" and len(words) == len(info.classes)
    if is_number and not is_in_other_order:
        words = info.classes
    last = last_step(estimator)
    bank = getattr(last, "bank_", last)
    concepts = tuple(map(str, getattr(bank, "concepts_", ())))
    width = getattr(estimator, "n_features_in_", None)
    for name, stated, found in (
        ("features.width is", (info.features.width,), (width,)),
        ("the classes are", info.classes, words),
        ("the concepts are", info.concepts, concepts),
    ):
        if stated != found:
            there = ", ".join(map(str, found)) or "none"
            listed = ", ".join(map(str, stated)) or "none"
            return f"{name} {listed} in model.json, but {there} in the estimator"
    names = {*(clips.scores if clips else ())}
    unknown = names.difference(score_columns(estimator, info))
    return f"{CLIPS_FILE}: unknown score column {min(unknown)!r}" if unknown else ""


def _require_equal(estimator: Any, loaded: Any, X: Any) -> None:
    """Raise an error unless two estimators give the same outputs for the rows of `X`.

    `estimator` was saved, and `loaded` was loaded again. The rows are read in blocks, because
    frames and tokens may be larger than memory.
    """
    import numpy as np

    from obygaze_models.models.common import iterate_blocks
    from obygaze_models.models.preprocessing import (
        OUTPUTS,
        FittedSteps,
        last_step,
        steps_of,
    )

    if steps_of(estimator)[0]:
        estimator = FittedSteps(estimator.steps)
    names = [name for name in OUTPUTS if hasattr(estimator, name)]
    for block in iterate_blocks(X):
        rows = np.asarray(block, dtype=np.float64)
        for name in names:
            before = getattr(estimator, name)(rows)
            after = getattr(loaded, name)(rows)
            if name == "contributions":
                before = before[0] + before[1]
                after = after[0] + after[1]
            if not np.array_equal(before, after):
                raise FixInput(
                    f"{type(last_step(loaded)).__name__} cannot be saved: when it is loaded again,"
                    f" {name} of the training clips differs",
                )


def training_clips_in(folder: Path, document: ModelDocument) -> TrainingClips | None:
    """Return the training clips of a model, or None if the model does not list them."""
    if CLIPS_FILE not in document.files:
        return None
    table = read_checked(folder, CLIPS_FILE, document)
    return read_training_clips(table, str(folder / CLIPS_FILE))


def check_target(folder: Path, name: str, *, force: bool) -> None:
    """Raise an error if a model cannot be saved under this name or in this folder."""
    if not _NAME.fullmatch(name):
        raise FixUsage(
            f"invalid model name {name!r}",
            hint="use at most 100 letters, digits, dots, underscores and hyphens",
        )
    check_folder(folder, MODEL, force=force)


def read_document(folder: Path) -> ModelDocument:
    """Return the content of model.json; the other files are not read.

    The name of the model is the name of its folder, whatever name model.json contains.
    """
    path = folder / MODEL_FILE
    if not path.is_file():
        raise NotFound(
            f"expected a saved model, but {MODEL_FILE} is missing",
            where=str(folder),
        )
    if path.stat().st_size > MAX_BYTES[MODEL_FILE]:
        raise Corrupt(
            f"expected at most {MAX_BYTES[MODEL_FILE]:,} bytes", where=str(path)
        )
    document = parse_document(path.read_bytes(), str(path))
    return structs.replace(document, name=folder.absolute().name)


def score_columns(estimator: Any, info: ModelInfo) -> list[str]:
    """Return the names of the score columns of a model: of its classes, then of its margins."""
    kind = "p" if hasattr(estimator, "predict_proba") else "score"
    named = info.classes if kind == "p" else info.classes[-1:]
    return [
        *(f"{kind}:{name}" for name in named),
        *(f"margin:{name}" for name in info.concepts),
    ]


def read_checked(folder: Path, name: str, document: ModelDocument) -> bytes:
    """Return the bytes of a file, after its size and checksum are compared with model.json."""
    path = folder / name
    if name not in document.files:
        raise Corrupt(f"{MODEL_FILE} does not list {name}", where=str(folder))
    mark = document.files[name]
    if not path.is_file() or path.is_symlink():
        raise Corrupt(f"{name} is missing", where=str(path))
    size = path.stat().st_size
    if size != mark.n_bytes:
        raise Corrupt(f"expected {mark.n_bytes} bytes, got {size}", where=str(path))
    most = MAX_BYTES[name]
    if size > most:
        raise Corrupt(f"expected at most {most:,} bytes, got {size:,}", where=str(path))
    data = path.read_bytes()
    if sha256_bytes(data) != mark.sha256:
        raise Corrupt(
            "the sha256 checksum differs from the one in model.json", where=str(path)
        )
    return data
