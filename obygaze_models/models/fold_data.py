"""The data of a fit: rows of features, their classes, films and concepts, and the rows that train.

`FeatureRows` are the features of a store. `FoldData` states for one fold which rows train, on which
rows settings are chosen, and which rows no fit may use. A fit is `fitting.fit(estimator, data)`.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from obygaze_models.models.common import Bools, FixTraining, Floats, Ints, Strings

if TYPE_CHECKING:
    from obygaze_models.text_vectors import (
        Sentences,
    )

INNER_FOLDS = 3
MOST_BYTES = 256_000_000
MOST_RESULTS = 64
ONE_CLASS = "all clips to train on have one label"
NOT_TRAINED = "no clip is left to train on"


class Memo:
    """A cache of results in memory, with the method `cache` of `joblib.Memory`.

    It drops the least recently used results. The newest result is kept whatever its size.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self._known: OrderedDict[bytes, Any] = OrderedDict()

    @property
    def n_bytes(self) -> int:
        """Bytes of the cached results."""
        return sum(map(_n_bytes, self._known.values()))

    def cache(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its results remembered by its arguments."""

        def remembered(*arguments: Any) -> Any:
            key = digest_of(function.__qualname__, *arguments)
            if key not in self._known:
                self._known[key] = function(*arguments)
            self._known.move_to_end(key)
            while len(self._known) > 1 and self._is_full:
                self._known.popitem(last=False)
            return self._known[key]

        return remembered

    @property
    def _is_full(self) -> bool:
        return len(self._known) > MOST_RESULTS or self.n_bytes > self.most_bytes

    def __deepcopy__(self, _: Any) -> Memo:
        return self


def _n_bytes(result: Any) -> int:
    """Return the size of a result: an array, an object with `n_bytes`, or a tuple of these."""
    if isinstance(result, tuple):
        return sum(map(_n_bytes, result))
    return int(result.nbytes if isinstance(result, np.ndarray) else result.n_bytes)


def digest_of(*arguments: Any) -> bytes:
    """Return a hash of arguments: arrays by their bytes, others by their representation."""
    digest = hashlib.blake2b()
    for value in arguments:
        if isinstance(value, np.ndarray) and value.dtype.kind != "O":
            digest.update(f"{value.dtype} {value.shape}".encode())
            digest.update(value.tobytes())
        else:
            plain = value.tolist() if isinstance(value, np.ndarray) else value
            digest.update(repr(plain).encode())
    return digest.digest()


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """The features that many fits read.

    Attributes:
        X: One vector per row, or the frames or tokens of the row.
        equal: A number per row, the same for equal rows; None if rows were not compared.
    """

    X: Any
    equal: Ints | None = None

    def equalize(self, rows: Ints, scores: Floats) -> Floats:
        """Return scores in which equal rows have equal scores.

        A matrix product rounds equal rows differently, depending on their position.
        """
        if self.equal is None:
            return scores
        _, first, group = np.unique(
            self.equal[rows], return_index=True, return_inverse=True
        )
        return scores[first][group]


@dataclass(frozen=True, eq=False)
class Concepts:
    """The concepts of each row.

    Attributes:
        names: The names of the concepts.
        targets: For each choice of negatives (`examples.Against`), an array with a column per
            concept: 1 for a positive example, 0 for a negative one, -1 for a row that is not used.
        is_example: Whether each row may be an example: rows with a level.
    """

    names: tuple[str, ...]
    targets: Mapping[str, Ints]
    is_example: Bools

    def only(self, names: Sequence[str]) -> Concepts:
        """Return the named concepts."""
        columns = [self.names.index(name) for name in names]
        targets = {
            against: of_all[:, columns] for against, of_all in self.targets.items()
        }
        return replace(self, names=tuple(names), targets=targets)


@dataclass(frozen=True, eq=False)
class FoldData:
    """The data of one fold: training and validation rows, and the facts of all rows.

    Attributes:
        rows: The features of all clips that have features.
        y: The class of each row; -1 for a row without a class.
        train: Indices of the training rows; each has a class.
        validation: Indices of the rows on which an epoch or a setting is chosen.
        films: The film of each row; "" if films are unknown.
        units: For each row, the number of the unit that is held out as a whole: the film of the
            row, or the row alone.
        is_by_film: Whether whole films are held out.
        may_learn: Whether a fit may use each row; a row without a class may also be used.
        concepts: The concepts of the rows.
        file_folds: The fold of each row in a published file, if a published scheme makes the splits
            and concept vectors are chosen over these folds. None: there is no such scheme.
        sentences: The sentences of zero-shot models, by the path of their file.
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
        """The film of each training row, or None if there is only one film.

        Inner folds hold out whole films.
        """
        return _several(self.films[self.train])

    @property
    def concept_rows(self) -> Ints:
        """Indices of the rows that concept vectors are fitted on."""
        return np.flatnonzero(self.may_learn & self.concepts.is_example)

    @property
    def concept_groups(self) -> Strings | None:
        """The film of every row, or None if cross-fitting may split a film."""
        if not self.is_by_film or _several(self.films[self.concept_rows]) is None:
            return None
        return self.films

    def inside(self, train: Ints, hidden: Ints) -> FoldData:
        """Return the data of an inner fit on `train`; it may not use the films or rows of `hidden`.

        The validation rows stay the same: the inner and the outer fit stop early on the same rows.
        """
        is_hidden = np.isin(self.units, self.units[hidden])
        return replace(self, train=train, may_learn=self.may_learn & ~is_hidden)

    @property
    def can_validate(self) -> bool:
        """Whether the validation rows have both classes."""
        return len(np.unique(self.y[self.validation])) == 2

    def inner_splits(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield training rows and held-out rows.

        If the validation rows have both classes, they are held out. If not, inner folds of films or
        rows are held out in turn.
        """
        if self.can_validate:
            yield self.train, self.validation
            return
        is_positive = self.y[self.train] == 1
        for fold in inner_folds(is_positive, self.training_films, INNER_FOLDS):
            yield self.train[~fold], self.train[fold]


def check_classes(y: NDArray[Any]) -> None:
    """Raise an error unless the training rows have two classes."""
    classes = np.unique(y).tolist()
    if not classes:
        raise FixTraining(NOT_TRAINED)
    if len(classes) == 1:
        raise FixTraining(f"{ONE_CLASS}: {classes[0]}")


def _several(films: Strings) -> Strings | None:
    """Return the films of some rows, or None if there is only one film."""
    return films if np.any(films != films[:1]) else None


def inner_folds(
    positive: Bools, groups: NDArray[Any] | None, n_folds: int
) -> list[Bools]:
    """Return for each inner fold which rows validate; folds of one class are excluded.

    A fold contains whole groups. With too few rows or groups, there are no folds.
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
        if has_both_classes(positive[rows]) and has_both_classes(positive[train]):
            fold = np.zeros(len(positive), dtype=np.bool_)
            fold[rows] = True
            folds.append(fold)
    return folds


def has_both_classes(positive: Bools) -> bool:
    """Return whether both classes occur."""
    return bool(0 < positive.mean() < 1)
