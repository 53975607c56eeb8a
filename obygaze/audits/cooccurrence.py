"""The co-occurrence audit: how often things are named together with words of each gender.

A gendered text has a word of a gender. The bias of a thing toward a gender is the share of this
gender among the gendered texts that name the thing (Zhao et al. 2017).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze.audits.gender import cut_shares
from obygaze.audits.printed import SABIR, as_range, published_shares_of
from obygaze.audits.result import Audit, Plot, Point
from obygaze.audits.texts import (
    LabelledText,
    WordLists,
    by_label,
    column_names,
    read_captions,
    read_words,
    source_name,
    words_of_caption,
)
from obygaze_features.core.errors import FixInput
from obygaze_features.core.unknown_words import UnknownWords
from obygaze_features.manifest.spelling import Spelling
from obygaze_models.evaluation.bootstrap import MADE_OVER_CLUSTERS, ratio_interval

CUT = (
    "Shares in the column 'cut' are cut after two decimals, as in published tables: the two shares "
    "of a row may sum to .99. The column 'share' is exact."
)


XLABEL = "share of the first gender, with 95 % interval over clusters"
# A thing, with the keys of the JSON document.
Record = dict[str, Any]


def audit_cooc(
    source: str | Path | Sequence[Mapping[str, str]],
    things: str,
    *,
    cluster: str | Sequence[str] | None = None,
    words: Mapping[str, str] | None = None,
) -> Audit:
    """Count how often things are named together with words of each gender.

    A text with words of both genders counts for both. Each share is shown exactly, and cut after
    two decimals as in published tables.

    Args:
        source: A table with a column caption, or a folder of .txt files.
        things: The column whose values, joined by `|`, are the things, such as "objects".
        cluster: The columns of the film or image; by default each text is its own cluster.
        words: NA=? if a caption or thing NA is not known, NA=NA if it is an answer.

    Example:
        audit = audit_cooc("captions.csv", "objects", cluster="image")
    """
    genders = read_words("gender")
    spelling = Spelling()
    texts = read_captions(
        source,
        "caption",
        lambda cells: _split_things(spelling.cell(cells[things], things)),
        hint="pass a table with the columns caption and THINGS",
        columns=(things,),
        cluster=column_names(cluster),
        words=UnknownWords.of(words or {}),
    )
    counted = compute(texts, genders)
    if not counted:
        raise FixInput(
            "no text has a value in the column of things",
            where=source_name(source),
            hint="pass another column as THINGS",
        )
    return present(counted, source_name(source), [*genders], len(texts))


def present(
    counted: Sequence[Record], source: str, genders: Sequence[str], n_texts: int
) -> Audit:
    """Return the audit of things and genders: its table, sentences and figure."""
    headers = ["thing", *genders, f"share {genders[0]}", "low", "high"]
    headers += [f"cut {gender}" for gender in genders]
    rows = [_make_row(thing) for thing in counted]
    if any(thing["paper"] for thing in counted):
        headers += [f"paper {gender}" for gender in genders]
        rows = [(*_make_row(thing), *_of_paper(thing)) for thing in counted]
    title = f"Co-occurrence: {source}"
    points = [Point(one["thing"], one["share"], one["ci"] or ()) for one in counted]
    answers = []
    if all(thing["share"] is None for thing in counted):
        answers.append(f"No text with a thing has a word of {' or '.join(genders)}.")
    return Audit(
        title=title,
        headers=headers,
        rows=rows,
        answers=answers,
        limits=list(_limits(counted)),
        values={
            "source": source,
            "n_texts": n_texts,
            "genders": list(genders),
            "things": counted,
            "note": CUT,
        },
        figure=Plot(title, points, XLABEL, 0.5),
    )


def _limits(counted: Sequence[Record]) -> Iterator[str]:
    yield CUT
    if any(thing["ci"] for thing in counted):
        yield (
            f"Intervals (95 %) are {MADE_OVER_CLUSTERS}; a text with several genders counts for"
            " each."
        )
    if any(thing["paper"] for thing in counted):
        yield f"The column 'paper' has the smallest and the largest share of {SABIR}."


def _make_row(thing: Record) -> tuple[object, ...]:
    """Return the cells of a thing: its counts, the share of the first gender, and both shares cut.

    The share of the first gender is exact, and followed by its interval. The cut shares are cut
    after two decimals.
    """
    cuts = [
        None if cut is None else f"{cut:.2f}"
        for cut in thing["printed"] or (None, None)
    ]
    interval = thing["ci"] or (None, None)
    return (thing["thing"], *thing["counts"].values(), thing["share"], *interval, *cuts)


def _of_paper(thing: Record) -> tuple[str | None, str | None]:
    """Return the smallest and largest published share of each gender for a thing, as two texts.

    The shares are those of the caption models of Sabir and Padro. Both are None if none is
    published.
    """
    if not thing["paper"]:
        return None, None
    first, second = zip(*thing["paper"].values(), strict=True)
    return as_range(first), as_range(second)


def _split_things(cell: str) -> frozenset[str]:
    """Return the values of a cell, which are joined with |."""
    return frozenset(name.strip() for name in cell.split("|") if name.strip())


def compute(texts: Sequence[LabelledText], genders: WordLists) -> list[Record]:
    """Count for each thing the texts with words of each gender.

    The result also has the share of the first gender, with its interval. A text with words of both
    genders counts once for each gender. A thing without a gendered text has no share.
    Words are also found next to punctuation: in quotes, in brackets, before 's.
    """
    list_of_first, list_of_second = genders.values()
    counted = []
    for thing, inside in by_label(texts).items():
        words_of_texts = [set(words_of_caption(text.text)) for text in inside]
        first = _has_any(words_of_texts, list_of_first)
        second = _has_any(words_of_texts, list_of_second)
        n_first = int(first.sum())
        n_second = int(second.sum())
        share = None
        interval = None
        printed = None
        if n_first + n_second:
            clusters = [text.cluster for text in inside]
            total = first.astype(int) + second
            share = n_first / (n_first + n_second)
            interval = ratio_interval(first, total, clusters, most=1)
            printed = cut_shares(n_first, n_second)
        counted.append(
            {
                "thing": thing,
                "counts": dict(zip(genders, (n_first, n_second), strict=True)),
                "share": share,
                "ci": interval,
                "printed": printed,
                "paper": published_shares_of(thing),
            }
        )
    return counted


def _has_any(
    words_of_texts: Sequence[set[str]], listed: frozenset[str]
) -> NDArray[np.bool_]:
    """Return whether each text has a word of a list."""
    return np.array([not words.isdisjoint(listed) for words in words_of_texts])
