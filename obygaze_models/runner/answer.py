"""A run in sentences: the answer to what was asked. `limits` has what limits it.

Every function here reads the tables and run.json of a finished run, and nothing else. A terminal
and a page show the same sentences.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from obygaze_features.core.console import (
    MISSING,
    count,
    digits_of,
    listed,
    plural,
    signed,
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
from obygaze_models.evaluation.film_tests import FILMS_OF_A_TEST, smallest_shown
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
    film_factor,
    is_about_guessing,
    names_of_difference,
)
from obygaze_models.evaluation.tables import CELL, CHOSEN, RunRow
from obygaze_models.runner.files import Run

DIGITS = 12  # of values that are compared; further ones are the rounding of sums
OF_TWO_CELLS = (*CELL, "against_train", "against_store", "against_model")
MOST_ANSWERS = 6  # sentences on models; the table has all
MOST_DIFFERENCES = 3  # sentences on two models; the table of differences has all
# Whether the first of two is better, as far as a run can tell: a word for tables.
BETTER = "yes"
NOT_SHOWN = "not shown"
WORSE = "no, worse"
UNKNOWN = "–"


# ---- names and numbers ----


def has_levels(run: Run) -> bool:
    """Return whether the clips of a run have levels or concepts."""
    return bool(run.about["manifest"]["has_levels"])


def view_text(run: Run) -> str:
    """Return the view of a run for a text, such as `visual view`; "" where views are the same."""
    return view_words(run.about["manifest"]["view"]) if has_levels(run) else ""


def clips_text(run: Run) -> str:
    """Return how many clips and films a run has, in which view, and what chose them."""
    place = ", ".join(filter(None, (run.about["manifest"]["name"], view_text(run))))
    text = f"{size_text(run)} ({place})"
    where = run.protocol["data"]["where"]
    return f"{text} with {where}" if where else text


def size_text(run: Run, cell: Cell | None = None) -> str:
    """Return the numbers of clips and films of a run, or of a test of it."""
    manifest = run.about["manifest"]
    n_clips = manifest["n_clips"] if cell is None else cell.n_clips
    clips = "1 clip" if n_clips == 1 else f"{n_clips:,} clips"
    if cell is not None and run.has_groups:
        return f"{clips} of {count(cell.n_films, run.unit)}"
    if run.has_films:
        return f"{clips} of {count(manifest['n_films'], 'film')}"
    return clips


def array_text(run: Run) -> str:
    """Return the arrays that were read, such as `array clip`; "" where no store has several."""
    stores = run.about["stores"]
    if all(len(facts.get("arrays", ())) < 2 for facts in stores.values()):
        return ""
    stores_of_array: dict[str, list[str]] = {}
    for name, facts in stores.items():
        if "array" in facts:
            stores_of_array.setdefault(f"array {facts['array']}", []).append(name)
    if len(stores_of_array) == 1:
        return ", ".join(stores_of_array)
    return ", ".join(f"{of} of {listed(own)}" for of, own in stores_of_array.items())


def compared_metric(run: Run) -> str:
    """Return the metric that cells of a run are compared by: AP, or AUC."""
    return run.settings.metric


def joined_stores(run: Run) -> list[str]:
    """Return the names of the stores of joined features."""
    return [name for name, facts in run.about["stores"].items() if "parts" in facts]


def cell_label(cell: Cell, run: Run) -> str:
    """Return the tasks of a cell, and its store if there are several."""
    if len(run.about["stores"]) > 1:
        return f"{cell.tasks}, {cell.store}"
    return cell.tasks


def model_name(run: Run, cell: Cell) -> str:
    """Return the name of a model, with its store where the run has several."""
    if cell.store == CHOSEN:
        return f"{cell.model} (store chosen on training {run.units})"
    if cell.store and len(run.about["stores"]) > 1:
        return f"{cell.model} ({cell.store})"
    return cell.model


def short(value: float, digits: int = 2) -> str:
    """Return a number without the 0 before its point: .71; a dash if it is missing."""
    if not math.isfinite(value):
        return MISSING
    text = signed(value, digits)
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def short_p(p: float) -> str:
    """Return a p for a table: `.025`, `<.001`; a dash if it is missing."""
    return "<.001" if p < 0.0005 else short(p, 3)


def p_words(row: RunRow) -> str:
    """Return the p of a difference in a sentence, with the number of comparisons of its family."""
    p = short_p(row["p"])
    text = f"p {p}" if p.startswith("<") else f"p = {p}"
    if row["comparisons"] > 1:
        text += f" among {int(row['comparisons'])} comparisons"
    return text


def value_text(cell: Cell, metric: str) -> str:
    """Return the value of a metric, with its interval if it has one."""
    return _with_ends(cell.value(metric), *cell.ends(metric))


def difference_text(row: RunRow) -> str:
    """Return a difference with its interval, such as `AP .03 [.01, .05]`."""
    value = _with_ends(row["over_films"], row["low"], row["high"])
    return f"{metric_name(row['metric'])} {value}"


def _with_ends(value: float, low: float, high: float) -> str:
    if math.isnan(low + high):
        return short(value)
    digits = digits_of(low, high)
    return f"{short(value)} [{short(low, digits)}, {short(high, digits)}]"


def number_range(numbers: Sequence[int]) -> int | str:
    """Return a number; where stores lack other clips, the least and the largest."""
    least = min(numbers)
    most = max(numbers)
    return most if least == most else f"{least} to {most}"


def films_with_value(counts: Sequence[tuple[int, int]], unit: str) -> str:
    """Return `3 of 12 films have a value`, or "" if all films that were tested have one.

    Args:
        counts: Of each value, the films behind it and those that were tested.
        unit: What a film is called.
    """
    if all(behind == tested for behind, tested in counts):
        return ""
    behind, tested = map(number_range, zip(*counts, strict=True))
    verb = "has" if behind == 1 else "have"
    return f"{behind} of {tested} {plural(unit)} {verb} a value"


def intervals_are_of(run: Run, cells: Iterable[Cell]) -> str:
    """Return what the intervals of cells are of, by the weakest of them; "" without an interval."""
    bases = []
    for cell in cells:
        if any(map(cell.has_interval, RANKING_METRICS)):
            bases.append(cell.basis)
    if not bases:
        return ""
    return interval_is_of(
        weakest(bases), run.units, is_of_one_model=run.is_of_saved_model
    )


# ---- what is asked ----


def questions_of(run: Run) -> Sequence[AskedQuestion]:
    """Return the differences that the protocol asks for."""
    return run.settings.questions


def questions_of_models(run: Run) -> list[AskedQuestion]:
    """Return the questions of the protocol, but those about models that the run does not train."""
    models = run.protocol["models"]
    left_out = models.keys() - {*(run.protocol["grid"]["models"] or models)}
    return [
        question
        for question in questions_of(run)
        if left_out.isdisjoint((question["first"], question["second"]))
    ]


def differences_for(run: Run, question: AskedQuestion) -> list[RunRow]:
    """Return the differences that a question asks for, with their sides in its order."""
    return [
        as_asked(question, row)
        for row in run.differences
        if row["against_train"] == row["train"] and asks_for(question, row)
    ]


def first_question(run: Run) -> AskedQuestion | None:
    """Return the first question of the protocol that this run answers; None without one.

    A page has its text as heading, and the answer is its answer. One about a baseline without video
    is answered by any model beside the best guess, others by a difference.
    """
    for question in questions_of(run):
        if is_about_guessing(question) or differences_for(run, question):
            return question
    return None


def asked_cells(run: Run) -> list[Cell]:
    """Return the models that a run asks about, each on each store, in the order typed."""
    return results.cells_asked_about(run.cells, run.settings)


def asked_cell(run: Run) -> Cell | None:
    """Return the first model that a run asks about; None without a model."""
    return next(iter(asked_cells(run)), None)


def chosen_cells(run: Run) -> list[Cell]:
    """Return these models on the store that training films choose, where they do."""
    asked = {(cell.pair, cell.model) for cell in asked_cells(run)}
    return [
        cell
        for cell in run.models
        if cell.store == CHOSEN and (cell.pair, cell.model) in asked
    ]


def asked_differences(run: Run) -> list[RunRow]:
    """Return the differences of two models that a run asks for, those of questions first.

    Those to the store that training films choose are asked for where a question names it.
    """
    names = {cell.name for cell in asked_cells(run)}
    found: dict[tuple[str, ...], RunRow] = {}
    for question in questions_of(run):
        if not is_about_guessing(question):
            for row in differences_for(run, question):
                found.setdefault(_name_of_difference(row), row)
    for row in run.differences:
        first, second = names_of_difference(row)
        is_known = _name_of_difference(row) in found
        if {first, second} <= names and first[0] == second[0] and not is_known:
            found[_name_of_difference(row)] = row
    return [*found.values()]


def _name_of_difference(row: RunRow) -> tuple[str, ...]:
    """Return a name that does not depend on the order of the sides."""
    first, second = sorted(names_of_difference(row))
    return (*first, *second)


def best_guess(run: Run, cell: Cell, metric: str) -> Cell | None:
    """Return the best baseline that sees no video, on the tasks and clips of a cell.

    A baseline that did not test all of these clips is left out.
    """
    guesses = []
    for guess in _on_clips_of(cell, run):
        is_of_store = guess.store in ("", cell.store)
        is_blind = guess.model in BLIND and not guess.is_model
        if is_blind and is_of_store and math.isfinite(guess.value(metric)):
            guesses.append(guess)

    def rounded_goodness(guess: Cell) -> float:
        # Of baselines that differ by the rounding of sums, the first is taken.
        return round(goodness(metric, guess.value(metric)), DIGITS)

    return max(guesses, key=rounded_goodness, default=None)


def _on_clips_of(cell: Cell, run: Run) -> Iterator[Cell]:
    """Yield the cells of the same tasks that tested all clips of a cell, on these clips."""
    for other in run.cells:
        if other.pair == cell.pair:
            shared = on_shared_clips([cell, other])
            if not shared.problem and shared.n_clips == cell.n_clips:
                yield shared.cells[1]


# ---- verdicts ----


def difference_row(run: Run, first: Cell, second: Cell) -> RunRow | None:
    """Return the row with the difference of two cells of one test task; None without one."""
    wanted = [*first.name, second.train, second.store, second.model]
    for row in run.differences:
        if [row[column] for column in OF_TWO_CELLS] == wanted:
            return row
    return None


def difference_to_guess(run: Run, model: Cell, guess: Cell) -> RunRow | None:
    """Return the difference of a model and the best guess.

    Where other guesses stand beside it, it has the largest of their p.
    """
    row = difference_row(run, model, guess)
    if row is None:
        return None
    p_values = [row["p"]]
    for other in run.differences:
        first, second = names_of_difference(other)
        if first == model.name and second[3] in BLIND:
            p_values.append(other["p"])
    known = [p for p in p_values if math.isfinite(p)]
    return {**row, "p": max(known, default=math.nan)}


def verdict(row: RunRow | None) -> str:
    """Return whether the first side of a difference is better, as far as a run can tell.

    Without a p nothing is known, and where test clips leaked nothing follows.
    """
    if row is not None and row.get("basis") == LEAKED:
        return LEAKED
    if row is None or math.isnan(row["p"]):
        return UNKNOWN
    if row["p"] > ALPHA:
        return NOT_SHOWN
    return BETTER if row["over_films"] > 0 else WORSE


class FilmsAbove(NamedTuple):
    """In how many films a value is higher than another, or equal, of those that have both."""

    n_above: int
    n_equal: int
    n_films: int

    def text(self, of_films: str = "") -> str:
        """Return `1 of 9 (equal in 3)`, with words in place of the number of films if wanted.

        Of no films it is a dash.
        """
        if not self.n_films:
            return MISSING
        equal = f" (equal in {self.n_equal})" if self.n_equal else ""
        return f"{self.n_above} of {of_films or self.n_films}{equal}"


def films_above(first: Cell, second: Cell, metric: str) -> FilmsAbove:
    """Return in how many films the first is better, as p counts it (`film_differences`).

    Both cells are of the same clips (`on_shared_clips`).
    """
    if not first.n_films or metric not in RANKING_METRICS:
        return FilmsAbove(0, 0, 0)
    differences = results.film_differences(first, second, metric).values()
    n_above = sum(difference > ROUNDING for difference in differences)
    n_equal = sum(abs(difference) <= ROUNDING for difference in differences)
    return FilmsAbove(n_above, n_equal, len(differences))


# ---- the answer ----


def answers(run: Run) -> list[str]:
    """Return the sentences that answer what was asked.

    There is one for each model and store, in the order typed, and for the store that training films
    choose; one for each two of them; the gain of joined features; and, where nothing is shown, how
    large a difference would have to be.
    """
    asked = asked_cells(run)
    sentences = [sentence_of(run, cell) for cell in asked[:MOST_ANSWERS]]
    if len(asked) > MOST_ANSWERS:
        sentences.append(f"All {len(asked)} are in the table below.")
    sentences += [sentence_of(run, cell) for cell in chosen_cells(run)[:MOST_ANSWERS]]
    gain = gain_of(run)
    differences = []
    for row in asked_differences(run):
        # The gain of joined features has a sentence of its own.
        is_gain = gain is not None and gain.stores == {
            row["store"],
            row["against_store"],
        }
        if not is_gain:
            differences.append(row)
    sentences += [_sentence_on_two(run, row) for row in differences[:MOST_DIFFERENCES]]
    if len(differences) > MOST_DIFFERENCES:
        sentences.append(
            f"All {len(differences)} differences are in the table Differences of the report."
        )
    if gain is not None:
        sentences.append(gain.sentence)
    sentences += _power(run, asked)
    return sentences


def sentence_of(run: Run, cell: Cell) -> str:
    """Return how well a model ranks clips, beside the best guess without video."""
    metric = compared_metric(run)
    model = model_name(run, cell)
    if not cell.is_ranked(metric):
        return ranks_nothing(model, cell)
    where = f"On {tested_on(cell.basis, run.units)}"
    if cell.basis == FILM_SEEN and not cell.leaked and cell.same_film < cell.n_clips:
        clips = count(cell.n_clips, "clip")
        where = f"On {clips}, {cell.same_film} of them of {run.units} that trained"
    value = f"{metric_name(metric)} {value_text(cell, metric)}"
    guess = best_guess(run, cell, metric)
    if guess is None:
        return f"{where}, {model} ranks clips ({cell.tasks}) with {value}."
    guessed = f"guessing without video has {short(guess.value(metric))} ({guess.model})"
    row = difference_to_guess(run, cell, guess)
    found = verdict(row)
    ranks = {
        BETTER: f"ranks clips ({cell.tasks}) better than guessing: {value}",
        NOT_SHOWN: f"is not shown to rank clips ({cell.tasks}) better than guessing: {value}",
    }
    text = ranks.get(found, f"ranks clips ({cell.tasks}) with {value}")
    text = f"{where}, {model} {text}; {guessed}"
    if row is not None and LEAKED not in (cell.basis, guess.basis):
        text += _films_and_p(run, cell, guess, row)
    return f"{text}."


def ranks_nothing(model: str, cell: Cell) -> str:
    """Return a sentence on a cell without folds in which clips can be ranked."""
    return (
        f"{model} ranks no clips ({cell.tasks}): no fold tests clips of both classes."
    )


def _films_and_p(run: Run, first: Cell, second: Cell, row: RunRow) -> str:
    """Return in how many films the first is better, and the p of it."""
    films = films_above(first, second, row["metric"])
    if films.n_films < 2:
        return ""
    of_films = f"{films.n_films} {run.units}"
    if films.n_films < first.n_films:
        of_films += " that have clips of both classes"
    text = f"; higher in {films.text(of_films)}"
    if math.isfinite(row["p"]):
        return f"{text}, {p_words(row)}"
    if films.n_films < FILMS_OF_A_TEST:
        text += f", which are too few to tell ({FILMS_OF_A_TEST} are needed)"
    return text


def _sentence_on_two(run: Run, row: RunRow) -> str:
    """Return whether one of two models is better, with their difference."""
    by_name = {cell.name: cell for cell in run.cells}
    first, second = (by_name[name] for name in names_of_difference(row))
    found = verdict(row)
    if found == WORSE:
        first, second = second, first
        row = {**row, "over_films": -row["over_films"]}
        row |= {"low": -row["high"], "high": -row["low"]}
    names = (model_name(run, first), model_name(run, second))
    where = first.tasks
    if first.store == second.store:
        names = (first.model, second.model)
        where = cell_label(first, run)
    text = f"{names[0]} minus {names[1]} ({where}) is {difference_text(row)}"
    if found == LEAKED:
        return f"{text} on {tested_on(LEAKED, run.units)}."
    if found in (BETTER, WORSE):
        text = f"{names[0]} is better than {names[1]}: {text}"
    elif found == NOT_SHOWN:
        text = f"{names[0]} and {names[1]} are not shown to differ: {text}"
    shared = on_shared_clips([first, second])
    if not shared.problem:
        ours, theirs = shared.cells
        text += _films_and_p(run, ours, theirs, row)
    return f"{text}."


def _power(run: Run, asked: Sequence[Cell]) -> Iterator[str]:
    """Yield how large a difference must be to be shown, where one is not shown."""
    not_shown = []
    for cell in asked:
        guess = best_guess(run, cell, compared_metric(run))
        row = None if guess is None else difference_to_guess(run, cell, guess)
        if guess is not None and verdict(row) == NOT_SHOWN and cell.basis == UNSEEN:
            films = films_above(cell, guess, compared_metric(run)).n_films
            not_shown.append((films, film_factor(cell, guess, films)))
    if not_shown:
        n_films, factor = min(not_shown)
        to_guess = short(smallest_shown(n_films, factor, greater=True), 1)
        of_two = short(smallest_shown(n_films, factor, greater=False), 1)
        yield (
            f"With {n_films} {run.units}, only a difference {to_guess} times as large as its spread"
            f" over {run.units} can be shown ({of_two} between two models): this run cannot tell"
            " a smaller one from chance."
        )


@dataclass(frozen=True)
class Gain:
    """What joined features say more than the best single store, which training films choose.

    Attributes:
        joined: The cell of the joined store.
        chosen: The cell of the store that training films choose.
        parts: The cells of the stores that are joined, as far as the run has them.
        row: The difference of the first two.
        units: What chooses: training films, or groups of them.
    """

    joined: Cell
    chosen: Cell
    parts: Sequence[Cell]
    row: RunRow
    units: str

    @property
    def stores(self) -> set[str]:
        """The stores that the gain compares."""
        return {self.joined.store, self.chosen.store}

    @property
    def sentence(self) -> str:
        """Return the gain, and what it means as far as its interval says so."""
        name = self.joined.model
        names = listed([cell.store for cell in self.parts])
        meaning = f"{names} together say more than the best store alone"
        # The store that training films choose is in no family, so that it has no p.
        if not self.row["low"] > 0:
            meaning = f"this run does not show that {meaning}"
        return (
            f"The gain of {name} on {self.joined.store} over {name} on the store that training"
            f" {self.units} choose is {difference_text(self.row)}: {meaning}."
        )


def gain_of(run: Run) -> Gain | None:
    """Return the gain of the joined store that the answer is about; None without one."""
    joins = joined_stores(run)
    asked = [cell for cell in asked_cells(run) if cell.store in joins]
    if not asked:
        return None
    joined = asked[0]
    names = set(run.about["stores"][joined.store]["parts"]).difference(joins)
    chosen = None
    parts = []
    for cell in run.cells:
        if cell.pair == joined.pair and cell.model == joined.model:
            if cell.store == CHOSEN:
                chosen = cell
            elif cell.store in names:
                parts.append(cell)
    if chosen is None or not parts:
        return None
    row = difference_row(run, joined, chosen)
    if row is None:
        return None
    return Gain(joined, chosen, parts, row, run.units)


# ---- beside the answer ----


def higher_than_asked(run: Run) -> Cell | None:
    """Return the model with the highest value on the clips of an answer, if it is another one.

    It was trained for the same task, and none of its clips leaked.
    """
    asked = asked_cells(run)
    if not asked:
        return None
    metric = compared_metric(run)
    best = asked[0]
    for cell in _on_clips_of(asked[0], run):
        is_higher = cell.value(metric) > best.value(metric)
        if cell.is_model and cell.basis != LEAKED and is_higher:
            best = cell
    names = {cell.name for cell in asked}
    return None if best.name in names else best
