"""Which clips share the index of their film, and when the next film's index is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from support.videos import write_video

from obygaze_features.core.files import quick_sha256
from obygaze_features.extraction.decoding import decode_rows
from obygaze_features.extraction.plan import (
    ExtractPlan,
    PlannedClip,
    PlannedWindows,
    Target,
    plan_from_bytes,
)
from obygaze_features.manifest.windows import Film, Grid
from obygaze_features.video.decoded_clip import DecodedClip, View
from obygaze_features.video.pool import DecodeJob, DecodePool, DecodeResult

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


@pytest.mark.parametrize("are_windows", [False, True])
def test_a_video_that_is_replaced_after_it_was_decoded_is_recorded_as_it_was(
    tmp_path: Path, are_windows: bool
) -> None:
    """Features of the old film were recorded as those of the new one, so nobody saw the change."""
    film = tmp_path / "film.mp4"
    new_film = tmp_path / "new.mp4"
    write_video(film, numbers=range(18), size=(64, 48))
    write_video(new_film, numbers=range(100, 140), size=(64, 48))
    before = quick_sha256(film)

    class ReplacedFilm(DecodePool):
        """Decode all clips, then replace their film."""

        def map(
            self, jobs: Iterable[DecodeJob], ahead: int = 0
        ) -> Iterator[DecodeResult]:
            results = [self.submit(job).result() for job in jobs]
            new_film.replace(film)
            yield from results

    rows: Sequence[PlannedClip] = [PlannedClip("a-1", "a", str(film))]
    if are_windows:
        rows = PlannedWindows((Film("a", str(film), 18, 24, 0.75),), Grid(8, 4))
    plan = ExtractPlan("m", "", "", rows, (), workspace=str(tmp_path))
    with ReplacedFilm(1) as pool:
        (row,) = decode_rows(plan, [(0, (View(4),))], pool, ahead=2)
    assert isinstance(row.clips[View(4)], DecodedClip)
    assert quick_sha256(film) != before
    assert row.source is not None
    assert (row.source.n_bytes, row.source.quick_sha256) == before
