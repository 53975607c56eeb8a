"""Stores, manifests, backbones and extraction, for `import obygaze as og`.

Each function is what the command of the same name does: names, paths and URLs in, objects of the
rooms out. Heavy packages are imported by the function that needs them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from obygaze_features.core.console import ProgressBars as ProgressBars
from obygaze_features.core.console import progress_bars as progress_bars
from obygaze_features.core.workspace import PathLike as PathLike
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest import read_manifest

if TYPE_CHECKING:
    from obygaze_features.extraction import StoreStatus
    from obygaze_features.manifest import Manifest


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


workspace_of = Workspace.of
