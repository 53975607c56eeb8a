"""Damage films at random, and count the pictures that are right, marked and wrong.

A picture is right if it is, to the pixel, the one that the whole film shows at its time. A wrong
one is listed with what FFmpeg and the container say of its file: nobody can find what neither says.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from support.damage import (
    change_file,
    change_packets,
    drop_packets,
    flip_bits,
    remove_bytes,
    zero_bytes,
)
from support.generated_videos import (
    CODECS,
    CONTAINERS,
    N_PICTURES,
    RATES,
    Case,
    Tally,
    make,
)
from support.videos import packet_of, read_numbers, remux

INTACT = "intact"
# An intact film of which the container calls other packets key frames than the decoder does.
ALL_KEYS = "all-keys"
TENTH_KEYS = "tenth-keys"
INTACT_KINDS = (INTACT, ALL_KEYS, TENTH_KEYS)
CHANGES = {"flip": flip_bits, "zero": zero_bytes, "remove": remove_bytes}
CHANGES_OF_FILE = ("cut", "file-zero", "file-remove", "file-flip", "ts-packet")
DAMAGES = (*CHANGES, "drop", "drop-two", "swap", *CHANGES_OF_FILE)
_TS_PACKET = 188
# In bare streams of AV1 the decoder goes on after a lost packet, and refuses a later one. IVF, not
# a container for films, has times that nothing protects.
_LEFT_OUT = ("obu", "ivf")
# Containers without times, and those of which FFmpeg computes most times from a rate.
_WITHOUT_TIMES = ("h264", "hevc", "m2v", "mjpeg", "mxf", "mpg", "vob")


@dataclass
class Counts(Tally):
    marked: list[str] = field(default_factory=list)


def draw_films(n_films: int, seed: int) -> Iterator[tuple[Case, str]]:
    draw = random.Random(seed)
    films = [
        Case(codec, *facts, "whole", "none")
        for codec in CODECS
        for facts in product(CODECS[codec][1], CONTAINERS[codec], RATES)
        if facts[1] not in _LEFT_OUT
    ]
    every = (*DAMAGES, *INTACT_KINDS)
    of_others = [how for how in every if how != "ts-packet"]
    for _ in range(n_films):
        case = draw.choice(films)
        yield case, draw.choice(every if case.container == "ts" else of_others)


def change(whole: Path, target: Path, how: str, seed: int) -> Path:
    draw = random.Random(seed)
    position = draw.randrange(1, N_PICTURES - 6)
    if how == INTACT:
        target.write_bytes(whole.read_bytes())
        return target
    if how in (ALL_KEYS, TENTH_KEYS):
        return with_keys(whole, target, 1 if how == ALL_KEYS else 10)
    if how in CHANGES:
        return change_packets(whole, target, {position}, CHANGES[how], seed=seed)
    if how.startswith("drop"):
        lost = {position, position + 1} if how == "drop-two" else {position}
        return drop_packets(whole, target, lost)
    if how == "swap":
        return swap_packets(whole, target, position)
    if how == "cut":
        data = whole.read_bytes()
        target.write_bytes(data[: draw.randrange(len(data) // 3, len(data))])
        return target
    if how == "ts-packet":
        return without_ts_packet(whole, target, seed)
    of_file = {"file-zero": zero_bytes, "file-remove": remove_bytes}
    return change_file(whole, target, of_file.get(how, flip_near), seed=seed)


def flip_near(data: bytearray, draw: random.Random) -> None:
    """Flip twelve bits in 64 bytes, so that what is said of a file is about this place."""
    start = draw.randrange(len(data) // 8, len(data) - 64)
    for _ in range(12):
        data[start + draw.randrange(64)] ^= 1 << draw.randrange(8)


def with_keys(whole: Path, target: Path, every: int) -> Path:
    """Copy a film and call each of so many packets a key frame, whatever it is."""

    def flagged(number: int, packet: Any) -> Any:
        packet.is_keyframe = number % every == 0
        return packet

    return remux(whole, target, flagged)


def swap_packets(whole: Path, target: Path, position: int) -> Path:
    import av

    with av.open(str(whole)) as film:
        contents = [bytes(packet) for packet in film.demux(video=0) if packet.size]
    contents[position : position + 2] = contents[position : position + 2][::-1]

    def swapped(number: int, packet: Any) -> Any:
        if number not in (position, position + 1):
            return packet
        return packet_of(packet, contents[number])

    return remux(whole, target, swapped)


def without_ts_packet(whole: Path, target: Path, seed: int) -> Path:
    data = whole.read_bytes()
    n_packets = len(data) // _TS_PACKET
    at = random.Random(seed).randrange(n_packets // 10, n_packets) * _TS_PACKET
    target.write_bytes(data[:at] + data[at + _TS_PACKET :])
    return target


def what_is_said(path: Path) -> str:
    """Return what FFmpeg or the container says against a file; empty if nothing.

    The whole film is decoded in order, as another program would.
    """
    import av

    level = av.logging.get_level()
    av.logging.set_level(av.logging.ERROR)
    av.logging.set_skip_repeated(False)
    try:
        with av.logging.Capture() as lines:
            return _said_by_ffmpeg(path, lines)
    except EOFError:
        return ""
    except av.FFmpegError as error:
        return f"FFmpeg: {error}"
    finally:
        av.logging.set_level(level)


def _said_by_ffmpeg(path: Path, lines: list[Any]) -> str:
    import av

    with av.open(str(path)) as container:
        reader = container.format.name
        stream = container.streams.video[0]
        codec = stream.codec_context
        codec.thread_count = 1
        codec.options = {"err_detect": "crccheck+bitstream+buffer"}
        found = 0
        for packet in container.demux(stream):
            # Before pictures are decoded, only what the reader says is about the file.
            if any(line[1] == reader for line in lines):
                return f"FFmpeg: {lines[0][2].strip()}"
            lines.clear()
            if packet.is_corrupt:
                return "a corrupt packet"
            if packet.size and packet.dts is not None:
                found = packet.dts + packet.duration
            for frame in codec.decode(packet if packet.size else None):
                if frame.is_corrupt:
                    return "a corrupt picture"
            if lines:
                return f"FFmpeg: {lines[0][2].strip()}"
        if reader == "avi" and stream.frames > found:
            return f"{stream.frames} pictures declared, {found} found"
    return ""


@dataclass(frozen=True)
class Whole:
    """The pictures of a whole film, when each is shown, and what the clock says at second 0."""

    path: Path
    pictures: list[bytes]
    times_s: np.ndarray
    origin_s: float

    def is_right(self, picture: np.ndarray, time_s: float | None) -> bool:
        """Whether a picture is the one at its time, or without a time, any of the film."""
        content = picture.tobytes()
        if time_s is None:
            return content in self.pictures
        # Some times are interpolated; the shortest picture lasts 20 ms.
        ranks = np.flatnonzero(np.abs(self.times_s - time_s) < 8e-3)
        return any(content == self.pictures[rank] for rank in ranks)


def whole_film(case: Case, folder: Path) -> Whole | None:
    from obygaze_features.video import PictureView, decode_clip
    from obygaze_features.video.container import BadVideo
    from obygaze_features.video.film import probe

    path = make(case, folder)
    if path is None:
        return None
    try:
        index = probe(path, decode=True).index
        clip = decode_clip(path, PictureView(index.frames))
    except BadVideo:
        # The container lost what decoding needs.
        return None
    if read_numbers(clip.pictures) != list(range(N_PICTURES)):
        return None
    pictures = [picture.tobytes() for picture in clip.pictures]
    return Whole(path, pictures, index.times_s, index.origin_s)


def judge(whole: Whole, path: Path, how: str, counts: Counts, at_a_time: int) -> None:
    from obygaze_features.video import PictureView, decode_views
    from obygaze_features.video.container import BadVideo
    from obygaze_features.video.film import probe

    counts.n_files += 1
    indexes = path.parent / "indexes" if at_a_time % 2 else None
    wrong = []
    marked = []
    try:
        index = probe(path, decode=True).index
    except BadVideo as error:
        counts.refused[error.reason] += 1
        counts.marked.append(f"{path.stem}: refused: {error.message}")
        return
    has_times = path.suffix[1:] not in _WITHOUT_TIMES and index.has_clock
    # A file that lost its beginning keeps its clock. Some programs set the clock when they write a
    # file anew, but here they always write the first picture.
    later_s = float(whole.times_s[0] - index.times_s[0])
    if how in CHANGES_OF_FILE:
        later_s = index.origin_s - whole.origin_s
    for first in range(0, index.frames, at_a_time):
        ranks = list(range(first, min(first + at_a_time, index.frames)))
        view = PictureView(len(ranks))
        try:
            (clip,) = decode_views(path, [view], ranks=ranks, indexes=indexes).values()
        except BadVideo as error:
            counts.refused[error.reason] += 1
            counts.marked.append(f"{path.stem}: refused: {error.message}")
            continue
        for row, rank in enumerate(ranks):
            if clip.substituted[row]:
                marked.append(rank)
                continue
            time_s = float(clip.time_s[row]) + later_s if has_times else None
            if whole.is_right(clip.pictures[row], time_s):
                counts.n_right += 1
            else:
                wrong.append(rank)
    counts.n_marked += len(marked)
    if marked:
        counts.marked.append(f"{path.stem}: marked {marked}")
    if wrong:
        said = what_is_said(path)
        counts.wrong.append(f"{path.stem}: wrong {wrong}; {said or 'nothing is said'}")


def count_pictures(n_films: int, seed: int, folder: Path) -> tuple[Counts, Counts]:
    import av

    intact, damaged = Counts(), Counts()
    whole_of = cache(partial(whole_film, folder=folder))
    for number, (case, how) in enumerate(draw_films(n_films, seed)):
        whole = whole_of(case)
        if whole is None:
            continue
        name = f"{number}-{case}-{how}"
        target = folder / f"{name}.{case.container}"
        try:
            change(whole.path, target, how, seed * 1000 + number)
        except (av.FFmpegError, ValueError, OverflowError, IndexError):
            # The container does not take it, or a packet is too small to be changed so.
            continue
        counts = intact if how in INTACT_KINDS else damaged
        judge(whole, target, how, counts, (1, 14, N_PICTURES)[number % 3])
        target.unlink(missing_ok=True)
    return intact, damaged
