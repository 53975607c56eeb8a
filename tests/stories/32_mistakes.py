"""Story 32: mistakes of a person: each gets one sentence and what to type, and that works.

The mistakes are in mistakes.toml, and are made in a workspace with the manifests `films` (four
films, 40 clips) and `lake` (one film), the stores `films.descriptors` and `other` (of other
features), the run `first`, the model `kept`, and the tables `clips.csv`, `notes.csv` and
`segments.csv`.
"""

import os
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support.advice import advice_of
from support.cli import call_obygaze, environment, obygaze_argv
from support.film import rows_of_segments
from support.once import made_once

from stories.films import features_of, import_features, rows_of_clips
from stories.made import begin_with_extracted_films
from stories.workspace import ExitCode, Workspace

Mistake = dict[str, Any]
MISTAKES: list[Mistake] = tomllib.loads(
    Path(__file__).with_name("mistakes.toml").read_text(encoding="utf-8")
)["mistake"]
SMALL_GRID = """--set 'grid.models=["ridge"]' --set 'grid.train=["EN_S"]'"""
SMALL_GRID += """ --set 'grid.test=["EN_S"]' --set report.replicates=50"""
SMALL_GRID += """ --set 'grid.baselines=["random"]'"""


def make_world(folder: Path) -> None:
    ws = Workspace(folder)
    begin_with_extracted_films(ws)
    rows = rows_of_clips()
    import_features(ws, rows, features_of(rows, width=8, level=2.0), "other")
    ws.import_table(rows_of_clips("lake"), "lake")
    ws(
        "train ridge --store films.descriptors --manifest films -o kept"
        " --jobs 1 --set report.replicates=50"
    )
    inputs = "--manifest films --store films.descriptors"
    ws(f"run honest {inputs} -o first --jobs 1 {SMALL_GRID}")
    notes = []
    for row in rows:
        who = "ada" if row["level"] == "S" else "ben"
        notes.append({"shot": row["clip_id"], "who": who, "note": "a sad face"})
    ws.write_table("notes.csv", notes)
    segments = []
    for annotator, level in (("ada", "S"), ("ben", "HN")):
        segment = {"movie_id": "lake", "annotator": annotator, "start_frame": 0}
        segment |= {"end_frame": 99, "level": level, "concepts": "Look"}
        segment["framerate"] = 25
        segments.append(segment)
    ws.write_table("segments.csv", rows_of_segments(segments))


@pytest.fixture
def world(ws: Workspace) -> Workspace:
    ws.copy_of(made_once("stories", make_world, "mistakes"))
    ws("manifest link films videos")
    return ws


def codes_of(mistake: Mistake) -> ExitCode:
    code = mistake["code"]
    return tuple(code) if isinstance(code, list) else code


def check_mistake(world: Workspace, mistake: Mistake) -> None:
    typed = mistake["typed"].replace("SMALL_GRID", SMALL_GRID)
    then = mistake["then"].replace("SMALL_GRID", SMALL_GRID)
    if mistake["try"].startswith("obygaze "):
        # The advice is a command: it is typed, with what it leaves open.
        assert then.startswith(mistake["try"].removeprefix("obygaze "))
    answer = world(typed, code=codes_of(mistake))
    assert answer.out == ""
    errors = [one for one in answer.err.splitlines() if one.startswith("Error: ")]
    assert len(errors) == 1
    assert mistake["says"] in answer.text
    assert "Traceback" not in answer.text
    world(then)
    assert answer.err.count("\n  Try: ") <= 1
    assert mistake["try"] in advice_of(answer.err)


@pytest.mark.parametrize(
    "mistake", MISTAKES, ids=[mistake["wanted"] for mistake in MISTAKES]
)
def test_a_mistake_gets_a_sentence_and_what_to_type(world, mistake) -> None:
    check_mistake(world, mistake)


def test_mistakes_change_nothing_in_the_workspace(world: Workspace) -> None:
    before = world.bytes_of(".")
    for mistake in MISTAKES:
        line = mistake["typed"].replace("SMALL_GRID", SMALL_GRID)
        call_obygaze(*shlex.split(line), cwd=world.folder)
    assert world.bytes_of(".") == before


def test_a_store_that_cannot_be_read_does_not_end_the_list_of_stores(world) -> None:
    words = obygaze_argv("ls")
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root reads every folder, and setpriv is not installed")
        words = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", *words]
    shutil.copytree(world.path("stores/other"), world.path("stores/locked"))
    world.path("stores/locked").chmod(0)
    try:
        done = subprocess.run(
            words,
            cwd=world.folder,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        world.path("stores/locked").chmod(0o755)
    assert "locked" in done.stdout + done.stderr
    assert "Permission denied" in done.stdout + done.stderr
    assert "films.descriptors" in done.stdout, "the other stores are listed"
    assert done.returncode == 0
