"""Each command that reads a table of a person says the same of a spreadsheet as of a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.cli import call_obygaze
from support.experiments import films, planted, write_workspace
from support.videos import write_video
from support.workbooks import write_workbook

TABLES: dict[str, Sequence[Sequence[Any]]] = {
    "segments": [
        ["movie_id", "annotator", "start_frame", "end_frame", "level", "concepts"],
        ["a", "ada", 0, 19, "S", "Body"],
        ["a", "ben", 0, 29, "S", "Look|Body"],
    ],
    "spans": [
        ["clip_id", "movie_id", "start_frame", "end_frame"],
        *[[f"a-{n}", "a", 10 * n, 10 * n + 9] for n in range(5)],
    ],
    "captions": [
        ["clip_id", "g", "caption"],
        *[[n, "ab"[n % 2], f"a {['man', 'woman'][n % 2]}"] for n in range(8)],
    ],
    "scores": [["lm", "sim", "prob"], [0.5, 0.25, 0.125]],
    "facts": [["clip_id", "year"], ["tt0000001-001", 1999]],
    "hits": [["clip_id", "cosine"], ["tt0000001-001", 0.5]],
    "videos": [["movie_id", "video"], ["a", "a.mp4"]],
}
COMMANDS = {
    "manifest project": "manifest project segments{} --clips spans{}",
    "manifest agree": "manifest agree segments{} --clips spans{} --permutations 9",
    "manifest import segments": "manifest import segments segments{} --fps 25 -o t --force",
    "manifest join": "manifest join made-up facts{} --force",
    "manifest export": "manifest export vtt made-up --predictions hits{} --fps 25 --force",
    "audit captions": "audit captions captions{} --group g",
    "audit gender-score": "audit gender-score scores{}",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with each table as .csv and as .xlsx."""
    root = tmp_path_factory.mktemp("spreadsheets")
    manifest = films(3, 8)
    write_workspace(root, manifest, planted(manifest, width=20))
    write_video(root / "a.mp4", numbers=range(60))
    for name, rows in TABLES.items():
        path = root / f"{name}.csv"
        with path.open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows(rows)
        write_workbook(root / f"{name}.xlsx", {name: rows})
    return root


@pytest.mark.parametrize("name", COMMANDS)
def test_a_spreadsheet_is_read_as_the_csv_file_is(name: str, place: Path) -> None:
    answers = []
    for kind in ("csv", "xlsx"):
        words = COMMANDS[name].replace("{}", f".{kind}").split()
        answer = call_obygaze(*words, cwd=place)
        said = answer.stdout + answer.stderr
        answers.append((answer.code, said.replace(kind, "csv")))
    assert answers[0][0] == 0, answers[0][1]
    assert answers[1] == answers[0]
