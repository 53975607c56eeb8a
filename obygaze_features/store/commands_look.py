"""`obygaze store ls`, `info`, `card`: what stores there are, and what one is."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import click

from obygaze_features.core.commands import (
    ExampleCommand,
    Session,
    force_option,
    json_option,
    pass_session,
)
from obygaze_features.core.console import human, table
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.files import write_new
from obygaze_features.store.read.describe import card_text, describe, summary
from obygaze_features.store.read.reader import Store, open_store

# Backbones know stores, never the other way round; the cards are asked by name.
NOTE = "obygaze_features.backbones.hub_processor:recipe_note"


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze store ls
    obygaze -C /data/films store ls --json
    """,
)
@json_option
@pass_session
def ls(session: Session, as_json: bool) -> None:
    """List the stores of the workspace."""
    rows, broken = [], []
    for name in store_names(session):
        try:
            rows.append({"name": name, **summary(open_named(session, name))})
        except (ObygazeError, OSError) as error:
            broken.append(name)
            words = error.what if isinstance(error, ObygazeError) else error.strerror
            session.console.warn(f"{name}: {words} (obygaze store verify {name})")
    if as_json:
        session.console.json({"stores": rows, "broken": broken})
    elif rows:
        headers = ("name", "backbone", "clips", "ok", "levels", "state", "size")
        session.console.result(table(headers, [_line(row) for row in rows]))
    elif not broken:
        folder = session.workspace.folder("stores")
        session.console.note(f"no stores in {folder} yet; obygaze extract run --help")


def _line(row: dict[str, Any]) -> list[object]:
    return [
        row["name"],
        row["backbone"],
        row["n_clips"],
        row["counts"]["ok"],
        " ".join(row["levels"]),
        row["state"],
        human(row["n_bytes"]),
    ]


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze store info obygaze12-xclip
    obygaze store info https://example.org/stores/obygaze12-xclip --json
    """,
)
@click.argument("name")
@json_option
@pass_session
def info(session: Session, name: str, as_json: bool) -> None:
    """Explain what a store holds and how it was made.

    NAME is a store of the workspace, a folder, a packed zip or a URL. Only small files are read.
    """
    found = open_named(session, name)
    note = _note(session, found)
    if as_json:
        facts = {**summary(found), "note": note, "recipe": found.recipe.to_dict()}
        session.console.json({"name": name, **facts})
    else:
        session.console.result(describe(found, note))


def _note(session: Session, store: Store) -> str:
    """How the preset of the store's backbone differs from the hub's processor, if it does."""
    module, attribute = NOTE.split(":")
    note: str = getattr(import_module(module), attribute)(store.recipe.to_dict(), session.workspace)
    return note


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze store card obygaze12-xclip
    obygaze store card obygaze12-xclip -o README.md
    """,
)
@click.argument("name")
@click.option("-o", "output", type=click.Path(path_type=Path), help="Write it to this file.")
@force_option
@json_option
@pass_session
def card(session: Session, name: str, output: Path | None, force: bool, as_json: bool) -> None:
    """Print the card of a store, as the hub shows it.

    It says what the store is, how it was made, under which licence, and what is not inside.
    """
    found = open_named(session, name)
    text = card_text(found.plan, found.status().counts)
    if output is not None:
        write_new(output, text.encode("utf-8"), force=force)
        session.console.note(f"written to {output}")
    elif as_json:
        session.console.json({"name": name, "card": text})
    else:
        session.console.result(text.rstrip())


def store_names(session: Session) -> list[str]:
    """The stores of the workspace by bare name: folders with a store.json, and packed zips."""
    folder = session.workspace.folder("stores")
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    found = [path for path in found if not path.name.startswith(".")]
    folders = {path.name for path in found if (path / "store.json").is_file()}
    packed = {path.stem for path in found if path.suffix == ".zip" and path.is_file()}
    return sorted(folders | packed)


def open_named(session: Session, name: str) -> Store:
    """The store of a bare name, path or URL."""
    return open_store(session.workspace.store(name))
