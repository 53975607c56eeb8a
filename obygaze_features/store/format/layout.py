"""How a plan looks to zarr: the group, the ids, and one array a level, empty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec, ZstdCodec
from zarr.storage import MemoryStore

from obygaze_features.store.format.records import Plan
from obygaze_features.store.format.schema import ID_ARRAYS, ROW_DIM, ArraySpec

# What costs in zarr is the number of chunks, not their bytes; but a reader of one clip pays for
# its whole chunk, so blocks of large clips become shards.
ONE_CHUNK_BYTES = 8_000_000
INNER_CHUNK_BYTES = 4_000_000
ID_CHUNK_ROWS = 65_536
COMPRESSORS = ("zstd", "blosc")


def planned_arrays(
    plan: Plan, clip_ids: Sequence[str], movie_ids: Sequence[str]
) -> Iterator[tuple[str, bytes]]:
    """The files of data.zarr of a new store, by name: all metadata, and the ids."""
    memory: dict[str, Any] = {}
    group = zarr.create_group(
        MemoryStore(memory), zarr_format=3, attributes={"coordinates": " ".join(ID_ARRAYS)}
    )
    for name, ids in zip(ID_ARRAYS, (clip_ids, movie_ids), strict=True):
        array = group.create_array(
            name,
            shape=(plan.n_clips,),
            chunks=(min(plan.n_clips, ID_CHUNK_ROWS),),
            dtype="string",
            compressors=[Crc32cCodec()],
            fill_value="",
            chunk_key_encoding={"name": "default", "separator": "."},
            dimension_names=[ROW_DIM],
        )
        array[:] = np.array(ids, dtype=object)
    for spec in plan.arrays:
        _create_array(group, spec, plan)
    for key in sorted(memory):
        yield key, memory[key].to_bytes()


def _create_array(group: zarr.Group, spec: ArraySpec, plan: Plan) -> None:
    inner, shard = _chunks(spec, plan.block_rows)
    group.create_array(
        spec.name,
        shape=(plan.n_clips, *spec.tail_shape),
        chunks=(inner, *spec.tail_shape),
        shards=None if shard is None else (shard, *spec.tail_shape),
        dtype=spec.dtype,
        compressors=[*_compressor(plan.compressor), Crc32cCodec()],
        fill_value=np.nan if spec.is_float else 0,
        chunk_key_encoding={"name": "default", "separator": "."},
        dimension_names=[ROW_DIM, *spec.dims],
    )


def _chunks(spec: ArraySpec, block_rows: int) -> tuple[int, int | None]:
    if block_rows * spec.row_bytes <= ONE_CHUNK_BYTES:
        return block_rows, None
    fitting = max(1, INNER_CHUNK_BYTES // spec.row_bytes)
    inner = max(k for k in range(1, min(fitting, block_rows) + 1) if block_rows % k == 0)
    return inner, block_rows


def _compressor(name: str | None) -> list[Any]:
    if name == "zstd":
        return [ZstdCodec(level=3)]
    return [BloscCodec(cname="zstd", clevel=3, shuffle="shuffle")] if name == "blosc" else []
