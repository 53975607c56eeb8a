"""Write a run of MediaEval 2015, induced affect: a class of valence and one of arousal a clip.

The task has three classes, which its annotation files derive from scores on [-1, 1]: below -.15 is
negative, above .15 positive, and the bounds themselves are neutral.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from obygaze.extensions.audits.mediaeval_runs import CLASSES
from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_features.core.files import pretty_json, write_all_new
from obygaze_features.core.function_commands import command_of
from obygaze_features.core.options import Option
from obygaze_features.core.schema_rules import near
from obygaze_features.manifest.tables import CsvTable, read_table
from obygaze_models.zoo.mediaeval_file import facts_path, official_name

BOUND = 0.15
NAME_COLUMNS = ("clip_id", "name")
# The column of decisions in a table of `obygaze models predict`.
DECISION = "decision"


@dataclass(frozen=True)
class AffectRun:
    """The run and the file of its facts; how many clips have each class of both subtasks."""

    written: tuple[Path, Path]
    n_clips: int
    valence: dict[int, int]
    arousal: dict[int, int]

    def to_json(self) -> dict[str, Any]:
        """Return the files and the counts."""
        return {
            "written": [str(path) for path in self.written],
            "clips": self.n_clips,
            "valence": {str(value): n for value, n in self.valence.items()},
            "arousal": {str(value): n for value, n in self.arousal.items()},
        }

    def __str__(self) -> str:
        lines = [f"wrote {self.n_clips} clips to {self.written[0]}"]
        for subtask in ("valence", "arousal"):
            counts = getattr(self, subtask)
            shown = ", ".join(f"{value} {n}" for value, n in counts.items())
            lines.append(f"{subtask}: {shown}")
        return "\n".join(lines)


def affect_class(score: float) -> int:
    """Return the class of a score on [-1, 1], as in the files of the task.

    >>> [affect_class(score) for score in (-0.16, -0.15, 0.0, 0.15, 0.16)]
    [-1, 0, 0, 0, 1]
    """
    if score < -BOUND:
        return -1
    if score > BOUND:
        return 1
    return 0


def write_affect_run(
    valence: str | Path,
    arousal: str | Path | None = None,
    *,
    output: Annotated[str | Path, Option("-o --output", is_file=True)],
    valence_column: str | None = None,
    arousal_column: str | None = None,
    no_external_data: bool = False,
    tag: str = "obygaze",
    force: bool = False,
) -> AffectRun:
    """Write a run of MediaEval 2015, induced affect, from scores or classes of each clip.

    A table has a row for each clip: its name or clip_id, and a number on [-1, 1]. The class is
    negative below -0.15, positive above 0.15, else neutral, as in the files of the task; -1, 0 and
    1 stay what they are. A table of `obygaze models predict -o`, of an estimator of these three
    classes, has them in the column decision.

    Args:
        valence: A CSV table with the valence of each clip.
        arousal: A CSV table with the arousal; by default the same table.
        output: The run: lines of name, valence class, arousal class. The JSON file beside it says
            whether external data was used.
        valence_column: The column of the valence. The default is "valence", else "decision".
        arousal_column: The column of the arousal. The default is "arousal", else "decision".
        no_external_data: Neither models nor backbones saw data from outside the task.
        tag: The name of the run, in the JSON file.
        force: Replace the files if they exist.

    Commands:
        obygaze audit affect-run scores.csv -o affect.txt
        obygaze audit affect-run valence.csv arousal.csv -o affect.txt
        obygaze audit affect-run scores.csv -o affect.txt --valence-column v --arousal-column a
    """
    path = Path(output)
    if path.suffix == ".json":
        raise FixUsage(
            f"a run must not be a .json file, got {path.name!r}", hint="run.txt"
        )
    valence_column, valence_classes = _classes(Path(valence), "valence", valence_column)
    arousal_column, arousal_classes = _classes(
        Path(arousal or valence), "arousal", arousal_column
    )
    if arousal is None and valence_column == arousal_column:
        raise FixUsage(
            f"valence and arousal are the same column {valence_column!r} of one table",
            hint="--valence-column and --arousal-column, or two tables",
        )
    only_one = sorted(valence_classes.keys() ^ arousal_classes.keys())
    if only_one:
        raise FixInput(
            f"{len(only_one)} clips have valence or arousal, but not both; the first is "
            f"{only_one[0]}",
            where=f"{valence}, {arousal or valence}",
        )
    names = sorted(valence_classes)
    lines = []
    for name in names:
        lines.append(f"{name} {valence_classes[name]} {arousal_classes[name]}\n")
    facts = {"subtask": "affect", "external_data": not no_external_data, "tag": tag}
    beside = facts_path(path)
    files = {path: "".join(lines).encode("utf-8"), beside: pretty_json(facts)}
    write_all_new(files, force=force)
    return AffectRun(
        (path, beside),
        len(names),
        _counts([valence_classes[name] for name in names]),
        _counts([arousal_classes[name] for name in names]),
    )


def _classes(
    path: Path, subtask: str, column: str | None
) -> tuple[str, dict[str, int]]:
    """Return the column of a subtask, and the class of each clip by its official name."""
    table = read_table(path, required=(), delimiter=None)
    name_column = _column_of(table, NAME_COLUMNS, path, "the names of the clips")
    if column is not None and column not in table.columns:
        raise NotFound(
            f"no column {column!r}{near(column, table.columns)}; found "
            f"{', '.join(table.columns)}",
            where=str(path),
        )
    chosen = column or _column_of(table, (subtask, DECISION), path, f"the {subtask}")
    classes: dict[str, int] = {}
    for row in table.rows:
        name = official_name(row[name_column])
        where = f"{path}:{row.line}"
        if name in classes:
            raise FixInput(f"{name!r} has more than one row", where=where)
        if name.split() != [name]:
            raise FixInput(
                f"{name!r} cannot be written to a run file: names must not have blanks",
                where=where,
            )
        classes[name] = affect_class(_score(row[chosen], chosen, where))
    if not classes:
        raise FixInput("a run needs at least one clip, got none", where=str(path))
    return chosen, classes


def _column_of(table: CsvTable, names: Sequence[str], path: Path, noun: str) -> str:
    """Return the first of some columns that a table has."""
    for name in names:
        if name in table.columns:
            return name
    raise NotFound(
        f"no column with {noun}: expected {' or '.join(names)}; found "
        f"{', '.join(table.columns)}",
        where=str(path),
    )


def _score(cell: str, column: str, where: str) -> float:
    try:
        score = float(cell)
    except ValueError:
        score = math.nan
    if not -1 <= score <= 1:
        raise FixInput(
            f"{column} must be a number from -1 to 1, got {cell!r}",
            where=where,
            hint="ranking values (0 to 9,799) and probabilities are on another scale",
        )
    return score


def _counts(classes: Sequence[int]) -> dict[int, int]:
    return {value: classes.count(value) for value in CLASSES}


command = command_of(write_affect_run, "affect-run")
