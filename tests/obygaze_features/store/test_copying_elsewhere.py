from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.fake_hub import hub_here
from support.store_servers import s3_server
from support.stores import sealed_store
from support.written_stores import files_of as tree

from obygaze_features.core.errors import AlreadyThere, Corrupt, NotFound, Stopped
from obygaze_features.store import targets
from obygaze_features.store.copying import pull, push
from obygaze_features.store.reading import open_store
from obygaze_features.store.targets import BucketTarget

pytestmark = pytest.mark.check("servers of buckets and of the hub")

pytest.importorskip("obstore")
URL = "s3://films/features/toy"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with s3_server(tmp_path_factory.mktemp("moto")) as environment:
        yield environment


@pytest.fixture
def bucket(server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    boto3 = pytest.importorskip("boto3")
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    made = boto3.resource("s3", endpoint_url=server["AWS_ENDPOINT_URL"]).Bucket("films")
    made.create()
    yield made
    made.objects.all().delete()
    made.delete()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    sealed_store(tmp_path / "s")
    return tmp_path / "s"


def content(bucket: Any) -> dict[str, bytes]:
    objects = {one.key: one.get()["Body"].read() for one in bucket.objects.all()}
    return {key.removeprefix("features/toy/"): data for key, data in objects.items()}


def test_a_push_to_a_bucket_that_was_interrupted_goes_on(store, bucket, monkeypatch):
    n_puts = 7
    put = BucketTarget.put
    names: list[str] = []

    def breaking(self: BucketTarget, name: str, *given: Any) -> None:
        if len(names) == n_puts:
            raise Stopped("the connection broke off")
        names.append(name)
        put(self, name, *given)

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(BucketTarget, "put", breaking)
        push(store, URL)
    assert content(bucket).keys() == {*names, "seal.claim/seal.json"}
    with pytest.raises(NotFound, match="no store here"):
        open_store(URL)
    made = push(store, URL)
    assert made.n_sent == len(tree(store)) - n_puts
    assert content(bucket) == tree(store)


def test_a_place_inside_another_store_of_a_bucket_is_refused(tmp_path, store, bucket):
    push(store, URL)
    sealed_store(tmp_path / "other", 12)
    for place in (f"{URL}/new", f"{URL}/a/b/new"):
        with pytest.raises(AlreadyThere, match="inside another store, s3://films/feat"):
            push(tmp_path / "other", place)
    with pytest.raises(AlreadyThere, match="does not belong to this store"):
        push(tmp_path / "other", "s3://films/features")
    assert content(bucket) == tree(store)


def test_a_byte_changed_in_the_bucket_is_found(tmp_path, store, bucket, monkeypatch):
    push(store, URL)
    changed = bucket.Object("features/toy/frames/c.0.0.0")
    was = changed.get()
    data = bytearray(was["Body"].read())
    data[5] ^= 1
    changed.put(Body=bytes(data), Metadata=was["Metadata"])
    with pytest.raises(Corrupt, match=r"frames/c\.0\.0\.0"):
        pull(URL, tmp_path / "got")
    with pytest.raises(Corrupt, match=r"frames/c\.0\.0\.0"):
        open_store(URL).matrix("frames")
    assert push(store, URL).n_sent == 1
    assert content(bucket) == tree(store)
    # Buckets that encrypt with a key of their own give ETags that say nothing of the contents.
    with monkeypatch.context() as patch:
        patch.setattr(targets, "compute_etag", lambda path: "0" * 32)
        assert push(store, URL).n_sent == 0
        changed.put(Body=bytes(data))
        assert push(store, URL).n_sent == 1
    assert content(bucket) == tree(store)


def test_a_push_that_another_one_overtakes_is_stopped(store, monkeypatch) -> None:
    with hub_here(monkeypatch) as hub:
        info = hub._info

        def late(*given: object) -> tuple[int, object, dict]:
            answer = info(b"", {})
            hub.commits.append("another push")
            hub._info = info
            return answer

        hub._info = late
        with pytest.raises(Stopped, match="another process changed") as caught:
            push(store, "hf://lab/films")
        assert caught.value.exit_code == 75
        push(store, "hf://lab/films")
        assert hub.files == tree(store)
