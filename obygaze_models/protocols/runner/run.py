"""Run a protocol on a manifest and stores: gather the inputs, fit and test, write the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features import __version__
from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.files import canonical_json, json_values, sha256_bytes
from obygaze_features.core.machine import this_machine
from obygaze_features.manifest.io import manifest_sha256
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Store
from obygaze_models.models.common import one_thread
from obygaze_models.protocols.clips import ClipTable, clip_table
from obygaze_models.protocols.runner.cell_records import cell_record, comparable, comparison
from obygaze_models.protocols.runner.cells import Cell
from obygaze_models.protocols.runner.concept_records import concept_records
from obygaze_models.protocols.runner.contrasts import contrast_jobs
from obygaze_models.protocols.runner.execute import (
    FitContext,
    check_cells,
    count_fits,
    run_baselines,
    run_models,
)
from obygaze_models.protocols.runner.extras import analyses, argmax_records, coverage
from obygaze_models.protocols.runner.features import Features, join
from obygaze_models.protocols.runner.finished import FinishedTests
from obygaze_models.protocols.runner.folder import (
    check_free,
    predictions_csv,
    write_run,
)
from obygaze_models.protocols.runner.learning import learning_records
from obygaze_models.protocols.runner.processes import map_jobs
from obygaze_models.protocols.runner.records import RUN_FORMAT, Record, Run
from obygaze_models.protocols.runner.remarks import remarks
from obygaze_models.protocols.schedule import Labels, schedule
from obygaze_models.protocols.schema import Protocol
from obygaze_models.protocols.tasks import task_labels

Watch = Callable[[str, int], AbstractContextManager[Progress]]
PACKAGES = ("numpy", "scipy", "scikit-learn", "zarr")


@dataclass(frozen=True)
class Inputs:
    """The inputs of a run: protocol, manifest and features, joined by clip."""

    protocol: Protocol
    manifest: Manifest
    manifest_path: str
    table: ClipTable
    labels: Labels
    features: Sequence[Features]

    @cached_property
    def identity(self) -> str:
        """The hash of everything that the numbers depend on."""
        return sha256_bytes(
            canonical_json(
                {
                    "protocol": self.protocol.sha256,
                    "manifest": manifest_sha256(self.manifest),
                    "stores": {f.name: f.facts["sha256"] for f in self.features},
                    "obygaze": __version__,
                }
            )
        )

    @property
    def identity_here(self) -> str:
        """The hash of the identity, this machine and this code: the last bits depend on them."""
        machine, code = this_machine(PACKAGES), Path(__file__).parents[2].rglob("*.py")
        changed = max(path.stat().st_mtime_ns for path in code)
        return sha256_bytes(
            canonical_json([self.identity, machine.cpu, machine.python, machine.packages, changed])
        )

    def usable(self, features: Features | None) -> NDArray[np.bool_]:
        """Return whether each clip has a vector and, for splits of the paper, a video."""
        splits, table = self.protocol.splits, self.table
        present = np.ones(len(table), dtype=np.bool_) if features is None else features.present
        needs_video = splits.follow_paper and table.has_video.any()
        return present & table.has_video if needs_video else present

    @property
    def default_name(self) -> str:
        """The name of a run without a name: protocol, stores, and the start of the identity."""
        stores = "+".join(f.name for f in self.features)
        parts = [self.protocol.name, *([stores] if stores else []), self.identity[:8]]
        return "-".join(parts)[:120]


def gather(
    protocol: Protocol, manifest: Manifest, manifest_path: str, stores: Mapping[str, Store]
) -> Inputs:
    """Return the inputs of a run: labels of the tasks, and features of the stores, by clip."""
    _check_stores(protocol, stores)
    table = clip_table(manifest, protocol.data)
    used = {name for pair in protocol.pairs for name in pair}
    labels = {
        name: task_labels(name, task, table)
        for name, task in protocol.tasks.items()
        if name in used
    }
    _check_argmax(protocol, labels)
    features = [
        join(name, store, table, protocol.data, protocol.features.get(name))
        for name, store in stores.items()
    ]
    return Inputs(protocol, manifest, manifest_path, table, labels, features)


def run_protocol(
    inputs: Inputs,
    folder: Path,
    *,
    force: bool = False,
    n_jobs: int = 0,
    watch: Watch | None = None,
    read_s: float = 0.0,
) -> Run:
    """Fit and test every cell, and write the run; equal inputs give an equal results.json.

    An interrupted run keeps its finished tests beside the folder: the same call goes on from there.
    """
    check_free(folder, inputs.identity, force=force)
    clock = _Clock(read=read_s)
    finished = FinishedTests.beside(folder, inputs.identity_here)
    # Small products gain nothing from threads, and lose much where cores are shared.
    with one_thread(), finished.noted():
        watch = watch or _no_progress
        cells, baselines, splits, curves = _train_all(inputs, n_jobs, watch, clock, finished)
        with clock.part("judge"):
            contrasts = contrast_jobs(cells, inputs.protocol, inputs.table)
            cells = [cell.first_seeds(inputs.protocol.fit.seeds) for cell in cells]
            records = [*_records(inputs, cells, baselines, contrasts, n_jobs, watch), *curves]
    with clock.part("write"):
        predictions = predictions_csv([*cells, *baselines], inputs.table)
    about = _about(inputs, folder.name, splits, len(cells), clock.seconds)
    about = write_run(folder, about, records, predictions)
    finished.remove()
    return Run(folder, json_values(about), json_values(records))


def _check_stores(protocol: Protocol, stores: Mapping[str, Store]) -> None:
    wanted = set(protocol.grid.stores)
    if wanted and wanted != set(stores):
        raise FixUsage(
            f"the protocol needs the stores {', '.join(sorted(wanted))}, "
            f"got {', '.join(stores) or 'none'}",
            hint="--store NAME=STORE for each",
        )
    if not stores and protocol.model_names:
        raise FixUsage(
            "models need features, but no store is given",
            hint="--store NAME=STORE (obygaze store ls)",
        )


def _check_argmax(protocol: Protocol, labels: Labels) -> None:
    """Check that no clip is in class 1 of two of the tasks that form one question."""
    tasks = [name for name in protocol.report.argmax if name in labels]
    positive = [np.flatnonzero(labels[name] == 1) for name in tasks]
    for (one, first), (other, second) in combinations(zip(tasks, positive, strict=True), 2):
        if n := len(np.intersect1d(first, second)):
            raise FixInput(
                f"report.argmax needs tasks of one class against the rest, but {n} clips are in "
                f"class 1 of both {one} and {other}",
                hint="one task for each class, or report.argmax=[]",
            )


def _train_all(
    inputs: Inputs, n_jobs: int, watch: Watch, clock: _Clock, finished: FinishedTests
) -> tuple[list[Cell], list[Cell], dict[str, str], list[Record]]:
    cells: list[Cell] = []
    curves: list[Record] = []
    baselines: list[Cell] = []
    hashes: dict[str, str] = {}
    done: dict[bytes, bool] = {}
    masks = [inputs.usable(features) for features in inputs.features] or [inputs.usable(None)]
    alike = len({mask.tobytes() for mask in masks}) == 1
    stores: list[Features | None] = [*inputs.features] or [None]
    for features, usable in zip(stores, masks, strict=True):
        with clock.part("split"):
            plan = schedule(inputs.protocol, inputs.table, inputs.labels, usable)
            found = check_cells(inputs.protocol, plan, inputs.table)
        context = FitContext(
            inputs.protocol, inputs.table, inputs.labels, plan, features, found, n_jobs, finished
        )
        hashes[context.feature or "none"] = plan.sha256
        with clock.part("fit"):
            if features is not None and inputs.protocol.model_names:
                n_fits = count_fits(inputs.protocol, plan)
                with watch(f"fits on {features.name}", n_fits) as progress:
                    cells += run_models(context, progress)
                curves += learning_records(context)
            if usable.tobytes() not in done:
                own = run_baselines(context)
                baselines += [replace(c, feature="") for c in own] if alike else own
            done.setdefault(usable.tobytes(), alike)
    return cells, baselines, hashes, curves


def _records(
    inputs: Inputs,
    cells: Sequence[Cell],
    baselines: Sequence[Cell],
    contrasts: Sequence[Callable[[], Record]],
    n_jobs: int,
    watch: Watch,
) -> list[Record]:
    protocol = inputs.protocol
    groups = np.array(inputs.table.column(protocol.splits.group), dtype=np.str_)
    backbones = {f.name: str(f.facts["backbone"]) for f in inputs.features}

    everything = [*cells, *baselines]
    pairs = comparable(everything, protocol) if protocol.report.compare else []
    jobs: list[Callable[[], Record]] = [
        *(partial(cell_record, c, protocol, groups, "cell", backbones[c.feature]) for c in cells),
        *(partial(cell_record, c, protocol, groups, "baseline") for c in baselines),
        *(partial(comparison, *pair, protocol, groups) for pair in pairs),
        *contrasts,
    ]
    with watch("evaluation", len(jobs)) as progress:
        done = map_jobs(jobs, n_jobs, progress)
    n_first = len(done) - len(contrasts)
    ours, theirs = done[: len(cells)], done[len(cells) : len(everything)]
    primary, grouped = protocol.report.primary, protocol.splits.are_grouped
    remarked = remarks(json_values(ours), json_values(theirs), primary, grouped=grouped)
    return [
        *ours,
        *theirs,
        *done[len(everything) : n_first],
        *argmax_records(protocol, cells, groups),
        *analyses(protocol, cells, inputs.table),
        *concept_records(protocol, inputs.features, inputs.table, inputs.labels, n_jobs),
        *(coverage(f, inputs.labels, inputs.table, inputs.usable(f)) for f in inputs.features),
        *remarked,
        *done[n_first:],
    ]


def _about(
    inputs: Inputs, name: str, splits: Mapping[str, str], n_cells: int, seconds: Mapping[str, float]
) -> dict[str, Any]:
    protocol, manifest = inputs.protocol, inputs.manifest
    machine = this_machine(PACKAGES)
    return {
        "format": RUN_FORMAT,
        "name": name,
        "identity": inputs.identity,
        "protocol": protocol.to_json(),
        "protocol_sha256": protocol.sha256,
        "manifest": {
            "name": manifest.name,
            "path": inputs.manifest_path,
            "sha256": manifest_sha256(manifest),
            "view": protocol.data.view,
            "n_clips": len(inputs.table),
            "n_movies": len(set(inputs.table.movies.tolist())),
        },
        "stores": {
            f.name: {
                **f.facts,
                "n_present": int(f.present.sum()),
                "n_missing": len(f.missing),
            }
            for f in inputs.features
        },
        "splits_sha256": dict(splits),
        "versions": {"obygaze": __version__, **machine.packages},
        "seeds": {
            "splits": protocol.splits.seed,
            "fit": protocol.fit.seed,
            "n": protocol.fit.seeds,
        },
        "n_cells": n_cells,
        "machine": machine.to_json(),
        "seconds": dict(seconds),
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "created_by": f"obygaze {__version__}",
    }


@contextmanager
def _no_progress(label: str, total: int) -> Iterator[Progress]:
    yield Quiet()


class _Clock:
    """The time that each part of a run takes."""

    def __init__(self, read: float) -> None:
        self.parts: dict[str, float] = {"read": read}
        self.tick: Callable[[], float] = time.perf_counter

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Add the time of a block to a part."""
        started = self.tick()
        yield
        self.parts[name] = self.parts.get(name, 0.0) + self.tick() - started

    @property
    def seconds(self) -> dict[str, float]:
        """Each part and their sum, to the millisecond."""
        rounded = {name: round(value, 3) for name, value in self.parts.items()}
        return {**rounded, "total": round(sum(self.parts.values()), 3)}
