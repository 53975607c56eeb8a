"""Plugins that do not work: the rest goes on, and every error names the package it is from."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cli import call_obygaze, environment

import obygaze as og
from obygaze_features.core import plugins as plugins_module
from obygaze_features.core.errors import FixInput, ObygazeError, ObygazeWarning
from obygaze_features.core.plugins import (
    BACKBONES,
    DATASETS,
    MODELS,
    find_plugin,
    plugins,
)

DATASET = """
from dataclasses import replace
from pathlib import Path
import numpy as np
from obygaze_features.manifest import Clip, Header, ImportedManifest, Manifest

def read(files, *, name):
    clip = Clip("a-1", "a", level="S", concepts=("Body",))
    header = Header("Mine", {{"Body": "visual"}})
    manifest = Manifest(name, header, (clip,))
    return {returned}
"""
MODEL = """
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

class Mine(ClassifierMixin, BaseEstimator):
    def __init__(self{parameters}): ...
    def fit(self, X, y):
        self.seen_ = 1.0
        return {fitted}
    def predict(self, X):
        return {predicted}
    def decision_function(self, X):
        return {scores}
"""


@pytest.fixture(autouse=True)
def fresh_warnings() -> Iterator[None]:
    plugins_module.warn_once.cache_clear()
    yield
    plugins_module.warn_once.cache_clear()


def install(
    site: Path, group: str, name: str, value: str, source: str, package: str
) -> Path:
    """Make what installing a package leaves: its module, and its list of entry points."""
    module = value.partition(":")[0]
    site.mkdir(parents=True, exist_ok=True)
    (site / f"{module}.py").write_text(source, encoding="utf-8")
    info = site / f"{package.replace('-', '_')}-1.5.dist-info"
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.5\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    (info / "entry_points.txt").write_text(
        f"[{group}]\n{name} = {value}\n", encoding="utf-8"
    )
    importlib.invalidate_caches()  # a folder that was listed within the same tick
    return site


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path / "site")
    before = set(sys.modules)
    yield tmp_path / "site"
    for module in set(sys.modules) - before:
        if module.startswith("broken_"):
            del sys.modules[module]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such_package_at_all", "No module named 'no_such_package_at_all'"),
        ("raise RuntimeError('CUDA: out of memory')", "CUDA: out of memory"),
        ("raise SystemExit('no licence key')", "no licence key"),
        ("def card(: pass", "SyntaxError"),
        ("other = 1", "AttributeError"),
        ("card = 3", "must name a file or a folder of cards"),
        ("card = '/no/such/cards.toml'", "names cards that are not there"),
        ("def card(): 1 / 0", "division by zero"),
        ("def card(): return [1]", "must name a file or a folder of cards"),
    ],
)
def test_a_broken_backbone_is_skipped_with_one_warning_and_the_others_work(
    site: Path, source: str, reason: str
) -> None:
    install(site, BACKBONES, "mine", "broken_card:card", source, "gaze-cards")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        og.load_backbone("descriptors")
        og.load_backbone("descriptors")
    (warning,) = [each for each in caught if each.category is ObygazeWarning]
    assert "gaze-cards 1.5" in str(warning.message)
    assert reason in str(warning.message)
    # Who names the plugin itself gets the reason as an error.
    with pytest.raises(FixInput) as named:
        og.load_backbone("mine")
    assert reason in named.value.message
    assert "gaze-cards 1.5" in str(named.value)


def test_commands_warn_in_one_line_and_go_on(site: Path) -> None:
    install(site, BACKBONES, "mine", "broken_card:card", "1 / 0", "gaze-cards")
    result = call_obygaze("backbones", "ls", "descriptors").ok()
    assert "descriptors" in result.stdout
    assert result.stderr == (
        "Warning: a plugin is skipped: obygaze.backbones: mine = broken_card:card (gaze-cards 1.5)"
        " cannot be loaded: ZeroDivisionError: division by zero (broken_card.py, line 1)\n"
    )


def test_a_plugin_with_the_name_of_a_card_does_not_hide_the_cards(site: Path) -> None:
    card = site / "descriptors.toml"
    install(
        site,
        BACKBONES,
        "mine",
        "broken_card:card",
        f"card = {str(card)!r}",
        "gaze-cards",
    )
    card.write_text("schema = 'obygaze-backbone/1'\n", encoding="utf-8")
    with pytest.warns(ObygazeWarning, match=r"gaze-cards 1\.5.* two cards are called"):
        assert og.load_backbone("descriptors").card.name == "descriptors"


@pytest.mark.parametrize(
    "damage", [b"[obygaze.models]\nno equal sign\n", b"\xff\xfe[x]\nm = a\n"]
)
def test_a_damaged_list_of_entry_points_does_not_hide_those_of_others(
    site: Path, damage: bytes
) -> None:
    install(site, MODELS, "mine", "broken_model:Mine", "", "gaze-models")
    install(site, MODELS, "bad", "broken_other:Mine", "", "bad-list")
    (site / "bad_list-1.5.dist-info" / "entry_points.txt").write_bytes(damage)
    with pytest.warns(ObygazeWarning, match=r"a package is skipped.*bad-list 1\.5"):
        assert [plugin.name for plugin in plugins(MODELS)] == ["mine"]


def test_the_lists_of_packages_are_read_once_until_a_package_is_installed(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site, MODELS, "mine", "broken_model:Mine", "", "gaze-models")
    n_reads = 0
    entry_points = plugins_module.entry_points

    def counted(group: str) -> object:
        nonlocal n_reads
        n_reads += 1
        return entry_points(group=group)

    monkeypatch.setattr(plugins_module, "entry_points", counted)
    for _ in range(5):
        assert find_plugin(MODELS, "mine").package == "gaze-models 1.5"
    assert n_reads == 1
    install(site, MODELS, "other", "broken_other:Mine", "", "other-models")
    os.utime(site, ns=(1, 1))  # the clock of the file system may be coarse
    assert find_plugin(MODELS, "other").package == "other-models 1.5"
    assert n_reads == 2


def test_a_package_without_metadata_is_an_unknown_package(site: Path) -> None:
    install(site, MODELS, "mine", "broken_model:Mine", "", "gaze-models")
    (site / "gaze_models-1.5.dist-info" / "METADATA").unlink()
    where = "obygaze.models: mine = broken_model:Mine (an unknown package)"
    assert find_plugin(MODELS, "mine").where == where


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ("None", "must return an ImportedManifest, got None (NoneType)"),
        ("manifest", "must return an ImportedManifest, got Manifest("),
        (
            "ImportedManifest({})",
            "manifest of the ImportedManifest must be a Manifest, got {}",
        ),
        (
            "ImportedManifest(manifest, 'one')",
            "warnings of the ImportedManifest must be a tuple",
        ),
        (
            "ImportedManifest(replace(manifest, header=Header('Mine', ('Body',))))",
            "concepts of the Header must be a mapping of each concept to its modality,"
            " got ('Body',) (tuple)",
        ),
        (
            "ImportedManifest(replace(manifest, header=replace(header, licence=None)))",
            "licence of the Header must be a string, got None",
        ),
        (
            "ImportedManifest(replace(manifest, header=replace(header, sources=(files[0],))))",
            "sources of the Header must be a tuple of SourceFile",
        ),
        (
            "ImportedManifest(replace(manifest, clips={'a-1': clip}))",
            "clips of the Manifest must",
        ),
        (
            "ImportedManifest(replace(manifest, clips=('a-1',)))",
            "a Clip, got 'a-1' (str)",
        ),
        (
            "ImportedManifest(replace(manifest, columns='x'))",
            "columns of the Manifest must be",
        ),
        (
            "ImportedManifest(replace(manifest, clips=(replace(clip, concepts='Body'),)))",
            "concepts of the clip 'a-1' must be a tuple of strings, got 'Body' (str)",
        ),
        (
            "ImportedManifest(replace(manifest, clips=(replace(clip, scene='3'),)))",
            "scene of the clip 'a-1' must be a whole number, or None, got '3' (str)",
        ),
        (
            "ImportedManifest(replace(manifest, clips=(replace(clip, extra={'x': 1}),),"
            " columns=('x',)))",
            "extra of the clip 'a-1' must be a mapping of strings to strings",
        ),
        (
            "ImportedManifest(replace(manifest, clips=(clip, clip)))",
            "returned a manifest that is not valid",
        ),
        (
            "ImportedManifest(replace(manifest, clips=(replace(clip, start_s=9.0, end_s=2.0),)))",
            "returned a manifest that is not valid",
        ),
    ],
)
def test_what_a_data_set_returns_is_checked_at_the_door(
    site: Path, tmp_path: Path, returned: str, told: str
) -> None:
    source = DATASET.format(returned=returned)
    install(site, DATASETS, "mine", "broken_data:read", source, "gaze-data")
    with pytest.raises(FixInput) as caught:
        read_mine(tmp_path)
    assert told in caught.value.message
    assert "gaze-data 1.5" in str(caught.value)


def read_mine(folder: Path) -> og.Manifest:  # type: ignore[name-defined]
    from obygaze_features.manifest.installed import read_installed

    return read_installed(
        find_plugin(DATASETS, "mine"), [folder / "x.csv"], "mine"
    ).manifest


def test_numbers_of_numpy_and_lists_become_those_of_a_manifest(
    site: Path, tmp_path: Path
) -> None:
    returned = (
        "ImportedManifest(replace(manifest, clips=[replace(clip, scene=np.int64(3),"
        " start_s=np.float32(0.5), end_s=np.float64(2), concepts=['Body'])]))"
    )
    source = DATASET.format(returned=returned)
    install(site, DATASETS, "mine", "broken_data:read", source, "gaze-data")
    (clip,) = read_mine(tmp_path).clips
    assert (clip.scene, clip.start_s, clip.end_s) == (3, 0.5, 2.0)
    assert [type(value) for value in (clip.scene, clip.start_s, clip.end_s)] == [
        int,
        float,
        float,
    ]
    assert clip.concepts == ("Body",)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"fitted": "None"}, "must return itself from fit(), got None (NoneType)"),
        ({"fitted": "1 / 0"}, "failed in fit(): ZeroDivisionError"),
        ({"predicted": "1 / 0"}, "failed in predict(): ZeroDivisionError"),
        (
            {"predicted": "['S'] * len(X)"},
            "must return numbers for each of 4 rows from predict()",
        ),
        (
            {"predicted": "np.full(len(X), 7)"},
            "one class for each row from predict(), 0 to 1",
        ),
        ({"predicted": "np.zeros(1)"}, "must return numbers for each of 4 rows"),
        (
            {"predicted": "np.zeros((len(X), 2))"},
            "one class for each row from predict()",
        ),
        (
            {"scores": "np.full(len(X), np.nan)"},
            "must return numbers for each of 4 rows",
        ),
        (
            {"scores": "np.zeros((len(X), 2))"},
            "the shape (4,) from decision_function(), got (4, 2)",
        ),
    ],
)
def test_what_a_model_returns_is_checked_at_the_door(
    site: Path, changes: dict[str, str], told: str
) -> None:
    import numpy as np

    from obygaze_models.models.registry import build

    good = {"fitted": "self", "predicted": "np.zeros(len(X), int)", "scores": "X[:, 0]"}
    source = MODEL.format(parameters="", **{**good, **changes})
    install(site, MODELS, "mine", "broken_model:Mine", source, "gaze-models")
    X = np.arange(8.0).reshape(4, 2)
    with pytest.raises(FixInput) as caught:
        model = build("mine").fit(X, np.array(["EN", "S", "EN", "S"]))
        model.predict(X)
        model.decision_function(X)
    assert told in caught.value.message
    assert "gaze-models 1.5" in str(caught.value)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("Mine = 3", "or a function that returns one, got 3 (int)"),
        ("class Mine: ...", "must be the class of a classifier; it has no fit()"),
        (
            MODEL.format(parameters=", x", fitted="", predicted="", scores=""),
            "x has no default",
        ),
    ],
)
def test_a_model_that_is_no_classifier_is_refused_by_name(
    site: Path, source: str, told: str
) -> None:
    from obygaze_models.models.registry import default_settings

    install(site, MODELS, "mine", "broken_model:Mine", source, "gaze-models")
    with pytest.raises(ObygazeError) as caught:
        default_settings("mine")
    assert told in caught.value.message
    assert "gaze-models 1.5" in str(caught.value)


def test_a_function_that_returns_no_classifier_is_refused_by_name(site: Path) -> None:
    import numpy as np

    from obygaze_models.models.registry import build

    install(site, MODELS, "mine", "broken_model:Mine", "def Mine(): ...", "gaze-models")
    X = np.arange(8.0).reshape(4, 2)
    with pytest.raises(ObygazeError) as caught:
        build("mine").fit(X, np.array(["EN", "S", "EN", "S"]))
    assert "gaze-models 1.5" in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("arrays={'clip': 192}, frames=4, size=64, licence='MIT'", "TypeError"),
        (
            "arrays={'clip': [192]}, frames='4', size=64, licence='MIT'",
            "frames must be at least 1",
        ),
        (
            "arrays={'clip': [192]}, frames=4, size=0, licence='MIT'",
            "size must be at least 1",
        ),
        (
            "arrays={'clip': [192]}, frames=4, size=64, licence=None",
            "licence must be a string",
        ),
    ],
)
def test_a_card_is_checked_at_the_door(site: Path, arguments: str, told: str) -> None:
    pytest.importorskip("torch")
    source = (
        "from obygaze_features.backbones import module_card\n"
        f"def card(): return module_card('mine', print, print, {arguments})\n"
    )
    install(site, BACKBONES, "mine", "broken_card:card", source, "gaze-cards")
    with pytest.raises(FixInput) as caught:
        og.load_backbone("mine")
    assert told in caught.value.message
    assert "gaze-cards 1.5" in str(caught.value)


def test_a_broken_plugin_of_each_kind_leaves_every_help_alone(tmp_path: Path) -> None:
    site = tmp_path / "site"
    for group, name in ((BACKBONES, "cards"), (DATASETS, "data"), (MODELS, "models")):
        install(
            site,
            group,
            "mine",
            f"broken_{name}:x",
            "raise SystemExit(9)",
            f"gaze-{name}",
        )
    program = (
        "from obygaze.cli import run\n"
        "for words in (['manifest', 'import', '--help'], ['train', '--help'], ['--help']):\n"
        "    assert run(words) == 0\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment({"PYTHONPATH": str(site)}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
