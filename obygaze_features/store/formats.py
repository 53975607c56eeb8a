"""The formats of features: what each is called, and which functions read and write it.

Whatever lists formats goes through this table: help, hints, imports, exports, the search for
exports, and tests.
"""

from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal, NamedTuple

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.files import (
    READ_SPREADSHEETS,
    ZIP_MARK,
    is_workbook,
    require_file,
)

# How many vectors of a clip become one.
Pool = Literal["mean", "max", "last"]
_STORE = "obygaze_features.store"


class Format(NamedTuple):
    """A format of features.

    Args:
        name: Its name.
        about: What such files have, for the help.
        endings: The endings of its files.
        reader: The function that opens a file or folder, in `importing`.
        writer: The function that writes a file; None where features are only read.
        is_file: Whether one file has the features of all clips.
        is_folder: Whether a folder of such files has them.
        has_names: Whether arrays have names in it, and ids an array of their own.
        has_columns: Whether facts of clips are written as columns beside the arrays.
        mark: The first bytes of a file.
    """

    name: str
    about: str
    endings: tuple[str, ...]
    reader: str
    writer: str | None = None
    is_file: bool = True
    is_folder: bool = False
    has_names: bool = True
    has_columns: bool = True
    mark: bytes = b""

    def function(self, name: str = "") -> Any:
        """Return the function that reads the format, or another one beside it."""
        module, _, reader = self.reader.partition(":")
        # Only the format that is read imports what reads it.
        return resolve_name(f"{_STORE}.importing.{module}:{name or reader}")

    def write(self, job: Any, path: Path) -> None:
        """Write an export."""
        resolve_name(f"{_STORE}.{self.writer}")(job, path)


_TABLE = (
    "a table with a row a clip: all columns of numbers are the array clip, and columns that"
    " manifests have, such as level, are no features"
)
FORMATS = {
    format.name: format
    for format in (
        Format(
            name="npz",
            about="arrays with a row a clip, and one of their ids (--id-key, else clip_id); the"
            " only array with one vector a clip is the array clip if its name says nothing, such as"
            " x or features",
            endings=(".npz",),
            reader="npz:open_npz",
            writer="exporting:write_npz",
            mark=ZIP_MARK,
        ),
        Format(
            name="hdf5",
            about="a dataset a clip, or one array and ids; the path in --array NAME=PATH says"
            " where: '{id}' (found without it), '{id}/features' and '{film}/{id}' for a dataset a"
            " clip, and 'features' with --id-key for one array of all",
            endings=(".h5", ".hdf5"),
            reader="hdf5:open_hdf5",
            writer="exporting:write_hdf5",
            has_columns=False,
            mark=b"\x89HDF\r\n\x1a\n",
        ),
        Format(
            name="parquet",
            about="a row a clip: ids, and columns of lists of numbers that have one size",
            endings=(".parquet",),
            reader="parquet:open_parquet",
            writer="exporting:write_parquet",
            is_folder=True,
            mark=b"PAR1",
        ),
        Format("csv", _TABLE, (".csv", ".tsv"), "tables:open_table"),
        Format("xlsx", _TABLE, READ_SPREADSHEETS, "tables:open_table", mark=ZIP_MARK),
        Format(
            name="npy",
            about="a file a clip, in one folder or in one for each film",
            endings=(".npy",),
            reader="trees:open_npy",
            is_file=False,
            is_folder=True,
            has_names=False,
        ),
        Format(
            name="pth",
            about="FOLDER/<film>/<video>.pth, as the released code has it; a tensor is [1, D] or"
            " [1, tokens, D], and files that could run code are refused",
            endings=(".pth", ".pt"),
            reader="trees:open_pth",
            is_file=False,
            is_folder=True,
            has_names=False,
        ),
    )
}
WRITTEN = [format for format in FORMATS.values() if format.writer]
EXPORT_ENDINGS = (*chain.from_iterable(format.endings for format in WRITTEN),)


def text_of_formats() -> str:
    """Return a paragraph on each format that is read, for the help."""
    paragraphs: dict[str, list[str]] = {}
    for format in FORMATS.values():
        inside = "" if format.is_file else "a folder of "
        names = paragraphs.setdefault(format.about, [])
        names.append(f"{inside}{', '.join(format.endings)}")
    return "\n\n".join(
        f"{', '.join(names)}: {about}." for about, names in paragraphs.items()
    )


def format_named(name: str) -> Format:
    """Return the format of a name."""
    if name not in FORMATS:
        raise FixUsage(f"unknown format {name!r}", hint=f"one of {', '.join(FORMATS)}")
    return FORMATS[name]


def format_of_ending(path: Path) -> Format | None:
    """Return the format that the ending of a name says; None if it says none."""
    for format in FORMATS.values():
        if path.suffix.lower() in format.endings:
            return format
    # The reader of spreadsheets says how another kind becomes one that it reads.
    return FORMATS["xlsx"] if is_workbook(path) else None


def format_of_source(source: Path, name: str | None = None) -> Format:
    """Return the format of a file or a folder of features.

    Args:
        source: The file or folder.
        name: The format, if it is stated; else the ending says it, or the files of the folder do.
    """
    if name is None and source.is_dir():
        return _format_of_folder(source)
    format = format_of_ending(source) if name is None else format_named(name)
    if format is not None and format.is_folder and source.is_dir():
        return format
    require_file(source)
    if format is not None and not format.is_file:
        raise FixInput(
            "expected a folder with one file a clip, got a file",
            where=str(source),
            hint="an npz in Python: np.savez('x.npz', clip_id=ids, clip=array)",
        )
    begins_as = _formats_of_start(source)
    if format in begins_as or (format and not begins_as):
        return format
    if format and not format.mark and len(begins_as) > 1:
        # A text file that is a zip file: the reader of tables says which kind.
        return format
    problem = "the ending of this name is that of no format"
    if begins_as:
        problem = f"the name or --as says another format than {begins_as[0].name}, as which the"
        problem += " file begins"
    raise FixUsage(
        problem, where=str(source), hint=f"--as FORMAT, one of {', '.join(FORMATS)}"
    )


def _format_of_folder(folder: Path) -> Format:
    """Return the only format of the files in a folder."""
    names: set[str] = set()
    for path in folder.rglob("*"):
        format = format_of_ending(path)
        is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if format and format.is_folder and not is_hidden:
            names.add(format.name)
    if len(names) == 1:
        return FORMATS[min(names)]
    if names:
        there = ", ".join(sorted(names))
        raise FixInput(
            f"files of several formats: {there}",
            where=str(folder),
            hint="--as FORMAT reads those of one",
        )
    in_folders = [one.endings for one in FORMATS.values() if one.is_folder]
    raise FixInput(
        f"no file in this folder ends with {', '.join(chain(*in_folders))}",
        where=str(folder),
        hint="another folder, or a file: obygaze store import --help lists the formats",
    )


def _formats_of_start(path: Path) -> list[Format]:
    """Return the formats of which a file has the first bytes."""
    with path.open("rb") as stream:
        start = stream.read(8)
    marked = [format for format in FORMATS.values() if format.mark]
    return [format for format in marked if start.startswith(format.mark)]


def format_of_output(path: Path, name: str | None = None) -> Format:
    """Return the format of an export.

    Args:
        path: The new file or folder.
        name: The format of a new folder; else the ending of the name says it.
    """
    of_ending = format_of_ending(path)
    format = of_ending if name is None else format_named(name)
    if format is None or format not in WRITTEN:
        what = f"the ending {path.suffix!r}" if name is None else f"the format {name}"
        raise FixUsage(
            f"{what} is none that features are written in",
            where=str(path),
            hint=f"a name that ends with {', '.join(EXPORT_ENDINGS)}, or --as parquet for a folder",
        )
    if of_ending is not format and (of_ending or not format.is_folder):
        raise FixUsage(
            f"the name of a file of the format {format.name} ends with"
            f" {' or '.join(format.endings)}",
            where=str(path),
            hint=f"the name {path.stem}{format.endings[0]}",
        )
    return format
