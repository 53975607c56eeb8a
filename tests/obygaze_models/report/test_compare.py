"""Runs side by side: paired differences against plain loops, and what differs in the runs."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import average_precision_score
from support.experiments import films, quick, without_models
from support.run_tables import (
    FILMS,
    MANIFEST,
    MadeCell,
    clips_of,
    made_run,
    scores_for,
)

from obygaze_features.core.errors import FixUsage, Mismatch
from obygaze_features.manifest.io import write_manifest
from obygaze_models.report.comparison import ComparedRuns, compare_runs
from obygaze_models.report.page import write_report
from obygaze_models.runner.files import Run
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.run import run_protocol

CLIPS = clips_of()


def cell(model="ridge", strength=1.0, seed=1, **facts) -> MadeCell:
    return MadeCell(model, CLIPS, scores_for(CLIPS, strength, seed), **facts)


def the_row(compared: ComparedRuns, number: int = 0) -> dict[str, Any]:
    """A difference of the one model of a comparison."""
    return differences_of(compared)[number]


def differences_of(compared: ComparedRuns) -> list[dict[str, Any]]:
    """The differences of a comparison from the first run, without those of baselines."""
    rows = compared.to_json()["rows"]
    return [row for row in rows if row["against_model"] and row["model"] != "neighbour"]


def by_film(first: MadeCell, second: MadeCell) -> np.ndarray:
    return np.array([first.ap_of(film) - second.ap_of(film) for film in FILMS])


def expected_interval(differences: np.ndarray) -> tuple[float, float]:
    """Student's interval, wider for films that trained each other's models."""
    k = len(differences)
    error = differences.std(ddof=1) * math.sqrt(2 * (k - 1) / (k - 2) / k)
    low, high = stats.t.interval(0.95, k - 1, loc=differences.mean(), scale=error)
    return float(low), float(high)


def expected_p(differences: np.ndarray) -> float:
    """Student's p, of a t that is smaller for the same reason."""
    k = len(differences)
    t = stats.ttest_1samp(differences, 0).statistic
    return float(2 * stats.t.sf(abs(t) / math.sqrt(2 * (k - 1) / (k - 2)), k - 1))


@pytest.mark.parametrize(("strength", "is_shown"), [(6.0, True), (1.0, False)])
def test_a_difference_is_that_of_plain_loops_over_films(tmp_path, strength, is_shown):
    first = cell(strength=-1.0 if is_shown else 0.5, seed=1)
    other = cell(strength=strength, seed=2)
    changes = ["report.replicates=8000"]
    runs = [
        made_run(tmp_path / "a", [first], changes=changes),
        made_run(tmp_path / "b", [other], changes=changes),
    ]
    side = the_row(compare_runs(runs))
    differences = by_film(other, first)
    assert side["first"] == pytest.approx(other.ap, abs=1e-12)
    assert side["second"] == pytest.approx(first.ap, abs=1e-12)
    assert side["value"] == pytest.approx(differences.mean(), abs=1e-12)
    assert (side["clips"], side["films"]) == (len(CLIPS.ids), 8)

    p = expected_p(differences)
    assert side["p"] == pytest.approx(p)
    assert (p < 0.05) == is_shown
    low, high = expected_interval(differences)
    assert side["low"] == pytest.approx(low)
    assert side["high"] == pytest.approx(high)
    assert (side["low"] > 0) == is_shown


def test_clips_of_one_id_and_other_films_are_refused(tmp_path: Path) -> None:
    films = tuple(f"other-{film}" for film in CLIPS.films)
    other = MadeCell("ridge", replace(CLIPS, films=films), scores_for(CLIPS, 1.0, 2))
    manifest = {**MANIFEST, "sha256": "of another manifest"}
    runs = [
        made_run(tmp_path / "a", [cell()]),
        made_run(tmp_path / "b", [other], manifest=manifest),
    ]
    first = f"'{CLIPS.ids[0]}' is of the film '{CLIPS.films[0]}', not '{films[0]}'"
    with pytest.raises(Mismatch, match=f"{len(films)} clips of a .*{first}"):
        compare_runs(runs)


def test_each_pair_of_runs_is_asked_whether_its_clips_are_the_same(tmp_path) -> None:
    runs = []
    for number, film in enumerate(("", "x-{}", "y-{}")):
        names = tuple(film.format(name) for name in CLIPS.films)
        of_run = replace(CLIPS, films=names)
        made = MadeCell("ridge", of_run, scores_for(CLIPS, 1.0, 2))
        n_films = len({*names} - {""})
        manifest = {**MANIFEST, "sha256": f"manifest {number}", "n_films": n_films}
        runs.append(made_run(tmp_path / f"r{number}", [made], manifest=manifest))
    with pytest.raises(Mismatch, match="clips of r1 differ from r2"):
        compare_runs(runs)


def test_a_clip_that_has_other_times_in_the_other_run_is_refused(tmp_path) -> None:
    manifest = films(3, 12)
    first, *others = manifest.clips
    late = replace(first, start_s=200.0, end_s=202.5)
    moved = manifest.with_clips([late, *others])
    changes = ('grid.train=["ENHN_S"]', 'grid.test=["ENHN_S"]')
    protocol = without_models(quick("honest-negatives", *changes), "neighbour")
    runs = []
    for name, clips in {"before": manifest, "after": moved}.items():
        path = tmp_path / "manifests" / f"{name}.toml"
        write_manifest(clips, path)
        inputs = gather(protocol, clips, str(path), {})
        runs.append(run_protocol(inputs, tmp_path / "runs" / name, n_jobs=1))
    values = rf"'{first.clip_id}' is 3 s to 5\.5 s, not 200 s to 202\.5 s"
    with pytest.raises(
        Mismatch, match=f"1 clip of before differs from after .*{values}"
    ):
        compare_runs(runs)
    assert compare_runs([runs[0], runs[0]]).warnings == []
    # Where the manifest is not there any more, nobody can say it.
    (tmp_path / "manifests" / "before.toml").unlink()
    (warning,) = compare_runs(runs).warnings
    assert warning.startswith("after: clips with the same id as in before count as")
    assert "Their times are not compared" in warning


def test_values_of_two_kinds_are_not_subtracted_in_any_format(tmp_path: Path) -> None:
    """The AP of a ranking of all films stood beside the mean AP of rankings of single films."""
    first = cell(seed=1)
    folds_of_row = [
        # A received model ranks all films together.
        ["test"] * len(CLIPS.ids),
        # Each film is in two folds, where it is in one of the other run.
        [("even", "odd")[place % 2] for place in range(len(CLIPS.ids))],
        # Whole films, two in a fold.
        [f"fold {FILMS.index(film) // 2}" for film in CLIPS.films],
    ]
    kinds = ["of all test clips together", "a mean over 2 folds", "a mean over 4 folds"]
    runs = [made_run(tmp_path / "a", [first]), made_run(tmp_path / "b", [cell(seed=2)])]
    for number, folds in enumerate(folds_of_row):
        rows = first.predictions()
        for row, fold in zip(rows, folds, strict=True):
            row["fold"] = fold
        tables = {"predictions.csv": rows}
        runs.append(made_run(tmp_path / f"c{number}", [first], tables=tables))
    for number, kind in enumerate(kinds):
        compared = compare_runs([runs[0], runs[2 + number]])
        assert differences_of(compared) == []
        of_first, side = (
            row for row in compared.to_json()["rows"] if row["model"] == "ridge"
        )
        reason = f"AP of a is a mean over 8 folds, and AP of c{number} is {kind}"
        assert side["why_not"] == reason
        # Each value is that of its run.
        values = {}
        for row in runs[2 + number].predictions.to_dict("records"):
            values.setdefault(row["fold"], []).append((row["y"], row["score"]))
        of_folds = [
            average_precision_score(*zip(*of, strict=True)) for of in values.values()
        ]
        assert side["value"] == pytest.approx(np.mean(of_folds), abs=1e-12)
        assert of_first["value"] == pytest.approx(first.ap, abs=1e-12)
        assert (of_first["store"], side["store"]) == ("a", f"c{number}")
        difference = f"{side['value'] - of_first['value']:.2f}".replace("0.", ".")
        written = {".txt": str(compared)}
        for suffix in (".csv", ".tex"):
            (path,) = compared.write(tmp_path / f"x{number}{suffix}")
            written[suffix] = path.read_text("utf-8")
        folders = [runs[0].folder, runs[2 + number].folder]
        page = write_report(folders, tmp_path / f"x{number}.html")[0].read_text("utf-8")
        written[".html"] = page.partition("side by side")[2].partition("</main>")[0]
        for text in written.values():
            assert reason in text
        for suffix in (".txt", ".tex", ".html"):
            shown = re.sub("<[^>]*>|&", " ", written[suffix])
            assert not re.search(rf"(?m)\s{re.escape(difference)}\s", shown)
        assert not any("difference" in warning for warning in compared.warnings)
    # A run of the same folds is compared, also beside a run of other folds.
    three = compare_runs([*runs[:2], runs[2]])
    alone = the_row(compare_runs(runs[:2]))
    assert differences_of(three) == [alone] and alone["value"] is not None
    (not_compared,) = (row for row in three.to_json()["rows"] if row["why_not"])
    assert not_compared["store"] == "c0"


def test_latex_has_the_warnings_of_the_terminal(tmp_path: Path) -> None:
    runs = [made_run(tmp_path / "a", [cell()])]
    fewer = [row for row in cell().predictions() if row["clip_id"] != CLIPS.ids[5]]
    runs.append(made_run(tmp_path / "b", [cell()], tables={"predictions.csv": fewer}))
    compared = compare_runs(runs)
    (warning,) = compared.warnings
    assert warning.startswith(
        "Test clips of the runs, or classes of these clips, differ in 1 of 1 result"
    )
    (path,) = compared.write(tmp_path / "x.tex")
    assert warning in path.read_text("utf-8")


def test_runs_without_a_common_clip_have_one_warning(tmp_path: Path) -> None:
    rows = cell().predictions()
    ids = [*dict.fromkeys(row["clip_id"] for row in rows)]
    runs = []
    for name, part in {"a": ids[::2], "b": ids[1::2]}.items():
        half = {"predictions.csv": [row for row in rows if row["clip_id"] in part]}
        runs.append(made_run(tmp_path / name, [cell()], tables=half))
    (warning,) = compare_runs(runs).warnings
    reason = "nothing is compared, because no clip is tested in all results"
    assert warning == f"EN_S: {reason}."
    page = write_report([run.folder for run in runs])[0].read_text("utf-8")
    beside = page.partition("side by side")[2].partition("</main>")[0]
    assert reason in beside
    assert "not compared" in beside


def test_a_task_of_other_classes_is_warned_of(tmp_path: Path) -> None:
    runs = []
    for name, classes in {"a": {"EN": 0, "S": 1}, "b": {"EN": 0, "HN": 1}}.items():
        run = made_run(tmp_path / name, [cell()])
        task = {"classes": classes, "title": f"the task of {name}"}
        protocol = {**run.protocol, "tasks": {**run.protocol["tasks"], "EN_S": task}}
        runs.append(Run(run.folder, {**run.about, "protocol": protocol}))
    (warning,) = compare_runs(runs).warnings
    assert warning == "b: its task EN_S has different classes than in a."


def test_runs_of_two_tasks_are_named_with_their_tasks(tmp_path: Path) -> None:
    other = cell(train="HN_S", test="HN_S")
    runs = [made_run(tmp_path / "a", [cell()]), made_run(tmp_path / "b", [other])]
    (warning,) = compare_runs(runs).warnings
    assert warning == (
        "nothing is compared, because these runs test different tasks: a tests EN_S, b tests HN_S."
        " Run one of them again with the --task of another."
    )


def test_a_model_of_each_run_is_named_where_runs_have_several(tmp_path: Path) -> None:
    one = made_run(tmp_path / "a", [cell("ridge", 1.0, 1), cell("mlp", 2.0, 2)])
    other = made_run(tmp_path / "b", [cell("trees", 3.0, 3), cell("ridge", 0.0, 4)])
    compared = compare_runs([one, other], models=["mlp", "trees"])
    assert compared.warnings == []
    row = the_row(compared)
    assert row["model"] == "mlp / trees"
    expected = by_film(cell("trees", 3.0, 3), cell("mlp", 2.0, 2))
    assert row["value"] == pytest.approx(expected.mean())
    of_one = compare_runs([one, other], models=["ridge"])
    assert {row["model"] for row in differences_of(of_one)} == {"ridge"}
    with pytest.raises(FixUsage, match="b has no model 'mpl'"):
        compare_runs([one, other], models=["mlp", "mpl"])
    with pytest.raises(FixUsage, match="expected one --model, or one for each of 2"):
        compare_runs([one, other], models=["mlp", "ridge", "trees"])


def test_a_difference_without_intervals_is_no_mean_over_films(tmp_path: Path) -> None:
    runs = [made_run(tmp_path / name, [cell(seed=n)]) for n, name in enumerate("ab")]
    of_p = "On unseen films, the values are means over films with clips of both classes. p is"
    assert of_p in compare_runs(runs, "ap").shown().note
    note = compare_runs(runs, "f1_binary").shown().note
    assert "means over films" not in note and "p is" not in note


def test_a_bracket_of_seen_films_is_not_of_unseen_films(tmp_path: Path) -> None:
    """The run has no difference, and an interval of its value."""
    first = cell(seed=1)
    rows = []
    for place, row in enumerate(first.predictions()):
        rows.append({**row, "fold": ("even", "odd")[place % 2], "seen": "film"})
    runs = [made_run(tmp_path / "a", [first]), made_run(tmp_path / "b", [cell(seed=2)])]
    runs += [made_run(tmp_path / "c", [first], tables={"predictions.csv": rows})]
    compared = compare_runs(runs)
    (of_c,) = (row for row in compared.to_json()["rows"] if row["store"] == "c")
    assert of_c["low"] is not None and of_c["why_not"]
    assert "which hold for the same experiment on other films" in compared.shown().note
    assert "hold for unseen films" in compare_runs(runs[:2]).shown().note


def test_a_comparison_has_one_p_in_text_csv_and_latex(tmp_path: Path) -> None:
    runs = [
        made_run(tmp_path / name, [cell("ridge", strength, seed)])
        for name, strength, seed in (("a", 0.0, 1), ("b", 1.0, 2), ("c", 3.0, 3))
    ]
    compared = compare_runs(runs)
    p_values = [row["p"] for row in differences_of(compared)]
    for suffix in (".csv", ".tex"):
        (path,) = compared.write(tmp_path / f"x{suffix}")
        written = path.read_text("utf-8")
        for p in p_values:
            shown = f"{p:.3f}".removeprefix("0")
            assert (str(p) if suffix == ".csv" else f"& {shown} &") in written
            assert f" {shown} " in str(compared)
    # Among two differences, a p is larger than alone.
    alone = the_row(compare_runs([runs[0], runs[2]]))["p"]
    assert p_values[1] > alone


def test_films_without_both_classes_are_counted_for_ranks_alone(tmp_path) -> None:
    in_first = CLIPS.rows_of(FILMS[0])
    clips = replace(CLIPS, y=CLIPS.y & ~in_first)
    runs = []
    for name, seed in (("a", 1), ("b", 2)):
        made = MadeCell("ridge", clips, scores_for(clips, 1.0, seed))
        runs.append(made_run(tmp_path / name, [made]))
    sentence = "For AP, there is a value for 7 of 8 films."
    assert sentence in compare_runs(runs, metric="ap").warnings
    said = compare_runs(runs, metric="accuracy").warnings
    assert not [line for line in said if "there is a value for" in line]


def test_one_run_alone_is_not_compared(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a", [cell()])
    with pytest.raises(FixUsage, match="expected two or more runs") as caught:
        compare_runs([run])
    assert caught.value.hint == "obygaze report a"
