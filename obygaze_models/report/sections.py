"""The sections of a page below its first screen: sentences, figures and tables of a run.

Every number stands in a table of the run, which has more of them than a page.
"""

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from obygaze_features.core.console import count, few
from obygaze_features.manifest.model import Clip
from obygaze_models.evaluation.bootstrap import CONFIDENCE
from obygaze_models.evaluation.error_analysis import ALL_FILMS
from obygaze_models.evaluation.group_tests import ALPHA
from obygaze_models.evaluation.metrics import AP, PREVALENCE, metric_name
from obygaze_models.protocols.schedule import Pair
from obygaze_models.protocols.schema import Question
from obygaze_models.report.figures import (
    Figure,
    figure_of_pair,
    figure_of_success,
    figure_of_tree,
    figures_of_tasks,
)
from obygaze_models.report.lookup import (
    CEILINGS,
    ReportRun,
    grouped_by,
    leaked_of,
    pair_name,
    pair_of_cell,
)
from obygaze_models.report.tables import (
    DASH,
    NO_NUMBER,
    Cells,
    Heading,
    NumberCell,
    PValueCell,
    ResultTable,
    slug,
)
from obygaze_models.evaluation.basis import (
    LEAKED,
    no_interval_because,
    tested_on,
    weakest,
)
from obygaze_models.runner.limits import stores_lacking_clips
from obygaze_models.runner.results import asks_for
from obygaze_models.runner.rows import ConceptRow, NodeRow, ResultRow, SuccessRow
from obygaze_models.runner.summary import (
    CellRows,
    cannot_guess,
    compared_stores,
    difference_to_guess,
    differences_for,
    films_above,
    films_with_value,
    on_same_clips,
    questions_of_models,
    short,
    size_text,
    verdict,
    view_text,
)

BEST_GUESS = "best guess"
MOST_ERRORS = 10
MOST_MISSING = 50
MOST_COLUMNS = 6
MOST_FILMS = 100  # in a table; results.csv has all
MOST_OPEN_ROWS = 12
NO_FILMS_COMPARED = (
    "The manifest has no films, over which a difference would have an interval and a p."
)
NOT_STATED = "not stated"


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


def sections_of(run: ReportRun) -> list[Section]:
    """Return the sections that are not empty, in the order of the page."""
    sections = [
        section_of_results(run),
        section_of_questions(run),
        section_of_paper(run),
        section_of_learning(run),
        section_of_concepts(run),
        section_of_success(run),
        section_of_errors(run),
        section_of_made(run),
    ]
    return [section for section in sections if not section.is_empty]


# ---- results ----


def section_of_results(run: ReportRun) -> Section:
    """Return the tasks by models, beside the best guess, and a figure for each task."""
    section = Section("results", "Results")
    if not run.all_cells:
        return section
    pairs = {pair_of_cell(cell) for cell in run.all_cells}
    if len(pairs) > 1 or not run.cells:
        for metric in run.metrics:
            section.tables.append(_table_of_tasks(run, metric))
    if run.gain is not None and len({cell.model for cell in run.cells}) > 1:
        # The first screen has the stores of one model.
        section.figures.append(figure_of_pair(run, pair_of_cell(run.gain.joined)))
    section.figures += figures_of_tasks(run)
    if run.cells:
        section.tables.append(_table_beside_guess(run))
        section.tables += _tables_of_stores(run)
        for cells in grouped_by(run.cells, pair_of_cell).values():
            section.sentences += compared_stores(run, cells)
    if run.main is not None and 0 < run.main.n_films <= MOST_FILMS:
        section.tables.append(_table_of_films(run, pair_of_cell(run.main)))
    return section


def _table_of_tasks(run: ReportRun, metric: str) -> ResultTable:
    """Return the tasks by models; what there is more of is in rows."""
    by_pair = grouped_by(run.all_cells, pair_of_cell)
    names = [*dict.fromkeys(map(run.label, run.cells)), *_names_of_baselines(run)]
    values: dict[tuple[Pair, str], NumberCell] = {}
    for pair, cells in by_pair.items():
        have_same_clips = len({cell.tested for cell in cells}) == 1
        for cell in cells:
            n_clips = None if have_same_clips else cell.n_clips
            number = replace(_number(cell, metric), n_clips=n_clips)
            values[pair, run.label(cell)] = number
        models = [cell for cell in cells if cell.is_model]
        guess = run.guess_of(models[0], metric) if models else None
        if guess is not None:
            n_clips = None if have_same_clips else guess.n_clips
            number = replace(_number(guess, metric), n_clips=n_clips)
            values[pair, BEST_GUESS] = number
    rows: list[Cells | Heading] = []
    tasks = [pair_name(*pair) for pair in by_pair]
    has_tasks_in_columns = len(by_pair) <= max(len(names), MOST_COLUMNS)
    if has_tasks_in_columns:
        for name in names:
            rows.append(
                (name, *(values.get((pair, name), NO_NUMBER) for pair in by_pair))
            )
    else:
        for pair, task in zip(by_pair, tasks, strict=True):
            rows.append(
                (task, *(values.get((pair, name), NO_NUMBER) for name in names))
            )
    headers = ["model", *tasks] if has_tasks_in_columns else ["task", *names]
    notes = []
    if any(number.interval for number in values.values()):
        notes.append(
            f"In brackets: {100 * CONFIDENCE:g} % intervals over {run.units}, of"
            f" {run.intervals_are_of}."
        )
    if any(number.n_clips is not None for number in values.values()):
        notes.append(
            "Where models of a task were tested on other clips, each number has its clips;"
            " do not compare these numbers."
        )
    if any(train != test for train, test in by_pair):
        notes.append("A → B: trained on the task A, tested on B.")
    if BEST_GUESS in names:
        notes.append(
            "Best guess: the best baseline without video, picked by its result on the test clips,"
            " so that it has an advantage. All baselines are in results.csv."
        )
        notes += filter(None, [cannot_guess(run, run.baselines)])
    key = "results" if metric == run.ranking else f"results-{slug(metric)}"
    return ResultTable(
        key, f"{metric_name(metric)}, models by tasks", headers, rows, " ".join(notes)
    )


def _names_of_baselines(run: ReportRun) -> list[str]:
    """Return the best guess and what reads labels of the test; without models, each baseline."""
    if not run.cells:
        return list(dict.fromkeys(map(run.label, run.baselines)))
    names = []
    if any(run.guess_of(cell, run.ranking) for cell in run.cells):
        names.append(BEST_GUESS)
    ceilings = [cell for cell in run.baselines if cell.model in CEILINGS]
    return [*names, *dict.fromkeys(map(run.label, ceilings))]


def _number(cell: CellRows, metric: str) -> NumberCell:
    return NumberCell(cell.value(metric), *cell.ends(metric))


def _table_beside_guess(run: ReportRun) -> ResultTable:
    """Return each model beside the best guess, below the heading of its tasks."""
    metric = run.ranking
    name = metric_name(metric)
    headers = (
        "model",
        *map(metric_name, run.metrics),
        BEST_GUESS,
        f"{name} of the guess",
        "difference",
        "better?",
        _compared_units(run),
        "leaked",
    )
    rows: list[Cells | Heading] = []
    by_test = grouped_by(run.cells, lambda cell: (pair_of_cell(cell), cell.tested))
    for (pair, _), cells in by_test.items():
        rows.append(Heading(_heading_of_pair(run, pair, cells[0])))
        for cell in cells:
            guess = run.guess_of(cell, metric)
            beside: Cells = (DASH, NO_NUMBER, NO_NUMBER, DASH, DASH)
            if guess is not None:
                row = difference_to_guess(run.differences, cell, guess)
                beside = (
                    run.label(guess),
                    NumberCell(guess.value(metric)),
                    NumberCell.of(row),
                    verdict(row),
                    films_above(cell, guess, metric).text(),
                )
            values = [_number(cell, name) for name in run.metrics]
            rows.append((run.label(cell), *values, *beside, leaked_of(cell)))
    better = (
        "Better: yes, if the interval of the difference is above 0 and its p among all differences "
        "of a model and a guess (p_guesses in results.csv) is below .05; not certain, if only the "
        f"interval is; not shown, if the interval holds 0, as where {run.units} are few or differ; "
        f"leaked, if nothing can be said. The column {run.units}: in how many "
        f"of them the {name} is above that of the guess."
    )
    if not run.has_groups:
        better = NO_FILMS_COMPARED
    note = f"{better} Leaked: test clips that also trained or chose."
    return ResultTable(
        "summary",
        "Each model beside the best guess without video",
        headers,
        rows,
        note,
        folded=len(run.cells) > MOST_OPEN_ROWS,
    )


def _tables_of_stores(run: ReportRun) -> Iterator[ResultTable]:
    """Yield the table with the differences of each model on two stores, if the run has any.

    Those that the protocol asks for have a table of their own.
    """
    questions = [Question(**asked) for asked in run.settings["questions"]]
    rows: list[Cells] = []
    for row in run.shown_results:
        of_first = (row["train"], row["model"])
        is_of_one_model = of_first == (row["against_train"], row["against_model"])
        is_of_two_stores = row["store"] != row["against_store"]
        is_asked = any(asks_for(question, row) for question in questions)
        if row["metric"] != run.ranking or is_asked:
            continue
        if is_of_one_model and is_of_two_stores:
            rows.append(_row_of_difference(run, row))
    if not rows:
        return
    note = (
        "Difference: first minus second, on the clips that both were tested on."
        f" {_about_intervals(run)} p (all): corrected for all differences of this table."
    )
    yield ResultTable(
        "stores",
        "Differences of stores",
        _headers_of_differences(run),
        rows,
        note,
        folded=len(rows) > MOST_OPEN_ROWS,
    )


def _heading_of_pair(run: ReportRun, pair: Pair, cell: CellRows) -> str:
    """Return the tasks with the size of the test, and what a random order has."""
    size = size_text(run, cell)
    share = f"{100 * cell.share_positive:.0f} % positive"
    chance = run.chance(cell)
    if not math.isfinite(chance):
        return f"{run.task_name(pair)} ({size}, {share})"
    at_random = f"a random order has {metric_name(run.ranking)} {short(chance)}"
    return f"{run.task_name(pair)} ({size}, {share}; {at_random})"


def _table_of_films(run: ReportRun, pair: Pair) -> ResultTable:
    """Return the metric that is compared of each film or group: models, then the best guess."""
    shown = [cell for cell in run.cells if pair_of_cell(cell) == pair]
    guess = run.guess_of(shown[0], run.ranking)
    if guess is not None:
        shown.append(guess)
    have_other_clips = len({cell.tested for cell in shown}) > 1
    # Without clips that all of them tested, the table is that of the first.
    shown = on_same_clips(run, shown) or shown[:1]
    of_first = shown[0].by_film.get(PREVALENCE.name, {})
    headers = [run.unit, "id"]
    names = {film: [run.film_name(film), film] for film in of_first}
    if run.group_of_clip:
        # A group of films, such as a director, has a name and no id.
        headers = [run.unit]
        names = {group: [group] for group in of_first}
    headers += ["clips", *map(run.label, shown)]
    dash = "A dash: no clips of one of the classes."
    if run.ranking == AP.name:
        dash = (
            "A dash: no positive clips. Where all clips are positive, any order has 1."
        )
    if have_other_clips:
        n_clips = count(shown[0].n_clips, "clip")
        dash += f" All values are of the {n_clips} that each of them was tested on."
    rows: list[Cells | Heading] = []
    for film, row in of_first.items():
        values = []
        for cell in shown:
            of_film = cell.by_film.get(run.ranking, {}).get(film)
            values.append(NumberCell(math.nan if of_film is None else of_film["value"]))
        rows.append((*names[film], row["clips"], *values))
    return ResultTable(
        "films",
        f"{metric_name(run.ranking)} of each {run.unit}, {pair_name(*pair)}",
        headers,
        rows,
        dash,
        folded=True,
    )


# ---- what was asked for ----


def section_of_questions(run: ReportRun) -> Section:
    """Return the differences that the protocol asks for: its questions, and two training tasks."""
    section = Section("questions", "What the protocol asks")
    rows_of_text: dict[str, list[Cells]] = {}
    for question in questions_of_models(run):
        of_question = differences_for(run, Question(**question))
        if of_question:
            text = question["text"] or "a question without a text"
            if not run.tests_unseen_films:
                # Questions of protocols are of these.
                text = "what the protocol compares"
            of_text = rows_of_text.setdefault(text, [])
            of_text += [_row_of_difference(run, row) for row in of_question]
        else:
            section.sentences.append(
                f"No difference of this run answers: {question['text']}"
            )
    rows: list[Cells | Heading] = []
    for text, of_text in rows_of_text.items():
        rows += [Heading(text), *of_text]
    if rows:
        note = (
            f"Difference: first minus second. {_about_intervals(run)} p (all): corrected for all"
            " differences of this table, which the protocol named before the run."
            " Other differences are in results.csv, with a p_all among those of their kind."
        )
        headers = _headers_of_differences(run)
        table = ResultTable("questions", "Differences", headers, rows, note)
        section.tables.append(table)
    if run.contrasts:
        section.sentences += _sentences_of_contrasts(run)
        section.tables.append(_table_of_contrasts(run))
    return section


def _headers_of_differences(run: ReportRun) -> Cells:
    return (
        "task",
        "first",
        "second",
        "metric",
        "difference",
        "p (all)",
        "clips",
        _compared_units(run),
        "first better?",
    )


def _compared_units(run: ReportRun) -> str:
    """Return the header of a column that counts films, or groups, with a higher value."""
    return run.units if run.has_groups else "films"


def _about_intervals(run: ReportRun) -> str:
    if not run.has_groups:
        return NO_FILMS_COMPARED
    return (
        f"In brackets: its interval over {run.units}. The column {run.units}: in how many of them"
        " the first has the higher value."
    )


def _row_of_difference(run: ReportRun, row: ResultRow) -> Cells:
    first = _cell_of(run, row["train"], row["test"], row["store"], row["model"])
    second = _cell_of(
        run,
        row["against_train"],
        row["test"],
        row["against_store"],
        row["against_model"],
    )
    return (
        pair_name(row["train"], row["test"]),
        run.label(first),
        run.label(second),
        metric_name(row["metric"]),
        NumberCell.of(row),
        PValueCell(row["p_all"]),
        row["clips"],
        _films_above(run, first, second, row["metric"]),
        verdict(row),
    )


def _films_above(run: ReportRun, first: CellRows, second: CellRows, metric: str) -> str:
    """Return in how many films the first is above the second, on the clips that both tested."""
    shared = on_same_clips(run, [first, second])
    if not shared:
        return DASH
    return films_above(shared[0], shared[1], metric).text()


def _cell_of(run: ReportRun, *name: str) -> CellRows:
    for cell in run.all_cells:
        if (cell.train, cell.test, cell.store, cell.model) == name:
            return cell
    raise KeyError(name)


def _sentences_of_contrasts(run: ReportRun) -> Iterator[str]:
    first, second = run.settings["contrast"]
    rows = [row for row in run.contrasts if row["basis"] != LEAKED]
    n_leaked = len(run.contrasts) - len(rows)
    if n_leaked:
        yield (
            f"{n_leaked} of {count(len(run.contrasts), 'row')} say nothing of the two training"
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
        count_them = f": count the {run.units}" if run.has_groups else ""
        yield f"These differences have no interval and no p{count_them}."


def _table_of_contrasts(run: ReportRun) -> ResultTable:
    first, second = run.settings["contrast"]
    rows: list[Cells | Heading] = []
    for test, of_test in grouped_by(run.contrasts, lambda row: row["test"]).items():
        rows.append(Heading(f"tested on {test}"))
        for row in of_test:
            ours = _cell_of(run, row["train"], test, row["store"], row["model"])
            theirs = _cell_of(
                run, row["against_train"], test, row["store"], row["model"]
            )
            cells = (
                run.label(ours),
                metric_name(row["metric"]),
                NumberCell.of(row),
                PValueCell(row["p"]),
                _films_above(run, ours, theirs, row["metric"]),
                row["clips"],
                row["leaked"] or 0,
            )
            rows.append(cells)
    headers = (
        "model",
        "metric",
        "difference",
        "p",
        _compared_units(run),
        "clips",
        "leaked",
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
    return ResultTable("contrast", title, headers, rows, note)


# ---- the paper ----


def section_of_paper(run: ReportRun) -> Section:
    """Return our values beside those that a paper prints, by cell and by film."""
    section = Section("paper", "Beside the paper")
    printed: dict[str, list[tuple[CellRows, ResultRow]]] = {}
    for cell in _once(run):
        for metric, row in cell.of_metric.items():
            if math.isfinite(row["paper"]):
                printed.setdefault(metric, []).append((cell, row))
    for metric, pairs in printed.items():
        section.tables.append(_table_of_paper(metric, pairs))
    for cell in run.cells:
        for metric, by_film in cell.by_film.items():
            rows = [row for row in by_film.values() if math.isfinite(row["paper"])]
            if rows:
                section.tables.append(_table_of_paper_films(run, cell, metric, rows))
    if any(math.isfinite(number.sd) for number in _numbers_of(section.tables)):
        section.sentences.append(
            "In brackets: the standard deviation over runs or folds, as in the paper. Where runs "
            "share a test fold, it says how much training varies, not how certain the test is."
        )
    return section


def _numbers_of(tables: Sequence[ResultTable]) -> Iterator[NumberCell]:
    for table in tables:
        for row in table.rows:
            if not isinstance(row, Heading):
                yield from (cell for cell in row if isinstance(cell, NumberCell))


def _once(run: ReportRun) -> Iterator[CellRows]:
    """Yield models, then baselines; one that is not trained has one row for each test task."""
    yield from run.cells
    tests = set()
    for cell in run.baselines:
        name = (cell.model, cell.test)
        if cell.is_trained:
            yield cell
        elif name not in tests:
            tests.add(name)
            yield cell


def _table_of_paper(
    metric: str, pairs: Sequence[tuple[CellRows, ResultRow]]
) -> ResultTable:
    rows: list[Cells | Heading] = []
    for name, of_model in grouped_by(
        pairs, lambda pair: _name_with_store(pair[0])
    ).items():
        rows.append(Heading(name))
        for cell, row in of_model:
            train = cell.train if cell.is_trained else DASH
            sd = row["sd"] if cell.is_model else math.nan
            ours = NumberCell(row["value"], sd=sd)
            theirs = NumberCell(row["paper"], sd=row["paper_sd"])
            rows.append((train, cell.test, ours, theirs, leaked_of(cell)))
    name = metric_name(metric)
    headers = (
        "trained on",
        "tested on",
        f"{name}, this run",
        f"{name}, paper",
        "leaked",
    )
    title = f"{name} of this run and of the paper"
    return ResultTable(f"paper-{metric}", title, headers, rows)


def _name_with_store(cell: CellRows) -> str:
    return f"{cell.model} ({cell.store})" if cell.store else cell.model


def _table_of_paper_films(
    run: ReportRun, cell: CellRows, metric: str, rows: Sequence[ResultRow]
) -> ResultTable:
    """Return a row for each film, as in Table 4 of the paper."""
    names = {value["film"]: value["source"] for value in run.protocol["paper"]}
    order = list(names)
    shown: list[Cells | Heading] = []
    known = []
    for row in sorted(rows, key=lambda row: order.index(row["film"])):
        film = row["film"]
        ours = NumberCell(row["value"], sd=row["sd"])
        theirs = NumberCell(row["paper"], sd=row["paper_sd"])
        shown.append((names[film] or run.film_name(film), film, ours, theirs))
        if math.isfinite(row["value"]):
            known.append(row)
    if known:
        our_mean = sum(row["value"] for row in known) / len(known)
        their_mean = sum(row["paper"] for row in known) / len(known)
        means = (NumberCell(our_mean), NumberCell(their_mean))
        shown.append(("mean of these films", "", *means))
    name = metric_name(metric)
    return ResultTable(
        f"paper-films-{slug(cell.model, cell.store)}",
        f"{name} of each film, on {tested_on(cell.basis, run.units)}: {_name_with_store(cell)}, "
        f"{pair_name(*pair_of_cell(cell))}",
        ("film", "id", f"{name}, this run", f"{name}, paper"),
        shown,
        f"Leaked clips: {leaked_of(cell)} of {cell.n_clips}.",
    )


# ---- further analyses that a protocol asks for ----


def section_of_learning(run: ReportRun) -> Section:
    """Return the primary metric by the number of training films."""
    section = Section("learning", f"More training {run.units}")
    if not run.learning:
        return section
    numbers = sorted({row["train_films"] or 0 for row in run.learning})
    rows: list[Cells | Heading] = []
    by_pair = grouped_by(run.learning, lambda row: (row["train"], row["test"]))
    for pair, of_pair in by_pair.items():
        rows.append(Heading(pair_name(*pair)))
        by_model = grouped_by(of_pair, lambda row: (row["model"], row["store"]))
        for (model, store), of_model in by_model.items():
            values = {row["train_films"]: row["value"] for row in of_model}
            curve = [NumberCell(values.get(number, math.nan)) for number in numbers]
            label = run.label_of(model, store)
            rows.append((label, *curve, of_model[0]["clips"]))
    title = f"{metric_name(run.primary)} by the number of training {run.units}"
    headers = [
        "model",
        *(count(number, run.unit) for number in numbers),
        "clips",
    ]
    note = (
        "The last column counts what all fits of a row were tested on, with each number of training"
        f" {run.units}. A dash: the fits of a row were tested on too few common clips."
    )
    is_folded = len(rows) > MOST_OPEN_ROWS
    table = ResultTable("learning", title, headers, rows, note, folded=is_folded)
    section.tables.append(table)
    return section


def section_of_concepts(run: ReportRun) -> Section:
    """Return how well concept vectors rank clips, the weights of concepts, and trees."""
    section = Section("concepts", "Concepts")
    rows: list[ConceptRow] = run.table("concepts.csv")
    if not rows:
        return section
    tested = f"are tested on {run.units} that they were not found on"
    if not run.has_groups:
        tested = "are not tested, as the manifest has no films to leave out"
    section.sentences.append(
        f"Concept vectors {tested}. Weights and trees are fitted on all clips, to be looked at; how"
        " well they do on"
        f" {tested_on(weakest(cell.basis for cell in run.cells), run.units)} is in the results."
    )
    trees = grouped_by(run.table("trees.csv"), _model_of)
    for (store, model, train), nodes in trees.items():
        name = f"{model} ({store}), {train}"
        section.figures.append(figure_of_tree(name, nodes))
    table_rows: list[Cells | Heading] = []
    for (store, model, train), of_model in grouped_by(rows, _model_of).items():
        table_rows.append(Heading(f"{model} ({store}), {train}"))
        for row in of_model:
            share = row["positive"] / row["clips"] if row["clips"] else math.nan
            cells = (
                row["concept"],
                row["positive"],
                NumberCell(share),
                NumberCell(row["ap"], row["low"], row["high"]),
                NumberCell(row["auc"]),
                PValueCell(row["p_holm"]),
                NumberCell(row["weight"]),
            )
            table_rows.append(cells)
    headers = ("concept", "clips", "share", "AP", "AUC", "p (Holm)", "weight")
    note = (
        "Weight: change in the log odds if the margin grows by 1, in a linear head; where margins"
        " of two concepts differ in spread, their weights are not on one scale."
    )
    if run.has_groups:
        note += (
            f" p: how probable such a ranking is if the labels of each {run.unit} are shifted in"
            f" time. A dash instead of AP: without some {run.unit}, too few clips have the concept"
            " or lack it."
        )
    counts = []
    for row in rows:
        if row["films_with_value"] is not None:
            counts.append((row["films_with_value"], row["films"]))
    known = films_with_value(counts, run.unit)
    if known:
        note += f" Of AP, {known}."
    table = ResultTable(
        "concepts", "Concept vectors", headers, table_rows, note, folded=True
    )
    section.tables.append(table)
    return section


def sentence_of_concepts(run: ReportRun) -> str:
    """Return which concepts the features show in films that vectors were not found on."""
    found: dict[str, bool] = {}
    untested = []
    for row in run.table("concepts.csv"):
        if math.isnan(row["p_holm"]):
            untested.append(row["concept"])
            continue
        is_found = row["p_holm"] < ALPHA
        found[row["concept"]] = found.get(row["concept"], False) or is_found
    if not found:
        return ""
    not_tested = [name for name in dict.fromkeys(untested) if name not in found]
    shown = [name for name, is_found in found.items() if is_found]
    others = [name for name, is_found in found.items() if not is_found]
    n_found = f"{len(shown)} of {count(len(found), 'concept')}"
    named = f" ({few(shown)})" if shown else ""
    text = f"In unseen {run.units} the features show {n_found}{named}"
    if others:
        text += f"; not shown: {few(others)}"
    if not_tested:
        text += f"; not tested, as too few {run.units} have them: {few(not_tested)}"
    return f"{text}."


def _model_of(row: ConceptRow | NodeRow) -> tuple[str, str, str]:
    return row["store"], row["model"], row["train"]


def section_of_success(run: ReportRun) -> Section:
    """Return the regression of correct decisions on the properties of a clip."""
    section = Section("success", "What makes a clip easy")
    rows = run.table("success.csv")

    def cell_of(row: SuccessRow) -> tuple[str, str, str, str]:
        return row["train"], row["test"], row["store"], row["model"]

    by_cell = grouped_by(rows, cell_of)
    for (train, test, store, model), of_cell in by_cell.items():
        name = f"{model} ({store}), {pair_name(train, test)}"
        of_all = [row for row in of_cell if row["film"] == ALL_FILMS]
        if not of_all:
            continue
        figure = figure_of_success(run, name, of_cell, ALL_FILMS)
        if figure is not None:
            section.figures.append(figure)
        note = f"{of_all[0]['successes']} of {of_all[0]['all_clips']} decisions are correct."
        if run.has_groups:
            note += f" Each {run.unit} is in success.csv."
        table = ResultTable(
            f"success-{slug(name)}",
            f"Log odds of success: {name}",
            ("property", "clips", "log odds", "p", "note"),
            [_row_of_factor(row) for row in of_all],
            note,
            folded=True,
        )
        section.tables.append(table)
    return section


def _row_of_factor(row: SuccessRow) -> Cells:
    odds = NumberCell(row["log_odds"], row["low"], row["high"])
    name = row["factor"] or DASH
    n_clips = row["clips"] or 0
    return name, n_clips, odds, PValueCell(row["p"]), row["note"]


# ---- errors ----


def section_of_errors(run: ReportRun) -> Section:
    """Return the wrong decisions that are farthest from the threshold."""
    section = Section("errors", "Errors to look at")
    cell = run.main
    if cell is None:
        return section
    rows: list[Cells | Heading] = []
    # Without labels, or with others than those of the run, nobody knows what these were.
    view = view_text(run) if run.clips else ""
    errors = surest_errors(run, cell)
    for clip_id, movie_id, is_positive, score in errors[:MOST_ERRORS]:
        clip = run.clips.get(clip_id, Clip(clip_id, movie_id))
        labels: Cells = ()
        if view:
            labels = (clip.level or DASH, ", ".join(clip.concepts) or DASH)
        word = "missed" if is_positive else "false alarm"
        rows.append(
            (run.film_name(movie_id), clip_id, *labels, word, NumberCell(score))
        )
    if not rows:
        return section
    of_labels = ("level", "concepts") if view else ()
    headers = ("film", "clip_id", *of_labels, "error", "score")
    title = f"Surest errors of {run.label(cell)}, {pair_name(*pair_of_cell(cell))}"
    watch = shlex.join(["obygaze", "view", "--run", run.folder.name])
    note = (
        f"{len(rows)} of {count(len(errors), 'wrong decision')}, the farthest from the threshold of"
        f" {cell.threshold:g} first; all are in predictions.csv. To see the clips: {watch}"
    )
    if view:
        note = f"Levels and concepts are those of the {view}. {note}"
    section.tables.append(ResultTable("errors", title, headers, rows, note))
    return section


def surest_errors(run: ReportRun, cell: CellRows) -> list[tuple[str, str, bool, float]]:
    """Return clip, film, class and mean score of the wrong decisions, the surest first."""
    key = (cell.train, cell.test, cell.store, cell.model)
    of_cell = []
    for row in run.predictions:
        if (row["train"], row["test"], row["store"], row["model"]) == key:
            of_cell.append(row)
    wrong = []
    for clip_id, of_clip in grouped_by(
        of_cell, lambda row: str(row["clip_id"])
    ).items():
        score = fmean(row["score"] for row in of_clip)
        is_positive = bool(of_clip[0]["y"])
        if (score > cell.threshold) != is_positive:
            wrong.append((clip_id, str(of_clip[0]["movie_id"]), is_positive, score))
    wrong.sort(key=lambda error: (-abs(error[3] - cell.threshold), error[0]))
    return wrong


# ---- how it was made ----


def section_of_made(run: ReportRun) -> Section:
    """Return what is needed to run the experiment again, and what to cite."""
    section = Section("made", "How it was made")
    protocol = run.protocol
    made_by = f"Protocol {protocol['name']}, splits {protocol['splits']['kind']}"
    if run.has_groups:
        made_by += f", {protocol['report']['replicates']:,} draws of {run.units}"
    section.sentences.append(
        f"{made_by}. run.json has every setting, and what was chosen in each fold."
    )
    section.sentences += protocol["report"]["notes"]
    for name, facts in stores_lacking_clips(run).items():
        section.tables.append(_table_of_missing(run, name, facts["missing"]))
    sources = _table_of_sources(run)
    if sources.rows:
        section.tables.append(sources)
    section.tables.append(_table_of_inputs(run))
    return section


def _table_of_missing(
    run: ReportRun, store: str, missing: Mapping[str, str]
) -> ResultTable:
    listed: Any = [*missing.items()][:MOST_MISSING]
    note = "These clips are left out; missing features are never replaced."
    if len(missing) > MOST_MISSING:
        note += f" The first {MOST_MISSING} are listed; run.json has all."
    n_clips = run.about["manifest"]["n_clips"]
    title = f"{store}: {len(missing)} of {n_clips} clips have no features"
    headers = ("clip_id", "reason")
    return ResultTable(
        f"missing-{slug(store)}", title, headers, listed, note, folded=True
    )


def _table_of_sources(run: ReportRun) -> ResultTable:
    """Return the licence and the citation of the annotations and of the features."""
    manifest = run.about["manifest"]
    used = [("annotations", manifest["name"], manifest)]
    for name, facts in run.about["stores"].items():
        used.append(("features", name, facts))
    rows = []
    for kind, name, facts in used:
        licence = facts.get("licence", "")
        citation = facts.get("citation", "")
        if licence or citation:
            rows.append((kind, name, licence or NOT_STATED, citation or NOT_STATED))
    title = "Annotations and features: licence, and what to cite"
    return ResultTable("sources", title, ("kind", "name", "licence", "citation"), rows)


def _table_of_inputs(run: ReportRun) -> ResultTable:
    about = run.about
    manifest = about["manifest"]
    rows: list[Cells | Heading] = [
        ("protocol", run.protocol["name"], about["protocol_sha256"]),
        (
            "manifest",
            f"{manifest['path']} ({view_text(run)})"
            if view_text(run)
            else manifest["path"],
            manifest["sha256"],
        ),
    ]
    for name, facts in about["stores"].items():
        array = f"array {facts['array']}, {facts['width']} wide"
        content = f"{name}={facts['location']}: {facts['backbone']}, {array}"
        rows.append(("store", content, facts["seal"]))
    for path, sha256 in about["texts"].items():
        rows.append(("texts", path, sha256))
    for name in run.tables_with_rows:
        rows.append(("table", name, about["files"][name]))
    for name, version in about["versions"].items():
        rows.append(("version", name, version))
    for kind, packages in about["parts"].items():
        for name, package in packages.items():
            rows.append((f"own code ({kind})", name, package))
    rows.append(("seed", "fits", str(run.protocol["fit"]["seed"])))
    rows.append(("created", about["created"], about["created_by"]))
    headers = ("kind", "name", "checksum or value")
    return ResultTable("inputs", "Inputs and versions", headers, rows, folded=True)
