"""The files of a run, `runs/NAME/`: write them, and read them as a `Run`.

run.json has the inputs of the run and the only times; it is written last, so it marks a finished
run. results.json is a list of records, each with a "kind"; the same inputs give the same bytes on
one kernel of BLAS. predictions.csv has each test of each clip. `docs/files.md` lists all keys.
"""

import csv
import io
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, overload

from obygaze_features.core import system
from obygaze_features.core.console import count, few
from obygaze_features.core.errors import Corrupt, Mismatch, NotFound
from obygaze_features.core.file_names import file_name
from obygaze_features.core.files import (
    json_values,
    parse_json,
    pretty_json,
    sha256_bytes,
    write_atomic,
    write_then_rename,
)
from obygaze_features.core.notebook import data_frame, html_summary, short_repr
from obygaze_features.core.own_results import OwnFolder, check_folder, made_by_obygaze
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_models.protocols.results.cells import CellRecord
from obygaze_models.protocols.results.kinds import read_record
from obygaze_models.protocols.results.record import RunRecord
from obygaze_models.protocols.results.whole_run import Remark

RUN_FORMAT = "obygaze-run/1"
AGAIN = "the same obygaze run again, with --force"
RUN_FILE = "run.json"
RESULTS_FILE = "results.json"
PREDICTIONS_FILE = "predictions.csv"

# What reports write into the folder of a run.
MADE_OF_RUN = ("figures", "report.html", "report.md", "tables")

# The value of `splits.group` whose groups are films.
FILM = "movie_id"

R = TypeVar("R", bound=RunRecord)


def group_column(protocol: Mapping[str, Any]) -> str:
    """Return the column whose values intervals are over, of a protocol as run.json has it."""
    column: str = protocol.get("splits", {}).get("group", FILM)
    return column


def count_groups(n: int, column: str) -> str:
    """Return a number of groups by their column: `3 films`, `3 values of decade`."""
    if column == FILM:
        return count(n, "film")
    return f"{count(n, 'value')} of {column}"


@dataclass(frozen=True)
class Run:
    """A finished run: the content of run.json and the records of results.json."""

    folder: Path
    about: Mapping[str, Any]
    records: Sequence[RunRecord]

    @overload
    def of(self, kind: str) -> list[RunRecord]: ...

    @overload
    def of(self, kind: type[R]) -> list[R]: ...

    def of(self, kind: str | type[R]) -> list[RunRecord] | list[R]:
        """Return the records of one kind, such as "contrast" or `Contrast`, in their order."""
        if isinstance(kind, str):
            return [record for record in self.records if record.kind == kind]
        return [record for record in self.records if isinstance(record, kind)]

    @property
    def quiet_text(self) -> str:
        """What -q prints: where the run is."""
        return str(self.folder)

    @property
    def cells(self) -> list[CellRecord]:
        """The cells of models."""
        return [cell for cell in self.of(CellRecord) if cell.kind == "cell"]

    @property
    def baselines(self) -> list[CellRecord]:
        """The cells of baselines."""
        return [cell for cell in self.of(CellRecord) if cell.kind == "baseline"]

    @property
    def protocol(self) -> Mapping[str, Any]:
        """The complete protocol as JSON."""
        protocol: Mapping[str, Any] = self.about["protocol"]
        return protocol

    @property
    def chooses_store(self) -> bool:
        """Whether training films chose the store of each fold, for cells of their own."""
        return bool(self.protocol.get("fit", {}).get("choose_store"))

    def __repr__(self) -> str:
        name = self.folder.name
        if len(name) > 60:
            name = f"{name[:57]}..."
        return short_repr("Run", repr(name), f"{len(self.cells)} cells")

    def _repr_html_(self) -> str:
        manifest = self.about["manifest"]
        facts = {
            "protocol": self.protocol["name"],
            "manifest": f"{manifest['name']}, {manifest['view']} view",
            "clips": f"{manifest['n_clips']:,} of {manifest['n_films']} films",
            "stores": ", ".join(self.about["stores"]) or "none",
            "cells": len(self.cells),
        }
        return html_summary(f"Run {self.folder}", facts)

    def to_frame(self) -> Any:
        """Return the cells of models and baselines as a pandas DataFrame.

        One row for each cell; the columns of a metric are METRIC, METRIC_low and METRIC_high.
        """
        rows = [_flat(record) for record in (*self.cells, *self.baselines)]
        columns: dict[str, list[Any]] = {}
        for row in rows:
            for name in row:
                columns.setdefault(name, [])
        for name, values in columns.items():
            values.extend(row.get(name) for row in rows)
        return data_frame(columns)

    @cached_property
    def predictions(self) -> list[dict[str, Any]]:
        """The rows of predictions.csv; seed and y are int, score is float, decision is bool."""
        path = self.folder / PREDICTIONS_FILE
        if not path.is_file():
            hint = "run the experiment again, with --force"
            raise NotFound(
                "this run has no predictions.csv", where=str(self.folder), hint=hint
            )
        data = _checked_bytes(path, self.about.get("predictions_sha256"))
        try:
            reader = csv.DictReader(io.StringIO(data.decode("utf-8"), newline=""))
            # Names of clips, films and models are in many rows: each is kept once.
            texts: dict[str, str] = {}
            rows = []
            for cells in reader:
                row: dict[str, Any] = {
                    name: texts.setdefault(cell, cell) for name, cell in cells.items()
                }
                row["seed"] = int(cells["seed"])
                row["y"] = int(cells["y"])
                row["score"] = float(cells["score"])
                row["decision"] = bool(int(cells["decision"]))
                rows.append(row)
            return rows
        except (KeyError, TypeError, ValueError, csv.Error) as error:
            what = f"not a table of predictions: {error!r}"
            raise Corrupt(what, where=str(path), hint=AGAIN) from error

    def to_json(self) -> dict[str, Any]:
        """Return the output of `obygaze run --json`."""
        return {
            "run": str(self.folder),
            "cells": [_shown(record) for record in self.cells],
            "baselines": [_shown(record) for record in self.baselines],
            "contrasts": self._as_json("contrast"),
            "comparisons": self._as_json("comparison"),
            "coverage": self._as_json("coverage"),
            "argmax": self._as_json("argmax"),
            "remarks": [remark.text for remark in self.of(Remark)],
            "seconds": dict(self.about["seconds"]),
        }

    def _as_json(self, kind: str) -> list[dict[str, Any]]:
        return [record.to_json() for record in self.of(kind)]


def _not_a_run(folder: Path) -> str:
    if made_by_obygaze(folder / RUN_FILE):
        return ""
    return f"it has no {RUN_FILE} of obygaze"


RUN = OwnFolder("run", _not_a_run)


def check_free(folder: Path, identity: str, *, force: bool) -> None:
    """Raise an error if the folder is another run or not a run; the same run may be repeated."""
    if not force and made_by_obygaze(folder / RUN_FILE):
        about = json.loads((folder / RUN_FILE).read_bytes())
        force = about.get("identity") == identity
    check_folder(folder, RUN, force=force)


def write_run(
    folder: Path,
    about: Mapping[str, Any],
    records: Sequence[RunRecord],
    predictions: bytes,
) -> dict[str, Any]:
    """Write the three files and return the content of run.json.

    The report of the same experiment stays. That of another one that had this name is moved
    to the folder `earlier-IDENTITY`.
    """
    # One record on each line, so that `diff` compares two runs.
    lines = [
        json.dumps(record.to_json(), ensure_ascii=False, allow_nan=False)
        for record in records
    ]
    results = ("[\n" + ",\n".join(lines) + "\n]\n").encode("utf-8")
    whole = {
        **about,
        "results_sha256": sha256_bytes(results),
        "predictions_sha256": sha256_bytes(predictions),
    }
    check_folder(folder, RUN, force=True)
    with write_then_rename(folder) as draft:
        draft.mkdir()
        if (folder / RUN_FILE).is_file():
            shutil.copytree(folder, draft, symlinks=True, dirs_exist_ok=True)
            _set_aside(draft, str(about.get("identity", "")))
        write_atomic(draft / PREDICTIONS_FILE, predictions)
        write_atomic(draft / RESULTS_FILE, results)
        write_atomic(draft / RUN_FILE, pretty_json(json_values(whole)))
    return whole


def _set_aside(folder: Path, identity: str) -> None:
    """Move what was made of another run in this folder below a name of its own."""
    about = json.loads((folder / RUN_FILE).read_bytes())
    earlier = str(about.get("identity", ""))
    made = [name for name in MADE_OF_RUN if os.path.lexists(folder / name)]
    if earlier == identity or not made:
        return
    aside = folder / file_name(f"earlier-{earlier[:8]}")
    number = 1
    while os.path.lexists(aside):
        number += 1
        aside = folder / file_name(f"earlier-{earlier[:8]}-{number}")
    aside.mkdir()
    for name in made:
        system.rename_folder(folder / name, aside / name)


def read_run(
    run: PathLike | Run,
    *,
    workspace: PathLike | None = None,
) -> Run:
    """Read a finished run: its records, and its predictions.

    Args:
        run: The name of a run of the workspace, or its folder.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> found = og.read_run("first")
        >>> found.cells[0]["model"]
        'ridge'
    """
    if isinstance(run, Run):
        return run
    return read_folder(Workspace.of(workspace).existing("runs", run))


def listed_runs(
    runs: Sequence[PathLike | Run | Sequence[PathLike | Run]],
) -> list[PathLike | Run]:
    """Return runs that were given one after another or as a list."""
    listed: list[PathLike | Run] = []
    for given in runs:
        if isinstance(given, str | os.PathLike | Run):
            listed.append(given)
        else:
            listed += given
    return listed


def read_folder(folder: Path) -> Run:
    """Return the run of a folder; a file that changed since the run was written is an error."""
    if (folder / "runs").is_dir() and not (folder / RUN_FILE).exists():
        raise NotFound(
            "this is a workspace, not a run",
            where=str(folder),
            hint=f"-C {folder}, and one of {few(Workspace(folder).names('runs'))}",
        )
    path = folder / RUN_FILE
    if not path.is_file():
        raise _no_run(path)
    about = _json(path.read_bytes(), path)
    if not isinstance(about, dict) or about.get("format") != RUN_FORMAT:
        raise Mismatch(
            f"this is not a run of format {RUN_FORMAT!r}",
            where=str(path),
            hint="pip install --upgrade obygaze",
        )
    path = folder / RESULTS_FILE
    if not path.is_file():
        raise _no_run(path)
    documents = _json(_checked_bytes(path, about.get("results_sha256")), path)
    if not isinstance(documents, list) or not all(
        isinstance(document, dict) and "kind" in document for document in documents
    ):
        raise Corrupt(
            "expected a list of records, each with a kind",
            where=str(folder / RESULTS_FILE),
            hint=AGAIN,
        )
    try:
        records = [read_record(document) for document in documents]
    except ValueError as error:
        raise Corrupt(
            f"a record of this run has no value or an invalid value: {error}",
            where=str(folder / RESULTS_FILE),
            hint=AGAIN,
        ) from error
    return Run(folder, about, records)


def _no_run(path: Path) -> NotFound:
    """Return the error for a folder without this file of a run."""
    return NotFound(
        "no finished run here", where=str(path), hint="obygaze run PROTOCOL"
    )


def _checked_bytes(path: Path, sha256: object) -> bytes:
    """Return the bytes of a file that has the checksum of run.json."""
    data = path.read_bytes()
    if sha256_bytes(data) != sha256:
        raise Corrupt(
            f"{path.name} is not the file that this run wrote: expected sha256 "
            f"{str(sha256)[:12]}..., got {sha256_bytes(data)[:12]}...",
            where=str(path),
            hint=AGAIN,
        )
    return data


def _json(data: bytes, path: Path) -> Any:
    try:
        return parse_json(data)
    except ValueError as error:
        raise Corrupt(
            f"not valid JSON: {error}", where=str(path), hint=AGAIN
        ) from error


def _flat(record: RunRecord) -> dict[str, Any]:
    """Return the plain values of a cell, and of each metric the value and its interval."""
    flat = {
        key: value
        for key, value in record.items()
        if not isinstance(value, dict | list)
    }
    for key, value in record.items():
        if not isinstance(value, dict) or "value" not in value:
            continue
        low = None
        high = None
        ci = value.get("ci")
        if isinstance(ci, list) and len(ci) == 2:
            low, high = ci
        flat[key] = value["value"]
        flat[f"{key}_low"] = low
        flat[f"{key}_high"] = high
    return flat


def _shown(record: RunRecord) -> dict[str, Any]:
    """Return a record without the keys that only the files have."""
    hidden = ("kind", "by_film", "calibration")
    return {key: value for key, value in record.items() if key not in hidden}
