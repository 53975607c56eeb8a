"""Made-up films, extracted with the new loop: manifests, runs, and the bytes that they leave."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.extraction_next.extracting import Extraction, extract
from obygaze_features.manifest.model import Manifest
from support.extraction import film_folder, keep_manifest
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
    """Extract into the stores of a workspace."""
    (workspace / "stores").mkdir(parents=True, exist_ok=True)
    return extract(manifest, backbones, workspace=workspace, **options)


def data_bytes(store: Path) -> dict[str, object]:
    """The bytes of all numbers of a store, and its tables."""
    return {
        name: data for name, data in lasting_bytes(store).items() if name != "README.md"
    }


__all__ = [
    "data_bytes",
    "film_folder",
    "films_with_failures",
    "keep_manifest",
    "np",
    "run",
]
