"""Story 19: I want two films and one array of a store that is somewhere else, and not all of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from support.fake_hub import hub_here
from support.store_servers import WebServer, s3_server, web_server

import obygaze as og
from stories.workspace import Workspace

FILMS = tuple(f"film{number}" for number in range(8))
PER_FILM = 128
ASKED = ("film2", "film5")
PART = "--film film2 --film film5 --array frames"

Values = dict[str, npt.NDArray[Any]]


def make_store(ws: Workspace) -> Values:
    """Make the store `films` of eight films with two arrays, and return its numbers.

    The frames of a film are one chunk, which is the least that is read.
    """
    ids = [f"{film}-{scene:03d}" for film in FILMS for scene in range(PER_FILM)]
    draws = np.random.default_rng(19)
    values: Values = {
        "clip": draws.normal(size=(len(ids), 64)).astype(np.float32),
        "frames": draws.normal(size=(len(ids), 8, 64)).astype(np.float16),
    }
    films = np.repeat(FILMS, PER_FILM)
    np.savez(ws.path("films.npz"), clip_id=ids, movie_id=films, **values)
    ws(
        "store import films.npz --array frames=frames --array clip=clip -o films "
        "--licence CC-BY-4.0"
    )
    return values


def rows_of(film: str) -> slice:
    first = PER_FILM * FILMS.index(film)
    return slice(first, first + PER_FILM)


def check_part(ws: Workspace, name: str, values: Values) -> None:
    """Check that a store has the frames of the two films and nothing else."""
    ws(f"store verify {name} --hash")
    store = og.open_store(ws.path(f"stores/{name}"))
    assert sorted(set(store.movie_ids)) == list(ASKED)
    assert "clip" not in store.feature_arrays
    assert len(store) == len(ASKED) * PER_FILM
    for film in ASKED:
        found = store.matrix("frames", films=[film])
        np.testing.assert_array_equal(found, values["frames"][rows_of(film)])


@pytest.fixture
def far(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "far")


@pytest.fixture
def web(far: Workspace) -> Iterator[WebServer]:
    far.path("stores").mkdir()
    with web_server(far.path("stores")) as server:
        yield server


def test_a_part_comes_over_http_in_a_few_requests(ws, far, web) -> None:
    values = make_store(far)
    n_bytes_of_all = sum(map(len, far.bytes_of("stores/films").values()))
    ws(f"store subset {web.url}/films {PART} -o part")
    assert len(web.requests) <= 20
    assert web.n_bytes < n_bytes_of_all / 2
    check_part(ws, "part", values)
    text = ws("store info part --json").json()
    seal = far("store info films --json").json()["seal_sha256"]
    assert seal in str(text["origins"])
    assert text["licence"] == "CC-BY-4.0"


def test_an_interrupted_transfer_is_gone_on_with(ws, far, web) -> None:
    values = make_store(far)
    n_bytes_of_all = sum(map(len, far.bytes_of("stores/films").values()))

    def breaking(path: str, body: bytes) -> bytes:
        is_broken = web.n_bytes > n_bytes_of_all * 2 / 3
        return body[: len(body) // 2] if is_broken else body

    web.fault = breaking
    broken = ws(f"store pull {web.url}/films", code=75)
    assert "same command" in broken.text
    assert not ws.path("stores/films").exists()
    web.fault = None
    web.n_bytes = 0
    ws(f"store pull {web.url}/films")
    assert web.n_bytes < n_bytes_of_all * 2 / 3
    assert ws.bytes_of("stores/films") == far.bytes_of("stores/films")
    found = og.open_store(ws.path("stores/films")).matrix("clip")
    np.testing.assert_array_equal(found, values["clip"])


def test_a_part_comes_from_a_bucket(ws: Workspace, far: Workspace) -> None:
    boto3 = pytest.importorskip("boto3")
    values = make_store(far)
    with s3_server(ws.folder / "moto") as environment:
        endpoint = environment["AWS_ENDPOINT_URL"]
        keys = {
            "aws_access_key_id": environment["AWS_ACCESS_KEY_ID"],
            "aws_secret_access_key": environment["AWS_SECRET_ACCESS_KEY"],
            "region_name": environment["AWS_REGION"],
        }
        bucket = boto3.resource("s3", endpoint_url=endpoint, **keys).Bucket("lab")
        bucket.create()
        far("store push films s3://lab/features/films", env=environment)
        objects = {one.key: one.get()["Body"].read() for one in bucket.objects.all()}
        local = far.bytes_of("stores/films")
        assert objects == {f"features/films/{name}": local[name] for name in local}
        assert (
            "1024 with features"
            in ws("store info s3://lab/features/films", env=environment).text
        )
        ws(f"store subset s3://lab/features/films {PART} -o part", env=environment)
        check_part(ws, "part", values)
        again = far("store push films s3://lab/features/films --json", env=environment)
        assert again.json()["n_sent"] == 0


def test_a_part_comes_from_the_hub(ws, far, monkeypatch) -> None:
    values = make_store(far)
    with hub_here(monkeypatch) as hub:
        far("store push films hf://lab/films")
        assert hub.private
        assert hub.files == far.bytes_of("stores/films")
        hub.asked.clear()
        ws(f"store subset hf://lab/films {PART} -o part")
        assert len(hub.asked) <= 25
    check_part(ws, "part", values)
