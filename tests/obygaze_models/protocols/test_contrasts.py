"""Training on hard negatives against training on easy ones, on the same test clips."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score
from support.experiments import films, planted, quick, run_on, store_of, with_folds
from support.tables import a_table, contrasts, rows_of, the_cell

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.results import RunSettings, results
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.runner.files import Run

SHORT = ("models.mlp.max_epochs=6", "report.concepts=false", "grid.baselines=[]")


def hard(tmp_path: Path, *changes: str, models: str = '["ridge", "mlp"]') -> Run:
    """A run on films where easy negatives differ from sure clips mostly by what hard ones share."""
    manifest = with_folds(films(8, 50, seed=3, runs_on=0))
    X = planted(manifest, width=14, strength=0.0)
    levels = np.array([clip.level for clip in manifest])
    X[:, 0] += np.select([levels == "S", levels == "EN"], [3.0, 1.0])
    X[levels != "EN", 1] += 20.0
    store = store_of(tmp_path / "s", manifest, X)
    protocol = quick(
        "honest-negatives", f"grid.models={models}", *SHORT, *changes, replicates=200
    )
    return run_on(tmp_path, protocol, manifest, {"x": store})


def test_a_difference_is_that_of_the_means_over_films_and_seeds(tmp_path: Path) -> None:
    """From predictions.csv with scikit-learn: nothing of the runner's arithmetic."""
    grid = ('grid.train=["EN_S", "HN_S"]', 'grid.test=["ENHN_S"]')
    run = hard(tmp_path, "fit.seeds=2", *grid, models='["mlp"]')
    (found,) = contrasts(run, test="ENHN_S", model="mlp")
    assert (found["train"], found["against_train"]) == ("HN_S", "EN_S")
    assert (found["fits"], found["leaked"], found["metric"]) == (2 * 8, 0, "ap")
    values: dict[str, list[float]] = {"HN_S": [], "EN_S": []}
    for train, own in values.items():
        rows = [
            r
            for r in rows_of(run.predictions)
            if (r["train"], r["test"]) == (train, "ENHN_S")
        ]
        for film in sorted({r["movie_id"] for r in rows}):
            parts = [
                [r for r in rows if (r["movie_id"], r["seed"]) == (film, s)]
                for s in range(2)
            ]
            pairs = [np.array([(r["y"], r["score"]) for r in part]).T for part in parts]
            aps = [average_precision_score(y, score) for y, score in pairs]
            own.append(np.mean(aps))
    for train, own in values.items():
        cell = the_cell(run, model="mlp", train=train, test="ENHN_S")
        assert cell.value("ap") == pytest.approx(np.mean(own))
        assert cell.sd("ap") == pytest.approx(np.std(own, ddof=1))
    difference = np.array(values["HN_S"]) - values["EN_S"]
    assert found["value"] == pytest.approx(difference.mean())
    # Each film is tested by models of the other films: the level of a p would not be known.
    assert np.isnan(found["p"]) and np.isnan(found["low"])


@pytest.mark.parametrize("n_leaked", [0, 5])
def test_leaked_clips_leave_no_interval_and_no_p(n_leaked: int) -> None:
    """On noise, a contrast of +.267 had a p of .018: 65 of 103 test clips had trained."""
    rng = np.random.default_rng(0)
    rows = []
    for train in ("EN_S", "HN_S"):
        for number in range(72):
            film = f"film{number % 6}"
            row = {"train": train, "clip_id": f"c{number}", "movie_id": film}
            row |= {"y": number // 6 % 2, "score": rng.random()}
            is_leaked = train == "HN_S" and number < n_leaked
            row |= {"leaked": is_leaked, "seen": "clip" if is_leaked else "unseen"}
            rows.append(row)
    settings = RunSettings(replicates=50, contrast=("HN_S", "EN_S"))
    found = results(a_table(rows), settings)
    (row,) = rows_of(found, against_train="EN_S", metric="ap")
    assert row["basis"] == ("leaked" if n_leaked else "unseen")
    for name in ("low", "high", "p", "comparisons"):
        assert np.isnan(row[name]) == bool(n_leaked)


def test_a_contrast_names_two_tasks() -> None:
    with pytest.raises(FixInput) as caught:
        load_protocol("honest-negatives", ['report.contrast=["EN_S"]'])
    assert "report.contrast: must list two training tasks" in caught.value.details[0]
    with pytest.raises(FixInput) as caught:
        load_protocol("honest-negatives", ['report.contrast=["EN_S", "NS_S"]'])
    assert "NS_S" in caught.value.details[0]
    one = load_protocol("honest-negatives", ['grid.train=["EN_S"]'])
    assert one.contrast == ()
