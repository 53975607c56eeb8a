"""An open video: any of its packets, their decoder, and the pictures that damage has affected."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.video.container import BadVideo, Progress, av, demux, open_video
from obygaze_features.video.index import NO_PTS, Damage, PacketRun
from obygaze_features.video.packets import Film
from obygaze_features.video.picture import PictureGeometry, geometry_of

# How many key frames are tried for a first picture before a file counts as having none.
TRIES = 8
# How many packets are decoded to read the geometry, or to check the order of suspicious times.
CHECKED = 64

# Called with the position of a picture and the picture; True ends the run.
Sink = Callable[[int, Any], bool | None]

# Containers in which seeking to a byte does not work; they have a table of pictures.
_WITHOUT_BYTES = ("mov", "matroska", "webm", "avi")
# How many packets before the wanted one are read where a container cannot begin in between.
BEFORE = (2, 32)
# Codecs in which no picture is built on a B picture: an error in one affects no other.
_LEAF_B_CODECS = frozenset({"mpeg1video", "mpeg2video", "mpeg4", "msmpeg4v3", "h263"})
_B_PICTURE = 3
# Without these options the decoders do not report the errors they conceal. The checksums of
# pictures in a stream of HEVC are compared if there are any.
_ERR_DETECT = {
    "hevc": "explode+crccheck",
    "mjpeg": "explode",
    "png": "explode+crccheck",
    "apng": "explode+crccheck",
}


class FilmChanged(BadVideo):
    """The packets of a film are not those of its index."""

    def __init__(self, film: Film, path: Path) -> None:
        message = "the file changes while it is read"
        super().__init__(message, path=path, stage="decode", reason="unreadable")
        self.film = film


@dataclass(frozen=True)
class BegunRun:
    """A run whose packets up to `last` are in the decoder, without an error.

    `pictures` are those that have come out, each with its position.
    """

    start: int
    last: int
    pictures: Sequence[tuple[int, Any]]


class VideoSource:
    """An open video and what is known of it; each picture decoded has the position of its packet.

    A packet is given its position in the file as its time, whatever the times in the file were, so
    that the picture decoded from it names its packet. `in_memory` are the packets of a small file,
    which stay there after the pass over them. `first` is the picture that was decoded to read the
    geometry, with its position, and `begun` the run that was begun for it. If the next run begins
    at the same packet, it goes on with that one, so that nothing is decoded twice. `last_packet` is
    the position of the last packet that was decoded; None once the decoder has returned the rest.
    """

    geometry: PictureGeometry
    first: tuple[int, Any] | None = None
    begun: BegunRun | None = None
    last_packet: int | None = None

    def __init__(
        self,
        path: Path,
        film: Film,
        container: Any,
        stream: Any,
        threads: int,
        progress: Progress,
        in_memory: Sequence[Any] | None = None,
    ) -> None:
        self.path = path
        self.film = film
        self.container = container
        self.stream = stream
        self.in_memory = in_memory
        self.progress = progress
        self.decoder = stream.codec_context
        self.decoder.thread_count = threads
        self.decoder.thread_type = "AUTO"
        self.codec = str(self.decoder.codec.canonical_name)
        if self.codec in _ERR_DETECT:
            self.decoder.options = {"err_detect": _ERR_DETECT[self.codec]}
        self.damage: Damage = {
            (at, True) for at in np.flatnonzero(film.index.broken).tolist()
        }

    @property
    def whole(self) -> PacketRun:
        """Return the run of all packets."""
        return PacketRun(0, len(self.film.index.pts) - 1, frozenset())

    @property
    def damaged(self) -> bool:
        """Return whether packets, or pictures decoded so far, are damaged or missing."""
        return self.film.broken or len(self.damage) > 0

    def read_geometry(self) -> None:
        """Decode the first picture that can be decoded, which sets `geometry` and `first`."""
        pictures: list[tuple[int, Any]] = []

        def take(position: int, frame: Any) -> bool:
            pictures.append((position, frame))
            return True

        for start in self.film.index.keys[:TRIES].tolist() or [0]:
            stop = min(start + CHECKED, self.whole.stop)
            fine = self.run(PacketRun(start, stop, frozenset()), take, record=False)
            if not pictures:
                continue
            if fine:
                self.first = pictures[0]
            # Other packets are read again after seeking, which empties the decoder.
            if fine and self.in_memory is not None and self.last_packet is not None:
                self.begun = BegunRun(start, self.last_packet, pictures)
            self.geometry = geometry_of(pictures[0][1], self.stream)
            return
        raise self.without_pictures()

    def without_pictures(self) -> BadVideo:
        """Return the error for a video in which no picture can be decoded."""
        message = "no picture can be decoded"
        return BadVideo(message, path=self.path, stage="decode", reason="no-frames")

    def packets(self, start: int, stop: int) -> Iterator[tuple[int, Any]]:
        """Yield the packets at positions start to stop, both included, in the order of the file."""
        if self.in_memory is not None:
            yield from enumerate(self.in_memory[start : stop + 1], start)
            return
        for position, packet in self._read_again(start):
            if packet.size != self.film.index.size[position]:
                raise FilmChanged(self.film, self.path)
            if position >= start:
                packet.pts = packet.dts = position
                yield position, packet
            # What follows may be damaged: it is not read.
            if position >= stop:
                return

    def _read_again(self, start: int) -> Iterator[tuple[int, Any]]:
        """Yield the packets of a file that is not kept, from near `start` if seeking is safe."""
        first, rest = self._first_after_seeking(start)
        try:
            if first is not None:
                yield first
                yield from enumerate(rest, first[0] + 1)
                return
            with open_video(self.path) as (container, stream):
                yield from enumerate(demux(container, stream))
        except av().FFmpegError as error:
            # The one pass over the packets read them without an error.
            raise FilmChanged(self.film, self.path) from error

    def _first_after_seeking(
        self, start: int
    ) -> tuple[tuple[int, Any] | None, Iterator[Any]]:
        """Return a packet at `start` or before it, and those after it; None if none is found."""
        for packets in self._seeks(start):
            # Some containers cannot be read from every place that seeking leads to.
            with suppress(av().FFmpegError):
                # The first packets after seeking may be parts of pictures.
                for packet in islice(packets, 2 * BEFORE[-1]):
                    position = self.film.position_of(packet)
                    if position is not None and position > start:
                        break
                    if position is not None:
                        return (position, packet), packets
        return None, iter(())

    def _seeks(self, start: int) -> Iterator[Iterator[Any]]:
        """Yield the packets after seeking to where a packet is in the file, and to its time."""
        film = self.film
        if not film.seekable:
            return
        formats = self.container.format.name.split(",")
        offsets = [int(film.offset[max(0, start - n)]) for n in (0, *BEFORE)]
        if any(name in _WITHOUT_BYTES for name in formats):
            offsets = []
        seeks = [(offset, True) for offset in offsets if offset >= 0]
        pts = int(film.index.pts[start])
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

    def run(
        self, run: PacketRun, sink: Sink, *, skip: bool = False, record: bool = True
    ) -> bool:
        """Decode a run and pass each picture to `sink`; return whether there was no new damage.

        With `skip`, pictures on which no other is built are left out unless they are wanted.
        Without `record`, new damage is not kept.
        """
        damage_before = set(self.damage)
        begun = self._begun_or_empty(run)
        pictures = begun.pictures if begun else ()
        is_finished = [bool(sink(*picture)) for picture in pictures]
        if not any(is_finished):
            self._run(run, sink, skip, begun.last if begun else run.start - 1)
        fine = self.damage == damage_before
        if not record:
            self.damage = damage_before
        return fine

    def _begun_or_empty(self, run: PacketRun) -> BegunRun | None:
        """Return the run that was begun if this one can go on with it; else empty the decoder."""
        begun = self.begun
        self.begun = None
        self.decoder.skip_frame = "DEFAULT"
        if begun is not None and begun.start == run.start and begun.last <= run.stop:
            return begun
        if self.decoder.is_open:
            self.decoder.flush_buffers()
        return None

    def _run(self, run: PacketRun, sink: Sink, skip: bool, decoded: int) -> None:
        """Decode the packets of a run after position `decoded`, and the rest in the decoder."""
        is_skipping = False
        for position, packet in self.packets(run.start, run.stop):
            if position <= decoded:
                continue
            unwanted = skip and position not in run.wanted
            if unwanted != is_skipping:
                is_skipping = unwanted
                self.decoder.skip_frame = "NONREF" if unwanted else "DEFAULT"
            self.last_packet = position
            if self._decode(packet, position, sink):
                return
        self.last_packet = None
        self.decoder.skip_frame = "DEFAULT"
        before = len(self.damage)
        self._decode(None, run.stop, sink)
        if len(self.damage) > before:
            # The pictures after the one that failed are still in the decoder.
            while not self._decode(None, run.stop, sink):
                continue

    def _decode(self, packet: Any, position: int, sink: Sink) -> bool:
        """Decode one packet, or with None the rest; return whether the run is finished."""
        try:
            frames = self.decoder.decode(packet)
        except EOFError:
            return True
        except av().FFmpegError:
            self.damage.add((position, True))
            return False
        enough = False
        for frame in frames:
            at = position if frame.pts is None else int(frame.pts)
            if frame.is_corrupt:
                leaf = (
                    frame.pict_type == _B_PICTURE
                    and self.decoder.name in _LEAF_B_CODECS
                )
                self.damage.add((at, not leaf))
            enough |= bool(sink(at, frame))
        return enough

    def positions(self, stop: int | None = None, *, record: bool = True) -> list[int]:
        """Return the positions of the pictures, up to packet `stop`, as they come out."""
        out: list[int] = []
        run = self.whole if stop is None else PacketRun(0, stop, frozenset())
        self.run(run, lambda position, _: out.append(position), record=record)
        return out
