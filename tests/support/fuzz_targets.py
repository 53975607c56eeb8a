"""What the fuzzer reads: small valid files of every kind, and the commands that read each."""

import hashlib
import io
import json
import random
import shlex
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from obygaze_features.backbones.cards import SHIPPED as CARDS
from obygaze_features.core.files import canonical_json, document_sha256
from obygaze_features.store import Array, Row
from obygaze_features.store.layout import CHECKS, STORE_JSON
from obygaze_features.store.rows import FAILED
from support import filled_stores
from support.cli import call_obygaze
from support.fuzz import Target, Tree, do_all, written
from support.plain_store import with_sha256
from support.stores import made_store, some_rows, some_values
from support.workbooks import write_workbook
from support.written_stores import files_of

DATA = Path(__file__).parents[1] / "data"
PROTOCOLS = Path(__file__).parents[2] / "obygaze_models" / "protocols" / "shipped"
BROKEN = (LookupError, ValueError, TypeError, AttributeError, RecursionError)
BROKEN += (struct.error, ArithmeticError, MemoryError)
SRT = """1
00:00:00,500 --> 00:00:02,000
<i>Tea</i> &amp; cake

2
00:00:02,500 --> 00:00:04,000 X1:10
- No.
- {\\an8}Yes
"""
MARKS = """movie_id,start_s,end_s,column,value,annotator
pier,0,1,level,S,ada
pier,0,1,concepts,Look,ada
pier,0,1,Gewalt,stark,ada
pier,1.2,2,level,EN,ada
pier,0,4,watched,watched,ada
"""
SPANS = """clip_id,movie_id,start_s,end_s
pier-1,pier,0,2
pier-2,pier,2,4
"""
SMALL = """schema = "obygaze-protocol/1"
[tasks.EN_S]
classes = { EN = 0, S = 1 }
[splits]
kind = "kfold"
folds = 4
[models.ridge]
kind = "ridge"
[grid]
train = ["EN_S"]
test = ["EN_S"]
"""
MODELS = {
    "joined": "ridge --store seen+heard",
    "probe": "logistic --store seen",
    "mlp": "mlp --store seen",
    "tree": "pcbm-dt --store seen",
    "pcbm-lr": "pcbm-lr --store seen",
}


def written_workspace(folder: Path) -> Path:
    folder.mkdir()
    draws = np.random.default_rng(0)
    ids = [f"pier-{film}-{clip}" for film in range(4) for clip in range(6)]
    lines = ["clip_id,movie_id,start_s,end_s,level,concepts,mood"]
    for clip_id, level in zip(ids, ["EN", "S", "HN", "EN", "S", "NS"] * 4, strict=True):
        concepts = "" if level == "EN" else draws.choice(["Look", "Body", "Look|Body"])
        mood = draws.choice(["calm", "tense"])
        start_s = 2 * int(clip_id[-1])
        times = f"{start_s},{start_s + 1.5}"
        lines.append(f"{clip_id},{clip_id[:6]},{times},{level},{concepts},{mood}")
    (folder / "clips.csv").write_text("\n".join(lines), "utf-8")
    commands = ["manifest import clips.csv -o pier"]
    for name, width in (("seen", 4), ("heard", 3)):
        clip = draws.normal(size=(len(ids), width)).astype(np.float32)
        np.savez(folder / f"{name}.npz", clip_id=ids, clip=clip)
        start = f"store import {name}.npz --manifest pier"
        commands.append(f"{start} -o {name} --backbone {name}")
    (folder / "small.toml").write_text(SMALL, "utf-8")
    for name, words in MODELS.items():
        commands.append(f"train {words} --manifest pier -o {name}")
    start = "run small.toml --manifest pier"
    commands.append(f"{start} --store seen --store seen+heard -o small")
    for line in commands:
        call_obygaze(*line.split(), cwd=folder).ok()
    return folder


# ---- readers ------------------------------------------------------------------------------------


def typed(*lines: str) -> Callable[[Tree, Path], None]:
    """Return what types commands in a folder of the files; errors are raised, not printed."""

    def read(files: Tree, folder: Path) -> None:
        place = place_of(files, folder)
        debug = {"OBYGAZE_DEBUG": "1"}
        works = []
        for line in lines:
            words = shlex.split(line)
            works.append(lambda words=words: call_obygaze(*words, cwd=place, env=debug))
        do_all(*works)

    return read


def place_of(files: Tree, folder: Path) -> Path:
    """Write files; the members of a workbook, such as `t.xlsx/a.xml`, are put in one archive."""
    plain: Tree = {}
    archives: dict[str, io.BytesIO] = {}
    for name, data in files.items():
        archive, _, member = name.partition("/")
        if not archive.endswith(".xlsx") or not member:
            plain[name] = data
            continue
        stream = archives.setdefault(archive, io.BytesIO())
        with zipfile.ZipFile(stream, "a") as out:
            out.writestr(member, data)
    plain |= {name: stream.getvalue() for name, stream in archives.items()}
    return written(plain, folder)


def read_store(files: Tree, folder: Path) -> None:
    from obygaze_features.store import open_store

    store = open_store(written(files, folder) / "stores" / "s")
    works: list[Callable[[], object]] = []
    for name in store.feature_arrays:
        works.append(lambda name=name: store.matrix(name, missing="drop"))
    movie_id, clip_id = str(store.movie_ids[0]), str(store.clip_ids[0])
    do_all(
        *works,
        lambda: list(store.rows),
        lambda: store.matrix("clip", films=[movie_id], missing="nan"),
        lambda: store.matrix("clip", clips=[clip_id]),
        lambda: list(store.stream("clip", missing="drop")),
    )


def read_filling(files: Tree, folder: Path) -> None:
    """Look at how far a store is filled, then seal what is there."""
    from obygaze_features.store.filling import Filling
    from obygaze_features.store.reading import find_filling
    from obygaze_features.store.sealing import seal

    target = written(files, folder) / "f"
    do_all(
        lambda: find_filling(target),
        lambda: Filling.open(target).missing(),
        lambda: seal(target, seal_now=True),
    )


def read_protocol(files: Tree, folder: Path) -> None:
    from obygaze_models.protocols.reading import parse_protocol

    protocol = parse_protocol(files.get("p.toml", b""), "p.toml")
    _ = protocol.pairs, protocol.model_names, repr(protocol)


def read_card(files: Tree, folder: Path) -> None:
    from obygaze_features.backbones.cards import parse_card
    from obygaze_features.core.schema_check import read_toml

    card = parse_card(read_toml(files.get("c.toml", b""), "c.toml"))
    _ = card.sha256, repr(card)


def read_weights(files: Tree, folder: Path) -> None:
    from obygaze_features.backbones.weights import read_tensors

    read_tensors([written(files, folder) / "w.safetensors"])


def read_words(files: Tree, folder: Path) -> None:
    """Read subtitles, and find nothing that is no word in what is read."""
    from obygaze_features.core.cues import n_words, spoken
    from obygaze_features.extraction.subtitles import words_of_clips
    from obygaze_features.manifest.model import Clip, Header, Manifest

    place = place_of(files, folder)
    spans = ((0.0, 2.0), (2.0, 4.0))
    clips = [
        Clip(f"pier-{number}", "pier", video="f.mkv", start_s=start_s, end_s=end_s)
        for number, (start_s, end_s) in enumerate(spans, 1)
    ]
    manifest = Manifest("films", Header("films"), clips)
    for path in [path for path in place.iterdir() if path.suffix == ".csv"] or [place]:
        for text in words_of_clips(manifest, str(path)).texts.values():
            # A sign that is written twice, as in `&amp;lt;`, is read once.
            assert "&" in text or spoken(text) == text or not n_words(text)
            text.encode("utf-8")


def sound_reader(folder: Path) -> Target:
    """The index of a film's sound: with each that is read, the sound is the same."""
    from obygaze_features.video.sound import SoundView, decode_sound
    from obygaze_features.video.sound_index import forget_sound, make_sound_index
    from support.heard_films import tone, write_film

    folder.mkdir()
    film = write_film(folder / "sound.mkv", 4, tone(4))
    make_sound_index(film, folder / "indexes")
    (index,) = (folder / "indexes").rglob("sound.npz")
    files = {"sound.npz": index.read_bytes()}
    part: Any = {"start_s": 1.0, "end_s": 3.0, "indexes": folder / "indexes"}
    expected = decode_sound(film, SoundView(8000), **part).samples

    def read(files: Tree, folder: Path) -> None:
        index.write_bytes(files.get("sound.npz", b""))
        forget_sound()
        found = decode_sound(film, SoundView(8000), **part).samples
        assert np.array_equal(found, expected)

    return Target("sound index", [files], read, 6)


# ---- checksums that fit the changed files, as an enemy would write them -------------------------


def resealed(files: Tree, draw: random.Random) -> Tree:
    """Make checksums fit the changed files of a store: of chunks, of each file, of the recipe."""
    name = f"stores/s/{STORE_JSON}"
    if draw.random() < 0.2 or name not in files:
        return files
    with suppress(*BROKEN):
        document = json.loads(files[name])
        files = with_right_chunks(files, document)
        recipe = canonical_json(document["recipe"])
        document["fingerprint"] = hashlib.sha256(recipe).hexdigest()
        for own in document["files"]:
            data = files.get(f"stores/s/{own}")
            if data is not None:
                mark = [len(data), hashlib.sha256(data).hexdigest()]
                document["files"][own] = mark
        document.pop("sha256", None)
        return files | {name: with_sha256(json.dumps(document))}
    return files


def with_right_chunks(files: Tree, document: dict[str, Any]) -> Tree:
    """The CRC32C of each chunk at its end and in `chunks.crc32c`, and that of each index."""
    files = dict(files)
    checks = b""
    for array in (*document["columns"], *document["arrays"]):
        n_index = 16 * (array["file_rows"] // array["chunk_rows"]) + 4
        prefix = f"stores/s/{array['name']}/c."
        for name in sorted(name for name in files if name.startswith(prefix)):
            data = bytearray(files[name])
            spans = [(0, len(data))]
            if array["dtype"] != "string":
                _put_crc(data, len(data) - n_index, len(data))
                entries = struct.iter_unpack("<2Q", data[-n_index:-4])
                spans = [(start, start + length) for start, length in entries]
            for start, end in spans:
                if end <= len(data):
                    _put_crc(data, start, end)
                    checks += data[end - 4 : end]
            files[name] = bytes(data)
    return files | {f"stores/s/{CHECKS}": checks}


def _put_crc(data: bytearray, start: int, end: int) -> None:
    crc = google_crc32c.value(bytes(data[start : end - 4]))
    data[end - 4 : end] = struct.pack("<I", crc)


def replanned(files: Tree, draw: random.Random) -> Tree:
    """Let the blocks of a filling belong to the changed plan."""
    plan = files.get("f.next/plan.json", b"") + files.get("f.next/clips.json", b"")
    files = dict(files)
    for name, data in files.items():
        with suppress(*BROKEN):
            if name.endswith("rows.json"):
                record = json.loads(data)
                record.pop("sha256", None)
                record["plan"] = hashlib.sha256(plan).hexdigest()
                files[name] = with_sha256(json.dumps(record, indent=1))
    return files


def rehashed(place: str) -> Callable[[Tree, random.Random], Tree]:
    """Return what makes the checksums in model.json or run.json fit the changed files."""
    folder = place.rpartition("/")[0]

    def repair(files: Tree, draw: random.Random) -> Tree:
        if draw.random() < 0.2:
            return files
        with suppress(*BROKEN):
            document = json.loads(files[place])
            for name, mark in document["files"].items():
                data = files[f"{folder}/{name}"]
                sha256 = hashlib.sha256(data).hexdigest()
                is_pair = isinstance(mark, list)
                document["files"][name] = [len(data), sha256] if is_pair else sha256
            document["sha256"] = document_sha256(document)
            return {**files, place: json.dumps(document).encode()}
        return files

    return repair


# ---- kinds of files -----------------------------------------------------------------------------


def all_targets(folder: Path) -> list[Target]:
    """Every kind of input, made once in `folder`."""
    workspace = written_workspace(folder / "written")
    return [
        *store_targets(folder / "stores", workspace),
        *import_targets(folder / "imports"),
        *text_targets(folder / "texts", workspace),
        *model_targets(workspace),
        sound_reader(folder / "sound"),
    ]


def below(place: str, folder: Path) -> Tree:
    return {f"{place}/{name}": data for name, data in files_of(folder).items()}


def store_targets(folder: Path, workspace: Path) -> list[Target]:
    folder.mkdir()
    arrays = (
        Array("clip", "float32", (4,), ("d4",), 2, 8),
        Array("time_s", "float64", (3,), ("t3",), 4, 4),
    )
    failed = Row("tt2-001", "tt2", status=FAILED, reason="no picture, at all")
    rows = [*some_rows(9), failed]
    made_store(folder / "s", rows, some_values(10, arrays), arrays=arrays)
    stores = []
    for path in (
        folder / "s",
        *(workspace / "stores" / name for name in ("heard", "seen")),
    ):
        files = below("stores/s", path)
        # The same inputs in every campaign.
        document = json.loads(files[f"stores/s/{STORE_JSON}"])
        document["created"] = "2026-11-25T00:00:00+00:00"
        del document["sha256"]
        files[f"stores/s/{STORE_JSON}"] = with_sha256(json.dumps(document))
        stores.append(files)
    documents = [
        {name: one[name] for name in one if name.endswith(STORE_JSON)} for one in stores
    ]
    filling = filled_stores.plan(folder / "f", 40)
    filled_stores.compute(filling, 1, filled_stores.values_of(n_rows=40))
    filled = below("f.next", filling.folder)
    described = typed("store info s", "store verify s --hash")
    return [
        Target("store", stores, read_store, 2, resealed),
        Target("store described", stores, described, 2, resealed),
        Target("store document", documents, typed("store info s"), 12, resealed),
        Target("filling", [filled], read_filling, 2, replanned),
    ]


def import_targets(folder: Path) -> list[Target]:
    import h5py
    import pyarrow
    from pyarrow.parquet import write_table

    folder.mkdir()
    ids, vectors = ["tt1-001", "tt1-002", "tt2-001"], np.ones((3, 4), np.float32)
    np.savez(folder / "f.npz", clip_id=np.array(ids), features=vectors, extra=range(3))
    with h5py.File(folder / "f.h5", "w") as out:
        for name in ids:
            out[name] = vectors[:2]
    with h5py.File(folder / "g.h5", "w") as out:
        out["clip_id"], out["features"] = ids, vectors
    (folder / "npy").mkdir()
    for name in ids:
        np.save(folder / "npy" / f"{name}.npy", vectors)
    columns = {"clip_id": ids, "movie_id": ["tt1", "tt1", "tt2"]}
    columns |= {"start_s": [0.0, 1.0, 0.0], "end_s": [1.0, 2.0, 1.0]}
    labels = {**columns, "level": ["S", "EN", None], "n": [1.0, None, 2.5]}
    write_table(pyarrow.table(labels), folder / "t.parquet")

    def of(name: str) -> Tree:
        return {name: (folder / name).read_bytes()}

    npy = below("npy", folder / "npy")
    return [
        Target("npz", [of("f.npz")], typed("store import f.npz -o new"), 6),
        Target("hdf5", [of("f.h5")], typed("store import f.h5 -o new"), 2),
        Target("hdf5 rows", [of("g.h5")], typed("store import g.h5 -o new"), 2),
        Target("npy", [npy], typed("store import npy -o new"), 5),
        Target("labels", [of("t.parquet")], typed("manifest import t.parquet -o t"), 6),
    ]


def text_targets(folder: Path, workspace: Path) -> list[Target]:
    folder.mkdir()
    write_workbook(
        folder / "t.xlsx", {"clips": [line.split(",") for line in SPANS.splitlines()]}
    )
    with zipfile.ZipFile(folder / "t.xlsx") as archive:
        book = {f"t.xlsx/{name}": archive.read(name) for name in archive.namelist()}
    cards = []
    for path in sorted(CARDS.glob("*.toml")):
        # Others only say in what they differ from one of these.
        if b"\nlike = " not in path.read_bytes():
            cards.append({"c.toml": path.read_bytes()})
    protocols = [
        {"p.toml": path.read_bytes()} for path in sorted(PROTOCOLS.glob("*.toml"))
    ]
    written = below("manifests", workspace / "manifests")
    table = {"t.csv": (workspace / "clips.csv").read_bytes()}
    subtitles = [
        {"pier.srt": SRT.encode()},
        {"pier.vtt": b"WEBVTT\n\n" + SRT.replace(",", ".").encode()},
        {"t.csv": b"clip_id,text\npier-1,Tea\npier-2,\n"},
    ]
    marks = {"m.csv": MARKS.encode(), "c.csv": SPANS.encode()}
    names = ("ete", "noir", "see", "station", "tape")
    tiers = [{"f.eaf": (DATA / "elan" / f"{name}.eaf").read_bytes()} for name in names]
    manifest = typed(
        "manifest show pier", "manifest stats pier", "manifest folds pier -k 2"
    )
    tables = typed(
        "manifest import t.csv -o t", "manifest import t.csv -o u --word x=S"
    )
    projected = typed("marks clips m.csv --clips c.csv -o labels")
    exchanged = typed("marks import f.eaf -o f", "marks export segments/f.csv out.eaf")
    return [
        Target("protocol", protocols, read_protocol, 16),
        Target("card", cards, read_card, 8),
        Target("manifest", [written], manifest, 16),
        Target("table", [table], tables, 8),
        Target("workbook", [book], typed("manifest import t.xlsx -o t"), 8),
        Target("marks", [marks], projected, 12),
        Target("tiers", tiers, exchanged, 12),
        Target("subtitles", subtitles, read_words, 12),
    ]


def model_targets(workspace: Path) -> list[Target]:
    from safetensors.numpy import save

    X = np.random.default_rng(3).normal(size=(40, 6)).astype(np.float32)
    weights = save({"a.b": X, "c": X[:1], "d": np.zeros(0, np.float16)})
    models = [below("models/m", workspace / "models" / name) for name in MODELS]
    run = below("runs/small", workspace / "runs" / "small")
    shown = typed("models show m")
    read = typed("report small", "compare small small")
    return [
        Target("model", models, shown, 8, rehashed("models/m/model.json")),
        Target("weights", [{"w.safetensors": weights}], read_weights, 6),
        Target("run", [run], read, 3, rehashed("runs/small/run.json")),
    ]
