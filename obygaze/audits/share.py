"""The audit of a share: how much of films shows something.

If the films were coded wholly, `coded_share` counts. Else the share is estimated from a few of the
clips, which were sampled within films by `manifest sample`, and labelled. Scores of a model for all
clips of the films can make the interval narrower; they never replace labels.

`read_labels` reads and checks the labels, `estimate_shares` computes the shares, and `present`
makes the table, the sentences and the figure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze.audits.annotations import require_column
from obygaze.audits.coded_share import (
    count_shares,
    present_coded,
    read_coded,
    read_coded_marks,
)
from obygaze.audits.condition import judge, line_of_sample, parse_condition
from obygaze.audits.group_differences import compare_shares, difference_sentences
from obygaze.audits.result import Audit, Plot, Point
from obygaze.films.marks import find_marks
from obygaze.films.predictions import score_column
from obygaze.films.sampling import LEAST_FILMS, draw_plan, is_drawn
from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.tables import number_of_cell, read_table
from obygaze_features.core.workspace import PathLike
from obygaze_features.manifest.clip_table import ClipTable
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Manifest
from obygaze_features.manifest.same_clips import same_clips
from obygaze_models.evaluation.basis import FILM_SEEN, FILM_UNKNOWN
from obygaze_models.evaluation.shares import (
    MarkedFilms,
    estimate_share,
    variance_explained,
)
from obygaze_models.zoo.training_overlap import COPY, IN_SAMPLE

Floats = NDArray[np.float64]
# The scores of the clips of each film.
Scores = Mapping[str, Mapping[str, float]]
# A share, or a difference, with the keys of the JSON document.
Row = dict[str, Any]

# The bases of scores of a model that may have been trained on a clip or its film.
MAY_HAVE_TRAINED = (COPY, IN_SAMPLE, FILM_SEEN, FILM_UNKNOWN)
LABELS_OF_MARKS = (
    "for labels from marks: obygaze marks clips MARKS --clips SAMPLE -o NAME, then obygaze"
    " audit share NAME"
)
MORE_FILMS = "sample clips of more films: obygaze manifest sample --help"
HEADERS = {
    **{"group": "films", "n_films": "n films", "n_clips": "clips", "n_drawn": "drawn"},
    **{"n_judged": "judged", "n_not_judged": "not judged"},
    **{"share": "share", "low": "low", "high": "high"},
}


@dataclass(frozen=True)
class FilmLabels:
    """The labels of a film.

    Attributes:
        n_clips: Number of clips of the film.
        n_drawn: Number of sampled clips.
        n_disputed: Number of sampled clips on which annotators differ.
        holds: Whether the expression holds, for each judged clip.
    """

    n_clips: int
    n_drawn: int
    n_disputed: int
    holds: Mapping[str, bool]


@dataclass(frozen=True)
class Shares:
    """The shares of all films and of groups of films, their differences, and what is missing.

    Attributes:
        counts: The numbers of all clips, and of sampled, judged, not judged and disputed clips.
        shares: A record of all films with labels, then a record of each group: the counts, the
            share of clips, and the ends of the 95 % interval of this share over films. The ends are
            None for a single film.
        differences: The difference of the shares of each two groups, without the films that are in
            both groups. `p` comes from exchanging whole films, and `p_holm` is corrected for all
            pairs of groups.
        explained: The share of the variance of labels within films that predictions explain.
        films_without_labels: Films without a judged clip.
        films_without_group: Films with labels that are in no group.
        n_without_score: Number of clips without a score.
    """

    counts: Mapping[str, int]
    shares: Sequence[Row]
    differences: Sequence[Row]
    explained: float | None
    films_without_labels: Sequence[str]
    films_without_group: Sequence[str]
    n_without_score: int


def audit_share(
    source: PathLike,
    *,
    of: str = "level == S",
    predictions: PathLike | None = None,
    by: str | None = None,
    workspace: PathLike | None = None,
) -> Audit:
    """Return the share of films that shows something: counted, or estimated from a sample.

    The source is a manifest whose clips cover its films, or a table of marks. All that was coded
    counts: the share of the time and of the clips, of each film, of each coder, and of all. A part
    of a film without a label counts nowhere. Marks have a share of the time only; where an
    annotator has marks in the column `watched`, only what was watched or marked
    counts.

    If the manifest has only clips that `manifest sample` has sampled, the share of all clips of the
    films is estimated. A clip without a label, or with `?`, was not judged and does not count. The
    interval is over films: it holds for the films of which these films are a random sample.
    Predictions for all clips of the films can make it narrower. The share is then the mean
    prediction of all clips plus the mean error on the judged clips; predictions never count as
    labels.

    Groups of films are compared by exchanging whole films, with Holm's correction. A word that no
    label has is an error.

    Args:
        source: The manifest with labels, or the table of marks.
        of: The expression to count, such as "level == S", "Look in concept" or "mood == sad".
        predictions: For a sample: CSV of clips with scores, as `models predict` writes it.
        by: A column of films whose values are the groups.
        workspace: The workspace, if it is not the current one.

    Example:
        audit = audit_share("judged", by="decade")
    """
    table = find_marks(source, workspace)
    if table is not None:
        for option, value in (("--predictions", predictions), ("--by", by)):
            if value is not None:
                raise FixUsage(
                    f"{option} is for a manifest, got a table of marks",
                    where=str(source),
                    hint=LABELS_OF_MARKS,
                )
        marks = read_coded_marks(table, of, workspace)
        return present_coded(marks, count_shares(marks), of)
    manifest = read_manifest(source, workspace=workspace)
    groups_of = film_values(manifest, by) if by is not None else None
    if predictions is None and not is_drawn(manifest):
        coded = read_coded(manifest, of)
        return present_coded(coded, count_shares(coded, groups_of), of)
    labels = read_labels(manifest, of)
    scores = None
    if predictions is not None:
        scores = read_scores(Path(predictions), manifest, labels)
    return present(estimate_shares(labels, groups_of, scores), of, manifest.name)


# ---- labels and scores ---------------------------------------------------------------------------


def read_labels(drawn: Manifest, of: str) -> dict[str, FilmLabels]:
    """Return the labels of each film of a sample of clips."""
    if not is_drawn(drawn):
        raise FixInput(
            f"expected a random sample from obygaze manifest sample, got {drawn.name}: only a"
            " sample shows how often a model is wrong in these films",
            where=drawn.name,
            hint=f"{line_of_sample(drawn)}; label the sampled clips; {LABELS_OF_MARKS}",
        )
    expression = parse_condition(of, drawn)
    decided = drawn.decided(expression)
    holds: dict[str, dict[str, bool]] = {film: {} for film in drawn.films}
    n_disputed = Counter(clip.movie_id for clip in drawn)
    n_disputed.subtract(clip.movie_id for clip in decided)
    for clip_id, is_so in judge(expression, decided).items():
        holds[drawn[clip_id].movie_id][clip_id] = is_so
    n_films = sum(map(bool, holds.values()))
    if n_films < LEAST_FILMS:
        raise FixInput(
            f"expected labels of clips of at least {LEAST_FILMS} films, got labels in"
            f" {count(n_films, 'film')}",
            where=drawn.name,
            hint=LABELS_OF_MARKS if len(drawn.films) >= LEAST_FILMS else MORE_FILMS,
        )
    labels = {}
    for film, plan in draw_plan(drawn).items():
        sizes = (plan.n_clips, plan.n_drawn, n_disputed[film])
        labels[film] = FilmLabels(*sizes, holds[film])
    return labels


def film_values(manifest: Manifest, column: str) -> dict[str, list[str]]:
    """Return the values of each film in a column; all clips of a film must have the same values.

    Empty cells are ignored.
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
            )
        values_of_film[clip.movie_id] = values or known
    return values_of_film


def read_scores(
    path: Path, drawn: Manifest, labels: Mapping[str, FilmLabels]
) -> Scores:
    """Return the scores of a table of predictions for all clips of the films.

    Raise an error if the model was, or may have been, trained on a film of the sample.
    """
    violations = Violations(path)
    table = read_table(
        path,
        required=("clip_id", "movie_id"),
        content="predictions",
        violations=violations,
    )
    violations.raise_if_any("the predictions cannot be read")
    column = score_column(table.columns, path)
    scores: dict[str, dict[str, float]] = {film: {} for film in labels}
    lines: dict[str, int] = {}
    trained: dict[str, None] = {}
    for row in table.rows:
        film = row["movie_id"]
        row.unique("clip_id", lines)
        if row["clip_id"] in drawn and not film:
            row.add("movie_id", "the film of this sampled clip is missing")
        if film in scores and row.cells.get("basis") in MAY_HAVE_TRAINED:
            trained[film] = None
        score = number_of_cell(row[column])
        if score is not None and film in scores:
            scores[film][row["clip_id"]] = score
    violations.raise_if_any("the predictions are not of these clips")
    problem = ""
    if trained:
        problem = (
            f"the model was (perhaps) trained on {count(len(trained), 'film')} of the sample, so"
            f" that its scores are too good: {few([*trained], 3)}"
        )
    elif not any(clip.clip_id in scores[clip.movie_id] for clip in drawn):
        problem = f"no sampled clip has a score; the first is {drawn.clip_ids[0]!r}"
    for film, of_clip in scores.items():
        if len(of_clip) > labels[film].n_clips and not problem:
            problem = (
                f"expected scores of at most {labels[film].n_clips} clips of the film {film}, from"
                f" which the sample was drawn, got {len(of_clip)}"
            )
    if not trained:
        stated = ClipTable.of_cells([row.cells for row in table.rows])
        same_clips(stated, ClipTable.of_clips(drawn.clips)).require(
            ("the predictions", f"the manifest {drawn.name}"),
            where=str(path),
        )
    if problem:
        raise FixInput(problem, where=str(path))
    return scores


# ---- numbers -------------------------------------------------------------------------------------


def estimate_shares(
    labels: Mapping[str, FilmLabels],
    groups_of: Mapping[str, Sequence[str]] | None = None,
    scores: Scores | None = None,
) -> Shares:
    """Return the share of clips with the label: of all films, of groups, and group differences.

    With scores, the share is the mean prediction of all clips plus the mean error of the prediction
    on the judged clips. The prediction is a linear function of the scores that is fitted on the
    other films. So the share is unbiased for any scores.

    Args:
        labels: The labels of each film.
        groups_of: The groups of each film; None: no groups.
        scores: The scores of the clips of each film. A clip without a score counts as the mean of
            its film. None: no scores.
    """
    known = {film: of_film for film, of_film in labels.items() if of_film.holds}
    films = _marked_films(known, scores)
    slopes = np.zeros(len(known)) if scores is None else films.slopes
    places_of: dict[str, list[int]] = {}
    for place, film in enumerate(known):
        for group in (groups_of or {}).get(film, ()):
            places_of.setdefault(group, []).append(place)
    groups = {group: np.array(places_of[group]) for group in sorted(places_of)}
    of_films = np.array([*known.values()], dtype=np.object_)
    shares = []
    for group, places in {"all films": np.arange(len(known)), **groups}.items():
        share = estimate_share(films.some(places), slopes[places])
        shares.append(
            {
                "group": group,
                "n_films": len(places),
                **_counts(of_films[places]),
                "share": float(share.value),
                "low": _known(share.low),
                "high": _known(share.high),
            }
        )
    without_score = [labels[f].n_clips - len(of) for f, of in (scores or {}).items()]
    without_group = [film for film in known if groups_of and not groups_of[film]]
    return Shares(
        counts=_counts(labels.values()),
        shares=shares,
        differences=compare_shares(
            groups, films.shares + slopes * films.ahead, films.sizes
        ),
        explained=None if scores is None else float(variance_explained(films)),
        films_without_labels=[film for film in labels if film not in known],
        films_without_group=without_group,
        n_without_score=sum(without_score),
    )


def _counts(films: Iterable[FilmLabels]) -> dict[str, int]:
    """Return the numbers of clips of some films: all, sampled, judged, disputed, not judged."""
    names = ("n_clips", "n_drawn", "n_judged", "n_disputed", "n_not_judged")
    counts = dict.fromkeys(names, 0)
    for film in films:
        n_judged = len(film.holds)
        n_not_judged = film.n_drawn - n_judged - film.n_disputed
        numbers = (film.n_clips, film.n_drawn, n_judged, film.n_disputed, n_not_judged)
        for name, number in zip(names, numbers, strict=True):
            counts[name] += number
    return counts


def _marked_films(
    labels: Mapping[str, FilmLabels], scores: Scores | None
) -> MarkedFilms:
    """Return the labels and the scores of films as arrays."""
    shape = (len(labels), max(len(of_film.holds) for of_film in labels.values()))
    marks = np.full(shape, np.nan)
    scores_of_clips = np.zeros(shape)
    score_of_all = np.zeros(len(labels))
    for row, (film, of_film) in enumerate(labels.items()):
        n_judged = len(of_film.holds)
        marks[row, :n_judged] = [*of_film.holds.values()]
        of_clip = (scores or {}).get(film)
        if of_clip:
            mean = fmean(of_clip.values())
            score_of_all[row] = mean
            of_judged = [of_clip.get(clip_id, mean) for clip_id in of_film.holds]
            scores_of_clips[row, :n_judged] = of_judged
    sizes = np.array([of_film.n_clips for of_film in labels.values()], np.float64)
    return MarkedFilms.of(sizes, marks, scores_of_clips, score_of_all)


def _known(value: Floats) -> float | None:
    return None if np.isnan(value) else float(value)


# ---- the page ------------------------------------------------------------------------------------


def present(found: Shares, of: str, source: str) -> Audit:
    """Return the audit of shares: its table, sentences and figure."""
    whole = found.shares[0]
    counts = found.counts
    interval = " (no interval of one film)"
    if whole["low"] is not None:
        interval = f" [{whole['low']:.3f}, {whole['high']:.3f}]"
    answer = (
        f"In films such as these {whole['n_films']}, {of} holds for {whole['share']:.3f}{interval}"
        " of the clips."
    )
    drawn = (
        f"{count(counts['n_drawn'], 'clip')} sampled: {counts['n_judged']} judged,"
        f" {counts['n_not_judged']} not judged."
    )
    points = []
    for share in found.shares:
        n_films = count(share["n_films"], "film")
        note = f"{share['n_judged']} clips, {n_films}"
        ends = (share["low"], share["high"])
        points.append(Point(share["group"], share["share"], ends, note))
    return Audit(
        title=f"How much: {of} in {source}",
        headers=[*HEADERS.values()],
        rows=[tuple(row[name] for name in HEADERS) for row in found.shares],
        answers=[answer, drawn, *difference_sentences(found.differences)],
        limits=list(_limits(found)),
        values={
            "source": source,
            "of": of,
            "answer": answer,
            **counts,
            **{name: value for name, value in vars(found).items() if name != "counts"},
        },
        figure=Plot(
            f"{of} in {source}",
            points,
            "share of the clips, with 95 % interval over films",
        ),
    )


def _limits(found: Shares) -> Iterator[str]:
    """Yield what the interval means, and what is missing."""
    whole = found.shares[0]
    yield (
        "The interval shows how much the share depends on the choice of films and sampled clips;"
        " other kinds of films can differ more. Long films count for more, because they have more"
        " clips."
    )
    if found.explained is not None:
        yield (
            f"The predictions explain {100 * max(found.explained, 0):.0f} % of the variance within"
            " films."
        )
    if not whole["share"]:
        yield "The share is 0 in the judged clips; this does not show that it is 0 in all clips."
    if found.counts["n_not_judged"]:
        yield (
            "Clips that were not judged do not count: the share is right if their content is not"
            " the reason why they were not judged."
        )
    if found.films_without_labels:
        yield (
            f"No label in {count(len(found.films_without_labels), 'film')}"
            f" ({few(found.films_without_labels, 5)}): the share holds for the other films."
        )
    n_disputed = count(found.counts["n_disputed"], "clip")
    if found.counts["n_disputed"]:
        yield f"Excluded, because annotators differ: {n_disputed}."
    if found.films_without_group:
        yield (
            f"In no group: {count(len(found.films_without_group), 'film')}"
            f" ({few(found.films_without_group, 5)})."
        )
    if found.n_without_score:
        yield (
            f"{count(found.n_without_score, 'clip')} without a score: each counts as the mean of"
            " the film, which only makes the predictions less useful."
        )
