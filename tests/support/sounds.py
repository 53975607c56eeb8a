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


def only(kind: str, source: Path, target: Path) -> Path:
    """Copy a film without its pictures ("audio") or without its sound ("video")."""
    return copy(source, target, kinds=(kind,))
