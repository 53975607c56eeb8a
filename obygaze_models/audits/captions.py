"""The caption audit: how often captions use the words of a list, by group.

Intervals and tests are over clusters (images, films), because captions of one image are alike.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from obygaze_features.core.errors import FixInput
from obygaze_features.core.figures import MUTED, canvas, draw_grid, label_rows, save
from obygaze_models.audits.permutation import PValue, permutation_p
from obygaze_models.audits.result import (
    BLUE,
    RED,
    Audit,
    Finding,
    p_equals,
    p_text,
    ratio_interval,
)
from obygaze_models.audits.texts import (
    NAMES,
    LabelledText,
    TextSource,
    WordLists,
    by_label,
    column_names,
    occurrences,
    read_texts,
    read_words,
    source_name,
    tokens,
)
from obygaze_models.evaluation.compare import holm

COLORS = (BLUE, RED, "#e3a857", "#5f8f6b", "#8a6fa8", "#77756f")
MAX_GROUPS = 60
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
    ci: list[float | None]


@dataclass(frozen=True)
class GroupContrast:
    """Whether the first of two groups uses the words of a list more often than the second.

    In a `paired` design the captions of both groups describe the same clusters: `n_paired` clusters
    have both, and `difference` is the mean difference of their occurrences per 1000 captions.
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

    def __str__(self) -> str:
        tested = (
            f"{self.words}, {self.first} against {self.second}: two-sided "
            f"{p_equals(self.p.two_sided)} ({self.p.method}), {p_text(self.p_holm)} after Holm; "
        )
        if not self.paired:
            return f"{tested}whole clusters were exchanged."
        left_out = f" ({self.n_left_out} with one group are left out)" if self.n_left_out else ""
        return (
            f"{tested}paired, {self.difference:+.1f} words per 1000 captions in the mean of "
            f"{self.n_paired} clusters with both groups{left_out}, which were exchanged within "
            "each cluster."
        )


@dataclass(frozen=True, eq=False, repr=False)
class CaptionAudit(Audit):
    """The rate of each list in each group, and the test of each list between two groups."""

    source: str
    n_captions: int
    min_count: int
    words_left_out: int
    rates: tuple[WordRate, ...]
    contrasts: tuple[GroupContrast, ...]

    def finding(self) -> Finding:
        """Return a row for each list and group, and sentences with the tests."""
        rows = tuple(
            (
                *(rate.words, rate.group, rate.n_captions, rate.n_clusters, rate.count),
                *(rate.occurrences_per_1000, *rate.ci, rate.captions_with_hit_per_1000),
            )
            for rate in self.rates
        )
        title = f"Words of {self.n_captions} captions: {self.source}"
        headers = (*HEADERS, "captions with a hit per 1000")
        return Finding(title, headers, rows, sentences=tuple(self._sentences()))

    def _sentences(self) -> list[str]:
        sentences = ["Intervals (95 %) are bootstrapped over clusters, not captions."]
        sentences += map(str, self.contrasts)
        if not self.contrasts and len({rate.group for rate in self.rates}) == 2:
            sentences.append(
                "The groups were not tested: one cluster has captions of both, and pairs need two."
            )
        if self.min_count > 0:
            sentences.append(
                f"{self.words_left_out} words of the lists occur fewer than {self.min_count} times "
                "in all captions and were left out."
            )
        return sentences

    def draw(self, stem: Path) -> tuple[Path, Path]:
        """Draw one panel per list: a bar for the rate of each group, a line for its interval."""
        found = {(rate.words, rate.group): rate for rate in self.rates}
        lists = list(dict.fromkeys(rate.words for rate in self.rates))
        every = sorted({rate.group for rate in self.rates})
        groups = every[:MAX_GROUPS][::-1]
        cut = f"; {MAX_GROUPS} of {len(every)} groups" if len(every) > MAX_GROUPS else ""
        highest = max(max(rate.occurrences_per_1000, rate.ci[1] or 0.0) for rate in self.rates)
        size = (7.2, 1.0 + 0.26 * len(groups))
        with canvas(*size, ncols=len(lists), sharey=True, squeeze=False) as (figure, all_axes):
            for axes, words in zip(all_axes[0], lists, strict=True):
                for row, group in enumerate(groups):
                    color = COLORS[len(groups) - 1 - row if len(groups) <= len(COLORS) else 0]
                    _draw_rate(axes, row, found[words, group], color)
                axes.set_title(words)
                axes.set_xlim(0, 1.05 * (highest or 1.0))
                draw_grid(axes)
                label_rows(axes, groups, upwards=True)
            label = f"words per thousand captions, 95 % over clusters{cut}"
            figure.supxlabel(label, fontsize=8, color=MUTED)
            return save(figure, stem)


def _draw_rate(axes: Any, row: int, rate: WordRate, color: str) -> None:
    axes.barh(row, rate.occurrences_per_1000, height=0.66, color=color)
    low, high = rate.ci
    if low is not None and high is not None:
        axes.plot([low, high], [row, row], color="#2b2b2b", lw=1.1)


def audit_captions(
    source: TextSource,
    *,
    text: str = "caption",
    group: str | Sequence[str] = "group",
    cluster: str | Sequence[str] | None = None,
    words: str | Path | WordLists = "emotions",
    min_count: int = 0,
    names: str = NAMES,
    permutations: int = 1_000_000,
    seed: int = 0,
) -> CaptionAudit:
    """Count how often captions use the words of a list, by group.

    Two groups are also tested against each other: by exchanging whole clusters, or, if clusters
    have captions of both groups, by exchanging the groups within each of these clusters.

    Args:
        source: A CSV table, a manifest or its name, a folder of .txt files with one caption per
            line, or rows.
        text: The column of the captions.
        group: The columns whose values are the groups.
        cluster: The columns of what is described; by default each caption is its own cluster.
        words: Word lists: "emotions", "gender", a TOML file, or sets of words by name.
        min_count: Leave out words with fewer occurrences in all captions.
        names: How the files of a folder are named; each field becomes a column.
        permutations: How many permutations are drawn if they are too many to count.
        seed: The seed of all random draws.

    Example:
        audit = audit_captions("captions.csv", group="condition", cluster="image")
    """
    groups, lists = column_names(group), read_words(words)
    captions = read_texts(
        source,
        text,
        lambda cells: frozenset({" ".join(cells[column] for column in groups)}),
        columns=groups,
        cluster=column_names(cluster),
        names=names,
    )
    kept = frequent_words(captions, lists, min_count)
    n_left_out = len(frozenset().union(*lists.values()) - frozenset().union(*kept.values()))
    rates = word_rates(captions, kept, seed=seed)
    tests = contrasts(captions, kept, permutations=permutations, seed=seed)
    counts = (len(captions), min_count, n_left_out)
    return CaptionAudit(source_name(source), *counts, tuple(rates), tuple(tests))


def word_rates(
    captions: Sequence[LabelledText], lists: WordLists, *, seed: int = 0
) -> list[WordRate]:
    """Return the rate of each list in each group, with a 95 % interval over clusters."""
    if not captions:
        raise FixInput("expected at least one caption, got none")
    rates = []
    for group, inside in by_label(captions).items():
        clusters, n = [caption.cluster for caption in inside], len(inside)
        for name, words in lists.items():
            hits = occurrences(inside, words)
            n_hits = sum(hit > 0 for hit in hits)
            per_1000 = (1000 * sum(hits) / n, 1000 * n_hits / n)
            ci = ratio_interval(hits, [1] * n, clusters, scale=1000, seed=seed)
            counts = (n, len(set(clusters)), sum(hits), n_hits)
            rates.append(WordRate(group, name, *counts, *per_1000, ci))
    return rates


def contrasts(
    captions: Sequence[LabelledText],
    lists: WordLists,
    *,
    permutations: int = 1_000_000,
    seed: int = 0,
) -> list[GroupContrast]:
    """Return the test of each list between two groups; none for one group, or for more than two.

    Clusters that have captions of both groups are pairs, if there are at least two: the value of
    each group is its mean number of words in a caption. Without such clusters, the value of a
    cluster is the number of its words above the number that the rate over all captions predicts for
    its size. So a cluster with many captions does not count as one that uses the words more often.
    """
    of_cluster: dict[str, set[str]] = {}
    for caption in captions:
        of_cluster.setdefault(caption.cluster, set()).update(caption.labels)
    groups = sorted(set().union(*of_cluster.values()))
    if len(groups) != 2:
        return []
    paired = sorted(name for name, found in of_cluster.items() if len(found) > 1)
    if len(paired) == 1:
        return []
    if paired:
        n_left_out = len(of_cluster) - len(paired)
        return _paired_contrasts(captions, lists, groups, paired, n_left_out, permutations, seed)
    names, sizes = sorted(of_cluster), Counter(caption.cluster for caption in captions)
    is_first = [of_cluster[name] == {groups[0]} for name in names]
    found: dict[str, PValue] = {}
    for title, words in lists.items():
        counts = Counter[str]()
        for caption, n in zip(captions, occurrences(captions, words), strict=True):
            counts[caption.cluster] += n
        # In whole numbers, so that ties are ties.
        above = [counts[name] * len(captions) - counts.total() * sizes[name] for name in names]
        found[title] = permutation_p(above, is_first, permutations=permutations, seed=seed)
    corrected = holm([p.two_sided for p in found.values()])
    return [
        GroupContrast(title, groups[0], groups[1], p, float(p_holm))
        for (title, p), p_holm in zip(found.items(), corrected, strict=True)
    ]


def _paired_contrasts(
    captions: Sequence[LabelledText],
    lists: WordLists,
    groups: Sequence[str],
    clusters: Sequence[str],
    n_left_out: int,
    permutations: int,
    seed: int,
) -> list[GroupContrast]:
    """Return the test of each list by exchanging the two groups within each cluster."""
    is_first = [True, False] * len(clusters)
    block = [name for name in clusters for _ in groups]
    found: list[tuple[str, PValue, float]] = []
    for title, words in lists.items():
        counts = defaultdict[tuple[str, str], list[int]](list)
        for caption, n in zip(captions, occurrences(captions, words), strict=True):
            for label in caption.labels:
                counts[caption.cluster, label].append(n)
        means = [fmean(counts[name, group]) for name in clusters for group in groups]
        p = permutation_p(means, is_first, block, permutations=permutations, seed=seed)
        found.append((title, p, 1000 * (fmean(means[::2]) - fmean(means[1::2]))))
    corrected = holm([p.two_sided for _, p, _ in found])
    return [
        GroupContrast(
            *(title, groups[0], groups[1], p, float(p_holm)),
            *(True, len(clusters), n_left_out, difference),
        )
        for (title, p, difference), p_holm in zip(found, corrected, strict=True)
    ]


def frequent_words(captions: Sequence[LabelledText], lists: WordLists, min_count: int) -> WordLists:
    """Return the lists without words that occur fewer than `min_count` times in all captions."""
    seen = Counter(word for caption in captions for word in tokens(caption.text))
    return {
        name: frozenset(word for word in words if seen[word] >= min_count)
        for name, words in lists.items()
    }
