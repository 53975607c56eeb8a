"""Ids that a manifest accepts, through every export and import: clips, films and numbers are equal.

`OBYGAZE_ROUND_TRIPS=100` draws 100 lists of 100 ids each, in place of a few short ones; it takes
minutes, so that pytest needs `--timeout=0`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stores import plan_store

from obygaze_features.manifest.adapters.join_table import join
from obygaze_features.manifest.io import ID, read_manifest, write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.manifest.tables import read_table
from obygaze_features.store import ArraySpec, RowStatus, Store, StoreWriter, open_store
from obygaze_features.store.interchange import open_features
from obygaze_features.store.interchange.export import export_store
from obygaze_features.store.interchange.importing import import_store
from obygaze_models.zoo.predicting import Predicted

N_LISTS = int(os.environ.get("OBYGAZE_ROUND_TRIPS", "0"))
N_IDS = 100 if N_LISTS else 12
ARRAYS = (ArraySpec("clip", (2,)), ArraySpec("frames", (3, 2), dtype="float16"))
# Names of arrays and files of the formats, numbers, words of other programs, the longest.
AWKWARD = (
    *(
        "keys",
        "ids",
        "id",
        "names",
        "video_names",
        "clip_id",
        "movie_id",
        "clip",
        "frames",
    ),
    *(
        "level",
        "concepts",
        "labels.csv",
        "levels.txt",
        "a.npy",
        "a.pth",
        "a.h5",
    ),
    *(
        "007",
        "7",
        "7.0",
        "1e5",
        "1_000",
        "nan",
        "inf",
        "NULL",
        "None",
        "TRUE",
        "NaN",
        "_",
        "__",
    ),
    *(
        "A-1",
        "a-1",
        "a",
        "A",
        "a.",
        "a..",
        "a-",
        "a+",
        "a-b-",
        "0",
        "00",
        "CON",
        "x" * 200,
    ),
)
ANY = st.from_regex(ID, fullmatch=True)
FILMS = st.lists(st.sampled_from(AWKWARD) | ANY, min_size=1, max_size=4, unique=True)


@st.composite
def clips_of_films(draw: st.DrawFn) -> dict[str, str]:
    """Draw clip ids with their films."""
    films = draw(FILMS)
    awkward = draw(st.lists(st.sampled_from(AWKWARD), max_size=N_IDS // 4, unique=True))
    others = draw(st.lists(ANY, min_size=N_IDS, max_size=N_IDS, unique=True))
    clips = list(dict.fromkeys([*awkward, *others]))[:N_IDS]
    return {clip: films[index % len(films)] for index, clip in enumerate(clips)}


def stored(folder: Path, films: dict[str, str]) -> Store:
    """Seal a store of the clips; each number says whose it is."""
    plan = plan_store(
        folder,
        len(films),
        32,
        clip_ids=list(films),
        movie_ids=list(films.values()),
        arrays=ARRAYS,
    )
    writer = StoreWriter(folder)
    for block in range(plan.n_blocks):
        rows = np.arange(*plan.block_range(block))
        frames = (
            rows[:, None, None] + np.zeros((1, 3, 2)) + np.arange(3)[None, :, None] / 4
        )
        arrays = {"clip": np.stack([rows, -rows], axis=1), "frames": frames}
        numbers = {spec.name: arrays[spec.name].astype(spec.dtype) for spec in ARRAYS}
        writer.commit_block(block, numbers, [RowStatus()] * len(rows))
    writer.seal()
    return open_store(folder)


def check_equal(first: Store, second: Store, names: dict[str, str]) -> None:
    """Compare clips, films and numbers; `names` maps the arrays of the first to the second's."""
    clips = first.clip_ids.tolist()
    assert sorted(second.clip_ids.tolist()) == sorted(clips)
    films = [
        dict(zip(s.clip_ids.tolist(), s.movie_ids.tolist(), strict=True))
        for s in (first, second)
    ]
    assert films[0] == films[1]
    assert set(second.feature_arrays) == set(names.values())
    for array, name in names.items():
        values = first.matrix(array, clips=clips).values
        np.testing.assert_array_equal(second.matrix(name, clips=clips).values, values)


# The format, the array that is exported (None: all), its name in the import.
TRIPS = [
    ("hdf5", None, {"clip": "clip", "frames": "frames"}),
    ("hdf5", "clip", {"clip": "clip"}),
    ("npz", None, {"clip": "clip", "frames": "frames"}),
    ("npy", None, {"clip": "clip", "frames": "frames"}),
    ("pth", "frames", {"frames": "tokens"}),
    ("parquet", None, {"clip": "clip"}),
    ("parquet", "frames", {"frames": "frames"}),
]


@settings(max_examples=N_LISTS or 2, print_blob=True)
@given(films=clips_of_films())
def test_any_ids_there_and_back(
    tmp_path_factory: pytest.TempPathFactory, films: dict[str, str]
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("pyarrow")
    root = tmp_path_factory.mktemp("trips")
    store = stored(root / "s", films)
    for number, (format, array, names) in enumerate(TRIPS):
        out, again = root / f"out-{number}", root / f"again-{number}"
        arrays = None if array is None else [array]
        export_store(store, out, format, arrays=arrays)
        source = open_features(format, [out])
        import_store(source, again)
        source.close()
        check_equal(store, open_store(again), names)
    shutil.rmtree(root)


@settings(max_examples=N_LISTS or 4, print_blob=True)
@given(films=clips_of_films())
def test_any_ids_in_tables(
    tmp_path_factory: pytest.TempPathFactory, films: dict[str, str]
) -> None:
    """The manifest itself, labels.csv, which is joined to it, and predictions.csv."""
    root = tmp_path_factory.mktemp("tables")
    clips = [
        Clip(clip, film, level="S", concepts=("=Look",)) for clip, film in films.items()
    ]
    labels = Manifest("m", Header("made up", {"=Look": "visual"}), tuple(clips))
    write_manifest(labels, root / "m.toml")
    assert read_manifest(root / "m.toml") == labels
    numbers = np.arange(len(films), dtype=np.float64)
    predicted = Predicted(
        clip_ids=list(films),
        basis=["unseen"] * len(films),
        classes=["S"],
        scores=numbers[:, None],
        are_probabilities=True,
        decisions=["S"] * len(films),
        margins={"=Look": numbers},
        contributions={},
        absent={},
        refused={},
    )
    store = stored(root / "s", films)
    table = root / "predictions.csv"
    table.write_text(predicted.to_csv(), encoding="utf-8")
    rows = read_table(table, required=("clip_id", "p:S", "margin:=Look")).rows
    found = {
        row["clip_id"]: (float(row["p:S"]), float(row["margin:=Look"])) for row in rows
    }
    assert found == {clip: (i, i) for i, clip in enumerate(films)}
    joined = join(labels, table, {"p": "p:S"}).manifest
    expected = {clip: str(float(i)) for i, clip in enumerate(films)}
    assert {clip.clip_id: clip.extra["p"] for clip in joined} == expected
    folder = root / "out"
    export_store(store, folder, "npy", arrays=["clip"], labels=labels)
    rows = read_table(folder / "labels.csv", required=("clip_id", "movie_id")).rows
    assert {row["clip_id"]: row["movie_id"] for row in rows} == films
    assert {(row["level"], row["concepts"]) for row in rows} == {("S", "=Look")}
    shutil.rmtree(root)
