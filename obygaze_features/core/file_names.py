"""Names of files: names that every system can have, and names made from those that others chose."""

import re
import unicodedata
from pathlib import Path

from obygaze_features.core.errors import AlreadyThere, FixUsage
from obygaze_features.core.files import sha256_bytes

_MOST_BYTES = 100
# Names that Windows keeps for devices, with any suffix.
_DEVICES = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[\d\u00b9\u00b2\u00b3])\s*(\..*)?",
    re.IGNORECASE,
)
_NOT_ON_WINDOWS = re.compile(r'[<>:"|?*\\]')


def check_new_name(path: Path, name: str | None = None) -> None:
    """Raise an error if another system cannot have a new name, or takes it for one that is there.

    Manifests, stores, runs and models are shared. A name that is there already may be used.

    Args:
        path: The new file or folder.
        name: The part of its name that the user chose, by default all of it.
    """
    check_folders_above(path)
    siblings = _names_in(path.parent)
    if path.name in ("", "..", *siblings):
        return
    chosen_name = path.name if name is None else name
    refusal = _refusal(chosen_name)
    if refusal:
        raise FixUsage(f"invalid name {chosen_name!r}: {refusal}")
    for sibling in siblings:
        if folded(sibling) == folded(path.name):
            raise AlreadyThere(
                f"{sibling!r} is there: on Windows and macOS both are one name",
                where=str(path),
            )


def check_folders_above(path: Path) -> None:
    """Raise an error if a new file or folder would be below a file."""
    for above in path.parents:
        if above.exists():
            if not above.is_dir():
                raise FixUsage("expected a folder, got a file", where=str(above))
            return


def portable(name: str) -> str:
    """Return a name that every system can have, where parts of it come from other names."""
    return _NOT_ON_WINDOWS.sub("-", name).rstrip(". ")


def _refusal(name: str) -> str:
    """Return why Windows cannot have a name; "" where it can."""
    device = _DEVICES.fullmatch(name)
    if device:
        return f"{device[1].upper()} is the name of a device"
    if name.endswith((".", " ")):
        return "it ends with a dot or a blank"
    sign = _NOT_ON_WINDOWS.search(name)
    if sign:
        return f"it has {sign[0]!r}"
    return ""


def folded(name: str) -> str:
    """Return the same text for all names that some system takes for one.

    Capitals do not count, nor whether an accent is a character of its own.

    >>> folded("CAFE\u0301") == folded("Caf\u00e9")
    True
    """
    return composed(composed(name).casefold())


def composed(name: str) -> str:
    """Return a name with its accents in their letters (NFC); macOS may have them beside (NFD)."""
    return unicodedata.normalize("NFC", name)


def single_line(text: str) -> str:
    """Return text on one line: accents in their letters, blanks single, none at its ends.

    Excel has line breaks in a cell, and French has a blank of its own before `?`.
    """
    return " ".join(composed(text).split())


def printable_line(text: str) -> str:
    """Return text on one line, in which signs that nobody sees are blanks."""
    composed_text = composed(text)
    if composed_text.isprintable():
        return single_line(composed_text)
    return single_line("".join(c if c.isprintable() else " " for c in composed_text))


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []


def file_name(text: str) -> str:
    """Return any text as a part of a file's name, which stays in its folder on every system.

    Letters of all scripts, digits, `_`, `.`, `+` and `-` stay, and blanks become `-`. If anything
    else was changed, a hash of the text is added, so that two texts do not become one name.

    Example:
        >>> file_name("Type of shot"), file_name("../../etc")
        ('Type-of-shot', 'etc-c9fa4ca1')
    """
    words = "-".join(unicodedata.normalize("NFC", text).split())
    cleaned = re.sub(r"[^\w.+-]+", "-", words).strip(".-")
    short = cleaned.encode("utf-8")[:_MOST_BYTES].decode("utf-8", "ignore")
    if _DEVICES.fullmatch(short):
        short = f"_{short}"
    if short and short == words:
        return short
    sha256 = sha256_bytes(text.encode("utf-8", "surrogatepass"))[:8]
    return f"{short}-{sha256}" if short else sha256


class FileNames:
    """Names of files in one folder, each different, also where capitals do not count."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def name_of(self, text: str) -> str:
        """Return the name for a text, with a number if another text has it."""
        base = name = file_name(text)
        number = 1
        while name.casefold() in self._used:
            number += 1
            name = f"{base}-{number}"
        self._used.add(name.casefold())
        return name
