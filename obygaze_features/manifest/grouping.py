"""Show the vocabulary of objectification, and replace the concepts of clips by groups of concepts.

The vocabulary has sub-constructs, concepts, and instances of concepts. Clips are annotated with
concepts, not with instances. A clip therefore belongs to every sub-construct that one of its
concepts has an instance of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from msgspec import structs

from obygaze_features.core.console import table
from obygaze_features.core.errors import FixInput, FixUsage, near
from obygaze_features.core.file_names import fold_name, single_line
from obygaze_features.core.files import require_file
from obygaze_features.core.refusal import refuse_if
from obygaze_features.core.schema_check import Record, read_toml, record_of
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.adapters import ImportedManifest, SavedManifest
from obygaze_features.manifest.annotators import Rule, with_only
from obygaze_features.manifest.history import command_line, manifest_word
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import (
    DIFFERS,
    ConceptName,
    Manifest,
    concept_name,
    disputed_names,
)
from obygaze_features.manifest.vocabulary import (
    VOCABULARY,
    read_packaged,
    subconstructs,
)

NOTE = (
    "The paper assigns no instance to a sub-construct; the last column is this program's reading. "
    "For groups of your own: `obygaze manifest group --groups FILE`."
)
Groups = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class ConceptVocabulary:
    """The vocabulary: sub-constructs, concepts, and instances of concepts.

    An instance is one of the ways in which a visual concept is seen. Concepts of sound and speech
    have no instances.
    """

    subconstructs: tuple[Mapping[str, Any], ...]
    concepts: tuple[Mapping[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        """Return the vocabulary as one JSON document."""
        return asdict(self)

    def __str__(self) -> str:
        rows = []
        without = []
        for concept in self.concepts:
            if not concept["instances"]:
                without.append(f"{concept['name']} ({concept['modality']})")
            for instance in concept["instances"]:
                assigned = ", ".join(instance["subconstructs"])
                row = (concept["name"], instance["name"], concept["source"], assigned)
                rows.append(row)
        meanings = [
            (item["name"], ", ".join(item["concepts"]), item["definition"])
            for item in self.subconstructs
        ]
        parts = [
            table(("concept", "instance", "source", "sub-constructs"), rows),
            f"Without instances: {', '.join(without)}.",
            NOTE,
            table(("sub-construct", "concepts", "meaning"), meanings),
        ]
        return "\n\n".join(parts)


def _vocabulary() -> ConceptVocabulary:
    """Return sub-constructs, concepts and their instances."""
    members = subconstructs()
    known = read_packaged(VOCABULARY)
    return ConceptVocabulary(
        tuple(
            {**one, "concepts": members[one["name"]]} for one in known["subconstructs"]
        ),
        tuple({"instances": [], **one} for one in known["concepts"]),
    )


class GroupsFile(Record, frozen=True):
    """The content of a file of groups: the concepts of each group."""

    groups: Mapping[ConceptName, tuple[str, ...]]


def group(
    manifest: PathLike | Manifest | None = None,
    *,
    name: str | None = None,
    groups: PathLike | Mapping[str, Sequence[str]] | None = None,
    force: bool = False,
    workspace: PathLike | None = None,
) -> ConceptVocabulary | SavedManifest:
    """List the sub-constructs, or make a manifest whose concepts are groups of concepts.

    Without a manifest: sub-constructs, concepts and their instances, as in Table 1 of the paper of
    ObyGaze12. The paper assigns no instance to a sub-construct; the last column is a reading of
    this program.

    With `name`: a new manifest in which a clip has a group if it has one of its concepts. Groups
    may share concepts; a concept that is in no group stays. Models, audits and reports then take
    groups as they take concepts. Without `groups`, these are the five sub-constructs.

    Args:
        manifest: The manifest, which is not changed.
        name: Name of the new manifest.
        groups: A TOML file with the concepts of each group, in a table [groups].
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.
    """
    if manifest is None and name is None and groups is None:
        return _vocabulary()
    if manifest is None or name is None:
        raise FixUsage(
            "expected MANIFEST and --output",
            hint="obygaze manifest group MANIFEST -o NAME",
        )
    before = read_manifest(manifest, workspace=workspace)
    path = Workspace.of(workspace).new_manifest(name)
    chosen: Groups
    if isinstance(groups, Mapping):
        chosen = groups
    elif groups is not None:
        chosen = _read_groups(Path(groups))
    else:
        chosen = _find_subconstructs(before)
    file = groups if groups is None or isinstance(groups, Mapping) else Path(groups)
    word = manifest_word(manifest, workspace)
    options = {"-o": path.stem, "--groups": file}
    command = command_line("manifest group", [word], options, workspace)
    grouped = ImportedManifest(group_concepts(before, chosen))
    return grouped.save(path, command, before, force=force)


def _find_subconstructs(manifest: Manifest) -> Groups:
    """Return the concepts of each sub-construct in a manifest, without empty sub-constructs."""
    groups = {}
    for group, names in subconstructs().items():
        known = [name for name in names if name in manifest.header.concepts]
        if known:
            groups[group] = known
    if not groups:
        raise FixInput(
            "expected concepts of the sub-constructs, found none in the manifest",
            where=manifest.name,
            hint="pass a file with groups of your own: --groups FILE",
        )
    return groups


def _read_groups(path: Path) -> Groups:
    """Return the groups of a TOML file."""
    require_file(path)
    document = read_toml(path.read_bytes(), str(path))
    return record_of(document, GroupsFile, "the groups are not valid").groups


def group_concepts(manifest: Manifest, groups: Groups) -> Manifest:
    """Return a manifest whose concepts are these groups, and the concepts without a group.

    Args:
        manifest: The manifest.
        groups: The concepts of each group.
    """
    known = manifest.header.concepts
    modality_of_group = {
        group: _modality(group, names, manifest) for group, names in groups.items()
    }
    in_a_group = {name for names in groups.values() for name in names}
    left = {name: kind for name, kind in known.items() if name not in in_a_group}
    spellings = Counter(fold_name(single_line(name)) for name in (*left, *groups))
    refuse_if(
        [group for group in groups if spellings[fold_name(single_line(group))] > 1],
        FixInput,
        "groups with the same name as another group, or as a concept without a group",
        where=manifest.name,
        hint="rename these groups",
    )

    def grouped(concepts: Iterable[str]) -> tuple[str, ...]:
        names = dict.fromkeys(concepts)
        of_groups = [g for g, n in groups.items() if not names.keys().isdisjoint(n)]
        return (*of_groups, *(name for name in names if name in left))

    annotations = [
        one._replace(concepts=grouped(one.concepts)) for one in manifest.annotations
    ]
    listed = "; ".join(f"{group}: {', '.join(n)}" for group, n in groups.items())
    header = structs.replace(
        manifest.header,
        concepts={**modality_of_group, **left},
        notes=(*manifest.header.notes, f"Concepts are groups. {listed}."),
    )
    made = replace(manifest, header=header, annotations=tuple(annotations))
    rule = Rule(header.rule, tuple(header.concepts))
    rule_before = Rule(header.rule, tuple(known))
    clips = []
    for clip in manifest:
        concepts = grouped(clip.concepts)
        open_names = [*filter(None, clip.extra.get(DIFFERS, "").split("|"))]
        # A group is open if one of its concepts is open, unless the clip already has the group.
        open_groups = [one for one in grouped(open_names) if one not in concepts]
        open_concepts = [name for name in open_names if name in known]
        said = manifest.annotations_by_clip.get(clip.clip_id)
        if said and header.rule:
            by_rule = rule_before.concepts(said, clip.level)
            # Concepts that somebody has changed by hand are not made again.
            if [*map(set, by_rule)] == [{*clip.concepts}, {*open_concepts}]:
                said = made.annotations_by_clip[clip.clip_id]
                concepts, open_groups = rule.concepts(said, clip.level)
        left_open = [n for n in open_names if n not in open_concepts] + open_groups
        extra = {**clip.extra, DIFFERS: "|".join(left_open)}
        clips.append(replace(clip, concepts=concepts, extra=extra))
    columns = dict.fromkeys(manifest.columns)
    if any(map(disputed_names, clips)):
        columns[DIFFERS] = None
    return replace(made, clips=with_only(columns, clips), columns=tuple(columns))


def _modality(group: str, names: Sequence[str], manifest: Manifest) -> str:
    """Return the modality that all concepts of a group have.

    Raise an error if the group is invalid: if it has no concepts, unknown concepts, or concepts of
    several modalities, or if its name is not valid.
    """
    known = manifest.header.concepts
    modalities = sorted({known[name] for name in names if name in known})
    problem = concept_name(group)
    if not names:
        problem = "has no concepts"
    elif len(modalities) > 1:
        problem = f"has concepts of several modalities: {', '.join(modalities)}"
    for name in names:
        if name not in known:
            problem = f"has an unknown concept {name!r}{near(name, known)}"
    if problem is not None:
        raise FixInput(
            f"the group {group!r} {problem}",
            where=manifest.name,
            hint=f"use concepts of {manifest.name}: {', '.join(known)}",
        )
    return modalities[0]
