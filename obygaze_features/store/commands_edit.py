"""`obygaze store subset`, `merge`: new stores from old ones."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from obygaze_features.core.commands import ExampleCommand, Session, json_option, pass_session
from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import clips_sha256, sort_key
from obygaze_features.store.commands_look import open_named
from obygaze_features.store.write.edit import Copied, ManifestClips, merge, subset

_OUTPUT = click.option("-o", "output", required=True, help="The new store: a name or a folder.")


@click.command(
    "subset",
    cls=ExampleCommand,
    examples="""
    obygaze store subset obygaze12-xclip --movie tt0108160 -o one-film
    obygaze store subset obygaze12-xclip --level pooled --level clip -o small
    obygaze store subset obygaze12-xclip --clips chosen.txt -o chosen
    """,
)
@click.argument("name")
@_OUTPUT
@click.option("--movie", "movies", multiple=True, help="Only the clips of this film; repeatable.")
@click.option(
    "--clips",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Only the clips in this file, one id a line.",
)
@click.option("--level", "levels", multiple=True, help="Only this level; repeatable.")
@json_option
@pass_session
def subset_(
    session: Session,
    name: str,
    output: str,
    movies: tuple[str, ...],
    clips: Path | None,
    levels: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make a store of some clips or levels of another.

    Times and masks come along. The same command again goes on where it was stopped.
    """
    source = open_named(session, name)
    ids = _ids(clips) if clips is not None else None
    with session.console.progress("copy", source.n_clips) as progress:
        copied = subset(
            source,
            session.workspace.new_store(output),
            clips=ids,
            movies=movies or None,
            levels=levels or None,
            progress=progress,
        )
    _tell(session, copied, as_json)


@click.command(
    "merge",
    cls=ExampleCommand,
    examples="""
    obygaze store merge films-1-6 films-7-12 -o all-films
    obygaze store merge old --manifest larger -o larger-xclip
    """,
)
@click.argument("names", nargs=-1, required=True)
@_OUTPUT
@click.option("--manifest", help="Plan the new store for the clips of this manifest.")
@click.option("--seal/--no-seal", default=True, help="Seal it if complete. [default: seal]")
@json_option
@pass_session
def merge_(
    session: Session,
    names: tuple[str, ...],
    output: str,
    manifest: str | None,
    seal: bool,
    as_json: bool,
) -> None:
    """Make one store of several of the same recipe.

    With a manifest, blocks whose clips are all in these stores are taken over, and the others
    stay pending for `obygaze extract run`.
    """
    sources = [open_named(session, name) for name in names]
    clips = _clips_of_manifest(session, manifest) if manifest is not None else None
    total = len(clips.clip_ids) if clips else sum(source.n_clips for source in sources)
    with session.console.progress("copy", total) as progress:
        target = session.workspace.new_store(output)
        copied = merge(sources, target, manifest=clips, seal=seal, progress=progress)
    _tell(session, copied, as_json)


def _ids(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise FixInput("not UTF-8", where=str(path), hint="one clip id a line, as text") from error
    return [line.strip() for line in lines if line.strip()]


def _clips_of_manifest(session: Session, name: str) -> ManifestClips:
    found = read_manifest(session.workspace.existing_manifest(name))
    # As an extraction plans it, so that a run can fill the blocks that stay pending.
    rows = [(clip.clip_id, clip.movie_id) for clip in sorted(found, key=sort_key)]
    clips, movies = ([row[i] for row in rows] for i in (0, 1))
    return ManifestClips(found.name, clips_sha256(rows), clips, movies)


def _tell(session: Session, copied: Copied, as_json: bool) -> None:
    if as_json:
        session.console.json({**asdict(copied), "path": str(copied.path)})
        return
    pending = count(copied.pending_blocks, "block")
    state = "sealed" if copied.sealed else f"{pending} still to extract, not sealed"
    blocks = count(copied.n_blocks, "block")
    session.console.result(
        f"{copied.path}: {count(copied.n_clips, 'clip')}, {blocks} copied, {state}"
    )
    if copied.in_several:
        session.console.note(
            f"{count(copied.in_several, 'clip')} in several stores; the first that is ok counts"
        )
    if copied.n_differing:
        session.console.warn(
            f"{count(copied.n_differing, 'clip')} with other numbers in another of these stores"
            " (obygaze store diff)"
        )
