"""What a version wrote is read by this one, and gives the same numbers (docs/stable.md)."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from golden.doors import Place

import obygaze as og

HERE = Path(__file__).parent
VERSIONS = sorted(path.name for path in HERE.iterdir() if (path / "stores").is_dir())

Rows = list[dict[str, str]]


@pytest.fixture(params=VERSIONS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return a workspace as that version wrote it."""
    received = Place(tmp_path / "received")
    shutil.copytree(HERE / request.param, received.folder, dirs_exist_ok=True)
    return received


def assert_same(found: Rows, written: Rows) -> None:
    """Demand the same rows: numbers to nine digits, all else as it is."""
    assert len(found) == len(written)
    for row, expected in zip(found, written, strict=True):
        for name, cell in expected.items():
            try:
                number = float(cell)
            except ValueError:
                assert row[name] == cell, name
            else:
                assert float(row[name]) == pytest.approx(number, 1e-9, 1e-9), name


def test_a_manifest(place: Place) -> None:
    clips = {row["clip_id"]: row for row in place.read_table("films.csv")}
    read = og.read_manifest("films", workspace=place.folder).clips
    assert [clip.clip_id for clip in read] == list(clips)
    for clip in read:
        row = clips[clip.clip_id]
        assert (clip.movie_id, clip.level) == (row["movie_id"], row["level"])
        assert "|".join(clip.concepts) == row["concepts"]


def test_what_each_annotator_said(place: Place) -> None:
    place("manifest labels coded --rule by:ben -o ben")
    said = [row for row in place.read_table("coded.csv") if row["annotator"] == "ben"]
    labels = place.read_manifest("ben")
    assert [row["level"] for row in labels] == [row["level"] for row in said]


def test_marks(place: Place) -> None:
    spans = [{"clip_id": "one", "movie_id": "alba", "start_s": 0, "end_s": 5}]
    place.write_table("clips.csv", spans)
    said = {}
    for name in ("ada", "ben"):
        place(f"marks clips films.seen --clips clips.csv --rule by:{name} -o {name}")
        (labels,) = place.read_manifest(name)
        said[name] = (labels["level"], labels["concepts"])
    assert said == {"ada": ("S", "Look"), "ben": ("HN", "Body")}


def test_a_store(place: Place) -> None:
    place("store verify pictures")
    store = og.open_store("pictures", workspace=place.folder)
    with np.load(place.folder / "pictures.npz") as given:
        assert list(store.clip_ids) == list(given["clip_id"])
        read = store.read("clip", np.arange(len(store.clip_ids)))
        np.testing.assert_array_equal(read, given["X"])


def test_a_run(place: Place) -> None:
    folder = place.folder / "runs" / "first"
    written = place.read_table("runs/first/results.csv")
    metrics = {row["metric"] for row in written}

    def results() -> Rows:
        """The results without metrics that this version did not have."""
        rows = place.read_table("runs/first/results.csv")
        return [row for row in rows if row["metric"] in metrics]

    place("report first --format csv")
    assert_same(results(), written)
    before = place.read_table("runs/first/predictions.csv")
    shutil.rmtree(folder)
    place("run own.toml --store seen=pictures -o first --jobs 1")
    assert_same(place.read_table("runs/first/predictions.csv"), before)
    assert_same(results(), written)


def test_a_model(place: Place) -> None:
    place("models predict keeper pictures -o again.csv")
    assert_same(place.read_table("again.csv"), place.read_table("scores.csv"))
