"""Open and describe films; the stored index of a film is used for later clips and in later runs."""

import io
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from obygaze_features.core.console import count
from obygaze_features.core.external_calls import ERRORS_OF_DAMAGE
from obygaze_features.core.files import quick_sha256, sha256_bytes, write_atomic
from obygaze_features.video.container import (
    BadVideo,
    OnProgress,
    OpenVideo,
    av,
    no_progress,
    open_video,
)
from obygaze_features.video.index import (
    NO_PTS,
    FrameIndex,
    PacketRun,
    presentation_order,
)
from obygaze_features.video.packets import (
    DecodedOrder,
    IndexedFilm,
    read_packets,
    reorder_depth,
)
from obygaze_features.video.picture import PictureGeometry
from obygaze_features.video.source import (
    CHECKED,
    TRIES,
    FilmChanged,
    Indexed,
    VideoSource,
    is_key,
)

# The packets of files up to this size are kept in memory, since decoding reads them again.
KEEP_BYTES = 256 * 1024 * 1024
# The number of films whose indexes a process keeps in memory.
CACHED_FILMS = 4
SCHEMA = "obygaze-film-index/19"
_INDEX = tuple(item.name for item in fields(FrameIndex))

# The arrays, numbers and texts of an index file, by name.
Values = dict[str, Any]
T = TypeVar("T")


class FileState(NamedTuple):
    """The path, size and times of change of a file, and the folder of stored indexes."""

    path: str
    n_bytes: int
    times_ns: tuple[int, int]
    indexes: Path | None


_FILMS: dict[FileState, IndexedFilm] = {}
# When the pictures of small files without a stored index end.
_ENDS: dict[FileState, "PicturesEnd"] = {}


class PicturesEnd(NamedTuple):
    """When the pictures of a film end, and from which time on pictures are missing.

    `end_s` is NaN if the film has no pictures. If a file is broken and its header states a time
    later than the end of the last picture, the film ends at the time in the header: pictures and
    sound may be missing after the last picture. `cut_s` is the time from which on pictures are
    missing at the end, or infinity if none are missing there.
    """

    end_s: float
    cut_s: float


@dataclass(frozen=True)
class VideoInfo:
    """The description of a video."""

    path: Path
    container: str
    codec: str
    geometry: PictureGeometry
    index: FrameIndex
    damaged: bool

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON values."""
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
        }

    def __str__(self) -> str:
        """Return the description as text, one line for each fact."""
        index = self.index
        shape = self.geometry
        height, width = shape.upright
        stored = f"stored {shape.width} x {shape.height}"
        times = "not reliable; pictures counted"
        if index.timed:
            times = "exact, from the packets"
        elif not index.has_clock:
            times = (
                f"the clock is set back after picture {index.jump}; pictures counted"
            )
        lines = {
            "pictures": f"{index.frames}, {count(len(index.keys), 'key frame')}",
            "seconds": f"{index.duration_s:.3f}",
            "size": f"{width} x {height} as shown, {stored}, turned {shape.rotation} degrees",
            "codec": f"{self.codec} in {self.container}",
            "times": times,
            "damage": "found" if self.damaged else "none found",
        }
        return "\n".join(f"{name:9}{value}" for name, value in lines.items())


@contextmanager
def open_film(
    path: Path,
    indexes: Path | None = None,
    progress: OnProgress = no_progress,
) -> Iterator[VideoSource]:
    """Open a video, and read its packets once for its index.

    If the file is large or `indexes` is given, the index stays in memory for later calls.

    Args:
        path: the video file.
        indexes: the folder of stored indexes; None: no index is stored.
        progress: called regularly while an index is made.
    """
    with open_video(path) as video:
        identity = read_state(path, indexes)
        if indexes is None and identity.n_bytes <= KEEP_BYTES:
            source = _read(path, video, progress)
            _remember(_ENDS, identity, _find_end(source.film))
            yield source
            return
        film = _FILMS.get(identity)
        if film is None:
            film = _film(path, indexes, progress)
            _remember(_FILMS, identity, film)
        source = VideoSource(path, film, video.container, video.stream, progress)
        source.read_geometry()
        yield source


class _Opened(threading.local):
    """The film that this thread decoded last."""

    identity: FileState | None = None
    source: VideoSource | None = None
    close = ExitStack()


_OPENED = _Opened()


@contextmanager
def keep_film_open(
    path: Path,
    indexes: Path | None = None,
    progress: OnProgress = no_progress,
) -> Iterator[VideoSource]:
    """Open a video as `open_film` does. With `indexes`, it stays open for the next clip.

    It is closed after an error, and if the decoder is not as it was when the film was opened: the
    next clip must not depend on this one.
    """
    if indexes is None:
        with open_film(path, indexes, progress) as source:
            yield source
        return
    identity = None
    with suppress(OSError):
        identity = read_state(path, indexes)
    opened = _OPENED.source
    if opened is None or identity is None or identity != _OPENED.identity:
        _OPENED.source = None
        _OPENED.close.close()
        _OPENED.close = ExitStack()
        opened = _OPENED.close.enter_context(open_film(path, indexes, progress))
        _OPENED.identity = identity
    _OPENED.source = None
    opened.progress = progress
    try:
        yield opened
        if opened.is_as_opened:
            _OPENED.source = opened
    finally:
        if _OPENED.source is None:
            _OPENED.close.close()


def read_state(path: Path, indexes: Path | None) -> FileState:
    """Return the state of a file, which is different after each change of the file."""
    facts = path.stat()
    times_ns = facts.st_mtime_ns, facts.st_ctime_ns
    return FileState(str(path.absolute()), facts.st_size, times_ns, indexes)


def _remember(films: dict[FileState, T], identity: FileState, known: T) -> None:
    """Remember a film, and forget the oldest if there are too many."""
    films[identity] = known
    # Other threads may have removed an entry already.
    for oldest in list(films)[:-CACHED_FILMS]:
        films.pop(oldest, None)


def pictures_end(
    path: Path, indexes: Path | None, progress: OnProgress = no_progress
) -> PicturesEnd:
    """Return when the pictures of a film end; the end is NaN if no picture can be read."""
    known = _ENDS.get(read_state(path, indexes))
    if known is not None:
        return known
    try:
        with open_film(path, indexes, progress) as source:
            return _find_end(source.film)
    except FilmChanged:
        raise
    except BadVideo:
        return PicturesEnd(math.nan, math.inf)


def _find_end(film: IndexedFilm) -> PicturesEnd:
    index = film.index
    end_s = film.end_s(index)
    if not film.broken:
        end_s = float(index.times_s[-1]) + index.last_s
    return PicturesEnd(end_s, film.cut_s(index))


def probe(path: Path | str, *, decode: bool = False) -> VideoInfo:
    """Describe a video from one pass over its packets.

    Args:
        path: the video file.
        decode: also decode every picture. This is slower and finds damage inside pictures. It makes
            the number of pictures exact for files whose packets have no usable times.
    """
    with open_film(Path(path)) as source:
        film = source.film
        index = exact_index(source) if decode else film.index
        return VideoInfo(
            path=source.path,
            container=source.container.format.name,
            codec=source.codec,
            geometry=source.geometry,
            index=index,
            damaged=film.damaged,
        )


def film_index(
    path: Path, indexes: Path, progress: OnProgress = no_progress
) -> tuple[FrameIndex, tuple[int, int]]:
    """Return the exact index of a film, and the stored height and width of its pictures.

    If there is no index, it is made. If the times of packets are not reliable, the film is decoded
    to make the index.
    """
    with open_film(path, indexes, progress) as source:
        index = source.film.index
        shape = source.decoder.height, source.decoder.width
        return index if index.is_certain else exact_index(source), shape


def is_incomplete(path: Path, indexes: Path) -> bool:
    """Return whether pictures are missing from a broken file, inside it or at its end."""
    with open_film(path, indexes) as source:
        film = source.film
        whole = (0, film.index.frames)
        return film.is_incomplete(film.index, whole, None, None)


def exact_index(source: VideoSource) -> FrameIndex:
    """Decode the film and return its exact index: which packets show a picture, and when.

    A picture is a key frame if both the container and the decoder mark it as one. If the container
    marks no picture, the marks of the decoder count.
    """
    film = source.film
    index = film.index
    decoded = decoded_order(source)
    out = decoded.positions.tolist()
    if len(set(out)) < len(out):
        message = "several of its pictures are in one packet"
        raise BadVideo(message, path=source.path, reason="order")
    if index.timed and (film.damaged or not index.agrees_with(out)):
        # The order stated inside the packets is right, so the times that contradict it are wrong.
        index.broken[index.contradicted] = True
    key = np.zeros_like(index.key)
    key[decoded.positions] = decoded.key
    exact = index.correct_order(out, set(decoded.damage.tolist()))
    return replace(exact, key=index.key & key if index.key.any() else key)


def distrust(film: Indexed) -> None:
    """Stop seeking in a film whose packets differ from its index.

    If the film was already read without seeking, its index is wrong and is removed.
    """
    # In some files, seeking leads to packets that differ from the index. If packets differ even
    # when the film is read from its beginning, the index is wrong.
    if film.table.seekable:
        film.table.seekable = False
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


def decoded_order(source: VideoSource) -> DecodedOrder:
    """Return the pictures of a film in the order in which the decoder outputs them.

    The whole film is decoded if this order is neither in memory nor in a file.
    """
    film = source.film
    if film.decoded is not None:
        return film.decoded
    if film.folder is None:
        film.decoded = DecodedOrder(**_decode_whole(source))
        return film.decoded
    packets = np.concatenate([film.index.pts, film.index.size, film.offset])
    of_index = sha256_bytes(packets.tobytes())

    def make() -> Values:
        with open_film(source.path, None, source.progress) as whole:
            return {**_decode_whole(whole), "of_index": np.array(of_index)}

    def unpack(values: Values) -> DecodedOrder:
        if values.pop("of_index") != of_index:
            raise ValueError("the decoded order belongs to a different index")
        return DecodedOrder(**values)

    file = film.folder / "decoded.npz"
    film.decoded = read_or_make(file, make, unpack)
    return film.decoded


def _decode_whole(source: VideoSource) -> Values:
    """Decode a film from its beginning; return the fields of `DecodedOrder`."""
    outcome = source.run(source.whole, lambda _, __: source.progress())
    # Packets before the first picture belong to a picture that is not in the file.
    first = int(source.film.index.order.min())
    damage = [at for at in sorted(outcome.damage) if at >= first]
    return {
        "positions": np.array(outcome.out, np.int64),
        "key": np.array([at in outcome.keys for at in outcome.out], bool),
        "damage": np.array(damage, np.int64),
    }


def _film(path: Path, indexes: Path | None, progress: OnProgress) -> IndexedFilm:
    """Return the index of a film.

    If `indexes` is given, the index is read from a file in this folder, which is made if needed.
    """

    def read() -> IndexedFilm:
        with open_video(path) as video:
            return _read(path, video, progress).film

    if indexes is None:
        return read()
    file = index_file(path, indexes)

    def make() -> Values:
        film = read()
        index = {name: getattr(film.index, name) for name in _INDEX}
        facts = {
            "is_broken": film.broken,
            "declared_s": film.declared_s,
            "offset": film.offset,
            "takes_key_twice": film.takes_key_twice,
        }
        return {**index, **facts}

    def unpack(values: Values) -> IndexedFilm:
        index = {name: values[name] for name in _INDEX if name in values}
        return IndexedFilm(
            FrameIndex(**index),
            values["is_broken"],
            values["declared_s"],
            values["offset"],
            file.parent,
            takes_key_twice=values["takes_key_twice"],
        )

    return read_or_make(file, make, unpack)


def index_file(path: Path, indexes: Path) -> Path:
    """Return the path of the index file for the present content of a film.

    The path contains a hash of the quick hash of the film and of its times of change. The quick
    hash reads only parts of the film. A change of another part changes the times. If a program
    restores the time of modification, the time of the last status change still changes.
    """
    facts = path.stat()
    state = f"{quick_sha256(path)[1]} {facts.st_mtime_ns} {facts.st_ctime_ns}"
    return indexes / sha256_bytes(state.encode()) / "index.npz"


def _read(path: Path, video: OpenVideo, progress: OnProgress) -> VideoSource:
    """Read the packets of an open video; correct its index where decoding shows it to be wrong."""
    packets: list[Any] | None = [] if path.stat().st_size <= KEEP_BYTES else None
    film = read_packets(path, video, packets, progress)
    source = VideoSource(path, film, video.container, video.stream, progress, packets)
    source.read_geometry()
    film.index = _use_times_of_shown(source)
    film.index = _remove_undecodable_head(source)
    before_key = _before_first_key(source)
    film.index.broken[before_key] = True
    film.broken |= bool(before_key)
    # In a copy from AVI the codec reorders pictures, but the times are those of decoding.
    order_of_file = bool((np.diff(film.index.order) > 0).all())
    if film.index.timed and source.decoder.reorder_depth > 0 and order_of_file:
        out = source.positions(min(CHECKED, source.whole.stop))
        if not film.index.agrees_with(out):
            film.index = film.index.without_times()
    if not film.index.frames:
        raise source.no_picture_error()
    film.takes_key_twice = _takes_key_twice(source)
    return source


def _takes_key_twice(source: VideoSource) -> bool:
    """Return whether the decoder outputs early pictures if it gets the key frame twice.

    Early pictures are stored after the key frame but shown before it. Some decoders skip them even
    if they get the key frame twice. Others report the second copy of the key frame as an error.
    """
    index = source.film.index
    ranks = index.ranks
    keys = index.keys[(index.keys > 0) & (index.keys < len(ranks) - 1)]
    first_early = ranks[keys + 1]
    keys = keys[(first_early >= 0) & (first_early < ranks[keys])]
    for key in keys[:TRIES].tolist():
        stop = min(key + CHECKED, source.whole.stop)
        early = index.shown_before(key, stop)
        to_last = PacketRun(key, early[-1], frozenset())
        outcome = source.run(to_last, lambda _, __: None, twice=True)
        if not outcome.has_reports and set(outcome.out) >= set(early):
            return True
    return False


def _use_times_of_shown(source: VideoSource) -> FrameIndex:
    """Return the index sorted by times, if all packets without a time show no picture.

    Otherwise return the index unchanged. A film that was cut in an open group of pictures begins
    with pictures that cannot be decoded. Some programs write these pictures without a time.
    """
    index = source.film.index
    timeless = index.order[index.pts[index.order] == NO_PTS]
    if index.timed or not index.pts_are_times or not len(timeless):
        return index
    decoded = source.positions(int(timeless.max()))
    if len(np.intersect1d(decoded, timeless)):
        return index
    shown = np.zeros(len(index.pts), dtype=np.bool_)
    shown[index.order] = True
    shown[timeless] = False
    order = presentation_order(
        index.pts, shown, index.key, reorder_depth(source.decoder)
    )
    return index if order is None else index.with_times(order)


def _before_first_key(source: VideoSource) -> list[int]:
    """Return the positions of pictures stored or shown before the first key frame.

    The pictures to which they refer are missing. Some decoders show them nevertheless, on grey,
    and report no error. Some files flag no packets as key frames, or too many: therefore the
    decoder decides which key frame is the first.
    """
    index = source.film.index
    end = len(index.pts)
    first = int(index.keys[0]) if len(index.keys) and not source.begins_on_grey else end
    if first > 0:
        head = PacketRun(0, first - 1, frozenset())
        keys = source.run(head, lambda _, frame: is_key(frame)).keys
        first = min(keys, default=first)
    if first == 0:
        return []
    # Pictures stored after the key frame but shown before it also need pictures before it.
    stop = min(first + CHECKED, source.whole.stop)
    to_key = PacketRun(0, stop, frozenset())
    out = source.run(to_key, lambda position, _: position == first).out
    before_key = set(out) - {first} if first in out else set()
    before_key |= set(index.order[index.order < first].tolist())
    return sorted(before_key & set(index.order.tolist()))


def _remove_undecodable_head(source: VideoSource) -> FrameIndex:
    """Return the index without pictures that depend on packets before the beginning of the file.

    A recording that begins in the middle of a group of pictures contains such pictures. If the
    decoder outputs such a picture, it is kept.
    """
    index = source.film.index
    if not index.timed or not len(index.keys):
        return index
    first = int(index.keys[0])
    if index.pts[first] == NO_PTS:
        return index
    # A key frame may renew the picture gradually: then the first whole picture comes out later.
    begins_s = max(index.pts[first], index.pts[source.first])
    stored_before = index.order < first
    shown_before = index.pts[index.order] < begins_s
    head = index.order[stored_before | shown_before]
    if not len(head):
        return index
    outcome = source.run(PacketRun(0, int(head.max()), frozenset()), lambda _, __: None)
    lost = np.setdiff1d(head, outcome.out)
    if outcome.has_reports:
        # Damage after the beginning is not a reason to remove a picture.
        lost = lost[(lost < first) | (index.pts[lost] < index.pts[first])]
    return replace(index, order=index.order[~np.isin(index.order, lost)])


def read_or_make(
    file: Path, make: Callable[[], Values], unpack: Callable[[Values], T]
) -> T:
    """Return the content of a file. Make the file if it is missing, invalid or of another version.

    If another process is making the file, this process does not wait, since the other process may
    be suspended. Both processes write the same content.
    """
    # Versions may index a film differently.
    version = f"{SCHEMA} avformat {av().library_versions['libavformat']}"
    with suppress(*ERRORS_OF_DAMAGE):
        with np.load(file, allow_pickle=False) as arrays:
            values = {name: arrays[name] for name in arrays.files}
        if values.pop("version") == version:
            return unpack({n: v if v.ndim else v.item() for n, v in values.items()})
    made = make()
    stored = {name: value for name, value in made.items() if value is not None}
    data = io.BytesIO()
    np.savez_compressed(data, version=np.array(version), **stored)
    # In a workspace that cannot be written to, the content is not stored.
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, data.getvalue())
    return unpack(made)
