"""A folder of videos: one clip for each file, without labels."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path, PurePosixPath

from obygaze_features.core.errors import FixInput
from obygaze_features.core.schema_check import Violations
from obygaze_features.manifest.adapters.common import ImportedManifest, ascii_id
from obygaze_features.manifest.io import clips_of
from obygaze_features.manifest.link import EXTENSIONS, find_videos
from obygaze_features.manifest.model import Header, Manifest
from obygaze_features.manifest.tables import TableRow

_SCENE = re.compile(r"(.+?)(?:_scene_0*([0-9]{1,4})|-([0-9]{3}))")


def read(folder: Path, *, name: str | None = None) -> ImportedManifest:
    """Return the manifest of the videos under a folder; each file is a clip.

    The film of a clip is the folder that the file is in. Of a file at the top it is the name up to
    the scene's number: `lake` of `lake-001.mp4` and `lake_scene_001.mp4`; else the whole name.

    Args:
        folder: The folder; no video is opened.
        name: The name of the manifest. By default that of the folder.
    """
    files = [PurePosixPath(file) for file in find_videos(folder)]
    if not files:
        known = ", ".join(EXTENSIONS)
        raise FixInput("no video in this folder", where=str(folder), hint=f"files named {known}")
    stems = Counter(ascii_id(file.stem) for file in files)
    violations = Violations(folder)
    file_of: dict[str, PurePosixPath] = {}
    rows = []
    for number, file in enumerate(files, 1):
        cells = _cells(file)
        if stems[cells["clip_id"]] > 1:
            cells["clip_id"] = f"{cells['movie_id']}-{cells['clip_id']}"
        if (first := file_of.setdefault(cells["clip_id"], file)) != file:
            what = f"two videos for the clip {cells['clip_id']!r}: {first} and {file}"
            raise FixInput(what, where=str(folder), hint="rename or remove one of them")
        rows.append((TableRow(number, cells, violations), cells))
    clips = clips_of(rows)
    violations.raise_if_any(
        "a video cannot be named as a clip", "rename it: letters, digits, . _ -"
    )
    title = name or ascii_id(folder.resolve().name) or "videos"
    header = Header(title, video_root=str(folder.resolve()))
    return ImportedManifest(Manifest(title, header, clips))


def _cells(file: PurePosixPath) -> dict[str, str]:
    scene = _SCENE.fullmatch(file.stem)
    at_top = scene[1] if scene else file.stem
    return {
        "clip_id": ascii_id(file.stem),
        "movie_id": ascii_id("_".join(file.parts[:-1]) or at_top),
        "scene": str(int(scene[2] or scene[3])) if scene else "",
        "video": str(file),
    }
