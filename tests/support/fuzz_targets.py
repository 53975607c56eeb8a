"""What the fuzzer reads: small valid files of every kind, and the code that reads each."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.files import canonical_json, document_sha256
from obygaze_features.store import Array, Row, open_store
from obygaze_features.store.files import Range, check_length
from obygaze_features.store.layout import CHECKS, STORE_JSON
from obygaze_features.store.rows import FAILED
from support import filled_stores
from support.fuzz import Target, Tree, do_all, written
from support.fuzz_senses import (
    WRITTEN_MODELS,
    WRITTEN_STORES,
    new_targets,
    written_workspace,
)
from support.plain_store import with_sha256
from support.stores import made_store, some_rows, some_values
from support.written_stores import files_of as tree

Read = Callable[[Tree, Path], None]


class MemoryFiles:
    """A store in memory; every second one cannot be listed, as on a web server."""

    piece_bytes = 2**19

    def __init__(self, files: Tree) -> None:
        self.files = files
        self.location = self.address = "memory"

    def read(self, name: str, most_bytes: int) -> npt.NDArray[np.uint8]:
        check_length(name, self.length(name), most_bytes, self.location)
        return np.frombuffer(self.files[name], np.uint8)

    def read_ranges(self, ranges: Sequence[Range]) -> Iterator[npt.NDArray[np.uint8]]:
        for name, start, stop, _ in ranges:
            self.length(name)
            yield np.frombuffer(self.files[name][start:stop], np.uint8)

    def length(self, name: str) -> int:
        if name not in self.files:
            raise FileNotFoundError(name)
        return len(self.files[name])

    def names(self) -> list[str] | None:
        is_remote = len(self.files.get(STORE_JSON, b"")) % 2 == 1
        return None if is_remote else sorted(self.files)


def all_targets(folder: Path) -> list[Target]:
    """Every kind of input, made once in `folder`."""
    workspace = written_workspace(folder / "written")
    return [
        *store_targets(folder / "stores", workspace),
        *import_targets(folder / "imports"),
        *text_targets(folder / "texts", workspace),
        *model_targets(workspace),
        run_target(workspace),
        *new_targets(folder / "new", workspace),
    ]


def store_targets(folder: Path, workspace: Path) -> list[Target]:
    """A store, its store.json alone, and one that is filled."""
    folder.mkdir()
    stores = []
    path = folder / "s"
    arrays = (
        Array("clip", "float32", (4,), ("d4",), 2, 8),
        Array("time_s", "float64", (3,), ("t3",), 4, 4),
    )
    failed = Row("tt2-001", "tt2", status=FAILED, reason="no picture, at all")
    rows = [*some_rows(9), failed]
    made_store(path, rows, some_values(10, arrays), arrays=arrays)
    stores.append(_with_fixed_time(tree(path)))
    filling = filled_stores.plan(folder / "f", 40)
    filled_stores.compute(filling, 1, filled_stores.values_of(n_rows=40))
    filled = {f"f.next/{name}": data for name, data in tree(filling.folder).items()}
    for name in WRITTEN_STORES:
        stores.append(_with_fixed_time(tree(workspace / "stores" / name)))
    documents = [{STORE_JSON: one[STORE_JSON]} for one in stores]
    return [
        Target("store", stores, read_store, 3, resealed),
        Target("store document", documents, read_document, 12, resealed),
        Target("filling", [filled], read_filling, 2, replanned),
    ]


def _with_fixed_time(files: Tree) -> Tree:
    """The same inputs in every campaign."""
    document = json.loads(files[STORE_JSON])
    document["created"] = "2026-11-25T00:00:00+00:00"
    del document["sha256"]
    return files | {STORE_JSON: with_sha256(json.dumps(document))}


def resealed(files: Tree, draw: random.Random) -> Tree:
    """Make checksums fit the changed files: of chunks, of each file, of the recipe."""
    if draw.random() < 0.2 or STORE_JSON not in files:
        return files
    with suppress(
        *(LookupError, ValueError, TypeError, AttributeError, RecursionError),
        *(struct.error, ArithmeticError, MemoryError),
    ):
        document = json.loads(files[STORE_JSON])
        files = with_right_chunks(files, document)
        recipe = canonical_json(document["recipe"])
        document["fingerprint"] = hashlib.sha256(recipe).hexdigest()
        for name in document["files"].keys() & files.keys():
            sha256 = hashlib.sha256(files[name]).hexdigest()
            document["files"][name] = [len(files[name]), sha256]
        document.pop("sha256", None)
        return files | {STORE_JSON: with_sha256(json.dumps(document))}
    return files


def with_right_chunks(files: Tree, document: dict[str, Any]) -> Tree:
    """The CRC32C of each chunk at its end and in `checks`, and that of each index."""
    files = dict(files)
    checks = b""
    for array in (*document["columns"], *document["arrays"]):
        is_text = array["dtype"] == "string"
        n_entries = array["file_rows"] // array["chunk_rows"]
        prefix = f"data.zarr/{array['name']}/c."
        for name in sorted(name for name in files if name.startswith(prefix)):
            data = bytearray(files[name])
            if is_text:
                crc = google_crc32c.value(bytes(data[:-4]))
                data[-4:] = struct.pack("<I", crc)
                checks += data[-4:]
                files[name] = bytes(data)
                continue
            index = bytes(data[-16 * n_entries - 4 : -4])
            data[-4:] = struct.pack("<I", google_crc32c.value(index))
            for offset, length in struct.iter_unpack("<2Q", index):
                if offset + length <= len(data):
                    end = offset + length
                    crc = google_crc32c.value(bytes(data[offset : end - 4]))
                    data[end - 4 : end] = struct.pack("<I", crc)
                    checks += data[end - 4 : end]
            files[name] = bytes(data)
    return files | {CHECKS: checks}


def read_store(files: Tree, folder: Path) -> None:
    """Open a store, and read, describe and verify all of it."""
    from obygaze_features.store.describing import describe
    from obygaze_features.store.verifying import verify

    store = open_store(MemoryFiles(files))
    do_all(
        lambda: describe(store),
        lambda: store.terms,
        store.status,
        lambda: list(store.rows),
        lambda: verify(store, hashes=True),
        *(
            lambda name=name: store.matrix(name, missing="drop")
            for name in store.feature_arrays
        ),
        lambda: store.matrix("clip", films=[str(store.movie_ids[0])], missing="nan"),
        lambda: store.matrix("clip", clips=[str(store.clip_ids[0])]),
        lambda: list(store.stream("clip", missing="drop")),
    )


def read_document(files: Tree, folder: Path) -> None:
    """Read what store.json says of a store, without its other files."""
    from obygaze_features.store.describing import describe, facts_of_store

    store = open_store(MemoryFiles(files))
    _ = repr(store), store.recipe.title, store.feature_arrays
    facts_of_store(store)
    with suppress(ObygazeError):
        describe(store)
    with suppress(ObygazeError):
        store.matrix(store.feature_arrays[0], missing="nan")


def replanned(files: Tree, draw: random.Random) -> Tree:
    """Let the blocks belong to the changed plan."""
    from obygaze_features.store.records import _with_sha256

    plan = files.get("f.next/plan.json", b"") + files.get("f.next/clips.json", b"")
    files = dict(files)
    for name, data in files.items():
        with suppress(ValueError, TypeError, AttributeError, RecursionError):
            if name.endswith("rows.json"):
                record = json.loads(data)
                record.pop("sha256", None)
                record["plan"] = hashlib.sha256(plan).hexdigest()
                document = json.dumps(record, indent=1).encode()
                files[name] = _with_sha256(document)
    return files


def read_filling(files: Tree, folder: Path) -> None:
    """Say how far a store is filled, then seal what is there."""
    from obygaze_features.store.filling import Filling
    from obygaze_features.store.reading import being_filled_at
    from obygaze_features.store.sealing import seal

    target = written(files, folder) / "f"
    do_all(
        lambda: being_filled_at(target),
        lambda: Filling.open(target).missing(),
        lambda: seal(target, seal_now=True),
    )


def import_targets(folder: Path) -> list[Target]:
    """Features of other programs, in each format that can be imported."""
    import h5py

    folder.mkdir()
    ids, vectors = ["tt1-001", "tt1-002", "tt2-001"], np.ones((3, 4), np.float32)
    np.savez(
        folder / "f.npz", clip_id=np.array(ids), features=vectors, extra=np.arange(3)
    )
    with h5py.File(folder / "f.h5", "w") as out:
        for name in ids:
            out[name] = vectors[:2]
    with h5py.File(folder / "g.h5", "w") as out:
        out["clip_id"], out["features"] = ids, vectors
    for name in ids:
        np.save(folder / f"{name}.npy", vectors)
    read = {path.name: path.read_bytes() for path in folder.iterdir()}
    arrays = {name: read[name] for name in read if name.endswith(".npy")}
    hdf5 = [{"f.h5": read["f.h5"]}, {"f.h5": read["g.h5"]}]
    return [
        Target("import npz", [{"f.npz": read["f.npz"]}], _import("npz", "f.npz"), 6),
        Target("import hdf5", hdf5, _import("hdf5", "f.h5"), 4),
        *_tables(folder / "f.parquet", ids, vectors),
        Target("import npy", [arrays], _import("npy", ""), 5),
        Target("vectors npz", [_vectors(folder)], _vectors_read, 1),
    ]


def _tables(path: Path, ids: Sequence[str], vectors: npt.NDArray[Any]) -> list[Target]:
    """Parquet, where the package for it is installed."""
    if find_spec("pyarrow") is None:
        return []
    import pyarrow
    from pyarrow.parquet import write_table

    columns = {
        "clip_id": ids,
        "movie_id": [name[:3] for name in ids],
        "start_s": [0.0, 1.0, 0.0],
        "end_s": [1.0, 2.0, 1.0],
        "clip": pyarrow.FixedSizeListArray.from_arrays(vectors.ravel(), 4),
    }
    table = pyarrow.table(columns)
    write_table(table, path, write_page_index=True)
    variants = [{path.name: path.read_bytes()}]
    labels = {**columns, "level": ["S", "EN", None], "n": [1.0, None, 2.5]}
    del labels["clip"]
    labelled = path.with_name("labels.parquet")
    write_table(pyarrow.table(labels), labelled)
    return [
        Target("import parquet", variants, _import("parquet", path.name), 4),
        Target("parquet table", [{"t.parquet": labelled.read_bytes()}], _labels, 6),
    ]


def _labels(files: Tree, folder: Path) -> None:
    from obygaze_features.manifest.adapters.csv_table import read
    from obygaze_features.manifest.io import check_manifest

    check_manifest(read(written(files, folder) / "t.parquet", name="t").manifest)


def _import(format: str, name: str) -> Read:
    def read(files: Tree, folder: Path) -> None:
        from obygaze_features.store import import_features

        place = written(files, folder)
        import_features(place / name, folder / "store")
        shutil.rmtree(folder / "store")

    return read


def _vectors(folder: Path) -> Tree:
    rows = np.eye(4)
    np.savez(folder / "v.npz", X=rows, Y=-rows, A=rows[:2], B=rows[2:])
    return {"v.npz": (folder / "v.npz").read_bytes()}


def _vectors_read(files: Tree, folder: Path) -> None:
    from obygaze_models.text_vectors import read_vectors

    read_vectors(written(files, folder) / "v.npz")


def text_targets(folder: Path, workspace: Path) -> list[Target]:
    """Manifests, protocols, cards, tables and lists of words."""
    from importlib.resources import files as package

    import obygaze_features.backbones
    import obygaze_models.protocols

    protocols = package(obygaze_models.protocols).joinpath("shipped")
    protocol_files = _each(protocols, "p.toml")
    cards = package(obygaze_features.backbones).joinpath("cards")
    card_files = []
    for one in _each(cards, "c.toml"):
        # Others only say in what they differ from one of these.
        with suppress(ObygazeError):
            _read_card(one, folder)
            card_files.append(one)
    pier = tree(workspace / "manifests")
    commanded = {f"m{Path(name).suffix}": data for name, data in pier.items()}
    return [
        Target("protocol", protocol_files, _read_protocol, 16),
        Target("card", card_files, _read_card, 8),
        Target("manifest", [MANIFEST, commanded], _read_manifest, 16),
        Target(
            "table", [{"t.csv": MANIFEST["m.csv"], "t.toml": MAPPING}], _read_table, 8
        ),
        Target("segments", [{"s.csv": SEGMENTS, "c.csv": SPANS}], _read_segments, 6),
        Target("exchange", _exchanged(), _read_exchanged, 8),
        Target(
            "mediaeval",
            [{"r.txt": b"1 Q0 d1 1 0.5 x\n", "q.txt": b"1 0 d1 1\n"}],
            _read_trec,
        ),
        Target(
            "expression", [{"e.txt": b"EN and not (S or Look)"}], _read_expression, 6
        ),
    ]


MANIFEST = {
    "m.toml": b"""schema = "obygaze-manifest/1"
dataset = "films"
unit = "clip"
view = "visual"
licence = "CC0-1.0"
notes = ["made up"]

[concepts]
"Look" = "visual"
"Body" = "visual"

[[sources]]
file = "films.csv"
sha256 = "1212121212121212121212121212121212121212121212121212121212121212"
""",
    "m.csv": b"""clip_id,movie_id,scene,video,start_s,end_s,level,concepts,title,fold_a
tt1-001,tt1,1,a/b.mp4,0.5,2.0,S,Look|Body,One,0
tt1-002,tt1,2,a/b.mp4,2.0,2.5e1,EN,,One,1
tt2-001,tt2,,,,,HN,Look,Two,0
""",
}
MAPPING = b"""dataset = "films"
[columns]
clip_id = "clip_id"
movie_id = "movie_id"
level = "level"
[levels]
"S" = "S"
[concepts]
"Look" = "Look"
"""
SEGMENTS = b"""movie_id,annotator,start_frame,end_frame,framerate,level,concepts
tt1,a,0,99,25,S,Look
tt1,b,50,99,25,EN,
"""
SPANS = b"""clip_id,movie_id,start_frame,end_frame,framerate
tt1-001,tt1,0,49,25
tt1-002,tt1,50,99,25
"""


def _each(folder: object, name: str) -> list[Tree]:
    paths = sorted(folder.iterdir(), key=lambda path: path.name)
    return [{name: path.read_bytes()} for path in paths if path.name.endswith(".toml")]


def _read_protocol(files: Tree, folder: Path) -> None:
    from obygaze_models.protocols.reading import parse_protocol

    protocol = parse_protocol(files.get("p.toml", b""), "p.toml")
    _ = protocol.pairs, protocol.model_names, repr(protocol)


def _read_card(files: Tree, folder: Path) -> None:
    from obygaze_features.backbones.cards import card_from
    from obygaze_features.core.schema_check import read_toml

    card = card_from(read_toml(files.get("c.toml", b""), "c.toml"))
    _ = card.sha256, repr(card)


def _read_manifest(files: Tree, folder: Path) -> None:
    from obygaze_features.manifest.io import check_manifest, read_manifest
    from obygaze_features.manifest.model import sort_key
    from obygaze_features.manifest.stats import compute_stats

    manifest = read_manifest(written(files, folder) / "m.toml")
    check_manifest(manifest)
    sorted(manifest, key=sort_key)
    manifest.view("visual")
    compute_stats(manifest)


def _read_table(files: Tree, folder: Path) -> None:
    from obygaze_features.manifest.adapters.csv_table import read
    from obygaze_features.manifest.adapters.table_mapping import read_mapping
    from obygaze_features.manifest.io import check_manifest

    place = written(files, folder)
    do_all(
        lambda: read(place / "t.csv", mapping=read_mapping(place / "t.toml")),
        lambda: check_manifest(read(place / "t.csv", name="t").manifest),
    )


def _read_segments(files: Tree, folder: Path) -> None:
    from obygaze.films.labels import project_tables

    place = written(files, folder)
    project_tables(place / "s.csv", place / "c.csv", None, workspace=place)
    project_tables(place / "s.csv", None, "10", workspace=place)


def _exchanged() -> list[Tree]:
    from obygaze.films.elan import write_elan
    from obygaze.films.marks import Mark

    said = [
        ("level", "S"),
        ("concepts", "Look"),
        ("concepts", "Body"),
        ("comment", "why"),
    ]
    marks = [Mark("f", 0.0, 0.4, *one, "ada") for one in said]
    marks.append(Mark("f", 0.1, 0.2, "Gewalt", "stark", "b"))
    return [{"f.eaf": write_elan(marks)}]


def _read_exchanged(files: Tree, folder: Path) -> None:
    from obygaze.films.exporting import export_elan
    from obygaze.films.importing import import_marks
    from obygaze.films.marks import read_marks

    paths = sorted(path for path in written(files, folder).rglob("*") if path.is_file())
    made = import_marks(paths, "f", force=True, workspace=folder)
    _ = str(made), made.to_json(), made.notes
    assert read_marks([made.path]).marks == made.marks
    exported = export_elan(made.path, folder / "elan", force=True, workspace=folder)
    again = import_marks(exported.files, "elan", force=True, workspace=folder)
    assert len(again.marks) <= len(made.marks)


def _read_trec(files: Tree, folder: Path) -> None:
    from obygaze.audits.mediaeval_runs import read_qrels, read_trec_run

    place = written(files, folder)
    read_trec_run(place / "r.txt")
    read_qrels(place / "q.txt")


def _read_expression(files: Tree, folder: Path) -> None:
    from obygaze_features.manifest.expression import parse

    parse(
        files.get("e.txt", b"").decode("utf-8", "surrogateescape"),
        vocabulary=["Look", "Body"],
    )


def model_targets(workspace: Path) -> list[Target]:
    """Saved models, and files of weights."""
    from safetensors.numpy import save

    X = np.random.default_rng(3).normal(size=(40, 6)).astype(np.float32)
    weights = {
        "w.safetensors": save({"a.b": X, "c": X[:1], "d": np.zeros(0, np.float16)})
    }
    models = [tree(workspace / "models" / name) for name in WRITTEN_MODELS]
    return [
        Target("model", models, _read_model, 8, _with_model_hashes),
        Target("weights", [weights], _read_weights, 6),
    ]


def _with_model_hashes(files: Tree, draw: random.Random) -> Tree:
    """Make the checksums in model.json fit the changed files."""
    if draw.random() < 0.2:
        return files
    with suppress(LookupError, ValueError, TypeError, AttributeError, RecursionError):
        document = json.loads(files["model.json"])
        for name in document["files"]:
            own = files[name]
            mark = [len(own), hashlib.sha256(own).hexdigest()]
            document["files"][name] = mark
        document.pop("sha256", None)
        text = json.dumps(
            document, sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        document["sha256"] = hashlib.sha256(text.encode("utf-8")).hexdigest()
        return {**files, "model.json": json.dumps(document).encode()}
    return files


def _read_model(files: Tree, folder: Path) -> None:
    from obygaze_models.zoo import load_model
    from obygaze_models.zoo.info import model_card_text

    model = load_model(written(files, folder))
    model_card_text(model.info, model.clips)
    _ = repr(model)


def _read_weights(files: Tree, folder: Path) -> None:
    from obygaze_features.backbones.weights import read_tensors

    read_tensors([written(files, folder) / "w.safetensors"])


def run_target(workspace: Path) -> Target:
    """A run, as the report, a comparison and the notebook read it."""
    runs = [tree(workspace / "runs" / "small")]
    return Target("run", runs, _read_run, 3, _with_run_hashes)


def _with_run_hashes(files: Tree, draw: random.Random) -> Tree:
    """Make the checksums in run.json fit the changed files."""
    if draw.random() < 0.2:
        return files
    with suppress(LookupError, ValueError, TypeError, AttributeError, RecursionError):
        about = json.loads(files["run.json"])
        for name in about["files"]:
            about["files"][name] = hashlib.sha256(files[name]).hexdigest()
        about["sha256"] = document_sha256(about)
        return {**files, "run.json": json.dumps(about).encode()}
    return files


def _read_run(files: Tree, folder: Path) -> None:
    from obygaze_models.report.comparison import compare_runs
    from obygaze_models.report.page import write_report
    from obygaze_models.runner.text import read_run

    place = written(files, folder)
    run = read_run(place)
    do_all(
        lambda: run.results,
        lambda: run.predictions,
        lambda: write_report([place]),
        lambda: compare_runs([run, run]),
    )
