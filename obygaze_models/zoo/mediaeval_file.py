"""Runs of MediaEval 2015, scores of violence or classes of affect, and a JSON file of facts beside.

Affect has three classes, which the files of the task derive from scores on [-1, 1]: below -.15 is
negative, above .15 positive, and the bounds themselves are neutral.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.files import pretty_json, write_all_new
from obygaze_features.core.tables import TableRow, read_table
from obygaze_models.models.common import Floats
from obygaze_models.zoo.info import ModelInfo

AFFECT = ("valence", "arousal")
BOUND = 0.15
RUN_ENDINGS = {".csv", ".run", ".trec", ".tsv", ".txt"}
# The clips of the task; official files name them with their file ending.
_OFFICIAL_CLIP = re.compile(r"(ACCEDE|MEDIAEVAL)[0-9]{5}")


def official_name(clip_id: str) -> str:
    """Return the name of a clip in the official files of the task; other ids as they are.

    >>> official_name("ACCEDE00286"), official_name("tt0108160-001")
    ('ACCEDE00286.mp4', 'tt0108160-001')
    """
    return f"{clip_id}.mp4" if _OFFICIAL_CLIP.fullmatch(clip_id) else clip_id


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


def read_affect_scores(path: Path) -> dict[str, tuple[float, float]]:
    """Return valence and arousal of each clip of a table.

    Args:
        path: A table with the columns clip_id, valence and arousal, numbers on [-1, 1].
    """
    scores: dict[str, tuple[float, float]] = {}
    for row in read_table(path, required=("clip_id", *AFFECT)).rows:
        clip = row["clip_id"]
        if clip in scores:
            where = f"{path}:{row.line}"
            raise FixInput(f"{clip!r} has more than one row", where=where)
        valence = _score(row, "valence", path)
        arousal = _score(row, "arousal", path)
        scores[clip] = valence, arousal
    return scores


def _score(row: TableRow, column: str, path: Path) -> float:
    try:
        score = float(row[column])
    except ValueError:
        score = math.nan
    if not -1 <= score <= 1:
        raise FixInput(
            f"{column} must be a number from -1 to 1, got {row[column]!r}",
            where=f"{path}:{row.line}",
        )
    return score


def write_mediaeval(
    path: Path,
    clip_ids: Sequence[str],
    scores: Floats,
    model: ModelInfo | None,
    *,
    external_data: bool,
    force: bool = False,
) -> tuple[Path, Path]:
    """Write a run and a JSON file beside it, as `audit mediaeval` reads them; return both paths.

    Args:
        path: The file of the run.
        clip_ids: The clips.
        scores: The scores of a model of two classes, as violence; without a model valence and
            arousal on [-1, 1]: a line has the name of a clip, and the classes of both.
        model: The model.
        external_data: Whether data from outside the task were used.
        force: Replace files that exist.
    """
    names = [official_name(clip) for clip in clip_ids]
    repeated = [name for name, n_rows in Counter(names).items() if n_rows > 1]
    if repeated:
        raise FixInput(
            f"the scores have {repeated[0]!r} under two ids, with .mp4 and without"
            f" ({len(repeated)} such clips), and a run has each clip once",
            hint="leave out one row of each",
        )
    if model is None:
        _check_run(path, names)
        lines = []
        for name, of_clip in sorted(zip(names, scores.tolist(), strict=True)):
            valence, arousal = map(affect_class, of_clip)
            lines.append(f"{name} {valence} {arousal}\n")
        facts = {"subtask": "affect", "external_data": external_data, "tag": "obygaze"}
        return _write(path, lines, facts, force=force)
    if len(model.classes) != 2:
        raise FixUsage(
            f"--mediaeval needs a model of two classes, {model.name} has {len(model.classes)}",
            hint="a model of the task violence, or --affect TABLE for valence and arousal",
        )
    return write_run_file(
        path,
        dict(zip(names, scores[:, -1].tolist(), strict=True)),
        external_data=external_data,
        tag=model.name,
        about={"model": model.kind, "backbone": model.features.backbone},
        force=force,
    )


def write_run_file(
    path: Path,
    scores: Mapping[str, float],
    *,
    external_data: bool,
    tag: str = "obygaze",
    about: Mapping[str, Any] | None = None,
    force: bool = False,
) -> tuple[Path, Path]:
    """Write a run of violence as TREC lines and a JSON file beside it; return both paths.

    Args:
        path: The file of the run.
        scores: The score of each clip.
        external_data: Whether data from outside the task were used.
        tag: The name of the run, last on each line.
        about: Further fields of the JSON file.
        force: Replace files that exist.
    """
    _check_run(path, [*scores, tag] if scores else [])
    # In the order of trec_eval, so that ranks and scores agree.
    order = sorted(
        scores, key=lambda name: (scores[name], name.encode("utf-8")), reverse=True
    )
    lines = []
    for rank, name in enumerate(order, start=1):
        if not math.isfinite(scores[name]):
            raise FixInput(
                f"the score of {name} must be a finite number, got {scores[name]}"
            )
        score = repr(float(scores[name]))
        lines.append(f"violence Q0 {name} {rank} {score} {tag}\n")
    facts = {
        "subtask": "violence",
        "external_data": external_data,
        "tag": tag,
        **(about or {}),
    }
    return _write(path, lines, facts, force=force)


def _check_run(path: Path, names: Iterable[str]) -> None:
    """Raise an error unless a run can be written to a path, with these names in its lines."""
    names = list(names)
    if not names:
        raise FixInput("a run needs at least one clip, got none", where=str(path))
    if path.suffix == ".json":
        raise FixUsage(
            f"a run must not be a .json file, got {path.name!r}", hint="run.txt"
        )
    for name in names:
        if name.split() != [name]:
            raise FixInput(
                f"{name!r} cannot be written to a run file: names must not have blanks"
            )


def _write(
    path: Path, lines: Iterable[str], facts: Mapping[str, Any], *, force: bool
) -> tuple[Path, Path]:
    beside = facts_path(path)
    files = {path: "".join(lines).encode("utf-8"), beside: pretty_json(facts)}
    write_all_new(files, force=force)
    return path, beside


def facts_path(run: Path) -> Path:
    """Return the JSON file beside a run, which says whether external data was used.

    Only a known ending is replaced: runs called `v1.2` and `v1.3` have files of their own.
    """
    if run.suffix in RUN_ENDINGS:
        return run.with_suffix(".json")
    return run.with_name(f"{run.name}.json")
