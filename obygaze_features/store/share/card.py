"""`obygaze store card`: the card of a store, and its Croissant metadata."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from obygaze_features.core.files import write_new
from obygaze_features.core.options import Option
from obygaze_features.core.own_results import OwnFolder, check_file
from obygaze_features.core.workspace import PathLike, is_url
from obygaze_features.store.read.describe import card_text
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.share.publication import (
    croissant as croissant_of,
)
from obygaze_features.store.share.publication import (
    publication_of,
)

SCHEMA = rb"(?s)\A{.{0,9999}mlcommons\.org/croissant/1\.1"
CROISSANT = OwnFolder.marked("Croissant document", "the schema", SCHEMA)


@dataclass(frozen=True)
class StoreCard:
    """The card of a store in Markdown; `croissant` is the file of metadata that was written."""

    name: str
    text: str
    croissant: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the name of the store, and the card."""
        return {"name": self.name, "card": self.text}

    def __str__(self) -> str:
        return self.text.rstrip()

    @property
    def notes(self) -> list[str]:
        """The file that was written."""
        return [] if self.croissant is None else [f"written to {self.croissant}"]


def describe_store(
    store: PathLike | Store,
    *,
    croissant: Annotated[PathLike | None, Option(is_file=True)] = None,
    force: bool = False,
    workspace: PathLike | None = None,
) -> StoreCard:
    """Print the card of a store, as the hub shows it.

    The card describes the store, how it was made, its licence, and what is not inside.

    Args:
        store: The store.
        croissant: Write it as Croissant metadata too.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store card obygaze12-xclip
        obygaze store card obygaze12-xclip --croissant croissant.json > CARD.md
    """
    opened = open_store(store, workspace=workspace)
    packed = None
    if opened.location.endswith(".zip") and not is_url(opened.location):
        packed = Path(opened.location)
    text = card_text(
        opened.plan,
        opened.status().counts,
        terms=opened.terms,
        made_by=opened.commits.made_by(),
        zip_name=packed.name if packed else "",
        seal_sha256=opened.seal_sha256,
        version=opened.version,
    )
    name = opened.location if isinstance(store, Store) else os.fspath(store)
    if croissant is None:
        return StoreCard(name, text)
    path = Path(croissant)
    if force:
        check_file(path, force=True, expected=CROISSANT)
    publication = publication_of(opened)
    write_new(path, croissant_of(opened, publication, packed), force=force)
    return StoreCard(name, text, path)
