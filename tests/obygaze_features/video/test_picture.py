"""The hash of the conversion: the same in every process, another for other pixels."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from support.cli import environment

from obygaze_features.video import picture
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
