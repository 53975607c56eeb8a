"""Writes a run: each file whole or not at all, run.json last, nothing of another run replaced."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import AlreadyThere
from obygaze_features.core.files import pretty_json, sha256_bytes, write_atomic
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.runner.records import (
    PREDICTION_COLUMNS,
    PREDICTIONS_FILE,
    RESULTS_FILE,
    RUN_FILE,
    Record,
)
from obygaze_models.protocols.runner.scoring import Cell

OWN = (  # how the files of a run begin, those of its report, and those that a kill leaves
    *(PREDICTIONS_FILE, RESULTS_FILE, "report.", "figures", "tables", "audits"),
    *(f".{name}" for name in (PREDICTIONS_FILE, RESULTS_FILE, RUN_FILE)),
)


def check_free(folder: Path, identity: str, *, force: bool) -> None:
    """Refuse a name that another run has; the same again is welcome, and one that was killed."""
    if force or not folder.exists():
        return
    try:
        found = json.loads((folder / RUN_FILE).read_bytes())
        free = isinstance(found, dict) and found.get("identity") == identity
    except FileNotFoundError:
        free = all(path.name.startswith(OWN) for path in folder.iterdir())
    except (OSError, ValueError):
        free = False
    if not free:
        raise AlreadyThere(
            "this name is taken by another run",
            where=str(folder),
            hint="another name with -o, or --force to replace it",
        )


def write_run(
    folder: Path, about: Mapping[str, Any], records: Sequence[Record], predictions: bytes
) -> dict[str, Any]:
    """Write the three files; what run.json then holds."""
    results = results_bytes(records)
    # Without run.json there is no run: a kill in between leaves none, not half of one.
    (folder / RUN_FILE).unlink(missing_ok=True)
    write_atomic(folder / PREDICTIONS_FILE, predictions)
    write_atomic(folder / RESULTS_FILE, results)
    whole = {
        **about,
        "results_sha256": sha256_bytes(results),
        "predictions_sha256": sha256_bytes(predictions),
    }
    write_atomic(folder / RUN_FILE, pretty_json(plain(whole)))
    return whole


def results_bytes(records: Sequence[Record]) -> bytes:
    """results.json: one record a line, so that two runs can be compared by eye."""
    lines = [json.dumps(plain(r), ensure_ascii=False, allow_nan=False) for r in records]
    return ("[\n" + ",\n".join(lines) + "\n]\n").encode("utf-8")


def predictions_csv(cells: Sequence[Cell], table: ClipTable) -> bytes:
    """predictions.csv: every test of every clip; closed forms have none."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(PREDICTION_COLUMNS)
    for cell in cells:
        if cell.share is not None:
            continue
        own = (cell.task, cell.train, cell.test, cell.model, cell.feature)
        for t in cell.tested:
            p = t.predictions
            parts = zip(
                t.rows.tolist(),
                p.y.tolist(),
                p.score.tolist(),
                p.decision.tolist(),
                strict=True,
            )
            writer.writerows(
                (
                    *(table.clips[row].clip_id, table.clips[row].movie_id, *own),
                    *(t.fold, t.seed, int(y), repr(score), int(decision)),
                )
                for row, y, score, decision in parts
            )
    return stream.getvalue().encode("utf-8")


def plain(value: Any) -> Any:
    """A value of nothing but what JSON has; what is not a number becomes null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
