"""The out-of-fold scores of a run, for the model that is kept of it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np

from obygaze_models.protocols.runner.records import Record, Run
from obygaze_models.zoo.training_clips import Floats, TrainingClips


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
