"""Segments of films as slices of a store of windows: ragged, or one vector for each."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput, ObygazeWarning
from obygaze_features.core.notebook import short_repr
from obygaze_features.manifest.model import Clip
from obygaze_features.manifest.times import spans_in_films
from obygaze_features.manifest.windows import ROUNDING_S
from obygaze_features.store.decoding import Rows
from obygaze_features.store.readable import ReadableStore

WindowRule = Literal["touch", "centre", "within"]
Reducer = Literal["max", "mean", "first", "last"]
Floats = npt.NDArray[np.float64]

# A border of a segment is at the border of a picture if it is within this share of a picture:
# rates are rounded (23.976), which adds up over a film.
PICTURE_SHARE = 0.25
NO_TIMES = "missing: it has no times"
NO_FILM = "missing: its film has no windows in this store"
NO_WINDOW: Mapping[str, str] = {
    "touch": "missing: no window with features touches it",
    "centre": "missing: no window with features has its centre in it",
    "within": "missing: no window with features lies within it",
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
    offsets: Rows
    present: npt.NDArray[np.bool_]
    clip_ids: npt.NDArray[np.str_]
    reasons: Mapping[str, str]

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
) -> tuple[Rows, Rows]:
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


def read_segments(
    store: ReadableStore,
    segments: Iterable[Clip],
    array: str,
    rule: WindowRule,
    reduce: Reducer | None,
    of_films: Iterable[Clip] = (),
) -> Segments:
    """Return the windows of each segment, as `Store.segments` does."""
    grid = _grid_of(store)
    if rule not in NO_WINDOW:
        raise FixInput(f"rule must be one of {', '.join(NO_WINDOW)}, got {rule!r}")
    if reduce is not None and reduce not in REDUCERS:
        raise FixInput(f"reduce must be one of {', '.join(REDUCERS)}, got {reduce!r}")
    known = store.array(array)
    clips = list(segments)
    span_of_clip = spans_in_films(list(of_films) or clips)
    no_times = (math.nan, math.nan)
    times = [span_of_clip.get(clip.clip_id, no_times) for clip in clips]
    spans = np.array(times, dtype=np.float64).reshape(-1, 2)
    is_timed = [not math.isnan(start + end) for start, end in spans.tolist()]
    places_of_film: dict[str, list[int]] = {}
    reason_of: dict[int, str] = {}
    for place, clip in enumerate(clips):
        if is_timed[place]:
            places_of_film.setdefault(clip.movie_id, []).append(place)
        else:
            reason_of[place] = NO_TIMES
    values_of: dict[int, npt.NDArray[Any]] = {}
    counts = np.zeros(len(clips), dtype=np.int64)
    n_absent = 0
    for film, places in places_of_film.items():
        rows = store.table.rows_of([film])
        if not len(rows):
            reason_of.update(dict.fromkeys(places, NO_FILM))
            continue
        ok = rows[store.is_ok(rows)]
        n_absent += len(rows) - len(ok)
        windows_of = _windows_of_film(
            store, array, ok, spans[places], rule, grid, is_reduced=reduce is not None
        )
        for place, windows in zip(places, windows_of, strict=True):
            counts[place] = len(windows)
            if not len(windows):
                reason_of[place] = NO_WINDOW[rule]
            elif reduce is None:
                values_of[place] = windows
            else:
                values_of[place] = REDUCERS[reduce](windows)[None]
    if n_absent:
        warnings.warn(
            f"{store.location}: {count(n_absent, 'window')} of these films without features;"
            " segments get those of their other windows",
            ObygazeWarning,
            stacklevel=3,
        )
    present = counts > 0
    parts = [np.empty((0, *known.shape), dtype=known.dtype)]
    parts += [values_of[place] for place in sorted(values_of)]
    ids = np.array([clip.clip_id for clip in clips], dtype=np.str_)
    return Segments(
        values=np.concatenate(parts, dtype=known.dtype, casting="unsafe"),
        offsets=np.concatenate([[0], np.cumsum(counts[present])]),
        present=present,
        clip_ids=ids[present],
        reasons={clips[place].clip_id: reason_of[place] for place in sorted(reason_of)},
    )


def _windows_of_film(
    store: ReadableStore,
    array: str,
    ok: Rows,
    spans: Floats,
    rule: WindowRule,
    grid: Mapping[str, Any],
    *,
    is_reduced: bool,
) -> list[npt.NDArray[Any]]:
    """Return the values of the windows of each segment of a film; none where it has no window.

    `ok` are the rows of the film's windows with features. To be reduced, all frames must be real.
    """
    start_s = store.table.numbers("start_s", ok)
    # Rows of a film may be from two stores that were merged in another order.
    in_time = np.argsort(start_s, kind="stable")
    ok = ok[in_time]
    start_s = start_s[in_time]
    end_s = store.table.numbers("end_s", ok)
    first_s, last_s = spans.T
    within_s = _tolerance_s(grid, start_s, end_s)
    first, stop = slices(start_s, end_s, first_s, last_s, rule, within_s)
    has_window = first < stop
    # All windows between the first and the last that a segment has, in one read.
    begin = first[has_window].min(initial=len(ok))
    after = stop[has_window].max(initial=begin)
    values = store.read(array, ok[begin:after])
    is_real = store.real_frames(array, ok[begin:after]) if is_reduced else None
    if is_real is not None and not is_real.all():
        raise FixInput(
            f"{array} has padding where a window has fewer frames, which would count",
            where=store.location,
            hint="an array with one vector a window",
        )
    windows = []
    for number in range(len(spans)):
        if has_window[number]:
            windows.append(values[first[number] - begin : stop[number] - begin])
        else:
            windows.append(values[:0])
    return windows


def _grid_of(store: ReadableStore) -> Mapping[str, Any]:
    """Return the grid of windows in the recipe of a store; an error if it is not of windows."""
    grid: Mapping[str, Any] | None = store.recipe.windows.get("grid")
    if grid is None:
        raise FixInput(
            "the recipe of this store does not say that its rows are windows",
            where=store.location,
            hint="obygaze manifest windows --help",
        )
    return grid


def _tolerance_s(grid: Mapping[str, Any], start_s: Floats, end_s: Floats) -> float:
    """Return how far times of the windows of a film may differ and still be equal."""
    if not len(start_s) or not grid.get("window"):
        return ROUNDING_S
    return PICTURE_SHARE * float(np.median(end_s - start_s)) / float(grid["window"])
