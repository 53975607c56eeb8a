"""Check whether the labels of a run are still those of its manifest.

Reports, film pages and exports of predictions call `current_labels` before they show a run next to
labels.
"""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from obygaze_features.core.errors import ObygazeError, ObygazeWarning
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Manifest
from obygaze_models.protocols.clips import (
    LabelArray,
    clip_table,
    labels_sha256,
    task_labels,
)
from obygaze_models.protocols.schema import Data, Task
from obygaze_models.runner.files import Run


class RunLabels(NamedTuple):
    """The clips of a run with their current labels.

    Attributes:
        manifest: The clips in the view of the run, or None if they cannot be read in this view.
        changed: A sentence if the labels differ from those of the run, or "".
    """

    manifest: Manifest | None
    changed: str


def current_labels(run: Run, manifest: Manifest | None = None) -> RunLabels:
    """Return the current labels of a run's clips, and whether they differ from those of the run.

    Changes of video links, and of columns that the run did not read, do not count.

    Args:
        run: The run.
        manifest: The current manifest of the run. None: read it from its path.
    """
    about = run.about["manifest"]
    name = about["name"]
    try:
        today = manifest
        if today is None:
            # A manifest that was in memory has its name in place of a path.
            today = read_manifest(Path(run.place(about["path"])))
        viewed = today.view(about["view"])
    except (ObygazeError, OSError):
        lost = (
            f"The labels of the run {run.folder.name} cannot be read, because its manifest {name}"
            " was moved or changed after the run, or was only in memory."
        )
        return RunLabels(None, lost)
    recorded: Mapping[str, Any] = about["labels"]
    labels: dict[str, LabelArray] = {}
    try:
        with warnings.catch_warnings():
            # The run has warned of its clips already.
            warnings.simplefilter("ignore", ObygazeWarning)
            table = clip_table(today, Data(**run.protocol["data"]))
        for task in recorded["classes"]:
            labels[task] = task_labels(task, Task(**run.protocol["tasks"][task]), table)
        if labels_sha256(table, labels) == recorded:
            return RunLabels(viewed, "")
    except ObygazeError:
        # Labels that cannot be computed count as changed.
        pass
    return RunLabels(
        viewed,
        f"Clips or labels of the manifest {name} were changed after the run {run.folder.name}. The"
        " numbers of the run are for the clips and labels before the change.",
    )
