"""Films with clicks at known samples, made once for all tests, and what is changed in them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from benchmarks.sound.films import FILMS, SoundFilm, copy, make_film
from support.once import made_once

FILM_OF = {film.name: film for film in FILMS}


def write_film(film: SoundFilm | str, folder: Path) -> Path:
    """Write a film, by its facts or its name in the list; one that was made before is copied."""
    known = FILM_OF[film] if isinstance(film, str) else film

    def make(draft: Path) -> None:
        make_film(known, draft)

    name = f"{known.name}{known.suffix}"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(made_once("sound", make, known) / name, folder / name)
    return folder / name


def with_damage(source: Path, target: Path, number: int) -> Path:
    """Copy a film; the middle of one packet of its sound is other bytes."""

    def change(stream: Any, at: int, packet: Any) -> Any:
        if stream.type != "audio" or at != number:
            return packet
        data = bytearray(bytes(packet))
        third = len(data) // 3
        data[third : 2 * third] = bytes(
            255 - value for value in data[third : 2 * third]
        )
        return packet_of(packet, bytes(data))

    return copy(source, target, change=change)


def packet_of(packet: Any, data: bytes) -> Any:
    """A packet of other bytes at the time of another one."""
    import av

    other = av.Packet(data)
    for name in ("pts", "dts", "time_base", "duration", "is_keyframe"):
        setattr(other, name, getattr(packet, name))
    return other


def as_he_aac(source: Path, target: Path, *, is_told: bool) -> Path:
    """Copy a film of AAC as one of HE-AAC, whose decoder returns twice the rate.

    The header says so if `is_told`, else each packet, with an element that stores no upper half of
    the spectrum: the sound is that of the core.
    """

    def change(stream: Any, _: int, packet: Any) -> Any:
        if stream.type != "audio" or is_told:
            return packet
        bits = "".join(f"{value:08b}" for value in bytes(packet))
        # Before the end: a filling of one byte, which is a replication of the spectrum.
        bits = bits[: bits.rindex("111")] + "110" + "0001" + "1101" + "0000" + "111"
        bits += "0" * (-len(bits) % 8)
        return packet_of(packet, int(bits, 2).to_bytes(len(bits) // 8, "big"))

    copy(source, target, change=change)
    # FFmpeg's encoder writes that there is none.
    without, told, untold = b"\x56\xe5\x00", b"\x56\xe5\x98", bytes(3)
    data = target.read_bytes()
    if data.count(without) != 1:
        raise ValueError(f"{target.name}: not a film of AAC by FFmpeg's encoder")
    target.write_bytes(data.replace(without, told if is_told else untold))
    return target


def only(kind: str, source: Path, target: Path) -> Path:
    """Copy a film without its pictures ("audio") or without its sound ("video")."""
    return copy(source, target, kinds=(kind,))
