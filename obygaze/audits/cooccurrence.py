"""The co-occurrence audit: which things are named together with words of which gender.

The bias of a thing is the share of one gender among its gendered texts (Zhao et al. 2017).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from obygaze.audits.figure import Plot, Point
from obygaze.audits.gender import cut_shares
from obygaze.audits.result import (
    Audit,
    Finding,
    Interval,
    audit_command,
    ratio_interval,
)
from obygaze.audits.texts import (
    CONCEPTS,
    LabelledText,
    TextSource,
    WordLists,
    bare_words,
    by_label,
    column_names,
    has_column,
    longest_entry,
    read_texts,
    read_words,
    source_name,
    split_cell,
)
from obygaze_features.core.errors import FixInput, NotFound

CUT = (
    "Shares under 'cut' are cut after two decimals, as in published tables, so that the two of a "
    "row may sum to .99; 'share' is exact."
)


@dataclass(frozen=True)
class CoOccurrence:
    """How often one thing is named with words of each gender; a text with both counts twice.

    `share` is that of the first gender, `ci` its 95 % interval, and `printed` has both shares cut
    after two decimals. They are None for a thing without a gendered text.
    """

    thing: str
    counts: Mapping[str, int]
    share: float | None
    ci: Interval | None
    printed: tuple[float, float] | None


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
        rows = tuple(_row_of(thing) for thing in self.things)
        title = "Co-occurrence"
        if self.source:
            title += f": {self.source}"
        return Finding(title, tuple(headers), rows, sentences=tuple(self._sentences()))

    def _sentences(self) -> Iterator[str]:
        yield CUT
        if all(thing.share is None for thing in self.things):
            yield f"No text with a thing has a word of {' or '.join(self.genders)}."
        if any(thing.ci for thing in self.things):
            yield (
                "Intervals (95 %) are bootstrapped over clusters; a text with several genders "
                "counts for each."
            )

    def plot(self) -> Plot:
        """Return the share of each thing, the largest first."""
        points = []
        for thing in sorted(self.things, key=lambda thing: -(thing.share or 0.0)):
            if thing.share is not None:
                note = f"n = {sum(thing.counts.values())}"
                points.append(Point(thing.thing, thing.share, thing.ci or (), note))
        xlabel = f"share of {self.genders[0]}, with 95 % over clusters"
        title = "Words of which gender are used with each thing"
        return Plot(title, points, xlabel, 1 / 2)


def _row_of(thing: CoOccurrence) -> tuple[object, ...]:
    """Return the counts, the share, its interval and the cut shares of a thing."""
    low, high = thing.ci or (None, None)
    cuts: list[str | None] = [None, None]
    if thing.printed:
        cuts = [f"{cut:.2f}" for cut in thing.printed]
    return (thing.thing, *thing.counts.values(), thing.share, low, high, *cuts)


def audit_cooc(
    source: TextSource,
    *,
    text: str = "caption",
    things: str | Path | WordLists = CONCEPTS,
    words: str | Path | WordLists = "gender",
    cluster: str | Sequence[str] | None = None,
    workspace: str | Path | None = None,
) -> CoocAudit:
    """Count which things are named together with words of which gender.

    A text with words of both genders counts for both. Shares are printed exactly, and cut after two
    decimals as in published tables.

    Args:
        source: A CSV table, a manifest, a folder of .txt files, or rows.
        text: The column of the texts.
        things: A column whose values, joined by `|`, are the things, such as "concepts" or
            "objects"; or word lists (a TOML file): each list is a thing that is found in the text.
        words: Two lists of gendered words.
        cluster: The columns of the film or image; by default each text is its own cluster.
        workspace: The workspace, if it is not the current one.

    Example:
        audit = audit_cooc("captions.csv", things="objects.toml", cluster="image")

    Commands:
        obygaze audit cooc mobygaze --text comment --cluster movie_id --figure figures/company
        obygaze audit cooc captions.csv --things objects --cluster image
    """
    genders = read_words(words)
    lists: WordLists | None = None
    column = text
    is_name = isinstance(things, str) and Path(things).suffix != ".toml"
    if is_name and has_column(source, things, workspace=workspace):
        column = str(things)
    elif things == CONCEPTS:
        column = CONCEPTS
    else:
        lists = _lists_of_things(things)
    longest = longest_entry(chain.from_iterable(lists.values())) if lists else 1

    def find_things(cells: Mapping[str, str]) -> frozenset[str]:
        if lists is None:
            return split_cell(cells[column])
        words_of_text = bare_words(cells[column], longest)
        found = [name for name, listed in lists.items() if words_of_text & listed]
        return frozenset(found)

    texts = read_texts(
        source,
        text,
        find_things,
        columns=(column,),
        cluster=column_names(cluster),
        workspace=workspace,
    )
    counted = count_pairs(texts, genders)
    if not counted:
        raise FixInput(
            "no text has a thing", where=source_name(source), hint="--things, --text"
        )
    return CoocAudit(source_name(source), len(texts), tuple(genders), tuple(counted))


def _lists_of_things(things: str | Path | WordLists) -> WordLists:
    """Return the word lists of things; the error says that a column could be meant."""
    try:
        return read_words(things)
    except NotFound as error:
        raise NotFound(
            f"no column and no word lists called {str(things)!r}",
            where=error.where,
            hint="--things COLUMN, or a TOML file with a list of words for each thing",
        ) from None


def count_pairs(
    texts: Sequence[LabelledText], genders: WordLists
) -> list[CoOccurrence]:
    """Return the counts of each thing and the share of the first gender, over clusters.

    Words are found beside punctuation as well: in quotes, in brackets, before 's.
    """
    if len(genders) != 2:
        raise FixInput(f"expected two lists of gendered words, got {len(genders)}")
    longest = longest_entry(chain.from_iterable(genders.values()))
    counted = []
    for thing, inside in by_label(texts).items():
        words_of_texts = [bare_words(text.text, longest) for text in inside]
        list_of_first, list_of_second = genders.values()
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
            interval = ratio_interval(first, total, clusters)
            printed = cut_shares(n_first, n_second)
        counts = dict(zip(genders, (n_first, n_second), strict=True))
        counted.append(CoOccurrence(thing, counts, share, interval, printed))
    return counted


def _has_any(
    words_of_texts: Sequence[set[str]], listed: frozenset[str]
) -> NDArray[np.bool_]:
    """Return whether each text has a word of a list."""
    return np.array([not words.isdisjoint(listed) for words in words_of_texts])


command = audit_command(audit_cooc, "cooc")
