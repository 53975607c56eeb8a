"""Files on web servers, in buckets and on the Hugging Face hub, through obstore."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
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
    without_secrets,
)
from obygaze_features.core.lazy import need
from obygaze_features.core.workspace import URL_SCHEMES
from obygaze_features.store.decoding import Bytes
from obygaze_features.store.files import Files, NoRanges, Range, check_length
from obygaze_features.store.layout import STORE_JSON

PURPOSE = "reading a store over the network"
HUB = "the Hugging Face hub"
REQUESTS_AT_ONCE = 10
# What huggingface_hub sends its requests with, one or two of these by its version.
HTTP_LIBRARIES = ("httpx", "httpx2", "httpcore", "httpcore2", "requests")
RETRIES: dict[str, Any] = {"max_retries": 3, "retry_timeout": timedelta(seconds=30)}
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
# Without keys obstore asks this address, which exists on machines of Amazon only.
KEY_SERVER = "169.254.169.254"
KEYS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true if it is public"
DENIED = ("PermissionDeniedError", "UnauthenticatedError")
AGAIN = "the same command again; it goes on where it was stopped"
CHECK = "check the address and the network, then the same command again"
_STATUS = re.compile(r"non-2xx status code: (\d+[^:]*)")
# The address of an open store names the commit, so that it stays the same store.
_HUB_URL = re.compile(r"hf://([\w.-]+/[\w.-]+)(?:@([0-9a-f]{40}))?")


class Unreachable(ObygazeError):
    """A server does not answer, or the connection breaks: check the address, or try later."""


def open_remote(url: str) -> Files:
    """Return the files at an http(s), s3 or hf URL."""
    url = url.rstrip("/")
    if not url.startswith(URL_SCHEMES):
        raise FixUsage(
            "unsupported URL", where=url, hint="https://, s3:// or hf://OWNER/NAME"
        )
    if url.startswith("hf://"):
        return _open_hub(url)
    return ObjectFiles(object_store(url), url)


def object_store(url: str, **client: Any) -> Any:
    """Return the obstore store of an http(s) or s3 URL; the keys for S3 are AWS_* variables."""
    stores = need("obstore.store", "remote", PURPOSE)
    is_s3 = url.startswith("s3:")
    endpoints = [os.environ[name] for name in ENDPOINTS if os.environ.get(name)]
    address = endpoints[0] if is_s3 and endpoints else url
    if address.startswith("http:"):
        client["allow_http"] = True
    # S3 checks the digest that comes with each upload, and refuses bytes that changed on the way.
    config = {"config": {"aws_checksum_algorithm": "SHA256"}} if is_s3 else {}
    try:
        store = stores.from_url(
            url, client_options=client, retry_config=RETRIES, **config
        )
    except (ValueError, OSError, network_error()) as error:
        raise FixInput(
            f"this address cannot be read: {_reason(error)}",
            where=url,
            hint="https://HOST/PATH or s3://BUCKET/NAME",
        ) from error
    if is_s3:
        parts = filter(None, (store.config["bucket"], store.prefix))
        opened = f"s3://{'/'.join(parts)}"
        if opened != url:
            # An ending such as ?y or #y would be left out: the files of another address.
            raise FixUsage(
                f"this address means {opened}: a name in a bucket has no #, ?, % or ..",
                where=url,
                hint="s3://BUCKET/NAME",
            )
    return store


def network_error() -> type[Exception]:
    """Return the base class of obstore's errors; a missing file has a class of its own."""
    base: type[Exception] = need("obstore.exceptions", "remote", PURPOSE).BaseError
    return base


def explained(error: Exception, where: str) -> ObygazeError:
    """Return the ObygazeError for an error of obstore."""
    kind = type(error).__name__
    line = _reason(error)
    if kind in DENIED:
        return FixInput("access denied", where=where)
    if kind == "NotSupportedError":
        return NoRanges(
            "this server cannot send parts of files, or this file is empty",
            where=where,
            hint="obygaze store pull copies the whole store",
        )
    if KEY_SERVER in line:
        return FixInput("no keys for this bucket", where=where, hint=KEYS)
    status = _STATUS.search(line)
    if status:
        return Unreachable(
            f"the server reports an error: {status[1]}", where=where, hint=CHECK
        )
    return Unreachable(f"the connection failed: {line}", where=where, hint=CHECK)


def _reason(error: Exception) -> str:
    """Return the reason, without the address and the retries that obstore puts before it."""
    line = first_line(error, 10_000)
    if KEY_SERVER in line:
        return line
    return line.rpartition(" - ")[2].rpartition("error: ")[2][:200]


class ObjectFiles:
    """Files behind an obstore store: http(s), s3, memory, and whatever else obstore reads."""

    piece_bytes = 2**23

    def __init__(self, store: Any, address: str, location: str = "") -> None:
        self.obstore = need("obstore", "remote", PURPOSE)
        self.store = store
        self.address = address
        self.location = without_secrets(location or address)

    def read(self, name: str, most_bytes: int) -> Bytes:
        """Return a whole file; raise FileNotFoundError if it is absent."""
        data = self._get(name, {}, most_bytes)
        if name == STORE_JSON and data[:1].tobytes() != b"{":
            # Some servers answer with a page of HTML for every name.
            raise FileNotFoundError(f"{self.location}/{name}")
        return data

    def read_ranges(self, ranges: Sequence[Range]) -> Iterator[Bytes]:
        """Yield parts of files; several are requested at once."""
        if len(ranges) == 1:
            yield self._range(ranges[0])
            return
        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
            yield from _in_order(pool, self._range, ranges)

    def length(self, name: str) -> int:
        """Return the bytes of a file; raise FileNotFoundError if it is absent."""
        try:
            # Not a HEAD: some servers do not answer it.
            answer = self._answer(name, {"range": (0, 1)})
        except NoRanges:
            # The whole file, of which nothing is read.
            answer = self._answer(name, {})
        return int(answer.meta["size"])

    def _answer(self, name: str, options: Mapping[str, Any]) -> Any:
        """Return the answer to a request, of which the bytes are not read yet."""
        try:
            return self.obstore.get(self.store, name, options=options)
        except network_error() as error:
            raise explained(error, f"{self.location}/{name}") from error

    def names(self) -> list[str] | None:
        """Return None: web servers cannot list their files."""
        return None

    def _range(self, wanted: Range) -> Bytes:
        n_bytes = wanted.stop - wanted.start
        options = {"range": (wanted.start, wanted.stop)}
        return self._get(wanted.name, options, n_bytes)

    def _get(self, name: str, options: Mapping[str, Any], most_bytes: int) -> Bytes:
        where = f"{self.location}/{name}"
        try:
            answer = self.obstore.get(self.store, name, options=options)
            _check_encoding(answer.attributes, where)
            first, after = answer.range
            check_length(name, after - first, most_bytes, self.location)
            return np.frombuffer(memoryview(answer.bytes()), np.uint8)
        except network_error() as error:
            raise explained(error, where) from error


def _in_order(
    pool: ThreadPoolExecutor,
    read: Callable[[Range], Bytes],
    ranges: Sequence[Range],
) -> Iterator[Bytes]:
    """Yield parts in their order. Only a few are held at once, however slow the reader of them."""
    waiting: list[Future[Bytes]] = []
    for wanted in ranges:
        if len(waiting) == REQUESTS_AT_ONCE:
            yield waiting.pop(0).result()
        waiting.append(pool.submit(read, wanted))
    for future in waiting:
        yield future.result()


def _check_encoding(attributes: Mapping[str, Any], where: str) -> None:
    """Raise an error for an answer that the server has compressed: its bytes are not the file's."""
    encodings = {str(key).lower(): str(value) for key, value in attributes.items()}
    encoding = encodings.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise FixInput(
            f"this server sends the file compressed (Content-Encoding: {encoding})",
            where=where,
        )


def _open_hub(url: str) -> Files:
    """Return the files of a store on the hub, at its last commit: a later one changes none."""
    repo, commit = split_hub_url(url)
    package = need("huggingface_hub", "remote", HUB)
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
    """Return the data set of an address on the hub, and the commit; "" for the last one."""
    match = _HUB_URL.fullmatch(url)
    if match is None or ".." in url:
        raise FixUsage(f"invalid address {url!r}", hint="hf://OWNER/NAME")
    return match[1], match[2] or ""


@contextmanager
def hub_errors(package: Any, where: str) -> Iterator[None]:
    """Convert errors of the hub; other errors are not changed."""
    try:
        yield
    except Exception as error:
        known = _hub_error(package, error, where)
        if known is None:
            raise
        raise known from error


def _hub_error(package: Any, error: Exception, where: str) -> ObygazeError | None:
    """Return the ObygazeError for an error of huggingface_hub; None for any other error."""
    library = type(error).__module__.partition(".")[0]
    if isinstance(error, package.errors.HFValidationError):
        return FixUsage(first_line(error), where=where, hint="hf://OWNER/NAME")
    is_of_hub = isinstance(error, package.errors.HfHubHTTPError | OSError)
    if not is_of_hub and library not in HTTP_LIBRARIES:
        return None
    line = first_line(error)
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status == 404:
        return NotFound(
            "no such data set on the hub", where=where, hint="hf auth login"
        )
    if status in (401, 403):
        return FixInput("the hub denied access", where=where, hint="hf auth login")
    if status in (409, 412):
        return Stopped(
            "another process changed this data set while files were sent",
            where=where,
            hint=AGAIN,
        )
    if status is not None and 400 <= status < 500 and status not in (408, 429):
        return FixInput(f"the hub rejected the request: {line}", where=where)
    return Unreachable(f"the hub cannot be reached: {line}", where=where, hint=CHECK)
