"""Segments of films as slices of a store of windows: ragged, or one vector for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import FixInput
from obygaze_features.core.notebook import short_repr
from obygaze_features.manifest.model import Clip
from obygaze_features.manifest.windows import ROUNDING_S
from obygaze_features.store.format.records import Plan
from obygaze_features.store.format.schema import SPAN_ARRAYS, ArraySpec, RowStatus
from obygaze_features.store.read.arrays import Arrays
from obygaze_features.store.read.commits import Commits
from obygaze_features.store.read.index import runs_of

Rule = Literal["touch", "centre", "within"]
Reducer = Literal["max", "mean", "first", "last"]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# A border of a segment is at the border of a picture if it is within this share of a picture:
# rates are rounded (23.976), which adds up over a film.
PICTURE_SHARE = 0.25
NO_TIMES = RowStatus("missing", message="it has no times")
NO_FILM = RowStatus("missing", message="its film has no windows in this store")
RULES: Mapping[str, str] = {
    "touch": "no window of the store touches it",
    "centre": "no window of the store has its centre in it",
    "within": "no window of the store lies within it",
}
REDUCERS: Mapping[str, Callable[[npt.NDArray[Any]], npt.NDArray[Any]]] = {
    "max": lambda windows: windows.max(axis=0),
    "mean": lambda windows: windows.mean(axis=0, dtype=np.float64),
    "first": lambda windows: windows[0],
    "last": lambda windows: windows[-1],
}


@dataclass(frozen=True, eq=False)
class Segments:
    """The windows of segments, in the order of the segments.

    `clip_ids` are the segments that have a window, `present` tells for each requested one whether
    it has, and `reasons` why not. The windows of segment i are `values[offsets[i]:offsets[i + 1]]`;
    if they are reduced, `values[i]` is its vector, and the offsets still count its windows.
    """

    values: npt.NDArray[Any]
    offsets: Ints
    present: npt.NDArray[np.bool_]
    clip_ids: npt.NDArray[np.str_]
    reasons: Mapping[str, RowStatus]

    def __len__(self) -> int:
        return len(self.clip_ids)

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.values.shape))
        return short_repr(
            "Segments", str(len(self)), shape, f"{len(self.reasons)} missing"
        )


def slices(
    start_s: Floats,
    end_s: Floats,
    first_s: Floats,
    last_s: Floats,
    rule: str,
    within_s: float | Floats,
) -> tuple[Ints, Ints]:
    """Return the first window of each segment, and the one after its last.

    Args:
        start_s: The start of each window, ascending.
        end_s: The end of each window, ascending.
        first_s: The start of each segment.
        last_s: The end of each segment.
        rule: `touch`: windows that share a picture with the segment; `centre`: those whose centre
            is in it; `within`: those that are wholly in it.
        within_s: Times that differ by less than this are equal.
    """
    if rule == "touch":
        # A segment shorter than a picture touches the window that it is in, also at its border.
        within_s = np.minimum(within_s, (last_s - first_s) / 4)
        first = np.searchsorted(end_s, first_s + within_s, side="right")
        stop = np.searchsorted(start_s, last_s - within_s, side="left")
    elif rule == "centre":
        centre = (start_s + end_s) / 2
        first = np.searchsorted(centre, first_s - within_s)
        stop = np.searchsorted(centre, last_s - within_s)
    else:
        first = np.searchsorted(start_s, first_s - within_s, side="left")
        stop = np.searchsorted(end_s, last_s + within_s, side="right")
    return first, np.maximum(first, stop)


class WindowStore(Protocol):
    """What is needed of a store of windows."""

    plan: Plan
    commits: Commits
    arrays: Arrays

    @property
    def movie_ids(self) -> npt.NDArray[np.str_]:
        """The film of each row."""


def read_segments(
    store: WindowStore,
    segments: Iterable[Clip],
    array: str,
    rule: Rule,
    reduce: Reducer | None,
) -> Segments:
    """Return the windows of each segment, as `Store.segments` does."""
    grid = _grid_of(store)
    _check_names(rule, reduce)
    spec = store.plan.array(array)
    clips = list(segments)
    films = np.array([clip.movie_id for clip in clips], dtype=np.str_)
    spans = _spans_of(clips)
    is_timed = ~np.isnan(spans).any(axis=1)
    untimed = np.flatnonzero(~is_timed).tolist()
    reason_of: dict[int, RowStatus] = dict.fromkeys(untimed, NO_TIMES)
    values_of: dict[int, npt.NDArray[Any]] = {}
    counts = np.zeros(len(clips), dtype=np.int64)
    runs_of_film = _film_runs(store)
    for film in np.unique(films).tolist():
        of_film = np.flatnonzero((films == film) & is_timed)
        runs = [np.arange(*run) for run in runs_of_film.get(film, ())]
        missing = RowStatus("missing", message=RULES[rule]) if runs else NO_FILM
        windows_of = _windows_of_film(store, spec, runs, spans[of_film], rule, grid)
        for index, windows in zip(of_film.tolist(), windows_of, strict=True):
            counts[index] = len(windows)
            if not len(windows):
                reason_of[index] = missing
            elif reduce is None:
                values_of[index] = windows
            else:
                values_of[index] = REDUCERS[reduce](windows)[None]
    present = counts > 0
    parts = [np.empty((0, *spec.tail_shape), dtype=spec.dtype)]
    parts += [values_of[index] for index in sorted(values_of)]
    ids = np.array([clip.clip_id for clip in clips], dtype=np.str_)
    return Segments(
        values=np.concatenate(parts, dtype=spec.dtype, casting="unsafe"),
        offsets=np.concatenate([[0], np.cumsum(counts[present])]),
        present=present,
        clip_ids=ids[present],
        reasons={clips[index].clip_id: reason_of[index] for index in sorted(reason_of)},
    )


def _spans_of(clips: Sequence[Clip]) -> Floats:
    """Return the start and the end of each segment; NaN where it has none."""
    times = [(clip.start_s, clip.end_s) for clip in clips]
    return np.array(times, dtype=np.float64).reshape(-1, 2)


def _windows_of_film(
    store: WindowStore,
    spec: ArraySpec,
    runs: Sequence[Ints],
    spans: Floats,
    rule: Rule,
    grid: Mapping[str, Any],
) -> list[npt.NDArray[Any]]:
    """Return the values of the windows of each segment of a film; none where it has no window."""
    ok, (start_s, end_s) = _present_windows(store, spec, runs)
    first_s, last_s = spans.T
    within_s = _tolerance_s(grid, start_s, end_s)
    first, stop = slices(start_s, end_s, first_s, last_s, rule, within_s)
    stop = np.maximum(first, stop)
    has_window = first < stop
    # All windows between the first and the last that a segment has, in one read.
    begin = first[has_window].min(initial=len(ok))
    after = stop[has_window].max(initial=begin)
    values = store.arrays.read(spec, ok[begin:after])
    windows = []
    for number in range(len(spans)):
        if has_window[number]:
            windows.append(values[first[number] - begin : stop[number] - begin])
        else:
            windows.append(values[:0])
    return windows


def _grid_of(store: WindowStore) -> Mapping[str, Any]:
    """Return the grid of windows in the recipe of a store; an error if it is not of windows."""
    grid: Mapping[str, Any] | None = (
        store.plan.recipe.to_json().get("sampling", {}).get("grid")
    )
    if grid is None:
        raise FixInput(
            "this store has features of clips, not of windows",
            where=store.arrays.files.location,
            hint="obygaze manifest windows",
        )
    return grid


def _check_names(rule: str, reduce: str | None) -> None:
    """Raise an error for an unknown rule or reducer."""
    if rule not in RULES:
        raise FixInput(f"rule must be one of {', '.join(RULES)}, got {rule!r}")
    if reduce is not None and reduce not in REDUCERS:
        raise FixInput(f"reduce must be one of {', '.join(REDUCERS)}, got {reduce!r}")


def _film_runs(store: WindowStore) -> Mapping[str, Sequence[tuple[int, int]]]:
    """Return the runs of rows of each film, from the index where the store has one."""
    index = store.commits.find_index()
    if index is None:
        return runs_of(store.movie_ids)
    return index.films


def _tolerance_s(grid: Mapping[str, Any], start_s: Floats, end_s: Floats) -> float:
    """Return how far times of the windows of a film may differ and still be equal."""
    if not len(start_s) or not grid.get("window") or grid.get("fps"):
        return ROUNDING_S
    return PICTURE_SHARE * float(np.median(end_s - start_s)) / float(grid["window"])


def _present_windows(
    store: WindowStore, spec: ArraySpec, runs: Sequence[Ints]
) -> tuple[Ints, npt.NDArray[Any]]:
    """Return the rows of a film that have features, and the start and end of each."""
    rows = np.concatenate([*runs, np.empty(0, dtype=np.int64)])
    blocks = np.unique(rows // store.plan.block_rows).tolist()
    bad = list(store.commits.not_ok(spec.name, blocks)) if blocks else []
    ok = np.setdiff1d(rows, bad)
    spans = [store.arrays.read(store.plan.array(name), ok) for name in SPAN_ARRAYS]
    return ok, np.array(spans)
