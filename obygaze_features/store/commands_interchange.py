"""`obygaze store import`: features in the formats other people use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from obygaze_features.core.commands import (
    ExampleCommand,
    LazyGroup,
    Session,
    json_option,
    pass_session,
)
from obygaze_features.core.errors import EXIT_SOME_FAILED, FixUsage
from obygaze_features.manifest.io import manifest_sha256, read_manifest
from obygaze_features.store.interchange.importing import Imported, Told, import_store
from obygaze_features.store.interchange.source import Source
from obygaze_features.store.write.edit import Roster

F = TypeVar("F", bound=Callable[..., Any])
_HERE = "obygaze_features.store.commands_interchange"
SOURCES = {
    "pth": (f"{_HERE}:pth", "A folder FEATURES/<movie>/<video>.pth, as the released code has it."),
    "hdf5": (f"{_HERE}:hdf5", "An HDF5 file: a dataset a clip, or one array and ids."),
    "npz": (f"{_HERE}:npz", "An npz file: ids, and arrays with a row for each."),
    "npy": (f"{_HERE}:npy", "A folder of npy files: one a clip, or one a level and the ids."),
}
SHOWN = 20
PATHS = click.argument(
    "sources", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path)
)


@click.group("import", cls=LazyGroup, table=SOURCES)
def import_() -> None:
    """Make a store from features in another format.

    How they were made cannot be known: the store's recipe is marked unknown, with what you tell.
    Several files or folders of one format become one store.
    """


def _import_options(function: F) -> F:
    """What all imports share."""
    for option in reversed(
        (
            click.option("-o", "output", required=True, help="The new store: a name or a folder."),
            click.option(
                "--level",
                "levels",
                multiple=True,
                metavar="NAME=KEY",
                help="Store what lies under KEY as the level NAME; repeatable.",
            ),
            click.option("--manifest", help="A row for each clip of this manifest."),
            click.option("--backbone", default="", help="The model that made them, as you know."),
            click.option(
                "--told",
                multiple=True,
                metavar="KEY=VALUE",
                help="A fact to keep with the features; repeatable.",
            ),
            click.option("--licence", default="", help="The licence of the features."),
            click.option("--citation", default="", help="What to cite for them."),
            click.option(
                "--pool",
                type=click.Choice(["none", "also", "only"]),
                help="Keep the maximum over all vectors of a clip: as a further level 'pooled', "
                "or in place of them. [default: also, for tokens; else none]",
            ),
            click.option(
                "--dtype",
                type=click.Choice(["float16", "float32", "float64"]),
                help="Store numbers so. [default: float32; several float16 vectors stay float16]",
            ),
            json_option,
            pass_session,
        )
    ):
        function = option(function)
    return PATHS(function)


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze store import npz train.npz val.npz test.npz -o imported
    obygaze store import npz xclip.npz --id-key names --level clip=X --backbone x-clip -o xclip
    """,
)
@click.option("--id-key", help="The array of clip ids. [default: clip_id]")
@click.option("--movie-key", help="The array of movie ids. [default: movie_id, if there]")
@_import_options
def npz(session: Session, **words: Any) -> None:
    """An npz file: ids, and arrays with a row for each."""
    from obygaze_features.store.interchange.npz import open_npz

    _import(session, partial(open_npz, **_own(words, "id_key", "movie_key")), **words)


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze store import pth FEATURES -o released
    obygaze store import pth FEATURES --manifest obygaze12 --pool also --backbone x-clip -o xclip
    """,
)
@click.option("--as", "level", help="The level's name. [default: clip or tokens, by the shape]")
@_import_options
def pth(session: Session, **words: Any) -> None:
    """A folder FEATURES/<movie>/<video>.pth, as the released code has it.

    A tensor is [1, D], or [1, tokens, D]. With --level NAME=KEY the files are dictionaries of
    tensors. Files that would run code are refused.
    """
    from obygaze_features.store.interchange.pth import open_pth

    _import(session, partial(open_pth, **_own(words, "level")), **words)


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze store import hdf5 CLIP_L14_frames_features_5fps.h5 --pool only -o mad
    obygaze store import hdf5 sub_activitynet.hdf5 --level c3d='v_{id}/c3d_features' -o c3d
    obygaze store import hdf5 tvsum.h5 --level frames='{id}/features' --pool only -o tvsum
    obygaze store import hdf5 all.h5 --id-key names --level clip=features -o all
    """,
)
@click.option("--id-key", help="Where the ids lie, if there is one array of all clips.")
@click.option("--movie-key", help="Where the movies of those ids lie.")
@_import_options
def hdf5(session: Session, **words: Any) -> None:
    """An HDF5 file: a dataset a clip, or one array and ids.

    In --level NAME=PATH the path tells the layout: '{id}' or '{id}/features' for a dataset a
    clip, 'features' with --id-key for one array of all. A folder holds a file a clip.
    """
    from obygaze_features.store.interchange.hdf5 import open_hdf5

    _import(session, partial(open_hdf5, **_own(words, "id_key", "movie_key")), **words)


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze store import npy features/ -o imported
    obygaze store import npy features/ --level clip=xclip --level frames=xclip_frames -o imported
    """,
)
@_import_options
def npy(session: Session, **words: Any) -> None:
    """A folder of npy files: one a clip, or one a level and the ids.

    With clip_id.npy in it, each file is a level with a row for each id. Otherwise each file is a
    clip, in one folder, in one for each movie, or in one for each --level NAME=FOLDER.
    """
    from obygaze_features.store.interchange.npy import open_npy

    _import(session, open_npy, **words)


def _own(words: dict[str, Any], *names: str) -> dict[str, Any]:
    """The options that only one format has, taken from all that were given."""
    return {name: words.pop(name) for name in names}


def _import(
    session: Session,
    open_source: Callable[[Sequence[Path], dict[str, str]], Source],
    *,
    sources: Sequence[Path],
    levels: Sequence[str],
    output: str,
    manifest: str | None,
    told: Sequence[str],
    pool: str | None,
    as_json: bool,
    **known: Any,
) -> None:
    target = session.workspace.new_store(output)
    source = open_source(sources, _pairs(levels))
    default = "also" if list(source.levels) == ["tokens"] else "none"
    facts = Told(facts=_pairs(told), pool=pool or default, **known)  # type: ignore[arg-type]
    roster, aliases = _roster(session, manifest) if manifest is not None else (None, {})
    total = len(roster.clip_ids) if roster else len(source.clip_ids)
    try:
        with session.console.progress("import", total) as progress:
            done = import_store(
                source,
                target,
                roster=roster,
                aliases=aliases,
                told=facts,
                progress=progress,
            )
    finally:
        source.close()
    _tell(session, done, as_json)
    if done.failed:
        click.get_current_context().exit(EXIT_SOME_FAILED)


def _tell(session: Session, done: Imported, as_json: bool) -> None:
    console = session.console
    for warning in done.warnings:
        console.warn(warning)
    if as_json:
        console.json({**asdict(done), "path": str(done.path)})
        return
    for clip, reason in list(done.failed.items())[:SHOWN]:
        console.note(f"{clip}: {reason}")
    if done.not_in_manifest:
        console.note(f"{len(done.not_in_manifest)} clips of the files are not in the manifest")
    shapes = ", ".join(f"{name} {list(shape)}" for name, shape in done.levels.items())
    console.result(f"{done.path}: {done.n_ok} of {done.n_clips} clips, {shapes}, sealed")


def _roster(session: Session, name: str) -> tuple[Roster, dict[str, str]]:
    """The clips of a manifest, and what their videos are called."""
    found = read_manifest(session.workspace.existing_manifest(name))
    movies = [clip.movie_id for clip in found]
    videos = Counter(Path(clip.video).stem for clip in found if clip.video)
    aliases = {
        Path(clip.video).stem: clip.clip_id
        for clip in found
        if clip.video and videos[Path(clip.video).stem] == 1
    }
    return Roster(found.name, manifest_sha256(found), list(found.clip_ids), movies), {
        video: clip for video, clip in aliases.items() if video not in found.by_id
    }


def _pairs(words: Sequence[str]) -> dict[str, str]:
    """NAME=KEY words as a mapping."""
    pairs = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise FixUsage(f"{word!r} is not of the form NAME=KEY")
        if name in pairs:
            raise FixUsage(f"{name!r} is given twice")
        pairs[name] = value
    return pairs
