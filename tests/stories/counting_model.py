"""A user's own model that says which clips it was given, and that can be told to wait.

The model reads the number of each picture: its features are the mean grey of the 20 cells that hold
the bits of the number. So what a store should hold is known without another run. Each clip that
the model is given is a line in the file `begun.txt`, so that clips computed twice are counted.

Its settings are environment variables:

- `HOLD_AT=20`: wait at the 20th clip of this process until there is a file `go`;
- `SIGNAL_AT=20 SIGINT`: send this signal to this process at its 20th clip;
- `BEGIN_TOGETHER=8`: wait at each clip until this many processes have begun one.
"""

from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt
from support.once import made_once
from support.videos import COLUMNS, ROWS

import obygaze as og
from obygaze_features.store import Matrix
from stories.films import FILMS, first_number, import_films
from stories.workspace import Workspace, wait_until

N_CLIPS = 40
PER_FILM = 10
# 40 clips are two blocks of 16 clips, and one of 8.
BLOCK_CLIPS = 16
STORE = "films.counting"
EXTRACT = "extract run films -b counting.py:model --workers 1"

_MODEL = f"""\
import os
import signal
import time
from pathlib import Path

import torch

from obygaze_features.backbones import Preset, module_card


def load():
    return torch.nn.Identity()


def obey_the_test(n_clips):
    me = str(os.getpid())
    log = Path("begun.txt")
    before = log.read_text().split().count(me) if log.exists() else 0
    with log.open("a") as lines:
        lines.write(n_clips * f"{{me}}\\n")
    together = int(os.environ.get("BEGIN_TOGETHER", "1"))
    while len(set(log.read_text().split())) < together:
        time.sleep(0.01)
    number, name = os.environ.get("SIGNAL_AT", "0 SIGINT").split()
    if before < int(number) <= before + n_clips:
        os.kill(os.getpid(), getattr(signal, name))
        # Python calls the handler in the main thread, as soon as that has its turn.
        time.sleep(0.5)
    hold_at = int(os.environ.get("HOLD_AT", "0"))
    if before < hold_at <= before + n_clips:
        while not Path("go").exists():
            time.sleep(0.01)


def run(model, pixels):
    n, t, _, height, width = pixels.shape
    obey_the_test(n)
    cells = pixels.float().mean(2).reshape(
        n, t, {ROWS}, height // {ROWS}, {COLUMNS}, width // {COLUMNS}
    )
    frames = cells.mean((3, 5)).flatten(2)
    return {{"clip": frames.mean(1), "frames": frames}}


def model():
    return module_card(
        "counting",
        load,
        run,
        arrays={{"clip": [20], "frames": [4, 20]}},
        frames=4,
        height=60,
        width=80,
        values="levels",
        preset=Preset(resize="squash"),
        files=[],
        licence="CC0-1.0",
    )
"""


def begin_with_counting_model(ws, *films: str, per_film: int = PER_FILM) -> None:
    import_films(ws, *films, per_film=per_film)
    ws.write("counting.py", _MODEL)


def begin_after_a_kill(ws: Workspace) -> None:
    """Begin where a run was killed with `kill -9`: one of its three blocks is finished.

    The model had been given 20 clips.
    """
    ws.copy_of(made_once("stories", _killed_run, "killed run of the counting model"))
    ws("manifest link films videos")


def _killed_run(folder: Path) -> None:
    ws = Workspace(folder)
    begin_with_counting_model(ws)
    running = ws.start(EXTRACT, env={"HOLD_AT": "20"})
    wait_until(lambda: clips_begun(ws) == 20, running)
    wait_until(lambda: "1 of 3 blocks" in ws(f"extract status {STORE}").text, running)
    running.kill()


def clips_begun(ws: Workspace) -> int:
    """Return how many clips the model was given, by all processes in all runs."""
    return sum(clips_of_processes(ws).values())


def clips_of_processes(ws: Workspace) -> Counter[str]:
    log = ws.path("begun.txt")
    return Counter(log.read_text(encoding="utf-8").split() if log.exists() else [])


def expected_numbers() -> npt.NDArray[np.int64]:
    """Return the numbers of the four pictures of each clip, film by film.

    Of n pictures of a clip, picture int(i * n / 4) is taken for i = 0, 1, 2, 3.
    """
    clips = []
    for film in FILMS:
        for clip in range(PER_FILM):
            first = first_number(film) + 25 * clip
            clips.append([first + int(i * 25 / 4) for i in range(4)])
    return np.array(clips)


def numbers_in(ws: Workspace, store: str = STORE) -> npt.NDArray[np.int64]:
    return numbers_of(og.open_store(ws.path(f"stores/{store}")).matrix("frames"))


def numbers_of(frames: Matrix) -> npt.NDArray[np.int64]:
    bits = frames.values[..., :10].astype(float) > 128
    return (bits * 2 ** np.arange(10)).sum(axis=-1)


def bytes_of_features(ws: Workspace, store: str = STORE) -> dict[str, bytes]:
    return ws.features_of(store)


def assert_whole_and_as_undisturbed(ws: Workspace) -> None:
    """The store is whole, its numbers are right, its bytes those of a run without disturbance."""
    verified = ws(f"store verify {STORE} --hash").text
    assert "whole: " in verified
    assert f"rows: {N_CLIPS} ok" in verified
    assert "seal: " in verified
    np.testing.assert_array_equal(numbers_in(ws), expected_numbers())
    undisturbed = Workspace(
        made_once("stories", _undisturbed_run, "run of the counting model")
    )
    assert bytes_of_features(ws) == bytes_of_features(undisturbed)


def _undisturbed_run(folder: Path) -> None:
    ws = Workspace(folder)
    begin_with_counting_model(ws)
    ws(EXTRACT)
