"""Scores as a run of MediaEval 2015 violence: TREC lines, and a JSON file with its facts."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.files import pretty_json, write_all_new

RUN_ENDINGS = {".csv", ".run", ".trec", ".tsv", ".txt"}
# The clips of the task; official files name them with their file ending.
_OFFICIAL_CLIP = re.compile(r"(ACCEDE|MEDIAEVAL)[0-9]{5}")


def official_name(clip_id: str) -> str:
    """Return the name of a clip in the official files of the task; other ids as they are.

    >>> official_name("ACCEDE00286"), official_name("tt0108160-001")
    ('ACCEDE00286.mp4', 'tt0108160-001')
    """
    return f"{clip_id}.mp4" if _OFFICIAL_CLIP.fullmatch(clip_id) else clip_id


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
    if not scores:
        raise FixInput("a run needs at least one clip, got none", where=str(path))
    if path.suffix == ".json":
        raise FixUsage(
            f"a run must not be a .json file, got {path.name!r}", hint="run.txt"
        )
    for name in (*scores, tag):
        if name.split() != [name]:
            raise FixInput(
                f"{name!r} cannot be written to a run file: names must not have blanks"
            )
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
        lines.append(f"violence Q0 {name} {rank} {float(scores[name])!r} {tag}\n")
    beside = facts_path(path)
    document = {
        "subtask": "violence",
        "external_data": external_data,
        "tag": tag,
        **(about or {}),
    }
    files = {path: "".join(lines).encode("utf-8"), beside: pretty_json(document)}
    write_all_new(files, force=force)
    return path, beside


def facts_path(run: Path) -> Path:
    """Return the JSON file beside a run, which says whether external data was used.

    Only a known ending is replaced: runs called `v1.2` and `v1.3` have files of their own.
    """
    if run.suffix in RUN_ENDINGS:
        return run.with_suffix(".json")
    return run.with_name(f"{run.name}.json")
