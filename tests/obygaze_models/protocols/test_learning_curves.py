"""Learning curves over training films: the drawn films, the values, and what they leave alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.experiments import films, planted, quick, store_of

from obygaze_features.core.errors import FixUsage
from obygaze_models.runner.heldout import HeldOut, with_few_films
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.run import run_protocol
from obygaze_models.runner.store_run import store_runs

CHANGES = (
    'grid.models=["ridge", "pcbm-lr", "mlp"]',
    "models.mlp.max_epochs=5",
    "report.concepts=false",
    "grid.baselines=[]",
    'grid.test=["EN_S"]',
    "report.compare=false",
)


def test_films_are_drawn_and_those_of_fewer_are_among_those_of_more(
    tmp_path: Path,
) -> None:
    manifest = films(7, 30, seed=4)
    store = store_of(tmp_path / "s", manifest, planted(manifest, width=14))
    inputs = gather(quick("honest", *CHANGES), manifest, "", {"x": store})
    (run,) = store_runs(inputs)
    whole = {pair: [held.joined() for held in run.folds[pair]] for pair in run.folds}
    two = with_few_films(run.folds, 2, 0, HeldOut.joined)
    four = with_few_films(run.folds, 4, 0, HeldOut.joined)
    drawn = []
    for pair, folds in whole.items():
        for held, few, more in zip(folds, two[pair], four[pair], strict=True):
            own = [set(f.films[f.train].tolist()) for f in (few, more, held)]
            assert [len(names) for names in own] == [2, 4, 6]
            assert own[0] < own[1] < own[2]
            # Every training clip of a drawn film is kept, and no other clip changes.
            expected = held.train[np.isin(held.films[held.train], list(own[0]))]
            np.testing.assert_array_equal(few.train, expected)
            np.testing.assert_array_equal(few.test, held.test)
            drawn.append(tuple(sorted(own[0])))
    assert len(set(drawn)) > 1


def test_more_films_than_train_are_refused(tmp_path: Path) -> None:
    manifest = films(6, 20)
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    # Each of 6 films is tested once, and one of the other 5 validates.
    protocol = quick("honest", *CHANGES, "report.learning_films=[2, 40]")
    inputs = gather(protocol, manifest, "", {"x": store})
    with pytest.raises(
        FixUsage, match=r"counts films here: a fold trains on \d+, got 40"
    ):
        run_protocol(inputs, tmp_path / "run", n_jobs=1)
    assert not (tmp_path / "run").exists()
