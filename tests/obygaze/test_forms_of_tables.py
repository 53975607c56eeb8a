"""Each command that reads a table of a person says the same of each form of it."""

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
        [
            "movie_id",
            "annotator",
            "start_frame",
            "end_frame",
            "level",
            "concepts",
            "framerate",
        ],
        ["a", "ada", 0, 19, "S", "Body", 25],
        ["a", "ben", 0, 29, "S", "Look|Body", 25],
    ],
    "spans": [
        ["clip_id", "movie_id", "start_frame", "end_frame", "framerate"],
        *[[f"a-{n}", "a", 10 * n, 10 * n + 9, 25] for n in range(5)],
    ],
    "captions": [
        ["clip_id", "g", "caption"],
        *[[n, "ab"[n % 2], f"a {['man', 'woman'][n % 2]}"] for n in range(8)],
    ],
    "scores": [["lm", "sim", "prob"], [0.5, 0.25, 0.125]],
    "facts": [["clip_id", "year"], ["tt0000001-001", 1999]],
    "hits": [["clip_id", "cosine"], ["tt0000001-001", 0.5]],
    "shots": [["clip_id", "movie_id", "note"], ["Nähe-1", "Nähe", "x"]],
}
OTHER_FORMS = {
    "-excel.csv": ("\t", "utf-16"),
    "-semicolons.csv": (";", "cp1252"),
    "-tabs.tsv": ("\t", "utf-8-sig"),
}
COMMANDS = {
    "manifest project": "manifest project segments{} --clips spans{}",
    "manifest agree": "manifest agree segments{} --clips spans{} --permutations 9",
    "manifest import --as marks": (
        "manifest import segments{} --as marks -o t --force"
    ),
    "manifest import": "manifest import shots{} -o t2 --force",
    "manifest show": "manifest show made-up --clips facts{}",
    "manifest join": "manifest join made-up facts{} --force",
    "manifest export": (
        "manifest export made-up . --as vtt --predictions hits{} --force"
    ),
    "audit captions": "audit captions captions{} --group g",
    "audit gender-score": "audit gender-score scores{}",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with each table in each form."""
    root = tmp_path_factory.mktemp("spreadsheets")
    manifest = films(3, 8)
    write_workspace(root, manifest, planted(manifest, width=20))
    write_video(root / "a.mp4", numbers=range(60))
    for name, rows in TABLES.items():
        path = root / f"{name}.csv"
        with path.open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows(rows)
        for kind, (delimiter, encoding) in OTHER_FORMS.items():
            other = root / f"{name}{kind}"
            with other.open("w", encoding=encoding, newline="") as stream:
                csv.writer(stream, delimiter=delimiter).writerows(rows)
        write_workbook(root / f"{name}.xlsx", {name: rows})
    return root


@pytest.mark.parametrize("name", COMMANDS)
def test_each_form_of_a_table_is_read_as_the_same(name: str, place: Path) -> None:
    answers = []
    for kind in (".csv", ".xlsx", *OTHER_FORMS):
        words = COMMANDS[name].replace("{}", kind).split()
        answer = call_obygaze(*words, cwd=place)
        said = (answer.stdout + answer.stderr).splitlines()
        lines = [line.replace(kind, ".csv") for line in said]
        # It shows the word by which the encoding was known.
        lines = [line for line in lines if "read as Windows-1252: 'Nähe'" not in line]
        answers.append((answer.code, lines))
    assert answers[0][0] == 0, answers[0][1]
    assert all(answer == answers[0] for answer in answers), answers
