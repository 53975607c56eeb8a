"""`obygaze store publish` and `obygaze store card`."""

from pathlib import Path

import click

from obygaze.extensions.share.publication import (
    croissant,
    publication_of,
    publish,
    read_recovered,
)
from obygaze_features.core.commands import Session, command, force_option
from obygaze_features.core.console import human
from obygaze_features.core.drafts import OwnFolder, check_file
from obygaze_features.core.files import write_new
from obygaze_features.core.workspace import is_url
from obygaze_features.store import open_store
from obygaze_features.store.read.describe import card_text

FILE = click.Path(dir_okay=False, path_type=Path)
SCHEMA = rb"(?s)\A{.{0,9999}mlcommons\.org/croissant/1\.1"
CROISSANT = OwnFolder.marked("Croissant document", "the schema", SCHEMA)
recovered_option = click.option(
    "--recovered",
    type=FILE,
    help="What can be recovered: a document of `audit pixels`.",
)


@command("publish")
@click.argument("name")
@click.option(
    "--to", "target", required=True, help="hf://OWNER/NAME, or a folder for Zenodo."
)
@click.option(
    "--creator", "creators", multiple=True, required=True, help="Who; repeatable."
)
@recovered_option
@click.option("--no-licence", is_flag=True, help="Also if the store states no licence.")
def publish_(
    session: Session,
    name: str,
    target: str,
    creators: tuple[str, ...],
    recovered: Path | None,
    no_licence: bool,
) -> None:
    """Publish a store with its card and metadata.

    On the hub, as a data set; a new one is private. Or in a new folder whose files are a record
    of Zenodo. The metadata are croissant.json, CITATION.cff and, in a folder, .zenodo.json. The
    same command again resumes. A creator is "Family, Given", or the name of an institution. A store
    without a licence is refused: `obygaze store licence` states it.

    Examples:
        obygaze store publish obygaze12-xclip --to hf://lab/obygaze12-xclip --creator "Doe, Jane"
        obygaze store publish obygaze12-xclip --to zenodo/xclip --creator "Doe, Jane"
    """
    store = open_store(name, workspace=session.workspace.root)
    measured = read_recovered(recovered, store) if recovered else ()
    with session.console.progress("publish") as progress:
        files = publish(
            store,
            target,
            creators,
            recovered=measured,
            no_licence=no_licence,
            progress=progress,
        )
    lines = [
        f"{target}:",
        *(f"{file}  {human(n_bytes)}" for file, n_bytes in files.items()),
    ]
    session.console.show({"target": target, "files": files}, "\n".join(lines))


@command()
@click.argument("name")
@click.option(
    "--croissant", "path", type=FILE, help="Write it as Croissant metadata too."
)
@recovered_option
@force_option
def card(
    session: Session, name: str, recovered: Path | None, force: bool, path: Path | None
) -> None:
    """Print the card of a store, as the hub shows it.

    The card describes the store, how it was made, its licence, and what is not inside.

    Examples:
        obygaze store card obygaze12-xclip
        obygaze store card obygaze12-xclip --croissant croissant.json > CARD.md
    """
    found = open_store(name, workspace=session.workspace.root)
    is_zip = found.location.endswith(".zip") and not is_url(found.location)
    packed = Path(found.location) if is_zip else None
    said = read_recovered(recovered, found) if recovered else ()
    zip_name = packed.name if packed else ""
    text = card_text(
        found.plan,
        found.status().counts,
        terms=found.terms,
        made_by=found.commits.made_by(),
        recovered=said,
        zip_name=zip_name,
        seal_sha256=found.seal_sha256,
    )
    session.console.show({"name": name, "card": text}, text.rstrip())
    if path is not None:
        if force:
            check_file(path, force=True, own=CROISSANT)
        facts = publication_of(found, recovered=said)
        write_new(path, croissant(found, facts, packed), force=force)
        session.console.note(f"written to {path}")
