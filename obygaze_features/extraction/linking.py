"""Link clips to their videos, find the times of their frames, and compare times with videos."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, InstallExtra, NotFound
from obygaze_features.core.shell import shell_line
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.film_names import film_options
from obygaze_features.manifest.history import (
    command_line,
    manifest_word,
    with_command,
)
from obygaze_features.manifest.io import manifest_path, read_manifest, update_manifest
from obygaze_features.manifest.link import SHOWN_CLIPS, LinkReport, is_linked, link
from obygaze_features.manifest.model import Clip, Manifest
from obygaze_features.manifest.spans import named_file, span_in_film, stated_frames

# Tolerance for rounded times and headers: two or three pictures.
PAST_END_S = 0.1


def link_manifest(
    manifest: PathLike,
    folder: str | Path,
    *,
    film_names: Mapping[str, str] | None = None,
    workspace: PathLike | None = None,
) -> LinkReport:
    """Find the video of each clip under a folder.

    A file with the name of a clip, and any extension, is the video of this clip. Otherwise the clip
    is a part, by its times, of the file with the name of its film. In names, blanks and other
    characters that ids cannot contain are read as `_`. Case, blanks, `_`, `.` and a year in
    brackets matter only if several films could be meant: `LES YEUX (1959).mov` is the film
    Les_Yeux, which is said. If clips have times, the headers of videos are read, and clips that end
    after their video, and videos that cannot be read, are listed. Clips without a video, and files
    without a clip, are counted; the details of the result list them.

    A clip whose table counts frames gets the times of these frames in the file of its film. It is
    an error if the film has a different frame rate, or lacks these frames.

    Args:
        manifest: The manifest, which is rewritten with the videos.
        folder: The folder of the videos, which may be in subfolders.
        film_names: The name of the file of each film that has another name there.
        workspace: The workspace, if it is not the current one.
    """
    path = manifest_path(manifest, workspace=workspace)
    before = read_manifest(path)
    report = link(before, Path(folder), film_names)
    if not (report.by_name or report.by_time or report.ambiguous):
        hint = (
            "use a folder whose videos are named like the films or the clips; clips that are"
            " parts of films also need the columns start_s and end_s"
        )
        if report.likely:
            line = shell_line(["obygaze", "manifest", "link", manifest, folder])
            hint = f"{line} {film_options(report.likely)}"
        raise NotFound(
            "no video file matches a clip",
            where=str(folder),
            hint=hint,
            details=[
                f"video files: {few(report.unmatched, SHOWN_CLIPS) or 'none'}",
                f"films: {few(before.films, SHOWN_CLIPS) or 'not stated'}",
            ],
        )
    linked = set_times_of_frames(
        report, before, Workspace.of(workspace).folder("indexes")
    )
    words = [manifest_word(path, workspace), Path(folder)]
    options = {"--film": film_names}
    command = command_line("manifest link", words, options, workspace)
    linked = with_command(linked, command, before)
    update_manifest(before, linked, path)
    past_end, unreadable = compare_with_videos(linked)
    return replace(report, manifest=linked, past_end=past_end, unreadable=unreadable)


def set_times_of_frames(
    report: LinkReport, before: Manifest, indexes: Path
) -> Manifest:
    """Return linked clips. Clips that count frames get the times of these frames in the film.

    Args:
        report: The linked clips.
        before: The manifest before it was linked.
        indexes: The folder of stored indexes.
    """
    # PyAV is loaded only where videos are read, and not by the help of the command.
    from obygaze_features.extraction.film_frames import FilmFrames

    parts_of_films = frozenset(report.by_time)
    films: dict[str, FilmFrames] = {}
    clips = []
    problems = []
    for clip in report.manifest:
        is_part = clip.clip_id in parts_of_films and not named_file(clip)
        frames = stated_frames(clip.extra) if is_part else None
        if frames is not None:
            if clip.video not in films:
                path = Path(report.manifest.header.video_root, clip.video)
                films[clip.video] = FilmFrames(path, indexes)
            film = films[clip.video]
            given = before[clip.clip_id]
            stated_s = None if is_linked(given) else span_in_film(given)
            problem = film.problem_with(frames, stated_s)
            if problem:
                problems.append(f"{clip.clip_id} in {clip.video}: {problem}")
            else:
                start_s, end_s = film.find_times(frames)
                clip = replace(clip, start_s=start_s, end_s=end_s)
        clips.append(clip)
    if problems:
        raise FixInput(
            f"the film contradicts the frames of {count(len(problems), 'clip')}: {problems[0]}",
            where=before.name,
            hint="link the file in which the frames were counted, or correct the table and import"
            " it again with --force",
            details=problems[1:],
        )
    return replace(report.manifest, clips=tuple(clips))


def compare_with_videos(
    manifest: Manifest,
) -> tuple[dict[str, tuple[float, float]], dict[str, str]]:
    """Return the clips that end after their video, by id, and the videos that cannot be opened.

    Each clip has the end of the clip and the end of the video, in seconds. The end of a video is
    found in the header of its file. Each video that cannot be opened has the reason. Only videos of
    clips with an end are opened.
    """
    # PyAV is loaded only where videos are read, and not by the help of the command.
    from obygaze_features.video.container import BadVideo
    from obygaze_features.video.packets import present_length_of

    clips_of_video: dict[str, list[Clip]] = defaultdict(list)
    for clip in manifest:
        if clip.video and clip.end_s is not None:
            clips_of_video[clip.video].append(clip)
    past_end = {}
    unreadable = {}
    for video, clips in clips_of_video.items():
        length_s = 0.0
        try:
            length_s = present_length_of(Path(manifest.header.video_root, video))
        except InstallExtra:
            pass
        except BadVideo as error:
            # A file without pictures may have sound.
            if error.reason == "unreadable":
                unreadable[video] = error.message
        for clip in clips:
            end_s = clip.end_s or 0.0
            if length_s and end_s - length_s > PAST_END_S:
                past_end[clip.clip_id] = (end_s, length_s)
    return past_end, unreadable
