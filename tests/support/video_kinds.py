"""Some fifty kinds of video files, each with the numbers of its pictures known by construction."""

from __future__ import annotations

from support import video_odd_kinds, video_plain_kinds
from support.video_registry import KINDS, Made

# The kinds are there once the modules that hold them have been read.
__all__ = ["KINDS", "Made", "video_odd_kinds", "video_plain_kinds"]
