"""Which clips of two tables are the same? No other module compares films, times or videos of clips.

Rows are matched by their ids. Only what both tables state is compared:

- the film, as text;
- the frames and the frame rate, if both tables count frames. Times are not asked then: another copy
  of the film may have other times;
- else the times in the film. Frames at a frame rate stand for times only where no stated times can
  be compared;
- the times in the file, which decide where neither frames nor times in the film were compared;
- the video, by its hash if both tables know it, else by its length.

A door is a place of the program where two tables of clips meet. It decides which differences it
refuses.
"""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import count
from obygaze_features.core.errors import Mismatch, ObygazeWarning
from obygaze_features.manifest.clip_table import (
    FILE_TIMES,
    FRAME_COLUMNS,
    ClipTable,
    Flags,
    Floats,
    Places,
    find_rows,
)
from obygaze_features.manifest.spans import (
    FRAMES,
    MILLISECOND_S,
    RATE_COLUMN,
)

# What may differ, as bits.
FILM = 1 << 0
FRAME_RATE = 1 << 1
FRAME_NUMBERS = 1 << 2
# The times in the film.
TIMES = 1 << 3
# The times in the file.
PLACE = 1 << 4
# One clip is a whole file, or begins or ends with it; the other does not.
OPEN = 1 << 5
VIDEO = 1 << 6
# Only one of the tables states the film.
ONE_FILM = 1 << 7

SHOWN = 3
# Equal frame rates differ by at most this share of their value.
RATE_SHARE = 1e-4

Bits = npt.NDArray[np.uint8]


class Door(NamedTuple):
    """What is refused where two tables of clips meet.

    Attributes:
        refused: The differences that are refused.
        instead_of_place: If one of these was compared, PLACE and OPEN are not refused.
    """

    refused: int
    instead_of_place: int


_SAME_SPAN = FILM | FRAME_RATE | FRAME_NUMBERS | TIMES | PLACE
# Both are the same part of a film, from whatever copy of the film.
SAME_CLIP = Door(_SAME_SPAN, FRAME_NUMBERS | TIMES)
# Both are the same pictures, such as those of a store that grows.
SAME_PICTURES = Door(_SAME_SPAN | OPEN | VIDEO | ONE_FILM, FRAME_NUMBERS)
# Both are read in the same way: a filling reads clips at the times of its plan.
SAME_PLAN = Door(_SAME_SPAN | OPEN | VIDEO | ONE_FILM, 0)


@dataclass(frozen=True, eq=False)
class Sameness:
    """The comparison of the clips of a table with the clips of a second table.

    Attributes:
        ours: The first table.
        theirs: For each clip of the first table, the clip of the second table with the same id; any
            clip if there is none.
        places: The row of each clip in the second table; -1 if it has no clip of this id.
        compared: For each clip the bits of what both tables state.
        differs: For each clip the bits of what differs.
    """

    ours: ClipTable
    theirs: ClipTable
    places: Places
    compared: Bits
    differs: Bits

    def refused(self, door: Door = SAME_CLIP) -> Bits:
        """Return for each clip the bits that a door refuses; 0: nothing."""
        without_place = door.refused & ~(PLACE | OPEN)
        is_compared = (self.compared & door.instead_of_place) > 0
        return self.differs & np.where(is_compared, without_place, door.refused).astype(
            np.uint8
        )

    @property
    def places_of_same(self) -> Places:
        """The row of each clip in the second table; -1 also for a clip that differs."""
        return np.where(self.refused() > 0, -1, self.places)

    @property
    def n_by_ids(self) -> int:
        """The number of clips that are matched by their ids only: no common fact is stated."""
        known = self.compared & (FILM | FRAME_NUMBERS | TIMES | PLACE)
        return int(((self.places >= 0) & (known == 0)).sum())

    def require(
        self,
        names: tuple[str, str],
        *,
        where: str = "",
        hint: str = "give the clips of one of them different ids",
        tell: bool = True,
    ) -> None:
        """Raise an error if clips of the same id differ; warn of clips matched by id only.

        Args:
            names: The names of the tables: `the manifest films`, `the store clip`.
            where: The place in the error and in the warning.
            hint: The hint of the error.
            tell: Whether to warn. A caller that says it in another way passes False.
        """
        bits = self.refused()
        differ = np.flatnonzero(bits).tolist()
        if differ:
            examples = []
            for place in differ[:SHOWN]:
                name = str(self.ours.clip_ids[place])
                ours, theirs = self.words(place, int(bits[place]))
                examples.append(f"{name!r} is {ours}, not {theirs}")
            differs, ids = ("differs", "id") if len(differ) == 1 else ("differ", "ids")
            raise Mismatch(
                f"{count(len(differ), 'clip')} of {names[0]} {differs} from {names[1]} under the"
                f" same {ids}: {'; '.join(examples)}",
                where=where,
                hint=hint,
            )
        if tell and self.n_by_ids:
            prefix = f"{where}: " if where else ""
            warnings.warn(
                f"{prefix}{count(self.n_by_ids, 'clip')} of {names[0]} and {names[1]} matched by id"
                " only; no film or time confirms that they are the same clips",
                ObygazeWarning,
                stacklevel=3,
            )

    def change(self, place: int, bits: int) -> str:
        """Return how a clip of the first table was changed in the second."""
        was, now = self.words(place, bits)
        return f"was {was}, is now {now}"

    def words(self, place: int, bits: int) -> tuple[str, str]:
        """Return what both tables state of the first fact of a clip that differs."""
        ours, theirs = self.ours.some(_row(place)), self.theirs.some(_row(place))
        if bits & (FILM | ONE_FILM):
            films = [str(one.movie_ids[0]) for one in (ours, theirs)]
            shown = [
                f"of the film {film!r}" if film else "of no film" for film in films
            ]
            if films[0] != films[1] and films[0].casefold() == films[1].casefold():
                return shown[0], f"{films[1]!r} (only the case differs)"
            return shown[0], shown[1].removeprefix("of the film ") if all(
                films
            ) else shown[1]
        if bits & (FRAME_RATE | FRAME_NUMBERS):
            return _frame_words(ours), _frame_words(theirs)
        if bits & TIMES:
            times = _film_times(ours, theirs)
            return _time_words(times.ours), _time_words(times.theirs)
        if bits & (PLACE | OPEN):
            return _file_words(ours), _file_words(theirs)
        return _video_words(ours, theirs)


def same_clips(
    ours: ClipTable, theirs: ClipTable, places: Places | None = None
) -> Sameness:
    """Compare the clips of a table with the clips of the same ids in a second table.

    This never raises an error; `Sameness.require` does.

    Args:
        ours: A table. Several rows may have one id.
        theirs: The second table. Its ids are unique, unless `places` is given.
        places: The row of each clip in the second table, if it is known; -1: it has none.
    """
    if places is None:
        places = find_rows(ours.clip_ids, theirs.clip_ids)
    # Row -1 is any row: nothing is compared there.
    there = theirs.some(places) if len(theirs) else ours
    compared = np.zeros(len(ours), np.uint8)
    differs = np.zeros(len(ours), np.uint8)
    is_in_both = places >= 0

    def note(bit: int, is_known: Flags, is_apart: Flags) -> None:
        compared[is_in_both & is_known] |= bit
        differs[is_in_both & is_known & is_apart] |= bit

    have_films = ours.movie_ids != "", there.movie_ids != ""
    note(FILM, have_films[0] & have_films[1], ours.movie_ids != there.movie_ids)
    note(ONE_FILM, have_films[0] | have_films[1], have_films[0] != have_films[1])

    both_count = ours.have_frames & there.have_frames
    numbers = _gaps(_columns(ours, FRAMES), _columns(there, FRAMES))
    note(FRAME_NUMBERS, both_count, _any_above(numbers, 0))
    rate = there.column(RATE_COLUMN)
    rates = _gaps([ours.column(RATE_COLUMN)], [rate])
    is_other_rate = _any_above(rates, RATE_SHARE * rate)
    note(FRAME_RATE, both_count & _any_known(rates), is_other_rate)

    times = _film_times(ours, there)
    note(TIMES, times.is_known & ~both_count, times.is_apart)

    in_file = _columns(ours, FILE_TIMES), _columns(there, FILE_TIMES)
    gaps = _gaps(*in_file)
    note(PLACE, _any_known(gaps), _any_above(gaps, MILLISECOND_S))
    is_open = [np.isnan(a) != np.isnan(b) for a, b in zip(*in_file, strict=True)]
    note(OPEN, np.ones(len(ours), np.bool_), is_open[0] | is_open[1])

    lengths = _gaps(_columns(ours, ("video_bytes",)), _columns(there, ("video_bytes",)))
    hashes = ours.column("video_hash"), there.column("video_hash")
    have_hashes = (hashes[0] != "") & (hashes[1] != "")
    is_other = np.where(have_hashes, hashes[0] != hashes[1], _any_above(lengths, 0))
    note(VIDEO, have_hashes | _any_known(lengths), is_other.astype(np.bool_))
    return Sameness(ours, there, places, compared, differs)


# --- Numbers of two tables, side by side ---


def _row(place: int) -> Places:
    return np.array([place], dtype=np.int64)


def _columns(clips: ClipTable, names: Iterable[str]) -> list[Floats]:
    return [clips.column(name) for name in names]


def _gaps(ours: Sequence[Floats], theirs: Sequence[Floats]) -> list[Floats]:
    """Return how far the numbers of each column are apart; NaN if one of them is not stated."""
    return [np.abs(a - b) for a, b in zip(ours, theirs, strict=True)]


def _any_known(gaps: Sequence[Floats]) -> Flags:
    return np.asarray(np.logical_or.reduce([~np.isnan(gap) for gap in gaps]))


def _any_above(gaps: Sequence[Floats], most: float | Floats) -> Flags:
    # A comparison with NaN is false.
    return np.asarray(np.logical_or.reduce([gap > most for gap in gaps]))


class _FilmTimes(NamedTuple):
    """Start and end in the film of the clips of two tables, and their comparison."""

    ours: Sequence[Floats]
    theirs: Sequence[Floats]
    is_known: Flags
    is_apart: Flags


def _film_times(ours: ClipTable, theirs: ClipTable) -> _FilmTimes:
    """Compare the times in the film.

    A clip that states one pair of times does not say whether it is the pair in the film. It differs
    from a clip that states both pairs only if it differs from both.
    """
    times: tuple[Sequence[Floats], Sequence[Floats]] = ours.times, theirs.times
    gaps = _gaps(*times)
    is_known = _any_known(gaps)
    is_apart = _any_above(gaps, MILLISECOND_S)
    in_file = _gaps(_columns(ours, FILE_TIMES), _columns(theirs, FILE_TIMES))
    is_same_place = _any_known(in_file) & ~_any_above(in_file, MILLISECOND_S)
    is_one_pair = ours.have_film_times != theirs.have_film_times
    is_apart &= ~(is_one_pair & is_same_place)
    if not is_known.all():
        # Frames at a frame rate, where no stated times can be compared.
        times = (
            _or_frame_times(ours, times[0], is_known),
            _or_frame_times(theirs, times[1], is_known),
        )
        gaps = _gaps(*times)
        is_apart = np.where(is_known, is_apart, _any_above(gaps, MILLISECOND_S))
        is_known = _any_known(gaps)
    return _FilmTimes(*times, is_known, is_apart)


def _or_frame_times(
    clips: ClipTable, times: Sequence[Floats], is_known: Flags
) -> list[Floats]:
    """Return times that are not stated from frames and frame rate, unless `is_known`."""
    first, last, rate = _columns(clips, FRAME_COLUMNS)
    of_frames = first / rate, (last + 1) / rate
    return [
        np.where(is_known | ~np.isnan(stated), stated, counted)
        for stated, counted in zip(times, of_frames, strict=True)
    ]


# --- Words ---


def _frame_words(clip: ClipTable) -> str:
    first, last, rate = (cells[0] for cells in clip.frame_cells.values())
    at_rate = f" at {rate} per second" if rate else ""
    return f"the frames {first} to {last}{at_rate}"


def _time_words(times: Sequence[Floats]) -> str:
    seconds = [float(column[0]) for column in times]
    return " to ".join("?" if np.isnan(t) else f"{t:.10g} s" for t in seconds)


def _file_words(clip: ClipTable) -> str:
    start_s, end_s = (float(one[0]) for one in _columns(clip, FILE_TIMES))
    if np.isnan(start_s) and np.isnan(end_s):
        return "the whole file"
    start = "the start" if np.isnan(start_s) else f"{start_s:.10g} s"
    end = "the end" if np.isnan(end_s) else f"{end_s:.10g} s"
    return f"{start} to {end} of the file"


def _video_words(ours: ClipTable, theirs: ClipTable) -> tuple[str, str]:
    lengths = [float(one.column("video_bytes")[0]) for one in (ours, theirs)]
    facts = [f"of {length:.0f} bytes" for length in lengths]
    if lengths[0] == lengths[1] or np.isnan(lengths).any():
        hashes = [str(one.column("video_hash")[0]) for one in (ours, theirs)]
        facts = [f"with the hash {of_video}" for of_video in hashes]
    names = [str(one.column("video")[0]) for one in (ours, theirs)]
    name = f" ({names[0] or names[1]})" if any(names) else ""
    return f"from a video {facts[0]}", f"from one {facts[1]}{name}"
