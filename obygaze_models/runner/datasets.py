"""The clips of one task as scikit-learn takes them: X, y, groups and ids."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import fields, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixUsage, ObygazeWarning, near
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.workspace import PathLike
from obygaze_features.manifest import Manifest, read_manifest
from obygaze_features.manifest.model import View
from obygaze_features.store import Store
from obygaze_features.store.joining import open_store
from obygaze_models.models.registry import DEFAULT_TASK
from obygaze_models.protocols.clips import (
    clip_table,
    differing_annotators,
    task_labels,
    unknown_words,
    with_view,
)
from obygaze_models.protocols.reading import checked_task, load_protocol
from obygaze_models.protocols.schema import Data, Task
from obygaze_models.protocols.tasks import one_task
from obygaze_models.runner.features import read_store


class Dataset(NamedTuple):
    """What scikit-learn takes: one row for each clip that has a label and features.

    `X` holds the feature vectors, `y` the classes 0 and 1, `groups` the film of each row ("" where
    the manifest has no films) and `ids` the clip of each row.
    """

    X: NDArray[np.float32]
    y: NDArray[np.int64]
    groups: NDArray[np.str_]
    ids: NDArray[np.str_]

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
    """Return X, y, groups and ids of one task, as scikit-learn takes them.

    Clips without features are left out; `og.open_store(...).matrix(...)` gives the reasons.

    Args:
        store: The features, as in `open_store`.
        manifest: The clips and labels, as in `read_manifest`.
        task: A task of the protocol `honest` (EN_S, HN_S, ENHN_S), or a label as in `run`
            (`"violent"`, `"rating>=2"`). Or classes by annotation level, such as
            `{"EN": 0, "S": 1}`; or a task as protocols have it: expressions,
            `{"positive": "Look in concept"}`, or the values of a column, `{"column": "decade",
            "values": {"1990": 0, "2000": 1}}`.
        view: The view of the annotations, "raw", "visual" or "as_published". The default is that
            of protocols: "visual" where clips have visual concepts and the features are not those
            of sound or words, else "raw".
        array: The array of the store, if it is not its default array.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> X, y, groups, ids = og.dataset("mine", "films", task="EN_S")
        >>> X.shape, sorted(set(y.tolist()))
        ((46, 8), [0, 1])
    """
    clips = read_manifest(manifest, workspace=workspace)
    arrays = (array,) if array else ()
    opened = open_store(store, workspace=workspace)
    data = Data(view=view or "auto", array=arrays)
    data = with_view(data, clips, {"features": opened})
    if isinstance(task, str):
        honest = load_protocol("honest")
        name, chosen = one_task(task, replace(honest, data=data), clips)
    else:
        name = "classes"
        chosen = _task_of(task)
    table = clip_table(clips, data)
    labels = task_labels(name, chosen, table)
    remarks = (
        differing_annotators({name: chosen}, [name], table),
        unknown_words({name: chosen}, [name], table, clips),
    )
    for remark in filter(None, remarks):
        warnings.warn(remark, ObygazeWarning, stacklevel=2)
    features = read_store("features", opened, table, data, of_frames=False)
    rows = np.flatnonzero(features.present & (labels >= 0))
    return Dataset(
        X=features.of(rows),
        y=labels[rows].astype(np.int64),
        groups=table.films[rows],
        ids=np.array(table.ids, dtype=np.str_)[rows],
    )


def _task_of(described: Mapping[str, Any]) -> Task:
    """Return the task of a mapping: classes of levels, or the keys of a task in a protocol."""
    if not isinstance(described, Mapping):
        raise FixUsage(
            f"task must be a name or a mapping, got {described!r}",
            hint='"EN_S", or {"EN": 0, "S": 1}',
        )
    known = {field.name for field in fields(Task)}
    given = {str(key): value for key, value in described.items()}
    if not known & given.keys():
        given = {"classes": given}
    unknown = sorted(given.keys() - known)
    if unknown:
        problem = f"unknown key {unknown[0]!r} of a task{near(unknown[0], known)}"
        raise FixUsage(
            problem, hint='{"positive": ...}, or {"column": ..., "values": ...}'
        )
    if given.get("column") and not given.get("values"):
        raise FixUsage(
            f"the task of the column {given['column']!r} has no values",
            hint='"values": {"1990": 0, "2000": 1}, with the class of each value',
        )
    for key in ("classes", "values"):
        if isinstance(given.get(key), Mapping):
            given[key] = {str(name): _plain_class(n) for name, n in given[key].items()}
    return checked_task(given)


def _plain_class(value: Any) -> Any:
    """Return a class as a number of Python, also that of numpy, or True and False."""
    return int(value) if isinstance(value, Integral | np.bool_) else value
