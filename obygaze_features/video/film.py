"""Open and describe films; an index can be kept, made once for all clips, processes and runs."""

import io
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from obygaze_features.core.console import count
from obygaze_features.core.files import locked, quick_sha256, sha256_bytes, write_atomic
from obygaze_features.store.importing.reader import DAMAGE
from obygaze_features.video.container import Progress, av, no_progress, open_video
from obygaze_features.video.index import (
    NO_PTS,
    FrameIndex,
    PacketRun,
    presentation_order,
)
from obygaze_features.video.losses import leading_after_losses, lost_before
from obygaze_features.video.packets import (
    DecodedOrder,
    Film,
    read_packets,
    reorder_depth,
)
from obygaze_features.video.picture import PictureGeometry
from obygaze_features.video.source import CHECKED, VideoSource

# Packets of files up to this size stay in memory after the one pass over them.
KEEP_BYTES = 256 * 1024 * 1024
# The number of films of which a process keeps what it knows.
CACHED_FILMS = 4
SCHEMA = "obygaze-film-index/7"
# Codecs of which every key frame is known as such from its packet.
_KEYS_ARE_KNOWN = frozenset(
    {
        "mpeg1video",
        "mpeg2video",
        "mpeg4",
        "msmpeg4v1",
        "msmpeg4v2",
        "msmpeg4v3",
        "wmv1",
        "wmv2",
        "h263",
        "flv1",
        "ffv1",
        "h264",
        "hevc",
        "vp8",
        "vp9",
        "av1",
    }
)
_I_PICTURE = 1
_INDEX = tuple(item.name for item in fields(FrameIndex))

# The arrays, numbers and texts of a file.
Values = dict[str, Any]
# A process that makes an index may be suspended: after so many seconds, others make it too.
_PATIENCE_S = 30.0
T = TypeVar("T")

_FILMS: dict[tuple[str, int, int, Path | None], Film] = {}


@dataclass(frozen=True)
class VideoInfo:
    """The description of a video; `missing` is the share of pictures that a broken file lacks."""

    path: Path
    container: str
    codec: str
    geometry: PictureGeometry
    index: FrameIndex
    damaged: bool
    missing: float

    def to_json(self) -> dict[str, Any]:
        """Return the description for programs."""
        return {
            "frames": self.index.frames,
            "width": self.geometry.width,
            "height": self.geometry.height,
            "rotation": self.geometry.rotation,
            "codec": self.codec,
            "container": self.container,
            "duration_s": self.index.duration_s,
            "times": "packets" if self.index.timed else "none",
            "clock_jumps": not self.index.has_clock,
            "damaged": self.damaged,
            "sar": str(self.geometry.sar),
            "rate": self.index.rate,
            "key_frames": len(self.index.keys),
            "missing": self.missing,
        }

    def __str__(self) -> str:
        """Return the description for people, one line for each fact."""
        index = self.index
        shape = self.geometry
        height, width = shape.upright
        stored = f"stored {shape.width} x {shape.height}"
        times = "not reliable; pictures counted"
        if index.timed:
            times = "exact, from packets"
        elif not index.has_clock:
            times = f"set back after picture {index.jump}; pictures counted"
        lines = {
            "pictures": f"{index.frames}, {count(len(index.keys), 'key frame')}",
            "seconds": f"{index.duration_s:.3f}",
            "size": f"{width} x {height} as shown, {stored}, turned {shape.rotation} degrees",
            "codec": f"{self.codec} in {self.container}",
            "times": times,
            "damage": "yes" if self.damaged else "none found",
        }
        if self.missing:
            lines["missing"] = f"{self.missing:.0%} of the pictures"
        return "\n".join(f"{name:9}{value}" for name, value in lines.items())


@contextmanager
def open_film(
    path: Path,
    indexes: Path | None = None,
    progress: Progress = no_progress,
    *,
    threads: int = 1,
) -> Iterator[VideoSource]:
    """Open a video whose packets have been read once; the index of a large one is remembered.

    Args:
        path: the video file.
        indexes: the folder that keeps the indexes of films, also of small ones.
        progress: called again and again while an index is made, also by another process.
        threads: how many threads may decode.
    """
    with open_video(path) as (container, stream):
        facts = path.stat()
        if indexes is None and facts.st_size <= KEEP_BYTES:
            yield _read(path, container, stream, progress, threads)
            return
        identity = str(path.absolute()), facts.st_size, facts.st_mtime_ns, indexes
        film = _FILMS.get(identity)
        if film is None:
            film = _FILMS[identity] = _film(path, indexes, progress)
            # Other threads may open films too, so that this one may be gone again.
            for oldest in list(_FILMS)[:-CACHED_FILMS]:
                _FILMS.pop(oldest, None)
        source = VideoSource(path, film, container, stream, threads, progress)
        source.read_geometry()
        yield source


def probe(path: Path | str, *, decode: bool = False, threads: int = 1) -> VideoInfo:
    """Describe a video from one pass over its packets.

    Args:
        path: the video file.
        decode: decode every picture too. This is slower, finds damage inside pictures, and makes
            the count exact for files whose packets have no usable times.
        threads: how many threads may decode.
    """
    with open_film(Path(path), threads=threads) as source:
        index = exact_index(source) if decode else source.film.index
        return VideoInfo(
            path=source.path,
            container=source.container.format.name,
            codec=source.codec,
            geometry=source.geometry,
            index=index,
            damaged=source.damaged,
            missing=source.film.missing_share(index, (0, index.frames), None),
        )


def make_index(path: Path, indexes: Path, progress: Progress = no_progress) -> None:
    """Make the index of a film if it is missing; without times, decode the film for it."""
    with open_film(path, indexes, progress) as source:
        if not source.film.index.timed:
            decoded_order(source)


def film_index(path: Path, indexes: Path) -> tuple[FrameIndex, tuple[int, int]]:
    """Return the exact index of a film, and the stored height and width of its pictures."""
    with open_film(path, indexes) as source:
        index = source.film.index
        shape = source.decoder.height, source.decoder.width
        return index if index.timed else exact_index(source), shape


def exact_index(source: VideoSource) -> FrameIndex:
    """Return the exact index, which decoding everything gives: which packets show a picture."""
    decoded = decoded_order(source)
    out = source.positions() if decoded is None else decoded.positions.tolist()
    if decoded is not None:
        source.damage |= decoded.damage
    return source.film.index.corrected(out, source.damage)


def distrust(film: Film) -> None:
    """Read a film from its beginning from now on; if it was read so, forget its index."""
    # Seeking shows other packets in some files. If reading does so too, the index is wrong.
    if film.seekable:
        film.seekable = False
        return
    for identity in [
        identity for identity, remembered in list(_FILMS.items()) if remembered is film
    ]:
        _FILMS.pop(identity, None)
    if film.folder is None:
        return
    for file in film.folder.glob("*.npz"):
        # In a workspace that cannot be written to, the film is read again.
        with suppress(OSError):
            file.unlink()


def decoded_order(source: VideoSource) -> DecodedOrder | None:
    """Return which pictures come out of the decoder; None for a film whose index is not kept.

    The whole film is decoded for it, but only once.
    """
    film = source.film
    if film.decoded is not None or film.folder is None:
        return film.decoded
    packets = np.concatenate([film.index.pts, film.index.size, film.offset])
    of_index = sha256_bytes(packets.tobytes())

    def make() -> Values:
        return {
            **_decode_whole(source.path, source.progress),
            "of_index": np.array(of_index),
        }

    def unpack(values: Values) -> DecodedOrder:
        if values["of_index"] != of_index:
            raise ValueError("the pictures of another index")
        damage = {(at, bool(spreads)) for at, spreads in values["damage"].tolist()}
        return DecodedOrder(values["positions"], values["key"], damage)

    film.decoded = _read_or_make(
        film.folder / "decoded.npz", make, unpack, source.progress
    )
    return film.decoded


def _decode_whole(path: Path, progress: Progress) -> Values:
    """Decode a film from its beginning; return the pictures that come out, and the damage."""
    positions = list[int]()
    keys = list[bool]()

    def take(position: int, frame: Any) -> None:
        positions.append(position)
        keys.append(bool(frame.key_frame))
        progress()

    with open_film(path, None, progress) as whole:
        damage_of_packets = set(whole.damage)
        whole.run(whole.whole, take)
        damage = sorted(whole.damage - damage_of_packets)
    return {
        "positions": np.array(positions, np.int64),
        "key": np.array(keys, bool),
        "damage": np.array(damage, np.int64).reshape(-1, 2),
    }


def _film(path: Path, indexes: Path | None, progress: Progress) -> Film:
    """Return what is known of a film, from the folder of its index if there is one."""

    def read() -> Film:
        with open_video(path) as (container, stream):
            return _read(path, container, stream, progress).film

    if indexes is None:
        return read()
    file = _index_file(path, indexes)

    def make() -> Values:
        film = read()
        index = {name: getattr(film.index, name) for name in _INDEX}
        facts = {
            "is_broken": film.broken,
            "declared_s": film.declared_s,
            "offset": film.offset,
        }
        return {**index, **facts}

    unpack = partial(_unpacked_film, folder=file.parent)
    return _read_or_make(file, make, unpack, progress)


def _index_file(path: Path, indexes: Path) -> Path:
    """Return the file that keeps the index of a film."""
    return indexes / quick_sha256(path)[1] / "index.npz"


def _unpacked_film(values: Values, folder: Path) -> Film:
    index = FrameIndex(
        **{name: value for name, value in values.items() if name in _INDEX}
    )
    broken, declared_s, offset = (
        values[n] for n in ("is_broken", "declared_s", "offset")
    )
    return Film(index, broken, declared_s, offset, folder)


def _read(
    path: Path, container: Any, stream: Any, progress: Progress, threads: int = 1
) -> VideoSource:
    """Read the packets of an open video; correct its index where decoding shows it to be wrong."""
    packets: list[Any] | None = [] if path.stat().st_size <= KEEP_BYTES else None
    film = read_packets(path, container, stream, packets, progress)
    source = VideoSource(path, film, container, stream, threads, progress, packets)
    # A film too large to keep is read a second time for losses, and only if a time is missing, its
    # clock is set back, or losses would be seen in the numbers of MPEG alone.
    index = film.index
    by_numbers = source.codec in ("mpeg1video", "mpeg2video") and not index.timed
    has_gap = bool(index.holes.any()) or index.jump >= 0
    if packets is not None or has_gap or by_numbers:
        everything = source.packets(0, source.whole.stop)
        coded = ((position, bytes(packet)) for position, packet in everything)
        lost = lost_before(film.index, source.codec, source.decoder.extradata, coded)
        film.index.broken[lost] = True
        film.broken |= bool(lost)
        source.damage |= {(at, True) for at in lost}
    if film.broken:
        leading = leading_after_losses(film.index)
        film.index.broken[leading] = True
        source.damage |= {(at, True) for at in leading}
    source.read_geometry()
    film.index = _with_times_where_shown(source)
    film.index = _without_undecodable_head(source)
    before_key = _before_first_key(source)
    film.index.broken[before_key] = True
    film.broken |= bool(before_key)
    source.damage |= {(position, True) for position in before_key}
    # In a copy from AVI the codec reorders pictures, but the times are those of decoding.
    order_of_file = bool((np.diff(film.index.order) > 0).all())
    if film.index.timed and source.decoder.reorder_depth > 0 and order_of_file:
        out = source.positions(min(CHECKED, source.whole.stop), record=False)
        film.index = (
            film.index if film.index.agrees_with(out) else film.index.without_times()
        )
    if not film.index.frames:
        raise source.without_pictures()
    return source


def _with_times_where_shown(source: VideoSource) -> FrameIndex:
    """Return the index with times, if only packets that show no picture are without one.

    A film that was cut in an open group begins with pictures that cannot be decoded, and some
    programs write these without a time.
    """
    index = source.film.index
    timeless = index.order[index.pts[index.order] == NO_PTS]
    if index.timed or not index.pts_are_times or not len(timeless):
        return index
    decoded = source.positions(int(timeless.max()), record=False)
    if len(np.intersect1d(decoded, timeless)):
        return index
    shown = np.zeros(len(index.pts), dtype=np.bool_)
    shown[index.order] = True
    shown[timeless] = False
    order = presentation_order(index.pts, shown, reorder_depth(source.decoder))
    return index if order is None else index.with_times(order)


def _before_first_key(source: VideoSource) -> list[int]:
    """Return the positions of pictures before the first key frame: they lack what they build on.

    Some decoders show them, on grey, without reporting an error. Some files do not say which
    packets are key frames, so that the decoder is asked.
    """
    index = source.film.index
    if source.codec not in _KEYS_ARE_KNOWN:
        return []
    keys = index.keys.tolist()
    if keys and index.is_gradual(keys[0]):
        # Only after the next one all parts of a picture are known.
        keys = keys[1:]
    first = keys[0] if keys else len(index.pts)

    def is_key_of_decoder(position: int, frame: Any) -> bool:
        nonlocal first
        if position < first and frame.key_frame and frame.pict_type == _I_PICTURE:
            first = position
            return True
        return False

    if first > 0:
        head = PacketRun(0, first - 1, frozenset())
        source.run(head, is_key_of_decoder, record=False)
    if first == 0:
        return []
    # Pictures that are stored after the key frame but shown before it build on earlier ones too.
    out: list[int] = []
    stop = min(first + CHECKED, source.whole.stop)

    def collect(position: int, _: Any) -> bool:
        out.append(position)
        return position == first

    source.run(PacketRun(0, stop, frozenset()), collect, record=False)
    before_key = set(out) - {first} if first in out else set()
    before_key |= set(index.order[index.order < first].tolist())
    return sorted(before_key & set(index.order.tolist()))


def _without_undecodable_head(source: VideoSource) -> FrameIndex:
    """Return the index without pictures that depend on packets before the beginning of the file.

    A recording that begins in the middle of a group has some; those that can be decoded are kept.
    """
    index = source.film.index
    if not index.timed or not len(index.keys):
        return index
    first = int(index.keys[0])
    stored_before = index.order < first
    shown_before = index.pts[index.order] < index.pts[first]
    head = index.order[stored_before | shown_before]
    if not len(head) or index.pts[first] == NO_PTS:
        return index
    lost = np.setdiff1d(head, source.positions(int(head.max()), record=False))
    return replace(index, order=index.order[~np.isin(index.order, lost)])


def _version() -> str:
    """Return what a kept file must have been written by: versions may index a film differently."""
    return f"{SCHEMA} avformat {av().library_versions['libavformat']}"


def _read_kept(file: Path, unpack: Callable[[Values], T]) -> T | None:
    """Return the content of a file; None if it is missing or invalid."""
    with suppress(*DAMAGE):
        with np.load(file, allow_pickle=False) as arrays:
            values = {name: arrays[name] for name in arrays.files}
        if values.pop("version") == _version():
            return unpack({n: v if v.ndim else v.item() for n, v in values.items()})
    return None


@contextmanager
def _turn(folder: Path, progress: Progress) -> Iterator[None]:
    """Let one process at a time make an index, and do not wait for ever for one that is stopped."""
    ends = time.monotonic() + _PATIENCE_S

    def wait() -> None:
        progress()
        if time.monotonic() > ends:
            raise TimeoutError

    with ExitStack() as stack:
        with suppress(TimeoutError):
            stack.enter_context(locked(folder, wait))
        yield


def _read_or_make(
    file: Path,
    make: Callable[[], Values],
    unpack: Callable[[Values], T],
    progress: Progress,
) -> T:
    """Return the content of a file; make it if it is missing or invalid, in one process if it can.

    Two processes that make it write the same.
    """
    value = _read_kept(file, unpack)
    if value is not None:
        return value
    # A workspace that cannot be written to has no indexes.
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
    with _turn(file.parent, progress) if file.parent.is_dir() else nullcontext():
        value = _read_kept(file, unpack)
        if value is not None:
            return value
        values = make()
        stored = {name: value for name, value in values.items() if value is not None}
        data = io.BytesIO()
        np.savez_compressed(data, version=np.array(_version()), **stored)
        with suppress(OSError):
            write_atomic(file, data.getvalue())
    return unpack(values)
