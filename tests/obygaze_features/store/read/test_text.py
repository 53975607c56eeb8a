"""Texts that go with a store: added once, sealed with it, read with it, and copied with it."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import zarr
from support.stores import fill_store, plan_store, some_values

from obygaze_features.core.errors import AlreadyThere, Corrupt, FixInput, Mismatch
from obygaze_features.store import ArraySpec, StoreWriter, TextTable, open_store
from obygaze_features.store.read.verify import verify
from obygaze_features.store.write.edit import subset


def a_table(**changes: object) -> TextTable:
    given = {
        "embeddings": np.arange(12, dtype=np.float32).reshape(3, 4),
        "prompt": ["a close-up of a face", "a body", "ein Körper"],
        "template": ["a {} of {}", "a {}", "ein {}"],
        "attribute": ["Type of shot", "Body", ""],
        "space_id": "xclip-b16",
    }
    return TextTable(**{**given, **changes})


def filled(path: Path) -> StoreWriter:
    plan_store(path)
    return fill_store(path, some_values(23))


def check(found: TextTable | None, wanted: TextTable) -> None:
    assert found is not None
    np.testing.assert_array_equal(found.embeddings, wanted.embeddings)
    for name in ("prompt", "template", "attribute", "space_id"):
        assert getattr(found, name) == getattr(wanted, name)


def test_texts_are_read_before_and_after_the_seal(tmp_path: Path) -> None:
    writer = filled(tmp_path / "s")
    assert open_store(tmp_path / "s").text() is None
    assert writer.add_text(a_table()) is True
    assert writer.add_text(a_table()) is False
    check(open_store(tmp_path / "s").text(), a_table())
    assert not verify(tmp_path / "s", hashes=True).warnings
    seal = writer.seal()
    assert "data.zarr/text/embeddings/c.0.0" in seal.files
    check(open_store(tmp_path / "s").text(), a_table())
    assert writer.add_text(a_table()) is False
    report = verify(tmp_path / "s", hashes=True)
    assert not report.problems and not report.warnings


def test_other_texts_are_refused(tmp_path: Path) -> None:
    writer = filled(tmp_path / "s")
    writer.add_text(a_table())
    with pytest.raises(Mismatch, match="other texts"):
        writer.add_text(a_table(space_id="clip-l14"))
    writer.seal()
    with pytest.raises(Mismatch, match="other texts"):
        writer.add_text(a_table(prompt=["a", "b", "c"]))


def test_a_sealed_store_without_texts_stays_without(tmp_path: Path) -> None:
    writer = filled(tmp_path / "s")
    writer.seal()
    with pytest.raises(AlreadyThere, match="sealed"):
        writer.add_text(a_table())


def test_texts_killed_before_their_marker_are_completed(
    tmp_path: Path, monkeypatch
) -> None:
    from obygaze_features.store.write import seal

    writer = filled(tmp_path / "s")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(seal, "write_exclusive", killed)
        writer.add_text(a_table())
    assert open_store(tmp_path / "s").text() is None
    assert writer.add_text(a_table()) is True
    check(open_store(tmp_path / "s").text(), a_table())


def test_damaged_texts_are_found(tmp_path: Path) -> None:
    writer = filled(tmp_path / "s")
    writer.add_text(a_table())
    writer.seal()
    for name in ("embeddings/c.0.0", "prompt/c.0", "zarr.json", "embeddings/zarr.json"):
        file = tmp_path / "s/data.zarr/text" / name
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        original, _ = file.read_bytes(), file.write_bytes(data)
        assert [p.name for p in verify(tmp_path / "s", hashes=True).problems] == [
            f"data.zarr/text/{name}"
        ]
        with pytest.raises(Corrupt):
            open_store(tmp_path / "s").text()
        file.write_bytes(original)


def test_texts_come_along_with_a_subset(tmp_path: Path) -> None:
    writer = filled(tmp_path / "s")
    writer.add_text(a_table())
    writer.seal()
    subset(open_store(tmp_path / "s"), tmp_path / "part", films="tt0000101")
    check(open_store(tmp_path / "part").text(), a_table())


def test_xarray_and_zarr_do_not_mind(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    filled(tmp_path / "s").add_text(a_table())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opened = xarray.open_zarr(tmp_path / "s/data.zarr", consolidated=False)
        assert "clip" in opened
        texts = xarray.open_zarr(
            tmp_path / "s/data.zarr", group="text", consolidated=False
        )
        assert texts.prompt.values.tolist() == list(a_table().prompt)
        group = zarr.open_group(tmp_path / "s/data.zarr/text", mode="r")
        assert group.attrs["space_id"] == "xclip-b16"


@pytest.mark.parametrize(
    "changes",
    [
        {"prompt": ["a"]},
        {"embeddings": np.zeros((3, 0))},
        {"embeddings": np.zeros(3)},
        {"embeddings": np.full((3, 4), np.inf)},
    ],
)
def test_odd_tables_are_refused(changes) -> None:
    with pytest.raises(FixInput):
        a_table(**changes)


@pytest.mark.parametrize("name", ["texture", "text_embeds", "texts"])
def test_an_array_whose_name_begins_with_text_is_read(
    tmp_path: Path, name: str
) -> None:
    plan = plan_store(tmp_path / "s", arrays=(ArraySpec(name, (4,)),))
    values = some_values(23, plan.arrays)
    writer = fill_store(tmp_path / "s", values)
    writer.add_text(a_table())
    for _ in ("open", "sealed"):
        store = open_store(tmp_path / "s")
        np.testing.assert_array_equal(store.matrix(name).values, values[name])
        check(store.text(), a_table())
        assert not verify(store, hashes=True).problems
        writer.seal()
