"""A small world to extract from: films with numbered clips, a manifest."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from obygaze_features.backbones.placement import Placement
from obygaze_features.extraction.extracting import extract
from obygaze_features.extraction.results import Extraction
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from support.videos import write_video


def film_folder(
    folder, n_clips: int, bad: Mapping[int, bytes] | None = None
) -> Manifest:
    """Videos of `n_clips` clips and their manifest; `bad` puts other bytes in place of some."""
    clips = []
    for number in range(n_clips):
        film = f"tt{number // 10}"
        name = f"{film}/{film}-{number:03d}.mp4"
        path = folder / "videos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if bad and number in bad:
            path.write_bytes(bad[number])
        else:
            write_video(path, numbers=range(number, number + 18), size=(64, 48))
        clips.append(Clip(f"{film}-{number:03d}", film, number, name, level="EN"))
    header = Header(
        "Numbered films", {}, video_root=str(folder / "videos"), licence="CC0-1.0"
    )
    return Manifest("films", header, tuple(clips))


def keep_manifest(manifest: Manifest, workspace: Path) -> None:
    """Put a manifest where commands find it."""
    write_manifest(manifest, workspace / "manifests" / "films.toml", force=True)


OUT_OF_MEMORY = "CUDA out of memory. Tried to allocate 20.00 GiB"


class CountingBackbone:
    """A backbone in NumPy as one of a GPU, which has memory for a number of clips only."""

    takes_mask = False

    def __init__(
        self, inner: Any, *, most: int = 10**9, most_waiting: int = 10**9
    ) -> None:
        self.card, self.geometry, self.arrays = inner.card, inner.geometry, inner.arrays
        self.activation_bytes = inner.activation_bytes
        self.resize = inner.resize
        self.view = inner.view
        self.placement = Placement("cuda")
        self.inner, self.most, self.most_waiting = inner, most, most_waiting
        self.batches: list[int] = []
        self.waiting = 0

    def normalise(self, pictures: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """As the inner one; out of memory if more than `most_waiting` clips wait for a batch."""
        self.waiting += len(pictures) // self.inner.geometry.frames
        if self.waiting > self.most_waiting:
            self.waiting = 0
            raise RuntimeError(OUT_OF_MEMORY)
        return np.asarray(self.inner.normalise(np.asarray(pictures)))

    def forward(
        self, pixels: Any, mask: Any = None, only: Any = None
    ) -> dict[str, Any]:
        """As the inner one; out of memory above `most` clips."""
        self.waiting = 0
        if len(pixels) > self.most:
            raise RuntimeError(OUT_OF_MEMORY)
        self.batches.append(len(pixels))
        arrays = self.inner.forward(pixels, mask, only)
        return {
            name: torch.from_numpy(array).to("cuda") for name, array in arrays.items()
        }

    def recipe(self) -> dict[str, Any]:
        recipe: dict[str, Any] = self.inner.recipe()
        return recipe


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
