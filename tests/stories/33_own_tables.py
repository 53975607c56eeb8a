"""Story 33: I have a table of my own, as it is (German, French, Excel, ratings, ids of YouTube).

I want a score of my own question in few commands. What the program cannot know of my table, it asks
at once, and writes a file with the likely answers: I look through it, and the next command reads
the table.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.workbooks import write_workbook

from stories.workspace import Workspace

TITLES = ("L'Été à Nice", "Müller & Söhne", "Alba", "Ça ira", "Brug", "Über uns")
IDS = ("L_Ete_a_Nice", "Muller_Sohne", "Alba", "Ca_ira", "Brug", "Uber_uns")
N_CLIPS = 8
N_IN_ALL = len(TITLES) * N_CLIPS
CLIP_S = 7


@dataclass(frozen=True)
class Shot:
    """One clip of a person's table; `n` begins anew in each film."""

    film: int
    n: int

    @property
    def title(self) -> str:
        return TITLES[self.film]

    @property
    def start_s(self) -> int:
        return (self.n - 1) * CLIP_S

    @property
    def end_s(self) -> int:
        return self.n * CLIP_S

    @property
    def rating(self) -> int:
        """From 0 to 3; each film has each of them twice."""
        return (self.n * 3 + self.film) % 4

    def word(self, *words: str) -> str:
        return words[(self.n + self.film) % len(words)]


SHOTS = [Shot(film, n) for film in range(len(TITLES)) for n in range(1, N_CLIPS + 1)]


def clock(seconds: int) -> str:
    """Return a time as a person types it: 1:05."""
    return f"{seconds // 60}:{seconds % 60:02d}"


def excel(seconds: int) -> timedelta:
    """Return what Excel keeps of 0:07, typed for seven seconds: seven minutes."""
    return timedelta(seconds=60 * seconds)


@dataclass(frozen=True)
class OwnTable:
    """A table, what a person changes in the draft, and what must come of it.

    `asked` are lines of the draft, and `answers` those that are changed. `counts` is said of the
    columns that are kept. `task` is the person's question. `corrected` is a cell with a typing
    error, and what was meant.
    """

    name: str
    rows: Sequence[Sequence[Any]]
    asked: Sequence[str]
    answers: dict[str, str]
    counts: str
    task: str
    is_positive: Callable[[Shot], bool]
    delimiter: str = ","
    corrected: tuple[str, str] = ("", "")
    titles: Sequence[str] = field(default=TITLES)

    def write(self, path: Path) -> None:
        """Write the table as its person has it."""
        if path.suffix == ".xlsx":
            write_workbook(path, {"Clips": self.rows})
            return
        lines = []
        for cells in self.rows:
            texts = [str(cell) for cell in cells]
            quoted = [f'"{text}"' if self.delimiter in text else text for text in texts]
            lines.append(self.delimiter.join(quoted))
        path.write_bytes("".join(f"{line}\r\n" for line in lines).encode("utf-8"))


TIME_CELLS = [["Film", "Von", "Bis", "Wertung"]] + [
    [s.title, excel(s.start_s), excel(s.end_s), s.rating] for s in SHOTS
]
OWN_LEVELS = [["clip_id", "movie_id", "level", "concepts"]] + [
    [
        f"{IDS[s.film]}-{s.n:02d}",
        IDS[s.film],
        s.word("yes", "no", "maybe"),
        s.word("Look|lumière", "", "Body"),
    ]
    for s in SHOTS
]
TYPED_WRONG = [["Film", "Nr.", "Beginn", "Schluss", "Urteil"]] + [
    [
        s.title,
        s.n,
        "0:2l" if (s.film, s.n) == (2, 4) else clock(s.start_s),
        clock(s.end_s),
        "nien" if (s.film, s.n) == (4, 3) else s.word("ja", "nein"),
    ]
    for s in SHOTS
]
NUMBERED = 'id = "{movie_id}-{count:02d}"'
TIMES = 'times = "m:ss"'
TABLES = [
    OwnTable(
        "wertung.xlsx",
        TIME_CELLS,
        [TIMES, 'movie_id = "Film"', 'start_s = "Von"', 'end_s = "Bis"'],
        {'id = "{movie_id}-{count:03d}"': NUMBERED},
        "Wertung (0: 12, 1: 12, 2: 12, 3: 12)",
        "'Wertung>=2'",
        lambda shot: shot.rating >= 2,
    ),
    OwnTable(
        "own-levels.csv",
        OWN_LEVELS,
        ['"lumière" = "visual"'],
        {
            "[levels]": '[columns]\nverdict = "level"',
            'yes = "S"': "",
            'no = "EN"': "",
            'maybe = "NS"': "",
        },
        "verdict (maybe: 16, no: 16, yes: 16)",
        "verdict=yes",
        lambda shot: shot.word("yes", "no", "maybe") == "yes",
        titles=IDS,
    ),
    OwnTable(
        "tippfehler.csv",
        TYPED_WRONG,
        [TIMES, 'movie_id = "Film"', 'start_s = "Beginn"', 'end_s = "Schluss"'],
        {'id = "{movie_id}-{Nr.}"': 'id = "{movie_id}-{Nr.:02d}"'},
        "Urteil (ja: 24, nein: 23, nien: 1)",
        "Urteil=ja",
        lambda shot: shot.word("ja", "nein") == "ja",
        delimiter=";",
        corrected=("0:2l", "0:21"),
    ),
]


def change(ws: Workspace, name: str, answers: dict[str, str]) -> None:
    """Write the answers of a person into the lines of a draft; each must be there once."""
    lines = ws.read(name).splitlines()
    for asked, answer in answers.items():
        assert lines.count(asked) == 1, f"{asked} is not once in:\n" + "\n".join(lines)
        lines[lines.index(asked)] = answer
    ws.write(name, "\n".join([*lines, ""]))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_becomes_a_score_of_its_own_question(
    ws: Workspace, table: OwnTable
) -> None:
    """Five commands, of which the first writes a draft."""
    path = ws.path(table.name)
    table.write(path)
    typed = f"manifest import {shlex.quote(table.name)} -o own"
    drafted = ws(f"{typed} --write-mapping own.toml")
    assert "look through the answers in own.toml" in drafted.err
    assert {*table.asked} <= {*ws.read("own.toml").splitlines()}
    assert len(drafted.err.splitlines()) < 12
    wrong, right = table.corrected
    if wrong:
        assert f"{table.name}:21: column 'Beginn': '{wrong}' is not" in drafted.err
        path.write_bytes(path.read_bytes().replace(wrong.encode(), right.encode()))
    change(ws, "own.toml", table.answers)
    done = ws(f"{typed} --mapping own.toml")
    size = f"{N_IN_ALL} clips of {len(TITLES)} films"
    assert f": {size}" in done.out
    assert table.counts in done.err
    check_manifest(ws, table)
    write_features(ws, table)
    ws("store import x.npz --manifest own -o own")
    models = """--set 'grid.models=["ridge"]' --set 'grid.baselines=["random"]'"""
    models += " --set report.replicates=50 --jobs 1"
    run = ws(
        f"run honest --manifest own --store own --task {table.task} {models} -o own"
    )
    assert "On films it has not seen, ridge ranks clips" in run.text
    tested = [
        row
        for row in ws.read_table("runs/own/predictions.csv")
        if row["model"] == "ridge"
    ]
    assert {row["movie_id"] for row in tested} == set(manifest_films(ws))
    assert len(tested) == N_IN_ALL
    assert sum(int(row["y"]) for row in tested) == sum(map(table.is_positive, SHOTS))


def manifest_films(ws: Workspace) -> set[str]:
    """Return the films of the manifest."""
    return {row["movie_id"] for row in ws.read_table("export.csv")}


def write_features(ws: Workspace, table: OwnTable) -> None:
    """Write a vector for each row of the manifest, in which the answer is planted."""
    random = np.random.default_rng(0)
    ids = [row["clip_id"] for row in ws.read_table("export.csv")]
    vectors = random.normal(size=(len(ids), 8)).astype(np.float32)
    for place in range(len(ids)):
        vectors[place, 0] += 4.0 * bool(table.is_positive(SHOTS[place]))
    np.savez(ws.path("x.npz"), clip_id=ids, clip=vectors)


def check_manifest(ws: Workspace, table: OwnTable) -> None:
    """Compare ids, titles and times with those of the table, worked out here."""
    ws("manifest export own export.csv")
    rows = ws.read_table("export.csv")
    has_times = "start_s" in rows[0] and rows[0]["end_s"]
    expected = []
    for shot in SHOTS:
        span = (float(shot.start_s), float(shot.end_s)) if has_times else ("", "")
        clip_id = f"{IDS[shot.film]}-{shot.n:02d}"
        expected.append((clip_id, table.titles[shot.film], *span))
    found = []
    for row in rows:
        title = row.get("movie_title") or row["movie_id"]
        span = (row.get("start_s", ""), row.get("end_s", ""))
        times = tuple(float(time) if time else "" for time in span)
        found.append((row["clip_id"], title, *times))
    assert found == expected
