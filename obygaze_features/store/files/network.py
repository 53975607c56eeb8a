"""Addresses as obstore stores, and what goes wrong on a network in words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from obygaze_features.core.errors import FixInput, ObygazeError, Stopped
from obygaze_features.core.extras import need

PURPOSE = "reading a store over the network"
RETRIES: dict[str, Any] = {"max_retries": 3, "retry_timeout": timedelta(seconds=30)}
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
# Without keys obstore asks the machine it runs on, as if that were one of Amazon's.
KEY_SERVER = "169.254.169.254"
KEYS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true if it is public"
AGAIN = "the same command again; it goes on where it stopped"
LOOK = "look at the address and the network, then the same command again"


class NoRanges(FixInput):
    """A server that sends files whole only."""


class Unreachable(ObygazeError):
    """A place on a network does not answer, or breaks off: look at the address, or try later."""


@contextmanager
def transfer() -> Iterator[None]:
    """Within this a connection that breaks off stops the command (75): what has arrived stays."""
    try:
        yield
    except Unreachable as error:
        raise Stopped(error.what, where=error.where, hint=AGAIN) from error


def object_store(url: str, **client: Any) -> Any:
    """The obstore store of an http(s) or s3 address; S3 takes its keys from AWS_* variables."""
    stores = need("obstore.store", "remote", PURPOSE)
    options = {**_client_options(url), **client}
    # S3 checks the digest that comes with each upload, and refuses bytes that changed on the way.
    config = {"config": {"aws_checksum_algorithm": "SHA256"}} if url.startswith("s3:") else {}
    try:
        return stores.from_url(url, client_options=options, retry_config=RETRIES, **config)
    except (ValueError, OSError, network_error()) as error:
        raise FixInput(f"this address cannot be read: {_first_line(error)}", where=url) from error


def _client_options(url: str) -> dict[str, Any]:
    endpoint = next((os.environ[name] for name in ENDPOINTS if os.environ.get(name)), "")
    plain = url.startswith("http:") or (url.startswith("s3:") and endpoint.startswith("http:"))
    return {"allow_http": True} if plain else {}


def network_error() -> type[Exception]:
    """What obstore raises for everything but a file that is not there."""
    base: type[Exception] = need("obstore.exceptions", "remote", PURPOSE).BaseError
    return base


def told(error: Exception, where: str) -> ObygazeError:
    """A network's error as something a person can act on."""
    kind, line = type(error).__name__, _first_line(error)
    if kind in ("PermissionDeniedError", "UnauthenticatedError"):
        return FixInput("access is refused", where=where, hint="keys that may read it")
    if kind == "NotSupportedError":
        return NoRanges(
            "this server does not answer requests for parts of files",
            where=where,
            hint="another server, or fetch a packed store whole",
        )
    if KEY_SERVER in line:
        return FixInput("there are no keys for this bucket", where=where, hint=KEYS)
    return Unreachable(f"the connection failed: {line}", where=where, hint=LOOK)


def _first_line(error: Exception) -> str:
    """What went wrong, without the address and the retries that obstore puts before it."""
    line = (str(error).splitlines() or [type(error).__name__])[0]
    if KEY_SERVER in line:
        return line
    return line.rpartition(" - ")[2].rpartition("error: ")[2][:200]
