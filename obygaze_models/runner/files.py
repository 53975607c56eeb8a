"""Read and write the files of a run, `runs/NAME/`: tables as CSV, and run.json.

predictions.csv has a row for each test of each clip, results.csv a row for each value of these
tests. A protocol may request further tables. Reports are computed from the tables and run.json
only. Equal inputs give equal bytes with the same BLAS kernel, except for the times in run.json.
run.json is written last, so it marks a finished run.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from obygaze_features.core.console import plural
from obygaze_features.core.errors import (
    Corrupt,
    FixUsage,
    Mismatch,
    NotFound,
)
from obygaze_features.core.files import (
    document_sha256,
    json_values,
    parse_json,
    pretty_json,
    sha256_bytes,
    write_atomic,
    write_then_rename,
)
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.overwrite import (
    RUN,
    check_folder,
    check_name,
    is_made_by_obygaze,
    remove_report,
)
from obygaze_features.core.schema_check import refuse_unknown
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import is_url
from obygaze_features.manifest.model import FILM_COLUMN
from obygaze_models.evaluation.bootstrap import Interval
from obygaze_models.evaluation.cells import Cell, cells_from_tests
from obygaze_models.evaluation.results import CellName, RunSettings
from obygaze_models.evaluation.tables import (
    CELL,
    RUN_TABLES,
    RunRow,
    as_csv,
    read_csv,
    rows_as_dicts,
)
from obygaze_models.models.registry import has_epochs
from obygaze_models.protocols.schedule import unit_name

if TYPE_CHECKING:
    import pandas as pd

RUN_FORMAT = "obygaze-run/3"
RUN_FILE = "run.json"
# The keys of run.json.
RUN_KEYS = (
    *("format", "name", "identity", "sha256", "created", "created_by", "seconds"),
    *("protocol", "protocol_sha256", "manifest", "stores", "texts", "sizes"),
    *("files", "fits", "remarks", "solver"),
    *("versions", "machine"),
)
RUN_AGAIN = "repeat the same obygaze run with --force"


def run_settings(about: Mapping[str, Any]) -> RunSettings:
    """Return the settings from run.json that the values of a run depend on."""
    protocol = about["protocol"]
    report = protocol["report"]
    models = protocol["models"].items()
    stores = about["stores"].items()
    return RunSettings(
        primary=report["primary"],
        replicates=report["replicates"],
        seed=protocol["fit"]["seed"],
        compares=report["compare"],
        questions=report["questions"],
        models=protocol["grid"]["models"],
        contrast=report["contrast"],
        starting_at_random=[name for name, of in models if has_epochs(of["kind"])],
        sizes=about["sizes"],
        paper=protocol["paper"],
        backbones={name: of["backbone"] for name, of in stores if "parts" not in of},
    )


@dataclass(frozen=True)
class Run:
    """A finished run: its folder, the content of run.json, and its tables, read on first use.

    `known` holds tables that are in memory already; they are not read from their files.
    """

    folder: Path
    about: Mapping[str, Any]
    known: Mapping[str, pd.DataFrame] = field(
        default_factory=dict, repr=False, compare=False
    )

    def __repr__(self) -> str:
        n_cells = f"{len(self.about['fits'])} cells"
        return short_repr("Run", repr(self.folder.name), n_cells)

    @property
    def quiet_text(self) -> str:
        """The output of -q: the folder of the run."""
        return str(self.folder)

    @property
    def notes(self) -> list[str]:
        """The command that follows a run, as one line."""
        return [f"next: obygaze report {shell_word(self.folder)}"]

    def to_json(self) -> dict[str, Any]:
        """Return the folder of the run, and its values and differences over all films."""
        of_all = self.results[self.results["film"] == ""]
        return {
            "run": str(self.folder),
            "results": json_values(rows_as_dicts(of_all)),
            "seconds": self.about["seconds"],
        }

    def place(self, stated: str) -> str:
        """Return the path or URL of a manifest or store.

        Args:
            stated: Its location in run.json (see `stored_location`).
        """
        return stated if is_url(stated) else str(_find_workspace(self.folder) / stated)

    @property
    def protocol(self) -> Mapping[str, Any]:
        """The complete protocol as JSON."""
        protocol: Mapping[str, Any] = self.about["protocol"]
        return protocol

    @property
    def unit(self) -> str:
        """The name of a resampling group: `film`, or a column such as `director`.

        It is `clip` for a manifest without films or groups, and then nothing is resampled.
        """
        splits = self.protocol["splits"]
        unit = unit_name(splits["kind"], splits["column"])
        return unit if self.has_groups else "clip"

    @property
    def units(self) -> str:
        """The plural of `unit`."""
        return plural(self.unit)

    @property
    def has_films(self) -> bool:
        """Whether the manifest states the films of clips."""
        return bool(self.about["manifest"]["n_films"])

    @property
    def holds_out_groups(self) -> bool:
        """Whether the run holds out groups of a column instead of films."""
        return bool(self.about["manifest"]["group_column"] != FILM_COLUMN)

    @property
    def has_groups(self) -> bool:
        """Whether there are films or groups for intervals and p."""
        return self.has_films or self.holds_out_groups

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """The table of tests (predictions.csv): a row for each test of each clip."""
        return self.table("predictions.csv")

    @cached_property
    def results(self) -> pd.DataFrame:
        """The table of values and differences (results.csv)."""
        return self.table("results.csv")

    @cached_property
    def film_of_clip(self) -> dict[str, str]:
        """The film of each tested clip, or "" without films."""
        clips = self.predictions.drop_duplicates("clip_id")
        return dict(zip(clips["clip_id"], clips["movie_id"], strict=True))

    @cached_property
    def settings(self) -> RunSettings:
        """The settings that the values depend on, besides the table of tests."""
        return run_settings(self.about)

    @cached_property
    def cells(self) -> list[Cell]:
        """The cells of the models, then of the baselines, with their intervals."""
        rows = self.results
        of_cells = (rows["film"] == "") & (rows["against_model"] == "")
        intervals: dict[CellName, dict[str, Interval]] = {}
        for row in rows[of_cells].to_dict("records"):
            name = (row["train"], row["test"], row["store"], row["model"])
            if math.isfinite(row["low"]):
                interval = Interval(row["low"], row["high"])
                intervals.setdefault(name, {})[row["metric"]] = interval
        cells = []
        for cell in cells_from_tests(self.predictions):
            cells.append(replace(cell, intervals=intervals.get(cell.name, {})))
        return cells

    @property
    def models(self) -> list[Cell]:
        """The cells of the models, without baselines."""
        return [cell for cell in self.cells if cell.is_model]

    @cached_property
    def differences(self) -> list[RunRow]:
        """The rows of results.csv with a difference of two cells, over all films."""
        return rows_as_dicts(self.results[self.results["against_model"] != ""])

    @property
    def is_of_saved_model(self) -> bool:
        """Whether the run tested a saved model instead of training."""
        models = self.protocol["models"].values()
        return any("sha256" in model.get("settings", {}) for model in models)

    def folds_of(self, cell: Cell) -> Sequence[Mapping[str, Any]]:
        """Return the entries of the fits of a cell in run.json."""
        for facts in self.about["fits"]:
            if tuple(facts[name] for name in CELL) == cell.name:
                folds: Sequence[Mapping[str, Any]] = facts["folds"]
                return folds
        return ()

    def table(self, name: str) -> pd.DataFrame:
        """Return a table of the run, without rows if the protocol does not request it."""
        import pandas as pd

        if name not in RUN_TABLES:
            raise FixUsage(
                f"unknown table of a run {name!r}",
                hint=f"use one of {', '.join(RUN_TABLES)}",
            )
        if name in self.known:
            return self.known[name]
        if name not in self.about["files"]:
            return pd.DataFrame(columns=[*RUN_TABLES[name]])
        path = self.folder / name
        again = {"where": str(path), "hint": RUN_AGAIN}
        if not path.is_file():
            raise NotFound(f"the file {name} of this run is missing", **again)
        data = path.read_bytes()
        if sha256_bytes(data) != self.about["files"][name]:
            raise Corrupt(f"{name} was changed after the run", **again)
        try:
            return read_csv(data, RUN_TABLES[name])
        except (ArithmeticError, ValueError, LookupError) as error:
            raise Corrupt(f"not a table of a run: {error}", **again) from error


def _find_workspace(folder: Path) -> Path:
    """Return the workspace that contains a run folder. Paths in run.json are relative to it."""
    return Path(os.path.abspath(folder)).parent.parent  # noqa: PTH100 - links stay


def stored_location(place: str, folder: Path) -> str:
    """Return the path of a manifest or store for run.json, relative to the workspace of the run.

    A relative path stays valid if the workspace is moved. Paths outside the workspace are
    absolute. A URL is returned as it is.
    """
    if is_url(place):
        return place
    absolute = Path(os.path.abspath(place))  # noqa: PTH100 - links stay
    workspace = _find_workspace(folder)
    if absolute.is_relative_to(workspace):
        return absolute.relative_to(workspace).as_posix()
    return absolute.as_posix()


def check_run_folder(folder: Path, identity: str, *, force: bool) -> None:
    """Raise an error if a run must not be written to a folder.

    The folder may be missing or empty, or hold the run with the same identity. With `force`, it may
    also hold a different run.
    """
    if is_same_run(folder, identity):
        # Other files in the folder, such as a report, are kept, so they are no reason for an error.
        check_name(folder)
    else:
        check_folder(folder, RUN, force=force)


def is_same_run(folder: Path, identity: str) -> bool:
    """Return whether a folder has a run with this identity."""
    return is_made_by_obygaze(folder / RUN_FILE, identity=identity)


def write_run(
    folder: Path,
    about: Mapping[str, Any],
    tables: Mapping[str, pd.DataFrame],
    *,
    force: bool = False,
) -> Run:
    """Write the tables, then run.json, and return the run.

    If the folder contains the same run, all other files in it are kept. Only a report is removed if
    the tables of the run have changed. This can happen if user code draws random numbers without a
    seed, because its results are then different each time.
    """
    contents = {name: as_csv(table) for name, table in tables.items()}
    files = {name: sha256_bytes(data) for name, data in contents.items()}

    def check() -> None:
        check_run_folder(folder, about["identity"], force=force)

    with write_then_rename(folder, check) as draft:
        draft.mkdir()
        if is_same_run(folder, about["identity"]):
            shutil.copytree(folder, draft, symlinks=True, dirs_exist_ok=True)
            if not is_made_by_obygaze(draft / RUN_FILE, files=files):
                remove_report(draft)
        for name, data in contents.items():
            write_atomic(draft / name, data)
        whole = json_values({**about, "files": files})
        whole["sha256"] = document_sha256(whole)
        write_atomic(draft / RUN_FILE, pretty_json(whole))
    return Run(folder, whole, tables)


def read_folder(folder: Path) -> Run:
    """Return the run of a folder."""
    path = folder / RUN_FILE
    if not path.is_file():
        raise NotFound(
            "expected a finished run, but this file is missing",
            where=str(path),
            hint="obygaze run --help",
        )
    try:
        about = parse_json(path.read_bytes())
    except ValueError as error:
        raise Corrupt(
            f"not valid JSON: {error}", where=str(path), hint=RUN_AGAIN
        ) from error
    is_run = isinstance(about, dict) and about.get("format") == RUN_FORMAT
    if not is_run or not isinstance(about.get("files"), dict):
        raise Mismatch(
            f"this is not a run of format {RUN_FORMAT!r}",
            where=str(path),
            hint=RUN_AGAIN,
        )
    if about.get("sha256") != document_sha256(about):
        problem = "this file was changed after the run: its SHA-256 is different"
        raise Corrupt(problem, where=str(path), hint=RUN_AGAIN)
    refuse_unknown(sorted(about.keys() - {*RUN_KEYS}), str(path))
    return Run(folder, about)
