"""Which words and concepts keep company with which gender, and whether a model makes it worse.

The bias of a word is the share of one gender among its gendered captions (Zhao et al. 2017);
a model amplifies it where the share in its predictions is further from even than in its data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput
from obygaze_models.audits.finding import finite
from obygaze_models.audits.gender_score import printed_ratios
from obygaze_models.audits.words import WordLists, tokens
from obygaze_models.evaluation.bootstrap import Interval, resample


@dataclass(frozen=True)
class Text:
    """A text, the things it is about (objects, concepts), and the film or image it belongs to."""

    text: str
    things: frozenset[str]
    cluster: str


@dataclass(frozen=True)
class CoOccurrence:
    """How often one thing stands beside words of each gender; texts with both count for both."""

    thing: str
    counts: Mapping[str, int]
    share: float | None
    interval: Interval | None

    def to_json(self) -> dict[str, Any]:
        """The counts, the share of the first gender, and both shares as the poster cuts them."""
        first, second = self.counts.values()
        printed = printed_ratios(first, second) if first + second else None
        return {
            "thing": self.thing,
            "counts": dict(self.counts),
            "share": self.share,
            "ci": [finite(self.interval.low), finite(self.interval.high)]
            if self.interval
            else None,
            "printed": list(printed) if printed else None,
        }


@dataclass(frozen=True)
class Amplification:
    """By how much predictions lean further than the data they come from."""

    mean: float | None
    by_thing: Mapping[str, float]
    shares: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The mean, each thing's own amplification, and its predicted share of the first gender."""
        return {"mean": self.mean, "by_thing": dict(self.by_thing), "shares": dict(self.shares)}


def things_in(text: str, vocabulary: Sequence[str]) -> frozenset[str]:
    """The words of a vocabulary that a text names."""
    return frozenset(vocabulary).intersection(tokens(text))


def count_pairs(texts: Sequence[Text], genders: WordLists, *, seed: int = 0) -> list[CoOccurrence]:
    """Each thing's company, with an interval over clusters for the share of the first gender."""
    if len(genders) != 2:
        raise FixInput(f"co-occurrence compares two lists of gendered words, not {len(genders)}")
    gendered = [_genders_of(text, genders) for text in texts]
    things = sorted({thing for text in texts for thing in text.things})
    return [_pair(thing, texts, gendered, list(genders), seed) for thing in things]


def bias_amplification(
    data: Mapping[str, tuple[int, int]], predicted: Mapping[str, tuple[int, int]]
) -> Amplification:
    """The change of the majority gender's share from data to predictions, thing by thing.

    Things without a gendered count on either side take no part. Where the data are even, any lean
    of the predictions is one, whichever way.
    """
    by_thing = {}
    for thing in sorted(data.keys() & predicted.keys()):
        if not sum(data[thing]) or not sum(predicted[thing]):
            continue
        leading = predicted if data[thing][0] == data[thing][1] else data
        majority = int(leading[thing][1] > leading[thing][0])
        before = data[thing][majority] / sum(data[thing])
        by_thing[thing] = predicted[thing][majority] / sum(predicted[thing]) - before
    mean = sum(by_thing.values()) / len(by_thing) if by_thing else None
    shares = {thing: predicted[thing][0] / sum(predicted[thing]) for thing in by_thing}
    return Amplification(mean, by_thing, shares)


def _genders_of(text: Text, genders: WordLists) -> tuple[bool, ...]:
    words = set(tokens(text.text))
    return tuple(bool(words & listed) for listed in genders.values())


def _pair(
    thing: str,
    texts: Sequence[Text],
    gendered: Sequence[tuple[bool, ...]],
    names: list[str],
    seed: int,
) -> CoOccurrence:
    inside = [i for i, text in enumerate(texts) if thing in text.things]
    flags = np.array([gendered[i] for i in inside], dtype=np.float64)
    counts = {name: int(flags[:, column].sum()) for column, name in enumerate(names)}
    total = sum(counts.values())
    if not total:
        return CoOccurrence(thing, counts, None, None)
    clusters, codes = np.unique([texts[i].cluster for i in inside], return_inverse=True)
    first = np.bincount(codes, weights=flags[:, 0])
    both = np.bincount(codes, weights=flags.sum(axis=1))

    def share(weights: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        with np.errstate(invalid="ignore"):
            return {"share": (weights @ first) / (weights @ both)}

    interval, _ = resample(share, clusters, unit="cluster", seed=seed)["share"]
    return CoOccurrence(thing, counts, counts[names[0]] / total, interval)
