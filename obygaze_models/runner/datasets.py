"""The clips of one task as arrays for scikit-learn: X, y, groups and ids."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixUsage, ObygazeWarning
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.workspace import PathLike
from obygaze_features.manifest import Manifest, read_manifest
from obygaze_features.manifest.model import View
from obygaze_features.store import Store
from obygaze_features.store.joining import open_store
from obygaze_models.models.examples import (
    check_concepts,
    findable_columns,
    known_concepts,
)
from obygaze_models.models.fold_data import Concepts
from obygaze_models.models.registry import DEFAULT_TASK
from obygaze_models.protocols.clips import with_view
from obygaze_models.protocols.reading import load_protocol, parse_task
from obygaze_models.protocols.schema import Data, Task
from obygaze_models.protocols.tasks import one_task
from obygaze_models.runner.inputs import gather

# Changes to `honest`, so that it reads one vector per clip and needs no films for its splits.
READS_VECTORS = (
    *('grid.models=["ridge"]', "splits.kind=kfold", "splits.folds=2"),
    *("grid.pairs=same", "report.contrast=[]"),
)
AGAINST = "absent"  # the clips that are negative examples of a concept


class _Arrays(NamedTuple):
    X: NDArray[np.float32]
    y: NDArray[np.int64]
    groups: NDArray[np.str_]
    ids: NDArray[np.str_]


class Dataset(_Arrays):
    """Arrays for scikit-learn, with a row for each clip that has a label and features.

    `X` holds the feature vectors, `y` the classes 0 and 1, `groups` the film of each row ("" where
    the manifest has no films) and `ids` the clip of each row. These four can be unpacked.
    `concepts` has a column for each of `concept_names`, the concepts with at least three clips with
    and three without them: 1 for a clip with the concept, 0 for a clip without it, -1 for a clip
    that is not used (`concept_targets`). Without such a concept, reading either is an
    error that says why.
    """

    known: Concepts  # of all names, for these rows

    @cached_property
    def _usable(self) -> Concepts:
        check_concepts(self.known)
        columns = findable_columns(self.known.targets[AGAINST])
        return self.known.only([self.known.names[column] for column in columns])

    @property
    def concepts(self) -> NDArray[np.int64]:
        """A column of classes for each of `concept_names`."""
        return self._usable.targets[AGAINST]

    @property
    def concept_names(self) -> tuple[str, ...]:
        """The names of the concepts with enough clips."""
        return self._usable.names

    def __repr__(self) -> str:
        n_films = len(set(self.groups.tolist()) - {""})
        shape = f"{len(self.X)} rows x {self.X.shape[1]}"
        return short_repr(
            "Dataset", shape, f"{n_films} films", f"{self.y.sum()} positive"
        )


def dataset(
    store: PathLike | Store,
    manifest: PathLike | Manifest,
    task: str | Mapping[str, Any] = DEFAULT_TASK,
    *,
    view: View | None = None,
    array: str | None = None,
    workspace: PathLike | None = None,
) -> Dataset:
    """Return X, y, groups and ids of one task, and its concepts, for scikit-learn.

    Clips without features are excluded; `og.open_store(...).matrix(...)` gives the reasons.

    Args:
        store: The features, as in `open_store`.
        manifest: The clips and labels, as in `read_manifest`.
        task: A task of levels (EN_S, HN_S, ENHN_S), or a label as in `run`
            (`"violent"`, `"rating>=2"`). A mapping defines the classes by annotation level, such
            as `{"EN": 0, "S": 1}`, or by the keys of a task in protocols: an expression, such as
            `{"positive": "Look in concept"}`, or the values of a column, such as
            `{"column": "decade", "values": {"1990": 0, "2000": 1}}`.
        view: The view of the annotations: "raw", "visual" or "as_published". None: "visual" if
            clips have visual concepts and the features are not of sound or words, otherwise "raw".
        array: The array of the store. None: its default array.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> X, y, groups, ids = og.dataset("mine", "films", task="EN_S")
        >>> X.shape, sorted(set(y.tolist()))
        ((46, 8), [0, 1])
        >>> og.dataset("mine", "films", task="EN_S").concept_names
        ('Look', 'Body')
    """
    clips = read_manifest(manifest, workspace=workspace)
    stores = {"features": open_store(store, workspace=workspace)}
    data = Data(view=view or "auto", array=(array,) if array else ())
    honest = load_protocol("honest", READS_VECTORS)
    honest = replace(honest, data=with_view(data, clips, stores))
    if isinstance(task, str):
        name, chosen = one_task(task, honest, clips)
    else:
        name = "classes"
        chosen = _parse_task(task)
    grid = replace(honest.grid, train=(name,), test=(name,))
    protocol = replace(honest, tasks={name: chosen}, grid=grid)
    inputs = gather(protocol, clips, clips.name, stores)
    for remark in ("annotators differ", "unknown words", "replaced films"):
        if remark in inputs.table.remarks:
            text = inputs.table.remarks[remark]
            warnings.warn(text, ObygazeWarning, stacklevel=2)
    (features,) = inputs.stores
    labels = inputs.labels[name]
    rows = np.flatnonzero(features.present & (labels >= 0))
    table = inputs.table
    arrays = Dataset(
        X=features.of(rows),
        y=labels[rows].astype(np.int64),
        groups=table.films[rows],
        ids=table.id_array[rows],
    )
    arrays.known = known_concepts(
        table.concept_names,
        table.levels[rows],
        table.has_concept[rows],
        table.is_open_concept[rows],
    )
    return arrays


def _parse_task(described: Mapping[str, Any]) -> Task:
    """Return the task that a mapping describes: the class of each level, or the keys of a task."""
    if not isinstance(described, Mapping):
        raise FixUsage(
            f"task must be a name or a mapping, got {described!r}",
            hint='use "EN_S", or {"EN": 0, "S": 1}',
        )
    given = {str(key): _plain(value) for key, value in described.items()}
    if all(isinstance(value, int) for value in given.values()):
        given = {"classes": given}
    return parse_task(given)


def _plain(value: Any) -> Any:
    """Return a value; integers and booleans, of Python or NumPy, become Python integers.

    Values inside mappings are also converted.
    """
    if isinstance(value, Mapping):
        return {str(name): _plain(of_name) for name, of_name in value.items()}
    return int(value) if isinstance(value, Integral | np.bool_) else value
