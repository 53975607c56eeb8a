"""`obygaze video`: its words and files as scripts outside the project use them."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.cli import call_obygaze
from support.damage import flip_bits_visibly
from support.videos import write_video

from obygaze_features.video.decode import decode_clip
from obygaze_features.video.decoded_clip import PictureView, contact_sheet


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("film") / "film.mp4"
    return write_video(
        path, options={"preset": "veryfast", "g": "25", "sc_threshold": "0"}, audio=True
    )


def test_frames_say_what_is_damaged_missing_or_not_in_the_film(tmp_path: Path) -> None:
    """As the row of a store does, so that a sheet of an incomplete film is not one of a whole."""
    options = {"preset": "veryfast", "g": "25", "sc_threshold": "0"}
    front = {"movflags": "faststart"}
    whole = write_video(
        tmp_path / "whole.mp4", options=options, container_options=front
    )
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size * 6 // 10])
    spoilt = flip_bits_visibly(whole, tmp_path / "spoilt.mp4", [0])
    late = write_video(tmp_path / "late.mkv", ticks=range(50, 150), audio=True)
    begin = "the pictures begin at 2.0 s, 2.0 s after the beginning of the clip"
    for path, remark in (
        (whole, ""),
        (cut, "frames are missing from the file"),
        (spoilt, "1 of 4 frames damaged"),
        (late, begin),
    ):
        words = ("video", "frames", path, "--count", "4", "--start", "0")
        line = call_obygaze(*words, "-o", tmp_path / "x.png", "--force").ok().stdout
        assert line.strip().partition("160 x 120")[2].removeprefix("; ") == remark
        words = (*words, "-o", tmp_path / "x.npz", "--force", "--json")
        found = call_obygaze(*words).ok().json()
        assert found["remarks"] == ([remark] if remark else [])


def test_a_contact_sheet_marks_damage_and_emptiness(film: Path) -> None:
    from dataclasses import replace

    clip = decode_clip(film, PictureView(6, "fps"))
    assert clip.mask.tolist() == [True] * 4 + [False] * 2
    plain = contact_sheet(clip)
    marked = contact_sheet(replace(clip, substituted=np.arange(6) == 1))
    assert plain != marked
    with Image.open(io.BytesIO(marked)) as sheet:
        pixels = np.asarray(sheet.convert("RGB")).astype(int)
    red = (pixels[..., 0] > 150) & (pixels[..., 1] < 60) & (pixels[..., 2] < 60)
    assert red[:, 168:336].any() and not red[:, :160].any()
