"""The server: ranges of files as RFC 9110 has them, and nothing for anybody else."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.film_pages import Answer, ask, change, film_clips, mark, served, site

from obygaze.films.page import server as server_module
from obygaze.films.page.routes import server_of
from obygaze.films.page.server import PageServer
from obygaze.films.page.view import usual_port

VIDEO = bytes(range(256)) * 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("films")
    (made / "lake.mp4").write_bytes(VIDEO)
    (made / "secret.txt").write_text("secret", "utf-8")
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[PageServer]:
    with served(site(folder, film_clips("lake", "lake.mp4"), "ada")) as running:
        yield running


def media(server: PageServer, bytes_: str | None, **headers: str) -> Answer:
    return ask(server, "/media/0", {"Range": bytes_, **headers})


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        ("bytes=0-0", (0, 1)),
        ("bytes=100-199", (100, 200)),
        ("bytes=10000-", (10_000, 10_240)),
        ("bytes=-40", (10_200, 10_240)),
        ("bytes=-99999999", (0, 10_240)),
        ("bytes=10239-99999999999999", (10_239, 10_240)),
    ],
)
def test_a_part_is_sent(server: PageServer, asked: str, want: tuple[int, int]) -> None:
    answer = media(server, asked)
    first, after = want
    assert answer.status == 206
    assert answer.body == VIDEO[first:after]
    assert answer.headers["Content-Range"] == f"bytes {first}-{after - 1}/10240"
    assert answer.headers["Content-Length"] == str(after - first)
    assert answer.headers["Content-Type"] == "video/mp4"


@pytest.mark.parametrize("asked", ["bytes=10240-", "bytes=10240-10300", "bytes=-0"])
def test_a_part_that_is_not_there_is_416(server: PageServer, asked: str) -> None:
    answer = media(server, asked)
    assert (answer.status, answer.body) == (416, b"")
    assert answer.headers["Content-Range"] == "bytes */10240"


@pytest.mark.parametrize(
    "asked",
    [None, "bytes=", "bytes=-", "bytes=5-2", "bytes=0-1,4-5", "lines=0-1", "bytes=a-b"],
)
def test_without_a_valid_range_all_is_sent(
    server: PageServer, asked: str | None
) -> None:
    answer = media(server, asked)
    assert (answer.status, answer.body) == (200, VIDEO)
    assert answer.headers["Accept-Ranges"] == "bytes"


def test_a_part_of_a_file_that_changed_is_not_sent(server: PageServer) -> None:
    tag = media(server, None).headers["ETag"]
    assert media(server, "bytes=0-9", **{"If-Range": tag}).status == 206
    assert media(server, "bytes=0-9", **{"If-Range": '"another"'}).status == 200


@pytest.mark.parametrize(
    "path", ["/", "/main.js", "/api/overview", "/media/0", "/nothing"]
)
def test_without_the_token_there_is_nothing(server: PageServer, path: str) -> None:
    for cookie in (None, f"{server.cookie}=wrong", f"obygaze-1={server.secret}"):
        answer = ask(server, path, {"Cookie": cookie})
        assert answer.status == 403
        assert b"obygaze view" in answer.body
    assert ask(server, "/?token=wrong", {"Cookie": None}).status == 403
    assert (
        ask(server, f"/api/overview?token={token_of(server)}", {"Cookie": None}).status
        == 403
    )


def test_the_token_becomes_a_cookie_that_no_script_and_no_other_page_can_use(
    server: PageServer,
) -> None:
    first = ask(server, f"/?token={token_of(server)}", {"Cookie": None})
    assert first.status == 200
    cookie = first.headers["Set-Cookie"]
    assert (
        cookie == f"{server.cookie}={server.secret}; Path=/; HttpOnly; SameSite=Strict"
    )
    assert len(server.secret) >= 32


def token_of(server: PageServer) -> str:
    """The token of a new address."""
    return server.new_address().partition("token=")[2]


def test_a_token_opens_the_page_once_and_says_nothing_of_the_cookie(
    server: PageServer,
) -> None:
    first, second = token_of(server), token_of(server)
    nobody = {"Cookie": None}
    assert len({first, second, server.secret}) == 3
    assert ask(server, f"/?token={first}", nobody, method="HEAD").status == 403
    assert ask(server, f"/?token={first}", nobody).status == 200
    again = ask(server, f"/?token={first}", nobody)
    assert again.status == 403 and b"once" in again.body
    # The browser that has the cookie may reload the page with its token.
    assert ask(server, f"/?token={first}").status == 200
    assert ask(server, f"/?token={second}", nobody).status == 200
    third = token_of(server)
    assert ask(server, f"/?token={third}").status == 200
    assert ask(server, f"/?token={third}", nobody).status == 403
    stolen = {"Cookie": f"{server.cookie}={first}"}
    assert ask(server, "/api/overview", stolen).status == 403


@pytest.mark.parametrize(
    "host", [None, "evil.example", "127.0.0.1", "127.0.0.1:1", "[::1]"]
)
def test_other_names_of_this_machine_are_refused(
    server: PageServer, host: str | None
) -> None:
    assert ask(server, "/api/overview", {"Host": host}).status == 421


def test_other_pages_are_refused(server: PageServer) -> None:
    others: tuple[str | None, ...] = ("http://evil.example", "null")
    for origin in (*others, "http://127.0.0.1:1"):
        assert ask(server, "/api/overview", {"Origin": origin}).status == 403
    for origin in (*others, None):
        answer = ask(
            server, "/api/marks", {"Origin": origin}, "POST", change("", mark())
        )
        assert answer.status == 403
    assert ask(server, "/api/film?film=lake").json()["marks"] == []


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/media/../secret.txt",
        "/media/lake.mp4",
        "/media/-1",
        "/media/1",
        "/media/%C2%B2",
        "/thumb/../../secret.txt",
        "/thumb/..%2Fsecret.txt",
        "/secret.txt",
        "/static/main.js",
        "//evil.example/media/0",
        "/subtitles/0",
    ],
)
def test_no_address_leads_to_a_file(server: PageServer, path: str) -> None:
    answer = ask(server, path)
    assert answer.status in (400, 404)
    assert b"secret\n" not in answer.body and answer.body != b"secret"


def test_a_link_in_the_manifest_leads_to_videos_only(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret", "utf-8")
    with served(site(tmp_path, film_clips("lake", "secret.txt"))) as running:
        assert ask(running, "/media/0").status == 404


def test_bad_requests_are_answered_and_the_server_goes_on(
    server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "MAX_BODY", 65_536)
    post = "/api/marks"
    assert ask(server, post, method="POST", sent=b"{").status == 400
    assert ask(server, post, method="POST", sent=b"[]").status == 400
    assert ask(server, post, method="POST", sent=b" " * 70_000).status == 413
    assert ask(server, post, {"Content-Type": "text/plain"}, "POST", {}).status == 415
    assert ask(server, "/api/film?film=nothing").status == 404
    assert ask(server, "/api/film?what=ever").status == 400
    assert ask(server, "/api/overview?cell=9").status in (200, 400)
    assert ask(server, "/api/overview", method="PUT").status == 501
    with socket.create_connection(("127.0.0.1", server.server_port)) as line:
        line.sendall(b"\x16\x03\x01\x00\xff" * 20 + b"\r\n\r\n")
        line.recv(100)
    assert ask(server, "/api/overview").status == 200


def test_answers_forbid_scripts_of_others(server: PageServer) -> None:
    for path in ("/", "/api/overview", "/media/0", "/nothing"):
        headers = ask(server, path).headers
        policy = headers["Content-Security-Policy"]
        assert (
            "default-src 'none'" in policy
            and "unsafe" not in policy
            and "http" not in policy
        )
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Server"].strip() == "obygaze"


def test_a_workspace_has_a_usual_port(tmp_path: Path) -> None:
    page = site(tmp_path, film_clips("lake", ""))
    usual = usual_port(tmp_path)
    assert 20000 <= usual < 30000
    assert usual == usual_port(tmp_path)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        with server_of(page, taken) as server:
            assert server.server_port != taken
            assert server.host == f"127.0.0.1:{server.server_port}"
    # A server that ended gives its port to the next one, at once.
    with served(page) as first:
        assert ask(first, "/api/overview").status == 200
    with server_of(page, first.server_port) as second:
        assert second.server_port == first.server_port
