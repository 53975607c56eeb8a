"""Return what a report shows of a run: names of models, tasks and films, and other facts."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from obygaze_features.core.errors import Corrupt, ObygazeError
from obygaze_features.core.workspace import PathLike
from obygaze_features.manifest.listing import film_titles
from obygaze_features.manifest.model import Manifest
from obygaze_models.evaluation.tables import Pair
from obygaze_models.protocols.schema import Task
from obygaze_models.runner.answer import asked_results, model_name
from obygaze_models.runner.files import RUN_AGAIN, RUN_FILE, ResultRows, Run
from obygaze_models.runner.text import read_run

# Baselines that read labels of the test clips. Models are not compared with them.
CEILINGS = {"oracle": "true concepts"}
# Exceptions that an edited run.json causes.
INVALID = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def open_runs(
    runs: Sequence[PathLike | Run | Sequence[PathLike | Run]],
    workspace: PathLike | None,
) -> list[Run]:
    """Return the runs of names, folders and runs, which may be in nested lists."""
    opened: list[Run] = []
    for given in runs:
        if isinstance(given, str | os.PathLike | Run):
            opened.append(read_run(given, workspace=workspace))
        else:
            opened += open_runs(given, workspace)
    return opened


@contextmanager
def explain_invalid_runs(*runs: Run) -> Iterator[None]:
    """Turn an exception that a wrongly edited run.json causes into an error that names the runs."""
    try:
        yield
    except ObygazeError:
        raise
    except INVALID as error:
        raise Corrupt(
            f"missing or invalid value in a run: {error}",
            where=", ".join(str(run.folder / RUN_FILE) for run in runs),
            hint=RUN_AGAIN,
        ) from error


def knows_films(run: Run) -> bool:
    """Return whether a requested model may have been trained on clips of a film that it tests."""
    return any(cell.knows_films for cell in asked_results(run))


def n_leaked(cell: ResultRows) -> int:
    """Return the number of leaked test clips, or 0 for a model that is not trained."""
    return cell.leaked if cell.is_trained else 0


def label(run: Run, cell: ResultRows) -> str:
    """Return the name of the model of a cell, with its store if the run has several stores.

    The name of the baseline `oracle` also states that it reads the true concepts.
    """
    if cell.model in CEILINGS:
        return f"{cell.model} ({CEILINGS[cell.model]})"
    return model_name(run, cell)


def pair_name(train: str, test: str) -> str:
    """Return the name of a pair of tasks; if both are the same task, it is the name of the task."""
    return train if train == test else f"{train} → {test}"


def task_name(run: Run, pair: Pair) -> str:
    """Return the name of a pair of tasks, with the title or expressions of the test task."""
    name = pair_name(*pair)
    words = find_task(run, pair[1]).in_words(pair[1])
    return f"{name}: {words}" if words else name


def find_task(run: Run, name: str) -> Task:
    """Return a task of the protocol of a run."""
    return Task(**run.protocol["tasks"].get(name, {}))


def unit_titles(run: Run, manifest: Manifest | None) -> Mapping[str, str]:
    """Return the known titles of the tested films, by film. Groups of films have no titles."""
    if run.holds_out_groups:
        return {}
    return film_titles(set(run.film_of_clip.values()), manifest)
