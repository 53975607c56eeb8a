"""Which clips share the index of their film, and when the next film's index is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from obygaze_features.extraction.decoding import decode_rows
from obygaze_features.extraction.plan import (
    ExtractPlan,
    PlannedClip,
    Target,
    plan_from_bytes,
)
from obygaze_features.video.decoded_clip import View
from obygaze_features.video.pool import DecodeJob, DecodeResult

ROWS = (
    PlannedClip("a-1", "a", "a.avi", 0.0, 5.0),
    PlannedClip("a-2", "a", "a.avi", 5.0, None),
    PlannedClip("b-1", "b", "b.mp4"),
    PlannedClip("b-2", "b", ""),
    PlannedClip("c-1", "c", "c.ts", 0.0, 5.0),
    PlannedClip("d-1", "d", "d.mkv", 0.0, 5.0),
    PlannedClip("d-2", "d", "d.mkv", 9.0, 10.0),
)


class RecordingPool:
    """Record jobs in the order in which a pool gets them; each is done at once."""

    def __init__(self) -> None:
        self.jobs: list[DecodeJob] = []

    def submit(self, job: DecodeJob) -> None:
        self.jobs.append(job)

    def map(self, jobs: Iterable[DecodeJob], *, ahead: int) -> Iterator[DecodeResult]:
        for job in jobs:
            self.jobs.append(job)
            yield DecodeResult(job, {}, None, 0.0)


@pytest.mark.parametrize("workspace", ["here", "there"])
def test_clips_of_one_film_share_its_index(workspace: str) -> None:
    plan = ExtractPlan("m", "", "", ROWS, (), workspace=workspace)
    pool, views = RecordingPool(), (View(4),)
    jobs = [(row, views) for row in range(len(ROWS))]
    assert len(list(decode_rows(plan, jobs, pool, ahead=2))) == len(ROWS)  # type: ignore[arg-type]
    folder = str(Path(workspace) / "indexes")
    # The index of the next film is made beside the clips of the film before it.
    assert [(job.path, len(job.views), job.indexes) for job in pool.jobs] == [
        ("d.mkv", 0, folder),
        ("a.avi", 1, folder),
        ("a.avi", 1, folder),
        ("b.mp4", 1, None),
        ("c.ts", 1, None),
        ("d.mkv", 1, folder),
        ("d.mkv", 1, folder),
    ]


def test_a_plan_is_written_the_same_after_its_films_are_counted() -> None:
    plan = ExtractPlan("m", "", "", ROWS, (Target("s", "descriptors"),))
    before = plan.to_bytes()
    assert plan.shared_films == {"a.avi", "d.mkv"}
    assert plan.to_bytes() == before
    assert plan_from_bytes(before, "x") == plan
