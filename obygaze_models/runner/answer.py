"""Describe the results of a run in sentences. `limits` has the limits of the results.

All functions read only the tables and run.json of a finished run. The terminal and the page show
the same sentences.
"""

import math
from collections.abc import Iterable, Sequence

from obygaze_features.core.console import (
    MISSING,
    count,
    count_decimals,
    interval_end,
    join_names,
    plural,
)
from obygaze_features.manifest.model import view_words
from obygaze_models.evaluation.basis import (
    FILM_SEEN,
    FILM_UNKNOWN,
    LEAKED,
    UNSEEN,
    interval_is_of,
    tested_on,
    weakest,
)
from obygaze_models.evaluation.film_tests import FILMS_OF_A_TEST
from obygaze_models.evaluation.group_tests import ALPHA
from obygaze_models.evaluation.metrics import RANKING_METRICS, metric_name
from obygaze_models.evaluation.results import (
    BETTER,
    BLIND,
    NO_VERDICT,
    NOT_SHOWN,
    WORSE,
    names_of_difference,
)
from obygaze_models.evaluation.tables import RunRow
from obygaze_models.runner.files import ResultRows, Run

# The baselines without video in words.
BASELINES_IN_WORDS = {
    "random": "a random order",
    "all_positive": "equal scores for all clips",
    "prevalence": "equal scores for all clips",
    "film_prior": "the share of positive clips in the same film",
    "neighbour": "the classes of the nearest clips in the same film",
}


# ---- names and numbers ----


def has_levels(run: Run) -> bool:
    """Return whether the clips of a run have levels or concepts."""
    return bool(run.about["manifest"]["has_levels"])


def view_text(run: Run) -> str:
    """Return the view of a run, such as `visual view`, or "" for clips without levels."""
    return view_words(run.about["manifest"]["view"]) if has_levels(run) else ""


def clips_text(run: Run) -> str:
    """Return the numbers of clips and films of a run, its manifest, its view, and data.where.

    The clips are those that are tested, if all results of the answer tested the same clips.
    """
    manifest = run.about["manifest"]
    n_clips = manifest["n_clips"]
    where = run.protocol["data"]["where"]
    name = f"manifest {manifest['name']}"
    text = _clips(n_clips)
    if run.has_films:
        text += f" of {count(manifest['n_films'], 'film')}"
    tested = {cell.test_set: cell for cell in asked_results(run)}
    if len(tested) == 1:
        (cell,) = tested.values()
        text = _clips(cell.clips)
        if run.has_groups:
            text += f" of {count(cell.films, run.unit)}"
        if cell.clips != n_clips and not where:
            name += f" ({_clips(n_clips)})"
    words = [text, name, view_text(run)]
    words.append(where and f"only {where}")
    return ", ".join(filter(None, words))


def _clips(n_clips: int) -> str:
    """Return the number of clips in words, such as `1,914 clips`."""
    return "1 clip" if n_clips == 1 else f"{n_clips:,} clips"


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


def model_name(run: Run, cell: ResultRows) -> str:
    """Return the name of a model, with its store if the run has several stores."""
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


def stated_p(row: RunRow) -> str:
    """Return the p of a row as `p = .020` or `p <.001`."""
    p = short_p(row["p"])
    return f"p {p}" if p.startswith("<") else f"p = {p}"


def with_ends(value: float, low: float, high: float) -> str:
    """Return a number, with its interval if there is one: .71 [.60, .80]."""
    if math.isnan(low + high):
        return short(value)
    digits = count_decimals(low, high)
    return f"{short(value)} [{short(low, digits)}, {short(high, digits)}]"


def value_text(cell: ResultRows, metric: str) -> str:
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


def intervals_hold_for(run: Run, cells: Iterable[ResultRows]) -> str:
    """Return what the intervals of all cells hold for, or "" if no cell has an interval."""
    bases = [
        cell.basis for cell in cells if any(map(cell.has_interval, RANKING_METRICS))
    ]
    if not bases:
        return ""
    return interval_is_of(
        weakest(bases), run.units, is_of_one_model=run.is_of_saved_model
    )


# ---- what the run asks for ----


def asked_results(run: Run) -> list[ResultRows]:
    """Return the results of the models that the run is about, in their order."""
    asked = [cell for cell in run.cells if math.isfinite(cell.asked)]
    return sorted(asked, key=lambda cell: cell.asked)


def asked_differences(run: Run) -> list[RunRow]:
    """Return the rows of the differences of two models that the run asks for, in their order."""
    asked = [row for row in run.differences if math.isfinite(row["asked"])]
    return sorted(asked, key=lambda row: int(row["asked"]))


def list_parts(run: Run, store: str) -> list[str]:
    """Return the parts of joined features that are also stores of the run, in the run's order."""
    stores = run.about["stores"]
    parts = stores.get(store, {}).get("parts", ())
    return [name for name in stores if name in parts]


def best_baseline(run: Run, cell: ResultRows, metric: str) -> ResultRows | None:
    """Return the result of the best baseline of a result, or None."""
    name = cell.row(metric)["baseline"]
    for other in run.cells:
        is_named = other.model == name and other.store in ("", cell.store)
        if is_named and other.pair == cell.pair and not other.is_model:
            return other
    return None


def films_text(row: RunRow) -> str:
    """Return `1 of 9`: the number of films in which the first side is better; a dash without films.

    Films in which both sides are equal are named: `1 of 9 (equal in 3)`.
    """
    if not row["films_compared"] > 0:
        return MISSING
    equal = f" (equal in {row['films_equal']})" if row["films_equal"] else ""
    return f"{row['films_better']} of {row['films_compared']}{equal}"


def side_names(run: Run, row: RunRow) -> tuple[str, str]:
    """Return the names of the two sides of a difference, with what distinguishes them only."""
    by_name = {cell.name: cell for cell in run.cells}
    first, second = (by_name[name] for name in names_of_difference(row))
    is_of_one_model = len({cell.model for cell in asked_results(run)}) == 1
    if is_of_one_model and first.model == second.model and first.store != second.store:
        return first.store, second.store
    return model_name(run, first), model_name(run, second)


def has_values_of_table(run: Run, row: RunRow) -> bool:
    """Return whether the two sides of a difference are values over all clips of its models.

    If models tested other clips, or films have clips of one class only, p is of other values.
    """
    values = {cell.name: cell.value(row["metric"]) for cell in run.cells}
    first, second = names_of_difference(row)
    sides = ((row["first"], values[first]), (row["second"], values[second]))
    return all(math.isclose(side, value, abs_tol=1e-9) for side, value in sides)


def about_sides(run: Run) -> str:
    """Return what the two sides of a difference are, if they are not the values of the models."""
    return (
        f"means over the {run.units} that p tests, on the clips that both tested"
        f" (other {run.units} have clips of one class)"
    )


# ---- the answer ----


def question(run: Run) -> str:
    """Return the question of the protocol, or its title.

    Questions and titles of protocols are about unseen films. Other runs have the name of their
    protocol, except for the test of a saved model.
    """
    report = run.protocol["report"]
    asked = asked_results(run)
    if run.is_of_saved_model:
        return str(report["ask"] or report["title"])
    if any(cell.knows_films for cell in asked) or not run.has_groups:
        return str(run.protocol["name"])
    return str(report["ask"] or report["title"] or run.protocol["name"])


def held_out_text(run: Run) -> str:
    """Return what the models of a run know of the clips that they test."""
    asked = asked_results(run)
    basis = weakest([cell.basis for cell in asked] or [UNSEEN])
    if basis == LEAKED:
        return "test clips were also used in training or selection"
    if basis == FILM_UNKNOWN:
        return "the films of clips are unknown"
    if basis == FILM_SEEN:
        return f"models were trained on other clips of the same {run.units}"
    if not run.has_groups:
        return ""
    if run.is_of_saved_model:
        return f"the model never saw these {run.units}"
    return f"each {run.unit} is tested by models that never saw it"


def answers(run: Run) -> list[str]:
    """Return at most three sentences that answer the question of a run.

    One or two results have a sentence each, in the order in which they were typed, and their
    difference has one. Of more results, the first and the highest have a sentence. Joined features
    have a sentence on their difference from each part, and their parts have one together.
    """
    asked = asked_results(run)
    if not asked:
        return []
    for cell in asked:
        of_model = [
            of for of in asked if (of.model, of.pair) == (cell.model, cell.pair)
        ]
        parts = [of for of in of_model if of.store in list_parts(run, cell.store)]
        # Without a part alone, the gain could be that of this part.
        if parts and len(parts) == len(run.settings.parts[cell.store]):
            return _answer_of_join(run, cell, parts)
    if len(asked) > 2:
        return _answer_of_many(run, asked)
    sentences = [_sentence_on(run, cell) for cell in asked]
    is_yes = run.protocol["report"]["ask"] and len(asked) == 1
    if is_yes and asked[0].row(compared_metric(run))["verdict"] == BETTER:
        sentences[0] = f"Yes. {sentences[0]}"
    for row in asked_differences(run)[: 3 - len(sentences)]:
        sentences += _sentence_on_two(run, row)
    return sentences


def _name(run: Run, cell: ResultRows) -> str:
    """Return what distinguishes a result from the others that the run is about."""
    asked = asked_results(run)
    name = model_name(run, cell)
    if len(run.about["stores"]) > 1 and len({one.model for one in asked}) == 1:
        name = cell.store
    return name if len({one.pair for one in asked}) == 1 else f"{name} in {cell.tasks}"


def _sentence_on(run: Run, cell: ResultRows) -> str:
    """Return the sentence on a result: is it better than its best baseline without video?"""
    row = cell.row(compared_metric(run))
    name = _name(run, cell)
    if not cell.is_ranked(compared_metric(run)):
        return f"{name} ranks no clips: no fold tests clips of both classes."
    if not row["baseline"]:
        return f"{name} is not compared with a baseline."
    baseline = BASELINES_IN_WORDS[row["baseline"]]
    if row["verdict"] == BETTER:
        return f"{name} ranks clips better than {baseline} ({stated_p(row)})."
    if row["verdict"] == NOT_SHOWN:
        return f"{name} is not shown to rank clips better than {baseline} ({stated_p(row)})."
    if row["verdict"] == LEAKED:
        return f"{name} was tested on clips of its training, so its value is too high."
    return f"{name} is not tested against {baseline}: {why_no_p(run, row)}."


def describe_cell(run: Run, cell: ResultRows) -> str:
    """Return the value of a result, and whether it is better than its best baseline."""
    metric = compared_metric(run)
    where = f"On {tested_on(cell.basis, run.units)}"
    value = f"{metric_name(metric)} {value_text(cell, metric)} ({cell.tasks})"
    return f"{where}, {model_name(run, cell)} has {value}. {_sentence_on(run, cell)}"


def why_no_p(run: Run, row: RunRow) -> str:
    """Return why a row of a model or of a difference has no p."""
    if not run.settings.compares:
        return "report.compare is false"
    if row["basis"] == LEAKED:
        return "test clips were used in training"
    if row["basis"] == FILM_UNKNOWN or not run.has_groups:
        return "films are unknown"
    n_films = row["films_compared"]
    if not n_films >= FILMS_OF_A_TEST:
        have = "has" if n_films == 1 else "have"
        return (
            f"a test needs {FILMS_OF_A_TEST} {run.units} with clips of both classes, and"
            f" {0 if math.isnan(n_films) else n_films} {have} them"
        )
    if row["films_equal"] == n_films:
        return f"the order is as good as its reverse in each {run.unit}"
    if math.isnan(row["asked"]):
        return "the protocol does not ask for it"
    return f"the {run.units} and all clips together show the opposite"


def _sentence_on_two(run: Run, row: RunRow) -> list[str]:
    """Return a sentence on whether one of two results is better, if this was tested."""
    first, second = side_names(run, row)
    if row["verdict"] == BETTER:
        return [f"{first} is better than {second} ({stated_p(row)})."]
    if row["verdict"] == WORSE:
        return [f"{second} is better than {first} ({stated_p(row)})."]
    if row["verdict"] == NOT_SHOWN:
        return [f"{first} is not shown to differ from {second} ({stated_p(row)})."]
    if row["verdict"] == NO_VERDICT:
        why = why_no_p(run, row)
        return [f"{first} is not tested against {second}: {why}."]
    return []


def _answer_of_many(run: Run, asked: Sequence[ResultRows]) -> list[str]:
    """Return the sentences on the first and on the highest of three or more results."""
    metric = compared_metric(run)
    sentences = [_sentence_on(run, asked[0])]
    ranked = [cell for cell in asked if cell.is_ranked(metric)]
    if not ranked:
        return sentences
    highest = max(short(cell.value(metric)) for cell in ranked)
    best = [cell for cell in ranked if short(cell.value(metric)) == highest]
    names = join_names([_name(run, cell) for cell in best[:3]])
    if len(best) > 3:
        names = f"{len(best)} results"
    has = "has" if len(best) == 1 else "have"
    of_results = f"the highest {metric_name(metric)} of {len(asked)} results"
    sentences.append(f"{names} {has} {of_results}.")
    if len(best) == 1 and best[0] is not asked[0]:
        sentences.append(_sentence_on(run, best[0]))
    return sentences


def _answer_of_join(
    run: Run, joined: ResultRows, parts: Sequence[ResultRows]
) -> list[str]:
    """Return a sentence on joined features against each part, and one on the parts."""
    found = {}
    for row in asked_differences(run):
        first, second = names_of_difference(row)
        if first == joined.name:
            found[second] = row
    rows = [(cell, found[cell.name]) for cell in parts if cell.name in found]
    together = f"{join_names([cell.store for cell in parts])} together"
    better = []
    others = []
    for cell, row in rows:
        text = f"{cell.store} ({stated_p(row)})"
        if row["verdict"] == BETTER:
            better.append(f"than {text}")
        elif row["verdict"] == WORSE:
            others.append(f"they are worse than {text}")
        elif row["verdict"] == NOT_SHOWN:
            others.append(f"they are not shown to be better than {text}")
    if better:
        of_join = f"{together} are better {join_names(better)}"
        text = "; ".join([of_join, *others])
    elif others:
        text = f"{together}: {'; '.join(others)}"
    else:
        text = f"{together} are not tested against each alone"
        text += "".join(f": {why_no_p(run, row)}" for _, row in rows[:1])
    is_yes = run.protocol["report"]["ask"] and better and not others
    sentences = [f"Yes. {text}." if is_yes else f"{text}."]
    sentences += _sentences_on_parts(run, parts)
    return sentences


def _sentences_on_parts(run: Run, parts: Sequence[ResultRows]) -> list[str]:
    """Return the sentence on the parts of joined features, and on which of two is better."""
    metric = compared_metric(run)
    baselines = {cell.row(metric)["baseline"] for cell in parts}
    verdicts = {cell.row(metric)["verdict"] for cell in parts}
    if len(baselines) > 1 or verdicts != {BETTER}:
        return [_sentence_on(run, cell) for cell in parts[:2]]
    text = f"Each alone ranks clips better than {BASELINES_IN_WORDS[baselines.pop()]}"
    names = {cell.name for cell in parts}
    rows = [r for r in asked_differences(run) if {*names_of_difference(r)} <= names]
    if len(rows) != 1 or len(parts) != 2:
        return [f"{text}."]
    (row,) = rows
    first, second = side_names(run, row)
    if row["verdict"] == WORSE:
        first, second = second, first
    if row["verdict"] in (BETTER, WORSE):
        return [f"{text}; {first} is better than {second} ({stated_p(row)})."]
    if row["verdict"] == NOT_SHOWN:
        return [f"{text}; they are not shown to differ ({stated_p(row)})."]
    return [f"{text}."]


# ---- definitions ----


def about_p(run: Run) -> str:
    """Return how the p of a run are computed, or "" if no difference has a p."""
    of_baselines = most_comparisons(run, is_of_baselines=True)
    of_models = most_comparisons(run, is_of_baselines=False)
    if not of_baselines and not of_models:
        return ""
    corrected = []
    if of_baselines > 1:
        corrected.append(f"{of_baselines} comparisons with baselines")
    if of_models > 1:
        corrected.append(f"{of_models} comparisons of two models")
    text = (
        f"p: Student's t over {run.units}, one-sided against a baseline, two-sided between two"
        f" models; reduced because {run.units} also train the models that test others"
    )
    return (
        f"{text}; corrected for {join_names(corrected)}." if corrected else f"{text}."
    )


def most_comparisons(run: Run, *, is_of_baselines: bool) -> int:
    """Return for how many comparisons p is corrected, of models with baselines or of two models.

    Return 0 if no such comparison has a p.
    """
    most = 0
    for row in run.differences:
        is_of_kind = (row["against_model"] in BLIND) == is_of_baselines
        if is_of_kind and math.isfinite(row["p"]):
            most = max(most, int(row["comparisons"]))
    return most


def about_tested(run: Run) -> str:
    """Return how a model is compared with a baseline in a film."""
    return (
        f"A baseline that gives all clips of a {run.unit} one score has no order. Against it, p"
        f" tests whether the model's order is better than the reversed order; the {run.units}"
        " counted as better are those in which it is."
    )
