"""A web server that answers huggingface_hub as the hub does: for stores, and for a checkpoint."""

import base64
import contextlib
import hashlib
import json
import re
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.servers import Handler, served

LARGE = 200  # bytes from which on files are listed as large ones


@dataclass
class FakeHub:
    """A data set or a model: its files at the last commit, uploads, and what was asked for."""

    url: str = ""
    # What stands before it in addresses of the API, and of files.
    api: str = "datasets/lab/films"
    repository: str = "datasets/lab/films"
    exists: bool = False
    private: bool = False
    files: dict[str, bytes] = field(default_factory=dict)
    commits: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    refuse: bool = False
    history: dict[str, dict[str, bytes]] = field(default_factory=dict)

    @property
    def head(self) -> str:
        return f"{len(self.commits):040x}"

    def answer(
        self, method: str, path: str, body: bytes, headers: Any
    ) -> tuple[int, Any, dict]:
        self.asked.append(f"{method} {path}")
        self.tokens.add(headers.get("Authorization", ""))
        if self.refuse:
            return 403, {"error": "no"}, {}
        if path == "/api/repos/create":
            asked = json.loads(body)
            self.exists = True
            # How it is spelt depends on the version of huggingface_hub.
            self.private = (
                asked.get("private") is True or asked.get("visibility") == "private"
            )
            return 200, {"url": f"{self.url}/datasets/lab/films"}, {}
        if not self.exists:
            return 404, {"error": "none"}, {"X-Error-Code": "RepoNotFound"}
        for pattern, handle in self._routes():
            match = re.fullmatch(pattern, path)
            if match:
                return handle(body, *match.groups(), headers)
        return 404, {"error": path}, {"X-Error-Code": "EntryNotFound"}

    def _routes(self) -> list[tuple[str, Any]]:
        api = f"/api/{self.api}"
        return [
            (r"/api/validate-yaml", self._validate),
            (rf"{api}(?:/revision/main)?", self._info),
            (rf"{api}/tree/(?:main|[0-9a-f]{{40}})(?:/.*)?", self._tree),
            (rf"{api}/preupload/main", self._preupload),
            (rf"{api}/commit/main", self._commit),
            (rf"/{self.repository}/resolve/(main|[0-9a-f]{{40}})/(.+)", self._resolve),
        ]

    def _validate(self, body: bytes, headers: Any) -> tuple[int, Any, dict]:
        """Refuse a head with a list of YAML that is not closed."""
        is_valid = "[\n" not in json.loads(body)["content"].split("---")[1]
        errors = [] if is_valid else [{"message": "unexpected end"}]
        return 200 if is_valid else 400, {"errors": errors, "warnings": []}, {}

    def _info(self, body: bytes, headers: Any) -> tuple[int, Any, dict]:
        files = [{"rfilename": name} for name in self.files]
        return 200, {"id": "lab/films", "sha": self.head, "siblings": files}, {}

    def _tree(self, body: bytes, headers: Any) -> tuple[int, Any, dict]:
        return 200, [self._entry(path, data) for path, data in self.files.items()], {}

    def _entry(self, path: str, data: bytes) -> dict[str, Any]:
        oid = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        entry = {"type": "file", "path": path, "size": len(data), "oid": oid}
        if len(data) >= LARGE:
            sha = hashlib.sha256(data).hexdigest()
            entry["lfs"] = {"oid": sha, "size": len(data), "pointerSize": 130}
        return entry

    def _preupload(self, body: bytes, headers: Any) -> tuple[int, Any, dict]:
        mode = {"uploadMode": "regular", "shouldIgnore": False}
        files = json.loads(body)["files"]
        return 200, {"files": [{"path": one["path"], **mode} for one in files]}, {}

    def _commit(self, body: bytes, headers: Any) -> tuple[int, Any, dict]:
        for line in body.decode().splitlines():
            record = json.loads(line)
            value = record["value"]
            if record["key"] == "header":
                if value.get("parentCommit", "") != self.head:
                    return 412, {"error": "the parent commit is not the last one"}, {}
                self.history[self.head] = dict(self.files)
                self.commits.append(value["summary"])
            elif record["key"] == "file":
                self.files[value["path"]] = base64.b64decode(value["content"])
            elif record["key"] == "deletedFile":
                del self.files[value["path"]]
        return (
            200,
            {"commitUrl": f"{self.url}/c/0", "commitOid": self.head, "success": True},
            {},
        )

    def _resolve(
        self, body: bytes, commit: str, path: str, headers: Any
    ) -> tuple[int, Any, dict]:
        data = self.history.get(commit, self.files).get(path)
        if data is None:
            return 404, {"error": path}, {"X-Error-Code": "EntryNotFound"}
        asked = re.fullmatch(r"bytes=(\d*)-(\d+)", headers.get("Range") or "")
        if not asked:
            etag = hashlib.sha256(data).hexdigest()
            return 200, data, {"X-Repo-Commit": self.head, "ETag": f'"{etag}"'}
        first, last = int(asked[1] or max(0, len(data) - int(asked[2]))), len(data) - 1
        last = min(int(asked[2]), last) if asked[1] else last
        return (
            206,
            data[first : last + 1],
            {"Content-Range": f"bytes {first}-{last}/{len(data)}"},
        )


@contextlib.contextmanager
def fake_hub() -> Iterator[FakeHub]:
    hub = FakeHub()

    class OfHub(Handler):
        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = urllib.parse.unquote(urllib.parse.urlparse(self.path).path)
            status, answer, headers = hub.answer(self.command, path, body, self.headers)
            if not isinstance(answer, bytes):
                headers = {**headers, "Content-Type": "application/json"}
                answer = json.dumps(answer).encode()
            self.send(answer, headers, status)

        do_GET = do_POST = do_PUT = do_HEAD = handle_any

    with served(OfHub) as hub.url:
        yield hub


@contextlib.contextmanager
def model_hub(repository: str, folder: Path) -> Iterator[str]:
    with fake_hub() as hub:
        hub.api = f"models/{repository}"
        hub.repository = repository
        hub.files = {path.name: path.read_bytes() for path in folder.iterdir()}
        hub.exists = True
        yield hub.url


@contextlib.contextmanager
def hub_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    package = pytest.importorskip("huggingface_hub")
    constants = pytest.importorskip("huggingface_hub.constants")
    real = package.HfApi
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("HF_TOKEN", "hf_abc")
    with fake_hub() as hub:
        monkeypatch.setattr(package, "HfApi", lambda: real(endpoint=hub.url))
        yield hub
