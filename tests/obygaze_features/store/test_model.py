"""Hypothesis against a model: a store behaves like NumPy arrays with a status for each row."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.stores import block_of, plan_store, some_ids, some_values

from obygaze_features.core.errors import NotFound
from obygaze_features.store import ArraySpec, RowStatus, StoreWriter, open_store
from obygaze_features.store.write.edit import merge, subset

STATES = [
    RowStatus(),
    RowStatus("ok", message="a frame repeats"),
    RowStatus.failed("decode", "Error", "why"),
    RowStatus.no_video("gone"),
]
QUICK = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

dtypes = st.sampled_from(["float16", "float32", "float64"])
tails = st.lists(st.integers(1, 5), max_size=3).map(tuple)


@st.composite
def arrays(draw: st.DrawFn) -> tuple[ArraySpec, ...]:
    """One to three arrays of any rank, and sometimes a mask of booleans."""
    specs = [
        ArraySpec(f"level{i}", draw(tails), dtype=draw(dtypes))
        for i in range(draw(st.integers(1, 3)))
    ]
    mask = [ArraySpec("mask", draw(tails), dtype="bool")] if draw(st.booleans()) else []
    return (*specs, *mask)


@st.composite
def a_store(draw: st.DrawFn) -> dict[str, Any]:
    """A plan, a status for each row, and an order in which some of the blocks are committed."""
    n_clips = draw(st.integers(1, 40))
    block_rows = draw(st.integers(1, 12))
    n_blocks = -(-n_clips // min(block_rows, n_clips))
    order = draw(st.lists(st.integers(0, n_blocks - 1), max_size=2 * n_blocks))
    return {
        "n_clips": n_clips,
        "block_rows": block_rows,
        "arrays": draw(arrays()),
        "compressor": draw(st.sampled_from([None, None, "zstd", "blosc"])),
        "statuses": draw(
            st.lists(st.sampled_from(STATES), min_size=n_clips, max_size=n_clips)
        ),
        "order": order,
        "complete": draw(st.booleans()),
        "seed": draw(st.integers(0, 2**32 - 1)),
    }


def built(
    path: Path, made: dict[str, Any]
) -> tuple[dict[str, np.ndarray], list[RowStatus]]:
    """Write it; the model is the values and what each row must be reported as."""
    plan = plan_store(
        path,
        made["n_clips"],
        made["block_rows"],
        arrays=made["arrays"],
        compressor=made["compressor"],
    )
    values = some_values(made["n_clips"], made["arrays"], made["seed"])
    order = made["order"] + (list(range(plan.n_blocks)) if made["complete"] else [])
    writers, done = [StoreWriter(path), StoreWriter(path)], set()
    for turn, block in enumerate(order):
        rows = plan.block_range(block)
        committed = writers[turn % 2].commit_block(
            block, block_of(values, rows), made["statuses"][slice(*rows)]
        )
        assert committed is (block not in done)
        done.add(block)
    assert writers[0].pending_blocks() == [
        b for b in range(plan.n_blocks) if b not in done
    ]
    if made["complete"]:
        writers[1].seal()
    missing = RowStatus("missing")
    expected = [
        status if row // plan.block_rows in done else missing
        for row, status in enumerate(made["statuses"])
    ]
    return values, expected


def with_nan(values: np.ndarray, rows: np.ndarray, ok: np.ndarray) -> np.ndarray:
    out = np.full((len(rows), *values.shape[1:]), np.nan, values.dtype)
    out[ok] = values[rows[ok]]
    return out


@QUICK
@given(made=a_store(), data=st.data())
def test_every_question_has_numpys_answer(
    made: dict[str, Any], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        values, expected = built(Path(folder) / "s", made)
        store = open_store(Path(folder) / "s")
        clips, films = some_ids(made["n_clips"])
        is_ok = np.array([status.is_ok for status in expected])
        assert store.status().is_ok.tolist() == is_ok.tolist()
        assert store.feature_arrays == tuple(
            spec.name for spec in made["arrays"] if spec.dtype != "bool"
        )

        asked = data.draw(st.lists(st.integers(0, made["n_clips"] - 1), max_size=30))
        rows = np.array(asked, dtype=np.int64)
        names = [clips[row] for row in asked]
        ok = is_ok[rows]
        for spec in made["arrays"]:
            array = values[spec.name]
            drop = store.matrix(spec.name, clips=names, missing="drop")
            np.testing.assert_array_equal(drop.values, array[rows[ok]])
            assert drop.present.tolist() == ok.tolist()
            assert drop.clip_ids.tolist() == [
                n for n, there in zip(names, ok, strict=True) if there
            ]
            assert {c: s.state for c, s in drop.reasons.items()} == {
                clips[row]: expected[row].state
                for row in asked
                if not expected[row].is_ok
            }
            if spec.dtype != "bool":
                nan = store.matrix(spec.name, clips=names, missing="nan")
                np.testing.assert_array_equal(nan.values, with_nan(array, rows, ok))
            try:
                whole = store.matrix(spec.name, clips=names)
                assert ok.all()
                np.testing.assert_array_equal(whole.values, array[rows])
            except NotFound:
                assert not ok.all()

        wanted = data.draw(st.sets(st.sampled_from(films)))
        mask = np.array(
            data.draw(st.lists(st.booleans(), min_size=len(clips), max_size=len(clips)))
        )
        chosen = np.isin(films, list(wanted)) & mask & is_ok
        spec = made["arrays"][0]
        found = store.matrix(spec.name, films=wanted, mask=mask, missing="drop")
        np.testing.assert_array_equal(found.values, values[spec.name][chosen])
        parts = [
            part.values for part in store.stream(spec.name, mask=mask, missing="drop")
        ]
        streamed = np.concatenate(parts) if parts else values[spec.name][:0]
        np.testing.assert_array_equal(streamed, values[spec.name][mask & is_ok])


@settings(QUICK, max_examples=15)
@given(made=a_store(), data=st.data())
def test_parts_of_a_store_merge_into_the_whole(
    made: dict[str, Any], data: st.DataObject
) -> None:
    made = {**made, "complete": True}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        values, expected = built(root / "s", made)
        whole = open_store(root / "s")
        bits = data.draw(
            st.lists(st.booleans(), min_size=made["n_clips"], max_size=made["n_clips"])
        )
        masks = [mask for mask in (np.array(bits), ~np.array(bits)) if mask.any()]
        parts = []
        for i, mask in enumerate(masks):
            assert subset(whole, root / f"part{i}", mask=mask).sealed
            parts.append(open_store(root / f"part{i}"))
            assert parts[-1].clip_ids.tolist() == whole.clip_ids[mask].tolist()
        assert merge(parts, root / "merged").sealed
        merged = open_store(root / "merged")
        assert merged.clip_ids.tolist() == whole.clip_ids.tolist()
        assert merged.fingerprint == whole.fingerprint
        assert merged.status().status_of_row == whole.status().status_of_row
        for spec in made["arrays"]:
            found = merged.matrix(spec.name, missing="drop")
            np.testing.assert_array_equal(found.values, values[spec.name][found.rows])
            assert len(found.rows) == sum(status.is_ok for status in expected)
