"""The sections of a page below its first screen: sentences, figures and tables of a run.

Every number stands in a table of the run, which has more of them than a page.
"""

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import fmean
from typing import Any

import numpy as np

from obygaze_features.core.console import count, few
from obygaze_features.manifest.expression import parse
from obygaze_features.manifest.listing import clock_or_none, titles_of
from obygaze_features.manifest.model import Clip, own_columns
from obygaze_models.evaluation.basis import (
    LEAKED,
    no_interval_because,
    tested_on,
    weakest,
)
from obygaze_models.evaluation.bootstrap import CONFIDENCE
from obygaze_models.evaluation.cells import (
    Cell,
    grouped_by,
    have_same_clips,
    on_shared_clips,
)
from obygaze_models.evaluation.error_analysis import ALL_FILMS
from obygaze_models.evaluation.group_tests import ALPHA
from obygaze_models.evaluation.metrics import AP, metric_name
from obygaze_models.evaluation.results import asks_for
from obygaze_models.evaluation.tables import RunRow, rows_as_dicts
from obygaze_models.report.figures import (
    Figure,
    Titles,
    figure_of_pair,
    figure_of_success,
    figure_of_tree,
    figures_of_tasks,
)
from obygaze_models.report.lookup import (
    CEILINGS,
    chance,
    knows_films,
    label,
    label_on,
    leaked_of,
    pair_name,
    shown_metrics,
    task_name,
    task_of,
    titles_of_units,
)
from obygaze_models.report.tables import (
    DASH,
    NO_NUMBER,
    DifferenceCell,
    NumberCell,
    PValueCell,
    ResultTable,
    result_table,
    slug,
)
from obygaze_models.runner.answer import (
    asked_cell,
    best_guess,
    compared_metric,
    difference_to_guess,
    differences_for,
    films_above,
    films_with_value,
    gain_of,
    intervals_are_of,
    questions_of,
    questions_of_models,
    short,
    size_text,
    verdict,
    view_text,
)
from obygaze_models.runner.files import Run
from obygaze_models.runner.labels import RunLabels

BEST_GUESS = "best guess"
MOST_ERRORS = 10
ERROR_COLUMNS = ("film", "start", "end", "error", "score")
MOST_FILMS = 100  # in a table; results.csv has all
MOST_OPEN_ROWS = 12
NO_FILMS_COMPARED = (
    "The manifest has no films, over which a difference would have an interval and a p."
)
NOT_STATED = "not stated"
OF_MODEL = ["store", "model", "train"]  # the columns that name a model with concepts


@dataclass
class Section:
    """What stands under one heading."""

    key: str
    title: str
    sentences: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    tables: list[ResultTable] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether the run has nothing for this section."""
        return not (self.sentences or self.figures or self.tables)


def sections_of(run: Run, labels: RunLabels) -> list[Section]:
    """Return the sections that are not empty, in the order of the page."""
    titles = titles_of_units(run, labels.manifest)
    sections = [
        section_of_results(run, titles),
        section_of_questions(run),
        section_of_paper(run, titles),
        section_of_concepts(run),
        section_of_success(run),
        section_of_errors(run, labels),
        section_of_made(run),
    ]
    return [section for section in sections if not section.is_empty]


# ---- results ----


def section_of_results(run: Run, titles: Titles) -> Section:
    """Return the tasks by models, beside the best guess, and a figure for each task."""
    section = Section("results", "Results")
    models = run.models
    if len({cell.pair for cell in run.cells}) > 1 or (run.cells and not models):
        for metric in shown_metrics(run):
            section.tables.append(_table_of_tasks(run, metric))
    gain = gain_of(run)
    if gain is not None and len({cell.model for cell in models}) > 1:
        # The first screen has the stores of one model.
        section.figures.append(figure_of_pair(run, gain.joined.pair, titles))
    section.figures += figures_of_tasks(run, titles)
    if models:
        section.tables.append(_table_beside_guess(run))
        section.tables += _tables_of_stores(run)
    asked = asked_cell(run)
    if asked is not None and 0 < asked.n_films <= MOST_FILMS:
        section.tables.append(_table_of_films(run, asked, titles))
    return section


def _table_of_tasks(run: Run, metric: str) -> ResultTable:
    """Return a row for each pair of tasks: the models, and the best guess beside them.

    Without models, these are all baselines.
    """
    has_models = bool(run.models)
    shown = []
    for cell in run.cells:
        # Of other baselines, the best guess is enough.
        if cell.is_model or not has_models or cell.model in CEILINGS:
            shown.append(cell)
    names = dict.fromkeys(label(run, cell) for cell in shown)
    headers = [*names, BEST_GUESS] if has_models else [*names]
    rows = []
    for task, cells in grouped_by(shown, lambda cell: pair_name(*cell.pair)).items():
        has_other_clips = not have_same_clips(cells)
        numbers = dict.fromkeys(headers, NO_NUMBER)
        guess = best_guess(run, cells[0], metric) if cells[0].is_model else None
        of_names = {label(run, cell): cell for cell in cells}
        if guess is not None:
            of_names[BEST_GUESS] = guess
        for name, cell in of_names.items():
            n_clips = cell.n_clips if has_other_clips else None
            numbers[name] = _number(cell, metric, n_clips)
        rows.append((task, *numbers.values()))
    notes = []
    if intervals_are_of(run, run.cells):
        notes.append(
            f"In brackets: {100 * CONFIDENCE:g} % intervals over {run.units}, of"
            f" {intervals_are_of(run, run.cells)}."
        )
    if not all(
        map(have_same_clips, grouped_by(shown, lambda cell: cell.pair).values())
    ):
        notes.append(
            "Where models of a task were tested on other clips, each number has its clips;"
            " do not compare these numbers."
        )
    if any(cell.train != cell.test for cell in run.cells):
        notes.append("A → B: trained on the task A, tested on B.")
    if has_models:
        notes.append(
            "Best guess: the best baseline without video, picked by its result on the test clips,"
            " so that it has an advantage. All baselines are in results.csv."
        )
    title = f"{metric_name(metric)}, models by tasks"
    is_main = metric == compared_metric(run)
    key_of_table = "results" if is_main else f"results-{slug(metric)}"
    return ResultTable(key_of_table, title, ["task", *headers], rows, " ".join(notes))


def _number(cell: Cell, metric: str, n_clips: int | None = None) -> NumberCell:
    return NumberCell(cell.value(metric), *cell.ends(metric), n_clips=n_clips)


def _table_beside_guess(run: Run) -> ResultTable:
    """Return each model beside the best guess, below the heading of its tasks."""
    metric = compared_metric(run)
    name = metric_name(metric)
    of_guess = f"{name} of the guess"
    models = run.models
    rows: list[RunRow | str] = []
    by_test = grouped_by(models, lambda cell: (cell.pair, cell.clips.tobytes()))
    for cells in by_test.values():
        rows.append(_heading_of_test(run, cells[0]))
        for cell in cells:
            guess = best_guess(run, cell, metric)
            row = None if guess is None else difference_to_guess(run, cell, guess)
            shown = {
                "model": label(run, cell),
                **{metric_name(of): _number(cell, of) for of in shown_metrics(run)},
                BEST_GUESS: DASH if guess is None else label(run, guess),
                of_guess: NO_NUMBER,
                "difference": DifferenceCell.of(row),
                "better?": verdict(row),
                _compared_units(run): DASH,
                "leaked": leaked_of(cell),
            }
            if guess is not None:
                shown[of_guess] = NumberCell(guess.value(metric))
                above = films_above(cell, guess, metric).text()
                shown[_compared_units(run)] = above
            rows.append(shown)
    better = (
        "Better: yes, if the interval of the difference is above 0 and its p among all differences "
        "of a model and a guess (p_guesses in results.csv) is below .05; not certain, if only the "
        f"interval is; not shown, if the interval holds 0, as where {run.units} are few or differ; "
        f"leaked, if nothing can be said. The column {run.units}: in how many "
        f"of them the {name} is above that of the guess."
    )
    if not run.has_groups:
        better = NO_FILMS_COMPARED
    note = f"{better} Leaked: test clips that also trained or chose, or copies of such."
    title = "Each model beside the best guess without video"
    is_folded = len(models) > MOST_OPEN_ROWS
    return result_table("summary", title, rows, note, folded=is_folded)


def _heading_of_test(run: Run, cell: Cell) -> str:
    """Return the tasks with the size of the test, and what a random order has."""
    metric = compared_metric(run)
    facts = f"{size_text(run, cell)}, {100 * cell.share_positive:.0f} % positive"
    at_random = chance(cell, metric)
    if math.isfinite(at_random):
        facts += f"; a random order has {metric_name(metric)} {short(at_random)}"
    return f"{task_name(run, cell.pair)} ({facts})"


def _tables_of_stores(run: Run) -> Iterator[ResultTable]:
    """Yield the table with the differences of each model on two stores, if the run has any.

    Those that the protocol asks for have a table of their own.
    """
    questions = questions_of(run)
    rows = []
    for row in run.differences:
        of_second = (row["against_train"], row["against_model"], compared_metric(run))
        is_of_stores = (row["train"], row["model"], row["metric"]) == of_second
        if is_of_stores and not any(asks_for(asked, row) for asked in questions):
            rows.append(_difference(run, row))
    note = (
        "Difference: first minus second, on the clips that both were tested on."
        f" {_about_intervals(run)} p (all): corrected for all differences of this table."
    )
    if rows:
        is_folded = len(rows) > MOST_OPEN_ROWS
        title = "Differences of stores"
        yield result_table("stores", title, rows, note, folded=is_folded)


def _table_of_films(run: Run, asked: Cell, titles: Titles) -> ResultTable:
    """Return the metric that is compared of each film or group: models, then the best guess."""
    metric = compared_metric(run)
    shown = [cell for cell in run.models if cell.pair == asked.pair]
    guess = best_guess(run, shown[0], metric)
    if guess is not None:
        shown.append(guess)
    dash = "A dash: no clips of one of the classes."
    if metric == AP.name:
        dash = (
            "A dash: no positive clips. Where all clips are positive, any order has 1."
        )
    has_other_clips = not have_same_clips(shown)
    # Without clips that all of them tested, the table is that of the first.
    shown = [*on_shared_clips(shown).cells] or shown[:1]
    if has_other_clips:
        n_clips = count(shown[0].n_clips, "clip")
        dash += f" All values are of the {n_clips} that each of them was tested on."
    values_of_cells = [cell.value_of_films(metric) for cell in shown]
    # A group of films, such as a director, has a name and no id.
    ids = [] if run.holds_out_groups else ["id"]
    rows = []
    for film, n in zip(*np.unique(shown[0].groups, return_counts=True), strict=True):
        values = [NumberCell(of.get(film, math.nan)) for of in values_of_cells]
        rows.append((titles.get(film, film), *(film for _ in ids), int(n), *values))
    headers = [run.unit, *ids, "clips", *(label(run, cell) for cell in shown)]
    title = f"{metric_name(metric)} of each {run.unit}, {pair_name(*asked.pair)}"
    return ResultTable("films", title, headers, rows, dash, folded=True)


# ---- what was asked for ----


def section_of_questions(run: Run) -> Section:
    """Return the differences that the protocol asks for: its questions, and two training tasks."""
    section = Section("questions", "What the protocol asks")
    is_of_unseen_films = run.has_groups and not knows_films(run)
    rows_of_text: dict[str, list[RunRow]] = {}
    for question in questions_of_models(run):
        rows = [_difference(run, row) for row in differences_for(run, question)]
        text = question["text"] or f"{question['first']} against {question['second']}"
        if not rows:
            sentence = f"No difference of this run answers: {text}"
            section.sentences.append(sentence)
        elif is_of_unseen_films:
            rows_of_text.setdefault(text, []).extend(rows)
        else:
            # Questions of protocols are of unseen films.
            rows_of_text.setdefault("what the protocol compares", []).extend(rows)
    if rows_of_text:
        note = (
            f"Difference: first minus second. {_about_intervals(run)} p (all): corrected for all"
            " differences of this table, which the protocol named before the run."
            " Other differences are in results.csv, with a p_all among those of their kind."
        )
        shown: list[RunRow | str] = []
        for text, of_text in rows_of_text.items():
            shown.append(text)
            shown += of_text
        section.tables.append(result_table("questions", "Differences", shown, note))
    contrasts = []
    for row in run.differences:
        if row["against_train"] != row["train"]:
            contrasts.append(row)
    if contrasts:
        section.sentences += _sentences_of_contrasts(run, contrasts)
        section.tables.append(_table_of_contrasts(run, contrasts))
    return section


def _compared_units(run: Run) -> str:
    """Return the header of a column that counts films, or groups, with a higher value."""
    return run.units if run.has_groups else "films"


def _about_intervals(run: Run) -> str:
    if not run.has_groups:
        return NO_FILMS_COMPARED
    return (
        f"In brackets: its interval over {run.units}. The column {run.units}: in how many of them"
        " the first has the higher value."
    )


def _difference(run: Run, row: RunRow) -> RunRow:
    """Return a difference as a row of a table."""
    return {
        "task": pair_name(row["train"], row["test"]),
        "first": label_on(run, row["model"], row["store"]),
        "second": label_on(run, row["against_model"], row["against_store"]),
        "metric": metric_name(row["metric"]),
        "difference": DifferenceCell.of(row),
        "p (all)": PValueCell(row["p_all"]),
        "clips": row["clips"],
        _compared_units(run): _films_above(run, row),
        "first better?": verdict(row),
    }


def _name_of(row: RunRow) -> tuple[str, str, str, str]:
    """Return the name of the cell of a row."""
    return row["train"], row["test"], row["store"], row["model"]


def _films_above(run: Run, row: RunRow) -> str:
    """Return in how many films the first is above the second, on the clips that both tested."""
    against = {name: row[f"against_{name}"] for name in ("train", "store", "model")}
    by_name = {cell.name: cell for cell in run.cells}
    sides = [by_name[_name_of(of_side)] for of_side in (row, {**row, **against})]
    shared = on_shared_clips(sides)
    if shared.problem:
        return DASH
    ours, theirs = shared.cells
    return films_above(ours, theirs, row["metric"]).text()


def _sentences_of_contrasts(run: Run, contrasts: Sequence[RunRow]) -> Iterator[str]:
    first, second = run.settings.contrast
    rows = [row for row in contrasts if row["basis"] != LEAKED]
    n_leaked = len(contrasts) - len(rows)
    if n_leaked:
        yield (
            f"{n_leaked} of {count(len(contrasts), 'row')} say nothing of the two training"
            f" tasks, as {no_interval_because(LEAKED)}."
        )
    if not rows:
        return
    n_higher = sum(row["value"] > 0 for row in rows)
    n_lower = sum(row["value"] < 0 for row in rows)
    yield (
        f"Models that were trained on {first} have the higher value in {n_higher} of "
        f"{count(len(rows), 'row')}, those that were trained on {second} in {n_lower}."
    )
    if all(math.isnan(row["low"]) and math.isnan(row["p"]) for row in rows):
        yield "These differences have no interval and no p."


def _table_of_contrasts(run: Run, contrasts: Sequence[RunRow]) -> ResultTable:
    first, second = run.settings.contrast
    rows: list[RunRow | str] = []
    for test, of_test in grouped_by(contrasts, lambda row: row["test"]).items():
        rows.append(f"tested on {test}")
        for row in of_test:
            shown = _difference(run, row)
            rows.append(
                {
                    "model": shown["first"],
                    "metric": shown["metric"],
                    "difference": shown["difference"],
                    "p": PValueCell(row["p"]),
                    _compared_units(run): shown[_compared_units(run)],
                    "clips": row["clips"],
                    "leaked": row["leaked"],
                }
            )
    about_p = (
        f"The column {run.units}: those in which the difference is above 0. p: sign-flip test over"
        f" {run.units}."
    )
    if not run.has_groups:
        about_p = NO_FILMS_COMPARED
    note = (
        f"{about_p} Leaked: test clips that trained or chose one of the two models, which alone can"
        " make a difference, so that it has no interval and no p. Clips with exactly the features"
        " of a training clip are counted, too, and leave both."
    )
    title = f"Trained on {first} minus trained on {second}"
    return result_table("contrast", title, rows, note)


# ---- the paper ----


def section_of_paper(run: Run, titles: Titles) -> Section:
    """Return our values beside those that a paper prints, by cell and by film."""
    section = Section("paper", "Beside the paper")
    by_name = {cell.name: cell for cell in run.cells}
    rows = rows_as_dicts(run.results[run.results["paper"].notna()])
    for row in rows:
        row["cell"] = by_name[_name_of(row)]
    of_cells = [row for row in rows if not row["film"]]
    for metric, of_metric in grouped_by(of_cells, lambda row: row["metric"]).items():
        section.tables.append(_table_of_paper(metric, of_metric))
    of_films = [row for row in rows if row["film"] and row["cell"].is_model]
    by_cell = grouped_by(of_films, lambda row: (row["cell"], row["metric"]))
    for of_cell in by_cell.values():
        section.tables.append(_table_of_paper_films(run, of_cell, titles))
    if any(math.isfinite(np.fmax(row["sd"], row["paper_sd"])) for row in rows):
        section.sentences.append(
            "In brackets: the standard deviation over runs or folds, as in the paper. Where runs "
            "share a test fold, it says how much training varies, not how certain the test is."
        )
    return section


def _table_of_paper(metric: str, rows: Sequence[RunRow]) -> ResultTable:
    shown: dict[tuple[str, ...], RunRow] = {}
    for row in rows:
        cell = row["cell"]
        # What is not trained is the same for each training task.
        train = cell.train if cell.is_trained else DASH
        of_cell = {"trained on": train, "tested on": cell.test}
        of_cell |= _beside_paper(row if cell.is_model else {**row, "sd": math.nan})
        of_cell["leaked"] = leaked_of(cell)
        shown.setdefault((_name_with_store(cell), train, cell.test), of_cell)
    with_headings: list[RunRow | str] = []
    for name, names in grouped_by(shown, lambda of: of[0]).items():
        with_headings += [name, *(shown[of] for of in names)]
    title = f"{metric_name(metric)} of this run and of the paper"
    return result_table(f"paper-{metric}", title, with_headings)


def _beside_paper(row: RunRow) -> RunRow:
    name = metric_name(row["metric"])
    return {
        f"{name}, this run": NumberCell(row["value"], sd=row["sd"]),
        f"{name}, paper": NumberCell(row["paper"], sd=row["paper_sd"]),
    }


def _name_with_store(cell: Cell) -> str:
    return f"{cell.model} ({cell.store})" if cell.store else cell.model


def _table_of_paper_films(
    run: Run, rows: Sequence[RunRow], titles: Titles
) -> ResultTable:
    """Return a row for each film, as in Table 4 of the paper."""
    cell = rows[0]["cell"]
    names = {value["film"]: value["source"] for value in run.protocol["paper"]}
    order = [*names]
    shown = []
    for row in sorted(rows, key=lambda row: order.index(row["film"])):
        film = row["film"]
        name = names[film] or titles.get(film, film)
        shown.append({"film": name, "id": film, **_beside_paper(row)})
    known = [row for row in rows if math.isfinite(row["value"])]
    if known:
        mean = {**known[0], "sd": math.nan, "paper_sd": math.nan}
        for name in ("value", "paper"):
            mean[name] = fmean(row[name] for row in known)
        shown.append({"film": "mean of these films", "id": "", **_beside_paper(mean)})
    title = (
        f"{metric_name(rows[0]['metric'])} of each film, on"
        f" {tested_on(cell.basis, run.units)}: {_name_with_store(cell)}, {pair_name(*cell.pair)}"
    )
    note = f"Leaked clips: {leaked_of(cell)} of {cell.n_clips}."
    key = f"paper-films-{slug(cell.model, cell.store)}"
    return result_table(key, title, shown, note)


# ---- further analyses that a protocol asks for ----


def section_of_concepts(run: Run) -> Section:
    """Return how well concept vectors rank clips, the weights of concepts, and trees."""
    section = Section("concepts", "Concepts")
    concepts = run.table("concepts.csv")
    if concepts.empty:
        return section
    tested = f"are tested on {run.units} that they were not found on"
    if not run.has_groups:
        tested = "are not tested, as the manifest has no films to leave out"
    basis = weakest(cell.basis for cell in run.models)
    section.sentences.append(
        f"Concept vectors {tested}. Weights and trees are fitted on all clips, to be looked at; how"
        f" well they do on {tested_on(basis, run.units)} is in the results."
    )
    trees = run.table("trees.csv").groupby(OF_MODEL, sort=False)
    for (store, model, train), nodes in trees:
        tree = figure_of_tree(f"{model} ({store}), {train}", rows_as_dicts(nodes))
        section.figures.append(tree)
    rows: list[RunRow | str] = []
    for (store, model, train), of_model in concepts.groupby(OF_MODEL, sort=False):
        rows.append(f"{model} ({store}), {train}")
        for row in rows_as_dicts(of_model):
            share = row["positive"] / row["clips"] if row["clips"] else math.nan
            shown = {
                "concept": row["concept"],
                "clips": row["positive"],
                "share": NumberCell(share),
                "AP": NumberCell(row["ap"], row["low"], row["high"]),
                "AUC": NumberCell(row["auc"]),
                "p (Holm)": PValueCell(row["p_holm"]),
                "weight": NumberCell(row["weight"]),
            }
            rows.append(shown)
    note = (
        "Weight: change in the log odds if the margin grows by 1, in a linear head; where margins"
        " of two concepts differ in spread, their weights are not on one scale."
    )
    if run.has_groups:
        note += (
            " AP and AUC: of one ranking of all clips. p: how probable such a ranking is if the"
            f" labels of each {run.unit} are shifted in time. A dash instead of AP: without some"
            f" {run.unit}, too few clips have the concept or lack it."
        )
    counted = rows_as_dicts(concepts[concepts["films_with_value"].notna()])
    counts = [(row["films_with_value"], row["films"]) for row in counted]
    known = films_with_value(counts, run.unit)
    if known:
        note += f" Of AP, {known}."
    table = result_table("concepts", "Concept vectors", rows, note, folded=True)
    section.tables.append(table)
    return section


def sentence_of_concepts(run: Run) -> str:
    """Return which concepts the features show in films that vectors were not found on."""
    concepts = run.table("concepts.csv")
    # The least p of a concept; NaN where no model could test it.
    p = concepts.groupby("concept", sort=False)["p_holm"].min().astype(float)
    shown = [*p.index[p < ALPHA]]
    others = [*p.index[p >= ALPHA]]
    not_tested = [*p.index[p.isna()]]
    n_tested = len(shown) + len(others)
    if not n_tested:
        return ""
    named = f" ({few(shown)})" if shown else ""
    text = (
        f"In unseen {run.units} the features show {len(shown)} of"
        f" {count(n_tested, 'concept')}{named}"
    )
    if others:
        text += f"; not shown: {few(others)}"
    if not_tested:
        text += f"; not tested, as too few {run.units} have them: {few(not_tested)}"
    return f"{text}."


def section_of_success(run: Run) -> Section:
    """Return the regression of correct decisions on the properties of a clip."""
    section = Section("success", "What makes a clip easy")
    by_cell = grouped_by(rows_as_dicts(run.table("success.csv")), _name_of)
    for (train, test, store, model), factors in by_cell.items():
        of_all = [row for row in factors if row["film"] == ALL_FILMS]
        if not of_all:
            continue
        name = f"{model} ({store}), {pair_name(train, test)}"
        figure = figure_of_success(run, name, factors)
        if figure is not None:
            section.figures.append(figure)
        rows = []
        for row in of_all:
            shown = {
                "property": row["factor"] or DASH,
                "clips": 0 if math.isnan(row["clips"]) else row["clips"],
                "log odds": NumberCell(row["log_odds"], row["low"], row["high"]),
                "p": PValueCell(row["p"]),
                "note": row["note"],
            }
            rows.append(shown)
        note = f"{of_all[0]['successes']} of {of_all[0]['all_clips']} decisions are correct."
        if run.has_groups:
            note += f" Each {run.unit} is in success.csv."
        title = f"Log odds of success: {name}"
        table = result_table(f"success-{slug(name)}", title, rows, note, folded=True)
        section.tables.append(table)
    return section


# ---- errors ----


def section_of_errors(run: Run, labels: RunLabels) -> Section:
    """Return the wrong decisions that are farthest from the threshold."""
    section = Section("errors", "Errors to look at")
    cell = asked_cell(run)
    if cell is None:
        return section
    clips: dict[str, Clip] = {}
    columns: list[str] = []
    # With other labels than those of the run, nobody knows what these were.
    if labels.manifest is not None and not labels.changed:
        clips = {clip.clip_id: clip for clip in labels.manifest}
        columns = _columns_asked_for(run, labels.manifest.columns)
    found = errors(cell, clips, columns)
    if not found:
        return section
    shown = found[:MOST_ERRORS]
    titles = titles_of({row["film"] for row in shown}, labels.manifest)
    rows = []
    for error in shown:
        rows.append({**error, "film": titles.get(error["film"], error["film"])})
    for name in [*rows[0]]:
        # A column without a value says nothing.
        is_empty = not any(row[name] for row in rows)
        for row in rows:
            value = row.pop(name)
            if not is_empty:
                row[name] = value or DASH
    named = run.about["manifest"]["name"]
    watch = shlex.join(["obygaze", "view", named, "--run", run.folder.name])
    note = (
        f"{len(rows)} of {count(len(found), 'wrong decision')}, the farthest from the threshold of"
        f" {cell.threshold:g} first; all are in predictions.csv. To see the clips: {watch}"
    )
    view = view_text(run) if clips else ""
    if view:
        note = f"Levels and concepts are those of the {view}. {note}"
    title = f"Surest errors of {label(run, cell)}, {pair_name(*cell.pair)}"
    section.tables.append(result_table("errors", title, rows, note))
    return section


def errors(
    cell: Cell, clips: Mapping[str, Clip], columns: Sequence[str] = ()
) -> list[RunRow]:
    """Return the wrong decisions of a cell, by the mean scores of clips, the surest first.

    Args:
        cell: The model, with its rows of the table of tests.
        clips: What is known of the clips, by id.
        columns: Their own columns that are shown.
    """
    margins = cell.mean_scores - cell.threshold
    is_wrong = (margins > 0) != cell.y
    films = cell.of_clips("movie_id")
    found = []
    for number in np.argsort(-np.abs(margins), kind="stable"):
        if not is_wrong[number]:
            continue
        clip_id = cell.clip_ids[number]
        clip = clips.get(clip_id, Clip(clip_id, films[number]))
        row: RunRow = {"film": films[number], "clip_id": clip_id}
        row |= {"start": clock_or_none(clip.start_s), "end": clock_or_none(clip.end_s)}
        row |= {"level": clip.level, "concepts": ", ".join(clip.concepts)}
        for name in ("comment", *columns):
            shown = f"{name} (manifest)" if name in ERROR_COLUMNS else name
            row[shown] = clip.extra.get(name, "")
        row["error"] = "missed" if cell.y[number] else "false alarm"
        found.append({**row, "score": NumberCell(float(cell.mean_scores[number]))})
    return found


def _columns_asked_for(run: Run, columns: Sequence[str]) -> list[str]:
    """Return the own columns of a manifest that the tasks of a run and `data.where` name."""
    expressions = [run.protocol["data"]["where"]]
    named = []
    for name in dict.fromkeys(chain.from_iterable(cell.pair for cell in run.cells)):
        task = task_of(run, name)
        named.append(task.column)
        expressions += (task.positive, task.negative)
    for expression in filter(None, expressions):
        named += parse(expression, columns=columns).compared
    return [name for name in dict.fromkeys(own_columns(named)) if name in columns]


# ---- how it was made ----


def section_of_made(run: Run) -> Section:
    """Return what is needed to run the experiment again, and what to cite."""
    section = Section("made", "How it was made")
    protocol = run.protocol
    made_by = f"Protocol {protocol['name']}, splits {protocol['splits']['kind']}"
    if run.has_groups:
        made_by += f", {protocol['report']['replicates']:,} draws of {run.units}"
    section.sentences = [
        f"{made_by}. run.json has every setting, and what was chosen in each fold.",
        *protocol["report"]["notes"],
    ]
    sources = []
    manifest = run.about["manifest"]
    used = [("annotations", manifest["name"], manifest)]
    used += [("features", name, facts) for name, facts in run.about["stores"].items()]
    for kind, name, facts in used:
        terms = {key: facts.get(key, "") for key in ("licence", "citation")}
        if any(terms.values()):
            stated = {key: text or NOT_STATED for key, text in terms.items()}
            sources.append({"kind": kind, "name": name, **stated})
    if sources:
        title = "Annotations and features: licence, and what to cite"
        section.tables.append(result_table("sources", title, sources))
    headers = ("kind", "name", "checksum or version")
    inputs: list[Any] = [*_inputs(run)]
    table = ResultTable("inputs", "Inputs", headers, inputs, folded=True)
    section.tables.append(table)
    return section


def _inputs(run: Run) -> Iterator[tuple[str, str, str]]:
    """Yield what a run was made of: kind, name, and checksum or version."""
    about = run.about
    manifest = about["manifest"]
    yield "protocol", run.protocol["name"], about["protocol_sha256"]
    yield "manifest", manifest["path"], manifest["sha256"]
    for name, facts in about["stores"].items():
        if "parts" not in facts:
            yield "store", f"{name}={facts['location']}", facts["seal"]
        for part, of_part in facts.get("parts", {}).items():
            place = f"{name}, {part}={of_part['location']}"
            yield "store", place, of_part["seal"]
    for name, model in run.protocol["models"].items():
        # Of a saved model that is tested.
        if "sha256" in model.get("settings", {}):
            yield "model", name, model["settings"]["sha256"]
    for name, checksum in about["texts"].items():
        yield "texts", name, checksum
