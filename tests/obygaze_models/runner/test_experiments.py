"""`obygaze run` and `obygaze train` as a person types them."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from support.cli import call_obygaze
from support.experiments import films, planted, store_of, write_workspace

import obygaze as og
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.manifest.io import read_manifest, write_manifest
from obygaze_features.store import open_store
from obygaze_models.evaluation.tables import RUN_TABLES
from obygaze_models.runner.experiments import (
    named_store,
    open_stores,
    require_each_once,
    run,
)

QUICK = ("--set", "report.replicates=40", "--set", 'grid.models=["ridge", "mlp"]')
# For tests that are not of the numbers.
QUICKEST = (
    *("--set", "report.replicates=20", "--set", 'grid.models=["mlp"]'),
    *("--set", 'grid.train=["EN_S"]', "--set", 'grid.test=["EN_S"]'),
)


@pytest.fixture
def here(workspace: Path) -> Path:
    manifest = films(5, 24)
    write_workspace(workspace, manifest, planted(manifest))
    return workspace


def test_json_keeps_the_contract(here: Path) -> None:
    found = call_obygaze(
        "-C", here, "run", "honest", "--store", "x=sig", *QUICK, "--json"
    ).ok()
    document = found.json()
    assert set(document) >= {"run", "results", "seconds"}
    assert (Path(document["run"]) / "run.json").is_file()
    rows = document["results"]
    for row in rows:
        assert set(row) == set(RUN_TABLES["results.csv"])
        assert not row["film"]
        assert row["low"] is None or row["low"] <= row["high"]
        assert row["leaked"] == 0
    names = {row["model"] for row in rows}
    assert names >= {"ridge", "mlp", "random", "all_positive", "neighbour"}
    assert {row["metric"] for row in rows} >= {"f1_binary", "f1_weighted", "ap", "auc"}
    assert document["seconds"] > 0


def value_of(document: dict[str, Any], metric: str, model: str) -> float:
    """The value of a model in what `--json` prints."""
    (row,) = [
        row
        for row in document["results"]
        if (row["metric"], row["model"]) == (metric, model) and not row["against_model"]
    ]
    return float(row["value"])


def test_the_text_has_an_answer_a_table_and_what_misleads(here: Path) -> None:
    done = call_obygaze(
        *("-C", here, "run", "honest", "--store", "sig", *QUICK, "-o", "mine"),
        *("--set", "splits.kind=kfold", "--set", "splits.folds=4"),
    ).ok()
    lines = done.stdout.splitlines()
    assert lines[2].startswith("EN_S: easy negatives against sure; HN_S: hard")
    assert "n further clips of films that trained, ridge ranks" in lines[3]
    header = next(line for line in lines if line.startswith("AP "))
    assert header.split()[1:] == ["clips", "positive", "ridge", "mlp", "best", "guess"]
    warnings = [line for line in lines if line.startswith("! ")]
    assert any("other films on both sides" in line for line in warnings)
    assert str(here / "runs" / "mine") in lines[-1]


def test_train_says_that_it_keeps_a_run_and_a_model_of_one_name(here: Path) -> None:
    quick = ("--set", "report.replicates=20")
    call_obygaze(
        "-C", here, "run", "honest", "--store", "x=sig", *QUICKEST, "-o", "a"
    ).ok()
    refused = call_obygaze(
        "-C", here, "train", "ridge", "sig", "made-up", *quick, "-o", "a"
    )
    assert refused.code == 1
    assert "another run has this name" in refused.stderr
    assert "train keeps a run and a model of one name" in refused.stderr


def test_the_same_training_again_replaces_its_model_whatever_the_card_says(
    tmp_path: Path,
) -> None:
    """The run was replaced, and then the model refused, as the licence had been added."""
    manifest = films(3, 24)
    X = planted(manifest)
    trained = []
    for licence in ("", "CC0-1.0"):
        header = structs.replace(manifest.header, licence=licence)
        write_manifest(
            replace(manifest, header=header),
            tmp_path / "manifests" / "made-up.toml",
            force=True,
        )
        if not licence:
            store_of(tmp_path / "stores" / "sig", manifest, X)
        changes = ["report.replicates=2"]
        words = {"changes": changes, "output": "kept", "workspace": tmp_path}
        trained.append(og.train("ridge", "sig", "made-up", **words).model)
    assert [model.info.training.licence for model in trained] == ["", "CC0-1.0"]


@pytest.mark.parametrize("name", [".", "..", "./", "runs/", "stores/", "../home"])
@pytest.mark.parametrize("command", ["run", "train"])
def test_force_writes_into_no_folder_of_the_workspace(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, command: str, name: str
) -> None:
    here = workspace / "home"
    manifest = films(5, 24)
    write_workspace(here, manifest, planted(manifest))
    (here / "results.csv").write_text("years")
    monkeypatch.chdir(here)
    before = sorted(here.rglob("*"))
    words = (
        ("honest", "--store", "sig")
        if command == "run"
        else ("ridge", "sig", "made-up")
    )
    done = call_obygaze(command, *words, "-o", name, "--force")
    assert done.code == 2
    assert "--force" not in done.stderr
    assert sorted(here.rglob("*")) == before
    assert (here / "results.csv").read_text() == "years"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("paper-tabel2",), 1, "did you mean 'paper-table2'"),
        (("honest", "--store", "x=absent"), 1, "no store called 'absent'"),
        (("honest", "--store", "=sig"), 2, "NAME=STORE"),
        (
            ("honest", "--store", "a=sig", "--store", "a=sig"),
            2,
            "--store names 'a' twice",
        ),
        (("honest",), 2, "models need features"),
        (
            ("honest", "--manifest", "nobody", "--store", "x=sig"),
            1,
            "no manifest called 'nobody'",
        ),
        (
            ("honest", "--store", "x=sig", "--set", "fit.sed=1"),
            1,
            "did you mean 'seed'",
        ),
        (
            ("honest", "--store", "x=sig", "--set", "data.where=f(level)"),
            1,
            "expected a column or a value",
        ),
        (
            ("paper-table2", "--store", "x=sig"),
            1,
            "published view needs the published split",
        ),
    ],
)
def test_bad_input_is_three_lines_at_most(
    here: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    done = call_obygaze("-C", here, "run", *words)
    assert done.code == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (here / "runs").exists()


def test_a_protocol_of_ones_own(here: Path) -> None:
    own = here / "own.toml"
    own.write_text(
        'schema = "obygaze-protocol/1"\n'
        "[tasks.bodies]\n"
        "positive = 'Body in concept'\n"
        "negative = 'level == EN'\n"
        "[splits]\nkind = 'nested'\nfolds = 3\n"
        "[models.svm]\nkind = 'svm'\nC = 0.1\n"
        "[report]\nreplicates = 40\n",
        encoding="utf-8",
    )
    done = (
        call_obygaze("-C", here, "run", own, "--store", "x=sig", "--json").ok().json()
    )
    assert {row["task"] for row in done["results"]} == {"bodies"}
    assert value_of(done, "auc", "svm") > 0.7
    of_svm = {row["metric"] for row in done["results"] if row["model"] == "svm"}
    assert "brier" not in of_svm  # a machine has margins, not probabilities


@pytest.mark.parametrize("command", ["run", "train"])
@pytest.mark.parametrize(
    ("key", "first", "second"),
    [
        ("splits.never", '["tt0000001"]', '["tt0000002"]'),
        ("grid.baselines", '["random"]', '["prevalence"]'),
        ("fit.seed", "1", "2"),
        ("data.where", "level != NS", "level != HN or scene > 9"),
    ],
)
def test_a_key_has_one_value(
    here: Path, command: str, key: str, first: str, second: str
) -> None:
    """The first one was lost without a word: its films were tested, its clips were taken."""
    words = ["-C", here, command]
    words += ["ridge", "sig", "made-up"] if command == "train" else ["--store", "x=sig"]
    changes = ["--set", f"{key}={first}", "--set", f" {key} ={second}"]
    done = call_obygaze(*words, *changes)
    assert done.code == 2
    assert f"--set {key} is given twice, with {first} and with {second}" in done.stderr
    assert not (here / "runs").exists()
    require_each_once([f"{key}={first}", f"{key}={first}", "fit.seeds=2"])


def test_the_hint_selects_the_clips_of_both_expressions(here: Path) -> None:
    both = ["data.where=level == S or scene > 20", "data.where=scene != 23"]
    with pytest.raises(FixUsage) as raised:
        require_each_once(both)
    assert raised.value.hint is not None
    _, change, *_ = shlex.split(raised.value.hint)
    changes = [change, "grid.models=['ridge']", "report.replicates=2"]
    found = run("honest", "sig", "made-up", changes=changes, workspace=here)
    expected = set()
    for clip in read_manifest("made-up", workspace=here):
        assert clip.scene is not None
        if (clip.level == "S" or clip.scene > 20) and clip.scene != 23:
            expected.add(clip.clip_id)
    assert found.about["manifest"]["n_clips"] == len(expected)
    assert set(found.predictions["clip_id"]) <= expected


class TestTrain:
    FAST = ("--set", "report.replicates=40")

    def test_a_model_is_judged_kept_and_asked(self, here: Path) -> None:
        words = ("-C", here, "train", "logistic", "sig", "made-up", "--task", "ENHN_S")
        words = (*words, "-o", "mine", *self.FAST)
        document = call_obygaze(*words, "--json").ok().json()
        auc = value_of(document, "auc", "logistic")
        assert auc > 0.65
        assert document["model"].endswith("models/mine")
        kept = json.loads((here / "models" / "mine" / "model.json").read_text("utf-8"))
        assert kept["task"] == "ENHN_S"
        assert kept["metrics"]["auc"]["value"] == pytest.approx(auc)
        asked = call_obygaze("-C", here, "models", "predict", "mine", "sig").ok()
        assert len(asked.stdout.splitlines()) == 1 + 120

    def test_another_model_is_refused_before_the_training(self, here: Path) -> None:
        words = ("-C", here, "train", "ridge", "sig", "made-up", "-o", "mine")
        call_obygaze(*words, *self.FAST).ok()
        call_obygaze(*words, *self.FAST).ok()
        shutil.rmtree(here / "runs" / "mine")
        done = call_obygaze(*words, *self.FAST, "--set", "fit.seed=1")
        assert (done.code, "another model has this name" in done.stderr) == (1, True)
        assert not (here / "runs" / "mine").exists()

    def test_a_path_is_no_name_of_a_run_and_a_model(self, here: Path) -> None:
        words = ("train", "ridge", "sig", "made-up", "-o")
        done = call_obygaze("-C", here, *words, here / "a" / "b")
        assert (done.code, "expected a name for the run" in done.stderr) == (2, True)
        assert "Try: -o b for runs/b and models/b" in done.stderr
        assert not (here / "a").exists() and not (here / "models").exists()

    def test_what_cannot_be_trained(self, here: Path) -> None:
        done = call_obygaze("-C", here, "train", "rigde", "sig", "made-up")
        assert (done.code, "did you mean 'ridge'" in done.stderr) == (2, True)
        done = call_obygaze(
            "-C", here, "train", "ridge", "sig", "made-up", "--task", "ENS"
        )
        assert (done.code, "did you mean 'EN_S'" in done.stderr) == (2, True)

    @pytest.mark.parametrize(
        ("change", "asked"),
        [
            ("model.kind=logistic", "logistic"),
            ("models.ridge.kind=svm", "svm"),
            ("models.ridge={kind='svm', C=1.0}", "svm"),
            ("model.kind=sklearn.svm.LinearSVC", "sklearn.svm.LinearSVC"),
            ('grid.models=["mlp", "ridge"]', "mlp"),
        ],
    )
    def test_no_other_model_is_trained_under_its_name(
        self, here: Path, change: str, asked: str
    ) -> None:
        """The run said that ridge ranks clips, and the model was a logistic one."""
        words = ("-C", here, "train", "ridge", "sig", "made-up", "--set", change)
        done = call_obygaze(*words)
        assert done.code == 2
        said = f"the model to train is ridge, and --set asks for {asked}\n"
        assert said in done.stderr
        assert not (here / "runs").exists()


@pytest.mark.parametrize(
    ("word", "name", "place"),
    [
        ("films", "films", "films"),
        ("x=films", "x", "films"),
        ("x=/data/lr=0.1/films", "x", "/data/lr=0.1/films"),
        ("/data/lr=0.1", "lr-0.1", "/data/lr=0.1"),
        ("./a=b/films/", "films", "./a=b/films/"),
        ("https://host/films?token=a=b", "films", "https://host/films?token=a=b"),
        ("x=https://host/films?token=a", "x", "https://host/films?token=a"),
        ("hf://lab/films@refs/pr/1", "films", "hf://lab/films@refs/pr/1"),
        ("s3://lab/run=3/films", "films", "s3://lab/run=3/films"),
    ],
)
def test_the_place_of_a_store_may_have_an_equals_sign(
    word: str, name: str, place: str
) -> None:
    assert named_store(word) == (name, place)


def test_stores_are_names_paths_objects_or_several_of_them(here: Path) -> None:
    store = open_store(here / "stores" / "sig")
    one_name = ("sig", here / "stores" / "sig", store, ["sig"], [store])
    for stores in one_name:
        assert list(open_stores(stores, here)) == ["sig"]
    assert open_stores({"x": store}, None) == {"x": store}
    with pytest.raises(FixUsage, match="a store has an empty name"):
        open_stores({"": store}, None)
    assert list(open_stores(["b=sig", "a=sig", store], here)) == ["b", "a", "sig"]
    assert open_stores(None, here) == {}
    with pytest.raises(FixUsage, match="--store names 'sig' twice"):
        open_stores([store, store], here)


def test_no_clips_are_not_taken_for_no_manifest(here: Path) -> None:
    """The only manifest of the workspace took the place of one without clips."""
    none = read_manifest("made-up", workspace=here).with_clips(())
    with pytest.raises(FixInput, match="no clip matches"):
        run("honest", "sig", none, workspace=here)
