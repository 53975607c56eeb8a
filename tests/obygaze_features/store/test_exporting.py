import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr
from support.stores import made_store
from support.written_stores import MANIFEST, a_recipe

from obygaze_features.core.errors import (
    AlreadyThere,
    FixInput,
    FixUsage,
    Mismatch,
    NotFound,
)
from obygaze_features.core.files import FORMATS_OF_FEATURES
from obygaze_features.manifest.io import manifest_sha256
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store.card import Terms
from obygaze_features.store.exporting import export_features
from obygaze_features.store.layout import Array
from obygaze_features.store.reading import Reason, Store
from obygaze_features.store.rows import FAILED, Row

FORMATS = sorted({*FORMATS_OF_FEATURES.values()})
NAMES = {kind: f"out.{kind}" for kind in FORMATS if kind != "parquet"}
ARRAYS = (
    Array.of("clip", "float32", (4,)),
    Array.of("tokens", "float16", (3, 2)),
    Array.of("grid", "float32", (2, 2, 2)),
)
TERMS = Terms("CC-BY-4.0", "Doe, J. (2026). Gazes 🎬.")


def stored(folder: Path, rows: list[Row], arrays: tuple[Array, ...] = ARRAYS) -> Store:
    """A store of noise in which no two numbers are equal."""
    values = {}
    for array in arrays:
        shape = (len(rows), *array.shape)
        order = np.random.default_rng(len(values)).permutation(int(np.prod(shape))) + 1
        values[array.name] = order.reshape(shape).astype(array.dtype)
    given = {"recipe": a_recipe(), "manifest": MANIFEST, "terms": TERMS}
    return made_store(folder, rows, values, arrays=arrays, **given)


def some_rows() -> list[Row]:
    """Seven clips of two films, one without features, some with times."""
    rows = [Row(f"lake-{number}", "lake", number, number + 0.5) for number in range(4)]
    rows += [Row(f"night-{number}", "night") for number in range(3)]
    rows[2] = rows[2]._replace(status=FAILED, reason="damaged")
    return rows


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return stored(tmp_path / "store", some_rows())


def exported(store: Store, folder: Path, format: Any, **options: Any) -> Path:
    """Export a store; return the file or folder."""
    target = folder / NAMES.get(format, f"out-{format}")
    if format == "parquet":
        pytest.importorskip("pyarrow")
    export_features(store, target, format=folder_of(format), **options)
    return target


def folder_of(format: str) -> Any:
    """What --as says: the format of a folder; the name of a file says its own."""
    return None if format in NAMES else format


@pytest.mark.parametrize("format", FORMATS)
def test_an_export_says_of_which_store_it_is(tmp_path, store, format) -> None:
    target = exported(store, tmp_path, format, arrays=["clip"])
    if format == "parquet":
        card = (target / "README.md").read_text()
        assert 'obygaze_origin: {"program"' in card and store.seal in card
        target /= "data/features.parquet"
    origin = json.loads(origin_text(target))
    assert origin["seal"] == store.seal
    assert origin["recipe"] == a_recipe().to_json()
    assert origin["manifest"] == {"name": "films", "sha256": "0" * 64}
    assert (origin["licence"], origin["citation"]) == TERMS


def origin_text(path: Path) -> str:
    """What an export says of its store, as other programs read it."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return str(arrays["obygaze_origin"])
    if path.suffix == ".hdf5":
        with h5py.File(path) as file:
            return file.attrs["obygaze_origin"].decode()
    if path.suffix == ".zarr":
        return zarr.open_group(path, mode="r").attrs["obygaze_origin"]
    schema = pytest.importorskip("pyarrow.parquet").read_schema(path)
    return schema.metadata[b"obygaze_origin"].decode()


def a_manifest(licence: str = "CC0-1.0") -> Manifest:
    """Labels of some clips of the store."""
    clips = (
        Clip("lake-0", "lake", level="S", concepts=("Look", "Body")),
        Clip("lake-1", "lake"),
    )
    return Manifest("films", Header("made up", {}, licence=licence), clips)


def test_the_columns_of_a_table_have_the_types_of_the_arrays(tmp_path, store) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    names = [array.name for array in ARRAYS]
    target = exported(store, tmp_path, "parquet", arrays=names, labels=a_manifest())
    schema = parquet.read_schema(target / "data/features.parquet")
    half, single, text = pyarrow.float16(), pyarrow.float32(), pyarrow.string()
    assert dict(zip(schema.names, schema.types, strict=True)) == {
        **{"clip_id": text, "movie_id": text, "level": text},
        **{"start_s": pyarrow.float64(), "end_s": pyarrow.float64()},
        "concepts": pyarrow.list_(text),
        "clip": pyarrow.list_(single, 4),
        "tokens": pyarrow.list_(pyarrow.list_(half, 2), 3),
        "grid": pyarrow.list_(pyarrow.list_(pyarrow.list_(single, 2), 2), 2),
    }
    origin = json.loads(schema.metadata[b"obygaze_origin"])
    assert origin["labels"]["sha256"] == manifest_sha256(a_manifest())


def test_labels_are_those_of_the_manifest(tmp_path: Path, store: Store) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    labels = a_manifest()
    done = export_features(store, tmp_path / "out", format="parquet", labels=labels)
    assert done.warnings == ["5 clips of 6 without a level in the manifest films"]
    assert done.left_out == {"lake-2": Reason("failed", "damaged")}
    table = parquet.read_table(tmp_path / "out/data/features.parquet").to_pydict()
    # Nobody gave lake-1 a level, so that no concept is absent.
    assert table["level"][:2] == ["S", None] and table["concepts"][1] is None
    assert sorted(table["concepts"][0]) == ["Body", "Look"]
    # No list of concepts is written if nobody judged concepts.
    levels = replace(labels, clips=(Clip("lake-0", "lake", level="HN"),))
    export_features(store, tmp_path / "levels", format="parquet", labels=levels)
    table = parquet.read_table(tmp_path / "levels/data/features.parquet").to_pydict()
    assert table["level"][:2] == ["HN", None] and "concepts" not in table
    card = (tmp_path / "levels/README.md").read_text("utf-8")
    assert "\nLevels come from the manifest films," in card and "concepts" not in card
    refused = (
        (FixInput, "no clip of this store is in the manifest", Clip("x", "x")),
        (Mismatch, "'lake-0' is of the film 'sea', not", Clip("lake-0", "sea")),
    )
    for error, words, clip in refused:
        other = replace(labels, clips=(replace(clip, level="S"),))
        with pytest.raises(error, match=words):
            export_features(store, tmp_path / "x", format="parquet", labels=other)
    with pytest.raises(FixUsage, match="--with-labels is for Parquet only"):
        export_features(store, tmp_path / "x.npz", labels=labels)


def test_a_name_may_be_in_another_encoding(tmp_path: Path, store: Store) -> None:
    pytest.importorskip("pyarrow")
    target = tmp_path / os.fsdecode(b"caf\xe9.parquet")
    export_features(store, target, arrays=["clip"])
    assert target.read_bytes()[:4] == b"PAR1"


ODBL = "features: CC-BY-4.0, labels: ODbL-1.0"


@pytest.mark.parametrize(
    ("labels", "licence", "name"),
    [
        ("CC-BY-4.0", "cc-by-4.0", None),
        ("cc-by-4.0", "cc-by-4.0", None),
        ("ODbL-1.0", "other", ODBL),
    ],
)
def test_no_licence_is_of_features_and_labels(tmp_path, store, labels, licence, name):
    yaml = pytest.importorskip("yaml")
    target = exported(store, tmp_path, "parquet", labels=a_manifest(labels))
    card = (target / "README.md").read_text("utf-8")
    head = yaml.safe_load(card.split("---\n")[1])
    assert (head["license"], head.get("license_name")) == (licence, name)
    assert head["obygaze_origin"]["seal"] == store.seal
    assert head["obygaze_origin"]["citation"] == TERMS.citation
    # Without this, the hub would look for splits in the names.
    files = [{"split": "train", "path": "data/features.parquet"}]
    assert head["configs"] == [{"config_name": "default", "data_files": files}]
    assert "| `clip` | features: 4 of float32 |" in card
    assert "tokens" not in card.partition("# Features")[2]
    assert "Licence of the labels: " in card


@pytest.mark.parametrize("format", FORMATS)
def test_nothing_is_replaced_and_no_half_is_left(tmp_path, store, monkeypatch, format):
    out = tmp_path / "made" / "too"
    target = exported(store, out, format, arrays=["clip"])
    second = out / f"second-{target.name}"
    with pytest.raises(AlreadyThere):
        export_features(store, target, format=folder_of(format), arrays=["clip"])

    def fails(*_args: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(Store, "read", fails)
    with pytest.raises(OSError, match="the disk is full"):
        export_features(store, second, format=folder_of(format), arrays=["clip"])
    assert list(out.iterdir()) == [target]


def test_what_cannot_be_exported_is_said(tmp_path: Path, store: Store) -> None:
    out = tmp_path / "out"

    def refused(error: Any, words: str, store: Store, to: Path, **more: Any) -> Any:
        with pytest.raises(error, match=words) as caught:
            export_features(store, to, **more)
        return caught.value.hint

    endings = r"expected a file with the ending \.npz"
    refused(FixUsage, endings, store, out, format="npz")
    refused(FixUsage, endings, store, tmp_path / "out.csv")
    refused(NotFound, "clips", store, tmp_path / "out.npz", arrays=["clips"])
    as_table = {"format": "parquet"}
    for ending in (".npz", ".h5"):
        folder = "or a folder and --as parquet"
        refused(FixUsage, folder, store, out.with_suffix(ending), **as_table)
    of_tokens = stored(tmp_path / "t", some_rows(), ARRAYS[1:2])
    no_vector = "no array has exactly one vector for each clip"
    refused(FixUsage, no_vector, of_tokens, out, **as_table)
    counts = stored(tmp_path / "c", some_rows(), (Array.of("count", "int64", ()),))
    hint = refused(FixUsage, no_vector, counts, out, **as_table)
    assert hint == "pass --array NAME with one of count"
    levels = stored(tmp_path / "l", some_rows(), (Array.of("level", "float32", (2,)),))
    both = "'level' and the level of clips need the same column"
    refused(FixUsage, both, levels, out, labels=a_manifest(), **as_table)
    refused(AlreadyThere, "outside this store", store, tmp_path / "store" / "x.npz")
    failed = [row._replace(status=FAILED, reason="x") for row in some_rows()]
    none = stored(tmp_path / "f", failed)
    refused(FixInput, "no clip has features; nothing to export", none, out, **as_table)
    assert not out.exists()


def test_pictures_of_films_are_not_exported(tmp_path: Path) -> None:
    pictures = (Array.of("pictures", "uint8", (2, 2, 3)), *ARRAYS[:1])
    private = stored(tmp_path / "p", some_rows(), pictures)
    for ending in FORMATS_OF_FEATURES:
        with pytest.raises(FixUsage, match="pictures of films are private"):
            export_features(private, tmp_path / f"out{ending}", arrays=["clip"])
