"""Link clips to their videos, and compare their times with how long the videos are."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from obygaze_features.core.console import few
from obygaze_features.core.errors import InstallExtra, NotFound
from obygaze_features.core.workspace import PathLike
from obygaze_features.manifest.io import manifest_path, read_manifest, update_manifest
from obygaze_features.manifest.link import SHOWN_CLIPS, LinkReport, link
from obygaze_features.manifest.model import Clip, Manifest

# Times are rounded, and headers too: two or three pictures.
PAST_END_S = 0.1


def link_manifest(
    manifest: PathLike,
    folder: str | Path,
    *,
    table: str | Path | None = None,
    workspace: PathLike | None = None,
) -> LinkReport:
    """Find the video of each clip under a folder.

    A clip's own file is found by its name, whatever its extension; else the clip is a part of
    the file that is named as its film, by its times. Blanks and other characters that ids have not
    are read as `_`, and capitals count where two films differ in them alone: `LES YEUX.mov` is the
    film Les_Yeux. The headers of videos are read where clips have times: clips that end after their
    video are named. Clips without a video are counted, and files without a clip; -v lists them all.

    Args:
        manifest: The manifest, which is written anew with the videos.
        folder: The folder with the videos, in any structure.
        table: A table with the file of each film whose file is named otherwise: columns movie_id
            and video, a path in the folder.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze manifest link obygaze12 /data/moviegraphs/clips
        obygaze manifest link obygaze12 /data/films --table files.csv
        obygaze manifest link obygaze12 /data/films --json
    """
    path = manifest_path(manifest, workspace=workspace)
    before = read_manifest(path)
    report = link(before, Path(folder), table)
    if not (report.by_name or report.by_time or report.ambiguous):
        raise NotFound(
            "no file matches a clip",
            where=str(folder),
            hint="give the folder of the videos, named as the films or the clips are, or --table"
            " FILE with the files of films; clips that are parts of films also need times, the"
            " columns start_s and end_s",
            details=[
                f"video files: {few(report.unmatched, SHOWN_CLIPS) or 'none'}",
                f"films: {few(before.films, SHOWN_CLIPS) or 'not stated'}",
            ],
        )
    update_manifest(before, report.manifest, path)
    return replace(report, past_end=clips_past_end(report.manifest))


def clips_past_end(manifest: Manifest) -> dict[str, tuple[float, float]]:
    """Return the clips that end after their video: when they end, and when it does, in seconds.

    A video ends when its header says so. Those that cannot be read are passed over: extraction
    says why.
    """
    # PyAV is loaded only where videos are read, and not by the help of the command.
    from obygaze_features.video.container import BadVideo
    from obygaze_features.video.subtitles import length_of

    clips_of_video: dict[str, list[Clip]] = defaultdict(list)
    for clip in manifest:
        if clip.video and clip.end_s is not None:
            clips_of_video[clip.video].append(clip)
    past_end = {}
    for video, clips in clips_of_video.items():
        with suppress(BadVideo, InstallExtra):
            length_s = length_of(Path(manifest.header.video_root, video))
            for clip in clips:
                end_s = clip.end_s or 0.0
                if length_s and end_s - length_s > PAST_END_S:
                    past_end[clip.clip_id] = (end_s, length_s)
    return past_end
