"""How much is in memory at once: the batch that fits, and how far decoding runs ahead of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

# Batches are as large as fits into this much memory, and no larger than helps.
BATCH_BYTES = 1_000_000_000
MAX_BATCH = 16
# What Python and its libraries take before anything is done.
FLOOR_BYTES = 150_000_000
FLOOR_WITH_TORCH_BYTES = 700_000_000


def batch_for(activation_bytes: int, memory: int | None = None) -> int:
    """Clips in a batch: as many as fit, within reason."""
    fits = (memory or BATCH_BYTES) // max(activation_bytes, 1)
    return int(min(max(fits, 1), MAX_BATCH))


def clips_ahead(workers: int, batches: Iterable[int]) -> int:
    """How many decoded clips may wait: what the decoders hold, and the next batch beside them.

    With fewer, the decoders would rest while a batch is computed.
    """
    return 2 * workers + max(batches)


def peak_bytes(
    clip_bytes: int,
    workers: int,
    batches: Sequence[int],
    activation_bytes: Sequence[int],
    block_bytes: int,
    weights_bytes: int,
) -> int:
    """The main process at its fullest: frames waiting, batches computed, two blocks of each store.

    Batches of several backbones take turns, but each holds its pixels while it waits.
    """
    waiting = (clips_ahead(workers, batches) + 1) * clip_bytes
    computing = sum(batch * each for batch, each in zip(batches, activation_bytes, strict=True))
    floor = FLOOR_WITH_TORCH_BYTES if weights_bytes else FLOOR_BYTES
    return floor + waiting + computing + 2 * block_bytes + weights_bytes
