"""The picture of a clip, which pages show where a browser cannot play its video."""

import base64
import io

import numpy as np
import pytest
from PIL import Image
from support.videos import read_number, write_video

from obygaze.films.page.media import still
from obygaze_features.manifest.model import Clip, Header, Manifest

RATE = 25


@pytest.mark.parametrize(("first", "last"), [(0, 99), (20, 30), (99, 99)])
def test_the_picture_of_a_clip_is_its_first(tmp_path, first, last) -> None:
    write_video(tmp_path / "a.mp4")
    times = {"start_s": first / RATE, "end_s": (last + 1) / RATE}
    clip = Clip("a-1", "a", video="a.mp4", **times)
    header = Header("films", video_root=str(tmp_path))
    url = still(Manifest("films", header, (clip,)), clip, workspace=tmp_path)
    kind, data = url.split(",")
    assert kind == "data:image/jpeg;base64"
    picture = np.array(Image.open(io.BytesIO(base64.b64decode(data))))
    assert read_number(picture) == first
    other = Clip("a-2", "a", video="missing.mp4", **times)
    for root, one in ((str(tmp_path), other), ("", clip)):
        manifest = Manifest("films", Header("films", video_root=root), (one,))
        assert still(manifest, one, workspace=tmp_path) == ""
