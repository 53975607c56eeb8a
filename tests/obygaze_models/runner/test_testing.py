"""A saved model on labels of one's own: what it has seen, and what is refused."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from msgspec import structs
from numpy.typing import NDArray
from support.stores import a_recipe, made_store

import obygaze as og
from obygaze_features.core.errors import AlreadyThere, FixUsage, Mismatch, ObygazeError
from obygaze_features.manifest.clip_table import ClipTable
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store import Row
from obygaze_models.models.concepts import CAV
from obygaze_models.models.linear import LogisticProbe
from obygaze_models.report.page import make_chapter
from obygaze_models.runner.answer import describe_cell
from obygaze_models.runner.files import Run
from obygaze_models.runner.text import result_text
from obygaze_models.zoo import (
    FeatureSpec,
    ModelInfo,
    TrainingClips,
    TrainingData,
    read_model,
    save_model,
)
from obygaze_models.zoo.info import Classes

FILMS = ("alba", "brug", "cirk", "dorp", "ebbe", "fado")
PER_FILM = 12
QUICK = ["report.replicates=50"]


def some_clips() -> list[Clip]:
    """Clips of films, each of 2 s, with a level, and a mood that three in four have."""
    draws = np.random.default_rng(7)
    clips = []
    for film, number in product(FILMS, range(PER_FILM)):
        level = str(draws.choice(["EN", "HN", "S"]))
        mood = str(draws.choice(["calm", "tense", "tense", ""]))
        place = {"start_s": 2.0 * number, "end_s": 2.0 * number + 2}
        own = {"level": level, "extra": {"mood": mood}}
        clips.append(Clip(f"{film}-{number:02d}", film, **place, **own))
    return clips


CLIPS = some_clips()
MINE = Manifest("mine", Header("Mine"), tuple(CLIPS), ("mood",))
X = np.random.default_rng(8).normal(size=(len(CLIPS), 4)).astype(np.float32)
X[[clip.level == "S" for clip in CLIPS], 0] += 1.5
# The model was trained on the clips of the first two films, but for two of the second.
TRAINED = CLIPS[: 2 * PER_FILM - 2]


def keep(folder, estimator=None, clips=TRAINED, name="theirs", **facts) -> None:
    """Save a model that was trained on these clips."""
    rows = slice(0, len(TRAINED))
    y = np.array([clip.level == "S" for clip in TRAINED])
    probe = LogisticProbe() if estimator is None else estimator
    probe.fit(X[rows], y.astype(int))
    films = sorted({clip.movie_id for clip in clips or TRAINED} - {""})
    training = TrainingData(
        "films", "0" * 64, "raw", len(TRAINED), len(films), tuple(films)
    )
    info = ModelInfo(
        name=name,
        kind="logistic",
        task="EN_S",
        classes=("negative", "positive"),
        features=FeatureSpec("toy", "clip", "float32", 4, a_recipe().fingerprint),
        training=training,
    )
    info = structs.replace(info, **facts)
    kept = None if clips is None else TrainingClips(ClipTable.of_clips(clips))
    save_model(probe, info, folder / "models" / name, X[rows], clips=kept)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A workspace with the manifest `mine`, its store `seen`, and no model."""
    write_manifest(MINE, tmp_path / "manifests" / "mine.toml")
    rows = [Row(clip.clip_id, clip.movie_id) for clip in CLIPS]
    made_store(tmp_path / "stores" / "seen", rows, {"clip": X}, recipe=a_recipe())
    return tmp_path


def run_on(here: Path, *, changes: Sequence[str] = QUICK, **options: Any) -> Run:
    """Test the model `theirs`."""
    options = {"manifest": "mine", "output": "t", **options}
    run: Run = og.models.test(
        "theirs", "seen", changes=changes, workspace=here, **options
    )
    return run


def rows_of(run: Run) -> Any:
    """The rows of the model in the table of tests, by clip."""
    tests = run.predictions
    return tests[tests["model"] == "theirs"].set_index("clip_id")


def value(run: Run, metric: str, model: str = "theirs") -> float:
    """A value over all films."""
    rows = run.results
    is_asked = (rows["model"] == model) & (rows["metric"] == metric)
    is_asked &= (rows["film"] == "") & (rows["against_model"] == "")
    (found,) = rows[is_asked]["value"]
    return float(found)


def test_clips_that_trained_are_left_out_and_their_films_are_said(here: Path) -> None:
    keep(here)
    run = run_on(here)
    rows = rows_of(run)
    of_task = [clip for clip in CLIPS if clip.level in ("EN", "S")]
    trained = [clip.clip_id for clip in of_task if clip in TRAINED]
    assert set(rows.index) == {clip.clip_id for clip in of_task} - set(trained)
    is_of_brug = rows["movie_id"] == "brug"
    assert 0 < is_of_brug.sum() <= 2
    assert set(rows[is_of_brug]["seen"]) == {"film"}
    assert set(rows[~is_of_brug]["seen"]) == {"unseen"}
    assert set(rows["n_seen"]) == {len(TRAINED)}
    assert not rows["leaked"].any()
    remarks = run.about["remarks"]
    assert remarks["trained"].startswith(
        f"Left out: {len(trained)} clips with a class in EN_S"
    )
    assert remarks["films seen"] == "theirs was trained on other clips of brug."
    (cell,) = [cell for cell in run.cells if cell.is_model]
    assert cell.basis == "film-seen"
    # The heading names what was tested also if a film is not unseen.
    title = "Does theirs rank clips that it was not trained on?"
    assert str(run).startswith(title)
    assert make_chapter(run).asked == title


def test_the_run_says_what_its_interval_is_of_and_what_to_cite(here: Path) -> None:
    spec = FeatureSpec("toy", "clip", "float32", 4, a_recipe().fingerprint)
    spec = structs.replace(spec, licence="CC-BY-NC-4.0", citation="Their paper")
    keep(here, features=spec)
    run = run_on(here)
    limits = " ".join(make_chapter(run).limits)
    assert "hold for further clips of other training films of this model" in limits
    (note,) = run.protocol["report"]["notes"]
    assert note == (
        "Training features of theirs: licence CC-BY-NC-4.0; citation: Their paper."
    )


def split(here: Path, X: NDArray[np.float32], *changes: str) -> tuple[Run, Run]:
    """`run` with a fixed split, and `train` on its training clips with `models test`."""
    clips = []
    for number, clip in enumerate(CLIPS):
        is_tested = clip.movie_id in FILMS[3:]
        if "shared" in changes:
            is_tested = number % 2 == 1
        extra = {**clip.extra, "part": "test" if is_tested else "train"}
        clips.append(replace(clip, extra=extra))
    manifest = Manifest("parts", Header("Parts"), tuple(clips), ("mood", "part"))
    rows = [Row(clip.clip_id, clip.movie_id) for clip in clips]
    store = made_store(here / "stores" / "all", rows, {"clip": X}, recipe=a_recipe())
    found = og.run(
        "honest",
        {"seen": store},
        manifest,
        tasks=["EN_S"],
        changes=[
            *QUICK,
            *("splits.kind=fixed", "splits.column=part", 'splits.test=["test"]'),
            *("splits.validation=none", 'grid.models=["ridge"]'),
        ],
        output="whole",
        workspace=here,
    )
    kept = "data.where=part == train"
    og.train(
        "ridge",
        {"seen": store},
        manifest,
        changes=[*QUICK, kept],
        output="kept",
        workspace=here,
    )
    again = og.models.test(
        "kept", {"seen": store}, manifest, changes=QUICK, output="again", workspace=here
    )
    return found, again


@pytest.mark.parametrize("shared", [False, True])
def test_a_fit_has_the_same_test_in_a_run_and_as_a_saved_model(here, shared) -> None:
    """Scores, what was seen, copies, baselines, intervals and differences; and the sentence."""
    copied = X.copy()
    # Every third clip of the last two films is a copy of a clip of the first two.
    copied[4 * PER_FILM :: 3] = X[1 : 2 * PER_FILM : 3]
    changes = ("shared",) if shared else ()
    found, again = split(here, copied, *changes)
    names = {"kept": "ridge"}
    tests = []
    for run in (found, again):
        table = run.predictions.drop(columns="fold")
        table["model"] = table["model"].replace(names)
        tests.append(table.sort_values(["model", "clip_id"], ignore_index=True))
    pd.testing.assert_frame_equal(*tests, rtol=1e-9)
    of_model = tests[0][tests[0]["model"] == "ridge"]
    assert {*of_model["seen"]} == {"film" if shared else "unseen", "clip"}
    values = []
    for run in (found, again):
        table = run.results.copy()
        for column in ("model", "against_model"):
            table[column] = table[column].replace(names)
        columns = ["model", "against_model", "film", "metric"]
        values.append(table.sort_values(columns, ignore_index=True))
    pd.testing.assert_frame_equal(*values, rtol=1e-9)
    sentences = []
    for run in (found, again):
        (cell,) = run.models
        sentences.append(describe_cell(run, cell).replace(cell.model, "it"))
    assert sentences[0] == sentences[1]
    assert "baselines" not in again.about["remarks"]


def test_without_the_training_clips_only_guesses_that_learn_nothing_are_beside(here):
    keep(here)
    others = MINE.with_clips(CLIPS[2 * PER_FILM :])
    run = og.models.test(
        "theirs", "seen", manifest=others, changes=QUICK, output="t", workspace=here
    )
    models = {cell.model for cell in run.cells if not cell.is_model}
    assert models == {"random", "all_positive"}
    assert "(random and all_positive)" in run.about["remarks"]["baselines"]
    assert "random and all_positive" in result_text(run)


@pytest.mark.parametrize("is_asked", [True, False])
def test_exchanged_levels_are_refused(here: Path, is_asked: bool) -> None:
    """By the clips themselves: the names of the classes do not tell."""
    facts: dict[str, Any] = {"asked": Classes(classes={"EN": 0, "S": 1})}
    keep(here, **facts)
    text = 'schema = "obygaze-protocol/1"\n[tasks.SX]\nclasses = { EN = 1, S = 0 }\n'
    if not is_asked:
        text = text.replace("EN = 1, S = 0", "EN = 0, S = 1")
    (here / "mine.toml").write_text(text + '[models.ridge]\nkind = "ridge"\n')
    task = f"{here / 'mine.toml'}:SX"
    if is_asked:
        with pytest.raises(FixUsage, match="the classes are exchanged"):
            run_on(here, task=task)
    else:
        assert len(rows_of(run_on(here, task=task)))


def test_a_model_without_films_has_perhaps_seen_them(here: Path) -> None:
    keep(here, clips=[Clip(clip.clip_id, "") for clip in TRAINED])
    run = run_on(here)
    rows = rows_of(run)
    assert set(rows["seen"]) == {"unknown"}
    assert not set(rows.index) & {clip.clip_id for clip in TRAINED}
    (cell,) = [cell for cell in run.cells if cell.is_model]
    assert not cell.has_interval("ap")
    said = describe_cell(run, cell)
    assert said.startswith("On unseen clips, theirs has AP")
    assert said.endswith(
        "theirs is not tested against a random order: films are unknown."
    )


def test_the_same_test_is_repeated_and_that_of_another_model_is_not(here: Path) -> None:
    keep(here)
    first = run_on(here)
    table = (first.folder / "predictions.csv").read_bytes()
    assert (run_on(here).folder / "predictions.csv").read_bytes() == table
    other = LogisticProbe(C=0.01)
    other.fit(X[:20], np.arange(20) % 2)
    saved = read_model("theirs", workspace=here)
    save_model(other, saved.info, saved.folder, X[:20], clips=saved.clips, force=True)
    with pytest.raises(AlreadyThere):
        run_on(here)
    run_on(here, force=True)


# ---- what is refused ----


def test_a_model_that_does_not_list_its_clips_is_tested_on_other_films(here) -> None:
    keep(here, clips=None)
    run = run_on(here)
    rows = rows_of(run)
    assert set(rows["movie_id"]) == set(FILMS[2:])
    assert set(rows["seen"]) == {"unseen"}
    # Nobody knows which clips of its films these were.
    assert (
        " which may have been used to train theirs." in run.about["remarks"]["trained"]
    )


def test_clips_whose_films_are_not_stated(here: Path) -> None:
    keep(here)
    clips = [Clip(clip.clip_id, "", level=clip.level) for clip in CLIPS]
    manifest = Manifest("bare", Header("Bare", films="none"), tuple(clips))
    rows = [Row(clip.clip_id, "") for clip in CLIPS]
    store = made_store(here / "bare", rows, {"clip": X}, recipe=a_recipe())
    with pytest.raises(Mismatch, match="the films of 72 clips are unknown"):
        og.models.test("theirs", store, manifest=manifest, workspace=here)


def test_models_that_are_not_of_two_classes(here: Path) -> None:
    keep(here, CAV(["Look"], C=0.1), kind="cav", classes=(), concepts=("Look",))
    with pytest.raises(FixUsage, match="expected a model with two classes"):
        run_on(here)


def test_a_task_whose_positive_class_is_the_negative_one_of_the_model(here) -> None:
    keep(here, task="mood=tense", classes=("calm", "tense"))
    assert len(rows_of(run_on(here, task="mood=tense")))
    with pytest.raises(FixUsage, match="of the task mood=calm is 'calm'"):
        run_on(here, task="mood=calm", output="other")


def test_words_that_have_no_meaning_here(here: Path) -> None:
    keep(here)
    with pytest.raises(FixUsage, match="because nothing is fitted"):
        run_on(here, changes=["models.ridge.class_weight=balanced"])
    with pytest.raises(FixUsage, match="expected one store, got"):
        og.models.test("theirs", ["seen", "b=seen"], manifest="mine", workspace=here)
    keep(here, name="random")
    with pytest.raises(FixUsage, match="a baseline has this name"):
        og.models.test("random", "seen", manifest="mine", workspace=here)


def test_a_task_that_the_manifest_does_not_have(here: Path) -> None:
    keep(here, task="violent", asked=Classes(positive="violent == yes"))
    with pytest.raises(ObygazeError, match="no column 'violent'") as refused:
        run_on(here)
    assert "use --task" in str(refused.value.hint)
    assert len(rows_of(run_on(here, task="EN_S")))


def test_the_task_is_what_the_model_was_trained_for_and_not_its_name(here) -> None:
    keep(here, asked=Classes(classes={"HN": 0, "S": 1}))
    level_of = {clip.clip_id: clip.level for clip in MINE}
    levels = rows_of(run_on(here)).index.map(level_of)
    assert {*levels} == {"HN", "S"}
    typed = run_on(here, task="EN_S", output="typed")
    assert {*rows_of(typed).index.map(level_of)} == {"EN", "S"}
    remark = typed.about["remarks"]["other task"]
    assert remark == "theirs was trained for the task EN_S (S, against HN)."
