"""Read segments of films from a store of windows: all windows of a segment, or one vector."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput, ObygazeWarning
from obygaze_features.core.notebook import short_repr
from obygaze_features.manifest.model import Clip
from obygaze_features.manifest.times import spans_in_films
from obygaze_features.manifest.windows import ROUNDING_S
from obygaze_features.store.decoding import Rows
from obygaze_features.store.layout import Array
from obygaze_features.store.recipe import Recipe
from obygaze_features.store.table import RowTable

WindowRule = Literal["touch", "centre", "within"]
Reducer = Literal["max", "mean", "first", "last"]
Floats = npt.NDArray[np.float64]

# If a border of a segment is nearer to a border of a picture than this share of a picture, both are
# equal: rounded frame rates (23.976) shift times over a film.
PICTURE_SHARE = 0.25
NO_TIMES = "missing: it has no times"
NO_FILM = "missing: its film has no windows in this store"
NO_WINDOW: Mapping[str, str] = {
    "touch": "missing: no window with features touches it",
    "centre": "missing: no window with features has its centre in it",
    "within": "missing: no window with features lies within it",
}
# Each function reduces the windows of a segment, of which there is at least one.
REDUCERS: Mapping[str, Callable[[npt.NDArray[Any]], npt.NDArray[Any]]] = {
    "max": lambda windows: windows.max(axis=0),
    "mean": lambda windows: windows.mean(axis=0, dtype=np.float64),
    "first": lambda windows: windows[0],
    "last": lambda windows: windows[-1],
}


class StoreOfWindows(Protocol):
    """The methods of `Store` that this module uses.

    The class `Store` cannot be imported here, because its module imports this module.
    """

    table: RowTable

    @property
    def location(self) -> str:
        """The location."""

    @property
    def recipe(self) -> Recipe:
        """The recipe."""

    def array(self, name: str) -> Array:
        """Return an array by its name."""

    def read(self, array: str, rows: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the values of rows."""

    def is_ok(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return for each row whether it has features."""

    def real_frames(self, array: str, rows: Rows) -> npt.NDArray[np.bool_] | None:
        """Return which frames of rows are not padding."""


@dataclass(frozen=True, eq=False)
class Segments:
    """The windows of segments, in the order of the segments.

    `present` states for each requested segment whether it has a window. `clip_ids` has the ids of
    the segments with a window, and `reasons` has, by id, why each other segment has none. The
    windows of the segment `clip_ids[i]` are `values[offsets[i]:offsets[i + 1]]`. If the windows
    were reduced to one vector for each segment, `values[i]` is the vector of `clip_ids[i]`, and the
    offsets still count the windows.
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


def windows_of_segments(
    start_s: Floats,
    end_s: Floats,
    first_s: Floats,
    last_s: Floats,
    rule: str,
    within_s: float,
) -> npt.NDArray[np.bool_]:
    """Return whether each window belongs to each segment, as an array [segment, window].

    Args:
        start_s: The start of each window, in seconds.
        end_s: The end of each window, in seconds.
        first_s: The start of each segment, in seconds.
        last_s: The end of each segment, in seconds.
        rule: `touch`: windows that share a picture with the segment; `centre`: windows whose centre
            is in the segment; `within`: windows that lie completely in the segment.
        within_s: The difference up to which two times count as equal, in seconds.
    """
    first_s = first_s[:, np.newaxis]
    last_s = last_s[:, np.newaxis]
    if rule == "touch":
        # A segment shorter than a picture touches the window that contains it, also at a border.
        margin_s = np.minimum(within_s, (last_s - first_s) / 4)
        return np.asarray((end_s > first_s + margin_s) & (start_s < last_s - margin_s))
    if rule == "centre":
        start_s = end_s = (start_s + end_s) / 2
        return np.asarray((start_s >= first_s - within_s) & (end_s < last_s - within_s))
    return np.asarray((start_s >= first_s - within_s) & (end_s <= last_s + within_s))


def read_segments(
    store: StoreOfWindows,
    segments: Iterable[Clip],
    array: str,
    rule: WindowRule,
    reduce: Reducer | None,
    of_films: Iterable[Clip] = (),
) -> Segments:
    """Return the windows of each segment, as `Store.segments` does."""
    grid = _find_grid(store)
    if rule not in NO_WINDOW:
        raise FixInput(f"rule must be one of {', '.join(NO_WINDOW)}, got {rule!r}")
    if reduce is not None and reduce not in REDUCERS:
        raise FixInput(f"reduce must be one of {', '.join(REDUCERS)}, got {reduce!r}")
    known = store.array(array)
    clips = list(segments)
    span_of_clip = spans_in_films(list(of_films) or clips)
    reasons: dict[str, str] = {}
    places_of_film: dict[str, list[int]] = {}
    for place, clip in enumerate(clips):
        start_s, end_s = span_of_clip.get(clip.clip_id, (math.nan, math.nan))
        if math.isnan(start_s + end_s):
            reasons[clip.clip_id] = NO_TIMES
        else:
            places_of_film.setdefault(clip.movie_id, []).append(place)
    values_of = [np.empty((0, *known.shape), dtype=known.dtype)] * len(clips)
    counts = np.zeros(len(clips), dtype=np.int64)
    n_absent = 0
    for film, places in places_of_film.items():
        rows = store.table.rows_of([film])
        if not len(rows):
            reasons |= dict.fromkeys(
                [clips[place].clip_id for place in places], NO_FILM
            )
            continue
        ok = rows[store.is_ok(rows)]
        n_absent += len(rows) - len(ok)
        spans = np.array([span_of_clip[clips[place].clip_id] for place in places])
        windows_of = _read_windows(
            store, array, ok, spans, rule, grid, is_reduced=reduce is not None
        )
        for place, windows in zip(places, windows_of, strict=True):
            counts[place] = len(windows)
            if not len(windows):
                reasons[clips[place].clip_id] = NO_WINDOW[rule]
            elif reduce is not None:
                windows = REDUCERS[reduce](windows)[None]
            values_of[place] = windows
    if n_absent:
        warnings.warn(
            f"{store.location}: {count(n_absent, 'window')} of these films without features;"
            " segments get the features of their other windows",
            ObygazeWarning,
            stacklevel=3,
        )
    present = counts > 0
    ids = np.array([clip.clip_id for clip in clips], dtype=np.str_)
    no_values = np.empty((0, *known.shape), dtype=known.dtype)
    # A mean of whole numbers is a float64.
    dtype = known.dtype if known.is_float else None
    return Segments(
        values=np.concatenate([no_values, *values_of], dtype=dtype, casting="unsafe"),
        offsets=np.concatenate([[0], np.cumsum(counts[present])]),
        present=present,
        clip_ids=ids[present],
        reasons={clip: reasons[clip] for clip in ids[~present].tolist()},
    )


def _read_windows(
    store: StoreOfWindows,
    array: str,
    ok: Rows,
    spans: Floats,
    rule: WindowRule,
    grid: Mapping[str, Any],
    *,
    is_reduced: bool,
) -> list[npt.NDArray[Any]]:
    """Return the values of the windows of each segment of a film.

    `ok` has the numbers of those rows of the film that have features. `spans` has the start and the
    end of each segment. If the windows of a segment are reduced to one vector, raise an error if a
    window has frames that are padding.
    """
    start_s = store.table.numbers("start_s", ok)
    # A merge of two stores may have put the rows of a film in a different order.
    in_time = np.argsort(start_s, kind="stable")
    ok = ok[in_time]
    start_s = start_s[in_time]
    end_s = store.table.numbers("end_s", ok)
    within_s = _tolerance_s(grid, start_s, end_s)
    first_s, last_s = spans.T
    has_window = windows_of_segments(start_s, end_s, first_s, last_s, rule, within_s)
    is_read = has_window.any(axis=0)
    values = store.read(array, ok[is_read])
    is_real = store.real_frames(array, ok[is_read]) if is_reduced else None
    if is_real is not None and not is_real.all():
        raise FixInput(
            f"{array} has windows with padding, which would count as frames",
            where=store.location,
            hint="use an array with one vector per window",
        )
    return [values[of_segment] for of_segment in has_window[:, is_read]]


def _find_grid(store: StoreOfWindows) -> Mapping[str, Any]:
    """Return the grid of windows of a store; raise an error if it has no windows."""
    grid: Mapping[str, Any] | None = store.recipe.windows.get("grid")
    if grid is None:
        raise FixInput(
            "expected a store of windows, got a store of clips",
            where=store.location,
            hint="cut the films with obygaze manifest windows, and extract the windows",
        )
    return grid


def _tolerance_s(grid: Mapping[str, Any], start_s: Floats, end_s: Floats) -> float:
    """Return the difference up to which two times in a film count as equal, in seconds."""
    if not len(start_s) or not grid.get("window"):
        return ROUNDING_S
    return PICTURE_SHARE * float(np.median(end_s - start_s)) / float(grid["window"])
