"""Plugins: the package of docs/plugins.md, installed into a folder of its own."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from support.cli import ROOT, environment
from support.experiments import films, planted, write_workspace
from support.pages import blocks, run_block

# What its tests share is made once: they stay in one process.
pytestmark = [
    pytest.mark.check("follows docs/plugins.md and installs its package"),
    pytest.mark.xdist_group("plugins"),
]

PAGE = ROOT / "docs" / "plugins.md"
FILMS = replace(films(), name="films")


def python(script: str, home: Path, site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=home,
        env=environment({"PYTHONPATH": str(site)}),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A workspace in which the page was followed, its package in the folder `site`."""
    pytest.importorskip("torch")
    home = tmp_path_factory.mktemp("plugins")
    pip = f"{sys.executable} -m pip install -q --no-deps --no-build-isolation --target site "
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    write_workspace(home / "demo", FILMS, planted(FILMS), "films.descriptors")
    for block in blocks(PAGE):
        if block.text.strip() == "$ obygaze demo":
            continue  # the workspace is there
        if "find_text.py" in block.commands:
            continue  # needs other packages; test_example_models runs its functions
        run_block(block, home)
        if block.language == "console":
            commands = block.commands.replace("pip install ", pip).replace(
                "obygaze demo", "true"
            )
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", commands],
                cwd=home,
                env=environment({"PATH": path, "PYTHONPATH": str(home / "site")}),
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
    yield home


def test_templates_are_short() -> None:
    files = {b.marks.get("file", ""): len(b.text.splitlines()) for b in blocks(PAGE)}
    modules = {name: n for name, n in files.items() if name.endswith(".py")}
    assert len(modules) == 13 and max(modules.values()) <= 40


def test_a_data_set_is_imported_and_names_its_package(home: Path) -> None:
    rows = (home / "manifests" / "piers.csv").read_text("utf-8").splitlines()
    assert [row.split(",")[:2] for row in rows[1:]] == [
        ["pier-1", "pier"],
        ["pier-2", "pier"],
        ["quay-1", "quay"],
    ]
    assert '"read by gaze-plugins 1.0"' in (
        home / "manifests" / "piers.toml"
    ).read_text("utf-8")


def test_a_model_is_evaluated_saved_and_used(home: Path) -> None:
    run = json.loads((home / "demo/runs/nearest/run.json").read_bytes())
    settings = {"shrink": 0.1, "package": "gaze-plugins 1.0"}
    assert run["protocol"]["models"] == {
        "nearest-mean": {
            "kind": "nearest-mean",
            "settings": settings,
            "draws": 0,
            "drawn": [],
        }
    }
    folder = home / "demo/models/nearest"
    saved = json.loads((folder / "model.json").read_bytes())["estimator"]["params"]
    assert saved == {"plugin": "nearest-mean", "settings": settings}
    # The means of the sure and of the other labelled clips, a tenth of the way to their mean.
    X = planted(FILMS)
    levels = np.array([clip.level for clip in FILMS])
    rows = np.isin(levels, ["EN", "S"])
    sides = np.stack([X[rows & (levels != "S")].mean(0), X[levels == "S"].mean(0)])
    found = load_file(folder / "model.safetensors")["estimator_/means_"]
    np.testing.assert_allclose(found, 0.9 * sides + 0.1 * X[rows].mean(0), atol=1e-6)
    predicted = (home / "nearest.csv").read_text("utf-8").splitlines()
    assert predicted[0] == "clip_id,movie_id,basis,decision,score:positive"
    assert len(predicted) == 1 + len(FILMS)


def obygaze(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the demo's workspace, with the package of the page."""
    return subprocess.run(
        [sys.executable, "-m", "obygaze", "-C", "demo", *words],
        cwd=home,
        env=environment({"PYTHONPATH": str(home / "site")}),
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_command_is_one_of_the_program(home: Path) -> None:
    counts = Counter(clip.movie_id for clip in FILMS)
    found = json.loads(obygaze(home, "shares", "films", "--json").stdout)
    found.pop("json_version")
    assert found == counts
    assert str(dict(counts)) in obygaze(home, "shares", "films").stdout
    listed = obygaze(home, "--help").stdout
    assert "shares Count the clips of each film." in " ".join(listed.split())
    described = " ".join(obygaze(home, "shares", "--help").stdout.split())
    assert "--least NUMBER Leave out films with fewer clips. [default: 1]" in described
    wrong = obygaze(home, "shares", "nothing")
    assert wrong.returncode == 1 and "no manifest called 'nothing'" in wrong.stderr


def test_an_analysis_has_its_section_in_the_report(home: Path) -> None:
    page = (home / "demo/runs/nearest/report.html").read_text("utf-8")
    assert "Predictions by film" in page
    table = (home / "demo/runs/nearest/tables/audit-tested.csv").read_text("utf-8")
    rows = (home / "demo/runs/nearest/predictions.csv").read_text("utf-8").splitlines()
    films = Counter(line.split(",")[1] for line in rows[1:])
    assert table.splitlines()[1:] == [f"{film},{n}" for film, n in films.items()]
    (film, n), *_ = films.most_common(1)
    assert f"The film with most predictions is {film} ({n})." in page
    text = (home / "demo/runs/nearest/report.md").read_text("utf-8")
    assert "![Predictions by film](figures/gaze-tested.png)" in text


def test_a_metric_has_values_and_a_column(home: Path) -> None:
    run = home / "demo/runs/specific"
    records = json.loads((run / "results.json").read_bytes())
    cells = [r for r in records if r["kind"] == "cell"]
    with (run / "predictions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for cell in cells:
        named = ("task", "train", "test", "model", "feature")
        of_cell = [r for r in rows if all(r[k] == cell[k] for k in named)]
        negative = [row for row in of_cell if row["y"] == "0"]
        called = [row for row in negative if row["decision"] == "0"]
        assert cell["specificity"]["value"] == pytest.approx(
            len(called) / len(negative)
        )
    baselines = [r for r in records if r["kind"] == "baseline"]
    guesses = [r for r in baselines if r["model"] == "random"]
    assert guesses
    for guess in guesses:
        assert guess["specificity"]["value"] == pytest.approx(0.5)
    assert "specificity" in (run / "report.html").read_text("utf-8")
    about = json.loads((run / "run.json").read_bytes())
    assert about["plugins"] == {"metrics": {"specificity": "gaze-plugins 1.0"}}
    provenance = (run / "tables/provenance.csv").read_text("utf-8")
    assert "plugin (metrics),specificity,gaze-plugins 1.0" in provenance
    assert "plugin (analyses),tested,gaze-plugins 1.0" in provenance


def test_a_baseline_and_a_kind_of_splits_are_used(home: Path) -> None:
    run = home / "demo/runs/parity"
    with (run / "predictions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    fold_of_film = {(row["clip_id"].split("-")[0], row["fold"]) for row in rows}
    films_of_fold = Counter(fold for _, fold in fold_of_film)
    assert sorted(films_of_fold.values()) == [3, 3]
    scores = {r["clip_id"]: float(r["score"]) for r in rows if r["model"] == "later"}
    scene = {clip.clip_id: clip.scene for clip in FILMS}
    last = max(clip.scene or 0 for clip in FILMS)
    assert scores == {clip: pytest.approx(scene[clip] / last) for clip in scores}


def test_a_scheme_makes_the_splits_of_a_protocol(home: Path) -> None:
    script = """
import numpy as np
from obygaze_features.manifest import read_manifest
from obygaze_models.protocols.reading import load_protocol, protocol_names
assert "piers" in protocol_names()
protocol = load_protocol("piers")
assert protocol.splits.scheme == "halves"
assert protocol.models["ridge"].settings["class_weight"] == "none"
films = read_manifest("films", workspace="demo")
folds = {clip.clip_id: str(i % 4) for i, clip in enumerate(films)}
from obygaze_models.protocols.clips import clip_table, task_labels
from obygaze_models.protocols.schedule import schedule
table = clip_table(films.with_column("fold:piers", folds), protocol.data)
labels = {"S": np.array([int(clip.level == "S") for clip in table.clips])}
plan = schedule(protocol, table, labels, np.ones(len(table), dtype=bool))
(split,) = plan.pairs["S", "S"]
number = np.arange(len(table)) % 4
assert split.train.tolist() == np.flatnonzero(number % 2 == 0).tolist()
assert split.test.tolist() == np.flatnonzero(number == 1).tolist()
"""
    done = python(script, home, home / "site")
    assert done.returncode == 0, done.stderr
    unknown = obygaze(home, "run", "honest", "--set", "splits.scheme=halve")
    assert "did you mean 'halves'?" in unknown.stderr


def test_means_are_those_of_numpy_and_another_version_is_refused(home: Path) -> None:
    script = """
import numpy as np
from obygaze_models.models.registry import build, kind_names
from obygaze_models.models.estimator import load_state, save_state
assert kind_names()[-1] == "nearest-mean"
X = np.array([[0.0, 0], [2, 0], [0, 4], [2, 8]])
model = build("nearest-mean", {"shrink": 0.5}).fit(X, np.array(["EN", "EN", "S", "S"]))
description, arrays = save_state(model)
# The means are (1, 0) and (1, 6), that of all rows (1, 3): half way.
np.testing.assert_array_equal(arrays["estimator_/means_"], [[1, 1.5], [1, 4.5]])
again = load_state(description, arrays)
# At (1, 2) the squared distances are 0.25 and 6.25; at (9, 3) they are equal.
assert again.decision_function([[1, 2], [9, 3]]).tolist() == [0.25 - 6.25, 0]
assert again.predict([[1, 2], [1, 4]]).tolist() == ["EN", "S"]
assert not hasattr(again, "predict_proba")
description["params"]["settings"]["package"] = "gaze-plugins 0.9"
load_state(description, arrays)
"""
    done = python(script, home, home / "site")
    assert "Mismatch: " in done.stderr, done.stderr
    assert (
        "of the package gaze-plugins 0.9; installed is gaze-plugins 1.0" in done.stderr
    )
    absent = python(
        "import obygaze as og; og.load_model('nearest', workspace='demo')", home, home
    )
    assert "is of the package gaze-plugins 1.0, which is not installed" in absent.stderr
    assert "pip install 'gaze-plugins==1.0'" in absent.stderr
    show = "from obygaze_models.zoo.overview import show_model; "
    shown = python(f"{show}print(show_model('nearest', workspace='demo'))", home, home)
    assert "A model of the kind `nearest-mean` for the task **EN_S**" in shown.stdout, (
        shown.stderr
    )


def test_models_of_other_state_settings_or_names_are_refused(home: Path) -> None:
    script = """
from sklearn.neighbors import KNeighborsClassifier
import gaze_model, numpy as np
from obygaze_features.core.errors import ObygazeError
from obygaze_models.models import registry
from obygaze_models.models.estimator import save_state

class Needy(gaze_model.NearestMean):
    def __init__(self, shrink): ...

def said(function):
    try:
        function()
    except ObygazeError as error:
        print(error.message)

X, y = np.eye(6), np.array([0, 1] * 3)
said(lambda: registry.build("nearest-mean", {"package": "gaze-plugins 2"}))
said(lambda: registry.build("nearest-men"))
gaze_model.NearestMean = KNeighborsClassifier
print("skops" in save_state(registry.build("nearest-mean", {"n_neighbors": 1}).fit(X, y))[1])
gaze_model.NearestMean = Needy
said(lambda: registry.build("nearest-mean"))
del gaze_model.NearestMean
said(lambda: registry.build("nearest-mean"))
"""
    done = python(script, home, home / "site")
    lines = done.stdout.splitlines()
    assert len(lines) == 5, done.stdout + done.stderr
    assert lines[0].startswith("package must be one of gaze-plugins 1.0")
    assert lines[1] == "unknown model kind 'nearest-men' (did you mean 'nearest-mean'?)"
    assert lines[2] == "True"  # what is no array is saved with skops
    assert lines[3] == "the parameter shrink has no default"
    assert "cannot be loaded: AttributeError" in lines[4]


def test_what_a_data_set_returns_is_checked(home: Path) -> None:
    for body, said in (
        (
            "{'clips': 3}",
            "the plugin must return an ImportedManifest, got {'clips': 3} (dict)",
        ),
        ("1 / 0", "failed: ZeroDivisionError: division by zero"),
        ("read(['absent.csv'], name=name)", "FileNotFoundError"),
    ):
        script = f"""
import gaze_data, sys
from obygaze.__main__ import main
read = gaze_data.read
gaze_data.read = lambda files, name: {body}
sys.argv = ["obygaze", "manifest", "import", "piers", "piers.csv", "-o", "x"]
main()
"""
        done = python(script, home, home / "site")
        assert said in done.stderr and done.returncode == 1, done.stderr
    assert not (home / "manifests" / "x.toml").exists()


def test_two_packages_of_one_name_are_an_error(home: Path) -> None:
    other = home / "other"
    info = other / "more_gazes-2.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: more-gazes\nVersion: 2.0\n"
    )
    (info / "entry_points.txt").write_text(
        "[obygaze.models]\nnearest-mean = gaze_model:Other\n"
    )
    script = "from obygaze_models.models.registry import build; build('nearest-mean')"
    path = os.pathsep.join([str(home / "site"), str(other)])
    done = python(script, home, Path(path))
    assert "two packages add 'nearest-mean'" in done.stderr
    assert "more-gazes 2.0" in done.stderr and "gaze-plugins 1.0" in done.stderr
