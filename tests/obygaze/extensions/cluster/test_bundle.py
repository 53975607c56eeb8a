"""A bundle for a node without a network: what is missing, a second call, and a run on the node."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.checkpoints import hub_cache, save_tiny, tiny_card, write_tiny_card
from support.cli import ROOT, call_obygaze, environment, run_obygaze
from support.extraction import film_folder, keep_manifest

from obygaze.extensions.cluster import bundle
from obygaze.extensions.cluster.bundle import make_bundle
from obygaze_features.backbones import load_backbone
from obygaze_features.core.errors import FixUsage, ObygazeError
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.plan import (
    ExtractPlan,
    Target,
    make_plan,
    read_plan_file,
)
from obygaze_features.extraction.recipes import complete_target
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store import open_store

# A proxy that nobody answers: whatever asks the network fails.
NO_NETWORK = dict.fromkeys(
    ("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9"
)
PIP = {"PIP_CONFIG_FILE": "/dev/null", "PIP_NO_COMPILE": "1"}


@pytest.fixture
def place(workspace: Path) -> Path:
    """A workspace with a film of three clips, a card of a tiny checkpoint, and two plans."""
    keep_manifest(film_folder(workspace / "films", 3), workspace)
    write_tiny_card("clip", workspace / "backbones", "tests/tiny")
    for name in ("tiny-clip", "descriptors"):
        words = (
            "extract",
            "plan",
            "films",
            "-b",
            name,
            "--probe",
            "0",
            "-o",
            f"{name}.json",
        )
        call_obygaze(*words, cwd=workspace).ok()
    return workspace


def cached(place: Path) -> Path:
    """The folder of a hub cache that has the tiny checkpoint."""
    hub_cache(
        tiny_card("clip", "tests/tiny"),
        place / "hub",
        save_tiny("clip", place / "files"),
    )
    return place / "hub"


def test_what_is_missing_is_named_and_the_same_call_adds_it(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, folder = read_plan_file(place / "tiny-clip.json"), place / "night"
    monkeypatch.setenv("HF_HUB_CACHE", str(place / "hub"))
    # Weights that are missing are named before packages are downloaded.
    (missing,) = make_bundle(plan, folder, ["--no-such-option"])
    assert not (folder / "wheels").exists()
    assert (
        missing.message
        == "no weights for tiny-clip, and the environment forbids the network"
    )
    assert not list(folder.rglob("*.safetensors"))
    cached(place)
    with pytest.raises(ObygazeError, match="pip could not collect the packages"):
        make_bundle(plan, folder, ["--no-such-option"])
    assert not (folder / "wheels").exists()
    (folder / "wheels").mkdir()  # as a call leaves it that pip was done with
    assert make_bundle(plan, folder) == []
    (copy,) = folder.rglob("*.safetensors")
    assert copy.read_bytes() == (place / "files" / "model.safetensors").read_bytes()
    assert copy.resolve().is_relative_to(folder)


def test_weights_of_a_path_are_carried(place: Path) -> None:
    save_tiny("clip", place / "files")
    text = (place / "tiny-clip.json").read_text()
    text = text.replace('"weights": null', f'"weights": "{place / "files"}"')
    (place / "own.json").write_text(text)
    with pytest.raises(ObygazeError, match="pip"):
        make_bundle(
            read_plan_file(place / "own.json"), place / "night", ["--no-such-option"]
        )
    (place / "night" / "wheels").mkdir()
    assert make_bundle(read_plan_file(place / "own.json"), place / "night") == []
    (target,) = read_plan_file(place / "night" / "plan.json").targets
    assert (target.weights, target.store) == (
        "weights/tiny-clip/files",
        "stores/films.tiny-clip",
    )
    assert {path.name for path in (place / "night" / target.weights).iterdir()} == {
        *("config.json", "model.safetensors")
    }


@pytest.fixture
def tiny(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with the card of a tiny checkpoint, in which no wheels are collected."""
    monkeypatch.setattr(bundle, "_collect_wheels", lambda folder, words: None)
    write_tiny_card("clip", workspace / "backbones", "tests/tiny")
    return workspace


def own_plan(
    place: Path, weights: Sequence[Path | None], stores: Sequence[str]
) -> ExtractPlan:
    """A plan with a target of the tiny CLIP for each of some weights."""
    manifest = Manifest("films", Header("Films"), (Clip("a-1", "a"),))
    pairs = zip(weights, stores, strict=True)
    targets = [Target(store, "tiny-clip", path and str(path)) for path, store in pairs]
    return make_plan(manifest, targets, workspace=place)


def bundled(plan: ExtractPlan, folder: Path) -> list[Path]:
    """The weights of each target in a bundle."""
    assert make_bundle(plan, folder) == []
    targets = read_plan_file(folder / "plan.json").targets
    assert len({target.store for target in targets}) == len(targets)
    return [folder / (target.weights or "") for target in targets]


def test_two_weights_of_one_file_name_stay_two(tiny: Path) -> None:
    paths = []
    for seed in (0, 1):
        paths.append(
            save_tiny("clip", tiny / str(seed), seed=seed) / "model.safetensors"
        )
    plan = own_plan(tiny, [*paths, paths[0]], ["a/films", "b/films", "a/other"])
    copies = bundled(plan, tiny / "night")
    assert [copy.read_bytes() for copy in copies] == [
        path.read_bytes() for path in (*paths, paths[0])
    ]
    assert copies[0] == copies[2]


def test_a_single_file_of_weights_keeps_the_settings_beside_it(tiny: Path) -> None:
    path = save_tiny("clip", tiny / "files") / "model.safetensors"
    (tiny / "files" / "preprocessor_config.json").write_text('{"size": 32}')
    (tiny / "files" / "optimizer.pt").write_text("large")
    (copy,) = bundled(own_plan(tiny, [path], ["films"]), tiny / "night")
    names = {file.name for file in copy.parent.iterdir()}
    assert names == {"config.json", "model.safetensors", "preprocessor_config.json"}


def test_links_in_weights_are_followed(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = cached(tiny)
    (snapshot,) = hub.glob("*/snapshots/*")
    (copy,) = bundled(own_plan(tiny, [snapshot], ["films"]), tiny / "night")
    assert not any(path.is_symlink() for path in copy.rglob("*"))
    expected = (tiny / "files" / "model.safetensors").read_bytes()
    assert (copy / "model.safetensors").read_bytes() == expected
    # A cache whose large file is on another disk.
    (blob,) = [path for path in hub.glob("*/blobs/*") if path.read_bytes() == expected]
    blob.rename(tiny / "elsewhere")
    blob.symlink_to(tiny / "elsewhere")
    monkeypatch.setenv("HF_HUB_CACHE", str(hub))
    bundled(own_plan(tiny, [None], ["films"]), tiny / "again")
    (tiny / "elsewhere").unlink()
    (copied,) = (tiny / "again").rglob("*.safetensors")
    assert copied.read_bytes() == expected


def test_a_card_that_the_plan_names_by_its_path_is_carried(tiny: Path) -> None:
    card = write_tiny_card("clip", tiny / "cards").rename(
        tiny / "cards" / "tiny-clip.toml"
    )
    (tiny / "backbones" / "tiny-clip.toml").unlink()
    plan = own_plan(tiny, [save_tiny("clip", tiny / "files")], ["films"])
    plan = replace(plan, targets=(replace(plan.targets[0], backbone=str(card)),))
    bundled(plan, tiny / "night")
    (target,) = read_plan_file(tiny / "night" / "plan.json").targets
    assert target.backbone == "tiny-clip"
    assert (
        tiny / "night" / "backbones" / "tiny-clip.toml"
    ).read_bytes() == card.read_bytes()


def test_a_link_to_weights_keeps_its_name(tiny: Path) -> None:
    path = save_tiny("clip", tiny / "files") / "model.safetensors"
    path.rename(tiny / "blob")
    path.symlink_to(tiny / "blob")
    manifest = Manifest("films", Header("Films"), (Clip("a-1", "a"),))
    target = Target("", "tiny-clip", str(path))
    found = complete_target(target, manifest, Workspace(tiny)).weights
    assert found == str(path)
    assert (
        load_backbone("tiny-clip", found, workspace=Workspace(tiny)).geometry.frames
        == 3
    )


def test_a_folder_with_another_plan_and_own_code_are_refused(place: Path) -> None:
    (place / "night").mkdir()
    (place / "night" / "plan.json").write_text("{}")
    done = run_obygaze("bundle", "descriptors.json", "-o", "night", cwd=place)
    assert done.code == 1
    assert "not a bundle of this plan\n  in: night" in done.stderr
    text = (place / "descriptors.json").read_text()
    text = text.replace('"backbone": "descriptors"', '"backbone": "frames:mine:card"')
    (place / "own.json").write_text(text)
    done = run_obygaze("bundle", "own.json", "-o", "new", cwd=place)
    assert (done.code, (place / "new").exists()) == (2, False)
    assert "a module of own code cannot be bundled: frames:mine:card" in done.stderr


NET = """\
from pathlib import Path

import torch
import widths
from obygaze_features.backbones import module_card

TABLE = Path(__file__).parent / "tables" / "table.txt"


def load():
    torch.manual_seed(int(TABLE.read_text()))
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, widths.WIDTH))


def run(module, pixels):
    return {"clip": module(pixels.flatten(0, 1)).unflatten(0, pixels.shape[:2]).mean(1)}


def net():
    names = {"arrays": {"clip": [5]}, "frames": 4, "size": 8, "licence": "MIT"}
    return module_card("net", load, run, files=[FILES], **names)
"""


@pytest.mark.check("a process of a bundle")
def test_own_code_is_carried_with_what_it_imports(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "_collect_wheels", lambda folder, words: None)
    monkeypatch.chdir(workspace)
    keep_manifest(film_folder(workspace / "films", 3), workspace)
    code = workspace / "my code"
    (code / "tables").mkdir(parents=True)
    (code / "mine.py").write_text(NET.replace("FILES", "TABLE"), "utf-8")
    (code / "widths.py").write_text("WIDTH = 5\n", "utf-8")
    (code / "notes.py").write_text("nothing imports this\n", "utf-8")
    (code / "tables" / "table.txt").write_text("7", "utf-8")
    imported = {"mine.py", "widths.py"}
    for name, plan, files in (
        ("my code/mine.py:net", "own", {*imported, "tables/table.txt"}),
        ("frames:my code/mine.py:net", "frames", imported),  # the model is not loaded
    ):
        words = ("extract", "plan", "films", "-b", name, "--probe", "0")
        call_obygaze(*words, "-o", f"{plan}.json").ok()
        assert make_bundle(read_plan_file(Path(f"{plan}.json")), Path(plan)) == []
        (target,) = read_plan_file(Path(plan) / "plan.json").targets
        assert target.backbone.endswith("code/my code/mine.py:net")
        copied = {
            path.relative_to(plan).as_posix()
            for path in (Path(plan) / "code").rglob("*")
            if path.is_file()
        }
        assert copied == {f"code/my code/{file}" for file in files}
    call_obygaze("extract", "run", "own.json").ok()
    here = open_store(workspace / "stores" / "films.net")
    # On the node there is nothing but the bundle and the films.
    node = (workspace / "own").rename(workspace / "node")
    code.rename(workspace / "elsewhere")
    run_obygaze("extract", "run", "plan.json", cwd=node).ok()
    there = open_store(node / "stores" / "films.net")
    assert here.fingerprint == there.fingerprint
    assert np.array_equal(here.matrix("clip").values, there.matrix("clip").values)


def test_a_file_outside_of_the_folder_of_own_code_is_refused(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace)
    keep_manifest(film_folder(workspace / "films", 1), workspace)
    (workspace / "far.bin").write_bytes(b"1")
    code = workspace / "mine"
    code.mkdir()
    outside = 'Path(__file__).parents[1] / "far.bin"'
    (code / "net.py").write_text(NET.replace("FILES", outside), "utf-8")
    (code / "widths.py").write_text("WIDTH = 5\n", "utf-8")
    words = ("extract", "plan", "films", "-b", "mine/net.py:net", "--probe", "0")
    call_obygaze(*words, "-o", "plan.json").ok()
    with pytest.raises(FixUsage, match="names a file outside of the folder") as caught:
        make_bundle(read_plan_file(Path("plan.json")), Path("night"))
    assert caught.value.where == str(workspace / "far.bin")
    assert not Path("night").exists()


def names_of_builds(folder: Path) -> set[str]:
    """What a build leaves in the folder of its source."""
    return {path.name for path in (*folder.glob("build"), *folder.glob("*.egg-info"))}


def test_the_wheel_is_that_of_the_code_that_runs_and_its_folder_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("setuptools", minversion="77")
    other = tmp_path / "other"
    other.mkdir()
    (other / "pyproject.toml").write_text('[project]\nname = "obygaze"\n', "utf-8")
    installed = {"dir_info": {"editable": True}, "url": other.as_uri()}

    class Installed:
        def read_text(self, name: str) -> str:
            return json.dumps(installed)

    monkeypatch.setattr(bundle.metadata, "distribution", lambda name: Installed())
    before = names_of_builds(ROOT)
    source = bundle._source(tmp_path / "copy")
    words = ["--no-deps", "--no-build-isolation", "--quiet", f"obygaze{source}"]
    bundle._collect_wheels(tmp_path / "wheels", words)
    (wheel,) = (tmp_path / "wheels").iterdir()
    with zipfile.ZipFile(wheel) as files:
        built = files.read("obygaze/extensions/cluster/bundle.py")
        names = files.namelist()
    assert built == Path(bundle.__file__).read_bytes()
    assert "obygaze_models/protocols/runner/remarks.toml" in names
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]
    assert names_of_builds(ROOT) == before
    assert [path.name for path in other.iterdir()] == ["pyproject.toml"]


@pytest.mark.check("a clean installation")
@pytest.mark.timeout(900)
def test_the_commands_of_the_readme_run_on_a_machine_without_a_network(
    place: Path,
) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "click"]
    asked = subprocess.run(
        [*pip, "--dest", place / "asked"], capture_output=True, check=False
    )
    if asked.returncode:
        pytest.skip(
            f"no package index: {asked.stderr.decode().strip().splitlines()[-1]}"
        )
    # Without torch, whose packages take minutes to unpack; the tests above carry weights.
    words = (
        "descriptors.json",
        "-o",
        "night",
        "--json",
        "--",
        "-c",
        ROOT / "constraints.txt",
    )
    made = run_obygaze("bundle", *words, cwd=place, timeout=600).ok().json()
    assert made["folder"] == "night"
    run_obygaze("extract", "run", "descriptors.json", cwd=place).ok()

    node = (place / "night").rename(place / "node")
    readme = (node / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ (.*)", readme, re.MULTILINE)
    assert len(commands) == 3
    bare = {
        name: None
        for name in environment()
        if name.startswith(("PIP_", "HF_", "PYTHON"))
    }
    done = subprocess.run(
        ["bash", "-ec", "\n".join(commands)],
        cwd=node,
        env=environment({**bare, **NO_NETWORK, **PIP}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    here, there = (
        open_store(p / "stores" / "films.descriptors") for p in (place, node)
    )
    assert here.fingerprint == there.fingerprint
    assert np.array_equal(here.matrix("clip").values, there.matrix("clip").values)
