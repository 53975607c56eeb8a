"""Look up names, numbers and groups in the records of a run, for tables and figures."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from obygaze_features.core.errors import ObygazeError
from obygaze_features.manifest.film_choice import titles_of_films
from obygaze_features.manifest.io import manifest_sha256, read_manifest
from obygaze_features.manifest.model import Manifest
from obygaze_features.manifest.vocabulary import film_title
from obygaze_models.evaluation.metrics import goodness, ranking_metric
from obygaze_models.protocols.results.cells import (
    CHOSEN,
    CellRecord,
    Estimate,
    Metric,
)
from obygaze_models.protocols.results.concepts import ConceptVectors, Head
from obygaze_models.protocols.results.differences import Comparison, Contrast
from obygaze_models.protocols.runner.records import Run
from obygaze_models.protocols.runner.table import CEILINGS, shown_metrics
from obygaze_models.report.tables import Heading, Number, Row, report_text

T = TypeVar("T")
K = TypeVar("K")


class OfModel(Protocol):
    """A record, or a side of one, about a model and its store."""

    @property
    def model(self) -> str:
        """The name of the model."""

    @property
    def feature(self) -> str:
        """The store; "" for a baseline that holds for every store."""


class OfCell(OfModel, Protocol):
    """A record about a model that was trained for one task and tested on one."""

    @property
    def pair(self) -> tuple[str, str]:
        """The training task and the test task."""


C = TypeVar("C", bound=OfCell)


@dataclass(frozen=True)
class ReportRun(Run):
    """A finished run, with what tables and figures look up in its records."""

    @classmethod
    def of_run(cls, run: Run) -> Self:
        """Return the same run with these properties."""
        return cls(run.folder, run.about, run.records)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The table `report` of the protocol."""
        settings: Mapping[str, Any] = self.protocol.get("report", {})
        return settings

    @property
    def title(self) -> str:
        """The title of the protocol; without one, its name."""
        return str(
            self.settings.get("title") or self.protocol.get("name") or self.folder.name
        )

    @property
    def full_title(self) -> str:
        """The title after the name of the manifest."""
        return f"{self.about['manifest']['name']}: {self.title}"

    @property
    def primary(self) -> str:
        """The primary metric of the protocol."""
        return str(self.settings.get("primary") or "ap")

    @property
    def shown_metrics(self) -> list[str]:
        """The metrics of the main table; the primary one is the first."""
        return shown_metrics(self.protocol)

    @property
    def ranking(self) -> str:
        """The metric with intervals that is drawn: AUC if it is the primary one, else AP."""
        return ranking_metric(self.primary)

    @property
    def confidence(self) -> str:
        """The confidence of the intervals, such as "95 %"."""
        return f"{100 * self.settings.get('confidence', 0.95):g} %"

    @property
    def task_titles(self) -> dict[str, str]:
        """The titles of the tasks that have one."""
        tasks = self.protocol.get("tasks", {})
        return {
            name: task["title"] for name, task in tasks.items() if task.get("title")
        }

    @cached_property
    def places_of_tasks(self) -> dict[str, tuple[str, str]]:
        """The row and the series of each task that has a row, for bars beside each other."""
        places = {}
        for name, task in self.protocol.get("tasks", {}).items():
            if task.get("row"):
                places[name] = (str(task["row"]), str(task.get("series") or name))
        return places

    @cached_property
    def stores(self) -> list[str]:
        """The stores of the models, in the order of the tables."""
        return list(dict.fromkeys(cell.feature for cell in self.cells if cell.feature))

    @property
    def is_own_test(self) -> bool:
        """Whether there are many tasks, each tested on itself only, such as concepts."""
        pairs = {cell.pair for cell in self.cells}
        return len(pairs) > 2 and all(train == test for train, test in pairs)

    @cached_property
    def films(self) -> list[str]:
        """The films that some cell was tested on, sorted."""
        tested = chain.from_iterable(cell.by_film for cell in self.cells)
        return sorted(set(tested))

    @cached_property
    def manifest(self) -> Manifest | None:
        """The manifest of the run in its view; None if it was moved or changed since."""
        about = self.about["manifest"]
        try:
            manifest = read_manifest(Path(about["path"]))
            if manifest_sha256(manifest) != about["sha256"]:
                return None
            return manifest.view(about["view"])
        except (ObygazeError, OSError):
            return None

    @cached_property
    def _titles(self) -> dict[str, str]:
        """The titles of the column `movie_title` or `title` of the manifest."""
        return {} if self.manifest is None else titles_of_films(self.manifest)

    def film_name(self, film: str) -> str:
        """Return the title of a film: from the manifest or of a published film; else its id."""
        return self._titles.get(film) or film_title(film)

    @property
    def banks(self) -> list[ConceptVectors]:
        """The records of concept vectors, one for each store and settings."""
        return self.of(ConceptVectors)

    @property
    def heads(self) -> list[Head]:
        """The records of the heads of bottlenecks."""
        return self.of(Head)

    def label(self, record: OfModel) -> str:
        """Return the name of a model, with its store if the run has several stores."""
        if record.feature == CHOSEN and self.chooses_store:
            return f"{model_name(record)} (store chosen on training films)"
        several = record.feature and len(self.stores) > 1
        return model_and_store(record) if several else model_name(record)

    def rows_by_pair(
        self, records: Sequence[C], values: Callable[[C], Iterable[Any]]
    ) -> list[Row | Heading]:
        """Return a row per record, under a heading for each pair of train task and test task."""
        rows: list[Row | Heading] = []
        for pair, same_pair in grouped(records, lambda r: r.pair).items():
            rows.append(Heading(pair_name(*pair)))
            rows += [(self.label(record), *values(record)) for record in same_pair]
        return rows


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return the items under each key, keys in the order in which they first appear."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def metric_name(metric: str) -> str:
    """Return the name of a metric in tables."""
    return str(report_text()["metrics"].get(metric, metric))


def model_name(record: OfModel) -> str:
    """Return the name of a model; baselines with exact values and the oracle are marked."""
    if isinstance(record, CellRecord) and record.expected:
        return f"{record.model} (expected)"
    return record.model + CEILINGS.get(record.model, "")


def model_and_store(record: OfModel) -> str:
    """Return the name of a model and its store."""
    return f"{model_name(record)} ({record.feature})"


def pair_name(train: str, test: str) -> str:
    """Return the name of a pair of tasks; two equal tasks are named once."""
    return train if train == test else f"{train} → {test}"


def film_value(record: CellRecord, film: str, metric: str) -> float | None:
    """Return a metric of a cell on the clips of one film."""
    if film not in record.by_film:
        return None
    return record.by_film[film].metrics.get(metric)


def number_of(estimate: Metric | Estimate | None) -> Number:
    """Return a value with its interval over films, if it has one."""
    if estimate is None:
        return Number(None)
    low, high = estimate.ends
    value = estimate.value
    if value is None and isinstance(estimate, Metric):
        value = estimate.mean
    return Number(value, low, high)


def metric_of(record: CellRecord, metric: str) -> Number:
    """Return a metric of a cell with its interval over films, if it has one."""
    return number_of(record.metrics.get(metric))


def difference_of(record: Comparison | Contrast) -> Number:
    """Return a difference with its interval, if it has one."""
    low, high = record.ends
    return Number(record.difference, low, high)


def rank_of(record: CellRecord, metric: str) -> float:
    """Return a number for sorting by a metric, larger where it is better; least if missing."""
    value = metric_of(record, metric).value
    return -math.inf if value is None else goodness(metric, value)


def best_guesses(
    run: ReportRun, pair: tuple[str, str], feature: str, metric: str
) -> list[CellRecord]:
    """Return the baselines without video that are best on a pair of tasks; several if equal."""
    guesses = [
        record
        for record in run.baselines
        if record.pair == pair
        and not record.ceiling
        and record.feature in ("", feature)
    ]
    best = max((rank_of(record, metric) for record in guesses), default=None)
    return [record for record in guesses if rank_of(record, metric) == best]
