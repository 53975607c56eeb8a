"""Compare two stores: recipes, clips, and how close the numbers of their common clips are."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import Progress, Quiet, count, table
from obygaze_features.core.options import Bar
from obygaze_features.store.format.recipe import RecipeDifference
from obygaze_features.store.format.schema import WORDS, TextTable
from obygaze_features.store.read.reader import Store, open_store

CLIPS_AT_ONCE = 256
SHOWN_CLIPS = 20


@dataclass(frozen=True)
class ArrayDiff:
    """How close one array of two stores is, over the clips that are ok in both.

    Of arrays of times, masks and the like, the cosines are NaN.
    """

    array: str
    n_clips: int
    n_identical: int
    least_cosine: float
    median_cosine: float
    greatest_difference: float
    note: str = ""

    def row(self) -> tuple[object, ...]:
        """Return the cells of this array in a table."""
        difference = f"{self.greatest_difference:.3g}" if self.n_clips else "-"
        return (
            self.array,
            self.n_clips,
            self.n_identical,
            _cosine_text(self.least_cosine),
            _cosine_text(self.median_cosine),
            f"{difference} {self.note}".rstrip(),
        )


def _cosine_text(cosine: float) -> str:
    return "-" if math.isnan(cosine) else f"{cosine:.6f}"


@dataclass
class Diff:
    """The differences of two stores.

    `arrays` are those of only one of them, `formats` has the number formats of arrays of two,
    `films` the films of clips of two, and `states` the states of clips that differ. `made_by` has
    what made the clips of each store; two stores that are the same may differ in it.
    """

    recipe: list[RecipeDifference]
    only_first: list[str]
    only_second: list[str]
    common: list[str]
    states: dict[str, tuple[str, str]]
    films: dict[str, tuple[str, str]]
    arrays: list[str]
    formats: dict[str, tuple[str, str]]
    texts_differ: bool
    made_by: tuple[list[str], list[str]]
    compared: list[ArrayDiff] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Whether recipe, clips, films, states, texts and every number are equal."""
        is_different = (
            self.recipe
            or self.only_first
            or self.only_second
            or self.states
            or self.films
            or self.arrays
            or self.formats
            or self.texts_differ
        )
        if is_different:
            return False
        return all(
            array.n_identical == array.n_clips and not array.note
            for array in self.compared
        )

    def to_json(self) -> dict[str, Any]:
        """Return the differences, and the number of common clips."""
        return {**asdict(self), "common": len(self.common), "same": self.same}

    def __str__(self) -> str:
        if self.same:
            equal = f"the same: recipe, {len(self.common)} clips, every number"
            return "\n".join([equal, *self._made_by_lines()])
        lines = [f"recipe: {difference}" for difference in self.recipe]
        if not lines:
            lines.append("recipe: the same")
        lines.append(
            f"clips: {len(self.common)} in both, {len(self.only_first)} only in the first, "
            f"{len(self.only_second)} only in the second"
        )
        lines += _differing_lines(self.states)
        lines += _differing_lines(self.films)
        lines += [f"{name}: only in one of them" for name in self.arrays]
        for name, (here, there) in self.formats.items():
            lines.append(f"{name}: {here} here, {there} there")
        if self.texts_differ:
            lines.append("texts: not the same")
        lines += self._made_by_lines()
        if self.compared:
            headers = (
                "array",
                "clips",
                "identical",
                "least cosine",
                "median",
                "greatest difference",
            )
            lines.append(table(headers, [array.row() for array in self.compared]))
        return "\n".join(lines)

    def _made_by_lines(self) -> list[str]:
        """Return what made the clips of both stores, if that is not the same."""
        of_first, of_second = self.made_by
        if of_first == of_second:
            return []
        lines = [f"made by, first: {line}" for line in of_first]
        return lines + [f"made by, second: {line}" for line in of_second]


def _differing_lines(differing: Mapping[str, tuple[str, str]]) -> list[str]:
    """Return a line for each of the first clips that differ, and how many more there are."""
    lines = []
    for clip, (here, there) in list(differing.items())[:SHOWN_CLIPS]:
        lines.append(f"  {clip}: {here} here, {there} there")
    n_more = len(differing) - SHOWN_CLIPS
    if n_more > 0:
        lines.append(f"  ... and {n_more} more")
    return lines


def diff_stores(
    first: str | os.PathLike[str] | Store,
    second: str | os.PathLike[str] | Store,
    *,
    progress: Annotated[Progress | None, Bar("compare")] = None,
    workspace: str | os.PathLike[str] | None = None,
) -> Diff:
    """Compare two stores: recipes, clips, films, numbers and their formats.

    Numbers are compared over the clips that are ok in both: of features, the cosine of each clip's
    vector; of times and masks, how many clips are identical. The order of the rows does not matter.

    Args:
        first: A store.
        second: Another store.
        progress: Counts clips, once for each common array.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store diff obygaze12-xclip obygaze12-xclip-bf16
        obygaze store diff stores/a https://example.org/stores/b --json
    """
    first = open_store(first, workspace=workspace)
    second = open_store(second, workspace=workspace)
    first_ids = first.clip_ids.tolist()
    second_ids = second.clip_ids.tolist()
    common, only_first = _split(first_ids, second_ids)
    _, only_second = _split(second_ids, first_ids)
    first_dtypes = _dtypes(first)
    second_dtypes = _dtypes(second)
    common_arrays = [name for name in first_dtypes if name in second_dtypes]
    first_states = _states(first)
    second_states = _states(second)
    diff = Diff(
        recipe=first.recipe.diff(second.recipe),
        only_first=only_first,
        only_second=only_second,
        common=common,
        states=_differing(common, first_states, second_states, "ok"),
        films=_differing(common, _films(first), _films(second)),
        arrays=sorted(first_dtypes.keys() ^ second_dtypes.keys()),
        formats=_differing(common_arrays, first_dtypes, second_dtypes),
        texts_differ=not _same_texts(first.text(), second.text()),
        made_by=(first.commits.made_by().lines(), second.commits.made_by().lines()),
    )
    compared = [
        clip
        for clip in common
        if first_states.get(clip, "ok") == second_states.get(clip, "ok") == "ok"
    ]
    progress = progress or Quiet()
    progress.expect(len(common_arrays) * len(compared))
    for name in common_arrays:
        diff.compared.append(_compare(name, first, second, compared, progress))
    return diff


def _split(clips: Sequence[str], others: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the clips that are among others, and those that are not."""
    known = set(others)
    common = [clip for clip in clips if clip in known]
    only_here = [clip for clip in clips if clip not in known]
    return common, only_here


def _states(store: Store) -> dict[str, str]:
    ids = store.clip_ids
    return {
        str(ids[row]): status.state
        for row, status in store.status().status_of_row.items()
    }


def _films(store: Store) -> dict[str, str]:
    return dict(zip(store.clip_ids.tolist(), store.movie_ids.tolist(), strict=True))


def _dtypes(store: Store) -> dict[str, str]:
    return {spec.name: spec.dtype for spec in store.plan.arrays}


def _differing(
    names: Sequence[str],
    first: Mapping[str, str],
    second: Mapping[str, str],
    usual: str = "",
) -> dict[str, tuple[str, str]]:
    """Return, for each name whose words differ, both words."""
    pairs = {name: (first.get(name, usual), second.get(name, usual)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _same_texts(first: TextTable | None, second: TextTable | None) -> bool:
    if first is None or second is None:
        return first is second
    if first.space_id != second.space_id:
        return False
    if not np.array_equal(first.embeddings, second.embeddings):
        return False
    return all(
        list(getattr(first, name)) == list(getattr(second, name)) for name in WORDS
    )


def _compare(
    name: str, first: Store, second: Store, compared: Sequence[str], progress: Progress
) -> ArrayDiff:
    nan = float("nan")
    spec = first.plan.array(name)
    second_shape = second.plan.array(name).tail_shape
    if spec.tail_shape != second_shape:
        note = f"shapes {spec.tail_shape} and {second_shape}"
        return ArrayDiff(name, 0, 0, nan, nan, nan, note)
    # Of a partial copy, a clip may have other arrays only.
    is_in_first, _ = first.presence(name, compared)
    is_in_second, _ = second.presence(name, compared)
    is_in_both = (is_in_first & is_in_second).tolist()
    clips = [clip for clip, held in zip(compared, is_in_both, strict=True) if held]
    n_absent = len(compared) - len(clips)
    note = ""
    if n_absent:
        note = f"{count(n_absent, 'clip')} not in a partial copy"
    progress.advance(n_absent)
    angles = []
    largest = 0.0
    n_identical = 0
    for start in range(0, len(clips), CLIPS_AT_ONCE):
        part = clips[start : start + CLIPS_AT_ONCE]
        a = first.matrix(name, clips=part).values.reshape(len(part), -1)
        b = second.matrix(name, clips=part).values.reshape(len(part), -1)
        if spec.is_feature_array:
            angles.append(cosines(a, b))
        is_equal = (a == b) | ((a != a) & (b != b))
        n_identical += int(is_equal.all(axis=1).sum())
        largest = max(largest, _greatest_difference(a, b, is_equal))
        progress.advance(len(part))
    every = np.concatenate(angles) if angles else np.array([nan])
    return ArrayDiff(
        name,
        len(clips),
        n_identical,
        float(every.min()),
        float(np.median(every)),
        largest,
        note,
    )


def _greatest_difference(
    a: npt.NDArray[Any], b: npt.NDArray[Any], is_equal: npt.NDArray[np.bool_]
) -> float:
    """Return the greatest difference of two numbers; infinite if only one of them is NaN."""
    if is_equal.all():
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        differences = np.abs(a.astype(np.float64) - b.astype(np.float64))[~is_equal]
    return float(np.nan_to_num(differences, nan=np.inf).max())


def cosines(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the cosine of each row of one array with the same row of another.

    Rows of several vectors count as one long vector. Two rows of zeros are the same: 1.
    """
    left = _scaled(a)
    right = _scaled(b)
    norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    is_equal = (_flat(a) == _flat(b)).all(axis=1)
    products = np.einsum("ij,ij->i", left, right)
    with np.errstate(invalid="ignore", divide="ignore"):
        quotients = products / norms
    of_different = np.where(norms > 0, quotients, 0.0)
    return np.where(is_equal, 1.0, of_different)


def _flat(rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    return np.asarray(rows, dtype=np.float64).reshape(len(rows), -1)


def _scaled(rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return rows whose greatest number is 1, since 1e200 and 1e-200 cannot be squared."""
    flat = _flat(rows)
    greatest = np.abs(flat).max(axis=1, keepdims=True)
    return flat / np.where(greatest > 0, greatest, 1.0)
