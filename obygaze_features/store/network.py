"""Files on web servers, in buckets and on the Hugging Face hub, through obstore."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np

from obygaze_features.core.errors import (
    FixInput,
    FixUsage,
    NotFound,
    ObygazeError,
    Stopped,
    first_line,
    remove_secrets,
)
from obygaze_features.core.lazy import import_optional
from obygaze_features.core.workspace import URL_SCHEMES
from obygaze_features.store.decoding import Bytes
from obygaze_features.store.files import Files, NoRanges, Range, check_length
from obygaze_features.store.layout import STORE_JSON

PURPOSE = "reading a store over the network"
HUB = "the Hugging Face hub"
REQUESTS_AT_ONCE = 10
# The HTTP libraries of huggingface_hub, depending on its version.
HTTP_LIBRARIES = ("httpx", "httpx2", "httpcore", "httpcore2", "requests")
RETRIES: dict[str, Any] = {"max_retries": 3, "retry_timeout": timedelta(seconds=30)}
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
# Without keys, obstore requests this address, which exists only on machines of Amazon.
KEY_SERVER = "169.254.169.254"
KEYS = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true if it is public"
DENIED = ("PermissionDeniedError", "UnauthenticatedError")
AGAIN = "run the same command again to continue"
CHECK = "check the address and the network, then run the same command again"
_LOGIN = "log in: hf auth login"
_CHANGED = "another process changed this data set during the push"
# Errors by HTTP status of the hub; any other status means that it is unreachable.
_HUB_ERRORS: dict[int | None, tuple[type[ObygazeError], str, str]] = {
    401: (FixInput, "the hub denied access", _LOGIN),
    403: (FixInput, "the hub denied access", _LOGIN),
    404: (NotFound, "no such data set on the hub", _LOGIN),
    409: (Stopped, _CHANGED, AGAIN),
    412: (Stopped, _CHANGED, AGAIN),
}
# The address of an open store contains the commit, so that the store does not change.
_HUB_URL = re.compile(r"hf://([\w.-]+/[\w.-]+)(?:@([0-9a-f]{40}))?")
JOIN_LATER = "; a join cannot begin with an address: write NAME+ADDRESS"


class Unreachable(ObygazeError):
    """A server does not answer, or the connection broke: check the address, or retry later."""


def open_remote(url: str) -> Files:
    """Return the files at an http(s), s3 or hf URL."""
    url = url.rstrip("/")
    if not url.startswith(URL_SCHEMES):
        raise FixUsage(
            "unsupported URL", where=url, hint="use https://, s3:// or hf://OWNER/NAME"
        )
    if url.startswith("hf://"):
        return _open_hub(url)
    return ObjectFiles(object_store(url), url)


def object_store(url: str, **client: Any) -> Any:
    """Return the obstore store of an http(s) or s3 URL; the keys for S3 are AWS_* variables."""
    stores = import_optional("obstore.store", "remote", PURPOSE)
    is_s3 = url.startswith("s3:")
    endpoints = filter(None, map(os.environ.get, ENDPOINTS))
    address = next(endpoints, url) if is_s3 else url
    if address.startswith("http:"):
        client["allow_http"] = True
    # S3 verifies the digest of each upload, and refuses changed bytes.
    config = {"config": {"aws_checksum_algorithm": "SHA256"}} if is_s3 else {}
    try:
        store = stores.from_url(
            url, client_options=client, retry_config=RETRIES, **config
        )
    except (ValueError, OSError, network_error()) as error:
        raise FixInput(
            f"this address cannot be read: {_reason(error)}",
            where=url,
            hint="use https://HOST/PATH or s3://BUCKET/NAME",
        ) from error
    if is_s3:
        parts = filter(None, (store.config["bucket"], store.prefix))
        opened = f"s3://{'/'.join(parts)}"
        if opened != url:
            # obstore drops endings such as ?y or #y, and would read a different address.
            raise FixUsage(
                f"expected a name without #, ?, % and ..; this address is read as {opened}",
                where=url,
                hint="use s3://BUCKET/NAME",
            )
    return store


def network_error() -> type[Exception]:
    """Return the base class of all errors of obstore except the error for a missing file."""
    base: type[Exception] = import_optional(
        "obstore.exceptions", "remote", PURPOSE
    ).BaseError
    return base


@contextmanager
def network_errors(where: str) -> Iterator[None]:
    """Convert errors of obstore to ObygazeError; a missing file stays FileNotFoundError."""
    try:
        yield
    except network_error() as error:
        raise convert_error(error, where) from error


def convert_error(error: Exception, where: str) -> ObygazeError:
    """Return the ObygazeError for an error of obstore."""
    kind = type(error).__name__
    line = _reason(error)
    if kind in DENIED:
        return FixInput("access denied", where=where)
    if kind == "NotSupportedError":
        return NoRanges(
            "the server does not send parts of files, or the file is empty",
            where=where,
            hint="copy the whole store: obygaze store pull URL",
        )
    if KEY_SERVER in line:
        return FixInput("the keys of this bucket are missing", where=where, hint=KEYS)
    return Unreachable(f"the connection failed: {line}", where=where, hint=CHECK)


def _reason(error: Exception) -> str:
    """Return the reason of an error, without the address and the retries."""
    line = first_line(error, 10_000)
    if KEY_SERVER in line:
        return line
    return line.rpartition(" - ")[2].rpartition("error: ")[2][:200]


class ObjectFiles:
    """Files that obstore reads: http(s), s3, memory."""

    piece_bytes = 2**23

    def __init__(self, store: Any, address: str, location: str = "") -> None:
        self.obstore = import_optional("obstore", "remote", PURPOSE)
        self.store = store
        self.address = address
        self.location = remove_secrets(location or address)

    def read(self, name: str, most_bytes: int) -> Bytes:
        """Return a whole file; raise FileNotFoundError if it is missing."""
        data = self._bytes(name, {}, most_bytes)
        if name == STORE_JSON and data[:1].tobytes() != b"{":
            # Some servers answer with a page of HTML for every name.
            raise FileNotFoundError(f"{self.location}/{name}")
        return data

    def read_ranges(self, ranges: Sequence[Range]) -> Iterator[Bytes]:
        """Yield parts of files in the order of `ranges`.

        `REQUESTS_AT_ONCE` parts are requested, and are in memory, at the same time.
        """
        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
            for first in range(0, len(ranges), REQUESTS_AT_ONCE):
                yield from pool.map(
                    self._range, ranges[first : first + REQUESTS_AT_ONCE]
                )

    def length(self, name: str) -> int:
        """Return the length of a file in bytes; raise FileNotFoundError if it is missing."""
        try:
            # Request one byte: some servers do not answer HEAD.
            answer = self.answer(name, {"range": (0, 1)})
        except NoRanges:
            # Request the whole file, but do not read its body.
            answer = self.answer(name, {})
        return int(answer.meta["size"])

    def names(self) -> list[str] | None:
        """Return None: web servers do not list files."""
        return None

    def answer(self, name: str, options: Mapping[str, Any]) -> Any:
        """Return the response to a request; its body is not read yet."""
        with network_errors(f"{self.location}/{name}"):
            return self.obstore.get(self.store, name, options=options)

    def _range(self, wanted: Range) -> Bytes:
        options = {"range": (wanted.start, wanted.stop)}
        return self._bytes(wanted.name, options, wanted.stop - wanted.start)

    def _bytes(self, name: str, options: Mapping[str, Any], most_bytes: int) -> Bytes:
        where = f"{self.location}/{name}"
        answer = self.answer(name, options)
        for key, value in answer.attributes.items():
            # The body of a compressed response does not have the bytes of the file.
            if key.lower() == "content-encoding" and value.lower() != "identity":
                raise FixInput(
                    f"expected an uncompressed file from the server, got Content-Encoding: {value}",
                    where=where,
                )
        first, after = answer.range
        check_length(name, after - first, most_bytes, self.location)
        with network_errors(where):
            return np.frombuffer(memoryview(answer.bytes()), np.uint8)


def _open_hub(url: str) -> Files:
    """Return the files of a store on the hub, at the commit in the URL or at the last commit.

    Later commits do not change an open store.
    """
    repo, commit = split_hub_url(url)
    package = import_optional("huggingface_hub", "remote", HUB)
    api = package.HfApi()
    if not commit:
        with hub_errors(package, f"hf://{repo}"):
            info = api.repo_info(
                repo_id=repo, repo_type="dataset", revision="main", expand=["sha"]
            )
        commit = str(info.sha)
    token = package.get_token()
    headers: dict[str, Any] = {}
    if token:
        headers["default_headers"] = {"Authorization": f"Bearer {token}"}
    endpoint = api.endpoint.rstrip("/")
    store = object_store(f"{endpoint}/datasets/{repo}/resolve/{commit}", **headers)
    name = f"hf://{repo}"
    return ObjectFiles(store, f"{name}@{commit}", name)


def split_hub_url(url: str) -> tuple[str, str]:
    """Return the data set and the commit of an address on the hub; "" for the last commit."""
    match = _HUB_URL.fullmatch(url)
    if match is None or ".." in url:
        hint = "use hf://OWNER/NAME"
        if "+" in url:
            hint += JOIN_LATER
        raise FixUsage(f"invalid address {url!r}", hint=hint)
    return match[1], match[2] or ""


@contextmanager
def hub_errors(package: Any, where: str) -> Iterator[None]:
    """Convert errors of huggingface_hub to ObygazeError; raise all other errors unchanged."""
    try:
        yield
    except Exception as error:
        known = _hub_error(package, error, where)
        if known is None:
            raise
        raise known from error


def _hub_error(package: Any, error: Exception, where: str) -> ObygazeError | None:
    """Return the ObygazeError for an error of huggingface_hub, or None for other errors."""
    line = first_line(error)
    if isinstance(error, package.errors.HFValidationError):
        return FixUsage(line, where=where, hint="use hf://OWNER/NAME")
    if type(error) is ValueError:
        # The hub refuses the head of README.md: the lines of the error say why.
        return FixInput(str(error), where=where, hint="correct README.md of the store")
    library = type(error).__module__.partition(".")[0]
    of_hub = package.errors.HfHubHTTPError | OSError
    if not isinstance(error, of_hub) and library not in HTTP_LIBRARIES:
        return None
    status = getattr(getattr(error, "response", None), "status_code", None)
    unknown = (Unreachable, f"the hub cannot be reached: {line}", CHECK)
    kind, message, hint = _HUB_ERRORS.get(status, unknown)
    return kind(message, where=where, hint=hint)
