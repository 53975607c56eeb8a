"""Which array of a store answers: it is the default one, and the terminal and the page say it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.experiments import films, planted, quick, run_on
from support.stores import made_store

from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Row, Store
from obygaze_models.report.page import write_report
from obygaze_models.runner.text import result_text

RIDGE = ('grid.models=["ridge"]', 'grid.train=["EN_S"]', 'grid.test=["EN_S"]')


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return films(6, 20)


def two_arrays(path: Path, manifest: Manifest, first: str, second: str) -> Store:
    """A store of a signal and of noise."""
    rows = [Row(clip.clip_id, clip.movie_id) for clip in manifest]
    signal = planted(manifest, strength=2.0)
    noise = np.random.default_rng(5).standard_normal(signal.shape).astype(np.float32)
    return made_store(path, rows, {first: signal, second: noise})


def test_the_first_array_answers_and_is_named(
    tmp_path: Path, manifest: Manifest
) -> None:
    first, second = "pooled", "clip"
    seen = two_arrays(tmp_path / "seen", manifest, first, second)
    run = run_on(tmp_path, quick("honest", *RIDGE), manifest, {"seen": seen})
    of_run = run.about["stores"]["seen"]
    assert (of_run["array"], of_run["arrays"]) == (first, [first, second])
    assert result_text(run).splitlines()[1].endswith(f"visual view), array {first}")
    page = write_report([run.folder])[0].read_text()
    assert f"features seen: toy, array {first}" in page.split("</header>")[0]
    # The one that is asked for is another.
    protocol = quick("honest", *RIDGE, f'data.array=["{second}"]')
    other = run_on(tmp_path, protocol, manifest, {"seen": seen})
    assert f", array {second}" in result_text(other).splitlines()[1]


def test_several_stores_are_named_where_they_read_other_arrays(
    tmp_path: Path, manifest: Manifest
) -> None:
    """A store with one array was missing beside others, as if it had not been read."""
    seen = two_arrays(tmp_path / "seen", manifest, "pooled", "clip")
    rows = [Row(clip.clip_id, clip.movie_id) for clip in manifest]
    values = planted(manifest, strength=1.0)
    for array, shown in (
        ("pooled", "array pooled"),
        ("words", "array pooled of seen, array words of said"),
    ):
        said = made_store(tmp_path / array, rows, {array: values})
        stores = {"seen": seen, "said": said}
        run = run_on(tmp_path, quick("honest", *RIDGE), manifest, stores)
        assert result_text(run).splitlines()[1].endswith(f"visual view), {shown}")
