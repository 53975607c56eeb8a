"""The audit of a share: in how many clips of films that nobody annotated something is.

The clips were drawn within films by `manifest sample`, and marked. Scores of a model for all clips
of the films may make the interval narrower; they never replace marks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze.audits.result import Audit, Plot, Point, record_cells
from obygaze.films.labels import ProjectedMarks, labels_of, project_tables
from obygaze.films.marks import (
    CONCEPTS_COLUMN,
    LEVEL,
    NOTHING,
    UNKNOWN,
    WATCHED,
    Mark,
    marks_by_film,
)
from obygaze.films.predictions import score_column
from obygaze.films.projection import ClipSpan
from obygaze.films.sampling import (
    DrawnFilm,
    draw_plan,
    is_drawn,
    not_withdrawn,
    require_column,
    values_of_films,
)
from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import number_of_cell, read_table
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.annotators import HIGHEST
from obygaze_features.manifest.clip_facts import ClipFacts, require_same_shared
from obygaze_features.manifest.expression import Expression, parse
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import (
    DIFFERS,
    LEVELS,
    Clip,
    Manifest,
    require_numbers,
    with_columns_of,
)
from obygaze_features.manifest.own_labels import COVERED
from obygaze_features.manifest.vocabulary import concepts as concepts_of_papers
from obygaze_models.evaluation.basis import FILM_SEEN, FILM_UNKNOWN
from obygaze_models.evaluation.group_tests import ALPHA, MANY
from obygaze_models.evaluation.permutation import holm, p_equals, permutation_p
from obygaze_models.evaluation.predictions import difference_of
from obygaze_models.evaluation.shares import (
    MarkedFilms,
    explained_by_scores,
    share_of,
)
from obygaze_models.zoo.seen import IN_SAMPLE

ALL = "all films"
# Scores of a model that may have learned from the seconds of a clip.
MAY_HAVE_TRAINED = (IN_SAMPLE, FILM_SEEN, FILM_UNKNOWN)
LEAST_FILMS = 2
WHY_NOT_COUNT = (
    "its clips were not drawn by plan, and counting predictions is wrong: nobody knows how many"
    " errors a model makes in these films, and the count has the errors in it"
)


CELLS = ("group", "n_films", "n_clips", "n_marked", "share", "low", "high")
TIME_CELLS = ("time_share", "time_low", "time_high")
# The share of a group of films, or the difference of two groups, by the names of JSON.
Record = dict[str, Any]


def audit_share(
    manifest: PathLike,
    *,
    marks: PathLike | Sequence[PathLike] | None = None,
    of: str = "level == S",
    predictions: PathLike | None = None,
    by: str | None = None,
    workspace: PathLike | None = None,
) -> Audit:
    """Estimate in how many clips of films something is, from clips drawn by plan and marked."""
    here = Workspace.of(workspace)
    drawn = read_manifest(manifest, workspace=workspace)
    if not is_drawn(drawn):
        n_clips = min(5 * len(drawn.films), len(drawn))
        sample = f"obygaze manifest sample {shell_word(drawn.name)} -n"
        raise FixInput(
            f"no share of {drawn.name}: {WHY_NOT_COUNT}",
            where=drawn.name,
            hint=f"{sample} {n_clips} -o drawn, mark the drawn clips, then this command with drawn",
        )
    plan = draw_plan(drawn)
    group_of_film = values_of_films(drawn, by) if by is not None else {}
    kept = not_withdrawn(drawn.clips, here)
    marked = drawn.with_clips(kept)
    projected = None
    if marks is not None:
        projected = project_tables(marks, manifest, None, workspace=workspace)
        marked = _with_labels(marked, projected)
    expression = _expression(of, marked, projected)
    unknown = marked.unknown_values(expression)
    if unknown:
        hint = "a word of the marks in --of; one on which annotators agree in some clip"
        raise FixInput("; ".join(unknown), where=of, hint=hint)
    decided = marked.undisputed((*expression.compared, *expression.concepts))
    answers = dict.fromkeys(marked.clip_ids)
    answers.update({clip.clip_id: expression.holds(clip.values) for clip in decided})
    with_marks = {clip.movie_id for clip in marked if answers[clip.clip_id] is not None}
    films_with_marks = [film for film in drawn.films if film in with_marks]
    if len(films_with_marks) < LEAST_FILMS:
        hint = (
            f"obygaze view {shell_word(drawn.name)} --annotate NAME, then --marks"
            f" {shell_word(f'segments/{drawn.name}.NAME.csv')}"
        )
        if projected is not None:
            hint = (
                f"--of with a column of the marks: {few(projected.projection.columns)}"
            )
        raise FixInput(
            f"expected marks of clips of at least {LEAST_FILMS} films, got marks in"
            f" {count(len(films_with_marks), 'film')}",
            where=drawn.name,
            hint=hint,
        )
    scores = None
    if predictions is not None:
        scores = _read_scores(Path(predictions), marked, plan)
    sizes = np.array([plan[film].n_clips for film in films_with_marks], np.float64)
    films = _marked_films(films_with_marks, marked, sizes, answers, scores)
    explained = None if scores is None else float(explained_by_scores(films))
    slopes = (
        films.slopes if explained and explained > 0 else np.zeros(len(films_with_marks))
    )
    groups = _groups(films_with_marks, group_of_film)
    of_time = None
    if projected is not None:
        lengths, held = _seconds(films_with_marks, marked, projected, expression)
        known = {clip: held[clip] for clip, said in answers.items() if said is not None}
        of_time = _marked_films(
            films_with_marks, marked, sizes * lengths, {**answers, **known}, None
        )
    shares = []
    for group, in_group in {ALL: np.arange(len(films_with_marks)), **groups}.items():
        has_scores = scores is not None
        share = _group_share(group, films, slopes, in_group, has_scores)
        shares.append({**share, **_share_of_time(of_time, in_group)})
    differences = _differences_of(groups, films, slopes)
    whole = shares[0]
    warnings = () if projected is None else projected.warnings
    answer = (
        f"In films such as these {whole['n_films']}, {of} holds for"
        f" {_with_interval(whole)} of the clips"
    )
    if of_time is not None:
        answer += f", and for {_with_interval(whole, 'time_')} of the time"
    answer += "."
    # What is missing, and is said: by its name in JSON.
    missing: dict[str, Any] = {
        "n_drawn": sum(film.n_drawn for film in plan.values()),
        "n_withdrawn": len(drawn) - len(kept),
        "n_disputed": len(marked) - len(decided),
        "films_without_marks": [
            film for film in drawn.films if film not in films_with_marks
        ],
        "films_without_group": [
            film
            for film in films_with_marks
            if by is not None and not group_of_film[film]
        ],
        "n_without_score": 0 if scores is None else scores.n_missing,
    }
    headers = ["films", "n films", "clips", "marked", "share", "low", "high"]
    cells: tuple[str, ...] = CELLS
    if of_time is not None:
        headers += ["share of time", "low of time", "high of time"]
        cells += TIME_CELLS
    rows = [record_cells(share, cells) for share in shares]
    if scores is not None:
        headers += ["width", "width without predictions"]
        rows = [
            (*row, _width(share), share["width_of_marks"])
            for row, share in zip(rows, shares, strict=True)
        ]
    points = []
    for share in shares:
        note = f"{share['n_marked']} marks, {count(share['n_films'], 'film')}"
        ends = (share["low"], share["high"])
        points.append(Point(share["group"], share["share"], ends, note))
    return Audit(
        title=f"How much: {of} in {drawn.name}",
        headers=headers,
        rows=rows,
        answers=[answer, *_sentences(differences)],
        limits=[
            *_limits_of_interval(whole, explained, has_marks=projected is not None),
            *_limits_of_marks(whole["n_marked"], **missing),
        ],
        values={
            "source": drawn.name,
            "of": of,
            "answer": answer,
            "shares": shares,
            "differences": differences,
            "explained": explained,
            **missing,
            "warnings": warnings,
        },
        figure=Plot(
            f"{of} in {drawn.name}", points, "share of the clips, with 95 % over films"
        ),
        warnings=warnings,
    )


def _sentences(differences: Sequence[Record]) -> Iterator[str]:
    """Yield a sentence for each pair of groups; of many, for those that differ."""
    shown = differences
    n_pairs = len(differences)
    if n_pairs > MANY:
        shown = [pair for pair in differences if pair["p_holm"] < ALPHA]
        yield f"{len(shown)} of {n_pairs} pairs of groups have p < {ALPHA}."
    corrected = " after Holm's correction" if n_pairs > 1 else ""
    for pair in shown:
        verdict = "differ" if pair["p_holm"] < ALPHA else "are not shown to differ"
        first, second = pair["groups"]
        left_out = ""
        if pair["n_in_both"]:
            left_out = f" {count(pair['n_in_both'], 'film')} in both left out."
        yield (
            f"{first} and {second} {verdict}: {pair['difference']:+.3f},"
            f" {p_equals(pair['p_holm'])}{corrected}, exchanging whole films.{left_out}"
        )


def _limits_of_interval(
    whole: Record, explained: float | None, *, has_marks: bool
) -> Iterator[str]:
    """Yield what the interval is about, and what made it."""
    of_draw = ""
    if whole["n_marked"] < whole["n_clips"]:
        of_draw = " and on the clips that were drawn"
    yield (
        f"The interval says how the share depends on the films that were at hand{of_draw};"
        " other kinds of films can differ more. Long films count for more, as they have more"
        " clips."
    )
    width = _number(_width(whole))
    if explained is not None and explained > 0:
        yield (
            f"The predictions explain {100 * explained:.0f} % of the variance within"
            f" films: with them, the interval is {width} wide, without them"
            f" {_number(whole['width_of_marks'])}."
        )
    elif explained is not None:
        yield (
            "The predictions explain nothing within films and are not used: the interval"
            f" is {width} wide."
        )
    if has_marks:
        yield (
            "Where several annotators marked a clip, the highest level counts; where their words in"
            " another column differ, the clip is left out."
        )
    if not whole["share"]:
        yield "No marked clip has it: that does not show that no clip has it."


def _limits_of_marks(
    n_marked: int,
    *,
    n_drawn: int,
    n_withdrawn: int,
    n_disputed: int,
    films_without_marks: Sequence[str],
    films_without_group: Sequence[str],
    n_without_score: int,
) -> Iterator[str]:
    """Yield what is missing."""
    n_missing = n_drawn - n_withdrawn - n_disputed - n_marked
    if n_missing:
        yield (
            f"{n_missing} of {n_drawn} drawn clips have no mark: the share is right if"
            " they were not left out for what they show."
        )
    if films_without_marks:
        yield (
            f"No mark in {count(len(films_without_marks), 'film')}"
            f" ({few(films_without_marks, 5)}): the share is that of the others."
        )
    if n_disputed:
        yield f"Left out, because annotators differ: {count(n_disputed, 'clip')}."
    if n_withdrawn:
        yield f"Left out, because they were withdrawn: {count(n_withdrawn, 'clip')}."
    if films_without_group:
        yield (
            f"In no group: {count(len(films_without_group), 'film')}"
            f" ({few(films_without_group, 5)})."
        )
    if n_without_score:
        yield (
            f"{count(n_without_score, 'clip')} without a score: they count as the mean of"
            " their film, which only makes the predictions less useful."
        )


def _with_labels(drawn: Manifest, projected: ProjectedMarks) -> Manifest:
    """Return the clips with the labels of marks alone."""
    labels = labels_of(projected, HIGHEST)
    made = {COVERED, *projected.projection.columns}
    clips = []
    for clip in drawn:
        label = labels.by_id.get(clip.clip_id)
        # The marks take the place of what annotators said before.
        extra = {name: cell for name, cell in clip.extra.items() if name != DIFFERS}
        extra |= dict.fromkeys(made & {*labels.columns}, "")
        level = label.level if label else ""
        concepts = label.concepts if label else ()
        if label is not None:
            extra |= {
                name: label.extra[name] for name in labels.columns if name in made
            }
            extra |= {DIFFERS: label.extra.get(DIFFERS, "")}
        clips.append(replace(clip, level=level, concepts=concepts, extra=extra))
    columns = with_columns_of(clips, drawn.columns)
    return replace(drawn.with_clips(clips), columns=columns)


def _seconds(
    films: Sequence[str],
    marked: Manifest,
    projected: ProjectedMarks,
    expression: Expression,
) -> tuple[NDArray[np.float64], dict[str, float]]:
    """Return how long a drawn clip of each film is on average, and in which part of it it holds.

    The part is of this length, so that longer clips count for more.
    """
    timed = marks_by_film(mark for mark in projected.marks if mark.column != WATCHED)
    lengths: dict[str, list[float]] = {}
    held = {}
    # The projection is on all drawn clips, also on those that were withdrawn since.
    for span in projected.spans:
        if span.clip_id not in marked:
            continue
        marks_of_film = timed.get(span.movie_id, ())
        clip = marked[span.clip_id]
        held[span.clip_id] = held_s(clip, span, marks_of_film, expression.holds)
        lengths.setdefault(span.movie_id, []).append(span.length_s)
    means = {film: fmean(of_film) for film, of_film in lengths.items()}
    shares = {clip: part / means[marked[clip].movie_id] for clip, part in held.items()}
    return np.array([means[film] for film in films]), shares


def held_s(
    clip: Clip,
    span: ClipSpan,
    marks: Sequence[Mark],
    holds: Callable[[Callable[[str], Sequence[str]]], bool | None],
) -> float:
    """Return for how many seconds of a clip something holds.

    Args:
        clip: The clip, for its other columns.
        span: When it begins and ends in its film.
        marks: The marks of the film, without what was only watched.
        holds: Whether it holds for the cells of a clip.
    """
    inside = [
        mark
        for mark in marks
        if mark.start_s < span.end_s and mark.end_s > span.start_s
    ]
    ends = {span.start_s, span.end_s}
    for mark in inside:
        ends |= {max(mark.start_s, span.start_s), min(mark.end_s, span.end_s)}
    # The clip has its own labels, which are not those of each of its moments.
    own = {
        mark.column: NOTHING
        for mark in marks
        if mark.column not in (LEVEL, CONCEPTS_COLUMN)
    }
    clip = replace(clip, extra={**clip.extra, **own})
    total_s = 0.0
    for start_s, end_s in pairwise(sorted(ends)):
        there = [one for one in inside if one.start_s <= start_s and one.end_s >= end_s]
        if holds(_at_moment(clip, there).values):
            total_s += end_s - start_s
    return total_s


def _at_moment(clip: Clip, marks: Sequence[Mark]) -> Clip:
    """Return a clip with what is marked at one moment of it.

    The highest level counts, with the concepts of its marks; where nothing is marked, the moment is
    an easy negative, and `none` in other columns.
    """
    levels = [mark.value for mark in marks if mark.column == LEVEL]
    level = max(levels, key=[UNKNOWN, *LEVELS].index, default=LEVELS[0])
    highest = [mark for mark in marks if mark.column == LEVEL and mark.value == level]
    people = {mark.annotator for mark in highest}
    of_highest = {_place(mark) for mark in highest}
    of_levels = {_place(mark) for mark in marks if mark.column == LEVEL}
    concepts: dict[str, None] = {}
    words: dict[str, dict[str, None]] = {}
    for mark in marks:
        if mark.column == CONCEPTS_COLUMN:
            # With the span of no level, it belongs to all levels of its person at this moment.
            is_alone = _place(mark) not in of_levels and mark.annotator in people
            if is_alone or _place(mark) in of_highest or not levels:
                concepts[mark.value] = None
        elif mark.column != LEVEL and mark.value not in (NOTHING, UNKNOWN):
            words.setdefault(mark.column, {})[mark.value] = None
    cells = {name: "|".join(of_column) for name, of_column in words.items()}
    extra = {**clip.extra, **cells}
    return replace(clip, level=level, concepts=tuple(concepts), extra=extra)


def _place(mark: Mark) -> tuple[str, float, float]:
    return mark.annotator, mark.start_s, mark.end_s


def _expression(
    of: str, marked: Manifest, projected: ProjectedMarks | None
) -> Expression:
    """Return what is asked, which is not known of a clip without a mark."""
    concepts = dict.fromkeys(marked.header.concepts)
    if projected is None:
        for clip in marked:
            concepts.update(dict.fromkeys(clip.concepts))
    elif not projected.clips.header.concepts.keys() <= concepts.keys():
        # The clips have other concepts, such as groups of them, which nobody marked.
        concepts = dict.fromkeys(projected.clips.header.concepts)
    if not concepts:
        concepts = dict.fromkeys(concepts_of_papers())
    expression = parse(
        of, columns=marked.columns, vocabulary=concepts, where=of, of_empty=None
    )
    has_levels = projected is None or LEVEL in projected.projection.columns
    if expression.concepts and not has_levels:
        raise FixInput(
            "concepts are counted where marks have levels, and these have none",
            where=of,
            hint="mark levels, or put the concepts into a column of your own",
        )
    for column in expression.compared:
        require_column(marked, column)
    require_numbers(expression, marked.clips, marked.name)
    return expression


@dataclass(frozen=True)
class Scores:
    """The scores of clips, the mean score of all clips of a film, and how many clips lack one."""

    of_clip: Mapping[str, float]
    mean_of_film: Mapping[str, float]
    n_missing: int


def _read_scores(path: Path, drawn: Manifest, plan: Mapping[str, DrawnFilm]) -> Scores:
    """Return the scores of a table of predictions, which must be of all clips of the films."""
    violations = Violations(path)
    table = read_table(
        path,
        required=("clip_id", "movie_id"),
        content="predictions",
        violations=violations,
    )
    violations.raise_if_any("the predictions cannot be read")
    column = score_column(table.columns, path)
    of_clip: dict[str, float] = {}
    scores_of_film: dict[str, list[float]] = {}
    lines: dict[str, int] = {}
    trained = []
    for row in table.rows:
        row.unique("clip_id", lines)
        score = number_of_cell(row[column])
        clip = drawn.by_id.get(row["clip_id"])
        if clip is not None:
            if not row["movie_id"]:
                row.add("movie_id", "the film of this drawn clip is not known")
            if row.cells.get("basis") in MAY_HAVE_TRAINED:
                trained.append(row["clip_id"])
        if score is not None:
            of_clip[row["clip_id"]] = score
            scores_of_film.setdefault(row["movie_id"], []).append(score)
    violations.raise_if_any("the predictions are not of these clips")
    if trained:
        raise FixInput(
            f"the model was trained on seconds of {count(len(trained), 'drawn clip')}, or may have"
            f" been, so that its scores are too good: {few(trained, 3)}",
            where=str(path),
            hint="the scores of a model that was not trained on these films",
        )
    require_same_shared(
        ClipFacts.of_cells([row.cells for row in table.rows]),
        ClipFacts.of_clips(drawn.clips),
        ("the predictions", f"the manifest {drawn.name}"),
        where=str(path),
        hint="the predictions for the clips from which the sample was drawn",
    )
    if of_clip.keys().isdisjoint(drawn.clip_ids):
        raise FixInput(
            f"no drawn clip has a score; the first one is {drawn.clip_ids[0]!r}",
            where=str(path),
            hint="the predictions for the clips from which the sample was drawn",
        )
    mean_of_film = {}
    n_missing = 0
    for film, drawn_film in plan.items():
        scores = scores_of_film.get(film, [])
        if len(scores) > drawn_film.n_clips:
            raise FixInput(
                f"scores of {len(scores)} clips of the film {film}, of which the sample was drawn"
                f" from {drawn_film.n_clips}",
                where=str(path),
                hint="the predictions for the clips from which the sample was drawn",
            )
        n_missing += drawn_film.n_clips - len(scores)
        mean_of_film[film] = float(np.mean(scores)) if scores else 0.0
    return Scores(of_clip, mean_of_film, n_missing)


def _marked_films(
    names: Sequence[str],
    marked: Manifest,
    sizes: NDArray[np.float64],
    said: Mapping[str, float | None],
    scores: Scores | None,
) -> MarkedFilms:
    """Return what the marked clips of each film say.

    Args:
        names: The films.
        marked: The drawn clips.
        sizes: How much each film counts: its clips, or their seconds.
        said: Whether it holds for each clip, or for which part of its time; None where not marked.
        scores: The scores of a model.
    """
    clips_of_film: dict[str, list[Clip]] = {name: [] for name in names}
    for clip in marked:
        if said[clip.clip_id] is not None:
            clips_of_film[clip.movie_id].append(clip)
    shape = (len(names), max(map(len, clips_of_film.values())))
    marks = np.full(shape, np.nan)
    scores_of_clips = np.zeros(shape)
    score_of_all = np.zeros(len(names))
    for row, (film, clips) in enumerate(clips_of_film.items()):
        marks[row, : len(clips)] = [said[clip.clip_id] for clip in clips]
        if scores is not None:
            mean = scores.mean_of_film[film]
            score_of_all[row] = mean
            of_clips = [scores.of_clip.get(clip.clip_id, mean) for clip in clips]
            scores_of_clips[row, : len(clips)] = of_clips
    return MarkedFilms.of(sizes, marks, scores_of_clips, score_of_all)


def _share_of_time(films: MarkedFilms | None, in_group: NDArray[np.intp]) -> Record:
    """Return the share of the time of a group of films; None where nobody knows the times."""
    if films is None:
        return dict.fromkeys(TIME_CELLS)
    share = share_of(films.some(in_group))
    ends = {"time_low": _known(share.low), "time_high": _known(share.high)}
    return {"time_share": float(share.value), **ends}


def _groups(
    films: Sequence[str], values_of_film: Mapping[str, Sequence[str]]
) -> dict[str, NDArray[np.intp]]:
    """Return the positions of the films of each group; a film with several values is in each."""
    groups: dict[str, list[int]] = {}
    for position, film in enumerate(films):
        for value in values_of_film.get(film, ()):
            groups.setdefault(value, []).append(position)
    return {value: np.array(groups[value]) for value in sorted(groups)}


def _group_share(
    group: str,
    films: MarkedFilms,
    slopes: NDArray[np.float64],
    in_group: NDArray[np.intp],
    has_scores: bool,
) -> Record:
    """Return the share of the clips of a group of films, with its interval of 95 % over films.

    The clips are all of the films with marks. `width_of_marks` is the width of the interval without
    predictions; None where there are no predictions.
    """
    of_group = films.some(in_group)
    share = share_of(of_group, slopes[in_group])
    by_marks = share_of(of_group)
    return {
        "group": group,
        "n_films": len(in_group),
        "n_clips": int(of_group.sizes.sum()),
        "n_marked": int(of_group.n_marked.sum()),
        "share": float(share.value),
        "low": _known(share.low),
        "high": _known(share.high),
        "width_of_marks": _known(by_marks.width) if has_scores else None,
    }


def _differences_of(
    groups: Mapping[str, NDArray[np.intp]],
    films: MarkedFilms,
    slopes: NDArray[np.float64],
) -> list[Record]:
    """Return the differences of all pairs of groups that have two films of their own, with p.

    Films that are in both groups are left out. p exchanges whole films; `p_holm` is corrected over
    all pairs.
    """
    values = films.shares + slopes * films.ahead
    tested: list[Record] = []
    for names in combinations(groups, 2):
        first, second = (groups[name] for name in names)
        in_both = np.intersect1d(first, second)
        first = np.setdiff1d(first, in_both)
        second = np.setdiff1d(second, in_both)
        if min(len(first), len(second)) < LEAST_FILMS:
            continue
        both = np.concatenate([first, second])
        sizes = films.sizes[both]
        share = np.average(values[both], weights=sizes)
        from_mean = difference_of(values[both], share)
        surplus = sizes * from_mean  # of clips that have it
        p_value = permutation_p(surplus, np.arange(len(both)) < len(first))
        shares = [
            np.average(values[part], weights=films.sizes[part])
            for part in (first, second)
        ]
        tested.append(
            {
                "groups": names,
                "difference": float(shares[0] - shares[1]),
                "p": p_value.two_sided,
                "method": p_value.method,
                "n_in_both": len(in_both),
            }
        )
    if not tested:
        return []
    corrected = holm([pair["p"] for pair in tested])
    return [
        {**pair, "p_holm": float(p)} for pair, p in zip(tested, corrected, strict=True)
    ]


def _known(value: NDArray[np.float64]) -> float | None:
    return None if np.isnan(value) else float(value)


def _width(share: Record) -> float | None:
    return None if share["low"] is None else float(share["high"] - share["low"])


def _number(value: float | None) -> str:
    return "not known" if value is None else f"{value:.3f}"


def _with_interval(record: Record, of: str = "") -> str:
    """Return a share of a record with its interval; its names begin with `of`."""
    share, low, high = (record[f"{of}{name}"] for name in ("share", "low", "high"))
    if low is None:
        return f"{share:.3f} (no interval of one film)"
    return f"{share:.3f} [{low:.3f}, {high:.3f}]"
