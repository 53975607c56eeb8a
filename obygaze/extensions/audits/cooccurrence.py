"""The co-occurrence audit: which things are named together with words of which gender.

The bias of a thing is the share of one gender among its gendered texts (Zhao et al. 2017). A model
amplifies it if the share in its predictions is further from one half than in its data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from obygaze.extensions.audits.figure import Plot, Point
from obygaze.extensions.audits.gender import cut_shares
from obygaze.extensions.audits.result import (
    Audit,
    Finding,
    audit_command,
    ratio_interval,
)
from obygaze.extensions.audits.texts import (
    CONCEPTS,
    GroupNames,
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
from obygaze_features.core.options import Option

CUT = (
    "Shares under 'cut' are cut after two decimals, as in published tables, so that the two of a "
    "row may sum to .99; 'share' is exact."
)


@dataclass(frozen=True)
class CoOccurrence:
    """How often one thing is named with words of each gender; a text with both counts twice.

    `share` is that of the first gender, `ci` its 95 % interval, and `printed` has both shares cut
    after two decimals; None for more than two genders. `shares` and `intervals` are those of each.
    """

    thing: str
    counts: Mapping[str, int]
    share: float | None
    ci: list[float | None] | None
    printed: tuple[float, float] | None
    shares: Mapping[str, float] = field(default_factory=dict)
    intervals: Mapping[str, list[float | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class Amplification:
    """How much further from one half the shares of predictions are than those of the data."""

    mean: float | None
    by_thing: Mapping[str, float]


@dataclass(frozen=True, eq=False, repr=False)
class CoocAudit(Audit):
    """The counts of each thing, and how predictions differ from them."""

    source: str
    n_texts: int
    genders: tuple[str, ...]
    things: tuple[CoOccurrence, ...]
    note: str = CUT
    amplification: Amplification | None = None
    compared: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the counts, the shares and the amplification."""
        return {
            name: value
            for name, value in super().to_json().items()
            if name != "compared"
        }

    @property
    def shown(self) -> tuple[str, ...]:
        """The genders whose shares are shown: of two the first, of more all."""
        return self.genders if len(self.genders) > 2 else self.genders[:1]

    def finding(self) -> Finding:
        """Return one row per thing, and sentences about intervals and amplification."""
        is_pair = len(self.shown) == 1
        added = self.amplification
        headers = ["thing", *self.genders]
        for gender in self.shown:
            end = "" if is_pair else f" {gender}"
            headers += [f"share {gender}", f"low{end}", f"high{end}"]
        if is_pair:
            headers += [f"cut {gender}" for gender in self.genders]
        if added:
            headers.append("amplified")
        rows = [self._row_of(thing) for thing in self.things]
        title = "Co-occurrence"
        if self.source:
            title += f": {self.source}"
        return Finding(
            title, tuple(headers), tuple(rows), sentences=tuple(self._sentences())
        )

    def _row_of(self, thing: CoOccurrence) -> tuple[object, ...]:
        """Return the counts, shares and intervals of a thing, and how much it is amplified."""
        row: list[object] = [thing.thing, *thing.counts.values()]
        for gender in self.shown:
            low, high = thing.intervals.get(gender, (None, None))
            row += [thing.shares.get(gender), low, high]
        if len(self.shown) == 1:
            cuts: list[str | None] = [None, None]
            if thing.printed:
                cuts = [f"{cut:.2f}" for cut in thing.printed]
            row += cuts
        if self.amplification:
            row.append(self.amplification.by_thing.get(thing.thing))
        return tuple(row)

    def _sentences(self) -> list[str]:
        """Return what a reader must know about shares, intervals and amplification."""
        is_pair = len(self.shown) == 1
        added = self.amplification
        sentences = [CUT] if is_pair else []
        if all(thing.share is None for thing in self.things):
            sentences.append(
                f"No text with a thing has a word of {' or '.join(self.genders)}."
            )
        if any(thing.ci for thing in self.things):
            sentences.append(
                "Intervals (95 %) are bootstrapped over clusters; a text with several genders "
                "counts for each."
            )
        if added and added.mean is not None:
            equal = "one half" if is_pair else "equal shares"
            further = (
                f"further from {equal} than" if added.mean > 0 else "no further than"
            )
            sentences.append(
                f"Mean bias amplification over {len(added.by_thing)} things: {added.mean:+.3f}. "
                f"The shares of {self.compared} are {further} those of {self.source}."
            )
        return sentences

    def plot(self) -> Plot:
        """Return the share of each thing, the largest first."""
        is_pair = len(self.shown) == 1
        points = []
        amplified = self.amplification.by_thing if self.amplification else {}
        for thing in sorted(self.things, key=lambda thing: -(thing.share or 0.0)):
            if not thing.shares:
                continue
            note = f"n = {sum(thing.counts.values())}"
            if thing.thing in amplified:
                note += f", amplified {amplified[thing.thing]:+.2f}"
            for gender in self.shown:
                label = thing.thing if is_pair else f"{thing.thing}: {gender}"
                ends = thing.intervals.get(gender, ())
                points.append(Point(label, thing.shares[gender], ends, note))
        xlabel = "share"
        if is_pair:
            xlabel = f"share of {self.genders[0]}, with 95 % over clusters"
        line = 1 / len(self.genders)
        return Plot(
            "Words of which gender are used with each thing", points, xlabel, line
        )


def audit_cooc(
    source: TextSource,
    *,
    text: str = "caption",
    things: str | Path | WordLists = CONCEPTS,
    words: str | Path | WordLists = "gender",
    group: str | Sequence[str] | None = None,
    cluster: str | Sequence[str] | None = None,
    compare: Annotated[TextSource | None, Option(metavar="SOURCE")] = None,
    seed: Annotated[int, Option(least=0)] = 0,
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
        words: Two or more lists of gendered words.
        group: Columns whose values are groups, such as race and class: things are counted in each.
        cluster: The columns of the film or image; by default each text is its own cluster.
        compare: The texts of a model, to measure how much it amplifies the bias.
        seed: The seed of the bootstrap.
        workspace: The workspace, if it is not the current one.

    Example:
        audit = audit_cooc("captions.csv", things="objects.toml", cluster="image")

    Commands:
        obygaze audit cooc mobygaze --text comment --cluster movie_id --figure figures/company
        obygaze audit cooc captions.csv --things objects.toml --compare predicted.csv
        obygaze audit cooc captions.csv --things objects --group race,class --cluster image
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
    groups = GroupNames(column_names(group))
    longest = longest_entry(chain.from_iterable(lists.values())) if lists else 1

    def find_things(cells: Mapping[str, str]) -> frozenset[str]:
        if lists is None:
            names = split_cell(cells[column])
        else:
            words_of_text = bare_words(cells[column], longest)
            names = frozenset(
                name for name, listed in lists.items() if words_of_text & listed
            )
        (group_name,) = groups(cells)
        if not groups.columns:
            return names
        return frozenset(f"{name}, {group_name}" for name in names)

    def count(counted: TextSource) -> tuple[int, list[CoOccurrence]]:
        texts = read_texts(
            counted,
            text,
            find_things,
            columns=(column, *groups.columns),
            cluster=column_names(cluster),
            workspace=workspace,
        )
        return len(texts), count_pairs(texts, genders, seed=seed)

    n_texts, pairs = count(source)
    if not pairs:
        raise FixInput(
            "no text has a thing", where=source_name(source), hint="--things, --text"
        )
    audit = CoocAudit(source_name(source), n_texts, tuple(genders), tuple(pairs))
    if compare is None:
        return audit
    _, predicted_pairs = count(compare)
    amplification = bias_amplification(
        _counts_by_thing(pairs), _counts_by_thing(predicted_pairs)
    )
    return replace(audit, amplification=amplification, compared=source_name(compare))


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


def _counts_by_thing(pairs: Sequence[CoOccurrence]) -> dict[str, tuple[int, ...]]:
    """Return the counts of each thing, in the order of the genders."""
    return {pair.thing: tuple(pair.counts.values()) for pair in pairs}


def count_pairs(
    texts: Sequence[LabelledText], genders: WordLists, *, seed: int = 0
) -> list[CoOccurrence]:
    """Return the counts of each thing and the share of each gender, with intervals over clusters.

    Words are found beside punctuation as well: in quotes, in brackets, before 's.
    """
    if len(genders) < 2:
        raise FixInput(
            f"expected at least two lists of gendered words, got {len(genders)}"
        )
    longest = longest_entry(chain.from_iterable(genders.values()))
    pairs = []
    for thing, inside in by_label(texts).items():
        words_of_texts = [bare_words(text.text, longest) for text in inside]
        flags = np.array(
            [_has_any(words_of_texts, listed) for listed in genders.values()]
        )
        counts = dict(zip(genders, flags.sum(axis=1).tolist(), strict=True))
        intervals = {}
        if flags.any():
            clusters = [text.cluster for text in inside]
            total = flags.sum(axis=0)
            intervals = {
                gender: ratio_interval(has_word, total, clusters, seed=seed)
                for gender, has_word in zip(genders, flags, strict=True)
            }
        pairs.append(_co_occurrence(thing, counts, intervals))
    return pairs


def _has_any(words_of_texts: Sequence[set[str]], listed: frozenset[str]) -> list[bool]:
    """Return whether each text has a word of a list."""
    return [not words.isdisjoint(listed) for words in words_of_texts]


def bias_amplification(
    data: Mapping[str, Sequence[int]], predicted: Mapping[str, Sequence[int]]
) -> Amplification:
    """Return by how much the share of the majority gender grows from data to predictions.

    Things without a gendered text on either side are left out. If the counts of the data are
    equal, the majority is that of the predictions.

    Args:
        data: The counts of both genders for each thing, in the data.
        predicted: The same counts in the predictions of a model.
    """
    by_thing = {}
    for thing in sorted(data.keys() & predicted.keys()):
        if not sum(data[thing]) or not sum(predicted[thing]):
            continue
        second, first = sorted(data[thing])[-2:]
        deciding = predicted if first == second else data
        majority = int(np.argmax(deciding[thing]))
        before = data[thing][majority] / sum(data[thing])
        by_thing[thing] = predicted[thing][majority] / sum(predicted[thing]) - before
    mean = sum(by_thing.values()) / len(by_thing) if by_thing else None
    return Amplification(mean, by_thing)


def _co_occurrence(
    thing: str, counts: Mapping[str, int], intervals: Mapping[str, list[float | None]]
) -> CoOccurrence:
    first = next(iter(counts))
    total = sum(counts.values())
    shares = {gender: n / total for gender, n in counts.items()} if total else {}
    cut = cut_shares(*counts.values()) if total and len(counts) == 2 else None
    return CoOccurrence(
        thing, counts, shares.get(first), intervals.get(first), cut, shares, intervals
    )


command = audit_command(audit_cooc, "cooc")
