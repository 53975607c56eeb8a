"""The first steps of a run: the clips of the manifest, their classes in each task, their features.

What cannot work is refused here, before anything is fitted.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features import __version__
from obygaze_features.core.console import count, few, listed, plural
from obygaze_features.core.errors import FixInput, FixUsage, NotFound, near
from obygaze_features.core.file_names import portable
from obygaze_features.core.files import (
    canonical_json,
    require_file,
    sha256_bytes,
    sha256_file,
)
from obygaze_features.core.shell import shell_word
from obygaze_features.manifest.io import manifest_sha256
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Store, read_texts
from obygaze_features.store.joining import JoinedStore
from obygaze_models.evaluation.predictions import BoolArray
from obygaze_models.evaluation.tables import CHOSEN
from obygaze_models.models.examples import RATED
from obygaze_models.models.registry import (
    TEXTS,
    find_kind,
    finds_concepts,
)
from obygaze_models.protocols.clips import (
    ClipTable,
    clip_table,
    differing_annotators,
    empty_labels,
    labels_sha256,
    task_labels,
    unknown_words,
    with_view,
)
from obygaze_models.protocols.kinds import for_task
from obygaze_models.protocols.schedule import (
    Labels,
    unit_of,
    with_groups,
    without_validation,
)
from obygaze_models.protocols.schema import NONE, Protocol
from obygaze_models.runner.features import (
    Features,
    array_of,
    look_at,
    read_stores,
)
from obygaze_models.text_vectors import (
    Sentences,
    check_spaces,
)

# The name that protocols give a join.
JOINED = "joined"
HOW_TO_JOIN = "--store a=A --store b=B --store joined=a+b"


# Of each class. Of fewer, a feature with two values may be equal to the classes by chance.
CLIPS_OF_A_LABEL = 10


@dataclass(frozen=True)
class TextFile:
    """A file of texts that models read: its hash, and what its sentences say."""

    sha256: str
    sentences: Sentences


@dataclass(frozen=True)
class Inputs:
    """A protocol with its clips, their classes by task, and the features of each store."""

    protocol: Protocol
    manifest: Manifest
    manifest_path: str
    table: ClipTable
    labels: Labels
    stores: Sequence[Features]
    texts: Mapping[str, TextFile] = field(default_factory=dict)

    @cached_property
    def identity(self) -> str:
        """The hash of everything that the numbers depend on."""
        # The answer is about the first store, and a join is scaled part by part.
        stores = []
        for store in self.stores:
            widths = [part.width for part in store.parts]
            stores.append([store.name, store.origin["sha256"], widths])
        parts: dict[str, Any] = {
            "protocol": self.protocol.sha256,
            "manifest": manifest_sha256(self.manifest),
            # The view depends on the modalities in the header, too.
            "labels": labels_sha256(self.table, self.labels),
            # Which of the concepts are visual says the header alone.
            "concepts": self.table.concept_names,
            "stores": stores,
            "obygaze": __version__,
        }
        if self.texts:
            parts[TEXTS] = {path: file.sha256 for path, file in self.texts.items()}
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
        if features is not None:
            return features.present
        has_video = self.table.has_video
        if self.protocol.splits.follow_scheme and has_video.any():
            return has_video
        return np.ones(len(self.table), dtype=np.bool_)


def gather(
    protocol: Protocol,
    manifest: Manifest,
    manifest_path: str,
    stores: Mapping[str, Store],
) -> Inputs:
    """Return the inputs of a run."""
    _check_stores(protocol, stores)
    _check_joined(protocol, stores)
    protocol = replace(protocol, data=with_view(protocol.data, manifest, stores))
    table = with_groups(clip_table(manifest, protocol.data), protocol.splits)
    protocol, left_out = _without_models_of_concepts(protocol, table)
    # Of clips that are not in the store, it is said before anything of their labels.
    features = read_stores(stores, table, protocol, of_frames=_reads_frames(protocol))
    if protocol.splits.follow_scheme and table.has_video.any():
        # The paper leaves out clips without a video before anything else.
        features = [of_store.only(table.has_video) for of_store in features]
        _check_any_present(features, table, stores)
    labels = _labels_of_tasks(protocol, protocol.used_tasks, table)
    for of_store in features:
        _refuse_labels_as_features(of_store, labels)
    remarks = {
        "left out": _shares_left_out(features, labels, protocol),
        **table.remarks,
        "heard": _only_heard(table, manifest, stores),
        "no vector": _without_vector(protocol, table, manifest),
        "annotators differ": differing_annotators(protocol.tasks, labels, table),
        "models of concepts": left_out,
        "unknown words": unknown_words(protocol.tasks, labels, table, manifest),
        "without label": empty_labels(protocol.tasks, labels, table),
        "without validation": _without_validation(protocol, table, labels, features),
    }
    shown = {name: remark for name, remark in remarks.items() if remark}
    table = replace(table, remarks=shown)
    texts = _texts_of_models(protocol, stores, features)
    return Inputs(protocol, manifest, manifest_path, table, labels, features, texts)


def _check_any_present(
    features: Sequence[Features], table: ClipTable, stores: Mapping[str, Store]
) -> None:
    for of_store in features:
        if not of_store.present.any():
            n_clips = int(np.sum(table.has_video))
            raise FixInput(
                f"none of the {n_clips} clips with a video has features",
                where=of_store.origin["location"],
                hint=look_at(stores[of_store.name], " --clips"),
            )


def _refuse_labels_as_features(store: Features, labels: Labels) -> None:
    """Raise an error for a task of which one feature is the class itself.

    Frames that stay in their store are not looked at: they would be read for it once more.
    """
    if not isinstance(store.X, np.ndarray):
        return
    X = store.X.reshape(len(store.X), -1)
    for task, of_task in labels.items():
        positive, negative = (
            X[store.row_of[store.present & (of_task == number)]] for number in (1, 0)
        )
        if min(len(positive), len(negative)) < CLIPS_OF_A_LABEL:
            continue
        is_one_value = np.ptp(positive, axis=0) + np.ptp(negative, axis=0) == 0
        is_label = is_one_value & (positive[0] != negative[0])
        if is_label.any():
            raise FixInput(
                f"feature {int(is_label.argmax())} of {store.name} is the label of {task}: it has"
                f" one value in all {len(positive)} positive clips, and another in all"
                f" {len(negative)} negative ones",
                where=store.origin["location"],
                hint="import the features again without it, or leave out this task",
            )


def _shares_left_out(
    features: Sequence[Features], labels: Labels, protocol: Protocol
) -> str:
    """Return the shares of positives among the clips that lack a part of joined features.

    Absence that depends on the label would look like content.
    """
    of_stores: dict[str, str] = {}
    for store in features:
        if not store.parts:
            continue
        which = f"Clips that lack a part of {store.name}"
        if protocol.fit.choose_store:
            # All stores then have the same clips.
            which = "Clips that a store has no features of"
        of_tasks = []
        for task, of_task in labels.items():
            left_out = of_task[~store.present & (of_task >= 0)]
            kept = of_task[store.present & (of_task >= 0)]
            if len(left_out) and len(kept):
                of_tasks.append(
                    f"{100 * np.mean(left_out == 1):.0f} % of {len(left_out)} left out and"
                    f" {100 * np.mean(kept == 1):.0f} % of {len(kept)} kept in {task}"
                )
        if of_tasks:
            of_stores[which] = f"{which} are left out. Positive are {few(of_tasks)}."
    return " ".join(of_stores.values())


def _without_validation(
    protocol: Protocol, table: ClipTable, labels: Labels, features: Sequence[Features]
) -> str:
    """Return which films validate no fit, so that other films are tested by fewer fits."""
    units = plural(unit_of(protocol.splits.kind, protocol.splits.column))
    sentences = []
    for store in features:
        for task in protocol.train_tasks:
            films = without_validation(protocol, table, labels, store.present, task)
            if films:
                sentences.append(
                    f"These {units} validate no fit of {task} on {store.name}, because none of"
                    f" their clips has features and a class: {few(films)}. Other {units} are"
                    " tested by fewer fits."
                )
    return " ".join(sentences)


def _only_heard(
    table: ClipTable, manifest: Manifest, stores: Mapping[str, Store]
) -> str:
    """Return which concepts of clips can only be heard, where features are made of pictures."""
    of_pictures = [name for name in stores if stores[name].recipe.medium == "pictures"]
    heard = _counted_concepts(table, manifest, ("audio", "speech"))
    if table.view != "raw" or not of_pictures or not heard:
        return ""
    return (
        f"These concepts can only be heard: {', '.join(heard)}. The features of"
        f" {listed(of_pictures)} are made of pictures, and do not contain them."
    )


def _without_vector(protocol: Protocol, table: ClipTable, manifest: Manifest) -> str:
    """Return which concepts bottlenecks have no vector of, whatever the store; "" if none."""
    modalities = {*manifest.header.concepts.values()} - {"visual"}
    others = _counted_concepts(table, manifest, modalities)
    if not others or not _models_of_concepts(protocol):
        return ""
    return f"No vector is found for concepts that are not visual: {', '.join(others)}."


def _counted_concepts(
    table: ClipTable, manifest: Manifest, modalities: Collection[str]
) -> list[str]:
    """Return the concepts of some modalities that clips have, each with the number of clips."""
    n_of_concept: Counter[str] = Counter()
    for clip in table.clips:
        n_of_concept.update(clip.concepts)
    counted = []
    for concept, modality in manifest.header.concepts.items():
        n_clips = n_of_concept[concept]
        if modality in modalities and n_clips:
            counted.append(f"{concept} ({count(n_clips, manifest.header.unit)})")
    return counted


def _check_stores(protocol: Protocol, stores: Mapping[str, Store]) -> None:
    if not stores and protocol.model_names:
        raise FixUsage(
            "models need features, but no store is given",
            hint="--store NAME=STORE (obygaze ls; obygaze extract run MANIFEST -b descriptors"
            " makes one of films)",
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
            if name == JOINED and name not in known:
                raise FixUsage(
                    f"the protocol {protocol.name} asks for a store called {JOINED!r}, which is"
                    " two or more others side by side",
                    hint=HOW_TO_JOIN,
                )
            if name and name not in known:
                raise FixUsage(
                    f"report.questions names the unknown store {name!r}{near(name, known)}",
                    hint=f"one of {', '.join(known)}",
                )


def _check_joined(protocol: Protocol, stores: Mapping[str, Store]) -> None:
    """Check what a run does with joins, and that a store called `joined` is one."""
    for name, store in stores.items():
        if name == JOINED and not isinstance(store, JoinedStore):
            raise FixUsage(
                f"the store {JOINED!r} is one store, and not several side by side",
                where=store.location,
                hint=HOW_TO_JOIN,
            )
        if not isinstance(store, JoinedStore):
            continue
        joined = f"{name} is the join {store.location}"
        if name in protocol.features:
            raise FixUsage(
                f"{joined}: features.{name}.array has no meaning",
                hint=f"--store {shell_word(name)}=STORE:ARRAY+STORE:ARRAY",
            )
        if protocol.data.scale != NONE:
            raise FixUsage(
                f"{joined}: each part is scaled as a whole, so data.scale has no meaning",
                hint=f"leave out data.scale, or the store {name}",
            )
        for model in protocol.model_names:
            if protocol.models[model].settings.get(TEXTS):
                raise FixUsage(
                    f"{joined}, and {model} compares the features with texts of one space",
                    hint=f"leave out the store {name}, or the model {model}",
                )
        if protocol.fit.choose_store:
            _check_parts_alone(protocol, name, store, stores)


def _check_parts_alone(
    protocol: Protocol, joined: str, join: JoinedStore, stores: Mapping[str, Store]
) -> None:
    """Check that training films choose among all parts of a join, each read as it is there.

    Else a gain could be that of a part, and not of several together.
    """
    for part in join.parts:
        store = stores.get(part.name)
        if store is None:
            raise FixUsage(
                f"{joined} has the part {part.name}, which is not among the stores to choose from",
                hint=f"--store {shell_word(part.store.location)} beside it",
            )
        array = array_of(part.name, store, protocol)
        if part.named_array not in ("", array):
            raise FixUsage(
                f"{joined} has the array {part.named_array} of {part.name}, which is read by its"
                f" array {array}",
                hint=f"{part.name} without :{part.named_array} in the join",
            )


def _models_of_concepts(protocol: Protocol) -> list[str]:
    """Return the models whose concept vectors are found on clips, not made of sentences."""
    of_concepts = []
    for name in protocol.model_names:
        model = protocol.models[name]
        if finds_concepts(model.kind, model.settings):
            of_concepts.append(name)
    return of_concepts


def _without_models_of_concepts(
    protocol: Protocol, table: ClipTable
) -> tuple[Protocol, str]:
    """Leave out the models of concepts where no clip is an example of one, and say so."""
    of_concepts = _models_of_concepts(protocol)
    others = [name for name in protocol.model_names if name not in of_concepts]
    is_example = np.isin(table.levels, RATED)
    if not of_concepts or table.has_concept[is_example].any():
        return protocol, ""
    why = "no clip has a visual concept"
    missing = "concepts"
    if table.has_concept.any():
        missing = "levels"
        why = f"no clip with a visual concept has the level {' or '.join(RATED)}"
    if not others:
        raise FixInput(
            f"{why}, which {' and '.join(of_concepts)} would learn from",
            where=table.name,
            hint=f"{missing} in the manifest, or a model without concepts, such as ridge",
        )
    protocol = protocol.with_models(others)
    report = replace(protocol.report, concepts=False)
    are = "is" if len(of_concepts) == 1 else "are"
    left_out = f"{' and '.join(of_concepts)} {are} left out: {why}."
    return replace(protocol, report=report), left_out


def _texts_of_models(
    protocol: Protocol, stores: Mapping[str, Store], features: Sequence[Features]
) -> dict[str, TextFile]:
    """Return the files of texts that models read, by their paths.

    Texts of another space than the features of a store are refused.
    """
    files: dict[str, TextFile] = {}
    for name in protocol.model_names:
        model = protocol.models[name]
        if not model.settings.get(TEXTS):
            continue
        if protocol.data.scale == "standard":
            raise FixUsage(
                f"{name} compares the features with texts, so they must not be scaled",
                hint="leave out data.scale",
            )
        if protocol.data.segments and protocol.data.reduce == "max":
            raise FixUsage(
                f"{name} compares the features with texts, and the maximum over the windows of a"
                " segment is no vector that a text can be compared with",
                hint="--set data.reduce=mean",
            )
        for task in protocol.train_tasks:
            settings = for_task(model.settings, task)
            path = settings[TEXTS]
            if path not in files:
                files[path] = _text_file(path, stores, features)
            if not find_kind(model.kind).is_trained:
                _check_attributes(name, settings, files[path])
    return files


def _check_attributes(name: str, settings: Mapping[str, Any], texts: TextFile) -> None:
    """Check that the texts have both attributes that a zero-shot model compares."""
    known = texts.sentences.directions
    for side in ("positive", "negative"):
        attribute = settings[side]
        if attribute not in known:
            raise NotFound(
                f"models.{name}.{side}: the texts have no attribute {attribute!r}"
                f"{near(attribute, known)}",
                where=settings[TEXTS],
                hint=f"one of {few([*known])}",
            )


def _text_file(
    path: str, stores: Mapping[str, Store], features: Sequence[Features]
) -> TextFile:
    require_file(Path(path))
    table = read_texts(path)
    for of_store in features:
        check_spaces(stores[of_store.name], str(of_store.origin["array"]), table)
    return TextFile(sha256_file(Path(path)), Sentences.of(table))


def _labels_of_tasks(
    protocol: Protocol, used_tasks: Collection[str], table: ClipTable
) -> Labels:
    """Return the classes of the clips by task; an error names the tasks that can be run."""
    labels = {}
    refused = {}
    for name, task in protocol.tasks.items():
        if name not in used_tasks:
            continue
        try:
            labels[name] = task_labels(name, task, table)
        except FixInput as error:
            refused[name] = error
    if not refused:
        return labels
    first_name, first = next(iter(refused.items()))
    if not labels:
        raise first
    words = [f"--task {shell_word(name)}" for name in labels]
    hint = (
        f"{' '.join(words)} for the tasks that these clips have; for {first_name}:"
        f" {first.hint}"
    )
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
