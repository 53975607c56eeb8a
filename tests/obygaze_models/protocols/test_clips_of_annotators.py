"""Several rows of a manifest about one clip of a store: leaks and training sets count the clip."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from support.experiments import films, planted, quick, run_on, store_of
from support.leaks import count_leak
from support.tables import models

from obygaze_features.manifest.model import Clip, Manifest, unannotated_id
from obygaze_models.protocols.clips import clip_table
from obygaze_models.protocols.tasks import with_tasks
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.run import run_protocol
from obygaze_models.runner.store_run import store_runs
from obygaze_models.runner.training import fit_final, training_protocol
from obygaze_models.zoo import load_model, predict

ONE = films(6, 20, seed=3)
HALF = ONE.with_clips([clip for clip in ONE if clip.movie_id <= "tt0000004"])


def by_annotator(manifest: Manifest) -> Manifest:
    """Two rows for each clip, as a table with rows of two annotators is read."""
    rows = [
        replace(
            clip,
            clip_id=f"{clip.clip_id}.{name}",
            extra={"annotator": name},
        )
        for clip in manifest
        for name in ("x", "y")
    ]
    return replace(manifest, clips=tuple(rows), columns=("annotator",))


def test_the_id_of_a_clip_is_that_without_the_annotator() -> None:
    extra = {"annotator": "Zoé B"}
    assert unannotated_id(Clip("Amelie_1.Zoe_B", "f", extra=extra)) == "Amelie_1"
    assert unannotated_id(Clip("c-1", "f", extra=extra)) == "c-1"
    assert unannotated_id(Clip("c.x", "f", extra={"annotator": ""})) == "c.x"


def test_a_test_row_leaks_if_another_row_of_its_clip_trained() -> None:
    clip_of = {"a.x": "a", "a.y": "a", "b.x": "b", "b.y": "b", "c.x": "c"}
    leak = count_leak(
        ["a.x"], ["c.x"], ["a.y", "b.x"], concepts=["b.y"], clip_of=clip_of
    )
    assert (leak.in_train, leak.in_validation, leak.in_concepts) == (1, 0, 1)
    assert leak.clips == ("a.y", "b.x") and leak.leaked == 2


def test_no_row_of_a_tested_clip_trains(tmp_path: Path) -> None:
    both = by_annotator(ONE)
    store = store_of(tmp_path / "s", ONE, planted(ONE))
    changes = (
        *(
            "splits.kind=kfold",
            "splits.folds=4",
            "data.view=raw",
            'grid.models=["ridge"]',
        ),
        *('grid.train=["ENHN_S"]', 'grid.test=["ENHN_S"]', "report.contrast=[]"),
        *(
            "report.concepts=false",
            "report.compare=false",
            'grid.baselines=["all_positive"]',
        ),
    )
    run = run_on(tmp_path, quick("honest", *changes, replicates=20), both, {"s": store})
    fold_of = {row["clip_id"]: row["fold"] for row in run.predictions}
    # Both rows of a clip are in one fold.
    clips_and_folds = {(row[:-1], fold) for row, fold in fold_of.items()}
    assert len(clips_and_folds) == len(fold_of) / 2
    (cell,) = models(run)
    assert cell.leaked == 0
    # By hand: no row of a tested clip trains.
    in_task = [c.clip_id for c in both if c.level in ("EN", "HN", "S")]
    for fold in cell.facts["folds"]:
        tested = {row[:-1] for row in fold_of if fold_of[row] == fold["fold"]}
        n_others = sum(row[:-1] not in tested for row in in_task)
        assert fold["n_train"] + fold["n_validation"] == n_others


@pytest.mark.parametrize(
    "kind",
    ["ridge", pytest.param("pcbm-lr", marks=pytest.mark.check("fits many models"))],
)
def test_a_model_knows_the_clips_of_the_store_that_it_was_trained_on(
    kind: str, tmp_path: Path
) -> None:
    store = store_of(tmp_path / "s", ONE, planted(ONE, strength=0.3))
    bases = {}
    for name, manifest in (("alone", HALF), ("both", by_annotator(HALF))):
        changes = ["data.view=raw", "report.replicates=20", "report.compare=false"]
        changes += ["report.concepts=false"]
        protocol = training_protocol(kind, "ENHN_S", manifest, changes)
        inputs = gather(protocol, manifest, "made-up", {"s": store})
        run = run_protocol(inputs, tmp_path / f"{name}-run", n_jobs=1)
        model = load_model(fit_final(inputs, run, tmp_path / name))
        found = predict(model, store)
        bases[name] = dict(zip(found.clip_ids, found.basis, strict=True))
        assert model.info.training.n_clips == len(model.clips or ())
        if name == "both":
            # The rows of the annotators are asked for by the clip of the store.
            again = predict(model, store, list(manifest))
            assert again.clip_ids == [clip.clip_id for clip in HALF]
            scores = dict(zip(found.clip_ids, found.scores.tolist(), strict=True))
            assert [scores[clip] for clip in again.clip_ids] == again.scores.tolist()
    assert bases["both"] == bases["alone"]
    assert "film-seen" not in {
        bases["both"][clip.clip_id] for clip in HALF if clip.level != "NS"
    }


def test_clips_without_features_are_not_among_those_that_annotators_contradict(
    tmp_path: Path,
) -> None:
    """It said 36 clips of which a store had 34, and no model gave a score for the others."""
    rows = []
    contradicted = {clip.clip_id for clip in HALF.clips[::3]}
    for clip in by_annotator(HALF):
        is_second = clip.extra["annotator"] == "y"
        is_odd = HALF.clip_ids.index(clip.clip_id[:-2]) % 2 == 1
        opposite = is_second and clip.clip_id[:-2] in contradicted
        word = "yes" if is_odd != opposite else "no"
        rows.append(replace(clip, extra={**clip.extra, "a": word}))
    both = replace(by_annotator(HALF), clips=tuple(rows), columns=("annotator", "a"))
    lacking = {"s": HALF.clip_ids[:8], "t": HALF.clip_ids[4:12]}
    stores = {}
    for name, without in lacking.items():
        X = planted(HALF)
        stores[name] = store_of(tmp_path / name, HALF, X, without=without)
    protocol = with_tasks(quick("honest", "data.view=raw"), ["a=yes"], both)
    for names in (["s"], ["t"], ["s", "t"]):
        inputs = gather(protocol, both, "", {name: stores[name] for name in names})
        lacked_by_all = set.intersection(*(set(lacking[name]) for name in names))
        n_clips = len(contradicted - lacked_by_all)
        said = inputs.table.remarks["annotators"]
        assert f"positive for one and negative for another: {n_clips} clips" in said


def test_clips_are_chosen_by_concepts_that_no_header_lists() -> None:
    both = by_annotator(ONE)
    header = structs.replace(both.header, concepts=type(both.header.concepts)())
    concept = next(clip.concepts[0] for clip in both if clip.concepts)
    changes = ("data.view=raw", f"data.where='{concept}' in concepts")
    data = quick("honest", *changes).data
    table = clip_table(replace(both, header=header), data)
    expected = [clip.clip_id for clip in both if concept in clip.concepts]
    assert list(table.ids) == expected


def test_no_row_with_the_film_and_times_of_a_tested_clip_trains(tmp_path: Path) -> None:
    again = [replace(clip, clip_id=f"again-{clip.clip_id}") for clip in ONE]
    twice = ONE.with_clips([*ONE, *again])
    # Their features are not equal, so that nothing else tells that they are one clip.
    store = store_of(tmp_path / "s", twice, planted(twice))
    changes = (
        "splits.kind=kfold",
        "splits.folds=4",
        "data.view=raw",
        'grid.models=["ridge"]',
        'grid.train=["ENHN_S"]',
        'grid.test=["ENHN_S"]',
    )
    inputs = gather(quick("honest", *changes), twice, "made-up", {"s": store})
    (run,) = store_runs(inputs)
    n_tested = 0
    for _, _, held in run.every_fold:
        places = []
        for rows in (np.concatenate([held.train, held.validation]), held.test):
            clips = [twice.clips[row] for row in rows]
            places.append({(clip.movie_id, clip.start_s) for clip in clips})
        trained, tested = places
        assert not trained & tested
        n_tested += len(held.test)
    assert n_tested > 100


def test_a_store_may_have_rows_of_annotators_and_clips_of_none(tmp_path: Path) -> None:
    store = store_of(tmp_path / "s", HALF, planted(HALF))
    changes = ["data.view=raw", "report.replicates=20", "report.compare=false"]
    protocol = training_protocol("ridge", "ENHN_S", HALF, changes)
    inputs = gather(protocol, HALF, "made-up", {"s": store})
    run = run_protocol(inputs, tmp_path / "run", n_jobs=1)
    model = load_model(fit_final(inputs, run, tmp_path / "model"))
    film = HALF.clips[0].movie_id
    mixed = []
    for clip in ONE:
        of_x = f"{clip.clip_id}.x" if clip.movie_id == film else clip.clip_id
        mixed.append(replace(clip, clip_id=of_x))
    some = ONE.with_clips(mixed)
    partly = store_of(tmp_path / "partly", some, planted(ONE))
    found = predict(model, partly, list(by_annotator(ONE)), in_sample=True)
    assert sorted(found.clip_ids) == sorted(clip.clip_id for clip in mixed)
    # The row of an annotator is the clip that trained, under whichever of the two names.
    basis_of = dict(zip(found.clip_ids, found.basis, strict=True))
    assert {
        basis_of[f"{clip.clip_id}.x"]
        for clip in HALF
        if clip.movie_id == film and clip.level != "NS"
    } == {"in-sample"}
