"""Merge the clips of several manifests, and make labels by a different rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from msgspec import structs

from obygaze_features.core.console import few
from obygaze_features.core.errors import AlreadyThere, FixInput, FixUsage
from obygaze_features.core.files import file_facts
from obygaze_features.core.refusal import refuse_if
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.adapters import ImportedManifest, SavedManifest
from obygaze_features.manifest.annotators import (
    annotated_columns,
    apply_rule,
    make_annotations,
    parse_orders,
    sort_annotations,
)
from obygaze_features.manifest.history import command_line, manifest_word
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.link import remove_link
from obygaze_features.manifest.model import (
    CLIP_COLUMNS,
    FOLD_PREFIX,
    NAME_COLUMN,
    Annotation,
    Clip,
    Header,
    Manifest,
)
from obygaze_features.manifest.spans import FILM_TIMES
from obygaze_features.manifest.spelling import Spelling

UNKNOWN_MODALITY = "unknown"
# The keys that must be equal in the headers of all manifests.
SHARED = ("unit", "view", "films")


def merge_manifests(
    manifests: Sequence[PathLike],
    name: str,
    *,
    force: bool = False,
    workspace: PathLike | None = None,
) -> SavedManifest:
    """Put the clips of several manifests into one.

    No clip may be in two of them: tables of several people about the same clips are imported
    together, by `manifest import ada.csv ben.csv`. Folds and links to videos are left out.

    Args:
        manifests: Two manifests or more, which are not changed.
        name: Name of the new manifest.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.
    """
    sources = [read_manifest(manifest, workspace=workspace) for manifest in manifests]
    path = Workspace.of(workspace).new_manifest(name)
    words = [manifest_word(manifest, workspace) for manifest in manifests]
    command = command_line("manifest merge", words, {"-o": path.stem}, workspace)
    merged = merged_manifest(sources, path.stem)
    return merged.save(path, command, *sources, force=force)


def make_labels(
    manifest: PathLike,
    name: str,
    *,
    rule: str,
    orders: Mapping[str, str] | None = None,
    force: bool = False,
    workspace: PathLike | None = None,
) -> SavedManifest:
    """Make new labels of clips from the annotations of several people, by a rule.

    The rules are agreed, the value that all annotators give; majority, the most frequent value;
    highest, for levels and columns with an order; mean, for numbers; by:NAME, the values of one
    annotator.

    Args:
        manifest: A manifest with several annotators, which is not changed.
        name: Name of the new manifest.
        rule: agreed, majority, highest, mean or by:NAME.
        orders: The words of a column from the lowest, for the rule highest: mood=calm,tense.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.
    """
    before = read_manifest(manifest, workspace=workspace)
    if not before.annotations:
        raise FixInput(
            "this manifest has no table of annotators",
            where=before.name,
            hint="import a table with a row or a column per annotator: obygaze manifest import"
            " TABLE",
        )
    path = Workspace.of(workspace).new_manifest(name)
    after = apply_rule(before, rule, parse_orders(orders or {}))
    options = {"--rule": rule, "--order": orders, "-o": path.stem}
    word = manifest_word(manifest, workspace)
    command = command_line("manifest labels", [word], options, workspace)
    return ImportedManifest(after).save(path, command, before, force=force)


def merged_manifest(manifests: Sequence[Manifest], name: str) -> ImportedManifest:
    """Return the manifest that `merge_manifests` writes."""
    if len(manifests) < 2:
        raise FixUsage(
            "expected two manifests or more", hint="obygaze ls lists the manifests"
        )
    header = _merged_header(manifests, name)
    given = [(clip, manifest.name) for manifest in manifests for clip in manifest]
    _refuse_shared(given)
    columns = {name: None for one in manifests for name in (*one.columns, NAME_COLUMN)}
    # Folds are removed, because clips of one film may be in different folds of two manifests.
    splits = [column for column in columns if column.startswith(FOLD_PREFIX)]
    kept = [column for column in columns if column not in splits]
    spelling = Spelling()
    clips = []
    for clip, _ in given:
        # The column video_name keeps the file that the table names, so that `link` finds it again.
        before = remove_link(clip)
        cells = {name: spelling.cell(before.extra.get(name, ""), name) for name in kept}
        clips.append(replace(before, extra=cells))
    given_annotations: list[Annotation] = []
    for manifest in manifests:
        given_annotations += manifest.annotations
    own_columns: set[str] = set()
    for one in given_annotations:
        own_columns.update(one.own)
    if given_annotations:
        for manifest in manifests:
            # The labels of a single annotator are in the clips.
            if not manifest.annotations:
                columns_of = annotated_columns(manifest)
                own = [name for name in columns_of if name in own_columns]
                given_annotations += make_annotations(manifest, own)
    annotations = []
    for one in given_annotations:
        cells = {name: spelling.cell(cell, name) for name, cell in one.own.items()}
        person = spelling.cell(one.annotator, "annotator")
        annotations.append(one._replace(annotator=person, own=cells))
    said = sort_annotations(annotations)
    warnings = []
    some_concept = any(clip.concepts for clip, _ in given)
    for manifest in manifests:
        concepts = manifest.header.concepts
        # The header of a table that states levels only has all known concepts.
        has_concepts = any(clip.concepts for clip in manifest)
        has_levels = any(clip.level not in ("", "EN") for clip in manifest)
        if some_concept and has_levels and not has_concepts:
            concepts = {}
        missing = header.concepts.keys() - concepts.keys()
        if missing and any(clip.level or clip.concepts for clip in manifest):
            warnings.append(
                f"{manifest.name} does not have the concepts {few(sorted(missing), 3)}: its clips"
                " count as clips without these concepts"
            )
    if splits:
        warnings.append(
            f"folds removed, because each manifest has its own: {few(splits)}"
        )
    of_two_files = _films_of_two_files(manifests)
    if of_two_files:
        warnings.append(
            f"the clips of these films are parts of different files: {few(of_two_files)}"
        )
    merged = Manifest(name, header, tuple(clips), tuple(kept), said)
    return ImportedManifest(merged, tuple(warnings))


def _refuse_shared(clips: Iterable[tuple[Clip, str]]) -> None:
    """Raise an error for clips in two manifests, and for film ids that differ only in capitals."""
    first_of_id: dict[str, tuple[Clip, str]] = {}
    film_of_name: dict[str, str] = {}
    shared = []
    pairs: list[tuple[Clip, Clip]] = []
    films: dict[str, None] = {}
    for clip, name in clips:
        cells = ["|".join(clip.values(column)) for column in CLIP_COLUMNS[1:]]
        row = f"{clip.clip_id} ({' '.join(filter(None, cells))}) in {name}"
        first, first_row = first_of_id.setdefault(clip.clip_id.casefold(), (clip, row))
        if first is not clip:
            shared.append(f"{first_row} and {row}")
            pairs.append((first, clip))
        film = film_of_name.setdefault(clip.movie_id.casefold(), clip.movie_id)
        if film != clip.movie_id:
            films[f"{film} and {clip.movie_id}"] = None
    if shared:
        are = "clip is" if len(shared) == 1 else "clips are"
        raise AlreadyThere(
            f"{len(shared)} {are} in two manifests{_how_many_are_same(pairs)}: {few(shared, 3)}",
            hint="give different clips different ids; import tables of several annotators of the"
            " same clips together: obygaze manifest import TABLE TABLE --rule agreed -o NAME",
        )
    refuse_if(
        films,
        FixInput,
        "movie_ids that differ only in case",
        hint="use one spelling in all tables, and import the tables again",
    )


def _how_many_are_same(pairs: Sequence[tuple[Clip, Clip]]) -> str:
    """Return how many pairs of clips with one id are the same clip, as part of a sentence."""
    # Imported here because it loads NumPy, which would slow down the help of commands.
    import numpy as np

    from obygaze_features.manifest.clip_table import ClipTable
    from obygaze_features.manifest.same_clips import same_clips

    ours, theirs = (ClipTable.of_clips(clips) for clips in zip(*pairs, strict=True))
    found = same_clips(ours, theirs, np.arange(len(pairs)))
    n_other = int((found.refused() > 0).sum())
    if n_other:
        return f", {n_other} of them as other clips"
    if found.n_by_ids:
        return f", {found.n_by_ids} of them by id only"
    return ", as the same clips"


def _films_of_two_files(manifests: Sequence[Manifest]) -> list[str]:
    """Return the films whose clips are parts of different files: by their bytes, or their names."""
    files_of_film: dict[str, set[Path]] = {}
    for manifest in manifests:
        for clip in manifest:
            is_part = (clip.start_s, clip.end_s) != (None, None)
            has_own_file = any(clip.extra.get(name) for name in FILM_TIMES)
            if clip.movie_id and clip.video and is_part and not has_own_file:
                file = Path(manifest.header.video_root, clip.video)
                files_of_film.setdefault(clip.movie_id, set()).add(file)
    of_two_files = []
    for film, files in files_of_film.items():
        # Most films are one file, which is not read.
        facts = map(file_facts, files if len(files) > 1 else ())
        contents = set(facts) - {None}
        names = {file.name for file in files}
        if len(contents or names) > 1:
            of_two_files.append(film)
    return of_two_files


def _merged_header(manifests: Sequence[Manifest], name: str) -> Header:
    """Return the header of a merged manifest. Raise an error if headers contradict each other."""
    for key in SHARED:
        _only_one(key, {one.name: getattr(one.header, key) for one in manifests})
    rules = {one.name: one.header.rule for one in manifests if one.header.rule}
    _only_one("rule", rules)
    stated: dict[str, dict[str, str]] = {}
    for manifest in manifests:
        for concept, modality in manifest.header.concepts.items():
            of_concept = stated.setdefault(concept, {})
            if modality != UNKNOWN_MODALITY:
                of_concept[manifest.name] = modality
    for concept, of_concept in stated.items():
        _only_one(f"the modality of the concept {concept!r}", of_concept)
    headers = [manifest.header for manifest in manifests]
    citations = [(one.name, one.header.citation) for one in manifests]
    licences = [(one.name, one.header.licence) for one in manifests]
    concepts = {}
    for concept, of_concept in stated.items():
        concepts[concept] = next(iter(of_concept.values()), UNKNOWN_MODALITY)
    notes = dict.fromkeys(chain.from_iterable(header.notes for header in headers))
    sources = dict.fromkeys(chain.from_iterable(header.sources for header in headers))
    said = None
    if any(header.said is not None for header in headers):
        columns = chain.from_iterable(map(annotated_columns, manifests))
        said = tuple(dict.fromkeys(columns))
    is_of_one = len({header.dataset for header in headers}) == 1
    return structs.replace(
        headers[0],
        dataset=headers[0].dataset if is_of_one else name,
        concepts=concepts,
        rule=next(iter(rules.values()), ""),
        said=said,
        licence=licence_of_all(licences),
        citation=text_of_all(citations),
        notes=tuple(notes),
        sources=tuple(sources),
        video_root="",
    )


def _only_one(key: str, stated: Mapping[str, str]) -> None:
    """Raise an error unless all manifests state the same value for a key."""
    for name, value in stated.items():
        first, expected = next(iter(stated.items()))
        if value != expected:
            raise FixInput(
                f"{key}: expected {expected or 'a value'} as in {first}, got {value or 'a value'}",
                where=name,
                hint="correct the TOML file of one of the two, or import one again",
            )


def licence_of_all(stated: Sequence[tuple[str, str]]) -> str:
    """Return the licences of manifests as one text, or "" if one manifest states none.

    The licence of all clips is then unknown, and `store push` asks for it.

    Args:
        stated: The name of each manifest and its licence.
    """
    return text_of_all(stated) if all(licence for _, licence in stated) else ""


def text_of_all(stated: Iterable[tuple[str, str]]) -> str:
    """Return the text that all manifests state. If the texts differ, return a list of them.

    Args:
        stated: The name of each manifest and its text.
    """
    texts = dict.fromkeys(stated)
    values = {text for _, text in texts}
    if len(values) == 1:
        return values.pop()
    return "; ".join(f"{name}: {text or 'not stated'}" for name, text in texts)
