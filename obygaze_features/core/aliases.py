"""Other names of commands, options and arguments, which work and are not in the help.

People who know other programs type `list` for `ls` and `--out` for `--output`. Each of these names
stands in a table here. A name of a table is used only where a group has no command, and a command
no option, of this name, and exactly one that it can stand for.
"""

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path, PurePath

# What a person types, and the commands that it may stand for.
COMMANDS: Mapping[str, Sequence[str]] = {
    "list": ("ls",),
    "dir": ("ls",),
    "show": ("info", "probe"),
    "info": ("show", "probe"),
    "describe": ("show", "info", "probe"),
    "check": ("verify",),
    "verify": ("check",),
    "validate": ("check", "verify"),
    "compare": ("diff",),
    "history": ("log",),
    "versions": ("log",),
    "license": ("licence",),
    "download": ("fetch", "pull"),
    "upload": ("push",),
    "statistics": ("stats",),
    "stat": ("stats",),
    "agreement": ("agree",),
    "fold": ("folds",),
    "window": ("windows",),
    "zip": ("pack",),
    "unzip": ("unpack",),
    "manifests": ("manifest",),
    "stores": ("store",),
    "backbone": ("backbones",),
    "videos": ("video",),
    "model": ("models",),
    "audits": ("audit",),
    "reports": ("report",),
    "elan": ("segments",),
    "eaf": ("segments",),
    "table": ("csv",),
    "xlsx": ("csv",),
    "ods": ("csv",),
}

# The same for the formats that `store import`, `store export` and `manifest export` take.
FORMATS: Mapping[str, Sequence[str]] = {
    "h5": ("hdf5",),
    "hdf": ("hdf5",),
    "pt": ("pth",),
    "numpy": ("npz",),
    "eaf": ("elan",),
    "subtitles": ("vtt",),
    "webvtt": ("vtt",),
}

# Options that stand for each other. An argument counts as the option of its name.
OPTIONS: Sequence[Sequence[str]] = (
    ("--output", "--out"),
    ("--film", "--films", "--movie", "--movies"),
    ("--clips", "--clip"),
    ("--concepts", "--concept"),
    ("--array", "--arrays"),
    ("--backbone", "--backbones"),
    ("--store", "--stores"),
    ("--manifest", "--manifests"),
    ("--model", "--models"),
    ("--run", "--runs"),
    ("--task", "--tasks"),
    ("--level", "--levels"),
    ("--licence", "--license"),
    ("--format", "--kind", "--to"),
    ("--target", "--to"),
    ("--separator", "--sep", "--delimiter"),
    ("--batch", "--batch-size"),
    ("--like", "--similar"),
    ("--limit", "--top"),
    ("--ids", "--id-file"),
)

# The same for options without a value.
SWITCHES: Sequence[Sequence[str]] = (
    ("--force", "--overwrite", "--replace"),
    ("--hash", "--hashes", "--full", "--deep"),
)

# Which command of a group reads a file whose name ends so.
FILES: Mapping[str, Mapping[str, str]] = {
    "manifest import": {
        ".csv": "csv",
        ".tsv": "csv",
        ".xlsx": "csv",
        ".xls": "csv",
        ".ods": "csv",
        ".eaf": "segments",
    },
}

# The format of a file whose name ends so.
ENDINGS: Mapping[str, str] = {
    ".csv": "csv",
    ".npz": "npz",
    ".npy": "npy",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".pth": "pth",
    ".pt": "pth",
    ".parquet": "parquet",
    ".eaf": "elan",
    ".srt": "srt",
    ".vtt": "vtt",
}

# The folder of a workspace whose names the commands of a group take.
FOLDERS: Mapping[str, str] = {
    "manifest": "manifests",
    "store": "stores",
    "models": "models",
}

# What a group does with a name alone: it shows what the name stands for.
SHOWN_BY: Mapping[str, str] = {
    "manifest": "show",
    "store": "info",
    "models": "show",
}

# What to type in place of a command that does not exist; {rest} is what was typed behind it.
INSTEAD: Mapping[tuple[str, str], str] = {
    ("store", "rm"): "delete the folder: rm -r stores/{rest}",
    ("store", "rename"): "rename the folder: mv stores/OLD stores/NEW",
    ("store", "copy"): "obygaze store subset STORE -o NEW copies a store",
    ("store", "citation"): "obygaze store licence {rest}",
    ("store", "cite"): "obygaze store licence {rest}",
    ("models", "rm"): "delete the folder: rm -r models/{rest}",
    ("models", "rename"): "rename the folder: mv models/OLD models/NEW",
    (
        "manifest",
        "rm",
    ): "delete its files: rm manifests/{rest}.toml manifests/{rest}.csv",
    (
        "manifest",
        "rename",
    ): "rename both files: manifests/OLD.toml and manifests/OLD.csv",
    (
        "manifest",
        "edit",
    ): "edit manifests/{rest}.csv, then obygaze manifest check {rest}",
    ("manifest", "split"): "obygaze manifest folds {rest}",
    ("manifest", "merge"): "obygaze manifest join MANIFEST TABLE.csv",
    ("manifest", "concepts"): "obygaze manifest stats {rest}",
    ("manifest", "films"): "obygaze manifest stats {rest}",
    ("manifest", "levels"): "obygaze manifest stats {rest}",
    (
        "",
        "runs",
    ): "obygaze compare RUN RUN, obygaze report RUN; runs are the folders in runs/",
    ("", "protocols"): "obygaze run --list",
    ("", "test"): "obygaze doctor",
    ("", "cite"): "obygaze store licence STORE; for the program, CITATION.cff",
    ("", "annotate"): "obygaze view MANIFEST --annotate NAME",
    ("", "segment"): "obygaze view MANIFEST --annotate NAME",
    ("", "evaluate"): "obygaze train MODEL STORE MANIFEST, or obygaze run PROTOCOL",
}

# The same for a file or folder where the name of a command is expected, by its ending.
INSTEAD_OF_FILES: Mapping[tuple[str, str], str] = {
    (
        "manifest import",
        "folder",
    ): "obygaze manifest import folder {rest}, for a folder of films",
    (
        "manifest import",
        ".mp4",
    ): "obygaze manifest import folder FOLDER, with the folder it is in",
    (
        "manifest import",
        ".mkv",
    ): "obygaze manifest import folder FOLDER, with the folder it is in",
    ("manifest import", ".vtt"): "obygaze manifest import segments {rest} --fps 25",
    (
        "manifest import",
        ".json",
    ): "obygaze manifest import moviegraphs {rest}, or a .csv file",
    ("store import", ".zip"): "obygaze store unpack {rest}",
}

# What to type in place of an option that does not exist; "" stands for all commands, {rest} is
# what was typed besides.
INSTEAD_OF_OPTIONS: Mapping[tuple[str, str], str] = {
    ("", "--gpu"): "--device cuda in its place, or --device cuda:1",
    ("", "--cuda"): "--device cuda in its place",
    ("", "--cpu"): "--device cpu in its place",
    ("extract run", "--dry-run"): "obygaze extract plan {rest}",
    ("extract run", "--estimate"): "obygaze extract plan {rest}",
    ("extract run", "--resume"): "obygaze extract run {rest}, which resumes",
    ("extract run", "--force"): "obygaze extract run {rest} --retry-failed",
    (
        "extract run",
        "--film",
    ): "obygaze store subset STORE --film FILM -o NAME, afterwards",
    ("extract run", "--output"): "--store BACKBONE=NAME in its place",
    ("train", "--array"): "--set 'features.array=[\"pooled\"]' in its place",
    ("train", "--level"): "--set 'features.array=[\"pooled\"]' in its place",
    ("train", "--folds"): "--set splits.folds=5 in its place",
    ("train", "--list"): "obygaze train --help lists the models",
    ("train", "--target"): "--task in its place: EN_S, HN_S or ENHN_S",
    ("train", "--seed"): "--set fit.seed=1 in its place",
    (
        "store verify",
        "--all",
    ): "obygaze store verify STORE --hash, for one store at a time",
    (
        "manifest windows",
        "--length",
    ): "--seconds 2 --every 1 in its place: 2 s each second",
    (
        "manifest windows",
        "--size",
    ): "--seconds 2 --every 1 in its place: 2 s each second",
    ("manifest folds", "--k"): "-k 5, or --folds 5, in its place",
    (
        "manifest join",
        "--output",
    ): "obygaze manifest join {rest}, which changes the manifest",
    ("manifest stats", "--concept"): "obygaze manifest show MANIFEST --concept NAME",
    ("manifest stats", "--level"): "obygaze manifest show MANIFEST --level S",
    ("manifest link", "--videos"): "the folder behind the manifest: MANIFEST FOLDER",
    ("video frames", "--film"): "the path of its file in its place",
    (
        "store subset",
        "--level",
    ): "--clips FILE in its place; manifest show lists the clips",
    (
        "store subset",
        "--where",
    ): "--clips FILE in its place; manifest show lists the clips",
    ("store export", "--film"): "obygaze store subset STORE --film FILM -o NAME first",
    (
        "store export",
        "--clips",
    ): "obygaze store subset STORE --clips FILE -o NAME first",
    (
        "models predict",
        "--film",
    ): "--clips FILE in its place, with the clips of the film",
    ("run", "--model"): "--set 'grid.models=[\"ridge\"]' in its place",
    ("run", "--seed"): "--set fit.seed=1 in its place",
    ("run", "--folds"): "--set splits.folds=5 in its place",
    ("report", "--open"): "obygaze report {rest}, which names the file to open",
    ("report", "--title"): "obygaze report {rest}",
}
_SAME_OPTIONS: Mapping[str, str] = {
    "-o": "--output",
    "--out": "--output",
    "--name": "--output",
    "--films": "--film",
    "--movie": "--film",
    "-k": "--folds",
    "--arrays": "--array",
}

_SAME_WORDS: Mapping[str, str] = {
    "delete": "rm",
    "remove": "rm",
    "del": "rm",
    "mv": "rename",
    "move": "rename",
    "cp": "copy",
    "clone": "copy",
    "splits": "split",
}

_OUTPUT = ("-o", "--output", "--out")


def command_named(typed: str, names: Collection[str]) -> str | None:
    """Return the one command of a group that a word stands for, None if there is none."""
    return _only(COMMANDS.get(typed, ()), names)


def command_for_file(words: Sequence[str], typed: str) -> str | None:
    """Return the command of a group that reads a file, None if the word is no file it reads."""
    endings = FILES.get(" ".join(words), {})
    command = endings.get(PurePath(typed).suffix.lower())
    return command if command and Path(typed).is_file() else None


def lines_instead(group: Sequence[str], typed: Sequence[str]) -> list[str]:
    """Return what to type in place of a command that does not exist.

    Args:
        group: The words of the group.
        typed: The words that were typed behind them, of which the first is no command.
    """
    words = " ".join(group)
    in_place_of_file = file_instead(words, typed)
    if in_place_of_file is not None:
        return [in_place_of_file]
    command = _SAME_WORDS.get(typed[0], typed[0])
    line = INSTEAD.get((words, command))
    if line is None:
        return []
    names = [word for word in typed[1:] if not word.startswith("-")]
    return [line.format(rest=" ".join(names[:1]) or "NAME")]


def file_instead(command: str, typed: Sequence[str]) -> str | None:
    """Return what to type in place of a line that names a file or folder too early."""
    path = Path(typed[0])
    ending = "folder" if path.is_dir() else path.suffix.lower()
    line = INSTEAD_OF_FILES.get((command, ending))
    return line.format(rest=shlex.join(typed)) if line else None


def option_instead(command: str, flag: str, others: Sequence[str]) -> str | None:
    """Return what to type in place of an option that a command does not have.

    Args:
        command: The words of the command.
        flag: The option.
        others: What was typed besides it.
    """
    option = _SAME_OPTIONS.get(flag, flag)
    line = INSTEAD_OF_OPTIONS.get((command, option)) or INSTEAD_OF_OPTIONS.get(
        ("", option)
    )
    return line.format(rest=shlex.join(others)) if line else None


def other_names(
    flags: Collection[str], known: Collection[str], *, is_switch: bool = False
) -> list[str]:
    """Return further names of an option or argument of a command.

    Args:
        flags: The names that it has.
        known: The names that the options and arguments of the command have, it among them.
        is_switch: Whether it takes no value.
    """
    others: list[str] = []
    for names in SWITCHES if is_switch else OPTIONS:
        used = [name for name in names if name in known]
        if len(used) == 1 and used[0] in flags:
            others.extend(name for name in names if name not in known)
    return others


def flags_of_argument(name: str) -> list[str]:
    """Return the options that an argument may be typed as."""
    if name == "path":
        return list(_OUTPUT)
    return [f"--{name.replace('_', '-')}"]


def with_format(words: Sequence[str], formats: Collection[str]) -> list[str]:
    """Return the words of a command line with the format first, where another word says it.

    Args:
        words: What was typed behind the command, whose first argument is a format.
        formats: The formats that it takes.
    """
    given = list(words)
    if not given or given[0].startswith("-") or given[0] in formats:
        return given
    named = _only(FORMATS.get(given[0], ()), formats)
    if named:
        return [named, *given[1:]]
    if any(word in {"--format", "--to", "--kind"} for word in given):
        return given
    if len(given) > 1 and given[1] in formats:
        return [given[1], given[0], *given[2:]]
    named_files = [*_outputs(given), given[0]]
    if Path(given[0]).exists():
        named_files = [given[0]]
    for word in named_files:
        format_of_file = ENDINGS.get(PurePath(word).suffix.lower())
        if format_of_file in formats:
            return [str(format_of_file), *given]
    return given


def _outputs(words: Sequence[str]) -> list[str]:
    """Return the words that may name the file to write."""
    outputs = []
    for before, word in pairwise(words):
        if before in _OUTPUT or before == words[0]:
            outputs.append(word)
    return outputs


def _only(candidates: Iterable[str], names: Collection[str]) -> str | None:
    """Return the one candidate that is among the names, None if there is none or several."""
    possible = [name for name in candidates if name in names]
    return possible[0] if len(possible) == 1 else None
