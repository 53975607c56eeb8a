"""The index of the sound of a film (its packets with their times), and its samples in sections.

*Section* k is the sound from second 10 k to second 10 k + 10. It is decoded by a new decoder that
begins at least a second earlier. All sound is taken from sections: some decoders return different
samples, up to the end of the film, if they begin elsewhere.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeVar
from zlib import crc32

import numpy as np

from obygaze_features.video.container import (
    BadVideo,
    CountErrors,
    OnProgress,
    OpenVideo,
    av,
    check_is_file,
    clock_zero,
    count_logged_errors,
    demux,
    no_progress,
    open_sound,
)
from obygaze_features.video.damage import first_doubtful_byte
from obygaze_features.video.film import (
    KEEP_BYTES,
    FileState,
    Values,
    index_file,
    read_or_make,
    read_state,
)
from obygaze_features.video.index import NO_PTS, Bools, Floats, Ints
from obygaze_features.video.packets import PacketTable
from obygaze_features.video.resample import Samples, mix_to_mono, resampler
from obygaze_features.video.source import ERR_DETECT, PacketReader

SCHEMA = "obygaze-sound-index/8"
SECTION_S = 10
# A decoder begins this many seconds before the first sample that is used. A section has this margin
# on both sides for a resampler.
BEFORE_S = 1
MARGIN_S = 0.02
# The rates for which these margins are enough, and a section is not too large.
LOWEST_RATE = 1000
HIGHEST_RATE = 1_000_000
# Samples are placed by counting. Counting begins again where the clock of the file differs from the
# count by more than these seconds and ticks, in as many packets in a row as have this length: at
# least three, since a time may be wrong, and at most nine. Where times jitter, there are nine.
DRIFT_S = 0.01
DRIFT_TICKS = 2
FAR_S = 0.3
_FEWEST_FAR = 3
_FAR_PACKETS = 9
# Times are rounded to ticks, or were rounded to milliseconds before the file was copied.
ROUNDED_S = 0.001
# A clock that goes back by more than this is set back; by less, packets overlap.
SET_BACK_S = 0.1
# The number of packets after a damaged one that may be damaged, too.
SPOILT = 3
# The seconds at an end of a stream whose packets may be without samples and not damaged.
CUT_S = 0.6
# The number of sections of a film that stay in memory, for neighbouring clips.
KEPT_SECTIONS = 2
# The number of packets on which a new decoder is compared with the decoder of the file.
_COMPARED = 16
# The number of packets that are compared with the clock, or with a part, at once.
_BLOCK = 4096
# The number of frames that are mixed at once, while the processor has them in its cache.
_MIXED = 64

K = TypeVar("K")


@dataclass(frozen=True, eq=False)
class SoundIndex:
    """One row for each packet of the sound of a film, in the order of the file.

    `first` is the number of the first sample of each packet on the clock of clips, and `samples` is
    the number of samples of each packet. `damaged` marks damaged packets. `stream` names the stream
    that was read; it is "" if the file has one audio stream. `takes_new_decoders` is true if a new
    decoder, with the parameters that PyAV exposes, returns the same samples as the decoder that
    belongs to the open file.
    """

    pts: Ints
    checksum: Ints
    offset: Ints
    first: Ints
    samples: Ints
    damaged: Bools
    rate: int
    stream: str
    takes_new_decoders: bool
    folder: Path | None = None

    @cached_property
    def table(self) -> PacketTable:
        """Return the table by which packets are found again in the file."""
        return PacketTable(self.pts, self.checksum, self.offset, crc32)

    @cached_property
    def sound_s(self) -> Floats:
        """Return the stretches [n, 2] of time, in seconds, that have samples or damaged packets."""
        return self._with_lost_ends(self._stretches(self.samples > 0))

    @cached_property
    def damaged_s(self) -> Floats:
        """Return the stretches [n, 2] of time, in seconds, with damaged samples or packets."""
        return self._with_lost_ends(self._stretches(self.damaged & (self.samples > 0)))

    def _with_lost_ends(self, stretches: Floats) -> Floats:
        """Return stretches with those of the damaged packets before the first sample and after all.

        These packets have no samples, so their number gives the length of the stretch.
        """
        (known,) = np.nonzero(self.samples > 0)
        length_s = np.median(self.samples[known]) / self.rate
        begin_s = self.first[known].min() / self.rate
        end_s = (self.first[known] + self.samples[known]).max() / self.rate
        n_before = np.count_nonzero(self.damaged[: known[0]])
        n_after = np.count_nonzero(self.damaged[known[-1] + 1 :])
        if n_before:
            before = [[begin_s - n_before * length_s, begin_s]]
            stretches = np.concatenate([before, stretches])
        if n_after:
            after = [[end_s, end_s + n_after * length_s]]
            stretches = np.concatenate([stretches, after])
        return stretches

    @cached_property
    def has_clock(self) -> bool:
        """Return whether a sample can be found by its time; false if the clock was set back."""
        # A damaged packet may have any time.
        first, stop = self._runs((self.samples > 0) & ~self.damaged).T
        back = np.maximum.accumulate(stop)[:-1] - first[1:]
        return not (back > SET_BACK_S * self.rate).any()

    @property
    def end_s(self) -> float:
        """Return when the sound ends; 0 if there is none."""
        return float(self.sound_s[-1, 1]) if len(self.sound_s) else 0.0

    def _stretches(self, chosen: Bools) -> Floats:
        """Return the start and end [n, 2], in seconds, of each run of chosen packets."""
        runs = self._runs(chosen)
        first, stop = runs[np.argsort(runs[:, 0])].T
        stop = np.maximum.accumulate(stop)
        begins = np.append(True, first[1:] > stop[:-1])[: len(first)]
        ends = np.roll(begins, -1)
        return np.stack([first[begins], stop[ends]], axis=1) / self.rate

    def _runs(self, chosen: Bools) -> Ints:
        """Return the first sample and the end [n, 2] of each run of chosen packets without gaps."""
        first = self.first[chosen]
        stop = first + self.samples[chosen]
        begins = np.append(True, first[1:] != stop[:-1])[: len(first)]
        ends = np.roll(begins, -1)
        return np.stack([first[begins], stop[ends]], axis=1)

    @cached_property
    def _blocks(self) -> tuple[Ints, Ints]:
        """Return the first sample of each block of packets, and the end of its last sample."""
        at = np.arange(0, len(self.first), _BLOCK)
        ends = np.maximum.reduceat(self.first + self.samples, at)
        return np.minimum.reduceat(self.first, at), ends

    def decoding_run(self, first: int, stop: int) -> tuple[int, range]:
        """Return the packet at which to begin decoding, and the packets of a range of samples."""
        begins, ends = self._blocks
        (near,) = np.nonzero((begins < stop) & (ends > first))
        if not len(near):
            return 0, range(0)
        at = int(near[0]) * _BLOCK
        rows = slice(at, (int(near[-1]) + 1) * _BLOCK)
        begins = self.first[rows]
        samples = self.samples[rows]
        has_samples = (begins < stop) & (begins + samples > first)
        inside = at + np.flatnonzero(has_samples & (samples > 0))
        if not len(inside):
            return 0, range(0)
        wanted = range(int(inside[0]), int(inside[-1]) + 1)
        second_before = first - BEFORE_S * self.rate
        is_before = self.first[: wanted.start + 1] <= second_before
        # Begin at the last packet before that second, or at the first packet of the film.
        start = wanted.start - int(np.argmax(is_before[::-1]))
        return start if is_before.any() else 0, wanted


# --- Make the index ---


def make_sound_index(
    path: Path, indexes: Path, progress: OnProgress = no_progress
) -> SoundIndex:
    """Return the stored index of the sound of a film; make and store it if it is missing."""
    file = index_file(path, indexes).parent / "sound.npz"
    # The file may be a copy from another film, whose packets may have the same sizes.
    made_of = (
        f"{SCHEMA} avcodec {av().library_versions['libavcodec']} {file.parent.name}"
    )
    names = [item.name for item in fields(SoundIndex) if item.name != "folder"]

    def make() -> Values:
        with open_sound(path) as opened:
            index = _read(path, opened, None, progress)
        values = {name: getattr(index, name) for name in names}
        return values | {"made_of": np.array(made_of)}

    def unpack(values: Values) -> SoundIndex:
        if values.pop("made_of") != made_of:
            raise ValueError("the index belongs to the sound of a different film")
        return SoundIndex(**values, folder=file.parent)

    return read_or_make(file, make, unpack)


def _read(
    path: Path,
    opened: OpenVideo,
    packets: list[Any] | None,
    progress: OnProgress,
) -> SoundIndex:
    """Decode the sound of an open file once; keep its packets if `packets` is a list."""
    container, stream, _ = opened
    rows = _Rows(stream.codec_context)
    with count_logged_errors() as count_errors:
        try:
            for packet in demux(container, stream):
                progress()
                rows.add(packet, count_errors)
                if packets is not None:
                    packet.pts = packet.dts = len(packets)
                    packets.append(packet)
        except av().FFmpegError:
            rows.damaged.add(max(len(rows.pts) - 1, 0))
        if rows.pts:
            # At the end, the decoder returns what it has held back.
            rows.decode(None, count_errors)
    # These arrays share the memory of the rows.
    samples = np.asarray(rows.samples)
    damaged = np.zeros(len(samples), dtype=np.bool_)
    for spoilt in rows.damaged:
        damaged[spoilt : spoilt + 1 + SPOILT] = True
    # A few packets before the first decodable one need a packet that is not in the file, and a few
    # at the end may be incomplete. More of them are damage.
    is_head = np.logical_and.accumulate(damaged)
    length_s = np.median(samples[samples > 0]) / rows.rate if samples.any() else 0.0
    if is_head.sum() * length_s <= CUT_S:
        samples[is_head] = 0
        damaged[is_head] = False
    is_tail = np.logical_and.accumulate((damaged & (samples == 0))[::-1])[::-1]
    if is_tail.sum() * length_s <= CUT_S:
        damaged[is_tail] = False
    if container.format.name == "avi":
        # AVI has no times, it counts samples: a missing packet would shift all samples behind it.
        first = first_doubtful_byte(path, 0, len(container.streams))
        damaged |= np.asarray(rows.offset) >= first
    if not samples.any():
        raise BadVideo("no sound can be decoded", path=path, reason="no-sound")
    if not LOWEST_RATE <= rows.rate <= HIGHEST_RATE:
        message = f"its sound has {rows.rate:,} samples a second, expected"
        message += f" {LOWEST_RATE:,} to {HIGHEST_RATE:,}"
        raise BadVideo(message, path=path, reason="no-sound")
    tick_s = float(stream.time_base)
    times = np.asarray(rows.time)
    return SoundIndex(
        pts=np.asarray(rows.pts),
        checksum=np.asarray(rows.checksum),
        offset=np.asarray(rows.offset),
        first=_first_samples(times, samples, tick_s, clock_zero(container), rows.rate),
        samples=samples,
        damaged=damaged,
        rate=rows.rate,
        stream=_stream_name(container, stream),
        takes_new_decoders=rows.takes_new_decoders,
    )


class _Rows:
    """The columns of an index while it is made; lists of numbers would take much more memory."""

    def __init__(self, decoder: Any) -> None:
        _report_all_errors(decoder)
        self.decoder = decoder
        self.new_decoder = _new_decoder_like(decoder)
        self.takes_new_decoders = True
        self.rate = int(decoder.sample_rate)
        self.pts = array("q")
        self.checksum = array("q")
        self.offset = array("q")
        self.time = array("q")
        self.samples = array("q")
        self.damaged: set[int] = set()
        self.n_errors = 0

    def add(self, packet: Any, count_errors: CountErrors) -> None:
        """Add a packet, and decode it."""
        position = len(self.pts)
        if packet.is_corrupt or count_errors() > self.n_errors:
            # Some readers report damage one packet late.
            self.damaged.update((max(position - 1, 0), position))
            self.n_errors = count_errors()
        self.pts.append(NO_PTS if packet.pts is None else packet.pts)
        self.checksum.append(crc32(packet))
        self.offset.append(-1 if packet.pos is None else packet.pos)
        self.time.append(NO_PTS)
        self.samples.append(0)
        self.decode(packet, count_errors)

    def decode(self, packet: Any, count_errors: CountErrors) -> None:
        """Decode the last packet; with None, take the samples that the decoder still holds."""
        position = len(self.pts) - 1
        frames: list[Any] = []
        try:
            frames = self.decoder.decode(packet)
        except EOFError:
            return
        except av().FFmpegError:
            self.damaged.add(position)
        if count_errors() > self.n_errors:
            self.damaged.add(position)
            self.n_errors = count_errors()
        if packet is not None and position < _COMPARED:
            self._compare(packet, frames)
            # Errors of the new decoder are not damage of the film.
            self.n_errors = count_errors()
        for frame in frames:
            self.rate = self.rate or frame.sample_rate
            n_samples = frame.samples
            if frame.sample_rate != self.rate:
                # A different recording follows, which would need a different filter.
                self.damaged.add(position)
                n_samples = round(n_samples * self.rate / (frame.sample_rate or 1))
            # A packet has the time of its first frame.
            if not self.samples[position] and frame.pts is not None:
                self.time[position] = frame.pts
            self.samples[position] += n_samples

    def _compare(self, packet: Any, frames: list[Any]) -> None:
        """Compare the frames of the decoder of the file with those of a new decoder.

        They may differ, since some decoders need parameters that PyAV does not pass on.
        """
        try:
            same = self.new_decoder.decode(packet)
        except (av().FFmpegError, ValueError):
            same = []
        facts, others = (list(map(_facts, alike)) for alike in (frames, same))
        self.takes_new_decoders &= facts == others


def _facts(frame: Any) -> tuple[Any, ...]:
    """Return the facts by which frames of two decoders are compared."""
    values = frame.to_ndarray().tobytes()
    return frame.sample_rate, frame.format.name, frame.layout.name, values


def _first_samples(
    times: Ints, samples: Ints, tick_s: float, origin_s: float, rate: int
) -> Ints:
    """Return the number of the first sample of each packet, by counting samples.

    Times are rounded or jitter, so that packets placed by their times would overlap. If the times
    of several successive packets differ from the count by too much, there is a gap before them, and
    counting begins again at their time.
    """
    numbers: Ints = np.cumsum(samples) - samples
    (known,) = np.nonzero((times != NO_PTS) & (samples > 0))
    if not len(known):
        return numbers
    by_time = times[known] * np.float64(tick_s)
    by_time -= origin_s
    by_time *= rate
    late = np.rint(by_time, out=by_time).astype(np.int64)
    late -= numbers[known]
    most = max(DRIFT_S, DRIFT_TICKS * tick_s) * rate
    jitter = float(np.median(np.abs(np.diff(late, prepend=late[0]))))
    rounded = max(ROUNDED_S, tick_s) * rate
    packets_a_second = rate * len(known) / samples.sum()
    n_far = int(np.clip(FAR_S * packets_a_second, _FEWEST_FAR, _FAR_PACKETS))
    if jitter > rounded:
        # These times jitter: they are not merely rounded.
        rounded = 0.0
        n_far = _FAR_PACKETS
    # A few packets at the end may lie behind a gap, but where times jitter, they cannot show it.
    mode: Literal["reflect", "edge"] = "reflect" if jitter > most / 4 else "edge"
    most = max(most, 2 * jitter)
    padded = np.pad(late, (0, n_far - 1), mode=mode)
    of_next = np.lib.stride_tricks.sliding_window_view(padded, n_far)
    least_late = of_next.min(axis=1)
    most_late = of_next.max(axis=1)
    # Packets before the first known time are placed by that time.
    known[0] = 0
    begin = 0
    at = 0
    so_late = _lateness(late[:n_far], rounded)
    while at < len(late):
        block = slice(at, at + _BLOCK)
        is_late = least_late[block] - so_late > most
        is_early = so_late - most_late[block] > most
        (far,) = np.nonzero(is_late | is_early)
        at += int(far[0]) if len(far) else _BLOCK
        if len(far):
            numbers[known[begin] : known[at]] += _lateness(late[begin:at], rounded)
            begin = at
            so_late = _lateness(late[at : at + n_far], rounded)
    numbers[known[begin] :] += _lateness(late[begin:], rounded)
    return numbers


def _lateness(late: Ints, rounded: float) -> int:
    """Return how many samples later than counted some packets are, by their times.

    It is the lateness of the first packet, or the median of all packets if the first packet is far
    from the median: the time of the first packet may be wrong by more than rounding, such as 0 for
    a negative time.
    """
    middle = int(np.median(late))
    first = int(late[0])
    return first if abs(first - middle) <= rounded else middle


def _stream_name(container: Any, stream: Any) -> str:
    """Return the name of an audio stream, or "" if the file has no other audio stream."""
    streams = list(container.streams.audio)
    if len(streams) == 1:
        return ""
    number = 1 + [other.index for other in streams].index(stream.index)
    language = stream.language
    name = f"sound {number} of {len(streams)}"
    return f"{name} ({language})" if language else name


def _new_decoder_like(decoder: Any) -> Any:
    """Return a new decoder, with those parameters of a decoder that PyAV exposes."""
    new = av().CodecContext.create(decoder.codec.name, "r")
    for name in ("extradata", "sample_rate", "layout", "format", "bit_rate"):
        value = getattr(decoder, name)
        if value:
            setattr(new, name, value)
    _report_all_errors(new)
    return new


def _report_all_errors(decoder: Any) -> None:
    """Make a decoder report all errors; each error is about the packet that it got last."""
    decoder.thread_count = 1
    decoder.options = {"err_detect": ERR_DETECT}


# --- Read sections ---


class SoundSource(PacketReader):
    """The open sound of a film, read in sections; the sections read last stay in memory."""

    film: SoundIndex

    def __init__(self, path: Path, index: SoundIndex, opened: OpenVideo) -> None:
        super().__init__(path, index, opened.container, opened.stream, open_sound)
        self._sections: dict[int, Samples] = {}
        self._resampled: dict[tuple[int, int], Samples] = {}

    def samples(self, rate: int, first: int, stop: int) -> Iterator[Samples]:
        """Yield the samples from `first` to `stop` at a sample rate, section by section."""
        length = SECTION_S * rate
        for number in range(first // length, -(-stop // length)):
            section = self._at_rate(number, rate)
            begin = number * length
            yield section[max(first - begin, 0) : stop - begin]

    def _at_rate(self, number: int, rate: int) -> Samples:
        """Return a section at a sample rate."""
        key = number, rate
        if key not in self._resampled:
            change = resampler(self.film.rate, rate)
            section = self._section(number)
            spare = self._margin - change.margin
            section = section[spare : len(section) - spare]
            _keep(self._resampled, key, change(section, SECTION_S * rate))
        return self._resampled[key]

    @property
    def _margin(self) -> int:
        return int(MARGIN_S * self.film.rate) + 1

    def _section(self, number: int) -> Samples:
        """Return a section with margins, at the rate of the film; missing sound is 0."""
        if number in self._sections:
            return self._sections[number]
        index = self.film
        begin = number * SECTION_S * index.rate - self._margin
        n_samples = SECTION_S * index.rate + 2 * self._margin
        section = np.zeros(n_samples, np.float32)
        start, wanted = index.decoding_run(begin, begin + n_samples)
        for first, part in self._decode(start, wanted):
            at = first - begin
            inside = part[max(-at, 0) : max(n_samples - at, 0)]
            section[max(at, 0) : max(at, 0) + len(inside)] = inside
        _keep(self._sections, number, section)
        return section

    def _decode(self, start: int, wanted: range) -> list[tuple[int, Samples]]:
        """Decode from packet `start` on, and return the samples of the intact `wanted` packets.

        Samples that follow each other are one array, with the number of its first sample.
        """
        if not wanted:
            return []
        index = self.film
        expected = index.samples[wanted.start : wanted.stop].tolist()
        frames: list[Any] = []
        mono = [np.zeros(0, np.float32)]
        counts = [0] * len(wanted)
        packets = self.packets(start, wanted.stop - 1)
        if wanted.stop == len(index.pts):
            # At the end, the decoder returns what it has held back.
            packets = chain(packets, [(wanted.stop - 1, None)])
        failures = av().FFmpegError, EOFError
        with self._new_decoder() as decoder:
            for position, packet in packets:
                try:
                    of_packet = decoder.decode(packet)
                except failures:
                    of_packet = []
                row = position - wanted.start
                if row >= 0 and expected[row]:
                    frames += of_packet
                    for frame in of_packet:
                        counts[row] += frame.samples
                if len(frames) >= _MIXED:
                    mono.append(mix_to_mono(frames))
                    frames = []
        samples = np.concatenate([*mono, mix_to_mono(frames)])
        is_damaged = index.damaged[wanted.start : wanted.stop]
        is_other = np.array(counts) != expected
        if (is_other & ~is_damaged).any():
            message = (
                "the decoder returns a different amount of sound than the index states"
            )
            raise BadVideo(message, path=self.path, reason="order")
        first = index.first[wanted.start : wanted.stop]
        # Packets that follow each other on the clock too are placed together.
        is_next = first[1:] == first[:-1] + expected[:-1]
        is_next &= ~(is_damaged[1:] | is_damaged[:-1])
        begins = np.flatnonzero(np.append(True, ~is_next))
        ends = np.append(begins[1:], len(wanted))
        at = np.append(0, np.cumsum(counts))
        return [
            (int(first[begin]), samples[at[begin] : at[end]])
            for begin, end in zip(begins, ends, strict=True)
            if not is_damaged[begin]
        ]

    @contextmanager
    def _new_decoder(self) -> Iterator[Any]:
        """Yield a new decoder, since a used decoder would continue its noise even after a flush."""
        if self.film.takes_new_decoders:
            yield _new_decoder_like(self.stream.codec_context)
            return
        with self.open_again(self.path) as opened:
            decoder = opened.stream.codec_context
            _report_all_errors(decoder)
            yield decoder

    def _seeks(self, start: int) -> Iterator[Iterator[Any]]:
        """Do not seek to the first packet, since this would skip a part of the beginning."""
        if start > 0:
            yield from super()._seeks(start)


def _keep(sections: dict[K, Samples], key: K, section: Samples) -> None:
    """Keep a section, and remove the oldest section if there are too many."""
    sections[key] = section
    for oldest in list(sections)[:-KEPT_SECTIONS]:
        del sections[oldest]


# --- Open a film ---


class _Opened(threading.local):
    """The open sound that this thread read last, kept for the next clip of the same film."""

    identity: FileState | None = None
    source: SoundSource | None = None
    close: ExitStack = ExitStack()


_OPENED = _Opened()


def sound_source(
    path: Path, indexes: Path | None, progress: OnProgress = no_progress
) -> SoundSource:
    """Return the open sound of a film, whose packets were decoded once for its index.

    Args:
        path: the video file.
        indexes: the folder of stored indexes; None: no index is stored.
        progress: called regularly while the index is made.
    """
    check_is_file(path)
    identity = read_state(path, indexes)
    if _OPENED.source is not None and _OPENED.identity == identity:
        return _OPENED.source
    forget_sound()
    packets: list[Any] | None = None
    if indexes is None:
        packets = [] if identity.n_bytes <= KEEP_BYTES else None
        with open_sound(path) as opened:
            index = _read(path, opened, packets, progress)
    else:
        index = make_sound_index(path, indexes, progress)
    close = ExitStack()
    source = SoundSource(path, index, close.enter_context(open_sound(path)))
    source.in_memory = packets
    _OPENED.identity = identity
    _OPENED.source = source
    _OPENED.close = close
    return source


def forget_sound() -> None:
    """Close the sound that this thread read last."""
    _OPENED.source = None
    _OPENED.close.close()
