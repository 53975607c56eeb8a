"""Stores that are filled by blocks: a plan, workers, and what the sealed store must hold."""

from pathlib import Path

import numpy as np

from obygaze_features.store.filling import Filling, choose_block, plan_filling
from obygaze_features.store.layout import Array
from obygaze_features.store.records import ComputeSetup, Maker
from obygaze_features.store.rows import FAILED, Row
from support.written_stores import MANIFEST, a_recipe, some_rows, some_values

KIND = ComputeSetup("cpu", "float32")
MAKER = Maker("obygaze 1", "cpu", "a cpu", "float32")
# A block of 16 is a file, in chunks that are shorter or as long.
POOLED = Array("pooled", "float32", (16,), ("d16",), 8, 64)
FRAMES = Array("frames", "float16", (2, 16), ("t2", "d16"), 32, 32)
TOKENS = Array("tokens", "float16", (2, 4, 16), ("t2", "p4", "d16"), 4, 16)
ARRAYS = (POOLED, FRAMES, TOKENS)
N_ROWS = 94
N_BLOCKS = 6


def planned_rows(n_rows: int = N_ROWS) -> list[Row]:
    rows = some_rows(n_rows)
    return [
        row._replace(start_s=number / 2, end_s=number / 2 + 1) if number % 2 else row
        for number, row in enumerate(rows)
    ]


def computed_row(row: Row, number: int, fails: bool) -> Row:
    if fails:
        return row._replace(status=FAILED, reason="no picture, at all")
    return row._replace(video_bytes=number, video_hash=f"{number:016x}", pictures=16)


def fails_at_first(number: int) -> bool:
    return number % 7 == 3


def values_of(seed: int = 0, n_rows: int = N_ROWS) -> dict[str, np.ndarray]:
    return {array.name: some_values(array, n_rows, seed) for array in ARRAYS}


def expected_rows(n_rows: int = N_ROWS, fails=fails_at_first) -> list[Row]:
    return [
        computed_row(row, number, fails(number))
        for number, row in enumerate(planned_rows(n_rows))
    ]


def plan(target: Path, n_rows: int = N_ROWS, **more) -> Filling:
    """NAME.next of the target; `rows` are others than those that are planned."""
    rows = more.pop("rows", planned_rows(n_rows))
    given = {"arrays": ARRAYS, "recipe": a_recipe(), "manifest": MANIFEST, "kind": KIND}
    return plan_filling(target, rows, **(given | more))


def compute(
    filling: Filling,
    block: int,
    values: dict,
    fails=fails_at_first,
    maker: Maker = MAKER,
) -> bool | None:
    """Compute a block, as a worker does; None if that was not needed any more."""
    writer = filling.begin(block, maker)
    if writer is None:
        return None
    with writer:
        for number in writer.rows:
            row = computed_row(filling.rows[number], number, fails(number))
            if row.is_ok:
                names = [array.name for array in filling.arrays]
                writer.add(row, {name: values[name][number] for name in names})
            else:
                writer.add(row)
        return writer.commit()


def next_block(filling: Filling, start: int) -> int | None:
    """The block that a worker computes next; None if none is left, or the store is sealed."""
    if not filling.folder.exists():
        return None
    return choose_block(filling.needed, *filling.list_blocks(), start)


def fill(filling: Filling, values: dict, start: int = 0, fails=fails_at_first) -> int:
    """Compute blocks until none is left; return how many this worker has computed."""
    n_computed = 0
    while (block := next_block(filling, start)) is not None:
        n_computed += compute(filling, block, values, fails) is True
    return n_computed
