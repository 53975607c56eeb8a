"""What is inside the bottlenecks of a run: concept vectors, their heads, what leaks through them.

What is judged here is judged on films that the vectors were not found on: each film in turn is left
out (from thirteen films on, some go together), and heads that are judged saw other films too. The
vectors and heads that are shown are found on all clips: they are to be looked at, and the cells of
the run say how well such a model does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.files import canonical_json
from obygaze_models.models.common import FixTraining
from obygaze_models.models.registry import BANK, build_bank
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.kinds import candidates
from obygaze_models.protocols.runner.banks import (
    MIN_ROWS,
    targets_of,
)
from obygaze_models.protocols.runner.features import Features
from obygaze_models.protocols.runner.head_records import head_record
from obygaze_models.protocols.runner.records import Record
from obygaze_models.protocols.schedule import Labels
from obygaze_models.protocols.schema import Protocol

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MOST_PARTS = 12


def concept_records(
    protocol: Protocol, stores: Sequence[Features], table: ClipTable, labels: Labels
) -> list[Record]:
    """The records on concepts and heads, where a protocol asks for them and has bottlenecks."""
    if not protocol.report.concepts or not table.concept_names:
        return []
    records: list[Record] = []
    for features in stores:
        for settings, models in _banks(protocol):
            base = {"kind": "anatomy", "feature": features.name, "models": models}
            try:
                opened = find_vectors(features, table, settings, protocol.fit.seed)
            except FixTraining as error:
                records.append({**base, "part": "concepts", "concepts": [], "note": error.what})
                continue
            records.append({**base, **_concepts(opened, protocol.report.replicates)})
            records += _heads(protocol, opened, models, labels)
    return records


@dataclass(frozen=True, eq=False)
class FoundVectors:
    """Concept vectors of one store: found on all clips, and margins by vectors of other films.

    Rows are those of the store's matrix; `parts` is the number of the part a row was left out with.
    """

    features: Features
    table: ClipTable
    settings: Mapping[str, Any]
    known: list[int]
    left_out: Mapping[str, str]
    bank: Any
    targets: Ints
    margins: Floats
    parts: Ints
    part_names: tuple[str, ...]
    part_cosines: Floats
    seed: int

    @property
    def names(self) -> list[str]:
        """The concepts that have a vector."""
        return [self.table.concept_names[column] for column in self.known]

    @property
    def clips(self) -> NDArray[np.intp]:
        """The row of the clip table of each row."""
        return np.flatnonzero(self.features.present)

    @property
    def films(self) -> NDArray[np.str_]:
        """The film of each row."""
        return self.table.movies[self.clips]

    @property
    def has(self) -> NDArray[np.bool_]:
        """Which of the known concepts each row has."""
        return self.table.has_concept[self.clips][:, self.known]


def find_vectors(
    features: Features, table: ClipTable, settings: Mapping[str, Any], seed: int
) -> FoundVectors:
    """Find the vectors on all clips, and again without each part."""
    from obygaze_models.models.linear_solvers import Gram

    films = table.movies[features.present]
    parts, part_names = _parts(films)
    targets = targets_of(features, table, settings["against"])
    known, left_out = _known(targets, parts, table.concept_names)
    if not known:
        raise FixTraining("no concept has clips enough, in films enough, to be found and judged")
    names = [table.concept_names[column] for column in known]
    gram, targets = Gram(features.X), targets[:, known]
    bank = build_bank(settings, names, seed=seed)
    bank.fit_rows(gram, targets, np.arange(len(targets)), films)
    # Tolerances are found once, as for the cells; vectors anew for each part.
    tolerances = dict(zip(names, bank.C_.tolist(), strict=True))
    margins = np.empty(targets.shape)
    likeness = np.empty((len(part_names), len(known)))
    for part in range(len(part_names)):
        inside = parts == part
        one = build_bank(settings, names, tolerance=tolerances, seed=seed)
        one.fit_rows(gram, targets, np.flatnonzero(~inside), films)
        margins[inside] = gram.X[inside] @ one.coef_.T + one.intercept_
        likeness[part] = _cosine_rows(one.coef_, bank.coef_)
    return FoundVectors(
        *(features, table, settings, known, left_out, bank),
        *(targets, margins, parts, part_names, likeness, seed),
    )


def _banks(protocol: Protocol) -> list[tuple[dict[str, Any], list[str]]]:
    """Each kind of concept vectors that the models of a protocol stand on, and those models."""
    found: dict[bytes, tuple[dict[str, Any], list[str]]] = {}
    for name in protocol.model_names:
        settings = protocol.models[name].settings
        if "tolerance" in settings:
            own = {key: candidates(settings)[0][key] for key in BANK}
            found.setdefault(canonical_json(own), (own, []))[1].append(name)
    return list(found.values())


def _parts(films: NDArray[np.str_]) -> tuple[Ints, tuple[str, ...]]:
    """A film is a part, or several are; the clips of a single film fall into five stretches."""
    names, codes = np.unique(films, return_inverse=True)
    if len(names) == 1:
        stretch = np.arange(len(films)) * 5 // max(len(films), 1)
        return stretch.astype(np.int64), tuple(f"part {i + 1}" for i in range(5))
    n_parts = min(len(names), MOST_PARTS)
    joined = [" ".join(names[i::n_parts].tolist()) for i in range(n_parts)]
    return (codes % n_parts).astype(np.int64), tuple(joined)


def _known(targets: Ints, parts: Ints, names: Sequence[str]) -> tuple[list[int], dict[str, str]]:
    known, left_out = [], {}
    for column, name in enumerate(names):
        told = targets[:, column]
        rest = [told[parts != part] for part in np.unique(parts)]
        if min((told == value).sum() for value in (0, 1)) < MIN_ROWS:
            left_out[name] = f"{(told == 1).sum()} clips with it, {(told == 0).sum()} without"
        elif not all({0, 1} <= set(own.tolist()) for own in rest):
            left_out[name] = "all clips with it are of one part"
        else:
            known.append(column)
    return known, left_out


def _cosine_rows(first: Floats, second: Floats) -> Floats:
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    found: Floats = np.einsum("ij,ij->i", first, second) / lengths
    return found


def _concepts(opened: FoundVectors, n_replicates: int) -> Record:
    from obygaze_models.models.concept_report import co_occurrence, concept_matrix, cosines

    return {
        "part": "concepts",
        "settings": dict(opened.settings),
        "n_parts": len(opened.part_names),
        "concepts": list(_qualities(opened, n_replicates)),
        "left_out": dict(opened.left_out),
        "cosines": cosines(opened.bank.coef_).tolist(),
        "purity": concept_matrix(opened.margins, opened.targets).tolist(),
        "co_occurrence": co_occurrence(opened.targets).tolist(),
        "film_leak": _film_leak(opened),
        "note": "",
    }


def _qualities(opened: FoundVectors, n_replicates: int) -> Iterator[Record]:
    from obygaze_models.models.concept_report import concept_quality

    scenes = opened.table.scenes
    places = np.arange(len(opened.table)) if scenes is None else scenes
    order = np.lexsort((places[opened.clips], opened.films))  # clips of a film in its order
    found = concept_quality(
        opened.margins[order],
        opened.targets[order],
        opened.films[order],
        opened.names,
        n_replicates=n_replicates,
        seed=opened.seed,
        n_folds=len(opened.part_names),
    )
    for column, one in enumerate(found):
        cosine = opened.part_cosines[:, column]
        metrics = {
            name: {"value": e.value, "ci": [e.by_movie.low, e.by_movie.high]}
            for name, e in one.metrics.items()
        }
        yield {
            "name": one.concept,
            "n": one.n,
            "n_positive": one.n_positive,
            "prevalence": one.prevalence,
            **metrics,
            "auc_against_EN": _auc(opened, column, "EN"),
            "auc_against_without": _auc(opened, column, "HN+S"),
            "p": one.p,
            "p_holm": one.p_holm,
            "tolerance": opened.bank.C_[column],
            "stability": {
                "mean": cosine.mean(),
                "least": cosine.min(),
                "without": opened.part_names[int(cosine.argmin())],
            },
        }


def _auc(opened: FoundVectors, column: int, against: str) -> float | None:
    """The same margins against one kind of clips: those without any concept, or without this."""
    from sklearn.metrics import roc_auc_score

    told = targets_of(opened.features, opened.table, against)[:, opened.known[column]]
    rows = told >= 0
    if len(np.unique(told[rows])) < 2:
        return None
    return float(roc_auc_score(told[rows], opened.margins[rows, column]))


def _film_leak(opened: FoundVectors) -> Record | None:
    from obygaze_models.models.concept_report import film_leak

    try:
        # One set of vectors for all films: those found without a film would name that film.
        margins = opened.bank.transform(opened.features.X)
        found = film_leak(margins, opened.films, seed=opened.seed)
    except FixTraining:
        return None
    return {
        "balanced_accuracy": found.balanced_accuracy,
        "chance": found.chance,
        "n_films": found.n_films,
        "excess": found.excess,
    }


def _heads(
    protocol: Protocol, opened: FoundVectors, models: Sequence[str], labels: Labels
) -> Iterator[Record]:
    for name in models:
        for task in dict.fromkeys(pair[0] for pair in protocol.pairs):
            record = head_record(protocol.models[name], opened, task, labels[task])
            if record:
                base = {"kind": "anatomy", "part": "head", "feature": opened.features.name}
                yield {**base, "model": name, **record}
