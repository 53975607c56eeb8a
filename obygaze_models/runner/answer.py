"""Describe the results of a run in sentences. `limits` has the limits of the results.

All functions read only the tables and run.json of a finished run. The terminal and the page show
the same sentences.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from obygaze_features.core.console import (
    MISSING,
    count,
    count_decimals,
    few,
    interval_end,
    join_names,
    plural,
)
from obygaze_features.manifest.model import view_words
from obygaze_models.evaluation import results
from obygaze_models.evaluation.basis import (
    FILM_SEEN,
    LEAKED,
    UNSEEN,
    interval_is_of,
    tested_on,
    weakest,
)
from obygaze_models.evaluation.cells import Cell, on_shared_clips
from obygaze_models.evaluation.film_tests import FILMS_OF_A_TEST
from obygaze_models.evaluation.group_tests import ALPHA
from obygaze_models.evaluation.metrics import (
    RANKING_METRICS,
    goodness,
    metric_name,
)
from obygaze_models.evaluation.predictions import ROUNDING
from obygaze_models.evaluation.results import (
    BLIND,
    AskedQuestion,
    as_asked,
    asks_for,
    exchanged,
    film_differences,
    is_about_baselines,
    names_of_difference,
)
from obygaze_models.evaluation.tables import CHOSEN, RunRow
from obygaze_models.runner.files import Run

DIGITS = 12  # values are compared after rounding to this many decimals
MOST_NAMES = 4  # names of results without a sentence
MOST_ANSWERS = 6  # sentences; the tables have all results
# So many sentences on questions about two models are shown, even if many models are requested.
MOST_QUESTIONS = 2
NOT_ASKED = "all models and stores of this run"
# The words of tables for whether the first of two models is better.
BETTER = "yes"
NOT_SHOWN = "not shown"
WORSE = "no, worse"
UNKNOWN = "–"
# The explanation of a baseline, shown where the answers name it first.
MEANING_OF_BASELINE = {
    "film_prior": "the share of positive training clips in the same film",
    "neighbour": "the classes of the nearest training clips in the same film",
}


# ---- names and numbers ----


def has_levels(run: Run) -> bool:
    """Return whether the clips of a run have levels or concepts."""
    return bool(run.about["manifest"]["has_levels"])


def view_text(run: Run) -> str:
    """Return the view of a run, such as `visual view`, or "" for clips without levels."""
    return view_words(run.about["manifest"]["view"]) if has_levels(run) else ""


def clips_text(run: Run) -> str:
    """Return the numbers of clips and films of a run, its manifest, its view, and data.where."""
    manifest = run.about["manifest"]
    n_clips = manifest["n_clips"]
    text = "1 clip" if n_clips == 1 else f"{n_clips:,} clips"
    if run.has_films:
        text += f" of {count(manifest['n_films'], 'film')}"
    words = [text, f"manifest {manifest['name']}", view_text(run)]
    where = run.protocol["data"]["where"]
    words.append(where and f"only {where}")
    return ", ".join(filter(None, words))


def array_text(run: Run) -> str:
    """Return the arrays that were read, such as `array clip`.

    Return "" if no store has several arrays.
    """
    stores = run.about["stores"]
    if all(len(facts.get("arrays", ())) < 2 for facts in stores.values()):
        return ""
    arrays = {
        name: facts["array"] for name, facts in stores.items() if "array" in facts
    }
    if len({*arrays.values()}) == 1:
        return f"array {next(iter(arrays.values()))}"
    return ", ".join(f"array {array} of {name}" for name, array in arrays.items())


def compared_metric(run: Run) -> str:
    """Return the metric by which models of a run are compared: AP or AUC."""
    return run.settings.metric


def shown_metrics(run: Run) -> list[str]:
    """Return the metrics of tables. The first is the one that the sentences are about."""
    report = run.protocol["report"]
    metrics = (compared_metric(run), report["primary"], *report["metrics"])
    return [*dict.fromkeys(metrics)]


def model_name(run: Run, cell: Cell) -> str:
    """Return the name of a model, with its store if the run has several stores."""
    if cell.store == CHOSEN:
        return f"{cell.model} (store chosen on training {run.units})"
    if cell.store and len(run.about["stores"]) > 1:
        return f"{cell.model} ({cell.store})"
    return cell.model


def short(value: float, digits: int = 2) -> str:
    """Return a number without its leading 0, such as .71, or a dash if it is not finite."""
    if not math.isfinite(value):
        return MISSING
    text = interval_end(value, digits)
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def short_p(p: float) -> str:
    """Return the text of a p, such as `.025` or `<.001`, or a dash if p is NaN.

    A p next to .05 has so many decimals that the text shows on which side it is.
    """
    return "<.001" if p < 0.0005 else short(p, max(3, count_decimals(ALPHA, p)))


def with_ends(value: float, low: float, high: float) -> str:
    """Return a number, with its interval if there is one: .71 [.60, .80]."""
    if math.isnan(low + high):
        return short(value)
    digits = count_decimals(low, high)
    return f"{short(value)} [{short(low, digits)}, {short(high, digits)}]"


def value_text(cell: Cell, metric: str) -> str:
    """Return the value of a metric, with its interval if there is one."""
    return with_ends(cell.value(metric), *cell.ends(metric))


def number_range(numbers: Sequence[int]) -> int | str:
    """Return a number, or the smallest and the largest if the numbers differ."""
    least = min(numbers)
    most = max(numbers)
    return most if least == most else f"{least} to {most}"


def films_with_value(counts: Sequence[tuple[int, int]], unit: str) -> str:
    """Return a text such as `there is a value for 3 of 12 films`, or "" if all films have a value.

    Args:
        counts: For each result, the number of films with a value and the number of tested films.
        unit: The name of a resampling group, such as `film`.
    """
    if all(behind == tested for behind, tested in counts):
        return ""
    behind, tested = map(number_range, zip(*counts, strict=True))
    return f"there is a value for {behind} of {tested} {plural(unit)}"


def intervals_hold_for(run: Run, cells: Iterable[Cell]) -> str:
    """Return what the intervals of all cells hold for, or "" if no cell has an interval."""
    bases = [
        cell.basis for cell in cells if any(map(cell.has_interval, RANKING_METRICS))
    ]
    if not bases:
        return ""
    return interval_is_of(
        weakest(bases), run.units, is_of_one_model=run.is_of_saved_model
    )


# ---- what is requested ----


def answered_question(run: Run) -> AskedQuestion | None:
    """Return the first question of the protocol that this run answers, or None.

    Every run answers a question about a baseline. A question about two models is answered only if
    the run has the difference of these models.
    """
    for question in run.settings.questions:
        if is_about_baselines(question) or any(
            asks_for(question, row) for row in run.differences
        ):
            return question
    return None


def requested_cells(run: Run) -> list[Cell]:
    """Return the cells of the requested models, one for each store and requested pair of tasks.

    Models are in the order of `grid.models`, and stores in the order of the command. The store
    chosen on training films is not included.
    """
    return results.select_requested_cells(run.cells, run.settings)


def chosen_cells(run: Run) -> list[Cell]:
    """Return the cells of the requested models on the store that is chosen on training films.

    Return [] if the run does not choose a store.
    """
    asked = {(cell.pair, cell.model) for cell in requested_cells(run)}
    chosen = [cell for cell in run.models if cell.store == CHOSEN]
    return [cell for cell in chosen if (cell.pair, cell.model) in asked]


def requested_differences(run: Run) -> list[tuple[str, RunRow]]:
    """Return the requested differences of two models, each with the text of its question.

    Differences that a question requests come first, with their sides in the order of the question.
    They are followed by the differences between two requested cells with the same training task,
    and between joined features and the store that is chosen on training films. The text of these
    differences is `NOT_ASKED`.
    """
    found: dict[frozenset[results.CellName], tuple[str, RunRow]] = {}
    for question in run.settings.questions:
        if is_about_baselines(question):
            continue
        text = question["text"] or f"{question['first']} against {question['second']}"
        for row in run.differences:
            if row["against_train"] == row["train"] and asks_for(question, row):
                names = frozenset(names_of_difference(row))
                found.setdefault(names, (text, as_asked(question, row)))
    asked = {cell.name for cell in requested_cells(run)}
    for row in run.differences:
        first, second = names_of_difference(row)
        is_asked = {first, second} <= asked and first[0] == second[0]
        is_of_chosen = second[2] == CHOSEN and second[3] == first[3]
        if is_asked or (is_of_chosen and first in asked and list_parts(run, first[2])):
            found.setdefault(frozenset((first, second)), (NOT_ASKED, row))
    return [*found.values()]


def list_parts(run: Run, store: str) -> list[str]:
    """Return the parts of joined features that are also stores of the run, in the run's order."""
    stores = run.about["stores"]
    parts = stores.get(store, {}).get("parts", ())
    return [name for name in stores if name in parts]


def best_baseline(run: Run, cell: Cell, metric: str) -> Cell | None:
    """Return the best baseline without video on the tasks and clips of a cell, or None.

    Baselines that were not tested on all clips of the cell are excluded.
    """
    baselines = []
    for baseline in _cells_on_clips(cell, run):
        is_blind = baseline.model in BLIND and baseline.store in ("", cell.store)
        if is_blind and not baseline.is_model and math.isfinite(baseline.value(metric)):
            baselines.append(baseline)

    def rounded_goodness(baseline: Cell) -> float:
        # Baselines that differ only by rounding are equal; the first is taken.
        return round(goodness(metric, baseline.value(metric)), DIGITS)

    return max(baselines, key=rounded_goodness, default=None)


def _cells_on_clips(cell: Cell, run: Run) -> Iterator[Cell]:
    """Yield each cell with the tasks of `cell` that tested all clips of `cell`, on these clips."""
    for other in run.cells:
        if other.pair == cell.pair:
            shared = on_shared_clips([cell, other])
            if not shared.problem and shared.n_clips == cell.n_clips:
                yield shared.cells[1]


# ---- verdicts ----


def difference_from_baseline(run: Run, model: Cell, baseline: Cell) -> RunRow | None:
    """Return the difference of a model and the best baseline, or None if the run does not have it.

    Its p is the largest p of all differences between the model and a baseline without video. A
    difference without a p keeps none.
    """
    found = None
    p_values = []
    for row in run.differences:
        first, second = names_of_difference(row)
        if first == model.name and second[3] in BLIND:
            p_values.append(row["p"])
            if second == baseline.name:
                found = row
    if found is None:
        return None
    if math.isnan(found["p"]):
        return found
    return {**found, "p": max(p for p in p_values if math.isfinite(p))}


def verdict(row: RunRow | None, n_films: int = 0) -> str:
    """Return the word for whether the first side of a difference is better.

    The p of the difference decides. If a side uses the store that is chosen on training films,
    there is no p, and the interval decides. Return `UNKNOWN` if there is neither p nor interval.
    Return `LEAKED` if test clips leaked.

    Args:
        row: The difference. None: unknown.
        n_films: The number of films that have a difference. With fewer than `FILMS_OF_A_TEST`, an
            interval does not decide.
    """
    if row is None:
        return UNKNOWN
    if row.get("basis") == LEAKED:
        return LEAKED
    is_of_chosen = CHOSEN in (row.get("store"), row.get("against_store"))
    if is_of_chosen and n_films >= FILMS_OF_A_TEST and math.isfinite(row["low"]):
        if row["low"] > 0:
            return BETTER
        return WORSE if row["high"] < 0 else NOT_SHOWN
    if math.isnan(row["p"]):
        return UNKNOWN
    if row["p"] > ALPHA:
        return NOT_SHOWN
    return BETTER if row["over_films"] > 0 else WORSE


class FilmsAbove(NamedTuple):
    """Numbers of films for two cells: where the first is higher, where they are equal, and all."""

    n_above: int
    n_equal: int
    n_films: int

    def text(self, of_films: str = "") -> str:
        """Return `1 of 9 (equal in 3)`, or a dash without films.

        Args:
            of_films: Words in place of the total number of films. Empty: the number.
        """
        if not self.n_films:
            return MISSING
        equal = f" (equal in {self.n_equal})" if self.n_equal else ""
        return f"{self.n_above} of {of_films or self.n_films}{equal}"


def films_above(first: Cell, second: Cell, metric: str) -> FilmsAbove:
    """Return in how many films the first cell is better, on the clips that both cells tested.

    The difference in a film is the difference that p tests. All numbers are 0 without films,
    without common clips, or for a metric that is not a ranking metric.
    """
    shared = on_shared_clips([first, second])
    if shared.problem or not first.n_films or metric not in RANKING_METRICS:
        return FilmsAbove(0, 0, 0)
    ours, theirs = shared.cells
    differences = film_differences(ours, theirs, metric).values()
    n_above = sum(difference > ROUNDING for difference in differences)
    n_equal = sum(abs(difference) <= ROUNDING for difference in differences)
    return FilmsAbove(n_above, n_equal, len(differences))


# ---- the answer ----


def answers(run: Run) -> list[str]:
    """Return at most six sentences that answer the questions, and the names of other results.

    There is a sentence for each requested model on each store, then for each model on the store
    that is chosen on training films, then for each requested difference of two models. If the first
    question of the protocol is about two models, sentences on questions about two models come
    first.
    """
    cells = [*requested_cells(run), *chosen_cells(run)]
    differences = [*requested_differences(run)]
    of_questions = [row for text, row in differences if text != NOT_ASKED]
    n_of_one = min(len(cells), MOST_ANSWERS - len(of_questions[:MOST_QUESTIONS]))
    of_one = _explained_once([describe_cell(run, cell) for cell in cells[:n_of_one]])
    n_of_two = MOST_ANSWERS - n_of_one
    of_two = [_sentence_on_two(run, row) for _, row in differences[:n_of_two]]
    n_first = 0
    question = answered_question(run)
    if question is not None and not is_about_baselines(question):
        n_first = len(of_questions[:MOST_QUESTIONS])
    sentences = [*of_two[:n_first], *of_one, *of_two[n_first:]]
    others = [_name_with_tasks(run, cell) for cell in cells[n_of_one:]]
    shown = []
    for _, row in differences[n_of_two:]:
        first, second = _find_sides(run, row)
        name = f"{model_name(run, first)} minus {_name_with_tasks(run, second)}"
        n_films = films_above(first, second, row["metric"]).n_films
        if verdict(row, n_films) in (BETTER, WORSE):
            shown.append(f"{name} (shown to differ, {_shown_p(row)})")
        else:
            others.append(name)
    if shown or others:
        named = few([*shown, *others], MOST_NAMES)
        sentences.append(f"Also in the tables of the report: {named}.")
    asked = {cell.name for cell in cells}
    not_asked = []
    for cell in run.models:
        if cell.store != CHOSEN and cell.name not in asked:
            not_asked.append(_name_with_tasks(run, cell))
    if not_asked:
        sentences.append(
            "No p against a baseline, because report.questions does not request it:"
            f" {few(not_asked, MOST_NAMES)}."
        )
    return sentences


def about_p(run: Run) -> str:
    """Return how the p of the answers are computed, or "" if no difference has a p."""
    if all(math.isnan(row["p"]) for row in run.differences):
        return ""
    return (
        f"p is from Student's t test of the mean difference over {run.units} (one-sided against a"
        f" baseline, two-sided between two models); t is reduced if test {run.units} also trained"
        f" the models that test other {run.units}. {about_difference(run)}"
    )


def about_difference(run: Run) -> str:
    """Return how the difference of a model and a baseline is computed in a film."""
    return (
        f"If a baseline gives all clips of a {run.unit} the same score, the difference in this"
        f" {run.unit} is half of the difference between the model's order and its reversed order;"
        f" {run.units} are counted by this half."
    )


def _name_with_tasks(run: Run, cell: Cell) -> str:
    return f"{model_name(run, cell)} in {cell.tasks}"


def _explained_once(sentences: Sequence[str]) -> list[str]:
    """Return the sentences with an explanation of each baseline only where it is named first."""
    explained: set[str] = set()
    shown = []
    for sentence in sentences:
        for baseline, meaning in MEANING_OF_BASELINE.items():
            words = f"({baseline}: {meaning})"
            if words in sentence and baseline in explained:
                sentence = sentence.replace(words, f"({baseline})")
            elif words in sentence:
                explained.add(baseline)
        shown.append(sentence)
    return shown


def describe_cell(run: Run, cell: Cell) -> str:
    """Return the sentence on how well a model and the best baseline without video rank clips."""
    metric = compared_metric(run)
    model = model_name(run, cell)
    if not cell.is_ranked(metric):
        text = f"{model} ranks no clips ({cell.tasks}): no fold tests clips of both classes."
        splits = run.protocol["splits"]
        is_by_unit = splits["kind"] == "nested" and not splits["folds"]
        if is_by_unit and cell.rows["fold"].nunique() > 3:
            text += (
                f" Each fold tests one {run.unit}; --set splits.folds=3 tests {run.units} in three"
                " folds."
            )
        return text
    where = f"On {tested_on(cell.basis, run.units)}"
    if cell.basis == FILM_SEEN and cell.same_film < cell.n_clips:
        clips = count(cell.n_clips, "clip")
        where = f"On {clips}, {cell.same_film} of them from training {run.units}"
        if cell.leaked:
            where += f" and {cell.leaked} of them copies of training clips"
    value = f"{metric_name(metric)} {value_text(cell, metric)}"
    baseline = best_baseline(run, cell, metric)
    if baseline is None:
        return f"{where}, {model} ranks clips ({cell.tasks}) with {value}."
    row = difference_from_baseline(run, cell, baseline)
    found = verdict(row, films_above(cell, baseline, metric).n_films)
    p = "" if row is None else _p_text(row)
    ranks = {
        BETTER: f"ranks clips ({cell.tasks}) better than the best baseline{p}: {value}",
        NOT_SHOWN: (
            f"is not shown to rank clips ({cell.tasks}) better than the best baseline{p}: {value}"
        ),
    }
    text = ranks.get(found, f"ranks clips ({cell.tasks}) with {value}")
    meaning = MEANING_OF_BASELINE.get(baseline.model, "")
    named = f"{baseline.model}: {meaning}" if meaning else baseline.model
    text += f"; the best baseline without video has {short(baseline.value(metric))} ({named})"
    if row is not None and LEAKED not in (cell.basis, baseline.basis):
        if math.isnan(row["p"]) and math.isfinite(row["low"]):
            apart = with_ends(row["over_films"], row["low"], row["high"])
            what = "difference"
            if row["basis"] == UNSEEN:
                what = f"mean difference within {run.units}"
            text += f"; the {what} is {apart}"
        text += _films_text(run, cell, baseline, row, model)
    return f"{where}, {model} {text}."


def _find_sides(run: Run, row: RunRow) -> tuple[Cell, Cell]:
    """Return the two cells of a difference."""
    by_name = {cell.name: cell for cell in run.cells}
    first, second = names_of_difference(row)
    return by_name[first], by_name[second]


def _sentence_on_two(run: Run, row: RunRow) -> str:
    """Return the sentence on the difference of two models, and on whether one is better."""
    first, second = _find_sides(run, row)
    found = verdict(row, films_above(first, second, row["metric"]).n_films)
    parts = [] if second.store != CHOSEN else list_parts(run, first.store)
    if found == WORSE and not parts:
        first, second = second, first
        row = exchanged(row)
    ours, theirs = model_name(run, first), model_name(run, second)
    apart = with_ends(row["over_films"], row["low"], row["high"])
    text = (
        f"{ours} minus {theirs} ({first.tasks}) is {metric_name(row['metric'])} {apart}"
    )
    if found == LEAKED:
        return f"{text} on {tested_on(LEAKED, run.units)}."
    text += _films_text(run, first, second, row, ours)
    if parts:
        chosen = f"one store chosen on training {run.units}"
        more = f"{join_names(parts)} together are better than {chosen}"
        if found != BETTER:
            more = f"This run does not show that {more}"
        return f"{more}: {text}."
    p = _p_text(row)
    if found in (BETTER, WORSE):
        return f"{ours} is better than {theirs}{p}: {text}."
    if found == NOT_SHOWN:
        return f"{ours} and {theirs} are not shown to differ{p}: {text}."
    return f"{text}."


def _p_text(row: RunRow) -> str:
    """Return the p of a difference, and for how many comparisons it is corrected."""
    if CHOSEN in (row["store"], row["against_store"]):
        return ", by the interval of the difference (it has no p)"
    text = f", {_shown_p(row)}"
    if row["comparisons"] > 1:
        text += f" (corrected for {int(row['comparisons'])} comparisons)"
    return text


def _shown_p(row: RunRow) -> str:
    p = short_p(row["p"])
    return ("p " if p.startswith("<") else "p = ") + p


def _films_text(run: Run, first: Cell, second: Cell, row: RunRow, name: str) -> str:
    """Return in how many films the first cell, called `name`, is higher, and why p may be missing.

    Return "" with fewer than two films.
    """
    films = films_above(first, second, row["metric"])
    if films.n_films < 2:
        return ""
    of_films = f"{films.n_films} {run.units}"
    if films.n_films < first.n_films:
        of_films += " that have clips of both classes"
    text = f"; {name} is higher in {films.text(of_films)}"
    if films.n_films < FILMS_OF_A_TEST:
        text += f"; there is no p, because a test needs {FILMS_OF_A_TEST} {run.units}"
    return text
