"""What makes a clip difficult: the success of each cell regressed on levels and concepts."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

import numpy as np

from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.results.success import FactorRecord, SuccessRegression
from obygaze_models.protocols.runner.cells import Cell
from obygaze_models.protocols.schema import Protocol


def success_records(
    protocol: Protocol, cells: Sequence[Cell], table: ClipTable
) -> Iterator[SuccessRegression]:
    """Yield regressions of success on levels and concepts, for each cell."""
    if not protocol.report.error_analysis:
        return
    from obygaze_models.evaluation.error_analysis import (
        LEVEL_FACTORS,
        analyse_success,
        paper_factors,
    )

    for cell in cells:
        threshold = 0.5 if cell.tested[0].are_probabilities else 0.0
        success = (cell.mean_scores > threshold) == cell.y
        rows = cell.universe
        concepts = dict(
            zip(table.concept_names, table.has_concept[rows].T, strict=True)
        )
        factors = paper_factors(concepts, table.levels[rows].tolist())
        # Where each clip has one of the three levels, these are an intercept for each level.
        levelled = bool(np.all(sum(factors[name] for name in LEVEL_FACTORS) == 1))
        results = analyse_success(
            success, factors, table.films[rows], intercept=not levelled
        )
        for result in results:
            yield SuccessRegression(
                model=cell.model,
                feature=cell.feature,
                train=cell.train,
                test=cell.test,
                film=result.film,
                n=result.n,
                n_success=result.n_success,
                factors=[FactorRecord(**asdict(item)) for item in result.factors],
                intercept=result.intercept,
                method=result.method,
                errors=result.errors,
                left_out=result.left_out,
                note=result.note,
            )
