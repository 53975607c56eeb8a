"""The sections of a page below the first screen: sentences, figures and tables of a run.

The tables of the run contain all numbers of the page, and further numbers.
"""

import math
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import fmean

import numpy as np

from obygaze_features.core.console import count, few
from obygaze_features.manifest.expression import parse
from obygaze_features.manifest.listing import clock_or_none, film_titles
from obygaze_features.manifest.model import Annotation, Clip, Manifest, own_columns
from obygaze_features.store.recipe import UNKNOWN_FACT
from obygaze_models.evaluation.basis import (
    LEAKED,
    no_interval_because,
    tested_on,
    weakest,
)
from obygaze_models.evaluation.clip_scores import ClipScores, clip_scores
from obygaze_models.evaluation.error_analysis import ALL_FILMS, LEVEL_FACTORS
from obygaze_models.evaluation.group_tests import ALPHA
from obygaze_models.evaluation.metrics import metric_name
from obygaze_models.evaluation.results import names_of_difference
from obygaze_models.evaluation.tables import RunRow, group_by, rows_as_dicts
from obygaze_models.report.figures import (
    Figure,
    Titles,
    figure_of_success,
    figure_of_tree,
    figures_of_tasks,
)
from obygaze_models.report.lookup import (
    CEILINGS,
    find_task,
    label,
    n_leaked,
    pair_name,
    task_name,
    unit_titles,
)
from obygaze_models.report.tables import (
    DASH,
    CountCell,
    DifferenceCell,
    NumberCell,
    PValueCell,
    ResultTable,
    result_table,
    slug,
)
from obygaze_models.runner.answer import (
    about_sides,
    asked_differences,
    asked_results,
    best_baseline,
    compared_metric,
    films_with_value,
    has_values_of_table,
    intervals_hold_for,
    short,
    shown_metrics,
    view_text,
)
from obygaze_models.runner.files import ResultRows, Run, numbered_rows
from obygaze_models.runner.labels import RunLabels
from obygaze_models.runner.limits import ON_FIRST_SCREEN, find_limits

MOST_ERRORS = 10
MOST_RESULTS = 6  # results whose errors are shown
ERROR_COLUMNS = ("film", "start", "end", "error", "score")
MOST_FILMS = 100  # films in a table; results.csv has all films
MOST_OPEN_ROWS = 12
NO_FILMS_COMPARED = (
    "The manifest has no films, so differences have no interval and no p."
)
NOT_STATED = "not stated"
BETTER_WORDS = {1: "yes", 0: "no"}
OF_MODEL = ["store", "model", "train"]  # columns that identify a model of concepts


PictureOf = Callable[[Manifest, Clip], str]


@dataclass
class Section:
    """The content below one heading."""

    key: str
    title: str
    sentences: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    tables: list[ResultTable] = field(default_factory=list)
    # Pictures of clips as data URLs, by clip id.
    pictures: dict[str, str] = field(default_factory=dict)


def make_sections(
    run: Run, labels: RunLabels, picture_of: PictureOf | None = None
) -> list[Section]:
    """Return the sections that are not empty, in the order of the page."""
    titles = unit_titles(run, labels.manifest)
    sections = [
        section_of_results(run, titles),
        section_of_differences(run),
        section_of_films(run, titles),
        section_of_paper(run, titles),
        section_of_concepts(run),
        section_of_success(run),
        section_of_errors(run, labels, picture_of),
        section_of_made(run),
    ]
    return [one for one in sections if one.sentences or one.figures or one.tables]


# ---- results ----


def section_of_results(run: Run, titles: Titles) -> Section:
    """Return the section of results: a table with a row for each model, and figures of tasks."""
    section = Section("results", "Results", figures=[*figures_of_tasks(run, titles)])
    shown = []
    for cell in run.cells:
        # Baselines have rows only in a run without models, or if they read true labels. The best
        # baseline is in the row of its model.
        if cell.is_model or not run.models or cell.model in CEILINGS:
            shown.append(cell)
    rows: list[RunRow | str] = []
    by_test = group_by(shown, lambda cell: (cell.pair, cell.test_set))
    for cells in by_test.values():
        rows.append(_heading_of_test(run, cells[0]))
        # A baseline may have a cell for each store. On the same clips, these cells have the same
        # values, so one row is shown.
        by_label = {label(run, cell): cell for cell in reversed(cells)}
        rows += [_result(run, cell) for cell in reversed(by_label.values())]
    note = "" if run.has_groups else NO_FILMS_COMPARED
    title = f"{metric_name(compared_metric(run))} of each model and its best baseline"
    section.tables.append(result_table("results", title, rows, note))
    return section


def _heading_of_test(run: Run, cell: ResultRows) -> str:
    """Return the heading of the rows of a test.

    It has the tasks, the number of clips and films, and the value for clips in random order.
    """
    metric = compared_metric(run)
    facts = f"{cell.clips:,} {'clip' if cell.clips == 1 else 'clips'}"
    if run.has_groups:
        facts += f" of {count(cell.films, run.unit)}"
    facts += f", {100 * cell.positive / cell.clips:.0f} % positive"
    at_random = cell.row(metric)["random"]
    if math.isfinite(at_random):
        facts += f"; a random order has {metric_name(metric)} {short(at_random)}"
    return f"{task_name(run, cell.pair)} ({facts})"


def _result(run: Run, cell: ResultRows) -> RunRow:
    """Return the row of a model in the table of results, with the best baseline of this model."""
    metric = compared_metric(run)
    row = cell.row(metric)
    baseline = best_baseline(run, cell, metric)
    shown: RunRow = {
        "model": label(run, cell),
        metric_name(metric): NumberCell.of(row),
        "best baseline": DASH if baseline is None else label(run, baseline),
        f"{metric_name(metric)} of the baseline": NumberCell.of(row, "baseline_value"),
        "p": PValueCell.of(row),
        "better?": row["verdict"] or DASH,
        _compared_units(run): CountCell.of_films(row),
    }
    # Other metrics have no p. The primary metric has a best baseline of its own.
    for other in shown_metrics(run)[1:]:
        name = metric_name(other)
        of_other = cell.row(other)
        shown[name] = NumberCell.of(of_other)
        if other == run.settings.primary:
            baseline = best_baseline(run, cell, other)
            named = DASH if baseline is None else label(run, baseline)
            shown[f"best baseline of {name}"] = named
            shown[f"{name} of that baseline"] = NumberCell.of(
                of_other, "baseline_value"
            )
    return {**shown, "leaked": _leaked(cell)}


def _leaked(cell: ResultRows) -> CountCell:
    """Return the number of leaked test clips, or 0 for a model that is not trained."""
    return CountCell.of(cell.whole, "leaked") if cell.is_trained else CountCell(0)


def _compared_units(run: Run) -> str:
    """Return the header of the column that counts films or groups with a difference above 0."""
    return run.units if run.has_groups else "films"


# ---- differences ----


def section_of_differences(run: Run) -> Section:
    """Return the section of requested differences: of two models, or of two training tasks."""
    section = Section("differences", "Differences")
    shown: list[RunRow | str] = []
    shown += [_difference(run, row) for row in asked_differences(run)]
    contrasts = [r for r in run.differences if r["against_train"] != r["train"]]
    if contrasts:
        first, second = run.settings.contrast
        section.sentences += _sentences_of_contrasts(contrasts, first, second)
        shown.append(f"trained on {first} minus trained on {second}")
        shown += [_difference(run, row) for row in contrasts]
    note = "" if run.has_groups else NO_FILMS_COMPARED
    if not all(has_values_of_table(run, row) for row in asked_differences(run)):
        note = f"Of first, of second: {about_sides(run)}."
    if shown:
        is_folded = len(shown) > MOST_OPEN_ROWS
        section.tables.append(
            result_table(
                "differences", "First minus second", shown, note, folded=is_folded
            )
        )
    return section


def _difference(run: Run, row: RunRow) -> RunRow:
    """Return the row of a difference in the table of differences."""
    by_name = {cell.name: cell for cell in run.cells}
    first, second = (by_name[name] for name in names_of_difference(row))
    return {
        "task": pair_name(row["train"], row["test"]),
        "first": label(run, first),
        "second": label(run, second),
        "metric": metric_name(row["metric"]),
        "of first": NumberCell.of(row, "first"),
        "of second": NumberCell.of(row, "second"),
        "difference": DifferenceCell.of(row),
        "p": PValueCell.of(row),
        "clips": CountCell.of(row, "clips"),
        _compared_units(run): CountCell.of_films(row),
        "first better?": row["verdict"],
        "leaked": CountCell.of(row, "leaked"),
    }


def _sentences_of_contrasts(
    contrasts: Sequence[RunRow], first: str, second: str
) -> Iterator[str]:
    rows = [row for row in contrasts if row["basis"] != LEAKED]
    n_leaked = len(contrasts) - len(rows)
    if n_leaked:
        yield (
            f"{n_leaked} of {count(len(contrasts), 'row')} cannot compare the two training"
            f" tasks: {no_interval_because(LEAKED)}."
        )
    if not rows:
        return
    n_higher = sum(row["value"] > 0 for row in rows)
    n_lower = sum(row["value"] < 0 for row in rows)
    yield (
        f"Models trained on {first} have the higher value in {n_higher} of "
        f"{count(len(rows), 'row')}, models trained on {second} in {n_lower}."
    )
    if all(math.isnan(row["low"]) and math.isnan(row["p"]) for row in rows):
        yield "These differences have no interval and no p."


# ---- films ----


def section_of_films(run: Run, titles: Titles) -> Section:
    """Return the section of films: the compared metric in each film.

    The table has a column for each model, a column with whether this model is better than its best
    baseline, and a column for the best baseline. The section is empty if the run has no films, or
    too many films for a table.
    """
    section = Section("films", run.units.capitalize())
    asked = asked_results(run)
    if not asked or not 0 < asked[0].films <= MOST_FILMS:
        return section
    metric = compared_metric(run)
    first = asked[0]
    shown = [cell for cell in run.models if cell.pair == first.pair]
    note = (
        "A dash: no positive clips, or clips of one class only. Better: the order of the model is"
        " better than its reverse, or the model is better than a baseline that orders clips."
    )
    if len({cell.test_set for cell in shown}) > 1:
        note += (
            " Not all models tested the same clips; the column clips is of the first."
        )
    baseline = best_baseline(run, first, metric)
    if baseline is not None:
        shown.append(baseline)
    values = {}
    is_better = {}
    for cell in shown:
        of_cell = cell.of_films(metric)
        values[label(run, cell)] = {row["film"]: row for row in of_cell}
        if cell.is_model:
            counted = {row["film"]: row["films_better"] for row in of_cell}
            is_better[label(run, cell)] = counted
    rows = []
    for of_film in first.rows[metric][1:]:
        film = of_film["film"]
        row: RunRow = {run.unit: titles.get(film, film)}
        if not run.holds_out_groups:
            # A group of films, such as a director, has a name but no id.
            row["id"] = film
        row["clips"] = CountCell.of(of_film, "clips")
        for name, of_films in values.items():
            row[name] = NumberCell.of(of_films.get(film))
            if name in is_better:
                found = is_better[name].get(film, math.nan)
                row[f"{name} better?"] = BETTER_WORDS.get(found, DASH)
        rows.append(row)
    title = f"{metric_name(metric)} of each {run.unit}, {pair_name(*first.pair)}"
    section.tables.append(result_table("films", title, rows, note, folded=True))
    return section


# ---- the paper ----


def section_of_paper(run: Run, titles: Titles) -> Section:
    """Return the section with the values of this run beside the published values of its protocol.

    The first tables have values over all films. The tables after them have values of single films,
    as in Table 4 of the paper on ObyGaze12.
    """
    section = Section("paper", "Beside the paper")
    by_name = {cell.name: cell for cell in run.cells}
    rows = numbered_rows(run.results[run.results["paper"].notna()])
    for row in rows:
        row["cell"] = by_name[row["train"], row["test"], row["store"], row["model"]]
    of_cells = [row for row in rows if not row["film"]]
    of_films = [row for row in rows if row["film"] and row["cell"].is_model]
    for metric, of_metric in group_by(of_cells, lambda row: row["metric"]).items():
        shown: list[RunRow | str] = []
        for name, of_model in group_by(of_metric, _name_with_store).items():
            shown += [name, *map(_cell_of_paper, of_model)]
        title = f"{metric_name(metric)} of this run and of the paper"
        section.tables.append(result_table(f"paper-{metric}", title, shown))
    for metric, of_metric in group_by(of_films, lambda row: row["metric"]).items():
        shown = []
        for cell, of_cell in group_by(of_metric, lambda row: row["cell"]).items():
            shown.append(_heading_of_films(run, cell))
            shown += _films_of_paper(run, of_cell, titles)
        title = f"{metric_name(metric)} of each film, of this run and of the paper"
        section.tables.append(result_table(f"paper-films-{metric}", title, shown))
    if any(math.isfinite(np.fmax(row["sd"], row["paper_sd"])) for row in rows):
        section.sentences.append(
            "In brackets: the standard deviation over runs or folds, as in the paper. If runs share"
            " a test fold, this is the variation of training, not the uncertainty of the test."
        )
    return section


def _name_with_store(row: RunRow) -> str:
    return f"{row['model']} ({row['store']})" if row["store"] else row["model"]


def _cell_of_paper(row: RunRow) -> RunRow:
    cell = row["cell"]
    shown = row if cell.is_model else {**row, "sd": math.nan}
    return {
        # A model that is not trained has the same scores for all training tasks.
        "trained on": cell.train if cell.is_trained else DASH,
        "tested on": cell.test,
        **_beside_paper(shown),
        "leaked": _leaked(cell),
    }


def _beside_paper(row: RunRow) -> RunRow:
    return {
        "this run": NumberCell.with_sd(row, "value", "sd"),
        "paper": NumberCell.with_sd(row, "paper", "paper_sd"),
    }


def _heading_of_films(run: Run, cell: ResultRows) -> str:
    """Return the heading above the films of a cell.

    It has the model, the tasks, what the model was tested on, and the number of leaked clips.
    """
    name = _name_with_store({"model": cell.model, "store": cell.store})
    leaked = f", {n_leaked(cell)} of {cell.clips} leaked" if n_leaked(cell) else ""
    return f"{name}, {pair_name(*cell.pair)}, on {tested_on(cell.basis, run.units)}{leaked}"


def _films_of_paper(run: Run, rows: Sequence[RunRow], titles: Titles) -> list[RunRow]:
    """Return a row for each film of a cell, in the order of the published table, and a mean row."""
    printed = {value["film"]: value["source"] for value in run.protocol["paper"]}
    order = [*printed]
    shown = []
    for row in sorted(rows, key=lambda row: order.index(row["film"])):
        film = row["film"]
        name = printed[film] or titles.get(film, film)
        shown.append({"film": name, "id": film, **_beside_paper(row)})
    known = [row for row in rows if math.isfinite(row["value"])]
    if known:
        mean = {"sd": math.nan, "paper_sd": math.nan}
        for name in ("value", "paper"):
            mean[name] = fmean(row[name] for row in known)
        shown.append({"film": "mean of these films", "id": "", **_beside_paper(mean)})
    return shown


# ---- further analyses that a protocol may request ----


def section_of_concepts(run: Run) -> Section:
    """Return the section on concept vectors, weights of concepts, and trees."""
    section = Section("concepts", "Concepts")
    concepts = run.table("concepts.csv")
    if concepts.empty:
        return section
    tested = f"are tested on {run.units} that were not used to find them"
    if not run.has_groups:
        tested = "are not tested, because the manifest has no films to hold out"
    basis = weakest(cell.basis for cell in run.models)
    section.sentences += filter(None, [sentence_of_concepts(run)])
    section.sentences.append(
        f"Concept vectors {tested}. Weights and trees are fitted on all clips, for inspection only."
        f" The values under Results are on {tested_on(basis, run.units)}."
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
        "Weight: change in the log odds if the margin grows by 1, in a linear head. Weights of two"
        " concepts can be compared only if their margins have the same spread."
    )
    if run.has_groups:
        note += (
            " AP and AUC: of one ranking of all clips. p: the probability of a ranking at least as"
            f" good if the labels of each {run.unit} are shifted in time; a dash if the order of"
            f" the clips is unknown. A dash instead of AP: if one {run.unit} is held out, too few"
            " clips with or without the concept remain."
        )
    counted = concepts[["films_with_value", "films"]].dropna().astype(int)
    known = films_with_value([*counted.itertuples(index=False, name=None)], run.unit)
    if known:
        note += f" For AP, {known}."
    section.tables.append(
        result_table("concepts", "Concept vectors", rows, note, folded=True)
    )
    return section


def sentence_of_concepts(run: Run) -> str:
    """Return a sentence on which concepts the features show in unseen films.

    Return "" if no concept was tested.
    """
    concepts = run.table("concepts.csv")
    # The smallest p of a concept, times the number of its p (one for each store and setting of
    # vectors), or NaN if no model could test it. Two stores may have equal p.
    tests = concepts.drop_duplicates(["concept", "store", "p_holm"])
    p_of_concept = tests.groupby("concept", sort=False)["p_holm"]
    p = (p_of_concept.min() * p_of_concept.count()).astype(float)
    shown = [*p.index[p < ALPHA]]
    others = [*p.index[p >= ALPHA]]
    not_tested = [*p.index[p.isna()]]
    n_tested = len(shown) + len(others)
    if not n_tested:
        return ""
    named = f" ({few(shown)})" if shown else ""
    text = (
        f"In unseen {run.units}, the features show {len(shown)} of"
        f" {count(n_tested, 'concept')}{named}"
    )
    if others:
        text += f"; not shown: {few(others)}"
    if not_tested:
        text += (
            f"; not tested, because too few {run.units} have them: {few(not_tested)}"
        )
    return f"{text}."


def section_of_success(run: Run) -> Section:
    """Return the section on success: how properties of clips predict whether decisions are correct.

    Its numbers are from a regression.
    """
    section = Section("success", "What makes a clip easy")
    for name, factors in group_by(
        rows_as_dicts(run.table("success.csv")),
        lambda row: (
            f"{row['model']} ({row['store']}), {pair_name(row['train'], row['test'])}"
        ),
    ).items():
        # The factor of one level is not shown. Its log odds compare no clips, because each clip has
        # one level.
        shown = [row for row in factors if row["factor"] not in LEVEL_FACTORS]
        of_all = [row for row in shown if row["film"] == ALL_FILMS]
        if not of_all:
            continue
        figure = figure_of_success(run, name, shown)
        if figure is not None:
            section.figures.append(figure)
        rows = []
        for row in of_all:
            of_row = {
                "property": row["factor"] or DASH,
                "clips": 0 if math.isnan(row["clips"]) else row["clips"],
                "log odds": NumberCell(row["log_odds"], row["low"], row["high"]),
                "p": PValueCell(row["p"]),
                "note": row["note"],
            }
            rows.append(of_row)
        note = (
            f"{of_all[0]['successes']} of {of_all[0]['all_clips']} decisions are correct."
            f" success.csv has the log odds of each level, as in the paper, and of each {run.unit}."
        )
        title = f"Differences in the log odds of success: {name}"
        section.tables.append(
            result_table(f"success-{slug(name)}", title, rows, note, folded=True)
        )
    return section


# ---- errors ----


def section_of_errors(
    run: Run, labels: RunLabels, picture_of: PictureOf | None = None
) -> Section:
    """Return the section of wrong decisions of the requested models.

    The wrong decisions whose scores are farthest from the threshold are shown, and the picture of
    each clip if a function is given that returns it.
    """
    section = Section("errors", "Errors to look at")
    clips: dict[str, Clip] = {}
    columns: list[str] = []
    annotations: Mapping[str, Sequence[Annotation]] = {}
    view = ""
    # If labels have changed, the labels of the run are unknown.
    if labels.manifest is not None and not labels.changed:
        clips = {clip.clip_id: clip for clip in labels.manifest}
        columns = _columns_asked_for(run, labels.manifest.columns)
        annotations = group_by(labels.manifest.annotations, lambda one: one.clip_id)
        if view_text(run):
            view = f"Levels and concepts are those of the {view_text(run)}. "
    manifest = run.about["manifest"]["name"]
    watch = shlex.join(["obygaze", "view", manifest, "--run", run.folder.name])
    shown_clips: dict[str, None] = {}
    for cell in asked_results(run)[:MOST_RESULTS]:
        scores = clip_scores(run.tests_of(cell))
        found = errors(scores, clips, columns, annotations)
        if not found:
            continue
        shown = found[:MOST_ERRORS]
        titles = film_titles({row["film"] for row in shown}, labels.manifest)
        # Columns without a value are not shown.
        names = []
        for name in shown[0]:
            if any(row[name] for row in shown):
                names.append(name)
        rows = []
        for error in shown:
            named = {**error, "film": titles.get(error["film"], error["film"])}
            rows.append({name: named[name] or DASH for name in names})
            shown_clips[error["clip_id"]] = None
        note = (
            f"{view}Shown are {len(rows)} of {count(len(found), 'wrong decision')}, the farthest"
            f" from the threshold of {scores.threshold:g} first; predictions.csv has all. To see"
            f" the clips: {watch}"
        )
        title = f"Most confident errors of {label(run, cell)}, {pair_name(*cell.pair)}"
        key = f"errors-{slug(cell.model, cell.store, *dict.fromkeys(cell.pair))}"
        section.tables.append(result_table(key, title, rows, note))
    if picture_of is not None and shown_clips:
        _add_pictures(section, shown_clips, clips, labels.manifest, picture_of)
    return section


def _add_pictures(
    section: Section,
    clip_ids: Collection[str],
    clips: Mapping[str, Clip],
    manifest: Manifest | None,
    picture_of: PictureOf,
) -> None:
    """Add the pictures of clips to a section, with a sentence that says what the page contains."""
    if manifest is None or not clips:
        section.sentences.append(
            "The clips have no pictures: the clips of the run were changed or cannot be read."
        )
        return
    for clip_id in clip_ids:
        picture = clip_id in clips and picture_of(manifest, clips[clip_id])
        if picture:
            section.pictures[clip_id] = picture
    n_shown = len(section.pictures)
    n_missing = len(clip_ids) - n_shown
    said = ""
    if n_shown:
        said = (
            f"This page contains pictures of films, from {count(n_shown, 'clip')}. Share it only"
            " with people who may see the films. "
        )
    if n_missing:
        said += f"{count(n_missing, 'clip')} without a picture: the video cannot be decoded."
    section.sentences.append(said.strip())


def errors(
    scores: ClipScores,
    clips: Mapping[str, Clip],
    columns: Sequence[str],
    annotations: Mapping[str, Sequence[Annotation]],
) -> list[RunRow]:
    """Return the wrong decisions of a cell, made by the mean score of each clip.

    The first one has the score that is farthest from the threshold.

    Args:
        scores: The scores of the clips that a model tested.
        clips: The clips by id.
        columns: The user's columns of the manifest that are shown.
        annotations: The annotations of each clip, by id.
    """
    margins = scores.score - scores.threshold
    is_wrong = (margins > 0) != scores.y
    films = scores.films
    order = np.argsort(-np.abs(margins), kind="stable")
    found = []
    for number in order[is_wrong[order]].tolist():
        clip_id = scores.ids[number]
        clip = clips.get(clip_id, Clip(clip_id, films[number]))
        annotated = annotations.get(clip_id, ())
        own = {}
        for name in ("comment", *columns):
            shown = f"{name} (manifest)" if name in ERROR_COLUMNS else name
            own[shown] = clip.extra.get(name, "")
        row = {
            "film": films[number],
            "clip_id": clip_id,
            "start": clock_or_none(clip.start_s),
            "end": clock_or_none(clip.end_s),
            "level": clip.level,
            "concepts": ", ".join(clip.concepts),
            "annotators": "; ".join(
                _annotation_text(one, columns) for one in annotated
            ),
            **own,
            "error": "missed" if scores.y[number] else "false alarm",
            "score": NumberCell(float(scores.score[number])),
        }
        found.append(row)
    return found


def _annotation_text(said: Annotation, columns: Sequence[str]) -> str:
    """Return the text of the annotation of one annotator, such as `ada: S, Look`."""
    words = [said.level, *said.concepts, *(said.own.get(name, "") for name in columns)]
    comment = said.own.get("comment", "")
    if comment:
        words.append(f"“{comment}”")
    return f"{said.annotator}: {', '.join(filter(None, words)) or DASH}"


def _columns_asked_for(run: Run, columns: Sequence[str]) -> list[str]:
    """Return the user's columns that the tasks of a run, or `data.where` of its protocol, name."""
    expressions = [run.protocol["data"]["where"]]
    named = []
    for name in dict.fromkeys(chain.from_iterable(cell.pair for cell in run.cells)):
        task = find_task(run, name)
        named.append(task.column)
        expressions += (task.positive, task.negative)
    for expression in filter(None, expressions):
        named += parse(expression).compared
    return [name for name in dict.fromkeys(own_columns(named)) if name in columns]


# ---- how it was made ----


def features_text(run: Run) -> str:
    """Return each store of a run, with what made its features."""
    parts = []
    for name, facts in run.about["stores"].items():
        made_by = " + ".join(facts.get("parts", [facts["backbone"]]))
        if made_by.startswith(UNKNOWN_FACT):
            kind = made_by.removeprefix(UNKNOWN_FACT).strip()
            made_by = f"imported {kind}, backbone not stated"
        array = f", array {facts['array']}" if len(facts.get("arrays", ())) > 1 else ""
        parts.append(f"{name}: {made_by}{array}")
    return "; ".join(parts)


def section_of_made(run: Run) -> Section:
    """Return the section with all that is needed to repeat the run, and what to cite."""
    section = Section("made", "How it was made")
    protocol = run.protocol
    about = run.about
    made_by = f"Protocol {protocol['name']}, splits {protocol['splits']['kind']}"
    if run.has_groups:
        made_by += f", {protocol['report']['replicates']:,} resamples of {run.units}"
    intervals = intervals_hold_for(run, run.cells)
    section.sentences.append(
        f"{made_by}. run.json has all settings, and the settings that were chosen in each fold."
    )
    if about["stores"]:
        section.sentences.append(f"Features: {features_text(run)}.")
    if intervals:
        section.sentences.append(f"Intervals over {run.units} hold for {intervals}.")
    section.sentences += protocol["report"]["notes"]
    for limit in find_limits(run):
        if limit.name not in ON_FIRST_SCREEN:
            section.sentences.append(limit.text)
    manifest = about["manifest"]
    sources = [("annotations", manifest["name"], manifest)]
    inputs = [("protocol", protocol["name"], about["protocol_sha256"])]
    inputs.append(("manifest", manifest["path"], manifest["sha256"]))
    for name, facts in about["stores"].items():
        sources.append(("features", name, facts))
        parts = facts.get("parts", {name: facts})
        for part, of_part in parts.items():
            place = name if part == name else f"{name}, {part}"
            inputs.append(("store", f"{place}={of_part['location']}", of_part["seal"]))
    for name, model in protocol["models"].items():
        # A saved model that is tested has a checksum.
        if "sha256" in model.get("settings", {}):
            inputs.append(("model", name, model["settings"]["sha256"]))
    inputs += [("texts", name, checksum) for name, checksum in about["texts"].items()]
    terms = []
    for kind, name, facts in sources:
        licence, citation = (facts.get(key, "") for key in ("licence", "citation"))
        if licence or citation:
            row = {
                "kind": kind,
                "name": name,
                "licence": licence or NOT_STATED,
                "citation": citation or NOT_STATED,
            }
            terms.append(row)
    if terms:
        title = "Annotations and features: licence and citation"
        section.tables.append(result_table("sources", title, terms))
    headers = ("kind", "name", "checksum or version")
    section.tables.append(ResultTable("inputs", "Inputs", headers, inputs, folded=True))
    return section
