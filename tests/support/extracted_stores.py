"""Made-up films, extracted with the new loop: manifests, runs, and the bytes that they leave."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from obygaze_features.extraction.extracting import extract
from obygaze_features.extraction.results import Extraction
from obygaze_features.manifest.model import Manifest
from support.extraction import film_folder
from support.written_stores import lasting_bytes

N_CLIPS = 36
# Not a video, an empty file; the third names no video.
BROKEN, EMPTY, WITHOUT = 5, 6, 9


def films_with_failures(folder: Path, n_clips: int = N_CLIPS) -> Manifest:
    """Films of which two clips cannot be read and one has no video."""
    bad = {BROKEN: b"this is not a video", EMPTY: b""}
    manifest = film_folder(folder, n_clips, bad=bad)
    clips = list(manifest.clips)
    clip = clips[WITHOUT]
    clips[WITHOUT] = type(clip)(clip.clip_id, clip.movie_id, WITHOUT, "", level="S")
    return manifest.with_clips(clips)


def run(
    manifest: Manifest,
    workspace: Path,
    backbones: Sequence[Any] | str = "descriptors",
    **options: Any,
) -> Extraction:
    (workspace / "stores").mkdir(parents=True, exist_ok=True)
    return extract(manifest, backbones, workspace=workspace, **options)


def bytes_of(store: Path) -> dict[str, object]:
    """The bytes of all numbers and tables of a store, without the time of the seal."""
    return lasting_bytes(store)
