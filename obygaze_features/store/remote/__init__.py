"""Read, fetch and send stores in other places.

A place is a folder, a packed zip, a web server, a bucket or the Hugging Face hub.
"""

import re
from pathlib import Path

from obygaze_features.core.errors import FixUsage, NotFound, without_secrets
from obygaze_features.core.workspace import EXPECTED, URL_SCHEMES, is_url, split_version
from obygaze_features.store.remote.files import (
    Files,
    FolderFiles,
    Target,
    ZipFiles,
    open_zip,
)
from obygaze_features.store.remote.hub import HubTarget, open_hub
from obygaze_features.store.remote.object_store import (
    ObjectFiles,
    S3Target,
    object_store,
)
from obygaze_features.store.remote.versions import files_of_version

_SHA256 = re.compile(r"[0-9a-f]{64}")


def split_expected(location: str, expect: str | None = None) -> tuple[str, str]:
    """Return a location without its `#sha256=...`, and the sha256 that its seal must have.

    The sha256 is "" if neither the location nor `expect` states one.
    """
    address, sign, stated = location.rpartition(EXPECTED)
    if sign:
        _require_sha256(stated)
    else:
        address = location
        stated = ""
    if address.startswith(("http://", "https://")) and "#" in address:
        # A server never sees what follows #: a misspelled name would check nothing.
        _, _, ending = address.partition("#")
        raise FixUsage(
            f"unknown ending '#{ending}' of a URL",
            where=address,
            hint="URL#sha256=..., with the sha256 of the seal (`obygaze store info`), or no #",
        )
    expected = ""
    # "" is no sha256 either: an empty variable would check nothing.
    if expect is not None:
        expected = expect.strip().lower().removeprefix("sha256:")
        _require_sha256(expected)
    if stated and expected and stated != expected:
        raise FixUsage(f"two different sha256 are expected: {stated} and {expected}")
    return address, stated or expected


def _require_sha256(text: str) -> None:
    if not _SHA256.fullmatch(text):
        raise FixUsage(
            f"the sha256 of a sealed store has 64 hex digits, got {text!r}",
            hint="obygaze store info prints it",
        )


def open_files(location: str | Path | Files) -> Files:
    """Return the files of a store: of a folder, a zip file or a URL; files as they are.

    With `@2` at the end of a location, those of that version.
    """
    if not isinstance(location, str | Path):
        return location
    location, _ = split_expected(str(location))
    location, version = split_version(location)
    if version is not None:
        return files_of_version(open_files(location), version)
    if not is_url(str(location)):
        path = Path(location)
        if path.is_dir():
            return FolderFiles(path)
        if path.is_file():
            return open_zip(path)
        raise NotFound("no such file or folder", where=str(path), hint="check the name")
    url = str(location).rstrip("/")
    if not url.startswith(URL_SCHEMES):
        hint = "https://, s3:// or hf://OWNER/NAME"
        raise FixUsage("unsupported URL", where=url, hint=hint)
    # What follows goes with each request: a query (`?download=1`, a signature), or a revision.
    address, mark, tail = url.partition("@" if url.startswith("hf://") else "?")
    if address.endswith(".zip"):
        folder, _, name = address.rpartition("/")
        return ZipFiles(open_files(f"{folder}{mark}{tail}"), name, without_secrets(url))
    if url.startswith("hf://"):
        return open_hub(url)
    return ObjectFiles(object_store(url), url)


def open_target(url: str) -> Target:
    """Return the target of a URL, to which files are sent."""
    if url.startswith("s3://"):
        return S3Target(url)
    if url.startswith("hf://"):
        return HubTarget(url)
    raise FixUsage(
        f"cannot push to {url}", hint="a folder, s3://BUCKET/... or hf://OWNER/NAME"
    )
