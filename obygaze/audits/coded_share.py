"""The share of films that were coded wholly: nothing is estimated, every coded second counts.

A manifest has a share of clips and a share of time. Marks have a share of time: the films are cut
wherever a mark starts or ends, so that no mark changes inside a clip.

`read_coded` reads the clips that each coder judged, `count_shares` counts them, and `present_coded`
makes the table, the sentences and the figure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from obygaze.audits.condition import judge, line_of_sample, parse_condition
from obygaze.audits.group_differences import compare_shares, difference_sentences
from obygaze.audits.result import Audit, Plot, Point
from obygaze.films.labels import project_moments
from obygaze.films.marks import WATCHED
from obygaze.films.projection import ClipSpan, covered_s
from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput
from obygaze_features.core.refusal import refuse_if
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike
from obygaze_features.manifest.model import (
    DIFFERS,
    Clip,
    Manifest,
    clock,
    require_films,
)
from obygaze_features.manifest.times import spans_in_films

# A share, with the keys of the JSON document.
Row = dict[str, Any]

ALL_FILMS = "all films"
ALL_CODERS = "all coders"
# Clips may leave out this share of the time from the first clip of a film to the last.
MOST_LEFT_OUT = 0.1
# A film counts as coded wholly if less than this was not coded, because people mark by hand.
MOST_UNCODED_S = 1.0
OF_COLUMN = "for another column, pass --of 'COLUMN == WORD'"
HEADERS = {
    **{"film": "film", "coder": "coder", "n_clips": "clips", "n_with": "clips with it"},
    **{"share_of_clips": "share of clips", "coded_s": "seconds coded"},
    **{"with_s": "seconds with it", "share_of_time": "share of time"},
}


@dataclass(frozen=True)
class Judged:
    """A clip that a coder judged, and whether the condition holds for it."""

    coder: str
    span: ClipSpan
    holds: bool


@dataclass(frozen=True)
class Coded:
    """What the coders of films judged.

    Attributes:
        name: The name of the manifest, or of the table of marks.
        judged: The judged clips of each coder, and of all coders together.
        film_spans: All clips of each film.
        are_moments: Whether the clips were cut from marks, so that their number has no meaning.
        united: How the judgements of several coders become one.
        n_unlabelled: The number of clips without a label.
        n_disputed: The number of clips on which coders differ, so that they have no label.
        warnings: What was assumed about the marks.
    """

    name: str
    judged: Sequence[Judged]
    film_spans: Mapping[str, Sequence[ClipSpan]]
    are_moments: bool
    united: str
    n_unlabelled: int = 0
    n_disputed: int = 0
    warnings: Sequence[str] = ()


# ---- reading -------------------------------------------------------------------------------------


def read_coded(manifest: Manifest, of: str) -> Coded:
    """Return the judged clips of a manifest: the clips of each annotator, and the labels.

    Raise an error unless the clips cover their films, or if a row states what was watched.
    """
    require_films([clip.movie_id for clip in manifest], manifest.name)
    _require_clips(manifest, of)
    film_spans = _spans_of_films(manifest)
    _require_cover(manifest, film_spans)
    spans = {one.clip_id: one for one in chain.from_iterable(film_spans.values())}
    of_coders = _clips_of_coders(manifest)
    known = [*chain.from_iterable(of_coders.values())]
    # A word may be that of one coder, and the label of no clip.
    expression = parse_condition(of, replace(manifest, clips=(*manifest.clips, *known)))
    decided = manifest.decided(expression)
    labels = judge(expression, decided)
    if not labels:
        raise FixInput(
            f"no clip of {manifest.name} has a label for {of}: expected all clips with labels, or a"
            " random sample from obygaze manifest sample",
            where=manifest.name,
            hint=f"{OF_COLUMN}; or {line_of_sample(manifest)}, and label the sampled clips",
        )
    if len(of_coders) < 2:
        (coder,) = of_coders or (ALL_CODERS,)
        of_coders = {coder: decided.clips}
    else:
        of_coders = {ALL_CODERS: decided.clips, **of_coders}
    judged = []
    for coder, clips in of_coders.items():
        for clip_id, holds in judge(expression, clips).items():
            judged.append(Judged(coder, spans[clip_id], holds))
    n_disputed = len(manifest) - len(decided)
    return Coded(
        manifest.name,
        judged,
        film_spans,
        are_moments=False,
        united=f"the labels of the clips, by the rule {manifest.header.rule}"
        if manifest.annotations
        else "a moment counts if it does in the clip of one of the coders",
        n_unlabelled=len(decided) - len(labels),
        n_disputed=n_disputed,
    )


def read_coded_marks(path: Path, of: str, workspace: PathLike | None = None) -> Coded:
    """Return what the annotators of a table of marks said at each moment of the films."""
    projected = project_moments(path, workspace)
    manifest = projected.manifest
    film_spans = _spans_of_films(manifest)
    spans = {one.clip_id: one for one in chain.from_iterable(film_spans.values())}
    of_coders = _clips_of_coders(manifest)
    known = [*chain.from_iterable(of_coders.values())]
    of_marks = replace(manifest, clips=tuple(known), columns=manifest.header.said or ())
    expression = parse_condition(of, of_marks)
    judged = []
    for coder, clips in of_coders.items():
        for clip_id, holds in judge(expression, clips).items():
            one = Judged(coder, spans[clip_id], holds)
            judged.append(one)
            if len(of_coders) > 1:
                judged.append(replace(one, coder=ALL_CODERS))
    if not judged:
        raise FixInput(
            f"these marks say of no part of a film whether {of} holds",
            where=str(path),
            hint=OF_COLUMN,
        )
    return Coded(
        path.stem,
        judged,
        film_spans,
        are_moments=True,
        united="a moment counts if it does for one of the coders",
        warnings=projected.warnings,
    )


def _spans_of_films(manifest: Manifest) -> dict[str, list[ClipSpan]]:
    """Return the clips of each film, by their start."""
    times_s = spans_in_films(manifest)
    refuse_if(
        [clip.clip_id for clip in manifest if clip.clip_id not in times_s],
        FixInput,
        "no times in the film for the clips",
        where=manifest.name,
        hint="add the columns film_start_s and film_end_s; or take a random sample of the clips:"
        f" obygaze manifest sample {shell_word(manifest.name)} --help",
    )
    films: dict[str, list[ClipSpan]] = {}
    for clip in manifest:
        span = ClipSpan(clip.clip_id, clip.movie_id, *times_s[clip.clip_id])
        films.setdefault(clip.movie_id, []).append(span)
    return {film: sorted(films[film], key=_start_s) for film in sorted(films)}


def _require_clips(manifest: Manifest, of: str) -> None:
    """Raise an error if rows are marks: parts that were watched without a mark have no row."""
    rows = [one.own for one in manifest.annotations] or [one.extra for one in manifest]
    if any(row.get(WATCHED) for row in rows):
        name = shell_word(manifest.name)
        raise FixInput(
            f"the column {WATCHED} states what was watched, so the rows are marks, not clips of"
            " whole films",
            where=manifest.name,
            hint=f"obygaze marks clips {name} --every 1 -o CLIPS; then obygaze audit share CLIPS"
            f" --of {shell_word(of)}",
        )


def _require_cover(
    manifest: Manifest, film_spans: Mapping[str, Sequence[ClipSpan]]
) -> None:
    """Raise an error if the clips of a film leave gaps: their share is not that of the film."""
    with_gaps = []
    for film, spans in film_spans.items():
        length_s = max(span.end_s for span in spans) - spans[0].start_s
        covered = _length_s(spans) / length_s
        if covered < 1 - MOST_LEFT_OUT:
            with_gaps.append(f"{film} ({100 * covered:.0f} % covered)")
    refuse_if(
        with_gaps,
        FixInput,
        "clips that leave out parts of a film give no share of it, in the films",
        where=manifest.name,
        hint="if the rows are marks, make clips of whole films: obygaze marks clips"
        f" {shell_word(manifest.name)} --every 10 -o NAME; else label a random sample: obygaze"
        " manifest sample --help",
    )


def _clips_of_coders(manifest: Manifest) -> dict[str, Sequence[Clip]]:
    """Return the clips of each annotator, with the labels that the annotator gave them."""
    clips_of: dict[str, list[Clip]] = {}
    for one in manifest.annotations:
        clip = manifest[one.clip_id]
        extra = {**clip.extra, DIFFERS: "", **one.own}
        said = replace(clip, level=one.level, concepts=one.concepts, extra=extra)
        clips_of.setdefault(one.annotator, []).append(said)
    if not manifest.annotations:
        for clip in manifest:
            annotator = clip.extra.get("annotator")
            if annotator:
                clips_of.setdefault(annotator, []).append(clip)
    return {coder: clips_of[coder] for coder in sorted(clips_of)}


def _start_s(span: ClipSpan) -> float:
    return span.start_s


# ---- numbers -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CodedShares:
    """The shares of all films, of groups of films, and of each film, for each coder.

    `differences` has the difference of the shares of the time of each two groups, for all coders.
    """

    rows: Sequence[Row]
    differences: Sequence[Row]


def count_shares(
    coded: Coded, groups_of: Mapping[str, Sequence[str]] | None = None
) -> CodedShares:
    """Count the shares. Seconds that several clips have count once.

    Args:
        coded: What the coders judged.
        groups_of: The groups of each film; None: no groups.
    """
    films_of = {ALL_FILMS: [*coded.film_spans]}
    for film, groups in (groups_of or {}).items():
        for group in groups:
            films_of.setdefault(group, []).append(film)
    groups = [ALL_FILMS, *sorted(films_of.keys() - {ALL_FILMS})]
    by_film: dict[tuple[str, str], list[Judged]] = {}
    for one in coded.judged:
        by_film.setdefault((one.span.movie_id, one.coder), []).append(one)
    counts = {}
    for (film, coder), judged in by_film.items():
        counts[film, coder] = _count(judged, coded.film_spans[film])
    rows = []
    names = {one.coder for one in coded.judged}
    coders = sorted(names, key=lambda coder: (coder != ALL_CODERS, coder))
    named = [(group, films_of[group]) for group in groups]
    named += [(film, [film]) for film in coded.film_spans]
    for name, films in named:
        for coder in coders:
            parts = [counts[film, coder] for film in films if (film, coder) in counts]
            if parts:
                rows.append(_row(name, coder, parts, coded))
    whole = {row["film"]: row for row in rows if row["coder"] == coders[0]}
    films = [film for film in coded.film_spans if film in whole]
    places = {
        group: np.array(
            [films.index(film) for film in films_of[group] if film in films]
        )
        for group in groups[1:]
    }
    sizes = np.array([whole[film]["coded_s"] for film in films])
    shares = np.array([whole[film]["share_of_time"] for film in films])
    return CodedShares(rows, compare_shares(places, shares, sizes))


def _count(judged: Sequence[Judged], film: Sequence[ClipSpan]) -> Row:
    """Return the clips and the seconds of a film that one coder judged."""
    positive = [one.span for one in judged if one.holds]
    return {
        "n_clips": len(judged),
        "n_with": len(positive),
        "coded_s": _length_s(one.span for one in judged),
        "with_s": _length_s(positive),
        "film_s": _length_s(film),
    }


def _row(name: str, coder: str, parts: Sequence[Row], coded: Coded) -> Row:
    """Return the share of some films for a coder."""
    row: Row = {"film": name, "coder": coder, "n_films": len(parts)}
    for key in parts[0]:
        row[key] = sum(part[key] for part in parts)
    row["share_of_clips"] = row["n_with"] / row["n_clips"]
    row["share_of_time"] = row["with_s"] / row["coded_s"]
    if coded.are_moments:
        row |= dict.fromkeys(("n_clips", "n_with", "share_of_clips"))
    return row


def _length_s(spans: Iterable[ClipSpan]) -> float:
    """Return how many seconds of a film clips cover together."""
    by_start = sorted(spans, key=_start_s)
    return covered_s(by_start, ClipSpan("", "", 0.0, math.inf))


# ---- the page ------------------------------------------------------------------------------------


def present_coded(coded: Coded, found: CodedShares, of: str) -> Audit:
    """Return the audit of shares: its table, sentences and figure."""
    rows = found.rows
    whole = rows[0]
    answer = (
        f"In {count(whole['n_films'], 'film')}, {of} holds for {whole['share_of_time']:.3f} of the"
        f" coded time ({clock(whole['with_s'])} of {clock(whole['coded_s'])})"
    )
    if not coded.are_moments:
        answer += (
            f", and for {whole['share_of_clips']:.3f} of the clips ({whole['n_with']} of"
            f" {whole['n_clips']})"
        )
    shown = [name for name in HEADERS if rows[0][name] is not None]
    points = []
    for row in rows:
        note = f"{clock(row['with_s'])} of {clock(row['coded_s'])}"
        label = f"{row['film']}, {row['coder']}"
        points.append(Point(label, row["share_of_time"], (), note))
    title = f"How much: {of} in {coded.name}"
    return Audit(
        title=title,
        headers=[HEADERS[name] for name in shown],
        rows=[tuple(row[name] for name in shown) for row in rows],
        answers=[f"{answer}.", *difference_sentences(found.differences)],
        limits=list(_limits(coded, rows)),
        values={
            "source": coded.name,
            "of": of,
            "answer": f"{answer}.",
            **vars(found),
            "n_unlabelled": coded.n_unlabelled,
            "n_disputed": coded.n_disputed,
        },
        figure=Plot(title, points, "share of the coded time"),
        warnings=coded.warnings,
    )


def _limits(coded: Coded, rows: Sequence[Row]) -> Iterator[str]:
    """Yield what the shares mean, and what is missing."""
    yield (
        "These are counts of these films, not estimates, so they have no interval; other films can"
        " differ. Long films count for more."
    )
    if (
        any(row["coder"] == ALL_CODERS for row in rows)
        and len({row["coder"] for row in rows}) > 1
    ):
        yield f"Of all coders: {coded.united}."
    if not coded.are_moments:
        yield (
            "Times are of whole clips. If the labels come from marks, pass these marks: then times"
            " are of the marks."
        )
    in_part = []
    for row in rows:
        is_film = row["film"] in coded.film_spans and row["coder"] != ALL_CODERS
        if is_film and row["coded_s"] < row["film_s"] - MOST_UNCODED_S:
            lengths = f"{clock(row['coded_s'])} of {clock(row['film_s'])}"
            in_part.append(f"{row['film']} by {row['coder']} ({lengths})")
    if in_part:
        yield f"Coded in part, the rest counts nowhere: {few(in_part, 5)}."
    if coded.n_unlabelled:
        yield (
            f"{count(coded.n_unlabelled, 'clip')} without a label do not count: the share is right"
            " if their content is not the reason why they have none."
        )
    if coded.n_disputed:
        n_disputed = count(coded.n_disputed, "clip")
        yield f"Excluded, because annotators differ: {n_disputed}."
