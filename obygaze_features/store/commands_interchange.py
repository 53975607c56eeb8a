"""`obygaze store import` and `export`: features in other formats."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from obygaze_features.core.commands import (
    Session,
    command,
    force_option,
    named_values,
    option_group,
    spreadsheet_option,
)
from obygaze_features.core.errors import EXIT_SOME_FAILED
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Manifest, clips_sha256
from obygaze_features.store.commands_look import open_named
from obygaze_features.store.interchange import FORMATS, open_features
from obygaze_features.store.interchange.export import FORMATS as EXPORT_FORMATS
from obygaze_features.store.interchange.export import export_store
from obygaze_features.store.interchange.importing import (
    ImportedStore,
    ImportSettings,
    Pool,
    import_store,
)
from obygaze_features.store.write.edit import ManifestClips

SHOWN = 20


@command("import")
@click.argument("format", type=click.Choice(list(FORMATS)))
@click.argument(
    "sources", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path)
)
@click.option("-o", "output", required=True, help="The new store: a name or a folder.")
@option_group(
    "What is in the files",
    click.option(
        "--level",
        "levels",
        multiple=True,
        metavar="NAME=KEY",
        help="Store the array, dataset path or folder KEY as the level NAME; repeatable.",
    ),
    click.option(
        "--id-key",
        help="npz, hdf5, csv: the array or column of clip ids. [default: clip_id]",
    ),
    click.option("--manifest", help="A row for each clip of this manifest."),
)
@option_group(
    "How they are stored",
    click.option(
        "--pool",
        type=click.Choice(["none", "also", "only"]),
        help="Keep the maximum over all vectors of a clip: as a further level 'pooled', "
        "or in place of them. [default: also, for tokens; else none]",
    ),
    click.option(
        "--dtype",
        type=click.Choice(["float16", "float32", "float64"]),
        help="The type of numbers. [default: float32; several float16 vectors stay float16]",
    ),
)
@option_group(
    "Facts to keep",
    click.option(
        "--backbone", default="", show_default=False, help="The model that made them."
    ),
    click.option(
        "--fact",
        "--told",
        "facts",
        multiple=True,
        metavar="KEY=VALUE",
        help="A fact to keep with the features; repeatable.",
    ),
    click.option(
        "--licence", default="", show_default=False, help="The licence of the features."
    ),
    click.option(
        "--citation", default="", show_default=False, help="What to cite for them."
    ),
)
def import_(
    session: Session,
    format: str,
    sources: Sequence[Path],
    output: str,
    levels: Sequence[str],
    manifest: str | None,
    pool: Pool | None,
    facts: Sequence[str],
    **options: Any,
) -> None:
    """Make a store from features in another format.

    The recipe of the new store is marked unknown and has only the facts that you give. Several
    files or folders of one format become one store.

    pth: a folder FEATURES/<movie>/<video>.pth, as the released code has it. A tensor is [1, D], or
    [1, tokens, D]. With --level NAME=KEY the files are dictionaries of tensors. Files that could
    run code are rejected.

    hdf5: a file with a dataset a clip, or with one array and ids; or a folder with a file a clip.
    The path in --level NAME=PATH gives the layout: '{id}' (found without it) or '{id}/features'
    for a dataset a clip, 'features' with --id-key for one array of all.

    npz: a file with ids, and arrays with a row for each. The only array with one vector a clip is
    the level clip if its name says nothing, such as x or features.

    csv: a table with ids and numbered columns (x_0, x_1, ...), as Excel or pandas writes it. The
    numbers give the order of a vector, wherever the columns are.

    npy: a folder. Each file is a clip, in one folder, in one for each movie, or in one for each
    --level NAME=FOLDER.

    Examples:
        obygaze store import npz train.npz val.npz test.npz -o imported
        obygaze store import npz xclip.npz --id-key names --level clip=X --backbone x-clip -o xclip
        obygaze store import pth FEATURES --manifest obygaze12 --pool also -o xclip
        obygaze store import hdf5 CLIP_L14_frames_features_5fps.h5 --pool only -o mad
        obygaze store import hdf5 sub_activitynet.hdf5 --level c3d='v_{id}/c3d_features' -o c3d
        obygaze store import hdf5 all.h5 --id-key names --level clip=features -o all
        obygaze store import csv features.csv --id-key shot -o mine
        obygaze store import npy features/ --level clip=xclip --level frames=xclip_frames -o mine
    """
    target = session.workspace.new_store(output)
    chosen = named_values(levels, "--level")
    source = open_features(format, sources, chosen, id_key=options.pop("id_key"))
    default: Pool = "also" if list(source.levels) == ["tokens"] else "none"
    told = named_values(facts, "--fact")
    settings = ImportSettings(facts=told, pool=pool or default, **options)
    found = None
    clips = None
    if manifest is not None:
        found = read_manifest(session.workspace.existing_manifest(manifest))
        ids = list(found.clip_ids)
        movies = [clip.movie_id for clip in found]
        sha256 = clips_sha256(zip(ids, movies, strict=True))
        clips = ManifestClips(found.name, sha256, ids, movies)
    try:
        with session.console.progress("import") as progress:
            done = import_store(
                source,
                target,
                manifest=clips,
                aliases={} if found is None else _aliases(found),
                settings=settings,
                progress=progress,
            )
    finally:
        source.close()
    _report_import(session, done)
    if done.failed:
        click.get_current_context().exit(EXIT_SOME_FAILED)


def _aliases(manifest: Manifest) -> dict[str, str]:
    """Return clip ids by other names of one clip only.

    These are the name of its video, and the id that it had before the manifest was made of it.
    """
    clips_of: dict[str, set[str]] = {}
    for clip in manifest:
        for name in (Path(clip.video).stem, clip.extra.get("given_clip_id", "")):
            if name and name not in manifest.by_id:
                clips_of.setdefault(name, set()).add(clip.clip_id)
    return {
        name: next(iter(clips)) for name, clips in clips_of.items() if len(clips) == 1
    }


def _report_import(session: Session, done: ImportedStore) -> None:
    console = session.console
    for warning in done.warnings:
        console.warn(warning)
    _note_reasons(session, done.failed)
    if done.not_in_manifest:
        console.note(
            f"{len(done.not_in_manifest)} clips of the files are not in the manifest"
        )
    shapes = ", ".join(f"{name} {list(shape)}" for name, shape in done.levels.items())
    text = f"{done.path}: {done.n_ok} of {done.n_clips} clips, {shapes}, sealed"
    console.show({**asdict(done), "path": str(done.path)}, text)


def _note_reasons(session: Session, reasons: Mapping[str, str]) -> None:
    for clip, reason in list(reasons.items())[:SHOWN]:
        session.console.note(f"{clip}: {reason}")


@command()
@click.argument("format", type=click.Choice(list(EXPORT_FORMATS)))
@click.argument("name")
@click.argument("output", type=click.Path(path_type=Path))
@click.option(
    "--level",
    "levels",
    multiple=True,
    help="Only this level; repeatable. [default: all]",
)
@click.option("--compress", is_flag=True, help="Compress (hdf5 and npz).")
@click.option(
    "--with-labels", metavar="MANIFEST", help="Write its levels and concepts too."
)
@spreadsheet_option
@force_option
def export(
    session: Session,
    format: str,
    name: str,
    output: Path,
    levels: tuple[str, ...],
    with_labels: str | None,
    **options: Any,
) -> None:
    """Write the features of a store in another format.

    Clips that failed or are missing are left out and listed. csv and pth hold one level: by
    default the last with one vector a clip, and the one with most tokens. Licence, citation, recipe
    and fingerprint go with them; beside a csv file they are in FILE.json.

    Examples:
        obygaze store export hdf5 obygaze12-xclip xclip.h5 --compress
        obygaze store export csv obygaze12-xclip pooled.csv --level pooled --with-labels obygaze12
        obygaze store export pth obygaze12-xclip FEATURES --level tokens
    """
    store = open_named(session, name)
    labels = None
    if with_labels is not None:
        labels = read_manifest(session.workspace.existing_manifest(with_labels))
    with session.console.progress("export") as progress:
        done = export_store(
            store,
            session.workspace.checked(output),
            format,
            levels=levels or None,
            labels=labels,
            progress=progress,
            **options,
        )
    _note_reasons(session, done.left_out)
    session.console.show(
        {**asdict(done), "path": str(done.path)},
        f"{done.path}: {done.n_clips} clips, {', '.join(done.levels)}",
    )
    if done.left_out:
        click.get_current_context().exit(EXIT_SOME_FAILED)
