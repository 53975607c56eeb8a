"""Scores of models for the page of a film, from a run or from a table of predictions."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from obygaze.films.predictions import PredictionTable, score_column
from obygaze_features.core.tables import number_of_cell
from obygaze_features.manifest.expression import compared_names
from obygaze_features.manifest.model import Manifest
from obygaze_models.evaluation.clip_scores import ClipScores, clip_scores
from obygaze_models.protocols.schema import Task
from obygaze_models.runner.answer import describe_cell, model_name
from obygaze_models.runner.files import ResultRows, Run
from obygaze_models.zoo.training_overlap import IN_SAMPLE, OUT_OF_FOLD

Score = dict[str, Any]


def models_to_show(run: Run) -> list[ResultRows]:
    """Return the cells of models (not of baselines), sorted: cells with more clips first.

    Of cells with equally many clips, the cells that train and test on the same task come first. If
    two cells are equal in both respects, they keep the order of the protocol. The sort order does
    not depend on test scores, because the test must not choose which model is shown.
    """
    return sorted(run.models, key=lambda cell: (-cell.clips, cell.train != cell.test))


def named_cell(run: Run) -> int | None:
    """Return the number of the cell that is shown first, or None if the protocol names none.

    The number is the index in the list of `models_to_show`. If the list has one cell, this cell is
    shown first. If the list has several cells, the cell of the model that the protocol is about
    (`report.lead`) is shown first. The result is None if several cells are of this model.
    """
    cells = models_to_show(run)
    settings = run.settings
    fitting = []
    for number, cell in enumerate(cells):
        if cell.model == settings.lead and settings.is_about(cell.pair):
            fitting.append(number)
    if len(cells) == 1:
        return 0
    return fitting[0] if len(fitting) == 1 else None


def scores_of(scores: ClipScores) -> dict[str, Score]:
    """Return for each tested clip of a cell its mean, lowest and highest score over fits.

    `positive` is whether the mean score is above the threshold of the cell. The table of errors of
    the report, and success.csv, use the same decision. `correct` is whether the decision equals the
    label.
    """
    correct = scores.is_positive == scores.y
    columns = (scores.low, scores.high, scores.fits, scores.score, scores.is_positive)
    names = ("low", "high", "fits", "score", "positive", "correct")
    values = zip(*(column.tolist() for column in (*columns, correct)), strict=True)
    of_clips = (dict(zip(names, of_clip, strict=True)) for of_clip in values)
    return dict(zip(scores.ids.tolist(), of_clips, strict=True))


def task_columns(run: Run) -> list[str]:
    """Return the columns that the tasks of a run use, starting with the first task."""
    columns: dict[str, None] = {}
    for facts in run.protocol["tasks"].values():
        task = Task(**facts)
        columns |= dict.fromkeys((task.column, *compared_names(task.positive)))
    return [*filter(None, columns)]


def run_facts(run: Run) -> dict[str, Any]:
    """Return the facts of a run that the page shows before a model is chosen."""
    asked = dict.fromkeys(cell.test for cell in run.models)
    words = [Task(**run.protocol["tasks"][name]).in_words(name) for name in asked]
    return {
        "name": ", ".join([f"run {run.folder.name}", *filter(None, words)]),
        "models": "models that were not trained on the clip",
        "named": named_cell(run),
    }


def cell_facts(run: Run, cell: ResultRows) -> dict[str, Any]:
    """Return the scores of one cell, with its name, its leaked clips, and a sentence about it."""
    name = model_name(run, cell)
    scores = clip_scores(run.tests_of(cell))
    are_probabilities = scores.threshold == 0.5
    # If a run has several tasks, the name includes them.
    if len({one.tasks for one in run.models}) > 1:
        name += f", {cell.tasks}"
    return {
        "name": name,
        "text": describe_cell(run, cell),
        "leaked": cell.leaked,
        "classes": ["negative", "positive"],
        **_on_axis(scores_of(scores), "the positive class", are_probabilities),
    }


def _on_axis(
    scores: Mapping[str, Score], of_class: str, are_probabilities: bool
) -> dict[str, Any]:
    """Return scores with their unit and the ends of the axis on which they are drawn.

    `of_class` names the class of high scores.

    The axis is 0 to 1 for probabilities, and symmetric around 0 for distances; the decision changes
    in the middle of the axis. `decides_alike` is true if all clips get the same decision, so that
    the decisions do not tell clips apart.
    """
    furthest = [max(-score["low"], score["high"]) for score in scores.values()]
    most = max(furthest, default=1.0)
    unit = f"distance from the boundary of {of_class}"
    if are_probabilities:
        unit = f"probability of {of_class}"
    return {
        "scale": [0, 1] if are_probabilities else [-most, most],
        "unit": unit,
        "decides_alike": len({score["positive"] for score in scores.values()}) == 1,
        "scores": scores,
    }


def table_facts(table: PredictionTable) -> dict[str, Any]:
    """Return the facts of a table of `models predict` that the page shows."""
    return {
        "name": f"the table {table.path.name}",
        "models": "a saved model",
        "named": 0,
    }


def table_scores(table: PredictionTable, manifest: Manifest) -> dict[str, Any]:
    """Return the scores of a table of `models predict`.

    Each score has its basis, which states how the score relates to the training. The table has no
    labels, so no score is marked as correct or wrong.
    """
    column = score_column(table.columns, table.path)
    kind, _, name = column.partition(":")
    scored = {}
    for clip, _, row in table.clips:
        score = number_of_cell(row[column])
        if score is None:
            continue
        scored[clip.clip_id] = {
            **dict.fromkeys(("score", "low", "high"), score),
            "fits": 1,
            "positive": row["decision"] == name,
            "basis": row["basis"],
        }
    n_of_basis = Counter(score["basis"] for score in scored.values())
    counts = ", ".join(f"{n} {basis}" for basis, n in n_of_basis.items())
    text = f"Scores of a saved model, counted by basis in the whole table: {counts or 'none'}."
    if OUT_OF_FOLD in n_of_basis:
        text += f" Scores that are {OUT_OF_FOLD} come from fits without the clip."
    n_missing = len(table.clips) - len(scored)
    if n_missing:
        text += f" Clips of the table without a score: {n_missing}."
    others = {row["decision"] for _, _, row in table.clips} - {name}
    in_order = {id_: scored[id_] for id_ in manifest.clip_ids if id_ in scored}
    return {
        "name": f"{table.clips[0].model}: {name}" if table.clips else name,
        "text": text,
        "leaked": n_of_basis[IN_SAMPLE],
        "classes": [max(others, default="negative"), name],
        **_on_axis(in_order, f"the class {name}", kind == "p"),
    }
