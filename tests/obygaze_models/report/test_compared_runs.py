"""Runs side by side: settings that differ, values, and paired differences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.cells import with_folds
from support.cli import call_obygaze
from support.experiments import films, planted, quick, run_on, store_of

from obygaze_features.core import parts
from obygaze_features.core.errors import FixUsage
from obygaze_models.protocols.results.cells import CellRecord
from obygaze_models.protocols.results.differences import Comparison
from obygaze_models.protocols.runner.records import Run
from obygaze_models.protocols.runner.tested_cells import ClipNumbers, cells_of_run
from obygaze_models.report.compared_runs import compare_runs, differing_settings
from obygaze_models.report.page import write_report

CHANGES = (
    'grid.models=["ridge", "logistic"]',
    "models.logistic.kind=logistic",
    'grid.train=["EN_S"]',
    'grid.test=["EN_S", "ENHN_S"]',
    'grid.baselines=["random", "neighbour"]',
    "report.concepts=false",
    "report.contrast=[]",
)

ONE_CELL = (
    'grid.train=["EN_S"]',
    'grid.test=["EN_S"]',
    'grid.models=["ridge"]',
    "models.ridge.kind=ridge",
    "grid.baselines=[]",
)


NAME = "own.py:share_right"
METRIC = """
def share_right(counts):
    return (counts.tp + counts.tn) / counts.total
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """A run on a store with a signal, and one on another store that lacks two clips."""
    folder = tmp_path_factory.mktemp("compared")
    manifest = films(6, 60, seed=2)
    good = store_of(folder / "good", manifest, planted(manifest, width=14))
    fewer = replace(manifest, clips=manifest.clips[2:])
    X = planted(manifest, width=14, strength=0.0)[2:]
    noise = store_of(folder / "noise", fewer, X)
    made = []
    for name, store in (("good", good), ("noise", noise)):
        protocol = quick("honest", *CHANGES, f"fit.seed={len(made)}")
        made.append(run_on(folder / name, protocol, manifest, {name: store}))
    return made[0], made[1]


def test_cells_read_back_have_the_values_of_the_run(runs: tuple[Run, Run]) -> None:
    clips = ClipNumbers.of_runs(runs)
    for run in runs:
        cells = cells_of_run(run, clips)
        n_compared = 0
        for record in (*run.cells, *run.baselines):
            name = (record.train, record.test, record.model, record.feature)
            if name not in cells:
                assert record.expected  # a closed form has no predictions
                continue
            for metric in ("ap", "auc", "f1_binary"):
                value = record.metrics[metric].value
                assert cells[name].value[metric] == pytest.approx(value, abs=1e-12)
                n_compared += 1
        assert n_compared >= 12


def test_cells_of_runs_that_share_a_test_set_have_the_values_of_the_run(
    tmp_path: Path,
) -> None:
    """Table 2: eight runs test the same clips, and values are means over them."""
    manifest = with_folds(films(6, 60, seed=2))
    store = store_of(tmp_path / "store", manifest, planted(manifest, width=14))
    protocol = quick("paper-table2", *ONE_CELL)
    run = run_on(tmp_path, protocol, manifest, {"x": store})
    (cell,) = cells_of_run(run, ClipNumbers.of_runs([run])).values()
    (record,) = run.cells
    assert cell.averaged and len(cell.tested) == record.n_runs == 8
    for metric in ("ap", "auc", "f1_binary"):
        value = record.metrics[metric].value
        assert cell.value[metric] == pytest.approx(value, abs=1e-12)
    n_fitted = max(fold.n_train + fold.n_validation for fold in record.folds)
    assert cell.inflation == pytest.approx(1 + record.n_test / n_fitted)


@pytest.mark.parametrize(("seed", "reaches_to_0"), [(0, True), (5, False)])
def test_the_interval_of_two_runs_is_that_of_one_run_with_both_stores(
    tmp_path: Path, seed: int, reaches_to_0: bool
) -> None:
    """It reached to 0 in the report of one run, and not between two runs."""
    manifest = with_folds(films(14, 60, seed=2))
    protocol = quick("paper-table2", *ONE_CELL)
    strong = planted(manifest, width=14, seed=seed)
    weak = planted(manifest, width=14, seed=seed + 20, strength=0.6)
    stores = {
        "a": store_of(tmp_path / "a", manifest, strong),
        "b": store_of(tmp_path / "b", manifest, weak),
    }
    runs = []
    for name, store in stores.items():
        runs.append(run_on(tmp_path / f"run-{name}", protocol, manifest, {name: store}))
    both = run_on(tmp_path / "both", protocol, manifest, stores)
    (of_one_run,) = both.of(Comparison)
    (cell,) = compare_runs(runs, "ap").cells
    _, difference = cell.differences
    assert difference is not None
    assert difference.value == pytest.approx(-of_one_run.difference)
    low, high = of_one_run.ci
    assert (low == 0) == reaches_to_0
    assert (difference.low, difference.high) == pytest.approx((-high, -low))


def test_runs_are_compared_by_ap_where_no_cell_has_the_primary_metric(
    runs: tuple[Run, Run],
) -> None:
    first = runs[0]
    report = {**first.protocol["report"], "primary": "own.py:metric"}
    about = {**first.about, "protocol": {**first.protocol, "report": report}}
    compared = compare_runs([Run(first.folder, about, first.records), runs[1]])
    assert compared.metric == "ap"


def with_own_metric(run: Run, package: str) -> Run:
    """Return a run whose primary metric is an own one: the share of right decisions."""
    report = {**run.protocol["report"], "primary": NAME}
    about = {
        **run.about,
        "protocol": {**run.protocol, "report": report},
        "parts": {"metrics": {NAME: package}},
    }
    records = []
    for record in run.records:
        if isinstance(record, CellRecord):
            metrics = {**record.metrics, NAME: record.metrics["accuracy"]}
            record = replace(record, metrics=metrics)
        records.append(record)
    return Run(run.folder, about, records)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The version of an own metric that is trusted."""
    monkeypatch.setattr(parts, "_TRUSTED", {})
    (tmp_path / "own.py").write_text(METRIC, encoding="utf-8")
    parts.trust([f"{tmp_path / 'own.py'}:share_right"])
    return parts.find_part(NAME).package


def test_an_own_metric_is_compared_as_one_of_obygaze(
    runs: tuple[Run, Run], package: str
) -> None:
    both = [with_own_metric(run, package) for run in runs]
    compared = compare_runs(both)
    assert compared.metric == NAME
    assert compare_runs(both, NAME) == compared
    by_accuracy = compare_runs(both, "accuracy")
    assert [cell.values for cell in compared.cells] == [
        cell.values for cell in by_accuracy.cells
    ]
    differences = [cell.differences for cell in compared.cells]
    assert differences == [cell.differences for cell in by_accuracy.cells]
    assert any(difference[1] is not None for difference in differences)
    assert not [text for text in compared.warnings if "no differences" in text]
    with pytest.raises(FixUsage, match=r"did you mean 'own\.py:share_right'"):
        compare_runs(both, "own.py:share_rihgt")


def test_another_version_of_its_code_is_named(
    runs: tuple[Run, Run], package: str
) -> None:
    both = [
        with_own_metric(runs[0], package),
        with_own_metric(runs[1], "own.py 0.9"),
    ]
    compared = compare_runs(both, NAME)
    assert compared.settings[f"parts.metrics.{NAME}"] == [package, "own.py 0.9"]
    assert all(cell.differences[1] is None for cell in compared.cells)
    assert all(cell.values[0] is not None for cell in compared.cells)
    warning = compared.warnings[0]
    assert f"is by own.py 0.9, the code here is {package}" in warning


def test_code_that_a_finished_run_names_is_not_run(
    runs: tuple[Run, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "_TRUSTED", {})
    both = [with_own_metric(run, "own.py 1.0") for run in runs]
    assert compare_runs(both).metric == "ap"
    compared = compare_runs(both, NAME)
    assert all(cell.differences[1] is None for cell in compared.cells)
    assert all(cell.values[0] is not None for cell in compared.cells)
    assert "own.py:share_right would run own code" in compared.warnings[0]


def test_runs_of_other_clips_are_warned_of(runs: tuple[Run, Run]) -> None:
    """Values of AP of other shares of positives stood side by side without a word."""
    sizes = []
    for run in runs:
        (cell,) = (
            cell for cell in run.cells if (cell.model, cell.test) == ("ridge", "EN_S")
        )
        share = f"{100 * cell.n_positive / cell.n_test:.1f}"
        sizes.append(f"{cell.n_test} clips ({share} % positive)")
    assert sizes[0] != sizes[1]
    (warning,) = compare_runs(runs, "ap").warnings
    assert f"ridge (EN_S -> EN_S) has {sizes[1]}, and in the first run {sizes[0]}" in (
        warning
    )
    assert "AP depends on the share of positive clips" in warning
    assert "differences are computed on the clips that both tested" in warning
    (of_auc,) = compare_runs(runs, "auc").warnings
    assert "depends on the share" not in of_auc and "of other clips" in of_auc
    assert compare_runs([runs[0], runs[0]]).warnings == []


def test_runs_of_other_folds_are_warned_of(tmp_path: Path) -> None:
    """AP is the mean over folds: the same scores in other folds have another AP."""
    manifest = films(6, 40, seed=2)
    store = store_of(tmp_path / "store", manifest, planted(manifest, width=14))
    made = []
    for splits in ((), ("splits.kind=nested", "splits.folds=3")):
        protocol = quick("honest", *CHANGES, *ONE_CELL, *splits)
        made.append(run_on(tmp_path, protocol, manifest, {"a": store}))
    (warning,) = compare_runs(made, "ap").warnings
    assert "tests the clips of run-0 in other folds in 1 of 1 cell" in warning
    assert "ridge (EN_S -> EN_S) has 3 folds, and in the first run 6." in warning
    # Decisions are pooled over folds.
    assert compare_runs(made, "f1_binary").warnings == []
    page, *_ = write_report(
        [run.folder for run in made], out=tmp_path / "two.html", formats=["html"]
    )
    assert "AP is computed within folds" in page.read_text("utf-8")


def test_a_run_compared_with_itself_differs_in_nothing(runs: tuple[Run, Run]) -> None:
    compared = compare_runs([runs[0], runs[0]])
    assert compared.settings == {}
    for cell in compared.cells:
        first, second = cell.differences
        assert first is None
        if second is not None:
            assert second.value == 0
            assert (second.low, second.high, second.p) == (None, None, None)


def test_cells_that_are_the_same_are_counted_and_not_listed(
    runs: tuple[Run, Run],
) -> None:
    compared = compare_runs([runs[0], runs[0]])
    text = str(compared)
    assert f"{len(compared.cells)} cells have the same value" in text
    assert "ridge" not in text
    assert "the settings and inputs are the same" in text


def test_settings_and_inputs_that_differ_are_listed(runs: tuple[Run, Run]) -> None:
    settings = differing_settings(runs)
    assert settings["protocol.fit.seed"] == ["0", "1"]
    assert settings["store.name"] == ["good", "noise"]
    assert settings["store.n_present"] == ["360", "358"]
    assert all(len(value) == 15 for value in settings["store.sha256"])  # shortened
    assert "store.backbone" not in settings
    assert "manifest.sha256" not in settings
    assert not any(key.startswith(("created", "seconds")) for key in settings)


def test_of_a_model_that_a_run_lacks_there_is_one_line(
    runs: tuple[Run, Run], tmp_path: Path
) -> None:
    first = runs[0]
    protocol = {**first.protocol, "models": dict(first.protocol["models"])}
    protocol["models"]["forest"] = {"kind": "rf", "settings": {"trees": 9, "depth": 2}}
    second = Run(first.folder, {**first.about, "protocol": protocol}, first.records)
    assert differing_settings([first, second]) == {
        "protocol.models.forest": ["–", "rf"]
    }


def test_a_run_of_one_store_is_compared_with_a_run_of_several(tmp_path: Path) -> None:
    """Of three runs, the second has both stores, and the third a store that the first lacks."""
    manifest = films(6, 40, seed=2)
    first = store_of(tmp_path / "a", manifest, planted(manifest, width=14))
    X = planted(manifest, width=14, strength=0.3)
    second = store_of(tmp_path / "b", manifest, X)
    protocol = quick("honest", *CHANGES, *ONE_CELL)
    made = []
    for stores in ({"a": first}, {"a": first, "b": second}, {"b": second}):
        made.append(run_on(tmp_path, protocol, manifest, stores))
    compared = compare_runs(made)
    of_store = {cell.store: cell for cell in compared.cells}
    assert [cell.store for cell in compared.cells] == ["a", "b"]
    assert of_store["a"].differences[1].value == pytest.approx(0)
    assert of_store["a"].values[2] is None
    assert of_store["b"].values[0] is None
    assert of_store["b"].values[1] == of_store["b"].values[2]
    (warning,) = compared.warnings
    assert warning.startswith("no differences of run-2 to run-0")
    assert "the names of stores, b and a" in warning
    assert compared.settings["stores.b"] == ["–", "yes", "yes"]
    # Runs of one store each are compared whatever the names are.
    (cell,) = compare_runs([made[0], made[2]]).cells
    assert cell.store == "" and cell.differences[1] is not None


def test_clips_whose_label_differs_are_left_out(
    runs: tuple[Run, Run], tmp_path: Path
) -> None:
    """The annotations of a film were changed between two runs."""
    first = runs[0]
    changed = [dict(row) for row in first.predictions]
    clip = changed[0]["clip_id"]
    for row in changed:
        if row["clip_id"] == clip:
            row["y"] = 1 - row["y"]
    second = Run(first.folder, first.about, first.records)
    second.__dict__["predictions"] = changed
    compared = compare_runs([first, second])
    left_out = [
        cell.values[0].n_clips - cell.differences[1].n_clips
        for cell in compared.cells
        if cell.differences[1] is not None
    ]
    assert set(left_out) <= {0, 1}
    assert 1 in left_out


def test_metrics_of_decisions_have_no_interval(runs: tuple[Run, Run]) -> None:
    for cell in compare_runs(runs, "f1_binary").cells:
        _, difference = cell.differences
        if cell.model == "ridge":
            assert (difference.low, difference.p) == (None, None)


@pytest.mark.parametrize("n_runs", [0, 1])
def test_a_comparison_needs_two_runs(runs: tuple[Run, Run], n_runs: int) -> None:
    with pytest.raises(FixUsage, match="two runs"):
        compare_runs(runs[:n_runs])


def test_an_unknown_metric_is_refused_with_those_that_are_known(
    runs: tuple[Run, Run],
) -> None:
    with pytest.raises(FixUsage, match="unknown metric 'aop'"):
        compare_runs(runs, "aop")


def test_a_report_of_several_runs_begins_with_their_comparison(
    runs: tuple[Run, Run], tmp_path: Path
) -> None:
    folders = [run.folder for run in runs]
    page, *_ = write_report(folders, out=tmp_path / "report.html", formats=["html"])
    text = page.read_text()
    compared = text.index("The runs side by side")
    assert compared < text.index("Results")
    assert text.index("protocol.fit.seed") > compared
    assert "run 2 minus run 1" in text
    # Runs of one protocol have one title: the folder tells them apart.
    for folder in folders:
        assert f"{folder}</summary>" in text
    alone, *_ = write_report([folders[0]], out=tmp_path / "one.html", formats=["html"])
    assert "side by side" not in alone.read_text()


def test_the_command(runs: tuple[Run, Run]) -> None:
    folders = [str(run.folder) for run in runs]
    text = call_obygaze("compare", *folders, "--metric", "auc").ok().stdout
    assert "protocol.fit.seed" in text
    assert "2 - 1" in text
    assert f"2: {folders[1]}" in text  # both folders are called run-0
    document = call_obygaze("compare", *folders, "--json").ok().json()
    assert document["metric"] == "ap"
    assert len(document["cells"]) == len(compare_runs(runs).cells)
    alone = call_obygaze("compare", folders[0])
    assert alone.code == 2
    assert "two runs" in alone.stderr


def test_runs_without_a_cell_in_common_say_so(runs: tuple[Run, Run]) -> None:
    first, second = runs
    assert "no cell" not in compare_runs(runs).warnings[0]
    of_other_task = []
    for record in (*second.cells, *second.baselines):
        of_other_task.append(replace(record, train="HN_S", test="HN_S"))
    other = Run(second.folder, second.about, of_other_task)
    (warning,) = compare_runs([first, other]).warnings
    assert warning.startswith("no cell (train, test and model) is in two of these runs")
    assert f"EN_S, ENHN_S in {first.folder}; HN_S in {second.folder}" in warning
