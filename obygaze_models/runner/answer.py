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
from obygaze_models.evaluation.basis import (
    FILM_SEEN,
    LEAKED,
    interval_is_of,
    tested_on,
    weakest,
)
from obygaze_models.evaluation.cells import Cell, on_shared_clips
from obygaze_models.evaluation.group_tests import ALPHA
from obygaze_models.evaluation.metrics import (
    AP,
    RANKING_METRICS,
    goodness,
    metric_name,
)
from obygaze_models.evaluation.predictions import ROUNDING
from obygaze_models.evaluation.results import BLIND, AskedQuestion, as_asked, asks_for
from obygaze_models.evaluation.tables import CELL, RunRow
from obygaze_models.runner.features import CHOSEN
from obygaze_models.runner.files import Run

DIGITS = 12  # of values that are compared; further ones are the rounding of sums
OF_TWO_CELLS = (*CELL, "against_train", "against_store", "against_model")
MARGIN = 0.02  # a model that is better than a baseline by less than this is warned of
MOST_ANSWERS = 3  # differences that answer the first question; a page has all
# Whether the first of two is better, as far as a run can tell: a word for tables.
BETTER = "yes"
PERHAPS_BETTER = "not certain"
NOT_SHOWN = "not shown"
PERHAPS_WORSE = "no, perhaps worse"
WORSE = "no, worse"
UNKNOWN = "–"


# The beginning of a sentence, and where the interval is.
WORDS = {
    BETTER: ("{first} is better than {second}", "is above 0"),
    PERHAPS_BETTER: (
        "{first} may be better than {second}, or better by chance",
        "is above 0",
    ),
    NOT_SHOWN: (
        "This run does not show that {first} is better than {second}",
        "holds 0",
    ),
    PERHAPS_WORSE: ("{first} may be worse than {second}", "is below 0"),
    WORSE: ("{first} is worse than {second}", "is below 0"),
    LEAKED: ("", ""),
    UNKNOWN: ("", ""),
}


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
        return f"{cell.model} on the store that training {run.units} choose"
    if cell.store and len(run.about["stores"]) > 1:
        return f"{cell.model} on {cell.store}"
    return cell.model


def short(value: float, digits: int = 2) -> str:
    """Return a number without the 0 before its point: .71; a dash if it is missing."""
    if not math.isfinite(value):
        return MISSING
    text = signed(value, digits)
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def value_text(cell: Cell, metric: str) -> str:
    """Return the value of a metric, with its interval if it has one."""
    return _with_ends(cell.value(metric), *cell.ends(metric))


def difference_text(row: RunRow) -> str:
    """Return a difference with its interval, such as `AP .03 [.01, .05]`."""
    value = _with_ends(row["value"], row["low"], row["high"])
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


def is_about_guessing(question: AskedQuestion) -> bool:
    """Return whether a question compares a model with a baseline that sees no video."""
    return question["first"] in BLIND or question["second"] in BLIND


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


def asked_cell(run: Run) -> Cell | None:
    """Return the cell that the answer is about; None without a model.

    It is a model of the first question that the run answers, else of the first question, else the
    first model. It is that on the first store (or the store that training films chose), trained and
    tested on one task if there is such a cell. It is never picked by its result.
    """
    models = run.models
    question = first_question(run) or next(iter(questions_of(run)), None)
    if question is not None:
        firsts = [cell for cell in models if _is_asked(cell, question, "first")]
        seconds = [cell for cell in models if _is_asked(cell, question, "second")]
        models = firsts or seconds or models
    models.sort(key=lambda cell: (cell.store != CHOSEN, cell.train != cell.test))
    return models[0] if models else None


def _is_asked(cell: Cell, question: AskedQuestion, side: str) -> bool:
    keys = ("train", "test", f"{side}_store", side)
    pairs = zip(keys, cell.name, strict=True)
    return all(question[key] in ("", name) for key, name in pairs)


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
    """Return the difference of a model and a guess; its `p_all` is among all of this family."""
    row = difference_row(run, model, guess)
    return None if row is None else {**row, "p_all": row["p_guesses"]}


def verdict(row: RunRow | None) -> str:
    """Return whether the first side of a difference is better, as far as a run can tell.

    A difference whose interval is on one side of 0 can be chance among many: where its p among all
    of its family is above .05 or missing, it is only perhaps better or worse. Where test clips
    leaked, it is neither.
    """
    if row is not None and row.get("basis") == LEAKED:
        return LEAKED
    if row is None or math.isnan(row["low"]):
        return UNKNOWN
    is_certain = row["p_all"] <= ALPHA
    if row["low"] > 0:
        return BETTER if is_certain else PERHAPS_BETTER
    if row["high"] < 0:
        return WORSE if is_certain else PERHAPS_WORSE
    return NOT_SHOWN


def _why_not_certain(row: RunRow) -> str:
    """Return why a difference may be chance though its interval is on one side of 0, else ""."""
    if verdict(row) not in (PERHAPS_BETTER, PERHAPS_WORSE):
        return ""
    if math.isnan(row["p_all"]):
        return ", but it has no p"
    p = short(row["p_all"], 3)
    return f", but p is {p} after the correction for all differences of its kind"


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
    """Return in how many films the first has the higher value.

    Both cells are of the same clips (`on_shared_clips`).
    """
    ours = first.value_of_films(metric)
    theirs = second.value_of_films(metric)
    differences = [ours[film] - theirs[film] for film in ours.keys() & theirs.keys()]
    n_above = sum(difference > ROUNDING for difference in differences)
    n_equal = sum(abs(difference) <= ROUNDING for difference in differences)
    return FilmsAbove(n_above, n_equal, len(differences))


# ---- the answer ----


def answer(run: Run) -> str:
    """Return how well the model that was asked for ranks clips, beside guessing.

    Where the first question is about two models, the answer begins with their differences. The
    values for other tasks are in the table.
    """
    asked = asked_cell(run)
    if asked is None:
        return ""
    first = first_question(run)
    questions: list[AskedQuestion] = []
    if first is not None:
        for question in questions_of(run):
            if question is first or _are_one(first, question):
                questions.append(question)
    sentences: list[str] = []
    if first is not None and not is_about_guessing(first):
        sentences += _sentences_on_models(run, asked, questions)
    sentences.append(sentence_of(run, asked))
    gain = gain_of(run)
    if gain is not None:
        sentences.append(gain.sentence)
    return " ".join(sentences)


def further_answers(run: Run) -> Iterator[str]:
    """Yield how well the model of the answer ranks the clips of each further task.

    A run of own labels has a question about guessing for each of its tasks.
    """
    asked = asked_cell(run)
    first = first_question(run)
    if asked is None or first is None:
        return
    pairs = set()
    for question in questions_of(run):
        if is_about_guessing(question) and not _are_one(first, question):
            pairs.add((question["train"], question["test"]))
    for cell in run.cells:
        is_of_model = (cell.model, cell.store) == (asked.model, asked.store)
        if is_of_model and cell.pair in pairs and cell is not asked:
            yield sentence_of(run, cell)


def _are_one(first: AskedQuestion, other: AskedQuestion) -> bool:
    """Return whether two questions are one; those without a text, as of tasks, are not."""
    return first["text"] == other["text"] != ""


def sentence_of(run: Run, cell: Cell) -> str:
    """Return how well a model ranks clips, beside the best guess without video."""
    metric = compared_metric(run)
    model = model_name(run, cell)
    if not cell.is_ranked(metric):
        return ranks_nothing(model, cell)
    where = f"n {tested_on(cell.basis, run.units)}"
    if cell.basis == FILM_SEEN and not cell.leaked and cell.same_film < cell.n_clips:
        clips = count(cell.n_clips, "clip")
        where = f"n {clips}, {cell.same_film} of them of {run.units} that trained"
    value = f"{metric_name(metric)} {value_text(cell, metric)}"
    text = f"{where}, {model} ranks clips ({cell.tasks}) with {value}"
    row = None
    guess = best_guess(run, cell, metric)
    if guess is not None:
        guessed = f"{short(guess.value(metric))} ({guess.model})"
        text += f"; guessing without video has {guessed}"
        if LEAKED not in (cell.basis, guess.basis):
            text += _films_above_guess(run, cell, guess)
            row = difference_to_guess(run, cell, guess)
    found = verdict(row)
    if row is None or found in (BETTER, UNKNOWN):
        return f"O{text}."
    beginning, where = WORDS[found]
    beginning = beginning.format(first=model, second="guessing")
    interval = f"[{short(row['low'])}, {short(row['high'])}], {where}"
    return (
        f"{beginning}: o{text}; the interval of the difference over {run.units}, {interval}"
        f"{_why_not_certain(row)}."
    )


def ranks_nothing(model: str, cell: Cell) -> str:
    """Return a sentence on a cell without folds in which clips can be ranked."""
    return (
        f"{model} ranks no clips ({cell.tasks}): no fold tests clips of both classes."
    )


def _films_above_guess(run: Run, cell: Cell, guess: Cell) -> str:
    """Return in how many films a model is better than a guess, after its value."""
    metric = compared_metric(run)
    films = films_above(cell, guess, metric)
    if films.n_films < 2:
        return ""
    of_films = f"{films.n_films} {run.units}"
    if films.n_films < cell.n_films:
        classes = "positive clips" if metric == AP.name else "clips of both classes"
        of_films += f" that have {classes}"
    return f"; better in {films.text(of_films)}"


class Compared(NamedTuple):
    """A difference that was asked for: its row, its cells, and what these are called."""

    row: RunRow
    first: Cell
    second: Cell
    model: str
    other: str
    where: str


def _compared(run: Run, row: RunRow) -> Compared:
    by_name = {cell.name: cell for cell in run.cells}
    tasks = (row["train"], row["test"])
    first = by_name[(*tasks, row["store"], row["model"])]
    second = by_name[(*tasks, row["against_store"], row["against_model"])]
    if first.store == second.store:
        where = cell_label(first, run)
        names = (first.model, second.model, where)
    else:
        names = (model_name(run, first), model_name(run, second), first.tasks)
    return Compared(row, first, second, *names)


def _sentences_on_models(
    run: Run, asked: Cell, questions: Sequence[AskedQuestion]
) -> Iterator[str]:
    """Yield the differences of the asked cell that questions ask for.

    The gain of joined features has a sentence of its own.
    """
    compared = []
    for question in questions:
        compared += [_compared(run, row) for row in differences_for(run, question)]
    gain = gain_of(run)
    of_gain: list[Compared] = []
    of_asked: list[Compared] = []
    for each in compared:
        if asked in (each.first, each.second):
            stores = {each.first.store, each.second.store}
            is_gain = gain is not None and stores == gain.stores
            (of_gain if is_gain else of_asked).append(each)
    for each in of_asked[:MOST_ANSWERS]:
        yield _sentence_on_models(run, each)
    if len(compared) > len(of_gain) + MOST_ANSWERS:
        yield f"All {len(compared)} differences are in the table Differences of the report."


def _sentence_on_models(run: Run, compared: Compared) -> str:
    """Return whether the first of two models is better, with their difference."""
    row, first, second, model, other, where = compared
    text = f"{model} minus {other} ({where}) is {difference_text(row)}"
    shared = on_shared_clips([first, second])
    if not shared.problem:
        ours, theirs = shared.cells
        films = films_above(ours, theirs, row["metric"])
        if films.n_films:
            of_films = films.text(count(films.n_films, run.unit))
            text += f"; {model} is higher in {of_films}"
    found = verdict(row)
    beginning = WORDS[found][0].format(first=model, second=other)
    if beginning:
        text = f"{beginning}: {text}"
    if found == LEAKED:
        text += f" on {tested_on(LEAKED, run.units)}"
    return f"{text}{_why_not_certain(row)}."


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
        if verdict(self.row) != BETTER:
            meaning = f"this run does not show that {meaning}"
        return (
            f"The gain of {name} on {self.joined.store} over {name} on the store that training"
            f" {self.units} choose is {difference_text(self.row)}: {meaning}."
        )


def gain_of(run: Run) -> Gain | None:
    """Return the gain of the joined store that the answer is about; None without one."""
    joined = asked_cell(run)
    joins = joined_stores(run)
    if joined is None or joined.store not in joins:
        return None
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
    """Return the model with the highest value on the clips of the answer, if it is another one.

    It was trained for the same task, and none of its clips leaked.
    """
    asked = asked_cell(run)
    if asked is None:
        return None
    metric = compared_metric(run)
    best = asked
    for cell in _on_clips_of(asked, run):
        is_higher = cell.value(metric) > best.value(metric)
        if cell.is_model and cell.basis != LEAKED and is_higher:
            best = cell
    return None if best is asked else best
