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
    from obygaze_features.video.files import probe_video as probe_video
    from obygaze_features.video.files import save_frames as save_frames
    from obygaze_features.video.film import VideoInfo as VideoInfo
    from obygaze_features.video.index import sample_indices as sample_indices
    from obygaze_features.video.pool import DecodePool as DecodePool
    from obygaze_features.video.sound import DecodedSound as DecodedSound
    from obygaze_features.video.sound import SoundView as SoundView
    from obygaze_features.video.sound import decode_sound as decode_sound
    from obygaze_features.video.worker import DecodeJob as DecodeJob
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
