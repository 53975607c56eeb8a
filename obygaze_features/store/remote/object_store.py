"""Files on web servers and in buckets, through obstore; its errors as errors of obygaze."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.errors import (
    Corrupt,
    FixInput,
    ObygazeError,
    Stopped,
    without_secrets,
)
from obygaze_features.core.files import sha256_bytes
from obygaze_features.core.lazy import need
from obygaze_features.store.format.limits import check_document
from obygaze_features.store.format.records import Plan
from obygaze_features.store.format.schema import FileMark
from obygaze_features.store.remote.files import Piece, Target

PURPOSE = "reading a store over the network"
RETRIES: dict[str, Any] = {"max_retries": 3, "retry_timeout": timedelta(seconds=30)}
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
# Without keys obstore asks this address, which exists on machines of Amazon only.
KEY_SERVER = "169.254.169.254"
KEYS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true if it is public"
DENIED = ("PermissionDeniedError", "UnauthenticatedError")
# What a conditional write raises if another process has written the object.
CHANGED = ("AlreadyExistsError", "PreconditionError")
UNSUPPORTED = ("NotSupportedError", "NotImplementedError")
TRIES = 50
# No store has this file. The server's answer for it is its answer for a file that is absent.
ABSENT = "obygaze-no-such-file.json"
AGAIN = "the same command again; it resumes the transfer"
CHECK = "check the address and the network, then the same command again"
TRUST = "SSL_CERT_FILE=AUTHORITY.pem before the command, the authority that signed the certificate"
# Why no answer came, by a word in the details of obstore's error: what to say, and what to do.
# These are not errors of a moment: the same request fails again until something is changed.
SETTLED = {
    "UnknownIssuer": (
        "the certificate of this server is not trusted: its issuer is unknown",
        TRUST,
    ),
    "CaUsedAsEndEntity": (
        "the certificate of this server is not trusted: it signed itself",
        TRUST,
    ),
    "NotValidForName": (
        "the certificate of this server is not trusted: it is for another name",
        "the name that the certificate is for",
    ),
    "NotValidYet": (
        "the certificate of this server is not trusted: it is not valid yet",
        "check the clock of this machine",
    ),
    "Expired": (
        "the certificate of this server is not trusted: it has expired",
        "check the clock of this machine, or ask who runs the server to renew it",
    ),
    "InvalidCertificate": ("the certificate of this server is not trusted", TRUST),
    "InvalidMessage": (
        "this server does not speak TLS: https:// was asked of a port for http://",
        "the address with http://, or with the port for https://",
    ),
    "TooManyRedirects": (
        "this server sends every request on to another address, in a circle",
        "the address that a browser ends at",
    ),
}
# These may be over in a moment.
PASSING = {
    "dns error": (
        "the name of the server is unknown, or there is no network",
        "check the name in the address, and the network",
    ),
    "ConnectionRefused": (
        "no server answers at this address: connection refused",
        CHECK,
    ),
    "NetworkUnreachable": ("there is no way to this server from this network", CHECK),
    "HostUnreachable": ("there is no way to this server from this network", CHECK),
    "TimedOut": ("this server does not answer in time", CHECK),
    "ConnectionReset": (
        "the server ended the connection",
        "check the address: https:// where the server expects TLS; then the same command again",
    ),
}

_STATUS = re.compile(r"non-2xx status code: (\d+[^:]*)")


class NoRanges(FixInput):
    """The server cannot send parts of files: read a packed store, or use another server."""


class Unreachable(ObygazeError):
    """A server does not answer, or the connection breaks: check the address, or try later."""


@contextmanager
def stop_when_unreachable() -> Iterator[None]:
    """Stop the command (exit code 75) if a connection breaks in this block; pieces are kept."""
    try:
        yield
    except Unreachable as error:
        raise Stopped(error.message, where=error.where, hint=AGAIN) from error


def object_store(url: str, **client: Any) -> Any:
    """Return the obstore store of an http(s) or s3 URL; the keys for S3 are AWS_* variables."""
    stores = need("obstore.store", "remote", PURPOSE)
    endpoint = next(
        (os.environ[name] for name in ENDPOINTS if os.environ.get(name)), ""
    )
    if url.startswith("http:") or (
        url.startswith("s3:") and endpoint.startswith("http:")
    ):
        client["allow_http"] = True
    # S3 checks the digest that comes with each upload, and refuses bytes that changed on the way.
    config = (
        {"config": {"aws_checksum_algorithm": "SHA256"}}
        if url.startswith("s3:")
        else {}
    )
    try:
        return stores.from_url(
            url, client_options=client, retry_config=RETRIES, **config
        )
    except (ValueError, OSError, network_error()) as error:
        problem = f"this address cannot be read: {_first_line(error)}"
        hint = "s3://BUCKET/NAME"
        raise FixInput(problem, where=url, hint=hint) from error


def network_error() -> type[Exception]:
    """Return the base class of obstore's errors; a missing file has a class of its own."""
    base: type[Exception] = need("obstore.exceptions", "remote", PURPOSE).BaseError
    return base


@contextmanager
def _explaining(where: str) -> Iterator[None]:
    """Convert errors of obstore to ObygazeError, but not that of a missing file."""
    try:
        yield
    except network_error() as error:
        raise explained(error, where) from error


def explained(error: Exception, where: str) -> ObygazeError:
    """Return the ObygazeError for an error of obstore."""
    kind = type(error).__name__
    line = _first_line(error)
    if kind in DENIED:
        return FixInput("access denied", where=where, hint="keys with read permission")
    if kind == "NotSupportedError":
        return NoRanges(
            "this server cannot send parts of files",
            where=where,
            hint="another server, or fetch a packed store whole",
        )
    if KEY_SERVER in line:
        return FixInput("no keys for this bucket", where=where, hint=KEYS)
    # What comes before names the address, and answers of servers have no such part.
    details = str(error).partition("HttpError {")[2]
    for word, (problem, hint) in SETTLED.items():
        if word in details:
            return FixInput(problem, where=where, hint=hint)
    for word, (problem, hint) in PASSING.items():
        if word in details:
            return Unreachable(
                f"the connection failed: {problem}", where=where, hint=hint
            )
    status = _STATUS.search(line)
    if status:
        return Unreachable(
            f"the server reports an error: {status[1]}", where=where, hint=CHECK
        )
    return Unreachable(f"the connection failed: {line}", where=where, hint=CHECK)


def _first_line(error: Exception) -> str:
    """Return the reason, without the address and the retries that obstore puts before it."""
    line = (str(error).splitlines() or [type(error).__name__])[0]
    if KEY_SERVER in line:
        return line
    return line.rpartition(" - ")[2].rpartition("error: ")[2][:200]


def _check_encoding(attributes: Mapping[str, Any], where: str) -> None:
    """Raise an error for an answer that the server has compressed: its bytes are not the file's."""
    encodings = {str(key).lower(): str(value) for key, value in attributes.items()}
    encoding = encodings.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise FixInput(
            f"this server sends the file compressed (Content-Encoding: {encoding})",
            where=where,
            hint="turn this off on the server, or use another server",
        )


def _range_options(start: int, stop: int | None) -> dict[str, Any]:
    """Return the options of obstore for a part of a file; none for the whole."""
    if start < 0:
        return {"range": {"suffix": -start}}
    if stop is not None:
        return {"range": (start, stop)}
    if start:
        return {"range": {"offset": start}}
    return {}


class ObjectFiles:
    """Files behind an obstore store: http(s), s3, memory, and whatever else obstore reads."""

    is_remote = True

    def __init__(self, store: Any, location: str) -> None:
        self.obstore = need("obstore", "remote", PURPOSE)
        self.store = store
        self.location = without_secrets(location)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Piece | None:
        """Read a part in one request; the answer has the length of the file too."""
        where = f"{self.location}/{name}"
        options = _range_options(start, stop)
        try:
            answer = self.obstore.get(self.store, name, options=options)
            _check_encoding(answer.attributes, where)
            check_document(name, int(answer.meta["size"]), self.location)
            data = np.frombuffer(memoryview(answer.bytes()), np.uint8)
        except FileNotFoundError:
            return None
        except network_error() as error:
            if name != Plan.FILE and self._denies_absent(error):
                return None
            raise explained(error, where) from error
        is_page = not options and name.endswith(".json") and data[:1].tobytes() != b"{"
        if is_page and self._status(ABSENT) == "found":
            return None  # a server that sends a page of HTML for every name
        return Piece(data, int(answer.meta["size"]))

    def _denies_absent(self, error: Exception) -> bool:
        """Return whether access is denied to absent files, but not to the store.

        Buckets whose files are public and whose listing is not do so.
        """
        return (
            type(error).__name__ in DENIED
            and self._status(ABSENT) == "denied"
            and self._status(Plan.FILE) == "found"
        )

    def _status(self, name: str) -> str:
        try:
            self.obstore.get(self.store, name)
        except FileNotFoundError:
            return "absent"
        except network_error() as error:
            return "denied" if type(error).__name__ in DENIED else "unreachable"
        return "found"

    def names(self, folder: str) -> list[str] | None:
        """Return the names in a folder of a bucket; None for web servers, which cannot list."""
        try:
            listing = self.obstore.list_with_delimiter(
                self.store, f"{folder}/" if folder else None
            )
        except (NotImplementedError, network_error()):
            return None
        paths = [entry["path"] for entry in listing["objects"]] + list(
            listing["common_prefixes"]
        )
        return sorted(path.rstrip("/").rsplit("/", 1)[-1] for path in paths)


class S3Target(Target):
    """A folder of a bucket. Each object has its sha256 as an attribute, for later pushes."""

    def __init__(self, url: str) -> None:
        self.obstore = need("obstore", "remote", PURPOSE)
        self.location = without_secrets(url.rstrip("/"))
        self.store = object_store(url.rstrip("/"))
        self.files = ObjectFiles(self.store, self.location)

    def has(self, name: str, mark: FileMark) -> bool:
        """Compare the length and the digest of an object, without reading its bytes."""
        try:
            with _explaining(f"{self.location}/{name}"):
                answer = self.obstore.get(self.store, name, options={"head": True})
        except FileNotFoundError:
            return False
        attributes = {
            str(key).lower(): value for key, value in answer.attributes.items()
        }
        return (
            answer.meta["size"] == mark.n_bytes
            and attributes.get("sha256") == mark.sha256
        )

    def put(self, name: str, data: bytes | Path, mark: FileMark) -> None:
        """Send an object, then compare its length and checksum."""
        with _explaining(f"{self.location}/{name}"):
            self.obstore.put(self.store, name, data, attributes={"sha256": mark.sha256})
        if not self.has(name, mark):
            raise Corrupt(
                f"{name} has another length or checksum after the upload",
                where=self.location,
            )

    def remove(self, name: str) -> None:
        """Remove an object; a missing one is ignored."""
        with suppress(FileNotFoundError), _explaining(f"{self.location}/{name}"):
            self.obstore.delete(self.store, name)

    def create(self, name: str, data: bytes) -> bytes | None:
        """Send an object on condition that there is none of this name."""
        where = f"{self.location}/{name}"
        is_conditional = True
        for _ in range(TRIES):
            with suppress(FileNotFoundError), _explaining(where):
                answer = self.obstore.get(self.store, name)
                return bytes(memoryview(answer.bytes()))
            try:
                self.obstore.put(
                    self.store,
                    name,
                    data,
                    # Services without conditional writes get a plain one.
                    mode="create" if is_conditional else "overwrite",
                    attributes={"sha256": sha256_bytes(data)},
                )
                return data
            except (NotImplementedError, network_error()) as error:
                kind = type(error).__name__
                if kind in UNSUPPORTED:
                    is_conditional = False
                elif kind not in CHANGED:
                    raise explained(error, where) from error
        raise Stopped(
            f"other processes keep changing {name}", where=self.location, hint=AGAIN
        )
