"""The audit of levels: whether clips of a higher level have more concepts, for each annotator.

Clips of one film are similar, so films are the resampling group: intervals come from a bootstrap
over films, and a step from one level to the next is tested by sign flips of the differences within
films.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from obygaze.audits.annotations import require_column
from obygaze.audits.result import Audit, Plot, Point
from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput
from obygaze_features.manifest import Manifest
from obygaze_features.manifest.annotators import person_labels
from obygaze_features.manifest.model import (
    LEVELS,
    Clip,
    require_films,
    view_words,
)
from obygaze_models.evaluation.bootstrap import ratio_interval, resample
from obygaze_models.evaluation.permutation import p_equals, p_text
from obygaze_models.evaluation.predictions import rounded_difference
from obygaze_models.evaluation.sign_flips import sign_flip_p
from obygaze_models.text_vectors import in_view

ANNOTATOR = "annotator"
ALL = "all annotators"
ALPHA = 0.05
# EN has no step: an easy negative has no concepts by definition.
STEPS = (("HN", "NS"), ("NS", "S"))
# With fewer films, a sign-flip test has little power; comparisons of models have the same limit.
LEAST_FILMS = 6
OF_STEP = (
    "rise in a film",
    "low rise",
    "high rise",
    "rising films",
    "films",
    "p of a rise",
)
# A level or a step, with the keys of the JSON document.
Record = dict[str, Any]


@dataclass(frozen=True)
class PersonLevels:
    """The levels and steps of one annotator, of one value of a column, or of all clips.

    A level has the mean number of concepts of its clips, with the interval over films. A step has
    the rise from one level to the next: the mean difference over the films with clips of both
    levels, the number of films with more concepts at the higher level, and the p of a rise. The p
    is None for fewer than six films.
    """

    annotator: str
    levels: Sequence[Record]
    steps: Sequence[Record]

    @property
    def rises(self) -> bool:
        """Whether the mean number of concepts is higher at each level than at the level below."""
        means = [level["mean"] for level in self.levels]
        return None not in means and all(low < high for low, high in pairwise(means))


@dataclass(frozen=True)
class ConceptsByLevel:
    """The levels of all clips together, and of each annotator or each value of a column.

    `noun` is the name of this column; it is `annotator` for annotators.
    """

    everyone: PersonLevels
    named: Sequence[PersonLevels]
    noun: str

    @property
    def asked(self) -> Sequence[PersonLevels]:
        """The groups that the claim is about, or all clips as one group if there are no groups."""
        return self.named or [self.everyone]

    @property
    def p(self) -> float | None:
        """The largest p among the steps of all groups, or None if a step has no p."""
        p_values = [step["p"] for one in self.asked for step in one.steps]
        return None if None in p_values else max(p_values)


def audit_levels(
    manifest: Manifest | str | Path,
    *,
    view: Literal["raw", "visual", "as_published"] | None = None,
    by: str | None = None,
    workspace: str | Path | None = None,
) -> Audit:
    """Test whether clips of a higher level have more concepts, for each annotator.

    The mean number of concepts of HN, NS and S clips has an interval over films. A step from one
    level to the next is tested within films. The p of the claim that the number rises with each
    step for each annotator is the largest p of these steps. The annotations come from the table
    next to the manifest. Without this table, the column annotator names the annotator of a clip;
    without this column, all clips are one group.

    Args:
        manifest: The manifest, or its name or path.
        view: The view of the manifest, by default that of protocols.
        by: Group clips by this column instead of by annotators.
        workspace: The workspace, if it is not the current one.

    Example:
        audit = audit_levels("mobygaze", view="visual")
    """
    manifest = in_view(manifest, view, workspace)
    if by is not None:
        require_column(manifest, by)
        # The labels of clips are counted, not the annotations of each person.
        manifest = manifest.undisputed(("level", *manifest.header.concepts))
    clips_of = _clips_by(manifest, by)
    clips = list(manifest)
    if by is None and manifest.annotations:
        clips = [*chain.from_iterable(clips_of.values())]
    levelled = [clip for clip in clips if clip.level in LEVELS[1:]]
    require_films([clip.movie_id for clip in levelled], manifest.name)
    if not levelled:
        raise FixInput("no clip has the level HN, NS or S", where=manifest.name)
    title = ALL if by in (None, ANNOTATOR) else "all clips"
    found = compute(clips, clips_of, by or ANNOTATOR, title)
    counted = {clip.clip_id for clip in clips if clip.level}
    excluded = [clip.level for clip in manifest if clip.clip_id not in counted]
    n_excluded = {
        "the level is missing": excluded.count(""),
        "no annotator is named": len(excluded) - excluded.count(""),
    }
    return present(found, manifest, n_excluded)


def _clips_by(manifest: Manifest, by: str | None) -> dict[str, list[Clip]]:
    """Return the clips of each annotator, or of each value of a column."""
    if by is None and manifest.annotations:
        return {name: person_labels(manifest, name) for name in manifest.annotators}
    column = by or ANNOTATOR
    clips_of: dict[str, list[Clip]] = {}
    for clip in manifest:
        # A cell can have several values, such as the names of people who decided together.
        values = clip.values(column) if by or column in clip.extra else ()
        for value in values:
            clips_of.setdefault(value, []).append(clip)
    return clips_of


# ---- numbers -------------------------------------------------------------------------------------


def compute(
    everyone: Sequence[Clip],
    clips_of: Mapping[str, Sequence[Clip]],
    noun: str,
    title: str,
) -> ConceptsByLevel:
    """Return the levels and steps of all clips, and of the clips of each annotator or value."""
    named = [measure_levels(name, clips_of[name]) for name in sorted(clips_of)]
    return ConceptsByLevel(measure_levels(title, everyone), named, noun)


def measure_levels(name: str, clips: Sequence[Clip]) -> PersonLevels:
    """Return the mean number of concepts at each level, and the steps between levels."""
    numbers = {level: _numbers_at(level, clips) for level in LEVELS[1:]}
    levels = []
    for level, by_film in numbers.items():
        films = [film for film, of_film in by_film.items() for _ in of_film]
        of_level = [*chain.from_iterable(by_film.values())]
        record = {"level": level, "n_clips": len(of_level), "n_films": len(by_film)}
        mean = fmean(of_level) if of_level else None
        interval: list[float | None] = [None, None]
        if of_level:
            interval = ratio_interval(of_level, np.ones(len(of_level)), films)
        levels.append({**record, "mean": mean, "interval": interval})
    steps = [_step(lower, higher, numbers) for lower, higher in STEPS]
    return PersonLevels(name, levels, steps)


def _numbers_at(level: str, clips: Sequence[Clip]) -> dict[str, list[float]]:
    """Return the numbers of concepts of the clips of a level, by film.

    A clip with several annotators has one number: the mean over its annotators.
    """
    numbers_of_clip: dict[tuple[str, str], list[int]] = {}
    for clip in clips:
        if clip.level == level:
            numbers = numbers_of_clip.setdefault((clip.movie_id, clip.clip_id), [])
            numbers.append(len(clip.concepts))
    by_film: dict[str, list[float]] = {}
    for (film, _), numbers in numbers_of_clip.items():
        by_film.setdefault(film, []).append(fmean(numbers))
    return by_film


def _step(
    lower: str, higher: str, numbers: Mapping[str, Mapping[str, Sequence[float]]]
) -> Record:
    """Return how much the number of concepts rises from one level to the next within films."""
    films = sorted(numbers[lower].keys() & numbers[higher].keys())
    step: Record = {"lower": lower, "higher": higher, "difference": None}
    step |= {"interval": [None, None], "n_films": len(films), "n_rising": 0, "p": None}
    if not films:
        return step
    ends = []
    for level in (higher, lower):
        ends.append([fmean(numbers[level][film]) for film in films])
    differences = rounded_difference(*ends)

    def mean(weights: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        return {"mean": weights @ differences / weights.sum(axis=1)}

    interval = resample(mean, len(films))["mean"]
    if len(films) >= LEAST_FILMS:
        step["p"], _ = sign_flip_p(differences, greater=True)
    return {
        **step,
        "difference": float(differences.mean()),
        "interval": [*interval.ends],
        "n_rising": int((differences > 0).sum()),
    }


# ---- the page ------------------------------------------------------------------------------------


def present(
    found: ConceptsByLevel, manifest: Manifest, n_excluded: Mapping[str, int]
) -> Audit:
    """Return the audit of concepts by level: its table, sentences and figure.

    `n_excluded` is the number of excluded clips for each reason.
    """
    people = [found.everyone, *found.named]
    rows = []
    points = []
    for person in people:
        for level, step in zip(person.levels, [None, *person.steps], strict=True):
            row = [person.annotator, level["level"], level["n_clips"], level["mean"]]
            row += level["interval"]
            # The step to this level; the lowest level has no step.
            of_step: list[object] = [None] * len(OF_STEP)
            if step is not None:
                p = None if step["p"] is None else p_text(step["p"])
                of_step = [step["difference"], *step["interval"]]
                of_step += [step["n_rising"], step["n_films"], p]
            rows.append([*row, *of_step])
            label = f"{person.annotator}, {level['level']}"
            points.append(Point(label, level["mean"], level["interval"]))
    of_level = (found.noun, "level", "clips", "concepts a clip", "low", "high")
    title = f"Concepts by level: {manifest.name}, {view_words(manifest.header.view)}"
    limits = [
        "Means are over clips, with 95 % intervals over films. A rise is the mean over "
        "films of the difference to the level before, within films that have both levels; its "
        f"p is one-sided, by sign flips of films, and missing below {LEAST_FILMS} films."
    ]
    for reason, n_clips in n_excluded.items():
        if n_clips:
            limits.append(f"Excluded, because {reason}: {count(n_clips, 'clip')}.")
    return Audit(
        title=title,
        headers=(*of_level, *OF_STEP),
        rows=rows,
        answers=_answers(found),
        limits=limits,
        values={
            "source": manifest.name,
            "view": manifest.header.view,
            "annotators": [vars(person) for person in people],
            "p": found.p,
            "excluded": n_excluded,
            "by": found.noun,
            "rises": all(person.rises for person in found.asked),
        },
        figure=Plot(title, points, "concepts per clip, with 95 % interval over films"),
    )


def _answers(found: ConceptsByLevel) -> list[str]:
    """Return sentences on whether the number of concepts rises, and whether the test shows it."""
    if found.named:
        who = f"each {found.noun}"
        n_rising = sum(person.rises for person in found.named)
        of_all = count(len(found.named), found.noun)
        rising = f"rises from HN to NS to S for {n_rising} of {of_all}"
    else:
        who = f"all clips together (no {found.noun} is stated)"
        verb = "rises" if found.everyone.rises else "does not rise"
        rising = f"{verb} from HN to NS to S for {who}"
    tested = "A step has too few films, so this claim is not tested."
    if found.p is not None:
        verdict = "it does" if found.p < ALPHA else "this is not shown"
        tested = (
            f"Does it rise within films, with each step, for {who}: {verdict} "
            f"({p_equals(found.p)}, the largest p of a step)."
        )
    return [f"The mean number of concepts {rising}.", tested]
