"""Where stores are pushed to: an S3 bucket here, the Hugging Face hub in `hub`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from obygaze_features.core.errors import Corrupt, FixUsage
from obygaze_features.core.extras import need
from obygaze_features.store.files.network import PURPOSE, network_error, object_store, told
from obygaze_features.store.files.places import Files, ObjectFiles
from obygaze_features.store.format.schema import FileMark

SHA256 = "sha256"


class Place(Protocol):
    """Writing by name. To push stores somewhere new, write these members."""

    location: str
    files: Files

    def prepare(self, files: Mapping[str, FileMark]) -> None:
        """Refuse what this place cannot hold, before anything is sent."""

    def has(self, name: str, mark: FileMark) -> bool:
        """Whether a file is there already, byte for byte."""

    def put(self, name: str, data: bytes, mark: FileMark) -> None:
        """Send one whole file; may be called from several threads."""

    def remove(self, name: str) -> None:
        """Take a file away, if it is there."""

    def settle(self, message: str) -> None:
        """Make everything sent so far visible."""


class S3Place:
    """A folder of a bucket. Each object carries its sha256, so that a second push can tell."""

    def __init__(self, url: str) -> None:
        self.obstore = need("obstore", "remote", PURPOSE)
        self.location = url.rstrip("/")
        self.store = object_store(self.location)
        self.files: Files = ObjectFiles(self.store, self.location)

    def prepare(self, files: Mapping[str, FileMark]) -> None:
        """A bucket holds anything."""

    def has(self, name: str, mark: FileMark) -> bool:
        """Ask for the length and the digest of an object, not for its bytes."""
        try:
            answer = self.obstore.get(self.store, name, options={"head": True})
        except FileNotFoundError:
            return False
        except network_error() as error:
            raise told(error, f"{self.location}/{name}") from error
        found = {str(key).lower(): value for key, value in answer.attributes.items()}
        return answer.meta["size"] == mark.n_bytes and found.get(SHA256) == mark.sha256

    def put(self, name: str, data: bytes, mark: FileMark) -> None:
        """Send an object, then ask what has arrived."""
        self._do("put", name, data, attributes={SHA256: mark.sha256})
        if not self.has(name, mark):
            raise Corrupt(f"{name} did not arrive as it was sent", where=self.location)

    def remove(self, name: str) -> None:
        """S3 does not mind removing what is not there."""
        self._do("delete", name)

    def settle(self, message: str) -> None:
        """Objects are visible as soon as they are whole."""

    def _do(self, verb: str, *words: Any, **options: Any) -> None:
        try:
            getattr(self.obstore, verb)(self.store, *words, **options)
        except FileNotFoundError:
            return
        except network_error() as error:
            raise told(error, f"{self.location}/{words[0]}") from error


def open_place(url: str) -> Place:
    """The place of an address that can be written to."""
    if url.startswith("s3://"):
        return S3Place(url)
    if url.startswith("hf://"):
        from obygaze_features.store.files.hub import HubPlace

        return HubPlace(url)
    raise FixUsage(f"nothing can be pushed to {url}", hint="a folder, s3://... or hf://OWNER/NAME")
