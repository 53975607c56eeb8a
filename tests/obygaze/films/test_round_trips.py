"""Marks of films at random go to ELAN and WebVTT and come back; names of annotators are traps."""

from __future__ import annotations

import csv
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest
from support.elan_rules import problems_of

from obygaze.films.exchange import export_segments, import_segments
from obygaze.films.mark_tables import SEGMENT_COLUMNS, WATCHED
from obygaze_features.manifest.model import Manifest

RATES = ("24000/1001", "24", "25", "30000/1001", "30", "50", "60000/1001", "12")
# Names of other tiers, of what was watched, and of lanes are only names.
ANNOTATORS = (
    *("ada", "ada concepts", "ada watched", "ada #2", "ada comments", "watched"),
    *("ben <b>", "Zoé & co", "S"),
)
CONCEPTS = ("Body", "Look", "Clothing", "our own & odd", "one, two; three")
COMMENTS = ("", "", "S", "not sure", "watched", "Look", 'a < b & "c" --> d')
Mark = tuple[str, str, int, int, str, tuple[str, ...], str]


def marks_of_film(draw: Random, film: str) -> list[Mark]:
    """Return marks that may overlap, and what was watched."""
    marks: list[Mark] = []
    for annotator in draw.sample(ANNOTATORS, draw.randint(1, 4)):
        for _ in range(draw.randint(1, 12)):
            first = draw.randrange(200_000)
            last = first + draw.choice((0, 1, 5, 300))
            level = draw.choice(("EN", "HN", "NS", "S"))
            concepts = tuple(draw.sample(CONCEPTS, draw.randint(0, 3)))
            comment = draw.choice(COMMENTS)
            marks.append((film, annotator, first, last, level, concepts, comment))
        if draw.random() < 0.5:
            marks.append((film, annotator, 0, draw.randrange(9_000), WATCHED, (), ""))
    return list({mark[:5]: mark for mark in marks}.values())


def write_marks(path: Path, marks: list[Mark], rate: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream)
        table.writerow((*SEGMENT_COLUMNS, "framerate", "comment"))
        for *facts, concepts, comment in marks:
            table.writerow([*facts, "|".join(concepts), rate, comment])


def marks_of_manifest(manifest: Manifest) -> list[Mark]:
    marks = []
    for clip in manifest:
        more = clip.extra
        frames = (int(more["start_frame"]), int(more["end_frame"]))
        level, comment = clip.level, more["comment"]
        if comment == WATCHED and not level:
            level, comment = WATCHED, ""
        facts = (clip.movie_id, more["annotator"], *frames)
        marks.append((*facts, level, clip.concepts, comment))
    return sorted(marks)


def check_round_trips(folder: Path, seed: int) -> None:
    draw = Random(seed)
    film = f"film-{seed}"
    rate = draw.choice(RATES)
    marks = marks_of_film(draw, film)
    table = folder / "marks.csv"
    write_marks(table, marks, rate)
    rate_value = float(Fraction(rate))
    (elan,) = export_segments("elan", table, folder=folder, force=True).files
    assert problems_of(elan.read_bytes()) == []
    again = import_segments([elan], "again", rate_value).manifest
    assert marks_of_manifest(again) == sorted(marks), seed
    (vtt,) = export_segments("vtt", table, folder=folder, force=True).files
    again = import_segments([vtt], "again", rate_value).manifest
    not_watched = sorted(mark for mark in marks if mark[4] != WATCHED)
    assert marks_of_manifest(again) == not_watched, seed


@pytest.mark.parametrize("seed", range(12))
def test_marks_come_back(seed: int, tmp_path: Path) -> None:
    check_round_trips(tmp_path, seed)


@pytest.mark.check("many films")
def test_60_films_come_back(tmp_path: Path) -> None:
    for seed in range(100, 160):
        check_round_trips(tmp_path, seed)
