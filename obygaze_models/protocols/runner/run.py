"""Run a protocol on a manifest and stores: gather the inputs, fit and test, write the run."""

import json
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features import __version__
from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.errors import FixInput, FixUsage, ObygazeWarning
from obygaze_features.core.file_names import portable
from obygaze_features.core.files import canonical_json, json_values, sha256_bytes
from obygaze_features.core.machine import this_machine
from obygaze_features.manifest.io import manifest_sha256
from obygaze_features.manifest.model import Manifest
from obygaze_features.manifest.own import packages_that_read
from obygaze_features.store import Store
from obygaze_models.models.registry import find_kind
from obygaze_models.protocols.clips import ClipTable, clip_table, task_labels, with_view
from obygaze_models.protocols.results.record import RunRecord
from obygaze_models.protocols.results.whole_run import Remark
from obygaze_models.protocols.runner.argmax import argmax_records
from obygaze_models.protocols.runner.banks import with_erasing
from obygaze_models.protocols.runner.cell_records import cell_record
from obygaze_models.protocols.runner.cells import Cell, predictions_csv
from obygaze_models.protocols.runner.code import (
    own_code,
    used_parts,
)
from obygaze_models.protocols.runner.comparisons import (
    comparable,
    compare_cells,
    contrast_jobs,
    with_families,
)
from obygaze_models.protocols.runner.concept_records import concept_jobs
from obygaze_models.protocols.runner.copies import copies_record
from obygaze_models.protocols.runner.execute import (
    FitContext,
    run_baselines,
    run_models,
)
from obygaze_models.protocols.runner.features import Features, coverage, join
from obygaze_models.protocols.runner.finished import FinishedTests
from obygaze_models.protocols.runner.learning import (
    check_learning_films,
    learning_records,
)
from obygaze_models.protocols.runner.processes import fitting, map_groups
from obygaze_models.protocols.runner.rare_concepts import warn_of_rare_concepts
from obygaze_models.protocols.runner.records import (
    RUN_FORMAT,
    Run,
    check_free,
    write_run,
)
from obygaze_models.protocols.runner.remarks import feature_remarks, remarks
from obygaze_models.protocols.runner.store_choice import (
    chosen_cells,
    with_common_clips,
)
from obygaze_models.protocols.runner.success import success_records
from obygaze_models.protocols.schedule import Labels, schedule
from obygaze_models.protocols.schema import SPLIT_KINDS, Protocol

Watch = Callable[[str, int], AbstractContextManager[Progress]]
MANY_FOLDS = 300  # of films: where a run warns
FEW_FOLDS = 10  # what it then offers
PACKAGES = ("numpy", "scipy", "scikit-learn")


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
        parts: dict[str, Any] = {
            "protocol": self.protocol.sha256,
            "manifest": manifest_sha256(self.manifest),
            "stores": {f.name: f.origin["sha256"] for f in self.features},
            "obygaze": __version__,
        }
        own_parts = used_parts(self.protocol)
        if own_parts:
            parts["parts"] = own_parts
        return sha256_bytes(canonical_json(parts))

    @property
    def identity_here(self) -> str:
        """The hash of the identity, this machine and this code: the last bits depend on them."""
        machine = this_machine(PACKAGES)
        here = [
            self.identity,
            machine.cpu,
            machine.python,
            machine.packages,
            own_code(),
        ]
        return sha256_bytes(canonical_json(here))

    def usable(self, features: Features | None) -> NDArray[np.bool_]:
        """Return whether each clip has a vector and, for the splits of a scheme, a video."""
        splits = self.protocol.splits
        table = self.table
        present = np.ones(len(table), dtype=np.bool_)
        if features is not None:
            present = features.present
        if splits.follow_scheme and table.has_video.any():
            return present & table.has_video
        return present

    def context(self, features: Features | None, *options: Any) -> FitContext:
        """Return a store's features (or none) with the splits of its clips."""
        plan = schedule(self.protocol, self.table, self.labels, self.usable(features))
        return FitContext(
            self.protocol, self.table, self.labels, plan, features, *options
        )

    @property
    def default_name(self) -> str:
        """The name of a run without a name: protocol, stores, and the start of the identity."""
        parts = [self.protocol.name]
        stores = "+".join(f.name for f in self.features)
        if stores:
            parts.append(stores)
        parts.append(self.identity[:8])
        return portable("-".join(parts)[:120])


def gather(
    protocol: Protocol,
    manifest: Manifest,
    manifest_path: str,
    stores: Mapping[str, Store],
) -> Inputs:
    """Return the inputs of a run: labels of the tasks, and features of the stores, by clip."""
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
    protocol = replace(protocol, data=with_view(protocol.data, manifest))
    table = clip_table(manifest, protocol.data)
    used_tasks: set[str] = set()
    for pair in protocol.pairs:
        used_tasks.update(pair)
    labels = _labels_of_tasks(protocol, used_tasks, table)
    _check_argmax(protocol, labels)
    of_frames = _reads_frames(protocol)
    features = [
        join(
            name,
            store,
            table,
            protocol.data,
            protocol.features.get(name),
            frames=of_frames,
        )
        for name, store in stores.items()
    ]
    if protocol.fit.choose_store:
        features = with_common_clips(features, table)
    features = [with_erasing(f, table, protocol.data) for f in features]
    return Inputs(protocol, manifest, manifest_path, table, labels, features)


def _labels_of_tasks(
    protocol: Protocol, used_tasks: Collection[str], table: ClipTable
) -> Labels:
    """Return the classes of the clips by task; an error names the tasks that can be run."""
    labels = {}
    refused = []
    for name, task in protocol.tasks.items():
        if name not in used_tasks:
            continue
        try:
            labels[name] = task_labels(name, task, table)
        except FixInput as error:
            refused.append(error)
    if not refused:
        return labels
    first = refused[0]
    if not labels:
        raise first
    only = json.dumps(list(labels))
    settings = f"--set 'grid.train={only}' --set 'grid.test={only}'"
    hint = f"{settings} for the tasks that these clips have; {first.hint}"
    raise FixInput(first.message, where=first.where, hint=hint)


def _check_argmax(protocol: Protocol, labels: Labels) -> None:
    """Raise an error where a clip is in class 1 of two tasks of `report.argmax`."""
    tasks = [name for name in protocol.report.argmax if name in labels]
    for first, second in combinations(tasks, 2):
        n = int(np.sum((labels[first] == 1) & (labels[second] == 1)))
        if n:
            raise FixInput(
                f"report.argmax needs tasks of one class against the rest, but {n} clips are in "
                f"class 1 of both {first} and {second}",
                hint="one task for each class, or report.argmax=[]",
            )


def _reads_frames(protocol: Protocol) -> bool | None:
    """Return whether the models read frames; None if there is no model."""
    kinds = [protocol.models[name].kind for name in protocol.model_names]
    read = {find_kind(kind).reads for kind in kinds}
    if not read:
        return None
    if "frames" not in read:
        return False
    if len(read) > 1:
        raise FixUsage("models of frames and models of clips need a protocol each")
    return True


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
    _warn_of_many_fits(inputs)
    seconds = {"read": read_s}
    finished = FinishedTests.beside(folder, inputs.identity_here)
    with fitting(), finished.explains_interrupt():
        watch = watch or _no_progress
        with _timed(seconds, "split"):
            stores = inputs.features or (None,)
            contexts = [
                inputs.context(features, n_jobs, finished) for features in stores
            ]
            for context in contexts:
                context.check_leaks(list(context.leaks.values()))
            check_learning_films(contexts)
            warn_of_rare_concepts(contexts)
        with _timed(seconds, "fit"):
            cells, baselines, curves = _fit_all(contexts, watch)
            if inputs.protocol.fit.choose_store:
                cells += chosen_cells(cells)
        with _timed(seconds, "evaluate"):
            made = [*_records(inputs, contexts, cells, baselines, watch), *curves]
            records = [record.as_read() for record in made]
    with _timed(seconds, "write"):
        cells = [cell.first_seeds(inputs.protocol.fit.seeds) for cell in cells]
        predictions = predictions_csv([*cells, *baselines], inputs.table)
    splits = {
        context.feature or "none": context.schedule.sha256 for context in contexts
    }
    about = _about(inputs, folder.name, splits, len(cells), seconds)
    about = write_run(folder, about, records, predictions)
    finished.remove()
    return Run(folder, json_values(about), records)


def _warn_of_many_fits(inputs: Inputs) -> None:
    """Warn where each of many films is left out, before the fits begin that take so long."""
    protocol = inputs.protocol
    table = inputs.table
    splits = protocol.splits
    n_folds = len(set(table.column(splits.group).tolist()))
    leaves_out_each = splits.kind == "leave_one_group_out" or not splits.folds
    if (
        splits.kind not in SPLIT_KINDS
        or splits.kind in ("fixed", "published")
        or not leaves_out_each
    ):
        return
    if splits.validation == "each":
        n_folds *= n_folds - 1
    if n_folds <= MANY_FOLDS or not protocol.model_names:
        return
    tasks = dict.fromkeys(train for train, _ in protocol.pairs)
    n_fits_of_a_fold = 0
    for task in tasks:
        for name in protocol.model_names:
            is_repeated = protocol.models[name].kind == "mlp"
            n_fits_of_a_fold += protocol.n_seeds(task) if is_repeated else 1
    n_fits = n_folds * n_fits_of_a_fold * len(inputs.features)
    n_of_ten = FEW_FOLDS * n_fits_of_a_fold * len(inputs.features)
    text = (
        f"{n_fits:,} fits of up to {len(table):,} clips each: one {splits.group} at a time is left "
        f"out. Ten groups of them take {n_of_ten:,} fits, {n_fits / n_of_ten:.0f} times less time. "
        f"Try: --set splits.kind=nested --set splits.validation=next --set splits.folds={FEW_FOLDS}"
    )
    warnings.warn(text, ObygazeWarning, stacklevel=3)


def _fit_all(
    contexts: Sequence[FitContext], watch: Watch
) -> tuple[list[Cell], list[Cell], list[RunRecord]]:
    """Return the cells, the baselines and the learning curves of all stores."""
    cells: list[Cell] = []
    curves: list[RunRecord] = []
    by_splits: dict[str, list[Cell]] = {}
    for context in contexts:
        if context.features is not None and context.models:
            with watch(f"tests on {context.feature}", context.n_tests) as progress:
                cells += run_models(context, progress)
            curves += learning_records(context)
        # Baselines read no features: stores with the same clips have the same ones.
        splits = context.schedule.sha256
        if splits not in by_splits:
            by_splits[splits] = run_baselines(context)
    baselines: list[Cell] = []
    for cells_of_splits in by_splits.values():
        baselines += cells_of_splits
    if len(by_splits) == 1:
        baselines = [replace(cell, feature="") for cell in baselines]
    return cells, baselines, curves


def _records(
    inputs: Inputs,
    contexts: Sequence[FitContext],
    cells: Sequence[Cell],
    baselines: Sequence[Cell],
    watch: Watch,
) -> list[RunRecord]:
    """Return the records of a run but its curves, in the order of results.json."""
    protocol = inputs.protocol
    table = inputs.table
    stores = [context for context in contexts if context.features is not None]
    contrasts = contrast_jobs(cells, protocol, table)
    cells = [cell.first_seeds(protocol.fit.seeds) for cell in cells]
    jobs = {**_jobs(inputs, stores, cells, baselines), "contrasts": [*contrasts]}
    n_jobs = sum(map(len, jobs.values()))
    with watch("evaluation", n_jobs) as progress:
        made = map_groups(jobs, contexts[0].n_jobs, progress)
    comparisons = with_families(made["comparisons"], protocol.report.questions)
    records: list[RunRecord] = [
        *made["cells"],
        *made["baselines"],
        *comparisons,
        *argmax_records(protocol, cells),
        *success_records(protocol, cells, table),
        *chain.from_iterable(made["concepts"]),
    ]
    for store in stores:
        usable = inputs.usable(store.features)
        records.append(coverage(store.store, store.table, store.labels, usable))
    for store in stores:
        if store.store.copies.group:
            records.append(copies_record(store.feature, store.store.copies))
    for about, text in table.remarks.items():
        records.append(Remark(about=about, cells=len(cells), text=text))
    records += remarks(
        [cell.as_read() for cell in made["cells"]],
        [cell.as_read() for cell in made["baselines"]],
        protocol.report.primary,
        grouped=protocol.splits.are_grouped,
        comparisons=[record.as_read() for record in comparisons],
        column=protocol.splits.column if protocol.splits.kind == "fixed" else "",
        group=protocol.splits.group,
    )
    for store in stores:
        records += feature_remarks(store)
    records += made["contrasts"]
    return records


def _jobs(
    inputs: Inputs,
    stores: Sequence[FitContext],
    cells: Sequence[Cell],
    baselines: Sequence[Cell],
) -> dict[str, list[Callable[[], Any]]]:
    """Return the functions that compute records, by what they compute, the longest first.

    Contrasts are not among them: they need the cells with all of their seeds.
    """
    protocol = inputs.protocol
    labels = inputs.labels
    groups = inputs.table.column(protocol.splits.group)
    backbones = {f.name: str(f.origin["backbone"]) for f in inputs.features}
    concepts: list[Callable[[], Any]] = []
    # Concept vectors of this analysis are found on the features as they are.
    analysed = [] if protocol.data.erase else stores
    for store in analysed:
        concepts += concept_jobs(store)
    of_cells = [
        partial(
            cell_record,
            cell,
            protocol,
            groups,
            labels[cell.test],
            backbones.get(cell.feature, ""),
        )
        for cell in cells
    ]
    of_baselines = [
        partial(cell_record, cell, protocol, groups, labels[cell.test])
        for cell in baselines
    ]
    comparisons = []
    if protocol.report.compare:
        for first, second in comparable([*cells, *baselines]):
            comparisons.append(partial(compare_cells, first, second, protocol, groups))
    return {
        "concepts": concepts,
        "cells": [*of_cells],
        "baselines": [*of_baselines],
        "comparisons": [*comparisons],
    }


def _about(
    inputs: Inputs,
    name: str,
    splits: Mapping[str, str],
    n_cells: int,
    seconds: dict[str, float],
) -> dict[str, Any]:
    """Return the content of run.json."""
    protocol = inputs.protocol
    manifest = inputs.manifest
    machine = this_machine(PACKAGES)
    parts = used_parts(protocol)
    read_by = packages_that_read(manifest.header)
    if read_by:
        parts["datasets"] = {manifest.name: ", ".join(read_by)}
    terms = {
        "licence": manifest.header.licence,
        "citation": manifest.header.citation,
    }
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
            "n_films": len(set(inputs.table.films.tolist())),
            **{key: value for key, value in terms.items() if value},
        },
        "stores": {
            f.name: {
                **f.origin,
                "n_present": int(f.present.sum()),
                "n_missing": len(f.missing),
            }
            for f in inputs.features
        },
        "splits_sha256": dict(splits),
        "versions": {"obygaze": __version__, **machine.packages},
        "parts": parts,
        "seeds": {
            "splits": protocol.splits.seed,
            "fit": protocol.fit.seed,
            "n": protocol.fit.seeds,
        },
        "n_cells": n_cells,
        "machine": machine.to_json(),
        "seconds": {
            **{part: round(value, 3) for part, value in seconds.items()},
            "total": round(sum(seconds.values()), 3),
        },
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "created_by": f"obygaze {__version__}",
    }


@contextmanager
def _no_progress(label: str, total: int) -> Iterator[Progress]:
    yield Quiet()


@contextmanager
def _timed(seconds: dict[str, float], part: str) -> Iterator[None]:
    """Add the time of a block to that of a part of the run."""
    started = time.perf_counter()
    yield
    seconds[part] = seconds.get(part, 0.0) + time.perf_counter() - started
