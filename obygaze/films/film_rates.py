"""The frame rates of films by their videos.

Marks in seconds have pictures only at the rate of their film. A video that is known decides;
`--fps` is for films without one, and another rate than that of a video is refused.
"""

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from functools import cached_property
from pathlib import Path

from obygaze.films.film_segments import (
    OTHER_RATE,
    compare_with_video,
    video_of_film,
    video_rate,
)
from obygaze.films.mark_tables import Fps, GivenRates, Segment
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.frame_rate import frame_rate_text
from obygaze_features.manifest.io import as_id
from obygaze_features.manifest.link import manifests_with_videos
from obygaze_features.manifest.model import Manifest, Windows
from obygaze_features.manifest.times import times_of_films


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
        raise FixUsage(
            f"--fps {frame_rate_text(given)} is not the rate of the film {film}: its video has"
            f" {frame_rate_text(rate)}",
            where=str(path),
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
