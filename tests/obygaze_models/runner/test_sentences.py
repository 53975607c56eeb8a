"""Models of sentences: scores are a plain cosine, and no clip trains them."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from support.experiments import (
    films,
    planted,
    quick,
    run_on,
    store_of,
)
from support.sentences import recipe_of_words, write_sentences
from support.tables import contrasts, models, rows_of, the_cell

from obygaze_features.core.errors import FixInput, FixUsage, Mismatch, NotFound
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Store
from obygaze_models.models.fitting import fit
from obygaze_models.models.registry import build
from obygaze_models.runner.files import Run
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.store_run import store_runs

WIDTH = 14
ONE_PAIR = (
    *('grid.train=["EN_S"]', 'grid.test=["EN_S"]', "report.contrast=[]"),
    *("report.concepts=false", 'report.lead=""'),
)


class World(NamedTuple):
    """Made-up films, a store of their words, and sentences about two classes."""

    manifest: Manifest
    X: NDArray[np.float32]
    store: Store
    vectors: dict[str, NDArray[np.float64]]
    texts: Path


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    manifest = films(6, 30, seed=3)
    X = planted(manifest, width=WIDTH)
    folder = tmp_path_factory.mktemp("words")
    store = store_of(folder / "s", manifest, X, recipe=recipe_of_words())
    rng = np.random.default_rng(5)
    sure = rng.normal(size=(3, WIDTH))
    sure[:, :4] += 2
    vectors = {"sure": sure, "plain": rng.normal(size=(2, WIDTH))}
    return World(
        manifest, X, store, vectors, write_sentences(folder / "t.npz", vectors)
    )


def zero_shot(texts: Path, *changes: str) -> list[str]:
    return [
        "models.said.kind=zero-shot",
        f"models.said.texts={texts}",
        "models.said.positive=sure",
        "models.said.negative=plain",
        'grid.models=["said", "ridge"]',
        *changes,
    ]


def run(tmp_path, manifest, store, *changes, n=60) -> Run:
    protocol = quick("honest-negatives", *changes, replicates=n)
    return run_on(tmp_path, protocol, manifest, {"x": store})


def unit(rows: NDArray[Any]) -> NDArray[np.float64]:
    values = np.asarray(rows, np.float64)
    lengths = np.sqrt((values**2).sum(axis=-1, keepdims=True))
    return values / lengths


def test_scores_are_a_plain_cosine_and_the_model_stands_beside_trained_ones(
    tmp_path, world
):
    manifest, X, store, vectors, texts = world
    found = run(tmp_path, manifest, store, *zero_shot(texts, *ONE_PAIR))
    sides = {name: unit(unit(rows).mean(axis=0)) for name, rows in vectors.items()}
    expected = unit(X) @ sides["sure"] - unit(X) @ sides["plain"]
    place = {clip.clip_id: number for number, clip in enumerate(manifest)}
    rows = rows_of(found.predictions, model="said")
    assert len(rows) > 50
    for row in rows:
        clip = place[row["clip_id"]]
        assert row["score"] == pytest.approx(expected[clip], abs=1e-6)
    said = the_cell(found, model="said")
    ridge = the_cell(found, model="ridge")
    assert (said.is_trained, ridge.is_trained) == (False, True)
    assert said.n_clips == ridge.n_clips
    assert said.value("auc") > 0.6
    # Both have an interval, and a difference.
    said, ridge = (
        next(cell for cell in found.models if cell.model == name)
        for name in ("said", "ridge")
    )
    assert said.has_interval("ap") and ridge.has_interval("ap")
    pairs = {(row["model"], row["against_model"]) for row in rows_of(found.results)}
    assert {("said", "ridge"), ("ridge", "said")} & pairs
    # Decisions at zero depend on no training, so that they have intervals, too.
    assert said.has_interval("f1_weighted") and not ridge.has_interval("f1_weighted")


def test_nothing_that_is_not_trained_leaks_or_has_a_contrast(tmp_path, world) -> None:
    manifest, _, store, _, texts = world
    leaky = ("splits.kind=kfold", "splits.folds=3", 'grid.test=["EN_S"]')
    leaky += ("report.concepts=false", 'report.lead=""', "leakage=warn")
    found = run(tmp_path, manifest, store, *zero_shot(texts, *leaky), n=4)
    cells = models(found, model="said")
    assert {(cell.leaked, cell.basis) for cell in cells} == {(0, "unseen")}
    of_ridge = models(found, model="ridge")
    assert all(cell.same_film for cell in of_ridge)
    assert of_ridge[0].basis == "film-seen"
    assert {row["model"] for row in contrasts(found)} == {"ridge"}


def test_what_is_refused(tmp_path: Path, world: World) -> None:
    manifest, X, store, _, texts = world

    def refused(error: type[Exception], what: str, *changes: str) -> None:
        with pytest.raises(error, match=what):
            protocol = quick("honest-negatives", *zero_shot(texts, *changes))
            gather(protocol, manifest, "made-up", {"x": store})

    refused(NotFound, "no attribute 'suer'", "models.said.positive=suer")
    refused(FixUsage, "must not be scaled", "data.scale=standard")
    other = write_sentences(
        tmp_path / "o.npz", {"sure": X[0], "plain": X[1]}, "cd" * 32
    )
    refused(Mismatch, "different embedding spaces", f"models.said.texts={other}")
    grid = 'models.said.positive.grid=["sure", "plain"]'
    with pytest.raises(FixInput) as caught:
        quick("honest-negatives", *zero_shot(texts), grid)
    assert "must be one value, not a grid" in str(caught.value.details)


def test_the_hash_of_the_texts_is_part_of_the_run(tmp_path: Path, world: World) -> None:
    manifest, _, store, vectors, _ = world
    path = write_sentences(tmp_path / "t.npz", vectors)
    protocol = quick("honest-negatives", *zero_shot(path, *ONE_PAIR))

    def identity() -> str:
        return gather(protocol, manifest, "made-up", {"x": store}).identity

    first = identity()
    assert identity() == first
    write_sentences(path, {**vectors, "plain": -vectors["plain"]})
    assert identity() != first


def test_concept_vectors_of_sentences_are_the_same_in_every_fold(tmp_path, world):
    manifest, X, store, vectors, texts = world
    changes = (f"models.pcbm-lr.texts={texts}", 'grid.models=["pcbm-lr"]', *ONE_PAIR)
    protocol = quick("honest-negatives", *changes)
    (stored,) = store_runs(gather(protocol, manifest, "made-up", {"x": store}))
    model = build("pcbm-lr", protocol.models["pcbm-lr"].settings)
    expected = np.stack(
        [
            X.astype(np.float64) @ unit(unit(rows).mean(axis=0))
            for rows in vectors.values()
        ],
        axis=1,
    )
    rows = np.array(stored.features.row_of)  # type: ignore[union-attr]
    for _, _, held in stored.every_fold:
        fitted = fit(model, stored.fold_data("EN_S", held.merge_validation()))
        assert fitted.bank_.concepts == ["sure", "plain"]
        margins = fitted.margins(stored.rows.X[rows])
        np.testing.assert_allclose(margins, expected, atol=1e-6)
    found = run(tmp_path, manifest, store, *changes, "report.concepts=true")
    assert the_cell(found, model="pcbm-lr").value("auc") > 0.6
    assert {row["concept"] for row in rows_of(found.table("concepts.csv"))} == {
        "sure",
        "plain",
    }
