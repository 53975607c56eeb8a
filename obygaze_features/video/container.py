"""Open local video files of known formats, and choose the streams of the film."""

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.file_names import compose_accents
from obygaze_features.core.files import STILL_SUFFIXES
from obygaze_features.core.lazy import import_optional

# Formats whose packets carry times that are reliable if they are complete and unique.
TIMED_CONTAINERS = ("mov", "matroska", "webm", "mpegts", "mpeg", "flv", "nut", "wtv")
# Formats that may be opened. FFmpeg also reads play lists and text art as video: a play list would
# make it open other files and addresses, text art turns any text into pictures.
CONTAINERS = (
    ",".join(TIMED_CONTAINERS)
    + ",avi,h264,hevc,vvc,m4v,mpegvideo,h263,h261,mjpeg,obu,av1,ivf,ogg,asf,gif,apng,mxf,rm"
    ",dv,gxf,vc1,yuv4mpegpipe,swf,dirac,cavsvideo"
)

# The number of bytes that are read to recognise the format of a picture, and the bit that marks an
# animated WebP.
PICTURE_HEAD = 65536
ANIMATED_WEBP = 2

# Why a video cannot be used, with a hint for each reason; "" where there is none.
REASONS = {
    "missing": "correct the path of the video",
    "folder": "use a file in this folder",
    "unreadable": "",
    "animated": "save the picture as GIF, APNG or a video",
    "no-video": "",
    "no-frames": "",
    "no-words": "",
    "no-sound": "",
    "too-short": "",
    "truncated": "",
    "outside": "use a part that lies within the video",
    "too-long": "use an end within the video, in seconds, or no end",
    "clock": "write the film again, with one count of times: ffmpeg -i FILE -c copy NEW.mkv",
    "order": "write the file again: ffmpeg -i FILE NEW.mkv",
    "damaged": "",
    "too-large": "use a smaller --count",
    "shape": "cut the file where the size of its pictures changes, and link each part as a"
    " separate film",
    "colours": "write the file again with the colours of its source, such as BT.709",
    "timeout": "",
    "crashed": "",
    "error": "run the same command again",
}

SETTINGS_CHANGE = (
    "the settings of its codec change in the file, as in joined recordings"
)
PICTURES_CUT_OFF = "the file is incomplete: pictures of this part are missing"

# Profiles of Dolby Vision without other colours. The other profiles have them, but old files do not
# state which: their compatibility is 0 too.
_DOLBY_VISION_ONLY = re.compile(
    "DOVI configuration record: .*profile: (?:1|3|5|10|20), .*compatibility id: 0,"
)

# Titles of commentaries.
_COMMENTARY = re.compile(
    "[ck]omm?ent[aá]|comment[is]|commento|kommentti|(?<!тифло)комм?ентар|コメンタリ",
    re.IGNORECASE,
)
# Titles of tracks for people who hear or see less; "Signs" may also be the name of a film.
_FOR_SOME = re.compile(
    r"descri|deskr[iy]|hörfilm|тифлокомм?ентар|\b(?:SDH|CC|HoH|deaf|signs)\b"
    r"|closed.caption|hearing.impaired|hard.of.hearing|hörgeschäd|gehörlos|malentendant"
    r"|\b(?:sourds|sordos|sordi|non udenti|surdos|doven)\b|slechthorend|hörselskad"
    r"|hørehæmmed|hørselshemm|kuulovamm|słyszących|neslyšíc|глухих|слабослыш",
    re.IGNORECASE,
)
# Reasons that are errors of the caller, not faults of the file.
USUAL = ("missing", "folder", "animated", "outside", "too-long", "too-large")

# Called regularly during a long task.
OnProgress = Callable[[], None]


# Counts the errors that were logged since its last call, and returns the total. With a name, it
# counts only the errors of this reader or decoder.
CountErrors = Callable[..., int]

_LOG_LOCK = threading.Lock()
_LOG_LEVELS: list[int | None] = []


class BadVideo(FixInput):
    """Raised for a file or clip that cannot be used; a run continues with its other clips.

    `reason` is a key of `REASONS`.
    """

    def __init__(self, message: str, *, path: Path | str, reason: str) -> None:
        super().__init__(message, where=str(path), hint=REASONS[reason])
        self.reason = reason
        if reason not in USUAL:
            self.exit_code = Corrupt.exit_code


def no_progress() -> None:
    """Do nothing. This function is the default of parameters called `progress`."""


def av() -> Any:
    """Return the module of PyAV, or raise an error that names the extra to install."""
    return import_optional("av", "video", "reading videos")


class OpenVideo(NamedTuple):
    """An open media file, its chosen stream, and the number of errors logged at opening."""

    container: Any
    stream: Any
    n_errors: int


@contextmanager
def open_video(path: Path, *, has_chapters: bool = True) -> Iterator[OpenVideo]:
    """Open a media file and choose its pictures; raise BadVideo if it cannot be opened.

    With `has_chapters=False`, FFmpeg does not read the chapters of MP4, so that errors in them are
    not reported. FFmpeg then does not know which video track holds the pictures of the chapters:
    this track may be chosen as the film.
    """
    container, n_errors = _open_container(path, has_chapters=has_chapters)
    with container:
        stream = _video_stream(container, path)
        if container.format.name == stream.codec_context.codec.canonical_name:
            # The container of a bare stream has the name of its decoder. Such a stream may refer to
            # data before the beginning of the file, which is no damage.
            n_errors = 0
        yield OpenVideo(container, stream, n_errors)


def errors_at_opening(path: Path, video: OpenVideo) -> int:
    """Return how many errors FFmpeg logs when it opens a file; errors in chapters do not count."""
    if not video.n_errors:
        return 0
    with open_video(path, has_chapters=False) as without_chapters:
        return without_chapters.n_errors


@contextmanager
def open_sound(path: Path) -> Iterator[OpenVideo]:
    """Open a media file and choose its sound; raise BadVideo if there is none."""
    container, n_errors = _open_container(path)
    with container:
        stream = _sound_stream(container, path)
        for other in container.streams:
            if other.index != stream.index:
                # Other streams are not read: this saves time, and their damage is not reported.
                other.discard = av().stream.Discard.all
        yield OpenVideo(container, stream, n_errors)


def check_is_file(path: Path) -> None:
    """Raise BadVideo if the path is not a file."""
    if not path.exists():
        raise BadVideo("no such file", path=path, reason="missing")
    if not path.is_file():
        raise BadVideo("expected a file, got a folder", path=path, reason="folder")


def _open_container(path: Path, *, has_chapters: bool = True) -> tuple[Any, int]:
    """Open a media file. Return it, and the number of errors that FFmpeg logged meanwhile."""
    library = av()
    check_is_file(path)
    try:
        picture = (
            _picture_format(path) if path.suffix.lower() in STILL_SUFFIXES else None
        )
        allowed = picture or CONTAINERS
        options = {"protocol_whitelist": "file", "format_whitelist": allowed}
        if not has_chapters:
            options["ignore_chapters"] = "1"
        # Without the prefix, a name with a colon would be read as an address.
        with count_logged_errors() as count_errors:
            container = library.open(
                f"file:{path}",
                format=picture,
                container_options=options,
                metadata_errors="replace",
            )
            n_errors = count_errors(container.format.name)
    except (library.FFmpegError, OSError, ValueError) as error:
        message = "no permission to read the file"
        if not isinstance(error, PermissionError):
            with path.open("rb") as file:
                head = file.read(16)
            message = (
                "the file is not a video in a known format, or its beginning is damaged"
            )
            if not head:
                message = "the file is empty"
            if b"ftyp" in head:
                message = (
                    "the file ends before its table of contents (incomplete download)"
                )
        raise BadVideo(message, path=path, reason="unreadable") from error
    return container, n_errors


def _picture_format(path: Path) -> str | None:
    """Return the name of FFmpeg's reader for a still picture, or None for other files.

    The first bytes of the file select the reader. Without this name, FFmpeg would read some file
    names as patterns that stand for several files. Raise BadVideo for an animated WebP.
    """
    with path.open("rb") as stream:
        head = stream.read(PICTURE_HEAD)
    if head.startswith(b"\x89PNG\r\n"):
        return "apng" if b"acTL" in head.partition(b"IDAT")[0] else "png_pipe"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        if head[12:16] == b"VP8X" and int.from_bytes(head[20:21]) & ANIMATED_WEBP:
            message = "animated WebP cannot be decoded"
            raise BadVideo(message, path=path, reason="animated")
        return "webp_pipe"
    return "jpeg_pipe" if head.startswith(b"\xff\xd8\xff") else None


def _video_stream(container: Any, path: Path) -> Any:
    """Return the video stream of the film; raise BadVideo if there is none."""
    stream = _main_pictures(container)
    if stream is None:
        raise BadVideo("no video stream", path=path, reason="no-video")
    return stream


def _main_pictures(container: Any) -> Any | None:
    """Return the video stream of the film, or None.

    It is the stream flagged as default, or else the one with the largest pictures. Covers,
    thumbnails and still pictures do not count.
    """
    kinds = av().stream.Disposition
    not_moving = kinds.attached_pic | kinds.timed_thumbnails | kinds.still_image
    streams = [
        stream
        for stream in container.streams.video
        if not stream.disposition & not_moving and stream.codec_context is not None
    ]
    return max(
        streams,
        key=lambda stream: (
            bool(stream.disposition & kinds.default),
            stream.codec_context.width * stream.codec_context.height,
            -stream.index,
        ),
        default=None,
    )


def streams_of_film(container: Any) -> list[Any]:
    """Return the streams that may belong to the film.

    A transport stream may contain several programs, such as television channels. Streams of a
    program without the pictures of the film are left out.
    """
    streams = list(container.streams)
    pictures = _main_pictures(container)
    if pictures is None:
        return streams
    programs = _programs(container)
    for program in programs:
        if pictures.index in program:
            # A stream that is in no program may belong to this one.
            others = set[int]().union(*programs) - program
            return [stream for stream in streams if stream.index not in others]
    return streams


def _programs(container: Any) -> list[set[int]]:
    """Return a set of stream numbers for each program of a transport stream."""
    if container.format.name != "mpegts":
        return []
    programs = []
    for line in _description(container).partition("\n  No Program\n")[0].splitlines():
        if line.startswith("  Program "):
            programs.append(set[int]())
        stream = re.match(r"  Stream #0:(\d+)", line)
        if stream and programs:
            programs[-1].add(int(stream[1]))
    return programs


def _description(container: Any) -> str:
    """Return FFmpeg's description of a file, with the facts that PyAV does not return."""
    logging = av().logging
    with _LOG_LOCK:
        level = logging.get_level()
        logging.set_level(logging.INFO)
        try:
            return str(container.dumps_format())
        finally:
            logging.set_level(level)


def crop_of(container: Any, stream: Any, path: Path) -> tuple[int, ...]:
    """Return the pixels that players cut off at the left, right, top and bottom of pictures.

    Raise BadVideo if the colours are those of Dolby Vision only.
    """
    facts = ""
    for text in _description(container).split("\n  Stream #0:"):
        if re.match(rf"{stream.index}\b", text):
            facts = text
    if _DOLBY_VISION_ONLY.search(facts):
        message = "its colours are those of Dolby Vision only, which cannot be converted to RGB"
        raise BadVideo(message, path=path, reason="colours")
    crop = re.search(r"Frame Cropping: (\d+)/(\d+)/(\d+)/(\d+)", facts)
    return tuple(map(int, crop.groups())) if crop else (0, 0, 0, 0)


def clock_zero(container: Any) -> float:
    """Return the time stamp in the file, in seconds, at which the clock of clips is 0."""
    streams = streams_of_film(container)
    if len(streams) == len(container.streams):
        return (container.start_time or 0) / float(av().time_base)
    # Each program of a transport stream has a clock of its own.
    starts_s = [
        float(stream.start_time * stream.time_base)
        for stream in streams
        if stream.type in ("video", "audio") and stream.start_time is not None
    ]
    return min(starts_s, default=0.0)


def _sound_stream(container: Any, path: Path) -> Any:
    """Return the audio stream of the film; raise BadVideo if there is none."""
    streams = [
        stream for stream in streams_of_film(container) if stream.type == "audio"
    ]
    known = [stream for stream in streams if stream.codec_context is not None]
    stream = track_of_film(known)
    if stream is None:
        message = "no sound in the file"
        if streams:
            message = "its only sound is a commentary, or of an unknown codec"
        elif container.streams.audio:
            message = "its only sound belongs to a different program than its pictures"
        raise BadVideo(message, path=path, reason="no-sound")
    return stream


def track_of_film(streams: Sequence[Any]) -> Any | None:
    """Return the audio track of the film, or None.

    It is the track flagged as default, or else the first one. A commentary is never used. Tracks
    for people with impaired hearing or sight, and tracks with other words than the spoken ones
    (such as karaoke), are used only if the language of the default or first track has no other
    track. The kind of a track is known from its flags or from its title.
    """
    kinds = av().stream.Disposition
    for_some = kinds.hearing_impaired | kinds.visual_impaired | kinds.descriptions
    for_some |= kinds.captions | kinds.lyrics | kinds.karaoke
    for_some |= kinds.clean_effects | kinds.dependent
    of_film = [
        stream
        for stream in streams
        if not stream.disposition & kinds.comment
        and not _COMMENTARY.search(_title(stream))
    ]
    of_film.sort(
        key=lambda stream: (not stream.disposition & kinds.default, stream.index)
    )
    for_all = [
        stream
        for stream in of_film
        if stream.language == of_film[0].language
        and not stream.disposition & for_some
        and not _FOR_SOME.search(_title(stream))
    ]
    return next(iter(for_all or of_film), None)


def _title(stream: Any) -> str:
    """Return the title and the names of a track, one on each line; MP4 has names only."""
    names = [stream.metadata.get(key, "") for key in ("title", "name", "handler_name")]
    return compose_accents("\n".join(names))


def demux(container: Any, stream: Any) -> Iterator[Any]:
    """Yield the packets of a stream in the order of the file.

    Raise BadVideo at a packet with other settings than those in the header of the file: a decoder
    that begins at a later packet would not know them.

    Of a still picture, only the first packet is yielded: a photograph may contain further pictures,
    such as a map of its brightness.
    """
    is_picture = container.format.name.endswith("_pipe")
    while True:
        try:
            for packet in container.demux(stream):
                if packet.size:
                    if packet.has_sidedata("new_extradata"):
                        _refuse_other_settings(packet, stream, container)
                    yield packet
                    if is_picture:
                        return
        except IndexError:
            # PyAV raises at a packet of a stream that appeared after the file was opened; the
            # packets after it can be read.
            continue
        return


def _refuse_other_settings(packet: Any, stream: Any, container: Any) -> None:
    header = stream.codec_context.extradata
    if bytes(packet.get_sidedata("new_extradata")) != header:
        path = container.name.removeprefix("file:")
        raise BadVideo(SETTINGS_CHANGE, path=path, reason="order")


@contextmanager
def count_logged_errors() -> Iterator[CountErrors]:
    """Count the errors that FFmpeg logs in this thread; it reports some damage only in its log."""
    logging = av().logging
    with _LOG_LOCK:
        _LOG_LEVELS.append(logging.get_level())
        logging.set_level(logging.ERROR)
        logging.set_skip_repeated(False)
    try:
        with logging.Capture() as lines:
            n_errors = 0

            def count(name: str = "") -> int:
                nonlocal n_errors
                if not lines:
                    return n_errors
                for level, logger, _ in lines:
                    # The part of FFmpeg that reads bytes for a reader has no name.
                    is_counted = not name or logger in ("", name)
                    n_errors += level <= logging.ERROR and is_counted
                lines.clear()
                return n_errors

            yield count
    finally:
        with _LOG_LOCK:
            before = _LOG_LEVELS.pop()
            if not _LOG_LEVELS:
                logging.set_level(before)
