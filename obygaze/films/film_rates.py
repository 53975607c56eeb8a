"""The frame rates of films by their videos.

Marks in seconds have pictures only at the rate of their film. A video that is known decides;
`--fps` is for films without one, and another rate than that of a video is refused.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, TypeAlias

from obygaze_features.core.console import few
from obygaze_features.core.errors import FixInput, FixUsage, ObygazeError
from obygaze_features.core.file_names import composed
from obygaze_features.core.options import Option
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.frame_rate import (
    frame_rate,
    frame_rate_text,
    known_frame_rate,
)
from obygaze_features.manifest.io import as_id
from obygaze_features.manifest.link import manifests_with_videos
from obygaze_features.manifest.model import Manifest, Windows
from obygaze_features.manifest.times import FilmTimes, exact_seconds, times_of_films

# Rates that differ by less are the same, written with other digits.
SAME_WITHIN = Fraction(1, 1000)
# Copies of a film end together if their ends are not farther apart: sound may be a little longer.
MOST_APART_S = 1.0
# 24 and 23.976 differ by a thousandth, 23.81 and 1000/42 by less.
OTHER_RATE = Fraction(1, 2000)


FPS = Option("--fps", metavar="RATE|FILM=RATE", is_repeated=True)
Fps: TypeAlias = Annotated[float | str | Fraction | Sequence[str] | None, FPS]


def fps_words(fps: Fps) -> Sequence[float | str | Fraction]:
    """Return the rates that are given, each for all films or as `FILM=RATE`."""
    if fps is None:
        return ()
    return [fps] if isinstance(fps, str | float | int | Fraction) else fps


class FilmRates:
    """The frame rates of films, by their videos or as somebody gives them with `--fps`.

    Args:
        fps: A rate for all films, such as 25 or "23.976", or texts of which `FILM=RATE` is for one
            film.
        workspace: The workspace whose manifests are asked for the videos of films.
    """

    def __init__(self, fps: Fps = None, workspace: Workspace | None = None) -> None:
        self.workspace = workspace
        self.of_all: Fraction | None = None
        self.of_film: dict[str, Fraction] = {}
        self._asked: dict[str, None] = {}
        self._films_of_all: dict[str, None] = {}
        for word in fps_words(fps):
            film, sign, written = composed(str(word)).rpartition("=")
            rate = frame_rate(written)
            earlier = self.of_film.setdefault(film, rate) if sign else self.of_all
            if earlier not in (None, rate):
                of_film = f" of the film {film}" if sign else ""
                raise FixUsage(
                    f"--fps names two rates{of_film}: {frame_rate_text(earlier)} and"
                    f" {frame_rate_text(rate)}",
                    hint="for films of different rates, --fps FILM=RATE for each",
                )
            if not sign:
                self.of_all = rate

    def given(self, film: str) -> Fraction | None:
        """Return the rate that is given for a film."""
        self._asked[film] = None
        return self.of_film.get(film, self.of_all)

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
        given = self.given(film)
        if not video_of_rate:
            if given is not None and film not in self.of_film:
                self._films_of_all[film] = None
            return given
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
            problem = ""
            if video is not None and video_rate(video) is None:
                problem = f": {video.name} is not there, or does not say it"
            raise unknown_rate(film, where, problem)
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

    def warnings(self) -> list[str]:
        """Return a sentence if one rate was used for several films; refuse films without marks."""
        unknown = sorted(self.of_film.keys() - self._asked.keys())
        if unknown:
            raise FixUsage(
                f"--fps names a film without marks: {few(unknown)}",
                hint=f"one of {few(list(self._asked), 5)}",
            )
        if self.of_all is None or len(self._films_of_all) < 2:
            return []
        films = few(list(self._films_of_all), 5)
        rate = frame_rate_text(self.of_all)
        return [
            f"{rate} frames per second, as --fps says, in each of these films: {films}"
        ]

    def compare(self, film: str, picture: int, rate: Fraction, where: str) -> None:
        """Raise an error for a mark that is in no video of its film, by its last picture.

        Of several copies of a film, one has the marks.
        """
        videos = self._videos_of_film(film)
        for video in (self._videos_of_rate(film, rate) or videos)[:1]:
            compare_with_video(film, picture, video, rate, where)

    def video_of(self, film: str, rate: Fraction) -> Path | None:
        """Return the video of a film that has a rate; None where manifests have none or several."""
        videos = self._videos_of_rate(film, rate)
        return videos[0] if len(videos) == 1 else None

    def n_frames(self, film: str, rate: Fraction) -> int:
        """Return how many frames the video of a film has; 0 where that is not known.

        Of copies that end at other times, nobody knows which one was marked.
        """
        lengths_s = [
            rate_and_length(video)[1] for video in self._videos_of_rate(film, rate)
        ]
        if not lengths_s or max(lengths_s) - min(lengths_s) > MOST_APART_S:
            return 0
        return round(exact_seconds(lengths_s[0]) * rate)

    def _videos_of_rate(self, film: str, rate: Fraction) -> list[Path]:
        """Return the videos of a film that have a rate."""
        of_this_rate = []
        for video in self._videos_of_film(film):
            rate_of_video = video_rate(video)
            if rate_of_video and abs(rate_of_video - rate) <= OTHER_RATE * rate:
                of_this_rate.append(video)
        return of_this_rate

    def _videos_of_film(self, film: str) -> list[Path]:
        """Return the videos of a film, which a table of marks may name by its title."""
        return self.videos.get(as_id(film), [])

    def films_of_video(self, name: str) -> list[str]:
        """Return the films for which manifests are linked to a video of this name that is there."""
        films = []
        for film, videos in self.videos.items():
            of_name = [video for video in videos if composed(video.name) == name]
            if any(video.is_file() for video in of_name):
                films.append(film)
        return films

    @cached_property
    def videos(self) -> dict[str, list[Path]]:
        """The videos of films that manifests of the workspace are linked to, by film."""
        videos: dict[str, dict[Path, None]] = {}
        if self.workspace is None:
            return {}
        for manifest in manifests_with_videos(self.workspace):
            # Rows of another manifest may contradict each other.
            with suppress(FixInput):
                for film, video in _videos_of(manifest):
                    videos.setdefault(film, {})[video] = None
        return {film: list(paths) for film, paths in videos.items()}


def unknown_rate(film: str, where: str = "", problem: str = "") -> FixUsage:
    """Return the error that nobody knows the frame rate of a film."""
    one_film = shell_word(f"{film}=25")
    return FixUsage(
        f"the frame rate of the film {film} is not known{problem}",
        where=where,
        hint=f"--fps 25 if all films have it, --fps {one_film} for this one; or a column framerate"
        " in a table of marks; or obygaze manifest link, which finds the video of the film",
    )


def check_rate(
    film: str, counted: Fraction | None, rate: Fraction | None, where: str = ""
) -> None:
    """Raise an error if the pictures of a film were counted in a copy of another rate."""
    if counted is None or rate is None or counted == rate:
        return
    raise FixInput(
        f"the pictures of {film} are counted at {frame_rate_text(counted)} per second,"
        f" its video has {frame_rate_text(rate)}",
        where=where,
    )


def refuse_behind_end(
    film: str,
    picture: int,
    n_pictures: int,
    *,
    unsure: Fraction | int = 0,
    where: str = "",
) -> None:
    """Raise an error for a mark with a picture that the film does not have.

    Args:
        film: The film.
        picture: The last picture of the mark.
        n_pictures: The number of pictures of the film.
        unsure: How many more it may have: what a file says of its length may be a few less.
        where: Where the mark stands.
    """
    if picture >= n_pictures + unsure:
        raise FixInput(
            f"the last picture of {film} is {n_pictures - 1}, not {picture}",
            where=where,
            hint="correct the mark, or link the copy of the film that was marked",
        )


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
    return Path(video_root, times.file) if times.file else None


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
    film: str, picture: int, video: Path | None, rate: Fraction, where: str
) -> None:
    """Raise an error for a mark at another rate than its film, or behind the end of it.

    `picture` is its last one. What the video does not say is not compared.
    """
    if video is None:
        return
    rate_of_video, length_s = rate_and_length(video)
    if rate_of_video and abs(rate_of_video - rate) > OTHER_RATE * rate:
        check_rate(film, rate, rate_of_video, where)
    if length_s:
        refuse_behind_end(
            film,
            picture,
            round(exact_seconds(length_s) * rate),
            unsure=rate,
            where=where,
        )
