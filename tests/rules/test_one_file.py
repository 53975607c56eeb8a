"""A film that is there under two names: where the rows of both meet, it is said."""

from __future__ import annotations

import re
import shutil
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.experiments import films, quick, run_on
from support.stores import made_store

from obygaze_features.core.errors import ObygazeWarning
from obygaze_features.store.changing import merge, subset
from obygaze_features.store.exporting import export_features
from obygaze_features.store.reading import Store, open_store
from obygaze_features.store.rows import Row
from obygaze_models.report.comparison import compare_runs
from obygaze_models.runner.experiments import open_stores
from obygaze_models.runner.limits import warnings_of

MANIFEST = films(4, 20, seed=2)
FILMS = [*dict.fromkeys(clip.movie_id for clip in MANIFEST)]
X = np.random.default_rng(0).normal(size=(len(MANIFEST), 24)).astype(np.float32)
CHANGES = (
    *('grid.models=["ridge"]', 'grid.train=["ENHN_S"]', 'grid.test=["ENHN_S"]'),
    *("report.contrast=[]", "report.concepts=false", "report.compare=false"),
    'grid.baselines=["all_positive"]',
)
# The file of each film; 0 is one that nobody knows.
FILES = st.lists(
    st.integers(0, 4), min_size=len(FILMS), max_size=len(FILMS), unique=False
)


def store_with(path: Path, files: list[int], chosen: list[str] | None = None) -> Store:
    """A store of the clips of some films; of each film the number of its file is given."""
    file_of = dict(zip(FILMS, files, strict=True))
    rows = []
    numbers = []
    for number, clip in enumerate(MANIFEST):
        if chosen is not None and clip.movie_id not in chosen:
            continue
        file = file_of[clip.movie_id]
        video = 16 * str(file) if file else ""
        numbers.append(number)
        rows.append(
            Row(
                clip.clip_id,
                clip.movie_id,
                clip.start_s,
                clip.end_s,
                video_bytes=7 if file else None,
                video_hash=video,
            )
        )
    return made_store(path, rows, {"clip": X[numbers]})


def several(files: list[int]) -> list[list[str]]:
    """The films of each file that has more than one."""
    found = []
    for file in range(1, 5):
        names = [film for film, its in zip(FILMS, files, strict=True) if its == file]
        if len(names) > 1:
            found.append(names)
    return found


@settings(max_examples=12)
@given(FILES, st.booleans())
def test_a_merger_and_a_withdrawal_name_the_other_names_of_a_film(
    files: list[int], is_one_clip: bool
) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        one = store_with(folder / "one", files, FILMS[:2])
        two = store_with(folder / "two", files, FILMS[2:])
        merged = merge([one, two], folder / "both")
        said = [text for text in merged.warnings if "several names" in text]
        assert len(said) == bool(several(files))
        for names in several(files):
            assert all(film in said[0] for film in names)
        first = FILMS[0]
        without = MANIFEST.clips[0].clip_id if is_one_clip else first
        changed = subset(folder / "both", without=[without], reason="asked")
        others = []
        for names in several(files):
            if first in names:
                others = names[1:]
        said = [text for text in changed.warnings if "under another name" in text]
        assert len(said) == bool(others)
        assert all(film in said[0] for film in others)
        # Of one clip nobody said that its film is to be withdrawn.
        assert all("--without CLIP for each of these clips" in text for text in said)
        left = {row.movie_id for row in open_store(folder / "both").rows if row.is_ok}
        assert left == set(FILMS if is_one_clip else FILMS[1:])
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("is_withdrawn", [False, True])
@pytest.mark.parametrize(
    "files", [[1, 1, 2, 3], [1, 2, 3, 4], [0, 0, 0, 0], [1, 2, 2, 2]]
)
def test_a_run_and_a_comparison_say_that_a_film_is_there_twice(
    tmp_path: Path, files: list[int], is_withdrawn: bool
) -> None:
    """A film without features in the run is not there."""
    stores = {"s": store_with(tmp_path / "s", files)}
    if is_withdrawn:
        subset(tmp_path / "s", without=[FILMS[0]], reason="asked")
        stores = {"s": open_store(tmp_path / "s")}
        files = [0, *files[1:]]
    run = run_on(tmp_path, quick("honest", *CHANGES, replicates=20), MANIFEST, stores)
    said = [warning.text for warning in warnings_of(run) if warning.about == "one file"]
    assert len(said) == bool(several(files))
    for names in several(files):
        assert all(film in said[0] for film in names)
    compared = compare_runs([run, run])
    beside = [text for text in compared.warnings if "several names" in text]
    assert beside == [f"{name}: {text}" for name in compared.runs for text in said]


def test_runs_and_exports_say_what_was_withdrawn_elsewhere(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        store_with(tmp_path / "stores" / name, [1, 2, 3, 4])
    subset("theirs", without=[FILMS[0]], reason="asked", workspace=tmp_path)
    n_clips = sum(clip.movie_id == FILMS[0] for clip in MANIFEST)
    said = f"({n_clips} clips) were withdrawn from theirs, still with features in"
    with pytest.warns(ObygazeWarning, match=re.escape(f"{said} x")):
        open_stores({"x": "ours"}, tmp_path)
    path = tmp_path / "x.npz"
    exported = export_features("ours", path, "npz", workspace=tmp_path)
    assert any(f"{said} this export" in text for text in exported.warnings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_stores({"x": "theirs"}, tmp_path)
