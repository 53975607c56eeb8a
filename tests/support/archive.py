"""Writes the stores that each released version leaves in the tests for ever.

`python -m support.archive FOLDER` (from tests/) makes them with the version that is installed.
Their numbers follow a formula, so that the tests know them without this code.
"""

from __future__ import annotations

import sys
from pathlib import Path
from unittest import mock

import numpy as np

from obygaze_features.store import (
    ArraySpec,
    Recipe,
    RowStatus,
    StoreWriter,
    TextTable,
    create_store,
)
from obygaze_features.store.write import seal

ARCHIVE = Path(__file__).resolve().parents[1] / "data"
CLIPS = [
    "tt0108160-001",
    "tt0108160-002",
    "tt0108160-011",
    "tt0120338-001",
    "tt0120338-Ünïcode",
]
FILMS = ["tt0108160"] * 3 + ["tt0120338"] * 2
RECIPE = {
    "backbone": {"name": "archive", "card_sha256": "ab" * 32},
    "weights": {"model.safetensors": "cd" * 32},
    "sampling": {"rule": "uniform", "frames": 2},
    "decoder": {"name": "pyav", "version_class": "14"},
    "preprocessing": {"size": 224, "mean": [0.5, 0.5, 0.5]},
    "levels": ["clip", "frames", "tokens"],
    "compute": {"dtype": "float32", "tf32": False},
    "storage": {"clip": "float32", "frames": "float16"},
}


def values(spec: ArraySpec, n_rows: int) -> np.ndarray:
    """All rows of an array: in row r, at first index i, stands r + i / 4."""
    shape = (n_rows, spec.tail_shape[0], *[1] * (len(spec.tail_shape) - 1))
    rows, places = np.ogrid[: shape[0], : shape[1]]
    formula = (rows + places / 4).astype(spec.dtype).reshape(shape)
    return np.broadcast_to(formula, (n_rows, *spec.tail_shape))


def write(
    path: Path, arrays: list[ArraySpec], compressor: str | None, is_sealed: bool
) -> None:
    """One store of five clips in blocks of two; the third clip failed."""
    plan = create_store(
        path,
        recipe=Recipe.from_json(RECIPE),
        manifest_name="archive",
        manifest_sha256="12" * 32,
        clip_ids=CLIPS,
        movie_ids=FILMS,
        arrays=arrays,
        block_rows=2,
        licence="CC0-1.0",
        citation="Nobody (2026). Nothing.",
        compressor=compressor,
    )
    writer = StoreWriter(path)
    whole = {spec.name: values(spec, len(CLIPS)) for spec in arrays}
    for block in range(plan.n_blocks if is_sealed else plan.n_blocks - 1):
        rows = range(*plan.block_range(block))
        bad = RowStatus.failed("decode", "InvalidDataError", "moov atom not found")
        statuses = [bad if row == 2 else RowStatus() for row in rows]
        writer.commit_block(
            block, {n: v[rows.start : rows.stop] for n, v in whole.items()}, statuses
        )
    writer.add_text(
        TextTable(
            np.eye(2, 3, dtype=np.float32),
            ["a", "b"],
            ["{}", "{}"],
            ["Body", "Look"],
            "x",
        )
    )
    if is_sealed:
        writer.seal()


def write_format_2(path: Path) -> None:
    """A sealed store of 17 clips in blocks of two: of format 2, with an index."""
    films = [f"tt{row // 5:07d}" for row in range(17)]
    spec = ArraySpec("clip", (3,))
    create_store(
        path,
        recipe=Recipe.from_json(RECIPE),
        manifest_name="archive",
        manifest_sha256="12" * 32,
        clip_ids=[f"{film}-{row:03d}" for row, film in enumerate(films)],
        movie_ids=films,
        arrays=[spec],
        block_rows=2,
        licence="CC0-1.0",
        citation="Nobody (2026). Nothing.",
    )
    writer = StoreWriter(path)
    whole = values(spec, 17)
    for block in range(writer.plan.n_blocks):
        first, after = writer.plan.block_range(block)
        writer.commit_block(block, {"clip": whole[first:after]})
    with mock.patch.object(seal, "INDEX_ROWS", 1):
        writer.seal()


def write_all(folder: Path) -> None:
    """A sealed store of chunks, and one still being filled, of compressed shards."""
    chunks = [
        ArraySpec("clip", (3,)),
        ArraySpec("frames", (2, 3), dtype="float16"),
        ArraySpec("time_s", (2,), dtype="float64"),
    ]
    write(folder / "sealed", chunks, None, True)
    write(
        folder / "growing",
        [ArraySpec("tokens", (1100, 1024), dtype="float32")],
        "zstd",
        False,
    )


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
