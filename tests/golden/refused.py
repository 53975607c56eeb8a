"""What is refused: commands that must not be done, and the values that the sentence must name.

The cases are in refused.toml: what is wrong, the command, and the values that could be named.
Recorded are the exit code, those of the values that the sentence names, and what the command left
behind.
"""

import io
import os
import pickle
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from support.film import rows_of_segments

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

CASES = Path(__file__).with_name("refused.toml")


def record_refused(place: Place) -> dict[str, Table]:
    make_world(place)
    cases = tomllib.loads(CASES.read_text(encoding="utf-8"))
    rows: list[Row] = []
    after = files_of(place.folder)
    for kind, of_kind in cases.items():
        for what, line, values in of_kind:
            before = after
            answer = place.typed(line)
            text = " ".join(answer.err.split())
            after = files_of(place.folder)
            changed = {name for name, _ in before.items() ^ after.items()}
            row = {
                "kind": kind,
                "what": what,
                "exit code": answer.code,
                "names": ", ".join(value for value in values if value in text),
                "could name": ", ".join(values),
                "left behind": ", ".join(sorted(changed)),
            }
            rows.append(row)
    return {"refused": rows}


def files_of(folder: Path) -> dict[str, tuple[int, int]]:
    found = {}
    for parent, folders, files in os.walk(folder):
        if "__pycache__" in folders:
            folders.remove("__pycache__")
        inside = Path(parent).relative_to(folder).as_posix()
        for name in folders:
            found[f"{inside}/{name}".removeprefix("./")] = (0, 0)
        for name in files:
            facts = Path(parent, name).stat()
            size_and_time = (facts.st_size, facts.st_mtime_ns)
            found[f"{inside}/{name}".removeprefix("./")] = size_and_time
    return found


# ---- the workspace -------------------------------------------------------------------------------


def timed_clips() -> list[Row]:
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
    place.write("small.toml", PROTOCOL)
    run_protocol(place, "small.toml", "films", {"seen": "seen"}, output="first")
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
    people = worlds.coded_clips()
    import_clips(place, people, "coded", "majority")
    for name, person in {"coded-paris": "ada", "coded-nice": "ben"}.items():
        table = [row for row in people if row["annotator"] == person]
        without = [{k: v for k, v in row.items() if k != "annotator"} for row in table]
        import_clips(place, without, name)


def make_tables(place: Place, rows: Sequence[Row]) -> None:
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
        place.write_table(f"tables/{name}.csv", filled)
    people = worlds.coded_clips()[:2]
    ada, ben = people
    coders = {
        "time": [ada, {**ben, "start_s": 11}],
        "film": [ada, {**ben, "movie_id": "alba"}],
        "nobody": [ada, {**ben, "annotator": ""}],
        "twice": [ada, {**ben, "annotator": "Ada"}],
        "no-names": [
            {k: v for k, v in row.items() if k != "annotator"} for row in people
        ],
    }
    for name, table in coders.items():
        place.write_table(f"coders/{name}.csv", table)
    place.write_table("coders/beside.csv", [ada])
    said = {"clip_id": "nobody-1", "annotator": "ada", "level": "S", "concepts": ""}
    place.write_table("coders/beside.annotators.csv", [said])
    columns = {k: v for k, v in ada.items() if k not in ("annotator", "level")}
    place.write_table("coders/columns.csv", [{**columns, "Ada": "S", "Ben": "Maybe"}])
    ids = [row["clip_id"] for row in rows]
    joined = {
        "unknown-clips": [{"clip_id": "nobody-1", "word": "x"}],
        "other-film": [{"clip_id": ids[0], "movie_id": "tt9999999", "word": "x"}],
        "other-time": [{"clip_id": ids[0], "start_s": 77, "end_s": 78, "word": "x"}],
        "old-column": [{"clip_id": ids[0], "mood": "calm"}],
        "no-id": [{"shot": ids[0], "word": "x"}],
    }
    for name, table in joined.items():
        place.write_table(f"joins/{name}.csv", table)
    marks = [
        worlds.mark("alba", "ada", 0, 99, "S", "Look"),
        worlds.mark("alba", "ben", 0, 149, "HN", "Body"),
    ]
    place.write_table("marks.csv", rows_of_segments(marks))
    wrong_marks = {
        "level": {"level": "Maybe"},
        "order": {"start_frame": 50, "end_frame": 20},
        "rate": {"framerate": "fast"},
        "nobody": {"annotator": ""},
    }
    for name, change in wrong_marks.items():
        wrong = rows_of_segments([marks[1], {**marks[0], **change}])
        place.write_table(f"marks-{name}.csv", wrong)
    place.write_table("marks-again.csv", rows_of_segments(marks[:1]))
    place.write_table("ratings.csv", worlds.ratings())
    place.write_table(
        "affect-range.csv", [{"clip_id": "x", "valence": 3, "arousal": 0}]
    )
    place.write_table("affect-columns.csv", [{"clip_id": "x", "valence": 0.5}])
    scores = [{**row, "clip_id": f"film99-{k}"} for k, row in enumerate(SCORES)]
    place.write_table("other-scores.csv", scores)
    words = []
    for row in rows:
        ids_of_row = {"clip_id": row["clip_id"], "movie_id": row["movie_id"]}
        words.append({**ids_of_row, "basis": "unseen", "score:S": "high"})
    place.write_table("words-as-scores.csv", words)
    place("manifest sample films -n 12 -o drawn")
    for name, lines in RUN_FILES.items():
        place.write(f"{name}.txt", "\n".join(lines) + "\n")
    place.write("judged.qrels", "violence 0 A.mp4 1\nviolence 0 B.mp4 0\n")


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
[report]
primary = "ap"
replicates = 20
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
    place.write(
        "laughs.eaf",
        f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e0 "ha">{entities}]>'
        "<ANNOTATION_DOCUMENT>&e9;</ANNOTATION_DOCUMENT>",
    )
    place.write("code.py", "def Own(*_, **__):\n    raise SystemExit('ran')\n")
    place.write(
        "names-code.toml", PROTOCOL.replace('kind = "ridge"', 'kind = "code.py:Own"')
    )
    place.write("wrong-key.toml", PROTOCOL + "strength = 3\n")
    place.write("wrong-toml.toml", PROTOCOL + "[splits\n")


def damage(place: Place) -> None:
    place("store pull stores/seen -o damaged")
    place("models pull models/kept -o broken")
    for file in (
        "stores/damaged/clip/c.0.0",
        "models/broken/model.safetensors",
    ):
        path = place.folder / file
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.chmod(0o644)
        path.write_bytes(data)
