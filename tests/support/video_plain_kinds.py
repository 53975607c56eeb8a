"""Kinds of video files that are nothing but a codec, with its options, in a container.

`generated_videos.py` has every codec, kind of group and container; here is what these do not have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.video_registry import Made, h264, register
from support.videos import write_video


def simple(
    name: str,
    options: dict[str, str] | None = None,
    *,
    codec: str = "libx264",
    suffix: str = "",
    timed: bool = True,
    count: int = 100,
    **more: Any,
) -> None:
    """Register a kind that is nothing but a codec in a container, which its name begins with."""
    file = f"{name}{suffix or '.' + name.partition('_')[0]}"

    def make(folder: Path) -> Made:
        numbers = range(count)
        settings = {"numbers": numbers, "options": options, **more}
        path = write_video(folder / file, codec, **settings)
        return Made(path, [*numbers], timed, [number / 25 for number in numbers])

    register(name, make)


PYRAMID = {"x264-params": "bframes=8:b-adapt=0:b-pyramid=normal:ref=6"}
OPEN = {"x264-params": "open-gop=1:bframes=3:b-adapt=0:scenecut=0"}
REFRESH = {"x264-params": "intra-refresh=1:bframes=2"}
FRAGMENTS = {"movflags": "frag_keyframe+empty_moov"}
simple("mp4_h264", h264())
simple("mkv_h264_short_groups", h264(g="12", bf="2"))
simple("mp4_h264_only_keys", h264(g="1"))
simple("mp4_h264_pyramid", h264(g="48", **PYRAMID))
simple("mp4_h264_open_groups", h264(g="20", **OPEN))
simple("ts_h264_open_groups", h264(g="20", **OPEN))
simple("ts_h264_intra_refresh", h264(g="30", **REFRESH))
simple("mkv_h264_lossless", h264(qp="0", g="40"), pix_fmt="yuv444p")
simple("mp4_h264_10bit", h264(g="40"), pix_fmt="yuv420p10le")
simple("mp4_h264_interlaced", h264(g="25", **{"x264-params": "interlaced=1:tff=1"}))
simple("ts_h264", h264(g="40"))
simple("flv_h264", h264(g="40"))
simple("avi_h264_b", h264(g="40", bf="3"), timed=False)
simple("raw_h264", h264(g="40"), suffix=".h264", timed=False)
simple("mp4_fragmented", h264(g="25"), container_options=FRAGMENTS)
simple("mp4_odd_size", h264(g="30"), size=(161, 123), pix_fmt="yuv444p")
simple("mp4_one_picture", h264(), count=1)
simple("mp4_five_pictures", h264(), count=5)
simple("mp4_with_sound", h264(g="30"), audio=True)
simple("mp4_with_cover", h264(g="30"), cover=True)

X265 = "log-level=none:pools=none:frame-threads=1"
TEN_BIT = f"{X265}:keyint=30:bframes=4:b-adapt=0"
LAYERS = f"{X265}:keyint=32:bframes=4:b-adapt=0:temporal-layers=3"
for name, parameters, pixels in (
    ("mkv_hevc_10bit", TEN_BIT, "yuv420p10le"),
    ("mp4_hevc_layers", LAYERS, "yuv420p"),
):
    quick = {"preset": "ultrafast", "x265-params": parameters}
    simple(name, quick, codec="libx265", pix_fmt=pixels)
VP9 = {"auto-alt-ref": "1", "lag-in-frames": "16", "g": "40", "b": "300k"}
VP9 |= {"deadline": "good", "cpu-used": "5"}
simple("webm_vp9", VP9, codec="libvpx-vp9")

MPEG4 = {"g": "30", "b": "500k"}
simple("avi_mpeg4_b", MPEG4 | {"bf": "2"}, codec="mpeg4", timed=False)
simple("mp4_mpeg4_long_groups", MPEG4 | {"bf": "0", "g": "300"}, codec="mpeg4")
sound = {"codec": "mpeg4", "timed": False, "audio": True}
simple("avi_with_sound", {"bf": "2", "g": "30"}, **sound)
MPEG2 = {"bf": "2", "g": "15", "b": "800k"}
INTERLACED = MPEG2 | {"b": "1500k", "flags": "+ildct+ilme", "top": "1"}
simple("mpg_mpeg2_b", MPEG2, codec="mpeg2video")
simple("vob_mpeg2_interlaced", INTERLACED, codec="mpeg2video")
simple("wmv_wmv2", MPEG4, codec="wmv2", timed=False)
simple("avi_huffyuv", codec="huffyuv", timed=False, pix_fmt="yuv422p")
simple("gif", codec="gif", timed=False, pix_fmt="gray")
simple("apng", codec="apng", timed=False, pix_fmt="rgb24", format="apng")
