"""Whether the labels that a run was made with are still those of its manifest.

Everything that shows a run beside labels of today asks `current_labels`: the report, the page, and
exports of predictions.
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
    """The clips of a run with the labels of today.

    Attributes:
        manifest: The clips in the view of the run; None if they cannot be read or seen so.
        changed: A sentence if these are not the labels that the run was made with, else "".
    """

    manifest: Manifest | None
    changed: str


def current_labels(run: Run, manifest: Manifest | None = None) -> RunLabels:
    """Return the labels of a run's clips today, and whether the run was made with others.

    Links to videos and further columns that the run did not read do not matter.

    Args:
        run: The run.
        manifest: The manifest of the run as it is today, if it was read already.
    """
    about = run.about["manifest"]
    name = about["name"]
    try:
        today = manifest
        if today is None:
            # One that was in memory has its name in place of a path.
            today = read_manifest(Path(run.place(about["path"])))
        viewed = today.view(about["view"])
    except (ObygazeError, OSError):
        lost = (
            f"The manifest {name} was in memory, or was moved or changed after the run"
            f" {run.folder.name}: the labels of the run cannot be read."
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
        # Labels that cannot be computed are others.
        pass
    return RunLabels(
        viewed,
        f"Clips or labels of the manifest {name} were changed after the run {run.folder.name}:"
        " the run was made with others.",
    )
