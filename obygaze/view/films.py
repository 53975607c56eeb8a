"""Where the clips and videos of a film lie on one axis: a pure function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from obygaze_features.manifest.link import film_span
from obygaze_features.manifest.model import Clip

# What an axis counts.
FILM, VIDEO = "time in the film", "time in the video"
ORDER = "clips in a row: their times in the film are unknown"


def lay_out(
    clips: Sequence[Clip], length_of: Callable[[str], float], rate: float
) -> dict[str, Any]:
    """Return the axis of a film, in seconds: the time in the film, or that in the video.

    Clips with files of their own and without times in the film follow each other by their scenes.

    Args:
        clips: The clips of one film.
        length_of: The length of a video in seconds.
        rate: Pictures per second, which numbers the pictures of the film.

    Returns:
        `axis`: what it counts; `end`; `spans`: start and end by clip; `pieces`: stretches that a
        video shows, from its second `offset` on, where the film has its picture `frame`.
    """
    in_film = {clip.clip_id: span for clip in clips if (span := film_span(clip))}
    in_video = {clip.clip_id: span for clip in clips if (span := span_in_video(clip))}
    videos = {clip.video for clip in clips if clip.video}
    if len(videos) == 1 and in_video and in_film in ({}, in_video):
        (video,) = videos
        spans, end = in_video, max(length_of(video), *(end for _, end in in_video.values()))
        pieces: list[dict[str, Any]] = [
            {"start": 0.0, "end": end, "video": video, "offset": 0.0, "frame": 0}
        ]
    else:
        spans, end = dict(in_film), max((end for _, end in in_film.values()), default=0.0)
        for clip in () if in_film else sorted(clips, key=lambda clip: clip.scene or 0):
            first, last = span_in_video(clip) or (0.0, length_of(clip.video))
            spans[clip.clip_id] = (end, end := end + last - first)
        pieces = [
            {
                **{"start": span[0], "end": span[1], "frame": round(span[0] * rate)},
                **{"video": clip.video, "offset": clip.start_s or 0.0},
            }
            for clip in clips
            if clip.video and (span := spans.get(clip.clip_id))
        ]
    axis = FILM if in_film else VIDEO if spans is in_video else ORDER
    pieces.sort(key=lambda piece: piece["start"])
    return {"axis": axis, "end": end, "spans": spans, "pieces": pieces}


def span_in_video(clip: Clip) -> tuple[float, float] | None:
    """Return start and end of a clip in its video; None if it is all of it."""
    return None if clip.start_s is None or clip.end_s is None else (clip.start_s, clip.end_s)
