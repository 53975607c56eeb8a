"""Segments of films as slices of a store of windows: ragged, or one vector for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import FixInput
from obygaze_features.core.notebook import short_repr
from obygaze_features.manifest.model import Clip
from obygaze_features.manifest.windows import ROUNDING_S
from obygaze_features.store.format.schema import SPAN_ARRAYS, ArraySpec, RowStatus
from obygaze_features.store.read.index import runs_of

if TYPE_CHECKING:
    from obygaze_features.store.read.reader import Store

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
        first, stop = (
            np.searchsorted(centre, at - within_s) for at in (first_s, last_s)
        )
    else:
        first = np.searchsorted(start_s, first_s - within_s, side="left")
        stop = np.searchsorted(end_s, last_s + within_s, side="right")
    return first, np.maximum(first, stop)


def read_segments(
    store: Store,
    segments: Iterable[Clip],
    level: str,
    rule: Rule,
    reduce: Reducer | None,
) -> Segments:
    """Return the windows of each segment, as `Store.segments` does."""
    grid = store.recipe.to_json().get("sampling", {}).get("grid")
    if grid is None:
        what = "this store has features of clips, not of windows"
        raise FixInput(what, where=store.location, hint="obygaze manifest windows")
    for name, value, known in (
        ("rule", rule, RULES),
        ("reduce", reduce or "max", REDUCERS),
    ):
        if value not in known:
            raise FixInput(f"{name} must be one of {', '.join(known)}, got {value!r}")
    spec = store.plan.array(level)
    clips = list(segments)
    films = np.array([clip.movie_id for clip in clips], dtype=np.str_)
    spans = np.array([(c.start_s, c.end_s) for c in clips], dtype=np.float64).reshape(
        -1, 2
    )
    reasons = {
        c.clip_id: NO_TIMES for c in clips if c.start_s is None or c.end_s is None
    }
    timed = ~np.isnan(spans).any(axis=1)
    found: dict[int, npt.NDArray[Any]] = {}
    counts = np.zeros(len(clips), dtype=np.int64)
    index = store.commits.find_index()
    known_films = runs_of(store.movie_ids) if index is None else index.movies
    for film in np.unique(films).tolist():
        mine = np.flatnonzero((films == film) & timed)
        rows = [np.arange(*run) for run in known_films.get(film, ())]
        missing = RowStatus("missing", message=RULES[rule]) if rows else NO_FILM
        ok, (start_s, end_s) = _present_windows(store, spec, rows)
        within_s = ROUNDING_S
        if len(ok) and grid.get("window") and not grid.get("fps"):
            within_s = (
                PICTURE_SHARE * float(np.median(end_s - start_s)) / grid["window"]
            )
        first_s, last_s = spans[mine].T
        first, stop = slices(start_s, end_s, first_s, last_s, rule, within_s)
        reasons |= {clips[row].clip_id: missing for row in mine[first == stop].tolist()}
        mine, first, stop = (each[first < stop] for each in (mine, first, stop))
        counts[mine] = stop - first
        start = first.min(initial=len(ok))
        values = store.arrays.read(spec, ok[start : stop.max(initial=start)])
        for row, one, after in zip(
            mine.tolist(), first - start, stop - start, strict=True
        ):
            windows = values[one:after]
            found[row] = windows if reduce is None else REDUCERS[reduce](windows)[None]
    present = counts > 0
    order = {
        clip.clip_id: reasons[clip.clip_id] for clip in clips if clip.clip_id in reasons
    }
    ids = np.array([clip.clip_id for clip in clips], dtype=np.str_)[present]
    none = np.empty((0, *spec.tail_shape), dtype=spec.dtype)
    return Segments(
        np.concatenate(
            [none, *(found[row] for row in sorted(found))],
            dtype=spec.dtype,
            casting="unsafe",
        ),
        np.concatenate([[0], np.cumsum(counts[present])]),
        present,
        ids,
        order,
    )


def _present_windows(
    store: Store, spec: ArraySpec, runs: Sequence[Ints]
) -> tuple[Ints, npt.NDArray[Any]]:
    """Return the rows of a film that have features, and the start and end of each."""
    rows = np.concatenate([*runs, np.empty(0, dtype=np.int64)])
    blocks = np.unique(rows // store.plan.block_rows).tolist()
    bad = list(store.commits.not_ok(spec.name, blocks)) if blocks else []
    ok = np.setdiff1d(rows, bad)
    spans = [store.arrays.read(store.plan.array(name), ok) for name in SPAN_ARRAYS]
    return ok, np.array(spans)
