"""`obygaze manifest merge`: the clips of several manifests; and `labels`, one label a clip."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Annotated

from msgspec import structs

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.options import Option
from obygaze_features.core.refusal import refuse_if
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.adapters import ImportedManifest, SavedManifest
from obygaze_features.manifest.annotators import (
    annotations_of,
    columns_of_people,
    labelled,
    made_columns,
    of_nobody,
    orders_of,
)
from obygaze_features.manifest.io import read_manifest, write_manifest
from obygaze_features.manifest.link import original
from obygaze_features.manifest.model import (
    FOLD_PREFIX,
    NAME_COLUMN,
    Annotation,
    Clip,
    Header,
    Manifest,
    SourceFile,
    Windows,
)
from obygaze_features.manifest.own_labels import words_alike
from obygaze_features.manifest.spans import named_file
from obygaze_features.manifest.spelling import Spelling

ANNOTATOR = "annotator"
UNKNOWN_MODALITY = "unknown"
# What must be the same in the headers of all manifests, with a hint.
SHARED = {
    "unit": "obygaze manifest import TABLE --as marks reads a table of marks in films",
    "view": "manifests of one view",
    "films": "import the one without films again, with --map movie_id=COLUMN",
}

LABELS = ("level", "concepts")
Orders = Annotated[Mapping[str, str] | None, Option("--order", metavar="COLUMN=WORDS")]


def merge_manifests(
    manifests: Sequence[PathLike],
    name: str,
    *,
    rule: str | None = None,
    orders: Mapping[str, str] | None = None,
    force: bool = False,
    workspace: PathLike | None = None,
) -> SavedManifest:
    """Merge manifests: a clip that several of them have is one clip.

    The films and times of such a clip must be equal. If its labels differ, a rule makes one of
    them: agreed, what all say; majority, what most say; highest, of levels and columns with an
    order; mean, of numbers; by:NAME, what one says. What each says is kept: its annotators, or its
    own labels under the name of the manifest.

    Args:
        manifests: Two manifests or more, which are not changed.
        name: Name of the new manifest.
        rule: Where labels differ: agreed, majority, highest, mean or by:NAME.
        orders: The words of a column from the lowest, for the rule highest: mood=calm,tense.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze manifest merge paris nice -o both
        obygaze manifest merge paris nice --rule agreed -o both
        obygaze manifest merge theirs/manifests/clips.toml films --rule by:films -o all-clips
    """
    sources = [read_manifest(manifest, workspace=workspace) for manifest in manifests]
    path = Workspace.of(workspace).new_manifest(name)
    merged = merged_manifest(sources, path.stem, rule, orders)
    return merged.save(path, force=force)


def make_labels(
    manifest: PathLike,
    name: str,
    *,
    rule: str,
    orders: Mapping[str, str] | None = None,
    force: bool = False,
    workspace: PathLike | None = None,
) -> SavedManifest:
    """Make the labels of clips anew, by another rule, of what each annotator says.

    The rules are agreed, what all say; majority, what most say; highest, of levels and columns with
    an order; mean, of numbers; by:NAME, what one says.

    Args:
        manifest: A manifest with several annotators, which is not changed.
        name: Name of the new manifest.
        rule: agreed, majority, highest, mean or by:NAME.
        orders: The words of a column from the lowest, for the rule highest: mood=calm,tense.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze manifest labels films --rule majority -o films-majority
        obygaze manifest labels films --rule highest --order mood=calm,tense -o films-highest
        obygaze manifest labels films --rule by:ada -o films-ada
    """
    before = read_manifest(manifest, workspace=workspace)
    if not before.annotations:
        raise FixInput(
            "there is no table of annotators beside this manifest",
            where=before.name,
            hint="a table with a row or a column for each: obygaze manifest import --help",
        )
    path = Workspace.of(workspace).new_manifest(name)
    after = labelled(replace(before, name=path.stem), rule, orders_of(orders or {}))
    write_manifest(after, path, force=force)
    return SavedManifest(path, after, [], ImportedManifest(after), 0)


def merged_manifest(
    manifests: Sequence[Manifest],
    name: str,
    rule: str | None = None,
    orders: Mapping[str, str] | None = None,
) -> ImportedManifest:
    """Return the manifest that `merge_manifests` writes."""
    names = [manifest.name for manifest in manifests]
    if len(manifests) < 2:
        raise FixUsage("expected two manifests or more", hint="obygaze ls")
    if len(set(names)) < len(names):
        raise FixUsage(
            "two manifests have the same name, which becomes the annotator of their labels",
            where=", ".join(names),
            hint="import one of them again under another name",
        )
    header = _merged_header(manifests, name)
    columns: dict[str, None] = {}
    of_people: dict[str, None] = {}
    for manifest in manifests:
        made = made_columns(manifest)
        of_people_here = columns_of_people(manifest)
        of_manifest = dict.fromkeys(c for c in of_people_here if c not in made)
        of_people |= of_manifest
        columns |= dict.fromkeys(c for c in manifest.columns if c not in made)
        columns |= of_manifest
    warnings = _of_other_concepts(manifests, header)
    splits = [name for name in columns if name.startswith(FOLD_PREFIX)]
    for split in splits:
        # One film may be in two folds: each manifest has its own.
        del columns[split]
    if splits:
        warnings.append(
            f"left out: {few(splits)}, folds of the clips of one manifest;"
            " `obygaze manifest folds` makes those of all"
        )
    roots = {one.header.video_root for one in manifests}
    is_unlinked = len(roots) > 1
    if is_unlinked:
        # A file that was found is named in this column, so that `link` finds it again.
        columns[NAME_COLUMN] = None
        folders = [root or "none" for root in sorted(roots)]
        warnings.append(
            "not linked to videos, as the manifests are linked to other folders:"
            f" {' and '.join(folders)}"
        )
    else:
        header = structs.replace(header, video_root="".join(roots))
    rows = []
    spelling = Spelling()
    for manifest in manifests:
        for clip in manifest:
            row = original(clip) if is_unlinked else clip
            rows.append((_with_cells(row, manifest, columns, spelling), manifest))
    said = [*of_people]
    not_facts = (*said, ANNOTATOR, NAME_COLUMN)
    facts = [column for column in columns if column not in not_facts]
    # Each mark in a film is of one person; clips may be of several.
    are_marks = header.unit == "segment"
    labels = [*LABELS, *said, *({ANNOTATOR} & columns.keys())]
    clips_of: dict[str, list[Clip]] = defaultdict(list)
    for clip, manifest in rows:
        clips_of[manifest.name].append(clip)
    by_ids = _require_same_clips(clips_of)
    for column in ("clip_id", "movie_id"):
        _require_one_spelling(rows, column)
    clips, n_shared = _one_of_each(clips_of, facts, labels if are_marks else ())
    merged = Manifest(name, header, clips, tuple(columns))
    is_annotated = any(manifest.annotations for manifest in manifests)
    if is_annotated or (n_shared and not are_marks):
        columns.pop(ANNOTATOR, None)
        merged = replace(
            merged,
            clips=tuple(map(of_nobody, clips)),
            columns=tuple(columns),
            annotations=_annotations(rows, said, spelling),
        )
        merged = labelled(merged, rule, orders_of(orders or {}))
    warnings += words_alike(merged.clips)
    sentence = f"{count(n_shared, merged.header.unit)} in several of the manifests"
    return ImportedManifest(merged, tuple(warnings), (sentence, *by_ids))


def _with_cells(
    clip: Clip, manifest: Manifest, columns: Mapping[str, None], spelling: Spelling
) -> Clip:
    """Return a clip with a cell in each column."""
    given = dict(clip.extra)
    if ANNOTATOR in columns:
        given[ANNOTATOR] = given.get(ANNOTATOR) or manifest.name
    cells = {name: spelling.cell(given.get(name, ""), name) for name in columns}
    if NAME_COLUMN in columns:
        cells[NAME_COLUMN] = named_file(clip)
    return replace(clip, extra=cells)


def _annotations(
    rows: Iterable[tuple[Clip, Manifest]],
    columns: Sequence[str],
    spelling: Spelling,
) -> tuple[Annotation, ...]:
    """Return what each person says of each clip, once; contradictions are an error.

    Where a manifest has several annotators, what is in a column for all of them is said by each.
    """
    said: dict[tuple[str, str], tuple[Annotation, str]] = {}
    for clip, manifest in rows:
        of_clip = _annotations_of_clip(clip, manifest, columns)
        for one in of_clip:
            name = spelling.cell(one.annotator, ANNOTATOR)
            own = {column: spelling.cell(one.own[column], column) for column in columns}
            named = one._replace(annotator=name, own=own)
            first, where = said.setdefault((clip.clip_id, name), (named, manifest.name))
            if _in_order(first) != _in_order(named):
                raise FixInput(
                    f"{name!r} says of the clip {clip.clip_id!r} one thing in {where} and another"
                    f" in {manifest.name}",
                    where=manifest.name,
                    hint="correct one of them, or give the two people other names",
                )
    return tuple(one for one, _ in said.values())


def _in_order(one: Annotation) -> Annotation:
    return one._replace(concepts=tuple(sorted(one.concepts)))


def _annotations_of_clip(
    clip: Clip, manifest: Manifest, columns: Sequence[str]
) -> Sequence[Annotation]:
    """Return what people say of a clip in a manifest; without annotators, its label is its own."""
    if not manifest.annotations:
        name = clip.extra.get(ANNOTATOR) or manifest.name
        return annotations_of([clip], columns, name)
    of_all = {column: clip.extra[column] for column in columns}
    annotations = []
    for one in manifest.annotations_by_clip.get(clip.clip_id, ()):
        annotations.append(one._replace(own={**of_all, **one.own}))
    return annotations


def _one_of_each(
    clips_of: Mapping[str, Sequence[Clip]], facts: Sequence[str], labels: Sequence[str]
) -> tuple[tuple[Clip, ...], int]:
    """Return each clip once, and how many are in several manifests.

    Facts must be equal wherever two manifests state them, and labels in any case; else it is an
    error of all such clips.

    Args:
        clips_of: The clips of each manifest, by its name.
        facts: Columns that a manifest may leave empty.
        labels: Columns that all of them must have.
    """
    merged: dict[str, Clip] = {}
    names: list[str] = []
    shared: set[str] = set()
    for name, clips in clips_of.items():
        here = [clip for clip in clips if clip.clip_id in merged]
        before = [merged[clip.clip_id] for clip in here]
        names.append(name)
        _require_equal(before, here, ["scene", *facts], labels, ", ".join(names))
        shared.update(clip.clip_id for clip in here)
        for clip in clips:
            known = merged.get(clip.clip_id)
            merged[clip.clip_id] = _completed(known, clip, facts) if known else clip
    return tuple(merged.values()), len(shared)


def _require_same_clips(clips_of: Mapping[str, Sequence[Clip]]) -> list[str]:
    """Return how many clips of two manifests only their ids hold together, in sentences.

    An error where two manifests state other films or times of the clip of one id.
    """
    # NumPy is not loaded for the help of commands.
    from obygaze_features.manifest.clip_facts import ClipFacts, require_same_shared

    facts_of = {name: ClipFacts.of_clips(clips) for name, clips in clips_of.items()}
    sentences = []
    for (first, ours), (second, theirs) in combinations(facts_of.items(), 2):
        n_by_ids = require_same_shared(ours, theirs, (first, second))
        if n_by_ids:
            sentences.append(
                f"{first} and {second}: {count(n_by_ids, 'clip')} matched by the ids alone"
            )
    return sentences


def _require_one_spelling(rows: Iterable[tuple[Clip, Manifest]], column: str) -> None:
    """Raise an error for ids that differ by capitals alone: one thing, written in two ways."""
    first_of: dict[str, tuple[str, str]] = {}
    problems: dict[str, None] = {}
    for clip, manifest in rows:
        (name,) = clip.values(column) or ("",)
        first, where = first_of.setdefault(name.casefold(), (name, manifest.name))
        if name != first:
            problems[f"{first} in {where} and {name} in {manifest.name}"] = None
    refuse_if(
        problems,
        FixInput,
        f"{column}s that differ by capitals alone",
        hint="write each in one way in all tables, and import them again",
    )


def _require_equal(
    before: Sequence[Clip],
    here: Sequence[Clip],
    facts: Sequence[str],
    labels: Sequence[str],
    where: str,
) -> None:
    """Raise an error unless two rows of each clip have the same labels, and facts that both state.

    Args:
        before: The clips of the manifests before.
        here: The same clips in another manifest.
        facts: Columns that one of them may leave empty.
        labels: Columns that both must have.
        where: The names of the manifests.
    """
    problems = []
    for one, other in zip(before, here, strict=True):
        for column in (*facts, *labels):
            ours = "|".join(one.values(column))
            theirs = "|".join(other.values(column))
            is_stated = column in labels or (ours and theirs)
            if is_stated and ours != theirs:
                values = f"{ours or 'nothing'} and {theirs or 'nothing'}"
                problems.append(f"{one.clip_id}: {column}: {values}")
                break
    if problems:
        raise FixInput(
            f"{count(len(problems), 'clip')} with other facts in two manifests: {problems[0]}",
            where=where,
            hint="correct one of the manifests, or the ids if these are two clips",
            details=problems[1:],
        )


def _completed(one: Clip, other: Clip, facts: Iterable[str]) -> Clip:
    """Return a clip with the facts that another row of it states alone.

    Its file and the times in it are one fact.
    """
    extra = dict(one.extra)
    for column in facts:
        extra[column] = extra[column] or other.extra[column]
    completed = replace(
        one,
        movie_id=one.movie_id or other.movie_id,
        scene=other.scene if one.scene is None else one.scene,
        extra=extra,
    )
    if _has_place(one) or not _has_place(other):
        return completed
    if NAME_COLUMN in extra:
        extra[NAME_COLUMN] = other.extra[NAME_COLUMN]
    return replace(
        completed, video=other.video, start_s=other.start_s, end_s=other.end_s
    )


def _has_place(clip: Clip) -> bool:
    """Return whether a row says in which file its clip is, or when."""
    return bool(named_file(clip)) or clip.start_s is not None


def _of_other_concepts(manifests: Sequence[Manifest], merged: Header) -> list[str]:
    """Return a sentence on each manifest whose labelled clips were not asked for all concepts."""
    sentences = []
    for manifest in manifests:
        missing = [
            name for name in merged.concepts if name not in manifest.header.concepts
        ]
        n_labelled = sum(bool(clip.level or clip.concepts) for clip in manifest)
        if missing and n_labelled:
            sentences.append(
                f"{manifest.name} does not have the concepts {few(missing, 3)}, so that its labels"
                f" say that no clip has them: {count(n_labelled, 'clip')}"
            )
    return sentences


def _merged_header(manifests: Sequence[Manifest], name: str) -> Header:
    """Return the header of a merged manifest; what must be the same is refused where it differs."""
    for manifest in manifests:
        if isinstance(manifest.clips, Windows):
            raise FixInput("windows have no annotators", where=manifest.name)
    for key, hint in SHARED.items():
        said = [(getattr(one.header, key) or "stated", one.name) for one in manifests]
        _require_one(key, said, hint)
    modality_of: dict[str, str] = {}
    said_by: dict[str, list[tuple[str, str]]] = {}
    for manifest in manifests:
        for concept, modality in manifest.header.concepts.items():
            modality_of.setdefault(concept, UNKNOWN_MODALITY)
            if modality != UNKNOWN_MODALITY:
                modality_of[concept] = modality
                said_by.setdefault(concept, []).append((modality, manifest.name))
    for concept, modalities in said_by.items():
        fact = f"the modality of the concept {concept!r}"
        _require_one(fact, modalities, "correct the header of one of them")
    first = manifests[0].header
    headers = [manifest.header for manifest in manifests]
    notes: dict[str, None] = {}
    sources: dict[SourceFile, None] = {}
    for header in headers:
        notes.update(dict.fromkeys(header.notes))
        sources.update(dict.fromkeys(header.sources))
    datasets = {header.dataset for header in headers}
    return Header(
        dataset=first.dataset if len(datasets) == 1 else name,
        concepts=modality_of,
        unit=first.unit,
        view=first.view,
        films=first.films,
        rule=next(filter(None, (header.rule for header in headers)), ""),
        said=_columns_said(manifests),
        licence=_said_of_labels(manifests, "licence"),
        citation=_said_of_labels(manifests, "citation"),
        notes=tuple(notes),
        sources=tuple(sources),
    )


def _columns_said(manifests: Sequence[Manifest]) -> tuple[str, ...] | None:
    """Return the columns in which people have words; None if no manifest lists them."""
    if all(manifest.header.said is None for manifest in manifests):
        return None
    columns: dict[str, None] = {}
    for manifest in manifests:
        columns.update(dict.fromkeys(columns_of_people(manifest)))
    return tuple(columns)


def _said_of_labels(manifests: Sequence[Manifest], key: str) -> str:
    """Return the licence or the citation of all labels, or what each manifest says of its own."""
    said_by = {manifest.name: getattr(manifest.header, key) for manifest in manifests}
    values = set(said_by.values())
    if len(values) == 1:
        return str(values.pop())
    return "; ".join(
        f"{name}: {value or 'not stated'}" for name, value in said_by.items()
    )


def _require_one(fact: str, said: Sequence[tuple[str, str]], hint: str) -> None:
    """Raise an error unless all manifests say the same; `said` has values and manifests."""
    for value, name in said:
        if value != said[0][0]:
            raise FixInput(
                f"{fact} differs: {said[0][0]} in {said[0][1]}, {value} in {name}",
                where=name,
                hint=hint,
            )
