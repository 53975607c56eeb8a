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
            folder / f"{name}{suffix}",
            codec,
            numbers=range(count),
            options=options,
            **more,
        )
        return Made(path, list(range(count)), timed, [i / 25 for i in range(count)])

    register(name, make)


simple("mp4_h264", ".mp4", "libx264", True, h264())
simple("mkv_h264_short_groups", ".mkv", "libx264", True, h264(g="12", bf="2"))
simple("mp4_h264_only_keys", ".mp4", "libx264", True, h264(g="1"))
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
    "ts_h264_intra_refresh",
    ".ts",
    "libx264",
    True,
    h264(g="30", **{"x264-params": "intra-refresh=1:bframes=2"}),
)
simple(
    "mkv_h264_lossless",
    ".mkv",
    "libx264",
    True,
    h264(qp="0", g="40"),
    pix_fmt="yuv444p",
)
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
    "mkv_hevc_10bit",
    ".mkv",
    "libx265",
    True,
    {"preset": "ultrafast", "x265-params": f"{X265}:keyint=30:bframes=4:b-adapt=0"},
    pix_fmt="yuv420p10le",
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
simple("avi_mpeg4_b", ".avi", "mpeg4", False, {"bf": "2", "g": "30", "b": "500k"})
simple(
    "mp4_mpeg4_long_groups", ".mp4", "mpeg4", True, {"bf": "0", "g": "300", "b": "500k"}
)
simple("mpg_mpeg2_b", ".mpg", "mpeg2video", True, {"bf": "2", "g": "15", "b": "800k"})
simple(
    "vob_mpeg2_interlaced",
    ".vob",
    "mpeg2video",
    True,
    {"bf": "2", "g": "15", "b": "1500k", "flags": "+ildct+ilme", "top": "1"},
)
simple("avi_huffyuv", ".avi", "huffyuv", False, pix_fmt="yuv422p")
simple("gif", ".gif", "gif", False, pix_fmt="gray")
simple("apng", ".apng", "apng", False, pix_fmt="rgb24", format="apng")
simple("wmv_wmv2", ".wmv", "wmv2", False, {"g": "30", "b": "500k"})
simple(
    "mp4_odd_size",
    ".mp4",
    "libx264",
    True,
    h264(g="30"),
    size=(161, 123),
    pix_fmt="yuv444p",
)
simple("mp4_one_picture", ".mp4", "libx264", True, h264(), count=1)
simple("mp4_five_pictures", ".mp4", "libx264", True, h264(), count=5)
simple("mp4_with_sound", ".mp4", "libx264", True, h264(g="30"), audio=True)
simple("mp4_with_cover", ".mp4", "libx264", True, h264(g="30"), cover=True)
simple("avi_with_sound", ".avi", "mpeg4", False, {"bf": "2", "g": "30"}, audio=True)
