"""What is refused: commands that must not be done, and the values that the sentence must name.

A case is a command, in words and as it is typed, with the values that could be named. Recorded are
the exit code, those of the values that the sentence names, and what the command left behind.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from golden import worlds
from golden.doors import (
    Place,
    cut_windows,
    extract,
    import_clips,
    import_features,
    run_protocol,
    train,
)
from golden.films import drawn_pictures, write_film
from golden.tables import Row, Table

QUICK = ("report.replicates=20", "report.concepts=false")
RIDGE = ('grid.models=["ridge"]', 'grid.train=["EN_S"]', 'grid.test=["EN_S"]')
ONE = "--jobs 1 --set report.replicates=20"


@dataclass(frozen=True)
class Case:
    """A command that must not be done, and what its sentence could name."""

    what: str
    line: str
    values: tuple[str, ...]


def record_refused(place: Place) -> dict[str, Table]:
    """Type each command in one workspace, which none of them may change."""
    make_world(place)
    rows = []
    for case in (
        *NAMES,
        *IDS,
        *TABLES,
        *FILMS_AND_TIMES,
        *LEAKS,
        *RECIPES,
        *HOSTILE,
        *ANNOTATORS,
        *PREDICTIONS,
        *USAGE,
    ):
        before = files_of(place)
        answer = place.typed(case.line)
        text = " ".join(answer.err.split())
        named = [value for value in case.values if value in text]
        after = files_of(place)
        changed = sorted({name for name, _ in before.items() ^ after.items()})
        row = {
            "what": case.what,
            "exit code": answer.code,
            "names": ", ".join(named),
            "could name": ", ".join(case.values),
            "left behind": ", ".join(changed),
        }
        rows.append(row)
    return {"refused": rows}


def files_of(place: Place) -> dict[str, tuple[int, int]]:
    """Return size and time of each file of a workspace."""
    found = {}
    for path in place.folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            facts = path.stat()
            name = path.relative_to(place.folder).as_posix()
            found[name] = (facts.st_size, facts.st_mtime_ns)
    return found


# ---- the workspace -------------------------------------------------------------------------------


def timed_clips() -> list[Row]:
    """Return 36 clips with times in their films."""
    rows = worlds.labelled_clips(per_film=6)
    for row in rows:
        row["start_s"] = 10 * row["scene"]
        row["end_s"] = 10 * row["scene"] + 8
    return rows


def make_world(place: Place) -> None:
    """Make manifests, stores, a run, a model, a film, and files that nobody should read."""
    rows = timed_clips()
    import_clips(place, rows, "films")
    X = worlds.seen_features(rows)
    import_features(place, rows, X, "seen", manifest="films")
    import_features(place, rows, X + 1, "shifted", manifest="films", model="seen")
    import_features(place, rows, X, "other", manifest="films")
    import_features(place, rows, X[:, :5], "narrow", manifest="films", model="seen")
    frames = worlds.frame_features(rows)
    import_features(place, rows, frames, "frames", manifest="films", array="frames")
    make_contradictions(place, rows, X)
    make_tables(place, rows)
    make_hostile_files(place, rows, X)
    run_protocol(
        place,
        "honest",
        "films",
        {"seen": "seen"},
        output="first",
        changes=(*RIDGE, *QUICK),
    )
    train(place, "ridge", "seen", "films", "--set report.replicates=20", output="kept")
    draws = np.random.default_rng(17)
    pictures = drawn_pictures(draws, draws.normal(110, 30, 72))
    write_film(place.path("videos/pier.mkv"), pictures, 24)
    cut_windows(place, "videos", "windows", pictures=16)
    extract(place, "windows", "descriptors")
    damage(place)


def make_contradictions(place: Place, rows: Sequence[Row], X: Any) -> None:
    """Make manifests and stores whose clips have the same ids, and other films or times."""
    first, second, *_ = worlds.FILMS
    moved = [{**row, "start_s": row["start_s"] + 1} for row in rows]
    import_clips(place, moved, "moved")
    import_features(place, moved, X, "moved", manifest="moved", model="seen")
    exchanged = {first: second, second: first}
    other_films = []
    for row in rows:
        film = row["movie_id"]
        other_films.append({**row, "movie_id": exchanged.get(film, film)})
    import_clips(place, other_films, "refilmed")
    import_features(
        place, other_films, X, "refilmed", manifest="refilmed", model="seen"
    )
    import_clips(place, [row for row in rows if row["movie_id"] == first], "one-film")
    import_clips(place, [row for row in rows if row["level"] == "S"], "only-sure")
    import_clips(place, [{**row, "level": "", "concepts": ""} for row in rows], "bare")
    annotated = []
    for row in rows:
        for person in ("ada", "ben"):
            annotated.append({**row, "annotator": person})
    import_clips(place, annotated, "annotated")


def make_tables(place: Place, rows: Sequence[Row]) -> None:
    """Write tables of which something is wrong."""
    a, b = rows[0], rows[1]
    two = {
        "id-twice": [a, {**b, "clip_id": a["clip_id"]}],
        "id-empty": [a, {**b, "clip_id": ""}],
        "id-capitals": [{**a, "clip_id": "Alba-1"}, {**b, "clip_id": "alba-1"}],
        "id-accents": [{**a, "clip_id": "café-1"}, {**b, "clip_id": "cafe-1"}],
        "film-empty": [a, {**b, "movie_id": ""}],
        "level-unknown": [a, {**b, "level": "Maybe"}],
        "concept-unknown": [a, {**b, "concepts": "Lok"}],
        "end-first": [a, {**b, "start_s": 30, "end_s": 20}],
        "end-missing": [a, {**b, "end_s": ""}],
        "time-negative": [a, {**b, "start_s": -3}],
        "time-word": [a, {**b, "start_s": "soon"}],
        "fold-negative": [a, {**b, "fold:02_EN_S": -1}],
        "frames-disagree": [
            {**a, "start_frame": 0, "end_frame": 99, "framerate": 25},
            {**b, "start_frame": 0, "end_frame": 99, "framerate": 25},
        ],
        "video-outside": [a, {**b, "video": "../../secret.mp4"}],
    }
    for name, table in two.items():
        columns = dict.fromkeys(key for row in table for key in row)
        filled = [{column: row.get(column, "") for column in columns} for row in table]
        place.write_rows(f"tables/{name}.csv", filled)
    ids = [row["clip_id"] for row in rows]
    joined = {
        "unknown-clips": [{"clip_id": "nobody-1", "word": "x"}],
        "other-film": [{"clip_id": ids[0], "movie_id": "tt9999999", "word": "x"}],
        "other-time": [{"clip_id": ids[0], "start_s": 77, "end_s": 78, "word": "x"}],
        "old-column": [{"clip_id": ids[0], "mood": "calm"}],
        "no-id": [{"shot": ids[0], "word": "x"}],
    }
    for name, table in joined.items():
        place.write_rows(f"joins/{name}.csv", table)
    marks = [
        worlds.mark("alba", "ada", 0, 99, "S", "Look"),
        worlds.mark("alba", "ben", 0, 149, "HN", "Body"),
    ]
    place.write_rows("marks.csv", marks)
    wrong_marks = {
        "level": {"level": "Maybe"},
        "order": {"start_frame": 50, "end_frame": 20},
        "rate": {"framerate": "fast"},
        "nobody": {"annotator": ""},
    }
    for name, change in wrong_marks.items():
        place.write_rows(f"marks-{name}.csv", [marks[1], {**marks[0], **change}])
    place.write_rows("marks-one.csv", marks[:1])
    place.write_rows("marks-again.csv", marks[:1])
    place.write_rows("ratings.csv", worlds.ratings())
    place.write_rows("affect-range.csv", [{"clip_id": "x", "valence": 3, "arousal": 0}])
    place.write_rows("affect-columns.csv", [{"clip_id": "x", "valence": 0.5}])
    scores = [{**row, "clip_id": f"film99-{k}"} for k, row in enumerate(SCORES)]
    place.write_rows("other-scores.csv", scores)
    place.write_rows(
        "words-as-scores.csv",
        [
            {
                **SCORES[0],
                "clip_id": ids[0],
                "movie_id": a["movie_id"],
                "score:S": "high",
            }
        ],
    )
    place("manifest sample films -n 12 -o drawn")
    for name, lines in RUN_FILES.items():
        place.write_text(f"{name}.txt", "\n".join(lines) + "\n")
        place.write_text(f"{name}.json", '{"external_data": false}\n')
    place.write_text("judged.qrels", "violence 0 A.mp4 1\nviolence 0 B.mp4 0\n")


SCORES = [
    {"clip_id": "x", "movie_id": "film99", "basis": "unseen", "score:S": 0.5},
    {"clip_id": "y", "movie_id": "film99", "basis": "unseen", "score:S": -0.5},
]
RUN_FILES = {
    "twice": ["violence Q0 A.mp4 1 0.9 v", "violence Q0 A.mp4 2 0.8 v"],
    "short-line": ["violence Q0 A.mp4"],
}
PROTOCOL = """schema = "obygaze-protocol/1"
[tasks.EN_S]
classes = { EN = 0, S = 1 }
[splits]
kind = "nested"
[models.ridge]
kind = "ridge"
"""


class Harmful:
    """An object that a pickle would run."""

    def __reduce__(self) -> Any:
        return (print, ("harm",))


def make_hostile_files(place: Place, rows: Sequence[Row], X: Any) -> None:
    """Write files that would run code, lead out of the workspace, or are no files of their kind."""
    ids = [row["clip_id"] for row in rows]
    objects = np.array([Harmful()] * len(ids), dtype=object)
    np.savez(place.path("objects.npz"), clip_id=ids, X=objects)
    np.savez(place.path("id-twice.npz"), clip_id=[ids[0], *ids[:-1]], X=X)
    np.savez(place.path("too-few.npz"), clip_id=ids[:-1], X=X)
    np.savez(place.path("others.npz"), clip_id=[f"x{k}" for k in range(len(ids))], X=X)
    place.path("features/tt0108160/a.pth").write_bytes(pickle.dumps(Harmful()))
    for name in ("garbage.npz", "garbage.h5", "garbage.xlsx", "garbage.csv"):
        place.path(name).write_bytes(bytes(range(256)) * 8)
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", b" " * 50_000_000)
        archive.writestr("[Content_Types].xml", b" ")
    place.path("bomb.xlsx").write_bytes(bomb.getvalue())
    entities = "".join(f'<!ENTITY e{k + 1} "{f"&e{k};" * 10}">' for k in range(9))
    place.write_text(
        "laughs.eaf",
        f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e0 "ha">{entities}]>'
        "<ANNOTATION_DOCUMENT>&e9;</ANNOTATION_DOCUMENT>",
    )
    place.write_text("code.py", "def Own(*_, **__):\n    raise SystemExit('ran')\n")
    place.write_text(
        "names-code.toml",
        PROTOCOL.replace('kind = "ridge"', 'kind = "code.py:Own"'),
    )
    place.write_text("wrong-key.toml", PROTOCOL + "strength = 3\n")
    place.write_text("wrong-toml.toml", PROTOCOL + "[splits\n")
    place.write_text("mapping.toml", "[colums]\nclip_id = 'id'\n")


def damage(place: Place) -> None:
    """Change a byte of copies of a store and of a model."""
    place("store pull stores/seen -o damaged")
    place("models pull models/kept -o broken")
    for file in (
        "stores/damaged/data.zarr/clip/c.0.0",
        "models/broken/model.safetensors",
    ):
        path = place.folder / file
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.chmod(0o644)
        path.write_bytes(data)


# ---- the cases -----------------------------------------------------------------------------------

FIRST_CLIP = f"{worlds.FILMS[0]}-001"
SECOND_CLIP = f"{worlds.FILMS[0]}-002"
RUN = "run honest --jobs 1"
SMALL = """--set 'grid.models=["ridge"]' --set report.replicates=20"""

NAMES = (
    Case("a manifest is misspelt", "manifest stats filsm", ("filsm", "films")),
    Case("a store is misspelt", "store info sene", ("sene", "seen")),
    Case("a run is misspelt", "report frist", ("frist", "first")),
    Case("a model is misspelt", "models show kpet", ("kpet", "kept")),
    Case(
        "a protocol is misspelt",
        "run honst --manifest films --store seen",
        ("honst", "honest"),
    ),
    Case("a kind of model is misspelt", "train rigde seen films", ("rigde", "ridge")),
    Case("a task is misspelt", "train ridge seen films --task EN_X", ("EN_X", "EN_S")),
    Case(
        "a model of a grid is misspelt",
        f"""{RUN} --manifest films --store seen --set 'grid.models=["rigde"]'""",
        ("rigde", "ridge"),
    ),
    Case(
        "a key of a protocol is misspelt",
        f"{RUN} --manifest films --store seen --set splits.knd=nested",
        ("knd", "kind"),
    ),
    Case("a backbone is misspelt", "backbones show clip-b61", ("clip-b61", "clip-b16")),
    Case(
        "a concept of an expression is misspelt",
        "manifest show films --where 'Lok in concept'",
        ("Lok", "Look"),
    ),
    Case(
        "a column of an expression is misspelt",
        "manifest show films --where 'levl == S'",
        ("levl", "level"),
    ),
    Case(
        "a film is misspelt",
        "store subset seen --film tt0108161 -o part",
        ("tt0108161", "tt0108160"),
    ),
    Case(
        "a clip is misspelt", "models predict kept seen --clips no-1", ("no-1", "seen")
    ),
    Case("a metric is unknown", "compare first first --metric app", ("app", "ap")),
    Case(
        "an array is unknown",
        "store import npz seen.npz --array clip=Y -o more",
        ("Y", "X"),
    ),
    Case(
        "an array of a backbone is unknown",
        "extract plan windows -b descriptors --arrays clips",
        ("clips", "clip"),
    ),
    Case("a format is unknown", "store export csv seen out.csv", ("csv", "npz")),
    Case(
        "the name of a manifest is taken",
        "manifest import csv moved.csv -o films",
        ("films",),
    ),
    Case(
        "the name of a run is taken",
        f"{RUN} --manifest films --store other -o first {SMALL}",
        ("first",),
    ),
    Case(
        "the name of a store is taken",
        "store subset seen --film tt0108160 -o other",
        ("other",),
    ),
    Case(
        "the name of a manifest is reserved",
        "manifest import csv films.csv -o imported",
        ("imported",),
    ),
)

IDS = (
    Case(
        "an id twice in a table",
        "manifest import csv tables/id-twice.csv -o more",
        (FIRST_CLIP, "2", "3"),
    ),
    Case(
        "an empty id in a table",
        "manifest import csv tables/id-empty.csv -o more",
        ("clip_id", "3"),
    ),
    Case(
        "two ids that differ by capitals",
        "manifest import csv tables/id-capitals.csv -o more",
        ("Alba-1", "alba-1"),
    ),
    Case(
        "two ids that become one",
        "manifest import csv tables/id-accents.csv -o more",
        ("café-1", "cafe-1"),
    ),
    Case(
        "an id twice in an archive",
        "store import npz id-twice.npz --array clip=X -o more",
        (FIRST_CLIP,),
    ),
    Case(
        "fewer ids than rows in an archive",
        "store import npz too-few.npz --array clip=X -o more",
        ("35", "36"),
    ),
    Case(
        "an archive of other clips than the manifest",
        "store import npz others.npz --array clip=X --manifest films -o more",
        ("x0", "films"),
    ),
)

TABLES = (
    Case(
        "a clip without a film",
        "manifest import csv tables/film-empty.csv -o more",
        ("movie_id", SECOND_CLIP, "3"),
    ),
    Case(
        "an unknown level",
        "manifest import csv tables/level-unknown.csv -o more",
        ("Maybe", "level"),
    ),
    Case(
        "an unknown concept",
        "manifest import csv tables/concept-unknown.csv -o more",
        ("Lok", "Look", "concepts"),
    ),
    Case(
        "a clip that ends before it begins",
        "manifest import csv tables/end-first.csv -o more",
        ("30", "20", "end_s"),
    ),
    Case(
        "a clip with a start and no end",
        "manifest import csv tables/end-missing.csv -o more",
        ("end_s", SECOND_CLIP),
    ),
    Case(
        "a negative time",
        "manifest import csv tables/time-negative.csv -o more",
        ("-3", "start_s"),
    ),
    Case(
        "a time that is a word",
        "manifest import csv tables/time-word.csv -o more",
        ("soon", "start_s"),
    ),
    Case(
        "a negative fold",
        "manifest import csv tables/fold-negative.csv -o more",
        ("-1", "fold:02_EN_S"),
    ),
    Case(
        "seconds and pictures that disagree",
        "manifest import csv tables/frames-disagree.csv -o more",
        ("start_s", "start_frame", "10"),
    ),
    Case(
        "a video outside of its folder",
        "manifest import csv tables/video-outside.csv -o more",
        ("../../secret.mp4",),
    ),
    Case(
        "a table to join without ids",
        "manifest join films joins/no-id.csv",
        ("clip_id", "shot"),
    ),
    Case(
        "a table to join of other clips",
        "manifest join films joins/unknown-clips.csv",
        ("nobody-1",),
    ),
    Case(
        "a column that is there already",
        "manifest join films joins/old-column.csv",
        ("mood",),
    ),
    Case(
        "a mapping with an unknown key",
        "manifest import csv films.csv --mapping mapping.toml -o more",
        ("colums", "columns"),
    ),
    Case("more folds than films", "manifest folds films -k 9", ("9", "6")),
)

FILMS_AND_TIMES = (
    Case(
        "a table to join with another film",
        "manifest join films joins/other-film.csv",
        (FIRST_CLIP, "tt9999999", "tt0108160"),
    ),
    Case(
        "a table to join with other times",
        "manifest join films joins/other-time.csv",
        (FIRST_CLIP, "77", "10"),
    ),
    Case(
        "stores to merge with other times",
        "store merge seen moved -o more",
        (FIRST_CLIP, "10", "11"),
    ),
    Case(
        "stores to merge with other films",
        "store merge seen refilmed -o more",
        (FIRST_CLIP, "tt0108160", "tt0110912"),
    ),
    Case(
        "stores to merge with other numbers",
        "store merge seen shifted -o more",
        (FIRST_CLIP, "36"),
    ),
    Case(
        "stores to join with other times",
        "store join other moved -o more",
        (FIRST_CLIP, "10", "11"),
    ),
    Case(
        "stores to join with other films",
        "store join other refilmed -o more",
        (FIRST_CLIP, "tt0108160", "tt0110912"),
    ),
    Case("a store of frames to join", "store join seen frames -o more", ("frames",)),
    Case(
        "manifests to merge with other times",
        "manifest merge films moved -o more",
        (FIRST_CLIP, "10", "11"),
    ),
    Case(
        "manifests to merge with other films",
        "manifest merge films refilmed -o more",
        (FIRST_CLIP, "tt0108160", "tt0110912"),
    ),
    Case(
        "a run on features of other times",
        f"{RUN} --manifest moved --store seen {SMALL}",
        (FIRST_CLIP, "10", "11", "36"),
    ),
    Case(
        "a run on features of other films",
        f"{RUN} --manifest refilmed --store seen {SMALL}",
        (FIRST_CLIP, "tt0108160", "tt0110912"),
    ),
    Case(
        "an own model on features of other times",
        f"train ridge seen moved -o more {ONE}",
        (FIRST_CLIP, "10", "11"),
    ),
    Case(
        "predictions of clips of other times",
        "models predict kept seen --manifest moved",
        (FIRST_CLIP, "10", "11"),
    ),
    Case(
        "predictions of clips of other films",
        "models predict kept seen --manifest refilmed",
        (FIRST_CLIP, "tt0108160", "tt0110912"),
    ),
    Case(
        "an export with labels of other times",
        "store export parquet seen out --with-labels moved",
        (FIRST_CLIP, "10", "11"),
    ),
    Case(
        "an export with labels of other films",
        "store export parquet seen out --with-labels refilmed",
        (FIRST_CLIP, "tt0108160", "tt0110912"),
    ),
    Case(
        "an extraction of clips without a video",
        "extract run films -b descriptors --workers 1",
        ("films",),
    ),
)

LEAKS = (
    Case(
        "films unseen where there is one film",
        f"train ridge seen one-film -o more {ONE}",
        ("1 film", "2"),
    ),
    Case(
        "a class that no clip has",
        f"train ridge seen only-sure -o more {ONE}",
        ("EN", "EN_S"),
    ),
    Case(
        "labels that no clip has",
        f"train ridge seen bare -o more {ONE}",
        ("EN_S", "level"),
    ),
    Case(
        "folds of which one trains what another tests",
        "run paper-table2-text --manifest films --store seen --set leakage=error --jobs 1",
        ("EN_S", "HN_S", "ENHN_S"),
    ),
    Case(
        "a film that is never tested and is not there",
        f"""{RUN} --manifest films --store seen {SMALL} --set 'splits.never=["tt1"]'""",
        ("tt1",),
    ),
    Case(
        "a fixed test that no clip is in",
        f"""{RUN} --manifest films --store seen {SMALL} --set splits.kind=fixed"""
        """ --set splits.column=director --set 'splits.test=["Hitchcock"]'""",
        ("Hitchcock", "director", "Ephron"),
    ),
    Case(
        "a fixed test of all clips",
        f"""{RUN} --manifest films --store seen {SMALL} --set splits.kind=fixed"""
        """ --set splits.column=director"""
        """ --set 'splits.test=["Ephron", "Tarantino", "Brooks"]'""",
        ("EN_S", "ridge", "seen"),
    ),
    Case(
        "groups that cut films",
        f"{RUN} --manifest films --store seen {SMALL} --set splits.column=mood",
        ("mood", "tt0108160", "calm", "tense"),
    ),
    Case(
        "groups that are not in the manifest",
        f"{RUN} --manifest films --store seen {SMALL} --set splits.column=genre",
        ("genre",),
    ),
    Case(
        "a choice among one store",
        f"{RUN} --manifest films --store seen {SMALL} --set fit.choose_store=true",
        ("choose_store", "seen"),
    ),
    Case(
        "a clip that is positive and negative",
        f"{RUN} --manifest films --store seen {SMALL} --task both"
        " --set 'tasks.both.positive=level == S' --set 'tasks.both.negative=rating >= 0'",
        ("15", "level == S", "rating >= 0"),
    ),
    Case(
        "a task of a column with one value",
        f"{RUN} --manifest only-sure --store seen {SMALL} --task level=S",
        ("level", "S"),
    ),
    Case(
        "a share of predictions that nobody marked",
        "audit share films --predictions other-scores.csv",
        ("films", "sample"),
    ),
    Case(
        "more films for a curve than there are",
        f"{RUN} --manifest films --store seen {SMALL} --set 'report.learning_films=[9]'",
        ("9", "5"),
    ),
)

RECIPES = (
    Case(
        "stores to merge of two recipes",
        "store merge seen other -o more",
        ("seen", "other"),
    ),
    Case(
        "stores to merge of two widths",
        "store merge seen narrow -o more",
        ("12", "5", "clip"),
    ),
    Case(
        "a model on features of another recipe",
        "models predict kept other",
        ("seen", "other", "kept"),
    ),
    Case(
        "a model on features of another width",
        "models predict kept narrow",
        ("12", "5"),
    ),
    Case(
        "an extraction into a store of another recipe",
        "extract run windows -b descriptors --store descriptors=other --workers 1",
        ("other", "descriptors"),
    ),
    Case(
        "a run on an array that is not there",
        f"{RUN} --manifest films --store frames {SMALL}",
        ("frames", "pooled", "clip"),
    ),
    Case(
        "segments from a store that has no windows",
        "run mobygaze-visual --manifest films --store seen --set data.segments=films --jobs 1",
        ("seen", "windows"),
    ),
    Case(
        "a text that no backbone of the store reads",
        "search seen --text 'a face'",
        ("seen", "backbone"),
    ),
)

HOSTILE = (
    Case(
        "an archive of objects",
        "store import npz objects.npz --array clip=X -o more",
        ("X", "object", "objects.npz"),
    ),
    Case(
        "a tensor file that is a pickle",
        "store import pth features -o more",
        ("a.pth",),
    ),
    Case(
        "an archive that is none",
        "store import npz garbage.npz -o more",
        ("garbage.npz",),
    ),
    Case(
        "an HDF5 file that is none",
        "store import hdf5 garbage.h5 -o more",
        ("garbage.h5",),
    ),
    Case(
        "a workbook that is none",
        "manifest import xlsx garbage.xlsx -o more",
        ("garbage.xlsx",),
    ),
    Case(
        "a table of control characters",
        "manifest import csv garbage.csv -o more",
        ("garbage.csv",),
    ),
    Case(
        "a workbook that unpacks to too much",
        "manifest import xlsx bomb.xlsx -o more",
        ("bomb.xlsx",),
    ),
    Case(
        "an ELAN file with entities",
        "manifest import segments laughs.eaf --fps 25 -o more",
        ("laughs.eaf",),
    ),
    Case(
        "a protocol that names own code",
        "run names-code.toml --manifest films --store seen --jobs 1",
        ("code.py:Own", "--trust"),
    ),
    Case(
        "a model in a file that is not there",
        "train mine.py:Mine seen films",
        ("mine.py",),
    ),
    Case(
        "a protocol with an unknown key",
        "run wrong-key.toml --manifest films --store seen",
        ("strength", "models.ridge"),
    ),
    Case(
        "a protocol that is no TOML",
        "run wrong-toml.toml --manifest films --store seen",
        ("wrong-toml.toml", "9", "8"),
    ),
    Case(
        "a store with a changed byte",
        "store verify damaged --hash",
        ("data.zarr/clip/c.0.0",),
    ),
    Case(
        "a run on a store with a changed byte",
        f"{RUN} --manifest films --store damaged {SMALL}",
        ("damaged", "clip"),
    ),
    Case(
        "a model with a changed byte",
        "models predict broken seen",
        ("broken", "model.safetensors"),
    ),
    Case(
        "a store with another seal than expected",
        f"store verify seen --expect {'0' * 64}",
        ("seen", "0000"),
    ),
    Case(
        "a server that is not there",
        "store info http://127.0.0.1:9/seen",
        ("127.0.0.1",),
    ),
)

ANNOTATORS = (
    Case(
        "clips without a way to cut them",
        "manifest agree marks.csv",
        ("--clips", "--every"),
    ),
    Case(
        "clips cut in two ways",
        "manifest agree marks.csv --every 2 --clips films.csv",
        ("--clips", "--every"),
    ),
    Case("agreement of one person", "manifest agree marks-one.csv --every 2", ("ada",)),
    Case(
        "marks of a person in two files",
        "manifest agree marks.csv marks-again.csv --every 2",
        ("ada", "alba", "marks-again.csv"),
    ),
    Case(
        "a mark with an unknown level",
        "manifest project marks-level.csv --every 2 -o out.csv",
        ("Maybe", "marks-level.csv"),
    ),
    Case(
        "a mark that ends before it begins",
        "manifest project marks-order.csv --every 2 -o out.csv",
        ("50", "20", "marks-order.csv"),
    ),
    Case(
        "a mark with a rate that is a word",
        "manifest project marks-rate.csv --every 2 -o out.csv",
        ("fast", "framerate"),
    ),
    Case(
        "a mark of nobody",
        "manifest agree marks-nobody.csv --every 2",
        ("annotator", "marks-nobody.csv"),
    ),
    Case(
        "a threshold above one",
        "manifest project marks.csv --every 2 --threshold 1.5 -o out.csv",
        ("1.5",),
    ),
    Case("one manifest to merge", "manifest merge films -o more", ("two",)),
    Case(
        "alphas of one person",
        "audit reliability ratings.csv --raters ada",
        ("ada", "two"),
    ),
    Case(
        "alphas of a person who is not there",
        "audit reliability ratings.csv --raters ada,eva",
        ("eva", "ada"),
    ),
    Case(
        "alphas of words and numbers",
        "audit reliability ratings.csv --raters ada,word1",
        ("word1", "ada"),
    ),
    Case(
        "a share of clips that were not drawn", "audit share films", ("films", "sample")
    ),
    Case(
        "a share by a column that is not there",
        "audit share drawn --by decade",
        ("decade",),
    ),
    Case(
        "a share of rows of two people",
        "audit share annotated",
        ("annotated", "annotator"),
    ),
    Case(
        "a draw of rows of two people",
        "manifest sample annotated -n 3 -o more",
        ("annotator", "annotated"),
    ),
    Case("a draw of no clip", "manifest sample films -n 0 -o more", ("-n", "0")),
)

PREDICTIONS = (
    Case(
        "predictions of other films for a share",
        "audit share drawn --predictions other-scores.csv",
        ("film99", "tt0108160"),
    ),
    Case(
        "predictions that are words",
        "manifest export vtt films --predictions words-as-scores.csv --fps 25 -o out",
        ("high", "score:S"),
    ),
    Case(
        "valence out of its range",
        "models predict --affect affect-range.csv --mediaeval out.txt --no-external-data",
        ("3", "valence"),
    ),
    Case(
        "arousal that is not there",
        "models predict --affect affect-columns.csv --mediaeval out.txt --no-external-data",
        ("arousal",),
    ),
    Case(
        "a run of MediaEval with a clip twice",
        "audit mediaeval --qrels judged.qrels --run twice.txt",
        ("A.mp4", "twice.txt"),
    ),
    Case(
        "a run of MediaEval with a short line",
        "audit mediaeval --qrels judged.qrels --run short-line.txt",
        ("short-line.txt", "1"),
    ),
    Case("a prediction without a model", "models predict", ("MODEL", "--affect")),
    Case(
        "predictions of a table without a model",
        "models predict nothing seen",
        ("nothing", "kept"),
    ),
    Case(
        "a file of predictions of another ending",
        "models predict kept seen -o out.txt",
        ("out.txt", ".csv"),
    ),
    Case(
        "a comparison of a run that is not there",
        "compare first secnd",
        ("secnd", "first"),
    ),
)

USAGE = (
    Case("no workspace", "-C nowhere manifest ls", ("nowhere",)),
    Case(
        "a store to send without a licence",
        "store push windows.descriptors elsewhere",
        ("licence", "--no-licence"),
    ),
    Case(
        "a store to fetch that is not there",
        "store pull nowhere/seen -o copy",
        ("nowhere/seen",),
    ),
    Case(
        "an export with another ending",
        "store export npz seen out.h5",
        ("out.h5", ".npz"),
    ),
    Case("an experiment without features", f"{RUN} --manifest films", ("--store",)),
    Case("an extraction without a backbone", "extract run films", ("-b",)),
    Case(
        "a page of a report with another ending",
        "report first -o page.pdf",
        ("page.pdf", ".html"),
    ),
    Case(
        "a withdrawal without a reason",
        "store subset seen --without tt0108160",
        ("--reason",),
    ),
    Case(
        "a number of processes that is none",
        "run honest --manifest films --store seen --jobs many",
        ("many", "--jobs"),
    ),
    Case(
        "a command that is misspelt",
        "manifest impotr csv films.csv",
        ("impotr", "import"),
    ),
)
