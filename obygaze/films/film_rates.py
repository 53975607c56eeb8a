"""The frame rates of films by their videos.

Marks in seconds have pictures only at the rate of their film. A video that is known decides;
`--fps` is for films without one, and another rate than that of a video is refused.
"""

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path

from obygaze.films.mark_tables import (
    Fps,
    GivenRates,
    Segment,
    check_rate,
    refuse_behind_end,
)
from obygaze_features.core.errors import FixInput, FixUsage, ObygazeError
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.frame_rate import frame_rate_text, known_frame_rate
from obygaze_features.manifest.io import as_id
from obygaze_features.manifest.link import manifests_with_videos
from obygaze_features.manifest.model import Manifest, Windows
from obygaze_features.manifest.times import FilmTimes, exact_seconds, times_of_films

# Rates that differ by less are the same, written with other digits.
SAME_WITHIN = Fraction(1, 1000)
# 24 and 23.976 differ by a thousandth, 23.81 and 1000/42 by less.
OTHER_RATE = Fraction(1, 2000)


class FilmRates(GivenRates):
    """The rates of films, by their videos or as they are given.

    Args:
        fps: As for `GivenRates`.
        workspace: The workspace whose manifests are asked for the videos of films.
    """

    def __init__(self, fps: Fps = None, workspace: PathLike | None = None) -> None:
        super().__init__(fps)
        self.workspace = Workspace.of(workspace)

    def rate_of(self, film: str, video: Path | None = None) -> Fraction | None:
        """Return the rate of a film; None if it is not known, or its videos have several.

        Args:
            film: The film.
            video: A video of the film, beside those that manifests are linked to.
        """
        video_of_rate: dict[Fraction, Path] = {}
        for path in filter(None, (video, *self._videos_of_film(film))):
            rate = video_rate(path)
            if rate is not None:
                video_of_rate.setdefault(rate, path)
        if not video_of_rate:
            return super().rate_of(film)
        given = self.given(film)
        if given is None:
            return next(iter(video_of_rate)) if len(video_of_rate) == 1 else None
        for rate in video_of_rate:
            if abs(rate - given) <= OTHER_RATE * given:
                return rate
        rate, path = next(iter(video_of_rate.items()))
        self.refuse_other(film, rate, "its video", str(path))
        return None

    def required(self, film: str, where: str, video: Path | None = None) -> Fraction:
        """Return the rate of a film, or raise an error that says how it is given."""
        rate = self.rate_of(film, video)
        if rate is None:
            raise FixUsage(
                f"the frame rate of the film {film} is not known",
                where=where,
                hint=f"--fps {film}=25, or that of the film; or obygaze manifest link, which finds"
                " its video",
            )
        return rate

    def refuse_other(self, film: str, rate: Fraction, whose: str, where: str) -> None:
        """Raise an error if another rate is given than a video or a manifest of a film has."""
        given = self.given(film)
        if given not in (None, rate):
            raise FixUsage(
                f"--fps {frame_rate_text(given)} is not the rate of the film {film}: {whose} has"
                f" {frame_rate_text(rate)}",
                where=where,
                hint="leave out --fps, or name the films that it is for: --fps FILM=RATE",
            )

    def compare(self, segment: Segment, rate: Fraction, where: str) -> None:
        """Raise an error for a mark that is in no video of its film.

        Of several copies of a film, one has the marks.
        """
        videos = self._videos_of_film(segment.movie_id)
        of_this_rate = []
        for video in videos:
            rate_of_video = video_rate(video)
            if rate_of_video and abs(rate_of_video - rate) <= OTHER_RATE * rate:
                of_this_rate.append(video)
        for video in (of_this_rate or videos)[:1]:
            compare_with_video(segment, video, rate, where)

    def _videos_of_film(self, film: str) -> list[Path]:
        """Return the videos of a film, which a table of marks may name by its title."""
        return self.videos.get(as_id(film), [])

    @cached_property
    def videos(self) -> dict[str, list[Path]]:
        """The videos of films that manifests of the workspace are linked to, by film."""
        videos: dict[str, dict[Path, None]] = {}
        for manifest in manifests_with_videos(self.workspace):
            # Rows of another manifest may contradict each other.
            with suppress(FixInput):
                for film, video in _videos_of(manifest):
                    videos.setdefault(film, {})[video] = None
        return {film: list(paths) for film, paths in videos.items()}


def _videos_of(manifest: Manifest) -> Iterator[tuple[str, Path]]:
    """Yield the films of a manifest that are linked to the file of a whole film."""
    root = manifest.header.video_root
    if isinstance(manifest.clips, Windows):
        for cut in manifest.clips.films:
            yield cut.movie_id, Path(root, cut.video)
        return
    for film, times in times_of_films(manifest).items():
        video = video_of_film(times, root)
        if video is not None:
            yield film, video


def video_of_film(times: FilmTimes, video_root: str) -> Path | None:
    """Return the file of a whole film; None where its clips have files of their own."""
    videos = {piece.video for piece in times.pieces}
    if len(times.pieces) != 1 or times.pieces[0].start_s or times.pieces[0].offset_s:
        return None
    return Path(video_root, *videos)


def video_rate(path: Path) -> Fraction | None:
    """Return the frames per second of a video; None where it cannot be read or has several."""
    return rate_and_length(path)[0]


def rate_and_length(path: Path) -> tuple[Fraction | None, float]:
    """Return the frames per second of a video, None if unknown, and its seconds, 0 if unknown."""
    try:
        facts = path.stat()
    except OSError:
        return None, 0.0
    return _rate_and_length(path.absolute(), facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=256)
def _rate_and_length(path: Path, *_size_and_time: int) -> tuple[Fraction | None, float]:
    """Return rate and seconds of a video as they are kept, until the file is another one."""
    from obygaze_features.video.container import open_video

    try:
        with open_video(path) as (container, stream, _n_errors):
            average = stream.average_rate
            nominal = stream.guessed_rate
            length_s = (container.duration or 0) / 1e6
    except ObygazeError:
        return None, 0.0  # also where PyAV is not installed: the rate has to be named
    if not average or not nominal or abs(average - nominal) > SAME_WITHIN * nominal:
        return None, length_s
    return known_frame_rate(Fraction(nominal)), length_s


def compare_with_video(
    segment: Segment, video: Path | None, rate: Fraction, where: str
) -> None:
    """Raise an error for a mark at another rate than its film, or behind the end of it.

    What the video does not say is not compared.
    """
    if video is None:
        return
    rate_of_video, length_s = rate_and_length(video)
    if rate_of_video and abs(rate_of_video - rate) > OTHER_RATE * rate:
        check_rate(segment.movie_id, rate, rate_of_video, where)
    if length_s:
        refuse_behind_end(
            segment.movie_id,
            segment.end_frame,
            round(exact_seconds(length_s) * rate),
            unsure=rate,
            where=where,
        )
