"""Stores that are published: in a folder for Zenodo and on the hub, with metadata for others."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cli import call_obygaze
from support.stores import copy_of_sealed, plan_store, sealed_store

from obygaze_features.core.errors import AlreadyThere, Corrupt, FixUsage
from obygaze_features.core.files import sha256_bytes
from obygaze_features.manifest import Clip, Header, Manifest, manifest_sha256
from obygaze_features.store import ArraySpec, open_store
from obygaze_features.store.share import publication as publishing
from obygaze_features.store.share.publication import publish


def python_of(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL)


CREATORS = ["Doe, Jane", "The Film Lab"]


def validated(folder: Path) -> Any:
    """The data set of croissant.json, which the package of its authors finds without fault."""
    mlcroissant = pytest.importorskip("mlcroissant")
    found = mlcroissant.Dataset(folder / "croissant.json")
    issues = found.metadata.ctx.issues
    assert not issues.errors and not issues.warnings, issues.report()
    return found


@pytest.fixture
def published(tmp_path: Path) -> Path:
    pytest.importorskip("pyarrow")
    store = open_store(copy_of_sealed(tmp_path / "toy"))
    publish(store, str(tmp_path / "films"), CREATORS)
    return tmp_path / "films"


def states_of(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """What a write changes of each file; reading one may change its time of access."""
    states = {}
    for path in folder.iterdir():
        facts = path.stat()
        states[path.name] = (facts.st_ino, facts.st_mtime_ns, path.read_bytes())
    return states


def test_the_same_publication_again_changes_nothing_and_another_is_refused(
    tmp_path: Path, published: Path
) -> None:
    before = states_of(published)
    store = open_store(tmp_path / "toy")
    again = publish(store, str(published), CREATORS)
    assert again == {path.name: path.stat().st_size for path in published.iterdir()}
    assert states_of(published) == before
    with pytest.raises(AlreadyThere, match="another publication is here"):
        publish(store, str(published), ["Roe, Richard"])
    sealed_store(tmp_path / "other", 12)
    with pytest.raises(AlreadyThere, match="another publication is here"):
        publish(open_store(tmp_path / "other"), str(published), CREATORS)
    assert states_of(published) == before
    with (published / "films.zip").open("r+b") as stream:
        stream.seek(3000)
        byte = stream.read(1)[0]
        stream.seek(3000)
        stream.write(bytes([byte ^ 1]))
    with pytest.raises((Corrupt, AlreadyThere)):
        publish(store, str(published), CREATORS)


def test_croissant_is_valid_and_has_the_checksums_of_the_seal(
    tmp_path: Path, published: Path
) -> None:
    found = validated(published)
    seal = json.loads((tmp_path / "toy" / "seal.json").read_bytes())
    sets = [one for one in found.metadata.distribution if hasattr(one, "includes")]
    files = {one.name: one for one in found.metadata.distribution if one not in sets}
    assert files["films.zip"].sha256 == sha256_bytes(
        (published / "films.zip").read_bytes()
    )
    assert files["features.parquet"].sha256 == sha256_bytes(
        (published / "features.parquet").read_bytes()
    )
    beside = ("films.zip", "features.parquet")
    inside = {name: file.sha256 for name, file in files.items() if name not in beside}
    own = sha256_bytes((tmp_path / "toy" / "seal.json").read_bytes())
    listed = {name: sha for name, (_, sha) in seal["files"].items() if name in inside}
    assert (
        inside == {**listed, "seal.json": own}
        and {"clips.csv", "store.json"} <= inside.keys()
    )
    # Only what Croissant can read: the chunks of arrays are listed as files.
    tables = [one.name for one in found.metadata.record_sets]
    assert tables == ["clips", "features"]
    arrays = [one.name.removesuffix("-chunks") for one in sets]
    assert arrays == ["clip", "pooled", "frames", "time_s"]
    with zipfile.ZipFile(published / "films.zip") as packed:
        for one in sets:
            (pattern,) = one.includes
            start = pattern.removesuffix("*")
            assert any(name.startswith(start) for name in packed.namelist()), pattern
    assert found.metadata.data_biases
    assert found.metadata.personal_sensitive_information


def test_croissant_reads_the_clips_out_of_the_packed_store(
    published: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CROISSANT_CACHE", str(tmp_path / "cache"))
    rows = list(validated(published).records("clips"))
    ids = open_store(tmp_path / "toy").clip_ids.tolist()
    assert [row["clips/clip_id"].decode() for row in rows] == ids
    assert [row["clips/row"] for row in rows] == list(range(23))


def test_croissant_reads_the_vectors_of_all_clips(
    published: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CROISSANT_CACHE", str(tmp_path / "cache"))
    store = open_store(tmp_path / "toy")
    rows = list(validated(published).records("features"))
    assert [row["features/clip_id"].decode() for row in rows] == store.clip_ids.tolist()
    for array in ("clip", "pooled"):
        values = np.array([row[f"features/{array}"] for row in rows])
        np.testing.assert_array_equal(values, store[array].values)


def test_every_column_that_croissant_declares_is_in_the_parquet_file(
    workspace: Path, tmp_path: Path
) -> None:
    """Without the package of Croissant's authors: names, types, shapes and files."""
    parquet = pytest.importorskip("pyarrow.parquet")
    arrays = (
        ArraySpec("clip", (4,)),
        ArraySpec("half", (3,), dtype="float16"),
        ArraySpec("title", (3,)),
        ArraySpec("frames", (3, 4), dtype="float16"),
    )
    sealed_store(workspace / "stores" / "toy", 12, 5, arrays=arrays)
    store = open_store(workspace / "stores" / "toy")
    clips = []
    for clip_id, film in zip(
        store.clip_ids.tolist(), store.movie_ids.tolist(), strict=True
    ):
        extra = {"movie_title": f"The {film}"}
        clip = Clip(clip_id, film, None, "", 1.0, 2.5, "S", ("Look",), extra)
        clips.append(clip)
    manifest = Manifest(
        "m",
        Header("m", {"Look": "visual"}, licence="ODbL-1.0", citation="Labels, 2026."),
        tuple(clips),
        ("movie_title",),
    )
    folder = tmp_path / "films"
    publish(store, str(folder), CREATORS, labels=manifest)
    document = json.loads((folder / "croissant.json").read_bytes())
    (table,) = [one for one in document["recordSet"] if one["name"] == "features"]
    assert manifest_sha256(manifest) in table["description"]
    schema = parquet.read_schema(folder / "features.parquet")
    assert [field["name"] for field in table["field"]] == schema.names
    facts = {
        field["name"]: (field["dataType"], field.get("arrayShape"))
        for field in table["field"]
    }
    assert facts == {
        "clip_id": ("sc:Text", None),
        "movie_id": ("sc:Text", None),
        "title": ("sc:Text", None),
        "start_s": ("sc:Float", None),
        "end_s": ("sc:Float", None),
        "level": ("sc:Text", None),
        "concepts": ("sc:Text", "-1"),
        "clip": ("cr:Float32", "4"),
        "half": ("cr:Float16", "3"),
    }
    for field in table["field"]:
        assert field["source"] == {
            "fileObject": {"@id": "features.parquet"},
            "extract": {"column": field["name"]},
        }
    (file,) = [
        one for one in document["distribution"] if one["@id"] == "features.parquet"
    ]
    data = (folder / "features.parquet").read_bytes()
    assert (file["sha256"], file["contentSize"]) == (
        sha256_bytes(data),
        f"{len(data)} B",
    )
    assert "containedIn" not in file
    rows = parquet.read_table(folder / "features.parquet").to_pylist()
    assert rows[0]["title"] == f"The {rows[0]['movie_id']}"
    assert (rows[0]["end_s"], rows[0]["concepts"]) == (2.5, ["Look"])
    ids = [row["clip_id"] for row in rows]
    np.testing.assert_array_equal(
        np.array([row["half"] for row in rows]), store.matrix("half", clips=ids).values
    )
    validated(folder)


def test_the_card_tells_the_hub_where_the_rows_are(published: Path) -> None:
    yaml = pytest.importorskip("yaml")
    pandas = pytest.importorskip("pandas")
    card = (published / "README.md").read_text("utf-8")
    front = yaml.safe_load(card.split("---\n")[1])
    assert front["configs"] == [
        {
            "config_name": "default",
            "data_files": [{"split": "train", "path": "features.parquet"}],
        }
    ]
    assert len(pandas.read_parquet(published / "features.parquet")) == 23


def test_a_publication_without_parquet(
    tmp_path: Path, published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path / "toy")
    folder = tmp_path / "without"
    done = publish(store, str(folder), CREATORS, no_parquet=True)
    assert "features.parquet" not in done and done.notes == []
    document = json.loads((folder / "croissant.json").read_bytes())
    assert [table["name"] for table in document["recordSet"]] == ["clips"]
    assert "parquet" not in (folder / "README.md").read_text("utf-8")
    validated(folder)
    with pytest.raises(AlreadyThere, match=r"has no features\.parquet"):
        publish(store, str(folder), CREATORS)
    with pytest.raises(AlreadyThere, match=r"has a features\.parquet"):
        publish(
            store,
            str(published),
            CREATORS,
            no_parquet=True,
        )
    with pytest.raises(FixUsage, match="labels are columns of features"):
        publish(store, str(tmp_path / "x"), CREATORS, labels="m", no_parquet=True)
    # Larger arrays are in the packed store only.
    monkeypatch.setattr(publishing, "PARQUET_BYTES", 23 * 4 * 4)
    publish(store, str(tmp_path / "small"), CREATORS)
    parquet = pytest.importorskip("pyarrow.parquet")
    names = parquet.read_schema(tmp_path / "small" / "features.parquet").names
    assert names == ["clip_id", "movie_id", "clip"]
    monkeypatch.setattr(publishing, "find_spec", lambda name: None)
    done = publish(store, str(tmp_path / "laptop"), CREATORS)
    assert "features.parquet" not in done
    assert done.notes == [
        'features.parquet was not written: it needs pip install "obygaze[parquet]"'
    ]


def test_the_card_reads_the_packed_store_without_obygaze(
    tmp_path: Path, published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(published)
    card = (published / "README.md").read_text("utf-8")
    assert card.startswith("---\nlicense: cc0-1.0\n")
    of_parquet, first, _ = python_of(published / "README.md")
    wanted = open_store(tmp_path / "toy")["clip"].values
    found: dict[str, Any] = {}
    exec(first, found)
    np.testing.assert_array_equal(found["features"], wanted)
    np.testing.assert_array_equal(found["data"]["clip"].values, wanted)
    exec(of_parquet, found)
    np.testing.assert_array_equal(np.stack(found["clips"]["clip"]), wanted)
    monkeypatch.chdir(tmp_path / "toy")
    exec(python_of(tmp_path / "toy" / "README.md")[0], found)
    np.testing.assert_array_equal(found["data"]["clip"].values, wanted)


def test_citation_and_zenodo(published: Path) -> None:
    yaml = pytest.importorskip("yaml")
    cited = yaml.safe_load((published / "CITATION.cff").read_text("utf-8"))
    names = [{"family-names": "Doe", "given-names": "Jane"}, {"name": "The Film Lab"}]
    assert cited["authors"] == names and cited["license"] == "CC0-1.0"
    assert (
        cited["title"] == "Features of made-up: toy" and cited["cff-version"] == "1.2.0"
    )
    zenodo = json.loads((published / ".zenodo.json").read_bytes())
    assert zenodo["creators"] == [{"name": "Doe, Jane"}, {"name": "The Film Lab"}]
    assert zenodo["license"] == "cc0-1.0" and zenodo["upload_type"] == "dataset"


def test_what_cannot_be_published(
    tmp_path: Path, workspace: Path, monkeypatch: Any
) -> None:
    pytest.importorskip("pyarrow")
    copy_of_sealed(workspace / "stores" / "toy")
    plan_store(workspace / "stores" / "open")
    run = ["-C", workspace, "store", "publish"]
    by = ["--creator", "Doe, Jane"]
    refused = call_obygaze(*run, "open", "--to", tmp_path / "z", *by)
    assert (
        refused.code == 1
        and "only a whole, sealed store is published" in refused.stderr
    )
    assert call_obygaze(*run, "toy", "--to", "s3://films/toy", *by).code == 2
    assert call_obygaze(*run, "toy", "--to", tmp_path / "z", "--creator", " ").code == 2
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    assert call_obygaze(*run, "toy", "--to", tmp_path / "mine", *by).code != 0
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
    call_obygaze(*run, "toy", "--to", tmp_path / "z", *by).ok()
    other = ("--creator", "Roe, Richard")
    assert call_obygaze(*run, "toy", "--to", tmp_path / "z", *other).code != 0
    assert sorted(path.name for path in (tmp_path / "z").iterdir()) == [
        ".zenodo.json",
        "CITATION.cff",
        "README.md",
        "croissant.json",
        "features.parquet",
        "z.zip",
    ]
    monkeypatch.setattr(publishing, "ZENODO_BYTES", 1_000)
    with pytest.raises(publishing.FixInput, match="Zenodo takes 1,000"):
        publish(open_store(workspace / "stores" / "toy"), str(tmp_path / "y"), CREATORS)
    assert not (tmp_path / "y").exists()
