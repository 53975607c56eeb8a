"""Read the subtitles inside a video, with times on the clock of its clips."""

from bisect import bisect_right
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from obygaze_features.core.cues import Cue, ass_text
from obygaze_features.video.container import (
    BadVideo,
    OpenVideo,
    av,
    clock_zero,
    count_logged_errors,
    demux,
    errors_at_opening,
    is_forced,
    open_video,
    streams_of_film,
    track_of_film,
)
from obygaze_features.video.packets import declared_end


class Embedded(NamedTuple):
    """The cues of a video.

    Attributes:
        cues: The cues.
        stream: The name of the stream that was read; "" if the video has one stream of text.
        length_s: The end of the video that its header states, in seconds; 0 if it states none.
    """

    cues: list[Cue]
    stream: str
    length_s: float


def read_embedded(path: Path) -> Embedded:
    """Return the cues of a video, from the stream of text that `track_of_film` chooses.

    Subtitles that only translate foreign words are never read.
    """
    with open_video(path) as video:
        container = video.container
        stream, name = _stream_of_text(container, path)
        # Headers state the zero in microseconds, which a float does not hold exactly.
        zero = Fraction(clock_zero(container)).limit_denominator(10**6)
        cues = []
        for packet in _packets(video, stream, path):
            try:
                shown = stream.codec_context.decode2(packet)
            except av().FFmpegError as error:
                raise _no_words("its subtitles are damaged", path) from error
            if shown is None or packet.pts is None:
                continue
            start_s = packet.pts * packet.time_base - zero
            length_s = Fraction(shown.end_display_time, 1000)
            if packet.duration:
                length_s = packet.duration * packet.time_base
            lines = [
                ass_text(part.dialogue.decode("utf-8", "replace")) for part in shown
            ]
            cues.append(Cue(start_s, start_s + length_s, "\n".join(lines)))
        if not cues:
            raise _no_words("its subtitles have no cues", path)
        video_s = declared_end(container, video.stream)
    return Embedded(cues, name, video_s)


def _packets(video: OpenVideo, stream: Any, path: Path) -> list[Any]:
    """Return the packets of a stream; raise an error if some may be missing.

    Without this error, a part of a film whose subtitles are missing would count as a part without
    words.
    """
    error = _no_words(
        "the video is damaged or incomplete, so that words may be missing", path
    )
    with count_logged_errors() as count_errors:
        try:
            packets = list(demux(video.container, stream))
        except av().FFmpegError as reason:
            raise error from reason
        n_errors = count_errors(video.container.format.name)
    if n_errors or errors_at_opening(path, video):
        raise error
    return packets


def length_of(path: Path) -> float:
    """Return the end of a video that its header states, in seconds, or 0 if it states none."""
    with open_video(path) as video:
        return declared_end(video.container, video.stream)


def present_length_of(path: Path) -> float:
    """Return the end of the pictures that are in a file, in seconds, or 0 if it is unknown.

    The header of MP4 states where each picture is: in a copy that was cut short, the last ones are
    missing. The header of other formats states only the end.
    """
    with open_video(path) as video:
        n_bytes = path.stat().st_size
        entries = video.stream.index_entries
        n_present = bisect_right(
            entries, n_bytes, key=lambda entry: entry.pos + entry.size
        )
        if "mov" in video.container.format.name and n_present < len(entries):
            missing_s = float(entries[n_present].timestamp * video.stream.time_base)
            return missing_s - clock_zero(video.container)
        return declared_end(video.container, video.stream)


def _stream_of_text(container: Any, path: Path) -> tuple[Any, str]:
    """Return the subtitle stream to read, and its name: "" if there is one stream of text."""
    known = [
        stream for stream in streams_of_film(container) if stream.type == "subtitle"
    ]
    # A stream of an unknown codec has no context.
    streams = [stream for stream in known if stream.codec_context is not None]
    of_text = [stream for stream in streams if stream.codec_context.codec.text_sub]
    if not streams:
        problem = (
            "its subtitles are of an unknown kind" if known else "it has no subtitles"
        )
        raise _no_words(problem, path)
    if not of_text:
        names = ", ".join(sorted({stream.codec_context.name for stream in streams}))
        raise _no_words(f"its subtitles are pictures ({names}), not text", path)
    stream = track_of_film([stream for stream in of_text if not is_forced(stream)])
    if stream is None:
        problem = "its only subtitles are a commentary, or translate foreign words only"
        raise _no_words(problem, path)
    if len(of_text) == 1:
        return stream, ""
    language = f" ({stream.language})" if stream.language else ""
    return stream, f"subtitles {of_text.index(stream) + 1} of {len(of_text)}{language}"


def _no_words(message: str, path: Path) -> BadVideo:
    return BadVideo(message, path=path, reason="no-words")
