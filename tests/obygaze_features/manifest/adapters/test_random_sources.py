"""Files of data sets, drawn at random: what a plain reading has, the manifest has, or is refused.

Each file is written as programs write them (columns in any order, a byte order mark, CRLF, lines of
delimiters, Unicode, blanks around cells, rows twice, unknown words, missing cells) and read again
with the csv module alone.
"""

from __future__ import annotations

import ast
import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.seeds import amount

from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.file_names import single_line
from obygaze_features.manifest.adapters import (
    ImportedManifest,
    liris_accede,
    mobygaze,
    moviegraphs,
    obygaze12,
)
from obygaze_features.manifest.model import Clip
from obygaze_features.manifest.spelling import Spelling

N_DRAWN = amount(60, 1000)
Random = np.random.Generator
Rows = list[dict[str, str]]
LEVELS = {
    "Easy Neg": "EN",
    "Easy Negative": "EN",
    "Hard Neg": "HN",
    "Not Sure": "NS",
    "Sure": "S",
    "sure": "S",
}
CONCEPTS = {
    "Look": "Look",
    "Gaze": "Look",
    "Body": "Body",
    "Type of plan": "Type of shot",
    "Clothes": "Clothing",
    "Exp of emotion": "Expression of emotion",
    "Voice": "Voice",
}
FILMS = ["tt01", "tt02", "a_b", "Z-1", "10", "lake.2", "é", "名前", "a b", " tt01", ""]
WORDS = [
    "",
    "plain",
    " blank ",
    "ünï",
    "a;b",
    "a,b",
    'say "no"',
    "名前",
    "x\ty",
    "a | b",
]


def pick(random: Random, items: Any) -> Any:
    """Return one of the items."""
    return items[int(random.integers(len(items)))]


def rarely(random: Random, usual: str, odd: list[str], share: float = 0.01) -> str:
    """Return a cell, now and then an odd one."""
    return str(pick(random, odd)) if random.random() < share else usual


def as_bytes(random: Random, columns: list[str], rows: Rows, delimiter: str) -> bytes:
    """A table as a program writes it, its columns in any order."""
    order = [columns[i] for i in random.permutation(len(columns))]
    newline = pick(random, ["\n", "\r\n"])
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter=delimiter, lineterminator=newline)
    writer.writerow(order)
    for row in rows:
        writer.writerow([row[name] for name in order])
    mark = b"\xef\xbb\xbf" if random.random() < 0.3 else b""
    return mark + stream.getvalue().encode()


def plainly_read(data: bytes, delimiter: str) -> Rows:
    """The rows of a table that have a cell, by the csv module."""
    text = data.decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter))
    return [row for row in rows if any(row.values())]


def unequal(clip: Clip, expected: dict[str, Any]) -> list[str]:
    """The cells in which a clip is not what was expected."""
    found = []
    for name, value in expected.items():
        got = clip.extra[name] if name in clip.extra else getattr(clip, name)
        if name in clip.extra and name not in ("video_name", "comment"):
            value = Spelling().cell(single_line(value), name)
        if got != value:
            found.append(f"{name} is {got!r}, expected {value!r}")
    return found


def is_said(column: str, imported: ImportedManifest) -> bool:
    """Whether a warning names a column."""
    return any(repr(column) in warning for warning in imported.warnings)


def listed(random: Random, *, repeats: bool = False) -> str:
    """A list of concepts as Python writes it."""
    names = list(CONCEPTS)
    n = int(random.integers(0, 4))
    chosen = [names[i] for i in random.permutation(len(names))[:n]]
    if repeats and chosen and random.random() < 0.1:
        chosen.append(chosen[0])
    return repr(chosen) if chosen else pick(random, ["['']", "[]"])


def table_of_obygaze12(random: Random) -> tuple[list[str], Rows]:
    """The columns and rows of a table like the released one."""
    columns = ["idx", "util", "clip", "label", "overlap_ratio", "concepts", "id"]
    columns += ["movie", "srt_name", "video_name", "graph_number"]
    columns += ["remark"] if random.random() < 0.2 else []
    rows = []
    for number in range(int(random.integers(1, 10))):
        film = rarely(random, pick(random, FILMS[:6]), FILMS, 0.03)
        scene = f"{film}scene-{number:03d}.ss-0001.es-{random.integers(1, 9):04d}"
        row = {
            "idx": str(number),
            "util": pick(random, ["0", "1", ""]),
            "clip": rarely(random, scene, ["", "x", f" {scene}"]),
            "label": rarely(random, pick(random, list(LEVELS)), ["", "?", " sure "]),
            "overlap_ratio": rarely(random, pick(random, ["1.00", "0.85"]), ["2", ""]),
            "concepts": rarely(random, listed(random), ["", "['Nose']", "['a' 'b']"]),
            "id": rarely(random, f"{film}-{number:03d}", ["", "x"]),
            "movie": film,
            "srt_name": pick(random, WORDS),
            "video_name": rarely(
                random, pick(random, ["", "a b.avi", "é.avi"]), ["../x"]
            ),
            "graph_number": rarely(random, str(number - 1), ["", "1.5", "١"]),
            "remark": pick(random, WORDS),
        }
        rows.append(row)
        if random.random() < 0.02:
            rows.append(row)
        if random.random() < 0.1:
            rows.append(dict.fromkeys(row, ""))
    return columns, rows


def lost_by_obygaze12(random: Random, folder: Path) -> list[str]:
    columns, rows = table_of_obygaze12(random)
    data = as_bytes(random, columns, rows, ";")
    path = folder / "clips.csv"
    path.write_bytes(data)
    imported = obygaze12.read(path)
    plain = plainly_read(data, ";")
    if len(plain) != len(imported.manifest):
        return [f"{len(imported.manifest)} clips of {len(plain)} rows"]
    found = []
    for row, clip in zip(plain, imported.manifest, strict=True):
        film = row["movie"].strip()
        scene = row["clip"].strip().removeprefix(film + "scene-")
        words = [word for word in ast.literal_eval(row["concepts"]) if word]
        video = row["video_name"] and f"{film}/{row['video_name']}"
        expected: dict[str, Any] = {
            name: row[name] for name in ("clip", "util", "srt_name", "graph_number")
        }
        expected |= {
            "clip_id": row["id"].strip(),
            "movie_id": film,
            "scene": int(scene[:3]),
            "video": video,
            "level": LEVELS[row["label"].strip()],
            "concepts": tuple(CONCEPTS[word] for word in words),
            "overlap_ratio": row["overlap_ratio"],
            "first_shot": str(int(scene.split(".")[1].removeprefix("ss-"))),
            "last_shot": str(int(scene.split(".")[2].removeprefix("es-"))),
        }
        found += unequal(clip, expected)
    if "remark" in columns and not is_said("remark", imported):
        found.append("nothing says that the column remark is left out")
    return found


def lost_by_mobygaze(random: Random, folder: Path) -> list[str]:
    columns = ["clip_index", "annotator", "label", "concepts", "comment", "start_frame"]
    columns += ["end_frame", "imdb_key", "movie_title", "framerate"]
    columns += ["subtitle"] if random.random() < 0.5 else []
    columns += ["sure of it"] if random.random() < 0.2 else []
    rows = []
    for number in range(int(random.integers(1, 10))):
        first = int(random.integers(0, 5000))
        comments = [word for word in WORDS if word and random.random() < 0.15]
        drawn = {
            "clip_index": rarely(random, f"id_{number}", ["", "id_x", "id_0", "id_00"]),
            "annotator": rarely(random, pick(random, ["ada", "ben"]), ["", "a b"]),
            "label": rarely(random, pick(random, list(LEVELS)), ["", "?"]),
            "concepts": rarely(random, listed(random, repeats=True), ["", "[1]"]),
            "comment": repr(comments),
            "start_frame": rarely(random, str(first), ["", "-1", "1.0", "1e3"]),
            "end_frame": rarely(random, str(first + 9), ["", str(first - 1)]),
            "imdb_key": rarely(random, pick(random, FILMS[:6]), FILMS, 0.03),
            "movie_title": pick(random, WORDS),
            "framerate": rarely(random, pick(random, ["25", "24.0"]), ["", "0", "nan"]),
            "subtitle": pick(random, WORDS),
            "sure of it": pick(random, WORDS),
        }
        rows.append(drawn)
        if random.random() < 0.02:
            rows.append(drawn)
    data = as_bytes(random, columns, rows, ";")
    path = folder / "segments.csv"
    path.write_bytes(data)
    imported = mobygaze.read(path)
    plain = plainly_read(data, ";")
    if len(plain) != len(imported.manifest):
        return [f"{len(imported.manifest)} clips of {len(plain)} rows"]
    found = []
    for row, clip in zip(plain, imported.manifest, strict=True):
        words = [word for word in ast.literal_eval(row["concepts"]) if word]
        film = row["imdb_key"].strip()
        rate, index = float(row["framerate"]), int(row["clip_index"][3:])
        expected: dict[str, Any] = {
            name: row[name]
            for name in ("annotator", "start_frame", "end_frame", "movie_title")
        }
        expected |= {
            "clip_id": f"{film}-{row['annotator']}-{index:04d}",
            "movie_id": film,
            "level": LEVELS[row["label"].strip()],
            "concepts": tuple(dict.fromkeys(CONCEPTS[word] for word in words)),
            "comment": " | ".join(ast.literal_eval(row["comment"])),
            "start_s": int(row["start_frame"]) / rate,
            "end_s": (int(row["end_frame"]) + 1) / rate,
        }
        found += unequal(clip, expected)
    if "sure of it" in columns and not is_said("sure of it", imported):
        found.append("nothing says that the column 'sure of it' is left out")
    return found


def lost_by_liris(random: Random, folder: Path) -> list[str]:
    names = [f"ACCEDE{n:05d}" for n in range(int(random.integers(1, 8)))]
    films = ["Tom & I.mp4", "Tom_I.mp4", "Tom_I.avi", "Ночь.mp4", "День.mp4", "Mr. X"]
    films = [pick(random, films) for _ in range(3)]
    values: dict[str, dict[str, str]] = {name: {} for name in names}
    has_extension = random.random() < 0.5

    def write(
        file: str, columns: list[str], target: dict[str, str], forms: Any
    ) -> None:
        rows = []
        for number in random.permutation(len(names)):
            name = names[int(number)]
            shown = f"{name}.mp4" if has_extension else name
            row = {"id": str(number), "name": rarely(random, shown, ["", "a b"])}
            row |= {c: rarely(random, pick(random, forms), ["", "x"]) for c in columns}
            row["more"] = "1"
            if random.random() < 0.1:
                continue
            rows.append(row)
            values[name] |= {target[column]: row[column] for column in columns}
            if random.random() < 0.02:
                rows.append(row)
        own = ["id", "name", *columns]
        order = own if "violence" in target.values() else [own[i] for i in (1, 0, 2)]
        stream = io.StringIO(newline="")
        end = pick(random, ["\n", "\r\n"])
        csv.writer(stream, delimiter="\t", lineterminator=end).writerows(
            [order, *([row[c] for c in order] for row in rows)]
        )
        (folder / file).write_bytes(stream.getvalue().encode())

    write("ACCEDEsets.txt", ["set"], {"set": "set"}, ["0", "1", "2"])
    if random.random() < 0.5:
        classes = {"violent": "violence"}
        write("ACCEDEviolence.txt", ["violent"], classes, ["0", "1"])
    film_of = {}
    if random.random() < 0.7:
        media = []
        for number, name in enumerate(names):
            film_of[name] = pick(random, films)
            shown = film_of[name].replace("&", "&amp;")
            media.append(
                f"<media><id>{number}</id><name>{name}.mp4</name><movie> {shown}</movie>"
                f"<start>{number}</start><end>{number + 5}</end></media>"
            )
        text = "<library>" + "\n".join(media) + "</library>"
        (folder / "ACCEDEdescription.xml").write_text(text, encoding="utf-8")
    manifest = liris_accede.read(folder).manifest
    known = sorted(name for name in names if values[name] or name in film_of)
    if list(manifest.clip_ids) != known:
        return [f"clips {manifest.clip_ids}, expected {known}"]
    found = []
    for clip in manifest:
        found += unequal(clip, values[clip.clip_id])
    found += merged(
        [film_of.get(clip.clip_id, "") for clip in manifest], manifest.clips
    )
    return found


def merged(names: list[str], clips: Any) -> list[str]:
    """Films of other names that became one film, and films that became several."""
    pairs = {(name, clip.movie_id) for name, clip in zip(names, clips, strict=True)}
    if len(pairs) == len(set(names)) == len({film for _, film in pairs}):
        return []
    return [f"films became others: {sorted(pairs)}"]


def lost_by_moviegraphs(random: Random, folder: Path) -> list[str]:
    expected = {}
    newline = pick(random, ["\n", "\r\n", " \n"])
    mark = pick(random, ["", "", "\ufeff"])
    names = list(dict.fromkeys(pick(random, FILMS[:9]) for _ in range(3)))
    for name in names:
        n_frames = int(random.integers(20, 60))
        drawn = random.integers(1, n_frames, 3)
        cuts = sorted({int(frame) for frame in drawn})
        starts = [0, *cuts, n_frames]
        lines = []
        for number in range(int(random.integers(1, 5))):
            first = int(random.integers(1, len(cuts) + 2))
            last = int(random.integers(first, len(cuts) + 2))
            if random.random() < 0.1:
                lines.append("")
            lines.append(rarely(random, f"{first} {last} 1", ["1", "2 1 1", "1 99 1"]))
            span = str(starts[first - 1]), str(starts[last] - 1)
            expected[f"{name}-{number + 1:03d}"] = (name, *span)
        texts = {
            f"scene_boundaries/{name}.scenes.gt": lines,
            f"video_boundaries/{name}.videvents": [
                "HEADER",
                *(f"{cut} {cut / 25:.3f} CUT" for cut in cuts),
            ],
            f"video_boundaries/{name}.matidx": [
                f"{frame} {frame / 25:.3f}" for frame in range(n_frames)
            ],
        }
        for file, own in texts.items():
            (folder / file).parent.mkdir(exist_ok=True)
            text = mark + newline.join(own) + newline
            (folder / file).write_bytes(text.encode())
    left_out = "tt99" if random.random() < 0.2 else ""
    if left_out:
        (folder / f"video_boundaries/{left_out}.matidx").write_text("0 0.0\n1 0.04\n")
    imported = moviegraphs.read(folder)
    found = {
        clip.clip_id: (
            clip.movie_id,
            clip.extra["start_frame"],
            clip.extra["end_frame"],
        )
        for clip in imported.manifest
    }
    wrong = [] if found == expected else [f"{found}, expected {expected}"]
    if left_out and not any(left_out in text for text in imported.warnings):
        wrong.append("nothing says that a film without scenes is left out")
    return wrong


READERS: list[Callable[[Random, Path], list[str]]] = [
    lost_by_obygaze12,
    lost_by_mobygaze,
    lost_by_liris,
    lost_by_moviegraphs,
]


@pytest.mark.parametrize("lost", READERS, ids=lambda lost: lost.__name__)
def test_files_of_any_form_are_read_as_the_csv_module_reads_them_or_refused(
    tmp_path: Path, lost: Callable[[Random, Path], list[str]]
) -> None:
    found, n_read = {}, 0
    for seed in range(N_DRAWN):
        random = np.random.default_rng([43, seed])
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            wrong = lost(random, folder)
        except ObygazeError:
            continue
        n_read += 1
        if wrong:
            found[seed] = wrong[:3]
    assert found == {}
    assert n_read > N_DRAWN / 5
