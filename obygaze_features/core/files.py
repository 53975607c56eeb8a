"""Files: atomic writes, hashes, locks, and paths that stay inside a folder."""

import errno
import hashlib
import io
import json
import math
import os
import re
import shutil
import stat
import time
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from obygaze_features.core import system
from obygaze_features.core.errors import (
    AlreadyThere,
    FixInput,
    FixUsage,
    NotFound,
    ObygazeWarning,
)
from obygaze_features.core.shell import shell_word
from obygaze_features.core.temporary_names import (
    OLD_FILE,
    hidden_name,
    remove_hidden,
    remove_leftovers,
)

_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
# The extensions of still pictures.
STILL_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
VIDEO_SUFFIXES = (
    *(".mp4", ".m4v", ".mkv", ".avi", ".mov", ".webm", ".mpg", ".mpeg", ".m2ts", ".ts"),
    *(".wmv", ".flv", ".ogv", ".3gp", ".vob", ".divx", ".mts", ".m2t", ".mxf", ".asf"),
    *(".gif", ".qt", ".mpe", ".m1v", ".m2v", ".3g2", ".f4v", ".ogm", ".rm", ".rmvb"),
    *(".dv", ".mjpeg", ".mjpg", ".h264", ".hevc", ".ivf", ".obu", ".nut"),
)
# The formats of one file with the features of all clips, by its ending.
FORMATS_OF_FEATURES = {
    ".npz": "npz",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".parquet": "parquet",
    ".zarr": "zarr",
}
QUICK_BYTES = 65_536
LOCK_WAIT_S = 0.02
# Errors of a full disk, quota or limit. EFBIG is the error of `ulimit -f`, and of disks that allow
# no file of more than 4 GB.
NO_MORE_BYTES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def warn_of_unread(folder: Path, names: Iterable[str], content: str) -> None:
    """Warn that files in a folder are not read, with their number for each extension.

    Hidden files are ignored.

    Args:
        folder: The folder.
        names: Files that are not read, relative to the folder.
        content: The content of the files that are read, such as `videos`.
    """
    kinds: Counter[str] = Counter()
    for name in names:
        path = folder / name
        if not path.exists():
            kinds["broken link"] += 1
        elif not path.name.startswith("."):
            kinds[path.suffix.lower() or "without an extension"] += 1
    if kinds:
        numbers = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
        warnings.warn(
            ObygazeWarning(
                f"{folder}: ignored files that are not {content}: {numbers}"
            ),
            stacklevel=3,
        )


def canonical_json(value: Any) -> bytes:
    """Return the canonical JSON of a value, from which fingerprints are computed."""
    text = json.dumps(
        value,
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    )
    return text.encode("utf-8")


def parse_json(data: bytes) -> Any:
    """Return the value of a JSON document in UTF-8, or raise ValueError.

    A string that UTF-8 cannot encode, such as "\\ud800", is an error here, and not only later when
    it is written.
    """
    text = data.decode("utf-8-sig")
    try:
        value = json.loads(text)
        if "\\u" in text and _HALF_PAIR.search(text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return value


def pretty_json(value: Any) -> bytes:
    """Return indented JSON with the keys in the order given and one final newline."""
    text = io.StringIO()
    # Not dumps(): it builds a list of all tokens first, ten times the size of the text.
    json.dump(value, text, indent=1, ensure_ascii=False, allow_nan=False)
    text.write("\n")
    return text.getvalue().encode("utf-8")


def json_values(value: Any) -> Any:
    """Return a value with JSON types only: NumPy types become Python types, NaN becomes null."""
    if isinstance(value, Mapping):
        return {str(key): json_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_values(item) for item in value]
    if hasattr(value, "tolist"):
        return json_values(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def document_sha256(document: Mapping[str, Any]) -> str:
    """Return the checksum that belongs under the key `sha256` of a JSON document."""
    content = {key: value for key, value in document.items() if key != "sha256"}
    return sha256_bytes(canonical_json(json_values(content)))


# The beginning of a URL; of its ://, a path keeps :/.
_URL = re.compile(r"(https?|s3|hf|gs|az|s?ftp|ssh|file):/", re.IGNORECASE)
_QUOTED = re.compile(r'[,"\n\r]')
_QUOTED_LINE = re.compile(r'["\n\r]')
# The first bytes of a zip file, which .xlsx and .ods files are.
ZIP_MARK = b"PK\x03\x04"
# Extensions: of spreadsheets that are read, of all spreadsheets, of tables that are read.
READ_SPREADSHEETS = (".xlsx", ".xlsm")
SPREADSHEETS = (*READ_SPREADSHEETS, ".xlsb", ".xls", ".ods")
TABLE_ENDINGS = (".csv", ".tsv", *READ_SPREADSHEETS)
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def not_a_formula(cell: Any) -> Any:
    """Return a cell for CSV; text that a spreadsheet program would run as a formula gets a `'`."""
    if not isinstance(cell, str) or not cell.startswith(_FORMULA_STARTS):
        return cell
    try:
        float(cell)
    except ValueError:
        return cell if len(cell) == 1 else f"'{cell}"
    return cell


def csv_for_people(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> bytes:
    """Return a table as CSV without formulas, safe to open in a spreadsheet program."""
    return csv_bytes(
        map(not_a_formula, columns), (map(not_a_formula, row) for row in rows)
    )


def csv_bytes(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> bytes:
    """Return a table as CSV in UTF-8, each line ended by a line feed; None is an empty cell."""
    lines = [csv_line(columns), *map(csv_line, rows)]
    return "".join(lines).encode("utf-8")


def csv_line(cells: Iterable[Any]) -> str:
    """Return one line of a table as CSV."""
    texts = ["" if cell is None else str(cell) for cell in cells]
    if texts == [""]:  # an empty line would not be a row
        return '""\n'
    line = ",".join(texts)
    # Most lines need no quotes, and one test of the line is enough.
    if line.count(",") >= len(texts) or _QUOTED_LINE.search(line):
        line = ",".join(map(_csv_cell, texts))
    return line + "\n"


def _csv_cell(cell: str) -> str:
    # csv.writer leaves a lone \r unquoted, which csv.reader then reads as the end of the line.
    if _QUOTED.search(cell):
        return '"' + cell.replace('"', '""') + '"'
    return cell


def find_files(folder: Path, endings: Container[str]) -> list[Path]:
    """Return the files below a folder with one of these extensions, in lower case, sorted.

    Hidden files and folders are left out. On disks that are not formatted for macOS, macOS writes a
    hidden file `._M-1.npy` next to each `M-1.npy`. Jupyter keeps copies of edited tables in the
    hidden folder `.ipynb_checkpoints`. A link to a folder with such files is an error: it would not
    be followed.
    """
    files = []
    for path in sorted(folder.rglob("*")):
        if "/." in f"/{path.relative_to(folder).as_posix()}":
            continue
        if path.suffix.lower() in endings:
            files.append(path)
        # The folder of the videos may be a link.
        linked = path.rglob("*") if path.is_symlink() else ()
        if any(one.suffix.lower() in endings for one in linked):
            raise FixInput(
                "expected a folder without links to folders: they are not followed",
                where=str(path),
            )
    return files


def require_file(path: Path) -> None:
    """Raise an error unless the path is a file, or a link to one."""
    if not path.exists():
        raise NotFound("no such file", where=str(path), hint="check the name")
    if not path.is_file():
        raise FixInput(
            "expected a file, got a folder", where=str(path), hint="name a file in it"
        )


def import_of_features(path: Path) -> str:
    """Return the command that imports a file of features, or "" for other extensions.

    Of a Parquet file, this command prints the lines of Python that write the store.
    """
    if path.suffix.lower() not in FORMATS_OF_FEATURES:
        return ""
    return f"obygaze store import {shell_word(path)} -o NAME"


def sha256_bytes(data: bytes) -> str:
    """Return the sha256 of bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """Return the sha256 of a file, in hex, without holding the file in memory."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def quick_sha256(path: Path) -> tuple[int, str]:
    """Return the size of a file, and a sha256 that reads at most 192 KiB of it.

    The hash covers the size, as decimal digits and a line feed, and the first, middle and last
    64 KiB. Of a file of at most 192 KiB, it covers the size and all bytes.
    """
    with path.open("rb") as stream:
        n_bytes = os.fstat(stream.fileno()).st_size
        digest = hashlib.sha256(b"%d\n" % n_bytes)
        if n_bytes <= 3 * QUICK_BYTES:
            digest.update(stream.read(n_bytes))
        else:
            for start in (0, (n_bytes - QUICK_BYTES) // 2, n_bytes - QUICK_BYTES):
                stream.seek(start)
                digest.update(stream.read(QUICK_BYTES))
    return n_bytes, digest.hexdigest()


def file_facts(path: Path | str) -> tuple[int, str] | None:
    """Return the size and the quick hash of a file, or None if it cannot be read."""
    try:
        facts = Path(path).stat()
        if not stat.S_ISREG(facts.st_mode):
            return None
        return _quick_sha256(str(path), facts.st_size, facts.st_mtime_ns)
    except OSError:
        return None


@lru_cache(maxsize=4096)
def _quick_sha256(path: str, n_bytes: int, mtime_ns: int) -> tuple[int, str]:
    # Cached, since many clips may be cut from one file.
    return quick_sha256(Path(path))


def is_listed(path: Path) -> bool:
    """Return whether a folder lists a name.

    On a network file system, `exists` may return False for 30 s after another machine made a file.
    """
    try:
        return any(entry.name == path.name for entry in path.parent.iterdir())
    except FileNotFoundError:
        return False


def sync_dir(path: Path) -> None:
    """Sync a folder, so that the names in it survive a power cut."""
    system.sync_folder(path)


def write_synced(path: Path, data: bytes | memoryview) -> None:
    """Write a new file and sync it to the disk."""
    with path.open("xb") as stream:
        stream.write(data)
        stream.flush()
        system.sync_file(stream.fileno())


@contextmanager
def name_in_errors(path: Path) -> Iterator[None]:
    """Add the file name to errors of a full disk, quota or limit.

    The error of a write to an open file has no file name.
    """
    try:
        yield
    except OSError as error:
        if error.errno in NO_MORE_BYTES and error.filename is None:
            error.filename = os.fspath(path)
        raise


def refuse_url(path: Path) -> None:
    """Raise an error for a URL, which would become a folder of this machine such as `s3:`."""
    # A folder of a film may be called "Alien:".
    if _URL.match(str(path)):
        raise FixUsage(
            "expected a file or folder of this machine, got a URL",
            where=str(path),
            hint="write it here, then send it, such as by obygaze store push",
        )


@contextmanager
def _whole_temporary(path: Path, data: bytes | memoryview) -> Iterator[Path]:
    """Yield a synced temporary file with `data` next to `path`, and remove it at the end."""
    refuse_url(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path)
    # Created by open() and not by mkstemp(), so that the umask decides who may read it: stores
    # are shared.
    temporary = hidden_name(path)
    try:
        write_synced(temporary, data)
        yield temporary
    except OSError as error:
        # The message must name the final file, not the temporary one.
        if error.filename in (None, os.fspath(temporary)):
            error.filename = os.fspath(path)
            error.filename2 = None
        raise
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_atomic(path: Path, data: bytes | memoryview) -> None:
    """Write or replace a file in one step: readers see the old file or the new file."""
    write_together({path: data})


def write_together(files: Mapping[Path, bytes | memoryview]) -> None:
    """Write or replace several files in the order of `files`, or none if one cannot be written.

    All files are on the disk under temporary names before the first file gets its final name.
    """
    with ExitStack() as stack:
        temporaries = {}
        for path, data in files.items():
            temporaries[path] = stack.enter_context(_whole_temporary(path, data))
        for path, temporary in temporaries.items():
            system.replace_file(temporary, path)
    for folder in {path.parent for path in files}:
        sync_dir(folder)


def write_exclusive(path: Path, data: bytes) -> bool:
    """Create a file in one step; if the name exists, return False and change nothing.

    On a file system without hard links, several processes may succeed at the same time; the file of
    the last process is kept.
    """
    with _whole_temporary(path, data) as temporary:
        if not rename_if_free(temporary, path):
            return False
    sync_dir(path.parent)
    return True


@contextmanager
def write_then_rename(
    path: Path, check: Callable[[], object] = lambda: None
) -> Iterator[Path]:
    """Yield a temporary name for a new file or folder, which replaces `path` at the end.

    If `path` is a link, its target is replaced. After an error or a kill, the old file or folder
    is unchanged.

    Args:
        path: The final name.
        check: Raises an error if `path` must not be replaced. It is called again at the end,
            because another process may have created `path` meanwhile.
    """
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target)
    check()
    new = hidden_name(target)
    try:
        with name_in_errors(path):
            yield new
            sync_all(new)
        check()
        with suppress(FileNotFoundError):
            if target.is_dir():
                shutil.copymode(target, new)
        if new.is_dir():
            _place_folder(new, target)
        else:
            system.replace_file(new, target)
    finally:
        remove_hidden(new)
    sync_dir(target.parent)


def _place_folder(new: Path, target: Path) -> None:
    """Rename a folder to its final name; an existing folder of this name is removed.

    The two folders exchange their names in one step. If the file system cannot do this, the
    existing folder is first renamed. At any time, another process may create or remove a folder of
    the final name.
    """
    set_aside = []
    while not (target.is_dir() and system.exchange_names(new, target)):
        try:
            system.rename_folder(new, target)
            break
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
        before = hidden_name(target, OLD_FILE)
        with suppress(FileNotFoundError):
            system.rename_folder(target, before)
            set_aside.append(before)
    for before in set_aside:
        remove_hidden(before)


def sync_all(path: Path) -> None:
    """Sync a file, or all files and folders in a folder; targets of links are not synced."""
    if not path.is_dir():
        system.sync_path(path)
        return
    for parent, _, names in os.walk(path):
        for name in names:
            file = Path(parent, name)
            if not file.is_symlink():
                system.sync_path(file)
        sync_dir(Path(parent))


def rename_if_free(temporary: Path, path: Path) -> bool:
    """Rename a file; if the new name exists, return False and change nothing."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in system.NO_LINKS:
            raise
        if os.path.lexists(path):
            return False
        system.replace_file(temporary, path)
    return True


def is_workbook(path: Path) -> bool:
    """Return whether a file has the extension of a spreadsheet."""
    return path.suffix.lower() in SPREADSHEETS


def refuse_spreadsheet_name(path: Path) -> None:
    """Raise an error if a file of text would get the extension of a spreadsheet."""
    if is_workbook(path):
        raise FixUsage(
            f"expected .csv, got {path.suffix}",
            where=str(path),
            hint=f"use {path.with_suffix('.csv').name}, which spreadsheet programs open, too",
        )


def write_new(path: Path, data: bytes, *, force: bool = False) -> None:
    """Write a result. Without `force`, raise an error if the file exists with other bytes."""
    write_all_new({path: data}, force=force)


def write_all_new(files: Mapping[Path, bytes], *, force: bool = False) -> None:
    """Write several results in the order of `files`.

    Without `force`, raise an error and write nothing if a file exists with other bytes.
    """
    for path, data in files.items():
        if not data.startswith(ZIP_MARK):
            refuse_spreadsheet_name(path)
    if force:
        write_together(files)
        return
    wanted = [path for path, data in files.items() if is_free_for(path, data)]
    for path in wanted:
        if not write_exclusive(path, files[path]):
            # Another process was first: an error only if it wrote other bytes.
            is_free_for(path, files[path])


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; other processes that call this function wait for its release.

    On network file systems without such locks, processes do not wait for each other.
    """
    descriptor = system.open_lock(folder)
    try:
        while not system.take_lock(descriptor):
            time.sleep(LOCK_WAIT_S)
        yield
    finally:
        os.close(descriptor)


def is_free_for(path: Path, data: bytes) -> bool:
    """Return True if a path is free, and False if its file has these bytes.

    Raise an error for a file with other bytes, and for a folder.
    """
    remove_leftovers(path)
    if not os.path.lexists(path):
        return True
    if path.is_file() and path.read_bytes() == data:
        return False
    raise name_taken_error("this file exists with different contents", path)


def name_taken_error(message: str, path: Path) -> AlreadyThere:
    """Return the error for a result whose name is taken; the hint of the error names --force."""
    return AlreadyThere(
        message,
        where=str(path),
        hint="choose another name, or replace it with --force",
    )


def is_printable_name(name: str) -> bool:
    """Return whether all characters of a file name can be shown.

    Spaces of every width can be shown. Control characters cannot, nor can bytes that are not UTF-8,
    which Python reads as half a surrogate pair.
    """
    return all(
        sign.isprintable() or unicodedata.category(sign) == "Zs" for sign in name
    )


def leads_out(relative: str) -> bool:
    """Return whether a relative path could lead out of its folder."""
    foreign = PureWindowsPath(relative)  # it also splits names at a backslash
    is_absolute = PurePosixPath(relative).is_absolute() or bool(
        foreign.drive or foreign.root
    )
    return is_absolute or "\x00" in relative or ".." in foreign.parts
