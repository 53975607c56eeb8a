"""How often captions use the words of a list, by group, with intervals over what they describe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput
from obygaze_models.audits.finding import finite
from obygaze_models.audits.permutation import PValue, permutation_p
from obygaze_models.audits.words import WordLists, tokens
from obygaze_models.evaluation.bootstrap import Interval, resample


@dataclass(frozen=True)
class Caption:
    """A caption, the group it is compared as part of, and the image or film it describes."""

    text: str
    group: str
    cluster: str


@dataclass(frozen=True)
class Rate:
    """How often one group's captions use one list's words."""

    group: str
    words: str
    n_captions: int
    n_clusters: int
    occurrences: int
    captions_with_hit: int
    interval: Interval

    @property
    def occurrences_per_1000(self) -> float:
        """Words of the list in a thousand captions."""
        return 1000 * self.occurrences / self.n_captions

    @property
    def captions_with_hit_per_1000(self) -> float:
        """Captions with at least one word of the list, in a thousand."""
        return 1000 * self.captions_with_hit / self.n_captions

    def to_json(self) -> dict[str, Any]:
        """The counts and rates as a JSON record."""
        return {
            "group": self.group,
            "words": self.words,
            "n_captions": self.n_captions,
            "n_clusters": self.n_clusters,
            "count": self.occurrences,
            "captions_with_hit": self.captions_with_hit,
            "occurrences_per_1000": self.occurrences_per_1000,
            "captions_with_hit_per_1000": self.captions_with_hit_per_1000,
            "ci": [finite(self.interval.low), finite(self.interval.high)],
        }


@dataclass(frozen=True)
class Contrast:
    """Whether the first of two groups uses a list's words more, by exchanging whole clusters."""

    words: str
    first: str
    second: str
    p: PValue

    def to_json(self) -> dict[str, Any]:
        """The comparison as a JSON record."""
        names = {"words": self.words, "first": self.first, "second": self.second}
        return {**names, "p": self.p.to_json()}


def word_rates(
    captions: Sequence[Caption], lists: WordLists, *, min_count: int = 0, seed: int = 0
) -> list[Rate]:
    """The rate of each list in each group; words rarer than `min_count` over all are left out."""
    if not captions:
        raise FixInput("there are no captions")
    kept = frequent_words(captions, lists, min_count)
    return [
        _rate([caption for caption in captions if caption.group == group], group, name, words, seed)
        for group in sorted({caption.group for caption in captions})
        for name, words in kept.items()
    ]


def contrasts(captions: Sequence[Caption], lists: WordLists, **options: Any) -> list[Contrast]:
    """Each list's test between two groups; empty where there are not two with clusters apart.

    What is exchanged is how many more of the words a cluster has than the rate over all captions
    makes of its size: a cluster of many captions is not one that uses the words more.
    """
    groups = sorted({caption.group for caption in captions})
    of_cluster: dict[str, set[str]] = {}
    for caption in captions:
        of_cluster.setdefault(caption.cluster, set()).add(caption.group)
    if len(groups) != 2 or any(len(found) > 1 for found in of_cluster.values()):
        return []
    names = sorted(of_cluster)
    is_first = [of_cluster[name] == {groups[0]} for name in names]
    found = []
    for title, words in lists.items():
        counts, sizes = Counter[str](), Counter(caption.cluster for caption in captions)
        for caption in captions:
            counts[caption.cluster] += _occurrences(caption, words)
        total, n = counts.total(), len(captions)
        # In whole numbers, so that ties are ties.
        beyond = [counts[name] * n - total * sizes[name] for name in names]
        p = permutation_p(beyond, is_first, **options)
        found.append(Contrast(title, groups[0], groups[1], p))
    return found


def frequent_words(captions: Sequence[Caption], lists: WordLists, min_count: int) -> WordLists:
    """The lists without the words that occur fewer than `min_count` times in all captions."""
    if min_count <= 0:
        return lists
    seen = Counter(word for caption in captions for word in tokens(caption.text))
    return {
        name: frozenset(word for word in words if seen[word] >= min_count)
        for name, words in lists.items()
    }


def _rate(
    captions: Sequence[Caption], group: str, name: str, words: frozenset[str], seed: int
) -> Rate:
    hits = [_occurrences(caption, words) for caption in captions]
    clusters, codes = np.unique([caption.cluster for caption in captions], return_inverse=True)
    totals = np.bincount(codes, weights=hits)
    sizes = np.bincount(codes).astype(np.float64)

    def per_1000(weights: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        return {"rate": 1000 * (weights @ totals) / (weights @ sizes)}

    interval, _ = resample(per_1000, clusters, unit="cluster", seed=seed)["rate"]
    return Rate(
        group=group,
        words=name,
        n_captions=len(captions),
        n_clusters=len(clusters),
        occurrences=sum(hits),
        captions_with_hit=sum(hit > 0 for hit in hits),
        interval=interval,
    )


def _occurrences(caption: Caption, words: frozenset[str]) -> int:
    return sum(word in words for word in tokens(caption.text))


def rates_by_group(rates: Sequence[Rate]) -> Mapping[str, Mapping[str, Rate]]:
    """The rates by list, then by group, as a table or a figure wants them."""
    nested: dict[str, dict[str, Rate]] = {}
    for rate in rates:
        nested.setdefault(rate.words, {})[rate.group] = rate
    return nested
