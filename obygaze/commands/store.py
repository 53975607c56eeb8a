"""The commands of `obygaze store`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import click

from obygaze.commands.shared import (
    NAME,
    Choice,
    Group,
    Result,
    Session,
    TypedPath,
    clips_option,
    force_option,
    mapping_option,
    table_output_option,
    write_listing,
)


@click.group(
    cls=Group,
    headings={
        "Look": "ls info verify",
        "Bring in, take out": "import export pull push",
        "Cut and join (writes a new store)": "subset merge",
    },
)
def store() -> None:
    """Look at, check, cut and share stores of features.

    A store has the features of the clips of a manifest, stores/NAME. Each STORE may also be a
    folder or a URL.
    """


@store.command("ls")
@click.pass_obj
def ls(session: Session) -> Result:
    """List the stores of the workspace.

    Examples:
        obygaze store ls
        obygaze -C /data/films store ls --json
    """
    from obygaze.contents import list_stores

    return list_stores(workspace=session.root)


@store.command("info")
@click.argument("store", type=NAME, help="The store.")
@click.option(
    "--clips",
    is_flag=True,
    help="List its clips, and why some have no features; -o writes this list to a file.",
)
@table_output_option
@force_option
@click.pass_obj
def info(
    session: Session, store: str, clips: bool, output: str | None, force: bool
) -> Result:
    """Show what a store has, and how it was made.

    STORE is a store of the workspace, a folder or a URL. Only small files are read.

    Examples:
        obygaze store info films.xclip
        obygaze store info https://example.org/stores/films.xclip --json
        obygaze store info films.xclip --clips -o clips.xlsx
    """
    from obygaze_features.store.describing import describe_store

    listing = describe_store(store, clips=clips, workspace=session.root)
    write_listing(session, listing, output, force=force)
    return listing


@store.command("verify")
@click.argument("store", type=NAME, help="The store.")
@click.option(
    "--hash",
    "hashes",
    is_flag=True,
    help="Read every byte, and compare the SHA-256 of each file.",
)
@click.option(
    "--expect", metavar="SHA256", help="The seal of the store, from its publisher."
)
@click.pass_obj
def verify(session: Session, store: str, hashes: bool, expect: str | None) -> Result:
    """Check that a store is whole and undamaged.

    Without options, check that every file exists and has its length; a changed byte is found with
    --hash. If a file is not as the store lists it, the exit code is 4 and each such file is named.

    A consistent store may still be somebody else's. With --expect and the seal that its publisher
    sees in `obygaze store info`, any other store ends with the exit code 5. An address may end with
    #sha256=... instead of --expect.

    Examples:
        obygaze store verify films.xclip
        obygaze store verify films.xclip --hash --expect 5f0c...
    """
    from obygaze_features.store.verifying import verify

    with session.console.progress("verify") as progress:
        return verify(
            store,
            hashes=hashes,
            expect=expect,
            progress=progress,
            workspace=session.root,
        )


@store.command(
    "import",
    headings={
        "What is in the files": "array id-key fill-missing manifest",
        "How they are stored": "pool keep-frames",
        "Facts to keep": "backbone layer licence citation",
    },
)
@click.argument(
    "source", type=TypedPath(exists=True, path_type=Path), help="The file or folder."
)
@click.option(
    "-o",
    "--output",
    "path",
    required=True,
    metavar="NAME",
    type=NAME,
    help="The new store: a name or a folder.",
)
@mapping_option(
    "--array",
    "arrays",
    metavar="NAME=KEY",
    help="Store the array, column or dataset path KEY under NAME.",
)
@click.option(
    "--id-key",
    metavar="KEY",
    show_default="clip_id",
    help="The array or column of clip ids.",
)
@click.option(
    "--fill-missing",
    is_flag=True,
    help="Read chunks of Zarr that are not there as the fill value of their array.",
)
@click.option("--manifest", type=NAME, help="A row for each clip of this manifest.")
@click.option(
    "--pool",
    show_default="max for tokens",
    type=Choice(["mean", "max", "last"]),
    help="Keep one vector of each clip: mean, maximum or last one of all that it has.",
)
@click.option(
    "--keep-frames",
    is_flag=True,
    help="Keep the frames or tokens beside what --pool makes of them.",
)
@click.option(
    "--backbone",
    metavar="NAME",
    default="",
    show_default=False,
    help="The model that made the features.",
)
@click.option(
    "--layer",
    default="",
    show_default="the keys of the arrays",
    help="The layer or output of this model that the features are.",
)
@click.option(
    "--licence",
    metavar="NAME",
    default="",
    show_default=False,
    help="The licence of the features; that of the manifest is of its labels.",
)
@click.option(
    "--citation", show_default="the manifest's", help="What to cite for them."
)
@click.pass_obj
def import_(
    session: Session,
    source: Path,
    path: str,
    arrays: Mapping[str, str] | None,
    id_key: str | None,
    fill_missing: bool,
    manifest: str | None,
    pool: Literal["mean", "max", "last"] | None,
    keep_frames: bool,
    backbone: str,
    layer: str,
    licence: str,
    citation: str | None,
) -> Result:
    """Read features of other programs: .npz, .h5, .zarr, folders.

    SOURCE is a file (.npz, .h5, .hdf5), a group of Zarr, or a folder of .npy or .pth files;
    docs/guide/stores.md describes each. Imports with the same --backbone, --layer and --pool have
    the same recipe: they can be merged, and a model of one reads the other. With --manifest, clips
    are found by their ids, and films or times that differ from those of SOURCE are refused. Clips
    without usable features are failed rows.

    Examples:
        obygaze store import x.npz --id-key names --array clip=X --backbone xclip -o x
        obygaze store import FEATURES --manifest films --pool max --keep-frames -o x
        obygaze store import all.h5 --id-key names --array clip=features -o all
        obygaze store import charades.h5 --array clip='{id}/features' -o charades
        obygaze store import xclip.zarr --array clip=features --backbone xclip -o x
    """
    from obygaze_features.store.importing import import_features

    with session.console.progress("import") as progress:
        return import_features(
            source,
            path,
            arrays=arrays,
            id_key=id_key,
            fill_missing=fill_missing,
            manifest=manifest,
            pool=pool,
            keep_frames=keep_frames,
            backbone=backbone,
            layer=layer,
            licence=licence,
            citation=citation,
            progress=progress,
            workspace=session.root,
        )


@store.command("export")
@click.argument("store", type=NAME, help="The store.")
@click.argument(
    "path", metavar="OUTPUT", type=NAME, help="The new file, or the new folder."
)
@click.option(
    "--as", "format", type=Choice(["parquet"]), help="The format of a new folder."
)
@click.option(
    "--array",
    "arrays",
    multiple=True,
    show_default="all",
    metavar="ARRAY",
    help="Only this array, with the times and the mask of its frames. Repeatable.",
)
@click.option(
    "--with-labels",
    "labels",
    metavar="MANIFEST",
    type=NAME,
    help="Levels and concepts of this manifest become columns of a Parquet table.",
)
@click.pass_obj
def export(
    session: Session,
    store: str,
    path: str,
    format: Literal["parquet"] | None,
    arrays: Sequence[str],
    labels: str | None,
) -> Result:
    """Write features for other programs: .npz, .h5, .zarr, .parquet.

    The ending of OUTPUT says the format: .npz, .h5, .hdf5, .parquet, or .zarr for a folder that is
    a group of Zarr, compressed. A store itself is such a group, not compressed.

    A Parquet file is a table with a row a clip and a column an array, by default of the arrays with
    one vector a clip. --as parquet writes a folder with this table, data/features.parquet, and a
    README.md by which datasets.load_dataset and the hub read it.

    Clips without features are left out and listed (exit code 3), as are arrays that are not
    exported. Licence, citation, recipe and seal go with the features: in the array `obygaze_origin`
    of an npz file, the attribute of this name of an HDF5 file or a group of Zarr, and the metadata
    of a Parquet file. `obygaze store import` reads the features, and takes these facts from its own
    options only.

    Examples:
        obygaze store export films.xclip xclip.h5
        obygaze store export films.xclip xclip.zarr
        obygaze store export films.xclip xclip --as parquet --with-labels films
    """
    from obygaze_features.store.exporting import export_features

    with session.console.progress("export") as progress:
        return export_features(
            store,
            path,
            format=format,
            arrays=arrays,
            labels=labels,
            progress=progress,
            workspace=session.root,
        )


@store.command("pull")
@click.argument("source", type=NAME, help="The store: a name, a folder or a URL.")
@click.option(
    "-o",
    "--output",
    "path",
    show_default="the last word",
    metavar="NAME",
    type=NAME,
    help="The new store: a name or a folder.",
)
@click.option(
    "--expect", metavar="SHA256", help="The seal of the store, from its publisher."
)
@click.pass_obj
def pull(session: Session, source: str, path: str | None, expect: str | None) -> Result:
    """Copy a store from a folder, web server, bucket or the hub.

    From a web server, a bucket, the hub or a folder. The same command again continues an
    interrupted copy, and every file is checked as it arrives. An existing store is never replaced.
    After `zarr.open_group(NAME, mode="w")`, which removes all files of a store, the same command
    copies it again. `obygaze store subset URL` copies a part.

    The files at an address may be changed by others. #sha256=... at its end, or --expect, refuses
    any store but the one with this seal.

    Examples:
        obygaze store pull https://example.org/features/xclip
        obygaze store pull https://example.org/features/xclip#sha256=5f0c...
        obygaze store pull hf://lab/films.xclip -o theirs
    """
    from obygaze_features.store.copying import pull

    with session.console.progress("pull") as progress:
        return pull(
            source, path=path, expect=expect, progress=progress, workspace=session.root
        )


@store.command("push", headings={"Licence": "licence citation no-licence"})
@click.argument("store", type=NAME, help="The store, in a folder of this machine.")
@click.argument(
    "target", type=NAME, help="A folder, s3://BUCKET/NAME or hf://OWNER/NAME."
)
@click.option(
    "--licence",
    metavar="NAME",
    default="",
    show_default=False,
    help="The licence of the features: CC-BY-4.0.",
)
@click.option(
    "--citation", default="", show_default=False, help="What to cite for them."
)
@click.option("--no-licence", is_flag=True, help="Send a store that states no licence.")
@click.pass_obj
def push(
    session: Session,
    store: str,
    target: str,
    licence: str,
    citation: str,
    no_licence: bool,
) -> Result:
    """Send a store to a folder, a bucket or the hub.

    Files that exist at the target are not sent again; the same command again continues an
    interrupted push. A target with a different store is refused. The keys of a bucket are AWS_*
    variables; `hf auth login` sets the token of the hub. A new data set on the hub is private.

    A store without a licence is refused. --licence and --citation are written into the head of
    README.md of the store, if it states none. You may edit this head: it is not sealed.
    `obygaze store export --as parquet` makes a table for `datasets`.

    Examples:
        obygaze store push films.xclip s3://films/xclip --licence CC-BY-4.0
        obygaze store push films.xclip hf://lab/x --licence MIT --citation 'Doe 2026'
        obygaze store push films.xclip /mnt/lab/xclip --no-licence
    """
    from obygaze_features.store.copying import push

    with session.console.progress("push") as progress:
        return push(
            store,
            target,
            licence=licence,
            citation=citation,
            no_licence=no_licence,
            progress=progress,
            workspace=session.root,
        )


@store.command("subset")
@click.argument("store", type=NAME, help="The store.")
@click.option(
    "-o",
    "--output",
    "path",
    required=True,
    metavar="NAME",
    type=NAME,
    help="The new store: a name or a folder.",
)
@click.option(
    "--film",
    "films",
    multiple=True,
    metavar="FILM",
    help="Only the clips of this film, an id. Repeatable.",
)
@clips_option(
    "Only these clips, separated by commas, or those in a file: one id a line, or a"
    " column clip_id."
)
@click.option(
    "--array",
    "arrays",
    multiple=True,
    show_default="all",
    metavar="ARRAY",
    help="Only this array, with the times and the mask of its frames. Repeatable.",
)
@click.option(
    "--without",
    multiple=True,
    metavar="FILM|CLIP",
    help="The id of a film or clip to leave out. Repeatable.",
)
@click.pass_obj
def subset(
    session: Session,
    store: str,
    path: str,
    films: Sequence[str],
    clips: Sequence[str],
    arrays: Sequence[str],
    without: Sequence[str],
) -> Result:
    """Take some clips or arrays.

    Rows get new numbers. The source may be a URL: only the needed parts are read.

    To remove a film, make a store without it, then remove the old store. No file of the new store
    has anything of the film. Manifests that still have the film are named. Copies, exports, runs
    and models keep it.

    Examples:
        obygaze store subset films.xclip --film tt0108160 -o one-film
        obygaze store subset https://example.org/xclip --clips chosen.txt -o small
        obygaze store subset films.xclip --without tt0108160 -o without-a-film
    """
    from obygaze_features.store.changing import subset

    with session.console.progress("copy") as progress:
        return subset(
            store,
            path,
            films=films or None,
            clips=clips or None,
            arrays=arrays,
            without=without,
            progress=progress,
            workspace=session.root,
        )


@store.command("merge")
@click.argument(
    "stores",
    nargs=-1,
    required=True,
    type=NAME,
    help="Names, folders or URLs of the stores.",
)
@click.option(
    "-o",
    "--output",
    "path",
    required=True,
    metavar="NAME",
    type=NAME,
    help="The new store: a name or a folder.",
)
@click.option(
    "--licence",
    metavar="NAME",
    default="",
    show_default=False,
    help="The licence of the new store, if those of the stores differ.",
)
@click.pass_obj
def merge(session: Session, stores: Sequence[str], path: str, licence: str) -> Result:
    """Join stores of different clips, made in the same way.

    An id in two stores is an error. The new store lists all makers and citations.

    Examples:
        obygaze store merge films-1-6 films-7-12 -o all-films
    """
    from obygaze_features.store.changing import merge

    with session.console.progress("copy") as progress:
        return merge(
            stores, path, licence=licence, progress=progress, workspace=session.root
        )
