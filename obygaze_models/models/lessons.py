"""What a model learns from: rows of features, their classes, films and concepts, and who teaches.

`FeatureRows` are the features of a store with what all fits on them share. `Lessons` say, for one
fold, which of these rows train, which choose, and which nothing may learn from. A fit is
`fitting.fit(estimator, lessons)`; the method `learn` of an estimator reads what it needs of them.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.metrics import average_precision
from obygaze_models.evaluation.predictions import NO_ROWS, Predictions
from obygaze_models.models.common import Bools, FixTraining, Floats, Ints, Strings

if TYPE_CHECKING:
    from obygaze_models.models.linear_solvers import Machines
    from obygaze_models.text_vectors import (
        Sentences,
    )

INNER_FOLDS = 3
MOST_BYTES = 256_000_000
MOST_RESULTS = 64
ONE_CLASS = "all clips to train on have one label"
NOT_TRAINED = "no clip is left to train on"


class Memo:
    """Results that several fits share: those used last, so many as fit into some bytes.

    A result has the attribute `n_bytes`. The newest is kept whatever its size.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self._known: OrderedDict[Hashable, Any] = OrderedDict()

    @property
    def n_bytes(self) -> int:
        """The bytes of what is kept."""
        return sum(int(result.n_bytes) for result in self._known.values())

    def of(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the result of a key; it is made if it is not known."""
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        result = make()
        self._known[key] = result
        while len(self._known) > 1 and self._is_full:
            self._known.popitem(last=False)
        return result

    @property
    def _is_full(self) -> bool:
        return len(self._known) > MOST_RESULTS or self.n_bytes > self.most_bytes


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """The features that many fits read, and what these share.

    Attributes:
        X: One vector for each row, or its frames or tokens.
        solver: The solver of support vector machines; by default the one for so many rows.
        equal: A number for each row: rows of one number are equal. None if nobody looked.
        memo: What was found on some of the rows.
    """

    X: Any
    solver: str = ""
    equal: Ints | None = None
    memo: Memo = field(default_factory=Memo)

    @cached_property
    def machines(self) -> Machines:
        """All rows, for the support vector machines of every fit."""
        # Late: most models need none.
        from obygaze_models.models.linear_solvers import machines_on

        return machines_on(self.X, self.solver)

    @property
    def n_bytes(self) -> int:
        """The bytes of the rows and of what fits share."""
        n_bytes = int(self.X.nbytes) + self.memo.n_bytes
        # Asked for here, they would be made.
        if "machines" in vars(self):
            n_bytes += self.machines.n_bytes
        return n_bytes

    def changed(self, X: NDArray[Any]) -> FeatureRows:
        """Return other features of the same clips, on which nothing was found yet."""
        return replace(self, X=X, memo=Memo(self.memo.most_bytes))

    def tied(self, rows: Ints, scores: Floats) -> Floats:
        """Return scores in which equal rows have one score.

        A product of matrices rounds equal rows in other ways, by their places in it.
        """
        if self.equal is None:
            return scores
        _, first, group = np.unique(
            self.equal[rows], return_index=True, return_inverse=True
        )
        return scores[first][group]


@dataclass(frozen=True, eq=False)
class Concepts:
    """What is known of the concepts of each row.

    Attributes:
        names: The names of the concepts.
        targets: By the clips that positives are compared with (`examples.Against`): a column for
            each concept, 1 for a positive, 0 for a negative, -1 for no example.
        is_example: Whether each row may be an example: it has a level.
    """

    names: tuple[str, ...]
    targets: Mapping[str, Ints]
    is_example: Bools

    def only(self, names: Sequence[str]) -> Concepts:
        """Return some of the concepts."""
        columns = [self.names.index(name) for name in names]
        targets = {
            against: of_all[:, columns] for against, of_all in self.targets.items()
        }
        return replace(self, names=tuple(names), targets=targets)


@dataclass(frozen=True, eq=False)
class InnerScores:
    """The classes and the scores of rows by fits without them, and the fold of each row.

    Scores of different fits have different scales: an order means something within a fold only.
    """

    y: NDArray[Any] = field(default_factory=NO_ROWS.copy)
    scores: Floats = field(default_factory=lambda: np.zeros(0))
    folds: Ints = field(default_factory=NO_ROWS.copy)

    @property
    def precision(self) -> float | None:
        """The mean average precision of the folds with rows of both classes; None without any."""
        precisions = []
        for fold in np.unique(self.folds):
            is_inside = self.folds == fold
            predictions = Predictions.of(self.y[is_inside], self.scores[is_inside])
            if 0 < predictions.y.mean() < 1:
                precisions.append(average_precision(predictions))
        return float(np.mean(precisions)) if precisions else None


@dataclass(frozen=True, eq=False)
class Lessons:
    """One fold: the rows that train and choose, and what is known of all rows.

    Attributes:
        rows: The features of every clip that has some.
        y: The class of each row; -1 for a row of no class.
        train: The numbers of the rows that train; each has a class.
        validation: Those that choose: when to stop, a setting, a store.
        films: The film of each row, "" where films are not known.
        units: The number of what is held out as a whole: the film of each row, or the row.
        is_by_film: Whether whole films are held out.
        may_learn: Whether anything may learn from each row, of whatever class.
        concepts: The concepts of the rows.
        file_folds: The fold of each row in a published file, whose scheme chooses concept vectors.
        sentences: The texts of models that sentences describe, by their paths.
    """

    rows: FeatureRows
    y: NDArray[Any]
    train: Ints
    validation: Ints
    films: Strings
    units: Ints
    is_by_film: bool
    may_learn: Bools
    concepts: Concepts
    file_folds: Ints | None = None
    sentences: Mapping[str, Sentences] = field(default_factory=dict)

    @property
    def training_films(self) -> Strings | None:
        """The film of each training row; None if there is only one film.

        Fits that leave out rows leave out whole films.
        """
        return _several(self.films[self.train])

    @property
    def of_concepts(self) -> Ints:
        """The rows that concept vectors are found on."""
        return np.flatnonzero(self.may_learn & self.concepts.is_example)

    @property
    def groups_of_concepts(self) -> Strings | None:
        """The film of every row; None where vectors may be found without single rows of a film."""
        if not self.is_by_film or _several(self.films[self.of_concepts]) is None:
            return None
        return self.films

    @property
    def key_of_concepts(self) -> Hashable:
        """A key of all that decides which concept vectors are found."""
        digest = hashlib.sha256(self.of_concepts.tobytes())
        if self.file_folds is not None:
            digest.update(self.file_folds.tobytes())
        return digest.digest(), self.is_by_film, self.concepts.names

    def inside(self, train: Ints, hidden: Ints) -> Lessons:
        """Return lessons on fewer rows; nothing learns from the films, or rows, that are hidden.

        The validation rows stay: a fit inside stops on the same ones as the fit around it.
        """
        is_hidden = np.isin(self.units, self.units[hidden])
        return replace(self, train=train, may_learn=self.may_learn & ~is_hidden)

    @property
    def can_validate(self) -> bool:
        """Whether the validation rows have both classes."""
        return len(np.unique(self.y[self.validation])) == 2

    def inner_splits(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield training and other rows: the validation rows, or inner folds of films or rows."""
        if self.can_validate:
            yield self.train, self.validation
            return
        is_positive = self.y[self.train] == 1
        for fold in inner_folds(is_positive, self.training_films, INNER_FOLDS):
            yield self.train[~fold], self.train[fold]

    def inner_scores(self, score: Callable[[Ints, Ints], Floats]) -> InnerScores:
        """Return the scores of all inner splits; none if one of them cannot be fitted.

        Args:
            score: Returns the scores of the second rows by a fit on the first.
        """
        truth = []
        scores = []
        folds = []
        for fold, (train, rows) in enumerate(self.inner_splits()):
            try:
                scores.append(self.rows.tied(rows, score(train, rows)))
            except (
                FixTraining
            ):  # such as a concept that too few rows of the others have
                return InnerScores()
            truth.append(self.y[rows])
            folds.append(np.full(len(rows), fold, dtype=np.intp))
        if not truth:
            return InnerScores()
        return InnerScores(*map(np.concatenate, (truth, scores, folds)))


def check_classes(y: NDArray[Any]) -> None:
    """Raise an error if nothing can be learned from the classes of the training rows."""
    classes = np.unique(y).tolist()
    if not classes:
        raise FixTraining(NOT_TRAINED)
    if len(classes) == 1:
        raise FixTraining(f"{ONE_CLASS}: {classes[0]}")


def _several(films: Strings) -> Strings | None:
    """Return the films of some rows; None if there is only one film."""
    return films if np.any(films != films[:1]) else None


def inner_folds(
    positive: Bools, groups: NDArray[Any] | None, n_folds: int
) -> list[Bools]:
    """Return the validation rows of each inner fold, without folds that have one class only.

    Whole groups stay together; of too few rows or groups there are no folds.
    """
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    n_groups = len(positive) if groups is None else len(np.unique(groups))
    n_positive = int(positive.sum())
    if min(n_groups, n_positive, len(positive) - n_positive) < n_folds:
        return []
    splitter = StratifiedKFold if groups is None else StratifiedGroupKFold
    folds = []
    for train, rows in splitter(n_folds).split(positive, positive, groups):
        if not len(rows):
            return []
        if has_both(positive[rows]) and has_both(positive[train]):
            fold = np.zeros(len(positive), dtype=np.bool_)
            fold[rows] = True
            folds.append(fold)
    return folds


def has_both(positive: Bools) -> bool:
    """Return whether some rows are positive and some are not."""
    return bool(0 < positive.mean() < 1)
