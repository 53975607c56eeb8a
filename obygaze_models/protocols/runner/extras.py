"""The further records of a run: missing clips, several tasks as one, analysis of errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.bootstrap import resample
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.runner.cells import Cell
from obygaze_models.protocols.runner.features import Features
from obygaze_models.protocols.runner.records import Record
from obygaze_models.protocols.schedule import Labels
from obygaze_models.protocols.schema import Protocol

LENGTH = "length (doubling)"


def coverage(
    features: Features, labels: Labels, table: ClipTable, usable: NDArray[np.bool_]
) -> Record:
    """Return the record of the clips without a vector in a store, with their tasks."""
    row = {clip: number for number, clip in enumerate(table.ids)}
    missing = []
    for clip, reason in features.missing.items():
        tasks = [name for name, own in labels.items() if own[row[clip]] >= 0]
        missing.append({"clip_id": clip, "reason": reason, "tasks": tasks})
    return {
        "kind": "coverage",
        "feature": features.name,
        "n_clips": len(table),
        "n_present": int(features.present.sum()),
        "n_missing": len(missing),
        "n_missing_in_tasks": sum(bool(item["tasks"]) for item in missing),
        "n_unused": int((features.present & ~usable).sum()),
        "reasons": dict(Counter(features.missing.values()).most_common()),
        "missing": missing,
    }


def argmax_records(
    protocol: Protocol, cells: Sequence[Cell], groups: NDArray[np.str_]
) -> list[Record]:
    """Return records of one-against-rest tasks as one: the class with the highest score."""
    tasks = protocol.report.argmax
    records = []
    for model, feature in dict.fromkeys((cell.model, cell.feature) for cell in cells):
        own = {c.task: c for c in cells if (c.model, c.feature) == (model, feature)}
        if len(tasks) > 1 and set(tasks) <= own.keys():
            records += _argmax([own[task] for task in tasks], protocol, groups)
    return records


def _argmax(cells: Sequence[Cell], protocol: Protocol, groups: NDArray[np.str_]) -> list[Record]:
    universe = cells[0].universe
    for cell in cells[1:]:
        universe = np.intersect1d(universe, cell.universe)
    truth = np.stack([c.y[np.searchsorted(c.universe, universe)] for c in cells], axis=1)
    kept = truth.sum(axis=1) == 1
    universe, truth = universe[kept], truth[kept]
    if not len(universe):
        return []  # no clip was tested for all tasks
    scores = np.stack([c.mean_scores[np.searchsorted(c.universe, universe)] for c in cells], 1)
    true, called = truth.argmax(axis=1), scores.argmax(axis=1)
    table = np.zeros((len(cells), len(cells)), dtype=int)
    np.add.at(table, (true, called), 1)
    right = (true == called).astype(np.float64)
    drawn = resample(
        lambda weights: {"accuracy": weights @ right / weights.sum(axis=1)},
        groups[universe],
        n_replicates=protocol.report.replicates,
        level=protocol.report.confidence,
        within_unit=True,
        inflation=max(cell.inflation for cell in cells),
    )
    hits, sizes, calls = np.diag(table), table.sum(axis=1), table.sum(axis=0)
    record = {
        "kind": "argmax",
        "model": cells[0].model,
        "feature": cells[0].feature,
        "tasks": [cell.task for cell in cells],
        "n_test": len(universe),
        "accuracy": float(right.mean()),
        "f1_macro": float(np.mean(2 * hits / np.maximum(sizes + calls, 1))),
        "ci": [drawn["accuracy"][0].low, drawn["accuracy"][0].high],
        "majority": float(sizes.max() / max(sizes.sum(), 1)),
        "confusion": table.tolist(),
    }
    return [record]


def analyses(protocol: Protocol, cells: Sequence[Cell], table: ClipTable) -> list[Record]:
    """Return regressions of success on levels, concepts and length, for each cell."""
    if not protocol.report.error_analysis:
        return []
    from obygaze_models.evaluation.error_analysis import LEVEL_FACTORS, analyse_success

    records = []
    for cell in cells:
        threshold = 0.5 if cell.tested[0].are_probabilities else 0.0
        success = (cell.mean_scores > threshold) == cell.y
        factors, unknown = _factors(protocol, table, cell.universe)
        films = table.movies[cell.universe]
        # Where each clip has one of the three levels, these are an intercept for each level.
        levelled = bool(np.all(sum(factors[name] for name in LEVEL_FACTORS) == 1))
        for found in analyse_success(success, factors, films, intercept=not levelled):
            own = asdict(found)
            own["collinear"] = found.is_collinear
            own["left_out"] = {**own["left_out"], **unknown}
            record = {"kind": "analysis", "model": cell.model, "feature": cell.feature}
            records.append({**record, "train": cell.train, "test": cell.test, **own})
    return records


def _factors(
    protocol: Protocol, table: ClipTable, rows: NDArray[np.intp]
) -> tuple[dict[str, NDArray[np.float64]], dict[str, str]]:
    """Return the factors, and why a further one is not known.

    They are the eleven of the paper; except in its own protocols, also the length of a clip (a
    logarithm to base 2, so that its coefficient is per doubling).
    """
    from obygaze_models.evaluation.error_analysis import paper_factors

    concepts = {
        name: table.has_concept[rows, column] for column, name in enumerate(table.concept_names)
    }
    factors = paper_factors(concepts, [table.levels[row] for row in rows])
    if protocol.splits.follow_paper:
        return factors, {}
    lengths = lengths_s(table, rows)
    if not (np.isfinite(lengths) & (lengths > 0)).all():
        return factors, {LENGTH: "the manifest has no times of some clips"}
    return {**factors, LENGTH: np.log2(lengths)}, {}


def lengths_s(table: ClipTable, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the length of clips in seconds, of film or of shots; NaN where it is unknown."""
    found = []
    for row in rows:
        clip = table.clips[row]
        start, end = clip.start_s, clip.end_s
        if start is None or end is None:
            cells = [clip.extra.get(name, "") for name in ("film_start_s", "film_end_s")]
            start, end = (float(cell) if cell else None for cell in cells)
        known = start is not None and end is not None
        found.append(end - start if known and end is not None and start is not None else np.nan)
    return np.array(found, dtype=np.float64)
