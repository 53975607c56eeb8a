"""What the commands of the store take, print and end with; the stories have what they do."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.cli import Result, call_obygaze
from support.filled_stores import compute, plan, values_of
from support.stores import made_store, sealed_store, some_values

import obygaze as og
from obygaze_features.store.rows import Row

Typed = Callable[..., Result]


@pytest.fixture
def typed(tmp_path: Path) -> Typed:
    """Types `obygaze store ...` in a workspace, and demands the exit code."""

    def call(*words: str | Path, code: int = 0) -> Result:
        done = call_obygaze("store", *words, cwd=tmp_path)
        assert done.code == code, f"{done.code}\n{done.stdout}\n{done.stderr}"
        return done

    return call


def test_one_text_where_names_are_expected_is_one_name(tmp_path: Path) -> None:
    rows = [Row(str(number), "film") for number in range(12)]
    made_store(tmp_path / "stores" / "films", rows, some_values(12))
    rest = tmp_path / "rest"
    og.store.subset("films", rest, without="10", workspace=tmp_path)
    assert {str(number) for number in range(12)} - {*og.open_store(rest)} == {"10"}
    part = tmp_path / "part"
    og.store.subset("films", part, films="film", arrays="clip", workspace=tmp_path)
    assert og.open_store(part).feature_arrays == ("clip",)
    og.store.export("films", tmp_path / "x.npz", arrays="clip", workspace=tmp_path)
    with np.load(tmp_path / "x.npz") as arrays:
        assert "clip" in arrays and "pooled" not in arrays


def test_a_store_that_is_being_filled(tmp_path: Path, typed: Typed) -> None:
    (tmp_path / "stores").mkdir()
    filling = plan(tmp_path / "stores" / "more")
    for block in (0, 3):
        compute(filling, block, values_of())
    for words in (["info", "more"], ["verify", "more"], ["pull", "more", "-o", "x"]):
        done = typed(*words, code=4)
        assert "being filled, 2 blocks finished" in done.stderr
        assert "the same extraction again" in done.stderr
    listed = og.ls(workspace=tmp_path)
    assert [one.has for one in listed.entries] == ["being filled, 2 blocks finished"]
    # A finished store of this name is read, and both are lines of the list.
    sealed_store(tmp_path / "elsewhere" / "more")
    (tmp_path / "elsewhere" / "more").rename(tmp_path / "stores" / "more")
    assert "23 clips" in typed("info", "more").stdout
    listed = og.ls(workspace=tmp_path)
    assert [one.name for one in listed.entries] == ["more", "more.next"]
