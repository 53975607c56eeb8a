"""Tables of predictions: the scores of models for the clips of a manifest.

`models predict -o` and `search -o` write such tables, and each run writes one as predictions.csv.
The export of scores as ELAN tiers and the page of a film read these tables with this module.
"""

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from obygaze_features.core.console import few
from obygaze_features.core.errors import FixInput, ObygazeWarning
from obygaze_features.core.notebook import unknown_name
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.tables import TableRow, read_table
from obygaze_features.manifest.expression import compared_names
from obygaze_features.manifest.model import Clip, Manifest

# A column with the scores of a class: probabilities (p), or distances from the boundary (score).
SCORE = re.compile(r"(p|score):.+")


class PredictedClip(NamedTuple):
    """A row of predictions with its clip.

    `model` joins the task, the model and the store of the row, and its seed if the table has
    several seeds. If the row states none of them, `model` is the name of the table.
    """

    clip: Clip
    model: str
    row: TableRow


@dataclass(frozen=True)
class PredictionTable:
    """The columns and the rows of a table of predictions for the clips of a manifest."""

    path: Path
    columns: Sequence[str]
    clips: Sequence[PredictedClip]

    @property
    def task_columns(self) -> list[str]:
        """The columns that the tasks of the table compare."""
        columns: dict[str, None] = {}
        for one in self.clips:
            columns |= dict.fromkeys(compared_names(one.row.cells.get("task", "")))
        return [*columns]


def read_predictions(
    manifest: Manifest,
    path: Path,
    *,
    required: Sequence[str] = (),
    only_model: str | None = None,
) -> PredictionTable:
    """Return the rows of a table of predictions: of all its models, or of one (`only_model`).

    Raise an error if the rows are about clips that differ from the clips of the manifest.

    The baselines of a run are excluded if the run has models, because a tier with the name of a
    baseline, such as `oracle`, would be taken for a model.
    """
    # This import loads NumPy, which the help of commands does not need.
    from obygaze_features.manifest.clip_table import ClipTable
    from obygaze_features.manifest.same_clips import same_clips

    violations = Violations(path)
    columns = ("clip_id", *required)
    table = read_table(
        path, required=columns, content="predictions", violations=violations
    )
    violations.raise_if_any("the predictions cannot be read")
    rows = table.rows
    if only_model is not None:
        models = sorted({row.cells.get("model", "") for row in rows} - {""})
        if only_model not in models:
            raise unknown_name("model", only_model, models, where=str(path))
        rows = tuple(row for row in rows if row["model"] == only_model)
    guesses = {row["model"] for row in rows if row.cells.get("is_model") == "0"}
    of_models = tuple(row for row in rows if row.cells.get("model") not in guesses)
    if guesses and of_models:
        rows = of_models
        _warn(
            "not exported, because they are baselines of the run:"
            f" {', '.join(sorted(guesses))}"
        )
    makers: list[str] = [name for name in ("model", "store") if name in table.columns]
    if len({row.cells.get("seed", "") for row in table.rows}) > 1:
        makers.append("seed")
    line_of: dict[tuple[str, str], int] = {}
    predicted = []
    for row in rows:
        task = row.cells.get("task", "")
        train = row.cells.get("train", task)
        asked = task if train == task else f"{train} -> {task}"
        names = [asked, *(row[name] for name in makers)]
        model = " ".join(filter(None, names)) or path.stem
        earlier = line_of.setdefault((row["clip_id"], model), row.line)
        if earlier != row.line:
            row.add("clip_id", f"{model} already has this clip in line {earlier}")
        predicted.append(PredictedClip(manifest[row["clip_id"]], model, row))
    violations.raise_if_any("the predictions are not of these clips")
    stated = ClipTable.of_cells([one.row.cells for one in predicted])
    same_clips(stated, ClipTable.of_clips(manifest.clips)).require(
        ("the predictions", f"the manifest {manifest.name}"), where=str(path)
    )
    return PredictionTable(path, table.columns, predicted)


def _warn(sentence: str) -> None:
    warnings.warn(sentence, ObygazeWarning, stacklevel=3)


def score_column(columns: Sequence[str], path: Path) -> str:
    """Return the only column of scores, or the second of two. Raise an error for more or none."""
    scored = [name for name in columns if SCORE.fullmatch(name)]
    if not 1 <= len(scored) <= 2:
        raise FixInput(
            "expected one column of scores (score:NAME, or p:NAME if there are two classes), got"
            f" {few(scored) or 'none'}",
            where=str(path),
            hint="make the table with obygaze models predict MODEL STORE -o scores.csv",
        )
    return scored[-1]
