"""The audit of a share: in how many clips of films that nobody annotated something is.

The clips were drawn within films by `manifest sample`, and labelled. Scores of a model for all
clips of the films may make the interval narrower; they never replace labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze.audits.result import Audit, Plot, Point, record_cells
from obygaze.films.predictions import score_column
from obygaze.films.sampling import (
    DrawnFilm,
    draw_plan,
    is_drawn,
    require_column,
)
from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import number_of_cell, read_table
from obygaze_features.core.workspace import PathLike
from obygaze_features.manifest.clip_facts import ClipFacts, require_same_shared
from obygaze_features.manifest.expression import Expression, is_labelled, parse
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Manifest, require_numbers
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
from obygaze_models.zoo.seen import COPY, IN_SAMPLE

ALL = "all films"
# Scores of a model that may have learned from the seconds of a clip.
MAY_HAVE_TRAINED = (COPY, IN_SAMPLE, FILM_SEEN, FILM_UNKNOWN)
LEAST_FILMS = 2
WHY_NOT_COUNT = (
    "its clips were not drawn by plan, and counting predictions is wrong: nobody knows how many"
    " errors a model makes in these films, and the count has the errors in it"
)
LABELS_OF_MARKS = (
    "obygaze manifest project MARKS --clips DRAWN -o NAME, then obygaze audit share NAME,"
    " for labels of marks"
)

CELLS = ("group", "n_films", "n_clips", "n_marked", "share", "low", "high")
# The share of a group of films, or the difference of two groups, by the names of JSON.
Record = dict[str, Any]


def audit_share(
    manifest: PathLike,
    *,
    of: str = "level == S",
    predictions: PathLike | None = None,
    by: str | None = None,
    workspace: PathLike | None = None,
) -> Audit:
    """Estimate in how many clips of films something is, from clips drawn by plan and labelled.

    The clips are those of `manifest sample`, with the labels of a person: `manifest project` makes
    labels of marks. A clip without a label does not count, and a word that no label has is refused.

    The share is that of all clips of the films, with an interval over films: it speaks of films of
    which these are a draw. Groups of films are compared by exchanging whole films, with Holm's
    correction.

    Predictions of all clips of the films, by any model, can make the interval narrower. They are
    used if they explain something within films, and never counted.

    Args:
        manifest: The manifest of the drawn clips, with labels.
        of: What is counted, such as "level == S", "Look in concept" or "mood == sad".
        predictions: CSV of clips with scores, as `models predict` writes it.
        by: A column of films whose values are the groups.
        workspace: The workspace, if it is not the current one.

    Example:
        audit = audit_share("judged", by="decade")

    Commands:
        obygaze audit share judged --report share.html
        obygaze audit share judged --predictions scores.csv
        obygaze audit share judged --of 'Look in concept' --by decade
    """
    drawn = read_manifest(manifest, workspace=workspace)
    if not is_drawn(drawn):
        n_clips = min(5 * len(drawn.films), len(drawn))
        sample = f"obygaze manifest sample {shell_word(drawn.name)} -n"
        raise FixInput(
            f"no share of {drawn.name}: {WHY_NOT_COUNT}",
            where=drawn.name,
            hint=f"{sample} {n_clips} -o drawn, mark the drawn clips; {LABELS_OF_MARKS}",
        )
    plan = draw_plan(drawn)
    group_of_film = values_of_films(drawn, by) if by is not None else {}
    expression = _expression(of, drawn)
    decided = drawn.undisputed((*expression.compared, *expression.concepts))
    answers: dict[str, list[tuple[str, bool]]] = {}
    for clip in decided:
        holds = expression.holds(clip.values)
        if holds is not None:
            answers.setdefault(clip.movie_id, []).append((clip.clip_id, holds))
    films_with_marks = [film for film in drawn.films if film in answers]
    if len(films_with_marks) < LEAST_FILMS:
        raise FixInput(
            f"expected labels of clips of at least {LEAST_FILMS} films, got labels in"
            f" {count(len(films_with_marks), 'film')}",
            where=drawn.name,
            hint=LABELS_OF_MARKS,
        )
    scores = None
    if predictions is not None:
        scores = _read_scores(Path(predictions), drawn, plan)
    films = _marked_films(films_with_marks, plan, answers, scores)
    explained = None if scores is None else float(explained_by_scores(films))
    slopes = (
        films.slopes if explained and explained > 0 else np.zeros(len(films_with_marks))
    )
    groups = _groups(films_with_marks, group_of_film)
    shares = []
    for group, in_group in {ALL: np.arange(len(films_with_marks)), **groups}.items():
        has_scores = scores is not None
        shares.append(_group_share(group, films, slopes, in_group, has_scores))
    differences = _differences_of(groups, films, slopes)
    whole = shares[0]
    answer = (
        f"In films such as these {whole['n_films']}, {of} holds for"
        f" {_with_interval(whole)} of the clips."
    )
    # What is missing, and is said: by its name in JSON.
    missing: dict[str, Any] = {
        "n_drawn": sum(film.n_drawn for film in plan.values()),
        "n_disputed": len(drawn) - len(decided),
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
    rows = [record_cells(share, CELLS) for share in shares]
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
            *_limits_of_interval(whole, explained),
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
        },
        figure=Plot(
            f"{of} in {drawn.name}", points, "share of the clips, with 95 % over films"
        ),
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


def _limits_of_interval(whole: Record, explained: float | None) -> Iterator[str]:
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
    if not whole["share"]:
        yield "No marked clip has it: that does not show that no clip has it."


def _limits_of_marks(
    n_marked: int,
    *,
    n_drawn: int,
    n_disputed: int,
    films_without_marks: Sequence[str],
    films_without_group: Sequence[str],
    n_without_score: int,
) -> Iterator[str]:
    """Yield what is missing."""
    n_missing = n_drawn - n_disputed - n_marked
    if n_missing:
        yield (
            f"{n_missing} of {n_drawn} drawn clips have no label: the share is right if"
            " they were not left out for what they show."
        )
    if films_without_marks:
        yield (
            f"No label in {count(len(films_without_marks), 'film')}"
            f" ({few(films_without_marks, 5)}): the share is that of the others."
        )
    if n_disputed:
        yield f"Left out, because annotators differ: {count(n_disputed, 'clip')}."
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


def values_of_films(manifest: Manifest, column: str) -> dict[str, list[str]]:
    """Return the values of each film in a column, in which the clips of a film must be equal.

    Clips with an empty cell have those of the others of their film.
    """
    require_column(manifest, column)
    values_of_film: dict[str, list[str]] = {film: [] for film in manifest.films}
    for clip in manifest:
        values = sorted(clip.values(column))
        known = values_of_film[clip.movie_id]
        if values and known and values != known:
            raise FixInput(
                f"the clips of the film {clip.movie_id} have several values in the column"
                f" {column}: {few(['|'.join(known), '|'.join(values)])}",
                where=manifest.name,
                hint="a column that says something of films: obygaze manifest join --help",
            )
        values_of_film[clip.movie_id] = values or known
    return values_of_film


def _expression(of: str, drawn: Manifest) -> Expression:
    """Return what is asked, which is not known of a clip without a label."""
    concepts = dict.fromkeys(drawn.header.concepts)
    for clip in drawn:
        concepts.update(dict.fromkeys(clip.concepts))
    if not concepts:
        concepts = dict.fromkeys(concepts_of_papers())
    expression = parse(
        of, columns=drawn.columns, vocabulary=concepts, where=of, of_empty=None
    )
    # Without levels, a clip without the concept looks like one that nobody judged.
    if expression.concepts and not any(is_labelled("level", c.values) for c in drawn):
        raise FixInput(
            "concepts are counted where clips have levels, and these have none",
            where=of,
            hint="mark levels, or put the concepts into a column of your own",
        )
    for column in expression.compared:
        require_column(drawn, column)
    require_numbers(expression, drawn.clips, drawn.name)
    unknown = drawn.unknown_values(expression)
    if unknown:
        hint = (
            "a word of the labels in --of; one on which annotators agree in some clip"
        )
        raise FixInput("; ".join(unknown), where=of, hint=hint)
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
    plan: Mapping[str, DrawnFilm],
    answers: Mapping[str, Sequence[tuple[str, bool]]],
    scores: Scores | None,
) -> MarkedFilms:
    """Return what the labelled clips of each film say.

    Args:
        names: The films.
        plan: Of how many clips those of each film were drawn.
        answers: The labelled clips of each film, and whether it holds for them.
        scores: The scores of a model.
    """
    shape = (len(names), max(len(answers[name]) for name in names))
    marks = np.full(shape, np.nan)
    scores_of_clips = np.zeros(shape)
    score_of_all = np.zeros(len(names))
    for row, film in enumerate(names):
        clips = answers[film]
        marks[row, : len(clips)] = [holds for _, holds in clips]
        if scores is not None:
            mean = scores.mean_of_film[film]
            score_of_all[row] = mean
            of_clips = [scores.of_clip.get(clip_id, mean) for clip_id, _ in clips]
            scores_of_clips[row, : len(clips)] = of_clips
    sizes = np.array([plan[name].n_clips for name in names], np.float64)
    return MarkedFilms.of(sizes, marks, scores_of_clips, score_of_all)


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


def _with_interval(record: Record) -> str:
    """Return the share of a record with its interval."""
    share, low, high = (record[name] for name in ("share", "low", "high"))
    if low is None:
        return f"{share:.3f} (no interval of one film)"
    return f"{share:.3f} [{low:.3f}, {high:.3f}]"
