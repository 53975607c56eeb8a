"""What limits a run, in sentences: the warnings that apply, each with what it is about."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from obygaze_features.core.console import count, few, listed
from obygaze_features.core.errors import MEANT
from obygaze_features.core.parts import label_of
from obygaze_models.evaluation.basis import (
    FILM_SEEN,
    LEAKED,
    interval_is_not_of,
    interval_is_of,
    no_interval_because,
)
from obygaze_models.evaluation.bootstrap import FEW_GROUPS, LEAST_GROUPS
from obygaze_models.evaluation.cells import Cell
from obygaze_models.evaluation.metrics import (
    AP,
    AUC,
    RANKING_METRICS,
    goodness,
    metric_name,
)
from obygaze_models.evaluation.results import LEAST_CLIPS
from obygaze_models.protocols.schedule import (
    LEAVES_OUT_GROUPS,
    OWN_SPLITS,
    split_kind,
    unit_of,
)
from obygaze_models.runner.answer import (
    BETTER,
    MARGIN,
    best_guess,
    cell_label,
    compared_metric,
    difference_to_guess,
    films_with_value,
    joined_stores,
    number_range,
    short,
    verdict,
)
from obygaze_models.runner.features import SHOWN_MISSING
from obygaze_models.runner.files import Run

SHOWN_REASONS = 3  # of clips without features, in one line
MANY_FOLDS = 300  # of films: where a run warns
FEW_FOLDS = 10  # what it then offers
# Warnings that values are too high, as test clips are on the side of training too.
ON_BOTH_SIDES = ("leaks", "copies", "films on both sides")
MOST_REASONS = 3  # and folds with a reason, that a warning names


@dataclass(frozen=True)
class RunWarning:
    """A sentence on what limits a run, and a word for what it is about, such as `leaks`."""

    about: str
    text: str


def warnings_of(run: Run) -> list[RunWarning]:
    """Return the warnings that apply to a run, the gravest first."""
    cells = run.cells
    models = [cell for cell in cells if cell.is_model]
    texts = {
        "leaks": leaks(run, models),
        "copies": copies(run, models),
        "films on both sides": films_on_both_sides(run, models),
        "clips as films": clips_as_films(run),
        "guessing": no_better_than_guessing(run, models),
        "chance": chance(run, models),
        "few films": few_films(run, models),
        "no interval": without_interval(run, models),
        "rare concepts": rare_concepts_text(run.about["rare_concepts"]),
        "skipped folds": skipped_folds(run),
        "folds of several films": folds_of_several_films(run, cells),
        "many fits": many_fits(run.protocol["splits"], _n_folds(models)),
        "several stores": several_stores(run, models),
    }
    for store, facts in stores_lacking_clips(run).items():
        texts[f"missing features of {store}"] = missing_features(run, store, facts)
    for store, facts in run.about["stores"].items():
        texts[f"without words in {store}"] = without_words(run, store, facts)
    texts.update(run.about["remarks"])
    return [RunWarning(about, text) for about, text in texts.items() if text]


def leaks(run: Run, models: Sequence[Cell]) -> str:
    """Warn of tested clips that trained, chose, or found concept vectors."""
    leaked = [cell for cell in models if _leaked_by_name(cell) > 0]
    if not leaked:
        return ""
    worst = max(leaked, key=lambda cell: _leaked_by_name(cell) / cell.n_clips)
    return (
        f"{len(leaked)} of {len(models)} cells are of clips that trained or chose, so that they "
        f"are too high, and have no interval, no p and no place among differences: up to "
        f"{_leaked_by_name(worst)} of the {worst.n_clips} test clips of {worst.tasks}."
    )


def _leaked_by_name(cell: Cell) -> int:
    return cell.leaked - cell.copies


def copies(run: Run, models: Sequence[Cell]) -> str:
    """Warn of tested clips with exactly the features of a training clip of another name."""
    copied = [cell for cell in models if cell.copies]
    if not copied:
        return ""
    worst = max(copied, key=lambda cell: cell.copies / cell.n_clips)
    return (
        f"{len(copied)} of {len(models)} cells are of clips with exactly the features of a "
        "training clip (the same pictures or words under another name, or short vectors that "
        "are equal by chance): "
        f"up to {worst.copies} of the {worst.n_clips} test clips of "
        f"{worst.tasks} ({worst.store})."
    )


def films_on_both_sides(run: Run, models: Sequence[Cell]) -> str:
    """Warn of test clips of films that trained, and say what values and intervals are of.

    A column of the manifest may divide films by mistake, so it is named.
    """
    divided = [cell for cell in models if cell.basis == FILM_SEEN]
    if not divided:
        return ""
    worst = max(divided, key=lambda cell: cell.same_film / cell.n_clips)
    column = run.protocol["splits"]["column"]
    because = f", because the column {column} divides {run.units}" if column else ""
    return (
        f"Up to {worst.same_film} of the {worst.n_clips} test clips of"
        f" {worst.tasks} are of {run.units} that train or validate too{because}: values and"
        f" intervals are of {interval_is_of(FILM_SEEN, run.units)};"
        f" {interval_is_not_of(FILM_SEEN, run.units)}."
    )


def no_better_than_guessing(run: Run, models: Sequence[Cell]) -> str:
    """Warn of models that are hardly better than a baseline that sees no video.

    Where test clips of either leaked, its value is too high, and nothing follows from it.
    """
    primary = str(run.protocol["report"]["primary"])
    close = []
    for cell in models:
        guess = best_guess(run, cell, primary)
        if guess is None or LEAKED in (cell.basis, guess.basis):
            continue
        if _lead(cell, guess, primary) < MARGIN:
            close.append((cell, guess))
    if not close:
        return ""
    cell, guess = min(close, key=lambda pair: _lead(pair[0], pair[1], primary))
    return (
        f"Hardly or not better than guessing without video: {len(close)} of {len(models)} cells. "
        f"{guess.model} has {metric_name(primary)} "
        f"{short(guess.value(primary))}, {label_of(cell.model)} {short(cell.value(primary))} "
        f"({cell_label(cell, run)})."
    )


def _lead(cell: Cell, other: Cell, metric: str) -> float:
    """Return by how much a cell is better than another one; infinity if it has no value."""
    ours = cell.value(metric)
    if not math.isfinite(ours):
        return math.inf
    return goodness(metric, ours) - goodness(metric, other.value(metric))


def chance(run: Run, models: Sequence[Cell]) -> str:
    """Warn of models whose interval of AUC does not lie above one half."""
    by_chance = [cell for cell in models if cell.ends(AUC.name)[0] <= 0.5]
    if not by_chance:
        return ""
    metric = compared_metric(run)
    names = []
    better = []
    for cell in by_chance:
        name = f"{label_of(cell.model)} ({cell_label(cell, run)})"
        names.append(name)
        guess = best_guess(run, cell, metric)
        if guess is not None and metric != AUC.name:
            difference = difference_to_guess(run, cell, guess)
            if verdict(difference) == BETTER:
                better.append(name)
    text = (
        f"In {len(by_chance)} of {len(models)} cells the interval of AUC does not lie above one "
        f"half: by AUC, these may be no better than chance: {few(names, most=3)}."
    )
    if better:
        text += (
            f" By {metric_name(metric)}, these of them are shown to be better than guessing:"
            f" {few(better, most=3)}."
        )
    return text


def clips_as_films(run: Run) -> str:
    """Warn where each clip is called a film: nobody knows which of them are of one film."""
    manifest = run.about["manifest"]
    if not 1 < manifest["n_clips"] == manifest["n_films"]:
        return ""
    return (
        "Each clip is a film of its own in this manifest: if some of them are parts of one film,"
        " the models have seen films that test them. Their films belong in movie_id; a table that"
        " states none is imported with --films none."
    )


def few_films(run: Run, models: Sequence[Cell]) -> str:
    """Warn of values of so few films that these may be alike or differ by chance."""
    counts = [cell.film_counts(compared_metric(run)) for cell in models]
    of_few = [films for films in counts if films[0] < FEW_GROUPS]
    if not of_few or not run.has_groups:
        return ""
    known = films_with_value(of_few, run.unit)
    if not known:
        n_tested = number_range([tested for _, tested in of_few])
        known = f"tested {run.units} are few ({n_tested})"
    return (
        f"In {len(of_few)} of {len(models)} cells {known}; these may be alike or differ by"
        f" chance, and say little about other {run.units}."
    )


def without_interval(run: Run, models: Sequence[Cell]) -> str:
    """Warn of models without an interval, and say why they have none."""
    without = [
        cell for cell in models if not any(map(cell.has_interval, RANKING_METRICS))
    ]
    if not without:
        return ""
    reasons = dict.fromkeys(why_no_interval(cell, run) for cell in without)
    return (
        f"{len(without)} of {len(models)} cells have no interval: {'; '.join(reasons)}."
    )


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
        n_in_all = run.about["manifest"]["positive_films"][cell.test]
        which = f"tested {run.unit}"
        if n_in_all < LEAST_GROUPS:
            # Films with positive clips may be those of a fold that is left out.
            which = run.unit
            n_films = n_in_all
        verb = "have" if n_films > 1 else "has"
        return (
            f"{count(n_films, which) if n_films else f'no {which}'} of {cell.tasks} {verb}"
            f" positive clips, and {LEAST_GROUPS} are needed"
        )
    if min(n_positive, n_negative) < LEAST_CLIPS:
        return (
            f"{cell.tasks} tests {count(n_positive, 'positive clip')} and "
            f"{count(n_negative, 'negative clip')}, and {LEAST_CLIPS} of each are needed"
        )
    return f"the values do not differ from {run.unit} to {run.unit}"


def rare_concepts_text(by_store: Mapping[str, Mapping[str, Mapping[str, int]]]) -> str:
    """Return a sentence on concepts that are left out.

    Args:
        by_store: For each store, the concepts with `folds`, in how many folds a concept is left
            out, `of`, of how many, and `least`, the fewest clips with it, or without it.
    """
    listed = {}
    for store, concepts in by_store.items():
        for name, facts in concepts.items():
            clips = count(facts["least"], "clip")
            folds = f"in {facts['folds']} of {facts['of']} folds"
            # Stores that lack other clips have other numbers.
            are_equal = all(of.get(name) == facts for of in by_store.values())
            key = name if are_equal else f"{name} on {store}"
            listed[key] = f"{key} (down to {clips}, {folds})"
    if not listed:
        return ""
    return (
        "Bottlenecks do without concepts that too few training clips have or lack: "
        f"{few(list(listed.values()))}."
    )


def skipped_folds(run: Run) -> str:
    """Warn of folds that could not be trained or tested: their films, and the stores if not all."""
    stores_of: dict[str, dict[tuple[str, str], set[str]]] = {}
    for facts in run.about["fits"]:
        for fold, reason in facts["skipped"].items():
            of_reason = stores_of.setdefault(reason, {})
            of_reason.setdefault((facts["test"], fold), set()).add(facts["store"])
    if not stores_of:
        return ""
    films = _films_of_folds(run)
    every_store = {facts["store"] for facts in run.about["fits"]} - {""}
    folds: set[str] = set()
    for of_reason in stores_of.values():
        folds.update(fold for _, fold in of_reason)
    parts = []
    for reason in sorted(stores_of)[:MOST_REASONS]:
        named: dict[str, None] = {}
        for (test, fold), stores in stores_of[reason].items():
            name = fold
            if (test, fold) in films:
                name += f" with {few(sorted(films[test, fold]), MOST_REASONS)}"
            if "" not in stores and stores < every_store:
                name += f" on {listed(sorted(stores))}"
            named[name] = None
        parts.append(f"{reason} ({few([*named], MOST_REASONS)})")
    return f"{count(len(folds), 'fold')} left out: {'; '.join(parts)}."


def _films_of_folds(run: Run) -> dict[tuple[str, str], set[str]]:
    """Return the films of each test task and fold that some model or store tested or left out."""
    films: dict[tuple[str, str], set[str]] = {}
    for facts in run.about["fits"]:
        for fold, names in facts["skipped_films"].items():
            films.setdefault((facts["test"], fold), set()).update(names)
    tested = run.predictions[run.predictions["group"] != ""]
    by_fold: Any = tested.groupby(["test", "fold"])["group"]
    for (test, fold), groups in by_fold:
        films.setdefault((test, fold), set()).update(groups.unique())
    return films


def folds_of_several_films(run: Run, cells: Sequence[Cell]) -> str:
    """Warn where a person's folds hold several films, and intervals are over films all the same.

    Of a run with groups, the person has said over what intervals are.
    """
    kind = split_kind(run.protocol["splits"]["kind"])
    of_whole_films = [
        cell for cell in cells if cell.is_trained and not cell.knows_films
    ]
    has_interval = any(cell.has_interval(AP.name) for cell in of_whole_films)
    may_hold_several = kind.by_task or kind is OWN_SPLITS
    if run.holds_out_groups or not may_hold_several or not has_interval:
        return ""
    most = max(map(len, _films_of_folds(run).values()), default=0)
    if most < 2:
        return ""
    return (
        f"Folds hold up to {most} films, and intervals and p are over films: they say nothing of"
        f" other groups. {LEAVES_OUT_GROUPS[0].upper()}{LEAVES_OUT_GROUPS[1:]}."
    )


def many_fits(splits: Mapping[str, Any], n_folds: int) -> str:
    """Warn where each of many films is left out, which takes a fit each.

    Args:
        splits: The splits of the protocol.
        n_folds: The number of folds.
    """
    unit = unit_of(splits["kind"], splits["column"])
    is_each_film = split_kind(splits["kind"]).leaves_one_out and not splits["folds"]
    if n_folds <= MANY_FOLDS or not is_each_film:
        return ""
    return (
        f"Each model is fitted {n_folds:,} times for a task, because one {unit} at a time is left"
        f" out: --set splits.validation=next --set splits.folds={FEW_FOLDS} takes {FEW_FOLDS} fits."
    )


def _n_folds(models: Sequence[Cell]) -> int:
    """Return the largest number of folds of a model."""
    most = 0
    for cell in models:
        most = max(most, len(cell.folds))
    return most


def several_stores(run: Run, models: Sequence[Cell]) -> str:
    """Warn that the best of several stores was picked by its own test films."""
    stores = {cell.store for cell in models}
    if len(stores) < 2 or run.protocol["fit"]["choose_store"]:
        return ""
    return (
        "The best of several stores is too good if it is picked from this table, by its own test "
        f"{run.units}: --set fit.choose_store=true adds results in which training {run.units}"
        " choose."
    )


def stores_lacking_clips(run: Run) -> dict[str, Mapping[str, Any]]:
    """Return what run.json says of the stores without features of some clips, each with all of its.

    A joined store that lacks only what others lack is not named.
    """
    stores: dict[str, Mapping[str, Any]] = run.about["stores"]
    joined = joined_stores(run)
    lacking: dict[str, Mapping[str, Any]] = {}
    named: set[str] = set()
    for name in sorted(stores, key=joined.__contains__):
        missing = stores[name]["missing"]
        if not missing or (name in joined and named.issuperset(missing)):
            continue
        named.update(missing)
        lacking[name] = stores[name]
    return lacking


def missing_features(run: Run, store: str, facts: Mapping[str, Any]) -> str:
    """Warn of clips without features in a store."""
    missing = facts["missing"]
    reasons_of_clips = []
    named = []
    for clip, reason in missing.items():
        reason, is_like, other = reason.partition(MEANT)
        reasons_of_clips.append(reason)
        named.append(f"{clip}{is_like}{other}")
    by_reason = Counter(reasons_of_clips).most_common()
    counts = [f"{n} {reason}" for reason, n in by_reason[:SHOWN_REASONS]]
    n_others = sum(n for _, n in by_reason[SHOWN_REASONS:])
    if n_others:
        counts.append(f"{n_others} for other reasons")
    reasons = ", ".join(counts)
    n_clips = run.about["manifest"]["n_clips"]
    return (
        f"{len(missing)} of {n_clips} clips have no features in {store} and are left"
        f" out ({reasons}): {few(named, SHOWN_MISSING)}."
    )


def without_words(run: Run, store: str, facts: Mapping[str, Any]) -> str:
    """Say how many clips have no words in a store of words."""
    n_silent = facts.get("without_words", 0)
    if not n_silent:
        return ""
    n_clips = run.about["manifest"]["n_clips"]
    return (
        f"{n_silent} of {n_clips} clips have no words in {store}, so they all have the"
        " same vector; they are not counted as copies of each other."
    )
