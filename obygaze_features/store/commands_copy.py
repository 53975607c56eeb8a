"""`obygaze store pack`, `unpack`, `pull`, `push`: stores made of others."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from obygaze_features.core.commands import Session, command, force_option, option_group
from obygaze_features.core.console import human
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.workspace import is_url, last_part
from obygaze_features.store.commands_look import (
    expect_option,
    open_named,
)
from obygaze_features.store.read.reader import Store
from obygaze_features.store.remote import split_expected
from obygaze_features.store.remote.fetch import pull, unpack
from obygaze_features.store.remote.selection import Transferred
from obygaze_features.store.remote.send import pack, push

UNSEALED = (
    "this store is not sealed: the zip holds what is committed so far; extract run --seal seals a "
    "store with failed clips"
)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


# A repeatable option; None stands for all.
_repeated = partial(
    click.option, multiple=True, callback=lambda ctx, param, chosen: chosen or None
)


_selection_options = option_group(
    "Options",
    _repeated("--level", "levels", help="Only this level; repeatable. [default: all]"),
    _repeated("--movie", "movies", help="Only the clips of this film; repeatable."),
)


@command("pack")
@click.argument("name")
@click.option(
    "-o", "output", help="The zip file. [default: NAME.zip in the current folder]"
)
@force_option
def pack_(session: Session, name: str, output: str | None, force: bool) -> None:
    """Put a store into one zip file.

    Every byte is checked on the way. The same store always gives the same bytes, and the zip can
    be read without unpacking it.

    Examples:
        obygaze store pack obygaze12-xclip
        obygaze store pack obygaze12-xclip -o /media/stick/xclip.zip
    """
    store = open_named(session, name)
    path = Path(output or f"{_name_of(store)}.zip")
    with session.console.progress("pack") as progress:
        packed = pack(store, path, force=force, progress=progress)
    if not packed.sealed:
        session.console.warn(UNSEALED)
    size = f"{packed.n_files} files, {human(packed.n_bytes)}"
    text = f"{packed.path}: {size}, sha256 {packed.sha256}"
    session.console.show({**asdict(packed), "path": str(packed.path)}, text)


def _name_of(store: Store) -> str:
    """Return the last part of where a store is, also if that is `.` or `..`."""
    place = (
        store.location
        if is_url(store.location)
        else str(Path(store.location).resolve())
    )
    return last_part(place).removesuffix(".zip")


@command("unpack")
@click.argument("packed", type=FILE)
@click.option(
    "-o", "output", help="The new store: a name or a folder. [default: the zip's name]"
)
@expect_option
def unpack_(
    session: Session, packed: Path, output: str | None, expect: str | None
) -> None:
    """Make a store of a packed one.

    Every file is checked before it is used.

    Examples:
        obygaze store unpack xclip.zip
        obygaze store unpack xclip.zip -o films-xclip
    """
    new_name = packed.stem if output is None else output
    target = session.workspace.new_store(new_name)
    _transfer(session, "unpack", partial(unpack, packed, target, expect=expect))


@command("pull")
@click.argument("source")
@click.option(
    "-o", "output", help="The new store: a name or a folder. [default: the last word]"
)
@_selection_options
@expect_option
def pull_(session: Session, source: str, output: str | None, **chosen: Any) -> None:
    """Fetch a store, or a part of it.

    From a web server, a bucket, the hub or a folder. The same command again continues an
    interrupted transfer, and every file is checked as it arrives. A part is a store of its own: of
    --level with these levels, of --movie with the clips of these films. It does not grow;
    `obygaze store merge` joins several of films.

    Whoever can change the files at an address can make another store of them. #sha256=... at its
    end, or --expect, refuses any but the store whose seal has that sha256.

    Examples:
        obygaze store pull https://example.org/features/xclip
        obygaze store pull https://example.org/features/xclip#sha256=5f0c...
        obygaze store pull hf://lab/obygaze12-xclip --level pooled -o pooled-only
        obygaze store pull s3://films/xclip --movie tt0108160 --level frames
    """
    name, sha256 = split_expected(source, chosen.pop("expect"))
    new_name = _last_word(name) if output is None else output
    target = session.workspace.new_store(new_name)
    place = name if is_url(name) else session.workspace.existing_store(name)
    _transfer(
        session, "pull", partial(pull, place, target, expect=sha256 or None, **chosen)
    )


no_licence_option = click.option(
    "--no-licence", is_flag=True, help="Also if the store states no licence."
)


@command("push")
@click.argument("name")
@click.argument("target")
@_selection_options
@no_licence_option
def push_(session: Session, name: str, target: str, **chosen: Any) -> None:
    """Send a store to a bucket, the hub or a folder.

    Or a part of it. Files that are there already are not sent again. A bucket's keys come from the
    AWS_* variables, the hub's token from `hf auth login`; a new repository on the hub is private. A
    store without a licence is refused: `obygaze store licence` states it.

    Examples:
        obygaze store push obygaze12-xclip s3://films/xclip
        obygaze store push obygaze12-xclip hf://lab/obygaze12-xclip --level pooled --level clip
        obygaze store push obygaze12-xclip /mnt/lab/xclip
    """
    _transfer(
        session, "push", partial(push, open_named(session, name), target, **chosen)
    )


def _last_word(source: str) -> str:
    word = last_part(source).removesuffix(".zip")
    if not word or word in (".", ".."):
        raise FixUsage(
            f"no name for the new store in {source!r}", hint="give one with -o NAME"
        )
    return word


def _transfer(session: Session, label: str, move: Callable[..., Transferred]) -> None:
    with session.console.progress(label) as progress:
        done = move(progress=progress)
    session.console.show(asdict(done), f"{done.target}: {done.line}")
