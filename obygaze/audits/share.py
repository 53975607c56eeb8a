"""The audit of a share: in how many clips of films that nobody annotated something is.

The clips were drawn within films by `manifest sample`, and labelled. Scores of a model for all
clips of the films may make the interval narrower; they never replace labels.

`labels_of` reads and checks, `estimate_shares` computes, and `present` makes the page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from obygaze.audits.result import Audit, Plot, Point
from obygaze.films.marks import UNKNOWN
from obygaze.films.predictions import score_column
from obygaze.films.sampling import (
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
from obygaze_features.manifest.model import Clip, Manifest, require_numbers
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

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
# The scores of the clips of each film.
Scores = Mapping[str, Mapping[str, float]]

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
OTHER_CLIPS = "the predictions for the clips from which the sample was drawn"


@dataclass(frozen=True)
class FilmLabels:
    """The labels of a film.

    Attributes:
        n_clips: The clips of the film.
        n_drawn: The clips that were drawn.
        n_disputed: The drawn clips on which annotators differ.
        holds: Whether it holds, for each clip that was judged.
    """

    n_clips: int
    n_drawn: int
    n_disputed: int
    holds: Mapping[str, bool]


@dataclass(frozen=True)
class LabelCounts:
    """How many clips films have, and what became of the drawn ones.

    Attributes:
        n_clips: All clips of the films.
        n_drawn: The clips that were drawn.
        n_judged: The drawn clips with a label.
        n_disputed: The drawn clips on which annotators differ.
        n_not_judged: The drawn clips without a label.
    """

    n_clips: int
    n_drawn: int
    n_judged: int
    n_disputed: int
    n_not_judged: int


@dataclass(frozen=True)
class GroupShare(LabelCounts):
    """The share of the clips of a group of films with labels.

    Attributes:
        group: The group.
        n_films: Its films.
        share: The share of all clips.
        low: The lower end of its interval of 95 % over films; None for one film.
        high: The upper end.
        width_of_labels: The width of the interval without predictions, where there are some.
    """

    group: str
    n_films: int
    share: float
    low: float | None
    high: float | None
    width_of_labels: float | None = None

    @property
    def width(self) -> float | None:
        """The width of the interval."""
        return None if self.low is None or self.high is None else self.high - self.low


@dataclass(frozen=True)
class ShareDifference:
    """The difference of two groups of films, without the films that are in both.

    `p` is found by exchanging whole films; `p_holm` is corrected over all pairs of groups.
    """

    groups: tuple[str, str]
    difference: float
    p: float
    method: str
    n_in_both: int
    p_holm: float = 1.0


@dataclass(frozen=True)
class Shares(LabelCounts):
    """The shares of all films and of groups of films, their differences, and what is missing.

    Attributes:
        shares: The share of all films with labels, then of each group.
        differences: The differences of each two groups.
        explained: The part of the variance within films that predictions explain.
        films_without_labels: Films of which no clip was judged.
        films_without_group: Films with labels that are in no group.
        n_without_score: The clips without a score.
    """

    shares: Sequence[GroupShare]
    differences: Sequence[ShareDifference]
    explained: float | None
    films_without_labels: Sequence[str]
    films_without_group: Sequence[str]
    n_without_score: int


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
    labels of marks. A clip without a label, or with `?`, was not judged and does not count. A word
    that no label has is refused.

    The share is that of all clips of the films, with an interval over films: it speaks of films of
    which these are a draw. Groups of films are compared by exchanging whole films, with Holm's
    correction.

    Predictions of all clips of the films can make the interval narrower. The share is the mean of
    what they predict of all clips, plus the mean error on the judged clips; they are never counted.

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
    labels = labels_of(drawn, of)
    groups_of = values_of_films(drawn, by) if by is not None else None
    scores = None
    if predictions is not None:
        scores = read_scores(Path(predictions), drawn, labels)
    return present(estimate_shares(labels, groups_of, scores), of, drawn.name)


# ---- labels and scores ---------------------------------------------------------------------------


def labels_of(drawn: Manifest, of: str) -> dict[str, FilmLabels]:
    """Return the labels of each film of a draw."""
    if not is_drawn(drawn):
        n_clips = min(5 * len(drawn.films), len(drawn))
        sample = f"obygaze manifest sample {shell_word(drawn.name)} -n"
        raise FixInput(
            f"no share of {drawn.name}: {WHY_NOT_COUNT}",
            where=drawn.name,
            hint=f"{sample} {n_clips} -o drawn, mark the drawn clips; {LABELS_OF_MARKS}",
        )
    expression = _expression(of, drawn)
    decided = drawn.undisputed((*expression.compared, *expression.concepts))
    holds: dict[str, dict[str, bool]] = {}
    n_decided = Counter(clip.movie_id for clip in decided)
    for clip in decided:
        is_so = _holds(expression, clip)
        if is_so is not None:
            holds.setdefault(clip.movie_id, {})[clip.clip_id] = is_so
    if len(holds) < LEAST_FILMS:
        raise FixInput(
            f"expected labels of clips of at least {LEAST_FILMS} films, got labels in"
            f" {count(len(holds), 'film')}",
            where=drawn.name,
            hint=LABELS_OF_MARKS,
        )
    n_rows = Counter(clip.movie_id for clip in drawn)
    plan = draw_plan(drawn)
    labels = {}
    for film in drawn.films:
        n_disputed = n_rows[film] - n_decided[film]
        labels[film] = FilmLabels(
            plan[film].n_clips, plan[film].n_drawn, n_disputed, holds.get(film, {})
        )
    return labels


def _holds(expression: Expression, clip: Clip) -> bool | None:
    """Return whether it holds for a clip; None where a person could not tell, or said nothing."""

    def values(column: str) -> list[str]:
        return [value for value in clip.values(column) if value != UNKNOWN]

    return expression.holds(values)


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


def read_scores(
    path: Path, drawn: Manifest, labels: Mapping[str, FilmLabels]
) -> Scores:
    """Return the scores of a table of predictions, which must be of all clips of the films."""
    scores: dict[str, dict[str, float]] = {film: {} for film in labels}
    for film, clip_id, score in _rows_of_scores(path, drawn):
        if score is not None and film in scores:
            scores[film][clip_id] = score
    if not any(clip.clip_id in scores[clip.movie_id] for clip in drawn):
        raise FixInput(
            f"no drawn clip has a score; the first one is {drawn.clip_ids[0]!r}",
            where=str(path),
            hint=OTHER_CLIPS,
        )
    for film, of_clip in scores.items():
        if len(of_clip) > labels[film].n_clips:
            raise FixInput(
                f"scores of {len(of_clip)} clips of the film {film}, of which the sample was drawn"
                f" from {labels[film].n_clips}",
                where=str(path),
                hint=OTHER_CLIPS,
            )
    return scores


def _rows_of_scores(path: Path, drawn: Manifest) -> list[tuple[str, str, float | None]]:
    """Return film, clip and score of each row; an error where they are not of these films."""
    violations = Violations(path)
    table = read_table(
        path,
        required=("clip_id", "movie_id"),
        content="predictions",
        violations=violations,
    )
    violations.raise_if_any("the predictions cannot be read")
    column = score_column(table.columns, path)
    films = {*drawn.films}
    lines: dict[str, int] = {}
    trained: dict[str, None] = {}
    rows = []
    for row in table.rows:
        row.unique("clip_id", lines)
        if row["clip_id"] in drawn and not row["movie_id"]:
            row.add("movie_id", "the film of this drawn clip is not known")
        if row["movie_id"] in films and row.cells.get("basis") in MAY_HAVE_TRAINED:
            trained[row["movie_id"]] = None
        rows.append((row["movie_id"], row["clip_id"], number_of_cell(row[column])))
    violations.raise_if_any("the predictions are not of these clips")
    if trained:
        raise FixInput(
            f"the model was trained on {count(len(trained), 'film')} of the sample, or may have"
            f" been, so that its scores are too good: {few([*trained], 3)}",
            where=str(path),
            hint="the scores of a model that was not trained on these films",
        )
    require_same_shared(
        ClipFacts.of_cells([row.cells for row in table.rows]),
        ClipFacts.of_clips(drawn.clips),
        ("the predictions", f"the manifest {drawn.name}"),
        where=str(path),
        hint=OTHER_CLIPS,
    )
    return rows


# ---- numbers -------------------------------------------------------------------------------------


def estimate_shares(
    labels: Mapping[str, FilmLabels],
    groups_of: Mapping[str, Sequence[str]] | None = None,
    scores: Scores | None = None,
) -> Shares:
    """Return the share of the clips of all films and of groups of films, and their differences.

    With scores, the share is the mean of what they predict of all clips, plus the mean error of
    this prediction on the judged clips. The prediction is a straight line of the scores, which is
    fitted on the other films: so the share is without bias, whatever the scores are.

    Args:
        labels: The labels of each film.
        groups_of: The groups of each film.
        scores: The scores of the clips of each film. A clip without one counts as their mean.
    """
    known = {film: of_film for film, of_film in labels.items() if of_film.holds}
    films = _marked_films(known, scores)
    slopes = np.zeros(len(known)) if scores is None else films.slopes
    groups = _groups([*known], groups_of or {})
    shares = []
    for group, places in {ALL: np.arange(len(known)), **groups}.items():
        of_group = [
            of_film for place, of_film in enumerate(known.values()) if place in places
        ]
        share = share_of(films.some(places), slopes[places])
        without = None
        if scores is not None:
            without = _known(share_of(films.some(places)).width)
        found = GroupShare(
            **_counts(of_group),
            group=group,
            n_films=len(of_group),
            share=float(share.value),
            low=_known(share.low),
            high=_known(share.high),
            width_of_labels=without,
        )
        shares.append(found)
    n_without_score = 0
    if scores is not None:
        n_without_score = sum(
            labels[film].n_clips - len(scores[film]) for film in labels
        )
    return Shares(
        **_counts(labels.values()),
        shares=shares,
        differences=_differences(groups, films, slopes),
        explained=None if scores is None else float(explained_by_scores(films)),
        films_without_labels=[film for film in labels if film not in known],
        films_without_group=[
            film for film in known if groups_of and not groups_of[film]
        ],
        n_without_score=n_without_score,
    )


def _counts(films: Iterable[FilmLabels]) -> dict[str, int]:
    """Return the counts of `LabelCounts` of some films."""
    counts = dict.fromkeys(("n_clips", "n_drawn", "n_judged", "n_disputed"), 0)
    for film in films:
        counts["n_clips"] += film.n_clips
        counts["n_drawn"] += film.n_drawn
        counts["n_judged"] += len(film.holds)
        counts["n_disputed"] += film.n_disputed
    n_with = counts["n_judged"] + counts["n_disputed"]
    return {**counts, "n_not_judged": counts["n_drawn"] - n_with}


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
        if scores is not None and scores[film]:
            of_clip = scores[film]
            mean = fmean(of_clip.values())
            score_of_all[row] = mean
            of_judged = [of_clip.get(clip_id, mean) for clip_id in of_film.holds]
            scores_of_clips[row, :n_judged] = of_judged
    sizes = np.array([of_film.n_clips for of_film in labels.values()], np.float64)
    return MarkedFilms.of(sizes, marks, scores_of_clips, score_of_all)


def _groups(
    films: Sequence[str], groups_of: Mapping[str, Sequence[str]]
) -> dict[str, Places]:
    """Return the places of the films of each group; a film may be in several."""
    groups: dict[str, list[int]] = {}
    for place, film in enumerate(films):
        for group in groups_of.get(film, ()):
            groups.setdefault(group, []).append(place)
    return {group: np.array(groups[group]) for group in sorted(groups)}


def _differences(
    groups: Mapping[str, Places], films: MarkedFilms, slopes: Floats
) -> list[ShareDifference]:
    """Return the difference of each two groups; pairs of a group of one film are left out."""
    values = films.shares + slopes * films.ahead
    tested = []
    for names in combinations(groups, 2):
        first, second = (groups[name] for name in names)
        in_both = np.intersect1d(first, second)
        parts = [np.setdiff1d(of_group, in_both) for of_group in (first, second)]
        if min(map(len, parts)) < LEAST_FILMS:
            continue
        both = np.concatenate(parts)
        sizes = films.sizes[both]
        mean = np.average(values[both], weights=sizes)
        # How many clips of each film have it beyond this mean.
        surplus = sizes * difference_of(values[both], mean)
        p_value = permutation_p(surplus, np.arange(len(both)) < len(parts[0]))
        first_share, second_share = (
            np.average(values[part], weights=films.sizes[part]) for part in parts
        )
        difference = ShareDifference(
            groups=names,
            difference=float(first_share - second_share),
            p=p_value.two_sided,
            method=p_value.method,
            n_in_both=len(in_both),
        )
        tested.append(difference)
    if not tested:
        return []
    corrected = holm([pair.p for pair in tested])
    return [
        replace(pair, p_holm=float(p))
        for pair, p in zip(tested, corrected, strict=True)
    ]


def _known(value: Floats) -> float | None:
    return None if np.isnan(value) else float(value)


# ---- the page ------------------------------------------------------------------------------------


def present(found: Shares, of: str, source: str) -> Audit:
    """Return the table and the sentences of shares."""
    whole = found.shares[0]
    answer = (
        f"In films such as these {whole.n_films}, {of} holds for {_with_interval(whole)} of the"
        " clips."
    )
    drawn = (
        f"{count(found.n_drawn, 'clip')} drawn: {found.n_judged} judged, {found.n_not_judged} not"
        " judged."
    )
    headers = ["films", "n films", "clips", "drawn", "judged", "not judged"]
    headers += ["share", "low", "high"]
    if found.explained is not None:
        headers += ["width", "width without predictions"]
    rows = []
    points = []
    for share in found.shares:
        row = [share.group, share.n_films, share.n_clips, share.n_drawn, share.n_judged]
        row += [share.n_not_judged, share.share, share.low, share.high]
        if found.explained is not None:
            row += [share.width, share.width_of_labels]
        rows.append(row)
        note = f"{share.n_judged} clips, {count(share.n_films, 'film')}"
        points.append(Point(share.group, share.share, (share.low, share.high), note))
    return Audit(
        title=f"How much: {of} in {source}",
        headers=headers,
        rows=rows,
        answers=[answer, drawn, *_sentences(found.differences)],
        limits=[*_limits_of_interval(found), *_limits_of_labels(found)],
        values={"source": source, "of": of, "answer": answer, **asdict(found)},
        figure=Plot(
            f"{of} in {source}", points, "share of the clips, with 95 % over films"
        ),
    )


def _sentences(differences: Sequence[ShareDifference]) -> Iterator[str]:
    """Yield a sentence for each pair of groups; of many, for those that differ."""
    shown = differences
    n_pairs = len(differences)
    if n_pairs > MANY:
        shown = [pair for pair in differences if pair.p_holm < ALPHA]
        yield f"{len(shown)} of {n_pairs} pairs of groups have p < {ALPHA}."
    corrected = " after Holm's correction" if n_pairs > 1 else ""
    for pair in shown:
        verdict = "differ" if pair.p_holm < ALPHA else "are not shown to differ"
        left_out = ""
        if pair.n_in_both:
            left_out = f" {count(pair.n_in_both, 'film')} in both left out."
        yield (
            f"{' and '.join(pair.groups)} {verdict}: {pair.difference:+.3f},"
            f" {p_equals(pair.p_holm)}{corrected}, exchanging whole films.{left_out}"
        )


def _limits_of_interval(found: Shares) -> Iterator[str]:
    """Yield what the interval is about, and what made it."""
    whole = found.shares[0]
    of_draw = (
        " and on the clips that were drawn" if whole.n_judged < whole.n_clips else ""
    )
    yield (
        f"The interval says how the share depends on the films that were at hand{of_draw};"
        " other kinds of films can differ more. Long films count for more, as they have more"
        " clips."
    )
    if found.explained is not None:
        explained = f"{100 * max(found.explained, 0):.0f} %"
        yield (
            f"The predictions explain {explained} of the variance within films: with them, the"
            f" interval is {_number(whole.width)} wide, without them"
            f" {_number(whole.width_of_labels)}."
        )
    if not whole.share:
        yield "No judged clip has it: that does not show that no clip has it."


def _limits_of_labels(found: Shares) -> Iterator[str]:
    """Yield what is missing."""
    if found.n_not_judged:
        yield (
            "Clips that were not judged do not count: the share is right if they were not left out"
            " for what they show."
        )
    if found.films_without_labels:
        yield (
            f"No label in {count(len(found.films_without_labels), 'film')}"
            f" ({few(found.films_without_labels, 5)}): the share is that of the others."
        )
    if found.n_disputed:
        yield f"Left out, because annotators differ: {count(found.n_disputed, 'clip')}."
    if found.films_without_group:
        yield (
            f"In no group: {count(len(found.films_without_group), 'film')}"
            f" ({few(found.films_without_group, 5)})."
        )
    if found.n_without_score:
        yield (
            f"{count(found.n_without_score, 'clip')} without a score: they count as the mean of"
            " their film, which only makes the predictions less useful."
        )


def _number(value: float | None) -> str:
    return "not known" if value is None else f"{value:.3f}"


def _with_interval(share: GroupShare) -> str:
    """Return a share with its interval."""
    if share.low is None:
        return f"{share.share:.3f} (no interval of one film)"
    return f"{share.share:.3f} [{share.low:.3f}, {share.high:.3f}]"
