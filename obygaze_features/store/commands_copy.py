"""`obygaze store subset`, `merge`, `pack`, `unpack`, `pull`, `push`: stores made of others."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from obygaze_features.core.commands import Session, command, force_option, option_group
from obygaze_features.core.console import count, human
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.workspace import is_url, last_part
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import clips_sha256, sort_key
from obygaze_features.store.commands_look import (
    expect_option,
    open_named,
)
from obygaze_features.store.read.reader import Store
from obygaze_features.store.remote import split_expected
from obygaze_features.store.remote.fetch import pull, unpack
from obygaze_features.store.remote.selection import Transferred
from obygaze_features.store.remote.send import pack, push
from obygaze_features.store.write.edit import Copied, ManifestClips, merge, subset

UNSEALED = (
    "this store is not sealed: the zip holds what is committed so far; extract run --seal seals a "
    "store with failed clips"
)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_output = click.option(
    "-o", "output", required=True, help="The new store: a name or a folder."
)


# A repeatable option; None stands for all.
_repeated = partial(
    click.option, multiple=True, callback=lambda ctx, param, chosen: chosen or None
)


@command("subset")
@click.argument("name")
@_output
@_repeated("--movie", "movies", help="Only the clips of this film; repeatable.")
@click.option("--clips", type=FILE, help="Only the clips in this file, one id a line.")
@_repeated("--level", "levels", help="Only this level; repeatable.")
def subset_(
    session: Session, name: str, output: str, clips: Path | None, **chosen: Any
) -> None:
    """Make a store of some clips or levels of another.

    Times and masks are copied too. The same command again continues where it was stopped.

    Examples:
        obygaze store subset obygaze12-xclip --movie tt0108160 -o one-film
        obygaze store subset obygaze12-xclip --level pooled --level clip -o small
        obygaze store subset obygaze12-xclip --clips chosen.txt -o chosen
    """
    source = open_named(session, name)
    ids = _ids(clips) if clips is not None else None
    target = session.workspace.new_store(output)
    with session.console.progress("copy") as progress:
        _report_copied(
            session, subset(source, target, clips=ids, progress=progress, **chosen)
        )


@command("merge")
@click.argument("names", nargs=-1, required=True)
@_output
@click.option("--manifest", help="Plan the new store for the clips of this manifest.")
@click.option(
    "--licence", default="", show_default=False, help="The licence, if theirs differ."
)
@click.option("--seal/--no-seal", default=True, help="Seal it if complete.")
@click.option(
    "--mixed", is_flag=True, help="Allow clips of several versions or kinds of device."
)
def merge_(
    session: Session,
    names: tuple[str, ...],
    output: str,
    manifest: str | None,
    **options: Any,
) -> None:
    """Make one store of several of the same recipe.

    Stores of different licences are an error, unless --licence decides. All citations are kept.
    Clips of two versions of this program, of a CPU and a GPU, or of two precisions are an error,
    unless --mixed allows it.

    With a manifest, blocks whose clips are all in these stores are copied, and the others stay
    pending for `obygaze extract run`.

    Examples:
        obygaze store merge films-1-6 films-7-12 -o all-films
        obygaze store merge old --manifest larger -o larger-xclip
        obygaze store merge ours theirs --licence CC-BY-NC-4.0 -o both
    """
    sources = [open_named(session, name) for name in names]
    clips = _clips_of_manifest(session, manifest) if manifest is not None else None
    with session.console.progress("copy") as progress:
        target = session.workspace.new_store(output)
        copied = merge(sources, target, manifest=clips, progress=progress, **options)
    _report_copied(session, copied)


def _ids(path: Path) -> list[str]:
    try:
        # Windows programs put a mark before the first id.
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise FixInput("not UTF-8", where=str(path), hint="save it as UTF-8") from error
    return [line.strip() for line in lines if line.strip()]


def _clips_of_manifest(session: Session, name: str) -> ManifestClips:
    manifest = read_manifest(session.workspace.existing_manifest(name))
    # As an extraction plans it, so that a run can fill the blocks that stay pending.
    clips = sorted(manifest, key=sort_key)
    clip_ids = [clip.clip_id for clip in clips]
    movie_ids = [clip.movie_id for clip in clips]
    sha256 = clips_sha256(zip(clip_ids, movie_ids, strict=True))
    return ManifestClips(manifest.name, sha256, clip_ids, movie_ids)


def _report_copied(session: Session, copied: Copied) -> None:
    pending = count(copied.pending_blocks, "block")
    state = "sealed" if copied.sealed else f"{pending} still to extract, not sealed"
    blocks = count(copied.n_blocks, "block")
    clips = count(copied.n_clips, "clip")
    console = session.console
    text = f"{copied.path}: {clips}, {blocks} copied, {state}"
    console.show({**asdict(copied), "path": str(copied.path)}, text)
    if copied.in_several:
        clips = count(copied.in_several, "clip")
        console.note(f"{clips} in several stores; the first that is ok counts")
    if copied.n_differing:
        clips = count(copied.n_differing, "clip")
        console.warn(
            f"{clips} with other numbers in another of these stores (obygaze store diff)"
        )


_selection_options = option_group(
    "Options",
    _repeated("--level", "levels", help="Only this array; repeatable. [default: all]"),
    _repeated("--movie", "movies", help="Only the blocks of this film; repeatable."),
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
    interrupted transfer, and every file is checked as it arrives. To add to a part, pull more of
    the same store into the same folder. Of a large remote store, --movie makes a store of only the
    clips of these films; `obygaze store merge` joins several.

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
    if done.partial:
        session.console.note(
            "this copy is partial: what was not fetched is missing in it"
        )
    session.console.show(asdict(done), f"{done.target}: {done.line}")
