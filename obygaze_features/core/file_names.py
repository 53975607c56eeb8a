"""Names of files made from names that others chose: of directions, prompts, clips, films."""

import re
import unicodedata

from obygaze_features.core.files import sha256_bytes

_MOST_BYTES = 100
# Names that Windows keeps for devices, with any suffix.
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


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
