"""Save a fitted model in the zoo: the estimator, its card, and its out-of-fold scores."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from obygaze_features.manifest.model import Header
from obygaze_models.models.state import save_state
from obygaze_models.protocols.runner.records import Record, Run
from obygaze_models.zoo.info import FeatureSpec, ModelInfo, TrainingData
from obygaze_models.zoo.saving import save_model
from obygaze_models.zoo.training_clips import Floats, TrainingClips

if TYPE_CHECKING:
    from obygaze_models.protocols.runner.final import FittedModel

CARD_METRICS = ("f1_binary", "f1_weighted", "ap", "auc", "brier", "ece")


def keep(fitted: FittedModel, header: Header, folder: Path, *, force: bool = False) -> Path:
    """Save a fitted model; return its folder.

    Args:
        fitted: The model of `fit_final`.
        header: The header of the manifest, for citation and licence.
        folder: The folder of the model.
        force: Replace a model that is there.
    """
    save_state(fitted.model)  # raises before anything is written if it cannot be saved
    info = model_info(fitted, header, folder.name)
    return save_model(fitted.model, info, folder, clips=fitted.clips, force=force)


def model_info(fitted: FittedModel, header: Header, name: str) -> ModelInfo:
    """Return the facts of the card of a fitted model."""
    origin, store = fitted.provenance, fitted.features
    manifest = origin["manifest"]
    level = 100 * origin["protocol"]["report"]["confidence"]
    return ModelInfo(
        name=name,
        kind=fitted.kind,
        task=origin["task"],
        classes=fitted.classes,
        features=FeatureSpec(
            backbone=store["backbone"],
            level=store["level"],
            width=store["width"],
            fingerprint=store["fingerprint"],
            store=str(store["location"]),
        ),
        training=TrainingData(
            manifest=manifest["name"],
            manifest_sha256=manifest["sha256"],
            view=manifest["view"],
            n_clips=origin["n_train"],
            n_movies=len(origin["movies"]),
            movies=tuple(origin["movies"]),
            citation=header.citation,
            licence=header.licence,
        ),
        concepts=fitted.concepts,
        metrics=_metrics(fitted),
        protocol=f"{origin['protocol']['name']} (run {origin['run']})",
        notes=(
            "The metrics and the out-of-fold scores are those of the same recipe on"
            f" {_held_out(origin['protocol']['splits'])}; intervals are {level:g} % ones.",
        ),
    )


def _held_out(splits: Mapping[str, Any]) -> str:
    """What the fits of the run were tested on."""
    if splits["kind"] in ("kfold", "published", "fixed") or splits["group"] != "movie_id":
        return "clips it had not seen, of films it may have seen"
    return "films it had not seen"


def _metrics(fitted: FittedModel) -> dict[str, dict[str, object]]:
    """Value and interval of each metric; of several tasks, under the name of each."""
    found = {}
    for cell in fitted.metrics:
        prefix = f"{cell['test']}: " if len(fitted.metrics) > 1 else ""
        for name in CARD_METRICS:
            if name in cell:
                found[prefix + name] = {"value": cell[name]["value"], "ci": cell[name]["ci"]}
    return found


def training_clips(
    run: Run, clip_ids: Sequence[str], columns: Mapping[str, str], *, unit_norm: bool = False
) -> TrainingClips:
    """The clips that a kept model was trained on, with the scores of a run's fits without them.

    `columns` names, for each tested task, the column of the kept model that its score belongs to,
    "" for none.
    A clip that several fits tested (repeats, seeds, several splits) gets the mean of their scores.
    With `unit_norm` margins of linear machines become distances, as those of a concept bank are.
    """
    scores: dict[str, Floats] = {}
    for cell in run.cells:
        if columns.get(cell["test"]):
            found = _mean_scores(run, cell, unit_norm)
            values = [found.get(clip, math.nan) for clip in clip_ids]
            scores[columns[cell["test"]]] = np.array(values, dtype=np.float64)
    return TrainingClips(tuple(clip_ids), scores)


def _mean_scores(run: Run, cell: Record, unit_norm: bool) -> dict[str, float]:
    """The mean score of each clip over the fits of a cell that were not trained on it."""
    folds = {(fold["fold"], fold["seed"]): fold for fold in cell["folds"]}
    found = defaultdict(list)
    for row in run.predictions:
        if any(row[key] != cell[key] for key in ("train", "test", "model", "feature")):
            continue
        fold = folds[row["fold"], int(row["seed"])]
        if fold["leaked"]:  # some of its test clips trained, and which ones is not known
            continue
        score, facts = float(row["score"]), fold["chosen"]
        if unit_norm:
            score = (score + facts["bias_shift"]) / facts["length"]
        found[row["clip_id"]].append(score)
    return {clip: fmean(scores) for clip, scores in found.items()}
