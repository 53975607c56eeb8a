"""What a run says of the inside of its bottlenecks, against machines trained here by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from obygaze_models.protocols.runner.concept_records import concept_jobs
from obygaze_models.protocols.runner.execute import FitContext
from obygaze_models.protocols.runner.vectors import find_vectors
from sklearn.svm import SVC
from support.experiments import VISUAL, films, planted, quick, run_on, store_of

from obygaze_features.manifest.model import Manifest
from obygaze_models.models.common import FixTraining
from obygaze_models.protocols.reading import load_protocol, protocol_names
from obygaze_models.protocols.schedule import schedule
from obygaze_models.runner.inputs import Inputs, gather

CHANGES = (
    'grid.models=["pcbm-lr", "pcbm-dt"]',
    'grid.baselines=["prevalence"]',
    'grid.train=["HN_S"]',
    'grid.test=["ENHN_S"]',
    "report.compare=false",
    *(f"models.{name}.tolerance=0.05" for name in ("pcbm-lr", "pcbm-dt")),
)


def inputs_of(folder: Path, manifest: Manifest, strength: float, *more: str) -> Inputs:
    store = store_of(folder / "store", manifest, planted(manifest, strength=strength))
    return gather(quick("honest", *CHANGES, *more), manifest, "made-up", {"x": store})


def records_of(inputs: Inputs) -> list[dict[str, Any]]:
    protocol, table, labels, (store,) = (
        inputs.protocol,
        inputs.table,
        inputs.labels,
        inputs.features,
    )
    plan = schedule(protocol, table, labels, inputs.usable(store))
    context = FitContext(protocol, table, labels, plan, store)
    records = []
    for job in concept_jobs(context):
        records += job()
    return records


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return inputs_of(tmp_path_factory.mktemp("signal"), films(6, 40, seed=3), 2.0)


@pytest.fixture(scope="module")
def records(inputs: Inputs) -> list[dict[str, Any]]:
    return records_of(inputs)


def test_a_bank_for_both_heads_and_a_head_for_each_task_that_trains(records):
    assert [(r["part"], r.get("model")) for r in records] == [
        ("concepts", None),
        ("head", "pcbm-lr"),
        ("head", "pcbm-dt"),
    ]
    bank = records[0]
    assert bank["models"] == ["pcbm-lr", "pcbm-dt"] and bank["n_parts"] == 6
    assert [one["name"] for one in bank["concepts"]] == list(VISUAL)


def test_margins_of_a_film_come_from_a_machine_that_saw_the_other_films(inputs):
    settings = inputs.protocol.models["pcbm-lr"].settings
    opened = find_vectors(inputs.features[0], inputs.table, settings, 0)
    X = inputs.features[0].X.astype(np.float64)
    levels, films_of = np.array(inputs.table.levels), inputs.table.films
    column = VISUAL.index("Look")
    has = inputs.table.has_concept[:, column] & np.isin(levels, ["HN", "S"])
    rows = (levels != "NS") & (films_of != "tt0000002")
    machine = SVC(kernel="linear", C=0.05, class_weight="balanced").fit(
        X[rows], has[rows]
    )
    inside = films_of == "tt0000002"
    by_hand = machine.decision_function(X[inside]) / np.linalg.norm(machine.coef_)
    np.testing.assert_allclose(
        opened.margins[inside, column], by_hand, rtol=1e-5, atol=1e-6
    )


def test_heads_are_evaluated_on_margins_whose_vectors_saw_no_mark_of_those_films(
    inputs,
):
    settings = inputs.protocol.models["pcbm-lr"].settings
    opened = find_vectors(inputs.features[0], inputs.table, settings, 0)
    number = {film: i % 4 for i, film in enumerate(sorted(set(opened.films.tolist())))}
    assert opened.head_folds.tolist() == [number[film] for film in opened.films]
    evaluated = opened.head_folds == 1
    rng = np.random.default_rng(0)
    marks = opened.examples.targets.copy()
    marks[evaluated] = rng.permutation(marks[evaluated])
    other = replace(
        opened, examples=replace(opened.examples, targets=marks), without={}
    )
    np.testing.assert_array_equal(opened.margins_without(1), other.margins_without(1))
    assert not np.array_equal(opened.margins_without(0), other.margins_without(0))
    # By hand: fold 2, on which a head is fitted to be evaluated on fold 1, saw neither.
    X, column = inputs.features[0].X.astype(np.float64), VISUAL.index("Look")
    own = opened.examples.targets[:, column]
    rows, inside = (
        (own >= 0) & ~np.isin(opened.head_folds, [1, 2]),
        opened.head_folds == 2,
    )
    machine = SVC(kernel="linear", C=0.05, class_weight="balanced").fit(
        X[rows], own[rows] == 1
    )
    by_hand = machine.decision_function(X[inside]) / np.linalg.norm(machine.coef_)
    found = opened.margins_without(1)[inside, column]
    np.testing.assert_allclose(found, by_hand, rtol=1e-5, atol=1e-6)


def test_planted_concepts_are_found_on_films_that_are_left_out(records):
    bank = records[0]
    for one in bank["concepts"]:
        assert one["auc"]["value"] > 0.8 and one["p_holm"] < 0.05
        assert one["ap"]["ci"][0] > one["prevalence"]
    # Films differ in nothing but their clips: margins hardly name them.
    assert bank["film_leak"]["chance"] == pytest.approx(1 / 6)
    assert bank["film_leak"]["balanced_accuracy"] < 0.35


def test_on_noise_no_concept_is_found(tmp_path):
    bank = records_of(inputs_of(tmp_path, films(6, 40, seed=3), 0.0))[0]
    assert min(one["p_holm"] for one in bank["concepts"]) > 0.05
    assert np.mean([one["auc"]["value"] for one in bank["concepts"]]) == pytest.approx(
        0.5, abs=0.1
    )


def test_weights_and_trees_are_whole(records):
    linear, tree = records[1], records[2]["tree"]
    assert linear["tree"] is None and records[2]["weights"] is None
    assert linear["concepts"] == list(VISUAL) == records[2]["concepts"]
    assert len(linear["weights"]["coef"]) == len(VISUAL)
    assert tree["n"][0] == records[2]["n"] == linear["n"]
    assert tree["share"][0] == pytest.approx(records[2]["n_positive"] / records[2]["n"])
    for left, right, n, share in zip(
        *(tree[k] for k in ("left", "right", "n", "share")), strict=True
    ):
        if left >= 0:
            assert n == tree["n"][left] + tree["n"][right]
            parts = [tree["n"][child] * tree["share"][child] for child in (left, right)]
            assert n * share == pytest.approx(sum(parts))


@pytest.mark.parametrize("number", [1, 2])
def test_every_order_of_corrections_begins_and_ends_alike(records, number):
    curves = {curve["order"]: curve for curve in records[number]["interventions"]}
    assert set(curves) == {"greedy", "random"}
    for metric in ("f1", "ap"):
        values = np.array([curve[metric] for curve in curves.values()])
        assert values.shape == (2, len(VISUAL) + 1)
        np.testing.assert_allclose(values[:, 0], values[0, 0])
        np.testing.assert_allclose(values[:, -1], values[0, -1])


def test_a_concept_without_clips_enough_is_left_out_with_the_reason(tmp_path):
    manifest = films(4, 30, seed=3)
    last = max(clip.movie_id for clip in manifest)
    # One concept is in two clips only, another only in the last film.
    kept = {"Look": 2, "Body": 99}
    clips = []
    for clip in manifest:
        own = list(clip.concepts)
        for name in [name for name in own if name in kept]:
            kept[name] -= name == "Look" or clip.movie_id == last
            if kept[name] < 0 or (name == "Body" and clip.movie_id != last):
                own.remove(name)
        clips.append(replace(clip, concepts=tuple(own)))
    manifest = manifest.with_clips(clips)
    bank = records_of(inputs_of(tmp_path, manifest, 1.0))[0]
    assert set(bank["left_out"]) == {"Look", "Body"}
    assert bank["left_out"]["Body"] == "all clips with it are of one part"
    assert "Look" not in [one["name"] for one in bank["concepts"]]


def test_where_no_concept_can_be_found_the_record_says_so(tmp_path):
    manifest = films(3, 20, seed=3)
    bare = manifest.with_clips([replace(c, concepts=c.concepts[:0]) for c in manifest])
    inputs = inputs_of(tmp_path, bare, 1.0, "data.view=raw")
    with pytest.raises(FixTraining):
        find_vectors(
            inputs.features[0],
            inputs.table,
            inputs.protocol.models["pcbm-lr"].settings,
            0,
        )
    (record,) = records_of(inputs)
    assert record["concepts"] == [] and record["note"].startswith(
        "no concept has 3 clips with it"
    )


def test_it_is_asked_for_by_the_protocol_and_in_the_results(tmp_path, inputs):
    quiet = replace(
        inputs,
        protocol=replace(
            inputs.protocol, report=replace(inputs.protocol.report, concepts=False)
        ),
    )
    assert records_of(quiet) == []
    assert {
        name for name in protocol_names() if load_protocol(name).report.concepts
    } == {
        "honest",
        "paper-pcbm",
    }
    manifest = films(4, 24, seed=3)
    store = store_of(tmp_path / "store", manifest, planted(manifest, strength=2.0))
    runs = [
        run_on(tmp_path, quick("honest", *CHANGES), manifest, {"x": store})
        for _ in range(2)
    ]
    assert [r["part"] for r in runs[0].of("concept-model")] == [
        "concepts",
        "head",
        "head",
    ]
    first, second = ((run.folder / "results.json").read_bytes() for run in runs)
    assert first == second
