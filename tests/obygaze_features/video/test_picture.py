"""The conversion to RGB: other pixels have another hash, and colours without a formula fail."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.videos import write_video

from obygaze_features.video import PictureView, decode_clip, picture
from obygaze_features.video.container import BadVideo
from obygaze_features.video.picture import PictureConverter


def test_one_level_of_one_pixel_is_another_hash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = picture.conversion_sha256()
    convert = PictureConverter.convert

    def other(*args: object) -> np.ndarray:
        pixels = convert(*args).copy()  # type: ignore[arg-type]
        pixels[0, 0, 0] ^= 1
        return pixels

    monkeypatch.setattr(PictureConverter, "convert", other)
    picture.conversion_sha256.cache_clear()
    assert picture.conversion_sha256() != before
    picture.conversion_sha256.cache_clear()


def test_colours_without_a_formula_are_a_reason(tmp_path: Path) -> None:
    options = {"preset": "veryfast", "x264-params": "colormatrix=YCgCo"}
    film = write_video(tmp_path / "film.mp4", numbers=range(5), options=options)
    with pytest.raises(BadVideo, match="colours of its pictures") as caught:
        decode_clip(film, PictureView(2))
    assert caught.value.reason == "colours"
