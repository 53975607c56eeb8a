"""Compare the facts that two sources state about clips with the same ids.

Rows of two sources are matched by id. If both state a film or a span for a clip, the two must be
equal, or there is an error; a fact that only one source states is not compared. If both state
frames, only the frames are compared, because times depend on the file of the film. If a source
states no frames, the times must be equal to the millisecond. No other module compares films or
spans.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.core.tables import number_of_cell
from obygaze_features.manifest.frame_rate import frame_rate_text, parse_frame_rate
from obygaze_features.manifest.model import Clip
from obygaze_features.manifest.spans import (
    FRAMES,
    MILLISECOND_S,
    RATE_COLUMN,
    FrameSpan,
    named_file,
    span_in_film,
    stated_frames,
)

SHOWN = 3
# Largest differences of equal numbers: start and end in seconds, frames, frame rate.
MOST_APART = (MILLISECOND_S, MILLISECOND_S, 0.0, 0.0, 0.0)

Texts = npt.NDArray[np.str_]
Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ClipFacts:
    """The facts that a source states about clips, as columns of equal length.

    Attributes:
        clip_ids: The ids.
        movie_ids: The films; "" where none is stated.
        numbers: Start and end in seconds, in the film or in the file that the table names; the
            first and the last frame in the film; the frame rate [clips, 5]; NaN where they are not
            stated.
    """

    clip_ids: Texts
    movie_ids: Texts
    numbers: Floats

    @classmethod
    def of(
        cls,
        clip_ids: Iterable[str],
        movie_ids: Iterable[str | None] | None = None,
        start_s: Iterable[float | None] | None = None,
        end_s: Iterable[float | None] | None = None,
        frames: Iterable[FrameSpan | None] | None = None,
    ) -> Self:
        """Return the facts in these columns.

        A value of None is not stated. If a whole column is None, none of its values is stated.
        """
        ids = np.array(clip_ids if isinstance(clip_ids, np.ndarray) else [*clip_ids])
        films = [""] * len(ids) if movie_ids is None else [f or "" for f in movie_ids]
        numbers = np.full((len(ids), 5), np.nan)
        for place, times in enumerate((start_s, end_s)):
            if times is not None:
                numbers[:, place] = np.array([*times], dtype=np.float64)
        for place, span in enumerate(frames or ()):
            if span is not None:
                rate = np.nan if span.rate is None else float(span.rate)
                numbers[place, 2:] = span.first, span.last, rate
        return cls(ids.astype(np.str_), np.array(films, dtype=np.str_), numbers)

    @classmethod
    def of_clips(cls, clips: Sequence[Clip]) -> Self:
        """Return the facts of the clips of a manifest."""
        spans = [_stated_span(clip) for clip in clips]
        return cls.of(
            [clip.clip_id for clip in clips],
            [clip.movie_id for clip in clips],
            [start_s for start_s, _ in spans],
            [end_s for _, end_s in spans],
            [stated_frames(clip.extra) for clip in clips],
        )

    @classmethod
    def of_cells(cls, rows: Sequence[Mapping[str, str]]) -> Self:
        """Return the facts in the rows of a table of results."""
        return cls.of(
            [row["clip_id"] for row in rows],
            [row.get("movie_id") for row in rows],
            [_parse_seconds(row, "start_s") for row in rows],
            [_parse_seconds(row, "end_s") for row in rows],
            [stated_frames(row) for row in rows],
        )

    def __len__(self) -> int:
        return len(self.clip_ids)

    def some(self, places: Places | npt.NDArray[np.bool_]) -> Self:
        """Return the facts of some clips, selected by indices or by a mask."""
        ids = self.clip_ids[places]
        return type(self)(ids, self.movie_ids[places], self.numbers[places])

    @property
    def start_s(self) -> Floats:
        """The start of each clip, in seconds."""
        return self.numbers[:, 0]

    @property
    def end_s(self) -> Floats:
        """The end of each clip, in seconds."""
        return self.numbers[:, 1]

    @property
    def have_frames(self) -> npt.NDArray[np.bool_]:
        """For each clip whether its first and last frame are stated."""
        return np.asarray(np.isfinite(self.numbers[:, 2:4]).all(axis=1))

    @property
    def frame_columns(self) -> dict[str, list[str]]:
        """The columns of frames and frame rate in a table, as `of_cells` reads them."""
        cells = [_frame_cells(frames) for frames in self.numbers[:, 2:].tolist()]
        return {
            column: [of_clip[place] for of_clip in cells]
            for place, column in enumerate((*FRAMES, RATE_COLUMN))
        }


def _stated_span(clip: Clip) -> tuple[float | None, float | None]:
    """Return the start and the end that the table states for a clip.

    `link` moves them to FILM_TIMES if it finds a file of the clip's own.
    """
    stated = (clip.start_s, clip.end_s)
    if stated == (None, None) and not named_file(clip):
        return span_in_film(clip) or stated
    return stated


def _parse_seconds(row: Mapping[str, str], column: str) -> float | None:
    """Return a time of a row in seconds, or None if the cell is empty."""
    cell = row.get(column) or ""
    number = number_of_cell(cell)
    if cell.strip() and number is None:
        raise FixInput(
            f"{column} of the clip {row['clip_id']!r}: expected seconds, got {cell!r}",
            hint="write seconds, such as 70.5, or leave the cell empty",
        )
    return number


def _frame_cells(frames: Sequence[float]) -> tuple[str, str, str]:
    """Return the cells of first frame, last frame and frame rate; "" for NaN."""
    first, last, frames_per_s = frames
    if np.isnan(first):
        return "", "", ""
    rate = parse_frame_rate(frames_per_s)
    return f"{first:.0f}", f"{last:.0f}", frame_rate_text(rate) if rate else ""


def find_rows(ids: Sequence[str] | Texts, in_ids: Sequence[str] | Texts) -> Places:
    """Return the index of each id in `in_ids`, or -1 if it is missing there."""
    place_of = {one: place for place, one in enumerate(np.asarray(in_ids).tolist())}
    places = [place_of.get(one, -1) for one in np.asarray(ids).tolist()]
    return np.array(places, dtype=np.int64)


def facts_differ(ours: ClipFacts, theirs: ClipFacts) -> npt.NDArray[np.bool_]:
    """Return for each pair of rows whether the two rows state different films or spans.

    A film or a span that only one of the rows states is not compared.
    """
    have_films = (ours.movie_ids != "") & (theirs.movie_ids != "")
    other_films = have_films & (ours.movie_ids != theirs.movie_ids)
    # A comparison with NaN, which means not stated, is false.
    are_apart = np.abs(ours.numbers - theirs.numbers) > MOST_APART
    other_spans = np.where(
        ours.have_frames & theirs.have_frames,
        are_apart[:, 2:].any(axis=1),
        are_apart[:, :2].any(axis=1),
    )
    return np.asarray(other_films | other_spans, dtype=np.bool_)


def require_same(
    ours: ClipFacts,
    theirs: ClipFacts,
    names: tuple[str, str],
    *,
    where: str = "",
    hint: str = "give the clips of one of them different ids",
) -> int:
    """Raise an error if rows of the same id state different films or spans.

    Args:
        ours: Rows of one source.
        theirs: Rows of the other source with the same ids, in the same order.
        names: The names of the sources: `the manifest films`, `the store clip`.
        where: The place in the error.
        hint: The hint of the error.

    Returns:
        The number of pairs that were matched by id only: no fact is stated by both.
    """
    differ = np.flatnonzero(facts_differ(ours, theirs))
    if len(differ):
        examples = [_difference(ours, theirs, place) for place in differ[:SHOWN]]
        first, second = names
        differs, ids = ("differs", "id") if len(differ) == 1 else ("differ", "ids")
        raise Mismatch(
            f"{count(len(differ), 'clip')} of {first} {differs} from {second} under the same {ids}:"
            f" {'; '.join(examples)}",
            where=where,
            hint=hint,
        )
    have_films = (ours.movie_ids != "") & (theirs.movie_ids != "")
    # A frame rate alone does not identify a clip.
    have_both = ~np.isnan((ours.numbers - theirs.numbers)[:, :4])
    return int((~(have_films | have_both.any(axis=1))).sum())


def require_same_shared(
    ours: ClipFacts,
    theirs: ClipFacts,
    names: tuple[str, str],
    *,
    where: str = "",
    hint: str = "give the clips of one of them different ids",
) -> int:
    """Call `require_same` with the rows of the ids that both sources have."""
    places = find_rows(ours.clip_ids, theirs.clip_ids)
    shared = np.flatnonzero(places >= 0)
    return require_same(
        ours.some(shared), theirs.some(places[shared]), names, where=where, hint=hint
    )


def fill_missing_facts(ours: ClipFacts, theirs: ClipFacts) -> ClipFacts:
    """Return rows with missing films, times and frames taken from a second source.

    Nothing is taken for a clip whose film or span differs between the sources.
    """
    places = find_rows(ours.clip_ids, theirs.clip_ids)
    shared = np.flatnonzero(places >= 0)
    there = theirs.some(places[shared])
    is_same = ~facts_differ(ours.some(shared), there)
    shared = shared[is_same]
    there = there.some(is_same)
    films = ours.movie_ids.astype(np.object_)
    films[shared] = np.where(films[shared] == "", there.movie_ids, films[shared])
    numbers = ours.numbers.copy()
    is_new = np.isnan(numbers[shared])
    is_new[:, 2:] &= ~ours.have_frames[shared, None]
    numbers[shared] = np.where(is_new, there.numbers, numbers[shared])
    return ClipFacts(ours.clip_ids, films.astype(np.str_), numbers)


def _difference(ours: ClipFacts, theirs: ClipFacts, place: int) -> str:
    """Return a sentence about the first fact that differs, with both values."""
    name = str(ours.clip_ids[place])
    films = str(ours.movie_ids[place]), str(theirs.movie_ids[place])
    if all(films) and films[0] != films[1]:
        return f"{name!r} is of the film {films[0]!r}, not {films[1]!r}"
    in_frames = bool(ours.have_frames[place] and theirs.have_frames[place])
    spans = [_span(one.numbers[place].tolist(), in_frames) for one in (ours, theirs)]
    return f"{name!r} is {', not '.join(spans)}"


def _span(numbers: Sequence[float], in_frames: bool) -> str:
    if in_frames:
        first, last, rate = _frame_cells(numbers[2:])
        at_rate = f" at {rate} per second" if rate else ""
        return f"the frames {first} to {last}{at_rate}"
    return " to ".join("?" if np.isnan(t) else f"{t:.10g} s" for t in numbers[:2])
