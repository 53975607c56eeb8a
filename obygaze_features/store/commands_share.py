"""`obygaze store pack`, `unpack`, `push`, `pull`: stores on their way to other people."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click

from obygaze_features.core.commands import (
    ExampleCommand,
    Session,
    force_option,
    json_option,
    pass_session,
)
from obygaze_features.core.console import human
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.workspace import is_url
from obygaze_features.store.remote.fetch import fetch, select_packed, unpack
from obygaze_features.store.remote.selection import Transferred, select_files
from obygaze_features.store.remote.send import send, write_pack

F = TypeVar("F", bound=Callable[..., Any])


def _part_options(function: F) -> F:
    """--level and --movie: which part of a store is wanted."""
    movie = click.option(
        "--movie", "movies", multiple=True, help="Only the blocks of this film; repeatable."
    )
    level = click.option(
        "--level", "levels", multiple=True, help="Only this array; repeatable. [default: all]"
    )
    return level(movie(function))


@click.command(
    "pack",
    cls=ExampleCommand,
    examples="""
    obygaze store pack obygaze12-xclip
    obygaze store pack obygaze12-xclip -o /media/stick/xclip.zip
    """,
)
@click.argument("name")
@click.option("-o", "output", help="The zip file. [default: NAME.zip in the current folder]")
@force_option
@json_option
@pass_session
def pack_(session: Session, name: str, output: str | None, force: bool, as_json: bool) -> None:
    """Put a store into one zip file.

    Every byte is checked on the way. The same store always gives the same bytes, and the zip can
    be read without unpacking it.
    """
    selection = select_files(session.workspace.store(name))
    path = Path(output or f"{Path(name.rstrip('/')).name.removesuffix('.zip')}.zip")
    with session.console.progress("pack", selection.n_bytes, "B") as progress:
        packed = write_pack(selection, path, force=force, progress=progress)
    if as_json:
        session.console.json({**asdict(packed), "path": str(packed.path)})
        return
    if not packed.sealed:
        session.console.warn("this store is not sealed: the zip holds what is committed so far")
    session.console.result(
        f"{packed.path}: {packed.n_files} files, {human(packed.n_bytes)}, sha256 {packed.sha256}"
    )


@click.command(
    "unpack",
    cls=ExampleCommand,
    examples="""
    obygaze store unpack xclip.zip
    obygaze store unpack xclip.zip -o films-xclip
    """,
)
@click.argument("packed", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "output", help="The new store: a name or a folder. [default: the zip's name]")
@json_option
@pass_session
def unpack_(session: Session, packed: Path, output: str | None, as_json: bool) -> None:
    """Make a store of a packed one.

    Nothing in the zip is believed before it is checked.
    """
    target = session.workspace.new_store(output or packed.stem)
    with session.console.progress("unpack", select_packed(packed).n_bytes_files, "B") as progress:
        _tell(session, unpack(packed, target, progress=progress), as_json)


@click.command(
    "pull",
    cls=ExampleCommand,
    examples="""
    obygaze store pull https://example.org/features/xclip
    obygaze store pull hf://lab/obygaze12-xclip --level pooled -o pooled-only
    obygaze store pull s3://films/xclip --movie tt0108160 --level frames
    """,
)
@click.argument("source")
@click.option("-o", "output", help="The new store: a name or a folder. [default: the last word]")
@_part_options
@json_option
@pass_session
def pull_(
    session: Session,
    source: str,
    output: str | None,
    levels: tuple[str, ...],
    movies: tuple[str, ...],
    as_json: bool,
) -> None:
    """Fetch a store, or a part of it.

    From a web server, a bucket, the hub or a folder. What was interrupted goes on with the same
    command, and every file is checked as it arrives. A part can grow: pull more of the same store
    into the same folder.
    """
    target = session.workspace.new_store(output or _last_word(source))
    place = source if is_url(source) else session.workspace.store(source)
    selection = select_files(place, levels or None, movies or None)
    with session.console.progress("pull", selection.n_bytes_files, "B") as progress:
        _tell(session, fetch(selection, target, progress), as_json)


@click.command(
    "push",
    cls=ExampleCommand,
    examples="""
    obygaze store push obygaze12-xclip s3://films/xclip
    obygaze store push obygaze12-xclip hf://lab/obygaze12-xclip --level pooled --level clip
    obygaze store push obygaze12-xclip /mnt/lab/xclip
    """,
)
@click.argument("name")
@click.argument("target")
@_part_options
@json_option
@pass_session
def push_(
    session: Session,
    name: str,
    target: str,
    levels: tuple[str, ...],
    movies: tuple[str, ...],
    as_json: bool,
) -> None:
    """Send a store to a bucket, the hub or a folder.

    Or a part of it. What is there already is not sent again. A bucket's keys come from the AWS_*
    variables, the hub's token from `hf auth login`; a new repository on the hub is private.
    """
    selection = select_files(session.workspace.store(name), levels or None, movies or None)
    with session.console.progress("push", selection.n_bytes, "B") as progress:
        _tell(session, send(selection, target, progress), as_json)


def _last_word(source: str) -> str:
    word = source.partition("@")[0].rstrip("/").rpartition("/")[2].removesuffix(".zip")
    if not word or word in (".", ".."):
        raise FixUsage(f"{source!r} has no name of its own", hint="-o NAME")
    return word


def _tell(session: Session, done: Transferred, as_json: bool) -> None:
    if as_json:
        session.console.json(asdict(done))
        return
    if done.partial:
        session.console.note("this copy is partial: what was not fetched is missing in it")
    session.console.result(f"{done.target}: {done.line}")
