"""Read a folder of videos as a manifest: a clip for each file."""

import os
import re
import warnings
from collections import Counter
from itertools import zip_longest
from pathlib import Path, PurePosixPath

from obygaze_features.core.console import few
from obygaze_features.core.errors import FixInput, FixUsage, ObygazeWarning
from obygaze_features.core.files import VIDEO_SUFFIXES
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.tables import TableRow
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.adapters import ImportedManifest
from obygaze_features.manifest.io import clips_of_table, ids_of_names
from obygaze_features.manifest.link import (
    find_videos,
    manifests_with_videos,
    require_videos,
)
from obygaze_features.manifest.listing import TITLE
from obygaze_features.manifest.model import Header, Manifest, Windows, ascii_id

_NUMBERED = re.compile(r"(.+?)(?:_scene_0*([0-9]{1,4})|-([0-9]{3}))")


def read(folder: str | Path, *, name: str | None = None) -> ImportedManifest:
    """Read a folder of videos: one clip for each file, without labels.

    The film of a clip is the folder that the file is in; of a file at the top, its name up to the
    scene's number (lake of lake-001.mp4 and lake_scene_001.mp4), else the whole name. Files without
    scene numbers are in the order of their names, in which part2 is before part10.

    Args:
        folder: The folder; no video is opened.
        name: The name of the manifest. By default that of the folder.
    """
    folder = Path(folder)
    # Parts of a film that have no scene numbers follow each other in this order.
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
    hint = "rename it: letters, digits, . _ -"
    violations.raise_if_any("a video cannot be named as a clip", hint)
    title = name or ascii_id(folder.resolve().name) or "videos"
    header = Header(title, video_root=folder.resolve().as_posix())
    return ImportedManifest(Manifest(title, header, clips, columns))


def manifests_of_folder(folder: Path, workspace: Workspace) -> list[Manifest]:
    """Return the manifests of a workspace whose videos are those of a folder."""
    root = folder.resolve().as_posix()
    known = manifests_with_videos(workspace)
    return [manifest for manifest in known if manifest.header.video_root == root]


def warn_of_other_videos(folder: Path, manifest: Manifest) -> None:
    """Warn of the videos of a folder that a manifest of it does not have, such as later ones."""
    if not folder.is_dir() or folder.resolve().as_posix() != manifest.header.video_root:
        return
    cut = manifest.clips.films if isinstance(manifest.clips, Windows) else manifest
    known = {rows.video for rows in cut}
    others = [video for video in find_videos(folder) if video not in known]
    if others:
        warnings.warn(
            f"{manifest.name} does not have {few(others)} of the folder {folder}:"
            " make the manifest again, or another one",
            ObygazeWarning,
            stacklevel=2,
        )


def is_folder_of_videos(name: PathLike, workspace: Workspace) -> bool:
    """Return whether a name is that of a folder of videos, and of no manifest.

    A video is an error that names its folder.
    """
    path = Path(name)
    # `.` is a folder, and no name.
    if path.name and workspace.manifest(os.fspath(name)).is_file():
        return False
    if path.suffix.lower() in VIDEO_SUFFIXES and path.is_file():
        raise FixUsage(
            f"{path} is a film, expected the folder of films",
            hint=f"{path.parent}, the folder that it is in",
        )
    return path.is_dir() and bool(find_videos(path))


def _by_number(name: str) -> list[tuple[str, int]]:
    """Return the key that sorts names by the numbers in them: part2 before part10."""
    parts = re.split(r"([0-9]+)", name)
    return [
        (text, int(digits or 0))
        for text, digits in zip_longest(parts[::2], parts[1::2])
    ]


def _film_and_scene(file: PurePosixPath) -> tuple[str, str]:
    """Return the film and the scene number that the path of a video says; "" without a number."""
    folders = "/".join(file.parts[:-1])
    numbered = _NUMBERED.fullmatch(file.stem)
    if numbered is None:
        return folders or file.stem, ""
    number = int(numbered[2] or numbered[3])
    return folders or numbered[1], str(number)
