"""Ids made from names; an id can be a key of HDF5 and a file name."""

import hashlib
import re
import unicodedata
from functools import lru_cache

# Letters that Unicode does not decompose into a letter and an accent.
_LETTERS = str.maketrans(
    {
        "ß": "ss",
        "ẞ": "SS",
        "œ": "oe",
        "Œ": "OE",
        "æ": "ae",
        "Æ": "AE",
        "ø": "o",
        "Ø": "O",
        "ł": "l",
        "Ł": "L",
        "đ": "d",
        "Đ": "D",
        "ð": "d",
        "Ð": "D",
        "þ": "th",
        "Þ": "Th",
        "ı": "i",
    }
)


@lru_cache(maxsize=1024)
def ascii_id(text: str) -> str:
    """Return an id for a text: accents are removed, and characters not allowed in ids become `_`.

    Letters and digits without a counterpart in ASCII are not kept. If there are any, the start of a
    hash of the whole text is added, so that such texts have different ids.

    >>> ascii_id("Amélie 1")
    'Amelie_1'
    >>> ascii_id("Große Sœur Łucja")
    'Grosse_Soeur_Lucja'
    >>> ascii_id("Зеркало 1975")
    '1975-e57df8'
    """
    # Cells of tables have single blanks.
    decomposed = unicodedata.normalize("NFKD", " ".join(text.split()))
    letters = "".join(mark for mark in decomposed if not unicodedata.combining(mark))
    letters = letters.translate(_LETTERS)
    readable_id = re.sub(r"[^A-Za-z0-9._+-]+", "_", letters).lstrip(".")
    has_lost_letters = any(
        letter.isalnum() and not letter.isascii() for letter in letters
    )
    if not has_lost_letters:
        return readable_id if re.search("[A-Za-z0-9]", readable_id) else text
    digest = hashlib.sha256(decomposed.encode()).hexdigest()[:6]
    readable = readable_id.strip("_.+-") or "id"
    return f"{readable}-{digest}"
