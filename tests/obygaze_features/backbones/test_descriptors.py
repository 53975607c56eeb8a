from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from obygaze_features.backbones.actions import load_backbone
from obygaze_features.backbones.descriptors import describe
from obygaze_features.core.errors import FixInput

T, S = 16, 64


@pytest.fixture(scope="module")
def backbone() -> Any:
    return load_backbone("descriptors")


def plain(*rgb: float, n: int = T) -> Any:
    colour = np.array(rgb)[None, :, None, None]
    return np.broadcast_to(colour, (n, 3, S, S)).astype(np.float64)


def test_one_colour() -> None:
    red = describe(plain(1.0, 0.0, 0.0))[5]
    assert red[:3].tolist() == [1, 0, 0]
    assert red[3:6] == pytest.approx(0)
    # Brightness .299 is the third of eight steps; full saturation; the first hue.
    assert red[6:14].tolist() == [0, 0, 1, 0, 0, 0, 0, 0]
    assert red[14:16] == pytest.approx([1, 0])
    assert red[16:24].tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
    assert red[24] == pytest.approx(0.3 * np.hypot(1, 0.5))
    assert red[25] == 1
    assert red[26:35] == pytest.approx(0.299)
    assert red[35:] == pytest.approx([0] * 27 + [0.5, 0.5])


@pytest.mark.parametrize(
    ("rgb", "step"),
    [((1, 1, 0), 1), ((0, 1, 0), 3), ((0, 1, 1), 4), ((0, 0, 1), 5), ((1, 0, 1), 7)],
)
def test_hues(rgb: tuple[float, float, float], step: int) -> None:
    # Steps of 45 degrees centred on red: yellow 60, green 120, cyan 180, blue 240, magenta 300.
    assert describe(plain(*rgb))[0, 16:24].argmax() == step


def test_grey_has_no_hue() -> None:
    grey = describe(plain(0.5, 0.5, 0.5))[0]
    assert grey[14:26] == pytest.approx(0)
    black = describe(plain(0, 0, 0))
    assert np.isfinite(black).all()


def test_edges() -> None:
    clip = plain(0, 0, 0, n=2).copy()
    clip[0, :, :, S // 2 :] = 1  # an upright edge: brightness changes across
    clip[1, :, S // 2 :, :] = 1  # a level one
    got = describe(clip)
    assert got[0, 36:44].tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
    assert got[1, 36:44].tolist() == [0, 0, 0, 0, 1, 0, 0, 0]
    # Two of the 62 inner columns see a step of 1.
    assert got[0, 44:46] == pytest.approx(2 / (S - 2))
    assert got[0, 46] == pytest.approx(-1)
    assert got[1, 46:48] == pytest.approx(0)
    # Top rows black, bottom rows white, and the middle grey: 0, 1/2 or so, 1.
    assert got[1, 26:29] == pytest.approx(0)
    assert got[1, 32:35] == pytest.approx(1)


def test_diagonal_edges() -> None:
    y, x = np.mgrid[0:S, 0:S]
    ramp = np.clip((x + y) / (2 * S), 0, 1)
    clip = np.broadcast_to(ramp, (1, 3, S, S))
    assert describe(clip)[0, 36:44].argmax() == 2  # 45 degrees
    assert describe(clip[..., ::-1])[0, 36:44].argmax() == 6  # 135 degrees


def test_entropy_and_balance() -> None:
    x = np.arange(S)
    even = np.broadcast_to((x * 8 // S) / 8 + 1 / 16, (1, 3, S, S))
    assert describe(even)[0, 35] == pytest.approx(1)
    centre = np.zeros((1, 3, S, S))
    centre[..., 16:48, 16:48] = 1
    assert describe(centre)[0, 47] == pytest.approx(1)


def test_motion() -> None:
    clip = plain(0, 0, 0, n=4).copy()
    clip[1, :, :16, :16] = 1  # a sixteenth lights up, top left
    clip[2] = clip[1]
    clip[3] = 1
    got = describe(clip)
    assert got[0, 48:61] == pytest.approx(0)
    assert got[0, 62:].tolist() == [0.5, 0.5]
    assert got[1, 48] == pytest.approx(1 / 16)
    assert got[1, 49] == pytest.approx(np.sqrt(1 / 16 * 15 / 16))
    assert got[1, 50:52] == pytest.approx(1 / 16)
    assert got[1, 52] > 0
    assert got[1, 53:61] == pytest.approx(0)
    assert got[1, 61] == pytest.approx(1 / 16)
    assert got[1, 62:] == pytest.approx(8 / 64)
    assert got[2, 48:62] == pytest.approx(0)
    assert got[3, 48] == pytest.approx(15 / 16)
    clip[3] = 0
    assert describe(clip)[3, 51] == pytest.approx(-1 / 16)


def test_arrays(backbone: Any) -> None:
    rng = np.random.default_rng(0)
    clips = rng.random((3, T, 3, S, S), dtype=np.float32)
    got = backbone.forward(clips)
    shapes = {name: array.shape for name, array in backbone.arrays.items()}
    assert {name: values.shape[1:] for name, values in got.items()} == shapes
    assert all(v.dtype == np.float32 for v in got.values())
    frames = np.stack([describe(clip.astype(np.float64)) for clip in clips])
    assert got["frames"].shape == (3, T, 64)
    assert np.allclose(got["frames"], frames)
    both = np.concatenate([frames.mean(1), frames.std(1)], axis=1)
    assert np.allclose(got["clip"], both)
    assert np.allclose(got["pooled"], frames.max(1))
    other = clips.copy()
    other[1] = 0
    changed, alone = backbone.forward(other), backbone.forward(clips[2:])
    for name, values in got.items():
        assert np.array_equal(changed[name][[0, 2]], values[[0, 2]])
        assert not np.array_equal(changed[name][1], values[1])
        assert np.array_equal(alone[name][0], values[2])
    assert list(backbone.forward(clips, only=["pooled"])) == ["pooled"]


@given(st.integers(8, 300), st.integers(8, 300), st.integers(0, 255))
def test_any_size_keeps_a_plain_picture_plain(height, width, level) -> None:
    frames = np.full((2, height, width, 3), level, np.uint8)
    pixels = load_backbone("descriptors").preprocess(frames)
    assert pixels.shape == (2, 3, 64, 64)
    assert np.allclose(pixels, level / 255)


def test_preprocessing_is_the_mean_of_each_cell(backbone: Any) -> None:
    rng = np.random.default_rng(1)
    frames = rng.integers(0, 256, (2, 256, 256, 3), dtype=np.uint8)
    cells = frames.reshape(2, 64, 4, 64, 4, 3).mean(axis=(2, 4)) / 255
    found = backbone.preprocess(frames)
    assert np.allclose(found, cells.transpose(0, 3, 1, 2), atol=1e-6)
    # Larger frames are looked at on 256 rows and columns: each fourth of 1024, from the second.
    large = rng.integers(0, 256, (1, 1024, 512, 3), dtype=np.uint8)
    small = large[:, 2::4, 1::2]
    assert np.array_equal(backbone.preprocess(large), backbone.preprocess(small))


def test_pixels_without_an_area_for_each_cell_are_refused(backbone: Any) -> None:
    with pytest.raises(FixInput, match="at least 8 x 8"):
        backbone.forward(np.zeros((1, T, 3, 4, 4)))


def test_frames_and_masks_that_mean_nothing_are_refused(backbone: Any) -> None:
    with pytest.raises(FixInput, match="uint8"):
        backbone.preprocess(np.zeros((2, 8, 8, 3)))
    with pytest.raises(FixInput, match="takes no mask"):
        backbone.forward(np.zeros((1, T, 3, S, S)), np.zeros((1, T)))
    backbone.forward(np.zeros((1, T, 3, S, S)), np.ones((1, T)))
