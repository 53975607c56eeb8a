"""Open the inputs of the page by their names in the workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from obygaze.features import PathLike, open_store, workspace_of
from obygaze.models import load_model, named_manifest, read_run
from obygaze.view.explain import Explainer
from obygaze.view.marks import MarkTable
from obygaze.view.scores import cells_of
from obygaze.view.site import Site
from obygaze_features.core.errors import FixUsage
from obygaze_features.manifest.projection import read_segments
from obygaze_models.models.bottleneck import Bottleneck
from obygaze_models.report.lookup import ReportRun


def open_site(
    manifest: PathLike | None = None,
    *,
    run: PathLike | None = None,
    store: PathLike | None = None,
    model: PathLike | None = None,
    segments: Path | None = None,
    annotate: str | None = None,
    blind: bool = False,
    fps: float | None = None,
    workspace: PathLike | None = None,
) -> Site:
    """Return the page of a manifest, for `server_of` or `export`.

    Args:
        manifest: The clips. The default is those of the run, or the only manifest of the workspace.
        run: Show the out-of-fold scores of this run.
        store: The features. The default is those of the model or the run.
        model: Explain the decisions of this saved bottleneck.
        segments: Show the segments of this table, as `obygaze manifest project` reads it.
        annotate: Let this annotator mark segments; they are saved in `segments/`.
        blind: Show neither predictions nor what others marked.
        fps: Pictures per second of films without a column `framerate`.
        workspace: The workspace, if it is not the current one.
    """
    scored = ReportRun.of_run(read_run(run, workspace=workspace)) if run else None
    if manifest is None and scored:
        manifest = scored.about["manifest"]["path"]
    clips, place, marks = named_manifest(manifest, workspace)[0], workspace_of(workspace), None
    if annotate is not None:
        path = place.folder("segments") / f"{clips.name}.{annotate}.csv"
        arm = "blind" if blind else "assisted"
        marks = MarkTable(path, annotate, arm, clips.movies, tuple(clips.header.concepts))
    site: dict[str, Any] = {"workspace": place, "manifest": clips, "marks": marks, "fps": fps or 0}
    if blind:
        return Site(**site, blind=True)
    saved = load_model(model, workspace=workspace) if model else None
    learned = scored.about["stores"].get(cells_of(scored)[0]["feature"], {}) if scored else {}
    where = store or (saved.info.features.store if saved else learned.get("location"))
    # The store of a run may have been moved since.
    found = (
        open_store(where, workspace=workspace)
        if where and (store or Path(where).exists())
        else None
    )
    if saved and not (found and isinstance(saved.estimator, Bottleneck)):
        what = f"expected a bottleneck and its store, got a model of kind {saved.info.kind!r}"
        raise FixUsage(what, hint="--model of obygaze train pcbm-lr, and --store")
    return Site(
        **site,
        run=scored,
        store=found,
        explainer=Explainer(saved, found, clips) if saved and found else None,
        segments=read_segments(segments) if segments else (),
    )
