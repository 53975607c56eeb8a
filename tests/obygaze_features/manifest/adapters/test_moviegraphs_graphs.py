import csv
import os
import pickle
import subprocess
import sys
from collections import OrderedDict, defaultdict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.cli import ROOT

# Film, scenes of the graph (several where they were merged), emotion.
GRAPHS = [
    ("tt1", [1], "angry "),
    ("tt1", [2, 3], "angry "),
    ("tt1", [5], "happy"),
    ("tt2", [112], "happy"),
]


class Runs:
    """Runs code wherever it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("ran",)


@pytest.fixture
def classes(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Classes like those of the data set and of networkx 1.11, which no other process has."""
    module = ModuleType("GraphClasses")
    for name in ("MovieGraph", "ClipGraph", "DiGraph"):
        setattr(module, name, type(name, (), {"__module__": module.__name__}))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def made(kind: type, **values: Any) -> Any:
    """An object with these attributes."""
    found = kind()
    vars(found).update(values)
    return found


def films(classes: ModuleType) -> dict[str, Any]:
    """The graphs by film, with what else the objects of the data set hold."""
    found: dict[str, Any] = {}
    for film, scenes, emotion in GRAPHS:
        person = {"name": "Ann", "type": "entity", "pos": np.array([1.0, 2.0])}
        nodes = {
            7: person,
            2: {"name": emotion, "subtype": "emo", "type": "attribute"},
            3: {"name": "calm, then sad", "subtype": "emo", "type": "attribute"},
            4: {"name": "adult", "subtype": "age", "type": "attribute"},
            5: {"name": "asks", "type": "interaction"},
            6: {"name": "looks at", "type": "interaction"},
            1: {"name": "why", "type": "reason"},
            -1: {"name": "party", "type": "situation"},
        }
        edges = defaultdict(dict, {7: {2: {}}})
        graph = made(classes.DiGraph, node=nodes, adj=edges, graph={})
        clip = made(
            classes.ClipGraph,
            G=graph,
            video={"scene": scenes, "ss": 1, "es": 3},
            situation="party; quarrel",
            scene_label="kitchen",
        )
        empty = made(classes.MovieGraph, imdb_key=film, clip_graphs=OrderedDict())
        found.setdefault(film, empty).clip_graphs[scenes[0]] = clip
    return found


def run_program(folder: Path, data: bytes) -> list[dict[str, str]]:
    """The rows of the table that the program makes of a pickle."""
    (folder / "graphs.pkl").write_bytes(data)
    words = [sys.executable, ROOT / "docs" / "graphs.py", "graphs.pkl"]
    subprocess.run(words, cwd=folder, check=True, timeout=60)
    with (folder / "graphs.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_each_scene_of_a_graph_is_a_row(classes: ModuleType, tmp_path: Path) -> None:
    rows = run_program(tmp_path, pickle.dumps(films(classes), 0))
    values = {
        "emotions": "angry|calm, then sad",
        "interactions": "asks|looks at",
        "relationships": "",
        "situation": "party|quarrel",
        "place": "kitchen",
    }
    assert rows[0] == {"clip_id": "tt1-001", **values}
    scenes = ["tt1-001", "tt1-002", "tt1-003", "tt1-005", "tt2-112"]
    assert [row["clip_id"] for row in rows] == scenes


def test_no_code_of_the_file_runs(classes, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    graph = made(classes.MovieGraph, clip_graphs={}, castlist=[Runs()])
    data = pickle.dumps({**films(classes), "tt3": graph})
    pickle.loads(data)  # noqa: S301
    assert Path("ran").is_dir(), "an ordinary reader runs it"
    Path("ran").rmdir()
    assert len(run_program(tmp_path, data)) == 5
    assert not Path("ran").exists()
