"""Story 5: a model of my own, in a file, becomes a backbone; changed code or weights are another
recipe, and never come into a store of the old ones."""

import numpy as np
import pytest

import obygaze as og
from stories.films import FILMS, import_films
from stories.own_models import (
    levels_of,
    numbers_in,
    numbers_of_films,
    write_gain,
    write_model,
)
from stories.workspace import Workspace

FILMS_HERE = FILMS[1:3]
CLIPS_A_FILM = 5
RUN = "extract run films -b blocks.py:blocks --workers 1"

TABLE_MODEL = '''\
"""A model that is not made of tensors: a table in a file."""

import numpy as np
import torch
from obygaze_features.backbones import module_card


def load():
    module = torch.nn.Module()
    module.table = np.load("table.npy")
    return module


def run(module, pixels):
    grey = pixels.float().mean((2, 3, 4)).mean(1, keepdim=True)
    return {"clip": grey.numpy() * module.table}


def table():
    arrays = {"clip": [3]}
    facts = {"frames": 2, "size": 32, "values": "levels", "licence": "CC0-1.0"}
    return module_card("table", load, run, arrays=arrays, files=["table.npy"], **facts)
'''


def begin(ws: Workspace) -> None:
    """Begin with two films of five clips, and the code and weights of a model."""
    import_films(ws, *FILMS_HERE, per_film=CLIPS_A_FILM)
    write_model(ws, gain=0.5)


def test_a_model_in_a_file_becomes_a_backbone(ws: Workspace) -> None:
    begin(ws)
    checked = ws("backbones check blocks.py:blocks").text
    assert "other clips of the batch change no number" in checked
    ws(RUN)
    store = og.open_store("films.blocks", workspace=ws.folder)
    expected = numbers_of_films(FILMS_HERE, CLIPS_A_FILM)
    assert numbers_in(store.matrix("frames").values) == expected
    means = [
        np.mean([levels_of(number) for number in numbers], axis=0)
        for numbers in expected
    ]
    # The coder changes a level of a block by about one of 255.
    np.testing.assert_allclose(
        store.matrix("clip").values, 0.5 * np.array(means), rtol=0, atol=1.5
    )


@pytest.mark.parametrize("changed", ["code", "weights"])
def test_what_was_changed_is_another_recipe(ws: Workspace, changed: str) -> None:
    begin(ws)
    ws(RUN)
    before = ws.bytes_of("stores/films.blocks")
    if changed == "code":
        code = ws.read("blocks.py").replace("frames.mean(1)", "frames.amax(1)")
        ws.write("blocks.py", code)
    else:
        write_gain(ws, 0.25)
    refused = ws(RUN, code=5).text
    named = {"code": "blocks.py", "weights": "weights"}
    assert named[changed] in refused
    assert ws.bytes_of("stores/films.blocks") == before
    ws(f"{RUN} --store blocks.py:blocks=changed")
    one = og.open_store("films.blocks", workspace=ws.folder).matrix("clip").values
    two = og.open_store("changed", workspace=ws.folder).matrix("clip").values
    if changed == "weights":
        np.testing.assert_allclose(two, one / 2, rtol=1e-6)
    else:
        assert not np.allclose(two, one)


def test_a_file_that_imports_another_own_file_is_refused(ws: Workspace) -> None:
    begin(ws)
    ws.write("grid.py", "ROWS, COLUMNS = 4, 5\n")
    for line in ("from grid import ROWS", "def late():\n    import grid"):
        ws.write("several.py", f"{line}\n{ws.read('blocks.py')}")
        refused = ws("extract run films -b several.py:blocks", code=1).text
        assert "expected user code of one file, but it imports grid" in refused
    assert not ws.path("stores").exists()


def test_a_model_without_tensors_is_known_by_its_files(ws: Workspace) -> None:
    begin(ws)
    ws.write("table.py", TABLE_MODEL)
    np.save(ws.path("table.npy"), np.array([1.0, 2.0, 3.0]))
    run = "extract run films -b table.py:table --workers 1"
    ws(run)
    store = og.open_store("films.table", workspace=ws.folder)
    values = store.matrix("clip").values
    np.testing.assert_allclose(values, values[:, :1] * [1, 2, 3], rtol=1e-6)
    np.save(ws.path("table.npy"), np.array([1.0, 2.0, 4.0]))
    assert "table.npy" in ws(run, code=5).text
