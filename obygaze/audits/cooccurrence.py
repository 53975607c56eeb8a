"""The co-occurrence audit: which things are named together with words of which gender.

The bias of a thing is the share of one gender among its gendered texts (Zhao et al. 2017).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from obygaze.audits.gender import cut_shares
from obygaze.audits.printed import SABIR, Shares, as_range, printed_shares_beside
from obygaze.audits.result import (
    Audit,
    Finding,
    IntervalEnds,
)
from obygaze.audits.texts import (
    LabelledText,
    TextSource,
    WordLists,
    by_label,
    column_names,
    read_captions,
    read_words,
    source_name,
    words_of_caption,
)
from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.bootstrap import ratio_interval

CUT = (
    "Shares under 'cut' are cut after two decimals, as in published tables, so that the two of a "
    "row may sum to .99; 'share' is exact."
)


@dataclass(frozen=True)
class CoOccurrence:
    """How often one thing is named with words of each gender; a text with both counts twice.

    `share` is that of the first gender, `ci` its 95 % interval, and `printed` has both shares cut
    after two decimals. They are None for a thing without a gendered text. `paper` has the shares
    that a paper prints for the thing, by caption model.
    """

    thing: str
    counts: Mapping[str, int]
    share: float | None
    ci: IntervalEnds | None
    printed: tuple[float, float] | None
    paper: Mapping[str, Shares]


@dataclass(frozen=True, eq=False, repr=False)
class CoocAudit(Audit):
    """The counts of each thing; `genders` has the names of both lists of words."""

    source: str
    n_texts: int
    genders: tuple[str, ...]
    things: tuple[CoOccurrence, ...]
    note: str = CUT

    def finding(self) -> Finding:
        """Return one row per thing, and sentences about shares and intervals."""
        headers = ["thing", *self.genders]
        headers += [f"share {self.genders[0]}", "low", "high"]
        headers += [f"cut {gender}" for gender in self.genders]
        rows = [_row_of(thing) for thing in self.things]
        if self._beside_paper:
            headers += [f"paper {gender}" for gender in self.genders]
            rows = [(*_row_of(thing), *_of_paper(thing)) for thing in self.things]
        title = f"Co-occurrence: {self.source}"
        return Finding(
            title, tuple(headers), tuple(rows), sentences=tuple(self._sentences())
        )

    @property
    def _beside_paper(self) -> bool:
        """Whether a paper prints shares of one of the things."""
        return any(thing.paper for thing in self.things)

    def _sentences(self) -> Iterator[str]:
        yield CUT
        if all(thing.share is None for thing in self.things):
            yield f"No text with a thing has a word of {' or '.join(self.genders)}."
        if any(thing.ci for thing in self.things):
            yield (
                "Intervals (95 %) are bootstrapped over clusters; a text with several genders "
                "counts for each."
            )
        if self._beside_paper:
            yield f"Under 'paper': the smallest and the largest share of {SABIR}."


def _row_of(thing: CoOccurrence) -> tuple[object, ...]:
    """Return the counts, the share, its interval and the cut shares of a thing."""
    low, high = thing.ci or (None, None)
    cuts: list[str | None] = [None, None]
    if thing.printed:
        cuts = [f"{cut:.2f}" for cut in thing.printed]
    return (thing.thing, *thing.counts.values(), thing.share, low, high, *cuts)


def _of_paper(thing: CoOccurrence) -> tuple[str | None, str | None]:
    """Return the ranges of both shares that a paper prints for a thing."""
    if not thing.paper:
        return None, None
    first, second = zip(*thing.paper.values(), strict=True)
    return as_range(first), as_range(second)


def audit_cooc(
    source: TextSource,
    *,
    things: str,
    cluster: str | Sequence[str] | None = None,
) -> CoocAudit:
    """Count which things are named together with words of which gender."""
    genders = read_words("gender")
    texts = read_captions(
        source,
        "caption",
        lambda cells: _things_of(cells[things]),
        hint="a table with the columns caption and --things COLUMN",
        columns=(things,),
        cluster=column_names(cluster),
    )
    counted = count_pairs(texts, genders)
    if not counted:
        raise FixInput(
            "no text has a thing", where=source_name(source), hint="--things"
        )
    return CoocAudit(source_name(source), len(texts), tuple(genders), tuple(counted))


def _things_of(cell: str) -> frozenset[str]:
    """Return the values of a cell, which are joined with |."""
    return frozenset(name.strip() for name in cell.split("|") if name.strip())


def count_pairs(
    texts: Sequence[LabelledText], genders: WordLists
) -> list[CoOccurrence]:
    """Return the counts of each thing and the share of the first gender, over clusters.

    Words are found beside punctuation as well: in quotes, in brackets, before 's.
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
        counts = dict(zip(genders, (n_first, n_second), strict=True))
        paper = printed_shares_beside(thing)
        counted.append(CoOccurrence(thing, counts, share, interval, printed, paper))
    return counted


def _has_any(
    words_of_texts: Sequence[set[str]], listed: frozenset[str]
) -> NDArray[np.bool_]:
    """Return whether each text has a word of a list."""
    return np.array([not words.isdisjoint(listed) for words in words_of_texts])
