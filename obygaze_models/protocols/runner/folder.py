"""Write the files of a run: the folder appears complete, and never replaces another run."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from obygaze_features.core.drafts import OwnFolder, check_folder, made_by_obygaze, new_folder
from obygaze_features.core.files import json_values, pretty_json, sha256_bytes, write_atomic
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.runner.cells import Cell
from obygaze_models.protocols.runner.records import (
    PREDICTION_COLUMNS,
    PREDICTIONS_FILE,
    RESULTS_FILE,
    RUN_FILE,
    Record,
)


def _not_a_run(folder: Path) -> str:
    return "" if made_by_obygaze(folder / RUN_FILE) else f"it has no {RUN_FILE} of obygaze"


RUN = OwnFolder("run", _not_a_run)


def check_free(folder: Path, identity: str, *, force: bool) -> None:
    """Raise an error if the folder is another run or not a run; the same run may be repeated."""
    if not force and made_by_obygaze(folder / RUN_FILE):
        force = json.loads((folder / RUN_FILE).read_bytes()).get("identity") == identity
    check_folder(folder, RUN, force=force)


def write_run(
    folder: Path, about: Mapping[str, Any], records: Sequence[Record], predictions: bytes
) -> dict[str, Any]:
    """Write the three files and return the content of run.json; reports and audits stay."""
    results = results_bytes(records)
    whole = {
        **about,
        "results_sha256": sha256_bytes(results),
        "predictions_sha256": sha256_bytes(predictions),
    }
    with new_folder(folder, RUN, force=True) as draft:
        if folder.is_dir():
            shutil.copytree(folder, draft, symlinks=True, dirs_exist_ok=True)
        write_atomic(draft / PREDICTIONS_FILE, predictions)
        write_atomic(draft / RESULTS_FILE, results)
        write_atomic(draft / RUN_FILE, pretty_json(json_values(whole)))
    return whole


def results_bytes(records: Sequence[Record]) -> bytes:
    """Return results.json: one record on each line, so that `diff` compares two runs."""
    lines = [json.dumps(json_values(r), ensure_ascii=False, allow_nan=False) for r in records]
    return ("[\n" + ",\n".join(lines) + "\n]\n").encode("utf-8")


def predictions_csv(cells: Sequence[Cell], table: ClipTable) -> bytes:
    """Return predictions.csv: every test of every clip, without baselines in closed form."""
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
