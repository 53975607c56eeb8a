"""`obygaze manifest merge`: the clips of several manifests, each row with its annotator."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from msgspec import structs

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.options import Option
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.adapters import ImportedManifest, SavedManifest
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.link import original
from obygaze_features.manifest.model import (
    FOLD_PREFIX,
    Clip,
    Header,
    Manifest,
    SourceFile,
    Windows,
    ascii_id,
    is_only_watched,
    unannotated_id,
)
from obygaze_features.manifest.own_labels import label_columns, spellings_of
from obygaze_features.manifest.same_clip import (
    UNKNOWN,
    Identity,
    compare_clips,
    known_film,
    rows_of_clips,
)
from obygaze_features.manifest.spans import NAME_COLUMN, named_file

ANNOTATOR = "annotator"
UNKNOWN_MODALITY = "unknown"
# What must be the same in the headers of all manifests, with a hint.
SHARED = {
    "unit": "obygaze manifest import segments reads a table of marks in films as segments",
    "view": "manifests of one view",
}


def merge_manifests(
    manifests: Sequence[str | os.PathLike[str]],
    name: Annotated[str, Option("-o --output", metavar="NAME")],
    *,
    force: bool = False,
    workspace: str | os.PathLike[str] | None = None,
) -> SavedManifest:
    """Merge manifests: clips that two labs annotated become rows of two annotators.

    A row without an annotator gets the name of its manifest as annotator, and each id ends with
    it: lake-001.paris. Rows of one clip must agree on film and times.

    Args:
        manifests: Two manifests or more, which are not changed.
        name: Name of the new manifest.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze manifest merge paris nice -o both
        obygaze manifest merge theirs/manifests/clips.toml films -o all-annotators
    """
    sources = [read_manifest(manifest, workspace=workspace) for manifest in manifests]
    path = Workspace.of(workspace).new_manifest(name)
    return merged_manifest(sources, path.stem).save(path, force=force)


def merged_manifest(manifests: Sequence[Manifest], name: str) -> ImportedManifest:
    """Return the manifest that `merge_manifests` writes."""
    names = [manifest.name for manifest in manifests]
    where = ", ".join(names)
    if len(manifests) < 2:
        raise FixUsage("expected two manifests or more", hint="obygaze manifest ls")
    if len(set(names)) < len(names):
        raise FixUsage(
            "two manifests have the same name, which becomes the annotator of their rows",
            where=where,
            hint="import one of them again under another name",
        )
    header = _merged_header(manifests, name)
    columns = dict.fromkeys((ANNOTATOR,))
    for manifest in manifests:
        columns.update(dict.fromkeys(manifest.columns))
    warnings = [*_of_one_source(manifests), *_of_other_concepts(manifests, header)]
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
    rows: dict[str, tuple[Clip, Manifest]] = {}
    all_rows = []
    renamed = []
    for manifest in manifests:
        for clip in manifest:
            row = original(clip) if is_unlinked else clip
            row = _annotated(row, manifest, columns)
            if not is_only_watched(row):
                all_rows.append((row, manifest))
                if row.clip_id != clip.clip_id:
                    renamed.append(row.clip_id)
            earlier, of_manifest = rows.setdefault(row.clip_id, (row, manifest))
            if of_manifest is not manifest:
                _require_equal(earlier, row, f"{of_manifest.name}, {manifest.name}")
            elif earlier is not row:
                raise FixInput(
                    f"two rows would have the id {row.clip_id!r}", where=manifest.name
                )
    _require_one_film_of_videos(all_rows)
    clips = [clip for clip, _ in rows.values()]
    try:
        sentences = _shared_clips(all_rows)
    except FixInput as error:
        error.where = where
        raise
    if renamed:
        n_rows = count(len(renamed), "row")
        sentences.append(
            f"{n_rows} with a new id, which ends with the annotator: {renamed[0]}"
        )
    manifest = Manifest(name, header, tuple(clips), tuple(columns))
    warnings += _words_in_several_spellings(clips)
    return ImportedManifest(manifest, tuple(warnings), tuple(sentences))


def _annotated(clip: Clip, manifest: Manifest, columns: Mapping[str, None]) -> Clip:
    """Return a row with its annotator, in its id too, and with a cell in each column."""
    annotator = clip.extra.get(ANNOTATOR) or manifest.name
    cells = {name: clip.extra.get(name, "") for name in columns}
    cells[ANNOTATOR] = annotator
    if NAME_COLUMN in columns:
        cells[NAME_COLUMN] = named_file(clip)
    clip_id = f"{unannotated_id(clip)}.{ascii_id(annotator)}"
    return replace(clip, clip_id=clip_id, extra=cells)


def _of_one_source(manifests: Sequence[Manifest]) -> list[str]:
    """Return a sentence on each file whose rows without annotators would be of two people."""
    name_of: dict[SourceFile, str] = {}
    sentences = []
    for manifest in manifests:
        if all(clip.extra.get(ANNOTATOR) for clip in manifest):
            continue
        for source in manifest.header.sources:
            first = name_of.setdefault(source, manifest.name)
            if first != manifest.name:
                sentences.append(
                    f"{first} and {manifest.name} were both made of {source.file}, and their"
                    " rows count as those of two annotators"
                )
    return sentences


def _of_other_concepts(manifests: Sequence[Manifest], merged: Header) -> list[str]:
    """Return a sentence on each manifest whose labelled rows were not asked for all concepts."""
    sentences = []
    for manifest in manifests:
        missing = [
            name for name in merged.concepts if name not in manifest.header.concepts
        ]
        n_labelled = sum(bool(clip.level or clip.concepts) for clip in manifest)
        if missing and n_labelled:
            sentences.append(
                f"{manifest.name} does not have the concepts {few(missing, 3)}, so that its labels"
                f" say that no clip has them: {count(n_labelled, 'row')}"
            )
    return sentences


def _words_in_several_spellings(clips: Sequence[Clip]) -> list[str]:
    """Return a sentence on each column of labels with a word in several spellings."""
    sentences = []
    for column in label_columns(clips):
        words: set[str] = set()
        for clip in clips:
            words.update(clip.plain_values(column))
        for spellings in spellings_of(sorted(words)):
            sentences.append(
                f"the column {column} has {' and '.join(map(repr, spellings))}, which count as"
                " different words: write them alike if they mean the same"
            )
    return sentences


def _require_one_film_of_videos(rows: Iterable[tuple[Clip, Manifest]]) -> None:
    """Raise an error if two manifests say other films of one video."""
    said_of: dict[str, tuple[Clip, Manifest]] = {}
    for clip, manifest in rows:
        first, of_manifest = said_of.setdefault(clip.video, (clip, manifest))
        films = (first.movie_id, clip.movie_id)
        if clip.video and of_manifest is not manifest and all(map(known_film, films)):
            said = [(films[0], of_manifest.name), (films[1], manifest.name)]
            _require_one(f"the film of the video {clip.video}", said, "one of the ids")


def _require_equal(one: Clip, other: Clip, where: str) -> None:
    """Raise an error unless an annotator has said the same of a clip in two manifests."""
    before = _cells(one)
    after = _cells(other)
    for column in before:
        if before[column] != after[column]:
            said = (before[column], after[column])
            values = ["nothing" if cell in (None, "", ()) else cell for cell in said]
            raise FixInput(
                f"two rows of {one.extra[ANNOTATOR]!r} about the clip"
                f" {unannotated_id(one)!r} differ: {column}: {values[0]} and {values[1]}",
                where=where,
                hint="correct one of them, or give the two people other names",
            )


def _cells(clip: Clip) -> dict[str, Any]:
    facts = {name: value for name, value in vars(clip).items() if name != "extra"}
    return {**facts, **clip.extra}


def _merged_header(manifests: Sequence[Manifest], name: str) -> Header:
    """Return the header of a merged manifest; what must be the same is refused where it differs."""
    for manifest in manifests:
        if isinstance(manifest.clips, Windows):
            raise FixInput("windows have no annotators", where=manifest.name)
    for key, hint in SHARED.items():
        said = [(getattr(one.header, key), one.name) for one in manifests]
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
        licence=_said_of_labels(manifests, "licence"),
        citation=_said_of_labels(manifests, "citation"),
        notes=tuple(notes),
        sources=tuple(sources),
    )


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


def _shared_clips(rows: Sequence[tuple[Clip, Manifest]]) -> list[str]:
    """Return sentences on the clips of several manifests; contradicting rows are an error."""
    identities = [Identity.of_clip(clip) for clip, _ in rows]
    n_shared = 0
    n_by_id = 0
    other_ids = []
    for numbers in rows_of_clips(identities):
        names = {rows[number][1].name for number in numbers}
        if len(names) < 2:
            continue
        n_shared += 1
        first = identities[numbers[0]]
        compared = [compare_clips(first, identities[number]) for number in numbers[1:]]
        n_by_id += any(one.sameness is UNKNOWN for one in compared)
        ids = {identities[number].clip_id for number in numbers}
        if len(ids) > 1:
            other_ids.append(" and ".join(sorted(ids)))
    sentences = [f"{count(n_shared, 'clip')} in several of the manifests"]
    if n_by_id:
        n_clips = count(n_by_id, "clip")
        sentences.append(f"{n_clips} of them by the id alone: neither films nor times")
    if other_ids:
        n_clips = count(len(other_ids), "clip")
        sentences.append(
            f"{n_clips} of them by film and times, with other ids: {other_ids[0]}"
        )
    return sentences
