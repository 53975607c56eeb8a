from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from obygaze_features.video import resize
from obygaze_features.video.resize import Resize, resize_crop, squash_like_opencv

SHAPES = [(544, 1280), (301, 200), (448, 448), (1, 3)]
PILLOW = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def frames(height: int, width: int, n: int = 2, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, height, width, 3), dtype=np.uint8)


def by_pillow(x: Any, size: tuple[int, int], kernel: str) -> Any:
    """Across, then down, in two steps: newer Pillows choose the order of a single one by cost."""
    height, width = size
    images = [Image.fromarray(f).resize((width, x.shape[1]), PILLOW[kernel]) for f in x]
    down = [image.resize((width, height), PILLOW[kernel]) for image in images]
    return np.stack(list(map(np.asarray, down)))


@pytest.fixture(params=["plain", "compiled"], autouse=True)
def sums(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test twice: with SciPy's sums, and with those that Numba compiled."""
    if request.param == "compiled":
        pytest.importorskip("numba", reason="numba is not installed")
    after = {"plain": 10**9, "compiled": -1}[request.param]
    monkeypatch.setattr(resize, "COMPILED_AFTER", after)
    return str(request.param)


# The fixture sets the same thing for all examples.
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    height=st.integers(1, 90),
    width=st.integers(1, 90),
    size=st.tuples(st.integers(1, 70), st.integers(1, 70)),
    kernel=st.sampled_from(["bilinear", "bicubic"]),
    seed=st.integers(0, 9),
)
def test_any_size_to_any_size_is_pillows(height, width, size, kernel, seed) -> None:
    x = frames(height, width, 1, seed)
    found = resize_crop(x, size, (0, 0, *size), kernel)
    assert np.array_equal(found, by_pillow(x, size, kernel))


def test_a_crop_is_a_part_of_the_whole() -> None:
    x = frames(200, 60)
    whole = resize_crop(x, (40, 30), (0, 0, 40, 30), "bicubic")
    part = resize_crop(x, (40, 30), (5, 3, 20, 21), "bicubic")
    assert np.array_equal(part, whole[:, 5:25, 3:24])


def test_extremes_do_not_overflow() -> None:
    # Negative lobes of the bicubic kernel beside full white: the largest sums there are.
    x = np.zeros((1, 64, 64, 3), np.uint8)
    x[:, ::2, ::2] = 255
    x[:, 20:40, 20:40] = 255
    for size in ((200, 200), (31, 31), (64, 9)):
        found = resize_crop(x, size, (0, 0, *size), "bicubic")
        assert np.array_equal(found, by_pillow(x, size, "bicubic"))


@pytest.mark.parametrize(("height", "width"), SHAPES)
def test_squash_is_opencvs(height: int, width: int) -> None:
    cv2 = pytest.importorskip("cv2", reason="opencv is not installed")
    x = frames(height, width)
    expected = np.stack([cv2.resize(frame, (64, 64)) for frame in x])
    assert np.array_equal(squash_like_opencv(x, 64), expected)


@pytest.mark.parametrize(
    ("resize", "shape"),
    [
        (Resize(224, 224), (224, 224)),
        (Resize(256, 224, filter="bilinear", crop_offset="round"), (224, 224)),
        (Resize(50), (50, 88)),
        (Resize(50, squash_first=70), (50, 50)),
        (Resize(256, fit="squash", filter="nearest"), (256, 256)),
        (Resize(0, 3, target=(6, 10)), (6, 10)),
    ],
)
def test_the_shape_is_known_before(resize: Resize, shape: tuple[int, int]) -> None:
    x = frames(270, 480)
    assert resize.shape(270, 480) == resize(x).shape[1:3] == shape


def test_nearest_by_hand() -> None:
    # 5 columns to 2: the centres 1.25 and 3.75; 3 rows to 2: 0.75 and 2.25.
    x = np.arange(15, dtype=np.uint8).reshape(1, 3, 5, 1).repeat(3, axis=3)
    small = Resize(2, fit="squash", filter="nearest")(x)
    assert small[0, :, :, 0].tolist() == [[1, 3], [11, 13]]
    assert small[0, :, :, 2].tolist() == [[1, 3], [11, 13]]
