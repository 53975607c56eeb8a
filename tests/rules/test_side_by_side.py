"""Numbers that stand side by side are of the same clips, and ties are in no one's favour.

Random runs have ties, skipped folds, films of one class, other folds and several training sets.
What is printed of them is computed again from their predictions by `support.recompute`.
"""

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from support import recompute
from support.experiments import films, planted, quick, run_on, run_one_pair, store_of
from support.run_tables import STORE, made_run
from support.seeds import SEED, amount
from support.tables import RunRow, a_table, models, rows_of

from obygaze.films.decisions import models_to_show, scores_of
from obygaze_features.core.console import count
from obygaze_models.evaluation.clip_scores import clip_scores
from obygaze_models.evaluation.results import BLIND, RunSettings, results
from obygaze_models.evaluation.tables import CELL
from obygaze_models.report.comparison import compare_runs
from obygaze_models.report.lookup import label, pair_name
from obygaze_models.report.sections import errors, make_sections
from obygaze_models.runner.answer import (
    answers,
    asked_results,
    best_baseline,
)
from obygaze_models.runner.files import Run
from obygaze_models.runner.labels import current_labels
from obygaze_models.runner.limits import find_limits
from obygaze_models.runner.text import result_text

NAN = re.compile(r"\bnan\b", re.IGNORECASE)

Name = tuple[str, ...]  # train, test, store, model
Rows = list[dict[str, Any]]


# ---- plainly, from the predictions of a run ----


def ap_of(rows: Rows, clips: set[str] | None = None) -> float:
    """The mean over the folds with a positive clip, of all clips or of some."""
    kept = [row for row in rows if clips is None or row["clip_id"] in clips]
    return recompute.value_of("ap", kept, False) if kept else math.nan


def ap_at_random(rows: Rows) -> float:
    return ap_of([{**row, "score": 0.0} for row in rows])


def clips_of(rows: Rows) -> set[str]:
    return {row["clip_id"] for row in rows}


def has_both(rows: Rows) -> bool:
    return len({row["y"] for row in rows}) == 2


def shared_of(cells: Sequence[Rows]) -> set[str]:
    """The clips that all tested with the same class; none if all are of one class."""
    rows = recompute.on_shared_clips([*cells])[0]
    return clips_of(rows) if has_both(rows) else set()


def apart_of(ours: Rows, theirs: Rows, clips: set[str]) -> dict[str, float]:
    """The difference in each film with clips of both classes."""
    sides = [[row for row in one if row["clip_id"] in clips] for one in (ours, theirs)]
    return recompute.by_film("ap", sides, [False, False])


def plain_baseline(cells: Mapping[Name, Rows], name: Name) -> tuple[float, list[Name]]:
    """The highest value of a baseline on all clips of a model, and who has it."""
    clips = clips_of(cells[name])
    values = {}
    for other, rows in cells.items():
        is_on_tasks = other[:2] == name[:2] and other[2] in ("", name[2])
        is_guess = other[3] in BLIND and is_on_tasks and has_both(cells[name])
        if is_guess and clips <= clips_of(rows):
            values[other] = ap_of(rows, clips)
    best = max(values.values(), default=math.nan)
    return best, [other for other, value in values.items() if value > best - 1e-9]


def n_above(differences: Mapping[str, float]) -> tuple[int, int, int]:
    """In how many films a difference is above 0, how many have one, and in how many it is 0."""
    values = [*differences.values()]
    n_equal = sum(abs(value) <= 1e-9 for value in values)
    return sum(value > 1e-9 for value in values), len(values), n_equal


# ---- what is compared with it ----


def check_run(run: Run) -> None:
    """Everything that is printed of a run is what its predictions say."""
    assert recompute.compare(run.folder)["wrong"] == []
    cells = recompute.Tests(rows_of(run.predictions)).cells
    sections = make_sections(run, current_labels(run))
    tables = [table for section in sections for table in section.tables]
    check_baselines(run, cells)
    check_sentence(run, cells)
    (of_results,) = (table for table in tables if table.key == "results")
    check_summary(run, cells, of_results)
    check_stores(run, cells, tables)
    # No text says nan, neither in the terminal nor on the page.
    texts = [result_text(run), *(limit.text for limit in find_limits(run))]
    texts += itertools.chain(*(section.sentences for section in sections))
    for table in tables:
        texts += [table.title, table.note]
        for row in table.rows:
            texts += map(str, [row] if isinstance(row, str) else row)
    assert not NAN.search("\n".join(texts))


def check_baselines(run: Run, cells: Mapping[Name, Rows]) -> None:
    """A model has a difference to each guess with which it shares clips."""
    found = set()
    for row in rows_of(run.results):
        second = ("against_train", "test", "against_store", "against_model")
        found.add((tuple(row[x] for x in CELL), tuple(row[x] for x in second)))
        assert not row["against_model"] or row["clips"] > 0
    for cell, other in itertools.product(run.cells, repeat=2):
        is_guess = cell.is_model and not other.is_model and other.store == ""
        if is_guess and other.name[:2] == cell.name[:2]:
            shared = shared_of([cells[cell.name], cells[other.name]])
            assert ((cell.name, other.name) in found) == bool(shared)


def check_sentence(run: Run, cells: Mapping[Name, Rows]) -> None:
    """The first sentence, and the row that it is about."""
    text = answers(run)[0]
    assert not NAN.search(text)
    asked = asked_results(run)[0]
    row = asked.row("ap")
    rows = cells[asked.name]
    clips = clips_of(rows)
    value = ap_of(rows)
    assert same(row["value"], value)
    assert same(row["random"], ap_at_random(rows))
    # In a fold of positive clips each order has an AP of 1.
    folds = {row["fold"] for row in rows}
    tests_both = [has_both([r for r in rows if r["fold"] == fold]) for fold in folds]
    if math.isnan(value) or not any(tests_both):
        assert "ranks no clips: no fold tests clips of both classes" in text
        return
    guess, who = plain_baseline(cells, asked.name)
    assert same(row["baseline_value"], guess)
    if math.isnan(guess):
        assert "is not compared with a baseline" in text
        return
    counts = {n_above(apart_of(rows, cells[name], clips)) for name in who}
    names = ("films_better", "films_compared", "films_equal")
    assert tuple(row[name] for name in names) in counts
    if math.isnan(row["p"]):
        assert "is not tested" in text or "too high" in text
        return
    is_better = row["p"] <= 0.05 and row["tested"] > 0
    assert ("ranks clips better than" in text) == is_better
    assert ("is not shown to rank clips better than" in text) != is_better


def check_summary(run: Run, cells: Mapping[Name, Rows], table: Any) -> None:
    """The table of each model beside its guess, whose headings say how many clips."""
    at = list(table.headers).index("best baseline")
    by_key: dict[Any, list[Any]] = defaultdict(list)
    for cell in models(run):
        by_key[cell.pair, tuple(sorted(clips_of(cells[cell.name])))].append(cell)
    # What knows the true concepts stands below the models.
    rows = [row for row in table.cells if not str(row[0]).startswith("oracle (")]
    headings = [row for row in table.rows if isinstance(row, str)]
    for heading, (first, *_) in zip(headings, by_key.values(), strict=True):
        assert f"({count(first.n_clips, 'clip')} of " in heading
        at_random = re.search(r"; a random order has AP (\S+)\)$", heading)
        expected = ap_at_random(cells[first.name])
        assert (at_random is None) == math.isnan(expected), heading
        assert at_random is None or is_printed(at_random[1], expected)
    in_order = itertools.chain(*by_key.values())
    for cell, row in zip(in_order, rows, strict=True):
        clips = clips_of(cells[cell.name])
        assert cell.n_clips == len(clips)
        assert same(row[1].value, ap_of(cells[cell.name]))
        guess, who = plain_baseline(cells, cell.name)
        assert same(row[at + 1].value, guess)
        if math.isnan(guess):
            continue
        expected_words = []
        means = []
        for name in who:
            apart = apart_of(cells[cell.name], cells[name], clips)
            n, n_films, n_equal = n_above(apart)
            equal = f" (equal in {n_equal})" if n_equal else ""
            expected_words.append(f"{n} of {n_films}{equal}" if n_films else "–")
            means.append(mean_of(apart))
        (of_run,) = [one for one in run.models if one.name == cell.name]
        assert any(same(of_run.row("ap")["tested"], mean) for mean in means)
        assert str(row[at + 4]) in expected_words


def mean_of(apart: Mapping[str, float]) -> float:
    return float(np.mean([*apart.values()])) if apart else math.nan


def check_stores(run: Run, cells: Mapping[Name, Rows], tables: Any) -> None:
    """The differences of models that are asked about, on the clips that both tested."""
    expected = {}
    for first, second in itertools.combinations(models(run), 2):
        is_one_store = first.store == second.store
        if first.pair != second.pair or (first.model != second.model) != is_one_store:
            continue
        shared = shared_of([cells[first.name], cells[second.name]])
        if shared:
            task = pair_name(first.train, first.test)
            expected[task, label(run, first), label(run, second)] = len(shared)
    found = {}
    for table in tables:
        if table.key == "differences":
            at = list(table.headers).index("clips")
            found |= {row[:3]: row[at].value for row in table.cells}
    assert found == expected


def is_printed(text: str, value: float) -> bool:
    """Whether a text has two digits of a value; the last bits of .525 may go either way."""
    return abs(float(text) - value) < 0.005 + 1e-9


def same(found: float | None, expected: float) -> bool:
    number = math.nan if found is None else found
    return bool(number == pytest.approx(expected, abs=1e-9, nan_ok=True))


# ---- random runs, whose predictions are made up ----


class Made(NamedTuple):
    """The rows of a cell, and the folds that it leaves out."""

    name: Name
    rows: list[RunRow]
    skipped: Mapping[str, str]


def drawn_clips(rng: np.random.Generator) -> list[RunRow]:
    """Three to six films of two to six clips; a film may be of one class."""
    clips: list[RunRow] = []
    for film in range(rng.integers(3, 7)):
        for number in range(rng.integers(2, 7)):
            clip: RunRow = {"clip_id": f"f{film}-{number}", "movie_id": f"f{film}"}
            clips.append({**clip, "y": int(rng.integers(0, 2))})
    if not has_both(clips):
        clips[0]["y"] = 1 - clips[0]["y"]
    return clips


def drawn_folds(rng, clips, unit="movie_id") -> list[str]:
    """The fold of each clip, of whole films or of clips."""
    names = sorted({clip[unit] for clip in clips})
    n_folds = rng.integers(2, len(names) + 1)
    return [f"fold{names.index(clip[unit]) % n_folds}" for clip in clips]


def drawn_cell(rng, clips, folds, name, *, skips) -> Made:
    """A cell with tied scores, which may leave out folds, but not all."""
    names = sorted(set(folds))
    kept = [fold for fold in names if not skips or rng.random() < 0.5] or names
    facts: RunRow = dict(zip(("train", "test", "store", "model"), name, strict=True))
    is_trained = name[3] != "random"
    facts |= {"task": name[1], "is_model": name[2] != "", "n_seen": 30}
    facts |= {"is_trained": is_trained, "is_probability": is_trained}
    rows = []
    for clip, fold in zip(clips, folds, strict=True):
        if fold in kept:
            level = 0 if name[3] == "prevalence" else int(rng.integers(0, 4))
            row = {**clip, **facts, "fold": fold, "score": level / 4 + 0.1}
            rows.append(row if is_trained else {**row, "score": 0.0, "decision": 0.5})
    why = "all training rows have the same class: 0"
    return Made(name, rows, {fold: why for fold in names if fold not in kept})


def run_of_cells(folder: Path, made: Sequence[Made]) -> Run:
    """A run of these cells."""
    tests = a_table([row for cell in made for row in cell.rows])
    values = results(tests, RunSettings(replicates=40))
    fits = []
    for cell in made:
        folds = []
        for name in dict.fromkeys(row["fold"] for row in cell.rows):
            fold = {"fold": name, "seed": 0, "n_train": 30, "n_validation": 0}
            folds.append({**fold, "chosen": {}})
        facts = {"skipped": cell.skipped, "skipped_films": {}, "folds": folds}
        fits.append({**dict(zip(CELL, cell.name, strict=True)), **facts})
    tables = {"predictions.csv": rows_of(tests), "results.csv": rows_of(values)}
    stores = {cell.name[2]: STORE for cell in made if cell.name[2]}
    return made_run(folder, [], fits=fits, stores=stores, tables=tables)


DRAWS = range(SEED, SEED + amount(4, 100))


@pytest.mark.parametrize("seed", DRAWS)
def test_a_run_puts_numbers_of_the_same_clips_side_by_side(tmp_path, seed) -> None:
    """Several models, training sets, stores and baselines."""
    rng = np.random.default_rng(seed)
    clips = drawn_clips(rng)
    folds = drawn_folds(rng, clips, str(rng.choice(["movie_id", "clip_id"])))
    made = []
    for train in ("EN_S", "HN_S")[: rng.integers(1, 3)]:
        for model in ("ridge", "pcbm-dt")[: rng.integers(1, 3)]:
            for store in ("x", "y")[: rng.integers(1, 3)]:
                name = (train, "EN_S", store, model)
                made.append(drawn_cell(rng, clips, folds, name, skips=True))
        for model in ("neighbour", "prevalence", "random")[: rng.choice([1, 3])]:
            name = (train, "EN_S", "", model)
            skips = model == "neighbour" and rng.random() < 0.5
            made.append(drawn_cell(rng, clips, folds, name, skips=skips))
    check_run(run_of_cells(tmp_path / "run", made))


# ---- runs beside each other ----

NAME = ("EN_S", "EN_S", "x", "ridge")
RANDOM_NAME = ("EN_S", "EN_S", "", "random")


def clips_of_folds(rows: Rows, clips: set[str]) -> set[frozenset[str]]:
    """The clips that each fold tests, of some clips."""
    folds: dict[str, set[str]] = {}
    for row in rows:
        if row["clip_id"] in clips:
            folds.setdefault(row["fold"], set()).add(row["clip_id"])
    return {*map(frozenset, folds.values())}


@pytest.mark.parametrize("seed", DRAWS)
def test_runs_are_compared_on_the_clips_that_all_tested(tmp_path, seed) -> None:
    """Two or three runs of a model: the same or other folds, fewer clips, changed classes."""
    rng = np.random.default_rng(seed)
    clips = drawn_clips(rng)
    first_folds = drawn_folds(rng, clips)
    runs = []
    for number in range(rng.integers(2, 4)):
        own = [dict(clip) for clip in clips]
        if rng.random() < 0.5:
            changed = own[rng.integers(len(own))]
            changed["y"] = 1 - changed["y"]
        folds = first_folds if rng.random() < 0.6 else drawn_folds(rng, own)
        made = [drawn_cell(rng, own, folds, NAME, skips=True)]
        made.append(drawn_cell(rng, own, folds, RANDOM_NAME, skips=False))
        runs.append(run_of_cells(tmp_path / f"run{number}", made))
    compared = compare_runs(runs)
    text = "\n".join((str(compared), *compared.warnings))
    assert not NAN.search(text), text
    plain = [recompute.Tests(rows_of(run.predictions)).cells[NAME] for run in runs]
    # The AP of a run with other folds is of another kind than the AP of the first run.
    of_other_kind = []
    for number, rows in enumerate(plain):
        both = shared_of([plain[0], rows])
        if clips_of_folds(rows, both) != clips_of_folds(plain[0], both):
            of_other_kind.append(number)
    of_one_kind = [
        rows for number, rows in enumerate(plain) if number not in of_other_kind
    ]
    shared = shared_of(of_one_kind)
    if len(of_one_kind) == 1:
        shared = clips_of(plain[0])
    rows_of_model = [
        row for row in compared.to_json()["rows"] if row["model"] == "ridge"
    ]
    names = [f"run{number}" for number in range(len(runs))]
    values = [row for row in rows_of_model if not row["against_model"]]
    assert sorted(row["store"] for row in values) == names
    for row in values:
        number = names.index(row["store"])
        is_alone = number in of_other_kind or not shared or len(of_one_kind) == 1
        if is_alone:
            assert same(row["value"], ap_of(plain[number]))
            assert row["clips"] == len(clips_of(plain[number]))
        else:
            assert same(row["value"], ap_of(plain[number], shared))
            assert row["clips"] == len(shared)
        if number in of_other_kind:
            assert f"No difference, because {row['why_not']}" in text
    differences = [row for row in rows_of_model if row["against_model"]]
    expected = []
    if shared:
        expected = [n for n in range(1, len(runs)) if n not in of_other_kind]
    assert [names.index(row["store"]) for row in differences] == expected
    for row in differences:
        number = names.index(row["store"])
        assert row["against_store"] == "run0"
        mean = mean_of(apart_of(plain[number], plain[0], shared))
        assert same(row["value"], mean)
        assert math.isnan(mean) or same(row["first"] - row["second"], mean)
        if row["low"] is not None:
            assert row["low"] - 1e-9 <= mean <= row["high"] + 1e-9
        assert row["clips"] == len(shared)
    if not shared:
        assert "nothing is compared" in text


# ---- real runs ----

FEW_FILMS = ('grid.models=["ridge"]', 'grid.train=["EN_S"]', 'grid.test=["EN_S"]')


@pytest.mark.check("a whole run of three stores")
def test_a_real_run_with_skipped_folds_and_stores_that_lack_clips(tmp_path) -> None:
    """Also where two stores lack the same clips: each has a guess of its own."""
    manifest = films(5, 16, seed=0)
    X = planted(manifest, width=14)
    rng = np.random.default_rng(0)
    lost = rng.choice(len(manifest), 6, replace=False).tolist()
    lacking = [manifest.clips[row].clip_id for row in lost]
    failed_of: dict[str, list[str]] = {"x": [], "y": lacking, "z": lacking}
    stores = {}
    for name, failed in failed_of.items():
        stores[name] = store_of(tmp_path / name, manifest, X, failed=failed)
    run = run_on(tmp_path, quick("honest", *FEW_FILMS), manifest, stores)
    check_run(run)
    for cell in run.models:
        guess = best_baseline(run, cell, "ap")
        assert guess is not None and guess.store == cell.store
        assert cell.clips == guess.clips


def test_what_several_fits_decide_of_a_clip_is_one_decision(tmp_path: Path) -> None:
    manifest = films(4, 20, seed=3)
    X = planted(manifest, strength=0.3, width=14)
    changes = ["models.mlp.min_epochs=1", "models.mlp.max_epochs=2", "fit.seeds=4"]
    changes += ["models.mlp.hidden=[4]", 'grid.models=["mlp"]']
    changes += ["report.error_analysis=true"]
    run = run_one_pair(tmp_path, manifest, X, *changes)
    rows_of_clip: dict[str, list[Any]] = defaultdict(list)
    for row in rows_of(run.predictions):
        rows_of_clip[row["clip_id"]].append(row)
    wrong = set()
    n_of_another_majority = 0
    for clip_id, rows in rows_of_clip.items():
        is_positive = sum(row["score"] for row in rows) / len(rows) > 0.5
        n_positive = sum(row["decision"] for row in rows)
        n_of_another_majority += is_positive != (n_positive > len(rows) / 2)
        if is_positive != bool(rows[0]["y"]):
            wrong.add(clip_id)
    assert n_of_another_majority
    (cell,) = models_to_show(run)
    of_clips = clip_scores(run.tests_of(cell))
    assert {error["clip_id"] for error in errors(of_clips, {}, [], {})} == wrong
    scores = scores_of(of_clips)
    assert {name for name, score in scores.items() if not score["correct"]} == wrong
    n_right = len(rows_of_clip) - len(wrong)
    success = rows_of(run.table("success.csv"), film="all films")
    assert {row["successes"] for row in success} == {n_right}
