"""Every option with a number, of every command: with numbers that nobody types.

What comes back is a usage error, a clear error, or a result; never a bug, a number that is none,
or work without an end.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click
import numpy as np
import pytest
from support.cli import Result, call_obygaze, commands
from support.experiments import films, planted, write_workspace
from support.seeds import IS_TORTURE
from support.videos import write_video

from obygaze.cli import root
from obygaze_features.core.value_types import Number

NUMBERS_PER_OPTION = 3
MAX_SECONDS = 20  # of the processor, for one call
NO_NUMBERS = ["nan", "inf", "-inf", "", " ", "1e999", "0x10", "1/0", "x"]
ODD_NUMBERS = [
    "0",
    "-1",
    "-0.0",
    "1e308",
    "1e-308",
    "99999999999999999999",
    "0.1",
    "1e3",
    "１",
    "1_0",
]
NUMBER_TYPES = (Number, click.types.IntParamType, click.types.FloatParamType)

# A command that works, for each command with a number, and the options of numbers that are text.
COMMANDS: dict[str, Sequence[str]] = {
    "manifest windows": [
        "videos",
        "-o",
        "cut",
        "--window",
        "4",
        "--stride",
        "4",
        "--force",
    ],
    "manifest show": ["made-up"],
    "manifest folds": ["made-up", "-k", "2", "--force"],
    "manifest project": ["marks.csv", "--clips", "clips.csv", "-o", "labels"],
    "agree": ["marks.csv", "--clips", "clips.csv"],
    "manifest sample": ["timed", "-n", "2", "-o", "drawn", "--force"],
    "video frames": ["videos/a.mp4", "-o", "frames.npz", "--force"],
    "search": ["sig", "--like", "tt0000001-001"],
    # Before the run, after which nothing is missing.
    "extract slurm": [
        *("clips", "-b", "descriptors"),
        *("--tasks", "1", "-o", "job.sh", "--force"),
    ],
    "extract plan": ["clips", "-b", "descriptors", "--workers", "1"],
    "extract run": ["clips", "-b", "descriptors", "--workers", "1"],
    "train": ["ridge", "--store", "sig", "--manifest", "made-up", "-o", "m", "--force"],
    "run": ["baselines.toml", "--manifest", "made-up", "-o", "r", "--force"],
    "audit captions": ["captions.csv", "--group", "g"],
    "audit eat": ["--vectors", "vectors.npz"],
}
TEXT_NUMBERS = {
    "manifest project": ["--every", "--threshold"],
    "agree": ["--every"],
}
SLOW = (
    "extract run",
    "train",
    "manifest windows",
)


def number_options() -> list[tuple[str, str]]:
    """Every command with each of its options that is a number."""
    found = []
    for name, made in commands(root):
        options = [param for param in made.params if isinstance(param, click.Option)]
        typed = [
            param.opts[-1] for param in options if isinstance(param.type, NUMBER_TYPES)
        ]
        found += [(name, option) for option in (*typed, *TEXT_NUMBERS.get(name, ()))]
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which every command of `COMMANDS` has its input."""
    root = tmp_path_factory.mktemp("numbers")
    manifest = films(3, 8)
    write_workspace(root, manifest, planted(manifest, width=20))
    (root / "videos").mkdir()
    write_video(root / "videos" / "a.mp4", numbers=range(30))
    (root / "one.csv").write_text("clip_id,movie_id,video\na,a,a.mp4\n")
    call_obygaze("manifest", "import", "one.csv", "-o", "clips", cwd=root).ok()
    timed = "clip_id,movie_id,start_s,end_s\na,one,0,1\nb,one,1,2\nc,two,0,1\n"
    (root / "timed.csv").write_text(timed)
    call_obygaze("manifest", "import", "timed.csv", "-o", "timed", cwd=root).ok()
    call_obygaze("manifest", "link", "clips", "videos", cwd=root).ok()
    marks = "movie_id,annotator,start_frame,end_frame,level,concepts,framerate\n"
    marks += "".join(
        f"a,{name},0,{at}9,S,Body,25\n" for name, at in (("ada", 1), ("ben", 2))
    )
    (root / "marks.csv").write_text(marks)
    spans = "".join(f"a-{n},a,{0.4 * n},{0.4 * n + 0.4}\n" for n in range(5))
    (root / "clips.csv").write_text("clip_id,movie_id,start_s,end_s\n" + spans)
    protocol = 'schema = "obygaze-protocol/1"\n[tasks.t.classes]\nEN = 0\nS = 1\n'
    (root / "baselines.toml").write_text(protocol)
    rows = [
        f"{n},{'ab'[n % 2]},a {word} on a chair\n"
        for n, word in enumerate(["man", "woman"] * 4)
    ]
    (root / "captions.csv").write_text("clip_id,g,caption\n" + "".join(rows))
    draw = np.random.default_rng(0)
    names = ("X", "Y", "A", "B")
    np.savez(root / "vectors.npz", **{name: draw.normal(size=(8, 4)) for name in names})
    return root


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise an error of Python's where a call takes more of the processor."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def finding(said: Result, value: str, *, is_number: bool) -> str:
    """What is wrong with the answer to a number, or an empty text."""
    text = said.stdout + said.stderr
    if "a bug in obygaze" in text or "Traceback" in text:
        return "a bug: " + said.stderr[-300:]
    if said.code == 0 and not is_number and value not in ("inf", "1e999"):
        return f"accepted: {text[:200]}"
    if said.code and not said.stderr.strip():
        return f"exit {said.code} without a word"
    errors = [line for line in said.stderr.splitlines() if line.startswith("Error: ")]
    if said.code and len(errors) != 1:
        return f"exit {said.code} with {len(errors)} errors: {said.stderr[:300]}"
    return ""


def test_every_option_with_a_number_is_tried() -> None:
    """A command with a number is in the table, so that a new one is tried too."""
    assert {name for name, _ in number_options()} == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_number_that_nobody_types_is_refused_or_does_its_work(
    place: Path, name: str
) -> None:
    words = [*name.split(), *COMMANDS[name]]
    assert call_obygaze(*words, cwd=place).ok()
    draw = random.Random(f"31 {name}")
    found = {}
    for option in [option for own, option in number_options() if own == name]:
        values = [*NO_NUMBERS, *ODD_NUMBERS]
        if not IS_TORTURE:
            values = draw.sample(values, 1 if name in SLOW else NUMBERS_PER_OPTION)
        for value in values:
            is_number = value in ODD_NUMBERS
            if option == "--jobs" and value in ODD_NUMBERS[-3:]:
                value = "1"
            call = [
                *words,
                f"{option}={value}" if option.startswith("--") else f"{option}{value}",
            ]
            with at_most(MAX_SECONDS):
                said = call_obygaze(*call, cwd=place)
            wrong = finding(said, value, is_number=is_number)
            if wrong:
                found[" ".join(call)] = wrong
    assert found == {}
