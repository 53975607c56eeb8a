"""Read a folder of videos as a manifest with one clip per file."""

import re
from collections import Counter
from itertools import zip_longest
from pathlib import Path, PurePosixPath

from obygaze_features.core.errors import FixInput
from obygaze_features.core.made_ids import ascii_id
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.tables import TableRow
from obygaze_features.manifest.adapters import ImportedManifest
from obygaze_features.manifest.io import clips_of_table, ids_of_names
from obygaze_features.manifest.link import require_videos
from obygaze_features.manifest.listing import TITLE
from obygaze_features.manifest.model import Header, Manifest

_NUMBERED = re.compile(r"(.+?)(?:_scene_0*([0-9]{1,4})|-([0-9]{3}))")


def read(folder: str | Path, *, name: str | None = None) -> ImportedManifest:
    """Read a folder of videos: one clip per file, without labels.

    The film of a clip is the subfolder of the file. For a file at the top, the film is the name up
    to the scene number (lake of lake-001.mp4 and lake_scene_001.mp4), or the whole name. Files
    without scene numbers are sorted by name, with part2 before part10.

    Args:
        folder: The folder; no video is opened.
        name: The name of the manifest; None: the name of the folder.
    """
    folder = Path(folder)
    # Parts of a film without scene numbers follow each other in this order.
    names = sorted(require_videos(folder), key=_by_number)
    files = [PurePosixPath(file) for file in names]
    stems = Counter(ascii_id(file.stem).casefold() for file in files)
    films = [_film_and_scene(file)[0] for file in files]
    id_of_film = ids_of_names(films, "film", str(folder))
    violations = Violations(folder)
    file_of = dict[str, PurePosixPath]()
    rows = []
    for number, file in enumerate(files, 1):
        film, scene = _film_and_scene(file)
        clip_id = ascii_id(file.stem)
        movie_id = id_of_film[film]
        if stems[clip_id.casefold()] > 1:
            clip_id = f"{movie_id}-{clip_id}"
        first_file = file_of.setdefault(clip_id.casefold(), file)
        if first_file != file:
            raise FixInput(
                f"two videos for the clip {clip_id!r}: {first_file} and {file}",
                where=str(folder),
                hint="rename or remove one of them",
            )
        cells = {"clip_id": clip_id, "movie_id": movie_id, "video": str(file)}
        if scene:
            cells["scene"] = scene
        if film != movie_id:
            cells[TITLE] = film
        rows.append((TableRow(number, {}, violations), cells))
    columns = (TITLE,) if id_of_film.keys() != set(id_of_film.values()) else ()
    clips = clips_of_table(rows, columns=columns)
    hint = "rename the video: use letters, digits and . _ - only"
    violations.raise_if_any(
        "the name of a video is not valid as the id of a clip", hint
    )
    title = name or ascii_id(folder.resolve().name) or "videos"
    header = Header(title, video_root=folder.resolve().as_posix())
    return ImportedManifest(Manifest(title, header, clips, columns))


def _by_number(name: str) -> list[tuple[str, int]]:
    """Return the key that sorts names by the numbers in them: part2 before part10."""
    parts = re.split(r"([0-9]+)", name)
    return [
        (text, int(digits or 0))
        for text, digits in zip_longest(parts[::2], parts[1::2])
    ]


def _film_and_scene(file: PurePosixPath) -> tuple[str, str]:
    """Return the film and the scene number in the path of a video; "" without a number."""
    folders = "/".join(file.parts[:-1])
    numbered = _NUMBERED.fullmatch(file.stem)
    if numbered is None:
        return folders or file.stem, ""
    number = int(numbered[2] or numbered[3])
    return folders or numbered[1], str(number)
