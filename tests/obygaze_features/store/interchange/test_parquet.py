"""Parquet: what pyarrow reads from an export, and what an import reads of files of others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from support.cli import call_obygaze
from support.stores import fill_store, plan_store, some_values

from obygaze_features.core import system
from obygaze_features.core.errors import Corrupt, FixInput, FixUsage
from obygaze_features.manifest import Clip, Header, Manifest, write_manifest
from obygaze_features.store import ArraySpec, RowStatus, Store, open_store
from obygaze_features.store.interchange import parquet_files
from obygaze_features.store.interchange.export import export_store
from obygaze_features.store.interchange.importing import import_features

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ARRAYS = (
    ArraySpec("clip", (4,)),
    ArraySpec("small", (3,), dtype="float16"),
    ArraySpec("wide", (2,), dtype="float64"),
    ArraySpec("tokens", (3, 2, 2), dtype="float16"),
)
# Films that would be one file on Windows, and a word that the hub takes for a split.
FILMS = ("alba", "ALBA", "test")
CLIPS = tuple(f"{film}-{number}" for film in FILMS for number in range(5))


def a_store(path: Path, **changes: Any) -> Store:
    plan = {
        "clip_ids": CLIPS,
        "movie_ids": [clip.partition("-")[0] for clip in CLIPS],
        "arrays": ARRAYS,
        **changes,
    }
    plan_store(path, block_rows=4, **plan)
    failed = {6: RowStatus.failed("decode", "OSError", "a broken file")}
    values = some_values(len(plan["clip_ids"]), plan["arrays"])
    fill_store(path, values, failed).seal()
    return open_store(path)


def a_manifest() -> Manifest:
    clips = []
    for number, clip_id in enumerate(CLIPS[:-1]):
        film = clip_id.partition("-")[0]
        title = {"alba": "L'Alba", "ALBA": "Alba 2"}.get(film, "")
        clip = Clip(
            clip_id,
            film,
            start_s=None if number == 0 else 2.5 * number,
            end_s=None if number == 0 else 2.5 * number + 1,
            level="S" if number % 2 else "",
            concepts=("Look", "Body") if number % 2 else (),
            extra={"movie_title": title},
        )
        clips.append(clip)
    header = Header("Films", {"Look": "visual", "Body": "visual"})
    return Manifest("made-up", header, tuple(clips), ("movie_title",))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return a_store(tmp_path / "stores" / "s")


def read(folder: Path) -> dict[str, Any]:
    """Return all rows of an export by clip, read without obygaze."""
    rows = {}
    for file in (folder / "data").iterdir():
        for row in parquet.read_table(file).to_pylist():
            rows[row["clip_id"]] = row
    return rows


def test_each_film_is_a_file_with_a_row_a_clip_and_equal_numbers(
    tmp_path: Path, store: Store
) -> None:
    done = export_store(store, tmp_path / "out", "parquet")
    assert (done.n_clips, done.arrays) == (14, ["clip", "small", "wide"])
    assert list(done.left_out) == ["ALBA-1"]
    files = sorted(path.name for path in (tmp_path / "out" / "data").iterdir())
    assert files == ["ALBA-2.parquet", "alba.parquet", "test.parquet"]
    for file in files:
        table = parquet.read_table(tmp_path / "out" / "data" / file)
        assert len(set(table["movie_id"].to_pylist())) == 1
    rows = read(tmp_path / "out")
    assert list(rows["alba-0"]) == ["clip_id", "movie_id", "clip", "small", "wide"]
    ids = [clip for clip in CLIPS if clip != "ALBA-1"]
    assert sorted(rows) == sorted(ids)
    for name in done.arrays:
        values = np.array([rows[clip][name] for clip in ids])
        np.testing.assert_array_equal(values, store.matrix(name, clips=ids).values)


def test_the_types_of_columns_are_those_of_the_arrays(
    tmp_path: Path, store: Store
) -> None:
    export_store(
        store,
        tmp_path / "out",
        "parquet",
        arrays=["clip", "small", "wide", "tokens"],
        labels=a_manifest(),
        compress=True,
    )
    schema = parquet.read_schema(tmp_path / "out/data/alba.parquet")
    half = pyarrow.float16()
    assert dict(zip(schema.names, schema.types, strict=True)) == {
        "clip_id": pyarrow.string(),
        "movie_id": pyarrow.string(),
        "title": pyarrow.string(),
        "start_s": pyarrow.float64(),
        "end_s": pyarrow.float64(),
        "level": pyarrow.string(),
        "concepts": pyarrow.list_(pyarrow.string()),
        "clip": pyarrow.list_(pyarrow.float32(), 4),
        "small": pyarrow.list_(half, 3),
        "wide": pyarrow.list_(pyarrow.float64(), 2),
        "tokens": pyarrow.list_(pyarrow.list_(pyarrow.list_(half, 2), 2), 3),
    }
    group = parquet.ParquetFile(tmp_path / "out/data/alba.parquet").metadata.row_group(
        0
    )
    assert {group.column(i).compression for i in range(group.num_columns)} == {"ZSTD"}
    provenance = json.loads(schema.metadata[b"obygaze_provenance"])
    assert provenance["fingerprint"] == store.fingerprint
    assert provenance["licence"] == "CC0-1.0"
    tokens = np.array([row["tokens"] for row in read(tmp_path / "out").values()])
    assert tokens.shape == (14, 3, 2, 2)


def test_labels_titles_and_times_are_those_of_the_manifest(
    tmp_path: Path, store: Store
) -> None:
    export_store(store, tmp_path / "out", "parquet", labels=a_manifest())
    rows = read(tmp_path / "out")
    facts = ("movie_id", "title", "start_s", "end_s", "level", "concepts")

    def facts_of(clip: str) -> tuple[Any, ...]:
        return tuple(rows[clip][name] for name in facts)

    assert facts_of("alba-0") == ("alba", "L'Alba", None, None, None, [])
    assert facts_of("alba-1") == ("alba", "L'Alba", 2.5, 3.5, "S", ["Look", "Body"])
    assert facts_of("ALBA-0") == ("ALBA", "Alba 2", 12.5, 13.5, "S", ["Look", "Body"])
    # Not in the manifest.
    assert facts_of("test-4") == ("test", None, None, None, None, None)


def test_the_manifest_of_the_store_is_found_in_the_workspace(tmp_path: Path) -> None:
    manifest = a_manifest()
    ids = list(manifest.clip_ids)
    films = [clip.movie_id for clip in manifest]
    a_store(
        tmp_path / "stores" / "s", manifest_name="films", clip_ids=ids, movie_ids=films
    )
    write_manifest(manifest, tmp_path / "manifests" / "films.toml")
    said = call_obygaze(
        "-C", tmp_path, "store", "export", "parquet", "s", tmp_path / "out"
    )
    assert said.code == 3  # a clip has no features
    note = "titles, times and labels are those of the manifest films"
    assert note in " ".join(said.stderr.split())
    assert read(tmp_path / "out")["alba-1"]["level"] == "S"
    # A manifest of that name that lacks a clip is another one.
    others = manifest.with_clips(manifest.clips[1:])
    write_manifest(others, tmp_path / "manifests" / "films.toml", force=True)
    done = export_store("s", tmp_path / "other", "parquet", workspace=tmp_path)
    assert done.labels_of == ""
    assert "level" not in read(tmp_path / "other")["alba-1"]


def test_published_films_have_titles_without_a_manifest(tmp_path: Path) -> None:
    films = ["tt0467406" if clip.startswith("alba") else "other" for clip in CLIPS]
    store = a_store(tmp_path / "s", movie_ids=films)
    export_store(store, tmp_path / "out", "parquet")
    titles = {row["title"] for row in read(tmp_path / "out").values()}
    assert titles == {"Juno", None}


def test_windows_have_the_times_of_the_store(tmp_path: Path) -> None:
    arrays = (
        ArraySpec("clip", (2,)),
        ArraySpec("start_s", (), dtype="float64"),
        ArraySpec("end_s", (), dtype="float64"),
    )
    store = a_store(tmp_path / "s", arrays=arrays)
    export_store(store, tmp_path / "out", "parquet")
    rows = read(tmp_path / "out")
    ids = list(rows)
    starts = store.matrix("start_s", clips=ids).values.tolist()
    assert [row["start_s"] for row in rows.values()] == starts


@pytest.mark.parametrize("group_bytes", [1, 40, 2**20])
def test_there_and_back_with_groups_of_any_size(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch, group_bytes: int
) -> None:
    monkeypatch.setattr(parquet_files, "GROUP_BYTES", group_bytes)
    monkeypatch.setattr(parquet_files, "CACHE_BYTES", 200)
    names = ["clip", "small", "wide", "tokens"]
    export_store(store, tmp_path / "out", "parquet", arrays=names)
    file = parquet.ParquetFile(tmp_path / "out/data/alba.parquet")
    assert file.metadata.num_row_groups == (1 if group_bytes == 2**20 else 5)
    done = import_features("parquet", tmp_path / "out", tmp_path / "again")
    assert (done.n_clips, done.n_ok) == (14, 14)
    again = open_store(tmp_path / "again")
    assert set(again.feature_arrays) == set(names)
    ids = again.clip_ids.tolist()
    films = dict(zip(store.clip_ids.tolist(), store.movie_ids.tolist(), strict=True))
    assert again.movie_ids.tolist() == [films[clip] for clip in ids]
    for name in names:
        expected = store.matrix(name, clips=ids).values
        if name == "wide":  # numbers of float64 are kept as float32, as of every format
            expected = expected.astype(np.float32)
        np.testing.assert_array_equal(again.matrix(name, clips=ids).values, expected)


def test_an_export_is_replaced_with_force_only_if_nothing_was_added(
    tmp_path: Path, store: Store
) -> None:
    out = tmp_path / "out"
    export_store(store, out, "parquet", arrays=["clip"])
    export_store(store, out, "parquet", arrays=["small"], force=True)
    assert list(read(out)["alba-0"])[-1] == "small"
    (out / "notes.txt").touch()
    with pytest.raises(Exception, match="files were added"):
        export_store(store, out, "parquet", force=True)


def test_the_card_says_where_the_files_are_and_what_is_in_their_columns(
    tmp_path: Path, store: Store
) -> None:
    yaml = pytest.importorskip("yaml")
    labels = with_licence(a_manifest(), "CC0-1.0")
    export_store(store, tmp_path / "out", "parquet", labels=labels)
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    front = yaml.safe_load(card.split("---\n")[1])
    assert front["license"] == "cc0-1.0"
    # Without this, the file of the film `test` would be a split of its own.
    assert front["configs"] == [
        {
            "config_name": "default",
            "data_files": [{"split": "train", "path": "data/*.parquet"}],
        }
    ]
    assert "| `small` | features: 3 of float16 |" in card
    assert "| `level` | its annotation level: EN, HN, NS or S |" in card
    assert "tokens" not in card


def with_licence(manifest: Manifest, licence: str) -> Manifest:
    return replace(manifest, header=structs.replace(manifest.header, licence=licence))


@pytest.mark.parametrize(
    ("licence", "shown"), [("ODbL-1.0", "ODbL-1.0"), ("", "not stated")]
)
def test_no_licence_holds_for_features_and_labels_of_two(
    tmp_path: Path, store: Store, licence: str, shown: str
) -> None:
    yaml = pytest.importorskip("yaml")
    labels = with_licence(a_manifest(), licence)
    export_store(store, tmp_path / "out", "parquet", labels=labels)
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    front = yaml.safe_load(card.split("---\n")[1])
    assert front["license"] == "other"
    assert front["license_name"] == f"features: CC0-1.0, labels: {shown}"


def test_errors_of_exports(tmp_path: Path) -> None:
    tokens = (ArraySpec("tokens", (3, 2)),)
    of_tokens = a_store(tmp_path / "t", arrays=tokens)
    with pytest.raises(FixUsage, match="no array has one vector a clip") as error:
        export_store(of_tokens, tmp_path / "out", "parquet")
    assert error.value.hint == "--array NAME, one of tokens"
    titles = a_store(tmp_path / "u", arrays=(ArraySpec("title", (2,)),))
    with pytest.raises(FixUsage, match="'title' and the title of clips would be one"):
        export_store(titles, tmp_path / "out", "parquet")
    assert not (tmp_path / "out").exists()


# Files of other programs.


def write(path: Path, **columns: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.table(columns), path)
    return path


def test_lists_of_another_program_become_an_array(tmp_path: Path) -> None:
    """Lists as pandas writes them, without a size in their type."""
    file = write(
        tmp_path / "mine.parquet",
        name=["m-2", "m-10", "m-1"],
        x=[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
        tags=[["a"], [], ["b", "c"]],
        score=[0.5, 0.25, 0.125],
    )
    done = import_features("parquet", file, tmp_path / "s", id_key="name")
    assert done.arrays == {"clip": (2,)}
    store = open_store(tmp_path / "s")
    assert store.clip_ids.tolist() == ["m-1", "m-2", "m-10"]
    assert store["clip"].values.tolist() == [[5.0, 6.0], [1.0, 2.0], [3.0, 4.0]]


def test_rows_of_other_sizes_and_without_values_are_failed_rows(tmp_path: Path) -> None:
    file = write(
        tmp_path / "mine.parquet",
        clip_id=["m-1", "m-2", "m-3", "m-4", "m-5", "m-6"],
        clip=[None, [1.0, 2.0], [3.0], [None, 1.0], [4.0, 5.0], [6.0, 7.0]],
    )
    done = import_features("parquet", file, tmp_path / "s")
    assert (done.n_ok, sorted(done.failed)) == (3, ["m-1", "m-3", "m-4"])
    assert "clip has no value" in done.failed["m-1"]
    assert "the shape (1,)" in done.failed["m-3"]
    assert "NaN" in done.failed["m-4"]


def test_ragged_tokens_are_failed_rows(tmp_path: Path) -> None:
    good = [[1.0, 2.0], [3.0, 4.0]]
    file = write(
        tmp_path / "mine.parquet",
        clip_id=["m-1", "m-2", "m-3"],
        frames=[good, [[1.0], [2.0, 3.0]], good],
    )
    done = import_features("parquet", file, tmp_path / "s")
    assert "frames has lists of several sizes" in done.failed["m-2"]
    assert open_store(tmp_path / "s").matrix("frames", clips=["m-3"]).values.shape == (
        1,
        2,
        2,
    )


def test_the_folders_of_a_data_set_are_one_table(tmp_path: Path) -> None:
    write(tmp_path / "f/data/a.parquet", clip_id=["a-1"], clip=[[1.0, 2.0]])
    write(tmp_path / "f/data/b.parquet", clip_id=["b-1", "b-2"], clip=[[3.0, 4.0]] * 2)
    import_features("parquet", tmp_path / "f", tmp_path / "s")
    assert open_store(tmp_path / "s")["clip"].values.tolist() == [
        [1, 2],
        [3, 4],
        [3, 4],
    ]
    write(tmp_path / "f/data/c.parquet", clip_id=["c-1"], other=[[1.0, 2.0]])
    with pytest.raises(FixInput, match="has other columns than"):
        import_features("parquet", tmp_path / "f", tmp_path / "t")


def test_errors_of_imports(tmp_path: Path) -> None:
    file = write(tmp_path / "mine.parquet", name=["m-1"], x=[[1.0]], clip=[["a"]])
    with pytest.raises(
        FixInput, match=r"no column .clip_id. .*; there are name, x, clip"
    ):
        import_features("parquet", file, tmp_path / "s")
    with pytest.raises(FixInput, match="no column 'y'"):
        import_features(
            "parquet", file, tmp_path / "s", id_key="name", arrays={"clip": "y"}
        )
    without_id = write(tmp_path / "b.parquet", clip_id=["m-1", None], x=[[1.0]] * 2)
    with pytest.raises(FixInput, match="'clip_id' has no value"):
        import_features("parquet", without_id, tmp_path / "s")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(Corrupt, match="not a complete Parquet file"):
        import_features("parquet", broken, tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    vectors = pyarrow.array([[1.0, 2.0]])
    columns = [pyarrow.array(["m-1"]), vectors, vectors]
    table = pyarrow.Table.from_arrays(columns, names=["clip_id", "x", "x"])
    parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(FixInput, match="several columns have the name 'x'"):
        import_features("parquet", tmp_path / "a.parquet", tmp_path / "s")


def test_numbers_that_are_packed_small_are_counted_before_memory_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zeros = pyarrow.array(np.zeros(2000 * 500, dtype=np.float32))
    vectors = pyarrow.FixedSizeListArray.from_arrays(zeros, 500)
    ids = [f"m-{number}" for number in range(2000)]
    file = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"clip_id": ids, "x": vectors}), file)
    assert file.stat().st_size < 100_000
    monkeypatch.setattr(system, "memory_bytes", lambda: 1_000_000)
    with pytest.raises(FixInput, match=r"a group of rows of x needs 8\.0 MB"):
        import_features("parquet", file, tmp_path / "s")
    monkeypatch.setattr(system, "memory_bytes", lambda: 100_000)
    with pytest.raises(FixInput, match=r"the column 'clip_id' needs 200\.0 kB"):
        import_features("parquet", file, tmp_path / "s")


@pytest.mark.parametrize("seed", range(20))
def test_damaged_bytes_are_an_error_or_failed_rows(
    tmp_path: Path, store: Store, seed: int
) -> None:
    export_store(store, tmp_path / "out", "parquet", arrays=["clip"])
    file = tmp_path / "out/data/alba.parquet"
    data = bytearray(file.read_bytes())
    draw = np.random.default_rng(seed)
    for position in draw.integers(0, len(data), 30):
        data[position] ^= int(draw.integers(1, 256))
    file.write_bytes(data)
    try:
        import_features("parquet", file, tmp_path / "s")
    except (Corrupt, FixInput, FixUsage):
        return
    assert open_store(tmp_path / "s").sealed
