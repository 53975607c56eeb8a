"""Look into a video file."""

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_features.video.files import probe_video as probe
    from obygaze_features.video.files import save_frames as frames
else:
    __getattr__, __dir__, _ = lazy_exports(__name__)

__all__ = [
    "frames",
    "probe",
]
