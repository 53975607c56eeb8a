"""Stores, manifests, backbones and extraction, for `import obygaze as og`.

Each function is what the command of the same name does: names, paths and URLs in, objects of the
rooms out. Heavy packages are imported by the function that needs them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from obygaze_features.core.console import Console, Progress
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest import read_manifest

if TYPE_CHECKING:
    from obygaze_features.backbones.base import Backbone
    from obygaze_features.extraction import StoreStatus
    from obygaze_features.manifest import Manifest

PathLike: TypeAlias = "str | os.PathLike[str]"
ProgressBars: TypeAlias = Callable[[str, int], "AbstractContextManager[Progress]"]


def load_backbone(
    name: str,
    weights: PathLike | None = None,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    workspace: PathLike | None = None,
) -> Backbone:
    """Load a backbone: a model that turns pictures of a clip into features.

    Args:
        name: A card's name; `obygaze backbones ls` lists them.
        weights: A file or folder with the weights. The default is the card's own checkpoint.
        device: cpu, cuda or cuda:N.
        dtype: float32, bfloat16 or float16.
        workspace: The workspace, whose own cards are found too.

    Example:
        >>> sorted(og.load_backbone("descriptors").levels)
        ['clip', 'frames', 'pooled']
    """
    from obygaze_features.backbones import load_backbone

    own = None if weights is None else Path(weights)
    return load_backbone(
        name, own, device=device, dtype=dtype, workspace=workspace_of(workspace)
    )


def extract(
    manifest: PathLike | Manifest,
    backbones: str | Sequence[str],
    *,
    stores: Mapping[str, PathLike] | None = None,
    weights: Mapping[str, PathLike] | None = None,
    levels: Sequence[str] = (),
    licence: str = "",
    citation: str = "",
    device: str = "cpu",
    workers: int | None = None,
    batch: int | None = None,
    worker: str | None = None,
    seal: bool | None = None,
    retry_failed: bool = False,
    changed: bool = False,
    mixed: bool = False,
    progress: bool = False,
    workspace: PathLike | None = None,
) -> list[StoreStatus]:
    """Extract what is missing of the features of a manifest's clips; calling it again resumes.

    A clip that fails becomes a row with the reason. A signal (Ctrl-C) stops after the current
    block; committed blocks are kept.

    Args:
        manifest: The clips, linked to their videos (`obygaze manifest link`).
        backbones: One or more backbones; all of them share one decoding of each clip.
        stores: The store of a backbone. The default is MANIFEST.BACKBONE in the workspace.
        weights: The file or folder with the weights of a backbone.
        levels: The feature levels to keep. The default is all but `tokens`.
        licence: The licence of the features. The default is that of the manifest.
        citation: What to cite for the features. The default is that of the manifest.
        device: cpu, cuda or cuda:N.
        workers: Processes that decode. The default is one for each core.
        batch: Clips in a batch. The default is what fits into memory.
        worker: I/K, such as 0/8: extract every K-th block, from I, as one of K calls that share the
            work; the status is that of its own clips.
        seal: Close stores that are complete. The default is to close them if no clip failed.
        retry_failed: Try failed clips again, and nothing else.
        changed: As `retry_failed`, and also clips whose times or video changed.
        mixed: Add to stores whose clips were made by another version of this program, another kind
            of device, or in another precision. The default raises an error.
        progress: Show a progress bar on stderr.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> (state,) = og.extract("trailers", "descriptors")
        >>> state.ok, state.failed
        (2, 1)
    """
    from contextlib import ExitStack

    from obygaze_features.core.machine import usable_cores
    from obygaze_features.extraction import (
        Resources,
        RowProgress,
        make_plan,
        stop_on_signals,
    )
    from obygaze_features.extraction import extract as extract_plan
    from obygaze_features.extraction.recipes import targets_for
    from obygaze_features.extraction.run import seal_complete

    place = workspace_of(workspace)
    clips = read_manifest(manifest, workspace=workspace)
    targets = targets_for(
        clips,
        [backbones] if isinstance(backbones, str) else list(backbones),
        place,
        stores={name: os.fspath(store) for name, store in (stores or {}).items()},
        weights={name: os.fspath(path) for name, path in (weights or {}).items()},
        levels=tuple(levels),
    )
    plan = make_plan(
        clips, targets, workspace=place.root, licence=licence, citation=citation
    )
    resources = Resources(device=device, workers=workers or usable_cores(), batch=batch)
    with stop_on_signals() as stop, ExitStack() as stack:
        bars = progress_bars(progress, "clips")
        shown = RowProgress(lambda n_rows: stack.enter_context(bars("extract", n_rows)))
        rows = None if worker is None else plan.worker_rows(worker)
        states = extract_plan(
            plan,
            resources,
            stop,
            rows=rows,
            retry_failed=retry_failed,
            mixed=mixed,
            progress=shown,
        )
        return seal_complete(states, seal)


def workspace_of(root: PathLike | None) -> Workspace:
    """Return the workspace in a folder, by default the current one."""
    return Workspace.of(root)


def progress_bars(progress: bool | ProgressBars, unit: str) -> ProgressBars:
    """Return the function that makes progress bars on stderr; False makes bars without output."""
    if not isinstance(progress, bool):
        return progress
    return partial(Console(verbosity=0 if progress else -1).progress, unit=unit)
