"""Numbers that stand side by side are of the same clips, and ties are in no one's favour.

Random runs have ties, skipped folds, films of one class, other folds and several training sets.
Everything that is printed of them is computed again from their predictions, without the program:
average precision from every place of a tie (`support.ties`), on the clips that the sides share.
"""

from __future__ import annotations

import math
import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.experiments import films, planted, quick, run_on, run_one_pair, store_of
from support.run_tables import STORE, made_run
from support.seeds import amount
from support.tables import RunRow, a_table, models, rows_of
from support.ties import ap_by_places

from obygaze.films.decisions import models_to_show, scores_of
from obygaze_features.core.console import count
from obygaze_features.core.parts import trust
from obygaze_models.evaluation.results import BLIND, RunSettings, results
from obygaze_models.evaluation.tables import CELL
from obygaze_models.report.comparison import compare_runs
from obygaze_models.report.lookup import label, pair_name
from obygaze_models.report.page import chapter_of
from obygaze_models.report.sections import errors, sections_of
from obygaze_models.runner.answer import (
    NOT_SHOWN,
    UNKNOWN,
    answers,
    asked_cells,
    best_guess,
    difference_to_guess,
    verdict,
)
from obygaze_models.runner.files import Run
from obygaze_models.runner.labels import labels_since
from obygaze_models.runner.limits import limits_of
from obygaze_models.runner.text import result_text

SENTENCE = re.compile(
    r"ranks? clips \(([^)]*)\) (?:with|better than guessing, p [^:]*:) AP (\S+?)"
    r"(?: \[[^]]*\])?(?:; guessing without video has (\S+?) \([^)]*\))?"
    r"(?:; higher in (\d+) of (\d+) films(?: that have clips of both classes)?"
    r"(?: \(equal in (\d+)\))?(?:, too few films for a p \(5 are needed\))?)?\.$"
)
NAN = re.compile(r"\bnan\b", re.IGNORECASE)

Name = tuple[str, str, str, str]  # train, test, store, model
# Film, class and score of each clip of each fold.
Folds = dict[str, dict[str, tuple[str, bool, float]]]


# ---- plainly, from the predictions of a run ----


def folds_of(run: Run) -> dict[Name, Folds]:
    """The predictions of each cell."""
    cells: dict[Name, Folds] = defaultdict(lambda: defaultdict(dict))
    for row in rows_of(run.predictions):
        name = (row["train"], row["test"], row["store"], row["model"])
        of_clip = (row["movie_id"], bool(row["y"]), row["score"])
        cells[name][row["fold"]][row["clip_id"]] = of_clip
    return dict(cells)


def with_one_score(folds: Folds) -> Folds:
    constant: Folds = {}
    for fold, clips in folds.items():
        constant[fold] = {c: (film, y, 0.0) for c, (film, y, _) in clips.items()}
    return constant


def clips_of(folds: Folds) -> dict[str, bool]:
    return {c: y for clips in folds.values() for c, (_, y, _) in clips.items()}


def shared_of(cells: Sequence[Folds]) -> set[str]:
    """The clips that all tested with the same class; none if all are of one class."""
    classes = [clips_of(folds) for folds in cells]
    shared = set(classes[0]).intersection(*classes[1:])
    shared = {c for c in shared if len({of_cell[c] for of_cell in classes}) == 1}
    return shared if len({classes[0][c] for c in shared}) == 2 else set()


def ap_of(folds: Folds, clips: set[str]) -> float:
    """The mean over the folds with a positive clip among some clips."""
    found = []
    for of_fold in folds.values():
        kept = [of_fold[c][1:] for c in of_fold if c in clips]
        if any(y for y, _ in kept):
            y, scores = zip(*kept, strict=True)
            found.append(ap_by_places(y, scores))
    return float(np.mean(found)) if found else math.nan


def ap_at_random(folds: Folds) -> float:
    """The value if all clips of a fold have one score: the mean over all orders."""
    return ap_of(with_one_score(folds), set(clips_of(folds)))


def ap_by_film(folds: Folds, clips: set[str]) -> dict[str, float]:
    """The value within each film, of folds of whole films."""
    of_films: dict[str, list[tuple[bool, float]]] = defaultdict(list)
    for of_fold in folds.values():
        for c, (film, y, score) in of_fold.items():
            if c in clips:
                of_films[film].append((y, score))
    found = {}
    for film, rows in of_films.items():
        if any(y for y, _ in rows):
            y, scores = zip(*rows, strict=True)
            found[film] = ap_by_places(y, scores)
    return found


def differences_of_films(
    ours: Folds, theirs: Folds, clips: set[str]
) -> dict[str, float]:
    """The difference in each film with clips of both classes, of folds of whole films.

    Beside a guess that gives all clips of a film one score, half of the order minus the reversed.
    """
    scores: dict[str, set[tuple[str, float]]] = defaultdict(set)
    classes: dict[str, set[bool]] = defaultdict(set)
    for fold, of_fold in theirs.items():
        for c, (film, y, score) in of_fold.items():
            scores[film].add((fold, score))
            if c in clips:
                classes[film].add(y)
    is_constant = all(len(of_film) == 1 for of_film in scores.values())
    first = ap_by_film(ours, clips)
    second = ap_by_film(theirs, clips)
    if is_constant:
        second = ap_by_film(backwards(ours), clips)
    found = {}
    for film in first.keys() & second.keys():
        if len(classes[film]) == 2:
            found[film] = (first[film] - second[film]) / (1 + is_constant)
    return found


def backwards(folds: Folds) -> Folds:
    reversed_folds: Folds = {}
    for fold, clips in folds.items():
        reversed_folds[fold] = {c: (film, y, -s) for c, (film, y, s) in clips.items()}
    return reversed_folds


def plain_guess(cells: Mapping[Name, Folds], name: Name) -> tuple[float, list[Name]]:
    """The highest value of a baseline on all clips of a model, and who has it."""
    clips = set(clips_of(cells[name]))
    values = {}
    for other, folds in cells.items():
        is_on_tasks = other[:2] == name[:2] and other[2] in ("", name[2])
        if other[3] in BLIND and is_on_tasks and clips <= set(clips_of(folds)):
            value = ap_of(folds, clips)
            if len({clips_of(folds)[c] for c in clips}) == 2:
                values[other] = value
    best = max(values.values(), default=math.nan)
    return best, [other for other, value in values.items() if value > best - 1e-9]


def n_above(differences: Mapping[str, float]) -> tuple[int, int, int]:
    """In how many films a difference is above 0, how many have one, and in how many it is 0."""
    values = [*differences.values()]
    n_equal = sum(abs(value) <= 1e-9 for value in values)
    return sum(value > 1e-9 for value in values), len(values), n_equal


# ---- what is compared with it ----


def check_run(run: Run, *, has_whole_films: bool = True) -> None:
    """Everything that is printed of a run is what its predictions say."""
    cells = folds_of(run)
    check_differences(run, cells, has_whole_films=has_whole_films)
    check_sentence(run, cells, has_whole_films=has_whole_films)
    check_summary(run, cells, has_whole_films=has_whole_films)
    check_stores(run, cells)
    check_texts(run)


def check_differences(
    run: Run, cells: Mapping[Name, Folds], *, has_whole_films: bool
) -> None:
    rows = {}
    for row in rows_of(run.results):
        if row["against_model"] and row["against_train"] == row["train"]:
            first = (row["train"], row["test"], row["store"], row["model"])
            second = (row["against_train"], row["test"])
            second += (row["against_store"], row["against_model"])
            rows[first, second] = row
    for (first, second), row in rows.items():
        shared = shared_of([cells[first], cells[second]])
        expected = ap_of(cells[first], shared) - ap_of(cells[second], shared)
        assert row["clips"] == len(shared) > 0
        assert row["value"] == pytest.approx(expected, abs=1e-9)
        if has_whole_films:
            apart = differences_of_films(cells[first], cells[second], shared)
            over_films = float(np.mean([*apart.values()])) if apart else math.nan
            assert same(row["over_films"], over_films)
        if not math.isnan(row["low"]):
            assert row["low"] - 1e-9 <= row["over_films"] <= row["high"] + 1e-9
    for cell in run.cells:
        for other in run.cells:
            is_guess = cell.is_model and not other.is_model
            if is_guess and other.name[:2] == cell.name[:2] and other.store == "":
                has_row = (cell.name, other.name) in rows
                assert has_row == bool(shared_of([cells[cell.name], cells[other.name]]))


def check_sentence(
    run: Run, cells: Mapping[Name, Folds], *, has_whole_films: bool
) -> None:
    text = answers(run)[0]
    assert not NAN.search(text)
    asked = asked_cells(run)[0]
    folds = cells[asked.name]
    limits = " ".join(chapter_of(run).limits)
    at_random = re.search(r"Clips in random order have AP (\S+) ", limits)
    clips = set(clips_of(folds))
    value = ap_of(folds, clips)
    # In a fold of positive clips each order has an AP of 1.
    has_both = [len({y for _, y, _ in of.values()}) == 2 for of in folds.values()]
    if math.isnan(value) or not any(has_both):
        assert f"ranks no clips ({asked.tasks})" in text
        assert at_random is None
        return
    assert at_random is not None
    assert is_printed(at_random[1], ap_at_random(folds))
    found = SENTENCE.search(text)
    assert found is not None, text
    assert found[1] == asked.tasks
    assert asked.train in found[1]
    assert is_printed(found[2], value)
    guess, who = plain_guess(cells, asked.name)
    assert (found[3] is None) == math.isnan(guess)
    assert found[3] is None or is_printed(found[3], guess)
    if not math.isnan(guess) and has_whole_films:
        counts = set()
        for name in who:
            counts.add(n_above(differences_of_films(folds, cells[name], clips)))
        if found[4] is None:
            assert all(n_films < 2 for _, n_films, _ in counts)
        else:
            assert (int(found[4]), int(found[5]), int(found[6] or 0)) in counts


def check_summary(
    run: Run, cells: Mapping[Name, Folds], *, has_whole_films: bool
) -> None:
    """The table of each model beside its guess, whose headings say how many clips."""
    tables = [
        table
        for section in sections_of(run, labels_since(run))
        for table in section.tables
        if table.key == "results"
    ]
    (table,) = tables
    at = list(table.headers).index("best guess")
    by_key: dict[Any, list[Any]] = defaultdict(list)
    for cell in models(run):
        by_key[cell.pair, tuple(cell.clip_ids)].append(cell)
    in_order = [cell for of_key in by_key.values() for cell in of_key]
    # What knows the true concepts stands below the models.
    rows = [row for row in table.cells if not str(row[0]).startswith("oracle (")]
    headings = [row for row in table.rows if isinstance(row, str)]
    assert len(headings) == len(by_key)
    for heading, cells_of_key in zip(headings, by_key.values(), strict=True):
        n_clips = cells_of_key[0].n_clips
        assert f"({count(n_clips, 'clip')} of " in heading
        at_random = re.search(r"; a random order has AP (\S+)\)$", heading)
        expected = ap_at_random(cells[cells_of_key[0].name])
        assert (at_random is None) == math.isnan(expected), heading
        assert at_random is None or is_printed(at_random[1], expected)
    for cell, row in zip(in_order, rows, strict=True):
        clips = set(clips_of(cells[cell.name]))
        assert cell.n_clips == len(clips)
        assert same(row[1].value, ap_of(cells[cell.name], clips))
        guess, who = plain_guess(cells, cell.name)
        assert same(row[at + 1].value, guess)
        if math.isnan(guess):
            continue
        if has_whole_films:
            expected_words = []
            means = []
            for name in who:
                apart = differences_of_films(cells[cell.name], cells[name], clips)
                n, n_films, n_equal = n_above(apart)
                equal = f" (equal in {n_equal})" if n_equal else ""
                words = f"{n} of {n_films}{equal}" if n_films else "–"
                expected_words.append(words)
                means.append(float(np.mean([*apart.values()])) if apart else math.nan)
            assert any(same(row[at + 2].value, mean) for mean in means)
            assert row[at + 5] in expected_words


def check_stores(run: Run, cells: Mapping[Name, Folds]) -> None:
    """The differences of models that are asked about, on the clips that both tested."""
    expected = {}
    for first, second in combinations(models(run), 2):
        is_one_store = first.store == second.store
        if first.pair != second.pair or (first.model != second.model) != is_one_store:
            continue
        ours = cells[first.name]
        theirs = cells[second.name]
        shared = shared_of([ours, theirs])
        if shared:
            task = pair_name(first.train, first.test)
            names = (task, label(run, first), label(run, second))
            expected[names] = len(shared)
    found = {}
    for section in sections_of(run, labels_since(run)):
        for table in section.tables:
            if table.key == "differences":
                at = list(table.headers).index("clips")
                for row in table.cells:
                    found[row[:3]] = row[at]
    assert found == expected


def is_printed(text: str, value: float) -> bool:
    """Whether a text has two digits of a value; the last bits of .525 may go either way."""
    return abs(float(text) - value) < 0.005 + 1e-9


def same_or_none(found: float | None, expected: float) -> bool:
    return same(math.nan if found is None else found, expected)


def same(found: float, expected: float) -> bool:
    if math.isnan(expected):
        return math.isnan(found)
    return abs(found - expected) < 1e-9


def check_texts(run: Run) -> None:
    """No text of a run says nan, neither in the terminal nor on the page."""
    texts = [result_text(run), *(limit.text for limit in limits_of(run))]
    for section in sections_of(run, labels_since(run)):
        texts += section.sentences
        for table in section.tables:
            texts += [table.title, table.note]
            for row in table.rows:
                texts += map(str, [row] if isinstance(row, str) else row)
    for text in texts:
        assert not NAN.search(text), text


# ---- random runs, whose predictions are made up ----


@dataclass(frozen=True)
class World:
    """Clips with their films and classes; a row of `y` is a clip."""

    ids: tuple[str, ...]
    films: np.ndarray
    y: np.ndarray


class Made(NamedTuple):
    """The rows of a cell, and the folds that it leaves out."""

    name: Name
    rows: list[RunRow]
    skipped: Mapping[str, str]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Three to six films of two to six clips; a film may be of one class."""
    ids: list[str] = []
    names: list[str] = []
    labels: list[bool] = []
    for number in range(draw(st.integers(3, 6))):
        of_film = draw(st.lists(st.booleans(), min_size=2, max_size=6))
        labels += of_film
        names += [f"film{number}"] * len(of_film)
        ids += [f"film{number}-{clip}" for clip in range(len(of_film))]
    if len(set(labels)) == 1:
        labels[0] = not labels[0]
    return World(tuple(ids), np.array(names), np.array(labels, dtype=np.bool_))


@st.composite
def splits(draw: st.DrawFn, world: World, *, by_film: bool) -> list[np.ndarray]:
    """Folds of whole films, or of clips; every clip is tested once."""
    units = world.films if by_film else np.array(world.ids)
    names = np.unique(units)
    n_folds = draw(st.integers(2, len(names)))
    fold_of = {name: number % n_folds for number, name in enumerate(names)}
    numbers = np.array([fold_of[name] for name in units])
    return [np.flatnonzero(numbers == number) for number in range(n_folds)]


@st.composite
def cells(
    draw: st.DrawFn,
    world: World,
    folds: Sequence[np.ndarray],
    names: Name,
    *,
    is_model: bool,
    never_skips: bool = False,
) -> Made:
    """A cell with tied scores, which may leave out folds, but not all."""
    tests: list[RunRow] = []
    skipped = {}
    train, test, store, model = names
    of_cell: RunRow = {"train": train, "task": test, "test": test, "store": store}
    of_cell |= {"model": model, "is_model": is_model, "n_seen": 30}
    of_cell |= {"is_trained": model != "random", "is_probability": model != "random"}
    kept = draw(st.lists(st.booleans(), min_size=len(folds), max_size=len(folds)))
    if not any(kept) or never_skips:
        kept = [True] * len(folds)
    is_constant = names[3] == "prevalence"
    for number, rows in enumerate(folds):
        if not kept[number]:
            skipped[f"fold{number}"] = "the training rows have one class only: 0"
            continue
        levels = st.lists(
            st.integers(0, 0 if is_constant else 3),
            min_size=len(rows),
            max_size=len(rows),
        )
        for clip, level in zip(rows.tolist(), draw(levels), strict=True):
            row: RunRow = {
                "clip_id": world.ids[clip],
                "movie_id": str(world.films[clip]),
            }
            row |= {**of_cell, "fold": f"fold{number}", "y": int(world.y[clip])}
            row["score"] = level / 4 + 0.1
            if model == "random":
                row |= {"score": 0.0, "decision": 0.5}
            tests.append(row)
    return Made(names, tests, skipped)


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


@contextmanager
def new_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp())
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@st.composite
def runs_of_one_world(
    draw: st.DrawFn, world: World, *, by_film: bool, stores: Sequence[str] = ("x",)
) -> list[Made]:
    """The cells of a run with several models, training sets, stores and baselines."""
    folds = draw(splits(world, by_film=by_film))
    made = []
    trains = draw(st.sampled_from([("EN_S",), ("EN_S", "HN_S")]))
    for train in trains:
        for model in draw(st.sampled_from([("ridge",), ("ridge", "pcbm-dt")])):
            for store in stores:
                name = (train, "EN_S", store, model)
                made.append(draw(cells(world, folds, name, is_model=True)))
    for train in trains:
        for model in draw(
            st.sampled_from([("prevalence", "neighbour", "random"), ("neighbour",)])
        ):
            name = (train, "EN_S", "", model)
            whole = draw(cells(world, folds, name, is_model=False, never_skips=True))
            if model == "neighbour" and draw(st.booleans()):
                whole = draw(cells(world, folds, name, is_model=False))
            made.append(whole)
    return made


def check_a_random_run(data: st.DataObject) -> None:
    world = data.draw(worlds())
    by_film = data.draw(st.booleans())
    stores = data.draw(st.sampled_from([("x",), ("x", "y")]))
    made = data.draw(runs_of_one_world(world, by_film=by_film, stores=stores))
    with new_folder() as folder:
        run = run_of_cells(folder / "run", made)
        check_run(run, has_whole_films=by_film)


SEARCH = settings(
    max_examples=amount(3, 100),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@SEARCH
@given(st.data())
def test_a_run_puts_numbers_of_the_same_clips_side_by_side(data: st.DataObject) -> None:
    check_a_random_run(data)


# ---- runs beside each other ----


def check_random_comparisons(data: st.DataObject) -> None:
    """Two or three runs of a model: other folds, fewer clips, changed classes."""
    world = data.draw(worlds())
    n_runs = data.draw(st.integers(2, 3))
    with new_folder() as folder:
        runs = []
        for number in range(n_runs):
            y = world.y.copy()
            if data.draw(st.booleans()):
                y[data.draw(st.integers(0, len(y) - 1))] ^= True
            own = World(world.ids, world.films, y)
            folds = data.draw(splits(own, by_film=True))
            made = [data.draw(cells(own, folds, NAME, is_model=True))]
            made.append(
                data.draw(
                    cells(own, folds, RANDOM_NAME, is_model=False, never_skips=True)
                )
            )
            runs.append(run_of_cells(folder / f"run{number}", made))
        compared = compare_runs(runs)
        text = "\n".join((str(compared), *compared.warnings))
        assert not NAN.search(text), text
        plain = [folds_of(run)[NAME] for run in runs]
        shared = shared_of(plain)
        rows = compared.to_json()["cells"]
        of_model = [row for row in rows if row["model"] == "ridge"]
        assert len(of_model) == len(runs)
        for number, row in enumerate(of_model):
            expected = ap_of(plain[number], shared) if shared else math.nan
            assert same_or_none(row["value"], expected)
            of_films = differences_of_films(plain[number], plain[0], shared)
            values = [*of_films.values()]
            apart = float(np.mean(values)) if values else math.nan
            if number and shared:
                assert same_or_none(row["difference"], apart)
            if row["difference_low"] is not None:
                low, high = row["difference_low"], row["difference_high"]
                assert low - 1e-9 <= apart <= high + 1e-9
            assert not shared or row["n_clips"] == len(shared)
        shown = compared.shown().rows
        assert len(shown) == (len(runs) - 1 if shared else 0)
        if not shared:
            assert "nothing is compared" in text


NAME = ("EN_S", "EN_S", "x", "ridge")
RANDOM_NAME = ("EN_S", "EN_S", "", "random")


@SEARCH
@given(st.data())
def test_runs_are_compared_on_the_clips_that_all_tested(data: st.DataObject) -> None:
    check_random_comparisons(data)


# ---- real runs ----

FEW_FILMS = (
    'grid.models=["ridge"]',
    'grid.train=["EN_S"]',
    'grid.test=["EN_S"]',
)


@pytest.mark.parametrize("seed", range(amount(1, 4)))
@pytest.mark.check("a whole run of three stores")
def test_a_real_run_with_skipped_folds_and_stores_that_lack_clips(
    tmp_path: Path, seed: int
) -> None:
    """Also where two stores lack the same clips: each has a guess of its own."""
    manifest = films(5, 16, seed=seed)
    X = planted(manifest, width=14)
    rng = np.random.default_rng(seed)
    lost = rng.choice(len(manifest), 6, replace=False).tolist()
    lacking = [manifest.clips[row].clip_id for row in lost]
    failed_of: dict[str, list[str]] = {"x": [], "y": lacking, "z": lacking}
    stores = {}
    for name, failed in failed_of.items():
        stores[name] = store_of(tmp_path / name, manifest, X, failed=failed)
    run = run_on(tmp_path, quick("honest", *FEW_FILMS), manifest, stores)
    check_run(run)
    for cell in models(run):
        guess = best_guess(run, cell, "ap")
        assert guess is not None and guess.store == cell.store
        row = difference_to_guess(run, cell, guess)
        assert row is not None and row["clips"] == guess.n_clips


def test_what_several_fits_decide_of_a_clip_is_one_decision(tmp_path: Path) -> None:
    """The page decided by most fits, the table of errors and success.csv by the mean score."""
    manifest = films(4, 20, seed=3)
    X = planted(manifest, strength=0.3, width=14)
    changes = (
        "models.mlp.min_epochs=1",
        "models.mlp.max_epochs=2",
        "models.mlp.hidden=[4]",
    )
    run = run_one_pair(
        tmp_path,
        manifest,
        X,
        *changes,
        "fit.seeds=4",
        'grid.models=["mlp"]',
        "report.error_analysis=true",
    )
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
    assert {error["clip_id"] for error in errors(cell, {}, [], {})} == wrong
    scores = scores_of(cell)
    assert {name for name, score in scores.items() if not score["correct"]} == wrong
    n_right = len(rows_of_clip) - len(wrong)
    success = rows_of(run.table("success.csv"), film="all films")
    assert {row["successes"] for row in success} == {n_right}


# ---- noise ----

CONSTANT = "sklearn.dummy.DummyClassifier"
ON_NOISE = (
    f"models.constant.kind={CONSTANT}",
    'grid.models=["constant", "pcbm-dt"]',
    'grid.train=["EN_S"]',
    'grid.test=["EN_S"]',
    "models.pcbm-dt.max_depth=1",
    "models.pcbm-dt.tolerance=0.01",
    "models.pcbm-dt.cross_fit=0",
    "report.concepts=false",
    "report.contrast=[]",
    "report.questions=[]",
)


@pytest.mark.check("many runs")
@pytest.mark.timeout(1800)
def test_a_constant_and_a_stump_on_noise_are_neither_better_nor_worse_than_guessing(
    tmp_path: Path,
) -> None:
    """Some are by chance alone, as intervals are of 95 %; the seeds are fixed."""
    n_worlds, most = amount((3, 1), (60, 5))
    trust([CONSTANT])
    n_called = dict.fromkeys(("constant", "pcbm-dt"), 0)
    for seed in range(n_worlds):
        manifest = films(6, 16, seed=seed)
        noise = planted(manifest, width=16, strength=0.0, seed=seed)
        store = store_of(tmp_path / f"store-{seed}", manifest, noise)
        protocol = quick("honest", *ON_NOISE, replicates=300)
        run = run_on(tmp_path, protocol, manifest, {"x": store})
        for cell in models(run):
            guess = best_guess(run, cell, "ap")
            assert guess is not None
            row = difference_to_guess(run, cell, guess)
            n_called[cell.model] += verdict(row) not in (NOT_SHOWN, UNKNOWN)
    assert n_called["constant"] <= most
    assert n_called["pcbm-dt"] <= most
