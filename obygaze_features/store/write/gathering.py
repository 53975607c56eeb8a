"""The files with copies of all blocks of a small array, which is read from one of them at once."""

from collections.abc import Callable, Iterator, Mapping

from obygaze_features.store.format.chunks import ChunkLayout
from obygaze_features.store.format.names import gathered_key
from obygaze_features.store.format.records import Plan, Seal
from obygaze_features.store.format.schema import ArraySpec, FileMark

# Requests for fewer blocks are on their way at the same time.
MIN_BLOCKS = 8
# A larger array would double a store; its blocks are larger too, so that requests cost less.
MAX_BYTES = 32_000_000


def gathered_arrays(
    plan: Plan,
    layout_of: Callable[[str], ChunkLayout],
    seal: Seal,
    kept: Mapping[str, FileMark],
) -> Iterator[ArraySpec]:
    """Yield the arrays of which a new seal lists a file with copies of all blocks.

    They are those that are small, of many blocks, with one chunk in each, and those that have such
    a file in the version before. The checksums of all chunks must be known.
    """
    for spec in plan.arrays:
        n_bytes = plan.n_blocks * plan.block_rows * spec.row_bytes
        is_small = plan.n_blocks >= MIN_BLOCKS and n_bytes <= MAX_BYTES
        words = seal.crc32c.get(spec.name, "").split()
        has_one_chunk_each = not layout_of(spec.name).is_shard
        if gathered_key(spec.name) in kept or (
            is_small and has_one_chunk_each and len(words) == plan.n_blocks
        ):
            yield spec


def gathered_files(
    plan: Plan,
    layout_of: Callable[[str], ChunkLayout],
    seal: Seal,
    read_block: Callable[[str, FileMark], bytes],
    kept: Mapping[str, FileMark],
) -> Iterator[tuple[str, bytes]]:
    """Yield the files with copies of blocks that a new seal lists, with their names.

    Args:
        plan: The plan of the store.
        layout_of: Returns how an array is stored.
        seal: The seal, which lists the files of all blocks.
        read_block: Returns a file of a block, compared with its mark.
        kept: The files of the version before: a file whose blocks are all there is not yielded.
    """
    for spec in gathered_arrays(plan, layout_of, seal, kept):
        name = gathered_key(spec.name)
        blocks = [plan.block_key(spec.name, block) for block in range(plan.n_blocks)]
        is_same = all(seal.files[block] == kept.get(block) for block in blocks)
        if name in kept and is_same:
            continue
        yield name, b"".join(read_block(block, seal.files[block]) for block in blocks)
