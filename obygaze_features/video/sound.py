"""Decode the sound of a clip, and find where it is missing or damaged."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from obygaze_features.core.errors import FixUsage
from obygaze_features.video.container import BadVideo, OnProgress, no_progress
from obygaze_features.video.decoded_clip import MAX_CLIP_BYTES
from obygaze_features.video.film import PicturesEnd, distrust, pictures_end
from obygaze_features.video.index import (
    CLOCK_SET_BACK,
    Bools,
    Floats,
    Ints,
    check_bounds,
    overshoot,
)
from obygaze_features.video.resample import Samples
from obygaze_features.video.sound_index import (
    HIGHEST_RATE,
    LOWEST_RATE,
    SoundSource,
    forget_sound,
    sound_source,
)
from obygaze_features.video.source import FilmChanged

# The number of samples that models of speech need for their first step.
FEWEST_SAMPLES = 400
SAMPLE_BYTES = 4
# Seconds that may be missing without a remark: a stream may end a packet before the pictures.
MISSING_S = 0.1


@dataclass(frozen=True)
class SoundView:
    """The sound of a clip for one model: its sample rate, and the seconds before the clip."""

    rate: int
    before_s: float = 0.0

    def __post_init__(self) -> None:
        """Check the sample rate and the seconds before the clip."""
        if not LOWEST_RATE <= self.rate <= HIGHEST_RATE:
            raise FixUsage(
                f"rate must be {LOWEST_RATE} to {HIGHEST_RATE}, got {self.rate}"
            )
        if self.before_s < 0:
            raise FixUsage(f"before_s must be at least 0, got {self.before_s:g}")

    @property
    def n_before(self) -> int:
        """Return the number of samples before the clip."""
        return round(self.before_s * self.rate)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return a view from plain values, as `dataclasses.asdict` returns them."""
        return cls(value["rate"], value["before_s"])


@dataclass(frozen=True, eq=False)
class DecodedSound:
    """The sound of one view of a clip; all times are times of the film.

    Args:
        path: The video file.
        view: The view.
        samples: The samples, with all channels mixed into one; 0 where sound is missing or damaged.
        n_before: The number of samples before the clip.
        start_s: Start of the clip, in seconds.
        end_s: End of the clip, in seconds.
        missing_s: Start and end [n, 2] of each stretch without sound, in or before the clip.
        damaged_s: Start and end [n, 2] of each stretch of damaged sound, in or before the clip.
        bounds_s: Start and end of the sound of the film.
        cut_s: The time from which on pictures are missing in the file; infinity if none are missing
            or if this was not checked.
        stream: The stream, such as "sound 2 of 3 (eng)"; "" if the file has one stream of sound.
    """

    path: Path
    view: SoundView
    samples: Samples
    n_before: int
    start_s: float
    end_s: float
    missing_s: Floats
    damaged_s: Floats
    bounds_s: tuple[float, float]
    cut_s: float = math.inf
    stream: str = ""

    @property
    def intact_s(self) -> float:
        """Return how many seconds of the clip have intact sound."""
        lost_s = self._seconds_in(self.missing_s) + self._seconds_in(self.damaged_s)
        return self.end_s - self.start_s - lost_s

    def _seconds_in(self, stretches: Floats) -> float:
        """Return how many seconds of the clip lie in some stretches."""
        return float(np.diff(_inside(stretches, self.start_s, self.end_s)).sum())

    @property
    def is_damaged(self) -> bool:
        """Return whether sound in the clip, or in the seconds before it, is damaged."""
        return len(self.damaged_s) > 0

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return the remarks on the stream, and on missing or damaged sound."""
        length_s = self.end_s - self.start_s
        remarks = [self.stream] if self.stream else []
        if length_s - self.intact_s > MISSING_S or self._is_damaged_inside:
            remarks.append(self._how_much())
        if self.is_damaged:
            remarks.append(self._damage())
        return tuple(remarks)

    def _how_much(self) -> str:
        return f"sound for {self.intact_s:.1f} of {self.end_s - self.start_s:.1f} s"

    @property
    def _is_damaged_inside(self) -> bool:
        return self._seconds_in(self.damaged_s) > 0

    def _damage(self) -> str:
        """Return the remark on damaged sound."""
        if self._is_damaged_inside:
            return "the rest is damaged or missing"
        return "the sound just before the clip is damaged"

    def check(self, accept_damaged: bool = False) -> Self:
        """Return this sound, or raise BadVideo if it is damaged, too short or mostly missing.

        With `accept_damaged`, damaged sound counts as missing sound.
        """
        n_samples = len(self.samples) - self.n_before
        reason = ""
        if n_samples < FEWEST_SAMPLES:
            reason = "too-short"
            message = (
                f"{n_samples} samples of sound, at least {FEWEST_SAMPLES} are needed"
            )
        elif self.is_damaged and not accept_damaged:
            reason = "damaged"
            how_much = f"{self._how_much()}, " if self._is_damaged_inside else ""
            message = f"{how_much}{self._damage()}"
        elif self.intact_s < (self.end_s - self.start_s) / 2:
            reason = "no-sound"
            message = self._how_much()
            begin_s, end_s = self.bounds_s
            if self.end_s > max(self.cut_s, end_s):
                reason = "truncated"
                message = "the file is incomplete: sound of this part is missing"
            elif end_s <= self.start_s:
                message = f"the sound ends at {end_s:.1f} s"
            elif begin_s >= self.end_s:
                message = f"the sound begins at {begin_s:.1f} s"
        if reason:
            raise BadVideo(message, path=self.path, reason=reason)
        return self

    def part(self, start_s: float, end_s: float) -> Self:
        """Return the sound of a part of this clip, as if only this part had been decoded.

        There may be fewer samples before the part: samples that were not decoded are left out.
        """
        start_s = max(start_s, 0.0)
        if start_s < self.start_s or end_s > self.end_s:
            raise FixUsage(
                f"the part from {start_s:g} s to {end_s:g} s is not within the decoded sound,"
                f" from {self.start_s:g} s to {self.end_s:g} s"
            )
        begin = round(self.start_s * self.view.rate) - self.n_before
        first, stop = (round(at_s * self.view.rate) for at_s in (start_s, end_s))
        before = max(first - self.view.n_before, begin)
        return replace(
            self,
            samples=self.samples[before - begin : stop - begin],
            n_before=first - before,
            start_s=start_s,
            end_s=end_s,
            missing_s=_inside(self.missing_s, before / self.view.rate, end_s),
            damaged_s=_inside(self.damaged_s, before / self.view.rate, end_s),
        )


def decode_sound(
    path: Path | str,
    view: SoundView,
    *,
    start_s: float | None = None,
    end_s: float | None = None,
    accept_damaged: bool = False,
    indexes: Path | str | None = None,
) -> DecodedSound:
    """Decode the sound of a video, or of a part of it.

    Args:
        path: the video file.
        view: sample rate, and seconds of sound before the part.
        start_s: start of the part, in seconds; None for the beginning of the film.
        end_s: end of the part, in seconds; None for the end of the last picture, or for the end of
            the sound if the film has no pictures.
        accept_damaged: return zeros in place of damaged sound, instead of raising an error.
        indexes: folder of stored indexes, for films with many clips.
    """
    (sound,) = decode_sounds(
        path, [view], start_s=start_s, end_s=end_s, indexes=indexes
    ).values()
    return sound.check(accept_damaged)


def decode_sounds(
    path: Path | str,
    views: Sequence[SoundView],
    *,
    start_s: float | None = None,
    end_s: float | None = None,
    indexes: Path | str | None = None,
    progress: OnProgress = no_progress,
) -> dict[SoundView, DecodedSound]:
    """Decode the sound of a video, or of a part of it, in several views.

    Damage is marked but raises no error: call `check` on each sound. The parameters are those of
    `decode_sound`. `progress` is called regularly while the index is made.
    """
    folder = None if indexes is None else Path(indexes)
    for index_folder in (folder, folder, None):
        try:
            source = sound_source(Path(path), index_folder, progress)
            end_of_pictures = partial(pictures_end, Path(path), index_folder, progress)
            part = _find_span(source, start_s, end_s, end_of_pictures)
            return {view: _decode_part(source, view, *part) for view in views}
        except FilmChanged as error:
            # After seeking, the index is used once more, to read from the beginning of the file.
            if not error.film.table.seekable:
                forget_sound()
            distrust(error.film)
            changed = error
    raise changed


def _find_span(
    source: SoundSource,
    start_s: float | None,
    end_s: float | None,
    end_of_pictures: Callable[[], PicturesEnd],
) -> tuple[float, float, float]:
    """Return the start and end of a part, and the time from which on pictures are cut off.

    The time is infinity if nothing is cut off. `end_of_pictures` is called only if it is needed,
    since it reads the packets of the pictures.
    """
    index = source.film
    if not index.has_clock:
        raise BadVideo(CLOCK_SET_BACK, path=source.path, reason="clock")
    begin_s, stop_s = check_bounds(start_s, end_s)
    begin_s = max(begin_s, 0.0)
    is_within = overshoot(index.end_s, start_s, stop_s) is None
    # Otherwise the pictures show whether the file is cut off here, or only has no sound.
    has_sound = begin_s / 2 + stop_s / 2 <= index.end_s
    if is_within and has_sound and begin_s < stop_s < math.inf:
        return begin_s, stop_s, math.inf
    pictures = end_of_pictures()
    film_end_s = float(np.fmax(pictures.end_s, index.end_s))
    if stop_s == math.inf:
        stop_s = pictures.end_s if pictures.end_s > 0 else index.end_s
    reason = "too-long"
    message = overshoot(film_end_s, start_s, stop_s)
    if stop_s <= begin_s:
        reason = "outside"
        message = f"the part is outside the film, which ends at {film_end_s:.2f} s"
    if message is not None:
        raise BadVideo(message, path=source.path, reason=reason)
    return begin_s, stop_s, pictures.cut_s if begin_s < film_end_s else math.inf


def _decode_part(
    source: SoundSource, view: SoundView, begin_s: float, end_s: float, cut_s: float
) -> DecodedSound:
    """Return the sound of a part of an open film."""
    index = source.film
    first, stop = (round(at_s * view.rate) for at_s in (begin_s, end_s))
    before = max(first - view.n_before, 0)
    n_bytes = (stop - before) * SAMPLE_BYTES
    if n_bytes > MAX_CLIP_BYTES:
        message = f"the sound would take {n_bytes / 1e9:.1f} GB of memory"
        raise BadVideo(message, path=source.path, reason="too-large")
    samples = np.empty(stop - before, np.float32)
    at = 0
    for part in source.samples(view.rate, before, stop):
        samples[at : at + len(part)] = part
        at += len(part)
    # Files of float samples may contain NaN or infinite samples.
    is_wrong = ~np.isfinite(samples)
    samples[is_wrong] = 0
    wrong_s = (before + _runs(is_wrong)) / view.rate
    damaged_s = np.concatenate([index.damaged_s, wrong_s])
    sound_s = index.sound_s
    edges_s = np.concatenate([[-np.inf], sound_s.ravel(), [np.inf]]).reshape(-1, 2)
    return DecodedSound(
        path=source.path,
        view=view,
        samples=samples,
        n_before=first - before,
        start_s=begin_s,
        end_s=end_s,
        missing_s=_inside(edges_s, before / view.rate, end_s),
        damaged_s=_inside(damaged_s, before / view.rate, end_s),
        bounds_s=(float(sound_s[0, 0]), float(sound_s[-1, 1])),
        cut_s=cut_s,
        stream=index.stream,
    )


def _runs(marks: Bools) -> Ints:
    """Return where each run of true marks begins and stops, [n, 2]."""
    changes = np.diff(marks, prepend=False, append=False)
    return np.flatnonzero(changes).reshape(-1, 2)


def _inside(stretches: Floats, start_s: float, end_s: float) -> Floats:
    """Return the parts of some stretches that lie between two times."""
    inside = np.clip(stretches, start_s, end_s)
    return inside[inside[:, 0] < inside[:, 1]]
