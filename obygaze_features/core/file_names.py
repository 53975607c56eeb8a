"""File names that every operating system allows, also if they are made from untrusted text."""

import re
import unicodedata
from pathlib import Path

from obygaze_features.core.errors import AlreadyThere, FixUsage
from obygaze_features.core.files import refuse_url, sha256_bytes

_MOST_BYTES = 100
# Names that Windows reserves for devices, with any extension.
_DEVICES = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[\d\u00b9\u00b2\u00b3])\s*(\..*)?",
    re.IGNORECASE,
)
_NOT_ON_WINDOWS = re.compile(r'[<>:"|?*\\]')


def check_new_name(path: Path, name: str | None = None) -> None:
    """Raise an error for a new name that some system forbids, or confuses with an existing name.

    Manifests, stores, runs and models are shared between systems. A name that exists in the folder
    already is allowed.

    Args:
        path: The new file or folder.
        name: The part of the name that the user chose. The default is the whole name.
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
        if fold_name(sibling) == fold_name(path.name):
            raise AlreadyThere(
                f"{sibling!r} exists, which is the same name on Windows and macOS",
                where=str(path),
            )


def check_folders_above(path: Path) -> None:
    """Raise an error if a new file or folder would be below a file."""
    refuse_url(path)
    for above in path.parents:
        if above.exists():
            if not above.is_dir():
                raise FixUsage("expected a folder, got a file", where=str(above))
            return


def portable_name(name: str) -> str:
    """Return a name with `-` for characters that Windows forbids, and without dots at its end."""
    return _NOT_ON_WINDOWS.sub("-", name).rstrip(". ")


def _refusal(name: str) -> str:
    """Return why Windows forbids a name, or ""."""
    device = _DEVICES.fullmatch(name)
    if device:
        return f"{device[1].upper()} is the name of a device on Windows"
    if name.endswith((".", " ")):
        return "it ends with a dot or a blank"
    sign = _NOT_ON_WINDOWS.search(name)
    if sign:
        return f"it contains {sign[0]!r}"
    return ""


def fold_name(name: str) -> str:
    """Return a text that is equal for names that some operating system treats as the same.

    Case is ignored, and composed and decomposed accents are equal.

    >>> fold_name("CAFE\u0301") == fold_name("Caf\u00e9")
    True
    """
    return compose_accents(compose_accents(name).casefold())


def compose_accents(name: str) -> str:
    """Return a name with composed accents (NFC); macOS may use decomposed ones (NFD)."""
    return unicodedata.normalize("NFC", name)


def single_line(text: str) -> str:
    """Return text on one line, with composed accents, single blanks and no blanks at the ends.

    Cells of Excel may contain line breaks, and French text contains no-break spaces before `?`.
    """
    return " ".join(compose_accents(text).split())


def printable_line(text: str) -> str:
    """Return text on one line, with a blank for each character that is not printable."""
    composed_text = compose_accents(text)
    if composed_text.isprintable():
        return single_line(composed_text)
    return single_line("".join(c if c.isprintable() else " " for c in composed_text))


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []


def file_name(text: str) -> str:
    """Return a file name for any text, valid on every operating system and without folders.

    Letters of all scripts, digits, `_`, `.`, `+` and `-` are kept, and blanks become `-`. If
    anything else is changed, the start of a hash of the text is added. Therefore texts have
    different names, unless they differ only in blanks and `-`.

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
    """Makes file names for one folder that differ by more than upper and lower case."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def unique_name(self, text: str) -> str:
        """Return the name for a text, with a number if another text has the same name."""
        base = name = file_name(text)
        number = 1
        while name.casefold() in self._used:
            number += 1
            name = f"{base}-{number}"
        self._used.add(name.casefold())
        return name
