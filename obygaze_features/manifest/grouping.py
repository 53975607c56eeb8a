"""The vocabulary of objectification: sub-constructs, concepts and instances; groups of concepts.

Clips are annotated with concepts, not with instances. A clip therefore belongs to every
sub-construct that one of its concepts has an instance of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from msgspec import structs

from obygaze_features.core.console import count, table
from obygaze_features.core.errors import FixInput, FixUsage, near
from obygaze_features.core.file_names import folded, single_line
from obygaze_features.core.files import require_file
from obygaze_features.core.schema_check import Record, read_toml, record_of
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.annotators import labelled
from obygaze_features.manifest.io import facts_of_saved, read_manifest, write_manifest
from obygaze_features.manifest.model import (
    DIFFERS,
    LEVELS,
    NO_LEVEL,
    Clip,
    ConceptName,
    Manifest,
    concept_name,
    view_words,
    with_columns_of,
)
from obygaze_features.manifest.vocabulary import VOCABULARY, packaged, subconstructs

NOTE = (
    "The paper assigns no instance to a sub-construct; the last column is this program's reading. "
    "`obygaze manifest group --groups FILE` takes yours."
)
Groups = Mapping[str, Sequence[str]]
ALL = "all"
OF_CONCEPT = ("name", "modality", "definition", "source", "instances")


@dataclass(frozen=True)
class ConceptVocabulary:
    """The three levels of the vocabulary, with the clips of a manifest, if one was given.

    Only visual concepts have instances, the forms in which they are seen. `clips` has, for each
    concept and sub-construct, the number of clips, and of those of each annotation level and
    without a level.
    """

    subconstructs: tuple[Mapping[str, Any], ...]
    concepts: tuple[Mapping[str, Any], ...]
    manifest: str = ""
    clips: Mapping[str, Mapping[str, int]] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the vocabulary as one JSON document."""
        return asdict(self)

    def __str__(self) -> str:
        rows = []
        for concept in self.concepts:
            for instance in concept["instances"]:
                assigned = ", ".join(instance["subconstructs"])
                row = (concept["name"], instance["name"], concept["source"], assigned)
                rows.append(row)
        instances = table(("concept", "instance", "source", "sub-constructs"), rows)
        without = ", ".join(
            f"{concept['name']} ({concept['modality']}; {concept['source']})"
            for concept in self.concepts
            if not concept["instances"]
        )
        meanings = [
            (item["name"], ", ".join(item["concepts"]), item["definition"])
            for item in self.subconstructs
        ]
        parts = [
            instances,
            f"Without instances: {without}.",
            NOTE,
            table(("sub-construct", "concepts", "meaning"), meanings),
        ]
        if self.clips is not None:
            parts.append(self._counts(self.clips))
        return "\n\n".join(parts)

    def _counts(self, clips: Mapping[str, Mapping[str, int]]) -> str:
        """Return the clips of each level with each sub-construct, then with each concept."""
        counted = list(LEVELS)
        if any(by_level[NO_LEVEL] for by_level in clips.values()):
            counted.append(NO_LEVEL)
        rows = []
        for name, by_level in clips.items():
            rows.append((name, *(by_level[level] for level in counted), by_level[ALL]))
        return table((f"clips of {self.manifest} with", *counted, ALL), rows)


def _vocabulary(manifest: Manifest | None) -> ConceptVocabulary:
    """Return sub-constructs, concepts and their instances, with counts of a manifest."""
    members = subconstructs()
    of_paper = [
        {**entry, "concepts": members[entry["name"]]}
        for entry in packaged(VOCABULARY)["subconstructs"]
    ]
    concepts = []
    for entry in packaged(VOCABULARY)["concepts"]:
        concepts.append({key: entry.get(key, []) for key in OF_CONCEPT})
    whole = ConceptVocabulary(tuple(of_paper), tuple(concepts))
    if manifest is None:
        return whole
    counted = manifest.view()
    clips = {}
    for name, names in members.items():
        clips[name] = _clips_with(counted.clips, names)
    for concept in concepts:
        clips[concept["name"]] = _clips_with(counted.clips, [concept["name"]])
    title = f"{counted.name}, {view_words(counted.header.view)},"
    return replace(whole, manifest=title, clips=clips)


def _clips_with(clips: Iterable[Clip], names: Sequence[str]) -> dict[str, int]:
    """Return how many clips have one of these concepts, also by level."""
    wanted = set(names)
    counts = Counter(
        clip.level for clip in clips if not wanted.isdisjoint(clip.concepts)
    )
    by_level = {level: counts[level] for level in LEVELS}
    return {**by_level, NO_LEVEL: counts[""], ALL: counts.total()}


class GroupsFile(Record, frozen=True):
    """The content of a file of groups: the concepts of each."""

    groups: Mapping[ConceptName, tuple[str, ...]]


@dataclass(frozen=True)
class GroupedManifest:
    """A manifest whose concepts are groups, and its file."""

    manifest: Manifest
    groups: Groups
    path: Path

    def to_json(self) -> dict[str, Any]:
        """Return the groups, and the facts of the manifest."""
        return {
            **facts_of_saved(self.manifest, self.path),
            "clips": len(self.manifest),
            "groups": {name: list(names) for name, names in self.groups.items()},
            "clips_of_group": {name: self._n_clips(name) for name in self.groups},
        }

    def __str__(self) -> str:
        rows = [
            (name, ", ".join(names), self._n_clips(name))
            for name, names in self.groups.items()
        ]
        size = count(len(self.manifest), self.manifest.header.unit)
        groups = table(("group", "concepts", f"{self.manifest.header.unit}s"), rows)
        return f"{self.path}: {size}\n{groups}"

    @property
    def notes(self) -> list[str]:
        """Which concepts are in no group, and stay as they are."""
        others = [
            name for name in self.manifest.header.concepts if name not in self.groups
        ]
        if not others:
            return []
        return [f"in no group, and kept as concepts: {', '.join(others)}"]

    def _n_clips(self, group: str) -> int:
        return sum(group in clip.concepts for clip in self.manifest)


def group(
    manifest: PathLike | Manifest | None = None,
    *,
    name: str | None = None,
    groups: PathLike | Mapping[str, Sequence[str]] | None = None,
    force: bool = False,
    workspace: PathLike | None = None,
) -> ConceptVocabulary | GroupedManifest:
    """List the sub-constructs, or make a manifest whose concepts are groups of concepts.

    Without -o: sub-constructs, concepts and their instances, as in Table 1 of the paper of
    ObyGaze12, and the clips of the manifest that have them, in the visual view where they have
    visual concepts. The paper assigns no instance to a sub-construct; the last column is a reading
    of this program.

    With -o: a manifest in which a clip has a group if it has one of its concepts. Groups may share
    concepts; a concept that is in no group stays. Models, audits and reports then take groups as
    they take concepts. Without --groups, these are the five sub-constructs.

    Args:
        manifest: The manifest, which is not changed.
        name: Name of the new manifest.
        groups: A TOML file with the concepts of each group, in a table [groups].
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze manifest group
        obygaze manifest group obygaze12
        obygaze manifest group obygaze12 -o by-subconstruct
        obygaze manifest group obygaze12 -o by-theory --groups groups.toml
    """
    if name is None and groups is not None:
        raise FixUsage("--groups needs a name for the new manifest", hint="-o NAME")
    before = None
    if manifest is not None:
        before = read_manifest(manifest, workspace=workspace)
    if name is None:
        return _vocabulary(before)
    if before is None:
        raise FixUsage("expected a manifest", hint="obygaze ls")
    path = Workspace.of(workspace).new_manifest(name)
    chosen: Groups
    if isinstance(groups, Mapping):
        chosen = groups
    elif groups is not None:
        chosen = _read_groups(Path(groups))
    else:
        chosen = _subconstructs_of(before)
    after = replace(grouped_concepts(before, chosen), name=path.stem)
    write_manifest(after, path, force=force)
    return GroupedManifest(after, chosen, path)


def _subconstructs_of(manifest: Manifest) -> Groups:
    """Return the sub-constructs with those of their concepts that a manifest has."""
    groups = {}
    for group, names in subconstructs().items():
        known = [name for name in names if name in manifest.header.concepts]
        if known:
            groups[group] = known
    if not groups:
        raise FixInput(
            "the manifest has none of the concepts of the sub-constructs",
            where=manifest.name,
            hint="name your groups in a file: --groups FILE",
        )
    return groups


def _read_groups(path: Path) -> Groups:
    """Return the groups of a TOML file."""
    require_file(path)
    document = read_toml(path.read_bytes(), str(path))
    return record_of(document, GroupsFile, "the groups are not valid").groups


def grouped_concepts(manifest: Manifest, groups: Groups) -> Manifest:
    """Return a manifest whose concepts are these groups, and the concepts that are in none.

    Args:
        manifest: The manifest.
        groups: The concepts of each group.
    """
    known = manifest.header.concepts
    in_a_group: set[str] = set()
    modality_of_group: dict[str, str] = {}
    for group, names in groups.items():
        problem = concept_name(group)
        if not names:
            problem = "has no concepts"
        if problem is not None:
            raise FixInput(f"group {group!r} {problem}", where=manifest.name)
        for name in names:
            if name not in known:
                raise FixInput(
                    f"group {group!r} has an unknown concept {name!r}{near(name, known)}",
                    where=manifest.name,
                    hint=f"the concepts of {manifest.name}: {', '.join(known)}",
                )
        modalities = sorted({known[name] for name in names})
        if len(modalities) > 1:
            raise FixInput(
                f"group {group!r} has concepts of several modalities: {', '.join(modalities)}",
                where=manifest.name,
            )
        modality_of_group[group] = modalities[0]
        in_a_group.update(names)
    left = {name: kind for name, kind in known.items() if name not in in_a_group}
    spelled = {folded(name): name for name in left}
    for group in groups:
        other = spelled.setdefault(folded(single_line(group)), group)
        if other in left:
            raise FixInput(
                f"group {group!r} has the name of a concept that is in no group: {other}",
                where=manifest.name,
            )
        if other != group:
            raise FixInput(
                f"the groups {other!r} and {group!r} differ by spelling alone",
                where=manifest.name,
                hint="one name for each group, or one group for both",
            )

    def grouped(concepts: Iterable[str]) -> tuple[str, ...]:
        names = dict.fromkeys(concepts)
        of_groups = [g for g, n in groups.items() if not names.keys().isdisjoint(n)]
        return (*of_groups, *(name for name in names if name in left))

    clips = []
    for clip in manifest:
        concepts = grouped(clip.concepts)
        extra = clip.extra
        if extra.get(DIFFERS):
            # A group is left open with its concepts, unless the clip has another one of them.
            left_open = extra[DIFFERS].split("|")
            names = [name for name in left_open if name not in known]
            names += [name for name in grouped(left_open) if name not in concepts]
            extra = {**extra, DIFFERS: "|".join(names)}
        clips.append(replace(clip, concepts=concepts, extra=extra))
    annotations = [
        one._replace(concepts=grouped(one.concepts)) for one in manifest.annotations
    ]
    listed = "; ".join(f"{group}: {', '.join(n)}" for group, n in groups.items())
    header = structs.replace(
        manifest.header,
        concepts={**modality_of_group, **left},
        notes=(*manifest.header.notes, f"Concepts are groups. {listed}."),
    )
    of_groups = replace(
        manifest,
        header=header,
        clips=tuple(clips),
        annotations=tuple(annotations),
    )
    return _by_its_rule(of_groups)


def _by_its_rule(manifest: Manifest) -> Manifest:
    """Return a manifest whose clips have the groups that its rule makes of what people said."""
    rule = manifest.header.rule
    if not rule or not manifest.annotations:
        return manifest
    made = labelled(manifest, rule)
    concepts = manifest.header.concepts
    clips = []
    for clip in manifest:
        label = made[clip.clip_id]
        # The rule alone does not say the order of a column; levels and columns have no groups.
        names = clip.extra.get(DIFFERS, "").split("|")
        left_open = [name for name in filter(None, names) if name not in concepts]
        names = label.extra.get(DIFFERS, "").split("|")
        left_open += [name for name in names if name in concepts]
        extra = clip.extra
        if left_open or DIFFERS in manifest.columns:
            extra = {**extra, DIFFERS: "|".join(left_open)}
        clips.append(replace(clip, concepts=label.concepts, extra=extra))
    columns = with_columns_of(clips, manifest.columns)
    blank = dict.fromkeys(columns, "")
    filled = [replace(clip, extra={**blank, **clip.extra}) for clip in clips]
    return replace(manifest, clips=tuple(filled), columns=columns)
