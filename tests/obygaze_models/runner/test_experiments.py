"""`obygaze run` and `obygaze train` as a person types them, from every folder."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.experiments import films, planted, store_of, write_workspace
from support.stores import a_recipe

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.manifest.io import read_manifest
from obygaze_features.store import open_store
from obygaze_models.evaluation.tables import RUN_TABLES
from obygaze_models.protocols.reading import require_each_once
from obygaze_models.report.page import make_chapter
from obygaze_models.runner.experiments import open_stores, run, split_store_name
from obygaze_models.runner.labels import current_labels
from obygaze_models.runner.text import read_run

QUICK = ("--set", "report.replicates=40", "--set", 'grid.models=["ridge"]')
BARE = ("--set", "report.concepts=false", "--set", "report.contrast=[]")
ONE_PAIR = ("--set", 'grid.train=["EN_S"]', "--set", 'grid.test=["EN_S"]')


@pytest.fixture
def here(workspace: Path) -> Path:
    manifest = films(5, 24)
    write_workspace(workspace, manifest, planted(manifest))
    return workspace


def test_json_keeps_the_contract(here: Path) -> None:
    found = call_obygaze(
        *("-C", here, "run", "honest", "--store", "x=sig"),
        *(*QUICK, *ONE_PAIR, *BARE, "--json"),
    ).ok()
    document = found.json()
    assert set(document) >= {"run", "results", "seconds"}
    folder = Path(document["run"])
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["predictions.csv", "results.csv", "run.json"]
    for name in names[:2]:
        header = (folder / name).read_text("utf-8").partition("\n")[0]
        assert header.split(",") == list(RUN_TABLES[name])
    assert tuple(RUN_TABLES["results.csv"])[:11] == (
        *("task", "train", "test", "store", "model"),
        *("against_train", "against_store", "against_model"),
        *("film", "metric", "value"),
    )
    rows = document["results"]
    for row in rows:
        assert set(row) == set(RUN_TABLES["results.csv"])
        assert not row["film"]
        assert row["low"] is None or row["low"] <= row["high"]
        assert row["leaked"] == 0
    names = {row["model"] for row in rows}
    assert names >= {"ridge", "random", "all_positive", "neighbour"}
    assert {row["metric"] for row in rows} >= {"f1_binary", "f1_weighted", "ap", "auc"}
    assert document["seconds"] > 0


@pytest.mark.parametrize("name", [".", "../home"])
def test_force_writes_into_no_folder_of_the_workspace(workspace, monkeypatch, name):
    here = workspace / "home"
    manifest = films(5, 24)
    write_workspace(here, manifest, planted(manifest))
    (here / "results.csv").write_text("years")
    monkeypatch.chdir(here)
    before = sorted(here.rglob("*"))
    for words in (
        ("run", "honest", "--store", "sig"),
        ("train", "ridge", "--store", "sig", "--manifest", "made-up"),
    ):
        assert call_obygaze(*words, "-o", name, "--force").code == 2
    assert sorted(here.rglob("*")) == before
    assert (here / "results.csv").read_text() == "years"


def test_a_store_without_a_name_is_refused(here: Path) -> None:
    done = call_obygaze("-C", here, "run", "honest", "--store", "=sig")
    assert done.code == 2
    assert "NAME=STORE" in done.stderr
    assert not (here / "runs").exists()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('splits.never=["tt0000001"]', ' splits.never =["tt0000002"]'),
        ("data.where=level != NS", "data.where=level != HN or scene > 9"),
        ("models.ridge.class_weight=none", 'models.ridge.class_weight.grid=["none"]'),
        ('grid.models=["mlp"]', 'grid={models = ["ridge"]}'),
    ],
)
def test_a_key_has_one_value(first: str, second: str) -> None:
    for both in ([first, second], [second, first]):
        with pytest.raises(FixUsage, match="one key has two values") as refused:
            require_each_once(both)
        assert f"--set {first}" in str(refused.value)
        assert f"--set {second}" in str(refused.value)
        # A table in the place of one value would lose its other keys.
        hint = "use one --set for each key: grid.KEY=VALUE"
        assert (refused.value.hint == hint) == first.startswith("grid.models")
    require_each_once([first, first, "fit.seeds=2"])


def test_a_setting_of_the_trained_model_has_one_value(here: Path) -> None:
    settings = ("--set", "model.C=1", "--set", "models.logistic.C=2")
    done = call_obygaze("-C", here, "train", "logistic", "--store", "sig", *settings)
    assert done.code == 2
    assert "one key has two values" in done.stderr


TRAIN_RIDGE = ("train", "ridge", "--store", "sig", "--manifest", "made-up")
FAST = ("--set", "report.replicates=40")


def test_a_model_knows_that_its_features_need_weights_of_their_own(here: Path) -> None:
    call_obygaze("-C", here, *TRAIN_RIDGE, *FAST, "-o", "mine").ok()
    missing = call_obygaze("-C", here, "models", "predict", "mine", "made-up.toy")
    command = "Try: obygaze extract run made-up -b toy, with --weights if it computed"
    assert command in missing.stderr
    of_hub = a_recipe(backbone={"name": "toy", "checkpoint": "lab/toy"})
    assert not of_hub.has_local_weights
    assert not a_recipe(weights={}).has_local_weights


def test_a_card_has_no_metric_that_ranks_nothing(workspace: Path) -> None:
    """In folds of one class, AUC is undefined, and AP is 1 for every order."""
    manifest = films(6, 8)
    clips = []
    for clip in manifest:
        is_sure = clip.movie_id in manifest.films[:3]
        labels = {"level": "S", "concepts": ("Look",)} if is_sure else {"level": "EN"}
        clips.append(replace(clip, **{"concepts": (), **labels}))
    of_one_class = manifest.with_clips(clips)
    write_workspace(workspace, of_one_class, planted(manifest))
    done = call_obygaze("-C", workspace, *TRAIN_RIDGE, *FAST, "-o", "kept").ok()
    assert "all tested clips are positive: 3 of 6 (EN_S)" in done.stdout
    shown = call_obygaze("-C", workspace, "models", "show", "kept", "--json").ok()
    assert set(shown.json()["metrics"]) == {"f1_binary", "f1_weighted"}


def test_a_repeated_training_replaces_no_model_of_others(here: Path) -> None:
    """A model of this name that was pulled was lost."""
    words = ("-C", here, "train")
    ridge = (*words, "ridge", "--store", "sig", *FAST)
    call_obygaze(*ridge, "-o", "mine").ok()
    call_obygaze(*ridge, "-o", "mine").ok()
    call_obygaze(*words, "logistic", "--store", "sig", *FAST, "-o", "theirs").ok()
    shutil.rmtree(here / "models" / "mine")
    call_obygaze(
        "-C", here, "models", "pull", here / "models/theirs", "-o", "mine"
    ).ok()
    refused = call_obygaze(*ridge, "-o", "mine")
    assert "a model with this name exists" in refused.stderr
    shown = call_obygaze("-C", here, "models", "show", "mine", "--json").ok()
    assert shown.json()["kind"] == "logistic"
    # So does a model of the same kind, name and run that another laboratory trained.
    other = here / "laboratory"
    manifest = films(6, 8, seed=7)
    write_workspace(other, manifest, planted(manifest))
    call_obygaze("-C", other, *TRAIN_RIDGE, *FAST, "-o", "mine").ok()
    pull = ("models", "pull", other / "models/mine", "-o", "mine", "--force")
    call_obygaze("-C", here, *pull).ok()
    refused = call_obygaze(*ridge, "-o", "mine")
    assert "a model with this name exists" in refused.stderr


def test_a_card_states_copies_and_choices(workspace: Path) -> None:
    """A card is sent without its run."""
    manifest = films(6, 8)
    X = planted(manifest)
    X[8:16] = X[:8]
    write_workspace(workspace, manifest, X)
    grid = ("--set", "model.C.grid=[0.01, 1.0]")
    train = ("train", "logistic", "--store", "sig", "--manifest", "made-up")
    call_obygaze("-C", workspace, *train, *FAST, *grid, "-o", "kept").ok()
    card = (workspace / "models/kept/README.md").read_text("utf-8")
    assert "test clips have exactly the features of a training clip" in card
    assert "from fits with settings of their own choice, on unseen films" in card


def test_a_grid_that_cannot_be_chosen_from_has_its_key_in_the_hint(
    workspace: Path,
) -> None:
    """Of three films, one is tested; two are too few to try a setting on."""
    manifest = films(3, 12)
    write_workspace(workspace, manifest, planted(manifest))
    train = ("train", "logistic", "--store", "sig", "--manifest", "made-up")
    words = ("-C", workspace, *train, *FAST, "-o", "kept", "--set")
    refused = call_obygaze(*words, "model.C.grid=[0.01, 1.0]")
    assert "--set models.logistic.C=VALUE" in refused.stderr
    call_obygaze(*words, "models.logistic.C=1.0").ok()


def test_no_hint_selects_models_without_a_baseline(
    workspace: Path,
) -> None:
    """Of two films with a level each, no fold has both classes to train on."""
    manifest = films(2, 12)
    clips = []
    for clip in manifest:
        level = "S" if clip.movie_id.endswith("1") else "EN"
        clips.append(replace(clip, level=level, concepts=()))
    manifest = replace(manifest.with_clips(clips), columns=())
    write_workspace(workspace, manifest, planted(manifest))
    raw = ("--set", "data.view=raw")
    train = ("train", "logistic", "--store", "sig", "--manifest", "made-up")
    for words in ((*train, "-o", "kept"), ("run", "honest", "--store", "sig")):
        pair = ONE_PAIR if words[0] == "run" else ()
        done = call_obygaze("-C", workspace, *words, *FAST, *raw, *pair)
        assert "all clips to train on have one label" in done.stderr
        assert "grid.models" not in done.stderr


def test_another_model_is_refused_before_the_training(here: Path) -> None:
    words = (*TRAIN_RIDGE, "-C", here, "-o", "mine")
    call_obygaze(*words, *FAST).ok()
    shutil.rmtree(here / "runs" / "mine")
    done = call_obygaze(*words, *FAST, "--set", "fit.seed=1")
    assert (done.code, "a model with this name exists" in done.stderr) == (1, True)
    assert not (here / "runs" / "mine").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("model.kind=logistic", "one key has two values: --set models.ridge.kind="),
        (
            'grid.models=["mlp", "ridge"]',
            "expected only the model ridge, got --set with",
        ),
        ("report.lead=mpl", "unknown model 'mpl'"),
        ("report.title=Mine", "train has a report.title of its own"),
    ],
)
def test_no_other_model_is_trained_under_its_name(here, change, said) -> None:
    words = (*TRAIN_RIDGE, "-C", here, "--set", change)
    done = call_obygaze(*words)
    assert done.code in (1, 2)
    assert said in done.stderr
    assert not (here / "runs").exists()


def test_stores_are_names_paths_objects_or_several_of_them(here: Path) -> None:
    store = open_store(here / "stores" / "sig")
    for stores in ("sig", here / "stores" / "sig", store, ["sig"]):
        assert list(open_stores(stores, here)) == ["sig"]
    # The place of a store may have a `=`, too.
    assert split_store_name("x=https://host/films?a=b") == (
        "x",
        "https://host/films?a=b",
    )
    assert split_store_name("./a=b/films/") == ("films", "./a=b/films/")
    with pytest.raises(FixUsage, match="a store has an empty name"):
        open_stores({"": store}, None)
    assert list(open_stores(["b=sig", "a=sig", store], here)) == ["b", "a", "sig"]
    assert open_stores(None, here) == {}
    with pytest.raises(FixUsage, match="two stores have the name 'sig'"):
        open_stores([store, store], here)


def test_no_clips_are_not_taken_for_no_manifest(here: Path) -> None:
    none = read_manifest("made-up", workspace=here).with_clips(())
    with pytest.raises(FixInput, match="no clip matches"):
        run("honest", "sig", none, workspace=here)


RIDGE_ALONE = (*ONE_PAIR[1::2], 'grid.models=["ridge"]', "report.replicates=2")


def found(place: Path) -> tuple[int, list[str]]:
    """How many clips the report of a run finds, and what it says of changed stores."""
    run = read_run(place)
    manifest = current_labels(run).manifest
    assert manifest is not None
    return len(manifest), [*make_chapter(run).changed]


def test_the_clips_of_a_run_are_found_from_every_folder(tmp_path, monkeypatch) -> None:
    manifest = films(3, 8)
    X = planted(manifest)
    write_workspace(tmp_path / "demo", manifest, X)
    monkeypatch.chdir(tmp_path)
    run(
        "honest",
        manifest="made-up",
        stores="sig",
        changes=RIDGE_ALONE,
        output="first",
        workspace="demo",
    )
    about = json.loads(Path("demo/runs/first/run.json").read_bytes())
    assert about["manifest"]["path"] == "manifests/made-up.toml"
    assert about["stores"]["sig"]["location"] == "stores/sig"
    assert found(Path("demo/runs/first")) == (24, [])
    monkeypatch.chdir("demo/runs")
    assert found(Path("first")) == (24, [])
    # The workspace is moved, and its store made again of other features.
    shutil.move(tmp_path / "demo", tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    shutil.rmtree("moved/stores/sig")
    store_of(Path("moved/stores/sig"), manifest, 2 * X)
    n_clips, (changed,) = found(Path("moved/runs/first"))
    assert n_clips == 24 and changed.startswith("The store sig was changed")
