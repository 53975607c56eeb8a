"""The model card: what a saved model is, in the form the Hugging Face hub shows."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from obygaze_models.zoo.info import ModelInfo
from obygaze_models.zoo.training_clips import TrainingClips

USE = """\
It tells apart clips as the annotators of its training data did. Use it to study how films
construct the gaze, to find clips worth looking at, and as a baseline. It looks at features of
whole clips, not at persons."""
LIMITS = """\
- It has seen {n_movies} films; on films unlike them nothing is known of it.
- The labels are judgements of a few experts; they disagree on some clips, and so will you.
- It reads features of one backbone recipe only. Other features are refused, not guessed at.
- It must not be used to judge, filter or rank people, nor to decide anything about them."""


def card_text(info: ModelInfo, clips: TrainingClips | None = None) -> str:
    """The card as Markdown with the hub's header; `clips` are those the model was trained on."""
    header = {
        "library_name": "obygaze",
        "tags": ["obygaze", "video", "film-studies", info.kind],
        "datasets": [info.training.manifest],
        "license": "other",
    }
    parts = [
        "---",
        *(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in header.items()),
        "---",
        "",
        f"# {info.name}",
        "",
        f"A {info.kind} for the task **{info.task}** ({' against '.join(info.classes)}).",
        "",
        "## Intended use",
        "",
        USE,
        "",
        "## Features",
        "",
        f"Level `{info.features.level}` ({info.features.width} numbers a clip) of the backbone"
        f" `{info.features.backbone}`, recipe fingerprint `{info.features.fingerprint}`.",
        "",
        *_concepts(info),
        "## Training data",
        "",
        _training(info),
        "",
        "## How well it does",
        "",
        *_metrics(info.metrics),
        "",
        "## Limits",
        "",
        LIMITS.format(n_movies=info.training.n_movies),
        *(f"- {note}" for note in info.notes),
        "",
        "## Use",
        "",
        "```sh",
        f"obygaze models predict {info.name} STORE > predictions.csv",
        "```",
        "",
        _on_training_clips(clips),
    ]
    return "\n".join(parts) + "\n"


def _on_training_clips(clips: TrainingClips | None) -> str:
    if clips is None:
        return (
            "This model does not list its training clips and has no out-of-fold scores. Clips of"
            " films it was trained on are refused, unless `--in-sample` is given."
        )
    return (
        f"It lists its {len(clips)} training clips, with out-of-fold scores for"
        f" {int(clips.has_score.sum())} of them: the scores of fits that were not trained on the"
        " clip. For these clips the command prints the out-of-fold score; training clips without"
        " one are refused, unless `--in-sample` is given."
    )


def _concepts(info: ModelInfo) -> list[str]:
    if not info.concepts:
        return []
    return ["## Concepts", "", ", ".join(info.concepts) + ".", ""]


def _training(info: ModelInfo) -> str:
    training = info.training
    text = (
        f"{training.n_clips} clips of {training.n_movies} films of the manifest"
        f" `{training.manifest}` (sha256 `{training.manifest_sha256}`, {training.view} view)."
    )
    if info.protocol:
        text += f" Protocol: `{info.protocol}`."
    if training.licence:
        text += f" Licence of the data: {training.licence}."
    return f"{text}\n\n{training.citation}" if training.citation else text


def _metrics(metrics: Mapping[str, Mapping[str, Any]]) -> list[str]:
    if not metrics:
        return ["It was not measured on clips that it had not seen."]
    rows = ["| metric | value | interval over films |", "|---|---|---|"]
    for name, found in metrics.items():
        interval = found.get("ci")
        shown = "-" if not interval else " to ".join(_number(end) for end in interval)
        rows.append(f"| {name} | {_number(found.get('value'))} | {shown} |")
    return rows


def _number(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, int | float) and math.isfinite(value) else "-"
