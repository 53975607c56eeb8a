"""What a run says of its bottlenecks, against machines trained here by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score
from sklearn.svm import SVC
from support.experiments import VISUAL, films, planted, quick, store_of, with_folds

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.model import Manifest
from obygaze_models.models.concepts import CAV
from obygaze_models.models.fitting import fit
from obygaze_models.models.fold_data import FoldData
from obygaze_models.runner import concepts
from obygaze_models.runner.concepts import concept_tables
from obygaze_models.runner.inputs import Inputs, gather
from obygaze_models.runner.store_run import store_runs

Rows = list[dict[str, Any]]
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
    return gather(
        quick("honest-negatives", *CHANGES, *more), manifest, "made-up", {"x": store}
    )


def tables_of(inputs: Inputs) -> tuple[Rows, Rows]:
    (run,) = store_runs(inputs)
    return concept_tables(run, ())


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return inputs_of(tmp_path_factory.mktemp("signal"), films(6, 40, seed=3), 2.0)


@pytest.fixture(scope="module")
def tables(inputs: Inputs) -> tuple[Rows, Rows]:
    return tables_of(inputs)


def test_the_precision_of_a_concept_is_that_of_machines_of_the_other_films(
    inputs, tables
):
    X = inputs.stores[0].X.astype(np.float64)
    levels = np.array(inputs.table.levels)
    films_of = inputs.table.films
    column = VISUAL.index("Look")
    has = inputs.table.has_concept[:, column] & np.isin(levels, ["HN", "S"])
    is_example = levels != "NS"
    precisions = []
    for film in np.unique(films_of):
        rows = is_example & (films_of != film)
        machine: Any = SVC(kernel="linear", C=0.05, class_weight="balanced")
        machine.fit(X[rows], has[rows])
        tested = is_example & (films_of == film)
        margins = machine.decision_function(X[tested]) / np.linalg.norm(machine.coef_)
        precisions.append(average_precision_score(has[tested], margins))
    (row,) = [
        row
        for row in tables[0]
        if (row["model"], row["concept"]) == ("pcbm-lr", "Look")
    ]
    assert row["clips"] == is_example.sum() and row["positive"] == has.sum()
    assert row["tolerance"] == 0.05
    # AP is averaged over films; margins of films that are pooled would have another one.
    assert row["ap"] == pytest.approx(np.mean(precisions), abs=0.05)


def test_the_vectors_that_rank_a_film_are_found_without_it(inputs, monkeypatch) -> None:
    taught: list[FoldData] = []

    def recorded(estimator: Any, data: FoldData) -> Any:
        if isinstance(estimator, CAV):
            taught.append(data)
        return fit(estimator, data)

    monkeypatch.setattr(concepts, "fit", recorded)
    tables_of(inputs)
    ranked = [data for data in taught if not data.may_learn.all()]
    tested = [np.flatnonzero(~data.may_learn) for data in ranked]
    assert len(np.unique(np.concatenate(tested))) == 6 * 40
    for data, rows in zip(ranked, tested, strict=True):
        films_of = data.films
        assert len(data.concept_rows)
        found_on = set(films_of[data.concept_rows].tolist())
        assert found_on.isdisjoint(films_of[rows].tolist())


def test_where_no_clip_has_a_concept_models_of_concepts_are_left_out(tmp_path) -> None:
    manifest = films(3, 20, seed=3)
    bare = manifest.with_clips([replace(c, concepts=c.concepts[:0]) for c in manifest])
    with pytest.raises(FixInput, match="no clip has a visual concept"):
        inputs_of(tmp_path / "alone", bare, 1.0)
    models = 'grid.models=["ridge", "pcbm-lr"]'
    inputs = inputs_of(tmp_path / "others", bare, 1.0, models)
    assert inputs.protocol.model_names == ["ridge"]
    sentence = "pcbm-lr excluded from this run: no clip has a visual concept."
    assert inputs.table.remarks["models of concepts"] == sentence
    assert tables_of(inputs) == ([], [])


def test_a_concept_that_has_no_vector_without_some_film_is_named(tmp_path) -> None:
    """All clips with Look are in one film: without it, there is no vector to be tested."""
    clips = []
    for clip in films(6, 40, seed=3):
        others = tuple(name for name in clip.concepts if name != "Look")
        is_first = clip.movie_id == "tt0000001" and clip.level in ("HN", "S")
        concepts = (*others, "Look") if is_first else others
        clips.append(replace(clip, concepts=concepts))
    made = films(6, 40, seed=3)
    manifest = Manifest(made.name, made.header, tuple(clips))
    table, _ = tables_of(inputs_of(tmp_path, manifest, 2.0))
    (row,) = [r for r in table if (r["model"], r["concept"]) == ("pcbm-lr", "Look")]
    n_clips = sum("Look" in clip.concepts for clip in clips)
    assert row["positive"] == n_clips > 0
    assert all(name not in row for name in ("ap", "auc", "p", "p_holm"))
    assert len([r for r in table if r["model"] == "pcbm-lr"]) == len(VISUAL)


def test_clips_without_a_video_are_in_no_number_of_a_published_run(tmp_path) -> None:
    """The store has features of all clips; a published training set leaves some out."""
    manifest = with_folds(films(6, 40, seed=3))
    is_left_out = {clip.clip_id for clip in manifest.clips[::7]}
    clips = []
    for clip in manifest:
        video = "" if clip.clip_id in is_left_out else f"{clip.movie_id}.mp4"
        clips.append(replace(clip, video=video))
    manifest = replace(manifest, clips=tuple(clips))
    store = store_of(tmp_path / "store", manifest, planted(manifest, strength=2.0))
    protocol = quick("paper-pcbm", "data.view=raw", 'grid.train=["EN_S"]')
    inputs = gather(protocol, manifest, "made-up", {"x": store})
    (run,) = store_runs(inputs)
    of_concepts, trees = concept_tables(run, ())
    kept = [clip for clip in clips if clip.video]
    n_examples = sum(clip.level in ("EN", "HN", "S") for clip in kept)
    n_positive = sum(
        clip.level in ("HN", "S") and "Look" in clip.concepts for clip in kept
    )
    of_look = [row for row in of_concepts if row["concept"] == "Look"]
    assert of_look
    for row in of_look:
        assert (row["clips"], row["positive"]) == (n_examples, n_positive)
    roots = [node["clips"] for node in trees if node["node"] == 0]
    assert roots == [sum(clip.level in ("EN", "S") for clip in kept)]
    # Neither do concept vectors learn from them.
    table = inputs.table
    left_out = [row for row, clip in enumerate(table.ids) if clip in is_left_out]
    for pair, _, held in run.every_fold:
        found_on = run.fold_data(pair[0], held).concept_rows
        assert len(found_on)
        assert not np.isin(run.of_store.row_of[left_out], found_on).any()
