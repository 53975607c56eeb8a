"""Hands a fitted model to the zoo: the estimator, and the facts that its card tells."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from obygaze_features.manifest.model import Header
from obygaze_models.models.state import save_state
from obygaze_models.protocols.runner.final import Fitted
from obygaze_models.zoo.info import FeatureSpec, ModelInfo, TrainingData
from obygaze_models.zoo.saving import save_model

TOLD = ("f1_binary", "f1_weighted", "ap", "auc", "brier", "ece")


def keep(fitted: Fitted, header: Header, folder: Path, *, force: bool = False) -> Path:
    """Save a fitted model as a folder of the zoo."""
    save_state(fitted.model)  # what cannot be saved is told before anything is written
    info = model_info(fitted, header, folder.name)
    return save_model(fitted.model, info, folder, clips=fitted.clips, force=force)


def model_info(fitted: Fitted, header: Header, name: str) -> ModelInfo:
    """What the card of a fitted model says."""
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
    """What the fits that were tested had not been trained on."""
    if splits["kind"] in ("kfold", "published", "fixed") or splits["group"] != "movie_id":
        return "clips it had not seen, of films it may have seen"
    return "films it had not seen"


def _metrics(fitted: Fitted) -> dict[str, dict[str, object]]:
    """Value and interval of each metric; of several tasks, under the name of each."""
    told = {}
    for cell in fitted.metrics:
        prefix = f"{cell['test']}: " if len(fitted.metrics) > 1 else ""
        for name in TOLD:
            if name in cell:
                told[prefix + name] = {"value": cell[name]["value"], "ci": cell[name]["ci"]}
    return told
