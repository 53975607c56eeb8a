"""Kinds of video files that are odd: in their times, where they begin, how their pictures lie."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from support.video_registry import Made, h264, kind, register
from support.videos import packet_of, remux, write_video

FINE = Fraction(1, 1000)


def uneven(count: int, first: int) -> list[int]:
    """Times in milliseconds with gaps of 20 to 180 ms."""
    steps = random.Random(7).choices([20, 33, 40, 41, 80, 180], k=count - 1)
    return (first + np.cumsum([0, *steps])).tolist()


def variable_rate(name: str, first: int = 0, **more: str) -> None:
    """Register a file of H.264 whose pictures last from 20 to 180 ms; the first is that late."""

    def make(folder: Path) -> Made:
        ticks = uneven(100, first)
        path = folder / f"{name}.{name.partition('_')[0]}"
        write_video(path, options=h264(g="30", **more), ticks=ticks, tick=FINE)
        times_s = [(tick - first) / 1000 for tick in ticks]
        return Made(path, list(range(100)), True, times_s)

    register(name, make)


WITH_B = {"x264-params": "bframes=3:b-adapt=0"}
variable_rate("mkv_variable_rate")
variable_rate("nut_variable_rate", **WITH_B)
variable_rate("wtv_variable_rate", **WITH_B)
variable_rate("mp4_variable_rate_late_start", first=2400)


@kind
def ts_late_start(folder: Path) -> Made:
    ticks = [250 + i for i in range(100)]
    path = write_video(folder / "ts_late_start.ts", options=h264(g="30"), ticks=ticks)
    return Made(path, list(range(100)), True, [i / 25 for i in range(100)])


@kind
def mp4_edit_list(folder: Path) -> Made:
    # Pictures before time 0 are stored, and an edit list says not to show them.
    ticks = [i - 37 for i in range(137)]
    path = folder / "mp4_edit_list.mp4"
    write_video(path, options=h264(g="50"), numbers=range(137), ticks=ticks)
    return Made(path, list(range(37, 137)), True, [i / 25 for i in range(100)])


@kind
def mkv_missing_times(folder: Path) -> Made:
    # Times before 0 cannot be said in Matroska: the reader finds none on the first pictures.
    plain = write_video(folder / "plain_missing.mkv", options=h264(g="30", bf="0"))

    def shift(_: int, packet: Any) -> Any:
        packet.pts -= 400
        packet.dts -= 400
        return packet

    path = folder / "mkv_missing_times.mkv"
    remux(plain, path, shift, options={"avoid_negative_ts": "disabled"})
    return Made(path, list(range(100)), False, [i / 25 for i in range(100)])


@kind
def mkv_repeated_times(folder: Path) -> Made:
    # Each time is used twice: half the rate in the times, all pictures in the file.
    plain = write_video(folder / "plain_repeated.mp4", options=h264(g="30", bf="0"))

    def halve(number: int, packet: Any) -> Any:
        packet.pts = packet.dts = number // 2 * 1024
        return packet

    path = remux(plain, folder / "mkv_repeated_times.mkv", halve)
    return Made(path, list(range(100)), False)


@kind
def mkv_times_in_disorder(folder: Path) -> Made:
    # Neighbours swap their times although the codec has no reordering at all.
    plain = write_video(
        folder / "plain_disorder.mkv",
        "ffv1",
        ticks=[40 * i for i in range(100)],
        tick=FINE,
    )

    def swap(number: int, packet: Any) -> Any:
        packet.pts = 40 * (number ^ 1)
        packet.dts = 40 * number - 40
        return packet

    path = remux(plain, folder / "mkv_times_in_disorder.mkv", swap)
    return Made(path, list(range(100)), False)


@kind
def mkv_mpeg4_without_times(folder: Path) -> Made:
    # Copied from AVI the old way: the times in the file are those of decoding.
    plain = write_video(
        folder / "plain_vfw.avi", "mpeg4", options={"bf": "2", "g": "30", "b": "500k"}
    )
    ticks = [40 * i for i in range(100)]

    def of_decoding(number: int, packet: Any) -> Any:
        packet.time_base = FINE
        packet.pts = packet.dts = ticks[number]
        return packet

    path = remux(plain, folder / "mkv_mpeg4_without_times.mkv", of_decoding)
    return Made(path, list(range(100)), False)


@kind
def ts_cut_in_the_middle(folder: Path) -> Made:
    # A recording that begins inside a group: what comes before the first key frame is lost.
    plain = write_video(
        folder / "plain_cut.mp4", options=h264(g="30", bf="2", sc_threshold="0")
    )
    path = folder / "ts_cut_in_the_middle.ts"
    remux(plain, path, lambda number, packet: packet if number >= 17 else None)
    return Made(path, list(range(30, 100)), True)


@kind
def ts_cut_at_open_group(folder: Path) -> Made:
    plain = write_video(
        folder / "plain_open.ts",
        options=h264(
            g="20",
            **{
                "x264-params": "open-gop=1:bframes=3:b-adapt=0:b-pyramid=none:scenecut=0"
            },
        ),
    )
    import av

    with av.open(str(plain)) as opened:
        packets = [p for p in opened.demux(video=0) if p.size]
        keys = [n for n, p in enumerate(packets) if p.is_keyframe]
        first = (packets[keys[1]].pts - packets[0].pts) // 3600
    path = folder / "ts_cut_at_open_group.ts"
    remux(plain, path, lambda number, packet: packet if number >= keys[1] else None)
    return Made(path, list(range(first, 100)), True)


@kind
def avi_packed_b(folder: Path) -> Made:
    """DivX's trick: a B picture rides in the packet of the picture before it."""
    import av

    plain = folder / "plain_packed.avi"
    write_video(
        plain, "mpeg4", options={"bf": "1", "b_strategy": "0", "g": "30", "b": "500k"}
    )
    path = folder / "avi_packed_b.avi"
    with av.open(str(plain)) as old, av.open(str(path), "w") as new:
        stream = old.streams.video[0]
        copy = new.add_stream_from_template(stream)
        copy.codec_context.codec_tag = "DX50"
        packets = [bytes(p) for p in old.demux(stream) if p.size]
        packed: list[bytes] = []
        for data in packets:
            if _is_b(data):
                packed[-1] += data
                packed.append(b"\x00\x00\x01\xb6\x50\x00\x3f")
            else:
                packed.append(data)
        if b"DivX" not in packed[0]:
            at = packed[0].index(b"\x00\x00\x01\xb6")
            packed[0] = (
                packed[0][:at] + b"\x00\x00\x01\xb2DivX503b1393p" + packed[0][at:]
            )
        for number, data in enumerate(packed):
            packet = av.Packet(data)
            packet.pts = packet.dts = number
            packet.time_base = Fraction(1, 25)
            packet.stream = copy
            packet.is_keyframe = number == 0
            new.mux(packet)
    return Made(path, list(range(100)), False)


def _is_b(data: bytes) -> bool:
    at = data.index(b"\x00\x00\x01\xb6")
    return data[at + 4] >> 6 == 2


def turned(name: str, degrees: int, suffix: str = ".mp4") -> None:
    """Register a file whose pictures lie turned, with the note that turns them back."""

    def make(folder: Path) -> Made:
        path = write_video(
            folder / f"{name}{suffix}",
            options=h264(g="30"),
            turn=degrees,
            setup=lambda stream: stream.set_display_rotation(-degrees),
        )
        return Made(path, list(range(100)), True)

    register(name, make)


turned("mp4_turned_90", 90)
turned("mov_turned_180", 180, ".mov")
turned("mp4_turned_270", 270)


def shaped(name: str, sar: Fraction) -> None:
    """Register a file with pixels that are not square."""

    def make(folder: Path) -> Made:
        def setup(stream: Any) -> None:
            stream.codec_context.sample_aspect_ratio = sar

        path = write_video(folder / f"{name}.mp4", options=h264(g="30"), setup=setup)
        return Made(path, list(range(100)), True)

    register(name, make)


shaped("mp4_wide_pixels", Fraction(16, 11))
shaped("mp4_narrow_pixels", Fraction(8, 9))


@kind
def webm_vp8_hidden(folder: Path) -> Made:
    # Pictures that only later ones are built on: one bit says not to show them.
    plain = write_video(
        folder / "plain_hidden.webm",
        "libvpx",
        options={"deadline": "realtime", "b": "400k"},
    )

    def hide(number: int, packet: Any) -> Any:
        if number not in (10, 11, 57):
            return packet
        data = bytearray(bytes(packet))
        data[0] &= ~0x10
        return packet_of(packet, bytes(data))

    path = remux(plain, folder / "webm_vp8_hidden.webm", hide)
    return Made(path, [n for n in range(100) if n not in (10, 11, 57)], True)
