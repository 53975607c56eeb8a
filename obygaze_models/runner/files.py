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
from dataclasses import dataclass, field
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
from obygaze_models.evaluation.basis import UNSEEN
from obygaze_models.evaluation.metrics import AUC
from obygaze_models.evaluation.results import CellName, RunSettings
from obygaze_models.evaluation.tables import (
    CELL,
    RESULTS,
    RUN_TABLES,
    Pair,
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
NO_ROW: RunRow = {
    name: "" if kind is str else math.nan for name, kind in RESULTS.items()
}
# The key of a row for its place in results.csv, from 1; 0 for values that are not in this file.
NUMBER_OF_ROW = "row"
RUN_AGAIN = "repeat the same obygaze run with --force"


def run_settings(about: Mapping[str, Any]) -> RunSettings:
    """Return the settings from run.json that the values of a run depend on."""
    protocol = about["protocol"]
    report = protocol["report"]
    grid = protocol["grid"]
    models = protocol["models"].items()
    stores = about["stores"].items()
    tasks = [*protocol["tasks"]]
    asked_pair = None
    if grid["pairs"] != "same" and tasks:
        asked_pair = ((grid["train"] or tasks)[0], (grid["test"] or tasks)[0])
    return RunSettings(
        primary=report["primary"],
        replicates=report["replicates"],
        seed=protocol["fit"]["seed"],
        compares=report["compare"],
        lead=report["lead"],
        against=report["against"],
        asked_pair=asked_pair,
        models=grid["models"],
        contrast=report["contrast"],
        starting_at_random=[name for name, of in models if has_epochs(of["kind"])],
        sizes=about["sizes"],
        paper=protocol["paper"],
        backbones={name: of["backbone"] for name, of in stores if "parts" not in of},
        parts={name: [*of["parts"]] for name, of in stores if "parts" in of},
    )


def numbered_rows(results: pd.DataFrame) -> list[RunRow]:
    """Return rows of results.csv, each with its place in the file."""
    rows = rows_as_dicts(results)
    for number, row in zip(results.index.tolist(), rows, strict=True):
        row[NUMBER_OF_ROW] = number + 1
    return rows


@dataclass(frozen=True, eq=False)
class ResultRows:
    """The rows of results.csv of one model or baseline in one pair of tasks.

    Attributes:
        name: The training task, the test task, the store and the model.
        rows: The rows of each metric; the first is over all films.
    """

    name: CellName
    rows: Mapping[str, Sequence[RunRow]]

    @property
    def whole(self) -> RunRow:
        """The row over all films of the first metric."""
        return next(iter(self.rows.values()))[0]

    @property
    def store(self) -> str:
        """The store; empty for a baseline of all stores."""
        return self.name[2]

    @property
    def model(self) -> str:
        """The name of the model or baseline."""
        return self.name[3]

    @property
    def train(self) -> str:
        """The training task."""
        return self.name[0]

    @property
    def test(self) -> str:
        """The test task."""
        return self.name[1]

    @property
    def clips(self) -> int:
        """The number of tested clips."""
        return int(self.whole["clips"])

    @property
    def positive(self) -> int:
        """The number of tested clips of class 1."""
        return int(self.whole["positive"])

    @property
    def films(self) -> int:
        """The number of films, or groups of films, of the tested clips."""
        return int(self.whole["films"])

    @property
    def leaked(self) -> int:
        """The number of tested clips that were used in training or selection."""
        return int(self.whole["leaked"])

    @property
    def copies(self) -> int:
        """The number of tested clips that training used under another id only."""
        return int(self.whole["copies"])

    @property
    def same_film(self) -> int:
        """The number of tested clips that are not leaked, but whose films have training clips."""
        return int(self.whole["same_film"])

    @property
    def basis(self) -> str:
        """The relation of tested clips and training (`evaluation.basis`)."""
        return str(self.whole["basis"])

    @property
    def test_set(self) -> int:
        """The number of the set of tested clips; results with one number tested the same clips."""
        return int(self.whole["test_set"])

    @property
    def is_averaged(self) -> bool:
        """Whether values are means over fits; if not, they are pooled over folds."""
        return bool(self.whole["averaged"])

    @property
    def asked(self) -> float:
        """The place among the results that the run is about, from 1; NaN for all others."""
        return float(self.whole["asked"])

    @property
    def pair(self) -> Pair:
        """The training and the test task."""
        return self.name[:2]

    @property
    def tasks(self) -> str:
        """The training and the test task as text."""
        train, test = self.pair
        return test if train == test else f"{train} -> {test}"

    @property
    def is_model(self) -> bool:
        """Whether it is of a model, and not of a baseline."""
        return str(self.whole["kind"]).endswith("model")

    @property
    def is_trained(self) -> bool:
        """Whether its scores depend on the training clips."""
        return not str(self.whole["kind"]).startswith("untrained")

    @property
    def knows_films(self) -> bool:
        """Whether training may include films of the tested clips; False if nothing is trained."""
        return self.basis != UNSEEN

    def row(self, metric: str) -> RunRow:
        """Return the row of a metric over all films; without it, a row of missing values."""
        rows = self.rows.get(metric)
        return rows[0] if rows else NO_ROW

    def value(self, metric: str) -> float:
        """Return a metric over all films, or NaN if undefined."""
        return float(self.row(metric)["value"])

    def ends(self, metric: str) -> tuple[float, float]:
        """Return the ends of the interval of a metric; both are NaN if there is no interval."""
        return self.row(metric)["low"], self.row(metric)["high"]

    def has_interval(self, metric: str) -> bool:
        """Return whether a metric has an interval."""
        return math.isfinite(sum(self.ends(metric)))

    def is_ranked(self, metric: str) -> bool:
        """Return whether a metric and AUC are defined; clips of one class have no ranking."""
        return math.isfinite(self.value(metric) + self.value(AUC.name))

    def film_counts(self, metric: str) -> tuple[int, int]:
        """Return how many films contribute to a metric, and how many films are tested."""
        return int(self.row(metric)["films_with_value"]), self.films

    def of_films(self, metric: str) -> list[RunRow]:
        """Return the rows of the films in which a metric is defined."""
        rows = self.rows.get(metric, ())[1:]
        return [row for row in rows if math.isfinite(row["value"])]


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
    def cells(self) -> list[ResultRows]:
        """The results of the models, then of the baselines."""
        rows = self.results[self.results["against_model"] == ""]
        found = []
        for name, of_name in rows.groupby([*CELL], sort=False):
            of_metrics: dict[str, list[RunRow]] = {}
            for row in numbered_rows(of_name):
                of_metrics.setdefault(row["metric"], []).append(row)
            found.append(ResultRows(name, of_metrics))
        return found

    @property
    def models(self) -> list[ResultRows]:
        """The results of the models, without baselines."""
        return [cell for cell in self.cells if cell.is_model]

    def tests_of(self, cell: ResultRows) -> pd.DataFrame:
        """Return the rows of predictions.csv of a result."""
        rows = self.predictions
        for column, name in zip(CELL, cell.name, strict=True):
            rows = rows[rows[column] == name]
        return rows

    @cached_property
    def differences(self) -> list[RunRow]:
        """The rows of results.csv with a difference of two cells, over all films."""
        return numbered_rows(self.results[self.results["against_model"] != ""])

    @property
    def is_of_saved_model(self) -> bool:
        """Whether the run tested a saved model instead of training."""
        models = self.protocol["models"].values()
        return any("sha256" in model.get("settings", {}) for model in models)

    def folds_of(self, cell: ResultRows) -> Sequence[Mapping[str, Any]]:
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
