from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.store_servers import s3_server
from support.stores import (
    copy_of_sealed,
    fill_store,
    partial_copy,
    plan_store,
    some_values,
)

from obygaze_features.core.errors import (
    AlreadyThere,
    Corrupt,
    FixInput,
    NotFound,
    Stopped,
)
from obygaze_features.store import open_store
from obygaze_features.store.format.schema import FileMark
from obygaze_features.store.read.verify import verify
from obygaze_features.store.remote import S3Target
from obygaze_features.store.remote.fetch import pull
from obygaze_features.store.remote.object_store import network_error
from obygaze_features.store.remote.send import pack, push

pytestmark = pytest.mark.check("a server of buckets")

boto3 = pytest.importorskip("boto3")
obstore = pytest.importorskip("obstore")
URL = "s3://films/features/toy"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with s3_server(tmp_path_factory.mktemp("moto")) as environment:
        yield environment


@pytest.fixture
def bucket(server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    made = boto3.resource("s3", endpoint_url=server["AWS_ENDPOINT_URL"]).Bucket("films")
    made.create()
    yield made
    made.objects.all().delete()
    made.delete()


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    return copy_of_sealed(tmp_path / "s")


def tree(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


def content(bucket: Any) -> dict[str, bytes]:
    objects = {one.key: one.get()["Body"].read() for one in bucket.objects.all()}
    return {key.removeprefix("features/toy/"): data for key, data in objects.items()}


def test_a_store_goes_to_a_bucket_and_back(
    tmp_path: Path, sealed: Path, bucket: Any
) -> None:
    done = push(open_store(sealed), URL)
    assert content(bucket) == tree(sealed)
    assert done.n_bytes_transferred == sum(map(len, tree(sealed).values()))
    pull(URL, tmp_path / "got")
    assert tree(tmp_path / "got") == tree(sealed)


def test_it_is_read_in_place(sealed: Path, bucket: Any) -> None:
    push(open_store(sealed), URL)
    store, local = open_store(URL), open_store(sealed)
    clips = ["tt0000104-002", "tt0000100-001"]
    for array in ("clip", "frames"):
        np.testing.assert_array_equal(
            store.matrix(array, clips=clips).values,
            local.matrix(array, clips=clips).values,
        )
    verify(store, hashes=True).require_whole()


def test_what_is_there_is_not_sent_again(sealed: Path, bucket: Any) -> None:
    push(open_store(sealed), URL)
    (changed,) = (
        one for one in bucket.objects.all() if one.key.endswith("pooled/c.2.0")
    )
    changed.delete()
    again = push(open_store(sealed), URL)
    documents = sum(
        (sealed / name).stat().st_size for name in ("store.json", "seal.json")
    )
    assert (
        again.n_bytes_transferred
        == documents + (sealed / "data.zarr/pooled/c.2.0").stat().st_size
    )
    assert content(bucket) == tree(sealed)


def test_an_interrupted_push_goes_on(
    sealed: Path, bucket: Any, server: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put, calls = S3Target.put, []

    def breaking(self: S3Target, name: str, data: bytes, mark: FileMark) -> None:
        calls.append(name)
        if len(calls) > 12:
            raise Stopped("the connection broke off")
        put(self, name, data, mark)

    with monkeypatch.context() as patch:
        patch.setattr(S3Target, "put", breaking)
        with pytest.raises(Stopped):
            push(open_store(sealed), URL)
    assert 0 < len(content(bucket).keys() - {"push.json"}) <= 12
    with pytest.raises(NotFound, match=r"no store\.json"):
        open_store(URL)
    done = push(open_store(sealed), URL)
    assert done.n_files_kept == 12
    assert content(bucket) == tree(sealed)


@pytest.mark.parametrize(
    "chosen", [{"arrays": ["clip"]}, {"arrays": ["clip"], "films": ["tt0000104"]}]
)
def test_a_part_in_a_bucket_is_a_store_of_its_own(
    tmp_path: Path, sealed: Path, bucket: Any, chosen: dict[str, list[str]]
) -> None:
    pull(sealed, tmp_path / "expected", **chosen)
    assert push(open_store(sealed), URL, **chosen).part
    assert content(bucket) == tree(tmp_path / "expected")
    # The same again sends no array again.
    again = push(open_store(sealed), URL, **chosen)
    assert again.n_files_kept > 0
    assert content(bucket) == tree(tmp_path / "expected")
    # What is pulled of it is the same store.
    pull(URL, tmp_path / "got")
    assert tree(tmp_path / "got") == tree(tmp_path / "expected")
    with pytest.raises(FixInput, match="no array 'pooled'"):
        pull(URL, tmp_path / "more", arrays=["pooled"])
    # No other store, and no other part, is sent to its address.
    for other in ({}, {"arrays": ["pooled"]}, {"films": ["tt0000103"]}):
        with pytest.raises(AlreadyThere, match="another"):
            push(open_store(sealed), URL, **other)
    assert content(bucket) == tree(tmp_path / "expected")


def test_a_partial_copy_of_an_earlier_version_in_a_bucket_becomes_whole(
    tmp_path: Path, sealed: Path, bucket: Any
) -> None:
    part = partial_copy(sealed, tmp_path / "part", arrays=["pooled"])
    for name, data in tree(part).items():
        bucket.put_object(Key=f"features/toy/{name}", Body=data)
    assert open_store(URL).feature_arrays == ("pooled",)
    with pytest.raises(NotFound, match="partial"):
        open_store(URL).matrix("clip")
    push(open_store(sealed), URL)
    assert content(bucket) == tree(sealed)


@pytest.mark.parametrize("first", ["clip", "pooled"])
def test_of_two_parts_pushed_to_one_address_at_once_one_is_there(
    tmp_path: Path,
    sealed: Path,
    bucket: Any,
    monkeypatch: pytest.MonkeyPatch,
    first: str,
) -> None:
    """The second push is made while the first one has sent some of its files."""
    put, puts = S3Target.put, []
    pull(sealed, tmp_path / "expected", arrays=["clip"])

    def slow(self: S3Target, name: str, data: bytes, mark: FileMark) -> None:
        puts.append(name)
        if len(puts) == 3:
            if first == "pooled":
                with pytest.raises(AlreadyThere, match="another store"):
                    push(open_store(sealed), URL, arrays=["pooled"])
            else:  # the same part: both send it
                push(open_store(sealed), URL, arrays=["clip"])
        put(self, name, data, mark)

    monkeypatch.setattr(S3Target, "put", slow)
    push(open_store(sealed), URL, arrays=["clip"])
    assert content(bucket) == tree(tmp_path / "expected")


def another_store(path: Path) -> Path:
    plan_store(path, citation="Somebody else (2026).")
    fill_store(path, some_values(23, seed=1)).seal()
    return path


@pytest.mark.parametrize("at", [1, 2, 14])
def test_of_two_stores_pushed_to_one_address_at_once_one_is_there_whole(
    tmp_path: Path, sealed: Path, bucket: Any, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """The second push is made before the `at`-th change that the first one makes there."""
    other, put, create = (
        another_store(tmp_path / "other"),
        S3Target.put,
        S3Target.create,
    )
    changes, refused = list[str](), list[Path]()

    def try_to_push(store: Path) -> None:
        try:
            push(open_store(store), URL)
        except AlreadyThere:
            refused.append(store)

    def meet(name: str) -> None:
        changes.append(name)
        if len(changes) == at:
            try_to_push(other)

    def put_late(self: S3Target, name: str, data: bytes, mark: FileMark) -> None:
        meet(name)
        put(self, name, data, mark)

    def create_late(self: S3Target, name: str, data: bytes) -> bytes | None:
        meet(name)
        return create(self, name, data)

    monkeypatch.setattr(S3Target, "put", put_late)
    monkeypatch.setattr(S3Target, "create", create_late)
    try_to_push(sealed)
    (loser,) = refused
    winner = other if loser == sealed else sealed
    assert (winner == other) == (at == 1)
    assert content(bucket) == tree(winner)


def test_a_push_that_was_given_up_keeps_other_stores_away_until_its_claim_is_removed(
    tmp_path: Path, sealed: Path, bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(S3Target, "put", killed)
        push(open_store(sealed), URL)
    other = another_store(tmp_path / "other")
    with pytest.raises(
        AlreadyThere, match="push of another store to this address"
    ) as error:
        push(open_store(other), URL)
    assert (
        error.value.where == f"{URL}/push.json"
        and "remove this file" in error.value.hint
    )
    bucket.Object("features/toy/push.json").delete()
    push(open_store(other), URL)
    assert content(bucket) == tree(other)


def test_a_push_begun_before_the_seal_goes_on_after_it(
    tmp_path: Path, bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    plan_store(tmp_path / "s")
    writer = fill_store(tmp_path / "s", some_values(23))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(S3Target, "put", killed)
        push(open_store(tmp_path / "s"), URL)
    writer.seal()
    push(open_store(tmp_path / "s"), URL)
    assert content(bucket) == tree(tmp_path / "s")


def test_a_service_without_conditional_writes_gets_plain_ones(
    sealed: Path, bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, puts = S3Target(URL), []

    class NotSupportedError(network_error()):  # type: ignore[misc]
        pass

    class Plain:
        def put(
            self, store: Any, name: str, data: bytes, mode: Any = None, **more: Any
        ) -> None:
            puts.append(mode)
            if mode not in (None, "overwrite"):
                raise NotSupportedError("no conditions here")
            obstore.put(store, name, data, **more)

        get, delete = staticmethod(obstore.get), staticmethod(obstore.delete)

    target.obstore = Plain()
    push(open_store(sealed), target, arrays=["clip"])
    # The claim and store.json.
    assert puts.count("create") == 2 and puts.count("overwrite") == 2
    assert open_store(URL).matrix("clip").present.all()


def test_a_store_that_grows_is_pushed_as_far_as_it_is(
    tmp_path: Path, bucket: Any
) -> None:
    plan_store(tmp_path / "s")
    values = some_values(23)
    fill_store(tmp_path / "s", values, blocks=[0])
    push(open_store(tmp_path / "s"), URL)
    assert open_store(URL).status().counts == {"ok": 4, "missing": 19}
    fill_store(tmp_path / "s", values, blocks=[1, 2])
    push(open_store(tmp_path / "s"), URL)
    assert open_store(URL).status().counts == {"ok": 12, "missing": 11}
    fill_store(tmp_path / "s", values).seal()
    push(open_store(tmp_path / "s"), URL)
    store = open_store(URL)
    assert store.sealed
    np.testing.assert_array_equal(store.matrix("pooled").values, values["pooled"])


def test_a_damaged_store_is_not_pushed(sealed: Path, bucket: Any) -> None:
    (sealed / "data.zarr/clip/c.1.0").write_bytes(b"?" * 68)
    with pytest.raises(Corrupt, match=r"clip/c\.1\.0"):
        push(open_store(sealed), URL)
    with pytest.raises(NotFound):
        open_store(URL)


def test_a_byte_changed_in_the_bucket_is_found(
    tmp_path: Path, sealed: Path, bucket: Any
) -> None:
    push(open_store(sealed), URL)
    victim = bucket.Object("features/toy/data.zarr/clip/c.1.0")
    data = bytearray(victim.get()["Body"].read())
    data[5] ^= 1
    victim.put(Body=bytes(data))
    with pytest.raises(Corrupt, match=r"clip/c\.1\.0"):
        pull(URL, tmp_path / "got")
    with pytest.raises(Corrupt, match=r"clip/c\.1\.0"):
        open_store(URL).matrix("clip")
    push(open_store(sealed), URL)
    assert content(bucket) == tree(sealed)


def test_a_packed_store_in_a_bucket_is_read_in_place(
    tmp_path: Path, sealed: Path, bucket: Any
) -> None:
    pack(open_store(sealed), tmp_path / "toy.zip")
    bucket.Object("features/toy.zip").put(Body=(tmp_path / "toy.zip").read_bytes())
    np.testing.assert_array_equal(
        open_store(f"{URL}.zip").matrix("frames").values,
        open_store(sealed).matrix("frames").values,
    )
    pull(f"{URL}.zip", tmp_path / "got")
    assert tree(tmp_path / "got") == tree(sealed)
