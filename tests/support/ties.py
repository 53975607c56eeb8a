"""Average precision without closed forms: ties broken in every order, one after the other."""

from itertools import combinations, product
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

from support.recompute import average_precision


def ap_by_brute_force(y: Any, score: Any) -> float:
    """scikit-learn's average precision of each order that the scores allow, and their mean."""
    y = np.asarray(y, dtype=bool)
    score = np.asarray(score)
    orders_of_ties = []
    for value in np.unique(score)[::-1]:
        of_tie = y[score == value]
        places = combinations(range(len(of_tie)), int(of_tie.sum()))
        orders = [np.isin(np.arange(len(of_tie)), chosen) for chosen in places]
        orders_of_ties.append(orders)
    descending = -np.arange(len(y))
    found = []
    for order in product(*orders_of_ties):
        found.append(average_precision_score(np.concatenate(order), descending))
    return float(np.mean(found))


def ap_by_places(y: Any, score: Any) -> float:
    """The same mean, from the places above which a positive stands."""
    pairs = zip(np.asarray(y, dtype=bool), np.asarray(score), strict=True)
    rows = [{"y": int(label), "score": float(value)} for label, value in pairs]
    return average_precision(rows)


def ap_of_drawn_clips(y: Any, score: Any, times: Any) -> float:
    """The same, where clips are drawn several times: a clip has one place, of a tie the mean."""
    y = np.asarray(y, dtype=bool)
    score = np.asarray(score)
    times = np.asarray(times, dtype=float)
    total = 0.0
    above = 0.0
    positive_above = 0.0
    for value in np.unique(score)[::-1]:
        of_tie = (score == value) & (times > 0)
        n = int(of_tie.sum())
        if not n:
            continue
        weight = times[of_tie].mean()
        positive = times[of_tie & y].sum()
        others = max(0.0, (positive / weight - 1) / max(n - 1, 1))
        for place in range(1, n + 1):
            above_it = positive_above + weight * (1 + (place - 1) * others)
            total += positive / n * above_it / (above + place * weight)
        above += n * weight
        positive_above += positive
    return total / positive_above
