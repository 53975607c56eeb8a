"""Tables of every form: what went in comes out, or there is an error with its line.

Rows are drawn with ids, numbers and words of every kind, and written as programs write tables:
with any separator, quotes, a byte order mark, CRLF, blank lines, decimal commas, columns in any
order.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.seeds import amount

from obygaze_features.core.errors import FixInput
from obygaze_features.core.file_names import composed
from obygaze_features.manifest.adapters import csv_table
from obygaze_features.manifest.expression import plain_value
from obygaze_features.manifest.io import read_manifest, write_manifest
from obygaze_features.manifest.model import Clip, Manifest

N_TABLES = amount(100, 5000)
FOUND = [364]  # seeds that found something once
Random = np.random.Generator
FILMS = ["tt0000001", "tt0000001 "]
FILMS += ["Зеркало 1979", "Сталкер 1979", "a b", "a_b", "10", "9", "NULL"]
FILMS += [
    "é",
    "e\u0301",
    "=1+1",
    "-x",
    "lake;x",
    "lake,x",
    'say "no"',
    "名前",
    "1e5",
    "true",
    "a|b",
]
NAMES = [
    "{}",
    "{}-{:03d}",
    "clip {1}",
    "{1}",
    "{}/{}.mp4",
    "é{1}",
    "#{1}",
    "'{1}",
    "{}:{}",
    "№{1}",
]
LEVELS = ["EN", "HN", "NS", "S", "", "Easy Neg", "sure", " S "]
CONCEPTS = [
    "",
    "",
    "Look",
    "Body",
    "Look|Body",
    "Gaze",
    " Look | Body ",
    "Type of shot",
]
REMARKS = [
    "",
    "ok",
    "a,b",
    "a;b",
    'he said "x"',
    "two\nlines",
    " blank ",
    "0012",
    "1,5",
    "ünï",
    "\t",
]
ANNOTATORS = ["ada", "Ça", "ben k", "Ян"]


def pick(random: Random, items: Any) -> Any:
    """Return one of the items."""
    return items[int(random.integers(len(items)))]


def draw_rows(random: Random) -> tuple[list[str], list[dict[str, str]]]:
    """Draw the columns and the rows of a table, as a person means them."""
    n_rows = int(random.integers(1, 12))
    films = [pick(random, FILMS) for _ in range(int(random.integers(1, 4)))]
    form = pick(random, NAMES)
    columns = ["clip_id", "movie_id", *(["level"] if random.random() < 0.8 else [])]
    columns += [
        name for name in ("concepts", "remark", "my col") if random.random() < 0.5
    ]
    columns += ["start_s", "end_s"] if random.random() < 0.6 else []
    has_annotators = random.random() < 0.3
    columns += ["annotator", "row"] if has_annotators else []
    rows = []
    starts: dict[int, float] = {}
    for number in range(n_rows):
        film = pick(random, films)
        start = round(
            float(random.integers(0, 9000)) / pick(random, [1, 2, 10, 1000]), 3
        )
        if has_annotators:
            # Rows of one clip have its times.
            start = starts.setdefault(number // 2, start)
        drawn = {
            "row": f"{number}",
            "clip_id": form.format(film, number // 2 if has_annotators else number),
            "movie_id": film,
            "level": pick(random, LEVELS),
            "concepts": pick(random, CONCEPTS),
            "remark": pick(random, REMARKS),
            "my col": pick(random, REMARKS),
            "start_s": repr(start),
            "end_s": repr(start + 2.5),
            "annotator": ANNOTATORS[number % 2 + 2 * int(random.random() < 0.1)],
        }
        if random.random() < 0.02:
            drawn[pick(random, columns)] = pick(random, ["", "?", "x" * 300, "nan"])
        rows.append({name: drawn[name] for name in columns})
    return columns, rows


def as_table(random: Random, columns: list[str], rows: list[dict[str, str]]) -> bytes:
    """Write rows as some program does."""
    delimiter = pick(random, [",", ",", ";", "\t", "|"])
    newline = pick(random, ["\n", "\r\n"])
    order = [columns[i] for i in random.permutation(len(columns))]
    stream = io.StringIO(newline="")
    quoting = pick(random, [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    writer = csv.writer(
        stream, delimiter=delimiter, lineterminator=newline, quoting=quoting
    )
    numbers_rows = random.random() < 0.15
    writer.writerow([*([""] if numbers_rows else []), *order])
    has_blanks, decimal_comma = (
        random.random() < 0.2,
        delimiter != "," and random.random() < 0.5,
    )
    for number, row in enumerate(rows):
        cells = []
        for name in order:
            is_time = name in ("start_s", "end_s")
            cells.append(
                row[name].replace(".", ",") if is_time and decimal_comma else row[name]
            )
        writer.writerow([*([number] if numbers_rows else []), *cells])
        if has_blanks and random.random() < 0.3:
            stream.write(
                pick(
                    random,
                    [newline, delimiter * (len(cells) + numbers_rows - 1) + newline],
                )
            )
    text = stream.getvalue()
    mark = b"\xef\xbb\xbf" if random.random() < 0.3 else b""
    return mark + text.encode()


def same_classes(first: list[str], second: list[str]) -> bool:
    """Whether two lists put the same rows together."""
    pairs = set(zip(first, second, strict=True))
    return len(pairs) == len(set(first)) == len(set(second))


def rows_of(manifest: Manifest) -> list[Clip]:
    """Return what was said of clips, in the order of the rows of their table."""
    if not manifest.annotations:
        return list(manifest)
    rows = []
    for one in manifest.annotations:
        clip = manifest.of_annotator(one.annotator)[one.clip_id]
        extra = {**clip.extra, "annotator": one.annotator}
        rows.append(replace(clip, extra=extra))
    return sorted(rows, key=lambda row: int(row.extra["row"]))


def lost(rows: list[dict[str, str]], manifest: Manifest) -> list[str]:
    """Everything in which a manifest differs from the rows of its table."""
    found = []
    said = rows_of(manifest)
    if len(said) != len(rows):
        return [f"{len(said)} clips of {len(rows)} rows"]
    for row, clip in zip(rows, said, strict=True):
        film = composed(row["movie_id"].strip())
        name_of_clip = row["clip_id"].strip()
        title = composed(clip.extra.get("movie_title", ""))
        expected: dict[str, Any] = {"movie_id": film}
        got: dict[str, Any] = {"movie_id": title or clip.movie_id}
        if re.fullmatch(r"\w[\w.+-]*", name_of_clip, re.ASCII):
            expected["clip_id"] = name_of_clip
            got["clip_id"] = clip.clip_id
        for name in ("remark", "my col", "annotator"):
            if name in row:
                # A column of numbers with decimal commas has points.
                cells = [row[name], clip.extra[name]]
                expected[name], got[name] = (
                    plain_value(re.sub(r"^(\d+),(\d+)$", r"\1.\2", cell), name)
                    for cell in cells
                )
        if "start_s" in row:
            expected["start_s"], got["start_s"] = float(row["start_s"]), clip.start_s
            expected["end_s"], got["end_s"] = float(row["end_s"]), clip.end_s
        if "level" in row:
            words = {"Easy Neg": "EN", "sure": "S"}
            expected["level"] = words.get(row["level"], row["level"].strip())
            got["level"] = clip.level
        if "concepts" in row:
            parts = [
                part.strip() for part in row["concepts"].split("|") if part.strip()
            ]
            expected["concepts"] = [
                "Look" if part == "Gaze" else part for part in parts
            ]
            got["concepts"] = list(clip.concepts)
        found += [
            f"{n}: {got[n]!r} of {expected[n]!r}"
            for n in expected
            if got[n] != expected[n]
        ]
    # A film is one film however its accents were typed.
    films = [composed(row["movie_id"].strip()) for row in rows]
    if not same_classes(films, [clip.movie_id for clip in said]):
        found.append(f"films {films} became {[clip.movie_id for clip in said]}")
    clips = []
    for film, row in zip(films, rows, strict=True):
        clips.append(f"{film}\0{composed(row['clip_id'].strip())}")
    units = [f"{clip.movie_id}\0{clip.clip_id}" for clip in said]
    if not same_classes(clips, units):
        found.append(f"clips {clips} became {units}")
    return found


def test_a_table_of_any_form_is_read_as_it_is_meant_or_refused_with_the_line(
    tmp_path: Path,
) -> None:
    found, n_read = {}, 0
    for seed in [*range(N_TABLES), *FOUND]:
        random = np.random.default_rng([42, seed])
        columns, rows = draw_rows(random)
        data = as_table(random, columns, rows)
        path = tmp_path / f"t{seed}.csv"
        path.write_bytes(data)
        try:
            imported = csv_table.read(path, name=f"m{seed}", rule="agreed").manifest
            write_manifest(imported, tmp_path / f"m{seed}.toml")
        except FixInput as error:
            lines = [line for line in error.details if re.search(r"\.csv:\d+: ", line)]
            if not lines or len(lines) != len(error.details):
                found[seed] = [f"refused without a line: {error} {error.details}"]
            continue
        n_read += 1
        wrong = lost(rows, read_manifest(tmp_path / f"m{seed}.toml"))
        if wrong:
            found[seed] = [*wrong[:3], data.decode()[:300]]
    assert found == {}
    assert n_read > N_TABLES / 3


def test_clips_whose_names_become_one_id_are_not_one_clip_of_two_annotators(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("clip_id,movie_id,annotator\na 1,m,ada\na_1,m,ben\n")
    with pytest.raises(FixInput) as raised:
        csv_table.read(path)
    assert raised.value.details == (
        f"{path}:3: column 'clip_id': 'a 1' and 'a_1' both become 'a_1'; rename one",
    )
