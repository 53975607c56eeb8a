"""Stores on web servers: nginx from Debian, and one with latency that counts requests."""

from __future__ import annotations

import contextlib
import copy
import datetime
import gzip
import http.server
import shutil
import ssl
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cli import call_obygaze
from support.store_servers import Nginx, nginx, web_server
from support.stores import (
    fill_store,
    partial_copy,
    plan_store,
    sealed_store,
    some_values,
)

from obygaze_features.core.errors import Corrupt, FixInput, NotFound
from obygaze_features.store import ArraySpec, open_store
from obygaze_features.store.read.describe import summary
from obygaze_features.store.read.verify import verify
from obygaze_features.store.remote import open_files
from obygaze_features.store.remote.fetch import pull
from obygaze_features.store.remote.files import CountedFiles, FolderFiles
from obygaze_features.store.remote.object_store import Unreachable
from obygaze_features.store.remote.send import pack

pytest.importorskip("obstore")
# Twelve films of 160 clips and less, as in ObyGaze12.
N_CLIPS, PER_FILM, BLOCK = 1914, 160, 64
ARRAYS = (ArraySpec("clip", (8,)), ArraySpec("pooled", (512,)))


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("served")
    films = [f"tt{i // PER_FILM:07d}" for i in range(N_CLIPS)]
    clips = [f"{film}-{i % PER_FILM + 1:03d}" for i, film in enumerate(films)]
    sealed_store(
        root / "films", N_CLIPS, BLOCK, arrays=ARRAYS, clip_ids=clips, movie_ids=films
    )
    pack(open_store(root / "films"), root / "films.zip")
    return root


@pytest.fixture
def server(films: Path, tmp_path: Path) -> Iterator[Nginx]:
    with nginx(films, tmp_path / "nginx") as running:
        yield running


def test_every_way_of_reading_gives_what_the_folder_gives(
    films: Path, server: Nginx
) -> None:
    here, there = open_store(films / "films"), open_store(f"{server.url}/films")
    clips = here.clip_ids[np.random.default_rng(0).permutation(N_CLIPS)[:100]].tolist()
    mask = np.arange(N_CLIPS) % 700 == 3
    for how in ({}, {"clips": clips}, {"films": ["tt0000005"]}, {"mask": mask}):
        mine, theirs = (store.matrix("pooled", **how) for store in (here, there))
        np.testing.assert_array_equal(mine.values, theirs.values)
        assert mine.clip_ids.tolist() == theirs.clip_ids.tolist()
    assert there.status().counts == {"ok": N_CLIPS}
    verify(there, hashes=True).require_whole()


def test_a_film_is_pulled_for_less_than_twice_its_bytes(
    server: Nginx, tmp_path: Path
) -> None:
    done = pull(
        f"{server.url}/films", tmp_path / "got", arrays=["pooled"], films=["tt0000003"]
    )
    rows = PER_FILM * 512 * 4
    assert done.n_bytes_rows == rows
    assert done.n_bytes_transferred < 2 * rows
    # What nginx says it sent, headers and all.
    assert sum(n_bytes for _, _, n_bytes in server.requests()) < 2 * rows
    assert open_store(tmp_path / "got").matrix(
        "pooled", films=["tt0000003"]
    ).values.shape == (
        PER_FILM,
        512,
    )
    # Rows 480 to 639: blocks 7, 8 and 9.
    blocks = [path for path, _, _ in server.requests() if "/pooled/c." in path]
    assert sorted(blocks) == [f"/films/data.zarr/pooled/c.{b}.0" for b in (7, 8, 9)]


def test_a_large_file_is_pulled_in_ranges(
    server: Nginx, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from obygaze_features.store.remote import fetch

    monkeypatch.setattr(fetch, "PIECE_BYTES", 50_000)
    pull(
        f"{server.url}/films", tmp_path / "got", arrays=["pooled"], films=["tt0000000"]
    )
    answers = [status for path, status, _ in server.requests() if "/pooled/c.0" in path]
    assert answers == [206, 206, 206]
    np.testing.assert_array_equal(
        open_store(tmp_path / "got").matrix("pooled", films=["tt0000000"]).values,
        open_store(f"{server.url}/films").matrix("pooled", films=["tt0000000"]).values,
    )


def test_info_of_an_open_store_asks_for_each_block_once(tmp_path: Path) -> None:
    plan_store(tmp_path / "s", 200, 1)
    fill_store(tmp_path / "s", some_values(200), blocks=[0, 7])
    with web_server(tmp_path / "s") as counting:
        call_obygaze("store", "info", counting.url).ok()
        asked = [name for name in counting.requests if "/commits/block-" in name]
        assert len(asked) == len(set(asked)) == 200
        assert len(counting.requests) <= 200 + 20


def test_what_is_sealed_while_it_is_described_is_seen(tmp_path: Path) -> None:
    plan_store(tmp_path / "s", 8, 4)
    writer = fill_store(tmp_path / "s", some_values(8), blocks=[0])
    store = open_store(tmp_path / "s")
    assert not store.sealed
    fill_store(tmp_path / "s", some_values(8), blocks=[1])
    writer.seal()
    facts = summary(store)
    assert (facts["state"], facts["counts"]) == ("sealed", {"ok": 8})


def test_a_store_is_unpickled_where_it_was_opened_also_with_a_query(
    films: Path,
) -> None:
    with web_server(films) as counting:
        store = open_store(f"{counting.url}/films?X-Amz-Signature=abc")
        assert "abc" not in store.location
        assert "abc" not in repr(store)
        counting.requests.clear()
        again = copy.copy(store)  # as pickle does
        assert counting.requests == ["/films/store.json?X-Amz-Signature=abc"]
        assert again.n_clips == store.n_clips
        assert again.location == store.location
    folder = copy.copy(open_store(films / "films"))
    assert folder.location == str(films / "films")
    own = copy.copy(open_store(FolderFiles(films / "films")))
    assert own.n_clips == store.n_clips


def test_few_requests_are_enough(films: Path) -> None:
    with web_server(films / "films") as counting:
        one_film = open_store(counting.url).matrix("pooled", films=["tt0000003"])
        assert one_film.values.shape == (PER_FILM, 512)
        # store.json, seal.json, partial.json (there is none), the films, three blocks.
        assert len(counting.requests) == 7
        # A film whose clips reach into four blocks: rows 160 to 319.
        counting.requests.clear()
        open_store(counting.url).matrix("pooled", films=["tt0000001"])
        assert len(counting.requests) <= 8
        counting.requests.clear()
        open_store(counting.url).matrix("pooled")
        assert len(counting.requests) == 3 + 1
        counting.requests.clear()
        open_store(counting.url).matrix("pooled", clips=["tt0000003-004"])
        assert len(counting.requests) == 5


def test_blocks_are_asked_for_side_by_side(films: Path) -> None:
    """A place that answers for no block before six have been asked for."""

    class Slow(CountedFiles):
        running = most = 0
        gate = threading.Lock()
        is_remote = True

        def read(self, name: str, start: int = 0, stop: int | None = None):  # type: ignore[no-untyped-def]
            with self.gate:
                self.running += 1
                self.most = max(self.most, self.running)
                if self.most >= 6:
                    enough.set()
            if name.startswith("gathered/"):
                return None
            if name.startswith("data.zarr/pooled/c."):
                enough.wait(20)
            try:
                return super().read(name, start, stop)
            finally:
                with self.gate:
                    self.running -= 1

    enough = threading.Event()

    slow = Slow(open_files(films / "films"))
    slow.is_remote = True
    open_store(slow).matrix("pooled")
    assert slow.most >= 6


def test_reading_what_is_not_there_or_damaged_raises(
    films: Path, tmp_path: Path, server: Nginx
) -> None:
    with pytest.raises(NotFound, match=r"no store\.json"):
        open_store(f"{server.url}/nothing")
    broken = tmp_path / "broken"
    shutil.copytree(films / "films", broken)
    victim = broken / "data.zarr/pooled/c.2.0"
    data = bytearray(victim.read_bytes())
    data[77] ^= 2
    victim.write_bytes(data)
    (broken / "data.zarr/pooled/c.5.0").write_bytes(b"")
    (broken / "data.zarr/pooled/c.11.0").unlink()
    with web_server(broken) as serving:
        store = open_store(serving.url)
        for film, name in (
            ("tt0000001", "c.2.0"),
            ("tt0000002", "c.5.0"),
            ("tt0000004", "c.11.0"),
        ):
            with pytest.raises(Corrupt, match="bytes") as found:
                store.matrix("pooled", films=[film])
            assert name in str(found.value)
        assert store.matrix("clip").values.shape == (N_CLIPS, 8)


def test_a_packed_store_is_read_in_place_over_http(films: Path, server: Nginx) -> None:
    here, there = open_store(films / "films"), open_store(f"{server.url}/films.zip")
    np.testing.assert_array_equal(
        there.matrix("pooled", films=["tt0000003"]).values,
        here.matrix("pooled", films=["tt0000003"]).values,
    )
    answers = server.requests()
    # The directory at the end; store.json, the films, the seal, three blocks: nothing else.
    assert [status for _, status, _ in answers] == [206] * 7
    assert sum(n_bytes for _, _, n_bytes in answers) < 2 * PER_FILM * 512 * 4
    verify(there, hashes=True).require_whole()


def test_a_part_of_a_packed_store_is_pulled(
    films: Path, server: Nginx, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from obygaze_features.store.remote import fetch

    monkeypatch.setattr(fetch, "PIECE_BYTES", 50_000)
    pull(
        f"{server.url}/films.zip",
        tmp_path / "got",
        arrays=["pooled"],
        films=["tt0000003"],
    )
    pull(
        f"{server.url}/films",
        tmp_path / "other",
        arrays=["pooled"],
        films=["tt0000003"],
    )
    mine, other = (
        {
            path.name: path.read_bytes()
            for path in (tmp_path / name).rglob("*")
            if path.is_file()
        }
        for name in ("got", "other")
    )
    assert mine == other


@pytest.mark.parametrize("tail", [64_000, 100, 22])
def test_a_directory_that_is_longer_than_the_tail(
    films: Path, monkeypatch: pytest.MonkeyPatch, tail: int
) -> None:
    from obygaze_features.store.remote import files as files_module

    monkeypatch.setattr(files_module, "TAIL_BYTES", tail)
    monkeypatch.setattr(files_module, "EXTRA_BYTES", 0)
    with web_server(films) as counting:
        store = open_store(f"{counting.url}/films.zip")
        np.testing.assert_array_equal(
            store.matrix("clip").values,
            open_store(films / "films").matrix("clip").values,
        )


def test_a_zip_behind_a_query_is_read_and_the_query_goes_with_each_request(
    films: Path, tmp_path: Path
) -> None:
    """The links of Zenodo end in ?download=1."""
    with web_server(films) as server:
        address = f"{server.url}/films.zip?download=1"
        store = open_store(address)
        np.testing.assert_array_equal(
            store["pooled"].values, open_store(films / "films")["pooled"].values
        )
        assert store.location == f"{server.url}/films.zip?***"
        done = call_obygaze("-C", tmp_path, "store", "pull", address).ok()
        assert "films: " in done.stdout
        assert set(server.requests) == {"/films.zip?download=1"}
    assert not verify(tmp_path / "stores/films", hashes=True).problems


def test_zips_of_other_programs_are_read_or_refused(
    films: Path, tmp_path: Path
) -> None:
    with (
        zipfile.ZipFile(films / "films.zip") as packed,
        zipfile.ZipFile(tmp_path / "a.zip", "w") as stored,
        zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_DEFLATED) as deflated,
    ):
        for entry in packed.infolist():
            data = packed.read(entry)
            other = zipfile.ZipInfo(entry.filename, (2020, 1, 1, 0, 0, 0))
            # Unknown, and long.
            other.extra = b"UT" + (120).to_bytes(2, "little") + bytes(120)
            stored.writestr(other, data)
            deflated.writestr(entry.filename, data)
    (tmp_path / "c.zip").write_bytes((films / "films.zip").read_bytes()[:-30])
    with web_server(tmp_path) as serving:
        assert open_store(f"{serving.url}/a.zip").matrix("clip").values.shape == (
            N_CLIPS,
            8,
        )
        with pytest.raises(FixInput, match="compressed"):
            open_store(f"{serving.url}/b.zip")
        with pytest.raises(Corrupt, match="not a complete zip"):
            open_store(f"{serving.url}/c.zip")
        with pytest.raises(NotFound, match="no such file"):
            open_store(f"{serving.url}/d.zip")


# ---- servers that do not answer 404 ------------------------------------------------------------

PUBLIC_BUCKET = (403, b"<Error><Code>AccessDenied</Code></Error>")
ONE_PAGE = (200, b"<!doctype html><title>An application</title>")


@pytest.mark.parametrize("absent", [PUBLIC_BUCKET, ONE_PAGE])
def test_a_server_that_hides_what_is_absent(
    tmp_path: Path, absent: tuple[int, bytes]
) -> None:
    values = sealed_store(tmp_path / "s")
    partial_copy(tmp_path / "s", tmp_path / "part", arrays=["clip"])
    plan_store(tmp_path / "open")
    fill_store(tmp_path / "open", values, blocks=[1, 3])
    with web_server(tmp_path) as server:
        server.absent = absent
        whole = open_store(f"{server.url}/s")
        np.testing.assert_array_equal(whole.matrix("clip").values, values["clip"])
        pull(f"{server.url}/s", tmp_path / "got")
        part = open_store(f"{server.url}/part")
        assert not part.matrix("frames", missing="nan").present.any()
        grows = open_store(f"{server.url}/open")
        assert grows.status().counts == {"ok": 8, "missing": 15}
    verify(tmp_path / "got", hashes=True).require_whole()


def test_a_file_that_is_denied_is_not_taken_for_absent(tmp_path: Path) -> None:
    sealed_store(tmp_path / "s")
    partial_copy(tmp_path / "s", tmp_path / "part", arrays=["clip"])
    with web_server(tmp_path / "part") as server:
        server.denied = ("partial.json",)
        with pytest.raises(FixInput, match="access denied"):
            open_store(server.url).matrix("clip")
    with web_server(tmp_path / "s") as server:
        server.absent = PUBLIC_BUCKET
        server.denied = ("store.json",)
        with pytest.raises(FixInput, match="access denied"):
            open_store(server.url)
    # Keys that expire while a store is read.
    with web_server(tmp_path / "s") as server:
        store = open_store(server.url)
        server.absent, server.denied = (
            PUBLIC_BUCKET,
            ("store.json", "seal.json", "partial.json"),
        )
        with pytest.raises(FixInput, match="access denied"):
            store.matrix("clip")


# ---- what goes wrong before an answer comes ------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority, and certificates of it for localhost: good, expired, later."""
    folder = tmp_path_factory.mktemp("certificates")
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    key = ec.generate_private_key(ec.SECP256R1())
    pem = serialization.Encoding.PEM
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(key.private_bytes(pem, *plain))

    def write(
        name: str, subject: str, start: datetime.datetime, is_authority: bool
    ) -> None:
        names = [
            x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, n)])
            for n in (subject, "a")
        ]
        certificate = (
            x509.CertificateBuilder()
            .subject_name(names[0])
            .issuer_name(names[1])
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(start + 9 * day)
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False
            )
            .sign(key, hashes.SHA256())
        )
        (folder / name).write_bytes(certificate.public_bytes(pem))

    write("authority.pem", "a", now - day, True)
    write("good.pem", "localhost", now - day, False)
    write("expired.pem", "localhost", now - 30 * day, False)
    write("later.pem", "localhost", now + 3 * day, False)
    return folder


@contextlib.contextmanager
def tls_server(folder: Path, certificate: Path) -> Iterator[int]:
    """Serve a folder over TLS; yield the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder))

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that does not trust this server ends the connection."""

    with Server(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(
            target=server.serve_forever, args=(0.02,), daemon=True
        )
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("certificate", "trusted", "host", "told"),
    [
        ("good", True, "localhost", ""),
        ("good", False, "localhost", "its issuer is unknown"),
        ("authority", False, "localhost", "its issuer is unknown|it signed itself"),
        ("good", True, "127.0.0.1", "it is for another name"),
        ("expired", True, "localhost", "it has expired"),
        ("later", True, "localhost", "it is not valid yet"),
    ],
)
def test_a_certificate_that_is_not_trusted_is_said_with_the_reason(
    certificates: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    certificate: str,
    trusted: bool,
    host: str,
    told: str,
) -> None:
    sealed_store(tmp_path / "s")
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates / "authority.pem"))
    with tls_server(tmp_path, certificates / f"{certificate}.pem") as port:
        url = f"https://{host}:{port}/s"
        if not told:
            assert len(open_store(url)) == 23
            return
        with pytest.raises(
            FixInput, match=f"certificate of this server is not trusted: ({told})"
        ):
            open_store(url)


def test_tls_where_there_is_none_and_none_where_there_is_tls(
    certificates: Path, tmp_path: Path
) -> None:
    with (
        web_server(tmp_path) as server,
        pytest.raises(FixInput, match="does not speak TLS") as one,
    ):
        open_store(server.url.replace("http://", "https://"))
    assert "http://" in str(one.value.hint)
    with (
        tls_server(tmp_path, certificates / "good.pem") as port,
        pytest.raises(Unreachable, match="ended the connection") as other,
    ):
        open_store(f"http://localhost:{port}/s")
    assert "https://" in str(other.value.hint)


def test_an_unknown_host_and_a_closed_port_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="the name of the server is unknown"):
        open_store("http://no-such-host.invalid/expired/dns error/s")
    with web_server(tmp_path) as server:
        pass
    with pytest.raises(Unreachable, match="connection refused"):
        open_store(server.url)


class Answering(http.server.BaseHTTPRequestHandler):
    """Answers every request with what the subclass says."""

    status, headers_sent, body = 200, {"": ""}, b""

    def do_GET(self) -> None:
        self.send_response(self.status)
        for name, value in self.headers_sent.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("status", "headers", "body", "error", "told"),
    [
        (
            200,
            {"Content-Encoding": "gzip"},
            gzip.compress(b"{}", mtime=0),
            FixInput,
            "Content-Encoding: gzip",
        ),
        (302, {"Location": "/again"}, b"", FixInput, "in a circle"),
        (
            500,
            {},
            b"Expired InvalidCertificate",
            Unreachable,
            "reports an error: 500 Internal",
        ),
        (401, {}, b"", FixInput, "access denied"),
    ],
)
def test_an_answer_that_is_not_the_file_is_said_in_words(
    status: int, headers: dict[str, str], body: bytes, error: type[Exception], told: str
) -> None:
    facts = {"status": status, "headers_sent": headers, "body": body}
    handler = type("Handler", (Answering,), facts)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(
            target=server.serve_forever, args=(0.02,), daemon=True
        )
        thread.start()
        with pytest.raises(error, match=told):
            open_store(f"http://127.0.0.1:{server.server_port}/s")
        server.shutdown()
        thread.join()
