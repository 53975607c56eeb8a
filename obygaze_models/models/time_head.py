"""A head on the margins of frames: each concept is pooled over time by one rule, then a logit.

The rules can be read: the maximum over frames, the mean over frames (how much of the time), or how
much earlier the concept peaks than another one. After MoTIF (arXiv 2509.20899), whose temporal
attention is learnt for each concept, but in place of attention a rule is chosen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from obygaze_models.models.common import (
    Bools,
    Floats,
    Ints,
    are_frames,
    frames_of,
    padding_of,
    without_padding,
)
from obygaze_models.models.concepts import inner_folds
from obygaze_models.models.heads import LinearHead, LogisticHead

# Other rules are the number of the concept that the peak is compared with.
MAXIMUM = -1
MEAN = -2


@dataclass(eq=False, repr=False)
class TimeHead(LogisticHead):
    """A logistic head on margins [clips, frames, concepts]; a row of a matrix is one frame.

    The rule of each concept is chosen on the training clips: the one whose values separate the
    classes best in the worst of three inner folds of whole films.
    """

    fitted: ClassVar[tuple[str, ...]] = (*LinearHead.fitted, "rules_")

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Choose the rules and fit the weights on margins; `groups` is the film of each clip."""
        if are_frames(X):
            positive = np.asarray(y) == np.max(y)
            margins = frames_of(np.asarray(X, dtype=np.float64))
            films = None if groups is None else np.asarray(groups)
            self.rules_ = choose_rules(margins, positive, films)
            return super().fit(pool_in_time(margins, self.rules_), y, groups)
        super().fit(X, y, groups)
        self.rules_ = np.full(self.n_features_in_, MEAN)
        return self

    def pool(self, X: Any) -> Floats:
        """Return the pooled margins: a column for each concept, by its rule."""
        return self._check(X)

    def on_pooled(self) -> LogisticHead:
        """Return the head that takes pooled margins, such as for `intervene`."""
        head = LogisticHead(self.C, penalty=self.penalty, scaled=self.scaled)
        for name in ("n_features_in_", *LinearHead.fitted):
            setattr(head, name, getattr(self, name))
        return head

    def rule_names(self, concepts: Sequence[str]) -> list[str]:
        """Return the rule of each concept in words."""
        words = {MAXIMUM: "maximum", MEAN: "mean"}
        return [
            words.get(rule) or f"before {concepts[rule]}"
            for rule in self.rules_.tolist()
        ]

    def _check(self, X: Any) -> Floats:
        if are_frames(X):
            return pool_in_time(frames_of(np.asarray(X, dtype=np.float64)), self.rules_)
        return pool_in_time(super()._check(X)[:, None], self.rules_)


def pool_in_time(margins: Floats, rules: Ints) -> Floats:
    """Return the pooled margins of each clip: a column for each concept, by its rule."""
    columns = options(margins)
    return np.stack(
        [columns[rule][:, concept] for concept, rule in enumerate(rules)], axis=1
    )


def options(margins: Floats) -> dict[int, Floats]:
    """Return the values by each rule; by number of a concept how much earlier others peak.

    The difference of peaks is a share of the clip, positive where the other concept is later.
    Frames of NaN are padding and not part of the clip.
    """
    if padding_of(margins) is None:
        return _options_of_frames(margins)
    n_clips, _, n_concepts = margins.shape
    rules = (MAXIMUM, MEAN, *range(n_concepts))
    values_by_rule = {rule: np.empty((n_clips, n_concepts)) for rule in rules}
    for rows, frames in without_padding(margins):
        for rule, values in _options_of_frames(frames).items():
            values_by_rule[rule][rows] = values
    return values_by_rule


def _options_of_frames(margins: Floats) -> dict[int, Floats]:
    peaks = margins.argmax(axis=1) / max(margins.shape[1] - 1, 1)
    before = {other: peaks[:, [other]] - peaks for other in range(margins.shape[2])}
    return {MAXIMUM: margins.max(axis=1), MEAN: margins.mean(axis=1), **before}


def choose_rules(
    margins: Floats, positive: Bools, groups: NDArray[Any] | None = None
) -> Ints:
    """Return the rule of each concept that separates the classes best in the worst inner fold.

    There are many orders, one for each other concept; a chance one rarely holds in every fold.
    """
    folds = inner_folds(positive, groups, n_folds=3)
    if not folds:
        folds = [np.ones(len(positive), dtype=np.bool_)]
    columns = options(margins)
    worst = []
    for values in columns.values():
        above_chance = [_auc(values[fold], positive[fold]) - 0.5 for fold in folds]
        by_fold = np.array(above_chance)
        direction = np.sign(by_fold.sum(axis=0))
        worst.append(np.min(direction * by_fold, axis=0))
    return np.asarray(np.array(list(columns))[np.argmax(worst, axis=0)])


def _auc(values: Floats, positive: Bools) -> Floats:
    """Return the AUC of each column; ties are half."""
    n = len(values)
    n_positive = int(positive.sum())
    ranks = rankdata(values, axis=0)[positive].sum(axis=0)
    n_pairs = n_positive * (n - n_positive)
    auc: Floats = (ranks - n_positive * (n_positive + 1) / 2) / n_pairs
    return auc
