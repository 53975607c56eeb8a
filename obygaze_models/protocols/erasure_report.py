"""The honest test of erased concepts: each film by erasers and probes of the other films."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.console import (
    MISSING,
    Progress,
    count,
    table,
    with_interval,
)
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.schema_rules import near
from obygaze_features.core.workspace import last_part
from obygaze_features.manifest import Manifest
from obygaze_features.manifest.model import View
from obygaze_features.store import Store
from obygaze_models.evaluation.bootstrap import (
    FEW_GROUPS,
    resample,
    reuse_inflation,
)
from obygaze_models.evaluation.predictions import FloatArray, IntArray
from obygaze_models.models.common import FixTraining, one_thread
from obygaze_models.models.erasure import MIN_ROWS, fit_eraser
from obygaze_models.models.linear import RidgeProbe
from obygaze_models.models.mlp import MLPProbe
from obygaze_models.protocols.clips import clip_table, task_labels
from obygaze_models.protocols.datasets import honest_task
from obygaze_models.protocols.runner.banks import targets_of
from obygaze_models.protocols.runner.features import join
from obygaze_models.protocols.runner.processes import fitting, map_jobs
from obygaze_models.protocols.schema import AUTO, Data

LINEAR = "linear"
PERCEPTRON = "perceptron"
# Of the training films, one in this many trains a new probe, and the others fit its eraser.
N_PARTS = 3
REPLICATES = 2000
# Scores of a probe that finds nothing differ in digits below these only.
ROUNDING = 9


@dataclass(frozen=True)
class FilmAuc:
    """An AUC within films, or a difference of two, with its interval over films.

    Each film counts by its pairs of a positive and a negative clip. There is no interval where all
    films have the same value, as those of a probe that finds nothing, or where there are two films.
    """

    value: float
    low: float | None
    high: float | None
    n_films: int


@dataclass(frozen=True)
class ErasedTarget:
    """A concept or a task before and after erasing.

    Attributes:
        name: The concept or the task.
        role: "erased", "concept" or "task".
        probe: "linear" or "perceptron".
        n_clips: The clips with a label.
        n_positive: Those of them that are positive.
        before: By a probe of the features as they are.
        after: By a probe of erased features; it learns from the films of the eraser.
        lost: Before minus after.
        old_probe: Of erased features, by the probe of the features as they are.
        new_probe: By probes that learn from films that the eraser was not fitted on.
    """

    name: str
    role: str
    probe: str
    n_clips: int
    n_positive: int
    before: FilmAuc
    after: FilmAuc
    lost: FilmAuc
    old_probe: FilmAuc | None
    new_probe: FilmAuc | None


@dataclass(frozen=True)
class WrittenStore:
    """A store of erased features, and the number of clips that its eraser was fitted on.

    `n_present` blocks were in the store before, `n_copied` were written.
    """

    path: str
    n_fitted: int
    n_present: int = 0
    n_copied: int = 0


@dataclass(frozen=True)
class ErasureReport:
    """What erasing concepts does to a linear probe and a perceptron on unseen films.

    Attributes:
        concepts: The concepts that are erased.
        eraser: "leace" or "mean".
        array: The array of the store.
        n_clips: The clips with features.
        n_films: The films; each was tested by the others.
        targets: The erased concepts, all others, and the task.
        left_out: Concepts with too few clips to be tested, and why.
        written: The store of the erased features, where one was written.
    """

    concepts: Sequence[str]
    eraser: str
    array: str
    n_clips: int
    n_films: int
    targets: Sequence[ErasedTarget]
    left_out: Mapping[str, str]
    written: WrittenStore | None = None

    def of(self, name: str, probe: str = LINEAR) -> ErasedTarget:
        """Return a concept or the task by its name and its probe."""
        for target in self.targets:
            if target.name == name and target.probe == probe:
                return target
        known = ", ".join(f"{target.name} ({target.probe})" for target in self.targets)
        raise FixUsage(f"no test of {name!r} by {probe!r}", hint=f"one of {known}")

    def to_json(self) -> dict[str, Any]:
        """Return the output of `obygaze erase --json`."""
        return asdict(self)

    def __str__(self) -> str:
        return report_text(self)

    @property
    def notes(self) -> list[str]:
        """The concepts that were not tested, and what the store must not be used for."""
        notes = [f"{name} was not tested: {why}" for name, why in self.left_out.items()]
        if self.written is not None:
            notes.append(
                f"{self.written.path}: its eraser was fitted on all films, "
                f"{self.written.n_fitted} clips. Tests on these films are not honest there; "
                "data.erase of a protocol fits on training films"
            )
        return notes

    @property
    def warnings(self) -> list[str]:
        """That the store was there before, if it was."""
        from obygaze_features.store.write.edit import text_of_present

        written = self.written
        if written is None or not written.n_present:
            return []
        return [text_of_present(written.path, written.n_present, written.n_copied)]


@dataclass(frozen=True, eq=False)
class ClipsToErase:
    """Features of clips with their films, and what is erased and tested.

    `targets` are 1 positive, 0 negative, -1 not used: a row for each clip, a column for each name.
    """

    X: FloatArray
    films: NDArray[np.str_]
    array: str
    manifest: str
    eraser: str
    erased: Sequence[str]
    roles: Mapping[str, str]
    targets: Mapping[str, NDArray[np.int64]]
    left_out: Mapping[str, str]

    @cached_property
    def film_names(self) -> list[str]:
        """The films, in alphabetical order."""
        names: list[str] = np.unique(self.films).tolist()
        return names

    @property
    def erased_targets(self) -> NDArray[np.int64]:
        """A column for each erased concept."""
        return np.column_stack([self.targets[name] for name in self.erased])

    def erased_by(self, rows: IntArray) -> FloatArray:
        """Return all features after an eraser that was fitted on some rows."""
        fitted = fit_eraser(
            self.eraser, self.X[rows], self.erased_targets[rows], self.erased
        )
        return fitted.transform(self.X)


class Tested(NamedTuple):
    """The AUC of one film, by the name of what is tested, the probe and the features."""

    name: str
    probe: str
    features: str  # "before", "after", "old" or "new"


def read_clips(
    store: Store,
    manifest: Manifest,
    concepts: Sequence[str],
    task: str,
    eraser: str,
    view: View | None,
    array: str | None,
) -> ClipsToErase:
    """Return the clips of a store, with all concepts of a manifest and a task."""
    if not concepts:
        raise FixUsage("no concept to erase is named", hint="obygaze erase --help")
    data = Data(view=view or AUTO, array=(array,) if array else Data().array)
    chosen_task = honest_task(task)
    clips = clip_table(manifest, data)
    for name in concepts:
        if name not in clips.concept_names:
            raise FixInput(
                f"unknown concept {name!r}{near(name, clips.concept_names)}",
                where=manifest.name,
                hint=f"one of {', '.join(clips.concept_names)}",
            )
    features = join("features", store, clips, data)
    rows = np.flatnonzero(features.present)
    films = clips.films[rows]
    n_films = len(np.unique(films))
    if n_films < 3:
        raise FixInput(
            f"{count(n_films, 'film')} with features, but a test needs 3 or more",
            where=manifest.name,
        )
    of_concepts = targets_of(features, clips, "absent")
    names = dict.fromkeys([*concepts, *clips.concept_names])
    targets: dict[str, NDArray[np.int64]] = {}
    roles: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for name in names:
        column = of_concepts[:, clips.concept_names.index(name)]
        problem = _problem(column, films)
        if problem and name in concepts:
            raise FixInput(f"{name!r} cannot be erased: {problem}", where=manifest.name)
        if problem:
            left_out[name] = problem
            continue
        targets[name] = column
        roles[name] = "erased" if name in concepts else "concept"
    labels = task_labels(task, chosen_task, clips)[rows].astype(np.int64)
    problem = _problem(labels, films)
    if problem:
        left_out[task] = problem
    else:
        targets[task] = labels
        roles[task] = "task"
    return ClipsToErase(
        X=np.asarray(features.X, dtype=np.float64),
        films=films,
        array=str(features.origin["array"]),
        manifest=manifest.name,
        eraser=eraser,
        erased=list(dict.fromkeys(concepts)),
        roles=roles,
        targets=targets,
        left_out=left_out,
    )


def _problem(target: NDArray[np.int64], films: NDArray[np.str_]) -> str:
    """Return why films cannot be tested in turn, or an empty text."""
    n_positive = int((target == 1).sum())
    n_negative = int((target == 0).sum())
    with_both = [f for f in np.unique(films) if _has_both(target[films == f])]
    if min(n_positive, n_negative) < 2 * MIN_ROWS or len(with_both) < 2:
        return (
            f"{n_positive} clips with it and {n_negative} without, both in "
            f"{count(len(with_both), 'film')}; {2 * MIN_ROWS} of each and 2 films are required"
        )
    return ""


def _has_both(target: NDArray[np.int64], least: int = 1) -> bool:
    n_positive = int((target == 1).sum())
    n_negative = int((target == 0).sum())
    return min(n_positive, n_negative) >= least


def report_of(
    data: ClipsToErase, written: WrittenStore | None, n_jobs: int, progress: Progress
) -> ErasureReport:
    """Return the AUC of each film by the others, before and after, as one value over films."""
    jobs = [partial(_test_film, data, film) for film in data.film_names]
    with fitting():
        by_film = map_jobs(jobs, n_jobs, progress)
    targets = []
    for name, role in data.roles.items():
        for probe in _probes(role):
            targets.append(_summary(data, by_film, name, probe))
    return ErasureReport(
        concepts=data.erased,
        eraser=data.eraser,
        array=data.array,
        n_clips=len(data.X),
        n_films=len(data.film_names),
        targets=targets,
        left_out=data.left_out,
        written=written,
    )


def _probes(role: str) -> tuple[str, ...]:
    return (LINEAR, PERCEPTRON) if role == "erased" else (LINEAR,)


def _test_film(data: ClipsToErase, film: str) -> dict[Tested, float]:
    """Return the AUC on one film, by erasers and probes of all others."""
    from sklearn.metrics import roc_auc_score

    others = np.flatnonzero(data.films != film)
    inside = np.flatnonzero(data.films == film)
    aucs_of_film: dict[Tested, float] = {}
    try:
        after = data.erased_by(others)
    except FixTraining:
        return aucs_of_film
    parts = _parts_of_films(data, others)
    for name, target in data.targets.items():
        tested = inside[target[inside] >= 0]
        train = others[target[others] >= 0]
        if not _has_both(target[tested]) or not _has_both(target[train], MIN_ROWS):
            continue
        truth = target[tested]
        is_erased = data.roles[name] == "erased"
        for probe in _probes(data.roles[name]):
            score = _fit_probe(probe, data.X, target, data.films, train)
            score_after = _fit_probe(probe, after, target, data.films, train)
            scores_of = {
                "before": score(data.X[tested]),
                "after": score_after(after[tested]),
            }
            if is_erased:
                scores_of["old"] = score(after[tested])
            for features, scores in scores_of.items():
                auc = float(roc_auc_score(truth, scores))
                aucs_of_film[Tested(name, probe, features)] = auc
        if not is_erased:
            continue
        for probe in _probes("erased"):
            aucs = []
            for fitted_on, erased in parts:
                new = np.setdiff1d(train, fitted_on)
                if _has_both(target[new], MIN_ROWS):
                    score = _fit_probe(probe, erased, target, data.films, new)
                    scores = score(erased[tested])
                    aucs.append(float(roc_auc_score(truth, scores)))
            # Not that of mean scores: several erasers together do not erase.
            if aucs:
                aucs_of_film[Tested(name, probe, "new")] = float(np.mean(aucs))
    return aucs_of_film


def _parts_of_films(
    data: ClipsToErase, others: IntArray
) -> list[tuple[IntArray, FloatArray]]:
    """Return rows of some films with the features after their eraser, for each part left out."""
    names, codes = np.unique(data.films[others], return_inverse=True)
    n_parts = min(N_PARTS, len(names))
    parts = []
    for part in range(n_parts):
        fitted_on = others[codes % n_parts != part]
        try:
            parts.append((fitted_on, data.erased_by(fitted_on)))
        except FixTraining:
            continue
    return parts


def _fit_probe(
    probe: str,
    X: FloatArray,
    target: NDArray[np.int64],
    films: NDArray[np.str_],
    train: IntArray,
) -> Callable[[FloatArray], FloatArray]:
    """Fit a probe on some rows, and return its scores of features as a function."""
    if probe == PERCEPTRON:
        network = MLPProbe().fit(X[train], target[train])
        return lambda rows: np.asarray(network.predict_proba(rows)[:, 1])
    groups = films[train] if np.any(films[train] != films[train[0]]) else None
    ridge = RidgeProbe(class_weight="balanced")
    ridge.fit(X[train], target[train], groups)
    # Of features that tell nothing, scores differ by rounding alone.
    return lambda rows: ridge.decision_function(rows).round(ROUNDING)


def _summary(
    data: ClipsToErase,
    by_film: Sequence[Mapping[Tested, float]],
    name: str,
    probe: str,
) -> ErasedTarget:
    """Return the values over films of one concept or task and one probe."""
    target = data.targets[name]
    n_pairs = []
    for film in data.film_names:
        of_film = target[data.films == film]
        n_pairs.append(float((of_film == 1).sum() * (of_film == 0).sum()))
    weights = np.array(n_pairs)
    values = {}
    for features in ("before", "after", "old", "new"):
        key = Tested(name, probe, features)
        values[features] = np.array([film.get(key, np.nan) for film in by_film])
    before = values["before"]
    after = values["after"]
    of_erased: dict[str, FilmAuc | None] = {"old": None, "new": None}
    for features in of_erased:
        if np.isfinite(values[features]).any():
            of_erased[features] = over_films(values[features], weights)
    return ErasedTarget(
        name=name,
        role=data.roles[name],
        probe=probe,
        n_clips=int((target >= 0).sum()),
        n_positive=int((target == 1).sum()),
        before=over_films(before, weights),
        after=over_films(after, weights),
        lost=over_films(before - after, weights, is_difference=True),
        old_probe=of_erased["old"],
        new_probe=of_erased["new"],
    )


def over_films(
    values: FloatArray, weights: FloatArray, *, is_difference: bool = False
) -> FilmAuc:
    """Return the weighted mean of the values of films, with its interval over films.

    Films without a value (NaN) are left out. Each film was tested by models of the others, so the
    interval is widened as that of a cross-validation.
    """
    known = np.isfinite(values)
    values = values[known]
    weights = weights[known]
    n_films = len(values)
    if n_films < 2:
        value = float(values[0]) if n_films else float("nan")
        return FilmAuc(value, None, None, n_films)

    def mean(times: FloatArray) -> dict[str, FloatArray]:
        return {"auc": times @ (weights * values) / (times @ weights)}

    in_effect = float(weights.sum() ** 2 / (weights**2).sum())
    drawn = resample(
        mean,
        np.arange(n_films).astype(str),
        n_replicates=REPLICATES,
        within_unit=not is_difference,
        inflation=reuse_inflation(n_films),
        effective={"auc": in_effect} if n_films >= FEW_GROUPS else None,
    )
    interval, _ = drawn["auc"]
    if is_difference:
        interval = interval.of_difference()
    value = float((weights * values).sum() / weights.sum())
    return FilmAuc(value, *interval.ends, n_films)


def write_erased(data: ClipsToErase, source: Store, path: Path) -> WrittenStore:
    """Write a store of the features after an eraser that was fitted on all clips."""
    from obygaze_features.store.write.edit import copy_changed

    with one_thread():
        fitted = fit_eraser(data.eraser, data.X, data.erased_targets, data.erased)
    examples = (data.erased_targets >= 0).all(axis=1)
    n_fitted = int(examples.sum())
    films = np.unique(data.films[examples]).tolist()
    fitted_on = {
        "manifest": data.manifest,
        "n_clips": n_fitted,
        "n_films": len(films),
        "films": films,
    }
    recipe = source.recipe.with_erased(
        {
            "concepts": list(data.erased),
            "eraser": data.eraser,
            "array": data.array,
            "source": {
                "store": last_part(source.location),
                "fingerprint": source.fingerprint,
            },
            "fitted_on": fitted_on,
        }
    )
    copied = copy_changed(source, path, data.array, fitted.transform, recipe)
    return WrittenStore(str(copied.path), n_fitted, copied.n_present, copied.n_blocks)


def report_text(report: ErasureReport) -> str:
    """Return the output of `obygaze erase`."""
    erased = ", ".join(report.concepts)
    lines = [
        f"erased {erased} ({report.eraser}) from the array {report.array}: "
        f"{count(report.n_clips, 'clip')} of {count(report.n_films, 'film')}",
        "",
    ]
    headers = (
        "what",
        "probe",
        "clips",
        "positive",
        "films",
        "AUC before",
        "AUC after",
        "lost",
        "old probe",
        "new probe",
    )
    rows = []
    for target in report.targets:
        name = target.name
        if target.role == "erased":
            name += " (erased)"
        rows.append(
            (
                name,
                target.probe,
                str(target.n_clips),
                str(target.n_positive),
                str(target.before.n_films),
                _auc_text(target.before),
                _auc_text(target.after),
                _auc_text(target.lost),
                _auc_text(target.old_probe),
                _auc_text(target.new_probe),
            )
        )
    lines += [table(headers, rows), ""]
    lines += [
        "AUC within films, tested by models of the other films, with 95 % intervals over films.",
        "After: the probe learns from the films of the eraser. A linear probe of an erased concept",
        "finds nothing there, whatever is left, so that its AUC has no interval.",
        "Old probe: that of before, of erased features. New probe: it learns from films that the",
        "eraser has not seen.",
        "A linear method leaves what is not linear: see the perceptron.",
    ]
    if report.written is not None:
        lines.append(f"store: {report.written.path} (eraser fitted on all films)")
    return "\n".join(lines)


def _auc_text(auc: FilmAuc | None) -> str:
    if auc is None:
        return MISSING
    return with_interval(auc.value, auc.low, auc.high)
