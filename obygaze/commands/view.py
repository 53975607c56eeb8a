"""The command `obygaze view`."""

import click

from obygaze.commands.shared import NAME, Command, Result, Session


@click.command("view", cls=Command)
@click.argument("manifest", type=NAME, help="The clips.")
@click.argument("film", required=False, help="Write only the page of this film.")
@click.option("--run", type=NAME, help="Show the out-of-fold scores of this run.")
@click.option(
    "--scores",
    metavar="PATH",
    type=NAME,
    help="Show the scores of a saved model, from this table of models predict -o.",
)
@click.option(
    "-o",
    "--output",
    metavar="FOLDER",
    type=NAME,
    help="The folder of the pages, instead of pages/MANIFEST.",
)
@click.option("--no-browser", is_flag=True, help="Only write the pages.")
@click.pass_obj
def view(
    session: Session,
    manifest: str,
    film: str | None,
    run: str | None,
    scores: str | None,
    output: str | None,
    no_browser: bool,
) -> Result:
    """Watch films with their labels and scores.

    Each film gets a page, which opens in the browser.

    The page is pages/MANIFEST/FILM.html. It needs no server and loads nothing from the network. It
    plays the linked video of the film; if browsers do not play this video, it shows a picture of
    each clip. It also shows the marks of the tables in segments/.

    Examples:
        obygaze view films --run honest
        obygaze view films lake
        obygaze view new --scores scores.csv -o shown --no-browser
    """
    from obygaze.films.page.view import view

    pages = view(
        manifest,
        film=film,
        run=run,
        scores=scores,
        output=output,
        workspace=session.root,
    )
    return pages.opened(no_browser=no_browser)
