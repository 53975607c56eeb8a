"""Ways in which video files get damaged: flipped bits, zeros, lost pictures, lost bytes."""

import random
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.videos import packet_of, remux

Change = Callable[[bytearray, random.Random], None]


def change_packets(
    source: Path,
    target: Path,
    positions: Collection[int],
    change: Change,
    *,
    seed: int = 1,
) -> Path:
    """Copy a video with some packets changed inside; the container stays whole."""

    def changed(number: int, packet: Any) -> Any:
        if number not in positions:
            return packet
        data = bytearray(bytes(packet))
        change(data, random.Random(seed + number))
        return packet_of(packet, bytes(data))

    return remux(source, target, changed)


def flip_bits(data: bytearray, draw: random.Random) -> None:
    """Twelve bits, anywhere but in the head of the packet."""
    for _ in range(12):
        data[draw.randrange(len(data) // 8 + 8, len(data))] ^= 1 << draw.randrange(8)


def drop_packets(source: Path, target: Path, positions: Collection[int]) -> Path:
    return remux(
        source, target, lambda number, packet: None if number in positions else packet
    )


def zero_bytes(data: bytearray, draw: random.Random) -> None:
    """Up to 1500 bytes of zeros, as where a sector was never written."""
    at = draw.randrange(len(data) // 5, len(data) * 9 // 10)
    size = min(draw.randrange(100, 1500), len(data) - at)
    data[at : at + size] = bytes(size)


def remove_bytes(data: bytearray, draw: random.Random) -> None:
    """Up to 1500 bytes gone."""
    at = draw.randrange(len(data) // 5, len(data) * 9 // 10)
    del data[at : at + draw.randrange(100, 1500)]


def flip_bits_visibly(source: Path, target: Path, positions: Collection[int]) -> Path:
    """Copy a video with flipped bits in some packets, so that FFmpeg calls a picture corrupt.

    Encoders write other bytes on other processors, and some flips only give another picture.
    """
    import av

    for seed in range(1, 100):
        change_packets(source, target, positions, flip_bits, seed=seed)
        with suppress(av.FFmpegError), av.open(str(target)) as film:
            if any(frame.is_corrupt for frame in film.decode(video=0)):
                return target
    raise AssertionError("FFmpeg reports none of these changes")


def change_file(source: Path, target: Path, change: Change, *, seed: int = 1) -> Path:
    data = bytearray(source.read_bytes())
    change(data, random.Random(seed))
    target.write_bytes(bytes(data))
    return target


def flip_bit(path: Path, place: int) -> None:
    """Flip the lowest bit of one byte of a file, also of one that is write-protected."""
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)


def zero_the_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    start = len(data) * 2 // 5
    stop = len(data) * 3 // 5
    data[start:stop] = bytes(stop - start)
    path.write_bytes(bytes(data))
