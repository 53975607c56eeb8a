"""Films with clicks at known samples, made once for all tests, and what is changed in them."""

import shutil
from pathlib import Path
from typing import Any

from benchmarks.sound.films import FILMS, SoundFilm, copy, make_film
from support.once import made_once
from support.videos import packet_of

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


def with_damage(source: Path, target: Path, number: int, count: int = 1) -> Path:
    """Copy a film; the middle of some packets of its sound is other bytes."""

    def change(stream: Any, at: int, packet: Any) -> Any:
        if stream.type != "audio" or not number <= at < number + count:
            return packet
        data = bytearray(bytes(packet))
        third = len(data) // 3
        data[third : 2 * third] = bytes(
            255 - value for value in data[third : 2 * third]
        )
        return packet_of(packet, bytes(data))

    return copy(source, target, change=change)


def later(source: Path, target: Path, by_s: int) -> Path:
    """Copy a film whose clock is that much later."""

    def change(_stream: Any, _at: int, packet: Any) -> Any:
        shift = round(by_s / packet.time_base)
        packet.pts += shift
        packet.dts += shift
        return packet

    return copy(source, target, change=change)


def as_programs(sources: list[Path], target: Path) -> Path:
    """Join transport streams, so that each is one program of the film.

    A packet of 188 bytes names its stream. Each table of a file is moved behind those of the files
    before it, and one table lists all programs.
    """
    packets = []
    programs = b""
    for number, source in enumerate(sources):
        data = source.read_bytes()
        shift = 0x400 * number
        tables = set[int]()
        of_film = []
        for at in range(0, len(data), 188):
            packet = bytearray(data[at : at + 188])
            pid = int.from_bytes(packet[1:3]) & 0x1FFF
            if pid == 0:
                # The table of programs: its first entry, behind two numbers of 2 bytes.
                table = int.from_bytes(packet[15:17]) & 0x1FFF
                tables.add(table)
                continue
            if pid < 0x20:
                continue
            if pid in tables:
                _move_streams(packet, shift, number + 1)
            packet[1:3] = (int.from_bytes(packet[1:3]) + shift).to_bytes(2)
            of_film.append(bytes(packet))
        (table,) = tables
        programs += (number + 1).to_bytes(2) + (0xE000 + table + shift).to_bytes(2)
        packets.append(of_film)
    body = b"\x00\x01\xc1\x00\x00" + programs
    section = b"\x00" + (0xB000 + len(body) + 4).to_bytes(2) + body
    header = b"\x47\x40\x00\x10\x00"
    of_programs = (header + section + _crc32(section)).ljust(188, b"\xff")
    # All programs begin, and end, at about the same place of the file.
    places = [
        (number / len(of_film), of_film[number])
        for of_film in packets
        for number in range(len(of_film))
    ]
    places.sort(key=lambda place: place[0])
    target.write_bytes(of_programs + b"".join(packet for _, packet in places))
    return target


def _move_streams(packet: bytearray, shift: int, program: int) -> None:
    section = memoryview(packet)[5:]
    length = int.from_bytes(section[1:3]) & 0xFFF
    section[3:5] = program.to_bytes(2)
    section[8:10] = (int.from_bytes(section[8:10]) + shift).to_bytes(2)
    at = 12 + (int.from_bytes(section[10:12]) & 0xFFF)
    while at < 3 + length - 4:
        section[at + 1 : at + 3] = (
            int.from_bytes(section[at + 1 : at + 3]) + shift
        ).to_bytes(2)
        at += 5 + (int.from_bytes(section[at + 3 : at + 5]) & 0xFFF)
    section[at : at + 4] = _crc32(bytes(section[:at]))


def _crc32(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte << 24
        for _ in range(8):
            crc = crc << 1 ^ (0x04C11DB7 if crc >> 31 else 0)
            crc &= 0xFFFFFFFF
    return crc.to_bytes(4)


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
