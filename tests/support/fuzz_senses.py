"""What the fuzzer reads of sound, words, joined stores and marks, and what commands write."""

from __future__ import annotations

import io
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.manifest.model import Manifest
from support.cli import call_obygaze
from support.fuzz import Target, Tree, do_all, written

DATA = Path(__file__).parents[1] / "data"
SRT = """1
00:00:00,500 --> 00:00:02,000
<i>Tea</i> &amp; cake

2
00:00:02,500 --> 00:00:04,000 X1:10
- No.
- {\\an8}Yes
"""
ASS = """[Script Info]
ScriptType: v4.00+

[Events]
Format: Layer, Start, End, Text
Dialogue: 0,0:00:00.50,0:00:02.00,{\\i1}Tea{\\i0}\\Nand cake
Dialogue: 0,0:00:02.50,0:00:04.00,{\\p1}m 0 0 l 1 1{\\p0}No
"""
CUES = """movie_id;start_s;end_s;text
pier;0:00:00,5;0:00:02;Tea
pier;2,5;4;"No; yes"
"""
TEXTS = """clip_id,text
pier-1,Tea
pier-2,
"""
MARKS = """movie_id,start_s,end_s,column,value,annotator
pier,0,1,level,S,ada
pier,0,1,concepts,Look,ada
pier,0,1,Gewalt,stark,ada
pier,0,1,comment,why,ada
pier,1.2,2,level,EN,ada
pier,0,4,watched,watched,ada
"""
SPANS = """clip_id,movie_id,start_s,end_s
pier-1,pier,0,2
pier-2,pier,2,4
"""
DRAWN = """\
clip_id,movie_id,scene,video,start_s,end_s,level,concepts,when,draw_probability,draw_clips
pier-1,pier,,,0,2,S,,1980s,0.5,4
pier-2,pier,,,2,4,EN,,1980s,0.5,4
lake-1,lake,,,0,2,EN,,2010s,0.25,4
"""
HEADER = b"""schema = "obygaze-manifest/1"
dataset = "films"
unit = "clip"
view = "visual"

[concepts]
"""
PREDICTED = """clip_id,movie_id,basis,decision,p:S
pier-1,pier,unseen film,S,0.6
pier-2,pier,unseen film,EN,0.25
pier-3,pier,unseen film,S,0.75
pier-4,pier,unseen film,EN,0.125
lake-1,lake,unseen film,S,0.7
lake-2,lake,unseen film,EN,0.3
lake-3,lake,unseen film,EN,0.3
lake-4,lake,unseen film,EN,0.3
"""
RATED = """clip_id,movie_id,start_s,end_s,seen,Rating (0-3),word
pier-1,pier,0:00:00,0:00:02,yes,0,calm
pier-2,pier,0:00:02,0:00:04,no,2,tense
lake-1,lake,0:00:00,0:00:02,,3,tense
"""
TABLES = (".csv", ".xlsx")
TASKS = ("seen", "word=calm", "Rating (0-3)>=2", 'seen == "yes" or word == calm')


def new_targets(folder: Path, workspace: Path) -> list[Target]:
    """Every kind of input of sound, words, joins and marks."""
    folder.mkdir()
    (folder / "kept").mkdir()
    book = _sheet_of(RATED, folder / "kept" / "t.xlsx")
    cues = _sheet_of(CUES.replace(",5", ".5"), folder / "kept" / "c.xlsx", ";")
    names = ("ete", "noir", "see", "station", "tape")
    tiers = []
    for name in names:
        tiers.append({"f.eaf": (DATA / "elan" / f"{name}.eaf").read_bytes()})
    subtitles = [
        {"pier.srt": SRT.encode()},
        {"pier.vtt": b"WEBVTT\n\n" + SRT.replace(",", ".").encode()},
        {"pier.ass": ASS.encode()},
        {"t.csv": CUES.encode()},
        {"t.csv": TEXTS.encode()},
        cues,
    ]
    marks = {
        "m.ada.csv": MARKS.encode(),
        "c.csv": SPANS.encode(),
    }
    whole = "\n".join(line.rsplit(",", 2)[0] for line in DRAWN.split("\n"))
    drawn = {
        "d.toml": HEADER,
        "d.csv": DRAWN.encode(),
        "w.toml": HEADER,
        "w.csv": whole.encode(),
        "p.csv": PREDICTED.encode(),
    }
    own = {"t.csv": RATED.encode(), "q.txt": "\n".join(TASKS).encode()}
    return [
        Target("subtitles", subtitles, _read_subtitles, 12),
        Target("embedded", [_embedded(folder / "kept")], _read_embedded, 6),
        Target("sound index", [_sound_index(folder)], _sound_reader(folder), 6),
        Target("marks", [marks], _read_marks, 12),
        Target("tiers", tiers, _read_tiers, 12),
        Target("sample", [drawn], _read_sample, 10),
        Target("workbook", [book], _read_book, 8),
        Target("tasks", [own], _read_tasks, 8),
        Target("sentences", [_sentences()], _read_sentences, 6),
        Target("npz arrays", _exported(folder / "kept", workspace), _read_exported, 6),
    ]


WRITTEN_STORES = ("heard", "seen")
WRITTEN_MODELS = ("joined", "probe", "mlp", "tree", "pcbm-lr")
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


def written_workspace(folder: Path) -> Path:
    """A folder with what the commands write: a manifest, stores, models and a run."""
    folder.mkdir()
    random = np.random.default_rng(0)
    ids = [f"pier-{film}-{clip}" for film in range(4) for clip in range(6)]
    levels = ["EN", "S", "HN", "EN", "S", "NS"] * 4
    lines = ["clip_id,movie_id,level,concepts,mood"]
    for clip_id, level in zip(ids, levels, strict=True):
        concepts = "" if level == "EN" else random.choice(["Look", "Body", "Look|Body"])
        mood = random.choice(["calm", "tense"])
        lines.append(f"{clip_id},{clip_id[:6]},{level},{concepts},{mood}")
    (folder / "clips.csv").write_text("\n".join(lines), "utf-8")
    for name, width in (("seen", 4), ("heard", 3)):
        clip = random.normal(size=(len(ids), width)).astype(np.float32)
        np.savez(folder / f"{name}.npz", clip_id=ids, clip=clip)
    (folder / "small.toml").write_text(SMALL, "utf-8")
    for line in (
        "manifest import clips.csv -o pier",
        "store import seen.npz --manifest pier -o seen --backbone seen",
        "store import heard.npz --manifest pier -o heard --backbone heard",
        "train ridge --store seen+heard --manifest pier -o joined",
        "train logistic --store seen --manifest pier -o probe",
        "train mlp --store seen --manifest pier -o mlp",
        "train pcbm-dt --store seen --manifest pier -o tree",
        "train pcbm-lr --store seen --manifest pier -o pcbm-lr",
        "run small.toml --manifest pier --store seen --store seen+heard -o small",
    ):
        call_obygaze(*line.split(), cwd=folder).ok()
    return folder


def place_of(files: Tree, folder: Path) -> Path:
    """Write files, with the members of archives, such as `t.xlsx/a.xml`, in one archive."""
    plain: Tree = {}
    archives: dict[str, io.BytesIO] = {}
    for name, data in files.items():
        archive, _, member = name.partition("/")
        if not archive.endswith((".xlsx", ".npz")) or not member:
            plain[name] = data
            continue
        stream = archives.setdefault(archive, io.BytesIO())
        with zipfile.ZipFile(stream, "a") as out:
            out.writestr(member, data)
    plain |= {name: stream.getvalue() for name, stream in archives.items()}
    return written(plain, folder)


def _members(file: Path | io.BytesIO, prefix: str) -> Tree:
    with zipfile.ZipFile(file) as archive:
        return {prefix + name: archive.read(name) for name in archive.namelist()}


def _sheet_of(table: str, path: Path, delimiter: str = ",") -> Tree:
    from support.workbooks import write_workbook

    rows = [line.split(delimiter) for line in table.splitlines()]
    write_workbook(path, {"clips": rows})
    return _members(path, "t.xlsx/")


def _clips(video_root: str = "") -> Manifest:
    from obygaze_features.manifest.model import Clip, Header

    clips = [
        Clip("pier-1", "pier", video="f.mkv", start_s=0.0, end_s=2.0),
        Clip("pier-2", "pier", video="f.mkv", start_s=2.0, end_s=4.0),
    ]
    return Manifest("films", Header(dataset="films", video_root=video_root), clips)


def _read_subtitles(files: Tree, folder: Path) -> None:
    from obygaze_features.core.cues import n_words, spoken
    from obygaze_features.extraction.subtitles import words_of_clips

    place = place_of(files, folder)
    tables = sorted(path for path in place.iterdir() if path.suffix in TABLES)
    paths = tables or [place]

    def read(path: Path) -> None:
        for text in words_of_clips(_clips(), str(path)).texts.values():
            # A sign that is written twice, as in `&amp;lt;`, is read once.
            assert "&" in text or spoken(text) == text or not n_words(text)
            text.encode("utf-8")

    do_all(*(lambda path=path: read(path) for path in paths))


def _embedded(folder: Path) -> Tree:
    from support.subtitled import write_subtitled

    said = [(0.5, 2.0, "Tea"), (2.5, 4.0, "{\\i1}No")]
    path = write_subtitled(folder / "f.mkv", ["subrip"], said, seconds=5)
    return {"f.mkv": path.read_bytes()}


def _read_embedded(files: Tree, folder: Path) -> None:
    from obygaze_features.extraction.subtitles import words_of_clips

    place = place_of(files, folder)
    words_of_clips(_clips(str(place)), "embedded")


def _sound_index(folder: Path) -> Tree:
    from obygaze_features.video.sound_index import make_sound_index
    from support.heard_films import tone, write_film

    film = write_film(folder / "kept" / "sound.mkv", 4, tone(4))
    make_sound_index(film, folder / "indexes")
    (index,) = (folder / "indexes").rglob("sound.npz")
    return {"sound.npz": index.read_bytes()}


def _sound_reader(folder: Path) -> Callable[[Tree, Path], None]:
    """Return what reads sound with a changed index: the sound is the same with each."""
    from obygaze_features.video.sound import SoundView, decode_sound
    from obygaze_features.video.sound_index import forget_sound

    film, indexes = folder / "kept" / "sound.mkv", folder / "indexes"
    (index,) = indexes.rglob("sound.npz")
    part: Any = {"start_s": 1.0, "end_s": 3.0, "indexes": indexes}
    expected = decode_sound(film, SoundView(8000), **part).samples

    def read(files: Tree, folder: Path) -> None:
        index.write_bytes(files.get("sound.npz", b""))
        forget_sound()
        heard = decode_sound(film, SoundView(8000), **part).samples
        assert np.array_equal(heard, expected)

    return read


def _read_marks(files: Tree, folder: Path) -> None:
    from obygaze.films.labels import project_marks
    from obygaze.films.marks import read_marks

    place = place_of(files, folder)
    table = place / "m.ada.csv"

    def project() -> None:
        made = project_marks(
            [table], "made", clips=place / "c.csv", force=True, workspace=place
        )
        _ = str(made), made.to_json()

    do_all(lambda: read_marks([table]), project)


def _read_tiers(files: Tree, folder: Path) -> None:
    from obygaze.films.elan import ElanFile
    from obygaze.films.importing import import_marks
    from obygaze.films.marks import Mark

    place = place_of(files, folder)
    paths = sorted(place.glob("*.eaf"))
    new = Mark("f", 1.0, 2.0, "new", "x", "ada")
    for path in paths:
        file = ElanFile(path)
        n_tiers = len([*file.tiers()])
        path.write_bytes(file.with_tiers([new]))
        assert len([*ElanFile(path).tiers()]) in (n_tiers, n_tiers + 1)
    import_marks(paths, "f", force=True, workspace=place)


def _read_sample(files: Tree, folder: Path) -> None:
    from obygaze.audits.share import audit_share
    from obygaze.films.sampling import draw_plan, is_drawn, sample_clips
    from obygaze_features.manifest.io import read_manifest

    place = place_of(files, folder)
    manifest = read_manifest(place / "d.toml")

    def audit(**more: object) -> None:
        made = audit_share(place / "d.toml", workspace=place, **more)
        _ = str(made), made.to_json(), made["answer"]

    def draw() -> None:
        sample_clips(place / "w.toml", 2, "drawn", workspace=place)
        draw_plan(read_manifest(place / "manifests" / "drawn.toml"))

    work = [
        audit,
        lambda: audit(by="when"),
        lambda: audit(predictions=place / "p.csv"),
        draw,
    ]
    if is_drawn(manifest):
        work.append(lambda: draw_plan(manifest))
    do_all(*work)


def _read_book(files: Tree, folder: Path) -> None:
    from obygaze_features.manifest.adapters.csv_table import read
    from obygaze_features.manifest.io import check_manifest

    book = place_of(files, folder) / "t.xlsx"
    mapping = book.with_name("m.toml")

    def again() -> None:
        first = read(book, name="t", write_mapping=mapping).manifest
        check_manifest(first)
        second = read(book, name="t", mapping=mapping).manifest
        assert second.clips == first.clips

    do_all(again, lambda: read(book, {"comment": "word"}, name="t"))


def _read_tasks(files: Tree, folder: Path) -> None:
    from obygaze_features.manifest.adapters.csv_table import read
    from obygaze_models.protocols.clips import clip_table, task_labels
    from obygaze_models.protocols.reading import load_protocol
    from obygaze_models.protocols.tasks import with_tasks

    place = place_of(files, folder)
    manifest = read(place / "t.csv", name="t").manifest
    honest = load_protocol("honest")
    text = files.get("q.txt", b"").decode("utf-8", "surrogateescape")

    def ask(task: str) -> None:
        protocol = with_tasks(honest, [task], manifest)
        table = clip_table(manifest, protocol.data)
        for name in protocol.tasks:
            task_labels(name, protocol.tasks[name], table)

    do_all(*(lambda task=task: ask(task) for task in text.split("\n")))


def _sentences() -> Tree:
    out = io.BytesIO()
    words = ["calm", "calm", "tense", "tense"]
    names = {"prompt": list("abcd"), "template": ["x"] * 4, "attribute": words}
    rows = np.random.default_rng(5).normal(size=(4, 3)).astype(np.float32)
    np.savez(out, embeddings=rows, space_id="space#1", **names)
    return _members(out, "t.npz/")


def _read_sentences(files: Tree, folder: Path) -> None:
    from obygaze_features.store.texts import read_texts
    from obygaze_models.models.fitting import fit
    from obygaze_models.models.registry import build
    from obygaze_models.models.sentences import bank_from_sentences
    from obygaze_models.text_vectors import (
        Sentences,
    )
    from support.fold_data import fold_data_of

    table = read_texts(place_of(files, folder) / "t.npz")
    sentences = Sentences.of(table)
    _ = bank_from_sentences(sentences)
    directions = sentences.directions
    if {"calm", "tense"} <= directions.keys():
        settings = {"texts": "t.npz", "positive": "calm", "negative": "tense"}
        rows = np.ones((2, table.embeddings.shape[1]))
        no_targets = np.zeros((2, 0), np.int64)
        data = fold_data_of(rows, np.array([0, 1]), (), no_targets, None)
        data = replace(data, sentences={"t.npz": sentences})
        scores = fit(build("zero-shot", settings), data).decision_function(rows)
        assert np.isfinite(scores).all()


def _exported(folder: Path, workspace: Path) -> list[Tree]:
    from obygaze_features.store.exporting import export_features

    exports = []
    for name in ("heard", "seen"):
        path = folder / f"{name}.npz"
        export_features(workspace / "stores" / name, path)
        exports.append(_members(path, "e.npz/"))
    return exports


def _read_exported(files: Tree, folder: Path) -> None:
    from obygaze_features.store import import_features

    path = place_of(files, folder) / "e.npz"
    import_features(path, folder / "store")
    shutil.rmtree(folder / "store")
