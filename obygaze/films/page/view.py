"""`obygaze view`: the film page in the browser.

What the page shows is described by `open_site` alone; the command adds how it is served.
"""

from __future__ import annotations

import os
import warnings
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import escape
from pathlib import Path
from tempfile import mkstemp
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import click

from obygaze_features.core.commands import Session, command
from obygaze_features.core.console import count, few, silent
from obygaze_features.core.errors import FixInput, FixUsage, ObygazeWarning
from obygaze_features.core.files import sha256_bytes
from obygaze_features.core.function_commands import parameters_of
from obygaze_features.core.leftovers import hidden_name, remove_leftovers
from obygaze_features.core.options import Option
from obygaze_features.core.value_types import TypedPath
from obygaze_features.core.workspace import PathLike, Workspace

if TYPE_CHECKING:
    from obygaze.films.decisions import Explainer
    from obygaze.films.page.site import Site
    from obygaze.films.predictions import PredictionTable
    from obygaze_features.manifest.model import Manifest
    from obygaze_models.runner.files import Run

F = TypeVar("F", bound=Callable[..., Any])


def open_site(
    manifest: PathLike | None = None,
    *,
    run: PathLike | None = None,
    scores: Annotated[PathLike | None, Option(metavar="PATH")] = None,
    store: PathLike | None = None,
    model: PathLike | None = None,
    segments: Annotated[PathLike | None, Option(metavar="PATH")] = None,
    annotate: Annotated[str | None, Option(metavar="NAME", group="Annotate")] = None,
    blind: Annotated[bool, Option(group="Annotate")] = False,
    note: Callable[[str], object] = silent,
    workspace: PathLike | None = None,
) -> Site:
    """Return the page of a manifest, for `server_of` or `export_page`.

    Args:
        manifest: The clips, or a folder of films, of which a manifest is made. The default is those
            of the run, or the only manifest of the workspace.
        run: Show the out-of-fold scores of this run.
        scores: Show the scores of a saved model, from this table of `models predict -o`.
        store: The features that the bottleneck reads.
        model: Explain the decisions of this saved bottleneck.
        segments: Show the marks of this table, or of the manifest of this name, too.
        annotate: Mark segments, saved under this name.
        blind: Show no predictions and no marks of others; drawn clips are always marked so.
        note: Is called with a sentence on what was made.
        workspace: The workspace, if it is not the current one.
    """
    from obygaze.films.page.site import Site
    from obygaze.films.sampling import is_drawn
    from obygaze.films.vocabulary import read_vocabulary, vocabulary_path
    from obygaze.films.writer import MarkFile
    from obygaze_features.manifest.adapters.folder import (
        is_folder_of_videos,
        manifest_of_folder,
        warn_of_other_videos,
    )
    from obygaze_models.runner.experiments import named_manifest
    from obygaze_models.runner.text import read_run

    opened_workspace = Workspace.of(workspace)
    if run and scores:
        raise FixUsage("the page shows scores of one source: --run or --scores")
    scored = None
    if run:
        scored = read_run(run, workspace=workspace)
    own_manifest = None
    if scored:
        named = scored.about["manifest"]
        is_here = named["name"] in opened_workspace.names("manifests")
        own_manifest = named["name"] if is_here else scored.place(named["path"])
    if manifest is None:
        manifest = own_manifest
    if manifest is not None and is_folder_of_videos(manifest, opened_workspace):
        clips, is_new = manifest_of_folder(Path(manifest), opened_workspace)
        if is_new:
            made_of = count(len(clips), "video")
            note(f"made the manifest {clips.name} of {made_of} in {manifest}")
    else:
        clips, _ = named_manifest(manifest, workspace)
    if manifest is not None:
        warn_of_other_videos(Path(manifest), clips)
    if scored and clips.name != scored.about["manifest"]["name"]:
        made_from = scored.about["manifest"]["name"]
        raise FixUsage(
            f"{clips.name} is not the manifest of the run, which is {made_from}",
            hint="--scores TABLE, for what a model says of other clips",
        )
    if scored:
        _refuse_other_clips(scored, clips)
    marks = None
    if annotate is not None:
        path = opened_workspace.folder("segments") / f"{clips.name}.{annotate}.csv"
        concepts = tuple(clips.header.concepts)
        # A vocabulary that cannot be read is an error before anything is marked.
        read_vocabulary(vocabulary_path(path.parent, clips.name), concepts)
        marks = MarkFile(path, annotate)
        if is_drawn(clips) and not blind:
            blind = True
            note(f"{clips.name} has drawn clips, which are marked blind")
    site = Site(opened_workspace, clips, marks=marks, blind=blind)
    if blind:
        return site
    return _with_predictions(
        site,
        scored,
        scores=scores,
        store=store,
        model=model,
        segments=segments,
    )


def _with_predictions(
    site: Site,
    run: Run | None,
    *,
    scores: PathLike | None,
    store: PathLike | None,
    model: PathLike | None,
    segments: PathLike | None,
) -> Site:
    """Return a page with what models and other annotators say of its clips."""
    explainer = None
    if model or store:
        explainer = _explainer(site, model, store)
    predictions = _scores_of_table(Path(scores), site) if scores else None
    table = _table_to_show(site, segments) if segments else None
    return replace(
        site, run=run, predictions=predictions, explainer=explainer, segments=table
    )


def _explainer(site: Site, model: PathLike | None, store: PathLike | None) -> Explainer:
    """Return what explains the decisions of a bottleneck; it needs the features of the clips."""
    from obygaze.films.decisions import Explainer
    from obygaze_features.store import open_store
    from obygaze_features.store.matching import replaced_videos
    from obygaze_models.models.bottleneck import Bottleneck
    from obygaze_models.zoo import load_model

    root = site.workspace.root
    if not model:
        raise FixUsage(
            "--store has the features of a bottleneck", hint="--model, or no --store"
        )
    saved = load_model(model, workspace=root)
    if not store or not isinstance(saved.estimator, Bottleneck):
        raise FixUsage(
            f"--model {saved.info.name} ({saved.info.kind}) must be a bottleneck, with --store",
            hint="--run RUN or --scores TABLE, for the scores of other models",
        )
    features = open_store(store, workspace=root)
    features.match(list(site.manifest))  # an error for a store of other clips
    folder = site.manifest.header.video_root
    replaced = replaced_videos(list(site.manifest), folder, features)
    if replaced:
        warnings.warn(
            f"these videos have other files than those of the features in {features.location}:"
            f" {few(replaced)}",
            ObygazeWarning,
            stacklevel=4,
        )
    return Explainer(saved, features, site.manifest)


def _table_to_show(site: Site, segments: PathLike) -> Path:
    """Return the table of marks that is shown, too."""
    from obygaze.films.marks import table_of_marks
    from obygaze_features.manifest import read_manifest
    from obygaze_features.manifest.model import view_words

    table = table_of_marks(segments, site.workspace.root)
    header = table.with_suffix(".toml")
    # A table that is named itself may have any file beside it.
    if table != Path(segments) and header.is_file():
        seen_in = read_manifest(header).header.view
        if seen_in != "raw":
            raise FixInput(
                f"the levels of {segments} are those of the {view_words(seen_in)}, and the page"
                " shows levels as they were marked",
                hint="name the manifest of which the view was made",
            )
    site.table_of_marks(table)  # an error for what is no table of marks
    return table


def _scores_of_table(path: Path, site: Site) -> PredictionTable:
    """Return the scores of a saved model for the clips of a page."""
    from obygaze.films.predictions import read_predictions, score_column

    table = read_predictions(
        site.manifest,
        path,
        required=("basis", "decision"),
        hint="a table of obygaze models predict -o, of a model that decides a question; or --run"
        " RUN, for scores of a run",
    )
    score_column(table.columns, path)
    models = dict.fromkeys(clip.model for clip in table.clips)
    if len(models) > 1:
        raise FixInput(
            f"expected the scores of one model, got {few([*models])}", where=str(path)
        )
    return table


def _refuse_other_clips(run: Run, manifest: Manifest) -> None:
    """Raise an error if a run is of other clips than the manifest says."""
    # NumPy is not loaded for the help of commands.
    from obygaze_features.manifest.clip_facts import ClipFacts, require_same_shared

    film_of = run.film_of_clip
    require_same_shared(
        ClipFacts.of_clips(manifest.clips),
        ClipFacts.of(film_of, film_of.values()),
        (f"the manifest {manifest.name}", f"the run {run.folder.name}"),
        where=manifest.name,
        hint="view with what was made of this manifest",
    )


def _options_of_site(function: F) -> F:
    """Add the parameters of `open_site` to a command."""
    # Click reads them from the last to the first.
    added = reversed(parameters_of(open_site))
    vars(function).setdefault("__click_params__", []).extend(added)
    return function


@command(open_site)
@_options_of_site
@click.option(
    "--export",
    "folder",
    type=TypedPath(file_okay=False, path_type=Path),
    help="Write the page as files, without videos and pictures, and end.",
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
def view(
    session: Session,
    /,
    folder: Path | None,
    no_browser: bool,
    **inputs: Any,
) -> None:
    """Watch films, look at clips and scores, and mark segments, in the browser.

    The page is served on this machine only, until Ctrl-C. It changes nothing without --annotate.

    Examples:
        obygaze view films --run honest
        obygaze view ~/Videos/films --annotate ada
        obygaze view films --model my-bottleneck --store films.xclip
        obygaze view films --annotate ada --blind
        obygaze view films --run honest --export page
        obygaze view new --scores scores.csv
    """
    from obygaze.films.page.export import export_page
    from obygaze.films.page.routes import server_of

    console = session.console
    site = open_site(**inputs, note=console.note, workspace=session.workspace.root)
    if site.marks is not None and not site.has_concepts:
        console.note(f"{site.manifest.name} has no concepts: marks have levels only")
    if folder is not None:
        export_page(site, folder)
        index = str(folder / "index.html")
        console.show({"page": index}, index)
        return
    with server_of(site, usual_port(session.workspace.root)) as server:
        address = server.new_address()
        console.show({"address": address}, address)
        try:
            if no_browser:
                server.serve_forever()
            with leading_page(server.new_address(), session.workspace.root) as page:
                webbrowser.open(page.as_uri())
                server.serve_forever()
        except KeyboardInterrupt:
            console.note("stopped")


def usual_port(folder: Path) -> int:
    """Return the port of a folder, always the same, so that open windows find a new server.

    It is below those that Linux gives to other programs.
    """
    digest = sha256_bytes(str(folder.absolute()).encode("utf-8", "surrogateescape"))
    return 20000 + int(digest[:8], 16) % 10000


@contextmanager
def leading_page(address: str, folder: Path) -> Iterator[Path]:
    """Write a page, for this user only, that leads the browser to an address, and remove it.

    An address in the command of a browser could be read by all users in the list of processes. The
    folder should be one that a browser in a sandbox may read; without the right to write there, the
    page is in the folder for temporary files.
    """
    text = (
        '<!doctype html><meta charset="utf-8"><title>obygaze</title>'
        f'<meta http-equiv="refresh" content="0; url={escape(address)}">'
    )
    remove_leftovers(folder / "view")
    try:
        page = hidden_name(folder / "view").with_suffix(".tmp.html")
        number = os.open(page, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError:
        number, name = mkstemp(prefix="obygaze-view-", suffix=".html")
        page = Path(name)
    page = page.absolute()
    try:
        with open(number, "w", encoding="utf-8") as file:  # noqa: PTH123 - it is open
            file.write(text)
        yield page
    finally:
        page.unlink(missing_ok=True)
