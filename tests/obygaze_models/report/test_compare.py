"""Runs side by side: paired differences against plain loops, and what differs in the runs."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from support.experiments import films, quick, without_models
from support.run_tables import (
    FILMS,
    MANIFEST,
    STORE,
    MadeCell,
    clips_of,
    made_run,
    scores_for,
)

from obygaze_features.core.errors import FixUsage, Mismatch
from obygaze_features.manifest.io import write_manifest
from obygaze_models.report.comparison import ComparedRuns, compare_runs
from obygaze_models.runner.files import Run
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.run import run_protocol

CLIPS = clips_of()


def cell(
    model: str = "ridge", strength: float = 1.0, seed: int = 1, **facts: object
) -> MadeCell:
    return MadeCell(model, CLIPS, scores_for(CLIPS, strength, seed), **facts)


def the_row(compared: ComparedRuns, number: int = 1) -> dict[str, Any]:
    """The row of the one model of a comparison in one of the runs."""
    return rows_of_runs(compared, "neighbour")[number]


def rows_of_runs(compared: ComparedRuns, *without: str) -> list[dict[str, Any]]:
    """The rows of the table of a comparison, without those of some baselines."""
    rows = compared.to_json()["cells"]
    return [row for row in rows if row["model"] not in without]


def rows_of_table(compared: ComparedRuns) -> list[tuple[Any, ...]]:
    """The rows of the table of values and differences that a text and a page show."""
    table = compared.tables()[-1]
    assert table.key == "compared"
    return table.cells


def by_film(first: MadeCell, second: MadeCell) -> np.ndarray:
    return np.array([first.ap_of(film) - second.ap_of(film) for film in FILMS])


def expected_interval(differences: np.ndarray) -> tuple[float, float]:
    """Hesterberg's expanded percentiles of draws of films, widened for fits that share films."""
    k = len(differences)
    draws = np.random.default_rng(99).integers(0, k, (200_000, k))
    values = differences[draws].mean(axis=1)
    stretch = math.sqrt(1 + k / (k - 1))
    centre = np.median(values)
    values = centre + stretch * (values - centre)
    tail = stats.norm.cdf(math.sqrt(k / (k - 1)) * stats.t.ppf(0.025, k - 1))
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def expected_p(differences: np.ndarray) -> float:
    """Sign flips of films, where fits that share films make Student's t smaller."""
    k = len(differences)
    observed = abs(stats.ttest_1samp(differences, 0).statistic)
    observed /= math.sqrt(1 + k / (k - 1))
    n_larger = 0
    for signs in product((1, -1), repeat=k):
        t = abs(stats.ttest_1samp(np.multiply(signs, differences), 0).statistic)
        n_larger += t >= observed - 1e-9
    return n_larger / 2**k


@pytest.mark.parametrize(("strength", "is_shown"), [(4.0, True), (1.0, False)])
def test_a_difference_is_that_of_plain_loops_over_films(
    tmp_path: Path, strength: float, is_shown: bool
) -> None:
    first = cell(strength=0.5, seed=1)
    other = cell(strength=strength, seed=2)
    changes = ["report.replicates=20000"]
    runs = [
        made_run(tmp_path / "a", [first], changes=changes),
        made_run(tmp_path / "b", [other], changes=changes),
    ]
    side = the_row(compare_runs(runs))
    differences = by_film(other, first)
    assert side["value"] == pytest.approx(other.ap, abs=1e-12)
    assert side["difference"] == pytest.approx(differences.mean(), abs=1e-12)
    assert (side["difference_n_clips"], side["difference_n_films"]) == (
        len(CLIPS.ids),
        8,
    )

    p = expected_p(differences)
    assert side["difference_p"] == pytest.approx(p)
    assert (p < 0.05) == is_shown
    low, high = expected_interval(differences)
    if not is_shown:
        low, high = min(low, 0.0), max(high, 0.0)
    assert side["difference_low"] == pytest.approx(low, abs=0.01)
    assert side["difference_high"] == pytest.approx(high, abs=0.01)
    assert (side["difference_low"] > 0) == is_shown


@pytest.mark.parametrize(("strength", "verdict"), [(4.0, "yes"), (1.0, "not shown")])
def test_the_table_says_in_words_whether_a_run_is_better(
    tmp_path: Path, strength: float, verdict: str
) -> None:
    first = cell(strength=0.5, seed=1)
    other = cell(strength=strength, seed=2)
    guess = cell("neighbour", 0.2, 7, is_model=False, store="")
    runs = [
        made_run(tmp_path / "a", [first, guess]),
        made_run(tmp_path / "b", [other, guess]),
    ]
    compared = compare_runs(runs)
    (row,) = rows_of_table(compared)
    assert row[:5] == ("EN_S", "ridge", "b", len(CLIPS.ids), len(FILMS))
    values = [number.value for number in row[5:8]]
    difference = by_film(other, first).mean()
    assert values == pytest.approx([first.ap, other.ap, difference])
    assert row[-1] == verdict
    assert verdict in str(compared) and "neighbour" not in str(compared)


def test_two_runs_of_one_model_each_are_compared_whatever_it_is_called(
    tmp_path: Path,
) -> None:
    first = cell("ridge", seed=1)
    other = cell("logistic", seed=2, store="y")
    neighbour = cell("neighbour", 0.2, 7, is_model=False, store="")
    store = {"y": {**STORE, "location": "stores/y"}}
    runs = [
        made_run(tmp_path / "a", [first, neighbour]),
        made_run(tmp_path / "b", [other, neighbour], stores=store),
    ]
    compared = compare_runs(runs)
    assert [item.name for item in compared.cells] == ["ridge / logistic", "neighbour"]
    difference = by_film(other, first).mean()
    assert the_row(compared)["difference"] == pytest.approx(difference)
    rows = compared.table()
    assert rows["model"][:2] == ["ridge", "logistic"]
    assert rows["store"][:2] == ["x", "y"]


def test_a_store_is_named_where_a_run_has_several(tmp_path: Path) -> None:
    stores = {}
    for name in "xy":
        stores[name] = {**STORE, "location": f"stores/{name}"}
    two = [cell(seed=1), cell(seed=2, store="y")]
    runs = [
        made_run(tmp_path / "two", two, stores=stores),
        made_run(tmp_path / "b", [cell("forest", seed=3)]),
    ]
    compared = compare_runs(runs)
    names = [item.name for item in compared.cells]
    assert names == ["ridge / forest (x)", "ridge (y)"]
    text = str(compared)
    assert "EN_S  ridge / forest (x)" in text
    assert "Without a difference to two: ridge (y) for EN_S (two)." in text


def test_several_models_are_compared_by_their_names(tmp_path: Path) -> None:
    names = ("ridge", "mlp")
    cells = [cell(name, seed=seed) for seed, name in enumerate(names)]
    runs = [
        made_run(tmp_path / "a", cells),
        made_run(tmp_path / "b", [cell("mlp", seed=5)]),
    ]
    ridge, *of_mlp = rows_of_runs(compare_runs(runs))
    assert (ridge["model"], ridge["run"]) == ("ridge", "a")
    assert [(row["model"], row["run"]) for row in of_mlp] == [
        ("mlp", "a"),
        ("mlp", "b"),
    ]
    difference = by_film(cell("mlp", seed=5), cells[1]).mean()
    assert of_mlp[1]["difference"] == pytest.approx(difference)


def test_differences_are_on_the_clips_that_both_tested_with_one_class(
    tmp_path: Path,
) -> None:
    first = cell(seed=1)
    kept = np.array([number % 4 != 0 for number in range(len(CLIPS.ids))])
    y = CLIPS.y.copy()
    changed = int(np.flatnonzero(kept)[0])
    y[changed] = not y[changed]
    part = replace(
        CLIPS,
        ids=tuple(np.array(CLIPS.ids)[kept].tolist()),
        films=tuple(np.array(CLIPS.films)[kept].tolist()),
        y=y[kept],
    )
    other = MadeCell("ridge", part, scores_for(CLIPS, 1.0, 2)[kept])
    runs = [made_run(tmp_path / "a", [first]), made_run(tmp_path / "b", [other])]
    compared = compare_runs(runs)
    both = kept.copy()
    both[changed] = False
    shared = replace(
        CLIPS,
        ids=tuple(np.array(CLIPS.ids)[both].tolist()),
        films=tuple(np.array(CLIPS.films)[both].tolist()),
        y=CLIPS.y[both],
    )
    ours = MadeCell("ridge", shared, scores_for(CLIPS, 1.0, 2)[both])
    theirs = MadeCell("ridge", shared, scores_for(CLIPS, 1.0, 1)[both])
    side = the_row(compared)
    assert side["difference_n_clips"] == int(both.sum())
    assert side["difference"] == pytest.approx(by_film(ours, theirs).mean())
    (warning,) = compared.warnings
    assert (
        "b tests other clips than a, or has other classes of them, in 1 of 1" in warning
    )


def test_clips_of_one_id_and_other_films_are_refused(tmp_path: Path) -> None:
    films = tuple(f"other-{film}" for film in CLIPS.films)
    other = MadeCell("ridge", replace(CLIPS, films=films), scores_for(CLIPS, 1.0, 2))
    manifest = {**MANIFEST, "sha256": "of another manifest"}
    runs = [
        made_run(tmp_path / "a", [cell()]),
        made_run(tmp_path / "b", [other], manifest=manifest),
    ]
    first = f"'{CLIPS.ids[0]}' is of the film '{CLIPS.films[0]}' and of '{films[0]}'"
    with pytest.raises(Mismatch, match=f"{len(films)} clips of a .*{first}"):
        compare_runs(runs)


def test_each_pair_of_runs_is_asked_whether_its_clips_are_the_same(
    tmp_path: Path,
) -> None:
    """The first run states nothing, and the other two were not compared with each other."""
    runs = []
    for number, film in enumerate(("", "x-{}", "y-{}")):
        names = tuple(film.format(name) for name in CLIPS.films)
        of_run = replace(CLIPS, films=names)
        made = MadeCell("ridge", of_run, scores_for(CLIPS, 1.0, 2))
        n_films = len({*names} - {""})
        manifest = {**MANIFEST, "sha256": f"manifest {number}", "n_films": n_films}
        runs.append(made_run(tmp_path / f"r{number}", [made], manifest=manifest))
    with pytest.raises(Mismatch, match="clips of r1 are not what r2 has"):
        compare_runs(runs)


def test_clips_of_a_run_without_films_are_met_by_their_ids_alone(
    tmp_path: Path,
) -> None:
    films = ("",) * len(CLIPS.ids)
    without = replace(CLIPS, films=films)
    scores = scores_for(CLIPS, 1.0, 2)
    other = MadeCell("ridge", without, scores, facts={"seen": "unknown"})
    manifest = {**MANIFEST, "sha256": "of another manifest", "n_films": 0}
    runs = [
        made_run(tmp_path / "a", [cell()]),
        made_run(tmp_path / "b", [other], manifest=manifest),
    ]
    compared = compare_runs(runs)
    side = the_row(compared)
    assert side["n_clips"] == len(films) and side["difference"] is not None
    assert side["difference_low"] is None and side["difference_p"] is None


def test_a_clip_that_has_other_times_in_the_other_run_is_refused(
    tmp_path: Path,
) -> None:
    manifest = films(3, 12)
    first, *others = manifest.clips
    late = replace(first, start_s=200.0, end_s=202.5)
    moved = manifest.with_clips([late, *others])
    changes = ('grid.train=["ENHN_S"]', 'grid.test=["ENHN_S"]')
    protocol = without_models(quick("honest", *changes), "neighbour")
    runs = []
    for name, clips in {"before": manifest, "after": moved}.items():
        path = tmp_path / "manifests" / f"{name}.toml"
        write_manifest(clips, path)
        inputs = gather(protocol, clips, str(path), {})
        runs.append(run_protocol(inputs, tmp_path / "runs" / name, n_jobs=1))
    values = rf"'{first.clip_id}' is 3 s to 5\.5 s and 200 s to 202\.5 s"
    with pytest.raises(Mismatch, match=f"1 clip of before is not .* after .*{values}"):
        compare_runs(runs)
    assert compare_runs([runs[0], runs[0]]).warnings == []
    # Where the manifest is not there any more, nobody can say it.
    (tmp_path / "manifests" / "before.toml").unlink()
    (warning,) = compare_runs(runs).warnings
    assert warning.startswith("after: clips with the id of a clip of before count as")
    assert "Their times are not compared" in warning


def test_runs_of_other_folds_are_warned_of(tmp_path: Path) -> None:
    first = cell(seed=1)
    # Each film is in two folds, where it is in one of the other run.
    divided = []
    for place, row in enumerate(first.predictions()):
        divided.append({**row, "fold": ("even", "odd")[place % 2]})
    # With a clip less, too: differences are not of one quantity there either.
    fewer = [row for row in divided if row["clip_id"] != CLIPS.ids[5]]
    runs = [made_run(tmp_path / "a", [first])]
    for name, rows in {"b": divided, "c": fewer}.items():
        runs.append(
            made_run(tmp_path / name, [first], tables={"predictions.csv": rows})
        )
    compared = compare_runs(runs[:2])
    (warning,) = compared.warnings
    assert warning not in str(compared), "the command prints it by itself"
    assert "b tests clips of a in other folds in 1 of 1 cell" in warning
    clips, folds = compare_runs([runs[0], runs[2]]).warnings
    assert "c tests other clips than a" in clips
    assert "c tests clips of a in other folds in 1 of 1 cell" in folds


def test_one_fold_of_all_films_and_a_fold_of_each_are_one_quantity_within_films(
    tmp_path: Path,
) -> None:
    first = cell(seed=1)
    in_one_fold = [{**row, "fold": "all"} for row in first.predictions()]
    runs = [made_run(tmp_path / "a", [first])]
    tables = {"predictions.csv": in_one_fold}
    runs.append(made_run(tmp_path / "b", [first], tables=tables))
    for pair in (runs, runs[::-1]):
        compared = compare_runs(pair)
        (warning,) = compared.warnings
        assert warning == (
            "Some of these runs test several films in one fold, and others do not: AP and AUC are"
            " those within films."
        )
        # Both have the same scores of the same clips; `ap` is the mean over the films.
        side = the_row(compared)
        assert side["value"] == pytest.approx(first.ap, abs=1e-12)
        assert side["difference"] == 0


def test_f1_has_a_difference_without_an_interval(tmp_path: Path) -> None:
    first, other = cell(seed=1), cell(seed=2)
    runs = [made_run(tmp_path / "a", [first]), made_run(tmp_path / "b", [other])]
    side = the_row(compare_runs(runs, "accuracy"))
    right = [np.mean((made.scores > 0) == CLIPS.y) for made in (first, other)]
    assert side["difference"] == pytest.approx(right[1] - right[0])
    assert side["difference_low"] is None
    assert side["difference_p"] is None
    note = "In brackets: intervals over films, of other films of the same kind"
    assert note in compare_runs(runs).tables()[-1].note
    assert "In brackets" not in compare_runs(runs, "f1_weighted").tables()[-1].note


def test_a_run_compared_with_itself_differs_in_nothing(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a", [cell()])
    compared = compare_runs([run, run])
    assert compared.settings == {}
    assert compared.warnings == []
    assert the_row(compared)["difference"] == 0
    (row,) = rows_of_table(compared)
    assert row[-1] == "the same"


def test_settings_and_inputs_that_differ_are_listed(tmp_path: Path) -> None:
    first = made_run(tmp_path / "a", [cell()], changes=["fit.seed=0"])
    changes = ["fit.seed=3", "models.logistic.kind=logistic"]
    manifest = {**first.about["manifest"], "sha256": "5" * 64}
    other = made_run(tmp_path / "b", [cell()], changes=changes, manifest=manifest)
    settings = compare_runs([first, other]).settings
    assert settings["protocol.fit.seed"] == ["0", "3"]
    assert settings["protocol.models.logistic"] == ["–", "logistic"]
    assert settings["manifest.sha256"] == ["000000000000...", "555555555555..."]
    assert not [key for key in settings if key.startswith(("fits", "files", "created"))]


@pytest.mark.parametrize("trained", [[], ["ridge"], ["ridge", "pcbm-lr"]])
def test_models_that_no_run_trains_do_not_differ(
    tmp_path: Path, trained: list[str]
) -> None:
    """A run of an own label has no bottlenecks, which a run of levels may have without use."""
    changes = [f"grid.models={json.dumps(trained)}"]
    first = made_run(tmp_path / "a", [cell()], changes=changes)
    other = made_run(tmp_path / "b", [cell()], changes=['grid.models=["ridge"]'])
    protocol = dict(other.about["protocol"])
    protocol["models"] = {"ridge": protocol["models"]["ridge"]}
    other = replace(other, about={**other.about, "protocol": protocol})
    settings = compare_runs([first, other]).settings
    used = {f"protocol.models.{name}" for name in trained or first.protocol["models"]}
    used.remove("protocol.models.ridge")
    assert {name for name in settings if name.startswith("protocol.models.")} == used


@pytest.mark.parametrize("seed", range(6))
def test_lists_of_a_grid_that_mean_all_are_shown_in_full(
    tmp_path: Path, seed: int
) -> None:
    """A run of all models had none of them, beside a run of one."""
    rng = np.random.default_rng([seed, 71])
    tasks = ["EN_S", "HN_S", "ENHN_S"]
    all_of_key = {
        "models": ["ridge", "mlp", "pcbm-lr", "pcbm-dt"],
        "train": tasks,
        "test": tasks,
    }
    runs = []
    in_full: dict[str, list[str]] = {key: [] for key in all_of_key}
    for name in "ab":
        changes = []
        for key, names in all_of_key.items():
            asked = names[: rng.integers(len(names) + 1)]
            changes.append(f"grid.{key}={json.dumps(asked)}")
            in_full[key].append(", ".join(asked or names))
        runs.append(made_run(tmp_path / name, [cell()], changes=changes))
    settings = compare_runs(runs).settings
    for key, values in in_full.items():
        expected = None if values[0] == values[1] else values
        assert settings.get(f"protocol.grid.{key}") == expected


def test_a_value_beside_a_grid_or_a_list_is_shown_in_full(tmp_path: Path) -> None:
    logistic = "models.logistic={kind='logistic', C=%s}"
    changes = [logistic % "1.0", "report.questions=[]"]
    first = made_run(tmp_path / "a", [cell()], changes=changes)
    asked = "report.questions=[{first='logistic', second='random'}]"
    changes = [logistic % "{grid=[1.0, 2.0]}", asked]
    other = made_run(tmp_path / "b", [cell()], changes=changes)
    settings = compare_runs([first, other]).settings
    of_c = settings["protocol.models.logistic.settings.C"]
    assert of_c == ["1.0", "grid 1.0, 2.0"]
    of_question = settings["protocol.report.questions.1"]
    assert of_question == ["–", "first logistic, second random"]


@pytest.mark.parametrize("is_first", [True, False])
def test_what_one_run_does_not_have_is_one_line(tmp_path: Path, is_first: bool) -> None:
    """A task, a question and a store were up to 14 lines each, half of them without a value."""
    asked = "report.questions=[{text='Is it better?', first='ridge', second='random'}]"
    none_asked = "report.questions=[]"
    heard = {**STORE, "location": "stores/heard"}
    stores = {"x": STORE, "heard": heard}
    more = made_run(tmp_path / "a", [cell()], changes=[asked], stores=stores)
    loud = {"title": "Loud scenes", "positive": "Look in concept", "column": ""}
    more.protocol["tasks"]["loud"] = loud
    fewer = made_run(tmp_path / "b", [cell()], changes=[none_asked])
    runs = [more, fewer] if is_first else [fewer, more]
    settings = compare_runs(runs).settings
    values_of_more = {
        "protocol.tasks.loud": "Loud scenes",
        "protocol.report.questions.1": "Is it better?",
        "stores.heard": "stores/heard",
    }
    expected = {}
    for key, value in values_of_more.items():
        expected[key] = [value, "–"] if is_first else ["–", value]
    assert settings == expected


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_what_differs_where_a_third_run_has_nothing_is_listed(
    tmp_path: Path, order: tuple[int, ...]
) -> None:
    """Two runs with other classes of a task were "Loud scenes" in one line, and so alike."""
    runs = []
    for number, positive in enumerate(("Look in concept", "Body in concept", "")):
        run = made_run(tmp_path / str(number), [cell()])
        if positive:
            loud = {"title": "Loud scenes", "positive": positive, "column": ""}
            run.protocol["tasks"]["loud"] = loud
        runs.append(run)
    expected = {
        "protocol.tasks.loud": ("Loud scenes", "Loud scenes", "–"),
        "protocol.tasks.loud.positive": ("Look in concept", "Body in concept", "–"),
    }
    settings = compare_runs([runs[number] for number in order]).settings
    assert settings == {
        key: [values[number] for number in order] for key, values in expected.items()
    }


def test_questions_about_models_that_neither_run_trains_do_not_differ(
    tmp_path: Path,
) -> None:
    asked = "report.questions=[%s{first='ridge', second='random'}]"
    runs = []
    for name, of_mlp in (("a", "{first='mlp', second='pcbm-lr'}, "), ("b", "")):
        changes = ['grid.models=["ridge"]', asked % of_mlp]
        runs.append(made_run(tmp_path / name, [cell()], changes=changes))
    assert compare_runs(runs).settings == {}


def test_hashes_that_only_follow_from_the_clips_are_not_listed(tmp_path: Path) -> None:
    def settings_of(*seals: str) -> set[str]:
        folder = tmp_path / f"-{'-'.join(seals)}"
        runs = []
        for number, seal in enumerate(seals):
            run = made_run(folder / str(number), [cell()])
            ((name, store),) = run.about["stores"].items()
            labels = {"clips": f"clips-{number}", "levels": f"levels-{number}"}
            about = {
                **run.about,
                "stores": {name: {**store, "seal": seal, "sha256": str(number) * 64}},
                "manifest": {**run.about["manifest"], "labels": labels},
            }
            runs.append(replace(run, about=about))
        return set(compare_runs(runs).settings)

    labels = {"manifest.labels.clips", "manifest.labels.levels"}
    assert settings_of("one", "one") == labels
    assert settings_of("one", "other") == {*labels, "store.seal"}
    # A store without a seal is known by its features alone.
    assert settings_of("", "") == {*labels, "store.sha256"}


def run_of_cells(folder: Path, names: list[tuple[str, str, str]]) -> Run:
    """A run of some tasks, models and stores, each store of a recipe of its own."""
    cells = []
    stores = {}
    for task, model, store in names:
        cells.append(cell(model, test=task, train=task, store=store))
        stores[store] = {**STORE, "fingerprint": store * 64}
    return made_run(folder, cells, stores=stores)


@pytest.mark.parametrize(
    "theirs",
    [
        [("HN_S", "ridge", "x"), ("HN_S", "mlp", "y")],
        [("EN_S", "lda", "x"), ("EN_S", "lda", "y")],
        [("EN_S", "ridge", "p"), ("HN_S", "mlp", "q")],
        [("HN_S", "lda", "x")],
        [("EN_S", "ridge", "y"), ("EN_S", "mlp", "x")],
    ],
)
def test_runs_without_a_cell_in_common_say_so(
    tmp_path: Path, theirs: list[tuple[str, str, str]]
) -> None:
    ours = [("EN_S", "ridge", "x"), ("EN_S", "mlp", "y")]
    runs = [run_of_cells(tmp_path / "a", ours), run_of_cells(tmp_path / "b", theirs)]
    compared = compare_runs(runs)
    (warning,) = compared.warnings
    assert warning.startswith("no cell is in two of these runs, so nothing is compared")
    assert "--store NAME=STORE" in warning
    # What each run has stands below, and no table without rows.
    text = str(compared)
    assert "better?" not in text
    assert "The numbers of a line" not in text
    for run, names in {"a": ours, "b": theirs}.items():
        for task, model, store in names:
            assert f"{model} ({store}) for {task} ({run})" in text


def test_stores_of_one_recipe_are_compared_whatever_they_are_called(
    tmp_path: Path,
) -> None:
    """Two labs had the same two backbones under other names, and nothing was compared."""

    def run_of(name: str, recipes: dict[str, str]) -> Run:
        cells = []
        stores = {}
        for store, recipe in recipes.items():
            cells.append(replace(cell(seed=ord(recipe)), store=store))
            stores[store] = {**STORE, "fingerprint": recipe * 64}
        return made_run(tmp_path / name, cells, stores=stores)

    ours = run_of("ours", {"x": "1", "y": "2"})
    theirs = run_of("theirs", {"p": "2", "q": "1"})
    compared = compare_runs([ours, theirs])
    assert compared.warnings == []
    rows = rows_of_runs(compared)
    assert [row["store"] for row in rows] == ["x", "q", "y", "p"]
    assert [row["difference"] for row in rows] == [None, 0, None, 0]
    assert "ridge (x / q)  " in str(compared)
    # An equal name is meant first; of two stores of one recipe, the last.
    same_name = run_of("same", {"x": "2", "z": "2"})
    rows = rows_of_runs(compare_runs([ours, same_name]))
    assert [row["store"] for row in rows] == ["x", "x", "y", "z"]
    twice = run_of("twice", {"p": "1", "q": "1"})
    rows = rows_of_runs(compare_runs([ours, twice]))
    assert [row["store"] for row in rows] == ["x", "q", "y", "p"]


def test_models_without_a_value_of_the_metric_are_named(tmp_path: Path) -> None:
    """Margins have no Brier score, and the table would be empty without a word."""
    runs = [made_run(tmp_path / "a", [cell()]), made_run(tmp_path / "b", [cell()])]
    compared = compare_runs(runs, "brier")
    assert rows_of_table(compared) == []
    assert compared.warnings == [
        "EN_S: nothing is compared, as not all of them have a value of Brier."
    ]
    assert compare_runs(runs, "auc").warnings == []


def test_own_metrics_are_not_compared_and_no_code_is_run(tmp_path: Path) -> None:
    name = "own.py:metric"
    runs: list[Run] = []
    for folder in "ab":
        run = made_run(tmp_path / folder, [cell()])
        report = {**run.protocol["report"], "primary": name}
        about = {**run.about, "protocol": {**run.protocol, "report": report}}
        runs.append(Run(run.folder, about))
    assert compare_runs(runs).metric == "ap"
    with pytest.raises(FixUsage, match="unknown metric 'own") as raised:
        compare_runs(runs, name)
    assert "results.csv" in str(raised.value.hint)


def test_a_comparison_needs_two_runs_and_a_known_metric(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a", [cell()])
    with pytest.raises(FixUsage, match="two runs or more"):
        compare_runs([run])
    with pytest.raises(FixUsage, match="unknown metric 'acc'") as raised:
        compare_runs([run, run], "acc")
    assert "accuracy" in str(raised.value.hint)


def test_three_runs_are_compared_with_the_first(tmp_path: Path) -> None:
    cells = [cell(seed=seed, strength=0.4 * seed) for seed in (0, 1, 2)]
    runs = [
        made_run(tmp_path / name, [made])
        for name, made in zip("abc", cells, strict=True)
    ]
    compared = compare_runs(runs)
    p_values = []
    for number in (1, 2):
        side = the_row(compared, number)
        difference = by_film(cells[number], cells[0])
        assert side["difference"] == pytest.approx(difference.mean())
        alone = the_row(compare_runs([runs[0], runs[number]]))
        p_values.append((side["difference_p"], alone["difference_p"]))
    # Each p is corrected for both differences.
    assert all(together >= alone for together, alone in p_values)
    assert any(together > alone for together, alone in p_values)
    text = str(compared)
    assert "1: a" in text and "3: c" in text
    assert [row[2] for row in rows_of_table(compare_runs(runs))] == ["b", "c"]


def test_clips_that_a_run_lacks_are_counted_and_some_are_named(tmp_path: Path) -> None:
    missing = {f"film-{number:02d}": "no-video" for number in range(30)}
    runs = []
    for name, lacking in (("a", {}), ("b", missing)):
        stores = {"x": {**STORE, "missing": lacking}}
        runs.append(made_run(tmp_path / name, [cell()], stores=stores))
    settings = compare_runs(runs).settings
    of_missing = [values for key, values in settings.items() if "missing" in key]
    assert of_missing == [
        [
            "none",
            "film-00, film-01, film-02, film-03, film-04, film-05, film-06, film-07 and 22 more",
        ]
    ]
