"""Training on hard negatives against training on easy ones, on the same test clips."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score
from support.cells import with_folds
from support.experiments import cell_of, films, planted, quick, run_on, store_of

from obygaze_features.core.errors import FixInput
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.runner.tables import Run
from obygaze_models.runner.text import result_text
from obygaze_models.report.page import write_report

SHORT = ("models.mlp.max_epochs=6", "report.concepts=false", "grid.baselines=[]")
METRICS, RANDOM = ("f1_weighted", "ap"), 'grid.baselines=["random"]'
PUBLISHED = (
    *("data.view=raw", "splits.kind=published", "balancing=rotated"),
    "splits.scheme=obygaze_models.protocols.paper_splits:code_splits",
    *("models.mlp.keep=last", "models.mlp.double_softmax=true"),
    *(f"tasks.{name}.folds=02_{name}" for name in ("EN_S", "HN_S", "ENHN_S")),
)


def hard(tmp_path: Path, *changes: str, models: str = '["ridge", "mlp"]') -> Run:
    """A run on films where easy negatives differ from sure clips mostly by what hard ones share."""
    manifest = with_folds(films(8, 50, seed=3, runs_on=0))
    X = planted(manifest, width=14, strength=0.0)
    levels = np.array([clip.level for clip in manifest])
    X[:, 0] += np.select([levels == "S", levels == "EN"], [3.0, 1.0])
    X[levels != "EN", 1] += 20.0
    store = store_of(tmp_path / "s", manifest, X)
    protocol = quick(
        "honest", f"grid.models={models}", *SHORT, *changes, replicates=200
    )
    return run_on(tmp_path, protocol, manifest, {"x": store})


def test_a_difference_is_that_of_the_means_over_films_and_seeds(tmp_path: Path) -> None:
    """From predictions.csv with scikit-learn: nothing of the runner's arithmetic."""
    run = hard(tmp_path, "fit.seeds=3", "report.contrast_seeds=3", models='["mlp"]')
    found = cell_of(run.of("contrast"), test="ENHN_S", model="mlp")
    assert (found["first"]["train"], found["second"]["train"]) == ("HN_S", "EN_S")
    assert (found["n_seeds"], found["leaked"], found["metric"]) == (3, 0, "ap")
    values: dict[str, list[float]] = {"HN_S": [], "EN_S": []}
    for train, own in values.items():
        rows = [
            r for r in run.predictions if (r["train"], r["test"]) == (train, "ENHN_S")
        ]
        for film in sorted({r["movie_id"] for r in rows}):
            parts = [
                [r for r in rows if (r["movie_id"], r["seed"]) == (film, s)]
                for s in range(3)
            ]
            pairs = [np.array([(r["y"], r["score"]) for r in part]).T for part in parts]
            aps = [average_precision_score(y, score) for y, score in pairs]
            own.append(np.mean(aps))
    for side in ("first", "second"):
        train = found[side]["train"]
        assert found[side]["value"] == pytest.approx(np.mean(values[train]))
    difference = np.array(values["HN_S"]) - values["EN_S"]
    assert found["difference"] == pytest.approx(difference.mean())
    assert (found["n_films_higher"], found["n_films"]) == ((difference > 0).sum(), 8)
    # Each film is tested by models of the other films: the level of a p would not be known.
    assert found["p"] is None and found["ci"] is None


@pytest.mark.check("several runs")
def test_where_hard_negatives_train_better_it_is_found(tmp_path: Path) -> None:
    run = hard(tmp_path, "report.questions=[]")
    # Trained on easy negatives, a model takes what hard negatives and sure clips share.
    for model, n_seeds in (("ridge", 1), ("mlp", 5)):
        found = cell_of(run.of("contrast"), test="ENHN_S", model=model)
        assert found["n_seeds"] == n_seeds
        assert found["difference"] > 0.1
        assert found["n_films_higher"] == found["n_films"] == 8
    assert {row["seed"] for row in run.predictions} == {0}
    text = write_report([run.folder], formats=["md"])[0].read_text("utf-8")
    first = text.index("Which training task is better")
    assert text.index("## In short") < text.index("## Results") < first
    assert "| mlp | AP |" in text[text.index("| **tested on ENHN_S** |", first) :]
    assert "have no interval and no p" in text[first:]
    with_p = hard_published(tmp_path / "published")
    text = write_report([with_p.folder], formats=["md"])[0].read_text("utf-8")
    assert "have no interval and no p" not in text
    assert "tested on ENHN_S: ridge (x) has ap" in result_text(run)
    assert "higher in 8 of 8 films; seeds 1" in result_text(run)


def test_further_seeds_change_no_cell(tmp_path: Path) -> None:
    with_contrast = hard(tmp_path, models='["mlp"]')
    (tmp_path / "s").rename(tmp_path / "other")
    without = hard(tmp_path, "report.contrast=[]", models='["mlp"]')
    assert not without.of("contrast")
    assert len(with_contrast.of("contrast")) == 2
    assert with_contrast.cells == without.cells
    assert with_contrast.predictions == without.predictions


def hard_published(tmp_path: Path, *changes: str) -> Run:
    tmp_path.mkdir()
    return hard(tmp_path, *PUBLISHED, "leakage=warn", *changes, models='["ridge"]')


def test_where_all_runs_share_a_test_set_there_is_an_interval_and_a_p(
    tmp_path: Path,
) -> None:
    run = hard_published(tmp_path / "published")
    found = next(r for r in run.of("contrast") if r["test"] == "ENHN_S")
    cells = [
        cell_of(run.cells, train=train, test="ENHN_S") for train in ("HN_S", "EN_S")
    ]
    by_film = [[own["ap"] for own in cell["by_film"].values()] for cell in cells]
    both = zip(*by_film, strict=True)
    known = np.array([one - other for one, other in both if None not in (one, other)])
    signs = 1 - 2 * (np.arange(2 ** len(known))[:, None] >> np.arange(len(known)) & 1)
    means = np.abs(signs @ known / len(known))
    assert found["p"] == pytest.approx(np.mean(means >= abs(known.mean()) - 1e-9))
    low, high = found["ci"]
    assert low < found["difference"] < high


def test_a_difference_of_decisions_has_no_interval_and_no_p(tmp_path: Path) -> None:
    run = hard_published(tmp_path / "ap")
    f1 = hard_published(tmp_path / "f1", "report.primary=f1_weighted", RANDOM)
    own = {
        metric: [r for r in f1.of("contrast") if r["metric"] == metric]
        for metric in METRICS
    }
    assert {r["metric"] for r in f1.of("contrast")} == set(METRICS)
    assert own["ap"] == run.of("contrast")
    assert all(r["ci"] is None and r["p"] is None for r in own["f1_weighted"])
    assert all(r["difference"] is not None for r in own["f1_weighted"])
    assert {r["metric"] for r in f1.of("comparison")} == {"ap"}


def test_leaked_test_clips_are_counted_and_left_out(tmp_path: Path) -> None:
    run = hard_published(tmp_path / "published")
    found = [r for r in run.of("contrast") if r["test"] == "EN_S"]
    assert [r["leaked"] > 0 for r in found] in ([True], [True, False])
    cells = [cell_of(run.cells, train=train, test="EN_S") for train in ("HN_S", "EN_S")]
    assert cells[1]["leaked"] == 0  # EN_S has the same folds for training and test
    assert found[0]["leaked"] == cells[0]["leaked"]
    if len(found) == 2:
        assert found[1]["n_test"] == found[0]["n_test"] - found[0]["leaked"]
    assert found[0]["difference"] == pytest.approx(
        cells[0]["ap"]["value"] - cells[1]["ap"]["value"], abs=1e-12
    )


def test_a_contrast_names_two_tasks() -> None:
    with pytest.raises(FixInput) as caught:
        load_protocol("honest", ['report.contrast=["EN_S"]'])
    assert "report.contrast: needs two training tasks" in caught.value.details[0]
    with pytest.raises(FixInput) as caught:
        load_protocol("honest", ['report.contrast=["EN_S", "NS_S"]'])
    assert "NS_S" in caught.value.details[0]
    one = load_protocol("honest", ['grid.train=["EN_S"]'])
    assert one.contrast == ()
    assert [one.n_seeds("EN_S"), load_protocol("honest").n_seeds("EN_S")] == [1, 5]
