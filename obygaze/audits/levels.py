"""The audit of levels: whether clips of a higher level have more concepts, for each annotator.

Clips of one film are alike, so films are what counts: intervals come from a bootstrap over films,
and a step from one level to the next is tested by the signs of the differences within films.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze.audits.result import (
    Audit,
    Finding,
    IntervalEnds,
)
from obygaze.films.sampling import require_column
from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput
from obygaze_features.manifest import Manifest
from obygaze_features.manifest.model import (
    LEVELS,
    Clip,
    View,
    require_films,
    view_words,
)
from obygaze_models.evaluation.bootstrap import ratio_interval
from obygaze_models.evaluation.permutation import p_equals, p_text
from obygaze_models.evaluation.predictions import difference_of
from obygaze_models.evaluation.sign_flips import sign_flip_p
from obygaze_models.text_vectors import in_view

ANNOTATOR = "annotator"
ALL = "all annotators"
ALPHA = 0.05
# An easy negative is a clip without concepts, so that its number is 0 by definition.
STEPS = (("HN", "NS"), ("NS", "S"))
# As in comparisons of models: of fewer films, a sign-flip test says little.
LEAST_FILMS = 6


@dataclass(frozen=True)
class LevelMean:
    """The mean number of concepts of the clips of one level, with its interval over films.

    Of a clip with labels of several annotators at this level, it is the mean of these.
    """

    level: str
    n_clips: int
    n_films: int
    mean: float | None
    interval: IntervalEnds


@dataclass(frozen=True)
class Step:
    """The mean over films of how many more concepts a clip of the higher level has.

    `n_films` have clips of both levels, and in `n_rising` of them the number is higher. `p` is that
    of a rise; None of fewer than six films.
    """

    lower: str
    higher: str
    difference: float | None
    interval: IntervalEnds
    n_films: int
    n_rising: int
    p: float | None


@dataclass(frozen=True)
class AnnotatorLevels:
    """The levels and the steps of one annotator."""

    annotator: str
    levels: tuple[LevelMean, ...]
    steps: tuple[Step, ...]

    @property
    def rises(self) -> bool:
        """Whether the mean of all clips of a level rises with each step."""
        means = [level.mean for level in self.levels if level.mean is not None]
        has_all_levels = len(means) == len(self.levels)
        return has_all_levels and all(a < b for a, b in pairwise(means))


@dataclass(frozen=True, eq=False, repr=False)
class LevelAudit(Audit):
    """Concepts a clip by level: of all clips, then of each annotator or other value of `by`.

    `n_without_level` clips are left out.

    `p` is that of the claim that the number rises with each step for each annotator: the largest of
    their p (an intersection-union test needs no correction). None where a step cannot be tested.
    """

    source: str
    view: str
    unit: str
    annotators: tuple[AnnotatorLevels, ...]
    p: float | None
    n_without_level: int = 0
    by: str = ANNOTATOR

    def to_json(self) -> dict[str, Any]:
        """Return every number as one JSON document."""
        document = asdict(self)
        document["rises"] = self.rises
        return document

    @property
    def single(self) -> tuple[AnnotatorLevels, ...]:
        """The annotators without the row of all; that row alone where none are named."""
        return self.annotators[1:] or self.annotators

    @property
    def rises(self) -> bool:
        """Whether the mean of all clips of a level rises with each step for each annotator."""
        return all(annotator.rises for annotator in self.single)

    def finding(self) -> Finding:
        """Return a row for each annotator and level, and sentences with the test of the claim."""
        headers = (
            self.by,
            "level",
            f"{self.unit}s",
            f"concepts a {self.unit}",
            "low",
            "high",
            "rise in a film",
            "low",
            "high",
            "rising films",
            "films",
            "p of a rise",
        )
        rows: list[tuple[object, ...]] = []
        for annotator in self.annotators:
            step_to = {step.higher: step for step in annotator.steps}
            for level in annotator.levels:
                numbers = (level.n_clips, level.mean, *level.interval)
                step = step_to.get(level.level)
                change: tuple[object, ...] = (None,) * 6
                if step is not None:
                    change = (
                        step.difference,
                        *step.interval,
                        step.n_rising,
                        step.n_films,
                        None if step.p is None else p_text(step.p),
                    )
                rows.append((annotator.annotator, level.level, *numbers, *change))
        title = f"Concepts by level: {self.source}, {view_words(self.view)}"
        return Finding(title, headers, tuple(rows), sentences=tuple(self._sentences()))

    def _sentences(self) -> Iterator[str]:
        yield (
            f"Means are over {self.unit}s, with 95 % intervals over films. A rise is the mean over "
            "films of the difference to the level before, within films that have both levels; its "
            f"p is one-sided, by sign flips of films, and missing below {LEAST_FILMS} films."
        )
        if self.n_without_level:
            n_clips = count(self.n_without_level, self.unit)
            yield f"Left out, without a level: {n_clips}."
        n_annotators = count(len(self.single), self.by)
        n_rising = sum(annotator.rises for annotator in self.single)
        who = f"all clips together (no {self.by} is named)"
        verb = "rises" if self.rises else "does not rise"
        rising = f"{verb} from HN to NS to S for {who}"
        if len(self.annotators) > 1:
            who = f"each {self.by}"
            rising = f"rises from HN to NS to S for {n_rising} of {n_annotators}"
        yield f"The mean number of concepts {rising}."
        if self.p is None:
            yield "A step has too few films for a test, so this claim is not tested."
            return
        verdict = "it does" if self.p < ALPHA else "this is not shown"
        yield (
            f"Does it rise within films, with each step, for {who}: {verdict} "
            f"({p_equals(self.p)}, the largest p of a step)."
        )


def audit_levels(
    manifest: Manifest | str | Path,
    *,
    view: View | None = None,
    by: str | None = None,
    workspace: str | Path | None = None,
) -> LevelAudit:
    """Test whether clips of a higher level have more concepts, for each annotator."""
    manifest = in_view(manifest, view, workspace)
    if by is not None:
        # Their labels are counted, and not what each annotator said.
        manifest = manifest.undisputed(("level", *manifest.header.concepts))
    clips = list(manifest)
    clips_of = _clips_by(manifest, by)
    if by is None and manifest.annotations:
        clips = [*chain.from_iterable(clips_of.values())]
    require_films(
        [clip.movie_id for clip in clips if clip.level in LEVELS[1:]], manifest.name
    )
    everyone = ALL if by in (None, ANNOTATOR) else f"all {manifest.header.unit}s"
    annotators = [_levels_of(everyone, clips)]
    if not any(level.n_clips for level in annotators[0].levels):
        raise FixInput("no clip has the level HN, NS or S", where=manifest.name)
    for name in sorted(clips_of):
        annotators.append(_levels_of(name, clips_of[name]))
    p_values = []
    for annotator in annotators[1:] or annotators:
        p_values += [step.p for step in annotator.steps]
    known = [p for p in p_values if p is not None]
    with_level = {clip.clip_id for clip in clips if clip.level}
    return LevelAudit(
        source=manifest.name,
        view=manifest.header.view,
        unit=manifest.header.unit,
        annotators=tuple(annotators),
        p=max(known) if len(known) == len(p_values) else None,
        n_without_level=len(manifest) - len(with_level),
        by=by or ANNOTATOR,
    )


def _clips_by(manifest: Manifest, by: str | None) -> dict[str, list[Clip]]:
    """Return the clips of each annotator, or of each value of a column."""
    if by is None and manifest.annotations:
        return {name: list(manifest.of_annotator(name)) for name in manifest.annotators}
    if by is not None:
        require_column(manifest, by)
    column = by or ANNOTATOR
    clips_of: dict[str, list[Clip]] = {}
    for clip in manifest:
        # A cell may have several values, such as the names of people who decided together.
        values = clip.values(column) if by or column in clip.extra else ()
        for value in values:
            clips_of.setdefault(value, []).append(clip)
    return clips_of


def _levels_of(name: str, clips: Sequence[Clip]) -> AnnotatorLevels:
    """Return the mean number of concepts at each level, and the steps between levels.

    The clips are those of several annotators; a clip that several gave this level counts once.
    """
    counts: dict[str, dict[str, list[float]]] = {level: {} for level in LEVELS[1:]}
    levels = []
    for level, by_film in counts.items():
        numbers_of_clip: dict[tuple[str, str], list[int]] = {}
        for clip in clips:
            if clip.level == level:
                numbers = numbers_of_clip.setdefault((clip.movie_id, clip.clip_id), [])
                numbers.append(len(clip.concepts))
        for (film, _), numbers in numbers_of_clip.items():
            by_film.setdefault(film, []).append(fmean(numbers))
        levels.append(_level_mean(level, by_film))
    steps = [_step(lower, higher, counts) for lower, higher in STEPS]
    return AnnotatorLevels(name, tuple(levels), tuple(steps))


def _level_mean(level: str, by_film: Mapping[str, Sequence[float]]) -> LevelMean:
    if not by_film:
        return LevelMean(level, 0, 0, None, [None, None])
    numbers: list[float] = []
    films: list[str] = []
    for film, of_film in by_film.items():
        numbers += of_film
        films += [film] * len(of_film)
    interval = ratio_interval(numbers, np.ones(len(numbers)), films)
    return LevelMean(level, len(numbers), len(by_film), fmean(numbers), interval)


def _step(
    lower: str,
    higher: str,
    counts: Mapping[str, Mapping[str, Sequence[float]]],
) -> Step:
    """Return how much the number of concepts rises from one level to the next within films."""
    films = sorted(counts[lower].keys() & counts[higher].keys())
    means_of_lower = [fmean(counts[lower][film]) for film in films]
    means_of_higher = [fmean(counts[higher][film]) for film in films]
    differences = difference_of(means_of_higher, means_of_lower)
    if not films:
        return Step(lower, higher, None, [None, None], 0, 0, None)
    p = None
    if len(films) >= LEAST_FILMS:
        p, _ = sign_flip_p(differences, greater=True)
    return Step(
        lower=lower,
        higher=higher,
        difference=float(differences.mean()),
        interval=_interval_of_mean(differences),
        n_films=len(films),
        n_rising=int((differences > 0).sum()),
        p=p,
    )


def _interval_of_mean(values: NDArray[np.float64]) -> IntervalEnds:
    """Return the 95 % interval of the mean of one value for each film, bootstrapped over films."""
    from obygaze_models.evaluation.bootstrap import resample

    def mean(weights: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        return {"mean": weights @ values / weights.sum(axis=1)}

    interval = resample(mean, np.arange(len(values)))["mean"]
    return [*interval.ends]
