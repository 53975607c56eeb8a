"""`obygaze view`: the film page in the browser, written as files, or its agreement printed."""

import webbrowser
from pathlib import Path
from typing import Any

import click

from obygaze_features.core.commands import Session, command, option_group
from obygaze_features.core.console import table
from obygaze_features.core.errors import FixUsage

file_type = click.Path(exists=True, dir_okay=False, path_type=Path)


@command()
@click.argument("manifest", required=False)
@click.option("--run", help="Show the out-of-fold scores of this run.")
@click.option("--store", help="Features, to find clips. [default: the run's]")
@click.option(
    "--weights", help="Weights of the text tower. [default: the backbone's own]"
)
@click.option("--model", help="Explain the decisions of this saved bottleneck.")
@click.option(
    "--maps", metavar="STORE", help="Show these maps of `explain` with each clip."
)
@click.option("--segments", type=file_type, help="Show the segments of this CSV, too.")
@option_group(
    "Annotate",
    click.option(
        "--annotate", metavar="NAME", help="Mark segments, saved under this name."
    ),
    click.option(
        "--blind", is_flag=True, help="Show no predictions and no marks of others."
    ),
)
@option_group(
    "Output",
    click.option(
        "--proxy", is_flag=True, help="First copy the videos that browsers do not play."
    ),
    click.option(
        "--export",
        "folder",
        type=click.Path(file_okay=False, path_type=Path),
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
)
def view(
    session: Session,
    /,
    proxy: bool,
    folder: Path | None,
    thumbnails: bool,
    agreement: bool,
    no_browser: bool,
    **inputs: Any,
) -> None:
    """Watch films, look at clips and scores, and mark segments, in the browser.

    The page is served on this machine only, until Ctrl-C. It changes nothing without --annotate.

    Examples:
        obygaze view films --run honest
        obygaze view films --model my-bottleneck --store films.xclip --maps concept-maps
        obygaze view films --annotate ada --blind
        obygaze view films --run honest --agreement
        obygaze view films --run honest --export page --thumbnails
    """
    from obygaze.extensions.annotate.app import export, server_of
    from obygaze.extensions.annotate.site import open_site

    if thumbnails and folder is None:
        raise FixUsage("--thumbnails needs --export", hint="--export DIR with it")
    site = open_site(**inputs, workspace=session.workspace.root)
    if agreement:
        found = site.agreement()
        rows = [list(row.values()) for row in found]
        headers = (
            "annotator",
            "arm",
            "marks",
            "watched",
            "clips",
            "agreement",
            "kappa",
        )
        text = (
            table(headers, rows)
            if rows
            else "no marks yet: obygaze view --annotate NAME"
        )
        session.console.show({"agreement": found}, text)
        return
    if proxy:
        site.media.make_proxies(session.console.progress)
    if folder is not None:
        export(site, folder, thumbnails=thumbnails)
        session.console.show(
            {"page": str(folder / "index.html")}, f"{folder / 'index.html'}"
        )
        return
    with server_of(site) as server:
        session.console.show({"address": server.address}, server.address)
        if not no_browser:
            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            session.console.note("stopped")
