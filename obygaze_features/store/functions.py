"""The functions of `obygaze store` and `og.store`; other modules of this room do the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, ParamSpec, TypeVar

from obygaze_features.core.clip_ids import ClipIds
from obygaze_features.core.console import Progress
from obygaze_features.core.function_commands import command_of
from obygaze_features.core.lazy import done_in
from obygaze_features.core.options import CLIPS, Bar, Option
from obygaze_features.core.workspace import PathLike
from obygaze_features.core.written_tables import Listing
from obygaze_features.store.formats import EXPORT_ENDINGS, Pool, text_of_formats

if TYPE_CHECKING:
    from obygaze_features.manifest.model import Clip, Manifest
    from obygaze_features.store.changing import Changed
    from obygaze_features.store.copying import Copied
    from obygaze_features.store.describing import StorePage
    from obygaze_features.store.exporting import Exported
    from obygaze_features.store.files import Files
    from obygaze_features.store.importing.features import Imported
    from obygaze_features.store.reading import Store
    from obygaze_features.store.verifying import VerifyReport

P = ParamSpec("P")
R = TypeVar("R")

# The titles of groups of options.
CONTENT = "What is in the files"
STORAGE = "How they are stored"
FACTS = "Facts to keep"
TERMS = "Licence"


@done_in("obygaze_features.store.describing")
def describe_store(
    store: PathLike | Store,
    *,
    clips: bool = False,
    workspace: PathLike | None = None,
) -> StorePage:
    """Show what a store has and how it was made.

    STORE is a store of the workspace, a folder or a URL. Only small files are read.

    Args:
        store: The store.
        clips: List its clips, and why some have no features; -o writes this list to a file.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store info obygaze12-xclip
        obygaze store info https://example.org/stores/obygaze12-xclip --json
        obygaze store info obygaze12-xclip --clips -o clips.xlsx
    """


info_command = command_of(describe_store, "info", then=Listing.write)


@done_in("obygaze_features.store.verifying")
def verify(
    store: PathLike | Files | Store,
    *,
    hashes: Annotated[bool, Option("--hash")] = False,
    expect: Annotated[str | None, Option(metavar="SHA256")] = None,
    progress: Annotated[Progress | None, Bar("verify")] = None,
    workspace: PathLike | None = None,
) -> VerifyReport:
    """Check that a store is whole and undamaged.

    Without options, check that every file exists and has its length; a changed byte is found with
    --hash. If a file is not as the store lists it, the exit code is 4 and each such file is named.

    A store that is consistent says nothing of who made it: with --expect and the seal that
    `obygaze store info` shows to its publisher, another store ends with the exit code 5. An address
    may end with #sha256=... in place of --expect.

    Args:
        store: The store.
        hashes: Read every byte; compare the SHA-256 of each file, each chunk, and all tables.
        expect: The seal of the store, from its publisher.
        progress: Counts the bytes of the files that were checked.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store verify obygaze12-xclip
        obygaze store verify obygaze12-xclip --hash --expect 5f0c...
    """


@done_in("obygaze_features.store.changing")
def subset(
    store: PathLike | Store,
    path: Annotated[PathLike, Option("-o --output", metavar="NAME")],
    *,
    films: Annotated[Iterable[str] | None, Option("--film")] = None,
    clips: Annotated[ClipIds | Iterable[str | Clip] | None, CLIPS] = None,
    arrays: Annotated[Sequence[str], Option("--array", shown_default="all")] = (),
    without: Annotated[Sequence[str], Option(metavar="FILM|CLIP")] = (),
    progress: Annotated[Progress | None, Bar("copy")] = None,
    workspace: PathLike | None = None,
) -> Changed:
    """Make a store of some clips or arrays of a store.

    Its rows are numbered anew. The store that it is of may be at a URL, and only what is needed of
    it is read.

    To remove a film, make a store without it, then remove the other one. No file of the new store
    has anything of the film. Copies, exports, runs and models are not reached.

    Args:
        store: The store.
        path: The new store: a name or a folder.
        films: Only the clips of this film, an id.
        clips: Only these clips, separated by commas, or those in a file: one id a line, or a
            column clip_id. In Python also clips of a manifest.
        arrays: Only this array, with the times and the mask of its frames.
        without: The id of a film or clip that is left out.
        progress: Counts clips, once for each array.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store subset obygaze12-xclip --film tt0108160 -o one-film
        obygaze store subset https://example.org/xclip --array pooled --clips chosen.txt -o small
        obygaze store subset obygaze12-xclip --without tt0108160 -o without-a-film
    """


@done_in("obygaze_features.store.changing")
def merge(
    stores: Sequence[PathLike | Store],
    path: Annotated[PathLike, Option("-o --output", metavar="NAME")],
    *,
    licence: str = "",
    progress: Annotated[Progress | None, Bar("copy")] = None,
    workspace: PathLike | None = None,
) -> Changed:
    """Make one store of several, which have one recipe and equal arrays.

    A clip that has features in two stores must have the same numbers in both; one that has them in
    one store is taken from there. Two clips of one id are an error: their films or times differ.
    All citations are kept.

    Args:
        stores: The stores, near or far.
        path: The new store: a name or a folder.
        licence: The licence of the new store, where those of the stores differ.
        progress: Counts clips, once for each array.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store merge films-1-6 films-7-12 -o all-films
    """


@done_in("obygaze_features.store.changing")
def join(
    stores: Annotated[Sequence[PathLike | Store], Option(metavar="STORE[:ARRAY]...")],
    path: Annotated[PathLike, Option("-o --output", metavar="NAME")],
    *,
    licence: str = "",
    progress: Annotated[Progress | None, Bar("join")] = None,
    workspace: PathLike | None = None,
) -> Changed:
    """Make one store of several, with their vectors of each clip side by side.

    What was seen, heard and said in a clip becomes one vector of it, the array clip, so that a
    model can learn from all of it. The order of the stores does not matter.

    A clip has features where all stores have them. Any other one is a failed row with the reason of
    the part that is missing. Films or times of a clip that differ are an error. All citations are
    kept.

    Args:
        stores: The stores, near or far, each with an array that has one vector a clip. Without
            `:ARRAY` it is the default array of the store, as in experiments.
        path: The new store: a name or a folder.
        licence: The licence of the new store, where those of the stores differ.
        progress: Counts clips.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store join films.xclip films.wav2vec2 -o both
        obygaze store join films.xclip:clip films.wav2vec2 films.words -o all-senses
    """


def _lists_formats(function: Callable[P, R]) -> Callable[P, R]:
    """Write the table of formats into the docstring of a function, for FORMATS and ENDINGS."""
    formats = text_of_formats().replace("\n", "\n    ")
    text = (function.__doc__ or "").replace("FORMATS", formats)
    function.__doc__ = text.replace("ENDINGS", ", ".join(EXPORT_ENDINGS))
    return function


@_lists_formats
@done_in("obygaze_features.store.importing.features")
def import_features(
    source: Annotated[str | Path, Option(exists="path")],
    path: Annotated[PathLike, Option("-o --output", metavar="NAME")],
    *,
    arrays: Annotated[
        Mapping[str, str] | None, Option("--array", metavar="NAME=KEY", group=CONTENT)
    ] = None,
    id_key: Annotated[str | None, Option(group=CONTENT)] = None,
    manifest: Annotated[PathLike | Manifest | None, Option(group=CONTENT)] = None,
    pool: Annotated[Pool | None, Option(group=STORAGE)] = None,
    keep_frames: Annotated[bool, Option(group=STORAGE)] = False,
    backbone: Annotated[str, Option(group=FACTS)] = "",
    licence: Annotated[str, Option(group=FACTS)] = "",
    citation: Annotated[str | None, Option(group=FACTS)] = None,
    progress: Annotated[Progress | None, Bar("import")] = None,
    workspace: PathLike | None = None,
) -> Imported:
    """Make a store from features in another format.

    The ending of the file says the format, or the files in the folder do.

    FORMATS

    The recipe of the new store is marked unknown. Imports with the same --backbone and --pool have
    the same recipe: they can be merged, and a model of one takes the other. Without --backbone, no
    other file has the recipe. Clips without usable features
    are failed rows. The arrays of all clips have one shape, unless --pool makes one vector of each.
    Numbers become float32; several float16 vectors a clip stay float16. An array called mask says
    which frames are real, time_s and asked_s when they are: they come with the arrays of frames,
    and --pool leaves padding out. One called n_words says how many words each clip has.

    With --manifest, clips are found by their ids. Files may state films and times of clips
    (movie_id, start_s and end_s, in seconds); where those of the manifest differ, it is an error.
    Without it, the clips have the films that the files state, or none.

    Args:
        source: The file or folder.
        path: The new store: a name or a folder.
        arrays: Store the array, column or dataset path KEY under NAME.
        id_key: The array or column of clip ids, where arrays have names. [default: clip_id]
        manifest: A row for each clip of this manifest.
        pool: Keep one vector of all that a clip has: their mean, their maximum, or the last one. It
            is the array 'pooled', unless --array names it. [default: max with --keep-frames, for
            tokens; else none]
        keep_frames: Keep the frames or tokens too, beside what --pool makes of them.
        backbone: The model that made them, in the same words for all imports that one model reads.
        licence: The licence of the features. That of the manifest is of its labels, and not taken.
        citation: What to cite for them. [default: the manifest's]
        progress: Counts clips, twice: when they are checked and when they are written.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store import xclip.npz --id-key names --array clip=X --backbone x-clip -o xclip
        obygaze store import FEATURES --manifest obygaze12 --pool max --keep-frames -o xclip
        obygaze store import CLIP_L14_frames_features_5fps.h5 --pool mean -o mad
        obygaze store import sub_activitynet.hdf5 --array c3d='v_{id}/c3d_features' -o c3d
        obygaze store import all.h5 --id-key names --array clip=features -o all
        obygaze store import films.h5 --array clip='{film}/{id}' -o by-film
        obygaze store import xclip.parquet --manifest obygaze12 -o xclip
    """


@_lists_formats
@done_in("obygaze_features.store.exporting")
def export_features(
    store: PathLike | Store,
    path: Annotated[str | Path, Option(metavar="OUTPUT")],
    *,
    format: Annotated[Literal["parquet"] | None, Option("--as")] = None,
    arrays: Annotated[Sequence[str], Option("--array", shown_default="all")] = (),
    labels: Annotated[
        PathLike | Manifest | None,
        Option("--with-labels", metavar="MANIFEST"),
    ] = None,
    progress: Annotated[Progress | None, Bar("export")] = None,
    workspace: PathLike | None = None,
) -> Exported:
    """Write the features of a store in another format.

    The ending of OUTPUT says the format: ENDINGS.

    A Parquet file is a table with a row a clip and a column an array, by default of the arrays with
    one vector a clip. --as parquet writes a folder with this table, data/features.parquet, and a
    README.md by which datasets.load_dataset and the hub read it.

    Clips without features are left out and listed (exit code 3), and the output says what else of
    the store is not exported. Licence, citation, recipe and seal go with the features: as the array
    `obygaze_origin` of an npz file, the attribute of that name of an HDF5 file, and in the metadata
    of a Parquet file. `obygaze store import` reads an export as any other file of its format.

    Args:
        store: The store.
        path: The new file, or the new folder.
        format: The format of a new folder.
        arrays: Only this array, with the times and the mask of its frames.
        labels: Levels and concepts of this manifest become columns of a Parquet table.
        progress: Counts clips, once for each array.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store export obygaze12-xclip xclip.h5
        obygaze store export obygaze12-xclip xclip --as parquet --with-labels obygaze12
    """


@done_in("obygaze_features.store.copying")
def push(
    store: PathLike | Store,
    target: PathLike,
    *,
    licence: Annotated[str, Option(group=TERMS)] = "",
    citation: Annotated[str, Option(group=TERMS)] = "",
    no_licence: Annotated[bool, Option(group=TERMS)] = False,
    progress: Annotated[Progress | None, Bar("push")] = None,
    workspace: PathLike | None = None,
) -> Copied:
    """Send a store to a folder, a bucket or the hub.

    Files that are there already are not sent again; the same command again continues what was
    interrupted. Where another store is, nothing is sent. A bucket's keys come from the AWS_*
    variables, the hub's token from `hf auth login`; a new data set on the hub is private.

    A store without a licence is refused. --licence and --citation state them: they are written into
    the head of README.md of the store, which may also be edited, and which is not sealed. The hub
    shows it. `obygaze store export --as parquet` makes a table for `datasets`.

    Args:
        store: The store, in a folder of this machine.
        target: A folder, s3://BUCKET/NAME or hf://OWNER/NAME.
        licence: Under which licence the features are: CC-BY-4.0.
        citation: What to cite for them.
        no_licence: Send the store also if it states no licence.
        progress: Counts bytes.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store push obygaze12-xclip s3://films/xclip --licence CC-BY-4.0
        obygaze store push obygaze12-xclip hf://lab/xclip --licence CC-BY-4.0 --citation "Doe, 2026"
        obygaze store push obygaze12-xclip /mnt/lab/xclip --no-licence
    """


@done_in("obygaze_features.store.copying")
def pull(
    source: PathLike | Store,
    path: Annotated[PathLike | None, Option("-o --output", metavar="NAME")] = None,
    *,
    expect: Annotated[str | None, Option(metavar="SHA256")] = None,
    progress: Annotated[Progress | None, Bar("pull")] = None,
    workspace: PathLike | None = None,
) -> Copied:
    """Copy a store to this machine.

    From a web server, a bucket, the hub or a folder. The same command again continues an
    interrupted copy, and every file is checked as it arrives. A store that is there is never
    replaced. `obygaze store subset URL` copies a part only.

    Whoever can change the files at an address can make another store of them. #sha256=... at its
    end, or --expect, refuses any but the store that has this seal.

    Args:
        source: The store: a name, a folder or a URL.
        path: The new store: a name or a folder. [default: the last word]
        expect: The seal of the store, from its publisher.
        progress: Counts bytes.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store pull https://example.org/features/xclip
        obygaze store pull https://example.org/features/xclip#sha256=5f0c...
        obygaze store pull hf://lab/obygaze12-xclip -o theirs
    """
