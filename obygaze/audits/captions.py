"""The caption audit: how often captions use the words of a list, by group.

Intervals and tests are over clusters (images, films), because captions of one image are alike.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args

from obygaze.audits.result import Audit, Plot, Point, record_cells
from obygaze.audits.texts import (
    GroupNames,
    LabelledText,
    WordLists,
    by_label,
    column_names,
    count_words,
    read_captions,
    read_words,
    source_name,
    words_of_caption,
)
from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput, FixUsage, ObygazeWarning
from obygaze_features.core.unknown_words import UnknownWords
from obygaze_models.evaluation.bootstrap import MADE_OVER_CLUSTERS, ratio_interval
from obygaze_models.evaluation.permutation import (
    holm,
    p_equals,
    p_text,
    permutation_p,
)

Tokens = Literal["words", "authors"]
HEADERS = (
    "words",
    "group",
    "captions",
    "clusters",
    "count",
    "per 1000",
    "low",
    "high",
    "captions with a hit per 1000",
)


CELLS = (
    "words",
    "group",
    "n_captions",
    "n_clusters",
    "count",
    "occurrences_per_1000",
    "ci",
    "captions_with_hit_per_1000",
)
XLABEL = "words per thousand captions, with 95 % interval over clusters"
# A rate or a test, with the keys of the JSON document.
Record = dict[str, Any]


@dataclass(frozen=True)
class CaptionWords:
    """How often captions use the words of lists: a rate of each list in each group, and tests.

    `not_tested` is the reason why groups were not tested, or "". `rare_words` has the words of each
    list that were excluded, with their counts.
    """

    n_captions: int
    rates: Sequence[Record]
    contrasts: Sequence[Record]
    not_tested: str
    min_occurrences: int
    rare_words: Mapping[str, Mapping[str, int]]


def audit_captions(
    source: str | Path | Sequence[Mapping[str, str]],
    *,
    text: str = "caption",
    group: str | Sequence[str] = "group",
    cluster: str | Sequence[str] | None = None,
    words: Mapping[str, frozenset[str]] | None = None,
    tokens: Literal["words", "authors"] = "words",
    min_occurrences: int = 0,
    meanings: Mapping[str, str] | None = None,
) -> Audit:
    """Count how often captions use the words of a list, by group.

    Two groups are also tested against each other, by exchanging whole clusters. With several
    columns, such as race, gender and class, groups are crossed: each column is tested by
    exchanging clusters with the same values in the other columns.

    Args:
        source: A table, or a folder of .txt files with one caption per line and with file names as
            in Wolfe et al. (2023).
        text: The column of the captions.
        group: The columns whose values are the groups.
        cluster: The columns of the film or image; by default each caption is its own cluster.
        words: Sets of words by name. By default the lists of Wolfe et al. (2023).
        tokens: How captions are cut into words: words ignores all punctuation, as in sad! and
            (sad); authors cuts at blanks and ignores only . and , as Wolfe et al. (2023) do.
        min_occurrences: Smallest number of occurrences of a word in all captions together; Wolfe et
            al. (2023) use 100.
        meanings: NA=? if a caption or group NA is not known, NA=NA if it is an answer.

    Example:
        audit = audit_captions("captions.csv", group="condition", cluster="image")
    """
    groups = GroupNames(column_names(group))
    lists = read_words("emotions") if words is None else words
    # The words of captions have no capital letters.
    lists = {
        name: frozenset(map(str.lower, of_name)) for name, of_name in lists.items()
    }
    if tokens not in get_args(Tokens):
        raise FixUsage(
            f"unknown value of tokens: {tokens!r}",
            hint=f"pass one of {', '.join(get_args(Tokens))}",
        )
    captions = _captions_of_groups(
        source, text, groups, column_names(cluster), UnknownWords.of(meanings or {})
    )
    if tokens == "words":
        captions = [
            replace(caption, text=" ".join(words_of_caption(caption.text)))
            for caption in captions
        ]
    found = compute(captions, lists, groups, min_occurrences)
    if not found.rates:
        raise FixInput(
            f"no word of the lists has at least {min_occurrences} occurrences in all captions",
            where=source_name(source),
            hint="use a smaller --min-occurrences",
        )
    return present(found, source_name(source), tokens)


def _captions_of_groups(
    source: str | Path | Sequence[Mapping[str, str]],
    text: str,
    groups: GroupNames,
    cluster: Sequence[str],
    words: UnknownWords,
) -> list[LabelledText]:
    """Return the captions with a group; warn about the number of captions without a group."""
    read = read_captions(
        source,
        text,
        groups,
        hint="pass --text COLUMN",
        columns=groups.columns,
        cluster=cluster,
        words=words,
    )
    captions = [caption for caption in read if caption.labels]
    n_without = len(read) - len(captions)
    columns = " or ".join(map(repr, groups.columns))
    without_group = f"excluded, because {columns} is empty: {count(n_without, 'row')}"
    if not captions:
        raise FixInput(
            without_group, where=source_name(source), hint="pass --group COLUMN"
        )
    if n_without:
        message = f"{source_name(source)}: {without_group}"
        warnings.warn(message, ObygazeWarning, stacklevel=3)
    return captions


def compute(
    captions: Sequence[LabelledText],
    lists: WordLists,
    groups: GroupNames,
    min_occurrences: int = 0,
) -> CaptionWords:
    """Return how often captions of each group use the words of each list.

    Args:
        captions: The captions, with their groups.
        lists: The lists of words.
        groups: The columns of the groups, and their values.
        min_occurrences: Words that all captions together use less often are excluded.
    """
    rare_words = _rare_words(captions, lists, min_occurrences)
    frequent = {}
    for title, words_of_list in lists.items():
        frequent_words = words_of_list - rare_words.get(title, {}).keys()
        if frequent_words:
            frequent[title] = frequent_words
    not_tested = _why_not_tested(captions, groups)
    contrasts = []
    if frequent and not not_tested:
        contrasts = group_contrasts(captions, frequent, groups)
    return CaptionWords(
        n_captions=len(captions),
        rates=word_rates(captions, frequent),
        contrasts=contrasts,
        not_tested=not_tested,
        min_occurrences=min_occurrences,
        rare_words=rare_words,
    )


def present(found: CaptionWords, source: str, tokens: Tokens) -> Audit:
    """Return the audit of words in captions: its table, sentences and figure."""
    points = []
    for rate in sorted(found.rates, key=lambda rate: str(rate["words"])):
        label = f"{rate['words']}, {rate['group']}"
        points.append(Point(label, rate["occurrences_per_1000"], rate["ci"]))
    answers = [_sentence(contrast) for contrast in found.contrasts]
    if found.not_tested:
        answers.append(f"The groups were not tested: {found.not_tested}.")
    return Audit(
        title=f"Words of {found.n_captions} captions: {source}",
        headers=HEADERS,
        rows=[record_cells(rate, CELLS) for rate in found.rates],
        answers=answers,
        limits=list(_limits(found)),
        values={"source": source, **vars(found), "tokens": tokens},
        figure=Plot("Words of lists", points, XLABEL),
    )


def _limits(found: CaptionWords) -> Iterator[str]:
    """Yield how intervals are made, and which words were excluded."""
    yield f"Intervals (95 %) are over clusters, not captions: {MADE_OVER_CLUSTERS}."
    for title, counts in found.rare_words.items():
        words = ", ".join(f"{word} {n}" for word, n in counts.items())
        yield (
            f"{title}: words with fewer than {found.min_occurrences} occurrences in all "
            f"captions are excluded: {words}."
        )
    without_words = found.rare_words.keys() - {rate["words"] for rate in found.rates}
    if without_words:
        titles = ", ".join(sorted(without_words))
        yield f"{titles}: no word is frequent enough, so the table has no row."


def _rare_words(
    captions: Sequence[LabelledText], lists: WordLists, min_occurrences: int
) -> dict[str, dict[str, int]]:
    """Return the words of each list that are rarer than `min_occurrences`, with their counts.

    A count is the number of occurrences in all captions together.
    """
    all_words = frozenset(chain.from_iterable(lists.values()))
    occurrences = Counter[str]()
    for caption in captions:
        occurrences.update(count_words(caption.text, all_words))
    rare_words = {}
    for title, words in lists.items():
        rare = {
            word: occurrences[word]
            for word in sorted(words)
            if occurrences[word] < min_occurrences
        }
        if rare:
            rare_words[title] = rare
    return rare_words


def word_rates(captions: Sequence[LabelledText], lists: WordLists) -> list[Record]:
    """Return the rate of each list in each group, with a 95 % interval over clusters."""
    rates = []
    for group, inside in by_label(captions).items():
        clusters = [caption.cluster for caption in inside]
        n = len(inside)
        for name, words in lists.items():
            hits = _occurrences(inside, words)
            n_with_hit = sum(hit > 0 for hit in hits)
            rates.append(
                {
                    "group": group,
                    "words": name,
                    "n_captions": n,
                    "n_clusters": len(set(clusters)),
                    "count": sum(hits),
                    "captions_with_hit": n_with_hit,
                    "occurrences_per_1000": 1000 * sum(hits) / n,
                    "captions_with_hit_per_1000": 1000 * n_with_hit / n,
                    "ci": ratio_interval(hits, [1] * n, clusters, scale=1000),
                }
            )
    return rates


def _why_not_tested(captions: Sequence[LabelledText], groups: GroupNames) -> str:
    """Return why clusters cannot be exchanged between groups, or ""."""
    if len(groups.record_cells) < 2:
        return "there is only one group"
    if len(groups.columns) == 1 and len(groups.record_cells) > 2:
        return "expected two groups in one column, or several crossed columns"
    labels_of: dict[str, frozenset[str]] = {}
    for caption in captions:
        if labels_of.setdefault(caption.cluster, caption.labels) != caption.labels:
            return "a cluster has captions of two groups and cannot be exchanged"
    cells = list(groups.record_cells.values())
    for i, column in enumerate(groups.columns):
        others = [cell[:i] + cell[i + 1 :] for cell in cells]
        has_two_values = len({cell[i] for cell in cells}) > 1
        if has_two_values and len(set(others)) == len(cells):
            return (
                f"no two groups differ only in {column!r}, so nothing can be exchanged"
            )
    return ""


def group_contrasts(
    captions: Sequence[LabelledText], lists: WordLists, groups: GroupNames
) -> list[Record]:
    """Return the tests of each column of groups for each list of words.

    Holm's correction covers all of these tests. A column with two values gives one comparison. In a
    column with more values, each value is compared with all other values together. All captions of
    a cluster belong to one group. When a column is tested, clusters are exchanged only with
    clusters that have the same values in all other columns.
    """
    group_of: dict[str, str] = {}
    for caption in captions:
        (group_of[caption.cluster],) = caption.labels
    clusters = sorted(group_of)
    cells = [groups.record_cells[group_of[cluster]] for cluster in clusters]
    contrasts: list[Record] = []
    for i, column in enumerate(groups.columns):
        others = [cell[:i] + cell[i + 1 :] for cell in cells]
        blocks = [sorted(set(others)).index(other) for other in others]
        within = groups.columns[:i] + groups.columns[i + 1 :]
        for first, second in _compared_values({cell[i] for cell in cells}):
            is_first = [cell[i] == first for cell in cells]
            for title, words in lists.items():
                values = _words_above_rate(captions, words, clusters)
                p = permutation_p(values, is_first, blocks if within else None)
                named = {"words": title, "column": column, "first": first}
                more = {"second": second, "within": within, "p": asdict(p)}
                contrasts.append({**named, **more})
    corrected = holm([contrast["p"]["two_sided"] for contrast in contrasts])
    return [
        {**contrast, "p_holm": float(p)}
        for contrast, p in zip(contrasts, corrected, strict=True)
    ]


def _sentence(contrast: Record) -> str:
    p = contrast["p"]
    exchanged = "whole clusters were exchanged"
    if contrast["within"]:
        exchanged += f" within {' and '.join(contrast['within'])}"
    return (
        f"{contrast['words']}, {contrast['column']} {contrast['first']} against"
        f" {contrast['second']}: two-sided {p_equals(p['two_sided'])} ({p['method']}),"
        f" {p_text(contrast['p_holm'])} after Holm's correction; {exchanged}."
    )


def _compared_values(values: set[str]) -> list[tuple[str, str]]:
    """Return the pairs to compare: the only two values, or each value with "all others"."""
    names = sorted(values)
    if len(names) < 2:
        return []
    if len(names) == 2:
        return [(names[0], names[1])]
    return [(name, "all others") for name in names]


def _words_above_rate(
    captions: Sequence[LabelledText], words: frozenset[str], clusters: Sequence[str]
) -> list[float]:
    """Return for each cluster how many more words of the list it has than expected.

    The expected number is the number of captions of the cluster times the mean number of words in
    all captions. So a cluster does not stand out only because it has many captions. The differences
    are multiplied by the number of all captions: this makes them whole numbers, and differences
    that should be equal are exactly equal.
    """
    words_of = Counter[str]()
    sizes = Counter[str]()
    for caption, n in zip(captions, _occurrences(captions, words), strict=True):
        words_of[caption.cluster] += n
        sizes[caption.cluster] += 1
    total = words_of.total()
    return [
        words_of[cluster] * len(captions) - total * sizes[cluster]
        for cluster in clusters
    ]


def _occurrences(captions: Sequence[LabelledText], words: frozenset[str]) -> list[int]:
    """Return how many words of each caption are in a list."""
    return [count_words(caption.text, words).total() for caption in captions]
