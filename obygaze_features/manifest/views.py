"""The three readings of one annotation: as annotated, what can be seen, what was published."""

from __future__ import annotations

from dataclasses import replace

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.manifest.model import VIEWS, Clip, Manifest

PUBLISHED_SPLIT = "02_EN_HN_S"


def view(manifest: Manifest, name: str) -> Manifest:
    """The manifest under one of the views `raw`, `visual`, `as_published`."""
    if name not in VIEWS:
        raise FixUsage(f"{name!r} is not a view", hint=f"one of {', '.join(VIEWS)}")
    if name == manifest.header.view:
        return manifest
    if manifest.header.view != "raw":
        raise FixInput(
            f"this manifest is a {manifest.header.view!r} view already, {name!r} needs the raw one",
            where=manifest.name,
        )
    seen = manifest.with_clips(_visual(manifest))
    if name == "as_published":
        seen = seen.with_clips(_published(seen))
    return replace(seen, header=replace(manifest.header, view=name))


def _visual(manifest: Manifest) -> list[Clip]:
    """Only what can be seen counts: a clip with no visual concept left is an easy negative."""
    visible = set(manifest.header.of_modality("visual"))
    clips = []
    for clip in manifest:
        concepts = tuple(name for name in clip.concepts if name in visible)
        level = clip.level if concepts or not clip.level else "EN"
        clips.append(replace(clip, concepts=concepts, level=level))
    return clips


def _published(manifest: Manifest) -> list[Clip]:
    """The clips of the released split files, which are a third population of their own."""
    if PUBLISHED_SPLIT not in manifest.folds:
        raise FixInput(
            "the published view needs the published split files",
            where=manifest.name,
            hint="obygaze manifest import obygaze12 CSV --splits DIR",
        )
    return [clip for clip in manifest if clip.fold(PUBLISHED_SPLIT) is not None]
