"""Each format returns what was written, whichever are installed, and each cost has a row."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from benchmarks import filling, stores
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


def test_the_table_has_a_row_for_each_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    # One rival is enough.
    for name in ("np.load", "HDF5", "zarr"):
        monkeypatch.delitem(stores.FORMATS, name)
    text = stores.measure(quick=True)
    for row in (
        "import of 1,000 x 512",
        "import of 1,000 x 64",
        "1,000, 100 clips, cold",
        "pooled, all, cold",
        "tokens, 100 clips, warm",
        "one film of 1,000, cold",
    ):
        assert f"\n{row}" in text


def test_few_requests_and_bytes_are_sent() -> None:
    pytest.importorskip("obstore")
    pooled, tokens, film = stores.measure_requests(quick=True).splitlines()[1:]
    # Requests, bytes, and their ratio to the bytes of the rows.
    assert int(pooled.split()[4]) <= 4
    assert float(tokens.split()[-1].removesuffix("x")) <= 1.05
    assert int(film.split()[5]) <= 6


def test_a_store_that_four_processes_fill_has_each_step() -> None:
    text = filling.measure(quick=True)
    assert "2,000 clips" in text and "blocks of 16" in text
    for row in ("plan", "fill, 4 processes", "seal", "read 100 clips", "read all"):
        assert f"\n{row}  " in text
