"""Draw the queue of an annotator, or go on with the one that was begun."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from obygaze.films.decisions import (
    cell_facts,
    models_of,
    named_cell,
    run_facts,
)
from obygaze.films.queue import (
    ASSISTED,
    QueuedClip,
    Suggestion,
    disagreed_order,
    diverse_order,
    draw_queue,
    keep_queue,
    queue_path,
    random_order,
    read_queue,
    uncertain_order,
)
from obygaze.films.site import Site
from obygaze_features.core.console import few
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.files import sha256_bytes
from obygaze_models.runner.tables import Run

# Each clip is compared with all others; later ones differ little from those before.
MOST_DIVERSE = 500


@dataclass(frozen=True)
class SuggestingModel:
    """What a model of a run says of clips that have a place in their film.

    `decisions` has those of all models of the run for the same task, of each fit.
    """

    text: str
    cut_off: float
    scores: Mapping[str, float]
    decisions: Mapping[str, Sequence[bool]]
    suggestions: Mapping[str, Suggestion]


def queue_of(
    site: Site, orders: Sequence[str], suggest: str | None
) -> list[QueuedClip]:
    """Return the queue of the annotator of a page: the one that was begun, else a new one.

    Args:
        site: The page, with the run and the features that the orders need.
        orders: The orders by which clips are chosen.
        suggest: The model whose decisions are suggested.
    """
    if site.marks is None:
        raise FixUsage("a queue needs an annotator", hint="--annotate NAME")
    site.require_places()
    model = None
    if site.run is not None:
        model = _model_of(site.run, suggest, set(site.spans_by_id))
    elif suggest is not None:
        raise FixUsage("--suggest needs --run", hint="--run RUN with it")
    path = queue_path(site.marks.path)
    if path.is_file():
        queue = read_queue(path)
        _require_as_begun(queue, path, site, orders, model)
        return queue
    name = f"{site.manifest.name} {site.marks.annotator}"
    generator = np.random.default_rng(list(sha256_bytes(name.encode()).encode()))
    rankings = {}
    for order in orders:
        rankings[order] = _ranking(site, order, model, generator)
        if not rankings[order]:
            raise FixUsage(f"--queue {order}: no clip has what this order needs")
    suggestions: Mapping[str, Suggestion] = {}
    if model is not None and not site.blind:
        suggestions = model.suggestions
    film_of = {clip: span.movie_id for clip, span in site.spans_by_id.items()}
    queue = draw_queue(rankings, film_of, suggestions, generator)
    keep_queue(path, queue)
    return queue


def _require_as_begun(
    queue: Sequence[QueuedClip],
    path: Path,
    site: Site,
    orders: Sequence[str],
    model: SuggestingModel | None,
) -> None:
    """Raise an error where a queue was begun with other orders, another model or another arm."""
    begun = list(dict.fromkeys(clip.order for clip in queue))
    models = {clip.model for clip in queue if clip.model}
    problem = ""
    if set(begun) != set(orders):
        problem = f"it has the orders {', '.join(begun)}, not {', '.join(orders)}"
    elif model is not None and models and model.text not in models:
        problem = f"it has suggestions of {', '.join(models)}, not of {model.text}"
    elif site.blind and any(clip.arm == ASSISTED for clip in queue):
        problem = "half of its clips have suggestions"
    if problem:
        raise FixUsage(
            f"this queue was begun otherwise: {problem}",
            where=str(path),
            hint="go on with the options that it was begun with, or use another --annotate NAME",
        )


def _ranking(
    site: Site,
    order: str,
    model: SuggestingModel | None,
    generator: np.random.Generator,
) -> list[str]:
    """Return the clips with a place in their film in one of the orders."""
    clip_ids = sorted(site.spans_by_id)
    if order == "random":
        return random_order(clip_ids, generator)
    if order == "diverse":
        return _diverse(site)
    if model is None:
        raise FixUsage(f"--queue {order} needs the scores of a run", hint="--run RUN")
    if order == "uncertain":
        return uncertain_order(model.scores, model.cut_off)
    return disagreed_order(model.decisions)


def _diverse(site: Site) -> list[str]:
    if site.store is None:
        raise FixUsage("--queue diverse needs features", hint="--store STORE")
    clip_ids, vectors = site.features
    rows = [row for row, clip in enumerate(clip_ids) if clip in site.spans_by_id]
    chosen = [clip_ids[row] for row in rows]
    return list(islice(diverse_order(chosen, vectors[rows]), MOST_DIVERSE))


def _is_named(text: str, name: str) -> bool:
    """Return whether a name is that of a model as the page lists it: ridge, or ridge (store)."""
    return text == name or text.startswith((f"{name} ", f"{name}:"))


def _task_asked(run: Run) -> str:
    """Return the test task of the first question of the protocol; "" without one."""
    questions = run.protocol["report"]["questions"] or [{}]
    return str(questions[0].get("test") or "")


def _model_of(run: Run, suggest: str | None, placed: set[str]) -> SuggestingModel:
    """Return the model of a run that is named, or that the protocol names.

    Args:
        run: The run.
        suggest: The name of a model, as ridge or ridge (store), or the text by which the page
            lists it. Of several tasks it is that of the first question.
        placed: The clips with a place in their film.
    """
    cells = models_of(run)
    texts = run_facts(run)["cells"]
    numbers = []
    for number, cell in enumerate(cells):
        classes = run.protocol["tasks"][cell.test].get("classes")
        if classes and cell.train == cell.test:
            numbers.append(number)
    named = named_cell(run)
    fitting = numbers
    if suggest is not None:
        fitting = [number for number in numbers if _is_named(texts[number], suggest)]
        asked = [n for n in fitting if cells[n].test == _task_asked(run)]
        fitting = asked or fitting
    elif named in numbers:
        fitting = [named]
    if len(fitting) != 1:
        known = [repr(texts[number]) for number in fitting or numbers]
        problem = "the run has no model of levels that was tested on its training task"
        if known:
            problem = f"which model is to suggest levels? The run has {few(known, 5)}"
        if suggest is not None and not fitting:
            problem = f"--suggest names {suggest!r}; the run has {few(known, 5)}"
        raise FixUsage(problem, hint="--suggest MODEL")
    (chosen,) = fitting
    cell = cells[chosen]
    facts = cell_facts(run, chosen)
    classes = run.protocol["tasks"][cell.test]["classes"]
    positive = "|".join(level for level, value in classes.items() if value == 1)
    negative = "|".join(level for level, value in classes.items() if value == 0)
    scores = {}
    suggestions = {}
    for clip, score in facts["scores"].items():
        if clip not in placed:
            continue
        scores[clip] = score["score"]
        sides = (positive, negative) if score["positive"] else (negative, positive)
        suggestions[clip] = Suggestion(texts[chosen], score["score"], *sides)
    decisions: dict[str, list[bool]] = {}
    for row in run.predictions:
        is_of_task = (row["train"], row["test"]) == (cell.train, cell.test)
        if is_of_task and row["store"] and row["clip_id"] in placed:
            decisions.setdefault(row["clip_id"], []).append(row["decision"])
    cut_off = sum(facts["scale"]) / 2
    return SuggestingModel(texts[chosen], cut_off, scores, decisions, suggestions)
