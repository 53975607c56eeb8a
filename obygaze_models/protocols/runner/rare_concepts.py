"""Concepts that too few training clips have, so that bottlenecks do without them."""

import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from obygaze_features.core.console import count
from obygaze_features.core.errors import ObygazeWarning
from obygaze_models.evaluation.predictions import IntArray
from obygaze_models.models.registry import find_kind
from obygaze_models.protocols.kinds import candidates, for_task
from obygaze_models.protocols.runner.banks import (
    MIN_ROWS,
    example_counts,
    targets_of,
)
from obygaze_models.protocols.runner.execute import FitContext

Counts = tuple[int, int]  # the clips of a fold with a concept, and those without


@dataclass(frozen=True)
class RareConcepts:
    """The concepts that bottlenecks on one store do without in some fold.

    `counts` are those of each fold that leaves a concept out. Folds that find concept vectors on
    the same clips are one fold. `n_cells` is the number of cells of bottlenecks.
    """

    feature: str
    n_cells: int
    n_folds: int
    counts: Mapping[str, Sequence[Counts]]

    def __str__(self) -> str:
        listed = ", ".join(
            f"{name} ({self._about(counts)})" for name, counts in self.counts.items()
        )
        return (
            f"Bottlenecks on {self.feature} do without concepts that fewer than {MIN_ROWS} "
            f"training clips have or lack: {listed}."
        )

    def _about(self, counts: Sequence[Counts]) -> str:
        n_with = [n for n, _ in counts]
        n_without = [n for _, n in counts]
        is_too_rare = max(n_with) < MIN_ROWS
        numbers = n_with if is_too_rare else n_without
        side = "with" if is_too_rare else "without"
        least = min(numbers)
        most = max(numbers)
        clips = count(most, "clip") if least == most else f"{least} to {most} clips"
        return f"{clips} {side} it, in {len(counts)} of {self.n_folds} folds"


def rare_concepts(context: FitContext) -> RareConcepts | None:
    """Return the concepts that bottlenecks do without in some fold; None where there are none."""
    models = [m for m in context.models.values() if find_kind(m.kind).head]
    if context.features is None or not models:
        return None
    banks = context.new_banks()
    # The clips of each fold, by those clips and by what clips with a concept are compared with.
    rows_of_folds: dict[tuple[str, bytes], IntArray] = {}
    for ((train, _), _, split), model in product(context.folds, models):
        joins = context.joins_validation(model)
        data = context.fold_data(train, split, join_validation=joins)
        rows = context.features.row_of[banks.bank_rows(data)]
        for settings in candidates(model):
            against = for_task(model.kind, settings, train)["against"]
            rows_of_folds[against, rows.tobytes()] = rows
    targets = {}
    for against in {against for against, _ in rows_of_folds}:
        targets[against] = targets_of(context.features, context.table, against)
    # A concept of the vocabulary that this manifest never uses is no news of a fold.
    n_clips_with = context.table.has_concept.sum(axis=0).tolist()
    n_clips_of = dict(zip(context.table.concept_names, n_clips_with, strict=True))
    counts: dict[str, list[Counts]] = defaultdict(list)
    for (against, _), rows in rows_of_folds.items():
        by_concept = example_counts(targets[against][rows])
        for name, of_concept in zip(
            context.table.concept_names, by_concept, strict=True
        ):
            if n_clips_of[name] and min(of_concept) < MIN_ROWS:
                counts[name].append(of_concept)
    if not counts:
        return None
    n_cells = len(models) * len(context.protocol.pairs)
    return RareConcepts(context.feature, n_cells, len(rows_of_folds), dict(counts))


def warn_of_rare_concepts(contexts: Sequence[FitContext]) -> None:
    """Warn of the concepts that bottlenecks do without, before the fits begin."""
    for context in contexts:
        rare = rare_concepts(context)
        if rare is not None:
            warnings.warn(str(rare), ObygazeWarning, stacklevel=3)
