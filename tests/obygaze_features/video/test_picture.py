"""The hash of the conversion: the same in every process, another for other pixels."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.cli import environment
from support.videos import write_video

from obygaze_features.video import PictureView, decode_clip, picture
from obygaze_features.video.container import BadVideo
from obygaze_features.video.picture import PictureConverter


def test_the_same_in_another_process() -> None:
    code = (
        "from obygaze_features.video import picture; print(picture.conversion_sha256())"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(
        words, env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == picture.conversion_sha256()


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


@pytest.mark.parametrize("matrix", ["bt2020c", "YCgCo"])
def test_colours_without_a_formula_are_a_reason(tmp_path: Path, matrix: str) -> None:
    options = {"preset": "veryfast", "x264-params": f"colormatrix={matrix}"}
    film = write_video(tmp_path / "film.mp4", numbers=range(5), options=options)
    with pytest.raises(BadVideo, match="colours of its pictures") as caught:
        decode_clip(film, PictureView(2))
    assert caught.value.reason == "colours"
