"""The functions of `obygaze extract` and `og.extraction`; other modules do the work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import click

from obygaze_features.core.commands import SessionCommand
from obygaze_features.core.console import ProgressBars, silent
from obygaze_features.core.function_commands import command_of
from obygaze_features.core.lazy import done_in
from obygaze_features.core.options import PYTHON_ONLY, Option
from obygaze_features.core.workspace import PathLike
from obygaze_features.extraction.parameters import (
    FEATURES,
    MACHINE,
    TIMEOUT_S,
    ArrayNames,
    Backbones,
    ComputeDtype,
    Device,
    Stores,
    Weights,
    Workers,
)

if TYPE_CHECKING:
    from obygaze_features.extraction.costs import Cost
    from obygaze_features.extraction.results import Extraction, SlurmScript, Watch
    from obygaze_features.extraction.search import Hits
    from obygaze_features.extraction.stored import StatusOfStores
    from obygaze_features.manifest.model import Manifest
    from obygaze_features.store.importing.features import Imported
    from obygaze_features.store.reading import Store

# The title of a group of options.
CLIPS = "Clips"


@done_in("obygaze_features.extraction.costs")
def plan_extraction(
    manifest: PathLike | Manifest,
    backbones: Backbones = (),
    *,
    arrays: ArrayNames = (),
    weights: Weights = (),
    stores: Stores = None,
    dtype: ComputeDtype = "float32",
    device: Device = "cpu",
    workers: Workers = None,
    workspace: PathLike | None = None,
) -> Cost:
    """Count what is missing, measure one clip, and say how long a run takes.

    One clip is decoded, and one is computed with each backbone. Of h100 and a100, which need not be
    there, the time is by the operations that the card states. Where a GPU waits for the cores, the
    plan says how many would feed it. No store is changed or made. On a disk without hard links, a
    run needs twice the size. The weights must be there (`obygaze backbones fetch`); none are
    downloaded. The exit code is 5 where `extract run` would refuse to add to a store.

    Args:
        manifest: The clips, linked to their videos (`obygaze manifest link`).
        backbones: A backbone, or your own code (FILE.py:NAME).
        arrays: The arrays to store, of the backbones that have one of them. [default: all but
            tokens, or those of the store]
        weights: File or folder of weights.
        stores: Store of a backbone. [default: MANIFEST.NAME]
        dtype: Compute in this precision.
        device: The device that computes: cpu, cuda, cuda:1, or h100, a100 elsewhere.
        workers: Processes that decode, on the machine of the run.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze extract plan obygaze12 -b xclip-b16-k600-zs -b vivit-b16x2-k400
        obygaze extract plan obygaze12 -b clip-b16 --device h100 --workers 16
        obygaze extract plan obygaze12 -b clip-b16 --arrays clip,pooled,tokens --json
    """


@done_in("obygaze_features.extraction.extracting")
def extract(
    manifest: PathLike | Manifest,
    backbones: Backbones = (),
    *,
    retry_failed: Annotated[bool, Option(group=CLIPS)] = False,
    accept_damaged: Annotated[bool, Option(group=CLIPS)] = False,
    timeout_s: Annotated[float, Option("--timeout", above=0, group=CLIPS)] = TIMEOUT_S,
    arrays: ArrayNames = (),
    weights: Weights = (),
    stores: Stores = None,
    dtype: ComputeDtype = "float32",
    licence: Annotated[str, Option(group=FEATURES)] = "",
    device: Device = "cpu",
    workers: Workers = None,
    batch: Annotated[int | None, Option(least=1, group=MACHINE)] = None,
    seal_now: Annotated[bool, Option(group=CLIPS)] = False,
    watch: Annotated[Watch | None, PYTHON_ONLY] = None,
    progress: bool | ProgressBars = False,
    note: Callable[[str], object] = silent,
    workspace: PathLike | None = None,
) -> Extraction:
    """Extract what is missing; the same command resumes.

    All backbones share one decoding of each clip; a film without sound fails in the stores of sound
    alone. Any number of these commands may fill the same stores at once, on any machine. A clip
    that fails is a row with its reason; the run goes on and ends with exit code 3, or 1 if no clip
    was extracted. Ctrl-C stops when the batch at work is computed, a second one at once; finished
    blocks are kept. A complete store is sealed. Once more, the command extracts what its store does
    not have: clips that are new in the manifest, clips whose video is new; the new store takes the
    place of the old one, which is kept beside it. The exit code is 5 if the store has another
    recipe or not all of the arrays, if the times or the video of its clips changed, or if it is
    being filled by another version or kind of device.

    Args:
        manifest: The clips, linked to their videos (`obygaze manifest link`).
        backbones: A backbone, or your own code (FILE.py:NAME).
        retry_failed: Try clips again that failed.
        accept_damaged: Take what the decoder gives of damaged pictures and sound.
        timeout_s: Seconds to decode one clip.
        arrays: The arrays to store, of the backbones that have one of them. [default: all but
            tokens, or those of the store]
        weights: File or folder of weights.
        stores: Store of a backbone. [default: MANIFEST.NAME]
        dtype: Compute in this precision.
        licence: The licence of the features. [default: the manifest's]
        device: The device that computes: cpu, cuda or cuda:1.
        workers: Processes that decode or read.
        batch: Clips computed at once. [default: as many as fit]
        seal_now: Seal what is there; the other clips are 'not-extracted'.
        watch: Is called with each row that is decoded, and whether it failed.
        progress: Show a progress bar on stderr.
        note: Is called with what a person should know before the run.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> (state,) = og.extract("trailers", "descriptors")
        >>> state.ok, state.failed
        (2, 1)

    Commands:
        obygaze extract run obygaze12 -b xclip-b16-k600-zs -b vivit-b16x2-k400 --device cuda
        obygaze extract run obygaze12 -b descriptors --workers 4
        obygaze extract run obygaze12 -b xclip-b16-k600-zs -b wav2vec2-base
        obygaze extract run obygaze12 -b frames:xclip-b16-k600-zs --workers 16
        obygaze extract run obygaze12 -b xclip-b16-k600-zs --retry-failed --timeout 900
    """


@done_in("obygaze_features.extraction.slurm")
def write_slurm_script(
    words: Annotated[Sequence[str], Option(metavar="MANIFEST -b BACKBONE...")],
    *,
    tasks: Annotated[int, Option(least=1)],
    out: Annotated[PathLike, Option("-o --output", is_file=True)],
    force: bool = False,
    workspace: PathLike | None = None,
) -> SlurmScript:
    """Write a Slurm script whose tasks share a run.

    It takes all options of `obygaze extract run`, which each task gets, and after -- those of
    sbatch. The weights must be there (`obygaze backbones fetch`); none are downloaded. Exit codes
    of a task are those of `obygaze extract run`. A task is queued again when it is preempted or its
    node fails; after a time limit, submit the script again. Logs are in the folder logs of the
    workspace.

    Args:
        words: What follows `extract run`; after a word `--`, the options of sbatch, which override
            those of the script.
        tasks: Number of tasks.
        out: File of the script.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze extract slurm films -b descriptors --tasks 8 -o night.sh
        obygaze extract slurm films -b clip-b16 --device cuda --tasks 4 -o night.sh -- --gres gpu:1
        obygaze extract slurm films -b descriptors --tasks 8 -o night.sh -- -p long --time 8:00:00
    """


@done_in("obygaze_features.extraction.stored")
def extraction_status(
    stores: Sequence[str], *, workspace: PathLike | None = None
) -> StatusOfStores:
    """Show the progress of stores.

    It can be read during a run: of a store that is being filled, it counts blocks. The name of a
    manifest stands for the stores of its clips.

    Args:
        stores: The names or the folders of stores, or the names of manifests.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze extract status obygaze12.xclip-b16-k600-zs
        obygaze extract status obygaze12 --json
    """


@done_in("obygaze_features.extraction.words")
def extract_words(
    manifest: PathLike | Manifest,
    backbone: Annotated[str, Option("-b --backbone", metavar="NAME")],
    subtitles: Annotated[
        PathLike, Option("--subtitles", metavar="FOLDER|embedded|TABLE")
    ],
    *,
    out: Annotated[
        PathLike | None,
        Option("-o --output", metavar="STORE", shown_default="MANIFEST.NAME"),
    ] = None,
    weights: Annotated[PathLike | None, Option(metavar="PATH")] = None,
    progress: bool | ProgressBars = False,
    workspace: PathLike | None = None,
) -> Imported:
    """Make a store of what is said in clips.

    A folder has a file MOVIE_ID.srt, .vtt or .ass of each film; `embedded` reads the subtitles
    inside the videos; a table has the columns movie_id, start_s, end_s and text of cues, or clip_id
    and text of clips, or is the released table of MObyGaze. A clip has the words of every cue that
    overlaps it, whole; a long text goes through the model in pieces. A clip without words has the
    vector of the empty text. The store has the arrays clip and n_words, and no word.

    Args:
        manifest: The clips.
        backbone: A model of words, or a backbone with a text model.
        subtitles: What is said, and when.
        out: The new store.
        weights: Weights and tokenizer. [default: those of a package or of the hub]
        progress: Show a progress bar on stderr.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze extract words films -b minilm --subtitles subtitles/
        obygaze extract words films -b minilm-multilingual --subtitles embedded -o films.said
        obygaze extract words films -b minilm --subtitles cues.csv --json
        obygaze extract words mobygaze -b minilm --subtitles mobygaze_dataframe.csv
    """


@done_in("obygaze_features.extraction.search")
def search(
    store: Store | PathLike,
    *,
    text: Annotated[str | None, Option(metavar="WORDS")] = None,
    like: Annotated[str | None, Option(metavar="CLIP")] = None,
    array: str | None = None,
    top: Annotated[int, Option(least=1)] = 20,
    weights: str | None = None,
    out: Annotated[PathLike | None, Option("-o --output", metavar="PATH")] = None,
    force: bool = False,
    workspace: PathLike | None = None,
) -> Hits:
    """Find clips by a text or a clip.

    A text needs a store of CLIP, SigLIP or X-CLIP, of CLAP for sound, or of words. Clips without
    words in a store of words, and features that are zeros, are left out. `obygaze manifest export
    MANIFEST FOLDER --as elan --predictions FILE` makes segments of what -o writes.

    Of a clip with several vectors, such as frames, the one most like the query counts; frames that
    pad a short clip do not count. The store is read part by part.

    Args:
        store: A store, its name in the workspace, or a path or URL.
        text: Find clips like this text.
        like: Find clips like this one.
        array: The features to compare. [default: clip, or the first array]
        top: How many clips.
        weights: Weights of the text tower. [default: the backbone's own]
        out: Write the clips to this file: .csv or .xlsx.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> len(og.search("mine", like="alba-001", top=5))
        5

    Commands:
        obygaze search obygaze12.clip-b16 --text "a woman on a bed"
        obygaze search films.clap-htsat-unfused --text "a scream"
        obygaze search films.descriptors --like lake-001 --top 5 -o like.csv --json
    """


class SlurmCommand(SessionCommand):
    """A command that takes the options of other commands: those it does not know, and `--`."""

    ignore_unknown_options = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; of a single `--`, click would tell nothing."""
        if "--" in args:
            place = args.index("--")
            args = [*args[:place], "--", *args[place:]]
        return super().parse_args(ctx, args)


slurm_command = command_of(write_slurm_script, "slurm", kind=SlurmCommand)
