"""A small HTTP server for one page and one person: on this machine only, with a token.

Addresses are names of functions; no part of one is ever the path of a file.
"""

import errno
import hmac
import json
import mimetypes
import os
import re
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from obygaze_features.core import system
from obygaze_features.core.errors import NotFound, ObygazeError
from obygaze_features.core.files import json_values, parse_json

HOST = "127.0.0.1"
# The largest thing that the page sends are the stretches that were watched.
MAX_BODY = 1 << 22
CHUNK = 1 << 18
STATUS_OF = {errno.ENOSPC: 507, errno.EDQUOT: 507, errno.ENOENT: 404}
RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; media-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Reply:
    """What is sent: bytes, or a file that may be asked for in ranges."""

    body: bytes | Path
    kind: str = "application/json"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Any, status: int = 200) -> Self:
        """Return a value as JSON; a number that is not finite becomes null."""
        try:
            text = json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            # Of 20,000 marks this takes longer than all the rest, and few documents need it.
            text = json.dumps(json_values(value), allow_nan=False)
        return cls(text.encode("utf-8"), status=status)


class Refused(ObygazeError):
    """A request that is answered with a status and a reason."""

    def __init__(self, status: int, message: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


class PageServer(ThreadingHTTPServer):
    """Serves functions to whoever opened the page by an address with a token.

    It takes the first of the `ports` that no other program uses; 0 is any free one.

    Each token opens the page once: whoever reads it later, in a list of processes or a history, has
    nothing. The browser that used it has a cookie.

    `get` and `post` map addresses to functions of the parameters or of the JSON that was sent. The
    function of `media/` is called for `media/12`, with "12" as `key`; that of "" is the page.
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = system.TAKES_ENDED_PORTS

    def __init__(
        self,
        get: Mapping[str, Callable[[Mapping[str, str]], Reply]],
        post: Mapping[str, Callable[[Mapping[str, Any]], Reply]],
        port: int = 0,
    ) -> None:
        super().__init__((HOST, 0), _Handler, bind_and_activate=False)
        self._listen(port)
        self.routes: dict[str, Mapping[str, Callable[[Any], Reply]]]
        self.routes = {"GET": get, "HEAD": get, "POST": post}
        self.secret = secrets.token_urlsafe(24)  # of the cookie
        self._unused_tokens: set[str] = set()
        self.host = f"{HOST}:{self.server_port}"
        # Pages at all ports of a host see the same cookies.
        self.cookie = f"obygaze-{self.server_port}"

    def _listen(self, port: int) -> None:
        """Listen at a port, or at a free one where it is used by another program."""
        self.server_address = (HOST, port)
        try:
            self.server_bind()
            self.server_activate()
        except OSError:
            self.server_address = (HOST, 0)
            self.server_bind()
            self.server_activate()

    def new_address(self) -> str:
        """Return an address that opens the page, once."""
        token = secrets.token_urlsafe(24)
        self._unused_tokens.add(token)
        return f"http://{self.host}/?token={token}"

    def use(self, token: str) -> bool:
        """Return whether a token opens the page; it does not do so again."""
        sent = token.encode("utf-8")
        for unused in tuple(self._unused_tokens):
            if hmac.compare_digest(sent, unused.encode("utf-8")):
                self._unused_tokens.discard(unused)
                return True
        return False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a connection that the browser closed, as it does when it seeks in a video."""


class _Handler(BaseHTTPRequestHandler):
    """Checks a request, calls the function of its address, and sends what that returns."""

    protocol_version = "HTTP/1.1"
    server_version = "obygaze"
    sys_version = ""
    server: PageServer
    timeout = 60
    # Else the body waits, up to 40 ms, until the browser has confirmed the headers.
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Answer a request; no error ends the server."""
        try:
            reply = self._reply()
        except Exception as error:  # noqa: BLE001
            self.close_connection = True  # what was sent may not have been read
            reply = _reply_of(error)
            if self._is_navigation():
                reply = _as_text(reply)
        with suppress(BrokenPipeError, ConnectionResetError):
            self._send(reply)

    do_HEAD = do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def _reply(self) -> Reply:
        server = self.server
        self._require_same_origin()
        address = urlsplit(self.path)
        path = address.path.removeprefix("/")
        asked = dict(parse_qsl(address.query, True))
        token = asked.pop("token", "") if path == "" else ""
        cookie = self._cookies().get(server.cookie, "").encode("utf-8")
        is_known = hmac.compare_digest(cookie, server.secret.encode("utf-8"))
        # Also the browser that has the cookie uses its token up: it is in its history by now.
        is_new = self.command == "GET" and server.use(token)
        if not is_known and not is_new:
            raise Refused(
                403,
                "open the whole address that obygaze view printed; each opens the page once,"
                " in one browser",
                f"in the browser that opened it first, http://{server.host}/ opens the page again;"
                " for another browser, stop obygaze view and start it again",
            )
        routes = server.routes[self.command]
        if path not in routes and "/" in path:
            name, _, key = path.partition("/")
            path = f"{name}/"
            asked["key"] = unquote(key)
        if path not in routes:
            raise Refused(404, "no such page")
        reply = routes[path](self._body() if self.command == "POST" else asked)
        if not is_new:
            return reply
        kept = f"{server.cookie}={server.secret}; Path=/; HttpOnly; SameSite=Strict"
        return replace(reply, headers={"Set-Cookie": kept})

    def _is_navigation(self) -> bool:
        """Return whether a browser shows the answer as a page, unlike what scripts ask for."""
        return self.command == "GET" and "text/html" in self.headers.get("Accept", "")

    def _require_same_origin(self) -> None:
        """Refuse another name of this machine (DNS rebinding), and pages of other servers."""
        if self.headers.get("Host") != self.server.host:
            raise Refused(421, "this server answers to its own address only")
        origin = f"http://{self.server.host}"
        default = "" if self.command == "POST" else origin
        if self.headers.get("Origin", default) != origin:
            raise Refused(403, "a request of another page")

    def _cookies(self) -> dict[str, str]:
        """Return the cookies of the request."""
        texts = self.headers.get("Cookie", "").split(";")
        pairs = (text.strip().partition("=") for text in texts)
        return {name: value for name, _, value in pairs}

    def _body(self) -> dict[str, Any]:
        length = self.headers.get("Content-Length", "")
        if (
            self.headers.get_content_type() != "application/json"
            or not length.isdecimal()
        ):
            raise Refused(415, "expected JSON")
        if int(length) > MAX_BODY:
            raise Refused(413, f"more than {MAX_BODY} bytes")
        value = parse_json(self.rfile.read(int(length)))
        if not isinstance(value, dict):
            raise Refused(400, "expected a JSON object")
        return value

    def _send(self, reply: Reply) -> None:
        if isinstance(reply.body, Path):
            self._send_file(reply.body)
            return
        self._start(
            reply.status, len(reply.body), {"Content-Type": reply.kind, **reply.headers}
        )
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def _send_file(self, path: Path) -> None:
        """Send a file, or the part of it that is asked for, in pieces."""
        with path.open("rb") as stream:
            facts = os.fstat(stream.fileno())
            size = facts.st_size
            tag = f'"{facts.st_size:x}-{facts.st_mtime_ns:x}"'
            headers = {"ETag": tag, "Accept-Ranges": "bytes"}
            headers["Content-Type"] = mimetypes.guess_type(path.name)[0] or "video/mp4"
            is_same = self.headers.get("If-Range", tag) == tag
            part = byte_range(self.headers.get("Range", ""), size) if is_same else None
            if part is None:
                status = 200
                part = range(size)
            elif part:
                status = 206
                headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{size}"
            else:
                status = 416
                headers["Content-Range"] = f"bytes */{size}"
            self._start(status, len(part), headers)
            stream.seek(part.start)
            left = 0 if self.command == "HEAD" else len(part)
            while left and (data := stream.read(min(CHUNK, left))):
                self.wfile.write(data)
                left -= len(data)
            self.close_connection |= left > 0  # the file has become shorter

    def _start(self, status: int, n_bytes: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {
            **HEADERS,
            **headers,
            "Content-Length": str(n_bytes),
        }.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()


def byte_range(header: str, size: int) -> range | None:
    """Return the bytes that a Range header asks for: none of them if it cannot be satisfied.

    None stands for the whole file: without a valid range, or with several.
    """
    match = RANGE.fullmatch(header.strip())
    if match is None or not any(match.groups()):
        return None
    first, last = match.groups()
    if not first:
        return range(max(0, size - int(last)), size)
    if last and int(last) < int(first):
        return None
    return range(int(first), min(size, int(last) + 1) if last else size)


def _reply_of(error: Exception) -> Reply:
    """Return the answer to a request that an error ended."""
    if isinstance(error, ObygazeError):
        status = getattr(error, "status", 404 if isinstance(error, NotFound) else 400)
        return Reply.of({"error": error.message, "hint": error.hint}, status)
    if isinstance(error, OSError):
        status = STATUS_OF.get(error.errno or 0, 500)
        return Reply.of({"error": error.strerror or str(error)}, status)
    if isinstance(error, LookupError | TypeError | ValueError):
        status = 404 if isinstance(error, KeyError) else 400
        return Reply.of({"error": f"there is no such thing here: {error}"}, status)
    return Reply.of({"error": f"a bug in obygaze: {error!r}"}, 500)


def _as_text(reply: Reply) -> Reply:
    """Return the answer to a request that an error ended as text for people."""
    document = json.loads(cast("bytes", reply.body))
    sentences = filter(None, (document["error"], document.get("hint")))
    text = "".join(f"{sentence}.\n" for sentence in sentences)
    return Reply(text.encode("utf-8"), "text/plain; charset=utf-8", reply.status)
