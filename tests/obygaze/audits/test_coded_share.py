"""The share of coded films, against counts of every millisecond and of every clip."""

import csv
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.film import write_marks
from support.seeds import amount

from obygaze.audits import audit_share
from obygaze.audits.result import Audit
from obygaze.films.formats import import_manifest
from obygaze.films.labels import project_marks
from obygaze.films.marks import Mark
from obygaze_features.core.errors import FixInput, FixUsage

FILMS = ("alba", "brug", "cirk", "dune", "echo", "fado")
CODERS = ("anna", "ben")
LEVELS = ("EN", "HN", "NS", "S")
Bools = NDArray[np.bool_]
LENGTH_MS = 30_000


def draw_marks(draw: Random) -> list[Mark]:
    """Draw marks of six films, which overlap; some films have marks of what was watched."""
    marks = []
    for film in FILMS:
        # The last mark of each film ends with it.
        marks.append(Mark(film, 29.0, 30.0, "level", "EN", "anna"))
        for coder in CODERS:
            for _ in range(draw.randrange(3, 9)):
                start_ms = draw.randrange(0, LENGTH_MS - 1)
                end_ms = min(start_ms + draw.randrange(1, 6000), LENGTH_MS)
                times_s = start_ms / 1000, end_ms / 1000
                level = draw.choice([*LEVELS, "?"])
                marks.append(Mark(film, *times_s, "level", level, coder))
                n_concepts = draw.randrange(3) if level != "?" else 0
                for concept in draw.sample(["Look", "Body"], n_concepts):
                    marks.append(Mark(film, *times_s, "concepts", concept, coder))
                if draw.random() < 0.5:
                    mood = draw.choice(["sad", "glad", "none", "?"])
                    marks.append(Mark(film, *times_s, "mood", mood, coder))
            if draw.random() < 0.4:
                seen_ms = draw.randrange(1000, LENGTH_MS)
                word = draw.choice(["watched", "level", "mood"])
                marks.append(Mark(film, 0.0, seen_ms / 1000, "watched", word, coder))
    return marks


def milliseconds(mark: Mark) -> Bools:
    """Return for each millisecond of a film whether it is in a mark."""
    is_inside = np.zeros(LENGTH_MS, dtype=bool)
    is_inside[round(1000 * mark.start_s) : round(1000 * mark.end_s)] = True
    return is_inside


def judged(marks: list[Mark], column: str, word: str) -> tuple[Bools, Bools]:
    """Return for each millisecond whether one coder judged it, and whether it has the word."""
    none = np.zeros(LENGTH_MS, dtype=bool)
    asked = "level" if column == "concepts" else column
    own = [mark for mark in marks if mark.column != "watched"]
    watched = [
        m for m in marks if m.column == "watched" and m.value in ("watched", asked)
    ]
    if watched:
        seen = np.any([none, *map(milliseconds, [*watched, *own])], axis=0)
    else:
        seen = none | any(mark.column == asked for mark in own)
    of_column = [mark for mark in own if mark.column == asked]
    spans = {mark: milliseconds(mark) for mark in of_column}
    known = np.any([none, *(spans[m] for m in of_column if m.value != "?")], axis=0)
    unknown = np.any([none, *(spans[m] for m in of_column if m.value == "?")], axis=0)
    if asked == "mood":
        words = [m for m in of_column if m.value not in ("?", "none")]
        known = np.any([none, *(spans[m] for m in words)], axis=0)
    is_judged = known | (seen & ~unknown)
    holds = none
    if column == "mood":
        holds = np.any(
            [none, *(spans[m] for m in of_column if m.value == word)], axis=0
        )
        return is_judged, holds
    highest = np.full(LENGTH_MS, -1)
    for mark in of_column:
        if mark.value != "?":
            place = LEVELS.index(mark.value)
            highest = np.where(spans[mark], np.maximum(highest, place), highest)
    if column == "level":
        return is_judged, highest == LEVELS.index(word)
    for mark in own:
        if (mark.column, mark.value) == ("concepts", word):
            same = [m for m in of_column if m[1:3] == mark[1:3] and m.value != "?"]
            for level in same:
                is_level = highest == LEVELS.index(level.value)
                holds = holds | (spans[level] & is_level)
    return is_judged, holds


@pytest.mark.parametrize("seed", range(amount(4, 40)))
def test_the_share_of_marks_is_that_of_every_millisecond(tmp_path, seed) -> None:
    marks = draw_marks(Random(seed))
    write_marks(tmp_path / "coded.csv", marks)
    for column, word, of in (
        ("level", "S", "level == S"),
        ("concepts", "Look", "Look in concept"),
        ("mood", "sad", "mood == sad"),
    ):
        found = audit_share(tmp_path / "coded.csv", of=of, workspace=tmp_path)
        counted: dict[tuple[str, str], list[int]] = {}
        for film in FILMS:
            of_coders = {}
            for coder in CODERS:
                own = [m for m in marks if (m.movie_id, m.annotator) == (film, coder)]
                of_coders[coder] = np.array(judged(own, column, word))
            both = np.any([*of_coders.values()], axis=0)
            for coder, milliseconds_of in {**of_coders, "all coders": both}.items():
                n_judged, n_with = milliseconds_of.sum(axis=1).tolist()
                for name in (film, "all films"):
                    counts = counted.setdefault((name, coder), [0, 0])
                    counts[0] += n_judged
                    counts[1] += n_with
        rows = {(row["film"], row["coder"]): row for row in found["rows"]}
        assert rows.keys() == {key for key, counts in counted.items() if counts[0]}
        for key, row in rows.items():
            n_judged, n_with = counted[key]
            assert row["coded_s"] == pytest.approx(n_judged / 1000, abs=1e-9)
            share = n_with / n_judged
            assert row["share_of_time"] == pytest.approx(share, abs=1e-9), key


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(amount(2, 20)))
def test_the_share_of_labels_is_that_of_the_rows_of_the_tables(tmp_path, seed) -> None:
    write_marks(tmp_path / "coded.csv", draw_marks(Random(seed)))
    project_marks(tmp_path / "coded.csv", "labels", every=2, workspace=tmp_path)
    found = audit_share("labels", workspace=tmp_path)
    clips = {r["clip_id"]: r for r in read_rows(tmp_path / "manifests/labels.csv")}
    said = [("all coders", row) for row in clips.values()]
    for row in read_rows(tmp_path / "manifests/labels.annotators.csv"):
        said.append(
            (row["annotator"], {**clips[row["clip_id"]], "level": row["level"]})
        )
    expected: dict[tuple[str, str], list[float]] = {}
    for coder, row in said:
        length_s = float(row["end_s"]) - float(row["start_s"])
        for film in (row["movie_id"], "all films"):
            counts = expected.setdefault((film, coder), [0, 0, 0.0, 0.0])
            if row["level"]:
                is_sure = row["level"] == "S"
                counts[0] += is_sure
                counts[1] += 1
                counts[2] += is_sure * length_s
                counts[3] += length_s
    rows = {(row["film"], row["coder"]): row for row in found["rows"]}
    assert rows.keys() == {key for key, counts in expected.items() if counts[1]}
    for key, row in rows.items():
        n_with, n_clips, with_s, coded_s = expected[key]
        assert (row["n_with"], row["n_clips"]) == (n_with, n_clips)
        assert row["share_of_clips"] == pytest.approx(n_with / n_clips, abs=1e-9)
        assert row["share_of_time"] == pytest.approx(with_s / coded_s, abs=1e-9)


def share_of_table(folder: Path, rows: list[str], **more: Any) -> Audit:
    lines = ["clip_id,movie_id,start_s,end_s,level,decade", *rows]
    (folder / "films.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    import_manifest(folder / "films.csv", workspace=folder, force=True)
    return audit_share("films", workspace=folder, **more)


def test_seconds_of_several_clips_count_once(tmp_path: Path) -> None:
    rows = ["a,m,0,4,S,1980", "b,m,2,6,S,1980", "c,m,4,8,EN,1980", "d,m,8,10,,1980"]
    found = share_of_table(tmp_path, rows)
    (row, _) = found["rows"]
    assert (row["coder"], row["n_with"], row["n_clips"]) == ("all coders", 2, 3)
    assert (row["with_s"], row["coded_s"], row["film_s"]) == (6, 8, 10)
    assert "1 clip without a label do not count" in " ".join(found.limits)


def test_rows_of_several_people_are_counted_for_each(tmp_path: Path) -> None:
    """Each row is a span with the word of one person; the rows of all cover the film."""
    lines = ["clip_id,movie_id,start_s,end_s,annotator,mood"]
    lines += ["a,m,0,6,ada,sad", "b,m,6,10,ada,glad", "c,m,0,2,ben,glad"]
    lines += ["d,m,2,8,ben,sad", "e,m,8,10,ben,"]
    (tmp_path / "films.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    import_manifest(tmp_path / "films.csv", workspace=tmp_path)
    found = audit_share("films", of="mood == sad", workspace=tmp_path)
    rows = {r["coder"]: r for r in found["rows"] if r["film"] == "m"}
    assert {name: (row["with_s"], row["coded_s"]) for name, row in rows.items()} == {
        "ada": (6, 10),
        "ben": (6, 8),
        "all coders": (8, 10),
    }
    assert "in the clip of one of the coders" in " ".join(found.limits)


def test_groups_of_films_are_compared_by_the_numbers_of_the_table(tmp_path) -> None:
    rows = []
    for film, level_at in enumerate(["SS..", "SSS.", "S...", "....", "S...", "...."]):
        for clip, level in enumerate(level_at):
            word = "S" if level == "S" else "EN"
            times = f"{2 * clip},{2 * clip + 2}"
            rows.append(
                f"f{film}-{clip},f{film},{times},{word},{1980 + 30 * (film > 2)}"
            )
    found = share_of_table(tmp_path, rows, by="decade")
    shares = {row["film"]: row["share_of_time"] for row in found["rows"]}
    assert (shares["1980"], shares["2010"]) == pytest.approx((6 / 12, 1 / 12))
    (pair,) = found["differences"]
    assert pair["difference"] == pytest.approx(shares["1980"] - shares["2010"])
    # Of the 20 ways to choose three films, (3, 2, 1) and (0, 1, 0) differ most, and two ways so.
    ways = [sum(one) for one in combinations([2, 3, 1, 0, 1, 0], 3)]
    n_extreme = sum(abs(2 * way - 7) >= abs(2 * 6 - 7) for way in ways)
    assert pair["p"] == pytest.approx(n_extreme / len(ways))


def test_clips_that_do_not_cover_their_films_are_refused(tmp_path: Path) -> None:
    rows = ["a,m,0,2,S,1980", "b,m,5,6,S,1980"]
    with pytest.raises(
        FixInput, match=r"parts of a film .*: 'm \(50 % covered\)'"
    ) as refused:
        share_of_table(tmp_path, rows)
    assert "marks clips films --every 10" in str(refused.value.hint)
    with pytest.raises(FixInput, match="no times in the film for the clips"):
        share_of_table(tmp_path, ["a,m,,,S,1980", "b,m,,,EN,1980"])
    with pytest.raises(FixInput, match="no clip of films has a label for") as refused:
        share_of_table(tmp_path, ["a,m,0,2,,1980", "b,m,2,4,,1980"])
    assert "pass --of 'COLUMN == WORD'" in str(refused.value.hint)


def test_marks_of_another_column_lead_to_the_option_that_names_it(tmp_path) -> None:
    write_marks(tmp_path / "coded.csv", [Mark("m", 0.0, 9.0, "mood", "sad", "anna")])
    with pytest.raises(
        FixInput, match="no part of a film whether level == S"
    ) as refused:
        audit_share(tmp_path / "coded.csv", workspace=tmp_path)
    assert "pass --of 'COLUMN == WORD'" in str(refused.value.hint)


def test_marks_have_no_columns_of_films(tmp_path: Path) -> None:
    write_marks(tmp_path / "coded.csv", draw_marks(Random(0)))
    with pytest.raises(FixUsage, match="--by is for a manifest, got a table of marks"):
        audit_share(tmp_path / "coded.csv", by="decade", workspace=tmp_path)


def test_marks_outside_what_was_watched_count_in_shares_and_labels_and_are_named(
    tmp_path: Path,
) -> None:
    marks = [
        Mark("x", 0.0, 10.0, "watched", "watched", "An"),
        Mark("x", 0.0, 2.0, "stare", "yes", "An"),
        Mark("x", 12.0, 18.0, "stare", "yes", "An"),
        # `?` is no label, so these 2 s do not count.
        Mark("x", 18.0, 20.0, "stare", "?", "An"),
    ]
    write_marks(tmp_path / "m.csv", marks)
    line = "marks outside the marks in watched count as watched too: An in x (stare, 6.000 s)"
    found = audit_share(tmp_path / "m.csv", of="stare == yes", workspace=tmp_path)
    assert (found["rows"][0]["with_s"], found["rows"][0]["coded_s"]) == (8, 16)
    assert line in found.warnings
    made = project_marks(tmp_path / "m.csv", "clips", every=2, workspace=tmp_path)
    labels = [clip.extra["stare"] for clip in made.manifest]
    assert labels == ["yes", *["none"] * 4, "", *["yes"] * 3, ""]
    assert line in made.warnings


def test_a_manifest_whose_rows_state_what_was_watched_has_marks(tmp_path: Path) -> None:
    """Its rows cover the film, but the seconds that were watched without a mark have no row."""
    rows = (
        "clip_id,movie_id,start_s,end_s,coder,Violence,watched\n"
        "1,lake,0,100,ada,,Violence\n2,lake,10,30,ada,strong,\n3,lake,40,50,ada,weak,\n"
    )
    (tmp_path / "t.csv").write_text(rows)
    columns = {"annotator": "coder"}
    import_manifest(tmp_path / "t.csv", "w", columns=columns, workspace=tmp_path)
    with pytest.raises(FixInput, match="so the rows are marks") as caught:
        audit_share("w", of="Violence == strong", workspace=tmp_path)
    assert caught.value.hint == (
        "obygaze marks clips w --every 1 -o CLIPS; then obygaze audit share CLIPS --of"
        " 'Violence == strong'"
    )
    cut = {"every": 1, "columns": ["Violence"], "workspace": tmp_path}
    project_marks("w", "CLIPS", **cut)
    audit = audit_share("CLIPS", of="Violence == strong", workspace=tmp_path)
    assert "0.200 of the coded time" in audit.answers[0]
