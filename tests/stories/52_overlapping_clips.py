"""Story 52: the clips of a table overlap, and each has the features that it has alone.

Every picture of the films carries its number, which a made-up backbone reads.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from support.videos import write_video

import obygaze as og
from stories.own_models import numbers_in, write_model
from stories.workspace import Workspace

RATE = 25
FILMS = ("alba", "brug")
N_SECONDS = 20
N_FRAMES = 4


def write_films(ws: Workspace) -> None:
    """Write films of 500 pictures, with a key frame every 250."""
    for number, film in enumerate(FILMS):
        path = ws.path(f"videos/{film}.mp4")
        path.parent.mkdir(exist_ok=True)
        first = 500 * number
        numbers = range(first, first + RATE * N_SECONDS)
        write_video(path, numbers=numbers, options={"g": "250", "bf": "3"})


def spans(every_s: int) -> list[tuple[str, int]]:
    """Clips of 4 s: the film and the start of each."""
    return [(film, start) for film in FILMS for start in range(0, 17, every_s)]


def import_clips(ws: Workspace, name: str, clips: Sequence[tuple[str, int]]) -> None:
    rows = []
    for film, start in clips:
        times = {"start_s": start, "end_s": start + 4}
        rows.append({"clip_id": f"{film}-{start:02d}", "movie_id": film, **times})
    ws.write_table(f"{name}.csv", rows)
    ws(f"manifest import {name}.csv -o {name}")
    ws(f"manifest link {name} videos")


def features(ws: Workspace, store: str) -> npt.NDArray[np.generic]:
    return og.open_store(store, workspace=ws.folder).matrix("frames").values


def test_overlapping_clips_have_their_own_pictures(ws: Workspace) -> None:
    write_films(ws)
    write_model(ws)
    import_clips(ws, "half", spans(2))
    ws("extract run half -b blocks.py:blocks --workers 2")
    expected = []
    for film, start in spans(2):
        first = 500 * FILMS.index(film) + RATE * start
        frames = [first + int(i * 100 / N_FRAMES) for i in range(N_FRAMES)]
        expected.append(frames)
    assert numbers_in(features(ws, "half.blocks")) == expected


def test_overlapping_clips_have_the_bits_of_single_reads(ws: Workspace) -> None:
    """A store of the first clips of each film alone, of the second ones, and so on."""
    write_films(ws)
    import_clips(ws, "half", spans(2))
    ws("extract run half -b descriptors --workers 2")
    together = og.open_store("half.descriptors", workspace=ws.folder)
    for start in (0, 2, 10):
        name = f"alone-{start}"
        import_clips(ws, name, [(film, start) for film in FILMS])
        ws(f"extract run {name} -b descriptors --workers 1")
        alone = og.open_store(f"{name}.descriptors", workspace=ws.folder)
        for array in together.feature_arrays:
            clips = list(alone)
            expected = alone.matrix(array, clips=clips).values
            found = together.matrix(array, clips=clips).values
            assert found.tobytes() == expected.tobytes(), (start, array)
