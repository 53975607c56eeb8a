"""Whether two rows are about the same clip.

A clip is a film and a span; its id is only its name in a manifest. Two tables may have the same id
for different clips, and different ids for the same clip. Film and times may be unknown on one side.
This module alone decides; imports, stores, merges, withdrawals, runs, models, tables and pages ask
it, with `Identity.of_clip` for a clip of a manifest and `store.identity.identity_of` for a row of a
store.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from itertools import accumulate, chain
from math import floor
from typing import NamedTuple

from obygaze_features.core.errors import FixInput
from obygaze_features.core.file_names import composed
from obygaze_features.core.tables import number_of_cell
from obygaze_features.manifest.model import (
    UNKNOWN_FILM,
    Clip,
)
from obygaze_features.manifest.spans import file_of, span_in_file, span_in_film

# Times that differ by less are the same: a table may round them, and a picture of a film with 25
# pictures a second lasts .04 s.
TOLERANCE_S = 0.02
_WORD_OR_NUMBER = re.compile(r"[^\W\d_]+|\d+")

# Start and end in seconds; a time that is None is not known.
Times = tuple[float | None, float | None]


class Sameness(Enum):
    """What a comparison of two rows can say."""

    SAME = "the same clip"
    OTHER = "another clip"
    UNKNOWN = "cannot be known"

    @property
    def is_same(self) -> bool:
        """Whether the rows count as one clip: nothing contradicts it."""
        return self is not Sameness.OTHER


SAME = Sameness.SAME
OTHER = Sameness.OTHER
UNKNOWN = Sameness.UNKNOWN


class Identity(NamedTuple):
    """What a row says about its clip.

    Attributes:
        clip_id: The id.
        movie_id: The film; "" if it is not known, or if it was only guessed from the id.
        in_film: Start and end in the film; None if they are not known.
        in_file: Start and end in the file of the clip; None if they are not known.
        in_either: Start and end, where nobody says whether in the film or in the file.
        video: What identifies the bytes of the video: its hash in a store, its path in a manifest
            that has times in it; "" if it is not known.
    """

    clip_id: str
    movie_id: str = ""
    in_film: Times | None = None
    in_file: Times | None = None
    in_either: Times | None = None
    video: str = ""

    @classmethod
    def of_clip(cls, clip: Clip) -> "Identity":
        """Return what a clip of a manifest says."""
        in_film = span_in_film(clip)
        in_file = span_in_file(clip)
        one_time = (clip.start_s, clip.end_s)
        has_one_time = not in_film and not in_file and one_time != (None, None)
        # Without times a clip may be all of its file, or its times are lost: a store knows it.
        video = file_of(clip) if in_file else ""
        return cls(
            clip_id=clip.clip_id,
            movie_id=known_film(clip.movie_id),
            in_film=in_film,
            in_file=in_file,
            in_either=one_time if has_one_time else None,
            video=video,
        )

    @property
    def any_times(self) -> Times | None:
        """Start and end, whether in the film or in a file; None if they are not known."""
        return self.in_film or self.in_file or self.in_either

    @property
    def is_whole_file(self) -> bool:
        """Whether the clip is all of its video."""
        # Windows of a film with an uneven rate have its video and no times.
        has_times = bool(self.in_file or self.in_either)
        return bool(self.video) and not has_times and not self.is_window

    @property
    def is_window(self) -> bool:
        """Whether it is a window of its film: only their ids have a colon."""
        return ":" in self.clip_id


def words_and_numbers(clip_id: str) -> tuple[str, ...]:
    """Return the words and numbers of an id: the same for EB-01, eb_1 and EB.001."""
    found = []
    for piece in _WORD_OR_NUMBER.findall(composed(clip_id).casefold()):
        found.append((piece.lstrip("0") or "0") if piece.isdecimal() else piece)
    return tuple(found)


def known_film(movie_id: str | None) -> str:
    """Return the film of a row; "" if the row says that it is not known."""
    return "" if movie_id is None or movie_id == UNKNOWN_FILM else movie_id


def clip_of_cells(cells: Mapping[str, str]) -> Identity:
    """Return what a row of a table with results says of its clip."""
    return Identity(
        cells["clip_id"],
        known_film(cells.get("movie_id")),
        in_either=times_of_cells(cells),
    )


def other_clip(cells: Mapping[str, str], clip: Clip) -> str:
    """Return why a row of a table with results is not about the clip of its id; "" if it is."""
    here = Identity.of_clip(clip)
    there = clip_of_cells(cells)._replace(clip_id=here.clip_id)
    contradiction = compare_clips(there, here).contradiction
    return f"another clip, {contradiction}" if contradiction else ""


def times_of_cells(cells: Mapping[str, str]) -> Times | None:
    """Return the times in a row of a table with results or features; None if it has none."""
    times = (number_of_cell(cells.get("start_s")), number_of_cell(cells.get("end_s")))
    return None if times == (None, None) else times


def require_films(films: Sequence[str], where: str) -> None:
    """Raise an error if the film of a clip is not known: it may be any of the others."""
    n_unknown = len(films) - sum(map(bool, map(known_film, films)))
    if n_unknown:
        raise FixInput(
            f"the films of {n_unknown} of {len(films)} clips are not known, so that the clips of a"
            " film cannot be kept together",
            where=where,
            hint="import the table again with their movie_id; or leave these clips out, in"
            f" `obygaze run` with --set 'data.where=movie_id != {UNKNOWN_FILM}'",
        )


class Comparison(NamedTuple):
    """The result of a comparison.

    Attributes:
        sameness: What the rows are to each other.
        contradiction: What differs, with both values: `film: alba and brug`. It is "" unless rows
            of the same id are different clips.
        is_by_id: Whether the id alone says which clip of the film it is: no times and no video do.
    """

    sameness: Sameness
    contradiction: str = ""
    is_by_id: bool = False


def compare_clips(one: Identity, other: Identity) -> Comparison:
    """Return whether two rows are about the same clip.

    Rows with the same id are, unless films or times contradict it; `UNKNOWN` says that only the
    ids are known on both sides. Rows with different ids are the same clip if they name the same
    film and the same times in it, or the same part of one video.
    """
    if one.clip_id != other.clip_id:
        return Comparison(_with_other_ids(one, other))
    if one.movie_id and other.movie_id and one.movie_id != other.movie_id:
        return Comparison(OTHER, f"film: {one.movie_id} and {other.movie_id}")
    compared_times = _comparable_times(one, other)
    has_equal_times = any(are_equal_times(*pair) for pair in compared_times)
    if compared_times and not has_equal_times:
        ours, theirs = compared_times[0]
        return Comparison(OTHER, f"times: {_shown(ours)} and {_shown(theirs)}")
    has_equal_film = bool(one.movie_id) and one.movie_id == other.movie_id
    has_equal_video = bool(one.video) and one.video == other.video
    is_by_id = not has_equal_times and not has_equal_video
    if has_equal_film or not is_by_id:
        return Comparison(SAME, is_by_id=is_by_id)
    return Comparison(UNKNOWN, is_by_id=True)


def _with_other_ids(one: Identity, other: Identity) -> Sameness:
    """Return what rows with different ids are: without equal times or files, other clips."""
    has_equal_film = bool(one.movie_id) and one.movie_id == other.movie_id
    has_equal_video = bool(one.video) and one.video == other.video
    are_both_known = bool(one.movie_id) and bool(other.movie_id)
    if not has_equal_film and (are_both_known or not has_equal_video):
        return OTHER
    compared_times = _comparable_times(one, other)
    if not compared_times:
        are_whole_files = one.is_whole_file and other.is_whole_file
        is_same_file = has_equal_video and are_whole_files
        return SAME if is_same_file else OTHER
    if not any(
        are_equal_times(*pair) and None not in chain(*pair) for pair in compared_times
    ):
        return OTHER
    are_times_in_film = bool(one.in_film and other.in_film)
    is_same = has_equal_video or (has_equal_film and are_times_in_film)
    return SAME if is_same else OTHER


def _comparable_times(one: Identity, other: Identity) -> list[tuple[Times, Times]]:
    """Return the pairs of times that count the same seconds, or may; one equal pair suffices."""
    if one.in_film and other.in_film:
        return [(one.in_film, other.in_film)]
    pairs = []
    if one.in_file and other.in_file:
        pairs.append((one.in_file, other.in_file))
    for theirs in (other.in_film, other.in_file, other.in_either):
        if one.in_either and theirs:
            pairs.append((one.in_either, theirs))
    for ours in (one.in_film, one.in_file):
        if ours and other.in_either:
            pairs.append((ours, other.in_either))
    return [pair for pair in pairs if _has_common_time(*pair)]


def _has_common_time(ours: Times, theirs: Times) -> bool:
    return any(
        a is not None and b is not None for a, b in zip(ours, theirs, strict=True)
    )


def are_equal_times(ours: Times, theirs: Times) -> bool:
    """Return whether no time differs that is known on both sides."""
    for a, b in zip(ours, theirs, strict=True):
        if a is not None and b is not None and abs(a - b) > TOLERANCE_S:
            return False
    return True


def _shown(times: Times) -> str:
    """Return start and end as text: `12.5 s to 14 s`."""
    words = ["?" if time is None else f"{time:.10g} s" for time in times]
    return " to ".join(words)


def films_of_videos(clips: Iterable[Identity]) -> dict[str, dict[str, None]]:
    """Return the films of each video that is known; "" is a film that is not known."""
    films: dict[str, dict[str, None]] = {}
    for clip in clips:
        if clip.video:
            films.setdefault(clip.video, {})[clip.movie_id] = None
    return films


def films_of_one_file(
    films_of_video: Mapping[str, Iterable[str]],
) -> list[tuple[str, ...]]:
    """Return the films that have a video in common: each may be another name of the other."""
    several: set[tuple[str, ...]] = set()
    for films in films_of_video.values():
        names = sorted(set(films) - {""})
        if len(names) > 1:
            several.add(tuple(names))
    return sorted(several)


def with_film_of_video(
    clip: Identity, films_of_video: Mapping[str, Collection[str]]
) -> Identity:
    """Return a clip with the film that others have for the same video.

    A film that is the same file may have another name elsewhere, and films may be copies of one
    file.
    """
    films = films_of_video.get(clip.video, ())
    if not films or clip.movie_id in films:
        return clip
    film, *_ = films
    return clip._replace(movie_id=film or clip.movie_id)


def overlapping(clips: Mapping[str, Identity], others: Sequence[Identity]) -> set[str]:
    """Return the names of the clips that have time in common with one of some others.

    It is time in a film, or in a file that one of the others has: a film may have several files,
    each with times of its own, and another name elsewhere. A clip that is a whole file has time in
    common with all others of this file.
    """
    videos = {other.video for other in others} - {""}
    in_films = {}
    in_either = {}
    in_files = {}
    for name, clip in clips.items():
        if clip.video in videos:
            in_files[name] = _in_its_file(clip)
        elif clip.in_film:
            in_films[name] = clip
        else:
            in_either[name] = clip
    others_in_files = list(map(_in_its_file, others))
    # Where nobody says which times these are, they may be those in the film or in a file.
    others_in_either = [other._replace(in_film=None) for other in others]
    names = _overlapping_in_films(in_films, others)
    names |= _overlapping_in_films(in_either, [*others, *others_in_either])
    names |= _overlapping_in_films(in_files, others_in_files)
    other_whole_files = _whole_files(others_in_files)
    whole_files = _whole_files(in_files.values())
    for name, clip in in_files.items():
        is_whole_file = clip.any_times is None and clip.video in whole_files
        if is_whole_file or clip.video in other_whole_files:
            names.add(name)
    return names


def _in_its_file(clip: Identity) -> Identity:
    """Return a clip with its file as its film, and its times in this file."""
    times = clip.in_file or clip.in_either
    return Identity(clip.clip_id, clip.video, in_film=times, video=clip.video)


def _whole_files(clips: Iterable[Identity]) -> set[str]:
    """Return the videos of which one clip, and no other, has no times: it is the whole file."""
    video_of = {clip.clip_id: clip.video for clip in clips if clip.any_times is None}
    n_clips = Counter(video_of.values())
    return {video for video in n_clips if video and n_clips[video] == 1}


def _overlapping_in_films(
    clips: Mapping[str, Identity], others: Iterable[Identity]
) -> set[str]:
    """Return the names of the clips that have time in common with one of some others of their film.

    Times count as those in the film, though nobody may say so.
    """
    spans_of_film = _spans_of_films(others)
    starts_of_film = {}
    latest_ends_of_film = {}
    for film, spans in spans_of_film.items():
        spans.sort()
        starts_of_film[film] = [start_s for start_s, _ in spans]
        ends = [end_s for _, end_s in spans]
        latest_ends_of_film[film] = list(accumulate(ends, max))
    names = set()
    for name, clip in clips.items():
        start_s, end_s = clip.any_times or (None, None)
        starts = starts_of_film.get(clip.movie_id, [])
        if start_s is None or end_s is None:
            continue
        n_before = bisect_left(starts, end_s - TOLERANCE_S)
        if not n_before:
            continue
        latest_end_s = latest_ends_of_film[clip.movie_id][n_before - 1]
        if latest_end_s > start_s + TOLERANCE_S:
            names.add(name)
    return names


def _spans_of_films(clips: Iterable[Identity]) -> dict[str, list[tuple[float, float]]]:
    """Return the starts and the ends of the clips of each known film, where both are known."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for clip in clips:
        start_s, end_s = clip.any_times or (None, None)
        if clip.movie_id and start_s is not None and end_s is not None:
            spans.setdefault(clip.movie_id, []).append((start_s, end_s))
    return spans


def _starts_of(row: Identity, number: int) -> list[tuple[tuple[str, str], float, int]]:
    """Return when the clip of a row begins, each time with the film or the file in which it is.

    Rows with other ids that begin nowhere together are other clips.
    """
    in_film = ("film", row.movie_id)
    in_file = ("file", row.video)
    starts = []
    if row.is_whole_file:
        starts.append((in_file, 0.0, number))
    for times in (row.in_film, row.in_file, row.in_either):
        if times is None or times[0] is None:
            continue
        if times is row.in_film:
            starts.append((in_film, times[0], number))
        if row.video:
            starts.append((in_file, times[0], number))
    return starts


def places_of(row: Identity) -> list[tuple[str, str, int]]:
    """Return about where the clip of a row begins, in its film and in its file.

    Rows with other ids and no such place in common are other clips. Times are cut into pieces of
    twice the tolerance, and a start is in its piece and the next: nearly equal starts share one.
    """
    places = []
    for (kind, name), start_s, _ in _starts_of(row, 0):
        piece = floor(start_s / (2 * TOLERANCE_S))
        places += [(kind, name, piece), (kind, name, piece + 1)]
    return places
