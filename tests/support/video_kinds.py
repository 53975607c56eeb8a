"""Some thirty kinds of video files, each with the numbers of its pictures known by construction.

`generated_videos.py` has every codec, kind of group and container; here is what these do not have:
their times, where they begin, how their pictures lie.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import av
import numpy as np

from support.videos import packet_of, remux, write_video

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
    KINDS[maker.__name__] = maker
    return maker


def h264(**more: str) -> dict[str, str]:
    return X264 | more


def simple(name: str, options=None, *, codec="libx264", timed=True, count=100, **more):
    """Register a kind that is nothing but a codec in a container, which its name begins with."""
    file = f"{name}.{name.partition('_')[0]}"

    def make(folder: Path) -> Made:
        settings = {"numbers": range(count), "options": options, **more}
        path = write_video(folder / file, codec, **settings)
        tick = more.get("tick", Fraction(1, 25))
        times_s = [float(tick * at) for at in more.get("ticks", range(count))]
        return Made(path, [*range(count)], timed, times_s)

    KINDS[name] = make


OPEN = {"x264-params": "open-gop=1:bframes=3:b-adapt=0:scenecut=0"}
PYRAMID = {"x264-params": "bframes=8:b-adapt=0:b-pyramid=normal:ref=6"}
FRAGMENTS = {"movflags": "frag_keyframe+empty_moov"}
simple("mkv_h264_short_groups", h264(g="12", bf="2"))
simple("mp4_h264_open_groups", h264(g="20", **OPEN))
simple("mp4_h264_pyramid", h264(g="48", **PYRAMID))
simple("mkv_h264_lossless", h264(qp="0", g="40"), pix_fmt="yuv444p")
simple("mp4_h264_10bit", h264(g="40"), pix_fmt="yuv420p10le")
simple("mp4_h264_interlaced", h264(g="25", **{"x264-params": "interlaced=1:tff=1"}))
simple("ts_h264", h264(g="40"))
simple("avi_h264_b", h264(g="40", bf="3"), timed=False)
simple("mp4_fragmented", h264(g="25"), container_options=FRAGMENTS)
simple("mp4_odd_size", h264(g="30"), size=(161, 123), pix_fmt="yuv444p")
simple("mp4_one_picture", h264(), count=1)
simple("mp4_with_cover", h264(g="30"), cover=True)

X265 = "log-level=none:pools=none:frame-threads=1"
LAYERS = f"{X265}:keyint=32:bframes=4:b-adapt=0:temporal-layers=3"
quick = {"preset": "ultrafast", "x265-params": LAYERS}
simple("mp4_hevc_layers", quick, codec="libx265")
VP9 = {"auto-alt-ref": "1", "lag-in-frames": "16", "g": "40", "b": "300k"}
VP9 |= {"deadline": "good", "cpu-used": "5"}
simple("webm_vp9", VP9, codec="libvpx-vp9")

MPEG4 = {"g": "30", "b": "500k"}
simple("avi_mpeg4_b", MPEG4 | {"bf": "2"}, codec="mpeg4", timed=False)
MPEG2 = {"bf": "2", "g": "15", "b": "800k"}
INTERLACED = MPEG2 | {"b": "1500k", "flags": "+ildct+ilme", "top": "1"}
simple("vob_mpeg2_interlaced", INTERLACED, codec="mpeg2video")
simple("gif", codec="gif", timed=False, pix_fmt="gray")
simple("apng", codec="apng", timed=False, pix_fmt="rgb24", format="apng")
FINE = Fraction(1, 1000)


# Pictures last from 20 to 180 ms.
STEPS = random.Random(7).choices([20, 33, 40, 41, 80, 180], k=99)
UNEVEN = {"ticks": np.cumsum([0, *STEPS]).tolist(), "tick": FINE}
WITH_B = {"x264-params": "bframes=3:b-adapt=0"}
simple("mkv_variable_rate", h264(g="30"), **UNEVEN)
simple("wtv_variable_rate", h264(g="30", **WITH_B), **UNEVEN)


@kind
def mp4_edit_list(folder: Path) -> Made:
    # Pictures before time 0 are stored, and an edit list says not to show them.
    ticks = [i - 37 for i in range(137)]
    path = folder / "mp4_edit_list.mp4"
    write_video(path, options=h264(g="50"), numbers=range(137), ticks=ticks)
    return Made(path, list(range(37, 137)), True, [i / 25 for i in range(100)])


@kind
def mkv_mpeg4_without_times(folder: Path) -> Made:
    # Copied from AVI the old way: the times in the file are those of decoding.
    plain = folder / "plain_vfw.avi"
    write_video(plain, "mpeg4", options=MPEG4 | {"bf": "2"})

    def of_decoding(number: int, packet: Any) -> Any:
        packet.time_base = FINE
        packet.pts = packet.dts = 40 * number
        return packet

    path = remux(plain, folder / "mkv_mpeg4_without_times.mkv", of_decoding)
    return Made(path, list(range(100)), False)


@kind
def avi_packed_b(folder: Path) -> Made:
    """DivX's trick: a B picture rides in the packet of the picture before it."""
    plain = folder / "plain_packed.avi"
    write_video(plain, "mpeg4", options=MPEG4 | {"bf": "1", "b_strategy": "0"})
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
            head, start, rest = packed[0].partition(b"\x00\x00\x01\xb6")
            packed[0] = head + b"\x00\x00\x01\xb2DivX503b1393p" + start + rest
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


# Pictures that lie turned, with the note that turns them back, and pixels that are not square.
for angle in (90, 180):
    setup = partial(av.VideoStream.set_display_rotation, degrees=-angle)
    simple(f"mp4_turned_{angle}", h264(g="30"), turn=angle, setup=setup)


def set_shape(stream: Any, shape: Fraction) -> None:
    stream.codec_context.sample_aspect_ratio = shape


for shape_name, ratio in (("wide", Fraction(16, 11)), ("narrow", Fraction(8, 9))):
    setup = partial(set_shape, shape=ratio)
    simple(f"mp4_{shape_name}_pixels", h264(g="30"), setup=setup)


@kind
def webm_vp8_hidden(folder: Path) -> Made:
    # Pictures that only later ones are built on: one bit says not to show them.
    plain = folder / "plain_hidden.webm"
    write_video(plain, "libvpx", options={"deadline": "realtime", "b": "400k"})

    def hide(number: int, packet: Any) -> Any:
        if number not in (10, 11, 57):
            return packet
        data = bytearray(bytes(packet))
        data[0] &= ~0x10
        return packet_of(packet, bytes(data))

    path = remux(plain, folder / "webm_vp8_hidden.webm", hide)
    return Made(path, [n for n in range(100) if n not in (10, 11, 57)], True)
