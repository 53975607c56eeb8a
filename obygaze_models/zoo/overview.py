"""List and show the models of a workspace."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from obygaze_features.core.console import table
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.files import parse_json
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_models.evaluation.metrics import AP
from obygaze_models.zoo.info import (
    ModelInfo,
    TrainingClips,
    model_card_text,
    withdrawn_from_training,
)
from obygaze_models.zoo.saving import (
    ARRAYS_FILE,
    MODEL_FILE,
    SavedModel,
    read_checked,
    read_document,
    training_clips_in,
)


@dataclass(frozen=True)
class ModelSummary:
    """The facts of a model in one row; `ap` is its average precision on unseen films."""

    name: str
    kind: str
    task: str
    backbone: str
    array: str
    clips: int
    ap: float | None


@dataclass(frozen=True)
class ModelList:
    """The models of a workspace; `broken` has what is wrong with those that cannot be read."""

    models: tuple[ModelSummary, ...]
    broken: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return the facts of the models, and the names of the broken ones."""
        models = [asdict(model) for model in self.models]
        return {"models": models, "broken": list(self.broken)}

    def __str__(self) -> str:
        if not self.models:
            return ""
        rows = [asdict(model) for model in self.models]
        return table(list(rows[0]), [list(row.values()) for row in rows])

    @property
    def warnings(self) -> list[str]:
        """What is wrong with each broken model."""
        return [f"{name}: {problem}" for name, problem in self.broken.items()]

    @property
    def notes(self) -> list[str]:
        """How to make a model, if there is none."""
        if self.models:
            return []
        return ["the workspace has no models; obygaze train --help"]


def list_models(*, workspace: PathLike | None = None) -> ModelList:
    """List the models of the workspace."""
    folder = Workspace.of(workspace).folder("models")
    models = []
    broken: dict[str, str] = {}
    for path in sorted(folder.glob(f"*/{MODEL_FILE}")):
        name = path.parent.name
        try:
            info = read_document(path.parent).info
        except ObygazeError as error:
            broken[name] = error.message
            continue
        features = info.features
        ap = info.metrics[AP.name]["value"] if AP.name in info.metrics else None
        n_clips = info.training.n_clips
        facts = info.kind, info.task, features.backbone, features.array, n_clips, ap
        models.append(ModelSummary(name, *facts))
    return ModelList(tuple(models), broken)


@dataclass(frozen=True)
class ModelCard:
    """The facts of a saved model, shown as its card; its estimator is not loaded.

    `warnings` say which of its training clips were withdrawn.
    """

    folder: Path
    info: ModelInfo
    clips: TrainingClips | None
    warnings: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the content of model.json."""
        document: dict[str, Any] = parse_json((self.folder / MODEL_FILE).read_bytes())
        return document

    def __str__(self) -> str:
        text = model_card_text(self.info, self.clips)
        return text.split("---\n", 2)[-1].strip()


def show_model(
    model: PathLike | SavedModel, *, workspace: PathLike | None = None
) -> ModelCard:
    """Show the card of a model: its facts and its metrics."""
    here = Workspace.of(workspace)
    if isinstance(model, SavedModel):
        model = model.folder
    folder = here.existing("models", model)
    document = read_document(folder)
    read_checked(folder, ARRAYS_FILE, document)
    clips = training_clips_in(folder, document)
    warnings = withdrawn_from_training(document.info, clips, here)
    return ModelCard(folder, document.info, clips, warnings)
