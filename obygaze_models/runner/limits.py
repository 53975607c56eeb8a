"""What limits a run: `limits_of` finds the facts, and `TEXTS` has the words of each.

A fact has a name and the values of its text. Pages and comparisons choose among them by name.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from obygaze_features.core.console import count, few, listed
from obygaze_models.evaluation.basis import (
    FILM_SEEN,
    interval_is_not_of,
    interval_is_of,
    no_interval_because,
)
from obygaze_models.evaluation.bootstrap import FEW_GROUPS, LEAST_GROUPS
from obygaze_models.evaluation.cells import Cell
from obygaze_models.evaluation.metrics import (
    AP,
    RANKING_METRICS,
    metric_name,
)
from obygaze_models.evaluation.results import LEAST_CLIPS
from obygaze_models.protocols.schedule import (
    LEAVES_OUT_GROUPS,
    SPLIT_KINDS,
    unit_of,
)
from obygaze_models.runner.answer import (
    asked_cells,
    chosen_cells,
    compared_metric,
    films_with_value,
    higher_than_asked,
    model_name,
    number_range,
    short,
)
from obygaze_models.runner.features import SHOWN_MISSING
from obygaze_models.runner.files import Run

MANY_FOLDS = 300  # of films: where a run warns
FEW_FOLDS = 10  # what it then offers
MOST_NAMES = 3  # of cells, reasons or folds in a text

# Test clips are on the side of training too: values are too high.
ON_BOTH_SIDES = ("leaks", "copies", "films on both sides")
# What a reader must know of a number, on the first screen and in a terminal; the rest stands under
# "How it was made".
ON_FIRST_SCREEN = (
    *ON_BOTH_SIDES,
    "clips as films",  # films may be on both sides
    *("few films", "no interval", "folds of several films"),
    # clips that were left out
    *("missing features", "skipped folds"),
    *("left out", "without label", "annotators differ", "disputed", "trained"),
    *("levels lost", "levels changed"),
    "guesses",
    "picked",
    "heard",  # concepts that this sense cannot carry
)

TEXTS = {
    "leaks": "{n_cells} of {n_models} cells are of clips that trained or chose, so that they are"
    " too high, and have no interval, no p and no place among differences: up to {most} of the"
    " {n_tested} test clips of {tasks}.",
    "copies": "{n_cells} of {n_models} cells are of clips with exactly the features of a training"
    " clip (the same pictures or words under another name, or short vectors that are equal by"
    " chance): up to {most} of the {n_tested} test clips of {tasks} ({store}).",
    "films on both sides": "Up to {most} of the {n_tested} test clips of {tasks} are of {units}"
    " that train or validate too{because}: values and intervals are of {interval_is_of};"
    " {interval_is_not_of}.",
    "clips as films": "Each clip is a film of its own in this manifest: if some of them are parts"
    " of one film, the models have seen films that test them. Their films belong in movie_id; a"
    " table that states none is imported with --films none.",
    "few films": "In {n_cells} of {n_models} cells {known}; these may be alike or differ by"
    " chance, and say little about other {units}.",
    "no interval": "{n_cells} of {n_models} cells have no interval: {reasons}.",
    "rare concepts": "Bottlenecks do without concepts that too few training clips have or lack:"
    " {concepts}.",
    "skipped folds": "{folds} left out: {reasons}.",
    "folds of several films": "Folds hold up to {most} films, and intervals and p are over films:"
    f" they say nothing of other groups; {LEAVES_OUT_GROUPS}.",
    "many fits": "Each model is fitted {n_fits:,} times for a task, because one {unit} at a time"
    " is left out: --set splits.validation=next --set splits.folds={few} takes {few} fits.",
    "picked": "{best} has {metric} {value}, the highest of {n_values}: to take the best of several"
    " by its own test {units} is too good{hint}.",
    "missing features": "{n_missing} of {n_clips} clips have no features in {store} and are left"
    " out ({reasons}): {clips}.",
    "chosen stores": "Training {units} chose the store of {model} in each of {n_tests} tests:"
    " {stores}.",
    "without words": "{n_silent} of {n_clips} clips have no words in {store}, so they all have"
    " the same vector; they are not counted as copies of each other.",
}

Values = Mapping[str, Any]
Models = Sequence[Cell]


@dataclass(frozen=True)
class Limit:
    """A fact that limits a run: its name, such as `leaks`, and the values of its text."""

    name: str
    values: Values

    @property
    def text(self) -> str:
        """The fact in words; what is known of the inputs has had its words since it was found."""
        return TEXTS.get(self.name, "{remark}").format_map(self.values)


def limits_of(run: Run) -> list[Limit]:
    """Return the limits of a run, the gravest first."""
    models = run.models
    of_run = {"n_models": len(models), "unit": run.unit, "units": run.units}
    of_run["n_clips"] = run.about["manifest"]["n_clips"]
    limits = []
    for name, facts in FACTS.items():
        for values in facts(run, models):
            limits.append(Limit(name, {**of_run, **values}))
    for name, remark in run.about["remarks"].items():
        limits.append(Limit(name, {"remark": remark}))
    return limits


# ---- clips on both sides ----


def _leaks(run: Run, models: Models) -> Iterator[Values]:
    """Yield what leaked of clips that trained, chose, or found concept vectors."""
    return _most_of_cell(models, lambda cell: cell.leaked - cell.copies)


def _copies(run: Run, models: Models) -> Iterator[Values]:
    """Yield what is tested with exactly the features of a training clip of another name."""
    return _most_of_cell(models, lambda cell: cell.copies)


def _films_on_both_sides(run: Run, models: Models) -> Iterator[Values]:
    """Yield the test clips of films that trained, and what values and intervals are of.

    A column of the manifest may divide films by mistake, so it is named.
    """
    column = run.protocol["splits"]["column"]
    because = f", because the column {column} divides {run.units}" if column else ""
    divided = [cell for cell in models if cell.basis == FILM_SEEN]
    for values in _most_of_cell(divided, lambda cell: cell.same_film):
        yield {
            **values,
            "because": because,
            "interval_is_of": interval_is_of(
                FILM_SEEN, run.units, is_of_one_model=run.is_of_saved_model
            ),
            "interval_is_not_of": interval_is_not_of(FILM_SEEN, run.units),
        }


def _most_of_cell(models: Models, number: Callable[[Cell], int]) -> Iterator[Values]:
    """Yield in how many cells there are such clips, and the cell with the largest share of them."""
    cells = [cell for cell in models if number(cell)]
    if cells:
        worst = max(cells, key=lambda cell: number(cell) / cell.n_clips)
        yield {
            "n_cells": len(cells),
            "most": number(worst),
            "n_tested": worst.n_clips,
            "tasks": worst.tasks,
            "store": worst.store,
        }


def _clips_as_films(run: Run, models: Models) -> Iterator[Values]:
    """Yield once where each clip is called a film: nobody knows which of them are of one."""
    manifest = run.about["manifest"]
    if 1 < manifest["n_clips"] == manifest["n_films"]:
        yield {}


# ---- values ----


def _few_films(run: Run, models: Models) -> Iterator[Values]:
    """Yield the numbers of films behind values, where these are so few that films may be alike."""
    counts = [cell.film_counts(compared_metric(run)) for cell in models]
    of_few = [(behind, tested) for behind, tested in counts if behind < FEW_GROUPS]
    if of_few and run.has_groups:
        known = films_with_value(of_few, run.unit)
        n_tested = number_range([tested for _, tested in of_few])
        known = known or f"tested {run.units} are few ({n_tested})"
        yield {"n_cells": len(of_few), "known": known}


def _no_interval(run: Run, models: Models) -> Iterator[Values]:
    """Yield why models have no interval."""
    reasons = []
    for cell in models:
        if not any(map(cell.has_interval, RANKING_METRICS)):
            reasons.append(why_no_interval(cell, run))
    if reasons:
        yield {"n_cells": len(reasons), "reasons": "; ".join(dict.fromkeys(reasons))}


def why_no_interval(cell: Cell, run: Run) -> str:
    """Return which condition of an interval a cell does not meet."""
    n_positive = cell.n_positive
    n_negative = cell.n_clips - n_positive
    of_basis = no_interval_because(cell.basis)
    if of_basis:
        return of_basis
    if not run.has_groups:
        return "the manifest has no films"
    if cell.n_films < 2:
        return f"all test clips of {cell.tasks} are of one {run.unit}"
    n_films, _ = cell.film_counts(AP.name)
    if n_films < LEAST_GROUPS:
        films = (
            count(n_films, f"tested {run.unit}") if n_films else f"no tested {run.unit}"
        )
        verb = "have" if n_films > 1 else "has"
        return f"{films} of {cell.tasks} {verb} positive clips, and {LEAST_GROUPS} are needed"
    if min(n_positive, n_negative) < LEAST_CLIPS:
        return (
            f"{cell.tasks} tests {count(n_positive, 'positive clip')} and "
            f"{count(n_negative, 'negative clip')}, and {LEAST_CLIPS} of each are needed"
        )
    return f"the values do not differ from {run.unit} to {run.unit}"


def _picked(run: Run, models: Models) -> Iterator[Values]:
    """Yield the best of several stores or models, which its own test films would pick."""
    metric = compared_metric(run)
    asked = asked_cells(run)
    values = [cell for cell in asked if cell.is_ranked(metric)]
    others = higher_than_asked(run)
    if others is not None:
        values.append(others)
    chooses = run.protocol["fit"]["choose_store"]
    if len(values) < 2 or (others is None and chooses):
        return
    best = max(values, key=lambda cell: cell.value(metric))
    hint = ""
    if len({cell.store for cell in values}) > 1 and not chooses:
        hint = (
            f"; --set fit.choose_store=true adds results in which training {run.units} choose"
            " the store"
        )
    yield {
        "best": model_name(run, best),
        "metric": metric_name(metric),
        "value": short(best.value(metric)),
        "n_values": len(run.models) if others is not None else len(values),
        "hint": hint,
    }


# ---- folds and fits ----


def _skipped_folds(run: Run, models: Models) -> Iterator[Values]:
    """Yield the folds that were left out with their films, by the reason."""
    folds_of: dict[str, dict[str, None]] = {}
    for facts in run.about["fits"]:
        for fold, reason in facts["skipped"].items():
            films = facts["skipped_films"].get(fold)
            name = f"{fold} with {few(films, MOST_NAMES)}" if films else fold
            folds_of.setdefault(reason, {})[name] = None
    if folds_of:
        reasons = []
        for reason, folds in sorted(folds_of.items())[:MOST_NAMES]:
            reasons.append(f"{reason} ({few([*folds], MOST_NAMES)})")
        n_folds = len(set().union(*folds_of.values()))
        yield {"folds": count(n_folds, "fold"), "reasons": "; ".join(reasons)}


def _folds_of_several_films(run: Run, models: Models) -> Iterator[Values]:
    """Yield how many films a fold that a person made holds; intervals are over films all the same.

    Of a run with groups, the person has said over what intervals are.
    """
    kind = SPLIT_KINDS[run.protocol["splits"]["kind"]]
    is_of_person = kind.by_task
    has_interval = False
    for cell in run.cells:
        if cell.is_trained and not cell.knows_films:
            has_interval = has_interval or cell.has_interval(AP.name)
    if is_of_person and has_interval and not run.holds_out_groups:
        films = run.predictions.groupby(["test", "fold"])["group"].nunique()
        most = int(films.max())
        if most > 1:
            yield {"most": most}


def many_fits(splits: Mapping[str, Any], n_folds: int) -> Limit | None:
    """Return that each of many films is left out, which takes a fit each; None of few.

    Args:
        splits: The splits of the protocol.
        n_folds: The number of folds.
    """
    is_each_film = SPLIT_KINDS[splits["kind"]].by_film and not splits["folds"]
    if n_folds <= MANY_FOLDS or not is_each_film:
        return None
    unit = unit_of(splits["kind"], splits["column"])
    return Limit("many fits", {"n_fits": n_folds, "unit": unit, "few": FEW_FOLDS})


# ---- concepts and features ----


def _rare_concepts(run: Run, models: Models) -> Iterator[Values]:
    """Yield the concepts that are left out: in how many folds, and their fewest clips.

    Stores that lack other clips have other numbers.
    """
    by_store = run.about["rare_concepts"]
    texts: dict[str, None] = {}
    for store, concepts in by_store.items():
        for name, facts in concepts.items():
            are_equal = all(of.get(name) == facts for of in by_store.values())
            where = "" if are_equal else f" on {store}"
            clips = count(facts["least"], "clip")
            folds = f"in {facts['folds']} of {facts['of']} folds"
            texts[f"{name}{where} (down to {clips}, {folds})"] = None
    if texts:
        yield {"concepts": few([*texts])}


def _missing_features(run: Run, models: Models) -> Iterator[Values]:
    """Yield how many clips have no features in each store, with the most frequent reasons."""
    stores = run.about["stores"]
    named: set[str] = set()
    # A join that lacks only what others lack is not named.
    for store in sorted(stores, key=lambda name: "parts" in stores[name]):
        missing = stores[store]["missing"]
        if not missing or ("parts" in stores[store] and named.issuperset(missing)):
            continue
        named.update(missing)
        n_clips = Counter(missing.values()).most_common(MOST_NAMES)
        counts = [f"{n} {reason}" for reason, n in n_clips]
        n_others = len(missing) - sum(n for _, n in n_clips)
        if n_others:
            counts.append(f"{n_others} for other reasons")
        yield {
            "n_missing": len(missing),
            "store": store,
            "reasons": ", ".join(counts),
            "clips": few([*missing], SHOWN_MISSING),
        }


def _without_words(run: Run, models: Models) -> Iterator[Values]:
    """Yield how many clips have no words in each store of words."""
    for store, facts in run.about["stores"].items():
        n_silent = facts.get("without_words", 0)
        if n_silent:
            yield {"n_silent": n_silent, "store": store}


def _chosen_stores(run: Run, models: Models) -> Iterator[Values]:
    """Yield how often each store was chosen for a model of the answer."""
    for cell in chosen_cells(run):
        n_of_store = Counter(fold["chosen"]["store"] for fold in run.folds_of(cell))
        yield {
            "model": cell.model,
            "n_tests": n_of_store.total(),
            "stores": listed([f"{name} {n}" for name, n in n_of_store.most_common()]),
        }


# What finds the facts of each name, the gravest first.
FACTS: dict[str, Callable[[Run, Models], Iterator[Values]]] = {
    "leaks": _leaks,
    "copies": _copies,
    "films on both sides": _films_on_both_sides,
    "clips as films": _clips_as_films,
    "few films": _few_films,
    "no interval": _no_interval,
    "rare concepts": _rare_concepts,
    "skipped folds": _skipped_folds,
    "folds of several films": _folds_of_several_films,
    "picked": _picked,
    "missing features": _missing_features,
    "without words": _without_words,
    "chosen stores": _chosen_stores,
}
