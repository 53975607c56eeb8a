"""What models say of clips: the scores of a run or of a table."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from obygaze.films.predictions import PredictionTable, score_column
from obygaze_features.core.tables import number_of_cell
from obygaze_features.manifest.expression import compared_names
from obygaze_features.manifest.model import Manifest
from obygaze_models.evaluation.cells import Cell
from obygaze_models.protocols.schema import Task
from obygaze_models.runner.answer import model_name, sentence_of
from obygaze_models.runner.files import Run
from obygaze_models.zoo.seen import IN_SAMPLE, OUT_OF_FOLD

Score = dict[str, Any]


def models_to_show(run: Run) -> list[Cell]:
    """Return the cells of models: those with most clips first, else as the protocol has them.

    The order says nothing of how good they are: the test must not choose which one is shown.
    """

    def order(cell: Cell) -> tuple[int, bool]:
        return -cell.n_clips, cell.train != cell.test

    return sorted(run.models, key=order)


def named_cell(run: Run) -> int | None:
    """Return the cell that the protocol names: its only one, or the first of its first question.

    None if it names none.
    """
    cells = models_to_show(run)
    if len(cells) == 1:
        return 0
    questions = run.protocol["report"]["questions"]
    if not questions or not questions[0]["first"]:
        return None
    asked = [questions[0][key] for key in ("train", "test", "first_store", "first")]
    fitting = []
    for number, cell in enumerate(cells):
        if all(name in ("", own) for name, own in zip(asked, cell.name, strict=True)):
            fitting.append(number)
    return fitting[0] if len(fitting) == 1 else None


def scores_of(cell: Cell) -> dict[str, Score]:
    """Return the score of each clip that a cell tested: the mean over fits, and the band.

    `positive` is what the mean score decides, as in the table of errors and in success.csv;
    `correct` is whether that is the label.
    """
    fits_of_clip = cell.rows.groupby("clip")["score"]
    scores = fits_of_clip.agg(low="min", high="max", fits="size")
    positive = cell.mean_scores > cell.threshold
    scores = scores.assign(
        score=cell.mean_scores, positive=positive, correct=positive == cell.y
    )
    score_of_clip: dict[str, Score] = scores.set_index(cell.clip_ids).to_dict("index")
    return score_of_clip


def asked_columns(run: Run) -> list[str]:
    """Return the columns that the tasks of a run compare, those of the first task first."""
    columns: dict[str, None] = {}
    for name in run.protocol["tasks"]:
        task = Task(**run.protocol["tasks"][name])
        for text in (task.column, *compared_names(task.positive)):
            columns[text] = None
    return [*filter(None, columns)]


def run_facts(run: Run) -> dict[str, Any]:
    """Return what the page says about a run before a model is chosen."""
    asked = dict.fromkeys(cell.test for cell in run.models)
    words = [Task(**run.protocol["tasks"][name]).in_words(name) for name in asked]
    questions = "".join(f", {one}" for one in words if one)
    return {
        "name": f"run {run.folder.name}{questions}",
        "models": "models that were not trained on the clip",
        "named": named_cell(run),
    }


def cell_facts(run: Run, cell: Cell) -> dict[str, Any]:
    """Return the scores of one cell, with the sentence of the run on it.

    The axis of scores is 0 to 1 for probabilities and symmetric for margins; in its middle the
    decision changes.
    """
    scores = scores_of(cell)
    return {
        "name": _cell_text(run, cell),
        "text": sentence_of(run, cell),
        "leaked": cell.leaked,
        **_axis_of_scores(scores, "the positive class", cell.gives_probabilities),
        "classes": ["negative", "positive"],
        "decides_alike": _decides_alike(scores),
        "scores": scores,
    }


def _axis_of_scores(
    scores: Mapping[str, Score], of_class: str, are_probabilities: bool
) -> dict[str, Any]:
    """Return what scores are, and the ends of their axis."""
    if are_probabilities:
        return {"scale": [0, 1], "unit": f"probability of {of_class}"}
    furthest = [max(-score["low"], score["high"]) for score in scores.values()]
    most = max(furthest, default=1.0)
    unit = f"distance from the boundary of {of_class}"
    return {"scale": [-most, most], "unit": unit}


def _decides_alike(scores: Mapping[str, Score]) -> bool:
    """Return whether a model calls all clips the same: then it says nothing of one of them."""
    return len({score["positive"] for score in scores.values()}) == 1


def table_facts(table: PredictionTable) -> dict[str, Any]:
    """Return what the page says about a table that `models predict` wrote."""
    return {
        "name": f"the table {table.path.name}",
        "models": "a saved model",
        "named": 0,
    }


def scores_of_table(table: PredictionTable, manifest: Manifest) -> dict[str, Any]:
    """Return the scores of a table, with the basis of each; it does not say what was annotated."""
    column = score_column(table.columns, table.path)
    kind, _, name = column.partition(":")
    scored = {}
    for _, _, row in table.clips:
        if number_of_cell(row[column]) is not None:
            scored[row["clip_id"]] = row
    scores = {}
    for clip in manifest:
        scored_row = scored.get(clip.clip_id)
        if scored_row is None:
            continue
        score = float(scored_row[column])
        scores[clip.clip_id] = {
            "score": score,
            "low": score,
            "high": score,
            "fits": 1,
            "positive": scored_row["decision"] == name,
            "basis": scored_row["basis"],
        }
    n_of_basis = Counter(row["basis"] for row in scored.values())
    counts = ", ".join(f"{n} {basis}" for basis, n in n_of_basis.items())
    text = f"Scores of a saved model, by basis: {counts or 'none'}."
    if OUT_OF_FOLD in n_of_basis:
        text += f" Those that are {OUT_OF_FOLD} are of fits without the clip."
    n_missing = len(table.clips) - len(scored)
    if n_missing:
        text += f" Clips of the table without a score: {n_missing}."
    others = {row["decision"] for _, _, row in table.clips} - {name}
    return {
        "name": f"{table.clips[0].model}: {name}" if table.clips else name,
        "text": text,
        "leaked": n_of_basis[IN_SAMPLE],
        **_axis_of_scores(scores, f"the class {name}", kind == "p"),
        "classes": [max(others, default="negative"), name],
        "decides_alike": _decides_alike(scores),
        "scores": scores,
    }


def _cell_text(run: Run, cell: Cell) -> str:
    """Return the name of a model, with its store, and its tasks where a run has several."""
    tasks = {one.tasks for one in run.models}
    asked = f", {cell.tasks}" if len(tasks) > 1 else ""
    return f"{model_name(run, cell)}{asked}"
