"""JSON files that carry their own sha256: one flipped bit in them is seen on reading.

The first key is `sha256`: the digest of the file's bytes with those 64 digits replaced by zeros.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from obygaze_features.core.errors import Corrupt
from obygaze_features.core.files import pretty_json, sha256_bytes

_HEAD = b'{\n "sha256": "'
_ZEROS = "0" * 64
_SLOT = slice(len(_HEAD), len(_HEAD) + 64)


def stamp(value: Mapping[str, Any]) -> bytes:
    """The bytes of a stamped JSON file."""
    data = bytearray(pretty_json({"sha256": _ZEROS, **value}))
    data[_SLOT] = sha256_bytes(bytes(data)).encode("ascii")
    return bytes(data)


def stamp_of(data: bytes) -> str:
    """The digest a stamped file carries: what other files call it by."""
    return data[_SLOT].decode("ascii", errors="replace")


def unstamp(
    data: bytes, where: str, *, check: Callable[[Mapping[str, Any], str], None]
) -> dict[str, Any]:
    """The value of a stamped JSON file; an error where a byte of it is not as it was written.

    `check` looks at the value before the digest does: a file of a later version may be stamped
    in another way, and must be told from a damaged one.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"not a whole JSON file: {error}", where=where, hint=_AGAIN) from error
    if not isinstance(value, dict):
        raise Corrupt("not a JSON object", where=where, hint=_AGAIN)
    check(value, where)
    plain = bytearray(data)
    plain[_SLOT] = _ZEROS.encode("ascii")
    if not data.startswith(_HEAD) or sha256_bytes(bytes(plain)) != value.pop("sha256", None):
        raise Corrupt("its bytes do not match the sha256 it carries", where=where, hint=_AGAIN)
    return value


_AGAIN = "fetch this store again; its files must never be edited"
