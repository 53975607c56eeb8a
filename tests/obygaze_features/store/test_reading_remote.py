import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.fake_hub import hub_here
from support.plain_store import rows_of, write_plain_store
from support.store_servers import WebServer, web_server

from obygaze_features.core.errors import Corrupt, FixInput, FixUsage, NotFound
from obygaze_features.store.network import Unreachable
from obygaze_features.store.reading import open_store
from obygaze_features.store.verifying import verify

pytest.importorskip("obstore")

N_CLIPS = 1914
N_MANY = 10_000
FILMS = [f"tt{n // 160:07d}" for n in range(N_CLIPS)]
CLIPS = [f"{film}-{n % 160:03d}" for n, film in enumerate(FILMS)]


def numbers(n_rows: int, *shape: int, dtype: str = "float16") -> np.ndarray:
    random = np.random.default_rng(n_rows)
    return random.integers(-999, 999, (n_rows, *shape)).astype(dtype)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pooled vectors of 1,914 clips, of which some failed; tokens; a film in very many rows."""
    root = tmp_path_factory.mktemp("served")
    not_ok = dict.fromkeys(range(0, N_CLIPS, 191), ("failed", "broken"))
    pooled = {"pooled": numbers(N_CLIPS, 512)}
    write_plain_store(root / "pooled", pooled, rows_of(CLIPS, FILMS, not_ok))
    tokens = {"tokens": numbers(60, 100, 512)}
    write_plain_store(root / "tokens", tokens, rows_of(CLIPS[:60], FILMS[:60]))
    films = [f"film-{n // 1000}" for n in range(N_MANY)]
    clips = [f"{film}:{n % 1000}" for n, film in enumerate(films)]
    many = {"pooled": numbers(N_MANY, 128)}
    write_plain_store(root / "many", many, rows_of(clips, films, {7: ("failed", "x")}))
    return root


@pytest.fixture
def server(root: Path) -> Iterator[WebServer]:
    with web_server(root) as running:
        yield running


def test_all_pooled_vectors_take_six_requests(server: WebServer) -> None:
    """Of the document, the checksums, the statuses, the vectors; and which clips have none, why."""
    matrix = open_store(f"{server.url}/pooled").matrix("pooled", missing="drop")
    assert len(server.requests) <= 6
    ok = np.arange(N_CLIPS) % 191 > 0
    np.testing.assert_array_equal(matrix.values, numbers(N_CLIPS, 512)[ok])
    assert len(matrix.reasons) == 11


def test_one_film_of_many_takes_six_requests_and_its_columns(server) -> None:
    store = open_store(f"{server.url}/many")
    matrix = store.matrix("pooled", films=["film-7"])
    assert matrix.clip_ids[1] == "film-7:1"
    assert len(server.requests) <= 6
    assert matrix.values.nbytes == 256_000
    # The films and the ids of all clips are about 300 kB.
    assert server.n_bytes <= 750_000
    expected = numbers(N_MANY, 128)[7_000:8_000]
    np.testing.assert_array_equal(matrix.values, expected)


def test_clips_of_many_are_found_by_their_column_alone(server: WebServer) -> None:
    store = open_store(f"{server.url}/many")
    clips = ["film-9:999", "film-0:0", "film-7:500", "film-0:8"]
    matrix = store.matrix("pooled", clips=clips)
    assert matrix.rows.tolist() == [9_999, 0, 7_500, 8]
    np.testing.assert_array_equal(matrix.values, numbers(N_MANY, 128)[matrix.rows])
    assert server.n_bytes < 1_000_000
    assert "film-10:0" not in store
    with pytest.raises(NotFound, match="1 of the requested clips"):
        store.matrix("pooled", clips=["film-0:7"])


@pytest.mark.parametrize("absent", [(404, b""), (200, b"<html>no such page</html>")])
def test_an_address_without_a_store(server: WebServer, absent) -> None:
    server.absent = absent
    with pytest.raises(NotFound, match="no store here"):
        open_store(f"{server.url}/nothing")


def test_a_join_that_begins_with_an_address_says_how_to_write_it(server) -> None:
    """A URL may have a + in it."""
    with pytest.raises(NotFound, match="no store here") as caught:
        open_store(f"{server.url}/tokens+mine")
    advice = "a join cannot begin with an address: write NAME+ADDRESS"
    assert caught.value.hint.endswith(advice)
    with pytest.raises(FixUsage, match="invalid address") as refused:
        open_store("hf://lab/tokens+mine")
    assert refused.value.hint.endswith(advice)


def test_a_document_that_grows_is_not_fetched(server: WebServer) -> None:
    """The length that store.json lists bounds what is taken into memory."""
    store = open_store(f"{server.url}/tokens")
    server.root.joinpath("tokens", "chunks.crc32c").rename(
        server.root / "chunks.crc32c"
    )
    try:
        with (server.root / "tokens" / "chunks.crc32c").open("wb") as stream:
            stream.truncate(50_000_000)
        with pytest.raises(Corrupt, match=r"chunks\.crc32c has 50(\.0)? MB"):
            store.matrix("tokens", clips=[CLIPS[7]])
    finally:
        (server.root / "chunks.crc32c").replace(
            server.root / "tokens" / "chunks.crc32c"
        )


def test_a_server_that_breaks_off_is_no_damage(server: WebServer) -> None:
    store = open_store(f"{server.url}/tokens")
    server.fault = lambda path, body: body[:10]
    with pytest.raises(Unreachable):
        store.matrix("tokens", clips=[CLIPS[7]])
    with pytest.raises(Unreachable):
        verify(store, hashes=True)


def test_a_store_on_the_hub(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read at its last commit, also when another one follows, with the user's token."""
    package = pytest.importorskip("huggingface_hub")
    real = package.HfApi
    with hub_here(monkeypatch) as hub:
        with pytest.raises(NotFound, match="no such data set"):
            open_store("hf://lab/films")
        hub.exists = True
        hub.commits.append("the first")
        with pytest.raises(NotFound, match="no store here"):
            open_store("hf://lab/films")
        for file in (root / "tokens").rglob("*"):
            if file.is_file():
                name = file.relative_to(root / "tokens").as_posix()
                hub.files[name] = file.read_bytes()
        hub.history[hub.head] = dict(hub.files)
        store = open_store("hf://lab/films")
        assert store.location == "hf://lab/films"
        hub.commits.append("the second")
        hub.files = {}
        hub.history[hub.head] = {}
        again = pickle.loads(pickle.dumps(store))  # noqa: S301
        matrix = again.matrix("tokens", clips=[CLIPS[50]])
        np.testing.assert_array_equal(matrix.values, numbers(60, 100, 512)[[50]])
        assert hub.tokens == {"Bearer hf_abc"}
        hub.refuse = True
        with pytest.raises(FixInput, match="denied access"):
            open_store("hf://lab/films")
    nobody = "http://127.0.0.1:9"
    monkeypatch.setattr(package, "HfApi", lambda: real(endpoint=nobody))
    with pytest.raises(Unreachable, match="the hub cannot be reached"):
        open_store("hf://lab/films")


def test_a_pickled_store_opens_its_address(server: WebServer) -> None:
    """What is shown of it has no signature, which another process needs."""
    store = open_store(f"{server.url}/pooled?signature=secret")
    assert "secret" not in store.location
    again = pickle.loads(pickle.dumps(store))  # noqa: S301
    assert again.seal == store.seal
    assert server.requests[-1].endswith("store.json?signature=secret")
    with pytest.raises(FixUsage, match="unsupported URL"):
        open_store("ftp://example.org/store")
