"""Probe videos, and decode the exact pictures of clips, also in worker processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_features.video.container import BadVideo as BadVideo
    from obygaze_features.video.decode import decode_clip as decode_clip
    from obygaze_features.video.decode import decode_views as decode_views
    from obygaze_features.video.decoded_clip import DecodedClip as DecodedClip
    from obygaze_features.video.decoded_clip import PictureView as PictureView
    from obygaze_features.video.files import SavedFrames as SavedFrames
    from obygaze_features.video.film import VideoInfo as VideoInfo
    from obygaze_features.video.functions import probe_video as probe_video
    from obygaze_features.video.functions import save_frames as save_frames
    from obygaze_features.video.index import sample_indices as sample_indices
    from obygaze_features.video.pool import DecodePool as DecodePool
    from obygaze_features.video.sound import DecodedSound as DecodedSound
    from obygaze_features.video.sound import SoundView as SoundView
    from obygaze_features.video.sound import decode_sound as decode_sound
    from obygaze_features.video.worker import DecodeJob as DecodeJob
else:
    _EXPORTS = {
        "obygaze_features.video.container": ("BadVideo",),
        "obygaze_features.video.decode": ("decode_clip", "decode_views"),
        "obygaze_features.video.decoded_clip": ("DecodedClip", "PictureView"),
        "obygaze_features.video.files": ("SavedFrames",),
        "obygaze_features.video.film": ("VideoInfo",),
        "obygaze_features.video.functions": ("probe_video", "save_frames"),
        "obygaze_features.video.index": ("sample_indices",),
        "obygaze_features.video.pool": ("DecodePool",),
        "obygaze_features.video.sound": ("DecodedSound", "SoundView", "decode_sound"),
        "obygaze_features.video.worker": ("DecodeJob",),
    }
    __getattr__, __dir__, __all__ = lazy_exports(__name__, _EXPORTS)
