"""The times of the pictures of linked films.

Marks start and end at boundaries of pictures. Other programs round times to milliseconds, which can
move a mark to the next picture. So an import moves each time to the nearest boundary.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from obygaze_features.core.console import few
from obygaze_features.core.errors import FixInput
from obygaze_features.core.file_names import compose_accents
from obygaze_features.core.files import file_facts
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.link import manifests_with_videos
from obygaze_features.manifest.model import Manifest
from obygaze_features.manifest.times import all_film_times, spans_in_films

if TYPE_CHECKING:
    from obygaze_features.extraction.film_frames import FilmFrames

Floats = Sequence[float]


class LinkedFilms:
    """The films of a workspace that are linked to a file of the whole film."""

    def __init__(self, workspace: PathLike | None) -> None:
        self.workspace = Workspace.of(workspace)
        self._frames: dict[str, FilmFrames] = {}

    @cached_property
    def manifests(self) -> Sequence[Manifest]:
        """The manifests of the workspace with a folder of videos."""
        return [*manifests_with_videos(self.workspace)]

    @cached_property
    def files(self) -> dict[str, dict[Path, None]]:
        """The linked files of each film, among them its copies in several folders."""
        files: dict[str, dict[Path, None]] = {}
        for manifest in self.manifests:
            root = Path(manifest.header.video_root)
            for film, times in all_film_times(manifest).items():
                if times.file:
                    files.setdefault(film, {})[root / times.file] = None
        return files

    def file_of(self, film: str) -> Path | None:
        """Return the file of a film, or None if none is linked.

        Equal copies count as one file. Raise an error if there are different files.
        """
        of_facts: dict[tuple[int, str] | None, Path] = {}
        for path in self.files.get(film, ()):
            if path.is_file():
                of_facts.setdefault(file_facts(path), path)
        files = [*of_facts.values()]
        if len(files) > 1:
            raise FixInput(
                f"manifests link the film {film} to {len(files)} files, whose pictures may have"
                f" different times: {few([*map(str, files)], 3)}",
                hint="link all manifests of the film to the same folder:"
                " obygaze manifest link NAME FOLDER; or cut windows again from this folder",
            )
        return files[0] if files else None

    def clips_of(self, films: Collection[str]) -> str:
        """Return the first manifest of clips without levels that has all these films, or ""."""
        for manifest in self.manifests:
            is_bare = not manifest.header.said and not any(c.level for c in manifest)
            has_all = {*films} <= {*manifest.films}
            if is_bare and has_all and len(spans_in_films(manifest)) == len(manifest):
                return manifest.name
        return ""

    def film_of_file(self, name: str) -> str:
        """Return the only film whose file has this name, or "" if there is none or several.

        Composed and decomposed accents are equal: ELAN on macOS writes decomposed ones. If no file
        has the name, capitals do not count: on Windows they do not.
        """
        for spelling in (compose_accents, lambda one: compose_accents(one).casefold()):
            films = []
            for film, files in self.files.items():
                names = [spelling(path.name) for path in files]
                if spelling(name) in names:
                    films.append(film)
            if films:
                return films[0] if len(films) == 1 else ""
        return ""

    def frames(self, film: str) -> FilmFrames | None:
        """Return the frames of the file of a film, or None without a file."""
        path = self.file_of(film)
        if path is None:
            return None
        if film not in self._frames:
            from obygaze_features.extraction.film_frames import FilmFrames

            self._frames[film] = FilmFrames(path, self.workspace.folder("indexes"))
        return self._frames[film]

    def boundaries(self, film: str) -> Floats | None:
        """Return the start of each picture of a film, followed by the end of the last picture.

        Return None if no file of the film is linked.
        """
        frames = self.frames(film)
        return None if frames is None else frames.boundaries_s.tolist()


def pictures_of(boundaries: Floats, start_s: float, end_s: float) -> tuple[int, int]:
    """Return the numbers of the first and the last picture of a span; they may be the same.

    The start and the end of the span are moved to the nearest boundaries.

    >>> pictures_of([0.0, 0.04, 0.08, 0.12], 0.041, 0.119)
    (1, 2)
    """
    first = min(nearest(boundaries, start_s), len(boundaries) - 2)
    return first, max(first, nearest(boundaries, end_s) - 1)


def nearest(boundaries: Floats, time_s: float) -> int:
    """Return the number of the boundary that is nearest to a time."""
    after = bisect_left(boundaries, time_s)
    around = range(max(after - 1, 0), min(after + 1, len(boundaries)))
    return min(around, key=lambda number: abs(boundaries[number] - time_s))
