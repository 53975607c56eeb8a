"""The formats of features: what each is called, and which functions read and write it.

Whatever lists formats goes through this table: hints, imports, exports, and tests.
"""

from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal, NamedTuple

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.files import require_file
from obygaze_features.core.shell import shell_word

# How many vectors of a clip become one.
Pool = Literal["mean", "max", "last"]
_STORE = "obygaze_features.store"


class Format(NamedTuple):
    """A format of features.

    Args:
        name: Its name.
        endings: The endings of its files.
        reader: The function that opens a file or folder, in `importing`.
        writer: The function that writes a file; None where features are only read.
        is_file: Whether one file has the features of all clips.
        is_folder: Whether a folder of such files has them.
        has_names: Whether arrays have names in it, and ids an array of their own.
        has_columns: Whether facts of clips are written as columns beside the arrays.
    """

    name: str
    endings: tuple[str, ...]
    reader: str
    writer: str | None = None
    is_file: bool = True
    is_folder: bool = False
    has_names: bool = True
    has_columns: bool = True

    def open(self, source: Path, **options: Any) -> Any:
        """Open a file or folder."""
        # Only the format that is read imports what reads it.
        return resolve_name(f"{_STORE}.importing.{self.reader}")(source, **options)

    def write(self, job: Any, path: Path) -> None:
        """Write an export."""
        resolve_name(f"{_STORE}.{self.writer}")(job, path)


FORMATS = {
    format.name: format
    for format in (
        Format(
            name="npz",
            endings=(".npz",),
            reader="npz:open_npz",
            writer="exporting:write_npz",
        ),
        Format(
            name="hdf5",
            endings=(".h5", ".hdf5"),
            reader="hdf5:open_hdf5",
            writer="exporting:write_hdf5",
            has_columns=False,
        ),
        Format(
            name="parquet",
            endings=(".parquet",),
            reader="parquet:open_parquet",
            writer="exporting:write_parquet",
            is_folder=True,
        ),
        Format(
            name="npy",
            endings=(".npy",),
            reader="trees:open_npy",
            is_file=False,
            is_folder=True,
            has_names=False,
        ),
        Format(
            name="pth",
            endings=(".pth", ".pt"),
            reader="trees:open_pth",
            is_file=False,
            is_folder=True,
            has_names=False,
        ),
    )
}
WRITTEN = [format for format in FORMATS.values() if format.writer]
# The format that is a table, with labels as columns; as a folder, the hub reads it.
TABLE = "parquet"
EXPORT_ENDINGS = (*chain.from_iterable(format.endings for format in WRITTEN),)


def format_of_ending(path: Path) -> Format | None:
    """Return the format that the ending of a name says; None if it says none."""
    for format in FORMATS.values():
        if path.suffix.lower() in format.endings:
            return format
    return None


def format_of_source(source: Path) -> Format:
    """Return the format of a file or a folder of features, as its ending or its files say it."""
    if source.is_dir():
        return _format_of_folder(source)
    require_file(source)
    format = format_of_ending(source)
    if format is None:
        endings = [format.endings for format in FORMATS.values() if format.is_file]
        raise FixUsage(
            "the ending of this name is that of no format",
            where=str(source),
            hint=f"a name that ends with {', '.join(chain(*endings))}",
        )
    if not format.is_file:
        raise FixInput(
            "expected a folder with one file a clip, got a file",
            where=str(source),
            hint="an npz in Python: np.savez('x.npz', clip_id=ids, clip=array)",
        )
    return format


def _format_of_folder(folder: Path) -> Format:
    """Return the only format of the files in a folder."""
    names: set[str] = set()
    for path in folder.rglob("*"):
        format = format_of_ending(path)
        is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if format and format.is_folder and not is_hidden and path.is_file():
            names.add(format.name)
    if len(names) == 1:
        return FORMATS[min(names)]
    if names:
        there = ", ".join(sorted(names))
        raise FixInput(
            f"files of several formats: {there}",
            where=str(folder),
            hint="a folder with the files of one",
        )
    in_folders = [one.endings for one in FORMATS.values() if one.is_folder]
    raise FixInput(
        f"no file in this folder ends with {', '.join(chain(*in_folders))}",
        where=str(folder),
        hint="another folder, or a file: obygaze store import --help lists the formats",
    )


def format_of_output(path: Path, name: str | None = None) -> Format:
    """Return the format of an export.

    Args:
        path: The new file or folder.
        name: The format of a new folder; else the ending of the name says it.
    """
    format = format_of_ending(path)
    if name not in (None, TABLE):
        raise FixUsage(f"{name} is not written as a folder", hint="--as parquet")
    if name is not None and format is None:
        return FORMATS[name]
    if format is None or format not in WRITTEN:
        raise FixUsage(
            f"the ending {path.suffix!r} is none that features are written in",
            where=str(path),
            hint=f"a name that ends with {', '.join(EXPORT_ENDINGS)}, or --as parquet for a folder",
        )
    if name not in (None, format.name):
        raise FixUsage(
            f"--as {shell_word(name)} writes a folder, and this is the name of a file of"
            f" {format.name}",
            where=str(path),
            hint=f"the name {path.stem}, or leave --as out",
        )
    return format
