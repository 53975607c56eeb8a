"""The caption audit: how often captions use the words of a list, by group.

Intervals and tests are over clusters (images, films), because captions of one image are alike.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Annotated

from obygaze.audits.figure import Plot, Point
from obygaze.audits.result import (
    Audit,
    Finding,
    Interval,
    audit_command,
    ratio_interval,
)
from obygaze.audits.texts import (
    GroupNames,
    LabelledText,
    TextSource,
    WordLists,
    by_label,
    column_names,
    count_entries,
    longest_entry,
    read_texts,
    read_words,
    source_name,
)
from obygaze_features.core.errors import FixInput
from obygaze_features.core.options import Option
from obygaze_models.evaluation.compare import holm
from obygaze_models.evaluation.permutation import (
    PValue,
    p_equals,
    p_text,
    permutation_p,
)

HEADERS = ("words", "group", "captions", "clusters", "count", "per 1000", "low", "high")


@dataclass(frozen=True)
class WordRate:
    """How often the captions of one group use the words of one list.

    `ci` is the 95 % interval of `occurrences_per_1000`, over clusters.
    """

    group: str
    words: str
    n_captions: int
    n_clusters: int
    count: int
    captions_with_hit: int
    occurrences_per_1000: float
    captions_with_hit_per_1000: float
    ci: Interval


@dataclass(frozen=True)
class GroupContrast:
    """Whether the first of two groups uses the words of a list more often than the second.

    In a `paired` design the captions of both groups describe the same clusters: `n_paired` clusters
    have both, and `difference` is the mean difference of their occurrences per 1000 captions.
    Of crossed groups, `first` and `second` are values of the column `crossed`, and clusters are
    exchanged only where the values of the columns `within` are the same.
    """

    words: str
    first: str
    second: str
    p: PValue
    p_holm: float
    paired: bool = False
    n_paired: int = 0
    n_left_out: int = 0
    difference: float | None = None
    crossed: str = ""
    within: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f"{self.crossed} " if self.crossed else ""
        tested = (
            f"{self.words}, {where}{self.first} against {self.second}: two-sided "
            f"{p_equals(self.p.two_sided)} ({self.p.method}), {p_text(self.p_holm)} after Holm; "
        )
        if self.within:
            others = " and ".join(self.within)
            verb = "is" if len(self.within) == 1 else "are"
            return (
                f"{tested}whole clusters were exchanged where {others} {verb} the same."
            )
        if not self.paired:
            return f"{tested}whole clusters were exchanged."
        return (
            f"{tested}paired, {self.difference:+.1f} words per 1000 captions in the mean of "
            f"{self.n_paired} clusters with both groups, which were exchanged within each cluster."
        )


@dataclass(frozen=True, eq=False, repr=False)
class CaptionAudit(Audit):
    """The rate of each list in each group, and the test of each list between two groups.

    `rare_words` has, for each list, the words that were left out because all captions together
    use them less than `min_occurrences` times, with how often they do.
    """

    source: str
    n_captions: int
    rates: tuple[WordRate, ...]
    contrasts: tuple[GroupContrast, ...]
    min_occurrences: int = 0
    rare_words: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def finding(self) -> Finding:
        """Return a row for each list and group, and sentences with the tests."""
        rows = tuple(
            (
                rate.words,
                rate.group,
                rate.n_captions,
                rate.n_clusters,
                rate.count,
                rate.occurrences_per_1000,
                *rate.ci,
                rate.captions_with_hit_per_1000,
            )
            for rate in self.rates
        )
        sentences = ["Intervals (95 %) are bootstrapped over clusters, not captions."]
        sentences += self._sentences_of_rare_words()
        sentences += map(str, self.contrasts)
        if not self.contrasts and len({rate.group for rate in self.rates}) == 2:
            sentences.append(
                "The groups were not tested: one cluster has captions of both, and pairs need two."
            )
        if not self.contrasts and len({rate.group for rate in self.rates}) > 2:
            sentences.append(
                "More than two groups were not tested: --group with several columns tests each "
                "column, if no cluster has captions of two groups."
            )
        title = f"Words of {self.n_captions} captions: {self.source}"
        headers = (*HEADERS, "captions with a hit per 1000")
        return Finding(title, headers, rows, sentences=tuple(sentences))

    def _sentences_of_rare_words(self) -> list[str]:
        """Return which words of each list were left out, and how often they occur."""
        sentences = []
        for title, counts in self.rare_words.items():
            words = ", ".join(f"{word} {n}" for word, n in counts.items())
            sentences.append(
                f"{title}: words with fewer than {self.min_occurrences} occurrences in all "
                f"captions are left out: {words}."
            )
        without_words = self.rare_words.keys() - {rate.words for rate in self.rates}
        if without_words:
            titles = ", ".join(sorted(without_words))
            sentences.append(f"No word is left of {titles}: no row of the table.")
        return sentences

    def plot(self) -> Plot:
        """Return the rate of each list in each group."""
        rates = sorted(self.rates, key=lambda rate: rate.words)
        points = [
            Point(f"{r.words}, {r.group}", r.occurrences_per_1000, r.ci) for r in rates
        ]
        return Plot(
            "Words of lists",
            points,
            "words per thousand captions, with 95 % over clusters",
        )


def audit_captions(
    source: TextSource,
    *,
    text: str = "caption",
    group: str | Sequence[str] = "group",
    cluster: str | Sequence[str] | None = None,
    words: str | Path | WordLists = "emotions",
    min_occurrences: Annotated[int, Option(least=0)] = 0,
    permutations: Annotated[int, Option(least=1)] = 1_000_000,
    workspace: str | Path | None = None,
) -> CaptionAudit:
    """Count how often captions use the words of a list, by group.

    Two groups are also tested against each other: by exchanging whole clusters, or, if clusters
    have captions of both groups, by exchanging the groups within each of these clusters. With
    several columns, such as race, gender and class, groups are crossed: each column is tested by
    exchanging clusters that have the same values of the others.

    Args:
        source: A CSV table, a manifest or its name, rows, or a folder of .txt files with one
            caption per line, which are named as those of Wolfe et al. (2023).
        text: The column of the captions.
        group: The columns whose values are the groups.
        cluster: The columns of what is described; by default each caption is its own cluster.
        words: Word lists: "emotions", "gender", a TOML file, or sets of words by name.
        min_occurrences: Leave out words that all captions together use less often; Wolfe et al.
            (2023) use 100.
        permutations: How many permutations are drawn if they are too many to count.
        workspace: The workspace, if it is not the current one.

    Example:
        audit = audit_captions("captions.csv", group="condition", cluster="image")

    Commands:
        obygaze audit captions captions.csv --group condition --cluster image
        obygaze audit captions captions/ --group group,face --cluster image,face --figure words
        obygaze audit captions captions/ --group group --cluster image,face --min-occurrences 100
        obygaze audit captions captions.csv --group race,gender,class --cluster image
        obygaze audit captions captions.csv --words my-words.toml --json
    """
    groups = GroupNames(column_names(group))
    lists = read_words(words)
    captions = read_texts(
        source,
        text,
        groups,
        columns=groups.columns,
        cluster=column_names(cluster),
        workspace=workspace,
    )
    rare_words = _rare_words(captions, lists, min_occurrences)
    frequent = {}
    for title, words_of_list in lists.items():
        frequent_words = words_of_list - rare_words.get(title, {}).keys()
        if frequent_words:
            frequent[title] = frequent_words
    if not frequent:
        raise FixInput(
            f"no word of the lists has {min_occurrences} occurrences in all captions",
            where=source_name(source),
            hint="--min-occurrences, or --words with other lists",
        )
    rates = word_rates(captions, frequent)
    tests = contrasts(captions, frequent, permutations=permutations)
    if len(groups.columns) > 1 and len(groups.cells_of) > 2:
        tests = crossed_contrasts(captions, frequent, groups, permutations=permutations)
    return CaptionAudit(
        source_name(source),
        len(captions),
        tuple(rates),
        tuple(tests),
        min_occurrences,
        rare_words,
    )


def _rare_words(
    captions: Sequence[LabelledText], lists: WordLists, min_occurrences: int
) -> dict[str, dict[str, int]]:
    """Return the words of each list that all captions use too rarely, and how often they do."""
    all_words = frozenset(chain.from_iterable(lists.values()))
    longest = longest_entry(all_words)
    occurrences = Counter[str]()
    for caption in captions:
        occurrences.update(count_entries(caption.text, all_words, longest))
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


def word_rates(captions: Sequence[LabelledText], lists: WordLists) -> list[WordRate]:
    """Return the rate of each list in each group, with a 95 % interval over clusters."""
    rates = []
    for group, inside in by_label(captions).items():
        clusters = [caption.cluster for caption in inside]
        n = len(inside)
        for name, words in lists.items():
            hits = _occurrences(inside, words)
            n_hits = sum(hit > 0 for hit in hits)
            per_1000 = (1000 * sum(hits) / n, 1000 * n_hits / n)
            ci = ratio_interval(hits, [1] * n, clusters, scale=1000)
            counts = (n, len(set(clusters)), sum(hits), n_hits)
            rates.append(WordRate(group, name, *counts, *per_1000, ci))
    return rates


def contrasts(
    captions: Sequence[LabelledText],
    lists: WordLists,
    *,
    permutations: int = 1_000_000,
) -> list[GroupContrast]:
    """Return the test of each list between two groups; none for one group, or for more than two.

    Clusters that have captions of both groups are pairs, if there are at least two: the value of
    each group is its mean number of words in a caption. Without such clusters, the value of a
    cluster is the number of its words above the number that the rate over all captions predicts for
    its size. So a cluster with many captions does not count as one that uses the words more often.
    """
    groups_of = defaultdict[str, set[str]](set)
    for caption in captions:
        groups_of[caption.cluster] |= caption.labels
    groups = sorted(set().union(*groups_of.values()))
    pairs = sorted(cluster for cluster, labels in groups_of.items() if len(labels) > 1)
    if len(groups) != 2 or len(pairs) == 1:
        return []
    first, second = groups
    clusters = sorted(groups_of)
    tests = []
    for title, words in lists.items():
        n_words = _occurrences(captions, words)
        if pairs:
            values = _paired_values(captions, n_words, pairs, groups)
            p = permutation_p(
                values,
                [True, False] * len(pairs),
                list(chain.from_iterable((pair, pair) for pair in pairs)),
                permutations=permutations,
            )
            test = GroupContrast(
                title,
                first,
                second,
                p,
                p_holm=1.0,
                paired=True,
                n_paired=len(pairs),
                n_left_out=len(groups_of) - len(pairs),
                difference=1000 * (fmean(values[::2]) - fmean(values[1::2])),
            )
        else:
            p = permutation_p(
                _values_above_rate(captions, n_words, clusters),
                [groups_of[cluster] == {first} for cluster in clusters],
                None,
                permutations=permutations,
            )
            test = GroupContrast(title, first, second, p, p_holm=1.0)
        tests.append(test)
    return _corrected(tests)


def crossed_contrasts(
    captions: Sequence[LabelledText],
    lists: WordLists,
    groups: GroupNames,
    *,
    permutations: int = 1_000_000,
) -> list[GroupContrast]:
    """Return the tests of each list and column of crossed groups, corrected together.

    Of a column with two values, these are compared; of one with more, each with the others. Whole
    clusters are exchanged where the other columns are the same. Clusters of several groups cannot
    be exchanged; then there are no tests.
    """
    group_of: dict[str, str] = {}
    for caption in captions:
        for name in caption.labels:
            if group_of.setdefault(caption.cluster, name) != name:
                return []
    clusters = sorted(group_of)
    cells = [groups.cells_of[group_of[cluster]] for cluster in clusters]
    tests = []
    for i, column in enumerate(groups.columns):
        values = sorted({cell[i] for cell in cells})
        others = [cell[:i] + cell[i + 1 :] for cell in cells]
        blocks = [sorted(set(others)).index(other) for other in others]
        names_of_others = groups.columns[:i] + groups.columns[i + 1 :]
        for first, second in _pairs_of_values(values):
            is_first = [cell[i] == first for cell in cells]
            for title, words in lists.items():
                n_words = _occurrences(captions, words)
                p = permutation_p(
                    _values_above_rate(captions, n_words, clusters),
                    is_first,
                    blocks,
                    permutations=permutations,
                )
                test = GroupContrast(
                    title,
                    first,
                    second,
                    p,
                    p_holm=1.0,
                    crossed=column,
                    within=names_of_others,
                )
                tests.append(test)
    return _corrected(tests)


def _pairs_of_values(values: Sequence[str]) -> list[tuple[str, str]]:
    """Return the two values of a column, or each of more values with all others."""
    if len(values) < 2:
        return []
    if len(values) == 2:
        return [(values[0], values[1])]
    return [(value, "all others") for value in values]


def _corrected(tests: Sequence[GroupContrast]) -> list[GroupContrast]:
    """Return tests with their p after Holm's correction over all of them."""
    corrected = holm([test.p.two_sided for test in tests])
    return [
        replace(test, p_holm=float(p)) for test, p in zip(tests, corrected, strict=True)
    ]


def _paired_values(
    captions: Sequence[LabelledText],
    n_words: Sequence[int],
    pairs: Sequence[str],
    groups: Sequence[str],
) -> list[float]:
    """Return the mean number of words in a caption, of each group in each pair."""
    numbers = defaultdict[tuple[str, str], list[int]](list)
    for caption, n in zip(captions, n_words, strict=True):
        for group in caption.labels:
            numbers[caption.cluster, group].append(n)
    values = []
    for pair in pairs:
        values += [fmean(numbers[pair, group]) for group in groups]
    return values


def _values_above_rate(
    captions: Sequence[LabelledText], n_words: Sequence[int], clusters: Sequence[str]
) -> list[float]:
    """Return by how many words each cluster is above the rate over all captions.

    The values are multiplied by the number of captions: in whole numbers, ties are ties.
    """
    words_of = Counter[str]()
    sizes = Counter[str]()
    for caption, n in zip(captions, n_words, strict=True):
        # A caption with two labels would make its cluster a pair.
        words_of[caption.cluster] += n * len(caption.labels)
        sizes[caption.cluster] += 1
    total = words_of.total()
    return [
        words_of[cluster] * len(captions) - total * sizes[cluster]
        for cluster in clusters
    ]


def _occurrences(captions: Sequence[LabelledText], words: frozenset[str]) -> list[int]:
    """Return how many words of each caption are in a list."""
    longest = longest_entry(words)
    numbers = []
    for caption in captions:
        numbers.append(count_entries(caption.text, words, longest).total())
    return numbers


command = audit_command(audit_captions, "captions")
