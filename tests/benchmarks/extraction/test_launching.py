"""What the thread that feeds a GPU does for a clip, counted on a GPU that computes nothing."""

from __future__ import annotations

from pathlib import Path

from benchmarks.extraction.launching import (
    BATCH,
    KERNELS,
    N_BACKBONES,
    N_FRAMES,
    Launching,
    launching_run,
)


def test_pictures_are_prepared_a_batch_at_a_time(tmp_path: Path) -> None:
    """What is launched beside the forward passes was, for each clip, 253 in place of 42."""
    n_clips = 2 * BATCH
    gpu, seconds = launching_run(tmp_path, n_clips)
    of_forward = N_BACKBONES * KERNELS * n_clips / BATCH
    assert gpu.n_launches > of_forward
    assert (gpu.n_launches - of_forward) / n_clips < 50
    # The numbers of the pictures of each clip, of 8 bytes, for each backbone.
    assert gpu.staged_bytes == n_clips * N_BACKBONES * N_FRAMES * 8
    assert gpu.blocking_copies == N_BACKBONES
    assert gpu.locked == {} and seconds > 0


def test_clips_a_second_are_those_of_the_median_run() -> None:
    found = Launching([1.28, 0.64, 12.8], 200.0, 0.0)
    assert found.clips_a_second == 100.0
    assert "100.0" in found.to_text()
