"""Read the packets of an open video by position, decode them, and collect reported errors."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from obygaze_features.video.container import (
    BadVideo,
    CountErrors,
    OnProgress,
    OpenVideo,
    av,
    count_logged_errors,
    crop_of,
    demux,
    open_video,
)
from obygaze_features.video.index import NO_PTS, PacketRun
from obygaze_features.video.packets import IndexedFilm, PacketTable
from obygaze_features.video.picture import PictureGeometry, geometry_of

# The number of key frames to try for a first picture.
TRIES = 8
# The number of packets to decode for the geometry, or to check the order of suspicious times.
CHECKED = 64

# Called with the position of a picture and the picture; True ends the run.
Sink = Callable[[int, Any], bool | None]
# Opens a file again, at the same stream.
Open = Callable[[Path], AbstractContextManager[OpenVideo]]

# Containers in which seeking to a byte does not work; they have a table of pictures.
_WITHOUT_BYTES = ("mov", "matroska", "webm", "avi")
# Reading begins this many packets earlier where a container cannot be read from the wanted packet.
PACKETS_BEFORE = (2, 32)
# The number of pictures that a decoder of AV1 keeps for later ones.
_STORED_BY_AV1 = 8
# What a decoder checks: checksums, and whether the bits of a packet can be those of a picture. It
# then reports damage that it would otherwise conceal, and still returns the picture.
ERR_DETECT = "crccheck+bitstream+buffer"

# Proportions that differ by a smaller share are equal: television has wide pixels of two shapes.
SAME_SHAPE = 0.03

# The types of pictures that need no other: those without a type, and I.
_WHOLE = (0, 1)


class Indexed(Protocol):
    """The packets of a stream of a film, which are known without opening the file.

    `folder` holds the files of the index of the film; None: the index is not stored.
    """

    @property
    def folder(self) -> Path | None:
        """Return the folder of the index files."""
        ...

    @property
    def table(self) -> PacketTable:
        """Return the table by which packets are found again in the file."""
        ...


class FilmChanged(BadVideo):
    """The packets of a film are not those of its index."""

    def __init__(self, film: Indexed, path: Path) -> None:
        message = "the file changes while it is read"
        super().__init__(message, path=path, reason="unreadable")
        self.film = film


@dataclass
class DecodedRun:
    """The result of decoding a run of packets; pictures are given as positions of packets.

    Args:
        late: How many packets later than the damage a decoder may report an error.
        out: The pictures, in the order in which the decoder output them.
        keys: The key frames according to the decoder.
        corrupt: The pictures that the decoder calls corrupt.
        reports: For each reported error, the packet that the decoder had just got.
        ended_at: The packet at which the receiver of pictures (`sink`) ended the run; -1 if it did
            not.
    """

    late: int
    out: list[int] = field(default_factory=list)
    keys: set[int] = field(default_factory=set)
    corrupt: set[int] = field(default_factory=set)
    reports: list[int] = field(default_factory=list)
    ended_at: int = -1

    @property
    def has_reports(self) -> bool:
        """Return whether an error or a corrupt picture was reported."""
        return bool(self.reports or self.corrupt)

    @property
    def damage(self) -> set[int]:
        """Return the positions of the packets that may be damaged according to the reports.

        Damage lies at most `late` packets before its report. If a picture is reported that was
        output after an intact key frame, packets before this key frame do not count.
        """
        place = {position: place for place, position in enumerate(self.out)}
        whole_keys = self.keys - self.corrupt - set(self.reports)
        damage = set(self.corrupt)
        for position in self.reports:
            packets = range(max(position - self.late, 0), position + 1)
            if position in place:
                for key in whole_keys.intersection(packets):
                    if place[key] < place[position]:
                        packets = range(max(key, packets.start), position + 1)
            damage.update(packets)
        return damage

    def denied_keys(self, positions: Iterable[int]) -> list[int]:
        """Return those of `positions` that were decoded without an error, but not as key frames.

        The first packet of the film is never returned: no run can begin before it.
        """
        whole_or_damaged = self.keys | self.damage | {0}
        return sorted(set(positions) - whole_or_damaged)


@dataclass(frozen=True)
class _BegunRun:
    """A run from `start` that was ended at its first pictures; the decoder can continue it."""

    start: int
    pictures: Sequence[tuple[int, Any]]
    outcome: DecodedRun

    def is_beginning_of(self, run: PacketRun) -> bool:
        """Return whether the decoder got only the first packets of `run`, and can continue it."""
        return self.start == run.start and 0 <= self.outcome.ended_at <= run.stop


def is_key(frame: Any) -> bool:
    """Return whether a picture is a key frame that needs no other picture.

    If a video renews its picture gradually, the first picture of the renewal needs other pictures,
    even if it is flagged as a key frame.
    """
    return bool(frame.key_frame) and int(frame.pict_type) in _WHOLE


class PacketReader:
    """Reads packets of one stream of an open file, from any position.

    The time of a packet is replaced by its position in the file. `in_memory` holds the packets of a
    small file; None: packets are read from the file.
    """

    def __init__(
        self, path: Path, film: Indexed, container: Any, stream: Any, open_again: Open
    ) -> None:
        self.path = path
        self.film = film
        self.container = container
        self.stream = stream
        self.open_again = open_again
        self.in_memory: Sequence[Any] | None = None

    def packets(self, start: int, stop: int) -> Iterator[tuple[int, Any]]:
        """Yield the packets at positions start to stop, both included, in the order of the file."""
        if self.in_memory is not None:
            yield from enumerate(self.in_memory[start : stop + 1], start)
            return
        table = self.film.table
        for position, packet in self._read_again(start):
            if table.mark_of(packet) != table.marks[position]:
                raise FilmChanged(self.film, self.path)
            if position >= start:
                packet.pts = packet.dts = position
                yield position, packet
            # What follows may be damaged: it is not read.
            if position >= stop:
                return

    def _read_again(self, start: int) -> Iterator[tuple[int, Any]]:
        """Yield packets and their positions, from near `start` or from the beginning of a file."""
        first, rest = self._first_after_seeking(start)
        try:
            if first is not None:
                yield first
                yield from enumerate(rest, first[0] + 1)
                return
            with self.open_again(self.path) as (container, stream, _):
                yield from enumerate(demux(container, stream))
        except av().FFmpegError as error:
            # The one pass over the packets read them without an error.
            raise FilmChanged(self.film, self.path) from error

    def _first_after_seeking(
        self, start: int
    ) -> tuple[tuple[int, Any] | None, Iterator[Any]]:
        """Return a packet at or before `start`, and the packets after it; None if seeking fails."""
        for packets in self._seeks(start):
            # Some containers cannot be read from every place that seeking leads to.
            with suppress(av().FFmpegError):
                # The first packets after seeking may be parts of pictures.
                for packet in islice(packets, 2 * PACKETS_BEFORE[-1]):
                    position = self.film.table.find_position(packet)
                    if position is not None and position > start:
                        break
                    if position is not None:
                        return (position, packet), packets
        return None, iter(())

    def _seeks(self, start: int) -> Iterator[Iterator[Any]]:
        """Seek to byte offsets, and then to the time, and yield the packets after each attempt."""
        table = self.film.table
        if not table.seekable:
            return
        formats = self.container.format.name.split(",")
        offsets = [int(table.offset[max(0, start - n)]) for n in (0, *PACKETS_BEFORE)]
        if any(name in _WITHOUT_BYTES for name in formats):
            offsets = []
        seeks = [(offset, True) for offset in offsets if offset >= 0]
        pts = int(table.pts[start])
        if pts != NO_PTS:
            seeks.append((pts, False))
        for target, in_bytes in seeks:
            with suppress(av().FFmpegError):
                self.container.seek(
                    target,
                    stream=self.stream,
                    backward=True,
                    unsupported_byte_offset=in_bytes,
                )
                yield demux(self.container, self.stream)


class VideoSource(PacketReader):
    """An open video and its index; decoded pictures are identified by positions of packets.

    `first` is the position of the first decoded picture, from which the geometry was read.
    `begins_on_grey` is true if this picture refers to pictures that are missing.
    """

    film: IndexedFilm
    geometry: PictureGeometry
    _shape: tuple[float, int]
    first: int
    begins_on_grey: bool

    def __init__(
        self,
        path: Path,
        film: IndexedFilm,
        container: Any,
        stream: Any,
        progress: OnProgress,
        in_memory: Sequence[Any] | None = None,
    ) -> None:
        super().__init__(path, film, container, stream, open_video)
        self.in_memory = in_memory
        self.progress = progress
        self.decoder = stream.codec_context
        # With one thread, a message is about the packet that was just sent to the decoder.
        self.decoder.thread_count = 1
        self.decoder.options = {"err_detect": ERR_DETECT}
        self.codec = str(self.decoder.codec.canonical_name)
        # A run that the decoder has begun; the next run may continue it.
        self._begun: _BegunRun | None = None
        # What the decoder knew when the geometry was read; None before.
        self._known_at_first: tuple[int, ...] | None = None
        self._has_reports = False

    @property
    def whole(self) -> PacketRun:
        """Return the run of all packets."""
        return PacketRun(0, len(self.film.index.pts) - 1, frozenset())

    @property
    def late(self) -> int:
        """Return how many packets later than the damage a decoder may report an error.

        Some errors are found only when a delayed picture is output, or when a picture that needs
        the damaged one is decoded. AV1 keeps pictures that are shown or used later, in any order.
        """
        if self.codec == "av1":
            return _STORED_BY_AV1
        return int(self.decoder.reorder_depth) + 1

    def read_geometry(self) -> None:
        """Decode the first picture that can be decoded, and set the geometry from it."""
        pictures: list[tuple[int, Any]] = []

        def take(position: int, frame: Any) -> bool:
            pictures.append((position, frame))
            return True

        for start in self.film.index.keys[:TRIES].tolist() or [0]:
            stop = min(start + CHECKED, self.whole.stop)
            outcome = self.run(PacketRun(start, stop, frozenset()), take)
            if pictures:
                if self.in_memory is not None:
                    # Seeking in a file empties the decoder.
                    self._begun = _BegunRun(start, pictures, outcome)
                self.first, frame = pictures[0]
                is_whole = int(frame.pict_type) in _WHOLE
                self.begins_on_grey = self.first == start and not is_whole
                crop = crop_of(self.container, self.stream, self.path)
                self.geometry = geometry_of(frame, self.stream, crop)
                self._shape = self._shape_of(frame)
                self._known_at_first = self._known
                return
        raise self.no_picture_error()

    @property
    def is_as_opened(self) -> bool:
        """Return whether a film that is opened again would be decoded in the same way.

        A decoder may learn more from the pictures that it decodes, and keep it.
        """
        return not self._has_reports and self._known == self._known_at_first

    @property
    def _known(self) -> tuple[int, ...]:
        decoder = self.decoder
        return int(decoder.reorder_depth), decoder.width, decoder.height

    def check_shape(self, frame: Any) -> None:
        """Raise BadVideo if a picture has other proportions than the first picture.

        Joined recordings may contain such pictures. Without this error, they would be stretched to
        the proportions of the first picture.
        """
        wide, high = self._shape_of(frame)
        first_wide, first_high = self._shape
        if abs(wide * first_high / (high * first_wide) - 1) <= SAME_SHAPE:
            return
        message = (
            f"pictures have other proportions ({wide:.0f} x {high}) than those at the beginning"
            f" of the file ({first_wide:.0f} x {first_high})"
        )
        raise BadVideo(message, path=self.path, reason="shape")

    def _shape_of(self, frame: Any) -> tuple[float, int]:
        """Return the width and height that a picture would have if its pixels were square."""
        # In PyAV, a picture does not state the shape of its pixels. The decoder states it for the
        # picture that it got last, so a change may be seen some pictures too early.
        pixel = self.decoder.sample_aspect_ratio or 1
        return frame.width * float(pixel), frame.height

    def no_picture_error(self) -> BadVideo:
        """Return the error for a video in which no picture can be decoded."""
        return BadVideo("no picture can be decoded", path=self.path, reason="no-frames")

    def run(self, run: PacketRun, sink: Sink, *, twice: bool = False) -> DecodedRun:
        """Decode a run of packets, pass each picture to `sink`, and return the result.

        With `twice`, the decoder gets the first packet twice.
        """
        begun = self._begun
        self._begun = None
        outcome = DecodedRun(self.late)
        first = run.start
        if begun is not None and begun.is_beginning_of(run) and not twice:
            outcome = begun.outcome
            first = outcome.ended_at + 1
            ends = [sink(position, frame) for position, frame in begun.pictures]
            if any(ends):
                return outcome
        elif self.decoder.is_open:
            self.decoder.flush_buffers()
        with count_logged_errors() as count_errors:
            for position, packet in self.packets(run.start, run.stop):
                if position < first or position in run.left_out:
                    continue
                if twice and position == run.start:
                    self._decode(packet, position, sink, outcome, count_errors)
                if self._decode(packet, position, sink, outcome, count_errors):
                    outcome.ended_at = position
                    return outcome
            # The pictures after one that fails are still in the decoder.
            while not self._decode(None, run.stop, sink, outcome, count_errors):
                continue
        return outcome

    def run_with_early(self, run: PacketRun, sink: Sink) -> DecodedRun:
        """Decode a run of packets, and if possible check the pictures shown before its key frame.

        These early pictures also need a picture before the key frame, so that a decoder that begins
        at the key frame skips them without reading them. If an early picture is damaged, pictures
        after it may be damaged as well, and this would not be found. If the decoder gets the key
        frame twice, the first copy takes the place of the missing picture. The decoder then outputs
        wrong early pictures, which are removed, but it reports errors in their bits.
        """
        early = set(self.film.index.shown_before(run.start, run.stop))
        if run.start == 0 or not early or not self.film.takes_key_twice:
            return self.run(run, sink)

        def take(position: int, frame: Any) -> bool | None:
            return None if position in early else sink(position, frame)

        outcome = self.run(run, take, twice=True)
        outcome.out = [position for position in outcome.out if position not in early]
        if outcome.out.count(run.start) > 1:
            outcome.out.remove(run.start)
        return outcome

    def _decode(
        self,
        packet: Any,
        position: int,
        sink: Sink,
        outcome: DecodedRun,
        count_errors: CountErrors,
    ) -> bool:
        """Decode one packet (None: the delayed pictures); return whether the run is finished."""
        n_before = count_errors()
        frames: list[Any] = []
        is_finished = packet is None
        has_failed = False
        try:
            frames = self.decoder.decode(packet)
        except EOFError:
            return True
        except av().FFmpegError:
            has_failed = True
            is_finished = False
        # In a file of joined films, a later film may delay more pictures.
        outcome.late = self.late
        if has_failed or count_errors() > n_before:
            outcome.reports.append(position)
            self._has_reports = True
        for frame in frames:
            at = position if frame.pts is None else int(frame.pts)
            outcome.out.append(at)
            if is_key(frame):
                outcome.keys.add(at)
            if frame.is_corrupt:
                outcome.corrupt.add(at)
                self._has_reports = True
            is_finished |= bool(sink(at, frame))
        return is_finished

    def positions(self, stop: int) -> list[int]:
        """Decode up to packet `stop`; return the positions of pictures in the order of output."""
        run = PacketRun(0, stop, frozenset())
        return self.run(run, lambda _, __: None).out
