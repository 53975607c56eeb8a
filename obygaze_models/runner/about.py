"""What run.json says of a run: its inputs, its fits and what made it."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features import __version__
from obygaze_features.core.files import sha256_bytes
from obygaze_features.core.machine import this_machine
from obygaze_features.manifest.io import manifest_sha256
from obygaze_features.manifest.model import FILM_COLUMN
from obygaze_features.manifest.own import packages_that_read
from obygaze_models.evaluation.metrics import RANKING_METRICS
from obygaze_models.models.registry import solver_of
from obygaze_models.protocols.clips import ClipTable, labels_sha256
from obygaze_models.runner.concepts import rare_concepts
from obygaze_models.runner.inputs import Inputs, used_parts
from obygaze_models.runner.scores import Cell, number_of_groups
from obygaze_models.runner.store_run import StoreRun
from obygaze_models.runner.tables import RUN_FORMAT, stated_place

PACKAGES = ("numpy", "scipy", "scikit-learn")


def about_run(
    inputs: Inputs,
    folder: Path,
    stores: Sequence[StoreRun],
    cells: Sequence[Cell],
    seconds: float,
) -> dict[str, Any]:
    """Return the content of run.json."""
    protocol = inputs.protocol
    manifest = inputs.manifest
    machine = this_machine(PACKAGES)
    parts = used_parts(protocol)
    read_by = packages_that_read(manifest.header)
    if read_by:
        parts["datasets"] = {manifest.name: ", ".join(read_by)}
    manifest_path = inputs.manifest_path
    if manifest_path.endswith(".toml"):  # else the name of a manifest in memory
        manifest_path = stated_place(manifest_path, folder)
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
            "labels": labels_sha256(inputs.table, inputs.labels),
            "n_clips": len(inputs.table),
            "n_films": number_of_groups(inputs.table.films),
            "positive_films": {
                task: number_of_groups(inputs.table.groups[labels == 1])
                for task, labels in inputs.labels.items()
            },
            **{key: value for key, value in terms.items() if value},
        },
        "stores": {
            store.name: {
                **store.origin,
                "location": stated_place(store.origin["location"], folder),
                "n_present": len(inputs.table) - len(store.missing),
                "missing": dict(store.missing),
            }
            for store in inputs.stores
        },
        "group_of_clip": _group_of_clip(inputs.table),
        "texts": {path: file.sha256 for path, file in inputs.texts.items()},
        "remarks": dict(inputs.table.remarks),
        "rare_concepts": {
            store.name: rare_concepts(store) for store in stores if store.name
        },
        "solver": solver_of(len(inputs.table)),
        "fits": [fit_facts(cell, inputs.table.groups) for cell in cells],
        "versions": {"obygaze": __version__, **machine.packages},
        "parts": parts,
        "machine": machine.to_json(),
        "seconds": seconds,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "created_by": f"obygaze {__version__}",
    }


def _group_of_clip(table: ClipTable) -> dict[str, str]:
    """Return the group of each clip where splits hold out the groups of a column; else nothing."""
    if table.group_column == FILM_COLUMN:
        return {}
    return dict(zip(table.ids, table.groups.tolist(), strict=True))


def fit_facts(cell: Cell, films: NDArray[np.str_]) -> Mapping[str, Any]:
    """Return what was chosen in each fold of a cell, and why folds were skipped.

    `tested` is a hash of the tested clips: cells with the same one have tested the same clips;
    `positive` of these are of class 1.
    `copies` are the tested clips that leaked by their features alone; `same_film` counts clips of
    films that also trained or chose. `skipped_films` has the films of folds of whole films, and
    `films_with_value` says how many films are behind AP and AUC.

    Args:
        cell: The cell.
        films: What each clip of the table is drawn with: its film, or its group of films.
    """
    by_name: set[str] = set()
    by_features: set[str] = set()
    of_first_seed = []
    first_seed = min(t.seed for t in cell.tested)
    for t in cell.tested:
        by_features.update(t.leak.copies)
        by_name.update(set(t.leak.clips).difference(t.leak.copies))
        if t.seed == first_seed:
            of_first_seed.append(t.leak.same_film)
    # Runs that are averaged test the same clips.
    same_film = max(of_first_seed) if cell.is_averaged else sum(of_first_seed)
    return {
        "train": cell.train,
        "test": cell.test,
        "store": cell.store,
        "model": cell.model,
        "is_model": cell.is_model,
        "is_trained": cell.is_trained,
        "is_averaged": cell.is_averaged,
        "basis": cell.basis,
        "tested": sha256_bytes(cell.clips.astype(np.int64).tobytes()),
        "positive": int(cell.y.sum()),
        "films_with_value": {
            name: cell.groups_behind(films, name).number for name in RANKING_METRICS
        },
        "copies": len(by_features - by_name),
        "same_film": same_film,
        "skipped": dict(cell.skipped),
        "skipped_films": {
            fold: list(films) for fold, films in cell.skipped_films.items() if films
        },
        "folds": [
            {
                "fold": t.fold,
                "seed": t.seed,
                "n_train": t.n_train,
                "n_validation": t.n_validation,
                "leaked": t.leak.leaked,
                "copies": len(t.leak.copies),
                "same_film": t.leak.same_film,
                "threshold": t.tuned,
                "chosen": dict(t.chosen),
            }
            for t in cell.tested
        ],
    }
