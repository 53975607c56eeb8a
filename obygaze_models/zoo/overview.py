"""List, show and verify the models of a workspace."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from obygaze_features.core.console import table
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.files import parse_json
from obygaze_features.core.parts import trust as trust_code
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_models.zoo.info import ModelInfo, TrainingClips, card_text
from obygaze_models.zoo.saving import (
    MODEL_FILE,
    TRUST,
    SavedModel,
    read_clips,
    read_document,
    verify_folder,
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
    """List the models of the workspace.

    Args:
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze models ls
        obygaze models ls --json
    """
    folder = Workspace.of(workspace).folder("models")
    models = []
    broken: dict[str, str] = {}
    for path in sorted(folder.glob(f"*/{MODEL_FILE}")):
        name = path.parent.name
        try:
            info = read_document(path.parent).info
        except ObygazeError as error:
            broken[name] = error.message
        else:
            models.append(_summary(name, info))
    return ModelList(tuple(models), broken)


def _summary(name: str, info: ModelInfo) -> ModelSummary:
    return ModelSummary(
        name=name,
        kind=info.kind,
        task=info.task,
        backbone=info.features.backbone,
        array=info.features.array,
        clips=info.training.n_clips,
        ap=info.metrics.get("ap", {}).get("value"),
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
        text = card_text(self.info, self.clips)
        return text.split("---\n", 2)[-1].strip()


def show_model(
    model: PathLike | SavedModel, *, workspace: PathLike | None = None
) -> ModelCard:
    """Show the card of a model: its facts and its metrics.

    No code of the model is needed: a model of own code is shown where the code is not there.

    Args:
        model: The name of a model of the workspace, or its folder.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze models show films-pcbm
        obygaze models show models/films-pcbm --json
    """
    if isinstance(model, SavedModel):
        return ModelCard(model.folder, model.info, model.clips)
    folder = Workspace.of(workspace).existing("models", model)
    document = read_document(folder)
    return ModelCard(folder, document.info, read_clips(folder, document))


@dataclass(frozen=True)
class VerifiedModels:
    """Models whose files are all as model.json says."""

    models: Sequence[SavedModel]
    folders: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the names of the models."""
        return {"whole": [model.info.name for model in self.models]}

    def __str__(self) -> str:
        lines = []
        for folder, model in zip(self.folders, self.models, strict=True):
            info = model.info
            line = f"{folder}: valid, {info.summary}"
            if folder != info.name:
                line += f", saved as {info.name}"
            lines.append(line)
        return "\n".join(lines)


def verify_models(
    *models: PathLike,
    trust: Annotated[Sequence[str], TRUST] = (),
    workspace: PathLike | None = None,
) -> VerifiedModels:
    """Check the files of a model.

    Sizes, checksums, and whether the arrays fit the estimator. No code of the model is run.

    Args:
        models: Names of models of the workspace, or their folders.
        trust: As for `load_model`.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze models verify films-pcbm
        obygaze models verify films-pcbm films-mlp --json
    """
    trust_code(trust)
    resolved_workspace = Workspace.of(workspace)
    folders = [resolved_workspace.existing("models", model) for model in models]
    verified = [verify_folder(folder) for folder in folders]
    return VerifiedModels(verified, [folder.name for folder in folders])
