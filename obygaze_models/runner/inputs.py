"""The inputs of a run: clips of the manifest, their classes in each task, their features.

Inputs that cannot work are refused here, before anything is fitted.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features import __version__
from obygaze_features.core.console import count, few, join_names, plural
from obygaze_features.core.errors import FixInput, FixUsage, NotFound, near
from obygaze_features.core.file_names import portable_name
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
from obygaze_features.store.replaced import replaced_videos_text
from obygaze_models.models.examples import RATED
from obygaze_models.models.registry import (
    BASELINES,
    TEXTS,
    find_kind,
    finds_concepts,
)
from obygaze_models.protocols.clips import (
    TaskClips,
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
    SPLIT_KINDS,
    Labels,
    unit_name,
    with_groups,
    without_validation,
)
from obygaze_models.protocols.schema import NONE, Protocol
from obygaze_models.runner.features import (
    Features,
    choose_array,
    preferred_arrays,
    read_stores,
)
from obygaze_models.text_vectors import (
    Sentences,
    check_spaces,
)

# A feature that equals the classes is an error only with this many clips of each class. With fewer
# clips, a feature of two values may equal the classes by chance.
CLIPS_OF_A_LABEL = 10
# The words for what a baseline requires.
NEEDS = {
    "concepts": "visual concepts",
    "scenes": "the scene or the times of each clip, and two films",
    "films": "films",
}


@dataclass(frozen=True)
class TextFile:
    """A file of texts that models read: its hash and its sentences."""

    sha256: str
    sentences: Sentences


@dataclass(frozen=True)
class Inputs:
    """A protocol with its clips, their classes by task, and the features of each store."""

    protocol: Protocol
    manifest: Manifest
    manifest_path: str
    table: TaskClips
    labels: Labels
    stores: Sequence[Features]
    texts: Mapping[str, TextFile] = field(default_factory=dict)
    # The estimators of Python by their description, which is a setting of their models.
    estimators: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def identity(self) -> str:
        """The hash of everything that the numbers depend on."""
        # Stores are in their order, which is the order of the answers. The widths of parts are
        # included, because each part of joined features is scaled separately.
        stores = []
        for store in self.stores:
            widths = [part.width for part in store.parts]
            stores.append([store.name, store.origin["sha256"], widths])
        parts: dict[str, Any] = {
            "protocol": self.protocol.sha256,
            "manifest": manifest_sha256(self.manifest),
            # The view also depends on the modalities in the header.
            "labels": labels_sha256(self.table, self.labels),
            # Only the header states which concepts are visual.
            "concepts": self.table.concept_names,
            "stores": stores,
            "obygaze": __version__,
        }
        if self.texts:
            parts[TEXTS] = {path: file.sha256 for path, file in self.texts.items()}
        return sha256_bytes(canonical_json(parts))

    @property
    def default_name(self) -> str:
        """The default name of the run: protocol, stores, and the start of the identity."""
        stores = "+".join(store.name for store in self.stores)
        about = "-".join(filter(None, (self.protocol.name, stores)))
        # Cut long names, but keep the hash.
        return portable_name(f"{about[:111]}-{self.identity[:8]}")


def gather(
    protocol: Protocol,
    manifest: Manifest,
    manifest_path: str,
    stores: Mapping[str, Store],
) -> Inputs:
    """Return the inputs of a run. Raise an error if a run of these inputs cannot work."""
    _check_stores(protocol, stores)
    for name, store in stores.items():
        if isinstance(store, JoinedStore):
            _check_join(protocol, name, store, stores)
    protocol = replace(protocol, data=with_view(protocol.data, manifest, stores))
    table = with_groups(clip_table(manifest, protocol.data), protocol.splits)
    table = replace(table, group_of_file=_groups_of_one_file(table, stores))
    protocol, left_out = _without_models_of_concepts(protocol, table)
    # Features are read first, so that missing clips are reported before problems of labels.
    features = read_stores(stores, table, protocol, of_frames=_reads_frames(protocol))
    if protocol.splits.follow_scheme and table.has_video.any():
        # The paper excludes clips without a video before anything else.
        features = [of_store.only(table.has_video) for of_store in features]
    labels = {}
    refused = []
    for name, task in protocol.tasks.items():
        if name in protocol.used_tasks:
            try:
                labels[name] = task_labels(name, task, table)
            except FixInput as error:
                refused.append(error)
    if refused:
        if labels:
            # Without hard negatives, ENHN_S has the classes of EN_S; the first is proposed.
            distinct: dict[bytes, str] = {}
            for name, of_task in labels.items():
                distinct.setdefault(of_task.tobytes(), name)
            words = " ".join(f"--task {shell_word(name)}" for name in distinct.values())
            hint = f"use {words} to run only the tasks that these clips have"
            refused[0].hint = f"{hint}; {refused[0].hint}"
        raise refused[0]
    for of_store in features:
        _refuse_labels_as_features(of_store, labels)
    remarks = {
        "replaced films": _replaced_films(table, manifest, stores),
        "left out": _shares_left_out(features, labels),
        **table.remarks,
        "one file": _share_a_file(protocol, table),
        "heard": _only_heard(table, manifest, stores),
        "annotators differ": differing_annotators(protocol.tasks, labels, table),
        "models of concepts": left_out,
        "baselines": _without_baselines(protocol, table),
        "unknown words": unknown_words(protocol.tasks, labels, table, manifest),
        "without label": empty_labels(protocol.tasks, labels, table),
        "without validation": _without_validation(protocol, table, labels, features),
    }
    shown = {name: remark for name, remark in remarks.items() if remark}
    table = replace(table, remarks=shown)
    texts = _texts_of_models(protocol, stores, features)
    return Inputs(protocol, manifest, manifest_path, table, labels, features, texts)


# ---- what is refused ----


def _check_stores(protocol: Protocol, stores: Mapping[str, Store]) -> None:
    """Raise an error unless the stores are those that a protocol requires."""
    if not stores and protocol.model_names:
        raise FixUsage(
            "models need features, but no store is given",
            hint="add --store NAME=STORE (list stores: obygaze ls; make a store: obygaze extract"
            " run MANIFEST -b descriptors)",
        )


def _check_join(
    protocol: Protocol, name: str, join: JoinedStore, stores: Mapping[str, Store]
) -> None:
    """Raise an error for settings that joined features cannot have."""
    models = [protocol.models[model] for model in protocol.model_names]
    for key, is_set in (
        (f"features.{name}.array", name in protocol.features),
        ("data.scale", protocol.data.scale != NONE),
        ("a model of texts", any(model.settings.get(TEXTS) for model in models)),
    ):
        if is_set:
            raise FixUsage(
                f"{name} is the join {join.location}, which cannot have {key}: each part has its"
                " own scale, array and embedding space",
                hint=f"remove {key}, or the store {name}",
            )
    # With another array of a part, the difference from this part could come from the array alone.
    for part in join.parts:
        store = stores.get(part.name)
        if store is None:
            continue
        array = choose_array(store, preferred_arrays(part.name, protocol))
        if part.named_array not in ("", array):
            raise FixUsage(
                f"{name} has the array {part.named_array} of {part.name}, but the store {part.name}"
                f" is read with the array {array}",
                hint=f"write {part.name} without :{part.named_array} in the join",
            )


def _refuse_labels_as_features(store: Features, labels: Labels) -> None:
    """Raise an error if one feature has the classes of a task as its values.

    Large frames stay in their store and are not checked, because the check would read them again.
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
                f" one value in all {len(positive)} positive clips, and a different one in all"
                f" {len(negative)} negative clips",
                where=store.origin["location"],
            )


def _without_models_of_concepts(
    protocol: Protocol, table: TaskClips
) -> tuple[Protocol, str]:
    """Return the protocol without models of concepts if no clip is an example of a concept.

    The second value is a remark on the removed models, or "".
    """
    of_concepts = []
    for name in protocol.model_names:
        model = protocol.models[name]
        if finds_concepts(model.kind, model.settings):
            of_concepts.append(name)
    others = [name for name in protocol.model_names if name not in of_concepts]
    is_example = np.isin(table.levels, RATED)
    if not of_concepts or table.has_concept[is_example].any():
        return protocol, ""
    why = "no clip has a visual concept"
    if table.has_concept.any():
        why = f"no clip with a visual concept has the level {' or '.join(RATED)}"
    if not others:
        raise FixInput(
            f"{why}, but {' and '.join(of_concepts)} cannot be trained without such clips",
            where=table.name,
        )
    protocol = protocol.with_models(others)
    report = replace(protocol.report, concepts=False)
    excluded = f"{' and '.join(of_concepts)} excluded from this run: {why}."
    return replace(protocol, report=report), excluded


def _reads_frames(protocol: Protocol) -> bool | None:
    """Return whether the models read frames, or None if the protocol has no models."""
    kinds = [protocol.models[name].kind for name in protocol.model_names]
    read = {find_kind(kind).reads for kind in kinds}
    if len(read) > 1:
        raise FixUsage(
            "expected models of frames or models of clips, got both: use one protocol for each"
        )
    return "frames" in read if read else None


def _texts_of_models(
    protocol: Protocol, stores: Mapping[str, Store], features: Sequence[Features]
) -> dict[str, TextFile]:
    """Return the files of texts that models read, by path.

    Raise an error for texts and features of different embedding spaces.
    """
    files: dict[str, TextFile] = {}
    for name, task in product(protocol.model_names, protocol.train_tasks):
        model = protocol.models[name]
        settings = for_task(model.settings, task)
        path = settings.get(TEXTS)
        if not path:
            continue
        if protocol.data.scale == "standard":
            raise FixUsage(
                f"{name} compares features with texts: the features must not be scaled",
                hint="remove data.scale",
            )
        if path not in files:
            require_file(Path(path))
            table = read_texts(path)
            for of_store in features:
                store = stores[of_store.name]
                check_spaces(store, str(of_store.origin["array"]), table)
            files[path] = TextFile(sha256_file(Path(path)), Sentences.of(table))
        if find_kind(model.kind).is_trained:
            continue
        known = files[path].sentences.directions
        for side in ("positive", "negative"):
            if settings[side] not in known:
                raise NotFound(
                    f"models.{name}.{side}: the texts have no attribute {settings[side]!r}"
                    f"{near(settings[side], known)}",
                    where=path,
                    hint=f"use one of {few([*known])}",
                )
    return files


# ---- remarks for readers of the numbers ----


def _shares_left_out(features: Sequence[Features], labels: Labels) -> str:
    """Return a remark on the excluded clips of a run with joined features, or "" if there are none.

    The remark states the share of positive clips among the clips without the features and among the
    clips with them. If the shares differ, the features are missing more often in one class.
    """
    if not any(store.parts for store in features):
        return ""
    # Stores that are read with a join have the same clips.
    present = features[0].present
    of_tasks = []
    for task, of_task in labels.items():
        left_out = of_task[~present & (of_task >= 0)]
        kept = of_task[present & (of_task >= 0)]
        if len(left_out) and len(kept):
            of_tasks.append(
                f"{100 * np.mean(left_out == 1):.0f} % of the {len(left_out)} excluded clips and"
                f" {100 * np.mean(kept == 1):.0f} % of the {len(kept)} others in {task}"
            )
    if not of_tasks:
        return ""
    return (
        "Clips without the features of a store are excluded. Share of positive clips:"
        f" {few(of_tasks)}."
    )


def _without_validation(
    protocol: Protocol, table: TaskClips, labels: Labels, features: Sequence[Features]
) -> str:
    """Return a remark on the films that cannot validate a fit, or "" if there are none.

    No fit is validated on such a film, so the other films are tested by fewer fits.
    """
    units = plural(unit_name(protocol.splits.kind, protocol.splits.column))
    sentences = []
    for store, task in product(features, protocol.train_tasks):
        films = without_validation(protocol, table, labels, store.present, task)
        if films:
            sentences.append(
                f"These {units} cannot validate a fit of {task} on {store.name}, because none of"
                f" their clips has both features and a class: {few(films)}. So other {units} are"
                " tested by fewer fits."
            )
    return " ".join(sentences)


def _groups_of_one_file(
    table: TaskClips, stores: Mapping[str, Store]
) -> dict[str, str]:
    """Return the groups of clips that share a video file, each with the first group that has it.

    Two names of one film would otherwise be a training film and a film that counts as unseen.
    """
    groups_of_file: dict[str, set[str]] = {}
    if not table.has_films:
        # A recording may show several participants.
        return {}
    for store in chain.from_iterable(one.stores for one in stores.values()):
        rows = store.table.find(table.ids)
        known = rows >= 0
        files = store.files_of(rows[known])
        for group, file in zip(table.groups[known].tolist(), files, strict=True):
            groups_of_file.setdefault(file, set()).add(group)
    groups_of_file.pop("", None)
    first_of: dict[str, str] = {}
    for groups in groups_of_file.values():
        if len(groups) > 1:
            together = {first_of.get(group, group) for group in groups}
            same = [group for group, first in first_of.items() if first in together]
            first_of |= dict.fromkeys((*same, *groups), min(together))
    return first_of


def _share_a_file(protocol: Protocol, table: TaskClips) -> str:
    """Return a remark on groups that share a video file, or "" if there are none.

    Raise an error if whole groups are held out, and all groups share video files.
    """
    named = sorted(table.group_of_file)
    if not named:
        return ""
    splits = protocol.splits
    groups = plural(unit_name(splits.kind, splits.column))
    if SPLIT_KINDS[splits.kind].by_film and len({*table.groups}) == 1:
        raise FixInput(
            f"all {len(named)} {groups} share video files, so none can be held out:"
            f" {few(named)}",
            where=table.name,
            hint="use --set splits.kind=kfold --set splits.folds=10 to divide clips",
        )
    together: dict[str, list[str]] = {}
    for name in named:
        together.setdefault(table.group_of_file[name], []).append(name)
    listed = few([" and ".join(names) for names in together.values()])
    return f"{groups.capitalize()} that share a video file count as one: {listed}."


def _replaced_films(
    table: TaskClips, manifest: Manifest, stores: Mapping[str, Store]
) -> str:
    """Return a remark on videos that were replaced after the extraction, or "" without any."""
    read = list(chain.from_iterable(one.stores for one in stores.values()))
    replaced = replaced_videos_text(table.clips, manifest, read)
    return f"{replaced[0].upper()}{replaced[1:]}." if replaced else ""


def list_needs(baselines: Sequence[str]) -> str:
    """Return what each of some baselines requires."""
    return "; ".join(
        f"{name} needs {NEEDS[BASELINES[name].needs]}" for name in baselines
    )


def _without_baselines(protocol: Protocol, table: TaskClips) -> str:
    """Return a remark on listed baselines that cannot be computed, or "" if there are none."""
    listed = protocol.grid.baselines
    lacking = [name for name in listed if not table.has(BASELINES[name].needs)]
    if not lacking or {*listed} == {*BASELINES}:
        return ""
    return f"Missing baselines of grid.baselines: {list_needs(lacking)}."


def _only_heard(
    table: TaskClips, manifest: Manifest, stores: Mapping[str, Store]
) -> str:
    """Return a remark on concepts that can only be heard, if some features are of pictures.

    Return "" if there are no such features or concepts.
    """
    of_pictures = [name for name in stores if stores[name].recipe.medium == "pictures"]
    if table.view != "raw" or not of_pictures:
        return ""
    n_of_concept: Counter[str] = Counter()
    for clip in table.clips:
        n_of_concept.update(clip.concepts)
    heard = []
    for concept, modality in manifest.header.concepts.items():
        n_clips = n_of_concept[concept]
        if modality in ("audio", "speech") and n_clips:
            heard.append(f"{concept} ({count(n_clips, 'clip')})")
    if not heard:
        return ""
    stores_have = "store {} has" if len(of_pictures) == 1 else "stores {} have"
    return (
        f"Concepts that can only be heard: {', '.join(heard)}. The"
        f" {stores_have.format(join_names(of_pictures))} features of pictures, not of sound."
    )
