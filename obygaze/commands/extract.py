"""The commands of `obygaze extract`, and `obygaze search`."""

from collections.abc import Mapping, Sequence
from typing import Literal

import click

from obygaze.commands.shared import (
    FILE,
    NAME,
    Choice,
    Command,
    F,
    FiniteFloat,
    Group,
    Result,
    Session,
    force_option,
    mapping_option,
    split_items,
)
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.machine import MAX_WORKERS


@click.group(
    cls=Group,
    headings={
        "Pictures and sound": "plan run status slurm",
        "Words and texts": "words text",
    },
)
def extract() -> None:
    """Compute the features of clips."""


RUN_HEADINGS = {"Features": "backbone arrays weights store dtype licence"}


def run_options(function: F) -> F:
    """Add the options that `extract run` and `extract slurm` share."""
    options = (
        click.option(
            "-b",
            "--backbone",
            "backbones",
            multiple=True,
            metavar="NAME",
            help="Name of a backbone, or your own code (FILE.py:NAME). Repeatable.",
        ),
        click.option("--retry-failed", is_flag=True, help="Try failed clips again."),
        click.option(
            "--accept-damaged",
            is_flag=True,
            help="Use damaged pictures and sound as they are decoded.",
        ),
        click.option(
            "--timeout",
            "timeout_s",
            default=300.0,
            metavar="SECONDS",
            type=FiniteFloat(min=0, min_open=True),
            help="Largest time to decode one clip, in seconds.",
        ),
        click.option(
            "--arrays",
            default="",
            show_default="all but tokens",
            metavar="A,B",
            help="Arrays to store.",
        ),
        click.option(
            "--weights",
            multiple=True,
            metavar="[NAME=]PATH",
            help="File or folder of weights. Repeatable.",
        ),
        mapping_option(
            "--store",
            "stores",
            metavar="NAME=STORE",
            is_path=True,
            show_default="MANIFEST.NAME",
            help="Store of a backbone.",
        ),
        click.option(
            "--dtype",
            default="float32",
            metavar="DTYPE",
            type=Choice(["float32", "bfloat16", "float16"]),
            help="Precision: float32, bfloat16 or float16.",
        ),
        click.option(
            "--licence",
            metavar="NAME",
            default="",
            show_default=False,
            help="Licence of the features; kept frames get none.",
        ),
        click.option(
            "--device",
            metavar="DEVICE",
            default="auto",
            help="Device that computes: auto (an idle GPU, else the CPU), cpu, cuda or cuda:1.",
        ),
        click.option(
            "--workers",
            show_default="one per core",
            metavar="N",
            type=click.IntRange(min=1, max=MAX_WORKERS),
            help="Processes that decode or read clips.",
        ),
        click.option(
            "--batch",
            show_default="16 on a GPU, fewer if memory is full",
            metavar="N",
            type=click.IntRange(min=1),
            help="Number of clips that are computed at once.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


class SlurmCommand(Command):
    """A command whose unknown options may be options of sbatch."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; the error for an unknown option says where those of sbatch go."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name == "--seal-now":
                raise FixUsage(
                    "--seal-now would leave no clips to the tasks of the script",
                    hint="remove --seal-now; when the tasks have ended, run: obygaze extract run"
                    " ... --seal-now",
                ) from error
            raise FixUsage(
                error.format_message(),
                hint="if it is an option of sbatch, write it at the end: --"
                f" {error.option_name}",
            ) from error


@extract.command("plan", headings={"Features": "backbone arrays weights store dtype"})
@click.argument(
    "manifest",
    type=NAME,
    help="The clips, linked to their videos (obygaze manifest link).",
)
@click.option(
    "-b",
    "--backbone",
    "backbones",
    multiple=True,
    metavar="NAME",
    help="Name of a backbone, or your own code (FILE.py:NAME). Repeatable.",
)
@click.option(
    "--arrays",
    default="",
    show_default="all but tokens, or the arrays of the store",
    metavar="A,B",
    help="Arrays to store, of the backbones that have them.",
)
@click.option(
    "--weights",
    multiple=True,
    metavar="[NAME=]PATH",
    help="File or folder of weights. Repeatable.",
)
@mapping_option(
    "--store",
    "stores",
    metavar="NAME=STORE",
    is_path=True,
    show_default="MANIFEST.NAME",
    help="Store of a backbone.",
)
@click.option(
    "--dtype",
    default="float32",
    metavar="DTYPE",
    type=Choice(["float32", "bfloat16", "float16"]),
    help="Precision: float32, bfloat16 or float16.",
)
@click.option(
    "--device",
    metavar="DEVICE",
    default="auto",
    help="Device of the run: auto (an idle GPU, else the CPU), cpu, cuda or cuda:1; h100"
    " or a100 of a different machine.",
)
@click.option(
    "--workers",
    show_default="one per core",
    metavar="N",
    type=click.IntRange(min=1, max=MAX_WORKERS),
    help="Number of processes that decode, on the machine of the run.",
)
@click.pass_obj
def plan(
    session: Session,
    manifest: str,
    backbones: Sequence[str],
    arrays: str,
    weights: Sequence[str],
    stores: Mapping[str, str] | None,
    dtype: Literal["float32", "bfloat16", "float16"],
    device: str,
    workers: int | None,
) -> Result:
    """Count missing clips, measure a few clips, and estimate the time of a run.

    Clips that a run decodes together are decoded, and one of them is computed with each backbone.
    The devices h100 and a100 need not be in this machine: their time is estimated from the
    operations that the card states. If a GPU would wait for decoded clips, the plan states how many
    cores would keep it busy. No store is created or changed, and no weights are downloaded:
    `obygaze backbones fetch` downloads missing weights.
    The exit code is 5 if `extract run` would refuse to add to a store.

    Examples:
        obygaze extract plan obygaze12 -b xclip-b16-k600-zs -b vivit-b16x2-k400
        obygaze extract plan obygaze12 -b clip-b16 --device h100 --workers 16
        obygaze extract plan obygaze12 -b clip-b16 --arrays clip,pooled,tokens --json
    """
    from obygaze_features.extraction.costs import plan_extraction

    return plan_extraction(
        manifest,
        backbones=backbones,
        arrays=split_items(arrays),
        weights=weights,
        stores=stores,
        dtype=dtype,
        device=device,
        workers=workers,
        workspace=session.root,
    )


@extract.command("run", headings=RUN_HEADINGS)
@click.argument(
    "manifest",
    type=NAME,
    help="The clips, linked to their videos (obygaze manifest link).",
)
@run_options
@click.option(
    "--seal-now",
    is_flag=True,
    help="Seal finished blocks; other clips are 'not-extracted'.",
)
@click.pass_obj
def run(
    session: Session,
    manifest: str,
    backbones: Sequence[str],
    retry_failed: bool,
    accept_damaged: bool,
    timeout_s: float,
    arrays: str,
    weights: Sequence[str],
    stores: Mapping[str, str] | None,
    dtype: Literal["float32", "bfloat16", "float16"],
    licence: str,
    device: str,
    workers: int | None,
    batch: int | None,
    seal_now: bool,
) -> Result:
    """Extract the missing features of clips; the same command resumes.

    All backbones share one decoding of each clip. Several commands, on one or more machines, may
    fill the same stores at once. Ctrl-C stops after the current batch; finished blocks are kept. A
    complete store is sealed; later, the same command adds new clips. A clip that fails has a row
    with the reason, and the exit code is 3. docs/guide/extraction.md lists what is refused (exit
    code 5).

    Examples:
        obygaze extract run obygaze12 -b xclip-b16-k600-zs -b wav2vec2-base
        obygaze extract run obygaze12 -b frames:xclip-b16-k600-zs --workers 16
        obygaze extract run films -b xclip-b16-k600-zs --retry-failed --timeout 900
    """
    from obygaze_features.extraction.extracting import extract

    return extract(
        manifest,
        backbones=backbones,
        retry_failed=retry_failed,
        accept_damaged=accept_damaged,
        timeout_s=timeout_s,
        arrays=split_items(arrays),
        weights=weights,
        stores=stores,
        dtype=dtype,
        licence=licence,
        device=device,
        workers=workers,
        batch=batch,
        seal_now=seal_now,
        progress=session.bars,
        note=session.console.note,
        workspace=session.root,
    )


@extract.command("status")
@click.argument(
    "stores",
    nargs=-1,
    required=True,
    help="Names or folders of stores, or names of manifests.",
)
@click.pass_obj
def status(session: Session, stores: Sequence[str]) -> Result:
    """Show how many clips of stores are extracted, and which clips failed.

    The command can be used during a run: it counts the finished blocks of a store that is being
    filled. The name of a manifest stands for all stores of its clips.

    Examples:
        obygaze extract status obygaze12.xclip-b16-k600-zs
        obygaze extract status obygaze12 --json
    """
    from obygaze_features.extraction.stored import extraction_status

    return extraction_status(stores, workspace=session.root)


@extract.command("slurm", cls=SlurmCommand, headings=RUN_HEADINGS)
@click.argument("manifest", type=NAME, help="The clips, linked to their videos.")
@click.argument(
    "sbatch",
    nargs=-1,
    metavar="[-- SBATCH]",
    help="Options of sbatch, which override those in the script.",
)
@click.option(
    "--tasks",
    metavar="N",
    required=True,
    type=click.IntRange(min=1),
    help="Number of tasks.",
)
@click.option(
    "-o", "--output", "out", required=True, type=FILE, help="File of the new script."
)
@click.option(
    "--decode-first",
    is_flag=True,
    help="Keep the pictures first, by a second script without the options of sbatch.",
)
@force_option
@run_options
@click.pass_obj
def slurm(
    session: Session,
    manifest: str,
    sbatch: Sequence[str],
    tasks: int,
    out: str,
    decode_first: bool,
    force: bool,
    backbones: Sequence[str],
    retry_failed: bool,
    accept_damaged: bool,
    timeout_s: float,
    arrays: str,
    weights: Sequence[str],
    stores: Mapping[str, str] | None,
    dtype: Literal["float32", "bfloat16", "float16"],
    licence: str,
    device: str,
    workers: int | None,
    batch: int | None,
) -> Result:
    """Write a Slurm script whose tasks extract features together.

    The options are those of `obygaze extract run`; options of sbatch follow after --. Weights are
    not downloaded. A task is queued again before its time ends, and if it is preempted or its node
    fails. Logs are in the folder logs of the workspace. With --decode-first, NAME-frames.sh keeps
    the pictures on CPUs, and the tasks begin when it has ended: the printed command submits both.

    Examples:
        obygaze extract slurm films -b descriptors --tasks 8 -o night.sh
        obygaze extract slurm films -b clip-b16 --tasks 4 -o night.sh -- --gres gpu:1
        obygaze extract slurm films -b clip-b16 --tasks 4 -o night.sh --decode-first
    """
    from obygaze_features.extraction.slurm import write_slurm_script

    if sbatch and not sbatch[0].startswith("-"):
        raise FixUsage(
            f"got an unexpected word {sbatch[0]!r}; options of sbatch begin with -"
        )
    return write_slurm_script(
        manifest,
        backbones,
        tasks=tasks,
        out=out,
        sbatch=sbatch,
        retry_failed=retry_failed,
        accept_damaged=accept_damaged,
        timeout_s=timeout_s,
        arrays=split_items(arrays),
        weights=weights,
        stores=stores,
        dtype=dtype,
        licence=licence,
        device=device,
        workers=workers,
        batch=batch,
        decode_first=decode_first,
        force=force,
        workspace=session.root,
    )


@extract.command("words")
@click.argument("manifest", type=NAME, help="The clips.")
@click.option(
    "-b",
    "--backbone",
    required=True,
    metavar="NAME",
    help="Name of a model of words, or of a backbone with a text model.",
)
@click.option(
    "--subtitles",
    required=True,
    metavar="FOLDER|TABLE",
    type=NAME,
    help="Source of the spoken words.",
)
@click.option(
    "-o",
    "--output",
    "out",
    show_default="MANIFEST.NAME",
    metavar="STORE",
    type=NAME,
    help="Name or folder of the new store.",
)
@click.option(
    "--weights",
    show_default="from a package or the hub",
    metavar="PATH",
    type=NAME,
    help="File or folder of weights, with the tokenizer.",
)
@mapping_option(
    "--word",
    "meanings",
    metavar="OLD=NEW",
    help="NA=? if a text NA of the table means none, NA=NA if it is a text.",
)
@click.pass_obj
def words(
    session: Session,
    manifest: str,
    backbone: str,
    subtitles: str,
    out: str | None,
    weights: str | None,
    meanings: Mapping[str, str] | None,
) -> Result:
    """Make a store of vectors of the spoken words of clips.

    --subtitles is a folder with a file MOVIE_ID.srt or .vtt for each film; or a table of the texts
    of clips (clip_id, text); or the released table of MObyGaze. The text of a clip is every cue
    that overlaps the clip, each cue whole; the model reads a long text in pieces. A clip without
    words has the vector of the empty text. The store has the arrays clip and n_words, and contains
    no words.

    Examples:
        obygaze extract words films -b minilm --subtitles subtitles/
        obygaze extract words films -b minilm --subtitles said/ -o films.said
        obygaze extract words films -b minilm --subtitles texts.csv --json
        obygaze extract words mobygaze -b minilm --subtitles mobygaze_dataframe.csv
    """
    from obygaze_features.extraction.words import extract_words

    return extract_words(
        manifest,
        backbone,
        subtitles,
        out=out,
        weights=weights,
        meanings=meanings,
        progress=session.bars,
        workspace=session.root,
    )


@extract.command("text")
@click.option(
    "-b",
    "--backbone",
    required=True,
    metavar="NAME",
    help="Name of a backbone with a text model.",
)
@click.option(
    "--prompts",
    required=True,
    metavar="SET",
    type=NAME,
    help="Set of prompts: emotion, emotion-contrast, person, profession, "
    "wolfe2023-emotion, wolfe2023-maps, wolfe2023-profession, or a TOML file.",
)
@click.option(
    "-o",
    "--output",
    "out",
    show_default="texts/BACKBONE.SET.npz",
    type=FILE,
    help="New .npz file.",
)
@click.option(
    "--weights",
    show_default="from the hub",
    metavar="PATH",
    type=NAME,
    help="File or folder of weights, with the tokenizer.",
)
@force_option
@click.pass_obj
def text(
    session: Session,
    backbone: str,
    prompts: str,
    out: str | None,
    weights: str | None,
    force: bool,
) -> Result:
    """Compute vectors of prompts, in the embedding space of a backbone.

    The vectors are the output of the text model of the backbone, not normalised. The file also
    contains the name of the embedding space. Vectors of X-CLIP are taken before its video prompts,
    so they are the same for every clip.

    Examples:
        obygaze extract text -b clip-b16 --prompts emotion
        obygaze extract text -b xclip-b16-k600-zs --prompts mine.toml -o texts.npz
        obygaze extract text -b clip-b16 --prompts person --weights folder --json
    """
    from obygaze_features.extraction.text import embed_texts

    return embed_texts(
        backbone, prompts, out=out, weights=weights, force=force, workspace=session.root
    )


@click.command("search", cls=Command)
@click.argument(
    "store", type=NAME, help="Name of a store in the workspace, its path or its URL."
)
@click.option("--text", metavar="WORDS", help="Text to search for.")
@click.option("--like", metavar="CLIP", help="Id of a clip; find other clips like it.")
@click.option(
    "--array", show_default="clip, or the first array", help="Array to compare."
)
@click.option(
    "--top",
    default=20,
    metavar="N",
    type=click.IntRange(min=1),
    help="Number of clips.",
)
@click.option(
    "--weights",
    show_default="the checkpoint of the backbone",
    metavar="PATH",
    help="Weights of the text model.",
)
@click.option(
    "-o",
    "--output",
    "out",
    metavar="PATH",
    type=NAME,
    help="New table of the clips: .csv or .xlsx.",
)
@force_option
@click.pass_obj
def search(
    session: Session,
    store: str,
    text: str | None,
    like: str | None,
    array: str | None,
    top: int,
    weights: str | None,
    out: str | None,
    force: bool,
) -> Result:
    """Find the clips that are most like a text or a clip.

    --text needs a store of CLIP, SigLIP or X-CLIP, of CLAP for sound, or of words. Clips without
    words (in a store of words) and clips whose features are zeros are excluded. `obygaze marks
    scores MANIFEST TABLE FOLDER` makes tiers of ELAN files of the table of -o.

    If a clip has several vectors, such as one per frame, the vector that is most like the query
    counts; frames that pad a short clip do not count. The store is read in parts.

    Examples:
        obygaze search obygaze12.clip-b16 --text "a woman on a bed"
        obygaze search films.clap-htsat-unfused --text "a scream"
        obygaze search films.descriptors --like lake-001 --top 5 -o like.csv --json
    """
    from obygaze_features.extraction.search import search

    return search(
        store,
        text=text,
        like=like,
        array=array,
        top=top,
        weights=weights,
        out=out,
        force=force,
        workspace=session.root,
    )
