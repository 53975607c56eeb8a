"""Read, fetch and send stores in other places.

A place is a folder, a packed zip, a web server, a bucket or the Hugging Face hub.
"""

from pathlib import Path

from obygaze_features.core.errors import FixUsage, NotFound, without_secrets
from obygaze_features.core.workspace import URL_SCHEMES, is_url
from obygaze_features.store.remote.files import Files, FolderFiles, Target, ZipFiles, open_zip
from obygaze_features.store.remote.hub import HubTarget, open_hub
from obygaze_features.store.remote.object_store import ObjectFiles, S3Target, object_store


def open_files(location: str | Path | Files) -> Files:
    """Return the files of a store: of a folder, a zip file or a URL; files as they are."""
    if not isinstance(location, str | Path):
        return location
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
    raise FixUsage(f"cannot push to {url}", hint="a folder, s3://BUCKET/... or hf://OWNER/NAME")
