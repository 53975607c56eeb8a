"""What the fuzzer reads: small valid files of every kind, and the code that reads each."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unittest import mock

import numpy as np

from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.files import canonical_json
from obygaze_features.store import RowSource, TextTable, open_store
from obygaze_features.store.format.limits import check_document
from obygaze_features.store.format.records import with_checksum
from obygaze_features.store.read import commits, index_pages
from obygaze_features.store.remote.files import Piece, bounds, names_in
from obygaze_features.store.remote.selection import FileSelection, select_files
from obygaze_features.store.write import seal
from obygaze_models.protocols.runner.records import Run
from support.fuzz import Target, Tree
from support.runs import usual, write_run
from support.stores import (
    ARRAYS,
    copy_of_sealed,
    fill_store,
    plan_store,
    some_values,
    tree,
)

HEX = 64
Read = Callable[[Tree, Path], None]


class MemoryFiles:
    """A store in memory; every second one answers as a web server does."""

    def __init__(self, files: Tree, is_remote: bool) -> None:
        self.files, self.is_remote, self.location = files, is_remote, "memory"

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Piece | None:
        if name not in self.files:
            return None
        data = np.frombuffer(self.files[name], np.uint8)
        check_document(name, len(data), self.location)
        first, after = bounds(start, stop, len(data))
        return Piece(data[first:after], len(data))

    def names(self, folder: str) -> list[str] | None:
        return None if self.is_remote else names_in(folder, self.files)


def all_targets(folder: Path) -> list[Target]:
    """Every kind of input, made once in `folder`."""
    return [
        *store_targets(folder / "stores"),
        *import_targets(folder / "imports"),
        *text_targets(folder / "texts"),
        *model_targets(folder / "models"),
        run_target(folder / "runs"),
    ]


def store_targets(folder: Path) -> list[Target]:
    """Stores: sealed, open and with texts; packed; and one file of their JSON alone."""
    folder.mkdir()
    sealed = tree(copy_of_sealed(folder / "sealed"))
    plan = plan_store(folder / "open", 9, 4, compressor="zstd")
    writer = fill_store(folder / "open", some_values(9, plan.arrays), blocks=[0, 2])
    texts = TextTable(
        np.ones((2, 4), np.float32), ["a", "b"], ["", ""], ["x", "y"], "space#1"
    )
    writer.add_text(texts)
    whole = plan_store(folder / "texts", 5, 4, arrays=ARRAYS[:1])
    done = fill_store(folder / "texts", some_values(5, whole.arrays), blocks=[0])
    values = {"clip": np.ones((1, 4), np.float32)}
    done.commit_block(1, values, sources=[RowSource(0.0, 1.5, 7, "ab" * 32, 3)])
    done.add_text(texts)
    done.seal()
    with (
        mock.patch.multiple(index_pages, PAGE_ROWS=8),
        mock.patch.object(seal, "INDEX_ROWS", 9),
    ):
        indexed = plan_store(folder / "indexed", 23)
        fill_store(folder / "indexed", some_values(23, indexed.arrays)).seal()
    stores = [sealed, tree(folder / "open"), tree(folder / "texts")]
    return [
        Target("store", stores, read_store, 2, restamped),
        Target(
            "store document",
            [_documents(one) for one in stores],
            read_documents,
            12,
            restamped,
        ),
        Target("index", [tree(folder / "indexed")], read_index, 3, restamped_index),
        Target("packed store", [_zip_of(one) for one in stores], read_zip, 3),
    ]


def _documents(files: Tree) -> Tree:
    return {name: data for name, data in files.items() if name.endswith(".json")}


def restamped(files: Tree, draw: random.Random) -> Tree:
    """Make checksums fit the changed files: of each document, of all files in the seal."""
    if draw.random() < 0.2:
        return files
    files = {name: _stamped(data) for name, data in files.items()}
    if "seal.json" not in files:
        return files
    with suppress(LookupError, ValueError, TypeError, AttributeError, RecursionError):
        seal = json.loads(files["seal.json"])
        seal["fingerprint"] = json.loads(files["store.json"])["fingerprint"]
        for name in seal["files"].keys() & files.keys():
            seal["files"][name] = [
                len(files[name]),
                hashlib.sha256(files[name]).hexdigest(),
            ]
        files["seal.json"] = _stamped(json.dumps(seal).encode())
    return files


def _stamped(data: bytes) -> bytes:
    if b'"sha256"' not in data[:16]:
        return data
    with suppress(ValueError, TypeError, AttributeError, RecursionError):
        value = json.loads(data)
        value.pop("sha256", None)
        if "recipe" in value:
            value["fingerprint"] = hashlib.sha256(
                canonical_json(value["recipe"])
            ).hexdigest()
        return with_checksum(value)
    return data


def read_store(files: Tree, folder: Path) -> None:
    """Open a store, and read, describe, verify and select all of it."""
    from obygaze_features.store.read.describe import card_text, describe
    from obygaze_features.store.read.verify import verify

    place = MemoryFiles(files, is_remote=len(files.get("seal.json", b"")) % 2 == 1)
    store = open_store(place)
    # An error in one of them must not hide those of the others.
    work: list[Callable[[], object]] = [
        lambda: card_text(store.plan, store.status().counts),
        lambda: describe(store),
        store.text,
        lambda: select_files(place),
        lambda: select_files(place, films=[store.movie_ids[0]]),
        lambda: select_files(place, arrays=store.feature_arrays[:1]),
        lambda: verify(place, hashes=True),
        *(
            lambda name=name: store.matrix(name, missing="drop")
            for name in store.feature_arrays
        ),
        lambda: store.matrix(store.feature_arrays[0], clips=[store.clip_ids[-1]]),
    ]
    errors = [error for one in work if (error := _error_of(one))]
    if errors:
        raise errors[0]


def _error_of(work: Callable[[], object]) -> ObygazeError | None:
    try:
        work()
    except ObygazeError as error:
        return error
    return None


def read_documents(files: Tree, folder: Path) -> None:
    """Read the status and the recipe of a store, and nothing of its arrays."""
    from obygaze_features.store.format.records import Marker, Partial, Plan, Sources
    from obygaze_features.store.read.describe import card_text

    kinds = {"sources.json": Sources, "partial.json": Partial}
    for name, data in files.items():
        kind = Marker if name.startswith("commits/block") else kinds.get(name)
        if kind is not None:
            kind.from_bytes(data, name)
    plan = Plan.from_bytes(files.get("store.json", b""), "store.json")
    card_text(plan, {})
    store = open_store(MemoryFiles(files, is_remote=False))
    store.status()
    store.commits.listed_files()
    for block in range(min(store.plan.n_blocks, 3)):
        store.commits.sources(block)


def restamped_index(files: Tree, draw: random.Random) -> Tree:
    """Make the list of pages fit the changed pages, then the seal and all checksums."""
    files = {name: _stamped(data) for name, data in files.items()}
    with suppress(LookupError, ValueError, TypeError, AttributeError, RecursionError):
        films = json.loads(files["index/movies.json"])
        for name in films["files"].keys() & files.keys():
            films["files"][name] = [
                len(files[name]),
                hashlib.sha256(files[name]).hexdigest(),
            ]
        files["index/movies.json"] = _stamped(json.dumps(films).encode())
    return restamped(files, draw)


def read_index(files: Tree, folder: Path) -> None:
    """Read the rows of two films by the index, and compare the index with the seal."""
    from obygaze_features.store.read.verify import verify

    place = MemoryFiles(files, is_remote=True)
    with (
        mock.patch.object(commits, "INDEX_ROWS", 9),
        mock.patch.multiple(index_pages, PAGE_ROWS=8),
    ):
        store = open_store(place)
        errors = [
            _error_of(
                lambda: (
                    store.matrix("clip", films=["tt0000100"], missing="drop").clip_ids
                )
            ),
            _error_of(
                lambda: store.matrix("pooled", films=["tt0000102"], missing="drop")
            ),
            _error_of(lambda: store.movie_ids_of(np.arange(7))),
            _error_of(lambda: verify(place, hashes=True)),
        ]
    if any(errors):
        raise next(filter(None, errors))


def _zip_of(files: Tree) -> Tree:
    import io
    import zipfile

    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as packed:
        for name in ("store.json", *sorted(files.keys() - {"store.json"})):
            packed.writestr(zipfile.ZipInfo(name), files[name])
    return {"s.zip": out.getvalue()}


def read_zip(files: Tree, folder: Path) -> None:
    """Read a packed store in place, then all its files as `unpack` does."""
    path = written(files, folder) / "s.zip"
    errors = [
        _error_of(lambda: open_store(path).matrix("clip", missing="drop")),
        _error_of(lambda: _read_all(select_files(path))),
    ]
    if any(errors):
        raise next(filter(None, errors))


def _read_all(selection: FileSelection) -> None:
    for name in selection.marks:
        selection.read(name)


def written(files: Tree, folder: Path) -> Path:
    """Write files into an emptied folder; names that lead out of it are left out."""
    import shutil

    place = folder / "input"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, data in files.items():
        with suppress(OSError):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(data)
    return place


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
            out[f"{name}/features"] = vectors[:2]
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
        Target("import npy", [arrays], _import("npy", ""), 5),
        Target("vectors npz", [_vectors(folder)], _vectors_read, 1),
    ]


def _import(format: str, name: str) -> Read:
    def read(files: Tree, folder: Path) -> None:
        from obygaze_features.store.format.recipe import Recipe
        from obygaze_features.store.interchange import open_features
        from obygaze_features.store.interchange.importing import (
            ImportSettings,
            _Job,
            clips_of,
        )

        source = open_features(format, [written(files, folder) / name])
        try:
            clips_of(source)
            Recipe.unknown(format, {"origin": dict(source.origin)})
            job = _Job(source, ImportSettings(), range(len(source.clip_ids)))
            job._block(range(min(len(source.clip_ids), 8)))
        finally:
            source.close()

    return read


def _vectors(folder: Path) -> Tree:
    rows = np.eye(4)
    np.savez(folder / "v.npz", X=rows, Y=-rows, A=rows[:2], B=rows[2:])
    return {"v.npz": (folder / "v.npz").read_bytes()}


def _vectors_read(files: Tree, folder: Path) -> None:
    from obygaze_models.text_vectors import read_vectors

    read_vectors(written(files, folder) / "v.npz")


def text_targets(folder: Path) -> list[Target]:
    """Manifests, protocols, cards, tables and lists of words."""
    from importlib.resources import files as package

    import obygaze.audits
    import obygaze_features.backbones
    import obygaze_models.protocols

    protocols = package(obygaze_models.protocols).joinpath("shipped")
    protocol_files = _each(protocols, "p.toml")
    cards = package(obygaze_features.backbones).joinpath("cards")
    words = package(obygaze.audits).joinpath("words")
    return [
        Target("protocol", protocol_files, _read_protocol, 16),
        Target("card", _each(cards, "c.toml"), _read_card, 8),
        Target("words", _each(words, "w.toml"), _read_words, 5),
        Target("manifest", [MANIFEST], _read_manifest, 16),
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
        Target("plan", [{"p.json": _plan_file()}], _read_plan, 6),
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
unit = "clip"
delimiter = ","
[columns]
clip_id = "clip_id"
movie_id = "movie_id"
level = "level"
[levels]
"S" = "S"
[concepts]
"Look" = "Look"
"""
SEGMENTS = b"""movie_id,annotator,start_frame,end_frame,fps,level,concepts
tt1,a,0,99,25,S,Look
tt1,b,50,99,25,EN,
"""
SPANS = b"""clip_id,movie_id,start_frame,end_frame,fps
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


def _read_words(files: Tree, folder: Path) -> None:
    from obygaze.audits.texts import read_words

    read_words(written(files, folder) / "w.toml")


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
    from obygaze_features.manifest.adapters.csv_table import read, read_mapping
    from obygaze_features.manifest.io import check_manifest

    place = written(files, folder)
    errors = [
        _error_of(
            lambda: read(place / "t.csv", mapping=read_mapping(place / "t.toml"))
        ),
        _error_of(lambda: check_manifest(read(place / "t.csv", name="t").manifest)),
    ]
    if any(errors):
        raise next(filter(None, errors))


def _read_segments(files: Tree, folder: Path) -> None:
    from fractions import Fraction

    from obygaze.films.projection import read_inputs

    place = written(files, folder)
    read_inputs(place / "s.csv", place / "c.csv")
    read_inputs(place / "s.csv", Fraction(10))


def _exchanged() -> list[Tree]:
    from fractions import Fraction

    from obygaze.films.exchange import export
    from obygaze.films.film_segments import FilmSegments
    from obygaze.films.projection import Segment

    segments = [
        Segment("f", "ada", 0, 9, "S", ("Look", "Body"), "why"),
        Segment("f", "b", 3, 5, ""),
    ]
    film = FilmSegments("f", Fraction(25), None, segments)
    written = [export([film], kind, Path()) for kind in ("elan", "vtt", "csv")]
    shots = b"Timecode List:,1\nScene Number,Start Frame,End Frame\n1,1,48\n"
    trees = [{path.name: data for path, data in files.items()} for files in written]
    return [*trees, {"f-Scenes.csv": shots}]


def _read_exchanged(files: Tree, folder: Path) -> None:
    from obygaze.films.exchange import (
        FORMATS,
        export,
        films_of,
        import_segments,
    )
    from obygaze_features.manifest.io import check_manifest

    paths = sorted(path for path in written(files, folder).rglob("*") if path.is_file())
    made = import_segments(paths, "f", 29.97).manifest
    check_manifest(made)
    films, _ = films_of(made)
    for kind in FORMATS:
        export(films, kind, folder)


def _read_trec(files: Tree, folder: Path) -> None:
    from obygaze.audits.mediaeval_runs import read_qrels, read_trec_run

    place = written(files, folder)
    read_trec_run(place / "r.txt")
    read_qrels(place / "q.txt")


def _plan_file() -> bytes:
    from obygaze_features.extraction import plan

    rows = (
        plan.PlannedClip("a-1", "a", "a.mp4", 0.0, 1.5),
        plan.PlannedClip("b-1", "b", ""),
    )
    targets = (plan.Target("s", "descriptors", arrays=("clip",), block_rows=4),)
    return plan.ExtractPlan("films", "", "", rows, targets).to_bytes()


def _read_plan(files: Tree, folder: Path) -> None:
    from obygaze_features.extraction.plan import plan_from_bytes

    plan = plan_from_bytes(files.get("p.json", b""), "p.json")
    plan.to_bytes()
    _ = plan.clips_sha256, plan.shared_films, plan.n_units, plan.worker_rows("0/1")


def _read_expression(files: Tree, folder: Path) -> None:
    from obygaze_features.manifest.expression import parse

    parse(
        files.get("e.txt", b"").decode("utf-8", "surrogateescape"),
        vocabulary=["Look", "Body"],
    )


def model_targets(folder: Path) -> list[Target]:
    """Saved models, a probe and a tree over concepts, and files of weights."""
    from safetensors.numpy import save

    from obygaze_models.models.bottleneck import Bottleneck
    from obygaze_models.models.concepts import ConceptBank
    from obygaze_models.models.heads import TreeHead
    from obygaze_models.models.linear import LogisticProbe
    from obygaze_models.zoo.info import (
        FeatureSpec,
        ModelInfo,
        TrainingClips,
        TrainingData,
    )
    from obygaze_models.zoo.saving import save_model

    folder.mkdir()
    random_rows = np.random.default_rng(3)
    has = (random_rows.random((40, 2)) < 0.5).astype(int)
    X = (random_rows.normal(0, 0.5, (40, 6)) + has @ np.eye(2, 6) * 2).astype(
        np.float32
    )
    y = (has.sum(axis=1) > 1).astype(int)
    bank = ConceptBank(("Look", "Body")).fit(X, has)
    fitted = {
        "probe": (LogisticProbe().fit(X, y), ()),
        "tree": (
            Bottleneck(bank, TreeHead()).fit(X, y, concepts=has),
            ("Look", "Body"),
        ),
    }
    for name, (estimator, concepts) in fitted.items():
        info = ModelInfo(
            name=name,
            kind="logistic",
            task="HN_S",
            classes=("HN", "S"),
            concepts=concepts,
            features=FeatureSpec("toy", "clip", 6, "ab" * 32, "store"),
            training=TrainingData(
                "films", "0" * 64, "visual", 40, 1, ("x",), "Somebody 2026"
            ),
            metrics={"ap": {"value": 0.8, "ci": [0.6, float("nan")]}},
        )
        save_model(estimator, info, folder / name)
    weights = {
        "w.safetensors": save({"a.b": X, "c": X[:1], "d": np.zeros(0, np.float16)})
    }
    _ = TrainingClips
    return [
        Target(
            "model",
            [tree(folder / n) for n in fitted],
            _read_model,
            8,
            _with_model_hashes,
        ),
        Target("weights", [weights], _read_weights, 6),
    ]


def _with_model_hashes(files: Tree, draw: random.Random) -> Tree:
    """Make the checksums in model.json fit the changed files."""
    if draw.random() < 0.2:
        return files
    with suppress(LookupError, ValueError, TypeError, AttributeError, RecursionError):
        document = json.loads(files["model.json"])
        for key, name in (("arrays", "model.safetensors"), ("card", "README.md")):
            own = files[name]
            document[key] = {
                "bytes": len(own),
                "sha256": hashlib.sha256(own).hexdigest(),
            }
        document.pop("sha256", None)
        text = json.dumps(
            document, sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        document["sha256"] = hashlib.sha256(text.encode("utf-8")).hexdigest()
        return {**files, "model.json": json.dumps(document).encode()}
    return files


def _read_model(files: Tree, folder: Path) -> None:
    from obygaze_models.zoo import load_model
    from obygaze_models.zoo.info import card_text

    model = load_model(written(files, folder))
    card_text(model.info, model.clips)
    _ = repr(model)


def _read_weights(files: Tree, folder: Path) -> None:
    from obygaze_features.backbones.weights import read_tensors

    read_tensors([written(files, folder) / "w.safetensors"])


def run_target(folder: Path) -> Target:
    """A run, as the report and the notebook read it."""
    folder.mkdir()
    run = tree(write_run(folder / "run", usual()))
    # The same inputs in every folder.
    run["run.json"] = run["run.json"].replace(str(folder).encode(), b"/gone")
    return Target("run", [run], _read_run, 3)


def _tables(run: Run) -> None:
    from obygaze_models.report.lookup import ReportRun
    from obygaze_models.report.page import _explaining, _write_tables, sections_of

    with _explaining(run.folder):
        known = ReportRun.of_run(run)
        _write_tables(known, sections_of(known, []), ("md", "latex", "csv"))


def _read_run(files: Tree, folder: Path) -> None:
    from obygaze_models.protocols.runner.records import read_run
    from obygaze_models.report.page import write_report

    place = written(files, folder)
    run = read_run(place)
    errors = [
        _error_of(run.to_frame),
        _error_of(lambda: run.predictions),
        _error_of(lambda: _tables(run)),
        # Drawing takes a hundred times as long as reading.
        _error_of(lambda: sum(map(len, files.values())) % 50 or write_report([place])),
    ]
    if any(errors):
        raise next(filter(None, errors))
