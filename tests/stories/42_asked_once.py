"""Story 42: asked once.

A workbook of two sheets, clock cells, numbers that restart, three words of our own, two coders. One
refusal asks for all that must be decided, one command answers, and the manifest is right.
"""

import shlex
from datetime import timedelta
from typing import Any

import numpy as np
from support.workbooks import write_workbook

from stories.workspace import Workspace

FILMS = ("Amélie", "Juno", "L'Été", "Brug")
IDS = ("Amelie", "Juno", "L_Ete", "Brug")
PER_FILM = 6
WORDS = ("stark", "schwach", "gar nicht")


def coded_clips() -> list[dict[str, Any]]:
    """Return film, number, times in seconds and the words of two people; some differ."""
    draws = np.random.default_rng(42)
    clips = []
    for film in range(len(FILMS)):
        start_s = 0
        for number in range(1, PER_FILM + 1):
            end_s = start_s + int(draws.integers(3, 90))
            ada = WORDS[int(draws.integers(3))]
            ben = ada if draws.random() < 0.7 else WORDS[int(draws.integers(3))]
            clip = {"film": film, "number": number, "start_s": start_s, "end_s": end_s}
            clips.append({**clip, "ada": ada, "ben": ben})
            start_s = end_s
    return clips


def write_book(ws: Workspace, clips: list[dict[str, Any]]) -> None:
    rows: list[list[Any]] = [
        ["Sichtung im Frühjahr", "Ada, Ben"],
        [],
        ["Film", "Szene", "Von", "Bis", "Urteil Ada", "Urteil Ben", "Notiz"],
    ]
    for clip in clips:
        times = [timedelta(minutes=clip[name]) for name in ("start_s", "end_s")]
        film = FILMS[clip["film"]]
        rows.append([film, clip["number"], *times, clip["ada"], clip["ben"], "-"])
    legend = [["Wort", "heißt"], *([word, "..."] for word in WORDS)]
    write_workbook(ws.path("sichtung.xlsx"), {"Legende": legend, "Clips": rows})


def test_one_refusal_asks_everything_and_one_command_answers(ws: Workspace) -> None:
    clips = coded_clips()
    write_book(ws, clips)
    refused = ws("manifest import sichtung.xlsx -o own", code=1)
    n_differing = sum(clip["ada"] != clip["ben"] for clip in clips)
    assert 2 < n_differing < len(clips)
    for asked in (
        "no row of the table has a film",
        "'Von' and 'Bis' look like the times of the clips",
        "'Urteil Ada' and 'Urteil Ben' look like the labels of 2 annotators",
        "no column has the ids of the clips",
        "may be minutes or hours",
        f"annotators differ in {n_differing} of {len(clips)} clips",
    ):
        assert asked in refused.err
    line = refused.err.splitlines()[-1].removeprefix("  Try: obygaze ")
    done = ws(shlex.join(shlex.split(line)))
    assert f"{len(clips)} clips of {len(FILMS)} films" in done.out

    ws("manifest export own own.csv")
    expected = []
    for clip in clips:
        word = clip["ada"] if clip["ada"] == clip["ben"] else ""
        clip_id = f"{IDS[clip['film']]}-{clip['number']}"
        times = (float(clip["start_s"]), float(clip["end_s"]))
        expected.append((clip_id, FILMS[clip["film"]], *times, word))
    found = []
    for row in ws.read_table("own.csv"):
        times = (float(row["start_s"]), float(row["end_s"]))
        found.append((row["clip_id"], row["movie_title"], *times, row["Urteil"]))
    assert found == expected
    said = ws.read_table("own.annotators.csv")
    words = {(row["clip_id"], row["annotator"]): row["Urteil"] for row in said}
    for clip in clips:
        clip_id = f"{IDS[clip['film']]}-{clip['number']}"
        assert words[clip_id, "Ada"] == clip["ada"]
        assert words[clip_id, "Ben"] == clip["ben"]
