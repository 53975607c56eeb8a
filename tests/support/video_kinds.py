"""Some fifty kinds of video files, each with the numbers of its pictures known by construction."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from support.videos import remux, write_video

FINE = Fraction(1, 1000)
X264 = {"preset": "veryfast"}


@dataclass(frozen=True)
class Made:
    """A file, the numbers of the pictures it shows, in order, and whether its times are usable."""

    path: Path
    numbers: list[int]
    timed: bool
    times_s: list[float] | None = None


Maker = Callable[[Path], Made]
KINDS: dict[str, Maker] = {}


def kind(maker: Maker) -> Maker:
    """Register one kind under the name of its function."""
    KINDS[maker.__name__] = maker
    return maker


def simple(
    name: str,
    suffix: str,
    codec: str,
    timed: bool,
    options: dict[str, str] | None = None,
    **more: Any,
) -> None:
    """Register a kind that is nothing but a codec in a container."""
    count = more.pop("count", 100)

    def make(folder: Path) -> Made:
        path = write_video(
            folder / f"{name}{suffix}", codec, numbers=range(count), options=options, **more
        )
        return Made(path, list(range(count)), timed, [i / 25 for i in range(count)])

    KINDS[name] = make


def h264(**more: str) -> dict[str, str]:
    """x264 options, quick ones."""
    return X264 | more


simple("mp4_h264", ".mp4", "libx264", True, h264())
simple("mov_h264_long_groups", ".mov", "libx264", True, h264(g="1000", sc_threshold="0"), count=200)
simple("mkv_h264_short_groups", ".mkv", "libx264", True, h264(g="12", bf="2"))
simple("mp4_h264_only_keys", ".mp4", "libx264", True, h264(g="1"))
simple("mp4_h264_no_b", ".mp4", "libx264", True, h264(g="30", bf="0", refs="1"))
simple(
    "mp4_h264_pyramid",
    ".mp4",
    "libx264",
    True,
    h264(g="48", **{"x264-params": "bframes=8:b-adapt=0:b-pyramid=normal:ref=6"}),
)
simple(
    "mp4_h264_open_groups",
    ".mp4",
    "libx264",
    True,
    h264(g="20", **{"x264-params": "open-gop=1:bframes=3:b-adapt=0:scenecut=0"}),
)
simple(
    "ts_h264_open_groups",
    ".ts",
    "libx264",
    True,
    h264(g="20", **{"x264-params": "open-gop=1:bframes=3:b-adapt=0:scenecut=0"}),
)
simple(
    "mp4_h264_intra_refresh",
    ".mp4",
    "libx264",
    True,
    h264(g="30", **{"x264-params": "intra-refresh=1:bframes=0"}),
)
simple(
    "ts_h264_intra_refresh",
    ".ts",
    "libx264",
    True,
    h264(g="30", **{"x264-params": "intra-refresh=1:bframes=2"}),
)
simple("mkv_h264_lossless", ".mkv", "libx264", True, h264(qp="0", g="40"), pix_fmt="yuv444p")
simple("mp4_h264_10bit", ".mp4", "libx264", True, h264(g="40"), pix_fmt="yuv420p10le")
simple(
    "mp4_h264_interlaced",
    ".mp4",
    "libx264",
    True,
    h264(g="25", **{"x264-params": "interlaced=1:tff=1"}),
)
simple("ts_h264", ".ts", "libx264", True, h264(g="40"))
simple("flv_h264", ".flv", "libx264", True, h264(g="40"))
simple("avi_h264_b", ".avi", "libx264", False, h264(g="40", bf="3"))
simple("raw_h264", ".h264", "libx264", False, h264(g="40"))
simple(
    "mp4_fragmented",
    ".mp4",
    "libx264",
    True,
    h264(g="25"),
    container_options={"movflags": "frag_keyframe+empty_moov"},
)
X265 = "log-level=none:pools=none:frame-threads=1"
simple(
    "mp4_hevc",
    ".mp4",
    "libx265",
    True,
    {"preset": "ultrafast", "x265-params": f"{X265}:keyint=40:bframes=4:b-adapt=0"},
)
simple(
    "mkv_hevc_10bit",
    ".mkv",
    "libx265",
    True,
    {"preset": "ultrafast", "x265-params": f"{X265}:keyint=30:bframes=4:b-adapt=0"},
    pix_fmt="yuv420p10le",
)
simple(
    "ts_hevc_open_groups",
    ".ts",
    "libx265",
    True,
    {
        "preset": "ultrafast",
        "x265-params": f"{X265}:keyint=24:open-gop=1:bframes=4:b-adapt=0:scenecut=0",
    },
)
simple(
    "mp4_hevc_layers",
    ".mp4",
    "libx265",
    True,
    {
        "preset": "ultrafast",
        "x265-params": f"{X265}:keyint=32:bframes=4:b-adapt=0:temporal-layers=3",
    },
)
simple(
    "raw_hevc",
    ".hevc",
    "libx265",
    False,
    {"preset": "ultrafast", "x265-params": f"{X265}:keyint=24"},
)
simple(
    "webm_vp8",
    ".webm",
    "libvpx",
    True,
    {
        "auto-alt-ref": "1",
        "lag-in-frames": "16",
        "g": "40",
        "b": "300k",
        "deadline": "realtime",
        "arnr-maxframes": "3",
    },
)
simple(
    "webm_vp9",
    ".webm",
    "libvpx-vp9",
    True,
    {
        "auto-alt-ref": "1",
        "lag-in-frames": "16",
        "g": "40",
        "b": "300k",
        "deadline": "good",
        "cpu-used": "5",
    },
)
simple(
    "mp4_av1",
    ".mp4",
    "libsvtav1",
    True,
    {"preset": "8", "crf": "20", "g": "32", "svtav1-params": "lp=1"},
    count=90,
)
simple(
    "mkv_av1",
    ".mkv",
    "libsvtav1",
    True,
    {"preset": "8", "crf": "20", "g": "50", "svtav1-params": "lp=1"},
    count=90,
)
simple("avi_mpeg4_b", ".avi", "mpeg4", False, {"bf": "2", "g": "30", "b": "500k"})
simple("mp4_mpeg4_b", ".mp4", "mpeg4", True, {"bf": "2", "g": "30", "b": "500k"})
simple("mp4_mpeg4_long_groups", ".mp4", "mpeg4", True, {"bf": "0", "g": "300", "b": "500k"})
simple("mpg_mpeg2_b", ".mpg", "mpeg2video", True, {"bf": "2", "g": "15", "b": "800k"})
simple("ts_mpeg2_b", ".ts", "mpeg2video", True, {"bf": "2", "g": "15", "b": "800k"})
simple(
    "vob_mpeg2_interlaced",
    ".vob",
    "mpeg2video",
    True,
    {"bf": "2", "g": "15", "b": "1500k", "flags": "+ildct+ilme", "top": "1"},
)
simple("mpg_mpeg1", ".mpg", "mpeg1video", True, {"bf": "2", "g": "12", "b": "800k"}, format="mpeg")
simple("avi_mjpeg", ".avi", "mjpeg", False, {"b": "2M"}, pix_fmt="yuvj420p")
simple("mkv_ffv1", ".mkv", "ffv1", True)
simple("avi_huffyuv", ".avi", "huffyuv", False, pix_fmt="yuv422p")
simple("mov_prores", ".mov", "prores_ks", True, pix_fmt="yuv422p10le")
simple("gif", ".gif", "gif", False, pix_fmt="gray")
simple("apng", ".apng", "apng", False, pix_fmt="rgb24", format="apng")
simple("wmv_wmv2", ".wmv", "wmv2", False, {"g": "30", "b": "500k"})
simple("mp4_odd_size", ".mp4", "libx264", True, h264(g="30"), size=(161, 123), pix_fmt="yuv444p")
simple("mp4_one_picture", ".mp4", "libx264", True, h264(), count=1)
simple("mp4_five_pictures", ".mp4", "libx264", True, h264(), count=5)
simple("mp4_with_sound", ".mp4", "libx264", True, h264(g="30"), audio=True)
simple("mkv_with_sound", ".mkv", "libx264", True, h264(g="30"), audio=True)
simple("mp4_with_cover", ".mp4", "libx264", True, h264(g="30"), cover=True)
simple("avi_with_sound", ".avi", "mpeg4", False, {"bf": "2", "g": "30"}, audio=True)


def uneven(count: int, first: int = 0) -> list[int]:
    """Times in milliseconds with gaps of 20 to 180 ms."""
    steps = random.Random(7).choices([20, 33, 40, 41, 80, 180], k=count - 1)
    return (first + np.cumsum([0, *steps])).tolist()


@kind
def mkv_variable_rate(folder: Path) -> Made:
    ticks = uneven(100)
    path = folder / "mkv_variable_rate.mkv"
    write_video(path, options=h264(g="30"), ticks=ticks, tick=FINE)
    return Made(path, list(range(100)), True, [tick / 1000 for tick in ticks])


@kind
def mp4_variable_rate_late_start(folder: Path) -> Made:
    ticks = uneven(100, first=2400)
    path = folder / "mp4_variable_rate_late_start.mp4"
    write_video(path, options=h264(g="30"), ticks=ticks, tick=FINE)
    return Made(path, list(range(100)), True, [(tick - 2400) / 1000 for tick in ticks])


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
        folder / "plain_disorder.mkv", "ffv1", ticks=[40 * i for i in range(100)], tick=FINE
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
    plain = write_video(folder / "plain_cut.mp4", options=h264(g="30", bf="2", sc_threshold="0"))
    path = folder / "ts_cut_in_the_middle.ts"
    remux(plain, path, lambda number, packet: packet if number >= 17 else None)
    return Made(path, list(range(30, 100)), True)


@kind
def ts_cut_at_open_group(folder: Path) -> Made:
    plain = write_video(
        folder / "plain_open.ts",
        options=h264(
            g="20", **{"x264-params": "open-gop=1:bframes=3:b-adapt=0:b-pyramid=none:scenecut=0"}
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
    write_video(plain, "mpeg4", options={"bf": "1", "b_strategy": "0", "g": "30", "b": "500k"})
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
            packed[0] = packed[0][:at] + b"\x00\x00\x01\xb2DivX503b1393p" + packed[0][at:]
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

    KINDS[name] = make


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

    KINDS[name] = make


shaped("mp4_wide_pixels", Fraction(16, 11))
shaped("mp4_narrow_pixels", Fraction(8, 9))


@kind
def webm_vp8_hidden(folder: Path) -> Made:
    # Pictures that only later ones are built on: one bit says not to show them.
    import av

    plain = write_video(
        folder / "plain_hidden.webm", "libvpx", options={"deadline": "realtime", "b": "400k"}
    )

    def hide(number: int, packet: Any) -> Any:
        if number not in (10, 11, 57):
            return packet
        data = bytearray(bytes(packet))
        data[0] &= ~0x10
        hidden = av.Packet(bytes(data))
        hidden.pts, hidden.dts, hidden.time_base = packet.pts, packet.dts, packet.time_base
        hidden.is_keyframe = packet.is_keyframe
        return hidden

    path = remux(plain, folder / "webm_vp8_hidden.webm", hide)
    return Made(path, [n for n in range(100) if n not in (10, 11, 57)], True)
