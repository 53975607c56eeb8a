import gzip
import http.server
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cli import call_obygaze
from support.seeds import SEED, amount
from support.servers import served
from support.store_servers import nginx, web_server
from support.stores import sealed_store
from support.written_stores import files_of as tree

from obygaze_features.core.errors import Corrupt, FixInput, ObygazeError, Stopped
from obygaze_features.store.changing import subset
from obygaze_features.store.copying import pull
from obygaze_features.store.layout import Array
from obygaze_features.store.network import RETRIES, ObjectFiles, Unreachable
from obygaze_features.store.reading import open_store
from obygaze_features.store.verifying import verify

pytest.importorskip("obstore")

# 40 chunks in files of 4.
N_CLIPS = 160
ARRAYS = (
    Array("clip", "float32", (8,), ("d8",), 32, 64),
    Array("pooled", "float32", (512,), ("d512",), 4, 16),
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("served")
    sealed_store(root / "films", N_CLIPS, arrays=ARRAYS)
    return root


def test_nginx_gives_what_the_folder_gives(root: Path, tmp_path: Path) -> None:
    with nginx(root, tmp_path / "nginx") as server:
        here = open_store(root / "films")
        there = open_store(f"{server.url}/films")
        order = np.random.default_rng(0).permutation(N_CLIPS)[:50]
        clips = here.clip_ids[order].tolist()
        for how in ({}, {"clips": clips}, {"films": ["tt0000105"]}):
            mine = here.matrix("pooled", **how)
            theirs = there.matrix("pooled", **how)
            np.testing.assert_array_equal(mine.values, theirs.values)
            assert mine.clip_ids.tolist() == theirs.clip_ids.tolist()
        verify(there, hashes=True).require_ok()
        pull(f"{server.url}/films", tmp_path / "copy")
        answers = [status for path, status, _ in server.requests()]
        assert set(answers) <= {200, 206, 404}
        # The card, if there is none.
        assert answers.count(404) <= 1
    assert tree(tmp_path / "copy") == tree(root / "films")


def test_a_server_that_sends_files_whole_only(root, tmp_path, monkeypatch) -> None:
    """As python -m http.server does: of each file all is fetched, and kept for the next part."""
    monkeypatch.setattr(ObjectFiles, "piece_bytes", 1000)
    with web_server(root) as server:
        server.ranges = False
        url = f"{server.url}/films"
        store = open_store(url)
        here = open_store(root / "films")
        films = list(dict.fromkeys(here.movie_ids.tolist()))[:2]
        for array in here.feature_arrays:
            theirs = store.matrix(array, films=films, missing="drop").values
            ours = here.matrix(array, films=films, missing="drop").values
            assert theirs.tobytes() == ours.tobytes()
        n_requests = len(server.requests)
        store.matrix("pooled", films=films, missing="drop")
        assert len(server.requests) == n_requests
        subset(url, tmp_path / "two", films=films)
        verify(tmp_path / "two", hashes=True).require_ok()
        pull(url, tmp_path / "copy")
        assert tree(tmp_path / "copy") == tree(root / "films")
        assert verify(url, hashes=True).problems == []
        server.fault = lambda path, body: (
            body[:150] if path.endswith("clip_id/c.0") else body
        )
        with pytest.raises(Stopped, match="the copy was interrupted"):
            pull(url, tmp_path / "other")
    assert not (tmp_path / "other").exists()


PAGE = b"<html>sign in</html>"
FAULTS: dict[str, Callable[[bytes], bytes]] = {
    "half of it": lambda body: body[: len(body) // 2],
    "a page": lambda body: (PAGE * (len(body) // 20 + 1))[: len(body)],
    "another part": lambda body: body[1:] + body[:1],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_that_answers_wrongly_now_and_then(root, tmp_path, fault) -> None:
    n_refused = 0
    for number in range(amount(2, 6)):
        random = np.random.default_rng([number, SEED])

        def wrong(path: str, body: bytes, random=random) -> bytes:
            return FAULTS[fault](body) if random.random() < 0.2 else body

        target = tmp_path / f"copy{number}"
        with web_server(root) as server:
            server.fault = wrong
            try:
                pull(f"{server.url}/films", target)
            except ObygazeError:
                n_refused += 1
                assert not target.exists()
            server.fault = None
            pull(f"{server.url}/films", target)
        assert tree(target) == tree(root / "films")
        assert not list(tmp_path.glob(".copy*"))
    assert n_refused


def test_the_location_of_a_store_has_no_secrets(root: Path, tmp_path: Path) -> None:
    with web_server(root) as server:
        url = server.url.replace("http://", "http://ann:s3cret@") + "/films"
        assert open_store(url).location.endswith("***@" + server.url[7:] + "/films")
        done = call_obygaze("store", "info", f"{url}x?Signature=abc", cwd=tmp_path)
    assert done.code == 1
    assert "s3cret" not in done.stderr and "abc" not in done.stderr


@pytest.fixture
def no_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for a server that never answers otherwise."""
    monkeypatch.setitem(RETRIES, "max_retries", 0)


@pytest.mark.usefixtures("no_retry")
def test_a_server_that_is_not_trusted_or_not_there_is_unreachable(root: Path) -> None:
    with web_server(root) as server:
        with pytest.raises(Unreachable, match="the connection failed") as caught:
            open_store(server.url.replace("http://", "https://"))
        # Addresses may have keys in them.
        assert "127.0.0.1" not in caught.value.message
        url = server.url
    with pytest.raises(Unreachable, match="the connection failed"):
        open_store(url)


class Answering(http.server.BaseHTTPRequestHandler):
    """Answers every request with what the subclass says."""

    status = 200
    headers_sent: Mapping[str, str] = {}
    body = b""
    n_bytes: int | None = None

    def do_GET(self) -> None:
        self.send_response(self.status)
        for name, value in self.headers_sent.items():
            self.send_header(name, value)
        n_bytes = len(self.body) if self.n_bytes is None else self.n_bytes
        self.send_header("Content-Length", str(n_bytes))
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


PACKED = {"headers_sent": {"Content-Encoding": "gzip"}}
PACKED["body"] = gzip.compress(b"{}", mtime=0)
ROUND = {"status": 302, "headers_sent": {"Location": "/again"}}
EXPIRED = {"status": 500, "body": b"Expired InvalidCertificate"}


@pytest.mark.usefixtures("no_retry")
@pytest.mark.parametrize(
    ("facts", "error", "told"),
    [
        (PACKED, FixInput, "Content-Encoding: gzip"),
        (ROUND, Unreachable, "the connection failed"),
        (EXPIRED, Unreachable, "the connection failed"),
        ({"status": 401}, FixInput, "access denied"),
        ({"n_bytes": 4_000_000_000}, Corrupt, r"store\.json has 4(\.0)? GB"),
    ],
)
def test_an_answer_that_is_not_the_file_is_said_in_words(facts, error, told) -> None:
    handler = type("Handler", (Answering,), facts)
    with served(handler) as url, pytest.raises(error, match=told):
        open_store(f"{url}/s")
