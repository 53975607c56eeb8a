"""What the commands of stores that are written by hand share."""

import click

from obygaze_features.core.commands import Session
from obygaze_features.store.read.reader import Store, open_store

expect_option = click.option(
    "--expect", metavar="SHA256", help="The sha256 of its seal, from its publisher."
)


def open_named(session: Session, name: str) -> Store:
    """Return the store of a bare name, path or URL."""
    return open_store(session.workspace.existing_store(name))
