"""Learning curves over training films: the drawn films, the values, and what they leave alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.experiments import cell_of, films, planted, quick, run_on, store_of

from obygaze_features.core.errors import FixUsage
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.run import run_protocol
from obygaze_models.protocols.schedule import fewer_films, schedule
from obygaze_models.report.page import write_report

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
    whole = schedule(inputs.protocol, inputs.table, inputs.labels, inputs.usable(None))
    two, four = (fewer_films(whole, n, seed=0) for n in (2, 4))
    drawn = []
    for pair, splits in whole.pairs.items():
        for split, few, more in zip(
            splits, two.pairs[pair], four.pairs[pair], strict=True
        ):
            own = [set(whole.groups[s.train].tolist()) for s in (few, more, split)]
            assert [len(names) for names in own[:2]] == [2, 4]
            assert own[0] < own[1] < own[2]
            # Every training clip of a drawn film is kept, and no other clip changes.
            expected = split.train[np.isin(whole.groups[split.train], list(own[0]))]
            np.testing.assert_array_equal(few.train, expected)
            np.testing.assert_array_equal(few.test, split.test)
            np.testing.assert_array_equal(few.validation, split.validation)
            drawn.append(tuple(sorted(own[0])))
    assert len(set(drawn)) > 1


@pytest.mark.check("many fits")
def test_all_films_give_the_cell_and_fewer_give_less(tmp_path: Path) -> None:
    manifest = films(7, 40, seed=3)
    store = store_of(
        tmp_path / "s", manifest, planted(manifest, width=140, strength=0.7)
    )
    run = run_on(
        tmp_path,
        quick("honest", *CHANGES, "report.learning_films=[1, 5]"),
        manifest,
        {"x": store},
    )
    curves = run.of("learning")
    assert len(curves) == 2 * len({(c["train"], c["test"]) for c in run.cells})
    assert {curve["model"] for curve in curves} == {"ridge", "mlp"}
    for curve in curves:
        names = {key: curve[key] for key in ("model", "train", "test")}
        few, every = curve["points"]
        assert (few["n_films"], every["n_films"], curve["metric"]) == (1, 5, "ap")
        assert every["value"] == cell_of(run.cells, **names)["ap"]["value"]
    ridge = [curve["points"] for curve in curves if curve["model"] == "ridge"]
    assert np.mean([few["value"] for few, _ in ridge]) < np.mean(
        [p["value"] for _, p in ridge]
    )
    text = write_report([run.folder], formats=["md"])[0].read_text("utf-8")
    assert "Learning curve: AP by the number of training films" in text
    assert "1 films" in text and "5 films" in text


@pytest.mark.check("two whole runs")
def test_a_curve_changes_no_cell(tmp_path: Path) -> None:
    manifest = films(5, 30, seed=1)
    store = store_of(tmp_path / "s", manifest, planted(manifest, width=14))
    runs = []
    for number, changes in enumerate([(), ("report.learning_films=[2]",)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        runs.append(
            run_on(folder, quick("honest", *CHANGES, *changes), manifest, {"x": store})
        )
    assert runs[0].cells == runs[1].cells
    assert runs[0].predictions == runs[1].predictions
    assert runs[0].of("learning") == []
    assert runs[1].of("learning")[0]["points"][0]["value"] == pytest.approx(
        0.5, abs=0.5
    )


def test_more_films_than_train_are_refused(tmp_path: Path) -> None:
    manifest = films(6, 20)
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    # Each of 6 films is tested once, and one of the other 5 validates.
    protocol = quick("honest", *CHANGES, "report.learning_films=[2, 40]")
    inputs = gather(protocol, manifest, "", {"x": store})
    with pytest.raises(FixUsage, match=r"learning_films has 40, but no fold trains on"):
        run_protocol(inputs, tmp_path / "run", n_jobs=1)
    assert not (tmp_path / "run").exists()
