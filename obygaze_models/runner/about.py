"""The content of run.json: inputs, fits, versions and machine of a run."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from obygaze_features import __version__
from obygaze_features.core.machine import this_machine
from obygaze_features.manifest.io import manifest_sha256
from obygaze_models.evaluation.tables import number_of_groups
from obygaze_models.models.registry import choose_solver
from obygaze_models.protocols.clips import labels_sha256
from obygaze_models.protocols.schedule import SPLIT_KINDS
from obygaze_models.runner.files import RUN_FORMAT, stored_location
from obygaze_models.runner.inputs import Inputs

PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas")


def about_run(
    inputs: Inputs, folder: Path, fits: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the content of run.json, without the run time.

    Args:
        inputs: The inputs of the run.
        folder: The folder of the run.
        fits: An entry for each cell, with the chosen settings of each fold and the reasons of
            skipped folds (`CellTests.to_json`).
    """
    protocol = inputs.protocol
    manifest = inputs.manifest
    machine = this_machine(PACKAGES)
    manifest_path = inputs.manifest_path
    # A manifest in memory has its name in place of a path.
    if manifest_path.endswith(".toml"):
        manifest_path = stored_location(manifest_path, folder)
    terms = {
        "licence": manifest.header.licence,
        "citation": manifest.header.citation,
    }
    return {
        "format": RUN_FORMAT,
        "name": folder.name,
        "identity": inputs.identity,
        "protocol": protocol.to_json(),
        "protocol_sha256": protocol.sha256,
        "manifest": {
            "name": manifest.name,
            "path": manifest_path,
            "sha256": manifest_sha256(manifest),
            "view": protocol.data.view,
            "has_levels": inputs.table.has_labels,
            "group_column": inputs.table.group_column,
            "labels": labels_sha256(inputs.table, inputs.labels),
            "n_clips": len(inputs.table),
            "n_films": number_of_groups(inputs.table.films),
            **{key: value for key, value in terms.items() if value},
        },
        "stores": {
            store.name: {
                **_with_places(store.origin, folder),
                "missing": dict(store.missing),
            }
            for store in inputs.stores
        },
        "sizes": _sizes_of_films(inputs),
        "texts": {path: file.sha256 for path, file in inputs.texts.items()},
        "remarks": dict(inputs.table.remarks),
        "solver": choose_solver(len(inputs.table)),
        "fits": list(fits),
        "versions": {"obygaze": __version__, **machine.packages},
        "machine": machine.to_json(),
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "created_by": f"obygaze {__version__}",
    }


def _with_places(origin: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the facts of a store with its location as in run.json.

    For joined features, this includes the facts of each part.
    """
    if "parts" not in origin:
        return {**origin, "location": stored_location(origin["location"], folder)}
    parts = {}
    for name, of_part in origin["parts"].items():
        parts[name] = _with_places(of_part, folder)
    return {**origin, "parts": parts}


def _sizes_of_films(inputs: Inputs) -> dict[str, dict[str, list[int]]]:
    """Return for each task and film the number of clips and the number of positive clips.

    Only published folds need these numbers, because they test only some clips of a film. Return {}
    for other splits.
    """
    if not SPLIT_KINDS[inputs.protocol.splits.kind].by_task:
        return {}
    import pandas as pd

    sizes: dict[str, dict[str, list[int]]] = {}
    for task, labels in inputs.labels.items():
        is_of_task = labels >= 0
        y = pd.Series(labels[is_of_task] == 1)
        of_films = y.groupby(inputs.table.groups[is_of_task]).agg(["size", "sum"])
        sizes[task] = dict(
            zip(of_films.index, of_films.to_numpy().tolist(), strict=True)
        )
    return sizes
