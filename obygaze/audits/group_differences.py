"""The difference of a share between groups of films, tested by exchanging whole films."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze.films.sampling import LEAST_FILMS
from obygaze_features.core.console import count
from obygaze_models.evaluation.group_tests import ALPHA, MANY
from obygaze_models.evaluation.permutation import holm, p_equals, permutation_p
from obygaze_models.evaluation.predictions import rounded_difference

Floats = NDArray[np.float64]
# A difference, with the keys of the JSON document.
Row = dict[str, Any]


def compare_shares(
    groups: Mapping[str, NDArray[np.intp]], shares: Floats, sizes: Floats
) -> list[Row]:
    """Return the difference of the shares of each pair of groups, with its test.

    Films that are in both groups are excluded. A pair is skipped if one of its groups has fewer
    than two other films.

    Args:
        groups: The places of the films of each group.
        shares: The share of each film.
        sizes: The size of each film, with which its share counts.
    """
    tested: list[Row] = []
    for names in combinations(groups, 2):
        first, second = (groups[name] for name in names)
        in_both = np.intersect1d(first, second)
        parts = [np.setdiff1d(of_group, in_both) for of_group in (first, second)]
        if min(map(len, parts)) < LEAST_FILMS:
            continue
        both = np.concatenate(parts)
        mean = np.average(shares[both], weights=sizes[both])
        # What is positive in each film minus what is expected at the mean share.
        surplus = sizes[both] * rounded_difference(shares[both], mean)
        p_value = permutation_p(surplus, np.arange(len(both)) < len(parts[0]))
        means = [np.average(shares[of], weights=sizes[of]) for of in parts]
        tested.append(
            {
                "groups": names,
                "difference": float(means[0] - means[1]),
                "p": p_value.two_sided,
                "method": p_value.method,
                "n_in_both": len(in_both),
            }
        )
    corrected = holm([pair["p"] for pair in tested]).tolist() if tested else []
    return [{**pair, "p_holm": p} for pair, p in zip(tested, corrected, strict=True)]


def difference_sentences(differences: Sequence[Row]) -> Iterator[str]:
    """Yield a sentence for each pair of groups.

    If there are many pairs, only the pairs that differ have a sentence.
    """
    shown = differences
    n_pairs = len(differences)
    if n_pairs > MANY:
        shown = [pair for pair in differences if pair["p_holm"] < ALPHA]
        yield f"{len(shown)} of {n_pairs} pairs of groups have p < {ALPHA}."
    corrected = " after Holm's correction" if n_pairs > 1 else ""
    for pair in shown:
        verdict = "differ" if pair["p_holm"] < ALPHA else "are not shown to differ"
        left_out = ""
        if pair["n_in_both"]:
            left_out = f" {count(pair['n_in_both'], 'film')} in both groups excluded."
        yield (
            f"{' and '.join(pair['groups'])} {verdict}: {pair['difference']:+.3f},"
            f" {p_equals(pair['p_holm'])}{corrected}, exchanging whole films.{left_out}"
        )
