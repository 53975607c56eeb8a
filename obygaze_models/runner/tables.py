"""The files of a run, `runs/NAME/`: two tidy tables, run.json, and what a protocol asks for beside.

predictions.csv has a row for each test of each clip, results.csv a row for each value. Everything
that is shown of a run is a filter of these tables. The same inputs give the same bytes on one
kernel of BLAS. run.json has the inputs and the only times; it is written last, so it marks a
finished run.
"""

import csv
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.console import few, plural
from obygaze_features.core.errors import (
    Corrupt,
    FixInput,
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
from obygaze_features.core.notebook import data_frame, short_repr
from obygaze_features.core.own_results import (
    RUN,
    check_folder,
    check_name,
    made_by_obygaze,
)
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike, Workspace, is_url
from obygaze_models.evaluation.leakage import Leak
from obygaze_models.evaluation.metrics import BRIER, PREVALENCE, ranking_metric
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.schedule import unit_of
from obygaze_models.runner.rows import (
    RUN_TABLES,
    CellColumns,
    PredictionRow,
    ResultRow,
    read_rows,
    table_bytes,
)
from obygaze_models.runner.scores import RANDOM, RANDOM_SHARE, Cell, ScoredFold

RUN_FORMAT = "obygaze-run/2"
RUN_FILE = "run.json"
RUN_AGAIN = "the same obygaze run again, with --force"
# Training task, test task, store and model.
CellName = tuple[str, str, str, str]
# Which clips leaked is not in the predictions of a run.
NO_LEAK = Leak(
    cell="",
    n_test=0,
    in_train=0,
    in_validation=0,
    in_concepts=0,
    leaked=0,
    same_film=0,
    clips=(),
)


def prediction_rows(cells: Sequence[Cell], table: ClipTable) -> Iterator[PredictionRow]:
    """Yield each test of each clip, without baselines in closed form."""
    for cell in cells:
        if cell.share is not None:
            continue
        of_cell: CellColumns = {
            "task": cell.test,
            "train": cell.train,
            "test": cell.test,
            "store": cell.store,
            "model": cell.model,
        }
        for t in cell.tested:
            p = t.predictions
            values = (
                t.rows.tolist(),
                p.y.tolist(),
                p.score.tolist(),
                p.decision.tolist(),
            )
            for row, y, score, decision in zip(*values, strict=True):
                clip = table.clips[row]
                yield {
                    **of_cell,
                    "fold": t.fold,
                    "seed": t.seed,
                    "clip_id": clip.clip_id,
                    "movie_id": clip.movie_id,
                    "y": int(y),
                    "score": score,
                    "decision": decision,
                }


@dataclass(frozen=True)
class ClipNumbers:
    """The clips that some runs tested: a number for each, its film, and what it is held out with.

    Attributes:
        number_of: The number of each clip, by its id.
        films: The film of each clip, as the first run that states it has it.
        groups: The group of each clip, in a run that holds out groups; else its film.
    """

    number_of: Mapping[str, int]
    films: NDArray[np.str_]
    groups: NDArray[np.str_]

    @classmethod
    def of(cls, runs: Sequence["Run"]) -> "ClipNumbers":
        """Return the numbers of all clips with a prediction, in the order of films and ids."""
        film_of: dict[str, str] = {}
        for run in runs:
            for clip_id, film in run.film_of_clip.items():
                film_of[clip_id] = film_of.get(clip_id) or film
        ordered = sorted(film_of, key=lambda clip_id: (film_of[clip_id], clip_id))
        group_of = {**film_of, **_groups_of_clips(runs)}
        films = np.array([film_of[clip_id] for clip_id in ordered], dtype=np.str_)
        groups = np.array([group_of[clip_id] for clip_id in ordered], dtype=np.str_)
        number_of = {clip_id: number for number, clip_id in enumerate(ordered)}
        return cls(number_of, films, groups)


def _groups_of_clips(runs: Sequence["Run"]) -> dict[str, str]:
    """Return the group of each clip in the runs that hold out groups; they have the same."""
    group_of: dict[str, str] = {}
    unit = ""
    for run in runs:
        for clip_id, group in run.group_of_clip.items():
            if group_of.setdefault(clip_id, group) != group:
                raise FixInput(
                    f"the clip {clip_id!r} is held out with the {unit} {group_of[clip_id]!r} in one"
                    f" run, and with the {run.unit} {group!r} in {run.folder.name}: differences are"
                    " drawn over one kind of group",
                    hint="each of them alone, or beside a run that holds out films",
                )
        unit = run.unit if run.group_of_clip else unit
    return group_of


def tested_cells(run: "Run", clips: ClipNumbers) -> dict[CellName, Cell]:
    """Return the cells of a run by their names, made of its predictions.

    A random order has none: it is that of the clips of another cell of its tasks.
    """
    rows_of_cell: dict[CellName, list[PredictionRow]] = {}
    for row in run.predictions:
        rows_of_cell.setdefault(_name_of(row), []).append(row)
    with_probabilities = set()
    for result in run.shown_results:
        if result["metric"] == BRIER.name and not result["film"]:
            with_probabilities.add(_name_of(result))
    cells = {}
    for facts in run.about["fits"]:
        name = _name_of(facts)
        if name in rows_of_cell:
            is_margin = name not in with_probabilities
            cells[name] = _cell(facts, rows_of_cell[name], clips, is_margin=is_margin)
    for facts in run.about["fits"]:
        if facts["model"] == RANDOM:
            of_tasks = _most_clips(cells, facts)
            if of_tasks is not None:
                cells[_name_of(facts)] = at_random(of_tasks, facts["store"])
    return cells


def _name_of(row: Mapping[str, Any]) -> CellName:
    return row["train"], row["test"], row["store"], row["model"]


def _most_clips(
    cells: Mapping[CellName, Cell], facts: Mapping[str, Any]
) -> Cell | None:
    """Return the cell with most clips on the tasks and the store of a random order."""
    of_tasks = []
    for (train, test, store, _), cell in cells.items():
        is_on_store = facts["store"] in ("", store)
        if (train, test) == (facts["train"], facts["test"]) and is_on_store:
            of_tasks.append(cell)
    return max(of_tasks, key=lambda cell: len(cell.clips), default=None)


def at_random(cell: Cell, store: str = "") -> Cell:
    """Return a random order of the clips of a cell, in closed form."""
    return replace(
        cell,
        model=RANDOM,
        store=store,
        is_model=False,
        is_trained=False,
        share=RANDOM_SHARE,
    )


def _cell(
    facts: Mapping[str, Any],
    rows: Sequence[PredictionRow],
    clips: ClipNumbers,
    *,
    is_margin: bool,
) -> Cell:
    """Return the cell of some predictions."""
    folds = {(fold["fold"], fold["seed"]): fold for fold in facts["folds"]}
    rows_of_fit: dict[tuple[str, int], list[PredictionRow]] = {}
    for row in rows:
        rows_of_fit.setdefault((row["fold"], row["seed"]), []).append(row)
    tested = []
    for fit, of_fit in rows_of_fit.items():
        numbers = np.array([clips.number_of[row["clip_id"]] for row in of_fit])
        order = np.argsort(numbers)
        predictions = Predictions(
            np.array([row["y"] for row in of_fit], dtype=np.bool_),
            np.array([row["score"] for row in of_fit], dtype=np.float64),
            np.array([row["decision"] for row in of_fit], dtype=np.bool_),
        )
        fold = ScoredFold(
            fit[0],
            fit[1],
            numbers[order],
            predictions.take(order),
            folds[fit]["n_train"],
            folds[fit]["n_validation"],
            NO_LEAK,
            gives_probabilities=not is_margin,
        )
        tested.append(fold)
    return Cell(
        facts["train"],
        facts["test"],
        facts["model"],
        facts["store"],
        facts["is_model"],
        tested,
        is_averaged=facts["is_averaged"],
        basis_of_folds=facts["basis"],
        is_trained=facts["is_trained"],
    )


@dataclass(frozen=True)
class Run:
    """A finished run: its folder, the content of run.json, and its tables as they are asked for."""

    folder: Path
    about: Mapping[str, Any]

    def __repr__(self) -> str:
        name = self.folder.name
        if len(name) > 60:
            name = f"{name[:57]}..."
        n_cells = len(self.about["fits"])
        return short_repr("Run", repr(name), f"{n_cells} cells")

    @property
    def quiet_text(self) -> str:
        """What -q prints: where the run is."""
        return str(self.folder)

    @property
    def notes(self) -> list[str]:
        """The next command."""
        return [f"next: obygaze report {shell_word(self.folder)}"]

    def to_json(self) -> dict[str, Any]:
        """Return where the run is, and its values and differences over all films."""
        rows = [row for row in self.shown_results if not row["film"]]
        return {
            "run": str(self.folder),
            "results": json_values(rows),
            "seconds": self.about["seconds"],
        }

    def place(self, stated: str) -> str:
        """Return where a manifest or store is that run.json names: see `stated_place`."""
        return stated if is_url(stated) else str(_workspace_of(self.folder) / stated)

    @property
    def protocol(self) -> Mapping[str, Any]:
        """The complete protocol as JSON."""
        protocol: Mapping[str, Any] = self.about["protocol"]
        return protocol

    @property
    def unit(self) -> str:
        """The word for what is held out and drawn as a whole: `film`, or such as `director`.

        Without films it is `clip`, of which nothing is drawn.
        """
        splits = self.protocol["splits"]
        unit = unit_of(splits["kind"], splits["column"])
        return unit if self.has_groups else "clip"

    @property
    def units(self) -> str:
        """The plural of `unit`."""
        return plural(self.unit)

    @property
    def has_films(self) -> bool:
        """Whether its manifest says the films of the clips."""
        return bool(self.about["manifest"]["n_films"])

    @property
    def has_groups(self) -> bool:
        """Whether intervals and p can be over films, or over the groups that are held out."""
        return self.has_films or bool(self.group_of_clip)

    @cached_property
    def group_of_clip(self) -> Mapping[str, str]:
        """The group of each clip; none where films or clips are held out."""
        groups: Mapping[str, str] = self.about["group_of_clip"]
        return groups

    @cached_property
    def film_of_clip(self) -> dict[str, str]:
        """The film of each clip that was tested, "" without films."""
        return {row["clip_id"]: row["movie_id"] for row in self.predictions}

    @cached_property
    def predictions(self) -> list[PredictionRow]:
        """The rows of predictions.csv."""
        return self.table("predictions.csv")

    @cached_property
    def clip_numbers(self) -> ClipNumbers:
        """The numbers of the tested clips."""
        return ClipNumbers.of([self])

    @cached_property
    def tested_cells(self) -> dict[CellName, Cell]:
        """The cells of predictions.csv by their names."""
        return tested_cells(self, self.clip_numbers)

    @cached_property
    def results(self) -> list[ResultRow]:
        """The rows of results.csv."""
        return self.table("results.csv")

    @property
    def shown_metrics(self) -> list[str]:
        """The metrics of films that a text or a page shows."""
        primary = str(self.protocol["report"]["primary"])
        names = (PREVALENCE.name, primary, ranking_metric(primary))
        return list(dict.fromkeys(names))

    @cached_property
    def shown_results(self) -> list[ResultRow]:
        """The rows of results.csv without those within films that no text or page shows.

        Of thousands of films, all rows take gigabytes.
        """
        shown = self.shown_metrics
        columns = list(RUN_TABLES["results.csv"])
        film = columns.index("film")
        metric = columns.index("metric")
        paper = columns.index("paper")

        def is_shown(cells: Sequence[str]) -> bool:
            return not cells[film] or cells[metric] in shown or cells[paper] != ""

        return self._read("results.csv", is_shown)

    def table(self, name: str) -> list[Any]:
        """Return the rows of a table of the run; none if the protocol does not ask for it."""
        if name not in RUN_TABLES:
            raise FixUsage(
                f"a run has no table {name!r}", hint=f"one of {', '.join(RUN_TABLES)}"
            )
        return self._read(name)

    @property
    def tables_with_rows(self) -> list[str]:
        """The names of the tables that are more than a header."""
        files = self.about["files"]
        return [
            name
            for name, sha256 in files.items()
            if sha256 != sha256_bytes(table_bytes(name, []))
        ]

    def _read(
        self, name: str, is_wanted: Callable[[Sequence[str]], bool] | None = None
    ) -> list[Any]:
        files = self.about["files"]
        if name not in files:
            return []
        path = self.folder / name
        if not path.is_file():
            raise NotFound(
                f"this run has no {name}", where=str(self.folder), hint=RUN_AGAIN
            )
        data = path.read_bytes()
        if sha256_bytes(data) != files[name]:
            raise Corrupt(
                f"{name} is not the file that this run wrote",
                where=str(path),
                hint=RUN_AGAIN,
            )
        try:
            return read_rows(name, data, is_wanted)
        except (ValueError, csv.Error) as error:
            raise Corrupt(
                f"not a table of a run: {error}", where=str(path), hint=RUN_AGAIN
            ) from error

    def to_frame(self, name: str = "results.csv") -> Any:
        """Return a table of the run as a pandas DataFrame.

        Args:
            name: The file, such as "predictions.csv".
        """
        rows = self.table(name)
        columns = {}
        for column in RUN_TABLES[name]:
            columns[column] = [row[column] for row in rows]
        return data_frame(columns)


def _workspace_of(folder: Path) -> Path:
    """Return the folder that paths in run.json are relative to: that with the folder `runs`."""
    return Path(os.path.abspath(folder)).parent.parent  # noqa: PTH100 - links stay


def stated_place(place: str, folder: Path) -> str:
    """Return how run.json names a manifest or store: relative to the workspace of the run in it.

    So it is found from every current folder, and in a workspace that was moved. What is elsewhere
    has its absolute path.
    """
    if is_url(place):
        return place
    absolute = Path(os.path.abspath(place))  # noqa: PTH100 - links stay
    workspace = _workspace_of(folder)
    if absolute.is_relative_to(workspace):
        return absolute.relative_to(workspace).as_posix()
    return absolute.as_posix()


def check_run_folder(folder: Path, identity: str, *, force: bool) -> None:
    """Raise an error if the folder is another run or holds more; the same run may be repeated."""
    if is_same_run(folder, identity):
        # What is added to it stays.
        check_name(folder)
    else:
        check_folder(folder, RUN, force=force)


def is_same_run(folder: Path, identity: str) -> bool:
    """Return whether a folder has a run of these inputs."""
    if not made_by_obygaze(folder / RUN_FILE):
        return False
    about = parse_json((folder / RUN_FILE).read_bytes())
    return bool(about.get("identity") == identity)


def write_run(
    folder: Path,
    about: Mapping[str, Any],
    tables: Mapping[str, Iterable[Mapping[str, Any]]],
    *,
    force: bool = False,
) -> Run:
    """Write the tables, then run.json. A report of the same experiment stays."""
    files = {}

    def check() -> None:
        check_run_folder(folder, about["identity"], force=force)

    with write_then_rename(folder, check) as draft:
        draft.mkdir()
        if is_same_run(folder, about["identity"]):
            shutil.copytree(folder, draft, symlinks=True, dirs_exist_ok=True)
        for name, rows in tables.items():
            data = table_bytes(name, rows)
            files[name] = sha256_bytes(data)
            write_atomic(draft / name, data)
        whole = json_values({**about, "files": files})
        whole["sha256"] = document_sha256(whole)
        write_atomic(draft / RUN_FILE, pretty_json(whole))
    return Run(folder, whole)


def read_run(run: PathLike | Run, *, workspace: PathLike | None = None) -> Run:
    """Read a finished run: its tables, and what run.json says of it.

    `results` has a row for each value and each difference, `predictions` one for each test of each
    clip; `to_frame()` returns a table as a pandas DataFrame.

    Args:
        run: The name of a run of the workspace, or its folder.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> found = og.read_run("first")
        >>> found.results[0]["model"]
        'ridge'
    """
    if isinstance(run, Run):
        return run
    return read_folder(Workspace.of(workspace).existing("runs", run))


def read_folder(folder: Path) -> Run:
    """Return the run of a folder."""
    if (folder / "runs").is_dir() and not (folder / RUN_FILE).exists():
        raise NotFound(
            "this is a workspace, not a run",
            where=str(folder),
            hint=f"-C {shell_word(folder)}, and one of {few(Workspace(folder).names('runs'))}",
        )
    path = folder / RUN_FILE
    if not path.is_file():
        raise NotFound(
            "no finished run here", where=str(path), hint="obygaze run --help"
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
    # The first runs have no checksum.
    checksum = about.get("sha256")
    if checksum is not None and checksum != document_sha256(about):
        problem = "this is not the file that this run wrote: its sha256 is another one"
        raise Corrupt(problem, where=str(path), hint=RUN_AGAIN)
    return Run(folder, about)
