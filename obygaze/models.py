"""Datasets, runs, models and reports, for `import obygaze as og`.

Each function is what the command of the same name does: names, paths and URLs in, objects of the
rooms out. Heavy packages are imported by the function that needs them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from obygaze.features import (
    PathLike,
    ProgressBars,
    progress_bars,
    workspace_of,
)
from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.schema_rules import near
from obygaze_features.core.workspace import is_url, last_part
from obygaze_features.manifest import read_manifest
from obygaze_features.store import open_store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from obygaze_features.manifest import Manifest
    from obygaze_features.store import Store
    from obygaze_models.protocols import Run
    from obygaze_models.zoo import SavedModel

Stores: TypeAlias = "PathLike | Store | Mapping[str, PathLike | Store]"
View: TypeAlias = Literal["raw", "visual", "as_published"]


class Dataset(NamedTuple):
    """What scikit-learn takes: one row for each clip that has a label and features.

    `X` holds the feature vectors, `y` the classes 0 and 1, `groups` the film of each row and `ids`
    the clip of each row.
    """

    X: NDArray[np.float32]
    y: NDArray[np.int64]
    groups: NDArray[np.str_]
    ids: NDArray[np.str_]

    def __repr__(self) -> str:
        n_films = len(set(self.groups.tolist()))
        shape = f"{len(self.X)} clips x {self.X.shape[1]}"
        return short_repr(
            "Dataset", shape, f"{n_films} films", f"{self.y.sum()} positive"
        )


class Trained(NamedTuple):
    """What training one model gives: the run that evaluated it, and the saved model."""

    run: Run
    model: SavedModel


def dataset(
    store: PathLike | Store,
    manifest: PathLike | Manifest,
    *,
    task: str | Mapping[str, int] = "EN_S",
    view: View | None = None,
    level: str | None = None,
    workspace: PathLike | None = None,
) -> Dataset:
    """Return X, y, groups and ids of one task, as scikit-learn takes them.

    Clips without features are left out; `og.open_store(...).matrix(...)` gives the reasons.

    Args:
        store: The features, as in `open_store`.
        manifest: The clips and labels, as in `read_manifest`.
        task: A task of the protocol `honest` (EN_S, HN_S, ENHN_S), or classes by annotation
            level, such as `{"EN": 0, "S": 1}`.
        view: The reading of the annotations. The default is "visual", as in the paper, where the
            clips have visual concepts, else "raw".
        level: The feature level. The default is "pooled" where the store has it, else "clip".
        workspace: The workspace, if it is not the current one.

    Example:
        >>> X, y, groups, ids = og.dataset("mine", "films", task="EN_S")
        >>> X.shape, sorted(set(y.tolist()))
        ((46, 8), [0, 1])
    """
    import numpy as np

    from obygaze_models.protocols.clips import clip_table, task_labels
    from obygaze_models.protocols.reading import load_protocol
    from obygaze_models.protocols.runner.features import join
    from obygaze_models.protocols.schema import Data, Task

    clips = read_manifest(manifest, workspace=workspace)
    visual = set(clips.header.of_modality("visual"))
    has_visual = any(not visual.isdisjoint(clip.concepts) for clip in clips)
    view = view or ("visual" if has_visual else "raw")
    data = Data(view=view, level=(level,) if level else Data().level)
    if isinstance(task, str):
        tasks = load_protocol("honest").tasks
        if task not in tasks:
            what = f"unknown task {task!r}{near(task, tasks)}"
            raise FixUsage(what, hint=f"one of {', '.join(tasks)}")
        name = task
        chosen = tasks[task]
    else:
        name = "classes"
        chosen = Task(classes=dict(task))
    table = clip_table(clips, data)
    labels = task_labels(name, chosen, table)
    features = join("features", open_store(store, workspace=workspace), table, data)
    rows = np.flatnonzero(features.present & (labels >= 0))
    return Dataset(
        X=features.X[features.row_of[rows]],
        y=labels[rows].astype(np.int64),
        groups=table.movies[rows],
        ids=np.array(table.ids, dtype=np.str_)[rows],
    )


def run(
    protocol: PathLike = "honest",
    stores: Stores | None = None,
    manifest: PathLike | Manifest | None = None,
    *,
    changes: Sequence[str] = (),
    output: PathLike | None = None,
    force: bool = False,
    n_jobs: int = 0,
    progress: bool | ProgressBars = False,
    workspace: PathLike | None = None,
) -> Run:
    """Run an experiment: train, test and evaluate every cell of a protocol.

    Args:
        protocol: A protocol that comes with obygaze (`obygaze run --list`), or a TOML file.
        stores: One store, or stores by the name that tables give them.
        manifest: The clips. The default is the protocol's, or the only one of the workspace.
        changes: Keys of the protocol to change, such as `"splits.scheme=none"`.
        output: The name of the run, or a folder. The default is made of protocol and stores.
        force: Replace a run that has this name.
        n_jobs: Processes that train; 0 takes one for each core.
        progress: Show a progress bar on stderr, or a function that makes the bar.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> ridge = ["grid.models=['ridge']"]
        >>> found = og.run("honest", "mine", "films", changes=ridge, output="first")
        >>> len(found.cells)
        6
    """
    import time

    from obygaze_models.protocols import gather, load_protocol, run_protocol

    started = time.perf_counter()
    chosen = load_protocol(os.fspath(protocol), changes)
    named = manifest or chosen.data.segments or chosen.data.manifest or None
    clips, path = named_manifest(named, workspace)
    inputs = gather(chosen, clips, path, _stores(stores, workspace))
    name = inputs.default_name if output is None else os.fspath(output)
    folder = workspace_of(workspace).target("runs", name)
    read_s = time.perf_counter() - started
    watch = progress_bars(progress, "steps")
    return run_protocol(
        inputs, folder, force=force, n_jobs=n_jobs, watch=watch, read_s=read_s
    )


def read_run(run: PathLike, *, workspace: PathLike | None = None) -> Run:
    """Read a finished run: its records, and its predictions.

    Args:
        run: The name of a run of the workspace, or its folder.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> found = og.read_run("first")
        >>> found.cells[0]["model"]
        'ridge'
    """
    from obygaze_models.protocols import read_run

    return read_run(workspace_of(workspace).existing("runs", run))


def train(
    model: str,
    store: Stores,
    manifest: PathLike | Manifest,
    *,
    task: str = "ENHN_S",
    changes: Sequence[str] = (),
    output: PathLike | None = None,
    force: bool = False,
    n_jobs: int = 0,
    progress: bool | ProgressBars = False,
    workspace: PathLike | None = None,
) -> Trained:
    """Train one model, evaluate it on unseen films, and save it.

    Args:
        model: mlp, linear, ridge, svm, cav, pcbm-dt, pcbm-lr, pcbm-sparse, pcbm-h or
            ordinal.
        store: One store, as in `open_store`, or a mapping of one name to it.
        manifest: The clips and labels, as in `read_manifest`.
        task: The classes to tell apart: a task of the protocol `honest`.
        changes: Keys of that protocol to change, or `model.KEY=VALUE` for the model.
        output: The name of the run and of the model. The default is made of the arguments.
        force: Replace a run and a model that have this name.
        n_jobs: Processes that train; 0 takes one for each core.
        progress: Show a progress bar on stderr, or a function that makes the bar.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> found, model = og.train("ridge", "mine", "films", output="kept")
        >>> model.info.kind
        'ridge'
    """
    from obygaze_models.protocols import (
        fit_final,
        gather,
        run_protocol,
        training_protocol,
    )
    from obygaze_models.zoo import load_model
    from obygaze_models.zoo.saving import check_place

    clips, path = named_manifest(manifest, workspace)
    chosen = training_protocol(model, task, clips, changes)
    inputs = gather(chosen, clips, path, _stores(store, workspace))
    place = workspace_of(workspace)
    name = inputs.default_name if output is None else os.fspath(output)
    folder = place.target("runs", name)
    target = place.folder("models") / folder.name
    check_place(target, target.name)
    done = run_protocol(
        inputs,
        folder,
        force=force,
        n_jobs=n_jobs,
        watch=progress_bars(progress, "steps"),
    )
    return Trained(done, load_model(fit_final(inputs, done, target, force=force)))


def report(
    *runs: PathLike | Run,
    output: PathLike | None = None,
    formats: Sequence[str] = ("html", "md", "latex", "csv"),
    maps: str | Path | Store | None = None,
    progress: bool | ProgressBars = False,
    workspace: PathLike | None = None,
) -> list[Path]:
    """Write the report of one or more runs and return its files, the page first.

    Args:
        runs: Names of runs of the workspace, folders, or runs.
        output: The file of the page. The default is report.html in the folder of the first run.
        formats: Any of html, md, latex and csv.
        maps: A store of maps, as in `open_store`; those of the surest errors are drawn.
        progress: Show a progress bar on stderr, or a function that makes the bar.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> og.report("first")[0].name
        'report.html'
    """
    from obygaze_models.protocols import Run
    from obygaze_models.report import report
    from obygaze_models.report.page import FIGURES

    place = workspace_of(workspace)
    folders = [
        r.folder if isinstance(r, Run) else place.existing("runs", r) for r in runs
    ]
    out = None if output is None else Path(output)
    drawn = len(FIGURES) + (maps is not None)
    opened = None if maps is None else open_store(maps, workspace=workspace)
    with progress_bars(progress, "figures")("report", len(folders) * drawn) as shown:
        return report(folders, out, formats, shown, opened)


def named_manifest(
    manifest: PathLike | Manifest | None, workspace: PathLike | None
) -> tuple[Manifest, str]:
    """Return a manifest and its path; without a name, the only manifest of the workspace."""
    from obygaze_features.manifest import Manifest

    if isinstance(manifest, Manifest):
        return manifest, manifest.name
    place = workspace_of(workspace)
    if manifest is None:
        known = place.names("manifests")
        if len(known) != 1:
            shown = (
                f"name one of {few(known)}"
                if known
                else "obygaze manifest import --help"
            )
            what = f"no manifest is named, and the workspace has {count(len(known), 'manifest')}"
            raise FixUsage(what, hint=shown)
        manifest = known[0]
    path = place.manifest(os.fspath(manifest))
    return read_manifest(manifest, workspace=workspace), str(path)


def _stores(stores: Stores | None, workspace: PathLike | None) -> dict[str, Store]:
    """Open stores by the names that results give them; a single store is named after its place."""
    if stores is None:
        return {}
    if not isinstance(stores, Mapping):
        opened = open_store(stores, workspace=workspace)
        place = opened.location
        name = last_part(place) if is_url(place) else Path(place).name
        return {name.removesuffix(".zip"): opened}
    return {
        name: open_store(store, workspace=workspace) for name, store in stores.items()
    }
