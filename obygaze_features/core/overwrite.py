"""Overwriting of results: only with `force`, and only files or folders of the same type."""

import os
import re
from collections.abc import Callable, Container
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from obygaze_features.core.errors import AlreadyThere, FixUsage
from obygaze_features.core.files import name_taken_error, parse_json
from obygaze_features.core.temporary_names import read_hidden

# Bytes that are searched at the start and at the end of a file. They include the header of every
# table, and the parts before and after the data of every file.
_MARK_BYTES = 10_000_000
# Extensions of the page of a report.
REPORT_ENDINGS = (".html", ".htm")
# Files that a report writes into the folder of its run.
_REPORT = r"reports?\.html|tables/[^/]+\.(csv|tex)|figures/[^/]+\.(svg|png|pdf)"


@dataclass(frozen=True)
class OwnFolder:
    """A type of folder, or file, that obygaze writes.

    `refusal` returns why a folder or file is not of this type, or which other file the folder
    contains. It returns "" if it is of this type.
    """

    kind: str
    refusal: Callable[[Path], str]

    @classmethod
    def marked(cls, kind: str, marked_part: str, mark: bytes) -> Self:
        """Return a type of file whose first or last bytes match a regular expression.

        Args:
            kind: Name of the type.
            marked_part: Name of the part that matches, for an error, such as `the columns`.
            mark: The regular expression.
        """

        def refusal(file: Path) -> str:
            with file.open("rb") as stream:
                head = stream.read(_MARK_BYTES)
                stream.seek(max(0, file.stat().st_size - _MARK_BYTES))
                is_own = re.search(mark, head) or re.search(mark, stream.read())
            return "" if is_own else f"it does not contain {marked_part}"

        return cls(kind, refusal)

    @classmethod
    def described(cls, kind: str, document: str, further_files: str = "") -> Self:
        """Return a type of folder with a document of obygaze that lists the other files.

        Args:
            kind: Name of the type.
            document: Name of the document, such as `run.json`.
            further_files: Regular expression of files that obygaze adds later.
        """

        def refusal(folder: Path) -> str:
            if not is_made_by_obygaze(folder / document):
                return f"it has no {document} that obygaze wrote"
            listed = parse_json((folder / document).read_bytes()).get("files")
            names = {document}
            if isinstance(listed, dict):
                names.update(listed)
            added = find_added_file(folder, names, further_files)
            return (
                f"it contains {added!r}, which obygaze did not write" if added else ""
            )

        return cls(kind, refusal)


def find_added_file(folder: Path, names: Container[str], further_files: str) -> str:
    """Return the first file of a folder that is not expected there, or "".

    Temporary files of killed commands are ignored.

    Args:
        folder: The folder.
        names: The expected names, relative to the folder.
        further_files: Regular expression of further expected names.
    """
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        is_folder = path.is_dir() and not path.is_symlink()
        is_known = name in names or re.fullmatch(further_files, name)
        if not (is_folder or is_known or read_hidden(path)):
            return name
    return ""


def is_made_by_obygaze(document: Path, **stated: object) -> bool:
    """Return whether a file is a JSON document of obygaze that contains the `stated` values."""
    try:
        value = parse_json(document.read_bytes())
    except (OSError, ValueError):
        return False
    has_values = isinstance(value, dict) and stated.items() <= value.items()
    return has_values and str(value.get("created_by", "")).startswith("obygaze ")


def remove_report(run: Path) -> None:
    """Delete the files that a report wrote into the folder of a run."""
    for path in sorted(run.rglob("*")):
        if re.fullmatch(_REPORT, path.relative_to(run).as_posix()):
            path.unlink()


def check_name(path: Path) -> Path:
    """Return the path without links; raise an error for the current folder or one above it."""
    resolved = Path(os.path.realpath(path))
    if path.name in ("", "..") or Path.cwd().is_relative_to(resolved):
        raise FixUsage(
            f"{str(path)!r} cannot be the name of a result",
            where=str(resolved),
        )
    return resolved


def check_folder(folder: Path, expected: OwnFolder, *, force: bool) -> Path:
    """Return the path of a folder to write, without links.

    Raise an error unless the folder is missing or empty, or `force` is true and the folder is of
    the expected type.
    """
    target = check_name(folder)
    if not os.path.lexists(target) or (target.is_dir() and not any(target.iterdir())):
        return target
    _check_own(
        folder,
        expected,
        expected.refusal(target) if target.is_dir() else "it is a file, not a folder",
    )
    if not force:
        raise name_taken_error(f"a {expected.kind} with this name exists", folder)
    return target


def _check_own(path: Path, expected: OwnFolder, refusal: str) -> None:
    if refusal:
        raise AlreadyThere(
            f"this is not an obygaze {expected.kind}: {refusal}",
            where=str(path),
        )


def check_file(path: Path, expected: OwnFolder) -> None:
    """Raise an error unless the path is missing, or a file of the expected type."""
    check_name(path)
    if path.is_dir():
        raise AlreadyThere("expected a file, got a folder", where=str(path))
    if os.path.lexists(path):
        _check_own(
            path,
            expected,
            expected.refusal(path) if path.is_file() else "it is not a regular file",
        )


RUN = OwnFolder.described("run", "run.json", _REPORT)
MODEL = OwnFolder.described("model", "model.json")
REPORT = OwnFolder.marked(
    "report",
    "the generator tag of a report",
    rb'<meta name="generator" content="obygaze ',
)
FILM_PAGE = OwnFolder.marked(
    "page of a film",
    "the generator tag of a page",
    rb'<meta name="generator" content="obygaze-view ',
)
