"""`obygaze manifest merge`: the clips of several manifests; and `labels`, one label a clip."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from obygaze_features.core.console import few
from obygaze_features.core.errors import AlreadyThere, FixInput, FixUsage
from obygaze_features.core.refusal import refuse_if
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.adapters import ImportedManifest, SavedManifest
from obygaze_features.manifest.annotators import (
    columns_of_people,
    labelled,
    orders_of,
    sorted_annotations,
)
from obygaze_features.manifest.io import read_manifest, write_manifest
from obygaze_features.manifest.link import original
from obygaze_features.manifest.model import (
    CLIP_COLUMNS,
    FOLD_PREFIX,
    NAME_COLUMN,
    Clip,
    Header,
    Manifest,
    Windows,
)
from obygaze_features.manifest.own_labels import words_alike
from obygaze_features.manifest.spelling import Spelling

UNKNOWN_MODALITY = "unknown"
# What must be the same in the headers of all manifests, with a hint.
SHARED = {
    "unit": "obygaze manifest import TABLE --as marks reads a table of marks in films",
    "view": "manifests of one view",
    "films": "import the one without films again, with --map movie_id=COLUMN",
}


def merge_manifests(
    manifests: Sequence[PathLike],
    name: str,
    *,
    force: bool = False,
    workspace: PathLike | None = None,
) -> SavedManifest:
    """Put the clips of several manifests into one.

    No clip may be in two of them: tables of several people about the same clips are imported
    together, by `manifest import ada.csv ben.csv`. Folds are left out.

    Args:
        manifests: Two manifests or more, which are not changed.
        name: Name of the new manifest.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze manifest merge paris nice -o both
        obygaze manifest merge theirs/manifests/clips.toml films -o all-clips
    """
    sources = [read_manifest(manifest, workspace=workspace) for manifest in manifests]
    path = Workspace.of(workspace).new_manifest(name)
    return merged_manifest(sources, path.stem).save(path, force=force)


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


def merged_manifest(manifests: Sequence[Manifest], name: str) -> ImportedManifest:
    """Return the manifest that `merge_manifests` writes."""
    if len(manifests) < 2:
        raise FixUsage("expected two manifests or more", hint="obygaze ls")
    header = _merged_header(manifests, name)
    _refuse_shared(manifests)
    columns = dict.fromkeys(column for one in manifests for column in one.columns)
    splits = [column for column in columns if column.startswith(FOLD_PREFIX)]
    for split in splits:
        # One film may be in two folds: each manifest has its own.
        del columns[split]
    warnings = _of_other_concepts(manifests, header)
    if splits:
        warnings.append(
            f"left out: {few(splits)}, folds of the clips of one manifest;"
            " `obygaze manifest folds` makes those of all"
        )
    clips = [clip for manifest in manifests for clip in manifest]
    roots = {manifest.header.video_root for manifest in manifests}
    if len(roots) > 1:
        # A file that was found is named in this column, so that `link` finds it again.
        columns[NAME_COLUMN] = None
        clips = [original(clip) for clip in clips]
        folders = [root or "none" for root in sorted(roots)]
        warnings.append(
            "not linked to videos, as the manifests are linked to other folders:"
            f" {' and '.join(folders)}"
        )
        header = structs.replace(header, video_root="")
    spelling = Spelling()
    kept = []
    for clip in clips:
        cells = {
            name: spelling.cell(clip.extra.get(name, ""), name) for name in columns
        }
        kept.append(replace(clip, extra=cells))
    annotations = []
    for manifest in manifests:
        for one in manifest.annotations:
            own = {name: spelling.cell(cell, name) for name, cell in one.own.items()}
            person = spelling.cell(one.annotator, "annotator")
            annotations.append(one._replace(annotator=person, own=own))
    said = sorted_annotations(annotations)
    merged = Manifest(name, header, tuple(kept), tuple(columns), said)
    warnings += words_alike(merged.clips)
    return ImportedManifest(merged, tuple(warnings))


def _refuse_shared(manifests: Iterable[Manifest]) -> None:
    """Raise an error for clips in two manifests, and for ids that differ by capitals alone."""
    first_of: dict[str, tuple[Clip, str]] = {}
    film_of: dict[str, tuple[str, str]] = {}
    clips: dict[str, None] = {}
    films: dict[str, None] = {}
    for manifest in manifests:
        for clip in manifest:
            place = (clip, manifest.name)
            first, where = first_of.setdefault(clip.clip_id.casefold(), place)
            if first is not clip:
                here = f"{_row(clip)} in {manifest.name}"
                clips[f"{_row(first)} in {where} and {here}"] = None
            film = (clip.movie_id, manifest.name)
            name, where = film_of.setdefault(clip.movie_id.casefold(), film)
            if name != clip.movie_id:
                names = f"{name} in {where} and {clip.movie_id} in {manifest.name}"
                films[names] = None
    if clips:
        are = "clip is" if len(clips) == 1 else "clips are"
        raise AlreadyThere(
            f"{len(clips)} {are} in two manifests: {few([*clips], 3)}",
            hint="give other clips other ids; tables of several people about the same clips are"
            " imported together: obygaze manifest import TABLE TABLE --rule agreed -o NAME",
        )
    refuse_if(
        films,
        FixInput,
        "movie_ids that differ by capitals alone",
        hint="write each in one way in all tables, and import them again",
    )


def _row(clip: Clip) -> str:
    """Return a clip with what its row says."""
    cells = ["|".join(clip.values(column)) for column in CLIP_COLUMNS[1:]]
    return f"{clip.clip_id} ({' '.join(filter(None, cells))})"


def _of_other_concepts(manifests: Sequence[Manifest], merged: Header) -> list[str]:
    """Return a sentence on each manifest whose labelled clips were not asked for all concepts."""
    sentences = []
    for manifest in manifests:
        known = manifest.header.concepts
        missing = [name for name in merged.concepts if name not in known]
        if missing and any(clip.level or clip.concepts for clip in manifest):
            sentences.append(
                f"{manifest.name} does not have the concepts {few(missing, 3)}, so that its labels"
                " say that no clip has them"
            )
    return sentences


def _merged_header(manifests: Sequence[Manifest], name: str) -> Header:
    """Return the header of a merged manifest; what must be the same is refused where it differs."""
    for manifest in manifests:
        if isinstance(manifest.clips, Windows):
            raise FixInput(
                "windows are computed from films, and are not merged",
                where=manifest.name,
                hint="obygaze manifest windows with all films",
            )
    for key, hint in SHARED.items():
        _only_one(key, manifests, hint)
    with_rules = [manifest for manifest in manifests if manifest.header.rule]
    hint = "obygaze manifest labels makes the labels of one of them anew"
    _only_one("rule", with_rules or manifests, hint)
    modality_of: dict[str, str] = {}
    stated_by: dict[str, str] = {}
    for manifest in manifests:
        for concept, modality in manifest.header.concepts.items():
            known = modality_of.setdefault(concept, modality)
            if UNKNOWN_MODALITY not in (known, modality) and known != modality:
                raise FixInput(
                    f"the modality of the concept {concept!r} differs: {known} in"
                    f" {stated_by[concept]}, {modality} in {manifest.name}",
                    where=manifest.name,
                    hint="correct the header of one of them",
                )
            if modality != UNKNOWN_MODALITY:
                modality_of[concept] = modality
                stated_by.setdefault(concept, manifest.name)
    headers = [manifest.header for manifest in manifests]
    datasets = {header.dataset for header in headers}
    said = None
    if any(header.said is not None for header in headers):
        people = [columns_of_people(manifest) for manifest in manifests]
        said = tuple(dict.fromkeys(column for columns in people for column in columns))
    return structs.replace(
        headers[0],
        dataset=headers[0].dataset if len(datasets) == 1 else name,
        concepts=modality_of,
        rule=(with_rules or manifests)[0].header.rule,
        said=said,
        licence=_of_all(manifests, "licence"),
        citation=_of_all(manifests, "citation"),
        notes=tuple(dict.fromkeys(note for one in headers for note in one.notes)),
        sources=tuple(dict.fromkeys(file for one in headers for file in one.sources)),
    )


def _only_one(key: str, manifests: Sequence[Manifest], hint: str) -> None:
    """Raise an error unless all headers state the same."""
    first, *others = manifests
    expected = getattr(first.header, key)
    for other in others:
        got = getattr(other.header, key)
        if got != expected:
            raise FixInput(
                f"{key} differs: {expected or 'stated'} in {first.name}, {got or 'stated'} in"
                f" {other.name}",
                where=other.name,
                hint=hint,
            )


def _of_all(manifests: Sequence[Manifest], key: str) -> str:
    """Return the licence or the citation of all labels, or what each manifest says of its own."""
    said_by = {manifest.name: getattr(manifest.header, key) for manifest in manifests}
    values = set(said_by.values())
    if len(values) == 1:
        return str(values.pop())
    stated = [f"{name}: {value or 'not stated'}" for name, value in said_by.items()]
    return "; ".join(stated)
