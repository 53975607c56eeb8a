"""The first steps of a run: the clips of the manifest, their classes in each task, their features.

What cannot work is refused here, before anything is fitted.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from obygaze_features import __version__
from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput, FixUsage, near
from obygaze_features.core.file_names import portable
from obygaze_features.core.files import canonical_json, sha256_bytes
from obygaze_features.core.parts import find_part, is_own_code
from obygaze_features.manifest.io import manifest_sha256
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Store
from obygaze_models.evaluation.predictions import BoolArray
from obygaze_models.models.registry import find_kind, own_baselines
from obygaze_models.protocols.clips import (
    ClipTable,
    clip_table,
    empty_labels,
    labels_sha256,
    rows_of_annotators,
    task_labels,
    with_view,
    without_pictures,
)
from obygaze_models.protocols.paper_splits import SHIPPED_SCHEMES
from obygaze_models.protocols.schedule import Labels
from obygaze_models.protocols.schema import Protocol
from obygaze_models.runner.features import CHOSEN, Features, read_stores


@dataclass(frozen=True)
class Inputs:
    """A protocol with its clips, their classes by task, and the features of each store."""

    protocol: Protocol
    manifest: Manifest
    manifest_path: str
    table: ClipTable
    labels: Labels
    stores: Sequence[Features]

    @cached_property
    def identity(self) -> str:
        """The hash of everything that the numbers depend on."""
        parts: dict[str, Any] = {
            "protocol": self.protocol.sha256,
            "manifest": manifest_sha256(self.manifest),
            # The view depends on the modalities in the header, too.
            "labels": labels_sha256(self.table, self.labels),
            "stores": {store.name: store.origin["sha256"] for store in self.stores},
            "obygaze": __version__,
            "parts": used_parts(self.protocol),
        }
        return sha256_bytes(canonical_json(parts))

    @property
    def default_name(self) -> str:
        """The name of a run without a name: protocol, stores, and the start of the identity."""
        stores = "+".join(store.name for store in self.stores)
        about = "-".join(filter(None, (self.protocol.name, stores)))
        # Where there are many stores, the hash stays.
        return portable(f"{about[:111]}-{self.identity[:8]}")

    def usable(self, features: Features | None) -> BoolArray:
        """Return whether each clip has features and, for the splits of a scheme, a video."""
        present = np.ones(len(self.table), dtype=np.bool_)
        if features is not None:
            present = features.present
        has_video = self.table.has_video
        if self.protocol.splits.follow_scheme and has_video.any():
            return present & has_video
        return present


def used_parts(protocol: Protocol) -> dict[str, dict[str, str]]:
    """Return the version of each metric, baseline and kind of splits of own code, by kind and name.

    The versions of own models are settings of the models.
    """
    splits = protocol.splits
    own_splits = list(filter(is_own_code, (splits.kind, splits.scheme)))
    if splits.scheme in SHIPPED_SCHEMES:
        own_splits.remove(splits.scheme)
    names_of_kinds = {
        "metrics": protocol.further_metrics,
        "baselines": own_baselines(protocol.grid.baselines),
        "splits": own_splits,
    }
    used: dict[str, dict[str, str]] = {}
    for kind, names in names_of_kinds.items():
        for name in names:
            used.setdefault(kind, {})[name] = find_part(name).package
    return used


def gather(
    protocol: Protocol,
    manifest: Manifest,
    manifest_path: str,
    stores: Mapping[str, Store],
) -> Inputs:
    """Return the inputs of a run."""
    _check_stores(protocol, stores)
    protocol = replace(protocol, data=with_view(protocol.data, manifest, stores))
    table = clip_table(manifest, protocol.data)
    protocol, left_out = _without_models_of_concepts(protocol, table)
    _check_erased(protocol, table)
    # Of clips that are not in the store, it is said before anything of their labels.
    features = read_stores(stores, table, protocol, of_frames=_reads_frames(protocol))
    labels = _labels_of_tasks(protocol, protocol.used_tasks, table)
    remarks = {
        **table.remarks,
        **_remarks_on_media(table, manifest, stores),
        "annotators": rows_of_annotators(labels, table),
        "models of concepts": left_out,
        "without label": empty_labels(protocol.tasks, labels, table),
    }
    shown = {name: remark for name, remark in remarks.items() if remark}
    table = replace(table, remarks=shown)
    return Inputs(protocol, manifest, manifest_path, table, labels, features)


def _remarks_on_media(
    table: ClipTable, manifest: Manifest, stores: Mapping[str, Store]
) -> dict[str, str]:
    """Return what a reader should know where no picture shows what the labels are about."""
    if table.view != "raw":
        return {}
    remarks = {}
    others = without_pictures(stores)
    if others:
        remarks["raw view"] = (
            f"The levels are those of the raw view, since {', '.join(others)} is not of pictures:"
            " the visual view leaves out what no picture shows."
        )
    of_pictures = [name for name in stores if stores[name].recipe.medium == "pictures"]
    n_of_concept: Counter[str] = Counter()
    for clip in table.clips:
        n_of_concept.update(clip.concepts)
    heard = [
        f"{concept} ({count(n_of_concept[concept], manifest.header.unit)})"
        for modality in ("audio", "speech")
        for concept in manifest.header.of_modality(modality)
        if n_of_concept[concept]
    ]
    if of_pictures and heard:
        remarks["heard"] = (
            f"No picture shows {', '.join(heard)}: {', '.join(of_pictures)} cannot see them."
        )
    return remarks


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
    if CHOSEN in stores:
        raise FixUsage(
            f"no store can be called {CHOSEN!r}, the name of what training films choose",
            hint="another NAME in --store NAME=STORE",
        )
    known = list(stores)
    if protocol.fit.choose_store:
        known.append(CHOSEN)
    for question in protocol.report.questions:
        for name in (question.first_store, question.second_store):
            if name and name not in known:
                raise FixUsage(
                    f"report.questions names the unknown store {name!r}{near(name, known)}",
                    hint=f"one of {', '.join(known)}",
                )


def _without_models_of_concepts(
    protocol: Protocol, table: ClipTable
) -> tuple[Protocol, str]:
    """Leave out the models of concepts where no clip has one, and say so."""
    of_concepts = []
    for name in protocol.model_names:
        if find_kind(protocol.models[name].kind).head:
            of_concepts.append(name)
    others = [name for name in protocol.model_names if name not in of_concepts]
    if not of_concepts or table.has_concept.any():
        return protocol, ""
    if not others:
        raise FixInput(
            f"no clip has a visual concept, which {' and '.join(of_concepts)} would read",
            where=table.name,
            hint="a model without concepts, such as ridge",
        )
    questions = []
    for question in protocol.report.questions:
        if not {question.first, question.second} & set(of_concepts):
            questions.append(question)
    report = replace(protocol.report, questions=tuple(questions), concepts=False)
    grid = replace(protocol.grid, models=tuple(others))
    are = "is" if len(of_concepts) == 1 else "are"
    left_out = (
        f"{' and '.join(of_concepts)} {are} left out: no clip has a visual concept."
    )
    return replace(protocol, grid=grid, report=report), left_out


def _check_erased(protocol: Protocol, table: ClipTable) -> None:
    for name in protocol.data.erase:
        if name not in table.concept_names:
            raise FixInput(
                f"data.erase names the unknown concept {name!r}{near(name, table.concept_names)}",
                hint=f"one of {', '.join(table.concept_names)}",
            )


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
    only = json.dumps([*labels])
    settings = f"--set 'grid.train={only}' --set 'grid.test={only}'"
    hint = f"{settings} for the tasks that these clips have; {first.hint}"
    raise FixInput(first.message, where=first.where, hint=hint)


def _reads_frames(protocol: Protocol) -> bool | None:
    """Return whether the models read frames; None if there is no model."""
    kinds = [protocol.models[name].kind for name in protocol.model_names]
    read = {find_kind(kind).reads for kind in kinds}
    if not read:
        return None
    if len(read) > 1:
        raise FixUsage("models of frames and models of clips need a protocol each")
    return "frames" in read
