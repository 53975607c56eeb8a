"""The audit of levels: whether clips of a higher level have more concepts, for each annotator.

Clips of one film are alike, so films are what counts: intervals come from a bootstrap over films,
and a step from one level to the next is tested by the signs of the differences within films.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from obygaze.audits.result import Audit, IntervalEnds, Plot, Point
from obygaze.films.sampling import require_column
from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput
from obygaze_features.manifest import Manifest
from obygaze_features.manifest.model import (
    LEVELS,
    Clip,
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


# What is known of each annotator, or of another value of a column, by the names of JSON.
Record = dict[str, Any]
NO_STEP: Record = {
    **dict.fromkeys(("difference", "n_rising", "n_films", "p")),
    "interval": [None, None],
}


def audit_levels(
    manifest: Manifest | str | Path,
    *,
    view: Literal["raw", "visual", "as_published"] | None = None,
    by: str | None = None,
    workspace: str | Path | None = None,
) -> Audit:
    """Test whether clips of a higher level have more concepts, for each annotator.

    The mean number of concepts of HN, NS and S clips has an interval over films. A step from one
    level to the next is tested within films. The claim that the number rises with each step for
    each annotator has the largest p of these steps. What each annotator said is in the table beside
    the manifest; without one, the column annotator names them; without this column, all clips are
    one group.

    Args:
        manifest: The manifest, or its name or path.
        view: The view of the manifest, by default that of protocols.
        by: Another column of clips, in place of the annotators.
        workspace: The workspace, if it is not the current one.

    Example:
        audit = audit_levels("mobygaze", view="visual")

    Commands:
        obygaze audit levels obygaze12
        obygaze audit levels mobygaze --view visual
    """
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
    unit = manifest.header.unit
    everyone = _levels_of(ALL if by in (None, ANNOTATOR) else f"all {unit}s", clips)
    if not any(level["n_clips"] for level in everyone["levels"]):
        raise FixInput("no clip has the level HN, NS or S", where=manifest.name)
    named = [_levels_of(name, clips_of[name]) for name in sorted(clips_of)]
    asked = named or [everyone]
    steps = chain.from_iterable(one["steps"] for one in asked)
    p_values = [step["p"] for step in steps]
    p = None if None in p_values else max(p_values)
    n_without_level = len(manifest) - len({c.clip_id for c in clips if c.level})
    noun = by or ANNOTATOR
    rows = []
    points = []
    for one in (everyone, *named):
        who = one["annotator"]
        for level, step in zip(one["levels"], [NO_STEP, *one["steps"]], strict=True):
            rows.append(_row(who, level, step))
            points.append(
                Point(f"{who}, {level['level']}", level["mean"], level["interval"])
            )
    title = f"Concepts by level: {manifest.name}, {view_words(manifest.header.view)}"
    limits = [
        f"Means are over {unit}s, with 95 % intervals over films. A rise is the mean over "
        "films of the difference to the level before, within films that have both levels; its "
        f"p is one-sided, by sign flips of films, and missing below {LEAST_FILMS} films."
    ]
    if n_without_level:
        limits.append(f"Left out, without a level: {count(n_without_level, unit)}.")
    return Audit(
        title=title,
        headers=_headers(noun, unit),
        rows=rows,
        answers=_answers(named, everyone, p, noun),
        limits=limits,
        values={
            "source": manifest.name,
            "view": manifest.header.view,
            "unit": unit,
            "annotators": [everyone, *named],
            "p": p,
            "n_without_level": n_without_level,
            "by": noun,
            "rises": all(map(_rises, asked)),
        },
        figure=Plot(title, points, f"concepts a {unit}, with 95 % over films"),
    )


def _headers(noun: str, unit: str) -> tuple[str, ...]:
    of_level = (noun, "level", f"{unit}s", f"concepts a {unit}", "low", "high")
    of_step = ("rise in a film", "low", "high", "rising films", "films", "p of a rise")
    return of_level + of_step


def _row(who: str, level: Record, step: Record) -> tuple[object, ...]:
    """Return the cells of a level and of the step that leads to it."""
    p = None if step["p"] is None else p_text(step["p"])
    of_level = (
        who,
        level["level"],
        level["n_clips"],
        level["mean"],
        *level["interval"],
    )
    of_step = (step["difference"], *step["interval"], step["n_rising"], step["n_films"])
    return (*of_level, *of_step, p)


def _rises(person: Record) -> bool:
    """Return whether the mean of all clips of a level rises with each step."""
    means = [level["mean"] for level in person["levels"]]
    return None not in means and all(a < b for a, b in pairwise(means))


def _answers(
    named: Sequence[Record], everyone: Record, p: float | None, noun: str
) -> list[str]:
    """Return whether the number of concepts rises, and whether this is shown."""
    if named:
        who = f"each {noun}"
        n_rising = sum(map(_rises, named))
        rising = f"rises from HN to NS to S for {n_rising} of {count(len(named), noun)}"
    else:
        who = f"all clips together (no {noun} is named)"
        verb = "rises" if _rises(everyone) else "does not rise"
        rising = f"{verb} from HN to NS to S for {who}"
    tested = "A step has too few films for a test, so this claim is not tested."
    if p is not None:
        verdict = "it does" if p < ALPHA else "this is not shown"
        tested = (
            f"Does it rise within films, with each step, for {who}: {verdict} "
            f"({p_equals(p)}, the largest p of a step)."
        )
    return [f"The mean number of concepts {rising}.", tested]


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


def _levels_of(name: str, clips: Sequence[Clip]) -> Record:
    """Return the mean number of concepts at each level, and the steps between levels.

    The clips are those of several annotators; a clip that several gave this level counts once.
    """
    counts: dict[str, dict[str, list[float]]] = {}
    for level in LEVELS[1:]:
        numbers_of_clip: dict[tuple[str, str], list[int]] = {}
        for clip in clips:
            if clip.level == level:
                numbers = numbers_of_clip.setdefault((clip.movie_id, clip.clip_id), [])
                numbers.append(len(clip.concepts))
        by_film = counts.setdefault(level, {})
        for (film, _), numbers in numbers_of_clip.items():
            by_film.setdefault(film, []).append(fmean(numbers))
    levels = [_level_mean(level, by_film) for level, by_film in counts.items()]
    steps = [_step(lower, higher, counts) for lower, higher in STEPS]
    return {"annotator": name, "levels": levels, "steps": steps}


def _level_mean(level: str, by_film: Mapping[str, Sequence[float]]) -> Record:
    """Return the mean number of concepts of the clips of a level, with its interval over films."""
    numbers: list[float] = []
    films: list[str] = []
    for film, of_film in by_film.items():
        numbers += of_film
        films += [film] * len(of_film)
    mean = None
    interval: IntervalEnds = [None, None]
    if numbers:
        mean = fmean(numbers)
        interval = ratio_interval(numbers, np.ones(len(numbers)), films)
    counted = {"level": level, "n_clips": len(numbers), "n_films": len(by_film)}
    return {**counted, "mean": mean, "interval": interval}


def _step(
    lower: str,
    higher: str,
    counts: Mapping[str, Mapping[str, Sequence[float]]],
) -> Record:
    """Return how much the number of concepts rises from one level to the next within films.

    The difference is the mean over the films that have clips of both levels; `n_rising` of them
    have more at the higher level. `p` is that of a rise; None of fewer than six films.
    """
    films = sorted(counts[lower].keys() & counts[higher].keys())
    means_of_lower = [fmean(counts[lower][film]) for film in films]
    means_of_higher = [fmean(counts[higher][film]) for film in films]
    differences = difference_of(means_of_higher, means_of_lower)
    p = None
    if len(films) >= LEAST_FILMS:
        p, _ = sign_flip_p(differences, greater=True)
    mean: dict[str, Any] = {"difference": None, "interval": [None, None]}
    if films:
        interval = _interval_of_mean(differences)
        mean = {"difference": float(differences.mean()), "interval": interval}
    return {
        "lower": lower,
        "higher": higher,
        **mean,
        "n_films": len(films),
        "n_rising": int((differences > 0).sum()),
        "p": p,
    }


def _interval_of_mean(values: NDArray[np.float64]) -> IntervalEnds:
    """Return the 95 % interval of the mean of one value for each film, bootstrapped over films."""
    from obygaze_models.evaluation.bootstrap import resample

    def mean(weights: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        return {"mean": weights @ values / weights.sum(axis=1)}

    interval = resample(mean, np.arange(len(values)))["mean"]
    return [*interval.ends]
