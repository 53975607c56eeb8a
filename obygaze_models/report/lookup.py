"""Look up cells, differences, clips and names in the tables of a run."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

from obygaze_features.core.errors import Corrupt, ObygazeError
from obygaze_features.core.parts import label_of
from obygaze_features.core.workspace import PathLike, Workspace, is_url
from obygaze_features.manifest.listing import titles_of_films
from obygaze_features.manifest.model import Clip
from obygaze_features.manifest.vocabulary import film_title
from obygaze_features.store import open_store
from obygaze_models.evaluation.metrics import RANKING_METRICS
from obygaze_models.protocols.schedule import Pair
from obygaze_models.protocols.schema import Task
from obygaze_models.runner.features import CHOSEN
from obygaze_models.runner.labels import RunLabels, labels_since
from obygaze_models.runner.rows import ResultRow
from obygaze_models.runner.summary import (
    CellRows,
    Gain,
    asked_cell,
    best_guess,
    cells_of,
    compared_metric,
    gain_of,
    intervals_are_of,
)
from obygaze_models.runner.tables import (
    RUN_AGAIN,
    RUN_FILE,
    Run,
    at_random,
    read_folder,
)

# Baselines that read labels of the test clips: no model has to be better than these.
CEILINGS = {"oracle": "true concepts"}
# What code raises over a table or a run.json that was edited.
INVALID = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

T = TypeVar("T")
K = TypeVar("K")


@dataclass(frozen=True)
class ReportRun(Run):
    """A finished run, with what a page looks up in its tables."""

    @classmethod
    def of(cls, run: Run) -> Self:
        """Return the same run with these properties."""
        return cls(run.folder, run.about)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The table `report` of the protocol."""
        settings: Mapping[str, Any] = self.protocol["report"]
        return settings

    @property
    def title(self) -> str:
        """The title of the protocol; its name if it has none, or if it is about unseen films."""
        if self.knows_films or self.unit != "film":
            return str(self.protocol["name"])
        return str(self.settings["title"] or self.protocol["name"])

    @property
    def tests_unseen_films(self) -> bool:
        """Whether the tested films, or groups, are other ones than those of the training."""
        return self.has_groups and not self.knows_films

    @property
    def knows_films(self) -> bool:
        """Whether models may know the tested films; titles of shipped protocols are of others."""
        return self.main is not None and self.main.knows_films

    @property
    def primary(self) -> str:
        """The primary metric of the protocol."""
        return str(self.settings["primary"])

    @cached_property
    def ranking(self) -> str:
        """The metric that models are compared by: AUC if it is the primary one, else AP."""
        return compared_metric(self)

    @property
    def metrics(self) -> list[str]:
        """The metrics of the page: the primary one, what is compared, and own ones."""
        own = self.settings["metrics"]
        return list(dict.fromkeys((self.primary, self.ranking, *own)))

    @cached_property
    def all_cells(self) -> list[CellRows]:
        """The rows of each model and baseline."""
        return cells_of(self)

    @cached_property
    def cells(self) -> list[CellRows]:
        """The rows of each model, in the order of the protocol."""
        return [cell for cell in self.all_cells if cell.is_model]

    @cached_property
    def baselines(self) -> list[CellRows]:
        """The rows of each baseline."""
        return [cell for cell in self.all_cells if not cell.is_model]

    @cached_property
    def main(self) -> CellRows | None:
        """The cell that the first screen is about."""
        return asked_cell(self, self.all_cells)

    @cached_property
    def gain(self) -> Gain | None:
        """What joined features say more than the best single store; None without such a run."""
        return gain_of(self, self.all_cells)

    @cached_property
    def stores(self) -> list[str]:
        """The stores of the models."""
        return list(dict.fromkeys(cell.store for cell in self.cells))

    def guess_of(self, cell: CellRows, metric: str) -> CellRows | None:
        """Return the best baseline without video on the tasks of a cell; None without one."""
        return best_guess(self, cell, self.all_cells, metric)

    def chance(self, cell: CellRows) -> float:
        """Return what a random order has in the metric that is compared."""
        chance = RANKING_METRICS[self.ranking].chance
        if chance is not None:
            return chance
        return self._of_random_order[pair_of_cell(cell), cell.tested]

    @cached_property
    def _of_random_order(self) -> dict[tuple[Pair, str], float]:
        """What a random order has, by tasks and tested clips, whether it is a baseline or not."""
        values = {}
        for cell in self.all_cells:
            if cell.name in self.tested_cells:
                in_random_order = at_random(self.tested_cells[cell.name])
                value = in_random_order.value[self.ranking]
                values[pair_of_cell(cell), cell.tested] = value
        return values

    @cached_property
    def differences(self) -> list[ResultRow]:
        """The rows of differences over all films."""
        return [row for row in self.shown_results if row["against_train"]]

    @cached_property
    def contrasts(self) -> list[ResultRow]:
        """The differences of a model that was trained on one task and on another."""
        return [row for row in self.differences if row["against_train"] != row["train"]]

    @cached_property
    def learning(self) -> list[ResultRow]:
        """The values of models that were trained on few films."""
        return [row for row in self.shown_results if row["train_films"] is not None]

    @cached_property
    def intervals_are_of(self) -> str:
        """What the intervals of models and baselines are of; "" without an interval."""
        return intervals_are_of(self, self.all_cells)

    @property
    def about_intervals(self) -> str:
        """What an interval is, for the words that a page explains; "" without an interval."""
        if not self.intervals_are_of:
            return ""
        return (
            f"Likely values of {self.intervals_are_of}. Whole {self.units} are drawn, since clips"
            f" of one {self.unit} are alike."
        )

    def label(self, cell: CellRows) -> str:
        """Return the name of a model, with its store if the run has several."""
        return self.label_of(cell.model, cell.store)

    def label_of(self, model: str, store: str) -> str:
        """Return the name of a model, with its store if the run has several."""
        name = label_of(model)
        if store == CHOSEN:
            return f"{name} (store chosen on training {self.units})"
        if model in CEILINGS:
            return f"{name} ({CEILINGS[model]})"
        return f"{name} ({store})" if store and len(self.stores) > 1 else name

    def task_name(self, pair: Pair) -> str:
        """Return the name of a pair of tasks with the title or expressions of the tested one."""
        name = pair_name(*pair)
        task = Task(**self.protocol["tasks"].get(pair[1], {}))
        words = task.in_words(pair[1])
        return f"{name}: {words}" if words else name

    @cached_property
    def labels(self) -> RunLabels:
        """The clips with the labels of today, and whether the run was made with others."""
        return labels_since(self)

    @cached_property
    def clips(self) -> dict[str, Clip]:
        """The clips in the view of the run, by id; none if they cannot be read or were changed."""
        if self.labels.manifest is None or self.labels.changed:
            return {}
        return {clip.clip_id: clip for clip in self.labels.manifest}

    @cached_property
    def changed_stores(self) -> list[str]:
        """The stores of the run that are here, but have other content than the run has read."""
        changed = []
        for name, facts in self.about["stores"].items():
            location = self.place(facts["location"])
            if is_url(location):
                continue
            # A store that was moved or removed says nothing.
            with suppress(ObygazeError, OSError):
                if open_store(Path(location)).seal != facts["seal"]:
                    changed.append(name)
        return changed

    @cached_property
    def _titles(self) -> dict[str, str]:
        manifest = self.labels.manifest
        return {} if manifest is None else titles_of_films(manifest)

    def film_name(self, film: str) -> str:
        """Return the title of a film: from the manifest or of a published film; else its id."""
        return self._titles.get(film) or film_title(film)

    def unit_name(self, unit: str) -> str:
        """Return the title of a film, or the name of a group, which may be the id of a film."""
        return unit if self.group_of_clip else self.film_name(unit)


def opened_runs(
    runs: Sequence[PathLike | Run | Sequence[PathLike | Run]],
    workspace: PathLike | None,
) -> list[Run]:
    """Return the runs that were given by name or folder, one after another or as a list."""
    place = Workspace.of(workspace)
    opened: list[Run] = []
    for given in runs:
        if isinstance(given, Run):
            opened.append(given)
        elif isinstance(given, str | os.PathLike):
            opened.append(read_folder(place.existing("runs", given)))
        else:
            opened += opened_runs(given, workspace)
    return opened


@contextmanager
def explaining(*runs: Run) -> Iterator[None]:
    """Explain what tables and run.json raise that were edited."""
    try:
        yield
    except ObygazeError:
        raise
    except Exception as error:
        of_template = type(error).__module__.startswith("jinja2.")
        if not of_template and not isinstance(error, INVALID):
            raise
        raise Corrupt(
            f"a run has no value or an invalid value: {error}",
            where=", ".join(str(run.folder / RUN_FILE) for run in runs),
            hint=RUN_AGAIN,
        ) from error


def pair_of_cell(cell: CellRows) -> Pair:
    """Return the training task and the test task of a cell."""
    return cell.train, cell.test


def leaked_of(cell: CellRows) -> int:
    """Return the test clips that leaked; none where nothing is trained."""
    return cell.leaked if cell.is_trained else 0


def pair_name(train: str, test: str) -> str:
    """Return the name of a pair of tasks; two equal tasks are named once."""
    return train if train == test else f"{train} → {test}"


def grouped_by(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return the items under each key, keys in the order in which they first appear."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
