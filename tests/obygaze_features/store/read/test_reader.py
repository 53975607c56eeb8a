"""Reading rows back: in any order, by film, by mask, and what is reported where rows are not."""

from __future__ import annotations

import copy
import multiprocessing
from pathlib import Path

import numpy as np
import pytest
from support.stores import (
    fill_store,
    partial_copy,
    plan_store,
    sealed_store,
    some_ids,
    some_values,
)

from obygaze_features.core.errors import FixInput, NotFound
from obygaze_features.store import RowStatus, Store, open_store
from obygaze_features.store.read.reader import Selection


@pytest.fixture
def partial(tmp_path: Path):
    """Blocks 0, 2 and 5 of six; row 1 failed, row 9 had no video, row 10 is ok with a remark."""
    plan_store(tmp_path / "s")
    values = some_values(23)
    status_of_row = {
        1: RowStatus.failed("decode", "InvalidDataError", "moov atom not found"),
        9: RowStatus.no_video("no file for it"),
        10: RowStatus("ok", message="2 of 3 frames repeat"),
    }
    fill_store(tmp_path / "s", values, status_of_row, blocks=[0, 2, 5])
    return open_store(tmp_path / "s"), values


def test_all_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    values = sealed_store(tmp_path / "s")
    store = open_store(tmp_path / "s")
    for name, array in values.items():
        found = store.matrix(name)
        assert found.values.dtype == array.dtype
        np.testing.assert_array_equal(found.values, array)
        assert found.present.all() and not found.reasons


def test_rows_come_in_the_order_asked_for_with_repeats(tmp_path: Path) -> None:
    values = sealed_store(tmp_path / "s")
    clips, _ = some_ids(23)
    asked = [clips[22], clips[0], clips[7], clips[7], clips[6]]
    found = open_store(tmp_path / "s").matrix("frames", clips=asked)
    np.testing.assert_array_equal(found.values, values["frames"][[22, 0, 7, 7, 6]])
    assert found.clip_ids.tolist() == asked
    assert found.rows.tolist() == [22, 0, 7, 7, 6]


def test_films_and_masks_select_in_the_stores_order(tmp_path: Path) -> None:
    values = sealed_store(tmp_path / "s")
    store = open_store(tmp_path / "s")
    found = store.matrix("clip", films=["tt0000103", "tt0000101"])
    np.testing.assert_array_equal(
        found.values, values["clip"][[5, 6, 7, 8, 9, 15, 16, 17, 18, 19]]
    )
    mask = np.arange(23) % 2 == 0
    np.testing.assert_array_equal(
        store.matrix("clip", mask=mask).values, values["clip"][::2]
    )
    both = store.matrix("clip", films=["tt0000101"], mask=mask)
    assert both.rows.tolist() == [6, 8]


def test_what_is_absent_is_an_error_that_names_it(partial) -> None:
    store, _ = partial
    with pytest.raises(NotFound) as caught:
        store.matrix(
            "clip", clips=["tt0000100-002", "tt0000100-001", "tt0000101-001", "nobody"]
        )
    details = "\n".join(caught.value.details)
    assert (
        "tt0000100-002: failed: decode InvalidDataError: moov atom not found" in details
    )
    assert "tt0000101-001: missing" in details
    assert "nobody: missing: no clip of that name" in details
    assert "tt0000100-001" not in details


def test_absent_rows_become_nan_or_vanish_when_asked(partial) -> None:
    store, values = partial
    clips = [
        "tt0000100-002",
        "nobody",
        "tt0000100-001",
        "tt0000102-001",
        "tt0000101-005",
    ]
    nan = store.matrix("clip", clips=clips, missing="nan")
    assert nan.present.tolist() == [False, False, True, True, False]
    assert nan.clip_ids.tolist() == clips
    assert np.isnan(nan.values[~nan.present]).all()
    np.testing.assert_array_equal(nan.values[nan.present], values["clip"][[0, 10]])
    drop = store.matrix("clip", clips=clips, missing="drop")
    assert drop.present.tolist() == nan.present.tolist()
    assert drop.clip_ids.tolist() == ["tt0000100-001", "tt0000102-001"]
    np.testing.assert_array_equal(drop.values, values["clip"][[0, 10]])
    assert set(drop.reasons) == {"tt0000100-002", "nobody", "tt0000101-005"}
    assert drop.reasons["tt0000101-005"].state == "no-video"


def test_status_counts_every_row_once(partial) -> None:
    store, _ = partial
    status = store.status()
    assert status.counts == {"ok": 9, "failed": 1, "missing": 12, "no-video": 1}
    assert status.is_ok.sum() == 9
    assert status.status_of_row[10].message == "2 of 3 frames repeat"


def test_streaming_gives_the_same_rows_block_by_block(partial) -> None:
    store, values = partial
    parts = list(store.stream("frames", missing="drop"))
    assert [len(part.rows) for part in parts] == [3, 0, 3, 0, 0, 3]
    rows = np.concatenate([part.rows for part in parts])
    assert rows.tolist() == [0, 2, 3, 8, 10, 11, 20, 21, 22]
    np.testing.assert_array_equal(
        np.concatenate([part.values for part in parts]), values["frames"][rows]
    )
    with pytest.raises(NotFound, match="14 of the requested clips"):
        next(store.stream("frames"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"clips": "tt0000100-001"}, "list of ids, got the string"),
        ({"mask": np.ones(22, dtype=bool)}, "23 booleans"),
        ({"mask": np.ones(23)}, "23 booleans"),
        ({"missing": "zero"}, "must be .error., .nan. or .drop., got .zero."),
    ],
)
def test_odd_questions_are_refused(partial, arguments, words) -> None:
    with pytest.raises(FixInput, match=words):
        partial[0].matrix("clip", **arguments)


def test_unknown_names_are_refused(partial) -> None:
    with pytest.raises(FixInput) as caught:
        partial[0].matrix("tokens")
    assert "clip, pooled, frames, time_s" in str(caught.value)
    with pytest.raises(NotFound, match="tt9"):
        partial[0].matrix("clip", films="tt9")


def test_a_store_being_filled_and_sealed_is_followed(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    values = some_values(23)
    store = open_store(tmp_path / "s")
    assert store.matrix("clip", missing="drop").values.shape == (0, 4)
    writer = fill_store(tmp_path / "s", values)
    np.testing.assert_array_equal(store.matrix("clip").values, values["clip"])
    other = open_store(tmp_path / "s")
    assert not other.sealed
    writer.seal()
    np.testing.assert_array_equal(other.matrix("frames").values, values["frames"])


OPENED: dict[str, Store] = {}


def sum_of(array: str) -> float:
    return float(OPENED["store"].matrix(array).values.sum())


def test_a_store_can_be_read_after_a_fork(tmp_path: Path) -> None:
    values = sealed_store(tmp_path / "s")
    OPENED["store"] = open_store(tmp_path / "s")
    assert sum_of("frames") == float(values["frames"].sum())
    with multiprocessing.get_context("fork").Pool(2) as pool:
        sums = pool.map_async(sum_of, ["clip", "pooled"]).get(timeout=60)
    assert sums == [float(values["clip"].sum()), float(values["pooled"].sum())]


def test_a_store_can_be_sent_to_another_process(tmp_path: Path) -> None:
    values = sealed_store(tmp_path / "s")
    store = open_store(tmp_path / "s")
    sent = copy.copy(store)  # as process pools send things
    assert sent is not store and sent.files is not store.files
    np.testing.assert_array_equal(sent.matrix("clip").values, values["clip"])


def test_an_ok_row_with_a_message_is_missing_where_its_block_was_not_fetched(
    tmp_path: Path,
) -> None:
    plan_store(tmp_path / "s")
    fill_store(
        tmp_path / "s", some_values(23), {21: RowStatus(message="a short clip")}
    ).seal()
    whole = open_store(tmp_path / "s")
    assert whole.status().counts == {"ok": 23}
    first = str(whole.movie_ids[0])
    partial_copy(tmp_path / "s", tmp_path / "part", films=[first])
    part = open_store(tmp_path / "part").status()
    assert part.status_of_row[21].state == part.status_of_row[22].state == "missing"
    assert not part.is_ok[21] and part.is_ok[0]


def test_a_frame_of_no_rows_has_the_columns_of_the_array(tmp_path: Path) -> None:
    sealed_store(tmp_path / "s")
    frame = open_store(tmp_path / "s").matrix("frames", clips=[]).to_frame()
    assert frame.shape == (0, 12)
    assert frame.columns.tolist() == [str(i) for i in range(12)]
    plan_store(tmp_path / "open")
    assert open_store(tmp_path / "open").frame("clip").shape == (0, 4)


def test_matrices_are_equal_if_clips_numbers_and_reasons_are(partial) -> None:
    store, _ = partial
    clips = store.clip_ids.tolist()[:3]
    first = store.matrix("clip", clips=clips, missing="nan")
    assert np.isnan(first.values).any()
    assert first == store.matrix("clip", clips=clips, missing="nan")
    assert first != store.matrix("pooled", clips=clips, missing="nan")
    assert first != store.matrix("clip", clips=clips[:2], missing="nan")
    assert first != store.matrix("clip", clips=clips, missing="drop")
    assert first != store.matrix(
        "clip", clips=[clips[2], clips[1], clips[0]], missing="nan"
    )
    assert first != "another thing"
    assert store.status() == open_store(store.location).status()


def test_the_blocks_of_a_stream_are_cut_without_a_look_at_all_rows_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream of n blocks took time for n x n rows: 12.7 s at a million clips."""
    sealed_store(tmp_path / "s", 23, 1)
    store = open_store(tmp_path / "s")
    expected = store.matrix("clip").values
    n_looked_at = []
    inner = Selection.__getitem__

    def counted(selection: Selection, which: object) -> Selection:
        if not isinstance(which, slice):
            n_looked_at.append(len(selection.rows))
        return inner(selection, which)

    monkeypatch.setattr(Selection, "__getitem__", counted)
    parts = [matrix.values for matrix in store.stream("clip")]
    assert len(parts) == 23
    np.testing.assert_array_equal(np.concatenate(parts), expected)
    # Once for the order, and once for each block among its own rows.
    assert sum(n_looked_at) <= 4 * 23


def test_a_stream_is_in_the_order_of_the_store_with_what_is_absent_first(
    partial,
) -> None:
    store, values = partial
    clips = store.clip_ids.tolist()
    asked = [clips[20], "nobody", clips[0], clips[9], clips[3], clips[10]]
    parts = list(store.stream("clip", clips=asked, missing="nan"))
    assert [part.clip_ids.tolist() for part in parts] == [
        ["nobody"],
        [clips[0], clips[3]],
        [clips[9], clips[10]],
        [clips[20]],
    ]
    np.testing.assert_array_equal(parts[1].values, values["clip"][[0, 3]])
    np.testing.assert_array_equal(parts[3].values, values["clip"][[20]])


def test_a_stream_of_no_clips_is_empty(tmp_path: Path) -> None:
    sealed_store(tmp_path / "s")
    store = open_store(tmp_path / "s")
    assert list(store.stream("clip", clips=[])) == []
    assert list(store.stream("clip", mask=np.zeros(23, bool))) == []
