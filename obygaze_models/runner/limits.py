"""State the limits of a run as sentences, for the terminal, the page and comparisons."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from obygaze_features.core.console import count, few
from obygaze_models.evaluation.basis import (
    FILM_SEEN,
    LEAKED,
    interval_is_not_of,
    interval_is_of,
    no_interval_because,
)
from obygaze_models.evaluation.bootstrap import FEW_GROUPS, LEAST_GROUPS
from obygaze_models.evaluation.metrics import AP, RANKING_METRICS
from obygaze_models.evaluation.results import BETTER, LEAST_CLIPS
from obygaze_models.protocols.schedule import LEAVES_OUT_GROUPS, SPLIT_KINDS
from obygaze_models.runner.answer import (
    asked_results,
    compared_metric,
    films_with_value,
    number_range,
)
from obygaze_models.runner.features import SHOWN_MISSING
from obygaze_models.runner.files import ResultRows, Run

MOST_NAMES = 3  # reasons or folds in a text
# With these limits, test clips or similar clips were also used in training: values are too high.
ON_BOTH_SIDES = ("leaks", "copies", "films on both sides")
# Limits on the first screen and in the terminal. Other limits are under "How it was made".
ON_FIRST_SCREEN = (
    *ON_BOTH_SIDES,
    "clips as films",  # films may be on both sides
    *("few films", "no interval", "one ranking", "folds of several films"),
    # removed clips
    *("missing features", "skipped folds", "never validated"),
    *("left out", "without label", "annotators differ", "disputed", "trained"),
    *("levels lost", "levels changed"),
    "replaced films",
    "baselines",
    *("positive folds", "picked"),
    "heard",  # concepts that these features cannot contain
)


class Limit(NamedTuple):
    """A fact that limits a run: its name, such as `leaks`, and its sentence."""

    name: str
    text: str


def find_limits(run: Run) -> list[Limit]:
    """Return the limits of a run, the most serious first."""
    limits = []
    for name, sentences in SENTENCES.items():
        limits += [Limit(name, text) for text in sentences(run)]
    # Remarks on the inputs are sentences already.
    limits += [Limit(name, text) for name, text in run.about["remarks"].items()]
    return limits


# ---- clips on both sides ----


def _leaks(run: Run) -> Iterator[str]:
    found = _most_of_a_cell(run.models, lambda cell: cell.leaked - cell.copies)
    if found:
        cells, most = found
        yield (
            f"{cells}, values are too high, because test clips were used in training or selection:"
            f" {most}. Such results have no interval and no p, and are not compared."
        )


def _copies(run: Run) -> Iterator[str]:
    found = _most_of_a_cell(run.models, lambda cell: cell.copies)
    if found:
        cells, most = found
        yield (
            f"{cells}, test clips have exactly the features of a training clip (the same pictures"
            " or words under another id, or short vectors that are equal by chance):"
            f" {most}."
        )


def _films_on_both_sides(run: Run) -> Iterator[str]:
    """Yield the number of test clips whose films are in training, and what intervals hold for.

    The sentence names the column that defines the splits, because this column may divide films by
    mistake.
    """
    divided = [cell for cell in run.models if cell.basis == FILM_SEEN]
    found = _most_of_a_cell(divided, lambda cell: cell.same_film)
    if found:
        column = run.protocol["splits"]["column"]
        because = f" (the column {column} divides {run.units})" if column else ""
        of_intervals = interval_is_of(
            FILM_SEEN, run.units, is_of_one_model=run.is_of_saved_model
        )
        yield (
            f"{found[1][0].upper()}{found[1][1:]} are from {run.units} that were also used in"
            f" training or validation{because}. Values and intervals hold for {of_intervals};"
            f" {interval_is_not_of(FILM_SEEN, run.units)}."
        )


def _most_of_a_cell(
    models: Sequence[ResultRows], number: Callable[[ResultRows], int]
) -> tuple[str, str] | None:
    """Return the beginning and the end of a sentence on a problem of test clips, such as a leak.

    The beginning states how many results have clips with the problem. The end states how many test
    clips of the worst result have it. Return None if no result has clips with the problem.

    Args:
        models: The results.
        number: Function that returns the number of clips with the problem in a result.
    """
    cells = [cell for cell in models if number(cell)]
    if not cells:
        return None
    worst = max(cells, key=lambda cell: number(cell) / cell.clips)
    store = f" ({worst.store})" if worst.store else ""
    of_test = f"test clips of {worst.tasks}{store}"
    most = f"all {worst.clips} {of_test}"
    if number(worst) < worst.clips:
        most = f"up to {number(worst)} of the {worst.clips} {of_test}"
    return f"In {len(cells)} of {count(len(models), 'result')}", most


def _clips_as_films(run: Run) -> Iterator[str]:
    """Yield a sentence if each clip is a film of its own, so that true films are unknown."""
    manifest = run.about["manifest"]
    if 1 < manifest["n_clips"] == manifest["n_films"]:
        yield (
            "In this manifest, each clip is a film of its own. If some clips are parts of one film,"
            " this film is both in training and in test. Then import the table again, with the film"
            " of each clip in movie_id; or with --films none if nobody knows the films."
        )


# ---- values ----


def _few_films(run: Run) -> Iterator[str]:
    """Yield how many films contribute to the values, if too few to hold for other films."""
    counts = [cell.film_counts(compared_metric(run)) for cell in run.models]
    of_few = [both for both in counts if both[0] < FEW_GROUPS]
    if of_few and run.has_groups:
        known = films_with_value(of_few, run.unit)
        if not known:
            n_tested = number_range([tested for _, tested in of_few])
            known = f"the values are of {n_tested} {run.units}"
        said = f"{known[0].upper()}{known[1:]}"
        if len(of_few) < len(counts):
            said = f"In {len(of_few)} of {count(len(counts), 'result')}, {known}"
        yield (
            f"{said}: values of so few {run.units} depend on chance, and may not hold for other"
            f" {run.units}."
        )


def _no_interval(run: Run) -> Iterator[str]:
    """Yield the number of results without an interval, and the reasons."""
    reasons = [
        why_no_interval(cell, run)
        for cell in run.models
        # `_leaks` says that leaked results have no interval.
        if not any(map(cell.has_interval, RANKING_METRICS))
        and not cell.leaked > cell.copies
    ]
    if reasons:
        because = "; ".join(dict.fromkeys(reasons))
        yield f"Without an interval: {len(reasons)} of {len(run.models)} results ({because})."


def why_no_interval(cell: ResultRows, run: Run) -> str:
    """Return why a result has no interval."""
    of_basis = no_interval_because(cell.basis)
    if of_basis:
        return of_basis
    if not run.has_groups:
        return "the manifest has no films"
    n_films, _ = cell.film_counts(AP.name)
    n_negative = cell.clips - cell.positive
    if n_films < LEAST_GROUPS or min(cell.positive, n_negative) < LEAST_CLIPS:
        return (
            f"{cell.tasks} tests {count(cell.positive, 'positive clip')} of"
            f" {count(n_films, run.unit)} and {count(n_negative, 'negative clip')}, but an interval"
            f" needs {LEAST_CLIPS} clips of each class and {LEAST_GROUPS} {run.units}"
        )
    return f"the values do not differ from {run.unit} to {run.unit}"


def _one_ranking(run: Run) -> Iterator[str]:
    """Yield why an interval contains the value of a random order although p is small.

    A saved model is tested on all films in one ranking, in which the clips of different films are
    compared, too.
    """
    if not run.is_of_saved_model:
        return
    metric = compared_metric(run)
    for cell in asked_results(run):
        row = cell.row(metric)
        if row["verdict"] == BETTER and row["low"] <= row["random"]:
            yield (
                f"p tests the order of clips within each {run.unit}. The value and its interval are"
                f" of one ranking of all clips, in which the scores of different {run.units} are"
                " compared, too."
            )
            return


def _positive_folds(run: Run) -> Iterator[str]:
    """Yield the number of folds without a negative clip, in which each order has the AP 1."""
    named: dict[str, None] = {}
    for cell in run.models:
        is_positive = run.tests_of(cell).groupby("fold")["y"].min() == 1
        if is_positive.any():
            named[f"{is_positive.sum()} of {len(is_positive)} ({cell.test})"] = None
    if named:
        yield (
            "Folds in which all tested clips are positive:"
            f" {few([*named], MOST_NAMES)}. There, every order of clips has AP 1, also the order of"
            " a baseline."
        )


def _picked(run: Run) -> Iterator[str]:
    """Yield a warning against the choice of the highest of several results of a task.

    If a model is selected because its result is the highest, the result is expected to be lower on
    new films.
    """
    metric = compared_metric(run)
    asked = asked_results(run)
    n_results = 0
    for cell in run.models:
        is_of_task = bool(asked) and cell.pair == asked[0].pair
        if is_of_task and cell.is_ranked(metric) and cell.basis != LEAKED:
            n_results += 1
    if n_results > 1:
        yield (
            f"If you choose one of the {n_results} results in {asked[0].tasks} because it is the"
            f" highest, expect a lower value on new {run.units}."
        )


# ---- folds ----


def _skipped_folds(run: Run) -> Iterator[str]:
    """Yield the skipped folds and their films, in a sentence for each reason."""
    folds_of: dict[str, dict[str, None]] = {}
    for facts in run.about["fits"]:
        for fold, reason in facts["skipped"].items():
            films = facts["skipped_films"].get(fold)
            name = f"{fold} with {few(films, MOST_NAMES)}" if films else fold
            folds_of.setdefault(reason, {})[name] = None
    for reason, folds in sorted(folds_of.items()):
        names = few([*folds], MOST_NAMES)
        yield f"{count(len(folds), 'fold')} skipped: {reason} ({names})."


def _never_validated(run: Run) -> Iterator[str]:
    """Yield the number of fits that trained for all epochs for want of validation clips."""
    # A set, because one fit may test several tasks.
    fits_of: dict[str, set[tuple[str, str, int]]] = {}
    for facts in run.about["fits"]:
        if facts["model"] not in run.settings.starting_at_random:
            continue
        name = f"{facts['model']} ({facts['train']})"
        for fold in facts["folds"]:
            if not fold["n_validation"]:
                fit = (facts["store"], fold["fold"], fold["seed"])
                fits_of.setdefault(name, set()).add(fit)
    for name, fits in sorted(fits_of.items()):
        yield (
            f"{name}: {count(len(fits), 'fit')} without validation clips, so that training did not"
            " stop early."
        )


def _folds_of_several_films(run: Run) -> Iterator[str]:
    """Yield the largest number of films in a fold of the manifest, if it is more than one.

    Intervals are over films, and do not hold for new groups of films. Yield nothing for a run that
    holds out groups, because its intervals are over these groups.
    """
    is_of_person = SPLIT_KINDS[run.protocol["splits"]["kind"]].by_task
    if not is_of_person or run.holds_out_groups:
        return
    for cell in run.cells:
        if cell.is_trained and not cell.knows_films and cell.has_interval(AP.name):
            films = run.predictions.groupby(["test", "fold"])["group"].nunique()
            if films.max() > 1:
                yield (
                    f"Folds contain up to {films.max()} films, but intervals and p are over films,"
                    f" so they do not hold for new groups of films; {LEAVES_OUT_GROUPS}."
                )
            return


# ---- concepts and features ----


def _missing_features(run: Run) -> Iterator[str]:
    """Yield the number of clips without features in each store, with the reasons."""
    stores = run.about["stores"]
    named: set[str] = set()
    # Single stores come first, so that joined features do not repeat the clips of their parts.
    for store in sorted(stores, key=lambda name: "parts" in stores[name]):
        missing = stores[store]["missing"]
        if not missing or ("parts" in stores[store] and named.issuperset(missing)):
            continue
        named.update(missing)
        counts = [
            f"{n} {reason}" for reason, n in Counter(missing.values()).most_common()
        ]
        n_clips = _clips_that_count(run, len(missing))
        yield (
            f"{len(missing)} of {n_clips} have no features in {store} and are excluded"
            f" ({few(counts, MOST_NAMES)}): {few([*missing], SHOWN_MISSING)}."
        )


def _without_words(run: Run) -> Iterator[str]:
    """Yield the number of clips without words in each store of words."""
    for store, facts in run.about["stores"].items():
        n_silent = facts.get("without_words", 0)
        if n_silent:
            n_clips = _clips_that_count(run, 0)
            yield (
                f"{n_silent} of {n_clips} have no words in {store} and therefore the same vector;"
                " they are not counted as copies of each other."
            )


def _clips_that_count(run: Run, n_missing: int) -> str:
    """Return of how many clips a limit counts some: all clips, or those to test for a saved model.

    A saved model may have been trained on most clips of the manifest, which are not tested.
    """
    if not run.is_of_saved_model:
        return f"{run.about['manifest']['n_clips']} clips"
    n_tested = max((cell.clips for cell in run.models), default=0)
    return f"{n_tested + n_missing} clips to test"


# The function that yields the sentences of each limit, the most serious first.
SENTENCES: dict[str, Callable[[Run], Iterator[str]]] = {
    "leaks": _leaks,
    "copies": _copies,
    "films on both sides": _films_on_both_sides,
    "clips as films": _clips_as_films,
    "few films": _few_films,
    "no interval": _no_interval,
    "skipped folds": _skipped_folds,
    "never validated": _never_validated,
    "folds of several films": _folds_of_several_films,
    "one ranking": _one_ranking,
    "positive folds": _positive_folds,
    "picked": _picked,
    "missing features": _missing_features,
    "without words": _without_words,
}
