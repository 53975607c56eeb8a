"""Each format returns what was written, whichever are installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from benchmarks import stores
from benchmarks.formats import FORMATS

pytestmark = pytest.mark.check("benchmarks")


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_returns_the_rows_that_are_asked_for(
    name: str, tmp_path: Path
) -> None:
    if find_spec(FORMATS[name].module) is None:
        pytest.skip(f"{name} is not installed")
    arrays = stores.make_up(200, "pooled", (8,), "float32")
    FORMATS[name].write(tmp_path / "written", arrays)
    opened = FORMATS[name](tmp_path / "written")
    whole = arrays["pooled"]
    np.testing.assert_array_equal(opened.all("pooled"), whole)
    chosen = [170, 3, 99]
    clips = arrays["clip_id"][chosen].tolist()
    np.testing.assert_array_equal(opened.of_clips("pooled", clips), whole[chosen])
    of_film = opened.of_film("pooled", "tt0000001")
    np.testing.assert_array_equal(of_film, whole[160:])
