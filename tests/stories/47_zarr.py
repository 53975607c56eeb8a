"""Story 47: I use zarr: my tools open a store, and a group of mine becomes one."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import xarray
import zarr
from support.cli import ROOT
from support.store_servers import web_server

import obygaze as og
from stories.made import begin_with_extracted_films
from stories.workspace import Workspace

QUICK = "--set report.replicates=20 --jobs 1"
STORE = "films.descriptors"

# A program that knows zarr and xarray, but not this program. A warning ends it.
# It prints a line for each place.
THEIRS = """
import json, sys, warnings
warnings.simplefilter("error")
import xarray, zarr

for place in sys.argv[1:]:
    group = zarr.open_group(place, mode="r")
    shapes = {name: list(array.shape) for name, array in group.members()}
    data = xarray.open_zarr(place, chunks=None).set_coords(["movie_id", "status"])
    is_wanted = (data.movie_id == "lake") & (data.status == 0)
    lake = data["pooled"].where(is_wanted, drop=True)
    assert not any(name.startswith("obygaze") for name in sys.modules)
    values = lake.values.astype("float64").tolist()
    ids = lake.clip_id.values.tolist()
    print(json.dumps({"shapes": shapes, "ids": ids, "lake": values}))
"""

# Type lines in one process; print how each of them ends, and whether zarr was imported.
TYPED = """
import shlex, sys
sys.path.insert(0, sys.argv[1])
from obygaze import cli

for line in sys.argv[2:]:
    code = cli.run_line(shlex.split(line))
    print(f"{line!r} ended with {code}, zarr: {'zarr' in sys.modules}")
"""


def test_my_tools_open_a_store_here_and_from_afar(ws: Workspace) -> None:
    pytest.importorskip("aiohttp")
    begin_with_extracted_films(ws)
    store = og.open_store(STORE, workspace=ws.folder)
    expected = store.matrix("pooled", films=["lake"])
    with web_server(ws.path("stores")) as server:
        places = [str(ws.path(f"stores/{STORE}")), f"{server.url}/{STORE}"]
        done = subprocess.run(
            [sys.executable, "-c", THEIRS, *places],
            capture_output=True,
            text=True,
            cwd=ws.path("videos"),
            check=False,
        )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    for found in map(json.loads, lines):
        assert found["ids"] == expected.clip_ids.tolist()
        np.testing.assert_array_equal(found["lake"], expected.values)
        for array in store.record.arrays:
            assert found["shapes"][array.name] == [40, *array.shape]


def test_a_group_of_mine_becomes_a_store_and_comes_back(ws: Workspace) -> None:
    ids = [f"{film}-{number}" for film in ("lake", "night") for number in range(6)]
    films = [clip_id.split("-")[0] for clip_id in ids]
    values = np.random.default_rng(0).normal(size=(12, 5)).astype("f4")
    data = xarray.Dataset(
        {"features": (("clip_id", "feature"), values)},
        {"clip_id": ids, "movie_id": ("clip_id", films)},
    )
    data.to_zarr(ws.path("mine.zarr"), zarr_format=2)
    said = ws("store import mine.zarr --backbone own -o mine").text
    assert "12 of 12 clips" in said
    assert "chunks without a checksum" in said
    store = og.open_store("mine", workspace=ws.folder)
    np.testing.assert_array_equal(store.matrix("clip").values, values)
    assert store.table.films == ["lake", "night"]
    ws("store export mine theirs.zarr")
    group = zarr.open_group(ws.path("theirs.zarr"), mode="r")
    assert group["clip_id"][:].tolist() == ids
    np.testing.assert_array_equal(group["clip"][:], values)
    assert "chunks without" not in ws("store import theirs.zarr -o again").text
    again = og.open_store("again", workspace=ws.folder)
    np.testing.assert_array_equal(again.matrix("clip").values, values)
    # zarr writes no chunk of zeros; the option that the refusal names reads them.
    group = zarr.open_group(ws.path("zeros.zarr"), mode="w")
    group.create_array("clip_id", data=np.array(ids, np.dtypes.StringDType()))
    values[:6] = 0
    group.create_array("clip", data=values, chunks=(6, 5))
    refused = ws("store import zeros.zarr -o zeros", code=1).text
    assert "clip: 1 of 2 chunks missing" in refused
    assert "pass --fill-missing too" in refused
    ws("store import zeros.zarr --fill-missing -o zeros")
    zeros = og.open_store("zeros", workspace=ws.folder)
    np.testing.assert_array_equal(zeros.matrix("clip").values, values)


def type_python(ws: Workspace, *lines: str) -> subprocess.CompletedProcess[str]:
    """Type lines into Python, in the folder of the workspace."""
    return subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        capture_output=True,
        text=True,
        cwd=ws.folder,
        check=False,
    )


def test_labels_of_a_data_set_become_a_manifest(ws: Workspace) -> None:
    """A data set of xarray ends in `run honest`, by the lines that are printed."""
    ids = [f"{film}-{n}" for film in ("alba", "brug", "cove") for n in range(8)]
    draws = np.random.default_rng(0)
    levels = draws.permutation(["EN", "HN", "S"] * 8)
    values = draws.normal(size=(24, 5)).astype("f4")
    starts = np.array([4.5 * (number % 8) for number in range(24)])
    data = xarray.Dataset(
        {"features": (("clip", "feature"), values), "level": ("clip", levels)},
        {
            "clip": ids,
            "film": ("clip", [clip[:4] for clip in ids]),
            # xarray stores times as whole numbers, and says their unit beside them.
            "start": ("clip", (starts * 1e9).astype("m8[ns]")),
            "end": ("clip", ((starts + 4) * 1e9).astype("m8[ns]")),
        },
    )
    data.to_zarr(ws.path("mine.zarr"))
    said = ws("store import mine.zarr --id-key clip --backbone own -o first").text
    advice = "obygaze manifest import mine.zarr"
    assert (
        f"labels are of a manifest, and not of a store; how to make one: {advice}"
        in said
    )
    refused = ws(advice.removeprefix("obygaze "), code=2)
    is_line = re.compile("import |table = |made = |print")
    lines = [line for line in refused.err.splitlines() if is_line.match(line)]
    assert len(lines) == 5
    # The names of its columns are not those of this program: the refusal has the line that says so.
    done = type_python(ws, *lines)
    (line,) = re.findall(r"Try: (og\.manifest\.import_\(table, .*\))", done.stderr)
    done = type_python(ws, *lines[:3], f"made = {line}", lines[-1])
    assert done.returncode == 0, done.stderr
    found = og.read_manifest("mine", workspace=ws.folder)
    assert [(one.clip_id, one.movie_id, one.level) for one in found] == [
        (clip, clip[:4], level) for clip, level in zip(ids, levels, strict=True)
    ]
    assert [one.start_s for one in found] == starts.tolist()
    (line,) = re.findall("obygaze (store import FILE .* -o STORE)", done.stdout)
    typed = line.replace("FILE", "mine.zarr").replace("STORE", "second")
    said = ws(f"{typed} --id-key clip --backbone own").text
    (line,) = re.findall("next: obygaze (run honest .*)", said)
    assert "EN_S: easy negatives against sure" in ws(f"{line} {QUICK}").text
    store = og.open_store("second", workspace=ws.folder)
    np.testing.assert_array_equal(store.matrix("clip").values, values)
    assert store.table.films == ["alba", "brug", "cove"]


def test_what_zarr_wiped_is_pulled_again(ws: Workspace) -> None:
    begin_with_extracted_films(ws)
    ws(f"store pull {STORE} -o copy")
    zarr.open_group(ws.path("stores/copy"), mode="w")
    assert "but this is a group of Zarr" in ws("store info copy", code=1).text
    ws(f"store pull {STORE} -o copy")
    ws("store verify copy --hash")


def test_what_reads_a_store_never_imports_zarr(ws: Workspace) -> None:
    begin_with_extracted_films(ws)
    ws(f"train ridge --store {STORE} --manifest films -o kept {QUICK}")
    lines = (
        f"store info {STORE} --clips",
        f"store verify {STORE}",
        f"run honest --store {STORE} --manifest films -o honest {QUICK}",
        f"models predict kept {STORE} -o scores.csv",
        "extract run films -b descriptors --workers 1",
    )
    subset = f"store subset {STORE} --film lake -o lake"
    arguments = [sys.executable, "-c", TYPED, str(ROOT), *lines, subset]
    done = subprocess.run(
        arguments, capture_output=True, text=True, cwd=ws.folder, check=False
    )
    said = [line for line in done.stdout.splitlines() if ", zarr: " in line]
    assert said[:-1] == [f"{line!r} ended with 0, zarr: False" for line in lines], done
    # What writes a store imports it.
    assert said[-1] == f"{subset!r} ended with 0, zarr: True"
