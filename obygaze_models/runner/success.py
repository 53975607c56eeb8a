"""The rows of success.csv: decisions regressed on levels and concepts of the clips."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from obygaze_features.manifest.clip_table import find_rows
from obygaze_features.manifest.model import disputed_names
from obygaze_models.evaluation.basis import has_interval, no_interval_because
from obygaze_models.evaluation.clip_scores import clip_scores
from obygaze_models.evaluation.error_analysis import (
    LEVEL_FACTORS,
    analyse_success,
    level_contrasts,
    paper_factors,
)
from obygaze_models.evaluation.results import CellName
from obygaze_models.evaluation.tables import CELL, RunRow, number_of_groups
from obygaze_models.protocols.clips import TaskClips

if TYPE_CHECKING:
    import pandas as pd


def success_rows(
    tests: "pd.DataFrame", bases: Mapping[CellName, str], table: TaskClips
) -> Iterator[RunRow]:
    """Yield the rows of success.csv of each model.

    Clips on whose level or concepts annotators differ are excluded.
    """
    names = ("level", *table.concept_names)
    is_decided = np.array(
        [disputed_names(clip).isdisjoint(names) for clip in table.clips]
    )
    has_groups = number_of_groups(table.groups) > 0
    for name, of_model in tests[tests["is_model"]].groupby([*CELL], sort=False):
        basis = bases[name]
        scores = clip_scores(of_model)
        rows = find_rows(scores.ids, table.ids)
        decided = is_decided[rows]
        if not decided.any():
            continue
        clips = rows[decided]
        is_correct = (scores.is_positive == scores.y)[decided]
        has_concept = table.has_concept[clips].T
        concepts = dict(zip(table.concept_names, has_concept, strict=True))
        factors = paper_factors(concepts, table.levels[clips].tolist())
        # If each clip has one of the three levels, the factors of the levels are intercepts, and a
        # further intercept would be redundant.
        is_levelled = bool(np.all(sum(factors[name] for name in LEVEL_FACTORS) == 1))
        films = table.groups[clips]
        results = analyse_success(is_correct, factors, films, intercept=not is_levelled)
        if is_levelled and results[0].factors:
            contrasts = level_contrasts(is_correct, factors, films)
            of_all_films = (*results[0].factors, *contrasts)
            results[0] = replace(results[0], factors=of_all_films)
        for result in results:
            if not result.film:
                continue
            row: RunRow = {
                "task": name[1],
                **dict(zip(CELL, name, strict=True)),
                "film": result.film,
                "all_clips": result.n,
                "successes": result.n_success,
                "method": result.method,
                "errors": result.errors,
                "note": result.note or no_interval_because(basis),
            }
            if not is_levelled or not result.factors:
                yield {**row, "factor": "intercept", "log_odds": result.intercept}
            for item in result.factors:
                of_factor: RunRow = {**row, "factor": item.name, "clips": item.n}
                of_factor["log_odds"] = item.log_odds
                if has_groups and has_interval(basis):
                    of_factor |= {"se": item.se, "low": item.low, "high": item.high}
                    of_factor["p"] = item.p
                yield of_factor
            for factor, reason in result.left_out.items():
                yield {**row, "factor": factor, "note": f"excluded: {reason}"}
