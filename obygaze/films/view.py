"""`obygaze view`: the film page in the browser, written as files, or its agreement printed.

What the page shows is described by `open_site` alone; the command adds what to do with the page.
"""

from __future__ import annotations

import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from html import escape
from pathlib import Path
from tempfile import mkstemp
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import click

from obygaze_features.core.commands import Session, command, option_group
from obygaze_features.core.console import table
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.files import sha256_bytes
from obygaze_features.core.function_commands import parameters_of
from obygaze_features.core.options import Option
from obygaze_features.core.value_types import TypedPath
from obygaze_features.core.workspace import PathLike, Workspace

if TYPE_CHECKING:
    from obygaze.films.site import Site
    from obygaze_features.store import Store
    from obygaze_models.report.lookup import ReportRun

F = TypeVar("F", bound=Callable[..., Any])


def open_site(
    manifest: PathLike | None = None,
    *,
    run: PathLike | None = None,
    store: Annotated[PathLike | None, Option(shown_default="the run's")] = None,
    weights: Annotated[str | None, Option(shown_default="the backbone's own")] = None,
    model: PathLike | None = None,
    maps: Annotated[PathLike | None, Option(metavar="STORE")] = None,
    segments: Annotated[PathLike | None, Option(exists="file")] = None,
    lane: Annotated[
        PathLike | Sequence[PathLike],
        Option(metavar="FILE", is_repeated=True, exists="file"),
    ] = (),
    annotate: Annotated[str | None, Option(metavar="NAME", group="Annotate")] = None,
    blind: Annotated[bool, Option(group="Annotate")] = False,
    queue: Annotated[
        str | Sequence[str],
        Option(metavar="ORDER", is_repeated=True, group="Annotate"),
    ] = (),
    suggest: Annotated[
        str | None,
        Option(
            metavar="MODEL",
            group="Annotate",
            shown_default="the protocol's first question",
        ),
    ] = None,
    workspace: PathLike | None = None,
) -> Site:
    """Return the page of a manifest, for `server_of` or `export`.

    Args:
        manifest: The clips, or a link to a place (obygaze:...). The default is those of the run, or
            the only manifest of the workspace.
        run: Show the out-of-fold scores of this run.
        store: Features, to find clips.
        weights: Weights of the text tower.
        model: Explain the decisions of this saved bottleneck.
        maps: Show these maps of `explain` with each clip.
        segments: Show the segments of this CSV, too.
        lane: Show the columns of numbers of this table on the time line: CSV or .xlsx.
        annotate: Mark segments, saved under this name.
        blind: Show no predictions and no marks of others.
        queue: Judge clips one by one: random, uncertain, disagreed, diverse, or several of these.
        suggest: --queue: the model of --run whose decisions are shown for a random half.
        workspace: The workspace, if it is not the current one.
    """
    from obygaze.films.labels import table_names
    from obygaze.films.links import is_link, read_link
    from obygaze.films.marks import MarkTable
    from obygaze.films.queue import ORDERS
    from obygaze.films.site import Site
    from obygaze.films.site_queue import queue_of
    from obygaze_models.protocols import read_run
    from obygaze_models.protocols.experiments import named_manifest
    from obygaze_models.report.lookup import ReportRun

    if is_link(manifest):
        manifest = read_link(str(manifest)).manifest
    orders = [queue] if isinstance(queue, str) else list(queue)
    unknown = sorted(set(orders) - set(ORDERS))
    if unknown:
        raise FixUsage(
            f"--queue must be one of {', '.join(ORDERS)}, got {unknown[0]!r}"
        )
    if orders and annotate is None:
        raise FixUsage("--queue needs --annotate", hint="--annotate NAME with it")
    if suggest is not None and not orders:
        raise FixUsage("--suggest needs --queue", hint="--queue random with it")
    opened_workspace = Workspace.of(workspace)
    scored = None
    if run:
        scored = ReportRun.of_run(read_run(run, workspace=workspace))
    if manifest is None and scored:
        named = scored.about["manifest"]
        is_here = named["name"] in opened_workspace.names("manifests")
        manifest = named["name"] if is_here else named["path"]
    clips, _ = named_manifest(manifest, workspace)
    marks = None
    if annotate is not None:
        path = opened_workspace.folder("segments") / f"{clips.name}.{annotate}.csv"
        arm = "blind" if blind else "assisted"
        concepts = tuple(clips.header.concepts)
        marks = MarkTable(path, annotate, arm, clips.films, concepts)
    site = Site(opened_workspace, clips, marks=marks, blind=blind)
    if blind and not orders:
        return site
    used: PathLike | Store | None = store
    if store is None and scored:
        used = _store_of(scored, opened_workspace)
    complete = _with_predictions(
        site,
        scored,
        store=used,
        weights=weights,
        model=model,
        maps=maps,
        segments=segments,
        lanes=[Path(name) for name in table_names(lane)],
    )
    if not orders:
        return complete
    drawn = queue_of(complete, orders, suggest)
    return replace(site, blind=True, queue=drawn)


def _with_predictions(
    site: Site,
    run: ReportRun | None,
    *,
    store: PathLike | Store | None,
    weights: str | None,
    model: PathLike | None,
    maps: PathLike | None,
    segments: PathLike | None,
    lanes: Sequence[Path],
) -> Site:
    """Return a page with what models, maps and other annotators say of its clips."""
    from obygaze.films.decisions import Explainer
    from obygaze.films.mark_tables import read_segments
    from obygaze.maps.stores import map_names
    from obygaze_features.store import open_store
    from obygaze_models.models.bottleneck import Bottleneck
    from obygaze_models.zoo import load_model

    root = site.workspace.root
    saved = load_model(model, workspace=root) if model else None
    features = open_store(store, workspace=root) if store else None
    explainer = None
    if saved:
        if not features or not isinstance(saved.estimator, Bottleneck):
            kind = f"--model {saved.info.name} ({saved.info.kind})"
            raise FixUsage(
                f"{kind} must be a bottleneck, with --store",
                hint="a model of obygaze train pcbm-lr, and the store of its features",
            )
        explainer = Explainer(saved, features, site.manifest)
    if lanes:
        site = site.with_lanes(lanes)
    drawn = open_store(maps, workspace=root) if maps else None
    if drawn:
        map_names(drawn)  # raises an error for another kind of store
    return replace(
        site,
        run=run,
        store=features,
        explainer=explainer,
        maps=drawn,
        weights=weights,
        segments=read_segments(Path(segments)) if segments else (),
    )


def _store_of(run: ReportRun, workspace: Workspace) -> Store | None:
    """Return the store of a run's first cell, by its seal; None if the workspace has it no more."""
    from obygaze.films.decisions import cells_of
    from obygaze_features.store.reading import find_seal

    stores = run.about["stores"]
    # Cells whose store was chosen in each fold have no single one.
    used = [stores[cell.feature] for cell in cells_of(run) if cell.feature in stores]
    if not used:
        return None
    name = Path(used[0]["location"]).name
    return find_seal(workspace.root, name, used[0]["seal"])


def _options_of_site(function: F) -> F:
    """Add the parameters of `open_site` to a command."""
    # Click reads them from the last to the first.
    added = reversed(parameters_of(open_site))
    vars(function).setdefault("__click_params__", []).extend(added)
    return function


@command(open_site)
@_options_of_site
@option_group(
    "Output",
    click.option(
        "--proxy", is_flag=True, help="First copy the videos that browsers do not play."
    ),
    click.option(
        "--export",
        "folder",
        type=TypedPath(file_okay=False, path_type=Path),
        help="Write the page as files, without videos, and end.",
    ),
    click.option(
        "--thumbnails",
        is_flag=True,
        help="--export: with a small picture of each clip.",
    ),
    click.option(
        "--agreement", is_flag=True, help="Only print how annotators and model agree."
    ),
    click.option("--no-browser", is_flag=True, help="Only print the address."),
    click.option(
        "--port",
        type=click.IntRange(1024, 65535),
        help="Serve the page at this port.",
        show_default="the usual one of the workspace, if it is free",
    ),
)
def view(
    session: Session,
    /,
    proxy: bool,
    folder: Path | None,
    thumbnails: bool,
    agreement: bool,
    no_browser: bool,
    port: int | None,
    **inputs: Any,
) -> None:
    """Watch films, look at clips and scores, and mark segments, in the browser.

    The page is served on this machine only, until Ctrl-C. It changes nothing without --annotate.

    Examples:
        obygaze view films --run honest
        obygaze view films --model my-bottleneck --store films.xclip --maps concept-maps
        obygaze view "obygaze:films#film=lake&t=12.04"
        obygaze view films --annotate ada --blind
        obygaze view films --annotate ada --run honest --queue random --queue uncertain
        obygaze view films --run honest --agreement
        obygaze view films --run honest --export page --thumbnails
    """
    from obygaze.films.app import export, server_of
    from obygaze.films.links import data_of, is_link, read_link

    if thumbnails and folder is None:
        raise FixUsage("--thumbnails needs --export", hint="--export DIR with it")
    fragment = ""
    site = open_site(**inputs, workspace=session.workspace.root)
    if is_link(inputs["manifest"]):
        link = read_link(inputs["manifest"])
        fragment = link.fragment
        if link.data and link.data != data_of(site.manifest):
            session.console.warn(
                f"the link was made with other data: the manifest {link.manifest} is not the same"
            )
        problem = site.problem_of_place(link.place)
        if problem:
            session.console.warn(f"the link leads nowhere: {problem}")
    if agreement:
        documents, text = agreement_texts(site)
        for note in documents["left_out"]:
            session.console.warn(note)
        session.console.show(documents, text)
        return
    if site.marks is not None and not site.has_concepts:
        session.console.note(
            f"{site.manifest.name} has no concepts: the page Vocabulary adds those of the papers,"
            " or your own"
        )
    if proxy:
        site.media.make_proxies(session.console.progress)
    if folder is not None:
        export(site, folder, thumbnails=thumbnails)
        session.console.show(
            {"page": str(folder / "index.html")}, f"{folder / 'index.html'}"
        )
        return
    ports = (port,) if port else (usual_port(session.workspace.root), 0)
    with server_of(site, ports) as server, ExitStack() as opened:
        address = server.new_address() + fragment
        session.console.show({"address": address}, address)
        if not no_browser:
            root = session.workspace.root
            page = opened.enter_context(
                leading_page(server.new_address() + fragment, root)
            )
            webbrowser.open(page.as_uri())
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            session.console.note("stopped")


def usual_port(folder: Path) -> int:
    """Return the port of a folder, always the same, so that open windows find a new server.

    It is below those that Linux gives to other programs.
    """
    digest = sha256_bytes(str(folder.absolute()).encode("utf-8", "surrogateescape"))
    return 20000 + int(digest[:8], 16) % 10000


def agreement_texts(site: Site) -> tuple[dict[str, Any], str]:
    """Return how annotators and models agree, and what the arms of queues show, also as text.

    Without a run only the arms are known.
    """
    from obygaze.films.arms import anchoring_rows, arms_rows

    arms = site.arms()
    left_out: list[str] = []
    documents: dict[str, Any] = {"agreement": [], "left_out": left_out}
    texts = []
    if site.run is not None or not arms["labels"]:
        documents["agreement"] = site.agreement(left_out)
    if documents["agreement"]:
        rows = [list(row.values()) for row in documents["agreement"]]
        headers = ("annotator", "arm", "marks", "watched", "model", "clips")
        texts.append(table((*headers, "agreement", "kappa"), rows))
    if arms["labels"]:
        documents["arms"] = arms
        texts.append(table(*arms_rows(arms["labels"])))
    if arms["anchoring"]:
        texts.append(table(*anchoring_rows(arms["anchoring"])))
    return documents, "\n\n".join(texts) or "no marks yet: obygaze view --annotate NAME"


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
    try:
        number, name = mkstemp(prefix=".view-", suffix=".html", dir=folder)
    except OSError:
        number, name = mkstemp(prefix="obygaze-view-", suffix=".html")
    page = Path(name).absolute()
    try:
        with open(number, "w", encoding="utf-8") as file:  # noqa: PTH123 - it is open
            file.write(text)
        yield page
    finally:
        page.unlink(missing_ok=True)
